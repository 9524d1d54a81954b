"""Posts of callers: checked fields become drafts and references."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, Final, get_args

from blackboard_mcp.protocols import literals
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
    TALKING,
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
from blackboard_mcp.protocols.literals import EdgeName, TypeName
from blackboard_mcp.protocols.literals import PostTypeName as PostType
from blackboard_mcp.protocols.names import MAX_NAME, check_name, is_reserved
from blackboard_mcp.protocols.tokens import Tokenizer
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from .agreement import Agree, asking

MAX_TTL = 10 * 365 * 86_400

# Every agent pays for the schema in every session. Ranges and enumerations that errors name anyway are
# left out of it by `WithJsonSchema`; they are still checked.
_ANY_TEXT = WithJsonSchema({"type": "string", "maxLength": 64})
_ANY_INTEGER = WithJsonSchema({"type": "integer"})
_ANY_NUMBER = WithJsonSchema({"type": "number"})


def _in_capitals(value: object) -> object:
    """Returns a text in capitals, so that names of types and statuses are accepted in any case."""
    return value.upper() if isinstance(value, str) else value


def _listed(value: object) -> object:
    """Returns a single string as a list of one, where a list is expected."""
    return [value] if isinstance(value, str) else value


ANY_CASE = BeforeValidator(_in_capitals)
ONE_OR_MORE = BeforeValidator(_listed)

Text = Annotated[str, Field(max_length=MAX_TEXT)]
Id = Annotated[str, Field(max_length=40)]
Tag = Annotated[str, Field(min_length=1, max_length=MAX_TAG)]
Tags = Annotated[list[Tag], Field(max_length=MAX_TAGS), ONE_OR_MORE]
Key = Annotated[str, Field(max_length=MAX_KEY)]
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
PostedType = Annotated[
    PostType,
    ANY_CASE,
    WithJsonSchema({"type": "string", "maxLength": 16, "description": " ".join(get_args(PostType))}),
]
"""The same types, named in the schema in the cheapest way."""
StatusName = Annotated[
    literals.StatusName,
    ANY_CASE,
    WithJsonSchema({"type": "string", "maxLength": 11}),
]
AnyType = Annotated[TypeName, ANY_CASE, _ANY_TEXT]
"""Any type of item, for arguments whose schema need not list the types again."""
Importance = Annotated[int, Field(ge=1, le=5), WithJsonSchema({"type": "integer", "maximum": 5})]
Metadata = Annotated[dict[str, Any], Field(max_length=200)]
Ttl = Annotated[float, Field(ge=0, le=MAX_TTL), _ANY_NUMBER]
VisibilityName = Annotated[literals.VisibilityName, _ANY_TEXT]
ExpectedVersion = Annotated[
    int,
    Field(ge=0, le=2_000_000_000),
    _ANY_INTEGER,
]
SequenceNumber = Annotated[int, Field(ge=0, le=2**53), _ANY_INTEGER]
Page = Annotated[int, Field(ge=1, le=200), _ANY_INTEGER]
Hits = Annotated[int, Field(ge=1, le=100), _ANY_INTEGER]
MOST_SECONDS = 50
"""Longest wait of one call in seconds; many clients cut off calls that take a minute."""
Seconds = Annotated[
    float, Field(ge=0), AfterValidator(lambda seconds: min(seconds, MOST_SECONDS)), _ANY_NUMBER
]
"""Seconds to wait; more than the longest wait counts as that."""


class PostFields(BaseModel):
    """One post: the arguments of `post` without `items`, `board` and `idempotency_key`."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

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
    agree: Annotated[Agree, ONE_OR_MORE] | None = None
    thread: Id | None = None

    def digest_part(self) -> dict[str, Any]:
        """Returns the fields that were given, as JSON values."""
        return self.model_dump(exclude_defaults=True)


def unchecked(**given: Any) -> PostFields:
    """Returns a post of fields that were checked, as `PostFields.model_construct` does, in a fifth of the time."""
    made = PostFields.__new__(PostFields)
    set_ = object.__setattr__
    set_(made, "__dict__", {**_NOTHING, **given})
    set_(made, "__pydantic_fields_set__", set(given))
    set_(made, "__pydantic_extra__", None)
    set_(made, "__pydantic_private__", None)
    return made


_NOTHING: Final = dict.fromkeys(PostFields.model_fields)
"""The defaults of the fields of a post."""


class WriteFields(PostFields):
    """One write of a transaction: a post, something to add to an entry, or a deletion by a pattern of keys.

    `expected` is the number of entries that the pattern is to delete.
    """

    add: int | float | None = None
    expected: Annotated[int, Field(ge=0, le=1_000_000)] | None = None


_TYPES: Final = {str(one): one for one in ItemType}
OF_ONE: Final = frozenset({"text", "key", "id", "expected_version"})
"""Fields that each post of a batch gives itself."""


def with_shared(given: dict[str, Any], shared: dict[str, Any], place: int) -> PostFields:
    """Returns a post of a batch: its checked fields, and of `shared` those that it does not give.

    A deletion gets no fields that it could not have. An answer gets no thread, for it stands where the answered item
    does; nor does a change of an item by `id`, nor the post that begins the thread. `place` is the post's place in the
    batch, from 0.
    """
    own = {name: value for name, value in given.items() if value is not None}
    merged = shared | own
    if merged.get("status") == DELETED:
        merged = {name: value for name, value in merged.items() if name in own or name in _WITH_DELETE}
    begins = merged.get("thread") == f"${place + 1}"
    if "thread" not in own and (begins or "id" in own or TALKING & (merged.get("edges") or {}).keys()):
        merged.pop("thread", None)
    return unchecked(**merged)


def digest(posts: list[PostFields]) -> str:
    """Returns the SHA-256 digest, in hexadecimal, of the posts that an idempotency key stands for."""
    body = json.dumps([p.digest_part() for p in posts], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(body.encode()).hexdigest()


def draft(fields: PostFields, tokenizer: Tokenizer, place: int) -> Draft:
    """Returns the board store's draft for a post; `place` is the post's place in the batch, from 0.

    Raises:
        InvalidInput: a field is wrong or does not go with the others; the message names it.
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
        type=None if fields.type is None else _TYPES.get(fields.type) or ItemType(fields.type),
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
        thread=None if fields.thread is None else _target(fields.thread, place),
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
    """Returns the ids that edges and thread name, without references to posts of the same batch (`$1`)."""
    named = [name for names in (fields.edges or {}).values() for name in names]
    return [
        name for name in (*named, *([fields.thread] if fields.thread else [])) if not name.startswith("$")
    ]


def _lettered(names: list[str]) -> tuple[Ref, ...]:
    return tuple(ref for ref in map(parse_ref, names) if ref.letter is not None)


_WITH_DELETE = {"key", "id", "expected_version", "visibility", "status"}


def _delete(fields: PostFields, target: int | None) -> Draft:
    """Returns the draft that deletes an entry.

    Raises:
        InvalidInput: no entry is named, or other fields are given as well.
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
    if fields.key is not None and "*" in fields.key:
        raise InvalidInput(
            f"'{fields.key[:80]}' is a pattern, and post deletes one entry. Nothing was changed; "
            'transaction(writes=[{"key": "draft:**", "status": "DELETED"}]) says what a pattern would delete.'
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
    """Checks that a text can be stored and sent: no NUL, no lone surrogate, not too many bytes as JSON.

    Raises:
        InvalidInput: it cannot.
    """
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
    """Returns the tags, each once.

    Raises:
        InvalidInput: a tag has a comma, a line break or space around it.
    """
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
    """Returns `board` when it is a valid board id.

    Raises:
        InvalidInput: it is not.
    """
    if not _BOARD.match(board) or board.endswith(".json"):
        raise InvalidInput(
            f"'{board[:40]}' is not a board id: 1-64 letters, digits, '.', '_' or '-', beginning with a letter "
            "or digit and not ending in .json. Nothing was changed."
        )
    return board


def check_agent(name: str) -> str:
    """Returns an agent's name in the form in which it is stored.

    Raises:
        InvalidInput: it is not a valid name.
    """
    return check_name(name)


WATCHERS_INSTEAD: Final = (
    "watchers are other agents, each by name, as your view lists them; you watch with "
    'debate(op="watch", id="…").'
)


def check_addressed(name: str, instead: str) -> str:
    """Returns the name of an addressed agent in the form in which it is stored.

    `instead` is advice for callers who used a reserved word as a name.

    Raises:
        InvalidInput: no agent can have this name.
    """
    if len(name) <= MAX_NAME and is_reserved(name):
        raise InvalidInput(f"Nobody is called '{name}'. {instead} Nothing was changed.")
    return check_agent(name)


def check_member(name: str, role: Role | None) -> tuple[str, Role | None]:
    """Returns the checked name and the role of a board's member. Without a role, reserved names pass, to be
    taken out.

    Raises:
        InvalidInput: no agent can have this name.
    """
    if role is None:
        return check_agent(name), None
    return check_addressed(name, "members gives roles to agents, each by name."), role


def instant(text: str | None, name: str) -> datetime | None:
    """Returns the instant of an ISO 8601 text in UTC; a text without an offset is taken as UTC. `None` stays
    `None`.

    Raises:
        InvalidInput: the text is no such instant; the message names the argument `name`.
    """
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
