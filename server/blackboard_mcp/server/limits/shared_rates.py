"""Rates over several servers: each tells the others what it let its callers take.

A server learns of it within half a second or so. What several let through meanwhile is paid back afterwards: a burst
can be as many times as large as there are servers, and the rate in the long run is that of one. Servers tell each other
through their PostgreSQL, and workers of one server through their parent. What is not passed on, such as behind a
pooler without a direct address, counts in one server alone.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

from .rates import Quotas, Taken

_SECONDS: Final = 0.5
_BYTES: Final = 7_500


class Peers(Protocol):
    """The other servers on the same boards."""

    heard: Callable[[str], None]

    async def tell(self, words: str) -> None:
        """Tells them something of up to 7,900 bytes, which may be lost."""
        ...


async def share(quotas: Callable[[], Quotas], peers: Peers) -> None:
    """Tells the others what is taken here, and hears what they gave out, until cancelled."""

    def heard(words: str) -> None:
        quotas().took_elsewhere(
            [(unit, who, board, float(much)) for unit, who, board, much in json.loads(words)]
        )

    peers.heard = heard
    while True:
        own = quotas()
        own.shared = True
        for part in _parts(own.taken()):
            await peers.tell(part)
        await asyncio.sleep(_SECONDS)


def _parts(taken: Sequence[Taken]) -> Iterator[str]:
    """Yields the list as JSON, in pieces of up to `_BYTES`."""
    part: list[str] = []
    size = 0
    for one in map(json.dumps, taken):
        if part and size + len(one) > _BYTES:
            yield f"[{','.join(part)}]"
            part, size = [], 0
        part.append(one)
        size += len(one) + 1
    if part:
        yield f"[{','.join(part)}]"
