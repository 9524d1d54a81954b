"""The invariants of passes, views and the core, on random histories: the real pruner and the real views."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import pytest
import served
from blackboard_mcp.protocols.board import Core
from blackboard_mcp.protocols.pruning import PassOutcome, Plan
from blackboard_mcp.server.pruning import ordering, pruner
from blackboard_mcp.server.pruning import selection as pruning
from blackboard_mcp.server.pruning.pruner import Pruner
from blackboard_mcp.server.pruning.selection import decide
from blackboard_mcp.server.usecases.stewardship import Stewardship
from blackboard_mcp.server.views import law, rendering
from blackboard_mcp.storage.testing.walk.machine import Outcome, walk
from blackboard_mcp.storage.testing.walk.walks import inline, stride
from profiles import NIGHTLY, draw_alike_everywhere

WALKED = (0, 2, 5, 6, 10, 12, 22, 43, 45)
"""Seeds by day; each of the mistakes below is seen in one of them."""
EXAMPLES = 12 if NIGHTLY else 8
"""Histories of each seed."""


@pytest.fixture(scope="module")
def walked() -> Outcome:
    first = secrets.randbelow(1 << 32)
    seeds = range(first, first + 240) if NIGHTLY else WALKED
    return walk(inline, stride(EXAMPLES, shrink=NIGHTLY), seeds=seeds, machine=served.Served)


def test_the_store_answers_as_the_model_does_under_the_real_pruner(walked: Outcome) -> None:
    if walked.error is not None:
        raise walked.error
    walked.assert_held("model")
    walked.assert_held("guard")


def test_the_walk_comes_by_passes_and_views_of_every_kind(walked: Outcome) -> None:
    print(f"{walked.steps} steps, {sum(walked.checked.values())} checks")
    assert walked.steps >= 1_300
    for what in (
        *("talk", "analyse", "law", "policy", "pass", "pass moved", "pass summarised", "pass by importance"),
        *("core", "core too big", "view", "view refused", "left", "too large left"),
    ):
        assert walked.happened[what] >= 3, (what, walked.happened)
    assert walked.happened["pass ended above high water"]


def test_I3_no_pass_takes_what_an_open_debate_reaches(walked: Outcome) -> None:
    walked.assert_held("I3")


def test_I4_no_pass_takes_what_somebody_owes_something_to(walked: Outcome) -> None:
    walked.assert_held("I4")


def test_I5_no_pass_takes_a_critique_before_its_debate_is_over(walked: Outcome) -> None:
    walked.assert_held("I5")


def test_I6_the_core_is_never_pruned_and_never_over_its_cap(walked: Outcome) -> None:
    walked.assert_held("I6")


def test_I7_every_active_constraint_stands_in_every_view_at_any_budget_or_there_is_none(
    walked: Outcome,
) -> None:
    walked.assert_held("I7")


def test_I8_every_open_hot_issue_likewise(walked: Outcome) -> None:
    walked.assert_held("I8")


def test_I9_a_pass_ends_at_low_water_or_with_nothing_left_that_it_may_take(walked: Outcome) -> None:
    walked.assert_held("I9")


def test_I10_a_pass_does_what_was_foreseen_and_a_second_one_nothing(walked: Outcome) -> None:
    walked.assert_held("I10")


def test_I11_no_pass_takes_the_more_important_before_the_less(walked: Outcome) -> None:
    walked.assert_held("I11")


def test_I12_a_pass_names_what_it_moved_each_item_once(walked: Outcome) -> None:
    walked.assert_held("I12")


def test_I13_a_summary_of_a_pass_lists_its_sources(walked: Outcome) -> None:
    walked.assert_held("I13")


def test_I14_a_summary_of_a_pass_covers_nothing_it_must_not(walked: Outcome) -> None:
    walked.assert_held("I14")


def test_I25_no_view_names_what_its_reader_may_not_see(walked: Outcome) -> None:
    walked.assert_held("I25")


def test_I38_a_view_fits_its_budget_and_is_the_same_twice(walked: Outcome) -> None:
    walked.assert_held("I38")


# The walk sees what it is there to see: with each of these mistakes put in, the named invariant breaks.


def stop_at_high_water(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        pruner, "decide", lambda space, **said: decide(space, level=space.config.high_tokens, **said)
    )


def most_important_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ordering, "token_importance", lambda c: (-c.importance, c.seq, c.number))


def open_work_like_the_rest(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pruning, "deferred", lambda listed, gone: list(listed))


def what_is_too_large_like_the_rest(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pruning, "leaves_first", lambda item, config: False)


def age_does_not_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ordering, "token_importance", lambda c: (c.importance, c.seq, c.number))


def foresee_nothing(patch: pytest.MonkeyPatch) -> None:
    async def preview(self: Pruner, board: str) -> PassOutcome:
        return await self._store.prune(board, lambda space: Plan(), apply=False)

    patch.setattr(Pruner, "preview", preview)


def core_without_a_cap(patch: pytest.MonkeyPatch) -> None:
    async def set_core(self: Stewardship, agent: str, board: str, version: int, **said: Any) -> Any:
        return await self._board.store.set_core(board, agent, Core(**said), expected_version=version), 0

    patch.setattr(Stewardship, "set_core", set_core)


def cut_law_short(patch: pytest.MonkeyPatch) -> None:
    honest = law.labelled
    patch.setattr(law, "labelled", lambda lead, text: honest(lead, text[:6]))


def outgrow_budgets(patch: pytest.MonkeyPatch) -> None:
    honest = rendering.Renderer

    def renderer(standing: Any, budget: int, *rest: Any, **more: Any) -> Any:
        return honest(standing, 2 * budget, *rest, **more)

    patch.setattr(rendering, "Renderer", renderer)


SEEN_BEFORE = {
    "open_work_like_the_rest": 22,
    "age_does_not_count": 45,
    "what_is_too_large_like_the_rest": 45,
    "core_without_a_cap": 5,
    "outgrow_budgets": 10,
    "stop_at_high_water": 45,
}
"""Seeds of walks that saw a mistake after few steps: tried first, before all others."""


@pytest.mark.parametrize(
    ("mutate", "invariant"),
    [
        (stop_at_high_water, "I9"),
        (most_important_first, "I11"),
        (open_work_like_the_rest, "I11"),
        (age_does_not_count, "I11"),
        (what_is_too_large_like_the_rest, "I9"),
        (foresee_nothing, "I10"),
        (core_without_a_cap, "I6"),
        (cut_law_short, "I7"),
        (outgrow_budgets, "I38"),
    ],
)
def test_the_walk_sees_the_mistake(
    monkeypatch: pytest.MonkeyPatch, mutate: Callable[[pytest.MonkeyPatch], None], invariant: str
) -> None:
    draw_alike_everywhere(monkeypatch)  # the seeds are those of the day
    mutate(monkeypatch)
    first = SEEN_BEFORE.get(mutate.__name__)
    seeds = sorted(WALKED, key=lambda seed: seed != first)
    outcome = walk(inline, stride(8), only={invariant}, seeds=seeds, machine=served.Served)
    with pytest.raises(AssertionError, match=f"^{invariant}: "):
        outcome.assert_held(invariant)
