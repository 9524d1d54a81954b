"""Posts as callers give them: checked fields become drafts and references."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, get_args

from blackboard_mcp.protocols.access import Role
from blackboard_mcp.protocols.adding import Addition
from blackboard_mcp.protocols.agreements import Ask
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.items import (
    DELETED,
    MAX_EDGES,
    MAX_METADATA,
    MAX_TAG,
    MAX_TAGS,
    MAX_TEXT,
    MAX_TEXT_BYTES,
    Draft,
    EdgeKind,
    ItemType,
    Ref,
    Status,
    Visibility,
    content_hash,
    parse_ref,
)
from blackboard_mcp.protocols.keys import MAX_KEY, check_key
from blackboard_mcp.protocols.names import MAX_NAME, check_name, is_reserved
from blackboard_mcp.protocols.tokens import Tokenizer
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from .agreement import Agree, asking

MAX_TTL = 10 * 365 * 86_400

# What a schema shows is paid for by every agent in every session: ranges and enumerations that an error
# names anyway are left out of it (`WithJsonSchema`); the checks stay.
_ANY_TEXT = WithJsonSchema({"type": "string", "maxLength": 64})
_ANY_INTEGER = WithJsonSchema({"type": "integer"})
_ANY_NUMBER = WithJsonSchema({"type": "number"})


def _in_capitals(value: object) -> object:
    """A name of a type or status in any case."""
    return value.upper() if isinstance(value, str) else value


def _listed(value: object) -> object:
    """One string where a list of them is meant."""
    return [value] if isinstance(value, str) else value


ANY_CASE = BeforeValidator(_in_capitals)
ONE_OR_MORE = BeforeValidator(_listed)

Text = Annotated[str, Field(max_length=MAX_TEXT)]
Id = Annotated[str, Field(max_length=40)]
Tag = Annotated[str, Field(min_length=1, max_length=MAX_TAG)]
Tags = Annotated[list[Tag], Field(max_length=MAX_TAGS), ONE_OR_MORE]
Key = Annotated[str, Field(max_length=MAX_KEY)]
EdgeName = Literal[
    "depends_on",
    "replies_to",
    "critiques",
    "supports",
    "refutes",
    "derived_from",
    "supersedes",
    "analyzed_by",
]
Edges = Annotated[
    dict[EdgeName, Annotated[list[Id], Field(max_length=MAX_EDGES), ONE_OR_MORE]],
    Field(max_length=8),
    WithJsonSchema(
        {
            "type": "object",
            "maxProperties": 8,
            "description": f"{{kind: ids}}: {' '.join(get_args(EdgeName))}",
        }
    ),
]
PostType = Literal[
    "FACT",
    "HYPOTHESIS",
    "LOG",
    "PLAN",
    "DECISION",
    "CRITIQUE",
    "REPLY",
    "QUESTION",
    "ANSWER",
    "PROBLEM",
    "CONSTRAINT",
    "HOT_ISSUE",
    "RESULT",
]
"""The types agents may post; the server writes SUMMARY."""
PostedType = Annotated[
    PostType,
    ANY_CASE,
    WithJsonSchema({"type": "string", "maxLength": 16, "description": " ".join(get_args(PostType))}),
]
"""The same, named in the schema as it costs least."""
TypeName = Literal[PostType, "SUMMARY"]
StatusName = Annotated[
    Literal["ACTIVE", "DEBATED", "RESOLVED", "WITHDRAWN", "INVALIDATED", "DELETED"],
    ANY_CASE,
    WithJsonSchema({"type": "string", "maxLength": 11}),
]
AnyType = Annotated[TypeName, ANY_CASE, _ANY_TEXT]
"""A type, where the schema need not list them again."""
Importance = Annotated[int, Field(ge=1, le=5), WithJsonSchema({"type": "integer", "maximum": 5})]
Metadata = Annotated[dict[str, Any], Field(max_length=200)]
Ttl = Annotated[float, Field(ge=0, le=MAX_TTL), _ANY_NUMBER]
VisibilityName = Annotated[Literal["board", "team", "private"], _ANY_TEXT]
ExpectedVersion = Annotated[
    int,
    Field(ge=0, le=2_000_000_000),
    _ANY_INTEGER,
]
SequenceNumber = Annotated[int, Field(ge=0, le=2**53), _ANY_INTEGER]
Page = Annotated[int, Field(ge=1, le=200), _ANY_INTEGER]
Hits = Annotated[int, Field(ge=1, le=100), _ANY_INTEGER]
MOST_SECONDS = 50
"""The longest wait of one call: many clients cut calls that take a minute."""
Seconds = Annotated[float, Field(ge=0, le=MOST_SECONDS), _ANY_NUMBER]


class PostFields(BaseModel):
    """One post: the arguments of `post` without `items`, `board` and `idempotency_key`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: Text | None = None
    type: PostedType | None = None
    importance: Importance | None = None
    tags: Tags | None = None
    edges: Edges | None = None
    key: Key | None = None
    expected_version: ExpectedVersion | None = None
    id: Id | None = None
    status: StatusName | None = None
    visibility: VisibilityName | None = None
    ttl_seconds: Ttl | None = None
    metadata: Metadata | None = None
    agree: Agree | None = None

    def digest_part(self) -> dict[str, Any]:
        return self.model_dump(exclude_defaults=True)


class WriteFields(PostFields):
    """One write of a transaction: a post, or something to add to an entry."""

    add: int | float | None = None


def digest(posts: list[PostFields]) -> str:
    """What an idempotency key stands for."""
    body = json.dumps([p.digest_part() for p in posts], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(body.encode()).hexdigest()


def draft(fields: PostFields, tokenizer: Tokenizer, place: int) -> Draft:
    """A draft of the board store; `place` counts from 0 in the batch.

    Raises:
        InvalidInput: something is off, named.
    """
    target = None if fields.id is None else parse_ref(fields.id).number
    text = fields.text
    if fields.status == DELETED:
        return _delete(fields, target)
    add = fields.add if isinstance(fields, WriteFields) else None
    if add is not None and (text is not None or (fields.key is None and target is None)):
        raise InvalidInput(
            'add stands in place of text, with the key (or id) of the entry to add to: {"key": "total", "add": 45}. '
            "Nothing was changed."
        )
    if text is None and target is None and add is None:
        raise InvalidInput(
            "A post needs text (or id, to change status, tags … of an item). Nothing was changed."
        )
    if text is not None and not text.strip():
        raise InvalidInput("The text of a post must not be empty. Nothing was changed.")
    if text is not None:
        check_text(text)
    if fields.expected_version is not None and fields.key is None and target is None:
        raise InvalidInput("expected_version goes with key (0 = must not exist) or id. Nothing was changed.")
    if fields.ttl_seconds == 0 and fields.key is None and target is None:
        raise InvalidInput(
            "ttl_seconds=0 ends the time to live of an item that is there: it goes with id or key. Nothing was "
            "changed; a new item lasts unless ttl_seconds is above 0."
        )
    if fields.type == "CRITIQUE" and target is None and not (fields.edges or {}).get("critiques"):
        raise InvalidInput(
            'A CRITIQUE names the item it criticises: post(type="CRITIQUE", edges={"critiques": ["H-17"]}, text="…"). '
            "Nothing was changed."
        )
    edges: list[tuple[EdgeKind, int]] = []
    for kind, targets in (fields.edges or {}).items():
        for name in targets:
            edges.append((EdgeKind(kind), _target(name, place)))
    if len(edges) > MAX_EDGES:
        raise InvalidInput(f"{len(edges)} edges; {MAX_EDGES} are allowed. Nothing was changed.")
    return Draft(
        text=text,
        type=None if fields.type is None else ItemType(fields.type),
        importance=fields.importance,
        tags=None if fields.tags is None else check_tags(fields.tags),
        edges=tuple(dict.fromkeys(edges)),
        key=None if fields.key is None else check_key(fields.key),
        expected_version=fields.expected_version,
        target=target,
        status=None if fields.status is None else Status(fields.status),
        visibility=None if fields.visibility is None else Visibility(fields.visibility),
        ttl_seconds=fields.ttl_seconds,
        metadata=None if fields.metadata is None else _metadata(fields.metadata),
        agree=None if fields.agree is None else _ask(fields.agree),
        tokens=0 if text is None else tokenizer.count(text),
        counted_by=tokenizer.name,
        sha256="" if text is None else content_hash(text),
        add=None if add is None else Addition.of(add, tokenizer.count),
        letters=_lettered([*(() if fields.id is None else (fields.id,)), *_cited(fields)]),
    )


def _ask(agree: list[str]) -> Ask:
    wanted = asking(agree)
    instead = 'agree=["all"] asks everybody who is here; else name each agent.'
    return replace(wanted, names=tuple(dict.fromkeys(check_addressed(n, instead) for n in wanted.names)))


def _cited(fields: PostFields) -> list[str]:
    """The items that the edges name, without those of the same batch."""
    return [name for names in (fields.edges or {}).values() for name in names if not name.startswith("$")]


def _lettered(names: list[str]) -> tuple[Ref, ...]:
    return tuple(ref for ref in map(parse_ref, names) if ref.letter is not None)


_WITH_DELETE = {"key", "id", "expected_version", "visibility", "status"}


def _delete(fields: PostFields, target: int | None) -> Draft:
    """The draft that deletes an entry.

    Raises:
        InvalidInput: no entry is named, or something is said of it as well.
    """
    if fields.key is None and target is None:
        raise InvalidInput(
            "status DELETED goes with the key (or id) of the entry to delete. Nothing was changed."
        )
    more = sorted(fields.digest_part().keys() - _WITH_DELETE)
    if more:
        raise InvalidInput(
            f"status DELETED goes with key or id, expected_version and visibility alone; leave out "
            f"{', '.join(more)}. Nothing was changed."
        )
    return Draft(
        text=None,
        key=None if fields.key is None else check_key(fields.key),
        expected_version=fields.expected_version,
        target=target,
        visibility=None if fields.visibility is None else Visibility(fields.visibility),
        delete=True,
        letters=_lettered([] if fields.id is None else [fields.id]),
    )


def check_text(text: str) -> None:
    """Refuses what no UTF-8 file can hold, NUL, and what no answer has room for."""
    if "\0" in text:
        raise InvalidInput("Text must not hold NUL characters. Nothing was changed.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(
            "Text must not hold lone surrogates (half of a character). Nothing was changed."
        ) from None
    if (
        len(text) * 6 > MAX_TEXT_BYTES
        and len(json.dumps(text, ensure_ascii=False).encode()) > MAX_TEXT_BYTES + 2
    ):
        raise InvalidInput(
            f"A text has at most {MAX_TEXT_BYTES:,} bytes as JSON, where a control character takes 6. Nothing was "
            "changed; leave them out, or post it in parts."
        )


def _target(name: str, place: int) -> int:
    if name.startswith("$"):
        index = int(name[1:]) if name[1:].isdecimal() and len(name) <= 4 else 0
        if not 1 <= index <= place:
            raise InvalidInput(
                f"'{name[:10]}' must be $1 … for an item earlier in the same batch. Nothing was changed."
            )
        return -index
    return parse_ref(name).number


def check_tags(tags: list[str]) -> tuple[str, ...]:
    for tag in tags:
        check_text(tag)
        if tag != tag.strip() or any(c in tag for c in "\n\r\t,"):
            raise InvalidInput(
                f"Tag '{tag[:40]}' has a comma, line break or outer space. Nothing was changed."
            )
    return tuple(dict.fromkeys(tags))


def _metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    try:
        body = json.dumps(metadata, ensure_ascii=False, allow_nan=False)
        body.encode()
    except (ValueError, TypeError, RecursionError):
        raise InvalidInput("metadata must be plain JSON (no NaN, no surrogates). Nothing changed.") from None
    if len(body) > MAX_METADATA:
        raise InvalidInput(
            f"metadata has {len(body)} characters of JSON; {MAX_METADATA} are allowed. Nothing was changed."
        )
    return metadata


_BOARD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


def check_board(board: str) -> str:
    """`board` itself when it can be a board's id."""
    if not _BOARD.match(board) or board.endswith(".json"):
        raise InvalidInput(
            f"'{board[:40]}' is not a board id: 1-64 letters, digits, '.', '_' or '-', beginning with a letter "
            "or digit and not ending in .json. Nothing was changed."
        )
    return board


def check_agent(name: str) -> str:
    """The name as it is kept, when an agent can be called so."""
    return check_name(name)


WATCHERS_INSTEAD: Final = (
    "watchers are other agents, each by name, as your view lists them; you watch with "
    'debate(op="watch", id="…").'
)


def check_addressed(name: str, instead: str) -> str:
    """The name of somebody who is spoken to, as it is kept; `instead` teaches who writes a word that names nobody.

    Raises:
        InvalidInput: nobody can be called so.
    """
    if len(name) <= MAX_NAME and is_reserved(name):
        raise InvalidInput(f"Nobody is called '{name}'. {instead} Nothing was changed.")
    return check_agent(name)


def check_member(name: str, role: Role | None) -> tuple[str, Role | None]:
    """A member to be, by name; who was one before can be taken out by any name."""
    if role is None:
        return check_agent(name), None
    return check_addressed(name, "members gives roles to agents, each by name."), role


def instant(text: str | None, name: str) -> datetime | None:
    """An ISO 8601 instant; without an offset it is UTC."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidInput(
            f"{name}='{text[:40]}' is not an ISO 8601 time such as 2026-11-21T08:00:00Z."
        ) from None
    return at
