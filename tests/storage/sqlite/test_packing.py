"""Rows that come in one step are those that come one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from blackboard_mcp.protocols.clock import Clock
from blackboard_mcp.storage.memory import open_memory_store
from blackboard_mcp.storage.operations.ledger import ledger
from blackboard_mcp.storage.operations.ledger.rows import sql
from blackboard_mcp.storage.operations.reading import kept_events
from blackboard_mcp.storage.sqlite import group
from blackboard_mcp.storage.sqlite.packing import PACKED, fetched, for_single, lists_of
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import HandClock, Table
from blackboard_mcp.storage.testing.walk.machine import walk
from blackboard_mcp.storage.testing.walk.walks import stride
from profiles import draw_alike_everywhere


def test_they_are_the_same_rows_in_the_same_order_with_the_same_types(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = {sql(name): name for name in PACKED}
    most = dict.fromkeys(PACKED, 0)

    def compared(execute: Callable[..., Any], text: str, parameters: Sequence[Any]) -> Any:
        if (name := names.get(text)) is None:
            return fetched(execute, text, parameters)
        one_by_one = execute(text, parameters).fetchall()
        for _ in range(2):  # the first run of all tells how many columns there are
            assert repr(fetched(execute, text, parameters)) == repr(one_by_one), name
        most[name] = max(most[name], len(one_by_one))
        return one_by_one

    async def opened(clock: Clock) -> SqlBoardStore:
        return await open_memory_store(clock=clock)

    draw_alike_everywhere(monkeypatch)  # the same walk by day and at night
    monkeypatch.setattr(group, "fetched", compared)
    monkeypatch.setattr(kept_events, "FEW", 2)
    monkeypatch.setattr(ledger, "FEW", 5)
    walked = walk(opened, stride(4), seeds=(13,))
    if walked.error is not None:
        raise walked.error
    asyncio.run(_told_twice(opened))
    assert {name for name, rows in most.items() if rows < 2} <= {"events_whole", "news"}, (
        most
    )  # rows like those of events_after


def test_a_value_finds_the_same_rows_as_a_list_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[str] = set()

    def compared(execute: Callable[..., Any], text: str, parameters: Sequence[Any]) -> Any:
        if not text.startswith("SELECT") or not lists_of(text):
            return fetched(execute, text, parameters)
        listed = execute(text, parameters).fetchall()
        assert repr(fetched(execute, text, parameters)) == repr(listed), text
        if listed and any(str(parameters[place - 1]).count(",") == 0 for place in lists_of(text)):
            seen.add(text)
        return listed

    async def opened(clock: Clock) -> SqlBoardStore:
        return await open_memory_store(clock=clock)

    draw_alike_everywhere(monkeypatch)
    monkeypatch.setattr(group, "fetched", compared)
    walked = walk(opened, stride(4), seeds=(13,))
    if walked.error is not None:
        raise walked.error
    assert len(seen) > 20, len(seen)


def test_only_lists_of_one_value_are_given_as_values() -> None:
    def run(text: str, *parameters: Any) -> tuple[str, Sequence[Any]]:
        asked: list[tuple[str, Sequence[Any]]] = []

        class Cursor:
            description = ((),)
            fetchall = staticmethod(list[Any])

        def execute(text: str, parameters: Sequence[Any]) -> Cursor:
            asked.append((text, parameters))
            return Cursor()

        fetched(execute, text, parameters)
        return asked[0]

    both = "a IN (SELECT value FROM json_each(?1)) AND b NOT IN (SELECT value FROM json_each(?2))"
    assert run(both, "[7]", "[8]") == ("a = ?1 AND b <> ?2", [7, 8])
    assert run(both, '["7"]', '["ü x"]') == ("a = ?1 AND b <> ?2", ["7", "ü x"])
    assert run(both, "[7,9]", "[8]") == (for_single(both, (2,)), ["[7,9]", 8])
    same = [
        ("[]", "[]"),
        ("[7,9]", '["a","b"]'),
        (r'["\u0000"]', "[null]"),
        ("[1.5]", None),
        (f"[{10**18}]", "7"),
    ]
    for parameters in same:
        assert run(both, *parameters) == (both, parameters)
    elsewhere = "a IN (SELECT value FROM json_each(?1)) OR json_array_length(?1) > 2"
    assert run(elsewhere, "[7]") == (elsewhere, ("[7]",))


def test_what_is_kept_of_statements_is_bounded() -> None:
    class Cursor:
        fetchall = staticmethod(list[Any])

    for number in range(3_000):  # the tags of a query, and their order, make texts without end
        fetched(lambda *_: Cursor(), f"SELECT {number}", ())
    assert lists_of.cache_info().currsize < 3_000


async def _told_twice(opened: Callable[[Clock], Awaitable[SqlBoardStore]]) -> None:
    """Lets a reader be told of three items that were posted since its last look, twice."""
    clock = HandClock()
    store = await opened(clock)
    at = Table(store)
    for n in range(3):
        await at.post("alice", f"text {n}")
    for _ in range(2):
        assert len((await store.snapshot(at.board, "bob", look=1)).news.events) == 3
    await store.close()
