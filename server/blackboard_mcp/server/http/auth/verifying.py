"""Verifiers of bearer tokens: one for each kind of token, asked in order.

A verifier's answer is passed through the SDK's own `TokenVerifier`, so that its session check and ours see
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
    """A verifier of one kind of token."""

    async def verify(self, token: str) -> Principal | None:
        """Returns the principal of the token, or `None` if it is of another kind or not valid.

        It is asked for every request, and again every second or two for each open one. It may reuse an answer
        for two seconds at most, so that a revoked token stops working within five. The caller checks the
        `expires_at` of the answer.

        Raises:
            BlackboardError: it cannot tell now; the request is then answered with this error.
        """
        ...


class _Shown(AccessToken):
    """A token as the SDK knows one, holding its principal in place of the token's text."""

    principal: Principal


class Bearer(TokenVerifier):
    """Finds the principal of a bearer token through the first verifier that knows it."""

    def __init__(self, verifiers: Sequence[Verifier], clock: Clock) -> None:
        self._verifiers = tuple(verifiers)
        self._clock = clock
        self._backend = BearerAuthBackend(self)

    async def of(self, authorization: str) -> Principal | None:
        """Returns the principal for an `Authorization` header's value, or `None` if it shows no valid token.

        Raises:
            BlackboardError: a verifier cannot tell now.
        """
        scope = {"type": "http", "headers": [(b"authorization", authorization.encode("latin-1"))]}
        found = await self._backend.authenticate(HTTPConnection(scope))
        if found is None:
            return None
        shown = found[1].access_token
        assert isinstance(shown, _Shown)
        return shown.principal

    async def verify_token(self, token: str) -> AccessToken | None:
        """Returns the token in the SDK's form, or `None` if no verifier accepts it or it has expired."""
        for verifier in self._verifiers:
            principal = await verifier.verify(token)
            if principal is not None:
                ended = principal.expires_at is not None and principal.expires_at <= self._clock.now()
                return None if ended else _shown(principal)
        return None


def sdk_user(principal: Principal) -> AuthenticatedUser:
    """Returns the principal in the form that the SDK's session check compares."""
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
