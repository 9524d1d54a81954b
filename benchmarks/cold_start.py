"""Measures CPU and time of a start over stdio up to the list of tools, compared with a no-op server on the same SDK.

    python benchmarks/cold_start.py [--starts 7]

A start is a process, the handshake, the answer to `tools/list`, and the end of the input. They are taken in turns;
the least and the median of them are told, and how they compare.
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
from statistics import median

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
    """Returns a JSON-RPC message as a line; without a `number` it is a notification."""
    named = {} if number is None else {"id": number}
    return json.dumps({"jsonrpc": "2.0", **named, "method": method, "params": params}).encode() + b"\n"


def start(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Returns the CPU seconds of a whole start, and the seconds until the list of tools arrived."""
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
        # As in an installation, modules are compiled once and kept.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        noop = Path(folder, "noop.py")
        noop.write_text(NOOP)
        program = str(Path(sys.executable).with_name("blackboard-mcp"))
        commands = {"no-op": [sys.executable, str(noop)], "serve": [program, "serve"]}
        for command in commands.values():
            start(command, environment)
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(given.starts):
            for name, command in commands.items():
                taken[name].append(start(command, environment))
        for chosen in (min, median):
            plain = [chosen(each) for each in zip(*taken["no-op"], strict=True)]
            for name, starts in taken.items():
                cpu, wall = (chosen(each) for each in zip(*starts, strict=True))
                print(
                    f"{chosen.__name__:>6} {name:>5}  CPU {cpu * 1000:5.0f} ms {cpu / plain[0]:4.2f}   "
                    f"first list {wall * 1000:5.0f} ms {wall / plain[1]:4.2f}"
                )


if __name__ == "__main__":
    main()
