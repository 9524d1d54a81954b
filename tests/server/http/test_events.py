"""Server-Sent Events of a real installation over a real socket: F18."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import boards
import httpx2
import pytest
from blackboard_mcp.protocols.errors import StoreBusy
from blackboard_mcp.protocols.groups import Turn
from blackboard_mcp.server import compose
from blackboard_mcp.server.board import BoardClient
from blackboard_mcp.server.http import events as events_module
from blackboard_mcp.server.http.connections import BoundedProtocol
from blackboard_mcp.server.http.events import EventStreams
from blackboard_mcp.server.http.run import serve_http
from blackboard_mcp.server.limits.limits import Limits
from blackboard_mcp.server.usecases.groups import Consumers
from patience import PATIENCE, WOKEN

board, mode = boards.board, boards.mode


class Stream:
    """One reader of an open stream."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self.comments = 0
        self._lines = response.aiter_lines()

    async def message(self) -> tuple[int, str, Any] | None:
        """The next event as (id, name, data); `None` at the end of the stream."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(PATIENCE):
            async for line in self._lines:
                if line.startswith(":"):
                    self.comments += 1
                    return -1, "comment", None
                if line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif "data" in fields:
                    return int(fields["id"]), fields["event"], json.loads(fields["data"])
                else:
                    fields.clear()
        return None

    async def ids(self, count: int) -> list[int]:
        found = []
        for _ in range(count):
            message = await self.message()
            assert message is not None
            found.append(message[0])
        return found


class Site:
    def __init__(self, url: str, boards_: Any, streams: EventStreams, stop: asyncio.Event, task: Any) -> None:
        self.url, self.boards, self.streams, self.stop, self.task = url, boards_, streams, stop, task
        self.http = httpx2.AsyncClient(base_url=url, trust_env=False, verify=False, timeout=PATIENCE)

    @asynccontextmanager
    async def stream(self, agent: str = "alice", board: str = "main", **more: Any) -> AsyncIterator[Stream]:
        headers = {"X-Blackboard-Agent": agent} | more.pop("headers", {})
        async with self.http.stream(
            "GET", f"/boards/{board}/events", headers=headers, params=more
        ) as response:
            assert response.status_code == 200, await response.aread()
            assert response.headers["content-type"].startswith("text/event-stream")
            assert response.headers["cache-control"] == "no-store"
            yield Stream(response)

    async def status(self, agent: str) -> int:
        """What a stream would answer; it is closed at once."""
        headers = {"X-Blackboard-Agent": agent}
        async with self.http.stream("GET", "/boards/main/events", headers=headers) as response:
            return response.status_code

    async def refused(self, board: str = "main", agent: str = "alice", **more: Any) -> tuple[int, Any]:
        headers = {"X-Blackboard-Agent": agent} | more.pop("headers", {})
        response = await self.http.get(f"/boards/{board}/events", headers=headers, params=more)
        return response.status_code, response.json()


Open = Callable[..., AbstractAsyncContextManager[Site]]


@asynccontextmanager
async def serve(board: Any, keep_alive: float = 60, limits: Limits | None = None) -> AsyncIterator[Site]:
    server = compose.build_server(board.opened)
    if limits is not None:
        server.limits = limits
        board.opened.blackboard.limit(limits)
    streams = EventStreams(board.opened.blackboard, keep_alive=keep_alive, limits=limits)
    server.on_close(streams.close)
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    task = asyncio.create_task(
        serve_http(server, port=0, routes=[streams.route()], on_ready=ready.set_result, stop=stop)
    )
    there = Site(await asyncio.wait_for(ready, PATIENCE), board, streams, stop, task)
    try:
        yield there
    finally:
        await there.http.aclose()
        stop.set()
        await asyncio.wait_for(task, PATIENCE)


@pytest.fixture
def site(board: Any) -> Open:
    return partial(serve, board)


async def test_events_come_in_order_first_those_after_a_sequence_and_then_each_new_one(site: Open) -> None:
    async with site() as there:
        alice, bob = await there.boards.join("alice", "bob")
        for n in range(3):
            await alice.post(f"{n}")
        async with there.stream(after=1) as stream:
            assert await stream.ids(3) == [2, 3, 4]
            item = await bob.post("news", "LOG", tags=["t"], key="k")
            seq, name, data = await stream.message()
            assert (seq, name) == (5, "item.posted")
            assert set(data) >= boards.EVENT_KEYS
            assert (data["seq"], data["item"], data["agent"], data["tags"], data["key"]) == (
                *(5, item["id"], "bob", ["t"], "k"),
            )
            assert (data["type"], data["metadata"]) == ("LOG", {})
            await bob.post(id=item["id"], tags=["u"], metadata={"ticket": 7})
            _, _, data = await stream.message()
            assert (data["tags"], data["metadata"]) == (["u"], {"ticket": 7})
            assert (data["data"]["was"], data["data"]["now"]) == (
                {"tags": ["t"], "metadata": {}},
                {"tags": ["u"], "metadata": {"ticket": 7}},
            )
            await alice.post("more")
            assert await stream.ids(1) == [7]


async def test_HEAD_answers_with_the_headers_and_holds_no_stream(site: Open) -> None:
    async with site() as there:
        alice = await there.boards.join("alice")
        await alice.post("a")
        headers = {"X-Blackboard-Agent": "alice"}
        for _ in range(3):
            answer = await there.http.head("/boards/main/events", headers=headers)
            assert (answer.status_code, answer.content) == (200, b"")
            assert answer.headers["content-type"].startswith("text/event-stream")
        assert not there.streams.open.of("alice")
        assert (await there.http.head("/boards/none/events", headers=headers)).status_code == 404


async def test_without_a_place_a_stream_begins_with_the_next_event(site: Open) -> None:
    async with site() as there:
        alice = await there.boards.join("alice")
        await alice.post("before")
        async with there.stream() as stream:
            await alice.post("after")
            assert await stream.ids(1) == [3]


async def test_a_reconnect_with_the_last_id_misses_nothing_and_repeats_nothing(site: Open) -> None:
    async with site() as there:
        alice = await there.boards.join("alice")
        await alice.post("x")
        async with there.stream(after=0) as stream:
            assert await stream.ids(2) == [1, 2]
        await alice.do("post", items=[{"text": "x", "type": "LOG"}] * 5)
        await alice.do("post", items=[{"text": "y", "type": "LOG"}] * 100)
        async with there.stream(headers={"Last-Event-ID": "2"}) as stream:
            assert await stream.ids(105) == list(range(3, 108))
        async with there.stream(headers={"Last-Event-ID": "106"}, after=0) as stream:
            assert await stream.ids(1) == [107]


async def test_a_log_of_many_pages_streams_whole(site: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "_PAGE", 7)
    async with site() as there:
        alice = await there.boards.join("alice")
        await alice.do("post", items=[{"text": "x", "type": "LOG"}] * 40)
        async with there.stream(after=0) as stream:
            assert await stream.ids(41) == list(range(1, 42))


async def test_a_filtered_stream_carries_what_matches_and_nothing_else(site: Open) -> None:
    async with site() as there:
        alice, bob = await there.boards.join("alice", "bob")
        await alice.post("a", "LOG", tags=["x"])
        await bob.post("b", "LOG", key="plan:db")
        filter_ = json.dumps({"type": "LOG", "not": {"agent": "me"}})
        async with (
            there.stream("alice", after=0, filter=filter_) as hers,
            there.stream("bob", after=0, filter=filter_) as his,
            there.stream("bob", filter=json.dumps({"key": "plan:**"})) as plans,
        ):
            assert await hers.ids(1) == [3]
            assert await his.ids(1) == [2]
            await alice.do("post", items=[{"text": f"{n}"} for n in range(100)])
            await alice.post("c", "LOG")
            await bob.post("d", "LOG", key="plan:ui:x")
            assert await hers.ids(1) == [105]
            assert await his.ids(1) == [104]
            assert await plans.ids(1) == [105]


async def test_a_thread_is_followed_by_any_of_its_members(site: Open) -> None:
    async with site() as there:
        alice, bob = await there.boards.join("alice", "bob")
        await alice.post("root")
        await bob.post("reply", "REPLY", edges={"replies_to": ["F-1"]})
        async with there.stream("carol", after=0, filter='{"thread":"E-2"}') as stream:
            assert await stream.ids(2) == [2, 3]


@pytest.mark.parametrize(
    ("filter_", "taught"),
    [
        ("", "JSON object"),
        ("{", "JSON object"),
        ("[" * 3_000, "JSON object"),
        ("[1]", "object with some of"),
        ('{"colour":1}', "Unknown filter field 'colour'"),
        ('{"\\ud800":1}', "half of a surrogate pair"),
        ('{"key":"\\ud800"}', "half of a surrogate pair"),
        ('{"thread":NaN}', "numbers must be finite"),
        ('{"type":"FACTS"}', "none of"),
        ('{"thread":"F-99"}', "no item"),
        ("{" + " " * 5_000 + "}", "at most 4000 characters"),
    ],
)
async def test_a_wrong_filter_is_refused_with_what_is_allowed(site: Open, filter_: str, taught: str) -> None:
    async with site() as there:
        alice = await there.boards.join("alice")
        await alice.post("x")
        status, body = await there.refused(filter=filter_)
        assert status in (400, 404)
        assert taught in body["message"]


async def test_a_stream_of_a_subscription_goes_on_where_the_reconnecting_client_confirms(site: Open) -> None:
    async with site() as there:
        alice, bob = await there.boards.join("alice", "bob")
        await alice.post("x")
        held = await bob.do("subscribe", filter={"tags": ["t"]}, name="mine")
        for number in range(4):
            await alice.post(f"{number}", tags=["t"] if number % 2 else [])

        async def cursor() -> int:
            listed = await bob.do("subscribe")
            return int(listed["subscriptions"][0]["cursor"])

        async with there.stream("bob", subscription="mine") as stream:
            assert await stream.ids(2) == [4, 6]
        # Nobody confirmed them: they come again.
        assert await cursor() == held["cursor"] == 2
        async with there.stream("bob", subscription=held["id"], headers={"Last-Event-ID": "4"}) as stream:
            assert await stream.ids(1) == [6]
        assert await cursor() == 4
        async with there.stream("bob", subscription="mine", after=2) as stream:
            assert await stream.ids(2) == [4, 6]
        assert await cursor() == 4
        assert (await there.refused(agent="alice", subscription=held["id"]))[0] == 404
        status, body = await there.refused(agent="bob", subscription="mine", filter="{}")
        assert (status, "leave filter out" in body["message"]) == (400, True)
        assert (await there.refused(agent="bob", subscription="mine", after="99"))[0] == 410
        assert await cursor() == 4


async def test_a_subscription_is_in_use_while_it_streams_and_a_stream_ends_with_its_subscription(
    site: Open,
) -> None:
    async with site(keep_alive=0.05) as there:
        alice, bob = await there.boards.join("alice", "bob")
        await alice.post("x")
        await bob.do("subscribe", name="mine")
        store = there.boards.opened.store
        before = (await store.subscriptions("main", "bob"))[0].used_at
        async with there.stream("bob", subscription="mine") as stream:
            there.boards.clock.advance(20 * 86_400)
            async with asyncio.timeout(PATIENCE):
                while (await store.subscriptions("main", "bob"))[0].used_at == before:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            there.boards.clock.advance(20 * 86_400)
            await store.expire_subscriptions()
            await alice.post("y")
            while (told := await stream.message()) is not None and told[0] < 0:
                pass
            assert told is not None
            assert told[0] == 3
            await bob.do("subscribe", unsubscribe="mine")
            while (told := await stream.message()) is not None:
                assert told[0] < 0
        assert (await there.refused(agent="bob", subscription="mine"))[0] == 404


async def test_a_store_that_fails_for_a_moment_ends_a_stream_without_a_word_and_it_goes_on(
    site: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with site() as there:
        alice = await there.boards.join("alice")
        await alice.post("x")
        store = there.boards.opened.store
        stretches = store.stretches

        async def fails(*args: Any) -> Any:
            raise StoreBusy("somebody else holds the file")

        monkeypatch.setattr(store, "stretches", fails)
        async with there.stream() as stream:
            assert await stream.message() is None
        monkeypatch.setattr(store, "stretches", stretches)
        await alice.post("y")
        async with there.stream(headers={"Last-Event-ID": "2"}) as stream:
            assert await stream.ids(1) == [3]
    assert "an event stream of alice ended: somebody else holds the file" in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("tool", ["wait", "consume"])
async def test_a_legacy_client_that_drops_takes_nothing_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    async with (
        boards.open_boards(tmp_path, boards.MODERN, tools=("core", "messages")) as board,
        serve(board) as there,
    ):
        alice, bob = await there.boards.join("alice", "bob")
        await alice.post("x")
        consumers = Consumers(there.boards.opened.blackboard)
        await consumers.create("bob", None, "crew", {"type": "PLAN"})
        await bob.do("subscribe", name="mine")
        store, tails = there.boards.opened.store, there.boards.opened.blackboard.following.tails
        end = (await store.find_board("main")).seq
        named = {"subscription": "mine"} if tool == "wait" else {"group": "crew"}
        headers = {"X-Blackboard-Agent": "bob", "Accept": "application/json, text/event-stream"}
        told = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"},
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": told}
        begun = await there.http.post("/mcp", json=message, headers=headers)
        headers["Mcp-Session-Id"] = begun.headers["mcp-session-id"]
        notice = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await there.http.post("/mcp", json=notice, headers=headers)
        call = {"name": tool, "arguments": {**named, "seconds": 50}}
        message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}

        wait_for_change, parked = store.wait_for_change, 0

        async def counted(*args: Any, **more: Any) -> int:
            nonlocal parked
            parked += 1
            try:
                return int(await wait_for_change(*args, **more))
            finally:
                parked -= 1

        monkeypatch.setattr(store, "wait_for_change", counted)

        def waiting() -> int:
            return tails._waiting if tool == "wait" else parked

        async with asyncio.timeout(WOKEN):
            async with there.http.stream("POST", "/mcp", json=message, headers=headers):
                while not waiting():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            while waiting():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await alice.post("news", "PLAN")
        if tool == "wait":
            assert (await bob.do("wait", subscription="mine", seconds=0))["events"][0]["seq"] > end
        else:
            work = await consumers.take("cyd", None, "crew", Turn(), seconds=0)
            assert [str(delivery.handle) for delivery in work.taken.deliveries] == [f"{end + 1}.1"]


async def test_a_server_that_stops_answers_those_who_wait(
    site: Open, caplog: pytest.LogCaptureFixture
) -> None:
    async with site() as there:
        alice = await there.boards.join("alice")
        await alice.post("x")
        await alice.do("subscribe", name="mine")
        tails = there.boards.opened.blackboard.following.tails
        async with BoardClient.connect(f"{there.url}/mcp", agent="alice", mode=boards.MODERN) as client:
            waiting = asyncio.create_task(client.wait("mine", seconds=50))
            async with asyncio.timeout(PATIENCE):
                while not tails._waiting:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            there.stop.set()
            told = await asyncio.wait_for(waiting, WOKEN)
            await asyncio.wait_for(there.task, PATIENCE)
    assert told.events == []
    assert "graceful shutdown exceeded" not in caplog.text


async def test_a_quiet_filtered_stream_tells_how_far_it_looked(site: Open) -> None:
    async with site(keep_alive=0.1) as there:
        alice = await there.boards.join("alice")
        await alice.post("x")
        async with there.http.stream(
            "GET",
            "/boards/main/events",
            headers={"X-Blackboard-Agent": "bob"},
            params={"filter": '{"tags":["never"]}'},
        ) as response:
            await alice.do("post", items=[{"text": f"{n}"} for n in range(9)])
            async with asyncio.timeout(PATIENCE):
                async for line in response.aiter_lines():
                    if line == "id: 11":
                        break


async def test_private_events_reach_their_owner_alone(site: Open) -> None:
    async with site() as there:
        alice, bob = await there.boards.join("alice", "bob")
        await bob.post("zebra", visibility="private")
        await alice.post("public")
        async with there.stream("alice", after=0) as hers, there.stream("bob", after=0) as his:
            assert await hers.ids(2) == [1, 3]
            assert await his.ids(3) == [1, 2, 3]
            await bob.post("zebra two", visibility="private")
            await alice.post("public two")
            assert await hers.ids(1) == [5]
            assert await his.ids(2) == [4, 5]


async def test_I25_what_a_team_shares_reaches_those_who_are_of_it_by_then(site: Open) -> None:
    async with site() as there:
        alice, bob, _ = await there.boards.join("alice", "bob", "carol")
        store = there.boards.opened.store
        for agent in ("alice", "bob"):
            await store.set_owner(agent, "acme")
        await alice.post("ours", visibility="team")  # 2
        await alice.post("public")
        async with (
            there.stream("alice", after=0) as hers,
            there.stream("bob", after=0) as his,
            there.stream("carol", after=0) as others,
        ):
            assert await hers.ids(3) == await his.ids(3) == [1, 2, 3]
            assert await others.ids(2) == [1, 3]
            await store.set_owner("bob", "other")
            await store.set_owner("carol", "acme")
            await alice.post("ours still", visibility="team")  # 4
            await bob.post("theirs", visibility="team")
            await alice.post("public again")
            assert await hers.ids(2) == await others.ids(2) == [4, 6]
            assert await his.ids(2) == [5, 6]


async def test_a_quiet_stream_sends_comments_even_while_other_boards_are_busy(site: Open) -> None:
    async with site(keep_alive=0.05) as there:
        alice = await there.boards.join("alice")
        await alice.post("x")
        async with there.stream() as stream:
            assert (await stream.message())[1] == "comment"

            async def busy() -> None:
                while True:
                    await alice.post("elsewhere", board="other")

            noise = asyncio.create_task(busy())
            assert (await stream.message())[1] == "comment"
            noise.cancel()
            await asyncio.gather(noise, return_exceptions=True)
            await alice.post("here")
            while (message := await stream.message())[1] == "comment":
                pass
            assert message[0] == 3


async def test_an_agent_has_so_many_streams_and_gets_them_back(site: Open) -> None:
    async with site(limits=Limits(event_streams=3, event_streams_per_principal=2)) as there:
        alice = await there.boards.join("alice")
        await alice.post("x")
        async with there.stream("alice"), there.stream("alice"):
            status, body = await there.refused(agent="alice")
            assert (status, body["error"]) == (429, "rate_limited")
            assert "close some first" in body["message"]
            async with there.stream("bob", after=0) as his:
                assert await his.ids(1) == [1]
                assert (await there.refused(agent="carol"))[0] == 429
        async with asyncio.timeout(PATIENCE):
            while await there.status("alice") == 429:
                pass  # the server has not noticed yet that its readers left


async def test_opening_many_at_once_never_exceeds_the_limit(site: Open) -> None:
    async with site(limits=Limits(event_streams_per_principal=3)) as there:
        alice = await there.boards.join("alice")
        await alice.post("x")
        answers: list[int] = []
        told = asyncio.Event()

        async def open_one() -> None:
            headers = {"X-Blackboard-Agent": "alice"}
            async with there.http.stream("GET", "/boards/main/events", headers=headers) as response:
                answers.append(response.status_code)
                if len(answers) == 12:
                    told.set()
                await told.wait()

        tasks = [asyncio.create_task(open_one()) for _ in range(12)]
        await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE)
        assert sorted(answers) == [200] * 3 + [429] * 9


@pytest.mark.parametrize("after", ["-1", "x", "", "1.0", "٣", "9" * 20])
async def test_a_bad_place_is_refused_with_the_range(site: Open, after: str) -> None:
    async with site() as there:
        alice = await there.boards.join("alice")
        await alice.post("x")
        status, body = await there.refused(after=after)
        assert (status, body["error"], body["seq"]) == (400, "invalid", 2)
        assert "from 0 to 2" in body["message"]


async def test_a_place_ahead_of_the_log_is_gone(site: Open) -> None:
    async with site() as there:
        alice = await there.boards.join("alice")
        await alice.post("x")
        for where in ({"after": "99"}, {"headers": {"Last-Event-ID": "99"}}):
            status, body = await there.refused(**where)
            assert (status, body["error"], body["cursor"], body["seq"]) == (410, "cursor_expired", 99, 2)
            assert "since=2 goes on" in body["message"]


async def test_an_unknown_board_is_not_found_and_a_wrong_name_is_refused(site: Open) -> None:
    async with site() as there:
        alice = await there.boards.join("alice")
        await alice.post("x")
        assert (await there.refused("nowhere"))[0] == 404
        assert (await there.refused("nowhere"))[1]["error"] == "not_found"
        assert (await there.refused("no%20board"))[0] == 400
        assert (await there.refused(agent="not a name"))[0] == 400
        assert (await there.refused(agent="system"))[0] == 400
        assert (await there.http.post("/boards/main/events")).status_code == 405
        assert (
            await there.http.get("/boards/main/events", headers={"Host": "evil.example"})
        ).status_code >= 400


async def test_a_server_that_stops_ends_its_streams(site: Open) -> None:
    async with site() as there:
        alice = await there.boards.join("alice")
        await alice.post("x")
        async with there.stream(after=0) as stream:
            assert await stream.ids(2) == [1, 2]
            there.stop.set()
            assert await stream.message() is None
            await asyncio.wait_for(asyncio.shield(there.task), PATIENCE)


async def test_another_process_on_the_same_file_is_streamed(site: Open, tmp_path: Path) -> None:
    async with site() as there:
        alice = await there.boards.join("alice")
        await alice.post("here")
        async with boards.open_boards(tmp_path, boards.MODERN) as other, there.stream() as stream:
            bob = await other.join("bob")
            await bob.post("there")
            seq, _, data = await stream.message()
            assert (seq, data["agent"]) == (3, "bob")


async def test_a_stream_that_nobody_reads_is_dropped_and_hurts_nobody(
    site: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    raw = socket.socket()
    stalled: list[BoundedProtocol] = []
    pause = BoundedProtocol.pause_writing

    def paused(protocol: BoundedProtocol) -> None:
        """The time until it is dropped begins when it has hurt nobody for long enough."""
        if protocol.client == raw.getsockname():
            stalled.append(protocol)
            super(BoundedProtocol, protocol).pause_writing()
        else:
            pause(protocol)

    monkeypatch.setattr(BoundedProtocol, "pause_writing", paused)
    async with site(
        limits=Limits(write_seconds=0.3, posts_burst=100_000, board_posts_burst=100_000)
    ) as there:
        alice = await there.boards.join("alice")
        await alice.post("x")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        raw.setblocking(False)
        with raw:
            port = int(there.url.rsplit(":", 1)[1])
            await loop.sock_connect(raw, ("127.0.0.1", port))
            head = f"GET /boards/main/events?after=0 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
            await loop.sock_sendall(raw, f"{head}X-Blackboard-Agent: sloth\r\n\r\n".encode())
            async with (
                there.stream("bob", filter='{"tags":["now"],"event":"item.posted"}') as his,
                asyncio.timeout(PATIENCE),
            ):
                while not there.streams.open.of("sloth"):
                    await there.status("bob")
                number = after = 0
                while after < 5:
                    # Events as large as they come, so that what nobody reads fills the connection.
                    tags = [f"{number}-{n}-{'x' * 50}"[:60] for n in range(19)]
                    await alice.do("post", items=[{"text": f"{number} {n}", "tags": tags} for n in range(50)])
                    seq = (await alice.post(f"now {number}", tags=["now"]))["seq"]
                    assert await his.ids(1) == [seq]
                    number, after = number + 1, after + bool(stalled)
                assert there.streams.open.of("sloth")
                for protocol in stalled:
                    pause(protocol)
                while there.streams.open.of("sloth"):
                    await alice.post("more")
            # Its place is free again, and what it had not read was not kept for it.
            assert await there.status("sloth") == 200
