"""Settings of sign-in by an OAuth issuer: whose tokens are taken, for what, and whom their claims name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, field, fields
from typing import Any, Final
from urllib.parse import urlsplit

from blackboard_mcp.protocols.access import Role, Scope, Trust
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.values import dataclass

from ..access.identity import is_loopback

ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
"""Signatures that may be allowed: those of a key pair, so that who checks a token could not have made it."""
TOKEN_TYPES: Final = ("at+jwt", "jwt")

MEANINGS: Final[Mapping[str, str]] = {
    "issuer": "address of the issuer, exactly as its tokens say in `iss`",
    "resource": "address of the MCP endpoint, exactly as clients use it; tokens must name it in `aud`",
    "jwks_url": "address of the issuer's keys; without it the issuer's metadata names it",
    "algorithms": f"signatures that are taken, of {', '.join(ALGORITHMS)}",
    "token_types": 'the `typ` that tokens may have, in lower case; `""` for tokens without one',
    "agent_claim": "claim that names the agent; one that the issuer gives to one agent only",
    "owner_claim": "claim that names whom the agent acts for",
    "scope_claim": 'claim with the scopes, a text or a list; `""`: tokens are not bound by scopes',
    "scopes": 'the issuer\'s names of our scopes, where they differ: `{"board:read" = "boards.read"}`',
    "roles_claim": 'claim with roles; dots lead into objects; `""`: everybody has `default_role`',
    "roles": "roles by the values of that claim; without it the values are our roles",
    "default_role": 'the role of tokens that name none; `""`: such tokens reach no board',
    "boards_claim": 'claim with the boards that a token reaches, a list, or an object of roles by board; `""`: all',
    "trust": f"how far what comes with such tokens is relied on: {', '.join(Trust)}",
    "leeway_seconds": "how far the issuer's clock may be off, 0 to 300",
}
"""What each setting says."""

_CLAIM = re.compile(r"[!-~]{0,128}")
_SCOPE = re.compile(r"[!#-\[\]-~]{1,200}")
_ROLES: Final = tuple(role.value for role in Role)


@dataclass(frozen=True, slots=True)
class OAuthSettings:
    """Which tokens of which issuer are taken, and whom they name; `MEANINGS` says what each field is."""

    issuer: str
    resource: str
    jwks_url: str = ""
    algorithms: tuple[str, ...] = ALGORITHMS
    token_types: tuple[str, ...] = TOKEN_TYPES
    agent_claim: str = "sub"
    owner_claim: str = "sub"
    scope_claim: str = "scope"
    scopes: Mapping[str, str] = field(default_factory=dict)
    roles_claim: str = ""
    roles: Mapping[str, str] = field(default_factory=dict)
    default_role: str = Role.CONTRIBUTOR.value
    boards_claim: str = ""
    trust: str = "normal"
    leeway_seconds: int = 30

    def issued_as(self, scope: Scope) -> str:
        """The issuer's name of one of our scopes."""
        return self.scopes.get(scope.value, scope.value)


def oauth_settings(table: Mapping[str, Any], where: str) -> OAuthSettings:
    """The settings of a table; `where` names it in errors.

    Raises:
        InvalidInput: an unknown name, one that is missing, or a wrong value.
    """
    known = {f.name: f for f in fields(OAuthSettings)}
    for name in table:
        if name not in known:
            raise InvalidInput(f"Unknown setting '{name}' in {where}; there are: {', '.join(known)}.")
    for name, described in known.items():
        optional = described.default is not MISSING or described.default_factory is not MISSING
        if not optional and name not in table:
            raise InvalidInput(f"{where} needs '{name}': {MEANINGS[name]}.")
    return OAuthSettings(
        **{name: _checked(name, value, f"{name} in {where}") for name, value in table.items()}
    )


def check_address(value: Any, where: str) -> str:
    """An https address, or an http one on this machine; without user, query and fragment.

    Raises:
        InvalidInput: it is none.
    """
    text = value if isinstance(value, str) else ""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    plain = text.isascii() and text.isprintable() and not set(text) & set(' "\\<>#?@')
    if not (plain and parts.scheme in ("http", "https") and parts.hostname and len(text) <= 1_000):
        raise InvalidInput(f"{where} must be an https address without user, query and fragment.")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise InvalidInput(f"{where} must be https: who listens in on http could sign in as anybody.")
    return text


def _checked(name: str, value: Any, where: str) -> Any:
    if name in ("issuer", "resource") or (name == "jwks_url" and value):
        return check_address(value, where)
    if name == "algorithms":
        return _listed(value, where, ALGORITHMS)
    if name == "token_types":
        return tuple(kind.lower() for kind in _listed(value, where))
    if name == "scopes":
        return _scopes(value, where)
    if name == "roles":
        return _roles(value, where)
    if name == "leeway_seconds":
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 300:
            raise InvalidInput(f"{where} is {value!r}; it must be a whole number from 0 to 300.")
        return value
    if not isinstance(value, str):
        raise InvalidInput(f"{where} is {value!r}; it must be a text.")
    if name == "trust" and value not in tuple(Trust):
        raise InvalidInput(f"{where} is {value!r}; it must be one of {', '.join(Trust)}.")
    if name == "default_role" and value not in ("", *_ROLES):
        raise InvalidInput(f"{where} is {value!r}; it must be one of {', '.join(_ROLES)}, or empty.")
    if not _CLAIM.fullmatch(value) or (name in ("agent_claim", "owner_claim") and not value):
        raise InvalidInput(f"{where} is {value!r}; it must be the name of a claim.")
    return value


def _listed(value: Any, where: str, allowed: tuple[str, ...] = ()) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not value or not all(isinstance(v, str) for v in value):
        raise InvalidInput(f"{where} must be a list of texts.")
    wrong = [v for v in value if allowed and v not in allowed]
    if wrong:
        raise InvalidInput(f"{where} names {wrong[0]!r}; there are: {', '.join(allowed)}.")
    return tuple(value)


def _scopes(value: Any, where: str) -> dict[str, str]:
    ours = [scope.value for scope in Scope]
    if not isinstance(value, dict):
        raise InvalidInput(
            f"{where} must be an object of the issuer's names by our scope: {', '.join(ours)}."
        )
    for scope, name in value.items():
        if scope not in ours:
            raise InvalidInput(f"{where} names {scope!r}; our scopes are {', '.join(ours)}.")
        if not isinstance(name, str) or not _SCOPE.fullmatch(name):
            raise InvalidInput(
                f"{where} has {name!r} for {scope}; a scope is printable ASCII without spaces."
            )
    return dict(value)


def _roles(value: Any, where: str) -> dict[str, str]:
    if not isinstance(value, dict) or not all(role in _ROLES for role in value.values()):
        raise InvalidInput(f"{where} must be an object of roles by value; roles are {', '.join(_ROLES)}.")
    return dict(value)
