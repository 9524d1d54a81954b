"""The parts of every communication protocol: key shapes, message bodies, states, and the base class.

A protocol says under which keys its messages stand, who writes them when, and what their texts contain. Its keys are
relative to the board and to a **scope**, one segment that keeps two uses of the same protocol apart.
`RequestResult(scope="research").request_key("r1")` is `research:request:r1`: the scope, the kind of message, and the
typed parts of its shape. So every key can be parsed again.

Nothing here posts or reads anything. The grammar of keys and of globs is that of `protocols.keys`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, ClassVar, Literal, Self

from blackboard_mcp.protocols.values import dataclass
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from ..errors import Conflict, InvalidInput
from ..items import Visibility
from ..keys import check_glob, check_key

MAX_BODY = 100_000
"""Longest text of a message, in characters."""
MAX_SCOPE = 64
MAX_PART = 64
MAX_LIST = 200
"""Most elements of a list in a body."""
_NOTHING = "Nothing was changed."
_KIND = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")
_SEGMENT = re.compile(r"[\w\-./@#]+\Z")
_NUMBER = re.compile(r"(?:0|[1-9][0-9]{0,8})\Z")

Words = Annotated[str, StringConstraints(min_length=1, max_length=20_000, pattern=r"\S")]
"""A text that is not blank."""
Line = Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=r"\S")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=MAX_PART, pattern=r"^[\w\-./@#]+$")]
"""The name of an agent, an id or a term, in the form that a key allows."""
Count = Annotated[int, Field(ge=0, le=999_999_999)]
Share = Annotated[float, Field(ge=0, le=1)]


def _plain(value: Any) -> Any:
    """Returns `value` if it is plain JSON within the bounds.

    Raises:
        ValueError: not JSON, NaN or infinite, nested deeper than 8, or of more than 1,000 values.
    """
    layer: list[Any] = [value]
    seen = depth = 0
    while layer:
        depth, seen = depth + 1, seen + len(layer)
        if depth > 8 or seen > 1_000:
            raise ValueError("at most 8 levels deep and 1,000 values")
        below: list[Any] = []
        for part in layer:
            if isinstance(part, dict):
                if not all(isinstance(name, str) and len(name) <= 200 for name in part):
                    raise ValueError("names are texts of at most 200 characters")
                below += part.values()
            elif isinstance(part, list):
                below += part
            elif isinstance(part, float) and not math.isfinite(part):
                raise ValueError("no NaN and no infinities")
            elif not (part is None or isinstance(part, str | bool | int | float)):
                raise ValueError("only what JSON has")
        layer = below
    return value


Facts = Annotated[dict[str, Any], BeforeValidator(_plain), Field(max_length=200)]
"""A JSON object with contents of the users' choice: at most 8 levels deep and 1,000 values."""


class Body(BaseModel):
    """The contents of a message: strictly typed, bounded, and without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)

    def to_text(self) -> str:
        """Returns the text to post: compact JSON without fields that have their default.

        Raises:
            InvalidInput: the text is longer than `MAX_BODY`.
        """
        text = self.model_dump_json(exclude_defaults=True)
        if len(text) > MAX_BODY:
            raise InvalidInput(
                f"This {type(self).__name__} has {len(text):,} characters; {MAX_BODY:,} are allowed. {_NOTHING}"
            )
        return text

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Parses a message from a text.

        Raises:
            InvalidInput: too long, not JSON, or not of this form; the first mistake is named.
        """
        if len(text) > MAX_BODY:
            raise InvalidInput(
                f"A {cls.__name__} has at most {MAX_BODY:,} characters, not {len(text):,}. {_NOTHING}"
            )
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part)[:40] for part in first["loc"]) or "the text"
            raise InvalidInput(
                f"Not a {cls.__name__}: {place}: {first['msg'][:200]}. {_NOTHING} Its fields: "
                f"{', '.join(cls.model_fields)}."
            ) from None


@dataclass(frozen=True, slots=True)
class Part:
    """One typed part of a key: a `name` (a word, an id, an agent) or a `number`, counted from 0 or 1."""

    name: str
    kind: Literal["name", "number"] = "name"

    def written(self, value: str | int) -> str:
        """Returns the value as a segment of a key.

        Raises:
            InvalidInput: the value does not fit the part; the message names the mistake.
        """
        if self.kind == "number":
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 999_999_999:
                raise InvalidInput(
                    f"{self.name} is a whole number from 0 to 999,999,999, not {str(value)[:40]!r}. {_NOTHING}"
                )
            return str(value)
        return _segment(value, self.name, MAX_PART)

    def read(self, segment: str) -> str | int | None:
        """Parses the value in a segment; `None` if the segment does not fit the part."""
        if self.kind == "number":
            return int(segment) if _NUMBER.match(segment) else None
        try:
            return _segment(segment, self.name, MAX_PART)
        except InvalidInput:
            return None


def _segment(value: object, what: str, most: int) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"{what} must not be empty. {_NOTHING}")
    if len(value) > most:
        raise InvalidInput(f"{what} has {len(value)} characters; {most} are allowed. {_NOTHING}")
    shown = value[:60]
    if "*" in value:
        raise InvalidInput(f"{what} '{shown}' has a wildcard; those are for patterns. {_NOTHING}")
    if value.startswith("/") or "://" in value:
        raise InvalidInput(
            f"{what} '{shown}' is absolute. Keys are relative to the board and its scope: no board:// and no "
            f"leading '/'. {_NOTHING}"
        )
    if value.startswith(":") or value.endswith(":"):
        raise InvalidInput(f"{what} '{shown}' begins or ends with ':'. {_NOTHING}")
    if ":" in value:
        raise InvalidInput(
            f"{what} '{shown}' has a ':' and so looks like a whole key; it is one segment (team/research, r1), and "
            f"the protocol puts the rest of the key around it. {_NOTHING}"
        )
    if not _SEGMENT.match(value):
        raise InvalidInput(f"{what} '{shown}' holds letters, digits and _ - . / @ # only. {_NOTHING}")
    return value


@dataclass(frozen=True, slots=True)
class KeyShape:
    """One kind of message: its keys consist of scope, kind and parts, and its text is a `body`.

    `writer` says who writes it and when, as a sentence for people.
    """

    kind: str
    parts: tuple[Part, ...]
    body: type[Body]
    writer: str

    def outline(self, scope: str = "{scope}") -> str:
        """Returns the shape as readers see it: `{scope}:part:{id}:{number}`."""
        return ":".join([scope, self.kind, *(f"{{{part.name}}}" for part in self.parts)])


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed key: its protocol, scope, shape and typed parts."""

    protocol: type[MessageProtocol]
    scope: str
    shape: KeyShape
    parts: Mapping[str, str | int]

    @property
    def kind(self) -> str:
        """The kind of the message."""
        return self.shape.kind


@dataclass(frozen=True, slots=True)
class States:
    """The states of a protocol's subject: where it may begin, and the states that each may lead to."""

    first: frozenset[str]
    moves: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def final(self) -> frozenset[str]:
        """The states that lead to no other."""
        return frozenset(state for state, after in self.moves.items() if not after)

    def check(self, old: str | None, new: str) -> None:
        """Checks that `old` may become `new`; `old` is `None` if nothing exists yet.

        Raises:
            Conflict: no declared transition leads from `old` to `new`.
        """
        allowed = self.first if old is None else self.moves.get(old, frozenset())
        if new not in allowed:
            there = "there is nothing yet" if old is None else f"it is {old}"
            ways = ", ".join(sorted(allowed)) or "none: that state is final"
            raise Conflict(
                f"It cannot become {new[:40]}: {there}. Allowed: {ways}. {_NOTHING}",
                state=old,
                allowed=sorted(allowed),
            )


class MessageProtocol:
    """The base of all protocols; a subclass defines its name, version and shapes, and states if it has any.

    The first line of the subclass's docstring says what the protocol is for. Kinds in `shapes` must differ from those
    of all other registered protocols. `states` are those of the things that the protocol is about. `level` says who
    sees its messages: everybody on the board, the agents of the writer's team, or the writer alone.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    shapes: ClassVar[tuple[KeyShape, ...]]
    states: ClassVar[States | None] = None
    level: ClassVar[Visibility] = Visibility.BOARD

    def __init__(self, scope: str) -> None:
        """Makes the protocol for one scope.

        Raises:
            InvalidInput: the scope is not valid; the message names the mistake.
        """
        self.scope = _segment(scope, "scope", MAX_SCOPE)

    @classmethod
    def purpose(cls) -> str:
        """Returns a sentence on what the protocol is for."""
        return (cls.__doc__ or "").strip().split("\n", 1)[0]

    @classmethod
    def shape(cls, kind: str) -> KeyShape:
        """Returns the shape of a kind of message.

        Raises:
            InvalidInput: the protocol has no such kind of message.
        """
        for shape in cls.shapes:
            if shape.kind == kind:
                return shape
        kinds = ", ".join(shape.kind for shape in cls.shapes)
        raise InvalidInput(f"{cls.name} has no '{kind[:40]}'; there are: {kinds}. {_NOTHING}")

    def key(self, kind: str, **parts: str | int) -> str:
        """Returns the key of a message.

        Raises:
            InvalidInput: a part is missing, unknown or of the wrong kind; the message names the mistake.
        """
        shape = self.shape(kind)
        wanted = [part.name for part in shape.parts]
        if sorted(parts) != sorted(wanted):
            raise InvalidInput(
                f"'{kind}' takes {', '.join(wanted)}, not {', '.join(sorted(parts)) or 'nothing'}. {_NOTHING}"
            )
        return check_key(
            ":".join([self.scope, kind, *(part.written(parts[part.name]) for part in shape.parts)])
        )

    def pattern(self, kind: str | None = None, **parts: str | int) -> str:
        """Returns a glob for queries and subscriptions.

        It matches the whole scope, one `kind`, or messages of that kind with the given parts.

        Raises:
            InvalidInput: a part is unknown or of the wrong kind.
        """
        if kind is None:
            return check_glob(f"{self.scope}:**")
        shape = self.shape(kind)
        unknown = parts.keys() - {part.name for part in shape.parts}
        if unknown:
            raise InvalidInput(f"'{kind}' has no part {', '.join(sorted(unknown))[:80]}. {_NOTHING}")
        written = (part.written(parts[part.name]) if part.name in parts else "*" for part in shape.parts)
        return check_glob(":".join([self.scope, kind, *written]))

    def parse(self, key: str) -> Address | None:
        """Parses a key of this protocol and scope; returns `None` for every other key."""
        found = self.read_key(key)
        return found if found is not None and found.scope == self.scope else None

    @classmethod
    def read_key(cls, key: str) -> Address | None:
        """Parses a key of this protocol in any scope; returns `None` for every other key."""
        segments = key.split(":")
        if len(segments) < 2:
            return None
        shape = next((shape for shape in cls.shapes if shape.kind == segments[1]), None)
        if shape is None or len(segments) != 2 + len(shape.parts):
            return None
        parts: dict[str, str | int] = {}
        for part, segment in zip(shape.parts, segments[2:], strict=True):
            value = part.read(segment)
            if value is None:
                return None
            parts[part.name] = value
        try:
            check_key(key)
            scope = _segment(segments[0], "scope", MAX_SCOPE)
        except InvalidInput:
            return None
        return Address(cls, scope, shape, parts)

    def decode(self, key: str, text: str) -> tuple[Address, Body]:
        """Parses the key and the text of a message.

        Raises:
            InvalidInput: not a key of this protocol and scope, or a text that does not fit the kind of message.
        """
        address = self.parse(key)
        if address is None:
            shapes = ", ".join(shape.outline(self.scope) for shape in self.shapes)
            raise InvalidInput(f"'{key[:80]}' is no key of {self.name}; its keys are {shapes}. {_NOTHING}")
        return address, address.shape.body.from_text(text)


ID = Part("id")
AGENT = Part("agent")
NUMBER = Part("number", "number")
