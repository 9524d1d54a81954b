"""Transactions of callers: checked arguments become a transaction of the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, get_args

from blackboard_mcp.protocols.answers import (
    Committed,
)
from blackboard_mcp.protocols.debates import DebateCall, DebateOp, Outcome
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, UnknownReference
from blackboard_mcp.protocols.groups import check_group, parse_handle
from blackboard_mcp.protocols.items import parse_ref
from blackboard_mcp.protocols.literals import DebateCallName, OutcomeName
from blackboard_mcp.protocols.transactions import (
    MAX_WRITES,
    NameKind,
    Since,
    Transaction,
    check_transaction,
    parse_name,
)
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ..input.arguments import Arguments
from ..input.debates import check_debating, one_of
from ..input.idempotency import once_of
from ..input.posts import (
    WATCHERS_INSTEAD,
    Id,
    PostFields,
    WriteFields,
    check_addressed,
    check_agent,
    check_board,
    check_text,
)
from ..limits.rates import size_of
from ..text.lines import one_line
from .blackboard import Blackboard, as_asked
from .clearing import check_clearing, cleared
from .conflicts import with_texts

_MOST = 2**53


class DebateFields(BaseModel):
    """One thing to do in a debate: the arguments of `debate` without `board`. `$1` is the first write."""

    model_config = ConfigDict(extra="forbid", strict=True)

    op: Annotated[
        DebateCallName,
        BeforeValidator(one_of(get_args(DebateCallName))),
    ]
    id: Id
    reason: Annotated[str, Field(max_length=2_000)] = ""
    watchers: Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=32)] | None = None
    approve: bool | None = None
    outcome: OutcomeName | None = None
    to: Id | None = None


class Transactions:
    """Use case for several reads, writes and debate calls on one board, all or nothing."""

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
        *,
        group: str | None = None,
        ack: Sequence[str] = (),
    ) -> Committed:
        """Applies the writes, then the debate calls, if every read is unchanged; returns what was written.

        The events `ack` of `group` are acknowledged with them; see `protocols.transactions`. `reads` maps
        ids, keys and globs to the versions or sequences that were read.

        Raises:
            Conflict: `moved` has everything read or expected that changed, with its current version or
                sequence; or `late` has the events that the agent can no longer acknowledge.
            InvalidInput, UnknownReference, Refused: as for posts and debates.
        """
        once = None
        if idempotency_key is not None:  # what it stands for takes a while to put in words
            once = once_of(
                idempotency_key,
                "transaction",
                reads={name: [read.seq] if isinstance(read, Since) else read for name, read in reads.items()},
                writes=[fields.digest_part() for fields in writes],
                debates=[fields.model_dump(exclude_defaults=True) for fields in debates],
                group=group,
                ack=list(ack) or None,
            )
        check_agent(agent)
        if bool(ack) is not (group is not None):
            raise InvalidInput(
                'ack and group go together, as consume shows them: transaction(group="work", ack=["214.1"], …). '
                "Nothing was changed."
            )
        handles = tuple(map(parse_handle, ack))
        if group is not None:
            check_group(group)
        name = check_board(board) if board is not None else self._board.default_board
        if len(writes) > MAX_WRITES:
            raise InvalidInput(
                f"A transaction takes at most {MAX_WRITES} writes, not {len(writes)}. Nothing was changed."
            )
        calls = [
            _call(
                *(fields, place, len(writes)),
                self._board.deciders if fields.op == "confirm" else self._board.deciders_for(agent),
            )
            for place, fields in enumerate(debates, 1)
        ]
        wanted = Transaction(dict(reads), (), calls, group or "", handles)
        check_transaction(wanted)
        size = sum(size_of(write.text, write.metadata) for write in writes)
        self._board.quotas.charge(agent, name, len(writes) + len(debates) + bool(ack), size)
        said = [
            id_ for fields in debates for id_ in (fields.id, fields.to) if id_ and not id_.startswith("$")
        ]
        said += [read for read in reads if parse_name(read).kind is NameKind.ITEM]
        lettered = [id_ for id_ in said if parse_ref(id_).letter is not None]
        if lettered and await self._board.store.find_board(name) is not None:
            await self._board.check_named(agent, name, lettered)
        patterns = check_clearing(writes)
        if patterns:
            writes = writes[: len(writes) - len(patterns)]
            # A repeated call is answered from what was kept: what the patterns named then is gone.
            if once is None or await self._board.store.recall(name, agent, once) is None:
                writes, wanted = await self._cleared(name, agent, list(writes), patterns, wanted)
        wanted = replace(wanted, writes=self._board.signed(agent, await self._board.drafts(name, writes)))
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
        except Conflict as error:
            raise await with_texts(self._board.store, name, agent, error) from None
        if done.board is not None:
            self._board.activity.seen(name, agent)
            if done.board.pass_due:
                self._board.pruner.kick(name)
            left = self._board.looks.told(name, agent, done.seq, done.attention)
            done = replace(done, attention=left)
        for fields in writes:
            if fields.ttl_seconds is not None:
                self._board.pruner.expect(fields.ttl_seconds)
        return done

    async def _cleared(
        self,
        board: str,
        agent: str,
        writes: list[PostFields],
        patterns: Sequence[WriteFields],
        wanted: Transaction,
    ) -> tuple[list[PostFields], Transaction]:
        """Returns the writes with deletions in the place of patterns, and the transaction that reads the patterns.

        So it fails if an entry appears under one, leaves or changes meanwhile.
        """
        store, reads = self._board.store, dict(wanted.reads)
        for fields in patterns:
            found, seq = await cleared(store, board, agent, fields, MAX_WRITES - len(writes))
            self._board.quotas.charge(agent, board, max(0, len(found) - 1))
            writes += found
            reads.setdefault(fields.key or "", Since(seq))
        return writes, replace(wanted, reads=reads)


def _call(fields: DebateFields, place: int, writes: int, deciders: Sequence[str]) -> DebateCall:
    """Returns the store's form of one debate call; `place` is its place in the call, from 1.

    Raises:
        InvalidInput: arguments do not go together, or an id is not valid.
    """
    said = {
        "watchers": fields.watchers or None,
        "approve": fields.approve,
        "outcome": fields.outcome,
        "to": fields.to,
    }
    check_debating(fields.op, fields.id, said, fields.reason, f"Debate {place}: ")
    check_text(fields.reason)
    number, version = _named(fields.id, place, writes)
    return DebateCall(
        DebateOp(fields.op),
        number,
        version,
        fields.reason,
        tuple(check_addressed(watcher, WATCHERS_INSTEAD) for watcher in fields.watchers or ()),
        fields.approve is not False,
        tuple(deciders),
        None if fields.outcome is None else Outcome(fields.outcome),
        None if fields.to is None else _named(fields.to, place, writes)[0],
    )


def _named(id_: str, place: int, writes: int) -> tuple[int, int | None]:
    """Returns the number and version that an id names; for `$1` the number is minus the write's place.

    Raises:
        InvalidInput: it is neither an id nor such a place.
    """
    if not id_.startswith("$"):
        ref = parse_ref(id_)
        return ref.number, ref.version
    number = -int(id_[1:]) if id_[1:].isdecimal() and len(id_) <= 4 else 0
    if not -writes <= number < 0:
        raise InvalidInput(
            f"Debate {place}: '{id_[:10]}' must be $1 … ${writes or 'n'}, a write of this transaction. "
            "Nothing was changed."
        )
    return number, None


def read_of(name: str, given: Any) -> int | Since:
    """Returns one read of the tool's argument: a version, or the sequence as of which it was read.

    Raises:
        InvalidInput: it is neither.
    """
    seq = given["seq"] if isinstance(given, dict) and given.keys() == {"seq"} else given
    if not isinstance(seq, int) or isinstance(seq, bool) or not 0 <= seq <= _MOST:
        raise InvalidInput(
            f'reads.{one_line(name[:40])} is the version that was read (0: absent), or {{"seq": n}}, both numbers; of '
            "a glob, $panel:NAME or $board the seq it was read at. Nothing was changed."
        )
    return given if seq is given else Since(seq)


def checked(arguments: Arguments, what: str, place: int, given: dict[str, Any]) -> Any:
    """Returns the model of the checked fields of one write or debate call, which came inside of checked arguments.

    Raises:
        InvalidInput: a field is wrong; the message names its place and the fault.
    """
    try:
        return arguments.part(given)
    except InvalidInput as error:
        raise InvalidInput(f"{what} {place}: {error.message}", place=place, **error.facts) from None
