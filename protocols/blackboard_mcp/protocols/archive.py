"""The contract of an archive index.

The index is derived: the store keeps every text for good, and an index that was dropped and rebuilt gives the same
answers. It finds what a viewer may see by the marks of its documents; callers check every hit against the store, state
and access, before they show it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.protocols.visibility import Viewer

SearchMode = Literal["hybrid", "lexical"]
"""The engines that answered: vector and full-text search, or full-text search alone."""


@dataclass(frozen=True, slots=True)
class ArchiveDocument:
    """An archived item as the index stores it.

    `seq` is the board's sequence of the change that gave the item its present state. A document with a smaller `seq`
    never replaces one with a larger. `owner` is the mark of those who may see it (see `visibility`).
    """

    board: str
    number: int
    seq: int
    type: str
    author: str
    thread: int
    tags: tuple[str, ...]
    created_at: datetime
    text: str
    owner: str = ""


@dataclass(frozen=True, slots=True)
class ArchiveQuery:
    """A search of the archive. Filters apply before the search; `None` and `()` mean "no filter".

    `limit` is the number of hits wanted, 1 to 1000. A hit has all of `tags`. `after` is inclusive and `before`
    exclusive, both on `created_at`. What `viewer` may not see is no hit, and counts for nothing in the scores; `None`
    sees everything.
    """

    board: str
    text: str
    limit: int = 10
    types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    author: str | None = None
    thread: int | None = None
    after: datetime | None = None
    before: datetime | None = None
    viewer: Viewer | None = None


@dataclass(frozen=True, slots=True)
class ArchiveHit:
    """A found document: its number on the board and a score (larger is better, comparable within one answer).

    `start` is an offset in characters: the passage of about two hundred words that earned the score begins there.
    `beside` is the number of the document next to it in its thread that earned most of the score, or 0.
    """

    number: int
    score: float
    start: int = 0
    beside: int = 0


@dataclass(frozen=True, slots=True)
class ArchiveAnswer:
    """The hits of a search, best first, each number once, and the engines that answered.

    `notice` tells the reader what was not available (for example no embedding model on this platform), else it is
    empty. `life` is the life of the index that answered, as `ArchiveIndex.life` returns it.
    """

    hits: tuple[ArchiveHit, ...]
    mode: SearchMode
    notice: str = ""
    life: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Changes of one board's archive that the index has not received yet, newest first.

    `documents` are items that are in the archive now; `removed` are numbers of items that left it. `private` are
    numbers of which not everybody may know. `shortened` are numbers of the oldest documents, which have only the
    beginning of their text. `more` is true if more changes wait than were asked for, or than one search may read.
    """

    documents: tuple[ArchiveDocument, ...] = ()
    removed: tuple[int, ...] = ()
    private: frozenset[int] = frozenset()
    shortened: frozenset[int] = frozenset()
    more: bool = False


NOTHING_WAITS = Waiting()


SUM_FACTOR = 1_000_003
SUM_MODULUS = 2_147_483_647


class Sum(NamedTuple):
    """A checksum of a board's documents. If store and index have equal sums, they very probably have equal documents.

    `mixed` sums `(number % SUM_FACTOR) * (seq % SUM_FACTOR) % SUM_MODULUS`.
    """

    documents: int
    numbers: int
    seqs: int
    mixed: int


@dataclass(frozen=True, slots=True)
class Settled:
    """The expected content of the index: by board, sums of the documents it must have, and numbers that still wait."""

    sums: dict[str, Sum]
    waiting: dict[str, tuple[int, ...]]


@runtime_checkable
class SummingSource(Protocol):
    """A store that can sum up its archive: an optional capability that saves a comparison item by item."""

    async def settled(self, most: int) -> Settled | None:
        """Returns the expected content of the index; `None` when more than `most` items wait for it."""
        ...


class Fed(NamedTuple):
    """The life of the index that took changes from the outbox last, and the id of the last of them."""

    life: str
    last: int


@runtime_checkable
class FedSource(Protocol):
    """A store that notes which index took its changes: an optional capability, so that several may share an outbox."""

    async def outbox_fed(self, ids: Sequence[int], life: str) -> None:
        """Does as `outbox_done`, and notes in the same transaction that the index of this life took the changes.

        Nothing is noted if none of them was there any more: an index that stalled comes after another.
        """
        ...

    async def fed(self) -> Fed | None:
        """Returns what `outbox_fed` noted last; `None` before."""
        ...


@runtime_checkable
class SummingIndex(Protocol):
    """An index that can sum up its documents."""

    async def sums(self, apart: Mapping[str, Sequence[int]]) -> dict[str, Sum]:
        """Returns the sums by board, without the numbers in `apart`; boards without documents are absent.

        An incomplete document counts with -1 as its `seq`.
        """
        ...


@runtime_checkable
class ReplaceableIndex(Protocol):
    """An index that answers from its present documents while a replacement is filled."""

    async def fits(self) -> bool:
        """Tells whether its documents were made with the present embedding model; true without documents."""
        ...

    def draft(self) -> ArchiveIndex:
        """Returns the replacement, which keeps what an earlier attempt filled in; the caller must close it."""
        ...

    async def publish(self) -> None:
        """Puts this draft in the place of the index, in one step; the draft must not be used afterwards."""
        ...


@runtime_checkable
class ClaimedIndex(Protocol):
    """An index that several machines share, and one at a time writes."""

    async def claim(self) -> None:
        """Makes this process the one that writes, before it reads the store; others' writes are refused from now on.

        Raises:
            ArchiveUnavailable: somebody else claimed it at the same time.
        """
        ...


class Embedder(Protocol):
    """A model that turns texts into vectors of one fixed dimension.

    Implementations may be slow or absent; they are always called from a worker thread, never from the event loop, and
    outside any transaction.
    """

    @property
    def name(self) -> str:
        """Model and version. It is stored with the table, since vectors of two models never share a column."""
        ...

    @property
    def dimension(self) -> int:
        """The length of each vector."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> object:
        """Returns vectors of `texts`: `(len(texts), dimension) float32`, rows unit length (zero for empty text)."""
        ...

    def embed_query(self, text: str) -> object:
        """Returns the vector of a query: `(dimension,) float32`, unit length (zero for empty text)."""
        ...


class ArchiveIndex(Protocol):
    """A search index over archived items, keyed by (board, number).

    All calls are safe from several processes at once. `upsert` and `remove` are idempotent; an upsert with an older
    `seq` than the stored one changes nothing. Errors of the driver leave as `ArchiveUnavailable`; the caller may then
    `reset` the index and rebuild it.
    """

    async def upsert(self, documents: Sequence[ArchiveDocument]) -> None:
        """Stores or replaces documents. Of duplicates in one call the one with the largest `seq` wins."""
        ...

    async def remove(self, keys: Sequence[tuple[str, int]]) -> None:
        """Removes the documents of the (board, number) pairs; unknown pairs are ignored."""
        ...

    async def search(self, query: ArchiveQuery, waiting: Waiting = NOTHING_WAITS) -> ArchiveAnswer:
        """Returns the best `query.limit` documents; `waiting` overrides what the index has of the same items.

        An empty index answers with no hits.
        """
        ...

    async def life(self) -> str:
        """Returns a name for the table in use, never used again after a reset or a loss; empty without a table."""
        ...

    async def keys(self) -> dict[tuple[str, int], int]:
        """Returns a map from every (board, number) in the index to its `seq`, for the repair at start."""
        ...

    async def reset(self) -> None:
        """Deletes everything, even what can no longer be opened; the index is then empty and usable."""
        ...

    async def maintain(self) -> None:
        """Compacts the index and cleans up. Safe at any time; does nothing while another process does the same."""
        ...

    async def close(self) -> None:
        """Closes the index."""
        ...


@dataclass(frozen=True, slots=True)
class OutboxBatch:
    """Outbox rows taken together: their ids and the present state of the items they name.

    Items that are in the archive now are in `documents`; pairs of board and number of the others are in `removed`.
    """

    ids: tuple[int, ...]
    documents: tuple[ArchiveDocument, ...] = ()
    removed: tuple[tuple[str, int], ...] = field(default=())


class ArchiveSource(Protocol):
    """The part of a board store that the indexer works from."""

    async def outbox_batch(self, limit: int) -> OutboxBatch:
        """Returns the oldest `limit` outbox rows (by id), joined with the items' present state."""
        ...

    async def outbox_done(self, ids: Sequence[int]) -> None:
        """Deletes exactly these outbox rows; unknown ones are ignored."""
        ...

    async def outbox_wait(self, seconds: float) -> None:
        """Returns when there may be new outbox rows, or after `seconds`."""
        ...

    async def archived_keys(self) -> dict[tuple[str, int], int]:
        """Returns a map from every archived (board, number) to its `seq`, for the repair at start."""
        ...

    async def settled_keys(self) -> dict[tuple[str, int], int]:
        """Returns `archived_keys` without items that have an outbox row: the index must have all of these."""
        ...

    async def waiting(self, board: str, limit: int) -> Waiting:
        """Returns the `limit` newest items of the board that have an outbox row, within some millions of characters."""
        ...

    def archived_documents(self, batch: int = 500) -> AsyncIterator[tuple[ArchiveDocument, ...]]:
        """Yields every archived item, in batches ordered by board and number.

        No transaction stays open between two batches.
        """
        ...

    async def documents(self, keys: Sequence[tuple[str, int]]) -> tuple[ArchiveDocument, ...]:
        """Returns those of the (board, number) pairs that are in the archive now, in no particular order."""
        ...

    async def lease(self, name: str, holder: str, seconds: float) -> bool:
        """Takes or renews a named lease for `seconds`; false while another holder's lease still runs."""
        ...

    async def release(self, name: str, holder: str) -> None:
        """Gives a lease back; nothing happens when `holder` does not hold it."""
        ...
