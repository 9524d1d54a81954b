"""`core`, `board` and `prune` through real clients of both generations: F1, F2, F30."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boards
import pytest

board, small, mode, both = boards.board, boards.small, boards.mode, boards.both


@both
async def test_the_core_is_written_by_compare_and_set_and_stands_in_every_view(board: Any, mode: str) -> None:
    steward, alice = await board.join("steward", "alice")
    empty = await steward.do("core")
    assert empty == {"objective": "", "constraints": [], "flags": {}, "version": 0, "seq": 1}
    assert (await steward.say("core")).splitlines() == ["core version 0", "no objective", "seq 1"]
    fresh = await steward.do("core", objective="Win.", constraints=["One.", "Two."], flags={"go": True})
    assert (fresh["version"], fresh["constraints"], fresh["seq"]) == (1, ["One.", "Two."], 2)
    part = await steward.do("core", constraints=["Two.", "One."], expected_version=1)
    assert part == {
        "objective": "Win.",
        "constraints": ["Two.", "One."],
        "flags": {"go": True},
        "version": 2,
        "seq": 3,
    }
    view = await alice.say("read", budget=110)
    assert "objective: Win.\nconstraint 1: Two.\nconstraint 2: One.\nflags: go=true" in view
    assert (await steward.do("core", objective="", flags={}, expected_version=2))["flags"] == {}
    events = (await alice.do("read", since=1))["events"]
    assert [(e["event"], e["agent"]) for e in events] == [("core.changed", "steward")] * 3


async def test_a_stale_core_is_a_conflict_with_the_current_version(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.do("core", objective="Mine.")
    said = (await alice.fail("core", objective="Other.", expected_version=5))["message"]
    assert said.endswith(
        "Nothing was changed; core() shows it, and if your change still fits, repeat it with expected_version=1."
    )
    assert said.startswith("The core of 'main' is at version 1, not 5. Nothing")
    unsaid = (await alice.fail("core", objective="Other."))["message"]
    assert unsaid.startswith("The core of 'main' is at version 1. Nothing"), "no version was given"
    for stale in ({}, {"expected_version": 0}, {"expected_version": 2}):
        failure = await bob.fail("core", objective="Bob's.", **stale)
        assert (failure["error"], failure["current_version"]) == ("conflict", 1)
    assert (await bob.do("core"))["objective"] == "Mine."


async def test_the_core_has_a_cap_and_is_never_over_it(board: Any) -> None:
    alice = await board.join("alice")
    await alice.do("core", objective="word " * 900)
    failure = await alice.fail("core", constraints=["word " * 150], expected_version=1)
    assert (failure["error"], failure["tokens"] > 1_000) == ("refused", True)
    assert "cap is 1000" in failure["message"]
    assert (await alice.do("core"))["version"] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"constraints": ["x"] * 101}, "100"),
        ({"constraints": [""]}, "constraints[0]"),
        ({"constraints": ["x" * 2_001]}, "2000"),
        ({"constraints": "x"}, "array"),
        ({"flags": {"on": "true"}}, "true or false"),
        ({"flags": {"": True}}, "flags"),
        ({"objective": 5}, "objective must be a string"),
        ({"objective": "a\0"}, "NUL"),
        ({"objective": "x", "expected_version": -1}, "expected_version"),
        ({"goal": "x"}, "unknown argument 'goal'"),
    ],
)
async def test_wrong_words_to_the_core_are_refused(board: Any, arguments: dict[str, Any], words: str) -> None:
    alice = await board.join("alice")
    assert words in (await alice.fail("core", **arguments))["message"]
    assert (await alice.do("core"))["version"] == 0


@both
async def test_the_board_tells_its_figures_and_takes_new_settings(board: Any, mode: str) -> None:
    alice = await board.join("alice")
    await alice.post("one two three")
    figures = await alice.do("board")
    assert (figures["board"], figures["title"], figures["lifecycle"]) == ("main", "main", "open")
    assert (figures["working_items"], figures["working_tokens"], figures["archived_items"]) == (1, 3, 0)
    assert (figures["target_tokens"], figures["high_water"], figures["low_water"]) == (6_000, 0.8, 0.6)
    before = await board.seq()
    changed = await alice.do(
        "board", title="The pump", settings={"target_tokens": 900, "low_water": 0.5, "ceiling": 3}
    )
    assert (changed["title"], changed["target_tokens"], changed["low_water"]) == ("The pump", 900, 0.5)
    assert (changed["ceiling"], changed["hard_ceiling"], changed["seq"]) == (3, 4, before + 1)
    assert (await alice.do("board", title="The pump"))["seq"] == before + 1, "no change is no event"
    text = await alice.say("board")
    assert text.startswith(
        "main open: The pump\nworking 1 items, 3 tokens; archive 0 items\ntarget_tokens 900 "
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"target_tokens": 199},
        {"target_tokens": 1.5},
        {"target_tokens": True},
        {"target_tokens": "900"},
        {"high_water": 1.1},
        {"high_water": 0.5},
        {"low_water": 0.8},
        {"low_water": 0.01},
        {"ceiling": 0},
        {"ceiling": 5},
        {"hard_ceiling": 5},
        {"hard_ceiling": 1},
        {"summarise_over": 1},
        {"colour": "red"},
        {"target_tokens": 900, "tokenizer": "x"},
    ],
)
async def test_wrong_settings_are_refused_whole(board: Any, settings: dict[str, Any]) -> None:
    alice = await board.join("alice")
    before = await alice.do("board")
    failure = await alice.fail("board", settings=settings, title="New")
    assert failure["error"] == "invalid"
    assert "Nothing was changed" in failure["message"]
    assert await alice.do("board") == before


async def test_a_settled_board_takes_no_posts_and_opens_again_and_a_closed_one_never(board: Any) -> None:
    alice = await board.join("alice")
    await alice.post("x")
    await alice.do("board", lifecycle="settled")
    failure = await alice.fail("post", text="y")
    assert (failure["error"], "settled" in failure["message"]) == ("refused", True)
    assert await alice.sees("F-1")
    assert "(settled)" in await alice.say("read")
    await alice.do("board", lifecycle="open")
    await alice.post("y")
    await alice.do("board", lifecycle="closed")
    assert (await alice.fail("post", text="z"))["error"] == "refused"
    failure = await alice.fail("board", lifecycle="open")
    assert (failure["error"], failure["lifecycle"]) == ("conflict", "closed")
    assert (await alice.fail("board", lifecycle="paused"))["error"] == "invalid"


async def test_a_board_has_a_parent_without_cycles(board: Any) -> None:
    alice = await board.join("alice")
    for name in ("main", "child", "grandchild"):
        await alice.post("x", board=name)
    assert (await alice.do("board", board="child", parent="main"))["parent"] == "main"
    await alice.do("board", board="grandchild", parent="child")
    for parent in ("grandchild", "child", "main"):
        assert (await alice.fail("board", board="main", parent=parent))["error"] == "invalid"
    assert (await alice.fail("board", board="main", parent="nowhere"))["error"] == "not_found"
    assert (await alice.do("board", board="child", parent=""))["parent"] is None


async def test_with_stewards_named_others_read_but_do_not_change(tmp_path: Path, mode: str) -> None:
    async with boards.open_boards(tmp_path, mode, stewards=("steward",)) as board_:
        steward, alice = await board_.join("steward", "alice")
        await alice.post("x", "LOG")
        for tool, arguments in (
            ("core", {"objective": "Mine."}),
            ("board", {"title": "Mine"}),
            ("board", {"lifecycle": "closed"}),
            ("prune", {}),
        ):
            failure = await alice.fail(tool, **arguments)
            assert (failure["error"], "stewards are steward" in failure["message"]) == ("forbidden", True)
        assert (await alice.do("core"))["version"] == 0
        assert (await alice.do("board"))["title"] == "main"
        assert (await alice.do("prune", dry_run=True))["moved"] == []
        assert (await steward.do("board", title="Ours"))["title"] == "Ours"
        assert (await steward.do("core", objective="Ours."))["version"] == 1
        assert (await steward.do("prune"))["moved"] == []


async def test_the_admin_tools_are_off_unless_they_are_chosen(tmp_path: Path, mode: str) -> None:
    async with boards.open_boards(tmp_path, mode) as board_:
        alice = await board_.join("alice")
        names = [t.name for t in (await alice.client.list_tools()).tools]
        core = ["post", "read", "query", "query_archive", "subscribe", "wait", "debate"]
        assert names == [*core, "core", "board", "prune", "transaction"]
        from dataclasses import replace

        from blackboard_mcp.server import compose

        opened = board_.opened
        plain = replace(opened, settings=replace(opened.settings, tools=("core",), tool_prefix="bb_"))
        assert [t.name for t in compose.build_server(plain).published_tools] == [
            f"bb_{name}" for name in core
        ]


async def test_a_smaller_budget_prunes_at_once(board: Any) -> None:
    alice = await board.join("alice")
    await alice.do("post", items=[{"text": f"{n} " + "word " * 40, "type": "LOG"} for n in range(20)])
    await alice.do("board", settings={"target_tokens": 400})
    await board.settled()
    assert (await alice.do("board"))["working_tokens"] <= 240


@both
async def test_a_dry_run_says_what_the_pass_then_does_and_changes_nothing(small: Any, mode: str) -> None:
    alice, bob = await small.join("alice", "bob")
    await small.opened.pruner.close()
    small.opened.pruner.kick = lambda _: None  # the pass is run by hand
    for n in range(6):
        await alice.post(f"log {n} " + "word " * 20, "LOG", importance=1 + n % 3)
    await alice.post("done " * 20, status="RESOLVED")
    log = await alice.post("analysed " * 20, "LOG")
    await bob.post(id=log["id"], edges={"analyzed_by": [(await bob.post("it says so"))["id"]]})
    await bob.post("zebra " * 30, "LOG", visibility="private", importance=1)
    root = await bob.post("Shall we open the valve at 7 bar?", "QUESTION")
    for n in range(6):
        await alice.post(
            f"A reason, number {n}: " + "pressure " * 40, "REPLY", edges={"replies_to": [root["id"]]}
        )
    await bob.post("Decided: open it at 7 bar.", "DECISION", edges={"replies_to": [root["id"]]})
    before = await small.seq()
    dry = await alice.do("prune", dry_run=True)
    assert await small.seq() == before
    assert dry["dry_run"]
    text = await alice.say("prune", dry_run=True)
    assert (
        f"would move {len(dry['moved'])} items: working memory {dry['tokens_before']} → {dry['tokens_after']}"
        in text
    )
    done = await alice.do("prune")
    assert not done["dry_run"]
    assert [(m["id"], m["step"]) for m in done["moved"]] == [(m["id"], m["step"]) for m in dry["moved"]]
    assert (done["tokens_before"], done["tokens_after"]) == (dry["tokens_before"], dry["tokens_after"])
    steps = [m["step"] for m in done["moved"]]
    assert steps == sorted(steps)
    assert set(steps) >= {1, 2, 3}
    assert "zebra" not in str(dry) + str(done)
    assert not any(m["id"] == "L-10" for m in dry["moved"])
    assert done["tokens_after"] == (await alice.do("board"))["working_tokens"]
    for moved in done["moved"]:
        item = await alice.item(moved["id"])
        assert item["zone"] == "archive"
        assert moved["why"] in await alice.say("read", ids=[moved["id"]])
    assert (await alice.do("prune"))["moved"] == [], "a pass is idempotent"


async def test_figures_count_nothing_that_is_private_to_others(small: Any) -> None:
    alice, bob = await small.join("alice", "bob")
    await small.opened.pruner.close()
    small.opened.pruner.kick = lambda _: None  # the pass is run by hand
    public = [await alice.post(f"log {n} " + "word " * 60, "LOG", importance=1 + n % 2) for n in range(6)]
    notes = [await bob.post(f"{n} zebra " * 40, visibility="private", importance=1) for n in range(2)]
    law = await bob.post("hush " * 20, "CONSTRAINT", visibility="private")
    tokens = sum(item["tokens"] for item in public)
    own = tokens + sum(item["tokens"] for item in [*notes, law])
    figures = await alice.do("board")
    assert (figures["working_items"], figures["working_tokens"], figures["archived_items"]) == (6, tokens, 0)
    assert f"working 6 items, {tokens} tokens; archive 0 items" in await alice.say("board")
    assert (await bob.do("board"))["working_tokens"] == own
    for agent, all_, held in ((alice, tokens, 0), (bob, own, law["tokens"])):
        dry = await agent.do("prune", dry_run=True)
        assert (dry["tokens_before"], dry["protected_tokens"]) == (all_, held)
        gone = [item for item in [*public, *notes] if item["id"] in [m["id"] for m in dry["moved"]]]
        assert dry["tokens_after"] == all_ - sum(item["tokens"] for item in gone)
    done = await alice.do("prune")
    left = [item for item in public if (await alice.item(item["id"]))["zone"] == "working"]
    assert done["tokens_before"] == tokens
    assert done["tokens_after"] == sum(item["tokens"] for item in left)
    assert (done["protected_items"], done["protected_tokens"]) == (0, 0)
    assert (await bob.item(notes[0]["id"]))["zone"] == "archive"
    after = await alice.do("board", title="ours")
    assert (after["working_items"], after["archived_items"]) == (len(left), 6 - len(left))
