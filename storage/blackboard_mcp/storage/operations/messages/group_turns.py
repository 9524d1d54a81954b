"""A worker's turn in a consumer group: settling the deliveries that it holds, and taking the next events.

Only delivered events have a row, so that a turn costs the same however long the log and the backlog are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.board import Lifecycle
from blackboard_mcp.protocols.changes import ChangeKind
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, QuotaExceeded, Refused, UnknownReference
from blackboard_mcp.protocols.events import OF_GROUPS, SYSTEM, Event, EventType
from blackboard_mcp.protocols.filters import EventFilter
from blackboard_mcp.protocols.groups import (
    ATTEMPTS,
    LEASES,
    MAX_COUNTED,
    MAX_DEAD,
    MAX_GROUPS,
    MAX_IN_FLIGHT,
    MAX_TAKEN,
    MAX_WHY,
    MOST_ATTEMPTS,
    Delivery,
    Handle,
    Outlook,
    Taken,
    Turn,
    group_filter,
)

from ...operation import Write
from ..ledger.idempotency import Form, repeatable
from ..ledger.ledger import Ledger, get_board, load_any, open_ledger
from ..ledger.places import check_place
from ..ledger.rows import BoardRow, Steps, dumps, event_of, instant, micros, numbers, sql

PAGE = 500
_FIRST = 16
_SCAN = 500
"""The most events that one turn examines; those that do not match are not examined again."""
_SKIPPED = 256
_COUNTED_SCAN = 100
"""The most events that are examined to tell a worker how many are left."""
_MICROS = 1_000_000
_USE_MICROS = 3_600 * _MICROS
_SAID = 5
LEASE_ENDED = "the lease ended"


@dataclass(slots=True)
class GroupRow:
    """A row of `consumer_group`: its fields are the columns. Times are in microseconds since 1970."""

    name: str
    filter: str
    created_by: str
    created_at: int
    max_attempts: int
    cursor: int
    used_at: int

    def wants(self, event: Event) -> bool:
        """Tells whether the group's filter matches the event; events about groups only if they are about this one."""
        wanted = _condition(self.filter)
        if event.event in OF_GROUPS and (
            event.event not in wanted.events or event.data.get("group") == self.name
        ):
            return False
        return wanted.matches(event, "")


@lru_cache(1_024)
def _condition(stored: str) -> EventFilter:
    """Parses a stored filter."""
    return group_filter(json.loads(stored), stored=True)


def find_group(no: int, name: str) -> Steps[GroupRow | None]:
    """Returns the group's row, or `None` if there is no such group."""
    rows = yield sql("group_get"), (no, name)
    return GroupRow(*rows[0]) if rows else None


def get_group(no: int, board: str, name: str) -> Steps[GroupRow]:
    """Returns the group's row.

    Raises:
        UnknownReference: there is no such group.
    """
    group = yield from find_group(no, name)
    if group is None:
        others = [row[0] for row in (yield sql("groups"), (no, MAX_GROUPS))]
        there = f"there are: {', '.join(others[:_SAID])}" if others else "there is none yet"
        raise UnknownReference(
            f"No group '{name}' on board '{board}'; {there}. Nothing was changed; "
            f'consume(group="{name}", filter={{…}}) makes it.',
            group=name,
        )
    return group


def make(
    ledger: Ledger, name: str, filter_: dict[str, Any], *, since: int | None, max_attempts: int, most: int
) -> Steps[GroupRow]:
    """Returns the group, and creates it if it does not exist.

    A new group begins at the present end of the log, or after the sequence `since`.

    Raises:
        InvalidInput: the filter or a number is not allowed.
        CursorExpired: `since` is not a place of the log.
        Refused: there are too many groups, or the board is closed.
        QuotaExceeded: the agent created `most` groups already.
        Conflict: a group of that name has another filter.
    """
    group_filter(filter_)
    check_attempts(max_attempts)
    board = ledger.board
    there = yield from find_group(ledger.no, name)
    if there is not None:
        if json.loads(there.filter) != filter_:
            raise Conflict(
                f"There is a group '{name}' by {there.created_by}, with the filter {there.filter[:200]}. Nothing was "
                f'changed; consume(group="{name}") without filter takes from it, another name makes another.',
                filter=json.loads(there.filter),
            )
        return there
    if board.lifecycle is Lifecycle.CLOSED:
        raise Refused(f"Board '{board.id}' is closed and takes nothing more. Nothing was changed.")
    there_are = [GroupRow(*row) for row in (yield sql("groups"), (ledger.no, MAX_GROUPS))]
    own = sum(group.created_by == ledger.agent for group in there_are)
    if own >= most:
        raise QuotaExceeded(
            f"You made {own} groups on '{board.id}', and {most} is the limit (groups_per_agent). Nothing was changed; "
            'consume(group=…, op="end") ends one of yours.',
            limit="groups_per_agent",
            most=most,
        )
    if len(there_are) >= MAX_GROUPS:
        raise Refused(
            f"'{board.id}' has {MAX_GROUPS} groups, which is the limit. Nothing was changed; consume() lists them, "
            'and consume(group=…, op="end") ends one of yours.'
        )
    start = board.seq if since is None else since
    yield from check_place(board, start)
    ledger.note(ChangeKind.CONSUME, name=name)
    yield sql("group_add"), (ledger.no, name, dumps(filter_), ledger.agent, ledger.now, max_attempts, start)
    yield from ledger.emit(EventType.GROUP_CREATED, data={"group": name})
    return (yield from get_group(ledger.no, board.id, name))


def check_attempts(max_attempts: int) -> None:
    """Checks the number of attempts.

    Raises:
        InvalidInput: it is not allowed.
    """
    if not 1 <= max_attempts <= MOST_ATTEMPTS:
        raise InvalidInput(f"max_attempts is from 1 to {MOST_ATTEMPTS}. Nothing was changed.")


def counts(no: int, name: str, now: int) -> Steps[tuple[int, int, int]]:
    """Returns how many events are held by workers, wait for another attempt, and are dead."""
    ((held, waiting, dead),) = yield sql("group_counts"), (no, name, now)
    return held, waiting, dead


def matching(board: BoardRow, group: GroupRow, limit: int, scan: int) -> Steps[tuple[list[Event], int, bool]]:
    """Returns the next events for the group, at most `limit`, examining at most `scan` events of the log.

    The second value is the sequence of the last examined event; the third tells whether the log goes on after it.
    """
    found: list[Event] = []
    place, looked, page = group.cursor, 0, max(_FIRST, 2 * limit)
    while looked < scan:
        page = min(PAGE, 4 * page if looked else page, scan - looked)
        rows = yield sql("events_after"), (board.no, place, "", page, board.seq)
        for row in rows:
            place, looked = row[0], looked + 1
            event = event_of(row)
            if group.wants(event):
                found.append(event)
                if len(found) == limit:
                    return found, place, True
        if len(rows) < page:
            return found, board.seq, False
    return found, place, True


def outlook(now: int, board: str, name: str) -> Steps[Outlook]:
    """Tells whether a turn would get events or move the group's cursor now, and when the next lease ends."""
    row = yield from get_board(board)
    group = yield from get_group(row.no, board, name)
    held, waiting, dead = yield from counts(row.no, name, now)
    ((until,),) = yield sql("delivery_next_due"), (row.no, name, now)
    next_due = None if until is None else instant(until)
    if dead >= MAX_DEAD:
        return Outlook(False, next_due, row.seq)
    if waiting:
        return Outlook(True, next_due, row.seq)
    if held >= MAX_IN_FLIGHT:
        return Outlook(False, next_due, row.seq)
    found, place, more = yield from matching(row, group, 1, PAGE)
    ready = bool(found) or more or place - group.cursor > _SKIPPED or _unused(row, group, now)
    return Outlook(ready, next_due, row.seq)


def _unused(board: BoardRow, group: GroupRow, now: int) -> bool:
    """Tells whether to record that the group is used; this happens now and then, not in every turn."""
    lease = board.config.subscription_lease_seconds * _MICROS
    return lease > 0 and now - group.used_at > min(_USE_MICROS, lease // 10)


@repeatable(lambda given: kept(given["board"], given["turn"]))
def consume(
    write: Write, board: str, agent: str, name: str, turn: Turn, *, once: Once | None = None
) -> Steps[Taken]:
    """Settles the deliveries that the worker names, then delivers the next events to it.

    Raises:
        UnknownReference: the board or group does not exist.
        InvalidInput: a lease or a number is out of bounds, or a handle is named twice.
        Conflict: the worker no longer holds a delivery that it names. Nothing was changed.
        Refused, QuotaExceeded: the group cannot be created.
    """
    _check(turn)
    ledger = yield from open_ledger(write, board, agent)
    made_after: int | None = None
    if turn.filter is None:
        group = yield from get_group(ledger.no, board, name)
    else:
        if (yield from find_group(ledger.no, name)) is None:
            made_after = ledger.board.seq
        group = yield from make(ledger, name, turn.filter, since=None, max_attempts=ATTEMPTS, most=turn.most)
    until = write.now + int(turn.lease_seconds * _MICROS)
    if turn.settles:
        yield from _settle(ledger, group, turn, until)
    yield from bury(ledger, group, MAX_TAKEN)
    deliveries: list[Delivery] = []
    stalled, place = "", group.cursor
    if turn.limit:
        held, waiting, dead = yield from counts(ledger.no, name, write.now)
        if dead >= MAX_DEAD:
            stalled = f"{MAX_DEAD} dead letters, the most there may be: retry or drop some"
        else:
            deliveries = yield from _again(ledger, group, turn.limit, until)
            room = min(turn.limit - len(deliveries), MAX_IN_FLIGHT - held - waiting)
            if room > 0:
                fresh, place, _ = yield from matching(ledger.board, group, room, _SCAN)
                for event in fresh:
                    last = int(group.max_attempts == 1)
                    yield sql("delivery_add"), (ledger.no, name, event.seq, agent, until, last)
                    deliveries.append(Delivery(Handle(event.seq, 1), event, instant(until)))
            elif len(deliveries) < turn.limit:
                stalled = f"{MAX_IN_FLIGHT} events are in flight, the most there may be: acknowledge some"
    if turn.settles or deliveries:
        ledger.note(ChangeKind.CONSUME, name=name)
    if place != group.cursor or turn.settles or deliveries or _unused(ledger.board, group, write.now):
        yield sql("group_move"), (ledger.no, name, place, write.now)
    if ledger.board.seq >= ledger.first_seq:
        yield from ledger.close()
    else:
        yield from ledger.prove()
    held, waiting, dead = yield from counts(ledger.no, name, write.now)
    group.cursor = place
    left, _, more = yield from matching(ledger.board, group, MAX_COUNTED, _COUNTED_SCAN)
    return Taken(
        *(tuple(deliveries), ledger.board.seq, held, waiting, dead, more, stalled), len(left), made_after
    )


def kept(board: str, turn: Turn) -> Form[Taken]:
    """Returns the form that stores a turn's answer by handles; a turn without any effect is not stored."""

    def keep(taken: Taken) -> Any:
        if not taken.deliveries and not turn.settles and turn.filter is None:
            return None
        held = [[d.handle.seq, d.handle.attempt, micros(d.until), d.why] for d in taken.deliveries]
        counted = [taken.in_flight, taken.waiting, taken.dead, taken.more, taken.stalled, taken.backlog]
        return [held, taken.seq, *counted, taken.made_after]

    def again(said: Any) -> Steps[Taken]:
        row = yield from get_board(board)
        held, *rest = said  # older versions stored fewer values
        events = yield from events_at(row.no, [line[0] for line in held])
        deliveries = [
            Delivery(Handle(seq, attempt), events[seq], instant(until), why)
            for seq, attempt, until, why in held
            if seq in events  # not so if read rules keep it since
        ]
        return Taken(tuple(deliveries), *rest)

    return Form(keep, again)


def _check(turn: Turn) -> None:
    """Checks the numbers and handles of a turn.

    Raises:
        InvalidInput: one is out of bounds, or a handle is named twice.
    """
    low, high = LEASES
    if not low <= turn.lease_seconds <= high:
        raise InvalidInput(f"lease_seconds is from {low:g} to {high:g}. Nothing was changed.")
    named = [*turn.ack, *turn.fail, *turn.release, *turn.extend]
    if not 0 <= turn.limit <= MAX_TAKEN or len(named) > 3 * MAX_TAKEN:
        raise InvalidInput(f"One call takes at most {MAX_TAKEN} events. Nothing was changed.")
    twice = sorted({handle for handle in named if named.count(handle) > 1})
    if twice:
        raise InvalidInput(
            f"{twice[0]} is named twice: each is acknowledged, failed, released or extended. Nothing was changed."
        )


def acknowledge(ledger: Ledger, name: str, handles: tuple[Handle, ...]) -> Steps[None]:
    """Acknowledges deliveries that the worker holds, in the transaction that writes the results.

    Raises:
        UnknownReference: there is no such group.
        InvalidInput: a handle is named twice.
        Conflict: the worker no longer holds one of them.
    """
    _check(Turn(ack=handles, limit=0))
    group = yield from get_group(ledger.no, ledger.board.id, name)
    late = yield from _late(ledger, group, handles)
    if late:
        raise Conflict(
            f"{_told(late)}. Nothing was written and nothing acknowledged: whoever is handed that event does what "
            "it asks for. Leave it out, with what was to be written for it.",
            late=late,
        )
    for handle in handles:
        yield sql("delivery_done"), (ledger.no, group.name, handle.seq)
    ledger.note(ChangeKind.CONSUME, name=name)
    yield sql("group_move"), (ledger.no, name, group.cursor, ledger.now)


def _late(ledger: Ledger, group: GroupRow, named: Iterable[Handle]) -> Steps[dict[str, str]]:
    """Returns those of the handles that the worker does not hold, each with the reason."""
    listed = sorted(named)
    rows = yield sql("deliveries"), (ledger.no, group.name, numbers(handle.seq for handle in listed))
    by_seq = {row[0]: row for row in rows}
    return {
        str(handle): why
        for handle in listed
        if (why := _lost(handle, by_seq.get(handle.seq), ledger)) is not None
    }


def _settle(ledger: Ledger, group: GroupRow, turn: Turn, until: int) -> Steps[None]:
    """Acknowledges, extends, fails and releases deliveries, as the turn says.

    Raises:
        Conflict: the worker no longer holds one of them.
    """
    late = yield from _late(ledger, group, (*turn.ack, *turn.fail, *turn.release, *turn.extend))
    if late:
        raise _conflict(group, turn, late)
    for handle in turn.ack:
        yield sql("delivery_done"), (ledger.no, group.name, handle.seq)
    for handle in turn.extend:
        yield sql("delivery_until"), (ledger.no, group.name, handle.seq, until)
    for handle, why in turn.fail.items():
        yield sql("delivery_failed"), (ledger.no, group.name, handle.seq, ledger.now, why[:MAX_WHY])
    for handle, why in turn.release.items():
        given = (ledger.no, group.name, handle.seq, ledger.now, why[:MAX_WHY], group.max_attempts)
        yield sql("delivery_released"), given


def _lost(handle: Handle, row: Sequence[Any] | None, ledger: Ledger) -> str | None:
    """Returns why the worker does not hold the delivery with that handle; `None` if it does."""
    if row is None:
        return "is not in flight: it is done, or was never handed out"
    _, attempt, _, _, worker, until, dead, _ = row
    if handle.attempt > attempt:
        return "was never handed out"
    if dead:
        return f"is a dead letter after {attempt} attempts"
    if worker == ledger.agent and attempt == handle.attempt:
        return None if until > ledger.now else "is not yours any more: its lease ended"
    if until > ledger.now:
        return f"is {worker}'s now, as {handle.seq}.{attempt}"
    return "is not yours"


def _told(late: dict[str, str]) -> str:
    """Returns the first few handles with their reasons as text."""
    told = "; ".join(f"{handle} {why}" for handle, why in list(late.items())[:_SAID])
    return f"{told} and {len(late) - _SAID} more" if len(late) > _SAID else told


def _conflict(group: GroupRow, turn: Turn, late: dict[str, str]) -> Conflict:
    """Returns the error for deliveries that the worker does not hold."""
    left = [f'"{handle}"' for handle in turn.ack if str(handle) not in late]
    then = f", ack=[{', '.join(left[:_SAID])}{', …' if len(left) > _SAID else ''}]" if left else ""
    return Conflict(
        f"{_told(late)}. Nothing was changed. Leave those out, they are not yours to settle: "
        f'consume(group="{group.name}"{then}). What takes long is kept with extend or a longer lease_seconds.',
        late=late,
    )


def bury(ledger: Ledger, group: GroupRow, most: int) -> Steps[None]:
    """Turns up to `most` deliveries whose last attempt is over into dead letters, as far as there is room."""
    _, waiting, dead = yield from counts(ledger.no, group.name, ledger.now)
    most = min(most, MAX_DEAD - dead)
    if not waiting or most <= 0:
        return
    spent = yield sql("deliveries_spent"), (ledger.no, group.name, ledger.now, most)
    if not spent:
        return
    events = yield from events_at(ledger.no, [row[0] for row in spent])
    subjects = {seq: number_of(event) for seq, event in events.items()}
    items = yield from load_any(ledger.no, [number for number in subjects.values() if number is not None])
    for seq, attempt, worker, why in spent:
        yield sql("delivery_bury"), (ledger.no, group.name, seq, ledger.now, why or LEASE_ENDED)
        number = subjects.get(seq)
        yield from ledger.emit(
            EventType.DELIVERY_DEAD,
            None if number is None else items.get(number),
            agent=worker if why else SYSTEM,
            data={"group": group.name, "event": seq, "attempts": attempt},
            concerns=[group.created_by],
        )


def number_of(event: Event) -> int | None:
    """Returns the number of the item that an event is about, or `None`."""
    return None if event.item is None else int(event.item.partition("-")[2])


def _again(ledger: Ledger, group: GroupRow, limit: int, until: int) -> Steps[list[Delivery]]:
    """Delivers events that wait for another attempt, at most `limit`, until the time `until`."""
    due = yield sql("deliveries_due"), (ledger.no, group.name, ledger.now, limit)
    events = yield from events_at(ledger.no, [row[0] for row in due])
    deliveries = []
    for seq, attempt, tries, why in due:
        if seq not in events:  # readers were everybody when it was handed out
            yield sql("delivery_done"), (ledger.no, group.name, seq)
            continue
        last = int(tries + 1 >= group.max_attempts)
        yield sql("delivery_again"), (ledger.no, group.name, seq, ledger.agent, until, last)
        deliveries.append(Delivery(Handle(seq, attempt + 1), events[seq], instant(until), why or LEASE_ENDED))
    return deliveries


def events_at(no: int, seqs: Iterable[int]) -> Steps[dict[int, Event]]:
    """Returns those of the events with these sequences that everybody may see, by sequence."""
    wanted = list(seqs)
    if not wanted:
        return {}
    return {row[0]: event_of(row) for row in (yield sql("events_at"), (no, numbers(wanted), ""))}
