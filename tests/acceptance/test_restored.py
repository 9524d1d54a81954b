"""A board that was put back from a backup: nobody who reads on misses what came after, by any way of reading."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from blackboard_mcp.protocols.errors import CursorExpired
from blackboard_mcp.server.board import BoardClient
from blackboard_mcp.server.demo.process import (
    command,
    environment,
    http_clients,
    http_server,
    stdio_clients,
)
from blackboard_mcp.server.demo.replay import ToolFailed, call, say
from mcp.client import Client
from patience import PATIENCE

KEPT, LOST = 5, 5
FACTS = {"event": "item.posted"}


def run(*words: str | Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command(*map(str, words)), capture_output=True, timeout=120, env=environment(), check=False
    )


def did(*words: str | Path) -> None:
    done = run(*words)
    assert done.returncode == 0, done


async def posts(client: Client, what: str, count: int) -> list[int]:
    return [(await call(client, "post", text=f"{what} {n}", type="LOG"))["seq"] for n in range(count)]


async def expired(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The facts of a refusal because of the place."""
    with pytest.raises(ToolFailed) as caught:
        await call(client, tool, **arguments)
    facts = dict(caught.value.facts)
    assert facts.pop("error") == "cursor_expired", caught.value
    assert "read() shows the board" in str(caught.value)
    return facts


@asynccontextmanager
async def stream(url: str, **more: Any) -> AsyncIterator[httpx2.Response]:
    async with httpx2.AsyncClient(timeout=PATIENCE, verify=False) as http:
        address = f"{url.removesuffix('/mcp')}/boards/main/events"
        params = more.pop("params", {})
        headers = {"X-Blackboard-Agent": "bob"} | more
        async with http.stream("GET", address, headers=headers, params=params) as response:
            yield response


async def ids(url: str, count: int, **more: Any) -> list[int]:
    found: list[int] = []
    async with stream(url, **more) as response:
        assert response.status_code == 200
        async for line in response.aiter_lines():
            if line.startswith("id: "):
                found.append(int(line[4:]))
            if len(found) == count:
                break
    return found


async def test_who_read_on_before_a_restore_is_told_and_goes_on_from_what_there_is(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "boards.backup"
    async with http_server(data, "--tools", "all") as server:
        clients = http_clients(server.url)
        async with clients("alice") as alice, clients("bob") as bob:
            kept = await posts(alice, "kept", KEPT)
            await call(bob, "subscribe", filter=FACTS, name="news")
            await call(bob, "consume", group="work", filter=FACTS, limit=1, seconds=0)
            end = (await call(alice, "read"))["seq"]
            await asyncio.to_thread(did, "backup", "--data", data, file)
            lost = await posts(alice, "lost", LOST)
            assert lost[-1] == end + LOST
            # Everything that bob has by then.
            assert (await call(bob, "wait", seconds=0, limit=200))["cursor"] == lost[-1]
            assert (await call(bob, "wait", subscription="news", seconds=0))["cursor"] == lost[-1]
            (taken,) = (await call(bob, "consume", group="work", limit=1, seconds=0))["deliveries"]
            assert (await ids(server.url, 2, **{"Last-Event-ID": str(lost[-3])})) == lost[-2:]
            version = (await call(bob, "post", text="mine", key="plan", type="PLAN"))["seq"]
    did("restore", "--data", data, "--force", file)
    place = lost[-1]

    async with http_server(data, "--tools", "all") as server:
        clients = http_clients(server.url)
        async with clients("alice") as alice, clients("bob") as bob:
            # Nothing happened yet, and the place is none.
            assert await expired(bob, "wait", since=place, seconds=0) == {"cursor": place, "seq": end}
            assert (await call(bob, "read", since=end))["events"] == []
            fresh = await posts(alice, "fresh", 2 * LOST)
            told = {"cursor": place, "seq": fresh[-1], "restored_after": end}
            assert not set(fresh) & set(range(end + LOST + 2))
            for tool, more in (
                ("wait", {"seconds": 0}),
                ("wait", {"seconds": 5, "subscription": "news"}),
                ("read", {}),
            ):
                assert await expired(bob, tool, since=place, **more) == told
            writes = [{"text": "mine", "key": "plan"}]
            with pytest.raises(ToolFailed, match="restored since you read") as caught:
                await call(bob, "transaction", writes=writes, reads={"plan": {"seq": version}})
            assert caught.value.facts["error"] == "cursor_expired"
            for where in ({"Last-Event-ID": str(place)}, {"params": {"after": place}}):
                async with stream(server.url, **where) as response:
                    body = json.loads(await response.aread())
                assert (response.status_code, body["error"], body["seq"]) == (
                    410,
                    "cursor_expired",
                    fresh[-1],
                )
            async with stream(server.url, params={"subscription": "news", "after": place}) as response:
                assert response.status_code == 410
            with pytest.raises(Exception, match="restored from a copy"):
                await bob.read_resource(f"board://main/events?after={place}")
            watched = await asyncio.to_thread(
                run, "watch", "--data", data, "--since", str(place), "--seconds", "0"
            )
            assert watched.returncode == 1
            assert b"restored from a copy" in watched.stderr
            with pytest.raises(ToolFailed, match="not in flight"):
                await call(bob, "consume", group="work", ack=[taken["handle"]], seconds=0)
            async with BoardClient.connect(server.url, agent="bob") as program:
                with pytest.raises(CursorExpired):
                    await program.changes(place)
                with pytest.raises(CursorExpired):
                    await anext(program.events(since=place))

            # From what the refusal names everybody goes on, and misses nothing.
            news = await call(bob, "read", since=told["restored_after"])
            assert news["events"][0]["event"] == "board.restored"
            assert [e["seq"] for e in news["events"]][1:] == fresh
            assert (await call(bob, "read", since=told["seq"]))["events"] == []
            followed = await call(bob, "wait", subscription="news", seconds=0, limit=200)
            assert [e["seq"] for e in followed["events"]] == fresh
            work = await call(bob, "consume", group="work", limit=50, seconds=0)
            assert [d["event"]["seq"] for d in work["deliveries"]] == fresh
            assert await ids(server.url, 3, **{"Last-Event-ID": str(end)}) == [fresh[0] - 1, *fresh[:2]]
            assert await ids(server.url, 1, **{"Last-Event-ID": str(fresh[-2])}) == fresh[-1:]
            assert kept[-1] < taken["event"]["seq"]

        # What bob was shown is what the copy knows of: all that came since is new, the restore with it.
        async with clients("carol") as carol, clients("alice") as alice:
            await call(carol, "read")
            seen = (await call(carol, "wait", seconds=0))["cursor"]
            assert seen == fresh[-1]
            more = await posts(alice, "more", 2)
            text = await say(carol, "wait", seconds=0)
            assert all(f"{seq} item.posted" in text for seq in more)


async def test_over_stdio_a_model_is_told_where_to_go_on(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "boards.backup"
    clients = stdio_clients(data)
    async with clients("alice") as alice:
        await posts(alice, "kept", KEPT)
        end = (await call(alice, "read"))["seq"]
        await asyncio.to_thread(did, "backup", "--data", data, file)
        lost = await posts(alice, "lost", LOST)
    did("restore", "--data", data, "--force", file)
    async with clients("alice") as alice, clients("bob") as bob:
        fresh = await posts(bob, "fresh", LOST + 2)
        with pytest.raises(ToolFailed) as caught:
            await say(alice, "wait", since=lost[-1], seconds=0)
        assert f"since={fresh[-1]} goes on" in str(caught.value)
        text = await say(alice, "wait", since=end, seconds=0)
        assert f"board.restored by system: it is a copy as of seq {end}" in text
        assert all(f"{seq} item.posted" in text for seq in fresh)
        assert "fresh 0" in text


async def test_a_backup_that_was_copied_by_hand_gives_no_number_again_nor_does_its_twin(
    tmp_path: Path,
) -> None:
    data, file = tmp_path / "data", tmp_path / "boards.backup"
    async with stdio_clients(data)("alice") as alice:
        await posts(alice, "kept", KEPT)
        end = (await call(alice, "read"))["seq"]
        await asyncio.to_thread(did, "backup", "--data", data, file)
        lost = await posts(alice, "lost", LOST)
    folders = [data, tmp_path / "twin"]
    given: list[list[int]] = []
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        shutil.copy(file, folder / "board.sqlite3")
        async with stdio_clients(folder)("alice") as alice:
            given.append(await posts(alice, "fresh", LOST + 2))
            facts = await expired(alice, "wait", since=lost[-1], seconds=0)
            assert facts == {"cursor": lost[-1], "seq": given[-1][-1], "restored_after": end}
    assert not set(given[0]) & set(given[1])
    for folder, mine, other in zip(folders, given, reversed(given), strict=True):
        async with stdio_clients(folder)("alice") as alice:
            facts = await expired(alice, "wait", since=other[-1], seconds=0)
            assert facts["seq"] == mine[-1]
            news = await call(alice, "wait", since=mine[-1], seconds=0)
            assert [e["event"] for e in news["events"]] == ["board.restored"], "which alice was not shown yet"


async def test_put_back_twice_each_time_begins_anew(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "boards.backup"
    given: list[int] = []
    async with stdio_clients(data)("alice") as alice:
        given += await posts(alice, "kept", KEPT)
        await asyncio.to_thread(did, "backup", "--data", data, file)
        given += await posts(alice, "lost", LOST)
    for time in range(2):
        did("restore", "--data", data, "--force", file)
        async with stdio_clients(data)("alice") as alice:
            for place in given[KEPT:]:
                assert (await expired(alice, "wait", since=place, seconds=0))["cursor"] == place
            fresh = await posts(alice, f"time {time}", LOST)
            assert not set(fresh) & set(given)
            for place in given[KEPT:]:
                assert (await expired(alice, "wait", since=place, seconds=0))["seq"] == fresh[-1]
            for place in (0, *given[:KEPT]):
                news = await call(alice, "wait", since=place, seconds=0, limit=200)
                assert [e["seq"] for e in news["events"]][-LOST:] == fresh
            given += fresh
    did("doctor", "--data", data)
    did("verify", "--data", data)
