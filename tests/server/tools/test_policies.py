"""Policies and settings of boards through clients: chosen live, told of, refused with what there is."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import boards
import pytest
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.server.plugins import bounded

board, small, mode = boards.board, boards.small, boards.mode

WORDS = "word " * 30


@pytest.fixture
def samples(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "pruning"))
    module = importlib.import_module("samples")
    yield module
    module.RELEASE.set()
    del sys.modules["samples"]


async def fill(agent: Any, count: int = 10, **more: Any) -> list[str]:
    """Ids of so many posts of 32 tokens; ten stay below the high-water mark of a small board."""
    posted = await agent.do(
        "post", items=[{"text": f"{n} {WORDS}", "type": "LOG", **more} for n in range(count)]
    )
    return [item["id"] for item in posted["items"]]


async def gone(agent: Any) -> list[str]:
    """What left, in the order it left."""
    events = (await agent.do("read", since=0))["events"]
    return [e["item"] for e in events if e["event"] == "item.archived"]


async def test_lru_keeps_what_was_read_and_the_default_the_newest(small: Any) -> None:
    alice, bob = await small.join("alice", "bob")
    await alice.do("board", settings={"policy": "lru"})
    ids = await fill(alice)
    small.clock.advance(10)
    await bob.do("read", ids=ids[:2])
    await bob.do("query", text=f"2 {WORDS.strip()}")
    await small.opened.activity.flush()
    await fill(alice, 1)
    await small.settled()
    assert await gone(alice) == ids[3:7]
    text = await bob.say("read", ids=[ids[3]])
    assert "importance 2, lru" in text


async def test_lfu_keeps_what_is_read_most(small: Any) -> None:
    alice, bob = await small.join("alice", "bob")
    await alice.do("board", settings={"policy": "lfu"})
    ids = await fill(alice)
    for reads in range(3):
        await bob.do("read", ids=ids[reads:3])
    await small.opened.activity.flush()
    await fill(alice, 1)
    await small.settled()
    assert await gone(alice) == ids[3:7]


async def test_fair_share_takes_from_the_owner_who_uses_most(small: Any) -> None:
    one, two, bob = await small.join("one", "two", "bob")
    await small.opened.store.set_owner("one", "alice")
    await small.opened.store.set_owner("two", "alice")
    await bob.do("board", settings={"policy": "fair-share"})
    await fill(bob, 4)
    hers = [*(await fill(one, 3)), *(await fill(two, 3))]
    await fill(two, 1)
    await small.settled()
    assert await gone(bob) == hers[:4], "two agents of one owner use more together than bob does alone"


async def test_size_takes_the_longest(small: Any) -> None:
    alice = await small.join("alice")
    await alice.do("board", settings={"policy": "size"})
    await fill(alice, 5)
    long = (await alice.post("x " + "word " * 170, "LOG"))["id"]
    await small.settled()
    assert await gone(alice) == [long]


async def test_changing_the_policy_or_the_steps_of_a_full_board_starts_a_pass(small: Any) -> None:
    alice = await small.join("alice")
    await alice.do("board", settings={"steps": ["logs"]})
    await fill(alice, 12)
    await small.settled()
    assert await gone(alice) == [], "no log is analysed, and no other step may run"
    answer = await alice.do("board", settings={"steps": ["importance"], "policy": "size+lru"})
    assert (answer["settings"]["steps"], answer["settings"]["policy"]) == (["importance"], "size+lru")
    await small.settled()
    assert len(await gone(alice)) == 5
    assert (await alice.do("board"))["working_tokens"] <= 240


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"policy": "mru"}, "there are: token-importance, lru, lfu, size, fair-share"),
        ({"policy": "samples:Newest"}, "Unknown policy 'samples:Newest'"),
        ({"policy": "os:system"}, "Unknown policy"),
        ({"policy": ["lru"]}, "policy is a text"),
        ({"policy": "lru+"}, "Unknown policy ''"),
        ({"policy": "lru+lru"}, "twice"),
        ({"steps": "logs"}, "steps is a list of resolved, logs, threads, importance"),
        ({"steps": []}, "needs at least one"),
        ({"steps": ["log"]}, "There is no step 'log'"),
        ({"steps": [1]}, "steps is a list"),
        ({"high_water": float("1e300")}, "fraction from 0.05 to 1"),
        ({"low_water": 0.9}, "low_water (0.9) must be below high_water (0.8)"),
        ({"ceiling": 4, "hard_ceiling": 3}, "ceiling (4) must not be above hard_ceiling (3)"),
        ({"tokenizer": "os:system"}, "tokenizer is one of o200k_base, cl100k_base on this server"),
        ({"tokenizer": ["o200k_base"]}, "tokenizer is one of"),
        ({"core_tokens": 5}, "there are: target_tokens"),
    ],
)
async def test_a_wrong_setting_is_refused_with_what_is_allowed(
    board: Any, settings: dict[str, Any], words: str
) -> None:
    alice = await board.join("alice")
    before = await alice.do("board")
    failure = await alice.fail("board", settings=settings)
    assert failure["error"] == "invalid"
    assert words in failure["message"]
    assert failure["message"].endswith("Nothing was changed.")
    assert await alice.do("board") == before


async def test_the_board_tool_answers_with_all_settings(board: Any) -> None:
    alice = await board.join("alice")
    facts = (await alice.do("board"))["settings"]
    text = await alice.say("board")
    for name, value in facts.items():
        assert f"{name} {','.join(value) if isinstance(value, list) else value}" in text
    assert facts["policy"] == "token-importance"
    assert facts["steps"] == ["resolved", "logs", "threads", "importance"]


async def test_settings_of_two_stewards_that_clash_together_are_refused(tmp_path: Path, mode: str) -> None:
    async with (
        boards.open_boards(tmp_path, mode) as one,
        boards.open_boards(tmp_path, mode) as two,
    ):
        alice, bob = await one.join("alice"), await two.join("bob")
        await alice.do("board", settings={"low_water": 0.7})
        stale = await two.opened.store.find_board("main")

        async def as_before(_: str) -> Any:
            return stale

        assert stale is not None
        found = two.opened.store.find_board
        await alice.do("board", settings={"low_water": 0.75})
        two.opened.store.find_board = as_before
        failure = await bob.fail("board", settings={"high_water": 0.72})
        two.opened.store.find_board = found
        assert "low_water (0.75) must be below high_water (0.72)" in failure["message"]
        assert (await bob.do("board"))["high_water"] == 0.8


async def test_a_policy_of_the_operator_decides_in_the_process_that_knows_it(
    tmp_path: Path, mode: str, samples: Any
) -> None:
    async with (
        boards.open_boards(tmp_path, mode, target_tokens=400, policy=("newest=samples:Newest",)) as knows,
        boards.open_boards(tmp_path, mode, target_tokens=400) as plain,
    ):
        alice, bob = await knows.join("alice"), await plain.join("bob")
        await alice.do("board", settings={"policy": "newest"})
        failure = await bob.fail("board", settings={"policy": "newest"})
        assert "Unknown policy 'newest'" in failure["message"]
        ids = await fill(alice, 11)
        await knows.settled()
        assert await gone(alice) == ids[:-5:-1]
        first = [e for e in (await bob.do("read", since=0))["events"] if e["event"] == "prune.ended"]
        assert (first[0]["data"]["policy"], "warning" in first[0]["data"]) == ("newest", False)
        more = await fill(bob, 4)
        await plain.settled()
        assert (await gone(alice))[4:] == ids[:4]
        last = [e for e in (await bob.do("read", since=0))["events"] if e["event"] == "prune.ended"][-1]
        assert last["data"]["warning"] == (
            "policy 'newest' is not known to this server; token-importance decided"
        )
        assert (await alice.item(more[0]))["zone"] == "working"


async def test_a_policy_that_fails_is_told_in_the_pass_and_leaves_the_guard_alone(
    tmp_path: Path, mode: str, samples: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "SECONDS", 0.1)
    named = tuple(f"{name.lower()}=samples:{name}" for name in samples.HOSTILE)
    async with boards.open_boards(tmp_path, mode, target_tokens=400, policy=named) as board_:
        alice, bob = await board_.join("alice", "bob")
        board_.opened.pruner.kick = lambda _: None
        claim = await alice.post(f"claim {WORDS}", "LOG", importance=1)
        await bob.post("doubt", "CRITIQUE", importance=1, edges={"critiques": [claim["id"]]})
        for name in samples.HOSTILE:
            await alice.do("board", settings={"policy": name.lower()})
            ids = await fill(alice, 8)
            dry = await alice.do("prune", dry_run=True)
            done = await alice.do("prune")
            assert done["warning"].startswith(f"policy '{name.lower()}' ")
            assert done["policy"] == "token-importance"
            assert [m["id"] for m in dry["moved"]] == [m["id"] for m in done["moved"]] != []
            assert done["tokens_after"] <= 240
            assert (await alice.item(ids[-1]))["zone"] == "working"
            assert "warning: policy" in await alice.say("prune")
        assert (await alice.item(claim["id"]))["zone"] == "working"


@pytest.mark.parametrize(
    ("launch", "words"),
    [
        ({"policy": ("new=nowhere_at_all:X",)}, "importing 'nowhere_at_all' failed"),
        ({"board_settings": {"policy": "mru"}}, "Unknown policy 'mru'"),
    ],
)
async def test_a_launch_with_a_wrong_policy_serves_nothing(
    tmp_path: Path, mode: str, launch: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        async with boards.open_boards(tmp_path / "new", mode, **launch):
            pass
    assert not (tmp_path / "new").exists()


async def test_new_boards_begin_as_the_launch_says_and_old_ones_stay_as_they_are(
    tmp_path: Path, mode: str
) -> None:
    async with boards.open_boards(tmp_path, mode) as before:
        alice = await before.join("alice")
        await alice.post("x")
    async with boards.open_boards(tmp_path, mode, board_settings={"policy": "lru", "ceiling": 3}) as after:
        alice = await after.join("alice")
        await alice.post("x", board="new")
        settings = [(await alice.do("board", board=name))["settings"] for name in ("main", "new")]
        assert [(s["policy"], s["ceiling"]) for s in settings] == [("token-importance", 2), ("lru", 3)]
