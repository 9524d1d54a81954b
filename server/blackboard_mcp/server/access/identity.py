"""Identity as clients state it: headers with names for servers without tokens, and checks of bearer tokens."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote, urlsplit

from ...protocols.errors import InvalidInput
from ...protocols.names import check_name

if TYPE_CHECKING:
    from pathlib import Path

_ADDRESS: Final = re.compile(r"[\x21-\x7e]+")
AGENT_HEADER: Final = "x-blackboard-agent"
OWNER_HEADER: Final = "x-blackboard-owner"
PRINCIPAL_SCOPE_KEY: Final = "blackboard.principal"
"""Key of the ASGI scope under which an identified request's `Principal` is stored."""
CHALLENGE_SCOPE_KEY: Final = "blackboard.challenge"
"""Key of the ASGI scope under which a page that refuses a request stores the challenge to answer with."""


def agent_from_headers(headers: Mapping[str, str]) -> str:
    """Returns the agent's name from the header `x-blackboard-agent`.

    `headers` maps lower-case header names to values.

    Raises:
        InvalidInput: the header is missing, or its value is not a valid name.
    """
    name = headers.get(AGENT_HEADER)
    if name is None:
        raise InvalidInput(
            "the request names no agent: send the header X-Blackboard-Agent with your agent's name "
            "(letters, digits 0-9 . _ @ -; beyond ASCII as percent-encoded UTF-8) on every request"
        )
    return agent_name(name)


def how_to_reach(why: str) -> str:
    """Returns advice for a failed connection, beginning with `; `, or an empty text where none is known.

    `why` is the text of the error: the advice is chosen by words in it, such as "refused".
    """
    return next((f"; {step}" for sign, step in _STEPS if sign in why), "")


_NO_HOST: Final = "no computer of that name is known here: look at the name in the address"
_NOBODY: Final = (
    "look at host and port of the address; a server is started by `blackboard-mcp serve --transport http`"
)
_TLS: Final = "if that port speaks TLS, try the address with https:// in the place of http://"
_STEPS: Final = (
    (
        "CERTIFICATE_VERIFY_FAILED",
        "if the server's certificate is by an authority of your own, name its file in SSL_CERT_FILE",
    ),
    (
        "WRONG_VERSION_NUMBER",
        "that port speaks no TLS: try the address with http:// in the place of https://",
    ),
    ("disconnected without sending a response", _TLS),
    ("ReadError", _TLS),  # the same, where the connection was reset
    ("Not Found", "the address of a board server ends in /mcp, say http://127.0.0.1:8420/mcp"),
    ("Name or service not known", _NO_HOST),  # Linux
    ("nodename nor servname", _NO_HOST),  # macOS
    ("getaddrinfo failed", _NO_HOST),  # Windows
    ("All connection attempts failed", _NOBODY),
    ("refused", _NOBODY),
    ("ConnectTimeout", _NOBODY),
)
"""Pairs of a part of an error's text and the advice for that error."""


def agent_name(name: str) -> str:
    """Returns the name that a header value holds, with percent-encoded UTF-8 decoded.

    Raises:
        InvalidInput: the value is not a valid name, not ASCII, or not percent-encoded UTF-8.
    """
    if not name.isascii():
        raise InvalidInput(
            f"{name[:64]!a:.100} is not an agent's name as a header holds it: send letters beyond ASCII as "
            f"percent-encoded UTF-8, {_as_meant(name)}"
        )
    try:
        return check_name(unquote(name, errors="strict"))
    except UnicodeDecodeError:
        raise InvalidInput(
            f"{name[:64]!a:.100} is not an agent's name in percent-encoded UTF-8, as {name_header('jürgen')} is"
        ) from None


def name_header(name: str) -> str:
    """Returns a name in the form that a header value takes: percent-encoded UTF-8."""
    return quote(name, safe="@")


def _as_meant(name: str) -> str:
    """Returns advice on how to send a name that came as raw bytes instead of percent-encoded."""
    try:
        meant = check_name(name.encode("latin-1").decode())
    except (InvalidInput, UnicodeError):
        return f"as in {name_header('jürgen')} for jürgen"
    return f"here {name_header(meant)}"


def server_url(url: str) -> str:
    """Returns the address of a server's MCP endpoint, with the path `/mcp` added where `url` has none.

    Raises:
        InvalidInput: `url` is no HTTP address, or holds a password, which would be shown and stored.
    """
    try:
        parts = urlsplit(url)
        right = parts.port != 0 and parts.scheme in ("http", "https") and parts.hostname
    except ValueError:
        right = False
    if not right or "@" in parts.netloc or not _ADDRESS.fullmatch(url):
        shown = "This" if "@" in url else repr(url)
        raise InvalidInput(
            f"{shown} is not the address of a server: write it like http://127.0.0.1:8420/mcp, in ASCII and without a "
            "password."
        )
    return parts._replace(path="/mcp").geturl() if parts.path in ("", "/") else url


def check_bearer(url: str, token: str) -> None:
    """Checks that a client may send a bearer token to an address.

    Raises:
        InvalidInput: others could read the token on its way, or it has characters that no token has.
    """
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise InvalidInput("BLACKBOARD_TOKEN has characters that no token has.")
    parts = urlsplit(url)
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise InvalidInput(
            f"The token would go over the network in the clear: {parts.hostname} is not this machine, so its URL must "
            "begin with https:. Nothing was sent."
        )


def read_token(file: Path) -> str:
    """Returns the token in a file, without the space around it.

    Raises:
        InvalidInput: the file cannot be read, other users can read it, or it is empty.
    """
    try:
        mode = file.stat().st_mode
        token = file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"The token file {file} cannot be read: {error}.") from None
    if os.name == "posix" and mode & 0o077:
        raise InvalidInput(
            f"Others on this machine can read the token file {file}: close it with chmod 600 '{file}'"
        )
    if not token:
        raise InvalidInput(f"The token file {file} is empty: write the token into it.")
    return token


def is_loopback(host: str) -> bool:
    """Tells whether a host name or address can be reached only from this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
