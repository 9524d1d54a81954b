"""The invariants of DESIGN section 5 that a store can show, on random histories against the plain model.

The walk over a store is made once; every test asks it for its own invariant, so that the name of the
failing test says what broke. HYPOTHESIS_PROFILE=nightly walks a hundred times as far, each time elsewhere, and
shrinks what it finds.
"""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path

import pytest
from blackboard_mcp.protocols.clock import Clock
from blackboard_mcp.protocols.findings import fingerprint
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.storage.memory import open_memory_store
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.walk.finding import CHANGED, RESPELT
from blackboard_mcp.storage.testing.walk.footing import spelt
from blackboard_mcp.storage.testing.walk.machine import Outcome, walk
from blackboard_mcp.storage.testing.walk.walks import inline, stride, walk_far
from profiles import HISTORIES, NIGHTLY, WALKED

STEPS = 200_000 if NIGHTLY else 1_900
"""What the walk has to make at least."""
EXAMPLES = 16
"""Histories of each seed at night."""
IN_MEMORY, IN_A_FILE = (20, 30) if NIGHTLY else (1, 2)
"""Number of seeds of the walks on the engine's stores."""
ON_ENGINES = (13, 6)
"""These seeds by day."""


def _seeds(count: int) -> list[int]:
    """The same ones every time; new ones every night."""
    first = secrets.randbelow(1 << 32)
    return [*range(first, first + count)] if NIGHTLY else [*ON_ENGINES[:count]]


async def _memory(clock: Clock) -> BoardStore:
    return await open_memory_store(clock=clock)


@pytest.fixture(scope="module", params=["inline", "memory", "file"])
def walked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Far on the operations alone, a bit of the way on each of the engine's stores."""
    if request.param == "inline":
        if NIGHTLY:
            return walk_far(_seeds(480), EXAMPLES, shrink=True)
        return walk(inline, stride(HISTORIES), seeds=WALKED, waits=False)
    steps = stride(EXAMPLES if NIGHTLY else 5, shrink=NIGHTLY)
    if request.param == "memory":
        return walk(_memory, steps, seeds=_seeds(IN_MEMORY))
    folder = tmp_path_factory.mktemp("walk")

    async def opened(clock: Clock) -> BoardStore:
        place = Path(tempfile.mkdtemp(dir=folder))
        return await SqlBoardStore.open(place / "board.db", clock=clock, synchronous="NORMAL")

    return walk(opened, steps, seeds=_seeds(IN_A_FILE))


def test_the_store_answers_as_the_model_does(walked: Outcome) -> None:
    if walked.error is not None:
        raise walked.error
    walked.assert_held("model")
    walked.assert_held("guard")


def test_the_walk_is_long_and_comes_by_everything(walked: Outcome, request: pytest.FixtureRequest) -> None:
    if "inline" not in request.node.callspec.id:
        return
    print(f"{walked.steps} steps, {sum(walked.checked.values())} checks")
    assert walked.steps >= STEPS
    rules = "post critiques replies_to supports depends_on supersedes write rewrite amend batch retry "
    rules += "acknowledge withdraw decide watch open expire prune restore core left"
    refused = ("acknowledge refused", "withdraw refused", "decide refused", "turn back refused")
    for what in (
        *rules.split(),
        *refused,
        "turn back",
        "second version",
        *("delete", "delete refused", "recreated"),
        "left a final status",
        "summary applied",
        *(
            "find again",
            "endorsed",
            "same",
            "gave up",
            "ask to agree",
            "ask to agree refused",
            "agree",
            "stay away",
            "agreed",
            "doubted",
            "deal",
            "deal refused",
        ),
        *("unwatch", "vote", "follow", "unfollow", "own", "legislate", "be there", "lapse"),
        *("vote refused", "unwatch refused", "expired", "left by lease"),
        *("stands", "falls", "amended", "concede", "confirm", "decide"),
        "ask",
        "take on",
        "write up",
        "write up refused",
    ):
        assert walked.happened[what] >= 2, (what, dict(walked.happened))


def test_the_model_of_the_walk_and_the_product_find_the_same_texts_equal() -> None:
    texts = ["FACT 5"]
    for _ in range(2):
        respelt = [respell(text) for text in texts for respell in RESPELT]
        texts = sorted({*texts, *respelt, *(change(t) for t in respelt for change in CHANGED)})
    pairs = {(spelt(text), fingerprint(text)) for text in texts}
    assert len({said for said, _ in pairs}) == len({known for _, known in pairs}) == len(pairs) > 20


def test_I1_every_item_is_readable_for_ever_byte_for_byte(walked: Outcome) -> None:
    walked.assert_held("I1")


def test_I2_an_item_is_in_exactly_one_zone(walked: Outcome) -> None:
    walked.assert_held("I2")


def test_I3_nothing_in_the_closure_of_an_open_debate_leaves(walked: Outcome) -> None:
    walked.assert_held("I3")


def test_I4_no_item_with_an_outstanding_obligation_leaves(walked: Outcome) -> None:
    walked.assert_held("I4")


def test_I5_a_critique_stays_until_its_debate_is_over(walked: Outcome) -> None:
    walked.assert_held("I5")


def test_I6_the_core_changes_only_by_compare_and_set(walked: Outcome) -> None:
    walked.assert_held("I6")


def test_I7_every_active_constraint_is_in_every_snapshot_verbatim(walked: Outcome) -> None:
    walked.assert_held("I7")


def test_I8_every_open_hot_issue_is_in_every_snapshot_verbatim(walked: Outcome) -> None:
    walked.assert_held("I8")


def test_I10_a_pass_a_second_time_moves_nothing(walked: Outcome) -> None:
    walked.assert_held("I10")


def test_I12_a_pass_moves_what_it_says_and_each_item_once(walked: Outcome) -> None:
    walked.assert_held("I12")


def test_I13_a_summary_lists_its_sources_and_each_resolves(walked: Outcome) -> None:
    walked.assert_held("I13")


def test_I14_a_summary_covers_nothing_it_must_not(walked: Outcome) -> None:
    walked.assert_held("I14")


def test_I15_no_edge_dangles(walked: Outcome) -> None:
    walked.assert_held("I15")


def test_I16_depends_on_has_no_cycle(walked: Outcome) -> None:
    walked.assert_held("I16")


def test_I17_the_log_is_gapless_and_increasing(walked: Outcome) -> None:
    walked.assert_held("I17")


def test_I18_zones_versions_and_statuses_are_the_fold_of_the_log(walked: Outcome) -> None:
    walked.assert_held("I18")


def test_I18_a_board_rebuilt_from_its_history_is_equal(walked: Outcome) -> None:
    walked.assert_held("I18 rebuilt")


def test_I19_what_changed_has_an_event_of_its_own(walked: Outcome) -> None:
    walked.assert_held("I19")


def test_I20_a_cursor_delivers_every_visible_event_once_in_order(walked: Outcome) -> None:
    walked.assert_held("I20")


def test_I22_versions_are_dense(walked: Outcome) -> None:
    walked.assert_held("I22")


def test_I23_a_transaction_does_at_once_what_its_parts_do_in_turn(walked: Outcome) -> None:
    walked.assert_held("I23")


def test_I24_a_failed_call_emits_nothing_and_a_repeated_one_applies_once(walked: Outcome) -> None:
    walked.assert_held("I24")


def test_I25_private_items_reach_nobody_else(walked: Outcome) -> None:
    walked.assert_held("I25")


def test_f36_writes_are_made_by_whom_the_board_lets(walked: Outcome) -> None:
    walked.assert_held("roles")


def test_I26_the_author_is_the_agent_that_posted(walked: Outcome) -> None:
    walked.assert_held("I26")


def test_I29_statuses_move_along_declared_transitions(walked: Outcome) -> None:
    walked.assert_held("I29")


def test_I36_time_to_live_counts_from_the_last_write_and_expiry_tells(walked: Outcome) -> None:
    walked.assert_held("I36")


def test_I39_a_history_has_one_line_an_event_and_is_the_same_after_a_rebuild(walked: Outcome) -> None:
    walked.assert_held("I39")


def test_I40_what_contradicts_is_stored_and_what_says_the_same_is_not_stored_twice(walked: Outcome) -> None:
    walked.assert_held("I40")
