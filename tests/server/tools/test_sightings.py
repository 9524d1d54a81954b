"""Who was shown which item, as explanations, item resources and debates tell it."""

from __future__ import annotations

from typing import Any

import boards
import mcp.types as types
from boards import text_of

board, mode = boards.board, boards.mode


async def seen(agent: Any, item: Any) -> str:
    """Returns the line of an explanation that tells who was shown the item; empty without one."""
    lines = (await agent.say("read", ids=[item["id"]], explain=True)).splitlines()
    return next((line for line in lines if line.startswith(("seen by ", "not seen by "))), "")


async def known(*agents: Any) -> None:
    """Lets the others know of the agents."""
    for agent in agents:
        await agent.post(f"{agent.name} is here", "LOG")


async def test_an_explanation_tells_who_saw_an_item_when_and_how_and_who_never_did(board: Any) -> None:
    alice, coder, critic, tester = await board.join("alice", "coder", "critic", "tester")
    await known(coder, critic, tester)
    item = await alice.post("the port is 8080")
    assert await seen(alice, item) == "not seen by coder, critic, tester, posted 0s ago"
    await coder.say("read")
    board.clock.advance(120)
    await critic.say("read", ids=[item["id"]])
    board.clock.advance(60)
    assert await seen(alice, item) == "seen by critic 1m (read), coder 3m (view); not by tester"
    await board.opened.activity.flush()
    assert await seen(alice, item) == "seen by critic 1m (read), coder 3m (view); not by tester"
    told = (await alice.do("read", ids=[item["id"]], explain=True))["explanations"][0]
    assert [(one["agent"], one["first_way"], one["last_way"]) for one in told["seen"]] == [
        ("critic", "read", "read"),
        ("coder", "view", "view"),
    ]
    assert told["never_seen_by"] == ["tester"]


async def test_each_kind_of_answer_is_told(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await known(bob)
    item = await alice.post("the door is green")
    for way, tool, arguments in (
        ("query", "query", {"text": "door"}),
        ("explain", "read", {"ids": [item["id"]], "explain": True}),
        ("read", "read", {"ids": [item["id"]]}),
        ("view", "read", {}),
        ("read", "read", {"since": 0}),
        ("wait", "wait", {"since": 0, "seconds": 0}),
    ):
        await bob.say(tool, **arguments)
        assert await seen(alice, item) == f"seen by bob 0s ({way})"
    told = (await alice.do("read", ids=[item["id"]], explain=True))["explanations"][0]["seen"][0]
    assert (told["first_way"], told["last_way"]) == ("query", "wait")


async def test_a_newer_version_was_not_seen(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await known(bob)
    item = await alice.post("v1", key="doc")
    await bob.say("read", ids=[item["id"]])
    board.clock.advance(5)
    await alice.post("v2", key="doc", expected_version=1)
    board.clock.advance(5)
    assert await seen(alice, item) == "seen by bob 10s (read, before version 2)"


async def test_the_resource_of_an_item_tells_the_same(board: Any) -> None:
    alice, bob, carol = await board.join("alice", "bob", "carol")
    await known(bob, carol)
    item = await alice.post("a fact")
    await bob.say("read", ids=[item["id"]])
    uri = f"board://main/items/{item['id']}"
    assert "seen by bob 0s (read); not by carol" in await alice.resource(uri)
    facts = await alice.facts(f"{uri}.json")
    assert ([one["agent"] for one in facts["seen"]], facts["never_seen_by"]) == (["bob"], ["carol"])


async def test_a_resource_counts_as_shown_and_a_completion_does_not(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await known(bob)
    item = await alice.post("the door is green", "HOT_ISSUE")
    await bob.client.complete(
        types.ResourceTemplateReference(type="ref/resource", uri="board://{board}/items/{id}"),
        {"name": "id", "value": item["id"][:1]},
        {"board": "main"},
    )
    assert await seen(alice, item) == "not seen by bob, posted 0s ago"
    for place in (f"items/{item['id']}", "view/bob", "working.json", "hot-issues", "outline"):
        board.clock.advance(5)
        await bob.resource(f"board://main/{place}")
        assert await seen(alice, item) == "seen by bob 0s (resource)"


async def test_critics_learn_whether_the_author_was_shown_the_critique(board: Any) -> None:
    alice, critic = await board.join("alice", "critic")
    claim = await alice.post("the cache is cold", "HYPOTHESIS")
    critique = await critic.post("no source", "CRITIQUE", edges={"critiques": [claim["id"]]})
    board.clock.advance(1_200)
    status = {"op": "status", "id": claim["id"]}
    answer = await critic.call("debate", **status)
    assert f"alice was not shown {critique['id']}, posted 20m ago" in text_of(answer)
    assert answer.structured_content["seen_by_author"] == {critique["id"]: False}
    await alice.say("read")
    board.clock.advance(60)
    answer = await critic.call("debate", **status)
    assert f"alice was shown {critique['id']} 1m ago (view)" in text_of(answer)
    assert answer.structured_content["seen_by_author"] == {critique["id"]: True}
    assert "shown" not in await alice.say("debate", **status)


async def test_readers_of_a_private_item_and_private_readers_are_not_told(board: Any) -> None:
    alice, bob, carol = await board.join("alice", "bob", "carol")
    await known(bob)
    own = await alice.post("mine alone", visibility="private")
    public = await alice.post("for all")
    await carol.post("a secret", visibility="private")
    for agent in (bob, carol):
        await agent.say("read", ids=[own["id"], public["id"]])
    assert await seen(alice, own) == ""
    assert "not found" in await bob.say("read", ids=[own["id"]], explain=True)
    assert await seen(alice, public) == "seen by bob 0s (read)"
    assert await seen(carol, public) == "seen by bob 0s (read)"
