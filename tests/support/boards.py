"""A real installation in a temporary folder, and agents on it through the SDK's own client."""

from __future__ import annotations

import asyncio
import contextlib
import json
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import mcp.types as types
import pytest
from blackboard_mcp.server import compose
from blackboard_mcp.server.limits.limits import Limits
from blackboard_mcp.server.mcp.server import BoardServer, ConnectionInfo
from blackboard_mcp.server.settings.server import Settings
from blackboard_mcp.server.text.tokens import BpeTokenizer
from mcp.client import Client
from patience import PATIENCE

LEGACY, MODERN = "legacy", "2026-07-28"
STRUCTURED: Any = {"blackboard/structured": True}
TOKENIZER = BpeTokenizer()
ITEM_KEYS = {
    *("id", "number", "key", "version", "type", "status", "zone", "importance", "author", "text", "tags"),
    *("edges", "metadata", "tokens", "created_at", "updated_at", "sha256", "thread", "debate"),
}
"""The keys that every structured item has; there may be more."""
EVENT_KEYS = {"seq", "event", "item", "key", "version", "agent", "tags", "at"}


class HandClock:
    """A clock that stands still until `advance` is called."""

    def __init__(self) -> None:
        self.at = datetime(2026, 11, 21, 9, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at

    def advance(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


class Inbox:
    """Collects the resource notifications of a legacy client, in order."""

    def __init__(self) -> None:
        self.uris: list[str] = []
        self._news = asyncio.Event()

    async def __call__(self, message: object) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            self.tell(str(message.params.uri))

    def tell(self, uri: str) -> None:
        """Collects a notification that came another way."""
        self.uris.append(uri)
        self._news.set()

    async def until(self, uri: str, times: int = 1) -> list[str]:
        """Waits until a URI was notified `times` times, and returns all URIs so far."""
        async with asyncio.timeout(PATIENCE):
            while self.uris.count(uri) < times:
                self._news.clear()
                await self._news.wait()
        return self.uris


class Agent:
    """One agent's client. Every call checks what must hold for all results."""

    def __init__(self, name: str, client: Client) -> None:
        self.name = name
        self.client = client
        self.footer = ""
        """The last line of the last result's text."""

    async def call(self, tool: str, /, **arguments: Any) -> types.CallToolResult:
        """Calls a tool with structured content, checks the footer of a result, and returns the answer."""
        result = await self.client.call_tool(tool, arguments, meta=STRUCTURED)
        assert result.structured_content is not None
        if not result.is_error:
            self.footer = text_of(result).splitlines()[-1]
            assert "seq " in self.footer, text_of(result)
            assert (
                TOKENIZER.count(self.footer.split(" · ", 1)[-1] if "go on" in self.footer else self.footer)
                <= 30
            )
        return result

    async def do(self, tool: str, /, **arguments: Any) -> Any:
        """Calls a tool that must succeed, and returns its structured answer."""
        result = await self.call(tool, **arguments)
        assert not result.is_error, text_of(result)
        return result.structured_content

    async def say(self, tool: str, /, **arguments: Any) -> str:
        """Calls a tool that must succeed, without structured content, and returns its text."""
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, text_of(result)
        assert result.structured_content is None
        return text_of(result)

    async def fail(self, tool: str, /, **arguments: Any) -> Any:
        """Calls a tool that must be refused, and returns the structured error.

        Checks that the error's text has the same message as a sentence, and ends in the footer.
        """
        result = await self.call(tool, **arguments)
        assert result.is_error, text_of(result)
        failure = result.structured_content
        assert failure is not None
        assert failure["error"] in {
            "invalid",
            "not_found",
            "conflict",
            "refused",
            "forbidden",
            "cursor_expired",
            "pressure",
            "quota",
        }
        lines = text_of(result).splitlines()
        if lines[-1].startswith("seq "):  # there is no footer if the call's board does not exist
            self.footer = lines.pop()
            assert TOKENIZER.count(self.footer) <= 30
        assert failure["message"] == "\n".join(lines)
        assert 15 < len(failure["message"]) <= 700
        return failure

    async def post(self, text: str | None = None, type: str | None = None, /, **more: Any) -> Any:
        """Posts one item, and returns it."""
        given = {"text": text, "type": type, **more}
        answer = await self.do("post", **{k: v for k, v in given.items() if v is not None})
        assert len(answer["items"]) == 1
        return answer["items"][0]

    async def item(self, id: str) -> Any:
        """Returns the item of an id, which must exist."""
        found = await self.do("read", ids=[id])
        assert found["items"], f"{self.name} finds no {id}"
        return found["items"][0]

    async def sees(self, id: str) -> bool:
        """Tells whether the agent can read an item."""
        return bool((await self.do("read", ids=[id]))["items"])

    async def resource(self, uri: str) -> str:
        """Returns the text of a resource, after checking its media type."""
        contents = (await self.client.read_resource(uri)).contents
        assert isinstance(contents[0], types.TextResourceContents)
        assert contents[0].mime_type == ("application/json" if ".json" in uri else "text/markdown")
        return contents[0].text

    async def facts(self, uri: str) -> Any:
        """Returns the content of a JSON resource."""
        return json.loads(await self.resource(uri))


class Boards:
    """An open installation, its server, and the agents that joined."""

    def __init__(
        self, opened: compose.Installation, clock: HandClock, mode: str, stack: AsyncExitStack
    ) -> None:
        self.opened = opened
        self.clock = clock
        self.mode = mode
        self.server: BoardServer = compose.build_server(opened, identify=by_client_name)
        self._stack = stack

    async def join(self, *names: str, mode: str | None = None, inbox: Inbox | None = None) -> Any:
        """Connects agents by name, each with its own client; returns a list, or the agent if only one is named."""
        joined = []
        for name in names:
            info = types.Implementation(name=name, version="1")
            connecting = Client(
                self.server.sdk_server,
                mode=mode or self._next_mode(),
                client_info=info,
                message_handler=inbox,
            )
            joined.append(Agent(name, await self._connect(connecting)))
        return joined if len(joined) > 1 else joined[0]

    def _next_mode(self) -> str:
        """Returns the protocol generation of the next agent; they alternate, so that both meet on one board."""
        now = self.mode
        self.mode = MODERN if now == LEGACY else LEGACY
        return now

    async def _connect(self, client: Client) -> Client:
        """Holds a connection open in its own task, so that any other task can end it."""
        ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        leave = asyncio.Event()

        async def hold() -> None:
            try:
                async with client:
                    ready.set_result(client)
                    await leave.wait()
            except BaseException as error:
                if ready.done():
                    raise
                ready.set_exception(error)

        task = asyncio.create_task(hold())

        async def end() -> None:
            leave.set()
            await task

        self._stack.push_async_callback(end)
        return await ready

    async def announcing(self) -> None:
        """Starts to notify subscribers of changed resources, as a serving process does."""
        task = asyncio.create_task(compose.announce(self.opened, self.server))

        async def end() -> None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

        self._stack.push_async_callback(end)

    async def settled(self) -> None:
        """Waits until no pruning pass is due or under way."""
        async with asyncio.timeout(PATIENCE):
            await self.opened.pruner.settle()

    async def seq(self, board: str = "main") -> int:
        """Returns the board's sequence, 0 if there is no board."""
        found = await self.opened.store.find_board(board)
        return 0 if found is None else found.seq


Opening = Callable[..., AbstractAsyncContextManager[Boards]]


def by_client_name(info: ConnectionInfo) -> str:
    return info.client_name or "nobody"


def text_of(result: types.CallToolResult) -> str:
    assert len(result.content) == 1
    content = result.content[0]
    assert isinstance(content, types.TextContent)
    return content.text


@asynccontextmanager
async def open_boards(
    folder: Path, mode: str, *, background: bool = False, **settings: Any
) -> AsyncIterator[Boards]:
    """Opens an installation for a test, with its work in the background if asked.

    Unless `limits` are given, waits end with the first news instead of after a lull.
    """
    plain: dict[str, Any] = {"tools": ("core", "admin"), "limits": Limits(lull_seconds=0)}
    given = Settings(data=folder, synchronous="NORMAL", **{**plain, **settings})
    clock = HandClock()
    async with (
        compose.installation(given, eager_index=False, clock=clock, background=background) as opened,
        AsyncExitStack() as stack,
    ):
        yield Boards(opened, clock, mode, stack)


@pytest.fixture
def mode(request: pytest.FixtureRequest) -> str:
    """The protocol generation of a test's first agent, chosen by the test's name; the next agents alternate."""
    return (LEGACY, MODERN)[zlib.crc32(request.node.name.encode()) % 2]


both = pytest.mark.parametrize("mode", [LEGACY, MODERN])
"""Runs a test twice, with a first agent of each protocol generation."""


@pytest.fixture
async def board(tmp_path: Path, mode: str) -> AsyncIterator[Boards]:
    """Boards with the default settings."""
    async with open_boards(tmp_path, mode) as boards:
        yield boards


@pytest.fixture
async def small(tmp_path: Path, mode: str) -> AsyncIterator[Boards]:
    """Boards with a budget of 400 tokens: passes start above 320 and end at 240.

    One owner may hold all of what the guard protects.
    """
    async with open_boards(tmp_path, mode, target_tokens=400, board_settings={"owner_held": 1}) as boards:
        yield boards
