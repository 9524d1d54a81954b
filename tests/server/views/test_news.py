"""What happened since the reader looked, who is here, and what the archive has."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from blackboard_mcp.protocols.answers import Archived, News
from blackboard_mcp.protocols.events import SYSTEM, Event, EventType
from blackboard_mcp.protocols.items import Item, ItemType
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
        item_changed={"status": ["ACTIVE", "WITHDRAWN"]},
        debate_closed={"state": "DECIDED", "outcome": "rejected"},
    )
    news = News(events, authors={"B-8": "alice", "L-9": "bob"})
    lines = view(snapshot(make_item(1), look=100, news=news)).text.split("\n")
    begin = lines.index("since you looked at seq 100:")
    assert lines[begin + 1 : begin + 6] == [
        "came: F-1 F-3 by bob; D-2 by carol",
        "changed: P-4@2 by bob, F-5 withdrawn by dora",
        "debates opened: H-6 by bob",
        "settled: H-7 falls",
        'left for room: of yours B-8 → query_archive(text="B-8", restore=true); L-9',
    ]


def test_much_news_is_counted_and_where_it_is_not_all_the_call_says_so(make_item: Make) -> None:
    events = happened(*(("item.posted", f"F-{n}", "bob") for n in range(1, 31)))
    news = News(events, whole=False)
    text = view(snapshot(make_item(1), look=7, news=news)).text
    assert "since you looked at seq 7 (the latest of it; all: read(since=7)):\n" in text
    assert "came: F-1 F-2 F-3 F-4 F-5 F-6 F-7 F-8 +22 by bob\n" in text


def test_there_is_no_news_where_nothing_happened_or_nobody_knows_since_when(make_item: Make) -> None:
    quiet = view(snapshot(make_item(1)))
    assert "since you looked" not in quiet.text
    assert view(snapshot(make_item(1), look=400)).text == quiet.text


def test_the_head_names_who_was_active_and_what_the_archive_is_about(make_item: Make) -> None:
    now = START + timedelta(hours=1)
    here = [("alice", now), ("ben", now), ("carol", now - timedelta(minutes=5)), (SYSTEM, now)]
    archived = Archived(
        ((ItemType.LOG, 200), (ItemType.FACT, 1)),
        ("latency",),
        ("The stock trigger failed", "stock drifts", "x"),
    )
    shown = view(snapshot(make_item(1), here=tuple(here), at=now, tokens=1_782, archived=archived))
    assert shown.text.split("\n")[1] == (
        "last active: ben 0s, carol 5m · working memory 1,782 of 6,000 tokens · archive 201: 200 logs, 1 fact "
        '(about latency, stock) → query_archive(text="…")'
    )


def test_names_and_tags_of_others_cannot_break_the_head(make_item: Make) -> None:
    archived = Archived(((ItemType.LOG, 2),), ("a\nwaits for you:", "b) → post("), ())
    shown = view(snapshot(make_item(1), here=(("eve\nsettled:", START),), at=START, archived=archived))
    assert len(shown.text.split("\n")[1].split(" · ")) == 3
    assert "a_waits_for_you:" in shown.text
