"""The only access to SQLite: the choice of its library, connections with a thread each, and their errors.

Nothing above this module imports `sqlite3`, `pysqlite3` or `aiosqlite`, nor catches their errors.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import random
import secrets
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import aiosqlite
from blackboard_mcp.protocols.errors import (
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreFull,
)

logger = logging.getLogger(__name__)
T = TypeVar("T")

Raw = sqlite3.Connection
"""A connection of the chosen library; those of `pysqlite3` have the same methods."""

# Primary result codes, https://sqlite.org/rescode.html
_BUSY, _LOCKED, _READONLY, _IOERR, _CORRUPT, _FULL, _CANTOPEN, _PROTOCOL, _CONSTRAINT, _NOTADB = (
    *(5, 6, 8, 10, 11, 13, 14, 15, 19, 26),
)


@functools.cache
def library() -> ModuleType:
    """Returns the SQLite binding of this process, chosen at the first call: the newer of `sqlite3` and `pysqlite3`.

    Connections of two SQLite libraries in one process would drop each other's file locks.
    """
    chosen: ModuleType = sqlite3
    with contextlib.suppress(ImportError):
        from pysqlite3 import dbapi2

        if dbapi2.sqlite_version_info > sqlite3.sqlite_version_info:
            chosen = dbapi2
    # Without it the driver looks for methods that are not there with each `None` that it binds.
    chosen.register_adapter(type(None), {}.get)
    return chosen


def version() -> str:
    """Returns the version of the SQLite library in use, such as "3.53.4"."""
    found: str = library().sqlite_version
    return found


def resets_wal_safely(number: tuple[int, ...]) -> bool:
    """Tells whether this SQLite has the fix for the WAL-reset bug (https://sqlite.org/wal.html#walresetbug)."""
    return number >= (3, 51, 3) or (3, 50, 7) <= number < (3, 51) or (3, 44, 6) <= number < (3, 45)


@functools.cache
def errors() -> tuple[type[Exception], ...]:
    """Returns the exceptions of the library in use."""
    return (library().Error, library().Warning)


def code(error: BaseException) -> int:
    """Returns the primary result code of a driver's error; 0 if it has none."""
    return int(getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def is_busy(error: BaseException) -> bool:
    """Tells whether another connection holds a lock."""
    return code(error) in (_BUSY, _LOCKED, _PROTOCOL)


def is_constraint(error: BaseException) -> bool:
    """Tells whether a constraint was violated."""
    return code(error) == _CONSTRAINT


def is_io(error: BaseException) -> bool:
    """Tells whether the disk failed."""
    return code(error) == _IOERR


def is_damage(error: BaseException) -> bool:
    """Tells whether the file is damaged or no database."""
    return code(error) in (_CORRUPT, _NOTADB)


def is_full(error: BaseException) -> bool:
    """Tells whether the disk is full."""
    return code(error) == _FULL


def translate(error: BaseException, doing: str) -> StoreError:
    """Returns the product's error for a driver's error; raise it `from` the original.

    `doing` completes the sentence "The store could not …".
    """
    number = code(error)
    could_not = f"The store could not {doing}"
    if number in (_BUSY, _LOCKED, _PROTOCOL):
        return StoreBusy(f"{could_not}: others held it too long. Nothing was changed; try again.")
    if number == _FULL:
        return no_room(doing)
    if number == _NOTADB:
        return StoreDamaged(f"{could_not}: the file is not a database.")
    if number == _CORRUPT:
        return StoreDamaged(f"{could_not}: the file is damaged ({error}). Restore a backup.")
    if number == _IOERR:
        return StoreError(f"{could_not}: the disk failed ({error}).")
    if number in (_READONLY, _CANTOPEN):
        return StoreError(f"{could_not}: the file may not be opened or written ({error}).")
    if isinstance(error, library().ProgrammingError) and "closed" in str(error):
        return StoreClosed(f"{could_not}: it is closed.")
    return StoreError(f"{could_not}: {error}.")


def for_callers(error: BaseException, doing: str) -> StoreError:
    """Returns `translate`'s error for callers over a wire: it says what to do, but nothing about files and drivers.

    The details go to the log, under a reference that the message gives.
    """
    told = translate(error, doing)
    if isinstance(told, StoreBusy | StoreFull | StoreClosed):
        return told
    reference = secrets.token_hex(3)
    logger.error("reference %s: %s", reference, told.message)
    what = {
        _CORRUPT: "the board's file is damaged",
        _NOTADB: "the board's file is damaged",
        _IOERR: "its disk failed",
        _READONLY: "its file may not be written",
        _CANTOPEN: "its file may not be opened",
    }.get(code(error), "it failed inside")
    return type(told)(
        f"The store could not {doing}: {what} (reference {reference}). Nothing was changed. Tell who runs the server: "
        "its log has more under that reference, and `blackboard-mcp doctor` says what helps."
    )


def no_room(doing: str) -> StoreFull:
    """Returns the error for a full disk, with what to do; `doing` as in `translate`."""
    return StoreFull(
        f"The store could not {doing}: storage full, there is no room on the disk. Nothing was changed, and reading "
        "goes on. Somebody has to free space on the server's disk (`blackboard-mcp doctor` says where); then try "
        "again, no restart is needed."
    )


def patiently(attempt: Callable[[], T], deadline: float) -> T:
    """Calls `attempt` until the database is not busy, with random pauses, and returns its result.

    SQLite's own busy handler starves processes; this is fair. It blocks, so it is only for a connection's thread. After
    `deadline` seconds it raises the last busy error.
    """
    begun = time.monotonic()
    while True:
        try:
            return attempt()
        except errors() as error:
            waited = time.monotonic() - begun
            if not is_busy(error) or waited >= deadline:
                raise
        pause(waited)


def pause(waited: float) -> None:
    """Sleeps before the next attempt to get the lock; `waited` is the time waited so far, in seconds.

    Pauses become shorter with time, so that a process overtakes a neighbour that writes without end.
    """
    longest = 0.004 if waited < 0.05 else 0.001 if waited < 0.15 else 0.0004
    time.sleep(random.uniform(0.0002, longest))


def connect(location: str) -> Raw:
    """Opens a connection in autocommit mode, so transactions are explicit; it never waits for locks by itself."""
    connection: Raw = library().connect(
        location, timeout=0, isolation_level=None, cached_statements=768, check_same_thread=True
    )
    return connection


def connect_to_read(path: Path, *, unchanging: bool = False) -> Raw:
    """Opens a connection that cannot write.

    With `unchanging` it takes no lock, which is right only if no process has the file open.
    """
    words = "immutable=1" if unchanging else "mode=ro"
    connection: Raw = library().connect(
        f"{path.resolve().as_uri()}?{words}", uri=True, timeout=0, isolation_level=None
    )
    return connection


class Connection:
    """A connection and its thread, in which functions run one after another."""

    def __init__(self, inner: aiosqlite.Connection) -> None:
        self._inner = inner

    @classmethod
    async def open(cls, connector: Callable[[], Raw]) -> Connection:
        """Runs `connector` in a new thread and keeps the connection that it opens; its errors are raised here.

        Raises:
            StoreError: the system starts no more threads.
        """
        inner = aiosqlite.Connection(connector, iter_chunk_size=64)
        # A process that does not close the store must still be able to exit; for SQLite that is like a crash.
        inner._thread.daemon = True
        try:
            return cls(await inner)
        except Exception as error:
            if inner._thread.ident is None:
                raise StoreError(f"A connection of the store needs a thread of its own: {error}.") from error
            # The thread is stopping; its last message still needs the event loop.
            inner._thread.join(1.0)
            raise

    async def run(self, function: Callable[[Raw], T]) -> T:
        """Runs `function` on the raw connection in its thread, and returns the result; completes even if cancelled.

        Raises:
            StoreClosed: the connection was closed.
        """
        inner = self._inner
        if not inner._running or inner._connection is None:
            raise StoreClosed("The store is closed; nothing was changed.")
        result: T = await inner._execute(function, inner._connection)  # type: ignore[no-untyped-call]
        return result

    def do(self, function: Callable[[Raw], object]) -> None:
        """Has `function` run on the raw connection in its thread, soon; nobody learns of its result or error.

        Unlike `run` it takes no future and no turn of the event loop, and any thread may call it.

        Raises:
            StoreClosed: the connection was closed.
        """
        inner = self._inner
        if not inner._running or inner._connection is None:
            raise StoreClosed("The store is closed; nothing was changed.")
        inner._tx.put_nowait((None, functools.partial(function, inner._connection)))

    async def close(self) -> None:
        """Finishes pending functions, closes the connection, and ends the thread."""
        try:
            await self._inner.close()
        except errors() as error:
            raise translate(error, "close") from error
        finally:
            # The thread has sent its last message and is about to end.
            self._inner._thread.join(1.0)


def roll_back(raw: Raw) -> None:
    """Rolls back the transaction, if there is one; after some failures SQLite has done so already.

    It never raises, so that it hides no earlier error.
    """
    if raw.in_transaction:
        with contextlib.suppress(*errors()):
            raw.execute("ROLLBACK")


def unsound(raw: Raw, most: int) -> list[str]:
    """Returns what SQLite's integrity check finds, up to `most` lines; nothing in a sound file.

    SQLite up to 3.40 takes columns for others where those of a primary key do not come first, as in a table of files
    before schema 54.
    """
    mistaken = library().sqlite_version_info < (3, 41) and pragma(raw, "user_version") < 54
    told = [row[0] for row in raw.execute(f"PRAGMA integrity_check({1_000_000_000 if mistaken else most})")]
    beside = "NULL value in task_attempt." if mistaken else "ok"
    return [line for line in told if line != "ok" and not line.startswith(beside)][:most]


def pragma(raw: Raw, name: str) -> Any:
    """Returns the value of a pragma."""
    return raw.execute(f"PRAGMA {name}").fetchone()[0]
