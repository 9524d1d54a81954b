"""How clients say who they are: names in headers on a server without tokens, and a bearer token with care."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from blackboard_mcp.protocols.errors import InvalidInput

AGENT_HEADER: Final = "x-blackboard-agent"
OWNER_HEADER: Final = "x-blackboard-owner"
PRINCIPAL_SCOPE_KEY: Final = "blackboard.principal"
"""Where a request's ASGI scope has its `Principal`, once the request is identified."""
CHALLENGE_SCOPE_KEY: Final = "blackboard.challenge"
"""Where the scope of a request that a page refuses has the challenge to answer with."""
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


def untrusted(why: str) -> str:
    """What to do when a connection failed because its certificate is nobody's that is trusted; else empty."""
    if "CERTIFICATE_VERIFY_FAILED" not in why:
        return ""
    return "; if the server's certificate is by an authority of your own, name its file in SSL_CERT_FILE"


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


def check_bearer(url: str, token: str) -> None:
    """See that a client may send a bearer token to an address.

    Raises:
        InvalidInput: others could read it on its way, or it has characters that no token has.
    """
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise InvalidInput("BLACKBOARD_TOKEN has characters that no token has.")
    parts = urlsplit(url)
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise InvalidInput(
            f"The token would go over the network in the clear: {parts.hostname} is not this machine, so its URL must "
            "begin with https:. Nothing was sent."
        )


def is_loopback(host: str) -> bool:
    """Whether the address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
