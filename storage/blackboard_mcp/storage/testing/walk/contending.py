"""A workload of transactions that contend for a few keys, with a record of each.

It consists of bank transfers, pairs of which one must stay on, counters, locks that are taken and deleted, slots with
a limited number (guarded by a glob only), statuses read by sequence, and audits. Each has an invariant that only
serialisable transactions keep; `invariants` returns those that are broken at the end.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.items import Draft, Item, Status, content_hash
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.protocols.transactions import Since, Transaction

from ..harness import CONFIG
from .serialising import History, Read, Record, Write

BOARD = "contended"
_ACCOUNTS, _EACH, _PAIRS, _LOCKS, _SLOTS = 4, 100, 2, 3, 4
THINK_SECONDS = 0.002
"""Most seconds between a caller's reads and its writes, so that other callers come between."""


async def set_up(store: BoardStore) -> int:
    """Creates the board, and returns its sequence."""
    await store.ensure_board(BOARD, "kit", CONFIG)
    return 1


class Contender:
    """One caller: `run` makes transactions one after the other, and gives a record of each to `told`."""

    def __init__(
        self, store: BoardStore, agent: str, chance: random.Random, told: Callable[[Record], Any]
    ) -> None:
        self._store = store
        self._agent = agent
        self._chance = chance
        self._told = told
        self._reads: dict[str, int | Since] = {}
        self._saw: list[Read] = []
        self._writes: list[Write] = []

    async def run(self, transactions: int) -> None:
        """Makes so many transactions, each of a random kind."""
        kinds: list[Callable[[], Awaitable[None]]] = [
            *(self._transfer, self._pair, self._count, self._lock, self._slot, self._flag, self._audit)
        ]
        for _ in range(transactions):
            self._reads, self._saw, self._writes = {}, [], []
            await self._chance.choice(kinds)()
            await asyncio.sleep(self._chance.random() * THINK_SECONDS)
            await self._commit()

    async def _commit(self) -> None:
        drafts = [_draft(write) for write in self._writes]
        transaction = Transaction(self._reads, drafts)
        moved: dict[str, int] | None = None
        try:
            seq = (await self._store.transact(BOARD, self._agent, transaction, config=CONFIG)).seq
        except BlackboardError as error:  # any other refusal names nothing, and is no serial history's
            seq, moved = error.facts.get("seq", 0), error.facts.get("moved", {})
        self._told(Record(self._agent, tuple(self._saw), tuple(self._writes), seq, moved))

    # Reading

    async def _read(self, *keys: str, by_seq: bool = False) -> list[Item | None]:
        found = await self._store.read(BOARD, self._agent, [], keys)
        there = {item.key or "": item for item in found.items}
        for key in keys:
            item = there.get(key)
            version = None if by_seq else 0 if item is None else item.version
            self._reads[key] = Since(found.seq) if version is None else version
            since = found.seq if by_seq else None
            self._saw.append(Read(key, version, since, {} if item is None else {key: _cell(item)}))
        return [there.get(key) for key in keys]

    async def _matching(self, glob: str) -> dict[str, Item]:
        page = await self._store.query(BOARD, self._agent, ItemQuery(key=glob, zone=None, limit=200))
        there = {item.key or "": item for item in page.items}
        self._reads[glob] = page.seq
        self._saw.append(Read(glob, None, page.seq, {key: _cell(item) for key, item in there.items()}))
        return there

    # Transactions of callers

    async def _transfer(self) -> None:
        source, target = (f"account:{n}" for n in self._chance.sample(range(_ACCOUNTS), 2))
        amount = self._chance.randrange(1, 9)
        for key, change, item in zip(
            (source, target), (-amount, amount), await self._read(source, target), strict=True
        ):
            self._writes.append(Write(key, str((_EACH if item is None else int(item.text)) + change)))

    async def _pair(self) -> None:
        """Reads both switches of a pair and changes one, so that at least one of them is on."""
        n = self._chance.randrange(_PAIRS)
        names = [f"pair:{n}:a", f"pair:{n}:b"]
        on = [item is None or item.text == "on" for item in await self._read(*names)]
        one = self._chance.randrange(2)
        self._writes.append(Write(names[one], "off" if all(on) else "on"))

    async def _count(self) -> None:
        (item,) = await self._read("counter")
        self._writes.append(Write("counter", str(1 if item is None else int(item.text) + 1)))

    async def _lock(self) -> None:
        """Takes a lock that is free, or frees one that is taken."""
        key = f"lock:{self._chance.randrange(_LOCKS)}"
        (item,) = await self._read(key)
        self._writes.append(Write(key, self._agent) if item is None else Write(key))

    async def _slot(self) -> None:
        """Takes a new slot if the glob shows room, else frees one; no slot's key is read."""
        there = await self._matching("slot:*")
        free = [f"slot:{n}" for n in range(3 * _SLOTS) if f"slot:{n}" not in there]
        if len(there) < _SLOTS:
            self._writes.append(Write(self._chance.choice(free), self._agent))
        else:
            self._writes.append(Write(self._chance.choice(sorted(there))))

    async def _flag(self) -> None:
        """Sets a flag's status to RESOLVED and counts that in a tally, or writes the flag anew.

        Resolving changes no version, so only a read by sequence notices it.
        """
        (flag,) = await self._read("flag", by_seq=True)
        (tally,) = await self._read("tally")
        if flag is None or flag.status is Status.RESOLVED:
            self._writes.append(Write("flag", "up"))
        else:
            self._writes.append(Write("flag", status="RESOLVED"))
            self._writes.append(Write("tally", str(1 if tally is None else int(tally.text) + 1)))

    async def _audit(self) -> None:
        await self._read(*(f"account:{n}" for n in range(_ACCOUNTS)))
        await self._matching("lock:*")


def _cell(item: Item) -> list[int | str]:
    return [item.version, item.text, str(item.status)]


def _draft(write: Write) -> Draft:
    if write.text is not None:
        return Draft(write.text, key=write.key, tokens=1, sha256=content_hash(write.text))
    if write.status is not None:
        return Draft(None, key=write.key, status=Status(write.status))
    return Draft(None, key=write.key, delete=True)


def invariants(history: History) -> list[str]:
    """Returns sentences on what no serial history of the workload could do, and on other problems of the records."""
    problems = list(history.problems)

    def number(key: str, default: int = 0) -> int:
        cell = history.cell(key)
        return int(cell.text) if cell.live else default

    if sum(number(f"account:{n}", _EACH) for n in range(_ACCOUNTS)) != _ACCOUNTS * _EACH:
        problems.append("money was made or lost")
    for n in range(_PAIRS):
        if {history.cell(f"pair:{n}:{one}").text for one in "ab"} == {"off"}:
            problems.append(f"both of pair {n} are off")
    counted = sum(write.key == "counter" for record in history.committed for write in record.writes)
    if number("counter") != counted:
        problems.append(f"the counter is {number('counter')} after {counted} counts")
    resolved = sum(write.status is not None for record in history.committed for write in record.writes)
    if number("tally") != resolved:
        problems.append(f"the flag was resolved {resolved} times, and the tally is {number('tally')}")
    if len(history.live("slot:*")) > _SLOTS:
        problems.append("there are more slots than there may be")
    return problems
