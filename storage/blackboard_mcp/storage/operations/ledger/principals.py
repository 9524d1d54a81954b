"""Owners of agents: an owner may have many agents, and counts once."""

from __future__ import annotations

from collections.abc import Iterable

from blackboard_mcp.protocols.items import Draft, Visibility
from blackboard_mcp.protocols.read_rules import ROLE, reads, rules_of
from blackboard_mcp.protocols.visibility import Viewer, team_of, visibility_of

from ...operation import Write
from .rows import BoardRow, ItemRow, Steps, dumps, sql


def owner_of(agent: str) -> Steps[str]:
    """Returns the agent's owner; the agent itself if none was named."""
    rows = yield sql("owner_of"), (agent,)
    return str(rows[0][0]) if rows else agent


def agents_of(owner: str) -> Steps[list[str]]:
    """Returns the agents who act for an owner, in the order of their names."""
    return [row[0] for row in (yield sql("agents_of"), (owner,))]


def owners_of(agents: Iterable[str]) -> Steps[dict[str, str]]:
    """Returns a map from each of the agents to its owner."""
    found = {agent: agent for agent in agents}
    if found:
        for agent, owner in (yield sql("owners_of"), (dumps(sorted(found)),)):
            found[agent] = owner
    return found


def mark(agent: str, visibility: Visibility | None, owner: str | None = None) -> Steps[str]:
    """Returns the value for an item's `owner` column that gives the item this visibility.

    It is "" for the whole board (also for `None`), the agent's name for private items, and a team's mark. The agent's
    `owner` may be known.
    """
    if visibility is Visibility.TEAM:
        return team_of(owner or (yield from owner_of(agent)))
    return agent if visibility is Visibility.PRIVATE else ""


def mark_of(agent: str, draft: Draft, owner: str | None = None) -> Steps[str]:
    """Returns the value for the `owner` column of an item that the agent's draft makes."""
    return draft.kept or (yield from mark(agent, draft.visibility, owner))


def marks(agent: str, kept: Iterable[str] = (), owner: str | None = None) -> Steps[tuple[str, ...]]:
    """Returns the marks that an entry may have which the agent names by key, nearest first.

    They are the agent's own, its team's, those of `kept` (marks of read rules), and the board's.
    """
    return (agent, (yield from mark(agent, Visibility.TEAM, owner)), *kept, "")


def marks_for(board: BoardRow, agent: str, draft: Draft, owner: str | None = None) -> Steps[tuple[str, ...]]:
    """Returns the marks of the entries, nearest first, that the agent's draft for a key may change.

    What a read rule keeps never becomes a version of an entry that the whole board or a team sees.
    """
    if draft.visibility is not None:
        return ((yield from mark(agent, draft.visibility, owner)),)
    kept: tuple[str, ...] = ()
    if rules := rules_of(board.read_rules):
        of = yield from principals(board.no, agent)
        kept = tuple(rule.of(agent, of) for rule in rules)
    found = yield from marks(agent, kept, owner)
    return (agent, draft.kept) if draft.kept else found


def principals(no: int, agent: str) -> Steps[frozenset[str]]:
    """Returns all that the agent is for read rules on a board: its name, its team's mark, its role."""
    owner, role = (yield sql("principals"), (no, agent))[0]
    return frozenset({agent, team_of(owner), ROLE + (role or "")})


def viewers(board: str, agents: Iterable[str]) -> Steps[dict[str, Viewer]]:
    """Returns a map from each agent to what it sees on a board: its team's items, and what read rules keep for it."""
    found = {}
    for agent, owner, role, rules in (yield sql("viewers"), (board, dumps(sorted(set(agents))))):
        of = (agent, team_of(owner), ROLE + (role or ""))
        kept = [rule.mark for rule in rules_of(rules or "") if reads(rule.readers, of)]
        found[agent] = Viewer(agent, owner, kept)
    return found


def audience(board: str, bears: str, names: Iterable[str]) -> Steps[list[str]]:
    """Returns those of the agents, in order, who may see an item of the board with the mark `bears`."""
    listed = list(names)
    if visibility_of(bears) is Visibility.BOARD:
        return listed
    known = yield from viewers(board, listed)
    return [name for name in listed if known[name].sees(bears)]


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
