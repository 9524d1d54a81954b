"""The transfer of boards between a store and files, through copies that nobody else uses.

A board is exported from a copy of the store, so that its lines are of one moment while posting continues. It is
imported into a store of its own and taken over in one transaction, so that a bad file or a crash leaves nothing
behind.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, StoreError
from blackboard_mcp.protocols.values import dataclass

from ..operations.ledger.ledger import find_board, get_board
from ..operations.ledger.rows import Steps, sql
from ..sqlite import driver
from ..store import SqlBoardStore
from . import exporting, importing, lines
from .comparing import differences
from .tables import TABLES, ColumnRole

ReadLine = Callable[[int], bytes]
"""Returns the next line of a file with its end, at most so many bytes of it; empty at the end of the file."""

_BATCH_LINES = 200
_BATCH_BYTES = 4 << 20
LEFT_AFTER_SECONDS = 86_400.0
"""Seconds after which a folder for a copy is taken as left behind by a crash."""
STAGING = "staging-"
"""The prefix of folders for copies."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import.

    `parent` is the id of the board's former parent, if that does not exist here. `owners` are agents that act for
    another owner here than in the file; they keep the one that they have here. `recounted` is the number of texts
    whose count of tokens differed in the file.
    """

    board: str
    events: int
    items: int
    parent: str | None
    owners: tuple[str, ...]
    recounted: int = 0


async def export_board(
    store: SqlBoardStore, board: str, *, folder: Path | None = None, public: bool = False
) -> AsyncGenerator[bytes, None]:
    """Yields the present history of a board page by page: lines from the first on, one for each event.

    With `public` it has only what everybody on the board sees, so no board can be rebuilt from it. `folder` is where a
    temporary copy of the store is made.

    Raises:
        UnknownReference: there is no such board.
        StoreFull: there is no room for the copy.
    """
    async with frozen(store, folder) as copy:
        async for page in _pages(copy, board, public=public):
            yield page


async def import_board(
    store: SqlBoardStore,
    read_line: ReadLine,
    *,
    board: str | None = None,
    folder: Path | None = None,
    check_name: Callable[[str], object] | None = None,
    check_config: Callable[[BoardConfig], object] | None = None,
    counting: importing.Counting | None = None,
) -> Imported:
    """Creates the board in the lines, under its own id or as `board`: the whole of it or nothing.

    `check_name` and `check_config` raise `InvalidInput` for an id and for settings that no board can have. Without
    `counting` the file's counts of tokens are kept, so it may be omitted only for files of one's own.

    Raises:
        BadLine: a line is wrong; the message has its number.
        Conflict: there is a board of that name.
    """
    with _room(folder) as place:

        async def may_be_called(name: str) -> None:
            if check_name is not None:
                check_name(name)
            await store.engine.read(lambda: _check_absent(name))

        progress, recounted = await _build(
            place / "board.db", read_line, board, may_be_called, check_config, counting
        )
        taken = await store.engine.write_from(place / "board.db", lambda: _take_over(progress.board))
        return Imported(progress.board, progress.lines, progress.born, *taken, recounted)


async def verify_board(
    store: SqlBoardStore,
    board: str,
    *,
    folder: Path | None = None,
    step: Callable[[int], object] | None = None,
) -> list[str]:
    """Rebuilds a board from its history in a temporary store, and returns a sentence on each difference.

    `step` is called with the number of lines as they are written, and again as they are read.

    Raises:
        UnknownReference: there is no such board.
        BadLine: the history that was written cannot be read.
    """
    async with frozen(store, folder) as copy:
        return await verify_frozen(copy, board, folder=folder, step=step)


async def verify_frozen(
    copy: SqlBoardStore,
    board: str,
    *,
    folder: Path | None = None,
    step: Callable[[int], object] | None = None,
) -> list[str]:
    """Does what `verify_board` does, on a copy that `frozen` made."""
    tell = step or (lambda lines: None)
    with _room(folder) as place:
        file = place / "history.jsonl"
        with file.open("wb") as out:
            async for page in _pages(copy, board, public=False):
                await asyncio.to_thread(out.write, page)
                tell(page.count(b"\n"))
        with file.open("rb") as lines_of:

            def read_line(most: int) -> bytes:
                tell(1)
                return lines_of.readline(most)

            await _build(place / "board.db", read_line)
        rebuilt = await SqlBoardStore.open(place / "board.db", synchronous="NORMAL")
        try:
            no = (await copy.engine.read(lambda: get_board(board))).no
            return await differences(copy.engine, no, rebuilt.engine, 1)
        finally:
            await rebuilt.close()


async def _pages(copy: SqlBoardStore, board: str, *, public: bool) -> AsyncGenerator[bytes, None]:
    extent = await copy.engine.read(lambda: exporting.extent(board, public=public))
    digest = hashlib.sha256()
    after = 0
    while after < extent.last:
        page = await copy.engine.read(_page(extent, after))
        if not page:
            raise StoreError(f"The log of '{board}' ends at {after}, and {extent.last} was its last event.")
        written = b"".join(line for _, line in page)
        after = page[-1][0]
        if after < extent.last:
            digest.update(written)
        else:
            written = lines.seal(digest, written)
        yield written


def _page(extent: exporting.Extent, after: int) -> Callable[[], Steps[list[tuple[int, bytes]]]]:
    return lambda: exporting.page(extent, after)


@asynccontextmanager
async def frozen(store: SqlBoardStore, folder: Path | None = None) -> AsyncIterator[SqlBoardStore]:
    """Yields a copy of the store as of one moment, from which boards are exported.

    Raises:
        StoreFull: there is no room for the copy.
    """
    with _room(folder) as place:
        await store.engine.backup(place / "copy.db")
        copy = await SqlBoardStore.open(place / "copy.db", synchronous="NORMAL")
        try:
            await copy.engine.write(exporting.prepare)
            yield copy
        finally:
            await copy.close()


async def _build(
    path: Path,
    read_line: ReadLine,
    board: str | None = None,
    check_name: Callable[[str], Awaitable[None]] | None = None,
    check_config: Callable[[BoardConfig], object] | None = None,
    counting: importing.Counting | None = None,
) -> tuple[importing.ImportProgress, int]:
    """Builds the board in a file of its own; returns the progress and the number of texts counted again.

    `check_name` is called early with the board's id, to refuse it before the work.
    """
    built = await SqlBoardStore.open(path, synchronous="NORMAL")
    try:
        digest = hashlib.sha256()
        last = b""
        progress: importing.ImportProgress | None = None
        while batch := await asyncio.to_thread(_batch, read_line):
            if progress is None:
                progress = await built.engine.write(_begin(batch[0], board))
                if check_name is not None:
                    await check_name(progress.board)
            for raw in batch:
                digest.update(last)
                last = raw
            try:
                progress = await built.engine.write(_load(progress, batch))
            except StoreError as error:
                if error.__cause__ is None or not driver.is_constraint(error.__cause__):
                    raise
                wrong = (
                    f"in it or the {len(batch) - 1:,} lines after it, a row is of something that is not there"
                )
                raise lines.BadLine(progress.lines + 1, wrong) from error
        if progress is None:
            raise lines.BadLine(1, "the file is empty")
        digest.update(lines.sealed(last))
        recounted = await built.engine.write(_finish(progress, digest.hexdigest(), counting))
        made = await built.find_board(progress.board)
        if check_config is not None and made is not None:
            try:
                check_config(made.config)
            except InvalidInput as error:
                raise lines.BadLine(
                    progress.lines, error.message.replace(" Nothing was changed.", "").rstrip(".")
                ) from None
        return progress, recounted
    finally:
        await built.close()


def _batch(read_line: ReadLine) -> list[bytes]:
    batch: list[bytes] = []
    size = 0
    while len(batch) < _BATCH_LINES and size < _BATCH_BYTES and (raw := read_line(lines.MAX_LINE + 1)):
        batch.append(raw)
        size += len(raw)
    return batch


def _begin(raw: bytes, board: str | None) -> Callable[[], Steps[importing.ImportProgress]]:
    return lambda: importing.begin(raw, board)


def _load(
    progress: importing.ImportProgress, batch: list[bytes]
) -> Callable[[], Steps[importing.ImportProgress]]:
    return lambda: importing.load(progress, batch)


def _finish(
    progress: importing.ImportProgress, sha256: str, counting: importing.Counting | None
) -> Callable[[], Steps[int]]:
    return lambda: importing.finish(progress, sha256, counting)


def _check_absent(board: str) -> Steps[None]:
    if (yield from find_board(board)) is not None:
        raise Conflict(
            f"There is a board '{board}' already; a history makes a new one. Nothing was changed; "
            "name another with --board.",
            board=board,
        )


def _take_over(board: str) -> Steps[tuple[str | None, tuple[str, ...]]]:
    """Copies the only board of the attached file into the store.

    Returns its former parent's id, if that does not exist here, and agents with another owner here.
    """
    yield from _check_absent(board)
    yield "PRAGMA defer_foreign_keys = ON", ()
    contradicted = tuple(row[0] for row in (yield sql("history_contradicted"), ()))
    yield sql("history_strangers"), ()
    no = (yield "SELECT coalesce(max(no), 0) + 1 FROM board", ())[0][0]
    for table in TABLES:
        if table.role is ColumnRole.INSTALLATION or table.triggered:
            continue
        rows = yield f"SELECT name FROM pragma_table_info('{table.name}')", ()  # noqa: S608 - names of ours
        own = "no" if table.name == "board" else "board"
        # The engine numbers these rows itself.
        columns = [row[0] for row in rows if row[0] != own and (table.name, row[0]) != ("outbox", "id")]
        listed = ", ".join(columns)
        yield (
            f"INSERT INTO main.{table.name}({own}, {listed}) "  # noqa: S608 - names of ours
            f"SELECT ?1, {listed} FROM staged.{table.name}",
            (no,),
        )
    was = (yield "SELECT parent FROM board WHERE no = ?1", (no,))[0][0]
    orphan = yield sql("history_orphan"), (no,)
    yield sql("board_copied"), (no, 1)
    return (was if orphan else None), contradicted


@contextmanager
def _room(folder: Path | None) -> Iterator[Path]:
    """Yields a temporary folder inside `folder`, or in the system's own place; deletes it afterwards."""
    for left in _left_behind(folder) if folder is not None else ():
        shutil.rmtree(left, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix=STAGING, dir=folder))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _left_behind(folder: Path) -> Iterator[Path]:
    for path in folder.glob(STAGING + "*"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > LEFT_AFTER_SECONDS:
                yield path
