"""A post through one process reaches every kind of reader of another: F18, I21."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp.types as types
import pytest
from blackboard_mcp.server.demo.process import Serving, http_server, stdio_clients
from blackboard_mcp.server.demo.replay import call
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from patience import PATIENCE

pytestmark = pytest.mark.filterwarnings("ignore:resources/(un)?subscribe is removed")
WORKING = "board://main/working"
LEGACY, MODERN = "legacy", "2026-07-28"


@asynccontextmanager
async def reader(serving: Serving, agent: str, mode: str, hear: Any = None) -> AsyncIterator[Client]:
    http = httpx2.AsyncClient(
        headers={"X-Blackboard-Agent": agent}, trust_env=False, verify=False, timeout=PATIENCE
    )
    wire = streamable_http_client(serving.url, http_client=http)
    async with http, Client(wire, mode=mode, message_handler=hear) as client:
        yield client


class Heard:
    """What reached each kind of reader."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.texts: list[str] = []
        self._news = asyncio.Event()

    def note(self, way: str, text: str = "") -> None:
        self.counts[way] = self.counts.get(way, 0) + 1
        self.texts.append(text)
        self._news.set()

    async def every(self, ways: set[str]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not ways <= self.counts.keys():
                self._news.clear()
                await self._news.wait()


async def listen(client: Client, heard: Heard) -> None:
    async with client.listen(resource_subscriptions=[WORKING]) as stream:
        heard.note("listening")
        async for _ in stream:
            heard.note("listen")


async def wait(client: Client, way: str, heard: Heard, since: int) -> None:
    while True:
        news = await call(client, "wait", since=since, seconds=20)
        since = news["cursor"]
        if news["events"]:
            heard.note(way, str(news["events"]))


async def stream(url: str, heard: Heard, agent: str) -> None:
    async with (
        httpx2.AsyncClient(
            headers={"X-Blackboard-Agent": agent}, trust_env=False, verify=False, timeout=PATIENCE
        ) as http,
        http.stream("GET", f"{url.removesuffix('/mcp')}/boards/main/events") as response,
    ):
        heard.note("streaming")
        async for line in response.aiter_lines():
            if line.startswith("data:"):
                heard.note("sse", line)


async def test_I21_a_post_through_one_process_reaches_every_kind_of_reader_of_another(tmp_path: Path) -> None:
    ways = {"listen", "legacy", "sse", "wait", "legacy wait"}
    heard = Heard()

    async def hear(message: object) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            heard.note("legacy")

    async with AsyncExitStack() as stack:
        serving = await stack.enter_async_context(http_server(tmp_path))
        poster = await stack.enter_async_context(stdio_clients(tmp_path)("poster"))
        first = await call(poster, "post", text="the beginning")
        modern = await stack.enter_async_context(reader(serving, "modern", MODERN))
        legacy = await stack.enter_async_context(reader(serving, "legacy", LEGACY, hear))
        await legacy.subscribe_resource(WORKING)
        tasks = [
            asyncio.create_task(listen(modern, heard)),
            asyncio.create_task(wait(modern, "wait", heard, first["seq"])),
            asyncio.create_task(wait(legacy, "legacy wait", heard, first["seq"])),
            asyncio.create_task(stream(serving.url, heard, "sse")),
        ]
        try:
            await heard.every({"listening", "streaming"})
            for number in range(5):
                heard.counts.clear()
                await call(poster, "post", text=f"finding {number} for @modern and @legacy")
                await heard.every(ways)
            heard.counts.clear()
            await call(poster, "post", text="canary", tags=["canary"], visibility="private")
            await call(poster, "post", text="the last for @modern and @legacy", tags=["last"])
            await heard.every({"wait", "legacy wait", "sse"})
            async with asyncio.timeout(PATIENCE):
                while not any("last" in text for text in heard.texts):
                    await heard.every(ways)
            assert not any("canary" in text for text in heard.texts)
        finally:
            for task in tasks:
                task.cancel()
            failed = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(error) for error in failed] == [asyncio.CancelledError] * 4
