"""Posts that cross: an author is told about items on the same subject, and about versions of entries that it names in
edges, by others that it has not been shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from blackboard_mcp.protocols.answers import Attention
from blackboard_mcp.protocols.items import TALKING, TRANSITIONS, Item, ItemType
from blackboard_mcp.protocols.remarks import Remark, RemarkKind

from ..ledger.ledger import Ledger, load_any
from ..ledger.rows import ItemRow, Steps, dumps, numbers, sql
from ..reading.item_states import values

_MATTERS: Final = frozenset(
    {ItemType.HYPOTHESIS, ItemType.QUESTION, ItemType.PROBLEM, ItemType.PLAN, ItemType.DECISION}
)
"""Types of items that two agents are likely to write twice when neither has seen the other's."""
_OPEN: Final = dumps([str(status) for status, next_ in TRANSITIONS.items() if next_])
"""Statuses of items that may still change, as a JSON list."""
_ITEMS: Final = 20
"""Most items that are compared, the newest."""
_NAMED: Final = 3
"""Most items of others that are named for each post, the newest."""


def remarks(
    ledger: Ledger,
    items: Sequence[Item],
    attention: Attention,
    known: Sequence[Remark],
    cited: Mapping[int, Mapping[int, ItemRow]],
) -> Steps[tuple[Remark, ...]]:
    """Returns remarks on each new item that crosses with items by others, besides those that `known` names.

    `items` are those of the call, `attention` tells what their author has not been shown, and `cited` maps numbers of
    new items to the items to which their edges lead.
    """
    new = [(place, item) for place, item in enumerate(items) if item.number in ledger.fresh]
    asks = [(place, item) for place, item in new if _may_cross(item)]
    fresh = {seq: number for seq, number in attention.fresh if number} if asks or any(cited.values()) else {}
    if not fresh:
        return ()
    named = {one.number for remark in known for one in remark.about}
    moved = {*fresh.values()} - named
    entries = {
        number: row
        for targets in cited.values()
        for number, row in targets.items()
        if row.key is not None and number in moved
    }
    if entries:
        asked = ledger.no, numbers(entries), dumps([*fresh])
        entries = {number: entries[number] for (number,) in (yield sql("crossing_entries"), asked)}
    found = (yield from _same_subject(ledger, asks, fresh)) if asks else []
    same = yield from load_any(ledger.no, [number for number in found if number not in named])
    others = yield from values(ledger.board, [same[number] for number in sorted(same)], ledger.agent)
    written = yield from values(ledger.board, list(entries.values()), ledger.agent)
    return (*_moved(new, {entry.number: entry for entry in written}), *_crossing(asks, others))


def _same_subject(
    ledger: Ledger, asks: Sequence[tuple[int, Item]], fresh: Mapping[int, int]
) -> Steps[list[int]]:
    """Returns the numbers of items that the events `fresh` (sequences to numbers) began, on the subjects of `asks`."""
    types = sorted({str(item.type) for _, item in asks} & _MATTERS)
    targets = sorted({target for _, item in asks for target in _talks_to(item)})
    name, among = ("crossing", dumps(types)) if types else ("crossing_talk", _between_commas(fresh.values()))
    asked = (ledger.no, ledger.agent, dumps([*fresh]), _OPEN, among, dumps(targets), _ITEMS)
    return [row[0] for row in (yield sql(name), asked)]


def _between_commas(of: Iterable[int]) -> str:
    return f",{','.join(map(str, {*of}))},"


def _may_cross(item: Item) -> bool:
    return item.key is None and (item.type in _MATTERS or bool(_talks_to(item)))


def _talks_to(item: Item) -> set[int]:
    """Returns the numbers of the items whose conversation the item joins."""
    return {edge.target for edge in item.edges if edge.kind in TALKING}


def _moved(new: Sequence[tuple[int, Item]], entries: Mapping[int, Item]) -> list[Remark]:
    """Returns a remark on each new item that names in its edges a version of one of `entries` that is gone."""
    found: list[Remark] = []
    for place, item in new:
        if moved := [entries[number] for number in sorted({e.target for e in item.edges} & {*entries})]:
            found.append(Remark(place, RemarkKind.UNSEEN, tuple(moved[-_NAMED:]), len(moved[:-_NAMED])))
    return found


def _crossing(asks: Sequence[tuple[int, Item]], left: Collection[Item]) -> list[Remark]:
    found: list[Remark] = []
    for place, item in asks:
        to = _talks_to(item)
        same = [
            o
            for o in left
            if (o.type is item.type and item.type in _MATTERS) or not to.isdisjoint(_talks_to(o))
        ]
        left = [o for o in left if o not in same]
        if same:
            found.append(Remark(place, RemarkKind.UNSEEN, tuple(same[-_NAMED:]), len(same[:-_NAMED])))
    return found
