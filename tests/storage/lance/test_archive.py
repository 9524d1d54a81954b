"""Searching an index that is not whole, and what waits for it: never silently incomplete."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.archive import ArchiveAnswer, ArchiveDocument, ArchiveQuery, Embedder
from blackboard_mcp.protocols.errors import ArchiveUnavailable
from blackboard_mcp.storage.archive import SearchableArchive
from blackboard_mcp.storage.lance import index as index_module
from blackboard_mcp.storage.lance import pending as pending_module
from blackboard_mcp.storage.lance.index import NO_MODEL, LanceArchiveIndex
from blackboard_mcp.storage.lance.indexer import Indexer
from index_searches import search_archive
from patience import PATIENCE

Make = Callable[..., ArchiveDocument]

QUERY = ArchiveQuery("main", "finding", limit=100)


@asynccontextmanager
async def opened(source: Any, folder: Path) -> AsyncIterator[SearchableArchive]:
    archive = SearchableArchive(source, folder, "me", eager=False, index=LanceArchiveIndex(folder, None))
    archive.start()
    try:
        yield archive
    finally:
        await archive.close()


async def search(archive: SearchableArchive) -> list[int] | None:
    """Every number found; `None` where the archive says that it cannot answer."""
    try:
        return sorted(hit.number for hit in (await archive.search(QUERY)).hits)
    except ArchiveUnavailable:
        return None


async def mended(archive: SearchableArchive, wanted: list[int]) -> None:
    """Return when everything is found; meanwhile nothing but a refusal is an answer."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await search(archive)
            if found is not None:
                break
            await asyncio.sleep(0.01)
    assert found == wanted


async def test_an_archive_that_is_doubted_is_compared_before_it_answers_again(
    journal: Any, document: Make, tmp_path: Path
) -> None:
    journal.archive([document(1)])
    async with opened(journal, tmp_path / "index") as archive:
        await mended(archive, [1])
        journal.archive([document(2)], outbox=False)  # as when nothing was noted for this index
        archive.doubt()
        await mended(archive, [1, 2])


def destroy(folder: Path, how: str) -> None:
    if how == "deleted":
        shutil.rmtree(folder)
    else:
        for path in folder.rglob("*"):
            if path.is_file():
                path.write_bytes(b"garbage")


ALL = list(range(1, 56))


@pytest.fixture
async def filled(tmp_path: Path, journal: Any, document: Make) -> Path:
    """A folder with an index of fifty-five documents, their outbox empty."""
    folder = tmp_path / "archive.lance"
    journal.archive([document(n) for n in ALL])
    index = LanceArchiveIndex(folder, None)
    await Indexer(journal, index, "first").drain()
    await index.close()
    return folder


@pytest.mark.parametrize("how", ["deleted", "garbage"])
async def test_an_index_lost_before_the_start_is_never_taken_for_an_answer(
    filled: Path, journal: Any, how: str
) -> None:
    destroy(filled, how)
    async with opened(journal, filled) as archive:
        await mended(archive, ALL)


@pytest.mark.parametrize("how", ["deleted", "garbage"])
async def test_an_index_lost_while_it_is_in_use_is_noticed_and_mended(
    filled: Path, journal: Any, document: Make, how: str
) -> None:
    async with opened(journal, filled) as archive:
        assert await search(archive) == ALL
        destroy(filled, how)
        assert await search(archive) is None
        await mended(archive, ALL)
        journal.archive([document(56)])
        assert await search(archive) == [*ALL, 56]


async def test_an_index_lost_and_begun_again_by_a_new_item_is_noticed(
    filled: Path, journal: Any, document: Make
) -> None:
    async with opened(journal, filled) as archive:
        assert await search(archive) == ALL
        shutil.rmtree(filled)
        journal.archive([document(56)])
        await journal.drained()
        await mended(archive, [*ALL, 56])


async def test_documents_missing_from_a_sound_index_are_noticed_at_the_first_search(
    filled: Path, journal: Any
) -> None:
    index = LanceArchiveIndex(filled, None)
    await index.remove([("main", 7)])
    await index.close()
    async with opened(journal, filled) as archive:
        await mended(archive, ALL)


async def test_while_another_process_refills_the_index_nothing_is_answered(
    filled: Path, journal: Any, document: Make
) -> None:
    async with opened(journal, filled) as archive:
        assert await search(archive) == ALL
        async with asyncio.timeout(PATIENCE):  # the archive may hold it still, to compare index and store
            while True:
                if await journal.lease("archive-index", "other", 60):
                    break
                await asyncio.sleep(0.01)
        other = LanceArchiveIndex(filled, None)
        await other.reset()
        assert await search(archive) is None
        await other.upsert([document(n) for n in ALL[:30]])
        assert await search(archive) is None
        await other.upsert([document(n) for n in ALL[30:]])
        await mended(archive, ALL)
        await other.close()


async def test_an_index_known_to_be_complete_is_not_compared_again(
    filled: Path, journal: Any, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(journal, filled) as archive:
        assert await search(archive) == ALL

        async def never() -> Any:
            raise AssertionError("compared again")

        monkeypatch.setattr(journal, "settled_keys", never)
        journal.archive([document(56)])
        assert await search(archive) == [*ALL, 56]
        await journal.drained()
        assert await search(archive) == [*ALL, 56]


async def test_a_comparison_that_takes_too_long_leaves_the_words(
    filled: Path, journal: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blackboard_mcp.storage.lance.indexer._CHECK_SECONDS", 0.01)
    settled, hold = journal.settled_keys, asyncio.Event()

    async def slow() -> Any:
        await hold.wait()
        return await settled()

    monkeypatch.setattr(journal, "settled_keys", slow)
    async with opened(journal, filled) as archive:
        with pytest.raises(ArchiveUnavailable) as told:
            await archive.search(QUERY)
        assert told.value.facts["reason"] == "slow"
        hold.set()
        await mended(archive, ALL)


async def test_more_waiting_items_than_a_search_reads_leave_the_words(
    filled: Path, journal: Any, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_module, "_WAITING", 3)
    index = LanceArchiveIndex(filled, None)
    journal.archive([document(n) for n in (56, 57, 58)])
    assert len((await search_archive(journal, index, QUERY)).hits) == 58
    journal.archive([document(59)])
    with pytest.raises(ArchiveUnavailable):
        await search_archive(journal, index, QUERY)
    await index.close()


class Counted:
    """An embedder that counts the texts it is given, and fails when told to."""

    def __init__(self, model: Any) -> None:
        self.name, self.dimension = model.name, model.dimension
        self._model = model
        self.texts = 0
        self.down = False

    def embed_documents(self, texts: Sequence[str]) -> object:
        if self.down:
            raise RuntimeError("down")
        self.texts += len(texts)
        return self._model.embed_documents(texts)

    def embed_query(self, text: str) -> object:
        return self._model.embed_query(text)

    def embed_weighted(self, parts: Sequence[tuple[str, float]]) -> object:
        return self._model.embed_weighted(parts)


KITTEN = "The kids adopted a small kitten."
MEANT = ArchiveQuery("main", "children cat puppy", limit=5)


def noise(document: Make, numbers: Sequence[int]) -> list[ArchiveDocument]:
    return [document(n, f"The compiler build number {n} failed on the linker stage.") for n in numbers]


@pytest.fixture
async def meaning(tmp_path: Path, embedder: Embedder) -> AsyncIterator[tuple[LanceArchiveIndex, Counted]]:
    counted = Counted(embedder)
    index = LanceArchiveIndex(tmp_path / "meaning", counted)
    yield index, counted
    await index.close()


def found(answer: ArchiveAnswer) -> list[int]:
    return [hit.number for hit in answer.hits]


@pytest.mark.parametrize("indexed", [0, 20])
async def test_what_waits_is_found_by_meaning(
    meaning: tuple[LanceArchiveIndex, Counted], journal: Any, document: Make, indexed: int
) -> None:
    index, counted = meaning
    journal.archive(noise(document, range(100, 100 + indexed)))
    await Indexer(journal, index, "me").drain()
    journal.archive([document(7, KITTEN), *noise(document, range(8, 57))])
    answer = await search_archive(journal, index, MEANT)
    assert found(answer)[0] == 7
    assert (answer.mode, answer.notice) == ("hybrid", "")
    texts = counted.texts
    assert await search_archive(journal, index, MEANT) == answer
    assert counted.texts == texts


async def test_what_waits_ranks_as_it_does_when_it_is_indexed(
    meaning: tuple[LanceArchiveIndex, Counted], journal: Any, document: Make
) -> None:
    index, _ = meaning
    journal.archive(noise(document, range(100, 120)))
    await Indexer(journal, index, "me").drain()
    journal.archive([document(7, KITTEN), document(8, "A cat in a linker."), *noise(document, range(9, 30))])
    queries = [MEANT, ArchiveQuery("main", "linker cat", limit=10), ArchiveQuery("main", "stage 12")]
    before = [await search_archive(journal, index, query) for query in queries]
    await Indexer(journal, index, "me").drain()
    assert [await search_archive(journal, index, query) for query in queries] == before


async def test_a_new_state_that_waits_stands_for_the_one_in_the_index(
    meaning: tuple[LanceArchiveIndex, Counted], journal: Any, document: Make
) -> None:
    index, _ = meaning
    journal.archive([document(1, "Zeppelin hangar"), document(2, "Zeppelin mast")])
    await Indexer(journal, index, "me").drain()
    journal.archive([document(1, KITTEN, seq=2)])
    journal.restore([("main", 2)])
    answer = await search_archive(journal, index, ArchiveQuery("main", "zeppelin"))
    assert 2 not in found(answer)
    assert found(await search_archive(journal, index, MEANT)) == [1]


async def test_where_too_many_wait_the_older_are_searched_by_words_and_it_says_so(
    meaning: tuple[LanceArchiveIndex, Counted],
    journal: Any,
    document: Make,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(index_module, "EMBEDDED", 10)
    index, _ = meaning
    journal.archive([document(1, KITTEN), *noise(document, range(2, 14))])
    answer = await search_archive(journal, index, MEANT)
    assert 1 not in found(answer)
    assert answer.mode == "hybrid"
    assert answer.notice == "3 items are not indexed yet; they were searched by words."
    assert found(await search_archive(journal, index, ArchiveQuery("main", "kitten")))[0] == 1


async def test_without_a_model_what_waits_is_searched_by_words_and_it_says_so(
    modelless: LanceArchiveIndex, journal: Any, document: Make
) -> None:
    journal.archive([document(1, KITTEN)])
    answer = await search_archive(journal, modelless, ArchiveQuery("main", "kitten"))
    assert found(answer) == [1]
    assert answer.mode == "lexical"
    assert answer.notice == f"{NO_MODEL} 1 item is not indexed yet; it was searched by words."


async def test_a_model_that_fails_on_what_waits_leaves_the_words(
    meaning: tuple[LanceArchiveIndex, Counted], journal: Any, document: Make
) -> None:
    index, counted = meaning
    counted.down = True
    journal.archive([document(1, KITTEN)])
    answer = await search_archive(journal, index, ArchiveQuery("main", "kitten"))
    assert found(answer) == [1]
    assert answer.mode == "lexical"
    assert "1 item is not indexed yet" in answer.notice
