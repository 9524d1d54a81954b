"""A board inside a write transaction: its counters, its events, and what every operation loads."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import InitVar, astuple, dataclass, field, replace
from typing import Any

from blackboard_mcp.protocols.answers import MOST_UNSEEN, Attention, Look, Owed
from blackboard_mcp.protocols.asking import KEYS
from blackboard_mcp.protocols.board import BoardConfig, Core
from blackboard_mcp.protocols.changes import ChangeKind
from blackboard_mcp.protocols.debates import Duty
from blackboard_mcp.protocols.errors import Conflict, StoreDamaged, UnknownReference
from blackboard_mcp.protocols.events import APART, QUIET, SYSTEM, EventType
from blackboard_mcp.protocols.items import Zone, item_id

from ...operation import Rows, Write
from ..access.permits import Noted, judged_here
from ..items import trust
from ..leaving import accounts
from . import kept_bytes, lookalikes
from .principals import audience
from .rows import BoardRow, ItemRow, Steps, config_json, core_json, dumps, numbers, sql

MAX_CONCERNS = 128
"""Most agents whom one event concerns: more than a debate can oblige at once, by name and by topic."""
_LOOKED_THROUGH = 2_000
"""So many events after what an agent was shown are looked through for one answer."""
_PRESSING = {Duty.RESPOND: 0, Duty.ANSWER: 0, Duty.ACKNOWLEDGE: 2}
"""Which duties come first: somebody waits for answers most; what is to be agreed to may change until then."""
_LEAST_OUT = 100_000_000
_MOST_OUT = 900_000_000
"""So many sequences a copy leaves out at least and, besides, by chance at most: more than a board gives before anybody
notices, and two copies hardly ever the same."""
_QUIET, _APART = dumps(sorted(QUIET)), dumps(sorted(APART))


@dataclass(slots=True)
class Ledger:
    """Counts what a transaction changes on one board; `close` writes the counters once."""

    board: BoardRow
    agent: str
    write: InitVar[Write]
    now: int = field(init=False)
    """The time of the change, in microseconds since 1970."""
    items: int = 0
    tokens: int = 0
    archived: int = 0
    private_items: int = 0
    private_tokens: int = 0
    holding: set[int] = field(default_factory=set)
    """Items that the guard may hold from now on, on the account of the agent's owner."""
    answering: bool = False
    """An answer that the agent owed was given."""
    grown: int = 0
    """How many items and versions add to what is kept for good."""
    asking: bool = False
    """Requests and answers are being written by the operations that do."""
    addressed: str = ""
    """The only addressee of what is posted now: the agent or skill that is asked, or the asker."""
    before: int = field(init=False)
    """Where the board stood."""
    first_seq: int = field(init=False)
    """The sequence of the first event of the change."""
    first_number: int = field(init=False)
    changes: Noted | None = field(init=False)
    """What the agent changes, where policies judge it."""
    fresh: dict[int, ItemRow] = field(default_factory=dict)
    """Items made in this transaction, as they were written."""

    def __post_init__(self, write: Write) -> None:
        self.now = write.now
        self.before = self.board.seq
        self.first_seq = self.before + 1
        if self.board.copied:
            # Numbers that are left out, and the event that says so.
            self.first_seq += _LEAST_OUT + secrets.randbelow(_MOST_OUT) + 1
        self.first_number = self.board.last_number + 1
        self.changes = judged_here(self.board, self.agent, write.permit)

    @property
    def no(self) -> int:
        return self.board.no

    @property
    def next_seq(self) -> int:
        """The sequence of the next event."""
        return self.first_seq if self.board.copied else self.board.seq + 1

    def note(self, kind: ChangeKind, item: ItemRow | None = None, **more: Any) -> None:
        """A change that the agent makes, of the item as it was; `more` are fields of `Change`.

        Every operation that an agent asks for notes what it changes; `close` has it allowed.
        """
        if self.changes is not None:
            known = item is not None and item.number < self.first_number
            self.changes.add(kind, item, known=known, **more)

    def prove(self) -> Steps[None]:
        """For operations that change something and no event tells of it; the others `close`.

        Raises:
            Unpermitted: something noted was not allowed.
        """
        if self.changes is not None:
            yield from self.changes.prove(self.agent)

    def emit(
        self,
        event: EventType,
        item: ItemRow | None = None,
        *,
        agent: str | None = None,
        data: dict[str, Any] | None = None,
        concerns: Iterable[str] = (),
        told: bool = False,
    ) -> Steps[int]:
        """Writes the next line of the log and returns its sequence.

        `told`: those concerned hear of it by another event of this transaction, so no footer need name it.
        """
        if self.board.copied:
            yield from self._begin_anew()
        self.board.seq += 1
        seq = self.board.seq
        actor = self.agent if agent is None else agent
        named = [name for name in dict.fromkeys(concerns) if name != actor]
        if item is not None and not item.public:
            named = yield from audience(item.owner, named)
        yield (
            sql("event_add"),
            (
                self.no,
                seq,
                str(event),
                None if item is None else item.number,
                None if item is None else item.type,
                None if item is None else item.key,
                None if item is None else item.version,
                None if item is None else item.thread,
                actor,
                "[]" if item is None else item.tags,
                self.now,
                dumps(data or {}),
                "" if item is None else item.owner,
                dumps(named[:MAX_CONCERNS]),
            ),
        )
        if item is not None and not told:
            for name in named[:MAX_CONCERNS]:
                yield sql("concern_add"), (self.no, name, seq, item.number)
        return seq

    def _begin_anew(self) -> Steps[None]:
        """Leaves out numbers that other copies of the board may have given."""
        board, after = self.board, self.board.seq
        board.copied, board.seq = 0, self.first_seq - 1
        facts = dumps({"after": after})
        about = (None,) * 5
        yield (
            sql("event_add"),
            (
                self.no,
                board.seq,
                str(EventType.BOARD_RESTORED),
                *about,
                SYSTEM,
                "[]",
                self.now,
                facts,
                "",
                "[]",
            ),
        )
        yield sql("board_copied"), (self.no, 0)

    def add(self, item: ItemRow, *, data: dict[str, Any], concerns: Iterable[str] = ()) -> Steps[None]:
        """A new item in working memory, with its event."""
        written = replace(item, written_by=item.author, written_at=item.created_at)
        yield sql("item_add"), astuple(written)
        yield from trust.posted(self.no, item.number, item.author)
        self.fresh[item.number] = item
        self.grown += 1
        yield from self.emit(EventType.ITEM_POSTED, item, data=data, concerns=concerns)
        self._count(item, 1)

    def archive(
        self,
        item: ItemRow,
        event: EventType,
        *,
        agent: str | None = None,
        data: dict[str, Any],
        concerns: Iterable[str] = (),
    ) -> Steps[None]:
        """Moves an item out of working memory: zone, event and outbox row together."""
        seq = yield from self.emit(event, item, agent=agent, data=data, concerns=concerns)
        yield from self.archive_all([(item, seq)])

    def archive_all(self, leaving: Sequence[tuple[ItemRow, int]]) -> Steps[None]:
        """Moves items out of working memory, each by the event with its sequence, which is in the log already."""
        moved = dumps([[item.number, seq] for item, seq in leaving])
        yield sql("items_archive"), (self.no, moved)
        yield sql("outbox_add_all"), (self.no, moved)
        for item, seq in leaving:
            item.zone, item.seq = str(Zone.ARCHIVE), seq
            self.leave(item)

    def leave(self, item: ItemRow) -> None:
        """An item is in the archive from now on, by an event and a row that the caller writes."""
        self._count(item, -1)
        self.archived += 1

    def restore(self, item: ItemRow, *, why: str) -> Steps[None]:
        """Brings an archived item back to working memory; its time to live has ended and does not return."""
        seq = yield from self.emit(EventType.ITEM_RESTORED, item, data={"why": why}, concerns=[item.author])
        yield sql("item_back"), (self.no, item.number, seq)
        yield sql("outbox_add"), (self.no, item.number)
        item.zone, item.seq, item.ttl, item.expires_at = str(Zone.WORKING), seq, None, None
        self._count(item, 1)
        if not item.forgotten:
            self.archived -= 1

    def grow(self, item: ItemRow, tokens: int) -> None:
        """An item of working memory has so many tokens more."""
        self.tokens += tokens
        if not item.public:
            self.private_tokens += tokens

    def _count(self, item: ItemRow, sign: int) -> None:
        self.items += sign
        if not item.public:
            self.private_items += sign
        self.grow(item, sign * item.tokens)

    def close(self) -> Steps[None]:
        """Writes the counters.

        Raises:
            StoreLow, QuotaExceeded: no more may be kept for good.
            QuotaExceeded: the guard would hold more on the account of the agent's owner than it may have.
            Unpermitted: something noted was not allowed.
        """
        if self.grown:
            yield from kept_bytes.check(self)
        # Nobody is kept from an answer that is owed; what comes along with it is no part of that.
        if self.holding and not (self.answering and len(self.fresh) <= 1):
            yield from accounts.check(self)
        board = self.board
        if self.changes is not None:
            yield from self.changes.prove(self.agent)
        yield (
            sql("board_counters"),
            (
                board.no,
                board.seq,
                board.last_number,
                self.items,
                self.tokens,
                self.archived,
                self.private_items,
                self.private_tokens,
            ),
        )
        board.working_items += self.items
        board.working_tokens += self.tokens
        board.archived_items += self.archived
        board.private_items += self.private_items
        board.private_tokens += self.private_tokens


def find_board(board: str) -> Steps[BoardRow | None]:
    rows = yield sql("board_by_id"), (board,)
    return BoardRow.of(rows[0]) if rows else None


def get_board(board: str) -> Steps[BoardRow]:
    """The board's row.

    Raises:
        UnknownReference: there is no such board.
    """
    row = yield from find_board(board)
    if row is None:
        raise UnknownReference(
            f"There is no board '{board}' yet; the first post to it creates it. Nothing was changed.",
            board=board,
        )
    return row


def open_ledger(write: Write, board: str, agent: str) -> Steps[Ledger]:
    """A ledger on an existing board."""
    row = yield from get_board(board)
    yield from lookalikes.admit(row.no, board, agent)
    return Ledger(row, agent, write)


def create_ledger(write: Write, board: str, agent: str, config: BoardConfig) -> Steps[Ledger]:
    """A ledger on a board that comes into being now if it is not there."""
    row = yield from find_board(board)
    if row is not None:
        yield from lookalikes.admit(row.no, board, agent)
        return Ledger(row, agent, write)
    yield sql("board_add"), (board, board, None, config_json(config), core_json(Core()), write.now)
    row = yield from get_board(board)
    yield from lookalikes.admit(row.no, board, agent)
    ledger = Ledger(row, agent, write)
    yield from ledger.emit(EventType.BOARD_CREATED, data={"board": board})
    return ledger


def load(no: int, wanted: Iterable[int], agent: str) -> Steps[dict[int, ItemRow]]:
    """Those of the items that the agent may see, by number."""
    wanted = set(wanted)
    if not wanted:
        return {}
    return _by_number((yield sql("items_by_number"), (no, numbers(wanted), agent)), wanted)


def load_any(no: int, wanted: Iterable[int]) -> Steps[dict[int, ItemRow]]:
    """Items whoever may see them: for the server's own work."""
    wanted = set(wanted)
    if not wanted:
        return {}
    return _by_number((yield sql("items_any"), (no, numbers(wanted))), wanted)


def _by_number(rows: Rows, wanted: set[int]) -> dict[int, ItemRow]:
    found = {row[1]: ItemRow(*row) for row in rows}
    # An index that leads to another row, as after a flipped bit, must not make one item pass for another.
    if len(found) != len(rows) or not found.keys() <= wanted:
        raise StoreDamaged(
            "The file is damaged: an index leads to the wrong item. Nothing was shown or changed; "
            "tell who runs the server: `blackboard-mcp doctor` says more, and a backup has it."
        )
    return found


def load_visible(no: int, wanted: Iterable[int], agent: str, board: str) -> Steps[dict[int, ItemRow]]:
    """All of the items.

    Raises:
        UnknownReference: one is not there, or not for this agent.
    """
    asked = sorted(set(wanted))
    found = yield from load(no, asked, agent)
    if not asked:
        return found
    missing = [number for number in asked if number not in found]
    if missing:
        listed = ", ".join(str(number) for number in missing[:5])
        raise UnknownReference(
            f"No item {listed} on board '{board}'. Nothing was changed; query() lists what is there.",
            missing=missing[:20],
        )
    return found


def standing(row: ItemRow) -> ItemRow:
    """The item itself, when it was neither deleted nor forgotten.

    Raises:
        Conflict: it was.
    """
    if row.forgotten:
        own = row.key is not None and KEYS.parse(row.key) is None
        on = f"; post text to key '{row.key}' to begin it anew" if own else ""
        raise Conflict(
            f"{row.id} was forgotten by the operator's rules: its text is gone. Nothing was changed{on}; "
            f'read(ids=["{row.id}"]) says by whose decision.',
            item=row.id,
            current_version=row.version,
            forgotten=True,
        )
    if row.deleted:
        raise Conflict(
            f"{row.id} was deleted at version {row.version}. Nothing was changed; post text to key '{row.key}' to "
            f'begin it anew, read(ids=["{row.id}@*"]) has its versions.',
            item=row.id,
            key=row.key,
            current_version=row.version,
            deleted=True,
        )
    return row


def owed_by(no: int, agent: str) -> Steps[Rows]:
    """What waits for an agent: item, duty, type and since when, oldest first, at most 50."""
    rows = yield sql("obligations_of_agent"), (no, agent)
    if not (yield sql("requests_any"), (no,)):
        return rows
    asked = yield sql("requests_owed"), (no, agent)
    return sorted([*rows, *asked], key=lambda row: (row[3], row[0]))[:50]


def attention(no: int, agent: str, look: int) -> Steps[Attention]:
    """What an agent owes, and what is news to it that neither `look` nor the file says it was shown."""
    known = yield from looked(no, agent, look)
    return (yield from attention_after(no, agent, known))


def attention_after(no: int, agent: str, known: Look) -> Steps[Attention]:
    """The same, where all that the agent was shown is known."""
    rows = yield from owed_by(no, agent)
    owed = tuple(Owed(item_id(type_, number), Duty(duty)) for number, duty, type_, _since in rows)
    ((end,),) = yield sql("log_end"), (no,)
    reach = end
    if end - known > _LOOKED_THROUGH:
        # Numbers may be left out between.
        ((reach,),) = yield sql("log_reach"), (no, int(known), _LOOKED_THROUGH)
    fresh = yield (
        sql("unseen"),
        (
            no,
            int(known),
            reach,
            agent,
            _QUIET,
            _APART,
            dumps(sorted(known.above)),
            MOST_UNSEEN,
        ),
    )
    looked_through = fresh[-1][0] if len(fresh) == MOST_UNSEEN else reach
    pressing = sorted(owed, key=lambda one: _PRESSING.get(one.duty, 1))
    return Attention(tuple(pressing), tuple((seq, item or 0) for seq, item in fresh), looked_through)


def looked(no: int, agent: str, look: int) -> Steps[Look]:
    """What the agent was shown of a board, by the file and by `look`."""
    known = Look.of(look)
    for cursor, above, told in (yield sql("shown"), (no, agent)):
        known = known.joined(Look(cursor, json.loads(above), json.loads(told)))
    return known
