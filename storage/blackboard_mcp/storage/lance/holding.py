"""The documents in a table, for comparison with the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from blackboard_mcp.protocols.archive import SUM_FACTOR, SUM_MODULUS, Sum


def _documents(table: Any | None) -> Any | None:
    """Returns all documents as Arrow columns: board, number, and seq, which is -1 for an incomplete document."""
    if table is None:
        return None
    import pyarrow as pa
    import pyarrow.compute as pc

    found = table.search().select(["board", "number", "seq", "parts"]).to_arrow()
    aggregates = [("seq", "min"), ("seq", "max"), ("seq", "count"), ("parts", "min"), ("parts", "max")]
    each = found.group_by(["board", "number"]).aggregate(aggregates)
    whole = pc.and_(
        pc.equal(each["seq_min"], each["seq_max"]),
        pc.and_(
            pc.equal(each["parts_min"], each["parts_max"]), pc.equal(each["seq_count"], each["parts_max"])
        ),
    )
    seq = pc.if_else(whole, each["seq_max"], pa.scalar(-1, pa.int64()))
    return pa.table({"board": each["board"], "number": each["number"], "seq": seq})


def keys(table: Any | None) -> dict[tuple[str, int], int]:
    """Returns a map from (board, number) to the seq of every document; -1 for an incomplete one."""
    found = _documents(table)
    if found is None:
        return {}
    pairs = zip(found["board"].to_pylist(), found["number"].to_pylist(), strict=True)
    return dict(zip(pairs, found["seq"].to_pylist(), strict=True))


def sums(table: Any | None, apart: Mapping[str, Sequence[int]]) -> dict[str, Sum]:
    """Returns the sums of documents by board, without those whose numbers are in `apart`."""
    found = _documents(table)
    if found is None:
        return {}
    import numpy as np
    import pyarrow.compute as pc

    summed = {}
    for board in pc.unique(found["board"]).to_pylist():
        own = found.filter(pc.equal(found["board"], board))
        number, seq = own["number"].to_numpy(), own["seq"].to_numpy()
        kept = ~np.isin(number, np.array(apart.get(board, ()), dtype=np.int64))
        number, seq = number[kept], seq[kept]
        if len(number):
            mixed = (number % SUM_FACTOR) * (seq % SUM_FACTOR) % SUM_MODULUS
            summed[board] = Sum(len(number), int(number.sum()), int(seq.sum()), int(mixed.sum()))
    return summed
