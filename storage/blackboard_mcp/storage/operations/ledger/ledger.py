"""A board inside a write transaction: its counters, its events, and the loading of its items."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from operator import itemgetter
from typing import Any

from blackboard_mcp.protocols.access import EVERY_BOARD, Action, Trust
from blackboard_mcp.protocols.answers import MOST_UNSEEN, Attention, Look, Owed
from blackboard_mcp.protocols.asking import KEYS
from blackboard_mcp.protocols.board import BoardConfig, Core, Lifecycle
from blackboard_mcp.protocols.changes import ChangeKind
from blackboard_mcp.protocols.debates import Duty
from blackboard_mcp.protocols.errors import Conflict, StoreDamaged, UnknownReference
from blackboard_mcp.protocols.events import APART, QUIET, SYSTEM, EventType
from blackboard_mcp.protocols.items import ItemType, Zone, item_id

from ...operation import Many, Rows, Write
from ..access.permits import Noted, judged_here
from ..items import trust
from ..leaving import accounts
from . import kept_bytes, lookalikes
from .principals import audience
from .rows import (
    BoardRow,
    ItemRow,
    Steps,
    columns_of,
    config_json,
    core_json,
    dumps,
    kept,
    numbers,
    parsed,
    sql,
)

MAX_CONCERNS = 128
"""The most agents whom one event concerns; a debate cannot oblige as many at once."""
_LOOKED_THROUGH = 2_000
"""The most events, after those that an agent was shown, that one answer examines."""
FEW = 48
"""Most events that are looked through without lists of their types in the statement: SQLite reads those first."""
_PRESSING = {Duty.RESPOND: 0, Duty.ANSWER: 0, Duty.ACKNOWLEDGE: 2}
"""The rank of duties, lowest first; others have 1. Answers come first, because somebody waits for them."""
_LEAST_OUT = 100_000_000
_MOST_OUT = 900_000_000
"""A copy skips `_LEAST_OUT` sequences and up to `_MOST_OUT` more, at random.

That is more than a board uses before anybody notices, and two copies hardly ever skip the same number.
"""
_QUIET, _APART = dumps(sorted(QUIET)), dumps(sorted(APART))


Told = tuple[EventType, ItemRow | None, dict[str, Any]]
"""What an event was about: its type, item and data."""


@dataclass(slots=True)
class Ledger:
    """The changes that a transaction makes to one board: events, items and differences of its counters.

    `close` writes the counters once, at the end.
    """

    board: BoardRow
    agent: str
    write: InitVar[Write]
    now: int = field(init=False)
    """The time of the change, in microseconds since 1970."""
    opened: int = field(init=False)
    """When this process opened the store, in microseconds since 1970."""
    items: int = 0
    tokens: int = 0
    archived: int = 0
    private_items: int = 0
    private_tokens: int = 0
    holding: set[int] = field(default_factory=set)
    """Numbers of items that the guard may protect from now on, which counts on the account of the agent's owner."""
    answering: bool = False
    """Tells whether the agent gave an answer that it owed."""
    grown: int = 0
    """The number of items and versions that this transaction adds to what is stored for good."""
    asking: bool = False
    """Tells whether an operation on requests is under way, which alone may write requests and their answers."""
    addressed: str = ""
    """The only addressee of the present post: the agent or skill that is asked, or the asker; else empty."""
    before: int = field(init=False)
    """The sequence of the board before the change."""
    first_seq: int = field(init=False)
    """The sequence of the first event of the change."""
    first_number: int = field(init=False)
    changes: Noted | None = field(init=False)
    """The agent's changes so far, if access policies judge them."""
    fresh: dict[int, ItemRow] = field(default_factory=dict)
    """Items created in this transaction, by number."""
    rewritten: dict[int, ItemRow] = field(default_factory=dict)
    """Items that got a new version in this transaction, by number, as it left them."""
    debating: set[int] = field(default_factory=set)
    """Numbers of critiques that became part of an open debate in this transaction."""
    told: list[Told] = field(default_factory=list)
    """What the events of the transaction were about, for conditions that mention it."""
    staged: list[int] = field(default_factory=list)
    """Numbers of the stages that moved."""
    steward: bool = field(init=False)
    """Tells whether the call may moderate the board; the server and programs in its process may."""
    appointed: bool = field(init=False)
    """Tells whether the call may moderate the board and not everybody may."""
    role: str = field(init=False)
    """The role that the caller's credential gives it on the board; empty without one, and for the server."""
    ruling: bool = False
    """Tells whether the call changes rules as such: their authors and stewards may write them anew and retire them."""
    ruled: bool = False
    """Tells whether an event touched a rule that everybody may see."""
    watched: bool = True
    """Whether somebody may watch a topic of the board."""
    reserved: bool = True
    """Tells whether anybody may have reserved something of the board when the transaction began."""
    trusted: Trust | None = None
    """The trust in what the agent posts, if it is known. Whoever changes `agent` changes this and `owner`, too."""
    shown: Look | None = None
    """The place in the log up to which the database knows that the agent was shown it, if any; its `told` is empty."""
    owner: str = ""
    """The agent's owner, if it has one."""
    others: bool = False
    """Tells whether an event was caused by another than the agent."""

    def __post_init__(self, write: Write) -> None:
        self.now, self.opened = write.now, write.opened
        self.before = self.board.seq
        self.first_seq = self.before + 1
        if self.board.copied:
            # One number for the event that tells of the gap; the change itself begins after it.
            self.first_seq += _LEAST_OUT + secrets.randbelow(_MOST_OUT) + 1
        self.first_number = self.board.last_number + 1
        grant = write.grant
        self.steward = grant is None or Action.MODERATE in grant.powers.get(grant.member, ())
        self.appointed = (
            self.steward and grant is not None and (grant.stewards_known or grant.member is not None)
        )
        given = {} if grant is None else grant.roles
        self.role = str(given.get(self.board.id) or given.get(EVERY_BOARD) or "")
        self.changes = judged_here(self.board, self.agent, write.permit)

    @property
    def no(self) -> int:
        """The board's number in the database."""
        return self.board.no

    @property
    def side(self) -> str:
        """The owner whom the agent acts for; the agent itself if none was named."""
        return self.owner or self.agent

    @property
    def next_seq(self) -> int:
        """The sequence of the next event."""
        return self.first_seq if self.board.copied else self.board.seq + 1

    def governs(self, row: ItemRow) -> bool:
        """Tells whether the call may write this rule anew or retire it."""
        return self.ruling and row.type == ItemType.CONSTRAINT and (self.steward or row.author == self.agent)

    def note(self, kind: ChangeKind, item: ItemRow | None = None, **more: Any) -> None:
        """Notes a change by the agent for access policies; `item` is its row before the change.

        `more` holds further fields of `Change`. Every operation that an agent calls notes its changes, and `close`
        checks that they were allowed.
        """
        if self.changes is not None:
            known = item is not None and item.number < self.first_number
            self.changes.add(kind, item, known=known, **more)

    def prove(self) -> Steps[None]:
        """Checks that the noted changes were allowed; for operations that write no event and hence do not `close`.

        Raises:
            Unpermitted: a noted change was not allowed.
        """
        if self.changes is not None:
            yield from self.changes.prove(self.agent)

    def was_here(self, posts: int = 0) -> Steps[None]:
        """Records that the agent makes a call, and posted so many items that everybody may see."""
        yield sql("agent_seen"), (self.no, self.agent, posts, self.now, self.now + self.board.presence)

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
        """Writes the next event to the log and returns its sequence.

        The event gets the item's tags and metadata as its row has them. `agent` is who caused it, by default the
        ledger's agent. `concerns` names agents whom it concerns; those who
        may not see the item are left out. `told` says that another event of this transaction already tells them.
        """
        values, named = yield from self._next(event, item, agent, data, concerns)
        yield sql("event_add"), values
        if item is not None and not told:
            for name in named:
                yield sql("concern_add"), (self.no, name, values[1], item.number)
        seq: int = values[1]
        return seq

    def emit_all(
        self,
        events: Iterable[tuple[EventType, ItemRow, dict[str, Any], Iterable[str]]],
        *,
        agent: str | None = None,
    ) -> Steps[list[int]]:
        """Writes events like `emit`, each with its item, data and concerns, all at once; returns their sequences."""
        rows, concerned = Many(), Many()
        for event, item, data, concerns in events:
            values, named = yield from self._next(event, item, agent, data, concerns)
            rows.append(values)
            concerned += [(self.no, name, values[1], item.number) for name in named]
        for name, many in (("event_add", rows), ("concern_add", concerned)):
            if many:
                yield sql(name), many
        return [values[1] for values in rows]

    def _next(
        self,
        event: EventType,
        item: ItemRow | None,
        agent: str | None,
        data: dict[str, Any] | None,
        concerns: Iterable[str],
    ) -> Steps[tuple[tuple[Any, ...], list[str]]]:
        """Returns the row of the next event, and whom it concerns."""
        if self.board.copied:
            yield from self._begin_anew()
        self.board.seq += 1
        seq = self.board.seq
        actor = self.agent if agent is None else agent
        self.others |= actor != self.agent
        data = data or {}
        self.told.append((event, item, data))
        if item is not None and item.metadata != "{}":
            data = {**data, "metadata": kept(item.metadata)}
        named = [name for name in dict.fromkeys(concerns) if name != actor]
        if event is EventType.CORE_CHANGED or (
            item is not None and item.type == ItemType.CONSTRAINT and item.public
        ):
            self.ruled = True
        if named and item is not None and not item.public:
            named = yield from audience(self.board.id, item.owner, named)
        named = named[:MAX_CONCERNS]
        values = (
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
            dumps(data) if data else "{}",
            "" if item is None else item.owner,
            dumps(named) if named else "[]",
        )
        return values, named

    def _begin_anew(self) -> Steps[None]:
        """Skips sequences that other copies of the board may have used, and writes the `board.restored` event."""
        board, after = self.board, self.board.seq
        self.others = True
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
        """Stores a new item in working memory, with its event."""
        *columns, _, _ = columns_of(item)  # the last two say who wrote it, and when
        yield sql("item_add"), (*columns, item.author, item.created_at)
        known = self.trusted if item.author == self.agent else None
        if known is not Trust.NORMAL:
            yield from trust.posted(self.no, item.number, item.author, known)
        self.fresh[item.number] = item
        self.grown += 1
        yield from self.emit(EventType.ITEM_POSTED, item, data=data, concerns=concerns)
        self._count(item, 1)

    def archive(self, item: ItemRow, event: EventType, *, data: dict[str, Any]) -> Steps[None]:
        """Moves an item out of working memory: writes the event, its zone and the row for the archive's index."""
        seq = yield from self.emit(event, item, data=data)
        yield from self.archive_all([(item, seq)])

    def archive_all(self, leaving: Sequence[tuple[ItemRow, int]]) -> Steps[None]:
        """Moves items out of working memory.

        `leaving` pairs each item with the sequence of its event, which the caller has already written.
        """
        moved = dumps([[item.number, seq] for item, seq in leaving])
        yield sql("items_archive"), (self.no, moved)
        yield sql("outbox_add_all"), (self.no, moved)
        for item, seq in leaving:
            item.zone, item.seq = str(Zone.ARCHIVE), seq
            self.leave(item)

    def leave(self, item: ItemRow) -> None:
        """Counts an item as archived; the caller writes its event and its row."""
        self._count(item, -1)
        self.archived += 1

    def restore(self, item: ItemRow, *, why: str) -> Steps[None]:
        """Brings an archived item back to working memory, without its time to live. `why` goes into the event."""
        seq = yield from self.emit(EventType.ITEM_RESTORED, item, data={"why": why}, concerns=[item.author])
        yield sql("item_back"), (self.no, item.number, seq)
        yield sql("outbox_add"), (self.no, item.number)
        item.zone, item.seq, item.ttl, item.expires_at = str(Zone.WORKING), seq, None, None
        self._count(item, 1)
        if not item.forgotten:
            self.archived -= 1

    def grow(self, item: ItemRow, tokens: int) -> None:
        """Adds `tokens`, which may be negative, to the count for an item of working memory."""
        self.tokens += tokens
        if not item.public:
            self.private_tokens += tokens

    def _count(self, item: ItemRow, sign: int) -> None:
        self.items += sign
        if not item.public:
            self.private_items += sign
        self.grow(item, sign * item.tokens)

    def close(self) -> Steps[None]:
        """Checks the limits and the noted changes, then writes the counters.

        Raises:
            StoreLow: the disk is nearly full.
            QuotaExceeded: the board allows no more stored bytes, or no more protected items on the owner's account.
            Unpermitted: a noted change was not allowed.
        """
        if self.board.conditional:
            from ..stages.following import follow  # it needs this module

            yield from follow(self)
        if self.grown:
            yield from kept_bytes.check(self)
        # An answer that is owed is never refused, unless other new items come with it.
        if self.holding and not (self.answering and len(self.fresh) <= 1):
            yield from accounts.check(self)
        board = self.board
        if self.changes is not None:
            yield from self.changes.prove(self.agent)
        if self.ruled:
            from ..leaving.pressure import resolve_unnamed  # it needs this module

            yield from _record_rules(board.no, self.agent)
            yield from resolve_unnamed(self)
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


def _record_rules(no: int, agent: str) -> Steps[None]:
    """Gives the rules that changed the next revision; a rule no longer in force has an empty mark.

    The agent, which changes them, counts as shown that revision if it was shown the one before.
    """
    now: dict[int, str] = dict((yield sql("rules_standing"), (no,)))
    before = {item: (mark, revision) for item, mark, revision in (yield sql("rule_changes"), (no,))}
    changed = {
        item: now.get(item, "")
        for item in sorted(now.keys() | before.keys())
        if now.get(item, "") != before.get(item, ("", 0))[0]
    }
    if changed:
        revision = 1 + max((revision for _, revision in before.values()), default=0)
        yield sql("rule_changed"), (no, dumps(changed), revision)
        if (yield sql("rules_known"), (no, agent))[0][1] == revision - 1:
            yield sql("rules_saw"), (no, agent, revision)


def find_board(board: str) -> Steps[BoardRow | None]:
    """Returns the board's row, or `None` if it does not exist."""
    rows = yield sql("board_by_id"), (board,)
    return BoardRow.of(rows[0]) if rows else None


def get_board(board: str) -> Steps[BoardRow]:
    """Returns the board's row.

    Raises:
        UnknownReference: the board does not exist.
    """
    row = yield from find_board(board)
    if row is None:
        raise absent(board)
    return row


def absent(board: str) -> UnknownReference:
    """Returns the error for a board that does not exist."""
    return UnknownReference(
        f"There is no board '{board}' yet; the first post to it creates it. Nothing was changed.",
        board=board,
    )


def open_ledger(write: Write, board: str, agent: str) -> Steps[Ledger]:
    """Returns a ledger for an existing board.

    Raises:
        UnknownReference: the board does not exist.
        Refused: the agent is new to the board and its name looks like another's, or is reserved.
    """
    ledger = yield from _opened(write, board, agent)
    if ledger is None:
        raise absent(board)
    return ledger


def _opened(write: Write, board: str, agent: str) -> Steps[Ledger | None]:
    """Returns a ledger for the board, or `None` if it does not exist. Errors are those of `open_ledger`."""
    opened = yield sql("board_opened"), (board, agent, 1)
    for *columns, let_in, watched, reserved, trusted, owner, cursor, above in opened:
        row = BoardRow.of(columns)
        if not let_in:
            yield from lookalikes.admit(row.no, board, agent)
        ledger = Ledger(row, agent, write)
        ledger.watched, ledger.reserved, ledger.owner = bool(watched), bool(reserved), owner or ""
        ledger.trusted = Trust(trusted) if trusted else Trust.NORMAL
        if cursor is not None:
            ledger.shown = Look(cursor, parsed(above))
        return ledger
    return None


def create_ledger(write: Write, board: str, agent: str, config: BoardConfig) -> Steps[Ledger]:
    """Returns a ledger for the board, and creates the board with `config` if it does not exist.

    Raises:
        Refused: as `open_ledger`.
    """
    ledger = yield from _opened(write, board, agent)
    if ledger is not None:
        return ledger
    yield sql("board_add"), (board, board, None, config_json(config), core_json(Core()), write.now)
    ledger = yield from open_ledger(write, board, agent)
    yield from ledger.emit(EventType.BOARD_CREATED, data={"board": board})
    return ledger


def load(no: int, wanted: Iterable[int], agent: str) -> Steps[dict[int, ItemRow]]:
    """Returns those of the items that the agent may see, by number. `no` is the board's number."""
    wanted = set(wanted)
    if not wanted:
        return {}
    return _by_number((yield sql("items_by_number"), (no, numbers(wanted), agent)), wanted)


def load_any(no: int, wanted: Iterable[int]) -> Steps[dict[int, ItemRow]]:
    """Returns items by number, whoever may see them; for the server's own work."""
    wanted = set(wanted)
    if not wanted:
        return {}
    return _by_number((yield sql("items_any"), (no, numbers(wanted))), wanted)


def _by_number(rows: Rows, wanted: set[int]) -> dict[int, ItemRow]:
    # Engines return rows in orders of their own.
    found = {row[1]: ItemRow(*row) for row in sorted(rows, key=itemgetter(1))}
    check_index(found, rows, wanted)
    return found


def check_index(found: Mapping[int, object], rows: Rows, wanted: set[int]) -> None:
    """Checks that what was found by number is what was asked for.

    Raises:
        StoreDamaged: it is not; one item must not pass for another.
    """
    # A damaged index may lead to another row.
    if len(found) != len(rows) or not found.keys() <= wanted:
        raise StoreDamaged(
            "The file is damaged: an index leads to the wrong item. Nothing was shown or changed; "
            "tell who runs the server: `blackboard-mcp doctor` says more, and a backup has it."
        )


def load_visible(no: int, wanted: Iterable[int], agent: str, board: str) -> Steps[dict[int, ItemRow]]:
    """Returns all of the items, by number.

    Raises:
        UnknownReference: one does not exist, or this agent may not see it.
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
    """Returns the item itself if it was neither deleted nor forgotten.

    Raises:
        Conflict: it was deleted or forgotten.
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


Standing = tuple[Look, Rows, int, str | None, bool]
"""An agent's look, its duties, oldest first, the board's last sequence, `Attention.team`, and whether it may only read.

There are at most 50 rows of duties; each holds the item's number, the duty, the item's type, and the time in
microseconds since when it is owed. Rows of obligations also tell whether it is an item's own watch, which is no debt,
and whether votes close the debate to judge.
"""


def standing_of(no: int, agent: str, look: int) -> Steps[Standing]:
    """Returns how an agent stands.

    `look` is the place in the log up to which the caller knows that the agent was shown it; the database may know more.
    """
    ((cursor, above, told, owes, asked, end, ruled, owner, reads),) = yield sql("standing_of"), (no, agent)
    known = Look.of(look)
    if cursor is not None:
        known = known.joined(Look(cursor, parsed(above), parsed(told)))
    owed = [] if reads else (yield from _owed(no, agent, owes, asked))
    return known, owed, end, None if ruled else owner or "", bool(reads)


def _owed(no: int, agent: str, owes: bool, asked: bool) -> Steps[Rows]:
    """Returns what an agent owes, as in `Standing`, on a board where it may owe something or be asked."""
    rows: Rows = (yield sql("obligations_of_agent"), (no, agent)) if owes else []
    if asked:
        rows = [*rows, *(yield sql("requests_owed"), (no, agent))]
        rows = sorted(rows, key=lambda row: (any(row[4:5]), row[3], row[0]))[:50]
    return rows


def attention(no: int, agent: str, look: int, *, own_since: int | None = None) -> Steps[Attention]:
    """Returns what an agent owes, and the events that it has not been shown; `look` as in `standing_of`.

    All events after the sequence `own_since` are the agent's own.
    """
    return (
        yield from attention_to(no, agent, (yield from standing_of(no, agent, look)), own_since=own_since)
    )


def attention_after(ledger: Ledger, look: int, *, own_since: int | None = None) -> Steps[Attention]:
    """Returns the same as `attention` for a ledger's agent after its change."""
    owing: Rows = []
    if ledger.board.lifecycle is Lifecycle.OPEN:  # elsewhere nobody owes anything
        owing = yield sql("owing"), (ledger.no, ledger.agent)
    ((owes, asked),) = owing or [(False, False)]
    owed = yield from _owed(ledger.no, ledger.agent, owes, asked)
    known = Look.of(look)
    if ledger.shown is not None:
        known = known.joined(ledger.shown)
    standing = known, owed, ledger.board.seq, None if ledger.board.read_rules else ledger.owner, False
    return (yield from attention_to(ledger.no, ledger.agent, standing, own_since=own_since))


def attention_to(
    no: int, agent: str, standing: Standing, *, own_since: int | None = None
) -> Steps[Attention]:
    """Returns the same as `attention` for an agent that stands so."""
    known, rows, end, team, _ = standing
    owed = tuple(
        Owed(item_id(type_, number), Duty(duty), votes=any(marks[1:]))
        for number, duty, type_, _since, *marks in rows
        if not any(marks[:1])
    )
    pressing = tuple(sorted(owed, key=lambda one: _PRESSING.get(one.duty, 1)))
    if known >= (end if own_since is None else own_since):
        return Attention(pressing, (), end, team)
    first: int = int(known)
    before: tuple[tuple[int, int], ...] = ()
    # Events do not change, so what was found once is true while the agent may see the same.
    if (left := known.left) is not None and team is not None and team == left.team and left.looked > known:
        first, before = left.looked, left.fresh
        if before and (before[0][0] <= known or known.above):
            before = tuple(one for one in before if one[0] > known and one[0] not in known.above)
    if len(before) >= MOST_UNSEEN:
        return Attention(pressing, before, first, team)
    if first >= (end if own_since is None else own_since):
        return Attention(pressing, before, end, team)
    reach = end
    if end - first > _LOOKED_THROUGH:
        # Sequences may have gaps.
        ((reach,),) = yield sql("log_reach"), (no, first, _LOOKED_THROUGH)
        reach = min(reach, end)  # what was posted in the same go comes later
    most = MOST_UNSEEN - len(before)
    found: Rows
    if reach - first <= FEW:
        others = yield sql("unseen_few"), (no, first, reach, agent)
        found = [
            (seq, item)
            for seq, item, event, directed, concerns in others
            if seq not in known.above and _is_news(agent, event, directed, concerns)
        ]
        del found[most:]
    else:
        above = numbers([seq for seq in known.above if seq > first])
        found = yield sql("unseen"), (no, first, reach, agent, _QUIET, _APART, above, most)
    looked_through = found[-1][0] if len(found) == most else reach
    fresh = (*before, *((seq, item or 0) for seq, item in found))
    return Attention(pressing, fresh, looked_through, team)


def _is_news(agent: str, event: str, directed: bool, concerns: str) -> bool:
    """Tells whether another's event is news to the agent, as `Event.is_news_to` does."""
    if event in QUIET:
        return False
    return (event not in APART and not directed) or (concerns != "[]" and agent in parsed(concerns))


def looked(no: int, agent: str, look: int) -> Steps[Look]:
    """Returns which events of a board the agent was shown, by the database and by `look` together."""
    known = Look.of(look)
    for cursor, above, told in (yield sql("shown"), (no, agent)):
        known = known.joined(Look(cursor, parsed(above), parsed(told)))
    return known
