"""The contract of classes that an operator names with `--store` and `--archive`, and the optional powers of stores."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from .archive import ArchiveIndex
from .clock import Clock
from .store import BoardStore


class StoreClass(Protocol):
    """A class that opens a board store. `kit` says whether the store keeps the contract of `BoardStore`.

    A store that also keeps access tokens has the methods of `CredentialStore`.
    """

    async def open(self, folder: Path, *, clock: Clock) -> BoardStore:
        """Opens and returns a store. A class method.

        Args:
            folder: the server's data folder, where the store may keep files. It exists.
            clock: gives every instant that the store writes down.
        """
        ...


class ArchiveClass(Protocol):
    """A class that opens an index of the archive."""

    async def open(self, folder: Path) -> ArchiveIndex:
        """Opens and returns an index, which may keep files in the server's data folder. A class method."""
        ...


@runtime_checkable
class StampedStore(Protocol):
    """A `BoardStore` that can tell at once whether anything was committed: an optional capability.

    The server keeps views for agents that read an unchanged board of such a store.
    """

    def stamp(self) -> int | None:
        """Returns a value that differs after every commit of any process, or `None` if that cannot be told now.

        Two equal stamps mean that nothing was committed between the two calls, so what was read between them is what a
        read would return now. It must not block.
        """
        ...


@runtime_checkable
class HealthStore(Protocol):
    """A store that can say why it cannot serve."""

    @property
    def health(self) -> Literal["low", "full", "stopped"] | None:
        """The reason, or `None`.

        "low": it accepts only calls that finish work, until there is room. "full": it can only be read, until there is
        room. "stopped": it can only be read, until a restart.
        """
        ...
