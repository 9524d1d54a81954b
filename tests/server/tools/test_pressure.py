"""Pressure through clients: told, refused with who can unblock, and ended by what ends debates."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import boards
from patience import PATIENCE

FILLS = {"owner_held": 1}
"""An agent may put its board under pressure by itself."""
small, mode = boards.small, boards.mode
TOKENS = boards.TOKENIZER.count

FILLER = "word " * 30


async def argue(alice: Any, bob: Any, claims: int = 7) -> list[tuple[Any, Any]]:
    """So many claims of 64 tokens that bob doubts: seven are more than the 400 that a small board may hold."""
    pairs = []
    for n in range(claims):
        claim = await alice.post(f"claim {n} {FILLER * 2}", importance=3 + n % 2)
        doubt = await bob.post(f"doubt {n}", "CRITIQUE", edges={"critiques": [claim["id"]]})
        pairs.append((claim, doubt))
    return pairs


async def under(agent: Any) -> Any:
    """The hot issue, or nothing."""
    id_ = (await agent.do("board"))["pressure"]
    return None if id_ is None else await agent.item(id_)


async def pressures(agent: Any) -> list[str]:
    events = (await agent.do("read", since=0))["events"]
    return [e["data"]["state"] for e in events if e["event"] == "board.pressure"]


async def test_pressure_is_told_once_and_names_who_can_unblock_and_how(small: Any) -> None:
    alice, bob, carol = await small.join("alice", "bob", "carol")
    pairs = await argue(alice, bob)
    await small.settled()
    issue = await under(carol)
    assert (issue["type"], issue["author"], issue["key"], issue["status"]) == (
        "HOT_ISSUE",
        "system",
        "board:pressure",
        "ACTIVE",
    )
    held = sum(item["tokens"] for pair in pairs for item in pair)
    assert f"{held:,} tokens in {2 * len(pairs)} items may not leave; the target is 400" in issue["text"]
    assert f"debate on {pairs[0][0]['id']}" in issue["text"]
    assert "bob: " not in issue["text"], "he has nothing to judge yet"
    assert f'alice: post a REPLY with edges {{"replies_to": ["{pairs[0][1]["id"]}"]}}' in issue["text"]
    assert 'debate(op="decide"' in issue["text"]
    assert issue["tokens"] == TOKENS(issue["text"]) <= 180
    assert await pressures(carol) == ["began"]
    assert "Pressure: " in await carol.say("read")
    assert f"under pressure, see {issue['id']}" in await carol.say("board")
    assert (await alice.do("prune"))["moved"] == [], "nothing that is protected goes"
    assert [(await alice.item(i["id"]))["zone"] for pair in pairs for i in pair] == ["working"] * 14


async def test_what_matters_less_is_refused_with_a_code_and_the_rest_goes_through(small: Any) -> None:
    alice, bob, carol = await small.join("alice", "bob", "carol")
    pairs = await argue(alice, bob)
    await small.settled()
    seq = await small.seq()
    failure = await carol.fail("post", text="by the way", type="LOG")
    assert failure["error"] == "pressure"
    assert failure["unblock"] == ["alice"]
    assert failure["issue"] == (await under(carol))["id"]
    assert "Can unblock: alice" in failure["message"]
    assert "Nothing was changed" in failure["message"]
    batch = await carol.fail("post", items=[{"text": "fine", "importance": 4}, {"text": "x", "type": "LOG"}])
    assert batch["error"] == "pressure"
    assert await small.seq() == seq
    await carol.post("this matters", "FACT")
    await carol.post("an aside in it", "LOG", edges={"supports": [pairs[0][0]["id"]]})
    await alice.post("because", "REPLY", importance=1, edges={"replies_to": [pairs[0][1]["id"]]})
    await carol.post("we go on", "DECISION", importance=1)


async def test_it_ends_by_itself_when_debates_close_and_nothing_is_lost(small: Any) -> None:
    alice, bob, carol = await small.join("alice", "bob", "carol")
    pairs = await argue(alice, bob)
    await small.settled()
    issue = await under(carol)
    for n, (claim, doubt) in enumerate(pairs):
        match n % 3:
            case 0:
                await carol.do("debate", op="decide", outcome="stands", id=claim["id"], reason="enough")
            case 1:
                await bob.do("debate", op="withdraw", id=doubt["id"], reason="a mistake")
            case 2:
                await alice.post("because", "REPLY", importance=1, edges={"replies_to": [doubt["id"]]})
                await bob.do("debate", op="acknowledge", id=claim["id"])
        await small.settled()
    assert await under(carol) is None
    assert await pressures(carol) == ["began", "ended"]
    assert (await carol.item(issue["id"]))["status"] == "RESOLVED"
    await carol.post("by the way", "LOG")
    await small.settled()
    figures = await carol.do("board")
    assert figures["working_tokens"] <= 320
    for pair in pairs:
        for item in pair:
            assert (await carol.item(item["id"]))["sha256"] == item["sha256"]


async def test_the_issue_resolves_though_it_is_itself_debated_when_pressure_ends(small: Any) -> None:
    alice, bob, carol = await small.join("alice", "bob", "carol")
    pairs = await argue(alice, bob)
    await small.settled()
    issue = (await under(carol))["id"]
    doubt = await carol.post("it is not that bad", "CRITIQUE", edges={"critiques": [issue]})
    said = await carol.say("debate", op="status", id=issue)
    assert "system" not in said, "the server owes no answer"
    for claim, _ in pairs:
        await carol.do("debate", op="decide", outcome="stands", id=claim["id"], reason="enough")
    await small.settled()
    assert await under(carol) is None
    assert (await carol.item(issue))["status"] == "DEBATED"
    await bob.post("it is", "REPLY", edges={"replies_to": [doubt["id"]]})
    await carol.do("debate", op="acknowledge", id=issue)
    assert (await carol.item(issue))["status"] == "RESOLVED"


async def test_a_larger_budget_ends_it_and_a_smaller_one_begins_it(small: Any) -> None:
    alice, bob = await small.join("alice", "bob")
    await argue(alice, bob, claims=3)
    await small.settled()
    assert await under(alice) is None
    await alice.do("board", settings={"target_tokens": 200})
    await small.settled()
    assert await under(alice) is not None
    await alice.do("board", settings={"target_tokens": 240})
    await small.settled()
    assert await under(alice) is not None, "it stays until what is held is under the high-water mark"
    await alice.do("board", settings={"target_tokens": 1_000})
    await small.settled()
    assert await under(alice) is None
    assert await pressures(bob) == ["began", "ended"]


async def test_private_items_are_counted_for_nobody_and_never_named(small: Any) -> None:
    alice, bob = await small.join("alice", "bob")
    for n in range(8):
        await alice.post(f"zebra {n} {FILLER * 2}", "CONSTRAINT", visibility="private")
    await small.settled()
    await bob.post("noted", "FACT")
    await small.settled()
    assert await under(bob) is None
    pairs = await argue(alice, bob)
    await small.settled()
    issue = await under(bob)
    held = sum(item["tokens"] for pair in pairs for item in pair)
    assert f"{held:,} tokens in 14 items" in issue["text"]
    failure = await bob.fail("post", text="x", type="LOG")
    for told in (issue["text"], str(issue["metadata"]), str(failure)):
        assert "zebra" not in told
        assert "K-" not in told
    assert failure["held_tokens"] == held


async def test_views_stay_within_their_budget_at_ten_times_the_target(small: Any) -> None:
    alice, bob, carol = await small.join("alice", "bob", "carol")
    pairs = await argue(alice, bob, claims=60)
    await small.settled()
    assert (await alice.do("board"))["working_tokens"] > 4_000
    issue = await under(alice)
    for agent in (alice, bob, carol):
        for budget in (400, 1_500):
            view = await agent.say("read", budget=budget)
            assert TOKENS(view) <= budget
            assert issue["text"].splitlines()[0][:60] in view
    assert pairs[0][1]["id"] in await alice.say("read"), "what waits for her comes first"


async def test_two_processes_and_a_restart_know_the_same_pressure(tmp_path: Path, mode: str) -> None:
    async with (
        boards.open_boards(tmp_path, mode, target_tokens=400, board_settings=FILLS) as one,
        boards.open_boards(tmp_path, mode, target_tokens=400, board_settings=FILLS) as two,
    ):
        alice, bob = await one.join("alice", "bob")
        carol = await two.join("carol")
        pairs = await argue(alice, bob)
        await one.settled()
        issue = await under(carol)
        assert (await carol.fail("post", text="x", type="LOG"))["issue"] == issue["id"]
    async with boards.open_boards(tmp_path, mode, target_tokens=400, board_settings=FILLS) as after:
        carol = await after.join("carol")
        assert (await carol.fail("post", text="x", type="LOG"))["error"] == "pressure"
        assert (await under(carol))["id"] == issue["id"]
        # Whoever closed the debates died before it could look: the next look of any process ends it.
        after.opened.pruner.kick = lambda _: None
        for claim, _ in pairs:
            await carol.do("debate", op="decide", outcome="stands", id=claim["id"], reason="enough")
        assert await under(carol) is not None
        del after.opened.pruner.kick
        sweep = asyncio.create_task(after.opened.pruner.run())
        async with asyncio.timeout(PATIENCE):
            seen = -1
            while (await after.opened.store.find_board("main")).pressure is not None:
                seen = await after.opened.store.wait_for_change(seen, 5)
        sweep.cancel()
        await asyncio.gather(sweep, return_exceptions=True)
        await after.settled()
        assert await pressures(carol) == ["began", "ended"]
        await carol.post("x", "LOG")


async def test_deciders_named_at_launch_are_named(tmp_path: Path, mode: str) -> None:
    async with boards.open_boards(
        tmp_path, mode, target_tokens=400, board_settings=FILLS, deciders=("lead",)
    ) as board:
        alice, bob = await board.join("alice", "bob")
        pairs = await argue(alice, bob)
        await board.settled()
        assert (
            f'lead: debate(op="decide", id="{pairs[0][0]["id"]}", outcome=…, reason=…)'
            in (await under(alice))["text"]
        )


async def test_constraints_alone_can_press_and_their_authors_are_named(small: Any) -> None:
    alice, bob = await small.join("alice", "bob")
    rules = [await alice.post(f"rule {n} {FILLER * 2}", "CONSTRAINT") for n in range(7)]
    await small.settled()
    issue = await under(bob)
    assert "Held: constraints" in issue["text"]
    assert 'alice: post(id="' in issue["text"]
    assert (await bob.fail("post", text="x", type="LOG"))["unblock"] == ["alice"]
    for rule in rules:
        await alice.post(id=rule["id"], status="RESOLVED")
    await small.settled()
    assert await under(bob) is None


async def test_who_owes_answers_is_told_how_to_give_them_without_the_set_messages(
    tmp_path: Path, mode: str
) -> None:
    async with boards.open_boards(
        tmp_path, mode, target_tokens=400, board_settings=FILLS, tools=("core", "admin", "messages")
    ) as opened:
        alice, bob = await opened.join("alice", "bob")
        for n in range(6):
            await alice.do("request", text=f"question {n} {FILLER * 3}", to="bob", seconds=0)
        await opened.settled()
        issue = await under(bob)
        assert 'bob: post an ANSWER with edges {"replies_to": ["Q-1"]}' in issue["text"]
        assert "respond(" not in issue["text"]
        for waiting in (await bob.do("respond"))["waiting"]:
            await bob.post("no", "ANSWER", importance=1, edges={"replies_to": [waiting["id"]]})
        await opened.settled()
        assert await under(bob) is None
