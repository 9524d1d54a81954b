"""Tests of members: the roles that a board gives, and writes under valid and invalid grants."""

from __future__ import annotations

import asyncio

import pytest
from blackboard_mcp.protocols.access import POWERS, Action, Role
from blackboard_mcp.protocols.board import BoardChange
from blackboard_mcp.protocols.errors import Forbidden, Refused
from blackboard_mcp.protocols.events import Event
from blackboard_mcp.protocols.grants import Grant, under, without

from ..harness import CONFIG, Table, draft
from .repeating import CALLS

_EVERYTHING = frozenset(Action)


def grant(
    agent: str, *needs: Action, own: Role = Role.ADMIN, within: frozenset[Action] = _EVERYTHING
) -> Grant:
    """Returns a grant for an agent whose credential has the role `own` and allows no action outside `within`."""
    powers = {role: POWERS[role or own] & within for role in (None, *Role)}
    return Grant(agent, "main", frozenset(needs), powers)


async def _give(at: Table, by: str = "alice", **roles: Role | None) -> None:
    await at.store.change_board(at.board, by, BoardChange(members=dict(roles)))


async def _told(at: Table) -> list[Event]:
    return [event for event in await at.events() if event.event == "member.changed"]


class MemberTests:
    async def test_a_board_gives_roles_and_takes_them_away(self, at: Table) -> None:
        await at.post("alice", "a claim")
        assert await at.store.members(at.board) == {}
        await _give(at, bob=Role.OBSERVER, carol=Role.DECIDER)
        await _give(at, bob=Role.STEWARD)
        assert list((await at.store.members(at.board)).items()) == [
            ("bob", Role.STEWARD),
            ("carol", Role.DECIDER),
        ]
        assert await at.store.role_of(at.board, "bob") is Role.STEWARD
        await _give(at, bob=None)
        assert await at.store.members(at.board) == {"carol": Role.DECIDER}
        assert await at.store.role_of(at.board, "bob") is None
        assert [(e.agent, e.data) for e in await _told(at)] == [
            ("alice", {"member": "bob", "role": "observer", "was": None}),
            ("alice", {"member": "carol", "role": "decider", "was": None}),
            ("alice", {"member": "bob", "role": "steward", "was": "observer"}),
            ("alice", {"member": "bob", "role": None, "was": "steward"}),
        ]

    async def test_a_role_given_again_is_no_change(self, at: Table) -> None:
        await at.post("alice", "a claim")
        await _give(at, bob=Role.OBSERVER)
        before = await at.seq()
        await _give(at, bob=Role.OBSERVER, carol=None)
        assert await at.seq() == before

    async def test_members_are_of_their_board_alone(self, at: Table) -> None:
        await at.post("alice", "a claim")
        await at.store.ensure_board("other", "alice", CONFIG)
        await _give(at, bob=Role.OBSERVER)
        assert await at.store.members("other") == {}
        assert await at.store.role_of("other", "bob") is None
        assert await at.store.role_of("nowhere", "bob") is None
        assert await at.store.members("nowhere") == {}

    @pytest.mark.parametrize("method", CALLS)
    async def test_no_write_passes_under_a_grant_that_holds_no_more(self, at: Table, method: str) -> None:
        call = await CALLS[method](at)
        agent = "erin" if method == "debate_decide" else "carol"
        await _give(at, **{agent: Role.OBSERVER})
        before = await at.seq()
        with under(grant(agent, Action.POST)), pytest.raises(Forbidden, match="observer on 'main' stopped"):
            await call(None)
        assert await at.seq() == before
        await _give(at, **{agent: Role.ADMIN})
        with under(grant(agent, Action.POST)):
            await call(None)

    async def test_a_role_that_was_taken_away_leaves_what_the_credential_says(self, at: Table) -> None:
        await at.post("alice", "a claim")
        await _give(at, bob=Role.CONTRIBUTOR)
        let_in = grant("bob", Action.POST, own=Role.OBSERVER)
        with under(let_in):
            await at.post("bob", "with the role")
        await _give(at, bob=None)
        before = await at.seq()
        with under(let_in), pytest.raises(Forbidden, match="your role on 'main' stopped allowing: post"):
            await at.post("bob", "without")
        assert await at.seq() == before

    async def test_of_a_post_and_the_loss_of_its_role_the_first_to_commit_counts(self, at: Table) -> None:
        await at.post("alice", "a claim")
        await _give(at, bob=Role.CONTRIBUTOR)
        posting, refused = 0, 0

        async def post(n: int) -> None:
            nonlocal posting, refused
            with under(grant("bob", Action.POST, own=Role.OBSERVER)):
                try:
                    await at.batch("bob", draft(f"post {n}"))
                    posting += 1
                except Forbidden:
                    refused += 1

        async def lose() -> None:
            with under(None):
                await _give(at, bob=Role.OBSERVER)

        await asyncio.gather(*(lose() if n == 20 else post(n) for n in range(40)))
        (lost,) = [e.seq for e in await _told(at) if e.data["role"] == "observer"]
        events = await at.events()
        assert [e.seq for e in events if e.agent == "bob" and e.seq > lost] == []
        assert sum(e.agent == "bob" for e in events) == posting
        assert posting + refused == 39
        assert refused > 0

    async def test_what_a_call_only_sets_off_is_under_no_grant(self, at: Table) -> None:
        await at.post("alice", "a claim")
        await _give(at, bob=Role.OBSERVER)
        with under(grant("bob", Action.POST)):
            await asyncio.create_task(at.gone(1), context=without())

    @pytest.mark.parametrize(
        ("before", "after"), [(None, Role.STEWARD), (Role.STEWARD, Role.OBSERVER), (Role.ADMIN, None)]
    )
    async def test_nobody_gives_or_takes_more_than_they_may_themselves(
        self, at: Table, before: Role | None, after: Role | None
    ) -> None:
        await at.post("alice", "a claim")
        await _give(at, bob=before)
        seq = await at.seq()
        within = _EVERYTHING - {Action.MODERATE}
        with under(grant("carol", Action.ADMINISTER, within=within)):
            with pytest.raises(Forbidden, match="that role may moderate, and you may not"):
                await _give(at, "carol", bob=after)
            assert await at.seq() == seq
            await _give(at, "carol", dora=Role.DECIDER)

    async def test_an_admin_does_not_lock_themselves_out(self, at: Table) -> None:
        await at.post("alice", "a claim")
        await _give(at, alice=Role.ADMIN)
        seq = await at.seq()
        let_in = grant("alice", Action.ADMINISTER, own=Role.CONTRIBUTOR)
        for role in (Role.OBSERVER, None):
            with under(let_in), pytest.raises(Refused, match="no longer administer 'main'"):
                await _give(at, bob=Role.OBSERVER, alice=role)
        assert await at.seq() == seq
        assert await at.store.members(at.board) == {"alice": Role.ADMIN}

    async def test_of_two_admins_who_unmake_each_other_one_stays(self, at: Table) -> None:
        await at.post("alice", "a claim")
        await _give(at, bob=Role.ADMIN, carol=Role.ADMIN)

        async def unmake(by: str, whom: str) -> bool:
            with under(grant(by, Action.ADMINISTER, own=Role.OBSERVER)):
                try:
                    await _give(at, by, **{whom: Role.OBSERVER})
                except Forbidden:
                    return False
                return True

        assert sorted(await asyncio.gather(unmake("bob", "carol"), unmake("carol", "bob"))) == [False, True]
        assert list((await at.store.members(at.board)).values()).count(Role.ADMIN) == 1
