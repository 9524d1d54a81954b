"""Items, the things that stand on a board, and the words they are described with.

An item has a short citable id, a letter for its type and a board-wide number (`H-17`); the number alone
names it as well, and `@v` after it names a version. Content is immutable per version and hashed. An
**entry** is an item with a key: posting to the key again adds a version to the same item. Deleting an entry
adds one as well, a **tombstone** without content; posting to the key afterwards goes on with the next.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any

from .access import Trust
from .adding import Addition
from .agreements import Agreement, Ask
from .errors import InvalidInput
from .tokens import DEFAULT_TOKENIZER
from .values import dataclass


class ItemType(StrEnum):
    """What an item is. The letter of its id is in `LETTERS`, its usual importance in `IMPORTANCE`."""

    FACT = "FACT"
    HYPOTHESIS = "HYPOTHESIS"
    LOG = "LOG"
    PLAN = "PLAN"
    DECISION = "DECISION"
    CRITIQUE = "CRITIQUE"
    REPLY = "REPLY"
    QUESTION = "QUESTION"
    ANSWER = "ANSWER"
    SUMMARY = "SUMMARY"
    PROBLEM = "PROBLEM"
    CONSTRAINT = "CONSTRAINT"
    HOT_ISSUE = "HOT_ISSUE"
    RESULT = "RESULT"


LETTERS: dict[ItemType, str] = {
    ItemType.FACT: "F",
    ItemType.HYPOTHESIS: "H",
    ItemType.LOG: "L",
    ItemType.PLAN: "P",
    ItemType.DECISION: "D",
    ItemType.CRITIQUE: "C",
    ItemType.REPLY: "R",
    ItemType.QUESTION: "Q",
    ItemType.ANSWER: "A",
    ItemType.SUMMARY: "S",
    ItemType.PROBLEM: "B",
    ItemType.CONSTRAINT: "K",
    ItemType.HOT_ISSUE: "I",
    ItemType.RESULT: "E",
}

IMPORTANCE: dict[ItemType, int] = {
    ItemType.FACT: 4,
    ItemType.HYPOTHESIS: 3,
    ItemType.LOG: 2,
    ItemType.PLAN: 3,
    ItemType.DECISION: 4,
    ItemType.CRITIQUE: 3,
    ItemType.REPLY: 3,
    ItemType.QUESTION: 3,
    ItemType.ANSWER: 4,
    ItemType.SUMMARY: 3,
    ItemType.PROBLEM: 4,
    ItemType.CONSTRAINT: 5,
    ItemType.HOT_ISSUE: 5,
    ItemType.RESULT: 3,
}


class Status(StrEnum):
    """Where an item is in its life. `TRANSITIONS` says which moves are declared."""

    ACTIVE = "ACTIVE"
    DEBATED = "DEBATED"
    RESOLVED = "RESOLVED"
    WITHDRAWN = "WITHDRAWN"
    INVALIDATED = "INVALIDATED"


TRANSITIONS: dict[Status, frozenset[Status]] = {
    Status.ACTIVE: frozenset({Status.DEBATED, Status.RESOLVED, Status.WITHDRAWN, Status.INVALIDATED}),
    Status.DEBATED: frozenset({Status.ACTIVE, Status.RESOLVED, Status.WITHDRAWN, Status.INVALIDATED}),
    Status.RESOLVED: frozenset({Status.ACTIVE, Status.DEBATED, Status.WITHDRAWN, Status.INVALIDATED}),
    Status.WITHDRAWN: frozenset(),
    Status.INVALIDATED: frozenset(),
}

FINISHED = frozenset({Status.RESOLVED, Status.WITHDRAWN, Status.INVALIDATED})
"""Statuses that let the first step of a pruning pass take an item."""


FALLEN = frozenset({Status.WITHDRAWN, Status.INVALIDATED})
"""Statuses of what is no longer stood by."""


class Zone(StrEnum):
    """Where an item lives: one zone at a time."""

    CORE = "core"
    WORKING = "working"
    ARCHIVE = "archive"


class Visibility(StrEnum):
    """Who may see an item: everybody on the board, the agents who act for its author's owner, or its author alone."""

    BOARD = "board"
    TEAM = "team"
    PRIVATE = "private"


class EdgeKind(StrEnum):
    """A typed, directed edge from the item that was posted with it to an earlier one."""

    DEPENDS_ON = "depends_on"
    REPLIES_TO = "replies_to"
    CRITIQUES = "critiques"
    SUPPORTS = "supports"
    REFUTES = "refutes"
    DERIVED_FROM = "derived_from"
    SUPERSEDES = "supersedes"
    ANALYZED_BY = "analyzed_by"


FOLLOWED_BOTH_WAYS = frozenset({EdgeKind.REPLIES_TO, EdgeKind.CRITIQUES, EdgeKind.SUPPORTS, EdgeKind.REFUTES})
"""Edges the guard's closure follows in both directions; `depends_on` it follows away from the item only."""

MAX_TEXT = 200_000
"""Longest text of a post, in characters."""
MAX_TEXT_BYTES = 800_000
"""Most bytes that a text has as JSON in UTF-8: less than `MAX_TEXT` characters where many are control characters."""
MAX_TAGS = 32
MAX_TAG = 64
MAX_EDGES = 64
MAX_BATCH = 100
MAX_BATCH_TEXT = 1_000_000
"""Most characters that the texts of one call have in all."""
MAX_BATCH_EDGES = 1_000
"""Most edges that the posts of one call have in all: each end is looked at."""
MAX_CITED = 1_000
"""Most items that cite one which a structured answer names."""
DELETED = "DELETED"
"""The status of a tombstone; a post with it asks for a delete."""
FORGOTTEN = "FORGOTTEN"
"""The status of an item whose content was forgotten."""
MAX_METADATA = 16_384
"""Longest metadata of a post, in characters of its JSON."""

_REF = re.compile(r"(?:(?P<letter>[A-Za-z])-)?(?P<number>[0-9]{1,15})(?:@(?P<version>[0-9]{1,9}))?\Z")


@dataclass(frozen=True, slots=True)
class Ref:
    """A parsed reference to an item: its number, the version when one was named, and the letter that was written."""

    number: int
    version: int | None = None
    letter: str | None = field(default=None, compare=False)


def parse_ref(text: str) -> Ref:
    """The item that `H-17`, `17` or `H-17@2` names. The letter is for readers; the number decides.

    Raises:
        InvalidInput: `text` is not of that form.
    """
    match = _REF.match(text.strip()) if len(text) <= 40 else None
    if match is None:
        shown = text if len(text) <= 40 else text[:40] + "…"
        raise InvalidInput(
            f"'{shown}' is not an item id. Ids look like H-17 (or 17, or H-17@2 for a version).",
            value=shown,
        )
    version, letter = match["version"], match["letter"]
    return Ref(
        int(match["number"]),
        None if version is None else int(version),
        None if letter is None else letter.upper(),
    )


def is_misnamed(ref: Ref, type_: ItemType | str) -> bool:
    """Whether the reference has the letter of another type than the item's."""
    return ref.letter is not None and ref.letter != LETTERS[ItemType(type_)]


def item_id(type_: ItemType | str, number: int) -> str:
    """The citable id of an item, say `H-17`."""
    return f"{LETTERS[ItemType(type_)]}-{number}"


def content_hash(text: str) -> str:
    """The sha256 of a text's UTF-8 bytes, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Edge:
    """`source` —kind→ `target`, both item numbers on one board."""

    source: int
    kind: EdgeKind
    target: int


@dataclass(frozen=True, slots=True)
class Retraction:
    """A retraction notice: what an item rests on, and that it is no longer stood by.

    `status` is WITHDRAWN, INVALIDATED, SUPERSEDED or DELETED, as it was when the notice was given; `kind` is the
    edge by which the item rests on `via`, which is `id` itself or what lies between. `by` is the item
    that superseded it.
    """

    id: str
    status: str
    kind: EdgeKind
    via: str
    by: str | None = None


@dataclass(frozen=True, slots=True)
class Contest:
    """That another item, `by`, supersedes or refutes the item.

    Of another author's item that is a claim, until the item's author or a debate on it agrees. A claim changes
    nothing of the item.
    """

    kind: EdgeKind
    by: str
    author: str
    agreed: bool


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The removal of a content for good: when, by whose decision, and why."""

    at: datetime
    by: str
    why: str


@dataclass(frozen=True, slots=True)
class Item:
    """An item as it stands, with the content of one of its versions.

    `edges` are those that leave the item, `incoming` those that arrive. `thread` is the number of the
    item that the conversation began with (its own when it began one). `importance` is 1 to 5. `tokens`
    counts the text by the board's tokenizer. `seq` is the event of the last change.
    """

    board: str
    number: int
    type: ItemType
    key: str | None
    version: int
    status: Status
    zone: Zone
    importance: int
    author: str
    text: str
    tags: tuple[str, ...]
    metadata: dict[str, Any]
    tokens: int
    sha256: str
    thread: int
    visibility: Visibility
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    seq: int
    updated_by: str = ""
    """Who wrote this version, or last changed what may change of it."""
    written_by: str = ""
    """Who wrote this version; its author, where that is not said."""
    written_at: datetime | None = None
    """When; at `created_at`, where that is not said."""
    edges: tuple[Edge, ...] = field(default=())
    incoming: tuple[Edge, ...] = field(default=())
    debate: str | None = None
    """State of the item's newest debate (`OPEN`, `CONSENSUS`, …), `None` when it never had one."""
    outcome: str = ""
    """What the newest debate about it made of it: stands, falls, amended or open; empty before."""
    gave_way_to: str = ""
    """The id of the item that such a debate put in its place."""
    led_to: str = ""
    """The id of the last item that took the place of that one in turn; empty where none did."""
    successor_fell: bool = False
    """Whether the last of these was withdrawn or invalidated as well."""
    cites: tuple[tuple[EdgeKind, str], ...] = field(default=())
    """`edges` with the ids of their targets."""
    cited_by: tuple[tuple[EdgeKind, str], ...] = field(default=())
    """`incoming` with the ids of their sources."""
    thread_id: str = ""
    """The id of `thread`; its bare number where the reader may not see it."""
    supporters: tuple[str, ...] = field(default=())
    """Who supports it, one agent of each owner other than the author's, the first to do so first."""
    opponents: tuple[str, ...] = field(default=())
    """Who refutes or criticises it, counted alike; whoever opposes it is no supporter."""
    retracted: tuple[Retraction, ...] = field(default=())
    """What it rests on that was retracted since it was written, oldest notice first."""
    deleted: bool = False
    """This version has no content: it is a tombstone in the archive, taken back by `updated_by`, or `forgotten`."""
    forgotten: Forgotten | None = None
    """The removal of its content by an operator's decision; `sha256` stays that of the text that was posted."""
    trust: Trust = Trust.NORMAL
    """How far it is to be relied on: as far as the least of those who wrote it; of a summary, of its sources too."""
    contested: tuple[Contest, ...] = field(default=())
    """What supersedes or refutes it and stands, oldest first."""
    former: int = 0
    """How many items of its author it has replaced, one after the other."""
    fell: tuple[str, ...] = field(default=())
    """Those of the ids in `cites` that were withdrawn or invalidated."""
    agreement: Agreement | None = None
    """How agreement to it fares, where its author asked for it."""
    undecided: bool = False
    """A DECISION by who is no decider, where deciders were named."""
    adopted_in: str | None = None
    """What its author made of this reply to a plan: the plan or decision that took it over."""

    @property
    def id(self) -> str:
        return item_id(self.type, self.number)

    @property
    def replaced_by(self) -> str | None:
        """What superseded it, by its author's word or with the author's agreement; the newest of several."""
        agreed = [c.by for c in self.contested if c.agreed and c.kind is EdgeKind.SUPERSEDES]
        return agreed[-1] if agreed else None


@dataclass(frozen=True, slots=True)
class Draft:
    """One post before it is on the board: validated words, references resolved to numbers or batch places.

    `edges` holds `(kind, target)`; a target below zero is the place in the same batch, counted from
    -1 for the first. `target` is the number of an item to change (`post` with an id) instead of a new one.
    `None` means "not said": the default for a new item, unchanged for an existing one; but a new version
    begins ACTIVE, whatever became of the last one, and its time to live begins anew. An entry whose
    visibility is not said is the agent's own private one before the shared one. `checked` are the board's rules
    of validation (`BoardConfig.validation`) that it was found to meet, and `counted_by` is the tokenizer
    (`BoardConfig.tokenizer`) that `tokens` and `add` are of. `ttl_seconds` counts from this write and,
    unless it is said anew, from every later version; 0 ends it.
    """

    text: str | None
    type: ItemType | None = None
    importance: int | None = None
    tags: tuple[str, ...] | None = None
    edges: tuple[tuple[EdgeKind, int], ...] = ()
    key: str | None = None
    expected_version: int | None = None
    target: int | None = None
    status: Status | None = None
    visibility: Visibility | None = None
    ttl_seconds: float | None = None
    metadata: dict[str, Any] | None = None
    tokens: int = 0
    sha256: str = ""
    checked: str = ""
    counted_by: str = DEFAULT_TOKENIZER
    letters: tuple[Ref, ...] = ()
    """References of the edges and the target that were written with a letter: one of another type is refused."""
    agree: Ask | None = None
    """Whom the author asks to agree to it."""
    undecided: bool = False
    """Deciders are named, and who posts it is none of them: a DECISION says so."""
    add: Addition | None = None
    """Adds to the number that the entry holds, in place of a text. A text that stands with it is the sum that was
    foreseen, for rules to be checked: where it comes out otherwise, it was not checked."""
    delete: bool = False
    """Deletes the entry that `key` or `target` names; only `expected_version` and `visibility` go with it."""

    @property
    def versions(self) -> bool:
        """Whether it takes a version of an entry that is there."""
        return self.text is not None or self.add is not None or self.delete
