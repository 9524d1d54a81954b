"""Checks of a server's network: its port, and the endpoints of models."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

from blackboard_mcp.protocols.errors import InvalidInput

from ..settings.server import MODEL, Settings, check_embedder, check_endpoint
from .findings import Finding, problem, warning

PATIENCE = 3.0
"""The seconds within which an address must answer."""
_MOST = 65_536


async def look(settings: Settings) -> AsyncIterator[Finding]:
    """Yields what is wrong with the server's port and with the endpoints that the settings name."""
    if settings.transport == "http" and settings.port:
        async for finding in _port(settings):
            yield finding
    for check in (check_endpoint, check_embedder):
        try:
            check(settings)
        except InvalidInput as error:
            yield problem(
                "endpoint-settings", f"No server starts with these settings: {error.message}", "Change them."
            )
    for what, name, url in (
        ("summary", "summary_url", settings.summary_url),
        ("embedding", "embedding_url", settings.embedding_url),
    ):
        if url is not None and (why := await _silence(url)):
            yield warning(
                f"{what}-endpoint-silent",
                f"The {what} endpoint {url} {why}.",
                f"Start the model, or change {name}. Posts never wait for it: "
                + _meanwhile(what, settings)
                + " meanwhile.",
                url=url,
            )


def _meanwhile(what: str, settings: Settings) -> str:
    if what == "embedding":
        return "search is by words"
    patterns = ", and patterns alone propose rules from messages" if settings.capture == MODEL else ""
    return f"summaries are extractive{patterns}"


async def _port(settings: Settings) -> AsyncIterator[Finding]:
    host = "127.0.0.1" if settings.host in ("localhost", "0.0.0.0", "::") else settings.host.strip("[]")
    where = f"[{host}]" if ":" in host else host
    secure = settings.tls_cert is not None
    status, said = await ask(
        f"http{'s' if secure else ''}://{where}:{settings.port}/healthz",
        host=next(iter(settings.allowed_hosts), None),
        any_name=True,
    )
    try:
        health = json.loads(said).get("status") if said else None
    except (ValueError, AttributeError):
        health = None
    if health in ("failing", "slow"):
        yield problem(
            "server-not-ready",
            f"The server on port {settings.port} cannot serve: its health is '{health}'.",
            "Its log says why, and the other findings may; a damaged file needs a backup.",
            health=health,
        )
    elif health == "low":
        yield problem(
            "server-not-posting",
            f"The server on port {settings.port} refuses posts: its disk is nearly full.",
            "See storage-low; posts are taken again by themselves.",
            health=health,
        )
    elif health in ("full", "stopped", "unavailable"):
        yield problem(
            "server-not-writing",
            f"The server on port {settings.port} only reads: its health is '{health}'.",
            "See whether its database answers: it goes on by itself then."
            if health == "stopped" and settings.on_postgres
            else "Restart it: its disk failed while writing."
            if health == "stopped"
            else "See storage-full; then post again.",
            health=health,
        )
    elif status and health != "ok":
        who = _listener(settings.port)
        yield problem(
            "port-taken",
            f"Port {settings.port} is used by {who or 'another program'}, which is no blackboard.",
            "Stop it, or choose another with --port.",
            port=settings.port,
            by=who,
        )


async def _silence(url: str) -> str:
    """Returns why an endpoint does not work, or "" if it answers anything."""
    status, _ = await ask(url)
    if status < 0:
        return f"did not answer within {PATIENCE:g} s"
    return "" if status else "cannot be reached"


async def ask(url: str, *, host: str | None = None, any_name: bool = False) -> tuple[int, bytes]:
    """Sends a GET request, and returns the status and the beginning of the body.

    The status is 0 without a connection, -1 without an answer in time, and 1 if the answer is not HTTP.
    `host` replaces the URL's host in the request. With `any_name` every certificate is accepted: this
    machine's name may be in none.
    """
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection(
                parts.hostname, port, ssl=_context(any_name) if parts.scheme == "https" else None
            )
            try:
                asked = f"GET {parts.path or '/'} HTTP/1.1\r\nHost: {host or parts.netloc}\r\n"
                writer.write(f"{asked}Connection: close\r\n\r\n".encode())
                raw = b""
                while len(raw) < _MOST and (piece := await reader.read(_MOST)):
                    raw += piece
                    if b"\r\n\r\n" in raw and parts.path != "/healthz":
                        break
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
    except TimeoutError:
        return -1, b""
    except ssl.SSLError:
        return 1, b""
    except OSError:
        return 0, b""
    head, _, body = raw.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    known = words[0].startswith(b"HTTP/") and len(words) > 1 and words[1].isdigit()
    return (int(words[1]) if known else 1), body


def _context(any_name: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if any_name:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _listener(port: int) -> str:
    """Returns the program that listens on a port here, as "name (process 123)", or "" if it is not known."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == "0A" and int(words[1].rpartition(":")[2], 16) == port:
                    inodes.add(f"socket:[{words[9]}]")
    with contextlib.suppress(OSError):
        for process in filter(str.isdecimal, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                for handle in os.listdir(f"/proc/{process}/fd"):
                    if os.readlink(f"/proc/{process}/fd/{handle}") in inodes:
                        name = Path(f"/proc/{process}/comm").read_text().strip()
                        return f"{name} (process {process})"
    return ""
