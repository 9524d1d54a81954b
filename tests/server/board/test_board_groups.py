"""Workers of a group from Python, the same in-process and over MCP: F19, F63."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, UnknownReference
from patience import PATIENCE

JOBS = {"tags": ["job"]}


async def jobs(board: Any, count: int) -> list[int]:
    answer = await board.post_all([{"text": f"job {n}", "tags": ["job"]} for n in range(count)])
    return [item.seq for item in answer.items]


async def test_each_job_goes_to_one_of_several_workers(place: Any, board: Any) -> None:
    agents = [board, await place.join("bob"), await place.join("carol")]
    done: list[int] = []
    all_done = asyncio.Event()

    async def work(agent: Any) -> None:
        async with agent.worker("builders", JOBS) as worker:
            async for job in worker:
                done.append(job.event.seq)
                if len(done) == 12:
                    all_done.set()

    async with board.worker("builders", JOBS):
        pass
    wanted = await jobs(board, 12)
    working = [asyncio.create_task(work(agent)) for agent in agents]
    await asyncio.wait_for(all_done.wait(), PATIENCE)
    for task in working:
        task.cancel()
    await asyncio.wait(working)
    assert sorted(done) == wanted
    assert all(task.cancelled() for task in working)


async def test_what_fails_is_handed_out_again_and_ends_as_a_dead_letter(board: Any) -> None:
    async with board.worker("g", JOBS, limit=3) as worker:
        wanted = await jobs(board, 2)
        first = await anext(worker)
        await worker.extend()
        await worker.fail("not today")
        second = await anext(worker)
        assert [first.event.seq, second.event.seq] == wanted

    async def break_down() -> str:
        async with board.worker("g") as worker:
            async for job in worker:
                raise ZeroDivisionError(job.handle)
        raise AssertionError

    for _ in range(4):
        with pytest.raises(ZeroDivisionError):
            await asyncio.wait_for(break_down(), PATIENCE)
    (dead,) = await board.dead_letters("g")
    assert dead.event.seq == wanted[0]
    assert "ZeroDivisionError" in dead.why
    (group,) = await board.groups()
    assert (group.group, group.in_flight, group.waiting, group.dead) == ("g", 0, 0, 1)
    await board.retry_dead("g", [dead.handle])
    async with board.worker("g") as worker:
        assert (await anext(worker)).event.seq == wanted[0]
    await board.end_group("g")
    assert await board.groups() == []


async def test_what_a_worker_did_not_begin_is_no_attempt(board: Any) -> None:
    async with board.worker("g", JOBS):
        pass
    wanted = await jobs(board, 8)
    done = []
    for _ in wanted:
        async with board.worker("g", limit=50) as worker:
            done.append((await asyncio.wait_for(anext(worker), PATIENCE)).event.seq)
    assert done == wanted
    assert await board.dead_letters("g") == []


async def test_a_job_that_a_cancelled_step_settled_is_no_conflict_of_the_next(
    board: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = board._call

    async def cancelled_with_its_answer(*given: Any, **more: Any) -> None:
        await call(*given, **more)
        raise asyncio.CancelledError

    async with board.worker("g", JOBS) as worker:
        await jobs(board, 1)
        first = await anext(worker)
        with monkeypatch.context() as patched:
            patched.setattr(board, "_call", cancelled_with_its_answer)
            with pytest.raises(asyncio.CancelledError):
                await worker.fail("not today")
        again = await anext(worker)
        assert (again.event, again.why) == (first.event, "not today")


async def test_what_was_done_after_a_cancelled_step_is_acknowledged_though_that_step_settled_its_job(
    board: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = board._call

    async def cancelled_with_its_answer(*given: Any, **more: Any) -> None:
        await call(*given, **more)
        raise asyncio.CancelledError

    async with board.worker("g", JOBS, limit=3) as worker:
        await jobs(board, 3)
        first = await anext(worker)
        with monkeypatch.context() as patched:
            patched.setattr(board, "_call", cancelled_with_its_answer)
            with pytest.raises(asyncio.CancelledError):
                await worker.fail("not today")
        await anext(worker)
        await anext(worker)
        again = await anext(worker)
        assert (again.event, again.why) == (first.event, "not today")
        (group,) = await board.groups()
        assert group.in_flight == 1, "others were done and not acknowledged"


async def test_mistakes_with_groups_are_told(board: Any) -> None:
    with pytest.raises(InvalidInput):
        board.worker("g", limit=0)
    with pytest.raises(InvalidInput):
        await board.worker("no spaces", JOBS).__aenter__()
    with pytest.raises(UnknownReference):
        await anext(board.worker("nobody-made-it"))
    async with board.worker("g", JOBS) as worker:
        with pytest.raises(InvalidInput, match="in hand"):
            await worker.fail("what")
    with pytest.raises(Conflict):
        await board.worker("g", {"tags": ["other"]}).__aenter__()
