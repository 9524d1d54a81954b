"""A check that several suites make: to an agent that may not see an item, a board is one without it."""

from __future__ import annotations

import pytest
from blackboard_mcp.protocols.errors import UnknownReference
from blackboard_mcp.protocols.items import Item, Ref

from ..harness import Table


async def absent(at: Table, agent: str, hidden: Item, public: Item) -> None:
    """Asserts that no path leads an agent to an item with a key and a tag, which cites the only other item."""
    key = hidden.key or ""
    found = await at.store.read(at.board, agent, [Ref(hidden.number)], [key])
    assert (found.items, await at.attention(agent)) == ((), ()), agent
    for wanted in ({}, {"text": "ours"}, {"key": "**"}, {"key": key}, {"tags": hidden.tags}):
        assert hidden.number not in await at.query(agent, **wanted, zone=None), (agent, wanted)
    assert (await at.item(public, agent)).cited_by == ()
    assert await at.store.tags(at.board, agent) == []
    assert hidden.id not in [event.item for event in await at.events(agent)]
    assert await at.store.history(at.board, agent, hidden.number) == ()
    assert await at.store.versions(at.board, agent, key) is None
    assert await at.store.unindexed(at.board, agent, 10) == []
    counted = (await at.store.statistics(at.board, agent)).counts
    assert sum(items for items, _ in counted.values()) == 1
    snapshot = await at.store.snapshot(at.board, agent)
    assert snapshot.hidden == 0
    assert (await at.store.explain(at.board, agent, [])).tokens == public.tokens
    assert hidden.number not in snapshot.protected
    with pytest.raises(UnknownReference):
        await at.post(agent, "x", supports=hidden)
