"""Tests of the agenda: tasks in order, one holder each under a rising lease, results, reviews and reservations."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from blackboard_mcp.protocols.access import POWERS, Action, Role
from blackboard_mcp.protocols.agenda import (
    MAX_TASKS,
    MAX_WORK,
    TASK_MOVES,
    Agenda,
    NewTask,
    Settle,
    Settled,
    Taken,
    Task,
    TaskState,
)
from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.board import BoardChange, Lifecycle
from blackboard_mcp.protocols.errors import (
    BlackboardError,
    Conflict,
    InvalidInput,
    Refused,
    UnknownReference,
)
from blackboard_mcp.protocols.grants import Grant, under
from blackboard_mcp.protocols.items import EdgeKind, Item, ItemType, Status
from blackboard_mcp.protocols.names import SYSTEM
from blackboard_mcp.protocols.tokens import CountedText

from ..harness import HandClock, Table
from .filing import write as write_file

Handles = tuple[Table, Table]


def said(text: str) -> CountedText:
    """Returns a text with a count of its words."""
    return CountedText(text, len(text.split()))


async def plan(at: Table, *titles: str, agent: str = "alice", **more: Any) -> list[int]:
    """Plans a task for each title, on a board that exists, and returns their numbers."""
    await at.configure()
    made = await at.store.plan(at.board, agent, [NewTask(title=title, **more) for title in titles])
    return [task.number for task in made.tasks]


async def task(at: Table, number: int) -> Task:
    """Returns a task."""
    return (await at.store.tasks(at.board, "alice", [number]))[0]


async def take(at: Table, agent: str, number: int | None = None, **more: Any) -> Taken:
    """Takes a task; fails if there is none."""
    taken = await at.store.take_task(at.board, agent, number=number, **more)
    assert taken is not None, f"nothing is ready for {agent}"
    return taken


async def work(at: Table, agent: str) -> tuple[list[int], list[int], list[int]]:
    """Returns the tasks that a snapshot says an agent holds, could take and could confirm."""
    found = (await at.store.snapshot(at.board, agent)).work
    assert found is not None
    held, ready, review = ([t.number for t in tasks] for tasks in (found.held, found.ready, found.review))
    return held, ready, review


async def settle(at: Table, agent: str, op: Any, number: int = 0, text: str = "", **more: Any) -> Settled:
    """Settles a task."""
    return await at.store.settle_task(at.board, agent, Settle(op, number, text=said(text), **more))


class PlanningTests:
    """Tests of planning: what a plan may hold, and the order of tasks."""

    async def test_a_graph_is_planned_in_one_call(self, at: Table) -> None:
        await at.configure()
        made = await at.store.plan(
            at.board,
            "alice",
            [
                NewTask(title="survey", priority=5),
                NewTask(title="build", after=(-1,), text="after the survey"),
                NewTask(title="ship", after=(-1, -2), worker="carol"),
            ],
        )
        assert [(t.id, t.ready, t.blocked_by, t.after) for t in made.tasks] == [
            ("T-1", True, (), ()),
            ("T-2", False, ("T-1 PENDING",), (1,)),
            ("T-3", False, ("T-1 PENDING", "T-2 PENDING"), (1, 2)),
        ]
        events = [e for e in await at.events() if e.event == "plan.added"]
        assert [e.data["task"] for e in events] == ["T-1", "T-2", "T-3"]
        assert events[2].concerns == ("carol",)
        assert made.seq == await at.seq()

    @pytest.mark.parametrize(
        ("tasks", "words"),
        [
            ([], "1 to 100"),
            ([NewTask(title="x")] * (MAX_TASKS + 1), "1 to 100"),
            ([NewTask()], "Item 1 of items has no title"),
            ([NewTask(title="fine"), NewTask(title="two\nlines")], "Item 2"),
            ([NewTask(title="x" * 201)], "1 to 200"),
            ([NewTask(title="x", text="y" * 2_001)], "2,000"),
            ([NewTask(title="x", skill="a", worker="b")], "one of skill, worker and trigger"),
            ([NewTask(title="x", priority=6)], "priority is 1 to 5"),
            ([NewTask(title="x", retries=21)], "retries"),
            ([NewTask(title="x", after=(-2,))], r"\$2"),
            ([NewTask(title="x", after=(9,))], "T-9"),
            ([NewTask(title="x", stage=4)], "G-4"),
            ([NewTask(title="x", state=TaskState.COMPLETED)], "FAULTED"),
        ],
    )
    async def test_a_wrong_plan_changes_nothing(self, at: Table, tasks: list[NewTask], words: str) -> None:
        await at.configure()
        before = await at.seq()
        with pytest.raises(BlackboardError, match=words):
            await at.store.plan(at.board, "alice", tasks)
        assert await at.seq() == before
        assert (await at.store.agenda(at.board, "alice")).total == 0

    async def test_I16_a_circle_is_refused_and_named(self, at: Table) -> None:
        one, two, three = await plan(at, "one", "two", "three")
        await at.store.plan(at.board, "alice", [NewTask(number=two, after=(one,))])
        await at.store.plan(at.board, "alice", [NewTask(number=three, after=(two,))])
        before = await at.seq()
        with pytest.raises(InvalidInput, match="T-1 after T-3 after T-2 after T-1"):
            await at.store.plan(at.board, "alice", [NewTask(number=one, after=(three,))])
        with pytest.raises(InvalidInput, match="come after each other"):
            await at.store.plan(
                at.board, "alice", [NewTask(title="a", after=(-2,)), NewTask(title="b", after=(-1,))]
            )
        with pytest.raises(InvalidInput, match="T-1 after T-1"):
            await at.store.plan(at.board, "alice", [NewTask(number=one, after=(one,))])
        assert await at.seq() == before

    async def test_changes_keep_what_was_before(self, at: Table) -> None:
        (one,) = await plan(at, "one")
        made = await at.store.plan(
            at.board, "alice", [NewTask(number=one, title="uno", priority=5)], why="es"
        )
        assert (made.tasks[0].title, made.tasks[0].priority) == ("uno", 5)
        event = (await at.events())[-1]
        assert event.data == {"task": "T-1", "changed": {"title": "one", "priority": 3}, "why": "es"}
        before = await at.seq()
        await at.store.plan(at.board, "alice", [NewTask(number=one, priority=5)])
        assert await at.seq() == before, "nothing was to change"

    async def test_only_its_planner_its_holder_and_stewards_change_a_task(self, at: Table) -> None:
        (one,) = await plan(at, "one")
        await take(at, "bob", one)
        await at.store.plan(at.board, "bob", [NewTask(number=one, text="more")])
        with under_a_grant("carol"), pytest.raises(Refused, match="planned by alice"):
            await at.store.plan(at.board, "carol", [NewTask(number=one, text="worse")])
        with under_a_grant("carol"), pytest.raises(Refused, match="planned by alice"):
            await at.store.plan(at.board, "carol", [], cancel=[one])
        assert (await task(at, one)).text == "more"

    async def test_what_others_come_after_is_cancelled_only_with_them(self, at: Table) -> None:
        one, two = await plan(at, "one", "two")
        await at.store.plan(at.board, "alice", [NewTask(number=two, after=(one,))])
        with pytest.raises(Refused, match="T-2 come after"):
            await at.store.plan(at.board, "alice", [], cancel=[one])
        made = await at.store.plan(at.board, "alice", [], cancel=[one, two], why="not needed")
        assert {t.state for t in made.tasks} == {TaskState.CANCELLED}
        with pytest.raises(Refused, match="CANCELLED already"):
            await at.store.plan(at.board, "alice", [], cancel=[two])
        with pytest.raises(Refused, match="wait for ever"):
            await at.store.plan(at.board, "alice", [NewTask(title="three", after=(two,))])

    async def test_who_holds_a_cancelled_task_is_told(self, at: Table) -> None:
        (one,) = await plan(at, "one")
        taken = await take(at, "bob")
        await at.store.plan(at.board, "alice", [], cancel=[one], why="too late")
        event = (await at.events())[-1]
        assert event.event == "plan.cancelled"
        assert "bob" in event.concerns
        with pytest.raises(Refused, match=r"CANCELLED \(too late\)"):
            await settle(at, "bob", "done", one, "here", lease=taken.lease)

    async def test_a_closed_board_plans_nothing(self, at: Table) -> None:
        (one,) = await plan(at, "one")
        await at.store.change_board(at.board, "alice", BoardChange(lifecycle=Lifecycle.CLOSED))
        with pytest.raises(Refused, match="takes no posts"):
            await at.store.plan(at.board, "alice", [NewTask(title="more")])
        with pytest.raises(Refused, match="takes no posts"):
            await take(at, "bob", one)

    async def test_a_repeated_plan_plans_once(self, at: Table) -> None:
        await at.configure()
        once = Once("k", "d")
        first = await at.store.plan(at.board, "alice", [NewTask(title="one")], once=once)
        again = await at.store.plan(at.board, "alice", [NewTask(title="one")], once=once)
        assert again == first
        assert (await at.store.agenda(at.board, "alice")).total == 1

    async def test_the_agenda_has_ready_tasks_first(self, at: Table) -> None:
        low, high, late = await plan(at, "low", "high", "late")
        await at.store.plan(
            at.board,
            "alice",
            [NewTask(number=high, priority=5), NewTask(number=late, after=(low,), priority=5)],
        )
        (held,) = await plan(at, "held", worker="bob")
        await take(at, "bob", held)
        agenda: Agenda = await at.store.agenda(at.board, "bob")
        assert [t.title for t in agenda.tasks] == ["high", "low", "late", "held"]
        assert [t.title for t in agenda.mine] == ["held"]
        assert agenda.total == 4

    async def test_who_repeats_a_dead_end_is_told(self, at: Table) -> None:
        failed, dropped, fine = await plan(at, "Ask the disk.", "Ask the tape", "Ask the cloud", retries=0)
        await take(at, "bob", failed)
        await settle(at, "bob", "fail", failed, "it is full")
        await at.store.plan(at.board, "alice", [], cancel=[dropped], why="nobody has one")
        await take(at, "bob", fine)
        await settle(at, "bob", "done", fine, "it answered")
        fact = await at.post("carol", "The sun is cold")
        await at.change("carol", fact, status="WITHDRAWN")
        private = await at.post("carol", "The moon is warm", private=True)
        await at.change("carol", private, status="WITHDRAWN")
        titles = ["ask  the disk", "Ask the tape", "Ask the cloud", "Ask nobody", "The moon is warm"]
        tasks = [*(NewTask(title=title) for title in titles), NewTask(title="x", text="the sun is cold.")]
        once = Once("again", "d")
        for _ in range(2):
            made = await at.store.plan(at.board, "alice", tasks, once=once)
            first, second, *_, last = (task.id for task in made.tasks)
            assert made.dead_ends == (
                f"{first} repeats T-{failed} FAULTED: it is full",
                f"{second} repeats T-{dropped} CANCELLED: nobody has one",
                f"{last} repeats {fact.id} WITHDRAWN",
            )
        taken = await take(at, "dora", made.tasks[0].number)
        assert taken.dead_ends == made.dead_ends[:1]
        await at.store.plan(
            at.board, "alice", [NewTask(number=failed, state=TaskState.PENDING)], why="it is empty now"
        )
        assert (await take(at, "dora", failed)).dead_ends == ()

    async def test_who_plans_what_comes_close_to_a_dead_end_is_told(self, at: Table) -> None:
        (failed,) = await plan(at, "Restore the nightly backup of the orders table", retries=0)
        await take(at, "bob", failed)
        await settle(at, "bob", "fail", failed, "the backup is empty")
        fact = await at.post("carol", "Orders were lost because the backup job ran out of disk")
        await at.change("carol", fact, status="WITHDRAWN")
        wanted = ("Restoring the orders table from nightly backups", "Find lost orders", "Look elsewhere")
        tasks = [
            NewTask(title=wanted[0]),
            NewTask(title=wanted[1], text="The backup job ran out of disk and orders were lost"),
            NewTask(title=wanted[2], text="The backup job never ran out of disk and orders were lost"),
        ]
        made = await at.store.plan(at.board, "alice", tasks)
        assert made.dead_ends == (
            f"{made.tasks[0].id} comes close to T-{failed} FAULTED: the backup is empty",
            f"{made.tasks[1].id} comes close to {fact.id} WITHDRAWN",
        )

    async def test_who_plans_what_another_has_planned_is_told(self, at: Table) -> None:
        first, over = await plan(
            at, "Restore the nightly backup of orders", "Look for lost orders in the logs"
        )
        await take(at, "bob", over)
        await settle(at, "bob", "done", over, "none")
        await take(at, "bob", first)
        titles = ("Restoring a nightly backup of the orders", "Look for lost orders in the logs", "Call them")
        made = await at.store.plan(at.board, "dora", [NewTask(title=title) for title in titles])
        again = made.tasks[0].number
        told = f"T-{again} and T-{first} of alice, RUNNING by bob: Restore the nightly backup of orders"
        assert made.alike == (told,), "what is over is no work to do, and what is one's own is known"
        await at.store.plan(at.board, "dora", [], cancel=[again], why="alice planned it")
        held = await settle(at, "bob", "release", first, "no time")
        assert held.task is not None
        taken = await take(at, "carol", first)
        assert taken.dead_ends == (), "what was planned too much shows nothing about what it repeats"

    async def test_the_results_of_tasks_to_confirm_and_over_are_told_as_they_stand(self, at: Table) -> None:
        (count,) = await plan(at, "count the stations", verify="agent")
        await take(at, "bob", count)
        done = await settle(at, "bob", "done", count, "Nine.")
        assert done.item is not None
        better = await at.post("bob", "Ten.", "RESULT", supersedes=done.item)
        work = (await at.store.snapshot(at.board, "carol")).work
        assert work is not None
        (listed,) = (await at.store.agenda(at.board, "carol")).review
        for task in (listed, *work.review, *(await at.store.tasks(at.board, "carol", [count]))):
            assert task.result == done.item.id
            assert task.outcome is not None
            assert (task.outcome.item, task.outcome.instead_of) == (better.id, done.item.id)
        await settle(at, "carol", "verify", count, "I counted.", ok=True)
        (over,) = (await at.store.agenda(at.board, "carol")).ended
        assert over.outcome is not None
        assert over.outcome.item == better.id

    async def test_a_snapshot_has_the_tasks_that_concern_its_agent(self, at: Table) -> None:
        await at.configure()
        assert (await at.store.snapshot(at.board, "bob")).work is None
        one, two, three = await plan(at, "one", "two", "three")
        (bound,) = await plan(at, "bound", worker="carol", priority=5)
        (skilled,) = await plan(at, "skilled", skill="sql", priority=4)
        await at.store.plan(at.board, "alice", [NewTask(number=three, after=(two,))])
        await take(at, "bob", two, seconds=90.0)
        assert await work(at, "bob") == ([two], [one], [])
        assert await work(at, "carol") == ([], [bound, one], [])
        await at.store.join(at.board, "carol", skills=["sql"])
        assert await work(at, "carol") == ([], [bound, skilled, one], [])
        before = await at.store.snapshot(at.board, "bob")
        assert before.work is not None
        assert before.work.held[0].lease_seconds == 90
        await plan(at, *(f"more {n}" for n in range(9)))
        assert len((await work(at, "carol"))[1]) == MAX_WORK
        await at.store.plan(at.board, "alice", [], cancel=list(range(1, 15)))
        assert (await at.store.snapshot(at.board, "bob")).work is None

    async def test_a_snapshot_has_the_failed_tasks_that_its_agent_planned(self, at: Table) -> None:
        await at.configure()
        (one,) = await plan(at, "one", retries=0)
        await take(at, "bob", one)
        await settle(at, "bob", "fail", one, text="no power")
        for agent, failed in (("alice", [one]), ("bob", [])):
            found = (await at.store.snapshot(at.board, agent)).work
            assert found is not None
            assert [task.number for task in found.failed] == failed


def under_a_grant(agent: str) -> Any:
    """Returns a context in which calls are a contributor's."""
    powers: dict[Role | None, frozenset[Action]] = {role: POWERS[role] for role in Role}
    powers[None] = POWERS[Role.CONTRIBUTOR]
    return under(Grant(agent, "main", frozenset({Action.POST}), powers))


class TakingTests:
    """Tests of taking: who gets which task, alone, under which lease."""

    async def test_the_best_ready_task_is_taken(self, at: Table) -> None:
        await plan(at, "low", "second")
        (high,) = await plan(at, "high", priority=5)
        await plan(at, "for carol", worker="carol", priority=5)
        await plan(at, "needs go", skill="go", priority=5)
        taken = await take(at, "bob")
        assert taken.task is not None
        assert (taken.task.number, taken.task.state, taken.task.holder) == (high, TaskState.RUNNING, "bob")
        assert taken.lease == taken.seq == await at.seq()
        assert [(await take(at, "bob")).task.title for _ in range(2)] == ["low", "second"]  # type: ignore[union-attr]
        assert await at.store.take_task(at.board, "bob") is None
        assert (await take(at, "bob", skills=["go"])).task.title == "needs go"  # type: ignore[union-attr]
        assert (await take(at, "carol")).task.title == "for carol"  # type: ignore[union-attr]

    async def test_skills_that_were_offered_count(self, at: Table) -> None:
        await plan(at, "needs go", skill="go")
        assert await at.store.take_task(at.board, "bob") is None
        await at.store.offer_skills(at.board, "bob", ["go"])
        assert (await take(at, "bob")).task.title == "needs go"  # type: ignore[union-attr]

    async def test_what_is_not_ready_says_why(self, at: Table) -> None:
        one, two = await plan(at, "one", "two")
        await at.store.plan(at.board, "alice", [NewTask(number=two, after=(one,))])
        with pytest.raises(Refused, match="waits for T-1 PENDING"):
            await take(at, "bob", two)
        (mine,) = await plan(at, "mine", worker="carol")
        with pytest.raises(Refused, match="T-3 is for carol"):
            await take(at, "bob", mine)
        (able,) = await plan(at, "able", skill="go")
        with pytest.raises(Refused, match="needs the skill go"):
            await take(at, "bob", able)
        with pytest.raises(UnknownReference, match="T-99"):
            await take(at, "bob", 99)

    async def test_I28_who_comes_second_is_told_who_has_it(self, at: Table) -> None:
        (one,) = await plan(at, "one")
        taken = await take(at, "bob", one)
        with pytest.raises(Conflict, match="bob holds T-1") as told:
            await take(at, "carol", one)
        assert told.value.facts["holder"] == "bob"
        assert told.value.facts["lease"] == taken.lease
        with pytest.raises(Conflict, match="You hold T-1 already"):
            await take(at, "bob", one)

    async def test_I28_a_binding_has_one_held_task(self, at: Table) -> None:
        one, two = await plan(at, "one", "two", worker="bob")
        await take(at, "bob")
        assert await at.store.take_task(at.board, "bob") is None
        with pytest.raises(Conflict, match="only one task for bob"):
            await take(at, "bob", two)
        await settle(at, "bob", "done", one)
        assert (await take(at, "bob")).task.number == two  # type: ignore[union-attr]

    async def test_I28_eight_ask_and_each_task_has_one_holder(self, at: Table) -> None:
        await plan(at, *(f"task {n}" for n in range(40)))
        names = [f"agent{n}" for n in range(8)]

        async def work(agent: str) -> list[tuple[int, int]]:
            got = []
            while (taken := await at.store.take_task(at.board, agent)) is not None:
                assert taken.task is not None
                got.append((taken.lease, taken.task.number))
                await settle(at, agent, "done", taken.task.number, lease=taken.lease)
            return got

        every = await asyncio.gather(*map(work, names))
        found = sorted(pair for got in every for pair in got)
        assert sorted(number for _, number in found) == list(range(1, 41))
        assert len({lease for lease, _ in found}) == 40
        assert (await at.store.agenda(at.board, "alice")).over == {TaskState.COMPLETED: 40}

    async def test_a_lease_ends_and_its_holder_is_told(self, at: Table, clock: HandClock) -> None:
        (one,) = await plan(at, "one")
        first = await take(at, "bob", one, seconds=60)
        clock.advance(61)
        assert (await task(at, one)).state is TaskState.PENDING
        second = await take(at, "carol")
        assert second.lease > first.lease
        assert [(a.agent, a.how) for a in second.brief] == [("bob", "lapsed")]
        lapsed = [e for e in await at.events() if e.event == "claim.lapsed"]
        assert [(e.data["task"], e.data["holder"], e.concerns) for e in lapsed] == [
            ("T-1", "bob", ("alice", "bob"))
        ]
        with pytest.raises(Conflict, match="carol holds it under lease"):
            await settle(at, "bob", "done", one, "late", lease=first.lease)
        await settle(at, "carol", "release", one, lease=second.lease)
        assert (await at.events())[-1].concerns == ("alice",)
        assert (await take(at, "carol")).task.number == one  # type: ignore[union-attr]
        assert (await task(at, one)).holder == "carol"

    async def test_any_call_of_the_holder_renews_its_lease(self, at: Table, clock: HandClock) -> None:
        (one,) = await plan(at, "one")
        await take(at, "bob", one, seconds=60)
        clock.advance(50)
        await at.store.record_activity(at.board, {"bob": clock.now()}, {})
        clock.advance(50)
        assert await at.store.take_task(at.board, "carol") is None
        assert (await task(at, one)).holder == "bob"
        assert await at.store.sweep_tasks() == []
        clock.advance(61)
        assert await at.store.sweep_tasks() == ["main"]
        assert (await take(at, "carol")).task.number == one  # type: ignore[union-attr]

    async def test_a_sweep_knows_when_the_next_lease_ends(self, at: Table, clock: HandClock) -> None:
        (one,) = await plan(at, "one")
        assert await at.store.next_lapse() is None
        await take(at, "bob", one, seconds=60)
        assert await at.store.next_lapse() == 60
        prospect = await at.store.prospect(at.board, "carol")
        assert (prospect.ready, prospect.next_due) == (0, (await task(at, one)).until)
        clock.advance(90)
        assert await at.store.next_lapse() == 0
        assert await at.store.sweep_tasks() == ["main"]
        assert await at.store.next_lapse() is None
        assert (await at.store.prospect(at.board, "carol")).ready == 1

    async def test_a_repeated_call_takes_once(self, at: Table) -> None:
        await plan(at, "one", "two")
        once = Once("k", "d")
        first = await at.store.take_task(at.board, "bob", once=once)
        again = await at.store.take_task(at.board, "bob", once=once)
        assert first is not None
        assert again is not None
        assert (again.lease, again.until, again.seq) == (first.lease, first.until, first.seq)
        assert (await at.store.agenda(at.board, "bob")).mine == (first.task,)

    async def test_results_of_what_came_before_are_handed_over(self, at: Table) -> None:
        one, two = await plan(at, "one", "two")
        await at.store.plan(at.board, "alice", [NewTask(number=two, after=(one,))])
        await take(at, "bob", one)
        done = await settle(at, "bob", "done", one, "the count is 42")
        assert done.freed == {two: ""}
        taken = await take(at, "carol", two)
        assert [(i.task, i.title, i.text) for i in taken.inputs] == [(one, "one", "the count is 42")]
        assert done.item is not None
        assert taken.inputs[0].item == done.item.id


class SettlingTests:
    """Tests of settling: done, failed, extended, released, confirmed."""

    async def test_done_posts_the_result(self, at: Table) -> None:
        (one,) = await plan(at, "one")
        fact = await at.post("bob", "the source")
        taken = await take(at, "bob")
        done = await settle(at, "bob", "done", one, "found it", lease=taken.lease, cites=(fact.number,))
        assert done.task is not None
        assert done.item is not None
        assert (done.task.state, done.task.result) == (TaskState.COMPLETED, done.item.id)
        item = await at.item(done.item.number)
        assert (item.type, item.author, item.metadata) == (ItemType.RESULT, "bob", {"task": "T-1"})
        assert item.cites == ((EdgeKind.DERIVED_FROM, fact.id),)
        with pytest.raises(Refused, match="T-1 is COMPLETED"):
            await settle(at, "bob", "done", one, "again")

    async def test_a_late_done_counts_while_nobody_has_it(self, at: Table, clock: HandClock) -> None:
        (one,) = await plan(at, "one")
        taken = await take(at, "bob", one, seconds=60)
        clock.advance(100)
        await at.store.sweep_tasks()
        with pytest.raises(Conflict, match="nobody holds it"):
            await settle(at, "carol", "done", one, "mine", lease=taken.lease)
        with pytest.raises(Conflict, match="nobody holds it"):
            await settle(at, "bob", "extend", one, lease=taken.lease)
        done = await settle(at, "bob", "done", one, "late but here", lease=taken.lease)
        assert done.late
        assert done.task is not None
        assert done.task.state is TaskState.COMPLETED

    async def test_an_old_lease_does_nothing(self, at: Table, clock: HandClock) -> None:
        (one,) = await plan(at, "one")
        first = await take(at, "bob", one, seconds=60)
        clock.advance(100)
        second = await take(at, "bob", one, seconds=60)
        before = await at.seq()
        for op in ("done", "fail", "extend", "release"):
            with pytest.raises(
                Conflict, match=f"Lease {first.lease} of T-1 has ended: yours is {second.lease}"
            ):
                await settle(at, "bob", op, one, "old", lease=first.lease)
        assert await at.seq() == before

    async def test_a_failed_task_is_tried_again_and_then_faulted(self, at: Table) -> None:
        (one,) = await plan(at, "one", retries=1)
        await take(at, "bob")
        with pytest.raises(InvalidInput, match="Say why"):
            await settle(at, "bob", "fail", one)
        failed = await settle(at, "bob", "fail", one, "no network")
        assert failed.task is not None
        assert failed.task.state is TaskState.PENDING
        taken = await take(at, "carol")
        assert [(a.agent, a.how, a.note) for a in taken.brief] == [("bob", "failed", "no network")]
        failed = await settle(at, "carol", "fail", one, "no network either")
        assert failed.task is not None
        assert failed.task.state is TaskState.FAULTED
        assert await at.store.take_task(at.board, "bob") is None
        with pytest.raises(InvalidInput, match="needs a reason"):
            await at.store.plan(at.board, "alice", [NewTask(number=one, state=TaskState.PENDING)])
        await at.store.plan(
            at.board, "alice", [NewTask(number=one, state=TaskState.PENDING)], why="it is back"
        )
        assert (await take(at, "bob")).task.number == one  # type: ignore[union-attr]

    async def test_a_waived_task_frees_what_the_same_call_changes(self, at: Table) -> None:
        one, two = await plan(at, "one", "two", retries=0)
        await at.store.plan(at.board, "alice", [NewTask(number=two, after=(one,))])
        await take(at, "bob", one)
        await settle(at, "bob", "fail", one, "no network")
        both = [NewTask(number=one, state=TaskState.COMPLETED), NewTask(number=two, priority=5)]
        made = await at.store.plan(at.board, "alice", both, why="do without")
        assert [each.ready for each in made.tasks] == [False, True]
        assert (await take(at, "carol")).task == await task(at, two)

    async def test_I31_a_waived_task_frees_what_comes_after(self, at: Table) -> None:
        one, two = await plan(at, "one", "two", retries=0)
        await at.store.plan(at.board, "alice", [NewTask(number=two, after=(one,))])
        await take(at, "bob", one)
        await settle(at, "bob", "fail", one, "impossible")
        await at.store.plan(
            at.board, "alice", [NewTask(number=one, state=TaskState.COMPLETED)], why="do without"
        )
        assert (await take(at, "bob")).task.number == two  # type: ignore[union-attr]

    async def test_a_released_task_keeps_the_note(self, at: Table) -> None:
        (one,) = await plan(at, "one")
        await take(at, "bob")
        await settle(at, "bob", "release", one, "half of it is in F-3")
        taken = await take(at, "carol")
        assert [(a.how, a.note) for a in taken.brief] == [("released", "half of it is in F-3")]
        assert [a.note for a in await at.store.attempts(at.board, "carol", one)] == ["half of it is in F-3"]

    async def test_waiting_stops_the_clock_until_what_it_waits_for_is_over(
        self, at: Table, clock: HandClock
    ) -> None:
        (one,) = await plan(at, "one")
        claim = await at.post("alice", "it is so")
        critique = await at.post("carol", "it is not", "CRITIQUE", critiques=claim)
        await take(at, "bob", one, seconds=60)
        waiting = await settle(at, "bob", "extend", one, "the debate", cites=(claim.number,))
        assert waiting.task is not None
        assert (waiting.task.state, waiting.task.waits_on) == (TaskState.WAITING, "the debate")
        clock.advance(10_000)
        assert await at.store.sweep_tasks() == []
        assert (await task(at, one)).holder == "bob"
        await at.withdraw("carol", critique, "my mistake")
        assert await at.store.sweep_tasks() == ["main"]
        assert (await task(at, one)).state is TaskState.RUNNING
        event = (await at.events())[-1]
        assert event.event == "claim.resumed"
        assert event.concerns == ("bob",)

    async def test_waiting_ends_after_a_day(self, at: Table, clock: HandClock) -> None:
        (one,) = await plan(at, "one")
        await take(at, "bob", one, seconds=60)
        await settle(at, "bob", "extend", one, "a person")
        clock.advance(86_401)
        await at.store.sweep_tasks()
        assert (await task(at, one)).state is TaskState.RUNNING
        clock.advance(301)
        assert (await task(at, one)).state is TaskState.PENDING

    async def test_another_agent_confirms(self, at: Table) -> None:
        one, two = await plan(at, "one", "two", verify="agent")
        await at.store.plan(at.board, "alice", [NewTask(number=two, after=(one,))])
        await take(at, "bob", one)
        with pytest.raises(InvalidInput, match="needs your result"):
            await settle(at, "bob", "done", one)
        done = await settle(at, "bob", "done", one, "all green")
        assert done.task is not None
        assert done.item is not None
        assert done.task.state is TaskState.REVIEW
        assert not done.freed
        assert [t.number for t in (await at.store.agenda(at.board, "carol")).review] == [one]
        assert (await at.store.agenda(at.board, "bob")).review == ()
        assert await work(at, "carol") == ([], [], [one])
        assert await work(at, "bob") == ([], [], [])
        with pytest.raises(Refused, match="You did T-1"):
            await settle(at, "bob", "verify", one, "I say so")
        with pytest.raises(InvalidInput, match="Say what you checked"):
            await settle(at, "carol", "verify", one)
        sure = await settle(at, "carol", "verify", one, "ran it twice")
        assert sure.task is not None
        assert sure.task.state is TaskState.COMPLETED
        assert list(sure.freed) == [two]
        with pytest.raises(Refused, match="T-1 is COMPLETED"):
            await settle(at, "carol", "verify", one, "again")

    async def test_an_agent_of_another_owner_confirms(self, at: Table) -> None:
        (one,) = await plan(at, "one", verify="owner")
        await at.store.set_owner("bob", "acme")
        await at.store.set_owner("bella", "acme")
        await take(at, "bob", one)
        await settle(at, "bob", "done", one, "all green")
        assert await work(at, "bella") == ([], [], [])
        assert await work(at, "carol") == ([], [], [one])
        assert (await at.store.agenda(at.board, "bella")).review == ()
        assert [t.number for t in (await at.store.agenda(at.board, "carol")).review] == [one]
        with pytest.raises(Refused, match="another owner"):
            await settle(at, "bella", "verify", one, "fine")
        await settle(at, "carol", "verify", one, "fine")
        assert (await task(at, one)).state is TaskState.COMPLETED

    async def test_a_rejection_is_a_critique_that_opens_a_debate(self, at: Table) -> None:
        (one,) = await plan(at, "one", verify="agent", retries=1)
        await take(at, "bob", one)
        done = await settle(at, "bob", "done", one, "all green")
        assert done.item is not None
        told = await settle(at, "carol", "verify", one, "two tests are red", ok=False)
        assert told.task is not None
        assert told.item is not None
        assert told.task.state is TaskState.PENDING
        assert (told.item.type, told.item.author) == (ItemType.CRITIQUE, "carol")
        assert (await at.item(done.item)).debate == "OPEN"
        taken = await take(at, "dave")
        assert [(a.agent, a.how, a.note) for a in taken.brief] == [
            ("bob", "rejected", "rejected by carol: two tests are red")
        ]

    async def test_a_confirmed_result_ends_the_debates_on_those_rejected_before(self, at: Table) -> None:
        (one,) = await plan(at, "one", verify="agent", retries=9)
        rejected = []
        for agent in ("bob", "dave"):
            await take(at, agent, one)
            rejected.append((await settle(at, agent, "done", one, f"green, says {agent}")).item)
            await settle(at, "carol", "verify", one, f"red, {agent}", ok=False)
        await take(at, "erin", one)
        better = (await settle(at, "erin", "done", one, "green by now")).item
        assert better is not None
        held = [item.number for item in rejected if item is not None]
        assert await at.held(*held) == set(held)
        assert [(await at.item(n)).debate for n in held] == ["OPEN", "OPEN"]
        before = await at.seq()
        await settle(at, "carol", "verify", one, "ran it")
        for number in held:
            debate = (await at.debate(number)).debate
            assert (debate.state, debate.outcome, debate.closed_by) == ("DECIDED", "falls", "carol")
            assert (debate.gave_way_to, debate.reason) == (better.number, f"T-1 stands in {better.id}")
            assert (await at.item(number)).status is Status.INVALIDATED
        assert await at.owed("bob") == await at.owed("dave") == await at.owed("carol") == set()
        assert await at.held(*held) == set()
        events = await at.events(after=before)
        assert [(e.event, e.item) for e in events if e.event in ("claim.verified", "debate.closed")] == [
            ("claim.verified", None),
            *(("debate.closed", item.id) for item in rejected if item is not None),
        ]

    @pytest.mark.parametrize("cites", [True, False])
    async def test_an_author_who_does_a_rejected_task_anew_amends_the_result(
        self, at: Table, cites: bool
    ) -> None:
        (one,) = await plan(at, "one", verify="agent")
        await take(at, "bob", one)
        first = (await settle(at, "bob", "done", one, "all green")).item
        assert first is not None
        await settle(at, "carol", "verify", one, "two tests are red", ok=False)
        await take(at, "bob", one)
        sources = (first.number,) if cites else ()
        second = (await settle(at, "bob", "done", one, "green now", cites=sources)).item
        assert second is not None
        await settle(at, "dave", "verify", one, "ran it")
        debate = (await at.debate(first)).debate
        assert (debate.state, debate.outcome, debate.gave_way_to) == ("DECIDED", "amended", second.number)
        assert (await at.item(second)).retracted == ()

    async def test_a_task_done_anew_without_a_review_ends_the_debate_too(self, at: Table) -> None:
        (one,) = await plan(at, "one", verify="agent")
        await take(at, "bob", one)
        first = (await settle(at, "bob", "done", one, "all green")).item
        assert first is not None
        await settle(at, "carol", "verify", one, "two tests are red", ok=False)
        await at.store.plan(at.board, "alice", [NewTask(number=one, verify="")])
        await take(at, "dave", one)
        await settle(at, "dave", "done", one, "green")
        assert (await at.debate(first)).debate.outcome == "falls"

    async def test_a_debate_on_a_rejected_result_goes_on_while_none_took_its_place(self, at: Table) -> None:
        (one,) = await plan(at, "one", verify="agent", retries=0)
        await take(at, "bob", one)
        first = (await settle(at, "bob", "done", one, "all green")).item
        assert first is not None
        await settle(at, "carol", "verify", one, "two tests are red", ok=False)
        await at.store.plan(
            at.board, "alice", [NewTask(number=one, state=TaskState.COMPLETED)], why="so be it"
        )
        assert (await at.item(first)).debate == "OPEN", "it is waived with the rejected result"

    async def test_a_critics_owner_alone_replaces_no_rejected_result(self, at: Table) -> None:
        for agent in ("carol", "carol2"):
            await at.store.set_owner(agent, "carol")
        (one,) = await plan(at, "one", verify="agent")
        await take(at, "bob", one)
        first = (await settle(at, "bob", "done", one, "all green")).item
        assert first is not None
        await settle(at, "carol", "verify", one, "two tests are red", ok=False)
        await take(at, "carol2", one)
        await settle(at, "carol2", "done", one, "green")
        await settle(at, "carol", "verify", one, "ran it")
        assert (await at.item(first)).debate == "OPEN"

    async def test_a_result_that_fell_takes_no_place(self, at: Table) -> None:
        (one,) = await plan(at, "one", verify="agent")
        await take(at, "bob", one)
        first = (await settle(at, "bob", "done", one, "all green")).item
        await settle(at, "carol", "verify", one, "two tests are red", ok=False)
        await take(at, "dave", one)
        second = (await settle(at, "dave", "done", one, "green")).item
        assert first is not None
        assert second is not None
        await at.change("dave", second, status="WITHDRAWN")
        await settle(at, "carol", "verify", one, "ran it")
        assert (await at.item(first)).debate == "OPEN"

    async def test_a_result_of_a_check_is_evidence_until_one_of_its_files_is_written(self, at: Table) -> None:
        one, two = await plan(at, "one", "two", verify="agent")
        await write_file(at, "alice", "src/a.py", "1")
        ran = {"name": "tests", "revision": 1, "files": "**/*.py"}
        passed = (await at.post(SYSTEM, "passed", "RESULT", metadata={"check": ran})).number
        await write_file(at, "alice", "notes.md", "not for the check")
        await take(at, "bob", one)
        await settle(at, "bob", "done", one, "it passes", cites=(passed,))
        await take(at, "bob", two)
        await write_file(at, "alice", "src/a.py", "2")
        before = await at.seq()
        stale = [
            ("bob", "done", two, (passed,)),
            ("carol", "verify", one, (passed,)),
            ("carol", "verify", one, ()),
        ]
        for agent, op, number, cites in stale:
            with pytest.raises(
                Conflict, match=r"tests gave at rev 1, and src/a\.py was written in rev 3"
            ) as caught:
                await settle(at, agent, op, number, "it passes", cites=cites)
            assert (caught.value.facts["path"], caught.value.facts["revision"]) == ("src/a.py", 3)
        assert await at.seq() == before
        copied = await at.post("alice", "it passed, says alice", "RESULT", metadata={"check": ran})
        await settle(at, "bob", "done", two, "alice says so", cites=(copied.number,))
        await settle(at, "carol", "verify", one, "it fails now", ok=False, cites=(passed,))

    async def test_an_act_without_an_id_means_the_task_that_one_holds(self, at: Table) -> None:
        one, two = await plan(at, "one", "two")
        with pytest.raises(Conflict, match="You hold no task"):
            await settle(at, "bob", "done", 0, "x")
        await take(at, "bob", one)
        await take(at, "bob", two)
        with pytest.raises(Conflict, match="You hold T-1, T-2"):
            await settle(at, "bob", "done", 0, "x")
        await settle(at, "bob", "done", one, "x")
        done = await settle(at, "bob", "done", 0, "y")
        assert done.task is not None
        assert done.task.number == two

    async def test_a_repeated_done_is_done_once(self, at: Table) -> None:
        (one,) = await plan(at, "one")
        await take(at, "bob")
        once = Once("k", "d")
        act = Settle("done", one, text=said("here"))
        first = await at.store.settle_task(at.board, "bob", act, once=once)
        again = await at.store.settle_task(at.board, "bob", act, once=once)
        assert again == first
        assert len([e for e in await at.events() if e.event == "claim.done"]) == 1

    async def test_I29_states_move_only_along_declared_transitions(self, at: Table, clock: HandClock) -> None:
        rng = random.Random(14)
        await plan(at, *(f"task {n}" for n in range(6)), retries=1)
        await plan(at, "checked", verify="agent", retries=1)
        agents = ("alice", "bob", "carol")
        ops = ("take", "take", "done", "fail", "extend", "wait", "release", "verify", "sweep", "plan")
        leases: dict[int, int] = {}
        before = {t.number: t.state for t in (await at.store.agenda(at.board, "alice")).tasks}
        for _ in range(400):
            agent, number = rng.choice(agents), rng.randint(1, 7)
            try:
                match rng.choice(ops):
                    case "take":
                        taken = await take(at, agent, number, seconds=60)
                        assert taken.lease > max(leases.values(), default=0)
                        leases[number] = taken.lease
                    case "wait":
                        await settle(at, agent, "extend", number, "a person")
                    case "verify":
                        await settle(at, agent, "verify", number, "seen", ok=rng.random() < 0.5)
                    case "sweep":
                        clock.advance(rng.choice([1, 70]))
                        await at.store.sweep_tasks()
                    case "plan":
                        state = rng.choice([TaskState.PENDING, TaskState.COMPLETED])
                        await at.store.plan(
                            at.board, "alice", [NewTask(number=number, state=state)], why="so"
                        )
                    case op:
                        lease = rng.choice([0, leases.get(number, 1), 1])
                        await settle(at, agent, op, number, "words", lease=lease)
            except (Conflict, Refused, InvalidInput):
                pass
            now = {t.number: t.state for t in await at.store.tasks(at.board, "alice", range(1, 8))}
            for n, state in now.items():
                assert state is before[n] or state in TASK_MOVES[before[n]], f"T-{n}: {before[n]} → {state}"
            before = now
        assert set(before.values()) != {TaskState.PENDING}


class ReservationTests:
    """Tests of reservations: files and keys that one lease has alone, or shares."""

    async def test_overlapping_paths_exclude_each_other(self, at: Table) -> None:
        await at.configure()
        taken = await take(at, "bob", paths=["file:src/db/**"])
        assert taken.task is None
        assert taken.lease == await at.seq()
        for path in (
            "file:src/db/a.py",
            "file:src/**/a.py",
            "file:**",
            "file:src/*/x/*.py",
            "file:src/db/**?shared",
        ):
            with pytest.raises(Conflict, match=r"bob has reserved file:src/db/\*\*"):
                await take(at, "carol", paths=[path])
        await take(at, "carol", paths=["file:src/web/**", "key:src:db:x"])
        await take(at, "bob", paths=["file:src/db/a.py"])

    async def test_nobody_reserves_all_keys_of_a_board(self, at: Table) -> None:
        await at.configure()
        for path in ("key:**", "key:*", "key:*:plan", "key:p*:x", "key:**:x", "key:*?shared"):
            with pytest.raises(InvalidInput, match="could be every key"):
                await take(at, "bob", paths=[path])
            with pytest.raises(InvalidInput, match="could be every key"):
                await plan(at, "one", paths=(path,))
        await take(at, "bob", paths=["key:plan:**", "file:**"])

    async def test_shared_paths_exclude_only_what_is_not_shared(self, at: Table) -> None:
        await at.configure()
        await take(at, "bob", paths=["file:docs/*?shared"])
        await take(at, "carol", paths=["file:docs/a?shared"])
        with pytest.raises(Conflict):
            await take(at, "dave", paths=["file:docs/a"])

    @pytest.mark.parametrize(
        "path", ["docs", "http:x", "file:", "file:a//b", "file:../x", "file:a**b", "key:\n", "key:a::b"]
    )
    async def test_what_is_no_path_is_refused(self, at: Table, path: str) -> None:
        await at.configure()
        with pytest.raises(InvalidInput, match="no path to reserve"):
            await take(at, "bob", paths=[path])

    async def test_reserved_keys_are_written_by_their_holder_alone(self, at: Table) -> None:
        await at.configure()
        entry = await at.post("alice", "v1", key="plan:one")
        taken = await take(at, "bob", paths=["key:plan:*"])
        before = await at.seq()
        writes: list[Callable[[], Awaitable[Item]]] = [
            lambda: at.post("carol", "v2", key="plan:one"),
            lambda: at.post("carol", "new", key="plan:two"),
            lambda: at.change("carol", entry, text="v2"),
            lambda: at.delete("carol", "plan:one"),
        ]
        for write in writes:
            with pytest.raises(Conflict, match=r"bob has reserved key:plan:\*"):
                await write()
        assert await at.seq() == before
        await at.post("carol", "elsewhere", key="plan:one:two")
        await at.post("bob", "v2", key="plan:one")
        await settle(at, "bob", "release", lease=taken.lease)
        await at.post("carol", "v3", key="plan:one")

    async def test_a_reservation_lapses(self, at: Table, clock: HandClock) -> None:
        await at.configure()
        await take(at, "bob", paths=["key:plan:*"], seconds=60)
        clock.advance(61)
        await at.post("carol", "v1", key="plan:one")
        assert await at.store.sweep_tasks() == ["main"]
        event = (await at.events())[-1]
        assert event.event == "claim.lapsed"
        assert event.concerns == ("bob",)

    async def test_what_is_extended_lasts_as_long_as_it_says_from_then_on(
        self, at: Table, clock: HandClock
    ) -> None:
        await at.configure()
        short = await take(at, "bob", paths=["file:a"], seconds=3_600)
        long = await take(at, "dave", paths=["file:b"], seconds=60)
        await settle(at, "bob", "extend", lease=short.lease, seconds=60)
        await settle(at, "dave", "extend", lease=long.lease, seconds=3_600)
        clock.advance(61)
        await take(at, "carol", paths=["file:a"])
        await take(at, "dave", paths=["file:c"])
        clock.advance(3_599)
        with pytest.raises(Conflict, match="dave has reserved file:b"):
            await take(at, "carol", paths=["file:b"])

    async def test_a_task_reserves_its_paths_until_it_is_over(self, at: Table) -> None:
        one, two = await plan(at, "one", "two", paths=("key:a",))
        await take(at, "bob")
        assert await at.store.take_task(at.board, "carol") is None, "its paths are reserved"
        with pytest.raises(Conflict, match="bob has reserved key:a"):
            await take(at, "carol", two)
        await settle(at, "bob", "done", one)
        assert (await take(at, "carol")).task.number == two  # type: ignore[union-attr]
