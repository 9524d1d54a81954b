"""Transactions as callers ask for them: checked words become a transaction of the store.

`Transactions.transact` takes what was read, what to write and what to do in debates at once.
`Transactions.attempt` is for programs: a function reads and asks for writes through a `Work`, and is run again
with fresh reads while what it read moves under it:

    async def move(work: Work) -> int:
        source, target = await work.entries("account:ada", "account:ben")
        amount = min(int(source.text), 5)
        work.write(key="account:ada", text=str(int(source.text) - amount))
        work.write(key="account:ben", text=str(int(target.text) + amount))
        return amount

    moved, committed = await transactions.attempt("ada", None, move)
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeVar

from blackboard_mcp.protocols.debates import DebateCall, DebateOp
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, Refused, UnknownReference
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.items import Item, Ref, parse_ref
from blackboard_mcp.protocols.keys import check_glob, check_key
from blackboard_mcp.protocols.store import Committed, Once
from blackboard_mcp.protocols.transactions import (
    BOARD,
    MAX_WRITES,
    Since,
    Transaction,
    check_transaction,
)
from blackboard_mcp.protocols.wire import TransactionAnswer, WireDebated, wire_item
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .blackboard import Blackboard, as_asked
from .mcp.adapter_arguments import Arguments
from .once import once_of
from .requests import Id, PostFields, check_agent, check_board, check_text
from .text import one_line

T = TypeVar("T")

ATTEMPTS = 10
"""How often `attempt` runs a function before it gives up."""
_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 0.2
_PAGE = 200
_MOST = 2**53
_MOST_MATCHING = 5 * _PAGE


class DebateFields(BaseModel):
    """One thing to do in a debate: the arguments of `debate` without `board`. `$1` is the first write."""

    model_config = ConfigDict(extra="forbid", strict=True)

    op: Literal["open", "acknowledge", "vote", "withdraw", "decide", "watch", "unwatch"]
    id: Id
    reason: Annotated[str, Field(max_length=2_000)] = ""
    watchers: Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=32)] | None = None
    approve: bool | None = None


class Transactions:
    """The use case: several reads and writes of one board, all or nothing."""

    def __init__(self, board: Blackboard) -> None:
        self._board = board

    async def transact(
        self,
        agent: str,
        board: str | None,
        reads: Mapping[str, int | Since],
        writes: Sequence[PostFields] = (),
        debates: Sequence[DebateFields] = (),
        idempotency_key: str | None = None,
    ) -> Committed:
        """Applies the writes, then the debates, if every read still holds; see `protocols.transactions`.

        Raises:
            Conflict: with `moved`, everything that was read or expected and is no longer so, with its version
                or sequence now.
            InvalidInput, UnknownReference, Refused: as posts and debates raise them.
        """
        once = once_of(
            idempotency_key,
            "transaction",
            reads={name: [read.seq] if isinstance(read, Since) else read for name, read in reads.items()},
            writes=[fields.digest_part() for fields in writes],
            debates=[fields.model_dump(exclude_defaults=True) for fields in debates],
        )
        return await self._transact(agent, board, reads, writes, debates, once)

    async def _transact(
        self,
        agent: str,
        board: str | None,
        reads: Mapping[str, int | Since],
        writes: Sequence[PostFields],
        debates: Sequence[DebateFields],
        once: Once | None,
    ) -> Committed:
        check_agent(agent)
        name = check_board(board) if board is not None else self._board.default_board
        if len(writes) > MAX_WRITES:
            raise InvalidInput(
                f"A transaction takes at most {MAX_WRITES} writes, not {len(writes)}. Nothing was changed."
            )
        calls = [
            _call(fields, place, len(writes), self._board.deciders) for place, fields in enumerate(debates, 1)
        ]
        wanted = Transaction(dict(reads), (), calls)
        check_transaction(wanted)
        wanted = replace(wanted, writes=await self._board.drafts(writes))
        look = self._board.looks.of(name, agent)
        try:
            done = await self._board.validation.write(
                name,
                agent,
                wanted.writes,
                once,
                lambda checked: self._board.store.transact(
                    name,
                    agent,
                    replace(wanted, writes=checked),
                    config=self._board.config,
                    once=once,
                    look=look,
                ),
            )
        except UnknownReference as error:
            raise as_asked(error, writes) from None
        if done.board is not None:
            self._board.activity.seen(name, agent)
            self._board.looks.told(name, agent, done.seq, done.attention)
            if done.board.pass_due:
                self._board.pruner.kick(name)
        for fields in writes:
            if fields.ttl_seconds is not None:
                self._board.pruner.expect(fields.ttl_seconds)
        return done

    async def attempt(
        self,
        agent: str,
        board: str | None,
        work: Callable[[Work], Awaitable[T]],
        *,
        attempts: int = ATTEMPTS,
        idempotency_key: str | None = None,
    ) -> tuple[T, Committed]:
        """Runs `work` and commits what it asked for, again and again until nothing it read moved meanwhile.

        `work` is given a `Work`: what it reads through it is validated, what it writes through it is kept back
        until it returns. It may run up to `attempts` times, so it must do nothing else that matters; between
        two runs lies a short random pause that grows. What it raises ends the attempt with nothing changed. The
        answer is what its last run returned, and what was committed. An idempotency key stands for the work as
        such, whatever it reads and writes: where it was used already, nothing is done, and the answer has what
        was committed then.

        Raises:
            Conflict: something it read moved in each of the runs.
        """
        name = check_board(board) if board is not None else self._board.default_board
        once = once_of(idempotency_key, "attempt")
        pause = _FIRST_PAUSE
        for left in range(attempts - 1, -1, -1):
            run = Work(self._board, check_agent(agent), name)
            result = await work(run)
            try:
                done = await self._transact(agent, name, run.reads, run.writes, run.debates, once)
            except Conflict as error:
                if not left or "moved" not in error.facts:
                    raise
            else:
                return result, done
            await asyncio.sleep(random.uniform(0, pause))
            pause = min(pause * 2, _LONGEST_PAUSE)
        raise InvalidInput("attempts must be at least 1. Nothing was changed.")


class Work:
    """What one run of a function has read of a board, and what it wants done there.

    Reads are as the agent sees the board, and each is validated as of the moment of its first read: nothing at
    all may have happened to what was read since, or come to match a glob. Writes and debates take effect when
    the transaction commits, so reads do not see them.
    """

    def __init__(self, board: Blackboard, agent: str, name: str) -> None:
        self._board = board
        self._agent = agent
        self._name = name
        self._seq: int | None = None
        self.reads: dict[str, int | Since] = {}
        self.writes: list[PostFields] = []
        self.debates: list[DebateFields] = []

    async def items(self, *ids: str) -> list[Item | None]:
        """The items in the order asked, `None` for what is not there."""
        refs = [Ref(parse_ref(id_).number) for id_ in ids]
        there, seq = await self._read(refs, [])
        by_number = {item.number: item for item in there}
        for ref in refs:
            self._note(str(ref.number), 0 if ref.number not in by_number else Since(seq))
        return [by_number.get(ref.number) for ref in refs]

    async def item(self, id_: str) -> Item | None:
        """One item, `None` when it is not there."""
        return (await self.items(id_))[0]

    async def entries(self, *keys: str) -> list[Item | None]:
        """The entries of the keys in the order asked, `None` for what is not there or was deleted."""
        there, seq = await self._read([], [check_key(key) for key in keys])
        by_key = {item.key: item for item in there}
        for key in keys:
            self._note(f":{key}", 0 if key not in by_key else Since(seq))
        return [by_key.get(key) for key in keys]

    async def entry(self, key: str) -> Item | None:
        """One entry, `None` when it is not there or was deleted."""
        return (await self.entries(key))[0]

    async def matching(self, glob: str) -> list[Item]:
        """Every entry whose key matches, in every zone, newest first.

        Raises:
            Refused: more than 1,000 match.
        """
        name = check_glob(glob) if "*" in glob else f":{check_key(glob)}"
        seq = await self._now()
        # As of before the first page: what comes in between two pages is a change as well.
        self._note(name, Since(seq))
        if not seq:
            return []
        found: list[Item] = []
        wanted = ItemQuery(key=glob, zone=None, limit=_PAGE)
        while True:
            page = await self._board.store.query(self._name, self._agent, wanted)
            found += page.items
            if page.cursor is None:
                return found
            if len(found) >= _MOST_MATCHING:
                raise Refused(
                    f"More than {_MOST_MATCHING:,} entries match '{glob}': too many for a transaction."
                )
            wanted = replace(wanted, cursor=page.cursor)

    async def board(self) -> None:
        """From here on nothing at all may happen on the board that the agent can see: for what has no key,
        such as what a query or a view lists. Call it before such reads."""
        self._note(BOARD, Since(await self._now()))

    def write(self, **fields: Any) -> str:
        """Asks for a post with these fields (`text`, `key`, `id`, `status`, `edges` …); `$n`, which names its
        item in edges of later writes and in debates.

        Raises:
            InvalidInput: an unknown field or a wrong value.
        """
        try:
            self.writes.append(PostFields(**fields))
        except ValidationError as error:
            raise _unfit("write", error) from None
        return f"${len(self.writes)}"

    def delete(self, key: str) -> None:
        """Asks for the entry to be deleted."""
        self.write(key=key, status="DELETED")

    def debate(self, op: DebateOp | str, id_: str, **fields: Any) -> None:
        """Asks for one thing to be done in the debate about an item; fields as in `DebateFields`.

        Raises:
            InvalidInput: an unknown field or a wrong value.
        """
        try:
            self.debates.append(DebateFields(op=str(op), id=id_, **fields))  # type: ignore[arg-type]
        except ValidationError as error:
            raise _unfit("debate", error) from None

    async def _read(self, refs: list[Ref], keys: list[str]) -> tuple[tuple[Item, ...], int]:
        if not await self._now():
            return (), 0
        found = await self._board.store.read(self._name, self._agent, refs, keys)
        return found.items, found.seq

    async def _now(self) -> int:
        """The sequence of the board, 0 where there is none yet."""
        found = await self._board.store.find_board(self._name)
        return 0 if found is None else found.seq

    def _note(self, name: str, read: int | Since) -> None:
        """The first read of a name counts: a later one that differs is a conflict, and is found as one."""
        self.reads.setdefault(name, read)


def _call(fields: DebateFields, place: int, writes: int, deciders: Sequence[str]) -> DebateCall:
    """
    Raises:
        InvalidInput: what does not go together, or names no item.
    """
    for argument, given, goes_with in (
        ("watchers", bool(fields.watchers), "open"),
        ("approve", fields.approve is not None, "vote"),
    ):
        if given and fields.op != goes_with:
            raise InvalidInput(
                f'Debate {place}: {argument} goes with op "{goes_with}", not "{fields.op}". Nothing was changed.'
            )
    check_text(fields.reason)
    if fields.op == "decide" and not fields.reason.strip():
        raise InvalidInput(f"Debate {place}: a decision needs a reason. Nothing was changed.")
    version: int | None = None
    if fields.id.startswith("$"):
        number = -int(fields.id[1:]) if fields.id[1:].isdecimal() and len(fields.id) <= 4 else 0
        if not -writes <= number < 0:
            raise InvalidInput(
                f"Debate {place}: '{fields.id[:10]}' must be $1 … ${writes or 'n'}, a write of this transaction. "
                "Nothing was changed."
            )
    else:
        ref = parse_ref(fields.id)
        number, version = ref.number, ref.version
    return DebateCall(
        DebateOp(fields.op),
        number,
        version,
        fields.reason,
        tuple(check_agent(watcher) for watcher in fields.watchers or ()),
        fields.approve is not False,
        tuple(deciders),
    )


def _unfit(what: str, error: ValidationError) -> InvalidInput:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return InvalidInput(f"{what}: {where}: {first['msg']}. Nothing was changed.")


def read_of(name: str, given: Any) -> int | Since:
    """A read as the tool takes it.

    Raises:
        InvalidInput: neither a version nor a sequence.
    """
    seq = given["seq"] if isinstance(given, dict) and given.keys() == {"seq"} else given
    if not isinstance(seq, int) or isinstance(seq, bool) or not 0 <= seq <= _MOST:
        raise InvalidInput(
            f'reads.{one_line(name[:40])} is the version that was read (0: absent), or {{"seq": n}}, both numbers; of '
            "a glob or $board the seq it was read at. Nothing was changed."
        )
    return given if seq is given else Since(seq)


def checked(arguments: Arguments, what: str, place: int, given: dict[str, Any]) -> dict[str, Any]:
    """The fields of one write or debate of the tool.

    Raises:
        InvalidInput: the place of what is off, and what it is.
    """
    try:
        return arguments.check(given)
    except InvalidInput as error:
        raise InvalidInput(f"{what} {place}: {error.message}", place=place, **error.facts) from None


def wire_committed(done: Committed) -> TransactionAnswer:
    return TransactionAnswer(
        items=[wire_item(item) for item in done.items],
        debates=[WireDebated(id=debated.id, state=debated.state) for debated in done.debates],
        seq=done.seq,
        repeated=done.repeated,
        endorsed=[done.items[place].id for place in done.endorsed],
    )
