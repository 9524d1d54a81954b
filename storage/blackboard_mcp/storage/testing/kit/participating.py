"""Tests of taking part: joining, what participants say about themselves, their presence, and leaving."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from blackboard_mcp.protocols.agenda import TaskState
from blackboard_mcp.protocols.agreements import Ask
from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.board import BoardChange, Lifecycle
from blackboard_mcp.protocols.errors import InvalidInput, QuotaExceeded, Refused
from blackboard_mcp.protocols.events import EventType
from blackboard_mcp.protocols.participants import MAX_INTERESTS, MAX_PARTICIPANTS, MAX_ROLE, Joined
from blackboard_mcp.protocols.topics import Topic, TopicKind

from ..harness import CONFIG, HandClock, Table
from .agreeing import asked
from .asking import Asking
from .planning import plan, take, task

PRESENCE = 900


class Taking:
    """Who takes part on a board, with short forms of the calls that tests make often."""

    def __init__(self, at: Table) -> None:
        self.at = at

    async def join(self, agent: str, **said: Any) -> Joined:
        """Makes the agent take part, or changes what it said."""
        return await self.at.store.join(self.at.board, agent, **said)

    async def leave(self, agent: str, note: str = "", **more: Any) -> Joined:
        """Ends the agent's part."""
        return await self.at.store.leave(self.at.board, agent, note, **more)

    async def names(self) -> list[str]:
        """Returns who takes part, in order."""
        return [one.agent for one in await self.at.store.participants(self.at.board)]

    async def told(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Returns the events of participants: type, agent and data."""
        listed = await self.at.events()
        return [(e.event, e.agent, e.data) for e in listed if e.event.startswith("agent.")]


class ParticipantTests:
    @pytest.fixture
    async def taking(self, at: Table) -> Taking:
        await at.store.ensure_board(at.board, "alice", CONFIG)
        return Taking(at)

    async def test_who_joins_takes_part_with_what_it_says_about_itself(
        self, taking: Taking, clock: HandClock
    ) -> None:
        filters = ({"type": "CRITIQUE"}, {"mentions": True})
        first = await taking.join("bob", role="tester", skills=("sql", "lint"), interests=filters)
        bob = first.participant
        assert (bob.agent, bob.role, bob.skills, bob.interests) == ("bob", "tester", ("lint", "sql"), filters)
        assert (bob.joined_at, bob.last_seen, bob.present, bob.left_at) == (clock.now(),) * 2 + (True, None)
        assert (first.others, first.waived, first.released) == ((), (), ())
        second = await taking.join("alice")
        assert (second.participant.role, second.participant.skills) == ("", ())
        assert second.others == (bob,)
        assert await taking.names() == ["alice", "bob"]
        assert await taking.told() == [
            ("agent.joined", "bob", {"role": "tester", "skills": ["lint", "sql"], "protocols": []}),
            ("agent.joined", "alice", {"role": "", "skills": [], "protocols": []}),
        ]
        assert second.seq == await taking.at.seq()

    async def test_joining_again_changes_what_is_given_and_nothing_else(self, taking: Taking) -> None:
        await taking.join("bob", role="tester", skills=("sql",), interests=({"type": "PLAN"},))
        seq = await taking.at.seq()
        same = await taking.join("bob", role="tester")
        assert (same.participant.skills, await taking.at.seq()) == (("sql",), seq)
        changed = (await taking.join("bob", skills=("lint",))).participant
        assert (changed.role, changed.skills, changed.interests) == ("tester", ("lint",), ({"type": "PLAN"},))
        assert (await taking.told())[1:] == [
            (
                "agent.changed",
                "bob",
                {
                    "role": "tester",
                    "skills": ["lint"],
                    "protocols": [],
                    "was": {"skills": ["sql"]},
                    "now": {"skills": ["lint"]},
                },
            ),
        ]
        other = (await taking.join("bob", interests=())).participant
        assert (other.role, other.interests) == ("tester", ())
        assert [told[0] for told in await taking.told()] == ["agent.joined", *["agent.changed"] * 2]

    async def test_participants_say_which_protocols_they_speak(self, taking: Taking) -> None:
        spoken = (await taking.join("bob", protocols=("grounding", "acme-game", "grounding"))).participant
        assert spoken.protocols == ("acme-game", "grounding")
        assert (await taking.join("bob", role="tester")).participant.protocols == spoken.protocols
        assert (await taking.join("bob", protocols=())).participant.protocols == ()
        assert [told[2]["protocols"] for told in await taking.told()] == [list(spoken.protocols)] * 2 + [[]]
        for wrong in (("No",), ("",), ("a" * 33,), tuple(f"p{n}" for n in range(33))):
            with pytest.raises(InvalidInput, match="Protocols are at most 32"):
                await taking.join("bob", protocols=wrong)

    async def test_skills_of_participants_are_those_that_requests_go_by(self, taking: Taking) -> None:
        await taking.join("bob", skills=("sql",))
        assert await taking.at.store.skills(taking.at.board) == {"sql": ("bob",)}
        asking = Asking(taking.at)
        number = await asking.ask(skill="sql")
        assert await asking.take_next("bob") == number
        await asking.offer("bob", "proof")
        assert (await taking.join("bob")).participant.skills == ("proof",)

    async def test_participants_are_present_for_a_while_after_a_call(
        self, taking: Taking, clock: HandClock
    ) -> None:
        for agent in ("carol", "bob", "dora"):
            await taking.join(agent)
        clock.advance(PRESENCE)
        await taking.at.here("dora", clock.now())
        await taking.join("carol")
        listed = await taking.at.store.participants(taking.at.board)
        assert [(one.agent, one.present) for one in listed] == [
            ("carol", True),
            ("dora", True),
            ("bob", False),
        ]
        await taking.at.configure(presence_seconds=2 * PRESENCE)
        assert all(one.present for one in await taking.at.store.participants(taking.at.board))

    async def test_what_is_not_allowed_changes_nothing(self, taking: Taking) -> None:
        wrong: tuple[dict[str, Any], ...] = (
            {"role": "x" * (MAX_ROLE + 1)},
            {"role": "two\nlines"},
            {"role": "\x1b[31mred"},
            {"role": "two\u2028lines"},
            {"skills": tuple(f"s{n}" for n in range(17))},
            {"interests": ({"type": "PLAN"},) * (MAX_INTERESTS + 1)},
            {"interests": ({"nothing": 1},)},
            {"interests": ({"tags": ["x" * 5_000]},)},
        )
        for said in wrong:
            before = await taking.at.standing()
            with pytest.raises(InvalidInput):
                await taking.join("bob", **said)
            assert (await taking.at.standing(), await taking.names()) == (before, [])
        await taking.join("bob", role="👩‍💻" + "x" * (MAX_ROLE - 3))
        await taking.at.store.change_board(taking.at.board, "alice", BoardChange(lifecycle=Lifecycle.CLOSED))
        with pytest.raises(Refused, match="closed"):
            await taking.join("carol")

    async def test_so_many_take_part_at_a_time(self, taking: Taking) -> None:
        for n in range(MAX_PARTICIPANTS):
            await taking.join(f"worker{n}")
        with pytest.raises(QuotaExceeded, match="500 agents take part"):
            await taking.join("bob")
        await taking.join("worker7", role="still here")
        await taking.leave("worker7")
        await taking.join("bob")
        with pytest.raises(QuotaExceeded):
            await taking.join("worker7")

    async def test_a_name_in_a_role_obliges_nobody(self, taking: Taking) -> None:
        await taking.join("alice")
        await taking.join("bob", role="helps @alice, ask @carol")
        assert await taking.at.owed("alice") == set()
        assert (await taking.at.events())[-1].concerns == ()

    async def test_who_leaves_takes_no_part_until_it_joins_anew(
        self, taking: Taking, clock: HandClock
    ) -> None:
        with pytest.raises(Refused, match=r"You take no part on 'main'\. Nothing was changed; join\(\)"):
            await taking.leave("bob")
        await taking.join("bob", role="tester", skills=("sql",), interests=({"type": "PLAN"},))
        clock.advance(60)
        left = await taking.leave("bob", "good bye")
        assert (left.participant.left_at, left.participant.skills) == (clock.now(), ())
        assert (await taking.names(), await taking.at.store.skills(taking.at.board)) == ([], {})
        assert (await taking.told())[-1] == ("agent.left", "bob", {"note": "good bye"})
        with pytest.raises(Refused):
            await taking.leave("bob")
        clock.advance(60)
        again = (await taking.join("bob")).participant
        assert (again.role, again.interests, again.joined_at, again.left_at) == ("", (), clock.now(), None)
        assert [told[0] for told in await taking.told()] == ["agent.joined", "agent.left", "agent.joined"]

    async def test_leaving_waives_what_is_owed_and_watched_visibly(self, taking: Taking) -> None:
        at = taking.at
        await taking.join("bob")
        claim = await at.post("bob", "so it is", "HYPOTHESIS")
        critique = await at.post("carol", "no", "CRITIQUE", critiques=claim)
        question = await at.post("alice", "what do you say, @bob?", "QUESTION")
        secret = await at.post("alice", "and, @bob?", "QUESTION", team=True)
        decision = await asked(at, "alice", "We go", ask=Ask(("bob", "carol")))
        fact = await at.post("alice", "a fact")
        await at.watch("bob", fact)
        await at.store.watch_topic(at.board, "bob", Topic(TopicKind.TAG, "news"))
        owed = {number for number, _ in await at.owed("bob")}
        assert {critique.number, question.number, decision.number, fact.number} <= owed
        left = await taking.leave("bob", "my shift is over")
        waived = {critique.id, question.id, decision.id, fact.id, "tag:news"}
        assert set(left.waived) - {secret.id} == waived
        assert (await at.owed("bob"), await at.store.watches(at.board, "bob")) == (set(), [])
        events = await at.events()
        told = {e.item for e in events if e.event is EventType.OBLIGATION_WAIVED and e.agent == "bob"}
        assert told - {secret.id} == waived - {"tag:news"}
        assert EventType.WATCH_ENDED in {e.event for e in events}
        assert set(events[-1].data["waived"]) == waived - {"tag:news"}
        assert await at.state(claim) == "OPEN", "its critique still has no answer"

    async def test_leaving_names_what_it_waives_in_order(self, taking: Taking) -> None:
        at = taking.at
        await taking.join("bob")
        facts = [await at.post("alice", f"fact {n}") for n in range(12)]
        for fact in facts[::-1]:
            await at.watch("bob", fact)
        assert list((await taking.leave("bob")).waived) == [fact.id for fact in facts]

    async def test_a_debate_goes_on_without_who_left(self, taking: Taking) -> None:
        at = taking.at
        claim = await at.post("alice", "so it is", "HYPOTHESIS")
        await taking.join("carol")
        await at.watch("carol", claim)
        critique = await at.post("bob", "no", "CRITIQUE", critiques=claim)
        await at.answer("alice", critique)
        await at.acknowledge("bob", claim)
        assert await at.state(claim) == "OPEN"
        left = await taking.leave("carol")
        assert (left.waived, await at.state(claim)) == ((claim.id,), "CONSENSUS")

    async def test_leaving_declines_requests_and_frees_those_to_a_skill(self, taking: Taking) -> None:
        asking = Asking(taking.at)
        await taking.join("bob", skills=("sql",))
        await taking.join("carol", skills=("sql",))
        named, skilled = await asking.ask(to="bob"), await asking.ask(skill="sql")
        await asking.take("bob", skilled)
        left = await taking.leave("bob", "my shift is over")
        assert len(left.waived) == 2
        stands = await asking.standing(named)
        assert (stands.state, stands.ended_by, stands.reason) == ("DECLINED", "bob", "my shift is over")
        assert (await asking.standing(skilled)).declined == ("bob",)
        assert await asking.take_next("carol") == skilled

    async def test_leaving_releases_tasks_and_reservations_with_the_note(self, taking: Taking) -> None:
        at = taking.at
        await taking.join("bob")
        (number,) = await plan(at, "test it", paths=("file:src/**",))
        await take(at, "bob", number)
        await take(at, "bob", paths=["key:plan:*"])
        left = await taking.leave("bob", "my shift is over")
        assert (left.released, (await task(at, number)).state) == (("T-1",), TaskState.PENDING)
        (attempt,) = await at.store.attempts(at.board, "alice", number)
        assert (attempt.agent, attempt.how, attempt.note) == ("bob", "released", "my shift is over")
        assert (await taking.told())[-1][2] == {"note": "my shift is over", "released": ["T-1"]}
        assert (await take(at, "carol", paths=["file:src/a.py", "key:plan:a"])).reserved

    async def test_a_repeated_call_tells_what_the_first_did(self, taking: Taking, clock: HandClock) -> None:
        at = taking.at
        key, other = Once("one", "digest"), Once("two", "digest")
        first = await taking.join("bob", role="tester", once=key)
        question = await at.post("alice", "what do you say, @bob?", "QUESTION")
        left = await taking.leave("bob", "bye", once=other)
        clock.advance(60)
        await taking.join("bob", role="writer")
        await taking.join("carol")
        seq = await at.seq()
        carol = (await taking.join("carol")).participant
        assert await taking.join("bob", role="tester", once=key) == replace(first, others=(carol,))
        assert await taking.leave("bob", "bye", once=other) == replace(left, others=(carol,))
        assert left.waived == (question.id,)
        assert (await at.seq(), await taking.names()) == (seq, ["bob", "carol"])
