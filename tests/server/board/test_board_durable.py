"""Durable iterators over crashes and restarts, back-pressure and cancellation: F20, I20, I21, I24."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.errors import Conflict, UnknownReference
from blackboard_mcp.protocols.wire import WireEvent
from blackboard_mcp.server.board import Board, BoardClient
from blackboard_mcp.server.demo.process import command, environment
from patience import PATIENCE
from ports import free_port
from profiles import NIGHTLY

EVENTS = 10_000 if NIGHTLY else 1_000


async def fill(board: Any, count: int) -> list[int]:
    """Posts so many items in batches; the sequences of their events."""
    seqs: list[int] = []
    while len(seqs) < count:
        batch = [{"text": f"item {len(seqs) + n}", "type": "LOG"} for n in range(min(100, count - len(seqs)))]
        seqs += [item.seq for item in (await board.post_all(batch)).items]
    return seqs


async def take(stream: Any, count: int) -> list[int]:
    found: list[int] = []
    async with asyncio.timeout(PATIENCE):
        async for event in stream:
            found.append(event.seq)
            if len(found) == count:
                break
    return found


async def test_I20_a_named_stream_goes_on_where_it_was_done(place: Any, board: Any) -> None:
    async with board.events({"type": "LOG"}, name="worker", page=4) as stream:
        wanted = await fill(board, 10)
        assert await take(stream, 6) == wanted[:6]
    again = await place.join("alice")
    async with again.events({"type": "LOG"}, name="worker", page=4) as stream:
        assert await take(stream, 2) == wanted[6:8]
    with pytest.raises(Conflict, match="another filter"):
        await again.events({"type": "FACT"}, name="worker").__aenter__()
    held = await again.subscriptions()
    assert [(one.name, one.cursor) for one in held] == [("worker", wanted[7])]


async def test_I20_what_was_not_done_comes_again_and_at_most_a_page(board: Any) -> None:
    first = board.events(name="worker", page=3)
    async with first:
        pass
    wanted = await fill(board, 8)
    abandoned = board.events(name="worker", page=3)
    assert await take(abandoned, 5) == wanted[:5]  # and never closed, as after a crash
    async with board.events(name="worker", page=3) as stream:
        assert await take(stream, 5) == wanted[3:8]


async def test_I20_a_callback_confirms_only_what_it_returned_from(place: Any, board: Any) -> None:
    stuck = asyncio.Event()
    seen: list[int] = []

    async def callback(event: Any) -> None:
        seen.append(event.seq)
        if len(seen) == 2:
            stuck.set()
            await asyncio.Event().wait()

    hook = await board.on({}, callback, name="hook", page=10)
    wanted = await fill(board, 3)
    await asyncio.wait_for(stuck.wait(), PATIENCE)
    await hook.aclose()
    assert hook.place == wanted[0]
    async with board.events({}, name="hook") as stream:
        assert await take(stream, 2) == wanted[1:]


async def test_a_durable_queue_confirms_what_all_workers_are_done_with(board: Any) -> None:
    queue = await board.queue({}, name="work", maxsize=4)
    wanted = await fill(board, 6)
    got = [await queue.get() for _ in range(4)]
    assert [event.seq for event in got] == wanted[:4]
    waiting = asyncio.create_task(queue.get())
    async with board.events() as others:
        news = await fill(board, 1)
        assert await take(others, 1) == news
    assert not waiting.done(), "four are out, and none of them is done"
    for event in got[1:]:
        queue.done(event)
    assert queue.place == wanted[0] - 1
    queue.done(got[0])
    assert (await asyncio.wait_for(waiting, PATIENCE)).seq == wanted[4]
    await queue.aclose()
    async with board.events({}, name="work") as stream:
        assert await take(stream, 2) == wanted[4:]


async def test_an_expired_or_ended_subscription_is_an_error_and_not_silence(board: Any) -> None:
    async with board.events(name="gone") as stream:
        await fill(board, 1)
        assert len(await take(stream, 1)) == 1
        await board.unsubscribe("gone")
        with pytest.raises(UnknownReference):
            await anext(stream)


@pytest.mark.parametrize("place", ["memory"], indirect=True)
async def test_F20_a_slow_consumer_loses_nothing_holds_a_page_and_slows_nobody(board: Any) -> None:
    async with await board.queue({"event": "item.posted"}, maxsize=100) as queue:
        # Nobody gets anything while all of it is posted: posting waits for no consumer.
        wanted = await fill(board, EVENTS)
        assert queue.qsize() <= 100
        got: list[int] = []
        most = 0
        while len(got) < EVENTS:
            got.append((await queue.get()).seq)
            await asyncio.sleep(0.001)
            most = max(most, queue.qsize())
            if len(got) % 500 == 0:
                gc.collect()
                assert sum(isinstance(thing, WireEvent) for thing in gc.get_objects()) <= 250
        assert got == wanted
        assert most <= 100
        assert queue.place >= wanted[-1]


@pytest.mark.parametrize("place", ["memory", "modern", "legacy"], indirect=True)
async def test_I24_calls_cancelled_at_random_points_apply_whole_and_once(board: Any) -> None:
    chance = random.Random(7)
    for n in range(15):
        posting = asyncio.create_task(
            board.post_all([{"text": f"a {n}"}, {"text": f"b {n}"}], idempotency_key=f"k{n}")
        )
        for _ in range(chance.randrange(12)):
            await asyncio.sleep(0)
        posting.cancel()
        await asyncio.wait([posting])
        await board.post_all([{"text": f"a {n}"}, {"text": f"b {n}"}], idempotency_key=f"k{n}")
    texts = sorted(item.text for item in await board.query(zone="all").all())
    assert texts == sorted(["the first item", *(f"{x} {n}" for x in "ab" for n in range(15))])


@pytest.mark.parametrize("place", ["memory", "modern", "legacy"], indirect=True)
async def test_I20_steps_cancelled_at_random_points_lose_and_repeat_nothing(board: Any) -> None:
    chance = random.Random(3)
    got: list[int] = []
    async with board.events({}, name="steps", page=3) as stream:
        wanted = await fill(board, 20)
        for _ in range(15):
            step = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(chance.choice([0, 0, 0.001, 0.004, 0.016]))
            step.cancel()
            await asyncio.wait([step])
            if not step.cancelled():
                got.append(step.result().seq)
        if len(got) < 20:
            got += await take(stream, 20 - len(got))
    assert got == wanted


CONSUMER = """
import asyncio, sys
from pathlib import Path
from blackboard_mcp.server.board import Board

async def main():
    done = Path(sys.argv[2])
    async with Board.open(agent="worker", data=Path(sys.argv[1])) as board:
        async with board.events({"type": "LOG"}, name="work", page=5) as stream:
            with done.open("a") as file:
                print("ready", flush=True)
                async for event in stream:
                    print(event.seq, file=file, flush=True)
                    print(event.seq, flush=True)

asyncio.run(main())
"""


async def test_I20_a_killed_program_gets_every_event_again_or_once(tmp_path: Path) -> None:
    data, done = tmp_path / "data", tmp_path / "done"

    async def consumer() -> Any:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", CONSUMER, str(data), str(done)),
            stdout=asyncio.subprocess.PIPE,
            env=environment(),
        )
        assert await process.stdout.readline() == b"ready\n"
        return process

    async with asyncio.timeout(PATIENCE), Board.open(agent="poster", data=data) as board:
        process = await consumer()
        wanted = await fill(board, 12)
        for _ in range(7):
            await process.stdout.readline()
        process.kill()
        await process.wait()
        wanted += await fill(board, 3)
        process = await consumer()
        seen: list[int] = []
        while wanted[-1] not in seen:
            seen.append(int(await process.stdout.readline()))
        process.kill()
        await process.wait()
    lines = [int(line) for line in done.read_text().splitlines()]
    assert list(dict.fromkeys(lines)) == wanted
    assert len(lines) - len(wanted) <= 5


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_I20_an_iterator_and_a_poster_outlive_a_killed_server(tmp_path: Path, mode: str) -> None:
    port = free_port()

    async def serve() -> Any:
        process = await asyncio.create_subprocess_exec(
            *command("serve", "--transport", "http", "--port", str(port), "--data", str(tmp_path)),
            stderr=asyncio.subprocess.PIPE,
            env=environment(),
        )
        assert process.stderr is not None
        assert b"serves" in await process.stderr.readline()
        return process

    url = f"http://127.0.0.1:{port}/mcp"
    async with asyncio.timeout(PATIENCE):
        process = await serve()
        async with (
            BoardClient.connect(url, agent="poster", mode=mode) as poster,
            BoardClient.connect(url, agent="reader", mode=mode) as reader,
        ):
            got: list[int] = []
            half, begun = asyncio.Event(), asyncio.Event()

            async def read() -> None:
                async with reader.events({"tags": ["n"]}, name="reader", page=4) as stream:
                    begun.set()
                    async for event in stream:
                        got.append(event.seq)
                        if len(got) == 10:
                            half.set()
                        if len(got) == 30:
                            return

            reading = asyncio.create_task(read())
            await begun.wait()

            async def post() -> list[str]:
                return [(await poster.post(f"item {n}", tags=["n"])).id for n in range(30)]

            posting = asyncio.create_task(post())
            await half.wait()
            os.kill(process.pid, signal.SIGKILL)
            await process.wait()
            process = await serve()
            ids = await posting
            await reading
            items = await poster.query(tags=["n"]).all()
        assert sorted(item.text for item in items) == sorted(f"item {n}" for n in range(30))
        assert len(set(ids)) == 30
        assert got == sorted(item.seq for item in items)
        process.terminate()
        await process.wait()


COUNTER = """
import asyncio, sys
from pathlib import Path
from blackboard_mcp.server.board import Board

async def count(tx):
    found = await tx.get("counter")
    tx.put("counter", str(1 + (0 if found is None else int(found.text))))

async def main():
    async with Board.open(agent=sys.argv[2], data=Path(sys.argv[1])) as board:
        for _ in range(20):
            await board.transact(count, attempts=100)

asyncio.run(main())
"""


async def test_I23_programs_on_one_folder_count_together_and_hear_each_other(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE), Board.open(agent="watcher", data=tmp_path) as board:
        async with board.events({"key": "counter"}) as stream:
            counting = [
                await asyncio.create_subprocess_exec(
                    *(sys.executable, "-c", COUNTER, str(tmp_path), name), env=environment()
                )
                for name in ("a", "b")
            ]
            heard = await take(stream, 40)
            assert [await process.wait() for process in counting] == [0, 0]
        counter = await board.get("counter")
        assert (counter.text, counter.version) == ("40", 40)
        assert len(set(heard)) == 40
        assert heard == sorted(heard)
