"""Tests of endorsement: the same finding by another agent counts as support, and is stored once."""

from __future__ import annotations

from typing import Any

import pytest
from blackboard_mcp.protocols.answers import (
    Once,
    Posted,
)
from blackboard_mcp.protocols.items import Item, Zone

from ..harness import HandClock, Table, draft


async def endorsed(at: Table, agent: str, text: str, type: str = "FACT", **said: Any) -> Item | None:
    """Posts a finding, and returns the existing item that it supports; `None` if it became a new item."""
    posted = await at.batch(agent, draft(text, type, **said))
    return posted.items[0] if posted.endorsed else None


class EndorsementTests:
    @pytest.mark.parametrize("type_", ["FACT", "HYPOTHESIS", "PROBLEM", "RESULT"])
    async def test_the_same_finding_of_another_agent_is_support_of_the_first(
        self, at: Table, type_: str
    ) -> None:
        first = await at.post("alice", "The pool is exhausted", type_, importance=2, tags=["db"])
        posted = await at.batch("bob", draft("the  pool is\nexhausted.", type_, importance=5, tags=["late"]))
        assert (posted.endorsed, posted.items[0].number) == ((0,), first.number)
        now = await at.item(first)
        assert now.supporters == ("bob",)
        assert (now.text, now.tags, now.importance, now.version, now.seq) == (
            *(first.text, first.tags, first.importance, first.version, first.seq),
        )
        assert (await at.standing()).working_items == 1
        last = (await at.events())[-1]
        assert (str(last.event), last.item, last.agent, last.concerns) == (
            *("item.endorsed", first.id, "bob", ("alice",)),
        )
        assert last.data == {"tags": ["late"]}
        assert first.id in await at.attention("alice", first.seq)

    async def test_an_agent_counts_once_and_the_order_is_of_coming(self, at: Table, clock: HandClock) -> None:
        first = await at.post("alice", "a")
        for agent in ("carol", "bob", "carol", "carol"):
            clock.advance()
            assert await endorsed(at, agent, "a") is not None
        assert (await at.item(first)).supporters == ("carol", "bob")
        assert [str(e.event) for e in await at.events()][-2:] == ["item.endorsed"] * 2
        assert (await at.standing()).seq == 4

    async def test_the_author_saying_it_again_is_no_support(self, at: Table) -> None:
        first = await at.post("alice", "a")
        again = await at.batch("alice", draft("a"))
        assert again.endorsed == ()
        assert (await at.item(first)).supporters == ()

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("The pool holds 10 connections?", {}),
            ("The pool holds 100 connections", {}),
            ("The pool does not hold 10 connections", {}),
            ("The pool holds 1.0 connections", {}),
            ("The pool holds 10 connections!", {}),
            ("The pool holds 10 connections", {"type": "HYPOTHESIS"}),
            ("The pool holds 10 connections", {"key": "k"}),
            ("The pool holds 10 connections", {"private": True}),
            ("The pool holds 10 connections", {"status": "DEBATED"}),
            ("The pool holds 10 connections", {"ttl": 60.0}),
            *(
                ("The pool holds 10 connections", {kind: 1})
                for kind in ("replies_to", "critiques", "supports", "refutes", "supersedes", "depends_on")
            ),
        ],
    )
    async def test_what_differs_is_stored(self, at: Table, text: str, said: dict[str, Any]) -> None:
        await at.post("alice", "something else")
        await at.post("alice", "The pool holds 10 connections")
        posted = await at.batch("bob", draft(text, **{"type": "FACT", **said}))
        assert posted.endorsed == ()
        assert posted.items[0].number == 3
        assert posted.items[0].text == text

    @pytest.mark.parametrize(
        "type_",
        ["CRITIQUE", "REPLY", "QUESTION", "ANSWER", "LOG", "PLAN", "DECISION", "CONSTRAINT", "HOT_ISSUE"],
    )
    async def test_what_is_no_finding_is_stored_as_often_as_it_is_said(self, at: Table, type_: str) -> None:
        await at.post("alice", "a", type_)
        assert await endorsed(at, "bob", "a", type_) is None

    async def test_edges_the_first_has_are_no_difference_and_others_are(self, at: Table) -> None:
        one, two = await at.post("alice", "one"), await at.post("alice", "two")
        first = await at.post("alice", "a", depends_on=one, derived_from=two)
        same: list[dict[str, Any]] = [{}, {"depends_on": one}, {"derived_from": two, "depends_on": one}]
        for said in same:
            found = await endorsed(at, "bob", "a", **said)
            assert found is not None
            assert found.number == first.number
        assert await endorsed(at, "bob", "a", depends_on=two) is None
        assert {e.target for e in (await at.item(first)).edges} == {one.number, two.number}

    @pytest.mark.parametrize("status", ["WITHDRAWN", "INVALIDATED", "RESOLVED"])
    async def test_what_no_longer_stands_is_found_anew(self, at: Table, status: str) -> None:
        first = await at.post("alice", "a")
        await at.change("alice", first, status=status)
        assert await endorsed(at, "bob", "a") is None
        assert (await at.item(first)).supporters == ()

    async def test_what_was_superseded_is_found_anew(self, at: Table) -> None:
        first = await at.post("alice", "a")
        await at.post("alice", "better", supersedes=first)
        assert await endorsed(at, "bob", "a") is None

    async def test_what_is_debated_can_be_endorsed(self, at: Table) -> None:
        first = await at.post("alice", "a")
        await at.post("carol", "no", "CRITIQUE", critiques=first)
        found = await endorsed(at, "bob", "a")
        assert found is not None
        assert (found.supporters, found.opponents) == (("bob",), ("carol",))

    async def test_an_archived_finding_comes_back_when_it_is_found_again(self, at: Table) -> None:
        first = await at.post("alice", "a")
        await at.gone(first)
        found = await endorsed(at, "bob", "a")
        assert found is not None
        assert (found.number, found.zone) == (first.number, Zone.WORKING)
        board = await at.standing()
        assert (board.working_items, board.archived_items) == (1, 0)
        assert len((await at.store.outbox_batch(10)).ids) == 2

    async def test_a_private_finding_is_nobodys_to_endorse(self, at: Table) -> None:
        await at.post("alice", "a", private=True)
        assert await endorsed(at, "bob", "a") is None

    async def test_a_batch_endorses_creates_and_refers_to_both(self, at: Table) -> None:
        first = await at.post("alice", "a")
        posted = await at.batch(
            "bob",
            *(draft("a"), draft("b"), draft("b"), draft("c", depends_on=[-1, -2])),
        )
        assert [item.number for item in posted.items] == [1, 2, 2, 3]
        assert posted.endorsed == (0,)
        assert {e.target for e in posted.items[3].edges} == {first.number, 2}

    async def test_an_idempotency_key_gives_the_endorsement_back(self, at: Table) -> None:
        await at.post("alice", "a")
        once = Once("try", "digest")
        answers: list[Posted] = [await at.batch("bob", draft("b"), draft("a"), once=once) for _ in range(2)]
        assert [p.repeated for p in answers] == [False, True]
        assert [p.endorsed for p in answers] == [(1,), (1,)]
        assert [[i.number for i in p.items] for p in answers] == [[2, 1], [2, 1]]
        assert (await at.standing()).seq == answers[0].seq

    async def test_owners_count_and_not_agents_and_never_the_authors(
        self, at: Table, clock: HandClock
    ) -> None:
        for agent, owner in (("alice", "blue"), ("anna", "blue"), ("bob", "red"), ("ben", "red")):
            await at.store.set_owner(agent, owner)
        first = await at.post("alice", "a")
        for agent in ("anna", "ben", "bob", "carol"):
            clock.advance()
            assert await endorsed(at, agent, "a") is not None
        assert (await at.item(first)).supporters == ("ben", "carol")
        for agent in ("anna", "bob", "ben"):
            clock.advance()
            await at.post(agent, f"no says {agent}", refutes=first)
        now = await at.item(first)
        assert (now.supporters, now.opponents) == (("carol",), ("bob",))

    async def test_edges_are_support_and_opposition_while_their_items_stand(self, at: Table) -> None:
        first = await at.post("alice", "a")
        for_it = await at.post("bob", "because", supports=first)
        against = await at.post("carol", "but", refutes=first)
        critique = await at.post("dave", "no", "CRITIQUE", critiques=first)
        await at.post("erin", "just a word", "REPLY", replies_to=first)
        await at.post("alice", "my own evidence", supports=first)
        await at.post("frank", "between us", supports=first, private=True)
        now = await at.item(first)
        assert (now.supporters, now.opponents) == (("bob",), ("carol", "dave"))
        await at.change("bob", for_it, status="WITHDRAWN")
        await at.change("carol", against, status="INVALIDATED")
        await at.withdraw("dave", critique)
        now = await at.item(first)
        assert (now.supporters, now.opponents) == ((), ())

    async def test_a_critic_who_acknowledged_opposes_no_longer(self, at: Table) -> None:
        first = await at.post("alice", "a")
        one = await at.post("bob", "no", "CRITIQUE", critiques=first)
        other = await at.post("carol", "no, no", "CRITIQUE", critiques=first)
        assert (await at.item(first)).opponents == ("bob", "carol")
        for critique in (one, other):
            await at.answer("alice", critique)
        await at.acknowledge("bob", first)
        assert (await at.item(first)).opponents == ("carol",)
        await at.decide("dave", first, "enough")
        assert (await at.item(first)).opponents == ("carol",)

    async def test_who_endorsed_and_then_opposes_is_no_supporter(self, at: Table) -> None:
        first = await at.post("alice", "a")
        await endorsed(at, "bob", "a")
        objection = await at.post("bob", "it is not so", refutes=first)
        now = await at.item(first)
        assert (now.supporters, now.opponents) == ((), ("bob",))
        await at.change("bob", objection, status="WITHDRAWN")
        now = await at.item(first)
        assert (now.supporters, now.opponents) == (("bob",), ())

    async def test_endorsements_are_kept_with_what_came_with_them(self, at: Table) -> None:
        first = await at.post("alice", "a", metadata={"run": 1})
        await endorsed(at, "bob", "a", tags=["x", "y"], metadata={"run": 2})
        (kept,) = await at.store.endorsements(at.board, "carol", first.number)
        assert (kept.agent, kept.tags, kept.metadata) == ("bob", ("x", "y"), {"run": 2})
        assert (await at.item(first)).metadata == {"run": 1}
        secret = await at.post("alice", "mine", private=True)
        assert await at.store.endorsements(at.board, "bob", secret.number) == ()
