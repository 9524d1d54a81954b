"""Tests of stages and milestones: CMMN's rules for them, and the conditions of stages and tasks."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from blackboard_mcp.protocols.agenda import NewTask, TaskState
from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.errors import (
    BlackboardError,
    Conflict,
    InvalidInput,
    QuotaExceeded,
    Refused,
    UnknownReference,
)
from blackboard_mcp.protocols.stages import (
    MAX_DEFINED,
    MAX_DEPTH,
    STAGE_MOVES,
    STAGE_OVER,
    NewStage,
    Stage,
    StageOp,
    StageState,
)

from ..harness import Table
from .planning import plan, settle, take, task, under_a_grant

WORKING = frozenset({StageState.ACTIVE, StageState.FAULTED})
ACTS = ("flag", "plan", "plan", "do", "do", "fault", "retry", "waive", "move", "move", "fact")


async def define(at: Table, *stages: NewStage | str, agent: str = "alice") -> list[int]:
    """Defines stages, of which a text is a title, on a board that exists; returns their numbers."""
    await at.configure()
    new = [NewStage(one) if isinstance(one, str) else one for one in stages]
    return [one.number for one in (await at.store.define_stages(at.board, agent, new)).stages]


async def stages(at: Table) -> dict[int, Stage]:
    """Returns the stages of the board by number."""
    return {one.number: one for one in (await at.store.stages(at.board, "alice")).stages}


async def states(at: Table) -> str:
    """Returns the states of the board's stages in the order of their numbers, by their first letters."""
    return " ".join(str(one.state)[:3] for _, one in sorted((await stages(at)).items()))


async def move(at: Table, op: StageOp, number: int, agent: str = "alice", why: str = "") -> list[str]:
    """Moves a stage; returns the ids of what moved."""
    return [one.id for one in (await at.store.move_stage(at.board, agent, number, op, why)).stages]


async def do(at: Table, number: int, agent: str = "bob") -> None:
    """Takes a task and completes it."""
    await take(at, agent, number)
    await settle(at, agent, "done", number, "done")


async def fault(at: Table, number: int, agent: str = "bob") -> None:
    """Takes a task without further attempts and fails."""
    await take(at, agent, number)
    await settle(at, agent, "fail", number, "no way")


async def retry(at: Table, number: int, state: TaskState) -> None:
    """Tries a FAULTED task again, or waives it."""
    await at.store.plan(at.board, "alice", [NewTask(number=number, state=state)], why="so")


class StageTests:
    """Tests of how stages begin, pause and end."""

    async def test_a_stage_without_entry_begins_at_once_and_one_in_it_after_it(self, at: Table) -> None:
        await at.configure()
        made = await at.store.define_stages(
            at.board,
            "alice",
            [NewStage("survey"), NewStage("build", entry="done(G-1)"), NewStage("tests", parent=-2)],
        )
        assert [(one.id, one.parent, str(one.state), one.why) for one in made.stages] == [
            ("G-1", 0, "ACTIVE", "waits for its first task"),
            ("G-2", 0, "AVAILABLE", "waits for done(G-1)"),
            ("G-3", 2, "AVAILABLE", "G-2 is AVAILABLE"),
        ]
        assert made.seq == await at.seq()
        (one,) = await plan(at, "look", stage=1)
        assert (await stages(at))[1].why == "waits for T-1"
        await do(at, one)
        assert await states(at) == "COM ACT ACT"
        moved = [e for e in await at.events() if e.event == "stage.moved"]
        assert [(e.data["stage"], e.data["from"], e.data["to"], e.agent) for e in moved] == [
            ("G-1", "AVAILABLE", "ACTIVE", "system"),
            ("G-1", "ACTIVE", "COMPLETED", "system"),
            ("G-2", "AVAILABLE", "ACTIVE", "system"),
            ("G-3", "AVAILABLE", "ACTIVE", "system"),
        ]

    async def test_tasks_of_a_stage_are_ready_while_it_is_active(self, at: Table) -> None:
        await define(at, NewStage("build", entry="flag(go)"))
        (one,) = await plan(at, "one", stage=1)
        assert (await task(at, one)).blocked_by == ("stage G-1 AVAILABLE",)
        assert await at.store.take_task(at.board, "bob") is None
        await flag(at, go=True)
        taken = await take(at, "bob")
        assert taken.task is not None
        assert taken.task.number == one
        await move(at, "suspend", 1)
        with pytest.raises(Refused, match="SUSPENDED"):
            await settle(at, "bob", "done", one, "x")
        await move(at, "resume", 1)
        await settle(at, "bob", "done", one, "x")
        assert await states(at) == "COM"

    @pytest.mark.parametrize(
        ("autocomplete", "required", "optional", "state"),
        [
            (True, "COMPLETED", "PENDING", "COMPLETED"),
            (True, "COMPLETED", "RUNNING", "ACTIVE"),
            (True, "COMPLETED", "FAULTED", "COMPLETED"),
            (True, "CANCELLED", "PENDING", "COMPLETED"),
            (True, "PENDING", "COMPLETED", "ACTIVE"),
            (True, "RUNNING", "COMPLETED", "ACTIVE"),
            (True, "REVIEW", "COMPLETED", "ACTIVE"),
            (True, "FAULTED", "COMPLETED", "FAULTED"),
            (False, "COMPLETED", "PENDING", "ACTIVE"),
            (False, "COMPLETED", "COMPLETED", "COMPLETED"),
            (False, "COMPLETED", "CANCELLED", "COMPLETED"),
            (False, "COMPLETED", "FAULTED", "COMPLETED"),
            (False, "FAULTED", "COMPLETED", "FAULTED"),
        ],
    )
    async def test_what_completes_a_stage(
        self, at: Table, autocomplete: bool, required: str, optional: str, state: str
    ) -> None:
        """The completion rules of CMMN 1.1, table 8.8."""
        await define(at, NewStage("build", autocomplete=autocomplete))
        must, may = [
            (
                await plan(
                    at, f"{n}", stage=1, required=n == 0, retries=0, verify="agent" if how == "REVIEW" else ""
                )
            )[0]
            for n, how in enumerate((required, optional))
        ]
        for number, how in ((may, optional), (must, required)):
            if how == "CANCELLED":
                await at.store.plan(at.board, "alice", [], cancel=[number], why="no need")
            elif how == "RUNNING":
                await take(at, "bob", number)
            elif how == "FAULTED":
                await fault(at, number)
            elif how in ("COMPLETED", "REVIEW"):
                await do(at, number)
        assert str((await stages(at))[1].state) == state
        if state == "COMPLETED" and optional in ("PENDING", "FAULTED"):
            left = await task(at, may)
            assert (left.state, left.why) == (TaskState.CANCELLED, "G-1 COMPLETED")

    async def test_a_plan_with_its_stages_is_one_call(self, at: Table) -> None:
        await at.configure()
        made = await at.store.plan(
            at.board,
            "alice",
            [
                NewStage("survey"),
                NewTask(title="look", stage=-1),
                NewStage("build", entry="done($1)"),
                NewTask(title="saw", stage=-3, after=(-2,)),
                NewStage("part", parent=-3),
                NewStage("seen", kind="milestone", entry="done($2)"),
                NewTask(title="tell", trigger="done($6)"),
            ],
        )
        assert [(t.id, t.stage, t.after, t.blocked_by) for t in made.tasks] == [
            ("T-1", 1, (), ()),
            ("T-2", 2, (1,), ("T-1 PENDING", "stage G-2 AVAILABLE")),
            ("T-3", 0, (), ("trigger done(G-4)",)),
        ]
        assert [(s.id, s.parent, s.entry) for s in made.stages] == [
            ("G-1", 0, ""),
            ("G-2", 0, "done(G-1)"),
            ("G-3", 2, ""),
            ("G-4", 0, "done(T-1)"),
        ]
        await do(at, 1)
        assert await states(at) == "COM ACT ACT COM"
        assert (await task(at, 3)).ready

    @pytest.mark.parametrize(
        ("wrong", "words"),
        [
            ([NewTask(title="x", after=(-2,)), NewStage("s")], r"'\$2' is G-1, and after takes tasks"),
            ([NewTask(title="x"), NewTask(title="y", stage=-1)], r"'\$1' is T-1, and stage takes a stage"),
            ([NewTask(title="x", stage=-2)], r"'\$2' names item 2, and there are 1"),
            ([NewTask(title="x"), NewStage("s", entry="done($3)")], r"Item 2 of items: '\$3' names item 3"),
            ([NewTask(title="x"), NewStage("s", parent=-1)], r"Item 2 of items: parent '\$1' is no stage"),
            ([NewStage("s"), NewTask(title="x", trigger="done($9)")], r"Item 2 of items: '\$9' names item 9"),
        ],
    )
    async def test_a_wrong_place_plans_nothing(self, at: Table, wrong: list[Any], words: str) -> None:
        await at.configure()
        before = await at.seq()
        with pytest.raises(InvalidInput, match=words):
            await at.store.plan(at.board, "alice", wrong)
        assert await at.seq() == before

    async def test_optional_work_leaves_with_its_stage(self, at: Table) -> None:
        await define(at, "build")
        (must,) = await plan(at, "must", stage=1)
        (may,) = await plan(at, "may", stage=1, required=False)
        await do(at, must)
        assert await states(at) == "COM"
        assert (await task(at, may)).state is TaskState.CANCELLED

    async def test_an_empty_stage_waits_for_what_comes_into_it(self, at: Table) -> None:
        await define(at, "build", NewStage("loose", autocomplete=False))
        assert await states(at) == "ACT ACT"
        await do(at, (await plan(at, "one", stage=1))[0])
        await do(at, (await plan(at, "two", stage=2, required=False))[0])
        assert await states(at) == "COM COM"

    async def test_a_stage_without_required_tasks_waits_for_all(self, at: Table) -> None:
        await define(at, "build")
        one, two = await plan(at, "one", "two", stage=1, required=False)
        await do(at, one)
        assert await states(at) == "ACT"
        await do(at, two)
        assert await states(at) == "COM"

    async def test_a_stage_waits_for_the_stages_and_milestones_that_it_needs(self, at: Table) -> None:
        await define(
            at,
            "release",
            NewStage("build", parent=-1),
            NewStage("ready", parent=-1, kind="milestone", entry="flag(go)"),
            NewStage("polish", parent=-1, entry="flag(polish)", required="false"),
        )
        assert (await stages(at))[1].why == "waits for G-2, G-3"
        await do(at, (await plan(at, "one", stage=2))[0])
        assert await states(at) == "ACT COM AVA AVA"
        await flag(at, go=True)
        assert await states(at) == "COM COM COM TER"
        assert (await stages(at))[4].why == "G-1 COMPLETED"

    async def test_required_is_evaluated_as_the_stage_becomes_available(self, at: Table) -> None:
        extra = NewStage("extra", parent=-1, entry="flag(x)", required="flag(go)")
        await define(at, NewStage("all", entry="flag(begin)"), extra)
        await plan(at, "one", stage=1)
        await flag(at, begin=True)
        assert not (await stages(at))[2].required
        await flag(at, begin=True, go=True)
        assert not (await stages(at))[2].required, "it was evaluated once"
        await define(at, NewStage("more", parent=1, entry="flag(y)", required="flag(go)"))
        assert (await stages(at))[3].required

    async def test_entry_latches_while_the_parent_is_suspended(self, at: Table) -> None:
        part, late = (
            NewStage("part", parent=-1, entry="flag(go)"),
            NewStage("late", parent=-1, entry="flag(no)"),
        )
        await define(at, "all", part, late)
        await move(at, "suspend", 1)
        await flag(at, go=True)
        await flag(at, go=False)
        assert await states(at) == "SUS AVA AVA"
        await move(at, "resume", 1)
        assert await states(at) == "ACT ACT AVA"

    async def test_a_manual_stage_waits_for_its_start(self, at: Table) -> None:
        await define(at, NewStage("ship", entry="flag(go)", manual=True))
        await flag(at, go=True)
        assert await states(at) == "ENA"
        await flag(at, go=False)
        assert await states(at) == "ENA", "entry latches"
        assert await move(at, "start", 1, why="all agree") == ["G-1"]
        assert await states(at) == "ACT"
        event = (await at.events())[-1]
        assert (event.agent, event.data["why"]) == ("alice", "all agree")

    async def test_a_stage_whose_entry_never_holds_is_started_by_hand(self, at: Table) -> None:
        await define(at, NewStage("one", entry="done(G-2)"), NewStage("two", entry="done(G-1)"))
        assert await states(at) == "AVA AVA"
        await move(at, "start", 1)
        await do(at, (await plan(at, "x", stage=1))[0])
        assert await states(at) == "COM ACT"

    async def test_exit_terminates_what_is_under_way(self, at: Table) -> None:
        await define(at, NewStage("search", exit="exists(answer)"), NewStage("part", parent=-1))
        (one,) = await plan(at, "one", stage=2)
        await take(at, "bob", one)
        await at.post("carol", "it is 42", key="answer")
        assert await states(at) == "TER TER"
        found = await stages(at)
        assert (found[1].why, found[2].why) == ("exit: exists(answer)", "G-1 TERMINATED")
        left = await task(at, one)
        assert (left.state, left.why, left.holder) == (TaskState.CANCELLED, "G-2 TERMINATED", "")
        cancelled = [e for e in await at.events() if e.event == "plan.cancelled"]
        assert "bob" in cancelled[0].concerns

    async def test_exit_does_not_hold_before_entry(self, at: Table) -> None:
        await define(at, NewStage("talk", entry="flag(go)", exit="no_open_debates()"))
        assert await states(at) == "AVA"

    async def test_what_is_in_a_stage_pauses_and_goes_on_with_it(self, at: Table) -> None:
        await define(
            at, "all", NewStage("part", parent=-1), NewStage("deep", parent=-2), NewStage("other", parent=-1)
        )
        await move(at, "suspend", 4)
        assert set(await move(at, "suspend", 1)) == {"G-1", "G-2", "G-3"}
        assert await states(at) == "SUS SUS SUS SUS"
        with pytest.raises(Refused, match="G-2 is in G-1, which is SUSPENDED"):
            await move(at, "resume", 2)
        assert await move(at, "resume", 1) == ["G-1", "G-2", "G-3"]
        assert await states(at) == "ACT ACT ACT SUS", "it was suspended before"

    async def test_I31_a_faulted_required_task_never_wedges_its_stage(self, at: Table) -> None:
        await define(
            at, "all", NewStage("one", parent=-1), NewStage("two", parent=-1), NewStage("three", parent=-1)
        )
        tried, waived, dropped = [(await plan(at, f"task {n}", stage=n, retries=0))[0] for n in (2, 3, 4)]
        for number in (tried, waived, dropped):
            await fault(at, number)
        found = await stages(at)
        assert await states(at) == "ACT FAU FAU FAU"
        assert (found[2].why, found[2].faulted) == ("FAULTED in it: T-1", (1,))
        assert found[1].why == "waits for G-2, G-3, G-4"
        await retry(at, tried, TaskState.PENDING)
        assert await states(at) == "ACT ACT FAU FAU"
        await do(at, tried)
        await retry(at, waived, TaskState.COMPLETED)
        assert await states(at) == "ACT COM COM FAU"
        await move(at, "terminate", 4)
        assert await states(at) == "COM COM COM TER"
        assert (await task(at, dropped)).state is TaskState.CANCELLED

    async def test_work_goes_on_beside_a_faulted_task(self, at: Table) -> None:
        await define(at, "all")
        (bad,) = await plan(at, "bad", stage=1, retries=0)
        (good,) = await plan(at, "good", stage=1)
        await fault(at, bad)
        await do(at, good)
        assert await states(at) == "FAU"

    async def test_a_long_chain_is_taken_up_by_the_next_change_or_a_sweep(self, at: Table) -> None:
        chain = [
            NewStage(f"step {n}", entry=f'milestone("step {n - 1}")', kind="milestone") for n in range(1, 21)
        ]
        await define(at, NewStage("step 0", entry="flag(go)", kind="milestone"), *chain)
        assert await at.store.next_lapse() is None
        await flag(at, go=True)
        reached = (await states(at)).count("COM")
        assert 1 < reached < 21
        assert await at.store.next_lapse() == 0
        assert await at.store.sweep_tasks() == ["main"]
        assert (await states(at)).count("COM") > reached
        for _ in range(3):
            await at.post("bob", "something else")
        assert (await states(at)).count("COM") == 21
        assert await at.store.sweep_tasks() == []

    async def test_who_defined_a_stage_and_stewards_move_it(self, at: Table) -> None:
        await define(at, "build")
        with under_a_grant("carol"), pytest.raises(Refused, match="defined by alice"):
            await move(at, "suspend", 1, "carol")
        with under_a_grant("alice"):
            await move(at, "suspend", 1)
        await move(at, "resume", 1, "carol")
        with under_a_grant("dave"), pytest.raises(Refused, match="defined by alice"):
            await move(at, "terminate", 1, "dave")
        assert await states(at) == "ACT"

    @pytest.mark.parametrize(
        ("op", "told"),
        [("resume", 'op="suspend" or op="terminate" would do'), ("start", "G-1 is ACTIVE")],
    )
    async def test_a_move_that_is_not_allowed_says_what_is(self, at: Table, op: StageOp, told: str) -> None:
        await define(at, "build")
        before = await at.seq()
        with pytest.raises(Refused, match=told):
            await move(at, op, 1)
        assert await at.seq() == before

    async def test_milestones_are_not_started(self, at: Table) -> None:
        await define(at, NewStage("beta", kind="milestone", entry="flag(go)"))
        with pytest.raises(Refused, match=r"reached when flag\(go\)"):
            await move(at, "start", 1)
        await move(at, "terminate", 1)
        await flag(at, go=True)
        assert await states(at) == "TER"

    @pytest.mark.parametrize(
        ("wrong", "error", "words"),
        [
            ([], InvalidInput, f"1 to {MAX_DEFINED}"),
            (["x"] * (MAX_DEFINED + 1), InvalidInput, f"1 to {MAX_DEFINED}"),
            ([" "], InvalidInput, "a title is one line"),
            (['say "x"'], InvalidInput, "without double quotes"),
            (["x", "x"], Refused, "Stage 2 of define: G-1 has the title 'x'"),
            (
                [NewStage("x", entry="done(T-1")],
                InvalidInput,
                "Stage 1 of define: The condition cannot be read",
            ),
            ([NewStage("x", entry="done(T-1)")], UnknownReference, "names T-1"),
            ([NewStage("x", exit="done(G-2)")], UnknownReference, "names G-2"),
            ([NewStage("x", parent=7)], UnknownReference, "no stage G-7"),
            ([NewStage("x", parent=-1)], InvalidInput, r"parent '\$1' is no stage before it"),
            ([NewStage("x", kind="milestone", exit="true")], InvalidInput, "neither exit nor manual"),
            ([NewStage("x", kind="milestone"), NewStage("y", parent=-1)], Refused, "G-1 is a milestone"),
            (["x", *(NewStage(f"{n}", parent=-n) for n in range(1, MAX_DEPTH + 1))], Refused, "10 others"),
        ],
    )
    async def test_wrong_stages_change_nothing(
        self, at: Table, wrong: list[Any], error: type[BlackboardError], words: str
    ) -> None:
        await at.configure()
        before = await at.seq()
        with pytest.raises(error, match=words):
            await define(at, *wrong)
        assert await at.seq() == before
        assert await stages(at) == {}

    async def test_tasks_enter_no_stage_that_is_over_and_no_milestone(self, at: Table) -> None:
        await define(at, "build", NewStage("beta", kind="milestone", entry="flag(go)"))
        await move(at, "terminate", 1)
        for number, words in ((1, "G-1 is TERMINATED"), (2, "a milestone, which has no tasks")):
            with pytest.raises(Refused, match=words):
                await plan(at, "x", stage=number)

    async def test_a_repeated_call_defines_and_moves_once(self, at: Table) -> None:
        await at.configure()
        once = Once("k", "d")
        first = await at.store.define_stages(at.board, "alice", [NewStage("build")], once=once)
        assert await at.store.define_stages(at.board, "alice", [NewStage("build")], once=once) == first
        ended = Once("l", "e")
        moved = await at.store.move_stage(at.board, "alice", 1, "terminate", once=ended)
        assert await at.store.move_stage(at.board, "alice", 1, "terminate", once=ended) == moved
        assert len(await stages(at)) == 1

    async def test_I29_I30_I31_stages_move_only_as_declared(self, at: Table) -> None:
        rng = random.Random(29)
        await at.configure()
        for walk in range(4):
            await self._walk(at, rng, walk)
        moved = [e.data for e in await at.events() if e.event == "stage.moved"]
        assert {data["to"] for data in moved} == set(StageState) - {StageState.AVAILABLE}

    async def _walk(self, at: Table, rng: random.Random, walk: int) -> None:
        conditions = ["", "", "flag(a)", "not flag(b)", "flag(a) or flag(c)", "count(type=FACT) >= 3"]
        tops = await define(
            at, *(NewStage(f"top {walk}.{n}", entry=rng.choice(conditions)) for n in range(2))
        )
        known = list(tops)
        for n in range(5):
            more = NewStage(
                f"part {walk}.{n}",
                parent=rng.choice(known),
                entry=rng.choice(conditions),
                exit=rng.choice(["", "", "flag(x)"]),
                required=rng.choice(["true", "false", "flag(a)"]),
                manual=rng.random() < 0.3,
                autocomplete=rng.random() < 0.7,
            )
            known += await define_if_allowed(at, more)
        before = {n: one.state for n, one in (await stages(at)).items()}
        had = {one.parent for one in (await stages(at)).values()}
        seen = await at.seq()
        for _ in range(80):
            number = rng.choice(known)
            try:
                match rng.choice(ACTS):
                    case "flag":
                        await flag(at, **{name: rng.random() < 0.5 for name in "abc"}, x=rng.random() < 0.05)
                    case "plan":
                        await plan(at, "work", stage=number, required=rng.random() < 0.6, retries=0)
                        had.add(number)
                    case "fact":
                        await at.post("bob", f"fact {rng.random()}")
                    case "move":
                        ops: list[StageOp] = ["start", "suspend", "resume", "terminate"]
                        await move(at, rng.choices(ops, [5, 5, 9, 1])[0], number)
                    case op:
                        found = (await stages(at))[number]
                        if not found.tasks:
                            continue
                        chosen = rng.choice(found.tasks)
                        match op:
                            case "do":
                                await do(at, chosen)
                            case "fault":
                                await fault(at, chosen)
                            case _:
                                await retry(
                                    at, chosen, TaskState.PENDING if op == "retry" else TaskState.COMPLETED
                                )
            except (Refused, Conflict, InvalidInput):
                pass
            await at.store.sweep_tasks()
            now = await stages(at)
            for event in await at.events(after=seen):
                if event.event == "stage.moved":
                    old, new = StageState(event.data["from"]), StageState(event.data["to"])
                    n = int(event.data["stage"][2:])
                    assert before.get(n, StageState.AVAILABLE) == old, event
                    assert new in STAGE_MOVES[old], event
                    before[n] = new
            seen = await at.seq()
            for one in now.values():
                self._check(one, now, had)
        for number in known:
            if (await stages(at))[number].state not in STAGE_OVER:
                await move(at, "terminate", number)

    def _check(self, one: Stage, now: dict[int, Stage], had: set[int]) -> None:
        if one.state in WORKING and one.parent:
            assert now[one.parent].state in WORKING, f"{one.id} goes on in a stage that does not"
        if one.state in STAGE_OVER:
            assert not one.tasks, f"{one.id} is over and has tasks"
        assert (one.state is StageState.FAULTED) == bool(one.faulted) or one.state not in WORKING
        inside = [
            child for child in now.values() if child.parent == one.number and child.state not in STAGE_OVER
        ]
        if one.state is StageState.ACTIVE and one.number in had:
            assert one.tasks or inside, f"{one.id} waits for nothing"


async def define_if_allowed(at: Table, stage: NewStage) -> list[int]:
    """Defines a stage, unless its parent is over."""
    try:
        return await define(at, stage)
    except Refused:
        return []


async def flag(at: Table, **flags: bool) -> None:
    """Sets the flags of the board."""
    core = (await at.standing()).core
    await at.store.set_core(
        at.board, "alice", replace(core, flags={**core.flags, **flags}), expected_version=core.version
    )


class ConditionTests:
    """Tests of what conditions mean on a board, shown by tasks with a trigger."""

    @pytest.mark.parametrize(
        ("condition", "meet"),
        [
            ("count(type=FACT) >= 2", ["a", "b"]),
            ("count(type=FACT, tag=x) > 0", [("a", {"tags": ["x"]})]),
            ("count(author=bob) == 1", ["a"]),
            ("count(status=WITHDRAWN) >= 1", ["a", "withdraw"]),
            ("exists(plan:one)", [("a", {"key": "plan:one"})]),
            ("count() < 1 or exists(k)", ["a", ("b", {"key": "k"})]),
            ("flag(go)", ["flag"]),
            ("milestone(beta)", ["milestone"]),
            ("done(T-1)", ["task"]),
            ("done(G-1)", ["milestone"]),
            ("no_open_debates() and flag(go)", ["debate", "flag", "close"]),
        ],
    )
    async def test_a_trigger_latches_when_its_condition_holds(
        self, at: Table, condition: str, meet: list[Any]
    ) -> None:
        await plan(at, "before")
        await at.store.take_task(at.board, "bob", number=1)
        await define(at, NewStage("beta", kind="milestone", entry="flag(beta)"))
        await at.post("alice", "to begin with", "LOG")
        (waiting,) = await plan(at, "when it holds", trigger=condition)
        fact = claimed = await at.post("alice", "so it is", "HYPOTHESIS")
        for step in meet:
            now = await task(at, waiting)
            assert (now.ready, now.blocked_by) == (False, (f"trigger {condition}",))
            match step:
                case "flag":
                    await flag(at, go=True)
                case "milestone":
                    await flag(at, beta=True)
                case "task":
                    await settle(at, "bob", "done", 1, "x")
                case "withdraw":
                    await at.change("bob", fact, status="WITHDRAWN")
                case "debate":
                    await at.post("bob", "why?", "CRITIQUE", critiques=claimed)
                case "close":
                    await at.change("alice", claimed, status="WITHDRAWN")
                case (text, more):
                    await at.post("bob", text, "FACT", **more)
                case _:
                    fact = await at.post("bob", str(step), "FACT")
        assert (await task(at, waiting)).ready
        event = [e for e in await at.events() if e.event == "plan.triggered"]
        assert [(e.data["task"], e.data["trigger"]) for e in event] == [("T-2", condition)]
        await flag(at, go=False, beta=False)
        assert (await task(at, waiting)).ready, "it latches"

    async def test_a_task_is_told_of_as_ready_only_by_what_it_waited_for_last(self, at: Table) -> None:
        await plan(at, "before")
        await define(at, NewStage("later", entry="flag(later)"))
        (staged,) = await plan(at, "in a stage", after=(1,), stage=1, worker="ben")
        (kept,) = await plan(at, "with a trigger", after=(1,), trigger="flag(go)")
        (early,) = await plan(at, "triggered early", after=(1,), trigger="flag(early)")
        await flag(at, early=True)
        await take(at, "bob", 1)
        done = await settle(at, "bob", "done", 1, "x")
        assert [n for n in (staged, kept, early) if (await task(at, n)).ready] == [early]
        assert list(done.freed) == [early]
        await flag(at, early=True, go=True)
        await flag(at, early=True, go=True, later=True)
        told = [
            (str(e.event), e.data.get("task", e.data.get("stage")), e.data.get("freed"), "ben" in e.concerns)
            for e in await at.events()
            if e.event in ("plan.triggered", "claim.done", "stage.moved")
        ]
        assert told == [
            ("plan.triggered", "T-4", None, False),
            ("claim.done", "T-1", ["T-4"], False),
            ("plan.triggered", "T-3", ["T-3"], False),
            ("stage.moved", "G-1", None, True),
        ]

    async def test_I25_private_items_count_for_nothing(self, at: Table) -> None:
        trigger = "count(type=FACT) >= 1 or exists(k) or count(tag=x) >= 1 or flag(go)"
        (one,) = await plan(at, "one", trigger=trigger)
        await at.post("bob", "mine", "FACT", private=True, tags=["x"], key="k")
        await at.post("bob", "ours", "FACT", team=True, tags=["x"])
        await flag(at, other=True)
        assert not (await task(at, one)).ready
        await at.post("bob", "all's", "FACT")
        assert (await task(at, one)).ready

    async def test_archived_items_count_and_fallen_ones_do_not(self, at: Table) -> None:
        facts = [await at.post("bob", f"fact {n}", "FACT", tags=["x"]) for n in range(3)]
        await at.change("bob", facts[0], status="WITHDRAWN")
        await at.gone(facts[1])
        made = await plan(at, "two", trigger="count(type=FACT) >= 2")
        made += await plan(at, "two by tag", trigger="count(type=FACT, tag=x) >= 2")
        made += await plan(at, "three", trigger="count(type=FACT) >= 3 or count(tag=x) >= 3")
        assert [(await task(at, n)).ready for n in made] == [True, True, False]

    async def test_a_trigger_changes_with_its_task(self, at: Table) -> None:
        (one,) = await plan(at, "one", trigger="flag(a)")
        await flag(at, a=True)
        await at.store.plan(at.board, "alice", [NewTask(number=one, trigger="flag(b)")])
        assert (await task(at, one)).blocked_by == ("trigger flag(b)",)
        await flag(at, b=True)
        assert (await task(at, one)).ready

    @pytest.mark.parametrize(
        ("trigger", "error", "words"),
        [
            ("soon", InvalidInput, "cannot be read at character 1"),
            ("done(T-9)", UnknownReference, "names T-9"),
            ("done(G-9)", UnknownReference, "names G-9"),
        ],
    )
    async def test_a_wrong_trigger_changes_nothing(
        self, at: Table, trigger: str, error: type[BlackboardError], words: str
    ) -> None:
        await at.configure()
        before = await at.seq()
        with pytest.raises(error, match=words):
            await plan(at, "one", trigger=trigger)
        assert await at.seq() == before

    async def test_only_so_many_tasks_wait_for_their_trigger(self, at: Table) -> None:
        for _ in range(5):
            await plan(at, *("x" for _ in range(100)), trigger="flag(go)")
        with pytest.raises(QuotaExceeded, match="wait for their trigger"):
            await plan(at, "x", trigger="flag(go)")
        await at.store.plan(at.board, "alice", [], cancel=[1])
        await plan(at, "x", trigger="flag(go)")
