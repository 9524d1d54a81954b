"""Summaries by a model, through a real server process, real clients and a real endpoint that is slow."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.server.demo.process import http_clients, http_server
from blackboard_mcp.server.demo.replay import ToolFailed, call
from patience import PATIENCE

FILLER = "We looked at the seals, the flow and the price of every pump on the long list. " * 3
ANSWER = "We take the blue pump with 60 litres [D-8].\nThe seals, flow and price were looked at [R-3]."


class Model:
    """Answers every request with `ANSWER`, as soon as it is let."""

    def __init__(self) -> None:
        self.came, self.go = asyncio.Event(), asyncio.Event()
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        await reader.readexactly(int(head.split("content-length: ")[1].split("\r\n")[0]))
        self.came.set()
        await self.go.wait()
        body = json.dumps({"choices": [{"message": {"content": ANSWER}}]}).encode()
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def slow_model() -> AsyncIterator[Model]:
    model = Model()
    server = await asyncio.start_server(model.serve, "127.0.0.1", 0)
    model.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield model
    finally:
        model.go.set()
        server.close()


def options(model: Model) -> tuple[str, ...]:
    endpoint = ("--summariser", "openai", "--summary-url", model.url, "--summary-model", "small")
    return (*endpoint, "--target-tokens", "400", "--summary-timeout-seconds", "60")


async def finished_thread(ada: Any) -> None:
    """A thread that is finished as soon as it is there: in one post, so that no pass sees half of it."""
    on: dict[str, Any] = {"edges": {"replies_to": ["$1"]}}
    replies = [{"text": f"{n}: {FILLER}", "type": "REPLY", **on} for n in range(6)]
    decision = {"text": "We take the blue pump with 60 litres.", "type": "DECISION", **on}
    await call(ada, "post", items=[{"text": "Which pump?", "type": "QUESTION"}, *replies, decision])


async def until_changed(agent: Any, event: str, by: str | None = None) -> Any:
    """The first event of that name, and of that agent where one is named, waited for."""
    place = 0
    async with asyncio.timeout(PATIENCE):
        while True:
            news = await call(agent, "wait", since=place, seconds=0.5, limit=200)
            for line in news["events"]:
                if line["event"] == event and by in (None, line["agent"]):
                    return line
            place = news["cursor"]


@pytest.mark.parametrize("contested", [False, True])
async def test_f29_posts_go_on_and_a_critique_meanwhile_throws_the_summary_away(
    tmp_path: Path, contested: bool
) -> None:
    async with slow_model() as model, http_server(tmp_path, *options(model)) as server:
        connect = http_clients(server.url)
        async with connect("ada") as ada, connect("ben") as ben:
            await finished_thread(ada)
            await asyncio.wait_for(model.came.wait(), PATIENCE)
            for n in range(10):
                await call(ben, "post", text=f"meanwhile {n}", type="LOG", importance=1)
            if contested:
                await call(ben, "post", text="No!", type="CRITIQUE", edges={"critiques": ["D-8"]})
            model.go.set()
            if contested:
                # Nothing else is left to take: the pass ends by taking what ben noted.
                await until_changed(ben, "prune.ended")
                assert (await call(ada, "query", type="SUMMARY", zone="all"))["items"] == []
                kept = (await call(ada, "query", thread="Q-1", limit=20))["items"]
                assert {item["id"] for item in kept} >= {"Q-1", "D-8", "R-3"}
            else:
                await until_changed(ada, "prune.ended")
                (summary,) = (await call(ada, "query", type="SUMMARY"))["items"]
                assert summary["text"] == ANSWER + "\nSources: R-2, R-3, R-4, R-5, R-6, R-7, D-8"
                for id_, zone in (("Q-1", "working"), ("R-4", "archive"), ("D-8", "archive")):
                    (item,) = (await call(ada, "read", ids=[id_]))["items"]
                    assert item["zone"] == zone, "a question that nobody else answered stays"


async def test_f29_an_agent_is_asked_writes_the_summary_and_another_finds_the_sources(tmp_path: Path) -> None:
    flags = ("--summariser", "agent", "--tools", "core,memory", "--target-tokens", "800")
    async with http_server(tmp_path, *flags) as server:
        connect = http_clients(server.url)
        async with connect("ada") as ada, connect("ben") as ben:
            await finished_thread(ada)
            await call(ada, "post", items=[{"text": f"{n} {FILLER}", "type": "LOG"} for n in range(6)])
            asked = await until_changed(ben, "summary.requested")
            assert asked["data"]["thread"] == "Q-1"
            taken = await call(ben, "summarize", thread="Q-1")
            with pytest.raises(ToolFailed) as refused:
                await call(ben, "summarize", thread="Q-1", lease=taken["lease"], text="Nothing. [Q-1]")
            assert "drops the decision D-8" in refused.value.message
            written = await call(ben, "summarize", thread="Q-1", lease=taken["lease"], text=ANSWER)
            assert written["item"]["author"] == "ben"
            sources = taken["request"]["sources"]
            found = (await call(ada, "read", ids=sources))["items"]
            assert [item["zone"] for item in found] == ["archive"] * len(sources)
            closed = await until_changed(ada, "summary.closed")
            assert closed["data"]["why"] == f"summarised in {written['item']['id']}"


async def test_f29_a_summary_names_the_beginning_of_its_thread_even_when_that_left_first(
    tmp_path: Path,
) -> None:
    async with http_server(tmp_path, "--target-tokens", "400") as server:
        connect = http_clients(server.url)
        async with connect("ada") as ada:
            on: dict[str, Any] = {"edges": {"replies_to": ["$1"]}}
            await call(
                ada,
                "post",
                items=[
                    {
                        "text": "Which pump do we take for the cellar?",
                        "type": "QUESTION",
                        "status": "RESOLVED",
                    },
                    *({"text": f"{n}: {FILLER}", "type": "REPLY", **on} for n in range(6)),
                    {"text": "We take the blue pump with 60 litres.", "type": "DECISION", **on},
                ],
            )
            posted = await until_changed(ada, "item.posted", by="system")
            (summary,) = (await call(ada, "read", ids=[posted["item"]]))["items"]
            assert summary["metadata"]["sources"][0] == "Q-1"
            assert summary["text"].startswith("ada: Which pump do we take for the cellar? [Q-1]")
            assert "We take the blue pump with 60 litres. [D-8]" in summary["text"].split("\n")[1]
            assert "Q-1" in summary["edges"]["derived_from"]


async def test_f29_a_thread_a_range_or_the_board_is_summed_up_for_one_reader(tmp_path: Path) -> None:
    async with http_server(tmp_path, "--tools", "core,memory") as server:
        connect = http_clients(server.url)
        async with connect("ada") as ada, connect("ben") as ben:
            await finished_thread(ada)
            await call(ada, "post", text=f"My secret pump is red. {FILLER}", visibility="private")
            await call(ben, "post", text="The cellar is flooded at 40 cm.", type="FACT")
            seq = (await call(ben, "read"))["seq"]
            thread = await call(ben, "summarize", of="R-3")
            assert thread["covered"] == ["Q-1", "R-2", "R-3", "R-4", "R-5", "R-6", "R-7", "D-8"]
            assert "We take the blue pump with 60 litres. [D-8]" in thread["summary"]
            whole = await call(ben, "summarize", of="board")
            assert "40 cm" in whole["summary"]
            for reader in (ada, ben):
                made = await call(reader, "summarize", of="Q-1..F-10")
                assert "secret" not in str(made)
            small = await call(ben, "summarize", of="F-10..F-10")
            assert small["summary"] is None
            assert (await call(ben, "read"))["seq"] == seq
            with pytest.raises(ToolFailed, match="There is no H-99"):
                await call(ben, "summarize", of="H-99")
            with pytest.raises(ToolFailed, match="not an item id"):
                await call(ben, "summarize", of="everything")
