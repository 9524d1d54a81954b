"""The client over MCP: lost answers, servers that are not there, errors by their codes: F63, I24."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols import errors
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, Refused, StoreClosed, Unreachable
from blackboard_mcp.server import compose
from blackboard_mcp.server.board import BoardClient
from blackboard_mcp.server.demo.process import command, environment
from blackboard_mcp.server.settings.server import Settings
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp.types import CONNECTION_CLOSED
from patience import PATIENCE

MODES = ["2026-07-28", "legacy"]


class Losing:
    """A client whose connection breaks after a call was carried out, before its answer came."""

    def __init__(self, client: Client, line: Line) -> None:
        self._client = client
        self._line = line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def call_tool(self, *args: Any, **more: Any) -> Any:
        result = await self._client.call_tool(*args, **more)
        if self._line.losing:
            self._line.losing -= 1
            self._line.lost += 1
            raise MCPError(CONNECTION_CLOSED, "Connection closed")
        return result


class Line:
    """How an agent's client reaches a real server in this process; it loses the next `losing` answers."""

    def __init__(self, opened: compose.Installation, mode: str, agent: str = "alice") -> None:
        self._server = compose.build_server(opened, identify=lambda info: agent).sdk_server
        self._opened = opened
        self._mode = mode
        self.losing = 0
        self.lost = 0

    def of(self, agent: str) -> Line:
        """The line of another agent."""
        return Line(self._opened, self._mode, agent)

    @asynccontextmanager
    async def dial(self) -> AsyncIterator[Any]:
        async with Client(self._server, mode=self._mode) as client:
            yield Losing(client, self)


@pytest.fixture(params=MODES)
async def line(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Line]:
    settings = Settings(data=tmp_path, synchronous="NORMAL", tools=("core", "admin", "messages"))
    async with compose.installation(settings, eager_index=False, background=False) as opened:
        yield Line(opened, request.param)


@pytest.fixture
async def client(line: Line) -> AsyncIterator[BoardClient]:
    async with BoardClient(line.dial, agent="alice", name="main") as client:
        await client.post("the first item", key="first")
        await client.post("the second item")
        yield client


async def write(client: BoardClient) -> Any:
    async with client.transaction() as tx:
        tx.put("first", "in a transaction")
    return tx.committed


CALLS: dict[str, tuple[Any, int]] = {
    "post": (lambda c: c.post("new"), 1),
    "post_all": (lambda c: c.post_all([{"text": "a"}, {"text": "b"}]), 2),
    "a version": (lambda c: c.post("next", key="first", expected_version=1), 1),
    "a change": (lambda c: c.post(id="F-2", status="RESOLVED"), 1),
    "delete": (lambda c: c.delete("first", expected_version=1), 1),
    "open_debate": (lambda c: c.open_debate("F-2", watchers=["bob"]), None),
    "watch": (lambda c: c.watch("F-2"), None),
    "watch_topic": (lambda c: c.watch_topic("tag:db"), 1),
    "set_core": (lambda c: c.set_core(0, objective="find out"), 1),
    "change": (lambda c: c.change(title="Other"), 1),
    "subscribe": (lambda c: c.subscribe({}, name="mine"), 0),
    "transaction": (write, 1),
    "ask": (lambda c: c.ask("bob", "why?", wait=False), None),
}


@pytest.mark.parametrize("name", CALLS)
async def test_I24_a_call_whose_answer_is_lost_is_repeated_and_applies_once(
    line: Line, client: BoardClient, name: str
) -> None:
    call, changes = CALLS[name]
    before = (await client.changes(0)).seq
    line.losing = 2
    answer = await call(client)
    assert line.lost == 2
    assert answer is not None
    after = (await client.changes(0)).seq
    assert after > before or changes == 0
    if changes is not None:
        assert after - before == changes
    held = await client.subscriptions()
    assert [one.name for one in held] == (["mine"] if name == "subscribe" else [])


async def test_I24_a_job_whose_answer_is_lost_is_not_handed_out_to_nobody(
    line: Line, client: BoardClient
) -> None:
    async with client.worker("g", {"tags": ["job"]}) as worker:
        wanted = [(await client.post(f"job {n}", tags=["job"])).seq for n in range(3)]
        got = []
        for _ in wanted:
            line.losing = 1
            got.append((await asyncio.wait_for(anext(worker), PATIENCE)).event.seq)
    assert got == wanted
    assert line.lost == 3


async def test_I24_a_request_whose_answer_is_lost_is_taken_by_somebody(
    line: Line, client: BoardClient
) -> None:
    async with BoardClient(line.of("bob").dial, agent="bob", name="main") as bob:
        wanted = [(await bob.ask("alice", f"question {n}", wait=False)).request.id for n in range(3)]
    got = []
    for _ in wanted:
        line.losing = 1
        taken = await client.next_request(skills=["sql"], seconds=0)
        assert taken is not None
        got.append(taken.request.id)
    assert got == wanted
    assert line.lost == 3
    assert await client.next_request(seconds=0) is None


async def test_reads_and_streams_survive_lost_answers(line: Line, client: BoardClient) -> None:
    async with client.events({"tags": ["x"]}, name="mine", page=2) as stream:
        wanted = [(await client.post(f"x {n}", tags=["x"])).seq for n in range(5)]
        got = []
        for _ in wanted:
            line.losing = 1
            got.append((await asyncio.wait_for(anext(stream), PATIENCE)).seq)
    assert got == wanted
    line.losing = 1
    assert (await client.get("first")).text == "the first item"


async def test_a_wait_that_moves_a_cursor_by_itself_is_not_repeated(line: Line, client: BoardClient) -> None:
    held = await client.subscribe({}, name="mine")
    await client.post("news")
    line.losing = 1
    with pytest.raises(Unreachable, match="may have been carried out"):
        await client.wait("mine", seconds=0)
    assert len((await client.wait("mine", since=held.cursor, seconds=0)).events) == 1


async def test_a_server_that_stays_away_is_unreachable_in_time(line: Line) -> None:
    async with BoardClient(line.dial, agent="alice", name="main", patience=0.3) as client:
        await client.post("x")
        line.losing = 1_000
        with pytest.raises(Unreachable, match="No answer within"):
            await client.post("y")
        line.losing = 0
        assert (await client.post("z")).id == "F-3"


async def test_a_server_that_says_it_is_starting_is_asked_again(line: Line) -> None:
    refusals = [
        MCPError(-32600, "try again in a second", {"error": code}) for code in ("starting", "stopping")
    ]

    @asynccontextmanager
    async def dial() -> AsyncIterator[Any]:
        if refusals and line.lost:
            raise refusals.pop()
        async with line.dial() as client:
            yield client

    async with BoardClient(dial, agent="alice", name="main") as client:
        line.losing = 1
        assert (await client.post("x")).id == "F-1"
    assert not refusals


@pytest.mark.parametrize("mode", ["auto", *MODES])
async def test_nobody_there_is_told_when_entering(mode: str) -> None:
    client = BoardClient.connect("http://127.0.0.1:9/mcp", agent="alice", mode=mode)
    with pytest.raises(Unreachable):
        await client.__aenter__()
    with pytest.raises(StoreClosed):
        await client.post("x")


async def test_a_command_that_is_no_server_is_told_when_entering() -> None:
    for words in (["/nonexistent"], [sys.executable, "-c", "raise SystemExit(3)"]):
        with pytest.raises(Unreachable):
            await BoardClient.stdio(words, agent="alice").__aenter__()
    with pytest.raises(InvalidInput):
        BoardClient.stdio([], agent="alice")


async def test_names_that_are_none_are_refused_before_anything_is_sent() -> None:
    with pytest.raises(InvalidInput):
        BoardClient.connect("http://127.0.0.1:9/mcp", agent="no spaces")
    with pytest.raises(InvalidInput):
        BoardClient.connect("http://127.0.0.1:9/mcp", agent="alice", name="../etc")


async def test_a_tool_that_is_not_served_is_refused_with_the_option_that_serves_it(tmp_path: Path) -> None:
    words = command("serve", "--data", str(tmp_path), "--agent", "alice")
    async with BoardClient.stdio(words, agent="alice", env=environment()) as client:
        await client.post("x")
        with pytest.raises(Refused, match="--tools all"):
            await client.core()
        with pytest.raises(Refused, match="--tools all"):
            await client.groups()


def test_every_code_of_the_error_tree_comes_back_as_its_class() -> None:
    pending: list[type[errors.BlackboardError]] = [errors.BlackboardError]
    seen = set()
    while pending:
        kind = pending.pop()
        pending += [sub for sub in kind.__subclasses__() if sub.__module__ == errors.__name__]
        made = errors.error_of(kind.code, "what it says", {"n": 1})
        assert type(made) is kind
        assert (made.message, made.facts) == ("what it says", {"n": 1})
        assert kind.code not in seen
        seen.add(kind.code)
    unknown = errors.error_of("from_the_future", "new", {"n": 1})
    assert type(unknown) is errors.BlackboardError
    assert unknown.facts == {"n": 1, "error": "from_the_future"}


async def test_a_conflict_keeps_its_facts_over_the_wire(client: BoardClient) -> None:
    with pytest.raises(Conflict) as stale:
        await client.post("late", key="first", expected_version=7)
    assert stale.value.facts["current_version"] == 1
    assert stale.value.facts["key"] == "first"
