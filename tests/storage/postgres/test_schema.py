"""The schema in PostgreSQL is SQLite's, and every statement of the store runs on it."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import asyncpg
import postgres_server
from blackboard_mcp.storage.operations.ledger import rows
from blackboard_mcp.storage.postgres import migrating
from blackboard_mcp.storage.postgres.dialect import variants
from blackboard_mcp.storage.postgres.store import open_postgres_store
from blackboard_mcp.storage.sqlite import driver, migrate
from blackboard_mcp.storage.sqlite.opening import APPLICATION_ID, migrations

OWN = {"installation", "index_reader", "outbox_row"}
"""What only PostgreSQL has."""
ON_FILES = re.compile(r"^examine_")
"""Statements that read a file of SQLite alone."""
STAGED = {"history_contradicted", "history_strangers"}
"""Statements that need a file to be laid beside the schema; the acceptance test imports one."""
KINDS = {"INTEGER": "bigint", "TEXT": "text", "BLOB": "bytea"}


async def test_tables_columns_keys_and_indexes_are_those_of_sqlite(tmp_path: Path) -> None:
    store = await open_postgres_store(postgres_server.address(tmp_path))
    await store.close()
    there = await asyncpg.connect(postgres_server.server().address)
    schema = postgres_server.address(tmp_path).rpartition("=")[2]
    try:
        columns = await there.fetch(
            "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns "
            "WHERE table_schema = $1",
            schema,
        )
        indexes = await there.fetch(
            "SELECT tablename, indexname FROM pg_indexes WHERE schemaname = $1 AND indexname !~ '_pkey$|_id_key$'",
            schema,
        )
    finally:
        await there.close()
        postgres_server.give_back(tmp_path)
    with closing(driver.connect(":memory:")) as raw:
        migrate.migrate(raw, migrations(), APPLICATION_ID, 60.0)
        names = raw.execute(
            "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite%'"
        ).fetchall()
        here = {
            (name, column, KINDS.get(kind, kind))
            for (name,) in names
            for column, kind in raw.execute("SELECT name, type FROM pragma_table_info(?)", (name,)).fetchall()
            if kind
        }
        indexed = raw.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'index' AND name NOT LIKE 'sqlite%'"
        ).fetchall()
    found = {(row[0], row[1], row[2]) for row in columns if row[0] not in OWN}
    assert here <= found
    assert {name for name, _, _ in found} == {name for (name,) in names}
    assert {row[1] for row in indexes if row[0] not in OWN} | {"outbox_item"} == {name for (name,) in indexed}
    assert migrating.newest() == len(migrations())


async def test_every_named_statement_is_understood(tmp_path: Path) -> None:
    store = await open_postgres_store(postgres_server.address(tmp_path))
    try:
        session = store.engine._writer  # type: ignore[attr-defined]
        dialect = session.dialect
        wrong = []
        for name in rows._statements():
            text = rows.sql(name)
            if ON_FILES.match(name) or name in STAGED:
                continue
            translated = dialect.translated(variants().get(text, text))
            untyped = re.sub(r"('(?:[^']|'')*')|\?(\d*)", lambda m: m[1] or f"${m[2]}", translated)
            try:
                await session._raw.prepare(untyped)
            except (
                asyncpg.IndeterminateDatatypeError,
                asyncpg.AmbiguousFunctionError,
                asyncpg.DatatypeMismatchError,
            ):
                continue  # only a value tells its type
            except asyncpg.PostgresError as error:
                wrong.append(f"{name}: {error}")
        assert not wrong
    finally:
        await store.close()
        postgres_server.give_back(tmp_path)
