"""Decisions of a coordinator, understood strictly from what a model wrote.

A decision is an object with `terminate` (true or false), `next_agent` and `instruction`. Models wrap it in fences and
prose, and write `"false"` where they mean false: that is understood. Anything else is refused with what was wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from blackboard_mcp.protocols.runs import MAX_INSTRUCTION, Decision

from ..input.arguments import is_clean_text

MAX_DECISION: Final = 20_000
"""Most characters of a decision that are read."""
_DEPTH: Final = 8
_OBJECTS: Final = 50
_KEYS: Final = frozenset({"terminate", "next_agent", "instruction", "strategy"})
_SAID: Final = {"true": True, "false": False, "yes": True, "no": False}
FORM: Final = '{"terminate": false, "next_agent": "NAME", "instruction": "what to do"}'


class NotUnderstood(ValueError):
    """What a coordinator wrote is no decision; the message says why."""


def parse_decision(given: str | Mapping[str, Any]) -> Decision:
    """Returns the decision that a coordinator gave, as an object or as text around one.

    Of several objects the last that has one of the keys counts, since models think aloud before they decide.

    Raises:
        NotUnderstood: it is no decision.
    """
    if not isinstance(given, str):
        return _decision(given)
    if len(given) > MAX_DECISION:
        raise NotUnderstood(
            f"it has {len(given):,} characters, and {MAX_DECISION:,} are read; send {FORM} alone"
        )
    found = [one for one in objects_in(given) if _KEYS & one.keys()]
    if not found:
        raise NotUnderstood(f"there is no JSON object in it; send {FORM}")
    decided = _decision(found[-1])
    if any(_ends(one) != decided.terminate for one in found):
        raise NotUnderstood(f"one object in it ends the rounds and another does not; send {FORM} alone")
    return decided


def _ends(said: Mapping[str, Any]) -> bool:
    terminate = said.get("terminate", False)
    return terminate is True or (isinstance(terminate, str) and _SAID.get(terminate.strip().lower()) is True)


def objects_in(text: str) -> Iterator[dict[str, Any]]:
    """Yields the outermost JSON objects in a text, at most `_OBJECTS` tries."""
    decoder = json.JSONDecoder()
    place = text.find("{")
    for _ in range(_OBJECTS):
        if place < 0:
            return
        if _depth(text, place) <= _DEPTH:
            try:
                value, end = decoder.raw_decode(text, place)
            except (ValueError, RecursionError):
                pass
            else:
                if isinstance(value, dict):
                    yield value
                place = text.find("{", end)
                continue
        place = text.find("{", place + 1)


def _depth(text: str, start: int) -> int:
    """Returns how deep brackets nest after `start`, not looking into strings; counting stops beyond `_DEPTH`."""
    depth = most = 0
    quoted = escaped = False
    for character in text[start:]:
        if quoted:
            quoted = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            quoted, escaped = True, False
        elif character in "{[":
            depth += 1
            most = max(most, depth)
            if most > _DEPTH:
                return most
        elif character in "}]":
            depth -= 1
            if depth <= 0:
                break
    return most


def _decision(said: Mapping[str, Any]) -> Decision:
    terminate = said.get("terminate", False)
    if isinstance(terminate, str):
        terminate = _SAID.get(terminate.strip().lower())
    if not isinstance(terminate, bool):
        raise NotUnderstood(
            f"terminate is true or false, not {str(said.get('terminate'))[:40]!r}; send {FORM}"
        )
    words = {}
    for name in ("next_agent", "instruction", "strategy"):
        value = said.get(name)
        if value is None:
            value = ""
        if not isinstance(value, str):
            raise NotUnderstood(f"{name} is a text, not {type(value).__name__}; send {FORM}")
        if not is_clean_text(value):
            raise NotUnderstood(f"{name} holds a NUL character or half of a surrogate pair; send {FORM}")
        words[name] = value.strip().removeprefix("@") if name != "instruction" else value.strip()
    if len(words["instruction"]) > MAX_INSTRUCTION:
        raise NotUnderstood(f"instruction has more than {MAX_INSTRUCTION:,} characters")
    if not terminate and not words["next_agent"]:
        raise NotUnderstood('next_agent is missing; name who is next, or send {"terminate": true}')
    return Decision(terminate, words["next_agent"], words["instruction"], words["strategy"])
