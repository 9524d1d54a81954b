"""Searches with the driver's two engines: for windows that contain words, and for windows near a vector.

An engine is asked for the places of rows alone. The heads of these rows are then read once for both engines, which
costs less than reading by each. A place is valid in one version of the table, so that must not change.

On a board that fills most of its table the results are filtered after the search, which is several times faster and
gives the same windows. If too few are left, the search is repeated with the filter first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from blackboard_mcp.protocols.archive import ArchiveQuery
from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.protocols.visibility import Viewer
from blackboard_mcp.storage.lance import rows, vectors
from blackboard_mcp.storage.lance.heads import HEAD, read, scope

PROBES = 50
_SPARE = 8
"""One more in so many is asked for than the share of a board makes likely."""
REFINE = 5
"""The number of rows that are compared by their whole vectors for each one wanted; the driver compares signs only."""
MOST = 0.5
"""The share of the table's windows from which a board is said to fill most of it."""


@dataclass(frozen=True, slots=True)
class EngineReach:
    """The rows that a search may return: those of one board that match a filter and that a viewer may see.

    `share` is the share of the table's windows that they are if this is most of a large table, otherwise 0.
    """

    board: str
    where: Any
    share: float = 0.0
    viewer: Viewer | None = None

    @classmethod
    def of(cls, query: ArchiveQuery, *, share: float) -> EngineReach:
        """Returns the rows that a query may find; `share` is the board's share of the table."""
        plain = ArchiveQuery(query.board, query.text, query.limit, viewer=query.viewer) == query
        return cls(rows.stored(query.board), rows.matching(query), share if plain else 0.0, query.viewer)

    def but(self, where: Any) -> EngineReach:
        """Returns those of the rows that match another filter, too."""
        return EngineReach(self.board, self.where & where)

    def asked(self, wanted: int) -> int:
        """Returns for how many rows an engine is asked, so that `wanted` of those it finds are likely in reach."""
        return int(wanted / self.share) + wanted // _SPARE if self.share else wanted


@dataclass(frozen=True, slots=True)
class Head:
    """The numbers of a row that a search needs, whether it is within reach, and its cosine if it has a vector.

    `created_us` is when its document was made, to the minute, in microseconds from 1970, and `start` the window's
    offset in its text, in characters.
    """

    number: int
    thread: int
    seq: int
    created_us: int
    start: int
    within: bool
    cosine: float | None


@dataclass(frozen=True, slots=True)
class _Engine:
    """A search of one engine, the column with its score, and the number of rows that are wanted of it."""

    begun: Callable[[EngineReach], Any]
    column: str
    wanted: int

    def places(self, reach: EngineReach) -> list[int]:
        """Returns the places of rows, the best first. With a `share` of the table some of the rows are out of reach."""
        search = self.begun(reach).limit(reach.asked(self.wanted))
        if not reach.share:
            search = search.where(reach.where, prefilter=True)
        found: list[int] = search.with_row_id(True).select([self.column]).to_arrow()["_rowid"].to_pylist()
        return found


class Engines:
    """The driver's engines on a table in one version, and the heads of the rows that they found, by place."""

    def __init__(self, table: Any, vector: Any | None = None) -> None:
        self.heads: dict[int, Head] = {}
        self.by_meaning = vector is not None
        self._table = table
        self._vector = vector
        self._dimension = rows.dimension(table.schema)

    def ask(
        self, reach: EngineReach, words: Sequence[str], *, said: int, meant: int
    ) -> tuple[list[int], list[int]]:
        """Returns places of rows: of the `said` best for any of the words, and of the `meant` nearest to the vector.

        The driver chooses candidates by the signs of their vectors, which are then compared by their whole vectors.
        """
        engines = [
            _Engine(lambda _: self._table.search(rows.holding(words)), "_score", said),
            _Engine(self._near, "_distance", REFINE * meant),
        ]
        placed = [engine.places(reach) if engine.wanted else [] for engine in engines]
        self._look(reach, (place for places in placed for place in places))
        chosen = []
        for engine, places in zip(engines, placed, strict=True):
            found = [place for place in places if self.heads[place].within]
            if reach.share and len(found) < engine.wanted and len(places) >= reach.asked(engine.wanted):
                narrow = replace(reach, share=0.0)
                found = engine.places(narrow)
                self._look(narrow, found)
            chosen.append(found[: engine.wanted])
        near = sorted(chosen[1], key=lambda place: -(self.heads[place].cosine or 0.0))
        return chosen[0], near[:meant]

    def read(self, places: Iterable[int], columns: Sequence[str]) -> Any:
        """Returns an Arrow table of rows with these columns and `_rowid`, the place of each, in any order."""
        return self._table.take_row_ids(sorted(places)).select(list(columns)).with_row_id().to_arrow()

    def words(self, places: Iterable[int]) -> dict[int, str]:
        """Returns the words of rows by place."""
        return _words(self.read(places, ["words"]))

    def those(self, where: Any) -> dict[int, str]:
        """Returns the words of all rows that a filter finds by place, and makes their heads known."""
        found = self._table.search().where(where).select(["words", HEAD]).with_row_id(True).to_arrow()
        self._know(found, read(found, self._dimension), [True] * found.num_rows)
        return _words(found)

    def known(self, where: Any) -> set[int] | None:
        """Returns the places of all rows that a filter finds if the heads of all are known, otherwise `None`."""
        search = self._table.search().where(where).limit(len(self.heads) + 1)
        found = {*search.with_row_id(True).select(["_rowid"]).to_arrow()["_rowid"].to_pylist()}
        return found if found <= self.heads.keys() else None

    def _near(self, reach: EngineReach) -> Any:
        assert self._vector is not None
        asked = vectors.signs(self._vector[None, :])[0]
        near = self._table.search(asked, vector_column_name=vectors.SIGNS).distance_type("hamming")
        # A narrow filter must not leave its matches unprobed, and without one there is no need to probe more.
        return near.nprobes(PROBES) if reach.share else near.maximum_nprobes(0).minimum_nprobes(PROBES)

    def _look(self, reach: EngineReach, places: Iterable[int]) -> None:
        """Reads the heads of rows that are not known."""
        unknown = {*places} - self.heads.keys()
        if unknown:
            found = self.read(unknown, [HEAD])
            heads = read(found, self._dimension)
            within = self._within(reach, found, heads) if reach.share else [True] * found.num_rows
            self._know(found, heads, within)

    def _within(self, reach: EngineReach, found: Any, heads: Mapping[str, Any]) -> list[bool]:
        """Returns whether each row is within a reach that is most of the table."""
        marks = [""] if reach.viewer is None else rows.plain_marks(reach.viewer)
        within = {scope(reach.board, mark) for mark in marks}
        said = [each in within for each in heads["scope"].tolist()]
        if doubtful := [at for at, sure in zip(found["_rowid"].to_pylist(), said, strict=True) if not sure]:
            seen = {*self._seen(reach, doubtful)}
            said = [sure or at in seen for at, sure in zip(found["_rowid"].to_pylist(), said, strict=True)]
        return said

    def _seen(self, reach: EngineReach, places: Iterable[int]) -> Iterator[int]:
        """Yields those of the places whose rows are of the board, and may be seen by the viewer."""
        found = self.read(places, ["board", "owner"])
        columns = (found[name].to_pylist() for name in ("_rowid", "board", "owner"))
        for place, board, mark in zip(*columns, strict=True):
            seen = reach.viewer is None or reach.viewer.sees(rows.owner_of(mark))
            if board == reach.board and seen:
                yield place

    def _know(self, found: Any, heads: Mapping[str, Any], within: Sequence[bool]) -> None:
        """Keeps the heads of rows."""
        columns = (heads[name].tolist() for name in ("number", "thread", "seq", "created_us", "start"))
        cosines = self._cosines(heads["vector"])
        for place, *values in zip(found["_rowid"].to_pylist(), *columns, within, cosines, strict=True):
            self.heads[place] = Head(*values)

    def _cosines(self, together: Any) -> list[float | None]:
        """Returns the cosines of rows, from their signs and sizes, with the vector."""
        found: list[float | None] = [None] * len(together)
        if self._vector is not None and len(together):
            import numpy as np

            own = vectors.directions(vectors.numbers(together, self._dimension))
            meant = np.flatnonzero(own.any(axis=1))
            products = (own[meant] * self._vector).sum(axis=1, dtype=np.float64)
            for place, product in zip(meant.tolist(), products.tolist(), strict=True):
                found[place] = round(product, 6)
        return found


def _words(found: Any) -> dict[int, str]:
    return dict(zip(found["_rowid"].to_pylist(), found["words"].to_pylist(), strict=True))
