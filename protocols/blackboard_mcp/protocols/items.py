"""Items, the things that stand on a board, and the values that describe them.

An item has a short citable id, made of a letter for its type and a number unique on its board (`H-17`). The number
alone names it as well, and `@2` after either names a version. The content of a version never changes and is hashed. An
**entry** is an item with a key: posting to the key again adds a version to the same item. Deleting an entry adds a
version without content, a **tombstone**; posting to the key afterwards adds the next version.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

from .access import Trust
from .adding import Addition
from .agreements import Agreement, Ask
from .errors import InvalidInput
from .tokens import DEFAULT_TOKENIZER
from .values import dataclass


class ItemType(StrEnum):
    """The type of an item. `LETTERS` has the letter of its id, `IMPORTANCE` its default importance."""

    __hash__ = str.__hash__  # an enumeration's own is a function in Python, and takes five times as long

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

_LETTERS: dict[str, str] = {str(type_): letter for type_, letter in LETTERS.items()}

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
    """The status of an item. `TRANSITIONS` has the allowed moves."""

    __hash__ = str.__hash__

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
"""Statuses of items that the first step of a pruning pass may take."""


FALLEN = frozenset({Status.WITHDRAWN, Status.INVALIDATED})
"""Statuses of items that their author or a debate has given up."""


class Zone(StrEnum):
    """The place of an item; it is in one zone at a time."""

    __hash__ = str.__hash__

    CORE = "core"
    WORKING = "working"
    ARCHIVE = "archive"


class Visibility(StrEnum):
    """The readers of an item: everybody on the board, the agents of its author's owner, or its author alone.

    `READERS` are those whom a read rule names; nobody asks for it.
    """

    __hash__ = str.__hash__

    BOARD = "board"
    TEAM = "team"
    PRIVATE = "private"
    READERS = "readers"


class EdgeKind(StrEnum):
    """The kind of an edge. Edges lead from the item that was posted with them to an earlier one."""

    __hash__ = str.__hash__

    DEPENDS_ON = "depends_on"
    REPLIES_TO = "replies_to"
    CRITIQUES = "critiques"
    SUPPORTS = "supports"
    REFUTES = "refutes"
    DERIVED_FROM = "derived_from"
    SUPERSEDES = "supersedes"
    ANALYZED_BY = "analyzed_by"


FOLLOWED_BOTH_WAYS = frozenset({EdgeKind.REPLIES_TO, EdgeKind.CRITIQUES, EdgeKind.SUPPORTS, EdgeKind.REFUTES})
"""Kinds of edges that the guard follows in both directions. It follows `depends_on` only from source to target."""

TALKING = frozenset({EdgeKind.REPLIES_TO, EdgeKind.CRITIQUES})
"""Kinds of edges by which a new item joins the conversation of the target."""

MAX_TEXT = 200_000
"""Longest text of a post, in characters."""
MAX_TEXT_BYTES = 800_000
"""Most bytes of a text as JSON in UTF-8. A text of many control characters reaches it before `MAX_TEXT`."""
MAX_TAGS = 32
MAX_TAG = 64
MAX_EDGES = 64
MAX_BATCH = 100
MAX_BATCH_TEXT = 1_000_000
"""Most characters in all texts of one call together."""
MAX_BATCH_EDGES = 1_000
"""Most edges in all posts of one call together, since every target is loaded."""
MAX_CITED = 1_000
"""Most citing items that a structured answer lists for one item."""
DELETED = "DELETED"
"""The word shown as the status of a tombstone; a post with this status deletes the entry."""
FORGOTTEN = "FORGOTTEN"
"""The word shown as the status of an item whose content an operator removed."""
MAX_METADATA = 16_384
"""Longest metadata of a post, in characters of its JSON."""

_REF = re.compile(r"(?:(?P<letter>[A-Za-z])-)?(?P<number>[0-9]{1,15})(?:@(?P<version>[0-9]{1,9}))?\Z")


@dataclass(frozen=True, slots=True)
class Ref:
    """A parsed reference to an item: its number, and the version and the letter if they were written."""

    number: int
    version: int | None = None
    letter: str | None = field(default=None, compare=False)


@lru_cache(maxsize=8_192)
def parse_ref(text: str) -> Ref:
    """Parses a reference such as `H-17`, `17` or `H-17@2`. The letter need not fit: the number decides.

    Raises:
        InvalidInput: `text` is not of that form, or names a task.
    """
    match = _REF.match(text.strip()) if len(text) <= 40 else None
    if match is None:
        shown = text if len(text) <= 40 else text[:40] + "…"
        raise InvalidInput(
            f"'{shown}' is not an item id. Nothing was changed; ids look like H-17 (or 17, or H-17@2 for a version).",
            value=shown,
        )
    version, letter = match["version"], match["letter"]
    if names_task(text):
        raise InvalidInput(
            f"{text.strip()} is a task, and no item has the letter T. Nothing was changed; "
            f'plan(why="T-{match["number"]}") shows it.',
            value=text.strip(),
        )
    return Ref(
        int(match["number"]),
        None if version is None else int(version),
        None if letter is None else letter.upper(),
    )


def names_task(text: str) -> bool:
    """Tells whether an id is written like that of a task; no item has its letter."""
    return text.strip()[:2] in ("T-", "t-")


def is_misnamed(ref: Ref, type_: ItemType | str) -> bool:
    """Tells whether a reference was written with the letter of a type other than `type_`."""
    return ref.letter is not None and ref.letter != LETTERS[ItemType(type_)]


def check_letters(refs: Iterable[Ref], types: Mapping[int, ItemType | str]) -> None:
    """Refuses a reference with the letter of another type, since the caller may mean another item.

    `types` are the types of the items that exist, by number.

    Raises:
        InvalidInput: a reference has the wrong letter.
    """
    for ref in refs:
        type_ = types.get(ref.number)
        if type_ is not None and is_misnamed(ref, type_):
            id_ = item_id(type_, ref.number)
            raise InvalidInput(
                f"There is no {ref.letter}-{ref.number}: number {ref.number} is {id_}. Nothing was changed; "
                f'read(ids=["{id_}"]) shows whether that is the item you mean.',
                item=id_,
            )


def item_id(type_: ItemType | str, number: int) -> str:
    """Returns the citable id of an item, such as `H-17`."""
    return f"{_LETTERS.get(type_) or LETTERS[ItemType(type_)]}-{number}"


def content_hash(text: str) -> str:
    """Returns the SHA-256 of a text's UTF-8 bytes, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


ABOUT_PROBLEM = frozenset({EdgeKind.REPLIES_TO, EdgeKind.DERIVED_FROM, EdgeKind.DEPENDS_ON})
"""Kinds of edges by which a decision says which problem it is about."""


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge from `source` to `target`, both item numbers on one board."""

    source: int
    kind: EdgeKind
    target: int


@dataclass(frozen=True, slots=True)
class Retraction:
    """A retraction notice: an item rests on item `id`, which was withdrawn, invalidated, superseded or deleted.

    `status` is WITHDRAWN, INVALIDATED, SUPERSEDED or DELETED, as of the notice. `kind` is the edge from the item to
    `via`, which is `id` itself or an item between the two. `by` is the item that superseded `id`.
    """

    id: str
    status: str
    kind: EdgeKind
    via: str
    by: str | None = None


@dataclass(frozen=True, slots=True)
class Contest:
    """The fact that item `by` supersedes or refutes an item.

    Against another author's item this is a claim, which changes nothing of that item. It is `agreed` once the item's
    author or a debate on the item agrees.
    """

    kind: EdgeKind
    by: str
    author: str
    agreed: bool


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The permanent removal of a content: when, by whose decision, and why."""

    at: datetime
    by: str
    why: str


@dataclass(frozen=True, slots=True)
class Item:
    """The present state of an item, with the content of one of its versions.

    `edges` leave the item, `incoming` arrive at it. `thread` is the number of the first item of the conversation,
    which may be this one. `importance` is 1 to 5. `tokens` counts the text by the board's tokenizer. `seq` is the
    sequence of the last change.
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
    """The agent that wrote this version or last changed its status, importance, tags or metadata."""
    written_by: str = ""
    """The agent that wrote this version; empty stands for the author."""
    written_at: datetime | None = None
    """The instant at which this version was written; `None` stands for `created_at`."""
    edges: tuple[Edge, ...] = field(default=())
    incoming: tuple[Edge, ...] = field(default=())
    debate: str | None = None
    """The state of the newest debate on the item (`OPEN`, `CONSENSUS`, …); `None` if there never was one."""
    outcome: str = ""
    """The outcome of the newest debate on the item: stands, falls, amended or open; empty before it ended."""
    gave_way_to: str = ""
    """The id of the item that replaced this one by the debate's outcome; empty if none did."""
    led_to: str = ""
    """The id of the last item in the chain of replacements after `gave_way_to`; empty if that was not replaced."""
    successor_fell: bool = False
    """True when the last item of that chain was withdrawn or invalidated, too."""
    cites: tuple[tuple[EdgeKind, str], ...] = field(default=())
    """`edges` as pairs of kind and the target's id."""
    cited_by: tuple[tuple[EdgeKind, str], ...] = field(default=())
    """`incoming` as pairs of kind and the source's id."""
    thread_id: str = ""
    """The id of the item `thread`; its bare number where the reader may not see that item."""
    supporters: tuple[str, ...] = field(default=())
    """Agents that support the item, one for each owner other than the author's, earliest first."""
    opponents: tuple[str, ...] = field(default=())
    """Agents that refute or criticise the item, counted like `supporters`; an opposing owner does not support it."""
    retracted: tuple[Retraction, ...] = field(default=())
    """Notices of items that this one rests on and that were retracted after it was written, oldest first."""
    deleted: bool = False
    """True when this version has no content: it is a tombstone, made by `updated_by`, or it is `forgotten`."""
    forgotten: Forgotten | None = None
    """The removal of its content by an operator's decision; `sha256` remains that of the posted text."""
    trust: Trust = Trust.NORMAL
    """The lowest trust among those who wrote it; for a summary, also among the authors of its sources."""
    contested: tuple[Contest, ...] = field(default=())
    """Standing items that supersede or refute this one, oldest first."""
    former: int = 0
    """The number of its author's own items that it replaced, one after the other."""
    fell: tuple[str, ...] = field(default=())
    """Ids in `cites` of items that were withdrawn or invalidated."""
    agreement: Agreement | None = None
    """The state of agreement to the item; `None` where its author asked for none."""
    undecided: bool = False
    """True for a DECISION whose author is not a decider, on a board with named deciders."""
    adopted_in: str | None = None
    """The id of the plan or decision into which its author took over this reply to a plan."""
    answered_by: str | None = None
    """The id of the newest answer to a QUESTION by somebody else that was not taken back, empty if there is none;
    `None` for other types, and where it was not looked up."""
    newer: tuple[str, ...] = field(default=())
    """The latest versions (`F-17@5`) of entries in `cites` that were written after this item."""

    @property
    def id(self) -> str:
        """The citable id, such as `H-17`."""
        return item_id(self.type, self.number)

    @property
    def replaced_by(self) -> str | None:
        """The id of the newest item that supersedes this one with its author's agreement; `None` if there is none."""
        agreed = [c.by for c in self.contested if c.agreed and c.kind is EdgeKind.SUPERSEDES]
        return agreed[-1] if agreed else None


@dataclass(frozen=True, slots=True)
class Draft:
    """A post before it is stored: validated, with references resolved to item numbers or to places in the batch.

    `edges` holds pairs of kind and target. A negative target is a place in the same batch, -1 for the first draft.
    `target` is the number of an item to change instead of posting a new one. `thread` names any item of the
    conversation that a new item joins; it may be a place in the batch, too. Without it, an edge that replies or
    criticises decides.

    `None` means "not given": a new item gets the default, an existing one keeps its value. A new version however
    always begins ACTIVE. An entry without `visibility` is looked up among the agent's private entries before the
    shared ones.

    `checked` are the validation rules (`BoardConfig.validation`) that the draft was found to meet. `counted_by` is the
    tokenizer by which `tokens` and `add` count. `ttl_seconds` counts from this write, and again from every later
    version that gives no other; 0 removes the limit.
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
    """References of edges and target that were written with a letter; a letter of another type is refused."""
    agree: Ask | None = None
    """The agents that the author asks to agree to the item."""
    undecided: bool = False
    """True when deciders are named and the author is not one of them; a DECISION is marked so."""
    thread: int | None = None
    add: Addition | None = None
    """An amount to add to the number in the entry, instead of a text.

    `text` may then hold the expected sum, for validation rules; if the sum differs, the draft counts as not checked.
    """
    kept: str = ""
    """The mark of the read rule that keeps the item; set by the store."""
    delete: bool = False
    """Deletes the entry that `key` or `target` names; only `expected_version` and `visibility` may accompany it."""

    @property
    def public(self) -> bool:
        """Tells whether everybody may see the item if the draft makes one."""
        return self.visibility in (None, Visibility.BOARD) and not self.kept

    @property
    def versions(self) -> bool:
        """Tells whether the draft adds a version if its entry exists."""
        return self.text is not None or self.add is not None or self.delete
