"""Configurations of boards that another version of the product wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from blackboard_mcp.protocols.board import STEPS, BoardChange, BoardConfig
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import draft


async def stored(store: SqlBoardStore, config: dict[str, Any] | None = None) -> dict[str, Any]:
    """What is kept of the board's configuration; with `config` after it was written there."""

    def operation() -> Any:
        if config is not None:
            yield "UPDATE board SET config = ?1", (json.dumps(config),)
        return (yield "SELECT config FROM board", ())

    found: dict[str, Any] = json.loads((await store.engine.write(operation))[0][0])
    return found


async def open_board(folder: Path) -> SqlBoardStore:
    store = await SqlBoardStore.open(folder / "board.sqlite3", synchronous="NORMAL")
    await store.post("main", "alice", [draft("a")], config=BoardConfig(policy="lru"))
    return store


async def config_of(store: SqlBoardStore) -> BoardConfig:
    board = await store.find_board("main")
    assert board is not None
    return board.config


async def test_what_an_older_version_did_not_write_has_its_default(tmp_path: Path) -> None:
    store = await open_board(tmp_path)
    await stored(store, {"target_tokens": 900, "high_water": 0.7, "tokenizer": "o200k_base"})
    assert await config_of(store) == BoardConfig(target_tokens=900, high_water=0.7)
    await store.close()


async def test_what_a_newer_version_wrote_is_left_alone_and_stays_when_the_rest_is_changed(
    tmp_path: Path,
) -> None:
    store = await open_board(tmp_path)
    newer = (await stored(store)) | {"mood": {"calm": [1, 2]}, "policy": "of-the-future"}
    await stored(store, newer)
    assert await config_of(store) == BoardConfig(policy="of-the-future")
    await store.change_board("main", "alice", BoardChange(settings={"ceiling": 3, "steps": ("logs",)}))
    assert await stored(store) == newer | {"ceiling": 3, "steps": ["logs"]}
    assert await config_of(store) == BoardConfig(policy="of-the-future", ceiling=3, steps=("logs",))
    await store.change_board("main", "alice", BoardChange(settings={"steps": STEPS}))
    assert (await stored(store))["mood"] == {"calm": [1, 2]}
    await store.close()
