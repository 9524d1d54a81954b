"""The engine inside one process: transactions, isolation, cancellation, waiting, errors, closing."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import stat
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.errors import (
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreTooNew,
)
from blackboard_mcp.protocols.metering import METER, Meter
from blackboard_mcp.storage.sqlite import driver, migrate, place
from blackboard_mcp.storage.sqlite import engine as engine_module
from blackboard_mcp.storage.sqlite import group as group_module
from blackboard_mcp.storage.sqlite.engine import SqliteEngine
from blackboard_mcp.storage.sqlite.group import GroupWriter, Job
from patience import PATIENCE

MIGRATIONS = [
    """
    CREATE TABLE entry(n INTEGER PRIMARY KEY, text TEXT);
    CREATE TABLE reply(n INTEGER PRIMARY KEY,
                       entry INTEGER REFERENCES entry(n) DEFERRABLE INITIALLY DEFERRED);
    CREATE TABLE half(n INTEGER PRIMARY KEY);
    """
]
APPLICATION = 0x626F6172
Steps = Generator[tuple[str, tuple[Any, ...]], list[tuple[Any, ...]], Any]


def post(
    n: int | None = None, text: str = "", *, then: Callable[[], object] | None = None
) -> Callable[[], Steps]:
    """Two rows that must stand or fall together; `then` runs between them."""

    def operation() -> Steps:
        rows = yield "INSERT INTO entry(n, text) VALUES (?1, ?2) RETURNING n", (n, text)
        if then is not None:
            then()
        yield "INSERT INTO half(n) VALUES (?)", rows[0]
        return rows[0][0]

    return operation


def ask(sql: str, *parameters: Any) -> Callable[[], Steps]:
    def operation() -> Steps:
        return (yield sql, parameters)

    return operation


ENTRIES = ask("SELECT n FROM entry ORDER BY n")
HALVES = ask("SELECT n FROM half ORDER BY n")


async def open_engine(path: Path | None, **changed: Any) -> SqliteEngine:
    settings: dict[str, Any] = {"migrations": MIGRATIONS, "application_id": APPLICATION, **changed}
    return await SqliteEngine.open(path, **settings)


@pytest.fixture(params=["file", "memory"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SqliteEngine]:
    opened = await open_engine(None if request.param == "memory" else tmp_path / "board.db")
    yield opened
    await opened.close()


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[tuple[SqliteEngine, SqliteEngine]]:
    """Two engines on one file, as two processes would have."""
    path = tmp_path / "board.db"
    first, second = await open_engine(path), await open_engine(path)
    yield first, second
    await first.close()
    await second.close()


class Gate:
    """Holds an operation inside its transaction until the test lets it go."""

    def __init__(self) -> None:
        self.entered, self._leave = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.entered.set()
        assert self._leave.wait(PATIENCE)

    async def until_entered(self) -> None:
        assert await asyncio.to_thread(self.entered.wait, PATIENCE)

    def open(self) -> None:
        self._leave.set()


async def test_write_returns_what_the_operation_returns(engine: SqliteEngine) -> None:
    assert await engine.write(post(7)) == 7
    assert await engine.read(ENTRIES) == [(7,)]


async def test_many_waiting_writes_share_one_commit_and_one_wake_up(engine: SqliteEngine) -> None:
    gate = Gate()
    first = asyncio.create_task(engine.write(post(then=gate)))
    await gate.until_entered()
    before = engine.changes()
    rest = [asyncio.create_task(engine.write(post())) for _ in range(60)]
    await asyncio.sleep(0)
    gate.open()
    assert await asyncio.gather(first, *rest) == list(range(1, 62))
    # The first one's group may have run out of time while it was held.
    assert engine.changes() - before <= 2


async def test_callers_that_come_back_together_share_the_next_commit(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_module, "_SPAN", PATIENCE)  # however long the first one is held
    gate, begun = Gate(), threading.Event()

    async def twice(first: Any, second: Any) -> None:
        await engine.write(first)
        await engine.write(second)

    def busy() -> None:
        """Holds the event loop; the longer if the writer begins without the others, so that it commits."""
        if begun.wait(0.2):
            time.sleep(0.2)

    async def late() -> None:
        await engine.write(post())
        busy()
        await engine.write(post())

    before = engine.changes()
    calls = [asyncio.create_task(twice(post(then=gate), post(then=begun.set)))]
    await gate.until_entered()
    calls += [asyncio.create_task(late()), *(asyncio.create_task(twice(post(), post())) for _ in range(6))]
    await asyncio.sleep(0)
    gate.open()
    await asyncio.gather(*calls)
    assert engine.changes() - before == 2


async def test_a_writer_that_ends_after_a_commit_writes_nothing_that_came_meanwhile(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()

    def fails(self: GroupWriter, raw: Any) -> bool:
        gate()
        raise RuntimeError("nobody foresaw this")

    def until_ended() -> None:
        until = time.monotonic() + PATIENCE
        while engine._writes and time.monotonic() < until:
            time.sleep(0.001)

    monkeypatch.setattr(GroupWriter, "tidying_is_due", fails)
    assert await engine.write(post(1)) == 1
    await gate.until_entered()
    second = asyncio.create_task(engine.write(post(2, then=until_ended)))
    await asyncio.sleep(0)
    gate.open()
    with pytest.raises(StoreClosed, match="writer ended"):
        await second
    assert engine._writer is not None
    await engine._writer.run(lambda raw: None)
    assert await engine.read(ENTRIES) == [(1,)]


async def test_a_call_comes_back_from_its_thread_once_and_makes_no_task(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, back, tasks = asyncio.get_running_loop(), list[Any](), list[Any]()
    honest, make = loop.call_soon_threadsafe, loop.create_task

    def called(function: Callable[..., object], *given: Any, **more: Any) -> asyncio.Handle:
        back.append(function)
        return honest(function, *given, **more)

    def made(coro: Any, **more: Any) -> asyncio.Task[Any]:
        tasks.append(coro)
        return make(coro, **more)

    await engine.write(post())
    monkeypatch.setattr(loop, "call_soon_threadsafe", called)
    monkeypatch.setattr(loop, "create_task", made)
    for call, operation in ((engine.write, post()), (engine.read, ENTRIES)) * 5:
        back.clear()
        await call(operation)
        assert len(back) == 1, back
    assert not tasks
    # All that wait while a group is written come back together.
    gate = Gate()
    first = make(engine.write(post(then=gate)))
    await gate.until_entered()
    rest = [make(engine.write(post())) for _ in range(30)]
    await asyncio.sleep(0)
    back.clear()
    gate.open()
    await asyncio.gather(first, *rest)
    assert len(back) <= 2, back


async def test_a_dear_write_shares_its_commit_with_no_other_and_gives_way_to_cheap_ones(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_module, "_SPAN", PATIENCE)
    monkeypatch.setattr(group_module, "_PATIENCE", 0.0)
    first, second, commits = Gate(), Gate(), list[list[int]]()
    write = GroupWriter.write

    def noted(group: GroupWriter, raw: driver.Raw) -> tuple[list[Job], bool]:
        settled, changed = write(group, raw)
        commits.append([job.result for job in settled])
        return settled, changed

    monkeypatch.setattr(GroupWriter, "write", noted)
    writes: list[asyncio.Task[int]] = []

    async def ask_for(*numbers: int, dear: bool, then: Callable[[], object] | None = None) -> None:
        token = METER.set(Meter(dear=dear))
        writes.extend(asyncio.create_task(engine.write(post(n, then=then))) for n in numbers)
        METER.reset(token)
        await asyncio.sleep(0)

    await ask_for(1, dear=True, then=first)
    await first.until_entered()
    await ask_for(2, dear=True, then=second)
    await ask_for(3, 4, dear=True)
    await ask_for(5, 6, dear=False)
    first.open()
    await second.until_entered()
    await ask_for(7, 8, dear=False)
    second.open()
    await asyncio.gather(*writes)
    assert commits == [[], [5, 6], [1], [], [7, 8], [2], [3], [4]]


async def test_a_dear_write_gives_way_a_few_times_and_then_ends(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_module, "_PATIENCE", 0.0)
    cheap = [Job(post(n), asyncio.get_running_loop().create_future()) for n in range(1, 6)]
    tried = list[int]()

    def interrupt() -> None:
        engine._jobs.put(cheap[len(tried)])
        tried.append(len(tried))

    token = METER.set(Meter(dear=True))
    dear = asyncio.create_task(engine.write(post(100, then=interrupt)))
    METER.reset(token)
    assert await dear == 100
    assert len(tried) == 4
    # Each attempt but the last was undone, and what interrupted it was written.
    assert await asyncio.gather(*(job.future for job in cheap[:4])) == [1, 2, 3, 4]
    assert await engine.read(ENTRIES) == await engine.read(HALVES) == [(1,), (2,), (3,), (4,), (100,)]


@pytest.mark.parametrize(("patience", "steady"), [(PATIENCE, False), (0.0, True)])
async def test_a_dear_write_that_is_soon_done_or_steady_does_not_start_anew(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch, patience: float, steady: bool
) -> None:
    monkeypatch.setattr(group_module, "_PATIENCE", patience)
    cheap = Job(post(1), asyncio.get_running_loop().create_future())
    runs = list[int]()

    def come() -> None:
        runs.append(1)
        engine._jobs.put(cheap)

    token = METER.set(Meter(dear=True, steady=steady))
    dear = asyncio.create_task(engine.write(post(100, then=come)))
    METER.reset(token)
    assert await dear == 100
    assert await cheap.future == 1
    assert len(runs) == 1


async def test_a_dear_write_is_not_charged_what_was_undone_for_cheap_ones(engine: SqliteEngine) -> None:
    cheap = [Job(post(n), asyncio.get_running_loop().create_future()) for n in range(1, 4)]
    work = 0.1

    def interrupt() -> None:
        if cheap:
            until = time.thread_time() + work
            while time.thread_time() < until:
                pass
            engine._jobs.put(cheap.pop())

    meter = Meter(dear=True)
    token = METER.set(meter)
    dear = asyncio.create_task(engine.write(post(100, then=interrupt)))
    METER.reset(token)
    assert await dear == 100
    assert not cheap
    assert 0 < meter.seconds < work  # the run that was committed did nothing of that


async def test_a_write_that_gave_way_can_be_cancelled(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_module, "_PATIENCE", 0.0)
    gate, cheap = Gate(), Gate()
    token = METER.set(Meter(dear=True))
    dear = asyncio.create_task(engine.write(post(1, then=gate)))
    METER.reset(token)
    await gate.until_entered()
    passing = asyncio.create_task(engine.write(post(2, then=cheap)))
    await asyncio.sleep(0)
    gate.open()
    await cheap.until_entered()
    dear.cancel()
    with pytest.raises(asyncio.CancelledError):
        await dear
    cheap.open()
    assert await passing == 2
    assert await engine.write(post(3)) == 3
    assert await engine.read(ENTRIES) == await engine.read(HALVES) == [(2,), (3,)]


async def test_no_write_is_answered_before_others_can_see_it(
    pair: tuple[SqliteEngine, SqliteEngine],
) -> None:
    first, second = pair

    async def check(n: int) -> None:
        await first.write(post(n))
        assert await second.read(ask("SELECT n FROM half WHERE n = ?", n)) == [(n,)]

    for start in range(1, 300, 20):
        await asyncio.gather(*(check(n) for n in range(start, start + 20)))


async def test_an_error_undoes_only_its_own_operation(engine: SqliteEngine) -> None:
    def fail() -> None:
        raise LookupError("mine")

    await engine.write(post(1))
    outcomes = await asyncio.gather(
        engine.write(post(2)),
        engine.write(post(3, then=fail)),
        engine.write(post(1)),
        engine.write(ask("no such statement")),
        engine.write(post(4)),
        return_exceptions=True,
    )
    assert outcomes[0] == 2
    assert isinstance(outcomes[1], LookupError)
    assert isinstance(outcomes[2], StoreError)
    assert "UNIQUE" in str(outcomes[2].__cause__)
    assert "UNIQUE" not in str(outcomes[2]), "the log has it"
    assert isinstance(outcomes[2].__cause__, driver.errors())
    assert isinstance(outcomes[3], StoreError)
    assert outcomes[4] == 4
    assert await engine.read(ENTRIES) == await engine.read(HALVES) == [(1,), (2,), (4,)]


async def test_an_operation_that_fails_first_takes_none_behind_it_along(engine: SqliteEngine) -> None:
    def fail() -> None:
        raise LookupError("mine")

    outcomes = await asyncio.gather(
        engine.write(post(1, then=fail)),
        engine.write(post(2)),
        engine.write(post(3, then=fail)),
        engine.write(post(4)),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [LookupError, int, LookupError, int]
    assert await engine.read(ENTRIES) == await engine.read(HALVES) == [(2,), (4,)]


async def test_a_reference_left_dangling_fails_only_its_own_operation(engine: SqliteEngine) -> None:
    gate = Gate()
    first = asyncio.create_task(engine.write(post(1, then=gate)))
    await gate.until_entered()
    outcomes = asyncio.gather(
        first,
        engine.write(ask("INSERT INTO reply VALUES (1, 1) RETURNING n")),
        engine.write(ask("INSERT INTO reply VALUES (2, 99) RETURNING n")),
        engine.write(post(2)),
        return_exceptions=True,
    )
    await asyncio.sleep(0)
    gate.open()
    one, good, dangling, two = await outcomes
    assert (one, good, two) == (1, [(1,)], 2)
    assert isinstance(dangling, StoreError)
    assert await engine.read(ask("SELECT n FROM reply")) == [(1,)]


async def test_an_operation_that_commits_by_itself_fails_and_the_next_one_works(
    engine: SqliteEngine,
) -> None:
    with pytest.raises(StoreError):
        await engine.write(ask("COMMIT"))
    assert await engine.write(post(5)) == 5


async def test_a_write_cancelled_before_it_started_is_dropped(engine: SqliteEngine) -> None:
    gate = Gate()
    first = asyncio.create_task(engine.write(post(1, then=gate)))
    await gate.until_entered()
    dropped = asyncio.create_task(engine.write(post(2)))
    await asyncio.sleep(0)
    dropped.cancel()
    with pytest.raises(asyncio.CancelledError):
        await dropped
    gate.open()
    await first
    assert await engine.read(ENTRIES) == [(1,)]


async def test_a_write_cancelled_after_it_started_completes_whole(engine: SqliteEngine) -> None:
    gate = Gate()
    started = asyncio.create_task(engine.write(post(1, then=gate)))
    await gate.until_entered()
    started.cancel()
    with pytest.raises(asyncio.CancelledError):
        await started
    gate.open()
    await engine.write(post(2))
    assert await engine.read(ENTRIES) == await engine.read(HALVES) == [(1,), (2,)]


async def test_cancelling_at_random_leaves_nothing_half_applied(engine: SqliteEngine) -> None:
    chance = random.Random(4711)
    acknowledged: set[int] = set()

    async def one(n: int) -> None:
        await engine.write(post(n))
        acknowledged.add(n)

    for start in range(0, 600, 30):
        tasks = [asyncio.create_task(one(n)) for n in range(start, start + 30)]
        for _ in range(chance.randrange(12)):
            await asyncio.sleep(0)
        for task in chance.sample(tasks, 15):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await engine.write(post(10_000))
    entries = {n for (n,) in await engine.read(ENTRIES)}
    assert entries == {n for (n,) in await engine.read(HALVES)}
    assert acknowledged <= entries


async def test_a_reader_sees_every_acknowledged_write(engine: SqliteEngine) -> None:
    async def writer(k: int) -> None:
        for i in range(25):
            n = await engine.write(post(text=f"{k}/{i}"))
            assert await engine.read(ask("SELECT text FROM entry WHERE n = ?", n)) == [(f"{k}/{i}",)]

    await asyncio.gather(*(writer(k) for k in range(8)))


async def test_a_read_is_one_snapshot_while_others_write(tmp_path: Path) -> None:
    engine = await open_engine(tmp_path / "board.db")
    gate = Gate()

    def twice() -> Steps:
        before = yield "SELECT count(*) FROM entry", ()
        gate()
        after = yield "SELECT count(*) FROM entry", ()
        return before == after

    reading = asyncio.create_task(engine.read(twice))
    await gate.until_entered()
    await engine.write(post())
    gate.open()
    assert await reading
    await engine.close()


async def test_a_long_read_does_not_hold_up_the_others(tmp_path: Path) -> None:
    engine = await open_engine(tmp_path / "board.db")
    gate = Gate()

    def long() -> Steps:
        gate()
        return (yield "SELECT 1", ())

    before = asyncio.create_task(engine.read(ENTRIES))
    reading = asyncio.create_task(engine.read(long))
    await gate.until_entered()
    # Read by the thread that is in the long one now.
    assert await before == []
    for _ in range(20):
        assert await engine.read(ENTRIES) == []
    gate.open()
    assert await reading == [(1,)]
    await engine.close()


async def statements_heard(engine: SqliteEngine) -> list[list[str]]:
    """What each connection of the engine runs from now on."""
    heard: list[list[str]] = []
    for connection in {engine._writer, engine._checkpointer, *engine._readers} - {None}:
        heard.append([])
        await connection.run(lambda raw, own=heard[-1]: raw.set_trace_callback(own.append))
    return heard


async def test_connections_free_what_they_keep_when_few_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "REST_SECONDS", 0.02)
    monkeypatch.setattr(engine_module, "_FEW", 0)
    engine = await open_engine(tmp_path / "db")
    try:
        heard = await statements_heard(engine)
        assert len(heard) > 2
        for n in (1, 2):
            assert await engine.write(post()) == n
            async with asyncio.timeout(PATIENCE):
                while not all(own.count("PRAGMA shrink_memory") == n for own in heard):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        assert await engine.read(ENTRIES) == [(1,), (2,)]
    finally:
        await engine.close()


async def test_connections_keep_their_pages_while_many_ask_and_free_them_once_for_many(
    engine: SqliteEngine,
) -> None:
    heard = await statements_heard(engine)

    async def freed() -> int:
        await engine.write(ask("SELECT 1"))
        return min(own.count("PRAGMA shrink_memory") for own in heard if "SELECT 1" in own)

    for _ in range(101):
        await engine.read(ENTRIES)
    engine._rest(0)
    assert engine._resting is not None, "it looks again later"
    assert await freed() == 0
    engine._rest(engine._asked - 100)
    assert await freed() == 1
    engine._rest(engine._asked)
    assert await freed() == 1


async def test_a_read_may_not_write(engine: SqliteEngine) -> None:
    with pytest.raises(StoreError):
        await engine.read(post(1))
    assert await engine.read(ENTRIES) == []
    assert await engine.write(post(1)) == 1


async def test_a_stamp_moves_with_every_change_and_with_nothing_else(engine: SqliteEngine) -> None:
    for n in range(20):
        stamp = engine.stamp()
        assert stamp is not None
        await engine.read(ENTRIES)
        with pytest.raises(StoreError):
            await engine.read(post(1))
        assert engine.stamp() == stamp
        await engine.write(post(n))
        assert engine.stamp() != stamp
    await engine.close()
    assert engine.stamp() is None


async def test_a_stamp_moves_with_the_commits_of_another_engine(
    pair: tuple[SqliteEngine, SqliteEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = pair
    monkeypatch.setattr(first._group, "_committed", lambda: None)  # no message tells of them
    for _ in range(50):
        stamp = second.stamp()
        await first.write(post())
        assert second.stamp() != stamp
        assert second.stamp() == second.stamp()


async def test_there_is_no_stamp_where_a_look_could_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, "bears_wal", lambda path: False)
    opened = await open_engine(tmp_path / "board.db")
    await opened.write(post())
    assert opened.stamp() is None
    await opened.close()


async def test_a_wait_ends_with_a_commit_of_this_process(engine: SqliteEngine) -> None:
    seen = engine.changes()
    waiting = [asyncio.create_task(engine.wait_for_change(seen, PATIENCE)) for _ in range(50)]
    await asyncio.sleep(0)
    await engine.write(post())
    assert await asyncio.gather(*waiting) == [seen + 1] * 50


async def test_a_wait_ends_with_a_commit_of_another_engine(
    pair: tuple[SqliteEngine, SqliteEngine],
) -> None:
    first, second = pair
    for _ in range(20):
        seen = second.changes()
        waiting = asyncio.create_task(second.wait_for_change(seen, PATIENCE))
        await asyncio.sleep(0)
        await first.write(post())
        assert await waiting > seen


async def test_a_wait_ends_without_any_datagram(
    pair: tuple[SqliteEngine, SqliteEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = pair
    assert first._peers is not None
    monkeypatch.setattr(first._group, "_committed", lambda: None)
    seen = second.changes()
    waiting = asyncio.create_task(second.wait_for_change(seen, PATIENCE))
    # Past the look that the first waiter causes by coming: only the regular ones are left.
    assert await second.wait_for_change(seen, 0.1) == seen
    await first.write(post())
    assert await waiting > seen


async def test_a_change_made_before_the_wait_is_not_missed(pair: tuple[SqliteEngine, SqliteEngine]) -> None:
    first, second = pair
    seen = second.changes()
    await first.write(post())
    assert await second.wait_for_change(seen, PATIENCE) > seen


async def test_a_commit_seen_by_a_transaction_that_changes_nothing_is_not_missed(
    pair: tuple[SqliteEngine, SqliteEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = pair

    async def deaf(heard: bool) -> bool:
        return False

    monkeypatch.setattr(second._watcher, "_ask", deaf)
    seen = second.changes()
    await first.write(post())
    await second.write(ask("SELECT 1"))
    assert await second.wait_for_change(seen, PATIENCE) > seen


async def test_a_wait_without_change_ends_at_its_timeout(engine: SqliteEngine) -> None:
    seen = engine.changes()
    assert await engine.wait_for_change(seen, 0.01) == seen
    assert await engine.wait_for_change(seen, 0) == seen


async def test_a_failed_or_empty_write_wakes_nobody(engine: SqliteEngine) -> None:
    seen = engine.changes()
    await engine.write(ask("SELECT 1"))
    with pytest.raises(StoreError):
        await engine.write(ask("no such statement"))
    assert engine.changes() == seen


async def test_a_peer_that_died_is_forgotten(tmp_path: Path) -> None:
    engine = await open_engine(tmp_path / "board.db")
    peers = tmp_path / "board.db.peers"
    own = next(peers.iterdir()).name
    namespace = own.split("-")[2]
    (peers / f"9-{2**22 + 1}-{namespace}").touch()
    (peers / f"9-{os.getpid()}-0000").touch()
    (peers / "nonsense").touch()
    await engine.write(post())
    # A file of another namespace or of nobody is none of our business.
    assert {file.name for file in peers.iterdir()} == {own, f"9-{os.getpid()}-0000", "nonsense"}
    await engine.close()


async def test_a_peer_for_whom_no_file_handle_is_left_holds_up_no_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await open_engine(tmp_path / "board.db")
    peers = tmp_path / "board.db.peers"
    own = next(peers.iterdir()).name

    def exhausted(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    (peers / f"9-{os.getpid()}-{own.split('-')[2]}").touch()
    with monkeypatch.context() as patch:
        patch.setattr("blackboard_mcp.storage.sqlite.wakeup.socket.socket", exhausted)
        async with asyncio.timeout(PATIENCE):
            assert await engine.write(post(1)) == 1
    assert await engine.write(post(2)) == 2
    await engine.close()


async def test_a_writer_that_ends_leaves_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await open_engine(tmp_path / "board.db")

    def ends() -> None:
        raise RuntimeError("nobody foresaw this")

    # After the commit: the operation is written, and its caller must hear that this is not known.
    monkeypatch.setattr(engine._group, "_committed", ends)
    async with asyncio.timeout(PATIENCE):
        outcomes = await asyncio.gather(*(engine.write(post(n)) for n in (1, 2)), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [StoreClosed, StoreClosed]
        with pytest.raises(StoreClosed):
            await engine.write(post(3))
    await engine.close()


async def test_the_deadline_for_the_lock_is_kept_and_changes_nothing(
    pair: tuple[SqliteEngine, SqliteEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = pair
    monkeypatch.setattr(second._group, "_deadline", 0.3)
    gate = Gate()
    holding = asyncio.create_task(first.write(post(1, then=gate)))
    await gate.until_entered()
    with pytest.raises(StoreBusy):
        await second.write(post(2))
    # Readers never wait for a writer.
    assert await second.read(ENTRIES) == []
    gate.open()
    await holding
    assert await second.write(post(3)) == 3
    assert await first.read(ENTRIES) == [(1,), (3,)]


async def test_a_full_database_says_so_and_takes_writes_again_later(engine: SqliteEngine) -> None:
    await engine.write(ask("PRAGMA max_page_count = 40"))
    gate = Gate()
    first = asyncio.create_task(engine.write(post(1, then=gate)))
    await gate.until_entered()
    outcomes = asyncio.gather(
        first, engine.write(post(2, "x" * 1_000_000)), engine.write(post(3)), return_exceptions=True
    )
    await asyncio.sleep(0)
    gate.open()
    one, full, three = await outcomes
    assert isinstance(full, StoreFull)
    assert (one, three) == (1, 3)
    await engine.write(ask("PRAGMA max_page_count = 100000"))
    assert await engine.write(post(4, "x" * 1_000_000)) == 4
    assert await engine.read(ENTRIES) == await engine.read(HALVES) == [(1,), (3,), (4,)]


async def test_a_schema_that_became_too_new_stops_reads_and_writes(tmp_path: Path) -> None:
    path = tmp_path / "board.db"
    old = await open_engine(path)
    new = await open_engine(path, migrations=[*MIGRATIONS, "CREATE TABLE later(n)"])
    with pytest.raises(StoreTooNew):
        await old.write(post(1))
    with pytest.raises(StoreTooNew):
        await old.read(ENTRIES)
    with pytest.raises(StoreTooNew):
        await open_engine(path)
    assert await new.read(ENTRIES) == []
    await old.close()
    await new.close()


async def test_a_failing_migration_leaves_the_old_schema(tmp_path: Path) -> None:
    path = tmp_path / "board.db"
    await (await open_engine(path)).close()
    with pytest.raises(StoreError):
        await open_engine(path, migrations=[*MIGRATIONS, "CREATE TABLE a(n); CREATE TABLE entry(n);"])
    engine = await open_engine(path)
    assert await engine.read(ask("SELECT count(*) FROM sqlite_schema WHERE name = 'a'")) == [(0,)]
    await engine.close()


def test_a_script_is_split_at_the_ends_of_statements_only() -> None:
    script = """
    CREATE TABLE a(t TEXT DEFAULT ';'); -- one; two
    CREATE TRIGGER b AFTER INSERT ON a BEGIN DELETE FROM a; SELECT 1; END; /* ; */
    SELECT 2
    """
    found = list(migrate.statements(script))
    assert [statement.split()[-1] for statement in found] == ["';');", "END;", "2"]


@pytest.mark.parametrize("content", [b"garbage " * 1000, b"x"])
async def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "board.db"
    path.write_bytes(content)
    with pytest.raises(StoreDamaged):
        await open_engine(path)
    assert path.read_bytes() == content


async def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "board.db"
    raw = driver.connect(str(path))
    raw.execute("CREATE TABLE theirs(n)")
    raw.close()
    before = path.read_bytes()
    with pytest.raises(StoreDamaged):
        await open_engine(path)
    assert path.read_bytes() == before
    await (await open_engine(tmp_path / "ours.db")).close()
    with pytest.raises(StoreDamaged):
        await open_engine(tmp_path / "ours.db", application_id=1)


async def test_folder_and_file_are_private(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "board.db"
    engine = await open_engine(path)
    await engine.write(post())
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (path.parent, *path.parent.iterdir())}
    assert modes == {
        "er": 0o700,
        "board.db": 0o600,
        "board.db-wal": 0o600,
        "board.db-shm": 0o600,
        "board.db.peers": 0o700,
    }
    await engine.close()
    assert [file.name for file in path.parent.iterdir()] == ["board.db"]


async def test_a_path_that_cannot_be_a_database_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="Cannot make the database"):
        await open_engine(tmp_path / "file" / "board.db")
    with pytest.raises(StoreError, match="is a folder"):
        await open_engine(tmp_path)


def test_shared_folders_of_virtual_machines_bear_no_log(tmp_path: Path) -> None:
    mountinfo = tmp_path / "mountinfo"
    mountinfo.write_text(
        "1 0 8:1 / / rw - ext4 /dev/sda rw\n"
        "2 1 0:9 / /mnt/shared\\040folder rw shared:1 - virtiofs host rw\n"
        "3 2 8:2 / /mnt/shared\\040folder/disk rw - ext4 /dev/sdb rw\n"
    )
    assert place.bears_wal(Path("/home/board.db"), mountinfo)
    assert not place.bears_wal(Path("/mnt/shared folder/a/board.db"), mountinfo)
    assert place.bears_wal(Path("/mnt/shared folder/disk/board.db"), mountinfo)


async def test_a_database_that_was_deleted_takes_no_writes(tmp_path: Path) -> None:
    engine = await open_engine(tmp_path / "board.db")
    await engine.write(post(1))
    (tmp_path / "board.db").rename(tmp_path / "elsewhere.db")
    for _ in range(2):
        with pytest.raises(StoreClosed, match="moved"):
            await engine.write(post(2))
    assert await engine.read(ENTRIES) == [(1,)]
    await engine.close()


async def test_two_engines_work_without_a_write_ahead_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "board.db"
    await (await open_engine(path)).close()
    monkeypatch.setattr(place, "bears_wal", lambda path: False)
    first, second = await open_engine(path), await open_engine(path)
    assert not first.write_ahead_log

    async def both(n: int) -> None:
        await (first if n % 2 else second).write(post(n))
        assert (n,) in await (second if n % 2 else first).read(ENTRIES)

    await asyncio.gather(*(both(n) for n in range(30)))
    assert not path.with_name("board.db-wal").exists()
    await first.close()
    await second.close()


async def test_a_backup_is_a_whole_private_database(engine: SqliteEngine, tmp_path: Path) -> None:
    await engine.write(post(1, "kept"))
    target = tmp_path / "copy.db"
    await engine.backup(target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    with pytest.raises(StoreError):
        await engine.backup(target)
    await engine.write(post(2))
    copy = await open_engine(target)
    assert await copy.read(ask("SELECT n, text FROM entry")) == [(1, "kept")]
    await copy.close()


async def checkpointed(engine: SqliteEngine) -> None:
    """Waits until a checkpoint that was asked for is done, with what it leaves to the writer."""
    for connection in (engine._writer, engine._checkpointer, engine._writer):
        if connection is not None:
            await connection.run(lambda raw: None)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a checkpoint due after each commit."""
    monkeypatch.setattr(group_module, "_CHECKPOINT_ROWS", 1)
    monkeypatch.setattr(GroupWriter, "tidying_is_due", lambda self, raw: True)


@pytest.mark.usefixtures("often")
async def test_writes_are_answered_while_the_log_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await open_engine(tmp_path / "board.db")
    if engine.safe_mode:
        pytest.skip("this SQLite leaves checkpoints to the writer")
    gate, copy = Gate(), GroupWriter.checkpoint

    def held(self: GroupWriter, raw: driver.Raw) -> None:
        gate()
        copy(self, raw)

    monkeypatch.setattr(GroupWriter, "checkpoint", held)
    await engine.write(post(1, "x" * 100_000))
    await gate.until_entered()
    await engine.write(post(2))
    assert (tmp_path / "board.db").stat().st_size < 100_000
    gate.open()
    await checkpointed(engine)
    assert (tmp_path / "board.db").stat().st_size > 100_000
    await engine.close()


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("safe_mode", [False, True])
async def test_the_log_stays_short_while_writes_never_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, safe_mode: bool
) -> None:
    monkeypatch.setattr(group_module, "_WAL_LIMIT", 1 << 20)
    monkeypatch.setattr(group_module, "_WAL_LIMIT_SAFE", 1 << 20)
    monkeypatch.setattr(group_module, "_WAL_WAIT", 1)
    if safe_mode:
        monkeypatch.setattr(driver, "resets_wal_safely", lambda number: False)
    engine = await open_engine(tmp_path / "board.db")
    assert engine.safe_mode or not safe_mode
    assert (engine._checkpointer is None) is engine.safe_mode
    log = tmp_path / "board.db-wal"
    longest = 0

    async def write(count: int) -> None:
        nonlocal longest
        for _ in range(count):
            await engine.write(post(text="x" * 50_000))
            longest = max(longest, log.stat().st_size)

    await asyncio.gather(*(write(50) for _ in range(4)))
    assert longest < 4 << 20
    # A reader keeps the log, and with it what was written since; it is emptied once the reader has gone.
    gate = Gate()

    def held() -> Steps:
        yield "SELECT count(*) FROM entry", ()
        gate()
        return (yield "SELECT count(*) FROM entry", ())

    reading = asyncio.create_task(engine.read(held))
    await gate.until_entered()
    await write(50)
    assert log.stat().st_size > 2 << 20
    gate.open()
    assert await reading == [(200,)]
    await write(1)
    await checkpointed(engine)
    assert log.stat().st_size < 1 << 20
    await engine.close()


@pytest.mark.usefixtures("often")
async def test_a_long_log_is_emptied_though_reads_overlap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_module, "_WAL_LIMIT", 1 << 20)
    monkeypatch.setattr(group_module, "_WAL_LIMIT_SAFE", 1 << 20)
    monkeypatch.setattr(group_module, "_WAL_WAIT", int(PATIENCE * 1000))
    engine = await open_engine(tmp_path / "board.db")
    log = tmp_path / "board.db-wal"
    gate = Gate()

    def held() -> Steps:
        yield "SELECT count(*) FROM entry", ()
        gate()

    def told(sql: str) -> None:
        if "TRUNCATE" in sql:
            # The read ends a while after the log could not be emptied because of it.
            threading.Timer(0.1, gate.open).start()

    assert engine._writer is not None
    await engine._writer.run(lambda raw: raw.set_trace_callback(told))
    await engine.write(post(1))
    reading = asyncio.create_task(engine.read(held))
    await gate.until_entered()
    await engine.write(post(2, "x" * (2 << 20)))
    await checkpointed(engine)
    assert log.stat().st_size == 0
    await reading
    await engine.close()


@pytest.mark.usefixtures("often")
async def test_a_checkpoint_for_which_the_disk_fails_while_the_engine_is_closed_leaves_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await open_engine(tmp_path / "board.db")
    if engine.safe_mode:
        pytest.skip("this SQLite leaves checkpoints to the writer")
    gate = Gate()

    def fails(self: GroupWriter, raw: driver.Raw) -> None:
        gate()
        self._checkpoint_failed = driver.library().OperationalError("disk I/O error")

    monkeypatch.setattr(GroupWriter, "checkpoint", fails)
    await engine.write(post(1))
    await gate.until_entered()
    closing = asyncio.create_task(engine.close())
    threading.Timer(0.1, gate.open).start()
    await closing
    assert (tmp_path / "board.db-wal").stat().st_size > 0
    engine = await open_engine(tmp_path / "board.db")
    assert await engine.read(ENTRIES) == [(1,)]
    await engine.close()


@pytest.mark.usefixtures("often")
async def test_a_commit_beside_a_checkpoint_for_which_the_disk_fails_is_not_acknowledged(
    tmp_path: Path,
) -> None:
    engine = await open_engine(tmp_path / "board.db")
    await engine.write(post(1))
    await checkpointed(engine)
    failed = driver.library().OperationalError("disk I/O error")

    def fail() -> None:
        engine._group._checkpoint_failed = failed

    for n in (2, 3):
        with pytest.raises(StoreClosed, match="The disk failed"):
            await engine.write(post(n, then=fail))
    assert engine.trouble is not None
    assert engine.trouble.kind == "stopped"
    await engine.close()
    # The log is left whole: the next start copies and syncs all of it.
    assert (tmp_path / "board.db-wal").stat().st_size > 0
    engine = await open_engine(tmp_path / "board.db")
    assert (1,) in await engine.read(ENTRIES)
    assert await engine.write(post(4)) == 4
    await engine.close()
    assert not (tmp_path / "board.db-wal").exists()


@pytest.mark.parametrize("there_are", [0, 1, 2])
async def test_an_engine_for_which_there_are_too_few_threads_is_refused_and_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there_are: int
) -> None:
    threads, start, left = threading.active_count(), threading.Thread.start, there_are

    def scarce(self: threading.Thread) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise RuntimeError("can't start new thread")
        start(self)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", scarce)
        with pytest.raises(StoreError, match="can't start new thread"):
            await open_engine(tmp_path / "board.db")
    assert threading.active_count() == threads
    engine = await open_engine(tmp_path / "board.db")
    assert await engine.write(post(1)) == 1
    await engine.close()


async def test_close_finishes_what_was_asked_and_ends_the_threads(tmp_path: Path) -> None:
    threads = threading.active_count()
    engine = await open_engine(tmp_path / "board.db")
    pending = [asyncio.create_task(engine.write(post(n))) for n in range(100)]
    reading = asyncio.create_task(engine.read(ENTRIES))
    waiting = asyncio.create_task(engine.wait_for_change(10**9, PATIENCE))
    await asyncio.sleep(0)
    await asyncio.gather(engine.close(), engine.close())
    assert sorted(await asyncio.gather(*pending)) == list(range(100))
    assert isinstance(await reading, list)
    with pytest.raises(StoreClosed):
        await waiting
    await engine.close()
    assert threading.active_count() == threads
    for call in (engine.write(post()), engine.read(ENTRIES), engine.wait_for_change(0, 1)):
        with pytest.raises(StoreClosed):
            await call


async def test_opening_cancelled_half_way_leaves_no_thread(tmp_path: Path) -> None:
    threads = threading.active_count()
    for turns in range(6):
        opening = asyncio.create_task(open_engine(tmp_path / "board.db"))
        for _ in range(turns):
            await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
    assert threading.active_count() == threads


def test_the_fixed_versions_of_sqlite_are_known() -> None:
    for number in ((3, 51, 3), (3, 53, 4), (3, 50, 7), (3, 44, 6), (4, 0, 0)):
        assert driver.resets_wal_safely(number)
    for number in ((3, 40, 1), (3, 44, 5), (3, 45, 0), (3, 50, 6), (3, 51, 2)):
        assert not driver.resets_wal_safely(number)
