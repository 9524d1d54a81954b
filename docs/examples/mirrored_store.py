"""A board store of one's own: the boards in a file of the data folder, and a copy of them in a second place.

    export MIRROR=/mnt/elsewhere/boards.sqlite3
    PYTHONPATH=docs/examples blackboard-mcp kit mirrored_store:MirroredStore
    PYTHONPATH=docs/examples blackboard-mcp serve --store mirrored_store:MirroredStore

What it promises beside the contract: the copy is whole, and as of one moment. It is written after a second without
writes, ten seconds after a write at the latest, and when the server ends. A copy that cannot be written is logged and
tried again after the next write; posting goes on. `blackboard-mcp restore` takes the copy as a backup.

What it does not promise: whoever loses the data folder loses the last seconds. Each copy is of all boards, so this is
for boards of some hundred megabytes at most.
"""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from uuid import uuid4

from blackboard_mcp.protocols.clock import Clock
from blackboard_mcp.protocols.errors import BlackboardError, InvalidInput
from blackboard_mcp.storage.engine import Engine
from blackboard_mcp.storage.operation import Operation, T
from blackboard_mcp.storage.sqlite.opening import open_engine
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.trouble import Trouble

logger = logging.getLogger(__name__)
QUIET_SECONDS = 1.0
MOST_SECONDS = 10.0


class MirroredEngine:
    """An engine that passes everything on to another one, and copies its database after writes."""

    def __init__(self, engine: Engine, mirror: Path) -> None:
        self._engine = engine
        self._mirror = mirror
        self._copied = -1
        """The engine's counter of changes before the last copy."""
        self._wrote = asyncio.Event()
        self._closed = False
        self._copying = asyncio.create_task(self._keep_copying(), name="mirror")

    # What it adds

    async def write(self, operation: Operation[T]) -> T:
        """Runs the operation in a transaction, and asks for a copy."""
        result = await self._engine.write(operation)
        self._wrote.set()
        return result

    async def write_from(self, source: Path, operation: Operation[T]) -> T:
        """Does the same as `write` with a second database file, and asks for a copy."""
        result = await self._engine.write_from(source, operation)
        self._wrote.set()
        return result

    async def close(self) -> None:
        """Writes a last copy, and closes the other engine. A second call does nothing."""
        if not self._closed:
            self._closed = True
            self._copying.cancel()
            await asyncio.gather(self._copying, return_exceptions=True)
            await self._copy()
        await self._engine.close()

    async def _keep_copying(self) -> None:
        """Copies after each burst of writes."""
        loop = asyncio.get_running_loop()
        while True:
            await self._wrote.wait()
            latest = loop.time() + MOST_SECONDS
            while self._wrote.is_set() and loop.time() < latest:
                self._wrote.clear()
                await asyncio.sleep(QUIET_SECONDS)
            await self._copy()

    async def _copy(self) -> None:
        """Puts a copy in the mirror's place, in one step; does nothing if nothing changed."""
        before = self._engine.changes()
        if before == self._copied:
            return
        new = self._mirror.with_name(f"{self._mirror.name}.{uuid4().hex}")
        try:
            await self._engine.backup(new)
            os.replace(new, self._mirror)
            self._copied = before
        except (BlackboardError, OSError) as error:
            logger.warning("no copy in %s: %s", self._mirror, error)
        finally:
            new.unlink(missing_ok=True)

    # What it passes on

    async def read(self, operation: Operation[T]) -> T:
        return await self._engine.read(operation)

    @property
    def trouble(self) -> Trouble | None:
        return self._engine.trouble

    @property
    def displaced(self) -> bool:
        return self._engine.displaced

    def changes(self) -> int:
        return self._engine.changes()

    def stamp(self) -> int | None:
        return self._engine.stamp()

    async def wait_for_change(self, seen: int, timeout: float, *, hurried: bool = True) -> int:
        return await self._engine.wait_for_change(seen, timeout, hurried=hurried)

    async def backup(self, target: Path, mark: Operation[object] | None = None) -> None:
        await self._engine.backup(target, mark)


class MirroredStore(SqlBoardStore):
    """The product's board store over a `MirroredEngine`; the variable MIRROR names the copy's file."""

    @classmethod
    async def open(cls, folder: Path, *, clock: Clock) -> MirroredStore:  # type: ignore[override]
        """Opens the boards of a data folder, those of the built-in store if it has some."""
        mirror = _mirror(folder)
        engine = await open_engine(folder / "board.sqlite3")
        return cls(MirroredEngine(engine, mirror), clock)


def _mirror(folder: Path) -> Path:
    """Returns the copy's file, and makes the folder for it."""
    mirror = Path(os.environ.get("MIRROR") or folder / "mirror" / "boards.sqlite3")
    if mirror.is_dir():
        raise InvalidInput(f"MIRROR is {mirror}, which is a folder; name the copy's file inside it.")
    mirror.parent.mkdir(parents=True, exist_ok=True)
    return mirror
