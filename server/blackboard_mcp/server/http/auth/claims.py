"""Claims of a token: the agent that they name, and the roles and scopes that they grant."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from blackboard_mcp.protocols.access import ALL_SCOPES, EVERY_BOARD, Principal, Role, Scope, Trust
from blackboard_mcp.protocols.errors import InvalidInput

from ...input.posts import check_agent, check_board
from ...settings.oauth import OAuthSettings

MAX_BOARDS: Final = 1_000
MAX_CLAIM_CHARS: Final = 1_000
_OTHER: Final = re.compile(r"[^A-Za-z0-9._@-]+")
_DERIVED: Final = re.compile(r".*\.[0-9a-f]{16}")
_RANKED: Final = tuple(Role)


class UnfitClaims(Exception):
    """Raised with the reason why a token is refused."""


def principal_of(
    claims: Mapping[str, Any], settings: OAuthSettings, *, credential: str, expires_at: datetime
) -> Principal:
    """Returns the principal of a token whose signature and times have been checked.

    Raises:
        UnfitClaims: it names no agent or owner, or too many boards.
    """
    return Principal(
        agent=name_of(_claim(claims, settings.agent_claim)),
        owner=name_of(_claim(claims, settings.owner_claim)),
        roles=_roles(claims, settings),
        scopes=_scopes(claims, settings),
        via="oauth",
        credential=credential,
        expires_at=expires_at,
        trust=Trust(settings.trust),
    )


def name_of(value: Any) -> str:
    """Returns the name of an agent or owner for an issuer's subject: the subject itself if it is a valid name.

    Otherwise the name is made of the subject's allowed characters and a part of its hash, so that two
    subjects never get the same name. A subject that looks like such a name gets a hash too, so that nobody
    can choose another's name.

    Raises:
        UnfitClaims: the subject is no text, empty or too long.
    """
    if not isinstance(value, str) or not 0 < len(value) <= MAX_CLAIM_CHARS:
        raise UnfitClaims("it names nobody")
    try:
        # An issuer may tell two Unicode forms of one text apart: only the composed form is taken as a name.
        if not _DERIVED.fullmatch(value) and check_agent(value) == value:
            return value
    except InvalidInput:
        pass
    plain = _OTHER.sub("-", value).strip("-.")[:40].rstrip("-.") or "agent"
    return check_agent(f"{plain}.{hashlib.sha256(value.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}")


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """Returns a claim by its name, or by a path of names joined by dots; `None` if it is missing."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _scopes(claims: Mapping[str, Any], settings: OAuthSettings) -> frozenset[Scope]:
    if not settings.scope_claim:
        return ALL_SCOPES
    granted = set(_texts(_claim(claims, settings.scope_claim)))
    return frozenset(scope for scope in Scope if settings.issued_as(scope) in granted)


def _roles(claims: Mapping[str, Any], settings: OAuthSettings) -> dict[str, Role]:
    claimed = _texts(_claim(claims, settings.roles_claim)) if settings.roles_claim else []
    known = [role for value in claimed if (role := _role(value, settings)) is not None]
    default = Role(settings.default_role) if settings.default_role else None
    role = max(known, key=_RANKED.index) if known else default
    if not settings.boards_claim:
        return {} if role is None else {EVERY_BOARD: role}
    boards = _claim(claims, settings.boards_claim)
    if isinstance(boards, Mapping):
        by_board = {_board(board): _role(value, settings) for board, value in _few(boards.items())}
    else:
        by_board = {_board(board): role for board in _few(_texts(boards))}
    return {board: given for board, given in by_board.items() if board and given is not None}


def _role(value: Any, settings: OAuthSettings) -> Role | None:
    if not isinstance(value, str):
        return None
    name = settings.roles.get(value, "") if settings.roles else value
    return Role(name) if name in _RANKED else None


def _board(name: Any) -> str:
    """Returns the board's id or `*`, or "" if the name is not valid."""
    if name == EVERY_BOARD:
        return EVERY_BOARD
    try:
        return check_board(name) if isinstance(name, str) else ""
    except InvalidInput:
        return ""


def _texts(value: Any) -> list[str]:
    """Returns the texts in a claim: those of a list, or the words of one text; empty for any other value."""
    if isinstance(value, str):
        return value.split()
    if isinstance(value, list):
        return [text for text in value if isinstance(text, str)]
    return []


def _few(values: Iterable[Any]) -> list[Any]:
    listed = list(values)
    if len(listed) > MAX_BOARDS:
        raise UnfitClaims(f"it names over {MAX_BOARDS} boards")
    return listed
