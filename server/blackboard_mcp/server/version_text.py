"""Versions of an item as agents read them: a line each, newest first."""

from __future__ import annotations

from datetime import datetime

from blackboard_mcp.protocols.answers import (
    Version,
    Versions,
)
from blackboard_mcp.protocols.tokens import Tokenizer

from .text import relative_age, word

_HASH = 12
"""Characters of a hash that are shown."""


def version_lines(listed: Versions, now: datetime, room: int, tokenizer: Tokenizer) -> list[str]:
    """As many lines as `room` tokens hold, one at least; the last one names the call that has the rest."""
    lines = [f"{listed.id}{f' key {word(listed.key)}' if listed.key else ''}: {listed.newest} versions"]
    following = listed.next
    for place, version in enumerate(listed.versions):
        line = _line(version, now)
        room -= tokenizer.count(line) + 1
        if room < 0 and place:
            following = version.version
            break
        lines.append(line)
    if following is not None:
        lines.append(f'… {following} more: read(ids=["{listed.id}@*{following}"])')
    return lines


def _line(version: Version, now: datetime) -> str:
    age = relative_age(version.created_at, now)
    if version.deleted:
        return f"@{version.version} deleted by {word(version.created_by)} {age}"
    said = f"@{version.version} by {word(version.created_by)} {age}, {version.tokens} tokens"
    if version.status is not None and version.status != "ACTIVE":
        said += f", {version.status}"
    if (version.updated_by, version.updated_at) != (version.created_by, version.created_at):
        said += f", changed by {word(version.updated_by)} {relative_age(version.updated_at, now)}"
    return f"{said}, sha256 {version.sha256[:_HASH]}…"
