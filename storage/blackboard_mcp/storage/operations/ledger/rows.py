"""Rows of the schema as values, and SQL statements by name."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from importlib import resources
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar

from blackboard_mcp.protocols.access import Trust
from blackboard_mcp.protocols.agreements import Agreement
from blackboard_mcp.protocols.board import Board, BoardConfig, Core, Lifecycle
from blackboard_mcp.protocols.events import Event, EventType
from blackboard_mcp.protocols.items import (
    FALLEN,
    Contest,
    Edge,
    EdgeKind,
    Forgotten,
    Item,
    ItemType,
    Retraction,
    Status,
    Visibility,
    Zone,
    item_id,
)
from blackboard_mcp.protocols.values import unfrozen
from blackboard_mcp.protocols.visibility import visibility_of

from ...operation import Rows, Statement
from ..access.visibility import expanded

T = TypeVar("T")
Steps = Generator[Statement, Rows, T]
"""A running operation: it yields statements, is sent their rows, and returns a `T`."""

_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_LIMIT = re.compile(r"\bLIMIT (?=\?)")
"""A bound limit. SQLite plans by its value, and so prepares the statement anew for each run; a `+` prevents it."""


@cache
def _statements() -> dict[str, str]:
    """Reads all statements of the query files, by name, as they are written."""
    named: dict[str, str] = {}
    for file in resources.files("blackboard_mcp.storage.sqlite").joinpath("queries").iterdir():
        for name, statement in _parts(file.read_text("utf-8")):
            assert name not in named, name
            named[name] = statement
    return named


def expanded_statements(text: str) -> dict[str, str]:
    """Returns the statements of a query file's text by name, ready to run."""
    return {name: _ready(statement) for name, statement in _parts(text)}


@cache
def _ready(statement: str) -> str:
    """Returns a statement as it runs, without comments and with its words expanded; most programs need few."""
    return _LIMIT.sub("LIMIT +", _of_items(expanded(_without_comments(statement))))


def _of_items(statement: str) -> str:
    """Returns the statement with `ITEM_ROW`, `ITEM_BRIEF` and `ITEM_VALUES` replaced by columns or placeholders."""
    if "ITEM_" not in statement:
        return statement
    for word, columns in (
        ("ITEM_ROW", ITEM_COLUMNS),
        ("ITEM_BRIEF", ["''" if name == "text" else name for name in ITEM_COLUMNS]),
        ("ITEM_VALUES", [f"?{place}" for place in range(1, len(ITEM_COLUMNS) + 1)]),
    ):
        statement = statement.replace(word, ", ".join(columns))
    return statement


def statements_of(text: str) -> dict[str, str]:
    """Returns the statements of a query file's text by name, without comments."""
    return {name: _without_comments(statement) for name, statement in _parts(text)}


def _parts(text: str) -> Iterable[tuple[str, str]]:
    """Returns the names and statements of a query file's text, as they are written."""
    parts = _NAME.split(text)[1:]
    return zip(parts[::2], parts[1::2], strict=True)


def _without_comments(statement: str) -> str:
    return _COMMENT.sub("", statement).strip().rstrip(";")


def sql(name: str) -> str:
    """Returns the text of a named statement, with the words of `access.visibility` expanded."""
    return _ready(_statements()[name])


def micros(at: datetime) -> int:
    """Returns the microseconds since 1970 of an aware instant."""
    since = at - _EPOCH
    return since.days * 86_400_000_000 + since.seconds * 1_000_000 + since.microseconds


def instant(at: int) -> datetime:
    """Returns the UTC instant for microseconds since 1970."""
    return _EPOCH + timedelta(0, 0, at)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Calling an enumeration takes several times as long as a look into a dict, and a view has 300 items.
_TYPES: Final = {str(one): one for one in ItemType}
_STATUSES: Final = {str(one): one for one in Status}
_ZONES: Final = {str(one): one for one in Zone}
_LIFECYCLES: Final = {str(one): one for one in Lifecycle}
_EVENTS: Final = {str(one): one for one in EventType}


def dumps(value: Any) -> str:
    """Returns compact JSON with sorted keys."""
    return "".join(_chunks(value, 0))


def _compact() -> Callable[[Any, int], Iterable[str]]:
    """Returns a function that yields the parts of such JSON.

    `JSONEncoder.encode` makes the inner encoder anew for each value, which takes longer than the values of an event do.
    """
    encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    made = vars(json.encoder).get("c_make_encoder")
    if made is None:
        return lambda value, _: encoder.iterencode(value)
    parts: Callable[[Any, int], Iterable[str]] = made(
        markers=None,
        default=encoder.default,
        encoder=json.encoder.encode_basestring,
        indent=None,
        key_separator=":",
        item_separator=",",
        sort_keys=True,
        skipkeys=False,
        allow_nan=True,
    )
    return parts


_chunks: Final = _compact()


def parsed(stored: str) -> Any:
    """Returns the value of JSON that `dumps` wrote; damaged JSON raises a `ValueError`."""
    try:
        return _SCAN(stored, 0)[0]
    except StopIteration:
        return json.loads(stored)


_SCAN: Final[Callable[[str, int], tuple[Any, int]]] = vars(json.JSONDecoder())["scan_once"]


MAX_REASON = 300
"""The most characters of a reason that an event repeats."""
MAX_VALUE = 500
"""The most characters of a value's JSON that an event stores; for a longer one it stores length and sha256."""


def kept(value: int | str) -> Any:
    """Returns a column's value as an event stores it: a number as it is, JSON parsed.

    Instead of JSON of more than `MAX_VALUE` characters, it returns a map with its length and sha256.
    """
    if not isinstance(value, str):
        return value
    if len(value) > MAX_VALUE:
        return {"characters": len(value), "sha256": hashlib.sha256(value.encode()).hexdigest()}
    return parsed(value)


def differences(before: Mapping[str, object], after: Mapping[str, object]) -> dict[str, dict[str, Any]]:
    """Returns the values that differ as the data of an event: `was` and `now`, each by name; nothing if none does."""
    names = [name for name in after if before[name] != after[name]]
    if not names:
        return {}
    return {
        "was": {name: kept(dumps(before[name])) for name in names},
        "now": {name: kept(dumps(after[name])) for name in names},
    }


def cut(text: str, most: int) -> str:
    """Returns the text, cut to `most` characters; the last is then an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def numbers(values: Iterable[int]) -> str:
    """Returns the numbers as a sorted JSON list without duplicates, for SQLite's `json_each`."""
    return "[" + ",".join(map(str, sorted(set(values)))) + "]"


def versions_asked(wanted: Iterable[tuple[int, int]]) -> str:
    """Returns pairs of number and version as such a list of single numbers, which SQLite reads in half the time."""
    return numbers([(version << 32) + number for number, version in wanted])


class Kinds(NamedTuple):
    """What a board has rows of at all, so that statements about many items need not look for more of it."""

    edges: bool
    debates: bool
    open_debates: bool
    holds: bool
    endorsements: bool
    retractions: bool
    trusts: bool
    agreements: bool
    duties: bool
    requests: bool


def kinds_of(no: int) -> Steps[Kinds]:
    """Returns what the board with this number has rows of."""
    (row,) = yield sql("board_kinds"), (no,)
    return Kinds(*row)


@dataclass(slots=True)
class BoardRow:
    """A row of `board`: its fields are the columns. Times are in microseconds since 1970."""

    no: int
    id: str
    title: str
    parent: str | None
    lifecycle: Lifecycle
    config: BoardConfig
    core: Core
    seq: int
    last_number: int
    created_at: int
    working_items: int
    working_tokens: int
    archived_items: int
    private_items: int
    private_tokens: int
    """The tokens of items in working memory that not everybody may see."""
    pressure: int
    """The number of the item that reports pressure; 0 if there is none."""
    copied: int
    """1 if the board was restored from a copy and has not changed since, else 0."""
    conditional: int
    """1 if the board has stages, or tasks with a trigger, else 0."""
    read_rules: str
    """The read rules of the installation, as stored; empty without any."""

    @classmethod
    def of(cls, row: Sequence[Any]) -> BoardRow:
        """Makes a board's row from the columns of a statement."""
        no, id_, title, parent, lifecycle, config, core, *more = row
        more[-1] = more[-1] or ""
        stage = _LIFECYCLES.get(lifecycle) or Lifecycle(lifecycle)
        return cls(no, id_, title, parent, stage, config_of(config), core_of(core), *more)

    @property
    def presence(self) -> int:
        """The microseconds without a call after which an agent counts as away; 0: never."""
        return self.config.presence_seconds * 1_000_000

    def value(self) -> Board:
        """Returns the board as callers get it."""
        return Board(
            id=self.id,
            title=self.title,
            parent=self.parent,
            lifecycle=self.lifecycle,
            config=self.config,
            core=self.core,
            seq=self.seq,
            created_at=instant(self.created_at),
            working_items=self.working_items,
            working_tokens=self.working_tokens,
            archived_items=self.archived_items,
            pressure=self.pressure or None,
        )


def core_json(core: Core) -> str:
    """Returns the JSON that is stored for a core."""
    return dumps(asdict(core))


def config_json(config: BoardConfig) -> str:
    """Returns the JSON that is stored for a configuration."""
    return dumps(asdict(config))


@lru_cache(maxsize=64)
def core_of(stored: str) -> Core:
    """Parses a stored core; each text only once, since every operation reads its board."""
    core = json.loads(stored)
    return Core(core["objective"], tuple(core["constraints"]), core["flags"], core["version"])


@lru_cache(maxsize=256)
def config_of(stored: str) -> BoardConfig:
    """Parses a stored configuration; each text only once, since every write needs it.

    Settings that an older version did not store get their default. Settings that a newer version stored are ignored
    here, and stay stored when others change.
    """
    given: dict[str, Any] = {}
    for name, value in json.loads(stored).items():
        if name in _SETTINGS:
            given[name] = tuple(value) if isinstance(value, list) else value
    return BoardConfig(**given)


_SETTINGS = frozenset(field.name for field in fields(BoardConfig))


FORGOTTEN: Final = 2
"""The value of the `deleted` column for forgotten content."""

Cited = tuple[Edge, str]
"""An edge, and the id of the item at its other end."""


@dataclass(slots=True)
class ItemRow:
    """A row of `item`: its fields are the columns. Times are in microseconds since 1970; JSON stays text."""

    board: int
    number: int
    type: str
    key: str | None
    version: int
    status: str
    zone: str
    importance: int
    author: str
    owner: str
    text: str
    tags: str
    metadata: str
    tokens: int
    sha256: str
    thread: int
    created_at: int
    updated_at: int
    ttl: int | None
    expires_at: int | None
    seq: int
    updated_by: str
    deleted: int = 0
    """0 for an existing item, 1 for a tombstone, 2 for forgotten content."""
    written_by: str = ""
    written_at: int = 0
    """Who wrote the version, and when; the item's author and time of creation if these are empty."""

    @property
    def id(self) -> str:
        """The item's id, such as `F-12`."""
        return item_id(self.type, self.number)

    @property
    def visibility(self) -> Visibility:
        """Who may see the item."""
        return visibility_of(self.owner)

    @property
    def public(self) -> bool:
        """Whether everybody may see the item."""
        return not self.owner

    @property
    def forgotten(self) -> bool:
        """Whether an operator's decision removed the item's content."""
        return self.deleted == FORGOTTEN

    def tag_list(self) -> tuple[str, ...]:
        """Returns the item's tags."""
        return () if self.tags == "[]" else tuple(parsed(self.tags))

    def value(
        self,
        board: str,
        leaving: Sequence[Cited],
        arriving: Sequence[Cited],
        debate: str | None,
        thread_id: str,
        supporters: tuple[str, ...] = (),
        opponents: tuple[str, ...] = (),
        retracted: tuple[Retraction, ...] = (),
        trust: Trust = Trust.NORMAL,
        contested: tuple[Contest, ...] = (),
        former: int = 0,
        fell: tuple[str, ...] = (),
        undecided: bool = False,
        agreement: Agreement | None = None,
        adopted_in: str | None = None,
        outcome: str = "",
        successions: Sequence[tuple[str, str]] = (),
        forgotten: Forgotten | None = None,
        answered_by: str | None = None,
        newer: tuple[str, ...] = (),
    ) -> Item:
        """Returns the item as callers get it; the arguments are what its row does not hold.

        `leaving` and `arriving` are its edges and those to it. `successions` holds pairs of id and status: the item
        that it gave way to first, and the last one of that chain.
        """
        made = self._made(board, thread_id, trust)
        if leaving:
            made.edges = tuple([edge for edge, _ in leaving])
            made.cites = tuple([(edge.kind, id_) for edge, id_ in leaving])
        if arriving:
            made.incoming = tuple([edge for edge, _ in arriving])
            made.cited_by = tuple([(edge.kind, id_) for edge, id_ in arriving])
        if successions:
            made.gave_way_to = successions[0][0]
            made.led_to = successions[-1][0] if len(successions) > 1 else ""
            made.successor_fell = successions[-1][1] in FALLEN
        made.debate, made.outcome = debate, outcome
        made.supporters, made.opponents, made.retracted = supporters, opponents, retracted
        made.contested, made.former, made.fell = contested, former, fell
        made.undecided, made.agreement, made.adopted_in = undecided, agreement, adopted_in
        made.forgotten, made.answered_by, made.newer = forgotten, answered_by, newer
        made.__class__ = Item
        item: Item = made
        return item

    def alone(self, board: str, trust: Trust = Trust.NORMAL) -> Item:
        """Returns the item of a conversation of its own as callers get it, if no other row says anything about it."""
        made = self._made(board, self.id, trust)
        made.__class__ = Item
        item: Item = made
        return item

    def _made(self, board: str, thread_id: str, trust: Trust) -> Any:
        """Returns the item, not frozen yet, without what its row does not hold."""
        created_at = instant(self.created_at)
        made: Any = unfrozen(Item)(  # in the order of the fields, which takes half as long as by their names
            board,
            self.number,
            _TYPES.get(self.type) or ItemType(self.type),
            self.key,
            self.version,
            _STATUSES.get(self.status) or Status(self.status),
            _ZONES.get(self.zone) or Zone(self.zone),
            self.importance,
            self.author,
            self.text,
            self.tag_list(),
            {} if self.metadata == "{}" else parsed(self.metadata),
            self.tokens,
            self.sha256,
            self.thread,
            visibility_of(self.owner),
            created_at,
            created_at if self.updated_at == self.created_at else instant(self.updated_at),
            None if self.expires_at is None else instant(self.expires_at),
            self.seq,
            self.updated_by,
            self.written_by or self.author,
            instant(self.written_at) if self.written_at else created_at,
        )
        made.thread_id, made.trust, made.deleted = thread_id, trust, bool(self.deleted)
        return made


ITEM_COLUMNS: Final = tuple(field.name for field in fields(ItemRow))
"""The columns of `item` in the order of the fields of `ItemRow`."""
columns_of: Final[Callable[[ItemRow], tuple[Any, ...]]] = attrgetter(*ITEM_COLUMNS)
"""Returns the values of a row in the order of its columns."""


def edge_of(row: Sequence[Any]) -> Edge:
    """Makes an edge from the columns source, kind and target."""
    return Edge(row[0], EdgeKind(row[1]), row[2])


def event_of(row: Sequence[Any]) -> Event:
    """Returns the event of the columns of the statement `events_after`."""
    return _event(tuple(row))


@lru_cache(maxsize=4096)
def _event(row: tuple[Any, ...]) -> Event:
    """Makes an event; each row only once while it is kept, because all readers read the same ones."""
    data = {} if row[10] == "{}" else parsed(row[10])
    metadata = data.pop("metadata", None) if row[2] is not None and data else None
    made: Event = unfrozen(Event)(
        seq=row[0],
        event=_EVENTS.get(row[1]) or EventType(row[1]),
        item=None if row[2] is None else item_id(row[3], row[2]),
        key=row[4],
        version=row[5],
        agent=row[7],
        tags=() if row[8] == "[]" else tuple(json.loads(row[8])),
        at=instant(row[9]),
        data=data,
        owner=row[11] or None,
        type=None if row[3] is None else _TYPES.get(row[3]) or ItemType(row[3]),
        thread=row[6],
        metadata=metadata if isinstance(metadata, dict) else {},
        concerns=() if row[12] == "[]" else tuple(json.loads(row[12])),
    )
    made.__class__ = Event
    return made
