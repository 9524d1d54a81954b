"""Random histories in which agents leave: the store waives what the plain model waives, and all invariants hold."""

from __future__ import annotations

import secrets

from blackboard_mcp.storage.testing.walk.machine import walk
from blackboard_mcp.storage.testing.walk.parting import PartingMachine
from blackboard_mcp.storage.testing.walk.walks import inline, stride
from profiles import NIGHTLY

SEEDS = [secrets.randbelow(1 << 32) for _ in range(20)] if NIGHTLY else [3, 8]


def test_who_leaves_owes_and_watches_nothing_and_all_else_goes_on() -> None:
    steps = stride(16, shrink=NIGHTLY)
    walked = walk(inline, steps, seeds=SEEDS, machine=PartingMachine, waits=False)
    if walked.error is not None:
        raise walked.error
    walked.assert_held("model")
    for duty in (
        "acknowledge",
        "respond",
        *(() if NIGHTLY else ("agree", "confirm")),
    ):  # few come by the others
        assert walked.happened[f"waived {duty}"] > 0, dict(walked.happened)
