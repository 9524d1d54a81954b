"""Comparison of two boards, row by row, over all tables of a board's data."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

from ..operation import Operation, T
from ..operations.ledger.rows import Steps, dumps
from .forms import ANY, OBJECT, TEXTS
from .tables import TABLES, ColumnRole, Table

_PAGE = 500
_JSON = {ANY.name, OBJECT.name, TEXTS.name}
_ITSELF = frozenset({"no", "id", "copied"})
"""Columns in which two copies of a board may differ."""


class Reads(Protocol):
    """The part of a store's engine that reads."""

    async def read(self, operation: Operation[T]) -> T: ...


async def differences(one: Reads, one_no: int, other: Reads, other_no: int, most: int = 20) -> list[str]:
    """Returns at most `most` sentences on how the boards differ; none if they are equal."""
    found: list[str] = []
    for table in TABLES:
        columns = _columns(table)
        if not columns:
            continue
        left, right = _rows(one, one_no, table, columns), _rows(other, other_no, table, columns)
        a, b = await anext(left, None), await anext(right, None)
        while (a is not None or b is not None) and len(found) < most:
            if a is not None and (b is None or a[0] < b[0]):
                found.append(f"{_named(table, a)} is missing")
                a = await anext(left, None)
            elif b is not None and (a is None or b[0] < a[0]):
                found.append(f"{_named(table, b)} is too many")
                b = await anext(right, None)
            else:
                assert a is not None
                assert b is not None
                unlike = [n for n, x, y in zip(columns, a[1], b[1], strict=True) if x != y]
                if unlike:
                    found.append(f"{_named(table, a)} differs in {', '.join(unlike)}")
                a, b = await anext(left, None), await anext(right, None)
    return found


def _columns(table: Table) -> tuple[str, ...]:
    if table.role is ColumnRole.TRUTH:
        return tuple(n for n in (*table.columns, *table.derived) if n not in _ITSELF or n in table.columns)
    return table.compared


def _named(table: Table, row: tuple[tuple[Any, ...], Any]) -> str:
    if table.name == "board":
        return "the board"
    return f"{table.name} {' '.join(str(part) for part in row[0])}"


async def _rows(
    engine: Reads, no: int, table: Table, columns: Sequence[str]
) -> AsyncIterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Yields pairs of key and row, in the order of the keys."""
    after: tuple[Any, ...] | None = None
    while True:
        page = await engine.read(_reading(no, table, columns, after))
        for row in page:
            yield row
        if len(page) < _PAGE:
            return
        after = page[-1][0]


def _reading(
    no: int, table: Table, columns: Sequence[str], after: tuple[Any, ...] | None
) -> Operation[list[tuple[tuple[Any, ...], tuple[Any, ...]]]]:
    if table.name == "board":
        return lambda: _board(no, columns)
    return lambda: _page(no, table, columns, after)


def _board(no: int, columns: Sequence[str]) -> Steps[list[tuple[tuple[Any, ...], tuple[Any, ...]]]]:
    rows = yield f"SELECT {', '.join(columns)} FROM board WHERE no = ?1", (no,)  # noqa: S608 - names of ours
    forms = {"config": OBJECT.name, "core": OBJECT.name}
    return [((), _plain(columns, row, forms)) for row in rows]


def _page(
    no: int, table: Table, columns: Sequence[str], after: tuple[Any, ...] | None
) -> Steps[list[tuple[tuple[Any, ...], tuple[Any, ...]]]]:
    key = ", ".join(table.key)
    beyond = "" if after is None else f"AND ({key}) > ({', '.join('?' * len(after))})"
    statement = (
        f"SELECT {key}, {', '.join(columns)} FROM {table.name} WHERE board = ? {beyond} "  # noqa: S608 - names of ours
        f"ORDER BY {key} LIMIT {_PAGE}"
    )
    rows = yield statement, (no, *(after or ()))
    forms = {name: form.name for name, form in table.columns.items()}
    width = len(table.key)
    return [(row[:width], _plain(columns, row[width:], forms)) for row in rows]


def _plain(columns: Sequence[str], row: Sequence[Any], forms: dict[str, str]) -> tuple[Any, ...]:
    """Returns the row with JSON in one spelling, so that only its contents are compared."""
    return tuple(
        dumps(json.loads(value)) if value is not None and forms.get(name) in _JSON else value
        for name, value in zip(columns, row, strict=True)
    )
