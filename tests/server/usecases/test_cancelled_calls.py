"""Calls that are cancelled while their work goes on, which then fails: nothing is logged as a fault."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import boards
import pytest
from blackboard_mcp.protocols.changes import Change, ChangeKind, Proposal
from blackboard_mcp.protocols.errors import Conflict
from blackboard_mcp.protocols.workspace import Revision
from blackboard_mcp.server.access.judging import AccessJudge
from blackboard_mcp.server.access.registry import AccessPolicies, NamedPolicy
from blackboard_mcp.server.board import Board
from blackboard_mcp.server.usecases.agenda import Tasks
from blackboard_mcp.server.usecases.groups import Consumers, Turn
from blackboard_mcp.server.usecases.requests import Messaging
from blackboard_mcp.server.usecases.runs import Runs
from blackboard_mcp.storage.workspace import search
from patience import PATIENCE

Take = Callable[[Any, str | None], tuple[Any, Awaitable[Any]]]


def consume(board: Any, key: str | None) -> tuple[Any, Awaitable[Any]]:
    consumers = Consumers(board.opened.blackboard)
    return consumers.settle, consumers.take("ben", None, "crew", Turn(), seconds=0, once_key=key)


def claim(board: Any, key: str | None) -> tuple[Any, Awaitable[Any]]:
    tasks = Tasks(board.opened.blackboard)
    return tasks.settled, tasks.take("ben", None, once_key=key)


def respond(board: Any, key: str | None) -> tuple[Any, Awaitable[Any]]:
    messaging = Messaging(board.opened.blackboard)
    return messaging.settle, messaging.next("ben", None, seconds=0, once_key=key)


def faults_logged() -> list[dict[str, Any]]:
    """Returns the list of what asyncio is going to log as faults in this loop."""
    faults: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context))
    return faults


async def cancel(calling: asyncio.Future[Any]) -> None:
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling


@pytest.mark.parametrize(
    ("method", "take"), [("consume", consume), ("take_task", claim), ("take_next", respond)]
)
@pytest.mark.parametrize("key", [None, "once"])
async def test_a_write_that_fails_after_its_call_was_cancelled_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, take: Take, key: str | None
) -> None:
    faults = faults_logged()
    async with boards.open_boards(tmp_path, boards.MODERN, tools=("core", "messages", "plan")) as board:
        ben = await board.join("ben")
        await ben.post("start")
        await ben.do("consume", group="crew", filter={"type": "PLAN"}, limit=0)
        await ben.do("plan", items=[{"title": "one"}])
        await ben.do("respond", skills=["sql"], seconds=0)
        reached, go_on = asyncio.Event(), asyncio.Event()

        async def fails(*args: Any, **more: Any) -> Any:
            reached.set()
            await go_on.wait()
            raise Conflict("another has it")

        monkeypatch.setattr(board.opened.store, method, fails)
        settled, call = take(board, key)
        calling = asyncio.ensure_future(call)
        await asyncio.wait_for(reached.wait(), PATIENCE)
        await cancel(calling)
        del calling, call
        go_on.set()
        await asyncio.wait_for(settled(), PATIENCE)
        await asyncio.sleep(0)
        gc.collect()
    assert faults == []


async def test_a_policy_that_fails_after_its_call_was_cancelled_is_no_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    faults = faults_logged()
    asked, go_on = threading.Event(), threading.Event()

    class Fails:
        def decide(self, principal: Any, change: Change) -> Any:
            asked.set()
            assert go_on.wait(PATIENCE)
            raise ValueError

    policies = AccessPolicies()
    monkeypatch.setattr(policies, "on", lambda board, access: [NamedPolicy("fails", Fails(), own=True)])
    judge = AccessJudge(policies)
    proposal = Proposal("ben", "ben", None, (), (Change("main", ChangeKind.POST),))
    calling = asyncio.ensure_future(judge.judge(proposal))
    assert await asyncio.to_thread(asked.wait, PATIENCE)
    await cancel(calling)
    del calling
    go_on.set()
    asking = judge._bounded["fails"]._asking
    assert asking is not None
    await asyncio.wait([asking], timeout=PATIENCE)
    del asking
    await asyncio.sleep(0)
    gc.collect()
    assert faults == []


async def test_a_look_at_a_run_that_fails_after_who_waits_was_cancelled_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = faults_logged()
    async with boards.open_boards(tmp_path, boards.MODERN, tools=("core", "run")) as board:
        reached, go_on, failed = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def fails(*args: Any, **more: Any) -> Any:
            reached.set()
            await go_on.wait()
            failed.set()
            raise Conflict("it is away")

        monkeypatch.setattr(board.opened.store, "find_run", fails)
        runs = Runs(board.opened.blackboard, board.opened.conduct())
        calling = asyncio.ensure_future(runs._look("main", 1))
        await asyncio.wait_for(reached.wait(), PATIENCE)
        await cancel(calling)
        del calling, runs
        go_on.set()
        await asyncio.wait_for(failed.wait(), PATIENCE)
        await asyncio.sleep(0)
        gc.collect()
    assert faults == []


async def test_a_cancelled_search_of_files_puts_nothing_old_into_what_the_next_one_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = threading.Event(), threading.Event()
    put = search._Board.put

    def told(known: search._Board, revision: Revision, body: bytes) -> None:
        begun.set()
        put(known, revision, body)
        if revision.number == 1:
            ended.set()

    monkeypatch.setattr(search._Board, "put", told)
    async with Board.open(data=tmp_path, agent="ann") as board:
        old = "".join(f"# Part {n}\n\nold marmalade word{n} other{n}\n\n" for n in range(3_500))
        await board.artifact_write("a.md", old)
        calling = asyncio.ensure_future(board.artifact_search("marmalade"))
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        await cancel(calling)
        await board.artifact_write("a.md", "# New\n\nfresh sardines\n")
        await board.artifact_search("sardines")
        assert await asyncio.to_thread(ended.wait, PATIENCE)
        (hit,) = (await board.artifact_search("sardines")).hits
        assert (hit.revision, hit.text) == (2, "fresh sardines")
        assert (await board.artifact_search("marmalade")).hits == []
