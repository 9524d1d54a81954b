"""Topics: what an agent watches when it does not watch one item. A kind, a colon, and what to look for.

`key:plan/**` is a glob of keys, `tag:db` a tag, `type:DECISION` a type, `thread:H-3` a conversation, named by
any item in it.
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
    KEY = "key"
    TAG = "tag"
    TYPE = "type"
    THREAD = "thread"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic; of a thread `value` is a number: that of the item the conversation began with."""

    kind: TopicKind
    value: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.value}"


def is_topic(text: str) -> bool:
    """Whether it is meant as a topic; ids have no colon."""
    return ":" in text


def parse_topic(text: str) -> Topic:
    """The topic that `text` names; of a thread the number of the item that it names.

    Raises:
        InvalidInput: an unknown kind, or what that kind cannot have.
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
    raise InvalidInput(
        f"'{text[:40]}' is no topic: use key:plan/** (a glob of keys), tag:db, type:DECISION or thread:H-3. "
        "Nothing was changed."
    )


def exact_topics(type_: str, thread: int, tags: Iterable[str]) -> list[str]:
    """The topics without globs that an item is about, as they are written."""
    about = [Topic(TopicKind.TYPE, type_), Topic(TopicKind.THREAD, str(thread))]
    return [str(topic) for topic in (*about, *(Topic(TopicKind.TAG, tag) for tag in tags))]


def matching_globs(key: str, topics: Sequence[str]) -> list[str]:
    """Those of the written key topics whose glob matches `key`."""
    begin = len(TopicKind.KEY) + 1
    return [topic for topic in topics if compile_glob(topic[begin:]).matches(key)]
