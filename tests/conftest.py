"""What holds for all tests: the profile, by which the suite goes far or farther."""

from __future__ import annotations

from profiles import load_profile

load_profile()
