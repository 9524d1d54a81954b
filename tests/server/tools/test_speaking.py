"""Nobody acknowledges, votes or answers for another, and an owner's agents count once."""

from __future__ import annotations

from typing import Any

import boards

board, mode, both = boards.board, boards.mode, boards.both


async def owed(board: Any, agent: str, id_: str) -> list[tuple[str, str]]:
    """What the agent has yet to do about an item and its debate."""
    rows = (await agent_of(board).do("debate", op="status", id=id_))["obligations"]
    return [
        (row["agent"], row["duty"]) for row in rows if row["agent"] == agent and row["state"] == "outstanding"
    ]


def agent_of(board: Any) -> Any:
    return board.looker


@both
async def test_nobody_acknowledges_for_another_by_any_path(board: Any, mode: str) -> None:
    alice, bob, mallory, board.looker = await board.join("alice", "bob", "mallory", "looker")
    claim = await alice.post("claim", "HYPOTHESIS")
    doubt = await bob.post("doubt", "CRITIQUE", edges={"critiques": [claim["id"]]})
    asked = await owed(board, "alice", claim["id"])
    assert asked == [("alice", "respond")]
    for more in ({"metadata": {"author": "alice"}}, {"tags": ["alice"]}):
        await mallory.post("reply", "REPLY", edges={"replies_to": [doubt["id"]]}, **more)
    assert await owed(board, "alice", claim["id"]) == asked, "nobody answers for another"
    await alice.post("but", "REPLY", edges={"replies_to": [doubt["id"]]})
    before = await owed(board, "bob", claim["id"])
    assert before == [("bob", "acknowledge")]
    for more in ({"agent": "bob"}, {"watcher": "bob"}, {"as": "bob"}, {"author": "bob"}, {"owner": "bob"}):
        assert (await mallory.fail("debate", op="acknowledge", id=claim["id"], **more))["error"] == "invalid"
        assert (await mallory.fail("post", text="x", **more))["error"] == "invalid"
        call = {"op": "acknowledge", "id": claim["id"], **more}
        assert (await mallory.fail("transaction", debates=[call]))["error"] == "invalid"
    await mallory.do("debate", op="acknowledge", id=claim["id"])
    await mallory.do("transaction", debates=[{"op": "vote", "id": claim["id"], "approve": True}])
    reply = await mallory.post(
        "reply", "REPLY", edges={"replies_to": [doubt["id"]]}, metadata={"author": "alice"}
    )
    assert reply["author"] == "mallory"
    assert await owed(board, "bob", claim["id"]) == before
    assert (await board.looker.do("debate", op="status", id=claim["id"]))["state"] == "OPEN"


async def test_agents_of_the_authors_owner_close_nothing_however_many_agree(board: Any) -> None:
    alice, bob, one, two, three = await board.join("alice", "bob", "bot-1", "bot-2", "bot-3")
    for bot in ("alice", "bot-1", "bot-2", "bot-3"):
        await board.opened.blackboard.introduce(bot, "acme")
    claim = await alice.post("claim", "HYPOTHESIS")
    await alice.do("debate", op="open", id=claim["id"], watchers=["bot-1", "bot-2", "bot-3"])
    for bot in (one, two, three, alice):
        await bot.do("debate", op="acknowledge", id=claim["id"])
    assert (await bob.do("debate", op="status", id=claim["id"]))["state"] == "OPEN"
    await bob.do("debate", op="acknowledge", id=claim["id"])
    assert (await bob.do("debate", op="status", id=claim["id"]))["state"] == "CONSENSUS"


async def test_a_quorum_is_of_owners_and_acknowledgements_make_none(board: Any) -> None:
    alice, bob, one, two, carol = await board.join("alice", "bob", "bot-1", "bot-2", "carol")
    for bot in ("bot-1", "bot-2"):
        await board.opened.blackboard.introduce(bot, "acme")
    claim = await alice.post("claim", "HYPOTHESIS")
    await alice.do("board", settings={"quorum": 2})
    doubt = await bob.post("doubt", "CRITIQUE", edges={"critiques": [claim["id"]]})
    await alice.post("but", "REPLY", edges={"replies_to": [doubt["id"]]})
    for bot in (one, two):
        await bot.do("debate", op="vote", id=claim["id"], approve=True)
    await carol.do("debate", op="acknowledge", id=claim["id"])
    assert (await bob.do("debate", op="status", id=claim["id"]))["state"] == "OPEN"
    await carol.do("debate", op="vote", id=claim["id"], approve=True)
    assert (await bob.do("debate", op="status", id=claim["id"]))["state"] == "CONSENSUS"
