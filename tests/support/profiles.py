"""How far the suite goes: the same walks and examples at every run, or many fresh ones at night."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
NIGHTLY = PROFILE == "nightly"
WALKED = (2, 5, 6, 13, 21, 22, 35, 41)
"""Seeds of the walks by day; `test_mutants.py` shows that each of its mistakes is seen in one of them."""
HISTORIES = 10
"""Histories of each of these seeds."""


def load_profile() -> None:
    """Has Hypothesis follow the profile that the environment names."""
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
        _draw_alike_everywhere()


def _draw_alike_everywhere() -> None:
    """Gives a seed the same examples whatever is loaded: Hypothesis draws from the constants of loaded modules."""
    nothing = providers.Constants()
    providers._get_local_constants = lambda: nothing
