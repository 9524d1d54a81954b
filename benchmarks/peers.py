"""Compares this server with three others that keep notes for agents: starts, tokens, cost of writes, and writes lost.

    python benchmarks/peers.py --server-memory "node …/server-memory/dist/index.js" \\
        --mcp-memory-service "…/memory server" --basic-memory "…/basic-memory mcp" [--writes 200] [--starts 5]

The same client speaks to each over stdio, as Claude Desktop does: a start up to the list of tools; notes that one
client writes one after another; then notes of two clients at once, each with a process of its own on the same data.
Both processes are killed with their last answer, and a new one is asked for all notes: lost are those that were
acknowledged and are gone. CPU is that of all processes of a server, tokens those of the list of tools as JSON. Peers
that are not given are left out; docs/discussions/benchmarks.md says where they come from. On Linux alone.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from threading import Thread
from typing import IO, Any, cast

from blackboard_mcp.server.text.tokens import Tokenizers

INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "peers", "version": "0"},
}
TICKS = os.sysconf("SC_CLK_TCK")
NOTE = re.compile(r"note-[a-z]-\d{4}")
HASHES = {"MCP_MEMORY_ALLOW_HASH_EMBEDDINGS": "true"}
"""mcp-memory-service goes on without a model for vectors, which it would have to download."""
Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Peer:
    """A server: its command, its environment for a folder of data, a write of a note, and the pages of all notes."""

    command: list[str]
    environment: Callable[[Path], dict[str, str]]
    write: Callable[[str], Call]
    page: Callable[[int, str], Call | None]
    """The call for a page from 0, after the text of the page before; `None` when there are no more."""


class Server:
    """A running server and its client."""

    def __init__(self, peer: Peer, data: Path) -> None:
        environment = {**os.environ, **peer.environment(data)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self._process = subprocess.Popen(
            peer.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        self._number = 0
        self.ask("initialize", **INITIALIZE)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _send(self, message: dict[str, Any]) -> None:
        pipe = cast("IO[bytes]", self._process.stdin)
        pipe.write(json.dumps(message).encode() + b"\n")
        pipe.flush()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Returns the result of a request."""
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        for line in cast("IO[bytes]", self._process.stdout):
            answer: dict[str, Any] = json.loads(line)
            if answer.get("id") == self._number and "method" not in answer:
                found: dict[str, Any] = answer.get("result", {"isError": True, **answer.get("error", {})})
                return found
        raise EOFError("the server ended")

    def call(self, call: Call) -> str | None:
        """Returns the text of a tool's answer, or `None` if it is an error."""
        name, arguments = call
        result = self.ask("tools/call", name=name, arguments=arguments)
        if result.get("isError"):
            return None
        return "\n".join(part.get("text", "") for part in result.get("content", ()))

    def cpu(self) -> float:
        """Returns the seconds of CPU of the server's processes that run."""
        spent = 0.0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == self._process.pid:
                spent += (int(fields[11]) + int(fields[12])) / TICKS
        return spent

    def kill(self) -> None:
        """Kills the server's processes at once."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


@contextmanager
def serving(peer: Peer, data: Path) -> Iterator[Server]:
    """Runs a server on a folder of data, until the context is left."""
    server = Server(peer, data)
    try:
        yield server
    finally:
        server.kill()


def write(server: Server, peer: Peer, who: str, count: int) -> set[str]:
    """Writes notes one after another and returns those that were acknowledged."""
    names = [f"note-{who}-{number:04}" for number in range(count)]
    return {name for name in names if server.call(peer.write(name)) is not None}


def all_notes(server: Server, peer: Peer) -> set[str]:
    """Returns the names of all notes that the server knows."""
    found: set[str] = set()
    page, text = 0, ""
    while (call := peer.page(page, text)) is not None:
        text = server.call(call) or ""
        found |= set(NOTE.findall(text))
        page += 1
    return found


def started(peer: Peer, data: Path) -> tuple[float, float, str]:
    """Returns CPU and time of a start up to the list of tools, in seconds, and the list as JSON."""
    began = time.perf_counter()
    with serving(peer, data) as server:
        tools = server.ask("tools/list")["tools"]
        return server.cpu(), time.perf_counter() - began, json.dumps(tools, separators=(",", ":"))


def crossing(peer: Peer, data: Path, count: int) -> tuple[int, int]:
    """Two clients write at once, each through a process of its own; returns acknowledged and lost notes."""
    servers = {"b": Server(peer, data), "c": Server(peer, data)}
    acknowledged: set[str] = set()

    def work(who: str, server: Server) -> None:
        acknowledged.update(write(server, peer, who, count))

    threads = [Thread(target=work, args=each) for each in servers.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for server in servers.values():
        server.kill()
    with serving(peer, data) as after:
        return len(acknowledged), len(acknowledged - all_notes(after, peer))


def said(name: str) -> str:
    """Returns the text of a note of about 165 characters."""
    return (
        f"{name}: the orders service answers with a p95 of {int(name[-4:]) % 900} ms at 340 requests a second; the "
        "run took half an hour on one of the smaller hosts, nothing else of note"
    )


def ours(data: Path) -> dict[str, str]:
    return {"BLACKBOARD_DATA": str(data), "BLACKBOARD_AGENT": "ann"}


def _more_items(page: int, text: str) -> Call | None:
    cursor = re.search(r'cursor="([^"]+)"', text)
    if page and cursor is None:
        return None
    return "query", {"zone": "all", "limit": 100, **({"cursor": cursor[1]} if cursor else {})}


def peers(given: argparse.Namespace) -> Iterator[tuple[str, Peer]]:
    """Returns the servers to compare, this one first."""
    program = str(Path(sys.executable).with_name("blackboard-mcp"))
    yield (
        "blackboard-mcp",
        Peer([program, "serve"], ours, lambda name: ("post", {"text": said(name)}), _more_items),
    )
    if given.server_memory:
        yield (
            "server-memory",
            Peer(
                shlex.split(given.server_memory),
                lambda data: {"MEMORY_FILE_PATH": str(data / "memory.jsonl")},
                lambda name: (
                    "create_entities",
                    {"entities": [{"name": name, "entityType": "fact", "observations": [said(name)]}]},
                ),
                lambda page, text: None if page else ("read_graph", {}),
            ),
        )
    if given.mcp_memory_service:
        yield (
            "mcp-memory-service",
            Peer(
                shlex.split(given.mcp_memory_service),
                lambda data: {"HOME": str(data), "MCP_MEMORY_STORAGE_BACKEND": "sqlite_vec", **HASHES},
                lambda name: ("memory_store", {"content": said(name), "conversation_id": "peers"}),
                lambda page, text: (
                    None
                    if page and not NOTE.search(text)
                    else ("memory_list", {"page": page + 1, "page_size": 100})
                ),
            ),
        )
    if given.basic_memory:
        yield (
            "basic-memory",
            Peer(
                shlex.split(given.basic_memory),
                lambda data: {"HOME": str(data), "BASIC_MEMORY_HOME": str(data / "notes")},
                lambda name: (
                    "write_note",
                    {"title": name, "content": said(name), "directory": "n", "project": "main"},
                ),
                lambda page, text: (
                    None
                    if page and not NOTE.search(text)
                    else (
                        "list_directory",
                        {"dir_name": "/n", "project": "main", "page": page + 1, "page_size": 100},
                    )
                ),
            ),
        )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    for name in ("server-memory", "mcp-memory-service", "basic-memory"):
        arguments.add_argument(f"--{name}", default="")
    arguments.add_argument("--writes", type=int, default=200)
    arguments.add_argument("--starts", type=int, default=5)
    given = arguments.parse_args()
    tokenizer = Tokenizers().launched
    print(f"{'':20} tools tokens  start CPU, s   list, s  write CPU, ms     two: acknowledged   lost")
    for name, peer in peers(given):
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder)
            started(peer, data)  # compiles modules, makes the data's files
            cpus, times, lists = zip(*(started(peer, data) for _ in range(given.starts)), strict=True)
            with serving(peer, data) as server:
                server.call(peer.write("note-z-0000"))
                before = server.cpu()
                alone = write(server, peer, "a", given.writes)
                spent = (server.cpu() - before) / given.writes
            with serving(peer, data) as server:
                missing = len(alone - all_notes(server, peer))
            if missing or len(alone) < given.writes:
                print(
                    f"{name}: of {given.writes} notes of one client {len(alone)} acknowledged, {missing} lost"
                )
            acknowledged, lost = crossing(peer, data, given.writes)
        print(
            f"{name:20} {len(json.loads(lists[0])):5} {tokenizer.count(lists[0]):6}  {median(cpus):12.2f} "
            f"{median(times):9.2f} {spent * 1000:14.1f} {acknowledged:12} of {2 * given.writes} {lost:6}",
            flush=True,
        )


if __name__ == "__main__":
    main()
