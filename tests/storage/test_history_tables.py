"""Every table and column of the schema is known to the history of a board."""

from __future__ import annotations

import pytest
from blackboard_mcp.storage.history import lines
from blackboard_mcp.storage.history.forms import FLAG, INSTANT, TEXT, RowForm
from blackboard_mcp.storage.history.lines import BadLine
from blackboard_mcp.storage.history.tables import BY_NAME, TABLES, ColumnRole
from blackboard_mcp.storage.memory import open_memory_store
from blackboard_mcp.storage.operations.ledger.rows import Steps


def schema() -> Steps[dict[str, set[str]]]:
    """The tables with their columns."""
    tables = yield "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'", ()
    found = {}
    for (table,) in tables:
        rows = yield f"SELECT name FROM pragma_table_info('{table}')", ()  # noqa: S608 - names of ours
        found[table] = {row[0] for row in rows}
    return found


async def test_every_table_is_truth_or_derived_or_of_the_installation() -> None:
    store = await open_memory_store()
    found = await store.engine.read(schema)
    await store.close()
    assert set(found) == set(BY_NAME), "say in history/tables.py what the table is to a board"
    assert len(BY_NAME) == len(TABLES)
    for table in TABLES:
        if table.role is ColumnRole.TRUTH:
            known = {*table.columns, *table.derived} | ({"board"} if table.name != "board" else set())
            assert known == found[table.name], table.name
        else:
            assert set(table.compared) <= found[table.name]


def test_a_column_that_came_later_has_its_default_where_a_file_lacks_it() -> None:
    forms: dict[str, RowForm] = {"name": TEXT, "seen": INSTANT.since(0), "kept": FLAG}
    assert lines.fields({"name": "n", "kept": True}, forms, 7, "a row") == {"name": "n", "seen": 0, "kept": 1}
    seen = lines.fields({"name": "n", "kept": False, "seen": "1970-01-01T02:00:01+02:00"}, forms, 7, "a row")
    assert seen["seen"] == 1_000_000
    with pytest.raises(BadLine, match="Line 7: a row has no kept"):
        lines.fields({"name": "n"}, forms, 7, "a row")


def test_a_column_is_found_under_the_name_that_it_had_in_an_older_file() -> None:
    forms: dict[str, RowForm] = {"name": TEXT.once("title"), "kept": FLAG}
    assert lines.fields({"kept": True, "title": "n"}, forms, 7, "a row") == {"name": "n", "kept": 1}
    with pytest.raises(BadLine, match="Line 7: a row has a member 'title' that is unknown"):
        lines.fields({"kept": True, "title": "n", "name": "m"}, forms, 7, "a row")
    with pytest.raises(BadLine, match="Line 7: a row has no name"):
        lines.fields({"kept": True}, forms, 7, "a row")
