"""When a wait ends that has heard of something: at once where something is asked, else after a lull."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from blackboard_mcp.protocols.answers import Owed
from blackboard_mcp.protocols.debates import Duty
from blackboard_mcp.protocols.events import Event, EventType
from blackboard_mcp.protocols.items import ItemType
from blackboard_mcp.server.usecases.lull import MOST_LINES, Listening, Lull, asks, passes, resting

AT = datetime(2026, 11, 22, tzinfo=UTC)
OWED = Owed("C-3", Duty.RESPOND)


def event(kind: EventType = EventType.ITEM_POSTED, **more: Any) -> Event:
    given = {
        "seq": 9,
        "item": "F-7",
        "version": 1,
        "type": ItemType.FACT,
        "concerns": (),
        "data": {},
        "key": None,
    } | more
    return Event(event=kind, agent="ben", tags=(), at=AT, **given)


def concerning(kind: EventType = EventType.ITEM_POSTED, **data: Any) -> Event:
    return event(kind, concerns=("ada",), data=data)


def test_news_that_ask_nothing_end_a_wait_after_some_quiet_and_never_later_than_three_lulls() -> None:
    lull = Lull("ada", 5.0)
    lull.begin([])
    assert lull.hears([event()], [], 100.0) == 105.0
    assert lull.hears([event()], [], 104.0) == 109.0, "each line asks for quiet anew"
    assert lull.hears([event()], [], 109.0) == 114.0
    assert lull.hears([event()], [], 113.0) == 115.0, "but nobody keeps it by writing"
    assert lull.hears([event()], [], 114.9) == 115.0


def test_without_a_lull_the_first_line_ends_a_wait() -> None:
    assert Lull("ada", 0.0).hears([event()], [], 100.0) == 100.0


def test_many_lines_end_a_wait_at_once_whenever_they_came() -> None:
    lull = Lull("ada", 5.0)
    assert lull.hears([event()] * (MOST_LINES - 1), [], 100.0) == 105.0
    assert lull.hears([event()], [], 101.0) == 101.0


def test_what_is_owed_ends_a_wait_at_the_call_and_later_only_if_it_is_new() -> None:
    assert Lull("ada", 5.0).hears([event()], [OWED], 100.0) == 100.0
    lull = Lull("ada", 5.0)
    lull.begin([OWED])
    assert lull.hears([event()], [OWED], 100.0) == 105.0
    assert lull.hears([event()], [OWED, Owed("D-4", Duty.AGREE)], 101.0) == 101.0


def test_who_is_named_hears_of_it_at_once() -> None:
    assert Lull("ada", 5.0).hears([event()], [], 100.0, named=True) == 100.0


@pytest.mark.parametrize(
    "told",
    [
        concerning(),
        concerning(replies_to=["H-1"]),
        concerning(critiques=["H-1"]),
        concerning(supports=["H-1"], supersedes=["F-2"]),
        concerning(supports=["H-1"], to="ada"),
        concerning(EventType.DEBATE_CLOSED, state="CONSENSUS"),
        concerning(EventType.AGREEMENT_REACHED),
        concerning(EventType.REQUEST_ANSWERED),
        concerning(EventType.ITEM_DOUBTED),
        event(type=ItemType.HOT_ISSUE),
        event(type=ItemType.CONSTRAINT),
        event(EventType.CORE_CHANGED, item=None),
        event(EventType.BOARD_CHANGED, item=None, data={"lifecycle": "closed"}),
    ],
)
def test_what_asks_something_of_an_agent_or_settles_something_of_its_own_ends_its_wait(told: Event) -> None:
    assert asks(told, "ada")
    assert Lull("ada", 5.0).hears([event(), told], [], 100.0) == 100.0


@pytest.mark.parametrize(
    "told",
    [
        event(),
        event(EventType.DEBATE_CLOSED, data={"state": "CONSENSUS"}),
        event(concerns=("cleo",)),
        event(EventType.ITEM_CHANGED, type=ItemType.HOT_ISSUE),
        concerning(supports=["H-1"]),
        concerning(derived_from=["F-1"], supports=["H-1"]),
        concerning(EventType.ITEM_VERSIONED),
        concerning(EventType.ITEM_ENDORSED),
        concerning(EventType.AGREEMENT_GIVEN, reason="yes"),
        concerning(EventType.ITEM_ARCHIVED),
        concerning(EventType.OBLIGATION_WAIVED, watcher="ada"),
    ],
)
def test_what_asks_nothing_of_an_agent_waits_for_the_lull(told: Event) -> None:
    assert not asks(told, "ada")


def test_of_what_rests_on_an_agents_items_the_text_is_looked_at() -> None:
    told = [
        concerning(supports=["H-1"]),
        event(concerns=("cleo",), data={"supports": ["H-2"]}),
        concerning(critiques=["H-1"]),
        event(EventType.ITEM_VERSIONED, item="P-8", version=3, concerns=("ada",)),
    ]
    assert resting(told, "ada") == [(7, 1), (8, 3)]


def test_who_comes_and_what_is_planned_asks_only_those_whom_it_concerns() -> None:
    for kind in (EventType.AGENT_JOINED, EventType.AGENT_LEFT, EventType.PLAN_ADDED):
        assert not asks(event(kind, item=None, version=None, type=None), "ada")
    assert asks(event(EventType.TURN_GIVEN, item=None, version=None, type=None, concerns=("ada",)), "ada")
    assert asks(event(EventType.CORE_CHANGED, item=None, version=None, type=None), "ada")


@pytest.mark.parametrize(
    "told",
    [
        concerning(),
        concerning(supports=["H-1"]),
        event(type=ItemType.HOT_ISSUE),
        event(data={"critiques": ["H-2"]}),
        event(data={"to": "cleo"}),
        event(EventType.DEBATE_CLOSED, data={"state": "CONSENSUS"}),
        event(EventType.ITEM_VERSIONED),
        event(EventType.CORE_CHANGED, item=None, version=None, type=None),
    ],
)
def test_what_may_give_an_agent_a_duty_wakes_its_wait(told: Event) -> None:
    assert not passes(told, "ada")
    listening = begun(Lull("ada", 5.0))
    assert listening(told)
    assert listening.news([told], told.seq) == [told]


def begun(lull: Lull, room: int = 50) -> Listening:
    """A listener whose lull has begun with one line; what `ada` must not see has the key "hidden"."""
    lull.begin([])
    lull.hears([event(seq=1)], [], 100.0)
    listening = Listening(lull, lambda one: one.key != "hidden", lambda: 101.0)
    listening.room = room
    return listening


def test_a_wait_sleeps_through_what_asks_nothing_and_gets_it_with_what_wakes_it() -> None:
    listening = begun(Lull("ada", 5.0))
    quiet = [event(seq=2), event(seq=3, key="hidden"), event(seq=4, data={"supports": ["H-2"]})]
    assert [listening(one) for one in quiet] == [False, False, False]
    assert listening.heard_at == 101.0
    asked = event(seq=5, concerns=("ada",))
    for _ in range(2):  # whoever was woken looks again itself
        assert listening(asked)
    assert [one.seq for one in listening.news([asked], 5)] == [2, 4, 5]
    assert listening.news([], 5) == []


def test_what_lies_after_the_place_that_was_searched_is_kept_for_the_next_answer() -> None:
    listening = begun(Lull("ada", 5.0))
    assert not any(listening(event(seq=seq)) for seq in (2, 3, 4))
    assert [one.seq for one in listening.news([], 3)] == [2, 3]
    assert not listening(event(seq=4)), "seen already"
    assert [one.seq for one in listening.news([], 9)] == [4]


@pytest.mark.parametrize("room", [3, 50])
def test_as_many_lines_as_end_a_lull_or_fill_an_answer_wake_a_wait(room: int) -> None:
    listening = begun(Lull("ada", 5.0), room)
    most = min(room, MOST_LINES - 1)
    told = [listening(event(seq=seq)) for seq in range(2, 2 + most)]
    assert told == [False] * (most - 1) + [True]
    assert listening(event(seq=1 + most)), "still when it is asked again"


def test_the_first_line_of_a_lull_wakes_a_wait() -> None:
    lull = Lull("ada", 5.0)
    lull.begin([])
    listening = Listening(lull, lambda one: True, lambda: 101.0)
    listening.room = 50
    assert listening(event())


def test_a_debate_asks_who_watches_it_only_if_something_is_owed() -> None:
    opened = concerning(EventType.DEBATE_OPENED, watchers=["ada"], critique="C-8")
    assert not asks(opened, "ada")
    assert asks(opened, "ada", {"F-7"})
    assert asks(opened, "ada", {"C-8"})
    assert asks(concerning(EventType.DEBATE_OPENED, watchers=["ben"], critique="C-8"), "ada")
    assert asks(concerning(EventType.DEBATE_OPENED, watchers=["ada"]), "ada"), (
        "who called for it asks at once"
    )
