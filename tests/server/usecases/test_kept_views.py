"""Kept views, changes and rows: the same as newly read ones after every call of the store, by any process, and kept."""

from __future__ import annotations

import asyncio
import contextlib
import random
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from blackboard_mcp.protocols.access import Role, Trust
from blackboard_mcp.protocols.agenda import NewTask
from blackboard_mcp.protocols.answers import MOST_UNSEEN, Snapshot
from blackboard_mcp.protocols.board import BoardChange
from blackboard_mcp.protocols.errors import BlackboardError, CursorExpired, UnknownReference
from blackboard_mcp.protocols.events import Event, EventType
from blackboard_mcp.protocols.items import ItemType
from blackboard_mcp.protocols.read_rules import ReadRule
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.server.compose import installation
from blackboard_mcp.server.input.posts import PostFields
from blackboard_mcp.server.limits.turns import EACH_SECONDS, Turns
from blackboard_mcp.server.settings.server import Settings
from blackboard_mcp.server.usecases.blackboard import Blackboard
from blackboard_mcp.server.usecases.following import NewsPage
from blackboard_mcp.server.usecases.kept import KEPT_SECONDS, Kept, KeptViews
from blackboard_mcp.server.views import View, groups
from blackboard_mcp.storage.operations.reading import item_states, kept_events
from blackboard_mcp.storage.operations.reading.item_states import KeptRow
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import HandClock, Table, draft
from blackboard_mcp.storage.testing.kit.filling import filled
from blackboard_mcp.storage.testing.kit.forgetting import ALL, archived

READERS = ("alice", "bob", "carol", "erin")
BUDGETS = (1_500, 400)
SINCE = (1, 20)


class Stale(AssertionError):
    """A kept view that differs from a newly built one."""


class Compared:
    """A store's handles, after each of whose calls every reader's kept view is compared with a newly built one."""

    def __init__(self, blackboard: Blackboard, handles: list[SqlBoardStore]) -> None:
        self.blackboard = blackboard
        self.handles = handles
        self.calls = self.kept = self.moved = self.kept_pages = self.moved_pages = 0
        self._before: dict[tuple[str, int], tuple[str, int]] = {}
        self._pages: dict[tuple[str, int], NewsPage] = {}

    def __getattr__(self, name: str) -> Any:
        handle = self.handles[self.calls % len(self.handles)]
        method = getattr(handle, name)

        async def called(*args: Any, **more: Any) -> Any:
            self.calls += 1
            try:
                return await method(*args, **more)
            finally:
                await self.compare(name)

        return called

    async def compare(self, name: str) -> None:
        """Compares what each reader would get now with what a server without kept views and rows would give."""
        store = self.handles[0]
        for agent in READERS:
            for budget in BUDGETS[: 1 + (self.calls % 5 == 0)]:
                got = await _view(self.blackboard, agent, budget)
                if got is None:
                    continue
                again = await _view(self.blackboard, agent, budget)
                self.kept += again is not None and again[0] is got[0]
                seq = got[1].board.seq
                before = self._before.get((agent, budget))
                self.moved += before is not None and before[1] == seq and before[0] != got[0].text
                self._before[agent, budget] = got[0].text, seq
                views, self.blackboard._kept_views = (
                    self.blackboard._kept_views,
                    KeptViews(self.blackboard.store, 0),
                )
                rows, store._kept_rows = store._kept_rows, {}
                events, store._kept_events = store._kept_events, {}
                groups.forget()
                fresh = await _view(self.blackboard, agent, budget)
                self.blackboard._kept_views, store._kept_rows = views, rows
                store._kept_events = events
                if fresh is None or got != fresh:
                    raise Stale(f"{name}: {agent}, {budget}:\n{got}\n{fresh}")
            await self.compare_changes(name, agent)

    async def compare_changes(self, name: str, agent: str) -> None:
        """Compares the changes that a reader would get now with what a server that keeps none would give."""
        following, store = self.blackboard.following, self.handles[0]
        for since in SINCE[: 1 + (self.calls % 5 == 0)]:
            got = await _changes(self.blackboard, agent, since)
            if got is None:
                continue
            again = await _changes(self.blackboard, agent, since)
            self.kept_pages += again is got
            before = self._pages.get((agent, since))
            self.moved_pages += before is not None and before.seq == got.seq and before != got
            self._pages[agent, since] = got
            pages, following.kept = following.kept, Kept(store, 0, lambda page: 1)
            events, store._kept_events = store._kept_events, {}
            fresh = await _changes(self.blackboard, agent, since)
            following.kept, store._kept_events = pages, events
            if got != fresh:
                raise Stale(f"{name}: {agent}, since {since}:\n{got}\n{fresh}")


async def _changes(blackboard: Blackboard, agent: str, since: int) -> NewsPage | None:
    with contextlib.suppress(UnknownReference, CursorExpired):
        return await blackboard.following.changes_since(agent, None, since, 200)
    return None


async def _view(blackboard: Blackboard, agent: str, budget: int) -> tuple[View, Snapshot] | None:
    with contextlib.suppress(UnknownReference):
        return await blackboard.view(agent, None, budget, reserve=20)
    return None


@pytest.fixture(autouse=True)
def any_news_and_groups_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few news are read whole, without asking first whether they are kept; and few items are grouped anew each time."""
    monkeypatch.setattr(kept_events, "FEW", 0)
    monkeypatch.setattr(groups, "_FEW", 1)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def compared(tmp_path: Path, clock: HandClock) -> AsyncIterator[Compared]:
    """The handle of a server, and one of another server on the same file."""
    async with _opened(tmp_path, clock) as made:
        yield made


@contextlib.asynccontextmanager
async def _opened(folder: Path, clock: HandClock) -> AsyncIterator[Compared]:
    settings = Settings(data=folder, synchronous="NORMAL")
    async with installation(settings, eager_index=False, background=False, clock=clock) as opened:
        other = await SqlBoardStore.open(settings.database, clock=clock, synchronous="NORMAL")
        try:
            yield Compared(opened.blackboard, [cast(SqlBoardStore, opened.blackboard.store), other])
        finally:
            await other.close()


PAY = ReadRule("pay", ("team:acme",), key="pay:**")
LOGS = ReadRule("logs", ("role:steward",), types=(ItemType.LOG,))


def moves(
    compared: Compared, at: Table, clock: HandClock, dice: random.Random
) -> list[Callable[[], Awaitable[Any]]]:
    """Returns what may happen beside the posts: above all, what does not move the board's sequence."""
    board, store = compared.blackboard, at.store
    agent = dice.choice(READERS)
    owner = dice.choice(("acme", agent))

    async def read() -> None:
        view, snapshot = await board.view(agent, None)
        board.looks.viewed(snapshot, agent, view)
        await board.activity.flush()

    async def wait() -> None:
        clock.advance(dice.choice((1, 40, 400)))
        await store.sweep_tasks()
        await store.sweep_runs()

    return [
        read,
        wait,
        lambda: store.set_owner(agent, owner),
        lambda: store.set_trust(agent, dice.choice(list(Trust))),
        lambda: store.set_shown_role("main", agent, dice.choice(list(Role))),
        lambda: store.set_read_rules(dice.choice(((), (PAY,), (PAY, LOGS)))),
        lambda: store.record_activity("main", {agent: clock.now()}, {1: (1, clock.now())}),
        lambda: store.saw_rules("main", agent, 3),
        lambda: store.join("main", agent, role=f"role {dice.randrange(3)}"),
        lambda: store.leave("main", agent, "gone"),
        lambda: store.change_board("main", "alice", BoardChange(members={agent: dice.choice(list(Role))})),
        lambda: store.change_board("main", "alice", BoardChange(title=f"title {dice.randrange(3)}")),
        lambda: store.plan("main", agent, [NewTask(title="more")]),
        lambda: store.take_task("main", agent),
        lambda: store.unwatch_topic("main", agent, cast(Any, "type:FACT")),
        lambda: at.post(agent, f"secret {dice.random()}", private=True),
        lambda: at.post(agent, f"team's {dice.random()}", "PLAN", team=True, key="pay:a"),
        lambda: at.batch(agent, draft(f"pay {dice.random()}", "FACT", key=f"pay:{dice.randrange(3)}")),
        lambda: at.post(agent, f"said {dice.random()}", "LOG"),
        lambda: at.vote(agent, 1, approve=bool(dice.randrange(2))),
        lambda: at.prune(),
        lambda: board.activity.flush(),
    ]


async def walked(compared: Compared, clock: HandClock, steps: int, seed: int) -> None:
    """Fills every table of the board, and then goes on at random."""
    at = await filled(cast(BoardStore, compared), clock, resting=1)
    dice = random.Random(seed)
    for _ in range(steps):
        move = dice.choice(moves(compared, at, clock, dice))
        with contextlib.suppress(BlackboardError, AttributeError):
            await move()
        await compared.compare("a move")


async def test_a_kept_view_is_what_would_be_built_now_whatever_happened(
    compared: Compared, clock: HandClock
) -> None:
    await walked(compared, clock, 50, seed=7)
    # The walk has power: views and changes were kept, and some moved although the sequence of the board did not.
    assert compared.kept > 800
    assert compared.moved >= 5
    assert compared.kept_pages > 800
    assert compared.moved_pages >= 2


async def test_kept_views_take_bounded_room(compared: Compared) -> None:
    board = compared.blackboard
    board._kept_views = KeptViews(board.store, 40_000)
    await board.post("alice", None, [PostFields(text="word " * 100) for _ in range(40)])
    for budget in range(1_000, 3_000, 20):
        await board.view("alice", None, budget)
        assert board._kept_views._answers.currsize <= 40_000
    last = await board.view("alice", None, 2_980)
    assert (await board.view("alice", None, 2_980))[0] is last[0]
    huge = KeptViews(board.store, 10)
    board._kept_views = huge
    await board.view("alice", None, 6_000)
    assert not huge._answers


async def test_what_is_kept_for_readers_who_were_shown_nothing_takes_the_memory_that_it_counts(
    compared: Compared,
) -> None:
    board, at = compared.blackboard, Table(cast(BoardStore, compared.handles[0]))
    for number in range(MOST_UNSEEN):
        await at.post("alice", f"{number} words for all to read", "FACT")
    end = await at.seq()
    reads: dict[Kept[Any], Callable[[str], Awaitable[Any]]] = {
        board.following.kept: lambda agent: board.following.changes_since(agent, None, end, 200),
        board._kept_views: lambda agent: board.view(agent, None),
    }
    for kept, read in reads.items():
        await read("first")
        counted, read_by = kept._answers.currsize, 100
        tracemalloc.start()
        try:
            for number in range(read_by):
                await read(f"reader{number}")
            taken, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert len(kept._answers) == read_by + 1
        assert taken < 2 * (kept._answers.currsize - counted)


async def test_kept_changes_take_bounded_room(compared: Compared) -> None:
    board, following = compared.blackboard, compared.blackboard.following
    await board.post("alice", None, [PostFields(text=f"{n} " + "word " * 100) for n in range(40)])
    whole = Kept(board.store, 100_000, following.kept._answers.getsizeof)
    following.kept = whole
    for since in range(40):
        page = await following.changes_since("bob", None, since, 200)
        assert 0 < whole._answers.currsize <= 100_000
        assert await following.changes_since("bob", None, since, 200) is page
    assert len(whole._answers) < 40
    following.kept = Kept(board.store, 10, following.kept._answers.getsizeof)
    await following.changes_since("bob", None, 0, 200)
    assert not following.kept._answers


async def test_kept_changes_tell_what_their_reader_was_not_shown_since(compared: Compared) -> None:
    board, following = compared.blackboard, compared.blackboard.following
    await board.post("alice", None, [PostFields(text="all clear"), PostFields(text="and all quiet")])
    page = await following.changes_since("bob", None, 0, 200)
    shown = [event.seq for event in page.events if event.number == 1]
    board.looks.delivered("main", "bob", page.seq, page.attention, shown)
    for reader, unseen in (("bob", [2]), ("carol", [1, 2])):
        later = await following.changes_since(reader, None, 0, 200)
        assert [number for _, number in later.attention.fresh] == unseen
        assert await following.changes_since(reader, None, 0, 200) is later


async def test_changes_that_were_read_before_a_commit_are_not_kept_as_those_after_it(
    compared: Compared, monkeypatch: pytest.MonkeyPatch
) -> None:
    board, store = compared.blackboard, compared.handles[0]
    await board.post("alice", None, [PostFields(text="before")])
    log = store.log

    async def meanwhile(*given: Any, **more: Any) -> Any:
        read = await log(*given, **more)
        await board.post("alice", None, [PostFields(text="meanwhile")])
        return read

    with monkeypatch.context() as patch:
        patch.setattr(SqlBoardStore, "log", lambda self, *given, **more: meanwhile(*given, **more))
        assert len((await board.following.changes_since("bob", None, 0, 200)).texts) == 1
    assert len((await board.following.changes_since("bob", None, 0, 200)).texts) == 2


@pytest.mark.parametrize("changes", [False, True], ids=["view", "changes"])
async def test_few_kept_answers_of_one_caller_run_between_two_steps_of_another(
    compared: Compared, changes: bool
) -> None:
    board, turns, ended = compared.blackboard, Turns(), 0
    await board.post("alice", None, [PostFields(text="the pump leaks")])

    async def look() -> object:
        if changes:
            return await board.following.changes_since("bob", None, 0, 200)
        return (await board.view("bob", None))[0]

    kept = await look()

    async def read() -> None:
        nonlocal ended
        async with turns.taking("bob", "read") as turn:
            assert await turn.of(look()) is kept
        ended += 1

    for _ in range(30):  # what the calls cost is known by then
        await read()
    readers = [asyncio.create_task(read()) for _ in range(120)]
    most = 0
    while not all(reader.done() for reader in readers):
        before = ended
        await asyncio.sleep(0)
        most = max(most, ended - before)
    assert ended == 150
    assert most <= EACH_SECONDS / KEPT_SECONDS + 1


async def test_what_a_view_showed_is_recorded_for_a_kept_view_too(
    compared: Compared, clock: HandClock
) -> None:
    board = compared.blackboard
    await board.post("alice", None, [PostFields(text="the pump leaks")])
    view, snapshot = await board.view("bob", None)
    clock.advance(60)
    assert (await board.view("bob", None))[0] is view
    assert board.activity.noted("main")["bob"] == clock.now()
    for unseen in (1, 0):
        assert snapshot.attention.unseen == unseen
        assert board.looks.viewed(snapshot, "bob", view).unseen == 0
        (sighting,) = board.activity.sightings("main", [1])
        assert (sighting.agent, sighting.last_at) == ("bob", clock.now())
        clock.advance(60)
        # What was shown moved the look, so this view is a new one; the next is kept again.
        view, snapshot = await board.view("bob", None)
        view = (await board.view("bob", None))[0]


@pytest.mark.parametrize("changes", [False, True], ids=["view", "changes"])
async def test_the_walk_sees_what_is_kept_by_the_sequence_alone(
    compared: Compared, clock: HandClock, monkeypatch: pytest.MonkeyPatch, changes: bool
) -> None:
    board = compared.blackboard
    store = cast(SqlBoardStore, board.store)
    seqs = {"now": 0}
    kept: Kept[Any] = board.following.kept if changes else board._kept_views
    monkeypatch.setattr(kept, "_stamp_of", lambda: seqs["now"])
    find = Compared.compare

    async def compare(self: Compared, name: str) -> None:
        found = await store.find_board("main")
        seqs["now"] = 0 if found is None else found.seq
        await find(self, name)

    monkeypatch.setattr(Compared, "compare", compare)
    with pytest.raises(Stale):
        await walked(compared, clock, 20, seed=7)


class ByNumber(dict[tuple[int, ...], KeptRow]):
    """Rows that are kept by board and number alone."""

    def get(self, key: tuple[int, ...], default: Any = None) -> Any:
        return super().get(key[:2], default)

    def __setitem__(self, key: tuple[int, ...], row: KeptRow) -> None:
        super().__setitem__(key[:2], row)


async def test_the_walk_sees_rows_that_are_kept_by_their_number_alone(
    compared: Compared, clock: HandClock
) -> None:
    compared.handles[0]._kept_rows = ByNumber()
    with pytest.raises(Stale):
        await walked(compared, clock, 20, seed=7)


async def test_the_walk_sees_groups_that_are_kept_by_the_numbers_of_their_items(
    compared: Compared, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        groups, "_key", lambda standing, items: (tuple(i.number for i in items), *standing.marks(items))
    )
    with pytest.raises(Stale):
        await walked(compared, clock, 20, seed=7)


async def test_kept_rows_tell_nobody_what_it_may_not_see_and_take_bounded_room(
    compared: Compared, monkeypatch: pytest.MonkeyPatch
) -> None:
    board, store = compared.blackboard, compared.handles[0]
    await board.post("alice", None, [PostFields(text="a secret", visibility="private")])
    await board.post("alice", None, [PostFields(text="for all")])
    for _ in range(2):
        assert len((await store.snapshot("main", "alice")).items) == 2
        assert [item.text for item in (await store.snapshot("main", "bob")).items] == ["for all"]
    monkeypatch.setattr(item_states, "_KEPT", 10)
    for n in range(30):
        await board.post("alice", None, [PostFields(text=f"note {n}")])
        assert len((await store.snapshot("main", "alice")).items) == 3 + n
        assert len(store._kept_rows) <= 10 + 3 + n
    await board.post("alice", None, [PostFields(text="the last")])
    await store.snapshot("main", "alice", most=5)
    await store.snapshot("main", "bob", most=5)
    assert len(store._kept_rows) <= 10


class BySeq(dict[tuple[int | str, ...], Event]):
    """Events that are kept by board and sequence alone."""

    def get(self, key: tuple[int | str, ...], default: Any = None) -> Any:
        return super().get(key[:2], default)

    def __setitem__(self, key: tuple[int | str, ...], event: Event) -> None:
        super().__setitem__(key[:2], event)


@pytest.mark.parametrize("kept", [dict, BySeq])
async def test_kept_events_say_what_is_left_of_them_after_forgetting(
    compared: Compared, clock: HandClock, kept: type[dict[tuple[int | str, ...], Event]]
) -> None:
    store = compared.handles[0]
    store._kept_events = kept()
    at = Table(store)
    await at.post("bob", "here I am")
    seen = await at.seq()
    gone = await archived(at, "alice", "a secret word", tags=["tagged"])
    clock.advance(31 * 86_400)

    async def tags() -> list[tuple[str, ...]]:
        news = (await store.snapshot(at.board, "bob", look=seen)).news.events
        return [event.tags for event in news if event.event is EventType.ITEM_POSTED]

    for _ in range(2):
        assert await tags() == [("tagged",)]
    assert await compared.handles[1].forget(at.board, [gone.number], ALL) == (gone.id,)
    assert await tags() == ([("tagged",)] if kept is BySeq else [()])


async def test_kept_events_take_bounded_room(compared: Compared, monkeypatch: pytest.MonkeyPatch) -> None:
    board, store = compared.blackboard, compared.handles[0]
    monkeypatch.setattr(kept_events, "MOST", 10)
    await board.post("alice", None, [PostFields(text="the first")])
    for n in range(30):
        await board.post("alice", None, [PostFields(text=f"note {n}")])
        assert len((await store.snapshot("main", "bob", look=1)).news.events) == n + 2
        assert len(store._kept_events) <= 10 + 2 + n
    assert len(store._kept_events) > 10
    await board.post("alice", None, [PostFields(text="the last")])
    await store.snapshot("main", "bob", look=30)
    assert len(store._kept_events) <= 10
