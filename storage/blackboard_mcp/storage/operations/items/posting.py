"""Posting: new items, new versions of entries, and changes to other fields."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from blackboard_mcp.protocols.access import Trust
from blackboard_mcp.protocols.answers import (
    Once,
    Posted,
)
from blackboard_mcp.protocols.board import BoardConfig, Lifecycle
from blackboard_mcp.protocols.debates import DebateState
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, Refused, RulesMoved
from blackboard_mcp.protocols.events import EventType
from blackboard_mcp.protocols.findings import FINDINGS
from blackboard_mcp.protocols.items import (
    FALLEN,
    FINISHED,
    IMPORTANCE,
    TALKING,
    Draft,
    Edge,
    EdgeKind,
    Item,
    ItemType,
    Status,
    Visibility,
    Zone,
    check_letters,
    item_id,
)
from blackboard_mcp.protocols.panels import EPISODIC, panel_of
from blackboard_mcp.protocols.pruning import exempt
from blackboard_mcp.protocols.visibility import visible_with

from ...operation import Batch, Write
from ..access import changes as noting
from ..access import read_rules
from ..agenda import reservations
from ..debates import agreements, answers, debates
from ..debates.standing_watches import watchers_of
from ..leaving import pressure
from ..ledger import idempotency
from ..ledger.ledger import Ledger, attention_after, create_ledger, load_any, load_visible, standing
from ..ledger.principals import mark_of, marks_for
from ..ledger.rows import ItemRow, Steps, dumps, instant, kept, numbers, sql
from ..messages import request_rows
from ..reading.item_states import values
from ..reading.items import at_version
from . import (
    additions,
    claims,
    conversations,
    crossing,
    deletion,
    duplicates,
    panels,
    questions,
    retraction,
    statuses,
)
from . import edges as linking
from . import endorsements as endorsing
from . import trust as trusting
from .ids import earlier

_MICROS = 1_000_000
_BATCH_DRAFTS = 4
_BATCH_CHARACTERS = 20_000
"""The most drafts and characters of a post of a batch: all pay the same for it, and it keeps others waiting."""
_CITED_IDS = 32
"""The most ids of one kind of edge that the event of a post holds."""
_SEEN_BY = {
    Visibility.BOARD: "visible to the board",
    Visibility.TEAM: "visible to your team",
    Visibility.PRIVATE: "private",
    Visibility.READERS: "for the readers of a rule",
}


@dataclass(slots=True)
class Written:
    """The results of drafts.

    Attributes:
        placed: for each draft, the number of the item that it created, changed, endorsed or repeated.
        hidden: the numbers of new items that not everybody may see.
        endorsed: the positions, from 0, of drafts that endorsed an item.
        same: maps positions of drafts that repeat an own item to the fields in which they differ from it.
        cited: maps numbers of new items to the items to which their edges lead.
    """

    placed: list[int] = field(default_factory=list)
    hidden: set[int] = field(default_factory=set)
    endorsed: list[int] = field(default_factory=list)
    same: dict[int, tuple[str, ...]] = field(default_factory=dict)
    cited: dict[int, dict[int, ItemRow]] = field(default_factory=dict)


def post(
    write: Write,
    board: str,
    agent: str,
    drafts: Sequence[Draft],
    *,
    config: BoardConfig,
    once: Once | None = None,
    look: int = 0,
    ruling: bool = False,
) -> Steps[Posted]:
    """Stores all of the drafts or none; creates the board with `config` if it does not exist.

    With `ruling`, authors and stewards may give CONSTRAINT items new versions, other metadata, and retire them.

    Raises:
        UnknownReference: an edge or id names an item that does not exist.
        Conflict: a version or status is not the expected one.
        Refused: the board takes no posts, or this agent may not make a change.
    """
    ledger = yield from create_ledger(write, board, agent, config)
    ledger.ruling = ruling
    if once is not None:
        kept = yield from idempotency.recall(ledger.board, agent, once, write.now)
        if kept is not None:
            return (yield from _repeated(ledger, kept, look))
    written = yield from apply(ledger, drafts)
    yield from ledger.close()
    items = yield from _answer(ledger, drafts, written)
    if once is not None:
        listed = [[item.number, item.version] for item in items]
        answer = [listed, ledger.board.seq, written.endorsed, list(written.same.items())]
        yield from idempotency.remember(ledger.board, agent, once, answer, write.now)
    remarks = yield from duplicates.remarks(ledger, items, written.endorsed, written.same)
    own_since = None if ledger.others else ledger.before
    attention = yield from attention_after(ledger, look, own_since=own_since)
    crossed = yield from crossing.remarks(ledger, items, attention, remarks, written.cited)
    return Posted(
        tuple(items),
        ledger.board.seq,
        ledger.board.value(),
        attention,
        endorsed=tuple(written.endorsed),
        remarks=(*remarks, *crossed),
    )


def batch_of(
    board: str,
    agent: str,
    drafts: Sequence[Draft],
    *,
    ruling: bool = False,
    **_others: object,
) -> Batch | None:
    """Returns the batch to which a post belongs by the arguments of `post`; `None` if it has to run by itself."""
    small = (
        len(drafts) <= _BATCH_DRAFTS and sum(len(draft.text or "") for draft in drafts) <= _BATCH_CHARACTERS
    )
    plain = all(
        draft.text is not None
        and (draft.key, draft.target, draft.thread, draft.status, draft.agree) == (None,) * 5
        and not (draft.edges or draft.undecided)
        for draft in drafts
    )
    if ruling or not (small and plain):
        return None
    from .batch import together  # programs that only read do without it

    return Batch(together, board)


def apply(ledger: Ledger, drafts: Sequence[Draft]) -> Steps[Written]:
    """Writes the drafts in order, within an open ledger that the caller closes.

    Raises:
        UnknownReference: an edge or id names an item that does not exist.
        Conflict: a version or status is not the expected one.
        RulesMoved: a draft was not checked by the board's present rules, or not counted by its present tokenizer.
        Refused: the board takes no posts, or this agent may not make a change.
    """
    if ledger.board.lifecycle is not Lifecycle.OPEN:
        raise Refused(
            f"Board '{ledger.board.id}' is {ledger.board.lifecycle} and takes no posts. Nothing was changed."
        )
    rules, tokenizer = ledger.board.config.validation, ledger.board.config.tokenizer
    if any((d.text is not None or d.add is not None) and d.counted_by != tokenizer for d in drafts):
        raise RulesMoved(
            f"What is to be written on '{ledger.board.id}' was not counted by its tokenizer, {tokenizer}. Nothing was "
            "changed."
        )
    if rules and any(
        (d.text is not None or d.add is not None or d.metadata is not None) and d.checked != rules
        for d in drafts
    ):
        raise RulesMoved(
            f"What is to be written on '{ledger.board.id}' was not checked against its present rules. Nothing was "
            "changed."
        )
    written = Written()
    placed = written.placed
    first = ledger.board.last_number
    for place, draft in enumerate(drafts, 1):
        if ledger.changes is not None:
            ledger.changes.place = place if len(drafts) > 1 else 0
        try:
            placed.append((yield from _place(ledger, draft, written)))
        except (InvalidInput, Conflict, Refused) as error:
            if len(drafts) == 1:
                raise
            words = f"Item {place} of {len(drafts)}: {error.message}"
            raise type(error)(words, **{"place": place, **error.facts}) from error
    if ledger.changes is not None:
        ledger.changes.place = 0
    # Posts that some cannot see are not counted, since everybody may see the count.
    shown = {n for n in placed if n > first and n not in written.hidden}
    yield from ledger.was_here(posts=len(shown))
    return written


def _answer(ledger: Ledger, drafts: Sequence[Draft], written: Written) -> Steps[list[Item]]:
    """Returns the items as they are now. New items without edges and status are not read again."""
    placed = written.placed
    if _only_written(drafts) and all(n in ledger.fresh for n in placed):
        relied = {}
        if ledger.trusted is not Trust.NORMAL or any(ledger.fresh[n].author != ledger.agent for n in placed):
            relied = yield from trusting.trusts(ledger.no, placed)
        return [ledger.fresh[n].alone(ledger.board.id, relied.get(n, Trust.NORMAL)) for n in placed]
    draft = drafts[0]
    if len(drafts) == 1 and placed[0] in ledger.fresh and draft.status is None and draft.agree is None:
        rows: Mapping[int, ItemRow] = ledger.fresh  # its edges change other items only
        row = rows[placed[0]]
        normal = ledger.trusted is Trust.NORMAL and row.author == ledger.agent
        if normal and not draft.undecided and all(kind in TALKING for kind, _ in draft.edges):
            return [(yield from _talking(ledger, row, draft, written.cited[row.number]))]
    else:
        rows = yield from as_left(ledger, drafts, placed)
    return (yield from values(ledger.board, [rows[n] for n in placed], ledger.agent))


def _only_written(drafts: Sequence[Draft]) -> bool:
    """Tells whether the drafts change nothing but the texts and fields of what they name."""
    return not any(d.edges or d.undecided for d in drafts) and all(
        d.thread is None and d.status is None and d.agree is None for d in drafts
    )


def as_left(ledger: Ledger, drafts: Sequence[Draft], placed: Sequence[int]) -> Steps[Mapping[int, ItemRow]]:
    """Returns the rows of the items that drafts wrote, by number; reads them only if others may have changed them."""
    known = ledger.fresh | ledger.rewritten
    if _only_written(drafts) and all(number in known for number in placed):
        return known
    return (yield from load_any(ledger.no, placed))


def _talking(ledger: Ledger, row: ItemRow, draft: Draft, cited: Mapping[int, ItemRow]) -> Steps[Item]:
    """Returns a new item whose edges only join a conversation, so that no other row says anything about it.

    `cited` are the items to which its edges lead.
    """
    edges = sorted({(str(kind), target) for kind, target in draft.edges})
    leaving = [(Edge(row.number, EdgeKind(kind), target), cited[target].id) for kind, target in edges]
    thread = cited.get(row.thread, row)
    thread_id = thread.id
    if row.thread != thread.number:
        listed = yield sql("types"), (ledger.no, numbers([row.thread]), ledger.agent)
        thread_id = item_id(listed[0][1], row.thread) if listed else str(row.thread)
    return row.value(
        ledger.board.id,
        leaving,
        (),
        str(DebateState.OPEN) if row.number in ledger.debating else None,
        thread_id,
        fell=tuple(dict.fromkeys(cited[target].id for _, target in edges if cited[target].status in FALLEN)),
    )


def _repeated(ledger: Ledger, kept: Any, look: int) -> Steps[Posted]:
    """Returns the answer to a repeated post from what was stored under its idempotency key."""
    listed, seq, *more = kept  # older versions stored numbers only, and the oldest no endorsements
    items = yield from as_written(
        ledger, [pair if isinstance(pair, list) else [pair, None] for pair in listed]
    )
    waiting = yield from attention_after(ledger, look)
    endorsed, same = [*more, [], []][:2]
    return Posted(
        tuple(items),
        seq,
        ledger.board.value(),
        waiting,
        repeated=True,
        endorsed=tuple(endorsed),
        remarks=(yield from duplicates.repeated(ledger, items, same)),
    )


def as_written(ledger: Ledger, named: Sequence[Sequence[Any]]) -> Steps[list[Item]]:
    """Returns items in given versions; everything that has no versions is shown as it is now.

    `named` holds pairs of number and version; `None` means the present version.

    Raises:
        UnknownReference: the agent may no longer see one of them.
    """
    known = yield from load_visible(ledger.no, [number for number, _ in named], ledger.agent, ledger.board.id)
    rows: list[ItemRow] = []
    for number, version in named:
        then = yield from at_version(ledger.no, known[number], version)
        rows.append(then or known[number])
    return (yield from values(ledger.board, rows, ledger.agent))


def _place(ledger: Ledger, draft: Draft, written: Written) -> Steps[int]:
    """Applies one draft, and returns the number of the item that it created, changed, endorsed or repeated."""
    placed = written.placed
    edges: tuple[tuple[EdgeKind, int], ...] = ()
    targets: dict[int, ItemRow] = {}
    # Most drafts do little of what a draft can do, and each question not asked makes every post cheaper.
    if draft.edges:
        said = ((kind, target if target >= 0 else earlier(placed, target)) for kind, target in draft.edges)
        edges = tuple(dict.fromkeys(said))
        wanted = {target for _, target in edges}
        targets = yield from load_visible(ledger.no, wanted, ledger.agent, ledger.board.id)
        check_letters(draft.letters, {number: one.type for number, one in targets.items()})
        for kind, target in edges:
            if kind is EdgeKind.SUPERSEDES:
                yield from panels.check_replacing(ledger, targets[target])
    joins = None if draft.thread is None else (yield from conversations.find(ledger, draft, placed))
    if draft.target is not None:
        found = yield from load_visible(ledger.no, [draft.target], ledger.agent, ledger.board.id)
        row = found[draft.target]
        check_letters(draft.letters, {row.number: row.type})
        conversations.check_same(row, joins)
        draft = yield from panels.placed(ledger, draft, row)
        draft = yield from read_rules.kept(ledger, draft, row)
        return (yield from _write(ledger, row, draft, edges, targets))
    tags = draft.tags
    if tags:
        draft = yield from panels.placed(ledger, draft, None)
    if ledger.board.read_rules:
        draft = yield from read_rules.kept(ledger, draft, None)
    if draft.key is not None:
        yield from reservations.check_key(ledger, draft.key)
        existing = yield from _entry(ledger, draft.key, draft)
        if existing is not None:
            conversations.check_same(existing, joins)
            # Whether the tags fit the panel of the entry is told by those that were given.
            for_entry = draft if draft.tags == tags else replace(draft, tags=tags)
            for_entry = yield from panels.placed(ledger, for_entry, existing)
            return (yield from _write(ledger, existing, for_entry, edges, targets))
        if draft.delete:
            raise deletion.missing(draft)
        if draft.expected_version:
            raise deletion.expected_none(draft)
        if draft.add is not None:
            raise additions.nothing_there(draft.key)
    noting.new(ledger, draft, edges, targets)
    own = (yield from duplicates.find(ledger, draft, edges)) if duplicates.may_repeat(draft) else None
    if own is not None:
        written.same[len(placed)] = yield from duplicates.repeat(ledger, own, draft)
        if draft.agree is not None:
            yield from agreements.ask(ledger, own, draft.agree)
        return own.number
    same = (yield from endorsing.find(ledger, draft, edges)) if endorsing.may_endorse(draft) else None
    if same is not None:
        yield from endorsing.endorse(ledger, same, draft)
        written.endorsed.append(len(placed))
        return same.number
    number = yield from _create(ledger, draft, edges, targets, joins)
    written.cited[number] = targets
    if not draft.public:
        written.hidden.add(number)
    return number


def _entry(ledger: Ledger, key: str, draft: Draft) -> Steps[ItemRow | None]:
    """Returns the entry that a post to a key changes, or `None`.

    Existing entries come before tombstones. Without a visibility, the agent's own entry comes before its team's, and
    that before the board's, as in reading.
    """
    nearest = yield from marks_for(ledger.board, ledger.agent, draft, ledger.side)
    found = [ItemRow(*raw) for raw in (yield sql("entries_of_key"), (ledger.no, dumps(list(nearest)), key))]
    return min(found, key=lambda row: (row.deleted, nearest.index(row.owner)), default=None)


def _write(
    ledger: Ledger,
    row: ItemRow,
    draft: Draft,
    edges: tuple[tuple[EdgeKind, int], ...],
    targets: dict[int, ItemRow],
) -> Steps[int]:
    """Changes or deletes an existing item, and returns its number."""
    if row.key is not None and draft.key is None:
        yield from reservations.check_key(ledger, row.key)
    draft = additions.summed(ledger, row, draft)
    yield from request_rows.keep_off(ledger, draft, row)
    noting.written(ledger, row, draft, edges, targets)
    ledger.fresh.pop(row.number, None)
    ledger.rewritten.pop(row.number, None)
    if draft.delete:
        return (yield from deletion.delete(ledger, row, draft))
    return (yield from _change(ledger, row, draft, edges, targets))


def _create(
    ledger: Ledger,
    draft: Draft,
    edges: tuple[tuple[EdgeKind, int], ...],
    targets: dict[int, ItemRow],
    joins: ItemRow | None,
) -> Steps[int]:
    """Stores a new item, applies the effects of its edges and status, and returns its number.

    `joins` is an item of the conversation that the draft names.
    """
    kind = draft.type or ItemType.FACT
    if draft.text is None:
        raise InvalidInput("A new item needs text. Nothing was changed.")
    if draft.key is not None:
        yield from request_rows.keep_off(ledger, draft, None)
        pressure.keep_key(ledger, draft, kind)
    if ledger.board.pressure:
        yield from pressure.admit(ledger, kind, draft.importance or IMPORTANCE[kind], edges)
    ledger.board.last_number += 1
    number = ledger.board.last_number
    bears = "" if draft.public else (yield from mark_of(ledger.agent, draft, ledger.side))
    known = {t for t in targets if visible_with(targets[t].owner, bears)}
    conversing = [targets[t] for k, t in edges if k in TALKING and t in known]
    if joins is not None:
        conversations.check_open(joins, bears, conversing)
        conversing = [joins]
    row = ItemRow(
        board=ledger.no,
        number=number,
        type=str(kind),
        key=draft.key,
        version=1,
        status=str(Status.ACTIVE),
        zone=str(Zone.WORKING),
        importance=draft.importance or IMPORTANCE[kind],
        author=ledger.agent,
        owner=bears,
        text=draft.text,
        tags=dumps(list(draft.tags)) if draft.tags else "[]",
        metadata=dumps(draft.metadata) if draft.metadata else "{}",
        tokens=draft.tokens,
        sha256=draft.sha256,
        thread=conversing[0].thread if conversing else number,
        created_at=ledger.now,
        updated_at=ledger.now,
        ttl=_lasting(draft.ttl_seconds),
        expires_at=_expiry(ledger.now, _lasting(draft.ttl_seconds)),
        seq=ledger.next_seq,
        updated_by=ledger.agent,
    )
    if kind in (ItemType.CONSTRAINT, ItemType.HOT_ISSUE) or exempt(row.status, row.importance):
        ledger.holding.add(number)
    # The events that an episode tells of have reached those concerned.
    told = draft.tags is not None and panel_of(draft.tags) == EPISODIC
    concerns = [] if told else [targets[t].author for _, t in edges] + questions.mentioned(draft.text)
    if ledger.watched:
        concerns += yield from watchers_of(ledger, row)
    data = {str(k): [item_id(targets[t].type, t) for kk, t in edges if kk == k] for k in dict(edges)}
    fell = [targets[t].id for k, t in edges if k is EdgeKind.CRITIQUES and targets[t].status in FALLEN]
    if fell:
        data["over"] = fell
    if any(t not in known for _, t in edges):
        data = {}  # the event must not name items that some of its readers may not see
    asks = (yield from questions.whom(ledger, row, edges, targets)) if kind is ItemType.QUESTION else []
    if asks:
        pressure.weigh_question(ledger)
        data["asks"] = asks
    to = {"to": ledger.addressed or EPISODIC} if ledger.addressed or told else {}
    yield from ledger.add(row, data={**_short(data), **to}, concerns=concerns)
    if asks:
        yield from questions.ask(ledger, row, asks)
    if kind in FINDINGS:
        yield from endorsing.remember(ledger, row)
    if draft.undecided:
        yield from claims.sign(ledger, row, undecided=True)
    replaced = (yield from linking.connect(ledger, row, edges, targets)) if edges else []
    if draft.status is not None and draft.status is not Status.ACTIVE:
        yield from statuses.set_status(ledger, row, draft.status)
    if replaced:
        yield from linking.supersede(ledger, replaced)
    if draft.agree is not None:
        yield from agreements.ask(ledger, row, draft.agree)
    return number


def _standing(row: ItemRow) -> tuple[Any, ...]:
    """Returns the fields that indexes hold and that most new versions of an item leave as they are."""
    return row.status, row.zone, row.importance, row.tags, row.ttl, row.expires_at, row.deleted


def _short(data: dict[str, list[str]]) -> dict[str, list[str]]:
    """Returns the ids of each kind of edge, cut to the number that an event holds."""
    return {kind: ids[:_CITED_IDS] for kind, ids in data.items()}


def _expiry(now: int, ttl: int | None) -> int | None:
    """Returns the time when a time to live ends, in microseconds since 1970; `None` for none."""
    return None if ttl is None else now + ttl


def _lasting(seconds: float | None) -> int | None:
    """Returns a time to live in microseconds; `None` for `None` and for 0, which removes one."""
    return None if not seconds else max(1, round(seconds * _MICROS))


def _seconds(ttl: int | None) -> float | None:
    """Returns a time to live in seconds."""
    return None if ttl is None else ttl / _MICROS


def _check_in_force(ledger: Ledger, row: ItemRow, draft: Draft) -> None:
    """Checks that a rule which a call retires is not retired already, so that the first reason stays.

    Raises:
        Conflict: it is.
    """
    if not ledger.governs(row) or draft.text is not None or row.status not in FINISHED:
        return
    rule = json.loads(row.metadata).get("rule")
    said = rule if isinstance(rule, dict) else {}
    by = said.get("retired_by") or row.updated_by
    why = f" ({str(said['retired'])[:300]})" if said.get("retired") else ""
    raise Conflict(
        f"{row.id} is {row.status} already, by {by} at {instant(row.updated_at):%Y-%m-%d %H:%M} UTC{why}. "
        "Nothing was changed. constraint() lists the rules in force; constraint(text=…) without id makes a new one.",
        current_version=row.version,
    )


def _change(
    ledger: Ledger,
    row: ItemRow,
    draft: Draft,
    edges: tuple[tuple[EdgeKind, int], ...],
    targets: dict[int, ItemRow],
) -> Steps[int]:
    """Writes a new version of an entry, or another status, importance, tags, metadata, edges or time to live.

    Returns the item's number.

    Raises:
        InvalidInput: the draft changes what is fixed: the type, the key, or the text of an item without key.
        Conflict: another version was expected, or the item was deleted or forgotten.
        Refused: only the author may make the change, or nobody.
    """
    pressure.keep_off(ledger, row)
    _check_in_force(ledger, row, draft)
    deletion.expect(row, draft)
    if draft.text is None:
        standing(row)
    if draft.target is not None and draft.key is not None and draft.key != row.key:
        raise InvalidInput(
            f"{row.id} has {f'the key {row.key!r}' if row.key else 'no key'}, and a key never changes. "
            "Nothing was changed."
        )
    if draft.visibility not in (None, row.visibility):
        raise InvalidInput(
            f"{row.id} is {_SEEN_BY[row.visibility]}, and the visibility of an item never changes. Nothing was "
            "changed; post a new item instead."
        )
    if draft.type is not None and draft.type != row.type:
        if row.key is None or draft.text is None:
            raise InvalidInput(f"{row.id} is a {row.type}; the type of an item never changes.")
        raise InvalidInput(
            f"Key '{row.key}' is the {row.type} {row.id}; the type of an entry never changes. Nothing was "
            f"changed; leave type out or use {row.type}."
        )
    if draft.text is not None and row.key is None and not ledger.governs(row):
        raise InvalidInput(
            f"The text of {row.id} is fixed: only entries (items with a key) get new versions. Nothing was changed"
            f"{(yield from _instead(ledger, row))}{_without_text(draft) if row.author == ledger.agent else ''}."
        )
    if row.author != ledger.agent and row.key is None and not ledger.governs(row):
        mine = [
            name
            for name, value in (
                ("importance", draft.importance),
                ("tags", draft.tags),
                ("metadata", draft.metadata),
                ("ttl_seconds", draft.ttl_seconds),
            )
            if value is not None
        ]
        if mine:
            raise Refused(
                f"Only {row.author}, its author, may change {', '.join(mine)} of {row.id}. Nothing was changed; "
                f"you may post a REPLY or a CRITIQUE of it."
            )
    if row.author != ledger.agent and any(kind is not EdgeKind.ANALYZED_BY for kind, _ in edges):
        raise Refused(
            f"Only {row.author}, its author, may add edges to {row.id} (anyone may add analyzed_by). "
            "Nothing was changed; put the edges on a new item of yours."
        )
    if row.type == ItemType.SUMMARY:
        _check_summary(row, draft, edges)
    if draft.text is None:
        edges = yield from linking.fresh(ledger, row, edges)
    before: dict[str, int | str] = {"importance": row.importance, "tags": row.tags, "metadata": row.metadata}
    tags = row.tags if draft.tags is None else dumps(list(draft.tags))
    metadata = row.metadata if draft.metadata is None else dumps(draft.metadata)
    importance = draft.importance or row.importance
    if importance > row.importance:
        yield from pressure.weigh(ledger, ItemType(row.type), importance)
        ledger.holding.add(row.number)
    versioned = draft.text is not None
    if versioned or len(tags) + len(metadata) > len(row.tags) + len(row.metadata):
        ledger.grown += 1
    after: dict[str, int | str] = {"importance": importance, "tags": tags, "metadata": metadata}
    changed = sorted(name for name in after if after[name] != before[name])
    was: dict[str, Any] = {name: kept(before[name]) for name in changed}
    now: dict[str, Any] = {name: kept(after[name]) for name in changed}
    if draft.ttl_seconds is not None:
        changed.append("ttl")
        was["ttl"], now["ttl"] = _seconds(row.ttl), _seconds(_lasting(draft.ttl_seconds))
    if versioned and row.zone == Zone.ARCHIVE:
        yield from ledger.restore(row, why="new version")
    standing_before = _standing(row)
    if versioned:
        assert draft.text is not None
        yield sql("version_keep"), (ledger.no, row.number)
        touched = yield sql("touched"), (ledger.no, row.number)
        retracted, trust, debated, agreeing = touched[0] if touched else (False, None, False, False)
        if retracted:
            yield from retraction.clear(ledger, row)
        ledger.grow(row, draft.tokens - row.tokens)
        if draft.tokens > row.tokens:
            ledger.holding.add(row.number)
        row.version += 1
        row.deleted = 0
        row.text, row.tokens, row.sha256 = draft.text, draft.tokens, draft.sha256
        if row.status not in (Status.DEBATED, Status.ACTIVE):
            was["status"], now["status"] = row.status, str(Status.ACTIVE)
            row.status = str(Status.ACTIVE)
    if draft.ttl_seconds is not None:
        row.ttl = _lasting(draft.ttl_seconds)
    if versioned or draft.ttl_seconds is not None:
        row.expires_at = _expiry(ledger.now, row.ttl)
    row.tags, row.metadata, row.importance = tags, metadata, importance
    if versioned or changed or edges:
        event = EventType.ITEM_VERSIONED if versioned else EventType.ITEM_CHANGED
        concerns = [row.author, *questions.mentioned(draft.text or "")]
        if versioned:
            concerns += yield from watchers_of(ledger, row)
        data: dict[str, Any] = {"was": was, "now": now} if was else {}
        if changed and not versioned:
            data["changed"] = changed
        if edges and not versioned:
            data["edges"] = [
                f"{k} {targets[t].id}" for k, t in edges[:8] if visible_with(targets[t].owner, row.owner)
            ]
        if ledger.addressed:
            data["to"] = ledger.addressed
        row.seq = yield from ledger.emit(event, row, data=data, concerns=concerns)
        row.updated_at, row.updated_by = ledger.now, ledger.agent
        if versioned:
            row.written_at, row.written_by = ledger.now, ledger.agent
        content = (row.metadata, row.tokens, row.sha256, row.updated_at)
        if versioned and _standing(row) == standing_before:
            said = (ledger.no, row.number, row.version, row.text, *content, row.seq, ledger.agent)
            yield sql("item_rewrite"), said
            if not (debated or agreeing):
                ledger.rewritten[row.number] = row
        else:
            stands = (row.version, row.status, row.zone, row.importance, row.text, row.tags, *content)
            lasts = (row.ttl, row.expires_at, row.seq)
            yield sql("item_change"), (ledger.no, row.number, *stands, *lasts, ledger.agent)
        if row.zone == Zone.ARCHIVE:
            yield sql("outbox_add"), (ledger.no, row.number)
    if versioned:
        if trust or ledger.trusted is not Trust.NORMAL:
            yield from trusting.rewritten(ledger.no, row.number, ledger.agent)
        yield from claims.sign(ledger, row, undecided=draft.undecided)
        if debated:
            yield from debates.new_version(ledger, row)
        yield from questions.ask(ledger, row, (yield from questions.whom(ledger, row, edges, targets)))
        if agreeing:
            yield from agreements.ask_again(ledger, row)
    replaced = yield from linking.connect(ledger, row, edges, targets)
    if draft.status is not None and draft.status != row.status:
        yield from statuses.set_status(ledger, row, draft.status)
    yield from linking.supersede(ledger, replaced)
    if draft.agree is not None:
        yield from agreements.ask(ledger, row, draft.agree)
    return row.number


def _instead(ledger: Ledger, row: ItemRow) -> Steps[str]:
    """Returns what the agent may do in place of rewording an item, with a leading semicolon.

    Empty where the item is a critique that others are to answer.
    """
    if row.author == ledger.agent:
        return f'; a new item takes its place: post(edges={{"supersedes": ["{row.id}"]}}, text="…")'
    if row.type == ItemType.CRITIQUE and not (yield from answers.may_answer(ledger, row)):
        return ""
    return f'; answer it: post(type="REPLY", edges={{"replies_to": ["{row.id}"]}}, text="…")'


def _without_text(draft: Draft) -> str:
    """Returns what the call would do without its text, with a leading semicolon; empty where that is nothing."""
    names = ("importance", "tags", "metadata", "ttl_seconds", "status")
    given = [*(["edges"] if draft.edges else []), *(n for n in names if getattr(draft, n) is not None)]
    return f"; the same call without text changes its {', '.join(given)}" if given else ""


def _check_summary(row: ItemRow, draft: Draft, edges: Sequence[tuple[EdgeKind, int]]) -> None:
    """Checks that the draft leaves a summary's importance, metadata and edges, which never change.

    Raises:
        Refused: it does not.
    """
    fixed = [name for name in ("importance", "metadata") if getattr(draft, name) is not None]
    if any(kind is not EdgeKind.ANALYZED_BY for kind, _ in edges):
        fixed.append("edges")
    if fixed:
        raise Refused(
            f"{row.id} is a summary: {', '.join(fixed)} of it never change. Nothing was changed; post an item of "
            f'your own with edges {{"derived_from": ["{row.id}"]}}.'
        )
