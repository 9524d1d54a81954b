"""Resolves what the package needs on each platform and Python that the README names, from wheels alone.

    python .ci/resolve.py

Ends with status 1, and the resolver's words, when a pair does not resolve. Needs uv and the network.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
WITHOUT = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["custom"]["without_on_musl"]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = {
    "x86_64-unknown-linux-gnu": True,
    "aarch64-unknown-linux-gnu": True,
    "aarch64-apple-darwin": True,
    "x86_64-pc-windows-msvc": True,
    "x86_64-apple-darwin": False,
    "x86_64-unknown-linux-musl": False,
    "aarch64-unknown-linux-musl": False,
}
"""Each with whether LanceDB has wheels for it."""


def resolve(platform: str, python: str) -> str:
    """Why they do not go together, empty where they do."""
    wanted = [
        need
        for need in PROJECT["project"]["dependencies"]
        if not (platform.endswith("musl") and Requirement(need).name in WITHOUT)
    ]
    uv = Path(sysconfig.get_path("scripts"), "uv")
    target = ("--python-platform", platform, "--python-version", python)
    found = subprocess.run(
        [
            uv if uv.exists() else "uv",
            "pip",
            "compile",
            "-",
            "-q",
            "--no-header",
            "--only-binary",
            ":all:",
            *target,
        ],
        input="\n".join(wanted),
        capture_output=True,
        text=True,
    )
    if found.returncode:
        return found.stderr.strip()
    if ("\nlancedb==" in found.stdout) != PLATFORMS[platform]:
        return "LanceDB is where it has no wheels, or lacks where it has some"
    return ""


def main() -> int:
    pairs = [(platform, python) for platform in PLATFORMS for python in PYTHONS]
    with ThreadPoolExecutor(4) as pool:
        failures = list(pool.map(lambda pair: resolve(*pair), pairs))
    for (platform, python), failure in zip(pairs, failures, strict=True):
        print(f"{platform:28} {python}  {failure or 'resolves'}")
    return int(any(failures))


if __name__ == "__main__":
    sys.exit(main())
