"""Requests between agents from Python, the same in-process and over MCP: F53, F63."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from blackboard_mcp.protocols.errors import BlackboardError, InvalidInput, UnknownReference
from patience import PATIENCE


async def test_a_question_by_skill_is_answered_in_parts(place: Any, board: Any) -> None:
    bob = await place.join("bob")
    assert await bob.next_request(skills=["sql"], seconds=0) is None
    asking = asyncio.create_task(board.ask("skill:sql", "how many rows?", deadline_seconds=600))
    async with asyncio.timeout(PATIENCE):
        taken = None
        while taken is None:
            taken = await bob.next_request(seconds=5)
        assert (taken.question.text, taken.request.asker, taken.request.state) == (
            "how many rows?",
            "alice",
            "TAKEN",
        )
        await bob.respond(taken.request.id, "counting", lease=taken.request.lease, partial=True)
        await bob.respond(taken.request.id, "about 40", lease=taken.request.lease)
        stands = await asking
    assert stands.request.state == "ANSWERED"
    assert stands.answer.text == "counting\nabout 40"
    assert (await board.item(stands.request.answer)).author == "bob"


async def test_a_question_may_be_declined_or_taken_back(place: Any, board: Any) -> None:
    bob = await place.join("bob")
    await bob.post("here")
    first = await board.ask("bob", "why?", wait=False)
    second = await board.ask("bob", "really?", wait=False)
    assert [request.id for request in (await bob.requests()).waiting] == [first.request.id, second.request.id]
    with pytest.raises(InvalidInput):
        await bob.decline(first.request.id, " ")
    await bob.decline(first.request.id, "not my field")
    ended = await board.answer_to(first.request.id)
    assert (ended.request.state, ended.request.reason) == ("DECLINED", "not my field")
    assert (await board.cancel_request(second.request.id)).request.state == "CANCELLED"
    with pytest.raises(BlackboardError):
        await bob.respond(second.request.id, "too late")
    assert (await board.requests()).asked == []


async def test_mistakes_with_requests_are_told(board: Any) -> None:
    with pytest.raises(InvalidInput):
        await board.ask("no body", "what?")
    with pytest.raises(InvalidInput):
        await board.ask("bob", " ")
    with pytest.raises(UnknownReference):
        await board.answer_to("Q-99")
