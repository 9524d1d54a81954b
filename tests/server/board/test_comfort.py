"""Conveniences for programs: short imports, literal types, and boards without awaiting."""

from __future__ import annotations

import asyncio
import enum
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import blackboard_mcp.server as short
import pytest
from blackboard_mcp.protocols import literals
from blackboard_mcp.protocols.board import Lifecycle
from blackboard_mcp.protocols.debates import DebateOp, Outcome
from blackboard_mcp.protocols.errors import Conflict
from blackboard_mcp.protocols.items import DELETED, EdgeKind, ItemType, Status, Visibility, Zone
from blackboard_mcp.server import Board, blocking, board
from patience import PATIENCE


def test_short_imports_are_what_the_board_has_and_load_nothing_before() -> None:
    for name in short.__all__:
        assert getattr(short, name) is getattr(board, name)
    with pytest.raises(AttributeError, match="no attribute 'Bord'"):
        _ = short.Bord
    code = "import sys, blackboard_mcp.server; print(*(m for m in sys.modules if 'blackboard' in m or m == 'pydantic'))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["blackboard_mcp", "blackboard_mcp.server"]


@pytest.mark.parametrize(
    ("words", "enumeration", "but"),
    [
        (literals.PostTypeName, ItemType, {"SUMMARY"}),
        (literals.TypeName, ItemType, set()),
        (literals.StatusName, Status, {DELETED}),
        (literals.VisibilityName, Visibility, {"readers"}),
        (literals.ZoneName, Zone, {"core", "all"}),
        (literals.OutcomeName, Outcome, {"open"}),
        (literals.LifecycleName, Lifecycle, set()),
        (literals.EdgeName, EdgeKind, set()),
        (literals.DebateCallName, DebateOp, set()),
    ],
)
def test_literal_types_are_the_words_of_the_enumerations(
    words: Any, enumeration: type[enum.StrEnum], but: set[str]
) -> None:
    assert set(get_args(words)) ^ {str(member) for member in enumeration} == but


def test_a_script_uses_a_board_without_awaiting(tmp_path: Path) -> None:
    with blocking(Board.open(agent="ann", data=tmp_path)) as (ann, run):
        fact = run(ann.post("p95 is 900 ms", tags=["latency"], type="FACT"))
        run(ann.post("one", key="k", expected_version=0))
        with pytest.raises(Conflict):
            run(ann.post("two", key="k", expected_version=0))
        for number in range(3):
            run(ann.post(f"n{number}", type="LOG"))
        assert [item.text for item in run.each(ann.query(type="LOG", page=2))] == ["n2", "n1", "n0"]
        assert run(ann.item(fact.id)).tags == ["latency"]
        events = run.each(ann.events(since=0))
        assert next(events).event == "board.created"
    with pytest.raises(RuntimeError):
        run(ann.post("late"))


async def test_it_works_where_another_loop_runs_as_in_notebooks(tmp_path: Path) -> None:
    with blocking(Board.open(agent="ann", data=tmp_path)) as (ann, run):
        assert run(ann.post("x")).id == "F-1"
        await asyncio.sleep(0)


_INTERRUPTED = """
import asyncio, signal, sys, threading
from blackboard_mcp.server import Board, blocking

signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background may ignore it

async def interrupt():
    main = threading.main_thread().ident
    while sys._current_frames()[main].f_code.co_name != "wait":
        await asyncio.sleep(0.001)
    signal.pthread_kill(main, signal.SIGINT)

async def interrupted(call):
    asyncio.create_task(interrupt())
    return await call

async def held(stream):
    yield await interrupted(anext(stream))

with blocking(Board.open(agent="ann")) as (ann, run):
    try:
        run(interrupted(ann.claim(seconds=25)))
    except KeyboardInterrupt:
        run(ann.plan([{"title": "survey the stations"}]))
        run(asyncio.sleep(0))
        print(run(ann.task("T-1")).holder)
    events = ann.events(since=run(ann.info()).seq)
    try:
        next(run.each(held(events)))
    except KeyboardInterrupt:
        run(ann.post_all([{"text": "one"}, {"text": "two"}]))
        print(run(anext(events)).item, run(anext(events)).item)
"""


def test_an_interrupt_cancels_the_call_that_it_interrupts() -> None:
    command = [sys.executable, "-c", _INTERRUPTED]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert said.stdout.splitlines() == ["None", "F-1 F-2"]


def test_an_error_within_the_block_closes_the_board(tmp_path: Path) -> None:
    def broken() -> None:
        with blocking(Board.open(agent="ann", data=tmp_path)) as (ann, run):
            run(ann.post("x"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    with blocking(Board.open(agent="ann", data=tmp_path)) as (ann, run):
        assert run(ann.item("F-1")).text == "x"
