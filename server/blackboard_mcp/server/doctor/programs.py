"""Checks of the programs that an installation needs: SQLite, Python packages, and the limit of open files."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from blackboard_mcp.storage.archive import has_lance
from blackboard_mcp.storage.sqlite import driver

from .findings import Finding, note, warning

MIN_FILES = 1_024
"""The open files that a server for a few hundred clients needs."""


def look() -> Iterator[Finding]:
    """Yields what is outdated, missing or too small."""
    yield from _sqlite()
    yield from _packages()
    if not has_lance():
        yield note(
            "archive-by-words",
            "LanceDB is not installed: SQLite searches the archive, by words only.",
            "Nothing needs to be done where LanceDB has no wheels (Intel Macs, musl). Elsewhere install blackboard-mcp "
            "again, in an environment of its own.",
        )
    yield from _open_files()


def _sqlite() -> Iterator[Finding]:
    number = driver.library().sqlite_version_info
    if not driver.resets_wal_safely(number):
        yield warning(
            "sqlite-old",
            f"SQLite {driver.version()} has the WAL-reset bug; the server works around it.",
            "Install `pysqlite3` where there is a wheel, or a Python with SQLite 3.51.3 or newer.",
            version=driver.version(),
        )


def _packages() -> Iterator[Finding]:
    for line in requires("blackboard-mcp") or ():
        plain = _PLAIN.fullmatch(line)
        if plain is None:  # needed on some systems only, or for an extra
            continue
        name, bounds = plain.groups()
        try:
            found = version(name)
        except PackageNotFoundError:
            found = ""
        if not found or not all(_within(found, bound) for bound in bounds.split(",")):
            yield warning(
                "package-wrong",
                f"{name} is {found or 'missing'}, and {bounds} is wanted (Python {sys.version.split()[0]}).",
                "Install blackboard-mcp again, in an environment of its own.",
                package=name,
                found=found,
                wanted=bounds,
            )


_PLAIN = re.compile(r"([A-Za-z0-9._-]+)(?:\[\w,]+\])?((?:[<>]=?[\d.]+,?)+)")


def _within(found: str, bound: str) -> bool:
    operator, wanted = bound.rstrip("0123456789."), _numbers(bound.lstrip("<>="))
    there = _numbers(found)
    return there >= wanted if operator == ">=" else there < wanted


def _numbers(words: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", words)[:4])


def _open_files() -> Iterator[Finding]:
    try:
        import resource
    except ImportError:
        return
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < MIN_FILES:
        yield warning(
            "open-files-low",
            f"A process here may open {soft} files: a server would turn clients away at about {max(soft - 50, 0)}.",
            f"Raise it: `ulimit -n {4 * MIN_FILES}`, or LimitNOFILE= in the service's unit.",
            limit=soft,
        )
