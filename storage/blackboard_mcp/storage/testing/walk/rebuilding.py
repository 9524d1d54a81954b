"""A board exported as its history and rebuilt, in the caller's thread."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from blackboard_mcp.storage.history import exporting, importing
from blackboard_mcp.storage.history.comparing import differences
from blackboard_mcp.storage.history.lines import seal, sealed
from blackboard_mcp.storage.operations.ledger.rows import Steps
from blackboard_mcp.storage.store import SqlBoardStore

from .inline import InlineEngine


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The result: the board's lines, those of the rebuilt board, and the differences between the two boards."""

    lines: list[bytes]
    again: list[bytes]
    differences: list[str]

    @property
    def sequences(self) -> list[int]:
        """The sequence of each line."""
        return [json.loads(line)["seq"] for line in self.lines]


async def rebuilt(store: SqlBoardStore, board: str, *, page: int = 7) -> Rebuilt:
    """Rebuilds a board of the store from its history, and compares the two.

    Its pages are small, so that there are several.
    """
    engine: Any = store.engine
    lines = await engine.read(lambda: written(board, page))
    other = InlineEngine()
    try:
        no = await other.write(lambda: _built(lines))
        again = await other.read(lambda: written(board, page))
        extent = await engine.read(lambda: exporting.extent(board))
        return Rebuilt(lines, again, await differences(engine, extent.no, other, no))
    finally:
        await other.close()


def written(board: str, page: int, *, public: bool = False) -> Steps[list[bytes]]:
    """Returns all lines of a board's history, as of one moment."""
    extent = yield from exporting.extent(board, public=public)
    digest = hashlib.sha256()
    lines: list[bytes] = []
    after = 0
    while after < extent.last:
        rows = yield from exporting.page(extent, after, limit=page)
        after = rows[-1][0]
        lines += [line for _, line in rows]
        if after < extent.last:
            digest.update(b"".join(line for _, line in rows))
    return [*lines[:-1], seal(digest, lines[-1])] if lines else []


def _built(lines: list[bytes]) -> Steps[int]:
    progress = yield from importing.begin(lines[0], None)
    progress = yield from importing.load(progress, lines)
    yield from importing.finish(
        progress, hashlib.sha256(b"".join(lines[:-1]) + sealed(lines[-1])).hexdigest()
    )
    return progress.no
