"""What a database does to servers: a full disk, no connection left, no answer, a standby promoted, another clock."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import asyncpg
import postgres_server
import pytest
from blackboard_mcp.protocols.clock import SystemClock
from blackboard_mcp.protocols.errors import CursorExpired, StoreBusy, StoreError, StoreFull
from blackboard_mcp.protocols.metering import METER, Meter
from blackboard_mcp.storage.postgres import news, session, writing
from blackboard_mcp.storage.postgres.address import Address
from blackboard_mcp.storage.postgres.engine import PostgresEngine
from blackboard_mcp.storage.postgres.store import open_postgres_store
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import CONFIG, Table
from cutting_proxy import Proxy, proxy
from injecting import Server, tool
from moved_clock import Clock, needs_faketime
from patience import PATIENCE
from ports import free_port
from small_disk import fill, small_disk

FAST = postgres_server.FAST
HASTY = 1.0
"""The seconds within which a store of these tests gives up."""


@asynccontextmanager
async def opened(address: str) -> AsyncIterator[SqlBoardStore]:
    """Yields a store that gives up soon."""
    store = SqlBoardStore(await PostgresEngine.open(Address.parse(address), deadline=HASTY), SystemClock())
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def behind(folder: Path) -> AsyncIterator[tuple[SqlBoardStore, Proxy]]:
    """Yields a store that is connected through a proxy."""
    address, port = postgres_server.address(folder), postgres_server.server().port
    async with proxy(port) as between, opened(address.replace(f":{port}/", f":{between.port}/")) as store:
        yield store, between
    postgres_server.give_back(folder)


def seqs(server: postgres_server.Server, schema: str = "blackboard") -> list[int]:
    return [int(n) for n in server.sql(f"SELECT seq FROM {schema}.event ORDER BY seq").split()]  # noqa: S608 - ours


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A small disk, on which servers of PostgreSQL are made."""
    if sys.platform != "linux":
        pytest.skip("tmpfs is of Linux")
    folder = Path(tempfile.mkdtemp(prefix="blackboard-disk-"))
    folder.chmod(0o755)
    try:
        with small_disk(folder / "disk", "160m") as mounted:
            monkeypatch.setattr(tempfile, "tempdir", str(mounted))
            yield mounted
    finally:
        shutil.rmtree(folder)


async def test_a_full_disk_of_the_database_refuses_writes_and_room_is_all_it_takes(disk: Path) -> None:
    server = await asyncio.to_thread(
        postgres_server.Server, (*FAST, "max_wal_size=32MB", "min_wal_size=32MB")
    )
    try:
        async with opened(server.address) as store:
            at, kept = Table(store), list[int]()
            kept.append((await at.post("alice", "before", "FACT")).number)
            filler = await asyncio.to_thread(fill, disk)
            with pytest.raises(StoreFull, match="no room on the database's disk"):
                await _fill_up(at, kept)
            assert sorted(await at.query(limit=200))[-5:] == kept[-5:], "reading goes on"
            # Without room for its log the server itself stops.
            with pytest.raises(AssertionError):
                _switch_logs(server)
            with pytest.raises((StoreBusy, StoreFull)):
                await at.post("alice", "while it is away", "FACT")
            filler.unlink()
            await asyncio.to_thread(server.stop, signal.SIGQUIT)
            await asyncio.to_thread(server.start)
            kept.append((await at.post("alice", "after", "FACT")).number)
        there = {int(n) for n in server.sql("SELECT number FROM blackboard.item").split()}
        assert set(kept) <= there
        assert seqs(server) == list(range(1, len(seqs(server)) + 1))
    finally:
        await asyncio.to_thread(server.remove)


async def _fill_up(at: Table, kept: list[int]) -> None:
    for n in range(1_000):
        kept.append((await at.post("alice", f"{n} " + "much " * 500, "FACT")).number)


def _switch_logs(server: postgres_server.Server) -> None:
    server.sql("CREATE TABLE public.written(n int)")
    for n in range(100):
        server.sql(f"SELECT pg_switch_wal(); INSERT INTO public.written VALUES ({n})")  # noqa: S608 - a number


async def test_when_the_database_refuses_200_connections_callers_are_told_and_nothing_is_lost() -> None:
    server = await asyncio.to_thread(postgres_server.Server, (*FAST, "max_connections=20"))
    held: list[asyncpg.Connection] = []
    try:
        async with opened(server.address) as store:
            at = Table(store)
            await at.post("alice", "before", "FACT")
            first = await asyncpg.connect(server.address)
            held.append(first)
            await first.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'blackboard-mcp%'"
            )
            asked = await asyncio.gather(
                *(asyncpg.connect(server.address) for _ in range(200)), return_exceptions=True
            )
            held += [one for one in asked if isinstance(one, asyncpg.Connection)]
            refused = [one for one in asked if isinstance(one, BaseException)]
            assert len(refused) >= 180
            assert {type(one) for one in refused} == {asyncpg.TooManyConnectionsError}
            with pytest.raises(StoreBusy, match="Nothing was changed"):
                await at.post("alice", "no room", "FACT")
            with pytest.raises(StoreBusy, match="did not answer within"):
                async with opened(server.address):
                    pass
            for one in held:
                await one.close()
            after = await at.post("alice", "after", "FACT")
            assert await at.query() == [after.number, 1]
        assert seqs(server) == [1, 2, 3]
    finally:
        await asyncio.to_thread(server.remove)


async def test_a_slow_database_serves_everybody_in_order(tmp_path: Path) -> None:
    async with behind(tmp_path) as (store, between):
        at = Table(store)
        await at.post("alice", "before", "FACT")
        between.delay = 0.02
        posted = await asyncio.gather(*(at.post("alice", f"fact {n}", "FACT") for n in range(10)))
        assert sorted(item.number for item in posted) == list(range(2, 12))
        assert len(await at.query(limit=50)) == 11


async def test_a_database_that_stalls_counts_as_little_of_its_callers_work(tmp_path: Path) -> None:
    async with behind(tmp_path) as (store, between):
        at = Table(store)
        await at.post("alice", "before", "FACT")
        between.delay = 4 * writing._MOST_COUNTED
        for call in (at.query, lambda: at.post("alice", "during", "FACT")):
            token = METER.set(meter := Meter())
            await call()
            METER.reset(token)
            assert meter.seconds == writing._MOST_COUNTED


async def _posted(at: Table, text: str) -> int:
    """Posts a fact, again for as long as a busy machine answers too late, and returns its number."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(StoreBusy):
                return (await at.post("alice", text, "FACT")).number


async def test_a_commit_whose_answer_never_comes_is_found_to_have_been_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "ASKED_SECONDS", 1.0)
    async with behind(tmp_path) as (store, between):
        at = Table(store)
        await _posted(at, "before")
        between.silent_after = b"COMMIT"
        assert await _posted(at, "after") == 2
        assert between.silent_after is None
        assert await at.query() == [2, 1]
        # A statement without an answer changes nothing, and the writer goes on.
        between.silent_after = b"BEGIN\0"
        with pytest.raises(StoreBusy, match="Nothing was changed"):
            await at.post("alice", "unanswered", "FACT")
        assert await _posted(at, "again") == 3


async def test_a_server_whose_notification_was_not_answered_goes_on_to_notify_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "ASKED_SECONDS", 1.0)
    connections = set[int]()
    listener = await asyncpg.connect(postgres_server.server().address)
    try:
        await listener.add_listener(
            news.CHANNEL, lambda listening, sender, channel, schema: connections.add(sender)
        )
        async with behind(tmp_path) as (store, between), asyncio.timeout(PATIENCE):
            at = Table(store)
            while not connections:  # the one for news opens by itself
                await at.post("alice", "before", "LOG")
            between.silent_after = b"NOTIFY"
            while len(connections) == 1:  # until another one took its place
                await at.post("alice", "not answered at first", "LOG")
                await asyncio.sleep(0.01)
            assert between.silent_after is None
    finally:
        await listener.close()


async def test_a_connection_for_news_whose_database_is_gone_unseen_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(news, "_UNHEARD", 1.0)
    async with behind(tmp_path) as (store, between), asyncio.timeout(PATIENCE):
        at = Table(store)
        await at.post("alice", "before", "LOG")
        look = news._LOOK[:20].encode()  # its words are sent once on each connection
        between.silent_after = look
        between.cut()
        for _ in range(2):
            while between.silent_after is not None:  # noqa: ASYNC110 - the proxy sets no event
                await asyncio.sleep(0.01)
            between.silent_after = look


@pytest.mark.parametrize("all_of_it", [True, False], ids=["the server", "one process"])
async def test_a_commit_lost_in_a_crash_is_not_taken_for_anothers_that_got_its_number(
    monkeypatch: pytest.MonkeyPatch, all_of_it: bool
) -> None:
    # Only commits write the log to the disk, so that the crash loses what is not committed.
    server = await asyncio.to_thread(postgres_server.Server, ("wal_writer_delay=10s", "autovacuum=off"))
    try:
        store, other = (
            await open_postgres_store(server.address),
            await open_postgres_store(server.address),
        )
        try:
            at, beside = Table(store), Table(other)
            await at.post("alice", "before", "FACT")
            await beside.post("bob", "before as well", "FACT")
            own = cast(PostgresEngine, store.engine)
            given = own._writer.execute

            async def execute(script: str) -> None:
                if script != "COMMIT":
                    return await given(script)
                ours = int(await own._writer._connection().fetchval("SELECT pg_current_xact_id()::text"))
                await asyncio.to_thread(_crash, server, all_of_it)
                while await asyncio.to_thread(_next_number, server) <= ours:
                    await beside.post("bob", "gets a number", "LOG")
                if (
                    await asyncio.to_thread(server.sql, f"SELECT pg_xact_status('{ours}'::text::xid8)")
                    == "committed"
                ):
                    monkeypatch.undo()  # else the number went to what was undone as well, and the post is tried again
                own._writer.drop()
                raise session.Lost("it crashed")

            monkeypatch.setattr(own._writer, "execute", execute)
            with pytest.raises(StoreError, match="nobody can tell"):
                await at.post("alice", "lost", "FACT")
            assert "lost" not in {(await at.item(number)).text for number in await at.query(limit=200)}
        finally:
            await store.close()
            await other.close()
    finally:
        await asyncio.to_thread(server.remove)


def _crash(server: postgres_server.Server, all_of_it: bool) -> None:
    """Kills a server and starts it, or kills one process of it, after which it recovers and serves on."""
    if all_of_it:
        server.kill()
        server.start()
        return
    process = int(server.sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'"))
    os.kill(process, signal.SIGKILL)
    until = time.monotonic() + PATIENCE
    while True:
        assert time.monotonic() < until
        with contextlib.suppress(AssertionError):
            now = server.sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'")
            if now and int(now) != process:
                return
        time.sleep(0.05)


def _next_number(server: postgres_server.Server) -> int:
    """Returns the number that the next transaction gets."""
    return int(server.sql("SELECT pg_snapshot_xmax(pg_current_snapshot())"))


async def test_a_running_server_goes_on_with_a_promoted_standby_in_a_new_epoch() -> None:
    first = await asyncio.to_thread(postgres_server.Server)
    second: postgres_server.Server | None = None
    port = free_port()
    address = f"postgresql://blackboard@127.0.0.1:{first.port},127.0.0.1:{port}/postgres"
    try:
        store = await open_postgres_store(f"{address}?target_session_attrs=read-write")
        try:
            at = Table(store)
            await at.post("alice", "kept", "FACT")
            second = await asyncio.to_thread(postgres_server.Server.standby, first)
            second.port = port
            lost = await at.post("alice", "the standby has not received it", "FACT")
            await asyncio.to_thread(first.kill)
            await asyncio.to_thread(second.promote)
            again = await at.post("alice", "after the failover", "FACT")
            assert (await at.item(2)).text == "after the failover"
            assert again.seq > lost.seq + 1_000, "a sequence was given twice"
            with pytest.raises(CursorExpired):
                await store.end_of_log("main", lost.seq)
        finally:
            await store.close()
    finally:
        for one in (first, second):
            if one is not None:
                await asyncio.to_thread(one.remove)


async def test_a_restored_dump_begins_a_new_epoch(tmp_path: Path) -> None:
    server = await asyncio.to_thread(postgres_server.Server)
    try:
        async with opened(server.address) as store:
            at = Table(store)
            for n in range(3):
                await at.post("alice", f"kept {n}", "FACT")
            dump = server.folder / "boards.dump"
            access = ("-h", "127.0.0.1", "-p", str(server.port), "-U", "blackboard")
            server._run("pg_dump", *access, "-Fc", "--schema=blackboard", "-f", str(dump), "postgres")
            lost = await at.post("alice", "not in the dump", "FACT")
            place = lost.seq
        server.sql("CREATE DATABASE restored")
        server._run("pg_restore", *access, "-d", "restored", str(dump))
        async with opened(server.address.replace("/postgres", "/restored")) as store:
            at = Table(store)
            again = await at.post("alice", "after the restore", "FACT")
            assert again.number == lost.number
            assert again.seq > place + 1_000, "a sequence was given twice"
            with pytest.raises(CursorExpired) as told:
                await store.end_of_log("main", place)
            assert told.value.facts["restored_after"] == place - 1
            events = (await store.log("main", "alice", place - 1, 10)).events
            assert [event.event for event in events] == ["board.restored", "item.posted"]
        # And over itself: into the database it came from, whose tables are others then.
        server.sql("DROP SCHEMA blackboard CASCADE")
        server._run("pg_restore", *access, "-d", "postgres", str(dump))
        async with opened(server.address) as store:
            assert (await Table(store).post("alice", "after the other", "FACT")).seq > place + 1_000
        # And under two servers that run on what was dumped.
        async with opened(server.address) as store, opened(server.address) as other:
            await Table(store).post("alice", "in the new dump", "FACT")
            dump.unlink()
            server._run("pg_dump", *access, "-Fc", "--schema=blackboard", "-f", str(dump), "postgres")
            place = (await Table(store).post("alice", "neither in the dump", "FACT")).seq
            await Table(other).post("bob", "nor this", "FACT")
            server.sql("DROP SCHEMA blackboard CASCADE")
            server._run("pg_restore", *access, "-1", "-d", "postgres", str(dump))
            first = await Table(store).post("alice", "after that", "FACT")
            assert first.seq > place + 1_000
            assert (await Table(other).post("bob", "and on", "FACT")).seq == first.seq + 1
    finally:
        await asyncio.to_thread(server.remove)


def test_servers_whose_clocks_differ_go_by_the_databases(tmp_path: Path) -> None:
    needs_faketime()
    store = postgres_server.address(tmp_path)
    schema = Address.parse(store).schema
    clock = Clock(tmp_path)
    clock.set(7_200)
    late = Server(tmp_path / "late", tmp_path / "late.log", "--store", store)
    ahead = Server(tmp_path / "ahead", tmp_path / "ahead.log", "--store", store, "--tools", "all")
    try:
        late.start()
        ahead.start(*clock.before)
        for n in range(3):
            tool(late.wire, "post", text=f"late {n}", type="FACT", ttl_seconds=3_600)
            tool(ahead.wire, "post", text=f"ahead {n}", type="FACT", ttl_seconds=3_600)
        tool(ahead.wire, "prune")
        server = postgres_server.server()
        rows = f"SELECT seq, at / 1000000 - extract(epoch FROM now()) FROM {schema}.event ORDER BY seq"  # noqa: S608
        told = [line.split("|") for line in server.sql(rows).splitlines()]
        assert [int(seq) for seq, _ in told] == list(range(1, len(told) + 1))
        assert all(abs(float(apart)) < 10 * PATIENCE for _, apart in told)
        left = server.sql(f"SELECT count(*) FROM {schema}.item WHERE zone <> 'working'")  # noqa: S608 - ours
        assert left == "0", "the clock of one server ended what was to live for an hour"
    finally:
        late.abandon()
        ahead.abandon()
        postgres_server.give_back(tmp_path)


@asynccontextmanager
async def pooler(server: postgres_server.Server) -> AsyncIterator[int]:
    """Yields the port of a PgBouncer that lends connections for a transaction each, and few of them."""
    program = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")
    if program is None:
        pytest.skip("PgBouncer is not installed")
    port = free_port()
    file = server.folder / "pgbouncer.ini"
    file.write_text(
        f"[databases]\n* = host=127.0.0.1 port={server.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 3\n"
        "server_login_retry = 1\nunix_socket_dir =\n"
    )
    file.write_text(file.read_text().replace("* = host", "postgres = user=blackboard host"))
    file.chmod(0o644)
    process = await asyncio.create_subprocess_exec(
        program, str(file), user=server._user, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    (await asyncio.open_connection("127.0.0.1", port))[1].close()
                    break
                except OSError:
                    await asyncio.sleep(0.02)
        yield port
    finally:
        process.terminate()
        await process.wait()


async def test_a_standby_that_is_promoted_behind_a_pooler_begins_a_new_epoch() -> None:
    first = await asyncio.to_thread(postgres_server.Server)
    second: postgres_server.Server | None = None
    try:
        async with pooler(first) as port:
            pooled = first.address.replace(f":{first.port}/", f":{port}/") + "?statement_cache_size=0"
            store = await open_postgres_store(pooled)
            try:
                at = Table(store)
                await at.post("alice", "kept", "FACT")
                second = await asyncio.to_thread(postgres_server.Server.standby, first)
                second.port = first.port
                lost = await at.post("alice", "the standby has not received it", "FACT")
                await asyncio.to_thread(first.kill)
                await asyncio.to_thread(second.promote)
                again = await at.post("alice", "after the failover", "FACT")
                assert again.seq > lost.seq + 1_000, "a sequence was given twice"
                with pytest.raises(CursorExpired):
                    await store.end_of_log("main", lost.seq)
            finally:
                await store.close()
    finally:
        for one in (first, second):
            if one is not None:
                await asyncio.to_thread(one.remove)


async def test_two_servers_work_behind_a_transaction_pooler(tmp_path: Path) -> None:
    server = postgres_server.server()
    direct = postgres_server.address(tmp_path)
    async with pooler(server) as port:
        pooled = direct.replace(f":{server.port}/", f":{port}/") + "&statement_cache_size=0"
        one = await open_postgres_store(f"{pooled}&listen={server.address}")
        other = await open_postgres_store(pooled)
        try:
            await one.ensure_board("main", "alice", CONFIG)
            first, second = Table(one), Table(other)
            await asyncio.gather(
                *(first.post("alice", f"a{n}", "FACT") for n in range(10)),
                *(second.post("bob", f"b{n}", "FACT") for n in range(10)),
                *(first.query() for _ in range(10)),
            )
            assert len(await second.query(limit=50)) == 20
            for hearing, telling in ((one, second), (other, first)):
                seen = hearing.engine.changes()
                waiting = asyncio.create_task(hearing.engine.wait_for_change(seen, PATIENCE))
                await telling.post("carol", "news", "LOG")
                assert await waiting > seen
        finally:
            await one.close()
            await other.close()
    schema = Address.parse(direct).schema
    assert seqs(server, schema) == list(range(1, len(seqs(server, schema)) + 1))
    postgres_server.give_back(tmp_path)
