"""Servers where others than this machine's users reach them: what they ask for, TLS, and proxies in front."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import os
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trustme
from blackboard_mcp.protocols.access import Role
from blackboard_mcp.protocols.errors import InvalidInput, Unauthorized, Unreachable
from blackboard_mcp.server import compose
from blackboard_mcp.server.access.tokens import new_access_token
from blackboard_mcp.server.board import BoardClient
from blackboard_mcp.server.cli.serve import serve_http
from blackboard_mcp.server.demo.process import Serving, command, environment, plainly
from blackboard_mcp.server.demo.replay import call
from blackboard_mcp.server.relay.stdio import relay
from blackboard_mcp.server.settings.server import Settings
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from patience import PATIENCE
from ports import free_port

LEGACY, MODERN = "legacy", "2026-07-28"
Start = Callable[..., Serving]


async def issue(data: Path, agent: str, seconds: float = 3_600) -> str:
    now = datetime.now(UTC)
    made, text = new_access_token(
        agent=agent,
        owner=agent,
        roles={"*": Role.ADMIN},
        now=now,
        expires_at=now + timedelta(seconds=seconds),
    )
    async with compose.credentials(Settings(data=data)) as store:
        await store.add_token(made)
    return text


class Pki:
    """A certificate for `localhost` and the authority behind it, as files."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        issued = authority.issue_cert("localhost", "127.0.0.1")
        self.authority, self.cert, self.key = folder / "ca.pem", folder / "cert.pem", folder / "key.pem"
        authority.cert_pem.write_to_path(self.authority)
        self.key.touch(0o600)
        issued.private_key_pem.write_to_path(self.key)
        for n, blob in enumerate(issued.cert_chain_pems):
            blob.write_to_path(self.cert, append=n > 0)
        self.context = ssl.create_default_context(cafile=str(self.authority))


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="module")
def token(data: Path) -> str:
    return asyncio.run(issue(data, "alice"))


@pytest.fixture(scope="module")
def encrypted(data: Path, token: str, pki: Pki, start: Start) -> str:
    """The base URL of a server on every address, with TLS of its own and little patience with heads."""
    port = free_port()
    brief = data.with_name("brief.toml")
    brief.write_text("[limits]\nhead_seconds = 2.0\n", encoding="utf-8")
    start(
        data,
        *("--host", "0.0.0.0", "--port", str(port), "--allowed-hosts", f"localhost:{port}"),
        *("--tls-cert", str(pki.cert), "--tls-key", str(pki.key)),
        *("--config", str(brief)),
    )
    return f"https://localhost:{port}"


@pytest.fixture(scope="module")
def proxied(data: Path, token: str, start: Start) -> int:
    """The port of a server on every address whose proxy is declared to be 127.0.0.1."""
    port = free_port()
    start(
        data,
        *("--host", "0.0.0.0", "--port", str(port), "--allowed-hosts", "board.example.com"),
        *("--behind-proxy", "127.0.0.1"),
    )
    return port


# What is asked for before it starts


@pytest.mark.parametrize("given", list(itertools.product([False, True], repeat=3))[:-1])
async def test_an_exposed_server_names_all_that_it_lacks(tmp_path: Path, given: tuple[bool, ...]) -> None:
    tokens, hosts, proxy = given
    if tokens:
        await issue(tmp_path, "alice")
    settings = Settings(
        data=tmp_path,
        host="0.0.0.0",
        port=0,
        allowed_hosts=("board.example.com",) if hosts else (),
        behind_proxy=("10.0.0.5",) if proxy else (),
    )
    with pytest.raises(InvalidInput) as raised:
        await serve_http(settings)
    for there, words in zip(
        given, ("blackboard-mcp token create", "--allowed-hosts", "--tls-cert"), strict=True
    ):
        assert (words in raised.value.message) is not there


@pytest.mark.parametrize("auth", ["auto", "token"])
async def test_tokens_that_have_ended_do_not_open_an_address(tmp_path: Path, auth: str) -> None:
    await issue(tmp_path, "alice", seconds=0)
    settings = Settings(
        data=tmp_path,
        host="0.0.0.0",
        port=0,
        allowed_hosts=("h",),
        behind_proxy=("10.0.0.5",),
        auth=auth,
    )
    with pytest.raises(InvalidInput, match="token create"):
        await serve_http(settings)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tls_cert": Path("/none/c.pem")}, "tls_cert is given without tls_key"),
        ({"tls_key": Path("/none/k.pem")}, "tls_key is given without tls_cert"),
        ({"tls_cert": Path("/none/c.pem"), "tls_key": Path("/none/k.pem")}, "Cannot read /none/c.pem"),
        ({"behind_proxy": ("proxy.example.com",)}, "no address and no network"),
        ({"behind_proxy": ("0.0.0.0/0",)}, "every address"),
        ({"behind_proxy": ("::/0",)}, "every address"),
    ],
)
async def test_wrong_settings_of_tls_and_proxies_are_refused(
    tmp_path: Path, settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        await serve_http(Settings(data=tmp_path, port=0, **settings))


async def test_a_key_that_is_anothers_encrypted_or_open_to_all_is_refused(tmp_path: Path, pki: Pki) -> None:
    other = tmp_path / "other.pem"
    trustme.CA().issue_cert("localhost").private_key_pem.write_to_path(other)
    other.chmod(0o600)
    opened = tmp_path / "open.pem"
    opened.write_bytes(pki.key.read_bytes())
    opened.chmod(0o644)
    for key, words in (
        (other, "no certificate in PEM and its key"),
        (opened, "chmod o-rwx"),
        (pki.cert, "no cert"),
    ):
        with pytest.raises(InvalidInput, match=words):
            await serve_http(Settings(data=tmp_path, port=0, tls_cert=pki.cert, tls_key=key))


async def test_a_loopback_server_without_tokens_warns_and_one_with_tokens_does_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    for count in (1, 0):
        caplog.clear()
        serving = asyncio.create_task(serve_http(Settings(data=tmp_path, port=0)))
        with caplog.at_level(logging.WARNING):
            while "blackboard-mcp serves" not in capsys.readouterr().err:
                await asyncio.wait({serving}, timeout=0.05)
                assert not serving.done()
        serving.cancel()
        await asyncio.wait({serving})
        assert caplog.text.count("no access tokens") == count
        await issue(tmp_path, "alice")


# TLS


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
async def test_clients_of_both_generations_come_in_over_tls(
    encrypted: str, token: str, pki: Pki, mode: str
) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, verify=pki.context, timeout=PATIENCE, trust_env=False) as http,
        plainly(Client(streamable_http_client(f"{encrypted}/mcp", http_client=http), mode=mode)) as client,
    ):
        posted = await call(client, "post", text=f"over TLS, {mode}")
        read = await call(client, "read", ids=[posted["items"][0]["id"]])
    assert read["items"][0]["author"] == "alice"


async def test_over_tls_nobody_comes_in_without_a_token_or_in_the_clear(encrypted: str, pki: Pki) -> None:
    async with httpx2.AsyncClient(verify=pki.context, timeout=PATIENCE, trust_env=False) as http:
        assert (await http.get(f"{encrypted}/healthz")).status_code == 200
        assert (await http.get(f"{encrypted}/boards/main/events")).status_code == 401
        assert (await http.post(f"{encrypted}/mcp", json={})).status_code == 401
        with pytest.raises(httpx2.TransportError):
            await http.get(encrypted.replace("https", "http") + "/healthz")
    with pytest.raises(Unreachable, match=r"try the address with https://") as told:
        async with BoardClient.connect(encrypted.replace("https", "http") + "/mcp", agent="ann"):
            pass
    assert ".." not in told.value.message


async def test_a_handshake_that_does_not_end_is_cut_off_and_holds_up_nobody(encrypted: str, pki: Pki) -> None:
    port = int(encrypted.rpartition(":")[2])
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
    for n, (_, writer) in enumerate(silent):
        # Nothing at all, or the beginning of a hello.
        writer.write(b"\x16\x03\x01\x02\x00\x01"[: n % 7])
    async with httpx2.AsyncClient(verify=pki.context, timeout=PATIENCE, trust_env=False) as http:
        assert (await http.get(f"{encrypted}/healthz")).status_code == 200
    async with asyncio.timeout(PATIENCE):
        for reader, writer in silent:
            # Some stacks send an alert first; a reset is an end as well.
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()


async def test_the_doctor_knows_a_server_with_tls_for_a_blackboard(
    encrypted: str, data: Path, pki: Pki, tmp_path: Path
) -> None:
    config = tmp_path / "board.toml"
    port = encrypted.rpartition(":")[2]
    served = (
        f'transport = "http"\nhost = "0.0.0.0"\nport = {port}\ndata = "{data}"\n'
        f'allowed_hosts = ["localhost:{port}"]\n'
    )

    async def doctor(*lines: str) -> str:
        config.write_text(served + "\n".join(lines))
        process = await asyncio.create_subprocess_exec(
            *command("doctor", "--quick", "--config", str(config)),
            env=environment(),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
        assert process.returncode in (0, 1, 2), said
        return said.decode()

    assert "port-taken" not in await doctor(f'tls_cert = "{pki.cert}"', f'tls_key = "{pki.key}"')
    assert "port-taken" in await doctor()


async def test_a_board_client_trusts_the_authorities_of_ssl_cert_file(
    encrypted: str, token: str, pki: Pki, monkeypatch: pytest.MonkeyPatch
) -> None:
    def board() -> BoardClient:
        return BoardClient.connect(f"{encrypted}/mcp", agent="alice", token=token)

    with pytest.raises(Unreachable, match="SSL_CERT_FILE"):
        async with board():
            pass
    monkeypatch.setenv("SSL_CERT_FILE", str(pki.authority))
    async with board() as trusting:
        assert (await trusting.post("behind an authority of our own")).id


@asynccontextmanager
async def connected(url: str, pki: Pki, **variables: str) -> AsyncIterator[Client]:
    words = command("connect", url)
    env = environment() | {"SSL_CERT_FILE": str(pki.authority)} | variables
    program = StdioServerParameters(command=words[0], args=words[1:], env=env)
    async with plainly(Client(stdio_client(program), mode=MODERN)) as client:
        yield client


async def test_connect_takes_the_token_from_the_environment(encrypted: str, token: str, pki: Pki) -> None:
    async with connected(f"{encrypted}/mcp", pki, BLACKBOARD_TOKEN=token) as client:
        posted = await call(client, "post", text="through the relay")
        read = await call(client, "read", ids=[posted["items"][0]["id"]])
    assert read["items"][0]["author"] == "alice"


async def view_for_ever(board: BoardClient) -> None:
    while True:
        await board.view()


async def test_a_board_client_takes_the_token_and_is_told_when_it_counts_no_more(
    data: Path, token: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = start(data)
    brief = await issue(data, "bob", seconds=3_600)
    monkeypatch.setenv("BLACKBOARD_TOKEN", token)
    async with BoardClient.connect(served.url, agent="alice") as board:
        assert (await board.post("by a program")).author == "alice"
    async with BoardClient.connect(served.url, agent="bob", token=brief) as board:
        await board.post("by another")
        async with compose.credentials(Settings(data=data)) as store:
            await store.revoke_token(brief.split("_")[1])
        with pytest.raises(Unauthorized):
            await asyncio.wait_for(view_for_ever(board), PATIENCE)
    with pytest.raises(Unauthorized, match="token create"):
        async with BoardClient.connect(served.url, agent="bob", token=brief):
            pass


async def test_no_token_is_sent_in_the_clear_to_another_machine() -> None:
    for url in (
        "http://board.example.com/mcp",
        "http://localhost.example.com/mcp",
        "http://127.0.0.1.example.com/",
    ):
        with pytest.raises(InvalidInput, match="in the clear"):
            BoardClient.connect(url, agent="alice", token="bbt_x")
        with pytest.raises(InvalidInput, match="in the clear"):
            await relay(url, token="bbt_x")


# Proxies


async def raw(port: int, source: str, path: str = "/boards/main/events", **headers: str) -> tuple[int, Any]:
    """A request from an address of this machine, and the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    rows = {"host": "board.example.com", "connection": "close", **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in rows.items())
    writer.write(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode())
    await writer.drain()
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
    status = int(head.split()[1])
    body = b"" if status == 200 and path != "/healthz" else await asyncio.wait_for(reader.read(), PATIENCE)
    writer.close()
    return status, json.loads(body) if body else None


@pytest.mark.skipif(os.name == "nt", reason="needs a second loopback address")
async def test_past_its_proxy_nobody_reaches_a_server_that_relies_on_it(proxied: int, token: str) -> None:
    shown = {"authorization": f"Bearer {token}"}
    https = {"x_forwarded_proto": "https", "x_forwarded_for": "203.0.113.9"}
    assert (await raw(proxied, "127.0.0.1", **shown, **https))[0] == 200
    assert (await raw(proxied, "127.0.0.2", **shown, **https)) == (
        403,
        {"error": "proxy", "message": "this server is reached through its proxy alone"},
    )
    status, told = await raw(proxied, "127.0.0.1", **shown, x_forwarded_proto="http")
    assert (status, told["error"]) == (403, "proxy")
    assert (await raw(proxied, "127.0.0.2", "/healthz"))[0] == 200


async def test_failures_count_for_the_client_behind_the_proxy(proxied: int) -> None:
    one, other = {"x_forwarded_for": "203.0.113.1"}, {"x_forwarded_for": "203.0.113.2"}
    wrong = {"authorization": "Bearer x", "x_forwarded_proto": "https"}
    statuses = [(await raw(proxied, "127.0.0.1", **wrong, **one))[0] for _ in range(31)]
    assert statuses == [401] * 30 + [429]
    forged = {"x_forwarded_for": "198.51.100.7, 203.0.113.1"}
    assert (await raw(proxied, "127.0.0.1", **wrong, **forged))[0] == 429
    assert (await raw(proxied, "127.0.0.1", **wrong, **other))[0] == 401
