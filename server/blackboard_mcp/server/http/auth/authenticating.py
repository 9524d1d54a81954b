"""Authentication of requests where credentials are in force: by bearer token only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from blackboard_mcp.protocols.access import Principal
from blackboard_mcp.protocols.clock import Clock
from blackboard_mcp.protocols.credentials import AccessToken
from blackboard_mcp.protocols.errors import Refused, Unauthorized

from ...access.identity import AGENT_HEADER, OWNER_HEADER, agent_name
from .verifying import Bearer, Verifier

_HOW: Final = (
    "send the header 'Authorization: Bearer …' with an access token on every request. Whoever runs the server makes "
    "one with `blackboard-mcp token create`; `blackboard-mcp connect` and BoardClient take it from BLACKBOARD_TOKEN. "
    "Nothing was changed."
)
MISSING: Final = f"This server asks for an access token: {_HOW}"
WRONG: Final = f"The access token does not count here (unknown, expired or revoked): {_HOW}"


class Authenticator:
    """Finds the principal of a request.

    Args:
        verifiers: one for each kind of token, in the order in which they are asked.
        in_force: tells whether requests need a token at all.
        token_of: returns a token of the installation's own for an agent; an issuer's token must name its owner, and
            counts with its trust.
        challenge: further parameters of a refusal's `WWW-Authenticate`, without the quotes.
    """

    def __init__(
        self,
        verifiers: Sequence[Verifier],
        clock: Clock,
        *,
        in_force: Callable[[], Awaitable[bool]],
        token_of: Callable[[str], Awaitable[AccessToken | None]] | None = None,
        challenge: Mapping[str, str] | None = None,
    ) -> None:
        self._bearer = Bearer(verifiers, clock)
        self._in_force = in_force
        self._token_of = token_of
        self._challenge = dict(challenge or {})

    async def principal(self, headers: Mapping[str, str]) -> Principal | None:
        """Returns the principal of the request's token, or `None` if no token is needed.

        `headers` have lower-case names.

        Raises:
            Unauthorized: there is no valid token. Unknown, expired and revoked ones are answered alike.
            Refused: other headers contradict the token, or its agent has another owner by the installation's tokens.
        """
        if not await self._in_force():
            return None
        shown = headers.get("authorization")
        if shown is None:
            raise Unauthorized(MISSING, challenge=self._challenged())
        principal = await self._bearer.of(shown)
        if principal is None:
            raise Unauthorized(WRONG, challenge=self._challenged(error="invalid_token"))
        own = await self._token_of(principal.agent) if self._token_of and principal.via == "oauth" else None
        if own is not None:
            if own.owner != principal.owner:
                raise Refused(
                    f"This server has an access token of its own for the agent {principal.agent}, which acts for "
                    "somebody else than your token says, and an agent acts for one owner. Nothing was changed; ask "
                    "whoever runs the server to revoke that token, or to take another claim for agents.",
                    agent=principal.agent,
                )
            principal = replace(principal, trust=own.trust)
        for header, name, whom in (
            (AGENT_HEADER, principal.agent, "is"),
            (OWNER_HEADER, principal.owner, "acts for"),
        ):
            if header in headers and agent_name(headers[header]) != name:
                raise Refused(
                    f"The access token says that the caller {whom} {name}, and {header.title()} says otherwise: "
                    "leave the header out; who speaks is decided by the token alone. Nothing was changed."
                )
        return principal

    def _challenged(self, **first: str) -> str:
        given = {"realm": "blackboard", **first, **self._challenge}
        return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in given.items())
