"""Runs through boards for programs, in the same process and over MCP (F37, F40)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, Refused, UnknownReference
from blackboard_mcp.server.board import Board
from patience import PATIENCE


async def test_programs_take_turns_and_answer(place: Any, board: Any) -> None:
    bob = await place.join("bob")
    started = await board.start_run(
        "Which pump?", ["bob"], coordinator=board.agent, budget={"steps": 9}, idempotency_key="run"
    )
    assert (started.run, started.kind) == ("run-1", "decide")
    assert (
        await board.start_run(
            "Which pump?", ["bob"], coordinator=board.agent, budget={"steps": 9}, idempotency_key="run"
        )
    ).run == "run-1"
    waiting = asyncio.create_task(bob.turn(seconds=20))
    said = {"terminate": False, "next_agent": "bob", "instruction": "Measure."}
    await board.turn(decision=said, lease=started.lease, seconds=0)
    async with asyncio.timeout(PATIENCE):
        mine = await waiting
    assert (mine.yours, mine.instruction) == (True, "Measure.")
    done = await bob.turn("60 litres.", lease=mine.lease, usage={"tokens": 80}, seconds=0)
    with pytest.raises(Conflict):
        await bob.turn("70 litres.", lease=mine.lease)
    ended = await board.turn(decision='{"terminate": true}', seconds=0)
    assert (ended.state, ended.kind) == ("settled", "answer")
    assert (await bob.finalize()).source == "contribution"
    final = await board.finalize("The blue one.", cites=done.posted)
    assert (final.posted, final.cites) == (True, done.posted)
    assert (await bob.turn()).answer == final.answer
    with pytest.raises(Refused):
        await board.finalize("The red one.")


async def test_what_is_no_run_is_refused(place: Any, board: Any) -> None:
    with pytest.raises(InvalidInput):
        await board.start_run("Which pump?", strategy="guess")
    with pytest.raises(UnknownReference):
        await board.turn("60 litres.")
    with pytest.raises(UnknownReference):
        await board.finalize()
    assert (await board.turn(seconds=0)).run is None


async def test_what_another_process_did_in_a_run_counts_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the counter of changes hears of it."""
    async with (
        Board.open(agent="ann", data=tmp_path, settings={"tools": "core,run"}) as one,
        Board.open(agent="ann", data=tmp_path, settings={"tools": "core,run"}) as other,
    ):
        await one.post("begin")
        await one.as_agent("bob").post("begin")
        await one.start_run("What next?", ["ann", "bob"])
        assert (await other.turn(seconds=0)).yours
        monkeypatch.setattr(other._opening.opened.store, "changes", lambda: 1)
        for _ in range(2):
            assert (await other.turn(seconds=0)).yours
        await one.turn("what I think", seconds=0)
        assert not (await other.turn(seconds=0)).yours
