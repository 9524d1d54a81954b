"""The relay's side of HTTP: requests to one server, answers read as they come, each generation's headers.

httpx does the work; what it raises becomes one of two errors, told apart by whether anything was sent.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

CONNECT_SECONDS: Final = 5.0
SILENCE_SECONDS: Final = 90.0
WRITE_SECONDS: Final = 30.0
IDLE_SECONDS: Final = 30.0
MAX_IDLE: Final = 8

_VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
_NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_HEADER_SAFE: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")

Message = dict[str, Any]


class Unreachable(Exception):
    """No connection to the server came about, so nothing was sent."""


class Broken(Exception):
    """The connection ended before the answer did."""


class HttpClient:
    """HTTP/1.1 to one server: kept-alive connections, as many as there are requests at a time."""

    def __init__(self, url: str, headers: list[tuple[str, str]]) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not the URL of a server; give one like http://127.0.0.1:8420/mcp")
        path = parts.path if parts.path not in ("", "/") else "/mcp"
        self.url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{path}"
        try:
            self._target = httpx.URL(self.url + (f"?{parts.query}" if parts.query else ""))
        except httpx.InvalidURL as exc:
            raise ValueError(f"{url!r} is not the URL of a server: {exc}") from exc
        # The authorities the system trusts, not those httpx brings; without TLS, none need loading.
        tls = parts.scheme == "https"
        self._http = httpx.AsyncClient(
            headers=[("Accept-Encoding", "identity"), *headers],
            verify=ssl.create_default_context() if tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            trust_env=False,
            follow_redirects=False,
            limits=httpx.Limits(
                max_connections=None, max_keepalive_connections=MAX_IDLE, keepalive_expiry=IDLE_SECONDS
            ),
            timeout=httpx.Timeout(
                connect=CONNECT_SECONDS, read=SILENCE_SECONDS, write=WRITE_SECONDS, pool=None
            ),
        )

    @contextlib.asynccontextmanager
    async def send(
        self, method: str, headers: list[tuple[str, str]], body: bytes, *, patience: float = CONNECT_SECONDS
    ) -> AsyncIterator[Response]:
        """One request; the block reads the answer, and leaving it early closes the connection.

        `patience` is how long to go on trying to connect, in seconds.

        Raises:
            Unreachable: nothing was sent.
            Broken: the connection ended, in here or while the answer is read.
        """
        kinds = [] if method == "GET" else [("Accept", "application/json, text/event-stream")]
        if body:
            kinds.append(("Content-Type", "application/json"))
        request = self._http.build_request(
            method, self._target, headers=[*kinds, *headers], content=body or None
        )
        answer = await self._answer(request, patience)
        response = Response(answer)
        try:
            yield response
        finally:
            await answer.aclose()

    async def close(self) -> None:
        await self._http.aclose()

    async def _answer(self, request: httpx.Request, patience: float) -> httpx.Response:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience
        pause = 0.05
        while True:
            try:
                return await self._http.send(request, stream=True)
            except (httpx.ConnectError, httpx.ConnectTimeout) as exc:
                if loop.time() + pause > deadline:
                    raise Unreachable(_reason(exc)) from exc
            except httpx.TransportError as exc:
                raise Broken(_reason(exc)) from exc
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1.0)


class Response:
    def __init__(self, answer: httpx.Response) -> None:
        self.status = answer.status_code
        self.headers = answer.headers
        self.kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        # One iterator for all readers: the next goes on where the last one stopped.
        self._raw = answer.aiter_raw()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in self._raw:
                yield chunk
        except httpx.TransportError as exc:
            raise Broken(_reason(exc)) from exc

    async def body(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])

    async def finish(self) -> None:
        """Read to the end, if it is near, so that the connection can be used again."""
        with contextlib.suppress(Broken, TimeoutError):
            async with asyncio.timeout(1.0):
                await self.body()

    async def events(self) -> AsyncGenerator[bytes, None]:
        """The data of each server-sent event that has any."""
        rest, data = b"", []
        async for chunk in self.chunks():
            *lines, rest = (rest + chunk).replace(b"\r\n", b"\n").split(b"\n")
            for line in lines:
                if line.startswith(b"data:"):
                    data.append(line[5:].removeprefix(b" "))
                elif not line and data:
                    yield b"\n".join(data)
                    data = []


def _reason(exc: httpx.TransportError) -> str:
    return str(exc) or type(exc).__name__


def modern_headers(message: Message) -> list[tuple[str, str]]:
    """What the modern generation's headers repeat of the body; nothing for a message of the legacy one."""
    params = params_of(message)
    meta = params.get("_meta")
    version = meta.get(_VERSION_KEY) if isinstance(meta, dict) else None
    if not isinstance(version, str) or message["method"] == "initialize":
        return []
    headers = [("MCP-Protocol-Version", _header(version)), ("Mcp-Method", _header(message["method"]))]
    name = params.get(_NAMED.get(message["method"], ""))
    if isinstance(name, str):
        headers.append(("Mcp-Name", _header(name)))
    return headers


class LegacySession:
    """What the legacy generation remembers between requests."""

    def __init__(self) -> None:
        self.opening: Message | None = None
        self.session_id: str | None = None
        self.version: str | None = None
        self.subscribed: set[str] = set()
        self.renewing = asyncio.Lock()

    def headers(self) -> list[tuple[str, str]]:
        headers = []
        if self.session_id is not None:
            headers.append(("Mcp-Session-Id", self.session_id))
            if self.version is not None:
                headers.append(("MCP-Protocol-Version", self.version))
        return headers

    def note(self, request: Message, result: Message, session_id: str | None) -> None:
        uri = params_of(request).get("uri")
        if request["method"] == "initialize":
            self.opening = request
            self.session_id = session_id
            version = result.get("protocolVersion")
            self.version = version if isinstance(version, str) else None
        elif request["method"] == "resources/subscribe" and isinstance(uri, str):
            self.subscribed.add(uri)
        elif request["method"] == "resources/unsubscribe" and isinstance(uri, str):
            self.subscribed.discard(uri)


def params_of(message: Message) -> Message:
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def _header(value: str) -> str:
    """A header value, in base64 where it would not survive as it is."""
    safe = not value or _HEADER_SAFE.fullmatch(value) is not None
    if safe and not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    encoded = base64.b64encode(value.encode("utf-8", "replace")).decode()
    return f"=?base64?{encoded}?="
