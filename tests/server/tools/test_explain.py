"""Why an item stays, what would take it and when, why it left: through tools, resources and completion."""

from __future__ import annotations

import json
from typing import Any

import boards
import pytest

board, small, mode = boards.board, boards.small, boards.mode

FILLER = "word " * 30


async def says(agent: Any, *ids: str) -> list[str]:
    """What `explain` says of each item, joined."""
    answer = await agent.do("read", ids=list(ids), explain=True)
    return [" | ".join(e["says"]) for e in answer["explanations"]]


async def test_a_chain_is_told_from_the_debate_to_the_item_with_whom_it_waits_for(board: Any) -> None:
    alice, bob, carol = await board.join("alice", "bob", "carol")
    root = await alice.post("the cache is cold", "HYPOTHESIS")
    critique = await bob.post("no", "CRITIQUE", edges={"critiques": [root["id"]]})
    reply = await alice.post("yes", "REPLY", edges={"replies_to": [critique["id"]]})
    leaf = await carol.post("measured", edges={"supports": [reply["id"]]})
    answer = await carol.do("read", ids=[leaf["id"]], explain=True)
    told = answer["explanations"][0]
    assert told["protected"]
    assert told["debate"] == root["id"]
    assert told["waits_for"] == [{"agent": "bob", "duty": "acknowledge"}]
    chain = [(link["source"], link["kind"], link["target"]) for link in told["chain"]]
    assert chain[-1] == (leaf["id"], "supports", reply["id"])
    line = told["says"][0]
    assert line == (
        f"stays: {root['id']} ← {critique['id']} critiques {root['id']} ← {reply['id']} replies_to "
        f"{critique['id']} ← {leaf['id']} supports {reply['id']}; open debate on {root['id']}, waits for bob"
    )
    assert line in boards.text_of(await carol.call("read", ids=[leaf["id"]], explain=True))
    assert (await says(bob, root["id"]))[0] == f"stays: open debate on {root['id']}, waits for bob"


async def test_a_long_chain_is_shortened_in_the_middle(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    root = await alice.post("claim", "HYPOTHESIS")
    await alice.do(
        "post",
        items=[
            {"text": f"{n}", "type": "REPLY", "edges": {"replies_to": [f"${n}" if n else root["id"]]}}
            for n in range(40)
        ],
    )
    await bob.post("no", "CRITIQUE", edges={"critiques": [root["id"]]})
    answer = await bob.do("read", ids=["R-41"], explain=True)
    told = answer["explanations"][0]
    assert len(told["chain"]) == 40
    assert told["omitted"] == 0
    assert told["says"][0].count(" ← ") == 13
    assert "… 28 more …" in told["says"][0]
    assert "R-41 replies_to R-40" in told["says"][0]


async def test_law_and_watches_are_reasons_as_well(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    law = await alice.post("never on Fridays", "CONSTRAINT")
    watched = await alice.post("watch me")
    await bob.do("debate", op="watch", id=watched["id"])
    assert await says(alice, law["id"], watched["id"]) == [
        "stays: active constraint",
        "stays: bob has yet to acknowledge it",
    ]


async def test_an_unprotected_item_is_told_its_step_its_place_and_how_far_off_a_pass_is(small: Any) -> None:
    alice = await small.join("alice")
    ids = [i["id"] for i in (await alice.do("post", items=[{"text": FILLER, "type": "LOG"}] * 7))["items"]]
    answer = await alice.do("read", ids=[ids[0], ids[-1]], explain=True)
    first, last = answer["explanations"]
    size = answer["working_tokens"] // 7
    assert (first["step"], first["items_before"], first["tokens_before"]) == (4, 0, 0)
    assert (last["step"], last["items_before"], last["tokens_before"]) == (4, 6, 6 * size)
    assert (first["next_pass"], last["next_pass"]) == (True, False)
    assert answer["tokens_to_go"] == 321 - answer["working_tokens"]
    assert first["says"] == [
        "goes in step 4 of a pass (importance 2), 0 items with 0 tokens before it",
        f"at low-water now: nothing goes until working memory exceeds 320 tokens, {answer['tokens_to_go']} to "
        "go; that pass gets as far as this",
    ]


async def test_what_is_told_to_go_next_is_what_goes(small: Any) -> None:
    alice = await small.join("alice")
    await alice.do("post", items=[{"text": f"{n} {FILLER}", "type": "LOG"} for n in range(8)])
    done = await alice.post("done " + FILLER, "FACT", status="RESOLVED")
    listed = await alice.do("query", limit=20)
    told = await alice.do("read", ids=[i["id"] for i in listed["items"]], explain=True)
    order = sorted(told["explanations"], key=lambda e: (e["step"], e["items_before"]))
    assert order[0]["id"] == done["id"]
    assert (order[0]["step"], order[0]["takes"], order[0]["says"][0][:36]) == (
        1,
        "resolved",
        "goes in step 1 of a pass (resolved),",
    )
    due = {e["id"] for e in order if e["next_pass"]}
    await alice.post("one more " + FILLER, "LOG")
    await small.settled()
    gone = {i["id"] for i in (await alice.do("query", zone="archive"))["items"]}
    assert gone
    assert due <= gone
    assert len(gone - due) <= 1, "the pass was for what the last post brought as well"


async def test_what_is_too_large_to_stay_is_told_to_go_first_and_goes_alone(small: Any) -> None:
    alice = await small.join("alice")
    done = await alice.post("done", status="RESOLVED")
    low, large = await alice.post("low", "LOG", importance=1), await alice.post(FILLER * 9, importance=4)
    tokens = large["tokens"]
    answer = await alice.do("read", ids=[done["id"], low["id"], large["id"]], explain=True)
    first, second, it = answer["explanations"]
    assert it["says"][0] == (
        f"goes with the next pass, before all others: it is too large to stay ({tokens} tokens; 240 stay when room is "
        "made)"
    )
    assert (it["step"], it["items_before"], it["next_pass"]) == (4, 0, True)
    assert [(e["items_before"], e["tokens_before"], e["next_pass"]) for e in (first, second)] == [
        (1, tokens, False),
        (2, tokens + done["tokens"], False),
    ]
    await alice.post(FILLER * 2, "LOG")
    await small.settled()
    assert [i["id"] for i in (await alice.do("query", zone="archive"))["items"]] == [large["id"]]


async def test_what_is_too_large_is_named_first_of_what_leaves_next(small: Any) -> None:
    alice = await small.join("alice")
    done, large = await alice.post("done", status="RESOLVED"), await alice.post(FILLER * 9, importance=4)
    listed = [line for line in (await alice.say("read", explain=True)).splitlines() if " (" in line]
    assert [line.split()[0] for line in listed[:2]] == [large["id"], done["id"]]


async def test_what_is_too_large_makes_no_thread_long_enough_for_a_summary(small: Any) -> None:
    alice = await small.join("alice")
    root = await alice.post("pumps", "FACT")
    on = {"edges": {"replies_to": [root["id"]]}}
    await alice.post(FILLER * 9, "REPLY", **on)
    for n in range(2):
        await alice.post(f"reply {n}", "REPLY", **on)
    await alice.post("so be it", "DECISION", **on)
    said = await says(alice, root["id"])
    assert "goes in step 4 of a pass (importance 4), 3 items" in said[0]
    await alice.post("one more", "REPLY", **on)
    await alice.post("so it is", "DECISION", **on)
    assert "goes in step 3 of a pass" in (await says(alice, root["id"]))[0]


async def test_importance_five_and_ceilings_and_expiry_are_told(board: Any) -> None:
    alice = await board.join("alice")
    five = await alice.post("keep", importance=5)
    four = await alice.post("perhaps", importance=4)
    brief = await alice.post("brief", "LOG", ttl_seconds=10_800)
    high, perhaps, soon = await says(alice, five["id"], four["id"], brief["id"])
    assert high == "importance 5: leaves only when it is resolved, superseded or expires"
    assert "as its importance is above 2, only if that leaves more than 4,800 tokens" in perhaps
    assert soon.endswith("| expires in 3h")


async def test_an_archived_item_tells_why_it_left_and_one_call_brings_it_back(small: Any) -> None:
    alice, bob = await small.join("alice", "bob")
    first = await alice.post("the first " + FILLER, "LOG")
    await alice.do("post", items=[{"text": f"{n} {FILLER}", "type": "LOG"} for n in range(12)])
    await small.settled()
    answer = await bob.do("read", ids=[first["id"]], explain=True)
    told = answer["explanations"][0]
    assert (told["zone"], told["left"]["step"], told["left"]["event"]) == ("archive", 4, "item.archived")
    events = (await bob.do("read", since=0))["events"]
    assert told["left"]["of_pass"] in [e["data"]["pass"] for e in events if e["event"] == "prune.ended"]
    assert f"pass {told['left']['of_pass']} step 4: importance 2, oldest first" in told["says"][0]
    assert told["restore"] == f'query_archive(text="{first["id"]}", restore=true)'
    assert told["restore"] in boards.text_of(await bob.call("read", ids=[first["id"]]))
    back = await bob.do("query_archive", text=first["id"], restore=True)
    assert [i["zone"] for i in back["items"]] == ["working"]
    assert (await bob.do("read", ids=[first["id"]], explain=True))["explanations"][0]["left"] is None


async def test_what_is_missing_is_named_and_too_much_is_refused(board: Any) -> None:
    alice = await board.join("alice")
    entry = await alice.post("v", key="k:a")
    answer = await alice.do("read", ids=["H-99"], keys=["k:a", "k:b"], explain=True)
    assert [e["id"] for e in answer["explanations"]] == [entry["id"]]
    assert sorted(answer["missing"]) == ["H-99", "k:b"]
    for wrong in ({"ids": [f"F-{n}" for n in range(21)]}, {"ids": ["F-1"], "since": 0}):
        refused = await alice.call("read", explain=True, **wrong)
        assert refused.is_error
        assert "explain" in boards.text_of(refused)


async def test_nothing_private_is_told_to_others(board: Any) -> None:
    alice, bob, carol = await board.join("alice", "bob", "carol")
    root = await alice.post("claim", "HYPOTHESIS")
    await carol.post("no", "CRITIQUE", edges={"critiques": [root["id"]]})
    note = await bob.post("my doubts", visibility="private", edges={"supports": [root["id"]]})
    far = await alice.post("far away")
    await bob.post(id=note["id"], edges={"supports": [far["id"]]})
    hidden = await alice.do("read", ids=[far["id"], note["id"]], explain=True)
    assert hidden["missing"] == [note["id"]]
    told = hidden["explanations"][0]
    assert (told["protected"], told["chain"]) == (False, [])
    assert note["id"] not in json.dumps(told)
    assert "bob" not in json.dumps(told)
    mine = (await bob.do("read", ids=[far["id"]], explain=True))["explanations"][0]
    assert (mine["protected"], mine["chain"]) == (False, [])  # what is hidden holds nothing by its edges
    free = await alice.post("free", "LOG")
    before = (await alice.do("read", ids=[free["id"]], explain=True))["explanations"][0]
    await bob.post("secret " * 40, "LOG", importance=1, visibility="private")
    after = await alice.do("read", ids=[free["id"]], explain=True)
    assert after["explanations"][0]["items_before"] == before["items_before"] == 0
    assert after["explanations"][0]["says"] == before["says"]


async def test_the_resource_says_the_same_as_text_and_as_json_and_completes_ids(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    root = await alice.post("claim", "HYPOTHESIS")
    await bob.post("no", "CRITIQUE", edges={"critiques": [root["id"]]})
    uri = f"board://main/items/{root['id']}/explain"
    text = (await bob.client.read_resource(uri)).contents[0].text
    assert f"stays: open debate on {root['id']}, waits for alice to answer" in text
    facts = json.loads((await bob.client.read_resource(uri + ".json")).contents[0].text)
    assert facts["explanations"][0]["debate"] == root["id"]
    templates = (await bob.client.list_resource_templates()).resource_templates
    assert "board://{board}/items/{id}/explain" in {t.uri_template for t in templates}
    with pytest.raises(Exception, match="H-99"):
        await bob.client.read_resource("board://main/items/H-99/explain")


async def test_where_a_quorum_closes_debates_an_item_waits_for_votes(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    root = await alice.post("claim", "HYPOTHESIS")
    await bob.post("no", "CRITIQUE", edges={"critiques": [root["id"]]})
    await bob.do("board", settings={"quorum": 2})
    await bob.do("debate", op="vote", id=root["id"], approve=False)
    assert await says(alice, root["id"]) == [
        f"stays: open debate on {root['id']}, waits for 2 owners' votes on one side: "
        f'debate(op="vote", id="{root["id"]}")'
    ]


async def test_what_debates_cite_counts_among_what_is_protected(board: Any) -> None:
    alice, bob, carol = await board.join("alice", "bob", "carol")
    log = await alice.post("the pump ran hot", "LOG")
    note = await alice.do("post", text="my own trace", type="LOG", visibility="private")
    own = note["items"][0]["id"]
    root = await alice.post("the pump is broken", "HYPOTHESIS")
    await alice.post("more of it", "REPLY", edges={"replies_to": [root["id"]], "derived_from": [own]})
    said = await bob.say("read", explain=True)
    assert "nothing is protected" in said
    await bob.post("no", "CRITIQUE", edges={"critiques": [root["id"]], "derived_from": [log["id"]]})
    one = await carol.say("read", ids=[log["id"]], explain=True)
    assert "stays: cited in an open debate" in one
    said = await carol.say("read", explain=True)
    assert "protected 4 items, 12 tokens:" in said
    assert f"\ncited in an open debate: {log['id']}\n" in said
    assert own not in said
    await alice.post("why", "REPLY", edges={"replies_to": ["C-5"], "derived_from": [own]})
    mine = await alice.say("read", explain=True)
    assert f"\ncited in an open debate: {log['id']}, {own}\n" in mine
    assert own not in await carol.say("read", explain=True)
