"""Structured results about the files of a board; see `wire`."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from .workspace import ArtifactOp, Revision


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class WireRevision(_Wire):
    """One write to one file."""

    revision: int
    path: str
    op: ArtifactOp
    before: int = Field(description="the file's revision before it; 0 if there was none")
    size: int = Field(description="bytes after the write")
    lines: int | None = Field(description="null if the content is not text")
    blob: str = Field(description="Git's id of the content; empty if it was deleted")
    agent: str
    message: str
    at: datetime

    @classmethod
    def of(cls, revision: Revision) -> WireRevision:
        """Returns the structured form of a revision."""
        return cls(
            revision=revision.number,
            path=revision.path,
            op=revision.op,
            before=revision.before,
            size=revision.size,
            lines=revision.lines,
            blob=revision.blob,
            agent=revision.agent,
            message=revision.message,
            at=revision.at,
        )


class WireCheck(_Wire):
    """What a check of the operator last gave."""

    name: str
    item: str | None = Field(description="its RESULT item; null before its first run")
    revision: int
    ok: bool
    fresh: bool = Field(description="false if a file that it is for was written after that revision")


class ArtifactWriteAnswer(WireRevision):
    """The file after the write."""

    changed: bool = Field(description="false if the file had this content already")
    former: int | None = Field(description="the revision that the file had; null if it did not exist")
    fault: str | None = Field(description="what is wrong with its syntax, if that is checked")
    rules: list[str] = Field(description="texts of the rules in force for the path")
    violations: list[str] = Field(default=[], description="hot issues on rules that the files now violate")
    checks: list[WireCheck] = []
    seq: int


class ArtifactReadAnswer(WireRevision):
    """A file, or some of its lines."""

    start: int = Field(description="first line of text; 0 if none is given")
    end: int = Field(description="last line of text")
    text: str | None = Field(description="these lines; null if the file is not text")
    base64: str | None = Field(description="the whole file, if it is not text and small enough")
    rules: list[str] = Field(description="ids of the rules in force for the path")
    checks: list[WireCheck] = []
    seq: int


class WireFolder(_Wire):
    path: str
    files: int = Field(description="files in it and below")
    size: int = Field(description="their bytes")


class WirePart(_Wire):
    title: str = Field(description="what these lines define, under which heading")
    start: int
    end: int


class WireOutline(_Wire):
    path: str
    parts: list[WirePart]


class WireArtifactHit(WirePart):
    """Lines of a file that a search found."""

    path: str
    revision: int
    line: int = Field(description="the line with most of the words")
    text: str = Field(description="that line")
    score: float = Field(description="larger is better; comparable within one answer")


class ArtifactSearchAnswer(_Wire):
    """What a search found, the best first."""

    hits: list[WireArtifactHit]
    files: int = Field(description="how many files were searched")
    rules: list[str] = Field(description="ids of the rules in force for the folder")
    checks: list[WireCheck] = []
    seq: int


class ArtifactListAnswer(_Wire):
    """Files, and the folders that are deeper than was asked for."""

    files: list[WireRevision]
    folders: list[WireFolder]
    outlines: list[WireOutline] = Field(description="of the first 60 files, if asked for")
    next: str | None = Field(description="pass it as `after` to list more")
    rules: list[str] = Field(description="ids of the rules in force for the folder")
    checks: list[WireCheck] = []
    seq: int


class ArtifactHistoryAnswer(_Wire):
    """Revisions, the newest first."""

    revisions: list[WireRevision]
    diff: str | None = Field(description="a unified diff of the first revision, if asked for")
    next: int | None = Field(description="pass it as `revision` to see older ones")
    rules: list[str] = Field(description="ids of the rules in force for the path")
    checks: list[WireCheck] = []
    seq: int
