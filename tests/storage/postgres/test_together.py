"""Statements that go to the server together: a wrong guess, an early question or an error is as if asked one by one."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Generator
from pathlib import Path
from typing import Any

import postgres_server
import pytest
from blackboard_mcp.protocols.errors import Conflict, StoreError
from blackboard_mcp.protocols.remarks import RemarkKind
from blackboard_mcp.storage.postgres import together, writing
from blackboard_mcp.storage.postgres.session import Session
from blackboard_mcp.storage.postgres.store import open_postgres_store
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import Table, draft
from patience import PATIENCE

Steps = Generator[Any, Any, Any]
_FIND = "SELECT until FROM lease WHERE name = ?1"
_TAKE = "INSERT INTO lease(name, holder, until) VALUES (?1, ?2, ?3)"
_COUNT = "UPDATE lease SET until = until + ?2 WHERE name = ?1"
_MOVE = "UPDATE lease SET until = ?2 WHERE name = ?1"


@pytest.fixture
async def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SqlBoardStore]:
    monkeypatch.setattr(writing, "_SPAN", PATIENCE)  # calls share a transaction however slow the machine is
    opened = await open_postgres_store(postgres_server.address(tmp_path))
    yield opened
    await opened.close()
    postgres_server.give_back(tmp_path)


@pytest.fixture
def trips(store: SqlBoardStore, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Returns what the connection that writes was asked since it was last called."""
    sent: list[str] = []
    fetch, execute = Session.fetch, Session.execute

    async def fetched(self: Session, statement: str, *given: Any) -> Any:
        if self is store.engine._writer:
            sent.append(statement)
        return await fetch(self, statement, *given)

    async def executed(self: Session, script: str) -> None:
        if self is store.engine._writer:
            sent.append(script)
        await execute(self, script)

    monkeypatch.setattr(Session, "fetch", fetched)
    monkeypatch.setattr(Session, "execute", executed)

    def taken() -> list[str]:
        taken = sent.copy()
        sent.clear()
        return taken

    return taken


async def learn(at: Table) -> None:
    """Has the engine see what posts ask and write."""
    for n in range(8):
        await asyncio.gather(
            *(at.post(name, f"{name} saw the {_word(n)}", "FACT") for name in ("alice", "bob"))
        )


def _word(number: int) -> str:
    return "".join(chr(ord("a") + int(digit)) for digit in str(number)) * 3


async def at_once(store: SqlBoardStore, *operations: Callable[[], Steps]) -> list[Any]:
    """Runs operations in one transaction, unless one fails."""
    return await asyncio.gather(*(store.engine.write(one) for one in operations), return_exceptions=True)


async def test_posts_that_share_a_commit_take_a_round_trip_each(
    store: SqlBoardStore, trips: Callable[[], list[str]]
) -> None:
    at = Table(store)
    await learn(at)
    trips()
    await asyncio.gather(*(at.post("alice", f"a {_word(n)} was there", "FACT") for n in range(100, 120)))
    sent = trips()
    # A few more begin and end the transactions.
    assert len(sent) <= 20 + 3 * sent.count("COMMIT"), sent
    assert sent.count("COMMIT") <= 2


async def test_a_post_alone_takes_four_round_trips(
    store: SqlBoardStore, trips: Callable[[], list[str]]
) -> None:
    at = Table(store)
    await learn(at)
    for n in range(30, 36):
        await at.post("alice", f"so {_word(n)} too", "FACT")
        sent = trips()
    assert len(sent) == 4, sent


async def test_what_a_post_finds_against_every_expectation_counts(store: SqlBoardStore) -> None:
    at = Table(store)
    await learn(at)
    posted = await at.batch("alice", draft("the pump leaks", "FACT"))
    first = posted.items[0].number
    same, endorsed, other = await asyncio.gather(
        at.batch("alice", draft("the pump leaks", "FACT")),
        at.batch("bob", draft("the pump leaks", "FACT")),
        at.batch("bob", draft("the valve holds", "FACT")),
    )
    assert [one.items[0].number for one in (same, endorsed, other)] == [first, first, first + 1]
    assert [remark.kind for remark in same.remarks] == [RemarkKind.SAME]
    assert endorsed.endorsed == (0,)
    seqs = [event.seq for event in await at.events()]
    assert seqs == list(range(1, len(seqs) + 1))


async def test_an_operation_begins_again_where_a_guess_was_wrong(store: SqlBoardStore) -> None:
    def counted(name: str) -> Callable[[], Steps]:
        """Takes a lease and counts it as new, unless somebody has it; tells who has."""

        def operation() -> Steps:
            yield _COUNT, ("asked", 1)
            if found := (yield _FIND, (name,)):
                yield _COUNT, ("known", 1)
                return found
            yield _COUNT, ("new", 1)
            yield "DELETE FROM lease WHERE name = ?1", (name,)
            yield _TAKE, (name, "x", 1)
            return [(1,)]

        return operation

    await at_once(store, *(_taken(name, 0) for name in ("asked", "known", "new")))
    for n in range(8):
        assert await store.engine.write(counted(f"new {n}")) == [(1,)]
    # The same name twice in one transaction: the second finds what the first wrote, against the guess.
    assert await at_once(store, *(counted(name) for name in ("twice", "twice", "once"))) == [[(1,)]] * 3
    for name, times in (("asked", 11), ("known", 1), ("new", 10)):
        assert await store.engine.read(_until(name)) == [(times,)]


def _until(name: str) -> Callable[[], Steps]:
    def operation() -> Steps:
        return (yield _FIND, (name,))

    return operation


def _taken(name: str, until: int) -> Callable[[], Steps]:
    def operation() -> Steps:
        yield _TAKE, (name, "x", until)

    return operation


async def test_an_operation_that_goes_by_chance_is_not_mixed_up(store: SqlBoardStore) -> None:
    chance = itertools.count()

    def drawn(name: str) -> Callable[[], Steps]:
        def operation() -> Steps:
            drawn = next(chance)
            yield _TAKE, (f"{name} {drawn}", "x", drawn)
            found = yield _FIND, (name,)
            yield _TAKE, (f"{name} {drawn} again", "x", len(found))
            return drawn

        return operation

    for n in range(8):
        await store.engine.write(drawn(f"new {n}"))
    await store.engine.write(_taken("there", 7))
    first, number, last = await at_once(store, drawn("before"), drawn("there"), drawn("after"))
    # The first one of a transaction, too.
    for n in range(3):
        await store.engine.write(drawn(f"newer {n}"))
    alone = await store.engine.write(drawn("there"))
    asked = (("before", first, 0), ("there", number, 1), ("after", last, 0), ("there", alone, 1))
    for name, each, found in asked:
        assert await store.engine.read(_until(f"{name} {each}")) == [(each,)]
        assert await store.engine.read(_until(f"{name} {each} again")) == [(found,)]

    def all_of_it() -> Steps:
        return (yield "SELECT count(*) FROM lease WHERE name LIKE 'there %'", ())

    assert await store.engine.read(all_of_it) == [(4,)]


async def test_what_the_next_operation_asked_early_is_asked_again_after_a_write(store: SqlBoardStore) -> None:
    def asked(write: bool) -> Callable[[], Steps]:
        def operation() -> Steps:
            found = yield _FIND, ("it",)
            if write:
                yield _MOVE, ("it", found[0][0] + 1)
            return found

        return operation

    await store.engine.write(_taken("it", 0))
    for _ in range(6):
        assert await at_once(store, *(asked(write=False) for _ in range(4))) == [[(0,)]] * 4
    done = await at_once(store, *(asked(write=True) for _ in range(4)), asked(write=False))
    assert done == [[(0,)], [(1,)], [(2,)], [(3,)], [(4,)]]


async def test_an_early_question_that_fails_fails_its_own_operation_alone(store: SqlBoardStore) -> None:
    def written(name: str) -> Callable[[], Steps]:
        def operation() -> Steps:
            yield _FIND, (name,)
            yield _TAKE, (name, "x", 0)

        return operation

    def broken(by: int) -> Callable[[], Steps]:
        def operation() -> Steps:
            return (yield "SELECT 1 / ?1", (by,))

        return operation

    for n in range(6):
        assert await at_once(store, written(f"a {n}"), broken(1), written(f"b {n}")) == [None, [(1,)], None]
    done = await at_once(store, written("a"), broken(0), written("b"))
    assert [done[0], done[2]] == [None, None]
    assert isinstance(done[1], StoreError)
    assert await store.engine.read(_until("a")) == await store.engine.read(_until("b")) == [(0,)]


async def test_a_refusal_that_was_only_guessed_is_none(store: SqlBoardStore) -> None:
    """An operation that refuses where nothing was found must not refuse by a guess."""

    def needed(name: str) -> Callable[[], Steps]:
        def operation() -> Steps:
            if not (yield _FIND, (name,)):
                raise Conflict(f"no {name}")
            yield _MOVE, (name, 5)

        return operation

    for _ in range(6):
        with pytest.raises(Conflict):
            await store.engine.write(needed("absent"))
    await store.engine.write(_taken("there", 0))
    done = await at_once(store, needed("there"), needed("absent"), needed("there"))
    assert done[0] is None
    assert done[2] is None
    assert isinstance(done[1], Conflict)
    assert await store.engine.read(_until("there")) == [(5,)]


async def test_a_connection_keeps_few_functions_and_makes_new_ones_for_those_it_does_not_call(
    store: SqlBoardStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(together, "_KNOWN", 3)
    monkeypatch.setattr(together, "_IDLE", 4)

    def lengthy(length: int, turn: int) -> Callable[[], Steps]:
        def operation() -> Steps:
            for n in range(length):
                yield _TAKE, (f"{length} {turn} {n}", "x", length)
            return (yield "SELECT count(*) FROM lease WHERE name LIKE ?1", (f"{length} {turn} %",))

        return operation

    def made() -> Steps:
        return (
            yield "SELECT proname FROM pg_proc WHERE pronamespace = pg_my_temp_schema() ORDER BY proname", ()
        )

    makers: list[str] = []
    make = together.Together.made

    def noted(self: together.Together, key: together.Key) -> tuple[str, str]:
        makers.append(f"{len(key)} statements")
        return make(self, key)

    monkeypatch.setattr(together.Together, "made", noted)
    for turn in range(3):
        for length in range(2, 9):
            for again in range(6):
                assert await store.engine.write(lengthy(length, 10 * turn + again)) == [(length,)]
    names = [name for (name,) in await store.engine.write(made)]
    assert names == ["together1", "together2", "together3"]
    assert len(set(makers)) >= 7  # each had one at some time
