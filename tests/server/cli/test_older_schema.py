"""Commands on the boards of an older version, which an older server may still serve: none of them migrates."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from blackboard_mcp.server.cli import cli
from blackboard_mcp.server.compose import installation
from blackboard_mcp.server.settings.server import Settings
from blackboard_mcp.storage.sqlite import driver
from blackboard_mcp.storage.sqlite.opening import migrations
from click.testing import CliRunner, Result

DUMP = Path(__file__).parents[2] / "storage" / "sqlite" / "schema_8.sql"
NEWEST = len(migrations())


def schema(path: Path) -> int:
    with closing(driver.connect(str(path))) as raw:
        return int(driver.pragma(raw, "user_version"))


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder at schema 8."""
    made = tmp_path / "old data"
    made.mkdir(mode=0o700)
    with closing(driver.connect(str(made / "board.sqlite3"))) as raw:
        raw.executescript(DUMP.read_text("utf-8"))
    return made


@pytest.mark.parametrize(
    "words",
    [
        ["show"],
        ["show", "H-1"],
        ["query"],
        ["boards"],
        ["policies"],
        ["token", "list"],
        ["token", "create", "--agent", "zed"],
        ["members"],
        ["export"],
        ["verify"],
        ["prune", "--dry-run"],
        ["compact"],
        ["post", "--type", "LOG", "hello"],
        ["watch"],
    ],
    ids=lambda words: " ".join(words),
)
def test_a_command_refuses_boards_of_an_older_version_and_leaves_them_as_they_are(
    data: Path, words: list[str]
) -> None:
    before = (data / "board.sqlite3").read_bytes()
    done = run(*words, "--data", data)
    assert done.exit_code == 1, done.output
    said = done.stderr if done.stderr else str(done.exception)
    assert f"blackboard-mcp migrate --data '{data}'" in said
    assert f"blackboard-mcp backup --data '{data}' FILE" in said
    assert (data / "board.sqlite3").read_bytes() == before
    assert schema(data / "board.sqlite3") == 8


def test_a_backup_of_an_older_version_has_its_schema_and_can_be_restored(data: Path, tmp_path: Path) -> None:
    before = (data / "board.sqlite3").read_bytes()
    saved = tmp_path / "saved"
    done = run("backup", "--data", data, saved)
    assert done.exit_code == 0, done.output
    assert (schema(saved), saved.stat().st_mode & 0o777) == (8, 0o600)
    assert (data / "board.sqlite3").read_bytes() == before
    done = run("restore", "--data", data, "--force", saved)
    assert done.exit_code == 0, done.output
    (aside,) = data.glob("board.sqlite3.before-*")
    assert schema(aside) == schema(saved) == 8
    assert schema(data / "board.sqlite3") == NEWEST
    assert run("verify", "--data", data).exit_code == 0


def test_a_backup_from_which_copies_can_be_told_marks_them(tmp_path: Path) -> None:
    database = tmp_path / "board.sqlite3"
    assert run("migrate", "--data", _migrated(tmp_path)).exit_code == 0
    with closing(driver.connect(str(database))) as raw:
        raw.execute(f"PRAGMA user_version={NEWEST - 1}")
    assert run("backup", "--data", tmp_path, tmp_path / "saved").exit_code == 0
    for file, copied in ((database, 0), (tmp_path / "saved", 1)):
        with closing(driver.connect(str(file))) as raw:
            assert {row[0] for row in raw.execute("SELECT copied FROM board")} == {copied}


def _migrated(folder: Path) -> Path:
    with closing(driver.connect(str(folder / "board.sqlite3"))) as raw:
        raw.executescript(DUMP.read_text("utf-8"))
    return folder


def test_migrate_keeps_a_copy_of_the_older_file_beside_it(data: Path) -> None:
    done = run("migrate", "--data", data)
    assert done.exit_code == 0, done.output
    assert schema(data / "board.sqlite3") == NEWEST
    (aside,) = data.glob("board.sqlite3.before-8-*")
    assert (schema(aside), aside.stat().st_mode & 0o777) == (8, 0o600)
    assert run("migrate", "--data", data).exit_code == 0
    assert [aside] == list(data.glob("board.sqlite3.before-*"))
    assert run("show", "--data", data).exit_code == 0


async def test_a_server_migrates_without_a_copy_where_the_disk_has_no_room(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    usage = shutil.disk_usage(data)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1_000))
    async with installation(Settings(data=data), eager_index=False, background=False):
        pass
    assert schema(data / "board.sqlite3") == NEWEST
    assert not any(name.startswith("board.sqlite3.before-") for name in os.listdir(data))
    assert "no room for a copy of schema 8" in caplog.text
