"""Removal of the words "nothing was changed" from errors of calls that asked for no change."""

from __future__ import annotations

import re

from blackboard_mcp.protocols.errors import BlackboardError

_SAID = re.compile(
    r"; nothing was changed\.?\Z| ?Nothing was changed\.|(?<= )Nothing was changed; (\w)(?=(\w*\(?))"
)


def to_reader(message: str) -> str:
    """Returns an error message without the words "nothing was changed", which say nothing to whoever only reads.

    The words that follow get a capital letter, for they begin the next sentence now.
    """
    return _SAID.sub(_begun, message)


def unassured(error: BlackboardError) -> None:
    """Removes the words "nothing was changed" from an error, in place."""
    error.message = to_reader(error.message)
    error.args = (error.message,)


def _begun(found: re.Match[str]) -> str:
    """Returns the first letter of the text that follows, as a capital. The name of a call keeps its case."""
    letter, rest = found[1], found[2]
    if letter is None:
        return ""
    return letter if rest.endswith("(") else letter.upper()
