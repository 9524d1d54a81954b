"""Tests of subscriptions: who owns them, how their cursors move, and what becomes of unused ones."""

from __future__ import annotations

import asyncio

import pytest
from blackboard_mcp.protocols.answers import (
    Subscription,
)
from blackboard_mcp.protocols.errors import CursorExpired, InvalidInput, QuotaExceeded, Refused
from blackboard_mcp.protocols.store import BoardStore

from ..harness import HandClock, Table

DAY = 86_400
LEASE = 30 * DAY


async def held(at: Table, id_or_name: str, agent: str = "alice") -> Subscription:
    """Returns an agent's subscription; fails if it has none of that id or name."""
    found = await at.store.find_subscription(at.board, agent, id_or_name)
    assert found is not None, f"{agent} holds no {id_or_name}"
    return found


async def subscribed(at: Table, name: str = "mine", agent: str = "alice") -> Subscription:
    """Creates a subscription to facts, and returns it."""
    await at.configure()
    return await at.store.subscribe(at.board, agent, name, {"type": "FACT"})


class SubscriptionTests:
    async def test_an_agent_holds_as_many_as_it_may_and_others_theirs(self, at: Table) -> None:
        held = await subscribed(at)
        with pytest.raises(QuotaExceeded) as caught:
            await at.store.subscribe(at.board, "alice", "more", {}, most=1)
        assert caught.value.facts == {"limit": "subscriptions_per_agent", "most": 1}
        await at.store.subscribe(at.board, "bob", "more", {}, most=1)
        await at.store.unsubscribe(at.board, "alice", held.id)
        await at.store.subscribe(at.board, "alice", "more", {}, most=1)

    async def test_a_subscription_begins_at_the_end_of_the_log_and_keeps_its_place(self, at: Table) -> None:
        await at.post("alice", "a")
        made = await at.store.subscribe(at.board, "alice", "mine", {"type": "FACT"})
        assert made.cursor == await at.seq()
        await at.post("alice", "b")
        assert await held(at, made.id) == made
        assert await at.store.move_cursor(at.board, "alice", made.id, 3)
        found = await held(at, "mine")
        assert (found.cursor, found.filter, found.agent) == (3, {"type": "FACT"}, "alice")
        for wrong, error in ((-1, InvalidInput), (4, CursorExpired)):
            with pytest.raises(error):
                await at.store.move_cursor(at.board, "alice", made.id, wrong)

    async def test_a_cursor_that_is_confirmed_never_goes_back(self, at: Table) -> None:
        made = await subscribed(at)
        for n in range(3):
            await at.post("alice", str(n))
        for asked, stands in ((3, 3), (2, 3), (4, 4), (0, 4)):
            assert await at.store.move_cursor(at.board, "alice", made.id, asked)
            assert (await held(at, made.id)).cursor == stands

    async def test_of_two_readers_one_moves_the_cursor(self, at: Table) -> None:
        made = await subscribed(at)
        for n in range(3):
            await at.post("alice", str(n))
        moves = (
            at.store.move_cursor(at.board, "alice", made.id, to, since=made.cursor) for to in (2, 3, 4, 3)
        )
        moved = await asyncio.gather(*moves)
        assert sum(moved) == 1
        assert (await held(at, made.id)).cursor == (2, 3, 4, 3)[moved.index(True)]
        await at.store.return_cursor(at.board, "alice", made.id, made.cursor)
        assert await held(at, made.id) == made
        await at.store.return_cursor(at.board, "alice", made.id, 3)
        assert await held(at, made.id) == made, "it is put back, never on"

    async def test_subscriptions_belong_to_their_agent_and_board(self, store: BoardStore) -> None:
        at, other = Table(store), Table(store, "other")
        await at.post("alice", "a")
        await other.post("alice", "a")
        made = await store.subscribe("main", "alice", "n", {})
        for board, agent in (("main", "bob"), ("other", "alice")):
            assert await store.subscriptions(board, agent) == []
            assert await store.find_subscription(board, agent, made.id) is None
            assert not await store.unsubscribe(board, agent, made.id)
            assert not await store.move_cursor(board, agent, made.id, 0)
            assert not await store.move_cursor(board, agent, made.id, 0, since=made.cursor)
            await store.return_cursor(board, agent, made.id, 0)
        assert await store.subscriptions("main", "alice") == [made]
        assert await store.unsubscribe("main", "alice", "n")
        assert not await store.unsubscribe("main", "alice", "n")
        assert await store.subscriptions("main", "alice") == []

    async def test_an_agent_has_at_most_a_hundred_subscriptions(self, at: Table) -> None:
        await at.post("alice", "a")
        for n in range(100):
            await at.store.subscribe(at.board, "alice", f"n{n}", {})
        with pytest.raises(Refused):
            await at.store.subscribe(at.board, "alice", "one more", {})
        await at.store.subscribe(at.board, "bob", "n0", {})
        assert len(await at.store.subscriptions(at.board, "alice")) == 100

    async def test_I20_a_cursor_delivers_every_event_once_in_order(self, at: Table) -> None:
        await at.post("alice", "a")
        made = await at.store.subscribe(at.board, "bob", "", {})
        delivered: list[int] = []
        for turn in range(6):
            for n in range(turn):
                await at.post("alice", "x", private=n == 1)
            place = (await at.store.subscriptions(at.board, "bob"))[0].cursor
            log = await at.store.log(at.board, "bob", place, 2)
            delivered += [e.seq for e in log.events]
            assert await at.store.move_cursor(at.board, "bob", made.id, log.cursor, since=place)
        rest = await at.events("bob", (await at.store.subscriptions(at.board, "bob"))[0].cursor)
        delivered += [e.seq for e in rest]
        assert delivered == [e.seq for e in await at.events("bob", made.cursor)]

    # Unused subscriptions

    async def test_what_nobody_uses_expires_and_says_where_it_stood(
        self, at: Table, clock: HandClock
    ) -> None:
        made = await subscribed(at)
        await at.post("alice", "a")
        clock.advance(LEASE - 1)
        assert await at.store.expire_subscriptions() == []
        assert await held(at, "mine") == made
        clock.advance(1)
        before = await at.seq()
        assert await at.store.expire_subscriptions() == [at.board]
        assert await at.store.expire_subscriptions() == []
        for name in ("mine", made.id):
            with pytest.raises(CursorExpired) as told:
                await held(at, name)
            assert told.value.facts == {"cursor": made.cursor, "seq": before}
            assert f"wait(since={made.cursor})" in told.value.message
        (gone,) = await at.store.subscriptions(at.board, "alice")
        assert (gone.id, gone.cursor, gone.expired_at) == (made.id, made.cursor, clock.now())
        assert not await at.store.move_cursor(at.board, "alice", made.id, 2)
        assert await at.seq() == before, "it concerns nobody else"
        assert await at.store.find_subscription(at.board, "bob", made.id) is None
        assert [e.seq for e in await at.events("alice", made.cursor)] == [2], "nothing of the log is lost"

    async def test_whatever_moves_a_cursor_uses_the_subscription(self, at: Table, clock: HandClock) -> None:
        confirmed, advanced, unused = [await subscribed(at, name) for name in ("one", "two", "three")]
        clock.advance(LEASE - 1)
        await at.store.move_cursor(at.board, "alice", confirmed.id, 0)
        await at.store.move_cursor(at.board, "alice", advanced.id, 1, since=1)
        await at.store.move_cursor(at.board, "alice", unused.id, 1, since=0)
        clock.advance(1)
        await at.store.expire_subscriptions()
        listed = await at.store.subscriptions(at.board, "alice")
        assert {s.name for s in listed if s.expired_at is None} == {"one", "two"}

    async def test_a_lease_is_as_long_as_the_board_says_and_nought_never_ends(
        self, at: Table, clock: HandClock
    ) -> None:
        await subscribed(at)
        await at.configure(subscription_lease_seconds=0)
        clock.advance(100 * LEASE)
        assert await at.store.expire_subscriptions() == []
        await at.configure(subscription_lease_seconds=60)
        assert await at.store.expire_subscriptions() == [at.board]

    async def test_an_expired_subscription_is_forgotten_and_its_name_is_free(
        self, at: Table, clock: HandClock
    ) -> None:
        first = await subscribed(at)
        clock.advance(LEASE)
        await at.store.expire_subscriptions()
        again = await subscribed(at)
        assert await held(at, "mine") == again
        clock.advance(LEASE - 1)
        await at.store.move_cursor(at.board, "alice", again.id, 1)
        await at.store.expire_subscriptions()
        assert {s.id for s in await at.store.subscriptions(at.board, "alice")} == {first.id, again.id}
        clock.advance(1)
        await at.store.expire_subscriptions()
        assert await at.store.subscriptions(at.board, "alice") == [await held(at, "mine")]
        assert await at.store.find_subscription(at.board, "alice", first.id) is None

    async def test_an_expired_subscription_can_be_ended(self, at: Table, clock: HandClock) -> None:
        await subscribed(at)
        clock.advance(LEASE)
        await at.store.expire_subscriptions()
        assert await at.store.unsubscribe(at.board, "alice", "mine")
        assert await at.store.subscriptions(at.board, "alice") == []
        assert await at.store.find_subscription(at.board, "alice", "mine") is None

    async def test_many_that_nobody_uses_expire_in_bounded_parts(self, at: Table, clock: HandClock) -> None:
        await at.configure()
        for n in range(250):
            await at.store.subscribe(at.board, f"agent{n % 5}", "", {})
        clock.advance(LEASE)
        rounds = 0
        while await at.store.expire_subscriptions():
            rounds += 1
        assert rounds == 2
        left = [s for n in range(5) for s in await at.store.subscriptions(at.board, f"agent{n}")]
        assert len(left) == 250
        assert all(s.expired_at is not None for s in left)
