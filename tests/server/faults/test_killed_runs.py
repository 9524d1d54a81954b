"""A run of agents on two servers that are killed again and again: each round once, one answer, nothing lost (F37)."""

from __future__ import annotations

import contextlib
import http.client
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from injecting import Server, log_of, tool, wires
from patience import RUN

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")

ROUNDS = 12
KILLS = 6
FILLER = "We measured the flow, the price and the seals of each pump on the long list once more. " * 3
GONE = (OSError, http.client.HTTPException, ConnectionError, AssertionError, ValueError)
"""What a client meets whose server is killed: AssertionError is an answer that was cut off."""


class Team:
    """Agents that loop on `turn` until the run is finished, whatever becomes of their servers."""

    def __init__(self, over: str, data: Path, log: Path) -> None:
        self.over, self.data, self.log = over, data, log
        self.server = Server(data, log.with_suffix(".http"), "--tools", "all", "--target-tokens", "600")
        self.stdio: subprocess.Popen[bytes] | None = None
        self.calls = 0
        self.wrong: list[BaseException] = []

    @contextmanager
    def wire(self, agent: str) -> Iterator[Any]:
        if agent != "ben":
            with contextlib.closing(
                wires.HttpWire(self.server.url, self.server.pid, agent, modern=True)
            ) as wire:
                yield wire
            return
        words = wires.command("serve", "--data", str(self.data), "--agent", agent, "--tools", "all")
        with self.log.open("ab") as err:
            process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, env=wires.environment()
            )
        self.stdio = process
        try:
            yield wires.StdioWire(process, modern=False)
        finally:
            process.kill()
            process.wait()
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(OSError):
                process.stdin.close()
            process.stdout.close()

    def loop(self, agent: str) -> None:
        """Plays one agent, over again whenever the server is gone."""
        ends = time.monotonic() + RUN
        while time.monotonic() < ends:
            try:
                with self.wire(agent) as wire:
                    while self.step(agent, wire):
                        pass
                return
            except GONE:
                time.sleep(0.1)
            except BaseException as error:
                self.wrong.append(error)
                return
        self.wrong.append(TimeoutError(agent))

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
            tool(wire, "turn", decision=raw, lease=now["lease"], seconds=0)
        elif now["kind"] == "answer":
            found = [e["data"]["item"] for e in log_of(wire) if e["event"] == "turn.ended"]
            tool(wire, "finalize", text="The blue pump.", cites=found)
        return True


def test_a_run_whose_servers_are_killed_goes_on_to_one_cited_answer(tmp_path: Path) -> None:
    """Two processes on one file, over HTTP and stdio; pruning takes contributions meanwhile."""
    team = Team("both", tmp_path / "data", tmp_path / "log")
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
        threads = [
            threading.Thread(target=team.loop, args=(name,), daemon=True) for name in ("ann", "ben", "cara")
        ]
        for thread in threads:
            thread.start()
        for kill in range(KILLS):
            time.sleep(chance.uniform(0.2, 1.5))
            if kill % 3 == 2 and team.stdio is not None:
                team.stdio.kill()
            else:
                team.server.stop(signal.SIGKILL)
                team.server.start()
        for thread in threads:
            thread.join(RUN)
            assert not team.wrong
        events = log_of(team.server.wire)
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        given = [e for e in events if e["event"] == "turn.given" and e["data"]["kind"] == "contribute"]
        assert [e["data"]["round"] for e in given] == list(range(1, ROUNDS + 1))
        ended = [e for e in events if e["event"] == "turn.ended"]
        assert [e["data"]["lease"] for e in ended] == [e["seq"] for e in given]
        contributed = [e["data"]["item"] for e in ended]
        assert len(set(contributed)) == ROUNDS
        finished = [e for e in events if e["event"] == "run.finished"]
        assert len(finished) == 1
        assert finished[0]["data"]["cites"] == contributed
        posted = [e["item"] for e in events if e["event"] == "item.posted"]
        assert [id_ for id_ in posted if id_.startswith("A-")] == [finished[0]["data"]["answer"]]
        assert any(e["event"] == "item.archived" and e["item"] in contributed for e in events), (
            "nothing was pruned"
        )
        assert all(
            "in round" in tool(team.server.wire, "read", ids=[id_])["items"][0]["text"] for id_ in contributed
        )
    finally:
        team.server.abandon()
