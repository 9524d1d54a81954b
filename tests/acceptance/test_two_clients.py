"""Two agents in processes of their own on one data folder: what each sees of the other, and what not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import mcp.types as types
import pytest
from blackboard_mcp.server.demo.process import Serving, command, environment, plainly
from blackboard_mcp.server.demo.replay import STRUCTURED, ToolFailed, call, events, resource, say
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated
from patience import PATIENCE

LEGACY, MODERN = "legacy", "2026-07-28"
pytestmark = pytest.mark.filterwarnings("ignore:resources/(un)?subscribe is removed")
both_generations = pytest.mark.parametrize("mode", [LEGACY, MODERN])
both_ways = pytest.mark.parametrize("way", ["stdio", "connect"])


class Inbox:
    """URIs of the resources a legacy client was told of."""

    def __init__(self) -> None:
        self.uris: asyncio.Queue[str] = asyncio.Queue()

    async def __call__(self, message: object) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            self.uris.put_nowait(str(message.params.uri))


class Agent:
    """A connected client with the board that it works on."""

    def __init__(self, client: Client, inbox: Inbox, board: str) -> None:
        self.client, self.inbox, self.board = client, inbox, board

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await call(self.client, tool, board=self.board, **arguments)

    async def post(self, text: str, **arguments: Any) -> str:
        answer = await self.call("post", text=text, **arguments)
        id_: str = answer["items"][0]["id"]
        return id_

    @asynccontextmanager
    async def listening(self, uri: str) -> AsyncIterator[Awaitable[str]]:
        """Subscribed to a resource; await what is yielded for the next URI told of."""
        if self.client.protocol_version != MODERN:
            await self.client.subscribe_resource(uri)
            yield asyncio.wait_for(self.inbox.uris.get(), PATIENCE)
            return
        async with self.client.listen(resource_subscriptions=[uri]) as stream:

            async def heard() -> str:
                async with asyncio.timeout(PATIENCE):
                    async for event in stream:
                        assert isinstance(event, ResourceUpdated)
                        return str(event.uri)
                raise AssertionError("the stream ended")

            yield heard()


@asynccontextmanager
async def local(
    way: str, served: Serving, data: Path, mode: str, board: str, agent: str
) -> AsyncIterator[Agent]:
    """An agent on a process of its own: a stdio server on the same folder, or the relay to the server."""
    if way == "stdio":
        words = command("serve", "--transport", "stdio", "--data", str(data), "--agent", agent)
    else:
        words = command("connect", served.url, "--agent", agent)
    program = StdioServerParameters(command=words[0], args=words[1:], env=environment())
    inbox = Inbox()
    async with plainly(Client(stdio_client(program), mode=mode, message_handler=inbox)) as client:
        yield Agent(client, inbox, board)


@asynccontextmanager
async def remote(served: Serving, mode: str, board: str, agent: str) -> AsyncIterator[Agent]:
    """An agent over HTTP."""
    inbox = Inbox()
    headers = {"X-Blackboard-Agent": agent}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE, trust_env=False, verify=False) as http,
        plainly(
            Client(streamable_http_client(served.url, http_client=http), mode=mode, message_handler=inbox)
        ) as client,
    ):
        yield Agent(client, inbox, board)


@pytest.fixture
def board() -> str:
    return f"board-{uuid4().hex[:12]}"


@both_generations
@both_ways
async def test_each_sees_the_others_post_by_waiting_and_by_notification(
    served: Serving, data: Path, board: str, way: str, mode: str
) -> None:
    async with (
        local(way, served, data, mode, board, "alice") as alice,
        remote(served, mode, board, "bob") as bob,
    ):
        await alice.post("the board begins")
        for sender, hearer, name in ((alice, bob, "bob"), (bob, alice, "alice")):
            seq = (await hearer.call("wait", since=0, seconds=0))["seq"]
            waiting = asyncio.create_task(hearer.call("wait", since=seq, seconds=20))
            async with hearer.listening(f"board://{board}/working") as heard:
                id_ = await sender.post(f"news for @{name}")
                assert await heard == f"board://{board}/working"
            news = await asyncio.wait_for(waiting, PATIENCE)
            assert [event["item"] for event in news["events"]] == [id_]
            page = await hearer.call("query", limit=1)
            assert page["items"][0]["text"] == f"news for @{name}"
        assert [i["author"] for i in (await alice.call("query"))["items"]] == ["bob", "alice", "alice"]


@both_generations
@both_ways
async def test_a_critique_is_answered_and_settled_across_processes(
    served: Serving, data: Path, board: str, way: str, mode: str
) -> None:
    async with (
        local(way, served, data, mode, board, "alice") as alice,
        remote(served, mode, board, "bob") as bob,
    ):
        claim = await alice.post("it is 42", type="HYPOTHESIS")
        critique = await bob.post("it is 41", type="CRITIQUE", edges={"critiques": [claim]})
        status = await alice.call("debate", op="status", id=claim)
        assert status["state"] == "OPEN"
        owed = {(o["agent"], o["item"], o["duty"]) for o in status["outstanding"]}
        assert owed == {("alice", critique, "respond")}
        with pytest.raises(ToolFailed, match="has no answer yet"):
            await bob.call("debate", op="acknowledge", id=claim)
        assert f"you owe: answer {critique}" in await say(alice.client, "query", board=board)
        assert (
            "debate on" in (await resource(alice.client, f"board://{board}/items/{claim}.json"))["protected"]
        )

        await alice.post("counted again: 42", type="REPLY", edges={"replies_to": [critique]})
        status = await bob.call("debate", op="status", id=claim)
        assert [(o["agent"], o["duty"]) for o in status["outstanding"]] == [("bob", "acknowledge")]
        with pytest.raises(ToolFailed, match="nobody decides or confirms in its own favour"):
            await alice.call("debate", op="decide", outcome="stands", id=claim, reason="I am right")

        closed = await bob.call("debate", op="acknowledge", id=claim)
        assert closed["state"] == "CONSENSUS"
        assert (await alice.call("debate", op="status", id=claim))["state"] == "CONSENSUS"
        assert (await resource(alice.client, f"board://{board}/items/{claim}.json"))["protected"] is None
        kinds = [event["event"] for event in await events(alice.client, board)]
        assert kinds.count("debate.opened") == kinds.count("debate.closed") == 1


@both_generations
async def test_results_are_structured_on_request_only(served: Serving, board: str, mode: str) -> None:
    async with remote(served, mode, board, "bob") as bob:
        await bob.post("a fact")
        for tool, arguments in {
            "read": {},
            "query": {},
            "query_archive": {"text": "fact"},
            "subscribe": {},
            "wait": {"since": 0, "seconds": 0},
            "debate": {"op": "status", "id": "1"},
            "post": {"text": "another"},
        }.items():
            plain = await bob.client.call_tool(tool, {"board": board, **arguments})
            asked = await bob.client.call_tool(tool, {"board": board, **arguments}, meta=STRUCTURED)
            assert (plain.is_error, plain.structured_content) == (False, None), tool
            assert asked.structured_content is not None, tool
            assert asked.structured_content["seq"] >= 2, tool
        wrong = await bob.client.call_tool("debate", {"op": "status", "id": "999"}, meta=STRUCTURED)
        assert wrong.is_error
        assert wrong.structured_content is not None
        assert wrong.structured_content["error"] == "not_found"


RESOURCES = (
    "",
    "/core",
    "/working",
    "/agenda",
    "/threads",
    "/agents",
    "/constraints",
    "/hot-issues",
    "/answer",
    "/stats",
    "/outline",
    "/events",
    "/view/alice",
    "/view/bob",
)


async def everything(agent: Agent, numbers: range, words: str) -> str:
    """All that an agent can get to see of a board, by every tool and resource, errors and completions too."""
    told: list[str] = []
    board = agent.board
    ids = [str(number) for number in numbers]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read", {}),
        ("read", {"budget": 100_000}),
        ("read", {"ids": ids}),
        ("read", {"keys": ["hidden/key"]}),
        ("read", {"since": 0, "budget": 100_000}),
        ("query", {"zone": "all", "limit": 200}),
        ("query", {"zone": "all", "text": words}),
        ("query", {"zone": "all", "key": "**"}),
        ("query", {"zone": "all", "author": "bob"}),
        ("query", {"zone": "archive"}),
        ("query_archive", {}),
        ("query_archive", {"text": words, "limit": 100}),
        ("query_archive", {"text": " ".join(f"F-{n}" for n in numbers), "limit": 100}),
        ("query_archive", {"text": words, "restore": True}),
        ("subscribe", {}),
        ("wait", {"since": 0, "seconds": 0, "limit": 200}),
        *(("query", {"zone": "all", "thread": id_}) for id_ in ids),
        *(("debate", {"op": "status", "id": id_}) for id_ in ids),
        *(("debate", {"op": "open", "id": id_}) for id_ in ids[:1]),
        *(("post", {"text": "x", "edges": {"replies_to": [id_]}}) for id_ in ids[:1]),
        *(("post", {"id": id_, "tags": ["mine"]}) for id_ in ids),
    ]
    for tool, arguments in calls:
        for meta in (STRUCTURED, None):
            result = await agent.client.call_tool(tool, {**arguments, "board": board}, meta=meta)
            told += [part.text for part in result.content if isinstance(part, types.TextContent)]
            told.append(json.dumps(result.structured_content, ensure_ascii=False))
    for path in (*RESOURCES, *(f"/items/{id_}" for id_ in ids)):
        for ending in ("", ".json"):
            try:
                found = await agent.client.read_resource(f"board://{board}{path}{ending}")
                told += [p.text for p in found.contents if isinstance(p, types.TextResourceContents)]
            except MCPError as error:
                told.append(f"{error} {error.error.data}")
    template = types.ResourceTemplateReference(uri="board://{board}/items/{id}")
    completed = await agent.client.complete(
        template, {"name": "id", "value": ""}, context_arguments={"board": board}
    )
    told += completed.completion.values
    return "\n".join(told)


@both_ways
async def test_what_is_private_reaches_nobody_else_by_any_tool_or_resource(
    served: Serving, data: Path, board: str, way: str
) -> None:
    secret = f"zanzibar{uuid4().hex[:6]}"
    async with (
        local(way, served, data, MODERN, board, "alice") as alice,
        remote(served, MODERN, board, "bob") as bob,
    ):
        public = await alice.post("everybody knows of marmalade")
        stats = await resource(alice.client, f"board://{board}/stats.json")
        hidden: dict[str, Any] = {"visibility": "private", "tags": [secret], "metadata": {secret: secret}}
        await bob.post(f"marmalade spoon {secret}", **hidden)
        await bob.post(f"marmalade spoon {secret} again", key=f"hidden/{secret}", **hidden)
        await bob.post(f"marmalade spoon {secret} once more", key=f"hidden/{secret}", **hidden)
        await bob.post(f"no marmalade {secret}", type="CRITIQUE", edges={"critiques": [public]}, **hidden)
        await bob.post(f"fleeting marmalade spoon {secret}", ttl_seconds=0.01, **hidden)
        archived = await bob.call("subscribe", filter={"event": "item.expired"})
        assert (await bob.call("wait", subscription=archived["id"], since=0, seconds=20))["events"]

        assert (await alice.call("debate", op="status", id=public))["state"] is None
        agents = (await resource(alice.client, f"board://{board}/agents.json"))["agents"]
        assert [(agent["name"], agent["posts"]) for agent in agents] == [("alice", 1), ("bob", 0)]
        figures = await resource(alice.client, f"board://{board}/stats.json")
        del stats["seq"], figures["seq"]
        assert figures == stats

        assert secret in await everything(bob, range(1, 8), "marmalade spoon")
        assert secret not in await everything(alice, range(1, 8), "marmalade spoon")


async def test_boards_do_not_leak_into_each_other(served: Serving, data: Path, board: str) -> None:
    other, marker = f"{board}-2", f"quokka{uuid4().hex[:6]}"
    async with remote(served, MODERN, board, "bob") as bob, remote(served, MODERN, other, "bob") as elsewhere:
        first = await bob.post(f"{marker} lives here", key="animal", tags=[marker], type="FACT")
        await bob.post(f"no, {marker} does not", type="CRITIQUE", edges={"critiques": [first]})
        held = await bob.call("subscribe", filter={"tags": [marker]}, name=marker)
        await elsewhere.post("nothing to see", key="animal")
        with pytest.raises(ToolFailed, match="No item 2"):
            await elsewhere.post("across", edges={"depends_on": ["2"]})
        assert marker in await everything(bob, range(1, 4), "lives here")
        assert marker not in await everything(elsewhere, range(1, 4), "lives here")
        assert (await elsewhere.call("read", keys=["animal"]))["items"][0]["text"] == "nothing to see"
        with pytest.raises(ToolFailed, match="hold no subscription"):
            await elsewhere.call("wait", subscription=held["id"], seconds=0)
        assert [e["seq"] for e in await events(elsewhere.client, other)][:2] == [1, 2]
