"""The access tokens of a board store that keeps none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from blackboard_mcp.protocols.credentials import AccessToken
from blackboard_mcp.protocols.errors import InvalidInput

NO_TOKENS: Final = (
    "The board store of these settings keeps no access tokens. Serve on 127.0.0.1, name an OAuth issuer in [oauth], or "
    "give the store the methods of CredentialStore. Nothing was changed."
)


class NoTokens:
    """A `CredentialStore` without tokens, which takes none."""

    async def has_tokens(self) -> bool:
        return False

    async def add_token(self, token: AccessToken) -> None:
        raise InvalidInput(NO_TOKENS)

    async def find_token(self, id_: str) -> AccessToken | None:
        return None

    async def token_of_agent(self, agent: str) -> AccessToken | None:
        return None

    async def tokens(self) -> list[AccessToken]:
        return []

    async def revoke_token(self, id_: str) -> AccessToken:
        raise InvalidInput(NO_TOKENS)

    async def keep_tokens(self, tokens: Sequence[AccessToken]) -> None:
        raise InvalidInput(NO_TOKENS)

    async def tokens_used(self, used: Mapping[str, datetime]) -> None:
        """Does nothing: there is no token to use."""
