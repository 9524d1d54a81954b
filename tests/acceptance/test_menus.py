"""Menus over the wires: a real server's list of resources and prompts, and news of a board by another client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import mcp.types as types
import pytest
from blackboard_mcp.server.demo.process import command, environment, http_clients, http_server, plainly
from blackboard_mcp.server.demo.replay import call
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from patience import PATIENCE

LEGACY, MODERN = "legacy", "2026-07-28"


class Told:
    """Whether a client was told that its list of resources changed."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    async def __call__(self, message: object) -> None:
        if isinstance(message, types.ResourceListChangedNotification):
            self.event.set()


@asynccontextmanager
async def joined(url: str, mode: str, way: str, told: Told) -> AsyncIterator[Client]:
    """Eve's client: straight over HTTP, or through the relay that clients start."""
    if way == "relay":
        words = command("connect", url, "--agent", "eve")
        program = StdioServerParameters(command=words[0], args=words[1:], env=environment())
        async with plainly(Client(stdio_client(program), mode=mode, message_handler=told)) as client:
            yield client
        return
    headers = {"X-Blackboard-Agent": "eve"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False, verify=False) as http,
        plainly(
            Client(streamable_http_client(url, http_client=http), mode=mode, message_handler=told)
        ) as client,
    ):
        yield client


@pytest.mark.parametrize(("mode", "way"), [(LEGACY, "http"), (MODERN, "http"), (LEGACY, "relay")])
async def test_a_menu_over_the_wire_gains_a_board_that_another_client_opens(
    tmp_path: Path, mode: str, way: str
) -> None:
    told = Told()
    async with (
        http_server(tmp_path) as server,
        http_clients(server.url)("ada") as ada,
        joined(server.url, mode, way, told) as eve,
    ):
        names = {prompt.name for prompt in (await eve.list_prompts()).prompts}
        assert names == {"join-board", "catch-up", "critique", "summarise-thread", "decide"}
        listed = [str(one.uri) for one in (await eve.list_resources()).resources]
        assert "board://main/view/eve" in listed
        assert not [uri for uri in listed if "side" in uri]
        listening = asyncio.create_task(listen(eve, told)) if mode == MODERN else None
        if listening is not None:
            await asyncio.wait_for(told.event.wait(), PATIENCE)
            told.event.clear()
        await call(ada, "post", text="x", board="side")
        await asyncio.wait_for(told.event.wait(), PATIENCE)
        listed = [str(one.uri) for one in (await eve.list_resources()).resources]
        assert "board://side/view/eve" in listed
        if listening is not None:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)


async def listen(client: Client, told: Told) -> None:
    """Tells once it listens, and then of each change."""
    async with client.listen(resources_list_changed=True) as stream:
        told.event.set()
        async for _ in stream:
            told.event.set()
