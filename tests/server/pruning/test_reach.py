"""A pass that is shown a part of working memory decides what it would decide on all of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from blackboard_mcp.protocols.board import STEPS, BoardChange, BoardConfig, PassStep
from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.protocols.pruning import PassOutcome, Plan, Workspace
from blackboard_mcp.server.pruning.policies import Policies
from blackboard_mcp.server.pruning.selection import TOO_LARGE, decide
from blackboard_mcp.storage.operations.leaving import candidates as weighing
from blackboard_mcp.storage.testing.harness import HandClock, Table, draft
from blackboard_mcp.storage.testing.walk.inline import inline_store
from profiles import NIGHTLY

AGENTS = ("alice", "bob", "carol")
TYPES = (
    *("FACT", "LOG", "LOG", "REPLY", "REPLY", "REPLY", "DECISION", "ANSWER", "CONSTRAINT"),
    *("PLAN", "PROBLEM", "QUESTION", "HYPOTHESIS"),
)
EDGES = ("replies_to",) * 6 + (
    *("supersedes", "analyzed_by", "analyzed_by", None, None),
    *("derived_from", "derived_from", "derived_from", "depends_on", "refutes"),
)
SEEDS = range(120) if NIGHTLY else range(50, 110)
"""By day those in which each thing that a pass looks for occurs often."""
BEFORE = frozenset({PassStep.RESOLVED, PassStep.LOGS, PassStep.THREADS})
AFTER = frozenset({PassStep.RESOLVED, PassStep.LOGS, PassStep.IMPORTANCE})
WANTED = (BEFORE, AFTER, BEFORE | AFTER)


async def grown(at: Table, clock: HandClock, random: Random) -> None:
    """A board on which everything that a pass looks for occurs."""
    count = (await at.post("alice", "root", tokens=20)).number
    for number in range(random.randrange(20, 90)):
        agent, near = random.choice(AGENTS), max(1, count - random.randrange(12))
        clock.advance(0.5)
        try:
            match random.randrange(24):
                case 0:
                    count = (await at.post(agent, "no", "CRITIQUE", critiques=near, tokens=9)).number
                case 1 | 2:
                    await at.decide(agent, near, "so")
                case 3:
                    await at.watch(agent, near)
                case 4 | 5 | 6:
                    status = random.choice(["RESOLVED", "INVALIDATED"])
                    await at.change((await at.item(near)).author, near, status=status)
                case 7:
                    await at.gone(near)
                    await at.store.restore(at.board, agent, [near])
                case _:
                    kind = random.choice(EDGES)
                    edges: dict[str, Any] = {} if kind is None else {kind: near}
                    sent = draft(
                        f"item {number}",
                        random.choice(TYPES),
                        private=random.random() < 0.1,
                        importance=random.choice((1, 1, 2, 2, 3, 3, 4, 4, 4, 5)),
                        tokens=random.choice((*range(1, 60), 900, 900, 900)),
                        ttl=5.0 if random.random() < 0.05 else None,
                        **edges,
                    )
                    count = (await at.batch(agent, sent)).items[0].number
        except (BlackboardError, AssertionError):
            continue  # not an agent's to do, or not to be seen by it


def settings(random: Random, tokens: int) -> dict[str, Any]:
    return {
        "target_tokens": max(200, int(tokens * random.choice([0.2, 0.4, 0.6, 0.9]))),
        "ceiling": random.randrange(1, 4),
        "hard_ceiling": random.randrange(3, 5),
        "summarise_over": random.randrange(2, 5),
        "fresh_seconds": random.choice([0, 5, 15, 600]),
        "restored_events": random.choice([5, 50]),
        "steps": random.choice([STEPS, STEPS, ("importance",), ("logs", "threads"), ("resolved", "threads")]),
        "policy": random.choice(["token-importance"] * 4 + ["lru", "size+lfu", "fair-share"]),
    }


async def compared(seed: int, happened: Counter[str]) -> None:
    clock, random, policies = HandClock(), Random(seed), Policies()
    store = inline_store(clock)
    at = Table(store)
    try:
        await grown(at, clock, random)
        tokens = (await at.standing()).working_tokens
        await store.change_board(at.board, "alice", BoardChange(settings=settings(random, tokens)))
        for wanted in random.sample(WANTED, 3):
            shown: list[int] = []

            def plan(space: Workspace, wanted: frozenset[int] = wanted, shown: list[int] = shown) -> Plan:
                shown.append(len(space.candidates))
                return decide(space, steps=wanted, ranking=policies.ranking(space))

            def reach(config: BoardConfig) -> Any:
                return policies.reach(config.policy)

            whole = await store.prune(at.board, plan, apply=False)
            part = await store.prune(at.board, plan, apply=False, reaching=reach)
            assert part == whole
            tell(happened, part, shown)
            again = await store.prune(at.board, plan, reaching=reach)
            assert replace(again, seq=whole.seq) == whole
    finally:
        await store.close()


def tell(happened: Counter[str], outcome: PassOutcome, shown: list[int]) -> None:
    happened.update({f"step {step}": 1 for _, step, _ in outcome.moved})
    happened["too large"] += any(why == TOO_LARGE for *_, why in outcome.moved)
    happened["threads"] += len(outcome.threads)
    happened["less"] += shown[1] < shown[0]


async def test_what_a_pass_is_not_shown_it_would_not_have_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weighing, "_PAGE", 3)
    monkeypatch.setattr(weighing, "_THREADS", 2)
    happened: Counter[str] = Counter()
    for seed in SEEDS:
        await compared(seed, happened)
    for what in ("step 1", "step 2", "step 4", "threads", "less", "too large"):
        assert happened[what] >= 8, happened


async def test_no_more_finished_threads_are_read_and_summarised_than_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(weighing, "_THREADS", 2)
    store = inline_store(HandClock())
    at = Table(store)
    for thread in range(8):
        root = await at.post("alice", f"root {thread}", importance=4, tokens=30)
        for n in range(4):
            await at.post("bob", f"reply {n}", "REPLY", replies_to=root, importance=4, tokens=30)
        if thread != 2:
            await at.post("alice", "so be it", "DECISION", replies_to=root, tokens=30)
    config = {
        "target_tokens": 2_000,
        "high_water": 0.6,
        "low_water": 0.55,
        "owner_share": 1.0,
        "hard_ceiling": 3,
    }
    await store.change_board(at.board, "alice", BoardChange(settings=config))
    shown: list[Workspace] = []

    def plan(space: Workspace) -> Plan:
        shown.append(space)
        return decide(space)

    part = await store.prune(at.board, plan, apply=False, reaching=lambda c: Policies().reach(c.policy))
    assert [len(members) for _, members in part.threads] == [6, 6, 6]
    assert {c.thread for c in shown[0].candidates} == {thread for thread, _ in part.threads}
    assert part == await store.prune(at.board, plan, apply=False)
    await store.close()
