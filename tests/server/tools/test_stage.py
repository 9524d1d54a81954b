"""`stage` through real clients: phases and milestones that begin and end by conditions (F43)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import boards
import pytest

mode, both = boards.mode, boards.both


@pytest.fixture
async def board(tmp_path: Path, mode: str) -> AsyncIterator[Any]:
    async with boards.open_boards(tmp_path, mode, tools=("core", "plan", "admin")) as opened:
        yield opened


PHASES = [
    {"title": "survey"},
    {"title": "build", "entry": "done(G-1)"},
    {"title": "tests", "parent": "$2"},
    {"title": "beta", "kind": "milestone", "entry": "count(type=RESULT) >= 2 and no_open_debates()"},
]


@both
async def test_a_plan_goes_through_its_stages(board: Any, mode: str) -> None:
    ann, ben = await board.join("ann", "ben")
    assert "no stages: stage(define=" in await ann.say("stage")
    assert (await ann.say("stage", define=PHASES)).splitlines()[:-1] == [
        "G-1 ACTIVE (waits for its first task): survey",
        "G-2 AVAILABLE (waits for done(G-1)): build",
        "  G-3 AVAILABLE (G-2 is AVAILABLE): tests",
        "G-4 milestone AVAILABLE (waits for count(type=RESULT) >= 2 and no_open_debates()): beta",
    ]
    await ann.do(
        "plan",
        items=[
            {"title": "look", "stage": "G-1"},
            {"title": "saw", "stage": "G-2"},
            {"title": "try", "stage": "G-3", "required": True},
            {"title": "tell", "trigger": "milestone(beta)"},
        ],
    )
    assert "T-2 waits for stage G-2 AVAILABLE" in await ben.say("plan")
    assert "T-4 waits for trigger milestone(beta)" in await ben.say("plan")
    assert (await ben.do("claim"))["id"] == "T-1"
    await ben.do("claim", op="done", text="Nine stations.")
    assert (await ben.do("claim"))["id"] == "T-2"
    await ben.do("claim", op="done", text="A table.")
    tree = (await ann.say("stage")).splitlines()
    assert tree[1:3] == ["G-2 ACTIVE (waits for G-3): build", "  G-3 ACTIVE (waits for T-3): tests"]
    assert tree[3].startswith("G-4 milestone COMPLETED")
    ready = {task["id"] for task in (await ben.do("plan"))["items"] if task["ready"]}
    assert ready == {"T-3", "T-4"}
    found = await ann.do("stage", id="G-2")
    assert [(one["id"], one["state"], one["tasks"]) for one in found["stages"]] == [("G-2", "ACTIVE", [])]
    changes = (await ann.say("read", since=0)).splitlines()
    assert any("G-1 COMPLETED: survey" in line for line in changes)
    assert any("milestone G-4 COMPLETED" in line for line in changes)
    assert any("T-4 may begin, milestone(beta) held: tell" in line for line in changes)


@both
async def test_a_task_that_waits_for_a_trigger_is_not_called_ready(board: Any, mode: str) -> None:
    ann, ben = await board.join("ann", "ben")
    await ann.do(
        "plan", items=[{"title": "look"}, {"title": "tell", "after": ["$1"], "trigger": "exists(plan:told)"}]
    )
    await ben.do("claim")
    assert "ready now" not in await ben.say("claim", op="done", text="Nine stations.")
    assert "T-2 waits for trigger exists(plan:told)" in await ben.say("plan")
    await ann.do("plan", items=[{"title": "shout", "after": ["T-2"], "trigger": "exists(plan:told)"}])
    await ann.do("post", text="now", key="plan:told")
    changes = await ann.say("read", since=0)
    assert "ready now" not in changes
    assert "T-2 may begin, exists(plan:told) held: tell" in changes
    assert "T-3 waits no more for its trigger: exists(plan:told) held: shout" in changes


@both
async def test_a_plan_with_its_stages_is_one_call(board: Any, mode: str) -> None:
    ann = await board.join("ann")
    items = [
        {"kind": "stage", "title": "build", "entry": "done($2)"},
        {"title": "look"},
        {"title": "saw", "stage": "$1"},
        {"kind": "milestone", "title": "built", "entry": "done($1)"},
    ]
    assert (await ann.say("plan", items=items)).splitlines()[:-1] == [
        "T-1 ready · p3: look",
        "T-2 waits for stage G-1 AVAILABLE · p3 · G-1: saw",
        "G-1 AVAILABLE (waits for done(T-1)): build",
        "G-2 milestone AVAILABLE (waits for done(G-1)): built",
    ]
    made = await ann.do("plan", items=[{"kind": "stage", "title": "more"}])
    assert [one["id"] for one in made["stages"]] == ["G-3"]
    wrong = await ann.fail("plan", items=[{"kind": "stage", "title": "x", "after": ["T-1"]}])
    assert "Item 1 of items" in wrong["message"]


@both
async def test_a_faulted_stage_names_its_ways_out(board: Any, mode: str) -> None:
    ann, ben = await board.join("ann", "ben")
    await ann.do("stage", define={"title": "build"})
    await ann.do("plan", items=[{"title": "saw", "stage": "G-1", "retries": 0}])
    await ben.do("claim")
    await ben.do("claim", op="fail", text="The saw is broken.")
    text = await ann.say("stage")
    assert text.splitlines()[:2] == [
        "G-1 FAULTED (FAULTED in it: T-1): build",
        'G-1 goes on: plan(items=[{"id": "T-1", "state": "PENDING"}], why="…") tries the task again, "COMPLETED" does '
        'without it; or stage(id="G-1", op="terminate") gives up the stage',
    ]
    assert "G-1 FAULTED: build; stage() says how it goes on" in await ann.say("wait", seconds=0)
    await ann.do("plan", items=[{"id": "T-1", "state": "COMPLETED"}], why="we have planks")
    assert "G-1 COMPLETED" in await ann.say("stage")


@both
async def test_a_stage_is_moved_by_hand(board: Any, mode: str) -> None:
    ann, ben = await board.join("ann", "ben")
    await ann.do("stage", define=[{"title": "ship", "manual": True}])
    await ann.do("plan", items=[{"title": "load", "stage": "G-1"}])
    assert 'G-1 may begin: stage(id="G-1", op="start")' in await ann.say("stage")
    assert "G-1 ENABLED" in await ann.say("stage")
    await ann.do("stage", id="G-1", op="start")
    assert (await ben.do("claim"))["id"] == "T-1"
    text = await ben.say("stage", id="G-1", op="terminate", why="nobody buys")
    assert text.splitlines()[0] == "G-1 TERMINATED (nobody buys): ship"
    assert "T-1 is CANCELLED" in (await ben.fail("claim", op="done", id="T-1", text="Loaded."))["message"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"define": {"title": "x", "entry": "when done"}}, "Allowed are done(T-1)"),
        ({"define": {"title": "x", "entry": "done(T-9)"}}, "names T-9"),
        ({"define": {"entry": "true"}}, "title"),
        ({"define": {"title": "x", "colour": "red"}}, "colour"),
        ({"define": {"title": "x"}, "op": "start"}, "Give define alone"),
        ({"op": "start"}, "needs the id of a stage"),
        ({"why": "so"}, "goes with id and op"),
        ({"id": "G-7"}, "no stage G-7"),
        ({"id": "seven"}, "they look like G-2"),
        ({"id": "G-7", "op": "start"}, "no stage G-7"),
    ],
)
async def test_a_wrong_call_teaches(tmp_path: Path, given: dict[str, Any], told: str) -> None:
    async with boards.open_boards(tmp_path, boards.MODERN, tools=("core", "plan")) as opened:
        ann = await opened.join("ann")
        await ann.post("A fact.")
        assert told in (await ann.fail("stage", **given))["message"]
        assert (await ann.do("stage"))["stages"] == []


async def test_a_program_defines_and_moves_stages(tmp_path: Path) -> None:
    async with boards.open_boards(tmp_path, boards.MODERN, tools=("core", "plan")) as opened:
        ann = await opened.join("ann")
        made = await ann.do(
            "stage", define=[{"title": "a", "exit": "exists(stop)"}, {"title": "b", "parent": "$1"}]
        )
        assert [(one["id"], one["parent"]) for one in made["stages"]] == [("G-1", None), ("G-2", "G-1")]
        await ann.post("enough", key="stop")
        assert [one["why"] for one in (await ann.do("stage"))["stages"]] == [
            "exit: exists(stop)",
            "G-1 TERMINATED",
        ]


async def test_a_task_of_a_suspended_stage_is_not_to_be_ended(board: Any) -> None:
    ann, ben = await board.join("ann", "ben")
    await ann.do("stage", define=[{"title": "survey"}])
    await ann.do("plan", items=[{"title": "look", "stage": "G-1"}, {"title": "tell"}])
    first = (await ben.do("claim", id="T-1"))["lease"]
    await ann.do("stage", id="G-1", op="suspend")
    back = f'claim(id="T-1", lease={first}, op="release", text="…")'
    view = (await ben.say("read")).splitlines()
    place = view.index(f"your tasks (none can be done now, keep what you have: {back}):")
    assert view[place + 1] == f"T-1 lease {first}, stage G-1 SUSPENDED: look"
    assert "T-1 RUNNING by ben, 5m left, stage G-1 SUSPENDED · " in await ann.say("plan")
    release = 'claim(id="…", op="release", text="…")'
    assert (await ben.say("plan")).startswith(
        f"yours (none can be done now, keep what you have: {release}):\n"
    )
    second = (await ben.do("claim", id="T-2"))["lease"]
    done = f'claim(id="T-2", lease={second}, op="done", text="…")'
    assert f"your tasks (end each: {done}):" in await ben.say("read")
    assert (await ben.say("plan")).startswith('yours (end them: claim(id="…", op="done", text="…")):\n')
    await ben.do("claim", id="T-1", op="extend", text="the survey")
    assert "T-1 WAITING by ben for the survey, stage G-1 SUSPENDED · " in await ben.say("plan")
    await ben.do("claim", id="T-1", op="extend")
    await ann.do("stage", id="G-1", op="resume")
    assert f'(end each: claim(id="T-1", lease={first}, op="done", text="…")):' in await ben.say("read")


@pytest.mark.parametrize("lifecycle", ["settled", "closed"])
async def test_no_call_that_is_refused_is_offered_on_a_board_that_takes_no_posts(
    board: Any, lifecycle: str
) -> None:
    ann, ben = await board.join("ann", "ben")
    until = "for good" if lifecycle == "closed" else "until a steward opens it again"
    stopped = f"the board is {lifecycle} and takes no posts {until}"
    await ann.do("plan", items=[{"title": "look"}, {"title": "tell"}])
    await ann.do("stage", define=[{"title": "survey", "manual": True}])
    await ben.do("claim", id="T-1")
    await ann.do("board", lifecycle=lifecycle)
    agenda = (await ben.say("plan")).splitlines()[:-1]
    assert agenda[0] == stopped
    assert agenda[1::2] == ["yours:", "ready:"]
    stages = (await ann.say("stage")).splitlines()[:-1]
    assert len(stages) == 2
    assert stages[1] == stopped


async def test_what_is_empty_on_a_board_that_takes_no_posts_is_not_to_be_filled(board: Any) -> None:
    ann = await board.join("ann")
    await ann.post("One finding.")
    await ann.do("board", lifecycle="settled")
    stopped = "the board is settled and takes no posts until a steward opens it again"
    assert (await ann.say("plan")).splitlines()[0] == f"no open tasks: {stopped}"
    assert (await ann.say("stage")).splitlines()[0] == f"no stages: {stopped}"
