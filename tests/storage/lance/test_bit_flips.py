"""Flipped bits in the files of the archive's index: a search finds what is there, or says so and is mended."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

from blackboard_mcp.protocols.archive import ArchiveQuery
from blackboard_mcp.protocols.errors import ArchiveUnavailable
from blackboard_mcp.storage.lance.index import LanceArchiveIndex
from blackboard_mcp.storage.lance.indexer import Indexer
from profiles import NIGHTLY

FLIPS = 300 if NIGHTLY else 6


def damaged(whole: Path, folder: Path, dice: random.Random) -> None:
    """A copy of the folder with a flipped bit in one of its files, large ones more often."""
    shutil.copytree(whole, folder)
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.stat().st_size)
    file = dice.choices(files, [file.stat().st_size for file in files])[0]
    raw = bytearray(file.read_bytes())
    raw[dice.randrange(len(raw))] ^= 1 << dice.randrange(8)
    file.write_bytes(raw)


async def test_a_damaged_index_names_nothing_that_is_not_there_and_is_built_anew(
    tmp_path: Path, journal: Any, document: Any
) -> None:
    journal.archive([document(n) for n in range(1, 40)])
    whole = LanceArchiveIndex(tmp_path / "whole", None)
    await Indexer(journal, whole, "me").drain()
    await whole.close()
    there = await journal.archived_keys()
    query = ArchiveQuery(next(iter(there))[0], document(1).text, 50)
    whole = LanceArchiveIndex(tmp_path / "whole", None)
    assert (await whole.search(query)).hits
    await whole.close()
    dice = random.Random(5)
    became: Counter[str] = Counter()
    for n in range(FLIPS):
        folder = tmp_path / str(n)
        damaged(tmp_path / "whole", folder, dice)
        index = LanceArchiveIndex(folder, None)
        try:
            keys = await index.keys()
            answer = await index.search(query)
            # What it names beyond the archive is dropped by whoever reads the hits from the store.
            assert {hit.number for hit in answer.hits} <= {number for _, number in keys}
            became["answered" if keys == there else "lacks something, as the comparison tells"] += 1
        except ArchiveUnavailable:
            became["refused"] += 1
        await Indexer(journal, index, "me").rebuild()
        assert await index.keys() == there
        await index.close()
        shutil.rmtree(folder)
    print(f"{FLIPS} flips in the index: {dict(became)}")
