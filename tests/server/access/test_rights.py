"""Rights: role × scope × action × member in one function, with what the launch says of agents by name."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, Literal

import pytest
from blackboard_mcp.protocols.access import ALL_SCOPES, EVERY_BOARD, Action, Principal, Role, Scope
from blackboard_mcp.protocols.errors import Forbidden, InvalidInput, UnknownReference
from blackboard_mcp.protocols.read_rules import ReadRule
from blackboard_mcp.server.access.needs import TOOLS
from blackboard_mcp.server.access.rights import Rights

Via = Literal["launch", "header", "token", "oauth"]
STEWARDLY = {Action.MODERATE, Action.ADMINISTER}


class Members:
    """The questions that rights ask a store, answered from a mapping; and how often one asks for a role."""

    def __init__(self, **roles: Role) -> None:
        self.roles = dict(roles)
        self.asked = 0

    async def role_of(self, board: str, agent: str) -> Role | None:
        self.asked += 1
        return self.roles.get(agent)

    async def read_rules(self) -> tuple[ReadRule, ...]:
        return ()

    async def members(self, board: str) -> dict[str, Role]:
        return dict(sorted(self.roles.items()))


def rights(members: Members | None = None, **named: Any) -> Rights:
    store: Any = members or Members()
    return Rights(store, "main", **named)


def one(name: str = "ann", role: Role = Role.ADMIN, via: Via = "token", *scopes: Scope) -> Principal:
    return Principal(name, name, {EVERY_BOARD: role}, frozenset(scopes) or ALL_SCOPES, via)


@pytest.mark.parametrize(("role", "member"), list(itertools.product(Role, (None, *Role))))
def test_without_names_it_is_as_the_principal_says(role: Role, member: Role | None) -> None:
    for scopes in (ALL_SCOPES, frozenset({Scope.READ}), frozenset({Scope.POST, Scope.ADMIN})):
        ann = Principal("ann", "ann", {EVERY_BOARD: role}, scopes, "header")
        may = rights().powers(ann, "main")[member]
        assert may == {action for action in Action if ann.may(action, "main", member)}


def test_a_list_of_stewards_narrows_who_shows_no_token() -> None:
    decide = rights(stewards=["lead"])
    assert decide.powers(one(via="header"), "main")[None] == set(Action) - STEWARDLY
    assert decide.powers(one("lead", via="header"), "main")[None] == set(Action)
    assert decide.powers(one(), "main")[None] == set(Action)


def test_a_name_on_a_list_gives_its_right_within_the_scopes() -> None:
    decide = rights(stewards=["lead"], deciders=["judge"])
    assert decide.powers(one("lead", Role.OBSERVER), "main")[None] >= STEWARDLY
    assert decide.powers(one("judge", Role.OBSERVER), "main")[None] == {Action.READ, Action.DECIDE}
    bounded = one("judge", Role.CONTRIBUTOR, "token", Scope.READ)
    assert decide.powers(bounded, "main")[None] == {Action.READ}


async def test_a_list_of_deciders_leaves_others_to_decide_with_the_word_of_one_of_those() -> None:
    decide = rights(deciders=["judge"])
    for via, agent, named in (
        ("header", "ann", ("judge",)),
        ("header", "judge", ()),
        ("token", "ann", ()),
    ):
        grant = await decide.enter(one(agent, Role.ADMIN, via), [Action.DECIDE], "main")
        assert grant.deciders == named


def test_a_members_role_stands_before_the_lists() -> None:
    decide = rights(stewards=["lead"], deciders=["judge"])
    for agent in ("lead", "judge"):
        assert decide.powers(one(agent, via="header"), "main")[Role.OBSERVER] == {Action.READ}
    assert Action.DECIDE in decide.powers(one(via="header"), "main")[Role.DECIDER]


async def test_I25_a_board_out_of_reach_is_absent_without_a_look() -> None:
    members = Members(ann=Role.ADMIN)
    ann = Principal("ann", "ann", {"main": Role.ADMIN})
    for needs in ([Action.READ], [Action.POST], list(Action)):
        with pytest.raises(UnknownReference, match="There is no board 'vault'"):
            await rights(members).enter(ann, needs, "vault")
    assert members.asked == 0
    assert rights().powers(ann, "vault") == dict.fromkeys((None, *Role), frozenset())


async def test_what_is_no_board_id_is_said_to_be_none() -> None:
    with pytest.raises(InvalidInput):
        await rights().enter(one(), [Action.READ], "no board")


async def test_reading_asks_nothing_of_the_store() -> None:
    members = Members()
    decide = rights(members)
    for _ in range(3):
        await decide.enter(one(role=Role.OBSERVER), [Action.READ], None)
    assert members.asked == 0
    for _ in range(3):
        await decide.enter(one(), [Action.POST], None)
    assert members.asked == 1


class _Hung(Members):
    """Members whose roles are told only when `told` is set, after the first time."""

    def __init__(self, **roles: Role) -> None:
        super().__init__(**roles)
        self.told = asyncio.Event()

    async def role_of(self, board: str, agent: str) -> Role | None:
        role = await super().role_of(board, agent)
        if self.asked > 1:
            await self.told.wait()
        return role


async def test_who_calls_often_never_waits_for_its_role(monkeypatch: pytest.MonkeyPatch) -> None:
    now, members = [0.0], _Hung(ann=Role.STEWARD)
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0])
    decide = rights(members)

    async def roles(*times: float) -> list[Role | None]:
        found = []
        for now[0] in times:
            found.append((await decide.enter(one(), [Action.POST], None)).member)
            await asyncio.sleep(0)
        return found

    assert await roles(0, 0.4) == [Role.STEWARD] * 2
    assert members.asked == 1
    members.roles["ann"] = Role.CONTRIBUTOR
    assert await roles(0.6, 0.9) == [Role.STEWARD] * 2
    assert members.asked == 2
    members.told.set()
    await asyncio.sleep(0)
    assert await roles(1.4) == [Role.CONTRIBUTOR]
    members.told.clear()
    late = asyncio.create_task(roles(2.7))
    await asyncio.sleep(0)
    assert not late.done(), "a role that is too old is not used"
    members.told.set()
    assert await late == [Role.CONTRIBUTOR]


async def test_a_role_that_was_forgotten_is_not_put_back_by_a_reading_that_began_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, members = [0.0], _Hung(ann=Role.STEWARD)
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0])
    decide = rights(members)
    for now[0] in (0, 0.6):
        await decide.enter(one(), [Action.POST], None)
        await asyncio.sleep(0)
    members.roles["ann"] = Role.CONTRIBUTOR
    decide.forget("main")
    members.told.set()
    await asyncio.sleep(0)
    assert (await decide.enter(one(), [Action.POST], None)).member is Role.CONTRIBUTOR


async def test_a_refusal_never_rests_on_what_is_remembered() -> None:
    members = Members(ann=Role.OBSERVER)
    decide = rights(members)
    with pytest.raises(Forbidden):
        await decide.enter(one(), [Action.POST], None)
    members.roles["ann"] = Role.CONTRIBUTOR
    grant = await decide.enter(one(), [Action.POST], None)
    assert (grant.agent, grant.board, grant.needs) == ("ann", "main", {Action.POST})


async def test_a_refusal_names_the_scope_or_the_list_that_it_takes() -> None:
    decide = rights(Members(bob=Role.STEWARD), stewards=["lead"])
    with pytest.raises(Forbidden, match="credential lacks the scope board:moderate") as refused:
        await decide.enter(one("x", Role.ADMIN, "token", Scope.READ), [Action.MODERATE], None)
    assert refused.value.facts["can"] == ["bob", "lead"]
    with pytest.raises(Forbidden, match="this server's stewards are lead"):
        await decide.enter(one("x", via="header"), [Action.MODERATE], None)
    with pytest.raises(Forbidden, match=r"takes the role steward or admin\. On 'main' bob, lead may"):
        await decide.enter(one("x", Role.CONTRIBUTOR), [Action.MODERATE], None)


def test_the_default_board_is_one_that_the_credential_reaches() -> None:
    assert rights().default_board(one()) == "main"
    assert rights().default_board(Principal("a", "a", {"side": Role.ADMIN, "main": Role.OBSERVER})) == "main"
    assert rights().default_board(Principal("a", "a", {"side": Role.ADMIN, "zoo": Role.ADMIN})) == "side"


def test_lists_leave_out_what_is_not_reached() -> None:
    ann = Principal("ann", "ann", {"b": Role.OBSERVER, "c": Role.ADMIN})
    assert rights().reached(ann, ["a", "b", "c", "d"]) == ["b", "c"]


def test_a_call_of_no_known_kind_needs_everything() -> None:
    assert TOOLS["debate"].of({"op": "new"}) == set(Action)
    assert TOOLS["consume"].of({"group": "g", "op": "new"}) == set(Action)


@pytest.mark.parametrize(
    ("arguments", "needs"),
    [
        ({"writes": [{}], "debates": [{"op": "decide"}]}, {"read", "post", "decide"}),
        ({"debates": [{"op": "vote"}, {"op": "open"}]}, {"read", "post", "acknowledge"}),
        ({"reads": {"a": 1}}, {"read"}),
        ({"group": "g", "ack": ["1.1"]}, {"read", "post"}),
    ],
)
def test_a_transaction_needs_what_all_its_parts_need(arguments: dict[str, Any], needs: set[str]) -> None:
    assert {str(action) for action in TOOLS["transaction"].of(arguments)} == needs


def test_a_change_of_title_and_members_needs_both() -> None:
    given = {"title": "x", "members": {"bob": "observer"}}
    assert TOOLS["board"].of(given) == {Action.READ, Action.MODERATE, Action.ADMINISTER}
    assert TOOLS["board"].of({"settings": {}, "members": {}}) == {Action.READ}
