"""One board in PostgreSQL, served by several servers, each with a data folder of its own, through real clients."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import postgres_server
import pytest
from blackboard_mcp.server.board import Board, BoardClient
from blackboard_mcp.server.demo.process import http_clients, http_server, stdio_clients
from blackboard_mcp.server.demo.replay import ToolFailed, call, say, search_archive
from blackboard_mcp.storage.postgres.migrating import newest
from blackboard_mcp.storage.testing.harness import HandClock
from commands import refused, run, said
from mcp.client import Client
from patience import RUN, until


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[str]:
    yield postgres_server.address(tmp_path)
    postgres_server.give_back(tmp_path)


@asynccontextmanager
async def both(folder: Path, store: str) -> AsyncIterator[tuple[Client, Client]]:
    """Yields a client of each of two servers that share nothing but the database."""
    options = ("--store", store, "--tools", "all")
    async with (
        http_server(folder / "one", *options) as one,
        http_server(folder / "two", *options) as two,
        http_clients(one.url)("ann") as ann,
        http_clients(two.url)("bob") as bob,
    ):
        yield ann, bob


async def test_two_servers_have_one_board_and_wake_each_other(tmp_path: Path, store: str) -> None:
    async with both(tmp_path, store) as (ann, bob):
        await call(ann, "post", text="the pump is blue", type="HYPOTHESIS")
        waiting = asyncio.create_task(say(ann, "wait", seconds=25))
        await call(bob, "post", text="it is green", type="CRITIQUE", edges={"critiques": ["H-1"]})
        assert "it is green" in await waiting
        await asyncio.gather(
            *(call(ann, "post", text=f"ann saw {n}", type="LOG") for n in range(20)),
            *(call(bob, "post", text=f"bob saw {n}", type="LOG") for n in range(20)),
        )
        await call(ann, "debate", op="concede", id="H-1", reason="so it is")
        events = [event["seq"] for event in (await call(bob, "read", since=1, budget=20_000))["events"]]
        assert events == sorted(events)
    async with stdio_clients(tmp_path / "three", "--store", store)("cleo") as cleo:
        assert "H-1" in await say(cleo, "query", text="pump")
    numbers = f"SELECT seq FROM {_schema(store)}.event ORDER BY seq"  # noqa: S608 - ours
    seen = postgres_server.server().sql(numbers).split()
    assert [int(number) for number in seen] == list(range(1, len(seen) + 1))


async def test_each_machine_finds_what_left_in_an_index_of_its_own(tmp_path: Path, store: str) -> None:
    options = ("--store", store, "--tools", "all")
    async with both(tmp_path, store) as (ann, bob):
        for text in (
            "the old figure is seven",
            "the valve in the cellar leaks",
            "nobody knows the third",
        ):
            await call(ann, "post", text=text, type="LOG", ttl_seconds=0.001)
        await call(ann, "prune")
        assert "seven" in str(await search_archive(ann, "main", "old figure"))
        assert "cellar" in str(await search_archive(bob, "main", "valve"))
        await call(bob, "post", text="the sluice was painted red", type="LOG", ttl_seconds=0.001)
        await call(bob, "prune")
        assert "red" in str(await search_archive(bob, "main", "sluice"))
        assert "red" in str(await search_archive(ann, "main", "sluice"))
    # One that comes later catches up by itself.
    async with http_server(tmp_path / "late", *options) as late, http_clients(late.url)("cleo") as cleo:
        assert "cellar" in str(await search_archive(cleo, "main", "valve"))


async def test_boards_move_between_the_engines_with_equal_histories(tmp_path: Path, store: str) -> None:
    there = {"BLACKBOARD_DATA": str(tmp_path / "postgres"), "BLACKBOARD_STORE": store}
    here = {"BLACKBOARD_DATA": str(tmp_path / "sqlite")}
    async with http_server(tmp_path / "postgres", "--store", store, "--tools", "all") as server:
        clients = http_clients(server.url)
        async with clients("ann") as ann, clients("bob") as bob:
            await call(ann, "post", text="the pump is “blue”", type="HYPOTHESIS", tags=["pump"])
            await call(bob, "post", text="it is green", type="CRITIQUE", edges={"critiques": ["H-1"]})
            await call(ann, "post", text="step one", key="plan:1", metadata={"n": 1})
            await call(ann, "post", text="step two", key="plan:1", expected_version=1)
            await call(ann, "artifact_write", path="a.md", content="one\n")
            await call(ann, "post", text="gone", type="LOG", ttl_seconds=0.001)
            await call(ann, "prune")
    history, back = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    assert said(there, "verify") == "board main is what its history says\n"
    run(there, "export", str(history))
    run(here, "import", str(history))
    assert said(here, "verify") == "board main is what its history says\n"
    assert said(here, "query", "--limit", "50") == said(there, "query", "--limit", "50")
    run(here, "export", str(back))
    # Without the last line, which says that this one was imported.
    lines = history.read_bytes().splitlines()
    assert back.read_bytes().splitlines()[: len(lines) - 1] == lines[:-1]
    run(there, "import", str(back), "--board", "copy")
    assert said(there | {"BLACKBOARD_BOARD": "copy"}, "verify") == "board copy is what its history says\n"
    copy = tmp_path / "boards.backup"
    run(there, "backup", str(copy))
    restored = {"BLACKBOARD_DATA": str(tmp_path / "restored")}
    run(restored, "restore", str(copy))
    assert said(restored, "verify") == "board main is what its history says\n"


async def test_a_killed_server_loses_nothing_and_the_other_goes_on(tmp_path: Path, store: str) -> None:
    options = ("--store", store)
    acknowledged: list[str] = []

    async def posting(url: str, turn: int) -> None:
        async with BoardClient.connect(url, agent="ann") as ann:
            for n in range(10_000):
                acknowledged.append((await ann.post(f"ann {turn} {n}", type="LOG")).id)

    async with http_server(tmp_path / "two", *options) as two, http_clients(two.url)("bob") as bob:
        for turn in range(3):
            enough = len(acknowledged) + 5
            async with http_server(tmp_path / "one", *options) as one:
                task = asyncio.create_task(posting(one.url, turn))
                await asyncio.to_thread(until, lambda enough=enough: len(acknowledged) >= enough)
                os.kill(one.pid, signal.SIGKILL)
                # It would look for its server for half a minute, and may find another one at that address.
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            await call(bob, "post", text=f"bob goes on {turn}", type="LOG")
        found = await call(bob, "read", ids=acknowledged[:20], budget=20_000)
        assert [item["id"] for item in found["items"]] == acknowledged[:20]
    there = postgres_server.server().sql(f"SELECT number FROM {_schema(store)}.item").split()  # noqa: S608 - ours
    assert {id.partition("-")[2] for id in acknowledged} <= set(there)


async def test_a_check_that_a_killed_server_was_running_is_run_by_another_soon(
    tmp_path: Path, store: str
) -> None:
    begun, config = tmp_path / "begun", tmp_path / "server.toml"
    code = (
        f"import pathlib, time; f = pathlib.Path({str(begun)!r}); f.exists() or f.touch() or time.sleep(600)"
    )
    config.write_text(
        f"[[check]]\nname = 'tests'\nseconds = 3600\nrun = ['{sys.executable}', '-c', \"\"\"{code}\"\"\"]\n"
    )
    options = ("--store", store, "--tools", "core,workspace", "--config", str(config))
    async with http_server(tmp_path / "one", *options) as one, http_clients(one.url)("ann") as ann:
        await call(ann, "artifact_write", path="a.txt", content="sound")
        await asyncio.to_thread(until, begun.exists)
        async with http_server(tmp_path / "two", *options) as two, http_clients(two.url)("bob") as bob:
            os.kill(one.pid, signal.SIGKILL)
            async with asyncio.timeout(RUN):
                while not (await call(bob, "query", type="RESULT"))["items"]:
                    await call(bob, "wait", seconds=25)
            assert "tests passed at rev 1" in await say(bob, "query", type="RESULT")
            assert "check:tests rev 1" in await say(bob, "artifact_read", path="check:tests")
        async with (
            http_server(tmp_path / "three", *options) as three,
            http_clients(three.url)("cleo") as cleo,
        ):
            with pytest.raises(
                ToolFailed, match="at this server; another may have it, and E-1 has its beginning"
            ):
                await call(cleo, "artifact_read", path="check:tests")


async def test_a_promoted_standby_begins_a_new_epoch(tmp_path: Path) -> None:
    first = await asyncio.to_thread(postgres_server.Server)
    second: postgres_server.Server | None = None
    try:
        data = tmp_path / "data"
        async with (
            http_server(data, "--store", first.address) as server,
            http_clients(server.url)("ann") as ann,
        ):
            for n in range(5):
                await call(ann, "post", text=f"kept {n}", type="LOG")
            second = await asyncio.to_thread(postgres_server.Server.standby, first)
            for n in range(5):
                await call(ann, "post", text=f"lost {n}", type="LOG")
            place = (await call(ann, "read"))["seq"]
        await asyncio.to_thread(first.stop)
        await asyncio.to_thread(second.promote)
        async with (
            http_server(data, "--store", second.address) as server,
            http_clients(server.url)("bob") as bob,
        ):
            await call(bob, "post", text="after the failover", type="LOG")
            with pytest.raises(ToolFailed) as told:
                await call(bob, "read", since=place)
            assert told.value.facts["error"] == "cursor_expired"
            kept = int(told.value.facts["restored_after"])
            again = await call(bob, "read", since=kept, budget=20_000)
            assert [event["event"] for event in again["events"]][:2] == ["board.restored", "item.posted"]
            assert again["events"][0]["seq"] > place
    finally:
        for one in (first, second):
            if one is not None:
                await asyncio.to_thread(one.remove)


async def tried(client: Client) -> str | None:
    """Posts; returns the error's name, or `None`."""
    try:
        await call(client, "post", text="one more", type="LOG")
    except ToolFailed as failed:
        return str(failed.facts["error"])
    return None


async def test_what_an_agent_wrote_on_one_server_counts_on_the_other(tmp_path: Path, store: str) -> None:
    # A minute is a twentieth of one post, so nothing comes back meanwhile.
    limits = {"posts_per_second": 0.01, "posts_burst": 100, "board_posts_burst": 10_000}
    config = tmp_path / "server.toml"
    config.write_text("[limits]\n" + "".join(f"{name} = {value}\n" for name, value in limits.items()))
    options = ("--store", store, "--config", str(config))
    many = [{"text": f"fact {n}", "type": "LOG"} for n in range(25)]
    async with (
        http_server(tmp_path / "one", *options) as one,
        http_server(tmp_path / "two", *options) as two,
        http_clients(one.url)("ann") as ann,
        http_clients(two.url)("ann") as elsewhere,
    ):
        for _ in range(2):
            await call(ann, "post", items=many)
            await call(elsewhere, "post", items=many)

        # News of what the other server let through takes half a second.
        for client in (ann, elsewhere):
            async with asyncio.timeout(60):
                while (error := await tried(client)) is None:  # noqa: ASYNC110 - no event tells when
                    await asyncio.sleep(0.1)
                assert error == "rate_limited"
    posted = postgres_server.server().sql(f"SELECT count(*) FROM {_schema(store)}.item")  # noqa: S608 - ours
    assert int(posted) < 200, "each server let a whole burst through"


async def test_tokens_are_kept_for_all_servers(tmp_path: Path, store: str) -> None:
    there = {"BLACKBOARD_DATA": str(tmp_path / "one"), "BLACKBOARD_STORE": store}
    token = run(there, "token", "create", "--agent", "ann").stdout.strip()
    async with http_server(tmp_path / "two", "--store", store) as two:
        async with BoardClient.connect(two.url, token=token) as ann:
            assert (await ann.post("with a token", type="FACT")).author == "ann"
        async with http_clients(two.url)("eve") as eve:
            with pytest.raises(Exception, match="access token"):
                await call(eve, "read")


async def test_compact_rids_the_folder_of_a_machine_of_what_was_forgotten(tmp_path: Path, store: str) -> None:
    data = tmp_path / "data"
    clock = HandClock(datetime.now(UTC) - timedelta(days=40))
    async with Board.open(agent="ann", data=data, settings={"store": store}, clock=clock) as ann:
        await ann.post("the old figure is seven", type="LOG", ttl_seconds=1)
        clock.advance(2)
        await ann.prune()
    output = data / "checks" / "main" / "lint"
    output.mkdir(parents=True)
    (output / "1").write_text("seven", "utf-8")
    there = {"BLACKBOARD_DATA": str(data), "BLACKBOARD_STORE": store}
    await asyncio.to_thread(said, there, "compact")
    assert output.exists(), "nothing was forgotten"
    config = tmp_path / "blackboard.toml"
    config.write_text(
        '[retention]\ndecided_by = "ops"\nreason = "month"\nafter_days = { LOG = 30 }\n', "utf-8"
    )
    forgot = await asyncio.to_thread(said, there, "forget", "--config", str(config))
    assert forgot.endswith("forgot 1 items in all\n")
    told = await asyncio.to_thread(said, there, "compact")
    assert told == f"{data}: what was left over is removed; the database vacuums its tables itself\n"
    assert not (data / "checks").exists()


def test_commands_say_what_is_wrong_with_an_address_and_never_repeat_its_password(tmp_path: Path) -> None:
    there = {"BLACKBOARD_DATA": str(tmp_path)}
    secret = {"BLACKBOARD_STORE": "postgresql://ann:s3cret@127.0.0.1:1/boards"}
    assert "postgresql://127.0.0.1:1/boards" in refused(there | secret, "compact")
    done = run(there | secret, "query")
    assert "s3cret" not in done.stderr
    assert "postgresql://127.0.0.1:1/boards did not answer" in done.stderr
    assert "PATH" not in refused(there | {"BLACKBOARD_STORE": "postgresql://h:x/y"}, "query")


@pytest.mark.parametrize(
    ("place", "cause"),
    [
        ("/nowhere", 'database "nowhere" does not exist'),
        ("/postgres?no_such=1", "no_such"),
        ("/postgres?sslmode=verify-full", "root.crt"),
    ],
    ids=["database", "parameter", "certificate"],
)
def test_whoever_launches_is_told_why_the_database_cannot_be_opened(
    tmp_path: Path, place: str, cause: str
) -> None:
    address = postgres_server.server().address.replace("/postgres", place)
    for words in (["serve"], ["boards"]):
        there = {"BLACKBOARD_DATA": str(tmp_path), "BLACKBOARD_STORE": address, "HOME": str(tmp_path)}
        done = run(there, *words)
        assert done.returncode == 1
        said_last = done.stderr.strip().splitlines()[-1]
        assert cause in said_last, done.stderr
        assert "Tell who runs the server" not in said_last
        assert "Traceback" not in done.stderr


def _schema(store: str) -> str:
    return store.rpartition("schema=")[2]


async def test_an_administrator_makes_the_schema_with_what_migrate_prints(tmp_path: Path) -> None:
    server = postgres_server.server()
    printed = said({"BLACKBOARD_DATA": str(tmp_path)}, "migrate", "--print", "0", "49")
    printed_later = said({"BLACKBOARD_DATA": str(tmp_path)}, "migrate", "--print", "49", str(newest()))
    server.sql("CREATE DATABASE printed")
    database = server.address.replace("/postgres", "/printed")
    server.sql(printed, "printed")
    server.sql(printed_later, "printed")
    server.sql("CREATE USER modest; GRANT USAGE ON SCHEMA blackboard TO modest", "printed")
    server.sql("GRANT ALL ON ALL TABLES IN SCHEMA blackboard TO modest", "printed")
    server.sql("GRANT ALL ON ALL SEQUENCES IN SCHEMA blackboard TO modest", "printed")
    there = {"BLACKBOARD_DATA": str(tmp_path), "BLACKBOARD_STORE": database.replace("blackboard@", "modest@")}
    assert "is at the newest schema; it has 0 boards" in said(there, "migrate")
    assert "posted fact F-1" in said(there, "post", "the pump is blue", "--agent", "ann")
    assert "warning postgres-fsync" in run(there, "doctor", "--quick").stdout
    assert f"there is no way from 7 to {newest()}" in refused(there, "migrate", "--print", "7", str(newest()))
