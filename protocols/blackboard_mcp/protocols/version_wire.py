"""Structured results on the versions of items."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from .answers import Amendment, Version, Versions
from .items import DELETED, FORGOTTEN, Status, parse_ref


class WireVersion(BaseModel):
    """One version, without its text: `read` with `id@version` has that."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    version: int
    status: str | None = Field(
        description="at its end, or now; DELETED where it is a tombstone, FORGOTTEN where its content is gone, "
        "`None` where not known"
    )
    deleted: bool
    created_by: str = Field(description="who wrote it")
    created_at: datetime
    updated_by: str = Field(description="who changed last what may change of it")
    updated_at: datetime
    tokens: int
    sha256: str = Field(description="of the text's UTF-8 bytes, hexadecimal")
    tags: list[str]


class WireAmendment(BaseModel):
    """What one change without a new text did: values before and after, by name."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    seq: int
    agent: str
    at: datetime
    version: int = Field(description="the version that stood")
    was: dict[str, Any]
    now: dict[str, Any]


class WireVersions(BaseModel):
    """Versions of one item, newest first."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    id: str
    key: str | None
    newest: int = Field(description="the present version")
    versions: list[WireVersion]
    next: str | None = Field(description="what to read for those before, as one of `ids`")
    amendments: list[WireAmendment] = Field(
        default=[], description="the last changes of importance, tags, metadata and status, newest first"
    )


def status_of(status: str, *, deleted: bool, forgotten: bool) -> str:
    """Returns the status of a version, or the word that says why it has no content."""
    return FORGOTTEN if forgotten else DELETED if deleted else str(status)


def wire_versions(listed: Versions) -> WireVersions:
    """Returns versions as the structured result shows them."""
    return WireVersions(
        id=listed.id,
        key=listed.key,
        newest=listed.newest,
        versions=[
            WireVersion(
                version=v.version,
                status=status_of(v.status or "", deleted=v.deleted, forgotten=v.forgotten) or None,
                deleted=v.deleted,
                created_by=v.created_by,
                created_at=v.created_at,
                updated_by=v.updated_by,
                updated_at=v.updated_at,
                tokens=v.tokens,
                sha256=v.sha256,
                tags=list(v.tags),
            )
            for v in listed.versions
        ],
        next=None if listed.next is None else f"{listed.id}@*{listed.next}",
        amendments=[
            WireAmendment(
                seq=a.seq, agent=a.agent, at=a.at, version=a.version, was=dict(a.was), now=dict(a.now)
            )
            for a in listed.amendments
        ],
    )


def versions_of(listed: WireVersions) -> Versions:
    """Returns the versions that a structured result describes, the reverse of `wire_versions`."""
    return Versions(
        number=parse_ref(listed.id).number,
        id=listed.id,
        key=listed.key,
        newest=listed.newest,
        versions=tuple(
            Version(
                version=v.version,
                created_by=v.created_by,
                created_at=v.created_at,
                updated_by=v.updated_by,
                updated_at=v.updated_at,
                tokens=v.tokens,
                sha256=v.sha256,
                status=None if v.status in (None, DELETED, FORGOTTEN) else Status(v.status),
                deleted=v.deleted,
                tags=tuple(v.tags),
                forgotten=v.status == FORGOTTEN,
            )
            for v in listed.versions
        ),
        next=None if listed.next is None else int(listed.next.rpartition("*")[2]),
        seq=0,
        amendments=tuple(Amendment(a.seq, a.agent, a.at, a.version, a.was, a.now) for a in listed.amendments),
    )
