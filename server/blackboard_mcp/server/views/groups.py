"""Items of a section by rank, with reports that are alike in groups.

The items of a section seldom change from one view to the next, so groups are kept. They depend on nothing but the
items, which never change themselves, on which of them the reader has not read, and on how many others rest on each.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from blackboard_mcp.protocols.items import Item
from cachetools import LRUCache

from .standing import ALIKE, Standing

KEPT: Final = 2_048
"""Items in all groups that are kept, at most."""
_FEW: Final = 8
"""Items that are grouped anew each time, if they are fewer."""
_LONG: Final = 2_000
"""Characters of the longest text whose item is kept."""
_NUMBER = attrgetter("number")


class Group(NamedTuple):
    """Items that share the line of `first`, which is the newest of them.

    `newer` is the newest report alike by another author or of other importance, if that is newer still. `many` counts
    the reports alike of everybody.
    """

    first: Item
    rest: tuple[Item, ...]
    newer: Item | None
    many: int


_Key = tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[int, int], ...]]
_kept: LRUCache[_Key, tuple[Sequence[Item], Sequence[Group]]] = LRUCache(
    KEPT, getsizeof=lambda kept: len(kept[0])
)
"""Groups by the identities of their items. The items are kept too, so that no other gets the identity of one."""
_keeping = threading.Lock()


def grouped(standing: Standing, items: Iterable[Item]) -> Sequence[Group]:
    """Returns the items in groups by rank: reports of one author that differ only in figures are one group."""
    listed = list(items)
    if len(listed) < _FEW:
        return _grouped(standing, listed)
    key = _key(standing, listed)
    with _keeping:
        found = _kept.get(key)
    if found is not None:
        return found[1]
    groups = _grouped(standing, listed)
    if len(listed) <= KEPT and max(len(item.text) for item in listed) <= _LONG:
        with _keeping:
            _kept[key] = listed, groups
    return groups


def _key(standing: Standing, items: Sequence[Item]) -> _Key:
    return tuple(map(id, items)), *standing.marks(items)


def forget() -> None:
    """Drops all groups that are kept."""
    with _keeping:
        _kept.clear()


def _grouped(standing: Standing, items: Sequence[Item]) -> list[Group]:
    groups: dict[tuple[str, int, int], list[Item]] = {}
    newest: dict[int, Item] = {}
    counts: dict[int, int] = {}
    for item in standing.ranked(items):
        single = item.type not in ALIKE or item.key is not None or item.opponents
        pattern = -item.number if single else standing.pattern(item)
        group = item.author, item.importance, pattern
        if group in groups:
            groups[group].append(item)
        else:
            groups[group] = [item]
        before = newest.get(pattern)
        counts[pattern] = counts.get(pattern, 0) + 1
        if before is None or item.number > before.number:
            newest[pattern] = item
    found: list[Group] = []
    for (_, _, pattern), alike in groups.items():
        alike.sort(key=_NUMBER, reverse=True)
        last = newest[pattern]
        newer = last if last.number > alike[0].number else None
        found.append(Group(alike[0], tuple(alike[1:]), newer, counts[pattern]))
    return found
