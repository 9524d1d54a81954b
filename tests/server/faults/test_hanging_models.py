"""Models that never answer: nobody who posts or reads waits for them."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.server.board.handing_over import post_lines
from injecting import Poster, Server, tool, wires
from patience import until

FILLER = "We looked at the seals, the flow and the price of every pump on the long list. " * 3


class Silence:
    """Listens and never answers; `asked` has the path of each request."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        self._held: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._held.append(connection)
                threading.Thread(target=self._hear, args=(connection,), daemon=True).start()

    def _hear(self, connection: socket.socket) -> None:
        with suppress(OSError, IndexError):
            self.asked.append(connection.recv(65_536).split(b" ")[1].decode())

    def wait_for(self, path: str) -> None:
        until(lambda: path in self.asked)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for connection in self._held:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()


@pytest.fixture
def silence() -> Iterator[Silence]:
    listening = Silence()
    yield listening
    listening.close()


@pytest.fixture
def hung(tmp_path: Path, silence: Silence) -> Iterator[Server]:
    server = Server(
        tmp_path / "data",
        tmp_path / "log",
        *("--summariser", "openai", "--summary-url", silence.url, "--summary-model", "m"),
        *("--embedder", "openai", "--embedding-url", silence.url, "--embedding-model", "m"),
        *("--target-tokens", "400", "--summary-timeout-seconds", "300"),
    )
    server.start()
    yield server
    server.abandon()


def test_no_call_waits_for_models_that_hang(hung: Server, silence: Silence) -> None:
    bob = wires.HttpWire(hung.url, hung.pid, "bob", modern=True)
    on: dict[str, Any] = {"edges": {"replies_to": ["$1"]}}
    replies = [{"text": f"{n}: {FILLER}", "type": "REPLY", **on} for n in range(6)]
    decision = {"text": "We take the blue pump with 60 litres.", "type": "DECISION", **on}
    tool(bob, "post", items=[{"text": f"pump {n} leaks " + FILLER, "type": "LOG"} for n in range(12)])
    silence.wait_for("/v1/embeddings")
    tool(bob, "post", items=[{"text": "Which pump?", "type": "QUESTION"}, *replies, decision])
    silence.wait_for("/v1/chat/completions")
    poster, before = Poster(), len(silence.asked)
    while len(poster.journal) < 100:
        for call in (
            lambda: poster.post(hung.wire),
            lambda: tool(hung.wire, "read"),
            lambda: tool(hung.wire, "query", text="pump"),
        ):
            call()
    # What asks meanwhile is the upkeep; a call that asked would wait for longer than a wire waits for its answer.
    assert len(silence.asked) - before < len(poster.journal) // 5, silence.asked
    poster.check(hung.wire)
    # A search waits for a vector as long as it may, and then finds by words.
    found = tool(bob, "query_archive", text="which pump leaks")
    assert found["items"]
    assert "words" in found["notice"]
    bob.close()
    assert hung.stop() == 0
    assert "Traceback" not in json.dumps(hung.log.read_text())


def test_patterns_alone_propose_rules_where_the_model_hangs(tmp_path: Path, silence: Silence) -> None:
    server = Server(
        tmp_path / "data",
        tmp_path / "log",
        *("--summariser", "ollama", "--summary-url", silence.url, "--summary-model", "m"),
        *("--capture", "model", "--summary-timeout-seconds", "1", "--tools", "core,memory"),
    )
    server.start()
    try:
        told = tool(server.wire, "constraint", message="Dots drive me mad. Never commit to main.")
        assert [one["text"] for one in told["proposals"]] == ["Never commit to main."]
        assert told["model"] == "the model did not answer"
        line = {"id": "m1", "kind": "message", "text": "Dots drive me mad. Never use ftp."}
        handed = asyncio.run(post_lines(server.url, {"X-Blackboard-Agent": "bob"}, json.dumps(line)))
        assert (len(handed["proposed"]), handed["model"]) == (1, "the model did not answer")
        assert silence.asked == ["/v1/api/chat"] * 2
        assert server.stop() == 0
    finally:
        server.abandon()
