"""Requests that are still open, and the end of those whose credential is no longer valid.

A listening stream is admitted once and stays open for hours. So every second the open requests are identified
again, as if they came now, once for each credential; those that would be refused end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from blackboard_mcp.protocols.access import Principal
from blackboard_mcp.protocols.errors import (
    BlackboardError,
    IssuerUnavailable,
    RateLimited,
    Refused,
    Unauthorized,
)

from ..access.door import of_one_ended
from ..access.identity import AGENT_HEADER, OWNER_HEADER
from ..background import alongside

logger = logging.getLogger(__name__)

SWEEP_SECONDS: Final = 1.0
_DECIDING: Final = ("authorization", AGENT_HEADER, OWNER_HEADER)

IdentifyHeaders = Callable[[Mapping[str, str]], Awaitable[Principal]]


@dataclass(eq=False, slots=True)
class OpenRequest:
    """A request that is being answered. `why` is the refusal that ended it, if one did."""

    headers: Mapping[str, str]
    principal: Principal
    life: asyncio.Timeout
    task: asyncio.Task[None] | None
    why: BlackboardError | None = None

    def end(self, why: BlackboardError) -> None:
        """Cancels what is done for the request; told so again, it cancels what did not end."""
        if self.why is None:
            self.why = why
            self.life.reschedule(asyncio.get_running_loop().time())
        elif self.task is not None:
            self.task.cancel()


class OpenRequests:
    """The open requests of one server."""

    def __init__(self, identify: IdentifyHeaders) -> None:
        self.identify = identify
        self._open: set[OpenRequest] = set()

    def __len__(self) -> int:
        return len(self._open)

    async def while_welcome(
        self, headers: Mapping[str, str], principal: Principal, served: Awaitable[None]
    ) -> BlackboardError | None:
        """Awaits what serves a request, and registers the request as open meanwhile.

        If the request would be refused, what serves it is cancelled, and the refusal is returned.
        """
        deciding = {name: headers[name] for name in _DECIDING if name in headers}
        request = OpenRequest(deciding, principal, asyncio.timeout(None), asyncio.current_task())
        try:
            async with request.life:
                self._open.add(request)
                try:
                    await served
                finally:
                    self._open.discard(request)
        except (TimeoutError, asyncio.CancelledError):
            if request.why is None:
                raise
        return request.why

    async def sweep(self, *, issued: bool) -> None:
        """Ends the requests that would be refused now; one whose token the store cannot look up right now stays open.

        `issued` says whether those with tokens of an issuer are looked at, or all others.
        """
        by_credential: dict[tuple[str | None, ...], list[OpenRequest]] = {}
        for request in self._open:
            if (request.principal.via == "oauth") is issued:
                by_credential.setdefault(tuple(map(request.headers.get, _DECIDING)), []).append(request)
        for requests in by_credential.values():
            refusal = await self._refusal(requests[0])
            if refusal is not None:
                why = of_one_ended(refusal, "request")
                who = requests[0].principal
                shown = f"token {who.credential} of {who.agent}" if who.credential else who.agent
                if ended := sum(request.why is None for request in requests):
                    logger.info("ended %d open requests: %s counts no more", ended, shown)
                for request in requests:
                    if request in self._open:
                        request.end(why)

    async def _refusal(self, request: OpenRequest) -> BlackboardError | None:
        try:
            await self.identify(request.headers)
        # Refused is one whose agent got a token here, with another owner; unavailable an issuer whose keys are too old.
        except (Unauthorized, Refused, IssuerUnavailable) as error:
            return None if isinstance(error, RateLimited) else error
        except BlackboardError as error:
            logger.warning("whether open requests are still welcome cannot be told now: %s", error.message)
        return None

    @asynccontextmanager
    async def swept(self) -> AsyncIterator[None]:
        """Calls `sweep` every second while the context is entered.

        An issuer that hangs holds up nothing but the sweep of its own tokens.
        """

        async def sweep(*, issued: bool) -> None:
            while True:
                await asyncio.sleep(SWEEP_SECONDS)
                try:
                    await self.sweep(issued=issued)
                except Exception:
                    logger.exception("open requests could not be swept")

        async with (
            alongside(sweep(issued=False), "open-requests"),
            alongside(sweep(issued=True), "open-requests-of-an-issuer"),
        ):
            yield
