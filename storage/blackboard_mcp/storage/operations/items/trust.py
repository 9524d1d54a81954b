"""Trust in items: that of the least trusted of their writers, or of the items that they summarise."""

from __future__ import annotations

from collections.abc import Iterable

from blackboard_mcp.protocols.access import Trust

from ...operation import Write
from ..ledger.rows import Steps, numbers, sql

_RANKED = (Trust.LOW, Trust.NORMAL, Trust.HIGH)


def lowest(trusts: Iterable[Trust]) -> Trust:
    """The least of them; `NORMAL` of none."""
    return min(trusts, key=_RANKED.index, default=Trust.NORMAL)


def set_trust(write: Write, agent: str, trust: Trust) -> Steps[None]:
    """What the agent posts from now on is to be relied on so far."""
    if trust is Trust.NORMAL:
        yield sql("agent_trust_drop"), (agent,)
    else:
        yield sql("agent_trust_put"), (agent, str(trust))


def trust_of_agent(agent: str) -> Steps[Trust]:
    rows = yield sql("agent_trust"), (agent,)
    return Trust(rows[0][0]) if rows else Trust.NORMAL


def trusts(no: int, asked: Iterable[int]) -> Steps[dict[int, Trust]]:
    """Of those of the items that are not relied on as usual, how far they are."""
    return {row[0]: Trust(row[1]) for row in (yield sql("trust_of"), (no, numbers(asked)))}


def posted(no: int, number: int, agent: str) -> Steps[None]:
    """A new item is relied on as its author is."""
    trust = yield from trust_of_agent(agent)
    if trust is not Trust.NORMAL:
        yield sql("item_trust_put"), (no, number, str(trust))


def lower(no: int, number: int, others: Iterable[Trust]) -> Steps[None]:
    """The item is relied on no further than any of `others`."""
    found = yield from trusts(no, [number])
    before = found.get(number, Trust.NORMAL)
    trust = lowest([before, *others])
    if trust is before:
        return
    if trust is Trust.NORMAL:
        yield sql("item_trust_drop"), (no, number)
    else:
        yield sql("item_trust_put"), (no, number, str(trust))


def summarised(no: int, number: int, sources: Iterable[int]) -> Steps[None]:
    """A summary is relied on no further than any of its sources, nor than who wrote it."""
    listed = list(sources)
    found = yield from trusts(no, listed)
    yield from lower(no, number, [found.get(source, Trust.NORMAL) for source in listed])


def rewritten(no: int, number: int, agent: str) -> Steps[None]:
    """An entry is relied on no further than any of those who wrote it."""
    yield from lower(no, number, [(yield from trust_of_agent(agent))])
