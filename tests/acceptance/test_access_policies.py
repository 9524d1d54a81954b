"""The how-to's policies in a real server: tokens, roles and owners, clients of both generations, one file."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
from blackboard_mcp.protocols.access import Role
from blackboard_mcp.server import compose
from blackboard_mcp.server.access.tokens import new_access_token
from blackboard_mcp.server.demo.process import http_server, plainly
from blackboard_mcp.server.demo.replay import ToolFailed, call
from blackboard_mcp.server.settings.server import Settings
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from patience import PATIENCE

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "access-policies.md"
AGENTS = {
    "ann": ("Ann", Role.CONTRIBUTOR, "2026-07-28"),
    "ann-2": ("Ann", Role.CONTRIBUTOR, "legacy"),
    "ben": ("ben", Role.CONTRIBUTOR, "2026-07-28"),
    "bo": ("bo", Role.CONTRIBUTOR, "legacy"),
    "cat": ("cat", Role.STEWARD, "2026-07-28"),
    "dee": ("dee", Role.DECIDER, "legacy"),
}


async def token_of(data: Path, agent: str) -> str:
    owner, role, _ = AGENTS[agent]
    made, text = new_access_token(
        agent=agent, owner=owner, roles={"*": role}, now=datetime.now(UTC), expires_at=None
    )
    async with compose.credentials(Settings(data=data)) as store:
        await store.add_token(made)
    return text


@asynccontextmanager
async def served_agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[dict[str, Client]]:
    """A client of each agent, on a server that was launched with the page's file and class."""
    page = PAGE.read_text("utf-8")
    chosen, own = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "my_access.py").write_text(code)
    config = tmp_path / "blackboard.toml"
    config.write_text(f"{own}\n{chosen}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    data = tmp_path / "data"
    tokens = {agent: await token_of(data, agent) for agent in AGENTS}
    async with http_server(data, "--config", str(config)) as served, AsyncExitStack() as stack:
        yield {
            agent: await stack.enter_async_context(joined(served.url, tokens[agent], AGENTS[agent][2]))
            for agent in AGENTS
        }


@asynccontextmanager
async def joined(url: str, token: str, mode: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE, verify=False, trust_env=False) as http,
        plainly(Client(streamable_http_client(url, http_client=http), mode=mode)) as client,
    ):
        yield client


async def denied(client: Client, **arguments: Any) -> str:
    with pytest.raises(ToolFailed) as told:
        await call(client, "post", **arguments)
    assert told.value.facts["error"] == "forbidden"
    assert "Nothing was changed" in str(told.value)
    return str(told.value.facts["policy"])


async def test_f56_policies_of_a_file_hold_for_clients_with_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served_agents(tmp_path, monkeypatch) as agents:
        made = await call(agents["ann"], "post", text="the plan", key="section:Ann:plan")
        id_ = made["items"][0]["id"]
        await call(agents["ann-2"], "post", text="the plan, second", key="section:Ann:plan")
        for other in ("ben", "bo", "cat", "dee"):
            assert await denied(agents[other], text="mine", key="section:Ann:plan") == "sections"
            assert (
                await denied(agents[other], items=[{"text": "a"}, {"id": id_, "tags": ["b"]}]) == "sections"
            )
        fact = (await call(agents["ann"], "post", text="a fact"))["items"][0]["id"]
        for other in ("ben", "bo", "dee"):
            assert await denied(agents[other], id=fact, status="RESOLVED") == "own-work"
        for other in ("ben", "bo", "cat"):
            assert await denied(agents[other], text="so be it", type="DECISION") == "decisions"
        await call(agents["dee"], "post", text="so be it", type="DECISION")
        await call(agents["bo"], "post", text="not so", type="CRITIQUE", edges={"critiques": [fact]})
        await call(agents["ann-2"], "post", text="it is", type="REPLY", edges={"replies_to": ["C-4"]})
        await call(agents["bo"], "debate", op="acknowledge", id=fact)
        await call(agents["cat"], "post", id=fact, status="RESOLVED")
