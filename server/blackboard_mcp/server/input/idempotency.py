"""Idempotency keys as callers give them, and what each stands for."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from blackboard_mcp.protocols.answers import (
    Once,
)
from blackboard_mcp.protocols.errors import InvalidInput

from .posts import check_text

MAX_ONCE_KEY = 200


def check_once_key(key: object) -> str:
    """`key` itself when it can be an idempotency key.

    Raises:
        InvalidInput: no text, or of no or too many characters.
    """
    if not isinstance(key, str) or not 0 < len(key) <= MAX_ONCE_KEY:
        raise InvalidInput(
            f"An idempotency key is a text of 1 to {MAX_ONCE_KEY} characters, new for each thing to be done and "
            "the same when the call is repeated. Nothing was changed."
        )
    check_text(key)
    return key


def once_of(key: str | None, operation: str, /, **arguments: Any) -> Once | None:
    """The key with a digest of what it stands for; nothing without a key.

    `arguments` are JSON values and instants as the caller gave them, without the board, the caller and the
    key; `None` is as good as leaving one out.

    Raises:
        InvalidInput: the key is none.
    """
    if key is None:
        return None
    check_once_key(key)
    given = {name: value for name, value in arguments.items() if value is not None}
    body = json.dumps({"operation": operation, "arguments": given}, sort_keys=True, default=str)
    return Once(key, hashlib.sha256(body.encode()).hexdigest())
