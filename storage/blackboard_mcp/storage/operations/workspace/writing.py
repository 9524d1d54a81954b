"""Writes to files: the content of each is computed and stored in the transaction of its revision."""

from __future__ import annotations

import hashlib
import zlib
from typing import Any, Final

from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.changes import ChangeKind
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, QuotaExceeded, Refused, UnknownReference
from blackboard_mcp.protocols.events import EventType
from blackboard_mcp.protocols.workspace import (
    MAX_FILE,
    MAX_FILES,
    MAX_MESSAGE,
    ArtifactOp,
    Edit,
    Revision,
    Written,
    check_path,
    fold,
    line_count,
)

from ...operation import Write
from ..agenda.lapses import begin
from ..agenda.reservations import check_file
from ..ledger.idempotency import Form, Given, repeatable
from ..ledger.ledger import Ledger, get_board
from ..ledger.rows import Steps, dumps, sql
from .reading import missing, revision_of

_LEVEL: Final = 3
"""Of compression: higher ones take several times as long for a tenth less."""
_LISTED: Final = 5


def form(given: Given) -> Form[Written]:
    """Returns the form of an answer: the numbers of the revisions, which never change."""

    def again(kept: Any) -> Steps[Written]:
        number, former, changed, seq = kept
        board = yield from get_board(given["board"])
        path = check_path(given["path"])
        written = revision_of((yield sql("artifact_then"), (board.no, path, number))[0])
        before = (yield sql("artifact_then"), (board.no, path, former)) if former else []
        return Written(written, revision_of(before[0]) if before else None, changed, seq)

    return Form(
        lambda done: [done.revision.number, done.former.number if done.former else 0, done.changed, done.seq],
        again,
    )


@repeatable(form)
def write_artifact(
    write: Write,
    board: str,
    agent: str,
    path: str,
    edit: Edit,
    *,
    expected: int | None = None,
    lease: int | None = None,
    message: str = "",
    once: Once | None = None,
) -> Steps[Written]:
    """Writes one file; see `WorkspaceStore.write_artifact`."""
    path = check_path(path)
    if len(message) > MAX_MESSAGE:
        raise InvalidInput(f"message has at most {MAX_MESSAGE} characters. Nothing was changed.")
    ledger = yield from begin(write, board, agent)
    ledger.note(ChangeKind.ARTIFACT, name=path)
    rows = yield sql("artifact_now"), (ledger.no, path)
    former = revision_of(rows[0]) if rows and rows[0][2] != "deleted" else None
    body = zlib.decompress(rows[0][10]) if former else b""
    yield from _check_lease(ledger, lease)
    yield from check_file(ledger, path)
    _check_expected(path, former, body, expected)
    if former is None and (edit.replace is not None or edit.delete):
        raise (yield from missing(ledger.no, board, path))
    new = yield from _edited(ledger, path, edit, body, former)
    if former is not None and new == body:
        return Written(former, former, changed=False, seq=ledger.board.seq)
    if new is not None and former is None:
        yield from _check_place(ledger, path)
    if new is not None and len(new) > MAX_FILE:
        raise QuotaExceeded(
            f"The file {path} would have {len(new):,} bytes, and {MAX_FILE:,} is the limit of a file. Nothing was "
            "changed; write it as several files."
        )
    op: ArtifactOp = "deleted" if new is None else "written" if edit.restore is None else "restored"
    number = (yield sql("artifact_last"), (ledger.no,))[0][0] + 1
    before = rows[0][0] if rows else 0
    size, lines, blob = len(new or b""), line_count(new or b""), blob_of(new)
    packed = b"" if new is None else zlib.compress(new, _LEVEL)
    told = (op, before, size, lines, blob, agent, message, write.now)
    yield sql("artifact_add"), (ledger.no, number, path, fold(path), *told, packed)
    ledger.grown += 1
    facts = {"path": path, "revision": number, "op": op, "size": size}
    yield from ledger.emit(EventType.ARTIFACT_WRITTEN, data=facts)
    yield from ledger.close()
    return Written(revision_of((number, path, *told)), former, changed=True, seq=ledger.board.seq)


def _check_lease(ledger: Ledger, lease: int | None) -> Steps[None]:
    """Checks that a lease which the caller names is its own and has not ended.

    Raises:
        Conflict: it is not.
    """
    if lease is None:
        return
    held = yield sql("task_of_lease"), (ledger.no, ledger.agent, lease)
    reserved = yield sql("reservations_of_lease"), (ledger.no, lease)
    if not held and not (reserved and reserved[0][0] == ledger.agent):
        raise Conflict(
            f"Lease {lease} has ended, or is not yours. Nothing was changed; claim the task or the paths again, and "
            "read the file before you write it.",
            lease=lease,
        )


def _check_expected(path: str, former: Revision | None, body: bytes, expected: int | None) -> None:
    """Checks that the file has the revision that the caller knows.

    Raises:
        Conflict: it has another; its facts carry a short text.
    """
    now = former.number if former else 0
    if expected is None or expected == now:
        return
    if former is None:
        raise Conflict(
            f"There is no file {path} now. Nothing was changed; leave out expected to write it anew.",
            path=path,
            current_version=0,
        )
    raise Conflict(
        f"The file {path} is at revision {now}, by {former.agent}"
        f"{', and not new' if expected == 0 else f', not {expected}'}. Nothing was changed; read it again, then write "
        f"with expected={now}.",
        path=path,
        current_version=now,
        by=former.agent,
    )


def _edited(
    ledger: Ledger, path: str, edit: Edit, body: bytes, former: Revision | None
) -> Steps[bytes | None]:
    """Returns the content after the edit; `None` if the file is to be deleted.

    Raises:
        InvalidInput: the text to replace is not there exactly once, or the file is not text.
        UnknownReference: there is no such revision to restore.
    """
    if edit.delete:
        return None
    if edit.content is not None:
        return edit.content
    if edit.append is not None:
        return body + edit.append
    if edit.restore is not None:
        then = yield sql("artifact_then"), (ledger.no, path, edit.restore)
        if not then:
            raise UnknownReference(
                f"There was no file {path} at revision {edit.restore}. Nothing was changed; "
                f'artifact_history(path="{path}") lists its revisions.'
            )
        if then[0][2] == "deleted" and former is None:
            raise (yield from missing(ledger.no, ledger.board.id, path))
        return None if then[0][2] == "deleted" else zlib.decompress(then[0][10])
    old, new = edit.replace or (b"", b"")
    return _replaced(path, body, old, new, every=edit.every)


def _replaced(path: str, body: bytes, old: bytes, new: bytes, *, every: bool) -> bytes:
    if not old:
        raise InvalidInput(
            "replace needs old, the text that stands in the file now. Nothing was changed; content writes a whole "
            "file, append adds to its end."
        )
    if line_count(body) is None:
        raise InvalidInput(
            f"The file {path} is not text. Nothing was changed; content writes the whole file."
        )
    if old not in body and b"\r\n" in body and b"\r" not in old:
        # Answers show lines without the CR at their ends.
        old, new = (part.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n") for part in (old, new))
    found = body.count(old)
    if found == 0:
        other = old.decode().casefold() in body.decode().casefold()
        raise InvalidInput(
            f"old does not stand in {path}{', only in other case' if other else ''}. Nothing was changed; copy it "
            "exactly from artifact_read, without the line numbers and the tab behind each."
        )
    if found > 1 and not every:
        lines, at = [], -1
        for _ in range(min(found, _LISTED)):
            at = body.find(old, at + 1)
            lines.append(str(body.count(b"\n", 0, at) + 1))
        more = ", …" if found > _LISTED else ""
        raise InvalidInput(
            f"old stands in {path} {found} times, in lines {', '.join(lines)}{more}. Nothing was changed; quote more "
            'of what is around it, or give "all": true in replace.'
        )
    return body.replace(old, new)


def _check_place(ledger: Ledger, path: str) -> Steps[None]:
    """Checks that a new file has a place: no folder or file is in its way, and no other spelling of its path.

    Raises:
        Refused: it has none.
        QuotaExceeded: there are too many files.
    """
    names = path.split("/")
    prefixes = {fold(part): part for part in ("/".join(names[: n + 1]) for n in range(len(names)))}
    for folded, file, below in (yield sql("artifact_near"), (ledger.no, dumps(list(prefixes)))):
        part = prefixes[folded]
        if file is not None:
            what = "is a file, so nothing can be in it" if part != path else "is there already, spelt so"
            raise Refused(
                f"The path {file} {what}. Nothing was changed; choose another path than {path}.", path=file
            )
        if below is None:
            continue
        there = "/".join(below.split("/")[: part.count("/") + 1])
        if part == path:
            raise Refused(
                f"The path {there} is a folder. Nothing was changed; name a file in it, as {there}/notes.md.",
                path=there,
            )
        if there != part:
            raise Refused(
                f"The folder is spelt {there}. Nothing was changed; write {there}{path[len(part) :]}.",
                path=there,
            )
    count = (yield sql("artifact_count"), (ledger.no,))[0][0]
    if count >= MAX_FILES:
        raise QuotaExceeded(
            f"'{ledger.board.id}' has {count:,} files, and {MAX_FILES:,} is the limit. Nothing was changed; delete "
            "files that nobody needs with artifact_write(path, delete=true): their revisions stay."
        )


def blob_of(body: bytes | None) -> str:
    """Returns Git's id of a content; empty for none."""
    if body is None:
        return ""
    return hashlib.sha1(b"blob %d\0" % len(body) + body, usedforsecurity=False).hexdigest()
