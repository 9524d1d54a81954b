"""The bound `MAX_ANSWER_BYTES` of a tool's answer, and the shortening of longer ones.

Sizes are bytes of JSON in UTF-8. Tools already cut their pages to fit; this is the last check, which applies
to every answer.
"""

from __future__ import annotations

import json
from typing import Any, Final

from blackboard_mcp.protocols.errors import InvalidInput, Refused

MAX_ANSWER_BYTES: Final = 1 << 20
_FRAME: Final = 4_096
"""Bytes reserved for the JSON around text and facts on the wire."""
_LEAST_TEXT: Final = 16_384
"""Bytes that facts must leave free for the text."""
_LONGEST_ESCAPE: Final = 6
_CUT: Final = "\n… cut: an answer has at most 1 MiB. Ask for less at once (ids, limit, budget).\n"


def json_bytes(value: object) -> int:
    """Returns the size of a value in bytes, as compact JSON in UTF-8."""
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(written) if written.isascii() else len(written.encode("utf-8", "replace"))


def too_long(size: int) -> Refused:
    """Returns the error for a resource whose text has `size` bytes or more."""
    return Refused(
        f"This resource has {size:,} bytes now, and one answer at most {MAX_ANSWER_BYTES:,}. Read what it is "
        "made of in parts instead, with a limit; the tool read gives single items whole.",
        size=size,
    )


def fitted(
    text: str, facts: dict[str, Any] | None, *, shortens: bool = False
) -> tuple[str, dict[str, Any] | None]:
    """Returns the text and facts of an answer, shortened to `MAX_ANSWER_BYTES`.

    With `shortens`, facts that are too long lose the texts and metadata of their items, and get `cut`.

    Raises:
        InvalidInput: the facts are too long and may not be shortened, or still do not fit.
    """
    room = MAX_ANSWER_BYTES - _FRAME
    if facts is not None:
        size = json_bytes(facts)
        if size > room - _LEAST_TEXT and shortens:
            items = [{**item, "text": "", "metadata": {}} for item in facts["items"]]
            facts = {
                **facts,
                "items": items,
                **({"neighbours": []} if "neighbours" in facts else {}),
                "cut": True,
            }
            size = json_bytes(facts)
        if size > room - _LEAST_TEXT:
            raise InvalidInput(
                f"This answer would have {size:,} bytes as JSON; one has at most {MAX_ANSWER_BYTES:,}. Ask for less "
                "at once: fewer ids, or a lower limit.",
                size=size,
            )
        room -= size
    return _cut(text, room), facts


def _cut(text: str, room: int) -> str:
    """Returns the text if it fits into `room` bytes of JSON, else a shortened one.

    A shortened text keeps its beginning, a note of the cut and its last line.
    """
    if len(text) * _LONGEST_ESCAPE + 2 <= room or json_bytes(text) <= room:
        return text
    footer = text.rpartition("\n")[2][-400:]
    low, high = 0, len(text)
    room -= json_bytes(_CUT) + json_bytes(footer)
    while low < high:
        middle = (low + high + 1) // 2
        if json_bytes(text[:middle]) <= room:
            low = middle
        else:
            high = middle - 1
    return text[:low] + _CUT + footer
