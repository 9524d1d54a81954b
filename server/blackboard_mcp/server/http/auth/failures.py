"""How often a peer may fail to authenticate: some guesses a minute, then none are looked at for a while."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import Final

MINUTE: Final = 60.0
_PEERS: Final = 10_000
_GOOD: Final = 10_000


class Failures:
    """The failures of each peer within the last minute.

    A credential that was good a while ago is looked at even then, so that one client which fails does not lock out
    the others behind its address.

    Args:
        per_minute: how many failures a peer has.
        monotonic: seconds that only grow.
    """

    def __init__(self, per_minute: int, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.per_minute = per_minute
        self._monotonic = monotonic
        # Of each peer the start of its minute and its failures since; the longest known first.
        self._failed: dict[str, tuple[float, int]] = {}
        self._good: dict[bytes, None] = {}

    def seconds_left(self, peer: str, credential: str | None) -> int:
        """How long this peer has to wait before such a credential is looked at; 0 for not at all."""
        since, count = self._failed.get(_network(peer), (0.0, 0))
        left = since + MINUTE - self._monotonic()
        if count < self.per_minute or left <= 0:
            return 0
        return 0 if credential is not None and _digest(credential) in self._good else int(left) + 1

    def failed(self, peer: str) -> None:
        """Count one more."""
        network, now = _network(peer), self._monotonic()
        since, count = self._failed.pop(network, (now, 0))
        if now - since >= MINUTE:
            since, count = now, 0
        if len(self._failed) >= _PEERS:
            del self._failed[next(iter(self._failed))]
        self._failed[network] = (since, count + 1)

    def passed(self, credential: str) -> None:
        """Remember a credential that was good."""
        digest = _digest(credential)
        if self._good.pop(digest, False) is False and len(self._good) >= _GOOD:
            del self._good[next(iter(self._good))]
        self._good[digest] = None


def _digest(credential: str) -> bytes:
    return hashlib.sha256(credential.encode("latin-1", "replace")).digest()


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
