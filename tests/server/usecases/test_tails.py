"""The shared ends of logs: read once for all who wait, exactly what the store says, bounded."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.answers import (
    Stretch,
)
from blackboard_mcp.protocols.errors import StoreBusy, StoreClosed, StoreError
from blackboard_mcp.protocols.events import Event
from blackboard_mcp.protocols.filters import parse_event_filter
from blackboard_mcp.protocols.matching import matcher
from blackboard_mcp.protocols.read_rules import ReadRule
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.protocols.visibility import Viewer
from blackboard_mcp.server.usecases import tails as tails_module
from blackboard_mcp.server.usecases.tails import Tails
from blackboard_mcp.storage.operations.ledger import ledger
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import HandClock, Table, draft
from blackboard_mcp.storage.testing.kit.forgetting import DAY, forget
from patience import PATIENCE, parked
from profiles import NIGHTLY

AGENTS = ("alice", "bob", "carol")


class Counted:
    """A store that says how often and how much of the log was read."""

    def __init__(self, store: BoardStore) -> None:
        self._store = store
        self.calls = self.rows = 0
        self.boards: set[str] = set()
        self.fails: Exception | None = None

    async def stretches(self, places: Mapping[str, int], limit: int) -> dict[str, Stretch]:
        found = await self._store.stretches(places, limit)
        if self.fails is not None:  # after the read: one may have been under way
            raise self.fails
        self.calls += 1
        self.boards |= set(places)
        self.rows += sum(len(stretch.events) for stretch in found.values())
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlBoardStore]:
    opened = await SqlBoardStore.open(tmp_path / "board.db", synchronous="NORMAL")
    yield opened
    await opened.close()


@pytest.fixture
async def counted(store: SqlBoardStore) -> Counted:
    return Counted(store)


@pytest.fixture
async def tails(counted: Counted) -> AsyncIterator[Tails]:
    shared = Tails(counted)  # type: ignore[arg-type]
    yield shared
    await shared.close()


async def follow(
    tails: Tails, board: str, agent: str, filter_: dict[str, Any], *, to: int, place: int = 0, limit: int = 50
) -> list[Event]:
    """What a reader gets that calls again and again until it has heard of everything up to `to`."""
    wanted = matcher(parse_event_filter(filter_), Viewer(agent))
    got: list[Event] = []
    while place < to:
        heard = await tails.after(board, wanted, place, end=place, limit=limit, seconds=0.2)
        assert heard.cursor >= place
        assert len(heard.events) <= limit
        got += heard.events
        place = heard.cursor
    return got


def expected(log: Iterable[Event], agent: str, filter_: dict[str, Any], after: int = 0) -> list[Event]:
    """What of a log that the agent may see it is to hear of."""
    condition = parse_event_filter(filter_)
    return [event for event in log if event.seq > after and condition.matches(event, agent)]


async def burst(table: Table, count: int, *, batch: int = 20, seed: int = 0) -> None:
    chance = random.Random(seed)
    for start in range(0, count, batch):
        await table.batch(
            chance.choice(AGENTS),
            *(
                draft(
                    f"finding {number} for @{chance.choice(AGENTS)}",
                    chance.choice(["FACT", "LOG", "PLAN"]),
                    key=f"k:{number % 7}:{seed}-{number}",
                    tags=[f"t{number % 5}", f"u{number % 3}"],
                    private=chance.random() < 0.2,
                )
                for number in range(start, min(count, start + batch))
            ),
        )


FILTERS: tuple[dict[str, Any], ...] = (
    {},
    {"tags": ["t1"]},
    {"tags": ["t1", "u2"]},
    {"key": "k:3:*"},
    {"key": "**1"},
    {"type": ["LOG", "PLAN"], "not": {"agent": "bob"}},
    {"mentions": True},
    {"any": [{"tags": ["t4"]}, {"all": [{"agent": "carol"}, {"type": "FACT"}]}]},
    {"event": "item.archived"},
)


async def everybody_follows(folder: Path, *, count: int, left_out: int = 0) -> None:
    """Readers of every kind, from before and from the end, while two handles on one file post.

    Before the end and at the end so many numbers are left out, as where the board was put back from a copy.
    """
    store = await SqlBoardStore.open(folder / "board.db", synchronous="NORMAL")
    other = await SqlBoardStore.open(folder / "board.db", synchronous="NORMAL")
    # Memory for a few pages only: what is dropped is read again.
    tails = Tails(store, max_bytes=60_000)
    following: list[asyncio.Task[list[Event]]] = []
    try:
        table = Table(store)
        await burst(table, 60)
        if left_out:
            await store.mark_copies()
            await burst(table, 20, seed=3)
        start = await table.seq()
        to = start + 2 * count
        if left_out:
            await store.mark_copies()
            to += left_out + 1
        readers = [
            (agent, filter_, place, limit)
            for agent in AGENTS
            for filter_ in FILTERS
            for place, limit in ((0, 3), (start, 50), (start - 10, 200), (55, 5))
        ]
        following = [
            asyncio.create_task(follow(tails, "main", agent, filter_, to=to, place=place, limit=limit))
            for agent, filter_, place, limit in readers
        ]
        await asyncio.gather(burst(table, count, seed=1), burst(Table(other), count, batch=7, seed=2))
        assert await table.seq() == to
        assert tails.weight <= 60_000 + 40 * 2_000
        logs = {agent: await table.events(agent) for agent in AGENTS}
        for (agent, filter_, place, _), task in zip(readers, following, strict=True):
            got = await asyncio.wait_for(task, PATIENCE)
            assert got == expected(logs[agent], agent, filter_, place)
    finally:
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
        await tails.close()
        await other.close()
        await store.close()


@pytest.mark.parametrize("page", [7, 64])
async def test_I20_every_reader_gets_exactly_its_visible_events_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(tails_module, "PAGE", page)
    monkeypatch.setattr(tails_module, "_ROUND", 40)
    await everybody_follows(tmp_path, count=300 if NIGHTLY else 120)


@pytest.mark.parametrize("left_out", [1, 5, 100, 100_000_000])
async def test_I20_it_holds_over_numbers_that_were_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_out: int
) -> None:
    monkeypatch.setattr(tails_module, "PAGE", 7)
    monkeypatch.setattr(tails_module, "_ROUND", 40)
    monkeypatch.setattr(ledger, "_LEAST_OUT", left_out)
    monkeypatch.setattr(ledger, "_MOST_OUT", 1)
    await everybody_follows(tmp_path, count=60, left_out=left_out)


async def test_an_event_that_is_missing_is_told_and_is_no_number_that_was_left_out(
    store: SqlBoardStore, tails: Tails, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(store)
    await burst(table, 10)
    await store.mark_copies()
    await burst(table, 10)
    end = await table.seq()
    assert len(await follow(tails, "main", "alice", {}, to=end)) == len(await table.events("alice"))
    whole = store.stretches

    async def without(places: Mapping[str, int], limit: int) -> dict[str, Stretch]:
        found = await whole(places, limit)
        return {
            board: Stretch(tuple(e for e in stretch.events if e.event != "board.restored"), stretch.seq)
            for board, stretch in found.items()
        }

    monkeypatch.setattr(store, "stretches", without)
    fresh = Tails(store)
    try:
        with pytest.raises(StoreError, match="gap between"):
            await follow(fresh, "main", "alice", {}, to=end)
    finally:
        await fresh.close()


@pytest.mark.parametrize("at_once", [1_000, 8])
async def test_nothing_of_a_forgotten_item_is_kept_in_memory(
    tmp_path: Path, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = HandClock()
    store = await SqlBoardStore.open(tmp_path / "board.db", clock=clock)
    tails = Tails(store)
    try:
        table = Table(store)
        item = await table.post("alice", "a", "LOG", tags=["canary"], metadata={"n": "canary"})
        await burst(table, tails_module.PAGE)
        heard = await follow(tails, "main", "alice", {}, to=await table.seq())
        assert "canary" in str(heard)
        await table.gone(item)
        clock.advance(40 * DAY)
        assert await forget(table, item) == (item.id,)
        await burst(table, 20, seed=1)
        monkeypatch.setattr(tails_module, "_ROUND", at_once)
        end = await table.seq()
        await follow(tails, "main", "alice", {}, to=end, place=end - 1)
        heard = await follow(tails, "main", "alice", {}, to=end)
        assert heard == await table.events("alice")
        assert "canary" not in str(heard)
    finally:
        await tails.close()
        await store.close()


@pytest.mark.parametrize("at_once", [1_000, 8])
async def test_a_rule_keeps_what_was_told_of_its_items_before_from_who_follows(
    store: SqlBoardStore, tails: Tails, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(store)
    await table.post("alice", "a", "LOG", key="pay:ann", metadata={"n": "canary"})
    await burst(table, tails_module.PAGE)
    heard = await follow(tails, "main", "eve", {}, to=await table.seq())
    assert "canary" in str(heard)
    await store.set_read_rules([ReadRule("pay", ("bob",), key="pay:**")])
    assert (await store.reclassify("main", apply=True)).kept
    await burst(table, 20, seed=1)
    monkeypatch.setattr(tails_module, "_ROUND", at_once)
    end = await table.seq()
    await follow(tails, "main", "eve", {}, to=end, place=end - 1)
    heard = await follow(tails, "main", "eve", {}, to=end)
    assert heard == await table.events("eve")
    assert "canary" not in str(heard)
    assert "pay:ann" not in str(heard)


async def test_who_asks_after_a_rule_came_is_not_handed_what_is_being_read_since_before(
    store: SqlBoardStore, tails: Tails, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(store)
    await table.post("alice", "a", "LOG", key="pay:ann")
    await burst(table, tails_module.PAGE)
    whole, goes_on, reading = store.stretches, asyncio.Event(), asyncio.Event()

    async def slowly(places: Mapping[str, int], limit: int) -> dict[str, Stretch]:
        found = await whole(places, limit)
        if places.get("main") == 0 and not reading.is_set():
            reading.set()
            await goes_on.wait()
        return found

    monkeypatch.setattr(store, "stretches", slowly)

    async def first_page() -> str:
        wanted = matcher(parse_event_filter({}), Viewer("eve"))
        end = await table.seq()
        return str((await tails.after("main", wanted, 0, end=end, limit=3, seconds=0)).events)

    before = asyncio.create_task(first_page())
    await asyncio.wait_for(reading.wait(), PATIENCE)
    await store.set_read_rules([ReadRule("pay", ("bob",), key="pay:**")])
    await store.reclassify("main", apply=True)
    after = asyncio.create_task(first_page())
    end = await table.seq()
    async with asyncio.timeout(PATIENCE):
        while tails._tails["main"].end < end:  # noqa: ASYNC110 - the tail tells nobody
            await asyncio.sleep(0.01)
    await asyncio.sleep(0)
    goes_on.set()
    assert "pay:ann" in await before
    assert "pay:ann" not in await after


def shows_all(patch: pytest.MonkeyPatch) -> None:
    """What is private to others is shown."""
    patch.setattr(Event, "visible_to", lambda event, agent: True)


def forgets_to_wake(patch: pytest.MonkeyPatch) -> None:
    """Who waits is told that nothing came."""

    async def wake(tails: Tails, tail: Any, events: Any) -> None:
        for waiter in tail.waiters:
            waiter.place = events[-1].seq

    patch.setattr(Tails, "_wake", wake)


def cuts_pages(patch: pytest.MonkeyPatch) -> None:
    """A finished page is kept shifted by an event."""
    keep = Tails._keep
    patch.setattr(
        Tails, "_keep", lambda tails, board, number, page: keep(tails, board, number, (*page[1:], page[-1]))
    )


def passes_over_the_rest(patch: pytest.MonkeyPatch) -> None:
    """An answer that is full ends at the end of the log."""
    collect = Tails._collect

    async def wrong(tails: Tails, tail: Any, *asked: Any) -> Any:
        found, _ = await collect(tails, tail, *asked)
        return found, tail.end

    patch.setattr(Tails, "_collect", wrong)


def goes_back(patch: pytest.MonkeyPatch) -> None:
    """A woken reader begins again one event earlier."""
    wait = Tails._wait

    async def wrong(tails: Tails, *asked: Any) -> int:
        return max(0, await wait(tails, *asked) - 1)

    patch.setattr(Tails, "_wait", wrong)


@pytest.mark.parametrize("mistake", [shows_all, forgets_to_wake, cuts_pages, passes_over_the_rest, goes_back])
async def test_a_mistake_in_the_shared_ends_would_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: Callable[[pytest.MonkeyPatch], None]
) -> None:
    monkeypatch.setattr(tails_module, "PAGE", 7)
    monkeypatch.setattr(tails_module, "_ROUND", 40)
    mistake(monkeypatch)
    with pytest.raises((AssertionError, StoreError)):
        await everybody_follows(tmp_path, count=40)


async def test_a_burst_is_read_once_for_all_who_wait(
    store: SqlBoardStore, counted: Counted, tails: Tails
) -> None:
    table = Table(store)
    await table.post("alice", "a")
    start = await table.seq()
    readers = [
        asyncio.create_task(
            follow(tails, "main", "bob", {"tags": [f"t{number % 5}"]}, to=start + 300, place=start)
        )
        for number in range(60)
    ]
    await asyncio.sleep(0)
    await burst(table, 300)
    got = await asyncio.gather(*readers)
    log = await table.events("bob")
    for number, events in enumerate(got):
        assert events == expected(log, "bob", {"tags": [f"t{number % 5}"]}, start)
    assert counted.rows <= 2 * 300


async def test_readers_far_behind_share_what_is_read_for_one_of_them(
    store: SqlBoardStore, counted: Counted, tails: Tails
) -> None:
    table = Table(store)
    await burst(table, 1_200, batch=100)
    end = await table.seq()
    got = await asyncio.gather(*(follow(tails, "main", "bob", {"tags": ["t2"]}, to=end) for _ in range(40)))
    assert all(events == got[0] for events in got)
    assert got[0] == expected(await table.events("bob"), "bob", {"tags": ["t2"]})
    assert counted.rows <= 2 * end


async def test_private_events_in_a_shared_end_reach_their_owner_alone(
    store: SqlBoardStore, tails: Tails
) -> None:
    table = Table(store)
    await table.post("alice", "a")
    place = await table.seq()

    async def hear(agent: str) -> list[Event]:
        return await follow(tails, "main", agent, {}, to=place + 4, place=place)

    waiting = [asyncio.create_task(hear(agent)) for agent in AGENTS]
    await asyncio.sleep(0)
    await table.post("alice", "canary of alice", private=True, tags=["canary"])
    await table.post("carol", "public")
    await table.post("bob", "canary of bob", private=True, tags=["canary"])
    await table.post("carol", "public as well")
    late = [asyncio.create_task(hear(agent)) for agent in AGENTS]
    for calls in (waiting, late):
        heard = [[event.seq - place for event in events] for events in await asyncio.gather(*calls)]
        assert heard == [[1, 2, 4], [2, 3, 4], [2, 4]]


async def test_only_those_are_woken_who_want_what_came(
    store: SqlBoardStore, tails: Tails, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(store)
    await table.post("alice", "a")
    end = await table.seq()
    wanted = matcher(parse_event_filter({"tags": ["wanted"]}), Viewer("bob"))
    looks = 0
    collect = tails._collect

    async def counting(*args: Any) -> Any:
        nonlocal looks
        looks += 1
        return await collect(*args)

    monkeypatch.setattr(tails, "_collect", counting)
    call = asyncio.create_task(tails.after("main", wanted, end, end=end, limit=5, seconds=2 * PATIENCE))
    for number in range(30):
        await table.post("alice", f"{number}")
        await asyncio.sleep(0.002)
    await table.post("alice", "this", tags=["wanted"])
    heard = await asyncio.wait_for(call, PATIENCE)
    assert ([event.seq for event in heard.events], heard.cursor) == ([end + 31], end + 31)
    assert looks == 2


async def test_what_was_committed_before_the_call_is_never_missed_without_waiting(
    store: SqlBoardStore, tmp_path: Path, tails: Tails
) -> None:
    other = await SqlBoardStore.open(tmp_path / "board.db", synchronous="NORMAL")
    table, elsewhere = Table(store), Table(other)
    wanted = matcher(parse_event_filter({}), Viewer("bob"))
    try:
        await table.post("alice", "a")
        for number in range(30):
            await elsewhere.post("alice", f"{number}")
            end = await table.seq()
            # All of it, though the shared end knows a part already.
            heard = await tails.after("main", wanted, max(0, end - 3), end=end, limit=50, seconds=0)
            assert [event.seq for event in heard.events] == list(range(max(1, end - 2), end + 1))
            assert heard.cursor == end
    finally:
        await other.close()


async def test_who_is_let_go_waits_no_more_nor_does_who_comes_later(
    store: SqlBoardStore, tails: Tails
) -> None:
    table = Table(store)
    await table.post("alice", "a")
    end = await table.seq()
    wanted = matcher(parse_event_filter({}), Viewer("bob"))
    waiting = asyncio.create_task(tails.after("main", wanted, end, end=end, limit=50, seconds=3_600))
    await asyncio.sleep(0)
    tails.release()
    async with asyncio.timeout(PATIENCE):
        assert (await waiting).events == ()
        late = await tails.after("main", wanted, end, end=end, limit=50, seconds=3_600)
    assert (late.events, late.cursor) == ((), end)


async def test_a_reader_far_behind_with_a_dear_filter_lets_others_have_their_turn_and_is_told_how_far_it_got(
    store: SqlBoardStore, tails: Tails, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each event costs a millisecond here: the clock goes on with the matches alone."""
    table = Table(store)
    await burst(table, 800, batch=100)
    end = await table.seq()
    asked = turns = in_a_turn = most = 0

    def wanted(event: Event) -> bool:
        nonlocal asked, in_a_turn, most
        asked += 1
        in_a_turn += 1
        most = max(most, in_a_turn)
        return False

    async def others() -> None:
        nonlocal turns, in_a_turn
        while True:
            await asyncio.sleep(0)
            turns, in_a_turn = turns + 1, 0

    for clock in ("perf_counter", "thread_time"):
        monkeypatch.setattr(tails_module, clock, lambda: asked / 1_000)
    beside = asyncio.create_task(others())
    place, calls = 0, 0
    while place < end:
        await asyncio.sleep(0)
        before = asked
        heard = await tails.after("main", wanted, place, end=end, limit=50, seconds=0)
        assert heard.cursor > place
        assert asked - before <= 1_000 * tails_module._LOOK_SECONDS + 4
        place, calls = heard.cursor, calls + 1
    beside.cancel()
    assert asked == end
    assert most <= 4
    assert turns >= end // 4 - calls
    assert calls <= end / (1_000 * tails_module._LOOK_SECONDS) + 1


async def test_a_cancelled_reader_takes_nobody_with_it(store: SqlBoardStore, tails: Tails) -> None:
    table = Table(store)
    await table.post("alice", "a")
    place = await table.seq()
    chance = random.Random(7)
    stay = [
        asyncio.create_task(follow(tails, "main", "bob", {}, to=place + 200, place=place)) for _ in range(20)
    ]
    leave = [
        asyncio.create_task(follow(tails, "main", "bob", {}, to=place + 200, place=0)) for _ in range(20)
    ]
    for number in range(200):
        await table.post("alice", f"{number}")
        if number % 10 == 0:
            leave[number // 10].cancel()
            await asyncio.sleep(chance.choice([0, 0.001]))
    assert {len(events) for events in await asyncio.gather(*stay)} == {200}
    await asyncio.gather(*leave, return_exceptions=True)


async def test_a_board_that_nobody_follows_any_more_is_forgotten(
    store: SqlBoardStore, counted: Counted, tails: Tails, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tails_module, "LINGER_SECONDS", 0.05)
    table = Table(store)
    await burst(table, 600, batch=100)
    end = await table.seq()
    await follow(tails, "main", "bob", {}, to=end)
    assert tails.weight > 0
    async with asyncio.timeout(PATIENCE):
        while tails.weight or tails._tails or tails._pages:  # noqa: ASYNC110 - a timer of the tails ends it
            await asyncio.sleep(0.01)
    counted.boards.clear()
    await table.post("alice", "nobody reads this")
    other = Table(store, "other")
    await other.post("alice", "this is read")
    await follow(tails, "other", "bob", {}, to=await other.seq())
    assert counted.boards == {"other"}


async def test_a_failed_read_is_told_to_those_who_wait_and_the_next_begin_anew(
    store: SqlBoardStore, counted: Counted, tails: Tails
) -> None:
    table = Table(store)
    await table.post("alice", "a")
    place = await table.seq()
    wanted = matcher(parse_event_filter({}), Viewer("bob"))

    def call() -> asyncio.Task[Any]:
        return asyncio.create_task(
            tails.after("main", wanted, place, end=place, limit=5, seconds=2 * PATIENCE)
        )

    first = [call(), call()]
    await parked(tails, 2)
    counted.fails = StoreBusy("somebody else holds the file")
    await table.post("alice", "b")
    for task in first:
        with pytest.raises(StoreBusy):
            await asyncio.wait_for(task, PATIENCE)
    counted.fails = None
    heard = await asyncio.wait_for(call(), PATIENCE)
    assert [event.seq for event in heard.events] == [place + 1]
    place += 1
    last = call()
    await parked(tails, 1)
    await store.close()
    with pytest.raises(StoreClosed):
        await asyncio.wait_for(last, PATIENCE)


async def test_many_boards_that_move_at_once_are_all_heard_of(
    store: SqlBoardStore, tails: Tails, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tails_module, "_ROUND", 5)
    tables = [Table(store, f"b{number}") for number in range(8)]
    for table in tables:
        await table.post("alice", "a")
    readers = [asyncio.create_task(follow(tails, table.board, "bob", {}, to=42, place=2)) for table in tables]
    await asyncio.sleep(0)
    for _ in range(4):
        await asyncio.gather(
            *(table.batch("alice", *(draft(f"{n}", "LOG") for n in range(10))) for table in tables)
        )
    for events in await asyncio.wait_for(asyncio.gather(*readers), PATIENCE):
        assert [event.seq for event in events] == list(range(3, 43))


async def test_what_was_committed_while_a_board_began_to_be_followed_is_heard_at_once(
    store: SqlBoardStore, counted: Counted, tails: Tails
) -> None:
    table, other = Table(store), Table(store, "other")
    await table.post("alice", "a")
    await other.post("alice", "a")
    wanted = matcher(parse_event_filter({}), Viewer("bob"))
    end, place = await table.seq(), await other.seq()
    waiting = asyncio.create_task(tails.after("main", wanted, end, end=end, limit=5, seconds=2 * PATIENCE))
    async with asyncio.timeout(PATIENCE):
        while not counted.calls:  # noqa: ASYNC110 - the reading sets no event
            await asyncio.sleep(0.001)
    calls = counted.calls
    # Between the look at the board and the wait there is a commit, which those who wait elsewhere hear of.
    await other.post("alice", "b")
    async with asyncio.timeout(PATIENCE):
        while counted.calls == calls:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.001)
    heard = await asyncio.wait_for(
        tails.after("other", wanted, place, end=place, limit=5, seconds=2 * PATIENCE), PATIENCE
    )
    assert [event.seq for event in heard.events] == [place + 1]
    waiting.cancel()
    await asyncio.wait([waiting])


@pytest.mark.parametrize("behind", [True, False])
async def test_closing_while_the_store_is_read_is_told_and_cancels_nobody(
    store: SqlBoardStore, counted: Counted, monkeypatch: pytest.MonkeyPatch, behind: bool
) -> None:
    table = Table(store)
    await table.post("alice", "a")
    end = await table.seq()
    tails = Tails(counted)  # type: ignore[arg-type]
    wanted = matcher(parse_event_filter({}), Viewer("bob"))
    await tails.after("main", wanted, end, end=end, limit=5, seconds=0)
    await table.post("alice", "b")
    reading = asyncio.Event()

    async def never(*args: Any) -> Any:
        reading.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(counted, "stretches", never)
    place = 0 if behind else end
    asked_end = end if behind else end + 1
    call = asyncio.create_task(
        tails.after("main", wanted, place, end=asked_end, limit=5, seconds=2 * PATIENCE)
    )
    await asyncio.wait_for(reading.wait(), PATIENCE)
    await tails.close()
    with pytest.raises(StoreClosed):
        await asyncio.wait_for(call, PATIENCE)
