"""Owners of agents: an owner may have many agents, and counts once."""

from __future__ import annotations

from collections.abc import Iterable

from blackboard_mcp.protocols.items import Visibility
from blackboard_mcp.protocols.visibility import team_of, visibility_of

from ...operation import Write
from .rows import ItemRow, Steps, dumps, sql


def owner_of(agent: str) -> Steps[str]:
    """Returns the agent's owner; the agent itself if none was named."""
    rows = yield sql("owner_of"), (agent,)
    return str(rows[0][0]) if rows else agent


def agents_of(owner: str) -> Steps[list[str]]:
    """Returns the agents who act for an owner, first the one with the owner's own name."""
    return [owner, *(row[0] for row in (yield sql("agents_of"), (owner,)))]


def owners_of(agents: Iterable[str]) -> Steps[dict[str, str]]:
    """Returns a map from each of the agents to its owner."""
    found = {agent: agent for agent in agents}
    if found:
        for agent, owner in (yield sql("owners_of"), (dumps(sorted(found)),)):
            found[agent] = owner
    return found


def mark(agent: str, visibility: Visibility | None) -> Steps[str]:
    """Returns the value for an item's `owner` column that gives the item this visibility.

    It is "" for the whole board (also for `None`), the agent's name for private items, and a team's mark.
    """
    if visibility is Visibility.TEAM:
        return team_of((yield from owner_of(agent)))
    return agent if visibility is Visibility.PRIVATE else ""


def marks(agent: str, visibility: Visibility | None = None) -> Steps[tuple[str, ...]]:
    """Returns the marks that an entry may have which the agent names by key, nearest first: own, team, board.

    If `visibility` is given, it returns only that visibility's mark.
    """
    if visibility is not None:
        return ((yield from mark(agent, visibility)),)
    return (agent, (yield from mark(agent, Visibility.TEAM)), "")


def audience(bears: str, names: Iterable[str]) -> Steps[list[str]]:
    """Returns those of the agents, in order, who may see an item with the mark `bears`."""
    listed = list(names)
    match visibility_of(bears):
        case Visibility.BOARD:
            return listed
        case Visibility.PRIVATE:
            return [name for name in listed if name == bears]
        case Visibility.TEAM:
            owners = yield from owners_of(listed)
            return [name for name in listed if team_of(owners[name]) == bears]


def writer_of(row: ItemRow) -> Steps[str]:
    """Returns who wrote the item's present version; for its first version, the author."""
    rows = (yield sql("written_by"), (row.board, row.number)) if row.version > 1 else ()
    return str(rows[0][0]) if rows else row.author


def behind(row: ItemRow) -> Steps[set[str]]:
    """Returns the owners of the item's author and of its present writer; none of them may close a debate on it."""
    writer = yield from writer_of(row)
    return set((yield from owners_of({row.author, writer})).values())


def set_owner(write: Write, agent: str, owner: str) -> Steps[None]:
    """Records that the agent acts for `owner` from now on; its own name makes it act for itself."""
    if owner == agent:
        yield sql("owner_drop"), (agent,)
    else:
        yield sql("owner_set"), (agent, owner)
