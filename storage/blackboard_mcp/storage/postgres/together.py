"""Statements that go to the server together, as one call of a function that exists in one connection alone.

Most operations ask and write by the same statements in the same order. A round trip for each costs more than running
them.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, Final, NamedTuple


class Kind(Enum):
    """What is done with a statement's rows."""

    WAITS = "waits"
    """It returns none, so that an operation can go on before it has run."""
    GUESSED = "guessed"
    """It is expected to return none. If it does return some, no statement after it runs."""
    ASKED = "asked"
    """They are returned."""


class Asked(NamedTuple):
    """A statement of PostgreSQL's, and its values."""

    statement: str
    values: Sequence[Any]
    kind: Kind


Key = tuple[tuple[str, Kind], ...]
"""What a function is made for."""

_PLACE: Final = re.compile(r"'(?:[^']|'')*'|\$(\d+)::(\w+(?: precision)?)")
_READS: Final = re.compile(r"\s*(?:SELECT|WITH)\b")
_CHANGES: Final = re.compile(r"\s*(?:INSERT|UPDATE|DELETE)\b")
_RETURNS: Final = re.compile(r"\bRETURNING\b")
_CHANGES_WITHIN: Final = re.compile(r"\b(?:INSERT|UPDATE|DELETE)\b")
_LENGTH: Final = 32
"""The most statements of one call."""
_OFTEN: Final = 3
"""A function is made for what came together so often."""
_KNOWN: Final = 40
"""The most functions of a connection: the server holds some 2 MiB for each."""
_IDLE: Final = 1_000
"""A function that was not called in so many calls gives way to another."""
_KINDS: Final = ("bigint", "text", "double precision", "bytea")
"""The types of values."""
_COUNTED: Final = 1_000
_TEXTS: Final = 2_000
END: Final = -1
"""The place of the row that ends an answer; it tells how many rows were changed."""


@lru_cache(_TEXTS)
def waits(statement: str) -> bool:
    """Tells whether the statement changes rows and returns none."""
    return _CHANGES.match(statement) is not None and _RETURNS.search(statement) is None


@lru_cache(_TEXTS)
def reads(statement: str) -> bool:
    """Tells whether the statement changes nothing."""
    return _READS.match(statement) is not None and _CHANGES_WITHIN.search(statement) is None


@lru_cache(_TEXTS)
def _alone(statement: str) -> bool:
    """Tells whether the statement cannot be a part of a function."""
    return not reads(statement) and _CHANGES.match(statement) is None


def parts(statements: Sequence[Asked]) -> Iterator[Sequence[Asked]]:
    """Splits statements, in order, into calls."""
    part: list[Asked] = []
    for asked in statements:
        if part and (len(part) == _LENGTH or _alone(asked.statement) or _alone(part[-1].statement)):
            yield part
            part = []
        part.append(asked)
    if part:
        yield part


def key_of(statements: Sequence[Asked]) -> Key:
    """Returns what the function for these statements is known by."""
    return tuple((asked.statement, asked.kind) for asked in statements)


class Call(NamedTuple):
    """A function of the connection's.

    Attributes:
        name: its name.
        statement: what calls it with four lists of values, one for each type.
        places: for each value of the statements, one after another, the list that takes it.
    """

    name: str
    statement: str
    places: Sequence[int]


class Together:
    """The functions of one connection. Without `enabled` there are none."""

    def __init__(self, *, enabled: bool = True) -> None:
        self.enabled = enabled
        self._calls: OrderedDict[Key, Call] = OrderedDict()
        self._counts: OrderedDict[Key, int] = OrderedDict()
        self._wanted: list[Key] = []
        self._used: dict[Key, int] = {}
        self._asked = 0

    def call(self, key: Key) -> Call | None:
        """Returns the function for these statements; `None` if there is none yet."""
        if not self.enabled:
            return None
        self._asked += 1
        if (found := self._calls.get(key)) is not None:
            self._calls.move_to_end(key)
            self._used[key] = self._asked
            return found
        count = self._counts[key] = self._counts.pop(key, 0) + 1
        if len(self._counts) > _COUNTED:
            self._counts.popitem(last=False)
        if count >= _OFTEN and key not in self._wanted and self._has_room():
            self._wanted.append(key)
        return None

    def _has_room(self) -> bool:
        """Tells whether one more function can be made; the longest unused one gives way if it is not in use now."""
        if len(self._calls) + len(self._wanted) < _KNOWN:
            return True
        return not self._wanted and self._used[next(iter(self._calls))] < self._asked - _IDLE

    def wanted(self) -> list[Key]:
        """Returns and forgets the sequences that became frequent."""
        wanted, self._wanted = self._wanted, []
        return wanted

    def made(self, key: Key) -> tuple[str, str]:
        """Returns the script that makes the function for these statements, and the statement that calls it.

        The function returns rows of two columns: the place of a statement, and a row of it. The last row has the place
        `END`, and the number of rows that all changed. After rows of a guessed statement no other runs.
        """
        name = f"pg_temp.together{len(self._calls) + 1}"
        if len(self._calls) >= _KNOWN:
            former, (name, *_) = self._calls.popitem(last=False)
            del self._used[former]
        counts = [0] * len(_KINDS)
        places: list[int] = []
        body = []
        end = f"RETURN QUERY SELECT {END}, ROW(all_);"
        count = "GET DIAGNOSTICS rows_ = ROW_COUNT; all_ := all_ + rows_;"
        for number, (statement, kind) in enumerate(key):
            text = _listed(statement, counts, places)
            if kind is Kind.WAITS:
                body.append(f"{text}; {count}")
            elif reads(statement):
                body.append(f"RETURN QUERY SELECT {number}, r FROM ({text}) r;")  # noqa: S608 - our own
                if kind is Kind.GUESSED:
                    body.append(f"IF FOUND THEN {end} RETURN; END IF;")
            else:
                body.append(f"RETURN QUERY WITH r AS ({text}) SELECT {number}, r FROM r; {count}")  # noqa: S608
        marks = ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(_KINDS, 1))
        call = f"SELECT * FROM {name}({marks}) AS t(place int, line record)"  # noqa: S608 - made of our own
        self._calls[key] = Call(name, call, places)
        self._used[key] = self._asked
        return (
            f"CREATE OR REPLACE FUNCTION {name}({', '.join(f'{kind}[]' for kind in _KINDS)}) RETURNS SETOF record "
            "LANGUAGE plpgsql AS $together$\n"
            "#variable_conflict use_column\nDECLARE rows_ bigint; all_ bigint := 0;\nBEGIN\n"
            + "\n".join([*body, end])
            + "\nEND $together$"
        ), call


def _listed(statement: str, counts: list[int], places: list[int]) -> str:
    """Returns the statement with places in lists for its placeholders.

    `counts` are the lengths of the lists so far, and grow; `places` gets the list of each value.
    """
    own: dict[int, int] = {}
    for found in _PLACE.finditer(statement):
        if found[1] is not None:
            own[int(found[1])] = _KINDS.index(found[2])
    marks: dict[int, str] = {}
    for number in sorted(own):
        place = own[number]
        counts[place] += 1
        places.append(place)
        marks[number] = f"${place + 1}[{counts[place]}]"
    return _PLACE.sub(lambda found: found[0] if found[1] is None else marks[int(found[1])], statement)


def lists_of(call: Call, statements: Iterable[Asked]) -> list[list[Any]]:
    """Returns the values of the statements as the function takes them."""
    lists: list[list[Any]] = [[] for _ in _KINDS]
    values = (value for asked in statements for value in asked.values)
    for value, place in zip(values, call.places, strict=True):
        lists[place].append(value)
    return lists
