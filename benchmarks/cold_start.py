"""Measures CPU and time of a start: of the server, of a Python program with a board of its own, and of what they need.

    python benchmarks/cold_start.py [--starts 7] [--before FOLDER]

A start of a server is a process, the handshake over stdio, the answer to `tools/list`, and the end of the input; it is
compared with a no-op server on the same SDK. The program opens a board in a data folder, posts once and ends; beside it
stand an empty program and the import of asyncio and pydantic. With `--before`, the server and the program are also
started from another checkout. All are taken in turns; the least and the median are told, and how they compare.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
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
PROGRAM = """
import asyncio, sys, tempfile
from blackboard_mcp.server import Board


async def main() -> None:
    async with Board.open("main", agent="ada", data=tempfile.mkdtemp(dir=sys.argv[1])) as board:
        await board.post("x", type="FACT")


asyncio.run(main())
"""
SERVER = "from blackboard_mcp.server.cli import main; main()"
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "cold", "version": "0"},
}


def message(method: str, number: int | None = None, **params: object) -> bytes:
    """Returns a JSON-RPC message as a line; without a `number` it is a notification."""
    named = {} if number is None else {"id": number}
    return json.dumps({"jsonrpc": "2.0", **named, "method": method, "params": params}).encode() + b"\n"


def spent() -> float:
    """Returns the CPU seconds of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Returns the CPU seconds of a program, and the seconds that it took."""
    before, began = spent(), time.perf_counter()
    subprocess.run(command, env=environment, check=True)
    return spent() - before, time.perf_counter() - began


def start(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Returns the CPU seconds of a whole start, and the seconds until the list of tools arrived."""
    before, began = spent(), time.perf_counter()
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
    return spent() - before, listed


def starts(folder: str, before: str | None) -> dict[str, Callable[[], tuple[float, float]]]:
    """Returns what is started, by name; what is compared with comes first among the programs and among the servers."""
    environment = {**os.environ, "BLACKBOARD_DATA": str(Path(folder, "data"))}
    # As in an installation, modules are compiled once and kept.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    python = [sys.executable, "-c"]
    made: dict[str, Callable[[], tuple[float, float]]] = {
        "pass": partial(run, [*python, "pass"], environment),
        "imports": partial(run, [*python, "import asyncio; from pydantic import BaseModel"], environment),
        "program": partial(run, [*python, PROGRAM, folder], environment),
        "no-op server": partial(start, [*python, NOOP], environment),
        "server": partial(start, [*python, SERVER, "serve"], environment),
    }
    if before is not None:
        roots = os.pathsep.join(str(Path(before, each)) for each in ("server", "protocols", "storage"))
        older = {**environment, "BLACKBOARD_DATA": str(Path(folder, "older")), "PYTHONPATH": roots}
        made["program before"] = partial(run, [*python, PROGRAM, folder], older)
        made["server before"] = partial(start, [*python, SERVER, "serve"], older)
    return made


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--starts", type=int, default=7)
    arguments.add_argument("--before", metavar="FOLDER", help="another checkout")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        each = starts(folder, given.before)
        for one in each.values():
            one()
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in each}
        for _ in range(given.starts):
            for name, one in each.items():
                taken[name].append(one())
        for name, found in taken.items():
            against = taken["no-op server" if "server" in name else "program"]
            print(f"{name:>14}", end="")
            for chosen in (min, median):
                cpu, wall = (chosen(some) for some in zip(*found, strict=True))
                plain = chosen(some for some, _ in against)
                figures = f"CPU {cpu * 1000:5.0f} ms ({cpu / plain:4.2f}), {wall * 1000:5.0f} ms"
                print(f"   {chosen.__name__:>6}: {figures}", end="")
            print()


if __name__ == "__main__":
    main()
