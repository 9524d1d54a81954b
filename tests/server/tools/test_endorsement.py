"""Endorsement through real clients: F66 and I40; who says the same is counted, and nothing that contradicts is."""

from __future__ import annotations

from typing import Any

import boards

board, mode, both = boards.board, boards.mode, boards.both


@both
async def test_the_same_finding_is_counted_as_support_and_the_answer_says_so(board: Any, mode: str) -> None:
    ada, ben, eve = await board.join("ada", "ben", "eve")
    await ada.post("The pool is exhausted after 90 s.", tags=["db"])
    text = await ben.say("post", text="the pool is exhausted  after 90 s", tags=["late"])
    assert text.splitlines()[0] == (
        "F-1 by ada says the same: counted as your support (1 independent supporter), nothing stored twice"
    )
    answer = await eve.do("post", text="The Pool is exhausted after 90 s.")
    assert answer["endorsed"] == ["F-1"]
    (item,) = answer["items"]
    assert (item["id"], item["author"], item["text"]) == ("F-1", "ada", "The pool is exhausted after 90 s.")
    assert (item["supporters"], item["support"], item["opponents"], item["opposition"]) == (
        *(["ben", "eve"], 2, [], 0),
    )
    assert "item.endorsed" in [e["event"] for e in (await ada.do("wait", seconds=0))["events"]]
    assert [i["id"] for i in (await ada.do("query"))["items"]] == ["F-1"]
    assert "unseen" not in ada.footer


async def test_supporters_and_opponents_show_wherever_an_item_does(board: Any) -> None:
    ada, ben, eve, dan = await board.join("ada", "ben", "eve", "dan")
    await ada.post("The queue drops messages")
    await ben.post("The queue drops messages")
    await eve.post("I saw it as well", edges={"supports": ["F-1"]})
    await dan.post("It does not: they are late", edges={"refutes": ["F-1"]})
    assert "F-1 fact by ada 0s !4 +2 −1 ⚠ F-3 by dan disputes it: The queue drops messages" in await ada.say(
        "query"
    )
    assert "F-1 by you 0s disputed by F-3, supported by ben eve: The queue" in await ada.say("read")
    assert "+2 −1" in await ada.resource("board://main/outline")
    whole = await ada.say("read", ids=["F-1"])
    assert "supported by ben, eve; opposed by dan" in whole.splitlines()
    facts = await ada.facts("board://main/items/F-1.json")
    assert (facts["supporters"], facts["opponents"]) == (["ben", "eve"], ["dan"])
    assert [(e["agent"], e["tags"]) for e in facts["endorsements"]] == [("ben", [])]
    assert "+" not in (await ada.say("query", author="dan")).splitlines()[0]


async def test_an_endorsement_is_an_event_others_can_follow(board: Any) -> None:
    ada, ben, eve = await board.join("ada", "ben", "eve")
    held = await eve.do("subscribe", filter={"event": "item.endorsed"})
    await ada.post("the finding")
    await ben.post("The finding", tags=["seen"], metadata={"run": 7})
    (event,) = (await eve.do("wait", subscription=held["id"], seconds=0))["events"]
    assert (event["event"], event["item"], event["agent"], event["data"]) == (
        *("item.endorsed", "F-1", "ben", {"tags": ["seen"]}),
    )
    facts = await eve.facts("board://main/items/F-1.json")
    assert [(e["agent"], e["tags"], e["metadata"]) for e in facts["endorsements"]] == [
        ("ben", ["seen"], {"run": 7})
    ]
    assert (facts["tags"], facts["metadata"]) == ([], {})


async def test_what_contradicts_is_never_taken_for_the_same(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("The relay needs 5 mW")
    said = [
        *("The relay needs 5 MW", "The relay needs 5 mW?", "The relay needs 50 mW", "The relay needs 5² mW"),
        *("The relay does not need 5 mW", "The relay needs 5 mW!", "The relay needs −5 mW", "needs 5 mW"),
    ]
    for text in said:
        answer = await ben.do("post", text=text)
        assert answer["endorsed"] == [], text
    await ben.post("The relay needs 5 mW", "CRITIQUE", edges={"critiques": ["F-1"]})
    for kind in ("refutes", "supports", "replies_to"):
        answer = await ben.do("post", text="The relay needs 5 mW", edges={kind: ["F-1"]})
        assert answer["endorsed"] == [], kind
    assert len((await ada.do("query", limit=50))["items"]) == 1 + len(said) + 4


async def test_a_batch_and_a_repeated_call_say_what_was_endorsed(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("one")
    items = [
        {"text": "one"},
        {"text": "two"},
        {"text": "two"},
        {"text": "three", "edges": {"depends_on": ["$1", "$2"]}},
    ]
    answers = [await ben.do("post", items=items, idempotency_key="once") for _ in range(2)]
    for answer, repeated in zip(answers, (False, True), strict=True):
        assert [i["id"] for i in answer["items"]] == ["F-1", "F-2", "F-2", "F-3"]
        assert [(r["id"], r["kind"]) for r in answer["remarks"]] == [("F-2", "same")]
        assert (answer["endorsed"], answer["repeated"]) == (["F-1"], repeated)
        assert answer["items"][3]["edges"] == {"depends_on": ["F-1", "F-2"]}
    assert await board.seq() == answers[0]["seq"]


async def test_an_archived_finding_comes_back_with_its_support(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("old but true")
    old = await ada.post("same", key="k")
    assert old["id"] == "F-2"
    await board.opened.store.prune("main", _all)
    assert (await ada.item("F-1"))["zone"] == "archive"
    answer = await ben.do("post", text="Old but true.")
    assert (answer["endorsed"], answer["items"][0]["zone"]) == (["F-1"], "working")


async def test_agents_of_one_owner_are_one_supporter_and_of_the_authors_none(board: Any) -> None:
    ada, ann, ben, bob = await board.join("ada", "ann", "ben", "bob")
    for name, owner in (("ada", "blue"), ("ann", "blue"), ("ben", "red"), ("bob", "red")):
        await board.opened.store.set_owner(name, owner)
    await ada.post("shared")
    text = await ann.say("post", text="shared")
    assert "(no independent supporter yet)" in text
    await ben.post("shared")
    text = await bob.say("post", text="shared")
    assert "(1 independent supporter)" in text
    assert (await ada.item("F-1"))["supporters"] == ["ben"]


def _all(space: Any) -> Any:
    from blackboard_mcp.protocols.pruning import Move, Plan

    return Plan(moves=tuple(Move(c.number, 4, "all of it") for c in space.candidates))


async def test_who_finds_the_same_as_what_rests_on_a_retracted_item_is_told(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    premise = (await ada.post("A premise", "HYPOTHESIS"))["id"]
    await ada.post("The conclusion", edges={"depends_on": [premise]})
    await ada.post(id=premise, status="WITHDRAWN")
    text = await ben.say("post", text="the conclusion")
    assert text.splitlines()[0].endswith(f"nothing stored twice ⚠ rests on {premise} WITHDRAWN")
