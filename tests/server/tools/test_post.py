"""`post` through real clients of both generations: F5, F7, F11-F15."""

from __future__ import annotations

import hashlib
from typing import Any

import boards
import pytest

board, mode, both = boards.board, boards.mode, boards.both

LETTERS = {
    "FACT": ("F", 4),
    "HYPOTHESIS": ("H", 3),
    "LOG": ("L", 2),
    "PLAN": ("P", 3),
    "DECISION": ("D", 4),
    "CRITIQUE": ("C", 3),
    "REPLY": ("R", 3),
    "QUESTION": ("Q", 3),
    "ANSWER": ("A", 4),
    "PROBLEM": ("B", 4),
    "CONSTRAINT": ("K", 5),
    "HOT_ISSUE": ("I", 5),
    "RESULT": ("E", 3),
}
KINDS = (
    *("depends_on", "replies_to", "critiques", "supports", "refutes", "derived_from"),
    *("supersedes", "analyzed_by"),
)


async def test_a_post_answers_its_id_and_the_sequence(board: Any) -> None:
    alice = await board.join("alice")
    text = await alice.say("post", text="Water boils at 100 °C.")
    answer = await alice.do("post", text="Ice melts at 0 °C.", type="HYPOTHESIS")
    item = answer["items"][0]
    assert text == "F-1\nseq 2"
    assert answer["seq"] == 3
    assert item.keys() >= boards.ITEM_KEYS
    assert (item["id"], item["number"], item["version"], item["zone"]) == ("H-2", 2, 1, "working")
    assert (item["author"], item["status"], item["key"], item["debate"]) == ("alice", "ACTIVE", None, None)
    assert item["sha256"] == hashlib.sha256("Ice melts at 0 °C.".encode()).hexdigest()
    assert item["tokens"] == boards.TOKENIZER.count("Ice melts at 0 °C.")
    assert item["created_at"] == item["updated_at"] == "2026-11-21T09:00:00Z"
    assert item["thread"] == "H-2"


async def test_every_type_has_its_letter_and_its_importance(board: Any) -> None:
    alice = await board.join("alice")
    for place, (type_, (letter, importance)) in enumerate(LETTERS.items(), 1):
        more = {"edges": {"critiques": ["F-1"]}} if type_ == "CRITIQUE" else {}
        item = await alice.post("x", type_, **more)
        assert (item["id"], item["type"], item["importance"]) == (f"{letter}-{place}", type_, importance)
    assert (await alice.post("x"))["type"] == "FACT"


async def test_a_summary_is_the_servers_to_write(board: Any) -> None:
    alice = await board.join("alice")
    assert (await alice.fail("post", text="x", type="SUMMARY"))["error"] == "invalid"
    assert (await alice.fail("post", items=[{"text": "x", "type": "SUMMARY"}]))["error"] == "invalid"
    assert await board.seq() == 0


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "needs text"),
    ({"text": ""}, "empty"),
    ({"text": " \n\t"}, "empty"),
    ({"text": "x", "type": "FAKT"}, "'FACT', 'HYPOTHESIS'"),
    ({"text": "x", "importance": 0}, "importance"),
    ({"text": "x", "importance": 6}, "importance"),
    ({"text": "x", "importance": "high"}, "importance must be an integer"),
    ({"text": "x", "importance": True}, "importance must be an integer"),
    ({"text": 5}, "text must be a string"),
    ({"text": "x", "tags": 5}, "tags must be an array"),
    ({"text": "x", "tags": ["a,b"]}, "comma"),
    ({"text": "x", "tags": ["a\nb"]}, "line break"),
    ({"text": "x", "tags": [" a"]}, "outer space"),
    ({"text": "x", "tags": [""]}, "tags"),
    ({"text": "x", "tags": ["t" * 65]}, "64"),
    ({"text": "x", "tags": [f"t{n}" for n in range(33)]}, "32"),
    ({"text": "x", "edges": {"likes": ["F-1"]}}, "replies_to"),
    ({"text": "x", "edges": {"supports": 1}}, "array"),
    ({"text": "x", "edges": {"supports": ["nonsense"]}}, "Nothing was changed; ids look like H-17"),
    ({"text": "x", "edges": {"supports": ["$1"]}}, "earlier in the same batch"),
    ({"text": "x", "key": ""}, "empty"),
    ({"text": "x", "key": "plan:*"}, "wildcard"),
    ({"text": "x", "key": ":plan"}, "begins or ends"),
    ({"text": "x", "key": "plan:"}, "begins or ends"),
    ({"text": "x", "key": "plan::db"}, "empty segment"),
    ({"text": "x", "key": "two words"}, "not a key"),
    ({"text": "x", "expected_version": 0}, "goes with key"),
    ({"text": "x", "key": "k", "expected_version": -1}, "expected_version"),
    ({"text": "x", "status": "DONE"}, "RESOLVED"),
    ({"text": "x", "visibility": "world"}, "must be one of 'board', 'team', 'private'"),
    ({"text": "x", "ttl_seconds": 0}, "ttl_seconds"),
    ({"text": "x", "ttl_seconds": -1}, "ttl_seconds"),
    ({"text": "x", "ttl_seconds": 1e12}, "ttl_seconds"),
    ({"text": "x", "metadata": []}, "metadata must be an object"),
    ({"text": "x", "metadata": {"a": "b" * 20_000}}, "16384"),
    ({"text": "x", "idempotency_key": ""}, "idempotency_key"),
    ({"text": "x", "items": [{"text": "y"}]}, "leave out text"),
    ({"items": [{"text": "y"}], "type": "LOG", "key": "k", "id": "F-1"}, "leave out key, id"),
    ({"items": [{"text": "y"}], "expected_version": 0}, "leave out expected_version"),
    ({"items": [{"text": "y"}], "tags": ["a,b"]}, "Tag 'a,b' has a comma"),
    ({"items": [{"text": "y", "type": "CRITIQUE"}], "tags": ["t"]}, "names the item it criticises"),
    ({"items": [{"text": "y", "colour": "red"}]}, "Item 1 of items: unknown argument 'colour'"),
    ({"items": [{"text": "y"}, {"text": ""}]}, "empty"),
    ({"items": [{"text": "y"}] * 101}, "100"),
    ({"items": []}, "needs text"),
    ({"text": "x", "board": "no board"}, "not a board id"),
    ({"text": "x", "txet": "y"}, "did you mean 'text'"),
]


async def test_wrong_words_are_refused_with_what_is_right_and_change_nothing(board: Any) -> None:
    alice = await board.join("alice")
    for arguments, words in WRONG:
        failure = await alice.fail("post", **arguments)
        assert failure["error"] == "invalid", arguments
        assert words in failure["message"]
    assert await board.opened.store.boards() == []


async def test_a_batch_comes_in_order_and_refers_to_itself(board: Any) -> None:
    alice = await board.join("alice")
    answer = await alice.do(
        "post",
        items=[
            {"text": "Is it warm?", "type": "QUESTION"},
            {"text": "It is 30 °C.", "edges": {"replies_to": ["$1"]}},
            {"text": "Yes.", "type": "ANSWER", "edges": {"replies_to": ["$1"], "depends_on": ["$2"]}},
        ],
    )
    question, fact, reply = answer["items"]
    assert [i["id"] for i in answer["items"]] == ["Q-1", "F-2", "A-3"]
    assert reply["edges"] == {"replies_to": ["Q-1"], "depends_on": ["F-2"]}
    assert question["cited_by"] == {"replies_to": ["F-2", "A-3"]}
    assert {i["thread"] for i in answer["items"]} == {"Q-1"}
    assert fact["edges"] == {"replies_to": ["Q-1"]}
    assert (await alice.say("post", items=[{"text": "a"}, {"text": "b"}])).splitlines()[:2] == ["F-4", "F-5"]


@both
async def test_fields_beside_items_count_for_each_that_does_not_give_its_own(board: Any, mode: str) -> None:
    alice = await board.join("alice")
    entry = await alice.post("gone soon", key="old")
    answer = await alice.do(
        "post",
        items=[
            {"text": "one"},
            {"text": "two", "tags": [], "type": "FACT"},
            {"text": "three", "metadata": {"own": True}, "importance": None},
            {"key": "old", "status": "DELETED"},
        ],
        type="LOG",
        tags=["batch"],
        metadata={"run": 7},
        importance=1,
        visibility="board",
    )
    told = [(i["id"], i["tags"], i["metadata"], i["importance"]) for i in answer["items"]]
    assert told == [
        ("L-2", ["batch"], {"run": 7}, 1),
        ("F-3", [], {"run": 7}, 1),
        ("L-4", ["batch"], {"own": True}, 1),
        (entry["id"], [], {}, entry["importance"]),
    ]
    both_done = await alice.do("post", items=[{"id": "L-2"}, {"id": "F-3"}], status="RESOLVED")
    assert [i["status"] for i in both_done["items"]] == ["RESOLVED"] * 2


@both
async def test_a_post_joins_the_conversation_that_it_names(board: Any, mode: str) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("a", "PROBLEM")
    reply = await bob.post("b", "REPLY", edges={"replies_to": ["B-1"]})
    log = await bob.post("c", "LOG", thread=reply["id"])
    assert (log["thread"], log["edges"]) == ("B-1", {})
    assert (await bob.post("d", "REPLY", edges={"replies_to": ["B-1"]}, thread="L-3"))["thread"] == "B-1"
    other = await alice.post("e")
    answer = await alice.do(
        "post",
        items=[
            {"text": "f"},
            {"text": "g", "type": "REPLY", "edges": {"replies_to": [other["id"]]}},
            {"text": "h", "thread": other["id"]},
            {"id": other["id"], "tags": ["t"]},
        ],
        thread="B-1",
    )
    assert [i["thread"] for i in answer["items"]] == ["B-1", other["id"], other["id"], other["id"]]
    begun = (await alice.do("post", items=[{"text": "i"}, {"text": "j"}, {"text": "k"}], thread="$1"))[
        "items"
    ]
    assert {i["thread"] for i in begun} == {begun[0]["id"]}
    listed = (await bob.do("query", thread="B-1"))["items"]
    assert [i["text"] for i in listed] == ["f", "d", "c", "b", "a"]
    await bob.do("subscribe", filter={"thread": "B-1"}, name="talk")
    await alice.post("l", thread="B-1")
    assert [e["event"] for e in (await bob.do("wait", subscription="talk", seconds=0))["events"]] == [
        "item.posted"
    ]


async def test_a_conversation_that_cannot_be_joined_is_refused_with_a_reason(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("a")
    await alice.post("b", key="k")
    hidden = await alice.post("c", visibility="private")
    before = await board.seq()
    for arguments, words in (
        ({"text": "x", "thread": "F-99"}, "No item F-99"),
        ({"text": "x", "thread": "H-1"}, "There is no H-1: number 1 is F-1"),
        ({"text": "x", "thread": "one"}, "not an item id"),
        ({"text": "x", "thread": "$1"}, "earlier in the same batch"),
        (
            {"text": "x", "thread": "F-1", "edges": {"replies_to": ["F-2"]}},
            "F-2 stands in another conversation",
        ),
        ({"text": "x", "thread": "F-1", "key": "k"}, "the conversation of an item never changes"),
        ({"id": "F-2", "thread": "F-1", "tags": ["t"]}, "the conversation of an item never changes"),
        ({"text": "x", "thread": hidden["id"]}, "Not everybody who would see this post may see F-3"),
        ({"items": [{"text": "x"}, {"text": "y"}], "thread": "$2"}, "earlier in the same batch"),
        ({"key": "k", "status": "DELETED", "thread": "F-1"}, "leave out thread"),
    ):
        failure = await alice.fail("post", **arguments)
        assert words in failure["message"], failure
        assert "Nothing was changed" in failure["message"] or "ids look like" in failure["message"].lower()
    there, gone = [
        (await bob.fail("post", text="x", thread=id_))["message"] for id_ in (hidden["id"], "F-98")
    ]
    assert there == gone.replace("F-98", hidden["id"])
    assert await board.seq() == before
    mine = await alice.post("d", visibility="private", thread=hidden["id"])
    assert mine["thread"] == hidden["id"]
    assert (await alice.post("b2", key="k", thread="F-2"))["version"] == 2


async def test_a_batch_with_shared_fields_is_the_same_batch_spelled_out(board: Any) -> None:
    alice = await board.join("alice")
    call = {"idempotency_key": "once"}
    first = await alice.do("post", items=[{"text": "a"}, {"text": "b"}], tags=["t"], **call)
    spelled = [{"text": "a", "tags": ["t"]}, {"text": "b", "tags": ["t"]}]
    again = await alice.do("post", items=spelled, **call)
    assert (again["repeated"], again["items"]) == (True, first["items"])
    failure = await alice.fail("post", items=[{"text": "a"}, {"text": "b"}], tags=["u"], **call)
    assert "different call" in failure["message"]


@pytest.mark.parametrize(
    "bad",
    [
        {"text": "b", "edges": {"supports": ["F-99"]}},
        {"text": "b", "edges": {"supports": ["$2"]}},
        {"text": "b", "edges": {"supports": ["$3"]}},
        {"text": "b", "key": "k", "expected_version": 7},
        {"id": "F-1", "text": "a new text"},
        {"id": "F-1", "status": "WITHDRAWN"},
    ],
)
async def test_a_batch_is_all_or_nothing(board: Any, bad: dict[str, Any]) -> None:
    alice, bob = await board.join("alice", "bob")
    await bob.post("Bob's own.")
    before = await board.seq()
    await alice.fail("post", items=[{"text": "a", "key": "fresh"}, bad, {"text": "c"}])
    assert await board.seq() == before
    assert (await alice.do("query", zone="all"))["items"][0]["id"] == "F-1"
    assert (await alice.do("read", keys=["fresh"]))["missing"] == ["fresh"]


async def test_versions_of_a_key_count_up_and_stay_readable(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    first = await alice.post("one", key="plan:db")
    second = await bob.post("two", key="plan:db")
    third = await alice.post("three", key="plan:db")
    assert [i["version"] for i in (first, second, third)] == [1, 2, 3]
    assert {i["id"] for i in (first, second, third)} == {"F-1"}
    assert (third["author"], third["updated_by"]) == ("alice", "alice")
    assert (second["updated_by"], (await alice.item("F-1@2"))["updated_by"]) == ("bob", "bob")
    assert [(await alice.item(f"F-1@{v}"))["text"] for v in (1, 2, 3)] == ["one", "two", "three"]
    assert (await alice.do("read", ids=["F-1@4", "F-1@0"]))["items"] == []
    assert (await alice.say("post", text="four", key="plan:db")).startswith("F-1@4 key plan:db\n")


@pytest.mark.parametrize(("expected", "current"), [(0, 2), (1, 2), (3, 2)])
async def test_a_stale_write_is_a_conflict_that_names_the_current_version(
    board: Any, expected: int, current: int
) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("one", key="k", expected_version=0)
    await alice.post("two", key="k", expected_version=1)
    before = await board.seq()
    failure = await bob.fail("post", text="mine", key="k", expected_version=expected)
    assert failure["error"] == "conflict"
    assert (failure["current_version"], failure["key"], failure["item"]) == (current, "k", "F-1")
    assert "Nothing was changed" in failure["message"]
    assert await board.seq() == before
    assert (await bob.post("mine", key="k", expected_version=2))["version"] == 3
    assert (await bob.post("unconditional", key="k"))["version"] == 4


async def test_an_expected_version_of_what_does_not_exist_is_a_conflict_at_zero(board: Any) -> None:
    alice = await board.join("alice")
    failure = await alice.fail("post", text="x", key="k", expected_version=1)
    assert (failure["error"], failure["current_version"]) == ("conflict", 0)
    assert (await alice.post("x", key="k", expected_version=0))["version"] == 1


async def test_the_text_of_an_item_without_a_key_is_fixed(board: Any) -> None:
    alice = await board.join("alice")
    await alice.post("as it is")
    failure = await alice.fail("post", id="F-1", text="as it was")
    assert failure["error"] == "invalid"
    assert "supersedes" in failure["message"]


async def test_type_and_key_and_visibility_of_an_item_never_change(board: Any) -> None:
    alice = await board.join("alice")
    await alice.post("x", key="k")
    await alice.post("y")
    for wrong in (
        {"id": "F-1", "type": "LOG"},
        {"text": "z", "key": "k", "type": "LOG"},
        {"id": "F-1", "key": "other"},
        {"id": "F-2", "key": "k2"},
        {"id": "F-1", "visibility": "private"},
    ):
        assert (await alice.fail("post", **wrong))["error"] == "invalid", wrong
    assert (await alice.post("z", "FACT", key="k"))["version"] == 2


async def test_an_author_amends_what_may_change_and_the_version_stays(board: Any) -> None:
    alice = await board.join("alice")
    await alice.post("x", tags=["a"], metadata={"n": 1})
    board.clock.advance(60)
    item = await alice.post(id="F-1", importance=2, tags=["b", "c"], metadata={"n": 2}, ttl_seconds=60)
    assert (item["version"], item["importance"], item["tags"], item["metadata"]) == (
        1,
        2,
        ["b", "c"],
        {"n": 2},
    )
    assert item["expires_at"] == "2026-11-21T09:02:00Z"
    assert item["updated_at"] == "2026-11-21T09:01:00Z"
    assert item["created_at"] == "2026-11-21T09:00:00Z"
    assert (await alice.post(id="1", tags=[]))["tags"] == []
    same = await board.seq()
    await alice.post(id="F-1", importance=2)
    assert await board.seq() == same, "what is so already is no event"


async def test_others_may_not_amend_it_but_may_resolve_it_and_say_what_analysed_it(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("a log", "LOG")
    finding = await bob.post("what the log says")
    for wrong in ({"importance": 1}, {"tags": ["x"]}, {"metadata": {"a": 1}}, {"ttl_seconds": 5}):
        failure = await bob.fail("post", id="L-1", **wrong)
        assert failure["error"] == "refused"
        assert "alice, its author" in failure["message"]
    assert (await bob.fail("post", id="L-1", edges={"supports": ["F-2"]}))["error"] == "refused"
    assert (await bob.fail("post", id="L-1", status="WITHDRAWN"))["error"] == "refused"
    amended = await bob.post(id="L-1", edges={"analyzed_by": [finding["id"]]})
    assert amended["edges"] == {"analyzed_by": ["F-2"]}
    assert (await bob.post(id="L-1", status="RESOLVED"))["status"] == "RESOLVED"


async def test_an_amendment_takes_an_expected_version(board: Any) -> None:
    alice = await board.join("alice")
    await alice.post("x", key="k")
    failure = await alice.fail("post", id="F-1", importance=1, expected_version=2)
    assert (failure["error"], failure["current_version"]) == ("conflict", 1)
    assert (await alice.post(id="F-1", importance=1, expected_version=1))["importance"] == 1
    assert (await alice.post("y", id="F-1", expected_version=1))["version"] == 2


@pytest.mark.parametrize(
    ("path", "error"),
    [
        (["RESOLVED", "ACTIVE", "INVALIDATED"], None),
        (["WITHDRAWN", "ACTIVE"], "conflict"),
        (["INVALIDATED", "WITHDRAWN"], "conflict"),
        (["INVALIDATED", "DEBATED"], "conflict"),
        (["DEBATED", "ACTIVE"], "refused"),
        (["DEBATED", "RESOLVED"], "refused"),
        (["RESOLVED", "DEBATED"], None),
    ],
)
async def test_status_moves_along_declared_transitions(
    board: Any, path: list[str], error: str | None
) -> None:
    alice = await board.join("alice")
    await alice.post("x")
    *good, last = path
    for status in good:
        assert (await alice.post(id="F-1", status=status))["status"] == status
    if error is None:
        assert (await alice.post(id="F-1", status=last))["status"] == last
    else:
        before = await board.seq()
        failure = await alice.fail("post", id="F-1", status=last)
        assert failure["error"] == error
        assert "Nothing was changed" in failure["message"]
        assert await board.seq() == before


async def test_a_new_item_may_begin_in_another_status(board: Any) -> None:
    alice = await board.join("alice")
    assert (await alice.post("x", status="RESOLVED"))["status"] == "RESOLVED"
    item = await alice.post("y", status="DEBATED")
    assert (item["status"], item["debate"]) == ("DEBATED", "OPEN")


@pytest.mark.parametrize("kind", KINDS)
async def test_an_edge_of_each_kind_is_kept_and_seen_from_both_ends(board: Any, kind: str) -> None:
    alice = await board.join("alice")
    await alice.post("first")
    await alice.post("second", edges={kind: ["1", "F-1"]})
    assert (await alice.item("F-2"))["edges"] == {kind: ["F-1"]}
    assert (await alice.item("F-1"))["cited_by"] == {kind: ["F-2"]}
    text = await alice.say("read", ids=["F-1", "F-2"])
    assert f"F-2 {kind} it" in text
    assert f"{kind} F-1" in text
    thread = (await alice.item("F-2"))["thread"]
    assert thread == ("F-1" if kind in ("replies_to", "critiques") else "F-2")


@pytest.mark.parametrize("kind", KINDS)
async def test_an_edge_to_what_is_not_there_is_an_error(board: Any, kind: str) -> None:
    alice, bob = await board.join("alice", "bob")
    await bob.post("secret", visibility="private")
    for target in ("F-99", "F-1"):
        failure = await alice.fail("post", text="x", edges={kind: [target]})
        assert failure["error"] == "not_found"
        assert f"No item {target} on board 'main'" in failure["message"]


async def test_depends_on_has_no_cycle_and_nothing_an_edge_to_itself(board: Any) -> None:
    alice = await board.join("alice")
    await alice.post("a")
    await alice.post("b", edges={"depends_on": ["F-1"]})
    await alice.post("c", edges={"depends_on": ["F-2"]})
    assert "cycle" in (await alice.fail("post", id="F-1", edges={"depends_on": ["F-3"]}))["message"]
    assert "itself" in (await alice.fail("post", id="F-1", edges={"supports": ["F-1"]}))["message"]


async def test_superseding_an_own_item_archives_it(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("old")
    await bob.post("not mine to supersede")
    await alice.post("new", edges={"supersedes": ["F-1", "F-2"]})
    assert (await alice.item("F-1"))["zone"] == "archive"
    assert (await alice.item("F-2"))["zone"] == "working"
    assert "superseded by F-3" in await bob.say("read", ids=["F-1"])


async def test_ttl_counts_from_the_last_write_and_expiry_archives_and_tells(board: Any) -> None:
    alice = await board.join("alice")
    await alice.post("x", key="lease", ttl_seconds=100)
    board.clock.advance(60)
    await alice.post("y", key="lease", ttl_seconds=100)
    board.clock.advance(60)
    assert await board.opened.store.expire() == []
    board.clock.advance(41)
    assert await board.opened.store.expire() == ["main"]
    item = await alice.item("F-1")
    assert (item["zone"], item["text"]) == ("archive", "y")
    events = (await alice.do("read", since=0))["events"]
    assert [e["event"] for e in events][-1] == "item.expired"
    assert "time to live ended" in await alice.say("read", ids=["F-1"])


async def test_a_new_version_of_an_expired_entry_comes_back(board: Any) -> None:
    alice = await board.join("alice")
    await alice.post("x", key="k", ttl_seconds=1)
    board.clock.advance(2)
    await board.opened.store.expire()
    item = await alice.post("y", key="k")
    assert (item["zone"], item["version"], item["expires_at"]) == ("working", 2, None)


async def test_metadata_comes_back_as_it_was(board: Any) -> None:
    alice = await board.join("alice")
    metadata = {"n": 1.5, "deep": {"list": [1, None, True, "ü\n"]}, "": ""}
    assert (await alice.post("x", metadata=metadata))["metadata"] == metadata
    assert (await alice.item("F-1"))["metadata"] == metadata


async def test_an_idempotency_key_applies_once_and_answers_the_same(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    first = await alice.do("post", text="x", idempotency_key="k1")
    await bob.post("y")
    again = await alice.do("post", text="x", idempotency_key="k1")
    assert (again["items"], again["seq"], again["repeated"]) == (first["items"], first["seq"], True)
    assert not first["repeated"]
    assert "posted before" in await alice.say("post", text="x", idempotency_key="k1")
    other = await alice.fail("post", text="z", idempotency_key="k1")
    assert (other["error"], "different call" in other["message"]) == ("invalid", True)
    assert (await bob.do("post", text="z", idempotency_key="k1"))["items"][0]["id"] == "F-3"
    batch = [{"text": "a"}, {"text": "b"}]
    one = await alice.do("post", items=batch, idempotency_key="k2")
    two = await alice.do("post", items=batch, idempotency_key="k2")
    assert [i["id"] for i in two["items"]] == [i["id"] for i in one["items"]] == ["F-4", "F-5"]
    assert await board.seq() == 6


async def test_a_failed_call_leaves_its_idempotency_key_unused(board: Any) -> None:
    alice = await board.join("alice")
    await alice.fail("post", text="x", key="k", expected_version=3, idempotency_key="i")
    assert (await alice.post("y", idempotency_key="i"))["id"] == "F-1"


async def test_the_author_is_who_is_connected_and_no_argument_says_otherwise(board: Any) -> None:
    alice = await board.join("alice")
    assert "unknown argument 'author'" in (await alice.fail("post", text="x", author="bob"))["message"]
    assert "unknown argument 'agent'" in (await alice.fail("post", text="x", agent="bob"))["message"]
    assert (await alice.post("x"))["author"] == "alice"


async def test_boards_come_into_being_at_their_first_post_and_do_not_leak(board: Any) -> None:
    alice = await board.join("alice")
    await alice.post("on main")
    await alice.post("on other", board="other", key="k")
    assert (await alice.do("query", board="other"))["items"][0]["id"] == "F-1"
    assert [i["text"] for i in (await alice.do("query"))["items"]] == ["on main"]
    assert (await alice.do("read", keys=["k"]))["missing"] == ["k"]
    assert (await alice.do("query", board="other"))["items"][0]["text"] == "on other"
    missing = await alice.fail("query", board="nowhere")
    assert (missing["error"], missing["board"]) == ("not_found", "nowhere")
    assert (await alice.fail("post", text="x", edges={"supports": ["F-2"]}, board="other"))[
        "error"
    ] == "not_found"


async def test_long_and_odd_texts_come_back_byte_for_byte(board: Any) -> None:
    alice = await board.join("alice")
    for text in (
        "a" * 200_000,
        "  lead and trail \r\n",
        "ée\u0301 \u202e \U0001f469\u200d\U0001f680",
        "\x01\x7f",
    ):
        item = await alice.post(text)
        back = await alice.item(item["id"])
        assert back["text"] == text
        assert back["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert (await alice.fail("post", text="a" * 200_001))["error"] == "invalid"
    assert (await alice.fail("post", text="a\0b"))["error"] == "invalid"


async def test_what_is_private_reaches_nobody_else(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    note = await alice.post("zebra note", visibility="private", tags=["zebra"], key="zebra:key")
    await alice.post("zebra log", "LOG", visibility="private", edges={"replies_to": [note["id"]]})
    await bob.post("a public fact")
    assert await alice.sees("F-1")
    assert not await bob.sees("F-1")
    for tool, arguments in (
        ("read", {}),
        ("read", {"ids": ["F-1", "L-2", "3"]}),
        ("read", {"since": 0}),
        ("query", {}),
        ("query", {"zone": "all", "thread": "F-1"}),
        ("query", {"text": "note"}),
        ("query", {"author": "alice", "zone": "all"}),
        ("query_archive", {}),
        ("wait", {"since": 0, "seconds": 0}),
        ("prune", {"dry_run": True}),
    ):
        result = await bob.call(tool, **arguments)
        shown = str(result)
        assert not result.is_error
        assert "zebra" not in shown, (tool, arguments)
        unknown = shown.replace("not found: F-1, L-2", "").replace("['F-1', 'L-2']", "")
        assert "L-2" not in unknown, (tool, arguments)  # but in what Bob named himself
    ids = (await bob.do("read", keys=["zebra:key"]))["missing"]
    assert ids == ["zebra:key"]
    mine = await bob.post("my own zebra key", key="zebra:key")
    assert (mine["id"], mine["version"]) == ("F-4", 1)
    assert (await alice.do("read", keys=["zebra:key"]))["items"][0]["id"] == "F-1"
    for call in (
        {"id": "F-1", "status": "RESOLVED"},
        {"id": "F-1", "importance": 1},
    ):
        assert (await bob.fail("post", **call))["error"] == "not_found"
    for op in ("open", "watch", "acknowledge", "concede", "withdraw", "confirm", "status"):
        assert (await bob.fail("debate", op=op, id="F-1", reason="because"))["error"] == "not_found"
    decision = {"op": "decide", "reason": "because", "outcome": "falls"}
    assert (await bob.fail("debate", id="F-1", **decision))["error"] == "not_found"


async def test_a_private_item_about_a_public_one_moves_nothing_others_see(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await bob.post("public")
    await alice.post("I doubt it", "CRITIQUE", visibility="private", edges={"critiques": ["F-1"]})
    item = await bob.item("F-1")
    assert (item["status"], item["cited_by"], item["debate"]) == ("ACTIVE", {}, None)
    assert "C-2" not in bob.footer
    assert (await alice.item("F-1"))["cited_by"] == {"critiques": ["C-2"]}


async def test_edges_that_are_given_later_are_told_to_be_added(board: Any) -> None:
    said = "edges of H-3 now: derived_from F-1, supports F-2; they are added, none is taken away"
    ada = await board.join("ada")
    await ada.post("It rained.")
    await ada.post("The cellar is wet.")
    first = await ada.say("post", text="A leak.", type="HYPOTHESIS", edges={"derived_from": ["F-1"]})
    assert "none is taken away" not in first
    assert said in (await ada.say("post", id="H-3", edges={"supports": ["F-2"]})).splitlines()
    write = {"id": "H-3", "edges": {"supports": ["F-2"]}}
    assert said in (await ada.say("transaction", writes=[write])).splitlines()
    assert "none is taken away" not in await ada.say("post", id="H-3", importance=4)
    await ada.post("step 1", key="plan:a", edges={"derived_from": ["F-1"]})
    text = await ada.say("post", text="step 2", key="plan:a", edges={"supports": ["F-2"]})
    assert "edges of F-4 now: derived_from F-1, supports F-2; they are added, none is taken away" in text
