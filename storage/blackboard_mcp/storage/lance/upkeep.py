"""Upkeep of a table: compaction, indexes for a large one, and repetition after conflicts with other writers."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

_INDEXED_ROWS = 50_000
_KEEP_VERSIONS = timedelta(minutes=30)
_CONFLICT_ATTEMPTS = 8


def maintain(table: Any) -> None:
    """Compacts a table, and gives a large one its indexes."""
    unless_conflicting(lambda: _compact(table))
    unless_conflicting(lambda: _hasten(table))


def unless_conflicting(step: Callable[[], object]) -> None:
    """Runs `step`, and repeats it while another process commits in between."""
    for attempt in range(_CONFLICT_ATTEMPTS):
        try:
            step()
            return
        except Exception as error:
            said = str(error).lower()
            if attempt + 1 == _CONFLICT_ATTEMPTS or not ("conflict" in said or "retry" in said):
                raise
            time.sleep(random.uniform(0.01, 0.05) * 2**attempt)


def _compact(table: Any) -> None:
    table.checkout_latest()
    table.optimize(cleanup_older_than=_KEEP_VERSIONS)


def _hasten(table: Any) -> None:
    """Creates indexes on a large table; a small one is faster without."""
    if table.count_rows() < _INDEXED_ROWS:
        return
    from lancedb.index import Bitmap, IvfSq

    there = {column for index in table.list_indices() for column in index.columns}
    for column in ("board", "bucket"):
        if column not in there:
            table.create_index(column, config=Bitmap())
    if "vector" in table.schema.names and "vector" not in there:
        table.create_index("vector", config=IvfSq(distance_type="cosine"))
