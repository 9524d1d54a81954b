"""Measures posts per second over HTTP for 1, 8 and 32 clients, compared with a no-op tool on the same SDK.

    python benchmarks/http_posts.py [--seconds 5] [--rounds 3] [--clients 1,8,32]

All servers are processes of their own, on uvicorn with h11 and uvloop; the load comes from this
process over kept-alive connections that speak the newest protocol generation. Rounds alternate between
the servers, and the best of each counts, because machines are noisy; read the ratios, not the rates. Server
CPU per call is taken from the processes' own clocks. `post` is on a board as a user has it, from which passes
take as much as is posted; `alone` on one whose budget is never reached. Cold start is the time from starting
the process to the first answered tool list over stdio, the minimum of the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
TEXT = "The retry loop in parser_v2 drops the last chunk when the buffer ends on a multi-byte character. " * 3

NOOP = textwrap.dedent(
    """
    import sys, socket, uvicorn
    from typing import Annotated
    from pydantic import Field
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("noop", version="0")

    @server.tool(structured_output=False)
    async def post(text: Annotated[str, Field(max_length=200000)], type: str = "FACT") -> str:
        return "ok"

    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        app = server.streamable_http_app()
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(2048)
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", file=sys.stderr, flush=True)
        config = uvicorn.Config(app, http="h11", log_level="error")
        uvicorn.Server(config).run(sockets=[listener])
    """
)


# Limits so high that they do not slow the posts.
LIMITS = dict.fromkeys(("bytes_burst", "board_bytes_burst"), 1000000000) | {
    "posts_burst": 10_000_000,
    "board_posts_burst": 10_000_000,
}


@contextmanager
def server(command: list[str]) -> Iterator[tuple[int, int]]:
    """Runs a server process, and yields its port and process id; one that does not end is killed in the end."""
    wide = {**os.environ, "BLACKBOARD_LIMITS": json.dumps(LIMITS)}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, env=wide)
    try:
        assert process.stderr is not None
        port = None
        for line in process.stderr:
            if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                port = int(found[1])
                break
        if port is None:
            raise SystemExit(f"{command[:3]} did not start")
        yield port, process.pid
    finally:
        process.terminate()
        try:
            process.communicate(timeout=30)  # it reads what is logged, so that a full pipe holds up nobody
        except subprocess.TimeoutExpired:
            print(f"{command[:3]} did not end within 30 seconds and was killed", file=sys.stderr)
            process.kill()
            process.communicate()


def cpu_seconds(pid: int) -> float:
    """Returns the CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def request(port: int, agent: str, number: int) -> bytes:
    """Returns a post as an HTTP request."""
    body = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": number,
            "method": "tools/call",
            "params": {
                "name": "post",
                "arguments": {"text": f"{TEXT} {number}", "type": "LOG"},
                "_meta": META,
            },
        }
    ).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {VERSION}\r\n"
        f"Mcp-Method: tools/call\r\nMcp-Name: post\r\nX-Blackboard-Agent: {agent}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def answer(reader: asyncio.StreamReader) -> bytes:
    """Reads one response, and returns its body."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b" 200 " not in head.split(b"\r\n", 1)[0]:
        raise SystemExit(f"refused: {head!r}")
    if b"transfer-encoding: chunked" not in head:
        length = re.search(rb"content-length: (\d+)", head)
        assert length is not None
        return await reader.readexactly(int(length[1]))
    parts = []
    while True:
        size = int(await reader.readline(), 16)
        part = await reader.readexactly(size + 2)
        if size == 0:
            return b"".join(parts)
        parts.append(part[:-2])


async def client(port: int, name: str, until: float, latencies: list[float]) -> None:
    """Posts one after the other until the time `until`, and adds the seconds of each to `latencies`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    number = 0
    while (started := time.perf_counter()) < until:
        number += 1
        writer.write(request(port, name, number))
        body = await answer(reader)
        latencies.append(time.perf_counter() - started)
        if b'"isError":true' in body or b'"error"' in body:
            raise SystemExit(body.decode())
    writer.close()


async def load(port: int, clients: int, seconds: float) -> tuple[float, float]:
    """Returns posts per second and the 99th percentile in milliseconds, for so many clients at once."""
    latencies: list[float] = []
    until = time.perf_counter() + seconds
    await asyncio.gather(*(client(port, f"agent-{n}", until, latencies) for n in range(clients)))
    latencies.sort()
    return len(latencies) / seconds, 1000 * latencies[int(len(latencies) * 0.99)]


def cold_start(command: list[str]) -> float:
    """Returns the seconds from starting the process to its first list of tools over stdio."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
    started = time.perf_counter()
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()
    line = process.stdout.readline()
    taken = time.perf_counter() - started
    if b'"tools"' not in line:
        raise SystemExit(f"no tool list: {line!r}")
    process.stdin.close()
    process.wait(10)
    process.stdout.close()
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", default="1,8,32")
    options = parser.parse_args()
    counts = [int(n) for n in options.clients.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        noop = Path(folder, "noop.py")
        noop.write_text(NOOP)
        base = [sys.executable, "-m", "blackboard_mcp.server", "serve", "--data"]
        board = [*base, str(Path(folder, "data")), "--transport", "http", "--port", "0"]
        large = [*base, str(Path(folder, "large")), *board[-4:], "--target-tokens", "10000000"]
        best: dict[tuple[str, int], tuple[float, float, float]] = {}
        with (
            server(board) as (board_port, board_pid),
            server(large) as (large_port, large_pid),
            server([sys.executable, str(noop), "http"]) as (noop_port, noop_pid),
        ):
            for _ in range(options.rounds):
                for count in counts:
                    for name, port, pid in (
                        ("noop", noop_port, noop_pid),
                        ("post", board_port, board_pid),
                        ("alone", large_port, large_pid),
                    ):
                        before = cpu_seconds(pid)
                        rate, p99 = asyncio.run(load(port, count, options.seconds))
                        spent = (cpu_seconds(pid) - before) / (rate * options.seconds) * 1e6
                        if rate > best.get((name, count), (0.0, 0.0, 0.0))[0]:
                            best[name, count] = (rate, p99, spent)
        print("a second and CPU a call, of those of the no-op:")
        for count in counts:
            noop_rate, _, noop_cpu = best["noop", count]
            for name in ("post", "alone"):
                rate, p99, cpu = best[name, count]
                print(
                    f"{count:>4} {name:>6} {rate:>6.0f}/s of {noop_rate:.0f}: {rate / noop_rate:.2f}, "
                    f"p99 {p99:.1f} ms, CPU {cpu:.0f} of {noop_cpu:.0f} µs: {cpu / noop_cpu:.2f}"
                )
        starts = {
            "no-op": min(cold_start([sys.executable, str(noop), "stdio"]) for _ in range(5)),
            "serve": min(
                cold_start([*base, str(Path(folder, f"cold-{n}")), "--agent", "bench"]) for n in range(5)
            ),
        }
        print(
            f"cold start to the first tool list: no-op {starts['no-op']:.2f} s, serve {starts['serve']:.2f} s, "
            f"ratio {starts['serve'] / starts['no-op']:.2f}"
        )


if __name__ == "__main__":
    main()
