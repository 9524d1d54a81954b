"""Tests of requests from agent to agent: who gets one, under which lease, how it ends, and what it protects."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from blackboard_mcp.protocols.asking import (
    KEYS,
    MAX_OPEN_OF_AGENT,
    MAX_PARTS,
    AgentRequest,
    NewAnswer,
    NewRequest,
)
from blackboard_mcp.protocols.board import BoardChange, Lifecycle
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, Refused, UnknownReference
from blackboard_mcp.protocols.items import Draft, Status, Zone, content_hash

from ..harness import CONFIG, HandClock, Table, draft


def calls(*made: Callable[[], Awaitable[object]]) -> tuple[Callable[[], Awaitable[object]], ...]:
    """Returns its arguments as a tuple of calls, whose type the type checker then knows."""
    return made


class Asking:
    """The requests of a board, with short forms of the calls that tests make often."""

    def __init__(self, at: Table) -> None:
        self.at = at
        self.store = at.store
        self.board = at.board

    async def ask(
        self,
        agent: str = "alice",
        text: str = "why?",
        *,
        to: str = "",
        skill: str = "",
        seconds: float = 3600,
    ) -> int:
        """Opens a request, and returns its number."""
        new = NewRequest(text, 2, content_hash(text), to, skill, seconds)
        return await self.store.open_request(self.board, agent, new, config=CONFIG)

    async def offer(self, agent: str, *skills: str) -> bool:
        """Makes the agent offer skills; tells whether that changed anything."""
        return await self.store.offer_skills(self.board, agent, skills)

    async def standing(self, number: int) -> AgentRequest:
        """Returns the present state of a request."""
        return await self.store.request(self.board, "zoe", number)

    async def state(self, number: int) -> str:
        """Returns the name of a request's state."""
        return str((await self.standing(number)).state)

    async def take(self, agent: str, number: int) -> int:
        """Takes a request, and returns its lease."""
        return await self.store.take_request(self.board, agent, number)

    async def take_next(self, agent: str) -> int | None:
        """Takes the next request for the agent, and returns its number."""
        taken = await self.store.take_next(self.board, agent)
        return None if taken is None else taken[0]

    async def answer(
        self,
        agent: str,
        number: int,
        text: str = "so",
        *,
        partial: bool = False,
        seen: int = 0,
        lease: int | None = None,
    ) -> int:
        """Answers a request, or adds a part, and returns its number."""
        new = NewAnswer(text, 2, content_hash(text), partial, seen, lease)
        return await self.store.answer_request(self.board, agent, number, new)

    async def decline(self, agent: str, number: int, reason: str = "no", lease: int | None = None) -> int:
        """Declines a request, and returns its number."""
        return await self.store.decline_request(self.board, agent, number, reason, lease=lease)

    async def cancel(self, agent: str, number: int) -> int:
        """Cancels a request, and returns its number."""
        return await self.store.cancel_request(self.board, agent, number, "enough")

    async def waiting(self, agent: str) -> list[int]:
        """Returns the numbers of the requests that wait for the agent's answer."""
        return [r.number for r in (await self.store.requests_waiting(self.board, agent))[0]]

    async def told(self) -> list[tuple[str, str]]:
        """Returns the events of requests and skills, as pairs of type and agent."""
        listed = await self.at.events()
        return [(e.event, e.agent) for e in listed if e.event.startswith(("request.", "skill."))]

    async def unchanged(self, call: Awaitable[object], error: type[Exception], match: str) -> Exception:
        """Asserts that the call fails with this error and message and changes nothing; returns the error."""
        before = await self.at.standing()
        with pytest.raises(error, match=match) as caught:
            await call
        assert await self.at.standing() == before
        assert "Nothing was changed" in str(caught.value)
        return caught.value


class RequestTests:
    @pytest.fixture
    async def asking(self, at: Table) -> Asking:
        await at.store.ensure_board(at.board, "alice", CONFIG)
        return Asking(at)

    async def test_what_was_taken_and_not_delivered_is_given_back_with_its_parts(
        self, asking: Asking
    ) -> None:
        number = await asking.ask(to="bob")
        store, board = asking.store, asking.board
        lease = await asking.take("bob", number)
        await asking.answer("bob", number, "first", partial=True, lease=lease)
        for agent, wrong in (("bob", lease + 1), ("carol", lease)):
            assert not await store.release_request(board, agent, number, wrong)
        assert await store.release_request(board, "bob", number, lease)
        assert not await store.release_request(board, "bob", number, lease)
        stands = await asking.standing(number)
        assert (stands.state, stands.holder, stands.parts, stands.declined) == ("OPEN", None, 1, ())
        assert (await asking.told())[-1] == ("request.released", "bob")
        again = await asking.take("bob", number)
        assert again > lease
        await asking.answer("bob", number, "second", seen=1, lease=again)
        assert not await store.release_request(board, "bob", number, again)
        assert not await store.release_request(board, "bob", 99, 1)

    async def test_a_request_waits_for_an_agent_however_many_items_it_watches(self, asking: Asking) -> None:
        at = asking.at
        for item in (await at.batch("alice", *(draft(f"finding {n}") for n in range(50)))).items:
            await at.watch("bob", item)
        number = await asking.ask(to="bob")
        assert await at.attention("bob", look=await at.seq()) == (f"Q-{number}",)

    async def test_a_request_to_an_agent_waits_for_it_until_it_answers(self, asking: Asking) -> None:
        number = await asking.ask(to="bob")
        stands = await asking.standing(number)
        assert (stands.state, stands.asker, stands.to, stands.holder) == ("OPEN", "alice", "bob", None)
        assert (stands.deadline - stands.opened_at).total_seconds() == 3600
        question = await asking.at.item(number)
        assert (question.type, question.author, question.key) == (
            "QUESTION",
            "alice",
            KEYS.request_key(str(number)),
        )
        assert await asking.waiting("bob") == [number]
        assert await asking.at.attention("bob", look=99) == (question.id,)
        assert (number, "answer") in await asking.at.owed("bob")
        assert await asking.waiting("carol") == await asking.waiting("alice") == []
        await asking.answer("bob", number, "because")
        stands = await asking.standing(number)
        assert (stands.state, stands.ended_by) == ("ANSWERED", "bob")
        assert stands.answer is not None
        answer = await asking.at.item(int(stands.answer[2:]))
        assert (answer.text, answer.author, answer.type) == ("because", "bob", "ANSWER")
        assert answer.key == KEYS.result_key(str(number))
        assert answer.cites == (("replies_to", question.id),)
        assert (await asking.at.status(number)) is Status.RESOLVED
        assert await asking.waiting("bob") == []
        assert await asking.at.attention("bob", look=99) == ()
        assert answer.id in await asking.at.attention("alice")
        assert await asking.told() == [
            ("request.opened", "alice"),
            ("request.taken", "bob"),
            ("request.answered", "bob"),
        ]

    async def test_I4_an_open_request_and_its_parts_stay_until_it_ends(self, asking: Asking) -> None:
        number = await asking.ask(to="bob")
        await asking.answer("bob", number, "part one", partial=True)
        part = number + 1
        assert await asking.at.held(number, part) == {number, part}
        assert (await asking.at.prune()).moved == ()
        await asking.at.watch("bob", number)
        await asking.at.acknowledge("bob", number)
        assert await asking.at.held(number, part) == {number, part}, "an acknowledgement ended it"
        await asking.cancel("alice", number)
        assert await asking.at.held(number, part) == set()
        assert {id_ for id_, _, _ in (await asking.at.prune()).moved} == {f"Q-{number}", f"E-{part}"}

    async def test_parts_are_versions_of_one_entry_that_the_answer_replaces(self, asking: Asking) -> None:
        number = await asking.ask(to="bob")
        for n in range(3):
            text = "\n".join(f"part {k}" for k in range(n + 1))
            await asking.answer("bob", number, text, partial=True, seen=n)
        stands = await asking.standing(number)
        assert (stands.state, stands.parts, stands.partial) == ("TAKEN", 3, f"E-{number + 1}")
        assert (await asking.at.standing()).working_items == 2
        part = await asking.at.item(number + 1)
        assert (part.version, part.text) == (3, "part 0\npart 1\npart 2")
        assert (await asking.at.item(number + 1, version=2)).text == "part 0\npart 1"
        caught = await asking.unchanged(
            asking.answer("bob", number, "x", partial=True, seen=2), Conflict, "has 3 parts, not 2"
        )
        assert isinstance(caught, Conflict)
        assert caught.facts["parts"] == 3
        await asking.answer("bob", number, "all of it", seen=3)
        assert await asking.at.zone(number + 1) is Zone.ARCHIVE
        assert (await asking.standing(number)).answer == f"A-{number + 2}"

    async def test_one_of_many_with_the_skill_holds_it_under_a_token(
        self, asking: Asking, clock: HandClock
    ) -> None:
        for agent in ("bob", "carol", "dave"):
            await asking.offer(agent, "sql")
        number = await asking.ask(skill="sql")
        for agent in ("bob", "carol", "dave"):
            assert await asking.at.attention(agent, look=99) == (f"Q-{number}",)
        first = await asking.take("bob", number)
        await asking.unchanged(asking.take("carol", number), Conflict, "bob has")
        await asking.unchanged(asking.answer("carol", number), Conflict, "bob has")
        assert await asking.at.attention("carol", look=99) == ()
        await asking.unchanged(asking.answer("bob", number), Conflict, "takes the lease")
        await asking.unchanged(asking.answer("bob", number, lease=first + 1), Conflict, "lease")
        clock.advance(301)
        second = await asking.take("carol", number)
        assert second > first
        await asking.unchanged(asking.answer("bob", number, lease=first), Conflict, "carol has")
        await asking.answer("carol", number, lease=second)
        assert (await asking.standing(number)).ended_by == "carol"
        events = await asking.told()
        assert events.count(("request.taken", "bob")) == events.count(("request.taken", "carol")) == 1

    async def test_a_part_renews_the_lease_and_silence_ends_it(
        self, asking: Asking, clock: HandClock
    ) -> None:
        await asking.offer("bob", "sql")
        await asking.offer("carol", "sql")
        number = await asking.ask(skill="sql")
        lease = await asking.take("bob", number)
        clock.advance(200)
        await asking.answer("bob", number, "half", partial=True, lease=lease)
        clock.advance(200)
        assert await asking.store.sweep_requests() == []
        assert await asking.state(number) == "TAKEN"
        clock.advance(101)
        assert await asking.store.sweep_requests() == [asking.board]
        assert await asking.state(number) == "OPEN"
        assert ("request.released", "system") in await asking.told()
        assert await asking.waiting("carol") == [number]
        # An agent that was only too slow continues its answer, until another takes the request.
        assert (await asking.standing(number)).parts == 1
        await asking.take("carol", number)
        stands = await asking.standing(number)
        assert (stands.holder, stands.parts, stands.partial) == ("carol", 0, None)
        assert await asking.at.status(number + 1) is Status.RESOLVED

    async def test_who_was_too_slow_answers_with_its_parts_when_nobody_else_took_it(
        self, asking: Asking, clock: HandClock
    ) -> None:
        await asking.offer("bob", "sql")
        number = await asking.ask(skill="sql")
        lease = await asking.take("bob", number)
        await asking.answer("bob", number, "half", partial=True, lease=lease)
        clock.advance(301)
        await asking.store.sweep_requests()
        await asking.answer("bob", number, "half\nand the rest", seen=1, lease=lease)
        assert await asking.state(number) == "ANSWERED"

    async def test_declining_ends_it_by_name_and_hands_it_on_by_skill(self, asking: Asking) -> None:
        named = await asking.ask(to="bob")
        await asking.decline("bob", named, "too busy")
        stands = await asking.standing(named)
        assert (stands.state, stands.reason, stands.ended_by) == ("DECLINED", "too busy", "bob")
        assert stands.id in await asking.at.attention("alice")
        for agent in ("bob", "carol"):
            await asking.offer(agent, "sql")
        number = await asking.ask(skill="sql")
        assert (await asking.standing(number)).offering == 2
        lease = await asking.take("bob", number)
        await asking.unchanged(asking.decline("carol", number), Conflict, "bob has")
        await asking.decline("bob", number, "not my dialect", lease)
        stands = await asking.standing(number)
        assert (stands.state, stands.declined, stands.offering) == ("OPEN", ("bob",), 1)
        assert await asking.waiting("bob") == []
        assert await asking.take_next("bob") is None
        assert await asking.take_next("carol") == number

    async def test_a_cancelled_request_takes_no_late_answer(self, asking: Asking) -> None:
        number = await asking.ask(to="bob")
        await asking.answer("bob", number, "half", partial=True)
        await asking.unchanged(asking.cancel("bob", number), Refused, "alice asked")
        await asking.cancel("alice", number)
        stands = await asking.standing(number)
        assert (stands.state, stands.reason) == ("CANCELLED", "enough")
        assert stands.id in await asking.at.attention("bob")
        assert await asking.at.status(number) is Status.WITHDRAWN
        for late in calls(
            lambda: asking.answer("bob", number, "all", seen=1),
            lambda: asking.answer("bob", number, "more", partial=True, seen=1),
            lambda: asking.decline("bob", number),
            lambda: asking.take("bob", number),
            lambda: asking.cancel("alice", number),
        ):
            await asking.unchanged(late(), Conflict, "was cancelled by alice")

    async def test_a_request_expires_visibly_at_its_deadline(self, asking: Asking, clock: HandClock) -> None:
        number = await asking.ask(to="bob", seconds=30)
        other = await asking.ask(to="bob", seconds=60)
        await asking.answer("bob", number, "half", partial=True)
        clock.advance(29)
        assert await asking.store.sweep_requests() == []
        clock.advance(1)
        assert await asking.store.sweep_requests() == [asking.board]
        assert [await asking.state(n) for n in (number, other)] == ["EXPIRED", "OPEN"]
        await asking.unchanged(asking.answer("bob", number, "late", seen=1), Conflict, "was expired")
        for agent in ("alice", "bob"):
            events = [e for e in await asking.at.events(agent) if e.event == "request.expired"]
            assert [e.concerns for e in events] == [("alice", "bob")]
        assert f"Q-{number}" in await asking.at.attention("alice")
        assert await asking.store.sweep_requests() == []

    async def test_only_whom_it_is_for_answers(self, asking: Asking) -> None:
        named, skilled = await asking.ask(to="bob"), await asking.ask(skill="sql")
        await asking.unchanged(asking.answer("carol", named), Refused, "is to bob")
        await asking.unchanged(asking.take("alice", named), Refused, "asked Q-1 yourself")
        await asking.unchanged(asking.answer("carol", skilled), Refused, 'respond\\(skills=\\["sql"\\]\\)')
        await asking.unchanged(asking.decline("carol", skilled), Refused, "do not offer")
        await asking.offer("alice", "sql")
        await asking.unchanged(asking.take("alice", skilled), Refused, "yourself")
        assert await asking.take_next("alice") is None
        await asking.unchanged(asking.ask(to="alice"), InvalidInput, "ask yourself")
        for call in calls(
            lambda: asking.standing(99),
            lambda: asking.take("bob", 99),
            lambda: asking.cancel("alice", 99),
        ):
            await asking.unchanged(call(), UnknownReference, "No request Q-99")

    async def test_an_answer_posted_as_a_reply_is_the_answer(self, asking: Asking) -> None:
        number = await asking.ask(to="bob")
        await asking.at.post("carol", "I think", "ANSWER", replies_to=number)
        await asking.at.post("bob", "a moment", "REPLY", replies_to=number)
        assert await asking.state(number) == "OPEN"
        answer = await asking.at.post("bob", "it is so", "ANSWER", replies_to=number)
        stands = await asking.standing(number)
        assert (stands.state, stands.answer, stands.ended_by) == ("ANSWERED", answer.id, "bob")
        await asking.at.post("bob", "and more", "ANSWER", replies_to=number)
        assert (await asking.standing(number)).answer == answer.id

    async def test_requests_are_written_by_asking_alone(self, asking: Asking) -> None:
        number = await asking.ask(to="bob")
        await asking.answer("bob", number, "half", partial=True)
        at = asking.at
        for call in calls(
            lambda: at.post("eve", "fake", key=KEYS.request_key("77")),
            lambda: at.post("eve", "fake", key=KEYS.result_key(str(number))),
            lambda: at.post("eve", "fake", key=KEYS.result_key(str(number)), private=True),
            lambda: at.post("eve", "more", key=KEYS.part_key(str(number), 3)),
            lambda: at.change("eve", number, text="another question"),
            lambda: at.change("eve", number + 1, text="another part"),
        ):
            await asking.unchanged(call(), Refused, "written by request and respond alone")
        for call in calls(
            lambda: at.change("alice", number, status="RESOLVED"),
            lambda: at.change("eve", number, status="INVALIDATED"),
            lambda: at.change("bob", number + 1, status="WITHDRAWN"),
            lambda: at.change("alice", number, ttl=1),
        ):
            await asking.unchanged(call(), Refused, "belongs to an open request")
        await at.change("alice", number, tags=["db"])
        await asking.answer("bob", number, "all", seen=1)
        answer = int(str((await asking.standing(number)).answer)[2:])
        for gone in (number, answer):
            deletion = at.batch("bob", Draft(text=None, target=gone, delete=True))
            await asking.unchanged(deletion, Refused, "request and respond alone")
        await asking.unchanged(at.change("eve", answer, text="a lie"), Refused, "request and respond alone")

    async def test_skills_are_offered_until_they_are_not_or_the_agent_is_gone(
        self, asking: Asking, clock: HandClock
    ) -> None:
        await asking.at.post("alice", "hello")
        assert await asking.offer("bob", "sql", "review")
        assert not await asking.offer("bob", "review", "sql")
        assert await asking.offer("bob", "sql")
        await asking.offer("carol", "sql")
        assert await asking.store.skills(asking.board) == {"sql": ("bob", "carol")}
        clock.advance(3_000)
        await asking.at.here("carol", clock.now())
        clock.advance(601)
        assert await asking.store.skills(asking.board) == {"sql": ("carol",)}
        assert await asking.store.sweep_requests() == [asking.board]
        assert await asking.store.sweep_requests() == []
        events = [e for e in await asking.at.events() if e.event == "skill.ended"]
        assert [e.data for e in events] == [
            {"agent": "bob", "skills": ["review"]},
            {"agent": "bob", "skills": ["sql"], "reason": "lease ended"},
        ]
        await asking.at.configure(skill_lease_seconds=0)
        clock.advance(10_000_000)
        assert await asking.store.sweep_requests() == []
        assert await asking.store.skills(asking.board) == {"sql": ("carol",)}

    async def test_open_requests_and_parts_have_a_limit(self, asking: Asking) -> None:
        numbers = [await asking.ask(to="bob", text=f"question {n}") for n in range(MAX_OPEN_OF_AGENT)]
        await asking.unchanged(asking.ask(to="bob"), Refused, "the limit")
        await asking.ask("carol", to="bob")
        await asking.cancel("alice", numbers[0])
        await asking.ask(to="bob")
        text = ""
        for n in range(MAX_PARTS):
            text += f"{n}\n"
            await asking.answer("bob", numbers[1], text, partial=True, seen=n)
        await asking.unchanged(
            asking.answer("bob", numbers[1], text, partial=True, seen=MAX_PARTS), Refused, "the limit"
        )
        await asking.answer("bob", numbers[1], text, seen=MAX_PARTS)

    async def test_a_board_that_takes_no_posts_takes_no_requests(self, asking: Asking) -> None:
        number = await asking.ask(to="bob")
        change = BoardChange(lifecycle=Lifecycle.SETTLED)
        await asking.store.change_board(asking.board, "alice", change)
        for call in calls(
            lambda: asking.ask(to="bob"),
            lambda: asking.answer("bob", number),
            lambda: asking.take("bob", number),
            lambda: asking.offer("bob", "sql"),
            lambda: asking.cancel("alice", number),
        ):
            await asking.unchanged(call(), Refused, "takes no posts")
        assert await asking.take_next("bob") is None

    async def test_of_many_who_take_at_once_each_request_goes_to_one(self, asking: Asking) -> None:
        workers = [f"worker{n}" for n in range(5)]
        for worker in workers:
            await asking.offer(worker, "sql")
        numbers = [await asking.ask(f"asker{n % 4}", f"question {n}", skill="sql") for n in range(12)]

        async def work(worker: str) -> list[int]:
            done = []
            while (taken := await asking.store.take_next(asking.board, worker)) is not None:
                number, lease = taken
                await asking.answer(worker, number, f"by {worker}", lease=lease)
                done.append(number)
            return done

        done = await asyncio.gather(*(work(worker) for worker in workers))
        assert sorted(number for listed in done for number in listed) == numbers
        told = await asking.told()
        assert sum(event == "request.answered" for event, _ in told) == len(numbers)

    async def test_I17_requests_leave_no_gap_in_the_log(self, asking: Asking, clock: HandClock) -> None:
        await asking.offer("bob", "sql")
        first, second = await asking.ask(skill="sql"), await asking.ask(to="bob", seconds=5)
        await asking.take("bob", first)
        await asking.decline("bob", first, "no", (await asking.standing(first)).lease)
        clock.advance(10)
        await asking.store.sweep_requests()
        assert await asking.state(second) == "EXPIRED"
        events = await asking.at.events()
        assert [e.seq for e in events] == list(range(1, len(events) + 1))

    async def test_a_request_is_one_on_two_handles(self, handles: tuple[Table, Table]) -> None:
        here, there = (Asking(table) for table in handles)
        number = await here.ask(to="bob")
        assert await there.waiting("bob") == [number]
        await there.answer("bob", number)
        await here.unchanged(here.answer("bob", number), Conflict, "was answered")
