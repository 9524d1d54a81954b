"""Boards for Python programs: `Board` in the same process, `BoardClient` over MCP, one surface for both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .blocking import Runner, blocking
from .groups import Worker
from .handlers import ClaimHandlers, DebateHandlers, Handlers, ProtocolHandlers, RequestHandlers
from .hooks import Callback, Hook, OnError
from .items import Post, Query
from .local import Board
from .models import Entry, ModelEntries
from .streams import EventQueue, EventStream
from .surface import BoardAccess
from .transactions import Transaction

if TYPE_CHECKING:
    from .client import BoardClient

__all__ = [
    "Board",
    "BoardAccess",
    "BoardClient",
    "Callback",
    "ClaimHandlers",
    "DebateHandlers",
    "Entry",
    "EventQueue",
    "EventStream",
    "Handlers",
    "Hook",
    "ModelEntries",
    "OnError",
    "Post",
    "ProtocolHandlers",
    "Query",
    "RequestHandlers",
    "Runner",
    "Transaction",
    "Worker",
    "blocking",
]


def __getattr__(name: str) -> Any:
    """Imports the client when it is first named, so that programs with a board of their own start without it."""
    if name != "BoardClient":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .client import BoardClient

    return BoardClient
