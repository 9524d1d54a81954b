"""Topics, which an agent can watch instead of one item. A topic is a kind, a colon, and a value.

`key:plan:**` is a glob of keys, `tag:db` a tag, `type:DECISION` a type, `thread:H-3` a conversation, named by any item
in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from .errors import InvalidInput
from .items import MAX_TAG, ItemType, parse_ref
from .keys import MAX_KEY, check_glob, compile_glob
from .values import dataclass

MAX_TOPIC = MAX_KEY + len("thread:")


class TopicKind(StrEnum):
    """The kind of a topic."""

    KEY = "key"
    TAG = "tag"
    TYPE = "type"
    THREAD = "thread"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic. The value of a thread is the number of its first item."""

    kind: TopicKind
    value: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.value}"


def is_topic(text: str) -> bool:
    """Tells whether a text is meant as a topic and not as an id: ids have no colon."""
    return ":" in text


def parse_topic(text: str) -> Topic:
    """Parses a topic. The value of a thread becomes the number of the item in the text, which need not be the first.

    Raises:
        InvalidInput: an unknown kind, or a value that the kind cannot have.
    """
    kind, _, value = text.partition(":")
    match kind:
        case TopicKind.KEY:
            return Topic(TopicKind.KEY, check_glob(value))
        case TopicKind.TAG:
            if (
                not value
                or len(value) > MAX_TAG
                or value != value.strip()
                or not value.isprintable()
                or "," in value
            ):
                raise InvalidInput(
                    f"'{value[:40]}' is not a tag. Nothing was changed; tags look like tag:db."
                )
            return Topic(TopicKind.TAG, value)
        case TopicKind.TYPE:
            if value.upper() not in ItemType.__members__:
                known = ", ".join(ItemType)
                raise InvalidInput(f"'{value[:40]}' is not a type; there are: {known}. Nothing was changed.")
            return Topic(TopicKind.TYPE, value.upper())
        case TopicKind.THREAD:
            return Topic(TopicKind.THREAD, str(parse_ref(value).number))
    try:
        keys = f"key:{check_glob(text)} (the entry with that key; a glob such as key:plan:** means several)"
    except InvalidInput:
        keys = "key:plan:** (a glob of keys)"
    raise InvalidInput(
        f"'{text[:40]}' is no topic. Nothing was changed; use {keys}, tag:db, type:DECISION or thread:H-3."
    )


def exact_topics(type_: str, thread: int | None, tags: Iterable[str]) -> list[str]:
    """Returns the topics that match an item without a glob, in their written form; its thread may be left out."""
    about = [Topic(TopicKind.TYPE, type_)]
    if thread is not None:
        about.append(Topic(TopicKind.THREAD, str(thread)))
    return [str(topic) for topic in (*about, *(Topic(TopicKind.TAG, tag) for tag in tags))]


def matching_globs(key: str, topics: Sequence[str]) -> list[str]:
    """Returns those of the written key topics whose glob matches `key`."""
    begin = len(TopicKind.KEY) + 1
    return [topic for topic in topics if compile_glob(topic[begin:]).matches(key)]
