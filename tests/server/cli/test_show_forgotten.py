"""What a person reads of items whose content is gone, from a folder and from a server alike."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

from blackboard_mcp.protocols.items import ItemType
from blackboard_mcp.protocols.retention import Retention
from blackboard_mcp.server import compose
from blackboard_mcp.server.input.posts import PostFields
from blackboard_mcp.server.settings.server import Settings
from blackboard_mcp.server.usecases.retention import Keeper
from blackboard_mcp.storage.testing.harness import HandClock, Table
from commands import said, serving, token

MONTH = Retention({ItemType.LOG: timedelta(days=30)}, "Ada", "a month is enough")


async def furnish(folder: Path) -> None:
    """L-1 and the entry log:one as L-2, both forgotten, and the entry plan:one as P-3, deleted."""
    settings = Settings(data=folder, embedder="none", synchronous="NORMAL")
    clock = HandClock(datetime.now(UTC) - timedelta(days=40))
    async with compose.installation(settings, eager_index=False, clock=clock, background=False) as opened:
        for fields in (
            PostFields(text="the station was seen", type="LOG"),
            PostFields(text="the valve was seen", type="LOG", key="log:one", ttl_seconds=1),
            PostFields(text="look at the pump", type="PLAN", key="plan:one"),
            PostFields(key="plan:one", status="DELETED"),
        ):
            await opened.blackboard.post("ana", None, [fields])
        clock.advance(60)
        await Table(opened.store).prune()
    async with compose.installation(settings, eager_index=False, background=False) as opened:
        await Keeper(opened.store, MONTH, "here").round("main")


def test_a_folder_and_a_server_say_by_whose_decision_an_item_was_forgotten(tmp_path: Path) -> None:
    asyncio.run(furnish(tmp_path))
    tmp_path.chmod(0o700)
    with serving(tmp_path) as (url, _):
        at = {"BLACKBOARD_URL": url, "BLACKBOARD_TOKEN": token(tmp_path, "--agent", "ben", "--role", "admin")}
        for given in (at, {"BLACKBOARD_DATA": str(tmp_path)}):
            told = said(given, "show", "L-1")
            assert "by decision of Ada: a month is enough" in told
            assert "sha256 of what it said: " in told
            assert "its text is gone and cannot be brought back" in told
            entry = said(given, "show", "L-2")
            assert "by decision of Ada: a month is enough" in entry
            assert "`blackboard-mcp post TEXT --key log:one` begins it anew" in entry
            gone = said(given, "query", "--status", "deleted")
            assert [row.split()[0] for row in gone.splitlines()] == ["P-3", "L-2", "L-1"]
            assert "`blackboard-mcp show P-3@1` has what it held" in said(given, "show", "P-3")
