"""Words in the form in which models give them: any case, one for many, a key among ids, a wrong letter."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import boards
import pytest

board, mode, both = boards.board, boards.mode, boards.both


async def test_a_type_and_a_status_are_taken_in_any_case(board: Any) -> None:
    alice = await board.join("alice")
    (item,) = (await alice.do("post", text="It rains.", type="fact", status="resolved"))["items"]
    assert (item["type"], item["status"]) == ("FACT", "RESOLVED")
    assert len((await alice.do("query", type="Fact"))["items"]) == 1
    assert "FACT" in (await alice.fail("post", text="x", type="rumour"))["message"]


async def test_one_string_is_taken_for_a_list_of_one(board: Any) -> None:
    alice = await board.join("alice")
    await alice.do("post", text="It rains.", tags="weather")
    (reply,) = (await alice.do("post", text="Still.", type="REPLY", edges={"replies_to": "F-1"}))["items"]
    assert reply["edges"] == {"replies_to": ["F-1"]}
    (item,) = (await alice.do("read", ids="F-1"))["items"]
    assert item["tags"] == ["weather"]


async def test_a_key_among_ids_is_read_as_the_key_it_is(board: Any) -> None:
    alice = await board.join("alice")
    await alice.do("post", text="Begin at ten.", key="plan:1")
    await alice.do("post", text="It rains.")
    found = await alice.do("read", ids=["plan:1", "F-2", "plan:9"])
    assert [item["id"] for item in found["items"]] == ["F-2", "F-1"]
    assert found["missing"] == ["plan:9"]
    await alice.do("post", text="Begin at nine.", key="plan:1")
    assert "Begin at ten." in await alice.say("read", ids=["plan:1@1"])
    assert "F-1 key plan:1: 2 versions" in await alice.say("read", ids=["plan:1@*"])
    assert "F-1@2 fact key plan:1" in await alice.say("read", ids=["plan:1"], explain=True)
    assert "not an item id" in (await alice.fail("read", ids=["what is this"]))["message"]


async def test_a_wrong_letter_is_remarked_on_in_reading_and_refused_in_writing(board: Any) -> None:
    alice, bob = await board.join("alice"), await board.join("bob")
    await alice.do("post", text="It rains.")
    said = await bob.say("read", ids=["H-1"])
    assert "H-1 is F-1: the number decides, the letter names the type" in said
    assert "It rains." in said
    assert "H-1" not in await bob.say("read", ids=["F-1", "1"])
    for fields in (
        {"text": "No.", "type": "CRITIQUE", "edges": {"critiques": ["H-1"]}},
        {"text": "So.", "edges": {"derived_from": ["F-1"], "supports": ["Q-1"]}},
    ):
        refusal = (await bob.fail("post", **fields))["message"]
        assert "number 1 is F-1. Nothing was changed" in refusal
    assert "number 1 is F-1" in (await alice.fail("post", id="L-1", tags=["x"]))["message"]
    assert (await bob.do("read"))["seq"] == 2
    await bob.do("post", text="So.", edges={"derived_from": ["1"]})


async def test_a_critique_names_what_it_criticises(board: Any) -> None:
    alice = await board.join("alice")
    refusal = (await alice.fail("post", text="That is wrong.", type="CRITIQUE"))["message"]
    assert 'post(type="CRITIQUE", edges={"critiques": ["H-17"]}, text="…")' in refusal
    assert "Nothing was changed" in refusal


async def test_words_of_a_query_are_whole_words_and_never_ids(board: Any) -> None:
    alice = await board.join("alice")
    await alice.do("post", text="The category list of flush_once() is 41 long.")
    await alice.do("post", text="The cat sat.", key="pets:cat")
    await alice.do("post", text="猫が好きです。")

    async def ids(text: str) -> list[str]:
        return [item["id"] for item in (await alice.do("query", text=text))["items"]]

    assert await ids("cat") == ["F-2"]
    assert await ids("CATEGORY flush_once") == ["F-1"]
    assert await ids("flush") == []
    assert await ids("4") == []
    assert await ids("F-2") == []
    assert await ids("pets") == ["F-2"]
    assert await ids("好き") == ["F-3"]


async def test_a_conflict_carries_the_present_text_with_its_version_and_writer(board: Any) -> None:
    alice, bob = await board.join("alice"), await board.join("bob")
    await alice.do("post", text="41", key="total")
    await bob.do("post", text='45 "or so"\nseq 9', key="total", expected_version=1)
    refusal = (await alice.fail("post", text="42", key="total", expected_version=1))["message"]
    assert "total is at version 2, and expected_version was 1" in refusal
    assert 'total@2 by bob: "45 \\"or so\\"\\nseq 9".' in refusal, "who writes it again keeps its lines"
    assert "\nseq 9" not in refusal
    assert "read" not in refusal, "what stands is there: one call more does it"
    await alice.do("post", text="46", key="total", expected_version=2)
    await alice.do("post", text="x" * 500, key="long")
    refusal = (await bob.fail("post", text="y", key="long", expected_version=7))["message"]
    assert refusal.endswith('try again from how it stands. read(keys=["long"]) shows it.')
    assert "xxxx" not in refusal


async def test_only_the_author_of_a_text_is_told_what_takes_its_place(board: Any) -> None:
    alice, bob = await board.join("alice"), await board.join("bob")
    await alice.do("post", text="The pump leaks.")
    own = (await alice.fail("post", id="F-1", text="It drips."))["message"]
    assert own.endswith('a new item takes its place: post(edges={"supersedes": ["F-1"]}, text="…").')
    both = {"importance": 5, "edges": {"supports": ["F-1"]}}
    more = (await alice.fail("post", id="F-1", text="It drips.", **both))["message"]
    assert more == f"{own.removesuffix('.')}; the same call without text changes its edges, importance."
    others = (await bob.fail("post", id="F-1", text="It is dry.", importance=5))["message"]
    assert others.endswith('answer it: post(type="REPLY", edges={"replies_to": ["F-1"]}, text="…").')


async def test_who_is_not_to_answer_a_critique_is_not_told_to(board: Any) -> None:
    alice, bob, carol = await board.join("alice", "bob", "carol")
    await alice.do("post", text="The pump leaks.")
    await bob.do("post", text="It does not.", type="CRITIQUE", edges={"critiques": ["F-1"]})
    stranger = (await carol.fail("post", id="C-2", text="It drips."))["message"]
    assert stranger.endswith("only entries (items with a key) get new versions. Nothing was changed.")
    criticised = (await alice.fail("post", id="C-2", text="It drips."))["message"]
    assert criticised.endswith('answer it: post(type="REPLY", edges={"replies_to": ["C-2"]}, text="…").')
    critic = (await bob.fail("post", id="C-2", text="It drips."))["message"]
    assert 'post(edges={"supersedes": ["C-2"]}' in critic


async def test_a_conflict_shows_no_text_that_the_caller_may_not_see(board: Any) -> None:
    alice, bob = await board.join("alice"), await board.join("bob")
    await alice.do("post", text="my secret", key="total", visibility="private")
    await bob.do("post", text="7", key="total")
    refusal = (await bob.fail("post", text="8", key="total", expected_version=5))["message"]
    assert 'total@1 by bob: "7"' in refusal
    assert "secret" not in refusal


@pytest.fixture
async def every_tool(tmp_path: Path, mode: str) -> AsyncIterator[Any]:
    tools = ("core", "run", "plan", "memory", "messages", "admin")
    async with boards.open_boards(tmp_path, mode, tools=tools) as opened:
        yield opened


async def test_every_call_that_changes_something_refuses_a_wrong_letter(every_tool: Any) -> None:
    alice, bob = await every_tool.join("alice", "bob")
    await alice.do("post", text="The cache is cold.", type="HYPOTHESIS")
    await alice.do("constraint", text="Never guess.")
    await bob.do("post", text="It is warm.", type="CRITIQUE", edges={"critiques": ["H-1"]})
    await alice.do("plan", items=[{"title": "Measure it"}])
    lease = (await alice.do("claim", id="T-1"))["task"]["lease"]
    question = (await bob.do("request", text="Is it?", to="alice", seconds=0))["request"]["id"]
    wrong = question.replace("Q", "F")
    seq = (await alice.do("query"))["seq"]
    given = {"outcome": "falls", "reason": "weak"}
    for agent, tool, arguments in (
        (alice, "debate", {"op": "concede", "id": "F-1"}),
        (alice, "debate", {"op": "concede", "id": "H-1", "to": "F-3"}),
        (bob, "debate", {"op": "agree", "id": "F-1"}),
        (bob, "debate", {"op": "withdraw", "id": "F-3"}),
        (bob, "debate", {"op": "vote", "id": "F-1"}),
        (bob, "debate", {"op": "watch", "id": "F-1"}),
        (bob, "debate", {"op": "watch", "id": "thread:F-1"}),
        (bob, "debate", {"op": "open", "id": "F-2"}),
        (bob, "debate", {"op": "decide", "id": "F-1", **given}),
        (alice, "transaction", {"debates": [{"op": "concede", "id": "F-1"}]}),
        (alice, "transaction", {"reads": {"F-1": 1}, "writes": [{"text": "x"}]}),
        (alice, "constraint", {"id": "F-2", "retire": "no more"}),
        (alice, "constraint", {"confirm": ["F-2"]}),
        (alice, "report_result", {"check": "lint", "ok": False, "cites": ["F-1"]}),
        (alice, "claim", {"op": "done", "id": "T-1", "lease": lease, "text": "ok", "cites": ["F-1"]}),
        (alice, "respond", {"id": wrong, "text": "Yes."}),
        (bob, "request", {"id": wrong, "cancel": True}),
        (bob, "query_archive", {"text": "F-1", "restore": True}),
    ):
        refusal = (await agent.fail(tool, **arguments))["message"]
        assert "There is no F-" in refusal, (tool, arguments, refusal)
        assert "Nothing was changed" in refusal
    assert (await alice.do("query"))["seq"] == seq
    assert (await alice.do("debate", op="status", id="F-1"))["item"] == "H-1"
    assert (await alice.do("debate", op="concede", id="1"))["closed_by"] == "alice"
