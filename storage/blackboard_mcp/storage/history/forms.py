"""Forms of column values in a line of history, and checks for reading them.

Instants are ISO 8601 in UTC, JSON columns are JSON, and flags are true and false: a file contains no engine's internal
representation.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from blackboard_mcp.protocols.values import dataclass

from ..operations.ledger.rows import FORGOTTEN, dumps, instant, micros

_LARGEST = (1 << 63) - 1
_FORGOTTEN = "forgotten"


class UnfitRow(ValueError):
    """An error for a value that its column cannot hold; the message completes "… must be"."""


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class RowForm:
    """The form of a column's values. `decode` raises `UnfitRow`."""

    name: str
    decode: Callable[[Any], Any]
    encode: Callable[[Any], Any] = _same
    optional: bool = False
    """True if the column may be empty (`null`)."""
    default: Any = ...
    """The column's value for files from before the column existed."""
    formerly: str = ""
    """The column's name in older files."""

    def to_file(self, stored: Any) -> Any:
        """Returns a stored value in the form that the file has."""
        return None if stored is None else self.encode(stored)

    def to_store(self, given: Any) -> Any:
        """Returns a value of the file in the form that the store has.

        Raises:
            UnfitRow: the column cannot hold it.
        """
        if given is None and self.optional:
            return None
        return self.decode(given)

    def or_null(self) -> RowForm:
        """Returns the form of a column that may also be empty."""
        return replace(self, optional=True)

    def since(self, default: Any) -> RowForm:
        """Returns the form of a column that older files lack; for these `default` is the stored value."""
        return replace(self, default=default)

    def once(self, name: str) -> RowForm:
        """Returns the form of a column that is called `name` in older files."""
        return replace(self, formerly=name)


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST:
        raise UnfitRow("a whole number from 0")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise UnfitRow("a text")
    return value


def _deleted(value: Any) -> int:
    if value == _FORGOTTEN:
        return FORGOTTEN
    if not isinstance(value, bool):
        raise UnfitRow(f"true, false or {_FORGOTTEN!r}")
    return int(value)


def _flag(value: Any) -> int:
    if not isinstance(value, bool):
        raise UnfitRow("true or false")
    return int(value)


def _instant(value: Any) -> int:
    try:
        at = datetime.fromisoformat(value)
        if at.tzinfo is None:
            raise ValueError
        return micros(at.astimezone(UTC))
    except (TypeError, ValueError, OverflowError):
        raise UnfitRow("an instant such as 2026-11-21T08:00:00+00:00") from None


def _object(value: Any) -> str:
    if not isinstance(value, dict):
        raise UnfitRow("an object")
    return dumps(value)


def _texts(value: Any) -> str:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise UnfitRow("a list of texts")
    return dumps(value)


def _wholes(value: Any) -> str:
    if not isinstance(value, list):
        raise UnfitRow("a list of whole numbers from 0")
    return dumps([_whole(one) for one in value])


def _bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError):
        raise UnfitRow("bytes in base64") from None


def _any(value: Any) -> str:
    return dumps(value)


def _spelt(stored: str) -> Any:
    """Parses JSON with members sorted by name, so that equal values are written alike."""
    return json.loads(stored, object_pairs_hook=lambda pairs: dict(sorted(pairs)))


WHOLE = RowForm("whole", _whole)
TEXT = RowForm("text", _text)
FLAG = RowForm("flag", _flag, bool)
DELETED = RowForm("deleted", _deleted, lambda stored: _FORGOTTEN if stored == FORGOTTEN else bool(stored))
INSTANT = RowForm("instant", _instant, lambda stored: instant(stored).isoformat())
OBJECT = RowForm("object", _object, _spelt)
TEXTS = RowForm("texts", _texts, _spelt)
WHOLES = RowForm("wholes", _wholes, _spelt)
BYTES = RowForm("bytes", _bytes, lambda stored: base64.b64encode(stored).decode())
ANY = RowForm("any", _any, _spelt)
ITEM = RowForm("item", _whole)
"""The number of an item that this line or an earlier one created."""


def word(choices: Iterable[str]) -> RowForm:
    """Returns the form of a column that holds one of `choices`."""
    allowed = frozenset(map(str, choices))
    told = "one of " + ", ".join(sorted(allowed))

    def decode(value: Any) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise UnfitRow(told)
        return value

    return RowForm("word", decode)
