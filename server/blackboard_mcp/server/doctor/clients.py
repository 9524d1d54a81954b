"""Checks of our entries in clients' files: each must list tools when started as its client would."""

from __future__ import annotations

import asyncio
import shlex
import tempfile
from collections.abc import AsyncIterator
from typing import Final, TextIO
from urllib.parse import urlsplit

from ..clients.entries import Entry, Unreadable, entries, resolved
from .findings import Finding, warning

PATIENCE: Final = 20.0
"""The seconds within which an entry must answer."""


async def look() -> AsyncIterator[Finding]:
    """Yields what is wrong with our entries in clients' files, installed or written by hand."""
    found = await asyncio.to_thread(lambda: list(entries()))
    readable = [one for one in found if isinstance(one, Entry)]
    for one in found:
        if isinstance(one, Unreadable):
            yield warning(
                "client-file-unreadable",
                f"{one.client.title} cannot read its file {one.file}: {one.why}",
                "Correct it in an editor, or put a backup in its place.",
                client=one.client.name,
                file=str(one.file),
            )
    for entry, why in zip(readable, await asyncio.gather(*map(_silence, readable)), strict=True):
        if why:
            client, file = entry.client, entry.file
            cure = f"Run it by hand, it says more: {shlex.join(entry.command)}"
            if entry.url:
                cure = f"Start the server at {entry.url}, or correct the entry."
            where = "" if file == client.user_file() else f" --file {shlex.quote(str(file))}"
            yield warning(
                "client-not-connecting",
                f"{client.title} gets nothing from '{entry.name}' in {file}: {why}.",
                f"{cure}\n  Or take it out: blackboard-mcp uninstall {client.name}{where}",
                client=client.name,
                file=str(file),
                entry=entry.name,
            )


async def _silence(entry: Entry) -> str:
    """Returns why an entry does not work, or "" if it lists tools."""
    headers, missing = {}, []
    for name, value in entry.headers.items():
        headers[name], unset = resolved(value)
        missing += unset
    if any(name.startswith("input:") for name in missing):
        return ""  # only the client can ask the person for it
    if missing:
        return (
            f"it needs {' and '.join(missing)} in its environment, which is not set here, so it was not tried"
        )
    for part in entry.command:
        if part.startswith(("http://", "https://")) and await _refuses(part):
            # A relay would wait for the server to start.
            return f"no blackboard server answers at {part}"
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        try:
            async with asyncio.timeout(PATIENCE):
                return "" if await _tools(entry, headers, log) else "it lists no tools"
        except TimeoutError:
            return f"it did not answer within {PATIENCE:g} s"
        except Exception as error:
            if isinstance(_first(error), FileNotFoundError):
                return f"{entry.command[0]} is not there"
            log.seek(0)
            said = log.read().strip().splitlines()
            return said[-1] if said else str(_first(error)) or type(error).__name__


async def _refuses(url: str) -> bool:
    """Tells whether the machine of a URL is there and refuses connections to its port."""
    try:
        address = urlsplit(url)
        port = address.port or (443 if address.scheme == "https" else 80)
        async with asyncio.timeout(PATIENCE):
            _, writer = await asyncio.open_connection(address.hostname, port)
    except ConnectionRefusedError:
        return True
    except (OSError, ValueError):
        return False
    writer.close()
    return False


async def _tools(entry: Entry, headers: dict[str, str], log: TextIO) -> int:
    """Returns the number of tools that the entry's server lists. `log` takes the server's standard error."""
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    from ..board.client import over_http

    if entry.url:
        async with over_http(entry.url, headers, "legacy")() as client:
            return len((await client.list_tools()).tools)
    variables = {name: resolved(value)[0] for name, value in entry.variables.items()}
    program = StdioServerParameters(command=entry.command[0], args=entry.command[1:], env=variables)
    async with Client(stdio_client(program, errlog=log), mode="legacy") as client:
        return len((await client.list_tools()).tools)


def _first(error: BaseException) -> BaseException:
    """Returns the first error inside nested exception groups, or the error itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
