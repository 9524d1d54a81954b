"""A run of agents on two servers that are killed again and again: each round once, one answer, nothing lost (F37)."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest
from injecting import log_of, tool
from killing import Team
from patience import RUN, until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")

ROUNDS = 12
KILLS = 6
LOOP = {"terminate": False, "next_agent": "ben", "instruction": "Look at the blue pump."}
FILLER = "We measured the flow, the price and the seals of each pump on the long list once more. " * 3


class Rounds(Team):
    """Agents that loop on `turn` until the run is finished, whatever becomes of their servers.

    The coordinator is `sound`, writes `garbage`, or `loops`: it names the same agent with the same words for ever.
    """

    manner = "sound"

    def step(self, agent: str, wire: Any) -> bool:
        self.calls += 1
        now = tool(wire, "turn", seconds=2)
        if now["state"] == "finished":
            return False
        if now["kind"] == "contribute":
            words = f"{agent} in round {now['round']}: {FILLER}"
            tool(
                wire,
                "turn",
                text=words,
                lease=now["lease"],
                seconds=0,
            )
        elif now["kind"] == "decide":
            who = ("ben", "cara")[now["round"] % 2]
            said = {"terminate": False, "next_agent": who, "instruction": f"Round {now['round'] + 1}: go on."}
            raw: Any = f"I think so: {said}" if now["round"] % 5 == 3 and random.random() < 0.5 else said
            raw = {"garbage": f"Let me think about {ROUNDS} pumps.", "loops": LOOP}.get(self.manner, raw)
            tool(wire, "turn", decision=raw, lease=now["lease"], seconds=0)
        elif now["kind"] == "answer":
            found = [e["data"]["item"] for e in log_of(wire) if e["event"] == "turn.ended"]
            tool(wire, "finalize", text="The blue pump.", cites=found)
        return True


@pytest.mark.parametrize("manner", ["sound", "garbage", "loops"])
def test_a_run_whose_servers_are_killed_goes_on_to_one_cited_answer(tmp_path: Path, manner: str) -> None:
    """Two processes on one file, over HTTP and stdio; pruning takes contributions meanwhile."""
    team = Rounds(tmp_path / "data", tmp_path / "log", over_stdio="ben")
    team.manner = manner
    team.server.start()
    chance = random.Random(5)
    try:
        start = {
            "problem": "Which pump?",
            "agents": ["ben", "cara"],
            "coordinator": "ann",
            "max_rounds": ROUNDS,
        }
        tool(team.server.wire, "turn", start={**start, "decider": "ann"})
        threads = team.begin("ann", "ben", "cara")
        team.kill_servers(KILLS, chance)
        for thread in threads:
            thread.join(RUN)
            assert not team.wrong
        events = log_of(team.server.wire)
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        given = [e for e in events if e["event"] == "turn.given" and e["data"]["kind"] == "contribute"]
        assert [e["data"]["round"] for e in given] == list(range(1, ROUNDS + 1))
        told = [e["data"].get("verdict") for e in events if e["event"] == "decision.made"]
        if manner == "garbage":
            assert told == ["malformed", "malformed", "fallback"]
        elif manner == "loops":
            stalled = [e["data"]["then"] for e in events if e["event"] == "run.stalled"]
            assert stalled[:1] == ["round-robin"]
        ended = [e for e in events if e["event"] == "turn.ended"]
        assert [e["data"]["lease"] for e in ended] == [e["seq"] for e in given]
        contributed = [e["data"]["item"] for e in ended]
        assert len(set(contributed)) == ROUNDS
        finished = [e for e in events if e["event"] == "run.finished"]
        assert len(finished) == 1
        assert finished[0]["data"]["cites"] == contributed
        posted = [e["item"] for e in events if e["event"] == "item.posted"]
        assert [id_ for id_ in posted if id_.startswith("A-")] == [finished[0]["data"]["answer"]]
        until(
            lambda: any(
                e["event"] == "item.archived" and e["item"] in contributed for e in log_of(team.server.wire)
            ),
            "nothing was pruned",
        )
        assert all(
            "in round" in tool(team.server.wire, "read", ids=[id_])["items"][0]["text"] for id_ in contributed
        )
    finally:
        team.server.abandon()
