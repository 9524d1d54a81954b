"""Boards for Python programs: `Board` in the same process, `BoardClient` over MCP, one surface for both."""

from __future__ import annotations

from .client import BoardClient
from .groups import Worker
from .hooks import Callback, Hook, OnError
from .items import Post, Query
from .local import Board
from .streams import EventQueue, EventStream
from .surface import BoardAccess
from .transactions import Transaction

__all__ = [
    "Board",
    "BoardAccess",
    "BoardClient",
    "Callback",
    "EventQueue",
    "EventStream",
    "Hook",
    "OnError",
    "Post",
    "Query",
    "Transaction",
    "Worker",
]
