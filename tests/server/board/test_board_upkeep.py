"""What a server does on its own happens in a program's process too: passes, expiry, and a clean end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from blackboard_mcp.protocols.errors import InvalidInput, StoreClosed, StoreDamaged
from blackboard_mcp.server.board import Board, in_process
from blackboard_mcp.server.board.in_process import InProcess
from blackboard_mcp.server.compose import Installation
from patience import PATIENCE


async def test_a_board_is_pruned_and_items_expire_by_themselves() -> None:
    async with asyncio.timeout(PATIENCE), Board.open(agent="alice", settings={"target_tokens": 400}) as board:
        await board.post("soon gone", key="note", ttl_seconds=0.2)
        async for event in board.events({"event": "item.expired"}, since=0):
            assert event.key == "note"
            break
        async with board.events({"event": "prune.ended"}) as passes:
            for n in range(40):
                await board.post(f"an item of some words that fill the board {n} " * 2, importance=1)
            async for _ in passes:  # the first may have come before the last posts
                figures = await board.statistics()
                if figures.working_tokens <= figures.high_water_tokens:
                    break
        assert figures.archived_items > 1


async def test_a_board_that_cannot_be_opened_leaves_no_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(opened: Installation) -> InProcess:
        raise TypeError("a tool that cannot be offered")

    monkeypatch.setattr(in_process, "InProcess", broken)
    before = asyncio.all_tasks()
    with pytest.raises(TypeError, match="cannot be offered"):
        async with Board.open(agent="alice", data=tmp_path):
            raise AssertionError("it was opened")
    assert asyncio.all_tasks() == before


async def test_leaving_a_board_leaves_no_task(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    async with Board.open(agent="alice", data=tmp_path) as board:
        await board.post("x")
        await board.on({}, lambda event: None)
        await board.as_agent("bob").on({}, lambda event: None)
        assert asyncio.all_tasks() > before
    assert asyncio.all_tasks() == before
    with pytest.raises(StoreClosed):
        await board.post("y")
    with pytest.raises(StoreClosed):
        await board.as_agent("bob").post("y")
    async with board:  # and may be opened again
        assert (await board.post("z")).id == "F-2"
        with pytest.raises(StoreClosed):
            await board.__aenter__()


async def test_of_two_tasks_that_enter_a_board_at_once_one_is_refused(tmp_path: Path) -> None:
    board = Board.open(agent="alice", data=tmp_path)
    entered, refused = await asyncio.gather(board.__aenter__(), board.__aenter__(), return_exceptions=True)
    assert entered is board
    assert isinstance(refused, StoreClosed)
    await board.post("one")
    await board.aclose()
    async with board:  # it can be opened again
        assert (await board.item("F-1")).text == "one"


async def test_two_boards_in_memory_have_nothing_in_common() -> None:
    async with Board.open(agent="alice") as one, Board.open(agent="alice") as other:
        await one.post("x", key="k")
        assert await other.find("k") is None


async def test_another_board_of_the_same_installation_begins_with_its_first_post() -> None:
    async with Board.open(agent="alice") as board:
        other = board.as_agent("bob", name="other")
        assert (await other.post("x")).id == "F-1"
        assert other.name == (await other.statistics()).board == "other"
        assert await board.query().all() == []


async def test_settings_and_files_that_are_none_are_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        await Board.open(agent="alice", settings={"target_tokens": "many"}).__aenter__()
    with pytest.raises(InvalidInput):
        await Board.open(agent="alice", settings={"colour": "red"}).__aenter__()
    for name, value in (("data", str(tmp_path)), ("board", "other"), ("agent", "bob")):
        with pytest.raises(InvalidInput, match=f"{name} is an argument"):
            await Board.open(agent="alice", settings={name: value}).__aenter__()
    with pytest.raises(InvalidInput, match="needs data="):
        await Board.open(agent="alice", settings={"store": "postgresql://host/db"}).__aenter__()
    with pytest.raises(InvalidInput, match="NUL"):
        await Board.open(agent="alice", data=tmp_path / "a\0b").__aenter__()
    with pytest.raises(InvalidInput):
        Board.open("no spaces", agent="alice")
    (tmp_path / "board.sqlite3").write_text("this is no database, and long enough to be read as one" * 30)
    with pytest.raises(StoreDamaged):
        await Board.open(agent="alice", data=tmp_path).__aenter__()
