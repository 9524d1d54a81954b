"""Searches with the driver's two engines: for windows that contain words, and for windows near a vector.

On a board that fills most of its table the results are filtered after the search, which is several times faster and
gives the same windows. If too few are left, the search is repeated with the filter first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from blackboard_mcp.protocols.archive import ArchiveQuery
from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.protocols.visibility import Viewer
from blackboard_mcp.storage.lance import rows, vectors

PROBES = 50
_SPARE = 8
"""One more in so many is asked for than the share of a board makes likely."""
REFINE = 8
"""How many times as many rows are compared by their whole vectors as the driver is asked for by signs."""
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

    def search(self, ask: Callable[[], Any], columns: Sequence[str], limit: int) -> Any:
        """Returns the first `limit` rows of the search that `ask` begins, as an Arrow table in the driver's order.

        Beside `columns` it has `_rowid`, the place of each row.
        """
        if not self.share:
            asked = ask().where(self.where, prefilter=True).limit(limit)
            return asked.with_row_id(True).select(list(columns)).to_arrow()
        import pyarrow as pa
        import pyarrow.compute as pc

        more = int(limit / self.share) + limit // _SPARE
        found = ask().limit(more).with_row_id(True).select([*columns, "board", "owner"]).to_arrow()
        own = found.filter(pc.equal(found["board"], self.board))
        if self.viewer is not None:
            marks = pc.unique(own["owner"]).to_pylist()
            seen = [mark for mark in marks if self.viewer.sees(rows.owner_of(mark))]
            own = own.filter(pc.is_in(own["owner"], pa.array(seen, pa.string())))
        if own.num_rows >= limit or found.num_rows < more:
            return own.slice(0, limit)
        return EngineReach(self.board, self.where).search(ask, columns, limit)


def by_words(table: Any, asked: Sequence[str], reach: EngineReach, columns: Sequence[str], limit: int) -> Any:
    """Returns the `limit` windows that the driver ranks best for any of the words, as an Arrow table."""
    return reach.search(lambda: table.search(rows.holding(asked)), [*columns, "_score"], limit)


def by_vector(table: Any, vector: Any, reach: EngineReach, columns: Sequence[str], limit: int) -> Any:
    """Returns the `limit` windows nearest to `vector`, as an Arrow table, the nearest first.

    The driver chooses candidates by the signs of their vectors, which are then compared by their whole vectors.
    """
    import numpy as np

    asked = vectors.signs(vector[None, :])[0]

    def ask() -> Any:
        near = table.search(asked, vector_column_name=vectors.SIGNS).distance_type("hamming")
        # A narrow filter must not leave its matches unprobed, and without one there is no need to probe more.
        return near.nprobes(PROBES) if reach.share else near.maximum_nprobes(0).minimum_nprobes(PROBES)

    found = reach.search(ask, [*{*columns, *vectors.COLUMNS, "_distance"}], REFINE * limit)
    near = vectors.directions(vectors.of_rows(found, len(vector))) @ vector
    return found.take(np.argsort(-near, kind="stable")[:limit])
