"""Hypothesis's profiles: the same examples at every run, or many fresh ones with HYPOTHESIS_PROFILE=nightly."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(
    "nightly", settings.get_profile("ci"), derandomize=False, max_examples=2_000, print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
