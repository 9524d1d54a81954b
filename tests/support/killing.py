"""Agents on two servers that are killed again and again."""

from __future__ import annotations

import contextlib
import http.client
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from injecting import Server, wires
from patience import RUN

GONE = (OSError, http.client.HTTPException, ConnectionError, AssertionError, ValueError)
"""What a client meets whose server is killed: AssertionError is an answer that was cut off."""


class Team:
    """Agents that work in steps until nothing is left, whatever becomes of their servers.

    `step` of a subclass plays one step of an agent and tells whether there may be more. All share one server over
    HTTP but `over_stdio`, who has one of its own on the same file.
    """

    def __init__(self, data: Path, log: Path, *, over_stdio: str) -> None:
        self.data, self.log, self.over_stdio = data, log, over_stdio
        self.server = Server(data, log.with_suffix(".http"), "--tools", "all", "--target-tokens", "600")
        self.stdio: subprocess.Popen[bytes] | None = None
        self.calls = 0
        self.wrong: list[BaseException] = []

    @contextmanager
    def wire(self, agent: str) -> Iterator[Any]:
        if agent != self.over_stdio:
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
        """Plays one step of an agent; tells whether there may be more."""
        raise NotImplementedError

    def begin(self, *agents: str) -> list[threading.Thread]:
        """Starts the agents."""
        threads = [threading.Thread(target=self.loop, args=(name,), daemon=True) for name in agents]
        for thread in threads:
            thread.start()
        return threads

    def kill_servers(self, times: int, chance: random.Random) -> None:
        """Kills the server over HTTP and, each third time, the one over stdio, at any moment."""
        for kill in range(times):
            time.sleep(chance.uniform(0.2, 1.5))
            if kill % 3 == 2 and self.stdio is not None:
                self.stdio.kill()
            else:
                self.server.stop(signal.SIGKILL)
                self.server.start()
