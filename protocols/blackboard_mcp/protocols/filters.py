"""Queries of items, and filters of events that combine with all, any and not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, Literal

from .errors import InvalidInput
from .events import WITHOUT_ITEM, Event, EventType
from .items import ItemType, Status, Zone, parse_ref
from .keys import check_glob, compile_glob
from .values import dataclass

Latest = Literal["tag", "key", "author", "thread"]


@dataclass(frozen=True, slots=True)
class ItemQuery:
    """A query of items, newest first. An item must meet every condition that is given; `limit` is 1 to 200.

    `key` is a glob. An item has all of `tags`, at least one of `any_tags` and none of `no_tags`. `text` matches an
    item in which every word of it occurs as a whole word, in any case. A `zone` of `None` means every zone. `cursor`
    is the number of the last item on the former page. With `deleted` only items without content are listed (tombstones
    and forgotten items), otherwise only items with content. `latest` keeps those that are the newest of a group: of
    items with one tag (apart from `tags`; with `any_tags` only of these), key, author or thread.
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
    deleted: bool = False
    latest: Latest | None = None


ME = "me"
"""In a filter's `agent`: the holder of the subscription."""
_FIELDS = "key, event, agent, tags, type, thread, mentions, all, any, not"
_MAX_DEPTH = 5
_MAX_PARTS = 32


@dataclass(frozen=True, slots=True)
class EventFilter:
    """A condition on events. An event must meet every part that is given; the empty filter matches everything.

    Of `events`, `agents` and `types` one value each must match; all of `tags` must be there. `mentions` matches events
    that concern the subscriber: it is named with @, its item got a reply or a critique, or it owes something. `thread`
    is the number of the thread's first item.
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
        """Tells whether the filter matches the event for this subscriber.

        Whether the subscriber may see the event is not checked.
        """
        if self.events and event.event not in self.events:
            return False
        if (
            self.agents
            and event.agent not in self.agents
            and not (ME in self.agents and event.agent == subscriber)
        ):
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

    @property
    def personal(self) -> bool:
        """Tells whether the filter can match different events for different subscribers."""
        return (
            self.mentions
            or ME in self.agents
            or any(part.personal for part in (*self.all, *self.any, *self.none))
        )


def parse_event_filter(given: dict[str, Any], *, stored: bool = False) -> EventFilter:
    """Parses a filter from a JSON object, such as `{"type": "CRITIQUE", "not": {"agent": "me"}}`.

    A `stored` filter was accepted by an earlier check, so it may also be one that no event can match.

    Raises:
        InvalidInput: an unknown field, a wrong value, a filter that no event can match, or one deeper than 5 or larger
            than 32 parts.
    """
    count = [0]
    parsed = _parse(given, 1, count, stored)
    if not stored and (why := _impossible(parsed)) is not None:
        raise InvalidInput(f"No event matches that filter: {why}")
    return parsed


def threads(given: Any) -> set[int]:
    """Returns the numbers of the items by which a parsed JSON filter names threads."""
    if isinstance(given, list):
        return {number for part in given for number in threads(part)}
    found = {parse_ref(str(given["thread"])).number} if "thread" in given else set()
    return found | {
        number for word in ("all", "any", "not") if word in given for number in threads(given[word])
    }


def rethreaded(given: Any, first: Mapping[int, int]) -> Any:
    """Returns the same JSON filter with each thread named by its first item.

    `first` maps each number that `threads` returned to the number of that thread's first item.
    """
    if isinstance(given, list):
        return [rethreaded(part, first) for part in given]
    told = dict(given)
    for word in ("all", "any", "not"):
        if word in told:
            told[word] = rethreaded(told[word], first)
    if "thread" in told and first[number := parse_ref(str(told["thread"])).number] != number:
        told["thread"] = first[number]
    return told


def _parse(given: Any, depth: int, count: list[int], stored: bool) -> EventFilter:
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
                known["events"] = tuple(
                    dict.fromkeys(e for v in _many(name, value) for e in _events(name, v))
                )
            case "agent" | "agents":
                known["agents"] = tuple(_many(name, value))
            case "tags":
                known["tags"] = tuple(_many(name, value))
            case "type" | "types":
                known["types"] = tuple(_type(name, v) for v in _many(name, value))
            case "thread":
                known["thread"] = parse_ref(str(value)).number
            case "mentions":
                if not isinstance(value, bool):
                    raise InvalidInput("filter.mentions is true or false: true = only what concerns you.")
                known["mentions"] = value
            case "all" | "any":
                if not isinstance(value, list) or not (value or stored):
                    raise InvalidInput(f"filter.{name} is a list of 1 to {_MAX_PARTS} filters.")
                known[name] = tuple(_parse(v, depth + 1, count, stored) for v in value)
            case "not":
                if value == [] and not stored:
                    raise InvalidInput(f"filter.not is a filter, or a list of 1 to {_MAX_PARTS} filters.")
                parts = value if isinstance(value, list) else [value]
                known["none"] = tuple(_parse(v, depth + 1, count, stored) for v in parts)
            case _:
                raise InvalidInput(f"Unknown filter field '{str(name)[:40]}'; a filter has: {_FIELDS}.")
    return EventFilter(**known)


def _impossible(parsed: EventFilter) -> str | None:
    """Returns why no event can match the filter, as far as a simple check can tell; `None` if some event might."""
    events, types = set(EventType), set(ItemType)
    of_items = False
    for part in _together(parsed):
        if EventFilter() in part.none:
            return "not: {} leaves out every event. Say what to leave out, or leave not out."
        events &= set(part.events or EventType)
        types &= set(part.types or ItemType)
        of_items = of_items or bool(part.key or part.tags or part.types or part.thread is not None)
    if not events or not types:
        word = "event" if not events else "type"
        return (
            f"it asks for two kinds of {word} at once. Say any: [{{…}}, {{…}}], or list them: "
            f'{word}: ["…", "…"].'
        )
    if of_items and events <= WITHOUT_ITEM:
        named = ", ".join(sorted(events)[:3])
        return f"{named} is not about an item, so it has no key, tags, type or thread. Leave those out."
    choices = [_impossible(part) for part in parsed.any]
    return choices[0] if choices and None not in choices else None


def _together(parsed: EventFilter) -> Iterator[EventFilter]:
    yield parsed
    for part in parsed.all:
        yield from _together(part)


_EVENTS = frozenset(map(str, EventType))


def _events(name: str, value: str) -> tuple[EventType, ...]:
    """Returns the event type of that name, or all types of a family such as `item.*`."""
    if value in _EVENTS:
        return (EventType(value),)
    begin = value.partition(".")[0]
    family = tuple(event for event in EventType if event.partition(".")[0] == begin)
    if not family or value != f"{begin}.*":
        families = dict.fromkeys(event.partition(".")[0] + ".*" for event in EventType)
        alike = [event for event in EventType if event.endswith(f".{value}")]
        members = f"{', '.join(alike)}, " if alike else ""
        members = f"{begin}.{'|'.join(event.partition('.')[2] for event in family)}, " if family else members
        raise InvalidInput(f"filter.{name}: '{value[:40]}' is none of {members}{', '.join(families)}.")
    return family


def _one(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value or len(value) > 200:
        raise InvalidInput(f"filter.{name} is a text of 1 to 200 characters.")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidInput(f"filter.{name} must not hold NUL characters or lone surrogates.")
    return value


def _many(name: str, value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    if not values or len(values) > 32:
        raise InvalidInput(f"filter.{name} is a text or a list of 1 to 32 texts.")
    return [_one(name, v) for v in values]


def _type(name: str, value: str) -> ItemType:
    try:
        return ItemType(value)
    except ValueError:
        raise InvalidInput(f"filter.{name}: '{value[:40]}' is none of {', '.join(ItemType)}.") from None
