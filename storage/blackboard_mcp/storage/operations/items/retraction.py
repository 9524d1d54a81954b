"""Retraction: what rests on a withdrawn, invalidated, superseded or deleted item gets a notice that says so.

An item rests on what it `depends_on`, is `derived_from` or `supports`, and an analysis on what is
`analyzed_by` it. Notices are passed on over `depends_on` and `derived_from` as far as they lead, live or
archived; who merely supports something does not pass them on. From what not everybody sees they reach nothing
that others see. Each marked item has one event for each retraction.

A new version of an entry clears its notices, after a delete as well: it was written knowing them. What it
cites again in the same post gives them anew. Notices that others got because of the entry stay with them
until they have a new version themselves: they rest on what was said then.
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

SUPERSEDED = "SUPERSEDED"
DELETED = "DELETED"
AT_ONCE = 200
"""Items told in the transaction of the retraction, and in each one after it."""
_INHERITED = 200
"""Most notices an item takes over from what it cites; more would only say the same again."""
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
    """That `source` was retracted, and by way of what an item rests on it."""

    source: int
    status: str
    successor: int | None
    kind: EdgeKind
    via: int


def retract(ledger: Ledger, row: ItemRow, status: str, successor: int | None = None) -> Steps[None]:
    """Tells what rests on `row`; what is too much for this transaction is left to `spread`.

    Nobody is asked to agree to it any more.
    """
    yield from agreements.end(ledger, row, status)
    yield sql("spreading_add"), (ledger.no, row.number, row.number, status, successor, ledger.agent)
    yield from _spread(ledger, AT_ONCE, row.number)


def spread(write: Write, board: str) -> Steps[bool]:
    """Tells the next ones of retractions under way on a board; whether there are more."""
    ledger = yield from open_ledger(write, board, SYSTEM)
    yield from _spread(ledger, AT_ONCE, 0)
    yield from ledger.close()
    return bool((yield sql("spreading_next"), (ledger.no, 0)))


def boards_waiting() -> Steps[list[str]]:
    """Boards with retractions under way."""
    return [row[0] for row in (yield sql("spreading_boards"), ())]


def clear(ledger: Ledger, row: ItemRow) -> Steps[None]:
    """A new version rests on nothing yet."""
    yield sql("retractions_clear"), (ledger.no, row.number)


def cite(
    ledger: Ledger,
    row: ItemRow,
    edges: Iterable[tuple[EdgeKind, int]],
    targets: dict[int, ItemRow],
    *,
    aware: bool = False,
) -> Steps[None]:
    """Marks what by new edges of `row` rests on something retracted before.

    `aware`: the text tells of its sources as they stand, so that only what these rest on is news.
    """
    listed = list(edges)
    resting: list[tuple[EdgeKind, int]] = []
    for kind, n in listed:
        if kind in (*_PASSED_ON, EdgeKind.SUPPORTS) and (yield from _told(targets[n], row)):
            resting.append((kind, n))
    notices: dict[int, _Notice] = {}
    if resting:
        yield from _inherit(ledger, row, resting, targets, notices, aware=aware)
    if notices:
        yield from _mark(ledger, row, list(notices.values()), agent=ledger.agent)
        yield from _spread(ledger, AT_ONCE, 0)
    analyses: list[int] = []
    for kind, n in listed:
        if kind is EdgeKind.ANALYZED_BY and (yield from _told(row, targets[n])):
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
    """Collects what `row` has to be told by these edges, each source once, the closest way."""
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
    """What an item supersedes: of that it need not be told."""
    return {row[0] for row in (yield sql("superseded_by"), (ledger.no, number))}


def fallen(ledger: Ledger, rows: Sequence[ItemRow]) -> Steps[dict[int, tuple[str, int | None]]]:
    """Those of the items that are retracted, with how, and by what each was superseded."""
    by_number = {row.number: row for row in rows}
    gone: dict[int, tuple[str, int | None]] = {}
    for number, successor in (yield sql("successors"), (ledger.no, numbers(by_number))):
        gone[number] = (SUPERSEDED, successor)
    for row in rows:
        if row.status in _FALLEN:
            status = DELETED if row.deleted == 1 else row.status
            gone[row.number] = (status, gone.get(row.number, (None, None))[1])
    return gone


def _told(source: ItemRow, row: ItemRow) -> Steps[bool]:
    """Whether a notice may go from one item to the other; none leaves an item that some cannot see."""
    if sight.shared(source.owner, row.owner):
        return True
    return row.visibility is Visibility.PRIVATE and bool((yield from audience(source.owner, [row.owner])))


def _mark(
    ledger: Ledger,
    row: ItemRow,
    notices: Sequence[_Notice],
    *,
    agent: str,
    names: dict[int, ItemRow] | None = None,
    watchers: Sequence[str] | None = None,
) -> Steps[None]:
    """Gives an item those of the notices it does not have, with one event, and passes them on."""
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
    """Tells up to about `room` items of one retraction, or of any where `source` is 0."""
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
                if (yield from _told(found[via], row)):
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
    rows = yield sql("items_brief"), (ledger.no, numbers(wanted))
    return {row[1]: ItemRow(*row) for row in rows}


def notices(no: int, asked: str, agent: str) -> Steps[dict[int, list[Retraction]]]:
    """Retraction notices of the items that a JSON list names, oldest first, as far as the agent sees what they name."""
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
