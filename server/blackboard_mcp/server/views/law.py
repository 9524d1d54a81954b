"""How a view begins: where the reader is, and what stands there word for word at any budget."""

from __future__ import annotations

import re
from collections import Counter

from blackboard_mcp.protocols.answers import Archived
from blackboard_mcp.protocols.board import Lifecycle
from blackboard_mcp.protocols.events import SYSTEM
from blackboard_mcp.protocols.items import Item, ItemType

from ..text import one_line, quoted, relative_age, word
from .lines import circumstances, identity, more
from .standing import LAW, Standing

PLURALS = {
    type_: {
        ItemType.REPLY: "replies",
        ItemType.SUMMARY: "summaries",
        ItemType.HYPOTHESIS: "hypotheses",
        ItemType.HOT_ISSUE: "hot issues",
    }.get(type_, f"{type_.lower()}s")
    for type_ in ItemType
}
_HERE = 6
_TYPES = 3
_TOPICS = 6
_WORD = re.compile(r"[^\W\d_][\w'-]{4,}")
_COMMON = """
    about after again before being between could first other right second should their there these they those using
    where which while would
"""


def law_items(standing: Standing) -> list[Item]:
    """Active constraints, then open hot issues."""
    listed = (item for item in standing.items.values() if standing.is_law(item))
    return sorted(listed, key=lambda item: (LAW.index(item.type), item.number))


def beginning(standing: Standing) -> list[str]:
    """Which board this is, who reads it, the core, active constraints and open hot issues."""
    board = standing.snapshot.board
    state = "" if board.lifecycle is Lifecycle.OPEN else f" ({board.lifecycle})"
    lines = [
        f"board {board.id}{state} · seq {board.seq} · as of {standing.now:%Y-%m-%d %H:%MZ} · you are "
        f"{word(standing.agent)}"
    ]
    if board.core.objective:
        lines += labelled("objective", board.core.objective)
    for place, constraint in enumerate(board.core.constraints, 1):
        lines += labelled(f"constraint {place}", constraint)
    if board.core.flags:
        flags = sorted(board.core.flags.items())
        lines.append("flags: " + " ".join(f"{word(name)}={str(on).lower()}" for name, on in flags))
    for item in law_items(standing):
        kind = "constraint" if item.type is ItemType.CONSTRAINT else "hot issue"
        told = f"{identity(item, standing.now, standing.agent)}{circumstances(item)}"
        id_, _, rest = told.partition(" ")
        lines += labelled(f"{id_} {kind} {rest}", item.text)
    return lines


def labelled(lead: str, text: str) -> list[str]:
    """`text` whole behind `lead`: on its line when it is one line, else below it, each line quoted."""
    lines = quoted(text)
    return [f"{lead}: {lines[0]}"] if len(lines) == 1 else [f"{lead}:", *lines]


def surroundings(standing: Standing) -> str:
    """Who else is here and did something when, how full the board is, and what its archive is about."""
    snapshot = standing.snapshot
    others = [(agent, at) for agent, at in snapshot.here if agent not in (SYSTEM, standing.agent)]
    named = [f"{word(agent)} {relative_age(at, standing.now)}" for agent, at in others[:_HERE]]
    parts = [f"last active: {', '.join(named)}{more(others, _HERE)}" if named else "nobody else is here yet"]
    parts.append(f"working memory {snapshot.tokens:,} of {snapshot.board.config.target_tokens:,} tokens")
    if snapshot.archived.items:
        parts.append(_archive(snapshot.archived))
    return " · ".join(parts)


def _archive(archived: Archived) -> str:
    kinds = [counted(type_, count) for type_, count in archived.types[:_TYPES]]
    total = f"{archived.items:,}: " if len(archived.types) > 1 else ""
    told = f"archive {total}{', '.join(kinds)}{more(archived.types, _TYPES)}"
    topics = _topics(archived)
    return f'{told} (about {", ".join(topics)}) → query_archive(text="…")' if topics else told


def counted(type_: ItemType, count: int) -> str:
    """`1 decision`, `4 hypotheses`."""
    return f"{count:,} {PLURALS[type_] if count != 1 else type_.lower().replace('_', ' ')}"


def _topics(archived: Archived) -> list[str]:
    """Tags of the archive, and words that several of its texts begin with where there are few tags."""
    topics = [word(tag) for tag in archived.tags[:_TOPICS]]
    if len(topics) < _TOPICS // 2:
        used = Counter(
            found
            for start in archived.starts
            for found in {match[0].casefold() for match in _WORD.finditer(one_line(start))}
            if found not in _COMMON.split()
        )
        often = sorted((found for found, times in used.items() if times > 1), key=lambda w: (-used[w], w))
        topics += [found for found in often if found not in topics][: _TOPICS - len(topics)]
    return topics
