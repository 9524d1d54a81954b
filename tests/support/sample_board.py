"""A small server for tests of the MCP adapter, the HTTP server and the relay.

It also runs as a program: `sample_board.py stdio`, or `sample_board.py http PORT`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from blackboard_mcp.protocols.errors import Conflict, UnknownReference
from blackboard_mcp.server.access.identity import agent_from_headers
from blackboard_mcp.server.access.needs import NOTHING
from blackboard_mcp.server.limits.turns import resting
from blackboard_mcp.server.mcp.callers import ConnectionInfo
from blackboard_mcp.server.mcp.server import BoardServer
from blackboard_mcp.server.tools.tool import Answer, Caller, ToolSet
from pydantic import BaseModel, Field

Word = Annotated[str, Field(max_length=20)]
EVENTS = "board://main/events"
STATS = "board://main/stats"


class Part(BaseModel):
    text: Annotated[str, Field(max_length=100)]
    type: Literal["FACT", "LOG"] = "FACT"


class Posted(BaseModel):
    author: str
    count: int | None


class Sample:
    """The server, and a record of the calls of its tools."""

    def __init__(self, *, prefix: str = "", **settings: Any) -> None:
        self.calls: list[dict[str, Any]] = []
        self.waiting = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.identified: list[ConnectionInfo] = []
        self.server = BoardServer(
            name="sample",
            version="1.2.3",
            instructions="Post.",
            identify=self.identify,
            tools=ToolSet(prefix=prefix),
            **settings,
        )
        server, tools = self.server, self.server.tools
        tools.add(self.post, name="post", description="Post.", output=lambda: Posted, needs=NOTHING)
        tools.add(self.wait, name="wait", description="Wait.", read_only=True, needs=NOTHING)
        tools.add(self.publish, name="publish", description="Tell.", needs=NOTHING)
        resources: dict[str, Callable[..., Awaitable[str]]] = {
            "board://{board}/events{?after}": self.events,
            "board://{board}/items/{id}": self.item,
            "board://{board}/items/{id}.json": self.item_json,
            "board://{board}/stats": self.stats,
            "board://about": self.about,
        }
        for uri, fn in resources.items():
            server.resource(
                uri, fn, name=fn.__name__, description="d", mime_type="text/markdown", needs=NOTHING
            )
        server.completion(self.complete)
        server.prompt(self.review, name="review", description="Review an item.", needs=NOTHING)

    def identify(self, info: ConnectionInfo) -> str:
        self.identified.append(info)
        return agent_from_headers(info.headers) if info.transport == "http" else info.client_name or "nobody"

    async def post(
        self,
        caller: Caller,
        text: Annotated[str | None, Field(max_length=1000)] = None,
        type: Literal["FACT", "LOG", "CRITIQUE"] = "FACT",
        limit: Annotated[int, Field(ge=1, le=5)] = 3,
        tags: Annotated[list[Word], Field(max_length=4)] = [],  # noqa: B006
        parts: Annotated[list[Part], Field(max_length=5)] = [],  # noqa: B006
        metadata: Annotated[dict[str, Any] | None, Field(max_length=5)] = None,
        fail: Literal["conflict", "crash", "progress"] | None = None,
    ) -> Answer:
        self.calls.append({"agent": caller.agent, "text": text, "parts": parts, "metadata": metadata})
        if fail == "conflict":
            raise Conflict("It moved meanwhile; read it again.", current_version=7)
        if fail == "crash":
            raise RuntimeError("the secret of the house")
        if fail == "progress":
            await caller.report(1, 2, "half")
        return Answer(
            f"{caller.agent} by {caller.transport}: {text}", Posted(author=caller.agent, count=None)
        )

    async def wait(self, caller: Caller, seconds: Annotated[float, Field(ge=0, le=60)] = 30) -> Answer:
        self.waiting.set()
        try:
            async with resting():
                await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.cancelled.set()
            print("cancelled", file=sys.stderr, flush=True)
            raise
        return Answer("waited", {})

    async def publish(self, caller: Caller, uri: Annotated[str, Field(max_length=200)]) -> Answer:
        print("a stray print")
        await self.server.publish([uri])
        return Answer("told", {})

    async def events(self, caller: Caller, board: str, after: int = 0) -> str:
        return f"{caller.agent} reads {board} after {after}"

    async def item(self, caller: Caller, board: str, id: str) -> str:
        if id == "F-404":
            raise UnknownReference("There is no F-404 on this board.")
        if id == "F-500":
            raise RuntimeError("the secret of the house")
        return f"item {id}"

    async def item_json(self, caller: Caller, board: str, id: str) -> str:
        return f'{{"id": "{id}"}}'

    async def stats(self, caller: Caller, board: str) -> str:
        return "stats"

    async def about(self, caller: Caller) -> str:
        return "about"

    async def complete(
        self, caller: Caller, reference: str, argument: str, partial: str, others: Mapping[str, str]
    ) -> Sequence[str]:
        found = [f"{reference}|{argument}|{others.get('board', '')}", *(f"F-{n}" for n in range(200))]
        return [value for value in found if partial in value]

    async def review(self, caller: Caller, id: Word, tone: Word = "kind") -> str:
        return f"{caller.agent}, review {id}, be {tone}"


if __name__ == "__main__":
    from blackboard_mcp.server.http.run import new_event_loop, serve_http

    async def main() -> None:
        sample = Sample()
        if sys.argv[1] == "stdio":
            await sample.server.run_stdio()
        else:
            await serve_http(sample.server, port=int(sys.argv[2]))

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main())
    print("stopped cleanly", file=sys.stderr, flush=True)
