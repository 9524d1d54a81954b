"""Failed authentications by client address: valid credentials always pass, repeated failures are slowed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import Final

from cachetools import FIFOCache

MINUTE: Final = 60.0
PAUSE_SECONDS: Final = 1.0
_PEERS: Final = 10_000
_PAUSED: Final = 256


class Failures:
    """Counts the failures of each client address within a minute.

    Many clients may share an address (a proxy, a tunnel, a company). So the count is used only after a
    credential failed: failures of one client never keep out another whose token is valid.

    Args:
        per_minute: how many failures of one address are answered without a pause.
        monotonic: returns seconds that only grow.
    """

    def __init__(self, per_minute: int, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.per_minute = per_minute
        self._monotonic = monotonic
        # Maps each address to the start of its minute and its failures since.
        self._failed: FIFOCache[str, tuple[float, int]] = FIFOCache(_PEERS)
        self._paused = 0

    def failed(self, peer: str) -> int:
        """Counts one more failure, and returns the seconds left of the minute if there were too many, else 0."""
        network, now = _network(peer), self._monotonic()
        since, count = self._failed.get(network, (now, 0))
        if now - since >= MINUTE:
            since, count = now, 0
        self._failed[network] = (since, count + 1)
        return 0 if count < self.per_minute else int(since + MINUTE - now) + 1

    async def pause(self) -> None:
        """Delays the answer for `PAUSE_SECONDS`, unless too many answers are delayed already."""
        if self._paused >= _PAUSED:
            return
        self._paused += 1
        try:
            await asyncio.sleep(PAUSE_SECONDS)
        finally:
            self._paused -= 1


def _network(peer: str) -> str:
    """Returns the address; for IPv6 only its first half, which belongs to one customer."""
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if isinstance(address, IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped) if mapped is not None else address.exploded[:19]
    return str(address)
