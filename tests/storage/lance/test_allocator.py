"""The pages of the driver's code and constants are given back after use, and mapped again when they are needed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from blackboard_mcp.protocols.archive import ArchiveDocument, ArchiveQuery
from blackboard_mcp.storage.allocator import give_back
from blackboard_mcp.storage.lance import workers
from blackboard_mcp.storage.lance.index import LanceArchiveIndex

Make = Callable[..., ArchiveDocument]


def present(package: str, mode: str) -> int:
    """Returns how many KiB of files of a package are mapped in a mode by pages that are present, as in the file."""
    total, counts = 0, False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace").splitlines():
        name, value = line.split()[:2]
        if "-" in name:
            counts = f" {mode} " in line and f"/{package}/" in line
        elif counts and name in ("Rss:", "Anonymous:"):
            total += int(value) if name == "Rss:" else -int(value)
    return total


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_the_drivers_code_and_constants_are_unmapped_after_use_and_answers_as_before(
    index: LanceArchiveIndex, document: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "REST_SECONDS", 3600)
    await index.upsert([document(n, f"valve number {n} leaks") for n in range(1, 21)])
    query = ArchiveQuery("main", "valve number 7")
    before = await index.search(query)
    used = {(p, mode): present(p, mode) for p in ("lancedb", "tokenizers") for mode in ("r-xp", "r--p")}
    give_back()
    # Threads that other tests left may use some pages again at once.
    left = {of: present(*of) for of in used}
    assert all(used[of] > 0 and left[of] < used[of] / 4 for of in used), (used, left)
    assert await index.search(query) == before
    assert before.hits[0].number == 7
