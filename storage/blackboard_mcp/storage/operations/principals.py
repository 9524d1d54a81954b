"""Whom agents act for: one owner may have many agents, and counts once."""

from __future__ import annotations

from collections.abc import Iterable

from .rows import Steps, dumps, sql


def owner_of(agent: str) -> Steps[str]:
    """The agent's owner; the agent itself when nothing else was said."""
    rows = yield sql("owner_of"), (agent,)
    return str(rows[0][0]) if rows else agent


def owners_of(agents: Iterable[str]) -> Steps[dict[str, str]]:
    """The owner of each of the agents."""
    found = {agent: agent for agent in agents}
    if found:
        for agent, owner in (yield sql("owners_of"), (dumps(sorted(found)),)):
            found[agent] = owner
    return found


def set_owner(agent: str, owner: str) -> Steps[None]:
    if owner == agent:
        yield sql("owner_drop"), (agent,)
    else:
        yield sql("owner_set"), (agent, owner)
