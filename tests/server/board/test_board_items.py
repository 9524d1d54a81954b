"""Posting, reading and debating from Python, the same in-process and over MCP: F63."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pytest
from blackboard_mcp.protocols.errors import BlackboardError, Conflict, InvalidInput, Refused, UnknownReference
from blackboard_mcp.protocols.items import ItemType, Status
from patience import PATIENCE

everywhere = pytest.mark.parametrize("place", ["memory", "file", "modern", "legacy", "stdio"], indirect=True)


@everywhere
async def test_posts_come_back_as_typed_values(board: Any) -> None:
    item = await board.post(
        "p95 is 900 ms", type=ItemType.HYPOTHESIS, tags=["latency"], edges={"supports": ["F-1"]}, importance=4
    )
    assert (item.id, item.number, item.version, item.author) == ("H-2", 2, 1, "alice")
    assert item.type == ItemType.HYPOTHESIS
    assert item.status == Status.ACTIVE
    assert item.edges == {"supports": ["F-1"]}
    assert isinstance(item.created_at, datetime)
    assert item.created_at.utcoffset() == timedelta(0)
    assert await board.item("2") == await board.item("H-2")
    assert (await board.item("F-1")).cited_by == {"supports": ["H-2"]}
    assert board.seq == 3


async def test_a_batch_is_posted_whole_or_not_at_all(board: Any) -> None:
    answer = await board.post_all(
        [{"text": "a", "tags": ["x"]}, {"text": "b", "edges": {"replies_to": ["$1"]}}, {"text": "c"}]
    )
    assert [item.id for item in answer.items] == ["F-2", "F-3", "F-4"]
    assert answer.items[1].edges == {"replies_to": ["F-2"]}
    with pytest.raises(UnknownReference):
        await board.post_all([{"text": "d"}, {"text": "e", "edges": {"supports": ["F-99"]}}])
    with pytest.raises(InvalidInput, match="at least one"):
        await board.post_all([])
    assert [item.text for item in await board.query().all()] == ["c", "b", "a", "the first item"]
    shared = await board.post_all(
        [{"text": "f"}, {"text": "g", "tags": ["own"]}],
        type="LOG",
        tags=["t"],
        metadata={"run": 7},
        thread="$1",
    )
    assert {item.thread for item in shared.items} == {"L-5"}
    assert (await board.post("h", thread="L-6")).thread == "L-5"
    assert [(i.type, i.tags, i.metadata) for i in shared.items] == [
        ("LOG", ["t"], {"run": 7}),
        ("LOG", ["own"], {"run": 7}),
    ]


async def test_entries_have_versions_and_are_compared_and_set(board: Any) -> None:
    first = await board.post("draft", key="plan:1", expected_version=0)
    second = await board.post("better", key="plan:1", expected_version=first.version)
    assert (second.id, second.version) == (first.id, 2)
    with pytest.raises(Conflict) as stale:
        await board.post("late", key="plan:1", expected_version=1)
    assert stale.value.facts["current_version"] == 2
    assert [item.text for item in await board.versions("plan:1")] == ["draft", "better"]
    assert [item.text for item in await board.versions(id=first.id)] == ["draft", "better"]
    assert (await board.get("plan:1@1")).text == "draft"
    assert (await board.get("plan:1")).text == "better"
    assert await board.find("plan:2") is None
    with pytest.raises(UnknownReference):
        await board.get("plan:2")
    with pytest.raises(UnknownReference):
        await board.item("F-99")


async def test_a_query_asks_for_page_after_page(board: Any) -> None:
    posted = [
        item
        for turn in range(2)
        for item in (await board.post_all([{"text": f"t{turn} {n}"} for n in range(30)])).items
    ]
    listed = [item.id async for item in board.query(page=7)]
    assert listed == [item.id for item in reversed(posted)] + ["F-1"]
    late = datetime.now(UTC) + timedelta(hours=1)
    assert await board.query(after=late).all() == []
    assert len(await board.query(before=late, author="alice").all()) == 61


@pytest.mark.parametrize("place", ["memory", "modern"], indirect=True)
async def test_the_archive_is_searched_and_what_is_found_comes_back(board: Any) -> None:
    newer = await board.post("a better one", edges={"supersedes": ["F-1"]})
    assert (await board.item("F-1")).zone == "archive"
    found = await board.query_archive("first item", limit=5, neighbours=True)
    assert found.mode in ("hybrid", "lexical")
    assert [item.id for item in found.items] == ["F-1"]
    assert list(found.left) == ["F-1"]
    assert [beside.item.id for beside in found.neighbours] in ([], [newer.id])
    assert [item.id for item in await board.query(zone="archive").all()] == ["F-1"]
    outcome = await board.prune(dry_run=True)
    assert (outcome.dry_run, outcome.moved) == (True, [])
    back = await board.query_archive("first item", limit=1, restore=True)
    assert [item.zone for item in back.items] == ["working"]
    assert (await board.item("F-1")).zone == "working"


async def test_a_debate_is_held_and_closed(place: Any, board: Any) -> None:
    bob = await place.join("bob")
    await bob.post("not so", type="CRITIQUE", edges={"critiques": ["F-1"]})
    debate = await board.debate("F-1")
    assert debate.state == "OPEN"
    assert {(o.agent, o.duty, o.state) for o in debate.obligations} == {
        ("alice", "respond", "outstanding"),
        ("bob", "acknowledge", "watching"),
    }
    with pytest.raises(Refused):
        await bob.acknowledge("F-1")
    with pytest.raises(Refused):
        await board.withdraw("C-2")
    await board.post("it is", type="REPLY", edges={"replies_to": ["C-2"]})
    assert (await bob.acknowledge("F-1")).state == "CONSENSUS"
    assert (await board.debate("C-2")).closed_by == "bob"
    assert await bob.watch_topic("tag:db") == ["tag:db"]
    assert await bob.unwatch_topic("tag:db") == []


async def test_stewards_change_the_core_and_the_board(board: Any) -> None:
    core = await board.set_core(0, objective="find out", constraints=["never guess"], flags={"fast": True})
    assert (core.version, core.objective, core.flags) == (1, "find out", {"fast": True})
    with pytest.raises(Conflict):
        await board.set_core(0, objective="other")
    assert (await board.core()).constraints == ["never guess"]
    assert "never guess" in (await board.view()).view
    changed = await board.change(title="Latency", settings={"target_tokens": 9_000})
    assert (changed.title, changed.target_tokens) == ("Latency", 9_000)
    assert (await board.info()).settings["target_tokens"] == 9_000


async def test_who_changes_the_settings_of_an_answer_changes_none_of_the_board(board: Any) -> None:
    rule = {"name": "only-objects", "key": "z:*", "schema": {"type": "object"}}
    await board.change(settings={"validation": [rule], "steps": ["resolved", "logs"]})
    told = (await board.info()).settings
    assert told["steps"] == ["resolved", "logs"]
    told["steps"].append("threads")
    told["validation"][0]["schema"]["type"] = "array"
    assert (await board.info()).settings["validation"] == [rule]
    assert (await board.info()).settings["steps"] == ["resolved", "logs"]
    with pytest.raises(Refused, match="only-objects"):
        await board.post("[1]", key="z:1")


async def test_figures_agents_and_explanations_are_typed(place: Any, board: Any) -> None:
    bob = await place.join("bob")
    await bob.post("another")
    assert [(agent.name, agent.posts) for agent in await board.agents()] == [("alice", 1), ("bob", 1)]
    figures = await board.statistics()
    assert (figures.board, figures.working_items, figures.working_by_type) == (place.name, 2, {"FACT": 2})
    explained = await board.explain(["F-1"])
    assert explained.explanations[0].id == "F-1"
    assert not explained.explanations[0].protected


async def test_what_is_private_is_absent_for_others(place: Any, board: Any) -> None:
    bob = await place.join("bob")
    secret = await bob.post("mine", visibility="private", key="notes:1")
    assert (await bob.get("notes:1")).text == "mine"
    assert await board.find("notes:1") is None
    assert (await board.read([secret.id, "F-1"])).missing == [secret.id]


BAD = {
    "a type that is none": lambda b: b.post("x", type="RUMOUR"),
    "no text": lambda b: b.post(),
    "a NUL": lambda b: b.post("a\0b"),
    "half a character": lambda b: b.post("\ud800"),
    "importance 6": lambda b: b.post("x", importance=6),
    "a key with a wildcard": lambda b: b.post("x", key="a:*"),
    "an edge of no kind": lambda b: b.post("x", edges={"likes": ["F-1"]}),
    "a text for a list": lambda b: b.post("x", tags="latency"),
    "metadata that is no JSON": lambda b: b.post("x", metadata={"n": float("nan")}),
    "a batch item with a field that is none": lambda b: b.post_all([{"txt": "x"}]),
    "a limit of 0": lambda b: b.query(page=0).all(),
    "nothing to read": lambda b: b.read(),
    "a filter that is none": lambda b: b.subscribe({"colour": "red"}),
    "a wait of an hour": lambda b: b.wait(seconds=3_600),
    "a topic that is none": lambda b: b.watch_topic("colour:red"),
    "versions of nothing": lambda b: b.versions(),
}


@pytest.mark.parametrize("place", ["memory", "modern"], indirect=True)
@pytest.mark.parametrize("case", BAD)
async def test_I24_bad_input_is_refused_and_changes_nothing(board: Any, case: str) -> None:
    with pytest.raises(InvalidInput):
        await BAD[case](board)
    changes = await board.changes(0)
    assert changes.seq == 2, [event.event for event in changes.events]


@everywhere
async def test_an_idempotency_key_applies_once(board: Any) -> None:
    first = await board.post("once", idempotency_key="k1")
    again = await board.post("once", idempotency_key="k1")
    assert (first.id, first.seq) == (again.id, again.seq)
    assert board.seq == 3


async def test_a_deleted_entry_is_missing_by_key_and_keeps_its_versions(board: Any) -> None:
    first = await board.post("draft", key="plan:1")
    with pytest.raises(Conflict):
        await board.delete("plan:1", expected_version=7)
    tombstone = await board.delete("plan:1", expected_version=1)
    assert (tombstone.id, tombstone.version, tombstone.deleted) == (first.id, 2, True)
    assert await board.find("plan:1") is None
    assert [item.text for item in await board.versions(id=first.id)] == ["draft", ""]
    assert [item.id for item in await board.query(status="DELETED").all()] == [first.id]
    with pytest.raises(UnknownReference):
        await board.delete("plan:2")
    assert (await board.post("again", key="plan:1", expected_version=0)).version == 3
    async with board.transaction() as tx:
        assert await tx.get("plan:1") is not None
        tx.delete("plan:1")
    assert await board.find("plan:1") is None


async def test_an_error_assures_of_no_change_who_asked_for_one(board: Any) -> None:
    with pytest.raises(InvalidInput, match="not a key") as told:
        [item async for item in board.query(key="a b")]
    assert "othing was changed" not in str(told.value)
    with pytest.raises(InvalidInput, match="othing was changed"):
        await board.post("", key="a b")


async def test_a_text_is_not_taken_for_the_list_of_its_letters(board: Any) -> None:
    for call in (
        lambda: board.post("x", tags="db"),
        lambda: board.post("x", agree="all"),
        lambda: board.post("x", edges={"supports": "11"}),
        lambda: board.read("F-1"),
        lambda: board.open_debate("F-1", watchers="bob"),
        lambda: board.set_core(0, constraints="never guess"),
        lambda: board.join(skills="sql"),
        lambda: board.join(protocols="critique"),
        lambda: board.next_request(skills="sql", seconds=0),
        lambda: board.claim(skills="sql", seconds=0),
        lambda: board.claim(paths="key:plan:*"),
        lambda: board.plan(cancel="T-1"),
        lambda: board.start_run("why", "bob"),
        lambda: board.finalize("x", cites="F-1"),
        lambda: board.constraint(confirm="P-1"),
        lambda: board.report_result("lint", False, cites="F-1"),
        lambda: board.retry_dead("group", "1.1"),
    ):
        with pytest.raises(InvalidInput, match="list of texts"):
            await call()
    with pytest.raises(InvalidInput, match="list of texts"):
        board.handlers("reviewers").handler(tags="db")(print)
    async with board.transaction() as tx:
        with pytest.raises(InvalidInput, match="list of texts"):
            tx.debate("open", "F-1", watchers="bob")
    assert await board.query().all() == [await board.item("F-1")]


async def test_values_that_json_has_not_are_refused_everywhere_alike(board: Any) -> None:
    class Own:
        pass

    for value in (datetime.now(UTC), {"a"}, b"a", Decimal("1.5"), Own(), {1: "a"}, MappingProxyType({})):
        with pytest.raises(InvalidInput, match=r"JSON|keys are strings"):
            await board.post("x", metadata={"value": [value]})
        with pytest.raises(InvalidInput, match=r"JSON|keys are strings"):
            async with board.transaction() as tx:
                tx.post("x", metadata={"value": value})
    with pytest.raises(InvalidInput, match="no timedelta in JSON"):
        await board.post("x", ttl_seconds=timedelta(seconds=5))
    assert (await board.post("x", metadata={"value": (1, 2)})).metadata == {"value": [1, 2]}


async def test_an_idempotency_key_that_is_none_is_refused(board: Any) -> None:
    for key in ("", "half a pair \ud800", "x" * 201, 5):
        with pytest.raises(InvalidInput, match=r"[Ii]dempotency key|surrogates"):
            await board.post("once", idempotency_key=key)
    assert await board.query().all() == [await board.item("F-1")]


_WRONG: list[Callable[[Any], Awaitable[Any]]] = [
    lambda board: board.get(None),
    lambda board: board.get(7),
    lambda board: board.find(None),
    lambda board: board.item(None),
    lambda board: board.read(keys=[None]),
    lambda board: board.read(ids=7),
    lambda board: board.task(None),
    lambda board: board.define_stages(None),
    lambda board: board.plan(["build"]),
    lambda board: board.ask(None, "Why?"),
    lambda board: board.answer_to(None),
    lambda board: board.take_request(None),
    lambda board: board.post_all(None),
    lambda board: board.post_all(["a text"]),
    lambda board: board.post("A text.", metadata=["a"]),
    lambda board: board.post("A text.", edges=["F-1"]),
    lambda board: board.artifact_write("a.md", replace=7),
    lambda board: board.artifact_write("a.md", replace={"old": "a", "new": "b"}),
    lambda board: board.post("A text.", edges={"supports": 7}),
    lambda board: board.hand_over(None),
    lambda board: board.subscribe({"tags"}),
    lambda board: board.change(settings=7),
    lambda board: board.query_archive(after=7),
    lambda board: board.query(before="soon").all(),
]


async def test_what_is_none_or_of_another_type_is_refused_by_an_error_of_the_board(board: Any) -> None:
    seq = board.seq
    for call in _WRONG:
        with pytest.raises(BlackboardError):
            await asyncio.wait_for(call(board), PATIENCE)
    await board.item("F-1")
    assert board.seq == seq


@pytest.mark.parametrize("place", ["memory"], indirect=True)
async def test_a_board_for_what_is_no_name_is_refused(board: Any) -> None:
    for wrong in (None, 7, ["ann"]):
        with pytest.raises(InvalidInput, match="A text as agent is wanted"):
            board.as_agent(wrong)
    with pytest.raises(InvalidInput, match="A text as name is wanted"):
        board.as_agent("ben", name=7)


async def test_a_day_is_a_time_to_search_from(board: Any) -> None:
    await board.post("The pump holds 9 bar.")
    day: Any = date(2020, 1, 1)
    assert await board.query(after=day).all()
    assert not await board.query(before=day).all()
    assert not (await board.query_archive(after=day)).items
