"""Each thing that the doctor finds: made, found by name, cured, gone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme
from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.errors import StoreError
from blackboard_mcp.server.cli import cli
from blackboard_mcp.server.demo.process import command, environment
from blackboard_mcp.server.doctor import programs
from blackboard_mcp.server.text.tokens import load_tokenizer
from blackboard_mcp.storage.archive import EmbedderChoice, SearchableArchive
from blackboard_mcp.storage.lance import rows
from blackboard_mcp.storage.sqlite import driver, place
from blackboard_mcp.storage.sqlite.engine import SqliteEngine
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import HandClock, draft
from click.testing import CliRunner
from patience import PATIENCE, until
from ports import free_port
from small_disk import small_disk

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and /proc of Linux")

YEAR = 365 * 86_400 * 1_000_000


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a board and an archive in its index."""
    folder = tmp_path_factory.mktemp("doctor") / "data"

    async def make() -> None:
        store = await SqlBoardStore.open(folder / "board.sqlite3")
        await store.ensure_board("main", "ada", BoardConfig())
        drafts = [draft(f"pump {n} leaks at the seal", "LOG") for n in range(40)]
        posted = await store.post("main", "ada", drafts, config=BoardConfig())
        await store.post("main", "ada", [draft("a: two", key="plan:a")], config=BoardConfig())
        await store.post("main", "ada", [draft("a: three", key="plan:a")], config=BoardConfig())
        for item in posted.items[:20]:
            await store.post(
                "main", "ada", [draft("better", "LOG", supersedes=item.number)], config=BoardConfig()
            )
        archive = SearchableArchive(
            store, folder / "archive.lance", "test", eager=False, embedder=EmbedderChoice("none")
        )
        assert await archive.drain()
        await archive.close()
        await store.close()

    asyncio.run(make())
    return folder


@pytest.fixture
def data(healthy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BLACKBOARD_EMBEDDER", "none")
    return Path(shutil.copytree(healthy, tmp_path / "data"))


def diagnose(data: Path, *options: str) -> dict[str, dict[str, Any]]:
    """What the command finds by name; its exit code says the same."""
    done = CliRunner().invoke(cli, ["doctor", "--json", "--data", str(data), *options])
    assert done.exit_code in (0, 1, 2), done.output
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    found = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
    severities = {finding["severity"] for finding in found.values()}
    assert done.exit_code == (2 if "problem" in severities else 1 if severities else 0)
    assert all(finding["message"] and finding["cure"] for finding in found.values())
    return found


def repaired(data: Path) -> list[str]:
    done = CliRunner().invoke(cli, ["doctor", "--json", "--repair", "--data", str(data)])
    told: list[str] = json.loads(done.stdout)["repaired"]
    return told


@contextmanager
def changed(data: Path, *statements: str) -> Iterator[None]:
    """The file with something wrong in it, and put right again."""
    kept = (data / "board.sqlite3").read_bytes()
    alter(data, *statements)
    try:
        yield
    finally:
        (data / "board.sqlite3").write_bytes(kept)


def alter(data: Path, *statements: str) -> None:
    with contextlib.closing(driver.connect(str(data / "board.sqlite3"))) as raw:
        raw.execute("PRAGMA wal_autocheckpoint=0")
        for statement in statements:
            raw.execute(statement)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# The command


def test_nothing_is_wrong_with_what_is_well_and_nothing_is_changed(data: Path) -> None:
    before = contents(data)
    done = subprocess.run(
        command("doctor", "--data", str(data)), capture_output=True, text=True, env=environment(), check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "nothing is wrong\n", "")
    assert contents(data) == before


def test_a_folder_without_boards_is_told_of_by_name(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["doctor", "--data", str(tmp_path / "bords")])
    assert (done.exit_code, f"{tmp_path / 'bords'} has no boards yet" in done.output) == (0, True)


def test_what_stands_in_the_place_of_the_data_is_found(tmp_path: Path) -> None:
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_text("mine")
    (folder / "board.sqlite3").mkdir(parents=True)
    for data, wrong in ((file, file), (file / "data", file), (folder, folder / "board.sqlite3")):
        found = diagnose(data)
        assert [*found] == ["data-misplaced"]
        assert found["data-misplaced"]["facts"]["path"] == str(wrong)


def test_an_empty_file_on_which_a_server_starts_is_no_file_of_another_program(tmp_path: Path) -> None:
    (tmp_path / "board.sqlite3").touch(0o600)
    tmp_path.chmod(0o700)
    assert {name: one["severity"] for name, one in diagnose(tmp_path).items()} == {
        "database-empty": "warning"
    }
    posted = CliRunner().invoke(cli, ["post", "there", "--agent", "ann", "--data", str(tmp_path)])
    assert posted.exit_code == 0, posted.output
    assert "database-empty" not in diagnose(tmp_path)


def test_what_moves_a_terminal_is_printed_as_escapes(tmp_path: Path) -> None:
    folder = tmp_path / "a\x1b[31m\u202eb"
    told = CliRunner().invoke(cli, ["doctor", "--data", str(folder)]).output
    assert ("\x1b" in told, "\u202e" in told, "[31m" in told) == (False, False, True)


def test_a_folder_that_is_not_there_yet_is_not_made(tmp_path: Path) -> None:
    assert diagnose(tmp_path / "none") == {}
    assert not (tmp_path / "none").exists()


def test_it_looks_while_servers_work_and_changes_nothing(data: Path) -> None:
    words = command("serve", "--transport", "stdio", "--data", str(data))
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment()
    )
    assert process.stdin is not None
    try:
        until(
            lambda: (data / "board.sqlite3.peers").exists() and any((data / "board.sqlite3.peers").iterdir())
        )
        assert diagnose(data) == {}
        # The server's locks are as they were: nobody else may take the file for itself.
        raw = sqlite3.connect(data / "board.sqlite3", timeout=0)
        with contextlib.closing(raw):
            raw.execute("PRAGMA locking_mode=EXCLUSIVE")
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                raw.execute("PRAGMA journal_mode=DELETE")
    finally:
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


def test_a_wrong_setting_is_found(data: Path, tmp_path: Path) -> None:
    config = tmp_path / "x.toml"
    config.write_text("prot = 8")
    assert "prot" in diagnose(data, "--config", str(config))["settings-wrong"]["message"]
    config.write_text("port = 8420")
    assert diagnose(data, "--config", str(config)) == {}


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ('tokenizer = "nowhere:Words"', "Tokenizer 'nowhere:Words'"),
        ('policy = ["old=nowhere:Old"]', "Policy 'old'"),
        ('validator = ["size=nowhere:Size"]', "Validator 'size'"),
        ('protocol = ["nowhere:Talk"]', "protocol nowhere:Talk"),
        ('strategy = ["next=nowhere:Next"]', "Strategy 'next'"),
        ('[[access]]\nname = "own"\nclass = "nowhere:Own"', "Access policy 'own'"),
        ('archive = "nowhere:Index"', "archive 'nowhere:Index'"),
        ('store = "nowhere:Store"', "store 'nowhere:Store'"),
    ],
)
def test_a_class_that_a_server_cannot_start_with_is_found(
    data: Path, tmp_path: Path, setting: str, named: str
) -> None:
    config = tmp_path / "x.toml"
    config.write_text(setting)
    wrong = diagnose(data, "--quick", "--config", str(config))["settings-wrong"]
    assert f"{named}: importing 'nowhere' failed" in wrong["message"]


# Programs


def test_an_old_sqlite_is_found(data: Path) -> None:
    code = "import sys; sys.modules['pysqlite3'] = None; from blackboard_mcp.server.cli import main; main()"
    old = not driver.resets_wal_safely(sqlite3.sqlite_version_info)
    done = subprocess.run(
        [sys.executable, "-c", code, "doctor", "--quick", "--data", str(data)],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert ("warning sqlite-old" in done.stdout) is old
    assert done.returncode == int(old)


def test_an_archive_without_lancedb_is_noted_and_nothing_wrong(data: Path) -> None:
    code = "import sys; sys.modules['lancedb'] = None; from blackboard_mcp.server.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "doctor", "--quick", "--data", str(data)],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert "note archive-by-words: LanceDB is not installed: SQLite searches the archive" in done.stdout
    assert "nothing is wrong" in done.stdout
    assert done.returncode == 0


def test_a_package_of_another_version_is_found(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = programs.version
    monkeypatch.setattr(programs, "version", lambda name: "1.0" if name == "mcp" else there(name))
    found = diagnose(data, "--quick")["package-wrong"]
    assert found["facts"]["package"] == "mcp"
    assert found["facts"]["found"] == "1.0"
    monkeypatch.undo()
    assert diagnose(data, "--quick") == {}


def test_a_missing_counter_of_tokens_is_found(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def there(name: str) -> str:
        if name == "tiktoken":
            raise PackageNotFoundError
        return version(name)

    monkeypatch.setitem(sys.modules, "tiktoken", None)
    monkeypatch.setattr(programs, "version", there)
    load_tokenizer.cache_clear()
    found = diagnose(data, "--quick")
    assert found.keys() == {"package-wrong"}
    assert found["package-wrong"]["facts"]["package"] == "tiktoken"


def test_a_low_limit_of_open_files_is_found(data: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    try:
        assert diagnose(data, "--quick")["open-files-low"]["facts"] == {"limit": 512}
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1_024), hard))
    assert diagnose(data, "--quick") == {}
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# The data folder


@pytest.mark.parametrize(("name", "mode", "right"), [(".", 0o755, 0o700), ("board.sqlite3", 0o644, 0o600)])
def test_data_that_others_may_read_is_found(data: Path, name: str, mode: int, right: int) -> None:
    data = Path(shutil.move(data, data.with_name("my data")))
    (data / name).chmod(mode)
    found = diagnose(data, "--quick")["data-not-private"]
    assert found["facts"]["mode"] == f"{mode:o}"
    assert found["cure"] == f"chmod {right:o} '{data / name}'"
    (data / name).chmod(right)
    assert diagnose(data, "--quick") == {}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_data_that_may_not_be_written_is_found(data: Path) -> None:
    (data / "board.sqlite3").chmod(0o400)
    assert "data-not-writable" in diagnose(data, "--quick")
    (data / "board.sqlite3").chmod(0o600)
    assert diagnose(data, "--quick") == {}


def test_data_on_a_read_only_file_system_is_found_and_named_by_commands(data: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "16M") as disk:
        there = Path(shutil.copytree(data, disk / "data"))
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        found = diagnose(there, "--quick")["data-not-writable"]
        assert "read-only file system" in found["message"]
        assert "chown" not in found["cure"]
        with pytest.raises(StoreError, match="read-only file system"):
            CliRunner().invoke(cli, ["show", "--data", str(there)], catch_exceptions=False)
    assert diagnose(data, "--quick") == {}


def test_whole_boards_are_not_to_be_replaced_where_the_copy_of_them_has_no_room(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "disk", "300k") as disk:
        monkeypatch.setattr(tempfile, "tempdir", str(disk))
        found = diagnose(data)
    assert "no room" in found["database-unreadable"]["message"]
    assert "restore" not in found["database-unreadable"]["cure"]
    assert "TMPDIR" in found["database-unreadable"]["cure"]


def test_data_that_may_not_be_looked_into_is_found_and_named_by_other_commands(data: Path) -> None:
    data.chmod(0)
    if os.access(data, os.X_OK):
        pytest.skip("root may look into everything")
    for given, variables in ((["--data", str(data)], {}), ([], {"BLACKBOARD_DATA": str(data)})):
        done = CliRunner().invoke(cli, ["doctor", "--json", *given], env=variables)
        assert [found["name"] for found in json.loads(done.output)["findings"]] == ["data-not-writable"]
        assert done.exit_code == 2
    for words in (["show"], ["token", "list"], ["migrate"], ["export"], ["serve"]):
        with pytest.raises(StoreError, match="may not be looked into by this user"):
            CliRunner().invoke(cli, words, env={"BLACKBOARD_DATA": str(data)}, catch_exceptions=False)
    client = data.parent / "claude.json"
    client.write_text("{}")
    install = ["install", "claude-code", "--file", str(client), "--url", "http://127.0.0.1:8420/mcp"]
    for words in (["migrate", "--print", "0", "49"], [*install, "--dry-run"]):  # these need no folder
        assert CliRunner().invoke(cli, words, env={"BLACKBOARD_DATA": str(data)}).exit_code == 0
    data.chmod(0o700)
    assert diagnose(data, "--quick") == {}


def test_a_file_system_of_several_machines_is_found(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "file_system", lambda *_: "nfs4")
    assert diagnose(data, "--quick")["file-system-shared"]["facts"] == {"kind": "nfs4"}
    monkeypatch.undo()
    assert diagnose(data, "--quick") == {}


def test_a_disk_that_is_full_or_nearly_is_found(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        done = CliRunner().invoke(cli, ["doctor", "--quick", "--data", str(data)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "problem storage-full" in done.stdout
    from blackboard_mcp.server.doctor import folder

    monkeypatch.setattr(folder, "LOW_BYTES", 1 << 60)
    assert diagnose(data, "--quick")["storage-low"]["severity"] == "warning"
    monkeypatch.setattr(folder.free_space, "kept_free", lambda total, wanted: wanted << 30)
    assert diagnose(data, "--quick")["storage-low"]["severity"] == "problem"
    monkeypatch.undo()
    assert diagnose(data, "--quick") == {}


def test_owners_and_boards_that_keep_nearly_what_they_may_are_found(data: Path) -> None:
    with changed(
        data,
        "UPDATE stored SET bytes = 19000000000 WHERE agent = ''",
        "INSERT INTO stored(board, agent, bytes) SELECT no, 'bot', 4900000000 FROM board WHERE id = 'main'",
        "INSERT INTO principal(agent, owner) VALUES ('bot', 'mallory')",
    ):
        found = diagnose(data, "--quick")["bytes-nearly-used"]
        assert found["facts"]["all"] == [
            "main (everybody): 19000000000 of 20000000000",
            "main mallory: 4900000000 of 5000000000",
        ]
    assert diagnose(data, "--quick") == {}


def test_boards_of_the_retention_that_are_not_there_are_found(data: Path, tmp_path: Path) -> None:
    config = tmp_path / "kept.toml"
    table = "[retention]\ndecided_by = 'Ada'\nreason = 'enough'\nboards = ['main', 'mian']\nafter_days = { LOG = 30 }\n"
    config.write_text(table)
    found = diagnose(data, "--quick", "--config", str(config))["retention-boards-missing"]
    assert (found["severity"], found["facts"]["missing"]) == ("warning", ["mian"])
    assert "There are: main." in found["cure"]
    config.write_text(table.replace(", 'mian'", ""))
    assert diagnose(data, "--quick", "--config", str(config)) == {}


DAY = timedelta(days=1)


@pytest.fixture
def aged(data: Path) -> Path:
    """The folder ten days old: half of the bytes were written within the last week, a tenth of those by bob."""
    now = datetime.now(UTC)
    old, recent = (round((now - days * DAY).timestamp() * 1e6) for days in (10, 3))
    counted = (
        "length(CAST(text AS BLOB)) + length(CAST(tags AS BLOB)) + length(CAST(metadata AS BLOB)) + 1000"
    )
    alter(
        data,
        f"UPDATE item SET created_at = {old}, written_at = {old}",  # noqa: S608 - of ours
        f"UPDATE item_version SET written_at = {old}",  # noqa: S608 - of ours
        f"UPDATE item SET written_at = {recent} WHERE number <= 30",  # noqa: S608 - of ours
        "UPDATE item SET written_by = 'bob' WHERE number <= 3",
        "UPDATE stored SET bytes = "  # noqa: S608 - of ours
        f"(SELECT 2 * sum({counted}) FROM item WHERE number <= 30) WHERE agent = ''",
    )
    return data


def test_the_growth_of_a_folder_is_told_with_who_wrote_most_and_when_posts_stop(
    aged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from blackboard_mcp.server.usecases import growth

    def grown() -> dict[str, Any]:
        done = CliRunner().invoke(cli, ["doctor", "--json", "--data", str(aged)])
        told: dict[str, Any] = json.loads(done.stdout)["growth"]
        return told

    told = grown()
    index = sum(len(content) for content in contents(aged / "archive.lance").values())
    assert told["days"] == 7
    assert told["database_bytes"] == pytest.approx((aged / "board.sqlite3").stat().st_size / 14, abs=1)
    assert told["index_bytes"] == pytest.approx(index / 14, abs=1)
    writers = [(writer["board"], writer["agent"]) for writer in told["writers"]]
    assert writers == [("main", "ada"), ("main", "bob")]
    assert told["writers"][1]["share"] == pytest.approx(0.1, abs=0.01)
    a_day = told["database_bytes"] + told["index_bytes"]

    class Disk(NamedTuple):
        total: int
        used: int
        free: int

    def left(free: int) -> None:
        monkeypatch.setattr(growth.shutil, "disk_usage", lambda folder: Disk(0, 0, free))

    left(100 * a_day)
    end = datetime.fromisoformat(grown()["stops_at"])
    assert abs(end - datetime.now(UTC) - 100 * DAY) < DAY
    assert "storage-filling" not in diagnose(aged)
    done = CliRunner().invoke(cli, ["doctor", "--data", str(aged)])
    assert f"ada on main 90%, bob on main 10%. {100 * a_day / 1e6:.1f} MB may still be written" in done.stdout
    assert f"posts stop on {end:%Y-%m-%d}." in done.stdout

    left(20 * a_day)
    found = diagnose(aged)["storage-filling"]
    assert found["severity"] == "warning"
    assert "storage-filling" not in diagnose(aged, "--quick")
    left(1 << 60)
    assert grown()["stops_at"] is None


def test_a_folder_of_today_and_one_at_rest_have_no_growth(data: Path) -> None:
    def line() -> str:
        return CliRunner().invoke(cli, ["doctor", "--data", str(data)]).stdout

    assert "growth" not in line()
    alter(data, f"UPDATE item SET created_at = created_at - {YEAR}, written_at = written_at - {YEAR}")  # noqa: S608 - of ours
    alter(data, f"UPDATE item_version SET written_at = written_at - {YEAR}")  # noqa: S608 - of ours
    assert "growth" not in line()
    alter(data, f"UPDATE item SET written_at = written_at + {YEAR} WHERE number = 1")  # noqa: S608 - of ours
    assert "growth" in line()


def test_a_long_log_is_found_and_emptied(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from blackboard_mcp.server.doctor import folder

    # The same library as the command's: two in one process would drop each other's locks.
    with contextlib.closing(driver.connect(str(data / "board.sqlite3"))) as raw:
        raw.execute("PRAGMA wal_autocheckpoint=0")
        raw.execute("UPDATE board SET title = title || ' '")
        log = data / "board.sqlite3-wal"
        monkeypatch.setattr(folder, "LARGE_LOG_BYTES", log.stat().st_size - 1)
        assert "log-large" in diagnose(data, "--quick")
        assert repaired(data) == ["emptied the write-ahead log"]
        assert log.stat().st_size == 0
        assert "log-large" not in diagnose(data, "--quick")


def test_what_dead_processes_left_is_found_and_removed(data: Path) -> None:
    peers = data / "board.sqlite3.peers"
    peers.mkdir()
    namespace = "".join(filter(str.isdecimal, os.readlink("/proc/self/ns/net")))
    (peers / f"4242-{1 << 22}-{namespace}").touch()
    fresh, old = data / "staging-fresh", data / "staging-old"
    fresh.mkdir()
    old.mkdir()
    (old / "copy.db").write_bytes(b"x")
    os.utime(old, (1, 1))
    assert len(diagnose(data, "--quick")["left-over-files"]["facts"]["names"]) == 2
    assert repaired(data) == ["removed 2 left-over files"]
    assert fresh.exists()
    assert not old.exists()
    assert diagnose(data, "--quick") == {}


# The boards


def test_a_damaged_file_is_found_and_a_backup_cures_it(data: Path, tmp_path: Path) -> None:
    database, backup = data / "board.sqlite3", tmp_path / "backup"
    shutil.copyfile(database, backup)
    raw = bytearray(database.read_bytes())
    for page in range(3, len(raw) // 4096, 7):
        raw[page * 4096 : page * 4096 + 64] = os.urandom(64)
    database.write_bytes(raw)
    assert "database-damaged" in diagnose(data)
    assert repaired(data) == []
    database.write_bytes(b"This is no database at all. " * 100)
    found = diagnose(data, "--quick")
    assert "database-damaged" in found
    assert "schema-older" not in found, "a start would not migrate it"
    done = CliRunner().invoke(cli, ["restore", "--force", "--data", str(data), str(backup)])
    assert done.exit_code in (0, 1)
    database.unlink()
    shutil.copyfile(backup, database)
    database.chmod(0o600)
    assert "database-damaged" not in diagnose(data)


def test_a_file_of_another_program_or_a_newer_or_older_one_is_found(data: Path) -> None:
    with changed(data, "PRAGMA application_id=1"):
        assert "database-foreign" in diagnose(data)
    with changed(data, "PRAGMA user_version=900"):
        assert diagnose(data)["schema-newer"]["facts"]["schema"] == 900
    with changed(data, "PRAGMA user_version=3"):
        assert diagnose(data, "--quick")["schema-older"]["facts"]["schema"] == 3
    assert diagnose(data) == {}


def test_each_of_several_boards_is_rebuilt_from_one_copy_of_the_file(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def more() -> None:
        store = await SqlBoardStore.open(data / "board.sqlite3")
        for name in ("north", "south"):
            await store.ensure_board(name, "ada", BoardConfig())
            await store.post(name, "ada", [draft("a pump leaks", "LOG")], config=BoardConfig())
        await store.close()

    asyncio.run(more())
    made = list[Path]()
    backup = SqliteEngine.backup

    async def counted(engine: SqliteEngine, target: Path) -> None:
        made.append(target)
        await backup(engine, target)

    monkeypatch.setattr(SqliteEngine, "backup", counted)
    alter(data, "UPDATE board SET working_tokens = working_tokens + 1 WHERE id <> 'north'")
    found = CliRunner().invoke(cli, ["doctor", "--json", "--data", str(data)]).stdout
    assert [told["facts"]["board"] for told in json.loads(found)["findings"]] == ["main", "south"]
    assert len(made) == 1


@pytest.mark.parametrize(
    ("name", "statements"),
    [
        ("references-dangling", ["DELETE FROM item WHERE number = 3"]),
        ("text-altered", ["UPDATE item SET text = 'pump 9 is fine' WHERE number = 30"]),
        ("text-altered", ["UPDATE item_version SET text = 'a: four'"]),
        ("history-gap", ["DELETE FROM event WHERE seq = 17"]),
        ("history-differs", ["UPDATE board SET working_tokens = working_tokens + 1"]),
        ("clock-behind", ["UPDATE event SET at = at + 31536000000000"]),
    ],
    ids=["reference", "text", "former text", "event", "figure", "clock"],
)
def test_what_is_wrong_inside_is_found(data: Path, name: str, statements: list[str]) -> None:
    with changed(data, *statements):
        found = diagnose(data)
        assert name in found, list(found)
        assert repaired(data) == [], "the truth is nobody's to repair"
    assert name not in diagnose(data)


def test_a_lease_from_a_clock_that_was_ahead_is_found_and_freed(data: Path) -> None:
    until = time.time_ns() // 1_000
    for name, at in (("prune:main", until + YEAR), ("short", until + 1)):
        alter(data, f"INSERT INTO lease VALUES ('{name}', 'gone', {at})")  # noqa: S608
    assert diagnose(data, "--quick")["lease-stuck"]["facts"] == {"leases": ["prune:main"]}
    assert repaired(data) == ["freed 1 leases"]
    assert diagnose(data, "--quick") == {}


async def test_what_was_indexed_while_the_clock_was_ahead_is_no_lease(data: Path) -> None:
    alter(data, "INSERT INTO outbox VALUES (99, 1, 1)")
    clock = HandClock(datetime.now(UTC) + timedelta(days=365))
    store = await SqlBoardStore.open(data / "board.sqlite3", clock=clock)
    await store.outbox_fed([99], "one")
    await store.close()
    assert await asyncio.to_thread(diagnose, data, "--quick") == {}


def test_a_damaged_log_is_found(data: Path) -> None:
    code = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "c.execute('PRAGMA wal_autocheckpoint=0')\n"
        "for n in range(6): c.execute('UPDATE board SET title = ?', (f'title {n}',))\n"
        "os._exit(0)"
    )
    database, log = data / "board.sqlite3", data / "board.sqlite3-wal"
    subprocess.run([sys.executable, "-c", code, str(database)], check=True)
    assert diagnose(data, "--quick") == {}
    raw = bytearray(log.read_bytes())
    for at, lost in ((len(raw) // 2, 3), (20, 6)):
        raw[at] ^= 4
        log.write_bytes(raw)
        found = diagnose(data, "--quick")["log-damaged"]
        assert found["facts"]["lost_commits"] in (lost, lost + 1)
        raw[at] ^= 4
    log.write_bytes(raw)
    assert diagnose(data, "--quick") == {}


# The index


def test_an_index_that_lacks_something_is_found_and_built_anew(data: Path) -> None:
    shutil.rmtree(data / "archive.lance")
    assert diagnose(data)["index-incomplete"]["facts"] == {"lacking": 20}
    assert repaired(data) == ["built the archive's index anew: 20 items"]
    assert diagnose(data) == {}


def test_an_index_that_cannot_be_read_is_found_and_built_anew(data: Path) -> None:
    for file in (data / "archive.lance").rglob("*.manifest"):
        file.write_bytes(b"no manifest")
    assert "index-unreadable" in diagnose(data)
    assert repaired(data) == ["built the archive's index anew: 20 items"]
    assert diagnose(data) == {}


def test_the_index_of_an_older_version_is_nothing_to_repair(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = rows.SCHEMA_VERSION + 1
    monkeypatch.setattr(rows, "SCHEMA_VERSION", newer)
    found = diagnose(data)
    assert list(found) == ["index-older"]
    told = found["index-older"]
    assert f"has layout {newer - 1}, this version needs {newer}" in told["message"]
    assert (told["severity"], told["cure"]) == (
        "warning",
        "A server of this version builds it anew from the boards when it starts.",
    )


def test_what_waits_for_long_for_the_index_is_found_and_brought_there(data: Path) -> None:
    alter(
        data,
        "INSERT INTO outbox(board, number) VALUES (1, 3)",
        "UPDATE event SET at = at - 31536000000000 WHERE item = 3",
    )
    assert "outbox-waiting" in diagnose(data, "--quick")
    assert repaired(data) == ["brought the archive's index up to date"]
    assert "outbox-waiting" not in diagnose(data, "--quick")


# The network


@contextmanager
def listening(answer: bytes | None) -> Iterator[int]:
    """Somebody on a port who gives everybody that answer, or none."""
    server = socket.create_server(("127.0.0.1", free_port()))
    done = threading.Event()

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection:
                    if answer is None:
                        done.wait(PATIENCE)
                    else:
                        connection.recv(10_000)
                        connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        done.set()
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()


def test_a_port_that_another_program_has_is_found_with_its_name(data: Path) -> None:
    with listening(b"HTTP/1.1 404 Not Found\r\n\r\n") as port:
        found = diagnose(data, "--quick", "--transport", "http", "--port", str(port))["port-taken"]
        assert f"(process {os.getpid()})" in found["message"]
    assert diagnose(data, "--quick", "--transport", "http", "--port", str(port)) == {}


def test_a_server_that_takes_no_posts_is_found(data: Path) -> None:
    with listening(b'HTTP/1.1 200 OK\r\n\r\n{"status":"low"}') as port:
        found = diagnose(data, "--quick", "--transport", "http", "--port", str(port))
        assert found["server-not-posting"]["facts"] == {"health": "low"}


@pytest.mark.parametrize("health", ["full", "stopped"])
def test_a_server_that_only_reads_is_found(data: Path, health: str) -> None:
    answer = b'HTTP/1.1 200 OK\r\n\r\n{"status":"%s"}'
    with listening(answer % health.encode()) as port:
        found = diagnose(data, "--quick", "--transport", "http", "--port", str(port))
        assert found["server-not-writing"]["facts"] == {"health": health}
    with listening(answer % b"failing") as port:
        found = diagnose(data, "--quick", "--transport", "http", "--port", str(port))
        assert found["server-not-ready"]["facts"] == {"health": "failing"}
    with listening(answer % b"ok") as port:
        assert diagnose(data, "--quick", "--transport", "http", "--port", str(port)) == {}


def test_endpoints_that_are_away_or_hang_are_found(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from blackboard_mcp.server.doctor import network

    monkeypatch.setattr(network, "PATIENCE", 0.3)
    monkeypatch.delenv("BLACKBOARD_EMBEDDER")
    config = tmp_path / "x.toml"
    names = {"summary-endpoint-silent", "embedding-endpoint-silent"}

    def told(port: int) -> dict[str, dict[str, Any]]:
        config.write_text(
            f'summariser = "openai"\nsummary_url = "http://127.0.0.1:{port}/v1"\nsummary_model = "m"\n'
            f'embedder = "openai"\nembedding_url = "http://127.0.0.1:{port}/v1"\nembedding_model = "m"\n'
            'capture = "model"\n'
        )
        return diagnose(data, "--quick", "--config", str(config))

    with listening(None) as port:
        found = told(port)
        assert set(found) == names
        assert "did not answer within" in found["summary-endpoint-silent"]["message"]
        assert "patterns alone propose rules from messages" in found["summary-endpoint-silent"]["cure"]
    found = told(port)
    assert set(found) == names
    assert "cannot be reached" in found["embedding-endpoint-silent"]["message"]
    monkeypatch.setattr(network, "PATIENCE", PATIENCE)
    with listening(b"HTTP/1.1 200 OK\r\n\r\n{}") as port:
        assert told(port) == {}
    config.write_text('capture = "model"\n')
    found = diagnose(data, "--quick", "--config", str(config))
    assert set(found) == {"endpoint-settings"}
    assert "capture model needs summariser openai or ollama" in found["endpoint-settings"]["message"]


# What others reach


def test_what_an_address_beyond_this_machine_lacks_is_found(data: Path, tmp_path: Path) -> None:
    reach = ("--quick", "--transport", "http", "--host", "192.0.2.1", "--port", "0")
    found = diagnose(data, *reach)
    assert set(found) == {"exposure-refused", "tokens-missing"}
    assert "--allowed-hosts" in found["exposure-refused"]["message"]
    made = CliRunner().invoke(cli, ["token", "create", "--data", str(data), "--agent", "ada"])
    assert made.exit_code == 0, made.output
    assert set(diagnose(data, *reach)) == {"exposure-refused"}
    config = tmp_path / "x.toml"
    config.write_text('allowed_hosts = ["board.example.com"]\nbehind_proxy = ["10.0.0.5"]\n')
    assert diagnose(data, *reach, "--config", str(config)) == {}


def test_certificates_that_are_wrong_or_end_are_found(data: Path, tmp_path: Path) -> None:
    authority = trustme.CA()
    cert, key, config = tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "x.toml"
    config.write_text(f'tls_cert = "{cert}"\ntls_key = "{key}"\n')

    def told() -> set[str]:
        return set(diagnose(data, "--quick", "--config", str(config)))

    def issue(days: int) -> None:
        made = authority.issue_cert("localhost", not_after=datetime.now(UTC) + timedelta(days=days))
        made.cert_chain_pems[0].write_to_path(cert)
        key.unlink(missing_ok=True)
        made.private_key_pem.write_to_path(key)
        key.chmod(0o600)

    assert told() == {"tls-wrong"}
    issue(-1)
    assert told() == {"tls-expired"}
    issue(3)
    assert told() == {"tls-expiring"}
    issue(100)
    assert told() == set()
    key.write_text("no key")
    assert told() == {"tls-wrong"}
