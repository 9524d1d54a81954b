"""A clock that jumps, forward and backward, by hours and by years: order is by sequence, and nothing is given twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.asking import NewRequest, RequestState
from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.errors import Conflict
from blackboard_mcp.protocols.groups import Turn
from blackboard_mcp.protocols.items import Ref, Zone, content_hash
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import HandClock, draft

CONFIG = BoardConfig()
HOUR = 3_600.0
JUMPS = [seconds * sign for seconds in (2 * HOUR, 10 * 365 * 24 * HOUR) for sign in (1, -1)]


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def store(tmp_path: Path, clock: HandClock) -> AsyncIterator[SqlBoardStore]:
    opened = await SqlBoardStore.open(tmp_path / "board.sqlite3", clock=clock)
    await opened.ensure_board("main", "ada", CONFIG)
    yield opened
    await opened.close()


async def post(store: SqlBoardStore, text: str, once: Once | None = None, **more: Any) -> Any:
    return await store.post("main", "ada", [draft(text, "LOG", **more)], config=CONFIG, once=once)


async def zone(store: SqlBoardStore, number: int) -> Zone:
    return (await store.read("main", "ada", [Ref(number, None)], [])).items[0].zone


@pytest.mark.parametrize("jump", JUMPS)
async def test_events_and_items_keep_the_order_of_their_sequence(
    store: SqlBoardStore, clock: HandClock, jump: float
) -> None:
    for n in range(6):
        await post(store, f"step {n}")
        clock.advance(jump if n % 2 else -jump)
    log = await store.log("main", "ada", 0, 100)
    assert [event.seq for event in log.events] == list(range(1, 8))
    assert [event.item for event in log.events[1:]] == [f"L-{n}" for n in range(1, 7)]
    snapshot = await store.snapshot("main", "ada")
    assert sorted(item.number for item in snapshot.items) == list(range(1, 7))
    seqs = [item.seq for item in sorted(snapshot.items, key=lambda item: item.number)]
    assert seqs == sorted(seqs)


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_lease_of_a_process_is_never_given_to_two_within_its_time(
    store: SqlBoardStore, clock: HandClock, jump: float
) -> None:
    assert await store.lease("work", "one", 30)
    clock.advance(jump)
    # Forward it has ended; backward it has not, whatever the clock says.
    assert await store.lease("work", "two", 30) is (jump > 0)
    assert not await store.lease("work", "three", 30)
    holder, other = ("two", "one") if jump > 0 else ("one", "two")
    assert await store.lease("work", holder, 30), "its holder renews it"
    assert not await store.lease("work", other, 30)
    # Renewing brings it to the clock of now: it ends in time.
    clock.advance(31)
    assert await store.lease("work", other, 30)


@pytest.mark.parametrize("jump", JUMPS)
async def test_what_expires_does_so_once_and_never_early_by_a_jump_backward(
    store: SqlBoardStore, clock: HandClock, jump: float
) -> None:
    stays = (await post(store, "stays")).items[0].number
    goes = (await post(store, "goes", ttl=60.0)).items[0].number
    clock.advance(jump)
    await store.expire()
    assert await zone(store, goes) is (Zone.ARCHIVE if jump > 0 else Zone.WORKING)
    clock.advance(-jump)
    # Back to the time that it was: what left stays away, what stayed leaves at its time.
    clock.advance(61)
    await store.expire()
    await store.expire()
    assert await zone(store, goes) is Zone.ARCHIVE
    assert await zone(store, stays) is Zone.WORKING
    left = [e for e in (await store.log("main", "ada", 0, 100)).events if e.event == "item.expired"]
    assert [event.item for event in left] == [f"L-{goes}"]


@pytest.mark.parametrize("jump", [jump for jump in JUMPS if jump < 0])
async def test_an_idempotency_key_from_before_a_jump_backward_is_known_after_it(
    store: SqlBoardStore, clock: HandClock, jump: float
) -> None:
    once = Once("key", "the same")
    first = await post(store, "once", once)
    clock.advance(jump)
    await store.sweep_once()
    again = await post(store, "once", once)
    assert again.repeated
    assert again.items[0].number == first.items[0].number
    clock.advance(-jump)
    await store.sweep_once()
    assert (await post(store, "once", once)).repeated


async def test_a_key_that_a_jump_forward_ended_does_not_come_back(
    store: SqlBoardStore, clock: HandClock
) -> None:
    once = Once("key", "the same")
    await post(store, "once", once)
    clock.advance(400 * 24 * HOUR)
    await store.sweep_once()
    second = await post(store, "once", once)
    assert not second.repeated
    clock.advance(-400 * 24 * HOUR)
    third = await post(store, "once", once)
    assert third.repeated
    assert third.items[0].number == second.items[0].number


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_claimed_key_is_never_held_by_two(
    store: SqlBoardStore, clock: HandClock, jump: float
) -> None:
    """An entry that is created once is there once, whatever the clock does between two who try."""
    await store.post("main", "ada", [draft("mine", key="work:1", expected=0)], config=CONFIG)
    clock.advance(jump)
    with pytest.raises(Conflict):
        await store.post("main", "ben", [draft("mine", key="work:1", expected=0)], config=CONFIG)


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_board_is_what_its_history_says_after_jumps(
    store: SqlBoardStore, clock: HandClock, jump: float, tmp_path: Path
) -> None:
    from blackboard_mcp.storage.history.transfer import verify_board

    for n in range(4):
        await post(store, f"step {n}", ttl=30.0)
        clock.advance(jump if n % 2 else -jump)
        await store.expire()
    assert await verify_board(store, "main", folder=tmp_path) == []


@pytest.mark.parametrize("jump", JUMPS)
async def test_an_event_is_never_with_two_workers_of_a_group(
    store: SqlBoardStore, clock: HandClock, jump: float
) -> None:
    await store.create_group("main", "ada", "work", {"event": "item.posted"})
    await post(store, "a job")
    turn = Turn(lease_seconds=60)
    first = await store.consume("main", "one", "work", turn)
    assert len(first.deliveries) == 1
    clock.advance(jump)
    second = await store.consume("main", "two", "work", turn)
    assert len(second.deliveries) == (1 if jump > 0 else 0)
    done = Turn(ack=(first.deliveries[0].handle,), limit=0)
    if jump > 0:
        with pytest.raises(Conflict):
            await store.consume("main", "one", "work", done)
    else:
        # Whoever holds it settles it, and nobody gets it again when the clock is right.
        await store.consume("main", "one", "work", done)
        clock.advance(-jump + 120)
        assert not (await store.consume("main", "two", "work", turn)).deliveries


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_request_is_never_with_two_agents(
    store: SqlBoardStore, clock: HandClock, jump: float
) -> None:
    await store.offer_skills("main", "one", ["sums"])
    await store.offer_skills("main", "two", ["sums"])
    text = "how much is it?"
    wanted = NewRequest(text, 4, content_hash(text), skill="sums", deadline_seconds=20 * 365 * 24 * HOUR)
    number = await store.open_request("main", "ada", wanted, config=CONFIG)
    lease = await store.take_request("main", "one", number)
    clock.advance(jump)
    await store.sweep_requests()
    request = await store.request("main", "ada", number)
    if jump < 0:
        assert request.state is RequestState.TAKEN
        with pytest.raises(Conflict):
            await store.take_request("main", "two", number)
        assert await store.release_request("main", "one", number, lease)
    else:
        assert request.state in (RequestState.OPEN, RequestState.EXPIRED, RequestState.TAKEN)
        assert not (request.state is RequestState.TAKEN and jump > 24 * HOUR)


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_debate_lapses_by_no_jump_backward(
    store: SqlBoardStore, clock: HandClock, jump: float
) -> None:
    root = (await post(store, "we take the blue pump")).items[0].number
    critique = draft("it is too loud", "CRITIQUE", critiques=root)
    await store.post("main", "ben", [critique], config=CONFIG)
    clock.advance(jump)
    for _ in range(3):
        await store.sweep_debates()
    events = (await store.log("main", "ada", 0, 100)).events
    closed = [event for event in events if event.event == "debate.closed"]
    if jump < 0:
        assert not closed
    assert len(closed) <= 1
    clock.advance(-jump)
    await store.sweep_debates()
    events = (await store.log("main", "ada", 0, 100)).events
    assert len([event for event in events if event.event == "debate.closed"]) == len(closed)
