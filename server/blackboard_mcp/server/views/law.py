"""The beginning of a view: its header, and the parts that are shown whole at any budget."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain

from blackboard_mcp.protocols.answers import LAST_ACTS
from blackboard_mcp.protocols.board import Lifecycle
from blackboard_mcp.protocols.events import SYSTEM
from blackboard_mcp.protocols.items import Item, ItemType, Zone
from blackboard_mcp.protocols.panels import PANEL
from blackboard_mcp.protocols.rules import bounds, bounds_of, check_of, label

from ..text.lines import AGES_AS_OF_THEN, clip, flat, one_line, quoted, relative_age, word
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
_ROLE = 40
"""Characters of a role that are shown."""
_NO_BRACKETS = str.maketrans("()·", "[]-")
_TYPES = 3
_TOPICS = 6
_FEW = 12
"""Archived items below which no words stand for what they are about."""
_WORD = re.compile(r"[^\W\d_][\w'-]{4,}")
_COUNTING = re.compile(r"\w+[:=]\d+")
"""Pattern of tags that number things, such as `step:3`."""
_START = 160
_COMMON = """
    about after again appears based before being between could first following general given other please provided right
    second seems should since still their there these they thing things think those under using where which while within
    without would
"""
_UNTELLING = frozenset(_COMMON.split())


def law_items(standing: Standing) -> list[Item]:
    """Returns active constraints, then open hot issues, each by number."""
    return sorted(standing.law, key=lambda item: (LAW.index(item.type), item.number))


def beginning(standing: Standing) -> list[str]:
    """Returns the first lines of a view: board and reader, core, active constraints and open hot issues."""
    board = standing.snapshot.board
    state = "" if board.lifecycle is Lifecycle.OPEN else f" ({board.lifecycle})"
    lines = [
        f"board {board.id}{state} · seq {board.seq} · last change {standing.now:%Y-%m-%d %H:%MZ}{AGES_AS_OF_THEN} · "
        f"you are {word(standing.agent)}"
    ]
    if board.core.objective:
        lines += labelled("objective", board.core.objective)
    for place, constraint in enumerate(board.core.constraints, 1):
        lines += labelled(f"constraint {place}", constraint)
    if board.core.flags:
        flags = sorted(board.core.flags.items())
        lines.append("flags: " + " ".join(f"{word(name)}={str(on).lower()}" for name, on in flags))
    listed = law_items(standing)
    rules = sum(item.type is ItemType.CONSTRAINT for item in listed) + len(board.core.constraints)
    if rules:
        lines.append(label(standing.snapshot.rules, rules))
    for item in listed:
        kind = _kind(item)
        told = f"{identity(item, standing.now, standing.agent)}{circumstances(item)}"
        id_, _, rest = told.partition(" ")
        lines += labelled(f"{id_} {kind} {rest}", item.text)
    return lines


def _kind(item: Item) -> str:
    """Returns what an item of the law is, with strength and scope where they are not the usual ones."""
    if item.type is not ItemType.CONSTRAINT:
        return "hot issue"
    told = bounds(*bounds_of(item.metadata), check_of(item.metadata))
    return f"constraint ({flat(told)})" if told else "constraint"


def labelled(lead: str, text: str) -> list[str]:
    """Returns `lead` and the whole text: on one line where the text has one line, else each text line quoted
    below it.
    """
    lines = quoted(text)
    return [f"{lead}: {lines[0]}"] if len(lines) == 1 else [f"{lead}:", *lines]


def surroundings(standing: Standing) -> str:
    """Returns a line on the other agents and their last activity, how full the board is, and the topics of
    its archive.
    """
    snapshot = standing.snapshot
    others = [(agent, at) for agent, at in snapshot.here if agent not in (SYSTEM, standing.agent)]
    named = [
        f"{word(agent)}{_role(snapshot.roles.get(agent, ''))} {relative_age(at, standing.now)}"
        for agent, at in others[:_HERE]
    ]
    parts = [
        f"last active: {', '.join(named)}{more(others, _HERE)}"
        if named
        else f"nobody else has written {'anything yet' if snapshot.board.seq <= LAST_ACTS else 'lately'}"
    ]
    parts.append(f"working memory {snapshot.tokens:,} of {snapshot.board.config.target_tokens:,} tokens")
    if snapshot.archived.items:
        parts.append(_archive(standing))
    if snapshot.panels:
        counts = ", ".join(f"{name} {items}" for name, items in snapshot.panels.items())
        parts.append(f'panels: {counts} → query(tags=["{PANEL}{next(iter(snapshot.panels))}"])')
    return " · ".join(parts)


def _role(role: str) -> str:
    """Returns the beginning of a role in brackets, after a space; empty without a role."""
    return f" ({clip(role, _ROLE).translate(_NO_BRACKETS)})" if role else ""


def _archive(standing: Standing) -> str:
    archived = standing.snapshot.archived
    kinds = [counted(type_, count) for type_, count in archived.types[:_TYPES]]
    told = f"{', '.join(kinds)}{more(archived.types, _TYPES)}"
    if len(archived.types) > 1:
        told = f"{archived.items:,} items: {told}"
    if archived.items > 1 and archived.last:
        told += f", newest {archived.last}"
    topics = _topics(standing)
    about = f' (about {", ".join(topics)}) → query_archive(text="…")' if topics else ""
    return f"archived (room is made from {standing.snapshot.board.config.high_tokens:,} tokens on): {told}{about}"


def counted(type_: ItemType, count: int) -> str:
    """Returns a count with its type in words, such as `1 decision` or `4 hypotheses`."""
    return f"{count:,} {PLURALS[type_] if count != 1 else type_.lower().replace('_', ' ')}"


def _topics(standing: Standing) -> list[str]:
    """Returns tags of the archive; where they are few, also words that are more common there than in working
    memory.
    """
    archived = standing.snapshot.archived
    telling = [tag for tag in archived.tags if not _COUNTING.fullmatch(tag) and tag.upper() not in PLURALS]
    topics = [word(tag) for tag in telling[:_TOPICS]]
    if len(topics) >= _TOPICS // 2 or archived.items < _FEW:
        return topics
    archive = Zone.ARCHIVE
    there = [item.text[:_START] for item in standing.items.values() if item.zone is not archive]
    live = _words(there)
    shares = {
        found: times / len(archived.starts) - live[found] / max(1, len(there))
        for found, times in _often(archived.starts).items()
        if found not in topics
    }
    often = sorted((found for found, share in shares.items() if share > 0), key=lambda w: (-shares[w], w))
    return topics + often[: _TOPICS - len(topics)]


@lru_cache(maxsize=16)
def _often(starts: tuple[str, ...]) -> dict[str, int]:
    """Returns the telling words that more than one of the texts holds, with how many do; kept for the next view."""
    return {found: times for found, times in _words(starts).items() if times > 1}


def _words(starts: Iterable[str]) -> Counter[str]:
    """Returns how many of the texts hold each telling word; common words and short ones are left out."""
    return Counter(chain.from_iterable(map(_telling, starts)))


@lru_cache(maxsize=2_048)
def _telling(start: str) -> frozenset[str]:
    return frozenset(found.casefold() for found in _WORD.findall(one_line(start))) - _UNTELLING
