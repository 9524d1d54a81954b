"""Requests that are still open, and the end of those whose credential counts no more.

A listening stream was let in once and stays for hours. So every second all that are open are identified again,
as if they came now, one of each credential; those that would be refused end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final

import anyio
from blackboard_mcp.protocols.access import Principal
from blackboard_mcp.protocols.errors import BlackboardError, Unauthorized

from ..access.identity import AGENT_HEADER, OWNER_HEADER
from ..background import alongside

logger = logging.getLogger(__name__)

SWEEP_SECONDS: Final = 1.0
_DECIDING: Final = ("authorization", AGENT_HEADER, OWNER_HEADER)

IdentifyHeaders = Callable[[Mapping[str, str]], Awaitable[Principal]]


@dataclass(eq=False, slots=True)
class OpenRequest:
    """One that is being answered. `why` is set when it ends because it would be refused now."""

    headers: Mapping[str, str]
    principal: Principal
    life: anyio.CancelScope
    why: BlackboardError | None = None


class OpenRequests:
    """All of them, of one server."""

    def __init__(self, identify: IdentifyHeaders) -> None:
        self.identify = identify
        self._open: set[OpenRequest] = set()

    def __len__(self) -> int:
        return len(self._open)

    @contextmanager
    def while_welcome(self, headers: Mapping[str, str], principal: Principal) -> Iterator[OpenRequest]:
        """What is within is cancelled when the request would be refused; its end is then told by `why`."""
        deciding = {name: headers[name] for name in _DECIDING if name in headers}
        with anyio.CancelScope() as life:
            request = OpenRequest(deciding, principal, life)
            self._open.add(request)
            try:
                yield request
            finally:
                self._open.discard(request)

    async def sweep(self) -> None:
        """End what would be refused now; what cannot be told now stays."""
        by_credential: dict[tuple[str | None, ...], list[OpenRequest]] = {}
        for request in self._open:
            by_credential.setdefault(tuple(map(request.headers.get, _DECIDING)), []).append(request)
        for requests in by_credential.values():
            refusal = await self._refusal(requests[0])
            if refusal is not None:
                who = requests[0].principal
                shown = f"token {who.credential} of {who.agent}" if who.credential else who.agent
                logger.info("ended %d open requests: %s counts no more", len(requests), shown)
                for request in requests:
                    request.why = refusal
                    request.life.cancel()

    async def _refusal(self, request: OpenRequest) -> BlackboardError | None:
        try:
            await self.identify(request.headers)
        except Unauthorized as error:
            return error
        except BlackboardError as error:
            logger.warning("whether open requests are still welcome cannot be told now: %s", error.message)
        return None

    @asynccontextmanager
    async def swept(self) -> AsyncIterator[None]:
        """Sweeps every second for as long as it is entered."""

        async def sweep() -> None:
            while True:
                await asyncio.sleep(SWEEP_SECONDS)
                try:
                    await self.sweep()
                except Exception:
                    logger.exception("open requests could not be swept")

        async with alongside(sweep(), "open-requests"):
            yield
