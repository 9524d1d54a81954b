"""Endorsements: the same finding by another agent supports the first, and is not stored twice."""

from __future__ import annotations

import json

from blackboard_mcp.protocols.answers import (
    Endorsement,
)
from blackboard_mcp.protocols.closeness import telling
from blackboard_mcp.protocols.events import EventType
from blackboard_mcp.protocols.findings import (
    FINDINGS,
    MAX_FINDING,
    SHARED_EDGES,
    fingerprint,
    normal_form,
    outline,
)
from blackboard_mcp.protocols.items import FALLEN, Draft, EdgeKind, ItemType, Zone

from ..ledger.ledger import Ledger, get_board, load, load_any
from ..ledger.rows import ItemRow, Steps, dumps, instant, numbers, sql
from .panels import may_stand_for

_TAGS_TOLD = 8
_WORD = 40
"""Letters of a telling word that are stored."""
_PAGE = 200


def _comparable(kind: str, text: str) -> bool:
    """Tells whether a text can be compared as a finding: by its type and length."""
    return kind in FINDINGS and len(text) <= MAX_FINDING


def remember(ledger: Ledger, row: ItemRow) -> Steps[None]:
    """Stores fingerprints of a new finding's text, by which the same finding of another agent is recognised."""
    if row.public and row.key is None and _comparable(row.type, row.text):
        yield from _remember(ledger.no, row.number, row.text)


def _remember(no: int, number: int, text: str) -> Steps[None]:
    """Stores the fingerprint of a text, and of its outline without numbers."""
    yield sql("finding_add"), (no, fingerprint(text), number)
    if but_for := outline(text):
        yield sql("finding_add"), (no, but_for, number)


def remember_fallen(ledger: Ledger, row: ItemRow) -> Steps[None]:
    """Stores the telling words of a finding that fell, by which findings close to it are recognised."""
    if row.status in FALLEN and row.public and row.key is None and _comparable(row.type, row.text):
        yield from _remember_words(ledger.no, row.number, row.text)


def _remember_words(no: int, number: int, text: str) -> Steps[None]:
    for word in word_marks(text):
        yield sql("finding_add"), (no, word, number)


def word_marks(text: str) -> tuple[str, ...]:
    """Returns the telling words of a text in the form in which they stand among the fingerprints."""
    return tuple(f"~{word[:_WORD]}" for word in telling(text)) if len(text) <= MAX_FINDING else ()


def forget(no: int, row: ItemRow) -> Steps[None]:
    """Deletes the fingerprints and the telling words of an item's text."""
    if row.public and row.key is None and _comparable(row.type, row.text):
        for said in (fingerprint(row.text), outline(row.text), *word_marks(row.text)):
            yield sql("finding_forget"), (no, said, row.number)


def fill() -> Steps[None]:
    """Stores the fingerprints of all findings in a file of an older version."""
    place = (0, 0)
    while True:
        rows = yield sql("findings_page"), (*place, dumps(sorted(FINDINGS)), _PAGE)
        for board, number, text, status in rows:
            if len(text) <= MAX_FINDING:
                yield from _remember(board, number, text)
                if status in FALLEN:
                    yield from _remember_words(board, number, text)
        if len(rows) < _PAGE:
            return
        place = (rows[-1][0], rows[-1][1])


def may_endorse(draft: Draft) -> bool:
    """Tells whether the draft is one of those that are compared with others' findings."""
    return (
        draft.text is not None
        and _comparable(draft.type or ItemType.FACT, draft.text)
        and draft.key is None
        and draft.status is None
        and draft.expected_version is None
        and draft.ttl_seconds is None
        and draft.agree is None
        and draft.public
    )


def find(ledger: Ledger, draft: Draft, edges: tuple[tuple[EdgeKind, int], ...]) -> Steps[ItemRow | None]:
    """Returns the oldest active finding of another agent that says everything that the draft says, or `None`.

    The draft must be a plain finding: visible to the board, without key, status, expected version, time to live or
    wish for agreement. Its edges must be of a shared kind and already belong to the other finding.
    """
    kind = draft.type or ItemType.FACT
    if draft.text is None or not may_endorse(draft) or any(k not in SHARED_EDGES for k, _ in edges):
        return None
    listed = yield sql("same_findings"), (ledger.no, fingerprint(draft.text), str(kind), ledger.agent)
    if not listed:
        return None
    rows = yield from load_any(ledger.no, [row[0] for row in listed])
    said = normal_form(draft.text)
    has: set[tuple[int, str, int]] = set()
    if edges:
        has = set((yield sql("edges_touching"), (ledger.no, numbers(rows))))
    for number in sorted(rows):
        same = normal_form(rows[number].text) == said
        if (
            same
            and may_stand_for(rows[number], draft)
            and all((number, str(k), target) in has for k, target in edges)
        ):
            return rows[number]
    return None


def endorse(ledger: Ledger, row: ItemRow, draft: Draft) -> Steps[None]:
    """Counts the agent once as endorsing the item, and restores the item if it is archived.

    The item does not change: the draft's tags and metadata are stored with the endorsement.
    """
    tags = list(draft.tags or ())
    first = yield (
        sql("endorsement_add"),
        (ledger.no, row.number, ledger.agent, dumps(tags), dumps(draft.metadata or {}), ledger.now),
    )
    if row.zone == Zone.ARCHIVE:
        yield from ledger.restore(row, why=f"found again by {ledger.agent}")
    if first:
        data = {"tags": tags[:_TAGS_TOLD]} if tags else {}
        yield from ledger.emit(EventType.ITEM_ENDORSED, row, data=data, concerns=[row.author])


def listed(board: str, agent: str, number: int, limit: int = 100) -> Steps[tuple[Endorsement, ...]]:
    """Returns up to `limit` endorsements of an item, earliest first; none if the agent may not see the item."""
    row = yield from get_board(board)
    if not (yield from load(row.no, [number], agent)):
        return ()
    rows = yield sql("endorsements"), (row.no, number, limit)
    return tuple(Endorsement(r[0], instant(r[3]), tuple(json.loads(r[1])), json.loads(r[2])) for r in rows)


def stances(
    no: int, asked: str, authors: dict[int, str]
) -> Steps[dict[int, tuple[tuple[str, ...], tuple[str, ...]]]]:
    """Returns pairs of supporters and opponents, by item number.

    `asked` is a JSON list of numbers; `authors` maps them to their authors. Each owner counts once, by its first
    agent; the author's owner does not count. Who opposes an item is not among its supporters.
    """
    rows = yield sql("stances"), (no, asked)
    if not rows:
        return {}
    wanted = dumps(sorted({authors[row[0]] for row in rows}))
    owners: dict[str, str] = dict((yield sql("owners_of"), (wanted,)))
    sides: dict[int, tuple[dict[str, str], dict[str, str]]] = {}
    for item, against, agent, owner in rows:
        if owner != owners.get(authors[item], authors[item]):
            sides.setdefault(item, ({}, {}))[against].setdefault(owner, agent)
    return {
        item: (
            tuple(agent for owner, agent in supporting.items() if owner not in opposing),
            tuple(opposing.values()),
        )
        for item, (supporting, opposing) in sides.items()
    }
