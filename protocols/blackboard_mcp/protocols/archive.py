"""The contract of an archive index.

The index is derived: the store holds every body for good, and dropping the index and rebuilding it
gives the same answers. It knows nothing of access: whoever asks confirms every hit against the store
(state and access) before showing it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from blackboard_mcp.protocols.values import dataclass

SearchMode = Literal["hybrid", "lexical"]
"""Which engines answered: vector and full text, or full text alone."""


@dataclass(frozen=True, slots=True)
class ArchiveDocument:
    """One archived item as the index sees it.

    `seq` is the board sequence of the change that put the item into its present state; a document with
    a smaller `seq` never replaces one with a larger.
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


@dataclass(frozen=True, slots=True)
class ArchiveQuery:
    """What to look for. Filters apply before the search; `None` and `()` mean "no filter".

    `limit` is the number of hits wanted, 1 to 1000. `tags` must all be present. `after` is inclusive
    and `before` exclusive, both on `created_at`.
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


@dataclass(frozen=True, slots=True)
class ArchiveHit:
    """A document found: its number on the board and a score (larger is better, comparable in one answer).

    `start` is the character of its text at which the stretch of about two hundred words begins that
    earned the score.
    """

    number: int
    score: float
    start: int = 0


@dataclass(frozen=True, slots=True)
class ArchiveAnswer:
    """Hits, best first, each number once, and which engines answered.

    `notice` says to the reader what was not available (say, no embedding model on this platform), else
    it is empty. `life` is the life of the index that answered, as `ArchiveIndex.life` names it.
    """

    hits: tuple[ArchiveHit, ...]
    mode: SearchMode
    notice: str = ""
    life: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Waiting:
    """What the index has yet to learn of one board, the newest first.

    An item that is in the archive now is in `documents`; one that has left it is in `removed`. `private`
    are the numbers that not everybody may know of. Of the `shortened`, the oldest, a document has the beginning of
    its text only. `more`: there is more than was asked for, or than may be read for one search.
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
    """Documents of a board, summed up: equal sums of store and index mean equal documents, in all likelihood.

    `mixed` sums `(number % SUM_FACTOR) * (seq % SUM_FACTOR) % SUM_MODULUS`.
    """

    documents: int
    numbers: int
    seqs: int
    mixed: int


@dataclass(frozen=True, slots=True)
class Settled:
    """What must be in the index, by board: the sums of what does not wait, and the numbers that do."""

    sums: dict[str, Sum]
    waiting: dict[str, tuple[int, ...]]


@runtime_checkable
class SummingSource(Protocol):
    """A store that can sum up its archive: the optional power that spares a comparison item by item."""

    async def settled(self, most: int) -> Settled | None:
        """What must be in the index; `None` when more than `most` items wait for it."""
        ...


@runtime_checkable
class SummingIndex(Protocol):
    """An index that can sum up what it holds."""

    async def sums(self, apart: Mapping[str, Sequence[int]]) -> dict[str, Sum]:
        """The sums by board, leaving out the numbers in `apart`; boards without documents are absent.

        A document that is not whole counts with -1 for its `seq`.
        """
        ...


@runtime_checkable
class ReplaceableIndex(Protocol):
    """An index that answers from what it has while another one is filled to take its place."""

    async def fits(self) -> bool:
        """Whether what it has was made with the present embedding model; true where it has nothing."""
        ...

    def draft(self) -> ArchiveIndex:
        """The index that is to take its place, with what an earlier attempt left in it; it must be closed."""
        ...

    async def publish(self) -> None:
        """Called on a draft: it takes the place, in one step; the draft is then used no more."""
        ...


class Embedder(Protocol):
    """Turns texts into vectors of one fixed dimension.

    Implementations may be slow or absent; they are always called from a worker thread, never from the
    event loop, and outside any transaction.
    """

    @property
    def name(self) -> str:
        """Model and version; stored with the table: two models never share a column."""
        ...

    @property
    def dimension(self) -> int: ...

    def embed_documents(self, texts: Sequence[str]) -> object:
        """Vectors of `texts`: `(len(texts), dimension) float32`, rows unit length (zero for empty text)."""
        ...

    def embed_query(self, text: str) -> object:
        """The vector of a query: `(dimension,) float32`, unit length (zero for empty text)."""
        ...


class ArchiveIndex(Protocol):
    """A search index over archived items, keyed by (board, number).

    All calls are safe from several processes at once. `upsert` and `remove` are idempotent; an upsert
    with an older `seq` than the stored one changes nothing. Errors of the driver leave as
    `ArchiveUnavailable`; after it the caller may `reset` and rebuild.
    """

    async def upsert(self, documents: Sequence[ArchiveDocument]) -> None:
        """Store or replace documents. Duplicates inside one call collapse to the largest `seq`."""
        ...

    async def remove(self, keys: Sequence[tuple[str, int]]) -> None:
        """Forget the (board, number) pairs, unknown ones silently."""
        ...

    async def search(self, query: ArchiveQuery, waiting: Waiting = NOTHING_WAITS) -> ArchiveAnswer:
        """The best `query.limit` documents of the index and of what `waiting` says in its place.

        Without any documents it answers with no hits.
        """
        ...

    async def life(self) -> str:
        """A name for the table in use, never used again after a reset or a loss; empty for no table."""
        ...

    async def keys(self) -> dict[tuple[str, int], int]:
        """Every (board, number) in the index with its `seq`: for the repair at start."""
        ...

    async def reset(self) -> None:
        """Drop everything, also what cannot be opened any more; the index is then empty and usable."""
        ...

    async def maintain(self) -> None:
        """Compact and clean up. Safe at any time; gives up quietly when another process is at it."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class OutboxBatch:
    """Outbox rows taken together: their ids and the present state of the items they name.

    An item that is in the archive now is in `documents`; one that has left it is in `removed`.
    """

    ids: tuple[int, ...]
    documents: tuple[ArchiveDocument, ...] = ()
    removed: tuple[tuple[str, int], ...] = field(default=())


class ArchiveSource(Protocol):
    """The part of a board store that the indexer works from."""

    async def outbox_batch(self, limit: int) -> OutboxBatch:
        """The oldest `limit` outbox rows (by id), joined with the items' present state."""
        ...

    async def outbox_done(self, ids: Sequence[int]) -> None:
        """Delete exactly these outbox rows, unknown ones silently."""
        ...

    async def outbox_wait(self, seconds: float) -> None:
        """Return when there may be new outbox rows, or after `seconds`."""
        ...

    async def archived_keys(self) -> dict[tuple[str, int], int]:
        """Every archived (board, number) with its `seq`: for the repair at start."""
        ...

    async def settled_keys(self) -> dict[tuple[str, int], int]:
        """Like `archived_keys`, without what has an outbox row: all of it must be in the index."""
        ...

    async def waiting(self, board: str, limit: int) -> Waiting:
        """The `limit` newest items of the board that have an outbox row, with some millions of characters at most."""
        ...

    def archived_documents(self, batch: int = 500) -> AsyncIterator[tuple[ArchiveDocument, ...]]:
        """Every archived item, in batches ordered by board and number; no transaction is held between."""
        ...

    async def documents(self, keys: Sequence[tuple[str, int]]) -> tuple[ArchiveDocument, ...]:
        """Those of `keys` that are in the archive now, in no particular order."""
        ...

    async def lease(self, name: str, holder: str, seconds: float) -> bool:
        """Take or renew a named lease; false while another holder's has not run out."""
        ...

    async def release(self, name: str, holder: str) -> None:
        """Give a lease back; nothing happens when `holder` does not hold it."""
        ...
