"""The repository follows the board: after a restored backup, damage, left locks, and beside another process."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.workspace import Edit
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.workspace import committer, repository
from blackboard_mcp.storage.workspace.committer import Committer, folder_of
from blackboard_mcp.storage.workspace.repository import Repository
from dulwich.repo import Repo
from patience import RUN


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlBoardStore]:
    opened = await SqlBoardStore.open(tmp_path / "board.sqlite3")
    await opened.ensure_board("main", "ann", BoardConfig())
    yield opened
    await opened.close()


async def write(store: SqlBoardStore, path: str, text: str | None, message: str = "") -> None:
    edit = Edit(delete=True) if text is None else Edit(content=text.encode())
    await store.write_artifact("main", "ann", path, edit, message=message)


def commits(folder: Path) -> list[tuple[str, str]]:
    """The commits of a board's repository, the oldest first: ids and first lines."""
    with Repo(str(folder_of(folder, "main"))) as repo:
        entries = repo.get_walker(include=[repo.refs[b"refs/heads/main"]], reverse=True)
        return [(e.commit.id.decode(), e.commit.message.decode().splitlines()[0]) for e in entries]


def tree(folder: Path) -> dict[str, bytes]:
    """The files of the last commit."""
    with Repo(str(folder_of(folder, "main"))) as repo:
        root = repo[repo[repo.refs[b"refs/heads/main"]].tree]  # type: ignore[attr-defined]
        found, rest = {}, [("", root)]
        while rest:
            path, at = rest.pop()
            for entry in at.iteritems():
                name = f"{path}{entry.path.decode()}"
                if entry.mode & 0o40000:
                    rest.append((f"{name}/", repo[entry.sha]))
                else:
                    found[name] = repo[entry.sha].data  # type: ignore[attr-defined]
        return found


async def test_many_objects_of_their_own_are_packed_however_few_came_at_once(
    store: SqlBoardStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository, "_LOOSE", 256)
    keeper = Committer(store, tmp_path)
    objects = folder_of(tmp_path, "main") / "objects"
    for n in range(600):
        await write(store, f"d{n % 7}/a.md", f"text {n}")
        await keeper.update("main")
        if list(objects.glob("pack/*.pack")):
            break
    assert list(objects.glob("pack/*.pack"))
    assert not list(objects.glob("17/*"))
    assert len(commits(tmp_path)) == n + 1


async def test_a_repository_made_anew_has_the_same_commits(store: SqlBoardStore, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    steady = Committer(store, one)
    for n in range(60):
        await write(store, f"d{n % 3}/f{n % 7}.md", f"text {n}", f"Step {n}\n\nRevision: 99\nWritten: never")
        if n % 20 == 3:
            await write(store, f"d{n % 3}/f{n % 7}.md", None)
        if n % 9 == 0:
            await steady.update("main")
    assert await steady.update("main") == await Committer(store, two).update("main")
    assert commits(one) == commits(two)
    assert len(commits(one)) == 63
    assert tree(one) == {
        f"artifacts/{file.path}": (await store.read_artifact("main", file.path)).body
        for file in await store.artifacts("main")
    }


async def test_the_last_file_of_a_folder_takes_the_folder_along(store: SqlBoardStore, tmp_path: Path) -> None:
    await write(store, "a/b/c.md", "x")
    await write(store, "a/b/c.md", None)
    await Committer(store, tmp_path).update("main")
    assert tree(tmp_path) == {}
    await write(store, "a", "x")
    await Committer(store, tmp_path).update("main")
    assert tree(tmp_path) == {"artifacts/a": b"x"}


@pytest.mark.skipif(shutil.which("git") is None, reason="needs Git, to push as others do")
async def test_links_pushed_from_a_clone_reach_neither_the_board_nor_other_folders(
    store: SqlBoardStore, tmp_path: Path
) -> None:
    await write(store, "docs/a.md", "one")
    await write(store, "docs/b.md", "two")
    top, cloned, outside = tmp_path / "top", tmp_path / "clone", tmp_path / "outside"
    head = await Committer(store, top).update("main")
    outside.mkdir()
    (outside / "secret").write_text("secret")

    def git(*words: str, at: Path = cloned) -> int:
        named = ("-c", "user.name=eve", "-c", "user.email=eve@example.org", "-c", "core.symlinks=true")
        done = subprocess.run(["git", "-C", str(at), *named, *words], capture_output=True, timeout=RUN)
        return done.returncode

    assert git("clone", "-q", str(folder_of(top, "main")), str(cloned), at=tmp_path) == 0
    (cloned / "artifacts/docs/a.md").unlink()
    (cloned / "artifacts/docs/a.md").symlink_to(outside / "secret")
    (cloned / "artifacts/out").symlink_to(outside, target_is_directory=True)
    assert git("add", "-A") == git("commit", "-qm", "links") == 0
    assert git("push", "-q", "origin", "HEAD:main") != 0, "pushes are refused"
    assert git("push", "-q", "origin", "HEAD:other") != 0
    # A repository of an older version took them: they are put away, and the files are the board's.
    assert git("config", "--unset", "receive.hideRefs", at=folder_of(top, "main")) == 0
    assert git("push", "-q", "origin", "HEAD:main") == 0
    assert await Committer(store, top).update("main") == head
    assert tree(top) == {"artifacts/docs/a.md": b"one", "artifacts/docs/b.md": b"two"}
    assert [one.path for one in await store.artifacts("main")] == ["docs/a.md", "docs/b.md"]
    assert git("config", "--unset", "receive.hideRefs", at=folder_of(top, "main")) == 0
    assert git("push", "-q", "--force", "origin", "HEAD:main") == 0
    for path in ("out/secret", "docs/a.md", "out/new"):
        await write(store, path, "mine")
    await store.write_artifact("main", "ann", "docs/a.md", Edit(restore=1))
    await Committer(store, top).update("main")
    assert tree(top) == {
        "artifacts/docs/a.md": b"one",
        "artifacts/docs/b.md": b"two",
        "artifacts/out/new": b"mine",
        "artifacts/out/secret": b"mine",
    }
    assert {file.name: file.read_text() for file in outside.iterdir()} == {"secret": "secret"}
    again = tmp_path / "again"
    assert git("clone", "-q", str(folder_of(top, "main")), str(again), at=tmp_path) == 0
    assert [path for path in again.rglob("*") if path.is_symlink()] == []


async def test_a_restored_backup_takes_the_branch_back(store: SqlBoardStore, tmp_path: Path) -> None:
    for n in range(3):
        await write(store, "a.md", str(n))
    await store.backup(tmp_path / "copy.sqlite3")
    await write(store, "a.md", "lost")
    lost = await Committer(store, tmp_path).update("main")
    other = await SqlBoardStore.open(tmp_path / "copy.sqlite3")
    try:
        await write(other, "a.md", "instead")
        await Committer(other, tmp_path).update("main")
    finally:
        await other.close()
    assert len(commits(tmp_path)) == 4
    assert tree(tmp_path) == {"artifacts/a.md": b"instead"}
    with Repo(str(folder_of(tmp_path, "main"))) as repo:
        assert lost.encode() in repo.refs.as_dict(b"refs/former").values()


@pytest.mark.parametrize("broken", ["object", "head", "branch", "all"])
async def test_a_damaged_repository_is_made_anew(store: SqlBoardStore, tmp_path: Path, broken: str) -> None:
    await write(store, "a.md", "one")
    head = await Committer(store, tmp_path).update("main")
    folder = folder_of(tmp_path, "main")
    match broken:
        case "object":
            (folder / "objects" / head[:2] / head[2:]).unlink()
        case "head":
            path = folder / "objects" / head[:2] / head[2:]
            path.chmod(0o600)
            path.write_bytes(b"no object")
        case "branch":
            (folder / "refs/heads/main").write_text("0" * 40)
        case "all":
            shutil.rmtree(folder)
    assert await Committer(store, tmp_path).update("main") == head
    assert tree(tmp_path) == {"artifacts/a.md": b"one"}


@pytest.mark.parametrize("broken", ["index emptied", "index lost", "pack lost"])
async def test_a_damaged_pack_is_made_anew(store: SqlBoardStore, tmp_path: Path, broken: str) -> None:
    await write(store, "a.md", "one\n" * 1_000)
    head = await Committer(store, tmp_path).update("main")
    with Repo(str(folder_of(tmp_path, "main"))) as repo:
        repo.object_store.pack_loose_objects()
    what, how = broken.split()
    (path,) = (folder_of(tmp_path, "main") / "objects/pack").glob("*.idx" if what == "index" else "*.pack")
    path.chmod(0o600)
    match how:
        case "emptied":
            path.write_bytes(b"")
        case "lost":
            path.unlink()
    assert await Committer(store, tmp_path).update("main") == head
    assert tree(tmp_path) == {"artifacts/a.md": b"one\n" * 1_000}


@pytest.mark.parametrize("kind", ["blob", "commit"])
async def test_damage_that_an_update_does_not_meet_is_found_by_a_look_at_the_whole(
    store: SqlBoardStore, tmp_path: Path, kind: str
) -> None:
    await write(store, "a.md", "one")
    first = await Committer(store, tmp_path).update("main")
    await write(store, "b.md", "two")
    last = await Committer(store, tmp_path).update("main")
    id_ = first if kind == "commit" else (await store.read_artifact("main", "a.md")).revision.blob
    path = folder_of(tmp_path, "main") / "objects" / id_[:2] / id_[2:]
    path.chmod(0o600)
    path.write_bytes(b"")
    assert await Committer(store, tmp_path).update("main", whole=True) == last
    assert tree(tmp_path) == {"artifacts/a.md": b"one", "artifacts/b.md": b"two"}
    assert len(commits(tmp_path)) == 2


async def test_locks_that_a_killed_process_left_are_removed(
    store: SqlBoardStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "_STALE", 0.0)
    await write(store, "a.md", "one")
    folder = folder_of(tmp_path, "main")
    await Committer(store, tmp_path).update("main")
    await write(store, "a.md", "two")
    revision = (await store.artifact_history("main"))[0]
    for lock in (
        folder / "refs/heads/main.lock",
        folder / "objects" / revision.blob[:2] / f"{revision.blob[2:]}.lock",
    ):
        lock.parent.mkdir(exist_ok=True)
        lock.touch()
    await Committer(store, tmp_path).update("main")
    assert tree(tmp_path) == {"artifacts/a.md": b"two"}


async def test_committers_side_by_side_write_each_revision_once(store: SqlBoardStore, tmp_path: Path) -> None:
    many = [Committer(store, tmp_path) for _ in range(4)]

    async def work(one: Committer, n: int) -> None:
        for step in range(8):
            await write(store, f"{n}.md", str(step), f"{n} {step}")
            await one.update("main")

    await asyncio.gather(*(work(one, n) for n, one in enumerate(many)))
    assert [said for _, said in commits(tmp_path)] == [
        revision.message for revision in reversed(await store.artifact_history("main", "", 0, 100))
    ]
    assert len(commits(tmp_path)) == 32


@pytest.mark.parametrize("before", [0, 1])
async def test_a_commit_by_another_between_two_looks_is_no_damage_and_stays(
    store: SqlBoardStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    one, two, loop = Committer(store, tmp_path), Committer(store, tmp_path), asyncio.get_running_loop()
    for n in range(before):
        await write(store, "a.md", str(n), f"before {n}")
        await one.update("main")
    await write(store, "a.md", "now", "now")
    honest, others = Repository.last, [two]

    def last(self: Repository) -> Any:
        found = honest(self)
        if others:
            asyncio.run_coroutine_threadsafe(others.pop().update("main"), loop).result()
        return found

    monkeypatch.setattr(Repository, "last", last)
    await one.update("main")
    assert [said for _, said in commits(tmp_path)] == [*(f"before {n}" for n in range(before)), "now"]
    folder = folder_of(tmp_path, "main")
    assert not folder.with_suffix(".damaged").exists()
    with Repo(str(folder)) as repo:
        assert not repo.refs.keys(base=b"refs/former")  # type: ignore[arg-type]


async def test_the_history_stands_beside_the_files(store: SqlBoardStore, tmp_path: Path) -> None:
    await write(store, "a.md", "one")

    async def lines() -> AsyncIterator[bytes]:
        for line in (b'{"seq": 1}\n', b'{"seq": 2}\n'):
            yield line

    await Committer(store, tmp_path).update("main", lines)
    assert tree(tmp_path) == {"artifacts/a.md": b"one", "history.jsonl": b'{"seq": 1}\n{"seq": 2}\n'}
    head = await Committer(store, tmp_path).update("main", lines)
    await write(store, "b.md", "two")
    await Committer(store, tmp_path).update("main")
    assert tree(tmp_path).keys() == {"artifacts/a.md", "artifacts/b.md", "history.jsonl"}
    assert [id_ for id_, _ in commits(tmp_path)][-2] == head


def test_boards_that_differ_in_case_only_have_their_own_folders(tmp_path: Path) -> None:
    assert len({folder_of(tmp_path, name).name.lower() for name in ("main", "Main", "MAIN", "mAin")}) == 4
