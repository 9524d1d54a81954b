"""Versions of an item as text for agents, and changes that made no new version: one line each, newest first."""

from __future__ import annotations

import json
from datetime import datetime

from blackboard_mcp.protocols.answers import (
    Amendment,
    Version,
    Versions,
)
from blackboard_mcp.protocols.tokens import Count

from ..text.lines import clip, one_line, relative_age, word

_HASH = 12
"""Characters of a hash that are shown."""
_SHOWN = 120
"""Characters of a former value that are shown."""
_ALL = 1 << 40


def version_lines(listed: Versions, now: datetime, room: int = _ALL, count: Count = len) -> list[str]:
    """Returns a heading, a line for each version and a line for each later change, as far as `room` allows.

    `room` is in the unit of `count`. At least one version is shown. A last line says how to read the rest.
    """
    key, many = f" key {word(listed.key)}" if listed.key else "", "s" if listed.newest > 1 else ""
    lines = [f"{listed.id}{key}: {listed.newest} version{many}"]
    following = listed.next
    for place, version in enumerate(listed.versions):
        line = _line(version, now)
        room -= count(line) + 1
        if room < 0 and place:
            following = version.version
            break
        lines.append(line)
    if following is not None:
        lines.append(f'… {following} more: read(ids=["{listed.id}@*{following}"])')
    for place, amendment in enumerate(listed.amendments):
        line = _amended(amendment, now)
        room -= count(line) + 1
        if room < 0:
            lines.append(f"… {len(listed.amendments) - place} earlier changes: read with a larger budget")
            break
        lines.append(line)
    return lines


def _line(version: Version, now: datetime) -> str:
    age = relative_age(version.created_at, now)
    if version.forgotten:
        return f"@{version.version} by {word(version.created_by)} {age}, forgotten, sha256 {version.sha256[:_HASH]}…"
    if version.deleted:
        return f"@{version.version} deleted by {word(version.created_by)} {age}"
    said = f"@{version.version} by {word(version.created_by)} {age}, {version.tokens} tokens"
    if version.status is not None and version.status != "ACTIVE":
        said += f", {version.status}"
    if (version.updated_by, version.updated_at) != (version.created_by, version.created_at):
        said += f", changed by {word(version.updated_by)} {relative_age(version.updated_at, now)}"
    return f"{said}, sha256 {version.sha256[:_HASH]}…"


def _amended(amendment: Amendment, now: datetime) -> str:
    """Returns a line such as `seq 12 by ana 3m ago, of @1: importance 3 → 5; tags [a b] → [c]`."""
    told = "; ".join(
        f"{name} {value_words(amendment.was.get(name))} → {value_words(new)}"
        for name, new in amendment.now.items()
    )
    age = relative_age(amendment.at, now)
    return f"seq {amendment.seq} by {word(amendment.agent)} {age}, of @{amendment.version}: {told}"


def value_words(value: object) -> str:
    """Returns a former or present value, short enough for one line."""
    if isinstance(value, list):
        return f"[{clip(one_line(' '.join(map(str, value))), _SHOWN)}]"
    if isinstance(value, dict) and not is_whole(value):
        return f"({value['characters']} characters, sha256 {str(value['sha256'])[:_HASH]}…)"
    return clip(one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)), _SHOWN)


def is_whole(value: object) -> bool:
    """Returns whether a value is an object that the log keeps whole; of a long one it has length and hash."""
    return isinstance(value, dict) and set(value) != {"characters", "sha256"}
