"""A process whose clock is not the machine's."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

LIBRARY = Path("/usr/lib") / f"{os.uname().machine}-linux-gnu/faketime/libfaketimeMT.so.1"


def needs_faketime() -> None:
    """Skips where nothing can move a process's clock, but never in CI."""
    if sys.platform == "linux" and LIBRARY.is_file():
        return
    if os.environ.get("CI"):
        pytest.fail("needs libfaketime: .ci/run brings it")
    pytest.skip("needs libfaketime, which moves a process's clock")


class Clock:
    """The clock of one process, as far from the machine's as it is told; what measures spans goes on."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "offset"
        self.set(0)

    def set(self, seconds: int) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n")
        new.replace(self._file)

    @property
    def before(self) -> list[str]:
        """The words before a command whose process has this clock."""
        told = {
            "LD_PRELOAD": str(LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            "NO_FAKE_STAT": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",  # else each wait for the interpreter's lock ends at once
        }
        return [shutil.which("env") or "env", *(f"{name}={value}" for name, value in told.items())]
