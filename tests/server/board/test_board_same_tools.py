"""A board in the same process has the tools that clients have: what its own copies of them did otherwise."""

from __future__ import annotations

import asyncio
import inspect
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.wire import ItemsAnswer, PostAnswer, TransactionAnswer
from blackboard_mcp.server.board import Board, BoardAccess
from blackboard_mcp.server.usecases.requests import Messaging
from patience import PATIENCE

everywhere = pytest.mark.parametrize("place", ["memory", "file", "modern", "legacy"], indirect=True)


class Moved:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.at = datetime(2026, 11, 23, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at


async def test_a_subscription_that_expired_is_not_held_any_more() -> None:
    clock = Moved()
    async with Board.open("main", agent="alice", clock=clock) as board:
        held = await board.subscribe({"event": "item.posted"}, name="posts")
        assert [one.subscription for one in await board.subscriptions()] == [held.subscription]
        clock.at += timedelta(days=400)
        await board._opening.opened.store.expire_subscriptions()
        assert await board.subscriptions() == []


@everywhere
async def test_all_versions_of_an_entry_are_listed(board: Any) -> None:
    entry = await board.post("first", key="plan:a")
    await board.post("second", key="plan:a", expected_version=1)
    (listed,) = (await board.read([f"{entry.id}@*"])).versions
    assert [version.version for version in listed.versions] == [2, 1]


@everywhere
@pytest.mark.parametrize(
    ("tool", "arguments", "answer", "told"),
    [
        ("post", {"items": [{"text": "a"}], "text": "lost"}, PostAnswer, "leave out text"),
        ("transaction", {}, TransactionAnswer, "needs reads, writes, debates or ack"),
        ("read", {"since": 0, "ids": ["F-1"]}, ItemsAnswer, "since, or ids"),
    ],
)
async def test_what_does_not_go_together_is_refused(
    board: Any, tool: str, arguments: dict[str, Any], answer: Any, told: str
) -> None:
    before = (await board.subscriptions(), board.seq)[1]
    with pytest.raises(InvalidInput, match=told):
        await board._call(tool, arguments, answer)
    await board.subscriptions()
    assert board.seq == before


NUMBERS = {"int", "float", "int | None", "float | None"}
REQUIRED = {"group": "g", "id": "F-1", "text": "t", "op": "done", "path": "a.txt", "key": "k:1", "since": 0}
OTHERS = {
    "to": "bob",
    "pattern": "k:*",
    "content": "x",
    "revision": 1,
    "filter": {"type": "FACT"},
    "callback": print,
    "reason": "r",
    "problem": "p",
    "check": "c",
    "ok": True,
}


def takers() -> list[tuple[str, str]]:
    """Returns the names of all calls that take a number, with that of the number."""
    calls = inspect.getmembers(BoardAccess, inspect.isfunction)
    named = [(name, inspect.signature(call).parameters.values()) for name, call in calls if name[0] != "_"]
    return [(name, one.name) for name, taken in named for one in taken if one.annotation in NUMBERS]


async def result(call: Any, given: dict[str, Any]) -> Any:
    """Makes a call, and awaits its answer or the first of its items."""
    done = call(**given)
    return await (done if inspect.isawaitable(done) else anext(aiter(done)))


@pytest.mark.parametrize("place", ["memory", "modern"], indirect=True)
async def test_a_wrong_number_is_refused_with_a_reason_by_every_call_that_takes_one(board: Any) -> None:
    found = takers()
    assert {("transact", "attempts"), ("queue", "maxsize"), ("wait", "seconds"), ("handlers", "workers")} < {
        *found
    }

    async def work(tx: Any) -> None: ...

    for name, number in found:
        call = getattr(board, name)
        taken = inspect.signature(call).parameters
        given = {one: value for one, value in ({**REQUIRED, **OTHERS, "work": work}).items() if one in taken}
        for wrong in ("x", [1], {"a": 1}):
            with pytest.raises(InvalidInput) as refused:
                await result(call, {**given, number: wrong})
            assert len(refused.value.message) > len("Nothing was changed."), (name, number, wrong)


@pytest.mark.parametrize("place", ["memory", "modern"], indirect=True)
async def test_what_is_no_function_is_refused_where_one_is_called(board: Any) -> None:
    def plain(tx: Any) -> int:
        tx.post("not kept")
        return 1

    for wrong in (None, "x", 3, plain):
        with pytest.raises(InvalidInput, match=r"work is .*Nothing was changed"):
            await board.transact(wrong)
    with pytest.raises(InvalidInput, match="callback is a function, not str"):
        await board.on({}, "x")
    with pytest.raises(InvalidInput, match="on_error is a function, not 3"):
        await board.on({}, print, on_error=3)
    with pytest.raises(InvalidInput, match="a handler is a function, not 3"):
        board.handler(type="LOG")(3)
    with pytest.raises(InvalidInput, match="when is a function, not str"):
        board.handler(type="LOG", when="x")(plain)
    with pytest.raises(InvalidInput, match="A text as op"):
        await board.settle(None)  # without op the call would take a task
    assert "not kept" not in [item.text async for item in board.query()]


async def test_who_stops_waiting_for_requests_keeps_none(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Board.open("main", agent="alice") as alice:
        bob, carl = alice.as_agent("bob"), alice.as_agent("carl")
        taken, told = asyncio.Event(), Messaging.attention

        async def never(self: Messaging, agent: str, *more: Any) -> Any:
            if agent != "bob":
                return await told(self, agent, *more)
            taken.set()
            await asyncio.Event().wait()

        await carl.next_request(skills=["sql"], seconds=0)
        monkeypatch.setattr(Messaging, "attention", never)
        asking = asyncio.create_task(alice.ask("skill:sql", "which index?"))
        waiting = asyncio.create_task(bob.next_request(skills=["sql"], seconds=50))
        async with asyncio.timeout(PATIENCE):
            await taken.wait()
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            got = await carl.next_request(seconds=50)
        assert got is not None
        assert got.question.text == "which index?"
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
