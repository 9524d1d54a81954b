"""The server, and boards for Python programs: `from blackboard_mcp.server import Board, BoardClient`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .board import Board, BoardAccess, BoardClient, blocking

__all__ = ["Board", "BoardAccess", "BoardClient", "blocking"]


def __getattr__(name: str) -> Any:
    """Imports what programs use when they first name it, so that commands start without it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    from blackboard_mcp.protocols.importing import uncollected

    with uncollected():
        return getattr(import_module(".board", __name__), name)
