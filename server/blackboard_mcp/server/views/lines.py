"""The words before an item's text: who wrote it, when, what it rests on, who is for and against it.

Nothing here is a mark that wants a legend but `@3`, the version of an entry, and ages, which count from posting.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from blackboard_mcp.protocols.access import Trust
from blackboard_mcp.protocols.items import EdgeKind, Item, Status, Visibility, Zone

from ..text.lines import agreement_line, notices, one_line, relative_age, word

NAMED = 6
_TAGS = 3
_EDGES = {
    EdgeKind.REPLIES_TO: "on",
    EdgeKind.CRITIQUES: "against",
    EdgeKind.DEPENDS_ON: "needs",
    EdgeKind.DERIVED_FROM: "from",
    EdgeKind.SUPPORTS: "for",
    EdgeKind.REFUTES: "refutes",
    EdgeKind.SUPERSEDES: "replaces",
    EdgeKind.ANALYZED_BY: "analysed in",
}


def identity(item: Item, now: datetime, agent: str) -> str:
    """Id, who wrote what is shown, and its age: `F-3 by bob 3m`, `P-11@3 key plan:1 by ann 2m, begun by bob 1h`."""
    key = "" if item.key is None else f" key {word(item.key)}"
    if item.version == 1:
        return f"{item.id}{key} by {name(item.author, agent)} {relative_age(item.created_at, now)}"
    writer = item.written_by or item.author
    age = relative_age(item.written_at or item.updated_at, now)
    told = f"{item.id}@{item.version}{key} by {name(writer, agent)} {age}"
    if writer != item.author:
        told += f", begun by {name(item.author, agent)} {relative_age(item.created_at, now)}"
    return told


def name(agent: str, reader: str) -> str:
    return "you" if agent == reader else word(agent)


def circumstances(item: Item, *, without: frozenset[EdgeKind] = frozenset(), debated: bool = True) -> str:
    """What else a reader should know before the text, with a space before it; empty when there is nothing."""
    parts: list[str] = []
    if item.visibility is not Visibility.BOARD:
        parts.append(str(item.visibility))
    if item.zone is Zone.ARCHIVE:
        parts.append("archived")
    if item.agreement is not None:
        parts.append(agreement_line(item.agreement))
    if item.undecided:
        parts.append("by no decider")
    if item.trust is Trust.LOW:
        parts.append("low trust")
    lowered = one_line(item.text[:400]).casefold() if item.tags else ""
    telling = [tag for tag in item.tags if tag.casefold() not in lowered]
    if telling:
        parts.append(f"tagged {' '.join(map(word, telling[:_TAGS]))}{more(telling, _TAGS)}")
    told: dict[str, list[str]] = {}
    supported = {target for kind, target in item.cites if kind is EdgeKind.SUPPORTS}
    for kind, target in item.cites:
        if kind not in without and not (kind is EdgeKind.REPLIES_TO and target in supported):
            told.setdefault(_EDGES[kind], []).append(f"{target} (fell)" if target in item.fell else target)
    parts += [f"{verb} {' '.join(ids[:3])}{more(ids, 3)}" for verb, ids in told.items()]
    for agreed, verb in ((True, "refuted"), (False, "disputed")):
        against = [c.by for c in item.contested if c.kind is EdgeKind.REFUTES and c.agreed is agreed]
        if against:
            parts.append(f"{verb} by {' '.join(against[:3])}{more(against, 3)}")
    if item.adopted_in is not None:
        parts.append(f"adopted in {item.adopted_in}")
    if item.supporters:
        parts.append(f"supported by {' '.join(map(word, item.supporters[:2]))}{more(item.supporters, 2)}")
    if debated and item.status is Status.DEBATED:
        parts.append("debated")
    if (doubt := notices(item, 1)) != "":
        parts.append(doubt)
    return f" {', '.join(parts)}" if parts else ""


def more(things: Sequence[object], shown: int) -> str:
    return f" +{len(things) - shown}" if len(things) > shown else ""


def listed(names: Sequence[str], between: str = ", ", most: int = NAMED) -> str:
    """The first names, each once, and how many more there are."""
    unique = list(dict.fromkeys(names))
    return between.join(unique[:most]) + more(unique, most)


def in_quotes(text: str) -> str:
    """Somebody's words on one line between quotation marks that none of them can close."""
    inner = one_line(text).replace('"', "'")
    return f'"{inner}"'
