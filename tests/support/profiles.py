"""The extent of the test suite: the same walks and examples in every run, or many fresh ones at night."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.cache import LRUCache
from hypothesis.internal.conjecture import providers

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
NIGHTLY = PROFILE == "nightly"
WALKED = (2, 5, 6, 13, 21, 22, 35, 41)
"""The seeds of the walks by day; `test_mutants.py` shows that they find each of its deliberate mistakes."""
HISTORIES = 10
"""The number of histories for each seed."""


def load_profile() -> None:
    """Makes Hypothesis use the profile that the environment names."""
    settings.register_profile(
        "ci",
        deadline=None,
        max_examples=50,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    settings.register_profile(
        "nightly", settings.get_profile("ci"), derandomize=False, max_examples=2_000, print_blob=True
    )
    settings.load_profile(PROFILE)
    if not NIGHTLY:
        draw_alike_everywhere(pytest.MonkeyPatch())


def draw_alike_everywhere(patch: pytest.MonkeyPatch) -> None:
    """Makes a seed give the same examples whichever modules are loaded.

    Otherwise Hypothesis draws from the constants of loaded modules.
    """
    nothing = providers.Constants()
    patch.setattr(providers, "_get_local_constants", lambda: nothing)
    patch.setattr(providers, "CONSTANTS_CACHE", LRUCache(1024))
