"""Many rows in one step.

Python's driver gives up the interpreter's lock for each row and asks for it back, which can take a switch interval
while other threads are busy: 100 rows that cost 1 ms of CPU took up to 90 ms. So statements that often have many
rows of numbers and short texts run as one that returns them all as one text, in JSON. Each has a limit or a
list of what it is asked for, since nobody else has the interpreter while the text is parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

from ..operation import Rows
from ..operations.ledger.rows import parsed, sql

PACKED: Final = (
    "events_after",
    "events_whole",
    "item_stamps",
    "news",
    "news_at",
    "news_stamps",
    "newest_archived",
    "top",
    "unseen",
)
"""Names of the statements."""


@cache
def _texts() -> dict[str, str]:
    """Returns the statements and how they run: empty until the first run tells how many columns there are."""
    return {sql(name): "" for name in PACKED}


def packed(text: str, columns: int) -> str:
    """Returns a statement that returns all rows of a SELECT with so many columns as one text."""
    names = ", ".join(f"c{number}" for number in range(columns))
    # Here SQLite drops an order that has no limit.
    whole = text if " LIMIT " in text.rpartition(")")[2] else f"{text} LIMIT -1"
    return f"WITH r({names}) AS ({whole}) SELECT json_group_array(json_array({names})) FROM r"  # noqa: S608


def fetched(execute: Callable[[str, Sequence[Any]], Any], text: str, parameters: Sequence[Any]) -> Rows:
    """Runs a statement, and returns its rows."""
    whole = _texts().get(text)
    if whole:
        ((found,),) = execute(whole, parameters)
        return list(map(tuple, parsed(found)))
    cursor = execute(text, parameters)
    if whole is not None:
        _texts()[text] = packed(text, len(cursor.description))
    rows: Rows = cursor.fetchall()
    return rows
