"""Verifiers of bearer tokens: one for each kind of token, asked in order.

A verifier's answer is read as the SDK reads its own (`TokenVerifier`), so that its session check and ours see
the same user.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from blackboard_mcp.protocols.access import Principal
from blackboard_mcp.protocols.clock import Clock
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, BearerAuthBackend
from mcp.server.auth.provider import AccessToken, TokenVerifier
from starlette.requests import HTTPConnection


class Verifier(Protocol):
    """Knows one kind of token."""

    async def verify(self, token: str) -> Principal | None:
        """Whom the token stands for; `None` when it is no token of this kind, or does not count.

        It is asked for every request, and again every second or two for each that is still open: what it
        remembers of an answer it may use for two seconds at most, so that a token that was taken back counts
        no more within five. An `expires_at` of the answer is checked by whoever asks.

        Raises:
            BlackboardError: it cannot tell now; the request is then answered with that.
        """
        ...


class _Shown(AccessToken):
    """A token as the SDK knows one; instead of its text there is whom it stands for."""

    principal: Principal


class Bearer(TokenVerifier):
    """The bearer token of a request, by the first verifier that knows it."""

    def __init__(self, verifiers: Sequence[Verifier], clock: Clock) -> None:
        self._verifiers = tuple(verifiers)
        self._clock = clock
        self._backend = BearerAuthBackend(self)

    async def of(self, authorization: str) -> Principal | None:
        """Whom the header's value stands for; `None` for nobody.

        Raises:
            BlackboardError: nobody can tell now.
        """
        scope = {"type": "http", "headers": [(b"authorization", authorization.encode("latin-1"))]}
        found = await self._backend.authenticate(HTTPConnection(scope))
        if found is None:
            return None
        shown = found[1].access_token
        assert isinstance(shown, _Shown)
        return shown.principal

    async def verify_token(self, token: str) -> AccessToken | None:
        for verifier in self._verifiers:
            principal = await verifier.verify(token)
            if principal is not None:
                ended = principal.expires_at is not None and principal.expires_at <= self._clock.now()
                return None if ended else _shown(principal)
        return None


def sdk_user(principal: Principal) -> AuthenticatedUser:
    """The principal as the SDK's session check compares one."""
    return AuthenticatedUser(_shown(principal))


def _shown(principal: Principal) -> _Shown:
    return _Shown(
        token=principal.credential,
        client_id=principal.agent,
        subject=principal.owner,
        claims={"iss": principal.via},
        scopes=sorted(principal.scopes),
        principal=principal,
    )
