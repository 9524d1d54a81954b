"""Upkeep of a table: compaction, indexes for a large one, and repetition after conflicts with other writers."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from blackboard_mcp.storage.lance import counts, vectors

INDEXED_ROWS = counts.LARGE
"""The rows from which a table is large: with fewer, all boards fit into memory together, and no index is of use."""

_CLUSTER_ROWS = 4096
_GROWTH = 4
_ITERATIONS = 15
_CLUSTERS = "vector_"
_KEEP_VERSIONS = timedelta(minutes=30)
_CONFLICT_ATTEMPTS = 8
FENCED = "concurrent transaction restore"
"""What an error says if another writer of a shared table took it over."""
_FINAL = (FENCED, "retry_timeout")
"""What errors say that are not repeated here; the driver itself repeats requests to an object store."""


def maintain(table: Any, keep: timedelta | None = None) -> bool:
    """Compacts a table, and gives a large one its indexes; returns whether it got a new one."""
    compact(table, keep)
    before = _indexed(table)
    unless_conflicting(lambda: _hasten(table))
    return _indexed(table) != before


def _indexed(table: Any) -> set[str]:
    return {index.name for index in table.list_indices()}


def compact(table: Any, keep: timedelta | None = None) -> None:
    """Compacts a table, and deletes versions older than `keep`, by default half an hour.

    A draft needs no more while it is filled.
    """
    unless_conflicting(lambda: _compact(table, keep))


def unless_conflicting(step: Callable[[], object]) -> None:
    """Runs `step`, and repeats it while another process commits in between."""
    for attempt in range(_CONFLICT_ATTEMPTS):
        try:
            step()
            return
        except Exception as error:
            said = str(error).lower()
            repeats = ("conflict" in said or "retry" in said) and not any(x in said for x in _FINAL)
            if attempt + 1 == _CONFLICT_ATTEMPTS or not repeats:
                raise
            time.sleep(random.uniform(0.01, 0.05) * 2**attempt)


def _compact(table: Any, keep: timedelta | None) -> None:
    table.checkout_latest()
    table.optimize(cleanup_older_than=_KEEP_VERSIONS if keep is None else keep)


def _hasten(table: Any) -> None:
    """Creates indexes on a large table; a small one is faster without."""
    rows = table.count_rows()
    if rows < INDEXED_ROWS:
        return
    from lancedb.index import FTS, Bitmap, BTree

    # The words are made by `words.py`; the driver only splits them at spaces.
    said = FTS(
        with_position=False,
        base_tokenizer="whitespace",
        max_token_length=200,
        lower_case=False,
        stem=False,
        remove_stop_words=False,
        ascii_folding=False,
    )

    there = {column: index.name for index in table.list_indices() for column in index.columns}
    for column, config in (
        ("words", said),
        ("board", Bitmap()),
        ("bucket", Bitmap()),
        ("thread", BTree()),
        ("number", BTree()),
    ):
        if column not in there:
            table.create_index(column, config=config)
    if vectors.SIGNS in table.schema.names:
        _cluster(table, max(rows // _CLUSTER_ROWS, 1), there.get(vectors.SIGNS))


def _cluster(table: Any, wanted: int, former: str | None) -> None:
    """Makes an index of vectors in about `wanted` clusters, unless that of the name `former` has a quarter of these.

    The driver never adds clusters to an index, so its name tells how many it was made with.
    """
    from lancedb.index import IvfFlat

    number = (former or "").removeprefix(_CLUSTERS)
    if number.isdecimal() and wanted < _GROWTH * int(number):
        return
    made = IvfFlat(distance_type="hamming", num_partitions=wanted, max_iterations=_ITERATIONS)
    table.create_index(vectors.SIGNS, config=made, name=f"{_CLUSTERS}{wanted}")
    if former is not None and former != f"{_CLUSTERS}{wanted}":
        table.drop_index(former)
