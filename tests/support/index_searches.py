"""Searches of an archive index together with what its store has not given to it yet."""

from __future__ import annotations

from blackboard_mcp.protocols.archive import ArchiveAnswer, ArchiveIndex, ArchiveQuery, ArchiveSource
from blackboard_mcp.storage.lance.pending import waiting_of


async def search_archive(source: ArchiveSource, index: ArchiveIndex, query: ArchiveQuery) -> ArchiveAnswer:
    """Returns the index's answer, including items that are not indexed yet.

    Raises:
        ArchiveUnavailable: the index did not answer, or more items of the board wait than a search reads.
    """
    return await index.search(query, await waiting_of(source, query.board))
