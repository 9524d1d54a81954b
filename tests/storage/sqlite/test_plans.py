"""How statements look things up: what only grows is never gone through for a board as a whole."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Iterator
from importlib import resources

import pytest
from blackboard_mcp.storage.operations.ledger.rows import sql
from blackboard_mcp.storage.sqlite import driver, migrate
from blackboard_mcp.storage.sqlite.opening import APPLICATION_ID, migrations
from blackboard_mcp.storage.sqlite.packing import PACKED, for_single, lists_of, packed

GROWING = {
    *("item", "item_version", "event", "edge", "debate", "debate_critique", "obligation", "vote"),
    *("task", "task_after", "task_attempt", "run_turn", "sighting"),
    *("idempotency", "finding", "endorsement", "key_part", "outbox"),
}
WHOLE = {
    "waiting_of_board",
    "waiting_for_index",
    "outbox_items",
    "outbox_of_board",
    "protected_figures",
    "protected_figures_visible",
    "pressure_causes",
    "held_on_account",
    *("task_last", "tasks_last", "tasks_newest_open", "tasks_over", "board_kinds"),
    *("bound_among", "figures_fill", "items_keep"),
}
"""Count or list all of what waits for the index or may not leave, count up to a bound, or end at the first row; the
last three belong to a command of the operator's that goes through a board anyway.
"""


def statements() -> list[str]:
    folder = resources.files("blackboard_mcp.storage.sqlite") / "queries"
    return [
        name
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".sql") and file.name not in ("history.sql", "examining.sql")
        for name in re.findall(r"^-- name: (\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    ]


def forms(name: str) -> list[tuple[str, str]]:
    """Returns a statement as it is and, where it takes lists, as it is for single values, each with its name."""
    text = sql(name)
    one = for_single(text, lists_of(text))
    return [(name, text)] if one == text else [(name, text), (name, one)]


@pytest.fixture(params=["chosen", "of Python"])
def raw(request: pytest.FixtureRequest) -> Iterator[sqlite3.Connection]:
    """An empty board in the SQLite that is used, and in the one that is used where there is no other."""
    library = driver.library() if request.param == "chosen" else sqlite3
    connection = library.connect(":memory:", isolation_level=None)
    migrate.migrate(connection, migrations(), APPLICATION_ID, 1.0)
    yield connection
    connection.close()


def test_no_statement_goes_through_all_that_ever_was_on_a_board(raw: sqlite3.Connection) -> None:
    partial = {
        row[1] for table in GROWING for row in raw.execute(f"PRAGMA index_list({table})") if row[4] == 1
    }
    views = " ".join(row[0] for row in raw.execute("SELECT sql FROM sqlite_schema WHERE type = 'view'"))
    names = [name for name in statements() if name not in WHOLE]
    assert len(names) > 200
    slow: list[tuple[str, str]] = []
    for name, statement in [form for known in names for form in forms(known)]:
        # The names of a view's tables are seen in the plan of what asks it.
        words = f"{views} {statement}"
        named = dict(re.findall(r"(?:FROM|JOIN|UPDATE|INTO)\s+(\w+)(?:\s+AS)?\s+(\w+)", words))
        tables = {alias: table for table, alias in named.items()}
        many = max([0, *map(int, re.findall(r"\?(\d+)", statement))])
        for row in raw.execute(f"EXPLAIN QUERY PLAN {statement}", [None] * many):
            way = re.match(r"SEARCH (\w+) USING (?:COVERING )?(?:INDEX )?(.+) \(board=\?\)", row[3])
            if way and tables.get(way[1], way[1]) in GROWING and way[2] not in partial:
                slow.append((name, row[3]))
    assert not slow, slow


def test_a_row_in_every_table_is_sound_to_each_library(raw: sqlite3.Connection) -> None:
    """SQLite up to 3.40 takes columns for others where those of a primary key do not come first."""
    raw.execute("PRAGMA foreign_keys=OFF")
    values = {"INTEGER": 77, "TEXT": "[]", "REAL": 1.0, "BLOB": b"a", "ANY": 1}
    for (table,) in raw.execute("SELECT name FROM sqlite_schema WHERE sql LIKE '%STRICT%'").fetchall():
        row = [values[column[2]] for column in raw.execute(f"PRAGMA table_info({table})")]
        raw.execute(f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608 - names of ours
    assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.parametrize("broken", [False, True])
def test_an_older_file_is_sound_to_the_library_of_python_unless_it_is_not(
    monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    monkeypatch.setattr(driver, "library", lambda: sqlite3)
    older = sqlite3.connect(":memory:", isolation_level=None)
    migrate.migrate(older, migrations()[:53], APPLICATION_ID, 1.0)
    older.execute("PRAGMA foreign_keys=OFF")
    older.execute("INSERT INTO task_attempt VALUES (1, 1, 1, 'ada', 'lapsed', '', 7)")
    if broken:
        older.execute("CREATE TABLE sums (n INTEGER CHECK (n > 0))")
        older.execute("PRAGMA ignore_check_constraints=ON")
        older.execute("INSERT INTO sums VALUES (-1)")
        older.execute("PRAGMA ignore_check_constraints=OFF")
    assert driver.unsound(older, 3) == (["CHECK constraint failed in sums"] if broken else [])
    older.close()


@pytest.mark.parametrize("name", PACKED)
def test_rows_in_one_step_are_looked_up_as_rows_one_by_one_are(raw: sqlite3.Connection, name: str) -> None:
    statement = sql(name)
    values = [1] * max(map(int, re.findall(r"\?(\d+)", statement)))
    columns = len(raw.execute(statement, values).description)
    plain, whole = (
        [re.sub(r"\d+$", "", row[3]) for row in raw.execute(f"EXPLAIN QUERY PLAN {text}", values)]
        for text in (statement, packed(statement, columns))
    )
    assert [line for line in whole if not line.endswith(" r")] == plain


def prepared_again(raw: sqlite3.Connection, statement: str) -> bool:
    """Tells whether SQLite prepares the statement anew, and so asks the authorizer, each time that it runs."""
    asked = 0

    def authorizer(*_: object) -> int:
        nonlocal asked
        asked += 1
        return sqlite3.SQLITE_OK

    values = ["1"] * max([0, *map(int, re.findall(r"\?(\d+)", statement))])
    raw.execute("BEGIN")
    raw.set_authorizer(authorizer)
    try:
        for _ in range(
            3
        ):  # the first run prepares it, and a value that a plan goes by counts from the second on
            asked = 0
            # It is prepared before it finds that a constraint fails.
            with contextlib.suppress(sqlite3.IntegrityError, driver.library().IntegrityError):
                raw.execute(statement, values).fetchall()
    finally:
        raw.set_authorizer(None)
        raw.execute("ROLLBACK")
    return asked > 0


def test_no_statement_is_prepared_anew_for_each_run(raw: sqlite3.Connection) -> None:
    again = [text for name in statements() for _, text in forms(name) if prepared_again(raw, text)]
    assert not again


@pytest.mark.parametrize("raw", ["chosen"], indirect=True)
def test_a_limit_without_a_plus_would_be_prepared_anew(raw: sqlite3.Connection) -> None:
    statement = sql("top")
    assert "LIMIT +?" in statement
    if driver.library().sqlite_version_info >= (3, 51):
        assert prepared_again(raw, statement.replace("LIMIT +?", "LIMIT ?"))
