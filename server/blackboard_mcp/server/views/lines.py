"""The words before an item's text: its author and age, what it rests on, and who supports or opposes it.

They need no legend, except for versions (`@3`) and for ages, which count from posting.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from blackboard_mcp.protocols.access import Trust
from blackboard_mcp.protocols.items import EdgeKind, Item, Status, Visibility, Zone

from ..text.lines import agreement_line, cited, notices, one_line, relative_age, word

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
    """Returns id, writer and age of the shown version: `F-3 by bob 3m`, `P-11@3 key plan:1 by ann 2m, begun
    by bob 1h`.
    """
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
    """Returns an agent's name, or `you` for the reader."""
    return "you" if agent == reader else word(agent)


def circumstances(item: Item, *, without: frozenset[EdgeKind] = frozenset(), debated: bool = True) -> str:
    """Returns further facts to know before the text, such as visibility, edges and supporters, with a leading
    space.

    Returns an empty text without any. `without` are kinds of edges to leave out; `debated` false leaves out
    that status.
    """
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
    if item.tags:
        lowered = one_line(item.text[:400]).casefold()
        telling = [tag for tag in item.tags if tag.casefold() not in lowered]
        if telling:
            parts.append(f"tagged {' '.join(map(word, telling[:_TAGS]))}{more(telling, _TAGS)}")
    if item.cites:
        parts += _cited(item, without)
    for agreed, verb in ((True, "refuted"), (False, "disputed")) if item.contested else ():
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


def _cited(item: Item, without: frozenset[EdgeKind]) -> list[str]:
    """Returns what the item's edges say, by kind."""
    told: dict[str, list[str]] = {}
    supported = {target for kind, target in item.cites if kind is EdgeKind.SUPPORTS}
    for kind, target in item.cites:
        if kind not in without and not (kind is EdgeKind.REPLIES_TO and target in supported):
            told.setdefault(_EDGES[kind], []).append(cited(item, target))
    return [f"{verb} {' '.join(ids[:3])}{more(ids, 3)}" for verb, ids in told.items()]


def more(things: Sequence[object], shown: int) -> str:
    """Returns ` +N` for the N things beyond the first `shown`; empty where there are none."""
    return f" +{len(things) - shown}" if len(things) > shown else ""


def listed(names: Sequence[str], between: str = ", ", most: int = NAMED) -> str:
    """Returns the first `most` names, each once, and how many more there are."""
    unique = list(dict.fromkeys(names))
    return between.join(unique[:most]) + more(unique, most)
