"""Tests of consumer groups: each event goes to one worker at a time, until it is acknowledged or dead."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from blackboard_mcp.protocols.board import BoardChange, Lifecycle
from blackboard_mcp.protocols.errors import (
    BlackboardError,
    Conflict,
    CursorExpired,
    InvalidInput,
    QuotaExceeded,
    Refused,
    UnknownReference,
)
from blackboard_mcp.protocols.groups import (
    MAX_DEAD,
    MAX_GROUPS,
    MAX_IN_FLIGHT,
    MAX_TAKEN,
    GroupState,
    Handle,
    Taken,
    Turn,
    check_group,
    parse_handle,
)

from ..harness import PATIENCE, HandClock, Table, draft

FACTS = {"event": "item.posted", "type": "FACT"}
LEASE = 60
DONE = "is not in flight: it is done, or was never handed out"
Handles = tuple[Table, Table]


async def group(
    at: Table, posts: int = 0, *, attempts: int = 5, filter_: dict[str, Any] | None = None
) -> None:
    """Creates alice's group `g` for facts, and posts so many facts for it."""
    await at.configure()
    await at.store.create_group(at.board, "alice", "g", filter_ or FACTS, max_attempts=attempts)
    for begin in range(0, posts, 100):
        await at.batch("alice", *(draft(f"fact {n}") for n in range(begin, min(posts, begin + 100))))


async def take(
    at: Table,
    agent: str,
    limit: int = 1,
    *,
    ack: Sequence[str] = (),
    fail: Sequence[str] = (),
    extend: Sequence[str] = (),
    lease: float = LEASE,
    why: str = "no",
) -> list[str]:
    """Takes a turn, and returns the handles that it got."""
    return handles_of(await turn(at, agent, limit, ack=ack, fail=fail, extend=extend, lease=lease, why=why))


async def turn(
    at: Table,
    agent: str,
    limit: int = 1,
    *,
    ack: Sequence[str] = (),
    fail: Sequence[str] = (),
    extend: Sequence[str] = (),
    lease: float = LEASE,
    why: str = "no",
) -> Taken:
    """Takes a turn with handles given as texts, and returns its result."""
    asked = Turn(
        ack=tuple(map(parse_handle, ack)),
        fail={parse_handle(handle): why for handle in fail},
        extend=tuple(map(parse_handle, extend)),
        limit=limit,
        lease_seconds=lease,
    )
    return await at.store.consume(at.board, agent, "g", asked)


def handles_of(taken: Taken) -> list[str]:
    """Returns the handles in a turn's result, as texts."""
    return [str(delivery.handle) for delivery in taken.deliveries]


async def state(at: Table) -> GroupState:
    """Returns the state of the only group."""
    (found,), _ = await at.store.groups(at.board)
    return found


async def figures(at: Table) -> tuple[int, int, int, int]:
    """Returns the group's numbers of events: backlog, held, waiting and dead."""
    now = await state(at)
    return now.backlog, now.in_flight, now.waiting, now.dead


async def late(at: Table, agent: str, **named: Any) -> dict[str, str]:
    """Returns why a turn is refused, by handle; fails if it is not refused or changes something."""
    before = await figures(at), await at.seq()
    with pytest.raises(Conflict) as told:
        await turn(at, agent, **named)
    assert (await figures(at), await at.seq()) == before
    assert "Nothing was changed" in told.value.message
    assert len(told.value.message) < 700
    found: dict[str, str] = told.value.facts["late"]
    return found


async def kill(at: Table, clock: HandClock, count: int, attempts: int) -> None:
    """Makes so many events fail until they are dead letters."""
    for _ in range(attempts):
        left = count
        while left:
            handles = await take(at, "bob", min(left, MAX_TAKEN))
            left -= len(handles)
        clock.advance(LEASE)
    while await at.store.sweep_groups():
        pass


class ConsumerGroupTests:
    async def test_each_event_goes_to_one_worker_in_order(self, at: Table) -> None:
        await group(at, 5)
        assert await take(at, "bob", 2) == ["3.1", "4.1"]
        assert await take(at, "carol", 2) == ["5.1", "6.1"]
        assert await take(at, "dave", 9) == ["7.1"]
        assert await take(at, "dave", 9) == []
        assert await figures(at) == (0, 5, 0, 0)
        assert await take(at, "bob", 0, ack=["4.1"]) == []
        assert await take(at, "bob", 9, ack=["3.1"]) == []
        assert await figures(at) == (0, 3, 0, 0)

    async def test_a_delivery_has_its_event_and_the_end_of_its_lease(
        self, at: Table, clock: HandClock
    ) -> None:
        await group(at)
        item = await at.post("alice", "a", key="k", tags=["t"])
        (delivery,) = (await turn(at, "bob", lease=90)).deliveries
        assert (delivery.event.item, delivery.event.key, delivery.event.tags) == (item.id, "k", ("t",))
        assert (delivery.until - clock.now()).total_seconds() == 90
        assert delivery.why == ""

    async def test_what_is_not_acknowledged_in_time_is_handed_out_again(
        self, at: Table, clock: HandClock
    ) -> None:
        await group(at, 3)
        assert await take(at, "bob", 2) == ["3.1", "4.1"]
        clock.advance(LEASE - 1)
        assert await take(at, "carol", 1) == ["5.1"]
        clock.advance(1)
        again = await turn(at, "carol", 9)
        assert handles_of(again) == ["3.2", "4.2"], "the oldest first"
        assert {delivery.why for delivery in again.deliveries} == {"the lease ended"}
        assert await figures(at) == (0, 3, 0, 0)

    async def test_what_failed_is_handed_out_again_at_once_and_says_why(self, at: Table) -> None:
        await group(at, 3)
        assert await take(at, "bob", 2) == ["3.1", "4.1"]
        assert await take(at, "bob", 0, fail=["3.1"], why="no such file") == []
        assert await figures(at) == (1, 1, 1, 0)
        again = await turn(at, "carol", 9)
        assert handles_of(again) == ["3.2", "5.1"]
        assert [delivery.why for delivery in again.deliveries] == ["no such file", ""]

    async def test_one_call_settles_and_takes(self, at: Table) -> None:
        await group(at, 4)
        await take(at, "bob", 3)
        assert await take(at, "bob", 2, ack=["3.1"], fail=["4.1"], extend=["5.1"]) == ["4.2", "6.1"]

    async def test_a_late_acknowledgement_is_refused_and_says_why(self, at: Table, clock: HandClock) -> None:
        await group(at, 4)
        await take(at, "bob", 2)
        assert await take(at, "carol", 1) == ["5.1"]
        clock.advance(LEASE)
        assert await late(at, "bob", ack=["3.1"]) == {"3.1": "is not yours any more: its lease ended"}
        assert await take(at, "dave", 1) == ["3.2"]
        told = await late(at, "bob", ack=["3.1", "4.1"], fail=["99.1"], extend=["3.3"])
        assert told == {
            "3.1": "is dave's now, as 3.2",
            "4.1": "is not yours any more: its lease ended",
            "99.1": DONE,
            "3.3": "was never handed out",
        }
        assert await late(at, "bob", ack=["3.2"]) == {"3.2": "is dave's now, as 3.2"}
        await take(at, "dave", 0, ack=["3.2"])
        assert await late(at, "dave", ack=["3.2"]) == {"3.2": DONE}

    async def test_the_same_worker_does_not_settle_a_former_attempt(
        self, at: Table, clock: HandClock
    ) -> None:
        await group(at, 1)
        await take(at, "bob")
        clock.advance(LEASE)
        assert await take(at, "bob") == ["3.2"]
        assert await late(at, "bob", ack=["3.1"]) == {"3.1": "is bob's now, as 3.2"}
        assert await take(at, "bob", ack=["3.2"]) == []

    async def test_of_a_call_with_something_late_nothing_is_done(self, at: Table, clock: HandClock) -> None:
        await group(at, 4)
        await take(at, "bob", 1, lease=10)
        await take(at, "bob", 1)
        clock.advance(10)
        await late(at, "bob", limit=5, ack=["3.1", "4.1"])
        assert await take(at, "bob", 0, ack=["4.1"]) == []

    async def test_a_worker_keeps_what_takes_long(self, at: Table, clock: HandClock) -> None:
        await group(at, 1)
        await take(at, "bob", lease=10)
        for _ in range(5):
            clock.advance(9)
            assert await take(at, "bob", 0, extend=["3.1"], lease=10) == []
            assert await take(at, "carol") == []
        clock.advance(10)
        assert await take(at, "carol") == ["3.2"]

    async def test_handing_out_again_begins_a_lease_of_its_own(self, at: Table, clock: HandClock) -> None:
        await group(at, 1)
        await take(at, "bob", lease=5)
        clock.advance(5)
        assert await take(at, "carol", lease=100) == ["3.2"]
        clock.advance(99)
        assert await take(at, "bob") == []

    # Visibility

    async def test_what_is_private_reaches_no_worker(self, at: Table) -> None:
        await group(at, filter_={"event": "item.*"})
        await at.post("bob", "mine", private=True)
        shown = await at.post("bob", "shown")
        for agent in ("alice", "bob"):
            taken = await turn(at, agent, 9)
            assert [d.event.item for d in taken.deliveries] == ([shown.id] if agent == "alice" else [])
        assert (await figures(at))[0] == 0

    @pytest.mark.parametrize("filter_", [{"mentions": True}, {"not": {"agent": "me"}}, {"colour": "red"}])
    async def test_a_filter_that_depends_on_who_asks_is_refused(
        self, at: Table, filter_: dict[str, Any]
    ) -> None:
        await at.configure()
        with pytest.raises(InvalidInput):
            await at.store.create_group(at.board, "alice", "g", filter_)
        assert (await at.store.groups(at.board))[0] == []

    async def test_only_what_matches_is_handed_out(self, at: Table) -> None:
        await group(at, filter_={"tags": ["go"], "not": {"agent": "dave"}})
        for n in range(20):
            await at.post("dave" if n % 3 else "bob", str(n), tags=["go"] if n % 2 else [])
        items = [d.event.item for d in (await turn(at, "carol", 50)).deliveries]
        assert items == ["F-4", "F-10", "F-16"]

    async def test_events_of_groups_reach_a_group_only_where_it_names_them(
        self, at: Table, clock: HandClock
    ) -> None:
        await group(at, attempts=1, filter_={"agent": ["alice", "bob", "system"]})
        await at.store.create_group(at.board, "carol", "graves", {"event": "delivery.dead"})
        await at.post("alice", "a")
        assert await take(at, "bob", 9) == ["4.1"], "nor the making of the groups"
        await take(at, "bob", 0, fail=["4.1"])
        assert await take(at, "bob", 9) == []
        told = await at.store.consume(at.board, "carol", "graves", Turn(limit=9))
        assert [d.event.data["group"] for d in told.deliveries] == ["g"]

    async def test_workers_of_other_boards_and_groups_do_not_meet(self, at: Table) -> None:
        other = Table(at.store, "other")
        await group(at, 2)
        await group(other, 1)
        await at.store.create_group(at.board, "bob", "h", FACTS, since=0)
        assert await take(at, "bob", 9) == ["3.1", "4.1"]
        assert await take(other, "bob", 9) == ["3.1"]
        assert len((await at.store.consume(at.board, "bob", "h", Turn(limit=9))).deliveries) == 2
        await take(at, "bob", 0, ack=["3.1"])
        assert await figures(other) == (0, 1, 0, 0)

    # Making, changing, ending

    async def test_a_group_begins_at_the_end_of_the_log_or_where_it_is_told(self, at: Table) -> None:
        await at.post("alice", "before")
        made = await at.store.create_group(at.board, "alice", "g", FACTS)
        assert (made.cursor, made.created_by, made.filter) == (2, "alice", FACTS)
        await at.store.create_group(at.board, "bob", "all", FACTS, since=0)
        assert await take(at, "carol") == []
        taken = await at.store.consume(at.board, "carol", "all", Turn())
        assert handles_of(taken) == ["2.1"]
        for wrong, error in ((-1, InvalidInput), (99, CursorExpired)):
            with pytest.raises(error):
                await at.store.create_group(at.board, "bob", "other", FACTS, since=wrong)

    async def test_a_group_is_made_once_and_its_making_is_told(self, at: Table) -> None:
        await group(at)
        before = await at.seq()
        assert (await at.store.create_group(at.board, "bob", "g", FACTS)).created_by == "alice"
        with pytest.raises(Conflict):
            await at.store.create_group(at.board, "bob", "g", {})
        assert await at.seq() == before
        event = (await at.events())[-1]
        assert (event.event, event.agent, event.data) == ("group.created", "alice", {"group": "g"})

    async def test_who_made_a_group_changes_it_and_ends_it(self, at: Table) -> None:
        await group(at, 3)
        assert await take(at, "bob") == ["3.1"]
        for attempt in (
            at.store.change_group(at.board, "bob", "g", max_attempts=2),
            at.store.end_group(at.board, "bob", "g"),
        ):
            with pytest.raises(Refused):
                await attempt
        before = await at.seq()
        await at.store.change_group(at.board, "alice", "g", filter_={"type": "LOG"}, max_attempts=1)
        await at.store.change_group(at.board, "alice", "g", filter_={"type": "LOG"})
        await at.post("alice", "l", "LOG")
        assert await take(at, "bob", 9) == ["7.1"]
        await take(at, "bob", 0, fail=["3.1"])
        assert (await figures(at))[3] == 1, "one attempt is the last, of what is in flight as well"
        await at.store.end_group(at.board, "alice", "g")
        assert (await at.store.groups(at.board))[0] == []
        for gone in (take(at, "bob"), at.store.end_group(at.board, "alice", "g")):
            with pytest.raises(UnknownReference):
                await gone
        told = [(str(e.event), e.data) for e in await at.events(after=before) if e.event.startswith("group.")]
        assert told == [
            (
                "group.changed",
                {
                    "group": "g",
                    "filter": True,
                    "max_attempts": 1,
                    "was": {"filter": FACTS, "max_attempts": 5},
                    "now": {"filter": {"type": "LOG"}, "max_attempts": 1},
                },
            ),
            ("group.ended", {"group": "g", "why": "ended", "in_flight": 1, "dead": 1}),
        ]

    async def test_a_group_made_anew_knows_nothing_of_the_former(self, at: Table) -> None:
        await group(at, 2)
        await take(at, "bob", 2)
        await at.store.end_group(at.board, "alice", "g")
        await at.store.create_group(at.board, "bob", "g", FACTS)
        assert await figures(at) == (0, 0, 0, 0)
        assert "4.1" in await late(at, "bob", ack=["4.1"])

    async def test_a_board_has_a_bounded_number_of_groups(self, at: Table) -> None:
        await at.configure()
        for n in range(MAX_GROUPS):
            await at.store.create_group(at.board, "alice", f"g{n}", {})
        with pytest.raises(Refused):
            await at.store.create_group(at.board, "alice", "more", {})
        assert len((await at.store.groups(at.board))[0]) == MAX_GROUPS

    async def test_an_agent_makes_as_many_groups_as_it_may_and_others_theirs(self, at: Table) -> None:
        await at.configure()
        await at.store.create_group(at.board, "alice", "a", {}, most=1)
        with pytest.raises(QuotaExceeded) as caught:
            await at.store.create_group(at.board, "alice", "b", {}, most=1)
        assert caught.value.facts == {"limit": "groups_per_agent", "most": 1}
        with pytest.raises(QuotaExceeded):
            await at.store.consume(at.board, "alice", "b", Turn(filter={}, most=1))
        await at.store.consume(at.board, "alice", "a", Turn(filter={}, most=1))
        await at.store.create_group(at.board, "bob", "b", {}, most=1)

    async def test_a_closed_board_takes_no_group_and_gives_what_it_has(self, at: Table) -> None:
        await group(at, 2)
        await at.store.change_board(at.board, "alice", BoardChange(lifecycle=Lifecycle.CLOSED))
        with pytest.raises(Refused):
            await at.store.create_group(at.board, "alice", "h", {})
        assert await take(at, "bob", 9) == ["3.1", "4.1"]
        assert await take(at, "bob", 9, ack=["3.1", "4.1"]) == []

    async def test_a_group_that_nobody_uses_ends_in_sight(self, at: Table, clock: HandClock) -> None:
        await at.configure(subscription_lease_seconds=1_000)
        await group(at, 1)
        clock.advance(999)
        assert await at.store.sweep_groups() == []
        assert await take(at, "bob", lease=10) == ["4.1"]
        clock.advance(999)
        assert await at.store.sweep_groups() == []
        assert (await at.store.group_outlook(at.board, "g")).ready
        clock.advance(1)
        assert await at.store.sweep_groups() == [at.board]
        event = (await at.events())[-1]
        assert (event.event, event.agent) == ("group.ended", "system")
        assert event.data == {"group": "g", "why": "nobody used it", "in_flight": 1, "dead": 0}

    async def test_a_worker_that_waits_for_nothing_uses_its_group(self, at: Table, clock: HandClock) -> None:
        await at.configure(subscription_lease_seconds=1_000)
        await group(at)
        for _ in range(20):
            clock.advance(101)
            assert (await at.store.group_outlook(at.board, "g")).ready
            assert await take(at, "bob") == []
            assert not (await at.store.group_outlook(at.board, "g")).ready
            assert await at.store.sweep_groups() == []

    # Dead letters

    async def test_what_fails_too_often_is_a_dead_letter(self, at: Table, clock: HandClock) -> None:
        await group(at, 2, attempts=3)
        for n in (1, 2, 3):
            assert await take(at, "bob", fail=[f"3.{n - 1}"] if n > 1 else []) == [f"3.{n}"]
        before = await at.seq()
        assert await take(at, "bob", 9, fail=["3.3"], why="it is broken") == ["4.1"]
        assert await figures(at) == (0, 1, 0, 1)
        (letter,), seq = await at.store.dead_letters(at.board, "g")
        assert (str(letter.handle), letter.worker, letter.why) == ("3.3", "bob", "it is broken")
        assert (letter.at, letter.event.item) == (clock.now(), "F-1")
        (event,) = await at.events(after=before)
        assert (event.seq, event.event, event.item, event.agent) == (seq, "delivery.dead", "F-1", "bob")
        assert event.data == {"group": "g", "event": 3, "attempts": 3}
        assert event.concerns == ("alice",)
        assert await late(at, "bob", ack=["3.3"]) == {"3.3": "is a dead letter after 3 attempts"}

    async def test_what_was_not_begun_goes_back_without_an_attempt(self, at: Table) -> None:
        await group(at, 2, attempts=2)
        assert await take(at, "bob") == ["3.1"]
        for n in (1, 2, 3):
            back = Turn(release={parse_handle(f"3.{n}"): "not begun"}, limit=0)
            await at.store.consume(at.board, "bob", "g", back)
            assert await late(at, "bob", ack=[f"3.{n}"]) == {
                f"3.{n}": "is not yours any more: its lease ended"
            }
            (delivery,) = (await turn(at, "bob")).deliveries
            assert (str(delivery.handle), delivery.why) == (f"3.{n + 1}", "not begun")
        assert await take(at, "bob", fail=["3.4"]) == ["3.5"]
        assert await take(at, "bob", fail=["3.5"]) == ["4.1"], "that were two attempts"
        assert await figures(at) == (0, 1, 0, 1)

    async def test_what_is_left_too_often_is_a_dead_letter_though_nobody_asks(
        self, at: Table, clock: HandClock
    ) -> None:
        await group(at, 1, attempts=2)
        for _ in range(2):
            assert len(await take(at, "bob")) == 1
            assert await at.store.sweep_groups() == []
            clock.advance(LEASE)
        assert await at.store.sweep_groups() == [at.board]
        assert await at.store.sweep_groups() == []
        (letter,), _ = await at.store.dead_letters(at.board, "g")
        assert (letter.worker, letter.why) == ("bob", "the lease ended")
        assert (await at.events())[-1].agent == "system"

    async def test_a_dead_letter_is_retried_as_often_as_a_new_event(
        self, at: Table, clock: HandClock
    ) -> None:
        await group(at, 1, attempts=2)
        await kill(at, clock, 1, 2)
        await at.store.retry_dead(at.board, "carol", "g", [Handle(3, 2)])
        assert await figures(at) == (0, 0, 1, 0)
        assert await take(at, "bob") == ["3.3"]
        assert await take(at, "bob", fail=["3.3"]) == ["3.4"]
        await take(at, "bob", 0, fail=["3.4"])
        assert await figures(at) == (0, 0, 0, 1)
        told = [(str(e.event), e.agent) for e in await at.events() if e.event.startswith("delivery.")]
        assert told == [("delivery.dead", "system"), ("delivery.retried", "carol"), ("delivery.dead", "bob")]

    async def test_a_dead_letter_is_dropped(self, at: Table, clock: HandClock) -> None:
        await group(at, 2, attempts=1)
        await kill(at, clock, 2, 1)
        for wrong in ([Handle(3, 2)], [Handle(3, 1), Handle(9, 1)]):
            for attempt in (at.store.drop_dead, at.store.retry_dead):
                with pytest.raises(Conflict):
                    await attempt(at.board, "carol", "g", wrong)
        for bad in ([], [Handle(3, 1)] * 2, [Handle(n, 1) for n in range(MAX_TAKEN + 1)]):
            with pytest.raises(InvalidInput):
                await at.store.drop_dead(at.board, "carol", "g", bad)
        await at.store.drop_dead(at.board, "carol", "g", [Handle(3, 1)])
        assert await figures(at) == (0, 0, 0, 1)
        event = (await at.events())[-1]
        assert (event.event, event.data) == ("delivery.dropped", {"group": "g", "events": [3], "count": 1})
        assert await late(at, "bob", ack=["3.1"]) == {"3.1": DONE}

    async def test_dead_letters_are_listed_in_pages(self, at: Table, clock: HandClock) -> None:
        await group(at, 5, attempts=1)
        await kill(at, clock, 5, 1)
        first, _ = await at.store.dead_letters(at.board, "g", limit=3)
        rest, _ = await at.store.dead_letters(at.board, "g", after=first[-1].handle.seq, limit=3)
        assert [letter.handle.seq for letter in (*first, *rest)] == [3, 4, 5, 6, 7]

    async def test_with_too_many_dead_letters_nothing_is_handed_out_and_nothing_lost(
        self, at: Table, clock: HandClock
    ) -> None:
        await group(at, MAX_DEAD + 3, attempts=1)
        await kill(at, clock, MAX_DEAD - 1, 1)
        assert len(await take(at, "bob", 2)) == 2
        clock.advance(LEASE)
        await at.store.sweep_groups()
        stalled = await turn(at, "bob", 9)
        assert (stalled.deliveries, stalled.dead, stalled.waiting) == ((), MAX_DEAD, 1)
        assert f"{MAX_DEAD} dead letters" in stalled.stalled
        assert not (await at.store.group_outlook(at.board, "g")).ready
        letters, _ = await at.store.dead_letters(at.board, "g")
        await at.store.drop_dead(at.board, "bob", "g", [letter.handle for letter in letters])
        assert len(await take(at, "bob", 9)) == 2
        assert await figures(at) == (0, 2, 0, MAX_DEAD - 50 + 1)

    async def test_a_bounded_number_is_in_flight(self, at: Table, clock: HandClock) -> None:
        await group(at, MAX_IN_FLIGHT + 10)
        taken = 0
        while fresh := await take(at, "bob", MAX_TAKEN):
            taken += len(fresh)
        assert taken == MAX_IN_FLIGHT
        assert "in flight" in (await turn(at, "bob")).stalled
        assert not (await at.store.group_outlook(at.board, "g")).ready
        assert len(await take(at, "bob", 5, ack=["3.1", "4.1"])) == 2
        clock.advance(LEASE)
        assert len(await take(at, "carol", 5)) == 5

    # Over a long log

    async def test_what_does_not_match_is_looked_at_once(self, at: Table) -> None:
        await group(at, 3_000, filter_={"type": "LOG"})
        await at.post("alice", "the one", "LOG")
        looks = 1
        while not (last := await turn(at, "bob")).deliveries:
            assert last.more or last.backlog
            looks += 1
        assert looks > 1
        assert [d.event.type for d in last.deliveries] == ["LOG"]
        for place in range(300):
            await at.post("carol", f"mine {place}", private=True)
        assert (await at.store.group_outlook(at.board, "g")).ready
        assert (await turn(at, "bob")).deliveries == ()
        assert not (await at.store.group_outlook(at.board, "g")).ready

    async def test_a_backlog_is_counted_as_far_as_that_is_cheap(self, at: Table) -> None:
        await group(at, 700)
        now = await state(at)
        assert (now.backlog, now.more) == (499, True)
        for _ in range(6):
            await take(at, "bob", 50)
        now = await state(at)
        assert (now.backlog, now.more, now.in_flight) == (400, False, 300)

    async def test_an_outlook_says_whether_and_when(self, at: Table, clock: HandClock) -> None:
        await group(at)
        outlook = await at.store.group_outlook(at.board, "g")
        assert (outlook.ready, outlook.next_due, outlook.seq) == (False, None, 2)
        await at.post("alice", "l", "LOG")
        assert not (await at.store.group_outlook(at.board, "g")).ready
        await at.post("alice", "f")
        assert (await at.store.group_outlook(at.board, "g")).ready
        (delivery,) = (await turn(at, "bob", lease=30)).deliveries
        outlook = await at.store.group_outlook(at.board, "g")
        assert (outlook.ready, outlook.next_due) == (False, delivery.until)
        clock.advance(30)
        assert (await at.store.group_outlook(at.board, "g")).ready

    # Invalid arguments

    @pytest.mark.parametrize("name", ["", "a b", ".x", "x" * 65, "a/b", "ä", "a\n"])
    def test_what_is_no_name_of_a_group_is_refused(self, name: str) -> None:
        with pytest.raises(InvalidInput):
            check_group(name)

    @pytest.mark.parametrize(
        "text", ["", "3", "3.", ".1", "3.0", "-3.1", "3.1 ", "٣.1", "1" * 16 + ".1", "3.1.1"]
    )
    def test_what_is_no_handle_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidInput):
            parse_handle(text)

    @pytest.mark.parametrize(
        "asked",
        [
            Turn(lease_seconds=0.5),
            Turn(lease_seconds=3_601),
            Turn(lease_seconds=float("nan")),
            Turn(limit=MAX_TAKEN + 1),
            Turn(limit=-1),
            Turn(ack=(Handle(3, 1), Handle(3, 1))),
            Turn(ack=(Handle(3, 1),), fail={Handle(3, 1): ""}),
            Turn(ack=tuple(Handle(n, 1) for n in range(1_000))),
        ],
    )
    async def test_a_turn_out_of_bounds_is_refused(self, at: Table, asked: Turn) -> None:
        await group(at, 1)
        with pytest.raises(InvalidInput):
            await at.store.consume(at.board, "bob", "g", asked)
        assert await figures(at) == (1, 0, 0, 0)

    async def test_attempts_are_bounded(self, at: Table) -> None:
        await group(at)
        for attempts in (0, 101):
            with pytest.raises(InvalidInput):
                await at.store.create_group(at.board, "alice", "h", {}, max_attempts=attempts)
            with pytest.raises(InvalidInput):
                await at.store.change_group(at.board, "alice", "g", max_attempts=attempts)

    async def test_groups_are_of_boards_that_are_there(self, at: Table) -> None:
        for attempt in (
            at.store.create_group("nowhere", "alice", "g", {}),
            at.store.groups("nowhere"),
            at.store.consume("nowhere", "alice", "g", Turn()),
            at.store.dead_letters("nowhere", "g"),
            at.store.group_outlook("nowhere", "g"),
        ):
            with pytest.raises(UnknownReference):
                await attempt

    # Concurrent calls

    async def test_no_event_is_held_twice_over_both_handles(self, handles: Handles, clock: HandClock) -> None:
        one, two = handles
        await group(one, 56)
        taken = await asyncio.gather(*(take(handles[n % 2], f"w{n}", 7) for n in range(8)))
        held = [handle for part in taken for handle in part]
        assert len(held) == len(set(held)) == 56
        clock.advance(LEASE)
        again = await asyncio.gather(*(take(handles[n % 2], f"w{n}", 7) for n in range(8)))
        seqs = [parse_handle(handle).seq for part in again for handle in part]
        assert len(seqs) == len(set(seqs)) == 56
        acked = await asyncio.gather(
            *(take(handles[n % 2], f"w{n % 8}", 0, ack=again[n % 8]) for n in range(16)),
            return_exceptions=True,
        )
        assert sum(isinstance(outcome, Conflict) for outcome in acked) == 8, "of two that settle it, one does"
        assert not any(isinstance(o, BaseException) and not isinstance(o, BlackboardError) for o in acked)
        assert await figures(two) == (0, 0, 0, 0)

    async def test_a_worker_at_one_handle_hears_of_a_failure_at_the_other(self, handles: Handles) -> None:
        one, two = handles
        await group(one, 1)
        await take(one, "bob")
        assert not (await two.store.group_outlook(two.board, "g")).ready
        seen = two.store.changes()
        waiting = asyncio.create_task(two.store.wait_for_change(seen, PATIENCE))
        await take(one, "bob", 0, fail=["3.1"])
        await asyncio.wait_for(waiting, PATIENCE)
        assert (await two.store.group_outlook(two.board, "g")).ready
        assert await take(two, "carol") == ["3.2"]
