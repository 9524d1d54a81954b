"""Retraction: items that rest on a withdrawn, invalidated, superseded or deleted item get a notice.

An item rests on the items that it `depends_on`, is `derived_from` or `supports`; an analysis rests on the item
that is `analyzed_by` it. Notices pass along all chains of `depends_on` and `derived_from`, to live and archived
items; an item that merely supports another does not pass them on. From an item that some cannot see, no notice
reaches an item that they see. Each marked item gets one event for each retraction.

A new version of an entry clears its notices, also after a deletion, because its writer knew them. Sources
that it cites again in the same post bring them back. Notices that other items got because of the entry stay
until these items have a new version, because they rest on what the entry said before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from blackboard_mcp.protocols.events import SYSTEM, EventType
from blackboard_mcp.protocols.items import EdgeKind, Retraction, Status, Visibility, item_id
from blackboard_mcp.protocols.values import dataclass

from ...operation import Write
from ..access import visibility as sight
from ..debates import agreements
from ..ledger.ledger import Ledger, open_ledger
from ..ledger.principals import audience
from ..ledger.rows import ItemRow, Steps, numbers, sql
from . import endorsements

SUPERSEDED = "SUPERSEDED"
DELETED = "DELETED"
AT_ONCE = 200
"""The most items that get a notice in one transaction."""
_INHERITED = 200
"""The most notices that an item inherits from the items that it cites; more would add nothing new."""
_WAYS = {
    1: EdgeKind.DEPENDS_ON,
    2: EdgeKind.DERIVED_FROM,
    3: EdgeKind.ANALYZED_BY,
    4: EdgeKind.SUPPORTS,
}
_PASSED_ON = (EdgeKind.DEPENDS_ON, EdgeKind.DERIVED_FROM)
_FALLEN = (Status.WITHDRAWN, Status.INVALIDATED)


@dataclass(frozen=True, slots=True)
class _Notice:
    """A notice: `source` was retracted as `status`, and an item rests on it by an edge `kind` to `via`."""

    source: int
    status: str
    successor: int | None
    kind: EdgeKind
    via: int


def retract(ledger: Ledger, row: ItemRow, status: str, successor: int | None = None) -> Steps[None]:
    """Sends notices to the items that rest on `row`, ends requests to agree to it, and remembers a finding that fell.

    `status` says how it was retracted, `successor` what superseded it. Notices beyond `AT_ONCE` are left to `spread`.
    """
    yield from agreements.end(ledger, row, status)
    yield from endorsements.remember_fallen(ledger, row)
    yield sql("spreading_add"), (ledger.no, row.number, row.number, status, successor, ledger.agent)
    yield from _spread(ledger, AT_ONCE, row.number)


def spread(write: Write, board: str) -> Steps[bool]:
    """Sends the next notices of unfinished retractions on a board, and tells whether more are left."""
    ledger = yield from open_ledger(write, board, SYSTEM)
    yield from _spread(ledger, AT_ONCE, 0)
    yield from ledger.close()
    return bool((yield sql("spreading_next"), (ledger.no, 0)))


def boards_waiting() -> Steps[list[str]]:
    """Returns the boards with unfinished retractions."""
    return [row[0] for row in (yield sql("spreading_boards"), ())]


def clear(ledger: Ledger, row: ItemRow) -> Steps[None]:
    """Deletes an item's notices, because it has a new version."""
    yield sql("retractions_clear"), (ledger.no, row.number)


def cite(
    ledger: Ledger,
    row: ItemRow,
    edges: Iterable[tuple[EdgeKind, int]],
    targets: dict[int, ItemRow],
    *,
    aware: bool = False,
) -> Steps[None]:
    """Gives notices for sources that were retracted before `row` cited them by these new edges.

    `aware` says that the text already tells how its sources stand; then only what they rest on matters.
    """
    listed = list(edges)
    resting: list[tuple[EdgeKind, int]] = []
    for kind, n in listed:
        if kind in (*_PASSED_ON, EdgeKind.SUPPORTS) and (yield from _told(ledger, targets[n], row)):
            resting.append((kind, n))
    notices: dict[int, _Notice] = {}
    if resting:
        yield from _inherit(ledger, row, resting, targets, notices, aware=aware)
    if notices:
        yield from _mark(ledger, row, list(notices.values()), agent=ledger.agent)
        yield from _spread(ledger, AT_ONCE, 0)
    analyses: list[int] = []
    for kind, n in listed:
        if kind is EdgeKind.ANALYZED_BY and (yield from _told(ledger, row, targets[n])):
            analyses.append(n)
    if analyses:
        gone = yield from fallen(ledger, [row])
        for number in analyses:
            if row.number in gone and row.number not in (yield from _replaces(ledger, number)):
                status, successor = gone[row.number]
                notice = _Notice(row.number, status, successor, EdgeKind.ANALYZED_BY, row.number)
                yield from _mark(ledger, targets[number], [notice], agent=ledger.agent)
                yield from _spread(ledger, AT_ONCE, row.number)


def _inherit(
    ledger: Ledger,
    row: ItemRow,
    resting: Sequence[tuple[EdgeKind, int]],
    targets: dict[int, ItemRow],
    notices: dict[int, _Notice],
    *,
    aware: bool,
) -> Steps[None]:
    """Adds to `notices` what `row` gets by these edges: one notice for each source, by the closest way."""
    order = list(_WAYS.values())
    resting = sorted(resting, key=lambda e: order.index(e[0]))
    replaced: set[int] | None = None
    found: list[_Notice] = []
    if not aware:
        gone = yield from fallen(ledger, [targets[n] for _, n in resting])
        found += [_Notice(n, *gone[n], kind, n) for kind, n in resting if n in gone]
    leaning = {n: kind for kind, n in reversed(resting) if kind in _PASSED_ON}
    if leaning:
        passed = yield sql("retractions_passed_on"), (ledger.no, numbers(leaning), _INHERITED)
        found += [_Notice(source, status, by, leaning[via], via) for via, source, status, by in passed]
    for notice in found:
        if replaced is None:
            replaced = yield from _replaces(ledger, row.number)
        if notice.source not in replaced and notice.source != row.number:
            known = notices.get(notice.source)
            if known is None or (known.kind is EdgeKind.SUPPORTS and notice.kind is not EdgeKind.SUPPORTS):
                notices[notice.source] = notice


def _replaces(ledger: Ledger, number: int) -> Steps[set[int]]:
    """Returns the numbers of items that an item supersedes or took the place of; it gets no notices of those."""
    return {row[0] for row in (yield sql("superseded_by"), (ledger.no, number))}


def fallen(ledger: Ledger, rows: Sequence[ItemRow]) -> Steps[dict[int, tuple[str, int | None]]]:
    """Returns the retracted ones of the items by number, with the status and the successor's number or `None`."""
    by_number = {row.number: row for row in rows}
    gone: dict[int, tuple[str, int | None]] = {}
    for number, successor in (yield sql("successors"), (ledger.no, numbers(by_number))):
        gone[number] = (SUPERSEDED, successor)
    for row in rows:
        if row.status in _FALLEN:
            status = DELETED if row.deleted == 1 else row.status
            gone[row.number] = (status, gone.get(row.number, (None, None))[1])
    return gone


def _told(ledger: Ledger, source: ItemRow, row: ItemRow) -> Steps[bool]:
    """Tells whether a notice may pass from `source` to `row`: all who see `row` must see `source`."""
    if sight.shared(source.owner, row.owner):
        return True
    return row.visibility is Visibility.PRIVATE and bool(
        (yield from audience(ledger.board.id, source.owner, [row.owner]))
    )


def _mark(
    ledger: Ledger,
    row: ItemRow,
    notices: Sequence[_Notice],
    *,
    agent: str,
    names: dict[int, ItemRow] | None = None,
    watchers: Sequence[str] | None = None,
) -> Steps[None]:
    """Gives an item those of the notices that it lacks, with one event, and queues them for the items that rest on it.

    `names` holds rows of the items that the notices name, and `watchers` the item's watchers, if they are known.
    """
    known: dict[int, str] = dict((yield sql("retractions_known"), (ledger.no, row.number)))
    new = [notice for notice in notices if notice.source not in known]
    closer = [
        notice
        for notice in notices
        if known.get(notice.source) == EdgeKind.SUPPORTS and notice.kind is not EdgeKind.SUPPORTS
    ]
    if new:
        if names is None:
            wanted = {n for x in new[:8] for n in (x.source, x.via, x.successor) if n is not None}
            names = yield from _brief(ledger, wanted)
        if watchers is None:
            watchers = [r[1] for r in (yield sql("watchers_of"), (ledger.no, numbers([row.number])))]
        shown = [
            f"{names[notice.source].id} {notice.status}"
            + ("" if notice.via == notice.source else f" via {names[notice.via].id}")
            for notice in new[:8]
        ]
        data: dict[str, Any] = {"rests_on": shown}
        seq = yield from ledger.emit(
            EventType.ITEM_DOUBTED, row, agent=agent, data=data, concerns=[row.author, *watchers]
        )
        for notice in new:
            yield (
                sql("retraction_add"),
                (
                    *(ledger.no, row.number, notice.source, str(notice.kind), notice.via),
                    *(notice.status, notice.successor, seq),
                ),
            )
    for notice in closer:
        yield (
            sql("retraction_closer"),
            (ledger.no, row.number, notice.source, str(notice.kind), notice.via),
        )
    for notice in (*new, *closer):
        if notice.kind is not EdgeKind.SUPPORTS:
            yield (
                sql("spreading_add"),
                (ledger.no, notice.source, row.number, notice.status, notice.successor, agent),
            )


def _spread(ledger: Ledger, room: int, source: int) -> Steps[None]:
    """Sends notices to about `room` items, of the retraction of item `source`, or of any retraction if it is 0."""
    while room > 0:
        rows = yield sql("spreading_next"), (ledger.no, source)
        if not rows:
            return
        origin, via, after, status, successor, agent = rows[0]
        citing = yield sql("citing"), (ledger.no, via, after, room, int(via == origin))
        if citing:
            wanted = {number for number, _ in citing} | {origin, via}
            found = yield from _brief(ledger, wanted if successor is None else wanted | {successor})
            replacing = {row[0] for row in (yield sql("superseding"), (ledger.no, origin))}
            watching: dict[int, list[str]] = {}
            for item, name in (yield sql("watchers_of"), (ledger.no, numbers(n for n, _ in citing))):
                watching.setdefault(item, []).append(name)
            for number, way in citing:
                row = found[number]
                if number in (origin, *replacing):
                    continue
                if (yield from _told(ledger, found[via], row)):
                    notice = _Notice(origin, status, successor, _WAYS[way], via)
                    yield from _mark(
                        *(ledger, row, [notice]),
                        agent=agent,
                        names=found,
                        watchers=watching.get(number, ()),
                    )
        if len(citing) < room:
            yield sql("spreading_done"), (ledger.no, origin, via)
        else:
            yield sql("spreading_moved"), (ledger.no, origin, via, citing[-1][0])
        room -= len(citing) + 1


def _brief(ledger: Ledger, wanted: Iterable[int]) -> Steps[dict[int, ItemRow]]:
    """Returns items without texts and metadata, by number."""
    rows = yield sql("items_brief"), (ledger.no, numbers(wanted))
    return {row[1]: ItemRow(*row) for row in rows}


def notices(no: int, asked: str, agent: str) -> Steps[dict[int, list[Retraction]]]:
    """Returns the notices of items by number, oldest first, as far as the agent may see the items that they name.

    `asked` is a JSON list of numbers.
    """
    given: dict[int, list[Retraction]] = {}
    for item, type_, source, status, kind, via_type, via, by_type, by in (
        yield sql("retractions"), (no, asked, agent)
    ):
        notice = Retraction(
            id=item_id(type_, source),
            status=status,
            kind=EdgeKind(kind),
            via=item_id(via_type, via),
            by=None if by is None else item_id(by_type, by),
        )
        given.setdefault(item, []).append(notice)
    return given
