"""The files of a board, as calls for programs."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.late_models import workspace_wire

from .calls import Calls

if TYPE_CHECKING:
    from blackboard_mcp.protocols.workspace_wire import (
        ArtifactHistoryAnswer,
        ArtifactListAnswer,
        ArtifactReadAnswer,
        ArtifactSearchAnswer,
        ArtifactWriteAnswer,
    )


class WritesFiles(Calls):
    """Calls for the files of a board. A server needs `--tools core,workspace` for them."""

    async def artifact_write(
        self,
        path: str,
        content: str | bytes | None = None,
        *,
        append: str | None = None,
        replace: tuple[str, str] | None = None,
        delete: bool = False,
        expected: int | None = None,
        lease: int | None = None,
        message: str = "",
        idempotency_key: str | None = None,
    ) -> ArtifactWriteAnswer:
        """Writes, appends to, replaces a text in, or deletes a file. Bytes need not be text.

        `expected` is the revision of the file as the program knows it, 0 for a file that must not exist; `lease` is a
        lease under which the agent holds a task or reserved the path.

        Raises:
            InvalidInput: the path is not allowed, or the text to replace is not there exactly once.
            UnknownReference: there is no such file.
            Conflict: the file has another revision, another agent reserved it, or the lease has ended.
            Refused: a folder, a file or another spelling is in the way.
            QuotaExceeded: the file is too large, or there are too many.
        """
        raw = isinstance(content, bytes)
        if replace is not None and not (isinstance(replace, tuple | list) and len(replace) == 2):
            raise InvalidInput("replace takes two texts, the old one and the new one. Nothing was changed.")
        given = {
            "path": path,
            "content": base64.b64encode(content).decode() if isinstance(content, bytes) else content,
            "binary": True if raw else None,
            "append": append,
            "replace": None if replace is None else {"old": replace[0], "new": replace[1]},
            "delete": delete or None,
            "expected": expected,
            "lease": lease,
            "message": message or None,
        }
        return await self._call(
            "artifact_write", given, workspace_wire.ArtifactWriteAnswer, once=idempotency_key
        )

    async def artifact_read(
        self, path: str, start: int | None = None, end: int | None = None, *, revision: int | None = None
    ) -> ArtifactReadAnswer:
        """Returns lines of a file, as it is or as it was after a revision.

        Raises:
            UnknownReference: there is no such file or revision.
        """
        given = {"path": path, "start": start, "end": end, "revision": revision}
        return await self._call("artifact_read", given, workspace_wire.ArtifactReadAnswer)

    async def artifact_list(
        self, path: str = "", *, depth: int = 1, outline: bool = False, after: str = ""
    ) -> ArtifactListAnswer:
        """Lists the files in a folder, or those that match a glob; folders below `depth` are counted only.

        With `outline` it also tells what is defined in the files.
        """
        given = {"path": path or None, "depth": depth, "outline": outline or None, "after": after or None}
        return await self._call("artifact_list", given, workspace_wire.ArtifactListAnswer)

    async def artifact_search(self, text: str, path: str = "") -> ArtifactSearchAnswer:
        """Returns the parts of files that are about `text`, in a folder or in files that match a glob."""
        return await self._call(
            "artifact_search", {"text": text, "path": path or None}, workspace_wire.ArtifactSearchAnswer
        )

    async def artifact_history(
        self,
        path: str = "",
        *,
        revision: int | None = None,
        diff: bool = False,
    ) -> ArtifactHistoryAnswer:
        """Returns revisions of the board, a file or a folder up to `revision`, with a diff of the first if asked."""
        given = {"path": path or None, "revision": revision, "diff": diff or None}
        return await self._call("artifact_history", given, workspace_wire.ArtifactHistoryAnswer)

    async def restore_artifact(
        self, path: str, revision: int, *, idempotency_key: str | None = None
    ) -> ArtifactHistoryAnswer:
        """Gives a file the content that it had after a revision; a deleted one comes back.

        Raises:
            UnknownReference: there was no such file then.
            Conflict: another agent reserved the file.
        """
        given = {"path": path, "revision": revision, "restore": True}
        return await self._call(
            "artifact_history", given, workspace_wire.ArtifactHistoryAnswer, once=idempotency_key
        )
