"""Measures the server's CPU of frequent calls over HTTP, as multiples of a no-op tool on the same SDK.

    python benchmarks/calls.py [--calls 200] [--rounds 5] [--before FOLDER]

The board has 300 live items, and one client calls at a time, over a kept-alive connection of the newest protocol
generation. A view is of an unchanged board or comes after a post, whose CPU does not count. A turn is a contribution
that ends a round of one agent and is answered with its next turn; half of the claims take a task, and half report one
done. A critique opens the only debate of its board, an acknowledgement ends one, and a transaction writes three
entries. With `--before` the server of another checkout takes turns with this one. CPU is that of all threads, from the
kernel's own count; each figure is the median of the rounds, with the least beside it, and the ratio the median of the
rounds' ratios to the no-op of the same round.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from http_posts import META, NOOP, VERSION, answer, server

ITEMS = 300
AT_ONCE = 50
ROOMY = 1_000_000
TEXT = "The retry loop in parser_v2 drops the last chunk when the buffer ends on a multi-byte character. " * 3

RUN = 900
"""Turns of one run; a run has at most 1,000 rounds."""
OTHERS = ("tasks", "critiques", "agreements", "entries")
FREE = {"seconds": 0, "board": "tasks"}

Call = tuple[str, dict[str, Any]] | tuple[str, dict[str, Any], str]
"""A tool, its arguments, and who calls; without, `reader` makes the last call of a turn, and `poster` the others."""
Kind = Callable[[int], list[Call]]
"""The calls of one turn; only the CPU of the last of them counts."""


def _against(item: int, board: str) -> tuple[str, dict[str, Any]]:
    edges = {"critiques": [f"F-{item}"]}
    return "post", {"text": f"F-{item} has no source.", "type": "CRITIQUE", "edges": edges, "board": board}


KINDS: dict[str, Kind] = {
    "post": lambda n: [("post", {"text": f"{TEXT} {n}", "type": "LOG", "board": "posts"})],
    "reply": lambda n: [
        ("post", {"text": f"Reply {n}.", "type": "REPLY", "edges": {"replies_to": ["F-9"]}, "board": "posts"})
    ],
    "unchanged view": lambda n: [("read", {})],
    "changed view": lambda n: [("post", {"text": f"Note {n}.", "type": "LOG"}), ("read", {})],
    "read by id": lambda n: [("read", {"ids": [f"F-{1 + n % ITEMS}"]})],
    "read(since)": lambda n: [("read", {"since": 290})],
    "query": lambda n: [("query", {"type": "FACT", "limit": 5})],
    "turn": lambda n: [
        ("turn", {"text": f"I looked at pump {n}.", "seconds": 0, "board": f"run-{n // RUN}"})
    ],
    "critique": lambda n: [
        *([("debate", {"op": "concede", "id": f"F-{2 * n}", "board": "critiques"})] if n else []),
        ("post", {"text": f"Pump {n} runs.", "board": "critiques"}),
        _against(2 * n + 2, "critiques"),
    ],
    "acknowledge": lambda n: [
        ("post", {"text": f"Pump {n} runs.", "board": "agreements"}),
        (*_against(3 * n + 2, "agreements"), "reader"),
        (
            "post",
            {
                "text": f"I saw it run {n} times.",
                "type": "REPLY",
                "edges": {"replies_to": [f"C-{3 * n + 3}"]},
                "board": "agreements",
            },
        ),
        ("debate", {"op": "acknowledge", "id": f"F-{3 * n + 2}", "board": "agreements"}),
    ],
    "transaction": lambda n: [
        (
            "transaction",
            {
                "writes": [{"key": f"sum:{part}", "text": f"{part} is {n}."} for part in "abc"],
                "board": "entries",
            },
        )
    ],
    "claim": lambda n: [
        ("claim", {"op": "done", "text": "It is done.", "board": "tasks"}) if n % 2 else ("claim", FREE)
    ],
}


def cpu_seconds(pid: int) -> float:
    """Returns the CPU seconds that the present threads of a process have used."""
    spent = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        spent += int((thread / "schedstat").read_text().split()[0])
    return spent / 1e9


def message(port: int, tool: str, arguments: dict[str, Any], agent: str) -> bytes:
    """Returns a call of a tool as an HTTP request."""
    params = {"name": tool, "arguments": arguments, "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {VERSION}\r\n"
        f"Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\nX-Blackboard-Agent: {agent}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def spent(port: int, pid: int, turns: list[list[Call]]) -> float:
    """Makes the calls one after the other; returns the server's CPU microseconds for the last call of a turn."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def call(tool: str, arguments: dict[str, Any], agent: str) -> None:
        writer.write(message(port, tool, arguments, agent))
        body = await answer(reader)
        if b'"isError":true' in body or b'"error":{' in body:
            raise SystemExit(body.decode())

    used = 0.0
    alone = all(len(turn) == 1 for turn in turns)
    before = cpu_seconds(pid)
    for *first, (tool, arguments, *_) in turns:
        for other, given, *who in first:
            await call(other, given, who[0] if who else "poster")
        if not alone:
            before = cpu_seconds(pid)
        await call(tool, arguments, "reader")
        if not alone:
            used += cpu_seconds(pid) - before
    if alone:
        used = cpu_seconds(pid) - before
    writer.close()
    return used / len(turns) * 1e6


def fill(port: int, pid: int, calls: int) -> None:
    """Posts the items, starts as many runs and plans as many tasks as so many calls need."""
    run = {"problem": "Which pump?", "agents": ["reader"], "max_rounds": RUN + 1}
    tasks = [{"title": f"task {n}"} for n in range(100)]
    boards = [f"run-{n}" for n in range(1 + calls // RUN)]
    made: list[Call] = [("post", {"text": "A board.", "board": name}) for name in (*boards, *OTHERS)]
    made += [("turn", {"start": run, "board": name}) for name in boards]
    made += [("plan", {"items": tasks, "board": "tasks"})] * (1 + calls // 200)
    asyncio.run(spent(port, pid, [[call] for call in made]))
    for first in range(0, ITEMS, AT_ONCE):
        items = [
            {"text": f"Finding {n}: module {n % 17} fails under a load of {n * 7} calls.", "type": "FACT"}
            for n in range(first, first + AT_ONCE)
        ]
        asyncio.run(
            spent(port, pid, [[("post", {"items": items, "board": name})] for name in ("main", "posts")])
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", type=Path, help="another checkout, measured in turns with this one")
    parser.add_argument("--only", default="", help="kinds of calls, separated by commas")
    options = parser.parse_args()
    kinds = [k for k in KINDS if not options.only or k in options.only.split(",")]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        noop = Path(folder, "noop.py")
        noop.write_text(NOOP)
        idle, idle_pid = stack.enter_context(server([sys.executable, str(noop), "http"]))
        trees: dict[str, tuple[int, int]] = {}
        paths = {"before": options.before, "now": Path(__file__).parents[1]}
        for name, tree in paths.items():
            if tree is None:
                continue
            sources = os.pathsep.join(
                str(tree.resolve() / part) for part in ("server", "protocols", "storage")
            )
            command = [
                sys.executable,
                "-m",
                "blackboard_mcp.server",
                "serve",
                "--data",
                str(Path(folder, name)),
            ]
            command += ["--transport", "http", "--port", "0", "--target-tokens", str(ROOMY)]
            command += ["--tools", "core,run,plan,admin"]
            os.environ["PYTHONPATH"] = sources
            trees[name] = stack.enter_context(server(command))
            fill(*trees[name], options.calls * (options.rounds + 1))
        taken: dict[tuple[str, str], list[float]] = {}
        ratios: dict[tuple[str, str], list[float]] = {}
        for turn in range(options.rounds + 1):
            least = [[("post", {"text": "x"})] for _ in range(options.calls)]
            base = asyncio.run(spent(idle, idle_pid, least))
            for kind in kinds:
                for name, (port, pid) in trees.items():
                    used = asyncio.run(
                        spent(
                            port, pid, [KINDS[kind](turn * options.calls + n) for n in range(options.calls)]
                        )
                    )
                    if turn:  # the first round warms up
                        taken.setdefault((kind, name), []).append(used)
                        ratios.setdefault((kind, name), []).append(used / base)
            if turn:
                taken.setdefault(("no-op", "now"), []).append(base)
    print(
        f"no-op: {median(taken['no-op', 'now']):.0f} µs of server CPU a call, "
        f"at least {min(taken['no-op', 'now']):.0f}"
    )
    for kind in kinds:
        told = (
            f"{name} {median(taken[kind, name]):6.0f} µs, at least {min(taken[kind, name]):6.0f}, "
            f"{median(ratios[kind, name]):5.2f} no-ops"
            for name in trees
        )
        print(f"{kind:16} " + "   ".join(told))


if __name__ == "__main__":
    main()
