"""What a search reads of the texts that wait for the index: bounded, the newest first, and said where it is not all."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from blackboard_mcp.protocols.archive import ArchiveDocument, ArchiveIndex, ArchiveQuery, Waiting
from blackboard_mcp.protocols.errors import ArchiveUnavailable
from blackboard_mcp.storage.lance import workers
from blackboard_mcp.storage.lance.index import LanceArchiveIndex
from blackboard_mcp.storage.operations.reading import index_feed
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import Table
from index_searches import search_archive
from patience import PATIENCE

LONG = "filling words of no weight " * 7_000


@pytest.fixture
async def at() -> AsyncIterator[Table]:
    store = await SqlBoardStore.open(None)
    yield Table(store)
    await store.close()


async def found(at: Table, index: ArchiveIndex, text: str) -> tuple[list[int], str]:
    answer = await search_archive(at.store, index, ArchiveQuery(at.board, text))
    return [hit.number for hit in answer.hits], answer.notice


async def test_of_long_texts_that_wait_a_search_reads_so_many_characters_and_says_so(
    at: Table, lexical: ArchiveIndex
) -> None:
    items = [await at.post("alice", f"first{n} {LONG} last{n}", "LOG") for n in range(60)]
    short = await at.post("alice", "a word", "LOG")
    await at.gone(*items, short)
    tracemalloc.start()
    waiting = await at.store.waiting(at.board, 5_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [d.number for d in waiting.documents] == sorted((i.number for i in [*items, short]), reverse=True)
    read = sum(len(document.text) for document in waiting.documents)
    assert read <= index_feed.WAITING_WHOLE + len(items) * index_feed.WAITING_BEGINNING
    assert peak < 3 * index_feed.WAITING_WHOLE
    cut = [document for document in waiting.documents if document.number in waiting.shortened]
    assert len(cut) == 39
    assert max(d.number for d in cut) < min(d.number for d in waiting.documents if d not in cut)
    assert not waiting.more
    for word, hits in (("last59", [items[59]]), ("first0", [items[0]]), ("last0", [])):
        numbers, notice = await found(at, lexical, word)
        assert numbers == [item.number for item in hits], word
        assert notice.endswith(
            "61 items are not indexed yet; they were searched by words. "
            "Of 39 long ones only the beginning was searched."
        )


async def test_where_more_text_waits_than_a_search_looks_at_it_leaves_the_search_to_the_store(
    at: Table, lexical: ArchiveIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_feed, "WAITING_READ", 1_000_000)
    items: list[Any] = [await at.post("alice", f"{n} {LONG}", "LOG") for n in range(5)]
    await at.gone(*items)
    assert (await found(at, lexical, "filling"))[0]
    more = await at.post("alice", f"5 {LONG}", "LOG")
    await at.gone(more)
    with pytest.raises(ArchiveUnavailable):
        await found(at, lexical, "filling")


async def test_a_document_that_is_indexed_is_no_longer_kept_as_waiting(
    index: LanceArchiveIndex, document: Callable[..., ArchiveDocument]
) -> None:
    documents = tuple(document(n, f"valve number {n} leaks") for n in range(1, 4))
    answer = await index.search(ArchiveQuery("main", "valve number 2"), Waiting(documents))
    assert answer.hits[0].number == 2
    kept = index._waiting
    assert len(kept._vectors) == len(kept._cuts) == 3
    await index.upsert(documents[:2])
    assert [key[1] for cache in (kept._vectors, kept._cuts) for key in cache] == [3, 3]


async def test_a_search_that_began_before_documents_were_indexed_keeps_none_of_them(
    index: LanceArchiveIndex, document: Callable[..., ArchiveDocument], monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = tuple(document(n, f"valve number {n} leaks") for n in range(1, 4))
    other = (document(1, "a valve elsewhere", board="other"),)
    await index.upsert(documents)
    kept = index._waiting

    async def search(*waiting: ArchiveDocument, board: str = "main") -> list[int]:
        await index.search(ArchiveQuery(board, "valve number 2"), Waiting(waiting))
        assert kept._vectors.keys() == kept._cuts.keys()
        return sorted(key[1] for key in kept._cuts if key[0] == board)

    assert await search(*documents) == [1, 2, 3]  # it read what waited before the documents were indexed
    assert await search(*other, board="other") == [1]
    assert await search(*documents[:1]) == [1]
    assert {key[0] for key in kept._cuts} == {"other", "main"}
    monkeypatch.setattr(workers, "REST_SECONDS", 0.0)
    async with asyncio.timeout(PATIENCE):
        while kept._cuts or kept._vectors:
            await index.fits()  # the threads rest after it
