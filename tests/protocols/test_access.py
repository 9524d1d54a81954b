"""Roles, scopes and principals."""

from __future__ import annotations

import pytest
from blackboard_mcp.protocols.access import ALL_SCOPES, POWERS, SCOPED, Action, Principal, Role, Scope

CONTRIBUTES = {"read", "post", "acknowledge", "summarise"}
MAY = {
    "observer": {"read"},
    "summariser": {"read", "summarise"},
    "contributor": CONTRIBUTES,
    "decider": CONTRIBUTES | {"decide"},
    "steward": CONTRIBUTES | {"moderate"},
    "admin": CONTRIBUTES | {"decide", "moderate", "administer"},
}


def principal(*, scopes: frozenset[Scope] = ALL_SCOPES, **roles: Role) -> Principal:
    return Principal(
        "ann", "team-a", {name.replace("every", "*"): role for name, role in roles.items()}, scopes
    )


@pytest.mark.parametrize("role", Role)
def test_each_role_may_do_exactly_what_its_row_says(role: Role) -> None:
    assert {action.value for action in Action if principal(every=role).may(action, "main")} == MAY[role]


def test_every_role_and_scope_has_a_row_and_every_action_stands_under_one_scope() -> None:
    assert set(POWERS) == set(Role)
    assert set(SCOPED) == set(Scope)
    assert sorted(action for opened in SCOPED.values() for action in opened) == sorted(Action)


@pytest.mark.parametrize("scope", Scope)
def test_a_scope_bounds_even_an_admin(scope: Scope) -> None:
    one = principal(every=Role.ADMIN, scopes=frozenset({scope}))
    assert {action for action in Action if one.may(action, "main")} == SCOPED[scope]


def test_no_scope_opens_nothing() -> None:
    assert not any(principal(every=Role.ADMIN, scopes=frozenset()).may(action, "main") for action in Action)


def test_a_board_named_by_the_credential_wins_over_every_other_board() -> None:
    ann = principal(main=Role.OBSERVER, every=Role.ADMIN)
    assert (ann.role_on("main"), ann.role_on("other")) == (Role.OBSERVER, Role.ADMIN)
    assert not ann.may(Action.POST, "main")
    assert ann.may(Action.POST, "other")


def test_a_board_outside_the_credential_is_hidden_whatever_the_board_says() -> None:
    ann = principal(main=Role.ADMIN)
    assert ann.role_on("other") is None
    assert not any(ann.may(action, "other", member=Role.ADMIN) for action in Action)


def test_a_members_role_stands_in_the_place_of_the_credentials() -> None:
    assert not principal(every=Role.ADMIN).may(Action.POST, "main", member=Role.OBSERVER)
    assert principal(every=Role.OBSERVER).may(Action.DECIDE, "main", member=Role.DECIDER)


def test_a_members_role_does_not_go_past_the_scopes() -> None:
    ann = principal(every=Role.OBSERVER, scopes=frozenset({Scope.READ}))
    assert not ann.may(Action.POST, "main", member=Role.ADMIN)
    assert ann.may(Action.READ, "main", member=Role.ADMIN)
