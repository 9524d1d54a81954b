"""A server's process without its wire: eight callers on one board in PostgreSQL, and one who follows its log.

`history_server.py ADDRESS NAME JOURNAL TRANSACTIONS`. Each caller makes transactions, takes a task after each, and
settles it. It writes a line of JSON to the journal before a transaction is sent and after it is answered. Started
again, the process repeats what it finds unanswered under the same idempotency key, as a client would, and goes on. A
caller repeats what the store could not do, since that changed nothing or has a key.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from blackboard_mcp.protocols.agenda import Settle
from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.errors import BlackboardError, Conflict, Refused, StoreError
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.protocols.tokens import CountedText
from blackboard_mcp.protocols.transactions import Since, Transaction
from blackboard_mcp.storage.postgres.store import open_postgres_store
from blackboard_mcp.storage.testing.harness import CONFIG
from blackboard_mcp.storage.testing.walk.contending import BOARD, Contender, _draft
from blackboard_mcp.storage.testing.walk.serialising import Record

CALLERS = 8
LEASE = 600.0
"""The seconds of the leases of tasks: longer than the test, so that a second holder is a mistake."""


def tolerate(error: StoreError) -> None:
    """Raises the error again unless it says that the database is away; another would hide two writers at once."""
    if "failed inside" in error.message:
        raise error


class Journal:
    """The lines of one process's earlier lives, and a file for more."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        whole, _, _ = path.read_bytes().rpartition(b"\n")
        self.lines: list[dict[str, Any]] = [json.loads(line) for line in whole.splitlines()]

    def note(self, **facts: object) -> None:
        os.write(self._file, (json.dumps(facts) + "\n").encode())


class Caller(Contender):
    """A contender whose transactions have idempotency keys, and who repeats them until there is an answer."""

    def __init__(self, store: BoardStore, agent: str, journal: Journal) -> None:
        mine = [line for line in journal.lines if line.get("agent") == agent]
        answered = {line["key"] for line in mine if "record" in line}
        begun = {line["key"]: line for line in mine if "begun" in line}
        self.next = len(answered)
        self._pending = next((line["begun"] for key, line in begun.items() if key not in answered), None)
        self._journal = journal
        super().__init__(store, agent, random.Random(f"{agent} {len(journal.lines)}"), lambda record: None)

    async def work(self, transactions: int) -> None:
        while self.next < transactions:
            if self._pending is not None:
                await self._send(Record.of(self._pending))
                self._pending = None
            else:
                try:
                    await self.run(1)
                except StoreError as error:
                    tolerate(error)  # a read while the database was away
            await self._take()

    async def _commit(self) -> None:
        record = Record(self._agent, tuple(self._saw), tuple(self._writes), 0)
        self._journal.note(agent=self._agent, key=self.next, begun=record.line())
        await self._send(record)

    async def _send(self, asked: Record) -> None:
        reads: dict[str, int | Since] = {}
        for read in asked.reads:
            by_seq = read.version is None and not read.name.endswith("*")
            since = read.since or 0
            reads[read.name] = read.version if read.version is not None else Since(since) if by_seq else since
        transaction = Transaction(reads, [_draft(write) for write in asked.writes])
        once = Once(f"{self._agent} {self.next}", "transaction")
        moved: dict[str, int] | None = None
        while True:
            try:
                done = await self._store.transact(BOARD, self._agent, transaction, config=CONFIG, once=once)
                seq = done.seq
                break
            except StoreError as error:
                tolerate(error)
                await asyncio.sleep(0.05)
            except BlackboardError as error:
                seq, moved = error.facts.get("seq", 0), error.facts.get("moved", {})
                break
        answer = Record(asked.agent, asked.reads, asked.writes, seq, moved)
        self._journal.note(agent=self._agent, key=self.next, record=asdict(answer))
        self.next += 1

    async def _take(self) -> None:
        """Takes a task, notes that, and settles it."""
        try:
            taken = await self._store.take_task("agenda", self._agent, seconds=LEASE)
            if taken is None or taken.task is None:
                return
            number = taken.task.number
            self._journal.note(agent=self._agent, took=number, lease=taken.lease)
            text = CountedText(f"{self._agent} under {taken.lease}", 3)
            await self._store.settle_task("agenda", self._agent, Settle("done", number, taken.lease, text))
            self._journal.note(agent=self._agent, settled=number, lease=taken.lease)
        except (Conflict, Refused):
            return
        except StoreError as error:
            tolerate(error)  # whether it was taken or settled shows in the log


async def follow(store: BoardStore, journal: Journal, over: asyncio.Event) -> None:
    """Reads the board's log to its end, from where the last life stopped, and notes each piece once."""
    place = max((line["to"] for line in journal.lines if "to" in line), default=0)
    while True:
        last = over.is_set()
        try:
            seen = store.changes()
            page = await store.log(BOARD, "follower", place, 50)
            if page.events:
                numbers = [event.seq for event in page.events]
                journal.note(after=place, to=numbers[-1], numbers=numbers)
                place = numbers[-1]
            elif last:
                return
            else:
                await store.wait_for_change(seen, 0.2)
        except StoreError as error:
            tolerate(error)
            await asyncio.sleep(0.05)


async def serve(address: str, name: str, journal: Journal, transactions: int) -> None:
    store = await open_postgres_store(address)
    over = asyncio.Event()
    following = asyncio.create_task(follow(store, journal, over))
    callers = [Caller(store, f"{name}-{n}", journal) for n in range(CALLERS)]
    await asyncio.gather(*(caller.work(transactions) for caller in callers))
    over.set()
    await following
    await store.close()


if __name__ == "__main__":
    _, address, name, path, transactions = sys.argv
    asyncio.run(serve(address, name, Journal(Path(path)), int(transactions)))
