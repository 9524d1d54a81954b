"""Pruning end to end: posts through clients, passes by themselves, what the guard holds, what is told later."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import boards
from blackboard_mcp.server.pruning.pruner import Pruner
from patience import PATIENCE

board, small, mode = boards.board, boards.small, boards.mode

FILLER = "word " * 30


async def flood(agent: Any, count: int = 20, type: str = "LOG", **more: Any) -> list[str]:
    """Ids of so many free items, together far over the budget of a small board."""
    said = " ".join(("", *more.get("tags", ())))
    posted = await agent.do(
        "post", items=[{"text": f"{n}{said} {FILLER}", "type": type, **more} for n in range(count)]
    )
    return [item["id"] for item in posted["items"]]


async def test_a_post_above_high_water_starts_a_pass_that_ends_at_low_water(small: Any) -> None:
    alice = await small.join("alice")
    posted = await alice.do("post", items=[{"text": f"{n} {FILLER}", "type": "LOG"} for n in range(10)])
    assert sum(item["tokens"] for item in posted["items"]) == 320
    await small.settled()
    assert (await alice.do("board"))["archived_items"] == 0, "nothing goes before the high-water mark"
    await alice.post("one more", "LOG")
    await small.settled()
    figures = await alice.do("board")
    assert figures["working_tokens"] <= 240
    gone = [i["id"] for i in (await alice.do("query", zone="archive"))["items"]]
    assert gone == [f"L-{n}" for n in range(len(gone), 0, -1)], "the oldest went"
    events = [e for e in (await alice.do("read", since=0))["events"] if e["event"] == "prune.ended"]
    assert len(events) == 1
    assert events[0]["agent"] == "system"
    assert events[0]["data"]["after"] == figures["working_tokens"]


async def test_steps_come_in_order_and_each_item_says_why_it_left(small: Any) -> None:
    alice = await small.join("alice")
    done = await alice.post(f"done {FILLER}", "FACT", status="RESOLVED")
    log = await alice.post(f"log {FILLER}", "LOG")
    finding = await alice.post("what the log says", importance=5)
    await alice.post(id=log["id"], edges={"analyzed_by": [finding["id"]]})
    low = await alice.post(f"low {FILLER}", "LOG", importance=1)
    mid = await alice.post(f"mid {FILLER}", "LOG", importance=2)
    high = await alice.post(f"high {FILLER}", "HYPOTHESIS")
    expired = await alice.post(f"expired {FILLER}", "DECISION", ttl_seconds=1)
    small.clock.advance(2)
    await flood(alice, 14, "FACT", importance=4)
    await small.settled()
    reasons = {}
    for item in (done, log, low, mid, high, expired):
        text = await alice.say("read", ids=[item["id"]])
        found = re.search(r"archived \d+[smhd] ago: (.*)", text)
        assert found is not None, text
        left = (await alice.do("read", ids=[item["id"]], explain=True))["explanations"][0]["left"]
        reasons[item["id"]] = (left["seq"], left["step"], found[1])
    assert [reasons[i["id"]][1:] for i in (expired, done, log, low, mid, high)] == [
        (1, "expired"),
        (1, "resolved"),
        (2, "log analysed"),
        (4, "importance 1, oldest first"),
        (4, "importance 2, oldest first"),
        (4, "importance 3, oldest first"),
    ]
    places = [reasons[i["id"]][0] for i in (expired, done, log, low, mid, high)]
    assert places == sorted(places)
    assert (await alice.item(finding["id"]))["zone"] == "working", "the analysis stays"
    facts = await alice.facts(f"board://main/items/{low['id']}.json")
    assert facts["left"] == "importance 1, oldest first"
    left = (await alice.do("query_archive", type="LOG"))["left"]
    assert left[low["id"]] == facts["left"]


async def test_a_finished_thread_becomes_a_summary_that_names_its_sources(small: Any) -> None:
    alice, bob = await small.join("alice", "bob")
    root = await alice.post("Which pump do we buy, the 40-litre or the 60-litre one?", "QUESTION")
    members = [root["id"]]
    for n in range(5):
        reply = await bob.post(
            f"Reason {n}: the {40 + n}-litre pump needs {n + 3} bar and costs {200 + n} euros more. {FILLER}",
            "REPLY",
            edges={"replies_to": [root["id"]]},
        )
        members.append(reply["id"])
    note = await bob.post("zebra", "REPLY", visibility="private", edges={"replies_to": [root["id"]]})
    answer = await alice.post("We buy the 60-litre pump.", "DECISION", edges={"replies_to": [root["id"]]})
    members.append(answer["id"])
    await flood(bob, 3, "FACT", importance=5)
    await small.settled()
    summaries = (await alice.do("query", type="SUMMARY"))["items"]
    assert len(summaries) == 1
    summary = summaries[0]
    assert (summary["author"], summary["edges"]) == ("system", {"derived_from": members})
    assert "60-litre" in summary["text"]
    assert summary["tokens"] <= 200
    assert "zebra" not in summary["text"]
    for id_ in members:
        item = await alice.item(id_)
        assert item["zone"] == "archive"
        assert f" ago: summarised in {summary['id']}" in await alice.say("read", ids=[id_])
    assert (await bob.item(note["id"]))["zone"] == "working"


async def test_the_guard_holds_an_open_debate_its_closure_and_what_is_watched(small: Any) -> None:
    alice, bob, carol = await small.join("alice", "bob", "carol")
    ground = await alice.post("ground", "LOG", importance=1)
    middle = await alice.post("middle", "LOG", importance=1, edges={"depends_on": [ground["id"]]})
    claim = await alice.post("claim", "LOG", importance=1, edges={"depends_on": [middle["id"]]})
    origin = await alice.post("origin", "LOG", importance=1)
    await alice.post(id=claim["id"], edges={"derived_from": [origin["id"]]})
    critique = await bob.post("doubt", "CRITIQUE", importance=1, edges={"critiques": [claim["id"]]})
    reply = await carol.post("perhaps", "REPLY", importance=1, edges={"replies_to": [critique["id"]]})
    support = await carol.post("also", "LOG", importance=1, edges={"supports": [claim["id"]]})
    watched = await alice.post("watched", "LOG", importance=1)
    await carol.do("debate", op="watch", id=watched["id"])
    held = [ground, middle, claim, critique, reply, support, watched]
    await alice.do("board", settings={"owner_share": 1})
    for _ in range(4):
        await flood(bob)
        await small.settled()
    assert [(await alice.item(i["id"]))["zone"] for i in held] == ["working"] * len(held)
    assert (await alice.item(origin["id"]))["zone"] == "working"
    assert "stays: cited in an open debate" in await alice.say("read", ids=[origin["id"]], explain=True)
    why = await alice.say("read", ids=[ground["id"]])
    assert f"stays: open debate on {claim['id']} ← depends_on ← depends_on" in why
    assert "stays: carol has yet to acknowledge it" in await alice.say("read", ids=[watched["id"]])
    # Closed and acknowledged, all of it may go.
    await carol.do("debate", op="acknowledge", id=watched["id"])
    await alice.post("I see.", "REPLY", importance=1, edges={"replies_to": [critique["id"]]})
    await bob.do("debate", op="acknowledge", id=claim["id"])
    assert (await alice.do("debate", op="status", id=claim["id"]))["state"] == "CONSENSUS"
    for _ in range(2):
        await flood(bob, importance=2)
        await small.settled()
    assert [(await alice.item(i["id"]))["zone"] for i in held] == ["archive"] * len(held)


async def test_constraints_and_hot_issues_never_leave_and_stand_verbatim_in_every_view(small: Any) -> None:
    alice, bob = await small.join("alice", "bob")
    await alice.do("core", constraints=["Core rule."])
    rule = await alice.post("Never open the valve.\nNot even on Sundays.", "CONSTRAINT", importance=1)
    issue = await bob.post("The check 'pressure' fails for pump 7.", "HOT_ISSUE", importance=1)
    for _ in range(3):
        await flood(bob)
        await small.settled()
        for budget in (140, 400, 1_500):
            view = await alice.say("read", budget=budget)
            assert "constraint 1: Core rule." in view
            assert "> Never open the valve.\n> Not even on Sundays." in view
            assert "The check 'pressure' fails for pump 7." in view
    assert "stays: active constraint" in await alice.say("read", ids=[rule["id"]])
    assert "stays: open hot issue" in await alice.say("read", ids=[issue["id"]])
    # Retired and resolved they are like others.
    await alice.post(id=rule["id"], status="WITHDRAWN")
    await bob.post(id=issue["id"], status="RESOLVED")
    await flood(bob)
    await small.settled()
    assert [(await alice.item(i["id"]))["zone"] for i in (rule, issue)] == ["archive", "archive"]
    assert "Never open" not in await alice.say("read")


async def test_a_board_that_is_all_protected_stays_as_it_is(small: Any) -> None:
    alice, bob = await small.join("alice", "bob")
    for n in range(5):
        await alice.post(f"rule {n} {FILLER}", "CONSTRAINT")
        await alice.post(f"decision {n} {FILLER}", "DECISION", importance=5)
    await small.settled()
    assert (await alice.do("board"))["archived_items"] == 0
    assert (await alice.do("prune"))["moved"] == []
    free = await bob.post("a small log", "LOG")
    await small.settled()
    assert (await alice.item(free["id"]))["zone"] == "archive"


async def test_what_was_restored_is_back_with_its_words_and_may_be_debated(small: Any) -> None:
    alice, bob = await small.join("alice", "bob")
    ids = await flood(alice)
    await small.settled()
    first = await alice.item(ids[0])
    assert first["zone"] == "archive"
    back = await bob.do("query_archive", text=ids[0], restore=True)
    assert [(i["id"], i["zone"], i["sha256"]) for i in back["items"]] == [
        (ids[0], "working", first["sha256"])
    ]
    await small.settled()
    # A critique brings its target back by itself, and holds it.
    critique = await bob.post("doubt", "CRITIQUE", edges={"critiques": [ids[1]]})
    assert (await alice.item(ids[1]))["zone"] == "working"
    await flood(alice)
    await small.settled()
    assert (await alice.item(ids[1]))["zone"] == (await alice.item(critique["id"]))["zone"] == "working"


async def test_nothing_that_was_ever_posted_is_lost(small: Any) -> None:
    alice, bob = await small.join("alice", "bob")
    posted = {}
    for n in range(5):
        for item in (
            await (alice, bob)[n % 2].do("post", items=[{"text": f"{n}.{m} {FILLER}"} for m in range(12)])
        )["items"]:
            posted[item["id"]] = item
        await small.settled()
    for id_, item in posted.items():
        now = await bob.item(id_)
        assert (now["text"], now["sha256"], now["author"]) == (item["text"], item["sha256"], item["author"])
    figures = await alice.do("board")
    assert figures["working_items"] + figures["archived_items"] == len(posted)


async def test_two_pruners_on_one_file_run_one_pass(tmp_path: Path, mode: str) -> None:
    async with (
        boards.open_boards(tmp_path, mode, target_tokens=400) as one,
        boards.open_boards(tmp_path, mode, target_tokens=400) as two,
    ):
        alice = await one.join("alice")
        one.opened.pruner.kick = lambda _: None
        await flood(alice)
        results = await asyncio.gather(
            one.opened.pruner.run_pass("main"), two.opened.pruner.run_pass("main"), return_exceptions=True
        )
        moved = [[line for outcome in result for line in outcome.moved] for result in results]
        assert sorted(map(bool, moved)) == [False, True], "one did it, the other found it done or under way"
        events = [e["event"] for e in (await alice.do("read", since=0))["events"]]
        assert events.count("prune.ended") == 1
        while not await two.opened.store.lease("prune:main", "elsewhere", 30):
            await one.opened.store.release("prune:main", "elsewhere")
        assert await one.opened.pruner.run_pass("main") == []
        text = await alice.say("prune")
        assert text.startswith("another process is pruning this board")
        assert (await alice.do("prune"))["moved"] == []


async def test_a_pass_refused_by_another_process_is_made_up_for(tmp_path: Path, mode: str) -> None:
    async with boards.open_boards(tmp_path, mode, target_tokens=400) as one:
        alice = await one.join("alice")
        assert await one.opened.store.lease("prune:main", "elsewhere", 30)
        await flood(alice)
        assert (await alice.do("board"))["archived_items"] == 0
        await one.opened.store.release("prune:main", "elsewhere")
        await one.settled()
        assert (await alice.do("board"))["working_tokens"] <= 240


async def test_a_lease_of_a_dead_process_runs_out(tmp_path: Path, mode: str) -> None:
    async with boards.open_boards(tmp_path, mode, target_tokens=400) as one:
        alice = await one.join("alice")
        assert await one.opened.store.lease("prune:main", "dead", 30)
        await flood(alice)
        one.clock.advance(31)
        await one.settled()
        assert (await alice.do("board"))["working_tokens"] <= 240


async def test_a_board_left_too_full_is_passed_at_the_start(tmp_path: Path, mode: str) -> None:
    async with boards.open_boards(tmp_path, mode, target_tokens=400) as one:
        alice = await one.join("alice")
        one.opened.pruner.kick = lambda _: None
        await flood(alice)
        later = Pruner(one.opened.store, one.opened.blackboard.tokenizers, "later")
        sweep = asyncio.create_task(later.run())
        async with asyncio.timeout(PATIENCE):
            seen = -1
            while (await one.opened.store.find_board("main")).working_tokens > 240:
                seen = await one.opened.store.wait_for_change(seen, 5)
        sweep.cancel()
        await asyncio.gather(sweep, return_exceptions=True)
        await later.settle()


async def test_a_critique_that_comes_while_a_summary_is_written_keeps_the_thread(small: Any) -> None:
    alice, bob = await small.join("alice", "bob")
    small.opened.pruner.kick = lambda _: None
    root = await alice.post("Which pump?", "QUESTION")
    for n in range(6):
        await alice.post(f"Reason {n}. {FILLER}", "REPLY", edges={"replies_to": [root["id"]]})
    await alice.post("That one.", "DECISION", edges={"replies_to": [root["id"]]})
    pruner, store = small.opened.pruner, small.opened.store
    real = store.thread_sources

    async def and_then_a_critique(board_: str, members: Any) -> Any:
        sources = await real(board_, members)
        await bob.post("Wait!", "CRITIQUE", edges={"critiques": [root["id"]]})
        return sources

    store.thread_sources = and_then_a_critique
    outcomes = await pruner.run_pass("main")
    assert [line for outcome in outcomes for line in outcome.moved] == []
    assert (await alice.do("query", type="SUMMARY", zone="all"))["items"] == []
    assert (await alice.item(root["id"]))["zone"] == "working"


async def test_a_flood_of_one_owners_agents_pushes_out_none_of_the_others_items(small: Any) -> None:
    alice, one, two = await small.join("alice", "bot-1", "bot-2")
    for bot in ("bot-1", "bot-2"):
        await small.opened.blackboard.introduce(bot, "mallory")
    notes = [(await alice.post(f"note {n} {FILLER}", "LOG"))["id"] for n in range(3)]
    for round_ in range(6):
        for bot in (one, two):
            await flood(bot, 4, "HYPOTHESIS", importance=4, tags=[f"r{round_}"])
            await small.settled()
    assert [await alice.item(id) for id in notes]
    assert [(await alice.item(id))["zone"] for id in notes] == ["working"] * 3
    told = [e for e in (await alice.do("read", since=0))["events"] if e["event"] == "item.archived"]
    assert {e["data"]["why"] for e in told} == {"importance 4, fair-share"}


async def test_an_item_too_large_for_the_board_is_told_at_once_and_does_not_come_back(small: Any) -> None:
    alice, bob = await small.join("alice", "bob")
    for n in range(3):
        await alice.post(f"finding {n}", "FACT", ttl_seconds=60)
    said = await alice.say("post", type="FACT", text=FILLER * 11)
    # Bob looks, because the pass may be over by now: Alice's next view would not tell what she was shown.
    tokens = (await bob.item("F-4"))["tokens"]
    assert (
        f"F-4 is too large to stay ({tokens} tokens; 240 stay when room is made): it goes to the archive now, where "
        'read(ids=["F-4"]) shows it. In parts, or as a file and its gist, it would stay\n' in said
    )
    await small.settled()
    seen = await bob.say("read")
    assert "left for room: F-4\n" in seen
    assert "F-3 by alice 0s, newest of 3 alike (older: F-2 F-1): finding 2\n" in seen, "it left alone"
    assert "of yours F-4 (too large to stay when room is made) → too large to come back" in await alice.say(
        "read"
    )
    seq = await small.seq()
    said = await alice.say("query_archive", text="F-4", restore=True)
    assert 'not restored, too large to stay on the board: read(ids=["F-4"]) shows it\n' in said
    for explain in (False, True):
        read = await bob.say("read", ids=["F-4"], explain=explain)
        assert "too large to come back" in read
        assert "restore" not in read, "it would be refused"
        assert "too large" not in await bob.say("read", ids=["F-1"], explain=explain)
    assert (await bob.do("read", ids=["F-4"], explain=True))["explanations"][0]["restore"] is None
    assert "restored 0" not in said
    assert await small.seq() == seq
    assert (await alice.item("F-4"))["text"] == FILLER * 11
    small.clock.advance(61)
    await small.opened.store.expire()
    said = await alice.say("query_archive", text="F-1 F-4", restore=True)
    assert "restored 1 to working memory\nnot restored, too large" in said
    assert (await alice.say("post", id="F-4", tags=["big"])).splitlines()[-2] == "F-4 stays archived"


async def test_an_item_that_leaves_with_the_next_pass_says_so(small: Any) -> None:
    alice = await small.join("alice")
    assert "goes to the archive when room is made, from 320 tokens on, where" in await alice.say(
        "post", type="FACT", text=FILLER * 8
    )
    for more in ({"importance": 5}, {"type": "CONSTRAINT"}):
        assert "too large" not in await alice.say(
            "post", **{"type": "FACT", "text": FILLER * 8 + str(more), **more}
        )


async def test_what_left_of_ones_own_is_told_once_whatever_calls_lie_in_between(small: Any) -> None:
    alice, bob = await small.join("alice", "bob")
    await alice.post("it begins", "FACT")
    await alice.say("read")
    await flood(alice, 14)
    await small.settled()
    ids = [item["id"] for item in (await bob.do("query", zone="archive"))["items"]][::-1]
    await bob.post("something else", "FACT")
    assert "something else" in await alice.say("wait", seconds=1)
    await alice.do("query")
    assert "unseen" not in alice.footer, "it counts for nothing"
    view = await alice.say("read")
    assert "\nnew since seq " in view
    assert f"\nleft for room: of yours {' '.join(ids)} (" in view
    assert f'query_archive(text="{" ".join(ids[:3])}", restore=true)' in view
    assert "left for room" not in await alice.say("read")
    await bob.post("more", "FACT")
    assert "left for room" not in await alice.say("read")


async def test_news_of_what_left_offer_back_only_what_could_come_back(small: Any) -> None:
    alice, bob = await small.join("alice", "bob")
    await alice.post("it begins", "FACT")
    await alice.say("read")
    await bob.post("what she has not seen yet")
    await flood(alice, 14)
    await small.settled()
    ids = [item["id"] for item in (await bob.do("query", zone="archive"))["items"]][::-1]
    back, withdrawn, *rest = ids
    assert len(rest) > 2
    await alice.post(id=withdrawn, status="WITHDRAWN")
    await bob.do("query_archive", text=back, restore=True)
    assert (await bob.item(back))["zone"] == "working"
    line = next(told for told in (await alice.say("read")).splitlines() if told.startswith("left for room"))
    assert line.startswith(f"left for room: of yours {' '.join(ids)} (")
    assert f'query_archive(text="{" ".join(rest[:3])}", restore=true)' in line


async def test_news_offer_to_restore_a_large_item_while_the_board_has_room_for_it(small: Any) -> None:
    alice, bob = await small.join("alice", "bob")
    for name in ("alice", "bob"):
        await small.opened.blackboard.introduce(name, "maria")
    for n in range(2):
        await bob.post(f"finding {n} {FILLER}", "LOG", importance=1, ttl_seconds=60)
    await alice.post(FILLER * 9, "LOG", importance=1)
    await small.settled()
    small.clock.advance(61)
    await small.opened.store.expire()
    back = 'query_archive(text="L-3", restore=true)'
    assert back in await bob.say("read", ids=["L-3"])
    assert f"of yours L-3 (too large to stay when room is made) → {back}" in await alice.say("read")
    assert "restored 1" in await alice.say("query_archive", text="L-3", restore=True)
