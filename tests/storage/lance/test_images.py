"""Images of boards answer as the driver's engines do, and follow every change of the table."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from blackboard_mcp.protocols.archive import ArchiveDocument, ArchiveQuery
from blackboard_mcp.protocols.visibility import Viewer
from blackboard_mcp.storage.lance import counts, images, rows
from blackboard_mcp.storage.lance.fusion import Bm25
from blackboard_mcp.storage.lance.images import Images
from blackboard_mcp.storage.lance.index import LanceArchiveIndex
from blackboard_mcp.storage.lance.words import words

Make = Callable[..., ArchiveDocument]

WORDS = """
    valve pressure rack_7 billing rounding error login token expiry cat kitten sofa couch disk latency storage turbine
    coolant frost parser_v2.py crash deploy rollback schema migration queue lag
"""
QUERIES = [
    "valve pressure",
    "rack_7 latency",
    "kitten on a couch",
    "parser_v2 crash",
    "slow storage",
    "marker5",
    "crash in February 2026",
]


def documents(document: Make, chance: random.Random, numbers: range) -> list[ArchiveDocument]:
    made = []
    for n in numbers:
        text = " ".join(chance.choices(WORDS.split(), k=chance.choice((3, 8, 20, 300)))) + f" marker{n}"
        at = datetime(2026, 1 + n % 3, 1 + n % 20, tzinfo=UTC)
        made.append(
            document(n, text, author=f"a{n % 3}", thread=n - n % 4, tags=(f"t{n % 5}",), created_at=at)
        )
    return made


@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"author": "a1"},
        {"thread": 8},
        {"tags": ("t2",), "types": ("FACT",)},
        {"after": datetime(2026, 1, 5, tzinfo=UTC), "before": datetime(2026, 1, 9, tzinfo=UTC)},
        {"types": ("LOG",)},
    ],
)
async def test_an_image_answers_as_the_engines_do(
    index: LanceArchiveIndex, document: Make, monkeypatch: pytest.MonkeyPatch, filters: dict[str, Any]
) -> None:
    await index.upsert(documents(document, random.Random(1), range(1, 61)))
    asked = [ArchiveQuery("main", text, 20, **filters) for text in QUERIES]
    by_image = [await index.search(query) for query in asked]
    monkeypatch.setattr(counts, "LARGE", 0)
    index._forget()
    by_engines = [await index.search(query) for query in asked]
    assert by_image == by_engines
    assert all(answer.hits for answer in by_image) == (filters.get("types") != ("LOG",))


@pytest.mark.parametrize(("seed", "share"), [(0, 8), (1, 8), (2, 1), (3, 1)])
async def test_an_image_that_followed_changes_equals_a_new_one(
    index: LanceArchiveIndex, document: Make, monkeypatch: pytest.MonkeyPatch, seed: int, share: int
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(images, "_FETCHED", 12)
    monkeypatch.setattr(images, "_SHARE_FETCHED", share)
    followed = Images()
    seq = 1
    for _ in range(12):
        seq += 1
        numbers = range(first := chance.randint(1, 40), first + chance.choice((1, 3, 20)))
        if chance.random() < 0.3:
            await index.remove([("main", n) for n in numbers])
        else:
            await index.upsert([replace(d, seq=seq) for d in documents(document, chance, numbers)])
        table = index._table(create=False)
        if table is None:
            continue
        one, other = followed.of(table, "main"), Images().of(table, "main")
        assert one is not None
        assert other is not None
        assert one.columns.keys() == other.columns.keys()
        for name in one.columns:
            assert one.columns[name].tolist() == other.columns[name].tolist(), name
        assert one.vectors is not None
        assert (one.vectors == other.vectors).all()
        places = [
            sorted(zip(i.hash_of_each().tolist(), i.places.tolist(), i.times.tolist(), strict=True))
            for i in (one, other)
        ]
        assert places[0] == places[1]
        assert one.hashes.tolist() == sorted(set(one.hashes.tolist()))


async def test_of_many_changed_documents_an_image_reads_no_others(
    index: LanceArchiveIndex, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "_FETCHED", 10)
    read: list[int] = []

    def made(found: Any, dimension: int) -> images.BoardImage:
        read.append(found.num_rows)
        return whole(found, dimension)

    whole = images._made
    monkeypatch.setattr(images, "_made", made)
    kept = Images()
    await index.upsert([document(n, "valve") for n in range(1, 401)])
    kept.of(index._table(create=False), "main")
    await index.upsert([document(n, "pressure", seq=2) for n in range(101, 150)])
    await index.remove([("main", 7)])
    image = kept.of(index._table(create=False), "main")
    assert image is not None
    assert len(image) == 399
    await index.upsert([document(n, "coolant", seq=3) for n in range(101, 152)])
    kept.of(index._table(create=False), "main")
    assert read == [400, 49, 399]


async def test_a_board_that_was_searched_while_it_was_empty_gets_its_image(
    index: LanceArchiveIndex, document: Make
) -> None:
    await index.upsert([document(1, "valve", board="other")])
    assert not (await index.search(ArchiveQuery("main", "valve"))).hits
    await index.upsert([document(2, "valve")])
    assert [hit.number for hit in (await index.search(ArchiveQuery("main", "valve"))).hits] == [2]


async def test_a_board_of_another_size_costs_no_other_board_its_image(
    index: LanceArchiveIndex, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "LARGE", 30)
    await index.upsert([document(n, "valve") for n in range(1, 60)])
    await index.upsert([document(n, "valve", board="small") for n in range(1, 20)])
    table, kept = index._table(create=False), Images()
    assert kept.of(table, "main") is None
    small = kept.of(table, "small")
    assert small is not None
    assert len(small) == 19
    assert kept.of(table, "main") is None
    assert kept.of(table, "small") is small


async def test_boards_that_do_not_fit_together_replace_each_other_once_in_twenty_searches(
    index: LanceArchiveIndex, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "LARGE", 30)
    await index.upsert([document(n, "valve", board=b) for b in ("one", "two") for n in range(1, 21)])
    table, kept, reads = index._table(create=False), Images(), []
    made = images._made
    monkeypatch.setattr(images, "_made", lambda *given: reads.append(1) or made(*given))
    answered = [kept.of(table, board) is not None for _ in range(50) for board in ("one", "two")]
    assert answered[:4] == [True, True, False, True]
    assert 4 <= len(reads) <= 7
    for _ in range(20):
        kept.of(table, "one")
    assert kept.of(table, "one") is not None
    found = [await index.search(ArchiveQuery(board, "valve")) for board in ("one", "two", "one", "two")]
    assert found[0].hits
    assert found[0].hits == found[2].hits
    assert found[1].hits == found[3].hits


async def test_reading_a_board_keeps_no_search_of_another_waiting(
    index: LanceArchiveIndex, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    await index.upsert([document(n, "valve", board=b) for b in ("slow", "quick") for n in range(1, 4)])
    table, kept = index._table(create=False), Images()
    quick = kept.of(table, "quick")
    begun, go_on = threading.Event(), threading.Event()
    renewed = images._renewed

    def held_up(*given: Any) -> Any:
        begun.set()
        assert go_on.wait(30)
        return renewed(*given)

    monkeypatch.setattr(images, "_renewed", held_up)
    with ThreadPoolExecutor(2) as threads:
        slow = threads.submit(kept.of, table, "slow")
        try:
            assert begun.wait(30)
            assert threads.submit(kept.of, table, "quick").result(10) is quick
        finally:
            go_on.set()
        assert slow.result(30) is not None


async def test_the_image_of_a_board_that_outgrew_memory_is_dropped(
    index: LanceArchiveIndex, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "LARGE", 30)
    chance = random.Random(3)
    await index.upsert([document(n, " ".join(chance.choices(WORDS.split(), k=5))) for n in range(1, 21)])
    await index.search(ArchiveQuery("main", "valve"))
    assert index._images._images.currsize == 20
    await index.upsert([document(n, "valve") for n in range(21, 41)])
    assert len((await index.search(ArchiveQuery("main", "valve", limit=40))).hits) >= 20
    assert index._images._images.currsize == 0


async def test_an_image_takes_a_byte_for_each_number_of_a_vector(
    index: LanceArchiveIndex, document: Make
) -> None:
    await index.upsert(documents(document, random.Random(1), range(1, 61)))
    table = index._table(create=False)
    image = Images().of(table, "main")
    assert image is not None
    assert image.vectors is not None
    assert image.vectors.any(axis=1).all()
    assert image.vectors.nbytes == len(image) * rows.dimension(table.schema)


async def test_what_a_viewer_may_not_see_decides_not_which_of_the_rest_are_compared(
    modelless: LanceArchiveIndex, document: Make
) -> None:
    """A rare word brings all its documents, however many others have more of the question's words."""
    said = ["alpha beta gamma delta"] * 250 + ["unheard"] * counts.RARE + ["epsilon zeta"] * 700
    await modelless.upsert([document(n, text) for n, text in enumerate(said, 1)])
    query = ArchiveQuery("main", "alpha beta gamma delta unheard", viewer=Viewer("ann"))

    def compared() -> set[int]:
        table = modelless._table(create=False)
        image = Images().of(table, "main")
        assert image is not None
        asked = words(query.text)
        bm25 = Bm25(asked, image.corpus(asked, query.viewer))
        return {one.number for one in image.candidates(query, bm25, None, 200)}

    before = compared()
    assert set(range(251, 251 + counts.RARE)) <= before
    await modelless.upsert([replace(document(5_000, "unheard"), owner="bob")])
    assert compared() == before
