"""Access tokens of the installation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from blackboard_mcp.protocols.access import Role, Scope, Trust
from blackboard_mcp.protocols.credentials import ENDING_SECONDS, AccessToken
from blackboard_mcp.protocols.errors import Conflict, Refused, UnknownReference

from ...operation import Write
from ..ledger.principals import set_owner
from ..ledger.rows import Steps, dumps, instant, micros, sql


def any_() -> Steps[bool]:
    """Tells whether the installation ever had an access token."""
    return bool((yield sql("token_any"), ())[0][0])


def add(write: Write, token: AccessToken) -> Steps[None]:
    """Stores a token, and records the owner for whom its agent acts.

    Raises:
        Conflict: there is a token with this id.
        Refused: another token of the agent names another owner or another trust, and is valid, or ended so lately that
            calls made with it may go on.
    """
    if (yield from find(token.id)) is not None:
        raise Conflict(f"There is a token {token.id} already. Nothing was changed.")
    since = write.now - ENDING_SECONDS * 1_000_000
    for statement, value, has, why in (
        ("token_owner_other", token.owner, "act for", "an agent acts for one owner: name"),
        ("token_trust_other", token.trust.value, "relied on as", "what an agent posts is kept with one: say"),
    ):
        others = yield sql(statement), (token.agent, value, since)
        if not others:
            continue
        other, theirs, ends = others[0]
        if ends is not None and ends <= write.now:
            raise Refused(
                f"Token {other} had {token.agent} {has} {theirs} until a moment ago, and calls made with it may go on "
                f"for {ENDING_SECONDS} seconds. Nothing was changed; make this token after that."
            )
        raise Refused(
            f"Token {other} has {token.agent} {has} {theirs}, and {why} {theirs} again, give the new token another "
            f"agent, or revoke {other} first. Nothing was changed."
        )
    yield from _insert(token)
    yield from set_owner(write, token.agent, token.owner)


def keep(write: Write, tokens: Sequence[AccessToken]) -> Steps[None]:
    """Stores those of the tokens that are missing, and updates when the others were revoked and last used."""
    for token in tokens:
        if (yield from find(token.id)) is None:
            yield from _insert(token)
            if token.revoked_at is None:
                yield from set_owner(write, token.agent, token.owner)
        if token.revoked_at is not None:
            yield sql("token_revoke"), (token.id, micros(token.revoked_at))
        if token.used_at is not None:
            yield sql("token_used"), (token.id, micros(token.used_at))


def _insert(token: AccessToken) -> Steps[None]:
    """Stores a token."""
    expires = None if token.expires_at is None else micros(token.expires_at)
    roles = dumps({board: role.value for board, role in sorted(token.roles.items())})
    scopes = dumps(sorted(token.scopes))
    yield (
        sql("token_add"),
        (
            *(token.id, token.digest, token.agent, token.owner, roles, scopes, token.trust.value),
            *(micros(token.created_at), expires),
        ),
    )


def find(id_: str) -> Steps[AccessToken | None]:
    """Returns the token with this id, or `None`."""
    rows = yield sql("token"), (id_,)
    return _token(rows[0]) if rows else None


def of_agent(now: int, agent: str) -> Steps[AccessToken | None]:
    """Returns a token of the agent that counts now, or `None`; all of them name one owner and one trust."""
    rows = yield sql("token_of_agent"), (agent, now)
    return _token(rows[0]) if rows else None


def all_() -> Steps[list[AccessToken]]:
    """Returns all tokens, revoked and expired ones included."""
    return [_token(row) for row in (yield sql("tokens"), ())]


def revoke(write: Write, id_: str) -> Steps[AccessToken]:
    """Revokes the token from now on, and returns it.

    Raises:
        UnknownReference: there is no such token.
    """
    yield sql("token_revoke"), (id_, write.now)
    token = yield from find(id_)
    if token is None:
        raise UnknownReference(f"There is no token {id_[:64]!a:.100}. Nothing was changed.")
    return token


def used(write: Write, at: Mapping[str, datetime]) -> Steps[None]:
    """Records when tokens were last used; `at` maps ids to times."""
    for id_, when in at.items():
        yield sql("token_used"), (id_, micros(when))


def _token(row: tuple[Any, ...]) -> AccessToken:
    """Makes a token from its row."""
    id_, digest, agent, owner, roles, scopes, trust, created, expires, revoked, used_ = row
    return AccessToken(
        id=id_,
        digest=digest,
        agent=agent,
        owner=owner,
        roles={board: Role(role) for board, role in json.loads(roles).items()},
        scopes=frozenset(Scope(scope) for scope in json.loads(scopes)),
        trust=Trust(trust),
        created_at=instant(created),
        expires_at=None if expires is None else instant(expires),
        revoked_at=None if revoked is None else instant(revoked),
        used_at=None if used_ is None else instant(used_),
    )
