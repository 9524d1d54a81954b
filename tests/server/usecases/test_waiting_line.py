"""Callers that wait for the same work: one at a time, the longest wait first."""

from __future__ import annotations

import asyncio

import pytest
from blackboard_mcp.server.usecases.waiting_line import WaitingLine
from patience import PATIENCE


async def test_whoever_waited_longest_goes_first_in_whatever_order_they_wake() -> None:
    line, order, inside = WaitingLine(), [], 0

    async def ask(place: int) -> None:
        nonlocal inside
        async with line.turn(place):
            inside += 1
            order.append(place)
            await asyncio.sleep(0)
            assert inside == 1
            inside -= 1

    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*map(ask, [3, 1, 4, 2]))
    assert order == [1, 2, 3, 4]


async def test_a_turn_that_is_cancelled_or_fails_lets_the_next_go() -> None:
    line, order = WaitingLine(), []
    entered, leave = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with line.turn(1):
            entered.set()
            await leave.wait()
            raise ValueError("no luck")

    async def ask(place: int) -> None:
        async with line.turn(place):
            order.append(place)

    holder = asyncio.create_task(hold())
    await entered.wait()
    waiting = [asyncio.create_task(ask(place)) for place in (2, 3, 4)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    leave.set()
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(ValueError, match="no luck"):
            await holder
        await asyncio.gather(*waiting, return_exceptions=True)
    assert order == [3, 4]


async def test_a_turn_given_to_a_caller_that_is_cancelled_goes_on() -> None:
    line = WaitingLine()

    async def ask() -> None:
        async with line.turn(1):
            raise AssertionError("it was cancelled before its turn began")

    first = asyncio.create_task(ask())
    await asyncio.sleep(0)  # it asks
    await asyncio.sleep(0)  # it is given its turn, and has not noticed yet
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    async with asyncio.timeout(PATIENCE), line.turn(2):
        pass
