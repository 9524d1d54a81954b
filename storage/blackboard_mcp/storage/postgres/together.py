"""Statements that go to the server together, as one call of a function that exists in one connection alone.

Most operations write several rows before they read again, always by the same statements. A round trip for each costs
more than running them.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, Final

Asked = tuple[str, Sequence[Any]]
"""A statement of PostgreSQL's, and its values."""
_PLACE: Final = re.compile(r"'(?:[^']|'')*'|\$(\d+)::(\w+(?: precision)?)")
_READS: Final = re.compile(r"\s*(?:SELECT|WITH)\b")
_CHANGES: Final = re.compile(r"\s*(?:INSERT|UPDATE|DELETE)\b")
_RETURNS: Final = re.compile(r"\bRETURNING\b")
_CHANGES_WITHIN: Final = re.compile(r"\b(?:INSERT|UPDATE|DELETE)\b")
_LENGTH: Final = 16
_VALUES: Final = 96
"""The most statements and values of one call; a function of PostgreSQL's takes up to 100."""
_OFTEN: Final = 3
"""A function is made for what came together so often."""
_KNOWN: Final = 200
_COUNTED: Final = 1_000


def waits(statement: str) -> bool:
    """Tells whether the statement returns no rows, so that an operation can go on before it has run."""
    return _CHANGES.match(statement) is not None and _RETURNS.search(statement) is None


def parts(statements: Sequence[Asked]) -> Iterator[Sequence[Asked]]:
    """Splits statements, in order, into calls."""
    part: list[Asked] = []
    values = 0
    for statement, given in statements:
        alone = not waits(statement) and (not _READS.match(statement) or _CHANGES_WITHIN.search(statement))
        if part and (alone or len(part) == _LENGTH or values + len(given) > _VALUES):
            yield part
            part, values = [], 0
        part.append((statement, given))
        values += len(given)
    if part:
        yield part


class Together:
    """The functions of one connection. Without `enabled` there are none."""

    def __init__(self, *, enabled: bool = True) -> None:
        self._enabled = enabled
        self._calls: dict[tuple[str, ...], str] = {}
        self._counts: OrderedDict[tuple[str, ...], int] = OrderedDict()
        self._wanted: list[tuple[str, ...]] = []

    def call(self, statements: Sequence[str]) -> str | None:
        """Returns the statement that runs these, with their values one after another; `None` if there is none yet."""
        key = tuple(statements)
        if (found := self._calls.get(key)) is not None or not self._enabled:
            return found
        count = self._counts[key] = self._counts.pop(key, 0) + 1
        if len(self._counts) > _COUNTED:
            self._counts.popitem(last=False)
        if count == _OFTEN and len(self._calls) + len(self._wanted) < _KNOWN:
            self._wanted.append(key)
        return None

    def wanted(self) -> list[tuple[str, ...]]:
        """Returns and forgets the sequences that became frequent."""
        wanted, self._wanted = self._wanted, []
        return wanted

    def made(self, statements: tuple[str, ...], columns: Sequence[str] | None) -> str:
        """Returns the script that makes the function for these statements, which `call` then names.

        `columns` are the types of the last one's rows, or `None` if it returns none. The function returns one row
        with the number of rows that it changed, then the last statement's rows.
        """
        name = f"pg_temp.together{len(self._calls) + 1}"
        kinds: list[str] = []
        body = []
        first = f"RETURN QUERY SELECT all_{''.join(f', NULL::{kind}' for kind in columns or ())};"
        for statement in statements:
            text, own = _renumbered(statement, len(kinds))
            kinds += own
            if waits(statement):
                body.append(f"{text}; GET DIAGNOSTICS rows_ = ROW_COUNT; all_ := all_ + rows_;")
            else:
                body.append(f"{first} RETURN QUERY SELECT 0::bigint, r.* FROM ({text}) r;")  # noqa: S608 - our own
        if columns is None:
            body.append(first)
        marks = ", ".join(f"${number}::{kind}" for number, kind in enumerate(kinds, 1))
        listed = ", ".join(f"c{number} {kind}" for number, kind in enumerate(["bigint", *(columns or ())]))
        self._calls[statements] = f"SELECT * FROM {name}({marks}) AS t({listed})"  # noqa: S608 - made of our own
        return (
            f"CREATE FUNCTION {name}({', '.join(kinds)}) RETURNS SETOF record LANGUAGE plpgsql AS $together$\n"
            "#variable_conflict use_column\nDECLARE rows_ bigint; all_ bigint := 0;\nBEGIN\n"
            + "\n".join(body)
            + "\nEND $together$"
        )


def _renumbered(statement: str, before: int) -> tuple[str, list[str]]:
    """Returns the statement with its placeholders after as many others, and their types in order."""
    kinds: dict[int, str] = {}

    def place(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        kinds[int(found[1])] = found[2]
        return f"${int(found[1]) + before}::{found[2]}"

    text = _PLACE.sub(place, statement)
    return text, [kinds[number] for number in sorted(kinds)]
