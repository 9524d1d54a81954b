"""What the guard holds on one owner's account: others keep room on the board, and nobody is kept from answering."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import boards
import pytest
from blackboard_mcp.storage.operations.leaving import accounts

mode = boards.mode

FILLER = "word " * 450
MOST = 4_500
"""Three quarters of the 6,000 tokens of the boards here."""


@pytest.fixture
async def board(tmp_path: Path, mode: str) -> AsyncIterator[Any]:
    async with boards.open_boards(tmp_path, mode, tools=("core", "admin", "messages")) as found:
        yield found


async def held_by_mallory(board: Any) -> tuple[Any, Any, Any]:
    """Alice with a note, and two agents of mallory."""
    alice, one, two = await board.join("alice", "bot-1", "bot-2")
    for bot in ("bot-1", "bot-2"):
        await board.opened.blackboard.introduce(bot, "mallory")
    await alice.post("a note", "LOG")
    return alice, one, two


async def until_refused(calls: Any) -> tuple[int, Any]:
    """How many of the calls went through before one was refused, and the refusal."""
    done = 0
    async for result in calls:
        if result.is_error:
            return done, result.structured_content
        done += 1
    raise AssertionError("nothing was refused")


async def constraints(one: Any, two: Any) -> AsyncIterator[Any]:
    for n in range(30):
        yield await (one, two)[n % 2].call("post", text=f"law {n} {FILLER}", type="CONSTRAINT")


async def hot_issues(one: Any, two: Any) -> AsyncIterator[Any]:
    for n in range(30):
        yield await (one, two)[n % 2].call("post", text=f"fire {n} {FILLER}", type="HOT_ISSUE")


async def debates_of_their_own(one: Any, two: Any) -> AsyncIterator[Any]:
    for n in range(30):
        made = await one.post(f"claim {n} {FILLER}", "HYPOTHESIS")
        yield await two.call("debate", op="open", id=made["id"], watchers=["alice"])


async def critiques(one: Any, two: Any) -> AsyncIterator[Any]:
    for n in range(30):
        made = await one.post(f"claim {n} {FILLER}", "HYPOTHESIS")
        yield await two.call("post", text="no", type="CRITIQUE", edges={"critiques": [made["id"]]})


async def chains(one: Any, two: Any) -> AsyncIterator[Any]:
    root = await one.post("root", "HYPOTHESIS")
    await two.post("no", "CRITIQUE", edges={"critiques": [root["id"]]})
    for n in range(30):
        yield await two.call("post", text=f"and {n} {FILLER}", edges={"supports": [root["id"]]})


async def watches(one: Any, two: Any) -> AsyncIterator[Any]:
    for n in range(30):
        made = await one.post(f"seen {n} {FILLER}", "LOG")
        yield await two.call("debate", op="watch", id=made["id"])


async def requests(one: Any, two: Any) -> AsyncIterator[Any]:
    for n in range(30):
        yield await one.call("request", text=f"do {n} {FILLER}", to="alice", seconds=0)


async def rewriting(one: Any, two: Any) -> AsyncIterator[Any]:
    await one.post("law", "CONSTRAINT", key="law")
    for n in range(1, 30):
        yield await two.call("post", text=FILLER * n, key="law")


async def transactions(one: Any, two: Any) -> AsyncIterator[Any]:
    for n in range(30):
        yield await one.call("transaction", writes=[{"text": f"law {n} {FILLER}", "type": "CONSTRAINT"}])


FLOODS = [
    *(
        constraints,
        hot_issues,
        debates_of_their_own,
        critiques,
        chains,
        watches,
        requests,
        rewriting,
        transactions,
    )
]


@pytest.mark.parametrize("flood", FLOODS)
async def test_one_owner_cannot_fill_the_guard(board: Any, flood: Any) -> None:
    alice, one, two = await held_by_mallory(board)
    done, refusal = await until_refused(flood(one, two))
    assert refusal["error"] == "quota"
    assert (refusal["limit"], refusal["most"]) == ("owner_held", MOST)
    assert "Nothing was changed" in refusal["message"]
    assert done >= 1
    await board.settled()
    assert (await alice.do("board"))["pressure"] is None
    assert (await alice.do("query", type="LOG", author="alice"))["items"], "alice's note stands"
    await alice.post(f"mine {FILLER}", "CONSTRAINT")
    await alice.do("debate", op="watch", id="1")


async def test_an_owner_alone_may_have_as_much_as_there_is(board: Any) -> None:
    one, two = await board.join("bot-1", "bot-2")
    for bot in ("bot-1", "bot-2"):
        await board.opened.blackboard.introduce(bot, "me")
    for n in range(15):
        await (one, two)[n % 2].post(f"law {n} {FILLER}", "CONSTRAINT")


async def test_nobody_is_kept_from_an_answer_that_is_owed(board: Any) -> None:
    alice, one, _ = await held_by_mallory(board)
    claim = await one.post(f"claim {FILLER}", "HYPOTHESIS")
    doubt = await alice.post("no", "CRITIQUE", edges={"critiques": [claim["id"]]})
    _, refusal = await until_refused(constraints(one, one))
    assert refusal["error"] == "quota"
    also = {"text": f"and {FILLER}", "type": "REPLY", "edges": {"replies_to": [doubt["id"]]}}
    assert (await one.fail("post", items=[also, also | {"text": f"more {FILLER}"}]))["error"] == "quota"
    await one.do("post", **also)
    assert (await one.fail("post", **(also | {"text": f"again {FILLER}"})))["error"] == "quota"


async def test_what_ends_makes_room_again(board: Any) -> None:
    _, one, _ = await held_by_mallory(board)
    await until_refused(constraints(one, one))
    first = (await one.do("query", type="CONSTRAINT"))["items"][0]
    await one.post(id=first["id"], status="RESOLVED")
    await one.post(f"new law {FILLER}", "CONSTRAINT")


@pytest.mark.parametrize("flood", [constraints, critiques, hot_issues])
async def test_a_guard_that_one_owner_can_fill_is_caught(
    board: Any, flood: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(ledger: Any) -> Any:
        return
        yield

    monkeypatch.setattr(accounts, "check", never)
    _, one, two = await held_by_mallory(board)
    with pytest.raises(AssertionError, match="nothing was refused"):
        await until_refused(flood(one, two))
