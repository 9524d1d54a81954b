"""One look at a log goes through a bounded number of events, however many of them others keep to themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
from blackboard_mcp.server.compose import installation
from blackboard_mcp.server.input.posts import PostFields
from blackboard_mcp.server.settings.server import Settings
from blackboard_mcp.storage.operations.reading import items


async def test_what_lies_beyond_the_reach_of_one_look_is_found_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items, "_REACH", 10)
    async with installation(Settings(data=tmp_path), eager_index=False, background=False) as opened:
        board = opened.blackboard
        for count, visibility in ((25, "private"), (2, "board"), (12, "private")):
            posts = [PostFields(text=f"Note {n} of {count}.", visibility=visibility) for n in range(count)]
            await board.post("alice", None, posts)
        end = await board.following.place("main", None)
        place = 0
        looks: list[int] = []
        seen: list[int] = []
        while place < end:
            news = await board.following.changes_since("bob", None, place, 200)
            assert news.cursor > place
            place = news.cursor
            looks.append(place)
            seen += [event.number for event in news.events if event.number]
        assert looks == [10, 20, 30, 40]
        assert seen == [26, 27]
        # Who looks once has all.
        log = await board.store.log("main", "bob", 0, 200)
        assert [event.number for event in log.events if event.number] == seen
        assert not log.more
