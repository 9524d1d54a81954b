"""Tests of sightings: who was shown an item first and last, told to those who see the item."""

from __future__ import annotations

from datetime import datetime, timedelta

from blackboard_mcp.protocols.items import Item
from blackboard_mcp.protocols.sightings import MOST_NEVER, MOST_SIGHTED, Readership, Sighting

from ..harness import HandClock, Table


async def sees(at: Table, agent: str, item: Item | int, when: datetime, way: str = "view") -> None:
    """Records that the agent was shown the item."""
    number = item if isinstance(item, int) else item.number
    one = Sighting(number, agent, when, way, when, way)
    await at.store.record_activity(at.board, {}, {}, sightings=[one])


async def readers(at: Table, asker: str, item: Item) -> Readership:
    return (await at.store.readers(at.board, asker, [item.number]))[item.number]


async def names(at: Table, asker: str, item: Item) -> tuple[list[str], list[str]]:
    """Returns the agents that were shown the item and those that never were."""
    told = await readers(at, asker, item)
    return [one.agent for one in told.seen], sorted(told.never)


class SightingTests:
    async def test_the_first_and_the_last_sighting_are_kept(self, at: Table, clock: HandClock) -> None:
        item = await at.post("alice", "a")
        await at.post("bob", "b")
        now = clock.now()
        for seconds, way in ((5, "read"), (2, "query"), (9, "wait"), (1, "view"), (4, "turn")):
            await sees(at, "bob", item, now + timedelta(seconds=seconds), way)
        last = Sighting(
            item.number, "bob", now + timedelta(seconds=1), "view", now + timedelta(seconds=9), "wait"
        )
        assert (await readers(at, "alice", item)).seen == (last,)

    async def test_sightings_not_recorded_yet_are_joined(self, at: Table, clock: HandClock) -> None:
        item = await at.post("alice", "a")
        await at.post("bob", "b")
        now, later = clock.now(), clock.now() + timedelta(seconds=3)
        await sees(at, "bob", item, now)
        noted = Sighting(item.number, "bob", later, "read", later, "read")
        told = await at.store.readers(at.board, "carol", [item.number, 99], [noted])
        assert told == {item.number: Readership((Sighting(item.number, "bob", now, "view", later, "read"),))}

    async def test_who_was_never_shown_an_item_is_named_without_its_writer_and_the_asker(
        self, at: Table, clock: HandClock
    ) -> None:
        item = await at.post("alice", "a", key="k")
        await at.post("bob", "b")
        await at.post("carol", "c")
        await at.store.join(at.board, "dora")
        assert await names(at, "carol", item) == ([], ["bob", "dora"])
        await sees(at, "dora", item, clock.now())
        await sees(at, "bob", item, clock.now() + timedelta(seconds=1))
        assert await names(at, "carol", item) == (["bob", "dora"], [])
        newer = await at.post("bob", "newer", "FACT", key="k")
        assert await names(at, "carol", newer) == (["dora"], ["alice"])

    async def test_only_those_who_see_an_item_learn_who_was_shown_it(
        self, at: Table, clock: HandClock
    ) -> None:
        for agent in ("alice", "bob"):
            await at.store.set_owner(agent, "acme")
        ours = await at.post("alice", "ours", team=True)
        own = await at.post("alice", "own", private=True)
        for agent in ("bob", "carol"):
            await at.post(agent, "something")
            await sees(at, agent, ours, clock.now())
        assert await at.store.readers(at.board, "carol", [ours.number, own.number]) == {}
        assert (await names(at, "alice", own)) == ([], [])
        assert (await names(at, "bob", ours))[1] == [], "carol could not be shown it"

    async def test_a_reader_whom_the_asker_may_not_know_of_is_not_named(
        self, at: Table, clock: HandClock
    ) -> None:
        item = await at.post("alice", "a")
        await at.post("bob", "b")
        await at.post("carol", "secret", private=True)
        for agent in ("bob", "carol", "eve"):
            await sees(at, agent, item, clock.now())
        assert await names(at, "alice", item) == (["bob"], [])
        await at.post("carol", "open")
        assert (await names(at, "alice", item)) == (["bob", "carol"], [])

    async def test_the_ledger_of_an_item_is_bounded(self, at: Table, clock: HandClock) -> None:
        item = await at.post("alice", "a")
        many = [f"agent-{n}" for n in range(MOST_SIGHTED + 5)]
        for name in many:
            await at.store.join(at.board, name)
        told = await readers(at, "alice", item)
        assert (told.seen, len(told.never)) == ((), MOST_NEVER)
        for n, name in enumerate(many):
            await sees(at, name, item, clock.now() + timedelta(seconds=n))
        told = await readers(at, "alice", item)
        assert [one.agent for one in told.seen] == many[: -MOST_SIGHTED - 1 : -1]
        assert told.never == ()

    async def test_sightings_change_no_board_and_pass_over_what_is_not_there(
        self, at: Table, clock: HandClock
    ) -> None:
        item = await at.post("alice", "a")
        before, log = await at.standing(), await at.events()
        await sees(at, "bob", 99, clock.now())
        await sees(at, "bob", item, clock.now())
        assert (await at.standing(), await at.events()) == (before, log)
        assert await at.store.readers("elsewhere", "alice", [item.number]) == {}
        assert [one.name for one in await at.store.agents(at.board)] == ["alice"]
