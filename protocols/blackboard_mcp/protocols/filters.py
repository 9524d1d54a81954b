"""What a reader asks for: queries of items, and filters of events that combine with all, any and not."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from .errors import InvalidInput
from .events import Event, EventType
from .items import ItemType, Status, Zone, parse_ref
from .keys import check_glob, compile_glob


@dataclass(frozen=True, slots=True)
class ItemQuery:
    """Which items to list, newest first. Every given condition must hold; `limit` is 1 to 200.

    `key` is a glob. `tags` must all be present, one of `any_tags`, none of `no_tags`. `text` matches
    when every word of it occurs, in any case. `zone` `None` means every zone. `cursor` is the number
    that the former page ended with.
    """

    text: str | None = None
    types: tuple[ItemType, ...] = ()
    key: str | None = None
    tags: tuple[str, ...] = ()
    any_tags: tuple[str, ...] = ()
    no_tags: tuple[str, ...] = ()
    author: str | None = None
    statuses: tuple[Status, ...] = ()
    thread: int | None = None
    zone: Zone | None = Zone.WORKING
    after: datetime | None = None
    before: datetime | None = None
    limit: int = 20
    cursor: int | None = None


_E = TypeVar("_E", EventType, ItemType)

_FIELDS = "key, event, agent, tags, type, thread, mentions, all, any, not"
_MAX_DEPTH = 5
_MAX_PARTS = 32


@dataclass(frozen=True, slots=True)
class EventFilter:
    """A condition on events. Every given part must hold; the empty filter matches everything.

    `mentions` holds for events that concern the subscriber: it is named with @, its item was replied to
    or critiqued, or it owes something.
    """

    key: str | None = None
    events: tuple[EventType, ...] = ()
    agents: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    types: tuple[ItemType, ...] = ()
    thread: int | None = None
    mentions: bool = False
    all: tuple[EventFilter, ...] = field(default=())
    any: tuple[EventFilter, ...] = field(default=())
    none: tuple[EventFilter, ...] = field(default=())

    def matches(self, event: Event, subscriber: str) -> bool:
        if self.events and event.event not in self.events:
            return False
        if self.agents and event.agent not in self.agents:
            return False
        if self.key is not None and (event.key is None or not compile_glob(self.key).matches(event.key)):
            return False
        if self.tags and not set(self.tags) <= set(event.tags):
            return False
        if self.types and (event.type is None or event.type not in self.types):
            return False
        if self.thread is not None and event.thread != self.thread:
            return False
        if self.mentions and subscriber not in event.concerns:
            return False
        return (
            all(part.matches(event, subscriber) for part in self.all)
            and (not self.any or any(part.matches(event, subscriber) for part in self.any))
            and not any(part.matches(event, subscriber) for part in self.none)
        )


def parse_event_filter(given: dict[str, Any]) -> EventFilter:
    """The filter that a JSON object describes, say `{"type": "CRITIQUE", "not": {"agent": "bob"}}`.

    Raises:
        InvalidInput: an unknown field, a wrong value, or a filter deeper than 5 or larger than 32 parts.
    """
    count = [0]
    return _parse(given, 1, count)


def _parse(given: Any, depth: int, count: list[int]) -> EventFilter:
    count[0] += 1
    if depth > _MAX_DEPTH or count[0] > _MAX_PARTS:
        raise InvalidInput(f"A filter may nest {_MAX_DEPTH} deep and hold {_MAX_PARTS} parts.")
    if not isinstance(given, dict):
        raise InvalidInput(f"A filter is an object with some of: {_FIELDS}.")
    known: dict[str, Any] = {}
    for name, value in given.items():
        match name:
            case "key":
                known["key"] = check_glob(_one(name, value))
            case "event" | "events":
                known["events"] = tuple(_choice(EventType, name, v) for v in _many(name, value))
            case "agent" | "agents":
                known["agents"] = tuple(_many(name, value))
            case "tags":
                known["tags"] = tuple(_many(name, value))
            case "type" | "types":
                known["types"] = tuple(_choice(ItemType, name, v) for v in _many(name, value))
            case "thread":
                known["thread"] = parse_ref(str(value)).number
            case "mentions":
                if not isinstance(value, bool):
                    raise InvalidInput("filter.mentions is true or false: true = only what concerns you.")
                known["mentions"] = value
            case "all" | "any":
                if not isinstance(value, list):
                    raise InvalidInput(f"filter.{name} is a list of filters.")
                known[name] = tuple(_parse(v, depth + 1, count) for v in value)
            case "not":
                parts = value if isinstance(value, list) else [value]
                known["none"] = tuple(_parse(v, depth + 1, count) for v in parts)
            case _:
                raise InvalidInput(f"Unknown filter field '{str(name)[:40]}'; a filter has: {_FIELDS}.")
    return EventFilter(**known)


def _one(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value or len(value) > 200:
        raise InvalidInput(f"filter.{name} is a text of 1 to 200 characters.")
    return value


def _many(name: str, value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    if not values or len(values) > 32:
        raise InvalidInput(f"filter.{name} is a text or a list of 1 to 32 texts.")
    return [_one(name, v) for v in values]


def _choice(kind: type[_E], name: str, value: str) -> _E:
    try:
        return kind(value)
    except ValueError:
        raise InvalidInput(f"filter.{name}: '{value[:40]}' is none of {', '.join(kind)}.") from None
