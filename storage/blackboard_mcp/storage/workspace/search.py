"""Search in the files of boards, by words, over chunks that are kept in memory.

The index follows the revisions of a board: a search first takes in what was written since the last one. A file is cut
again only if it was written, and of its chunks only those are counted again that changed. Words count by the field in
which they stand (BM25F). Vectors of the bundled model gained nothing here that could be measured
(docs/discussions/benchmarks.md), so there are none.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.protocols.workspace import MAX_PAGE, Revision, WorkspaceStore
from cachetools import LRUCache

from ..lance.words import words
from .chunks import Chunk, chunks_of, outline_of

MAX_INDEXED: Final = 200_000
"""Largest file that is searched, in bytes."""
MAX_CHUNKS: Final = 60_000
"""Most chunks of a board that are searched; the files with the first paths count."""
_ROOMY: Final = 0.9
"""The part of the most chunks there were below which there is room again for files that were left out."""
_BOARDS: Final = 4
_K1, _B = 3.0, 0.3
_PATH: Final = (1.5, 0.0, 1)
"""What a word of a path counts, how far those of a longer field count less, and how many words it usually has."""
_TITLE: Final = (3.0, 0.3, 3)
_PROSE: Final = (2.0, 0.5, 10)
"""The same for comments, docstrings and headings, beside what they count as words of the text."""
_TEXT: Final = (1.0, 0.5, 70)
_AROUND: Final = (0.3, 0.0, 1)
"""The same for the prose at the beginning of the file, and of the class or section that the chunk belongs to."""
_MUCH: Final = 600
"""So many characters of such prose count."""
_WHOLE: Final = 0.6
"""What the words of the whole file count beside those of the chunk."""
_OF_FILE: Final = 3
_COMMENT: Final = ("#", "//", "/*", "*", "--")
_LEAST: Final = 0.6
"""Most parts of one file that are found, and the least score of a further one beside that of the file's best."""
_CUT: Final = 4_096
"""Most contents whose chunks are kept for outlines."""
_LOG: Final = 50
_TOGETHER: Final = 8


@dataclass(frozen=True, slots=True)
class ArtifactHit:
    """A chunk that was found: its file's revision, its lines, and the line in it with most of the words."""

    revision: Revision
    chunk: Chunk
    line: int
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class Outline:
    """The titled chunks of a file."""

    revision: Revision
    parts: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class _Indexed:
    revision: Revision
    text: str
    chunks: tuple[Chunk, ...]
    counts: tuple[Mapping[str, float], ...]


@dataclass(frozen=True, slots=True)
class _Fields:
    """The texts of a chunk, each of which counts in its own way."""

    title: str
    prose: str
    rest: str
    around: str

    def counted(self, path: Sequence[str]) -> Mapping[str, float]:
        """Returns how much each word counts in the chunk, as BM25F adds it up, given the words of the file's path."""
        prose = words(self.prose)
        found = defaultdict[str, float](float)
        for said, (weight, mark_down, usual) in (
            (path, _PATH),
            (words(self.title), _TITLE),
            (prose, _PROSE),
            (prose + words(self.rest), _TEXT),
            (_around(self.around), _AROUND),
        ):
            each = weight / (1 - mark_down + mark_down * len(said) / usual)
            for word in said:
                found[word] += each
        return dict(found)


@lru_cache(maxsize=64)
def _around(text: str) -> list[str]:
    """Returns the words of what the chunks of a class or file have around them in common."""
    return words(text)


def _fields(text: str, chunks: Sequence[Chunk]) -> list[_Fields]:
    """Returns the fields of the chunks of a file."""
    lines = text.split("\n")
    heads: dict[str, str] = {}
    found = []
    for one in chunks:
        prose, rest = _divided("\n".join(lines[one.start - 1 : one.end]))
        above = dict.fromkeys(("", one.title.rpartition(" > ")[0])) if one.title else ()
        around = "\n".join(heads[title] for title in above if title in heads)
        heads.setdefault(one.title, prose[:_MUCH])
        found.append(_Fields(one.title, prose, rest, around))
    return found


def _divided(text: str) -> tuple[str, str]:
    """Returns the lines of comments, docstrings, headings and lists, which say what a chunk is for, and the rest."""
    prose, rest, inside = list[str](), list[str](), False
    for line in text.split("\n"):
        quotes = line.count('"""')
        (prose if inside or quotes or line.lstrip().startswith(_COMMENT) else rest).append(line)
        inside ^= quotes % 2 == 1
    return "\n".join(prose), "\n".join(rest)


class _Board:
    """The files of one board up to a revision, with the chunks in which each word stands."""

    def __init__(self) -> None:
        self.last = 0
        self.files: dict[str, _Indexed] = {}
        self.postings: dict[str, dict[tuple[str, int], float]] = {}
        self.chunks = 0
        self.is_cut = False
        """Whether the index lacks files that had no room in it."""
        self.most = 0
        """The most chunks that there were since all files were taken in."""
        self.lock = asyncio.Lock()

    def put(self, revision: Revision, body: bytes) -> None:
        """Takes in a file as it is now."""
        was = self.files.get(revision.path)
        self.drop(revision.path)
        if revision.op == "deleted" or revision.lines is None or len(body) > MAX_INDEXED:
            return
        known = {} if was is None else dict(zip(_fields(was.text, was.chunks), was.counts, strict=True))
        text = body.decode()
        chunks = tuple(chunks_of(revision.path, text))
        if self.chunks + len(chunks) > MAX_CHUNKS:
            self.is_cut = True
            return
        named = words(revision.path.replace("/", " "))
        counts = tuple(known.get(one) or one.counted(named) for one in _fields(text, chunks))
        self.files[revision.path] = _Indexed(revision, text, chunks, counts)
        for place, counted in enumerate(counts):
            for word, count in counted.items():
                self.postings.setdefault(word, {})[revision.path, place] = count
        self.chunks += len(chunks)
        self.most = max(self.most, self.chunks)

    def drop(self, path: str) -> None:
        """Forgets a file."""
        was = self.files.pop(path, None)
        if was is None:
            return
        for place, counted in enumerate(was.counts):
            for word in counted:
                there = self.postings[word]
                del there[path, place]
                if not there:
                    del self.postings[word]
        self.chunks -= len(was.chunks)

    def search(self, text: str, wanted: Callable[[str], bool], limit: int) -> list[ArtifactHit]:
        """Returns the best chunks of the best `limit` files, file by file."""
        asked = list(dict.fromkeys(words(text)))
        average = self.chunks / max(1, len(self.files))
        scores: dict[tuple[str, int], float] = {}
        whole: dict[str, float] = {}
        for word in asked:
            there = self.postings.get(word, {})
            files = defaultdict[str, float](float)
            for (path, _), count in there.items():
                files[path] += count
            rare = math.log(1 + (len(self.files) - len(files) + 0.5) / (len(files) + 0.5))
            for path, count in files.items():
                scale = _K1 * (1 - _B + _B * len(self.files[path].chunks) / average)
                whole[path] = whole.get(path, 0.0) + rare * count * (_K1 + 1) / (count + scale)
            weight = math.log(1 + (self.chunks - len(there) + 0.5) / (len(there) + 0.5))
            for place, count in there.items():
                if wanted(place[0]):
                    scores[place] = scores.get(place, 0.0) + weight * count * (_K1 + 1) / (count + _K1)
        for place in scores:
            scores[place] += _WHOLE * whole[place[0]]
        chosen: dict[str, list[tuple[int, float]]] = {}
        for (path, part), score in sorted(scores.items(), key=lambda one: (-one[1], one[0])):
            if path not in chosen and len(chosen) == limit:
                continue
            parts = chosen.setdefault(path, [])
            if not parts or (len(parts) < _OF_FILE and score >= _LEAST * parts[0][1]):
                parts.append((part, score))
        return [
            self._hit(path, part, score, frozenset(asked))
            for path, parts in chosen.items()
            for part, score in parts
        ]

    def _hit(self, path: str, place: int, score: float, asked: frozenset[str]) -> ArtifactHit:
        file = self.files[path]
        chunk = file.chunks[place]
        lines = file.text.split("\n")[chunk.start - 1 : chunk.end]
        best = max(range(len(lines)), key=lambda n: (len(asked.intersection(words(lines[n][:400]))), -n))
        return ArtifactHit(file.revision, chunk, chunk.start + best, lines[best], score)


class ArtifactIndex:
    """Searches the files of boards; it keeps those of the boards that were searched last."""

    def __init__(self, store: WorkspaceStore) -> None:
        self._store = store
        self._boards: OrderedDict[str, _Board] = OrderedDict()
        self._cut: LRUCache[tuple[str, str], tuple[Chunk, ...]] = LRUCache(_CUT)

    async def search(
        self, board: str, text: str, wanted: Callable[[str], bool], limit: int
    ) -> tuple[list[ArtifactHit], int]:
        """Returns the best chunks of the best `limit` files that are `wanted`, and how many files are searched."""
        known = await self._current(board)
        async with known.lock:
            return await asyncio.to_thread(known.search, text, wanted, limit), len(known.files)

    async def outline(self, board: str, files: Sequence[Revision]) -> list[Outline]:
        """Returns the outlines of those of the files that are text and not too large."""
        found = []
        for revision in files:
            if revision.lines is None or revision.size > MAX_INDEXED:
                continue
            same = (revision.blob, revision.path.rpartition(".")[2])
            parts = self._cut.get(same)
            if parts is None:
                content = await self._store.read_artifact(board, revision.path, revision.number)
                parts = tuple(await asyncio.to_thread(outline_of, revision.path, content.body.decode()))
                self._cut[same] = parts
            found.append(Outline(revision, parts))
        return found

    async def _current(self, board: str) -> _Board:
        known = self._boards.setdefault(board, _Board())
        self._boards.move_to_end(board)
        while len(self._boards) > _BOARDS:
            self._boards.popitem(last=False)
        # A search that is cut must not leave a thread that takes in a file beside the next search.
        await asyncio.shield(asyncio.ensure_future(self._catch_up(board, known)))
        return known

    async def _catch_up(self, board: str, known: _Board) -> None:
        """Takes in what was written since the last search."""
        async with known.lock:
            if not known.last:
                await self._fill(board, known)
            while log := await self._store.artifact_log(board, known.last, _LOG):
                for content in log:
                    await asyncio.to_thread(known.put, content.revision, content.body)
                known.last = log[-1].revision.number
            if known.is_cut and known.chunks < _ROOMY * known.most:
                known.is_cut, known.most = False, 0
                await self._fill(board, known)

    async def _fill(self, board: str, known: _Board) -> None:
        """Takes in all files as they are, not as they came to be."""
        newest = await self._store.artifact_history(board, "", 0, 1)
        if not newest:
            return
        place = ""
        while page := await self._store.artifacts(board, "", place, MAX_PAGE):
            small = [one for one in page if one.lines is not None and one.size <= MAX_INDEXED]
            for begin in range(0, len(small), _TOGETHER):
                some = small[begin : begin + _TOGETHER]
                read = await asyncio.gather(
                    *(self._store.read_artifact(board, one.path, one.number) for one in some)
                )
                for content in read:
                    await asyncio.to_thread(known.put, content.revision, content.body)
            place = page[-1].path
            if known.chunks >= MAX_CHUNKS:
                known.is_cut = True
                break
        known.last = newest[0].number
