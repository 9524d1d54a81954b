"""Files as they are and as they were."""

from __future__ import annotations

import zlib
from typing import Any

from blackboard_mcp.protocols.errors import UnknownReference
from blackboard_mcp.protocols.workspace import MAX_PAGE, ArtifactContent, Revision, check_path

from ..ledger.ledger import get_board
from ..ledger.rows import Steps, instant, sql

_NEAR = 3


def revision_of(row: Any) -> Revision:
    """Returns a row of a revision as a value."""
    number, path, op, before, size, lines, blob, agent, message, at = row[:10]
    return Revision(number, path, op, before, size, lines, blob, agent, message, instant(at))


def read_artifact(board: str, path: str, revision: int = 0) -> Steps[ArtifactContent]:
    """Returns a file as it is, or as it was after a revision of the board."""
    path, no = check_path(path), (yield from get_board(board)).no
    if revision:
        rows = yield sql("artifact_then"), (no, path, revision)
    else:
        rows = yield sql("artifact_now"), (no, path)
    if not rows or rows[0][2] == "deleted":
        raise (yield from missing(no, board, path, revision_of(rows[0]) if rows else None))
    return ArtifactContent(revision_of(rows[0]), zlib.decompress(rows[0][10]))


def missing(no: int, board: str, path: str, gone: Revision | None = None) -> Steps[UnknownReference]:
    """Returns the error for a path without a file; it names what is near."""
    below = yield sql("artifacts"), (no, f"{path}/", f"{path}0", 1)
    folder, _, _ = path.rpartition("/")
    first, last = (f"{folder}/", f"{folder}0") if folder else ("", "\U0010ffff")
    near = [found for (found,) in (yield sql("artifact_ids"), (no, first, last, _NEAR))]
    if below:
        advice = f'it is a folder: artifact_list(path="{path}") shows what is in it'
    elif gone is not None and gone.op == "deleted":
        advice = (
            f"revision {gone.number} by {gone.agent} deleted it; artifact_read(path, revision={gone.before}) shows it "
            "as it was"
        )
    elif near:
        advice = f"near it are {', '.join(near)}; artifact_list() shows more"
    else:
        advice = "artifact_list() shows what is there"
    return UnknownReference(
        f"There is no file {path} on '{board}'. Nothing was changed; {advice}.", path=path
    )


def artifacts(
    board: str, folder: str = "", after: str = "", limit: int = MAX_PAGE
) -> Steps[tuple[Revision, ...]]:
    """Returns the last revisions of the files in a folder and below, by path."""
    no = (yield from get_board(board)).no
    first, last = "", "\U0010ffff"
    if folder:
        folder = check_path(folder, "folder")
        first, last = f"{folder}/", f"{folder}0"
    rows = yield sql("artifacts"), (no, max(first, after), last, min(limit, MAX_PAGE))
    return tuple(map(revision_of, rows))


def artifact_history(
    board: str, path: str = "", before: int = 0, limit: int = 20
) -> Steps[tuple[Revision, ...]]:
    """Returns revisions of the board, a file or what is in a folder, the newest first."""
    no = (yield from get_board(board)).no
    values = (no, before or 1 << 62, min(limit, MAX_PAGE))
    if not path:
        return tuple(map(revision_of, (yield sql("artifact_history"), values)))
    path = check_path(path)
    rows = yield sql("artifact_path_history"), (*values, path)
    if not rows:
        rows = yield sql("artifact_folder_history"), (*values, path)
    return tuple(map(revision_of, rows))


def artifact_log(board: str, after: int, limit: int = 100) -> Steps[tuple[ArtifactContent, ...]]:
    """Returns revisions of the board with their contents, the oldest first."""
    no = (yield from get_board(board)).no
    rows = yield sql("artifact_log"), (no, after, min(limit, MAX_PAGE))
    return tuple(
        ArtifactContent(revision_of(row), zlib.decompress(row[10]) if row[10] else b"") for row in rows
    )


def boards_with_artifacts() -> Steps[tuple[str, ...]]:
    """Returns the ids of the boards that have files, or had some."""
    return tuple(board for (board,) in (yield sql("artifact_boards"), ()))
