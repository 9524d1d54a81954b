"""Calls repeated with their idempotency key: after the server was killed, and by two servers at once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.server.demo.process import http_clients, http_server
from blackboard_mcp.storage.store import SqlBoardStore
from mcp.client import Client
from patience import PATIENCE

LEGACY, MODERN = "legacy", "2026-07-28"
OPTIONS = ("--tools", "all", "--target-tokens", "4000")
OF_NOW = ("seq", "repeated", "mode", "notice", "left", "working_items", "working_tokens")

CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "ada": ("post", {"items": [{"text": "a"}, {"text": "b", "key": "k", "edges": {"supports": ["$1"]}}]}),
    "ben": ("debate", {"op": "acknowledge", "id": "F-1"}),
    "cyd": ("debate", {"op": "watch", "id": "tag:db"}),
    "dov": ("subscribe", {"filter": {"type": "FACT"}, "name": "facts"}),
    "eve": ("core", {"objective": "Ship it."}),
    "fay": ("board", {"title": "Rocket", "settings": {"quorum": 0, "ceiling": 3}}),
    "gil": ("query_archive", {"text": "pump", "restore": True}),
    "hal": ("transaction", {"reads": {"t": 0}, "writes": [{"key": "t", "text": "v"}]}),
}
"""One call of each agent's; together they change the board by so many things as there are."""


async def ask(client: Client, tool: str, arguments: dict[str, Any], key: str) -> dict[str, Any]:
    meta: Any = {"blackboard/structured": True, "blackboard/idempotency_key": key}
    result = await client.call_tool(tool, arguments, meta=meta)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return {name: value for name, value in result.structured_content.items() if name not in OF_NOW}


async def setting(url: str) -> None:
    """F-1, criticised by zoe and defended, and F-3 in the archive."""
    async with http_clients(url)("xeno") as xeno, http_clients(url)("zoe") as zoe:
        await xeno.call_tool("post", {"text": "A claim."})
        await zoe.call_tool("post", {"text": "No.", "type": "CRITIQUE", "edges": {"critiques": ["F-1"]}})
        await xeno.call_tool("post", {"text": "The pump leaks."})
        await xeno.call_tool("post", {"text": "Another matter.", "edges": {"supersedes": ["F-3"]}})
        await xeno.call_tool("post", {"text": "Yes.", "type": "REPLY", "edges": {"replies_to": ["C-2"]}})


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")
async def test_i24_what_was_committed_before_the_server_was_killed_is_answered_by_the_next_and_not_done_again(
    tmp_path: Path,
) -> None:
    """Half of the callers hear no answer: they are gone as soon as what they asked for is in the database."""
    answers: dict[str, dict[str, Any]] = {}
    async with http_server(tmp_path, *OPTIONS) as server:
        await setting(server.url)
        for place, (agent, (tool, arguments)) in enumerate(CALLS.items()):
            async with http_clients(server.url, mode=(LEGACY, MODERN)[place // 2 % 2])(agent) as client:
                if place % 2:
                    await unheard(tmp_path, client, agent, tool, arguments)
                else:
                    answers[agent] = await ask(client, tool, arguments, f"of {agent}")
        os.kill(server.pid, signal.SIGKILL)
    store = await SqlBoardStore.open(tmp_path / "board.sqlite3")
    before = await store.find_board("main")
    async with http_server(tmp_path, *OPTIONS) as server:
        for mode in (LEGACY, MODERN):
            for agent, (tool, arguments) in CALLS.items():
                async with http_clients(server.url, mode=mode)(agent) as client:
                    again = await ask(client, tool, arguments, f"of {agent}")
                assert answers.setdefault(agent, again) == again, (agent, mode)
    assert await store.find_board("main") == before, "something was done again"
    await store.close()
    assert "ben" in {o["agent"] for o in answers["ben"]["obligations"] if o["state"] == "acknowledged"}
    assert answers["cyd"]["watches"] == ["tag:db"]
    assert [item["id"] for item in answers["gil"]["items"]] == ["F-3"]
    assert answers["hal"]["items"][0]["key"] == "t"


async def unheard(data: Path, client: Client, agent: str, tool: str, arguments: dict[str, Any]) -> None:
    """A call whose caller leaves once it is committed, wherever its answer is by then."""
    store = await SqlBoardStore.open(data / "board.sqlite3")
    asking = asyncio.create_task(ask(client, tool, arguments, f"of {agent}"))
    async with asyncio.timeout(PATIENCE):
        while True:
            seen = store.changes()
            kept = await store.engine.read(lambda: _kept(agent))
            if kept:
                break
            await store.wait_for_change(seen, 1)
    asking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asking
    await store.close()


def _kept(agent: str) -> Any:
    rows = yield "SELECT count(*) FROM idempotency WHERE agent = ?1", (agent,)
    return rows[0][0]


async def test_i24_of_two_servers_that_are_asked_the_same_at_once_one_applies_it_and_both_answer(
    tmp_path: Path,
) -> None:
    async with http_server(tmp_path, *OPTIONS) as one, http_server(tmp_path, *OPTIONS) as two:
        await setting(one.url)
        store = await SqlBoardStore.open(tmp_path / "board.sqlite3")
        for agent in ("ada", "ben", "cyd", "gil"):
            tool, arguments = CALLS[agent]
            async with (
                http_clients(one.url, mode=LEGACY)(agent) as here,
                http_clients(two.url, mode=MODERN)(agent) as there,
            ):
                answers = await asyncio.gather(
                    *(ask(client, tool, arguments, "race") for client in (here, there, here, there))
                )
                before = await store.find_board("main")
                answers.append(await ask(there, tool, arguments, "race"))
            assert all(answer == answers[0] for answer in answers), agent
            assert await store.find_board("main") == before
        events = (await store.log("main", "ada", 0, 1_000)).events
        await store.close()
    said = [(event.event, event.agent) for event in events]
    assert said.count(("item.posted", "ada")) == 2
    assert said.count(("obligation.met", "ben")) == 1
    assert said.count(("watch.began", "cyd")) == 1
    assert said.count(("item.restored", "gil")) == 1
