"""The same board reached in every way: in memory, in a file, over HTTP in both generations, over stdio."""

from __future__ import annotations

import itertools
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from blackboard_mcp.server.board import Board, BoardAccess, BoardClient
from blackboard_mcp.server.demo.process import command, environment
from patience import PATIENCE

KINDS = ("memory", "file", "modern", "legacy")
MODES = {"modern": "2026-07-28", "legacy": "legacy"}
READY = "blackboard-mcp serves "
_names = itertools.count(1)


class Place:
    """One board, empty but for a first item, and whoever joins it."""

    def __init__(self, kind: str, data: Path, url: str, stack: AsyncExitStack) -> None:
        self.kind = kind
        self.data = data
        self.url = url
        self.name = f"board-{next(_names)}"
        self._stack = stack
        self._first: Board | None = None

    async def join(self, agent: str) -> BoardAccess:
        """An agent's access, closed with the test."""
        if self.kind in MODES:
            client = BoardClient.connect(self.url, agent=agent, name=self.name, mode=MODES[self.kind])
            return await self._stack.enter_async_context(client)
        if self.kind == "stdio":
            words = command("serve", "--data", str(self.data), "--agent", agent, "--tools", "all")
            client = BoardClient.stdio(words, agent=agent, name=self.name, env=environment())
            return await self._stack.enter_async_context(client)
        if self.kind == "memory" and self._first is not None:
            return self._first.as_agent(agent)
        data = None if self.kind == "memory" else self.data
        board = Board.open(self.name, agent=agent, data=data, settings={"synchronous": "NORMAL"})
        self._first = await self._stack.enter_async_context(board)
        return self._first


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint of one server for all tests of a run; each has a board of its own on it."""
    data = tmp_path_factory.mktemp("served")
    words = command("serve", "--transport", "http", "--port", "0", "--data", str(data), "--tools", "all")
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment()
    )
    assert process.stderr is not None
    said: list[str] = []
    for line in process.stderr:
        said.append(line)
        if line.startswith(READY):
            break
    else:
        pytest.fail(f"the server did not start: {said}")
    draining = threading.Thread(target=said.extend, args=(process.stderr,))
    draining.start()
    try:
        yield line.strip().removeprefix(READY)
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0, said
        draining.join()
        process.stderr.close()
        assert not [line for line in said if "Traceback" in line or " ERROR " in line], "".join(said)


@pytest.fixture(params=KINDS)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    kind: str = request.param
    url = request.getfixturevalue("url") if kind in MODES else ""
    async with AsyncExitStack() as stack:
        yield Place(kind, tmp_path, url, stack)


@pytest.fixture
async def board(place: Place) -> BoardAccess:
    """The first agent's access to a board with one item, `F-1`."""
    alice = await place.join("alice")
    await alice.post("the first item")
    return alice
