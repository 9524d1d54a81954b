"""A board's history as lines, page by page: each event, with the data that it is the first or last to mention.

The line of an item's first event at a version has that version's content. The line of its first event has the edges
between it and earlier items. The line of its last event has the item's present state and everything that belongs to
it. The last line has what belongs to the board as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from blackboard_mcp.protocols.values import dataclass

from ..operation import Rows
from ..operations.ledger.ledger import get_board
from ..operations.ledger.rows import Steps, numbers, sql
from . import lines
from .forms import ITEM, RowForm
from .tables import AT_END, BOARD, CONTENT, EDGE, EVENT, ITEM_STANDING, OF_ITEMS, Table

PAGE = 100
"""The number of lines in a page."""

_EVENT_NAMES = tuple(EVENT)


@dataclass(frozen=True, slots=True)
class Extent:
    """The part to be written: the board, its last event, and whether only what everybody sees is included."""

    no: int
    board: str
    last: int
    public: bool


def prepare() -> Steps[None]:
    """Creates indexes that speed up a large export, on a copy that is deleted afterwards."""
    yield sql("history_event_index"), ()
    yield sql("history_once_index"), ()
    # Without statistics the planner would read all idempotency keys of the agent.
    yield sql("history_once_figures"), ()


def extent(board: str, *, public: bool = False) -> Steps[Extent]:
    """Returns the extent of a board's history up to its present end.

    Raises:
        UnknownReference: there is no such board.
    """
    row = yield from get_board(board)
    last = row.seq
    if public:
        last = (yield sql("history_last_public"), (row.no,))[0][0] or 0
    return Extent(row.no, board, last, public)


def page(of: Extent, after: int, *, limit: int = PAGE) -> Steps[list[tuple[int, bytes]]]:
    """Returns at most `limit` lines after a sequence, each with its own sequence; none at the end.

    The last line is a page of its own, and must still be sealed (`lines.seal`).
    """
    rows = yield sql("history_events"), (of.no, after, of.last, int(of.public), limit)
    if len(rows) > 1 and rows[-1][0] == of.last:
        rows.pop()
    made: dict[int, dict[str, Any]] = {}
    first, last = [], []
    contents: dict[tuple[int, int], int] = {}
    for row in rows:
        seq, *columns = row[:13]
        line: dict[str, Any] = {"seq": seq}
        if not made and after == 0:
            line |= {"format": lines.FORMAT, "format_version": lines.VERSION}
            line |= {"board": of.board, "complete": not of.public}
        for name, stored in zip(_EVENT_NAMES, columns, strict=True):
            value = EVENT[name].to_file(stored)
            if value not in (None, "", [], {}):
                line[name] = value
        former, later, told = row[13:]
        if told:
            line["told"] = True
        number, version = row[4], row[7]
        if number is not None:
            if former is None:
                first.append((number, seq))
            if former != version:
                contents[number, version] = seq
            if not later:
                last.append((number, seq))
        made[seq] = line
    yield from _contents(of, contents, made)
    yield from _edges(of, dict(first), made)
    yield from _standing(of, dict(last), made)
    if not of.public and rows:
        yield from _once(of, after, rows[-1][0], made)
    if rows and rows[-1][0] == of.last:
        made[of.last]["end"] = yield from _end(of)
    return [(seq, lines.write(line)) for seq, line in made.items()]


def _contents(
    of: Extent, wanted: Mapping[tuple[int, int], int], made: dict[int, dict[str, Any]]
) -> Steps[None]:
    if not wanted:
        return
    columns = ", ".join(CONTENT)
    pairs = json.dumps(list(wanted))
    for table in ("item", "item_version"):
        statement = (
            f"SELECT number, {columns} FROM {table} WHERE board = ?1 AND (number, version) IN "  # noqa: S608 - names of ours
            "(SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?2))"
        )
        for row in (yield statement, (of.no, pairs)):
            content = _row(CONTENT, row[1:])
            made[wanted[row[0], content["version"]]]["content"] = content


def _edges(of: Extent, first: Mapping[int, int], made: dict[int, dict[str, Any]]) -> Steps[None]:
    if not first:
        return
    for row in sorted((yield sql("history_edges"), (of.no, numbers(first), int(of.public)))):
        line = made[first[max(row[0], row[2])]]
        line.setdefault("edges", []).append(_row(EDGE, row))


def _standing(of: Extent, last: Mapping[int, int], made: dict[int, dict[str, Any]]) -> Steps[None]:
    """Adds the present state of items, and what belongs to them, to the lines of their last events."""
    if not last:
        return
    listed = numbers(last)
    columns = ", ".join(ITEM_STANDING)
    statement = (
        f"SELECT number, {columns} FROM item WHERE board = ?1 AND number IN "  # noqa: S608 - names of ours
        "(SELECT value FROM json_each(?2)) ORDER BY number"
    )
    for row in (yield statement, (of.no, listed)):
        made[last[row[0]]]["standing"] = _row(ITEM_STANDING, row[1:])
    for table in OF_ITEMS:
        if of.public and table.private:
            continue
        found = yield _of_items(table), (of.no, listed)
        rows = [(stored[0], _row(table.columns, stored[1:])) for stored in _ordered(table, found)]
        if of.public:
            hidden = yield from _hidden(of, table, (told for _, told in rows))
            rows = [(number, told) for number, told in rows if not hidden & _named(table, told)]
        for number, told in rows:
            made[last[number]].setdefault("rows", {}).setdefault(table.name, []).append(told)


def _of_items(table: Table) -> str:
    """Returns a query for the rows that belong to listed items, each with its item; the list is read first."""
    columns = ", ".join(f"t.{name}" for name in table.columns)
    if table.item:
        by = f"INDEXED BY {table.index}" if table.index else ""
        joined = f"{table.name} t {by} ON t.board = ?1 AND t.{table.item} = j.value"
    else:
        joined = (
            "debate d ON d.board = ?1 AND d.root = j.value "
            f"CROSS JOIN {table.name} t ON t.board = ?1 AND t.{table.debate} = d.id"
        )
    return f"SELECT CAST(j.value AS INTEGER), {columns} FROM json_each(?2) j CROSS JOIN {joined}"  # noqa: S608 - names of ours


def _once(of: Extent, after: int, until: int, made: dict[int, dict[str, Any]]) -> Steps[None]:
    """Adds rows of tables `beside_event` to the line of their agent's first event at that instant."""
    for table in AT_END:
        if not table.beside_event:
            continue
        columns = ", ".join(f"t.{name}" for name in table.columns)
        statement = (
            f"SELECT e.seq, {columns} FROM event e CROSS JOIN {table.name} t "  # noqa: S608 - names of ours
            "ON t.board = e.board AND t.agent = e.agent AND t.at = e.at "
            "WHERE e.board = ?1 AND e.seq > ?2 AND e.seq <= ?3 AND NOT EXISTS ("
            "SELECT 1 FROM event f WHERE f.board = e.board AND f.agent = e.agent AND f.at = e.at AND f.seq < e.seq)"
        )
        for row in _ordered(table, (yield statement, (of.no, after, until))):
            rows = made[row[0]].setdefault("rows", {}).setdefault(table.name, [])
            rows.append(_row(table.columns, row[1:]))


def _end(of: Extent) -> Steps[dict[str, Any]]:
    """Returns what belongs to the board as a whole."""
    columns = ", ".join(BOARD)
    row = (yield f"SELECT {columns} FROM board WHERE no = ?1", (of.no,))[0]  # noqa: S608 - names of ours
    end: dict[str, Any] = {"board": _row(BOARD, row)}
    if not of.public:
        rows: dict[str, list[dict[str, Any]]] = {}
        for table in AT_END:
            names = ", ".join(f"t.{name}" for name in table.columns)
            order = ", ".join(f"t.{name}" for name in table.key)
            beside = (
                "AND NOT EXISTS (SELECT 1 FROM event e "
                "WHERE e.board = t.board AND e.agent = t.agent AND e.at = t.at)"
                if table.beside_event
                else ""
            )
            statement = f"SELECT {names} FROM {table.name} t WHERE t.board = ?1 {beside} ORDER BY {order}"  # noqa: S608 - names of ours
            if found := (yield statement, (of.no,)):
                rows[table.name] = [_row(table.columns, row) for row in found]
        end["rows"] = rows
        end["owners"] = dict((yield sql("history_owners"), (of.no,)))
    end["sha256"] = ""
    return end


def _hidden(of: Extent, table: Table, rows: Iterable[dict[str, Any]]) -> Steps[set[int]]:
    named: set[int] = set()
    for row in rows:
        named |= _named(table, row)
    if not named:
        return set()
    return {row[0] for row in (yield sql("history_private"), (of.no, numbers(named)))}


def _named(table: Table, row: dict[str, Any]) -> set[int]:
    return {row[n] for n, form in table.columns.items() if form.name == ITEM.name and row[n] is not None}


def _ordered(table: Table, rows: Rows) -> Rows:
    """Returns rows sorted by the table's key, which starts at the second column.

    Sorting in the query would make the engine read whole tables in the order of their key.
    """
    places = [1 + list(table.columns).index(name) for name in table.key]
    return sorted(rows, key=lambda row: [row[place] for place in places])


def _row(forms: Mapping[str, RowForm], stored: Sequence[Any]) -> dict[str, Any]:
    return {name: form.to_file(value) for (name, form), value in zip(forms.items(), stored, strict=True)}
