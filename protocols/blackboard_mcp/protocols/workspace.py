"""The workspace of a board: files that its agents write together, called artifacts.

Every write is a revision: they are numbered 1, 2, 3 … over the whole board, so a revision's number also names the state
of all files after it. Nothing that was ever written is lost.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Final, Literal, Protocol

from .answers import Once
from .errors import InvalidInput
from .keys import Glob, compile_glob
from .values import dataclass

MAX_PATH: Final = 200
"""Longest path, in characters."""
MAX_DEPTH: Final = 20
"""Most names in a path: its folders and the file."""
MAX_NAME_BYTES: Final = 200
"""Longest name of a file or folder, in bytes of UTF-8."""
MAX_FILE: Final = 1_000_000
"""Largest file, in bytes."""
MAX_FILES: Final = 20_000
"""Most files of a board that are not deleted."""
MAX_MESSAGE: Final = 500
"""Longest message of a revision, in characters."""
MAX_PAGE: Final = 1_000
"""Most files or revisions in one answer of a store."""

ArtifactOp = Literal["written", "deleted", "restored"]
"""What a revision did to its file."""

_FORBIDDEN: Final = frozenset('<>:"|?*\\')
_DEVICE: Final = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)\Z")
_NAMED: Final = re.compile(
    r"(?<![\w./-])([\w./-]{1,400})[`'\"]?(?:,? | \(|, at | at )rev(?:ision)? ([0-9]{1,9})(?![0-9])"
)
_GIT: Final = re.compile(r"\.git\Z|git~[0-9]+\Z")


@dataclass(frozen=True, slots=True)
class Edit:
    """What a write does to a file: exactly one field says it.

    `content` replaces the whole file. `append` adds to its end, and begins a file that does not exist. `replace` is a
    pair of texts in UTF-8: the first stands in the file exactly once and becomes the second; with `every` it may stand
    there several times. `restore` gives the file the content that it had after that revision.
    """

    content: bytes | None = None
    append: bytes | None = None
    replace: tuple[bytes, bytes] | None = None
    every: bool = False
    delete: bool = False
    restore: int | None = None


@dataclass(frozen=True, slots=True)
class Revision:
    """One write to one file.

    Attributes:
        before: the revision that wrote the file before; 0 if there was none.
        size: in bytes after the write; 0 if it deleted the file.
        lines: `None` if the content is not text.
        blob: Git's id of the content; empty if the write deleted the file.
    """

    number: int
    path: str
    op: ArtifactOp
    before: int
    size: int
    lines: int | None
    blob: str
    agent: str
    message: str
    at: datetime


@dataclass(frozen=True, slots=True)
class ArtifactContent:
    """A file as a revision left it. `revision` is the file's own last one, at or before the one that was asked for."""

    revision: Revision
    body: bytes


@dataclass(frozen=True, slots=True)
class Written:
    """What a write did. `revision` is that of the file now; `changed` is false if the file had this content already.

    `former` is the revision that the file had before, `None` if it did not exist.
    """

    revision: Revision
    former: Revision | None
    changed: bool
    seq: int


class WorkspaceStore(Protocol):
    """The part of a store that keeps the files of boards."""

    async def write_artifact(
        self,
        board: str,
        agent: str,
        path: str,
        edit: Edit,
        *,
        expected: int | None = None,
        lease: int | None = None,
        message: str = "",
        once: Once | None = None,
    ) -> Written:
        """Writes one file in one transaction.

        `expected` is the file's revision as the caller knows it; 0 says that there is no such file. `lease` is a lease
        under which the caller holds a task or reserved the path.

        Raises:
            InvalidInput: the path or the edit is not allowed, or the text to replace is not there exactly once.
            UnknownReference: there is no such board, file or revision.
            Conflict: the file has another revision, another agent reserved it, or the lease has ended.
            Refused: the path clashes with another's spelling, or with a folder or file.
            QuotaExceeded: the file would be too large, or there would be too many.
        """
        ...

    async def read_artifact(self, board: str, path: str, revision: int = 0) -> ArtifactContent:
        """Returns a file as it is, or as it was after a revision of the board.

        Raises:
            UnknownReference: there is no such file or revision.
        """
        ...

    async def artifacts(
        self, board: str, folder: str = "", after: str = "", limit: int = MAX_PAGE
    ) -> tuple[Revision, ...]:
        """Returns the last revisions of the files in a folder and below, by path, after the path `after`."""
        ...

    async def artifact_history(
        self, board: str, path: str = "", before: int = 0, limit: int = 20
    ) -> tuple[Revision, ...]:
        """Returns revisions of the board, a file or what is in a folder, the newest first, below `before`."""
        ...

    async def boards_with_artifacts(self) -> tuple[str, ...]:
        """Returns the ids of the boards that have files, or had some."""
        ...

    async def artifact_log(self, board: str, after: int, limit: int = 100) -> tuple[ArtifactContent, ...]:
        """Returns revisions of the board with their contents, the oldest first, those above `after`."""
        ...


def named_revisions(text: str) -> dict[str, int]:
    """Returns paths that a text names with a revision, as answers write it (`notes/plan.md rev 17`), with the newest
    revision named of each. Whether there are such files is not known here.
    """
    named: dict[str, int] = {}
    for path, number in _NAMED.findall(text):
        named[path] = max(named.get(path, 0), int(number))
    return named


def check_path(path: str, what: str = "path") -> str:
    """Returns the path of a file or folder as it is stored, in composed characters (NFC).

    Raises:
        InvalidInput: no such path may exist: it is too long, leads out of the workspace, or has names that some
            systems cannot hold.
    """
    stored = unicodedata.normalize("NFC", path[: 4 * MAX_PATH])
    names = stored.split("/")
    wrong = "" if len(path) <= 4 * MAX_PATH and 0 < len(stored) <= MAX_PATH else "it is too long or empty"
    if not wrong and len(names) > MAX_DEPTH:
        wrong = f"it has more than {MAX_DEPTH} parts"
    wrong = wrong or next(filter(None, map(_fault, names)), "")
    if wrong:
        raise InvalidInput(
            f"'{path[:60]}' is no {what} of the workspace: {wrong}. Nothing was changed; paths look like "
            f"notes/plan.md, have at most {MAX_PATH} characters and begin at the workspace's top."
        )
    return stored


def _fault(name: str) -> str:
    """Returns what is wrong with a name in a path; empty if nothing is."""
    if name in ("", ".", ".."):
        return f"'{name}' is no name" if name else "it begins or ends with /, or has // in it"
    if len(name.encode("utf-8", "replace")) > MAX_NAME_BYTES:
        return f"a name has more than {MAX_NAME_BYTES} bytes"
    if not name.isprintable() or not _FORBIDDEN.isdisjoint(name):
        return "a name has characters that not every system can hold"
    if name[0] == " " or name[-1] in " .":
        return "a name begins or ends with a space, or ends with a dot"
    folded = fold(name)
    if _GIT.match(folded) or _DEVICE.match(folded.partition(".")[0].rstrip()):
        return f"'{name[:20]}' is a reserved name"
    return ""


@lru_cache(maxsize=256)
def file_glob(glob: str) -> Callable[[str], bool]:
    """Returns what tells whether the path of a file matches a glob: `*` within a name, `**` for any folders, or none.

    Spellings that a file system may not tell apart match alike. The cost is at most the product of the two lengths,
    whatever the glob.
    """
    parts = fold(glob).split("/")
    if any("**" in part and part != "**" for part in parts):
        whole = compile_glob(":".join(parts))
        return lambda path: whole.matches(fold(path).replace("/", ":"))
    names = [None if part == "**" else compile_glob(part) for part in parts]

    def matches(path: str) -> bool:
        places = _skipping({0}, names)
        for name in fold(path).split("/"):
            moved = set()
            for place in places:
                if place < len(names):
                    wanted = names[place]
                    if wanted is None:
                        moved.add(place)
                    elif wanted.matches(name):
                        moved.add(place + 1)
            places = _skipping(moved, names)
        return len(names) in places

    return matches


def _skipping(places: set[int], names: Sequence[Glob | None]) -> set[int]:
    """Returns the places in a glob, and those behind each `**` at them, which may stand for no folder."""
    for place in sorted(places):
        behind = place
        while behind < len(names) and names[behind] is None:
            behind += 1
            places.add(behind)
    return places


def fold(path: str) -> str:
    """Returns the form in which two paths are equal where a file system does not tell case and composition apart."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKC", path).casefold())


def line_count(body: bytes) -> int | None:
    """Returns the number of lines of a text in UTF-8; `None` for anything else."""
    if b"\0" in body:
        return None
    try:
        body.decode()
    except UnicodeDecodeError:
        return None
    return body.count(b"\n") + (1 if body and not body.endswith(b"\n") else 0)
