"""Checks that the revisions of files in a history are those that the writes of agents make."""

from __future__ import annotations

import zlib
from collections import Counter
from typing import Any, Final

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.names import check_name
from blackboard_mcp.protocols.workspace import MAX_FILE, MAX_MESSAGE, check_path, fold, line_count

from ..operations.ledger.rows import Steps, sql
from ..operations.workspace.writing import blob_of

_PAGE: Final = 20


def wrong_files(no: int) -> Steps[str]:
    """Returns what is wrong with a board's files, in words; empty if nothing is."""
    files, done = _Files(), 0
    while rows := (yield sql("artifact_log"), (no, done, _PAGE)):
        for row in rows:
            try:
                wrong = files.add(row)
            except (InvalidInput, zlib.error) as error:
                wrong = str(error).split(" Nothing was")[0].rstrip(".;")
            if wrong:
                return f"revision {row[0]} of the files: {wrong}"
        done = rows[-1][0]
    return ""


class _Files:
    """The files of a board after the revisions so far."""

    def __init__(self) -> None:
        self._last = 0
        self._before: dict[str, int] = {}
        self._there: dict[str, str] = {}
        """The path of each file, by its folded form."""
        self._folders: dict[str, str] = {}
        self._inside: Counter[str] = Counter()
        """The number of files in each folder and below it, by the folded form of its path."""

    def add(self, row: Any) -> str:
        """Takes in a revision; returns what is wrong with it.

        Raises:
            InvalidInput: its path or author is not allowed.
            zlib.error: its content cannot be unpacked.
        """
        number, path, op, before, size, lines, blob, agent, message, _, kept = row
        packed, gone, content = zlib.decompressobj(), op == "deleted", b""
        check_name(agent)
        if check_path(path) != path:
            return "its path is not in composed characters"
        if not gone:
            content = packed.decompress(kept, MAX_FILE + 1)
        if len(content) > MAX_FILE or len(message) > MAX_MESSAGE:
            return f"it has more than {MAX_FILE:,} bytes, or its message more than {MAX_MESSAGE} characters"
        said = (number, before, size, lines, blob)
        right = (
            *(self._last + 1, self._before.get(path, 0), len(content), line_count(content)),
            blob_of(None if gone else content),
        )
        if said != right or (kept if gone else not packed.eof):
            return "its number, what was before it or its content is not what it says"
        self._last, self._before[path] = number, number
        return self._place(path, gone=gone)

    def _place(self, path: str, *, gone: bool) -> str:
        """Puts a file into its place, or takes it away; returns what is in the way."""
        names = path.split("/")
        above = ["/".join(names[:n]) for n in range(1, len(names))]
        folded = fold(path)
        there = self._there.get(folded)
        if gone:
            if there != path:
                return f"there is no file {path} to delete"
            del self._there[folded]
            self._inside.subtract(map(fold, above))
            return ""
        if there is None:
            for folder in above:
                place = fold(folder)
                if place in self._there or (self._inside[place] and self._folders[place] != folder):
                    return f"{self._there.get(place) or self._folders[place]} is in the way of {path}"
                self._folders[place] = folder
            if self._inside[folded]:
                return f"{path} is a folder"
            self._inside.update(map(fold, above))
            self._there[folded] = path
        return "" if there in (None, path) else f"{there} is in the way of {path}"
