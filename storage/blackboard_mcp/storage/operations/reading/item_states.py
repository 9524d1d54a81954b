"""Items as an agent may see them, with everything that other rows say about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import Any, cast

from blackboard_mcp.protocols.access import Trust
from blackboard_mcp.protocols.agreements import Agreement
from blackboard_mcp.protocols.errors import StoreDamaged
from blackboard_mcp.protocols.items import (
    FALLEN,
    Contest,
    Edge,
    EdgeKind,
    Item,
    ItemType,
    Retraction,
    content_hash,
    item_id,
)

from ..debates import agreements
from ..items import claims, endorsements, retraction, trust
from ..leaving import retention
from ..ledger.ledger import check_index, load
from ..ledger.rows import BoardRow, Cited, ItemRow, Kinds, Steps, columns_of, kinds_of, numbers, sql


def values(
    board: BoardRow, rows: Iterable[ItemRow], agent: str, kinds: Kinds | None = None, *, answers: bool = False
) -> Steps[list[Item]]:
    """Returns items with their edges, debates, supporters, opponents and retraction notices, in the order of `rows`.

    With `answers`, questions have `answered_by`. `kinds` are those of the board, if the caller knows them.

    Raises:
        StoreDamaged: the text of one differs from what was posted. A wrong text is never shown.
    """
    listed = list(rows)
    if not listed:
        return []
    # Of most items no row says more than their own; these are gone through once, at the end.
    odd = [row for row in listed if type(row) is not KeptRow or not row.plain]
    for row in odd:
        if not isinstance(row, KeptRow) and not _is_intact(row):
            raise StoreDamaged(
                f"{row.id}@{row.version} on board '{board.id}' is damaged: its text is not what was posted, so nothing "
                "is shown. Nothing was changed. Leave it out if you can, and tell who runs the server: `blackboard-mcp "
                "doctor` names all that is damaged, and a backup has it.",
                item=row.id,
            )
    there = kinds or (yield from kinds_of(board.no))
    about = there.edges or there.debates or there.endorsements or there.retractions
    asked = numbers([row.number for row in listed]) if about else ""
    leaving: dict[int, list[Cited]] = {}
    arriving: dict[int, list[Cited]] = {}
    fell: dict[int, list[str]] = {}
    newer: dict[int, list[str]] = {}
    touching = (yield sql("edges_visible"), (board.no, asked, agent)) if there.edges else []
    for source, kind, target, source_type, target_type, status, version in sorted(touching):
        edge = Edge(source, EdgeKind(kind), target)
        leaving.setdefault(source, []).append((edge, item_id(target_type, target)))
        arriving.setdefault(target, []).append((edge, item_id(source_type, source)))
        if status in FALLEN:
            fell.setdefault(source, []).append(item_id(target_type, target))
        elif version:
            newer.setdefault(source, []).append(f"{item_id(target_type, target)}@{version}")
    states: dict[int, str] = {}
    outcomes: dict[int, tuple[str, int]] = {}
    if there.debates:
        # The newest debate on an item counts, or else the newest of which it is a critique.
        for debate in sorted((yield sql("debate_states"), (board.no, asked)), key=itemgetter(1, 2)):
            states[debate[0]] = debate[3]
            if debate[1]:
                outcomes[debate[0]] = (debate[4], debate[5])
    successions: dict[int, list[tuple[str, str]]] = {}
    if replaced := [number for number, (_, to) in outcomes.items() if to]:
        for number, to, type_, status in (yield sql("successions"), (board.no, numbers(replaced), agent)):
            successions.setdefault(number, []).append((item_id(type_, to), status))
    begun = {row.thread for row in odd if row.thread != row.number}
    threads = {row.number: row.id for row in listed if row.number in begun} if begun else {}
    if elsewhere := begun - threads.keys():
        for number, type_ in (yield sql("types"), (board.no, numbers(elsewhere), agent)):
            threads[number] = item_id(type_, number)
    stances: dict[int, tuple[tuple[str, ...], tuple[str, ...]]] = {}
    if there.edges or there.endorsements:
        stances = yield from endorsements.stances(board.no, asked, {row.number: row.author for row in listed})
    retracted: dict[int, list[Retraction]] = {}
    if there.retractions:
        retracted = yield from retraction.notices(board.no, asked, agent)
    relied: dict[int, Trust] = {}
    if there.trusts:
        relied = yield from trust.trusts(board.no, [row.number for row in listed])
    asked_for: dict[int, Agreement] = {}
    if there.agreements:
        asked_for = yield from agreements.standing(board.no, [row.number for row in listed if row.public])
    forgotten = yield from retention.told(board.no, odd)
    said = yield from _claims(
        board.no, listed if leaving or arriving or answers else odd, leaving, arriving, agent, answers=answers
    )
    more = {number for number, _ in forgotten}.union(
        *(leaving, arriving, states, stances, retracted, relied, asked_for, said.undecided, said.answered)
    )
    made = [row.made for row in listed if type(row) is KeptRow and row.made is not None and row.plain]
    if len(made) == len(listed) and more.isdisjoint([row.number for row in listed]):
        return made
    return [
        _plain(board.id, threads, row)
        if row.number not in more and isinstance(row, KeptRow) and row.metadata == "{}"
        else row.value(
            board.id,
            leaving.get(row.number, ()),
            arriving.get(row.number, ()),
            states.get(row.number),
            _thread_of(row, threads),
            *stances.get(row.number, ((), ())),
            tuple(retracted.get(row.number, ())),
            relied.get(row.number, Trust.NORMAL),
            said.contests.get(row.number, ()),
            said.former.get(row.number, 0),
            tuple(dict.fromkeys(fell.get(row.number, ()))),
            row.number in said.undecided,
            asked_for.get(row.number),
            said.adopted.get(row.number),
            outcomes.get(row.number, ("", 0))[0],
            successions.get(row.number, ()),
            forgotten.get((row.number, row.version)),
            said.answered.get(row.number),
            tuple(dict.fromkeys(newer.get(row.number, ()))),
        )
        for row in listed
    ]


def _thread_of(row: ItemRow, threads: Mapping[int, str]) -> str:
    return row.id if row.thread == row.number else threads.get(row.thread, str(row.thread))


@dataclass(slots=True)
class KeptRow(ItemRow):
    """A row that is kept, with the item made of it. Its text is short, and what was posted."""

    made: Item | None = field(default=None, init=False, compare=False)
    plain: bool = field(default=False, init=False, compare=False)
    """Whether `made` is its item wherever no other row says anything about it, and none but edges might."""


KeptRows = dict[tuple[int, ...], KeptRow]
"""Rows as they were committed, by the columns of the statement `item_stamps`.

Whoever may not see an item is not told its columns, and so does not find its row here.
"""


def load_kept(
    no: int, wanted: Iterable[int], agent: str, kept: KeptRows, told: Sequence[tuple[Any, ...]] = ()
) -> Steps[dict[int, ItemRow]]:
    """Returns the same as `load`, but reads only rows that are not kept as they are now, and keeps them.

    `told` are rows of `item_stamps` that the transaction already read for the agent, of whatever items.
    """
    asked = set(wanted)
    stamps = [stamp for stamp in told if stamp[1] in asked]
    there = [stamp[1] for stamp in stamps]
    if rest := asked.difference(there):
        more = yield sql("item_stamps"), (no, numbers(rest), agent)
        stamps += more
        there += [stamp[1] for stamp in more]
    found: dict[int, ItemRow | None] = dict(zip(there, map(kept.get, stamps), strict=True))
    check_index(found, stamps, asked)
    if not all(found.values()):
        missing = [stamp for stamp in stamps if found[stamp[1]] is None]
        loaded = yield from load(no, [stamp[1] for stamp in missing], agent)
        if len(kept) > _KEPT:
            kept.clear()
        for stamp in missing:
            row = loaded[stamp[1]]
            if _is_intact(row) and len(row.text) <= _SHORT:
                row = kept[stamp] = KeptRow(*columns_of(row))
            found[row.number] = row
    return cast(dict[int, ItemRow], found)


def _plain(board: str, threads: Mapping[int, str], row: KeptRow) -> Item:
    """Returns the item of a row that no other row says anything about, made once while it is kept."""
    made = row.made
    if made is None or (row.thread != row.number and made.thread_id != _thread_of(row, threads)):
        made = row.made = row.value(board, (), (), None, _thread_of(row, threads))
        row.plain = row.thread == row.number and row.type != ItemType.DECISION and not row.forgotten
    return made


@dataclass(slots=True)
class _Said:
    """Claims on items and their effects, by item number."""

    contests: dict[int, tuple[Contest, ...]]
    former: dict[int, int]
    undecided: set[int]
    adopted: dict[int, str]
    answered: dict[int, str]


def _claims(
    no: int,
    rows: Sequence[ItemRow],
    leaving: Mapping[int, Sequence[Cited]],
    arriving: Mapping[int, Sequence[Cited]],
    agent: str,
    *,
    answers: bool,
) -> Steps[_Said]:
    """Returns the claims on the items and their effects; asks only if an edge or a type makes one possible."""

    def touched(edges: Mapping[int, Sequence[Cited]], *kinds: EdgeKind) -> list[int]:
        return [n for n, cited in edges.items() if n in own and any(edge.kind in kinds for edge, _ in cited)]

    own = {row.number for row in rows}
    said = _Said({}, {}, set(), {}, {})
    if decisions := [row.number for row in rows if row.type == ItemType.DECISION]:
        said.undecided = yield from claims.undecided(no, numbers(decisions))
    if about := touched(arriving, EdgeKind.SUPERSEDES, EdgeKind.REFUTES):
        said.contests = yield from claims.contests(no, numbers(about), agent)
    if newer := touched(leaving, EdgeKind.SUPERSEDES):
        said.former = yield from claims.former(no, numbers(newer), agent)
    replies = {row.number for row in rows if row.type == ItemType.REPLY}
    if taken := replies.intersection(touched(arriving, EdgeKind.DERIVED_FROM)):
        said.adopted = yield from claims.adopted(no, numbers(taken), agent)
    questions = {row.number for row in rows if answers and row.type == ItemType.QUESTION}
    said.answered = dict.fromkeys(questions, "")
    if replied := questions.intersection(touched(arriving, EdgeKind.REPLIES_TO)):
        for target, source, type_ in (yield sql("answers_to"), (no, numbers(replied), agent)):
            said.answered[target] = item_id(type_, source)
    return said


def _is_intact(row: ItemRow) -> bool:
    """Tells whether the text has the hash of what was posted."""
    if row.forgotten:
        return row.text == ""
    # A damaged column may hold a value of another type.
    if not isinstance(row.text, str):
        return False
    return (
        _hash_of(row.text) == row.sha256 if len(row.text) <= _SHORT else content_hash(row.text) == row.sha256
    )


_SHORT = 2_000
"""Most characters of texts whose hash and row are kept for the next reader."""
_KEPT = 2_048
"""Rows that are kept before all of them are dropped."""
_hash_of = lru_cache(maxsize=2_048)(content_hash)
