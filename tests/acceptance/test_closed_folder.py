"""Access tokens guard a folder that nobody else on the machine can get at, and the log is not for strangers to fill."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from blackboard_mcp.server.cli.log_lines import AT_ONCE
from blackboard_mcp.server.demo.process import Serving, command, environment
from patience import PATIENCE, RUN

Start = Callable[..., Serving]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX's")


def run(*words: str, mask: int = 0o077) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=RUN,
        check=False,
        stdin=subprocess.DEVNULL,
        umask=mask,
    )


def token(data: Path) -> str:
    made = run("token", "create", "--agent", "ada", "--data", str(data))
    assert made.returncode == 0, made
    return made.stdout.strip()


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_with_tokens_a_folder_that_others_can_reach_is_refused_naming_the_chmod(
    tmp_path: Path, start: Start, mode: int
) -> None:
    data = tmp_path / "the data"
    token(data)
    data.chmod(mode)
    serve = ("serve", "--transport", "http", "--port", "0", "--data", str(data))
    refused = run(*serve)
    assert refused.returncode == 1, refused
    assert f"has mode {mode:o}" in refused.stderr
    assert f"chmod 700 '{data}'" in refused.stderr
    assert "--allow-open-folder" in refused.stderr
    start(data, "--allow-open-folder")
    data.chmod(0o700)
    start(data)


def test_without_tokens_an_open_folder_is_served(tmp_path: Path, start: Start) -> None:
    tmp_path.chmod(0o755)
    start(tmp_path)


def test_whatever_the_umask_all_that_is_made_in_a_folder_is_its_owners_alone(tmp_path: Path) -> None:
    data = tmp_path / "open"
    data.mkdir()
    data.chmod(0o777)
    done = run("demo", "newtons-method", "--data", str(data), mask=0o000)
    assert "kept in" in done.stdout + done.stderr, done
    found = [path for path in data.rglob("*") if not path.is_symlink()]
    assert any(path.name.endswith(".lance") for path in found), "the index is there"
    open_ones = {
        path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in found if path.stat().st_mode & 0o077
    }
    assert not open_ones


def test_strangers_cannot_fill_the_log(tmp_path: Path, start: Start) -> None:
    said: list[str] = []
    limits = tmp_path / "limits.toml"
    limits.write_text("[limits]\nconnections_per_peer = 5\n", encoding="utf-8")
    served = start(tmp_path / "data", "--log-level", "INFO", "--config", str(limits), said=said)
    token(tmp_path / "data")
    parts = urlsplit(served.url)
    where = (parts.hostname or "", parts.port or 0)

    def sent(raw: bytes) -> bytes:
        with closing(socket.create_connection(where, PATIENCE)) as client:
            client.settimeout(PATIENCE)
            client.sendall(raw)
            back = bytearray()
            try:
                while data := client.recv(1 << 16):
                    back += data
            except ConnectionError:
                pass
            return bytes(back)

    before = len(said)
    for n in range(100):
        assert b" 400 " in sent(b"junk %d\r\n\r\n" % n)
        head = f"POST /mcp HTTP/1.1\r\nHost: {where[0]}:{where[1]}\r\nAuthorization: Bearer x{n}\r\n"
        upgrade = "Connection: close, Upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n"
        if n < 40:
            sent(head.encode() + upgrade.encode())
    held = [socket.create_connection(where, PATIENCE) for _ in range(5)]
    for _ in range(100):
        sent(b"")
    for client in held:
        client.close()
    lines = said[before:]
    assert any("junk" in line or "Invalid HTTP" in line for line in lines), "the first are written"
    assert any("refused a connection" in line for line in lines)
    assert len(lines) <= 6 * AT_ONCE, "".join(lines)


def test_a_word_in_the_log_ends_no_line(tmp_path: Path, start: Start) -> None:
    assert os.linesep == "\n"
    said: list[str] = []
    served = start(tmp_path, "--log-level", "DEBUG", said=said)
    parts = urlsplit(served.url)
    with closing(socket.create_connection((parts.hostname or "", parts.port or 0), PATIENCE)) as client:
        client.sendall(b"GET /\x1b[2K\x85 HTTP/1.1\r\n\x1b[31m: x\r\n\r\n")
        client.settimeout(PATIENCE)
        while client.recv(1 << 16):
            pass
    assert not [line for line in said if not line.rstrip("\n").isprintable()]
