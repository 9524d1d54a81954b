"""Idempotency keys of callers, and the digests of the calls that they stand for."""

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
    """Returns `key` when it is a valid idempotency key.

    Raises:
        InvalidInput: it is no text, is empty, or is too long.
    """
    if not isinstance(key, str) or not 0 < len(key) <= MAX_ONCE_KEY:
        raise InvalidInput(
            f"An idempotency key is a text of 1 to {MAX_ONCE_KEY} characters, new for each thing to be done and "
            "the same when the call is repeated. Nothing was changed."
        )
    check_text(key)
    return key


def once_of(key: str | None, operation: str, /, **arguments: Any) -> Once | None:
    """Returns the key with a digest of the operation and its arguments; `None` without a key.

    `arguments` are JSON values and instants as the caller gave them, without the board, the caller and the
    key. An argument that is `None` counts as left out.

    Raises:
        InvalidInput: the key is not valid.
    """
    if key is None:
        return None
    check_once_key(key)
    given = {name: value for name, value in arguments.items() if value is not None}
    body = json.dumps({"operation": operation, "arguments": given}, sort_keys=True, default=str)
    return Once(key, hashlib.sha256(body.encode()).hexdigest())
