"""The protocol between the board store and a database: what an engine offers.

An engine runs operations in transactions; it knows no tables and no boards. `sqlite/engine.py` is one, on a
file or in memory. Another database needs this protocol, its schema, and a way to open it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from .operation import Operation, T
from .trouble import Trouble


class Engine(Protocol):
    """A database that runs operations for many tasks at once; it belongs to the event loop that opened it."""

    async def read(self, operation: Operation[T]) -> T:
        """Runs the operation on one consistent snapshot, and returns its result.

        The snapshot contains every write that was acknowledged before the call.

        Raises:
            StoreBusy, StoreTooNew, StoreDamaged, StoreClosed: as named.
            StoreError: the operation tried to write, or the database failed otherwise.
            Exception: whatever the operation raised.
        """
        ...

    async def write(self, operation: Operation[T]) -> T:
        """Runs the operation in a transaction, all or nothing, and returns its result after the commit.

        Those of an equal batch (see `Batched`) that wait one after another may run together.

        A cancelled call either never started or completes as a whole. A change of rows wakes callers of
        `wait_for_change`.

        Raises:
            StoreBusy, StoreFull, StoreTooNew, StoreClosed: nothing was changed.
            Exception: whatever the operation raised; nothing was changed.
        """
        ...

    @property
    def trouble(self) -> Trouble | None:
        """The reason why writes fail now, or `None`; reads go on."""
        ...

    @property
    def displaced(self) -> bool:
        """Whether the opened database was moved, replaced or deleted."""
        ...

    def changes(self) -> int:
        """Returns a counter that grows when this process commits a change or learns of another's."""
        ...

    def stamp(self) -> int | None:
        """Returns a value that differs after every commit of any process, or `None` if that cannot be told now.

        Two equal stamps mean that nothing was committed between the two calls, so a read between them still holds.
        """
        ...

    async def wait_for_change(self, seen: int, timeout: float, *, hurried: bool = True) -> int:
        """Waits until the counter exceeds `seen`, or for `timeout` seconds, and returns it.

        May return early. A wait that is not `hurried` may learn of another process's change a second late.
        """
        ...

    async def backup(self, target: Path, mark: Operation[object] | None = None) -> None:
        """Writes a copy of the database, as of one moment, to a new private file; runs `mark` in the copy.

        Raises:
            StoreError: `target` exists or cannot be written.
            StoreFull: the disk has no room for the copy.
        """
        ...

    async def write_from(self, source: Path, operation: Operation[T]) -> T:
        """Runs the operation in a transaction that can read the database file `source` as `staged`; returns its result.

        Raises:
            StoreDamaged: `source` has another schema.
            Exception: whatever the operation raised; nothing was changed.
        """
        ...

    async def close(self) -> None:
        """Finishes pending calls, then closes the database. A second call does nothing."""
        ...
