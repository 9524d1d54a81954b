"""Agents that ask each other from servers of their own on one file: killed, resumed, taken over, each answered once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.server.demo.process import http_clients, http_server, stdio_clients
from blackboard_mcp.server.demo.replay import ToolFailed, call, connected, events, say
from patience import PATIENCE

TOOLS = ("--tools", "core,messages")
ASKERS, WORKERS = 20, 5
MODES = ["legacy", "2026-07-28"]


async def opened(client: Any, id_: str = "Q-1") -> dict[str, Any]:
    """The request, as soon as it is on the board."""
    async with asyncio.timeout(PATIENCE):
        while True:
            listed = await call(client, "respond")
            for request in listed["waiting"]:
                if request["id"] == id_:
                    return dict(request)
            await call(client, "wait", since=listed["seq"], seconds=0.5)


@pytest.mark.parametrize("mode", MODES)
async def test_asker_and_responder_in_two_processes_on_one_file(tmp_path: Path, mode: str) -> None:
    heard: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(str(message))

    async with connected(stdio_clients(tmp_path, *TOOLS, mode=mode), ("ann", "ben")) as clients:
        arguments = {"text": "Which pump?", "to": "ben", "seconds": 50}
        asking = asyncio.create_task(
            clients["ann"].call_tool(
                "request", arguments, meta={"blackboard/structured": True}, progress_callback=hear
            )
        )
        await opened(clients["ben"])
        assert "Which pump?" in await say(clients["ben"], "read")
        await call(clients["ben"], "respond", id="Q-1", text="Two of them would do.", partial=True)
        async with asyncio.timeout(PATIENCE):
            while not any("Two of them would do." in message for message in heard):
                await call(clients["ben"], "wait", seconds=0.1)
        await call(clients["ben"], "respond", id="Q-1", text="I take the blue one.")
        async with asyncio.timeout(PATIENCE):
            answer = (await asking).structured_content
        assert answer is not None
        assert answer["answer"]["text"] == "Two of them would do.\nI take the blue one."


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")
async def test_an_asker_killed_while_it_waits_resumes_by_id(tmp_path: Path) -> None:
    async with http_server(tmp_path, *TOOLS) as answering, http_clients(answering.url)("ben") as ben:
        async with http_server(tmp_path, *TOOLS) as asking:

            async def ask() -> None:
                async with http_clients(asking.url)("ann") as ann:
                    await call(ann, "request", text="Which pump?", to="ben", seconds=50)

            waiting = asyncio.create_task(ask())
            await opened(ben)
            assert not waiting.done()
            os.kill(asking.pid, signal.SIGKILL)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        await call(ben, "respond", id="Q-1", text="The blue one.")
        async with (
            http_server(tmp_path, *TOOLS) as again,
            http_clients(again.url, mode="legacy")("ann") as ann,
        ):
            answer = await call(ann, "request", id="Q-1")
            assert (answer["request"]["state"], answer["answer"]["text"]) == ("ANSWERED", "The blue one.")


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")
async def test_a_responder_killed_at_work_is_followed_by_another(tmp_path: Path) -> None:
    lease = ("--board-settings", json.dumps({"request_lease_seconds": 2}))
    async with (
        http_server(tmp_path, *TOOLS, *lease) as server,
        connected(http_clients(server.url), ("ann", "cyd")) as clients,
    ):
        async with http_server(tmp_path, *TOOLS, *lease) as dying, http_clients(dying.url)("ben") as ben:
            await call(ben, "respond", skills=["pumps"], seconds=0)
            await call(clients["ann"], "request", text="Which?", to="skill:pumps", seconds=0)
            taken = await call(ben, "respond", skills=["pumps"], seconds=20)
            old = taken["request"]["lease"]
            await call(ben, "respond", id="Q-1", text="Let me see", partial=True, lease=old)
            os.kill(dying.pid, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE):
            found = await call(clients["cyd"], "respond", skills=["pumps"], seconds=30)
        assert (found["request"]["id"], found["request"]["holder"]) == ("Q-1", "cyd")
        assert found["request"]["lease"] > old
        async with http_clients(server.url)("ben") as ben:
            with pytest.raises(ToolFailed, match="cyd has Q-1"):
                await call(ben, "respond", id="Q-1", text="The red one.", lease=old)
        await call(clients["cyd"], "respond", id="Q-1", text="The blue one.", lease=found["request"]["lease"])
        answer = await call(clients["ann"], "request", id="Q-1")
        assert answer["answer"]["text"] == "The blue one."
        told = Counter(e["event"] for e in await events(clients["ann"], "main"))
        assert (told["request.taken"], told["request.released"], told["request.answered"]) == (2, 1, 1)


async def test_twenty_askers_and_five_workers_each_request_answered_exactly_once(tmp_path: Path) -> None:
    answers: dict[str, str] = {}
    done: Counter[str] = Counter()
    over = asyncio.Event()

    async with http_server(tmp_path, *TOOLS) as one, http_server(tmp_path, *TOOLS) as two:
        connects = (http_clients(one.url), http_clients(two.url, mode="legacy"))

        async def work(name: str, place: int) -> None:
            async with connects[place % 2](name) as client:
                while not over.is_set():
                    found = await call(client, "respond", skills=["sums"], seconds=1)
                    if "request" not in found:
                        continue
                    id_, lease = found["request"]["id"], found["request"]["lease"]
                    question = found["question"]["text"]
                    await call(client, "respond", id=id_, text=f"{name}:", partial=True, lease=lease)
                    await call(client, "respond", id=id_, text=f"{question} is known", lease=lease)
                    done[id_] += 1

        async def ask(name: str, place: int) -> None:
            async with connects[place % 2](name) as client:
                answer = await call(client, "request", text=f"sum of {name}", to="skill:sums", seconds=50)
                assert answer["request"]["state"] == "ANSWERED", answer
                answers[name] = answer["answer"]["text"]

        workers = [asyncio.create_task(work(f"worker{n}", n)) for n in range(WORKERS)]
        async with asyncio.timeout(90):
            await asyncio.gather(*(ask(f"asker{n}", n) for n in range(ASKERS)))
        over.set()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*workers)
        async with connects[0]("zoe") as client:
            log = await events(client, "main")
    assert [event["seq"] for event in log] == list(range(1, len(log) + 1))
    assert len(done) == ASKERS
    assert set(done.values()) == {1}
    for name, text in answers.items():
        worker, _, rest = text.partition(":\n")
        assert worker.startswith("worker"), text
        assert rest == f"sum of {name} is known"
    told = Counter((e["event"], e["item"]) for e in log if e["event"].startswith("request."))
    assert {count for (event, _), count in told.items() if event != "request.released"} == {1}
