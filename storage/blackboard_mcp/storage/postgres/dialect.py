"""Translation of the store's SQL, which is written for SQLite, into PostgreSQL's.

The statements use few constructs, and this module knows them: it is no general translator. Functions and operators
that PostgreSQL lacks (`json_each` of text, `max` of two values) are made by the schema's scripts. A statement that
differs otherwise has a text of its own in `variants.sql`, under the same name.

Values keep their types: a column is `bigint`, `text` or `bytea`, and each placeholder is cast by the type of its
value, since PostgreSQL would otherwise guess one for both of `$1 = 1` and `$1 = 'a'`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from blackboard_mcp.protocols.values import dataclass

from ..operations.ledger.rows import expanded_statements, sql

_CASTS = {int: "bigint", bool: "bigint", float: "double precision", str: "text", bytes: "bytea"}
_LITERAL = re.compile(r"'(?:[^']|'')*'")
_KEPT = re.compile("\x00(\\d+)\x00")
_PLACE = re.compile(r"\?(\d*)")
_INDEXED = re.compile(r"\s+(?:INDEXED BY \w+|NOT INDEXED)\b")
_CROSS = re.compile(r"\bCROSS JOIN\s+")
_NESTED = re.compile(r"\b(?:FROM|JOIN)\s+(?=\(\s*(?:SELECT|WITH|VALUES)\b)")
_ALIAS = re.compile(r"\s*(?:AS\s+)?([a-z_]\w*)")
_IN_LIST = re.compile(r"([\w.]+)(\s+(?:NOT )?IN \(\s*SELECT )((?:\w+\.)?value)(?= FROM json_each\()")
_IN_PAIRS = re.compile(
    r"\(([\w., ]+)\)(\s+(?:NOT )?IN \(\s*SELECT )(json_extract\(.*?)(?=\s+FROM json_each\()", re.S
)
_COMPARED = re.compile(r"([\w.]+)( (?:=|<|>|<=|>=|<>) )(?=json_extract\()")
_SECONDS = re.compile(r"json_extract\([\w.]+, \x00\d+\x00\)")
_BYTES = re.compile(r"\blength\(CAST\(([\w.]+) AS BLOB\)\)")
_INTEGER = re.compile(r"\bAS INTEGER\)")
_TAIL = re.compile(r"\bsubstr\(([\w.]+), -length\((\?\d*)\) - 1\)")
_GLOB = re.compile(r"([\w.]+) (NOT )?GLOB (\x00\d+\x00|[\w.]+ \|\| \x00\d+\x00|\?\d*)")
_SPACES = "char(9, 10, 13, 32)"
_IGNORE = re.compile(r"^(\s*)INSERT OR IGNORE INTO\b")
_UPSERT = re.compile(r"\bINSERT INTO (\w+)\b(.*?)\bON CONFLICT DO UPDATE SET\b", re.S)
_WORD = re.compile(r"(?<![\w.])([a-z_]\w*)\b(?!\s*[(.])")
_ENDS = re.compile(r"\b(?:WHERE|RETURNING)\b")
_SPECIAL = {"PRAGMA defer_foreign_keys = ON": "SET CONSTRAINTS ALL DEFERRED"}
_TABLE_INFO = re.compile(r"^SELECT name FROM pragma_table_info\('(\w+)'\)$")
_COLUMNS_OF = (
    r"SELECT attname::text FROM pg_attribute WHERE attrelid = '\1'::regclass AND attnum > 0 ORDER BY attnum"
)
_OF_FILE = re.compile(r"\b(main|staged)\.(\w+)")
STAGED = "staged_"
"""The beginning of the names of temporary tables, which hold the rows of a file that is taken over."""
_KEYWORDS = frozenset(
    "WHERE GROUP ORDER LIMIT ON JOIN LEFT CROSS INNER UNION HAVING RETURNING SET USING EXCEPT AS".split(" ")  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class Tables:
    """What the translation knows of the schema.

    Attributes:
        columns: the columns of each table, with their types.
        keys: the columns of each table's primary key, in order.
    """

    columns: Mapping[str, Mapping[str, str]]
    keys: Mapping[str, Sequence[str]]


class Dialect:
    """Translates statements for one schema, and keeps what it translated."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        kinds: dict[str, set[str]] = {}
        for columns in tables.columns.values():
            for name, kind in columns.items():
                kinds.setdefault(name, set()).add(kind)
        self._numbers = {name for name, found in kinds.items() if found == {"bigint"}}
        self._done: dict[tuple[str, tuple[type, ...]], tuple[str, tuple[int, ...]]] = {}

    @property
    def tables(self) -> list[str]:
        """The names of the tables, without views."""
        return sorted(self._tables.keys)

    def statement(self, text: str, values: Sequence[Any]) -> tuple[str, list[Any]]:
        """Returns the statement for PostgreSQL, and its values in the order of `$1`, `$2`, ….

        A value that is `None` becomes a literal NULL, for which PostgreSQL finds the type itself.
        """
        kinds = tuple(map(type, values))
        found = self._done.get((text, kinds))
        if found is None:
            found = self._done[text, kinds] = self._placed(self.translated(variants().get(text, text)), kinds)
            if len(self._done) > _MOST:
                self._done.pop(next(iter(self._done)))
        return found[0], [values[place] for place in found[1]]

    def for_each(self, text: str, many: Sequence[Sequence[Any]]) -> tuple[str, list[list[Any]]]:
        """Returns a statement that runs another one for each of many values, and its values: a list for each place.

        One that reads returns pairs of the number of the values, from 1, and a row. One that inserts has one row of
        values, and returns nothing.
        """
        columns = list(zip(*many, strict=True))
        kinds = tuple(
            next((type(one) for one in column if one is not None), type(None)) for column in columns
        )
        found = self._done.get((_EACH + text, kinds))
        if found is None:
            statement, places = self._placed(self.translated(variants().get(text, text)), kinds)
            found = self._done[_EACH + text, kinds] = (_for_each(statement, kinds, places), places)
            if len(self._done) > _MOST:
                self._done.pop(next(iter(self._done)))
        return found[0], [list(columns[place]) for place in found[1]]

    def translated(self, text: str) -> str:
        """Returns the statement in PostgreSQL's SQL, with SQLite's placeholders still in it."""
        literals: list[str] = []

        def keep(found: re.Match[str]) -> str:
            literals.append(found[0])
            return f"\x00{len(literals) - 1}\x00"

        if (special := _SPECIAL.get(text)) is not None:
            return special
        text = _OF_FILE.sub(_in_staging, _TABLE_INFO.sub(_COLUMNS_OF, text))
        text = _LITERAL.sub(keep, text)
        text = _INDEXED.sub("", text).replace(_SPACES, "E'\\t\\n\\r '")
        text = _BYTES.sub(r"bytes_of(\1)", _INTEGER.sub("AS BIGINT)", text))
        text = _TAIL.sub(r"right(\1, length(\2) + 1)", text)
        text = _GLOB.sub(lambda found: _prefix(found, literals), text)
        if _IGNORE.match(text):
            text = _IGNORE.sub(r"\1INSERT INTO", text) + " ON CONFLICT DO NOTHING"
        text = self._numbered(_joined(_named(text)), literals)
        text = self._upsert(text)
        return _KEPT.sub(lambda found: literals[int(found[1])], text)

    def _numbered(self, text: str, literals: Sequence[str]) -> str:
        """Casts what comes out of JSON to numbers where it meets a column of numbers."""

        def listed(found: re.Match[str]) -> str:
            return found[0] + ("::bigint" if self._is_number(found[1]) else "")

        def paired(found: re.Match[str]) -> str:
            ones, got = found[1].split(","), _arguments(found[3])
            cast = [
                value + "::bigint" if self._is_number(name.strip()) else value
                for name, value in zip(ones, got, strict=True)
            ]
            return f"({found[1]}){found[2]}{', '.join(cast)}"

        text = _IN_PAIRS.sub(paired, _IN_LIST.sub(listed, text))
        pieces, at = [], 0
        for found in _COMPARED.finditer(text):
            if self._is_number(found[1]):
                end = _closing(text, text.index("(", found.end()))
                pieces += [text[at : end + 1], "::bigint"]
                at = end + 1
        text = "".join([*pieces, text[at:]])

        def seconds(found: re.Match[str]) -> str:
            literal = literals[int(_KEPT.search(found[0])[1])]  # type: ignore[index]
            return found[0] + ("::numeric" if literal.endswith("_seconds'") else "")

        return _SECONDS.sub(seconds, text)

    def _upsert(self, text: str) -> str:
        """Names the key of an upsert, and the table of the columns whose former values it uses."""
        found = _UPSERT.search(text)
        if found is None:
            return text
        table, rest = found[1], text[found.end() :]
        columns = self._tables.columns[table]
        end = _ENDS.search(rest)
        sets, after = (rest[: end.start()], rest[end.start() :]) if end else (rest, "")

        def qualified(part: str) -> str:
            return _WORD.sub(lambda word: f"{table}.{word[1]}" if word[1] in columns else word[0], part)

        assignments = []
        for one in _arguments(sets):
            name, value = one.split("=", 1)
            assignments.append(f"{name.strip()} = {qualified(value.strip())}")
        if after.startswith("WHERE"):
            where, returning, more = after.partition("RETURNING")
            after = qualified(where) + returning + more
        key = ", ".join(self._tables.keys[table])
        head = text[: found.end()].replace("ON CONFLICT DO UPDATE SET", f"ON CONFLICT ({key}) DO UPDATE SET")
        return f"{head} {', '.join(assignments)} {after}".rstrip()

    def _is_number(self, name: str) -> bool:
        return name.rpartition(".")[2] in self._numbers

    def _placed(self, text: str, kinds: Sequence[type]) -> tuple[str, tuple[int, ...]]:
        """Replaces the placeholders; returns the text, and which value each of `$1`, `$2`, … takes."""
        places: dict[int, int] = {}
        unnumbered = 0

        def place(found: re.Match[str]) -> str:
            nonlocal unnumbered
            if found[0][0] == "'":
                return found[0]
            at = int(found[1]) - 1 if found[1] else unnumbered
            unnumbered = at + 1
            kind = kinds[at]
            if kind is type(None):
                return "NULL"
            return f"${places.setdefault(at, len(places) + 1)}::{_CASTS[kind]}"

        text = re.sub(rf"{_LITERAL.pattern}|{_PLACE.pattern}", place, text)
        return text, tuple(places)


def _for_each(statement: str, kinds: Sequence[type], places: Sequence[int]) -> str:
    """Returns the statement that runs a statement of PostgreSQL's for each row of some lists."""
    lists = ", ".join(f"${at}::{_CASTS[kinds[place]]}[]" for at, place in enumerate(places, 1))
    names = ", ".join(f"v{at}" for at in range(1, len(places) + 1))
    each = _PLACED.sub(lambda found: f"one.v{found[1]}" if found[1] else found[0], statement)
    if (inserted := _INSERTED.search(each)) is not None:
        row = inserted[0][len("VALUES (") : -1]
        chosen = f"SELECT {row} FROM unnest({lists}) AS one({names})"  # noqa: S608 - made of our own
        return each[: inserted.start()] + chosen + each[inserted.end() :]
    return (
        f"SELECT one.place, whole_row FROM unnest({lists}) WITH ORDINALITY AS one({names}, place) "  # noqa: S608
        f"CROSS JOIN LATERAL ({each}) whole_row"
    )


_EACH = "for each: "
_PLACED = re.compile(rf"{_LITERAL.pattern}|\$(\d+)::\w+(?: precision)?")
_INSERTED = re.compile(r"\bVALUES \(.*?\)(?=\s+ON CONFLICT|\s*$)", re.S)
_MOST = 2_000
"""The most statements that a dialect keeps; texts that queries put together are many."""


@cache
def variants() -> dict[str, str]:
    """Returns the statements that have a text of their own for PostgreSQL, by their text for SQLite."""
    text = resources.files("blackboard_mcp.storage.postgres").joinpath("variants.sql").read_text("utf-8")
    return {sql(name): variant for name, variant in expanded_statements(text).items()}


def _in_staging(found: re.Match[str]) -> str:
    return found[2] if found[1] == "main" else f"pg_temp.{STAGED}{found[2]}"


def _prefix(found: re.Match[str], literals: list[str]) -> str:
    """Returns a test for a pattern of SQLite's GLOB, in which `*` is the only special character."""
    column, no, pattern = found[1], found[2] or "", found[3]
    if pattern[0] == "\x00":
        literal = literals[int(pattern[1:-1])]
        literals.append("'" + re.sub(r"([%_\\])", r"\\\1", literal[1:-1]).replace("*", "%") + "'")
        return f"{column} {no}LIKE \x00{len(literals) - 1}\x00"
    if pattern[0] == "?":
        return f"{column} {no}LIKE like_of({pattern})"
    mark, _, literal = pattern.partition(" || ")
    kept = literals[int(literal[1:-1])]
    literals.append(kept.replace("*", ""))
    return f"{no}starts_with({column}, {mark} || \x00{len(literals) - 1}\x00)"


def _named(text: str) -> str:
    """Gives each nested query in a FROM clause a name, as PostgreSQL before 16 requires."""
    at = count = 0
    while (found := _NESTED.search(text, at)) is not None:
        end = _closing(text, found.end()) + 1
        alias = _ALIAS.match(text, end)
        at = found.end() + 1
        if alias is None or alias[1].upper() in _KEYWORDS:
            count += 1
            text = f"{text[:end]} AS nested{count}{text[end:]}"
    return text


def _joined(text: str) -> str:
    """Turns CROSS JOIN with a condition, which fixes an order in SQLite, into JOIN."""
    at = 0
    while (found := _CROSS.search(text, at)) is not None:
        at = end = found.end()
        if text[end] == "(":
            end = _closing(text, end) + 1
        else:
            name = re.compile(r"[\w.]+").match(text, end)
            assert name is not None
            end = name.end()
            if text[end : end + 1] == "(":
                end = _closing(text, end) + 1
        alias = _ALIAS.match(text, end)
        if alias is not None and alias[1].upper() not in _KEYWORDS:
            end = alias.end()
        if re.compile(r"\s*ON\b").match(text, end):
            text = text[: found.start()] + "JOIN " + text[found.end() :]
    return text


def _closing(text: str, opening: int) -> int:
    """Returns the place of the bracket that closes the one at `opening`."""
    depth = 0
    for place in range(opening, len(text)):
        if text[place] == "(":
            depth += 1
        elif text[place] == ")":
            depth -= 1
            if depth == 0:
                return place
    raise ValueError(f"No closing bracket: {text}")


def _arguments(text: str) -> list[str]:
    """Splits a text at the commas that stand in no bracket."""
    parts, depth, start = list[str](), 0, 0
    for place, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]
