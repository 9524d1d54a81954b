"""An object store that speaks S3: moto's server, in a process of its own; and locations for shared indexes.

`.ci/run` installs it in an environment of its own and puts it on the PATH; elsewhere tests are skipped without it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from itertools import count
from pathlib import Path

import pytest
from patience import until
from ports import free_port

KEY, SECRET = "AKIATESTKEY0000000001", "t3st/secret+that-nobody-may-see"
_BUCKETS = count(1)
"""Numbers of buckets of all servers: LanceDB remembers where it found a bucket."""


class S3Server:
    """A server with empty buckets on loopback, which keeps everything in memory."""

    def __init__(self) -> None:
        program = shutil.which("moto_server")
        if program is None:
            if os.environ.get("CI") == "true":
                pytest.fail("moto is not installed")
            pytest.skip("moto's S3 server is not installed: pip install 'moto[server,s3]'")
        self.port = free_port()
        self._process = subprocess.Popen(
            [program, "-H", "127.0.0.1", "-p", str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(self._answers, "moto's server does not start")

    def environment(self) -> dict[str, str]:
        """Returns the variables by which a client finds the server and may use it."""
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ALLOW_HTTP": "true",
        }

    def bucket(self) -> str:
        """Returns the address of a prefix in a new bucket."""
        name = f"boards-{next(_BUCKETS)}"
        url = f"http://127.0.0.1:{self.port}/{name}"
        urllib.request.urlopen(urllib.request.Request(url, method="PUT")).close()
        return f"s3://{name}/index"

    def stop(self) -> None:
        """Ends the server; what it kept is lost."""
        self._process.kill()
        self._process.wait()

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/").close()
        except (OSError, HTTPException):
            assert self._process.poll() is None
            return False
        return True


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Runs a server, which a client in this process finds too."""
    server = S3Server()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment().items():
            patch.setenv(name, value)
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    """A server for the tests of a module."""
    with s3_server() as server:
        yield server


@pytest.fixture(params=["folder", "s3"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A location for a shared index: a folder, and one in a bucket."""
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3")
        return server.bucket()
    (tmp_path / "shared").mkdir()
    return str(tmp_path / "shared")
