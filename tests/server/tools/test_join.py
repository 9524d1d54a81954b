"""`join` through real clients of both generations: who takes part, presence, leaving, and what others see (F70)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import boards
import pytest

mode, both = boards.mode, boards.both

ALL = ("core", "run", "messages", "admin")


@pytest.fixture
async def board(tmp_path: Path, mode: str) -> AsyncIterator[Any]:
    async with boards.open_boards(tmp_path, mode, tools=ALL) as opened:
        yield opened


@both
async def test_who_joins_is_told_who_else_takes_part(board: Any, mode: str) -> None:
    ann, ben = await board.join("ann", "ben")
    text = await ann.say("join", role="writes the report")
    assert text.splitlines() == [
        "you are ann: writes the report",
        "nobody else takes part yet",
        "turn() waits for your turn, wait() for news",
        "seq 2",
    ]
    board.clock.advance(5)
    text = await ben.say("join", role="reviews patches", skills=["sql", "python"])
    assert text.splitlines()[:-1] == [
        "you are ben: reviews patches · skills python, sql",
        "here:",
        "ann 5s: writes the report",
        "turn() waits for your turn, wait() for news",
    ]
    answer = await ann.do("join")
    assert (answer["you"]["role"], [one["agent"] for one in answer["others"]]) == (
        "writes the report",
        ["ben"],
    )
    assert answer["others"][0]["skills"] == ["python", "sql"]
    assert answer["seq"] == await board.seq()


@both
async def test_again_changes_what_is_given(board: Any, mode: str) -> None:
    ann = await board.join("ann")
    await ann.do("join", role="writes", skills=["sql"], interests=[{"type": "CRITIQUE"}])
    told = (await ann.do("join", role="reads"))["you"]
    assert (told["role"], told["skills"], told["interests"]) == ("reads", ["sql"], [{"type": "CRITIQUE"}])
    told = (await ann.do("join", skills=[], interests=[]))["you"]
    assert (told["role"], told["skills"], told["interests"]) == ("reads", [], [])
    events = (await ann.do("read", since=0))["events"]
    assert [e["event"] for e in events if e["event"].startswith("agent.")] == [
        *("agent.joined", "agent.changed", "agent.changed")
    ]


@both
async def test_who_made_no_call_for_a_while_is_away(board: Any, mode: str) -> None:
    ann, ben = await board.join("ann", "ben")
    await ann.do("join", role="writes")
    await ben.do("join", role="reads")
    board.clock.advance(901)
    assert (await ben.say("join")).splitlines()[1:3] == ["away:", "ann 15m: writes"]
    await ann.say("read")
    assert (await ben.say("join")).splitlines()[1:3] == ["here:", "ann 0s: writes"], "before it is written"


@both
async def test_without_arguments_nobody_joins(board: Any, mode: str) -> None:
    ann = await board.join("ann")
    assert (await ann.say("join")).splitlines()[:2] == [
        'you take no part: join(role="…", skills=["…"]) does',
        "nobody else takes part yet",
    ]
    answer = await ann.do("join")
    assert (answer["you"], answer["others"]) == (None, [])


@both
async def test_leaving_tells_what_it_gave_up(board: Any, mode: str) -> None:
    ann, ben = await board.join("ann", "ben")
    await ben.do("join", role="reviews", skills=["sql"])
    await ann.post("what do you say, @ben?", "QUESTION")
    await ben.do("debate", op="watch", id="tag:news")
    text = await ben.say("join", leave="my shift is over")
    assert text.splitlines() == ["you left", "waived: Q-1, tag:news", f"seq {await board.seq()} · 1 unseen"]
    failure = await ben.fail("join", leave=True)
    assert failure["error"] == "refused"
    assert (await ann.do("join"))["others"] == []
    text = await ann.say("wait", since=0, seconds=0)
    assert 'agent.left by ben: waived Q-1 ("my shift is over")' in text
    assert 'agent.joined by ben: "reviews"; skills sql' in text


@both
async def test_true_as_a_word_leaves_and_false_does_not(board: Any, mode: str) -> None:
    ann = await board.join("ann")
    await ann.do("join", role="writes", leave=False)
    assert (await ann.do("join", leave="false"))["you"]["role"] == "writes"
    answer = await ann.do("join", leave="true")
    assert answer["you"] is None
    events = (await ann.do("read", since=0))["events"]
    assert events[-1]["data"] == {}


@both
async def test_what_is_not_allowed_is_refused_by_name(board: Any, mode: str) -> None:
    ann = await board.join("ann")
    await ann.post("x", "LOG")
    before = await board.seq()
    for said, word in (
        ({"role": "x" * 161}, "160"),
        ({"role": "two\nlines"}, "one line"),
        ({"skills": ["No Skill"]}, "No Skill"),
        ({"interests": [{"what": 1}]}, "what"),
        ({"interests": [{"thread": "F-9"}]}, "no item 9"),
        ({"interests": [{}] * 11}, "interests"),
        ({"protocols": ["grounding", "esperanto"]}, "no protocol 'esperanto'; there are: request-result, "),
        ({"protocols": ["x"] * 33}, "protocols"),
        ({"role": "writes", "leave": True}, "leave alone"),
        ({"leave": "x" * 301}, "leave"),
    ):
        failure = await ann.fail("join", **said)
        assert word in failure["message"], said
    assert await board.seq() == before


@both
async def test_agents_say_which_protocols_they_speak(board: Any, mode: str) -> None:
    ann, ben = await board.join("ann", "ben")
    text = await ann.say("join", role="checks", protocols=["work-assignment", "grounding"])
    assert text.splitlines()[0] == "you are ann: checks · speaks grounding, work-assignment"
    told = (await ben.do("join"))["others"][0]
    assert (told["agent"], told["protocols"]) == ("ann", ["grounding", "work-assignment"])
    await ann.do("join", role="judges")
    events = [e for e in (await ben.do("read", since=0))["events"] if e["event"].startswith("agent.")]
    assert [e["data"]["protocols"] for e in events] == [["grounding", "work-assignment"]] * 2
    await ann.do("join", protocols=[])
    assert (await ben.do("join"))["others"][0]["protocols"] == []


async def test_interests_name_threads_by_their_first_items(board: Any) -> None:
    ann, ben = await board.join("ann", "ben")
    await ann.post("a claim", "HYPOTHESIS")
    await ben.post("so it is", "REPLY", edges={"replies_to": ["H-1"]})
    await ben.post("my own", "LOG", visibility="private")
    told = (await ben.do("join", interests=[{"thread": "R-2"}]))["you"]
    assert told["interests"] == [{"thread": 1}]
    assert (await ben.fail("join", interests=[{"thread": "L-3"}]))["error"] == "not_found"


@both
async def test_views_name_the_roles_of_who_is_here(board: Any, mode: str) -> None:
    ann, ben, cyd = await board.join("ann", "ben", "cyd")
    await ann.do("join", role="tests (all) · of it, and of much more than fits here")
    await ben.do("join", role="")
    await cyd.post("x", "LOG")
    assert "ann (tests [all] - of it, and of much more…) 0s" in await cyd.say("read")
    assert "ben 0s" in await cyd.say("read")
    await ann.do("join", leave=True)
    assert "ann 0s" in await cyd.say("read")


@both
async def test_the_resource_of_agents_shows_who_takes_part(board: Any, mode: str) -> None:
    ann, ben = await board.join("ann", "ben")
    await ann.post("x", "LOG")
    await ben.do("join", role="reviews", skills=["sql"])
    board.clock.advance(901)
    text = await ann.resource("board://main/agents")
    assert text.splitlines() == [
        "ann: 1 posts, last 2026-11-21 09:00:00Z",
        "ben: 0 posts, last 2026-11-21 09:00:00Z; takes part, away: reviews · skills sql",
    ]
    facts = await ann.facts("board://main/agents.json")
    assert [a["name"] for a in facts["agents"]] == ["ann", "ben"]
    assert [(p["agent"], p["role"], p["skills"], p["present"]) for p in facts["participants"]] == [
        ("ben", "reviews", ["sql"], False)
    ]


async def test_a_view_sends_nobody_to_judge_an_answer_that_nobody_owes_any_more(board: Any) -> None:
    alice, bob, carol = await board.join("alice", "bob", "carol")
    await alice.post("The pump holds 9 bar.")
    await alice.do("join", role="hydraulics")
    await bob.post("It burst at 8.", "CRITIQUE", edges={"critiques": ["F-1"]})
    assert "waits for alice: answer C-2; then bob: judge" in (await carol.say("read")).splitlines()
    await alice.do("join", leave="done for today")
    ends = 'debate(op="decide", id="F-1", outcome="stands|falls|amended", reason="…")'
    view = (await carol.say("read")).splitlines()
    assert f"waits for nobody by name: {ends} ends it" in view
    view = (await bob.say("read")).splitlines()
    assert f"waits for nobody by name: {ends} ends it, once another owner confirms it" in view
    message = (await bob.fail("debate", op="acknowledge", id="F-1"))["message"]
    assert f"Nobody is asked for it any more: {ends} ends the debate" in message
    assert "wakes you" not in message
    assert message.endswith(
        " ends the debate, a critic's decision once another owner confirms it; "
        'debate(op="withdraw", id="C-2") takes your critique back.'
    )
    call = 'post(type="REPLY", edges={"replies_to": ["C-2"]}, text="…")'
    back = [line for line in (await alice.say("read")).splitlines() if line.startswith("waits for ")]
    assert back == [
        f"waits for others to decide it; to answer C-2: {call}; to give it up: "
        'debate(op="concede", id="F-1", reason="…")'
    ]
    message = (await alice.fail("debate", op="acknowledge", id="F-1"))["message"]
    assert f"You answer with {call}" in message
    assert "away" not in message, "alice is here"
    await carol.do("board", lifecycle="settled")
    assert "to answer C-2" not in await alice.say("read"), "the answer would be refused"
    decided = await bob.say("debate", op="decide", id="F-1", outcome="falls", reason="It burst.")
    assert "waits for another owner to confirm it" in decided, "bob is the critic"
    await carol.do("debate", op="decide", id="F-1", outcome="falls", reason="It burst.")
    assert "F-1 by alice falls" in await carol.say("read")


async def test_a_view_sends_nobody_to_judge_while_a_decision_on_an_answer_that_nobody_owes_waits(
    board: Any,
) -> None:
    alice, bob, carol = await board.join("alice", "bob", "carol")
    await alice.post("The pump holds 9 bar.")
    await alice.do("join", role="hydraulics")
    await bob.post("It burst at 8.", "CRITIQUE", edges={"critiques": ["F-1"]})
    await alice.do("join", leave="done for today")
    await bob.do("debate", op="decide", id="F-1", outcome="falls", reason="It burst.")
    confirm = 'debate(op="confirm", id="F-1", outcome="falls")'
    assert (
        f'waits for another owner to confirm it: bob decides that F-1 falls: "It burst." → {confirm}'
        in (await carol.say("read")).splitlines()
    )
