"""Metadata for clients without a valid token: the issuer to ask, and the scopes.

The metadata of [RFC 9728](https://www.rfc-editor.org/rfc/rfc9728) is served at its well-known addresses, and
the challenges of [RFC 6750](https://www.rfc-editor.org/rfc/rfc6750) point to it. Requests for it pass the
gate's exact checks of hosts and origins like all others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from blackboard_mcp.protocols.access import Scope
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ...settings.oauth import OAuthSettings

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
USUAL: Final = (Scope.READ, Scope.POST, Scope.ACKNOWLEDGE)
"""The scopes that a contributor needs; a client is told to ask for them first."""


class ProtectedResource:
    """This server as a protected resource of one OAuth issuer."""

    def __init__(self, settings: OAuthSettings) -> None:
        self._settings = settings
        parts = urlsplit(settings.resource)
        self._path = WELL_KNOWN + parts.path.rstrip("/")
        self.metadata_url = f"{parts.scheme}://{parts.netloc}{self._path}"
        self.paths = tuple(dict.fromkeys((self._path, WELL_KNOWN)))
        """The paths of the metadata, open to everybody: clients read it before they have a token."""

    def routes(self) -> list[Route]:
        """Returns the routes of the metadata.

        One is derived from the resource's path; the other, at the root, is for older clients.
        """
        # Not the SDK's routes: they normalise addresses, and an issuer is compared letter by letter.
        body = {
            "resource": self._settings.resource,
            "authorization_servers": [self._settings.issuer],
            "scopes_supported": [self._settings.issued_as(scope) for scope in Scope],
            "bearer_methods_supported": ["header"],
            "resource_name": "blackboard-mcp",
        }

        async def metadata(request: Request) -> Response:
            return JSONResponse(body, headers={"cache-control": "max-age=3600"})

        return [Route(path, metadata, methods=["GET"]) for path in self.paths]

    def issued_as(self, scope: Scope) -> str:
        """Returns the issuer's name of one of our scopes."""
        return self._settings.issued_as(scope)

    @property
    def challenge(self) -> dict[str, str]:
        """The further parameters of a 401's `WWW-Authenticate`, by name."""
        return {"resource_metadata": self.metadata_url, "scope": self._named(USUAL)}

    def insufficient(self, scopes: Iterable[Scope]) -> str:
        """Returns the `WWW-Authenticate` of a 403: the token is valid, but needs these scopes."""
        return (
            f'Bearer error="insufficient_scope", resource_metadata="{self.metadata_url}", '
            f'scope="{self._named(scopes)}"'
        )

    def _named(self, scopes: Iterable[Scope]) -> str:
        return " ".join(map(self.issued_as, scopes))
