"""The seam between the board store and a database: what an engine offers.

An engine runs operations in transactions; it knows no table and no board. `sqlite/engine.py` is one, on a
file or in memory. Another database needs this protocol, its schema, and a way to open it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from .operation import Operation, T
from .trouble import Trouble


class Engine(Protocol):
    """A database that runs operations, for many tasks at once. It belongs to the event loop that opened it."""

    async def read(self, operation: Operation[T]) -> T:
        """Runs the operation on one consistent snapshot, which holds every write acknowledged before the call.

        Raises:
            StoreBusy, StoreTooNew, StoreDamaged, StoreClosed: as named.
            StoreError: the operation tried to write, or another failure of the database.
            Exception: whatever the operation raised.
        """
        ...

    async def write(self, operation: Operation[T]) -> T:
        """Runs the operation in a transaction, and returns after the commit that holds it: all of it or nothing.

        A cancelled call was either never started or completes whole. A change of rows wakes those who wait.

        Raises:
            StoreBusy, StoreFull, StoreTooNew, StoreClosed: nothing was changed.
            Exception: whatever the operation raised; nothing was changed.
        """
        ...

    @property
    def trouble(self) -> Trouble | None:
        """Why writes fail, while they do; reads go on."""
        ...

    @property
    def displaced(self) -> bool:
        """Whether the database that was opened is not in its place any more."""
        ...

    def changes(self) -> int:
        """A counter that grows when this process commits a change or learns of another's."""
        ...

    async def wait_for_change(self, seen: int, timeout: float, *, hurried: bool = True) -> int:
        """Waits until the counter exceeds `seen`, or for `timeout` seconds, and returns it.

        May return early. A wait that is not `hurried` may learn of another process's change a second late.
        """
        ...

    async def backup(self, target: Path, mark: Operation[object] | None = None) -> None:
        """Writes a copy of the database, as of one moment, to a new private file; `mark` runs in the copy.

        Raises:
            StoreError: `target` exists or cannot be written.
            StoreFull: no room for the copy.
        """
        ...

    async def write_from(self, source: Path, operation: Operation[T]) -> T:
        """Runs the operation in a transaction that can read the database file `source` as `staged`.

        Raises:
            StoreDamaged: `source` has another schema.
            Exception: whatever the operation raised; nothing was changed.
        """
        ...

    async def close(self) -> None:
        """Finishes what was asked before, then lets the database go. A second call does nothing."""
        ...
