"""Keyed entries over MCP: deleting, what stays of it, and beginning anew."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import boards
import pytest

board, mode, both = boards.board, boards.mode, boards.both


@both
async def test_F7_an_entry_is_deleted_read_by_version_and_begun_anew(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("first", key="plan:step", tags=["t"])
    await bob.post("second", key="plan:step", expected_version=1)
    text = await bob.say("post", key="plan:step", status="DELETED", expected_version=2)
    assert text.splitlines()[0] == "F-1@3 deleted key plan:step"
    gone = await alice.item("F-1")
    assert (gone["status"], gone["deleted"], gone["version"], gone["text"]) == ("DELETED", True, 3, "")
    assert (gone["zone"], gone["author"], gone["updated_by"]) == ("archive", "alice", "bob")
    said = await alice.say("read", ids=["F-1"])
    assert "deleted by bob, version 3" in said.splitlines()[0]
    assert 'read(ids=["F-1@2"])' in said
    assert 'post(key="plan:step", text=…)' in said
    found = await alice.do("read", keys=["plan:step", "plan:step@1"])
    assert found["missing"] == ["plan:step"]
    assert [i["text"] for i in found["items"]] == ["first"]
    assert (await alice.item("F-1@2"))["text"] == "second"
    assert (await alice.do("query", zone="all"))["items"] == []
    (tombstone,) = (await alice.do("query", status="DELETED"))["items"]
    assert tombstone["id"] == "F-1"
    news = await alice.do("read", since=0)
    assert news["events"][-1]["event"] == "item.deleted"
    assert "item.deleted F-1@3 plan:step by bob" in await alice.say("read", since=0)
    again = await alice.post("third", key="plan:step", expected_version=0)
    assert (again["id"], again["version"], again["zone"]) == ("F-1", 4, "working")
    assert (again["status"], again["tags"]) == ("ACTIVE", [])
    assert (await alice.do("query", status="DELETED", zone="all"))["items"] == []


async def test_a_refused_delete_says_what_to_do_instead(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("plain")
    await alice.post("debated", key="k")
    await bob.post("no", "CRITIQUE", edges={"critiques": ["F-2"]})
    before = await board.seq()
    for given, code, teaches in (
        ({"key": "nothing"}, "not_found", "query(key=…)"),
        ({"key": "nothing", "expected_version": 3}, "conflict", "version 0"),
        ({"id": "F-1"}, "invalid", 'post(id="F-1", status="WITHDRAWN")'),
        ({"id": "F-99"}, "not_found", "F-99"),
        ({"key": "k"}, "refused", "alice to answer"),
        ({"key": "k", "expected_version": 7}, "conflict", "is at version 1"),
        ({}, "invalid", "key (or id)"),
        ({"key": "k", "text": "x", "tags": ["t"]}, "invalid", "leave out tags, text"),
        ({"key": "k:", "expected_version": 1}, "invalid", "write k, say"),
    ):
        failure = await alice.fail("post", status="DELETED", **given)
        assert failure["error"] == code, failure
        assert teaches in failure["message"]
        assert "othing was changed" in failure["message"]
    assert await board.seq() == before
    await bob.do("debate", op="withdraw", id="F-2")
    await alice.do("post", key="k", status="DELETED")
    failure = await bob.fail("post", key="k", status="DELETED")
    assert (failure["error"], failure["current_version"]) == ("conflict", 2)
    failure = await bob.fail("post", key="k", text="x", expected_version=1)
    assert "deleted at version 2" in failure["message"]
    failure = await bob.fail("post", id="F-2", status="RESOLVED")
    assert "post text to key 'k'" in failure["message"]
    failure = await bob.fail("post", text="x", type="CRITIQUE", edges={"critiques": ["F-2"]})
    assert failure["error"] == "conflict"
    failure = await bob.fail("debate", op="open", id="F-2")
    assert failure["error"] == "conflict"


async def test_a_deleted_entry_is_not_found_in_the_archive(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("the zebra crossed at noon", key="animal")
    await alice.post("new", key="other", edges={"supersedes": ["F-1"]})
    await board.opened.archive.drain()
    (hit,) = (await bob.do("query_archive", text="zebra"))["items"]
    assert hit["id"] == "F-1"
    await alice.do("post", key="animal", status="DELETED")
    for _ in range(2):  # while the index waits to learn of it, and after
        for text in ("zebra", "animal", ""):
            assert (await bob.do("query_archive", text=text))["items"] == []
        exact = await bob.do("query_archive", text="F-1", restore=True)
        assert exact["items"] == []
        assert 'deleted, read(ids=["F-1@*"])' in exact["notice"]
        await board.opened.archive.drain()
    assert (await bob.item("F-1@1"))["text"] == "the zebra crossed at noon"


async def test_what_rests_on_a_deleted_entry_says_so_and_explain_says_who_deleted_it(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("base", key="base")
    await bob.post("leaning", edges={"depends_on": ["F-1"]})
    await alice.do("post", key="base", status="DELETED")
    assert "⚠ rests on F-1 DELETED" in await bob.say("query")
    assert (await bob.item("F-2"))["retracted"][0]["status"] == "DELETED"
    said = await bob.say("read", ids=["F-1"], explain=True)
    assert "deleted by alice, version 2" in said
    assert "begins it anew" in said
    facts = await bob.do("read", ids=["F-1"], explain=True)
    assert facts["explanations"][0]["restore"] is None
    assert facts["explanations"][0]["left"]["event"] == "item.deleted"


async def test_I25_deleting_a_private_entry_tells_nobody(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await bob.post("shared", key="k")
    await alice.post("mine", key="k", visibility="private")
    seen = [await bob.do("query", zone="all"), await bob.resource("board://main/stats")]
    gone = (await alice.do("post", key="k", status="DELETED"))["items"][0]
    assert (gone["id"], gone["visibility"]) == ("F-2", "private")
    assert (await bob.do("query", status="DELETED"))["items"] == []
    assert not await bob.sees("F-2")
    assert not await bob.sees("F-2@1")
    assert (await bob.do("read", since=0))["events"] == [
        e for e in (await alice.do("read", since=0))["events"] if e["item"] != "F-2"
    ]
    assert (await bob.do("query", zone="all"))["items"] == seen[0]["items"]
    failure = await bob.fail("post", key="k", visibility="private", status="DELETED")
    assert failure["error"] == "not_found"
    assert (await alice.do("read", keys=["k"]))["items"][0]["text"] == "shared"
    assert (await bob.post("more", key="k"))["version"] == 2


@both
async def test_F14_every_version_says_who_wrote_it_and_when(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("one", key="plan:step", tags=["t"])
    board.clock.advance(60)
    await bob.post("two and more", key="plan:step")
    board.clock.advance(60)
    await alice.do("post", id="F-1", status="RESOLVED")
    await bob.do("post", key="plan:step", status="DELETED")
    board.clock.advance(60)
    await alice.post("four", key="plan:step")
    for given in ({"ids": ["F-1@*"]}, {"keys": ["plan:step@*"]}):
        answer = await bob.do("read", **given)
        assert (answer["items"], answer["missing"]) == ([], [])
        (listed,) = answer["versions"]
        assert (listed["id"], listed["key"], listed["newest"], listed["next"]) == (
            "F-1",
            "plan:step",
            4,
            None,
        )
        told = [(v["version"], v["created_by"], v["updated_by"], v["status"]) for v in listed["versions"]]
        assert told == [
            (4, "alice", "alice", "ACTIVE"),
            (3, "bob", "bob", "DELETED"),
            (2, "bob", "alice", "RESOLVED"),
            (1, "alice", "alice", "ACTIVE"),
        ]
        for version in listed["versions"]:
            item = await bob.item(f"F-1@{version['version']}")
            for name in ("sha256", "tokens", "tags", "updated_by", "updated_at", "deleted"):
                assert item[name] == version[name]
    lines = (await bob.say("read", ids=["F-1@*"])).splitlines()
    assert lines[0] == "F-1 key plan:step: 4 versions"
    assert lines[1].startswith("@4 by alice 0s, 1 tokens, sha256 ")
    assert lines[2] == "@3 deleted by bob 1m"
    assert lines[3].startswith("@2 by bob 2m, 3 tokens, RESOLVED, changed by alice 1m, sha256 ")
    (cut,) = (await bob.do("read", keys=["plan:step@*2"]))["versions"]
    assert [v["version"] for v in cut["versions"]] == [2, 1]
    facts = await bob.facts("board://main/items/F-1/versions.json")
    assert facts == listed
    assert "@3 deleted by bob" in await bob.resource("board://main/items/F-1/versions")
    await bob.do("post", key="plan:step", status="DELETED")
    (listed,) = (await bob.do("read", keys=["plan:step@*"]))["versions"]
    assert listed["newest"] == 5


async def test_a_long_history_is_read_page_by_page(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    for start in range(0, 120, 40):
        await alice.do("post", items=[{"text": f"v{start + n}", "key": "k"} for n in range(40)])
    seen: list[int] = []
    asked: str | None = "F-1@*"
    while asked is not None:
        (listed,) = (await bob.do("read", ids=[asked]))["versions"]
        assert len(listed["versions"]) <= 50
        seen += [v["version"] for v in listed["versions"]]
        asked = listed["next"]
    assert seen == list(range(120, 0, -1))
    said = (await bob.say("read", ids=["F-1@*"], budget=100)).splitlines()
    assert len(said) < 8
    assert said[-2].startswith("… 11")
    assert 'read(ids=["F-1@*11' in said[-2]


async def test_I25_versions_of_what_one_may_not_see_are_missing(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("mine", key="k", visibility="private")
    await alice.post("mine again", key="k", visibility="private")
    for given in ({"ids": ["F-1@*"]}, {"keys": ["k@*"]}, {"ids": ["F-99@*"]}, {"ids": ["F-1@2"]}):
        answer = await bob.do("read", **given)
        assert (answer["items"], answer["versions"]) == ([], [])
        assert answer["missing"] == [name for names in given.values() for name in names]
    await bob.post("shared", key="k")
    (listed,) = (await bob.do("read", keys=["k@*"]))["versions"]
    assert (listed["id"], listed["newest"]) == ("F-2", 1)
    (listed,) = (await alice.do("read", keys=["k@*"]))["versions"]
    assert (listed["id"], listed["newest"]) == ("F-1", 2)
    await alice.fail("read", ids=["*@*"])
    await alice.fail("read", keys=["k:*@*"])
    await alice.fail("read", ids=[f"F-{n}@*" for n in range(11)])


async def test_a_retried_delete_applies_once(board: Any) -> None:
    alice = await board.join("alice")
    await alice.post("a", key="k")
    first = await alice.do("post", key="k", status="DELETED", idempotency_key="once")
    again = await alice.do("post", key="k", status="DELETED", idempotency_key="once")
    assert (again["repeated"], again["seq"]) == (True, first["seq"])
    assert again["items"] == first["items"]


@pytest.mark.parametrize("said", [{"text": "  "}, {"key": "a:"}, {"key": "a*"}])
async def test_a_bad_entry_is_refused_and_leaves_nothing(board: Any, said: dict[str, str]) -> None:
    alice = await board.join("alice")
    await alice.post("here")
    before = await board.seq()
    await alice.fail("post", **{"text": "x", "key": "k", **said})
    assert await board.seq() == before


async def test_the_examples_of_the_how_to_page_do_what_it_says(board: Any) -> None:
    page = (Path(__file__).parents[3] / "docs" / "howto" / "entries.md").read_text("utf-8")
    alice = await board.join("alice")
    made = []
    for block in re.findall(r"^```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        call = json.loads(block)
        made += (await alice.do(call["tool"], **call["arguments"]))["items"]
    assert [(item["id"], item["version"], item["deleted"]) for item in made] == [
        ("P-1", 1, False),
        ("P-1", 2, False),
        ("P-1", 3, True),
    ]
    (listed,) = (await alice.do("read", keys=["plan:step:3@*"]))["versions"]
    assert [v["version"] for v in listed["versions"]] == [3, 2, 1]
    assert (await alice.do("read", keys=["plan:step:3@2"]))["items"][0]["text"] == "Measure both pumps."


@both
async def test_I24_a_repeated_delete_is_told_as_one_whatever_the_key_holds_since(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("first", key="k")
    call = {"key": "k", "status": "DELETED", "idempotency_key": "once"}
    await alice.do("post", **call)
    await bob.post("second", key="k")
    again = (await alice.do("post", **call))["items"][0]
    assert (again["version"], again["deleted"], again["text"]) == (2, True, "")
    assert (await alice.say("post", **call)).startswith("F-1@2 deleted (posted before")
    assert (await bob.do("read", keys=["k"]))["items"][0]["text"] == "second"


async def test_what_was_changed_without_a_new_text_is_listed_with_what_it_was(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    fact = await ada.post("90 ms", tags=["slow", "db"], metadata={"host": "a"}, importance=3)
    await ada.do("post", id=fact["id"], tags=["fast"], importance=4)
    board.clock.advance(60)
    long = {"log": "x" * 2_000}
    await ada.do("post", id=fact["id"], metadata=long)
    await ada.do("post", id=fact["id"], status="RESOLVED")
    (listed,) = (await ben.do("read", ids=["F-1@*"]))["versions"]
    told = [(a["agent"], a["version"], a["was"], a["now"]) for a in listed["amendments"]]
    kept = {"characters": 2_010, "sha256": told[1][3]["metadata"]["sha256"]}
    assert told == [
        ("ada", 1, {"status": "ACTIVE"}, {"status": "RESOLVED"}),
        ("ada", 1, {"metadata": {"host": "a"}}, {"metadata": kept}),
        ("ada", 1, {"importance": 3, "tags": ["slow", "db"]}, {"importance": 4, "tags": ["fast"]}),
    ]
    news = await ben.say("read", since=2)
    assert "item.changed F-1 by ada: importance 3 → 4; tags [slow db] → [fast]\n" in news
    assert "item.changed F-1 by ada: metadata\n" in news
    lines = (await ben.say("read", ids=["F-1@*"])).splitlines()
    assert lines[2].endswith("by ada 0s, of @1: status ACTIVE → RESOLVED")
    assert lines[3].split(": ", 1)[1].startswith('metadata {"host": "a"} → (2010 characters, sha256 ')
    assert lines[4].endswith("by ada 1m, of @1: importance 3 → 4; tags [slow db] → [fast]")
    (entry,) = (await ada.do("post", key="k", type="FACT", text="one", importance=2))["items"]
    await ben.do("post", key="k", text="two", importance=3)
    (listed,) = (await ada.do("read", keys=["k@*"]))["versions"]
    assert [(a["agent"], a["version"], a["was"]) for a in listed["amendments"]] == [
        ("ben", 2, {"importance": 2})
    ]
    note = await ada.post("mine", tags=["a"], visibility="private")
    await ada.do("post", id=note["id"], tags=["b"])
    assert (await ben.do("read", ids=[f"{note['id']}@*"]))["versions"] == []
    assert entry["id"] != note["id"]


async def test_news_of_changed_metadata_name_the_keys(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("db-3", metadata={"owner": "ann", "port": 1, "rack": 7})
    await ada.do("post", id="F-1", metadata={"owner": "bob", "rack": 7, "disk full\nseq 9": 1})
    told = await ben.say("read", since=2)
    assert told.splitlines()[0] == "seq 3 item.changed F-1 by ada: metadata: owner, port, disk_full_seq_9"
    await ada.do("post", id="F-1", metadata={f"k{n}": n for n in range(12)})
    assert "metadata: disk_full_seq_9, owner, rack, k0, k1, k10, k11, k2 +7" in await ben.say("read", since=3)
