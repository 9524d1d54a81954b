"""Vectors are kept in few bits, and mean the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from blackboard_mcp.protocols.archive import ArchiveDocument
from blackboard_mcp.storage.lance import heads, rows, vectors
from blackboard_mcp.storage.lance.engines import EngineReach, Engines
from blackboard_mcp.storage.lance.folder import IndexFolder


def some(count: int, dimension: int) -> Any:
    """Returns `count` vectors of unit length, which differ in twelve ways."""
    chance = np.random.default_rng(1)
    made = chance.normal(size=(count, 12)) @ chance.normal(size=(12, dimension))
    made += 0.5 * chance.normal(size=made.shape)
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("dimension", [3, 8, 60, 256, 384])
def test_a_kept_vector_points_where_it_pointed(dimension: int) -> None:
    made = some(200, dimension)
    made[7] = 0.0
    kept = vectors.kept(made)
    assert kept.dtype == np.float32
    assert not kept[7].any()
    there = made.any(axis=1)
    assert np.allclose(np.linalg.norm(kept[there], axis=1), 1.0, atol=1e-5)
    assert (kept[there] * made[there]).sum(axis=1).min() > 0.999


def test_a_vector_takes_a_bit_for_each_sign_and_five_for_each_size() -> None:
    made = some(5, 256)
    assert vectors.signs(made).shape == (5, 32)
    assert vectors.sizes(made).shape == (5, 160)


@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 7, 256, 385])
def test_upper_bits_of_sizes_come_first_and_last_bits_then(dimension: int) -> None:
    made = some(20, dimension)
    made[3, 1:] = 0.0
    largest = np.abs(made).max(axis=1, keepdims=True)
    steps = np.minimum(np.abs(made) / largest * 32, 31).astype(int)
    sizes = vectors.sizes(made)
    for row, step in zip(sizes.tolist(), steps.tolist(), strict=True):
        upper = "".join(f"{each >> 1:04b}" for each in step)
        upper = upper.ljust(-(-len(upper) // 8) * 8, "0")
        last = "".join(str(each & 1) for each in step)
        assert "".join(f"{each:08b}" for each in row) == upper + last.ljust(-(-len(last) // 8) * 8, "0")
    numbers = vectors.unpacked(vectors.signs(made), sizes, dimension)
    assert numbers.dtype == np.int8
    assert (numbers == np.where(made > 0, 1, -1) * (2 * steps + 1)).all()


def heads_of(made: Any, dimension: int) -> Any:
    """Returns an Arrow table with the heads of rows that have these vectors."""
    row = dict.fromkeys(("number", "seq", "thread", "created_us", "start"), 7)
    row |= {"board": "main", "owner": ""}
    found = [heads.made(row, vector, dimension) for _, vector in vectors.packed(made)]
    return pa.table({heads.HEAD: pa.array(found, pa.binary(heads.width(dimension)))})


def test_rows_without_a_vector_have_zeros() -> None:
    made = some(3, 10)
    made[1] = 0.0
    read = vectors.directions(heads.numbers(heads_of(made, 10).slice(1), 10))
    assert not read[0].any()
    assert (read[1] == vectors.kept(made)[2]).all()


def test_a_head_has_what_it_was_made_of() -> None:
    row = {
        "number": 2**40 - 1,
        "seq": 2**53,
        "thread": 2**32,
        "created_us": -151_200_000_000,
        "start": 70_000,
    }
    rest = {"board": "main", "owner": "ann"}
    late = {"created_us": 10**18}
    made = [heads.made(row | rest, b"", 0), heads.made(row | rest | late, b"", 0)]
    assert [len(each) for each in made] == [heads.width(0)] * 2 == [33] * 2
    read = heads.read(pa.table({heads.HEAD: pa.array(made, pa.binary(33))}), 0)
    assert {name: read[name][0].item() for name in row} == row
    assert read["scope"].tolist() == [heads.scope("main", "ann")] * 2
    assert 0 < read["created_us"][1] < late["created_us"]
    none = heads.read(pa.table({heads.HEAD: pa.array([], pa.binary(33))}), 0)
    assert [len(column) for column in none.values()] == [0] * len(none)


def test_no_board_and_mark_have_the_digest_of_others() -> None:
    scopes = [
        heads.scope(board, mark) for board in ("", "a", "ab", "2 a") for mark in ("", "b", "bc", "a", "1 ")
    ]
    assert len({*scopes}) == len(scopes)


def test_vectors_that_are_all_zero_are_kept_as_none() -> None:
    assert vectors.packed(np.zeros((2, 10), dtype=np.float32)) == [vectors.NOWHERE] * 2


def test_many_rows_are_read_in_order() -> None:
    made = some(5000, 16)
    assert (vectors.directions(heads.numbers(heads_of(made, 16), 16)) == vectors.kept(made)).all()


@pytest.mark.parametrize("clustered", [False, True])
def test_the_driver_finds_by_signs_what_is_nearest_by_the_whole_vector(
    tmp_path: Any, document: Any, clustered: bool
) -> None:
    made = some(2000, 256)
    table = IndexFolder(tmp_path / "archive").create("g-first", rows.schema("made up", 256))
    listed = []
    for number, (signs, vector) in enumerate(vectors.packed(made), 1):
        (row,) = rows.made(_document(document, number), [rows.Window(0, "word")])
        listed.append(row | {heads.HEAD: heads.made(row, vector, 256), vectors.SIGNS: signs})
    table.add(pa.Table.from_pylist(listed, schema=table.schema))
    if clustered:
        from lancedb.index import IvfFlat

        table.create_index(vectors.SIGNS, config=IvfFlat(distance_type="hamming", num_partitions=8))
    reach = EngineReach("main", rows.on_board("main"))
    hit = 0
    for place in range(0, 2000, 100):
        asked = made[place] + made[place + 1]
        asked /= np.linalg.norm(asked)
        best = set((np.argsort(-(vectors.kept(made) @ asked))[:10] + 1).tolist())
        asking = Engines(table, asked)
        _, places = asking.ask(reach, [], said=0, meant=10)
        found = [asking.heads[place].number for place in places]
        assert len(found) == 10
        hit += len(best & set(found))
    assert hit >= 190


def _document(document: Any, number: int) -> ArchiveDocument:
    made: ArchiveDocument = document(number, "word")
    return made
