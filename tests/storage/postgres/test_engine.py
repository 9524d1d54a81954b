"""The PostgreSQL engine when things go wrong: lost connections, a killed server, other versions, several processes."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import asyncpg
import postgres_server
import pytest
from blackboard_mcp.protocols.errors import (
    Conflict,
    InvalidInput,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreTooNew,
)
from blackboard_mcp.storage.history.transfer import verify_board
from blackboard_mcp.storage.operations.ledger.rows import sql
from blackboard_mcp.storage.postgres import engine, migrating, session, writing
from blackboard_mcp.storage.postgres.address import Address
from blackboard_mcp.storage.postgres.engine import PostgresEngine
from blackboard_mcp.storage.postgres.session import Session
from blackboard_mcp.storage.postgres.store import open_postgres_store
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import CONFIG, Table, draft
from blackboard_mcp.storage.testing.kit import BoardStoreKit
from cutting_proxy import Proxy, proxy
from patience import PATIENCE

Steps = Generator[Any, Any, Any]


@pytest.fixture
async def address(tmp_path: Path) -> AsyncIterator[str]:
    yield postgres_server.address(tmp_path)
    postgres_server.give_back(tmp_path)


@pytest.fixture
async def store(address: str) -> AsyncIterator[SqlBoardStore]:
    opened = await open_postgres_store(address)
    yield opened
    await opened.close()


@asynccontextmanager
async def behind(address: str) -> AsyncIterator[tuple[SqlBoardStore, Proxy]]:
    """Yields a store that is connected through a proxy."""
    server = postgres_server.server()
    async with proxy(server.port) as between:
        opened = await open_postgres_store(address.replace(f":{server.port}/", f":{between.port}/"))
        try:
            yield opened, between
        finally:
            await opened.close()


def numbers(schema: str) -> list[int]:
    rows = postgres_server.server().sql(f"SELECT seq FROM {schema}.event ORDER BY seq")  # noqa: S608 - a name of ours
    return [int(row) for row in rows.split()]


def schema_of(address: str) -> str:
    return Address.parse(address).schema


async def test_many_callers_get_dense_sequences_in_the_order_of_their_commits(
    store: SqlBoardStore, address: str
) -> None:
    at = Table(store)
    posted = await asyncio.gather(*(at.post("alice", f"fact {n}", "FACT") for n in range(40)))
    assert sorted(item.number for item in posted) == list(range(1, 41))
    seen = numbers(schema_of(address))
    assert seen == list(range(1, len(seen) + 1))


async def test_an_error_in_a_shared_commit_undoes_its_own_operation_alone(store: SqlBoardStore) -> None:
    at = Table(store)
    await at.post("alice", "one", key="k", expected=0)
    calls = [at.post("alice", f"fact {n}", "FACT") for n in range(5)]
    calls[2:2] = [at.post("alice", "two", key="k", expected=0)]
    done = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(one).__name__ for one in done] == ["Item", "Item", "Conflict", "Item", "Item", "Item"]
    assert isinstance(done[2], Conflict)
    assert len(await at.query()) == 6


async def test_an_error_after_writes_in_a_shared_commit_undoes_those_writes_alone(
    store: SqlBoardStore,
) -> None:
    at = Table(store)
    await at.post("alice", "one", key="k", expected=0)
    half = at.batch("bob", draft("written first", "FACT"), draft("two", "FACT", key="k", expected=0))
    calls = [*(at.post("alice", f"before {n}", "FACT") for n in range(3)), half]
    calls += [at.post("alice", f"after {n}", "FACT") for n in range(3)]
    done = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(one, Conflict) for one in done] == [*[False] * 3, True, *[False] * 3]
    there = await at.query(limit=50)
    assert sorted(there) == list(range(1, 8))
    assert "written first" not in [(await at.item(number)).text for number in there]


async def test_two_stores_on_one_database_take_turns_and_lose_nothing(
    address: str, store: SqlBoardStore
) -> None:
    other = await open_postgres_store(address)
    try:
        await store.ensure_board("main", "alice", CONFIG)
        first, second = Table(store), Table(other)
        await asyncio.gather(
            *(first.post("alice", f"a{n}", "FACT") for n in range(25)),
            *(second.post("bob", f"b{n}", "FACT") for n in range(25)),
        )
        seen = numbers(schema_of(address))
        assert seen == list(range(1, len(seen) + 1))
        assert len(await first.query(limit=100)) == 50
    finally:
        await other.close()


async def test_a_commit_of_another_process_wakes_who_waits(address: str, store: SqlBoardStore) -> None:
    other = await open_postgres_store(address)
    try:
        await store.ensure_board("main", "alice", CONFIG)
        for n in range(5):
            seen = store.engine.changes()
            waiting = asyncio.create_task(store.engine.wait_for_change(seen, PATIENCE))
            await Table(other).post("bob", f"news {n}", "FACT")
            assert await waiting > seen
    finally:
        await other.close()


async def test_what_was_received_before_the_connection_closed_is_heard_after_it(address: str) -> None:
    words, missing = list[str](), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: missing.append(context))
    session = Session(Address.parse(address), "blackboard-mcp test")
    await session.open()
    both = asyncio.Event()

    def heard(told: str) -> None:
        session.drop()
        words.append(told)
        if len(words) == 2:
            both.set()

    await session.listen("blackboard_test", heard)
    await asyncio.to_thread(
        postgres_server.server().sql,
        "BEGIN; NOTIFY blackboard_test, 'one'; NOTIFY blackboard_test, 'two'; COMMIT",
    )
    async with asyncio.timeout(PATIENCE):
        while not (missing or both.is_set()):  # noqa: ASYNC110 - an error sets no event
            await asyncio.sleep(0.01)
    assert (words, missing) == (["one", "two"], [])


async def test_losing_every_notification_loses_nothing(
    address: str, store: SqlBoardStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await open_postgres_store(address)

    async def dropped() -> None:
        return None

    monkeypatch.setattr(other.engine.news, "_notify", dropped)
    try:
        await store.ensure_board("main", "alice", CONFIG)
        at = Table(store)
        for n in range(2):
            last = (await at.events())[-1].seq
            await Table(other).post("bob", f"news {n}", "FACT")
            async with asyncio.timeout(PATIENCE):
                while (await at.events())[-1].seq == last:
                    await store.engine.wait_for_change(store.engine.changes(), 1.0)
            seen = store.engine.changes()
            await store.engine.wait_for_change(seen - 1, PATIENCE)
    finally:
        await other.close()


async def test_a_store_behind_a_pooler_keeps_nothing_on_its_connections(address: str) -> None:
    pooled = await open_postgres_store(address + "&statement_cache_size=0")
    try:
        at, other = Table(pooled), None
        await at.post("alice", "one", key="k")
        await at.post("alice", "two", key="k", expected=1)
        assert (await at.item(1)).text == "two"
        other = await open_postgres_store(address)
        seen = pooled.engine.changes()
        waiting = asyncio.create_task(pooled.engine.wait_for_change(seen, PATIENCE))
        await Table(other).post("bob", "three", "FACT")
        assert await waiting > seen
        await other.close()
    finally:
        await pooled.close()


async def test_reads_and_writes_go_on_after_all_connections_were_cut(address: str) -> None:
    async with behind(address) as (store, between):
        at = Table(store)
        await at.post("alice", "before", "FACT")
        between.cut()
        assert await at.query() == [1]
        between.cut()
        await at.post("alice", "after", "FACT")
        assert await at.query() == [2, 1]


async def test_a_connection_cut_before_the_commit_applies_the_write_once(address: str) -> None:
    async with behind(address) as (store, between):
        at = Table(store)
        await at.post("alice", "before", "FACT")
        between.cut_before = b"COMMIT"
        assert (await at.post("alice", "after", "FACT")).number == 2
        assert between.cuts == 1
        assert await at.query() == [2, 1]
    assert numbers(schema_of(address)) == [1, 2, 3]


async def test_a_connection_cut_in_the_commit_is_answered_by_what_became_of_it(address: str) -> None:
    async with behind(address) as (store, between):
        at = Table(store)
        await at.post("alice", "before", "FACT")
        between.cut_after = b"COMMIT"
        assert (await at.post("alice", "after", "FACT")).number == 2
        assert between.cuts == 1
        assert await at.query() == [2, 1]
    assert numbers(schema_of(address)) == [1, 2, 3]


def _message(kind: bytes, severity: bytes, code: bytes) -> bytes:
    """Returns a message of the server's that tells of something, as it goes over a connection."""
    words = b"S%b\0V%b\0C%b\0Mterminating connection due to administrator command\0\0" % (
        severity,
        severity,
        code,
    )
    return kind + (len(words) + 4).to_bytes(4, "big") + words


async def _announce_the_end(store: SqlBoardStore, between: Proxy) -> None:
    """Has all connections told that they end, as by backends that were terminated and still clean up; returns then."""
    own = cast(PostgresEngine, store.engine)
    assert own.news.session is not None
    untold = {one._raw for one in (own._writer, *own._readers, own.news.session) if one.is_open}
    heard = asyncio.Event()

    def hear(connection: asyncpg.Connection, notice: object) -> None:
        untold.discard(connection)
        if not untold:
            heard.set()

    for raw in list(untold):
        assert raw is not None
        raw.add_log_listener(hear)
    # The notice comes with it, and the driver tells of notices.
    between.say(_message(b"N", b"NOTICE", b"00000") + _message(b"E", b"FATAL", b"57P01"))
    async with asyncio.timeout(PATIENCE):
        await heard.wait()


async def test_what_is_asked_of_a_connection_whose_end_was_announced_is_asked_again_on_another(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with behind(address) as (store, between):
        at, own = Table(store), cast(PostgresEngine, store.engine)
        await at.post("alice", "before", "FACT")
        await at.query()
        await _announce_the_end(store, between)
        assert (await at.post("alice", "after", "FACT")).number == 2
        assert await at.query() == [2, 1]
        given = own._end

        async def end(session: Session) -> None:
            await _announce_the_end(store, between)
            await given(session)

        monkeypatch.setattr(own, "_end", end)
        for _ in own._readers:
            await at.query()
        monkeypatch.setattr(own, "_end", given)
        assert await at.query() == [2, 1], "no connection is left for reading"
        await _announce_the_end(store, between)
        other = await open_postgres_store(address)
        try:
            seen = own.changes()
            waiting = asyncio.create_task(own.wait_for_change(seen, PATIENCE))
            await Table(other).post("bob", "news", "FACT")
            assert await waiting > seen, "nobody looks for news any more"
        finally:
            await other.close()
    assert numbers(schema_of(address)) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "failure", [IndexError("odd"), asyncio.CancelledError("odd")], ids=["error", "cancelled"]
)
async def test_news_come_again_after_whatever_listening_failed_with(
    address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, failure: BaseException
) -> None:
    store, other = await open_postgres_store(address), await open_postgres_store(address)
    try:
        own = cast(PostgresEngine, store.engine)
        failed = asyncio.Event()
        given, left = own.news._look, 2

        async def look() -> None:
            nonlocal left
            if not left:
                return await given()
            left -= 1
            failed.set()
            raise failure

        monkeypatch.setattr(own.news, "_look", look)
        await Table(other).post("bob", "wakes it", "FACT")
        async with asyncio.timeout(PATIENCE):
            await failed.wait()
        seen = own.changes()
        waiting = asyncio.create_task(own.wait_for_change(seen, PATIENCE))
        await Table(other).post("bob", "news", "FACT")
        assert await waiting > seen, "nobody looks for news any more"
        assert sum("odd" in record.message for record in caplog.records) == 1
    finally:
        await other.close()
        await store.close()


async def test_a_connection_that_could_not_be_located_is_made_anew(
    store: SqlBoardStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    news = cast(PostgresEngine, store.engine).news.session
    assert news is not None
    given, raised = news.locate, TimeoutError()

    async def locate() -> None:
        monkeypatch.setattr(news, "locate", given)
        raise raised

    async with cast(PostgresEngine, store.engine).news.speaking:
        news.drop()
        monkeypatch.setattr(news, "locate", locate)
        with pytest.raises(session.Lost):
            await news.open()
        assert not news.is_open, "it would count as one that listens"


async def test_a_commit_that_nobody_can_tell_of_says_so(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with behind(address) as (store, between):
        at = Table(store)
        await at.post("alice", "before", "FACT")

        async def unknown(*given: object) -> None:
            return None

        monkeypatch.setattr(store.engine._writing, "_state", unknown)
        between.cut_after = b"COMMIT"
        with pytest.raises(StoreError, match="idempotency_key"):
            await at.post("alice", "after", "FACT")
        # Whoever calls again without a key reads first, as it was told.
        assert await at.query() in ([1], [2, 1])


async def test_calls_that_shared_a_commit_nobody_can_tell_of_are_not_made_again(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with behind(address) as (store, between):
        at = Table(store)
        await at.post("alice", "before", "FACT")

        async def unknown(*given: object) -> None:
            return None

        monkeypatch.setattr(store.engine._writing, "_state", unknown)
        monkeypatch.setattr(writing, "_SPAN", PATIENCE)
        own = await asyncpg.connect(postgres_server.server().address)
        try:
            # While another has the lock of all writers, the calls come together.
            async with own.transaction():
                await own.execute(f"SELECT * FROM {schema_of(address)}.installation FOR UPDATE")  # noqa: S608 - ours
                calls = [asyncio.create_task(at.post("alice", f"after {n}", "FACT")) for n in range(4)]
                async with asyncio.timeout(PATIENCE):
                    while len(store.engine._writing._jobs) < 3:  # noqa: ASYNC110 - the calls set no event
                        await asyncio.sleep(0.001)
                between.cut_after = b"COMMIT"
            done = await asyncio.gather(*calls, return_exceptions=True)
        finally:
            await own.close()
        assert between.cuts == 1
        assert all(isinstance(one, StoreError) and "idempotency_key" in one.message for one in done)
        assert len(await at.query()) in (1, 5)


@pytest.mark.parametrize("pooled", ["", "&statement_cache_size=0"])
async def test_a_server_that_stalls_in_a_write_is_overtaken_and_makes_it_once_when_it_wakes(
    address: str, monkeypatch: pytest.MonkeyPatch, pooled: str
) -> None:
    monkeypatch.setattr(engine, "_STALLED", 0.5)
    stalled, other = await open_postgres_store(address + pooled), await open_postgres_store(address)
    try:
        await stalled.ensure_board("main", "alice", CONFIG)
        session = cast(PostgresEngine, stalled.engine)._writer
        given, reached, woken = session.execute, asyncio.Event(), asyncio.Event()

        async def execute(script: str) -> None:
            if script == "COMMIT" and not reached.is_set():
                reached.set()
                await woken.wait()
            await given(script)

        monkeypatch.setattr(session, "execute", execute)
        posting = asyncio.create_task(Table(stalled).post("alice", "slow", "FACT"))
        await reached.wait()
        assert (await Table(other).post("bob", "fast", "FACT")).number == 1
        woken.set()
        assert (await posting).number == 2
        assert await Table(other).query() == [2, 1]
    finally:
        await stalled.close()
        await other.close()


async def test_a_store_says_that_its_database_is_away_and_that_it_is_back(address: str) -> None:
    async with behind(address) as (store, between):
        assert store.health is None
        between.refusing = True
        between.cut()
        async with asyncio.timeout(PATIENCE):
            while store.health != "stopped":  # noqa: ASYNC110 - the engine looks by itself
                await asyncio.sleep(0.05)
        between.refusing = False
        async with asyncio.timeout(PATIENCE):
            while store.health is not None:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.05)
        await Table(store).post("alice", "again", "FACT")


async def test_a_server_that_stays_away_is_told_within_the_deadline_and_waited_for_again(
    address: str,
) -> None:
    server = postgres_server.server()
    async with proxy(server.port) as between:
        parsed = Address.parse(address.replace(f":{server.port}/", f":{between.port}/"))
        engine = await PostgresEngine.open(parsed, deadline=0.5)
        try:
            between.refusing = True
            between.cut()
            with pytest.raises(StoreBusy, match="Nothing was changed"):
                await engine.write(_touch)
            with pytest.raises(StoreBusy, match="Nothing was changed"):
                await engine.read(_count)
            between.refusing = False
            await engine.write(_touch)
            assert await engine.read(_count) == [(1,)]
        finally:
            await engine.close()


async def test_calls_that_wait_behind_one_without_an_answer_are_refused_at_their_own_deadline(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = await PostgresEngine.open(Address.parse(address), readers=1, deadline=0.5)
    answered, attempt, snapshot = asyncio.Event(), opened._writing._attempt, opened._snapshot

    async def write(group: Any, **given: Any) -> Any:
        await answered.wait()
        return await attempt(group, **given)

    async def read(*given: Any) -> Any:
        await answered.wait()
        return await snapshot(*given)

    monkeypatch.setattr(opened._writing, "_attempt", write)
    monkeypatch.setattr(opened, "_snapshot", read)
    try:
        first = [asyncio.create_task(opened.write(_touch)), asyncio.create_task(opened.read(_count))]
        await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE):
            others = (opened.write(_touch), opened.write(_touch), opened.read(_count))
            refused = await asyncio.gather(*others, return_exceptions=True)
        assert [type(one) for one in refused] == [StoreBusy] * 3, refused
        assert not any(task.done() for task in first)
        answered.set()
        await asyncio.gather(*first)
        assert await opened.read(_count) == [(1,)]
    finally:
        await opened.close()


async def test_writes_wait_beyond_the_deadline_while_the_database_takes_others(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_MEMBERS", 1)
    opened = await PostgresEngine.open(Address.parse(address), deadline=3.0)
    attempt = opened._writing._attempt

    async def slow(group: Any, **given: Any) -> Any:
        await asyncio.sleep(0.2)
        return await attempt(group, **given)

    monkeypatch.setattr(opened._writing, "_attempt", slow)
    try:
        await asyncio.gather(*(opened.write(_count) for _ in range(20)))
    finally:
        await opened.close()


async def test_a_killed_server_keeps_every_acknowledged_write(tmp_path: Path) -> None:
    # This one syncs, as a user's server does.
    server = await asyncio.to_thread(postgres_server.Server, ())
    try:
        store = await open_postgres_store(server.address)
        acknowledged: list[int] = []

        async def posting(agent: str) -> None:
            for n in range(10_000):
                try:
                    item = await Table(store).post(agent, f"{agent} {n}", "FACT")
                except StoreError:
                    continue
                acknowledged.append(item.number)

        writers = [asyncio.create_task(posting(name)) for name in ("alice", "bob", "carol")]
        for _ in range(3):
            enough = len(acknowledged) + 10
            async with asyncio.timeout(PATIENCE):
                while len(acknowledged) < enough:  # noqa: ASYNC110 - posts set no event
                    await asyncio.sleep(0.01)
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
        for writer in writers:
            writer.cancel()
        await asyncio.gather(*writers, return_exceptions=True)
        await store.close()
        there = {int(n) for n in server.sql("SELECT number FROM blackboard.item").split()}
        assert len(acknowledged) >= 30
        assert set(acknowledged) <= there
        seen = [int(n) for n in server.sql("SELECT seq FROM blackboard.event ORDER BY seq").split()]
        assert seen == list(range(1, len(seen) + 1))
    finally:
        await asyncio.to_thread(server.remove)


async def test_a_cancelled_write_is_made_or_was_never_begun(store: SqlBoardStore) -> None:
    at = Table(store)
    await at.post("alice", "first", "FACT")
    tasks = [asyncio.create_task(at.post("alice", f"fact {n}", "FACT")) for n in range(20)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    kept = [one for one in done if not isinstance(one, BaseException)]
    assert len(kept) == 10
    there = await at.query(limit=100)
    assert {item.number for item in kept} <= set(there)
    assert sorted(there) == list(range(1, len(there) + 1))


async def test_an_operation_that_writes_in_a_read_is_refused(store: SqlBoardStore) -> None:
    with pytest.raises(StoreError):
        await store.engine.read(_touch)
    await Table(store).post("alice", "still there", "FACT")


async def test_a_newer_schema_is_refused_at_the_next_write_and_at_start(
    address: str, store: SqlBoardStore
) -> None:
    await Table(store).post("alice", "one", "FACT")
    schema = schema_of(address)
    server = postgres_server.server()
    known = int(server.sql(f"SELECT schema FROM {schema}.installation"))  # noqa: S608 - a name of ours  # noqa: S608 - a name of ours
    server.sql(f"UPDATE {schema}.installation SET schema = {known + 1}")  # noqa: S608 - a name of ours
    try:
        with pytest.raises(StoreTooNew):
            await Table(store).post("alice", "two", "FACT")
        with pytest.raises(StoreTooNew):
            await open_postgres_store(address)
    finally:
        server.sql(f"UPDATE {schema}.installation SET schema = {known}")  # noqa: S608 - a name of ours


async def test_a_schema_of_something_else_is_left_alone() -> None:
    server = postgres_server.server()
    server.sql("CREATE SCHEMA IF NOT EXISTS theirs; CREATE TABLE IF NOT EXISTS theirs.item (n int)")
    with pytest.raises(StoreDamaged, match="another program"):
        await open_postgres_store(f"{server.address}?schema=theirs")
    assert server.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'theirs'") == "1"


async def test_eight_that_start_at_once_on_no_schema_all_succeed() -> None:
    server = postgres_server.server()
    stores = await asyncio.gather(
        *(open_postgres_store(f"{server.address}?schema=together") for _ in range(8))
    )
    try:
        await asyncio.gather(
            *(Table(one).post(f"agent{n}", f"fact {n}", "FACT") for n, one in enumerate(stores))
        )
        assert len(await Table(stores[0]).query()) == 8
    finally:
        await asyncio.gather(*(one.close() for one in stores))


async def test_tables_that_another_process_is_making_are_not_taken_for_those_of_another_program() -> None:
    server = postgres_server.server()
    making = await asyncpg.connect(server.address)
    try:
        await making.execute("CREATE SCHEMA half; CREATE TABLE half.item (n int)")
        await making.execute("SELECT pg_advisory_lock(hashtextextended('blackboard-mcp half', 0))")
        opening = asyncio.create_task(open_postgres_store(f"{server.address}?schema=half"))
        async with asyncio.timeout(60):
            while not await making.fetchval(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            ):
                assert not opening.done(), opening
                await asyncio.sleep(0.01)
        await making.execute("DROP SCHEMA half CASCADE")
    finally:
        await making.close()
    store = await opening
    await store.close()


ADDING = (58, 60)
"""Scripts that add columns which today's statements name. They may run again."""


@asynccontextmanager
async def older(
    schema: str, monkeypatch: pytest.MonkeyPatch, version: int = 52
) -> AsyncIterator[SqlBoardStore]:
    """Yields a store of an older version, which has made its schema and keeps to it; another comes to the newest."""
    known = migrating.scripts()
    made = {n: text for n, text in known.items() if n <= version}
    made[version] += "".join(known[n] for n in ADDING)
    with monkeypatch.context() as then:
        then.setattr(migrating, "scripts", lambda: made)
        then.setattr(migrating, "_DIALECTS", {})
        store = await open_postgres_store(f"{postgres_server.server().address}?schema={schema}")
    try:
        yield store
    finally:
        await store.close()


async def waiting_for_a_lock() -> None:
    server = postgres_server.server()
    async with asyncio.timeout(PATIENCE):
        while (  # noqa: ASYNC110 - the database sets no event
            await asyncio.to_thread(server.sql, "SELECT count(*) FROM pg_locks WHERE NOT granted") == "0"
        ):
            await asyncio.sleep(0.01)


async def test_a_migration_takes_the_lock_of_all_writers_first_and_they_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = postgres_server.server()
    async with older("upgraded", monkeypatch) as old:
        await Table(old).post("alice", "before", "FACT")
        writing = await asyncpg.connect(server.address)
        try:
            # As a post of the old server: the row of all writers first, its tables afterwards.
            await writing.execute("BEGIN; UPDATE upgraded.installation SET pulse = pulse + 1")
            opening = asyncio.create_task(open_postgres_store(f"{server.address}?schema=upgraded"))
            await waiting_for_a_lock()
            await writing.execute("SET LOCAL lock_timeout = '1s'")
            await writing.execute(
                "LOCK TABLE upgraded.finding, upgraded.item, upgraded.task IN ROW EXCLUSIVE MODE"
            )
            await writing.execute("COMMIT")
            new = await opening
        finally:
            await writing.close()
        try:
            await Table(new).post("alice", "after", "FACT")
            with pytest.raises(StoreTooNew):
                await Table(old).post("alice", "by the old one", "FACT")
        finally:
            await new.close()


async def test_a_migration_counts_anew_what_an_older_version_counted_as_it_is_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with older("counted_anew", monkeypatch, 55) as old:
        at = Table(old)
        await at.post("alice", "one \x1a\x1a0", key="k")
        await at.post("bob", "another \x1a", key="k")
        await at.post("carol", "plain")
        assert await verify_board(old, "main") != []
    new = await open_postgres_store(f"{postgres_server.server().address}?schema=counted_anew")
    try:
        assert await verify_board(new, "main") == []
    finally:
        await new.close()


async def test_a_migration_waits_for_a_dump_and_says_so_if_it_does_not_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(migrating, "_SECONDS", 1)
    monkeypatch.setattr(migrating, "_PAUSE", 0.1)
    monkeypatch.setattr(session, "ASKED_SECONDS", 0.9)
    server = postgres_server.server()
    async with older("dumped", monkeypatch) as old:
        await Table(old).post("alice", "before", "FACT")
        dump = await asyncpg.connect(server.address)
        try:
            await dump.execute("BEGIN; SELECT count(*) FROM dumped.index_reader")
            with monkeypatch.context() as soon:
                soon.setattr(migrating, "_TRIES", 2)
                with pytest.raises(StoreBusy, match=r"such as a dump.*Nothing was changed"):
                    await open_postgres_store(f"{server.address}?schema=dumped")
            monkeypatch.setattr(migrating, "_TRIES", 1_000)
            opening = asyncio.create_task(open_postgres_store(f"{server.address}?schema=dumped"))
            await waiting_for_a_lock()
        finally:
            await dump.close()
        await (await opening).close()


async def test_a_new_schema_is_counted_after_its_first_commits() -> None:
    server = postgres_server.server()
    store = await open_postgres_store(f"{server.address}?schema=counted")
    try:
        table = Table(store)
        for n in range(25):
            await table.post("alice", f"fact {n}", "FACT")
        rows = "SELECT reltuples FROM pg_class WHERE oid = 'counted.item'::regclass"
        async with asyncio.timeout(PATIENCE):
            # A table that the server itself counts in that moment is left to the next milestone.
            while float(await asyncio.to_thread(server.sql, rows)) < 15:
                await table.post("alice", f"fact {(n := n + 1)}", "FACT")
    finally:
        await store.close()


SLOW = """
CREATE FUNCTION slow.waits(n bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
IF EXISTS (SELECT 1 FROM pg_catalog.pg_stat_activity
           WHERE pid = pg_catalog.pg_backend_pid() AND query LIKE 'ANALYZE%') THEN
    PERFORM pg_catalog.pg_advisory_xact_lock_shared(77); END IF;
RETURN n; END $$;
CREATE INDEX item_waits ON slow.item (slow.waits(number))
"""


async def test_news_goes_on_while_the_server_counts_large_tables() -> None:
    server = postgres_server.server()
    address = f"{server.address}?schema=slow"
    store, other = await open_postgres_store(address), await open_postgres_store(address)
    counting = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'ANALYZE%slow.%' AND state = 'active'"
    holder = await asyncpg.connect(server.address)
    try:
        server.sql(SLOW)
        await holder.execute("SELECT pg_advisory_lock(77)")
        table, heard = Table(store), asyncio.Event()
        other.engine.news.heard = lambda words: heard.set()
        async with asyncio.timeout(PATIENCE):
            while not int(await asyncio.to_thread(server.sql, counting)):
                await table.post("alice", "a fact", "FACT")
            await store.engine.news.tell("anybody there?")
            await heard.wait()
        assert int(await asyncio.to_thread(server.sql, counting)), "it was told meanwhile"
        await holder.execute("SELECT pg_advisory_unlock(77)")
        async with asyncio.timeout(PATIENCE):
            rows = "SELECT reltuples FROM pg_class WHERE oid = 'slow.item'::regclass"
            while float(await asyncio.to_thread(server.sql, rows)) <= 0:
                await table.post("alice", "a fact", "FACT")
    finally:
        await holder.close()
        await store.close()
        await other.close()


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("said_before", (1, "sha", "alice", "FACT", "", "sha")),
        ("same_findings", (1, "sha", "FACT", "alice")),
        ("findings_alike", (1, "sha", "outline", "FACT", 1, '["word"]')),
        ("unseen", (1, 0, 1, "alice", "[]", "[]", "[]", 20)),
        ("unseen_few", (1, 0, 1, "alice")),
        ("items_by_number", (1, "[1, 2]", "alice")),
    ],
)
async def test_statements_go_by_indexes_from_the_first_item_on(
    store: SqlBoardStore, name: str, values: tuple[Any, ...]
) -> None:
    def plan() -> Steps:
        return (yield f"EXPLAIN {sql(name)}", values)

    await Table(store).post("alice", "the only one", "FACT")
    for run in (store.engine.read, store.engine.write):
        plans = "\n".join(line for (line,) in await run(plan))
        assert "Index" in plans
        for never in ("Seq Scan", "Hash Join", "Merge Join", "Function Scan on json_each"):
            assert never not in plans, plans


async def test_a_closed_store_says_so(address: str) -> None:
    store = await open_postgres_store(address)
    await store.close()
    with pytest.raises(StoreClosed):
        await store.find_board("main")


async def test_a_server_that_refuses_the_user_is_told_without_the_password(address: str) -> None:
    server = postgres_server.server()
    wrong = f"postgresql://nobody:secret-word@127.0.0.1:{server.port}/postgres"
    with pytest.raises(StoreError) as told:
        await open_postgres_store(wrong)
    assert "secret-word" not in str(told.value)
    assert "nobody" in str(told.value)


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://host:port/db",
        "mysql://host/db",
        "postgresql://host/db?schema=Pg-Name",
        "postgresql://u:hidden@host/db?statement_cache_size=100",
        "postgresql://u:hidden@host/db?sslmode=verify-full&sslrootcert=/no/such/root.crt",
        "postgresql://u:hidden@host/db?sslmode=verify-full&sslrootcert=system",
    ],
)
def test_a_wrong_address_is_refused_with_the_form_and_without_the_password(text: str) -> None:
    with pytest.raises(InvalidInput, match="postgresql://USER@HOST:PORT/DATABASE") as told:
        Address.parse(text)
    assert "hidden" not in str(told.value)


def _touch() -> Steps:
    yield "INSERT INTO lease(name, holder, until) VALUES (?1, ?2, ?3)", ("touched", "me", 1)


def _count() -> Steps:
    return (yield "SELECT count(*) FROM lease", ())


async def test_a_server_hears_the_others_whatever_it_tells_them_while_it_connects(
    address: str, store: SqlBoardStore
) -> None:
    speaking = cast(PostgresEngine, store.engine).news
    for _ in range(5):
        other = await open_postgres_store(address)
        try:
            hearing, heard = cast(PostgresEngine, other.engine).news, asyncio.Event()
            hearing.heard = lambda words, heard=heard: heard.set()  # type: ignore[misc]
            until_then = time.monotonic() + PATIENCE
            while not heard.is_set() and time.monotonic() < until_then:
                await asyncio.gather(hearing.tell("I begin"), speaking.tell("Hello"), asyncio.sleep(0))
            assert heard.is_set()
        finally:
            await other.close()


async def test_a_server_whose_clock_is_a_month_ahead_strikes_no_index_off(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    readers = f"SELECT count(*) FROM {schema_of(address)}.index_reader"  # noqa: S608 - a name of ours
    store = await open_postgres_store(address, folder=tmp_path / "one")
    try:
        right = time.time_ns
        with monkeypatch.context() as wrong:
            wrong.setattr(time, "time_ns", lambda: right() + 31 * 86_400_000_000_000)
            await (await open_postgres_store(address, folder=tmp_path / "two")).close()
        assert postgres_server.server().sql(readers) == "2"
    finally:
        await store.close()


@pytest.mark.parametrize("pooled", ["", "&statement_cache_size=0"])
async def test_a_clock_that_is_set_while_the_server_runs_is_allowed_for(
    address: str, monkeypatch: pytest.MonkeyPatch, pooled: str
) -> None:
    store = await open_postgres_store(address + pooled)
    at, right = cast(PostgresEngine, store.engine).news, time.time
    try:
        assert abs(at.ahead) < PATIENCE
        with monkeypatch.context() as late:
            late.setattr(time, "time", lambda: right() - 10 * PATIENCE)
            async with asyncio.timeout(PATIENCE):
                while at.ahead < 9 * PATIENCE:  # noqa: ASYNC110 - the engine looks by itself
                    await asyncio.sleep(0.05)
    finally:
        await store.close()


async def test_an_index_that_is_noted_while_the_list_is_read_was_not_struck_off(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_postgres_store(address)
    news = cast(PostgresEngine, store.engine).news
    assert news.session is not None
    struck, looked, given = list[str](), asyncio.Event(), news.session.fetch

    async def fetch(*asked: Any) -> Any:
        ((pulse, schema, _, there),), did = await given(*asked)
        news._registered = 1.0
        looked.set()
        return [(pulse, schema, False, there)], did

    try:
        async with news.speaking:
            news._registered = float("inf")
            news.struck = lambda: struck.append("struck off")
            monkeypatch.setattr(news.session, "fetch", fetch)
        await news._look()
        assert looked.is_set()
        assert not struck
    finally:
        monkeypatch.undo()
        await store.close()


@pytest.mark.parametrize("pooled", ["", "&statement_cache_size=0"])
async def test_a_server_whose_index_was_struck_off_notes_it_again_and_says_so(
    address: str, pooled: str
) -> None:
    readers = f"{schema_of(address)}.index_reader"
    store = await open_postgres_store(address + pooled)
    struck = asyncio.Event()
    cast(PostgresEngine, store.engine).news.struck = struck.set
    try:
        postgres_server.server().sql(f"DELETE FROM {readers}")  # noqa: S608 - a name of ours
        async with asyncio.timeout(PATIENCE):
            await struck.wait()
        assert postgres_server.server().sql(f"SELECT id FROM {readers}") == "main"  # noqa: S608 - a name of ours
    finally:
        await store.close()


@pytest.mark.parametrize(
    "check",
    [
        "test_both_handles_write_one_gapless_log",
        "test_of_writers_over_both_handles_one_wins",
        "test_an_idempotency_key_holds_over_both_handles",
    ],
)
async def test_the_kit_sees_writers_that_take_no_lock(
    address: str, monkeypatch: pytest.MonkeyPatch, check: str
) -> None:
    """Without the mistake the checks pass: `test_kit.py` runs them. Writers that do not meet by chance try again."""
    unlocked = "SELECT schema, pg_current_xact_id()::text, pulse, place, tableoid::bigint FROM installation"
    one, two = await open_postgres_store(address), await open_postgres_store(address)
    try:
        boards = [f"board{n}" for n in range(30)]
        for board in boards:
            await one.ensure_board(board, "alice", CONFIG)
        monkeypatch.setattr(writing, "_LOCK", unlocked)
        # Posts that run together are made again one by one where they clash, which would hide the mistake.
        monkeypatch.setattr(writing, "_batch_of", lambda job: None)

        async def everywhere() -> None:
            for board in boards:
                await getattr(BoardStoreKit(), check)((Table(one, board), Table(two, board)))

        with pytest.raises((AssertionError, StoreError)):
            await everywhere()
    finally:
        await one.close()
        await two.close()


UNCLOSED = """
import asyncio, sys
from blackboard_mcp.storage.postgres.store import open_postgres_store
from blackboard_mcp.storage.testing.harness import Table

async def main(address, slow):
    store = await open_postgres_store(address)
    given, reached = store.engine._writer.execute, asyncio.Event()

    async def execute(statement, *args):
        if statement.startswith(slow):
            reached.set()
            await asyncio.Event().wait()
        return await given(statement, *args)

    store.engine._writer.execute = execute
    posting = asyncio.create_task(Table(store).post("alice", "a"))
    await reached.wait()
    raise SystemExit("the loop ends")

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("slow", ["BEGIN", "COMMIT"])
async def test_a_loop_that_ends_without_closing_the_store_ends(address: str, slow: str) -> None:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", UNCLOSED, address, slow, stderr=asyncio.subprocess.PIPE
    )
    try:
        _, said = await asyncio.wait_for(child.communicate(), PATIENCE)
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    # asyncpg may say after it that its own asking to cancel was not over.
    assert (child.returncode, "the loop ends" in said.decode().splitlines()) == (1, True), said.decode()
