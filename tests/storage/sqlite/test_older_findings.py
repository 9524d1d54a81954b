"""A file from before findings were remembered: what was found then is recognised when it is found again."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from blackboard_mcp.protocols.board import BoardConfig, Core
from blackboard_mcp.protocols.findings import fingerprint, outline
from blackboard_mcp.protocols.items import content_hash
from blackboard_mcp.storage.history.transfer import verify_board
from blackboard_mcp.storage.operations.ledger.rows import Steps
from blackboard_mcp.storage.sqlite import driver
from blackboard_mcp.storage.sqlite.engine import SqliteEngine
from blackboard_mcp.storage.sqlite.opening import APPLICATION_ID, migrations
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import Table, draft

BEFORE = 4
LONG = 52
"""The last schema with whole fingerprints."""
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


async def test_whole_fingerprints_become_short_and_recognise_the_same(tmp_path: Path) -> None:
    path = tmp_path / "board.db"
    store = await SqlBoardStore.open(path)
    at = Table(store)
    found = await at.batch("alice", draft("The pump ran for 40 hours.", "FACT"))
    decided = await at.batch("alice", draft("The pump stays on.", "DECISION"))
    fell = await at.batch("alice", draft("The pump ran for 41 hours.", "FACT"))
    await store.close()
    _lengthen(path)
    store = await SqlBoardStore.open(path)
    try:
        at = Table(store)
        assert (await at.batch("bob", draft("the pump ran for 40 hours", "FACT"))).endorsed == (0,)
        again = await at.batch("alice", draft("The pump stays on.", "DECISION"))
        assert [item.number for item in again.items] == [decided.items[0].number]
        assert [item.number for item in found.items + fell.items] == [1, 3]
        assert await verify_board(store, "main") == []
    finally:
        await store.close()
    raw = driver.connect(str(path))
    assert {len(said) for (said,) in raw.execute("SELECT fingerprint FROM finding")} == {33}
    raw.close()


def _lengthen(path: Path) -> None:
    """Makes a file what the version before short fingerprints would have left."""
    raw = driver.connect(str(path))
    texts = raw.execute("SELECT number, text FROM item WHERE type = 'FACT'").fetchall()
    raw.execute("DELETE FROM finding")
    for number, text in texts:
        for said in filter(None, (fingerprint(text), outline(text))):
            raw.execute("INSERT INTO finding VALUES (1, ?, ?)", (said, number))
    raw.execute("DROP INDEX item_said")
    raw.execute(
        "CREATE INDEX item_said ON item(board, sha256, author) "
        "WHERE key IS NULL AND type NOT IN ('LOG', 'RESULT', 'SUMMARY')"
    )
    raw.execute("ALTER TABLE agent DROP COLUMN waits_until")
    raw.execute("DROP INDEX debate_gave_way")
    raw.execute(f"PRAGMA user_version = {LONG}")
    raw.close()
