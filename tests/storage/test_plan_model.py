"""The lifecycle tables of the plan model that plans come from, played on plans and stages of ours.

A line of a table is: what its tests are about, the script, and the states after it. Where ours differs on purpose, the
line says what it was `there`; the reasons stand in the how-to, under "What differs from CMMN".

A script is a list of words: `+go` and `-go` set a flag; `start`, `suspend`, `resume`, `terminate` move the stage;
`must` and `may` plan a required and an optional task in it, `free` one outside; `take`, `do`, `fault`, `retry`, `waive`
and `cancel` are done to the task with the number that follows. What is refused ends in `!`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from blackboard_mcp.protocols.agenda import TaskState
from blackboard_mcp.protocols.board import BoardChange, Lifecycle
from blackboard_mcp.protocols.errors import Conflict, Refused, UnknownReference
from blackboard_mcp.protocols.events import SYSTEM
from blackboard_mcp.protocols.stages import NewStage
from blackboard_mcp.protocols.sub_boards import SubBoard
from blackboard_mcp.storage.memory import open_memory_store
from blackboard_mcp.storage.testing.harness import HandClock, Table
from blackboard_mcp.storage.testing.kit.planning import plan, said, settle, take, task
from blackboard_mcp.storage.testing.kit.staging import define, do, fault, flag, move, retry, stages
from blackboard_mcp.storage.testing.kit.sub_boards import below

MOVES: Any = ("start", "suspend", "resume", "terminate")
CHANGES = {"take": take, "do": do, "fault": fault}


@pytest.fixture
async def at() -> AsyncIterator[Table]:
    store = await open_memory_store(clock=HandClock())
    yield Table(store)
    await store.close()


async def step(at: Table, word: str, number: int, stage: int = 1) -> None:
    """Does what one word of a script says."""
    if word[0] in "+-":
        await flag(at, **{word[1:]: word[0] == "+"})
    elif word in MOVES:
        await move(at, word, stage)
    elif word in ("must", "may", "free"):
        await plan(at, word, stage=0 if word == "free" else stage, required=word == "must", retries=0)
    elif word in ("retry", "waive"):
        await retry(at, number, TaskState.PENDING if word == "retry" else TaskState.COMPLETED)
    elif word == "cancel":
        await at.store.plan(at.board, "alice", [], cancel=[number], why="so")
    elif word == "take":
        await take(at, f"agent{number}", number)
    else:
        await CHANGES[word](at, number=number, agent=f"agent{number}")


async def play(at: Table, script: str) -> None:
    words = iter(script.split())
    for word in words:
        name = word.rstrip("!")
        number = (
            int(next(words).rstrip("!")) if name in ("take", "do", "fault", "retry", "waive", "cancel") else 0
        )
        if word.endswith("!"):
            seq = await at.seq()
            with pytest.raises((Refused, Conflict)):
                await step(at, name, number)
            assert await at.seq() == seq, f"{word} was refused and changed something"
        else:
            await step(at, name, number)


async def state(at: Table, number: int = 1) -> str:
    return str((await stages(at))[number].state)


# Stages: what keeps one from beginning, what ends it, and what does nothing.
STAGES: list[tuple[str, dict[str, Any], str, str]] = [
    ("a new stage with an entry condition is pending", {"entry": "flag(go)"}, "", "AVAILABLE"),
    ("a pending stage whose entry is not met stays so", {"entry": "flag(go)"}, "+other must", "AVAILABLE"),
    ("a pending stage activates when its entry is met", {"entry": "flag(go)"}, "+go", "ACTIVE"),
    ("a stage without entry condition activates; there, in the next cycle", {}, "", "ACTIVE"),
    ("a stage with a met entry condition activates at once", {"entry": "true"}, "", "ACTIVE"),
    ("manual activation keeps it from beginning; there it stays pending", {"manual": True}, "", "ENABLED"),
    ("and by hand it begins", {"manual": True}, "start", "ACTIVE"),
    ("an active stage whose exit is not met stays active", {"exit": "flag(go)"}, "+other must", "ACTIVE"),
    (
        "an active stage whose exit is met is terminated",
        {"exit": "flag(go)"},
        "must take 1 +go",
        "TERMINATED",
    ),
    ("work that is done satisfies the exit", {"exit": "done(T-1)"}, "do 1", "TERMINATED"),
    ("suspended, and resumed", {}, "suspend resume", "ACTIVE"),
    ("terminated from active", {}, "terminate", "TERMINATED"),
    ("terminated from suspended", {}, "suspend terminate", "TERMINATED"),
    ("activating what is completed does nothing; here it is refused", {}, "must do 1 start!", "COMPLETED"),
    ("a terminal stage stays so", {}, "terminate start! suspend! resume! terminate!", "TERMINATED"),
    ("a fault after the end changes nothing", {}, "must do 1 fault! 1", "COMPLETED"),
    # A suspended stage is completed there; here what is in it rests until it is resumed.
    ("nothing completes a suspended stage", {}, "must suspend do! 1", "SUSPENDED"),
    ("it completes after it was resumed", {}, "must suspend resume do 1", "COMPLETED"),
    # There a faulted stage is terminal. Here it has three ways out, and none is silent.
    ("a faulted required item shows its stage faulted", {}, "must fault 1", "FAULTED"),
    ("tried again", {}, "must fault 1 retry 1", "ACTIVE"),
    ("waived", {}, "must fault 1 waive 1", "COMPLETED"),
    ("terminated", {}, "must fault 1 terminate", "TERMINATED"),
    ("a faulted item that is not required faults nothing", {}, "must may fault 2", "ACTIVE"),
    # Autocompletion.
    ("completes when all required items are done", {}, "must must do 1 do 2", "COMPLETED"),
    ("does not before all required items are done", {}, "must must do 1", "ACTIVE"),
    ("an item that is not required does not keep it open", {}, "must may do 1", "COMPLETED"),
    ("an item that runs keeps it open", {}, "must may take 2 do 1", "ACTIVE"),
    ("an item that is cancelled keeps it open no more", {}, "must must do 1 cancel 2", "COMPLETED"),
    ("items outside count for nothing", {}, "must free do 2", "ACTIVE"),
    ("staged and free work go on side by side", {}, "must free take 1 take 2 do! 1", "ACTIVE"),
    ("autocomplete is on by default, and so it ends without a hand", {}, "must do 1", "COMPLETED"),
    # There a stage without autocomplete waits for a hand; here for all that is in it.
    (
        "without autocomplete required items are not enough",
        {"autocomplete": False},
        "must may do 1",
        "ACTIVE",
    ),
    ("but all are", {"autocomplete": False}, "must may do 1 cancel 2", "COMPLETED"),
    ("a stage that is empty waits for its first item", {}, "+other", "ACTIVE"),
]


@pytest.mark.parametrize(("line", "stage", "script", "after"), STAGES, ids=[line[0] for line in STAGES])
async def test_stages_move_as_their_table_says(
    at: Table, line: str, stage: dict[str, Any], script: str, after: str
) -> None:
    if "done(T-1)" in stage.get("exit", ""):
        await plan(at, "outside", retries=0)
    await define(at, NewStage("intake", **stage))
    before = await at.seq()
    await play(at, script)
    assert await state(at) == after, line
    moved = [e for e in await at.events(after=before) if e.event == "stage.moved"]
    assert [e.data["to"] for e in moved][-1:] == ([after] if moved else []), "each move is an event"


async def test_a_required_item_must_be_there_and_is_not_added_too_late(at: Table) -> None:
    """There a stage waits for ever for an item that nobody registered, or registered after it was done."""
    with pytest.raises(UnknownReference, match="names T-9"):
        await define(at, NewStage("intake", exit="done(T-9)"))
    await define(at, "intake")
    await play(at, "must do 1")
    with pytest.raises(Refused, match="G-1 is COMPLETED"):
        await play(at, "must")


# Nested stages. `outer` is G-1, `inner` G-2 in it, which also has a milestone, G-3.
NESTED: list[tuple[str, dict[str, Any], dict[str, Any], str, str]] = [
    ("pending while its parent is", {"entry": "flag(go)"}, {}, "", "AVAILABLE AVAILABLE"),
    ("active once its parent is; there one cycle later", {"entry": "flag(go)"}, {}, "+go", "ACTIVE ACTIVE"),
    ("its own condition counts as well", {}, {"entry": "flag(in)"}, "", "ACTIVE AVAILABLE"),
    ("and lets it begin", {}, {"entry": "flag(in)"}, "+in", "ACTIVE ACTIVE"),
    ("a condition that held before its parent began", {"entry": "flag(go)"}, {"entry": "flag(in)"}, "+in +go",
     "ACTIVE ACTIVE"),
    ("one after the other", {}, {"entry": "done(T-1)"}, "must do 1", "ACTIVE ACTIVE"),
    ("terminating the parent terminates it", {}, {}, "terminate", "TERMINATED TERMINATED"),
    ("also one that has not begun", {}, {"entry": "flag(in)"}, "terminate", "TERMINATED TERMINATED"),
    ("the parent's exit ends it", {"exit": "flag(out)"}, {}, "+out", "TERMINATED TERMINATED"),
    ("suspended and resumed with it", {}, {}, "suspend resume", "ACTIVE ACTIVE"),
    ("the parent waits for it", {}, {}, "must do 1 +reached", "ACTIVE ACTIVE"),
    ("unless it is not required", {}, {"required": "false", "entry": "flag(in)"}, "must do 1 +reached",
     "COMPLETED TERMINATED"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "outer", "inner", "script", "after"), NESTED, ids=[line[0] for line in NESTED]
)
async def test_nested_stages_follow_their_parent(
    at: Table, line: str, outer: dict[str, Any], inner: dict[str, Any], script: str, after: str
) -> None:
    if "done(T-1)" in inner.get("entry", ""):
        await plan(at, "first", retries=0)
        script = script.removeprefix("must ")
    goal = NewStage("reached", parent=-1, kind="milestone", entry="flag(reached)")
    await define(at, NewStage("outer", **outer), NewStage("inner", parent=-1, **inner), goal)
    await play(at, script)
    assert f"{await state(at, 1)} {await state(at, 2)}" == after, line
    assert (await state(at, 3) == "COMPLETED") == ("+reached" in script)


# Milestones: pending, and achieved for good; one nobody knows is no name.
async def test_milestones_are_achieved_once_and_for_good(at: Table) -> None:
    await define(at, NewStage("docs received", kind="milestone", entry="exists(docs)"))
    (after,) = await plan(at, "read them", trigger='milestone("docs received")')
    assert (await state(at), (await task(at, after)).ready) == ("AVAILABLE", False)
    await at.post("bob", "three files", key="docs")
    await at.delete("bob", "docs")
    assert (await state(at), (await task(at, after)).ready) == ("COMPLETED", True)
    # Achieved before anybody asked for it, it counts; one that nobody has defined yet only waits.
    late, never = [
        (await plan(at, name, trigger=f'milestone("{name}")'))[0] for name in ("docs received", "x")
    ]
    assert [(await task(at, number)).ready for number in (late, never)] == [True, False]
    # A case is complete when its goals are: a stage that has nothing but milestones.
    await define(at, "the case", NewStage("goal", parent=-1, kind="milestone", entry="flag(go)"))
    await flag(at, go=True)
    assert await state(at, 2) == "COMPLETED"


# Plan items. The line, the script, and the states of T-1, T-2 …
ITEMS: list[tuple[str, str, str]] = [
    ("a new item is pending", "free", "PENDING"),
    ("activated it runs", "free take 1", "RUNNING"),
    ("completed from running", "free do 1", "COMPLETED"),
    ("faulted from running", "free fault 1", "FAULTED"),
    ("activating one that runs is an error", "free take 1 take! 1", "RUNNING"),
    ("activating one that is over is an error", "free do 1 take! 1", "COMPLETED"),
    ("activating one that faulted is an error", "free fault 1 take! 1", "FAULTED"),
    ("cancelled from pending", "free cancel 1", "CANCELLED"),
    ("cancelled from running", "free take 1 cancel 1", "CANCELLED"),
    ("cancelling what is completed is an error", "free do 1 cancel! 1", "COMPLETED"),
    ("terminating its stage terminates it, running or not", "must must take 1 terminate", "CANCELLED CANCELLED"),
    ("and not what is outside", "must free terminate", "CANCELLED PENDING"),
    # There faulted is terminal; here it is tried again, or waived.
    ("a faulted item is tried again", "free fault 1 retry 1", "PENDING"),
    ("a faulted item is waived", "free fault 1 waive 1", "COMPLETED"),
    ("retrying what did not fault is an error", "free retry! 1", "PENDING"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "script", "after"), ITEMS, ids=[line[0] for line in ITEMS])
async def test_plan_items_move_as_their_table_says(at: Table, line: str, script: str, after: str) -> None:
    await define(at, "a stage")
    await play(at, script)
    planned = range(1, 1 + len(after.split()))
    assert " ".join([str((await task(at, number)).state) for number in planned]) == after, line


async def test_completing_what_does_not_run_is_an_error(at: Table) -> None:
    (one,) = await plan(at, "one")
    for op in ("done", "fail", "release"):
        with pytest.raises((Refused, Conflict)):
            await settle(at, "bob", op, one, "what?")
    # A worker that nobody knows ends nothing.
    await take(at, "bob", one)
    with pytest.raises(Conflict):
        await settle(at, "unknown-worker", "done", one, "done")
    assert (await task(at, one)).state is TaskState.RUNNING


# The agenda: the highest priority first, of equals the oldest; what runs or is over is not handed out.
async def test_the_agenda_is_by_priority_then_age(at: Table) -> None:
    for title, priority in (("low", 1), ("first", 3), ("second", 3), ("high", 5), ("run", 5), ("gone", 5)):
        await plan(at, title, priority=priority, retries=0)
    await play(at, "take 5 do 6")
    agenda = await at.store.agenda(at.board, "alice")
    assert [t.title for t in agenda.tasks if t.ready] == ["high", "first", "second", "low"]
    assert [t.title for t in (await at.store.agenda(at.board, "alice", limit=2)).tasks] == ["high", "first"]
    taken = [(await take(at, f"a{n}")).task for n in range(4)]
    assert [t.title for t in taken if t] == ["high", "first", "second", "low"]
    assert await at.store.take_task(at.board, "bob") is None


# One active item for each binding: while one runs no other does; once it is over, or faulted, the next may.
@pytest.mark.parametrize(
    ("script", "free"), [("", True), ("take 1", False), ("do 1", True), ("fault 1", True), ("cancel 1", True)]
)
async def test_a_binding_has_one_active_item(at: Table, script: str, free: bool) -> None:
    await plan(at, "one", "two", worker="agent1", retries=0)
    await play(at, script)
    if free:
        assert (await take(at, "agent1", 2)).task is not None
        return
    with pytest.raises(Conflict, match="only one task for agent1"):
        await take(at, "agent1", 2)


# Sub-cases: what becomes of the item that a board below does. The line, what happened below, `fail`, the state here.
SUB: list[tuple[str, str, str, str]] = [
    ("completed: completed", "answered", "fault", "COMPLETED"),
    ("faulted: faulted", "settled", "fault", "FAULTED"),
    ("faulted, and a strategy that does without", "settled", "complete", "COMPLETED"),
    # There whatever else ends the child terminates the item; here it counts as no answer.
    ("cancelled", "closed", "fault", "FAULTED"),
    ("not below any more", "moved", "fault", "FAULTED"),
    # There a child that waits, or is suspended, terminates the item; here the item waits for it.
    ("waiting: the item waits", "", "fault", "WAITING"),
]


@pytest.mark.parametrize(("line", "happened", "fail", "after"), SUB, ids=[line[0] for line in SUB])
async def test_sub_cases_end_as_their_table_says(
    at: Table, line: str, happened: str, fail: Any, after: str
) -> None:
    (number,) = await plan(at, "look", sub=SubBoard("low", fail=fail), retries=0)
    await below(at)
    assert await at.store.begin_sub_board(at.board, number)
    change: dict[str, Any] = {
        "answered": {"lifecycle": Lifecycle.SETTLED},
        "settled": {"lifecycle": Lifecycle.SETTLED},
        "closed": {"lifecycle": Lifecycle.CLOSED},
        "moved": {"parent": ""},
    }
    if happened == "answered":
        await Table(at.store, "low").post("bob", "Nine.", "ANSWER")
    if happened:
        await at.store.change_board("low", SYSTEM, BoardChange(**change[happened]))
    for due in await at.store.sub_boards_due():
        ok = not due.trouble
        assert ok == (happened == "answered")
        await at.store.end_sub_board(at.board, number, due.lease, said(due.trouble or "Nine."), ok=ok)
    ended = await task(at, number)
    assert str(ended.state) == after, line
    assert (ended.result is not None) == (happened == "answered")


async def test_without_waiting_an_item_is_over_once_it_was_given_below(at: Table) -> None:
    (number,) = await plan(at, "look", sub=SubBoard("low", wait=False))
    await below(at)
    assert await at.store.begin_sub_board(at.board, number)
    assert (await task(at, number)).state is TaskState.COMPLETED
