"""Iterators, queues and callbacks that lose nothing, the same in-process and over MCP: F20, F63, I20, I21."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

import pytest
from blackboard_mcp.protocols.errors import (
    CursorExpired,
    InvalidInput,
    RateLimited,
    StoreClosed,
    StoreError,
    StoreFull,
)
from patience import PATIENCE


@pytest.fixture(autouse=True)
async def no_task_is_left() -> Any:
    """The tasks of the test are those that there were; of a file's or a client's, only its own are left."""
    async with asyncio.timeout(PATIENCE):
        yield


def tasks() -> set[str]:
    return {task.get_name() for task in asyncio.all_tasks() if task.get_name() == "board-hook"}


async def texts(board: Any, count: int, *, tag: str = "x") -> list[int]:
    """Posts so many items; the sequences of their events."""
    answer = await board.post_all([{"text": f"{tag} {board.seq} {n}", "tags": [tag]} for n in range(count)])
    return [item.seq for item in answer.items]


async def take(stream: Any, count: int) -> list[int]:
    found = []
    async with asyncio.timeout(PATIENCE):
        async for event in stream:
            found.append(event.seq)
            if len(found) == count:
                break
    return found


@pytest.mark.parametrize("place", ["memory", "file", "modern", "legacy", "stdio"], indirect=True)
async def test_an_iterator_gives_each_matching_event_once_in_order(place: Any, board: Any) -> None:
    bob = await place.join("bob")
    async with board.events({"tags": ["x"]}, page=3) as stream:
        wanted = await texts(bob, 8)
        await texts(bob, 3, tag="other")
        wanted += await texts(bob, 1)
        assert await take(stream, 9) == wanted
        assert stream.place <= wanted[-1]
    assert stream.place == wanted[-1]
    assert await take(board.events(since=wanted[-2]), 1) == [wanted[-2] + 1]
    assert await take(board.events(since=0), 2) == [1, 2]


async def test_who_changes_an_event_changes_none_that_others_get(place: Any, board: Any) -> None:
    bob = await place.join("bob")
    item = await board.post("a", metadata={"seen": {"by": ["alice"]}})
    await board.post(id=item.id, metadata={"seen": {"by": ["carl"]}})
    for event in (await board.changes(1)).events:
        if event.item == item.id:
            event.metadata["seen"]["by"].append("alice again")
            event.data.get("was", {}).get("metadata", {}).clear()
    posted, changed = [event for event in (await bob.changes(1)).events if event.item == item.id]
    assert posted.metadata == {"seen": {"by": ["alice"]}}
    assert changed.metadata == {"seen": {"by": ["carl"]}}
    assert changed.data["was"] == {"metadata": {"seen": {"by": ["alice"]}}}


@pytest.mark.parametrize("place", ["memory", "file", "modern", "legacy", "stdio"], indirect=True)
async def test_an_event_has_type_tags_metadata_and_what_was_before(place: Any, board: Any) -> None:
    bob = await place.join("bob")
    async with board.events({"agent": "bob"}) as stream:
        item = await bob.post("a", type="PLAN", tags=["t"], metadata={"ticket": 7})
        await bob.post(id=item.id, metadata={"ticket": 8})
        async with asyncio.timeout(PATIENCE):
            posted, changed = [await anext(stream), await anext(stream)]
    assert (posted.type, posted.tags, posted.metadata) == ("PLAN", ["t"], {"ticket": 7})
    assert (changed.type, changed.tags, changed.metadata) == ("PLAN", ["t"], {"ticket": 8})
    assert changed.data["was"] == {"metadata": {"ticket": 7}}
    assert changed.data["now"] == {"metadata": {"ticket": 8}}


async def test_what_happens_between_entering_and_iterating_is_not_missed(board: Any) -> None:
    async with board.events() as stream:
        (seq,) = await texts(board, 1)
        assert await take(stream, 1) == [seq]


async def test_a_stream_ends_for_a_task_that_waits_in_it(board: Any) -> None:
    stream = board.events()
    got: list[int] = []

    async def read() -> None:
        async for event in stream:
            got.append(event.seq)

    reading = asyncio.create_task(read())
    while not got:
        await texts(board, 1)
        await asyncio.sleep(0)
    await stream.aclose()
    await asyncio.wait_for(reading, PATIENCE)
    await stream.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_a_cancelled_step_loses_nothing(board: Any) -> None:
    async with board.events() as stream:
        for _ in range(5):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(stream), 0.02)
        wanted = await texts(board, 4)
        assert await take(stream, 2) == wanted[:2]
        assert await take(stream, 2) == wanted[2:]


async def test_an_exception_in_the_loop_leaves_no_task_and_the_place_before_the_event(board: Any) -> None:
    before = tasks()
    stream = board.events({}, name="mine", page=10)
    wanted: list[int] = []

    async def fail_at_the_second() -> None:
        async with stream:
            wanted.extend(await texts(board, 3))
            async for event in stream:
                if event.seq == wanted[1]:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_at_the_second()
    assert stream.place == wanted[0]
    assert tasks() == before


async def test_a_filter_that_is_none_and_a_place_ahead_are_refused(board: Any) -> None:
    with pytest.raises(InvalidInput):
        board.events({"colour": "red"})
    with pytest.raises(InvalidInput):
        await board.on({"type": "RUMOUR"}, print)
    with pytest.raises(InvalidInput):
        await board.queue(maxsize=0)
    with pytest.raises(InvalidInput):
        board.events(name="n", since=3)
    with pytest.raises(CursorExpired):
        await anext(board.events(since=10_000))


async def test_a_callback_and_a_place_that_are_none_are_refused(board: Any) -> None:
    with pytest.raises(InvalidInput, match="callback"):
        await board.on({}, None)
    with pytest.raises(InvalidInput, match="sequence"):
        await board.changes(None)


async def test_callbacks_are_called_in_order_and_one_that_raises_again(
    board: Any, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[tuple[str, int]] = []
    told: list[tuple[int, int]] = []
    full = asyncio.Event()

    async def fails_once(event: Any) -> None:
        seen.append(("a", event.seq))
        if len([1 for who, _ in seen if who == "a"]) == 2:
            raise ValueError("no")
        if len(seen) >= 7:
            full.set()

    def plain(event: Any) -> None:
        seen.append(("b", event.seq))
        if len(seen) >= 7:
            full.set()

    def on_error(event: Any, error: Exception, attempt: int) -> None:
        told.append((event.seq, attempt))

    with caplog.at_level(logging.CRITICAL, "blackboard_mcp"):
        first = await board.on({}, fails_once, on_error=on_error)
        second = await board.on({}, plain)
        wanted = await texts(board, 3)
        await asyncio.wait_for(full.wait(), PATIENCE)
    assert [seq for who, seq in seen if who == "a"] == [wanted[0], wanted[1], wanted[1], wanted[2]]
    assert [seq for who, seq in seen if who == "b"] == wanted
    assert told == [(wanted[1], 1)]
    assert (first.failures, second.failures, first.error) == (1, 0, None)
    await first.aclose()
    assert not first.running
    assert second.running


async def test_on_error_passes_an_event_over(board: Any, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[int] = []
    last = asyncio.Event()

    async def callback(event: Any) -> None:
        seen.append(event.seq)
        if len(seen) == 1:
            raise asyncio.CancelledError
        if len(seen) == 3:
            last.set()

    with caplog.at_level(logging.CRITICAL, "blackboard_mcp"):
        hook = await board.on({}, callback, on_error=lambda event, error, attempt: True)
        wanted = await texts(board, 3)
        await asyncio.wait_for(last.wait(), PATIENCE)
    assert seen == wanted
    assert hook.failures == 1


async def test_a_hook_goes_on_after_what_could_not_be_answered_at_the_moment(
    board: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    left = [
        StoreError("The connection broke during the commit."),
        StoreFull("There is no room."),
        RateLimited("Too many calls wait."),
    ]
    reach = board._reach

    async def failing(tool: str, *given: Any, **more: Any) -> Any:
        if tool == "wait" and left:
            raise left.pop(0)
        return await reach(tool, *given, **more)

    seen: list[int] = []
    last = asyncio.Event()

    def callback(event: Any) -> None:
        seen.append(event.seq)
        if len(seen) == 3:
            last.set()

    monkeypatch.setattr(board, "_reach", failing)
    with caplog.at_level(logging.CRITICAL, "blackboard_mcp"):
        hook = await board.on({}, callback, name="place")
        wanted = await texts(board, 3)
        await asyncio.wait_for(last.wait(), PATIENCE)
    assert (seen, left, hook.running) == (wanted, [], True)


async def test_leaving_the_board_ends_hooks_streams_and_queues(place: Any) -> None:
    host = await place.join("host")
    await host.post("a board")
    board = await place.join("carol")
    hook = await board.on({}, lambda event: asyncio.sleep(60))
    queue = await board.queue()
    waiting = asyncio.create_task(queue.get())
    await texts(board, 1)
    await asyncio.wait_for(waiting, PATIENCE)
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    await board.aclose()
    with pytest.raises(StoreClosed):
        await asyncio.wait_for(waiting, PATIENCE)
    assert not hook.running


@pytest.mark.parametrize("place", ["memory"], indirect=True)
async def test_a_callback_that_catches_its_cancellation_keeps_no_board_open(
    place: Any, board: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def returns(_: Any) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            begun.set()
            await asyncio.Event().wait()

    async def raises(_: Any) -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("cleaning up failed") from None

    caplog.set_level(logging.CRITICAL)
    for callback in (returns, raises):
        begun = asyncio.Event()
        hook = await board.on({}, callback)
        await texts(board, 1)
        await begun.wait()
        async with asyncio.timeout(PATIENCE):
            await hook.aclose()
        assert not hook.running


async def test_a_queue_gives_each_event_to_one_worker(board: Any) -> None:
    async with await board.queue({"tags": ["x"]}, maxsize=5) as queue:
        wanted = [seq for _ in range(2) for seq in await texts(board, 40)]
        got: dict[str, list[int]] = {"a": [], "b": [], "c": []}

        async def work(name: str) -> None:
            while sum(map(len, got.values())) < 80:
                event = await queue.get()
                assert queue.qsize() <= 5
                got[name].append(event.seq)
                queue.done(event)
                await asyncio.sleep(0)

        working = [asyncio.create_task(work(name)) for name in got]
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)
        await queue.aclose()
        await asyncio.wait(working)
    assert sorted(seq for seqs in got.values() for seq in seqs) == wanted


@pytest.mark.parametrize("place", ["memory", "file", "modern"], indirect=True)
async def test_a_board_that_is_cancelled_while_it_closes_leaves_no_task(place: Any, board: Any) -> None:
    before = asyncio.all_tasks()
    for ticks in (0, 1, 2, 4, 9):
        other = await place.join(f"agent-{ticks}")
        await other.on({}, lambda event: asyncio.sleep(60))
        await texts(board, 1)
        closing = asyncio.create_task(other.aclose())
        for _ in range(ticks):
            await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        await other.aclose()
    async with asyncio.timeout(PATIENCE):
        while left := asyncio.all_tasks() - before:
            await asyncio.wait(left)
