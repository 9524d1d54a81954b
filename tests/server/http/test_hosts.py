"""Hosts and origins, compared exactly on every route that a served installation has, whatever is added later.

The routes are read off the application that `serve` builds; requests are raw, so that what clients refuse to send
is sent. A gate that compares less than exactly must fail these checks.
"""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.server.cli import serve
from blackboard_mcp.server.http import run
from blackboard_mcp.server.http.gate import Gate
from blackboard_mcp.server.mcp.server import BoardServer
from blackboard_mcp.server.settings.server import load
from patience import PATIENCE
from sse_starlette.sse import AppStatus

OAUTH = {"issuer": "http://127.0.0.1:9/", "resource": "http://127.0.0.1:8420/mcp"}


@dataclass
class Site:
    port: int
    routes: dict[str, str]
    """A method for each path."""

    async def status(self, request: bytes) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(request)
            await writer.drain()
            line = await asyncio.wait_for(reader.readline(), PATIENCE)
            return int(line.split()[1])
        finally:
            writer.close()

    def request(self, path: str, *rows: str, version: str = "1.1") -> bytes:
        head = [f"{self.routes[path]} {path} HTTP/{version}", "x-blackboard-agent: alice", *rows, "", ""]
        return "\r\n".join(head).encode("latin-1")

    @property
    def host(self) -> str:
        return f"host: 127.0.0.1:{self.port}"


@asynccontextmanager
async def serving(folder: Path, patch: pytest.MonkeyPatch, **more: Any) -> AsyncIterator[Site]:
    """What `serve` serves, with its real application seen on its way."""
    seen: asyncio.Future[tuple[Any, int]] = asyncio.get_running_loop().create_future()
    build = run.build_application

    def spied(server: BoardServer, **given: Any) -> Any:
        app = build(server, **given)
        port = next(
            int(host.rpartition(":")[2]) for host in given["allowed_hosts"] if host.startswith("127.")
        )
        seen.set_result((app, port))
        return app

    patch.setattr(run, "build_application", spied)
    settings = load({"transport": "http", "port": 0, "data": folder, "embedder": "none", **more}, {})
    task = asyncio.create_task(serve.serve_http(settings))
    try:
        await asyncio.wait({task, seen}, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        app, port = seen.result()
        paths = {
            re.sub(r"\{[^}]*\}", "main", route.path): min(
                (route.methods or {"POST"}) - {"HEAD", "OPTIONS"}, default="POST"
            )
            for route in app.routes
        }
        site = Site(port, {**paths, "/nowhere": "GET", "/": "GET", "//mcp": "POST"})
        async with asyncio.timeout(PATIENCE):
            while await site.status(site.request("/healthz", site.host)) != 200:
                pass
        yield site
        signal.raise_signal(signal.SIGTERM)
        await asyncio.wait_for(task, PATIENCE)
        assert not AppStatus.should_exit, "every later server of this process would take itself for stopping"
    except BaseException:
        signal.raise_signal(signal.SIGTERM) if seen.done() else task.cancel()
        await asyncio.wait({task}, timeout=PATIENCE)
        raise


def wrong_hosts(port: int) -> list[str]:
    return [
        "localhost:1.evil.com",
        "evil.com",
        f"evil.com:{port}",
        f"127.0.0.1:{port}.evil.com",
        f"127.0.0.1.evil.com:{port}",
        f"x127.0.0.1:{port}",
        f"127.0.0.1.:{port}",
        f"localhost.:{port}",
        f"127.0.0.1:{port}.",
        f"evil@127.0.0.1:{port}",
        f"127.0.0.1:{port}@evil.com",
        f"http://127.0.0.1:{port}",
        f"127.0.0.1:{port}/",
        f"127.0.0.1:{port}, evil.com",
        f"127.0.0.1:0{port}",
        f"127.0.0.1:{port + 1}",
        "127.0.0.1",
        "localhost",
        "127.0.0.1:",
        f"127.1:{port}",
        f"2130706433:{port}",
        f"0.0.0.0:{port}",
        f"::1:{port}",
        f"[::1%lo]:{port}",
        f"[::ffff:127.0.0.1]:{port}",
        f"[0:0:0:0:0:0:0:1]:{port}",
        f"[::1]:{port}.evil.com",
        "",
        "null",
        "*",
    ]


def wrong_origins(port: int) -> list[str]:
    return [
        "null",
        "",
        "*",
        "http://evil.com",
        f"http://evil.com:{port}",
        "http://localhost:1.evil.com",
        f"http://localhost:{port}.evil.com",
        f"http://127.0.0.1:{port}.evil.com",
        f"http://127.0.0.1.evil.com:{port}",
        f"http://localhost.:{port}",
        f"http://evil@127.0.0.1:{port}",
        f"http://127.0.0.1:{port}@evil.com",
        f"http://127.0.0.1:{port}/",
        f"https://127.0.0.1:{port}",
        f"ws://127.0.0.1:{port}",
        f"//127.0.0.1:{port}",
        f"127.0.0.1:{port}",
        "http://127.0.0.1",
        f"http://127.0.0.1:{port + 1}",
        f"http://[::ffff:127.0.0.1]:{port}",
        f"http://127.0.0.1:{port} http://evil.com",
        "file://",
        "chrome-extension://abc",
    ]


async def check(site: Site) -> None:
    """Every wrong host and origin is refused on every route, and every right one is let in."""
    for path in site.routes:
        for host in wrong_hosts(site.port):
            status = await site.status(site.request(path, f"host: {host}"))
            assert status in (400, 421), (path, host, status)
        for origin in wrong_origins(site.port):
            status = await site.status(site.request(path, site.host, f"origin: {origin}"))
            assert status == 403, (path, origin, status)
        for rows in (
            [],
            ["host: evil.com", f"host: localhost:{site.port}"],
            [f"host: localhost:{site.port}", "host: evil.com"],
            [f"host: localhost:{site.port}", f"host: localhost:{site.port}"],
            ["x-forwarded-host: 127.0.0.1", f"forwarded: host=127.0.0.1:{site.port}", "host: evil.com"],
        ):
            assert await site.status(site.request(path, *rows)) in (400, 421), (path, rows)
        assert await site.status(site.request(path, version="1.0")) == 421, path
        own = f"origin: http://127.0.0.1:{site.port}"
        for others in (["origin: http://evil.com", own], [own, "origin: http://evil.com"], [own, own]):
            assert await site.status(site.request(path, site.host, *others)) == 403, (path, others)
        target = f"{site.routes[path]} http://evil.com{path} HTTP/1.1\r\n{site.host}\r\n\r\n".encode()
        assert await site.status(target) in (400, 401, 404), (path, "absolute target")


async def test_every_route_of_a_served_installation_answers_to_exact_hosts_and_origins_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, monkeypatch, oauth=OAUTH) as site:
        known = {"/mcp", "/healthz", "/boards/main/events"}
        assert known < set(site.routes)
        assert any("oauth-protected-resource" in path for path in site.routes)
        await check(site)


async def test_the_own_names_are_let_in_whatever_their_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, monkeypatch) as site:
        for name in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]"):
            for rows in ([], [f"origin: http://{name}:{site.port}"], [f"Origin: HTTP://{name}:{site.port}"]):
                request = site.request("/healthz", f"Host: {name}:{site.port}", *rows)
                assert await site.status(request) == 200, (name, rows)


async def test_a_gate_that_compares_by_prefix_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Prefixes(frozenset[str]):
        def __contains__(self, given: object) -> bool:
            return any(str(given).startswith(name) for name in self)

    make = Gate.__init__

    for attribute in ("_hosts", "_origins"):

        def lenient(gate: Gate, *given: Any, attribute: str = attribute, **more: Any) -> None:
            make(gate, *given, **more)
            setattr(gate, attribute, Prefixes(getattr(gate, attribute)))

        with monkeypatch.context() as patch:
            patch.setattr(Gate, "__init__", lenient)
            async with serving(tmp_path / attribute, patch) as site:
                with pytest.raises(AssertionError, match="evil"):
                    await check(site)
