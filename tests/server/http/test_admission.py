"""What is limited for each principal is counted for it over all its connections, agents and generations."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from blackboard_mcp.protocols.access import Principal
from blackboard_mcp.server.http import sessions
from blackboard_mcp.server.http.exposure import networks_of
from blackboard_mcp.server.limits.limits import Limits
from blackboard_mcp.server.mcp import admission, subscriptions
from patience import PATIENCE

LIMITS = Limits(waits_per_principal=2, sessions_per_principal=2, streams_per_principal=2)


async def initialize(served: Any) -> Any:
    told = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": told}).encode()
    wire = await served.wire()
    await wire.send(served.request(body=body))
    return await wire.head()


async def check_waits(served: Any) -> None:
    """Three calls of one agent that wait, each on a connection of its own: the third is refused."""
    for _ in range(2):
        wire = await served.wire()
        await wire.send(served.modern("tools/call", "wait", arguments={"seconds": 30}))
        await asyncio.wait_for(served.sample.waiting.wait(), PATIENCE)
        served.sample.waiting.clear()
    third = served.exchange(served.modern("tools/call", "wait", arguments={"seconds": 0.1}))
    result = (await third).document["result"]
    assert result["isError"], "a third call waits"
    assert "waits_per_principal" in result["content"][0]["text"]


async def check_sessions(served: Any) -> None:
    """Of three sessions of one agent, each opened on a connection of its own, the first is ended."""
    opened = [(await initialize(served)).headers["mcp-session-id"] for _ in range(3)]
    manager = served.sample.server.sdk_server.session_manager
    assert [one in manager._server_instances for one in opened] == [False, True, True], "all three live"


async def check_streams(served: Any) -> None:
    """Three streams of one agent, each on a connection of its own: the third is refused."""
    listen = served.modern(
        "subscriptions/listen", notifications={"resourceSubscriptions": ["board://main/stats"]}
    )
    for _ in range(2):
        wire = await served.wire()
        await wire.send(listen)
        await wire.until(b"acknowledged")
    wire = await served.wire()
    await wire.send(listen)
    head = await wire.head()
    assert head.headers["content-type"] == "application/json", "a third stream is open"


CHECKS = [
    (check_waits, admission),
    (check_sessions, sessions),
    (check_streams, subscriptions),
]


@pytest.mark.parametrize("check", [check for check, _ in CHECKS])
async def test_a_principal_has_one_count_over_all_its_connections(serving: Any, check: Any) -> None:
    async with serving(limits=LIMITS) as served:
        await check(served)


@pytest.mark.parametrize(("check", "module"), CHECKS)
async def test_counting_for_each_connection_is_caught(
    serving: Any, monkeypatch: pytest.MonkeyPatch, check: Any, module: Any
) -> None:
    names: dict[int, tuple[Principal, str]] = {}

    def of_connection(principal: Principal) -> str:
        return names.setdefault(id(principal), (principal, f"connection-{len(names)}"))[1]

    monkeypatch.setattr(module, "counted_as", of_connection)
    async with serving(limits=LIMITS) as served:
        with pytest.raises(AssertionError, match=r"third|all three"):
            await check(served)


async def test_connections_of_a_declared_proxy_are_counted_in_all_only(serving: Any) -> None:
    limits = Limits(connections=6, connections_per_peer=2)
    for proxies, most in ((), 2), (networks_of(["127.0.0.1"]), 6):
        async with serving(limits=limits, proxies=proxies) as served:
            wires = [await served.wire() for _ in range(7)]
            refused = wires[most]
            assert (await refused.reply()).refusal[1] == "rate_limited"
            await wires[most - 1].send(served.request("/healthz", "GET"))
            assert (await wires[most - 1].reply()).status == 200
