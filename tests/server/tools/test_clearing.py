"""Deletion by a pattern of keys, and moving to the archive by hand: what goes, what stays, and what is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boards
import pytest
from blackboard_mcp.protocols.errors import Conflict
from blackboard_mcp.server.board import Board
from blackboard_mcp.server.limits.limits import Limits

board, mode, LEGACY, MODERN = boards.board, boards.mode, boards.LEGACY, boards.MODERN
DRAFTS = {"key": "draft:**", "status": "DELETED"}


async def at_work(board: Any) -> tuple[Any, Any]:
    """Ada is a steward, ben a contributor; both have drafts, one of ben's is debated, and ada has a note of her own."""
    ada, ben = await board.join("ada", "ben")
    await ada.do("board", members={"ben": "contributor"})
    for key in ("draft:a", "draft:b:c"):
        await ben.post(f"of ben {key}", key=key)
    held = await ben.post("of ben, debated", "HYPOTHESIS", key="draft:held")
    await ada.post("no", "CRITIQUE", edges={"critiques": [held["id"]]})
    await ada.post("of ada", key="draft:ada")
    await ada.post("hers", key="draft:private", visibility="private")
    await ben.post("other", key="kept:a")
    return ada, ben


async def live(agent: Any, key: str = "**") -> set[str]:
    found = await agent.do("query", key=key, zone="all", limit=200)
    return {item["key"] for item in found["items"]}


async def test_without_a_count_it_says_what_would_go_and_changes_nothing(board: Any) -> None:
    _, ben = await at_work(board)
    seq = await board.seq()
    told = await ben.fail("transaction", writes=[{"text": "a note"}, DRAFTS])
    assert told["error"] == "conflict"
    assert told["would_delete"] == ["draft:b:c", "draft:a"]
    assert (told["count"], told["held"]) == (2, ["draft:held"])
    assert (
        "'draft:**' would delete 2 entries, and expected was not given: draft:b:c, draft:a."
        in told["message"]
    )
    assert "Nothing was changed; expected=2 deletes them." in told["message"]
    assert "What the guard holds stays: draft:held. 1 of other authors stay" in told["message"]
    assert await board.seq() == seq


async def test_with_the_right_count_ones_own_go_and_each_is_an_event(board: Any) -> None:
    ada, ben = await at_work(board)
    seq = await board.seq()
    done = await ben.do("transaction", writes=[{"text": "cleaning up"}, {**DRAFTS, "expected": 2}])
    assert [item["key"] for item in done["items"]] == [None, "draft:a", "draft:b:c"]
    events = (await ada.do("read", since=seq))["events"]
    assert [event["event"] for event in events] == ["item.posted", "item.deleted", "item.deleted"]
    assert await live(ben) == {"draft:held", "draft:ada", "kept:a"}
    assert await live(ada, "draft:*") == {"draft:held", "draft:ada", "draft:private"}
    again = await ben.fail("transaction", writes=[{**DRAFTS, "expected": 2}])
    assert (
        "would delete 0 entries, and expected was 2. Nothing was changed; there is nothing"
        in again["message"]
    )
    await ben.do("transaction", writes=[{**DRAFTS, "expected": 0}])


async def test_a_steward_deletes_what_others_wrote_and_nobody_what_is_hidden(board: Any) -> None:
    ada, ben = await at_work(board)
    await ben.post("bens own", key="draft:secret", visibility="private")
    told = await ada.fail("transaction", writes=[DRAFTS])
    assert set(told["would_delete"]) == {"draft:a", "draft:b:c", "draft:ada", "draft:private"}
    assert "secret" not in told["message"]
    await ada.do("transaction", writes=[{**DRAFTS, "expected": 4}])
    assert await live(ben) == {"draft:held", "draft:secret", "kept:a"}


async def test_a_repeated_call_deletes_once(board: Any) -> None:
    _, ben = await at_work(board)
    asked = {"writes": [{**DRAFTS, "expected": 2}], "idempotency_key": "clean-1"}
    first = await ben.do("transaction", **asked)
    await ben.post("back", key="draft:a")
    again = await ben.do("transaction", **asked)
    assert [i["id"] for i in again["items"]] == [i["id"] for i in first["items"]]
    assert "draft:a" in await live(ben)


@pytest.mark.parametrize(
    ("writes", "said"),
    [
        ([{**DRAFTS, "expected": 2}, {"text": "after"}], "after all other writes"),
        ([DRAFTS] * 5, "At most 4 deletions by a pattern"),
        ([{**DRAFTS, "expected_version": 1}], "leave out expected_version"),
        ([{**DRAFTS, "tags": ["x"]}], "leave out tags"),
        ([{"key": "k", "status": "DELETED", "expected": 1}], "expected goes with a deletion by pattern"),
        ([{"text": "x", "expected": 1}], "expected goes with a deletion by pattern"),
        ([{**DRAFTS, "expected": -1}], "expected"),
        ([{**DRAFTS, "expected": "two"}], "expected"),
        ([{"key": "***", "status": "DELETED"}], "***"),
    ],
)
async def test_a_wrong_deletion_is_told_and_changes_nothing(board: Any, writes: Any, said: str) -> None:
    _, ben = await at_work(board)
    seq = await board.seq()
    told = await ben.fail("transaction", writes=writes)
    assert said in told["message"]
    assert await board.seq() == seq


async def test_post_tells_how_a_pattern_is_deleted(board: Any) -> None:
    _, ben = await at_work(board)
    told = await ben.fail("post", **DRAFTS)
    assert told["message"].startswith(
        "'draft:**' is a pattern, and post deletes one entry. Nothing was changed;"
    )


async def test_more_than_a_transaction_holds_is_refused_whole(board: Any) -> None:
    (ben,) = (await board.join("ben"),)
    for start in (0, 60):
        await ben.do("post", items=[{"text": "x", "key": f"many:{n}"} for n in range(start, start + 60)])
    told = await ben.fail("transaction", writes=[{"key": "many:*", "status": "DELETED", "expected": 120}])
    assert "names 120 entries, and one transaction makes at most 100 writes" in told["message"]
    # Without the count, too, nothing is promised that would be refused then.
    told = await ben.fail("transaction", writes=[{"key": "many:*", "status": "DELETED"}])
    assert "one transaction makes at most 100 writes, so delete by narrower patterns" in told["message"]
    assert "expected=" not in told["message"]
    assert len(await live(ben)) == 120


async def test_each_entry_that_a_pattern_deletes_counts_as_written(tmp_path: Path, mode: str) -> None:
    limits = Limits(lull_seconds=0, posts_burst=100, posts_per_second=0.01)
    async with boards.open_boards(tmp_path, mode, limits=limits) as board:
        ben = await board.join("ben")
        await ben.do("post", items=[{"text": f"x {n}", "key": f"many:{n}"} for n in range(60)])
        refused = await ben.call(
            "transaction", writes=[{"key": "many:*", "status": "DELETED", "expected": 60}]
        )
        assert refused.is_error
        assert refused.structured_content["error"] == "rate_limited"
        assert len(await live(ben)) == 60
        await ben.do("transaction", writes=[{"key": "many:1*", "status": "DELETED", "expected": 11}])
        assert len(await live(ben)) == 49


async def test_what_comes_meanwhile_is_not_deleted_uncounted(
    board: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, ben = await at_work(board)
    store = type(board.opened.store)
    guarded = store.guarded
    late: list[Any] = []

    async def slow(self: Any, name: str, wanted: Any) -> Any:
        found = await guarded(self, name, wanted)
        if not late:
            late.append(await ben.post("late", key="draft:late"))
        return found

    monkeypatch.setattr(store, "guarded", slow)
    told = await ben.fail("transaction", writes=[{**DRAFTS, "expected": 2}])
    assert (told["error"], "draft:late" in told["moved"]) == ("conflict", True)
    assert {"draft:a", "draft:b:c", "draft:late"} <= await live(ben)


async def test_programs_clear_as_agents_do(tmp_path: Path) -> None:
    async with Board.open(agent="ann", data=tmp_path) as ann:
        for key in ("tmp:a", "tmp:b"):
            await ann.post("x", key=key)
        with pytest.raises(Conflict) as told:
            await ann.clear("tmp:**")
        assert told.value.facts["count"] == 2
        gone = await ann.clear("tmp:**", expected=2)
        assert [item.key for item in gone] == ["tmp:a", "tmp:b"]


async def test_a_steward_moves_what_it_chooses_and_what_is_protected_stays(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.do("board", members={"ben": "contributor"})
    first = await ben.post("raw one", tags=["raw"])
    second = await ada.post("raw two", tags=["raw", "x"])
    held = await ben.post("raw three", "HYPOTHESIS", tags=["raw"])
    await ada.post("no", "CRITIQUE", edges={"critiques": [held["id"]]})
    secret = await ben.post("raw and private", tags=["raw"], visibility="private")
    answer = await ben.post("in a thread", "REPLY", edges={"replies_to": [first["id"]]})
    told = await ada.do("prune", tag="raw", dry_run=True)
    assert [line["id"] for line in told["moved"]] == [first["id"], second["id"]]
    assert list(told["held"]) == [held["id"]]
    assert (await ada.do("query", tags=["raw"]))["items"], "nothing moved"
    said = await ada.say("prune", tag="raw", author="ben")
    assert f"{first['id']} step 4: chosen by ada: tag raw, author ben" in said
    assert f"stays: {held['id']} (" in said
    assert [i["id"] for i in (await ada.do("query", zone="archive"))["items"]] == [first["id"]]
    assert (await ben.item(secret["id"]))["zone"] == "working"
    moved = await ada.do("prune", thread=first["id"])
    assert [line["id"] for line in moved["moved"]] == [answer["id"]]
    assert (await ben.fail("prune", tag="raw"))["error"] == "forbidden"
    assert (await ada.fail("prune", thread="no-id"))["error"] == "invalid"
    none = await ada.say("prune", thread="F-999", author="ben")
    assert none.startswith(
        'no item that you see in working memory has thread "F-999" and author "ben"\nmoved 0 items'
    )
    assert (await ada.say("prune")).startswith("moved 0 items"), "nothing was asked for by name"
    assert (await ben.item(first["id"]))["text"] == "raw one", "what moved is read as before"
