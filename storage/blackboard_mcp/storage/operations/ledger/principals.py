"""Owners of agents: an owner may have many agents, and counts once."""

from __future__ import annotations

from collections.abc import Iterable

from blackboard_mcp.protocols.items import Visibility
from blackboard_mcp.protocols.visibility import team_of, visibility_of

from ...operation import Write
from .rows import ItemRow, Steps, dumps, sql


def owner_of(agent: str) -> Steps[str]:
    """The agent's owner; the agent itself when nothing else was said."""
    rows = yield sql("owner_of"), (agent,)
    return str(rows[0][0]) if rows else agent


def agents_of(owner: str) -> Steps[list[str]]:
    """The agents who act for an owner, the one of that name first."""
    return [owner, *(row[0] for row in (yield sql("agents_of"), (owner,)))]


def owners_of(agents: Iterable[str]) -> Steps[dict[str, str]]:
    """The owner of each of the agents."""
    found = {agent: agent for agent in agents}
    if found:
        for agent, owner in (yield sql("owners_of"), (dumps(sorted(found)),)):
            found[agent] = owner
    return found


def mark(agent: str, visibility: Visibility | None) -> Steps[str]:
    """What an item bears that the agent posts to be seen so; not said, the board sees it."""
    if visibility is Visibility.TEAM:
        return team_of((yield from owner_of(agent)))
    return agent if visibility is Visibility.PRIVATE else ""


def marks(agent: str, visibility: Visibility | None = None) -> Steps[tuple[str, ...]]:
    """The marks that an entry may bear which the agent names by its key, the agent's own before its team's before
    the board's; of one visibility where that is said."""
    if visibility is not None:
        return ((yield from mark(agent, visibility)),)
    return (agent, (yield from mark(agent, Visibility.TEAM)), "")


def audience(bears: str, names: Iterable[str]) -> Steps[list[str]]:
    """Those of some agents who see what bears the mark, in order."""
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
    """Who wrote the item as it stands: its author, or of an entry whoever gave it its present version."""
    rows = (yield sql("written_by"), (row.board, row.number)) if row.version > 1 else ()
    return str(rows[0][0]) if rows else row.author


def behind(row: ItemRow) -> Steps[set[str]]:
    """The owners of the item's author and of who wrote it as it stands: none of them closes a debate on it."""
    writer = yield from writer_of(row)
    return set((yield from owners_of({row.author, writer})).values())


def set_owner(write: Write, agent: str, owner: str) -> Steps[None]:
    if owner == agent:
        yield sql("owner_drop"), (agent,)
    else:
        yield sql("owner_set"), (agent, owner)
