"""The tool `transaction`."""

from __future__ import annotations

from typing import Annotated, Any

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.items import MAX_BATCH
from blackboard_mcp.protocols.keys import MAX_KEY
from blackboard_mcp.protocols.transactions import MAX_DEBATE_CALLS, MAX_READS, Since
from blackboard_mcp.protocols.wire import TransactionAnswer, WireDebated, wire_item
from pydantic import Field, WithJsonSchema

from ...rendering import Rendering
from ...requests import PostFields
from ...text import one_line
from ...transacting import DebateFields, Transactions
from ..adapter import Answer, BoardServer, Caller, ToolAnnotations
from ..adapter_arguments import Arguments

_MOST = 2**53
_FIELDS = Annotated[dict[str, Any], Field(max_length=16)]
Reads = Annotated[
    dict[Annotated[str, Field(max_length=MAX_KEY + 1)], Any],
    Field(max_length=MAX_READS),
    WithJsonSchema(
        {
            "type": "object",
            "description": 'what you read: {"plan:a": 3, "H-17": 1} by version, 0 absent; {"H-17": {"seq": 214}} '
            'if its status, tags … count too; {"plan:*": 214, "$board": 214} by the seq read at',
        }
    ),
]
Writes = Annotated[
    list[_FIELDS],
    Field(max_length=MAX_BATCH),
    WithJsonSchema(
        {
            "type": "array",
            "maxItems": MAX_BATCH,
            "items": {"type": "object"},
            "description": "as items of post; $1 is the first",
        }
    ),
]
Debates = Annotated[
    list[_FIELDS],
    Field(max_length=MAX_DEBATE_CALLS),
    WithJsonSchema(
        {
            "type": "array",
            "maxItems": MAX_DEBATE_CALLS,
            "items": {"type": "object"},
            "description": "arguments of debate; id may be $1",
        }
    ),
]


class TransactionTool:
    """Several reads, writes and debates of one board, all or nothing."""

    def __init__(self, transactions: Transactions, rendering: Rendering) -> None:
        self._transactions = transactions
        self._say = rendering
        self._write = Arguments("transaction.writes", PostFields)
        self._debate = Arguments("transaction.debates", DebateFields)

    def register(self, server: BoardServer) -> None:
        server.tool(
            self.transaction,
            name="transaction",
            description=(
                "If all you read still stands, apply the writes, then the debates: all or nothing. A conflict "
                "changes nothing and names what moved: read that again, then retry."
            ),
            annotations=ToolAnnotations(destructive_hint=False),
            output=TransactionAnswer,
        )

    async def transaction(
        self,
        caller: Caller,
        reads: Reads | None = None,
        writes: Writes | None = None,
        debates: Debates | None = None,
        idempotency_key: Annotated[str, Field(min_length=1, max_length=200)] | None = None,
        board: Annotated[str, Field(max_length=64)] | None = None,
    ) -> Answer:
        if not (reads or writes or debates):
            raise InvalidInput(
                'transaction needs reads, writes or debates, as in transaction(reads={"plan:a": 3}, '
                'writes=[{"key": "plan:a", "text": "…"}]). Nothing was changed.'
            )
        if caller.once_key is not None and idempotency_key not in (None, caller.once_key):
            raise InvalidInput(
                "idempotency_key is given twice, as an argument and in _meta, and not the same. Nothing was changed."
            )
        once_key = idempotency_key if caller.once_key is None else caller.once_key
        done = await self._transactions.transact(
            caller.agent,
            board,
            {name: _read(name, given) for name, given in (reads or {}).items()},
            [
                PostFields.model_construct(**_checked(self._write, "Write", place, given))
                for place, given in enumerate(writes or (), 1)
            ],
            [
                DebateFields.model_construct(**_checked(self._debate, "Debate", place, given))
                for place, given in enumerate(debates or (), 1)
            ],
            once_key,
        )
        return Answer(
            self._say.committed(done),
            lambda: TransactionAnswer(
                items=[wire_item(item) for item in done.items],
                debates=[WireDebated(id=debated.id, state=debated.state) for debated in done.debates],
                seq=done.seq,
                repeated=done.repeated,
                endorsed=[done.items[place].id for place in done.endorsed],
            ),
        )


def _read(name: str, given: Any) -> int | Since:
    """
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


def _checked(arguments: Arguments, what: str, place: int, given: dict[str, Any]) -> dict[str, Any]:
    """
    Raises:
        InvalidInput: the place of what is off, and what it is.
    """
    try:
        return arguments.check(given)
    except InvalidInput as error:
        raise InvalidInput(f"{what} {place}: {error.message}", place=place, **error.facts) from None
