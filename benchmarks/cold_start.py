"""CPU and time of a start over stdio, up to the list of tools, beside a no-op server on the same SDK in the same run.

    python benchmarks/cold_start.py [--starts 7]

A start is a process, the handshake, the answer to `tools/list`, and the end of the input. The least of the starts
counts, taken in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NOOP = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("noop", version="0")


@server.tool()
async def noop(text: str) -> str:
    return text


server.run("stdio")
"""
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "cold", "version": "0"},
}


def message(method: str, number: int | None = None, **params: object) -> bytes:
    named = {} if number is None else {"id": number}
    return json.dumps({"jsonrpc": "2.0", **named, "method": method, "params": params}).encode() + b"\n"


def start(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Seconds of CPU of a whole start, and seconds until the list of tools was there."""
    before, began = os.times(), time.perf_counter()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(message("initialize", 1, **INITIALIZE))
        process.stdin.flush()
        assert "result" in json.loads(process.stdout.readline())
        process.stdin.write(message("notifications/initialized") + message("tools/list", 2))
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["tools"]
        listed = time.perf_counter() - began
        process.stdin.close()
        process.stdout.read()
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return spent, listed


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--starts", type=int, default=7)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "BLACKBOARD_DATA": str(Path(folder, "data"))}
        # As installed: modules are compiled once.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        noop = Path(folder, "noop.py")
        noop.write_text(NOOP)
        program = str(Path(sys.executable).with_name("blackboard-mcp"))
        commands = {"no-op": [sys.executable, str(noop)], "serve": [program, "serve"]}
        for command in commands.values():
            start(command, environment)
        best: dict[str, tuple[float, float]] = {}
        for _ in range(given.starts):
            for name, command in commands.items():
                cpu, wall = start(command, environment)
                least = best.get(name, (cpu, wall))
                best[name] = (min(cpu, least[0]), min(wall, least[1]))
        cpu, wall = best["no-op"]
        for name, (own_cpu, own_wall) in best.items():
            print(
                f"{name:>8} CPU {own_cpu * 1000:6.0f} ms  {own_cpu / cpu:4.2f}   "
                f"first list {own_wall * 1000:6.0f} ms  {own_wall / wall:4.2f}"
            )


if __name__ == "__main__":
    main()
