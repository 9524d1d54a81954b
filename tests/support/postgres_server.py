"""A PostgreSQL server of this process's own, started at the first use, and empty schemas on it.

It runs from Debian's package in a temporary folder, on a free port of loopback, without syncing unless asked.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from ports import free_port

FAST = ("fsync=off", "full_page_writes=off", "synchronous_commit=off")
"""Settings for tests that lose no power."""
PATIENCE = 60.0


def binaries() -> Path | None:
    """Returns the folder of the newest server's programs; `None` if none is installed."""
    found = shutil.which("initdb")
    versions = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parent.parent.name)
    )
    return Path(found).resolve().parent if found else versions[-1].parent if versions else None


def required() -> Path:
    """Returns the folder of the server's programs; skips the test if there is none, but fails in CI."""
    folder = binaries()
    if folder is None:
        if os.environ.get("CI") == "true":
            pytest.fail("PostgreSQL is not installed")
        pytest.skip("PostgreSQL's server is not installed")
    return folder


class Server:
    """A server in a temporary folder."""

    def __init__(self, settings: Sequence[str] = FAST, *, copy_of: Server | None = None) -> None:
        self._programs = required()
        self._settings = settings
        self.folder = Path(tempfile.mkdtemp(prefix="blackboard-postgres-"))
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        self.data = self.folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._session: subprocess.Popen[str] | None = None
        self.port = free_port()
        # Another order of letters than the bytes' shows where a statement forgets which it needs.
        if copy_of is not None:
            source = ("-h", "127.0.0.1", "-p", str(copy_of.port), "-U", "blackboard")
            self._run(
                "pg_basebackup", *source, "-D", str(self.data), "-X", "stream", "-c", "fast", "--no-sync"
            )
            (self.data / "standby.signal").touch()
            return
        order = ("--encoding=UTF8", "--locale=C", "--locale-provider=icu", "--icu-locale=en-US")
        self._run("initdb", "-D", str(self.data), "-U", "blackboard", "--auth=trust", "--no-sync", *order)
        self.start()

    @classmethod
    def standby(cls, original: Server) -> Server:
        """Returns a copy of another server as of now, which is not started: a standby that lags behind."""
        return cls(original._settings, copy_of=original)

    def promote(self) -> None:
        """Starts a standby and makes it the server that takes writes."""
        self.start()
        self._run("pg_ctl", "promote", "-w", "-D", str(self.data))

    @property
    def address(self) -> str:
        return f"postgresql://blackboard@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Starts the server, and returns when it serves."""
        options = [
            f"port={self.port}",
            "listen_addresses=127.0.0.1",
            f"unix_socket_directories={self.folder}",
        ]
        options += ["max_connections=300", "max_prepared_transactions=0", "jit=off", *self._settings]
        command = [str(self._programs / "postgres"), "-D", str(self.data)]
        for option in options:
            command += ["-c", option]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, user=self._user, group=self._user
            )
        self.wait()

    def wait(self) -> None:
        """Waits until the server serves."""
        until = time.monotonic() + PATIENCE
        while True:
            ready = self._programs / "pg_isready"
            done = subprocess.run([ready, "-q", "-h", "127.0.0.1", "-p", str(self.port)], check=False)
            if done.returncode == 0:
                return
            assert self._process is None or self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < until, (self.folder / "log").read_text()
            time.sleep(0.05)

    def kill(self) -> None:
        """Kills the server as a loss of power would."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)  # makes no more children
        children = _children(self._process.pid)
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        until = time.monotonic() + PATIENCE
        while _run_on(children):  # a new server would find their memory in use
            assert time.monotonic() < until
            time.sleep(0.01)

    def stop(self, how: int = signal.SIGINT) -> None:
        """Ends the server; by default at once, without waiting for clients."""
        if self._session is not None:
            self._session.communicate()
            self._session = None
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE)

    def remove(self) -> None:
        """Ends the server at once and deletes its folder."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def run_again(self, statement: str) -> None:
        """Runs SQL in a session that stays open: a new one would read the catalogue of the tables first."""
        if self._session is None:
            self._session = subprocess.Popen(
                [str(self._programs / "psql"), "-qAtX", "-v", "ON_ERROR_STOP=1", self.address],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=self.folder,
            )  # fmt: skip
        assert self._session.stdin is not None
        assert self._session.stdout is not None
        self._session.stdin.write(f"{statement};\n\\echo done\n")
        self._session.stdin.flush()
        assert self._session.stdout.readline() == "done\n"

    def sql(self, statement: str, database: str = "postgres") -> str:
        """Runs SQL as the owner of everything; returns its rows, one a line."""
        return self._run(
            "psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "blackboard", "-qAtX", "-v", "ON_ERROR_STOP=1",
            "-c", statement, database,
        )  # fmt: skip

    def _run(self, program: str, *arguments: str) -> str:
        done = subprocess.run(
            [str(self._programs / program), *arguments],
            user=self._user, group=self._user, cwd=self.folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


_servers: list[Server] = []


def server() -> Server:
    """Returns this process's server."""
    if not _servers:
        _servers.append(Server())
    return _servers[0]


def close() -> None:
    """Ends this process's server, if there is one."""
    for one in _servers:
        one.remove()
    _servers.clear()


_schemas: dict[Path, str] = {}
_free: list[str] = []


def address(folder: Path) -> str:
    """Returns the address of a schema that belongs to a folder: the same one for the same folder."""
    if folder not in _schemas:
        _schemas[folder] = _free.pop() if _free else f"boards{len(_schemas)}"
    return f"{server().address}?schema={_schemas[folder]}"


def give_back(folder: Path) -> None:
    """Empties the schema of a folder for another one; making a schema takes far longer."""
    schema = _schemas.pop(folder, None)
    if schema is None or not _servers:
        return
    server().run_again(_EMPTY.format(schema=schema))
    _free.append(schema)


_EMPTY = """
DO $$ DECLARE emptying text; BEGIN
    SELECT coalesce(string_agg(format('DELETE FROM %s;', oid::regclass), ' '), '') INTO emptying FROM pg_class
    WHERE relnamespace = to_regnamespace('{schema}') AND relkind = 'r' AND relname <> 'installation';
    emptying := 'BEGIN SET LOCAL session_replication_role = replica; ' || emptying || ' END';
    IF emptying IS DISTINCT FROM (SELECT prosrc FROM pg_proc WHERE oid = to_regproc('pg_temp.empty_{schema}')) THEN
        EXECUTE format('CREATE OR REPLACE FUNCTION pg_temp.empty_{schema}() RETURNS void LANGUAGE plpgsql AS %L',
                       emptying);
    END IF;
    PERFORM pg_temp.empty_{schema}();
END $$
"""
"""Empties all tables by a function, whose plans stay from test to test: planning takes ten times as long."""


def _children(parent: int) -> list[int]:
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True, check=False
    )
    return [int(word) for word in found.stdout.split()]


def _run_on(processes: list[int]) -> bool:
    """Tells whether any of these processes still runs; one that has ended may wait to be reaped."""
    if not processes:
        return False
    found = subprocess.run(
        ["ps", "-o", "stat=", "-p", ",".join(map(str, processes))],
        capture_output=True,
        text=True,
        check=False,
    )
    return any(not state.startswith("Z") for state in found.stdout.split())
