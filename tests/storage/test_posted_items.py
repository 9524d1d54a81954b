"""The item that a write answers with is the item that a reading returns right after it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from blackboard_mcp.protocols.access import Trust
from blackboard_mcp.protocols.items import Item
from blackboard_mcp.protocols.transactions import Transaction
from blackboard_mcp.storage.memory import open_memory_store
from blackboard_mcp.storage.testing.harness import CONFIG, HandClock, Table, draft


@pytest.fixture
async def at() -> AsyncIterator[Table]:
    store = await open_memory_store(clock=HandClock())
    yield Table(store)
    await store.close()


async def told(at: Table, agent: str, text: str, type: str | None = None, **said: Any) -> Item:
    """Posts an item, and checks that the answer tells of it what a reading does."""
    item = await at.post(agent, text, type, **said)
    assert item == await at.item(item, agent)
    return item


async def test_a_post_that_joins_a_conversation_answers_with_its_item_as_it_is(at: Table) -> None:
    fact, other = await told(at, "alice", "It runs."), await told(at, "alice", "It stops.")
    critique = await told(at, "bob", "Since when?", "CRITIQUE", critiques=fact)
    assert (critique.debate, critique.thread) == ("OPEN", fact.number)
    await told(at, "carol", "Who says so?", "CRITIQUE", critiques=[fact, other])
    await told(at, "dave", "And at night?", "CRITIQUE", critiques=critique, replies_to=other)
    reply = await told(at, "alice", "Since noon.", "REPLY", replies_to=critique)
    assert reply.thread_id == fact.id
    await told(at, "bob", "I see.", "REPLY", replies_to=[reply, other])
    await told(at, "bob", "For the two of us.", "REPLY", team=True, replies_to=fact)
    await told(at, "bob", "A note to myself.", "REPLY", private=True, replies_to=reply)
    await told(at, "bob", "Is it so?", "QUESTION", replies_to=reply)
    await told(at, "erin", "It joins.", thread=reply)
    await at.change("alice", other, status="WITHDRAWN")
    late = await told(at, "erin", "Why?", "CRITIQUE", critiques=other)
    assert (late.debate, late.fell) == (None, (other.id,))
    await at.store.set_trust("mallory", Trust.LOW)
    assert (await told(at, "mallory", "No.", "CRITIQUE", critiques=reply)).trust is Trust.LOW


async def test_a_new_version_answers_with_the_entry_as_it_is(at: Table) -> None:
    entry = await told(at, "alice", "1", key="pump", tags=["a"], ttl=60)
    await told(at, "bob", "2", key="pump")
    await at.delete("alice", "pump")
    await told(at, "bob", "3", key="pump")
    await at.post("carol", "Why 3?", "CRITIQUE", critiques=entry)
    await told(at, "bob", "4", key="pump", tags=["b"], metadata={"since": 1})


async def test_a_transaction_answers_with_its_items_as_they_are(at: Table) -> None:
    entry = await at.post("alice", "1", key="pump")
    done = await at.post("alice", "0", key="done")
    await at.change("alice", done, status="RESOLVED")
    fact = await at.post("bob", "It runs.")
    writes = [
        (draft("2", key="pump"), draft("1", key="valve"), draft("1", key="done")),
        (draft("3", key="pump"), draft("4", key="pump")),
        (draft("5", key="pump"), draft(None, on=entry, tags=["a"])),
        (draft("6", key="pump"), draft("No.", "CRITIQUE", critiques=[fact, entry])),
        (draft("7", key="pump"), draft("It stops.", supersedes=entry)),
    ]
    for drafts in writes:
        transaction = Transaction(reads={}, writes=drafts)
        written = await at.store.transact(at.board, "alice", transaction, config=CONFIG)
        assert [*written.items] == [await at.item(item) for item in written.items]
