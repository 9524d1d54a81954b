"""Watching by topic, leaving and lapsing through real clients; and the footer that ends every error."""

from __future__ import annotations

import asyncio
from typing import Any

import boards
import pytest

board, mode, both = boards.board, boards.mode, boards.both
DAY = 86_400


async def dispute(boards_: Any) -> tuple[Any, Any, Any]:
    """Alice's F-1, criticised by Bob in C-2; Carol looks on."""
    alice, bob, carol = await boards_.join("alice", "bob", "carol")
    await alice.post("The pump holds 9 bar.", tags=["pump"])
    await bob.post("It burst at 8.", "CRITIQUE", edges={"critiques": ["F-1"]})
    return alice, bob, carol


@both
@pytest.mark.parametrize("topic", ["key:plan:**", "tag:db", "type:PLAN", "thread:P-1"])
async def test_a_topic_calls_its_watcher_to_debates_to_come(board: Any, mode: str, topic: str) -> None:
    alice, bob, carol = await board.join("alice", "bob", "carol")
    await alice.post("do", "PLAN", key="plan:a", tags=["db"])
    told = await carol.do("debate", op="watch", id=topic)
    assert told["watches"] == [topic]
    await carol.do("query")
    assert "you owe" not in carol.footer, "a topic alone obliges to nothing"
    waiting = asyncio.create_task(carol.do("wait", since=await board.seq(), seconds=10))
    await bob.post("no", "CRITIQUE", edges={"critiques": ["P-1"]})
    woken = await waiting
    assert woken["events"]
    assert "you owe" not in carol.footer, "there is nothing to judge yet"
    await alice.post("but", "REPLY", edges={"replies_to": ["C-2"]})
    await carol.do("query")
    assert "you owe: acknowledge or criticise P-1" in carol.footer
    assert 'agree that it stands: debate(op="acknowledge", id="P-1")' in await carol.say("read")
    await bob.do("debate", op="acknowledge", id="P-1")
    assert (await carol.do("debate", op="acknowledge", id="P-1"))["state"] == "CONSENSUS"


async def test_standing_watches_are_listed_and_ended(board: Any) -> None:
    alice, carol = await board.join("alice", "carol")
    await alice.post("x")
    text = await carol.say("debate", op="watch", id="tag:db")
    assert text.startswith("you watch tag:db: debates that open on matching items from now on need your ")
    assert "wait() wakes you for new matching items" in text
    none = (await carol.fail("debate", op="unwatch", id="tag:none"))["message"]
    assert none == (
        'You do not watch tag:none. Nothing was changed; debate(op="status", id="tag:none") says what you watch.'
    )
    assert (await carol.do("debate", op="status", id="tag:none"))["watches"] == ["tag:db"]
    board.clock.advance(1)
    await carol.do("debate", op="watch", id="key:plan:*")
    assert (await carol.do("debate", op="watch", id="tag:db"))["watches"] == ["tag:db", "key:plan:*"]
    assert (await carol.do("debate", op="unwatch", id="tag:db"))["watches"] == ["key:plan:*"]
    assert (await carol.do("debate", op="status", id="tag:other"))["watches"] == ["key:plan:*"]
    await carol.do("debate", op="unwatch", id="key:plan:*")
    assert (await carol.say("debate", op="status", id="tag:db")).splitlines()[0] == "you watch no topics"


async def test_new_items_on_a_topic_concern_its_watcher(board: Any) -> None:
    alice, carol = await board.join("alice", "carol")
    await alice.post("x")
    await carol.do("debate", op="watch", id="tag:db")
    await alice.post("y", tags=["db"])
    await alice.post("mine", tags=["db"], visibility="private")
    await alice.post("z")
    held = await carol.do("subscribe", filter={"mentions": True})
    news = await carol.do("wait", subscription=held["id"], since=0, seconds=0)
    assert [event["item"] for event in news["events"]] == ["F-2"]


async def test_whoever_unwatches_is_waited_for_no_more(board: Any) -> None:
    alice, bob, carol = await dispute(board)
    await alice.post("But.", "REPLY", edges={"replies_to": ["C-2"]})
    await carol.do("debate", op="watch", id="F-1")
    await carol.do("debate", op="acknowledge", id="F-1")
    closed = await bob.do("debate", op="unwatch", id="F-1")
    assert closed["state"] == "CONSENSUS", "carol had agreed"
    waived = [e for e in (await alice.do("read", since=0))["events"] if e["event"] == "obligation.waived"]
    assert waived[0]["data"] == {"watcher": "bob", "duty": "acknowledge", "reason": "unwatched"}
    await alice.post("plain")
    await bob.do("debate", op="watch", id="F-4")
    assert (
        await bob.say("debate", op="unwatch", id="F-4")
        == f"you no longer watch F-4\nseq {await board.seq()} · 3 unseen"
    )


async def test_a_watcher_who_stays_away_is_let_go_and_may_come_back(board: Any) -> None:
    alice, bob, carol = await dispute(board)
    await alice.post("But.", "REPLY", edges={"replies_to": ["C-2"]})
    board.clock.advance(DAY - 60)
    await carol.do("query")
    await board.opened.activity.flush()
    board.clock.advance(61)
    await board.opened.store.sweep_debates()
    status = await carol.do("debate", op="status", id="F-1")
    assert status["state"] == "OPEN", "nobody agreed yet"
    assert [(o["agent"], o["reason"]) for o in status["obligations"] if o["state"] == "waived"] == [
        ("bob", "lease ended")
    ]
    assert (await alice.do("debate", op="acknowledge", id="F-1"))["state"] == "OPEN"
    assert (await bob.do("debate", op="acknowledge", id="F-1"))["state"] == "CONSENSUS"


async def test_who_comes_back_first_after_a_night_waits_for_the_others(board: Any) -> None:
    alice, bob, carol = await dispute(board)
    await carol.do("debate", op="watch", id="F-1")
    await alice.post("But.", "REPLY", edges={"replies_to": ["C-2"]})
    board.clock.advance(DAY / 2)
    await bob.do("debate", op="acknowledge", id="F-1")
    await board.opened.store.sweep_debates()
    status = await bob.say("debate", op="status", id="F-1")
    assert status.startswith("F-1 debate OPEN")
    assert "carol 12h; who is away for 15m while others are here is waited for no more" in status
    for _ in range(2):
        board.clock.advance(450)
        await bob.do("query")
        await board.opened.activity.flush()
    assert await board.opened.store.sweep_debates() == ["main"]
    assert (await bob.do("debate", op="status", id="F-1"))["state"] == "CONSENSUS"


async def test_reading_is_being_there(board: Any) -> None:
    alice, bob, _ = await dispute(board)
    await alice.do("board", settings={"presence_seconds": 0})
    board.clock.advance(DAY - 60)
    await bob.do("query")
    await board.opened.activity.flush()
    board.clock.advance(120)
    assert await board.opened.store.sweep_debates() == []


async def test_a_named_watcher_that_only_reads_is_there_too(board: Any) -> None:
    alice, dave = await board.join("alice", "dave")
    await alice.post("x")
    await alice.do("debate", op="open", id="F-1", watchers=["dave", "ghost"])
    board.clock.advance(DAY - 60)
    await dave.do("query")
    await board.opened.activity.flush()
    board.clock.advance(120)
    assert await board.opened.store.sweep_debates() == ["main"]
    status = await alice.do("debate", op="status", id="F-1")
    assert {(o["agent"], o["state"]) for o in status["obligations"]} == {
        ("dave", "outstanding"),
        ("ghost", "waived"),
    }


async def test_a_debate_expires_only_where_the_board_says_so(board: Any) -> None:
    alice, bob, _ = await dispute(board)
    board.clock.advance(1_000 * DAY)
    await board.opened.store.sweep_debates()
    assert (await bob.do("debate", op="status", id="F-1"))["state"] == "OPEN"
    await alice.do("board", settings={"debate_expiry_seconds": 3_600})
    await board.opened.store.sweep_debates()
    status = await bob.do("debate", op="status", id="F-1")
    assert (status["state"], status["closed_by"], status["reason"]) == (
        "EXPIRED",
        "system",
        "nothing happened for 3600 seconds",
    )
    assert (await alice.item("F-1"))["status"] == "ACTIVE"
    await bob.post("It burst again.", "CRITIQUE", edges={"critiques": ["F-1"]})
    assert (await bob.do("debate", op="status", id="F-1"))["state"] == "OPEN"


# Every error ends in the footer


async def test_an_error_tells_what_waits_for_its_caller(board: Any) -> None:
    alice, _, carol = await dispute(board)
    result = await alice.client.call_tool("read", {"ids": ["?"]})
    lines = boards.text_of(result).splitlines()
    assert result.is_error
    assert lines[-1] == f"seq {await board.seq()} · you owe: answer C-2 · 2 unseen"
    assert "Ids look like" in lines[0], "the error goes first"
    result = await carol.client.call_tool("post", {"text": ""})
    assert boards.text_of(result).splitlines()[-1] == f"seq {await board.seq()} · 3 unseen"
    result = await carol.client.call_tool("read", {"ids": ["F-1"], "board": "nowhere"})
    assert "seq " not in boards.text_of(result), "no board, no footer"
    for wrong in ("../x", "a\ud800", "", 7, None, {"a": 1}, "x" * 10_000):
        result = await alice.client.call_tool("read", {"ids": ["?"], "board": wrong})
        assert result.is_error, wrong


async def test_a_failure_inside_ends_in_the_footer_and_a_footer_that_fails_hides_no_error(
    board: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, *_ = await dispute(board)

    async def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(board.opened.blackboard, "query", broken)
    text = boards.text_of(await alice.client.call_tool("query", {}))
    assert text.startswith("Internal error (reference ")
    assert text.splitlines()[-1] == f"seq {await board.seq()} · you owe: answer C-2 · 2 unseen"
    monkeypatch.setattr(board.opened.blackboard, "attention", broken)
    text = boards.text_of(await alice.client.call_tool("query", {}))
    assert text.startswith("Internal error (reference ")
    assert "seq " not in text


async def test_all_who_are_called_to_a_debate_hear_of_it_as_what_concerns_them(board: Any) -> None:
    alice, bob, last = await board.join("alice", "bob", "w31")
    await alice.post("The pump holds 9 bar.")
    await last.do("subscribe", filter={"mentions": True}, name="mine")
    await bob.do("debate", op="open", id="F-1", watchers=[f"w{n}" for n in range(32)])
    news = await last.do("wait", subscription="mine", seconds=0)
    assert [e["event"] for e in news["events"]] == ["debate.opened"]


async def test_a_watch_is_no_debt_and_says_when_its_item_is_over(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("The pump holds 9 bar.")
    await bob.say("debate", op="watch", id="F-1")
    assert "you owe" not in bob.footer
    told = 'you watch F-1 by alice: "The pump holds 9 bar." → seen enough: debate(op="acknowledge", id="F-1")'
    view = await bob.say("read")
    assert f"watched:\n{told}" in view
    assert "waits for you" not in view
    assert "waits for bob" not in await alice.say("wait", seconds=0)
    await alice.post(id="F-1", status="WITHDRAWN")
    assert told.replace("alice:", "alice (withdrawn):") in await bob.say("read")
    assert (await alice.item("F-1"))["zone"] == "working"
