"""A plan with stages and milestones on two servers that are killed again and again (F42, F43, F70, F76)."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from injecting import log_of, tool
from killing import Team
from patience import RUN

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")

KILLS = 10
SKILLS = {"ann": "survey", "ben": "build", "cara": "build", "dan": "test", "eve": "write"}
"""Five agents, each with its role: `dan` confirms as well."""
STAGES = [
    {"title": "survey"},
    {"title": "build", "entry": "milestone(mapped)"},
    {"title": "ship", "entry": "done(G-2) and milestone(tested)"},
    {"title": "mapped", "kind": "milestone", "entry": "done(G-1)"},
    {"title": "first part", "kind": "milestone", "parent": "$2", "entry": "count(type=RESULT) >= 6"},
    {"title": "built", "kind": "milestone", "entry": "done(G-2)"},
    {"title": "written", "kind": "milestone", "entry": "done(G-3)"},
    {"title": "all done", "kind": "milestone", "entry": "milestone(built) and milestone(written)"},
]
PARTS = [f"${n}" for n in range(4, 9)]
TESTED = {"title": "tested", "kind": "milestone", "entry": "done(T-10) and no_open_debates()"}
TASKS = [
    *({"title": f"map {n}", "skill": "survey", "stage": "G-1"} for n in range(3)),
    *(
        {"title": f"part {n}", "skill": "build", "stage": "G-2", "paths": [f"file:src/{n}/**"]}
        for n in range(5)
    ),
    {"title": "join the parts", "skill": "build", "stage": "G-2", "after": PARTS, "verify": True},
    {"title": "try it", "skill": "test", "after": ["$9"]},
    {"title": "polish", "stage": "G-2", "required": False, "trigger": "flag(never)"},
    {"title": "pack", "skill": "build", "stage": "G-3"},
    {"title": "tell", "skill": "write", "stage": "G-3", "after": ["$12"]},
    {"title": "close", "trigger": "milestone(all done)"},
]


class Crew(Team):
    """Agents that loop on `claim` until the last task is done."""

    def __init__(self, data: Path, log: Path) -> None:
        super().__init__(data, log, over_stdio="cara")
        self.over = threading.Event()

    def step(self, agent: str, wire: Any) -> bool:
        agenda = tool(wire, "plan")
        tasks = {task["id"]: task for task in agenda["items"]}
        for id_ in agenda["mine"]:
            tool(
                wire,
                "claim",
                id=id_,
                op="done",
                lease=tasks[id_]["lease"],
                text=f"{agent} did {tasks[id_]['title']}",
            )
        if agent == "dan":
            for id_ in agenda["review"]:
                tool(wire, "claim", id=id_, op="verify", ok=True, text="I tried it.")
        if not agenda["items"]:
            return False
        tool(wire, "claim", skills=[SKILLS[agent]], seconds=2)
        return True


def holders(events: Sequence[Any]) -> dict[str, list[str]]:
    """Replays leases of tasks; returns for each task who completed it. No task ever has two holders."""
    held: dict[str, str] = {}
    done: dict[str, list[str]] = {}
    for event in events:
        task = event["data"].get("task")
        match event["event"]:
            case "claim.taken":
                assert task not in held, f"{event['agent']} took {task} from {held[task]}"
                held[task] = event["agent"]
            case "claim.done":
                assert held.pop(task) == event["agent"]
                done.setdefault(task, []).append(event["agent"])
            case "claim.released" | "claim.lapsed" | "claim.failed":
                held.pop(task, None)
    return done


def test_a_plan_whose_servers_are_killed_is_done_once(tmp_path: Path) -> None:
    """Five roles, 14 tasks, 6 milestones, 10 kills: nothing is lost, nothing is done twice."""
    crew = Crew(tmp_path / "data", tmp_path / "log")
    crew.server.start()
    try:
        tool(crew.server.wire, "stage", define=STAGES)
        tool(crew.server.wire, "plan", items=TASKS)
        tool(crew.server.wire, "stage", define=TESTED)
        threads = crew.begin(*SKILLS)
        crew.kill_servers(KILLS, random.Random(7))
        for thread in threads:
            thread.join(RUN)
            assert not crew.wrong
        events = log_of(crew.server.wire)
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        done = holders(events)
        assert sorted(done, key=lambda id_: int(id_[2:])) == [f"T-{n}" for n in (*range(1, 11), 12, 13, 14)]
        assert all(len(by) == 1 for by in done.values()), done
        moved = [e["data"] for e in events if e["event"] == "stage.moved"]
        reached = [data["title"] for data in moved if data["kind"] == "milestone"]
        assert sorted(reached) == sorted(s["title"] for s in [*STAGES, TESTED] if s.get("kind"))
        assert {data["title"] for data in moved if data["to"] == "COMPLETED" and data["kind"] == "stage"} == {
            "survey",
            "build",
            "ship",
        }
        results = [e for e in events if e["event"] == "item.posted" and e["item"].startswith("E-")]
        assert len(results) == 13
        cancelled = [e["data"]["task"] for e in events if e["event"] == "plan.cancelled"]
        assert cancelled == ["T-11"], "its stage was completed without it"
    finally:
        crew.server.abandon()
