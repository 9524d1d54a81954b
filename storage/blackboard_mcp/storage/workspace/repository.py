"""A bare Git repository with a commit for each revision of a board's files.

It is written as objects alone: there is no index and no working tree. A commit depends on nothing but the revisions up
to its own, so two processes that write the same ones write the same objects, and a repository that is lost or damaged
is made anew with the same ids.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from blackboard_mcp.protocols.workspace import ArtifactContent, Revision
from dulwich.objects import Blob, Commit, ObjectID, ShaFile, Tree
from dulwich.refs import Ref
from dulwich.repo import Repo

TOP: Final = "artifacts"
"""The folder of the repository with the files of the board."""
HISTORY: Final = "history.jsonl"
_HISTORY_WRITTEN: Final = b"Write the history of the board\n"
_BRANCH: Final = Ref(b"refs/heads/main")
_SERVER: Final = b"blackboard <blackboard@blackboard.invalid>"
_REVISION: Final = b"Revision: "
_WRITTEN: Final = b"Written: "
_FILE: Final = stat.S_IFREG | 0o644
_LOOSE: Final = 2_000
"""So many objects of their own are put together into one pack."""


class Moved(Exception):
    """Another process moved the branch meanwhile."""


class Repository:
    """The repository of one board, which is made if it does not exist. It is closed by `close`."""

    def __init__(self, folder: Path) -> None:
        if not (folder / "HEAD").exists():
            _make(folder)
        self._repo = Repo(str(folder))
        self._folder = folder
        _refuse_pushes(self._repo)

    def close(self) -> None:
        """Closes the files of the repository."""
        self._repo.close()

    def last(self) -> tuple[ObjectID | None, ObjectID | None, tuple[int, str] | None]:
        """Returns the end of the branch, the last commit of the server's on it, and the number and instant of the last
        revision up to that.

        Raises:
            KeyError: an object is missing.
        """
        end, own = self._head(), None
        at = end
        while at is not None:
            commit = self._commit(at)
            found = _trailers(commit)
            if own is None and (found is not None or commit.author == _SERVER):
                own = at
            if found is not None:
                return end, own, found
            at = commit.parents[0] if commit.parents else None
        return end, own, None

    def head(self) -> str:
        """Returns the id of the last commit; empty if there is none."""
        found = self._head()
        return "" if found is None else found.decode()

    def marks(self) -> dict[tuple[int, str], ObjectID]:
        """Returns the commits of the branch by number and instant of their revisions."""
        found: dict[tuple[int, str], ObjectID] = {}
        at = self._head()
        while at is not None:
            commit = self._commit(at)
            if (mark := _trailers(commit)) is not None:
                found[mark] = at
            at = commit.parents[0] if commit.parents else None
        return found

    def check(self) -> None:
        """Reads every object that the branch leads to.

        Raises:
            ValueError: one is damaged.
            KeyError: one is missing.
        """
        seen: set[ObjectID] = set()
        left = [] if (end := self._head()) is None else [end]
        while left:
            id_ = left.pop()
            if id_ in seen:
                continue
            seen.add(id_)
            number, raw = self._repo.object_store.get_raw(id_)
            found = ShaFile.from_raw_string(number, raw)
            if found.id != id_:
                raise ValueError(id_)
            if isinstance(found, Commit):
                left += [found.tree, *found.parents]
            elif isinstance(found, Tree):
                left += [entry.sha for entry in found.iteritems()]

    def go_back(self, was: ObjectID | None, to: ObjectID) -> None:
        """Moves the branch from its end back to a commit; what came after it stays under `refs/former/`.

        Raises:
            Moved: the branch does not end in `was` any more; it was not moved.
        """
        if was is not None:
            self._repo.refs[Ref(b"refs/former/" + was[:12])] = was
        self._move(was, to)

    def append(self, on: ObjectID | None, contents: Sequence[ArtifactContent]) -> ObjectID | None:
        """Adds a commit for each of the revisions after the commit `on`, moves the branch, and returns the last commit.

        Raises:
            Moved: the branch does not end in `on` any more; it was not moved.
        """
        head = on
        root = self._tree(self._commit(head).tree) if head is not None else Tree()
        trees: dict[bytes, Tree] = {}
        for content in contents:
            root = self._with(root, content, trees)
            head = self._add_commit(root, head, content.revision)
        if head is not None and head != on:
            self._move(on, head)
        return head

    def put_history(self, lines: bytes) -> None:
        """Adds a commit with the history of the board beside its files, if it changed.

        Raises:
            Moved: another process moved the branch meanwhile; nothing was moved.
        """
        was = self._head()
        root = self._tree(self._commit(was).tree) if was is not None else Tree()
        blob = Blob.from_string(lines)
        name = HISTORY.encode()
        if name in root and root[name][1] == blob.id:
            return
        self._repo.object_store.add_object(blob)
        root.add(name, _FILE, blob.id)
        self._repo.object_store.add_object(root)
        at = self._commit(was).commit_time if was is not None else 0
        self._move(was, self._write_commit(root, was, _SERVER, at, _HISTORY_WRITTEN))

    @property
    def has_history(self) -> bool:
        """Tells whether the history of the board was ever written beside its files."""
        walker = self._repo.get_walker() if self._head() is not None else ()
        return any(entry.commit.message == _HISTORY_WRITTEN for entry in walker)

    def pack(self) -> None:
        """Puts many objects of their own into one pack."""
        # They lie in 256 folders by their hashes, so one of these tells how many there are, as for `git gc --auto`.
        some = self._folder / "objects" / "17"
        if some.is_dir() and len(os.listdir(some)) * 256 >= _LOOSE:
            self._repo.object_store.pack_loose_objects()

    def _head(self) -> ObjectID | None:
        try:
            return self._repo.refs[_BRANCH]
        except KeyError:
            return None

    def _commit(self, id_: ObjectID) -> Commit:
        found = self._repo.object_store[id_]
        if not isinstance(found, Commit):
            raise KeyError(id_)
        return found

    def _tree(self, id_: ObjectID) -> Tree:
        found = self._repo.object_store[id_]
        if not isinstance(found, Tree):
            raise KeyError(id_)
        return found

    def _with(self, root: Tree, content: ArtifactContent, trees: dict[bytes, Tree]) -> Tree:
        """Returns the tree of the repository after a revision."""
        names = [name.encode() for name in (TOP, *content.revision.path.split("/"))]
        chain = [root]
        for name in names[:-1]:
            there = chain[-1]
            known = there[name][1] if name in there else None
            if known is None:
                chain.append(Tree())
            else:
                chain.append(trees.get(known) or self._tree(known))
        blob: Blob | None = None
        if content.revision.op != "deleted":
            blob = Blob.from_string(content.body)
            if blob.id not in self._repo.object_store:
                self._repo.object_store.add_object(blob)
        below: Tree | Blob | None = blob
        for name, tree in zip(reversed(names), reversed(chain), strict=True):
            changed = _copy(tree)
            if below is None or (isinstance(below, Tree) and not len(below)):
                if name in changed:
                    del changed[name]
            else:
                changed.add(name, stat.S_IFDIR if isinstance(below, Tree) else _FILE, below.id)
            if len(changed):
                self._repo.object_store.add_object(changed)
                trees[changed.id] = changed
            below = changed
        assert isinstance(below, Tree)
        if not len(below):
            self._repo.object_store.add_object(below)
        return below

    def _add_commit(self, root: Tree, parent: ObjectID | None, revision: Revision) -> ObjectID:
        agent = revision.agent.encode()
        address = agent if b"@" in agent else agent + b"@blackboard.invalid"
        said = revision.message or f"{revision.op.capitalize()} {revision.path}"
        lines = (
            *(said.encode(), b"", _REVISION + str(revision.number).encode()),
            *(_WRITTEN + _instant(revision), b""),
        )
        author = agent + b" <" + address + b">"
        return self._write_commit(root, parent, author, int(revision.at.timestamp()), b"\n".join(lines))

    def _write_commit(
        self, root: Tree, parent: ObjectID | None, author: bytes, at: int, message: bytes
    ) -> ObjectID:
        commit = Commit()
        commit.tree = root.id
        commit.parents = [] if parent is None else [parent]
        commit.author = commit.committer = author
        commit.author_time = commit.commit_time = at
        commit.author_timezone = commit.commit_timezone = 0
        commit.encoding = b"UTF-8"
        commit.message = message
        self._repo.object_store.add_object(commit)
        return commit.id

    def _move(self, was: ObjectID | None, to: ObjectID) -> None:
        moved = (
            self._repo.refs.add_if_new(_BRANCH, to)
            if was is None
            else self._repo.refs.set_if_equals(_BRANCH, was, to)
        )
        if not moved:
            raise Moved


def _make(folder: Path) -> None:
    """Makes an empty repository at once, whoever else makes it."""
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with TemporaryDirectory(dir=folder.parent, prefix="new-", ignore_cleanup_errors=True) as beside:
        Repo.init_bare(beside, default_branch=b"main").close()
        with contextlib.suppress(OSError):  # another process made it meanwhile
            Path(beside).rename(folder)


def _refuse_pushes(repo: Repo) -> None:
    """Has Git refuse whatever is pushed, as links that lead out of a clone: the files are the board's."""
    config = repo.get_config()
    with contextlib.suppress(KeyError):
        if config.get((b"receive",), b"hideRefs") == b"refs":
            return
    config.set((b"receive",), b"hideRefs", b"refs")
    config.write_to_path()


def _copy(tree: Tree) -> Tree:
    copied = Tree()
    for entry in tree.iteritems():
        copied.add(entry.path, entry.mode, entry.sha)
    return copied


def _instant(revision: Revision) -> bytes:
    return revision.at.astimezone(UTC).isoformat(timespec="microseconds").encode()


def stamp(revision: Revision) -> tuple[int, str]:
    """Returns the number and the instant of a revision as its commit names them."""
    return revision.number, _instant(revision).decode()


def _trailers(commit: Commit) -> tuple[int, str] | None:
    """Returns the number and the instant of a commit's revision; `None` for a commit without one."""
    lines = commit.message.rstrip(b"\n").rsplit(b"\n", 2)[-2:]
    if len(lines) != 2 or not lines[0].startswith(_REVISION) or not lines[1].startswith(_WRITTEN):
        return None
    if commit.author == _SERVER:
        return None
    number = lines[0][len(_REVISION) :]
    return (int(number), lines[1][len(_WRITTEN) :].decode()) if number.isdigit() else None
