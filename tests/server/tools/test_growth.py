"""The growth of the data folder in `stats`: for admins of every board, measured beside the calls."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import boards
import pytest
from blackboard_mcp.protocols.access import EVERY_BOARD, Principal, Role
from blackboard_mcp.server.board import Board
from blackboard_mcp.server.usecases.growth import Growth
from blackboard_mcp.server.usecases.growth_meter import Gauge
from patience import PATIENCE

board, mode = boards.board, boards.mode
STATS = "board://main/stats.json"


class Facts:
    """The figures of a board for programs, as an agent reads them."""

    def __init__(self, own: Board) -> None:
        self._own = own

    async def facts(self, uri: str) -> Any:
        return (await self._own.statistics()).model_dump()


async def told(agent: Any) -> Any:
    """The growth, once it was measured."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if (growth := (await agent.facts(STATS))["growth"]) is not None:
                return growth
            await asyncio.sleep(0.01)


async def test_stats_tell_the_growth_of_the_folder_to_admins_of_every_board(
    board: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def who(info: Any) -> Principal:
        roles = {
            "chief": {EVERY_BOARD: Role.ADMIN},
            "admin": {"main": Role.ADMIN},
            "guest": {EVERY_BOARD: Role.STEWARD},
        }
        return Principal(info.client_name, info.client_name, roles[info.client_name], via="token")

    monkeypatch.setattr(boards, "by_client_name", who)
    board.server = boards.compose.build_server(board.opened, identify=who)
    chief, admin, guest = await board.join("chief", "admin", "guest")
    await chief.post("of a while ago")
    board.clock.advance(3 * 86_400)
    await chief.post("of today")
    growth = await told(chief)
    size = board.opened.settings.database.stat().st_size
    assert growth["bytes_a_day"] == pytest.approx(size / 3, rel=0.5)
    assert growth["free_bytes"] > 0
    assert "growth 0." in await chief.resource("board://main/stats")
    for other in (admin, guest):
        assert (await other.facts(STATS))["growth"] is None
        assert "growth" not in await other.resource("board://main/stats")


async def test_programs_are_told_as_well(board: Any) -> None:
    ada = await board.join("ada")
    await ada.post("of a while ago")
    board.clock.advance(3 * 86_400)
    await ada.post("of today")
    async with Board.open("main", agent="ada", data=board.opened.settings.folder, clock=board.clock) as own:
        facts = Facts(own)
        assert (await told(facts))["bytes_a_day"] > 0


class Seconds:
    """A clock that stands still."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_no_call_waits_for_a_measurement_and_it_holds_for_an_hour() -> None:
    go_on, clock, measured = threading.Event(), Seconds(), 0

    def measure() -> Growth:
        nonlocal measured
        assert go_on.wait(PATIENCE)
        measured += 1
        return Growth(measured, 1, 1, (), 1, None)

    gauge = Gauge(measure, monotonic=clock)
    assert [gauge.latest() for _ in range(9)] == [None] * 9
    go_on.set()
    await gauge.close()
    for clock.now, days in ((0.0, 1), (3_599.0, 1), (3_600.0, 1)):
        assert (known := gauge.latest()) is not None
        assert known.days == days
        await gauge.close()
    assert (known := gauge.latest()) is not None
    assert (known.days, measured) == (2, 2)


async def test_a_measurement_that_fails_is_made_again_and_told_to_nobody() -> None:
    clock, asked = Seconds(), 0

    def measure() -> Growth:
        nonlocal asked
        asked += 1
        raise OSError("the folder is gone")

    gauge = Gauge(measure, monotonic=clock)
    for clock.now in (0.0, 3_600.0):
        assert gauge.latest() is None
        await gauge.close()
        assert gauge.latest() is None
    assert asked == 2
