"""Python, for few events, and a statement, for many, find the same events that an agent was not shown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from blackboard_mcp.protocols.answers import MOST_UNSEEN, Look
from blackboard_mcp.protocols.read_rules import ReadRule
from blackboard_mcp.storage.operations.ledger import ledger
from blackboard_mcp.storage.testing.harness import HandClock, draft
from blackboard_mcp.storage.testing.kit.filling import filled
from blackboard_mcp.storage.testing.walk.inline import inline_store


async def test_a_few_events_are_looked_through_as_many_are(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = HandClock()
    store = inline_store(clock)
    at = await filled(store, clock, resting=1)
    await store.set_read_rules([ReadRule("plans", ("alice",), key="plan:**")])
    await at.batch("alice", replace(draft("hidden", "PLAN", key="plan:z"), visibility=None))
    end, told = await at.seq(), 0
    events = await at.events("alice")
    kinds = {event.event for event in events}
    assert len(kinds) > 30
    for agent in ("alice", "bob", "carol", "dora", "nobody"):
        for place in range(0, end, 7):
            look = Look(place, above=range(place + 2, end, 3))
            found = []
            for few in (0, end):
                monkeypatch.setattr(ledger, "FEW", few)
                found.append((await store.log(at.board, agent, end, 1, look=look)).attention)
            assert found[0] == found[1], (agent, place)
            told += len(found[0].fresh)
            assert len(found[0].fresh) <= MOST_UNSEEN
    assert told > 1_000
    store.engine._raw.close()  # type: ignore[attr-defined]
