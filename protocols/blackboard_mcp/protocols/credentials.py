"""Access tokens: what an installation keeps of each, and the store of them.

Knows what a token lets its holder do and when it ends. Refuses to know its secret: of that there is a digest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from .access import ALL_SCOPES, Principal, Role, Scope, Trust
from .values import dataclass


class TokenState(StrEnum):
    """Whether a token counts now."""

    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A token of an installation.

    Attributes:
        id: public; it stands in the token's text and in lists.
        digest: SHA-256 of the secret, 32 bytes.
        roles: by board id, `*` for every other board, as in `Principal`.
        used_at: when it was last used, to within a minute; `None` before.
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
        """Whether it counts at an instant."""
        if self.revoked_at is not None:
            return TokenState.REVOKED
        if self.expires_at is not None and self.expires_at <= now:
            return TokenState.EXPIRED
        return TokenState.ACTIVE

    @property
    def principal(self) -> Principal:
        """Who its holder is, whether it counts or not."""
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


class CredentialStore(Protocol):
    """The tokens of an installation. They belong to no board, and no board's history has them."""

    async def has_tokens(self) -> bool:
        """Whether there is a token or ever was: one that was revoked or has expired is kept, and counts here."""
        ...

    async def add_token(self, token: AccessToken) -> None:
        """Keep a new token, and that its agent acts for its owner, in one transaction.

        Raises:
            Conflict: the id is taken.
            Refused: another token that counts has the agent act for somebody else.
        """
        ...

    async def find_token(self, id_: str) -> AccessToken | None: ...

    async def owner_by_token(self, agent: str) -> str | None:
        """Whom the tokens that count now have an agent act for; `None` where there is none for it."""
        ...

    async def tokens(self) -> list[AccessToken]:
        """All of them, oldest first."""
        ...

    async def revoke_token(self, id_: str) -> AccessToken:
        """End a token for good and return it; one that was revoked before stays as it is.

        Raises:
            UnknownReference: there is no such token.
        """
        ...

    async def keep_tokens(self, tokens: Sequence[AccessToken]) -> None:
        """Take over the tokens of another store: each that is not here, and the end of each that is."""
        ...

    async def tokens_used(self, used: Mapping[str, datetime]) -> None:
        """Record when tokens (by id) were used last; an earlier instant than the recorded one changes nothing."""
        ...
