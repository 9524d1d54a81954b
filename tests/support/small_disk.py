"""A small disk of one's own, which a test fills."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of its own, of so many bytes."""
    folder.mkdir()
    mount = shutil.which("mount") or "false"
    done = subprocess.run(
        [mount, "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], capture_output=True, check=False
    )
    if done.returncode:
        if os.environ.get("CI"):
            pytest.fail(f"no file system could be mounted: {done.stderr.decode()}")
        pytest.skip("needs the right to mount a small disk, which becomes full")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """A file that takes all the room there is."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as out:
        for size in (65_536, 4_096, 1):
            try:
                while out.write(b"x" * size):
                    pass
            except OSError:
                continue
    return filler
