"""Eight agents that ask for the same tasks, in two processes and over both transports (F44, F70, I28, I34)."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from injecting import log_of, tool
from killing import Team
from patience import RUN
from profiles import NIGHTLY

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="servers are stopped by signals")

TASKS = 1_000 if NIGHTLY else 80
ASKERS = [f"asker{n}" for n in range(8)]


class Askers(Team):
    """Agents that take and end tasks until there are none."""

    def step(self, agent: str, wire: Any) -> bool:
        taken = tool(wire, "claim", seconds=0)
        if taken["id"] is None:
            return False
        tool(wire, "claim", id=taken["id"], op="done", lease=taken["lease"])
        return True


def test_I28_each_task_has_one_holder_and_leases_rise(tmp_path: Path) -> None:
    """The last asker has a process of its own over stdio; the others share one over HTTP."""
    askers = Askers(tmp_path / "data", tmp_path / "log", over_stdio=ASKERS[-1])
    askers.server.start()
    try:
        wire = askers.server.wire
        for begin in range(0, TASKS, 80):
            many = min(80, TASKS - begin)
            tool(wire, "plan", items=[{"title": f"task {begin + n}"} for n in range(many)])
        threads: list[threading.Thread] = askers.begin(*ASKERS)
        for thread in threads:
            thread.join(RUN)
            assert not askers.wrong
        events = [e for e in log_of(wire) if e["event"].startswith("claim.")]
        leases = [e["seq"] for e in events if e["event"] == "claim.taken"]
        assert leases == sorted(set(leases))
        held: dict[str, tuple[str, int]] = {}
        for event in events:
            task, agent = event["data"]["task"], event["agent"]
            if event["event"] == "claim.taken":
                assert task not in held, f"{agent} and {held[task]} hold {task}"
                held[task] = (agent, event["seq"])
            else:
                assert held[task] == (agent, event["data"]["lease"])
        assert len(held) == len(leases) == TASKS
        assert held.keys() == {e["data"]["task"] for e in events if e["event"] == "claim.done"}
        assert {agent for agent, _ in held.values()} == set(ASKERS), "everybody had a part"
    finally:
        askers.server.abandon()


FIT = TASKS // 3


def test_I34_no_more_tasks_are_handed_out_than_the_budget_has_room_for(tmp_path: Path) -> None:
    """One process hands out over HTTP, the other over stdio; each task costs a tenth."""
    askers = Askers(tmp_path / "data", tmp_path / "log", over_stdio=ASKERS[-1])
    askers.server.start()
    try:
        wire = askers.server.wire
        for begin in range(0, TASKS, 80):
            many = min(80, TASKS - begin)
            tool(wire, "plan", items=[{"title": f"task {begin + n}", "cost": 0.1} for n in range(many)])
        tool(wire, "plan", budget={"cost": FIT / 10})
        threads: list[threading.Thread] = askers.begin(*ASKERS)
        for thread in threads:
            thread.join(RUN)
            assert not askers.wrong
        events = log_of(wire)
        assert len([e for e in events if e["event"] == "claim.taken"]) == FIT
        assert len([e for e in events if e["event"] == "budget.blocked"]) == 1
        budget = tool(wire, "plan")["budget"]
        assert (budget["used"]["steps"], budget["used"]["cost"], budget["held"]["cost"]) == (FIT, FIT / 10, 0)
    finally:
        askers.server.abandon()
