"""Hand-overs by programs, in the same process and over HTTP: each line once, wrong lines named, none over stdio."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.errors import InvalidInput, Refused
from blackboard_mcp.server.board import Board

LINES = [
    {"id": "m1", "kind": "message", "text": "Never commit to main. How are you?", "thread": "s1"},
    {"id": "c1", "kind": "call", "tool": "pytest", "text": "pytest -q", "thread": "s1"},
    {"id": "r1", "kind": "result", "tool": "pytest", "ok": False, "text": "2 failed", "subject": "src"},
]


async def test_programs_hand_over_lines_once(place: Any, board: Any) -> None:
    told = await board.hand_over(LINES)
    assert (told.board, len(told.items), told.repeated) == (place.name, 3, 0)
    assert (len(told.proposed), len(told.issues)) == (1, 1)
    found = (await board.read(told.items)).items
    assert {(item.author, item.type) for item in found} == {(board.agent, "LOG")}
    assert board.seq >= told.seq
    again = await board.hand_over(LINES)
    assert (again.items, again.repeated) == ([], 3)
    assert "pytest fails" in (await board.view()).view
    with pytest.raises(InvalidInput, match="Line 2"):
        await board.hand_over([LINES[0], {"id": "x", "kind": "word", "text": "a"}])
    with pytest.raises(InvalidInput, match="Line 2: it holds what is no JSON value"):
        await board.hand_over([LINES[0], {**LINES[1], "thread": {1, 2}}])
    with pytest.raises(InvalidInput, match="1 to 200 lines"):
        await board.hand_over([])
    secret = await board.hand_over([{"id": "s", "kind": "message", "text": "AKIA" + "ABCDEFGHIJKLMNOP"}])
    assert secret.masked == 1


async def test_a_board_that_is_opened_again_takes_hand_overs(tmp_path: Path) -> None:
    board = Board.open(agent="alice", data=tmp_path)
    for line in LINES:
        async with board:
            assert len((await board.hand_over([line])).items) == 1


@pytest.mark.parametrize("place", ["stdio"], indirect=True)
async def test_over_stdio_there_is_no_hand_over(board: Any) -> None:
    with pytest.raises(Refused, match="connect over HTTP"):
        await board.hand_over(LINES)
