"""The tools of the set `workspace`: files that agents write together."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Final

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.late_models import workspace_wire
from blackboard_mcp.protocols.workspace import MAX_FILE, MAX_MESSAGE, MAX_PATH, Edit, Revision
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from ..access.needs import TOOLS
from ..answers.artifacts import (
    MAX_SHOWN,
    checked_lines,
    content_lines,
    diff_lines,
    excerpt_of,
    found_lines,
    listed_lines,
    outline_lines,
    revision_lines,
    rules_named,
    violated_lines,
    written_lines,
)
from ..answers.rendering import Rendering
from ..usecases.workspace import Folder, Known, Workspace
from .tool import Answer, Caller, ToolSet

BINARY_SHOWN: Final = 256_000
"""Largest file that is not text and that a structured answer holds, in bytes."""
_PAGE: Final = 20

BoardId = Annotated[str, Field(max_length=64)]
FilePath = Annotated[str, Field(max_length=4 * MAX_PATH)]
Content = Annotated[str, Field(max_length=2 * MAX_FILE, description="the whole file")]
Appended = Annotated[str, Field(max_length=MAX_FILE)]
Question = Annotated[str, Field(max_length=2_000)]
Message = Annotated[str, Field(max_length=MAX_MESSAGE)]
Number = Annotated[int, Field(ge=0, le=10**15), WithJsonSchema({"type": "integer"})]
Line = Annotated[int, Field(ge=1, le=10**7), WithJsonSchema({"type": "integer"})]
Depth = Annotated[int, Field(ge=1, le=20), WithJsonSchema({"type": "integer"})]
Expected = Annotated[
    int,
    Field(ge=0, le=10**15),
    WithJsonSchema({"type": "integer", "description": "its revision as you read it; 0: new"}),
]
Leased = Annotated[int, Field(ge=0, le=10**15), WithJsonSchema({"type": "integer"})]
After = Annotated[str, Field(max_length=4 * MAX_PATH)]


class Replacement(BaseModel):
    """A text in a file, and what comes in its place."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    old: Annotated[str, Field(max_length=MAX_FILE)]
    new: Annotated[str, Field(max_length=MAX_FILE)]
    all: bool = False


Replace = Annotated[
    Replacement,
    WithJsonSchema({"type": "object", "description": "{old, new}: old stands there exactly once"}),
]


class WorkspaceTools:
    """Tools with which agents work on files."""

    def __init__(self, workspace: Workspace, rendering: Rendering) -> None:
        self._workspace = workspace
        self._say = rendering

    def register(self, tools: ToolSet) -> None:
        """Adds the tools for files: `artifact_write`, `_read`, `_list`, `_search` and `_history`."""
        tools.add(
            self.write,
            name="artifact_write",
            title="Write a file",
            description="Write a shared file: content, append, replace or delete.",
            needs=TOOLS["artifact_write"],
            output=lambda: workspace_wire.ArtifactWriteAnswer,
        )
        tools.add(
            self.read,
            name="artifact_read",
            title="Read a file",
            description="A shared file's lines, numbered; now or at a revision.",
            needs=TOOLS["artifact_read"],
            output=lambda: workspace_wire.ArtifactReadAnswer,
            read_only=True,
        )
        tools.add(
            self.list_,
            name="artifact_list",
            title="List files",
            description="Shared files in a folder, or by glob.",
            needs=TOOLS["artifact_list"],
            output=lambda: workspace_wire.ArtifactListAnswer,
            read_only=True,
        )
        tools.add(
            self.search,
            name="artifact_search",
            title="Search files",
            description="The parts of shared files about something, with lines.",
            needs=TOOLS["artifact_search"],
            output=lambda: workspace_wire.ArtifactSearchAnswer,
            read_only=True,
        )
        tools.add(
            self.history,
            name="artifact_history",
            title="Revisions of files",
            description="Who changed what: up to a revision, its diff, or restore the file as it was then.",
            needs=TOOLS["artifact_history"],
            output=lambda: workspace_wire.ArtifactHistoryAnswer,
        )

    async def write(
        self,
        caller: Caller,
        path: FilePath,
        content: Content | None = None,
        append: Appended | None = None,
        replace: Replace | None = None,
        delete: bool | None = None,
        expected: Expected | None = None,
        lease: Leased | None = None,
        message: Message | None = None,
        binary: Annotated[bool, Field(description="content is base64")] | None = None,
        board: BoardId | None = None,
    ) -> Answer:
        """Writes a file."""
        if binary and content is None:
            raise InvalidInput("binary goes with content in base64. Nothing was changed.")
        edit = Edit(
            content=None if content is None else _decoded(content) if binary else _encoded(content),
            append=None if append is None else _encoded(append),
            replace=None if replace is None else (_encoded(replace.old), _encoded(replace.new)),
            every=replace is not None and replace.all,
            delete=bool(delete),
        )
        written, known = await self._workspace.write(
            caller.agent,
            board,
            path,
            edit,
            expected=expected,
            lease=lease or None,
            message=message or "",
            once_key=caller.once_key,
        )
        unseen = expected is None and (edit.content is not None or edit.delete)
        return Answer(
            lambda: self._said(
                written_lines(written, known.rules, caller.agent, known.looked, unseen=unseen), known
            ),
            lambda: workspace_wire.ArtifactWriteAnswer(
                **workspace_wire.WireRevision.of(written.revision).model_dump(),
                changed=written.changed,
                fault=None if known.looked.fault is None else known.looked.fault.text,
                former=None if written.former is None else written.former.number,
                rules=[rule.text for rule in known.rules.mine],
                violations=[one.item for one in known.looked.violations],
                checks=_checks(known),
                seq=known.seq,
            ),
        )

    async def read(
        self,
        caller: Caller,
        path: FilePath,
        start: Line | None = None,
        end: Line | None = None,
        revision: Number | None = None,
        board: BoardId | None = None,
    ) -> Answer:
        """Shows a file."""
        first = start or 1
        if end is not None and end < first:
            raise InvalidInput(f"end ({end}) is before start ({first}). Lines are counted from 1.")
        content, known = await self._workspace.read(caller.agent, board, path, revision or 0)
        found = excerpt_of(content, first, end)
        if found is not None and first > max(1, found.total):
            raise InvalidInput(f"{content.revision.path} has {found.total:,} lines, so none from {first}.")
        small = found is None and len(content.body) <= BINARY_SHOWN
        return Answer(
            lambda: self._said(
                [
                    *content_lines(content, found, self._say.now(), then=bool(revision)),
                    *rules_named(known.rules),
                ],
                known,
            ),
            lambda: workspace_wire.ArtifactReadAnswer(
                **workspace_wire.WireRevision.of(content.revision).model_dump(),
                start=0 if found is None else found.start,
                end=0 if found is None else found.end,
                text=None if found is None else found.text,
                base64=base64.b64encode(content.body).decode() if small else None,
                rules=[rule.id for rule in known.rules.mine],
                checks=_checks(known),
                seq=known.seq,
            ),
        )

    async def list_(
        self,
        caller: Caller,
        path: FilePath | None = None,
        depth: Depth | None = None,
        outline: bool | None = None,
        after: After | None = None,
        board: BoardId | None = None,
    ) -> Answer:
        """Lists files."""
        listing, known = await self._workspace.list(caller.agent, board, path or "", depth or 1, after or "")
        entries = listing.entries
        outlines = await self._workspace.outline(caller.agent, board, listing) if outline else ()
        return Answer(
            lambda: self._said(
                [
                    *listed_lines(listing, path or "", self._say.now()),
                    *(["defined, by line:", *outline_lines(outlines)] if outlines else []),
                    *rules_named(known.rules),
                ],
                known,
            ),
            lambda: workspace_wire.ArtifactListAnswer(
                files=[workspace_wire.WireRevision.of(one) for one in entries if isinstance(one, Revision)],
                folders=[
                    workspace_wire.WireFolder(path=one.path, files=one.files, size=one.size)
                    for one in entries
                    if isinstance(one, Folder)
                ],
                outlines=[
                    workspace_wire.WireOutline(
                        path=one.revision.path,
                        parts=[
                            workspace_wire.WirePart(title=part.title, start=part.start, end=part.end)
                            for part in one.parts
                        ],
                    )
                    for one in outlines
                ],
                next=listing.after or None,
                rules=[rule.id for rule in known.rules.mine],
                checks=_checks(known),
                seq=known.seq,
            ),
        )

    async def search(
        self, caller: Caller, text: Question, path: FilePath | None = None, board: BoardId | None = None
    ) -> Answer:
        """Searches files."""
        hits, files, known = await self._workspace.search(caller.agent, board, text, path or "")
        return Answer(
            lambda: self._said([*found_lines(hits, files), *rules_named(known.rules)], known),
            lambda: workspace_wire.ArtifactSearchAnswer(
                hits=[
                    workspace_wire.WireArtifactHit(
                        path=hit.revision.path,
                        revision=hit.revision.number,
                        start=hit.chunk.start,
                        end=hit.chunk.end,
                        title=hit.chunk.title,
                        line=hit.line,
                        text=hit.text[:MAX_SHOWN],
                        score=round(hit.score, 3),
                    )
                    for hit in hits
                ],
                files=files,
                rules=[rule.id for rule in known.rules.mine],
                checks=_checks(known),
                seq=known.seq,
            ),
        )

    async def history(
        self,
        caller: Caller,
        path: FilePath | None = None,
        revision: Number | None = None,
        diff: bool | None = None,
        restore: bool | None = None,
        board: BoardId | None = None,
    ) -> Answer:
        """Shows revisions, or restores a file."""
        if restore:
            if not path or not revision or diff:
                raise InvalidInput(
                    "restore=true takes the path of a file and the revision after which it stands as wanted, and no "
                    "diff. Nothing was changed; without restore this lists the revisions."
                )
            words = f"Restore {path} as of rev {revision}"
            written, known = await self._workspace.write(
                caller.agent, board, path, Edit(restore=revision), message=words, once_key=caller.once_key
            )
            return Answer(
                lambda: self._said(
                    written_lines(written, known.rules, caller.agent, known.looked, unseen=False), known
                ),
                lambda: workspace_wire.ArtifactHistoryAnswer(
                    revisions=[workspace_wire.WireRevision.of(written.revision)],
                    diff=None,
                    next=None,
                    rules=[rule.id for rule in known.rules.mine],
                    seq=known.seq,
                ),
            )
        before = 0 if not revision else revision + 1
        found, known = await self._workspace.history(
            caller.agent, board, path or "", before, 1 if diff else _PAGE + 1
        )
        shown = found[:_PAGE]
        older = None if diff or len(found) <= _PAGE else found[_PAGE].number
        text: str | None = None
        if diff and shown:
            text = await self._workspace.diff(caller.agent, board, shown[0])

        def said() -> str:
            lines = revision_lines(shown, self._say.now(), path or "", older)
            if text is not None:
                lines += diff_lines(text) if text else ["no text to compare"]
            return self._said([*lines, *rules_named(known.rules)], known)

        return Answer(
            said,
            lambda: workspace_wire.ArtifactHistoryAnswer(
                revisions=[workspace_wire.WireRevision.of(one) for one in shown],
                diff=text,
                next=older,
                rules=[rule.id for rule in known.rules.mine],
                checks=_checks(known),
                seq=known.seq,
            ),
        )

    def _said(self, lines: list[str], known: Known) -> str:
        lines = [*lines, *violated_lines(known.looked), *checked_lines(known.checks)]
        return self._say.with_footer("\n".join(lines), known.seq, known.attention)


def _checks(known: Known) -> list[workspace_wire.WireCheck]:
    return [
        workspace_wire.WireCheck(
            name=one.name, item=one.item, revision=one.revision, ok=one.ok, fresh=one.fresh
        )
        for one in known.checks
    ]


def _encoded(text: str) -> bytes:
    """Returns a text as it is written to a file.

    Raises:
        InvalidInput: it has half of a character, or a character that no text has.
    """
    try:
        body = text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(
            "Text must not hold lone surrogates (half of a character). Nothing was changed."
        ) from None
    if b"\0" in body:
        raise InvalidInput(
            "Text must not hold NUL characters. Nothing was changed; binary=true takes base64."
        )
    return body


def _decoded(text: str) -> bytes:
    """Returns the bytes that base64 stands for.

    Raises:
        InvalidInput: it is none.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput(
            "content is not base64, which binary=true says it is. Nothing was changed; leave out binary for text."
        ) from None
