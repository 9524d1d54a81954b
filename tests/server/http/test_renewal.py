"""A certificate that is renewed under a running server."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from blackboard_mcp.server.http import renewal
from blackboard_mcp.server.http.exposure import Tls
from patience import PATIENCE, until


class Issuer:
    """An authority, and the files that its certificates are written to."""

    def __init__(self, folder: Path) -> None:
        self._authority = trustme.CA()
        self.files = Tls(folder / "chain.pem", folder / "key.pem")
        self.files.key.touch(0o600)
        self.trusting = ssl.create_default_context()
        self._authority.configure_trust(self.trusting)

    def issue(self, kind: trustme.KeyType = trustme.KeyType.ECDSA, *, key: bool = True) -> bytes:
        """The certificate, as it goes over the wire; without `key` only the chain is written so far."""
        issued = self._authority.issue_cert("localhost", key_type=kind)
        chain = b"".join(pem.bytes() for pem in issued.cert_chain_pems)
        if key:
            self.files.key.write_bytes(issued.private_key_pem.bytes())
        self.files.cert.write_bytes(chain)
        return ssl.PEM_cert_to_DER_cert(issued.cert_chain_pems[0].bytes().decode())


@pytest.fixture
def issuer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Issuer:
    monkeypatch.setattr(renewal, "LOOK_SECONDS", 0.02)
    return Issuer(tmp_path)


async def connect(issuer: Issuer, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=issuer.trusting, server_hostname="localhost"
    )
    shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return reader, writer, shown


async def shown(issuer: Issuer, port: int) -> bytes:
    _, writer, certificate = await connect(issuer, port)
    writer.close()
    return certificate


async def until_shown(issuer: Issuer, port: int, wanted: bytes) -> None:
    async with asyncio.timeout(PATIENCE):
        while await shown(issuer, port) != wanted:
            pass


async def test_new_connections_get_a_renewed_certificate_and_old_ones_go_on(
    serving: Any, issuer: Issuer
) -> None:
    first = issuer.issue()
    async with serving(tls=issuer.files, host="localhost") as served:
        reader, writer, before = await connect(issuer, served.port)
        assert before == first
        for kind in (trustme.KeyType.RSA, trustme.KeyType.ECDSA):
            await until_shown(issuer, served.port, issuer.issue(kind))
        writer.write(served.request("/livez", "GET"))
        assert b" 200 " in await asyncio.wait_for(reader.readline(), PATIENCE)
        writer.close()


async def test_a_pair_that_does_not_belong_together_leaves_the_former_in_use(
    serving: Any, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    first = issuer.issue()
    async with serving(tls=issuer.files, host="localhost") as served:
        issuer.issue(key=False)
        await asyncio.to_thread(until, lambda: "the former stays in use" in caplog.text)
        assert await shown(issuer, served.port) == first
        issuer.files.cert.unlink()
        await asyncio.sleep(0.1)
        assert await shown(issuer, served.port) == first
        assert len([r for r in caplog.records if r.levelno >= logging.ERROR]) <= 2, (
            "said once, not at each look"
        )
        await until_shown(issuer, served.port, issuer.issue())
