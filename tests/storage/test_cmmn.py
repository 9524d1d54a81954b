"""The lifecycle tables of CMMN 1.1, line by line: what stages, tasks and milestones do for each.

A case names the line, the state before, what happens, and the state after. Lines in `LACKING` are not here, and the
how-to says what is in their place.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.agenda import TaskState
from blackboard_mcp.protocols.errors import Refused
from blackboard_mcp.protocols.stages import NewStage, StageOp
from blackboard_mcp.protocols.sub_boards import SubBoard
from blackboard_mcp.storage.memory import open_memory_store
from blackboard_mcp.storage.testing.harness import HandClock, Table
from blackboard_mcp.storage.testing.kit.planning import plan, settle, take, task
from blackboard_mcp.storage.testing.kit.staging import define, fault, flag, move, retry, stages
from blackboard_mcp.storage.testing.kit.sub_boards import below

HOW_TO = Path(__file__).parents[2] / "docs" / "howto" / "plan-and-claim.md"
Act = Callable[["Case"], Awaitable[Any]]


@dataclass
class Case:
    """A board with a stage `G-1` around the stage `G-2` or milestone, or the task `T-1`, that a line is about."""

    at: Table

    async def stage(self, number: int = 2) -> str:
        return str((await stages(self.at))[number].state)

    async def task(self, number: int = 1) -> str:
        return str((await task(self.at, number)).state)

    async def inner(self, **more: Any) -> None:
        """Defines the stage G-2 in G-1, which has another stage, so that it does not end with it."""
        around = [NewStage("around"), NewStage("inner", parent=-1, **more), NewStage("more", parent=-1)]
        await define(self.at, *around)

    async def work(self, state: str) -> None:
        """Brings a fresh task T-1 of the stage G-1 to a state."""
        await define(self.at, "around")
        await plan(self.at, "the task", stage=1, retries=0, verify="agent" if state == "REVIEW" else "")
        match state:
            case "RUNNING" | "WAITING" | "REVIEW" | "COMPLETED":
                await plan(self.at, "more", stage=1, worker="carol")
                await take(self.at, "bob", 1)
                if state == "WAITING":
                    await settle(self.at, "bob", "extend", 1, "the tide")
                elif state != "RUNNING":
                    await settle(self.at, "bob", "done", 1, "done")
            case "FAULTED":
                await fault(self.at, 1)


@pytest.fixture
async def case() -> AsyncIterator[Case]:
    store = await open_memory_store(clock=HandClock())
    yield Case(Table(store))
    await store.close()


async def into(case: Case, state: str, **more: Any) -> None:
    """Brings the stage G-2 into a state."""
    entry = {"AVAILABLE": "flag(never)", "ENABLED": ""}.get(state, "")
    await case.inner(entry=more.pop("entry", entry), manual=state == "ENABLED", **more)
    if state == "FAULTED":
        await plan(case.at, "fails", stage=2, retries=0)
        await fault(case.at, 1)
    elif state == "SUSPENDED":
        await move(case.at, "suspend", 2)
    elif state == "TERMINATED":
        await move(case.at, "terminate", 2)
    elif state == "COMPLETED":
        await plan(case.at, "only", stage=2)
        await take(case.at, "bob", 1)
        await settle(case.at, "bob", "done", 1)
    assert await case.stage() == state


def by_hand(op: StageOp, number: int = 2) -> Act:
    return lambda case: move(case.at, op, number)


async def parent_resumes(case: Case) -> None:
    await move(case.at, "suspend", 1)
    await move(case.at, "resume", 1)


async def tries_again(case: Case) -> None:
    await retry(case.at, 1, TaskState.PENDING)


async def waives(case: Case) -> None:
    await plan(case.at, "more", stage=2, worker="carol")
    await retry(case.at, 1, TaskState.COMPLETED)


# Stages. The line; the state before; what happens; the state after.
STAGE_LINES: list[tuple[str, str, Act, str]] = [
    ("manual start: Enabled to Active", "ENABLED", by_hand("start"), "ACTIVE"),
    ("suspend: Active to Suspended", "ACTIVE", by_hand("suspend"), "SUSPENDED"),
    ("resume: Suspended to Active", "SUSPENDED", by_hand("resume"), "ACTIVE"),
    ("reactivate: Failed to Active, tried again", "FAULTED", tries_again, "ACTIVE"),
    ("reactivate: Failed to Active, waived", "FAULTED", waives, "ACTIVE"),
    ("terminate: Active to Terminated", "ACTIVE", by_hand("terminate"), "TERMINATED"),
    *(
        (f"exit by hand: {state} to Terminated", state, by_hand("terminate"), "TERMINATED")
        for state in ("AVAILABLE", "ENABLED", "SUSPENDED", "FAULTED")
    ),
    *(
        (f"exit, as the parent ends: {state} to Terminated", state, by_hand("terminate", 1), "TERMINATED")
        for state in ("AVAILABLE", "ENABLED", "ACTIVE", "SUSPENDED", "FAULTED")
    ),
    ("parent suspend: Active to Suspended", "ACTIVE", by_hand("suspend", 1), "SUSPENDED"),
    ("parent suspend: Failed, which stays in CMMN", "FAULTED", by_hand("suspend", 1), "SUSPENDED"),
    ("parent suspend: Available, which stays here", "AVAILABLE", by_hand("suspend", 1), "AVAILABLE"),
    ("parent suspend: Enabled, which stays here", "ENABLED", by_hand("suspend", 1), "ENABLED"),
    *(
        (f"parent resume: to {state}, as before", state, parent_resumes, state)
        for state in ("AVAILABLE", "ENABLED", "ACTIVE", "FAULTED")
    ),
    ("parent resume: suspended by itself, stays so", "SUSPENDED", parent_resumes, "SUSPENDED"),
    ("Completed is final: its parent is suspended", "COMPLETED", by_hand("suspend", 1), "COMPLETED"),
    ("Completed is final: its parent ends", "COMPLETED", by_hand("terminate", 1), "COMPLETED"),
    ("Terminated is final: its parent is suspended", "TERMINATED", by_hand("suspend", 1), "TERMINATED"),
]


@pytest.mark.parametrize(("line", "before", "act", "after"), STAGE_LINES, ids=[x[0] for x in STAGE_LINES])
async def test_stages_move_as_the_table_says(
    case: Case, line: str, before: str, act: Act, after: str
) -> None:
    await into(case, before)
    await act(case)
    assert await case.stage() == after, line


@pytest.mark.parametrize(
    ("line", "given", "before", "after"),
    [
        ("create: Available", {"entry": "flag(go)"}, "AVAILABLE", "ACTIVE"),
        ("enable: Available to Enabled", {"entry": "flag(go)", "manual": True}, "AVAILABLE", "ENABLED"),
        ("start: Available to Active, without criterion", {}, "ACTIVE", "ACTIVE"),
        ("exit: Active to Terminated", {"exit": "flag(go)"}, "ACTIVE", "TERMINATED"),
        ("exit: Enabled to Terminated", {"exit": "flag(go)", "manual": True}, "ENABLED", "TERMINATED"),
        (
            "exit: Available, where the criterion waits here",
            {"entry": "flag(never)", "exit": "flag(go)"},
            "AVAILABLE",
            "AVAILABLE",
        ),
        ("an entry criterion of two parts", {"entry": "flag(go) and flag(too)"}, "AVAILABLE", "AVAILABLE"),
        ("one of two entry criteria", {"entry": "flag(go) or flag(too)"}, "AVAILABLE", "ACTIVE"),
    ],
)
async def test_criteria_move_stages(
    case: Case, line: str, given: dict[str, Any], before: str, after: str
) -> None:
    await case.inner(**given)
    assert await case.stage() == before
    await flag(case.at, go=True)
    assert await case.stage() == after, line


@pytest.mark.parametrize("before", ["SUSPENDED", "FAULTED"])
async def test_exit_ends_a_stage_that_is_paused_or_faulted(case: Case, before: str) -> None:
    await into(case, before, exit="flag(go)")
    await flag(case.at, go=True)
    assert await case.stage() == "TERMINATED"


async def test_a_stage_fails_and_completes_by_what_is_in_it(case: Case) -> None:
    await case.inner()
    one, two = await plan(case.at, "one", "two", stage=2, retries=0)
    await fault(case.at, one)
    assert await case.stage() == "FAULTED", "fault: Active to Failed"
    await retry(case.at, one, TaskState.COMPLETED)
    await take(case.at, "bob", two)
    await settle(case.at, "bob", "done", two)
    assert await case.stage() == "COMPLETED", "complete: Active to Completed"
    assert await case.stage(1) == "ACTIVE", "it has another stage"


@pytest.mark.parametrize("state", ["ACTIVE", "SUSPENDED", "FAULTED", "COMPLETED", "TERMINATED"])
@pytest.mark.parametrize("op", ["start", "suspend", "resume", "terminate"])
async def test_what_the_table_does_not_have_is_refused(case: Case, state: str, op: StageOp) -> None:
    allowed = {
        "ACTIVE": {"suspend", "terminate"},
        "SUSPENDED": {"resume", "terminate"},
        "FAULTED": {"suspend", "terminate"},
    }
    await into(case, state)
    if op in allowed.get(state, ()):
        await move(case.at, op, 2)
        return
    seq = await case.at.seq()
    with pytest.raises(Refused, match=f"G-2 is {state}"):
        await move(case.at, op, 2)
    assert (await case.stage(), await case.at.seq()) == (state, seq)


# Milestones.
@pytest.mark.parametrize(
    ("line", "act", "after"),
    [
        ("occur: Available to Completed", lambda case: flag(case.at, go=True), "COMPLETED"),
        ("terminate: Available to Terminated", by_hand("terminate"), "TERMINATED"),
        ("parent terminate: Available to Terminated", by_hand("terminate", 1), "TERMINATED"),
        ("suspend, by its parent alone, where it stays", by_hand("suspend", 1), "AVAILABLE"),
        ("resume, by its parent", parent_resumes, "AVAILABLE"),
    ],
)
async def test_milestones_move_as_the_table_says(case: Case, line: str, act: Act, after: str) -> None:
    await case.inner(kind="milestone", entry="flag(go)")
    assert await case.stage() == "AVAILABLE", "create"
    await act(case)
    assert await case.stage() == after, line


@pytest.mark.parametrize("op", ["start", "suspend", "resume"])
async def test_milestones_are_moved_by_no_hand(case: Case, op: StageOp) -> None:
    await case.inner(kind="milestone", entry="flag(go)")
    with pytest.raises(Refused, match="is a milestone"):
        await move(case.at, op, 2)


async def test_what_occurs_while_the_stage_is_suspended_counts_once_it_goes_on(case: Case) -> None:
    await case.inner(kind="milestone", entry="flag(go)")
    await move(case.at, "suspend", 1)
    await flag(case.at, go=True)
    await flag(case.at, go=False)
    assert await case.stage() == "AVAILABLE"
    await move(case.at, "resume", 1)
    assert await case.stage() == "COMPLETED"


# Tasks: whoever claims a task starts it by hand.
@pytest.mark.parametrize(
    ("line", "before", "act", "after"),
    [
        ("manual start", "PENDING", lambda case: take(case.at, "bob", 1), "RUNNING"),
        ("suspend", "RUNNING", lambda case: settle(case.at, "bob", "extend", 1, "the tide"), "WAITING"),
        ("resume", "WAITING", lambda case: settle(case.at, "bob", "extend", 1), "RUNNING"),
        ("complete", "RUNNING", lambda case: settle(case.at, "bob", "done", 1), "COMPLETED"),
        ("fault", "RUNNING", lambda case: settle(case.at, "bob", "fail", 1, "no"), "FAULTED"),
        ("reactivate", "FAULTED", lambda case: retry(case.at, 1, TaskState.PENDING), "PENDING"),
        *(
            (
                f"terminate {state}",
                state,
                lambda case: case.at.store.plan("main", "alice", [], cancel=[1]),
                "CANCELLED",
            )
            for state in ("PENDING", "RUNNING", "WAITING", "REVIEW", "FAULTED")
        ),
        *(
            (f"exit {state}, as the stage ends", state, by_hand("terminate", 1), "CANCELLED")
            for state in ("PENDING", "RUNNING", "WAITING", "REVIEW", "FAULTED")
        ),
        ("parent suspend, where it stays", "RUNNING", by_hand("suspend", 1), "RUNNING"),
        ("Completed is final", "COMPLETED", by_hand("terminate", 1), "COMPLETED"),
    ],
)
async def test_tasks_move_as_the_table_says(case: Case, line: str, before: str, act: Act, after: str) -> None:
    await case.work(before)
    assert await case.task() == before
    await act(case)
    assert await case.task() == after, line


async def test_a_task_is_enabled_by_its_criterion_and_its_stage(case: Case) -> None:
    await define(case.at, NewStage("around", entry="flag(begin)"))
    await plan(case.at, "the task", stage=1, trigger="flag(go)")
    assert (await task(case.at, 1)).blocked_by == ("stage G-1 AVAILABLE", "trigger flag(go)")
    await flag(case.at, go=True)
    await flag(case.at, go=False, begin=True)
    assert (await task(case.at, 1)).ready, "the criterion held once"
    await move(case.at, "suspend", 1)
    assert not (await task(case.at, 1)).ready, "parent suspend"
    with pytest.raises(Refused, match="stage G-1 SUSPENDED"):
        await take(case.at, "bob", 1)
    await move(case.at, "resume", 1)
    assert (await task(case.at, 1)).ready, "parent resume"


async def test_a_held_task_of_a_suspended_stage_is_not_done_but_may_be_given_back(case: Case) -> None:
    await case.work("RUNNING")
    await move(case.at, "suspend", 1)
    with pytest.raises(Refused, match="SUSPENDED"):
        await settle(case.at, "bob", "done", 1)
    await settle(case.at, "bob", "release", 1, "half of it")
    assert await case.task() == "PENDING"


@pytest.mark.parametrize(("wait", "state"), [(True, "WAITING"), (False, "COMPLETED")])
async def test_a_process_task_blocks_or_not(case: Case, wait: bool, state: str) -> None:
    await plan(case.at, "the task", sub=SubBoard("low", wait=wait))
    await below(case.at)
    assert await case.at.store.begin_sub_board(case.at.board, 1)
    assert await case.task() == state


async def test_rules_have_their_defaults_and_times(case: Case) -> None:
    """Required is evaluated as the parent begins; what is not said is required, automatic and completes by itself."""
    around = [NewStage("around", entry="flag(begin)"), NewStage("maybe", parent=-1, required="flag(must)")]
    await define(case.at, *around, NewStage("plain", parent=-2, entry="flag(never)"))
    await plan(case.at, "in it", stage=1)
    await flag(case.at, must=True)
    await flag(case.at, begin=True)
    await flag(case.at, must=False)
    found = await stages(case.at)
    assert [(found[n].required, found[n].manual, found[n].autocomplete) for n in (2, 3)] == 2 * [
        (True, False, True)
    ]
    assert (await task(case.at, 1)).required


LACKING = {
    "Disabled": "disable and re-enable",
    "repetition": "RepetitionRule",
    "timer": "TimerEventListener",
    "user event": "UserEventListener",
    "discretionary": "planning tables",
    "completed by hand": "manual completion",
    "default": "defaults of the rules",
}


@pytest.mark.parametrize("word", LACKING)
def test_the_how_to_says_what_is_not_here(word: str) -> None:
    told = HOW_TO.read_text("utf-8").partition("### What differs from CMMN")[2].partition("\n## ")[0]
    assert word in told, LACKING[word]
