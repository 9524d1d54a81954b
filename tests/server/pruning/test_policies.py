"""Policies by name: what may be named at launch and by a board, and what a user's class can do at worst."""

from __future__ import annotations

import asyncio
import importlib
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.guard import Protection
from blackboard_mcp.protocols.items import ItemType, Status
from blackboard_mcp.protocols.pruning import Candidate, Plan, Workspace
from blackboard_mcp.server.plugins import bounded
from blackboard_mcp.server.pruning.policies import Policies
from blackboard_mcp.server.pruning.selection import decide, evictable

HOSTILE = ("Raises", "Exits", "Hangs", "Greedy", "Repeats", "Nonsense", "Unsorted", "Meddles")
SAMPLES = ("Newest", "ByAuthor", "OnlyOne", "Pauses", *HOSTILE)


def policies() -> Policies:
    return Policies(f"{name.lower()}=samples:{name}" for name in SAMPLES)


def space(policy: str) -> Workspace:
    """Ten items of 100 tokens, two of them held, one important and one finished; 400 may stay."""
    made = tuple(
        Candidate(
            number=n,
            type=ItemType.FACT,
            status=Status.RESOLVED if n == 5 else Status.ACTIVE,
            importance=5 if n == 4 else 1 + n % 2,
            tokens=100,
            author="bob" if n > 6 else "carol",
            thread=n,
            private=False,
            updated_at=datetime(2026, 11, 21, tzinfo=UTC),
            seq=n,
            expired=False,
            superseded=False,
            analysed=False,
            debated_before=False,
            owner="bob" if n > 6 else "carol",
        )
        for n in range(1, 11)
    )
    config = BoardConfig(target_tokens=800, low_water=0.5, owner_share=1.0, policy=policy)
    return Workspace(config, made, {1: Protection("x"), 2: Protection("x")}, 1_000)


async def passed(known: Policies, before: Workspace) -> Plan:
    prepared = await known.prepare(before.config.policy, *evictable(before))
    return decide(before, ranking=known.ranking(before, prepared))


def moved(plan: Plan) -> list[int]:
    return [move.number for move in plan.moves]


DEFAULT = [5, 6, 8, 10, 3, 7]


async def test_a_class_with_an_order_decides_what_goes_after_the_finished() -> None:
    plan = await passed(policies(), space("newest"))
    assert moved(plan) == [5, 10, 9, 8, 7, 6]
    assert (plan.policy, plan.warning) == ("newest", "")
    assert plan.moves[1].why == "importance 1, newest"


async def test_a_class_with_a_key_stands_anywhere_in_a_composition() -> None:
    assert moved(await passed(policies(), space("byauthor"))) == [5, 8, 10, 7, 9, 6]
    assert moved(await passed(policies(), space("byauthor+newest"))) == [5, 10, 9, 8, 7, 6]
    assert moved(await passed(policies(), space("fair-share+newest"))) == [5, 6, 10, 3, 9, 8]


async def test_what_an_order_leaves_out_goes_last_and_a_pass_still_ends_at_its_level() -> None:
    assert moved(await passed(policies(), space("onlyone"))) == [5, 3, 6, 8, 10, 7]


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_class_is_passed_over_for_the_pass_and_that_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    monkeypatch.setattr(bounded, "SECONDS", 0.1)
    before = space(name.lower())
    plan = await passed(policies(), before)
    assert moved(plan) == DEFAULT
    assert plan.policy == "token-importance"
    assert plan.warning.startswith(f"policy '{name.lower()}' ")
    assert plan.warning.endswith("; token-importance decided")
    assert "secret" not in plan.warning, "what a policy says may quote what not everybody may see"
    assert name.lower() in caplog.text


async def test_a_class_that_hangs_is_not_asked_again_until_it_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounded, "SECONDS", 0.1)
    known = policies()
    assert "took longer" in (await passed(known, space("hangs"))).warning
    assert "still thinks" in (await passed(known, space("hangs"))).warning
    assert moved(await passed(known, space("newest"))) == [5, 10, 9, 8, 7, 6], "others are asked as ever"
    importlib.import_module("samples").RELEASE.set()
    hung = known._bounded["hangs"]._thread
    assert hung is not None
    hung.join(5)
    plan = await passed(known, space("hangs"))
    assert (moved(plan), plan.warning) == (DEFAULT, "")


async def test_passes_that_come_together_are_each_ordered_by_the_class() -> None:
    known, samples = policies(), importlib.import_module("samples")
    samples.RELEASE.clear()
    first = asyncio.create_task(passed(known, space("pauses")))
    await asyncio.to_thread(samples.REACHED.wait, 10)
    second = asyncio.create_task(passed(known, space("pauses")))
    await asyncio.sleep(0)
    samples.RELEASE.set()
    for plan in (await first, await second):
        assert (moved(plan), plan.warning) == ([5, 10, 9, 8, 7, 6], "")


async def test_what_came_or_changed_after_a_policy_was_asked_goes_after_what_it_ordered() -> None:
    known, before = policies(), space("newest")
    prepared = await known.prepare(before.config.policy, *evictable(before))
    changed = replace(before.candidates[9], seq=11)
    fresh = replace(before.candidates[9], number=12, seq=12)
    now = replace(before, candidates=(*before.candidates[:9], changed, fresh), tokens=1_100)
    assert moved(decide(now, ranking=known.ranking(now, prepared))) == [5, 9, 8, 7, 6, 3, 10]


async def test_a_policy_chosen_or_unknown_when_the_pass_begins_leaves_it_to_the_default() -> None:
    known = policies()
    for policy, words in (("newest", "was chosen while"), ("elsewhere", "is not known to this server")):
        plan = decide(space(policy), ranking=known.ranking(space(policy), None))
        assert (moved(plan), plan.policy) == (DEFAULT, "token-importance")
        assert words in plan.warning
    other = await known.prepare("newest", *evictable(space("newest")))
    plan = decide(space("lru"), ranking=known.ranking(space("lru"), other))
    assert (plan.policy, plan.warning) == ("lru", "")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("newest", "not of the form"),
        ("=samples:Newest", "not of the form"),
        ("New=samples:Newest", "not of the form"),
        ("a+b=samples:Newest", "not of the form"),
        ("new=samples", "not of the form"),
        ("new=samples:Newest()", "not of the form"),
        ("new=../samples:Newest", "not of the form"),
        ("lru=samples:Newest", "is a policy 'lru' already"),
        ("new=nowhere_at_all:Newest", "importing 'nowhere_at_all' failed"),
        ("new=samples:Older", "has no 'Older'"),
        ("new=samples:made", "is no class"),
        ("new=samples:NeedsMore", "without arguments: TypeError: "),
        ("new=samples:Leaves", "without arguments: SystemExit: 0."),
        ("new=samples:Nothing", "needs a method"),
    ],
)
def test_what_is_no_policy_is_refused_at_launch(said: str, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Policies([said])
    assert words in caught.value.message


def test_a_name_is_given_once() -> None:
    with pytest.raises(InvalidInput, match="is a policy 'new' already"):
        Policies(["new=samples:Newest", "new=samples:ByAuthor"])


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("", "Unknown policy ''"),
        ("LRU", "there are: token-importance, lru, lfu, size, fair-share, newest"),
        ("samples:Newest", "Unknown policy 'samples:Newest'"),
        ("lru+", "Unknown policy ''"),
        ("lru+mru", "Unknown policy 'mru'"),
        ("lru+lru", "'lru' twice"),
        ("newest+lru", "put it last"),
        ("lru+" * 30 + "lru", "at most 100 characters"),
    ],
)
def test_a_board_chooses_among_the_names_there_are(policy: str, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        policies().check(policy)
    assert words in caught.value.message
    assert "Nothing was changed" in caught.value.message


def test_any_part_of_a_composition_may_be_of_the_operator() -> None:
    known: Any = policies()
    for policy in ("byauthor+lru", "fair-share+byauthor+newest", "lru+newest"):
        known.check(policy)
        assert known.foreign(policy)
    assert not known.foreign("fair-share+lru")
