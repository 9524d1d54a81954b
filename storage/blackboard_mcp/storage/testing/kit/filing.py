"""Tests of the files of a board: writes, conflicts, reservations, paths, and revisions that stay."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from blackboard_mcp.protocols.board import BoardChange, Lifecycle
from blackboard_mcp.protocols.errors import (
    BlackboardError,
    Conflict,
    InvalidInput,
    QuotaExceeded,
    Refused,
    UnknownReference,
)
from blackboard_mcp.protocols.workspace import MAX_FILE, Edit, Written, fold

from ..harness import HandClock, Table

HOSTILE = (
    *(
        "..",
        "../x",
        "a/../b",
        "/etc/passwd",
        "a//b",
        "a/",
        "",
        ".",
        "./a",
        "a/./b",
        "~/../x/..",
        "C:/x",
        "a\\b",
    ),
    *(
        ".git",
        "a/.GIT/config",
        ".git ",
        "git~1",
        ".gıt/x" if fold(".gıt") == ".git" else ".git/x",
        "ﬁle/.ｇｉｔ",
    ),
    *("con", "aux.txt", "COM1", "lpt9.md", "nul", "prn.tar.gz", "CONIN$"),
    *("a\0b", "a\nb", "a\x1bb", "a\u200bb", "a\u202eb", "a\ud800b", "a:b", "a*b", "a|b", 'a"b', "a?b", "<a>"),
    *("x" * 201, "x" * 300, "/".join("abcdefghijklmnopqrstu"), "a ", "a.", " a", "a. /b", "é" * 101),
)


async def write(at: Table, agent: str, path: str, text: str | None = None, **more: Any) -> Written:
    """Writes a file on a board that exists."""
    await at.configure()
    given = {name: more.pop(name) for name in ("expected", "lease", "message", "once") if name in more}
    edit = Edit(content=None if text is None else text.encode(), **more)
    return await at.store.write_artifact(at.board, agent, path, edit, **given)


async def content(at: Table, path: str, revision: int = 0) -> bytes:
    """Returns a file's content."""
    return (await at.store.read_artifact(at.board, path, revision)).body


def _edited(edit: Edit, was: bytes, path: str, former: dict[tuple[str, int], bytes]) -> bytes:
    """Returns the content after an edit, by the plainest code."""
    if edit.append is not None:
        return was + edit.append
    if edit.replace is not None:
        return was.replace(*edit.replace)
    if edit.restore is not None:
        return former[path, max(n for name, n in former if name == path and n <= edit.restore)]
    return edit.content or b""


class WorkspaceTests:
    """Tests of files."""

    async def test_every_write_is_a_revision_that_stays_readable(self, at: Table) -> None:
        first = await write(at, "alice", "docs/a.md", "one\ntwo", message="begin")
        assert (first.revision.number, first.revision.lines, first.revision.size) == (1, 2, 7)
        assert (first.former, first.changed, first.revision.message) == (None, True, "begin")
        await write(at, "bob", "b.bin", None, append=b"\0\1")
        third = await write(at, "bob", "docs/a.md", None, append=b"\nthree\n")
        assert third.former == first.revision
        assert (third.revision.before, third.revision.lines) == (1, 3)
        same = await write(at, "bob", "docs/a.md", "one\ntwo\nthree\n")
        assert (same.changed, same.revision.number) == (False, 3)
        fourth = await write(at, "carol", "docs/a.md", None, replace=(b"two", b"2"), expected=3)
        assert await content(at, "docs/a.md") == b"one\n2\nthree\n"
        assert [await content(at, "docs/a.md", n) for n in (1, 2, 3)] == [
            *([b"one\ntwo"] * 2),
            b"one\ntwo\nthree\n",
        ]
        assert (await at.store.read_artifact(at.board, "b.bin")).revision.lines is None
        history = await at.store.artifact_history(at.board, "docs/a.md")
        assert [one.number for one in history] == [4, 3, 1]
        assert history[0] == fourth.revision
        assert [one.number for one in await at.store.artifact_history(at.board, "docs")] == [4, 3, 1]
        assert [one.number for one in await at.store.artifact_history(at.board, "", 4, 2)] == [3, 2]
        events = [event for event in await at.events() if event.event == "artifact.written"]
        assert [(e.agent, e.data["revision"], e.data["path"]) for e in events] == [
            *(
                ("alice", 1, "docs/a.md"),
                ("bob", 2, "b.bin"),
                ("bob", 3, "docs/a.md"),
                ("carol", 4, "docs/a.md"),
            )
        ]

    async def test_a_deleted_file_comes_back(self, at: Table) -> None:
        await write(at, "alice", "a.md", "one")
        await write(at, "alice", "a.md", "two")
        gone = await write(at, "bob", "a.md", delete=True, expected=2)
        assert (gone.revision.op, gone.revision.size, gone.revision.blob) == ("deleted", 0, "")
        assert await at.store.artifacts(at.board) == ()
        with pytest.raises(UnknownReference, match="revision 3 by bob deleted it"):
            await content(at, "a.md")
        with pytest.raises(UnknownReference, match=r"no file a\.md"):
            await write(at, "bob", "a.md", delete=True)
        with pytest.raises(UnknownReference, match=r"no file a\.md"):
            await write(at, "bob", "a.md", restore=3)
        back = await write(at, "carol", "a.md", restore=1)
        assert (back.revision.op, back.revision.before, back.former) == ("restored", 3, None)
        assert await content(at, "a.md") == b"one"
        with pytest.raises(UnknownReference, match=r"no file b\.md at revision 4"):
            await write(at, "carol", "b.md", restore=4)

    async def test_a_write_on_another_revision_is_a_conflict(self, at: Table) -> None:
        await write(at, "alice", "a.md", "one", expected=0)
        for expected in (0, 2, 7):
            with pytest.raises(Conflict, match=r"a\.md is at revision 1, by alice") as caught:
                await write(at, "bob", "a.md", "two", expected=expected)
            assert caught.value.facts["current_version"] == 1
        with pytest.raises(Conflict, match=r"There is no file b\.md now"):
            await write(at, "bob", "b.md", "two", expected=1)
        assert (await write(at, "bob", "a.md", "two", expected=1)).revision.number == 2

    async def test_I24_a_refused_write_changes_nothing(self, at: Table) -> None:
        await write(at, "alice", "a.md", "one one\n")
        before = (await at.standing(), await at.events())
        for replace, why in (
            ((b"", b"x"), "needs old"),
            ((b"two", b"x"), "does not stand in a.md\\."),
            ((b"ONE", b"x"), "only in other case"),
            ((b"one", b"x"), "2 times, in lines 1, 1"),
        ):
            with pytest.raises(InvalidInput, match=why):
                await write(at, "bob", "a.md", replace=replace)
        with pytest.raises(QuotaExceeded, match="the limit of a file"):
            await write(at, "bob", "a.md", append=b"x" * MAX_FILE)
        with pytest.raises(InvalidInput, match="message"):
            await write(at, "bob", "a.md", "x", message="x" * 501)
        with pytest.raises(UnknownReference, match=r"There is no file b\.md"):
            await write(at, "bob", "b.md", replace=(b"a", b"b"))
        assert (await at.standing(), await at.events()) == before
        every = await write(at, "bob", "a.md", replace=(b"one", b"2"), every=True)
        assert await content(at, every.revision.path) == b"2 2\n"

    @pytest.mark.parametrize("bound", ["owner_bytes", "board_bytes"])
    async def test_a_file_beyond_the_bound_on_bytes_is_refused_whole(self, at: Table, bound: str) -> None:
        await write(at, "alice", "a.md", "one")
        each = (await at.store.statistics(at.board, "alice")).stored_bytes
        assert each > 1_000, "each revision counts as a thousand bytes and its content"
        await at.configure(**{bound: 3 * each})
        for text in ("two", "six"):
            await at.store.write_artifact(at.board, "alice", f"{text}.md", Edit(content=text.encode()))
        before = (await at.standing(), await at.events(), await at.store.artifact_history(at.board))
        for path, edit in (
            ("new/b.md", Edit(content=b"x")),
            ("a.md", Edit(append=b"x")),
            ("a.md", Edit(replace=(b"one", b"x"))),
            ("two.md", Edit(content=b"three")),
        ):
            with pytest.raises(QuotaExceeded, match=f"board setting {bound}.*Nothing was changed"):
                await at.store.write_artifact(at.board, "alice", path, edit)
        assert (await at.standing(), await at.events(), await at.store.artifact_history(at.board)) == before
        assert [one.path for one in await at.store.artifacts(at.board)] == ["a.md", "six.md", "two.md"]
        assert await content(at, "a.md") == b"one"
        with pytest.raises(UnknownReference):
            await content(at, "new/b.md")
        await at.configure(**{bound: 0})
        await at.store.write_artifact(at.board, "alice", "new/b.md", Edit(content=b"x"))
        assert await content(at, "new/b.md") == b"x"

    async def test_replace_knows_both_line_ends(self, at: Table) -> None:
        await write(at, "alice", "a.txt", "one\r\ntwo\r\n")
        await write(at, "alice", "a.txt", replace=(b"one\ntwo", b"1\n2"))
        assert await content(at, "a.txt") == b"1\r\n2\r\n"
        await write(at, "alice", "a.txt", replace=(b"1\n2", b"1\r\n2\n3"))
        assert await content(at, "a.txt") == b"1\r\n2\r\n3\r\n"
        await write(at, "alice", "b.bin", append=b"\0one")
        with pytest.raises(InvalidInput, match="is not text"):
            await write(at, "alice", "b.bin", replace=(b"one", b"two"))

    @pytest.mark.parametrize("path", HOSTILE)
    async def test_I39_no_path_escapes(self, at: Table, path: str) -> None:
        with pytest.raises(InvalidInput, match="of the workspace"):
            await write(at, "mallory", path, "x")
        with pytest.raises(InvalidInput, match="of the workspace"):
            await at.store.read_artifact(at.board, path)
        assert await at.store.artifact_history(at.board) == ()

    async def test_paths_are_told_apart_as_every_file_system_does(self, at: Table) -> None:
        await write(at, "alice", "docs/a.md", "one")
        await write(at, "alice", "straße/é.md", "one")
        for path, why in (
            ("docs/A.md", "spelt so"),
            ("Docs/b.md", "The folder is spelt docs. Nothing was changed; write docs/b.md"),
            ("docs", "The path docs is a folder"),
            ("DOCS", "The path docs is a folder"),
            ("docs/a.md/x", "docs/a.md is a file"),
            ("docs/A.MD/x", "docs/a.md is a file"),
            ("STRASSE/b.md", "The folder is spelt straße"),
        ):
            with pytest.raises(Refused, match=why):
                await write(at, "bob", path, "two")
        assert await content(at, "straße/e\u0301.md") == b"one"
        await write(at, "bob", "docs/a.md", delete=True)
        assert (await write(at, "bob", "Docs/A.md", "two")).revision.path == "Docs/A.md"
        with pytest.raises(Refused, match="The folder is spelt Docs"):
            await write(at, "bob", "docs/a.md", restore=1)

    async def test_I28_nobody_writes_what_another_reserved(self, at: Table, clock: HandClock) -> None:
        await write(at, "alice", "src/a.py", "one")
        taken = await at.store.take_task(at.board, "alice", paths=["file:src/**"], seconds=60.0)
        assert taken is not None
        for path in ("src/a.py", "src/deep/b.py"):
            with pytest.raises(Conflict, match=r"alice has reserved file:src/\*\*"):
                await write(at, "bob", path, "two")
        assert (await write(at, "bob", "srcs/a.py", "two")).changed
        assert (await write(at, "alice", "src/a.py", "two", lease=taken.lease)).changed
        with pytest.raises(Conflict, match="is not yours"):
            await write(at, "bob", "other.py", "two", lease=taken.lease)
        clock.advance(61.0)
        assert (await write(at, "bob", "src/a.py", "three")).changed
        with pytest.raises(Conflict, match="has ended"):
            await write(at, "alice", "src/a.py", "four", lease=taken.lease)

    async def test_a_closed_board_takes_no_files(self, at: Table) -> None:
        await write(at, "alice", "a.md", "one")
        await at.store.change_board(at.board, "alice", BoardChange(lifecycle=Lifecycle.CLOSED))
        with pytest.raises(Refused, match="takes no posts"):
            await write(at, "alice", "a.md", "two")
        assert await content(at, "a.md") == b"one"

    async def test_files_are_listed_by_path(self, at: Table) -> None:
        paths = ["b.md", "a/x.md", "a/b/y.md", "a-b.md", "a/z.md", "ab/q.md"]
        for path in paths:
            await write(at, "alice", path, path)
        assert [one.path for one in await at.store.artifacts(at.board)] == sorted(paths)
        assert [one.path for one in await at.store.artifacts(at.board, "a")] == [
            "a/b/y.md",
            "a/x.md",
            "a/z.md",
        ]
        assert [one.path for one in await at.store.artifacts(at.board, "a", "a/b/y.md", 1)] == ["a/x.md"]
        assert await at.store.boards_with_artifacts() == (at.board,)

    async def test_writers_at_once_lose_nothing(self, at: Table) -> None:
        await write(at, "alice", "log.txt", "")
        lines = [f"{agent} {n}\n" for agent in ("alice", "bob", "carol", "dan") for n in range(10)]
        await asyncio.gather(
            *(write(at, line.split()[0], "log.txt", None, append=line.encode()) for line in lines)
        )
        text = (await content(at, "log.txt")).decode()
        assert sorted(text.splitlines(keepends=True)) == sorted(lines)
        assert (await at.store.read_artifact(at.board, "log.txt")).revision.number == 41

    async def test_I39_files_are_the_fold_of_their_revisions(self, at: Table) -> None:
        chance = random.Random(39)
        paths = ["a.md", "b/c.md", "b/d.md", "b/c/e.md", "B/c.md", "f.md"]
        files: dict[str, tuple[int, bytes]] = {}
        former: dict[tuple[str, int], bytes] = {}
        last = 0
        for n in range(150):
            path, agent = chance.choice(paths), chance.choice(("alice", "bob"))
            edit = chance.choice(
                [
                    Edit(content=f"{n}\n".encode()),
                    Edit(append=f"{n}\n".encode()),
                    Edit(replace=(b"1", b"one"), every=chance.random() < 0.5),
                    Edit(delete=True),
                    Edit(restore=chance.randint(1, n + 1)),
                ]
            )
            expected = chance.choice([None, None, files.get(path, (0, b""))[0], chance.randint(0, last + 1)])
            await at.configure()
            try:
                done = await at.store.write_artifact(at.board, agent, path, edit, expected=expected)
            except BlackboardError:
                pass
            else:
                assert expected in (None, files.get(path, (0, b""))[0])
                if not done.changed:
                    assert files[path][0] == done.revision.number
                    continue
                last += 1
                assert done.revision.number == last
                assert done.revision.before == max((r for p, r in former if p == path), default=0)
                was = files.pop(path, (0, b""))[1]
                new = _edited(edit, was, path, former)
                if done.revision.op != "deleted":
                    files[path] = (last, new)
                former[path, last] = new
            found = {one.path: one for one in await at.store.artifacts(at.board)}
            assert found.keys() == files.keys()
            assert len({fold(one) for one in found}) == len(found)
        for path, (revision, body) in files.items():
            read = await at.store.read_artifact(at.board, path)
            assert (read.revision.number, read.body) == (revision, body)
        log = [one for n in range(0, last, 40) for one in await at.store.artifact_log(at.board, n, 40)]
        assert [one.revision.number for one in log] == list(range(1, last + 1))
        assert [one.body for one in log] == [former[one.revision.path, one.revision.number] for one in log]
        assert last > 40
