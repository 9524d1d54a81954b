"""`blackboard-mcp connect URL`: a stdio server that only forwards messages to a server over HTTP.

It gives clients that can only start a process access to the shared server, through a small process each:
nothing heavy is imported. Knows the HTTP transports of both protocol generations, reads of the messages only
what it needs for their headers, and knows nothing of boards.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
from typing import TYPE_CHECKING, Any, Final

from ...protocols.names import check_name
from ..access.identity import check_bearer, how_to_reach, name_header, read_token
from ..mcp.lines import NO_ID, LineWriter, Oversized, is_notification, read_lines
from .http import (
    CONNECT_SECONDS,
    Broken,
    HttpClient,
    LegacySession,
    Message,
    Response,
    ServerUnreachable,
    modern_headers,
    params_of,
)

if TYPE_CHECKING:
    from pathlib import Path

START_SECONDS: Final = 10.0
NOTIFY_SECONDS: Final = 30.0
DRAIN_SECONDS: Final = 2.0
RECONNECT_SECONDS: Final = (0.1, 5.0)

_DESCRIPTION: Final = (
    "Join the blackboard server at URL, say http://127.0.0.1:8420/mcp, from a client that only starts local processes. "
    "It ends when its input ends. A bearer token is taken from --token-file, else from BLACKBOARD_TOKEN."
)
_STARTING: Final = frozenset({"initialize", "server/discover"})
_UNREACHABLE: Final = -32001
_BROKEN: Final = -32002
_REFUSED: Final = -32003
_PARSE_ERROR: Final = -32700
_INVALID_REQUEST: Final = -32600


async def relay(
    url: str,
    *,
    agent: str | None = None,
    owner: str | None = None,
    token: str | None = None,
    input_fd: int = 0,
    output_fd: int = 1,
) -> None:
    """Forwards messages between two descriptors and the server at `url` until the input ends.

    Raises:
        InvalidInput: `agent` or `owner` is not a name, `url` is not a server's address, or the token would go over the
            network in the clear.
    """
    headers = []
    if agent:
        headers.append(("X-Blackboard-Agent", name_header(check_name(agent))))
    if owner:
        headers.append(("X-Blackboard-Owner", name_header(check_name(owner))))
    if token:
        check_bearer(url, token)
        headers.append(("Authorization", f"Bearer {token}"))
    wire = _Relay(HttpClient(url, headers), input_fd, output_fd)
    await wire.run()


def main(url: str, agent: str | None = None, owner: str | None = None, token_file: Path | None = None) -> int:
    """Runs the relay as this process, and returns the exit status.

    The token is read from `token_file`, else from BLACKBOARD_TOKEN; the names of the agent and its owner come
    from BLACKBOARD_AGENT and BLACKBOARD_OWNER unless given.
    """
    agent = agent or os.environ.get("BLACKBOARD_AGENT") or None
    owner = owner or os.environ.get("BLACKBOARD_OWNER") or None
    try:
        token = read_token(token_file) if token_file else os.environ.get("BLACKBOARD_TOKEN") or None
        asyncio.run(relay(url, agent=agent, owner=owner, token=token))
    except KeyboardInterrupt:
        return 130
    except Exception as exc:
        print(f"blackboard-mcp connect: {exc}", file=sys.stderr)
        return 2
    return 0


def run() -> None:
    """Runs the program `blackboard-mcp-connect`, which is installed without the server."""
    from pathlib import Path

    parser = argparse.ArgumentParser("blackboard-mcp-connect", description=_DESCRIPTION)
    parser.add_argument("url", metavar="URL")
    parser.add_argument("--agent", metavar="NAME", help="Your agent's name on the board.")
    parser.add_argument("--owner", metavar="NAME", help="Whom your agent acts for (default itself).")
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE", help="Holds the access token, for you alone."
    )
    given = parser.parse_args()
    sys.exit(main(given.url, given.agent, given.owner, given.token_file))


Refusal = tuple[int, bytes]
"""The status and the body of an answer that refuses."""


class _Relay:
    def __init__(self, http: HttpClient, input_fd: int, output_fd: int) -> None:
        self._http = http
        self._input_fd = input_fd
        self._output = LineWriter(output_fd)
        self._writing = asyncio.Lock()
        self._calls: dict[int | str, asyncio.Task[None]] = {}
        self._gone = asyncio.Event()
        self._legacy = LegacySession()
        self._standing: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[Refusal | None] | None = None

    async def run(self) -> None:
        """Forwards messages until the client's input ends or its output is closed; then ends the session."""
        reading = asyncio.create_task(self._read())
        gone = asyncio.create_task(self._gone.wait())
        try:
            await asyncio.wait((reading, gone), return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
                listening = {"subscriptions/listen"}
                owed = [task for task in self._calls.values() if task.get_name() not in listening]
                if owed:
                    await asyncio.wait(owed, timeout=DRAIN_SECONDS)
        finally:
            await _stop(reading, gone, self._standing, self._renewing, *self._calls.values())
            with contextlib.suppress(ServerUnreachable, Broken, TimeoutError):
                async with asyncio.timeout(DRAIN_SECONDS):
                    await self._end_session()
            await self._http.close()
            self._output.close()

    # From the client

    async def _read(self) -> None:
        async for line in read_lines(self._input_fd):
            if isinstance(line, Oversized):
                text = "the line is too long for the server and was refused; send less in one call"
                await self._fail(line.request_id, _INVALID_REQUEST, text)
            elif line.strip():
                await self._take(line)

    async def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            await self._fail(None, _PARSE_ERROR, "Parse error: the line is not JSON")
            return
        if not isinstance(message, dict):
            await self._fail(None, _INVALID_REQUEST, "send one JSON-RPC message a line, no batches")
            return
        method, identifier = message.get("method"), message.get("id")
        if isinstance(method, str) and "id" in message and is_notification(method, identifier):
            del message["id"]
            line = json.dumps(message).encode()
        if isinstance(method, str) and "id" in message and not _is_id(identifier):
            await self._fail(None, _INVALID_REQUEST, NO_ID)
        elif isinstance(method, str) and isinstance(identifier, int | str):
            if method == "initialize":
                # Wait for the answer: later messages need the session that it opens.
                await self._call(message, line)
                return
            task = asyncio.create_task(self._call(message, line), name=method)
            self._calls[identifier] = task
            task.add_done_callback(lambda done: self._forget(identifier, done))
        elif method == "notifications/cancelled" and self._legacy.opening is None:
            # In the modern generation a call is cancelled by closing the stream of its answer.
            task_or_none = self._calls.get(params_of(message).get("requestId", ""))
            # Cancel only once: a second time would interrupt the closing.
            if task_or_none is not None and not task_or_none.cancelling():
                task_or_none.cancel()
        else:
            await self._notify(line)
            if method == "notifications/initialized" and self._standing is None:
                self._standing = asyncio.create_task(self._stand())

    def _forget(self, identifier: int | str, task: asyncio.Task[None]) -> None:
        if self._calls.get(identifier) is task:
            del self._calls[identifier]
        if not task.cancelled() and (exc := task.exception()) is not None:
            sys.stderr.write(f"blackboard-mcp connect: {exc!r}\n")

    async def _notify(self, line: bytes) -> None:
        """Sends a notification; they are sent one at a time, so that they keep their order.

        One is lost that comes while the server is away: calls that come after it must not wait for it.
        """
        try:
            async with asyncio.timeout(NOTIFY_SECONDS):
                headers = await self._session_headers()
                async with self._http.send("POST", headers, line, patience=0.0) as response:
                    await response.body()
        except (ServerUnreachable, Broken, TimeoutError) as exc:
            sys.stderr.write(f"blackboard-mcp connect: a notification was lost: {exc}\n")

    async def _call(self, message: Message, line: bytes) -> None:
        """Sends a request and writes the server's answer, or an error that says why there is none."""
        identifier = message["id"]
        try:
            renewed = await self._exchange(message, line)
            if renewed:
                await self._exchange(message, line, last=True)
        except ServerUnreachable as exc:
            advice = how_to_reach(str(exc)) or "; start one with: blackboard-mcp serve --transport http"
            text = f"no blackboard server answers at {self._http.url} ({exc}); nothing was sent{advice}"
            await self._fail(identifier, _UNREACHABLE, text)
        except (Broken, TimeoutError) as exc:
            text = (
                f"the connection to {self._http.url} ended before the answer ({exc}); the call may have been "
                "applied: read before repeating it, or repeat it with the same idempotency_key"
            )
            await self._fail(identifier, _BROKEN, text)
        except Exception as exc:
            await self._fail(identifier, _BROKEN, f"the relay could not carry the call: {exc!r}"[:300])

    async def _exchange(self, message: Message, line: bytes, *, last: bool = False) -> bool:
        """Sends a request and writes its answer; returns `True` if the session was renewed and it must be sent again.

        With `last`, the session is not renewed.
        """
        patience = START_SECONDS if message["method"] in _STARTING else CONNECT_SECONDS
        headers = modern_headers(message) or await self._session_headers()
        session = self._legacy.session_id
        async with self._http.send("POST", headers, line, patience=patience) as response:
            if response.status == 200 and response.kind == "text/event-stream":
                async with contextlib.aclosing(response.events()) as events:
                    async for data in events:
                        answered = self._note(message, response, data)
                        await self._write(data)
                        if answered:
                            await response.finish()
                            return False
                raise Broken("its stream ended")
            status, body = response.status, await response.body()
            refusal = None
            if status == 404 and session is not None and message["method"] != "initialize" and not last:
                refusal = await self._renew(session)
                if refusal is None:
                    return True
                status, body = refusal
            document = _document(body)
            if document is None or "jsonrpc" not in document:
                await self._refused(message["id"], status, document, body)
                return False
            if refusal is not None or document.get("id") is None:
                document["id"] = message["id"]
                body = json.dumps(document).encode()
            self._note(message, response, body)
            await self._write(body)
            return False

    async def _refused(
        self, identifier: int | str, status: int, document: Message | None, body: bytes
    ) -> None:
        facts = document or {}
        text = str(facts.get("message") or body[:200].decode("utf-8", "replace") or "no explanation")
        await self._fail(
            identifier, _REFUSED, f"the server answered {status}: {text}", {**facts, "status": status}
        )

    def _note(self, message: Message, response: Response, data: bytes) -> bool:
        """Tells whether `data` is the answer to the request; if so, updates the legacy session from it."""
        document = _document(data)
        if document is None or "method" in document or document.get("id") != message["id"]:
            return False
        result = document.get("result")
        if isinstance(result, dict):
            self._legacy.note(message, result, response.headers.get("mcp-session-id"))
        return True

    # The legacy session

    async def _session_headers(self) -> list[tuple[str, str]]:
        """Returns the session's headers, after waiting for a renewal of the session to end."""
        if self._renewing is not None:
            await asyncio.wait([self._renewing])
        return self._legacy.headers()

    async def _renew(self, lost: str) -> Refusal | None:
        """Opens a new session in place of one that the server no longer knows; returns its refusal, if it refuses.

        All who miss the session meanwhile wait for the same attempt.
        """
        if self._legacy.session_id != lost:
            return None
        if self._renewing is None:
            self._renewing = asyncio.create_task(self._open_again())
            self._renewing.add_done_callback(self._renewed)
        return await asyncio.shield(self._renewing)

    def _renewed(self, task: asyncio.Task[Refusal | None]) -> None:
        self._renewing = None
        if not task.cancelled():
            task.exception()  # marks it as retrieved, or asyncio would log it

    async def _open_again(self) -> Refusal | None:
        """Opens a session as the client opened the first one, and subscribes again to what it subscribed to."""
        opening = self._legacy.opening
        assert opening is not None
        # The lost id is kept until there is a new one: after a failure here the next call tries again.
        refusal = await self._quiet(opening, headers=[], patience=START_SECONDS)
        if refusal is not None:
            return refusal
        await self._quiet({"jsonrpc": "2.0", "method": "notifications/initialized"})
        for number, uri in enumerate(sorted(self._legacy.subscribed)):
            await self._quiet(
                {
                    "jsonrpc": "2.0",
                    "id": f"relay-{number}",
                    "method": "resources/subscribe",
                    "params": {"uri": uri},
                }
            )
        return None

    async def _quiet(
        self,
        message: Message,
        headers: list[tuple[str, str]] | None = None,
        *,
        patience: float = CONNECT_SECONDS,
    ) -> Refusal | None:
        """Sends a message of the relay's own and drops the answer; returns the server's refusal, if it refuses."""
        headers = self._legacy.headers() if headers is None else headers
        line = json.dumps(message).encode()
        async with asyncio.timeout(NOTIFY_SECONDS):
            async with self._http.send("POST", headers, line, patience=patience) as response:
                if response.kind != "text/event-stream":
                    body = await response.body()
                    if response.status < 400 and self._note_quietly(message, response, body):
                        return None
                    return response.status, body
                async with contextlib.aclosing(response.events()) as events:
                    async for data in events:
                        if self._note_quietly(message, response, data):
                            return None
                return response.status, b"its stream ended"

    def _note_quietly(self, message: Message, response: Response, data: bytes) -> bool:
        return "id" not in message or self._note(message, response, data)

    async def _stand(self) -> None:
        """Keeps the legacy generation's standing stream open, and forwards its messages to the client."""
        shortest, longest = RECONNECT_SECONDS
        pause, first = shortest, True
        while (session := self._legacy.session_id) is not None:
            headers = [*self._legacy.headers(), ("Accept", "text/event-stream")]
            try:
                async with self._http.send("GET", headers, b"") as response:
                    if response.status == 405:
                        return
                    if response.status == 200:
                        if not first:
                            await self._tell_changed()
                        first, pause = False, shortest
                        async for data in response.events():
                            await self._write(data)
                    else:
                        await response.body()
                if response.status == 404:
                    await self._renew(session)
            except (ServerUnreachable, Broken, TimeoutError):
                pass
            await asyncio.sleep(pause)
            pause = min(pause * 2, longest)

    async def _tell_changed(self) -> None:
        """Notifies the client of all subscribed resources: they may have changed while the stream was down."""
        for uri in sorted(self._legacy.subscribed):
            notice = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}}
            await self._write(json.dumps(notice).encode())

    async def _end_session(self) -> None:
        if self._legacy.session_id is not None:
            async with self._http.send("DELETE", self._legacy.headers(), b"", patience=0.0) as response:
                await response.body()

    # To the client

    async def _fail(
        self, identifier: int | str | None, code: int, text: str, data: Message | None = None
    ) -> None:
        error: Message = {"code": code, "message": text}
        if data is not None:
            error["data"] = data
        await self._write(json.dumps({"jsonrpc": "2.0", "id": identifier, "error": error}).encode())

    async def _write(self, data: bytes) -> None:
        line = data if b"\n" not in data and b"\r" not in data else json.dumps(json.loads(data)).encode()
        async with self._writing:
            try:
                await self._output.write(line + b"\n")
            except OSError:
                self._gone.set()


def _is_id(value: Any) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)


def _document(data: bytes) -> Message | None:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


async def _stop(*tasks: asyncio.Task[Any] | None) -> None:
    running = [task for task in tasks if task is not None and not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running, timeout=DRAIN_SECONDS)
