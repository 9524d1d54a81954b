"""The relay's HTTP client: requests to one server, streamed answers, and the headers of each protocol generation.

It uses h11 over asyncio's streams, so that a relay starts in a tenth of a second. A failure is one of two
errors, which tell whether anything was sent.
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

import h11

from ..access.identity import server_url

CONNECT_SECONDS: Final = 5.0
SILENCE_SECONDS: Final = 90.0
WRITE_SECONDS: Final = 30.0
IDLE_SECONDS: Final = 30.0
STARTING_SECONDS: Final = 0.5
"""The seconds until a server is asked again that refused because a worker of it starts anew."""
MAX_IDLE: Final = 8

_READ_BYTES: Final = 65_536
_VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
_NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_HEADER_SAFE: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")

Message = dict[str, Any]


class ServerUnreachable(Exception):
    """Raised when no connection to the server could be made, so nothing was sent."""


class Broken(Exception):
    """Raised when the connection ended before the answer did."""


class HttpClient:
    """An HTTP/1.1 client of one server, with a kept-alive connection for each request that runs at the same time."""

    def __init__(self, url: str, headers: list[tuple[str, str]]) -> None:
        parts = urlsplit(server_url(url))
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path}"
        self._target = parts.path + (f"?{parts.query}" if parts.query else "")
        self._address = (parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))
        # Trusts the system's certificate authorities; they are loaded only for TLS.
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._headers = [("Host", parts.netloc), ("Accept-Encoding", "identity"), *headers]
        self._idle: list[_Connection] = []

    @contextlib.asynccontextmanager
    async def send(
        self, method: str, headers: list[tuple[str, str]], body: bytes, *, patience: float = CONNECT_SECONDS
    ) -> AsyncIterator[Response]:
        """Sends one request and yields its answer for reading; leaving the context early closes the connection.

        `patience` is how many seconds to keep trying to connect, and to ask again while a worker starts anew.

        Raises:
            ServerUnreachable: no connection could be made, and nothing was sent.
            Broken: the connection ended, here or while the answer is read.
        """
        kinds = [] if method == "GET" else [("Accept", "application/json, text/event-stream")]
        if body:
            kinds.append(("Content-Type", "application/json"))
        if method != "GET":
            kinds.append(("Content-Length", str(len(body))))
        whole = [*self._headers, *kinds, *headers]
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience
        while True:
            async with self._asked(method, whole, body, patience) as response:
                if not await response.is_starting() or loop.time() + STARTING_SECONDS > deadline:
                    yield response
                    return
            await asyncio.sleep(STARTING_SECONDS)

    @contextlib.asynccontextmanager
    async def _asked(
        self, method: str, headers: list[tuple[str, str]], body: bytes, patience: float
    ) -> AsyncIterator[Response]:
        """Sends one request over a connection, and keeps the connection if its answer was read to the end."""
        connection = await self._kept() or await self._connected(patience)
        try:
            yield await connection.ask(method, self._target, headers, body)
        finally:
            if connection.renew() and len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
            else:
                connection.close()

    async def close(self) -> None:
        """Closes the idle connections."""
        while self._idle:
            self._idle.pop().close()
        await asyncio.sleep(0)  # transports close in the loop's next iteration

    async def _kept(self) -> _Connection | None:
        """Returns an idle connection of an earlier request, the last used first, or `None`."""
        while self._idle:
            connection = self._idle.pop()
            if await connection.is_alive():
                return connection
            connection.close()
        return None

    async def _connected(self, patience: float) -> _Connection:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience
        pause = 0.05
        while True:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    return _Connection(*await asyncio.open_connection(*self._address, ssl=self._tls))
            except (OSError, UnicodeError) as exc:  # a time-out is an OSError too
                if loop.time() + pause > deadline:
                    raise ServerUnreachable(_reason(exc)) from exc
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1.0)


class _Connection:
    """One connection, which carries one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT)
        self._used = 0.0

    async def ask(self, method: str, target: str, headers: list[tuple[str, str]], body: bytes) -> Response:
        """Sends a request and returns the answer once its head has arrived.

        Raises:
            Broken: there was no answer.
        """
        sent = self._http.send(h11.Request(method=method, target=target, headers=headers)) or b""
        if body:
            sent += self._http.send(h11.Data(data=body)) or b""
        sent += self._http.send(h11.EndOfMessage()) or b""
        # A server may answer and close the connection before it has read the whole request.
        with contextlib.suppress(ConnectionError):
            self._writer.write(sent)
            try:
                async with asyncio.timeout(WRITE_SECONDS):
                    await self._writer.drain()
            except TimeoutError as exc:
                raise Broken("it takes nothing more") from exc
        while not isinstance(event := await self.event(), h11.Response):
            if not isinstance(event, h11.InformationalResponse):
                raise Broken("there is no answer")
        return Response(event, self)

    async def event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Returns the next HTTP event from the server.

        Raises:
            Broken: the connection ended, was silent for `SILENCE_SECONDS`, or does not speak HTTP.
        """
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                async with asyncio.timeout(SILENCE_SECONDS):
                    self._http.receive_data(await self._reader.read(_READ_BYTES))
        except (OSError, h11.RemoteProtocolError) as exc:
            # At its end h11 would tell the names of its own states.
            raise Broken("the server closed it" if self._reader.at_eof() else _reason(exc)) from exc
        return event

    def renew(self) -> bool:
        """Prepares the connection for another request; returns `False` if it cannot take one."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        self._used = asyncio.get_running_loop().time()
        return True

    async def is_alive(self) -> bool:
        """Tells whether an idle connection can be used again.

        It must have been used within `IDLE_SECONDS`, and the server must have neither closed it nor sent
        data.
        """
        try:
            async with asyncio.timeout(0):
                await self._reader.read(1)
        except TimeoutError:
            return asyncio.get_running_loop().time() - self._used < IDLE_SECONDS
        except OSError:
            pass
        return False

    def close(self) -> None:
        """Closes the connection."""
        self._writer.close()


class Response:
    """The answer to one request. `kind` is its media type, in lower case without parameters."""

    def __init__(self, head: h11.Response, connection: _Connection) -> None:
        self.status = head.status_code
        self.headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
        self.kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        self._connection = connection
        self._body: bytes | None = None

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yields the body in pieces as they arrive."""
        while isinstance(event := await self._connection.event(), h11.Data):
            yield bytes(event.data)

    async def body(self) -> bytes:
        """Returns the whole body."""
        if self._body is None:
            self._body = b"".join([chunk async for chunk in self.chunks()])
        return self._body

    async def is_starting(self) -> bool:
        """Tells whether the server refused because a worker of it starts anew; then nothing was changed."""
        return self.status == 503 and b'"error": "starting"' in await self.body()

    async def finish(self) -> None:
        """Reads the rest of the body for at most a second, so that the connection can be used again."""
        with contextlib.suppress(Broken, TimeoutError):
            async with asyncio.timeout(1.0):
                await self.body()

    async def events(self) -> AsyncGenerator[bytes, None]:
        """Yields the data of each server-sent event that has any, as it arrives."""
        rest, data = b"", []
        async for chunk in self.chunks():
            *lines, rest = (rest + chunk).replace(b"\r\n", b"\n").split(b"\n")
            for line in lines:
                if line.startswith(b"data:"):
                    data.append(line[5:].removeprefix(b" "))
                elif not line and data:
                    yield b"\n".join(data)
                    data = []


def _reason(exc: Exception) -> str:
    return str(exc) or type(exc).__name__


def modern_headers(message: Message) -> list[tuple[str, str]]:
    """Returns the headers in which the modern generation repeats parts of the body; none for a legacy message."""
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
    """The state that the legacy generation keeps between requests."""

    def __init__(self) -> None:
        self.opening: Message | None = None
        self.session_id: str | None = None
        self.version: str | None = None
        self.subscribed: set[str] = set()

    def headers(self) -> list[tuple[str, str]]:
        """Returns the headers that name the session and its protocol version; none before the session is open."""
        headers = []
        if self.session_id is not None:
            headers.append(("Mcp-Session-Id", self.session_id))
            if self.version is not None:
                headers.append(("MCP-Protocol-Version", self.version))
        return headers

    def note(self, request: Message, result: Message, session_id: str | None) -> None:
        """Updates the state from a request and its result: the session, its version, and its subscriptions."""
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
    """Returns the message's parameters, or an empty map if it has none."""
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def _header(value: str) -> str:
    """Returns a value for a header, encoded in base64 if it could not be sent as it is."""
    safe = not value or _HEADER_SAFE.fullmatch(value) is not None
    if safe and not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    encoded = base64.b64encode(value.encode("utf-8", "replace")).decode()
    return f"=?base64?{encoded}?="
