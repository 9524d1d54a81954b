"""Taking part through boards for programs, in the same process and over MCP: who takes part, and leaving."""

from __future__ import annotations

from typing import Any

import pytest
from blackboard_mcp.protocols.errors import Forbidden, InvalidInput, Refused


async def test_programs_take_part_and_leave(place: Any, board: Any) -> None:
    bob = await place.join("bob")
    joined = await bob.join("reviews", skills=["sql"], interests=[{"type": "CRITIQUE"}])
    assert (joined.you.role, joined.you.skills, joined.you.interests) == (
        "reviews",
        ["sql"],
        [{"type": "CRITIQUE"}],
    )
    assert (await board.join("", idempotency_key="one")).you.present
    assert (await board.join("", idempotency_key="one")).seq == board.seq
    assert [one.agent for one in (await board.participants()).others] == ["bob"]
    question = await board.post("what do you say, @bob?", type="QUESTION")
    left = await bob.leave("my shift is over")
    assert (left.you, left.waived) == (None, [question.id])
    assert (await board.participants()).others == []
    with pytest.raises(Refused):
        await bob.leave()
    await bob.join("back")
    assert (await bob.leave()).waived == []


async def test_programs_say_what_they_speak_without_repeating_their_role(board: Any) -> None:
    assert (await board.join()).you is None
    await board.join("reviews")
    joined = (await board.join(protocols=["grounding"])).you
    assert (joined.role, joined.protocols) == ("reviews", ["grounding"])


async def test_what_is_not_allowed_is_refused(board: Any) -> None:
    with pytest.raises(InvalidInput):
        await board.join("two\nlines")
    with pytest.raises(InvalidInput):
        await board.join("x", skills=["No Skill"])
    assert (await board.participants()).you is None


async def test_who_only_reads_joins_nothing(place: Any, board: Any) -> None:
    await board.post("x")
    await board.change(members={"eve": "observer"})
    eve = await place.join("eve")
    assert (await eve.participants()).you is None
    with pytest.raises(Forbidden):
        await eve.join("reads")
