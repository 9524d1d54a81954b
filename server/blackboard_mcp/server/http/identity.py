"""Names on a server without tokens: the headers `X-Blackboard-Agent` and, for whom it acts, `X-Blackboard-Owner`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from blackboard_mcp.protocols.errors import InvalidInput

AGENT_HEADER: Final = "x-blackboard-agent"
OWNER_HEADER: Final = "x-blackboard-owner"
PRINCIPAL_SCOPE_KEY: Final = "blackboard.principal"
"""Where a request's ASGI scope has its `Principal`, once the request is identified."""
_NAME: Final = re.compile(r"[A-Za-z0-9._@-]{1,64}")


def agent_from_headers(headers: Mapping[str, str]) -> str:
    """The name in the header; `headers` have lower-case names.

    Raises:
        InvalidInput: there is none, or it is not a name.
    """
    name = headers.get(AGENT_HEADER)
    if name is None:
        raise InvalidInput(
            "the request names no agent: send the header X-Blackboard-Agent with your agent's name "
            "(1-64 characters of A-Z a-z 0-9 . _ @ -) on every request"
        )
    return agent_name(name)


def agent_name(name: str) -> str:
    """The name, checked.

    Raises:
        InvalidInput: it is empty, longer than 64 characters or has others than A-Z a-z 0-9 . _ @ -
    """
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{name[:64]!a} is not an agent's name: use 1-64 characters of A-Z a-z 0-9 . _ @ -"
        )
    return name
