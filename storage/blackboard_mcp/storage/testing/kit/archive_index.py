"""The conformance kit for indexes of the archive.

class TestMyIndex(ArchiveIndexKit):
    async def open_index(self, folder: Path) -> ArchiveIndex:
        return await MyIndex.open(folder)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from blackboard_mcp.protocols.archive import (
    SUM_FACTOR,
    SUM_MODULUS,
    ArchiveDocument,
    ArchiveIndex,
    ArchiveQuery,
    SummingIndex,
    Waiting,
)
from blackboard_mcp.protocols.visibility import Viewer

__all__ = ["ArchiveIndexKit"]

WHEN: Final = datetime(2026, 1, 1, tzinfo=UTC)
DAY: Final = timedelta(days=1)
HOSTILE: Final = ("x' OR 1=1 --", '"; DROP TABLE items; --', "%", "_", "\\", "a\x1fb", "`board`", "日本'")
QUERIES: Final = ("", " ", '"', "NOT alpha", "alpha OR (", "alpha*", "^alpha -beta", "{alpha}[", "NEAR(a b)")


def document(number: int, text: str, **more: Any) -> ArchiveDocument:
    """Returns a document of the board "main" with the `seq` 1, unless `more` says otherwise."""
    given = {"board": "main", "seq": 1, "type": "FACT", "author": "ann", "thread": number, "tags": ()}
    return ArchiveDocument(number=number, text=text, **{"created_at": WHEN, **given, **more})


async def found(
    index: ArchiveIndex, text: str, waiting: Sequence[ArchiveDocument] = (), **wanted: Any
) -> list[int]:
    """Returns the sorted numbers of the hits, after checking their order and that none comes twice."""
    query = ArchiveQuery(wanted.pop("board", "main"), text, **{"limit": 50, **wanted})
    hits = (await index.search(query, Waiting(tuple(waiting)))).hits
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True), "the best hit comes first"
    numbers = sorted(hit.number for hit in hits)
    assert len(set(numbers)) == len(numbers), "each number comes once"
    return numbers


class IndexFixtures:
    """Indexes for the tests of the kit, opened by the backend's `open_index` and closed by the fixture."""

    async def open_index(self, folder: Path) -> ArchiveIndex:
        """Opens and returns an index that keeps its documents, if it keeps any, in `folder`."""
        raise NotImplementedError

    @pytest.fixture
    async def index(self, tmp_path: Path) -> AsyncIterator[ArchiveIndex]:
        """Yields an open index."""
        opened = await self.open_index(tmp_path)
        yield opened
        await opened.close()


class IndexDocumentTests:
    async def test_an_empty_index_has_nothing_and_says_so(self, index: ArchiveIndex) -> None:
        assert await found(index, "anything") == []
        assert (await index.keys(), await index.life()) == ({}, "")
        await index.remove([("main", 1)])
        await index.maintain()

    async def test_storing_twice_stores_once(self, index: ArchiveIndex) -> None:
        made = [document(n, f"alpha {n}") for n in range(1, 30)]
        await index.upsert(made)
        await index.upsert(made)
        assert await index.keys() == {("main", n): 1 for n in range(1, 30)}
        assert await found(index, "alpha") == list(range(1, 30))

    async def test_the_largest_seq_wins(self, index: ArchiveIndex) -> None:
        await index.upsert(
            [document(1, "old", seq=3), document(1, "recent", seq=5), document(1, "middle", seq=4)]
        )
        await index.upsert([document(1, "stale", seq=4), document(2, "other")])
        assert await index.keys() == {("main", 1): 5, ("main", 2): 1}
        assert await found(index, "recent") == [1]
        await index.upsert([document(1, "newest", seq=6)])
        assert await index.keys() == {("main", 1): 6, ("main", 2): 1}
        assert await found(index, "newest") == [1]

    async def test_removed_documents_are_gone(self, index: ArchiveIndex) -> None:
        await index.upsert([document(n, "alpha") for n in range(1, 5)])
        await index.remove([("main", 2), ("main", 99), ("other", 1)])
        await index.remove([("main", 2)])
        assert set(await index.keys()) == {("main", 1), ("main", 3), ("main", 4)}
        assert await found(index, "alpha") == [1, 3, 4]
        await index.maintain()
        assert await found(index, "alpha") == [1, 3, 4]


class IndexSearchTests:
    async def test_a_document_is_found_by_a_word_deep_in_its_text(self, index: ArchiveIndex) -> None:
        text = " ".join(f"filler{n}" for n in range(2_000)) + " needle at the end"
        await index.upsert([document(1, text), document(2, "another")])
        (hit, *_) = (await index.search(ArchiveQuery("main", "needle"))).hits
        assert hit.number == 1
        assert "needle" in text[hit.start :], "the passage that earned the score begins at `start`"
        assert hit.start > 0

    async def test_no_more_hits_come_than_were_asked_for(self, index: ArchiveIndex) -> None:
        await index.upsert([document(n, f"alpha beta{n}") for n in range(1, 30)])
        assert len(await found(index, "alpha", limit=7)) == 7
        assert len(await found(index, "alpha", limit=1_000)) == 29

    @pytest.mark.parametrize("text", QUERIES)
    async def test_any_text_is_a_query(self, index: ArchiveIndex, text: str) -> None:
        await index.upsert([document(1, "alpha beta")])
        await found(index, text)
        assert await found(index, "alpha") == [1]


class IndexFilterTests:
    async def test_filters_apply(self, index: ArchiveIndex) -> None:
        await index.upsert(
            [
                document(1, "alpha", tags=("x", "y")),
                document(2, "alpha", type="LOG", author="bob", tags=("x",), created_at=WHEN + DAY),
                document(3, "alpha", author="bob", thread=1, created_at=WHEN + 2 * DAY),
                document(1, "alpha", board="other"),
            ]
        )
        assert await found(index, "alpha") == [1, 2, 3]
        assert await found(index, "alpha", board="other") == [1]
        assert await found(index, "alpha", types=("LOG",)) == [2]
        assert await found(index, "alpha", types=("LOG", "FACT")) == [1, 2, 3]
        assert await found(index, "alpha", author="ann") == [1]
        assert await found(index, "alpha", thread=1) == [1, 3]
        assert await found(index, "alpha", tags=("x",)) == [1, 2]
        assert await found(index, "alpha", tags=("x", "y")) == [1]
        assert await found(index, "alpha", after=WHEN + DAY) == [2, 3]
        assert await found(index, "alpha", before=WHEN + DAY) == [1]
        assert await found(index, "alpha", author="bob", after=WHEN + DAY, before=WHEN + 2 * DAY) == [2]

    async def test_filters_apply_before_the_limit(self, index: ArchiveIndex) -> None:
        await index.upsert([document(n, "alpha", author="bob") for n in range(1, 60)])
        await index.upsert([document(60, "alpha and much else")])
        assert await found(index, "alpha", author="ann", limit=1) == [60]

    @pytest.mark.parametrize("value", HOSTILE)
    async def test_no_value_of_a_filter_reaches_another_board(self, index: ArchiveIndex, value: str) -> None:
        await index.upsert([document(1, "alpha secret", board="private"), document(2, "alpha open")])
        assert await found(index, "alpha", board=value) == []
        for wanted in ({"author": value}, {"types": (value,)}, {"tags": (value,)}):
            assert await found(index, "alpha", **wanted) == []
        await index.remove([(value, 1)])
        assert set(await index.keys()) == {("private", 1), ("main", 2)}

    @pytest.mark.parametrize("value", HOSTILE)
    async def test_any_name_is_stored_and_found_as_it_is(self, index: ArchiveIndex, value: str) -> None:
        await index.upsert([document(1, "alpha", board=value, author=value, tags=(value,), type=value)])
        assert await index.keys() == {(value, 1): 1}
        assert await found(index, "alpha", board=value, author=value, tags=(value,), types=(value,)) == [1]


class IndexWaitingTests:
    async def test_documents_that_wait_are_found_and_filtered(self, index: ArchiveIndex) -> None:
        await index.upsert([document(1, "alpha stored"), document(2, "alpha stored")])
        waits = [document(3, "alpha waits"), document(4, "alpha waits", author="bob")]
        assert await found(index, "alpha", waits) == [1, 2, 3, 4]
        assert await found(index, "waits", waits, author="bob") == [4]
        assert await found(index, "alpha") == [1, 2]

    async def test_what_waits_counts_in_place_of_what_is_stored(self, index: ArchiveIndex) -> None:
        await index.upsert([document(1, "alpha"), document(2, "alpha")])
        assert await found(index, "gamma", [document(1, "gamma", seq=2)]) == [1]
        kept = document(1, "alpha", seq=2, owner="read:pay")
        assert await found(index, "alpha", [kept], viewer=Viewer("bob")) == [2]
        assert await found(index, "alpha", [document(1, "alpha", seq=2, author="bob")], author="ann") == [2]
        query, gone = ArchiveQuery("main", "alpha", 50), Waiting(removed=(2,))
        assert [hit.number for hit in (await index.search(query, gone)).hits] == [1]


class IndexSightTests:
    async def test_a_viewer_finds_what_it_may_see(self, index: ArchiveIndex) -> None:
        marks = ["", "ann", "team:acme", "read:pay", "read:pay:eve", "read:pay:ann", "team:ann", "read:ops"]
        await index.upsert([document(n, "alpha", owner=mark) for n, mark in enumerate(marks, 1)])
        for viewer, seen in (
            (Viewer("ann", "acme"), [1, 2, 3, 6]),
            (Viewer("bob", "ann"), [1, 7]),
            (Viewer("eve", "mallory", ["read:pay"]), [1, 4, 5, 6]),
            (Viewer("eve"), [1, 5]),
            (Viewer("pay"), [1]),
            (None, [1, 2, 3, 4, 5, 6, 7, 8]),
        ):
            assert await found(index, "alpha", viewer=viewer) == seen, viewer and viewer.agent
        waits = [document(9, "alpha", owner="bob"), document(10, "alpha", owner="ann")]
        assert await found(index, "alpha", waits, viewer=Viewer("bob")) == [1, 9]

    async def test_what_a_viewer_may_not_see_changes_no_score(self, index: ArchiveIndex) -> None:
        said = ["alpha beta", "alpha gamma?", "beta", "gamma delta alpha alpha", "epsilon"]
        seen = [document(2 * n, text, thread=n % 2) for n, text in enumerate(said, 1)]
        hidden = [
            document(2 * n + 1, "alpha beta beta?", thread=n % 2, owner=mark)
            for n, mark in enumerate(("bob", "team:acme", "read:pay", "bob", "bob"), 1)
        ]
        await index.upsert(seen)
        asked = [
            ArchiveQuery("main", text, viewer=Viewer("ann")) for text in ("alpha", "beta gamma", "delta")
        ]
        before = [(await index.search(query)).hits for query in asked]
        assert all(before)
        await index.upsert(hidden[:3])
        waiting = Waiting(tuple(hidden[3:]), private=frozenset(d.number for d in hidden))
        assert [(await index.search(query, waiting)).hits for query in asked] == before
        with_hidden = (await index.search(ArchiveQuery("main", "alpha"), waiting)).hits
        assert with_hidden != before[0], "to who sees all, they count"


class IndexLifeTests:
    async def test_each_life_of_the_index_has_a_name_of_its_own(self, index: ArchiveIndex) -> None:
        await index.upsert([document(1, "alpha")])
        first = await index.life()
        await index.upsert([document(2, "alpha")])
        answer = await index.search(ArchiveQuery("main", "alpha"))
        assert first
        assert {first} == {await index.life(), answer.life}
        await index.reset()
        assert (await index.keys(), await found(index, "alpha")) == ({}, [])
        await index.upsert([document(3, "alpha again")])
        assert await index.life() not in ("", first)
        assert await found(index, "alpha") == [3]


class IndexSummingTests:
    async def test_sums_are_those_of_all_documents_that_do_not_stand_apart(self, index: ArchiveIndex) -> None:
        if not isinstance(index, SummingIndex):
            pytest.skip("the index does not sum up its documents")
        await index.upsert([document(n, "alpha", seq=10 * n, board=b) for n in (1, 2, 3) for b in ("a", "b")])
        sums = await index.sums({"b": [2]})
        for board, numbers in (("a", (1, 2, 3)), ("b", (1, 3))):
            mixed = sum(n % SUM_FACTOR * (10 * n % SUM_FACTOR) % SUM_MODULUS for n in numbers)
            assert sums[board] == (len(numbers), sum(numbers), 10 * sum(numbers), mixed)
        assert sums.keys() == {"a", "b"}


class IndexDurabilityTests(IndexFixtures):
    async def test_documents_are_there_when_the_index_is_opened_again(self, tmp_path: Path) -> None:
        first = await self.open_index(tmp_path)
        await first.upsert([document(1, "alpha", tags=("x",))])
        life = await first.life()
        await first.close()
        again = await self.open_index(tmp_path)
        try:
            if not await again.keys():
                pytest.skip("nothing is left when the index is opened again")
            assert await again.keys() == {("main", 1): 1}
            assert await found(again, "alpha", tags=("x",)) == [1]
            assert await again.life() == life
        finally:
            await again.close()


class ArchiveIndexKit(
    IndexDocumentTests,
    IndexSearchTests,
    IndexFilterTests,
    IndexWaitingTests,
    IndexSightTests,
    IndexLifeTests,
    IndexSummingTests,
    IndexDurabilityTests,
    IndexFixtures,
):
    """The whole kit for indexes. Subclass it, and define how to open an index."""
