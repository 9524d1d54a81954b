"""The archive index where LanceDB is not there: what differs from it. What they share is in tests/storage/lance."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from blackboard_mcp.protocols.archive import ArchiveDocument, ArchiveQuery, Waiting
from blackboard_mcp.protocols.errors import ArchiveUnavailable
from blackboard_mcp.storage import archive as archive_module
from blackboard_mcp.storage.archive import EmbedderChoice, archive_index
from blackboard_mcp.storage.fts.index import NO_LANCE, FtsArchiveIndex
from blackboard_mcp.storage.lance.index import LanceArchiveIndex

WHEN = datetime(2026, 1, 1, tzinfo=UTC)
HOSTILE = [
    "x' OR 1=1 --",
    'ant" OR "bee',
    "NEAR(ant bee)",
    "words:ant",
    "ant* -bee",
    "^ant",
    "naïve -café",
    "漢字 \ud800",
    "D-12 parser_v2.py",
]


def document(number: int, text: str, **more: Any) -> ArchiveDocument:
    given = {"board": "main", "seq": number, "type": "FACT", "author": "ana", "thread": number, "tags": ()}
    return ArchiveDocument(number=number, text=text, created_at=WHEN, **{**given, **more})


async def numbers(index: Any, text: str, **filters: Any) -> list[int]:
    answer = await index.search(ArchiveQuery(filters.pop("board", "main"), text, 50, **filters))
    return [hit.number for hit in answer.hits]


@pytest_asyncio.fixture
async def index(tmp_path: Path) -> AsyncIterator[FtsArchiveIndex]:
    made = FtsArchiveIndex(tmp_path / "archive")
    yield made
    await made.close()


def test_it_stands_in_where_there_is_no_lancedb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(archive_index(tmp_path, EmbedderChoice("none")), LanceArchiveIndex)
    find = importlib.util.find_spec
    absent = lambda name, package=None: None if name == "lancedb" else find(name, package)  # noqa: E731
    monkeypatch.setattr(archive_module.importlib.util, "find_spec", absent)
    assert isinstance(archive_index(tmp_path, EmbedderChoice()), FtsArchiveIndex)


async def test_an_index_never_written_answers_with_no_hits(index: FtsArchiveIndex, tmp_path: Path) -> None:
    assert await numbers(index, "anything") == []
    assert (await index.life(), await index.keys(), await index.sums({})) == ("", {}, {})
    await index.remove([("main", 1)])
    await index.maintain()
    assert not (tmp_path / "archive").exists()


async def test_the_answer_says_that_it_is_by_words_only(index: FtsArchiveIndex) -> None:
    await index.upsert([document(1, "the cache is cold")])
    answer = await index.search(ArchiveQuery("main", "cold caches"))
    assert [(hit.number, hit.start) for hit in answer.hits] == [(1, 0)]
    assert (answer.mode, answer.notice, answer.life) == ("lexical", NO_LANCE, await index.life())


async def test_a_shorter_version_leaves_no_stale_window(index: FtsArchiveIndex) -> None:
    long = " ".join(f"filler{n}" for n in range(900)) + " needle"
    await index.upsert([document(1, long)])
    assert await numbers(index, "needle") == [1]
    await index.upsert([document(1, "short", seq=9)])
    assert await numbers(index, "needle filler3") == []


async def test_filters_apply(index: FtsArchiveIndex) -> None:
    await index.upsert(
        [
            document(1, "shared", tags=("a", "b"), author="ben", type="LOG", thread=7),
            document(2, "shared", tags=("ab",)),
            document(3, "shared", board="other", tags=("a",)),
        ]
    )
    assert await numbers(index, "shared", tags=("a",)) == [1]
    assert await numbers(index, "shared", tags=("a", "b"), author="ben", types=("LOG",), thread=7) == [1]
    assert await numbers(index, "shared", types=("FACT",)) == [2]
    assert await numbers(index, "shared", after=WHEN + timedelta(seconds=1)) == []
    assert sorted(await numbers(index, "shared", before=WHEN + timedelta(seconds=1))) == [1, 2]
    assert await numbers(index, "shared", board="other") == [3]


@pytest.mark.parametrize("words", HOSTILE)
async def test_hostile_words_are_only_words(index: FtsArchiveIndex, words: str) -> None:
    await index.upsert(
        [document(1, words + " marker"), document(2, words, board=words, author=words, tags=(words,))]
    )
    assert await numbers(index, words + " marker") == [1]
    assert await numbers(index, "marker") == [1]
    assert await numbers(index, words + " else", board=words, author=words, tags=(words,)) == [2]


async def test_it_ranks_as_lancedb_does_by_words(index: FtsArchiveIndex, tmp_path: Path) -> None:
    """The two find with their own engines; counts and scores are the same arithmetic."""
    rnd = random.Random(11)
    common = ["cache", "queue", "login", "latency", "token", "parser_v2", "deploy", "retry"]
    documents = [
        document(n, " ".join(rnd.choices([*common, f"only{n}"], k=rnd.randint(1, 60))), thread=n // 3, seq=n)
        for n in range(1, 120)
    ]
    waiting = Waiting(tuple(document(n, "cache waits here", seq=n) for n in range(120, 123)), removed=(5,))
    lance = LanceArchiveIndex(tmp_path / "lance", None)
    try:
        for each in (index, lance):
            await each.upsert(documents)
        for text in ("cache", "login retry", "only7 cache", "parser_v2 only33 queue", "nothing"):
            for still in (Waiting(), waiting):
                query = ArchiveQuery("main", text, 20)
                ours, theirs = [(await each.search(query, still)).hits for each in (index, lance)]
                assert ours == theirs, text
        assert await index.keys() == await lance.keys()
        assert await index.sums({"main": [3, 4]}) == await lance.sums({"main": [3, 4]})
    finally:
        await lance.close()


async def test_what_cannot_be_opened_is_reported_and_reset(index: FtsArchiveIndex, tmp_path: Path) -> None:
    await index.upsert([document(1, "a")])
    (tmp_path / "archive" / "words.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(ArchiveUnavailable):
        await numbers(index, "a")
    await index.reset()
    await index.upsert([document(1, "whole again")])
    assert await numbers(index, "whole") == [1]
