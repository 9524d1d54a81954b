"""A child process for tests of the engine: `child.py ROLE DATABASE [NUMBER]`.

It prints "ready", waits for a line on standard input, plays its role, and reports in lines of JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

MIGRATIONS = [
    "CREATE TABLE entry(n INTEGER PRIMARY KEY, author TEXT NOT NULL, text TEXT) STRICT;",
    """
    -- A trigger; its body has semicolons of its own.
    CREATE TABLE counter(n INTEGER NOT NULL) STRICT;
    CREATE TRIGGER counted AFTER INSERT ON entry BEGIN
        UPDATE counter SET n = n + 1;
    END;
    INSERT INTO counter VALUES (0)
    """,
]
APPLICATION = 0x626F6172
DEADLINE = 600.0
"""Seconds until a lock is given up; a busy machine keeps one of eight processes waiting for more than the usual 15."""


def say(**facts: Any) -> None:
    """Writes one line of JSON to standard output."""
    os.write(1, (json.dumps(facts) + "\n").encode())


def post(author: str, text: str = "") -> Any:
    """Returns an operation of two statements, which read the next number and then take it.

    If two such operations overlapped, the numbers would show it.
    """

    def operation() -> Generator[tuple[str, tuple[Any, ...]], list[tuple[Any, ...]], int]:
        rows = yield "SELECT n FROM counter", ()
        number: int = rows[0][0] + 1
        yield "INSERT INTO entry(n, author, text) VALUES (?1, ?2, ?3)", (number, author, text)
        return number

    return operation


async def play(role: str, path: Path, number: int) -> None:
    """Plays a role: opens the engine and closes it, fills the disk's quota, writes, or waits for changes.

    A checkpoint is due after each of its commits.
    """
    from blackboard_mcp.protocols.errors import StoreError
    from blackboard_mcp.storage.sqlite import group, wakeup
    from blackboard_mcp.storage.sqlite.engine import SqliteEngine

    group._CHECKPOINT_ROWS = 1
    group.GroupWriter.tidying_is_due = lambda self, raw: True  # type: ignore[method-assign]

    async def open_engine() -> SqliteEngine:
        return await SqliteEngine.open(
            path, migrations=MIGRATIONS, application_id=APPLICATION, deadline=DEADLINE
        )

    author = str(os.getpid())
    if role == "start":
        await (await open_engine()).close()
        say(ok=True)
        return
    if role == "full":
        import resource
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        engine = await open_engine()
        resource.setrlimit(resource.RLIMIT_FSIZE, (number, resource.RLIM_INFINITY))
        acknowledged = 0
        errors: list[str] = []
        while len(errors) < 3:
            try:
                acknowledged = await engine.write(post(author, "x" * 20_000))
            except StoreError as error:
                errors.append(type(error).__name__)
        full = engine.trouble is not None and engine.trouble.kind
        for connection in (engine._writer, engine._checkpointer, engine._writer):
            if connection is not None:
                # A checkpoint that meets the limit must find it when it looks for the reason.
                await connection.run(lambda raw: None)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        then = await engine.write(post(author, "x" * 20_000))
        count = await engine.read(entries)
        await engine.close()
        say(acknowledged=acknowledged, errors=errors, full=full, then=then, readable=count)
        return
    engine = await open_engine()
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(engine.close)
        if role == "write":
            # Reports when it has written `number` entries, and goes on until a line on standard input.
            # A thread of the event loop's would keep a process that fails from ending.
            stop = threading.Thread(target=sys.stdin.readline, daemon=True)
            stop.start()
            numbers: list[int] = []
            while len(numbers) < number or stop.is_alive():
                numbers.append(await engine.write(post(author)))
                if len(numbers) == number:
                    say(written=number)
            say(numbers=numbers)
        elif role == "journal":

            async def forever() -> None:
                while True:
                    say(acknowledged=await engine.write(post(author)))

            await asyncio.gather(*(forever() for _ in range(8)))
        elif role == "wake":
            # After the first check, which waiting causes, it never polls again: only a message wakes it.
            wakeup._WAITING = wakeup._SURE = 3_600.0
            seen = await engine.wait_for_change(engine.changes(), 0.2)
            say(listening=True)
            for _ in range(number):
                now = await engine.wait_for_change(seen, 3_600)
                say(heard=now - seen)
                seen = now


def entries() -> Generator[tuple[str, tuple[Any, ...]], list[tuple[Any, ...]], int]:
    """Reads the number of entries, as an operation of the engine."""
    rows = yield "SELECT count(*) FROM entry", ()
    count: int = rows[0][0]
    return count


if __name__ == "__main__":
    if "--old-library" in sys.argv:
        sys.modules["pysqlite3"] = None  # type: ignore[assignment]
        sys.argv.remove("--old-library")
    import blackboard_mcp.storage.sqlite.engine  # noqa: F401 - before "ready": only the role is timed

    os.write(1, b"ready\n")
    sys.stdin.readline()
    asyncio.run(play(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0))
