"""The pages of the driver's code are given back after use, and mapped again when they are needed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from blackboard_mcp.protocols.archive import ArchiveDocument, ArchiveQuery
from blackboard_mcp.storage.lance import workers
from blackboard_mcp.storage.lance.allocator import give_back
from blackboard_mcp.storage.lance.index import LanceArchiveIndex

Make = Callable[..., ArchiveDocument]


def resident_code(package: str) -> int:
    """Returns how many KiB of code in files of a package are mapped by pages that are present."""
    total, counts = 0, False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace").splitlines():
        if "-" in line.split()[0]:
            counts = " r-xp " in line and f"/{package}/" in line
        elif counts and line.startswith("Rss:"):
            total += int(line.split()[1])
    return total


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_the_drivers_code_is_unmapped_after_use_and_answers_as_before(
    index: LanceArchiveIndex, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "REST_SECONDS", 3600)
    await index.upsert([document(n, f"valve number {n} leaks") for n in range(1, 21)])
    query = ArchiveQuery("main", "valve number 7")
    before = await index.search(query)
    used = {package: resident_code(package) for package in ("lancedb", "tokenizers")}
    give_back()
    # Threads that other tests left may use some pages again at once.
    left = {package: resident_code(package) for package in used}
    assert all(left[package] < used[package] / 4 for package in used), (used, left)
    assert await index.search(query) == before
    assert before.hits[0].number == 7
