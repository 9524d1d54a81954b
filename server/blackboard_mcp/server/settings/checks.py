"""Checks as an operator sets them: tables of a file, read key by key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.workspace import MAX_PATH

from ..access.tables import a_name, boards_of, from_text, known_keys
from ..checks.running import RUNNABLE, Check

MAX_CHECKS: Final = 20
_MOST_ARGUMENTS: Final = 100
_LONGEST: Final = 4_000
RANGES: Final[Mapping[str, tuple[int, int, str]]] = {
    "seconds": (1, 3_600, "how long it may run"),
    "cpu_seconds": (1, 36_000, "CPU time of each of its processes"),
    "memory_bytes": (16_000_000, 2**40, "memory of all its processes together, as Linux counts it"),
    "file_bytes": (0, 2**40, "size of a file that it writes"),
    "processes": (1, 10_000, "processes at once, on Linux"),
}
"""For each limit of a check: the smallest and the largest allowed value, and its meaning."""
MEANINGS: Final[Mapping[str, str]] = {
    "name": "a letter a-z, then up to 31 of a-z 0-9 and -",
    "run": "the program and its arguments, a list; no shell reads them",
    "files": "a glob; a write to a file that matches it starts the check, `**` any write",
    "boards": "the boards that it is for, a list; left out: all",
    "environment": "names of variables that it gets beside `PATH`, language and time zone",
}
"""The meaning of each other key."""
_BUILT_IN: Final = ("syntax",)


def checks_of(value: Any, where: str) -> tuple[Check, ...]:
    """Returns the checks in a setting's value: a list of tables, or JSON of one. `where` names it in errors.

    Raises:
        InvalidInput: a table or key is wrong; the error names it and what is allowed.
    """
    if isinstance(value, str):
        value = from_text(value, where)
    if not isinstance(value, list | tuple) or len(value) > MAX_CHECKS:
        raise InvalidInput(f"{where} must be a list of at most {MAX_CHECKS} tables, [[check]] in a file.")
    if value and not RUNNABLE:
        raise InvalidInput(
            f"{where}: checks cannot be kept within limits on this system; Linux and macOS can."
        )
    found: list[Check] = []
    for place, given in enumerate(value, 1):
        check = given if isinstance(given, Check) else _check(given, f"{where}, table {place}")
        if check.name in (*_BUILT_IN, *(other.name for other in found)):
            raise InvalidInput(f"{where}, table {place}, name: there is a check '{check.name}' already.")
        found.append(check)
    return tuple(found)


def _check(given: Any, where: str) -> Check:
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{where} must be a table with name and run.")
    name = a_name(given, where)
    where = f"{where} ('{name}')"
    known_keys(given, (*MEANINGS, *RANGES), where)
    files = given.get("files", "**")
    if (
        not isinstance(files, str)
        or not 0 < len(files) <= MAX_PATH
        or ":" in files
        or not files.isprintable()
    ):
        raise InvalidInput(f"{where}, files: {files!r:.80} is no glob of files, such as src/**/*.py.")
    return Check(
        name,
        _texts(given.get("run"), f"{where}, run", some=True),
        files,
        boards_of(given.get("boards", []), f"{where}, boards"),
        _texts(given.get("environment", []), f"{where}, environment"),
        **{key: _number(given[key], key, where) for key in RANGES if key in given},
    )


def _texts(value: Any, where: str, *, some: bool = False) -> tuple[str, ...]:
    fits = isinstance(value, list | tuple) and bool(some) <= len(value) <= _MOST_ARGUMENTS
    if not fits or not all(
        isinstance(one, str) and len(one) <= _LONGEST and "\0" not in one for one in value
    ):
        raise InvalidInput(f"{where} must be a list of {int(some)} to {_MOST_ARGUMENTS} texts.")
    if some and not value[0]:
        raise InvalidInput(f"{where} must begin with a program.")
    return tuple(value)


def _number(value: Any, key: str, where: str) -> int:
    low, high, _ = RANGES[key]
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidInput(
            f"{where}, {key} is {value!r:.40}; it must be a whole number from {low:,} to {high:,}."
        )
    return value
