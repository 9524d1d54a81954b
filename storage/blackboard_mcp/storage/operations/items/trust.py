"""Trust in items: the lowest trust among their writers, or among the items that they summarise."""

from __future__ import annotations

from collections.abc import Iterable

from blackboard_mcp.protocols.access import Trust

from ...operation import Write
from ..ledger.rows import Steps, numbers, sql

_RANKED = (Trust.LOW, Trust.NORMAL, Trust.HIGH)


def lowest(trusts: Iterable[Trust]) -> Trust:
    """Returns the lowest of them; `NORMAL` if there are none."""
    return min(trusts, key=_RANKED.index, default=Trust.NORMAL)


def set_trust(write: Write, agent: str, trust: Trust) -> Steps[None]:
    """Sets the trust in what the agent posts from now on."""
    if trust is Trust.NORMAL:
        yield sql("agent_trust_drop"), (agent,)
    else:
        yield sql("agent_trust_put"), (agent, str(trust))


def trust_of_agent(agent: str) -> Steps[Trust]:
    """Returns the trust that an agent's posts get; `NORMAL` if none was set."""
    rows = yield sql("agent_trust"), (agent,)
    return Trust(rows[0][0]) if rows else Trust.NORMAL


def trusts(no: int, asked: Iterable[int]) -> Steps[dict[int, Trust]]:
    """Returns the trust in the items by number, without those whose trust is `NORMAL`; `no` is the board's number."""
    return {row[0]: Trust(row[1]) for row in (yield sql("trust_of"), (no, numbers(asked)))}


def posted(no: int, number: int, agent: str, known: Trust | None = None) -> Steps[None]:
    """Gives a new item the trust in its author, which may be `known`."""
    trust = known or (yield from trust_of_agent(agent))
    if trust is not Trust.NORMAL:
        yield sql("item_trust_put"), (no, number, str(trust))


def lower(no: int, number: int, others: Iterable[Trust]) -> Steps[None]:
    """Lowers the trust in an item to the lowest of `others`, if that is lower."""
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
    """Lowers the trust in a summary to the lowest among its sources."""
    listed = list(sources)
    found = yield from trusts(no, listed)
    yield from lower(no, number, [found.get(source, Trust.NORMAL) for source in listed])


def rewritten(no: int, number: int, agent: str) -> Steps[None]:
    """Lowers the trust in an entry to that in the agent who wrote a new version."""
    yield from lower(no, number, [(yield from trust_of_agent(agent))])
