"""Votes through real clients of both generations: quorums, owners, and what `status` and views say of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boards
import pytest

board, mode, both = boards.board, boards.mode, boards.both


async def dispute(boards_: Any, **settings: int) -> tuple[Any, Any, Any, Any]:
    """Alice's F-1, criticised by Bob in C-2; Carol and Dave look on."""
    alice, bob, carol, dave = await boards_.join("alice", "bob", "carol", "dave")
    await alice.post("The pump holds 9 bar.")
    await bob.post("It burst at 8.", "CRITIQUE", edges={"critiques": ["F-1"]})
    if settings:
        await alice.do("board", settings=settings)
    return alice, bob, carol, dave


async def answered(boards_: Any, **settings: int) -> tuple[Any, Any, Any, Any]:
    """The same, and what Alice says to it in R-3."""
    alice, bob, carol, dave = await dispute(boards_, **settings)
    await alice.post("But.", "REPLY", edges={"replies_to": ["C-2"]})
    return alice, bob, carol, dave


@both
async def test_a_quorum_of_owners_closes_a_debate(board: Any, mode: str) -> None:
    alice, bob, carol, dave = await dispute(board, quorum=2)
    first = await carol.do("debate", op="vote", id="F-1", reason="I measured it")
    assert (first["state"], first["quorum"], first["votes_for"], first["votes_against"]) == (
        "OPEN",
        2,
        ["carol"],
        [],
    )
    assert first["votes"] == [
        {"owner": "carol", "agent": "carol", "approve": True, "version": 1, "reason": "I measured it"}
    ]
    assert first["author_owner"] == "alice"
    last = await dave.do("debate", op="vote", id="C-2", approve=True)
    assert (last["state"], last["outcome"], last["closed_by"], last["closes"]) == (
        "CONSENSUS",
        "stands",
        "dave",
        "",
    )
    assert (await alice.item("F-1"))["status"] == "ACTIVE"
    events = [e["event"] for e in (await bob.do("read", since=0))["events"]]
    assert events.count("debate.voted") == 2


async def test_what_is_voted_down_is_invalidated(board: Any) -> None:
    alice, bob, carol, _ = await dispute(board, quorum=2)
    await alice.post("No.", "REPLY", edges={"replies_to": ["C-2"]})
    said = await bob.say("debate", op="vote", id="F-1", approve=False)
    assert "acknowledge F-1 (bob)" in said
    assert "agreed:" not in said, "to vote against is not to agree"
    last = await carol.do("debate", op="vote", id="F-1", approve=False, reason="it leaks")
    assert (last["state"], last["outcome"]) == ("CONSENSUS", "falls")
    assert (await alice.item("F-1"))["status"] == "INVALIDATED"


async def test_status_says_who_is_missing_and_what_would_close_it(board: Any) -> None:
    alice, bob, carol, _ = await dispute(board)
    said = (await carol.say("debate", op="status", id="F-1")).splitlines()
    agreed = 'bob acknowledged: agreed that F-1 stands (debate(op="acknowledge", id="F-1"))'
    rest = (
        '; or decided: debate(op="decide", id="F-1", outcome="stands|falls|amended", reason="…"), a critic\'s '
        "decision once another owner confirms it; or conceded by alice; or when its critics withdraw; "
        'outcome="amended" goes with to="…", the id of the item that takes its place'
    )
    assert said[-3] == f"closes when C-2 is answered, and then when {agreed}{rest}"
    await alice.post("But.", "REPLY", edges={"replies_to": ["C-2"]})
    said = (await carol.say("debate", op="status", id="F-1")).splitlines()
    assert said[-3:-1] == [f"closes when {agreed}{rest}", "last seen: bob 0s"]
    await bob.do("debate", op="unwatch", id="F-1")
    status = await carol.do("debate", op="status", id="F-1")
    assert status["closes"].startswith("closes when anybody not acting for alice acknowledged")
    await bob.do("board", settings={"quorum": 3})
    await carol.do("debate", op="vote", id="F-1", approve=False)
    said = (await carol.say("debate", op="status", id="F-1")).splitlines()
    assert "votes on version 1: for: none; against: carol" in said
    closing = next(line for line in said if line.startswith("closes"))
    assert (
        'closes with 3 owners\' votes on one side: debate(op="vote", id="F-1", approve=true|false)' in closing
    )
    assert "alice, its author's owner, does not count" in closing


async def test_without_a_quorum_an_answer_says_that_votes_close_nothing(board: Any) -> None:
    _, bob, carol, dave = await answered(board)
    for agent in (bob, carol, dave):
        said = await agent.say("debate", op="vote", id="F-1")
    assert "votes on version 1: for: bob, carol, dave; against: none" in said
    assert "votes alone close nothing: this board has no quorum" in said
    assert "closes when bob acknowledged" in said
    assert (await bob.do("debate", op="status", id="F-1"))["state"] == "OPEN"


@pytest.mark.parametrize("quorum", [0, 1])
async def test_no_second_agent_of_the_author_closes_a_debate(board: Any, quorum: int) -> None:
    alice, bob, carol, _ = await answered(board, quorum=quorum)
    for agent in ("alice", "carol"):
        await board.opened.store.set_owner(agent, "team")
    await bob.do("debate", op="unwatch", id="F-1")
    for agent in (alice, carol):
        await agent.do("debate", op="acknowledge", id="F-1")
        await agent.do("debate", op="vote", id="F-1", approve=False)
        await agent.do("debate", op="vote", id="F-1")
        refused = await agent.fail("debate", op="decide", outcome="stands", id="F-1", reason="mine")
        assert (refused["error"], "in its own favour" in refused["message"]) == ("refused", True)
    status = await bob.do("debate", op="status", id="F-1")
    assert (status["state"], status["author_owner"], status["votes_for"]) == ("OPEN", "team", [])


async def test_views_and_footers_call_on_watchers_to_vote(board: Any) -> None:
    _, bob, carol, _ = await answered(board, quorum=2)
    view = await bob.say("read")
    assert 'F-1 stands: debate(op="vote", id="F-1", reason="…")' in view
    assert "closes by 2 votes" in view
    assert "you owe: vote on or criticise F-1" in view, "to acknowledge would close nothing"
    status = await bob.say("debate", op="status", id="F-1")
    assert "outstanding: bob to vote on F-1\n" in status
    await bob.do("debate", op="vote", id="F-1", approve=False)
    assert 'debate(op="vote"' not in await bob.say("read"), "a vote meets the duty"
    await bob.do("query")
    assert "you owe" not in bob.footer
    assert "closes by 2 votes" in await carol.say("read")


async def test_a_new_version_is_voted_on_and_acknowledged_anew(board: Any) -> None:
    alice, bob, carol = await board.join("alice", "bob", "carol")
    await alice.post("plan one", "PLAN", key="plan")
    await bob.post("no", "CRITIQUE", edges={"critiques": ["P-1"]})
    await alice.post("But.", "REPLY", edges={"replies_to": ["C-2"]})
    await carol.do("debate", op="watch", id="P-1")
    await carol.do("debate", op="acknowledge", id="P-1")
    await carol.do("debate", op="vote", id="P-1")
    await carol.do("query")
    assert "you owe" not in carol.footer
    await alice.post("plan two", key="plan", type="PLAN")
    await carol.do("query")
    assert carol.footer.endswith("you owe: acknowledge or criticise P-1")
    status = await carol.do("debate", op="status", id="P-1")
    assert {(o["agent"], o["duty"]) for o in status["outstanding"]} == {
        ("bob", "acknowledge"),
        ("carol", "acknowledge"),
    }
    assert (status["votes_for"], [v["version"] for v in status["votes"]]) == ([], [1])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"op": "status", "id": "F-1", "approve": True}, 'approve goes with op="vote"'),
        (
            {"op": "agree", "id": "F-1", "approve": False},
            'approve goes with op="vote"; op="agree" agrees, whatever it says. Nothing was changed; to object: '
            'post(type="CRITIQUE", edges={"critiques": ["F-1"]}, text="…").',
        ),
        ({"op": "vote", "id": "F-1", "watchers": ["bob"]}, 'watchers goes with op="open"'),
        ({"op": "vote", "id": "F-1", "approve": "perhaps"}, "approve"),
        ({"op": "vote", "id": "F-9"}, "No item 9"),
        (
            {"op": "vote", "id": "F-3"},
            'nothing to vote on. Nothing was changed; debate(op="open", id="F-3") opens one',
        ),
        ({"op": "vote", "id": "F-1", "reason": "x" * 2_001}, "2000"),
        ({"op": "unwatch", "id": "F-3"}, "nothing to acknowledge on F-3"),
        ({"op": "vote", "id": "tag:db"}, "takes the id of an item"),
        (
            {"op": "watch", "id": "db"},
            "'db' is not an item id. Nothing was changed; ids look like H-17 (or 17, or H-17@2 for a version). "
            "Topics look like tag:db, key:plan:**, type:DECISION or thread:H-3.",
        ),
        ({"op": "watch", "id": "tag:db", "watchers": ["bob"]}, 'watchers goes with op="open"'),
        ({"op": "watch", "id": "tag:db", "approve": True}, 'approve goes with op="vote"'),
        (
            {"op": "watch", "id": "colour:red"},
            "'colour:red' is no topic. Nothing was changed; use key:colour:red (the entry with that key; a",
        ),
        (
            {"op": "watch", "id": "a b:c"},
            "use key:plan:** (a glob of keys), tag:db, type:DECISION or thread:H-3",
        ),
        ({"op": "watch", "id": "type:THOUGHT"}, "is not a type"),
        ({"op": "watch", "id": "key:a b"}, "not a key pattern"),
        ({"op": "watch", "id": "thread:F-9"}, "No item 9"),
        ({"op": "unwatch", "id": "tag:db"}, "You do not watch tag:db"),
        ({"op": "watch", "id": "tag:" + "x" * 300}, "207"),
    ],
)
async def test_wrong_words_are_refused_and_teach(board: Any, arguments: dict[str, Any], words: str) -> None:
    alice, *_ = await dispute(board)
    await alice.post("undisputed")
    before = await board.seq()
    failure = await alice.fail("debate", **arguments)
    assert words in failure["message"], failure
    assert "othing was changed" in failure["message"] or failure["error"] == "invalid"
    assert await board.seq() == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("quorum", value) for value in (-1, 1_001, 1.5, "2", True)),
        *(("watch_lease_seconds", value) for value in (-1, 31_536_001, "day")),
        *(("debate_expiry_seconds", value) for value in (-1, 31_536_001, None)),
        *(("presence_seconds", value) for value in (-1, 31_536_001, "soon")),
    ],
)
async def test_settings_of_debates_are_checked(board: Any, name: str, value: Any) -> None:
    alice = await board.join("alice")
    await alice.post("x")
    assert name in (await alice.fail("board", settings={name: value}))["message"]


async def test_nobody_closes_alone_the_debate_about_a_version_they_wrote(board: Any) -> None:
    alice, bob, carol = await board.join("alice", "bob", "carol")
    await alice.post("one", "PLAN", key="plan:a")
    await bob.post("two", key="plan:a")
    await carol.post("two is wrong", "CRITIQUE", edges={"critiques": ["P-1"]})
    refused = await bob.fail("debate", op="decide", outcome="stands", id="P-1", reason="I like it")
    assert "who wrote P-1 as it stands" in refused["message"]
    await carol.do("debate", op="unwatch", id="P-1")
    await bob.post("But.", "REPLY", edges={"replies_to": ["C-2"]})
    assert (await bob.do("debate", op="acknowledge", id="P-1"))["state"] == "OPEN"
    said = (await bob.say("debate", op="status", id="P-1")).splitlines()
    assert said[-2].startswith("closes when anybody not acting for alice or bob acknowledged")
    await carol.do("board", settings={"quorum": 1})
    last = await bob.do("debate", op="vote", id="P-1")
    assert (last["state"], last["votes_for"]) == ("OPEN", [])
    assert "alice, its author's owner, does not count, nor bob, who wrote this version" in last["closes"]


@pytest.mark.parametrize(
    "call",
    [{"op": "acknowledge"}, {"op": "vote"}, {"op": "decide", "outcome": "stands", "reason": "it is right"}],
)
async def test_who_names_a_version_agrees_to_that_one_or_to_none(board: Any, call: dict[str, str]) -> None:
    alice, bob, carol = await board.join("alice", "bob", "carol")
    await alice.post("one", "PLAN", key="plan:a")
    await bob.post("one is wrong", "CRITIQUE", edges={"critiques": ["P-1"]})
    await alice.post("two", key="plan:a")
    await alice.post("But.", "REPLY", edges={"replies_to": ["C-2"]})
    agent = carol if call["op"] == "decide" else bob
    before = await board.seq()
    failure = await agent.fail("debate", id="P-1@1", **call)
    assert (failure["error"], failure["item"], failure["current_version"]) == ("conflict", "P-1", 2)
    assert failure["message"].startswith("P-1 is at version 2, not 1. Nothing was changed; ")
    assert await board.seq() == before
    await agent.do("debate", id="P-1@2", **call)
    assert await board.seq() > before


async def test_the_view_says_how_a_vote_went(tmp_path: Path, mode: str) -> None:
    async with boards.open_boards(tmp_path, mode, board_settings={"quorum": 2}) as board:
        alice, bob, carol, dan = await board.join("alice", "bob", "carol", "dan")
        await alice.post("It holds.")
        await bob.post("No.", "CRITIQUE", edges={"critiques": ["F-1"]})
        await bob.do("debate", op="vote", id="F-1", approve=True)
        for agent in (carol, dan):
            await agent.do("debate", op="vote", id="F-1", approve=False)
        assert "falls, voted down 2:1 0s" in await carol.say("read")


async def test_words_of_an_agent_are_not_taken_for_a_vote(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("It holds.")
    await bob.do("debate", op="open", id="F-1")
    await bob.do("debate", op="withdraw", id="F-1", reason="stands by vote: 9 in favour, 0 against")
    view = await alice.say("read")
    assert "open again, its critics withdrew" in view
    assert "voted" not in view
