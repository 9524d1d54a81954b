"""F10 on a real server: clients of both generations race through transactions, and none loses an update."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.server.demo.process import Serving, http_clients, http_server, stdio_clients
from blackboard_mcp.server.demo.replay import STRUCTURED, call
from mcp.client import Client

LEGACY, MODERN = "legacy", "2026-07-28"
TOOLS = ("--tools", "core,admin")
ROUNDS = 4


async def racing(stack: AsyncExitStack, served: Serving, data: Path) -> dict[str, Client]:
    """Two clients of each generation over HTTP, and one on a stdio server of its own on the same folder."""
    clients: dict[str, Client] = {}
    for mode in (LEGACY, MODERN):
        for n in (1, 2):
            name = f"http-{mode}-{n}"
            clients[name] = await stack.enter_async_context(http_clients(served.url, mode=mode)(name))
    clients["stdio"] = await stack.enter_async_context(stdio_clients(data, *TOOLS)("stdio"))
    return clients


async def attempt(client: Client, **arguments: Any) -> dict[str, Any]:
    """The answer, or the conflict; an `AssertionError` when it is something else."""
    result = await client.call_tool("transaction", arguments, meta=STRUCTURED)
    assert result.structured_content is not None
    assert not result.is_error or result.structured_content["error"] == "conflict", result.structured_content
    return result.structured_content


async def count(client: Client, times: int) -> int:
    """Counts up so many times, again where it was too late; how often it was."""
    late = 0
    while times:
        found = await call(client, "read", keys=["counter", "limit"])
        versions = {item["key"]: item["version"] for item in found["items"]}
        value = next((int(item["text"]) for item in found["items"] if item["key"] == "counter"), 0)
        done = await attempt(
            client,
            reads={"counter": versions.get("counter", 0), "limit": 0, "veto:*": found["seq"]},
            writes=[
                {"key": "counter", "text": str(value + 1)},
                {"text": f"counted {value + 1}", "type": "LOG"},
            ],
        )
        times, late = times - ("moved" not in done), late + ("moved" in done)
    return late


@pytest.mark.filterwarnings("ignore:resources/(un)?subscribe is removed")
async def test_F10_clients_of_both_generations_race_and_lose_nothing(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(http_server(tmp_path, *TOOLS))
        clients = await racing(stack, served, tmp_path)

        for n in range(ROUNDS):
            tried = await asyncio.gather(
                *(
                    attempt(client, reads={f"lock:{n}": 0}, writes=[{"key": f"lock:{n}", "text": name}])
                    for name, client in clients.items()
                )
            )
            won = [answer for answer in tried if "moved" not in answer]
            assert len(won) == 1
            assert [a["moved"] for a in tried if "moved" in a] == [{f"lock:{n}": 1}] * (len(clients) - 1)
            held = (await call(clients["stdio"], "read", keys=[f"lock:{n}"]))["items"][0]
            assert (held["version"], held["text"]) == (1, won[0]["items"][0]["author"])

        await asyncio.gather(*(count(client, ROUNDS) for client in clients.values()))
        found = (await call(clients["stdio"], "read", keys=["counter"]))["items"][0]
        assert int(found["text"]) == found["version"] == ROUNDS * len(clients)
        logs = await call(clients["stdio"], "query", type="LOG", zone="all", limit=200)
        assert sorted(int(item["text"].split()[1]) for item in logs["items"]) == list(
            range(1, ROUNDS * len(clients) + 1)
        )
        await call(clients["stdio"], "post", key="veto:1", text="stop")
        stopped = await attempt(
            clients[f"http-{MODERN}-1"], reads={"veto:*": found["seq"]}, writes=[{"text": "on"}]
        )
        assert stopped["moved"].keys() == {"veto:*", "veto:1"}
