"""A disk without room under a server that works: posts are refused, reading goes on, and room is all it takes."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.storage.lance.index import NO_MODEL
from injecting import Poster, Server, health, tool, wires
from patience import PATIENCE, until
from ports import free_port
from small_disk import fill, small_disk

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="tmpfs and prlimit are of Linux")


def leave(folder: Path, free: int) -> None:
    """Has a file take what room there is but for so many bytes."""
    filler = folder / "filler"
    filler.touch()
    size = filler.stat().st_size + shutil.disk_usage(folder).free - free
    with filler.open("r+b") as out:
        out.truncate(size)
        os.posix_fallocate(out.fileno(), 0, size)


def unwatched(folder: Path) -> tuple[str, str]:
    """Options with which nobody looks at the room on the disk: the disk itself refuses."""
    config = folder / "unwatched.toml"
    config.write_text("[limits]\nfree_bytes = 0\n")
    return "--config", str(config)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "24m") as folder:
        yield folder


@contextmanager
def running(server: Server) -> Iterator[Server]:
    server.start()
    try:
        yield server
    finally:
        server.abandon()


def searched_by_the_index(wire: Any) -> bool:
    found = tool(wire, "query_archive", text="which pump leaks")
    return bool(found["items"]) and found["notice"] in ("", NO_MODEL)


def archived(server: Server) -> None:
    """A board that has an archive in its index."""
    items = [{"text": f"pump {n} leaks at the seal " + "and so on " * 30, "type": "LOG"} for n in range(30)]
    bob = wires.HttpWire(server.url, server.pid, "bob", modern=True)
    tool(bob, "post", items=items)
    until(lambda: searched_by_the_index(bob), "the index does not learn of the archive")
    bob.close()


def test_posts_are_refused_on_a_full_disk_reads_go_on_and_room_is_enough(disk: Path, tmp_path: Path) -> None:
    options = ("--target-tokens", "600", *unwatched(tmp_path))
    with running(Server(disk / "data", tmp_path / "log", *options)) as server:
        archived(server)
        poster = Poster()
        assert poster.post(server.wire) is None
        for _ in range(2):
            filler = fill(disk)
            refused = None
            while refused is None:  # there may be room inside the files
                refused = poster.post(server.wire)
            assert refused["error"] == "full"
            assert "storage full" in refused["message"]
            assert "no restart is needed" in refused["message"]
            assert health(server.url) == (200, "full")
            assert poster.post(server.wire) is not None
            # Every way of reading.
            assert tool(server.wire, "read")
            assert tool(server.wire, "read", ids=[poster.journal[-1][0]])["items"]
            assert tool(server.wire, "query", text="ada")["items"]
            assert tool(server.wire, "query_archive", text="which pump leaks")["items"]
            assert tool(server.wire, "wait", since=0)["events"]
            filler.unlink()
            assert poster.post(server.wire) is None
            assert health(server.url) == (200, "ok")
        poster.check(server.wire)
        assert "Traceback" not in server.said()
        fill(disk)
        assert server.stop() == 0
        server.start()
        poster.check(server.wire)


def test_a_check_runs_on_a_small_disk_as_long_as_posts_are_taken_there(tmp_path: Path) -> None:
    config = tmp_path / "server.toml"
    config.write_text(f'[[check]]\nname = "tests"\nrun = ["{sys.executable}", "-c", ""]\n')
    options = ("--tools", "core,workspace", "--config", str(config))
    with (
        small_disk(tmp_path / "disk", "128m") as disk,
        running(Server(disk / "data", tmp_path / "log", *options)) as server,
    ):
        tool(server.wire, "artifact_write", path="a.txt", content="sound")
        results: list[dict[str, Any]] = []
        until(lambda: bool(results.extend(tool(server.wire, "query", type="RESULT")["items"]) or results))
        assert results[0]["text"].startswith("tests passed at rev 1"), results[0]["text"]


def test_before_the_disk_is_full_posts_are_refused_and_what_ends_work_is_taken(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "disk", "256m") as disk,
        running(Server(disk / "data", tmp_path / "log")) as server,
        closing(wires.HttpWire(server.url, server.pid, "bob", modern=True)) as bob,
    ):
        kept = (256 << 20) // 20
        poster = Poster()

        def refused_watch(claim: str) -> dict[str, Any] | None:
            """What a watch is told while the disk is all but full; None if the server's own files made room again."""
            leave(disk, kept // 8)
            message = wires.call(bob, "debate", f'{{"op": "watch", "id": "{claim}"}}').message
            told: dict[str, Any] = message["result"]["structuredContent"]
            return told if told.get("error") == "low" and "all but full" in told["message"] else None

        assert poster.post(server.wire) is None
        claims = [poster.journal[-1][0]]
        assert poster.post(server.wire) is None
        claims.append(poster.journal[-1][0])
        doubts = [
            tool(bob, "post", text=f"no: {claim}", type="CRITIQUE", edges={"critiques": [claim]})["items"][0][
                "id"
            ]
            for claim in claims
        ]
        for _ in range(2):
            leave(disk, kept // 2)
            until(lambda: health(server.url) == (200, "low"))
            refused = poster.post(server.wire)
            assert refused is not None
            assert refused["error"] == "low"
            assert "nearly full, so nothing new is taken. Nothing was changed." in refused["message"]
            assert str(disk) not in refused["message"]
            # What was begun is ended, and reading goes on.
            claim, doubt = claims.pop(), doubts.pop()
            words = {"text": f"it is so: {claim}", "type": "REPLY"}
            reply = tool(server.wire, "post", **words, edges={"replies_to": [doubt]})["items"][0]
            poster.journal.append((reply["id"], words["text"]))
            assert tool(bob, "debate", op="acknowledge", id=claim)
            assert tool(server.wire, "post", id=claim, status="RESOLVED")
            assert tool(server.wire, "read")
            told = until(partial(refused_watch, claim))
            assert "only reads. Nothing was changed." in told["message"]
            assert tool(server.wire, "read", ids=[claim])["items"]
            assert tool(server.wire, "query", text="ada")["items"]
            found = subprocess.run(
                wires.command("doctor", "--quick", "--data", str(server.data)),
                capture_output=True,
                text=True,
                env=wires.environment(),
                check=False,
            )
            assert found.returncode == 2
            assert "problem storage-low" in found.stdout
            # There is room again: it is all it takes.
            (disk / "filler").unlink()
            until(lambda: health(server.url) == (200, "ok"))
            assert poster.post(server.wire) is None
        poster.check(server.wire)
        said = server.said()
        assert said.count("what adds to the boards is refused") >= 2
        assert said.count("what agents write is refused") >= 2
        assert said.count("posts are taken again") >= 2
        assert f"{server.data} has" in said
        assert "Delete or move other files" in said
        assert "Traceback" not in said
        assert server.stop() == 0


def test_a_limit_on_the_size_of_files_is_a_full_disk(tmp_path: Path) -> None:
    with running(Server(tmp_path / "data", tmp_path / "log")) as server:
        poster = Poster(size=4_000)
        assert poster.post(server.wire) is None
        now = max(file.stat().st_size for file in server.data.iterdir())
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (now + 200_000, resource.RLIM_INFINITY))
        refused = None
        while refused is None:
            refused = poster.post(server.wire)
        assert refused["error"] == "full"
        assert "storage full" in refused["message"]
        # A small write of the server's own may still fit; then the next post is the next to find no room.
        until(lambda: health(server.url) == (200, "full") or (poster.post(server.wire), False)[1])
        poster.check(server.wire)
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, unlimited)
        assert poster.post(server.wire) is None
        poster.check(server.wire)
        assert not [file for file in server.data.iterdir() if file.name.endswith(".probe")]


def test_an_index_without_room_leaves_posts_and_search_by_words_and_catches_up(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    with small_disk(tmp_path / "data" / "archive.lance", "3m") as index:
        filler = fill(index)
        with running(Server(tmp_path / "data", tmp_path / "log", "--target-tokens", "600")) as server:
            items = [{"text": f"pump {n} leaks " + "and so on " * 30, "type": "LOG"} for n in range(30)]
            tool(server.wire, "post", items=items)
            until(lambda: tool(server.wire, "query_archive", text="which pump leaks")["items"])
            assert not list(index.glob("g-*/items.lance/data/*"))
            poster = Poster()
            assert poster.post(server.wire) is None
            assert health(server.url) == (200, "ok")
            filler.unlink()
            until(lambda: list(index.glob("g-*/items.lance/data/*")))
            assert tool(server.wire, "query_archive", text="which pump leaks")["items"]
            assert "Traceback" not in server.said()


def test_a_backup_or_an_export_without_room_says_so_and_leaves_nothing(disk: Path, tmp_path: Path) -> None:
    with running(Server(tmp_path / "data", tmp_path / "log")) as server:
        poster = Poster(size=100_000)
        for _ in range(3):
            assert poster.post(server.wire) is None
        fill(disk)
        for command in ("backup", "export"):
            words = wires.command(command, "--data", str(server.data), str(disk / command))
            done = subprocess.run(words, capture_output=True, text=True, env=wires.environment(), check=False)
            assert done.returncode == 1
            assert "Traceback" not in done.stderr
            assert "space" in done.stderr or "room" in done.stderr, done.stderr
            assert [file.name for file in disk.iterdir()] == ["filler"]
        assert poster.post(server.wire) is None


def test_a_log_without_room_changes_nothing_for_anybody(disk: Path, tmp_path: Path) -> None:
    fill(disk)
    port = free_port()
    words = wires.command(
        "serve", "--transport", "http", "--port", str(port), "--data", str(tmp_path / "data")
    )
    with (disk / "log").open("wb") as log:
        process = subprocess.Popen(
            [*words, "--log-level", "DEBUG"], stdin=subprocess.DEVNULL, stderr=log, env=wires.environment()
        )
    try:

        def up() -> bool:
            assert process.poll() is None
            with suppress(ConnectionError):
                return bool(health(f"http://127.0.0.1:{port}/mcp") == (200, "ok"))
            return False

        until(up)
        wire = wires.HttpWire(f"http://127.0.0.1:{port}/mcp", process.pid, "ada", modern=True)
        poster = Poster()
        for _ in range(3):
            assert poster.post(wire) is None
        poster.check(wire)
        wire.close()
        process.terminate()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
