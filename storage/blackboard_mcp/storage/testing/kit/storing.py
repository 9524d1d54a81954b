"""Tests of stored bytes: they are counted for their writers, and bounded for owners and boards."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.board import RESERVE_BYTES
from blackboard_mcp.protocols.errors import BlackboardError, QuotaExceeded, Refused
from blackboard_mcp.protocols.items import Item

from ..harness import Table, draft
from .asking import Asking

EACH = 1_000
"""The bytes that a version counts in addition to its contents."""


def size(item: Item) -> int:
    """Returns the bytes that this version of an item counts."""
    said = [json.dumps(v, ensure_ascii=False, separators=(",", ":")) for v in (item.tags, item.metadata)]
    return EACH + sum(len(part.encode()) for part in (item.text, *said))


async def stored(at: Table, agent: str) -> int:
    """Returns the bytes that the agent has stored."""
    return (await at.store.statistics(at.board, agent)).stored_bytes


async def refused(at: Table, agent: str, limit: str, **said: Any) -> str:
    """Asserts that a post of the agent is refused and changes nothing; returns the message."""
    before = await at.seq(), await stored(at, agent)
    with pytest.raises(QuotaExceeded, match="Nothing was changed") as error:
        await at.post(agent, **({"text": "one more"} | said))
    assert error.value.facts["limit"] == limit
    assert (await at.seq(), await stored(at, agent)) == before
    return str(error.value)


class StoringTests:
    async def test_every_version_counts_for_who_wrote_it(self, at: Table) -> None:
        note = await at.post("alice", "grün: \U0001f422", tags=["a", "ß"], metadata={"n": 1, "o": ["é"]})
        assert (await stored(at, "alice"), await stored(at, "bob")) == (size(note), 0)
        first = await at.post("bob", "first", key="k", tags=["b"])
        second = await at.post("alice", "second, which is longer", key="k")
        expected = {"alice": size(note) + size(second), "bob": size(first)}
        assert {agent: await stored(at, agent) for agent in expected} == expected
        changed = await at.change("alice", note, metadata={"n": 22, "more": "x" * 50})
        longer = await at.change("alice", changed, tags=["a", "much more"])
        expected["alice"] += size(longer) - size(note)
        assert await stored(at, "alice") == expected["alice"]
        expected["bob"] += size(await at.delete("bob", "k"))
        again = await at.post("alice", "again", key="k")
        expected["alice"] += size(again)
        hidden = await at.post("carol", "hers alone", private=True)
        expected["carol"] = size(hidden)
        assert {agent: await stored(at, agent) for agent in expected} == expected

    async def test_a_character_that_a_store_writes_otherwise_counts_as_it_was_given(self, at: Table) -> None:
        first = await at.post("alice", "one \x1a\x1a and \x00", key="k", tags=["\x1a"])
        assert await stored(at, "alice") == size(first)
        second = await at.post("bob", "another \x1a", key="k")
        assert [await stored(at, agent) for agent in ("alice", "bob")] == [size(first), size(second)]
        changed = await at.change("bob", second, tags=["\x1a0"])
        assert await stored(at, "bob") == size(changed)

    async def test_what_changes_no_text_counts_nothing(self, at: Table) -> None:
        note = await at.post("alice", "a note", "HYPOTHESIS")
        was = await stored(at, "alice")
        await at.change("alice", note, status="RESOLVED")
        await at.gone(note)
        await at.store.restore(at.board, "bob", [note.number])
        with pytest.raises(BlackboardError):
            await at.post("alice", "of an entry", key="k", expected=7)
        assert (await stored(at, "alice"), await stored(at, "bob")) == (was, 0)

    async def test_agents_of_an_owner_share_a_bound_and_others_go_on(self, at: Table) -> None:
        for bot in ("bot-1", "bot-2"):
            await at.store.set_owner(bot, "mallory")
        await at.configure(owner_bytes=3 * EACH + 500)
        for n in range(3):
            await at.post(f"bot-{n % 2 + 1}", str(n))
        for agent in ("bot-1", "bot-2", "mallory"):
            told = await refused(at, agent, "owner_bytes")
            assert "mallory" in told
            assert "3,500" in told
        await at.post("alice", "of somebody else")
        await at.configure(owner_bytes=4 * EACH + 500)
        await at.post("bot-2", "there is more now")
        await refused(at, "bot-1", "owner_bytes")
        await at.configure(owner_bytes=0)
        await at.post("bot-1", "and no bound")

    async def test_an_agent_named_like_an_owner_counts_for_its_own_owner(self, at: Table) -> None:
        for agent, owner in (("acme", "mallory"), ("ana", "acme")):
            await at.store.set_owner(agent, owner)
        await at.configure(owner_bytes=2 * EACH + 500)
        claim = await at.post("ana", "a claim", "HYPOTHESIS")
        for n in range(2):
            await at.post("acme", str(n))
        assert "mallory" in await refused(at, "acme", "owner_bytes")
        await at.post("ana", "has room")
        await at.configure(owner_bytes=0)
        doubt = await at.post("acme", "no", "CRITIQUE", critiques=claim)
        with pytest.raises(Refused, match="no critique"):
            await at.withdraw("ana", doubt)
        assert (await at.item(doubt)).status == "ACTIVE"

    async def test_a_board_has_a_bound_for_all_and_others_boards_go_on(self, at: Table) -> None:
        await at.configure(board_bytes=2 * EACH + 500)
        await at.post("alice", "one")
        await at.post("bob", "two", private=True)
        for agent in ("alice", "bob", "carol"):
            told = await refused(at, agent, "board_bytes")
            assert "two" not in told
        await Table(at.store, "other").post("alice", "there is room here")

    async def test_at_the_bound_what_ends_work_is_still_taken(self, at: Table) -> None:
        claims = [await at.post("alice", f"claim {n}", "HYPOTHESIS") for n in range(3)]
        doubts = [
            await at.post("bob", f"no {n}", "CRITIQUE", critiques=claim) for n, claim in enumerate(claims)
        ]
        await at.post("alice", "an entry", key="k", tags=["long"])
        task = await at.post("alice", "to be done", "PLAN")
        await at.configure(owner_bytes=1, board_bytes=1)
        await refused(at, "alice", "owner_bytes")
        await refused(at, "alice", "owner_bytes", key="k")
        with pytest.raises(QuotaExceeded):
            await at.change("alice", task, metadata={"more": "of it"})
        answer = await at.answer("alice", doubts[0])
        await refused(at, "alice", "owner_bytes", type="REPLY", replies_to=doubts[0])
        await at.acknowledge("bob", claims[0])
        await at.withdraw("bob", doubts[1])
        await at.decide("carol", claims[2], "it stands", "carol")
        assert [await at.state(claim) for claim in claims] != ["OPEN"] * 3
        assert answer.text == "but"
        await at.change("alice", task, status="RESOLVED")
        assert (await at.change("alice", await at.item(7), tags=[])).tags == ()
        await at.delete("alice", "k")

    async def test_at_the_bound_requests_are_answered_and_calls_repeated(self, at: Table) -> None:
        posted = await at.batch("bob", draft("once"), once=Once("key", "digest"))
        asking = Asking(at)
        number = await asking.ask("alice", to="bob")
        await at.configure(owner_bytes=1)
        with pytest.raises(QuotaExceeded):
            await asking.answer("bob", number, "a part of it", partial=True)
        with pytest.raises(QuotaExceeded):
            await asking.ask("bob", to="alice")
        await asking.answer("bob", number)
        assert await asking.state(number) == "ANSWERED"
        again = await at.batch("bob", draft("once"), once=Once("key", "digest"))
        assert (again.repeated, again.items[0].id) == (True, posted.items[0].id)
        await refused(at, "bob", "owner_bytes")

    async def test_answers_that_are_owed_have_a_small_reserve(self, at: Table) -> None:
        claims = [await at.post("alice", f"claim {n}", "HYPOTHESIS") for n in range(6)]
        doubts = [
            await at.post("bob", f"no {n}", "CRITIQUE", critiques=claim) for n, claim in enumerate(claims)
        ]
        await at.configure(owner_bytes=1)
        text = "x" * 190_000
        answered = RESERVE_BYTES // (len(text) + EACH)
        for doubt in doubts[:answered]:
            await at.answer("alice", doubt, text)
        with pytest.raises(QuotaExceeded):
            await at.answer("alice", doubts[answered], text)
        assert await stored(at, "alice") <= RESERVE_BYTES + 1

    async def test_two_handles_do_not_pass_a_bound_together(self, handles: tuple[Table, Table]) -> None:
        one, two = handles
        most = 20_000
        await one.configure(owner_bytes=most)

        async def attempt(n: int) -> int:
            try:
                return size(await (one, two)[n % 2].post("alice", f"note {n:2}"))
            except QuotaExceeded:
                return 0

        taken = await asyncio.gather(*(attempt(n) for n in range(40)))
        assert sum(taken) == await stored(one, "alice") == await stored(two, "alice")
        assert most - max(taken) < sum(taken) <= most
