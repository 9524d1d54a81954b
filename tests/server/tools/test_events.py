"""`subscribe` and `wait` through real clients of both generations: F16-F18, F20."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import boards
import pytest
from blackboard_mcp.server.usecases import following
from patience import PATIENCE, WOKEN, parked

board, mode, both = boards.board, boards.mode, boards.both


async def history(boards_: Any) -> tuple[Any, Any]:
    """What the filters are tried on; the comments are sequences."""
    alice, bob = await boards_.join("alice", "bob")
    await alice.post("root", key="plan:db", tags=["db", "hot"])  # 1 board.created, 2
    await bob.post("reply to @carol", "REPLY", edges={"replies_to": ["F-1"]}, tags=["db"])  # 3
    await bob.post("other", "LOG", key="plan:ui:deep")  # 4
    await alice.post("root two", key="plan:db", tags=["db", "hot"])  # 5
    await alice.post(id="F-1", importance=1)  # 6
    await bob.post("doubt", "CRITIQUE", edges={"critiques": ["F-1"]})  # 7, 8 debate.opened
    await alice.post("hidden", visibility="private", key="plan:db:own")  # 9
    return alice, bob


@pytest.mark.parametrize(
    ("filter", "found"),
    [
        ({}, [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ({"key": "plan:*"}, [2, 5, 6, 8]),
        ({"key": "plan:**"}, [2, 4, 5, 6, 8, 9]),
        ({"event": "item.posted"}, [2, 3, 4, 7, 9]),
        ({"events": ["item.versioned", "debate.opened"]}, [5, 8]),
        ({"agent": "bob"}, [3, 4, 7, 8]),
        ({"agent": ["alice", "carol"]}, [1, 2, 5, 6, 9]),
        ({"tags": ["db"]}, [2, 3, 5, 6, 8]),
        ({"tags": ["db", "hot"]}, [2, 5, 6, 8]),
        ({"type": "LOG"}, [4]),
        ({"types": ["LOG", "CRITIQUE"]}, [4, 7]),
        ({"thread": "F-1"}, [2, 3, 5, 6, 7, 8]),
        ({"thread": 3}, [4]),
        ({"mentions": True}, [3, 7, 8]),
        ({"agent": "bob", "type": ["REPLY", "CRITIQUE"]}, [3, 7]),
        ({"any": [{"type": "LOG"}, {"event": "debate.opened"}]}, [4, 8]),
        ({"all": [{"agent": "bob"}, {"tags": ["db"]}]}, [3, 8]),
        ({"not": {"agent": "alice"}}, [3, 4, 7, 8]),
        ({"not": [{"agent": "alice"}, {"type": "LOG"}]}, [3, 7, 8]),
        ({"agent": "bob", "any": [{"type": "LOG"}, {"mentions": True}], "not": {"type": "FACT"}}, [3, 4, 7]),
        ({"agent": "me"}, [1, 2, 5, 6, 9]),
        ({"not": {"agent": "me"}}, [3, 4, 7, 8]),
        ({"event": "debate.*"}, [8]),
        ({"event": ["debate.*", "item.versioned"]}, [5, 8]),
        ({"key": "nothing:*"}, []),
    ],
)
async def test_every_combination_of_a_filter_delivers_what_matches_in_order(
    board: Any, filter: dict[str, Any], found: list[int]
) -> None:
    alice, _ = await history(board)
    held = await alice.do("subscribe", filter=filter)
    assert held["filter"] == filter
    answer = await alice.do("wait", subscription=held["id"], since=0, seconds=0)
    assert [e["seq"] for e in answer["events"]] == found
    assert set(answer) >= {"events", "cursor", "seq", "subscription"}
    assert all(set(e) >= boards.EVENT_KEYS for e in answer["events"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"filter": {"colour": "red"}}, "key, event, agent, tags, type, thread"),
        ({"filter": {"event": "item.painted"}}, "item.posted"),
        ({"filter": {"type": "FAKT"}}, "FACT"),
        ({"filter": {"type": ["FACT", 5]}}, "filter.type"),
        ({"filter": {"key": "a b"}}, "key pattern"),
        ({"filter": {"key": ""}}, "filter.key"),
        ({"filter": {"thread": "x"}}, "Nothing was changed; ids look like"),
        ({"filter": {"thread": "F-7"}}, "no item 7 on board 'main'"),
        ({"filter": {"event": "items.*"}}, "item.*"),
        ({"filter": {"event": "board.changed", "key": "plan:*"}}, "board.changed is not about an item"),
        ({"filter": {"event": "board.created", "all": [{"tags": ["x"]}]}}, "not about an item"),
        ({"filter": {"all": [{"type": "FACT"}, {"type": "LOG"}]}}, "two kinds of type"),
        ({"filter": {"not": {}}}, "leaves out every event"),
        ({"filter": {"type": "LOG", "all": [{"not": [{"tags": ["x"]}, {}]}]}}, "leaves out every event"),
        ({"filter": {"any": []}}, "filter.any is a list of 1 to 32"),
        ({"filter": {"not": []}}, "filter.not is a filter"),
        ({"filter": {"agent": "a\0"}}, "NUL"),
        ({"filter": {"mentions": "me"}}, "true or false"),
        ({"filter": {"any": {}}}, "filter.any is a list"),
        ({"filter": {"not": "x"}}, "A filter is an object"),
        ({"filter": {"agent": []}}, "filter.agent"),
        ({"filter": {"all": [{"all": [{"all": [{"all": [{"all": [{}]}]}]}]}]}}, "nest 5 deep"),
        ({"filter": {"any": [{}] * 40}}, "32 parts"),
        ({"filter": []}, "filter must be an object"),
        ({"filter": {}, "unsubscribe": "x"}, "unsubscribe alone"),
        ({"unsubscribe": "sub-nothing"}, "You hold no subscription"),
        ({"filter": {}, "board": "nowhere"}, "no board 'nowhere'"),
        ({"name": "n" * 65}, "64"),
    ],
)
async def test_wrong_words_to_subscribe_are_refused(
    board: Any, arguments: dict[str, Any], words: str
) -> None:
    alice = await board.join("alice")
    assert words in (await alice.fail("subscribe", **arguments))["message"]
    assert (await alice.do("subscribe"))["subscriptions"] == []


@both
async def test_a_subscription_delivers_each_event_once_from_where_it_began(board: Any, mode: str) -> None:
    alice, bob = await board.join("alice", "bob")
    await bob.post("before")
    held = await alice.do("subscribe", filter={"type": "FACT"}, name="facts")
    assert held["id"] == held["subscription"]
    assert (held["cursor"], held["name"]) == (2, "facts")
    for n in range(5):
        await bob.post(f"fact {n}")
        await bob.post(f"log {n}", "LOG")
    first = await alice.do("wait", subscription="facts", seconds=0, limit=2)
    assert [e["item"] for e in first["events"]] == ["F-2", "F-4"]
    assert "go on with since=5" in await alice.say("wait", subscription="facts", since=2, seconds=0, limit=2)
    second = await alice.do("wait", subscription=held["id"], seconds=0)
    assert [e["item"] for e in second["events"]] == ["F-6", "F-8", "F-10"]
    assert (second["cursor"], second["seq"]) == (12, 12)
    assert (await alice.do("wait", subscription="facts", seconds=0))["events"] == []
    assert (await alice.do("subscribe"))["subscriptions"][0]["cursor"] == 12


async def test_a_subscription_outlives_its_process_and_its_connection(tmp_path: Path, mode: str) -> None:
    async with boards.open_boards(tmp_path, mode) as first:
        alice, bob = await first.join("alice", "bob")
        await bob.post("x")
        held = await alice.do("subscribe", filter={"agent": "bob"}, name="bob's")
        await bob.post("y")
        assert len((await alice.do("wait", subscription=held["id"], seconds=0))["events"]) == 1
        await bob.post("z")
    async with boards.open_boards(tmp_path, boards.LEGACY) as again:
        alice = await again.join("alice")
        listed = (await alice.do("subscribe"))["subscriptions"]
        assert [(s["id"], s["name"], s["filter"]) for s in listed] == [
            (held["id"], "bob's", {"agent": "bob"})
        ]
        news = await alice.do("wait", subscription="bob's", seconds=0)
        assert [e["item"] for e in news["events"]] == ["F-3"]


async def test_since_confirms_what_came_before_it_and_nothing_else(board: Any) -> None:
    alice = await board.join("alice")
    held = await alice.do("subscribe", filter={})
    for n in range(4):
        await alice.post(f"{n}")

    async def delivered(**more: Any) -> list[int]:
        news = await alice.do("wait", subscription=held["id"], seconds=0, **more)
        return [e["seq"] for e in news["events"]]

    assert await delivered(since=2, limit=2) == [3, 4]
    assert await delivered(since=2, limit=1) == [3], "what was not confirmed is delivered again"
    assert await delivered(since=3) == [4, 5]
    assert await delivered(since=1) == [2, 3, 4, 5]
    (listed,) = (await alice.do("subscribe"))["subscriptions"]
    assert listed["cursor"] == 3, "it never goes back"
    assert await delivered() == [4, 5]
    assert await delivered() == []


async def test_a_thread_is_followed_by_any_of_its_items(board: Any) -> None:
    alice, bob = await history(board)
    held = await alice.do("subscribe", filter={"any": [{"thread": "R-2"}, {"event": "board.created"}]})
    assert held["filter"] == {"any": [{"thread": 1}, {"event": "board.created"}]}
    news = await alice.do("wait", subscription=held["id"], since=0, seconds=0)
    assert [e["seq"] for e in news["events"]] == [1, 2, 3, 5, 6, 7, 8]
    for thread in ("F-5", 5):
        refused = await bob.fail("subscribe", filter={"thread": thread})
        absent = await bob.fail("subscribe", filter={"thread": 99})
        assert refused["message"] == absent["message"].replace("99", "5"), "what is private looks absent"


@both
async def test_I20_of_two_windows_of_an_agent_each_event_goes_to_one(board: Any, mode: str) -> None:
    bob, *windows = [await board.join(name) for name in ("bob", "alice", "alice", "alice")]
    await bob.post("start")
    held = await windows[0].do("subscribe", filter={"type": "FACT"})
    delivered: list[int] = []
    posting = asyncio.Event()

    async def window(agent: Any) -> None:
        while True:
            over = posting.is_set()
            news = await agent.do("wait", subscription=held["id"], seconds=0.05, limit=3)
            assert [e["seq"] for e in news["events"]] == sorted(e["seq"] for e in news["events"])
            delivered.extend(e["seq"] for e in news["events"])
            if over and not news["events"]:
                return

    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        for agent in windows:
            group.create_task(window(agent))
        for n in range(30):
            await bob.post(f"fact {n}")
        posting.set()
    assert sorted(delivered) == list(range(held["cursor"] + 1, await board.seq() + 1))
    assert len(delivered) == 30


async def test_I20_a_cancelled_wait_moves_no_cursor(board: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob = await board.join("alice", "bob")
    await bob.post("start")
    held = await alice.do("subscribe", filter={})
    following, store = board.opened.blackboard.following, board.opened.store
    move = store.move_cursor
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def moving(*args: Any, **more: Any) -> bool:
        reached.set()
        await go_on.wait()
        return bool(await move(*args, **more))

    def waiting() -> asyncio.Task[Any]:
        reached.clear()
        call = following.wait("alice", None, subscription=held["id"], since=None, seconds=50, limit=50)
        return asyncio.create_task(call)

    async def stands() -> int:
        return int((await alice.do("subscribe"))["subscriptions"][0]["cursor"])

    idle = waiting()
    await parked(following.tails, 1)
    idle.cancel()
    await asyncio.wait({idle})
    assert await stands() == held["cursor"]

    await bob.post("news")
    monkeypatch.setattr(store, "move_cursor", moving)
    for committed_first in (False, True):
        go_on.clear()
        call = waiting()
        await asyncio.wait_for(reached.wait(), PATIENCE)
        if committed_first:
            go_on.set()
            await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        go_on.set()
        await following.settle()
        assert await stands() == held["cursor"]
    monkeypatch.undo()
    news = await alice.do("wait", subscription=held["id"], seconds=0)
    assert [e["seq"] for e in news["events"]] == [held["cursor"] + 1]


async def test_an_abandoned_subscription_expires_and_loses_nothing(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await bob.post("before")
    held = await alice.do("subscribe", filter={"agent": "bob"}, name="bob's")
    used = await alice.do("subscribe", filter={}, name="used")
    await bob.post("one")
    board.clock.advance(29 * 86_400)
    await alice.do("wait", subscription="used", seconds=0, since=used["cursor"])
    board.clock.advance(86_400)
    assert await board.opened.store.expire_subscriptions() == ["main"]
    await bob.post("two")

    gone = await alice.call("wait", subscription="bob's", seconds=0)
    assert gone.is_error
    failure = gone.structured_content
    assert (failure["error"], failure["cursor"], failure["seq"]) == ("cursor_expired", 2, 4)
    assert "wait(since=2)" in failure["message"]
    assert 'subscribe(filter={"agent":"bob"})' in failure["message"]
    assert "wait(since=2) goes on" in await alice.say("subscribe")
    listed = await alice.do("subscribe")
    assert [s["name"] for s in listed["subscriptions"]] == ["used"]
    assert [(s["name"], s["cursor"]) for s in listed["expired"]] == [("bob's", 2)]
    assert (await bob.fail("wait", subscription=held["id"], seconds=0))["error"] == "not_found"

    rest = await alice.do("wait", since=failure["cursor"], seconds=0)
    assert [e["seq"] for e in rest["events"]] == [3, 4]
    again = await alice.do("subscribe", filter={"agent": "bob"}, name="bob's")
    assert again["cursor"] == 4
    assert (await alice.do("wait", subscription="bob's", seconds=0))["events"] == []


async def test_a_place_after_the_end_of_the_log_teaches_that_it_was_restored(board: Any) -> None:
    alice = await board.join("alice")
    await alice.post("x")
    held = await alice.do("subscribe", filter={})
    for where in ({}, {"subscription": held["id"]}):
        failure = await alice.fail("wait", since=900, seconds=0, **where)
        assert (failure["error"], failure["seq"], failure["cursor"]) == ("cursor_expired", 2, 900)
        assert "restored from an older copy" in failure["message"]
        assert "since=2 goes on" in failure["message"]


async def test_subscriptions_are_listed_ended_and_their_own_agents(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    assert (await alice.say("subscribe")).startswith("no subscriptions: subscribe(filter={…})")
    one = await alice.do("subscribe", filter={"type": "LOG"}, name="logs")
    two = await alice.do("subscribe", filter={})
    assert (await alice.fail("subscribe", filter={}, name="logs"))["error"] == "refused"
    await bob.do("subscribe", filter={}, name="logs")
    text = await alice.say("subscribe")
    assert f'{one["id"]} logs at seq 1 {{"type": "LOG"}}' in text
    for verb in ({"unsubscribe": one["id"]}, {"unsubscribe": "nothing"}):
        assert (await bob.fail("subscribe", **verb))["error"] == "not_found"
    assert (await bob.fail("wait", subscription=one["id"], seconds=0))["error"] == "not_found"
    ended = await alice.do("subscribe", unsubscribe="logs")
    assert (ended["ended"], [s["id"] for s in ended["subscriptions"]]) == ("logs", [two["id"]])
    assert (await alice.fail("wait", subscription="logs", seconds=0))["error"] == "not_found"
    assert len((await bob.do("subscribe"))["subscriptions"]) == 1
    assert (await alice.do("subscribe", filter={}, name="logs"))["id"] != one["id"]


async def test_an_agent_has_at_most_a_hundred_subscriptions_on_a_board(board: Any) -> None:
    alice = await board.join("alice")
    await alice.post("x", board="other")
    for n in range(100):
        await alice.do("subscribe", filter={}, name=f"s{n}")
    failure = await alice.fail("subscribe", filter={})
    assert (failure["error"], "100" in failure["message"]) == ("quota", True)
    await alice.do("subscribe", filter={}, board="other")


@both
async def test_news_ends_a_wait_at_once(board: Any, mode: str) -> None:
    alice, bob = await board.join("alice", "bob")
    await bob.post("before")
    seq = await board.seq()
    assert "before" in await alice.say("wait", seconds=50), "also what came before a newcomer's first call"
    calls = [
        asyncio.create_task(alice.do("wait", since=seq, seconds=50)),
        asyncio.create_task(alice.do("wait", seconds=50)),
    ]
    await parked(board.opened.blackboard.following.tails, 2)
    await bob.post("news", "LOG")
    async with asyncio.timeout(WOKEN):
        for call in calls:
            news = await call
            assert [(e["event"], e["item"], e["agent"]) for e in news["events"]] == [
                ("item.posted", "L-2", "bob")
            ]


async def test_a_wait_that_matches_nothing_goes_on_over_what_does_not_match(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    held = await alice.do("subscribe", filter={"type": "CRITIQUE"})
    call = asyncio.create_task(alice.do("wait", subscription=held["id"], seconds=50))
    for n in range(20):
        await bob.post(f"{n}")
    assert not call.done()
    await bob.post("no", "CRITIQUE", edges={"critiques": ["F-1"]})
    async with asyncio.timeout(WOKEN):
        assert [e["item"] for e in (await call)["events"]] == ["C-21"]


@both
async def test_without_news_a_wait_ends_after_its_seconds(board: Any, mode: str) -> None:
    alice = await board.join("alice")
    await alice.post("x")
    for seconds in (0, 0.05):
        answer = await alice.do("wait", seconds=seconds)
        assert (answer["events"], answer["cursor"], answer["subscription"]) == ([], 2, None)
    assert await alice.say("wait", since=2, seconds=0) == "no news\nseq 2"


@both
async def test_a_long_wait_reports_its_progress(
    board: Any, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_REPORT_EVERY", 0.02)
    alice, bob = await board.join("alice", "bob")
    heard: list[tuple[float, float | None, str | None]] = []
    enough = asyncio.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))
        if len(heard) == 3:
            enough.set()

    call = asyncio.create_task(alice.client.call_tool("wait", {"seconds": 50}, progress_callback=hear))
    await asyncio.wait_for(enough.wait(), PATIENCE)
    await bob.post("news")
    result = await asyncio.wait_for(call, WOKEN)
    assert not result.is_error
    assert all(total == 50 and message == "waiting for news" for _, total, message in heard)
    assert [p for p, _, _ in heard] == sorted(p for p, _, _ in heard)


async def test_mentions_are_what_concerns_the_subscriber(board: Any) -> None:
    alice, bob, carol = await board.join("alice", "bob", "carol")
    await alice.post("claim")
    held = {a.name: (await a.do("subscribe", filter={"mentions": True}))["id"] for a in (alice, bob, carol)}
    await bob.post("@alice, and you too @carol: look. Not bob@example.com.")
    await bob.post("reply", "REPLY", edges={"replies_to": ["F-1"]})
    await carol.post("doubt", "CRITIQUE", edges={"critiques": ["F-1"]})
    await carol.do("debate", op="open", id="F-1", watchers=["bob"])
    await carol.post("of no concern")
    await alice.post("@alice talks to herself")

    async def items(agent: Any) -> list[tuple[str, str]]:
        news = await agent.do("wait", subscription=held[agent.name], seconds=0)
        return [(e["event"], e["item"]) for e in news["events"]]

    assert await items(alice) == [
        ("item.posted", "F-2"),
        ("item.posted", "R-3"),
        ("item.posted", "C-4"),
        ("debate.opened", "F-1"),
    ]
    assert await items(bob) == [("obligation.added", "F-1")]
    assert await items(carol) == [("item.posted", "F-2")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"since": 3}, "ahead of 'main', which stands at seq 2"),
        ({"since": -1}, "since"),
        ({"since": 2**60}, "since"),
        ({"seconds": -1}, "seconds"),
        ({"limit": 0}, "limit"),
        ({"limit": 201}, "limit"),
        ({"subscription": "none"}, "subscribe() lists yours"),
        ({"timeout": 5}, "unknown argument 'timeout'"),
    ],
)
async def test_wrong_words_to_wait_are_refused(board: Any, arguments: dict[str, Any], words: str) -> None:
    alice = await board.join("alice")
    await alice.post("x")
    assert words in (await alice.fail("wait", **arguments))["message"]


async def test_a_log_is_gapless_and_its_private_lines_are_its_agents_own(board: Any) -> None:
    alice, bob = await history(board)
    mine = [e["seq"] for e in (await alice.do("wait", since=0, seconds=0))["events"]]
    others = [e["seq"] for e in (await bob.do("wait", since=0, seconds=0))["events"]]
    assert mine == list(range(1, 10))
    assert others == list(range(1, 9))
    held = await bob.do("subscribe", filter={})
    call = asyncio.create_task(bob.do("wait", subscription=held["id"], seconds=0.2))
    await alice.post("hidden again", visibility="private")
    answer = await call
    assert answer["events"] == []


async def test_a_news_text_beyond_its_budget_names_the_call_that_goes_on(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    held = await alice.do("subscribe", filter={})
    await bob.do("post", items=[{"text": f"Finding {n} " + "word " * 40} for n in range(60)])
    text = await alice.say("wait", subscription=held["id"], seconds=0)
    more = re.search(r"… (\d+) more: read\(since=(\d+), budget=\d+\)", text)
    assert more is not None
    shown = [line for line in text.splitlines() if re.match(r"seq \d+ item.posted", line)]
    assert len(shown) + int(more[1]) == 50
    assert shown[-1].startswith(f"seq {more[2]} item.posted")
    assert boards.TOKENIZER.count(text) <= 1_600


async def test_another_process_on_the_same_file_wakes_a_wait(board: Any, tmp_path: Path, mode: str) -> None:
    alice = await board.join("alice")
    await alice.post("here")
    async with boards.open_boards(tmp_path, mode) as other:
        bob = await other.join("bob")
        call = asyncio.create_task(alice.do("wait", seconds=50, since=2))
        await bob.post("there")
        async with asyncio.timeout(WOKEN):
            assert [(e["agent"], e["item"]) for e in (await call)["events"]] == [("bob", "F-2")]


# What an agent was not shown yet


def items_of(news: dict[str, Any]) -> list[str]:
    return [event["item"] for event in news["events"]]


@both
async def test_the_number_of_a_footer_can_be_waited_from_and_skips_nothing(board: Any, mode: str) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("mine")
    await bob.post("one")
    await bob.post("two")
    await alice.post("another of mine")
    assert alice.footer == "seq 5 · 2 unseen"
    news = await alice.do("wait", since=5, seconds=50)
    assert items_of(news) == ["F-2", "F-3"]
    assert news["cursor"] == 5
    assert alice.footer == "seq 5"
    assert items_of(await alice.do("wait", since=5, seconds=0)) == []
    await bob.post("three")
    assert items_of(await alice.do("wait", since=5, seconds=50)) == ["F-5"]


async def test_a_number_that_no_footer_gave_is_taken_as_it_is(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("mine")
    for text in ("one", "two"):
        await bob.post(text)
    assert items_of(await alice.do("wait", since=3, seconds=0)) == ["F-3"]
    assert alice.footer == "seq 4 · 1 unseen"
    assert items_of(await alice.do("wait", since=0, seconds=0))[1:] == ["F-1", "F-2", "F-3"], (
        "own acts as well"
    )


@both
async def test_without_a_place_a_wait_goes_on_from_what_was_shown(board: Any, mode: str) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("mine")
    for n in range(4):
        await bob.post(f"number {n}")
    await alice.do("read", ids=["F-3"])
    assert alice.footer == "seq 6 · 3 unseen"
    assert items_of(await alice.do("wait", seconds=50, limit=2)) == ["F-2", "F-4"]
    assert items_of(await alice.do("wait", seconds=50)) == ["F-5"]
    assert (await alice.do("wait", seconds=0))["events"] == []
    assert alice.footer == "seq 6"


async def test_own_acts_and_what_is_between_others_end_no_wait(tmp_path: Path) -> None:
    tools = ("core", "messages")
    async with boards.open_boards(tmp_path, boards.MODERN, tools=tools) as board:
        await waits_through_what_is_no_news(board)


async def waits_through_what_is_no_news(board: Any) -> None:
    alice, bob, carol = await board.join("alice", "bob", "carol")
    await alice.post("mine")
    await alice.do("read")
    seq = await board.seq()
    calls = [
        asyncio.create_task(alice.do("wait", seconds=50)),
        asyncio.create_task(alice.do("wait", since=seq, seconds=50)),
    ]
    tails = board.opened.blackboard.following.tails
    async with asyncio.timeout(PATIENCE):
        while tails._waiting < 2:  # noqa: ASYNC110 - the calls set no event
            await asyncio.sleep(0.01)
    poster = await board.join("alice")
    await poster.post("mine again")
    await bob.do("request", to="carol", text="which port?", seconds=0)
    await carol.do("respond", id="Q-3", text="8420")
    await board.opened.store.expire()
    assert tails._waiting == 2
    assert not any(call.done() for call in calls)
    await bob.post("for all", "LOG")
    async with asyncio.timeout(WOKEN):
        first, second = await asyncio.gather(*calls)
    assert items_of(first) == ["L-5"]
    assert {"F-2", "Q-3", "L-5"} <= set(items_of(second)), "with a place it is all that came after it"


async def test_what_left_comes_as_one_line_and_ends_no_wait(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    for text in ("built", "tests ran", "deployed", "smoke test green", "rolled out"):
        await alice.post(text, "LOG", ttl_seconds=60)
    await bob.do("read")
    board.clock.advance(61)
    await board.opened.store.expire()
    assert bob.footer == "seq 6"
    text = await bob.say("wait", seconds=0)
    assert text.splitlines() == [
        "no news but 5 archived, their time ended: L-1, L-2, L-3, L-4, L-5",
        "seq 11",
    ]
    assert await bob.say("wait", seconds=0) == "no news\nseq 11"
    await alice.post("something", "LOG")
    assert (await bob.say("wait", since=6, seconds=0)).splitlines() == [
        "seq 12 item.posted L-6 by alice: something",
        "5 archived, their time ended: L-1, L-2, L-3, L-4, L-5",
        "seq 12",
    ]


async def test_short_texts_come_whole_and_each_version_with_its_own(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    whole = "The pump holds nine bar, measured on Tuesday by two people with one gauge each, " * 3
    await alice.post(whole.strip(), key="plan:1")
    await bob.post("shut production down", key="plan:1")
    carol = await board.join("carol")
    text = await carol.say("wait", since=0, seconds=0)
    assert text.splitlines()[0] == f"seq 2 item.posted F-1 plan:1 by alice: {whole.strip()}"
    assert text.splitlines()[1] == "seq 3 item.versioned F-1@2 plan:1 by bob: shut production down"


async def test_what_short_texts_leave_of_an_answer_goes_to_the_long_one(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    long = "The cause is the pool: " + ", ".join(f"finding {n} agrees with it" for n in range(40)) + "."
    await bob.do("post", items=[{"text": f"Note {n}."} for n in range(9)] + [{"text": long}])
    text = await alice.say("wait", since=0, seconds=0)
    assert text.splitlines()[9] == f"seq 11 item.posted F-10 by bob: {long}", text
    await bob.post("a" * 2_001)
    assert (await alice.say("wait", since=11, seconds=0)).splitlines()[0].endswith("aaa…")


async def test_the_rest_that_an_answer_counts_is_that_of_the_footer(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("mine")
    await bob.do("post", items=[{"text": f"Finding {n} " + "word " * 90, "type": "LOG"} for n in range(40)])
    await bob.do("prune", author="bob")
    text = await alice.say("wait", seconds=0)
    more, unseen = re.search(r"… (\d+) more: wait\(\)", text), re.search(r" (\d+) unseen", text)
    assert more is not None
    assert unseen is not None
    assert more[1] == unseen[1]


async def test_what_an_answer_had_no_room_for_stays_unseen(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("mine")
    await bob.do("post", items=[{"text": f"Finding {n} " + "word " * 90} for n in range(40)])
    seen: list[str] = []
    for _ in range(4):
        text = await alice.say("wait", seconds=0)
        seen += re.findall(r"^seq \d+ item.posted (\S+)", text, re.M)
        if "unseen" not in text:
            break
        assert "more: wait()" in text
    assert seen == [f"F-{n}" for n in range(2, 42)]
    assert await alice.say("wait", seconds=0) == f"no news\nseq {await board.seq()}"


async def test_too_many_seconds_are_taken_for_as_many_as_there_may_be(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("mine")
    await bob.post("theirs")
    text = await alice.say("wait", seconds=3_600)
    assert text.splitlines()[0] == "a wait is 50 seconds at most; to go on, wait again"
    assert "F-2" in text
    assert (await alice.fail("wait", seconds=-1))["error"] == "invalid"


async def test_what_was_shown_is_known_after_a_restart_and_in_other_processes(tmp_path: Path) -> None:
    async with boards.open_boards(tmp_path, boards.MODERN) as one:
        alice, bob = await one.join("alice", "bob")
        await alice.post("mine")
        await bob.post("shown")
        await bob.post("not shown")
        await alice.do("read", ids=["F-2"])
        assert alice.footer == "seq 4 · 1 unseen"
        await one.opened.activity.flush()
        async with boards.open_boards(tmp_path, boards.MODERN) as two:
            again = await two.join("alice")
            await again.do("debate", op="status", id="F-1")
            assert again.footer == "seq 4 · 1 unseen"
            assert items_of(await again.do("wait", since=4, seconds=0)) == ["F-3"], (
                "a footer of before gave it"
            )
            await two.opened.activity.flush()
        await alice.do("debate", op="status", id="F-1")
        assert alice.footer == "seq 4"
    async with boards.open_boards(tmp_path, boards.MODERN) as three:
        later = await three.join("alice")
        assert (await later.do("wait", seconds=0))["events"] == []
        assert later.footer == "seq 4"


async def test_a_page_that_is_cut_goes_on_where_its_lines_end_and_counts_no_less_than_there_is(
    board: Any,
) -> None:
    alice, bob = await board.join("alice", "bob")
    await bob.post("mine")
    for _ in range(5):
        await alice.do("post", items=[{"text": f"{n} " + "word " * 20, "type": "LOG"} for n in range(50)])
    await bob.say("wait", seconds=0)
    waited = (await bob.say("wait", seconds=0)).splitlines()[-1]
    assert re.search(r" · \d+\+ unseen$", waited), "200 and more are left, of which a hundred are counted"
    *lines, more, footer = (await bob.say("read", since=2)).splitlines()
    last = int(lines[-1].split()[1])
    assert f"read(since={last}, " in more
    assert footer.startswith(f"go on with since={last} · seq ")
    assert (await bob.say("read", since=last)).splitlines()[0].startswith(f"seq {last + 1} ")


async def test_a_first_view_of_a_long_past_is_where_news_begins(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    for _ in range(3):
        await alice.do("post", items=[{"text": f"{n} " + "word " * 20, "type": "LOG"} for n in range(50)])
    await bob.post("mine")
    assert bob.footer.endswith(" · 99+ unseen")
    await bob.do("read")
    await bob.do("debate", op="status", id="F-151")
    assert "unseen" not in bob.footer
    await alice.post("new")
    assert items_of(await bob.do("wait", seconds=50)) == ["F-152"]


async def test_a_view_leaves_unseen_what_it_had_no_room_for(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.do("post", items=[{"text": f"{n} " + "word " * 60, "type": "LOG"} for n in range(30)])
    await bob.post("mine")
    view = await bob.do("read", budget=400)
    assert 0 < len(view["shown"]) < 31
    left = int(bob.footer.removesuffix(" unseen").rsplit(" ", 1)[1])
    assert 20 < left <= 30 - len(set(view["shown"]) - {"F-31"}), "what is folded into a shown line was shown"
    assert len((await bob.do("wait", seconds=0))["events"]) == left


async def test_a_wait_in_vain_says_when_the_others_were_last_here(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await bob.post("a finding")
    assert "a finding" in await alice.say("wait", since=0, seconds=0)
    board.clock.advance(120)
    text = await alice.say("wait", seconds=0.01)
    assert text.splitlines()[0] == "no news; last seen: bob 2m ago"
    assert (await alice.say("wait", seconds=0)).startswith("no news\n"), "who did not wait asked for nobody"


async def test_who_waits_alone_is_told_so(board: Any) -> None:
    alice = await board.join("alice")
    await alice.post("a finding")
    text = await alice.say("wait", seconds=0.01)
    assert text.splitlines()[0] == "no news; nobody else has written anything yet"


async def test_a_wait_without_news_says_whom_something_waits_for(board: Any) -> None:
    alice, bob, carol = await board.join("alice", "bob", "carol")
    await alice.post("it is so")
    await bob.post("it is not", "CRITIQUE", edges={"critiques": ["F-1"]})
    await carol.post("Do it.", "DECISION", agree=["bob"])
    for _ in range(2):
        text = await carol.say("wait", seconds=0.1)
    assert text.splitlines()[0].endswith("; waits for alice: answer C-2; bob: agree to D-3")
    await alice.say("wait", seconds=0)
    text = await alice.say("wait", seconds=0.1)
    assert text.splitlines()[0].endswith("; waits for bob: agree to D-3"), "one's own are in the footer"


async def test_a_wait_without_news_says_of_who_is_awaited_that_he_never_wrote(board: Any) -> None:
    alice = await board.join("alice")
    await alice.post("Do it.", "DECISION", agree=["dan"])
    text = await alice.say("wait", seconds=0.1)
    assert text.splitlines()[0].endswith("; waits for dan (has written nothing yet): agree to D-1")
    dan = await board.join("dan")
    await dan.post("I am here")
    for _ in range(2):
        text = await alice.say("wait", seconds=0.1)
    assert text.splitlines()[0].endswith("; waits for dan: agree to D-1")


@both
async def test_events_tell_type_tags_metadata_and_what_was_before(board: Any, mode: str) -> None:
    alice, bob = await board.join("alice", "bob")
    await bob.do("subscribe", filter={"agent": "alice"}, name="alice")
    await alice.post("one", "PLAN", key="k", tags=["t"], metadata={"ticket": 7}, ttl_seconds=60)
    await alice.post(id="P-1", importance=5, metadata={"ticket": 8}, ttl_seconds=90)
    await alice.post(id="P-1", status="RESOLVED")
    await alice.post("two", key="k", metadata={"log": "x" * 2_000})
    told = (await bob.do("read", since=1))["events"]
    assert [(e["event"], e["type"], e["tags"]) for e in told] == [
        ("item.posted", "PLAN", ["t"]),
        ("item.changed", "PLAN", ["t"]),
        ("item.changed", "PLAN", ["t"]),
        ("item.versioned", "PLAN", ["t"]),
    ]
    long = told[3]["metadata"]
    assert [e["metadata"] for e in told[:3]] == [{"ticket": 7}, {"ticket": 8}, {"ticket": 8}]
    assert (set(long), long["characters"]) == ({"characters", "sha256"}, 2_010)
    assert "metadata" not in told[0]["data"]
    assert [(e["data"].get("was"), e["data"].get("now")) for e in told] == [
        (None, None),
        (
            {"importance": 3, "metadata": {"ticket": 7}, "ttl": 60.0},
            {"importance": 5, "metadata": {"ticket": 8}, "ttl": 90.0},
        ),
        ({"status": "ACTIVE"}, {"status": "RESOLVED"}),
        (
            {"metadata": {"ticket": 8}, "status": "RESOLVED"},
            {"metadata": long, "status": "ACTIVE"},
        ),
    ]
    assert (await bob.do("wait", since=1, seconds=0))["events"] == told
    assert (await bob.do("wait", subscription="alice", seconds=0))["events"][-4:] == told
    lines = (await bob.say("read", since=1)).splitlines()
    assert lines[0] == "seq 2 item.posted P-1 k by alice: one"
    assert lines[3] == "seq 5 item.versioned P-1@2 k by alice: two"


@both
async def test_no_event_tells_others_what_a_private_item_of_the_same_key_had(board: Any, mode: str) -> None:
    alice, bob = await board.join("alice", "bob")
    canary = {"tags": ["canary"], "metadata": {"canary": 1}}
    await alice.post("canary", key="k", visibility="private", **canary)
    await alice.post("canary 2", key="k", visibility="private", tags=["canary2"])
    await alice.post(key="k", status="DELETED", visibility="private")
    await alice.post("open", key="k", visibility="board", tags=["t"])
    told = (await bob.do("read", since=0))["events"]
    assert [e["event"] for e in told] == ["board.created", "item.posted"]
    assert "canary" not in str(told)
    assert "canary" in str((await alice.do("read", since=0))["events"])


async def test_a_debate_tells_what_status_its_item_had(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("claim", metadata={"ticket": 7})
    await bob.post("no", "CRITIQUE", edges={"critiques": ["F-1"]})
    await alice.do("debate", op="concede", id="F-1")
    told = {e["event"]: e for e in (await bob.do("read", since=2))["events"]}
    assert told["debate.opened"]["data"]["was"] == {"status": "ACTIVE"}
    assert told["debate.opened"]["data"]["now"] == {"status": "DEBATED"}
    closed = told["debate.closed"]
    assert (closed["type"], closed["metadata"]) == ("FACT", {"ticket": 7})
    assert (closed["data"]["was"], closed["data"]["now"]) == (
        {"status": "DEBATED"},
        {"status": "INVALIDATED"},
    )
