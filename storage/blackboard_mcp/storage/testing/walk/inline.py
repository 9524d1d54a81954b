"""A store whose operations run on one connection in memory, in the caller's thread.

It serves walks of many thousand steps: a call costs only its statements and no change of threads, and nothing runs
beside it. Transactions begin, commit and roll back as in the engine. What the engine adds (groups, threads, processes,
deadlines) is not here and has tests of its own.
"""

from __future__ import annotations

from typing import cast

from blackboard_mcp.protocols.clock import Clock
from blackboard_mcp.storage.engine import Engine
from blackboard_mcp.storage.operation import Operation, T
from blackboard_mcp.storage.sqlite import driver, migrate
from blackboard_mcp.storage.sqlite.group import run, translated
from blackboard_mcp.storage.sqlite.opening import APPLICATION_ID, migrations
from blackboard_mcp.storage.store import SqlBoardStore


class InlineEngine:
    """An engine that runs one call at a time; waiting for a change ends at once."""

    def __init__(self) -> None:
        self._raw = driver.connect(":memory:")
        migrate.migrate(self._raw, migrations(), APPLICATION_ID, 1.0)
        self._raw.execute("PRAGMA foreign_keys=ON")

    async def write(self, operation: Operation[T]) -> T:
        return self._transaction("BEGIN IMMEDIATE", operation, "COMMIT")

    async def read(self, operation: Operation[T]) -> T:
        return self._transaction("BEGIN", operation, "ROLLBACK")

    def _transaction(self, begin: str, operation: Operation[T], end: str) -> T:
        self._raw.execute(begin)
        try:
            result = run(self._raw, operation)
            self._raw.execute(end)
        except BaseException as error:
            if self._raw.in_transaction:
                self._raw.execute("ROLLBACK")
            told = translated(error, "write")
            if told is error:
                raise
            raise told from error
        return result

    def changes(self) -> int:
        return self._raw.total_changes

    def stamp(self) -> int | None:
        return self._raw.total_changes

    async def wait_for_change(self, seen: int, timeout: float, *, hurried: bool = True) -> int:
        return self.changes()

    async def close(self) -> None:
        self._raw.close()


def inline_store(clock: Clock) -> SqlBoardStore:
    """Returns an empty store of that kind."""
    return SqlBoardStore(cast(Engine, InlineEngine()), clock)
