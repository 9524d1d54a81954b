"""Copies of all boards between PostgreSQL and a file of the SQLite engine, as backups, exports and imports use them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from blackboard_mcp.protocols.errors import StoreDamaged, StoreError
from blackboard_mcp.storage.operation import Operation, Rows
from blackboard_mcp.storage.sqlite import driver, migrate, place
from blackboard_mcp.storage.sqlite.group import run
from blackboard_mcp.storage.sqlite.opening import APPLICATION_ID, migrations, schema

from .dialect import STAGED
from .session import Session

_PAGE: Final = 500
_PATIENCE: Final = 60.0


async def to_file(session: Session, target: Path, mark: Operation[object] | None) -> None:
    """Writes all tables, as of one moment, to a new file; runs `mark` in it.

    Raises:
        StoreError: `target` exists or cannot be written.
        StoreFull: the disk has no room.
    """
    file = await _opened(target)
    try:
        tables, triggers = await file.run(_emptied)
        await session.execute(session.begin("ISOLATION LEVEL REPEATABLE READ READ ONLY"))
        for table, columns in tables.items():
            listed = ", ".join(columns)
            await session.execute(
                f"DECLARE of_{table} NO SCROLL CURSOR FOR SELECT {listed} FROM {table}"  # noqa: S608 - names of ours
            )
            marks = ", ".join("?" * len(columns))
            adding = f"INSERT INTO {table}({listed}) VALUES ({marks})"  # noqa: S608 - names of ours
            while rows := (await session.fetch(f"FETCH {_PAGE} FROM of_{table}"))[0]:
                await file.run(partial(_add, adding, rows))
            await session.execute(f"CLOSE of_{table}")
        await session.execute("COMMIT")
        await file.run(lambda raw: _finish(raw, triggers, mark))
    except BaseException as error:
        await session.roll_back()
        await file.close()
        await asyncio.to_thread(target.unlink, missing_ok=True)
        if isinstance(error, driver.errors()):
            raise driver.translate(error, f"write the backup {target}") from error
        raise
    await file.close()


async def stage(session: Session, source: Path) -> None:
    """Lays the rows of a file into temporary tables, which end with the transaction that is open.

    Raises:
        StoreDamaged: the file has another schema.
    """
    file = await driver.Connection.open(lambda: driver.connect_to_read(source))
    try:
        if await file.run(lambda raw: driver.pragma(raw, "user_version")) != len(migrations()):
            raise StoreDamaged(f"{source} has another schema. Nothing was changed.")
        for table, columns in (await file.run(_tables)).items():
            await session.execute(f"CREATE TEMPORARY TABLE {STAGED}{table} (LIKE {table}) ON COMMIT DROP")
            listed = ", ".join(columns)
            cursor = await file.run(partial(_ask, f"SELECT {listed} FROM {table}"))  # noqa: S608 - names of ours
            while rows := await file.run(partial(_page, cursor)):
                await session.load(STAGED + table, columns, rows)
    finally:
        await file.close()


async def _opened(target: Path) -> driver.Connection:
    """Opens a new file with the newest schema."""

    def connect() -> driver.Raw:
        if target.exists():
            raise StoreError(f"Cannot make the backup {target}: File exists.")
        place.prepare(target)
        raw = driver.connect(str(target))
        try:
            raw.execute("PRAGMA synchronous=OFF")
            migrate.migrate(raw, migrations(), APPLICATION_ID, _PATIENCE, schema=schema())
        except BaseException:
            raw.close()
            raise
        return raw

    return await driver.Connection.open(connect)


def _add(statement: str, rows: Rows, raw: driver.Raw) -> None:
    raw.executemany(statement, rows)


def _ask(statement: str, raw: driver.Raw) -> Any:
    return raw.execute(statement)


def _page(cursor: Any, raw: driver.Raw) -> Rows:
    return list(cursor.fetchmany(_PAGE))


def _emptied(raw: driver.Raw) -> tuple[dict[str, list[str]], list[str]]:
    """Begins a transaction and drops all triggers, as copied rows have had them; returns tables and triggers."""
    found = raw.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    raw.execute("PRAGMA foreign_keys=OFF")
    raw.execute("BEGIN")
    for name, _ in found:
        raw.execute(f"DROP TRIGGER {name}")
    return _tables(raw), [text for _, text in found]


def _tables(raw: driver.Raw) -> dict[str, list[str]]:
    """Returns the tables of a file, with their columns."""
    names = raw.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY rowid"
    ).fetchall()
    return {
        name: [row[0] for row in raw.execute("SELECT name FROM pragma_table_info(?)", (name,)).fetchall()]
        for (name,) in names
    }


def _finish(raw: driver.Raw, triggers: Sequence[str], mark: Operation[Any] | None) -> None:
    """Makes the triggers again, runs `mark`, and puts all on the disk."""
    for text in triggers:
        raw.execute(text)
    if mark is not None:
        run(raw, mark)
    raw.execute("COMMIT")
    raw.execute("PRAGMA synchronous=FULL")
    raw.execute("PRAGMA journal_mode=DELETE").fetchall()
    raw.execute("VACUUM")
