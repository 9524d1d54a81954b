"""The built-in orders and their compositions, and what holds of a pass under any of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from blackboard_mcp.protocols.board import STEPS, BoardConfig
from blackboard_mcp.protocols.guard import Protection
from blackboard_mcp.protocols.items import FINISHED, ItemType, Status
from blackboard_mcp.protocols.pruning import Candidate, Plan, Workspace
from blackboard_mcp.server.pruning.policies import Policies
from blackboard_mcp.server.pruning.selection import TOO_LARGE, decide, evictable
from counting import PROPORTION, growth, lines_of
from hypothesis import given
from hypothesis import strategies as st

NOW = datetime(2026, 11, 21, tzinfo=UTC)
POLICIES = Policies()
COMPOSITIONS = (
    *POLICIES.names,
    "fair-share+lru",
    "fair-share+size+lfu",
    "lfu+fair-share",
    "size+lru",
    "lru+fair-share+size",
)


def candidate(number: int, **more: Any) -> Candidate:
    fields: dict[str, Any] = {
        "type": ItemType.FACT,
        "status": Status.ACTIVE,
        "importance": 2,
        "tokens": 100,
        "author": "alice",
        "owner": more.get("author", "alice"),
        "thread": number,
        "private": False,
        "updated_at": NOW + timedelta(seconds=number),
        "seq": number,
        "expired": False,
        "superseded": False,
        "analysed": False,
        "debated_before": False,
    }
    return Candidate(number=number, **(fields | more))


def order(policy: str, *candidates: Candidate, **used: int) -> list[int]:
    return [c.number for c in POLICIES.composition(policy).order(candidates, used)]


def test_token_importance_takes_the_least_important_first_and_the_oldest_of_those() -> None:
    three = [candidate(1, importance=2), candidate(2, importance=1), candidate(3, importance=1)]
    assert order("token-importance", *three) == [2, 3, 1]


def test_lru_takes_what_was_longest_ago_read_or_written() -> None:
    read = candidate(1, last_read=NOW + timedelta(hours=1), reads=1)
    read_before_it_was_written = candidate(3, last_read=NOW - timedelta(hours=1), reads=9)
    assert order("lru", read, candidate(2), read_before_it_was_written) == [2, 3, 1]


def test_lfu_takes_what_was_read_least_and_the_oldest_of_those() -> None:
    three = [candidate(1, reads=1), candidate(2, reads=2), candidate(3, reads=1, importance=1)]
    assert order("lfu", *three) == [1, 3, 2]


def test_size_takes_most_tokens_per_point_of_importance() -> None:
    three = [candidate(1, tokens=100, importance=1), candidate(2, tokens=150), candidate(3, tokens=400)]
    assert order("size", *three) == [3, 1, 2]


def test_fair_share_takes_from_whoever_uses_most_and_reckons_anew_after_each() -> None:
    mine = [candidate(n, author="alice") for n in (1, 2, 3)]
    theirs = [candidate(n, author="bob") for n in (4, 5, 6)]
    assert order("fair-share", *mine, *theirs, alice=450, bob=300) == [1, 2, 4, 3, 5, 6]


def test_fair_share_goes_by_owner_and_not_by_author() -> None:
    agents = [candidate(n, author=f"a{n}", owner="carol") for n in (1, 2, 3)]
    assert order("fair-share", candidate(4, author="bob"), *agents, carol=300, bob=250) == [1, 4, 2, 3]


def test_fair_share_counts_what_may_not_go() -> None:
    assert order("fair-share", candidate(1, author="alice"), candidate(2, author="bob"), bob=900) == [2, 1]


def test_what_follows_fair_share_orders_within_an_owner() -> None:
    mine = [candidate(1, tokens=10), candidate(2, tokens=90), candidate(3, tokens=50)]
    assert order("fair-share+size", *mine, candidate(4, author="bob"), alice=1_000, bob=100) == [2, 3, 1, 4]


def test_fair_share_after_a_key_decides_among_its_equals() -> None:
    unread = [candidate(1, author="alice"), candidate(2, author="bob")]
    seen = candidate(3, author="bob", reads=1)
    keyed = Policies().composition("size+fair-share")
    assert [c.number for c in keyed.order((*unread, seen), {"bob": 200, "alice": 100})] == [2, 1, 3]


def test_keys_are_lexicographic_and_ties_end_with_the_least_important_and_oldest() -> None:
    four = [
        candidate(1, tokens=50, reads=1),
        candidate(2, tokens=100, importance=4),
        candidate(3, tokens=50),
        candidate(4, tokens=25, importance=1),
    ]
    assert order("size", *four) == [4, 1, 3, 2]
    assert order("size+lfu", *four) == [2, 3, 4, 1]


@st.composite
def workspaces(draw: st.DrawFn) -> Workspace:
    count = draw(st.integers(0, 20))
    seqs = draw(st.permutations(range(1, count + 1)))
    instants = st.integers(0, 50).map(lambda s: NOW + timedelta(seconds=s))
    candidates = tuple(
        candidate(
            n,
            type=draw(st.sampled_from(ItemType)),
            status=draw(st.sampled_from(Status)),
            importance=draw(st.integers(1, 5)),
            tokens=draw(st.integers(0, 300)),
            owner=draw(st.sampled_from(["alice", "bob", "carol"])),
            thread=draw(st.integers(1, 3)),
            seq=seqs[n - 1],
            updated_at=draw(instants),
            last_read=draw(st.none() | instants),
            reads=draw(st.integers(0, 3)),
            expired=draw(st.integers(0, 9)) == 0,
            superseded=draw(st.integers(0, 9)) == 0,
            analysed=draw(st.booleans()),
        )
        for n in range(1, count + 1)
    )
    held = draw(st.sets(st.integers(1, 20), max_size=8))
    ceiling = draw(st.integers(1, 4))
    config = BoardConfig(
        target_tokens=draw(st.integers(10, 4_000)),
        ceiling=ceiling,
        hard_ceiling=draw(st.integers(ceiling, 4)),
        steps=tuple(sorted(draw(st.sets(st.sampled_from(STEPS), min_size=1)), key=STEPS.index)),
        policy=draw(st.sampled_from(COMPOSITIONS)),
    )
    tokens = sum(c.tokens for c in candidates)
    return Workspace(config, candidates, {n: Protection("open debate") for n in held}, tokens)


def passed(space: Workspace) -> Plan:
    return decide(space, ranking=POLICIES.ranking(space))


def left(before: Workspace, plan: Plan) -> Workspace:
    gone = {move.number for move in plan.moves}
    stay = tuple(c for c in before.candidates if c.number not in gone)
    return replace(before, candidates=stay, tokens=sum(c.tokens for c in stay))


@given(workspaces())
def test_i9_under_any_policy_a_pass_ends_at_the_low_water_mark_or_with_what_may_not_go(
    before: Workspace,
) -> None:
    after = left(before, passed(before))
    config = before.config
    if after.tokens <= config.low_tokens:
        return
    ceiling = config.hard_ceiling if after.tokens > config.high_tokens else config.ceiling
    for c in after.candidates:
        if c.number in before.protected:
            continue
        assert "importance" not in config.steps or c.importance > ceiling
        assert "resolved" not in config.steps or (c.status not in FINISHED and not c.superseded)
        assert "logs" not in config.steps or c.type is not ItemType.LOG or not c.analysed


@given(workspaces(), st.randoms(use_true_random=False))
def test_i10_under_any_policy_a_pass_is_deterministic_idempotent_and_ends(
    before: Workspace, random: Any
) -> None:
    plan = passed(before)
    shuffled = list(before.candidates)
    random.shuffle(shuffled)
    assert passed(replace(before, candidates=tuple(shuffled))) == plan
    assert passed(left(before, plan)).moves == ()
    moved = [move.number for move in plan.moves]
    assert len(set(moved)) == len(moved)


@given(workspaces())
def test_under_any_policy_the_guard_the_ceilings_and_the_steps_hold(before: Workspace) -> None:
    plan = passed(before)
    by_number = {c.number: c for c in before.candidates}
    allowed = {STEPS.index(name) + 1 for name in before.config.steps}
    assert [m.step for m in plan.moves] == sorted(m.step for m in plan.moves)
    for move in plan.moves:
        taken = by_number[move.number]
        assert move.number not in before.protected
        assert move.step in allowed or taken.expired
        assert move.step != 4 or taken.importance <= before.config.hard_ceiling
    if "threads" not in before.config.steps:
        assert plan.threads == ()


@given(workspaces())
def test_i11_by_default_nothing_goes_before_a_less_important_older_one(before: Workspace) -> None:
    space = replace(before, config=replace(before.config, policy="token-importance", owner_share=1.0))
    plan = passed(space)
    gone = {move.number for move in plan.moves}
    by_number = {c.number: c for c in space.candidates}
    for move in plan.moves:
        taken = by_number[move.number]
        if move.why == TOO_LARGE:
            assert taken.tokens > space.config.low_tokens
        elif move.step == 4:
            for other in space.candidates:
                if other.number not in gone and other.number not in space.protected:
                    assert (other.importance, other.seq) > (taken.importance, taken.seq)


@given(workspaces())
def test_under_fair_share_nobody_loses_while_somebody_else_uses_more_and_has_something_to_lose(
    before: Workspace,
) -> None:
    config = replace(before.config, policy="fair-share", ceiling=4, hard_ceiling=4)
    space = replace(before, config=config)
    plan = passed(space)
    by_number = {c.number: c for c in space.candidates}
    used: dict[str, int] = {}
    for c in space.candidates:
        used[c.owner] = used.get(c.owner, 0) + c.tokens
    free = {c.number for c in space.candidates if c.importance <= 4 and c.number not in space.protected}
    for move in plan.moves:
        taken = by_number[move.number]
        if move.why == TOO_LARGE:
            assert taken.tokens > space.config.low_tokens
        elif move.step == 4:
            assert used[taken.owner] == max(used[by_number[n].owner] for n in free)
        used[taken.owner] -= taken.tokens
        free.discard(move.number)


@given(workspaces())
def test_a_policy_is_only_shown_what_may_go(before: Workspace) -> None:
    for c in evictable(before)[0]:
        assert c.number not in before.protected
        assert c.importance <= before.config.hard_ceiling
        assert not c.expired


def test_a_policy_is_told_of_owners_what_they_have_without_what_is_too_large() -> None:
    there = (candidate(1, author="ann"), candidate(2, author="ben"), candidate(3, author="ben", tokens=700))
    shown, used = evictable(Workspace(BoardConfig(target_tokens=1_000), there, {}, 900))
    assert [c.number for c in shown] == [1, 2]
    assert used == {"ann": 100, "ben": 100}
    held = Workspace(BoardConfig(target_tokens=1_000), there, {3: Protection("x")}, 900)
    assert evictable(held)[1] == {"ann": 100, "ben": 800}, "what stays counts"


@pytest.mark.parametrize("policy", COMPOSITIONS)
def test_items_are_ordered_with_work_in_proportion_to_their_number(policy: str) -> None:
    def ordered(count: int) -> int:
        many = tuple(
            candidate(n, importance=1 + n % 4, author=f"a{n % 50}", tokens=n % 300, reads=n % 7)
            for n in range(1, count + 1)
        )
        order: list[Any] = []
        work = lines_of(lambda: order.extend(POLICIES.composition(policy).order(many, {})))
        assert len(order) == count
        return work

    assert growth(ordered, 500) < PROPORTION
