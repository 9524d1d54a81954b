"""Tests of watching: items and topics, and its end by unwatching, a lease, or a debate that expires."""

from __future__ import annotations

import pytest
from blackboard_mcp.protocols.board import BoardChange, Lifecycle
from blackboard_mcp.protocols.debates import Duty, ObligationState
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, Refused, UnknownReference
from blackboard_mcp.protocols.items import Item, Zone
from blackboard_mcp.protocols.topics import parse_topic

from ..harness import CONFIG, HandClock, Table
from .debates import answered, argue

ACK, RESPOND = Duty.ACKNOWLEDGE, Duty.RESPOND
DAY = 86_400


async def standing(at: Table, agent: str) -> list[str]:
    """Returns the topics that the agent watches."""
    return [watch.topic for watch in await at.store.watches(at.board, agent)]


async def waived(at: Table, target: Item) -> set[tuple[str, str]]:
    """Returns who was let off in the newest debate on the item, as pairs of agent and reason."""
    debate = (await at.debate(target)).debate
    return {(o.agent, o.reason) for o in debate.obligations if o.state is ObligationState.WAIVED}


class WatchingTests:
    # By topic

    @pytest.mark.parametrize(
        "topic",
        [
            "key:plan:**",
            "key:plan:*:step",
            "key:plan:a:step",
            "tag:db",
            "type:PLAN",
            "type:plan",
            "thread:F-1",
            "thread:2",
        ],
    )
    async def test_a_debate_on_what_is_watched_by_topic_obliges_the_watcher(
        self, at: Table, topic: str
    ) -> None:
        first = await at.post("alice", "thread")
        root = await at.post("alice", "do", "PLAN", key="plan:a:step", tags=["db", "x"], replies_to=first)
        await at.follow("carol", topic)
        critique = await at.post("bob", "no", "CRITIQUE", critiques=root)
        assert await at.owed("carol") == set(), "there is nothing to judge yet"
        await at.answer("alice", critique)
        assert await at.owed("carol") == {(root.number, ACK)}
        await at.acknowledge("bob", root)
        assert await at.state(root) == "OPEN"
        await at.acknowledge("carol", root)
        assert await at.state(root) == "CONSENSUS"

    @pytest.mark.parametrize("topic", ["key:plan:*", "tag:d", "type:FACT", "thread:2", "key:other"])
    async def test_a_debate_on_something_else_obliges_nobody(self, at: Table, topic: str) -> None:
        await at.post("alice", "one")
        await at.post("alice", "two")
        root = await at.post("alice", "do", "PLAN", key="plan:a:step", tags=["db"])
        await at.follow("carol", topic)
        await at.post("bob", "no", "CRITIQUE", critiques=root)
        assert await at.owed("carol") == set()

    async def test_a_debate_by_request_obliges_them_as_well(self, at: Table) -> None:
        await at.configure()
        await at.follow("carol", "type:FACT")
        root = await at.post("alice", "root")
        await at.open("bob", root)
        assert await at.owed("carol") == {(root.number, ACK)}

    async def test_the_author_is_not_obliged_by_a_topic_of_its_own(self, at: Table) -> None:
        await at.configure()
        await at.follow("alice", "type:FACT")
        root = await at.post("alice", "root")
        await at.post("bob", "no", "CRITIQUE", critiques=root)
        assert {duty for _, duty in await at.owed("alice")} == {RESPOND}

    async def test_a_topic_alone_holds_nothing_and_obliges_to_nothing(self, at: Table) -> None:
        await at.configure()
        await at.follow("carol", "type:LOG")
        log = await at.post("alice", "step", "LOG")
        assert await at.owed("carol") == set()
        assert await at.held(log) == set()

    async def test_who_watches_a_topic_hears_of_new_items_and_versions(self, at: Table) -> None:
        await at.configure()
        await at.follow("carol", "key:plan:**", "type:DECISION")
        entry = await at.post("alice", "one", "PLAN", key="plan:a")
        await at.post("alice", "else", "PLAN", key="other")
        decision = await at.post("alice", "so", "DECISION")
        assert set(await at.attention("carol")) == {entry.id, decision.id}
        seen = await at.seq()
        await at.post("alice", "two", "PLAN", key="plan:a")
        assert await at.attention("carol", look=seen) == (entry.id,)

    async def test_what_is_private_is_nobody_elses_topic(self, at: Table) -> None:
        await at.configure()
        await at.follow("carol", "type:FACT", "tag:db")
        secret = await at.post("alice", "mine", tags=["db"], private=True)
        assert await at.attention("carol") == ()
        for agent, error in (("carol", UnknownReference), ("alice", Refused)):
            with pytest.raises(error):
                await at.follow(agent, f"thread:{secret.number}")

    async def test_watching_a_topic_twice_is_once_and_told_once(self, at: Table) -> None:
        await at.post("alice", "a")
        reply = await at.post("bob", "b", "REPLY", replies_to=1)
        await at.follow("carol", "tag:db")
        before = await at.seq()
        await at.follow("carol", "tag:db", "thread:1")
        await at.follow("carol", f"thread:{reply.id}")
        events = await at.events(after=before - 1)
        assert [(str(e.event), e.data) for e in events] == [
            ("watch.began", {"watcher": "carol", "topic": "tag:db"}),
            ("watch.began", {"watcher": "carol", "topic": "thread:1"}),
        ]
        assert await standing(at, "carol") == ["tag:db", "thread:F-1"]

    async def test_unwatching_a_topic_ends_it_for_debates_to_come(self, at: Table) -> None:
        one = await at.post("alice", "one")
        await at.follow("carol", "type:FACT")
        await at.open("bob", one)
        await at.unwatch("carol", "type:FACT")
        two = await at.post("alice", "two")
        await at.open("bob", two)
        assert await at.owed("carol") == {(one.number, ACK)}
        assert await standing(at, "carol") == []
        before = await at.seq()
        with pytest.raises(Conflict):
            await at.unwatch("carol", "type:FACT")
        assert await at.seq() == before

    async def test_an_agent_watches_a_bounded_number_of_topics(self, at: Table) -> None:
        await at.configure()
        await at.follow("carol", *(f"tag:t{n}" for n in range(50)))
        with pytest.raises(Refused):
            await at.follow("carol", "tag:more")
        await at.unwatch("carol", "tag:t7")
        await at.follow("carol", "tag:more")
        await at.follow("dave", "tag:more")

    async def test_a_debate_obliges_a_bounded_number_by_topic_and_says_so(self, at: Table) -> None:
        await at.configure()
        for n in range(70):
            await at.follow(f"w{n}", "type:FACT")
        root = await at.post("alice", "root")
        await at.open("bob", root)
        (opened,) = [e for e in await at.events() if e.event == "debate.opened"]
        assert opened.data["not_obliged"] == 6
        assert len((await at.debate(root)).debate.outstanding) == 65

    @pytest.mark.parametrize(
        "topic",
        [
            "",
            ":",
            "key:",
            "key:a b",
            "tag:",
            "tag: x",
            "tag:a,b",
            "tag:a\nb",
            "type:THOUGHT",
            "thread:x",
            "thread:",
            "colour:red",
            "tag:" + "x" * 200,
        ],
    )
    def test_what_is_no_topic_is_refused(self, topic: str) -> None:
        with pytest.raises(InvalidInput):
            parse_topic(topic)

    # Leaving

    async def test_unwatching_waives_what_one_has_to_acknowledge_in_sight(self, at: Table) -> None:
        item = await at.post("alice", "a")
        await at.watch("bob", item)
        before = await at.seq()
        await at.unwatch("bob", item)
        (event,) = await at.events(after=before)
        assert (event.event, event.item, event.data) == (
            "obligation.waived",
            item.id,
            {"watcher": "bob", "duty": "acknowledge", "reason": "unwatched"},
        )
        assert await at.held(item) == set()
        with pytest.raises(Conflict):
            await at.unwatch("bob", item)
        await at.post("carol", "no", "CRITIQUE", critiques=item)
        assert await at.owed("bob") == set(), "who left is not called back by a debate"

    async def test_a_critic_who_unwatches_does_not_let_the_author_close(self, at: Table) -> None:
        root, critique = await argue(at)
        await at.unwatch("bob", root)
        await at.post("alice", "but", "REPLY", replies_to=critique)
        await at.acknowledge("alice", root)
        assert await at.state(root) == "OPEN"
        assert await at.held(root) == {root.number}
        await at.acknowledge("bob", root)
        assert await at.state(root) == "CONSENSUS", "who left may come back"

    async def test_the_last_to_leave_closes_what_the_others_agreed_on(self, at: Table) -> None:
        root, _ = await answered(at)
        await at.watch("carol", root)
        await at.acknowledge("carol", root)
        await at.unwatch("bob", root)
        assert await at.state(root) == "CONSENSUS"

    async def test_an_author_does_not_unwatch_its_answers_away(self, at: Table) -> None:
        root, critique = await argue(at)
        for target in (root, critique):
            with pytest.raises(Conflict):
                await at.unwatch("alice", target)
        assert await at.owed("alice") == {(critique.number, RESPOND)}

    # Leases

    async def test_a_watcher_who_stays_away_is_waived_in_sight(self, at: Table, clock: HandClock) -> None:
        await at.configure(presence_seconds=0)
        root, _ = await answered(at)
        await at.watch("carol", root)
        clock.advance(DAY - 1)
        assert await at.store.sweep_debates() == []
        await at.acknowledge("carol", root)
        clock.advance(1)
        before = await at.seq()
        assert await at.store.sweep_debates() == [at.board]
        events = await at.events(after=before)
        assert [(str(e.event), e.agent) for e in events] == [
            ("obligation.waived", "system"),
            ("debate.closed", "system"),
        ]
        assert events[0].data == {"watcher": "bob", "duty": "acknowledge", "reason": "lease ended"}
        assert await at.state(root) == "CONSENSUS", "carol agreed, and nobody else is there"
        assert await at.store.sweep_debates() == []

    async def test_a_critic_who_stays_away_does_not_let_the_author_close(
        self, at: Table, clock: HandClock
    ) -> None:
        root, critique = await answered(at)
        clock.advance(DAY)
        await at.store.sweep_debates()
        assert await waived(at, root) == {("bob", "lease ended")}
        await at.acknowledge("alice", root)
        assert await at.state(root) == "OPEN"
        assert await at.held(root, critique) == {root.number, critique.number}

    async def test_answers_are_owed_however_long_the_author_is_away(
        self, at: Table, clock: HandClock
    ) -> None:
        _, critique = await argue(at)
        clock.advance(100 * DAY)
        await at.store.sweep_debates()
        assert await at.owed("alice") == {(critique.number, RESPOND)}

    async def test_whoever_is_seen_stays_a_watcher(self, at: Table, clock: HandClock) -> None:
        await at.configure(presence_seconds=0)
        root, _ = await answered(at)
        await at.open("alice", root, "carol")
        await at.follow("dave", "tag:db")
        clock.advance(DAY - 10)
        for agent in ("bob", "carol"):
            await at.here(agent, clock.now())
        await at.vote("dave", root)
        clock.advance(20)
        await at.store.sweep_debates()
        assert await waived(at, root) == {("alice", "lease ended")}
        assert await standing(at, "dave") == ["tag:db"]

    async def test_who_is_asked_while_away_has_the_whole_lease(self, at: Table, clock: HandClock) -> None:
        await at.post("bob", "I was here")
        clock.advance(10 * DAY)
        root = await at.post("alice", "root")
        await at.open("alice", root, "bob")
        assert await at.store.sweep_debates() == []
        clock.advance(DAY)
        assert await at.store.sweep_debates() == [at.board]

    async def test_standing_watches_end_with_the_lease(self, at: Table, clock: HandClock) -> None:
        await at.post("alice", "a")
        await at.follow("carol", "type:FACT")
        clock.advance(DAY)
        before = await at.seq()
        await at.store.sweep_debates()
        (event,) = await at.events(after=before)
        assert (event.event, event.agent, event.data) == (
            "watch.ended",
            "system",
            {"watcher": "carol", "topic": "type:FACT", "reason": "lease ended"},
        )
        assert await standing(at, "carol") == []

    async def test_what_was_watched_may_leave_when_the_lease_ended(self, at: Table, clock: HandClock) -> None:
        item = await at.post("alice", "a")
        await at.watch("bob", item)
        clock.advance(DAY)
        await at.store.sweep_debates()
        await at.prune()
        assert await at.zone(item) is Zone.ARCHIVE

    async def test_a_lease_of_nought_never_ends(self, at: Table, clock: HandClock) -> None:
        await at.configure(watch_lease_seconds=0)
        await argue(at)
        await at.follow("carol", "type:FACT")
        clock.advance(1_000 * DAY)
        assert await at.store.sweep_debates() == []

    async def test_leases_are_as_long_as_the_board_says(self, at: Table, clock: HandClock) -> None:
        await at.configure(watch_lease_seconds=60)
        root, _ = await answered(at)
        clock.advance(60)
        await at.store.sweep_debates()
        assert await waived(at, root) == {("bob", "lease ended")}

    # Expiry

    async def test_no_debate_expires_unless_the_board_says_so(self, at: Table, clock: HandClock) -> None:
        assert CONFIG.debate_expiry_seconds == 0
        root, _ = await argue(at)
        clock.advance(10_000 * DAY)
        await at.store.sweep_debates()
        assert await at.state(root) == "OPEN"
        assert await at.held(root) == {root.number}

    async def test_a_debate_that_stands_still_expires_in_sight(self, at: Table, clock: HandClock) -> None:
        await at.configure(debate_expiry_seconds=100)
        root, critique = await argue(at)
        clock.advance(99)
        assert await at.store.sweep_debates() == []
        clock.advance(1)
        before = await at.seq()
        assert await at.store.sweep_debates() == [at.board]
        view = await at.debate(root)
        assert (view.debate.state, view.debate.closed_by, view.debate.outcome) == (
            "EXPIRED",
            "system",
            "open",
        )
        assert view.root.status == "ACTIVE"
        assert await waived(at, root) == {("alice", "debate EXPIRED"), ("bob", "debate EXPIRED")}
        events = [str(e.event) for e in await at.events(after=before)]
        assert events == ["debate.closed", "obligation.waived", "obligation.waived"]
        await at.prune()
        assert await at.zone(critique) is Zone.ARCHIVE

    @pytest.mark.parametrize("how", ["join", "acknowledge", "vote", "watch", "answer", "version", "unwatch"])
    async def test_whatever_moves_in_a_debate_puts_its_expiry_off(
        self, at: Table, clock: HandClock, how: str
    ) -> None:
        await at.configure(debate_expiry_seconds=100)
        root = await at.post("alice", "root", key="k")
        critique = await at.post("bob", "no", "CRITIQUE", critiques=root)
        await at.open("carol", root)
        if how == "acknowledge":
            await at.answer("alice", critique)
        clock.advance(60)
        match how:
            case "join":
                await at.post("dave", "nor I", "CRITIQUE", critiques=root)
            case "acknowledge":
                await at.acknowledge("carol", root)
            case "vote":
                await at.vote("dave", root)
            case "watch":
                await at.watch("dave", root)
            case "answer":
                await at.post("alice", "but", "REPLY", replies_to=critique)
            case "version":
                await at.post("alice", "anew", key="k")
            case "unwatch":
                await at.unwatch("carol", root)
        clock.advance(60)
        assert await at.store.sweep_debates() == []
        clock.advance(40)
        assert await at.store.sweep_debates() == [at.board]
        assert await at.state(root) == "EXPIRED"

    async def test_a_closed_board_is_left_as_it_is(self, at: Table, clock: HandClock) -> None:
        await at.configure(debate_expiry_seconds=100)
        await argue(at)
        await at.store.change_board(at.board, "alice", BoardChange(lifecycle=Lifecycle.CLOSED))
        before = await at.seq()
        clock.advance(10 * DAY)
        assert await at.store.sweep_debates() == []
        assert await at.seq() == before
