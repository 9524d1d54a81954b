"""The tool `transaction`."""

from __future__ import annotations

from typing import Annotated, Any

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.items import MAX_BATCH
from blackboard_mcp.protocols.keys import MAX_KEY
from blackboard_mcp.protocols.late_models import wire
from blackboard_mcp.protocols.transactions import MAX_DEBATE_CALLS, MAX_READS
from pydantic import Field, WithJsonSchema

from ..access.needs import TOOLS
from ..answers.rendering import Rendering
from ..answers.transactions import wire_committed
from ..input.arguments import Arguments
from ..input.posts import WriteFields
from ..usecases.transactions import DebateFields, Transactions, checked, read_of
from .consume import HandleList
from .tool import Answer, Caller, ToolSet

_FIELDS = Annotated[dict[str, Any], Field(max_length=16)]
Reads = Annotated[
    dict[Annotated[str, Field(max_length=MAX_KEY + 1)], Any],
    Field(max_length=MAX_READS),
    WithJsonSchema(
        {
            "type": "object",
            "description": 'by version: {"plan:a": 3, "H-17": 1}, 0 absent; {"H-17": {"seq": 214}} '
            'if status, tags … count too; {"plan:*": 214, "$board": 214} by seq read at',
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
            "description": 'as items of post; $1 is the first; {"key": "sum", "add": 45} adds',
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
    """The tool for several reads, writes and debate calls on one board, all or nothing."""

    def __init__(self, transactions: Transactions, rendering: Rendering) -> None:
        self._transactions = transactions
        self._say = rendering
        self._write = Arguments("transaction.writes", WriteFields)
        self._debate = Arguments("transaction.debates", DebateFields)

    def register(self, tools: ToolSet) -> None:
        """Adds the tool `transaction`."""
        tools.add(
            self.transaction,
            name="transaction",
            title="Change several at once",
            description=(
                "If all you read still stands, apply the writes, then the debates, and ack what consume gave: all or "
                "nothing. A conflict names what moved: read it again, retry."
            ),
            needs=TOOLS["transaction"],
            quick=True,
            output=lambda: wire.TransactionAnswer,
        )

    async def transaction(
        self,
        caller: Caller,
        reads: Reads | None = None,
        writes: Writes | None = None,
        debates: Debates | None = None,
        group: Annotated[str, Field(max_length=64)] | None = None,
        ack: HandleList | None = None,
        idempotency_key: Annotated[str, Field(min_length=1, max_length=200)] | None = None,
        board: Annotated[str, Field(max_length=64)] | None = None,
    ) -> Answer:
        """Applies the writes, debate calls and acknowledgements if everything in `reads` is unchanged."""
        if not (reads or writes or debates or ack or group):
            raise InvalidInput(
                'transaction needs reads, writes, debates or ack, as in transaction(reads={"plan:a": 3}, '
                'writes=[{"key": "plan:a", "text": "…"}]). Nothing was changed.'
            )
        if caller.once_key is not None and idempotency_key not in (None, caller.once_key):
            raise InvalidInput(
                "idempotency_key is given twice, as an argument and in _meta, and not the same. Nothing was changed."
            )
        once_key = idempotency_key if caller.once_key is None else caller.once_key
        written: list[WriteFields] = [
            checked(self._write, "Write", place, given) for place, given in enumerate(writes or (), 1)
        ]
        done = await self._transactions.transact(
            caller.agent,
            board,
            {name: read_of(name, given) for name, given in (reads or {}).items()},
            written,
            [checked(self._debate, "Debate", place, given) for place, given in enumerate(debates or (), 1)],
            once_key,
            group=group,
            ack=ack or (),
        )
        added = [place for place, given in enumerate(writes or ()) if given.get("add") is not None]
        return Answer(
            lambda: self._say.committed(done, caller.agent, added=added, given=written, ack=ack or ()),
            lambda: wire_committed(done, ack),
            shortens=True,
        )
