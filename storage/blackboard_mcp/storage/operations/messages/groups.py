"""Consumer groups as a whole: creation, changes and end; and their dead letters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.board import BoardConfig, Lifecycle
from blackboard_mcp.protocols.changes import ChangeKind
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, Refused
from blackboard_mcp.protocols.events import SYSTEM, EventType
from blackboard_mcp.protocols.groups import (
    ATTEMPTS,
    MAX_DEAD,
    MAX_GROUPS,
    MAX_IN_FLIGHT,
    MAX_TAKEN,
    DeadLetter,
    Group,
    GroupState,
    Handle,
    group_filter,
)

from ...operation import Write
from ..ledger.idempotency import repeatable
from ..ledger.ledger import Ledger, get_board, open_ledger
from ..ledger.rows import Steps, differences, dumps, instant, sql
from .group_turns import (
    PAGE,
    GroupRow,
    bury,
    check_attempts,
    counts,
    events_at,
    find_group,
    get_group,
    make,
    matching,
)

_BATCH = 100
_NAMED = 10


@repeatable(Group)
def create(
    write: Write,
    board: str,
    agent: str,
    name: str,
    filter_: dict[str, Any],
    *,
    since: int | None = None,
    max_attempts: int = ATTEMPTS,
    once: Once | None = None,
    most: int = MAX_GROUPS,
) -> Steps[Group]:
    """Creates a group, or returns an existing one of that name with the same filter.

    It begins at the present end of the log, or after `since`. One agent may create at most `most`.

    Raises:
        InvalidInput: the filter or a number is not allowed.
        CursorExpired: `since` is not a place of the log.
        Refused: there are too many groups, or the board is closed.
        QuotaExceeded: the agent created `most` groups already.
        Conflict: a group of that name has another filter.
    """
    ledger = yield from open_ledger(write, board, agent)
    group = yield from make(ledger, name, filter_, since=since, max_attempts=max_attempts, most=most)
    yield from _close(ledger)
    return _group(group)


@repeatable(Group)
def change(
    write: Write,
    board: str,
    agent: str,
    name: str,
    *,
    filter_: dict[str, Any] | None = None,
    max_attempts: int | None = None,
    once: Once | None = None,
) -> Steps[Group]:
    """Changes the filter for events not yet delivered, or the number of attempts; returns the group.

    Raises:
        InvalidInput: the filter or the number is not allowed.
        UnknownReference: the board or group does not exist.
        Refused: another agent created the group.
    """
    if filter_ is not None:
        group_filter(filter_)
    if max_attempts is not None:
        check_attempts(max_attempts)
    ledger, group = yield from _own(write, board, agent, name)
    changed: dict[str, Any] = {"group": name}
    former = {"filter": json.loads(group.filter), "max_attempts": group.max_attempts}
    if filter_ is not None and json.loads(group.filter) != filter_:
        group.filter, changed["filter"] = dumps(filter_), True
    if max_attempts is not None and max_attempts != group.max_attempts:
        group.max_attempts = changed["max_attempts"] = max_attempts
        yield sql("deliveries_last"), (ledger.no, name, max_attempts)
    if len(changed) > 1:
        ledger.note(ChangeKind.CONSUME, name=name)
        yield sql("group_change"), (ledger.no, name, group.filter, group.max_attempts)
        fresh = {"filter": json.loads(group.filter), "max_attempts": group.max_attempts}
        yield from ledger.emit(EventType.GROUP_CHANGED, data=changed | differences(former, fresh))
        yield from ledger.close()
    return _group(group)


@repeatable(int)
def end(write: Write, board: str, agent: str, name: str, *, once: Once | None = None) -> Steps[int]:
    """Ends a group with its deliveries and dead letters, and returns the board's sequence.

    Raises:
        UnknownReference: the board or group does not exist.
        Refused: another agent created the group.
    """
    ledger, _ = yield from _own(write, board, agent, name)
    ledger.note(ChangeKind.CONSUME, name=name)
    yield from _end(ledger, name, "ended")
    return ledger.board.seq


def listed(now: int, board: str) -> Steps[tuple[list[GroupState], int]]:
    """Returns the groups of a board, by name, and the board's sequence."""
    row = yield from get_board(board)
    states = []
    for line in (yield sql("groups"), (row.no, MAX_GROUPS)):
        group = GroupRow(*line)
        found, _, more = yield from matching(row, group, PAGE + 1, PAGE)
        held, waiting, dead = yield from counts(row.no, group.name, now)
        states.append(GroupState(_group(group), len(found), more, held, waiting, dead))
    return states, row.seq


def dead_letters(
    board: str, name: str, *, after: int = 0, limit: int = MAX_TAKEN
) -> Steps[tuple[list[DeadLetter], int]]:
    """Returns at most `limit` dead letters of events after the sequence `after`, and the board's sequence."""
    row = yield from get_board(board)
    yield from get_group(row.no, board, name)
    rows = yield sql("dead_letters"), (row.no, name, after, limit)
    events = yield from events_at(row.no, [line[0] for line in rows])
    letters = [
        DeadLetter(Handle(seq, attempt), events[seq], worker, why, instant(at))
        for seq, attempt, worker, why, at in rows
        if seq in events
    ]
    return letters, row.seq


@repeatable(int)
def retry(
    write: Write, board: str, agent: str, name: str, wanted: Sequence[Handle], *, once: Once | None = None
) -> Steps[int]:
    """Makes dead letters wait for delivery, with as many attempts as a new event; returns the board's sequence.

    Raises:
        Conflict: one of the handles names no dead letter. Nothing was changed.
        Refused: too many events are in flight.
    """
    ledger = yield from _dead(write, board, agent, name, wanted)
    held, waiting, _ = yield from counts(ledger.no, name, write.now)
    if held + waiting + len(wanted) > MAX_IN_FLIGHT:
        raise Refused(
            f"'{name}' has {held + waiting} events in flight, and {MAX_IN_FLIGHT} is the limit. Nothing was changed; "
            "retry when some are acknowledged."
        )
    for handle in wanted:
        yield sql("delivery_retry"), (ledger.no, name, handle.seq, write.now)
    return (yield from _told(ledger, EventType.DELIVERY_RETRIED, name, wanted))


@repeatable(int)
def drop(
    write: Write, board: str, agent: str, name: str, wanted: Sequence[Handle], *, once: Once | None = None
) -> Steps[int]:
    """Deletes dead letters, and returns the board's sequence.

    Raises:
        Conflict: one of the handles names no dead letter. Nothing was changed.
    """
    ledger = yield from _dead(write, board, agent, name, wanted)
    for handle in wanted:
        yield sql("delivery_done"), (ledger.no, name, handle.seq)
    return (yield from _told(ledger, EventType.DELIVERY_DROPPED, name, wanted))


def due(now: int) -> Steps[tuple[list[tuple[str, str]], list[tuple[str, str]]]]:
    """Returns two lists of board and group: groups with new dead letters, and groups that nobody uses."""
    usual = BoardConfig().subscription_lease_seconds
    spent = yield sql("groups_spent"), (now, _BATCH)
    unused = yield sql("groups_abandoned"), (now, usual, str(Lifecycle.CLOSED), _BATCH)
    return [(row[0], row[1]) for row in spent], [(row[0], row[1]) for row in unused]


def bury_spent(write: Write, board: str, name: str) -> Steps[bool]:
    """Turns deliveries without attempts left into dead letters; tells whether there were any."""
    ledger = yield from open_ledger(write, board, SYSTEM)
    group = yield from find_group(ledger.no, name)
    if group is None:
        return False
    yield from bury(ledger, group, MAX_DEAD)
    return (yield from _close(ledger))


def abandon(write: Write, board: str, name: str) -> Steps[bool]:
    """Ends a group that was unused for the time after which subscriptions expire; returns false if it was used."""
    ledger = yield from open_ledger(write, board, SYSTEM)
    group = yield from find_group(ledger.no, name)
    lease = ledger.board.config.subscription_lease_seconds * 1_000_000
    if group is None or not lease or group.used_at > write.now - lease:
        return False
    yield from _end(ledger, name, "nobody used it")
    return True


def _group(row: GroupRow) -> Group:
    """Returns the group as callers get it, from its row."""
    return Group(
        row.name,
        json.loads(row.filter),
        row.created_by,
        instant(row.created_at),
        row.cursor,
        row.max_attempts,
    )


def _own(write: Write, board: str, agent: str, name: str) -> Steps[tuple[Ledger, GroupRow]]:
    """Returns a ledger, and the group's row if the agent created the group.

    Raises:
        UnknownReference: the board or group does not exist.
        Refused: another agent created the group.
    """
    ledger = yield from open_ledger(write, board, agent)
    group = yield from get_group(ledger.no, board, name)
    if group.created_by != agent:
        raise Refused(
            f"'{name}' is {group.created_by}'s, who made it: only they change or end it. Nothing was changed; another "
            "name makes a group of yours.",
            created_by=group.created_by,
        )
    return ledger, group


def _end(ledger: Ledger, name: str, why: str) -> Steps[None]:
    """Ends a group with its deliveries, with the event."""
    held, waiting, dead = yield from counts(ledger.no, name, ledger.now)
    yield sql("deliveries_drop"), (ledger.no, name)
    yield sql("group_drop"), (ledger.no, name)
    data = {"group": name, "why": why, "in_flight": held + waiting, "dead": dead}
    yield from ledger.emit(EventType.GROUP_ENDED, data=data)
    yield from ledger.close()


def _dead(write: Write, board: str, agent: str, name: str, wanted: Sequence[Handle]) -> Steps[Ledger]:
    """Returns a ledger after checking that the handles name dead letters of the group.

    Raises:
        InvalidInput: there are none, too many, or one is named twice.
        Conflict: one of the handles names no dead letter.
    """
    if not 0 < len(wanted) <= MAX_TAKEN or len(set(wanted)) < len(wanted):
        raise InvalidInput(f"Name 1 to {MAX_TAKEN} dead letters, each once. Nothing was changed.")
    ledger = yield from open_ledger(write, board, agent)
    yield from get_group(ledger.no, board, name)
    rows = yield sql("deliveries"), (ledger.no, name, dumps([handle.seq for handle in wanted]))
    there = {Handle(row[0], row[1]) for row in rows if row[6]}
    missing = [str(handle) for handle in wanted if handle not in there]
    if missing:
        raise Conflict(
            f"{', '.join(missing[:_NAMED])}: no such dead letter of '{name}'. Nothing was changed; "
            f'consume(group="{name}", op="dead") lists them.',
            missing=missing,
        )
    return ledger


def _told(ledger: Ledger, event: EventType, name: str, wanted: Sequence[Handle]) -> Steps[int]:
    """Writes the event about dead letters, and returns the board's sequence."""
    ledger.note(ChangeKind.CONSUME, name=name)
    seqs = [handle.seq for handle in wanted]
    yield from ledger.emit(event, data={"group": name, "events": seqs[:_NAMED], "count": len(seqs)})
    yield from ledger.close()
    return ledger.board.seq


def _close(ledger: Ledger) -> Steps[bool]:
    """Closes the ledger if it wrote an event, and tells whether it did."""
    if ledger.board.seq < ledger.first_seq:
        return False
    yield from ledger.close()
    return True
