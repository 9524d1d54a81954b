"""What a team shares, through real clients: views, keys, waiting, hints; whom an agent acts for now decides."""

from __future__ import annotations

import asyncio
from typing import Any

import boards
import pytest
from blackboard_mcp.protocols.access import Principal, Role
from blackboard_mcp.server import compose
from blackboard_mcp.server.mcp.server import ConnectionInfo
from patience import WOKEN, parked

board, mode = boards.board, boards.mode
pytestmark = pytest.mark.filterwarnings("ignore:resources/(un)?subscribe is removed")

MAIN = "board://main"


async def teams(board: Any, *agents: str) -> list[Any]:
    """Agents, all but the last of acme."""
    joined: list[Any] = await board.join(*agents)
    for name in agents[:-1]:
        await board.opened.store.set_owner(name, "acme")
    return joined


async def test_f13_a_view_ends_with_own_and_team_notes_and_nobody_elses_has_them(board: Any) -> None:
    alice, bob, carol = await teams(board, "alice", "bob", "carol")
    await alice.post("for all")
    await alice.post("for us", visibility="team", tags=["bid"])
    assert "your private and team notes:\nF-2 by alice 0s team" in await bob.say("read")
    await bob.post("for me", visibility="private")
    view = await bob.say("read")
    assert "your private and team notes:\nF-3 by you 0s private" in view
    assert "F-2 by alice 0s team" in view
    theirs = await carol.say("read")
    assert "for all" in theirs
    assert all(word not in theirs for word in ("for us", "for me", "notes", "F-2", "more"))
    assert (await bob.item("F-2"))["visibility"] == "team"
    assert "team" in await bob.resource(f"{MAIN}/items/F-2")


async def test_a_key_is_the_nearest_entry_and_a_transaction_writes_the_one_it_names(board: Any) -> None:
    alice, bob, carol = await teams(board, "alice", "bob", "carol")
    await carol.post("of all", key="plan:a")
    await alice.post("of us", key="plan:a", visibility="team")
    written = await bob.do(
        "transaction",
        reads={"plan:a": 1},
        writes=[
            {"text": "of us, again", "key": "plan:a", "expected_version": 1},
            {"text": "of all, again", "key": "plan:a", "visibility": "board", "expected_version": 1},
        ],
    )
    assert [(i["version"], i["visibility"]) for i in written["items"]] == [(2, "team"), (2, "board")]
    found = [(await agent.do("read", keys=["plan:a"]))["items"][0]["text"] for agent in (alice, carol)]
    assert found == ["of us, again", "of all, again"]
    moved = await alice.fail("transaction", reads={"plan:a": 1}, writes=[{"text": "x"}])
    assert moved["moved"] == {"plan:a": 2}


@boards.both
async def test_who_joins_a_team_while_it_waits_hears_of_it_and_who_leaves_does_not(
    board: Any, mode: str
) -> None:
    alice, bob, carol = await teams(board, "alice", "bob", "carol")
    store = board.opened.store
    await alice.post("begin")
    held = [await agent.do("subscribe", filter={"type": "PLAN"}) for agent in (bob, carol)]
    waits = [
        asyncio.create_task(agent.do("wait", subscription=mine["id"], seconds=50))
        for agent, mine in zip((bob, carol), held, strict=True)
    ]
    await parked(board.opened.blackboard.following.tails, 2)
    await store.set_owner("bob", "other")
    await store.set_owner("carol", "acme")
    ours = await alice.post("ours", "PLAN", visibility="team")
    told = await asyncio.wait_for(waits[1], WOKEN)
    assert [event["item"] for event in told["events"]] == [ours["id"]]
    public = await alice.post("everybody's", "PLAN")
    assert [event["item"] for event in (await asyncio.wait_for(waits[0], WOKEN))["events"]] == [public["id"]]
    # What passed while it was of another team is not there later either.
    await store.set_owner("bob", "acme")
    assert (await bob.do("wait", subscription=held[0]["id"], seconds=0))["events"] == []
    assert ours["id"] in [e["item"] for e in (await bob.do("read", since=0))["events"]]


async def test_I25_hints_of_what_a_team_shares_go_to_those_who_are_of_it(board: Any) -> None:
    inboxes = {name: boards.Inbox() for name in ("alice", "bob", "carol")}
    agents = {
        name: await board.join(name, mode=boards.LEGACY, inbox=inbox) for name, inbox in inboxes.items()
    }
    for name in ("alice", "bob"):
        await board.opened.store.set_owner(name, "acme")
    await agents["alice"].post("begin")
    await board.announcing()
    for agent in agents.values():
        for uri in (f"{MAIN}/working", f"{MAIN}/core"):
            await agent.client.subscribe_resource(uri)
    await agents["alice"].post("ours", visibility="team")
    for name in ("alice", "bob"):
        await inboxes[name].until(f"{MAIN}/working")
    await agents["carol"].do("core", objective="Win.")
    await inboxes["carol"].until(f"{MAIN}/core")
    assert f"{MAIN}/working" not in inboxes["carol"].uris


async def test_I25_a_credential_says_of_which_team_its_agent_is_before_anything_is_read(board: Any) -> None:
    alice, _ = await teams(board, "alice", "bob")
    await alice.post("ours", visibility="team")
    owners = {"carol": "acme"}

    def identify(info: ConnectionInfo) -> Principal:
        name = info.client_name or "nobody"
        owner = owners.get(name, name)
        return Principal(agent=name, owner=owner, roles={"*": Role.ADMIN}, via="token", credential=owner)

    board.server = compose.build_server(board.opened, identify=identify)
    carol = await board.join("carol", mode=boards.MODERN)
    assert "ours" in await carol.resource(f"{MAIN}/working")
    owners["carol"] = "other"
    assert "ours" not in await carol.resource(f"{MAIN}/working")
    assert "ours" not in await carol.say("read")
