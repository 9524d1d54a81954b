"""A file from before findings were remembered: what was found then is recognised when it is found again."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from blackboard_mcp.protocols.board import BoardConfig, Core
from blackboard_mcp.protocols.items import content_hash
from blackboard_mcp.storage.operations.ledger.rows import Steps
from blackboard_mcp.storage.sqlite.engine import SqliteEngine
from blackboard_mcp.storage.sqlite.opening import APPLICATION_ID, migrations
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import Table, draft

BEFORE = 4
ITEM = """
    INSERT INTO item(board, number, type, key, version, status, zone, importance, author, owner, text, tags,
                     metadata, tokens, sha256, thread, created_at, updated_at, seq, updated_by)
    VALUES (1, ?1, ?2, ?3, 1, 'ACTIVE', 'archive', 3, 'alice', ?4, ?5, '[]', '{}', 1, ?6, ?1, 1, 1, ?1, 'alice')
"""


def fill() -> Steps[None]:
    config, core = json.dumps(asdict(BoardConfig())), json.dumps(asdict(Core()))
    yield (
        "INSERT INTO board(no, id, title, lifecycle, config, core, seq, last_number, created_at, working_items, "
        "working_tokens, archived_items) VALUES (1, 'main', 'main', 'open', ?1, ?2, 403, 403, 1, 0, 0, 403)",
        (config, core),
    )
    for number in range(1, 401):
        text = f"finding {number}"
        yield ITEM, (number, "FACT", None, "", text, content_hash(text))
    for number, type_, key, owner in (
        (401, "FACT", "k", ""),
        (402, "LOG", None, ""),
        (403, "FACT", None, "alice"),
    ):
        yield ITEM, (number, type_, key, owner, "not for all", content_hash("not for all"))


async def test_what_was_found_before_is_endorsed_and_what_could_not_be_still_is_not(tmp_path: Path) -> None:
    path = tmp_path / "board.db"
    engine = await SqliteEngine.open(path, migrations=migrations()[:BEFORE], application_id=APPLICATION_ID)
    await engine.write(fill)
    await engine.close()
    store = await SqlBoardStore.open(path)
    try:
        at = Table(store)
        for number in (1, 200, 400):
            posted = await at.batch("bob", draft(f"Finding {number}.", "FACT"))
            assert [item.number for item in posted.items] == [number]
            assert posted.endorsed == (0,)
        for type_ in ("FACT", "LOG"):
            assert (await at.batch("bob", draft("not for all", type_))).endorsed == ()
    finally:
        await store.close()
