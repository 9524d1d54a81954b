"""Images of boards: the rows of a board in memory, where a search needs no call of the driver's engines.

An image has the words of each window as hashes, its vector, and the columns that filters need. After a change of the
table only changed documents are read again. For worker threads only.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

from blackboard_mcp.protocols.archive import ArchiveQuery
from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.protocols.visibility import Viewer
from blackboard_mcp.storage.lance import counts, heads, rows, vectors
from blackboard_mcp.storage.lance.dates import months, within
from blackboard_mcp.storage.lance.fusion import Bm25, Corpus, FusionCandidate, Passage
from blackboard_mcp.storage.lance.words import QUESTION_MARK, clean
from cachetools import LRUCache

_FETCHED = 500
"""Changed documents that are read together."""
_SHARE_FETCHED = 8
"""With more of a board changed than this part of it, the whole is read."""
_TURN = 20
_NUMBERS = ("number", "part", "start", "seq", "thread", "length", "created_us")
_TEXTS = ("type", "author", "owner", "tags")
_STATE = ("number", "part", "seq")


@dataclass(frozen=True, slots=True)
class BoardImage:
    """The windows of a board, ordered by number and part: `columns` by name, `vectors` `(n, dimension) int8`.

    A vector is the numbers that the table has, and `lengths` `(n,) float32` are their lengths. A window without a
    vector has zeros and the length 1. `hashes` are those of the words in order. The word at place `n` is in the
    windows `places[starts[n]:starts[n + 1]]`, as often as the same part of `times` says.
    """

    columns: Mapping[str, Any]
    vectors: Any | None
    lengths: Any | None
    hashes: Any
    starts: Any
    places: Any
    times: Any

    def __len__(self) -> int:
        return len(self.columns["number"])

    def corpus(self, asked: Sequence[str], viewer: Viewer | None) -> Corpus:
        """Returns the figures that BM25 needs for the words `asked`, of what the viewer may see."""
        seen = self._seen(viewer)
        lengths = self.columns["length"][seen]
        mean = float(lengths.mean()) if len(lengths) else 0.0
        return Corpus(len(lengths), mean, {w: int(seen[self._postings(w)[0]].sum()) for w in asked})

    def candidates(
        self, query: ArchiveQuery, bm25: Bm25, vector: Any | None, depth: int
    ) -> list[FusionCandidate]:
        """Returns the documents of the `depth` best windows by words, by meaning, and of those with a rare word.

        Those beside them in their threads come with them.
        A few long documents do not crowd out the best `query.limit` documents.
        """
        import numpy as np

        seen = self._seen(query.viewer)
        allowed = self._allowed(query, seen)
        scores = np.zeros(len(self))
        bits = np.zeros(len(self), dtype=np.uint64)
        rare = []
        for place, (word, weight) in enumerate(bm25.weights.items()):
            at, times = self._postings(word)
            scores[at] += bm25.part(weight, times, self.columns["length"][at])
            bits[at] |= np.uint64(1 << place)
            if np.count_nonzero(seen[at]) <= counts.RARE:
                rare.append(at)
        scores[~allowed] = 0.0
        chosen = [self._best(scores, depth, query.limit), *(at[allowed[at]] for at in rare)]
        if vector is not None and self.vectors is not None:
            near = np.einsum("ij,j->i", self.vectors, vector) / self.lengths
            near = np.where(allowed & (near != 0.0), near + 2.0, 0.0)
            chosen.append(self._best(near, depth, query.limit))
        at = np.unique(np.concatenate(chosen))
        at = np.union1d(at, self._beside(at, allowed))
        cosines: list[float | None] = [None] * len(at)
        if vector is not None and self.vectors is not None:
            own = vectors.directions(self.vectors[at])
            exact = (own * vector).sum(axis=1, dtype=np.float64).tolist()
            cosines = [
                round(c, 6) if there else None for c, there in zip(exact, own.any(axis=1), strict=True)
            ]
        asking = set(self.columns["number"][self._postings(QUESTION_MARK)[0]].tolist())
        named = months(query.text)
        found: dict[int, list[Passage]] = {}
        about: dict[int, tuple[int, int]] = {}
        taken = [self.columns[name][at].tolist() for name in ("number", "thread", "created_us", "start")]
        parts = zip(*taken, scores[at].tolist(), cosines, bits[at].tolist(), strict=True)
        for number, thread, created, start, said, cosine, there in parts:
            about[number] = thread, created
            found.setdefault(number, []).append(Passage(said, start, cosine, there))
        return [
            FusionCandidate(number, thread, tuple(own), number in asking, within(created, named))
            for number, own in found.items()
            for thread, created in [about[number]]
        ]

    def _beside(self, at: Any, allowed: Any) -> Any:
        """Returns the first windows of the documents before and after those of the windows `at` in their threads."""
        import numpy as np

        first = np.flatnonzero(allowed & (self.columns["part"] == 0))
        order = first[np.lexsort((self.columns["number"][first], self.columns["thread"][first]))]
        thread = self.columns["thread"][order]
        chosen = np.isin(self.columns["number"][order], self.columns["number"][at])
        same = thread[1:] == thread[:-1]
        wanted = np.zeros(len(order), dtype=bool)
        wanted[1:] |= chosen[:-1] & same
        wanted[:-1] |= chosen[1:] & same
        return order[wanted]

    def _postings(self, word: str) -> tuple[Any, Any]:
        """Returns the windows that contain `word`, and how often each does."""
        import numpy as np

        wanted = np.int64(hash(word))
        at = int(np.searchsorted(self.hashes, wanted))
        there = at < len(self.hashes) and self.hashes[at] == wanted
        part = slice(self.starts[at], self.starts[at + 1]) if there else slice(0)
        return self.places[part], self.times[part].astype(np.int32)

    def hash_of_each(self) -> Any:
        """Returns the hash of the word for each of `places`."""
        import numpy as np

        return np.repeat(self.hashes, np.diff(self.starts))

    def _allowed(self, query: ArchiveQuery, seen: Any) -> Any:
        """Returns which of the windows that the viewer may see match the query's filters: `(n,) bool`."""
        import pyarrow as pa
        import pyarrow.compute as pc

        kept = seen.copy()
        columns = self.columns
        if query.types:
            kept &= pc.is_in(columns["type"], pa.array([clean(t) for t in query.types])).to_numpy(False)
        for tag in query.tags:
            kept &= pc.match_substring(columns["tags"], rows.tagged(tag)).to_numpy(False)
        if query.author is not None:
            kept &= pc.equal(columns["author"], clean(query.author)).to_numpy(False)
        if query.thread is not None:
            kept &= columns["thread"] == query.thread
        if query.after is not None:
            kept &= columns["created_us"] >= rows.microseconds(query.after)
        if query.before is not None:
            kept &= columns["created_us"] < rows.microseconds(query.before)
        return kept

    def _seen(self, viewer: Viewer | None) -> Any:
        """Returns which windows the viewer may see: `(n,) bool`."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        if viewer is None:
            return np.ones(len(self), dtype=bool)
        owners = self.columns["owner"]
        seen = [mark for mark in pc.unique(owners).to_pylist() if viewer.sees(rows.owner_of(mark))]
        return pc.is_in(owners, pa.array(seen, pa.string())).to_numpy(zero_copy_only=False)

    def _best(self, scores: Any, depth: int, documents: int) -> Any:
        """Returns the `depth` best windows with a score above 0, and the best one of each of the best `documents`."""
        import numpy as np

        at = np.flatnonzero(scores > 0)
        if len(at) > depth:
            few = at[scores[at] >= np.partition(scores, -depth)[-depth]]
            at = few if len(np.unique(self.columns["number"][few])) >= documents else at
        order = at[np.argsort(-scores[at], kind="stable")]
        _, first = np.unique(self.columns["number"][order], return_index=True)
        return np.concatenate([order[:depth], order[np.sort(first)[:documents]]])


class Images:
    """The images of recently searched boards, with at most `counts.LARGE` windows together.

    A board that does not fit beside the others replaces them at most once in `_TURN` searches. Until then the
    driver's engines search it. Reading one board keeps no search of another waiting.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reading: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        self._version = -1
        self._fresh: set[str] = set()
        self._sizes: dict[str, int] = {}
        self._searches = 0
        self._next_turn = 0
        self._images: LRUCache[str, BoardImage] = LRUCache(
            counts.LARGE, getsizeof=lambda image: len(image) or 1
        )

    def of(self, table: Any, board: str) -> BoardImage | None:
        """Returns the image of a board as the table has it now; `None` if the driver's engines must search it."""
        version = table.version
        with self._lock:
            self._searches += 1
            if version != self._version:
                self._version = version
                self._fresh, self._sizes = set(), {}
            if (image := self._present(board)) is not None:
                return image
            if board in self._sizes and not self._admits(board, self._sizes[board]):
                return None
            reading = self._reading.setdefault(board, threading.Lock())
        with reading:
            with self._lock:
                if version == self._version and (image := self._present(board)) is not None:
                    return image
            state = _state(table, board)
            size = max(state.num_rows, 1)
            with self._lock:
                if version == self._version:
                    self._sizes[board] = size
                if not self._admits(board, size):
                    if size > counts.LARGE:
                        self._images.pop(board, None)
                    return None
                if not self._fits(board, size):
                    self._next_turn = self._searches + _TURN
                former = self._images.get(board)
            image = _renewed(table, board, former, state)
            with self._lock:
                self._images[board] = image
                if version == self._version:
                    self._fresh.add(board)
            return image

    def _present(self, board: str) -> BoardImage | None:
        return self._images.get(board) if board in self._fresh else None

    def _admits(self, board: str, size: int) -> bool:
        return size <= counts.LARGE and (self._fits(board, size) or self._searches >= self._next_turn)

    def _fits(self, board: str, size: int) -> bool:
        """Tells whether the board's windows fit beside those of the other images."""
        former = self._images.getsizeof(self._images[board]) if board in self._images else 0
        return self._images.currsize - former + size <= counts.LARGE


def _state(table: Any, board: str) -> Any:
    """Returns the number, part and seq of the board's rows, of at most one more than an image may have."""
    return table.search().where(rows.on_board(board)).select(list(_STATE)).limit(counts.LARGE + 1).to_arrow()


def _renewed(table: Any, board: str, former: BoardImage | None, state: Any) -> BoardImage:
    """Returns the image of the board's present rows, whose `state` is given."""
    import numpy as np

    if not former:
        return _read(table, [rows.on_board(board)])
    changed = _changed(former, state)
    if len(changed) > max(_FETCHED, len(former) // _SHARE_FETCHED):
        return _read(table, [rows.on_board(board)])
    if not len(changed):
        return former
    kept = ~np.isin(former.columns["number"], changed)
    parts = [changed[at : at + _FETCHED].tolist() for at in range(0, len(changed), _FETCHED)]
    return _joined(_only(former, kept), _read(table, [rows.of_documents(board, part) for part in parts]))


def _changed(former: BoardImage, state: Any) -> Any:
    """Returns the numbers of documents of which the image does not have exactly the rows of `state`: `(n,) int64`."""
    import numpy as np

    number, part, seq = (state[name].to_numpy() for name in _STATE)
    had = [former.columns[name] for name in _STATE]
    # The parts of a document follow each other, from 0.
    at = np.minimum(np.searchsorted(had[0], number) + part, len(former) - 1)
    same = np.all([own[at] == now for own, now in zip(had, (number, part, seq), strict=True)], axis=0)
    left = np.ones(len(former), dtype=bool)
    left[at[same]] = False
    return np.union1d(number[~same], had[0][left])


def _read(table: Any, wheres: Sequence[Any]) -> BoardImage:
    """Returns the image of the table's rows that any of the filters chooses."""
    import pyarrow as pa

    dimension = rows.dimension(table.schema)
    columns = [*_NUMBERS, *_TEXTS, "words", *([heads.HEAD] if dimension else ())]
    found = [table.search().where(where).select(columns).to_arrow() for where in wheres]
    return _made(pa.concat_tables(found), dimension)


def _made(found: Any, dimension: int) -> BoardImage:
    """Returns the image of rows of a table; without vectors if their dimension is 0."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    found = found.combine_chunks()
    number, seq = found["number"].to_numpy(), found["seq"].to_numpy()
    own, at = np.unique(number, return_inverse=True)
    newest = np.zeros(len(own), dtype=np.int64)
    np.maximum.at(newest, at, seq)
    found = found.filter(pa.array(newest[at] == seq)).sort_by(
        [("number", "ascending"), ("part", "ascending")]
    )
    columns = {name: found[name].to_numpy() for name in _NUMBERS}
    columns |= {name: pa.concat_arrays(found[name].chunks or [pa.array([], pa.string())]) for name in _TEXTS}
    meant = heads.numbers(found, dimension) if dimension else None
    split = pc.split_pattern(found["words"].combine_chunks(), " ")
    coded = split.flatten().dictionary_encode()
    words = max(len(coded.dictionary), 1)
    holders = pc.list_parent_indices(split).to_numpy().astype(np.int64)
    pairs, times = np.unique(holders * words + coded.indices.to_numpy(), return_counts=True)
    hashes = np.array([hash(word) for word in coded.dictionary.to_pylist()], dtype=np.int64)
    return _ordered(columns, meant, hashes[pairs % words], (pairs // words).astype(np.int32), times)


def _only(image: BoardImage, kept: Any) -> BoardImage:
    """Returns the image without the windows that are not `kept`."""
    import numpy as np
    import pyarrow as pa

    columns = {name: image.columns[name][kept] for name in _NUMBERS}
    columns |= {name: image.columns[name].filter(pa.array(kept)) for name in _TEXTS}
    meant = None if image.vectors is None else image.vectors[kept]
    there = kept[image.places]
    moved = (np.cumsum(kept) - 1).astype(np.int32)[image.places[there]]
    return _ordered(columns, meant, image.hash_of_each()[there], moved, image.times[there])


def _joined(one: BoardImage, other: BoardImage) -> BoardImage:
    """Returns the image of the windows of both."""
    import numpy as np
    import pyarrow as pa

    order = np.lexsort(
        [np.concatenate([one.columns[name], other.columns[name]]) for name in ("part", "number")]
    )
    columns = {n: np.concatenate([one.columns[n], other.columns[n]])[order] for n in _NUMBERS}
    columns |= {n: pa.concat_arrays([one.columns[n], other.columns[n]]).take(pa.array(order)) for n in _TEXTS}
    meant = None if one.vectors is None else np.concatenate([one.vectors, other.vectors])[order]
    moved = np.argsort(order).astype(np.int32)
    return _ordered(
        columns,
        meant,
        np.concatenate([one.hash_of_each(), other.hash_of_each()]),
        moved[np.concatenate([one.places, other.places + len(one)])],
        np.concatenate([one.times, other.times]),
    )


def _ordered(
    columns: Mapping[str, Any], meant: Any | None, hashes: Any, places: Any, times: Any
) -> BoardImage:
    """Returns the image of windows, where `hashes`, `places` and `times` have one word of one window each."""
    import numpy as np

    order = np.argsort(hashes, kind="stable")
    own, starts = np.unique(hashes[order], return_index=True)
    starts = np.append(starts, len(hashes))
    # A window has hundreds of words at most, but labels and runs without spaces have no bound.
    often = np.minimum(times[order], np.iinfo(np.uint16).max).astype(np.uint16)
    lengths = None
    if meant is not None:
        squares = np.einsum("ij,ij->i", meant, meant, dtype=np.int32)
        lengths = np.sqrt(np.maximum(squares, 1)).astype(np.float32)
    return BoardImage(columns, meant, lengths, own, starts, places[order], often)
