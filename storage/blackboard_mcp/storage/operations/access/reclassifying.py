"""Brings standing items under the present read rules, by an operator's command.

A rule marks what is written from then on. Here what stood before gets the marks that it would have now: items, their
events and counts in one transaction. What everybody's debates, requests, runs, rules and summaries rest on stays. What
a team sees stays with it, since a rule could show it to others than its author chose.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from blackboard_mcp.protocols.errors import Refused
from blackboard_mcp.protocols.events import SYSTEM, EventType
from blackboard_mcp.protocols.items import ItemType, Visibility, Zone, item_id
from blackboard_mcp.protocols.read_rules import ReadRule, Reclassified, reads, rules_of

from ...operation import Write
from ..items import endorsements
from ..ledger.ledger import Ledger, load_any, open_ledger
from ..ledger.principals import principals
from ..ledger.rows import ItemRow, Steps, dumps, numbers, sql

_PAGE: Final = 500
_NAMED: Final = 5
_OF_ALL: Final[Mapping[str, str]] = {
    ItemType.CONSTRAINT: "the board's rules",
    ItemType.HOT_ISSUE: "the board's hot issues",
    ItemType.SUMMARY: "a summary",
    ItemType.CRITIQUE: "a debate",
    ItemType.ANSWER: "an answer",
}


class _Met(NamedTuple):
    """An item that a rule keeps now."""

    number: int
    id: str
    key: str | None
    type: str
    rule: str
    mark: str
    of_team: bool


def reclassify(
    write: Write,
    board: str,
    *,
    rules: Sequence[ReadRule] | None = None,
    apply: bool = False,
    leave: bool = False,
) -> Steps[Reclassified]:
    """Finds the items of a board that everybody sees and rules keep; with `apply` it marks them by those in force.

    Raises:
        UnknownReference: the board does not exist.
        Refused: some are bound, and `leave` is false.
    """
    ledger: Ledger = yield from open_ledger(write, board, SYSTEM)
    met = yield from _met(ledger, rules_of(ledger.board.read_rules) if apply or rules is None else rules)
    teams = tuple((one.id, one.rule) for one in met if one.of_team)
    met = [one for one in met if not one.of_team]
    bound = yield from _bound(ledger, met)
    told = tuple((one.id, one.rule, bound[one.number]) for one in met if one.number in bound)
    free = [one for one in met if one.number not in bound]
    kept = tuple((one.id, one.rule) for one in free)
    if not apply:
        return Reclassified(kept, told, done=False, teams=teams)
    if (told or teams) and not leave:
        stay = []
        if told:
            named = ", ".join(f"{id_} ({why})" for id_, _, why in told[:_NAMED])
            stay += [
                f"{len(told)} items stay for everybody, because they are part of what the whole board sees: {named}"
                f"{', …' if len(told) > _NAMED else ''}"
            ]
        if teams:
            named = ", ".join(id_ for id_, _ in teams[:_NAMED])
            stay += [
                f"{len(teams)} items stay with their teams: {named}{', …' if len(teams) > _NAMED else ''}"
            ]
        raise Refused(f"{'; '.join(stay)}. Nothing was changed.")
    if free:
        yield from _mark(ledger, free)
    return Reclassified(kept, told, done=True, teams=teams)


def _met(ledger: Ledger, rules: Sequence[ReadRule]) -> Steps[list[_Met]]:
    """Returns the items that everybody sees and a rule keeps, each with the first such rule; and so those of teams that
    are not among its readers.
    """
    found: list[_Met] = []
    known: dict[str, frozenset[str]] = {}
    after = 0
    while rules:
        rows = yield sql("shared_items"), (ledger.no, after, _PAGE)
        for number, type_, key, tags, author, owner in rows:
            if author not in known:
                known[author] = yield from principals(ledger.no, author)
            of = known[author]
            for rule in rules:
                if rule.keeps(ledger.board.id, ItemType(type_), key, json.loads(tags), of):
                    name = item_id(type_, number)
                    if not (owner and reads(rule.readers, {owner})):
                        mark = rule.of(author, of)
                        found.append(_Met(number, name, key, type_, rule.name, mark, bool(owner)))
                    break
        if len(rows) < _PAGE:
            break
        after = rows[-1][0]
    return found


def _bound(ledger: Ledger, met: Sequence[_Met]) -> Steps[dict[int, str]]:
    """Returns what those of the items that must stay are part of, by number."""
    found = {one.number: _OF_ALL[one.type] for one in met if one.type in _OF_ALL}
    if met:
        rows = yield sql("bound_among"), (ledger.no, numbers(one.number for one in met))
        for number, why in sorted(map(tuple, rows)):  # `a debate` before its edges
            found.setdefault(number, why)
    taken: set[tuple[str, str]] = set()
    for one in met:
        if one.key is None or one.number in found:
            continue
        place = (one.mark, one.key)
        if place in taken or (yield sql("kept_entry"), (ledger.no, *place)):
            found[one.number] = "another entry with its key is kept"
        taken.add(place)
    return found


def _mark(ledger: Ledger, free: Sequence[_Met]) -> Steps[None]:
    """Gives the items the marks of their rules, with their events, and counts the board anew."""
    rows: dict[int, ItemRow] = yield from load_any(ledger.no, [one.number for one in free])
    moved: list[tuple[int, int, str]] = []
    for one in free:
        row = rows[one.number]
        yield from endorsements.forget(ledger.no, row)
        yield sql("events_keep"), (ledger.no, one.number, one.mark)
        yield sql("concerns_keep"), (ledger.no, one.number)
        yield sql("deliveries_keep"), (ledger.no, one.number)
        said = {
            "changed": ["visibility"],
            "was": {"visibility": str(Visibility.BOARD)},
            "now": {"visibility": str(Visibility.READERS)},
            "rule": one.rule,
        }
        seq = yield from ledger.emit(EventType.ITEM_CHANGED, replace(row, owner=one.mark), data=said)
        moved.append((one.number, seq, one.mark))
        if row.zone == Zone.WORKING:
            ledger.private_items += 1
            ledger.private_tokens += row.tokens
    listed = dumps(moved)
    yield sql("items_keep"), (ledger.no, listed)
    yield sql("mark_known"), (dumps(sorted({one.mark for one in free})),)
    yield sql("figures_drop"), (ledger.no,)
    yield sql("figures_fill"), (ledger.no,)
    archived = [(number, seq) for number, seq, _ in moved if rows[number].zone == Zone.ARCHIVE]
    if archived:
        yield sql("outbox_add_all"), (ledger.no, dumps(archived))
    yield from ledger.close()
