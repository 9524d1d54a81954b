"""What happened since the reader looked, who is here, and what the archive has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from blackboard_mcp.protocols.answers import Archived, News
from blackboard_mcp.protocols.events import SYSTEM, Event, EventType
from blackboard_mcp.protocols.items import Item, ItemType
from blackboard_mcp.server.views.news import news_lines
from blackboard_mcp.server.views.standing import Standing
from viewing import START, snapshot, view

Make = Callable[..., Item]


def happened(*listed: tuple[str, str, str], **data: dict[str, Any]) -> tuple[Event, ...]:
    """Events as `(event, item, agent)`, from sequence 101 on."""
    return tuple(
        Event(
            100 + n, EventType(event), item, None, 2, agent, (), START, data.get(event.replace(".", "_"), {})
        )
        for n, (event, item, agent) in enumerate(listed, 1)
    )


def test_news_says_what_came_changed_was_settled_and_left(make_item: Make) -> None:
    events = happened(
        ("item.posted", "F-1", "bob"),
        ("item.posted", "D-2", "carol"),
        ("item.posted", "F-3", "bob"),
        ("item.versioned", "P-4", "bob"),
        ("item.changed", "F-5", "dora"),
        ("debate.opened", "H-6", "bob"),
        ("debate.closed", "H-7", "dora"),
        ("item.archived", "B-8", SYSTEM),
        ("item.archived", "L-9", SYSTEM),
        ("agreement.given", "D-2", "dora"),
        ("item.expired", "L-10", SYSTEM),
        item_archived={"why": "open work, importance 4, oldest first"},
        item_changed={"status": ["ACTIVE", "WITHDRAWN"]},
        debate_closed={"state": "DECIDED", "outcome": "rejected"},
    )
    news = News(events, authors={"B-8": "alice", "L-9": "bob", "L-10": "alice"})
    shown = view(snapshot(make_item(1), look=100, news=news))
    lines = shown.text.split("\n")
    begin = lines.index("new since seq 100, not shown to you yet:")
    assert lines[begin + 1 : begin + 8] == [
        "came: F-1 F-3 by bob; D-2 by carol",
        "changed: P-4@2 by bob, F-5 withdrawn by dora",
        "debates opened: H-6 by bob",
        "settled: H-7 falls",
        "agreed to: D-2 by dora",
        "left for room: of yours B-8 (open work, importance 4, oldest first) → "
        'query_archive(text="B-8", restore=true); of others L-9',
        'time ended: of yours L-10 → query_archive(text="L-10", restore=true)',
    ]
    assert set(shown.told) == {events[n].seq for n in (4, 5, 6, 7, 8, 9, 10)}, (
        "but not texts, which are still to show"
    )


def test_what_was_forgotten_since_it_left_is_not_offered(make_item: Make) -> None:
    events = happened(("item.archived", "B-8", SYSTEM), ("item.archived", "L-9", SYSTEM))
    authors = {"B-8": "alice", "L-9": "alice"}

    def said(*gone: str) -> str:
        news = News(events, authors=authors, forgotten=frozenset(gone))
        shown = view(snapshot(make_item(1), look=100, news=news))
        assert len(shown.told) == 2, "it is told all the same"
        return next(line for line in shown.text.split("\n") if line.startswith("left for room"))

    assert said("B-8") == (
        'left for room: of yours B-8 L-9 → query_archive(text="L-9", restore=true); '
        "B-8 forgotten by the operator's rules, gone for good"
    )
    assert said("B-8", "L-9") == (
        "left for room: of yours B-8 L-9; B-8 L-9 forgotten by the operator's rules, gone for good"
    )


def test_what_would_not_stay_is_not_to_be_restored(make_item: Make) -> None:
    events = happened(("item.archived", "F-8", SYSTEM), ("item.archived", "L-9", SYSTEM))
    authors = {"F-8": "alice", "L-9": "alice"}

    def said(*, pressed: bool = False, **more: Any) -> str:
        there = snapshot(make_item(1), look=100, news=News(events, authors=authors, **more))
        if pressed:
            there = replace(there, board=replace(there.board, pressure=1))
        shown = view(there)
        assert len(shown.told) == 2
        return next(line for line in shown.text.split("\n") if line.startswith("left for room"))

    both = frozenset({"F-8", "L-9"})
    assert said(too_large=frozenset({"F-8"})).endswith('F-8 L-9 → query_archive(text="L-9", restore=true)')
    assert said(too_large=both).endswith('→ too large to come back: read(ids=["F-8", "L-9"])')
    assert said(pressed=True).endswith('→ no room to come back now: read(ids=["F-8", "L-9"])')
    assert said(moot=frozenset({"F-8"})).endswith(
        'of yours F-8 L-9 → query_archive(text="L-9", restore=true)'
    )


def test_of_much_that_left_only_what_is_named_counts_as_told(make_item: Make) -> None:
    events = happened(*(("item.archived", f"L-{n}", SYSTEM) for n in range(1, 12)))
    shown = view(snapshot(make_item(1), look=7, news=News(events)))
    assert "left for room: L-1 L-2 L-3 L-4 L-5 L-6 L-7 L-8 +3\n" in shown.text
    assert shown.told == tuple(event.seq for event in events[:8])


def test_where_there_is_little_room_for_news_every_kind_of_it_is_named(make_item: Make) -> None:
    posted = [("item.posted", f"F-{n}", f"somebody-with-a-long-name-{n % 4}") for n in range(1, 60)]
    left = [("item.archived", f"L-{n}", SYSTEM) for n in range(60, 90)]
    there = snapshot(make_item(1, "word " * 900), look=7, news=News(happened(*posted, *left)))
    text = view(there, 900).text
    assert "came: F-1 F-5 +13 by somebody-with-a-long-name-1; " in text
    assert "left for room: L-60 L-61 +" in text


def test_much_news_is_counted_and_where_it_is_not_all_the_call_says_so(make_item: Make) -> None:
    events = happened(*(("item.posted", f"F-{n}", "bob") for n in range(1, 31)))
    news = News(events, whole=False)
    text = view(snapshot(make_item(1), look=7, news=news)).text
    assert "new since seq 7, not shown to you yet (the latest of it; all: read(since=7)):\n" in text
    assert "came: F-1 F-2 F-3 F-4 F-5 F-6 F-7 F-8 +22 by bob\n" in text


def test_there_is_no_news_where_nothing_happened_or_nobody_knows_since_when(make_item: Make) -> None:
    quiet = view(snapshot(make_item(1)))
    assert "new since" not in quiet.text
    assert view(snapshot(make_item(1), look=400)).text == quiet.text


def test_the_head_names_who_was_active_and_what_the_archive_is_about(make_item: Make) -> None:
    now = START + timedelta(hours=1)
    here = [("alice", now), ("ben", now), ("carol", now - timedelta(minutes=5)), (SYSTEM, now)]
    archived = Archived(
        ((ItemType.LOG, 200), (ItemType.FACT, 1)),
        ("latency", "step:3", "exit:0", "question"),
        (
            "The stock trigger failed",
            "stock drifts",
            "wheels turn",
            "wheels stop",
            "seems it seems",
            "it seems",
        ),
        "L-204",
    )
    shown = view(
        snapshot(make_item(1, "About wheels."), here=tuple(here), at=now, tokens=1_782, archived=archived)
    )
    assert shown.text.split("\n")[1] == (
        "last active: ben 0s, carol 5m · working memory 1,782 of 6,000 tokens · "
        "archived (room is made from 4,800 tokens on): 201 items: 200 logs, 1 fact, newest L-204 "
        '(about latency, stock) → query_archive(text="…")'
    )


def test_names_and_tags_of_others_cannot_break_the_head(make_item: Make) -> None:
    archived = Archived(((ItemType.LOG, 2),), ("a\nwaits for you:", "b) → post("), ())
    shown = view(snapshot(make_item(1), here=(("eve\nsettled:", START),), at=START, archived=archived))
    assert len(shown.text.split("\n")[1].split(" · ")) == 3
    assert "a_waits_for_you:" in shown.text


def test_what_came_from_more_agents_than_are_named_is_counted(make_item: Make) -> None:
    events = happened(*(("item.posted", f"F-{n}", f"agent{n % 6}") for n in range(12)))
    text = view(snapshot(make_item(50), look=7, news=News(events))).text
    assert (
        "came: F-0 F-6 by agent0; F-1 F-7 by agent1; F-2 F-8 by agent2; F-3 F-9 by agent3; +4 by others\n"
        in text
    )


def test_what_came_and_left_is_told_before_what_stands_in_sections_of_its_own(make_item: Make) -> None:
    posted = [("item.posted", f"F-{n}", f"somebody-with-a-long-name-{n % 4}") for n in range(1, 60)]
    changed = [("item.versioned", f"P-{n}", "somebody-with-a-long-name") for n in range(60, 70)]
    opened = [("debate.opened", f"H-{n}", f"somebody-with-a-long-name-{n % 4}") for n in range(70, 78)]
    left = [("item.archived", f"L-{n}", SYSTEM) for n in range(80, 99)]
    news = News(happened(*posted, *changed, *opened, *left))
    text = view(snapshot(make_item(1, "word " * 900), look=7, news=news), 1_250).text
    assert "came: F-1 F-5 +" in text
    assert "left for room: L-80 L-81 +17" in text
    assert "changed: " not in text


def test_news_say_who_joined_and_who_left(make_item: Make) -> None:
    moves = [
        ("agent.joined", "bob"),
        ("agent.joined", "eve"),
        ("agent.left", "bob"),
        ("agent.joined", "dora"),
    ]
    events = tuple(
        Event(100 + n, EventType(event), None, None, None, agent, (), START, {"role": "tests"})
        for n, (event, agent) in enumerate(moves, 1)
    )
    shown = view(snapshot(make_item(1), look=100, news=News(events)))
    assert "team: bob left, eve joined, dora joined" in shown.text.split("\n")
    assert set(shown.told) == {101, 102, 103, 104}
    told = news_lines(Standing(snapshot(make_item(1), look=100, news=News(events)), "alice"), 2)
    assert [(line.text, line.events) for line in told] == [("team: bob left, eve joined +1", (101, 102, 103))]
