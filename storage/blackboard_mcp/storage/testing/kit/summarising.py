"""Tests of requests for summaries: asking, taking with a lease, writing, and what makes them void."""

from __future__ import annotations

import pytest
from blackboard_mcp.protocols.answers import (
    NewSummary,
)
from blackboard_mcp.protocols.board import BoardChange, Lifecycle
from blackboard_mcp.protocols.errors import Conflict, Refused, UnknownReference
from blackboard_mcp.protocols.items import Item, Zone
from blackboard_mcp.protocols.summaries import SummaryRequest

from ..harness import HandClock, Table
from .leaving import seen, summary, thread


def by(agent: str, items: list[Item], text: str = "in short") -> NewSummary:
    """Returns a summary of the items, written by the agent."""
    made = summary(items[0].thread, seen(items), text)
    return NewSummary(
        made.thread, made.seen, made.text, made.tokens, made.sha256, made.importance, agent, "agent"
    )


async def asked(at: Table, items: list[Item], wait: int = 60) -> bool:
    """Asks for a summary of the items' thread; tells whether a request was opened."""
    return await at.store.request_summary(at.board, items[0].thread, seen(items), wait_seconds=wait)


async def listed(at: Table) -> list[SummaryRequest]:
    """Returns the open requests for summaries."""
    return (await at.store.summary_requests(at.board))[0]


async def take(at: Table, agent: str, number: int = 1, seconds: float = 30) -> int:
    """Takes the request on an item's thread, and returns its lease."""
    return (await at.store.take_summary(at.board, agent, number, seconds=seconds))[0].lease


async def told(at: Table) -> list[tuple[str, str, object]]:
    """Returns the events of requests for summaries: type, agent, and reason."""
    events = await at.events()
    return [
        (e.event.split(".")[1], e.agent, e.data.get("why")) for e in events if e.event.startswith("summary.")
    ]


class SummaryTests:
    async def test_a_request_is_listed_until_it_is_met(self, at: Table, clock: HandClock) -> None:
        items = await thread(at)
        assert await asked(at, items)
        (request,) = await listed(at)
        assert (request.name, request.thread, request.holder) == (items[0].id, 1, None)
        assert request.sources == tuple(item.id for item in items)
        assert request.tokens == sum(item.tokens for item in items)
        assert (request.due_at - clock.now()).total_seconds() == 60
        assert (await at.store.snapshot(at.board, "bob")).summaries == (request,)
        lease = await take(at, "bob")
        id_ = await at.store.write_summary(at.board, by("bob", items), lease)
        assert await listed(at) == []
        made = await at.item(int(id_[2:]))
        assert (made.author, made.text, made.metadata["sources"]) == (
            "bob",
            "in short",
            [item.id for item in items],
        )
        assert [await at.zone(item) for item in items] == [Zone.ARCHIVE] * 4
        assert await told(at) == [
            ("requested", "system", None),
            ("taken", "bob", None),
            ("closed", "system", f"summarised in {id_}"),
        ]

    async def test_a_thread_is_asked_for_once(self, at: Table) -> None:
        items = await thread(at)
        assert await asked(at, items)
        before = await at.standing()
        assert not await asked(at, items)
        assert await at.standing() == before

    async def test_nobody_is_asked_for_what_may_not_be_summarised(self, at: Table) -> None:
        items = await thread(at)
        await at.watch("carol", items[1])
        before = await at.standing()
        assert not await asked(at, items)
        assert not await at.store.request_summary(at.board, 1, {}, wait_seconds=60)
        assert await at.standing() == before

    async def test_one_agent_has_it_at_a_time_under_a_rising_token(self, at: Table, clock: HandClock) -> None:
        items = await thread(at)
        await asked(at, items, wait=600)
        first = await take(at, "bob")
        before = await at.standing()
        with pytest.raises(Conflict) as caught:
            await take(at, "carol")
        assert caught.value.facts["holder"] == "bob"
        assert await at.standing() == before
        again = await take(at, "bob")
        clock.advance(29)
        with pytest.raises(Conflict):
            await take(at, "carol")
        clock.advance(1)
        second = await take(at, "carol")
        assert first < again < second
        for agent, lease in (("bob", first), ("bob", again), ("bob", second), ("carol", first), ("dora", 0)):
            before = await at.standing()
            with pytest.raises(Conflict):
                await at.store.held_summary(at.board, agent, 1, lease)
            with pytest.raises(Conflict):
                await at.store.write_summary(at.board, by(agent, items), lease)
            assert await at.standing() == before
        _, sources = await at.store.held_summary(at.board, "carol", items[2].number, second)
        assert [source.number for source in sources] == [1, 2, 3, 4]
        clock.advance(31)  # nobody else took it: what carol wrote is still welcome
        assert await at.store.write_summary(at.board, by("carol", items), second)

    async def test_taking_it_again_and_again_does_not_keep_it_for_ever(
        self, at: Table, clock: HandClock
    ) -> None:
        items = await thread(at)
        await asked(at, items, wait=60)
        for _ in range(12):
            await take(at, "bob", seconds=30)
            clock.advance(10)
        (request,) = await listed(at)
        assert request.held_until is not None
        assert (request.held_until - request.due_at).total_seconds() <= 60
        assert [d.thread for d in await at.store.summaries_due()] == [1]

    @pytest.mark.parametrize("how", ["changed", "reply", "debated", "gone"])
    async def test_a_request_is_void_when_its_thread_moved(self, at: Table, how: str) -> None:
        items = await thread(at)
        await asked(at, items)
        lease = await take(at, "bob")
        match how:
            case "changed":
                await at.change("bob", items[1], status="RESOLVED")
            case "reply":
                await at.post("carol", "one more thing", "REPLY", replies_to=items[2])
            case "debated":
                await at.post("carol", "no", "CRITIQUE", critiques=items[2])
            case "gone":
                await at.gone(items[1])
        before = await at.standing()
        assert await listed(at) == []
        with pytest.raises(Conflict, match="moved"):
            await take(at, "carol")
        with pytest.raises(Conflict, match="moved"):
            await at.store.held_summary(at.board, "bob", 1, lease)
        with pytest.raises(Conflict, match="moved"):
            await at.store.write_summary(at.board, by("bob", items), lease)
        assert await at.standing() == before
        (due,) = await at.store.summaries_due()
        assert (due.board, due.thread, due.members, due.moved) == (at.board, 1, (1, 2, 3, 4), True)
        assert await at.store.close_summary(at.board, 1, "the thread moved")
        assert not await at.store.close_summary(at.board, 1, "the thread moved")
        assert await at.store.summaries_due() == []

    async def test_watching_a_source_keeps_a_summary_from_being_written(self, at: Table) -> None:
        items = await thread(at)
        await asked(at, items)
        lease = await take(at, "bob")
        await at.watch("carol", items[1])
        with pytest.raises(Conflict, match="moved"):
            await at.store.write_summary(at.board, by("bob", items), lease)
        assert await at.zone(items[0]) is Zone.WORKING

    async def test_a_private_reply_does_not_void_a_request_nor_show_in_it(self, at: Table) -> None:
        items = await thread(at)
        await asked(at, items)
        await at.post("carol", "note to self", "REPLY", replies_to=items[1], private=True)
        (request,) = await listed(at)
        assert request.sources == tuple(item.id for item in items)
        _, sources = await at.store.take_summary(at.board, "bob", 1, seconds=30)
        assert [source.number for source in sources] == [1, 2, 3, 4]
        assert all(
            len(source.incoming) == len(item.incoming)
            for source, item in zip(sources, [await at.item(item, "bob") for item in items], strict=True)
        )

    async def test_a_request_is_due_when_nobody_has_it_in_time(self, at: Table, clock: HandClock) -> None:
        items = await thread(at)
        await asked(at, items, wait=60)
        clock.advance(59)
        assert await at.store.summaries_due() == []
        await take(at, "bob", seconds=30)
        clock.advance(29)
        assert await at.store.summaries_due() == []
        clock.advance(1)
        (due,) = await at.store.summaries_due()
        assert (due.thread, due.moved) == (1, False)
        id_ = await at.store.apply_summary(at.board, summary(1, seen(items)))
        assert (await told(at))[-1] == ("closed", "system", f"summarised in {id_}")
        assert await at.store.summaries_due() == []

    async def test_what_is_not_asked_for_cannot_be_taken(self, at: Table) -> None:
        await thread(at)
        before = await at.standing()
        for call in (
            at.store.take_summary(at.board, "bob", 1, seconds=30),
            at.store.held_summary(at.board, "bob", 99, 1),
        ):
            with pytest.raises(UnknownReference):
                await call
        with pytest.raises(UnknownReference):
            await at.store.write_summary(at.board, by("bob", [await at.item(1)]), 1)
        assert await at.standing() == before

    async def test_a_settled_board_takes_no_summaries_from_agents(self, at: Table) -> None:
        items = await thread(at)
        await asked(at, items)
        lease = await take(at, "bob")
        await at.store.change_board(at.board, "alice", BoardChange(lifecycle=Lifecycle.SETTLED))
        with pytest.raises(Refused):
            await take(at, "bob")
        with pytest.raises(Refused):
            await at.store.write_summary(at.board, by("bob", items), lease)
