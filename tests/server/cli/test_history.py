"""`export`, `import`, `verify`, `backup` and `restore`, each as an operator runs it: beside servers, on files."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.errors import StoreBusy
from blackboard_mcp.server.demo.process import command, environment, http_clients, http_server
from blackboard_mcp.server.demo.replay import ToolFailed, call
from blackboard_mcp.storage.history import lines
from blackboard_mcp.storage.sqlite import restoring
from blackboard_mcp.storage.sqlite.opening import APPLICATION_ID, migrations
from mcp.client import Client

Done = subprocess.CompletedProcess[bytes]


def run(*words: str | Path, stdin: bytes = b"") -> Done:
    return subprocess.run(
        command(*map(str, words)),
        input=stdin,
        capture_output=True,
        timeout=120,
        env=environment(),
        check=False,
    )


def said(*words: str | Path, stdin: bytes = b"") -> bytes:
    """What a command prints, which must succeed."""
    done = run(*words, stdin=stdin)
    assert done.returncode == 0, done
    return done.stdout


def refused(*words: str | Path, stdin: bytes = b"") -> str:
    """What a command says that must fail, in one line."""
    done = run(*words, stdin=stdin)
    assert done.returncode == 1, done
    assert b"Traceback" not in done.stderr
    return done.stderr.decode()


def names(folder: Path) -> set[str]:
    """What lies in a data folder, without what open databases have beside them."""
    return {n for n in os.listdir(folder) if not n.endswith(("-wal", "-shm", ".peers"))}


@asynccontextmanager
async def serving(data: Path, *options: str) -> AsyncIterator[Client]:
    """A server on the folder, and alice connected to it."""
    async with http_server(data, *options) as server, http_clients(server.url)("alice") as client:
        yield client


async def fill(client: Client, posts: int = 12) -> None:
    for n in range(posts):
        await call(
            client, "post", text=f"The gauge {n} reads low.", type="LOG", key=f"gauge:{n % 5}", tags=["g"]
        )
    claim = await call(client, "post", text="The pump leaks.", type="HYPOTHESIS")
    id_ = claim["items"][0]["id"]
    await call(client, "post", text="Only for me.", visibility="private")
    await call(client, "post", text="It leaks, I saw it.", edges={"supports": [id_]})


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder that nobody serves."""
    data = tmp_path_factory.mktemp("filled") / "data"

    async def make() -> None:
        async with serving(data) as client:
            await fill(client)

    asyncio.run(make())
    return data


@pytest.fixture(scope="module")
def history(filled: Path) -> bytes:
    return said("export", "--data", filled)


async def test_a_board_goes_from_a_busy_server_into_another_and_comes_out_the_same(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    async with serving(tmp_path / "one") as one, serving(tmp_path / "two") as two:
        await fill(one)
        stop = asyncio.Event()

        async def post_on() -> int:
            count = 0
            while not stop.is_set():
                await call(one, "post", text=f"Meanwhile {count}.", type="LOG")
                count += 1
            return count

        posting = asyncio.create_task(post_on())
        done = await asyncio.to_thread(run, "export", "--data", tmp_path / "one", file)
        stop.set()
        assert done.returncode == 0, done
        assert b"private items" in done.stderr
        assert await posting > 0
        told = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        assert [line["seq"] for line in told] == [*range(1, len(told) + 1)]
        imported = await asyncio.to_thread(
            said, "import", "--data", tmp_path / "two", "--board", "copy", file
        )
        assert imported.decode().startswith(f"board copy: {len(told)} events, ")
        # The server that was there all the time serves it, and goes on where the file ends.
        answer = await call(two, "post", text="And on.", board="copy")
        end, restored = len(told), (await call(two, "read", since=len(told), board="copy"))["events"][0]
        assert (restored["event"], restored["data"]) == ("board.restored", {"after": end})
        assert answer["seq"] == restored["seq"] + 1 > end + 1_000_000
        (item,) = (await call(two, "read", ids=["1"], board="copy"))["items"]
        assert item["text"] == (await call(one, "read", ids=["1"]))["items"][0]["text"]
        verified = await asyncio.to_thread(said, "verify", "--data", tmp_path / "two", "--board", "copy")
    assert verified == b"board copy is what its history says\n"
    said("import", "--data", tmp_path / "three", file)
    assert said("export", "--data", tmp_path / "three") == file.read_bytes()


def test_a_file_does_not_say_how_full_a_board_is(history: bytes, tmp_path: Path) -> None:
    told = [json.loads(line) for line in history.splitlines()]
    for line in told:
        if "content" in line:
            line["content"]["tokens"] = 4_000_000
    told[-1]["end"]["sha256"] = ""
    body = b"".join(map(lines.write, told[:-1]))
    wrong = body + lines.seal(hashlib.sha256(body), lines.write(told[-1]))
    assert wrong != history
    done = run("import", "--data", tmp_path, "-", stdin=wrong)
    assert done.returncode == 0, done
    assert b" texts had other counts of tokens in the file; they were counted anew" in done.stderr
    assert said("export", "--data", tmp_path) == history


def test_the_file_is_its_owners_alone_whole_and_replaces_nothing_unasked(
    filled: Path, tmp_path: Path
) -> None:
    file = tmp_path / "history.jsonl"
    said("export", "--data", filled, file)
    assert file.stat().st_mode & 0o777 == 0o600
    before = file.read_bytes()
    assert "--force" in refused("export", "--data", filled, file)
    assert "--force" in refused("backup", "--data", filled, file)
    assert "it is a folder" in refused("export", "--data", filled, "--force", tmp_path)
    assert file.read_bytes() == before
    file.write_bytes(b"old")
    said("export", "--data", filled, "--force", file)
    assert file.read_bytes() == before == said("export", "--data", filled, "-")
    assert "there is no board 'none'" in refused(
        "export", "--data", filled, "--board", "none", tmp_path / "x"
    )
    assert "cannot write" in refused("export", "--data", filled, tmp_path / "no folder" / "x")
    assert os.listdir(tmp_path) == ["history.jsonl"]
    assert names(filled) <= {"board.sqlite3", "archive.lance"}


def test_a_public_copy_shows_nothing_private_and_says_that_it_is_none(
    filled: Path, history: bytes, tmp_path: Path
) -> None:
    public = said("export", "--data", filled, "--public")
    assert b"Only for me." in history
    assert b"Only for me." not in public
    assert json.loads(public.splitlines()[0])["complete"] is False
    assert "rebuilds no board" in refused("import", "--data", tmp_path, "-", stdin=public)


def test_a_wrong_file_is_refused_by_its_line_and_a_board_that_is_there_is_kept(
    filled: Path, history: bytes, tmp_path: Path
) -> None:
    assert refused("import", "--data", tmp_path, "-", stdin=history[:-50]).startswith(
        "blackboard-mcp: Line 16: the file ends"
    )
    assert "Line 5: not JSON" in refused(
        "import", "--data", tmp_path, "-", stdin=history.replace(b'{"seq":5', b"{seq:5")
    )
    assert "there are: none" in refused("show", "--data", tmp_path)
    assert "There is a board 'main' already" in refused("import", "--data", filled, "-", stdin=history)
    assert "is not a board id" in refused("import", "--data", tmp_path, "--board", "a b", "-", stdin=history)
    evil = history.replace(b'"board":"main"', b'"board":"../main"', 1)
    assert "is not a board id" in refused("import", "--data", tmp_path, "-", stdin=evil)
    for was, now, told in (
        (b'"target_tokens":6000', b'"target_tokens":-1', "target_tokens is a whole number"),
        (b'"validation":""', b'"validation":"[{]"', "validation is not JSON"),
        (b'"validation":""', b'"validation":"[{\\"max_bytes\\":0}]"', "max_bytes is a whole number"),
    ):
        assert was in history
        *before, last = history.replace(was, now).splitlines(keepends=True)
        line = json.loads(last)
        line["end"]["sha256"] = ""
        made = b"".join(before)
        made += lines.seal(hashlib.sha256(made), lines.write(line))
        message = refused("import", "--data", tmp_path, "-", stdin=made)
        assert "Line 16: " in message
        assert told in message
    assert "cannot read" in refused("import", "--data", tmp_path, tmp_path / "none")
    assert names(tmp_path) == {"board.sqlite3"}
    assert said("export", "--data", filled) == history


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_an_import_that_is_killed_leaves_no_board_and_can_be_done_again(
    history: bytes, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        command("import", "--data", str(tmp_path), "-"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdin is not None
    # It waits for the last line.
    process.stdin.write(b"".join(history.splitlines(keepends=True)[:-1]))
    process.stdin.flush()
    while not any(name.startswith("staging-") for name in os.listdir(tmp_path)):
        assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert "there are: none" in refused("show", "--data", tmp_path)
    assert said("import", "--data", tmp_path, "-", stdin=history).startswith(b"board main: ")
    assert said("export", "--data", tmp_path) == history


@pytest.mark.skipif(find_spec("wordllama") is None, reason="what is near by meaning takes the bundled model")
def test_what_was_archived_is_found_again_after_an_import(tmp_path: Path) -> None:
    said("demo", "newtons-method", "--data", tmp_path / "demo", "--target-tokens", "1500")
    history = said("export", "--data", tmp_path / "demo", "--board", "demo")
    said("import", "--data", tmp_path / "new", "-", stdin=history)
    said("rebuild-index", "--data", tmp_path / "new")
    for words in (("--limit", "100"), ("newton",)):
        there, here = (found(tmp_path / name, *words) for name in ("demo", "new"))
        assert there == here != []


def found(data: Path, *words: str) -> list[str]:
    """Ids of what a search of the archive finds, best first."""
    answer = json.loads(said("archive", "--json", "--data", data, "--board", "demo", *words))
    return [item["id"] for item in answer["items"]]


async def state_of(client: Client, task: str, *states: str) -> str:
    """The state of a task, once it is among these or over."""
    while True:
        seq = (await call(client, "read"))["seq"]
        state: str = (await call(client, "plan", why=task))["items"][0]["state"]
        if state in (*states, "COMPLETED", "FAULTED"):
            return state
        await call(client, "wait", since=seq, seconds=1)


async def test_beside_a_server_a_task_waits_until_the_board_below_is_imported_as_well(tmp_path: Path) -> None:
    files = {board: tmp_path / f"{board}.jsonl" for board in ("main", "low")}
    one, two = (serving(tmp_path / name, "--tools", "core,plan,admin") for name in ("one", "two"))
    async with one as client:
        await call(client, "plan", items=[{"title": "look", "board": "low", "retries": 1}])
        assert await state_of(client, "T-1", "WAITING") == "WAITING"
        await call(client, "post", text="I look.", board="low")
        for board, file in files.items():
            await asyncio.to_thread(said, "export", "--data", tmp_path / "one", "--board", board, file)
    async with two as client:
        await asyncio.to_thread(said, "import", "--data", tmp_path / "two", files["main"])
        # The server takes this task up after it has looked at the one that was imported.
        await call(client, "plan", items=[{"title": "see", "board": "other"}])
        assert await state_of(client, "T-2", "WAITING") == "WAITING"
        assert await state_of(client, "T-1", "WAITING") == "WAITING"
        await asyncio.to_thread(said, "import", "--data", tmp_path / "two", files["low"])
        await call(client, "post", text="Nine.", type="ANSWER", board="low")
        await call(client, "board", lifecycle="settled", board="low")
        assert await state_of(client, "T-1") == "COMPLETED"
        (task,) = (await call(client, "plan", why="T-1"))["items"]
        assert task["attempts"] == 1


async def test_a_backup_of_a_busy_server_is_whole_and_is_put_back_when_it_stopped(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "boards.backup"
    async with serving(data) as client:
        await fill(client)
        stop = asyncio.Event()
        acknowledged: list[str] = []

        async def post_on() -> None:
            while not stop.is_set():
                answer = await call(client, "post", text=f"Meanwhile {len(acknowledged)}.", type="LOG")
                acknowledged.append(answer["items"][0]["id"])

        posting = asyncio.create_task(post_on())
        done = await asyncio.to_thread(run, "backup", "--data", data, file)
        before = len(acknowledged)
        stop.set()
        await posting
        assert done.returncode == 0, done
        assert before > 0
        in_use = await asyncio.to_thread(refused, "restore", "--data", data, "--force", file)
        assert "A process has" in in_use
        assert "Nothing was changed." in in_use
        await call(client, "post", text="After the backup.")
    assert file.stat().st_mode & 0o777 == 0o600
    after = said("export", "--data", data)
    assert "--force" in refused("restore", "--data", data, file)
    assert said("export", "--data", data) == after
    kept = said("restore", "--data", data, "--force", file).decode().splitlines()[-1].split(" is in ")[-1]
    assert said("verify", "--data", data) == b"board main is what its history says\n"
    restored = said("export", "--data", data)
    assert b"After the backup." not in restored
    assert len(restored.splitlines()) < len(after.splitlines())
    # What was there is not lost.
    said("restore", "--data", tmp_path / "old", kept)
    assert said("export", "--data", tmp_path / "old") == after
    async with serving(data) as client:
        lost = len(after.splitlines())
        for _ in range(lost):
            on = await call(client, "post", text="And on.", type="LOG")
        assert on["seq"] > lost + 1_000_000
        with pytest.raises(ToolFailed, match="restored from a copy") as caught:
            await call(client, "wait", since=lost, seconds=0)
        end = len(restored.splitlines())
        assert caught.value.facts == {
            "error": "cursor_expired",
            "cursor": lost,
            "seq": on["seq"],
            "restored_after": end,
        }
    again = said("export", "--data", data)
    assert again.splitlines()[: end - 1] == restored.splitlines()[:-1]
    assert said("verify", "--data", data) == b"board main is what its history says\n"
    said("import", "--data", tmp_path / "again", "-", stdin=again)
    assert said("export", "--data", tmp_path / "again") == again


def test_what_a_lost_file_left_is_not_played_into_a_backup(
    filled: Path, history: bytes, tmp_path: Path
) -> None:
    said("backup", "--data", filled, tmp_path / "good")
    data = tmp_path / "data"
    said("restore", "--data", data, tmp_path / "good")
    lost = sqlite3.connect(data / "board.sqlite3")
    lost.execute("PRAGMA journal_mode=WAL")
    lost.execute("PRAGMA wal_autocheckpoint=0")
    lost.execute("UPDATE item SET text = 'from the log'")
    lost.commit()
    log = (data / "board.sqlite3-wal").read_bytes()
    lost.close()
    (data / "board.sqlite3").unlink()
    (data / "board.sqlite3-wal").write_bytes(log)
    said("restore", "--data", data, tmp_path / "good")
    assert said("export", "--data", data) == history


def test_what_is_no_backup_is_refused_before_anything_is_touched(
    filled: Path, history: bytes, tmp_path: Path
) -> None:
    good = tmp_path / "good"
    said("backup", "--data", filled, good)
    text, other, damaged, newer, short = (
        tmp_path / n for n in ("text", "other", "damaged", "newer", "short")
    )
    text.write_bytes(b"no database at all\n" * 200)
    short.write_bytes(b"no")
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE theirs(n)")
    connection.close()
    newer.write_bytes(good.read_bytes())
    with sqlite3.connect(newer) as connection:
        connection.execute("PRAGMA user_version = 9999")
    connection.close()
    exported = tmp_path / "exported.jsonl"
    exported.write_bytes(history)
    assert f"`blackboard-mcp import {exported}`" in refused("restore", "--data", filled, "--force", exported)
    body = bytearray(good.read_bytes())
    for place in range(3 * 4096, 6 * 4096):
        body[place] ^= 0xFF
    damaged.write_bytes(body)
    for file, told in (
        (text, "not a database"),
        (other, "another program"),
        (damaged, "damaged"),
        (newer, "schema 9999"),
        (short, "not a database"),
    ):
        message = refused("restore", "--data", filled, "--force", file)
        assert told in message, message
        assert "restore" in message or "Nothing was changed" in message or "nothing was changed" in message
        assert refused("restore", "--data", tmp_path / "new", file)
    assert said("export", "--data", filled) == history
    assert {n for n in names(filled) if "restoring" in n or "before" in n} == set()
    assert not (tmp_path / "new" / "board.sqlite3").exists()


def test_a_token_that_is_revoked_while_a_backup_is_put_back_stays_revoked(
    filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, backup = tmp_path / "data", tmp_path / "backup"
    said("backup", "--data", filled, backup)
    said("restore", "--data", data, backup)
    said("token", "create", "--data", data, "--agent", "mallory")
    token = said("token", "list", "--data", data).decode().splitlines()[-1].split()[0]
    honest = restoring._copy

    def slow(*given: Any) -> None:
        honest(*given)
        said("token", "revoke", "--data", data, token)

    monkeypatch.setattr(restoring, "_copy", slow)
    aside = tmp_path / "aside"
    given = (backup, data / "board.sqlite3", aside)
    with pytest.raises(StoreBusy, match="restore again"):
        restoring.restore(*given, application_id=APPLICATION_ID, newest=len(migrations()))
    assert not aside.exists()
    assert b"revoked" in said("token", "list", "--data", data)
    monkeypatch.setattr(restoring, "_copy", honest)
    assert restoring.restore(*given, application_id=APPLICATION_ID, newest=len(migrations()))


def test_compact_removes_what_killed_commands_left(filled: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    said("backup", "--data", filled, tmp_path / "backup")
    said("restore", "--data", data, tmp_path / "backup")
    (data / "staging-x").mkdir()
    for left in (
        "staging-x/copy.db",
        "board.sqlite3.0a1b2c3d.restoring",
        "board.sqlite3.0a1b2c3d.restoring-wal",
    ):
        (data / left).write_text("what was forgotten")
    said("compact", "--data", data)
    assert not any(b"what was forgotten" in path.read_bytes() for path in data.rglob("*") if path.is_file())
    assert not (data / "staging-x").exists()


@pytest.mark.parametrize("size", [0, 50_000])
def test_a_backup_is_put_in_the_place_of_a_damaged_file(filled: Path, tmp_path: Path, size: int) -> None:
    data, backup = tmp_path / "data", tmp_path / "backup"
    said("backup", "--data", filled, backup)
    data.mkdir(mode=0o700)
    (data / "board.sqlite3").write_bytes(b"\0" * 100 + backup.read_bytes()[100:size])
    (data / "board.sqlite3-wal").write_bytes(b"left")
    said("restore", "--force", "--data", data, backup)
    assert not (data / "board.sqlite3-wal").exists() or (data / "board.sqlite3-wal").read_bytes() != b"left"
    assert said("verify", "--data", data)


def test_a_backup_that_cannot_be_written_is_told_by_its_own_name(filled: Path, tmp_path: Path) -> None:
    file = tmp_path / "nowhere" / "saved"
    message = refused("backup", "--data", filled, file)
    assert str(file) in message
    assert ".saved." not in message
