"""Requests of sessions that one worker passes on to another: no answer is lost between them."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from typing import Any

import pytest
from blackboard_mcp.server.http.gate import MCP_PATH
from blackboard_mcp.server.http.passing import SessionsElsewhere, _packed, answer_passed
from blackboard_mcp.server.http.run import new_event_loop

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no workers there")
SCOPE: dict[str, Any] = {
    "type": "http",
    "asgi": {"version": "3.0"},
    "http_version": "1.1",
    "method": "POST",
    "scheme": "http",
    "path": MCP_PATH,
    "root_path": "",
    "raw_path": MCP_PATH.encode(),
    "query_string": b"",
    "headers": [],
    "client": ("127.0.0.1", 9),
    "server": ("127.0.0.1", 8420),
}


async def test_an_answer_given_before_the_body_was_read_is_not_lost() -> None:
    passed: list[threading.Thread] = []

    async def refuse(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 403, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"no"})

    def pass_on(request: socket.socket) -> None:
        held = request.dup()
        passed.append(threading.Thread(target=lambda: asyncio.run(answer_passed(held, refuse, {}))))
        passed[0].start()

    asked = False

    async def receive() -> Any:
        nonlocal asked
        if asked:
            await asyncio.Event().wait()  # the client stays
        asked = True
        # Holds up this side until the other has answered, and has closed its end if it does so at once.
        passed[0].join(1)
        return {"type": "http.request", "body": b"x" * 1_000, "more_body": False}

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await SessionsElsewhere(refuse, opens_session=lambda _: True, pass_on=pass_on)(SCOPE, receive, send)
    await asyncio.to_thread(passed[0].join)
    assert [message.get("status") or message["body"] for message in sent] == [403, b"no"]


def test_who_asked_may_be_gone_before_the_answer_ends(caplog: pytest.LogCaptureFixture) -> None:
    ours, theirs = socket.socketpair()
    ours.sendall(_packed(SCOPE))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        ours.close()
        assert await receive() == {"type": "http.disconnect"}
        for _ in range(3):
            await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
            await asyncio.sleep(0.01)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(answer_passed(theirs, app, {}))
    assert [record.getMessage() for record in caplog.records] == []
