"""A history that forgets something is noticed: by what reads it, or by the comparison with what it was written of."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.storage.history import exporting, importing
from blackboard_mcp.storage.history.lines import BadLine
from blackboard_mcp.storage.history.tables import AT_END, OF_ITEMS, Table
from blackboard_mcp.storage.operations.items import endorsements, retraction
from blackboard_mcp.storage.operations.leaving import guard_index
from blackboard_mcp.storage.operations.ledger import rows
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import HandClock
from blackboard_mcp.storage.testing.kit.filling import filled
from blackboard_mcp.storage.testing.walk.rebuilding import rebuilt

Mutate = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, datetime]:
    """The file of a board with everything on it, and the time on its clock."""
    path, clock = tmp_path_factory.mktemp("full") / "board.db", HandClock()

    async def fill() -> None:
        opened = await SqlBoardStore.open(path, clock=clock, synchronous="NORMAL")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(retraction, "AT_ONCE", 50)
            await filled(opened, clock, resting=1)
        await opened.close()

    asyncio.run(fill())
    return path, clock.now()


@pytest.fixture
async def store(full: tuple[Path, datetime], tmp_path: Path) -> AsyncIterator[SqlBoardStore]:
    """A copy of it."""
    path, now = full
    copy = Path(shutil.copy(path, tmp_path / "board.db"))
    opened = await SqlBoardStore.open(copy, clock=HandClock(now), synchronous="NORMAL")
    yield opened
    await opened.close()


@pytest.mark.parametrize("table", [*OF_ITEMS, *AT_END], ids=lambda table: table.name)
async def test_a_table_that_is_forgotten_is_missed(
    store: SqlBoardStore, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, tables in (("OF_ITEMS", OF_ITEMS), ("AT_END", AT_END)):
        monkeypatch.setattr(exporting, name, tuple(t for t in tables if t != table))
    try:
        made = await rebuilt(store, "main")
    except BlackboardError:
        return
    assert any(told.startswith(f"{table.name} ") for told in made.differences), made.differences


def without(name: str, values: int = 1) -> Mutate:
    """A statement that does nothing with its values."""
    given = " AND ".join(f"?{place}" for place in range(1, values + 1))
    return lambda patch: patch.setitem(rows._statements(), name, f"SELECT 1 WHERE 0 AND {given}")


def loses_edges(patch: pytest.MonkeyPatch) -> None:
    """Of edges only those that may be claims are written."""
    honest = rows.sql("history_edges").strip().rstrip(";")
    kept = f"SELECT * FROM ({honest}) WHERE kind IN ('supersedes', 'refutes')"  # noqa: S608 - words of ours
    patch.setitem(rows._statements(), "history_edges", kept)


def lose_lines(patch: pytest.MonkeyPatch) -> None:
    """One line in eleven is not written."""
    honest = exporting.page

    def page(*given: Any, **named: Any) -> rows.Steps[list[tuple[int, bytes]]]:
        made = yield from honest(*given, **named)
        return [(seq, b"" if seq % 11 == 0 else line) for seq, line in made]

    patch.setattr(exporting, "page", page)


def lose_versions(patch: pytest.MonkeyPatch) -> None:
    """Of each item only the version that stands is written."""
    honest = exporting._contents

    def contents(of: exporting.Extent, wanted: dict[tuple[int, int], int], made: Any) -> rows.Steps[None]:
        last = dict(sorted(wanted))
        return (
            yield from honest(
                of, {pair: seq for pair, seq in wanted.items() if pair[1] == last[pair[0]]}, made
            )
        )

    patch.setattr(exporting, "_contents", contents)


def computes_nothing(module: Any, name: str) -> Mutate:
    """What is to be computed from the rest is not."""

    def nothing() -> rows.Steps[None]:
        return
        yield  # a generator

    return lambda patch: patch.setattr(module, name, nothing)


def concerns_nobody(patch: pytest.MonkeyPatch) -> None:
    """Nobody is told again what concerned them."""

    def nothing(self: Any, event: Any, item: int) -> rows.Steps[None]:
        return
        yield  # a generator

    patch.setattr(importing._Line, "_concerns", nothing)


def stands_as_it_began(patch: pytest.MonkeyPatch) -> None:
    """Items are read in with the importance they have by their kind."""
    honest = importing._Line._update

    def update(self: Any, item: int, values: dict[str, Any]) -> rows.Steps[None]:
        return (
            yield from honest(self, item, {**values, "importance": 3} if "importance" in values else values)
        )

    patch.setattr(importing._Line, "_update", update)


MUTANTS: dict[str, tuple[Mutate, str]] = {
    "lines lost": (lose_lines, ""),
    "versions lost": (lose_versions, ""),
    "edges lost": (loses_edges, "edge "),
    "all edges lost": (without("history_edges", 3), ""),
    "owners of what is superseded": (without("history_superseded"), "differs in superseded"),
    "what is analysed": (without("history_analysed"), "differs in analysed"),
    "what was debated": (without("history_debated"), "differs in debated"),
    "figures": (without("history_counters", 2), "the board differs"),
    "findings": (computes_nothing(endorsements, "fill"), "finding "),
    "what is held": (computes_nothing(guard_index, "rebuild"), "held "),
    "whom it concerns": (concerns_nobody, "concern "),
    "how items stand": (stands_as_it_began, "differs in importance"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
async def test_what_else_is_forgotten_is_noticed(
    store: SqlBoardStore, mutant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate, told = MUTANTS[mutant]
    mutate(monkeypatch)
    if not told:
        with pytest.raises(BadLine):
            await rebuilt(store, "main")
        return
    differences = (await rebuilt(store, "main")).differences
    assert any(told in f"{difference} " for difference in differences), differences


async def test_nothing_is_noticed_where_nothing_is_forgotten(store: SqlBoardStore) -> None:
    made = await rebuilt(store, "main")
    assert made.differences == []
    assert made.again == made.lines
