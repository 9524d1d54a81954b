"""Failed authentications by peer: a valid credential is always taken, invalid ones are slowed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import Final

MINUTE: Final = 60.0
PAUSE_SECONDS: Final = 1.0
_PEERS: Final = 10_000
_PAUSED: Final = 256


class Failures:
    """The failures of each peer within the last minute.

    Many clients may share an address (a proxy, a tunnel, a company), so it is never asked before a credential was
    looked at: who fails there keeps nobody out whose token counts.

    Args:
        per_minute: how many failures of a peer are answered at once.
        monotonic: seconds that only grow.
    """

    def __init__(self, per_minute: int, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.per_minute = per_minute
        self._monotonic = monotonic
        # Of each peer the start of its minute and its failures since; the longest known first.
        self._failed: dict[str, tuple[float, int]] = {}
        self._paused = 0

    def failed(self, peer: str) -> int:
        """Count one more; how many seconds are left of the minute if it is one too many, else 0."""
        network, now = _network(peer), self._monotonic()
        since, count = self._failed.pop(network, (now, 0))
        if now - since >= MINUTE:
            since, count = now, 0
        if len(self._failed) >= _PEERS:
            del self._failed[next(iter(self._failed))]
        self._failed[network] = (since, count + 1)
        return 0 if count < self.per_minute else int(since + MINUTE - now) + 1

    async def pause(self) -> None:
        """Let one who failed too often wait a moment for the answer; at most so many wait at a time."""
        if self._paused >= _PAUSED:
            return
        self._paused += 1
        try:
            await asyncio.sleep(PAUSE_SECONDS)
        finally:
            self._paused -= 1


def _network(peer: str) -> str:
    """The address, of IPv6 the half that one customer has to itself."""
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if isinstance(address, IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped) if mapped is not None else address.exploded[:19]
    return str(address)
