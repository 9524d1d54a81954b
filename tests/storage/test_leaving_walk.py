"""Random histories in which agents leave: the store waives what the plain model waives, and all invariants hold."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Sequence

import pytest
from blackboard_mcp.storage.testing.walk.machine import walk
from blackboard_mcp.storage.testing.walk.parting import PartingMachine
from blackboard_mcp.storage.testing.walk.walks import inline, stride
from profiles import NIGHTLY, draw_alike_everywhere


def happened_on(seeds: Sequence[int]) -> Counter[str]:
    """Walks, checks that the store answered as the model does, and returns how often each thing happened."""
    walked = walk(inline, stride(16, shrink=NIGHTLY), seeds=seeds, machine=PartingMachine, waits=False)
    if walked.error is not None:
        raise walked.error
    walked.assert_held("model")
    return walked.happened


def test_who_leaves_owes_and_watches_nothing_and_all_else_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        draw_alike_everywhere(patch)  # the same histories by day and at night: they come by every duty
        happened = happened_on([3, 8])
    for duty in ("acknowledge", "respond", "agree", "confirm"):
        assert happened[f"waived {duty}"] > 0, dict(happened)
    if NIGHTLY:
        happened_on([secrets.randbelow(1 << 32) for _ in range(20)])
