"""What agents mean by keys, versions, names and times, through real clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boards
import pytest

board, mode, both = boards.board, boards.mode, boards.both


async def test_a_key_with_a_version_names_that_version(board: Any) -> None:
    alice = await board.join("alice")
    await alice.post("one", key="k:1")
    await alice.post("two", key="k:1")
    page = await alice.do("read", keys=["k:1@1", "k:1", "k:1@9", "none@1"])
    assert sorted((i["version"], i["text"]) for i in page["items"]) == [(1, "one"), (2, "two")]
    assert sorted(page["missing"]) == ["k:1@9", "none@1"]


async def test_no_key_ends_like_a_version(board: Any) -> None:
    alice = await board.join("alice")
    assert "version" in (await alice.fail("post", text="x", key="a@1"))["message"]


async def test_writing_again_to_an_own_private_entry_keeps_it_private(board: Any) -> None:
    ann, bob = await board.join("ann", "bob")
    await ann.post("my salary is 1", key="me:note", visibility="private")
    again = (await ann.do("post", text="my salary is 2", key="me:note"))["items"][0]
    assert (again["version"], again["visibility"]) == (2, "private")
    assert (await bob.do("query", text="salary", zone="all"))["items"] == []


async def test_visibility_said_of_an_existing_item_must_be_what_it_is(board: Any) -> None:
    ann = await board.join("ann")
    await ann.post("mine", visibility="private")
    assert "never changes" in (await ann.fail("post", id="F-1", visibility="board", importance=5))["message"]
    assert (await ann.do("post", id="F-1", visibility="private", importance=5))["items"][0]["importance"] == 5


async def test_a_new_version_lives_as_long_as_the_last_one_was_meant_to(board: Any) -> None:
    ann = await board.join("ann")
    first = (await ann.do("post", text="a", key="l:1", ttl_seconds=600))["items"][0]
    board.clock.advance(60)
    second = (await ann.do("post", text="b", key="l:1"))["items"][0]
    assert second["expires_at"] > first["expires_at"]


@pytest.mark.parametrize("text", ["hey @ann.", "(@ann)", "@ann, look", "ask @ann!"])
async def test_a_name_is_heard_whatever_ends_the_sentence(board: Any, text: str) -> None:
    ann, bob = await board.join("ann", "bob")
    await ann.post("here")
    held = await ann.do("subscribe", filter={"mentions": True})
    await bob.post(text)
    news = await ann.do("wait", subscription=held["id"], seconds=0)
    assert [e["item"] for e in news["events"]] == ["F-2"]


async def test_what_others_post_is_unseen_until_it_was_shown(board: Any) -> None:
    ann, bob = await board.join("ann", "bob")
    await ann.post("here")
    await bob.post("what do you think, @ann?")
    await ann.post("one more")
    assert ann.footer == "seq 4 · 1 unseen"
    await ann.do("debate", op="status", id="F-2")
    assert ann.footer == "seq 4 · 1 unseen", "naming it is not showing it"
    await ann.do("query", author="ann")
    assert ann.footer == "seq 4 · 1 unseen"
    await ann.do("query")
    assert ann.footer == "seq 4"


async def test_nobody_else_retires_a_constraint_or_voids_a_critique_under_debate(board: Any) -> None:
    ann, bob = await board.join("ann", "bob")
    await ann.post("never delete", "CONSTRAINT")
    for status in ("RESOLVED", "INVALIDATED"):
        assert "Only ann" in (await bob.fail("post", id="K-1", status=status))["message"]
    await ann.post("the sky is green")
    await bob.post("it is blue", "CRITIQUE", edges={"critiques": ["F-2"]})
    assert "only bob" in (await ann.fail("post", id="C-3", status="INVALIDATED"))["message"]
    assert (await ann.do("post", id="K-1", status="RESOLVED"))["items"][0]["status"] == "RESOLVED"


async def test_many_items_beyond_a_budget_share_one_line(board: Any) -> None:
    ann = await board.join("ann")
    await ann.do("post", items=[{"text": f"finding {n} " * 20} for n in range(40)])
    shown = await ann.say("read", ids=[f"F-{n}" for n in range(1, 41)], budget=300)
    assert "more items: read(ids=[" in shown
    assert boards.TOKENIZER.count(shown) <= 600


async def test_numbers_alone_find_exactly_those_items_in_the_archive(board: Any) -> None:
    ann = await board.join("ann")
    for n in range(3):
        await ann.post(f"old {n}", "LOG", importance=1)
        await ann.post(f"new {n}", edges={"supersedes": [str(2 * n + 1)]})
    for text in ("3", "L-3@1"):
        found = await ann.do("query_archive", text=text)
        assert ([i["id"] for i in found["items"]], found["mode"]) == (["L-3"], "exact")


async def test_resources_of_a_full_board_say_where_they_go_on(board: Any) -> None:
    ann = await board.join("ann")
    for n in range(3):
        never = [{"text": f"never {n} {m}", "type": "CONSTRAINT"} for m in range(100)]
        await ann.do("post", items=never)
    constraints = await ann.facts("board://main/constraints.json")
    assert len(constraints["items"]) == 300


async def test_nobody_invalidates_what_others_wrote_but_an_appointed_steward(
    tmp_path: Path, board: Any
) -> None:
    async with boards.open_boards(tmp_path / "appointed", boards.MODERN, stewards=("boss",)) as other:
        for opened in (board, other):
            ana, mal = await opened.join("ana", "mal")
            await ana.post("Contract renewal is on 4 May.")
            assert (await mal.fail("post", id="F-1", status="INVALIDATED"))["message"] == (
                "Only ana, its author, invalidates F-1 without a debate. Nothing was changed; "
                'post(type="CRITIQUE", edges={"critiques": ["F-1"]}, text="…") opens one.'
            )
        boss = await other.join("boss")
        assert (await boss.post(id="F-1", status="INVALIDATED"))["status"] == "INVALIDATED"


async def test_a_critique_that_is_posted_as_resolved_names_no_id_that_is_not_there(board: Any) -> None:
    ann, bob = await board.join("ann", "bob")
    await ann.post("the sky is green")
    critique = {"type": "CRITIQUE", "text": "no", "edges": {"critiques": ["F-1"]}}
    failure = await bob.fail("post", **critique, status="RESOLVED")
    assert failure["message"] == (
        "This CRITIQUE opens a debate, so that it cannot be RESOLVED in the same post. Nothing was changed; "
        "leave status out."
    )
    assert await board.seq() == 2
    await bob.do("post", **critique)
