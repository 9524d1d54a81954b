"""Migration of a schema to the newest version, and what statements have to know of its tables.

Versions are those of the SQLite engine: script n leads to the schema that its script n leads to. The first script
here makes the whole of schema 49. An advisory lock lets one process migrate at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Final

import asyncpg
from blackboard_mcp.protocols.errors import StoreBusy, StoreDamaged, StoreError, StoreTooNew
from blackboard_mcp.storage.operation import Operation

from .address import Address
from .dialect import Dialect, Tables
from .session import LATER, LONG, Session

FIRST: Final = 49
"""The version that the first script makes."""
FILLS: Final[Mapping[int, Operation[object]]] = {}
"""Operations that complete the data of an older schema, by the number of their script."""
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('blackboard-mcp ' || $1::text, 0))"
_UNHURRIED: Final = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '{seconds:d}s'"
_SECONDS: Final = 10
"""The most seconds that a migration waits for a table. Servers that still run wait as long, and then go on."""
_TRIES: Final = 6
_PAUSE: Final = 1.0
"""The seconds between tries."""
_VERSION: Final = "SELECT to_regclass($1::text || '.installation') IS NOT NULL"
_TABLES: Final = "SELECT count(*) FROM pg_tables WHERE schemaname = $1::text"
_COLUMNS: Final = """
SELECT c.relname::text, a.attname::text, format_type(a.atttypid, NULL)
FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE s.nspname = $1::text AND c.relkind IN ('r', 'v') ORDER BY 1, a.attnum
"""
_KEYS: Final = """
SELECT c.relname::text, a.attname::text FROM pg_index i
JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace s ON s.oid = c.relnamespace
CROSS JOIN unnest(i.indkey::int2[]) WITH ORDINALITY AS k(number, place)
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number
WHERE s.nspname = $1::text AND i.indisprimary ORDER BY 1, k.place
"""


@cache
def scripts() -> Mapping[int, str]:
    """Returns the migration scripts by number."""
    folder = resources.files("blackboard_mcp.storage.postgres").joinpath("migrations")
    named = (file for file in folder.iterdir() if file.name[:4].isdecimal())
    return {int(file.name[:4]): file.read_text("utf-8") for file in sorted(named, key=lambda file: file.name)}


def functions() -> str:
    """Returns the script that makes the functions and operators that statements use; it may run again."""
    folder = resources.files("blackboard_mcp.storage.postgres").joinpath("migrations")
    return folder.joinpath("functions.sql").read_text("utf-8")


def newest() -> int:
    """Returns the version to which the scripts lead."""
    return max(scripts())


def script(before: int, to: int, schema: str) -> Iterator[str]:
    """Yields the SQL that leads a schema from one version (0: nothing is there) to another, to be run as one."""
    yield f"SELECT pg_advisory_xact_lock(hashtextextended('blackboard-mcp {schema}', 0));\n"
    yield f"SET LOCAL search_path = {schema}, pg_catalog;\n"
    if before > 0:
        # As servers that still run do: whoever locked a table first would wait for them, and they for him.
        yield "SELECT schema FROM installation FOR UPDATE;\n"
    else:
        yield f"CREATE SCHEMA IF NOT EXISTS {schema};\n"
        yield (
            "CREATE TABLE installation (\n    one boolean PRIMARY KEY DEFAULT true CHECK (one),\n"
            "    schema bigint NOT NULL,\n    pulse bigint NOT NULL,\n    place text NOT NULL\n"
            ") WITH (fillfactor = 50);\n"
            "INSERT INTO installation(schema, pulse, place) VALUES (0, 0, '');\n"
        )
    yield functions()
    for number, text in scripts().items():
        if before < number <= to:
            yield text
    yield f"UPDATE installation SET schema = {to:d};\n"  # noqa: S608 - a number


async def migrate(session: Session, address: Address) -> Dialect:
    """Brings the schema to the newest version, all in one transaction; returns how statements are translated for it.

    Raises:
        StoreBusy: other transactions held its tables too long, again and again.
        StoreTooNew: a newer version of the product migrated it.
        StoreDamaged: the schema has tables of something else.
        StoreError: the user may not make the schema or its tables.
    """
    tries = 0
    while True:
        tries += 1
        try:
            return await _migrated(session, address)
        except asyncpg.PostgresError as error:
            if error.sqlstate not in LATER:
                raise
            if tries == _TRIES:
                raise StoreBusy(
                    f"{address.shown}: the schema {address.schema} cannot be migrated while other transactions hold "
                    "its tables, such as a dump or a session that was left open. Nothing was changed; end them or "
                    "wait, then start again."
                ) from error
        await asyncio.sleep(_PAUSE)


async def _migrated(session: Session, address: Address) -> Dialect:
    """Tries once to migrate, and returns how statements are translated."""
    schema, to = address.schema, newest()
    await session.execute(session.begin())
    try:
        if (there := await _made(session, schema)) < to:
            session.seconds = LONG
            await session.execute(_UNHURRIED.format(seconds=0))
            await session.fetch(_LOCK, [schema])
            await session.execute(_UNHURRIED.format(seconds=_SECONDS))
            # Judged under the lock only: before it, another process may make the tables between two statements.
            if (there := await version(session, schema)) < to:
                await session.execute("".join(script(there, to, schema)))
                if there:
                    session.dialect = await _dialect(session, schema)
                    for number, fill in sorted(FILLS.items()):
                        if there < number:
                            await session.run(fill)
        if there > to:
            raise too_new(there, to)
        dialect = await _dialect(session, schema)
        await session.locate()
        await session.execute("COMMIT")
        return dialect
    except BaseException as error:
        await session.roll_back()
        if getattr(error, "sqlstate", "") == "42501":
            raise StoreError(
                f"{address.shown}: the user may not make the schema {schema} or its tables ({error}). Grant it CREATE "
                "on the database, or have somebody run what `blackboard-mcp migrate --print` prints."
            ) from error
        raise
    finally:
        session.seconds = None


def too_new(version: int, known: int) -> StoreTooNew:
    """Returns the error for a schema that a newer version of the product migrated."""
    return StoreTooNew(
        f"A newer version of blackboard-mcp has this data (schema {version}; this one knows up to {known}). Nothing "
        "was changed. This one has to be upgraded and started again; if others run it, tell them.",
        version=version,
        newest=known,
    )


async def version(session: Session, schema: str) -> int:
    """Returns the schema's version; 0 if there is nothing in it.

    Raises:
        StoreDamaged: the schema has tables of something else.
    """
    # In this order: tables that are made between the two statements are not taken for somebody else's.
    has_tables = (await session.fetch(_TABLES, [schema]))[0][0][0]
    there = await _made(session, schema)
    if has_tables and not there:
        raise StoreDamaged(
            f"The schema {schema} has tables of another program. Nothing was changed; name another with ?schema=…"
        )
    return there


async def _made(session: Session, schema: str) -> int:
    """Returns the schema's version; 0 if the product has no tables there."""
    if not (await session.fetch(_VERSION, [schema]))[0][0][0]:
        return 0
    return int((await session.fetch(f"SELECT schema FROM {schema}.installation"))[0][0][0])  # noqa: S608 - a checked name


_DIALECTS: Final[dict[int, Dialect]] = {}
"""By version; all schemas of one version have the same tables."""


async def _dialect(session: Session, schema: str) -> Dialect:
    """Returns how statements are translated for the newest schema; reads its tables the first time."""
    if (known := _DIALECTS.get(newest())) is not None:
        return known
    columns: dict[str, dict[str, str]] = {}
    for table, name, kind in (await session.fetch(_COLUMNS, [schema]))[0]:
        columns.setdefault(table, {})[name] = kind
    keys: dict[str, list[str]] = {}
    for table, name in (await session.fetch(_KEYS, [schema]))[0]:
        keys.setdefault(table, []).append(name)
    return _DIALECTS.setdefault(newest(), Dialect(Tables(columns, keys)))
