"""Walks of many thousand steps, on a store whose calls are cheap, in several processes."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from blackboard_mcp.protocols.clock import Clock
from blackboard_mcp.protocols.store import BoardStore
from hypothesis import HealthCheck, Phase, settings

from .inline import inline_store
from .machine import Outcome, walk

STEPS = 30
"""The steps of one history, of which about nine in ten are taken."""


def stride(examples: int, *, shrink: bool = False) -> settings:
    """Returns settings for so many histories for each seed; `shrink` shortens a history that breaks something."""
    return settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


async def inline(clock: Clock) -> BoardStore:
    """Opens an inline store, as `walk` requires it."""
    return inline_store(clock)


def walk_far(seeds: Sequence[int], examples: int, *, shrink: bool = False) -> Outcome:
    """Walks over many seeds, in as many processes as there are cores (at most four); returns the joint outcome."""
    processes = min(4, os.cpu_count() or 1, len(seeds))
    shares = [list(seeds[n::processes]) for n in range(processes)]
    outcome = Outcome()
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for part in pool.map(_share, shares, [examples] * processes, [shrink] * processes):
            outcome.add(part)
    return outcome


def _share(seeds: Sequence[int], examples: int, shrink: bool) -> Outcome:
    outcome = walk(inline, stride(examples, shrink=shrink), seeds=seeds, waits=False)
    if outcome.error is not None:
        # Not every exception can be sent to another process.
        outcome.error = RuntimeError("".join(traceback.format_exception(outcome.error)))
    return outcome
