"""Transactions: checks of reads and expected versions, then writes and debate calls, all or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from blackboard_mcp.protocols.answers import (
    Attention,
    Committed,
    Debated,
    Once,
)
from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.debates import DebateCall
from blackboard_mcp.protocols.errors import BlackboardError, InvalidInput
from blackboard_mcp.protocols.items import Draft, Item, Visibility, item_id
from blackboard_mcp.protocols.transactions import Transaction, check_transaction
from blackboard_mcp.protocols.visibility import visibility_of

from ...operation import Write
from ..debates import calls as debate_calls
from ..items import duplicates, posting
from ..items.panels import check_names
from ..messages import group_turns
from ..reading.item_states import values
from . import idempotency as repeating
from .ledger import Ledger, attention, attention_after, create_ledger, find_board, load_any
from .read_set import Moved, ReadStanding, Sides, entries, hold, shown, sides_of
from .rows import ItemRow, Steps, numbers, sql


def validate(board: str, agent: str, transaction: Transaction, look: int) -> Steps[Committed]:
    """Checks the reads of a transaction that changes nothing, all as of one moment.

    Raises:
        Conflict: with `moved`, the reads that no longer hold.
        InvalidInput: a read is not valid.
    """
    names = check_transaction(transaction)
    row = yield from find_board(board)
    no, seq = (0, 0) if row is None else (row.no, row.seq)
    if row is not None:
        check_names(row, names)
    moved = Moved()
    yield from hold(no, seq, agent, transaction.reads, names, moved)
    moved.refuse(seq)
    waiting = Attention() if row is None else (yield from attention(no, agent, look))
    return Committed((), (), seq, None if row is None else row.value(), waiting)


def foresee(now: int, board: str, agent: str, transaction: Transaction, once: Once | None) -> Steps[int]:
    """Returns a sequence at which the transaction could be applied; 0 if none is known.

    It is for transactions with globs, whose keys may take long to compare. It runs in a transaction that only
    reads, so that others can write meanwhile.

    Raises:
        Conflict: with `moved`, what was read or expected and has changed.
        InvalidInput: a read is not valid, or the idempotency key was used for something else.
    """
    names = check_transaction(transaction)
    row = yield from find_board(board)
    if row is None or (once is not None and (yield from repeating.recall(row, agent, once, now)) is not None):
        return 0
    check_names(row, names)
    moved = Moved()
    yield from hold(row.no, row.seq, agent, transaction.reads, names, moved)
    yield from _expected(row.no, agent, transaction, moved)
    moved.refuse(row.seq)
    return row.seq


def transact(
    write: Write,
    board: str,
    agent: str,
    transaction: Transaction,
    *,
    config: BoardConfig,
    once: Once | None = None,
    look: int = 0,
    foreseen: int = 0,
) -> Steps[Committed]:
    """Applies everything in the transaction, or nothing; `foreseen` is the result of `foresee`.

    Raises:
        Conflict: with `moved`, what was read or expected and has changed; or as posts and debates raise it.
        InvalidInput, UnknownReference, Refused: as posts and debates raise them.
    """
    names = check_transaction(transaction)
    ledger = yield from create_ledger(write, board, agent, config)
    if once is not None:
        kept = yield from repeating.recall(ledger.board, agent, once, write.now)
        if kept is not None:
            return (yield from _repeated(ledger, kept, look))
    before = ledger.before
    check_names(ledger.board, names)
    moved = Moved()
    yield from hold(ledger.no, before, agent, transaction.reads, names, moved, foreseen)
    wrong = yield from _expected(ledger.no, agent, transaction, moved)
    moved.refuse(before)
    if wrong is not None:
        raise wrong
    written = posting.Written()
    if transaction.writes:
        written = yield from posting.apply(ledger, transaction.writes)
    about = yield from _debate(ledger, transaction.debates, written.placed)
    if transaction.ack:
        yield from group_turns.acknowledge(ledger, transaction.group, transaction.ack)
    if ledger.board.seq > before:
        yield from ledger.close()
    else:
        yield from ledger.prove()
    items, debated = yield from _standing(ledger, transaction.writes, written.placed, about)
    if once is not None:
        answer = [
            [[item.number, item.version] for item in items],
            [[debate.id, debate.state, debate.outcome] for debate in debated],
            ledger.board.seq,
            written.endorsed,
            list(written.same.items()),
        ]
        yield from repeating.remember(ledger.board, agent, once, answer, write.now)
    remarks = yield from duplicates.remarks(ledger, items, written.endorsed, written.same)
    own_since = None if ledger.others else before
    return Committed(
        items=tuple(items),
        debates=tuple(debated),
        seq=ledger.board.seq,
        board=ledger.board.value(),
        attention=(yield from attention_after(ledger, look, own_since=own_since)),
        endorsed=tuple(written.endorsed),
        remarks=remarks,
    )


def _debate(ledger: Ledger, calls: Sequence[DebateCall], placed: list[int]) -> Steps[list[int]]:
    """Makes the debate calls in order, and returns the numbers of their items.

    `placed` holds the numbers of the items written before: a call names the first of them by -1, and so on.
    """
    about: list[int] = []
    for place, call in enumerate(calls, 1):
        least = min(call.number, call.to or 0)
        if -least > len(placed):
            raise InvalidInput(
                f"Debate {place} names '${-least}', and there are {len(placed)} writes. Nothing was changed."
            )
        number = call.number if call.number >= 0 else placed[-call.number - 1]
        if call.to is not None and call.to < 0:
            call = replace(call, to=placed[-call.to - 1])
        try:
            yield from debate_calls.act(ledger, call, number)
        except BlackboardError as error:
            raise type(error)(f"Debate {place}, {call.op}: {error.message}", **error.facts) from None
        about.append(number)
    return about


def _standing(
    ledger: Ledger, drafts: Sequence[Draft], placed: list[int], about: list[int]
) -> Steps[tuple[list[Item], list[Debated]]]:
    """Returns the items that the drafts wrote, and the present states of the debates that were called."""
    if about:
        rows: Mapping[int, ItemRow] = yield from load_any(ledger.no, {*placed, *about})
    else:
        rows = yield from posting.as_left(ledger, drafts, placed)
    items = yield from values(ledger.board, [rows[n] for n in sorted({*placed, *about})], ledger.agent)
    by_number = {item.number: item for item in items}
    found = [by_number[n] for n in about]
    return [by_number[n] for n in placed], [Debated(one.id, one.debate, one.outcome) for one in found]


def _repeated(ledger: Ledger, kept: Any, look: int) -> Steps[Committed]:
    """Returns the answer to a repeated transaction from what was stored under its idempotency key."""
    written, debated, seq, endorsed, *same = kept  # files of older versions have no list of repetitions
    items = yield from posting.as_written(ledger, written)
    return Committed(
        items=tuple(items),
        debates=tuple(Debated(*one) for one in debated),  # files of older versions have no outcomes
        seq=seq,
        board=ledger.board.value(),
        attention=(yield from attention_after(ledger, look)),
        repeated=True,
        endorsed=tuple(endorsed),
        remarks=(yield from duplicates.repeated(ledger, items, *same[:1])),
    )


class _Course:
    """The versions that items have while the writes of a transaction are applied in order."""

    def __init__(
        self, sides: Sides, found: dict[tuple[str, str], ReadStanding], items: dict[int, ReadStanding]
    ) -> None:
        self._sides = sides
        self._found = found
        self._items = items
        self.written: set[int] = set()
        self._new = 0

    def standing(self, number: int) -> ReadStanding | None:
        """Returns the present version of an item, or `None` if the agent sees no such item."""
        return self._items.get(number)

    def of(self, draft: Draft) -> ReadStanding | None:
        """Returns the item that a draft changes, after the drafts before it; `None` if it creates one."""
        if draft.target is not None:
            return self._items.get(draft.target)
        if draft.key is None:
            return None
        sides = self._sides if draft.visibility is None else (self._mark(draft.visibility),)
        entry = shown(self._found, sides, draft.key)
        return None if entry is None else self._items[entry.number]

    def _mark(self, visibility: Visibility | None) -> str:
        """Returns the agent's mark for a visibility; `None` means the whole board."""
        return next(side for side in self._sides if visibility_of(side) is (visibility or Visibility.BOARD))

    def apply(self, draft: Draft, entry: ReadStanding | None) -> int:
        """Counts the draft as written, and returns the number of its item, which is negative for a new item."""
        if entry is None:
            self._new -= 1
            entry = ReadStanding(self._new, 0, deleted=False)
            if draft.key is not None:
                self._found[self._mark(draft.visibility), draft.key] = entry
        version = entry.version + draft.versions
        after = ReadStanding(entry.number, version, draft.delete or (entry.deleted and draft.text is None))
        self._items[entry.number] = after
        for place, known in self._found.items():
            if known.number == entry.number:
                self._found[place] = after
        if version != entry.version:
            self.written.add(entry.number)
        return entry.number


def _expected(no: int, agent: str, transaction: Transaction, moved: Moved) -> Steps[InvalidInput | None]:
    """Adds to `moved` every expected version, of writes and debate calls, that differs from the present one.

    Returns an error to raise if nothing moved: an earlier write of the same transaction makes an expected version
    impossible.
    """
    writes, debates = transaction.writes, transaction.debates
    if all(d.expected_version is None for d in writes) and all(c.version is None for c in debates):
        return None
    keys = {draft.key for draft in writes if draft.key is not None and draft.target is None}
    found = yield from entries(no, agent, keys)
    asked = {draft.target for draft in writes if draft.target is not None}
    asked |= {call.number for call in debates if call.number >= 0}
    asked |= {entry.number for entry in found.values()}
    items: dict[int, ReadStanding] = {}
    ids: dict[int, str] = {}
    rows = yield sql("standing_items"), (no, numbers(asked), agent)
    for number, type_, key, version, deleted in rows:
        items[number] = ReadStanding(number, version, deleted)
        ids[number] = key or item_id(type_, number)
    course = _Course((yield from sides_of(agent, found)), found, items)
    about: list[int] = []
    wrong: InvalidInput | None = None
    for place, draft in enumerate(writes, 1):
        entry = course.of(draft)
        expected = draft.expected_version
        version = 0 if entry is None else entry.version
        fits = expected in (None, version) or (expected == 0 and entry is not None and entry.deleted)
        if not fits and entry is not None and entry.number in course.written:
            wrong = wrong or InvalidInput(
                f"Write {place} expects version {expected} of '{draft.key or ids.get(entry.number)}', which an "
                f"earlier write of this transaction takes to {version}. Nothing was changed."
            )
        elif not fits and (draft.target is None or entry is not None):
            name = draft.key or ids[draft.target or 0]
            gone = f" ({entry.end})" if entry is not None and entry.deleted else ""
            present = 0 if gone else version
            moved.add(name, present, f"{name} is at version {version}{gone}, not {expected}")
        about.append(course.apply(draft, entry))
    for call in debates:
        number = (
            call.number if call.number >= 0 else about[-call.number - 1] if -call.number <= len(about) else 0
        )
        standing = course.standing(number)
        if call.version is None or standing is None or call.version == standing.version:
            continue
        if number in course.written:
            wrong = wrong or InvalidInput(
                f"op {call.op} names version {call.version} of what this transaction takes to "
                f"{standing.version}. Nothing was changed."
            )
        else:
            name = ids[number]
            moved.add(name, standing.version, f"{name} is at version {standing.version}, not {call.version}")
    return wrong
