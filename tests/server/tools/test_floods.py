"""Floods by one owner, of every importance: what others posted stays, and stands in their views."""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import boards
import pytest
from blackboard_mcp.storage.operations.leaving import accounts

mode = boards.mode

TARGET = 2_000
SHARE = 600
"""Half of the low-water mark."""
NOTES = (
    ("FACT", "Pump {n} at the north weir runs at forty litres a minute since the valve was changed."),
    ("HYPOTHESIS", "The drop of pressure on line {n} comes from the seal, as the log of Tuesday suggests."),
    ("LOG", "Reading {n} of the gauge at the intake: two point four bar, the water is clear."),
    ("PLAN", "Step {n}: drain the basin, change the seal, fill it again and read the gauge."),
    ("RESULT", "Test {n} of the new seal: no drop of pressure in an hour."),
)


@pytest.fixture
async def board(tmp_path: Path, mode: str) -> AsyncIterator[Any]:
    async with boards.open_boards(tmp_path, mode, target_tokens=TARGET) as found:
        yield found


async def notes(*agents: Any) -> list[str]:
    """Five notes of each agent."""
    return [
        (await agent.post(text.format(n=f"{place}{n}"), type_))["id"]
        for place, agent in enumerate(agents)
        for n, (type_, text) in enumerate(NOTES)
    ]


PLACE = itertools.count()
"""No two posts of a flood are the same, which would be stored once."""


async def flood(agent: Any, count: int, type_: str = "FACT", **more: Any) -> list[Any]:
    """So many posts, five a call; the refusals."""
    refused = []
    for first in range(0, count, 5):
        items = [
            {
                "text": f"Flood {next(PLACE)}: the same old story about nothing at all, once again.",
                "type": type_,
                **more,
            }
            for _ in range(first, first + 5)
        ]
        result = await agent.call("post", items=items)
        if result.is_error:
            refused.append(result.structured_content)
    return refused


async def unharmed(reader: Any, ids: list[str], importance: int) -> None:
    """The items are in working memory, and the reader's view names those that a flood does not equal; beyond what
    one owner may have of importance 5, a view has room for all."""
    wanted = []
    for id_ in ids:
        item = await reader.item(id_)
        assert item["zone"] == "working", id_
        if item["importance"] > importance or importance == 5:
            wanted.append(id_)
    view = await reader.say("read")
    missing = [id_ for id_ in wanted if f"\n{id_} " not in view]
    assert not missing, view


@pytest.mark.parametrize("importance", [1, 2, 3, 4, 5])
async def test_a_flood_of_any_importance_harms_nobody_elses_notes(board: Any, importance: int) -> None:
    alice, bob, mallory = await board.join("alice", "bob", "mallory")
    ids = await notes(alice, bob)
    refused = await flood(mallory, 400, importance=importance)
    await board.settled()
    await unharmed(alice, ids, importance)
    await unharmed(bob, ids, importance)
    figures = await alice.do("board")
    assert figures["working_tokens"] <= TARGET * 0.8
    assert figures["pressure"] is None
    assert bool(refused) == (importance == 5)


async def test_importance_5_of_one_owner_has_no_more_room_than_its_share(board: Any) -> None:
    alice, mallory = await board.join("alice", "mallory")
    await notes(alice)
    refused = await flood(mallory, 400, importance=5)
    for refusal in refused:
        assert (refusal["error"], refusal["limit"], refusal["most"]) == ("quota", "owner_share", SHARE)
        assert "Nothing was changed; post this with importance 4," in refusal["message"]
    five = [
        i for i in (await alice.do("query", author="mallory", limit=200))["items"] if i["importance"] == 5
    ]
    assert SHARE - 5 * five[0]["tokens"] < sum(i["tokens"] for i in five) <= SHARE
    four = await mallory.post("no more than this " * 10, importance=4)
    refusal = await mallory.fail("post", id=four["id"], importance=5, text=None)
    assert refusal["limit"] == "owner_share"
    assert (await mallory.item(four["id"]))["importance"] == 4
    for id_ in refusal["items"][1:4]:
        await mallory.post(id=id_, importance=4)
    await mallory.post(id=four["id"], importance=5)


async def test_decisions_are_important_and_make_room_for_each_other(board: Any) -> None:
    alice = await board.join("alice")
    facts = await notes(alice)
    assert not await flood(alice, 120, "DECISION")
    await board.settled()
    figures = await alice.do("board")
    assert figures["working_tokens"] <= TARGET * 0.8
    assert figures["pressure"] is None
    assert (await alice.item("D-125"))["importance"] == 4
    assert (await alice.item(facts[0]))["zone"] == "archive", "older than every decision that stands"


async def test_importance_5_of_who_is_alone_presses_and_is_refused_then(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    refused = []
    for _ in range(8):
        refused += await flood(alice, 25, importance=5)
        await board.settled()
    assert refused
    assert {r["error"] for r in refused} == {"pressure"}
    assert all("use importance 4" in r["message"] for r in refused)
    figures = await alice.do("board")
    assert figures["working_tokens"] < TARGET * 1.3, "what was posted before the pass that found it"
    issue = await alice.item(figures["pressure"])
    assert "importance 5" in issue["text"]
    calls = re.findall(r'alice: post\(id="F-(\d+)", importance=4\)', issue["text"])
    assert len(calls) >= 3
    await bob.post("a decision is posted as it always was", "DECISION")
    refusal = await bob.fail("post", text="the only truth", type="DECISION", importance=5)
    assert refusal["most_importance"] == 4
    await bob.post("the law", "CONSTRAINT")
    for n in range(1, 60):
        await alice.call("post", id=str(n), importance=4)
    await board.settled()
    assert (await alice.do("board"))["pressure"] is None


async def test_a_summary_takes_no_active_item_of_importance_5(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    root = await alice.post(
        "Which pump do we buy, the 40-litre or the 60-litre one?", "PROBLEM", importance=5
    )
    for n in range(6):
        text = f"Reason {n}: the {40 + n}-litre pump needs {n + 3} bar and costs {200 + n} euros more. "
        await bob.post(text + "word " * 240, "REPLY", edges={"replies_to": [root["id"]]})
    # Only this makes a pass begin.
    text = "We buy the 60-litre pump." + " It lasts longer." * 20
    end = await alice.post(text, "DECISION", edges={"replies_to": [root["id"]]})
    await board.settled()
    summary = (await alice.do("query", type="SUMMARY"))["items"][0]
    assert end["id"] in summary["edges"]["derived_from"]
    assert root["id"] not in summary["edges"]["derived_from"]
    assert (await alice.item(root["id"]))["zone"] == "working"


async def test_a_flood_that_nothing_bounds_is_caught(board: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(ledger: Any) -> Any:
        return
        yield

    monkeypatch.setattr(accounts, "check", never)
    alice, bob, mallory = await board.join("alice", "bob", "mallory")
    ids = await notes(alice, bob)
    await flood(mallory, 150, importance=5)
    await board.settled()
    with pytest.raises(AssertionError):
        await unharmed(alice, ids, 5)
