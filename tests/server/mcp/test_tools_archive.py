"""`query_archive` over an index that is lost: the words of the store, said to be so, until it is whole."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import sys
from pathlib import Path
from typing import Any

if "boards" not in sys.modules:
    _spec = importlib.util.spec_from_file_location("boards", Path(__file__).with_name("boards.py"))
    assert _spec is not None
    assert _spec.loader is not None
    sys.modules["boards"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["boards"])
boards: Any = sys.modules["boards"]
board, mode = boards.board, boards.mode


async def test_an_archive_whose_index_is_lost_answers_by_words_until_it_is_whole(board: Any) -> None:
    alice, _ = await board.join("alice", "bob")
    wanted = set()
    for n in range(6):
        old = (await alice.post(f"Rust on pump {n}."))["id"]
        await alice.post("Clean.", edges={"supersedes": [old]})
        wanted.add(old)
    store, archive = board.opened.store, board.opened.archive
    name = "main"
    waiting = await store.waiting(name, 4)
    assert [d.number for d in waiting.documents] == [11, 9, 7, 5]
    assert waiting.more
    assert await store.settled_keys() == {}
    while not await archive.drain():
        pass
    assert await store.settled_keys() == await store.archived_keys()
    assert await store.waiting(name, 4) == type(waiting)()

    async def answer() -> dict[str, Any]:
        found: dict[str, Any] = await alice.do("query_archive", text="rust", limit=50)
        assert {i["id"] for i in found["items"]} == wanted
        return found

    whole = await answer()
    assert "rebuilt" not in whole.get("notice", "")
    shutil.rmtree(board.opened.settings.index)
    lost = await answer()
    assert lost["mode"] == "lexical"
    assert "being rebuilt" in lost["notice"]
    async with asyncio.timeout(20):
        while True:
            again = await answer()
            if "rebuilt" not in again.get("notice", ""):
                break
            await asyncio.sleep(0.05)
    assert again["mode"] == whole["mode"]
