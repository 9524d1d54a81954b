"""Measures posts on a server whose models hang, against posts on a server without models, in turns in one run.

    python benchmarks/hanging_models.py [--rounds 12] [--posts 100]

Two servers, each a process of its own on a folder of its own: one asks a summary and an embedding endpoint that
accept connections and never answer, the other has neither. Before the rounds both endpoints are under way. A
round posts to one server and then to the other, first one first, then the other; read the ratio of the medians.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from blackboard_mcp.server.demo.process import command, environment

VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
FILLER = "We looked at the seals, the flow and the price of every pump on the long list. " * 3
READY = "blackboard-mcp serves "


class Hanging:
    """An endpoint that accepts requests, records their paths and never answers."""

    def __init__(self) -> None:
        self.asked: set[str] = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._hear, args=(connection,), daemon=True).start()

    def _hear(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, IndexError):
            self.asked.add(connection.recv(65_536).split(b" ")[1].decode())
            threading.Event().wait()


class Board:
    """A client with one kept-alive connection."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)

    def post(self, **arguments: Any) -> float:
        """Posts, and returns the seconds that it took."""
        params = {"name": "post", "arguments": arguments, "_meta": META}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Mcp-Protocol-Version": VERSION,
            "Mcp-Method": "tools/call",
            "Mcp-Name": "post",
            "X-Blackboard-Agent": "bench",
        }
        began = time.perf_counter()
        self._connection.request("POST", "/mcp", body, headers)
        answer = self._connection.getresponse().read()
        took = time.perf_counter() - began
        if b'"isError":true' in answer or b'"error"' in answer:
            raise SystemExit(answer.decode())
        return took


@contextlib.contextmanager
def served(folder: Path, *options: str) -> Iterator[Board]:
    """Runs a server over a folder, and yields a client of it."""
    words = command("serve", "--transport", "http", "--port", "0", "--data", str(folder))
    process = subprocess.Popen(
        [*words, "--target-tokens", "400", *options], stderr=subprocess.PIPE, text=True, env=environment()
    )
    assert process.stderr is not None
    try:
        url = next(line for line in process.stderr if line.startswith(READY)).removeprefix(READY).strip()
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield Board(url)
    finally:
        process.terminate()
        process.wait()


def seed(board: Board) -> None:
    """Posts items that the index has to embed."""
    board.post(board="seed", items=[{"text": f"pump {n} leaks {FILLER}", "type": "LOG"} for n in range(12)])


def thread(board: Board) -> None:
    """Posts a finished thread, long enough for a summary."""
    on = {"edges": {"replies_to": ["$1"]}}
    replies = [{"text": f"{n}: {FILLER}", "type": "REPLY", **on} for n in range(6)]
    decision = {"text": "We take the blue pump.", "type": "DECISION", **on}
    board.post(board="seed", items=[{"text": "Which pump?", "type": "QUESTION"}, *replies, decision])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--posts", type=int, default=100)
    asked = parser.parse_args()
    endpoint = Hanging()
    hung = (
        *("--summariser", "openai", "--summary-url", endpoint.url, "--summary-model", "m"),
        *("--embedder", "openai", "--embedding-url", endpoint.url, "--embedding-model", "m"),
        *("--summary-timeout-seconds", "300"),
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        served(Path(folder) / "hung", *hung) as beside,
        served(Path(folder) / "none", "--embedder", "none") as alone,
    ):
        for board in (beside, alone):
            seed(board)
        wait_for(endpoint, "/v1/embeddings")
        for board in (beside, alone):
            thread(board)
        wait_for(endpoint, "/v1/chat/completions")
        took: dict[str, list[float]] = {"beside": [], "alone": []}
        for turn in range(asked.rounds):
            order = [("beside", beside), ("alone", alone)]
            for name, board in order if turn % 2 else reversed(order):
                for n in range(asked.posts):
                    text = f"{turn} {n}: the retry loop drops the last chunk when the buffer ends early"
                    took[name].append(board.post(board="work", text=text, type="LOG"))
    medians = {name: statistics.median(times) for name, times in took.items()}
    for name, times in took.items():
        p99 = sorted(times)[len(times) * 99 // 100]
        print(f"{name:7} {len(times):5} posts: median {medians[name] * 1e3:.2f} ms, p99 {p99 * 1e3:.1f} ms")
    print(f"ratio {medians['beside'] / medians['alone']:.3f}, load {os.getloadavg()[0]:.1f}")


def wait_for(endpoint: Hanging, path: str) -> None:
    """Waits until the endpoint was asked for this path."""
    while path not in endpoint.asked:
        time.sleep(0.05)


if __name__ == "__main__":
    main()
