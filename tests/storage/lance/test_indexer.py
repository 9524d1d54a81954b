from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.archive import (
    NOTHING_WAITS,
    ArchiveAnswer,
    ArchiveDocument,
    ArchiveIndex,
    ArchiveQuery,
    Waiting,
)
from blackboard_mcp.protocols.errors import ArchiveUnavailable, StoreBusy
from blackboard_mcp.storage.lance.index import LanceArchiveIndex
from blackboard_mcp.storage.lance.indexer import LEASE, Indexer
from index_searches import search_archive
from patience import PATIENCE

Make = Callable[..., ArchiveDocument]


class MemoryIndex:
    """An index in memory that fails when told to and notes what is asked of it."""

    def __init__(self) -> None:
        self.documents: dict[tuple[str, int], ArchiveDocument] = {}
        self.calls: list[str] = []
        self.failures: dict[str, list[Exception]] = {}
        self.changed = asyncio.Event()

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if self.failures.get(name):
            raise self.failures[name].pop(0)

    async def holding(self, wanted: set[tuple[str, int]]) -> None:
        """Return when the index holds exactly these."""
        async with asyncio.timeout(PATIENCE):
            while set(self.documents) != wanted:
                self.changed.clear()
                await self.changed.wait()

    async def upsert(self, documents: Sequence[ArchiveDocument]) -> None:
        self._called("upsert")
        self.documents.update({(d.board, d.number): d for d in documents})
        self.changed.set()

    async def remove(self, keys: Sequence[tuple[str, int]]) -> None:
        self._called("remove")
        for key in keys:
            self.documents.pop(key, None)
        self.changed.set()

    async def search(self, query: ArchiveQuery, waiting: Waiting = NOTHING_WAITS) -> ArchiveAnswer:
        self._called("search")
        return ArchiveAnswer((), "lexical")

    async def life(self) -> str:
        return "only"

    async def keys(self) -> dict[tuple[str, int], int]:
        self._called("keys")
        return {key: d.seq for key, d in self.documents.items()}

    async def reset(self) -> None:
        self._called("reset")
        self.documents.clear()

    async def maintain(self) -> None:
        self._called("maintain")

    async def close(self) -> None:
        self._called("close")


@asynccontextmanager
async def running(indexer: Indexer) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.ensure_future(indexer.run())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def no_pause(seconds: float) -> None:
    await asyncio.sleep(0)


async def test_outbox_rows_reach_the_index_and_are_deleted(journal: Any, document: Make) -> None:
    index = MemoryIndex()
    async with running(Indexer(journal, index, "me", batch=4)):
        journal.archive([document(n) for n in range(1, 11)])
        await journal.drained()
        assert set(index.documents) == {("main", n) for n in range(1, 11)}
        journal.restore([("main", 3)])
        await journal.drained()
        assert ("main", 3) not in index.documents


async def test_an_idle_board_never_touches_the_index(journal: Any) -> None:
    index = MemoryIndex()
    waiting = asyncio.Event()
    wait = journal.outbox_wait

    async def noticed(seconds: float) -> None:
        waiting.set()
        await wait(seconds)

    journal.outbox_wait = noticed
    async with running(Indexer(journal, index, "me")):
        await asyncio.wait_for(waiting.wait(), PATIENCE)
        assert index.calls == []


async def test_a_first_search_compares_store_and_index(journal: Any, document: Make) -> None:
    index = MemoryIndex()
    journal.archive([document(1), document(2)], outbox=False)
    index.documents[("main", 9)] = document(9)
    indexer = Indexer(journal, index, "me")
    async with running(indexer):
        indexer.wake()
        await index.holding({("main", 1), ("main", 2)})


async def test_repair_mends_both_ways_and_by_seq(journal: Any, document: Make) -> None:
    index = MemoryIndex()
    journal.archive([document(n, seq=5) for n in range(1, 6)], outbox=False)
    await index.upsert([document(1, seq=5), document(2, seq=4), document(3, seq=6), document(8)])
    repair = await Indexer(journal, index, "me", batch=2).repair()
    assert repair is not None
    assert (repair.stored, repair.forgotten, repair.rebuilt) == (4, 2, False)
    assert await index.keys() == await journal.archived_keys()


async def test_repair_builds_anew_what_cannot_be_opened(
    lexical: ArchiveIndex, journal: Any, document: Make, tmp_path: Path
) -> None:
    journal.archive([document(n) for n in range(1, 20)])
    indexer = Indexer(journal, lexical, "me", batch=5)
    await indexer.drain()
    query = ArchiveQuery("main", "topic3 finding", limit=20)
    before = await lexical.search(query)
    for path in (tmp_path / "lexical").rglob("*"):
        if path.is_file():
            path.write_bytes(b"garbage")
    with pytest.raises(ArchiveUnavailable):
        await lexical.keys()
    repair = await indexer.repair()
    assert repair is not None
    assert repair.rebuilt
    assert await lexical.keys() == await journal.archived_keys()
    assert await lexical.search(query) == before


async def test_repair_builds_anew_what_has_the_stems_of_an_older_version(
    open_lexical: Callable[[], ArchiveIndex], journal: Any, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.archive([document(1, "possibly broken")])
    with monkeypatch.context() as older:
        older.setattr("blackboard_mcp.storage.lance.rows.SCHEMA_VERSION", 3)
        older.setattr("blackboard_mcp.storage.lance.words.stem", lambda word: word.removesuffix("y"))
        await Indexer(journal, open_lexical(), "me").drain()
    index = open_lexical()
    repair = await Indexer(journal, index, "me").repair()
    assert repair is not None
    assert (repair.stored, repair.rebuilt) == (1, True)
    found = await index.search(ArchiveQuery("main", "possibly"))
    assert [hit.number for hit in found.hits] == [1]


async def test_rebuilding_refills_from_the_store_alone(
    lexical: ArchiveIndex, journal: Any, document: Make, tmp_path: Path
) -> None:
    journal.archive([document(n) for n in range(1, 20)])
    indexer = Indexer(journal, lexical, "me", batch=5)
    await indexer.drain()
    await lexical.upsert([document(77, "never archived")])
    query = ArchiveQuery("main", "finding topic2", limit=20)
    assert await indexer.rebuild() == 19
    assert await lexical.keys() == await journal.archived_keys()
    assert len((await lexical.search(query)).hits) == 19


async def test_an_interrupted_rebuild_goes_on_where_it_stopped(
    tmp_path: Path, journal: Any, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    lexical = LanceArchiveIndex(tmp_path / "index", None)
    monkeypatch.setattr("blackboard_mcp.storage.lance.indexer._REBUILD_BATCH", 5)
    journal.archive([document(n) for n in range(1, 20)])
    indexer = Indexer(journal, lexical, "me", batch=5)
    await indexer.drain()
    done = 0

    def stop(count: int) -> None:
        nonlocal done
        done += count
        if done == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await indexer.rebuild(stop)
    assert len((await lexical.search(ArchiveQuery("main", "finding topic2", limit=20))).hits) == 19

    async def away(index: LanceArchiveIndex) -> Any:
        raise ArchiveUnavailable("It does not answer.", reason="unreachable")

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(LanceArchiveIndex, "keys", away)
        with pytest.raises(ArchiveUnavailable):
            await indexer.rebuild()
    journal.archive([document(3, "changed meanwhile", seq=50)])
    added: list[int] = []
    upsert = LanceArchiveIndex.upsert

    async def noted(index: LanceArchiveIndex, documents: Sequence[ArchiveDocument]) -> None:
        added.extend(one.number for one in documents)
        await upsert(index, documents)

    monkeypatch.setattr(LanceArchiveIndex, "upsert", noted)
    told: list[int] = []
    assert await indexer.rebuild(told.append) == 19
    assert added == [3, *range(11, 20)]
    assert sum(told) == 19
    assert await lexical.keys() == await journal.archived_keys()
    await lexical.close()


async def test_a_rebuild_that_was_killed_goes_on_where_it_stopped(
    tmp_path: Path, journal: Any, journal_script: Path, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "archive"
    journal.archive([document(n) for n in range(1, 31)])
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(journal_script), "rebuild", str(folder), str(tmp_path / "journal.db")),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for _ in range(2):
        assert await asyncio.wait_for(process.stdout.readline(), PATIENCE) == b"5\n"
        process.stdin.write(b"\n")
    assert await asyncio.wait_for(process.stdout.readline(), PATIENCE) == b"5\n"
    process.send_signal(signal.SIGKILL)
    await process.communicate()

    journal.now = lambda: 1e12
    added: list[int] = []
    upsert = LanceArchiveIndex.upsert

    async def noted(index: LanceArchiveIndex, documents: Sequence[ArchiveDocument]) -> None:
        added.extend(one.number for one in documents)
        await upsert(index, documents)

    monkeypatch.setattr(LanceArchiveIndex, "upsert", noted)
    index = LanceArchiveIndex(folder, None)
    assert await Indexer(journal, index, "heir").rebuild() == 30
    assert added == list(range(16, 31))
    assert await index.keys() == await journal.archived_keys()
    await index.close()


async def test_only_the_holder_of_the_lease_works(journal: Any, document: Make) -> None:
    now = 0.0
    journal.now = lambda: now
    index = MemoryIndex()
    assert await journal.lease(LEASE, "other", 10)
    journal.archive([document(1)])
    indexer = Indexer(journal, index, "me", pause=no_pause)
    assert await indexer.drain() is False
    assert await indexer.repair() is None
    assert await indexer.rebuild() is None
    async with running(indexer):
        for _ in range(50):
            await asyncio.sleep(0)
        assert index.calls == []
        now = 11.0
        await journal.drained()
    assert await journal.lease(LEASE, "third", 10)


async def test_a_crash_between_index_and_outbox_repeats_without_harm(
    lexical: ArchiveIndex, journal: Any, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.archive([document(n) for n in range(1, 8)])

    async def lost(ids: Sequence[int]) -> None:
        raise StoreBusy("no lock")

    with monkeypatch.context() as patch:
        patch.setattr(journal, "outbox_done", lost)
        with pytest.raises(StoreBusy):
            await Indexer(journal, lexical, "me").drain()
    assert journal.outbox_size() == 7
    assert await Indexer(journal, lexical, "next").drain()
    assert journal.outbox_size() == 0
    assert await lexical.keys() == await journal.archived_keys()


async def test_changes_that_come_while_others_are_gathered_are_written_with_them(
    journal: Any, document: Make
) -> None:
    index = MemoryIndex()

    async def pause(seconds: float) -> None:
        if seconds == 7:
            journal.archive([document(3)])
        await asyncio.sleep(0)

    async with running(Indexer(journal, index, "me", gather=7, pause=pause)):
        journal.archive([document(1)])
        await journal.drained()  # the first time, all is compared at once
        before = index.calls.count("upsert")
        journal.archive([document(2)])
        await journal.drained()
    assert index.calls.count("upsert") == before + 1
    assert set(index.documents) == {("main", n) for n in (1, 2, 3)}


async def test_a_shared_index_is_claimed_before_the_outbox_is_read_for_it(
    journal: Any, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Claimed(MemoryIndex):
        async def claim(self) -> None:
            self.calls.append("claim")

    index = Claimed()
    read = journal.outbox_batch

    async def reading(limit: int) -> Any:
        index.calls.append("read")
        return await read(limit)

    monkeypatch.setattr(journal, "outbox_batch", reading)
    journal.archive([document(1)])
    await Indexer(journal, index, "me").drain()
    assert [call for call in index.calls if call in ("claim", "read", "upsert")] == [
        "claim",
        "read",
        "upsert",
        "read",
    ]


async def test_errors_are_outlived_with_longer_and_longer_pauses(journal: Any, document: Make) -> None:
    index = MemoryIndex()
    index.failures["upsert"] = [ArchiveUnavailable("down", reason="embedder") for _ in range(4)]
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    async with running(Indexer(journal, index, "me", pause=pause)) as task:
        journal.archive([document(1)])
        await journal.drained()
        assert not task.done()
    assert pauses == [1, 2, 4, 8]
    assert "reset" not in index.calls


async def test_an_index_that_keeps_refusing_writes_is_built_anew(journal: Any, document: Make) -> None:
    index = MemoryIndex()
    index.failures["upsert"] = [ArchiveUnavailable("broken", reason="damaged") for _ in range(3)]
    async with running(Indexer(journal, index, "me", pause=no_pause)):
        journal.archive([document(1)])
        await journal.drained()
    assert index.calls.count("reset") == 1
    assert set(index.documents) == {("main", 1)}


async def test_a_failed_search_has_the_index_built_anew(journal: Any, document: Make) -> None:
    index = MemoryIndex()
    journal.archive([document(1)], outbox=False)
    indexer = Indexer(journal, index, "me", pause=no_pause)
    async with running(indexer):
        indexer.distrust(ArchiveUnavailable("unreadable", reason="damaged"))
        await index.holding({("main", 1)})
    assert "reset" in index.calls


@pytest.mark.parametrize("ends_again", [False, True])
async def test_after_its_process_ended_an_index_is_compared_and_only_built_anew_if_that_fails(
    journal: Any, document: Make, ends_again: bool
) -> None:
    index = MemoryIndex()
    indexer = Indexer(journal, index, "me", pause=no_pause)
    ended = ArchiveUnavailable("ended twice", reason="ended")
    async with running(indexer):
        journal.archive([document(1)])
        await journal.drained()
        if ends_again:
            index.failures["keys"] = [ended]
        journal.archive([document(2)], outbox=False)  # what is compared shows by what is mended
        indexer.distrust(ended)
        await index.holding({("main", 1), ("main", 2)})
    assert ("reset" in index.calls) == ends_again


async def test_an_unforeseen_error_does_not_end_it(journal: Any, document: Make) -> None:
    index = MemoryIndex()
    index.failures["upsert"] = [RuntimeError("surprise")]
    async with running(Indexer(journal, index, "me", pause=no_pause)):
        journal.archive([document(1)])
        await journal.drained()


async def test_cancelling_gives_the_lease_back(journal: Any, document: Make) -> None:
    index = MemoryIndex()
    begun = asyncio.Event()

    async def hang(documents: Sequence[ArchiveDocument]) -> None:
        begun.set()
        await asyncio.Event().wait()

    index.upsert = hang  # type: ignore[method-assign]
    async with running(Indexer(journal, index, "me")):
        journal.archive([document(1)])
        await asyncio.wait_for(begun.wait(), PATIENCE)
        assert not await journal.lease(LEASE, "other", 10)
    assert await journal.lease(LEASE, "other", 10)
    assert journal.outbox_size() == 1


async def test_the_index_is_compacted_now_and_then(journal: Any, document: Make) -> None:
    index = MemoryIndex()
    journal.archive([document(n) for n in range(1, 11)])
    await Indexer(journal, index, "me", batch=1, maintain_every=4).drain()
    done = [call for call in index.calls if call in ("upsert", "maintain")]
    assert [n for n, call in enumerate(done) if call == "maintain"] == [1, 6, 11]


async def test_an_index_is_built_anew_in_the_place_of_a_file(
    journal: Any, document: Make, tmp_path: Path
) -> None:
    index = LanceArchiveIndex(tmp_path / "archive", None)
    indexer = Indexer(journal, index, "me")
    journal.archive([document(1)])
    (tmp_path / "archive").write_text("no folder", encoding="utf-8")
    assert await indexer.rebuild() == 1
    assert await index.keys() == {("main", 1): 1}
    await index.close()


async def test_processes_that_end_early_leave_no_more_files_each(
    journal: Any, document: Make, tmp_path: Path
) -> None:
    versions = []
    for n in range(1, 9):
        index = LanceArchiveIndex(tmp_path / "archive", None)
        journal.archive([document(n)])
        assert await Indexer(journal, index, "me").drain()
        table = index._table(create=False)
        assert table is not None
        versions.append(table.stats()["fragment_stats"]["num_fragments"])
        await index.close()
    assert max(versions) == 1


async def test_an_item_not_indexed_yet_is_found_by_its_words(
    lexical: ArchiveIndex, journal: Any, document: Make
) -> None:
    journal.archive([document(1, "alpha valve"), document(2, "beta")])
    await Indexer(journal, lexical, "me").drain()
    journal.archive([document(3, "the alpha parser_v2 valve"), document(4, "alpha", board="other")])
    journal.restore([("main", 1)])
    query = ArchiveQuery("main", "alpha")
    assert [hit.number for hit in (await search_archive(journal, lexical, query)).hits] == [3]
    query = ArchiveQuery("main", "parser_v2")
    assert [hit.number for hit in (await search_archive(journal, lexical, query)).hits] == [3]
    query = ArchiveQuery("main", "alpha", author="nobody")
    assert (await search_archive(journal, lexical, query)).hits == ()


async def test_a_killed_indexer_loses_nothing_and_doubles_nothing(
    tmp_path: Path, journal: Any, journal_script: Path
) -> None:
    folder = tmp_path / "archive"
    for kill_after in (2, 5):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(journal_script),
            "index",
            str(folder),
            str(tmp_path / "journal.db"),
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        for _ in range(kill_after):
            assert await asyncio.wait_for(process.stdout.readline(), PATIENCE)
        process.send_signal(signal.SIGKILL)
        await process.communicate()
    journal.now = lambda: 1e12
    index = LanceArchiveIndex(folder, None)
    indexer = Indexer(journal, index, "heir")
    assert await indexer.repair()
    assert await indexer.drain()
    assert journal.outbox_size() == 0
    wanted = await journal.archived_keys()
    assert len(wanted) > 60
    assert await index.keys() == wanted
    table = index._table(create=False)
    assert table is not None
    assert table.count_rows() == len(wanted)
    await index.close()


async def test_after_the_last_change_the_index_is_cleaned_up_a_few_times_and_then_left_alone(
    journal: Any, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blackboard_mcp.storage.lance.indexer._CLEANUP_SECONDS", 0.0)
    index = MemoryIndex()
    indexer = Indexer(journal, index, "me")
    journal.archive([document(1)])
    for _ in range(8):
        await indexer._step()
    assert index.calls.count("maintain") == 1 + 4, "after the first batch, and of cleaning up"
    journal.archive([document(2)])
    for _ in range(8):
        await indexer._step()
    assert index.calls.count("maintain") == 1 + 8


async def test_while_changes_are_recent_nothing_is_cleaned_up(journal: Any, document: Make) -> None:
    index = MemoryIndex()
    indexer = Indexer(journal, index, "me")
    journal.archive([document(1)])
    await indexer._step()
    assert index.calls.count("maintain") == 1, "after the first batch"
    for _ in range(3):
        await indexer._step()
    assert index.calls.count("maintain") == 1
