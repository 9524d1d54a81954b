"""Retention as an operator sets it: which kinds are forgotten after what time, by whose decision and why."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.items import ItemType
from blackboard_mcp.protocols.retention import Retention

_LONGEST: Final = {"decided_by": 100, "reason": 300}
_SAID: Final = {
    "decided_by": "who decided it; readers of what was forgotten are told",
    "reason": "why; readers of what was forgotten are told",
}
MEANINGS: Final[Mapping[str, str]] = {
    "after_days": "by kind (`LOG`, `RESULT` …), so many days after the last thing that happened to an item; kinds that "
    "are not named stay for good",
    **{name: f"{said} (up to {_LONGEST[name]} characters)" for name, said in _SAID.items()},
    "boards": "the boards that it is for, a list; left out: all",
}
"""The meaning of each setting."""
_MOST_DAYS: Final = 36_500


def retention_of(table: Mapping[str, Any], where: str) -> Retention:
    """The retention of a table of settings; `where` names it in errors.

    Raises:
        InvalidInput: an unknown name, one that is missing, or a wrong value.
    """
    for name in table:
        if name not in MEANINGS:
            raise InvalidInput(f"Unknown setting '{name}' in {where}; there are: {', '.join(MEANINGS)}.")
    for name, longest in _LONGEST.items():
        said = table.get(name)
        if not isinstance(said, str) or not said.strip() or len(said) > longest or not said.isprintable():
            raise InvalidInput(
                f"{where} needs '{name}', a text of up to {longest} printable characters: {_SAID[name]}."
            )
    days = table.get("after_days")
    if not isinstance(days, Mapping) or not days:
        raise InvalidInput(f"{where} needs 'after_days', an object of days by kind, such as LOG = 90.")
    for kind, most in days.items():
        if kind not in tuple(ItemType):
            raise InvalidInput(
                f"after_days in {where} names '{kind}'; kinds are {', '.join(ItemType)}, in capitals."
            )
        if not isinstance(most, int) or isinstance(most, bool) or not 1 <= most <= _MOST_DAYS:
            raise InvalidInput(
                f"{kind} in {where} is {most!r}; it must be a whole number of days, from 1 to {_MOST_DAYS:,}."
            )
    boards = table.get("boards", [])
    if not isinstance(boards, list | tuple) or not all(isinstance(board, str) for board in boards):
        raise InvalidInput(f"boards in {where} must be a list of the boards that it is for.")
    if "boards" in table and not boards:
        raise InvalidInput(f"boards in {where} is empty; leave it out for all boards.")
    return Retention(
        {ItemType(kind): timedelta(days=most) for kind, most in days.items()},
        table["decided_by"].strip(),
        table["reason"].strip(),
        tuple(boards),
    )
