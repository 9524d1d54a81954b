"""A real server in a process of its own, and real clients of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from blackboard_mcp.protocols.errors import StoreError
from blackboard_mcp.protocols.values import dataclass
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from ..access.identity import name_header
from ..settings.server import PREFIX

START_SECONDS = 60.0
STOP_SECONDS = 10.0
MODERN = "2026-07-28"
_READY = "blackboard-mcp serves "

Connect = Callable[[str], AbstractAsyncContextManager[Client]]
"""Returns a context that connects as the agent of this name and yields its client."""


def command(*words: str) -> list[str]:
    """Returns the command line that runs these words with this very installation."""
    return [sys.executable, "-m", "blackboard_mcp.server", *words]


def environment() -> dict[str, str]:
    """Returns this process's environment without variables that set the server's settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}


@dataclass(frozen=True, slots=True)
class Serving:
    """A server process that is ready: the URL of its MCP endpoint, and its process id."""

    url: str
    pid: int


@asynccontextmanager
async def http_server(data: Path, *options: str) -> AsyncIterator[Serving]:
    """Runs `serve --transport http` on a free port over a data folder, until the context is left.

    Raises:
        StoreError: the server did not start; the message has its last line of output.
    """
    process = await asyncio.create_subprocess_exec(
        *command("serve", "--transport", "http", "--port", "0", "--data", str(data), *options),
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=environment(),
    )
    said: deque[str] = deque(maxlen=20)
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    reading = asyncio.create_task(_read(process, said, ready))
    try:
        either: list[asyncio.Future[Any]] = [ready, reading]
        await asyncio.wait(either, timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            last = said[-1] if said else "it said nothing"
            raise StoreError(f"The server did not start: {last}")
        yield Serving(ready.result(), process.pid)
    finally:
        if not reading.done():  # the process still holds the pipe open, so it is running
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        # What the server began may outlive it for a moment, and holds the pipe open meanwhile.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await reading


async def _read(process: asyncio.subprocess.Process, said: deque[str], ready: asyncio.Future[str]) -> None:
    assert process.stderr is not None
    async for line in process.stderr:
        text = line.decode(errors="replace").rstrip()
        if text.startswith(_READY) and not ready.done():
            ready.set_result(text.removeprefix(_READY))
        elif text:
            said.append(text)


def http_clients(url: str, *, mode: str = MODERN) -> Connect:
    """Returns a function that connects an agent over HTTP, with its name in a header of every request."""

    @asynccontextmanager
    async def connect(agent: str) -> AsyncIterator[Client]:
        headers = {"X-Blackboard-Agent": name_header(agent)}
        # The server is on this machine and has no TLS, so loading certificates is turned off.
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60, verify=False, trust_env=False) as http,
            plainly(Client(streamable_http_client(url, http_client=http), mode=mode)) as client,
        ):
            yield client

    return connect


@asynccontextmanager
async def plainly(client: Client) -> AsyncIterator[Client]:
    """Connects a client; an error in the context is raised as it is, not inside exception groups."""
    failure: Exception | None = None
    async with client:
        try:
            yield client
        except Exception as error:
            failure = error
    if failure is not None:
        raise failure


def stdio_clients(data: Path, *options: str, mode: str = MODERN) -> Connect:
    """Returns a function that starts a server over stdio for each agent, all on one data folder."""

    @asynccontextmanager
    async def connect(agent: str) -> AsyncIterator[Client]:
        words = command("serve", "--transport", "stdio", "--data", str(data), "--agent", agent, *options)
        program = StdioServerParameters(command=words[0], args=words[1:], env=environment())
        async with plainly(Client(stdio_client(program), mode=mode)) as client:
            yield client

    return connect
