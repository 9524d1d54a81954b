"""What ends a wait: what asks something of the agent at once, other news together after a lull."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import boards
import pytest
from blackboard_mcp.server.limits.limits import Limits
from blackboard_mcp.server.usecases import lull
from patience import PATIENCE, WOKEN

TOOLS = ("core", "messages", "admin")
QUIET, NEVER = 0.05, 50.0
"""A lull that is over soon, and one that no test waits for."""


@pytest.fixture
async def board(tmp_path: Path) -> AsyncIterator[Any]:
    async with boards.open_boards(
        tmp_path, boards.MODERN, tools=TOOLS, limits=Limits(lull_seconds=NEVER)
    ) as board:
        yield board


def items_of(news: Any) -> list[str]:
    return [event["item"] for event in news["events"] if event["event"] == "item.posted"]


async def until(found: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not found():  # noqa: ASYNC110 - what is looked at sets no event
            await asyncio.sleep(0.01)


async def waiting(board: Any, *calls: Awaitable[Any]) -> list[asyncio.Task[Any]]:
    """The calls, under way, each of them waiting."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    tails = board.opened.blackboard.following.tails
    await until(lambda: tails._waiting == len(tasks))
    return tasks


async def heard(board: Any, upto: int) -> None:
    """Returns when the tail of the board has come so far: whoever waits has been asked about it."""
    tails = board.opened.blackboard.following.tails
    await until(lambda: tails._tails["main"].end >= upto)


async def ended(tasks: list[asyncio.Task[Any]]) -> list[Any]:
    async with asyncio.timeout(WOKEN):
        return await asyncio.gather(*tasks)


async def question(ben: Any) -> None:
    await ben.post("@ada Which port?", "QUESTION")


async def mention(ben: Any) -> None:
    await ben.post("As @ada says.", "LOG")


async def support(ben: Any) -> None:
    await ben.post("Seen here too, @ada.", edges={"supports": ["H-1"]})


async def critique(ben: Any) -> None:
    await ben.post("No: it was raining.", "CRITIQUE", edges={"critiques": ["H-1"]})


async def reply(ben: Any) -> None:
    await ben.post("Since noon.", "REPLY", edges={"replies_to": ["H-1"]})


async def agreement(ben: Any) -> None:
    await ben.post("We go by train.", "DECISION", agree=["ada"])


async def request(ben: Any) -> None:
    await ben.do("request", to="ada", text="which port?", seconds=0)


async def hot_issue(ben: Any) -> None:
    await ben.post("Production is down.", "HOT_ISSUE")


async def test_what_asks_something_is_told_even_if_its_duty_was_read_before_it_was_heard(
    board: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("The pump leaks.")
    await ada.do("read")
    calls = await waiting(board, ada.do("wait", seconds=50))
    following = board.opened.blackboard.following
    read, asked = following._log, False

    async def late(agent: str, name: str) -> Any:
        nonlocal asked
        if not asked:
            asked = True
            await question(ben)
        return await read(agent, name)

    monkeypatch.setattr(following, "_log", late)
    await ben.post("Seen here too.", edges={"supports": ["F-1"]})
    (news,) = await ended(calls)
    assert asked
    assert items_of(news) == ["F-2", "Q-3"]


@pytest.mark.parametrize(
    "act",
    [question, mention, support, critique, reply, agreement, request, hot_issue],
    ids=lambda f: f.__name__,
)
async def test_what_asks_something_of_an_agent_comes_at_once_with_all_that_came_before(
    board: Any, act: Callable[[Any], Awaitable[None]]
) -> None:
    ada, ben, cleo = await board.join("ada", "ben", "cleo")
    await ada.post("The pump leaks.", "HYPOTHESIS")
    await ada.do("read")
    seq = await board.seq()
    again = await board.join("ada")
    calls = await waiting(board, ada.do("wait", seconds=50), again.do("wait", since=seq, seconds=50))
    await cleo.post("of no concern")
    await cleo.post("of none either", edges={"supports": ["H-1"]})
    await heard(board, await board.seq())
    assert not any(call.done() for call in calls)
    await act(ben)
    plain, placed = await ended(calls)
    assert items_of(plain)[:2] == items_of(placed)[:2] == ["F-2", "F-3"]
    for news in (plain, placed):
        assert news["events"][2]["item"].endswith("-4"), "what was asked"
    assert (await ada.do("wait", seconds=0))["events"] == [], "nothing twice"


async def test_the_answer_to_a_critique_comes_at_once_to_whoever_judges_it(board: Any) -> None:
    ada, ben, cleo = await board.join("ada", "ben", "cleo")
    await ada.post("The pump leaks.", "HYPOTHESIS")
    await ben.post("No: it was raining.", "CRITIQUE", edges={"critiques": ["H-1"]})
    await cleo.do("debate", op="open", id="H-1", watchers=["cleo"])
    for agent in (ben, cleo):
        await agent.do("read")
        await agent.do("wait", seconds=0)
    calls = await waiting(board, ben.do("wait", seconds=50), cleo.do("wait", seconds=50))
    await ada.post("Not in the cellar.", "REPLY", edges={"replies_to": ["C-2"]})
    for news in await ended(calls):
        assert items_of(news) == ["R-3"]
    for agent in (ben, cleo):
        assert "you owe: acknowledge" in agent.footer


@pytest.mark.parametrize("quorum", [1, 2])
async def test_a_critique_comes_at_once_to_who_answers_it_and_its_answer_to_who_judges_it(
    board: Any, quorum: int
) -> None:
    ada, ben, cleo, dan = await board.join("ada", "ben", "cleo", "dan")
    await ada.do("board", board="main", settings={"quorum": quorum})
    await dan.do("debate", op="watch", id="tag:pump")
    await ada.post("The pump leaks.", "HYPOTHESIS", tags=["pump"])
    await cleo.do("debate", op="watch", id="H-1")
    await cleo.do("debate", op="acknowledge", id="H-1")
    for agent in (ada, cleo, dan):
        await agent.do("read")
        await agent.do("wait", seconds=0)
    author, *watchers = await waiting(board, *(a.do("wait", seconds=50) for a in (ada, cleo, dan)))
    await critique(ben)
    (news,) = await ended([author])
    assert items_of(news) == ["C-2"]
    await heard(board, await board.seq())
    assert not any(call.done() for call in watchers), "they judge the answer"
    await ada.post("Not in the cellar.", "REPLY", edges={"replies_to": ["C-2"]})
    for news in await ended(watchers):
        assert items_of(news) == ["C-2", "R-3"]


async def test_the_end_of_a_board_ends_a_wait_at_once(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("mine")
    (call,) = await waiting(board, ada.do("wait", seconds=50))
    await ben.do("board", board="main", lifecycle="closed")
    (news,) = await ended([call])
    assert [event["event"] for event in news["events"]] == ["board.changed"]


async def test_a_wait_does_not_read_the_store_for_lines_of_no_concern(
    board: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("mine")
    await ada.do("read")
    following = board.opened.blackboard.following
    readings: list[str] = []
    reading = following._log

    async def counted(agent: str, board: str) -> Any:
        readings.append(agent)
        return await reading(agent, board)

    monkeypatch.setattr(following, "_log", counted)
    (call,) = await waiting(board, ada.do("wait", seconds=50))
    for number in range(lull.MOST_LINES):
        assert readings == ["ada"]
        await ben.post(f"finding {number}")
        await heard(board, await board.seq())
    (news,) = await ended([call])
    assert len(items_of(news)) == lull.MOST_LINES
    assert readings == ["ada", "ada"]


async def test_many_lines_end_a_wait_at_once(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("mine")
    (call,) = await waiting(board, ada.do("wait", seconds=50))
    for number in range(lull.MOST_LINES):
        assert not call.done()
        await ben.post(f"finding {number}")
    (news,) = await ended([call])
    assert len(news["events"]) == lull.MOST_LINES


async def test_a_full_page_ends_a_wait_and_the_next_goes_on_after_it(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("mine")
    for number in range(3):
        await ben.post(f"finding {number}")
    seq = (await ada.do("wait", seconds=50, limit=2))["events"][-1]["seq"]
    assert seq == 4
    assert items_of(await ada.do("wait", since=seq, seconds=50, limit=1)) == ["F-4"]


@pytest.mark.parametrize("placed", [False, True])
async def test_after_a_lull_all_news_come_together_and_none_twice(tmp_path: Path, placed: bool) -> None:
    """However the lines and the waits fall: a program that loops gets each once."""
    limits = Limits(lull_seconds=QUIET)
    async with boards.open_boards(tmp_path, boards.MODERN, limits=limits) as board:
        ada, ben = await board.join("ada", "ben")
        await ada.post("mine")
        place = await board.seq()
        wanted = [f"F-{n}" for n in range(2, 32)]
        got: list[str] = []

        async def loop() -> None:
            nonlocal place
            while len(got) < len(wanted):
                news = await ada.do("wait", seconds=50, **({"since": place} if placed else {}))
                got.extend(items_of(news))
                place = news["cursor"]

        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            group.create_task(loop())
            for id_ in wanted:
                assert (await ben.post(f"line {id_}"))["id"] == id_
                if id_.endswith("0"):
                    await until(lambda upto=id_: upto in got)
        assert got == wanted


async def test_who_writes_on_and_on_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lull, "MOST_LINES", 1_000_000)
    limits = Limits(lull_seconds=QUIET)
    async with boards.open_boards(tmp_path, boards.MODERN, limits=limits) as board:
        ada, ben = await board.join("ada", "ben")
        await ada.post("mine")
        call = asyncio.create_task(ada.do("wait", seconds=50, limit=200))
        async with asyncio.timeout(PATIENCE):
            while not call.done():
                await ben.post("more and more", "LOG")
        assert (await call)["events"]


async def test_one_line_that_was_there_at_the_call_comes_with_what_follows_it(board: Any) -> None:
    ada, ben, cleo = await board.join("ada", "ben", "cleo")
    await ben.post("before")
    await ada.post("mine")
    assert ada.footer.endswith("1 unseen")
    (call,) = await waiting(board, ada.do("wait", seconds=50))
    await cleo.post("meanwhile")
    await heard(board, await board.seq())
    assert not call.done()
    await ben.post("@ada, look")
    (news,) = await ended([call])
    assert items_of(news) == ["F-1", "F-3", "F-4"]


async def test_who_owes_something_gets_what_is_there_at_once(board: Any) -> None:
    ada, ben, cleo = await board.join("ada", "ben", "cleo")
    await ada.post("mine")
    await ben.post("@ada Which port?", "QUESTION")
    await ada.do("read")
    await cleo.post("of no concern")
    assert items_of(await ada.do("wait", seconds=50)) == ["F-3"]


async def test_a_subscription_is_told_of_each_match_at_once(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    held = await ada.do("subscribe", filter={"type": "LOG"})
    (call,) = await waiting(board, ada.do("wait", subscription=held["id"], seconds=50))
    await ben.post("built", "LOG")
    (news,) = await ended([call])
    assert items_of(news) == ["L-1"]


async def test_a_wait_never_outlasts_its_own_seconds(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("mine")
    await ben.post("theirs")
    for seconds in (0, QUIET):
        assert items_of(await ada.do("wait", since=2, seconds=seconds)) == ["F-2"]
