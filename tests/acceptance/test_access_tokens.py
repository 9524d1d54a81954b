"""Access tokens against real servers: two processes on one data folder, clients of both generations."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from blackboard_mcp.protocols.access import Role
from blackboard_mcp.protocols.errors import Refused
from blackboard_mcp.server import compose
from blackboard_mcp.server.access.tokens import new_access_token
from blackboard_mcp.server.demo.process import Serving, command, environment, plainly
from blackboard_mcp.server.demo.replay import call
from blackboard_mcp.server.http.auth.failures import PAUSE_SECONDS
from blackboard_mcp.server.http.auth.stored import REMEMBERED_SECONDS
from blackboard_mcp.server.http.open_requests import SWEEP_SECONDS
from blackboard_mcp.server.settings.server import Settings
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ResourceTemplateReference
from patience import PATIENCE

LEGACY, MODERN = "legacy", "2026-07-28"
pytestmark = pytest.mark.filterwarnings("ignore:resources/(un)?subscribe is removed")
both_generations = pytest.mark.parametrize("mode", [LEGACY, MODERN])
PROMISED = 5.0
"""Seconds until an end of a token has taken effect everywhere."""

ASKING = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/list",
    "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    },
}
ASKED = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": MODERN,
    "Mcp-Method": "tools/list",
}


async def issue(
    data: Path, agent: str = "alice", seconds: float | None = None, owner: str = "", board: str = "*"
) -> str:
    """The text of a new token, made as the command does."""
    now = datetime.now(UTC)
    ends = None if seconds is None else now + timedelta(seconds=seconds)
    made, text = new_access_token(
        agent=agent, owner=owner or agent, roles={board: Role.CONTRIBUTOR}, now=now, expires_at=ends
    )
    async with compose.credentials(Settings(data=data)) as store:
        await store.add_token(made)
    return text


async def issue_when_over(data: Path, agent: str, owner: str) -> str:
    """The text of a new token for an agent whose former tokens had it act for somebody else, as soon as it is made."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await issue(data, agent, owner=owner)
            except Refused:
                await asyncio.sleep(0.05)


async def run_token(data: Path, *words: str) -> str:
    """What `blackboard-mcp token …` prints."""
    process = await asyncio.create_subprocess_exec(
        *command("token", *words, "--data", str(data)), stdout=asyncio.subprocess.PIPE, env=environment()
    )
    said, _ = await process.communicate()
    assert process.returncode == 0
    return said.decode()


@pytest.fixture(scope="module")
def said() -> list[str]:
    """What the servers say on standard error."""
    return []


@pytest.fixture(scope="module")
def servers(data: Path, start: Callable[..., Serving], said: list[str]) -> tuple[Serving, Serving]:
    """Two server processes on one data folder in which there is a token; they log all that they can."""
    asyncio.run(issue(data, "first"))
    with ThreadPoolExecutor() as threads:
        one, other = threads.map(lambda _: start(data, "--log-level", "DEBUG", said=said), range(2))
    return one, other


@asynccontextmanager
async def http(served: Serving, token: str | None, **headers: str) -> AsyncIterator[httpx2.AsyncClient]:
    base = served.url.removesuffix("/mcp")
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    shown = named if token is None else {**named, "Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(
        base_url=base, headers=shown, timeout=PATIENCE, trust_env=False, verify=False
    ) as client:
        yield client


@asynccontextmanager
async def joined(served: Serving, token: str, mode: str, inbox: Any = None) -> AsyncIterator[Client]:
    async with (
        http(served, token) as client,
        plainly(
            Client(streamable_http_client(served.url, http_client=client), mode=mode, message_handler=inbox)
        ) as member,
    ):
        yield member


async def ask(client: httpx2.AsyncClient) -> httpx2.Response:
    return await client.post("/mcp", json=ASKING, headers=ASKED)


async def until_refused(client: httpx2.AsyncClient) -> httpx2.Response:
    async with asyncio.timeout(PATIENCE):
        while (answer := await ask(client)).status_code == 200:
            pass
    return answer


async def test_without_a_token_no_route_shows_anything_but_that_the_server_is_up(
    servers: tuple[Serving, Serving],
) -> None:
    async with http(servers[0], None, X_Blackboard_Agent="alice") as client:
        for answer in (
            await ask(client),
            await client.get("/mcp"),
            await client.delete("/mcp", headers={"Mcp-Session-Id": "x"}),
            await client.get("/boards/main/events"),
            await client.get("/boards/none/events"),
            await client.get("/"),
        ):
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == 'Bearer realm="blackboard"'
            told = answer.json()
            error = told["error"]
            code, message = (
                (error["data"]["error"], error["message"])
                if isinstance(error, dict)
                else (error, told["message"])
            )
            assert code == "unauthorized"
            assert "blackboard-mcp token create" in message
        up = await client.get("/healthz")
    assert (up.status_code, up.json()) == (200, {"status": "ok"})


async def test_a_token_that_does_not_count_is_answered_alike_for_every_reason(
    servers: tuple[Serving, Serving], data: Path
) -> None:
    good, other = await issue(data), await issue(data)
    revoked, expired = await issue(data), await issue(data, seconds=0.01)
    await run_token(data, "revoke", revoked.split("_")[1])
    wrong = {
        "another's secret": good[:17] + other[17:],
        "unknown": good[:4] + "0" * 12 + good[16:],
        "expired": expired,
        "revoked": revoked,
        "no token of ours": "x" * 40,
    }

    answers = set()
    for token in wrong.values():
        async with http(servers[0], token) as client:
            for answer in (await ask(client), await client.get("/boards/main/events")):
                headers = {k: v for k, v in answer.headers.items() if k != "date"}
                answers.add((answer.status_code, answer.text, json.dumps(headers)))
    assert len(answers) == 2, answers
    assert {status for status, _, _ in answers} == {401}
    assert all('error=\\"invalid_token\\"' in headers for _, _, headers in answers)
    async with http(servers[0], good) as client:
        assert (await ask(client)).status_code == 200


@both_generations
async def test_I26_the_author_is_whose_token_it_is(
    servers: tuple[Serving, Serving], data: Path, mode: str
) -> None:
    agent = f"carol-{mode}"
    token = await issue(data, agent, owner="acme")
    async with joined(servers[0], token, mode) as client:
        posted = await call(client, "post", text=f"by {agent}")
        read = await call(client, "read", ids=[posted["items"][0]["id"]])
    assert read["items"][0]["author"] == agent
    for header, name in (("X-Blackboard-Agent", "dave"), ("X-Blackboard-Owner", "dave")):
        async with http(servers[0], token, **{header: name}) as client:
            answer = await ask(client)
            assert answer.status_code == 403
            assert "token alone" in answer.json()["error"]["message"]
            assert (await client.get("/boards/main/events")).status_code == 403
    async with http(servers[0], token, X_Blackboard_Agent=agent, X_Blackboard_Owner="acme") as client:
        assert (await ask(client)).status_code == 200


class Open:
    """Whatever a client can hold open, each a task that ends when the server ends it."""

    def __init__(self, client: Client, raw: httpx2.AsyncClient, mode: str) -> None:
        self.client, self.raw, self.mode = client, raw, mode
        self.ready = asyncio.Event()

    async def notifications(self) -> None:
        uri = "board://main"
        if self.mode == MODERN:
            with contextlib.suppress(Exception):
                async with self.client.listen(resource_subscriptions=[uri]) as stream:
                    self.ready.set()
                    async for _ in stream:
                        pass
            return
        initialize = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        }
        accept = {"Accept": "application/json, text/event-stream"}
        opened = await self.raw.post(
            "/mcp",
            json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize},
            headers=accept,
        )
        session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]} | accept
        async with self.raw.stream("GET", "/mcp", headers=session) as stream:
            assert stream.status_code == 200
            self.ready.set()
            async for _ in stream.aiter_raw():
                pass

    async def events(self) -> None:
        async with self.raw.stream("GET", "/boards/main/events") as stream:
            assert stream.status_code == 200
            async for _ in stream.aiter_raw():
                self.ready.set()

    async def waiting(self) -> None:
        seq = (await call(self.client, "read"))["seq"]
        self.ready.set()
        try:
            answer = await call(self.client, "wait", since=seq, seconds=50)
        except Exception:
            return
        raise AssertionError(f"waiting ended with an answer: {answer}")


async def heard(client: Client, seq: int) -> list[Any]:
    """The events after `seq`, however long none comes."""
    while not (events := (await call(client, "wait", since=seq, seconds=50))["events"]):
        pass
    return list(events)


def test_the_looks_at_a_token_add_up_to_less_than_is_promised() -> None:
    assert REMEMBERED_SECONDS + SWEEP_SECONDS < PROMISED


@both_generations
async def test_completions_and_errors_name_nothing_of_the_default_board_that_a_token_does_not_reach(
    servers: tuple[Serving, Serving], data: Path, mode: str
) -> None:
    lonely, writer = f"lonely-{mode}", f"kim-{mode}"
    async with (
        joined(servers[0], await issue(data, writer), mode) as client,
        joined(servers[0], await issue(data, f"lee-{mode}", board=lonely), mode) as other,
    ):
        for _ in range(3):
            await call(client, "post", text="hidden", type="PLAN", board="main")
        await call(client, "post", text="shown", type="DECISION", board=lonely)

        async def completed(name: str, **context: str) -> list[str]:
            item = ResourceTemplateReference(type="ref/resource", uri="board://{board}/items/{id}")
            found = await other.complete(item, {"name": name, "value": ""}, context_arguments=context or None)
            return list(found.completion.values)

        assert await completed("board") == [lonely]
        assert await completed("id") == await completed("id", board=lonely) == ["D-1"]
        assert await completed("after") == await completed("after", board=lonely) == ["2"]
        assert await completed("id", board="main") == []
        refused = await other.call_tool("read", {"board": "ghost"})
        assert "main" not in str(refused.content)
    async with joined(servers[0], await issue(data, f"max-{mode}", board="ghost"), mode) as one:
        refused = await one.call_tool("read", {"board": "ghost"})
        assert "the default board is 'ghost'" in str(refused.content)


@both_generations
async def test_a_token_revoked_by_another_process_ends_everything_within_five_seconds(
    servers: tuple[Serving, Serving], data: Path, mode: str
) -> None:
    agent = f"erin-{mode}"
    token, other = await issue(data, agent), await issue(data, f"frank-{mode}")
    async with (
        joined(servers[0], token, mode) as client,
        joined(servers[1], other, mode) as bystander,
        http(servers[0], token) as raw,
        http(servers[1], token) as elsewhere,
    ):
        await call(client, "post", text=f"before, by {agent}")
        seq = (await call(bystander, "read"))["seq"]
        waiting = asyncio.create_task(heard(bystander, seq))
        open_ = []
        for kind in ("notifications", "events", "waiting"):
            held = Open(client, raw, mode)
            open_.append(asyncio.create_task(getattr(held, kind)(), name=kind))
            async with asyncio.timeout(PATIENCE):
                await held.ready.wait()
        assert (await ask(raw)).status_code == (await ask(elsewhere)).status_code == 200

        process = await asyncio.create_subprocess_exec(
            *command("token", "revoke", token.split("_")[1], "--data", str(data)), env=environment()
        )
        assert await process.wait() == 0
        ends: list[Any] = [*open_, *(asyncio.create_task(until_refused(one)) for one in (raw, elsewhere))]
        await asyncio.wait(ends, timeout=PATIENCE)
        assert [task.get_name() for task in ends if not task.done()] == []
        for task in ends:
            await task
        assert not waiting.done()
        async with joined(servers[0], await issue(data, f"gina-{mode}"), mode) as still:
            await call(still, "post", text=f"after, beside {agent}: @frank-{mode}")
        assert await waiting


async def test_the_session_of_somebody_else_looks_like_none(
    servers: tuple[Serving, Serving], data: Path
) -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    accept = {"Accept": ASKED["Accept"]}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    async with (
        http(servers[0], await issue(data, "hank")) as hank,
        http(servers[0], await issue(data, "iris")) as iris,
    ):
        session = (await hank.post("/mcp", json=begin, headers=accept)).headers["mcp-session-id"]
        answers = []
        for id_ in (session, "0" * len(session)):
            told = accept | {"Mcp-Session-Id": id_, "MCP-Protocol-Version": "2025-11-25"}
            for method, more in (("POST", {"json": listing}), ("GET", {}), ("DELETE", {})):
                answer = await iris.request(method, "/mcp", headers=told, **more)  # type: ignore[arg-type]
                seen = {name: value for name, value in answer.headers.items() if name != "date"}
                answers.append((method, answer.status_code, answer.text, seen))
        own = accept | {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
        assert (await hank.post("/mcp", json=listing, headers=own)).status_code == 200
    assert answers[:3] == answers[3:]
    assert {status for _, status, _, _ in answers} == {404}
    assert "initialize again" in answers[0][2]


async def test_a_session_of_a_revoked_token_gives_its_agent_no_former_owner_back(
    servers: tuple[Serving, Serving], data: Path
) -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    accept = {"Accept": ASKED["Accept"], "MCP-Protocol-Version": "2025-11-25"}
    former = await issue(data, "uma", owner="old")
    async with http(servers[0], former) as raw:
        begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        opened = await raw.post("/mcp", json=begin, headers=accept)
        session = accept | {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
        listing = {"jsonrpc": "2.0", "id": 2, "method": "resources/list"}
        assert (await raw.post("/mcp", json=listing, headers=session)).status_code == 200
        await run_token(data, "revoke", former.split("_")[1])
        await until_refused(raw)
    token, mate = await issue_when_over(data, "uma", "new"), await issue(data, "vic", owner="new")
    async with (
        http(servers[0], token) as raw,
        joined(servers[0], mate, MODERN) as vic,
        vic.listen(resources_list_changed=True) as changes,
    ):
        await call(vic, "post", text="begin")
        async with asyncio.timeout(PATIENCE), raw.stream("GET", "/boards/main/events") as stream:
            lines = stream.aiter_lines()
            assert await anext(lines) == "retry: 2000"
            for n in range(3):
                await call(vic, "post", text="begin", board=f"made-by-vic-{n}")
                await anext(changes)
                posted = await call(vic, "post", text=f"for the team {n}", visibility="team")
                while f'"{posted["items"][0]["id"]}"' not in await anext(lines):
                    pass


async def test_what_a_revoked_token_opened_hears_nothing_of_its_agents_next_team(
    servers: tuple[Serving, Serving], data: Path
) -> None:
    former, mate = await issue(data, "wes", owner="old"), await issue(data, "xia", owner="new")
    heard_of: list[str] = []
    begun = asyncio.Event()

    async def listen(raw: httpx2.AsyncClient) -> None:
        async with raw.stream("GET", "/boards/main/events") as stream:
            async for line in stream.aiter_lines():
                heard_of.append(line)
                begun.set()

    async with http(servers[0], former) as raw, joined(servers[1], mate, MODERN) as xia:
        await call(xia, "post", text="begin the work of xia")
        listening = asyncio.create_task(listen(raw))
        await asyncio.wait_for(begun.wait(), PATIENCE)
        await run_token(data, "revoke", former.split("_")[1])
        token = await issue_when_over(data, "wes", "new")
        posted = await call(xia, "post", text="for the new team alone", visibility="team")
        async with asyncio.timeout(PATIENCE):
            await listening
        assert posted["items"][0]["id"] not in "".join(heard_of)
        assert (await ask(raw)).status_code == 401
    async with joined(servers[0], token, MODERN) as wes:
        assert (await call(wes, "read", ids=[posted["items"][0]["id"]]))["items"]


async def test_a_call_that_wrote_and_then_waited_is_not_told_that_nothing_was_changed(
    start: Callable[..., Serving], tmp_path: Path
) -> None:
    token, other = await issue(tmp_path), await issue(tmp_path, "bob")
    served = start(tmp_path, "--tools", "all")
    asked = {"name": "request", "arguments": {"to": "bob", "text": "which pump?", "seconds": 50}}
    body = ASKING | {"method": "tools/call", "params": asked | ASKING["params"]}  # type: ignore[operator]
    told = ASKED | {"Mcp-Method": "tools/call", "Mcp-Name": "request"}
    async with http(served, token) as raw, joined(served, other, MODERN) as bob:
        waiting = asyncio.create_task(raw.post("/mcp", json=body, headers=told))
        async with asyncio.timeout(PATIENCE):
            while not (await call(bob, "query", text="which pump"))["items"]:
                assert not waiting.done(), waiting.result().text
            await run_token(tmp_path, "revoke", token.split("_")[1])
            answer = await waiting
    assert answer.status_code == 401
    message = answer.json()["error"]["message"]
    assert message.startswith(
        "This request was ended; what it did before stands. The access token does not count"
    )
    assert "Nothing was changed" not in message


async def test_a_token_that_expires_ends_its_open_streams(
    servers: tuple[Serving, Serving], data: Path
) -> None:
    for life in (2, 10, 30):  # a slow machine needs a longer one to open a stream with it
        async with http(servers[0], await issue(data, "grace", seconds=life)) as raw:
            held = Open(None, raw, MODERN)  # type: ignore[arg-type]
            stream = asyncio.create_task(held.events())
            await asyncio.wait({stream}, timeout=PATIENCE)
            assert stream.done()
            if held.ready.is_set():
                await stream
                assert (await ask(raw)).status_code == 401
                return
            assert isinstance(stream.exception(), AssertionError), "it was refused from the start"
    raise AssertionError("no stream could be opened")


async def test_the_first_token_of_a_folder_closes_the_servers_that_ran_without(
    start: Callable[..., Serving], tmp_path: Path
) -> None:
    served = start(tmp_path)
    async with http(served, None, X_Blackboard_Agent="henry") as raw:
        assert (await ask(raw)).status_code == 200
        async with http(served, "x" * 40, X_Blackboard_Agent="henry") as unknown:
            assert (await ask(unknown)).status_code == 200
        async with plainly(
            Client(streamable_http_client(served.url, http_client=raw), mode=MODERN)
        ) as client:
            await call(client, "post", text="open to all")
        held = Open(None, raw, MODERN)  # type: ignore[arg-type]
        stream = asyncio.create_task(held.events())
        await asyncio.wait_for(held.ready.wait(), PATIENCE)
        text = (await run_token(tmp_path, "create", "--agent", "henry")).strip()
        assert (await until_refused(raw)).status_code == 401
        await asyncio.wait_for(stream, PATIENCE)
    async with http(served, text) as raw:
        assert (await ask(raw)).status_code == 200


async def test_a_peer_that_fails_too_often_is_slowed_and_every_token_behind_it_that_counts_goes_on(
    servers: tuple[Serving, Serving], data: Path
) -> None:
    good, fresh = await issue(data, "iris"), await issue(data, "iris")
    async with http(servers[1], good) as member, http(servers[1], "x" * 40) as guesser:
        assert (await ask(member)).status_code == 200
        statuses = [(await ask(guesser)).status_code for _ in range(31)]
        # Other tests may have failed a few times from this address already.
        count = statuses.count(401)
        assert 0 < count <= 30
        assert statuses == [401] * count + [429] * (31 - count)
        begun = time.monotonic()
        late = await ask(guesser)
        assert time.monotonic() - begun >= PAUSE_SECONDS
        assert 0 < int(late.headers["retry-after"]) <= 61
        assert late.json()["error"]["data"]["error"] == "rate_limited"
        assert (await ask(member)).status_code == 200
        async with http(servers[1], fresh) as newcomer, http(servers[1], None) as nobody:
            assert (await ask(newcomer)).status_code == 200, "no server has seen this token before"
            assert (await ask(nobody)).status_code == 429


def test_f57_a_secret_is_kept_nowhere(servers: tuple[Serving, Serving], data: Path, said: list[str]) -> None:
    text = asyncio.run(run_token(data, "create", "--agent", "judy")).strip()

    async def use() -> None:
        async with http(servers[0], text) as member, http(servers[0], text[:17] + "A" * 43) as guesser:
            assert (await ask(member)).status_code == 200
            assert (await member.get("/boards/none/events")).status_code == 404
            assert (await ask(guesser)).status_code in (401, 429)
        async with joined(servers[0], text, LEGACY) as client:
            await call(client, "post", text="said aloud by judy")

    asyncio.run(use())
    secret = text[len("bbt_000000000000_") :]
    assert len(secret) == 43
    kept = [file for file in data.rglob("*") if file.is_file()]
    assert kept
    assert not [file for file in kept if secret.encode() in file.read_bytes()]
    listed = asyncio.run(run_token(data, "list", "--json"))
    assert [one["state"] for one in json.loads(listed) if one["agent"] == "judy"] == ["active"]
    assert secret not in listed
    assert "DEBUG" in "".join(said)
    assert secret not in "".join(said)
    assert "A" * 43 not in "".join(said)
