"""Verification of the tokens that the installation itself issued."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

from blackboard_mcp.protocols.access import Principal
from blackboard_mcp.protocols.clock import Clock
from blackboard_mcp.protocols.credentials import AccessToken, CredentialStore
from blackboard_mcp.protocols.errors import StoreError
from cachetools import FIFOCache

from ...access.tokens import read_access_token
from ...background import alongside

logger = logging.getLogger(__name__)

REMEMBERED_SECONDS: Final = 2.0
"""How long the store's answer about a token is cached: another process may revoke it at any time."""
USE_SECONDS: Final = 30.0
_REMEMBERED: Final = 10_000
_NOBODYS: Final = bytes(32)


class StoredTokens:
    """The verifier of the store's tokens.

    Args:
        monotonic: returns seconds that only grow.
    """

    def __init__(
        self, store: CredentialStore, clock: Clock, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._clock = clock
        self._monotonic = monotonic
        self._known: FIFOCache[str, tuple[float, AccessToken, Principal]] = FIFOCache(_REMEMBERED)
        self._of_agents: FIFOCache[str, tuple[float, AccessToken | None]] = FIFOCache(_REMEMBERED)
        self._used: dict[str, datetime] = {}
        self._any = False
        self._looked: float | None = None

    async def in_force(self) -> bool:
        """Tells whether a token was ever made: from then on every request needs one."""
        now = self._monotonic()
        if not self._any and (self._looked is None or now - self._looked >= REMEMBERED_SECONDS):
            self._any = await self._store.has_tokens()
            self._looked = now
        return self._any

    async def of_agent(self, agent: str) -> AccessToken | None:
        """Returns a valid token of the agent, or `None` if it has none; all of them name one owner and one trust."""
        now = self._monotonic()
        known = self._of_agents.get(agent)
        if known is not None and now - known[0] < REMEMBERED_SECONDS:
            return known[1]
        token = await self._store.token_of_agent(agent)
        self._of_agents[agent] = now, token
        return token

    async def verify(self, token: str) -> Principal | None:
        """Returns the principal of the token, or `None` if it is unknown, revoked or of another form."""
        parts = read_access_token(token)
        if parts is None:
            return None
        id_, digest = parts
        known = await self._find(id_)
        # Compared for an unknown id as well, so that the time taken does not reveal which ids exist.
        same = hmac.compare_digest(digest, _NOBODYS if known is None else known[0].digest)
        if known is None or not same or known[0].revoked_at is not None:
            return None
        self._used[id_] = self._clock.now()
        return known[1]

    async def _find(self, id_: str) -> tuple[AccessToken, Principal] | None:
        now = self._monotonic()
        known = self._known.get(id_)
        if known is not None and now - known[0] < REMEMBERED_SECONDS:
            return known[1], known[2]
        token = await self._store.find_token(id_)
        self._known.pop(id_, None)
        if token is None:
            return None
        self._known[id_] = (now, token, token.principal)
        return token, self._known[id_][2]

    async def record_use(self) -> None:
        """Records in the store which tokens were used since the last call; a failing store is only logged."""
        used, self._used = self._used, {}
        if used:
            try:
                await self._store.tokens_used(used)
            except StoreError as error:
                logger.warning("when tokens were used last was not recorded: %s", error.message)

    @asynccontextmanager
    async def recording(self) -> AsyncIterator[None]:
        """Calls `record_use` every `USE_SECONDS` while the context is entered, and once at the end."""

        async def record() -> None:
            while True:
                await asyncio.sleep(USE_SECONDS)
                await self.record_use()

        try:
            async with alongside(record(), "token-use"):
                yield
        finally:
            await self.record_use()
