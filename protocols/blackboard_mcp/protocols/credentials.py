"""Access tokens as an installation keeps them, and the store of them.

This module knows what a token allows its holder and when it ends. It does not know the secret, only its digest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol, runtime_checkable

from .access import ALL_SCOPES, Principal, Role, Scope, Trust
from .values import dataclass

ENDING_SECONDS: Final = 5
"""Seconds after a token's end until nothing that was begun with it goes on, in any process."""


class TokenState(StrEnum):
    """The state of a token: it is accepted while ACTIVE only."""

    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A token of an installation.

    Attributes:
        id: public; it is part of the token's text and shown in lists.
        digest: SHA-256 of the secret, 32 bytes.
        roles: by board id, `*` for every other board, as in `Principal`.
        used_at: when it was last used, to within a minute; `None` before the first use.
    """

    id: str
    digest: bytes
    agent: str
    owner: str
    roles: Mapping[str, Role]
    created_at: datetime
    scopes: frozenset[Scope] = ALL_SCOPES
    trust: Trust = Trust.NORMAL
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    used_at: datetime | None = None

    def state(self, now: datetime) -> TokenState:
        """Returns the token's state at the instant `now`."""
        if self.revoked_at is not None:
            return TokenState.REVOKED
        if self.expires_at is not None and self.expires_at <= now:
            return TokenState.EXPIRED
        return TokenState.ACTIVE

    @property
    def principal(self) -> Principal:
        """The principal for which the token stands, even if it has ended."""
        return Principal(
            agent=self.agent,
            owner=self.owner,
            roles=self.roles,
            scopes=self.scopes,
            via="token",
            credential=self.id,
            expires_at=self.expires_at,
            trust=self.trust,
        )


@runtime_checkable
class CredentialStore(Protocol):
    """The tokens of an installation. They belong to no board, and no board's log mentions them."""

    async def has_tokens(self) -> bool:
        """Tells whether there ever was a token; revoked and expired tokens are kept and count here."""
        ...

    async def add_token(self, token: AccessToken) -> None:
        """Stores a new token, and that its agent acts for its owner, in one transaction.

        Raises:
            Conflict: the id is taken.
            Refused: by another token, active or ended less than `ENDING_SECONDS` ago, the agent acts for another owner
                or has another trust.
        """
        ...

    async def find_token(self, id_: str) -> AccessToken | None:
        """Returns the token with that id, or `None`."""
        ...

    async def token_of_agent(self, agent: str) -> AccessToken | None:
        """Returns an active token of an agent, or `None`; all of its active tokens name one owner and one trust."""
        ...

    async def tokens(self) -> list[AccessToken]:
        """Returns all tokens, oldest first."""
        ...

    async def revoke_token(self, id_: str) -> AccessToken:
        """Ends a token for good and returns it; one that was revoked before stays as it is.

        Raises:
            UnknownReference: there is no such token.
        """
        ...

    async def keep_tokens(self, tokens: Sequence[AccessToken]) -> None:
        """Adds tokens of another store that are missing here, and revokes known ones that are revoked there."""
        ...

    async def tokens_used(self, used: Mapping[str, datetime]) -> None:
        """Records when tokens (by id) were last used; an instant earlier than the recorded one changes nothing."""
        ...
