"""Tests of agreement: an author asks for it, the agents asked owe an answer, and the item shows who agreed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from blackboard_mcp.protocols.agreements import Agreement, Ask
from blackboard_mcp.protocols.debates import Duty
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, QuotaExceeded, Refused
from blackboard_mcp.protocols.items import Item, Status, Zone

from ..harness import HandClock, Table, Target, draft

PRESENCE = 900


async def asked(at: Table, agent: str, text: str, type: str = "DECISION", *, ask: Ask, **said: Any) -> Item:
    """Posts an item that asks for agreement, and returns it."""
    return (await at.batch(agent, replace(draft(text, type, **said), agree=ask))).items[0]


async def ask_on(at: Table, agent: str, item: Target, ask: Ask) -> Item:
    """Asks for agreement to an existing item, and returns it."""
    return (await at.batch(agent, replace(draft(None, on=item), agree=ask))).items[0]


class AgreementTests:
    async def test_who_is_asked_owes_a_word_and_holds_the_item(self, at: Table) -> None:
        item = await asked(at, "alice", "We go by train", ask=Ask(("bob", "carol")))
        assert item.agreement == Agreement(waiting=("bob", "carol"))
        assert (item.status, item.debate) == (Status.ACTIVE, None)
        assert await at.owed("bob") == {(item.number, Duty.AGREE)}
        assert item.id in await at.attention("bob")
        assert await at.held(item) == {item.number}
        assert (await at.gone(item)).moved == ()
        event = (await at.events())[-1]
        assert (str(event.event), event.data, set(event.concerns)) == (
            *("agreement.asked", {"agents": ["bob", "carol"]}, {"bob", "carol"}),
        )

    async def test_it_is_agreed_once_all_acknowledged(self, at: Table) -> None:
        item = await asked(at, "alice", "We go", ask=Ask(("bob", "carol")))
        await at.acknowledge("bob", item)
        assert (await at.item(item)).agreement == Agreement(agreed=("bob",), waiting=("carol",))
        await at.acknowledge("carol", item)
        assert (await at.item(item)).agreement == Agreement(agreed=("bob", "carol"), reached=True)
        told = [(str(e.event), e.data) for e in await at.events()][-2:]
        assert told == [
            ("agreement.given", {"version": 1}),
            ("agreement.reached", {"agreed": ["bob", "carol"]}),
        ]
        assert await at.held(item) == set()
        with pytest.raises(Conflict):
            await at.acknowledge("bob", item)

    async def test_a_number_suffices_and_the_others_are_let_off(self, at: Table) -> None:
        item = await asked(at, "alice", "We go", "PLAN", ask=Ask(("bob", "carol", "dora"), enough=2))
        await at.acknowledge("dora", item)
        await at.acknowledge("bob", item)
        now = (await at.item(item)).agreement
        assert now == Agreement(agreed=("bob", "dora"), enough=2, reached=True)
        assert await at.owed("carol") == set()
        assert (await at.events())[-1].data == {
            "watcher": "carol",
            "duty": "agree",
            "reason": "enough agreed",
        }

    async def test_owners_count_and_the_authors_own_agents_cannot_be_asked(self, at: Table) -> None:
        for agent, owner in (("alice", "blue"), ("anna", "blue"), ("bob", "red"), ("ben", "red")):
            await at.store.set_owner(agent, owner)
        with pytest.raises(InvalidInput, match="another owner's"):
            await asked(at, "alice", "We go", ask=Ask(("anna", "bob")))
        with pytest.raises(InvalidInput, match="count as 1"):
            await asked(at, "alice", "We go", ask=Ask(("bob", "ben"), enough=2))
        item = await asked(at, "alice", "We go", ask=Ask(("bob", "ben", "carol"), enough=2))
        await at.acknowledge("bob", item)
        await at.acknowledge("ben", item)
        now = (await at.item(item)).agreement
        assert now is not None
        assert not now.reached

    async def test_everybody_is_who_is_there_but_the_author_and_those_who_only_look_on(
        self, at: Table, clock: HandClock
    ) -> None:
        await at.store.set_owner("anna", "alice")
        await at.post("gone", "earlier")
        clock.advance(PRESENCE + 1)
        for agent in ("bob", "anna", "carol"):
            clock.advance()
            await at.post(agent, f"{agent} is here")
        item = await asked(at, "alice", "We go", ask=Ask(everybody=True))
        assert item.agreement is not None
        assert set(item.agreement.waiting) == {"bob", "carol"}

    async def test_nobody_to_ask_is_refused_and_nothing_is_posted(self, at: Table) -> None:
        await at.post("alice", "alone")
        with pytest.raises(Refused, match="Nobody else"):
            await asked(at, "alice", "We go", ask=Ask(everybody=True))
        assert await at.query() == [1]

    async def test_an_item_that_stands_is_asked_about_by_its_author_alone(self, at: Table) -> None:
        item = await at.post("alice", "We go", "DECISION")
        with pytest.raises(Refused, match="Only alice"):
            await ask_on(at, "bob", item, Ask(("carol",)))
        await at.gone(item)
        now = await ask_on(at, "alice", item, Ask(("carol",)))
        assert (now.zone, now.agreement) == (Zone.WORKING, Agreement(waiting=("carol",)))
        await ask_on(at, "alice", item, Ask(("bob",)))
        now = await at.item(item)
        assert now.agreement is not None
        assert set(now.agreement.waiting) == {"bob", "carol"}
        await at.change("alice", item, status="RESOLVED")
        with pytest.raises(Conflict, match="RESOLVED"):
            await ask_on(at, "alice", item, Ask(("bob",)))

    @pytest.mark.parametrize("said", [{"type": "REPLY"}, {"type": "LOG"}, {"private": True}])
    async def test_what_is_no_decision_of_the_board_is_not_agreed_to(
        self, at: Table, said: dict[str, Any]
    ) -> None:
        with pytest.raises(InvalidInput, match="agree goes with"):
            await asked(at, "alice", "hm", ask=Ask(("bob",)), **{"type": "DECISION", **said})

    async def test_a_post_that_supports_it_agrees_if_its_author_was_asked(self, at: Table) -> None:
        item = await asked(at, "alice", "We go", ask=Ask(("bob", "carol")))
        await at.post("dora", "fine", "REPLY", supports=item)
        await at.post("carol", "hidden", "REPLY", supports=item, private=True)
        await at.post("bob", "fine with me", "REPLY", supports=item)
        assert (await at.item(item)).agreement == Agreement(agreed=("bob",), waiting=("carol",))

    async def test_a_new_version_asks_again(self, at: Table) -> None:
        item = await asked(at, "alice", "We go", ask=Ask(("bob", "carol")), key="way")
        await at.acknowledge("bob", item)
        await at.post("alice", "We stay", "DECISION", key="way")
        assert (await at.item(item)).agreement == Agreement(waiting=("bob", "carol"))
        await at.acknowledge("carol", item)
        await at.acknowledge("bob", item)
        now = await at.item(item)
        assert now.agreement is not None
        assert now.agreement.reached
        met = [e for e in await at.events() if str(e.event) == "agreement.given"]
        assert [(e.agent, e.data["version"]) for e in met] == [("bob", 1), ("carol", 2), ("bob", 2)]

    async def test_a_critique_opens_a_debate_and_what_was_agreed_stays(self, at: Table) -> None:
        item = await asked(at, "alice", "We go", ask=Ask(("bob", "carol")))
        await at.acknowledge("bob", item)
        await at.post("carol", "It rains", "CRITIQUE", critiques=item)
        now = await at.item(item)
        assert (now.status, now.agreement) == (
            *(Status.DEBATED, Agreement(agreed=("bob",), waiting=("carol",))),
        )
        await at.acknowledge("carol", item)
        assert (await at.item(item)).status is Status.DEBATED
        now = await at.item(item)
        assert now.agreement is not None
        assert now.agreement.reached

    @pytest.mark.parametrize("how", ["WITHDRAWN", "INVALIDATED", "RESOLVED", "superseded"])
    async def test_what_no_longer_stands_asks_nobody_any_more(self, at: Table, how: str) -> None:
        item = await asked(at, "alice", "We go", ask=Ask(("bob", "carol")))
        await at.acknowledge("bob", item)
        if how == "superseded":
            await at.post("alice", "We fly", "DECISION", supersedes=item)
            assert await at.zone(item) is Zone.ARCHIVE
        else:
            await at.change("alice", item, status=how)
        assert await at.owed("carol") == set()
        now = await at.item(item)
        assert now.agreement is not None
        assert (now.agreement.agreed, now.agreement.waiting) == (("bob",), ())
        await at.post("carol", "late", "REPLY", supports=item)
        assert (await at.item(item)).agreement == now.agreement

    async def test_who_comes_for_a_moment_only_waits_for_nobody_longer_than_three_days(
        self, at: Table, clock: HandClock
    ) -> None:
        item = await asked(at, "alice", "We go", ask=Ask(("bob",)))
        for hours in (24, 24, 23):
            clock.advance(hours * 3_600)
            await at.here("alice", clock.now())
            await at.store.sweep_debates()
            assert await at.owed("bob") == {(item.number, Duty.AGREE)}, "it has just come"
        clock.advance(3_600)
        await at.here("alice", clock.now())
        assert await at.store.sweep_debates() == [at.board]
        assert await at.owed("bob") == set()

    async def test_who_stays_away_is_let_off_while_the_author_is_there_and_may_come_back(
        self, at: Table, clock: HandClock
    ) -> None:
        item = await asked(at, "alice", "We go", ask=Ask(("bob", "carol")))
        await at.acknowledge("bob", item)
        clock.advance(PRESENCE + 1)
        await at.here("alice", clock.now())
        assert await at.store.sweep_debates() == [], "she was away herself"
        clock.advance(PRESENCE)
        assert await at.store.sweep_debates() == []
        await at.here("alice", clock.now())
        assert await at.store.sweep_debates() == [at.board]
        assert (await at.item(item)).agreement == Agreement(agreed=("bob",), away=("carol",), reached=True)
        await at.acknowledge("carol", item)
        assert (await at.item(item)).agreement == Agreement(agreed=("bob", "carol"), reached=True)
        assert await at.store.sweep_debates() == []

    async def test_what_an_author_has_others_asked_about_is_held_on_the_authors_account(
        self, at: Table
    ) -> None:
        await at.post("bob", "here")
        text = "We go " + "word " * 200
        for n in range(4):
            await asked(at, "alice", f"{n} {text}", ask=Ask(("bob",)))
        with pytest.raises(QuotaExceeded):
            await asked(at, "alice", text * 100, ask=Ask(("bob",)))
        await at.post("bob", "here still", "CONSTRAINT")

    async def test_the_same_post_again_asks_for_agreement(self, at: Table) -> None:
        item = await at.post("alice", "We go", "DECISION")
        again = await asked(at, "alice", "We go", ask=Ask(("bob",)))
        assert (again.number, again.agreement) == (item.number, Agreement(waiting=("bob",)))
