"""Large items, large tables, long histories: still found, still the same, still bounded."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.archive import ArchiveDocument, ArchiveQuery, Embedder
from blackboard_mcp.protocols.visibility import Viewer
from blackboard_mcp.storage.lance import counts as counts_module
from blackboard_mcp.storage.lance import engines, folder, upkeep
from blackboard_mcp.storage.lance.index import LanceArchiveIndex
from blackboard_mcp.storage.lance.indexer import Indexer
from blackboard_mcp.storage.lance.words import words
from index_searches import search_archive
from profiles import NIGHTLY

Make = Callable[..., ArchiveDocument]

MIDDLE = "The turbine overheats because the coolant valve sticks below freezing."
BYTES = 5_000_000 if NIGHTLY else 1_250_000


@pytest.fixture(scope="module")
def huge() -> tuple[str, int]:
    """A text of megabytes, and the place of `MIDDLE` in it."""
    half, place = [], 0
    while place < BYTES // 2:
        half.append(
            f"routine entry {len(half)} about the weekly schedule of meetings in room {len(half) % 97}."
        )
        place += len(half[-1]) + 1
    before = " ".join(half)
    return f"{before} {MIDDLE} {before}", len(before) + 1


@pytest.mark.parametrize("how", ["hybrid", "lexical", "waiting"])
async def test_an_item_of_megabytes_is_found_by_a_sentence_in_its_middle(
    tmp_path: Path,
    embedder: Embedder,
    journal: Any,
    document: Make,
    huge: tuple[str, int],
    how: str,
) -> None:
    text, place = huge
    index = LanceArchiveIndex(tmp_path / "archive", None if how == "lexical" else embedder)
    valves = [
        document(n, f"valve {n} of the turbine hall was painted in room {n % 9}") for n in range(1, 300)
    ]
    journal.archive([*valves, document(1000, text)] if how != "waiting" else valves)
    await Indexer(journal, index, "me").drain()
    if how == "waiting":
        journal.archive([document(1000, text)])
    for query in ("coolant valve stuck in frost", "turbine overheats"):
        answer = await search_archive(journal, index, ArchiveQuery("main", query))
        assert answer.hits[0].number == 1000, query
        assert place - 2000 <= answer.hits[0].start <= place, query
    await index.close()


async def test_a_long_item_crowds_nothing_out(index: LanceArchiveIndex, document: Make) -> None:
    long = " ".join(f"pump {n} runs well today" for n in range(2000))
    await index.upsert([document(1, long), document(2, "pump seven leaks oil"), document(3, "a pump")])
    found = await index.search(ArchiveQuery("main", "pump leaks oil"))
    assert found.hits[0].number == 2
    assert {hit.number for hit in found.hits} == {1, 2, 3}


@pytest.fixture
def soon_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables count as large from a few hundred windows on."""
    monkeypatch.setattr(upkeep, "INDEXED_ROWS", 300)
    monkeypatch.setattr(counts_module, "LARGE", 200)
    monkeypatch.setattr(counts_module, "EXACT", 40)
    monkeypatch.setattr(counts_module, "SURE", 2)


TOPICS = ["valve pressure", "disk latency in rack_7", "billing rounding error", "login token expiry"]


def notes(document: Make, count: int, **other: Any) -> list[ArchiveDocument]:
    return [
        document(n, f"{TOPICS[n % 4]} seen in run {n % 31} by team{n % 13} at dock {n}", seq=9, **other)
        for n in range(1, count + 1)
    ]


@pytest.mark.usefixtures("soon_large")
async def test_a_large_index_finds_its_unindexed_tail_and_narrow_filters(
    index: LanceArchiveIndex, document: Make
) -> None:
    await index.upsert(notes(document, 900))
    await index.upsert([document(5000 + n, f"{TOPICS[0]} elsewhere {n}", board="other") for n in range(40)])
    await index.maintain()
    table = index._table(create=False)
    assert table is not None
    indexed = {c for i in table.list_indices() for c in i.columns}
    assert indexed == {"words", "board", "bucket", "thread", "number", "signs"}
    await index.upsert([document(2000, "a kitten sleeps on the sofa", author="bob")])
    assert (await index.search(ArchiveQuery("main", "cat nap on a couch"))).hits[0].number == 2000
    narrow = await index.search(ArchiveQuery("main", "cat nap on a couch", author="bob", limit=50))
    assert [hit.number for hit in narrow.hits] == [2000]
    other = await index.search(ArchiveQuery("other", "valve pressure", limit=100))
    assert sorted(hit.number for hit in other.hits) == list(range(5000, 5040))


@pytest.mark.usefixtures("soon_large")
async def test_a_large_board_shows_each_viewer_what_it_may_see_and_no_more(
    index: LanceArchiveIndex, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hits are the same whether rows out of sight leave after the search or before it."""
    marks = ["", "ann", "", "team:acme", "", "read:pay", "", "read:pay:ann", "", "read:ops", "", "", ""]
    made = [
        replace(each, owner=marks[each.number % 13], thread=each.number - each.number % 3)
        for each in notes(document, 700)
    ]
    await index.upsert([*made, *(document(n, f"{TOPICS[0]} at dock {n}", board="other") for n in range(60))])
    await index.maintain()
    viewers = [Viewer("ann", "acme"), Viewer("bob"), Viewer("eve", "eve", ["read:pay"]), Viewer("pay"), None]
    texts = ["valve pressure", "login at dock 33", "billing error in run 7", "dock 101", "team5 latency"]
    queries = [ArchiveQuery("main", text, 15, viewer=viewer) for text in texts for viewer in viewers]

    async def asked() -> list[Any]:
        return [(await index.search(query)).hits for query in queries]

    found = await asked()
    for query, hits in zip(queries, found, strict=True):
        assert len(hits) == 15
        for hit in hits:
            assert query.viewer is None or query.viewer.sees(marks[hit.number % 13]), hit
    assert any(hit.beside for hits in found for hit in hits)
    assert found[0] != found[1] != found[4]
    with monkeypatch.context() as patch:
        patch.setattr(engines.Engines, "known", lambda asked, where: None)
        assert await asked() == found
    monkeypatch.setattr(engines, "REFINE", 20)  # the heads of all rows are known then
    known = await asked()
    with monkeypatch.context() as patch:
        patch.setattr(engines.Engines, "known", lambda asked, where: None)
        assert await asked() == known
    with monkeypatch.context() as patch:
        patch.setattr(counts_module.BoardCounts, "share", lambda counts, board: 0.0)
        assert await asked() == found


async def test_the_drivers_caches_are_bounded_small_for_a_small_table_and_end_when_it_is_large(
    modelless: LanceArchiveIndex, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = type(folder._SESSIONS)()
    monkeypatch.setattr(folder, "_SESSIONS", sessions)
    await modelless.upsert(notes(document, 20))
    assert (await modelless.search(ArchiveQuery("main", "valve"))).hits
    small = sessions[4 << 20, 4 << 20].caches
    assert len(sessions) == 1
    assert small.size_bytes > 0
    monkeypatch.setattr(folder, "INDEXED_ROWS", 20)
    modelless._forget()
    assert (await modelless.search(ArchiveQuery("main", "valve"))).hits
    gc.collect()  # on Python 3.13 the driver leaves its tables in cycles
    assert list(sessions) == [(256 << 20, 32 << 20)]
    assert sessions[256 << 20, 32 << 20].caches.size_bytes > 0


async def test_a_small_table_has_no_indexes(index: LanceArchiveIndex, document: Make) -> None:
    await index.upsert(notes(document, 300))
    await index.maintain()
    table = index._table(create=False)
    assert table is not None
    assert not list(table.list_indices())
    found = await index.search(ArchiveQuery("main", "billing dock 298", limit=1))
    assert found.hits[0].number == 298


@pytest.mark.usefixtures("soon_large")
async def test_a_board_too_large_for_memory_is_searched_before_it_has_indexes(
    index: LanceArchiveIndex, document: Make
) -> None:
    await index.upsert(notes(document, 900))
    await index.upsert([document(2000, "a kitten sleeps on the sofa in rack_9", author="bob")])
    for text, number in (("dock 298", 298), ("cat nap on a couch", 2000), ("rack_9", 2000)):
        assert (await index.search(ArchiveQuery("main", text, limit=1))).hits[0].number == number, text
    table = index._table(create=False)
    assert table is not None
    assert not list(table.list_indices())


@pytest.mark.usefixtures("soon_large")
async def test_a_large_index_gets_more_clusters_of_vectors_as_it_grows(
    index: LanceArchiveIndex, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "_CLUSTER_ROWS", 100)
    made = []
    for count in (400, 800, 1600):
        await index.upsert(notes(document, count))
        await index.maintain()
        table = index._table(create=False)
        assert table is not None
        made.append([i.name for i in table.list_indices() if i.columns == ["signs"]])
    assert made == [["vector_4"], ["vector_4"], ["vector_16"]]
    found = await index.search(ArchiveQuery("main", "dock 1234", limit=1))
    assert found.hits[0].number == 1234


@pytest.mark.usefixtures("soon_large")
async def test_rows_that_move_during_a_search_are_found_all_the_same(
    index: LanceArchiveIndex, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process compacts the table again and again, between finding rows and reading them."""
    await index.upsert(notes(document, 400))
    query = ArchiveQuery("main", "valve pressure at dock 44", limit=5)
    wanted = await index.search(query)
    assert wanted.hits[0].number == 44
    table = index._table(create=False)
    assert table is not None
    read = engines.Engines.read
    tries = 0

    def moved(asked: engines.Engines, *given: Any) -> Any:
        nonlocal tries
        tries += 1
        index._upsert([document(1, f"valve pressure at dock 1, look {tries}", seq=10 + tries)])
        table.optimize()
        return read(asked, *given)

    monkeypatch.setattr(engines.Engines, "read", moved)
    assert [hit.number for hit in (await index.search(query)).hits] == [hit.number for hit in wanted.hits]
    assert tries > 1


@pytest.mark.usefixtures("soon_large")
async def test_a_large_index_gives_the_same_answers_when_it_is_rebuilt(
    index: LanceArchiveIndex, document: Make, tmp_path: Path, embedder: Embedder
) -> None:
    """I37, with the indexes that only large tables have, and words too frequent to be counted exactly."""
    final = notes(document, 700)
    for start in range(0, len(final), 150):
        part = final[start : start + 150]
        await index.upsert([replace(d, seq=1, text="valve valve " + d.text * 2) for d in part])
        await index.upsert(part)
        await index.maintain()
    fresh = LanceArchiveIndex(tmp_path / "fresh", embedder)
    await fresh.upsert(final)
    await fresh.maintain()
    for text in ("valve pressure", "rack_7 in run 3", "expired tokens of team5", "dock 77", "slow storage"):
        query = ArchiveQuery("main", text, limit=15)
        worn = await index.search(query)
        assert len(worn.hits) == 15
        assert worn == await fresh.search(query)
        assert worn == await index.search(query)
    await fresh.close()


@pytest.mark.usefixtures("soon_large")
async def test_frequent_words_are_counted_well_enough(modelless: LanceArchiveIndex, document: Make) -> None:
    await modelless.upsert(notes(document, 3000))
    table = modelless._table(create=False)
    corpus, rare = counts_module.BoardCounts().of(
        table, "main", ["valv", "team3", "=rack_7", "dock", "unseen"]
    )
    assert corpus.windows == 3000
    for word, exact in (("valv", 750), ("=rack_7", 750), ("dock", 3000), ("team3", 231)):
        assert corpus.holding[word] == pytest.approx(exact, rel=0.35)
    assert corpus.holding["unseen"] == 0
    assert rare == {}


@pytest.mark.usefixtures("soon_large")
@pytest.mark.parametrize(("exact", "searches"), [(2000, 1), (20, 1 + 5)])
async def test_words_are_counted_together_as_one_by_one(
    modelless: LanceArchiveIndex,
    document: Make,
    monkeypatch: pytest.MonkeyPatch,
    exact: int,
    searches: int,
) -> None:
    monkeypatch.setattr(counts_module, "EXACT", exact)
    monkeypatch.setattr(counts_module, "SURE", 1_000_000)  # no word is counted in the sample
    asked = 0

    def ask(*given: Any, **more: Any) -> Any:
        nonlocal asked
        asked += 1
        return whole(*given, **more)

    whole = engines.Engines.ask
    monkeypatch.setattr(engines.Engines, "ask", ask)
    texts = ["valve", "valve sofa", "rack_7 valve sofa", "kitten", "sofa sofa"]
    said = {n: texts[n % 5] for n in range(1, 60)}
    await modelless.upsert([document(n, text) for n, text in said.items()])
    table = modelless._table(create=False)
    wanted = ["valv", "sofa", "=rack_7", "kitten", "unseen"]
    corpus, rare = counts_module.BoardCounts().of(table, "main", wanted)
    assert asked == searches
    for word in wanted:
        holding = [n for n, text in said.items() if word in words(text)]
        assert corpus.holding[word] == min(len(holding), exact + 1), word
        if len(holding) <= exact:
            assert rare.get(word, ()) == tuple(holding), word


async def test_sums_tell_whether_store_and_index_hold_the_same(
    modelless: LanceArchiveIndex, journal: Any, document: Make
) -> None:
    journal.archive([document(n, seq=n) for n in range(1, 40)])
    await Indexer(journal, modelless, "me").drain()
    whole = await modelless.sums({})
    assert whole["main"].documents == 39
    assert await modelless.sums({"main": (39, 99)}) == {
        "main": whole["main"]._replace(
            documents=38,
            numbers=whole["main"].numbers - 39,
            seqs=whole["main"].seqs - 39,
            mixed=whole["main"].mixed - 39 * 39,
        )
    }
    table = modelless._table(create=False)
    assert table is not None
    table.update(where="number = 7", values={"seq": 8})
    changed = await modelless.sums({})
    assert changed["main"].documents == 39
    assert changed != whole
    table.update(where="number = 8", values={"parts": 2})
    assert (await modelless.keys())["main", 8] == -1


def files(folder: Path) -> tuple[int, int]:
    found = [p.stat().st_size for p in folder.rglob("*") if p.is_file()]
    return len(found), sum(found)


async def test_after_many_small_changes_the_folder_is_within_three_times_a_fresh_one(
    tmp_path: Path, embedder: Embedder, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    worn = LanceArchiveIndex(tmp_path / "worn", embedder)
    for n in range(1, 121):
        await worn.upsert([document(n, f"{TOPICS[n % 4]} {n} " + "and so on " * 60)])
        if n % 2:
            await worn.remove([("main", n)])
        if n % 40 == 0:
            await worn.maintain()
    count, size = files(tmp_path / "worn")
    # The old files stay half an hour for other processes that may still read them; then they go.
    monkeypatch.setattr(upkeep, "_KEEP_VERSIONS", timedelta(milliseconds=1))
    await worn.maintain()
    fresh = LanceArchiveIndex(tmp_path / "fresh", embedder)
    await fresh.upsert([document(n, f"{TOPICS[n % 4]} {n} " + "and so on " * 60) for n in range(2, 121, 2)])
    await fresh.maintain()
    after = files(tmp_path / "worn")
    assert count > 10 * after[0]
    for left, least in zip(after, files(tmp_path / "fresh"), strict=True):
        assert left <= 3 * least
    assert await worn.keys() == await fresh.keys()
    assert size > after[1]
    await worn.close()
    await fresh.close()
