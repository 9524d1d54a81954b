"""The files of a board: agents write, read, list and restore them, and see how they came to be.

Every method takes the agent's authenticated name and a board id. Nothing here knows MCP, HTTP or SQL.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from blackboard_mcp.protocols.answers import Attention
from blackboard_mcp.protocols.errors import InvalidInput, UnknownReference
from blackboard_mcp.protocols.rules import Rule, RuleBook
from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.protocols.workspace import (
    MAX_FILE,
    MAX_PAGE,
    MAX_PATH,
    ArtifactContent,
    Edit,
    Revision,
    Written,
    check_path,
    file_glob,
)
from blackboard_mcp.storage.operations.agenda.reservations import overlap

from ..input.idempotency import once_of
from ..input.posts import check_agent, check_text
from ..limits.turns import in_thread
from .blackboard import Blackboard
from .file_checks import FileChecks, Look, is_own

if TYPE_CHECKING:
    from blackboard_mcp.storage.workspace.search import ArtifactHit, ArtifactIndex, Outline

    from .checks import Checks, CheckState

OUTPUT: Final = "check:"
"""What the path begins with by which agents read the whole output of a check; no file has such a path."""
MAX_LISTED: Final = 200
"""Most files and folders in one answer."""
MAX_OUTLINED: Final = 60
"""Most files in one outline."""
_DIFF_LINES: Final = 3_000
"""Most lines that are compared with each other after what both have in common at beginning and end."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder whose files are not listed one by one: how many there are in it and below, and their bytes."""

    path: str
    files: int
    size: int


@dataclass(frozen=True, slots=True)
class Listing:
    """Files and folders in the order of their paths; `after` continues a listing that did not end, else it is empty."""

    entries: tuple[Revision | Folder, ...]
    after: str


@dataclass(frozen=True, slots=True)
class Known:
    """What every answer about files tells besides: rules and checks for the path, and what waits for the agent.

    `looked` is of a write alone: what is wrong with the files now.
    """

    rules: RuleBook
    seq: int
    attention: Attention
    checks: tuple[CheckState, ...] = ()
    looked: Look = Look()


class Workspace:
    """Use cases for files.

    `written` is called with the board after each write. The syntax of files of the kinds in `syntax` is checked.
    """

    def __init__(
        self,
        board: Blackboard,
        written: Callable[[str], None] = lambda board: None,
        syntax: Sequence[str] = (),
        checks: Checks | None = None,
    ) -> None:
        self._board = board
        self._written = written
        self._checks = checks
        self._files = FileChecks(board, syntax)
        self._index: ArtifactIndex | None = None

    async def write(
        self,
        agent: str,
        board: str | None,
        path: str,
        edit: Edit,
        *,
        expected: int | None = None,
        lease: int | None = None,
        message: str = "",
        once_key: str | None = None,
    ) -> tuple[Written, Known]:
        """Writes, deletes or restores a file, and looks at it as it is then.

        Errors are those of `WorkspaceStore.write_artifact`.
        """
        check_agent(agent)
        path = check_path(path)
        check_text(message)
        given = [edit.content, edit.append, edit.replace, edit.restore, edit.delete or None]
        if sum(one is not None for one in given) != 1:
            raise InvalidInput(
                "Say what to write by exactly one of content (the whole file), append, replace={old, new} and delete. "
                "Nothing was changed."
            )
        size = len(edit.content or edit.append or b"")
        if size > MAX_FILE:
            raise InvalidInput(
                f"A file has at most {MAX_FILE:,} bytes, not {size:,}. Nothing was changed; write it as several files."
            )
        name = await self._board.board_of(board, agent)
        self._board.quotas.charge(agent, name, 1, size)
        once = None
        if once_key is not None:
            said = {
                "path": path,
                "edit": repr(edit),
                "expected": expected,
                "lease": lease,
                "message": message,
            }
            once = once_of(once_key, "artifact_write", **said)
        written = await self._board.store.write_artifact(
            name, agent, path, edit, expected=expected, lease=lease, message=message.strip(), once=once
        )
        if written.changed:
            self._written(name)
        book = await self._board.store.rules(name, agent, path)
        looked = await self._files.look(name, path, ruled=any(map(is_own, book.rules)))
        known = replace(await self._known(name, agent, path, book=book), looked=looked)
        await self._board.rules.saw(name, agent, known.rules.revision)
        return written, known

    async def read(
        self, agent: str, board: str | None, path: str, revision: int = 0
    ) -> tuple[ArtifactContent, Known]:
        """Returns a file as it is, or as it was after a revision. Errors are those of `read_artifact` of the store.

        `check:NAME` is the whole output of a check's last run.
        """
        check_agent(agent)
        name = await self._board.board_of(board, agent)
        if path.startswith(OUTPUT) and self._checks is not None:
            if revision:
                raise InvalidInput("Only the output of a check's last run is kept: leave out revision.")
            return await self._checks.output(agent, name, path[len(OUTPUT) :]), await self._known(
                name, agent, ""
            )
        found = await self._board.store.read_artifact(name, path, revision)
        if revision:
            (newest,) = await self._board.store.artifact_history(name, "", 0, 1)
            if revision > newest.number:
                raise InvalidInput(
                    f"There is no revision {revision} yet: the newest of the board's files is {newest.number}. "
                    f"{path} stands at revision {found.revision.number}; without revision you get that."
                )
        return found, await self._known(name, agent, found.revision.path)

    async def list(
        self, agent: str, board: str | None, path: str = "", depth: int = 1, after: str = ""
    ) -> tuple[Listing, Known]:
        """Lists what is in a folder, or the files that match a glob; deeper than `depth`, folders stand for files.

        The path of a file lists that file.

        Raises:
            InvalidInput: the path or glob is not allowed.
        """
        check_agent(agent)
        name = await self._board.board_of(board, agent)
        folder, glob = _folder_of(path)
        files = await self._in_folder(name, folder)
        if not files and folder and glob:  # which may spell the folder in another way
            files = await self._in_folder(name, "")
        elif not files and folder:
            with suppress(UnknownReference):
                files = [(await self._board.store.read_artifact(name, folder)).revision]
        listing = await in_thread(partial(_listed, files, folder, glob, depth, after))
        return listing, await self._known(name, agent, folder, [entry.path for entry in listing.entries])

    async def _in_folder(self, board: str, folder: str) -> Sequence[Revision]:
        files: list[Revision] = []
        while page := await self._board.store.artifacts(
            board, folder, files[-1].path if files else "", MAX_PAGE
        ):
            files += page
            if len(page) < MAX_PAGE:
                break
        return files

    async def outline(self, agent: str, board: str | None, listing: Listing) -> Sequence[Outline]:
        """Returns what is defined in the listed files, those of the first `MAX_OUTLINED`."""
        name = await self._board.board_of(board, agent)
        files = [entry for entry in listing.entries if isinstance(entry, Revision)]
        return await self._searched().outline(name, files[:MAX_OUTLINED])

    async def search(
        self, agent: str, board: str | None, text: str, path: str = "", limit: int = 5
    ) -> tuple[Sequence[ArtifactHit], int, Known]:
        """Returns the best parts of the best files for a question, file by file, and how many files are searched.

        `path` is a folder, a file or a glob.

        Raises:
            InvalidInput: the path or glob is not allowed, or there is no text.
        """
        check_agent(agent)
        check_text(text)
        if not text.strip():
            raise InvalidInput("text says what to look for, in words. artifact_list() lists the files.")
        name = await self._board.board_of(board, agent)
        folder, glob = _folder_of(path)
        matches = file_glob(glob) if glob else None

        def wanted(found: str) -> bool:
            if matches is not None:
                return matches(found)
            return not folder or found == folder or found.startswith(f"{folder}/")

        hits, files = await self._searched().search(name, text, wanted, limit)
        return hits, files, await self._known(name, agent, folder, [hit.revision.path for hit in hits])

    async def parts(self, board: str, text: str, limit: int) -> Sequence[ArtifactHit]:
        """Returns the best parts of a board's files for a text, best first."""
        hits, _ = await self._searched().search(board, text, lambda path: True, limit)
        return sorted(hits, key=lambda hit: -hit.score)[:limit]

    async def history(
        self, agent: str, board: str | None, path: str = "", before: int = 0, limit: int = 20
    ) -> tuple[tuple[Revision, ...], Known]:
        """Returns revisions of the board, a file or a folder, the newest first, those below `before`."""
        check_agent(agent)
        name = await self._board.board_of(board, agent)
        path = check_path(path) if path else ""
        found = await self._board.store.artifact_history(name, path, before, limit)
        return found, await self._known(name, agent, path, [one.path for one in found])

    async def diff(self, agent: str, board: str | None, revision: Revision) -> str:
        """Returns what a revision changed, as a unified diff; empty if the content is not text.

        Raises:
            InvalidInput: the files are too different to compare.
        """
        name = await self._board.board_of(board, agent)
        store = self._board.store
        sides = []
        for number in (revision.before, revision.number):
            gone = not number or (number == revision.number and revision.op == "deleted")
            then = [] if gone else await store.artifact_history(name, revision.path, number + 1, 1)
            if not then or then[0].op == "deleted":
                sides.append(b"")
                continue
            content = await store.read_artifact(name, revision.path, number)
            if content.revision.lines is None:
                return ""
            sides.append(content.body)
        return await in_thread(partial(_diff, revision, *sides))

    def _searched(self) -> ArtifactIndex:
        """Returns the index of files, which is made by the first search."""
        from blackboard_mcp.storage.workspace.search import ArtifactIndex

        self._index = self._index or ArtifactIndex(self._board.store)
        return self._index

    async def _known(
        self, board: str, agent: str, path: str, shown: Sequence[str] = (), *, book: RuleBook | None = None
    ) -> Known:
        """Returns what is told besides: the rules are those for the path, and for files and folders that are shown.

        `book` are the rules for the path, if they were read already.
        """
        book = book or await self._board.store.rules(board, agent, path)
        if shown and not all(rule.mine for rule in book.rules):
            book = await in_thread(partial(_with_rules_of, book, shown))
        attention, seq = await self._board.attention(agent, board)
        checks = () if self._checks is None else await self._checks.states(agent, board, path)
        return Known(book, seq, attention, checks)


def _with_rules_of(book: RuleBook, shown: Sequence[str]) -> RuleBook:
    """Returns the rules, with those for one of some files, or of folders, which end with a slash, as the agent's."""
    files = [path for path in shown if not path.endswith("/")]
    folders = [path for path in shown if path.endswith("/")]

    def concerns(rule: Rule) -> bool:
        kind, _, glob = rule.scope.partition(":")
        return kind == "path" and (
            any(map(file_glob(glob), files))
            or any(overlap(f"file:{glob}", f"file:{folder}**") for folder in folders)
        )

    rules = [rule if rule.mine else replace(rule, mine=concerns(rule)) for rule in book.rules]
    return replace(book, rules=tuple(rules))


def _folder_of(path: str) -> tuple[str, str]:
    """Returns the folder of a listing and its glob, which is empty if the path has none.

    Raises:
        InvalidInput: the path is not allowed.
    """
    path = path.strip("/")
    if "*" not in path:
        return (check_path(path, "folder") if path not in ("", ".") else ""), ""
    literal = path.split("*", 1)[0].rpartition("/")[0]
    if literal:
        check_path(literal, "folder")
    if len(path) > MAX_PATH or ":" in path or not path.isprintable():
        raise InvalidInput(
            f"'{path[:60]}' is no pattern of files: as docs/**/*.md, * within a name, ** across folders."
        )
    return literal, path


def _listed(files: Sequence[Revision], folder: str, glob: str, depth: int, after: str) -> Listing:
    entries: dict[str, Revision | Folder] = {}
    top = folder.count("/") + 1 if folder else 0
    matches = file_glob(glob) if glob else None
    for file in files:
        if matches is not None:
            if matches(file.path):
                entries[file.path] = file
            continue
        names = file.path.split("/")
        if len(names) <= top + depth:
            entries[file.path] = file
            continue
        place = "/".join(names[: top + depth]) + "/"
        known = entries.get(place)
        count, size = (known.files, known.size) if isinstance(known, Folder) else (0, 0)
        entries[place] = Folder(place, count + 1, size + file.size)
    places = sorted(place for place in entries if place > after)
    shown = places[:MAX_LISTED]
    return Listing(tuple(entries[place] for place in shown), shown[-1] if len(places) > len(shown) else "")


def _diff(revision: Revision, before: bytes, after: bytes) -> str:
    old, new = _whole_lines(before.decode()), _whole_lines(after.decode())
    first = 0
    while first < min(len(old), len(new)) and old[first] == new[first]:
        first += 1
    last = 0
    while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
        last += 1
    if max(len(old), len(new)) - first - last > _DIFF_LINES:
        raise InvalidInput(
            f"Revision {revision.number} changed more than {_DIFF_LINES:,} lines of {revision.path}, which is too much "
            "for a diff; artifact_read(path, revision=…) shows the file before and after."
        )
    # Only what differs is compared, with three lines around it.
    start, ends = max(0, first - 3), max(0, last - 3)
    lines = difflib.unified_diff(
        old[start : len(old) - ends],
        new[start : len(new) - ends],
        f"{revision.path}@{revision.before}" if revision.before else "/dev/null",
        "/dev/null" if revision.op == "deleted" else f"{revision.path}@{revision.number}",
        lineterm="",
    )
    return "\n".join(
        _moved(line, start)
        if number < 2 or line.startswith("@@")
        else line.removesuffix("\n")
        if line.endswith("\n")
        else f"{line}\n\\ No newline at end of file"
        for number, line in enumerate(lines)
    )


def _whole_lines(text: str) -> list[str]:
    """Returns the lines of a text with their ends; the last one has none if the text does not end with one."""
    *lines, rest = text.split("\n")
    return [*(line + "\n" for line in lines), *([rest] if rest else [])]


def _moved(line: str, by: int) -> str:
    """Returns a line of a diff; the numbers of a hunk are moved by as many lines as were left out before it."""
    if not line.startswith("@@") or not by:
        return line
    parts = line.split()
    ranges = []
    for part in parts[1:3]:
        begin, comma, count = part[1:].partition(",")
        ranges.append(f"{part[0]}{int(begin) + by}{comma}{count}")
    return f"@@ {ranges[0]} {ranges[1]} @@"
