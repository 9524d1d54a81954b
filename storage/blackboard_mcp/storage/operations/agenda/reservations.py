"""Reservations of files and keys: a lease has them alone, or shares them with other shared ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from blackboard_mcp.protocols.agenda import (
    MAX_PATHS,
    MAX_PATTERN,
    MAX_RESERVATIONS,
    Reservation,
    Task,
    task_id,
)
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, QuotaExceeded
from blackboard_mcp.protocols.workspace import fold

from ..ledger import serving
from ..ledger.ledger import Ledger
from ..ledger.rows import Steps, instant, sql
from .rows import MICROS

_SHARED: Final = "?shared"
_SCHEMES: Final = {"file": "/", "key": ":"}
_SEGMENTS: Final = 32
_folded: Final = lru_cache(maxsize=4_096)(fold)


def parse(given: str) -> tuple[str, bool]:
    """Returns the pattern that a path reserves, and whether it is shared.

    Raises:
        InvalidInput: it is not a pattern of files or keys.
    """
    pattern, shared = (given[: -len(_SHARED)], True) if given.endswith(_SHARED) else (given, False)
    scheme, colon, rest = pattern.partition(":")
    parts = rest.split(_SCHEMES.get(scheme, "/"))
    wrong = (
        not colon
        or scheme not in _SCHEMES
        or len(pattern) > MAX_PATTERN
        or not pattern.isprintable()
        or len(parts) > _SEGMENTS
        or any(not part or part in (".", "..") for part in parts)
        or any("**" in part and part != "**" for part in parts)
    )
    if wrong:
        raise InvalidInput(
            f"'{given[:60]}' is no path to reserve. Nothing was changed; write file:src/db/** or key:plan:*, with "
            "?shared at the end to share it.",
        )
    if scheme == "key" and "*" in parts[0]:
        raise InvalidInput(
            f"'{given[:60]}' could be every key of the board. Nothing was changed; begin with a whole part, as in "
            "key:plan:**.",
        )
    return pattern, shared


def reserve(
    ledger: Ledger, paths: Sequence[str], *, lease: int, task: int, length: int, until: int
) -> Steps[tuple[Reservation, ...]]:
    """Reserves paths under a lease of the ledger's agent.

    Raises:
        InvalidInput: a path is no pattern, or there are too many.
        Conflict: another agent has one of them.
        QuotaExceeded: too much is reserved on the board.
    """
    wanted = check(paths)
    if not wanted:
        return ()
    yield from check_free(ledger, wanted)
    count = (yield sql("reservations_count"), (ledger.no,))[0][0]
    if count + len(wanted) > MAX_RESERVATIONS:
        raise QuotaExceeded(
            f"'{ledger.board.id}' has {count:,} reservations, and {MAX_RESERVATIONS:,} is the limit. Nothing was "
            "changed."
        )
    for pattern, shared in wanted.items():
        values = (ledger.no, lease, pattern, int(shared), ledger.agent, task, length, until)
        yield sql("reservation_add"), values
    return tuple(
        Reservation(pattern, shared, ledger.agent, lease, task, instant(until))
        for pattern, shared in wanted.items()
    )


def check(paths: Sequence[str]) -> dict[str, bool]:
    """Returns the patterns of paths, and whether each is shared.

    Raises:
        InvalidInput: a path is no pattern, or there are too many.
    """
    if len(paths) > MAX_PATHS:
        raise InvalidInput(f"paths takes at most {MAX_PATHS} patterns. Nothing was changed.")
    return dict(map(parse, paths))


def check_free(ledger: Ledger, wanted: dict[str, bool]) -> Steps[None]:
    """Checks that nobody else has what is wanted.

    Raises:
        Conflict: another agent has one of them; it names holder, lease and end.
    """
    for other in (yield from _of_others(ledger)):
        for pattern in _meeting(other, wanted):
            task = f" for {task_id(other.task)}" if other.task else ""
            raise Conflict(
                f"{other.agent} has reserved {other.pattern} under lease {other.lease}{task} until "
                f"{other.until:%H:%M:%SZ}, and it overlaps {pattern}. Nothing was changed; take other work, or "
                "wait() until it is released.",
                holder=other.agent,
                lease=other.lease,
                pattern=other.pattern,
                until=other.until.isoformat(),
            )


def _meeting(other: Reservation, wanted: Mapping[str, bool]) -> Iterator[str]:
    """Yields the patterns that overlap a reservation, but for those that both sides share."""
    for pattern, shared in wanted.items():
        if not (shared and other.shared) and overlap(pattern, other.pattern):
            yield pattern


def kept(tasks: Iterable[Task], there: Sequence[Reservation], agent: str) -> dict[int, Reservation]:
    """Returns a map from those ready tasks that the agent cannot take to the reservation that keeps it from them."""
    found: dict[int, Reservation] = {}
    for task in tasks:
        if task.ready and task.paths:
            wanted = check(task.paths)
            met = (other for other in there if other.agent != agent and any(_meeting(other, wanted)))
            if (other := next(met, None)) is not None:
                found[task.number] = other
    return found


def is_free(ledger: Ledger, paths: Sequence[str]) -> Steps[bool]:
    """Tells whether nobody else has what these paths name."""
    try:
        yield from check_free(ledger, check(paths))
    except Conflict:
        return False
    return True


def check_key(ledger: Ledger, key: str) -> Steps[None]:
    """Checks that no other agent has reserved a key alone; every write to a key asks this.

    Raises:
        Conflict: another agent has.
    """
    yield from _check_literal(ledger, "key", key)


def check_file(ledger: Ledger, path: str) -> Steps[None]:
    """Checks that no other agent has reserved a file of the workspace alone; every write to a file asks this.

    Raises:
        Conflict: another agent has.
    """
    yield from _check_literal(ledger, "file", path)


def _check_literal(ledger: Ledger, scheme: str, name: str) -> Steps[None]:
    for other in (yield from _of_others(ledger)) if ledger.reserved else ():
        if not other.shared and overlap(other.pattern, f"{scheme}:{name}", literal=True):
            raise Conflict(
                f"{other.agent} has reserved {other.pattern} under lease {other.lease} until {other.until:%H:%M:%SZ}: "
                f"nobody else writes '{name}' meanwhile. Nothing was changed; ask {other.agent}, or wait() until it "
                "is released.",
                holder=other.agent,
                lease=other.lease,
                pattern=other.pattern,
                until=other.until.isoformat(),
            )


def _of_others(ledger: Ledger) -> Steps[list[Reservation]]:
    """Returns reservations of other agents that have not ended."""
    rows: list[Any] = yield (
        sql("reservations_of_others"),
        (ledger.no, ledger.agent, ledger.now, ledger.opened),
    )
    if rows and (began := (yield from serving.since(ledger.opened, ledger.now))) < ledger.opened:
        rows = yield sql("reservations_of_others"), (ledger.no, ledger.agent, ledger.now, began)
    return [
        Reservation(pattern, bool(shared), agent, lease, task, instant(until))
        for pattern, shared, agent, lease, task, until in rows
    ]


def listed(no: int, now: int) -> Steps[tuple[Reservation, ...]]:
    """Returns the reservations of a board that have not ended, in the order of their leases."""
    rows: list[Any] = yield sql("reservations_of_others"), (no, "", now, 0)
    return tuple(
        Reservation(pattern, bool(shared), agent, lease, task, instant(until))
        for pattern, shared, agent, lease, task, until in rows
    )


def of_lease(no: int, lease: int) -> Steps[tuple[Reservation, ...]]:
    """Returns what is reserved under a lease."""
    rows: list[Any] = yield sql("reservations_under"), (no, lease)
    return tuple(
        Reservation(pattern, bool(shared), agent, lease, task, instant(until))
        for pattern, shared, agent, task, until in rows
    )


def overlap(one: str, other: str, *, literal: bool = False) -> bool:
    """Tells whether something could match both patterns; a `literal` `other` has no wildcards.

    Two spellings of a file's path that a file system may not tell apart are one.
    """
    scheme, _, first = one.partition(":")
    other_scheme, _, second = other.partition(":")
    if scheme != other_scheme:
        return False
    if scheme == "file":
        first, second = _folded(first), _folded(second)
    mark = _SCHEMES[scheme]
    parts = tuple(second.split(mark))
    if literal:
        parts = tuple("\0" + part for part in parts)
    return _meet(tuple(first.split(mark)), parts)


@lru_cache(maxsize=4_096)
def _meet(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Tells whether a path could match both; `**` stands for any number of segments, also none."""
    if not one or not other:
        return all(part == "**" for part in one or other)
    if one[0] == "**":
        return _meet(one[1:], other) or _meet(one, other[1:])
    if other[0] == "**":
        return _meet(one, other[1:]) or _meet(one[1:], other)
    return _segments_meet(one[0], other[0]) and _meet(one[1:], other[1:])


@lru_cache(maxsize=4_096)
def _segments_meet(one: str, other: str) -> bool:
    """Tells whether a segment could match both; `*` stands for any characters, `\\0` begins one without wildcards."""
    if other.startswith("\0"):
        return _matches(one, other[1:])
    # Rows of a table over both patterns: whether what follows both places can meet.
    below = [all(c == "*" for c in other[j:]) for j in range(len(other) + 1)]
    for i in range(len(one) - 1, -1, -1):
        row = [False] * len(other) + [all(c == "*" for c in one[i:])]
        for j in range(len(other) - 1, -1, -1):
            if one[i] == "*" or other[j] == "*":
                row[j] = below[j] or row[j + 1] if one[i] == "*" else row[j + 1] or below[j]
            else:
                row[j] = one[i] == other[j] and below[j + 1]
        below = row
    return below[0]


def _matches(pattern: str, text: str) -> bool:
    """Tells whether a segment matches a pattern with `*`."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == first
    if not text.startswith(first) or len(text) < len(first) + len(rest[-1]) or not text.endswith(rest[-1]):
        return False
    place, end = len(first), len(text) - len(rest[-1])
    for part in rest[:-1]:
        found = text.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return True


def seconds(length: float) -> int:
    """Returns a lease's length in microseconds."""
    return round(length * MICROS)
