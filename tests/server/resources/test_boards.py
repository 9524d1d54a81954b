"""The resources of a board through real clients of both generations: F34, F18."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import boards
import mcp.types as types
import pytest
from mcp.shared.exceptions import MCPError
from patience import PATIENCE

board, mode, both = boards.board, boards.mode, boards.both
pytestmark = pytest.mark.filterwarnings("ignore:resources/(un)?subscribe is removed")

SECTIONS = (
    *("", "/core", "/working", "/agenda", "/threads", "/agents", "/constraints", "/hot-issues", "/answer"),
    *("/stats", "/outline", "/protocols", "/panels"),
)
VIEWS = ("/view/{agent}", "/panels/{name}", "/items/{id}", "/items/{id}/versions", "/items/{id}/explain")


async def furnish(boards_: Any) -> tuple[Any, Any]:
    """Alice and Bob on a board with something of everything; Bob's zebras are his alone."""
    alice, bob = await boards_.join("alice", "bob")
    await alice.do("core", objective="Keep cool.", constraints=["Never above 30 °C."], flags={"live": True})
    await alice.do(
        "post",
        items=[
            {"text": "It is 31 °C.", "tags": ["heat"]},
            {"text": "Open the window.", "type": "PLAN", "importance": 2},
            {"text": "Buy a fan.", "type": "PLAN", "importance": 5},
            {"text": "Only by day.", "type": "CONSTRAINT"},
            {"text": "The sensor is dead.", "type": "HOT_ISSUE"},
            {"text": "Open it at six.", "type": "ANSWER"},
        ],
    )
    await bob.post("Not by my thermometer.", "CRITIQUE", edges={"critiques": ["F-1"]})
    await bob.post("zebra plan", "PLAN", visibility="private", importance=5, edges={"replies_to": ["F-1"]})
    await bob.post("zebra rule", "CONSTRAINT", visibility="private")
    await bob.post("zebra answer", "ANSWER", visibility="private")
    await bob.post("zebra alarm", "HOT_ISSUE", visibility="private")
    return alice, bob


@both
async def test_every_resource_reads_as_text_and_as_json(board: Any, mode: str) -> None:
    alice, _ = await furnish(board)
    text: dict[str, str] = {}
    facts: dict[str, Any] = {}
    for section in (*SECTIONS, "/view/alice", "/items/F-1", "/items/F-1/explain", "/events"):
        text[section] = await alice.resource(f"board://main{section}")
        facts[section] = await alice.facts(f"board://main{section}.json")
        assert text[section].strip()
    assert "objective: Keep cool." in text[""]
    assert facts[""]["core"]["version"] == 1
    assert text["/core"].splitlines() == [
        "core version 1",
        "objective: Keep cool.",
        "constraint 1: Never above 30 °C.",
        "flag live: true",
    ]
    assert facts["/core"] == {
        "objective": "Keep cool.",
        "constraints": ["Never above 30 °C."],
        "flags": {"live": True},
        "version": 1,
    }
    assert [i["id"] for i in facts["/working"]["items"]] == ["C-7", "A-6", "I-5", "K-4", "P-3", "P-2", "F-1"]
    assert set(facts["/working"]["items"][0]) >= boards.ITEM_KEYS
    assert [i["id"] for i in facts["/agenda"]["items"]] == ["P-3", "P-2"]
    assert facts["/threads"]["threads"]["F-1"] == ["F-1", "C-7"]
    assert facts["/threads"]["debates"][0]["item"] == "F-1"
    assert facts["/threads"]["debates"][0]["state"] == "OPEN"
    assert "F-1 debate OPEN opened by bob" in text["/threads"]
    assert [(a["name"], a["posts"]) for a in facts["/agents"]["agents"]] == [("alice", 6), ("bob", 1)]
    assert text["/constraints"].splitlines() == ["core: Never above 30 °C.", "K-4 by alice: Only by day."]
    assert facts["/constraints"]["core"] == ["Never above 30 °C."]
    assert text["/hot-issues"] == "I-5 by alice: The sensor is dead."
    assert text["/answer"] == "A-6 by alice: Open it at six."
    assert facts["/answer"]["item"]["id"] == "A-6"
    assert (facts["/stats"]["working_items"], facts["/stats"]["open_debates"]) == (7, 1)
    assert facts["/stats"]["working_by_type"]["PLAN"] == 2
    assert facts["/outline"]["threads"][0] == ["F-1", "C-7"]
    assert facts["/view/alice"]["view"] == text["/view/alice"]
    assert facts["/view/alice"]["tokens"] <= 1_500
    item = facts["/items/F-1"]
    assert item["status"] == "DEBATED"
    assert "open debate on F-1" in item["protected"]
    assert [e["event"] for e in item["history"]] == ["debate.opened", "item.posted"]
    assert "history, newest first:" in text["/items/F-1"]
    assert facts["/events"]["seq"] == await board.seq()
    assert [e["seq"] for e in facts["/events"]["events"]] == list(range(1, 11))
    assert set(facts["/events"]["events"][0]) >= boards.EVENT_KEYS
    assert len(text["/events"].splitlines()) == 10


@both
async def test_the_agenda_lists_tasks_before_plan_items(tmp_path: Path, mode: str) -> None:
    async with boards.open_boards(tmp_path, mode, tools=("core", "plan")) as opened:
        alice, bob = await opened.join("alice", "bob")
        await alice.post("Buy a fan.", "PLAN")
        assert await bob.resource("board://main/agenda") == "P-1 plan by alice 0s !3: Buy a fan."
        await alice.do("plan", items=[{"title": "measure", "paths": ["key:log"]}, {"title": "cool"}])
        lease = (await alice.do("claim"))["lease"]
        assert (await bob.resource("board://main/agenda")).splitlines() == [
            "ready (claim() takes the first that is for you):",
            "T-2 ready · p3: cool",
            "others:",
            "T-1 RUNNING by alice, 5m left · p3: measure",
            "plan items:",
            "P-1 plan by alice 0s !3: Buy a fan.",
        ]
        facts = await alice.facts("board://main/agenda.json")
        told = [(t["id"], t["state"], t["ready"], t["lease"]) for t in facts["tasks"]]
        assert told == [("T-2", "PENDING", True, 0), ("T-1", "RUNNING", False, lease)]
        assert (facts["mine"], facts["total"], facts["reservations"][0]["agent"]) == (["T-1"], 2, "alice")
        assert [i["id"] for i in facts["items"]] == ["P-1"]
        await alice.do("stage", define={"title": "summer", "entry": "flag(warm)"})
        first, *_ = (await bob.resource("board://main/agenda")).splitlines()
        assert first == "G-1 AVAILABLE (waits for flag(warm)): summer"
        assert [s["id"] for s in (await alice.facts("board://main/agenda.json"))["stages"]] == ["G-1"]


async def test_what_is_private_is_in_no_resource_of_another(board: Any) -> None:
    alice, bob = await furnish(board)
    for section in (*SECTIONS, "/view/alice", "/items/F-1", "/items/F-1/explain", "/events"):
        for ending in ("", ".json"):
            shown = await alice.resource(f"board://main{section}{ending}")
            assert "zebra" not in shown, section
            assert not any(id_ in shown for id_ in ("P-8", "K-9", "A-10", "I-11")), section
    assert "zebra answer" in await bob.resource("board://main/answer")
    assert "zebra rule" in await bob.resource("board://main/constraints")
    assert "zebra" in await bob.resource("board://main/view/bob")
    for id_ in ("P-8", "K-9"):
        with pytest.raises(MCPError, match="There is no item"):
            await alice.resource(f"board://main/items/{id_}")
        with pytest.raises(MCPError, match="There is no item"):
            await alice.resource(f"board://main/items/{id_}/explain")
    assert (await alice.facts("board://main/stats.json"))["visible"]["working"]["items"] == 7


async def test_an_empty_board_has_every_resource(board: Any) -> None:
    alice = await board.join("alice")
    for section in (*SECTIONS, "/view/alice", "/events"):
        assert await alice.resource(f"board://main{section}")
        assert await alice.facts(f"board://main{section}.json")
    assert await alice.resource("board://main/answer") == "no answer yet"


@both
@pytest.mark.parametrize(
    "uri",
    [
        "board://nowhere",
        "board://nowhere/core",
        "board://nowhere/view/alice",
        "board://nowhere/items/F-1.json",
        "board://nowhere/events",
        "board://main/items/F-99",
        "board://main/view/bob",
        "board://main/view/bob.json",
        "board://main/view/nobody",
        "board://main/nothing",
        "board://main/core/more",
    ],
)
async def test_what_is_not_there_is_resource_not_found(board: Any, mode: str, uri: str) -> None:
    alice = await board.join("alice")
    await alice.post("x")
    missing = await _refused(alice, "board://main/items/F-404")
    error = await _refused(alice, uri)
    assert error.code == missing.code
    assert error.data == missing.data or set(error.data) == {"uri"}
    assert len(error.message) > 15


async def test_a_place_ahead_of_the_log_is_told_as_one(board: Any) -> None:
    alice = await board.join("alice")
    await alice.post("x")
    error = await _refused(alice, "board://main/events?after=99")
    assert error.code == (await _refused(alice, "board://main/items/F-404")).code
    facts = {"uri": "board://main/events?after=99", "cursor": 99, "seq": 2}
    assert error.data == {"error": "cursor_expired", **facts}
    assert "since=2 goes on" in error.message


async def _refused(agent: Any, uri: str) -> types.ErrorData:
    with pytest.raises(MCPError) as caught:
        await agent.client.read_resource(uri)
    return caught.value.error


async def test_wrong_words_in_a_uri_are_named(board: Any) -> None:
    alice = await board.join("alice")
    await alice.post("x")
    assert "Ids look like" in (await _refused(alice, "board://main/items/nonsense")).message
    assert "after" in (await _refused(alice, "board://main/events?after=x")).message
    assert "after" in (await _refused(alice, "board://main/events?after=-1")).message
    for uri in ("board://ma%20in/core", "board:///core"):
        assert "board id" in (await _refused(alice, uri)).message


async def test_an_item_is_found_by_number_and_by_version_with_why_it_left(board: Any) -> None:
    alice = await board.join("alice")
    await alice.post("one", key="k")
    await alice.post("two", key="k")
    await alice.post("three", edges={"supersedes": ["F-1"]})
    assert (await alice.facts("board://main/items/1.json"))["text"] == "two"
    assert (await alice.facts("board://main/items/F-1%401.json"))["text"] == "one"
    assert "> one" in await alice.resource("board://main/items/F-1@1")
    facts = await alice.facts("board://main/items/F-1.json")
    assert (facts["zone"], facts["protected"]) == ("archive", None)
    assert facts["left"] == "superseded by F-2"
    assert "\narchived 0s ago: superseded by F-2\n" in await alice.resource("board://main/items/F-1")


async def test_events_go_on_after_a_sequence(board: Any) -> None:
    alice = await board.join("alice")
    for n in range(6):
        await alice.do("post", items=[{"text": f"{n} {m}"} for m in range(100)])
    first = await alice.facts("board://main/events.json")
    assert (len(first["events"]), first["cursor"], first["seq"]) == (500, 500, 601)
    assert (await alice.resource("board://main/events")).splitlines()[
        -1
    ] == "more: board://main/events?after=500"
    rest = await alice.facts("board://main/events.json?after=500")
    assert [e["seq"] for e in rest["events"]] == list(range(501, 602))
    assert (await alice.facts("board://main/events.json?after=601")) == {
        "events": [],
        "cursor": 601,
        "seq": 601,
    }
    assert await alice.resource("board://main/events?after=601") == "no events"


@both
async def test_templates_are_listed_with_their_kinds(board: Any, mode: str) -> None:
    alice = await board.join("alice")
    listed = (await alice.client.list_resource_templates()).resource_templates
    kinds = {t.uri_template: t.mime_type for t in listed}
    for section in (*SECTIONS, *VIEWS):
        assert kinds[f"board://{{board}}{section}"] == "text/markdown"
        assert kinds[f"board://{{board}}{section}.json"] == "application/json"
    assert kinds["board://{board}/events{?after}"] == "text/markdown"
    assert kinds["board://{board}/events.json{?after}"] == "application/json"
    assert len({t.name for t in listed}) == len(listed) == 2 * (len(SECTIONS) + len(VIEWS) + 1)
    assert all(t.description for t in listed)


@both
async def test_boards_agents_ids_and_places_are_completed(board: Any, mode: str) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.do("post", items=[{"text": text} for text in "xyz"])
    await bob.post("secret", "LOG", visibility="private")
    await alice.post("y", "LOG", board="many-more")

    async def completed(argument: str, value: str, **context: str) -> list[str]:
        template = types.ResourceTemplateReference(type="ref/resource", uri="board://{board}/items/{id}")
        found = await alice.client.complete(
            template, {"name": argument, "value": value}, context_arguments=context or None
        )
        return list(found.completion.values)

    assert await completed("board", "m") == ["main", "many-more"]
    assert await completed("board", "x") == []
    assert await completed("agent", "") == ["alice"]
    assert await completed("agent", "b") == []
    assert await completed("id", "f-") == ["F-3", "F-2", "F-1"]
    why = types.ResourceTemplateReference(type="ref/resource", uri="board://{board}/items/{id}/explain")
    found = await alice.client.complete(why, {"name": "id", "value": "F"})
    assert list(found.completion.values) == ["F-3", "F-2", "F-1"]
    assert await completed("id", "L") == []
    assert await completed("id", "", board="many-more") == ["L-1"]
    assert await completed("after", "") == ["5"]
    assert await completed("after", "2", board="many-more") == ["2"]
    assert await completed("nothing", "") == []
    assert await completed("id", "", board="nowhere") == []


class Ears:
    """What one agent heard of its subscriptions, in either generation; the last one is told last."""

    def __init__(self, boards_: Any, mode: str) -> None:
        self.boards, self.mode, self.inbox = boards_, mode, boards.Inbox()

    async def open(self, *uris: str) -> None:
        legacy = self.mode == boards.LEGACY
        listener = await self.boards.join("listener", mode=self.mode, inbox=self.inbox if legacy else None)
        if legacy:
            for uri in uris:
                await listener.client.subscribe_resource(uri)
            return
        ready = asyncio.Event()

        async def listen() -> None:
            async with listener.client.listen(resource_subscriptions=list(uris)) as stream:
                self.honored = stream.honored.resource_subscriptions
                ready.set()
                async for event in stream:
                    self.inbox.tell(event.uri)

        task = asyncio.create_task(listen())

        async def end() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self.boards._stack.push_async_callback(end)
        await asyncio.wait_for(ready.wait(), PATIENCE)

    async def heard(self, witness: str, times: int = 1) -> list[str]:
        """What came since the last time, without the witness, which always comes."""
        await self.inbox.until(witness, times)
        got = [uri for uri in self.inbox.uris if uri != witness]
        self.inbox.uris.clear()
        return sorted(got)


@both
async def test_posting_tells_the_subscribers_of_what_changed_and_no_others(board: Any, mode: str) -> None:
    alice = await board.join("alice")
    await board.announcing()
    await alice.do("post", items=[{"text": "one"}, {"text": "two", "key": "k"}])
    ears = Ears(board, mode)
    main = "board://main"
    watched = [
        *(
            f"{main}/items/F-1",
            f"{main}/items/F-1.json",
            f"{main}/items/2",
            f"{main}/core",
            f"{main}/core.json",
        ),
        *(f"{main}.json", f"{main}/working", f"{main}/events?after=1", "board://other"),
    ]
    await ears.open(*watched, main)
    everything = sorted([f"{main}.json", f"{main}/working", f"{main}/events?after=1"])
    await alice.post("three")
    assert await ears.heard(main) == everything
    await alice.post(id="F-1", importance=1)
    assert await ears.heard(main) == sorted([*everything, f"{main}/items/F-1", f"{main}/items/F-1.json"])
    await alice.post("two again", key="k")
    assert await ears.heard(main) == sorted([*everything, f"{main}/items/2"])
    await alice.do("core", objective="Win.")
    told = {*everything, f"{main}/core", f"{main}/core.json"} - {f"{main}/working"}
    assert await ears.heard(main) == sorted(told)
    await alice.post("elsewhere", board="other")
    await ears.inbox.until("board://other")
    assert await ears.heard("board://other") == []


@both
async def test_what_was_posted_before_the_first_subscriber_is_no_news(board: Any, mode: str) -> None:
    alice = await board.join("alice")
    await board.announcing()
    await alice.post("before")
    await alice.do("core", objective="Before.")
    ears = Ears(board, mode)
    main = "board://main"
    await ears.open(f"{main}/items/F-1", f"{main}/core", main)
    await alice.post("after")
    assert await ears.heard(main) == []


@both
async def test_nobody_hears_when_another_agents_view_changes(board: Any, mode: str) -> None:
    await board.announcing()
    ears = Ears(board, mode)
    if mode == boards.LEGACY:
        with pytest.raises(MCPError, match="no resource at"):
            await ears.open("board://main/view/bob")
        with pytest.raises(MCPError, match="no resource at"):
            await ears.open("board://main/view/bob.json")
    else:
        await ears.open("board://main/view/bob", "board://main/view/listener")
        assert ears.honored == ["board://main/view/listener"]


@both
async def test_a_private_item_is_no_news_of_the_item_to_others(board: Any, mode: str) -> None:
    bob = await board.join("bob")
    await board.announcing()
    await bob.post("secret", visibility="private", key="k")
    ears = Ears(board, mode)
    main = "board://main"
    await ears.open(f"{main}/items/F-1", main)
    await bob.post("secret two", visibility="private", key="k")
    await bob.post("public")
    assert await ears.heard(main) == []


async def test_another_process_on_the_same_file_is_heard(board: Any, mode: str, tmp_path: Path) -> None:
    alice = await board.join("alice")
    await alice.post("here")
    await board.announcing()
    ears = Ears(board, boards.MODERN)
    await ears.open("board://main")
    async with boards.open_boards(tmp_path, mode) as other:
        bob = await other.join("bob")
        await bob.post("there")
        await ears.inbox.until("board://main")
    news = json.loads(await alice.resource("board://main/events.json?after=2"))["events"]
    assert [(e["agent"], e["item"]) for e in news] == [("bob", "F-2")]


async def test_a_view_as_a_resource_says_how_long_ago_the_last_change_was(board: Any) -> None:
    alice = await board.join("alice")
    await alice.post("Fuel is low.")
    board.clock.advance(14 * 3_600)
    text = await alice.resource("board://main/view/alice")
    assert "Z, 14h ago, ages as of then" in text.splitlines()[0]
    facts = await alice.facts("board://main/view/alice.json")
    assert (facts["view"], facts["tokens"]) == (text, boards.TOKENIZER.count(text))
