"""The assurance in errors that nothing was changed, except to a caller who asked for no change."""

from __future__ import annotations

import re

from blackboard_mcp.protocols.errors import BlackboardError

_SAID = re.compile(
    r"; nothing was changed\.?\Z| ?Nothing was changed\.|(?<= )Nothing was changed; (\w)(?=(\w*\(?))"
)


def to_reader(message: str) -> str:
    """The message of an error without the assurance; what followed it begins the next sentence."""
    return _SAID.sub(_begun, message)


def unassured(error: BlackboardError) -> None:
    """The error tells a reader the same without the assurance."""
    error.message = to_reader(error.message)
    error.args = (error.message,)


def _begun(found: re.Match[str]) -> str:
    """A call keeps its name; a word begins a sentence."""
    letter, rest = found[1], found[2]
    if letter is None:
        return ""
    return letter if rest.endswith("(") else letter.upper()
