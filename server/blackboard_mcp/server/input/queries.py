"""Queries of callers, checked the same for tools and for programs."""

from __future__ import annotations

import unicodedata

from blackboard_mcp.protocols.archive import ArchiveQuery
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.filters import ItemQuery, Latest
from blackboard_mcp.protocols.items import DELETED, ItemType, Status, Zone, parse_ref
from blackboard_mcp.protocols.keys import check_glob

from .posts import instant

QUERY_PAGE = 20
HITS = 10


def composed(name: str | None) -> str | None:
    """Returns a name in the Unicode form in which names are stored (NFC)."""
    return None if name is None else unicodedata.normalize("NFC", name)


def item_query(
    *,
    text: str | None,
    type: str | None,
    key: str | None,
    tags: list[str] | None,
    author: str | None,
    status: str | None,
    thread: str | None,
    zone: str | None,
    limit: int | None,
    cursor: str | None,
    any_tags: list[str] | None,
    no_tags: list[str] | None,
    after: str | None,
    before: str | None,
    latest: Latest | None = None,
) -> ItemQuery:
    """Returns the store's query for the arguments of the tool `query`; instants are ISO 8601 texts.

    Raises:
        InvalidInput: an argument is not valid.
    """
    if cursor is not None and not (cursor.isdecimal() and cursor.isascii()):
        raise InvalidInput("cursor must be the one that the former page named.")
    return ItemQuery(
        text=text,
        types=() if type is None else (ItemType(type),),
        key=None if key is None else check_glob(key),
        tags=tuple(tags or ()),
        any_tags=tuple(any_tags or ()),
        no_tags=tuple(no_tags or ()),
        author=composed(author),
        statuses=() if status in (None, DELETED) else (Status(status),),
        thread=None if thread is None else parse_ref(thread).number,
        zone=_zone("all" if status == DELETED else zone or ("working" if latest is None else "all")),
        after=instant(after, "after"),
        before=instant(before, "before"),
        limit=limit or QUERY_PAGE,
        cursor=None if cursor is None else int(cursor),
        deleted=status == DELETED,
        latest=latest,
    )


def _zone(name: str) -> Zone | None:
    """Returns the zone of that name, `None` for all."""
    return None if name == "all" else Zone(name)


def archive_query(
    *,
    text: str | None,
    type: str | None,
    tags: list[str] | None,
    author: str | None,
    after: str | None,
    before: str | None,
    limit: int | None,
    thread: str | None,
    any_tags: list[str] | None = None,
    no_tags: list[str] | None = None,
    key: str | None = None,
    status: str | None = None,
    zone: str | None = None,
) -> tuple[ArchiveQuery, ItemQuery]:
    """Returns the queries of `query_archive` for the index and for the store; the index query's board is left
    empty. The zone of the second is searched: by default all for a text, else the archive.

    Raises:
        InvalidInput: an argument is not valid.
    """
    if status == DELETED:
        raise InvalidInput(
            'The archive\'s search finds no deleted items: query(status="DELETED") lists them.'
        )
    since, until = instant(after, "after"), instant(before, "before")
    kinds = () if type is None else (ItemType(type),)
    number = None if thread is None else parse_ref(thread).number
    query = ArchiveQuery(
        board="",
        text=text or "",
        limit=limit or HITS,
        types=tuple(str(k) for k in kinds),
        tags=tuple(tags or ()),
        author=composed(author),
        thread=number,
        after=since,
        before=until,
    )
    words = ItemQuery(
        text=text,
        types=kinds,
        tags=tuple(tags or ()),
        author=composed(author),
        thread=number,
        key=None if key is None else check_glob(key),
        statuses=() if status is None else (Status(status),),
        any_tags=tuple(any_tags or ()),
        no_tags=tuple(no_tags or ()),
        zone=_zone(zone or ("all" if text else "archive")),
        after=since,
        before=until,
        limit=limit or HITS,
    )
    return query, words
