"""What the archive's threads do is counted for whoever asked, by the wall clock: the driver has threads of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from blackboard_mcp.protocols import metering
from blackboard_mcp.protocols.archive import ArchiveDocument, ArchiveQuery
from blackboard_mcp.protocols.metering import METER, Meter
from blackboard_mcp.server.limits.turns import EACH_SECONDS, Turns
from blackboard_mcp.storage.lance import workers as workers_module
from blackboard_mcp.storage.lance.index import LanceArchiveIndex
from blackboard_mcp.storage.lance.workers import Workers
from patience import PATIENCE

Make = Callable[..., ArchiveDocument]


class HandClock:
    """The wall clock, moved by the work itself."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


class Endpoint:
    """A model somewhere else that takes its time for a query."""

    name, dimension = "endpoint", 2

    def __init__(self, clock: HandClock) -> None:
        self.clock = clock
        self.asked = 0
        self.working: list[int] = []

    def embed_documents(self, texts: Sequence[str]) -> object:
        return np.ones((len(texts), 2), "float32")

    def embed_query(self, text: str) -> object:
        self.asked += 1
        self.clock.now += 100
        meter = METER.get()
        assert meter is not None
        self.working.append(meter.working)
        return np.ones(2, "float32")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> HandClock:
    clock = HandClock()
    for module in (workers_module, metering):
        monkeypatch.setattr(module, "time", clock)
    return clock


async def test_searches_of_one_caller_go_one_by_one_though_threads_of_the_driver_do_the_work(
    clock: HandClock,
) -> None:
    workers, turns = Workers(), Turns()
    at_work = most = 0

    def search() -> None:
        clock.now += 2 * EACH_SECONDS

    async def call() -> None:
        nonlocal at_work, most
        async with turns.taking("many", "query_archive") as turn:
            at_work += 1
            most = max(most, at_work)
            await turn.of(workers.run(search))
            at_work -= 1

    try:
        await asyncio.gather(*(call() for _ in range(30)))
    finally:
        await workers.close()
    assert (most, clock.now) == (1, pytest.approx(60 * EACH_SECONDS))


async def test_what_a_model_elsewhere_takes_is_not_counted(
    clock: HandClock, tmp_path: Path, document: Make
) -> None:
    model, meter = Endpoint(clock), Meter()
    index = LanceArchiveIndex(tmp_path / "index", model)
    try:
        await index.upsert([document(1, "a finding")])
        token = METER.set(meter)
        try:
            found = await index.search(ArchiveQuery("main", "finding"))
        finally:
            METER.reset(token)
    finally:
        await index.close()
    assert [hit.number for hit in found.hits] == [1]
    assert (model.asked, model.working) == (1, [0])
    assert (meter.seconds, meter.working) == (0, 0)


async def test_the_threads_rest_once_after_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "REST_SECONDS", 0)
    rested: asyncio.Queue[None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def rest() -> None:
        loop.call_soon_threadsafe(rested.put_nowait, None)

    workers = Workers(rest)
    try:
        for _ in range(2):
            await asyncio.gather(*(workers.run(lambda: None) for _ in range(5)))
            await asyncio.wait_for(rested.get(), 10)
    finally:
        await workers.close()
    assert rested.empty()


async def test_what_fails_at_rest_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(workers_module, "REST_SECONDS", 0.0)

    def rest() -> None:
        raise OSError("no such page")

    workers = Workers(rest)
    try:
        await workers.run(lambda: None)
        async with asyncio.timeout(PATIENCE):
            while not caplog.messages:  # noqa: ASYNC110 - nothing else tells of it
                await asyncio.sleep(0.01)
        assert "OSError('no such page')" in caplog.messages[0]
    finally:
        await workers.close()


async def test_a_rest_is_planned_once_for_many_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "REST_SECONDS", 3600)
    workers = Workers(lambda: None)
    try:
        await workers.run(lambda: None)
        planned = workers._resting
        await workers.run(lambda: None)
        assert planned is not None
        assert not planned.cancelled()
        assert workers._resting is planned
    finally:
        await workers.close()
    assert planned.cancelled()


async def test_calls_without_end_do_not_put_the_rest_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "REST_SECONDS", 0.05)
    rests = 0

    def rest() -> None:
        nonlocal rests
        rests += 1

    workers = Workers(rest)
    try:
        async with asyncio.timeout(PATIENCE):
            while rests < 2:
                await workers.run(lambda: None)
    finally:
        await workers.close()
