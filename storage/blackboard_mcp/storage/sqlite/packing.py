"""Many rows in one step.

Python's driver gives up the interpreter's lock for each row and asks for it back, which can take a switch interval
while other threads are busy: 100 rows that cost 1 ms of CPU took up to 90 ms. So statements that often have many
rows of numbers and short texts run as one that returns them all as one text, in JSON. Each has a limit or a
list of what it is asked for, since nobody else has the interpreter while the text is parsed.

In the same way one statement is run for many values at once.

A list of one value, as most are, is given as the value: for a list SQLite parses JSON and fills a table in memory,
which takes longer than to find one row.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import Any, Final

from ..operation import Many, Rows
from ..operations.ledger.rows import dumps, parsed, sql

PACKED: Final = (
    "events_after",
    "events_whole",
    "item_stamps",
    "log_stamps",
    "news",
    "news_at",
    "news_stamps",
    "newest_archived",
    "top",
    "unseen",
)
"""Names of the statements."""
_PLACE: Final = re.compile(r"\?(\d+)")
_LISTED: Final = re.compile(r"\b(NOT )?IN \(SELECT value FROM json_each\(\?(\d+)\)\)")
_ONE: Final = re.compile(r'\[(?:([0-9]{1,18})|"([^"\\]*)")\]')
"""A JSON list of one number, or of one text without anything escaped."""
_VALUES: Final = re.compile(r"(?<=VALUES )(\(.*?\))(?=\s+ON CONFLICT|\s*$)", re.DOTALL)
_LAST: Final = re.compile(r" LIMIT \+?\?(\d+)\s*$")
_FEW: Final = 3
"""Most columns of rows that come as a list of each column, which takes half as long as a list of each row."""
_AT_ONCE: Final = 32
"""The most rows that one statement inserts; a power of two."""


@cache
def _texts() -> dict[str, tuple[str, int] | tuple[()]]:
    """Returns the statements, how they run and how many columns they have, which the first run of each tells."""
    return {sql(name): () for name in PACKED}


def packed(text: str, columns: int) -> str:
    """Returns a statement that returns all rows of a SELECT with so many columns as one text."""
    listed = [f"c{number}" for number in range(columns)]
    names = ", ".join(listed)
    # Here SQLite drops an order that has no limit.
    whole = text if " LIMIT " in text.rpartition(")")[2] else f"{text} LIMIT -1"
    rows = f"json_group_array(json_array({names}))"
    if columns <= _FEW:
        rows = f"json_array({', '.join(f'json_group_array({name})' for name in listed)})"
    return f"WITH r({names}) AS ({whole}) SELECT {rows} FROM r"  # noqa: S608


@lru_cache(2_048)  # queries have as many texts as agents like
def lists_of(text: str) -> tuple[int, ...]:
    """Returns the places of values that a statement uses as lists alone, in which a column is looked for."""
    uses = Counter(map(int, _PLACE.findall(text)))
    lists = Counter(int(place) for _, place in _LISTED.findall(text))
    return tuple(place for place, times in lists.items() if times == uses[place])


@lru_cache(1024)
def for_single(text: str, places: tuple[int, ...]) -> str:
    """Returns a statement that takes a value at each of these places of `lists_of`, in place of a list of one."""

    def compared(found: re.Match[str]) -> str:
        return f"{'<>' if found[1] else '='} ?{found[2]}" if int(found[2]) in places else found[0]

    return _LISTED.sub(compared, text)


def _unlisted(text: str, parameters: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    """Returns the same statement and values with single values in place of lists of one."""
    given: list[Any] = []
    places: list[int] = []
    for place in lists_of(text):
        listed = parameters[place - 1]
        one = _ONE.fullmatch(listed) if type(listed) is str else None
        if one is not None:
            given = given or [*parameters]
            given[place - 1] = int(one[1]) if one[1] else one[2]
            places.append(place)
    return (for_single(text, tuple(places)), given) if places else (text, parameters)


Execute = Callable[[str, Sequence[Any]], Any]


def fetched(execute: Execute, text: str, parameters: Sequence[Any]) -> Rows:
    """Runs a statement, and returns its rows; with `Many` values a list of the rows of each run."""
    if type(parameters) is Many:
        return _each(execute, text, parameters)
    known = _texts().get(text)
    if known:
        whole, columns = known
        ((found,),) = execute(*_unlisted(whole, parameters))
        return list(zip(*parsed(found), strict=True) if columns <= _FEW else map(tuple, parsed(found)))
    cursor = execute(*_unlisted(text, parameters))
    if known is not None:
        columns = len(cursor.description)
        _texts()[text] = packed(text, columns), columns
    rows: Rows = cursor.fetchall()
    return rows


def _each(execute: Execute, text: str, many: Many) -> list[Any]:
    """Runs a statement for each of many values, and returns the rows of each run."""
    if text.startswith("INSERT"):
        _insert(execute, text, many)
        return []
    listed = dumps(many)
    # A text with the character 0 would end there in some versions.
    if len(many) == 1 or "\\u0000" in listed or not (columns := _columns().get(text)):
        rows = []
        for values in many:
            cursor = execute(text, values)
            rows.append(cursor.fetchall())
            _columns()[text] = len(cursor.description)
        return rows
    first = many[0]
    same = tuple(place for place, value in enumerate(first, 1) if all(v[place - 1] == value for v in many))
    whole, limit = _for_each(text, columns, same)
    given = [*first, listed]
    if limit:
        given[limit - 1] = max(values[limit - 1] for values in many)
    ((found,),) = execute(whole, given)
    rows = [list(map(tuple, one)) for _, one in sorted(parsed(found))]
    return [r[: v[limit - 1]] for r, v in zip(rows, many, strict=True)] if limit else rows


def _insert(execute: Execute, text: str, many: Many) -> None:
    """Inserts many rows by few statements: few rows at a time, since each number of rows is a statement of its own."""
    at, size = 0, _AT_ONCE
    while at < len(many):
        while size > len(many) - at:
            size //= 2
        execute(_of_rows(text, size), list(chain.from_iterable(many[at : at + size])))
        at += size


@lru_cache(128)
def _of_rows(text: str, rows: int) -> str:
    """Returns an INSERT of so many rows for one of a single row."""
    width = len(set(_PLACE.findall(text)))

    def row(place: int) -> str:
        return _PLACE.sub(lambda found: f"?{int(found[1]) + place * width}", values)

    before, values, after = _VALUES.split(text, 1)
    return f"{before}{', '.join(map(row, range(rows)))}{after}"


@cache
def _columns() -> dict[str, int]:
    """Returns the numbers of columns of SELECT statements that ran for many values, by text."""
    return {}


@lru_cache(64)
def _for_each(text: str, columns: int, same: tuple[int, ...]) -> tuple[str, int]:
    """Returns a statement that runs a SELECT for each value of a JSON list, and the place of its limit, or 0.

    It returns a JSON list of pairs of a number and a list of rows. The JSON list of values is its last value; those at
    the places `same` are the same for all. A limit is the highest one of all.
    """
    limit = int(found[1]) if (found := _LAST.search(text)) else 0
    names = ", ".join(f"c{number}" for number in range(columns))
    places = {int(place) for place in _PLACE.findall(text)}

    def value(found: re.Match[str]) -> str:
        place = int(found[1])
        return found[0] if place in same or place == limit else f"(each.value ->> {place - 1})"

    return (
        f"SELECT json_group_array(json_array(each.key, (WITH r({names}) AS ({_PLACE.sub(value, text)}) "  # noqa: S608
        f"SELECT json_group_array(json_array({names})) FROM r))) FROM json_each(?{max(places) + 1}) each"
    ), limit
