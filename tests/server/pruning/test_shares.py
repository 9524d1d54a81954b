"""One owner's share of working memory: what it has beyond that goes before anything of others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from blackboard_mcp.protocols.board import BoardConfig, PassStep
from blackboard_mcp.protocols.events import SYSTEM
from blackboard_mcp.protocols.guard import Protection
from blackboard_mcp.protocols.items import ItemType, Status
from blackboard_mcp.protocols.pruning import Candidate, Plan, Workspace, beyond_shares
from blackboard_mcp.server.pruning import selection
from blackboard_mcp.server.pruning.policies import Policies
from blackboard_mcp.server.pruning.selection import TOO_LARGE, decide
from hypothesis import given
from hypothesis import strategies as st

POLICIES = Policies()
NOW = datetime(2026, 11, 21, 9, tzinfo=UTC)


def candidate(number: int, owner: str, importance: int = 3, tokens: int = 100, **more: Any) -> Candidate:
    fields: dict[str, Any] = {
        **{"type": ItemType.FACT, "status": Status.ACTIVE, "thread": number, "private": False},
        **{"updated_at": NOW, "seq": number, "expired": False, "superseded": False, "analysed": False},
        "debated_before": False,
    }
    return Candidate(
        number=number, importance=importance, tokens=tokens, author=owner, owner=owner, **{**fields, **more}
    )


def space(
    *candidates: Candidate, held: tuple[int, ...] = (), target: int = 2_000, **config: Any
) -> Workspace:
    """Working memory whose low-water mark is 1,200 tokens and its high-water mark 1,600."""
    return Workspace(
        BoardConfig(target_tokens=target, **config),
        candidates,
        {n: Protection("open debate") for n in held},
        sum(c.tokens for c in candidates),
    )


def passed(before: Workspace) -> Plan:
    return decide(before, ranking=POLICIES.ranking(before))


def gone(plan: Plan) -> list[int]:
    return [move.number for move in plan.moves]


def flood(
    first: int, count: int, owner: str = "mallory", importance: int = 4, **more: Any
) -> list[Candidate]:
    return [candidate(n, owner, importance, **more) for n in range(first, first + count)]


def test_a_flood_that_claims_importance_goes_before_the_unimportant_items_of_others() -> None:
    notes = [candidate(n, "alice", 1) for n in range(1, 5)]
    plan = passed(space(*notes, *flood(10, 16)))
    assert gone(plan) == list(range(10, 18)), "the flood's oldest, down to the low-water mark, and no note"
    assert {move.why for move in plan.moves} == {"importance 4, fair-share"}


def test_what_is_within_the_share_goes_as_ever() -> None:
    notes = [candidate(n, "alice", 1) for n in range(1, 15)]
    plan = passed(space(*notes, *flood(20, 6)))
    assert gone(plan)[0] == 1
    assert {by for move in plan.moves for by in [move.number < 20]} == {True}


def test_an_owner_alone_has_the_board_to_itself() -> None:
    config = BoardConfig()
    assert beyond_shares(config, {"alice": 10_000}) == (1_800, ())
    assert beyond_shares(config, {"alice": 10_000, SYSTEM: 500}) == (1_800, ())
    assert beyond_shares(config, {"alice": 10_000, "bob": 0}) == (1_800, ())
    assert beyond_shares(config, {"bob": 2_000, "alice": 1_900, "carol": 1_800}) == (1_800, ("bob", "alice"))
    assert beyond_shares(replace(config, owner_share=1.0), {"alice": 10_000, "bob": 1}) == (3_600, ())


def test_a_flood_in_private_is_pruned_first_and_not_told_of() -> None:
    notes = [candidate(n, "alice", 1) for n in range(1, 5)]
    secret = flood(10, 14, private=True)
    plan = passed(space(*notes, *secret, *flood(30, 2)))
    assert set(gone(plan)) <= set(range(10, 40))
    assert {move.why for move in plan.moves} == {"importance 4, oldest first"}


@st.composite
def workspaces(draw: st.DrawFn) -> Workspace:
    count = draw(st.integers(0, 20))
    made = [
        candidate(
            n,
            draw(st.sampled_from(["alice", "bob", "carol"])),
            draw(st.integers(1, 5)),
            draw(st.integers(0, 300)),
            status=draw(st.sampled_from(Status)),
            expired=draw(st.integers(0, 9)) == 0,
        )
        for n in range(1, count + 1)
    ]
    held = draw(st.sets(st.integers(1, 20), max_size=8))
    return space(
        *made,
        held=tuple(sorted(held)),
        target=draw(st.integers(10, 4_000)),
        owner_share=draw(st.sampled_from([0.05, 0.3, 0.5, 0.9])),
    )


def check_shares(before: Workspace) -> None:
    """Nobody loses an item to the fourth step while another has too much that could go."""
    plan = passed(before)
    by_number = {c.number: c for c in before.candidates}
    early = {move.number for move in plan.moves if move.step < 4}
    left = {c.number: c for c in before.candidates if c.number not in early}
    for move in plan.moves:
        if move.step < 4:
            continue
        used: dict[str, int] = {}
        for c in left.values():
            used[c.owner] = used.get(c.owner, 0) + c.tokens
        taken = by_number[move.number]
        if move.why == TOO_LARGE:
            assert taken.tokens > before.config.low_tokens
            del left[move.number]
            continue
        _, beyond = beyond_shares(before.config, used)
        could = {
            c.owner
            for c in left.values()
            if c.owner in beyond and c.importance <= 4 and c.number not in before.protected
        }
        assert not could or taken.owner in could
        mine = [c for c in left.values() if c.owner == taken.owner and c.number not in before.protected]
        least = min((c.importance, c.seq) for c in mine)
        assert (taken.importance, taken.seq) == least, "I11 among what one owner has"
        del left[move.number]


@given(workspaces())
def test_nobody_loses_anything_while_somebody_has_more_than_its_share_that_may_go(before: Workspace) -> None:
    check_shares(before)


@given(workspaces())
def test_I9_I10_hold_with_shares(before: Workspace) -> None:
    plan = passed(before)
    stay = tuple(c for c in before.candidates if c.number not in set(gone(plan)))
    after = replace(before, candidates=stay, tokens=sum(c.tokens for c in stay))
    assert passed(after).moves == ()
    assert not set(gone(plan)) & set(before.protected)
    if after.tokens > after.config.low_tokens:
        ceiling = (
            after.config.hard_ceiling if after.tokens > after.config.high_tokens else after.config.ceiling
        )
        assert all(c.number in after.protected or c.importance > ceiling for c in stay)


def nobody(*_: Any) -> None:
    """Takes nothing from those who have too much."""


def by_name(state: Any, there: Workspace, free: Any, level: int, ranking: Any) -> None:
    """Takes from whoever comes first by name."""
    for owned in sorted(free, key=lambda c: (c.owner, c.importance, c.seq)):
        if state.tokens > level:
            state.take(owned, PassStep.IMPORTANCE, "")


@pytest.mark.parametrize("mutant", [nobody, by_name])
def test_a_pass_without_shares_is_caught(
    mutant: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = [candidate(n, "alice", 1) for n in range(1, 5)]
    check_shares(space(*notes, *flood(10, 16)))
    monkeypatch.setattr(selection, "_take_beyond_shares", mutant)
    with pytest.raises(AssertionError):
        check_shares(space(*notes, *flood(10, 16)))
