"""A folder that a newer version of the product takes over while an older one still serves it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from injecting import Poster, Server, health, wires


def raised(folder: Path) -> None:
    """What a newer version does first: its migrations, and the number that says so."""
    with closing(sqlite3.connect(folder / "board.sqlite3", isolation_level=None)) as connection:
        ((version,),) = connection.execute("PRAGMA user_version").fetchall()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE TABLE of_a_newer_version(a)")
        connection.execute(f"PRAGMA user_version = {version + 1}")
        connection.execute("COMMIT")


def lowered(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "board.sqlite3")) as connection:
        ((version,),) = connection.execute("PRAGMA user_version").fetchall()
        connection.execute("DROP TABLE of_a_newer_version")
        connection.execute(f"PRAGMA user_version = {version - 1}")


def refusal(wire: Any, tool: str, arguments: str = "{}") -> dict[str, Any]:
    message = wires.call(wire, tool, arguments).message
    assert message is not None
    assert message["result"]["isError"], message
    found: dict[str, Any] = message["result"]["structuredContent"]
    return found


def test_an_older_server_writes_and_reads_no_more_once_a_newer_version_has_the_folder(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", tmp_path / "log")
    server.start()
    try:
        poster = Poster()
        for _ in range(3):
            assert poster.post(server.wire) is None
        raised(server.data)
        said = poster.post(server.wire)
        assert said is not None
        for told in (said, refusal(server.wire, "read"), refusal(server.wire, "wait", '{"seconds": 20}')):
            assert told["error"] == "too_new", told
            assert "newer" in told["message"]
            assert str(tmp_path) not in told["message"]
        assert health(server.url)[0] == 503
        assert server.stop() == 0
        with_reason = ""
        try:
            server.start()
        except RuntimeError as error:
            with_reason = str(error)
        assert "newer" in with_reason
        assert "Traceback" not in with_reason
        # The older version again, on what the newer one left as it was: nothing was lost, nothing came twice.
        lowered(server.data)
        server.start()
        assert poster.post(server.wire) is None
        poster.check(server.wire)
        assert "Traceback" not in server.said()
    finally:
        server.abandon()
