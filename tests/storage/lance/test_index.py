from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.archive import ArchiveDocument, ArchiveIndex, ArchiveQuery, Embedder, Waiting
from blackboard_mcp.protocols.errors import ArchiveUnavailable
from blackboard_mcp.storage.lance import index as index_module
from blackboard_mcp.storage.lance import pending
from blackboard_mcp.storage.lance.index import LanceArchiveIndex
from blackboard_mcp.storage.lance.words import clean
from patience import PATIENCE, RUN

Make = Callable[..., ArchiveDocument]
Open = Callable[[], ArchiveIndex]


async def numbers(index: ArchiveIndex, text: str, board: str = "main", **filters: Any) -> list[int]:
    return [hit.number for hit in (await index.search(ArchiveQuery(board, text, **filters))).hits]


async def test_upsert_twice_stores_once(index: LanceArchiveIndex, document: Make) -> None:
    made = [document(n) for n in range(1, 30)]
    await index.upsert(made)
    await index.upsert(made)
    assert await index.keys() == {("main", n): 1 for n in range(1, 30)}
    assert sorted(await numbers(index, "finding", limit=100)) == list(range(1, 30))


async def test_duplicates_in_one_call_collapse_to_the_largest_seq(
    lexical: ArchiveIndex, document: Make
) -> None:
    await lexical.upsert([document(1, "old", seq=1), document(1, "new", seq=3), document(1, "mid", seq=2)])
    assert await lexical.keys() == {("main", 1): 3}
    assert await numbers(lexical, "new") == [1]
    assert await numbers(lexical, "old") == []


async def test_an_older_seq_changes_nothing(lexical: ArchiveIndex, document: Make) -> None:
    await lexical.upsert([document(1, "recent", seq=5)])
    await lexical.upsert([document(1, "stale", seq=4), document(2, "other", seq=1)])
    assert await lexical.keys() == {("main", 1): 5, ("main", 2): 1}
    assert await numbers(lexical, "stale") == []
    assert await numbers(lexical, "recent") == [1]


async def test_removed_documents_are_gone_and_unknown_keys_are_silent(
    lexical: ArchiveIndex, document: Make
) -> None:
    await lexical.remove([("main", 1)])
    await lexical.upsert([document(n) for n in range(1, 5)])
    await lexical.remove([("main", 2), ("main", 99), ("other", 1), ("' OR 1=1 --", 3)])
    assert set(await lexical.keys()) == {("main", 1), ("main", 3), ("main", 4)}
    assert sorted(await numbers(lexical, "finding")) == [1, 3, 4]


async def test_filters_apply_before_the_search(index: LanceArchiveIndex, document: Make) -> None:
    day = timedelta(days=1)
    base = document(1).created_at
    await index.upsert(
        [
            document(1, "alpha result", type="FACT", author="ann", tags=("x", "y"), created_at=base),
            document(2, "alpha result", type="LOG", author="bob", tags=("x",), created_at=base + day),
            document(3, "alpha result", type="FACT", author="bob", thread=1, created_at=base + 2 * day),
        ]
    )
    assert await numbers(index, "alpha", types=("LOG",)) == [2]
    assert await numbers(index, "alpha", author="ann") == [1]
    assert sorted(await numbers(index, "alpha", thread=1)) == [1, 3]
    assert sorted(await numbers(index, "alpha", tags=("x",))) == [1, 2]
    assert await numbers(index, "alpha", tags=("x", "y")) == [1]
    assert sorted(await numbers(index, "alpha", after=base + day)) == [2, 3]
    assert await numbers(index, "alpha", before=base + day) == [1]
    assert await numbers(index, "alpha", after=base + day, before=base + 2 * day) == [2]


HOSTILE = [
    "' OR '1'='1",
    "1=1",
    "x' OR 1=1 --",
    '"; DROP TABLE items; --',
    "\\",
    "%",
    "_",
    "\x00",
    "a\x1fb",
    "main\x1f1",
    "\ud800",
    "`board`",
    "日本'",
]


@pytest.mark.parametrize("value", HOSTILE)
async def test_no_filter_value_reaches_another_board(
    lexical: ArchiveIndex, document: Make, value: str
) -> None:
    secret = document(1, "alpha secret", board="private", tags=("t",))
    await lexical.upsert([secret, document(2, "alpha open")])
    assert await numbers(lexical, "alpha", board=value) == []
    for filters in ({"author": value}, {"types": (value,)}, {"tags": (value,)}):
        assert await numbers(lexical, "alpha", **filters) == []
    assert await numbers(lexical, "alpha") == [2]
    await lexical.remove([(value, 1)])
    assert set(await lexical.keys()) == {("private", 1), ("main", 2)}


@pytest.mark.parametrize("value", [v for v in HOSTILE if v != "\ud800"])
async def test_hostile_names_are_stored_and_found_as_they_are(
    lexical: ArchiveIndex, document: Make, value: str
) -> None:
    await lexical.upsert([document(1, "alpha", board=value, author=value, tags=(value,), type=value)])
    assert await lexical.keys() == {(value, 1): 1}
    assert await numbers(lexical, "alpha", board=value, author=value, tags=(value,), types=(value,)) == [1]
    await lexical.remove([(value, 1)])
    assert await lexical.keys() == {}


@pytest.mark.parametrize(
    "query",
    [
        "board:private",
        "secret:alpha",
        'alpha AND "',
        "NOT alpha",
        "alpha OR (",
        "alpha*",
        "alpha~2 ^3",
        '"alpha\\"',
        "{alpha}[",
        'alpha" OR "beta',
        "NEAR(alpha beta)",
        "words:alpha",
        "^alpha -beta",
        "\x00 alpha",
        "\ud800 alpha",
    ],
)
async def test_search_syntax_in_a_query_is_only_words(
    lexical: ArchiveIndex, document: Make, query: str
) -> None:
    await lexical.upsert([document(1, "alpha beta"), document(2, "gamma"), document(3, "x", board="private")])
    assert await numbers(lexical, query) == ([] if query == "board:private" else [1])


@pytest.mark.parametrize("query", ["", "   ", "the of and", "?!", "(" * 500])
async def test_a_query_without_words_answers_calmly(
    lexical: ArchiveIndex, document: Make, query: str
) -> None:
    await lexical.upsert([document(1, "alpha")])
    assert await numbers(lexical, query) == []


@pytest.mark.parametrize(
    "identifier",
    ["parser_v2", "src/core/parser_v2.py", "#4711", "D-12", "com.acme.Widget", "a1b2c3d4e5f6", "v1.2.3-rc1"],
)
async def test_an_identifier_finds_its_document_among_look_alikes(
    index: LanceArchiveIndex, document: Make, identifier: str
) -> None:
    noise = [
        "parser v2 parser v2 parser",
        "src core parser py",
        "4711 4711",
        "D 12 12 12",
        "12 d widget acme com",
        "v1 2 3 rc1",
    ]
    await index.upsert([document(n, noise[n % len(noise)] + f" note {n}") for n in range(1, 300)])
    await index.upsert(
        [document(500, f"The long story of a failure that we traced back to {identifier}, at last.")]
    )
    assert (await numbers(index, identifier))[0] == 500
    assert (await numbers(index, f"what do we know about {identifier}?"))[0] == 500


async def test_a_long_item_is_found_by_a_sentence_in_its_middle(
    index: LanceArchiveIndex, document: Make
) -> None:
    filler = " ".join(f"routine entry {i} about the weekly schedule of meetings." for i in range(400))
    middle = "The turbine overheats because the coolant valve sticks below freezing."
    await index.upsert([document(n) for n in range(1, 100)])
    await index.upsert([document(200, f"{filler} {middle} {filler}")])
    assert (await numbers(index, "coolant valve stuck in frost makes turbine too hot"))[0] == 200


async def test_a_shorter_version_leaves_no_stale_window(index: LanceArchiveIndex, document: Make) -> None:
    filler = " ".join(f"word{i}" for i in range(700))
    await index.upsert([document(1, f"{filler} zeppelin", seq=1), document(2, "other", seq=1)])
    assert (await numbers(index, "zeppelin"))[0] == 1
    await index.upsert([document(1, "short now", seq=2)])
    lexically = LanceArchiveIndex(index._folder._path, None)
    assert await numbers(lexically, "zeppelin") == []
    assert await numbers(lexically, "word650") == []
    await lexically.close()


async def test_meaning_finds_what_words_do_not(index: LanceArchiveIndex, document: Make) -> None:
    await index.upsert(
        [
            document(1, "The cat sleeps on the sofa"),
            document(2, "Interest rates rose again this quarter"),
            document(3, "The engine lost oil pressure"),
        ]
    )
    answer = await index.search(ArchiveQuery("main", "feline nap on couch"))
    assert answer.mode == "hybrid"
    assert answer.hits[0].number == 1


async def test_an_index_never_written_answers_with_no_hits(index: LanceArchiveIndex) -> None:
    assert (await index.search(ArchiveQuery("main", "anything"))).hits == ()
    assert await index.keys() == {}
    await index.maintain()


async def test_without_a_model_the_answer_says_so(modelless: LanceArchiveIndex, document: Make) -> None:
    await modelless.upsert([document(1, "running tests")])
    answer = await modelless.search(ArchiveQuery("main", "test runs"))
    assert (answer.mode, answer.notice) == ("lexical", index_module.NO_MODEL)
    assert [hit.number for hit in answer.hits] == [1]


class _Failing:
    name = "failing"
    dimension = 4

    def embed_documents(self, texts: Any) -> object:
        import numpy as np

        return np.ones((len(texts), 4), dtype=np.float32) / 2

    def embed_query(self, text: str) -> object:
        raise TimeoutError("no answer")


async def test_a_model_that_fails_on_a_query_leaves_the_words(tmp_path: Path, document: Make) -> None:
    index = LanceArchiveIndex(tmp_path, _Failing())
    await index.upsert([document(1, "alpha")])
    answer = await index.search(ArchiveQuery("main", "alpha"))
    assert (answer.mode, answer.notice) == ("lexical", index_module.MODEL_DOWN)
    assert [hit.number for hit in answer.hits] == [1]
    await index.close()


async def test_two_models_never_share_a_column(
    index: LanceArchiveIndex, document: Make, embedder: Embedder
) -> None:
    await index.upsert([document(1, "alpha")])
    other = LanceArchiveIndex(index._folder._path, _Failing())
    answer = await other.search(ArchiveQuery("main", "alpha"))
    assert (answer.mode, answer.notice) == ("lexical", index_module.OTHER_MODEL)
    assert await index.fits()
    assert not await other.fits()
    for attempt in (other.upsert([document(2)]), other.remove([("main", 1)])):
        with pytest.raises(ArchiveUnavailable) as caught:
            await attempt
        assert caught.value.facts["reason"] == "model"
    await other.reset()
    await other.upsert([document(2)])
    assert await other.keys() == {("main", 2): 1}
    await other.close()


async def test_another_layout_is_reported(
    lexical: ArchiveIndex, open_lexical: Open, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lexical.upsert([document(1)])
    monkeypatch.setattr("blackboard_mcp.storage.lance.rows.SCHEMA_VERSION", 99)
    newer = open_lexical()
    with pytest.raises(ArchiveUnavailable) as caught:
        await newer.keys()
    assert caught.value.facts["reason"] == "schema"


async def test_rebuilding_gives_the_same_answers(
    index: LanceArchiveIndex, document: Make, tmp_path: Path, embedder: Embedder
) -> None:
    """I37: whatever history the index has, the same documents give the same hits, scores and order."""
    topics = ["valve pressure", "disk latency in rack_7", "billing rounding error", "login token expiry"]
    final = [
        document(n, f"{topics[n % 4]} seen in run {n % 11}", seq=9, thread=n // 5) for n in range(1, 260)
    ]
    for start in range(0, len(final), 37):
        part = final[start : start + 37]
        await index.upsert([replace(d, seq=1, text="valve valve " + d.text * 2) for d in part])
        await index.upsert(part)
    await index.upsert([document(1000, "valve pressure"), document(1001, "rack_7")])
    await index.remove([("main", 1000), ("main", 1001)])
    fresh = LanceArchiveIndex(tmp_path / "fresh", embedder)
    await fresh.upsert(final)
    for text in ("valve pressure", "rack_7", "expired tokens", "rounding in run 3", "slow storage"):
        query = ArchiveQuery("main", text, limit=20)
        worn = await index.search(query)
        assert len(worn.hits) == 20
        assert worn == await fresh.search(query)
    await index.maintain()
    await fresh.maintain()
    query = ArchiveQuery("main", "valve pressure", limit=300)
    assert await index.search(query) == await fresh.search(query)
    await fresh.close()


async def test_a_reset_is_seen_by_handles_already_open(
    lexical: ArchiveIndex, open_lexical: Open, document: Make
) -> None:
    await lexical.upsert([document(1, "earlier")])
    other = open_lexical()
    life = await other.life()
    assert await numbers(other, "earlier") == [1]
    await lexical.reset()
    assert await other.life() == ""
    assert await numbers(other, "earlier") == []
    await lexical.upsert([document(1, "later")])
    assert await numbers(other, "earlier") == []
    assert await numbers(other, "later") == [1]
    await other.upsert([document(2, "later")])
    assert await numbers(lexical, "later") == [1, 2]
    assert await lexical.life() not in ("", life)


@pytest.mark.parametrize("damage", ["manifests", "garbage", "pointer", "file"])
async def test_what_cannot_be_opened_is_reported_and_reset(
    tmp_path: Path, document: Make, damage: str
) -> None:
    folder = tmp_path / "archive"
    index = LanceArchiveIndex(folder, None)
    await index.upsert([document(1)])
    await index.close()
    if damage == "manifests":
        for path in folder.rglob("*.manifest"):
            path.unlink()
    elif damage == "garbage":
        for path in folder.rglob("*"):
            if path.is_file():
                path.write_bytes(b"\xff" * 64)
    elif damage == "pointer":
        (folder / "current").write_bytes(b"\xff../../etc")
    else:
        (folder / "g-first").rename(tmp_path / "away")
        (folder / "g-first").write_text("not a folder")
    index = LanceArchiveIndex(folder, None)
    for attempt in (index.keys(), index.search(ArchiveQuery("main", "finding"))):
        with pytest.raises(ArchiveUnavailable):
            await attempt
    await index.maintain()
    await index.reset()
    assert await index.keys() == {}
    await index.upsert([document(2)])
    assert await index.keys() == {("main", 2): 1}
    await index.close()


async def test_after_close_calls_are_refused(lexical: ArchiveIndex, document: Make) -> None:
    await lexical.upsert([document(1)])
    await lexical.close()
    await lexical.close()
    with pytest.raises(ArchiveUnavailable):
        await lexical.keys()


async def test_searches_and_writes_run_side_by_side(lexical: ArchiveIndex, document: Make) -> None:
    await lexical.upsert([document(n) for n in range(1, 50)])
    found = await asyncio.gather(
        *(numbers(lexical, "topic3") for _ in range(8)),
        *(lexical.upsert([document(n + 100, "unrelated")]) for n in range(4)),
        lexical.maintain(),
    )
    assert all(set(answer or ()) == {3, 10, 17, 24, 31, 38, 45} for answer in found[:8])
    assert len(await lexical.keys()) == 53


async def test_handles_that_write_at_once_leave_each_document_once(
    open_lexical: Open, document: Make
) -> None:
    handles = [open_lexical() for _ in range(3)]
    await asyncio.gather(
        *(
            each.upsert([document(n, f"shared {n}", seq=seq) for n in range(1, 40)])
            for seq, each in enumerate(handles, 1)
        )
    )
    assert await handles[0].keys() == {("main", n): 3 for n in range(1, 40)}
    assert sorted(await numbers(handles[0], "shared", limit=50)) == list(range(1, 40))


async def test_processes_writing_the_same_documents_leave_each_once(
    tmp_path: Path, document: Make, journal_script: Path
) -> None:
    folder = tmp_path / "archive"
    writers = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            str(journal_script),
            "upsert",
            str(folder),
            "120",
            str(seq),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for seq in (1, 2)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert await asyncio.wait_for(writer.stdout.readline(), PATIENCE) == b"ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"\n")
    for writer in writers:
        await asyncio.wait_for(writer.communicate(), PATIENCE)
        assert writer.returncode == 0
    index = LanceArchiveIndex(folder, None)
    assert await index.keys() == {("main", n): 2 for n in range(1, 121)}
    table = index._table(create=False)
    assert table is not None
    assert table.count_rows() == 120
    await index.close()


def test_importing_and_asking_an_empty_index_loads_neither_driver_nor_model(tmp_path: Path) -> None:
    script = """
import asyncio, sys
from pathlib import Path
from blackboard_mcp.protocols.archive import ArchiveQuery
from blackboard_mcp.storage.lance import counts, folder, fusion, index, indexer, pending, rows
from blackboard_mcp.storage.lance.embedders.wordllama import load_bundled_embedder

async def main():
    empty = index.LanceArchiveIndex(Path(sys.argv[1]) / "archive", load_bundled_embedder())
    await empty.search(ArchiveQuery("main", "anything"))
    await empty.keys()
    await empty.maintain()
    await empty.close()

asyncio.run(main())
heavy = {"lancedb", "lance", "pyarrow", "numpy", "wordllama", "tokenizers", "safetensors"}
print(sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=RUN,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_the_driver_comes_without_requests_to_catalogs_on_the_network(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
import pyarrow
from blackboard_mcp.storage.lance.folder import IndexFolder

folder = IndexFolder(Path(sys.argv[1]) / "archive")
schema = pyarrow.schema([pyarrow.field("id", pyarrow.string(), nullable=False)])
folder.create("g-first", schema).add(pyarrow.table({"id": ["a"]}, schema))
print(folder.open("g-first").count_rows())
print([name for name in sys.modules if name.startswith("lance_namespace_urllib3_client.api")])
import lance_namespace_urllib3_client
print(lance_namespace_urllib3_client.TableApi.__name__, lance_namespace_urllib3_client.__version__ > "")
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=RUN,
        check=True,
    )
    assert done.stdout.split("\n")[:3] == ["1", "[]", "TableApi True"], (
        "whoever asks for the client gets it whole"
    )


async def test_long_texts_that_wait_are_found_by_words_though_few_are_taken_apart(
    lexical: ArchiveIndex, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    filler = "filling words of no weight " * 7_000
    waiting = Waiting(
        tuple(
            document(n, f"{filler} marker{n} happily parser_v{n}.py {filler[:9_000]}")
            for n in range(20, 0, -1)
        )
    )
    taken = 0

    def counted(text: str) -> str:
        nonlocal taken
        taken += len(text)
        return clean(text)

    monkeypatch.setattr(pending, "clean", counted)
    for text, found in (("marker3", [3]), ("parser_v7.py", [7]), ("happy marker5", [5])):
        answer = await lexical.search(ArchiveQuery("main", text, 40), waiting)
        assert [hit.number for hit in answer.hits][: len(found)] == found, text
    longest = max(len(one.text) for one in waiting.documents)
    assert (
        0
        < taken
        <= 3 * max(pending.CUT_CHARACTERS, longest)
        < sum(len(one.text) for one in waiting.documents)
    )
