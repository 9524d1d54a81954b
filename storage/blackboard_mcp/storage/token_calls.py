"""Access tokens in a store over an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from blackboard_mcp.protocols.credentials import AccessToken

from .calls import StoreCalls
from .operations.access import tokens
from .operations.ledger.rows import micros


class TokenCalls(StoreCalls):
    """The part of the store that is about access tokens: a `CredentialStore`."""

    async def has_tokens(self) -> bool:
        return await self.engine.read(tokens.any_)

    async def add_token(self, token: AccessToken) -> None:
        now = self._now()
        await self.engine.write(lambda: tokens.add(token, now))

    async def find_token(self, id_: str) -> AccessToken | None:
        return await self.engine.read(lambda: tokens.find(id_))

    async def owner_by_token(self, agent: str) -> str | None:
        now = self._now()
        return await self.engine.read(lambda: tokens.owner_of(agent, now))

    async def tokens(self) -> list[AccessToken]:
        return await self.engine.read(tokens.all_)

    async def revoke_token(self, id_: str) -> AccessToken:
        now = self._now()
        return await self.engine.write(lambda: tokens.revoke(id_, now))

    async def keep_tokens(self, kept: Sequence[AccessToken]) -> None:
        await self.engine.write(lambda: tokens.keep(kept))

    async def tokens_used(self, used: Mapping[str, datetime]) -> None:
        at = {id_: micros(when) for id_, when in used.items()}
        await self.engine.write(lambda: tokens.used(at))
