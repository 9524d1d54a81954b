"""The listening socket of a server over HTTP, and the address that it is reached at."""

from __future__ import annotations

import contextlib
import errno
import socket
import sys

from blackboard_mcp.protocols.errors import InvalidInput


def listen(host: str, port: int) -> socket.socket:
    """Returns a listening socket; port 0 takes a free port.

    Raises:
        InvalidInput: the address cannot be bound.
    """
    bare = "127.0.0.1" if host == "localhost" else host.strip("[]")
    family = socket.AF_INET6 if ":" in bare else socket.AF_INET
    try:
        listener = socket.create_server((bare, port), family=family, backlog=1024)
    except (OSError, OverflowError) as exc:
        if isinstance(exc, OSError) and exc.errno == errno.EADDRNOTAVAIL:
            raise InvalidInput(f"{host} is no address of this machine; choose another with --host") from exc
        raise InvalidInput(f"cannot serve on {host} port {port}: {exc}; choose another with --port") from exc
    # Connections inherit this option. Without it asyncio's own loop delays the second part of an answer by 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def url_host(host: str) -> str:
    """Returns a host as it stands in a URL."""
    bare = host.strip("[]")
    return f"[{bare}]" if ":" in bare else bare


def base_url(host: str, port: int, *, tls: bool) -> str:
    """Returns the URL that a server is reached at, without a path."""
    return f"{'https' if tls else 'http'}://{url_host(host)}:{port}"


def say_ready(url: str) -> None:
    """Says on standard error that requests at `url` are answered."""
    # A log on a full disk must not end the server.
    with contextlib.suppress(OSError):
        # In one write: print takes two, and a line of the log may come between them.
        sys.stderr.write(f"blackboard-mcp serves {url}/mcp\n")
