"""Transactions for programs: reads are recorded, and writes wait until the block ends."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from blackboard_mcp.protocols.debates import DebateOp, Outcome
from blackboard_mcp.protocols.errors import Conflict, InvalidInput
from blackboard_mcp.protocols.items import parse_ref
from blackboard_mcp.protocols.keys import check_glob, check_key
from blackboard_mcp.protocols.literals import DebateCallName, OutcomeName
from blackboard_mcp.protocols.wire import ItemsAnswer, TransactionAnswer, WireItem

from .calls import Calls, callable_, counted, listed

T = TypeVar("T")

ATTEMPTS = 5
MOST_ATTEMPTS = 100_000
_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 0.2
_PAGE = 200
_MOST_MATCHING = 1_000


class Transaction:
    """Reads and writes of one board, applied all or nothing when the block ends without an exception.

    At the commit, everything that was read must be unchanged: missing items must still be missing, and no
    further entry may match a glob. Writes are applied at the commit, in order; reads do not see them. `$1`,
    `$2` … stand for the writes in edges and debates of the same transaction.
    """

    def __init__(self, board: Calls) -> None:
        self._board = board
        self._reads: dict[str, Any] = {}
        self._writes: list[dict[str, Any]] = []
        self._written: set[str] = set()
        self._debates: list[dict[str, Any]] = []
        self._group: str | None = None
        self._acknowledged: list[str] = []
        self._ended = False
        self.committed: TransactionAnswer | None = None
        """The result of the commit: the items written, in order, and the place in the log; `None` before."""

    # Reading

    async def get(self, key: str) -> WireItem | None:
        """Returns the entry at `key`, or `None` if there is none.

        Raises:
            InvalidInput: the key was written in this transaction.
        """
        check_key(key)
        if key in self._written:
            raise InvalidInput(f"'{key}' was written in this transaction; read before writing.")
        found = await self._board._call("read", {"keys": [key]}, ItemsAnswer)
        self._note(f":{key}", {"seq": found.seq} if found.items else 0)
        return found.items[0] if found.items else None

    async def item(self, id: str) -> WireItem | None:
        """Returns the item with that id, or `None` if there is none."""
        number = parse_ref(id).number
        found = await self._board._call("read", {"ids": [str(number)]}, ItemsAnswer)
        self._note(str(number), {"seq": found.seq} if found.items else 0)
        return found.items[0] if found.items else None

    async def matching(self, glob: str) -> list[WireItem]:
        """Returns every entry whose key matches, in every zone, newest first; at most 1,000.

        Raises:
            InvalidInput: the glob is not valid, or more entries match.
        """
        if "*" not in check_glob(glob):
            found = await self.get(glob)
            return [] if found is None else [found]
        items: list[WireItem] = []
        cursor: str | None = None
        while True:
            page = await self._page(glob, cursor)
            # The sequence of the first page counts, so that a change between two pages is noticed too.
            self._note(glob, page.seq)
            items += page.items
            cursor = page.cursor
            if cursor is None:
                return items
            if len(items) >= _MOST_MATCHING:
                raise InvalidInput(f"More than {_MOST_MATCHING:,} entries match '{glob}': too many here.")

    async def _page(self, glob: str, cursor: str | None) -> ItemsAnswer:
        """Returns a page of the entries that match the glob."""
        wanted = {"key": glob, "zone": "all", "limit": _PAGE, "cursor": cursor}
        return await self._board._call("query", wanted, ItemsAnswer)

    def _note(self, name: str, read: Any) -> None:
        """Records a read under its name; the first one counts, so a later different one becomes a conflict."""
        self._reads.setdefault(name, read)

    # Writing

    def put(self, key: str, text: str, **fields: Any) -> str:
        """Writes a version of the entry at `key`, with `fields` of `post`; returns the write's name, such as `$1`."""
        self._written.add(check_key(key))
        return self._write({"key": key, "text": text, **fields})

    def post(self, text: str, **fields: Any) -> str:
        """Posts an item; returns the write's name, such as `$1`, for `edges={"supports": ["$1"]}`."""
        return self._write({"text": text, **fields})

    def change(self, id: str, **fields: Any) -> str:
        """Changes fields of an item, such as `status`, `tags`, `importance` or `text`; returns the write's name."""
        return self._write({"id": id, **fields})

    def add(self, key: str, amount: int | float, **fields: Any) -> str:
        """Adds to the number in the entry at `key`, even if others add to it too; returns the write's name."""
        self._written.add(check_key(key))
        return self._write({"key": key, "add": amount, **fields})

    def acknowledge(self, group: str, *handles: str) -> None:
        """Acknowledges deliveries of a consumer group in the same commit; only one group for each transaction.

        Raises:
            InvalidInput: another group was named before.
        """
        self._going_on()
        if self._group not in (None, group):
            raise InvalidInput(f"A transaction acknowledges events of one group, here '{self._group}'.")
        self._group = group
        self._acknowledged += handles

    def delete(self, key: str) -> None:
        """Deletes the entry at `key`."""
        self._written.add(check_key(key))
        self._write({"key": key, "status": "DELETED"})

    def debate(
        self,
        op: DebateCallName | DebateOp,
        id: str,
        *,
        reason: str = "",
        watchers: Sequence[str] = (),
        approve: bool | None = None,
        outcome: OutcomeName | Outcome | None = None,
        to: str | None = None,
    ) -> None:
        """Makes one call in the debate about an item; `op` is one of the debate tool's, except `status`."""
        given = {
            **{"op": op, "id": id, "reason": reason, "watchers": listed(watchers)},
            **{"approve": approve, "outcome": outcome, "to": to},
        }
        self._going_on()
        self._debates.append({name: value for name, value in given.items() if value not in (None, "", [])})

    def _write(self, fields: dict[str, Any]) -> str:
        """Adds a write, and returns its name."""
        self._going_on()
        self._writes.append({name: _plain(value) for name, value in fields.items() if value is not None})
        return f"${len(self._writes)}"

    def _going_on(self) -> None:
        """Checks that the transaction has not ended.

        Raises:
            InvalidInput: it has.
        """
        if self._ended:
            raise InvalidInput("This transaction has ended; begin another.")

    # Ending

    async def __aenter__(self) -> Self:
        self._going_on()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None or self._ended:
            self._ended = True
            return
        await self.commit()

    async def commit(self) -> None:
        """Applies the writes if everything that was read is unchanged; the end of the block calls it.

        Raises:
            Conflict: something changed; `facts["moved"]` maps its name to the present version. Nothing was
                changed.
        """
        self._going_on()
        self._ended = True
        given: dict[str, Any] = {"reads": self._reads, "writes": self._writes, "debates": self._debates}
        given |= {"group": self._group, "ack": self._acknowledged}
        asked = {name: value for name, value in given.items() if value}
        if asked:
            self.committed = await self._board._call("transaction", asked, TransactionAnswer)


class Transacts(Calls):
    """Calls to read and write all or nothing. A server needs `--tools core,admin` for them."""

    def transaction(self) -> Transaction:
        """Returns a block whose writes are applied at its end: `async with board.transaction() as tx`.

        Raises:
            Conflict: at the end of the block, if something that was read changed; nothing was changed.
        """
        return Transaction(self)

    async def transact(self, work: Callable[[Transaction], Awaitable[T]], *, attempts: int = ATTEMPTS) -> T:
        """Runs `work(tx)` and commits; runs it again if what it read changed. Returns the last run's result.

        `work` may run up to `attempts` times (1 to 100,000), so it must have no other effects. If it raises, nothing is
        changed.

        Raises:
            InvalidInput: `work` is no function, or `attempts` is out of bounds.
            Conflict: something that `work` read changed in each of the runs.
        """
        callable_(work, "work")
        counted(attempts, "attempts", 1, MOST_ATTEMPTS)
        pause = _FIRST_PAUSE
        for left in range(attempts - 1, -1, -1):
            try:
                async with self.transaction() as tx:
                    running = work(tx)
                    if not inspect.isawaitable(running):
                        given = type(running).__name__
                        raise InvalidInput(
                            f"work is an async function; this one returned {given}. Nothing was changed."
                        )
                    result = await running
            except Conflict as error:
                if not left or "moved" not in error.facts:
                    raise
            else:
                return result
            await asyncio.sleep(random.uniform(0, pause))
            pause = min(2 * pause, _LONGEST_PAUSE)
        raise AssertionError


def _plain(value: Any) -> Any:
    """Returns the value as JSON can hold it: enumeration members as strings, tuples as lists."""
    if isinstance(value, str):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
