"""Limits of a server: one table of bounds, each with its range and its meaning.

This module knows names, ranges and defaults. The code that enforces a bound reads it here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field, fields, replace
from typing import Any, Final

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.items import MAX_TEXT
from blackboard_mcp.protocols.values import dataclass

_MIB: Final = 1 << 20
_DAY: Final = 86_400
_LARGEST_CALL: Final = 5_000_000
"""Bytes that one call may write. No burst may be smaller, or such a call could never be accepted."""


def _bound(default: float, low: float, high: float, meaning: str) -> Any:
    return field(default=default, metadata={"low": low, "high": high, "meaning": meaning})


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one server process. Durations are in seconds, sizes in bytes; each range includes its ends.

    A *principal* is the account that a call is charged to. The constructor checks nothing; `limits_of` checks
    values.
    """

    connections: int = _bound(2_000, 1, 100_000, "open connections in all")
    connections_per_peer: int = _bound(1_500, 1, 100_000, "open connections from one address")
    head_bytes: int = _bound(65_536, 1_024, _MIB, "a request's line and headers together")
    headers: int = _bound(100, 10, 1_000, "headers of a request")
    head_seconds: float = _bound(
        15.0, 0.05, 600, "for a request's headers to arrive, and for a TLS handshake"
    )
    body_bytes: int = _bound(4 * _MIB, 1_024, 64 * _MIB, "a request's body")
    body_seconds: float = _bound(20.0, 0.05, 600, "for a request's body to arrive")
    bodies_bytes: int = _bound(128 * _MIB, 1_024, 4_096 * _MIB, "bodies under way together")
    bodies_bytes_per_principal: int = _bound(
        32 * _MIB, 1_024, 4_096 * _MIB, "bodies under way of one principal"
    )
    write_seconds: float = _bound(30.0, 0.05, 600, "that a client may leave an answer or stream unread")
    keep_alive_seconds: float = _bound(75.0, 0.05, 3_600, "that a connection stays open between requests")
    line_bytes: int = _bound(4 * _MIB, 1_024, 64 * _MIB, "a line over stdio")
    failures_per_minute: int = _bound(30, 1, 100_000, "failures to authenticate from one address in a minute")
    calls: int = _bound(1_024, 1, 100_000, "requests being worked on in all")
    calls_per_principal: int = _bound(128, 1, 100_000, "requests being worked on for one principal")
    waits: int = _bound(2_048, 1, 100_000, "calls that may wait (those with `seconds`) in all")
    waits_per_principal: int = _bound(128, 1, 100_000, "calls that may wait for one principal")
    lull_seconds: float = _bound(
        5.0,
        0,
        50,
        "of quiet for which `wait` stays after news that ask nothing of who waits; 0: it never does",
    )
    sessions: int = _bound(5_000, 1, 100_000, "sessions of the older protocol generation in all")
    sessions_per_principal: int = _bound(200, 1, 10_000, "sessions of one principal")
    session_idle_seconds: float = _bound(1_800.0, 0.05, _DAY, "until an unused session ends")
    streams: int = _bound(2_048, 1, 100_000, "streams of notifications in all")
    streams_per_principal: int = _bound(128, 1, 10_000, "streams of notifications of one principal")
    uris_per_stream: int = _bound(256, 1, 10_000, "resources that one stream or session is told of")
    event_streams: int = _bound(256, 1, 100_000, "Server-Sent Event streams in all")
    event_streams_per_principal: int = _bound(32, 1, 10_000, "Server-Sent Event streams of one principal")
    post_characters: int = _bound(MAX_TEXT, 100, MAX_TEXT, "characters of an item's text")
    posts_per_second: float = _bound(
        50.0, 0.01, 1_000_000, "items, debate calls and the like from one principal"
    )
    posts_burst: int = _bound(2_000, 100, 10_000_000, "of them at once, after a pause")
    board_posts_per_second: float = _bound(500.0, 0.01, 1_000_000, "items and the like on one board")
    board_posts_burst: int = _bound(
        10_000, 200, 10_000_000, "of them at once; the last half is for those with least"
    )
    bytes_per_second: float = _bound(
        20_000.0, 1, 1_000_000_000, "bytes of texts and metadata from one principal"
    )
    bytes_burst: int = _bound(20_000_000, _LARGEST_CALL, 1_000_000_000_000, "of them at once, after a pause")
    board_bytes_per_second: float = _bound(
        200_000.0, 1, 1_000_000_000, "bytes of texts and metadata on one board"
    )
    board_bytes_burst: int = _bound(
        100_000_000,
        2 * _LARGEST_CALL,
        1_000_000_000_000,
        "of them at once; the last half is for those with least",
    )
    free_bytes: int = _bound(
        256 * _MIB,
        0,
        1 << 50,
        "free on the disk of the data folder, the default at most a twentieth of it: with less nothing new is posted, "
        "with a quarter of it agents only read; 0: nobody looks",
    )
    subscriptions_per_agent: int = _bound(100, 1, 100, "durable subscriptions of an agent on a board")
    groups_per_agent: int = _bound(20, 1, 50, "consumer groups that an agent made on a board")


_SHARED: Final = ("connections", "failures_per_minute", "calls", "waits", "streams", "event_streams")


def part_of(limits: Limits, workers: int) -> Limits:
    """Returns the limits of one of so many processes among which connections are spread evenly.

    What is bounded in all is divided among them; what is bounded for one principal or one address is not, because
    its connections may all be with one process. The bodies of one principal are, or it could fill a process's part.
    """
    if workers == 1:
        return limits
    parts = {name: -(-getattr(limits, name) // workers) for name in _SHARED}
    for name in ("bodies_bytes", "bodies_bytes_per_principal"):
        whole = getattr(limits, name)
        parts[name] = min(max(limits.body_bytes, whole // workers), whole)
    return replace(limits, **parts)


def limits_of(given: Any, where: str, base: Limits | None = None) -> Limits:
    """Returns `base`, or the defaults, with the values of `given` in place of its own.

    `given` maps names of limits to numbers, or is the JSON text of such an object. `where` names the setting
    in errors.

    Raises:
        InvalidInput: `given` is no mapping, or a name is unknown, or a value is out of range. The message
            begins with `where`.
    """
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"{where} is not JSON: {str(error)[:200]}.") from None
    if isinstance(given, Limits):
        return given
    if not isinstance(given, Mapping):
        raise InvalidInput(f'{where} must be an object of limits by name, say {{"posts_per_second": 10}}.')
    known = {f.name: f for f in fields(Limits)}
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise InvalidInput(f"{where} names '{str(name)[:40]}'; there are: {', '.join(known)}.")
        about = known[name].metadata
        whole = isinstance(known[name].default, int)
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            raise InvalidInput(f"{where}: {name} must be a {'whole number' if whole else 'number'}.")
        if not about["low"] <= value <= about["high"]:
            raise InvalidInput(f"{where}: {name} must be from {about['low']:,} to {about['high']:,}.")
        values[name] = value if whole else float(value)
    return replace(base or Limits(), **values)
