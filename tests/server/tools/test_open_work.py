"""Questions to somebody, open work, what was restored: what stays, what leaves late, and who is told."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import boards
import pytest

mode = boards.mode


@pytest.fixture
async def board(tmp_path: Path, mode: str) -> AsyncIterator[Any]:
    async with boards.open_boards(
        tmp_path, mode, target_tokens=1_000, tools=("core", "plan", "admin")
    ) as found:
        yield found


PLACE = itertools.count()
"""No two posts are the same, which would be stored once."""


async def facts(board: Any, agent: Any, count: int = 60, **more: Any) -> list[str]:
    """So many facts, more than a board has room for."""
    ids = []
    for first in range(0, count, 10):
        items = [
            {
                "text": f"{next(PLACE)} Reading {n}: the latency of the service was {200 + n} milliseconds.",
                **more,
            }
            for n in range(first, first + 10)
        ]
        ids += [item["id"] for item in (await agent.do("post", items=items))["items"]]
        await board.settled()
    return ids


async def zone(agent: Any, id_: str) -> str:
    return str((await agent.item(id_))["zone"])


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("b: which port does the DB use?", ["b"]),
        ("Thanks. b, c: which port?", ["b", "c"]),
        ("b and nobody: which port?", ["b"]),
        ("For b: which port?", ["b"]),
        ("A detail of (A), to b and c: which port?", ["b", "c"]),
        ("note: which port?", ["c"]),
        ("we saw b: which port?", ["c"]),
        ("@c not b: which port?", ["c"]),
    ],
)
async def test_a_question_asks_whom_a_sentence_speaks_to(board: Any, text: str, asked: list[str]) -> None:
    a, b, c = await board.join("a", "b", "c")
    await b.post("here", "LOG")
    fact = await c.post("The DB answers.")
    said = await a.say("post", text=text, type="QUESTION", edges={"replies_to": [fact["id"]]})
    assert ("asks c, whose F-2 it replies to" in said) == (asked == ["c"] and "c" not in text)
    for name, agent in (("b", b), ("c", c)):
        await agent.do("query")
        assert ("you owe: answer Q-3" in agent.footer) == (name in asked), name


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "b, cleo: which port?",
            "Q-2 does not ask cleo, not on the board yet: to ask who comes later, write @cleo",
        ),
        (
            "cleo and dan: which port?",
            "Q-2 does not ask cleo, dan, not on the board yet: to ask who comes later, write @cleo, @dan",
        ),
        (
            "cleo: which port?",
            "Q-2 does not ask cleo, not on the board yet: to ask who comes later, write @cleo",
        ),
        ("b: note: which port?", None),
        ("b, a: which port?", None),
        ("@b, tell cleo: which port?", None),
        ("which port?", None),
    ],
)
async def test_a_question_says_whom_it_does_not_reach(board: Any, text: str, told: str | None) -> None:
    a, b = await board.join("a", "b")
    await b.post("here", "LOG")
    said = await a.say("post", text=text, type="QUESTION")
    assert [line for line in said.splitlines() if "does not ask" in line] == ([told] if told else [])
    board.clock.advance(1)
    assert "does not ask" not in await a.say("post", id="Q-2", importance=2)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("b (and all): which port?", True),
        ("b, which port?", False),
        ("B – which port?", True),
        ("b: which port?", False),
        ("@b which port?", False),
        ("b heard it from @c, why?", False),
        ("a (and all): which port?", False),
        ("better ask b: which port?", False),
    ],
)
async def test_a_question_that_begins_with_a_name_asks_or_says_that_it_does_not(
    board: Any, text: str, told: bool
) -> None:
    a, b, c = await board.join("a", "b", "c")
    for agent in (b, c):
        await agent.post("here", "LOG")
    said = (await a.say("post", text=text, type="QUESTION")).splitlines()
    line = 'Q-3 does not ask b; this does: post(type="QUESTION", text="@b …", edges={"supersedes": ["Q-3"]})'
    assert (line in said) == told
    if told:
        await b.do("query")
        assert "you owe" not in b.footer
        await a.post("@b which port?", "QUESTION", edges={"supersedes": ["Q-3"]})
        await b.do("query")
        assert "you owe: answer Q-4" in b.footer


async def test_who_is_asked_with_an_at_before_it_comes_finds_the_question(board: Any) -> None:
    a = await board.join("a")
    await a.post("@cleo which port?", "QUESTION")
    cleo = await board.join("cleo")
    assert "asks you" in await cleo.say("read")


async def test_a_question_to_two_is_open_until_both_answered(board: Any) -> None:
    ana, ben, cleo, dirk = await board.join("ana", "ben", "cleo", "dirk")
    for agent in (ana, cleo, dirk):
        await agent.do("read")
    question = (await ben.post("@cleo @dirk which pool was in use?", "QUESTION"))["id"]
    await cleo.do("post", text="The new one", type="ANSWER", edges={"replies_to": [question]})
    view = await ana.say("read")
    assert f"{question} by ben" in view
    assert "asks dirk, newest answer A-2" in view
    assert "done with" not in view
    await dirk.do("post", text="The new one, 400 sockets", type="ANSWER", edges={"replies_to": [question]})
    view = await ana.say("read")
    assert "asks dirk" not in view
    assert f"{question} answered by A-2, A-3" in view


async def test_a_question_to_somebody_waits_for_the_answer_and_is_offered(board: Any) -> None:
    a, b = await board.join("a", "b")
    question = await a.post("@b Which port does the DB use? Blocks the deploy.", "QUESTION")
    await facts(board, a)
    assert await zone(b, question["id"]) == "working"
    view = await b.say("read")
    call = f'post(type="ANSWER", edges={{"replies_to": ["{question["id"]}"]}}, text="…")'
    waiting = next(line for line in view.splitlines() if call in line)
    assert "asks you" in waiting
    assert "Which port does the DB use?" in waiting
    assert "stays: b has yet to answer it" in await a.say("read", ids=[question["id"]], explain=True)
    refusal = await b.fail("debate", op="acknowledge", id=question["id"])
    assert "an answer meets that" in refusal["message"]
    await b.post("5432", "ANSWER", edges={"replies_to": [question["id"]]})
    assert call not in await b.say("read")
    events = (await a.do("read", since=0))["events"]
    assert [e["item"] for e in events if e["event"] == "obligation.met"] == [question["id"]]


async def test_open_work_leaves_after_everything_else_of_its_owner(board: Any) -> None:
    a, b = await board.join("a", "b")
    work = [
        (await a.post(text, type_))["id"]
        for text, type_ in (
            ("The deploy hangs since Tuesday.", "PROBLEM"),
            ("Drain the queue, restart, watch the latency.", "PLAN"),
            ("Which node is slow?", "QUESTION"),
            ("We roll back if it is above 900 ms.", "DECISION"),
        )
    ]
    older = await facts(board, a)
    assert [await zone(b, id_) for id_ in work] == ["working"] * 4
    assert await zone(b, older[0]) == "archive"
    told = await a.say("read", ids=[work[1]], explain=True)
    assert "after everything else of its owner that may leave, as open work" in told


async def test_the_result_that_an_open_task_rests_on_leaves_as_open_work(board: Any) -> None:
    a, b = await board.join("a", "b")
    await a.do("plan", items=[{"title": "survey", "verify": True}, {"title": "build", "after": ["$1"]}])
    await a.do("claim", id="T-1")
    await a.do("claim", id="T-1", op="done", text="Nine stations, all dated.")
    await b.do("claim", id="T-1", op="verify", ok=True, text="Counted them.")
    (result,) = (await b.do("query", type="RESULT"))["items"]
    board.clock.advance(3_600)
    older = await facts(board, a)
    assert await zone(b, result["id"]) == "working"
    assert await zone(b, older[0]) == "archive"
    told = await a.say("read", ids=[result["id"]], explain=True)
    assert "after everything else of its owner that may leave, as open work" in told
    await a.do("plan", cancel=["T-2"])
    await facts(board, a)
    assert await zone(b, result["id"]) == "archive"
    await a.do("plan", items=[{"title": "report", "after": ["T-1"]}])
    told = await b.say("claim", id="T-3")
    assert f"T-1 survey → {result['id']}: Nine stations, all dated." in told


async def test_open_work_that_leaves_is_an_event_for_those_concerned(board: Any) -> None:
    a, b = await board.join("a", "b")
    plan = await a.post("@b restarts the node, then I watch.", "PLAN", importance=1)
    seq = await board.seq()
    await facts(board, b)
    await facts(board, a, importance=5, count=10)
    while await zone(b, plan["id"]) == "working":
        await a.post(f"Plan {next(PLACE)}. {'word ' * 40}", "PLAN")
        await board.settled()
    log = await board.opened.store.log("main", "b", seq, 1_000)
    left = [e for e in log.events if e.item == plan["id"]]
    assert [e.event for e in left] == ["item.archived"]
    assert "open work" in left[0].data["why"]
    assert sorted(left[0].concerns) == ["a", "b"]


async def test_what_a_claim_rests_on_leaves_after_it(board: Any) -> None:
    a, b = await board.join("a", "b")
    log = await b.post("node 3: 900 ms", "LOG", importance=1)
    ground = await b.post("Node 3 is slow.")
    claim = await a.post("Its disk is full.", "HYPOTHESIS", edges={"derived_from": [log["id"], ground["id"]]})
    for _ in range(14):
        await facts(board, b, count=10)
        if await zone(a, claim["id"]) == "working":
            assert [await zone(a, i["id"]) for i in (log, ground)] == ["working"] * 2
    assert claim["id"] in await a.say("read", ids=[log["id"]], explain=True)


async def test_what_was_restored_stays_although_the_board_is_full(board: Any) -> None:
    a, b = await board.join("a", "b")
    ids = await facts(board, a)
    assert await zone(b, ids[0]) == "archive"
    await b.do("query_archive", text=ids[0], restore=True)
    await facts(board, a, count=40)
    assert await zone(b, ids[0]) == "working"
    assert "stays: restored from the archive lately" in await a.say("read", ids=[ids[0]], explain=True)
    board.clock.advance(3_600)
    await facts(board, a, count=40)
    assert await zone(b, ids[0]) == "archive"


async def test_age_counts_in_a_pass(board: Any) -> None:
    a, b = await board.join("a", "b")
    await a.do("board", settings={"owner_share": 1})
    old = await facts(board, a, count=50)
    board.clock.advance(3_600)
    cited = await b.post("It was slow then.", edges={"supports": [old[0]], "derived_from": [old[1]]})
    young = await a.post("Minutes old, and less important.", "HYPOTHESIS")
    await facts(board, a, count=20)
    stays = [*old[:2], young["id"], cited["id"]]
    assert [await zone(b, id_) for id_ in stays] == ["working"] * 4
    assert [await zone(b, id_) for id_ in old[2:12]] == ["archive"] * 10


async def test_a_claim_that_stands_is_named_in_views_when_it_left_for_room(board: Any) -> None:
    ana, ben = await board.join("ana", "ben")
    claim = await ana.post("The pool is too small.", "HYPOTHESIS")
    fallen = await ana.post("The index is the cause.", "HYPOTHESIS")
    await ana.do("debate", op="concede", id=fallen["id"])
    await ben.post("It is.", "LOG", edges={"supports": [claim["id"]]})
    await facts(board, ben, 30)
    await facts(board, ana, 30)
    await board.settled()
    assert await zone(ben, claim["id"]) == "archive"
    lines = (await ben.say("read", budget=800)).splitlines()
    (line,) = (one for one in lines if one.startswith(f"{claim['id']} "))
    assert line.startswith(f"{claim['id']} by ana")
    assert "archived" in line
    assert not [one for one in lines if one.startswith(f"{fallen['id']} ") and "archived" in one]
    told = (await ben.say("debate", op="status", id=claim["id"])).splitlines()[0]
    back = f'archived (back with query_archive(text="{claim["id"]}", restore=true))'
    assert told.startswith(f"{claim['id']} was never debated, backed by ben, {back}: ")


async def test_what_left_long_ago_of_who_was_away_is_named_before_the_newest_events(board: Any) -> None:
    ann, *others = await board.join("ann", "ben", "cleo", "dan")
    problem = (await ann.post("The importer loses rows.", "PROBLEM"))["id"]
    entry = (await ann.post("next: look at decode()", key="plan:importer"))["id"]
    await ann.say("read")
    for _ in range(14):
        for other in others:
            await facts(board, other, 10)
    assert await zone(others[0], problem) == await zone(others[0], entry) == "archive"
    view = await ann.say("read")
    assert "the latest of it" in view
    left = [line for line in view.splitlines() if line.startswith("left for room: of yours ")]
    assert len(left) == 1
    assert problem in left[0]
    assert entry in left[0]
