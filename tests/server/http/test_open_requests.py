"""Requests that are ended while they are answered, because their token counts no more."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from blackboard_mcp.protocols.access import Principal
from blackboard_mcp.protocols.errors import Unauthorized
from blackboard_mcp.server.http.open_requests import OpenRequests
from patience import PATIENCE


async def test_what_goes_on_after_it_was_cancelled_is_cancelled_again() -> None:
    begun, cancelled = asyncio.Event(), 0

    async def identify(headers: Mapping[str, str]) -> Principal:
        raise Unauthorized("The token counts no more.")

    async def stubborn() -> None:
        nonlocal cancelled
        while cancelled < 3:
            try:
                begun.set()
                await asyncio.sleep(PATIENCE)
            except asyncio.CancelledError:
                cancelled += 1

    requests = OpenRequests(identify)
    told = asyncio.create_task(requests.while_welcome({}, Principal("ann", "ann", {}), stubborn()))
    await begun.wait()
    async with asyncio.timeout(PATIENCE):
        while not told.done():
            await requests.sweep(issued=False)
            await asyncio.sleep(0)
    why = told.result()
    assert why is not None
    assert cancelled == 3
    assert len(requests) == 0
