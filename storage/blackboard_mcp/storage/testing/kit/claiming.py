"""Tests of claims: an item that supersedes or refutes another author's changes nothing until that author agrees."""

from __future__ import annotations

from typing import Any

import pytest
from blackboard_mcp.protocols.items import Contest, EdgeKind, Status, Zone
from blackboard_mcp.protocols.pruning import Plan, Workspace
from blackboard_mcp.protocols.remarks import RemarkKind

from ..harness import Table, draft


class ClaimTests:
    @pytest.mark.parametrize("kind", ["supersedes", "refutes"])
    async def test_a_claim_stands_on_the_item_and_changes_nothing(self, at: Table, kind: str) -> None:
        first = await at.post("alice", "all included: 39,000")
        said: dict[str, Any] = {kind: first}
        posted = await at.batch("bob", draft("without tax: 31,000", **said))
        claim = posted.items[0]
        remarks = [(remark.kind, [item.number for item in remark.about]) for remark in posted.remarks]
        assert remarks == [(RemarkKind.CLAIM, [first.number])]
        now = await at.item(first)
        assert now.contested == (Contest(EdgeKind(kind), claim.id, "bob", agreed=False),)
        assert (now.status, now.zone, now.seq, now.replaced_by) == (
            *(Status.ACTIVE, Zone.WORKING, first.seq, None),
        )
        assert (await at.prune(lambda space: flagged(space, first.number))).moved == ()

    async def test_its_author_agrees_by_supporting_it_and_it_is_superseded(self, at: Table) -> None:
        first = await at.post("alice", "all included: 39,000")
        resting = await at.post("carol", "we can pay it", derived_from=first)
        claim = await at.post("bob", "without tax: 31,000", supersedes=first)
        await at.post("carol", "I think so too", supports=claim)
        assert not (await at.item(first)).contested[0].agreed
        await at.post("alice", "you are right", "REPLY", supports=claim)
        now = await at.item(first)
        assert (now.contested[0].agreed, now.replaced_by, now.zone, now.status) == (
            *(True, claim.id, Zone.ARCHIVE, Status.ACTIVE),
        )
        assert [(r.id, r.status, r.by) for r in (await at.item(resting)).retracted] == [
            (first.id, "SUPERSEDED", claim.id)
        ]
        told = [(str(e.event), e.item, e.data.get("by")) for e in await at.events() if e.item == first.id]
        assert told[1:] == [("claim.agreed", first.id, claim.id), ("item.superseded", first.id, claim.id)]

    async def test_what_its_author_agrees_is_refuted_falls(self, at: Table) -> None:
        first = await at.post("alice", "the disk is full")
        claim = await at.post("bob", "df says 40 %", refutes=first)
        await at.post("alice", "I misread it", "REPLY", supports=claim)
        now = await at.item(first)
        assert (now.status, now.contested[0].agreed) == (Status.INVALIDATED, True)
        rests = await at.post("carol", "so we delete logs", "PLAN", derived_from=first)
        assert rests.fell == (first.id,)

    async def test_while_a_debate_is_open_agreement_waits_for_its_end(self, at: Table) -> None:
        first = await at.post("alice", "the disk is full")
        claim = await at.post("bob", "df says 40 %", refutes=first)
        await at.post("carol", "which disk?", "CRITIQUE", critiques=first)
        await at.post("alice", "that of bob", "REPLY", supports=claim)
        now = await at.item(first)
        assert (now.status, now.contested[0].agreed) == (Status.DEBATED, True)

    async def test_nobody_agrees_to_his_own_claim_or_for_another_owner(self, at: Table) -> None:
        for agent, owner in (("alice", "blue"), ("anna", "blue"), ("bob", "red"), ("ben", "red")):
            await at.store.set_owner(agent, owner)
        first = await at.post("alice", "a")
        claim = await at.post("bob", "b", supersedes=first)
        for agent in ("bob", "ben", "carol"):
            await at.post(agent, f"{agent} agrees", "REPLY", supports=claim)
        assert not (await at.item(first)).contested[0].agreed
        await at.post("anna", "for alice", "REPLY", supports=claim)
        assert (await at.item(first)).contested[0].agreed

    async def test_a_critique_or_a_private_note_agrees_to_nothing(self, at: Table) -> None:
        first = await at.post("alice", "a")
        claim = await at.post("bob", "b", supersedes=first)
        await at.post("alice", "no", "CRITIQUE", supports=claim)
        await at.post("alice", "perhaps", supports=claim, private=True)
        assert not (await at.item(first)).contested[0].agreed

    async def test_a_claim_that_fell_is_none_any_more(self, at: Table) -> None:
        first = await at.post("alice", "a")
        claim = await at.post("bob", "b", supersedes=first)
        await at.change("bob", claim, status="WITHDRAWN")
        assert (await at.item(first)).contested == ()

    async def test_its_own_author_replaces_at_once_and_the_newest_counts_those_before(
        self, at: Table
    ) -> None:
        first = await at.post("alice", "queue: 10")
        second = await at.post("alice", "queue: 12", supersedes=first)
        third = await at.post("alice", "queue: 9", supersedes=second)
        await at.post("alice", "another chain")
        assert (third.former, third.replaced_by) == (2, None)
        now = await at.item(first)
        assert (now.replaced_by, now.zone, now.contested[0].agreed) == (second.id, Zone.ARCHIVE, True)
        other = await at.post("bob", "mine", supersedes=third)
        assert other.former == 0

    async def test_what_is_hidden_contests_nothing_for_others(self, at: Table) -> None:
        first = await at.post("alice", "a")
        await at.post("bob", "between us", refutes=first, private=True)
        await at.post("alice", "older", supersedes=first, private=True)
        assert (await at.item(first, "carol")).contested == ()
        assert [contest.agreed for contest in (await at.item(first, "bob")).contested] == [False]
        assert [contest.agreed for contest in (await at.item(first, "alice")).contested] == [False]
        assert (await at.item(first)).zone is Zone.WORKING

    async def test_a_decision_by_who_decides_nothing_says_so(self, at: Table) -> None:
        first, other = await at.batch_of(
            "alice", draft("We go", "DECISION"), draft("We wait", "FACT"), undecided=True
        )
        assert (first.undecided, other.undecided) == (True, False)
        plan = await at.post("alice", "We go", "DECISION", key="way")
        assert not plan.undecided
        (again,) = await at.batch_of("bob", draft("We stay", key="way"), undecided=True)
        assert again.undecided
        assert not (await at.post("alice", "We go again", key="way")).undecided


class SuggestionTests:
    async def test_a_reply_is_adopted_by_what_its_author_makes_of_it(self, at: Table) -> None:
        plan = await at.post("alice", "1 count 2 verify", "PLAN")
        reply = await at.post("bob", "read the history first", "REPLY", replies_to=plan)
        assert (await at.item(plan)).status is Status.ACTIVE
        better = await at.post(
            "alice", "1 read 2 count 3 verify", "PLAN", supersedes=plan, derived_from=reply
        )
        assert (await at.item(reply)).adopted_in == better.id

    async def test_a_new_version_adopts_as_well(self, at: Table) -> None:
        plan = await at.post("alice", "1 count", "PLAN", key="plan")
        reply = await at.post("bob", "read first", "REPLY", replies_to=plan)
        assert (await at.item(reply)).adopted_in is None
        await at.post("alice", "1 read 2 count", "PLAN", key="plan", derived_from=reply)
        assert (await at.item(reply)).adopted_in == plan.id

    async def test_citing_a_reply_elsewhere_or_by_another_adopts_nothing(self, at: Table) -> None:
        plan = await at.post("alice", "1 count", "PLAN")
        reply = await at.post("bob", "read first", "REPLY", replies_to=plan)
        await at.post("alice", "bob reads", derived_from=reply)
        await at.post("carol", "my plan", "PLAN", supersedes=plan, derived_from=reply)
        await at.post("alice", "mine alone", "PLAN", supersedes=plan, derived_from=reply, private=True)
        assert (await at.item(reply, "bob")).adopted_in is None


def flagged(space: Workspace, number: int) -> Plan:
    """Returns an empty plan; fails if the item counts as superseded for a pass."""
    (shown,) = [c for c in space.candidates if c.number == number]
    assert not shown.superseded
    return Plan()
