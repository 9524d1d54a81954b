"""The size of structured answers, limited so that no caller gets megabytes at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from blackboard_mcp.protocols.answers import Page
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.events import Event
from blackboard_mcp.protocols.items import MAX_CITED, MAX_METADATA, Item

from .searching import Around, SearchResult

MAX_BYTES: Final = 1_000_000
"""Most bytes of the items of one answer as JSON; a single item is always sent."""
_LONGEST_ESCAPE: Final = 6
_FRAME: Final = 4_096
_EDGE: Final = 64
_EVENT: Final = 600


def fitting(items: Sequence[Item]) -> int:
    """Returns how many of the first items fit; at least one, if there is any."""
    most = sum(
        _FRAME + _LONGEST_ESCAPE * (len(item.text) + (MAX_METADATA if item.metadata else 0)) for item in items
    )
    if most <= MAX_BYTES:
        return len(items)
    left = MAX_BYTES
    for place, item in enumerate(items):
        left -= _size(item)
        if left < 0:
            return max(place, 1)
    return len(items)


def fitting_page(page: Page) -> Page:
    """Returns the page, cut to the items that fit, with the cursor after them."""
    fit = fitting(page.items)
    if fit == len(page.items):
        return page
    return replace(page, items=page.items[:fit], cursor=page.items[fit - 1].number)


def fitting_events(events: Sequence[Event]) -> int:
    """Returns how many of the first events fit; at least one, if there is any."""
    left = MAX_BYTES
    for place, event in enumerate(events):
        left -= _EVENT
        if event.key or event.tags or event.metadata or event.data:
            left -= _bytes([event.key, event.tags, event.metadata, event.data])
        if left < 0:
            return max(place, 1)
    return len(events)


def fitting_found(found: SearchResult) -> SearchResult:
    """Returns the best hits that fit with their neighbours; a notice says how many were left out."""
    taken: list[Item] = []
    fit = 0
    for item in found.items:
        around = found.neighbours.get(item.number, Around())
        taken += [each for each in (item, around.before, around.after) if each is not None]
        if fit and fitting(taken) < len(taken):
            break
        fit += 1
    if fit == len(found.items):
        return found
    told = f"{len(found.items) - fit} more were too long for this answer: ask for them apart."
    notice = f"{found.notice} {told}" if found.notice else told
    return replace(found, items=found.items[:fit], notice=notice)


def check_fits(items: Sequence[Item]) -> None:
    """Checks that all items fit into one answer.

    Raises:
        InvalidInput: they do not.
    """
    fit = fitting(items)
    if fit < len(items):
        raise InvalidInput(
            f"These {len(items)} items are too long for one structured answer of {MAX_BYTES:,} bytes. Ask for fewer at "
            f"once, by limit or ids: the first {fit} fit.",
            fit=fit,
        )


def _size(item: Item) -> int:
    """Returns the bytes of an item as JSON, estimated from above."""
    edges = len(item.edges) + min(len(item.incoming), MAX_CITED)
    return _bytes([item.text, item.metadata, item.tags, item.key]) + 1_000 + _EDGE * edges


def _bytes(value: object) -> int:
    written = json.dumps(value, ensure_ascii=False)
    return len(written) if written.isascii() else len(written.encode("utf-8", "replace"))
