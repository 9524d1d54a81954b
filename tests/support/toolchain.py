"""Node and the npm clients, installed outside the source tree, and a real server for them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.server.demo.process import environment
from patience import PATIENCE

HERE = Path(__file__).parents[1] / "acceptance" / "node"
CACHE = HERE.parents[2] / ".ci" / "node"
LEAST = 22
SERVER = (str(Path(sys.executable).with_name("blackboard-mcp")), "serve")
REQUIRED = os.environ.get("CI") == "true" or os.environ.get("REQUIRE_NODE") == "1"


@dataclass(frozen=True)
class Finished:
    """The exit status and output of a script."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Toolchain:
    """The path of `node`, and a folder with the packages of package.json."""

    node: str
    folder: Path

    def run(self, script: Path, *arguments: str, seconds: float = 120) -> Finished:
        """Runs a script with Node, and returns its result."""
        done = subprocess.run(
            [self.node, str(script), *arguments],
            cwd=self.folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        return Finished(done.returncode, done.stdout, done.stderr)


def toolchain() -> Toolchain:
    """Returns the toolchain; without one the test is skipped, or fails in CI."""
    found = _toolchain()
    if isinstance(found, str):
        if REQUIRED:
            pytest.fail(found)
        pytest.skip(found)
    return found


@cache
def _toolchain() -> Toolchain | str:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return f"needs node {LEAST} or newer and npm on the PATH"
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.lstrip("v").split(".")[0]) < LEAST:
        return f"needs node {LEAST} or newer; the one on the PATH is {version}"
    wanted = (HERE / "package.json").read_bytes()
    folder = CACHE / hashlib.sha256(wanted).hexdigest()[:12]
    CACHE.mkdir(parents=True, exist_ok=True)
    with _alone(CACHE / "lock.db"):
        return _installed(npm, wanted, folder) or Toolchain(node, folder)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Lets one process in at a time.

    It is a lock of SQLite, which is available on every platform and released when a process dies.
    """
    with closing(sqlite3.connect(path, timeout=600, isolation_level=None)) as lock:
        lock.execute("BEGIN EXCLUSIVE")
        yield


def _installed(npm: str, wanted: bytes, folder: Path) -> str | None:
    """Installs the packages in the folder unless they are there; returns the reason if it cannot."""
    if not folder.is_dir():
        fresh = Path(tempfile.mkdtemp(dir=folder.parent, prefix="new-"))
        (fresh / "package.json").write_bytes(wanted)
        installed = subprocess.run(
            [npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"],
            cwd=fresh,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        if installed.returncode != 0:
            shutil.rmtree(fresh)
            return f"npm could not install the clients: {installed.stderr[-500:]}"
        fresh.rename(folder)
    return None


@contextmanager
def http_server(data: Path, server: Sequence[str] = SERVER) -> Iterator[str]:
    """Runs a server process over HTTP on a free port, and yields the URL of its MCP endpoint."""
    process = subprocess.Popen(
        [*server, "--transport", "http", "--port", "0", "--data", str(data)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stderr is not None
    try:
        said = []
        for line in process.stderr:
            said.append(line)
            if ready := re.search(r"serves (http://\S+/mcp)", line):
                yield ready.group(1)
                break
        else:
            raise AssertionError(f"the server did not start: {''.join(said)}")
    finally:
        process.terminate()
        _, rest = process.communicate(timeout=PATIENCE)
    assert "Traceback" not in rest, rest
    assert process.returncode == 0, rest
