"""Posts that run together come out as if each had run by itself after the others."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import postgres_server
import pytest
from blackboard_mcp.protocols.access import Action, Role
from blackboard_mcp.protocols.answers import Once, Posted
from blackboard_mcp.protocols.board import BoardChange, Lifecycle
from blackboard_mcp.protocols.errors import BlackboardError, Conflict, StoreClosed
from blackboard_mcp.protocols.grants import under
from blackboard_mcp.protocols.items import Draft
from blackboard_mcp.protocols.topics import parse_topic
from blackboard_mcp.storage.memory import open_memory_store
from blackboard_mcp.storage.operations.items import batch as batches
from blackboard_mcp.storage.operations.items import posting
from blackboard_mcp.storage.operations.ledger.rows import sql
from blackboard_mcp.storage.postgres.engine import PostgresEngine
from blackboard_mcp.storage.postgres.store import open_postgres_store
from blackboard_mcp.storage.postgres.writing import Writer
from blackboard_mcp.storage.sqlite import group, packing
from blackboard_mcp.storage.sqlite.group import GroupWriter
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import CONFIG, HandClock, Table, draft
from blackboard_mcp.storage.testing.kit.members import grant
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import NIGHTLY

AGENTS = ("alice", "bob", "carol", "dave")
TEXTS = (
    "the build is broken",
    "The build is broken.",
    "the build took 31 s",
    "the build took 47 s",
    "@bob which build?",
    "bob: have you seen it?",
    "a plan with no end",
    "nul \x00 and \ud7ff and \U0001f600",
)
Call = tuple[str, tuple[Draft, ...], Once | None, int]
Outcome = Posted | str


def _unexpected(*given: Any) -> Any:
    raise AssertionError("posts that failed together ran once more")


def _grouped(real: Any) -> Any:
    async def group(self: Writer, first: Any, *, alone: bool = False) -> None:
        assert not alone, "posts that failed together ran once more"
        await real(self, first, alone=alone)

    return group


@asynccontextmanager
async def opened(*, again: bool = False, folder: Path | None = None) -> AsyncIterator[Table]:
    """A board on which each agent has posted, so that nothing is new to any; with a `folder`, in PostgreSQL.

    Unless `again` allows it, no group of posts is undone and made once more, which would hide a mistake.
    """
    clock = HandClock()
    if folder is None:
        store = await open_memory_store(clock=clock)
    else:
        store = await open_postgres_store(postgres_server.address(folder), clock=clock)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group, "_FEWEST", 1)
        if not again:
            patch.setattr(GroupWriter, "_one_by_one", _unexpected)
            patch.setattr(Writer, "_group", _grouped(Writer._group))
        try:
            at = Table(store)
            for agent in AGENTS:
                await at.post(agent, f"{agent} is here", "LOG")
            yield at
        finally:
            await store.close()


def held(store: SqlBoardStore) -> tuple[asyncio.Future[None], threading.Event]:
    """Has SQLite's writer wait, so that calls queue up until the event is set."""
    go = threading.Event()

    def wait() -> Any:
        go.wait(60)
        return
        yield  # a generator

    return asyncio.ensure_future(store.engine.write(wait)), go


async def made(at: Table, call: Call, granted: bool) -> Outcome:
    agent, drafts, once, look = call
    try:
        with under(grant(agent, Action.POST) if granted else None):
            return await at.store.post(at.board, agent, drafts, config=CONFIG, once=once, look=look)
    except BlackboardError as error:
        return f"{type(error).__name__}: {error}"


async def at_once(at: Table, calls: Sequence[Call], granted: bool = False) -> list[Outcome]:
    """Makes calls that wait for the writer together."""
    assert isinstance(at.store, SqlBoardStore)
    if isinstance(at.store.engine, PostgresEngine):
        # It begins with the first when all wait.
        return list(await asyncio.gather(*(made(at, call, granted) for call in calls)))
    waiting, go = held(at.store)
    tasks = []
    for call in calls:
        tasks.append(asyncio.ensure_future(made(at, call, granted)))
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    go.set()
    await waiting
    return list(await asyncio.gather(*tasks))


async def one_by_one(at: Table, calls: Sequence[Call], granted: bool) -> list[Outcome]:
    """Makes calls one after another."""
    return [await made(at, call, granted) for call in calls]


async def contents(at: Table) -> dict[str, list[Any]]:
    """All rows of all tables."""
    assert isinstance(at.store, SqlBoardStore)

    def read() -> Any:
        tables = yield "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'", ()
        found = {}
        for (name,) in tables:
            found[name] = sorted((yield f"SELECT * FROM {name}", ()), key=repr)  # noqa: S608
        return found

    rows = await at.store.engine.read(read)
    rows.pop("installation", None)  # its number is drawn
    return rows


Prepare = Callable[[Table], Any]


async def compared(prepare: Prepare, calls: Sequence[Call], granted: bool = False) -> list[Outcome]:
    """Makes the calls on two alike boards in both ways; checks that nothing differs, and returns what came out.

    If they are `granted`, they are made under grants, which the roles of the board may no longer allow.
    """
    async with opened() as together, opened() as apart:
        for at in (together, apart):
            await prepare(at)
        outcomes = await at_once(together, calls, granted)
        expected = await one_by_one(apart, calls, granted)
        for got, wanted in zip(outcomes, expected, strict=True):
            assert got == wanted
        assert await contents(together) == await contents(apart)
        return outcomes


async def nothing(at: Table) -> None:
    """A board without more."""


drafts = st.builds(
    draft,
    st.sampled_from(TEXTS),
    st.sampled_from(["LOG", "FACT", "RESULT", "HYPOTHESIS", "QUESTION", "PLAN", "DECISION", "CONSTRAINT"]),
    private=st.booleans(),
    importance=st.sampled_from([None, 1, 9]),
    tags=st.sampled_from([None, ["a"], ["panel:working"]]),
    ttl=st.sampled_from([None, 60.0]),
    metadata=st.sampled_from([None, {"a": 1}]),
)
odd = st.one_of(
    st.builds(draft, st.sampled_from(TEXTS), st.just("FACT"), supports=st.sampled_from([1, 2])),
    st.builds(draft, st.sampled_from(TEXTS), st.just("FACT"), key=st.sampled_from(["k", "l"])),
    st.builds(draft, st.sampled_from(TEXTS), st.just("CRITIQUE"), critiques=st.sampled_from([1, 3])),
    st.builds(lambda one: replace(one, counted_by="another"), drafts),
)
calls = st.tuples(
    st.sampled_from(AGENTS),
    st.one_of(st.tuples(drafts), st.tuples(drafts), st.tuples(drafts, drafts), st.tuples(odd)),
    st.sampled_from([None, None, None, Once("x", "digest"), Once("x", "other"), Once("y", "digest")]),
    st.sampled_from([0, 2, 4]),
)


async def watched(at: Table) -> None:
    """A board on which somebody watches logs."""
    await at.store.watch_topic(at.board, "carol", parse_topic("type:LOG"))


async def small(at: Table) -> None:
    """A board with little room."""
    await at.store.change_board(at.board, "alice", BoardChange(settings={"board_bytes": 12_000}))


async def closed(at: Table) -> None:
    """A board that takes no posts."""
    await at.store.change_board(at.board, "alice", BoardChange(lifecycle=Lifecycle.CLOSED))


async def texts(at: Table) -> list[str]:
    """The texts of the items, in the order of their numbers."""
    last = len((await contents(at))["item"])
    return [(await at.item(number)).text for number in range(len(AGENTS) + 1, last + 1)]


@settings(max_examples=2_000 if NIGHTLY else 150)
@given(st.sampled_from([nothing, nothing, watched, small, closed]), st.lists(calls, min_size=2, max_size=8))
def test_posts_together_are_as_posts_one_by_one(prepare: Prepare, many: list[Call]) -> None:
    asyncio.run(compared(prepare, many))


async def told(at: Table) -> list[Any]:
    """What the agents are told of the board: its state, its log as each sees it, and the items that each sees."""
    found: list[Any] = [await at.standing()]
    for agent in AGENTS:
        events = await at.events(agent)
        found += [events, [await at.item(n, agent) for n in range(1, 40) if await at.sees(agent, n)]]
    return found


def test_the_settings_of_a_board_are_read_once_for_posts_made_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed: list[str] = []
    honest = packing.parsed

    def counted(stored: str) -> Any:
        parsed.append(stored)
        return honest(stored)

    async def run() -> None:
        async with opened() as at:
            logs = [one(AGENTS[n % 4], draft(f"log {n}", "LOG")) for n in range(12)]
            await at_once(at, logs)  # the first time tells how many columns there are
            monkeypatch.setattr(packing, "parsed", counted)
            await at_once(at, logs)

    asyncio.run(run())
    assert sum(text.count("target_tokens") for text in parsed) == 1


@settings(max_examples=200 if NIGHTLY else 10)
@given(st.lists(calls, min_size=2, max_size=8))
def test_posts_together_in_postgresql_are_as_posts_one_by_one(many: list[Call]) -> None:
    async def run(folder: Path) -> None:
        async with opened(folder=folder) as together, opened() as apart:
            assert await at_once(together, many) == await one_by_one(apart, many, False)
            assert await told(together) == await told(apart)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))
        postgres_server.give_back(Path(folder))


def one(agent: str, *made: Draft) -> Call:
    """A post without more."""
    return agent, made, None, 0


def test_posts_that_wait_share_their_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty-two posts take hardly more statements than four."""
    asked: list[str] = []
    real = group.fetched

    def counted(execute: Any, text: str, parameters: Sequence[Any]) -> Any:
        asked.append(" ".join(text.split()[:3]))
        return real(execute, text, parameters)

    async def statements(posts: int) -> list[str]:
        async with opened() as at:
            monkeypatch.setattr(group, "fetched", counted)
            asked.clear()
            await at_once(at, [one(AGENTS[n % 4], draft(f"log {n}", "LOG")) for n in range(posts)])
            monkeypatch.setattr(group, "fetched", real)
            return list(asked)

    async def run() -> None:
        few, many = await statements(4), await statements(32)
        assert len(few) == 8, few
        assert len(many) == 9, many  # one more, since each agent posted more than once

    asyncio.run(run())


def test_who_finds_the_same_as_another_in_the_batch_endorses_it() -> None:
    async def run() -> None:
        first, second = await compared(
            nothing,
            [
                one("alice", draft("The cache is cold.", "FACT")),
                one("bob", draft("the cache is  cold", "FACT")),
            ],
        )
        assert isinstance(first, Posted)
        assert isinstance(second, Posted)
        assert second.endorsed == (0,)
        assert second.items[0].number == first.items[0].number

    asyncio.run(run())


def test_a_post_that_is_refused_leaves_nothing_and_the_others_stay() -> None:
    async def run() -> None:
        outcomes = await compared(
            nothing,
            [
                one("alice", draft("first", "LOG")),
                one("bob", draft("half", "LOG"), draft("done", "LOG", tags=["panel:none"])),
                one("carol", draft("last", "LOG")),
            ],
        )
        assert [isinstance(outcome, Posted) for outcome in outcomes] == [True, False, True]

    asyncio.run(run())


def test_a_batch_that_comes_near_a_limit_of_bytes_is_made_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_MOST_BYTES", 20_000)

    async def limited(at: Table) -> None:
        await at.store.change_board(at.board, "alice", BoardChange(settings={"board_bytes": 60_000}))

    async def run() -> None:
        outcomes = await compared(
            limited, [one(AGENTS[n % 4], draft(f"{n} {'long ' * 2_000}", "LOG")) for n in range(8)]
        )
        assert sum(isinstance(outcome, Posted) for outcome in outcomes) == 5

    asyncio.run(run())


def test_a_post_that_fails_at_its_end_is_undone_and_the_others_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = posting.attention_after

    def fails(ledger: Any, *given: Any, **named: Any) -> Any:
        found = yield from real(ledger, *given, **named)
        if ledger.agent == "bob":
            raise Conflict("Too late.")
        return found

    async def run() -> None:
        async with opened(again=True) as at:
            monkeypatch.setattr(posting, "attention_after", fails)
            outcomes = await at_once(at, [one(agent, draft(f"of {agent}", "LOG")) for agent in AGENTS])
            assert [isinstance(outcome, Posted) for outcome in outcomes] == [True, False, True, True]
            assert await texts(at) == ["of alice", "of carol", "of dave"]
            assert (await at.standing()).working_items == len(AGENTS) + 3

    asyncio.run(run())


def test_who_may_no_longer_post_is_refused_within_a_batch() -> None:
    async def members(at: Table) -> None:
        await at.store.change_board(at.board, "alice", BoardChange(members={"bob": Role.OBSERVER}))

    async def run() -> None:
        outcomes = await compared(
            members, [one(agent, draft("here", "LOG")) for agent in AGENTS], granted=True
        )
        assert [isinstance(outcome, Posted) for outcome in outcomes] == [True, False, True, True]
        assert "Forbidden" in str(outcomes[1])

    asyncio.run(run())


async def copied(at: Table) -> None:
    """A board that was restored from a copy, whose sequences go on after a gap."""
    assert isinstance(at.store, SqlBoardStore)

    def mark() -> Any:
        yield sql("boards_copied"), ()

    await at.store.engine.write(mark)
    await at.post("alice", "after the gap", "LOG")


def test_what_is_not_seen_of_a_board_with_a_gap_ends_at_the_post(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blackboard_mcp.storage.operations.ledger.ledger.secrets.randbelow", lambda most: 7)

    async def run() -> None:
        outcomes = await compared(copied, [one(agent, draft("here", "LOG")) for agent in AGENTS])
        for outcome in outcomes:
            assert isinstance(outcome, Posted)
            assert outcome.attention.looked <= outcome.seq

    asyncio.run(run())


def test_posts_that_run_by_themselves_keep_a_group_within_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no time at all, each has a commit of its own, and those that run together have one."""
    commits: list[int] = []
    real = GroupWriter._commit

    def counted(self: GroupWriter, raw: Any) -> None:
        commits.append(len(self.taken))
        real(self, raw)

    async def run(*made: Draft) -> list[int]:
        async with opened() as at:
            monkeypatch.setattr(group, "_SPAN", 0.0)
            monkeypatch.setattr(GroupWriter, "_commit", counted)
            commits.clear()
            await at_once(at, [one(AGENTS[n % 4], each) for n, each in enumerate(made)])
            monkeypatch.setattr(GroupWriter, "_commit", real)
            return [members for members in commits if members]

    # The first commit is that of the operation for which they waited.
    assert asyncio.run(run(*(draft(f"log {n}", "LOG") for n in range(6)))) == [1, 6]
    assert asyncio.run(run(*(draft(f"@bob why {n}?", "QUESTION") for n in range(4)))) == [1, 1, 1, 1, 1]


def test_a_large_post_runs_by_itself() -> None:
    """All that run together are charged alike."""

    def batch(*made: Draft) -> object:
        return posting.batch_of("main", "alice", made, config=CONFIG)

    assert batch(draft("short", "LOG")) is not None
    assert batch(draft("long " * 5_000, "LOG")) is None
    assert batch(*(draft(f"{n}", "LOG") for n in range(5))) is None


def _uncounted(patch: pytest.MonkeyPatch) -> None:
    """Each post is told the board as it was before the batch."""
    patch.setattr(batches._Batch, "_counted", lambda self, row: row)


def _unnoticed(patch: pytest.MonkeyPatch) -> None:
    """What the posts write is forgotten when the next one asks."""
    patch.setattr(batches._Batch, "_note", lambda self, name, values: None)


@pytest.mark.parametrize(
    ("mistake", "first", "second"),
    [
        (_uncounted, draft("one", "LOG"), draft("two", "LOG")),
        (_unnoticed, draft("So it is.", "FACT"), draft("so it is", "FACT")),
    ],
)
def test_the_comparison_sees_the_mistake(
    monkeypatch: pytest.MonkeyPatch,
    mistake: Callable[[pytest.MonkeyPatch], None],
    first: Draft,
    second: Draft,
) -> None:
    mistake(monkeypatch)
    with pytest.raises((AssertionError, StoreClosed)):
        asyncio.run(compared(nothing, [one("alice", first), one("bob", second)]))
