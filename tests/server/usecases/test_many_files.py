"""A board with as many files as one may have: what is asked of the store stays bounded."""

from __future__ import annotations

import sqlite3
import zlib
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import boards
import pytest
from blackboard_mcp.protocols.workspace import MAX_FILES, MAX_PAGE, fold
from blackboard_mcp.server.usecases.workspace import MAX_LISTED

SETS = ("core", "workspace")
FOLDERS = 100


def furnish(path: Path) -> None:
    """Writes the files into a database, beside those that are there, in one transaction."""
    with closing(sqlite3.connect(path)) as database, database:
        ((board, last),) = database.execute(
            "SELECT board, max(revision) FROM artifact_revision GROUP BY board"
        )
        rows = []
        for n in range(last, MAX_FILES):
            name, text = f"d{n % FOLDERS:02}/f{n:05}.md", f"file {n} tells of word{n}\n".encode()
            packed = zlib.compress(text)
            rows.append(
                (
                    board,
                    n + 1,
                    name,
                    fold(name),
                    "written",
                    0,
                    len(text),
                    1,
                    f"{n:040x}",
                    "ann",
                    "",
                    0,
                    packed,
                )
            )
        database.executemany(
            "INSERT INTO artifact_revision VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows
        )
    database.close()


class Counted:
    """Counts the calls of a store."""

    def __init__(self, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: Counter[str] = Counter()
        for name in ("artifacts", "read_artifact", "artifact_log", "artifact_history"):
            monkeypatch.setattr(store, name, self._counting(name, getattr(store, name)), raising=False)

    def _counting(self, name: str, call: Any) -> Any:
        async def counted(*given: Any, **more: Any) -> Any:
            self.calls[name] += 1
            return await call(*given, **more)

        return counted

    def taken(self) -> dict[str, int]:
        """Returns the calls since the last time."""
        calls, self.calls = dict(self.calls), Counter()
        return calls


async def test_20000_files_are_listed_and_searched_in_bounded_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with boards.open_boards(tmp_path, boards.MODERN, tools=SETS) as board:
        ann = await board.join("ann")
        await ann.do("artifact_write", path="d00/f00000.md", content="file 0 tells of word0\n")
        furnish(tmp_path / "board.sqlite3")
        counted = Counted(board.opened.store, monkeypatch)
        pages = MAX_FILES // MAX_PAGE + 1

        listed = await ann.do("artifact_list", depth=20)
        assert (len(listed["files"]), bool(listed["next"])) == (MAX_LISTED, True)
        assert counted.taken() == {"artifacts": pages}
        assert len((await ann.do("artifact_list"))["folders"]) == FOLDERS
        assert counted.taken() == {"artifacts": pages}
        assert len((await ann.do("artifact_list", path="d07"))["files"]) == MAX_FILES // FOLDERS
        assert counted.taken() == {"artifacts": 1}, "of a folder nothing else is asked"

        found = await ann.do("artifact_search", text="word12345")
        assert (found["files"], found["hits"][0]["path"]) == (MAX_FILES, "d45/f12345.md")
        first = counted.taken()
        assert first.pop("read_artifact") == MAX_FILES, "each once"
        assert sum(first.values()) <= pages + 2
        found = await ann.do("artifact_search", text="word54 word777")
        assert [hit["path"] for hit in found["hits"]] == ["d54/f00054.md", "d77/f00777.md"]
        assert counted.taken() == {"artifact_log": 1}, "what is unchanged is not read again"
        refused = await ann.fail("artifact_write", path="one/more.md", content="x")
        assert (
            f"has {MAX_FILES:,} files, and {MAX_FILES:,} is the limit. Nothing was changed"
            in refused["message"]
        )
        await ann.do("artifact_write", path="d54/f00054.md", content="word777 as well\n")
        counted.taken()
        found = await ann.do("artifact_search", text="word777")
        assert {hit["path"] for hit in found["hits"]} == {"d54/f00054.md", "d77/f00777.md"}
        assert counted.taken() == {"artifact_log": 2}, "and of what changed, the change alone"
