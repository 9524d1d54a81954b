"""`show` tells how old a view is, as text and as JSON, from a folder as from a server."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from blackboard_mcp.server import compose
from blackboard_mcp.server.input.posts import PostFields
from blackboard_mcp.server.settings.server import Settings
from blackboard_mcp.storage.testing.harness import HandClock
from commands import said


async def furnish(folder: Path) -> None:
    settings = Settings(data=folder, embedder="none", synchronous="NORMAL")
    clock = HandClock(datetime.now(UTC) - timedelta(hours=14, minutes=30))
    async with compose.installation(settings, eager_index=False, clock=clock, background=False) as opened:
        await opened.blackboard.post("ana", None, [PostFields(text="the valve was seen")])


def test_a_view_of_a_folder_tells_its_age_as_text_and_as_json(tmp_path: Path) -> None:
    asyncio.run(furnish(tmp_path))
    at = {"BLACKBOARD_DATA": str(tmp_path)}
    assert "Z, 14h ago, ages as of then" in said(at, "show").splitlines()[0]
    facts = json.loads(said(at, "show", "--json"))
    assert "Z, 14h ago, ages as of then" in facts["view"].splitlines()[0]
    smaller = json.loads(said(at, "show", "--json", "--budget", str(facts["tokens"] - 1)))
    assert smaller["tokens"] < facts["tokens"], "the age counts as well"
