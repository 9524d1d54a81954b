"""The driver's two engines, asked: which windows hold the words, which lie near the vector.

A board that fills most of its table is not filtered before the search but after it, which is several
times quicker and gives the same windows; what falls short is asked for again, filtered first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from blackboard_mcp.protocols.archive import ArchiveQuery
from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.storage.lance import rows

PROBES = 50
REFINE = 5
MOST = 0.5
"""A board with this share of the table's windows, or more, fills most of it."""


@dataclass(frozen=True, slots=True)
class EngineReach:
    """What a search may look at: one board's rows that match a filter.

    `fills` says that the board fills most of a large table and that nothing but it is filtered by.
    """

    board: str
    where: Any
    fills: bool = False

    @classmethod
    def of(cls, query: ArchiveQuery, *, fills: bool) -> EngineReach:
        plain = ArchiveQuery(query.board, query.text, query.limit) == query
        return cls(rows.stored(query.board), rows.matching(query), fills and plain)

    def search(self, ask: Callable[[], Any], columns: Sequence[str], limit: int) -> Any:
        """The first `limit` rows of what `ask` begins, as an Arrow table in the driver's order."""
        if not self.fills:
            return ask().where(self.where, prefilter=True).limit(limit).select(list(columns)).to_arrow()
        import pyarrow.compute as pc

        more = 2 * limit
        found = ask().limit(more).select([*columns, "board"]).to_arrow()
        own = found.filter(pc.equal(found["board"], self.board))
        if own.num_rows >= limit or found.num_rows < more:
            return own.slice(0, limit).select(list(columns))
        return EngineReach(self.board, self.where).search(ask, columns, limit)


def by_words(table: Any, asked: Sequence[str], reach: EngineReach, columns: Sequence[str], limit: int) -> Any:
    """The `limit` windows that the driver finds best for any of the words."""
    return reach.search(lambda: table.search(rows.holding(asked)), [*columns, "_score"], limit)


def by_vector(table: Any, vector: Any, reach: EngineReach, columns: Sequence[str], limit: int) -> Any:
    """The `limit` windows nearest to `vector`; those of an index refined with the vectors themselves."""

    def ask() -> Any:
        near = table.search(vector, vector_column_name="vector").distance_type("cosine")
        # No upper bound: a narrow filter must not leave its matches unprobed.
        return near.minimum_nprobes(PROBES).maximum_nprobes(0).refine_factor(REFINE)

    return reach.search(ask, [*columns, "_distance"], limit)
