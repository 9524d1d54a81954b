"""Boards for Python programs: `Board` in the same process, `BoardClient` over MCP, one surface for both."""

from __future__ import annotations

from .blocking import Runner, blocking
from .client import BoardClient
from .groups import Worker
from .handlers import ClaimHandlers, DebateHandlers, Handlers, ProtocolHandlers, RequestHandlers
from .hooks import Callback, Hook, OnError
from .items import Post, Query
from .local import Board
from .models import Entry, ModelEntries
from .streams import EventQueue, EventStream
from .surface import BoardAccess
from .transactions import Transaction

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
