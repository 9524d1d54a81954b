"""Duplicates: an agent's repeated post is not stored twice, and remarks say what a new post repeats or joins.

A post repeats another if type, text, edges and visibility are the same. What it answers must not have changed
since, and it must meet no duty. Logs and results never count as repeated, since an event may happen again in
the same words.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from blackboard_mcp.protocols.closeness import are_close
from blackboard_mcp.protocols.debates import DebateState, Duty, ObligationState
from blackboard_mcp.protocols.findings import FINDINGS, MAX_FINDING, fingerprint, outline
from blackboard_mcp.protocols.items import (
    LETTERS,
    TRANSITIONS,
    Draft,
    EdgeKind,
    Item,
    ItemType,
    Status,
    Visibility,
    parse_ref,
)
from blackboard_mcp.protocols.remarks import Remark, RemarkKind

from ...operation import Rows
from ..debates import agreements
from ..ledger.ledger import Ledger, load_any
from ..ledger.principals import mark_of
from ..ledger.rows import ItemRow, Steps, dumps, numbers, sql
from ..reading.item_states import values
from . import questions
from .endorsements import word_marks
from .panels import may_stand_for

_AGAIN = frozenset({ItemType.LOG, ItemType.RESULT})
_LOOKED_AT = 20
"""The most items that say the same of which one is looked for in the draft's panel."""
_CRITIQUES = 5
"""The most critiques that a remark names."""
_HOW = {"same": RemarkKind.FALLEN, "close": RemarkKind.CLOSE, "numbers": RemarkKind.NUMBERS}
"""Ways in which findings are alike, in the order in which they are told."""
_BY_NUMBERS = 3
"""The most remarks of one call on findings that differ only in their numbers."""


def may_repeat(draft: Draft) -> bool:
    """Tells whether the draft is one of those that are compared with the agent's own items."""
    return (
        draft.text is not None
        and draft.type not in _AGAIN
        and draft.key is None
        and draft.status is None
        and draft.expected_version is None
        and draft.ttl_seconds is None
    )


def find(ledger: Ledger, draft: Draft, edges: Sequence[tuple[EdgeKind, int]]) -> Steps[ItemRow | None]:
    """Returns the agent's own unchanged item that the draft repeats, or `None`."""
    kind = draft.type or ItemType.FACT
    if draft.text is None or not may_repeat(draft):
        return None
    bears = yield from mark_of(ledger.agent, draft, ledger.side)
    finding = draft.public and _is_finding(kind, draft.text)
    said = fingerprint(draft.text) if finding and draft.text.strip() else ""
    asked = (ledger.no, draft.sha256, ledger.agent, str(kind), bears, said)
    listed = [row[0] for row in (yield sql("said_before"), asked)]
    if not listed:
        return None
    leaving: dict[int, set[tuple[str, int]]] = {number: set() for number in listed}
    for source, way, target in (yield sql("edges_touching"), (ledger.no, numbers(listed))):
        if source in leaving:
            leaving[source].add((way, target))
    wanted = {(str(way), target) for way, target in edges}
    same = [number for number in listed if leaving[number] == wanted]
    rows = yield from load_any(ledger.no, same[:_LOOKED_AT])
    return next((rows[number] for number in same[:_LOOKED_AT] if may_stand_for(rows[number], draft)), None)


def repeat(ledger: Ledger, row: ItemRow, draft: Draft) -> Steps[tuple[str, ...]]:
    """Restores the repeated item if it is archived.

    Returns the names of those fields in which the draft differs; they keep their old values.
    """
    if row.zone == "archive":
        yield from ledger.restore(row, why=f"posted again by {ledger.agent}")
    differs = {
        "importance": draft.importance not in (None, row.importance),
        "tags": draft.tags is not None and dumps(list(draft.tags)) != row.tags,
        "metadata": draft.metadata is not None and dumps(draft.metadata) != dumps(json.loads(row.metadata)),
    }
    return tuple(name for name, other in differs.items() if other)


def remarks(
    ledger: Ledger, items: Sequence[Item], endorsed: Iterable[int], same: Mapping[int, tuple[str, ...]]
) -> Steps[tuple[Remark, ...]]:
    """Returns the remarks on the items just written, in their order.

    `endorsed` holds positions of items that were endorsed. `same` maps positions of repeated items to the fields
    in which they differ.
    """
    found: list[Remark] = []
    old = {*endorsed, *same}
    by_numbers = 0
    for place, item in enumerate(items):
        if place in same:
            found.append((yield from _same(ledger, place, item, same[place])))
        if place in old or item.number not in ledger.fresh or item.visibility is not Visibility.BOARD:
            continue
        if item.edges:
            found += yield from _claimed(ledger, place, item)
        if item.edges or item.type is ItemType.QUESTION:
            found += yield from _asking(ledger, place, item)
        if item.agreement is not None:
            found += yield from _unable(ledger, place, item, item.agreement.waiting)
        elif item.type is ItemType.DECISION:
            found += yield from _deciding(ledger, place, item)
        if item.type is ItemType.CRITIQUE:
            found += yield from _criticised(ledger, place, item)
        if item.key is None and _is_finding(item.type, item.text):
            alike = yield from _alike(ledger, place, item, numbers_too=by_numbers < _BY_NUMBERS)
            by_numbers += sum(remark.kind is RemarkKind.NUMBERS for remark in alike)
            found += alike
    return tuple(found)


def repeated(
    ledger: Ledger, items: Sequence[Item], same: Iterable[Sequence[Any]] = ()
) -> Steps[tuple[Remark, ...]]:
    """Returns the remarks on repeated items from the positions and fields stored under an idempotency key."""
    found: list[Remark] = []
    for place, fields in same:
        found.append((yield from _same(ledger, place, items[place], tuple(fields))))
    return tuple(found)


def _same(ledger: Ledger, place: int, item: Item, fields: tuple[str, ...]) -> Steps[Remark]:
    """Returns the remark on a repeated item, about a question and its answer."""
    about: tuple[Item, ...] = (item,)
    if item.type is ItemType.QUESTION:
        about = yield from _shown(ledger, [item.number], answers=True)
        if answer := about[0].answered_by:
            about += yield from _shown(ledger, [parse_ref(answer).number])
    return Remark(place, RemarkKind.SAME, about, fields=fields)


def _claimed(ledger: Ledger, place: int, item: Item) -> Steps[list[Remark]]:
    """Returns a remark if the item claims to supersede or refute items of others."""
    targets = [e.target for e in item.edges if e.kind in (EdgeKind.SUPERSEDES, EdgeKind.REFUTES)]
    rows = yield from load_any(ledger.no, targets)
    others = [n for n in dict.fromkeys(targets) if rows[n].author != item.author and rows[n].public]
    if not others:
        return []
    return [Remark(place, RemarkKind.CLAIM, (yield from _shown(ledger, others)))]


def _deciding(ledger: Ledger, place: int, item: Item) -> Steps[list[Remark]]:
    """Returns a remark if the decision is about open problems, or rests on open questions."""
    open_ = yield from agreements.open_problems(ledger, ledger.fresh[item.number])
    rests = (EdgeKind.DERIVED_FROM, EdgeKind.DEPENDS_ON)
    rows = yield from load_any(ledger.no, [edge.target for edge in item.edges if edge.kind in rests])
    asked = (row for row in rows.values() if row.type == ItemType.QUESTION and row.status == Status.ACTIVE)
    open_ += [row for row in asked if row.public]
    if not open_:
        return []
    shown = yield from _shown(ledger, [row.number for row in open_], answers=True)
    about = tuple(one for one in shown if not one.answered_by)
    return [Remark(place, RemarkKind.SOLVES, about)] if about else []


def _asking(ledger: Ledger, place: int, item: Item) -> Steps[list[Remark]]:
    """Returns remarks on questions and on replies.

    They say whose answers a question waits for, which items that a reply answers are over, and whose answers the
    question or critique still waits for.
    """
    found: list[Remark] = []
    asks = item.type is ItemType.QUESTION
    if asks:
        names = yield from questions.waiting_for(ledger.no, item.number)
        if names:
            found.append(Remark(place, RemarkKind.ASKS, (item,), fields=tuple(names)))
            found += yield from _unable(ledger, place, item, names)
        unasked = (yield from questions.spoken_to(ledger.no, item.text)) if item.key is None else []
        if unasked and unasked[0] not in (*names, item.author):
            found.append(Remark(place, RemarkKind.UNASKED, (item,), fields=tuple(unasked)))
    replied = [edge.target for edge in item.edges if edge.kind is EdgeKind.REPLIES_TO]
    rows = yield from load_any(ledger.no, replied)
    asked = [n for n in replied if not asks and rows[n].type == ItemType.QUESTION and rows[n].public]
    # Whether a question is answered is told to those whose own post does not answer it.
    reply = item.type is ItemType.REPLY
    answers = item.type is not ItemType.ANSWER and any(
        not reply or rows[n].author == item.author for n in asked
    )
    for question in (yield from _shown(ledger, asked, answers=answers)) if asked else ():
        names = yield from questions.waiting_for(ledger.no, question.number)
        found.append(Remark(place, RemarkKind.ANSWERS, (question,), fields=tuple(names)))
    over = [n for n in dict.fromkeys(replied) if rows[n].public and not TRANSITIONS[Status(rows[n].status)]]
    if over:
        found.append(Remark(place, RemarkKind.OVER, (yield from _shown(ledger, over[:_CRITIQUES]))))
    for number in dict.fromkeys(replied):
        if rows[number].type == ItemType.CRITIQUE and rows[number].public and number not in over:
            duties: Rows = yield sql("obligations_of_item"), (ledger.no, number)
            names = [d[0] for d in duties if d[2] == Duty.RESPOND and d[3] == ObligationState.OUTSTANDING]
            if names:
                about = yield from _shown(ledger, [number])
                found.append(Remark(place, RemarkKind.ANSWERS, about, fields=tuple(names)))
    return found


def _unable(ledger: Ledger, place: int, item: Item, names: Sequence[str]) -> Steps[list[Remark]]:
    """Returns remarks on agents whom the item asks in vain: who may only read, and who was never on the board."""
    rows: Rows = (yield sql("unable"), (ledger.no, dumps(list(names)))) if names else []
    readers = tuple(name for name, reads, _ in rows if reads)
    found = [Remark(place, RemarkKind.READS, (item,), fields=readers)] if readers else []
    for name, reads, other in rows:
        # Whom a question asks may come yet, unless it is misspelt.
        if not reads and (other is not None or item.type is not ItemType.QUESTION):
            fields = (name,) if other is None else (name, other)
            found.append(Remark(place, RemarkKind.UNKNOWN, (item,), fields=fields))
    return found


def _criticised(ledger: Ledger, place: int, item: Item) -> Steps[list[Remark]]:
    """Returns remarks on earlier critiques of the same items and a debate joined, or one on items that are over."""
    targets = [edge.target for edge in item.edges if edge.kind is EdgeKind.CRITIQUES]
    if not targets:
        return []
    if item.debate is None:
        rows = yield from load_any(ledger.no, targets)
        over = [
            n for n in dict.fromkeys(targets) if rows[n].public and not TRANSITIONS[Status(rows[n].status)]
        ]
        return (
            [Remark(place, RemarkKind.OVER, (yield from _shown(ledger, over[:_CRITIQUES])))] if over else []
        )
    found: list[Remark] = []
    if any(kind is EdgeKind.CRITIQUES and id_[0] == LETTERS[ItemType.CRITIQUE] for kind, id_ in item.cites):
        joined = yield sql("debates_of_critique"), (ledger.no, item.number)
        roots = [row[1] for row in joined if row[2] == DebateState.OPEN and row[1] not in targets]
        if roots:
            found.append(Remark(place, RemarkKind.JOINED, (yield from _shown(ledger, roots))))
    asked = (ledger.no, numbers(targets), item.number, ledger.agent)
    listed = [row[0] for row in (yield sql("critiques_before"), asked)]
    if listed:
        about = yield from _shown(ledger, listed[:_CRITIQUES])
        found.append(Remark(place, RemarkKind.CRITICISED, about, max(0, len(listed) - _CRITIQUES)))
    return found


def _alike(ledger: Ledger, place: int, item: Item, *, numbers_too: bool) -> Steps[list[Remark]]:
    """Returns a remark if an older finding fell that says the same or about the same, or differs only in numbers."""
    known = {edge.target for edge in item.edges}
    said, but_for = fingerprint(item.text), outline(item.text) if numbers_too else ""
    words = dumps(word_marks(item.text))
    asked = (ledger.no, said, but_for, str(item.type), item.number, words)
    found = {
        how: [number for number, way in rows if way == how and number not in known]
        for rows in [(yield sql("findings_alike"), asked)]
        for how in _HOW
    }
    for how, kind in _HOW.items():
        if how == "close" and found[how]:
            rows = yield from load_any(ledger.no, found[how])
            found[how] = [n for n in found[how] if are_close(rows[n].text, item.text)]
        if found[how]:
            return [Remark(place, kind, (yield from _shown(ledger, found[how][:1])))]
    return []


def _shown(ledger: Ledger, wanted: Sequence[int], *, answers: bool = False) -> Steps[tuple[Item, ...]]:
    """Returns the items with these numbers, as the agent sees them."""
    rows = yield from load_any(ledger.no, wanted)
    listed = [rows[number] for number in wanted]
    return tuple((yield from values(ledger.board, listed, ledger.agent, answers=answers)))


def _is_finding(kind: ItemType, text: str) -> bool:
    """Tells whether the item can be compared as a finding: by its type, and by the length of its text."""
    return kind in FINDINGS and len(text) <= MAX_FINDING
