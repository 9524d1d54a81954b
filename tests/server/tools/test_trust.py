"""How far items are to be relied on: kept with what an agent posts, and the lowest of its sources for a summary."""

from __future__ import annotations

import re
from typing import Any

import boards
import pytest
from blackboard_mcp.protocols.access import Trust
from blackboard_mcp.storage.operations.items import trust as trusting

board, small, mode, both = boards.board, boards.small, boards.mode, boards.both

FILLER = "word " * 30


async def trusted(board: Any, **trusts: Trust) -> list[Any]:
    """Agents, each relied on so far."""
    for name, trust in trusts.items():
        await board.opened.blackboard.introduce(name, name, trust)
    return list(await board.join(*trusts))


@both
async def test_trust_is_kept_with_what_an_agent_posts_and_shown_where_it_is_low(
    board: Any, mode: str
) -> None:
    low, usual, high = await trusted(board, low=Trust.LOW, usual=Trust.NORMAL, high=Trust.HIGH)
    posted = [await agent.post(f"by {agent.name}", "FACT") for agent in (low, usual, high)]
    assert [item["trust"] for item in posted] == ["low", "normal", "high"]
    assert [(await usual.item(item["id"]))["trust"] for item in posted] == ["low", "normal", "high"]
    for text in (
        await usual.say("read"),
        await usual.say("query"),
        await usual.resource("board://main/working"),
    ):
        marked = [line for line in text.splitlines() if "low trust" in line]
        assert len(marked) == 1
        assert posted[0]["id"] in marked[0]
        assert re.search(r"by low (0s )?low trust", marked[0])
    await board.opened.blackboard.introduce("low", "low", Trust.NORMAL)
    again = await low.post("by low, again", "FACT")
    assert again["trust"] == "normal"
    assert (await usual.item(posted[0]["id"]))["trust"] == "low", "what was posted before stays as it is"


async def test_an_entry_is_relied_on_no_further_than_any_of_who_wrote_it(board: Any) -> None:
    low, usual = await trusted(board, low=Trust.LOW, usual=Trust.NORMAL)
    first = await usual.post("one", "FACT", key="plan")
    assert first["trust"] == "normal"
    assert (await low.post("two", key="plan"))["trust"] == "low"
    assert (await usual.post("three", key="plan"))["trust"] == "low"


async def finished_thread(asker: Any, answerer: Any) -> None:
    root = await asker.post("Which pump do we buy, the 40-litre or the 60-litre one?", "QUESTION")
    for n in range(5):
        await answerer.post(
            f"Reason {n}: the {40 + n}-litre pump needs {n + 3} bar and costs {200 + n} euros more. {FILLER}",
            "REPLY",
            edges={"replies_to": [root["id"]]},
        )
    await asker.post("We buy the 60-litre pump.", "DECISION", edges={"replies_to": [root["id"]]})


async def summary_of(small: Any, asker: Any) -> Any:
    await asker.do("prune", dry_run=False)
    await small.settled()
    (summary,) = (await asker.do("query", type="SUMMARY", zone="all"))["items"]
    return summary


async def check_summary(small: Any) -> None:
    low, usual = await trusted(small, low=Trust.LOW, usual=Trust.HIGH)
    await finished_thread(usual, low)
    assert (await summary_of(small, usual))["trust"] == "low"


async def test_a_summary_is_relied_on_as_the_least_of_its_sources(small: Any) -> None:
    await check_summary(small)


async def test_a_summary_of_what_is_relied_on_further_is_not_marked(small: Any) -> None:
    one, other = await trusted(small, one=Trust.HIGH, other=Trust.HIGH)
    await finished_thread(one, other)
    assert (await summary_of(small, one))["trust"] == "normal", "the server wrote it"


def test_the_lowest_is_found_through_summaries_of_summaries() -> None:
    assert trusting.lowest([Trust.HIGH, Trust.LOW, Trust.NORMAL]) is Trust.LOW
    assert trusting.lowest([Trust.HIGH, Trust.NORMAL]) is Trust.NORMAL
    assert trusting.lowest([Trust.HIGH]) is Trust.HIGH
    assert trusting.lowest([]) is Trust.NORMAL


def forgets(no: int, number: int, sources: Any) -> Any:
    """A summary relied on as its writer."""
    return
    yield


def takes_the_best(no: int, number: int, sources: Any) -> Any:
    """A summary relied on as the best of its sources."""
    found = yield from trusting.trusts(no, list(sources))
    if Trust.LOW in found.values() and Trust.HIGH not in found.values():
        yield from trusting.lower(no, number, [Trust.LOW])


@pytest.mark.parametrize("mutant", [forgets, takes_the_best])
async def test_a_summary_that_launders_its_sources_is_caught(
    small: Any, mutant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trusting, "summarised", mutant)
    with pytest.raises(AssertionError):
        await check_summary(small)
