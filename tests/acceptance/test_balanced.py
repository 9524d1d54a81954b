"""Two servers on one PostgreSQL behind nginx with the documented file, through clients of both generations."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import postgres_server
import pytest
import trustme
from blackboard_mcp.server.demo.process import Serving, http_server, plainly
from blackboard_mcp.server.demo.replay import call, say
from commands import run
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from patience import PATIENCE
from ports import free_port

LEGACY, MODERN = "legacy", "2026-07-28"
FILE = Path(__file__).parents[2] / "docs/examples/compose/nginx.conf"
AROUND = """
daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes 1;
events {{ }}
http {{
    log_format served '$remote_addr $upstream_addr $status $request_method $uri';
    access_log {folder}/access.log served;
    {temporary}
    include {folder}/default.conf;
}}
"""
KEPT = 32
"""The connections to servers that the file keeps."""
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


@dataclass
class Balanced:
    """Two servers behind nginx."""

    port: int
    context: ssl.SSLContext
    tokens: dict[str, str]
    servers: list[Serving]
    log: Path

    def upstreams(self, address: str) -> Counter[str]:
        """The servers that answered the requests of an address, by the number of requests."""
        lines = [line.split() for line in self.log.read_text().splitlines()]
        return Counter(line[1] for line in lines if line[0] == address and line[3] == "POST")

    @asynccontextmanager
    async def client(self, agent: str, address: str, mode: str) -> AsyncIterator[Client]:
        """Connects an agent from an address of its own."""
        headers = {"Authorization": f"Bearer {self.tokens[agent]}"}
        transport = httpx2.AsyncHTTPTransport(verify=self.context, local_address=address, trust_env=False)
        url = f"https://localhost:{self.port}/mcp"
        async with (
            httpx2.AsyncClient(headers=headers, transport=transport, timeout=PATIENCE) as http,
            plainly(Client(streamable_http_client(url, http_client=http), mode=mode)) as client,
        ):
            yield client


@pytest.fixture
async def balanced(tmp_path: Path) -> AsyncIterator[Balanced]:
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if nginx is None:
        if os.environ.get("CI") == "true":
            pytest.fail("nginx is not installed")
        pytest.skip("nginx is not installed")
    store, port = postgres_server.address(tmp_path), free_port()
    issued = (authority := trustme.CA()).issue_cert("localhost")
    context = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    there = {"BLACKBOARD_DATA": str(tmp_path / "one"), "BLACKBOARD_STORE": store}
    tokens = {name: run(there, "token", "create", "--agent", name).stdout.strip() for name in ("ann", "bob")}
    served = ("--store", store, "--behind-proxy", "127.0.0.1", "--allowed-hosts", f"localhost:{port}")
    async with AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(http_server(tmp_path / name, *served)) for name in ("one", "two")
        ]
        folder = tmp_path / "nginx"
        folder.mkdir()
        issued.private_key_pem.write_to_path(folder / "key.pem")
        issued.cert_chain_pems[0].write_to_path(folder / "cert.pem")
        text = FILE.read_text()
        for said, here in (
            ("one:8420", urlsplit(servers[0].url).netloc),
            ("two:8420", urlsplit(servers[1].url).netloc),
            ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
            ("/etc/blackboard/tls", str(folder)),
        ):
            assert said in text
            text = text.replace(said, here)
        (folder / "default.conf").write_text(text)
        temporary = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in TEMPORARY)
        (folder / "nginx.conf").write_text(AROUND.format(folder=folder, temporary=temporary))
        proxy = await asyncio.create_subprocess_exec(nginx, "-p", folder, "-c", folder / "nginx.conf")
        try:
            async with asyncio.timeout(PATIENCE), httpx2.AsyncClient(verify=context, trust_env=False) as http:
                while True:
                    try:
                        assert (await http.get(f"https://localhost:{port}/healthz")).status_code == 200
                        break
                    except httpx2.ConnectError:
                        assert proxy.returncode is None
                        await asyncio.sleep(0.05)
            yield Balanced(port, context, tokens, servers, folder / "access.log")
        finally:
            proxy.terminate()
            await proxy.wait()
    postgres_server.give_back(tmp_path)


async def test_sessions_stay_with_their_server_and_requests_without_one_go_to_both(
    balanced: Balanced,
) -> None:
    async with AsyncExitStack() as stack:
        sessions = [
            await stack.enter_async_context(balanced.client("ann", f"127.0.1.{n}", LEGACY)) for n in range(8)
        ]
        bob = await stack.enter_async_context(balanced.client("bob", "127.0.2.1", MODERN))
        for n, client in enumerate(sessions):
            for which in range(4):
                await call(client, "post", text=f"pump {n} leaks at {which}", type="LOG")
        for which in range(16):
            await call(bob, "post", text=f"valve {which} holds", type="LOG")
        answered = [balanced.upstreams(f"127.0.1.{n}") for n in range(8)]
        assert all(len(one) == 1 for one in answered), answered
        assert len({place for one in answered for place in one}) == 2, "the addresses share both servers"
        assert len(balanced.upstreams("127.0.2.1")) == 2
        # Whoever waits at one server hears of what is posted at the other, and of itself.
        seq = (await call(bob, "read"))["seq"]
        waits = [say(client, "wait", since=seq, seconds=25) for client in sessions]
        waiting = [asyncio.create_task(wait) for wait in waits]
        await call(bob, "post", text="the seal is torn", type="FACT")
        assert all("the seal is torn" in told for told in await asyncio.gather(*waiting))


async def test_when_a_server_dies_calls_go_on_at_the_other_and_older_clients_begin_a_new_session(
    balanced: Balanced,
) -> None:
    async with AsyncExitStack() as stack:
        bob = await stack.enter_async_context(balanced.client("bob", "127.0.2.1", MODERN))
        await call(bob, "post", text="the pump leaks", type="FACT")
        os.kill(balanced.servers[0].pid, signal.SIGKILL)
        failed = 0
        for n in range(12):
            # A call that met a connection kept from before fails, since it may have been applied: it is repeated.
            note = {"text": f"note {n}", "type": "LOG", "idempotency_key": f"note {n}"}
            while not await _succeeds(bob, note):
                failed += 1
        assert failed <= KEPT
        found = await call(bob, "query", text="note", type="LOG", limit=50)
        assert len(found["items"]) == 12
        for n in range(4):
            async with balanced.client("ann", f"127.0.1.{n}", LEGACY) as ann:
                assert "the pump leaks" in await say(ann, "query", text="leaks")


async def _succeeds(client: Client, note: dict[str, str]) -> bool:
    with suppress(MCPError):
        await call(client, "post", **note)
        return True
    return False
