"""Matchers: the same answer as the filter they are made of, and nothing that is private to others."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime

import pytest
from blackboard_mcp.protocols.events import Event, EventType
from blackboard_mcp.protocols.filters import ME, EventFilter
from blackboard_mcp.protocols.items import ItemType
from blackboard_mcp.protocols.matching import matcher
from blackboard_mcp.protocols.visibility import Viewer, team_of
from hypothesis import example, given
from hypothesis import strategies as st

AT = datetime(2026, 1, 1, tzinfo=UTC)
names = st.sampled_from(["alice", "bob", "carol"])
words = st.sampled_from(["a", "b", "c"])
keys = st.sampled_from(["plan", "plan:a", "plan:a:b", "a"])
kinds = st.sampled_from(list(EventType)[:4])
types = st.sampled_from(list(ItemType)[:3])


def some(of: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(of, max_size=2).map(tuple)


events = st.builds(
    Event,
    seq=st.just(1),
    event=kinds,
    item=st.just("F-1"),
    key=st.none() | keys,
    version=st.just(1),
    agent=names,
    tags=some(words),
    at=st.just(AT),
    owner=st.none() | names,
    type=st.none() | types,
    thread=st.none() | st.integers(1, 3),
    concerns=some(names),
)
PARTS = {
    "key": st.none() | keys | st.sampled_from(["plan:*", "plan:**", "*", "**", "p*:a", "**b"]),
    "events": some(kinds),
    "agents": some(names | st.just(ME)),
    "tags": some(words),
    "types": some(types),
    "thread": st.none() | st.integers(1, 3),
    "mentions": st.booleans(),
}
filters = st.recursive(
    st.builds(EventFilter, **PARTS),
    lambda inner: st.builds(
        EventFilter,
        **PARTS,
        all=st.lists(inner, max_size=2).map(tuple),
        any=st.lists(inner, max_size=2).map(tuple),
        none=st.lists(inner, max_size=2).map(tuple),
    ),
    max_leaves=5,
)


def test_every_part_of_a_filter_is_tried_here() -> None:
    assert {field.name for field in fields(EventFilter)} == {*PARTS, "all", "any", "none"}


@given(filters, events, names)
@example(
    EventFilter(none=(EventFilter(),)), Event(1, EventType.ITEM_POSTED, *[None] * 3, "bob", (), AT), "bob"
)
def test_a_matcher_says_what_its_filter_says_of_what_the_subscriber_may_see(
    condition: EventFilter, event: Event, agent: str
) -> None:
    expected = (event.owner is None or event.owner == agent) and condition.matches(event, agent)
    assert matcher(condition, Viewer(agent))(event) is expected


@pytest.mark.parametrize("condition", [EventFilter(), EventFilter(none=(EventFilter(agents=("eve",)),))])
def test_what_is_private_to_another_matches_nothing(condition: EventFilter) -> None:
    event = Event(1, EventType.ITEM_POSTED, "F-1", None, 1, "bob", (), AT, owner="bob", concerns=("alice",))
    assert matcher(condition, Viewer("bob"))(event)
    assert not matcher(condition, Viewer("alice", "bob"))(event)


def test_what_a_team_shares_matches_for_those_who_are_of_it_by_now() -> None:
    event = Event(1, EventType.ITEM_POSTED, "F-1", None, 1, "bob", (), AT, owner=team_of("acme"))
    alice, bob = Viewer("alice"), Viewer("bob", "acme")
    asked = [matcher(EventFilter(agents=("bob",)), viewer) for viewer in (alice, bob, Viewer("acme"))]
    assert [wanted(event) for wanted in asked] == [False, True, True]
    alice.team, bob.team = team_of("acme"), team_of("bob")
    assert [wanted(event) for wanted in asked] == [True, False, True]
