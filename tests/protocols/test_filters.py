"""Filters of events: what each field asks for, how they combine, and what is refused."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import Any

import pytest
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.events import WITHOUT_ITEM, Event, EventType
from blackboard_mcp.protocols.filters import EventFilter, parse_event_filter
from blackboard_mcp.protocols.items import ItemType
from hypothesis import given
from hypothesis import strategies as st

EVENT = Event(
    seq=7,
    event=EventType.ITEM_POSTED,
    item="C-21",
    key="plan:step",
    version=1,
    agent="bob",
    tags=("a", "b"),
    at=datetime(2026, 1, 1, tzinfo=UTC),
    type=ItemType.CRITIQUE,
    thread=17,
    concerns=("alice",),
)
BARE = Event(8, EventType.BOARD_CREATED, None, None, None, "system", (), EVENT.at)

LEAVES: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"key": "plan:*"}, True),
    ({"key": "plan"}, False),
    ({"event": "item.posted"}, True),
    ({"event": ["item.changed", "item.posted"]}, True),
    ({"events": ["item.changed"]}, False),
    ({"agent": "bob"}, True),
    ({"agents": ["alice", "bob"]}, True),
    ({"agent": "Bob"}, False),
    ({"tags": ["a"]}, True),
    ({"tags": ["b", "a"]}, True),
    ({"tags": ["a", "c"]}, False),
    ({"type": "CRITIQUE"}, True),
    ({"types": ["FACT", "CRITIQUE"]}, True),
    ({"type": "FACT"}, False),
    ({"thread": "H-17"}, True),
    ({"thread": 17}, True),
    ({"thread": "18"}, False),
    ({"mentions": True}, True),
    ({"mentions": False}, True),
    ({"agent": "bob", "type": "FACT"}, False),
]


@pytest.mark.parametrize(("given_", "holds"), LEAVES)
def test_every_field_given_must_hold(given_: dict[str, Any], holds: bool) -> None:
    assert parse_event_filter(given_).matches(EVENT, "alice") is holds


@pytest.mark.parametrize(
    "given_", [{"key": "**"}, {"type": "FACT"}, {"thread": 1}, {"tags": ["a"]}, {"mentions": True}]
)
def test_what_an_event_does_not_have_does_not_match(given_: dict[str, Any]) -> None:
    assert not parse_event_filter(given_).matches(BARE, "alice")


def test_mentions_are_of_the_subscriber() -> None:
    assert not parse_event_filter({"mentions": True}).matches(EVENT, "carol")


trees = st.recursive(
    st.sampled_from(LEAVES).map(lambda leaf: leaf),
    lambda inner: st.tuples(
        st.sampled_from(["all", "any", "not", "not[]"]), st.lists(inner, min_size=1, max_size=2)
    ),
    max_leaves=6,
)


def _build(tree: Any) -> tuple[dict[str, Any], bool, int]:
    """A filter, whether it holds for `EVENT`, and how deep it is."""
    if isinstance(tree[0], dict):
        return tree[0], tree[1], 1
    word, parts = tree
    built = [_build(part) for part in parts]
    filters, truths = [f for f, _, _ in built], [t for _, t, _ in built]
    depth = 1 + max(d for _, _, d in built)
    match word:
        case "all":
            return {"all": filters}, all(truths), depth
        case "any":
            return {"any": filters}, any(truths), depth
        case "not":
            return {"not": filters[0]}, not truths[0], depth
        case _:
            return {"not": filters}, not any(truths), depth


@given(trees)
def test_filters_combine_with_all_any_and_not(tree: Any) -> None:
    given_, holds, depth = _build(tree)
    if depth > 5:
        with pytest.raises(InvalidInput, match="deep"):
            parse_event_filter(given_)
        return
    assert parse_event_filter(given_, stored=True).matches(EVENT, "alice") is holds
    with contextlib.suppress(InvalidInput):
        parse_event_filter(given_)
        return
    assert not holds


def _nest(depth: int) -> dict[str, Any]:
    return {} if depth == 1 else {"all": [_nest(depth - 1)]}


def test_a_filter_nests_five_deep_and_holds_thirty_two_parts() -> None:
    assert parse_event_filter(_nest(5)).matches(EVENT, "alice")
    assert parse_event_filter({"any": [{}] * 31}).matches(EVENT, "alice")
    for wrong in (_nest(6), _nest(500), {"any": [{}] * 32}, {"any": [{}] * 1_000_000}):
        with pytest.raises(InvalidInput, match="32 parts"):
            parse_event_filter(wrong)


@pytest.mark.parametrize(
    ("given_", "named"),
    [
        ({"colour": "red"}, "colour"),
        ({"x" * 10_000: 1}, "Unknown"),
        ({"type": "FACTS"}, "FACT"),
        ({"event": "posted"}, "item.posted"),
        ({"agent": 3}, "filter.agent"),
        ({"agent": []}, "filter.agent"),
        ({"agent": ""}, "filter.agent"),
        ({"agent": ["a"] * 33}, "filter.agent"),
        ({"tags": ["x" * 201]}, "filter.tags"),
        ({"tags": [["a"]]}, "filter.tags"),
        ({"tags": None}, "filter.tags"),
        ({"key": "a b"}, "pattern"),
        ({"key": 1}, "filter.key"),
        ({"thread": "x"}, "item id"),
        ({"thread": {"a": 1}}, "item id"),
        ({"mentions": "false"}, "true or false"),
        ({"mentions": 1}, "true or false"),
        ({"all": {}}, "list"),
        ({"any": "x"}, "list"),
        ({"not": "x"}, "object"),
        ({"all": [1]}, "object"),
        ({"any": [{"all": [{"colour": 1}]}]}, "colour"),
    ],
)
def test_what_is_wrong_is_named(given_: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidInput, match=named) as told:
        parse_event_filter(given_)
    assert len(told.value.message) < 700


@pytest.mark.parametrize("given_", [None, [], "x", 1, True])
def test_a_filter_is_an_object(given_: Any) -> None:
    with pytest.raises(InvalidInput, match="object"):
        parse_event_filter(given_)


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["key", "event", "agent", "tags", "type", "thread", "mentions", "all", "any", "not"]
            )
            | st.text(max_size=3),
            inner,
            max_size=3,
        )
    ),
    max_leaves=10,
)


# A naive evaluator: written from the promise alone, on the JSON itself.

AGENTS = ("alice", "bob", "system")
KEYS = (None, "plan", "plan:a", "plan:a:b", "other")
EVENTS = tuple(EventType)
ITEM_TYPES = (None, "FACT", "CRITIQUE", "LOG")
GLOBS = {
    "plan": lambda key: key == "plan",
    "plan:*": lambda key: key.startswith("plan:") and ":" not in key[5:],
    "plan:**": lambda key: key.startswith("plan:"),
    "*": lambda key: ":" not in key,
    "**": lambda key: True,
}


def naive(given_: dict[str, Any], event: Event, subscriber: str) -> bool:
    def listed(value: Any) -> list[Any]:
        return value if isinstance(value, list) else [value]

    for word, value in given_.items():
        if word == "key":
            holds = event.key is not None and GLOBS[value](event.key)
        elif word == "event":
            holds = any(
                event.event == v or (v[-2:] == ".*" and event.event.split(".")[0] == v[:-2])
                for v in listed(value)
            )
        elif word == "agent":
            holds = event.agent in [subscriber if v == "me" else v for v in listed(value)]
        elif word == "tags":
            holds = all(v in event.tags for v in listed(value))
        elif word == "type":
            holds = event.type in listed(value)
        elif word == "thread":
            holds = event.thread == value
        elif word == "mentions":
            holds = not value or subscriber in event.concerns
        elif word == "all":
            holds = all(naive(part, event, subscriber) for part in value)
        elif word == "any":
            holds = any(naive(part, event, subscriber) for part in value)
        else:
            holds = not any(naive(part, event, subscriber) for part in listed(value))
        if not holds:
            return False
    return True


def some(values: tuple[str, ...]) -> st.SearchStrategy[Any]:
    return st.sampled_from(values) | st.lists(st.sampled_from(values), min_size=1, max_size=3)


leaves = st.fixed_dictionaries(
    {},
    optional={
        "key": st.sampled_from(sorted(GLOBS)),
        "event": some((*map(str, EVENTS), "item.*", "debate.*", "board.*")),
        "agent": some((*AGENTS, "me")),
        "tags": some(("a", "b")),
        "type": some(("FACT", "CRITIQUE", "LOG")),
        "thread": st.integers(1, 3),
        "mentions": st.booleans(),
    },
)
filters = st.recursive(
    leaves,
    lambda inner: st.tuples(
        leaves,
        st.fixed_dictionaries(
            {},
            optional={
                "all": st.lists(inner, min_size=1, max_size=2),
                "any": st.lists(inner, min_size=1, max_size=3),
                "not": inner | st.lists(inner, min_size=1, max_size=2),
            },
        ),
    ).map(lambda pair: {**pair[0], **pair[1]}),
    max_leaves=6,
)


@st.composite
def logged(draw: st.DrawFn) -> Event:
    event = draw(st.sampled_from(EVENTS))
    kind = None if event in WITHOUT_ITEM else draw(st.sampled_from(ITEM_TYPES[1:]))
    return Event(
        seq=1,
        event=event,
        item=None if kind is None else f"{kind[0]}-5",
        key=None if kind is None else draw(st.sampled_from(KEYS)),
        version=1,
        agent=draw(st.sampled_from(AGENTS)),
        tags=() if kind is None else tuple(draw(st.sets(st.sampled_from(("a", "b", "c"))))),
        at=EVENT.at,
        type=None if kind is None else ItemType(kind),
        thread=None if kind is None else draw(st.integers(1, 3)),
        concerns=tuple(draw(st.sets(st.sampled_from(AGENTS)))),
    )


@given(filters, st.lists(logged(), min_size=1, max_size=10), st.sampled_from(AGENTS))
def test_a_filter_says_what_a_naive_reading_of_it_says(
    given_: dict[str, Any], events: list[Event], subscriber: str
) -> None:
    said = ""
    try:
        parsed = parse_event_filter(given_)
    except InvalidInput as refused:
        said = refused.message
    if said:
        assert "deep" in said or not any(naive(given_, event, subscriber) for event in events), said
        return
    for event in events:
        assert parsed.matches(event, subscriber) is naive(given_, event, subscriber), event


def test_a_filter_that_was_stored_is_read_as_it_was_meant() -> None:
    for former in ({"any": []}, {"all": [], "not": []}):
        assert parse_event_filter(former, stored=True).matches(EVENT, "alice")
    assert not parse_event_filter({"event": "board.created", "key": "*"}, stored=True).matches(BARE, "alice")


@pytest.mark.parametrize(
    ("given_", "personal"),
    [
        ({"mentions": True}, True),
        ({"agent": ["bob", "me"]}, True),
        ({"not": {"any": [{"agent": "me"}]}}, True),
        ({"agent": "bob", "any": [{"mentions": False}]}, False),
        ({}, False),
    ],
)
def test_a_filter_knows_whether_it_depends_on_who_asks(given_: dict[str, Any], personal: bool) -> None:
    assert parse_event_filter(given_).personal is personal


@given(json)
def test_any_json_is_a_filter_or_refused(given_: Any) -> None:
    try:
        parsed = parse_event_filter(given_)
    except InvalidInput:
        return
    assert isinstance(parsed, EventFilter)
    assert parsed.matches(EVENT, "alice") in (True, False)
