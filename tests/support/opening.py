"""A board in this process or over HTTP, for tests that hold for both."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from blackboard_mcp.server import Board, BoardAccess, BoardClient
from blackboard_mcp.server.demo.process import http_server


@asynccontextmanager
async def opened(kind: str, data: Path, tools: str = "core") -> AsyncIterator[BoardAccess]:
    """Opens a board for ann: in this process ("process"), or through a server with these sets of tools ("http")."""
    if kind == "process":
        async with Board.open(agent="ann", data=data) as board:
            yield board
        return
    async with (
        http_server(data, "--tools", tools) as served,
        BoardClient.connect(served.url, agent="ann") as client,
    ):
        yield client
