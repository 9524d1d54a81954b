"""What `install` writes works: each client's file is read as the client reads it, and an agent posts through it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from blackboard_mcp.server.demo.process import Serving, command, environment, plainly
from homes import CLIENTS, KINDS, Home
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from patience import PATIENCE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="homes as they are on Linux")
OVER_HTTP = [client for client in CLIENTS if client != "claude-desktop"]
ASKED = {
    "claude-code": "${BLACKBOARD_TOKEN}",
    "cursor": "${env:BLACKBOARD_TOKEN}",
    "vscode": "${input:blackboard-token}",
    "gemini": "${BLACKBOARD_TOKEN}",
    "goose": "${BLACKBOARD_TOKEN}",
}
"""How each client's documentation names the variable, or VS Code's the question."""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.data = tmp_path / "own boards"
    home.environment["BLACKBOARD_DATA"] = str(home.data)
    return home


@asynccontextmanager
async def started(home: Home, client: str) -> AsyncIterator[Client]:
    """The client's program, started with little of an environment, from another folder."""
    kind, entry = KINDS[client], home.entry(client)
    program = StdioServerParameters(
        command=entry[kind.command],
        args=entry["args"],
        env={"HOME": str(home.folder), "PATH": "/nowhere"},
        cwd="/",
    )
    async with plainly(Client(stdio_client(program), mode="legacy")) as opened:
        yield opened


@asynccontextmanager
async def reached(home: Home, client: str, token: str = "") -> AsyncIterator[Client]:
    """The client's address, with the headers that its entry says."""
    kind, entry = KINDS[client], home.entry(client)
    headers = dict(entry.get(kind.headers, {}))
    if token:
        if client == "codex":
            assert entry["bearer_token_env_var"] == "BLACKBOARD_TOKEN"
            headers["Authorization"] = f"Bearer {token}"
        assert token not in home.file(client).read_text("utf-8")
        headers = {name: value.replace(ASKED.get(client, "none"), token) for name, value in headers.items()}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE, trust_env=False, verify=False) as http,
        plainly(Client(streamable_http_client(entry[kind.url], http_client=http), mode="legacy")) as opened,
    ):
        yield opened


async def works(opened: Client, author: str) -> None:
    """It lists tools, and what it posts is by its agent."""
    assert {"post", "read", "query", "wait"} <= {tool.name for tool in (await opened.list_tools()).tools}
    posted = await said(opened, "post", text=f"{author} was here")
    number = re.search(r"F-\d+", posted)
    assert number, posted
    assert re.search(rf"by (?:{author}|you)\b", await said(opened, "read", ids=[number[0]]))


async def said(opened: Client, tool: str, **arguments: Any) -> str:
    result = await opened.call_tool(tool, arguments)
    text = "".join(getattr(part, "text", "") for part in result.content)
    assert not result.is_error, text
    return text


@pytest.mark.parametrize("client", CLIENTS)
async def test_over_stdio_it_serves_the_folder_that_all_share(home: Home, client: str) -> None:
    home.have(client)
    home.do("install", client)
    async with started(home, client) as opened:
        await works(opened, client)
    shown = home.do("query")
    assert f"{client} was here" in shown


@pytest.mark.parametrize("client", ["claude-desktop", "codex", "goose"])
async def test_by_the_relay_it_reaches_the_server(home: Home, client: str, served: Serving) -> None:
    home.have(client)
    said = home.do(
        "install", client, "--url", served.url.removesuffix("/mcp"), "--relay", "--agent", f"by-{client}"
    )
    assert len(said.splitlines()) == 2
    async with started(home, client) as opened:
        await works(opened, f"by-{client}")


@pytest.mark.parametrize("client", OVER_HTTP)
async def test_over_http_it_reaches_the_server_by_itself(home: Home, client: str, served: Serving) -> None:
    home.have(client)
    home.do("install", client, "--url", served.url, "--agent", f"web-{client}")
    async with reached(home, client) as opened:
        await works(opened, f"web-{client}")


def test_claude_desktop_gets_the_relay_where_a_url_is_named_and_it_says_why(
    home: Home, served: Serving
) -> None:
    home.have("claude-desktop")
    said = home.do("install", "claude-desktop", "--url", served.url)
    assert home.entry("claude-desktop")["args"][2:] == ["connect", served.url, "--agent", "claude-desktop"]
    assert "only starts programs" in said


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, start: Callable[..., Serving]) -> tuple[Serving, str]:
    """A server that asks for a token, and one."""
    data = tmp_path_factory.mktemp("guarded")
    data.chmod(0o700)
    made = subprocess.run(
        command("token", "create", "--agent", "tia", "--data", str(data)),
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    return start(data), made.stdout.strip()


@pytest.mark.parametrize("client", OVER_HTTP)
async def test_a_token_comes_from_where_the_client_keeps_such(
    home: Home, client: str, guarded: tuple[Serving, str]
) -> None:
    server, token = guarded
    home.have(client)
    said = home.do("install", client, "--url", server.url, "--token", env={"BLACKBOARD_TOKEN": token})
    assert "No token is in the file" in said
    async with reached(home, client, token) as opened:
        await works(opened, "tia")
    if client == "vscode":
        (asked,) = (
            one
            for one in KINDS[client].load(home.file(client).read_text("utf-8"))["inputs"]
            if one["id"] == "blackboard-token"
        )
        assert asked["password"] is True
    if client == "goose":
        assert home.entry(client)["env_keys"] == ["BLACKBOARD_TOKEN"]


async def test_the_relay_reads_a_token_from_its_file(home: Home, guarded: tuple[Serving, str]) -> None:
    server, token = guarded
    home.have("claude-desktop")
    file = home.folder / "token"
    file.write_text(token + "\n")
    file.chmod(0o600)
    home.do("install", "claude-desktop", "--url", server.url, "--token-file", str(file))
    assert token not in home.file("claude-desktop").read_text("utf-8")
    async with started(home, "claude-desktop") as opened:
        await works(opened, "tia")
