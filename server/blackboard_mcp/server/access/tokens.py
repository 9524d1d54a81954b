"""Access tokens as text: creation, parsing and recognition.

A token is `bbt_<id>_<secret>`: the id is public, the secret is 32 random bytes in base64url, known only to
its holder.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from blackboard_mcp.protocols.access import ALL_SCOPES, Role, Scope, Trust
from blackboard_mcp.protocols.credentials import AccessToken

PREFIX: Final = "bbt_"
_SECRET_BYTES: Final = 32
_ID_BYTES: Final = 6
_TEXT: Final = re.compile(r"bbt_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


def new_access_token(
    *,
    agent: str,
    owner: str,
    roles: Mapping[str, Role],
    now: datetime,
    scopes: frozenset[Scope] = ALL_SCOPES,
    trust: Trust = Trust.NORMAL,
    expires_at: datetime | None = None,
) -> tuple[AccessToken, str]:
    """Returns a new token's record to store, and its text.

    The text cannot be restored from the record, which holds only a digest of the secret.
    """
    secret = secrets.token_bytes(_SECRET_BYTES)
    token = AccessToken(
        id=secrets.token_hex(_ID_BYTES),
        digest=hashlib.sha256(secret).digest(),
        agent=agent,
        owner=owner,
        roles=dict(roles),
        scopes=scopes,
        trust=trust,
        created_at=now,
        expires_at=expires_at,
    )
    return token, f"{PREFIX}{token.id}_{_text_of(secret)}"


def read_access_token(text: str) -> tuple[str, bytes] | None:
    """Returns the id and the SHA-256 digest of the secret in a token's text, or `None` for a text that is no
    token.
    """
    parts = _TEXT.fullmatch(text)
    if parts is None:
        return None
    secret = base64.urlsafe_b64decode(parts[2] + "=")
    if _text_of(secret) != parts[2]:
        return None  # two bits of the last character are unused, so other texts decode to the same secret
    return parts[1], hashlib.sha256(secret).digest()


def _text_of(secret: bytes) -> str:
    return base64.urlsafe_b64encode(secret).decode().rstrip("=")
