"""Tasks through boards for programs, in the same process and over MCP: planning, taking and ending them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, Refused, UnknownReference
from patience import PATIENCE


async def test_programs_plan_tasks_and_work_them_off(place: Any, board: Any) -> None:
    bob = await place.join("bob")
    graph = [{"title": "survey", "verify": True}, {"title": "build", "after": ["$1"]}]
    planned = await board.plan(graph, idempotency_key="graph")
    assert [task.id for task in planned.items] == ["T-1", "T-2"]
    assert [task.id for task in (await board.plan(graph, idempotency_key="graph")).items] == ["T-1", "T-2"]
    taken = await bob.claim(seconds=0)
    assert (taken.id, taken.lease) == ("T-1", bob.seq)
    assert await board.claim(seconds=0) is None
    waiting = asyncio.create_task(board.claim(seconds=20))
    done = await bob.settle("done", "T-1", "Nine stations.", lease=taken.lease)
    assert (done.task.state, (await board.agenda()).review) == ("REVIEW", ["T-1"])
    await board.settle("verify", "T-1", "counted them", ok=True)
    async with asyncio.timeout(PATIENCE):
        next_ = await waiting
    assert (next_.id, next_.inputs[0].text) == ("T-2", "Nine stations.")
    await board.settle("release", text="no time")
    assert (await bob.claim("T-2")).brief[0].note == "no time"
    await board.plan(cancel=["T-2"], why="not needed")
    assert (await board.agenda()).items == []


async def test_programs_reserve_keys(place: Any, board: Any) -> None:
    bob = await place.join("bob")
    held = await board.claim(paths=["key:plan:*"])
    assert (held.id, held.reserved[0].pattern) == (None, "key:plan:*")
    with pytest.raises(Conflict):
        await bob.post("v1", key="plan:one")
    await board.settle("release", lease=held.lease)
    await bob.post("v1", key="plan:one")


async def test_what_is_not_allowed_is_refused(place: Any, board: Any) -> None:
    bob = await place.join("bob")
    with pytest.raises(InvalidInput):
        await board.plan([])
    with pytest.raises(UnknownReference):
        await board.claim("T-1")
    await board.plan([{"title": "one"}, {"title": "two", "after": ["$1"]}])
    with pytest.raises(Refused):
        await board.claim("T-2")
    taken = await board.claim("T-1")
    with pytest.raises(Conflict) as conflict:
        await bob.claim("T-1")
    assert conflict.value.facts["lease"] == taken.lease
