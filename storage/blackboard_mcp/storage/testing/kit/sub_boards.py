"""Tests of tasks that a board below does: when they are due, that they begin and end once, and what becomes of them."""

from __future__ import annotations

import asyncio

import pytest
from blackboard_mcp.protocols.agenda import NewTask, TaskState
from blackboard_mcp.protocols.board import BoardChange, BoardConfig, Lifecycle
from blackboard_mcp.protocols.errors import BlackboardError, InvalidInput, Refused
from blackboard_mcp.protocols.events import SYSTEM
from blackboard_mcp.protocols.sub_boards import MAX_MAPPED, SubBoard, SubDue

from ..harness import HandClock, Table
from .planning import plan, said, task

Handles = tuple[Table, Table]


async def below(at: Table, name: str = "low") -> str:
    """Makes a board below the table's."""
    await at.store.ensure_board(name, SYSTEM, BoardConfig())
    await at.store.change_board(name, SYSTEM, BoardChange(parent=at.board))
    return name


async def due(at: Table) -> list[tuple[int, int, str]]:
    """Returns number, lease and trouble of the tasks of the table's board that are due."""
    found: list[SubDue] = await at.store.sub_boards_due()
    return [(one.number, one.lease, one.trouble) for one in found if one.board == at.board]


class SubBoardTests:
    """Tests of tasks that boards below do."""

    async def test_a_task_of_a_board_below_begins_and_ends_once(self, handles: Handles) -> None:
        at, other = handles
        first, second = await plan(at, "look", "saw", sub=SubBoard("low"))
        last = (await at.store.plan(at.board, "alice", [NewTask(title="tell", after=(first,))])).tasks[0]
        assert await due(at) == [(first, 0, ""), (second, 0, "")]
        assert not await at.store.begin_sub_board(at.board, first), "there is no board below yet"
        await below(at)
        begun = await asyncio.gather(
            *(one.store.begin_sub_board(at.board, first) for one in (at, other) for _ in range(3))
        )
        assert sum(begun) == 1
        # One task at a time is done on a board, and the other waits for it.
        assert await due(at) == []
        waiting = await task(at, first)
        assert (waiting.state, waiting.holder, waiting.waits_on) == (TaskState.WAITING, SYSTEM, "board low")
        assert await at.store.take_task(at.board, "alice") is None
        await at.store.change_board("low", SYSTEM, BoardChange(lifecycle=Lifecycle.SETTLED))
        trouble = "it was settled without an ANSWER"
        assert await due(at) == [(first, waiting.lease, trouble)]
        assert not await at.store.end_sub_board(at.board, first, waiting.lease + 1, said("old"), ok=True)
        ended = await asyncio.gather(
            *(
                one.store.end_sub_board(at.board, first, waiting.lease, said("Nine."), ok=True, source="A-1")
                for one in (at, other)
                for _ in range(3)
            )
        )
        assert sum(ended) == 1
        done = await task(at, first)
        assert (done.state, (await task(at, last.number)).ready) == (TaskState.COMPLETED, True)
        events = [event for event in await at.events() if event.data.get("task") == done.id]
        assert [str(event.event) for event in events] == [
            "plan.added",
            "claim.taken",
            "claim.waiting",
            "claim.done",
        ]
        assert {event.agent for event in events[1:]} == {SYSTEM}
        assert await due(at) == [(second, 0, "")]

    async def test_an_answer_that_comes_before_the_task_has_begun_counts(self, at: Table) -> None:
        (number,) = await plan(at, "look", sub=SubBoard("low", fail="fault"), retries=1)
        made = await at.store.ensure_board("low", SYSTEM, BoardConfig(), parent=at.board)
        assert (made.parent, made.seq) == (at.board, 2)
        assert await at.store.ensure_board("low", SYSTEM, BoardConfig(), parent="") == made
        await at.store.note_sub_board(at.board, number)
        low = Table(at.store, "low")
        answer = await low.post("bob", "Nine.", "ANSWER")
        await at.store.note_sub_board(at.board, number)
        assert await at.store.begin_sub_board(at.board, number)
        await at.store.change_board("low", SYSTEM, BoardChange(lifecycle=Lifecycle.SETTLED))
        found = [one for one in await at.store.sub_boards_due() if one.board == at.board]
        assert [(one.trouble, one.answer) for one in found] == [("", answer.number)]
        # It counts once: the next attempt waits for an answer of its own.
        assert await at.store.end_sub_board(at.board, number, found[0].lease, said("no"), ok=False)
        await at.store.note_sub_board(at.board, number)
        assert await at.store.begin_sub_board(at.board, number)
        lease = (await task(at, number)).lease
        assert await due(at) == [(number, lease, "it was settled without an ANSWER")]

    async def test_one_task_at_a_time_is_given_to_a_board(self, at: Table) -> None:
        first, second = await plan(at, "look", "saw", sub=SubBoard("low"))
        assert not await at.store.note_sub_board(at.board, first), "there is no board below yet"
        await below(at)
        assert await at.store.note_sub_board(at.board, first)
        assert await at.store.note_sub_board(at.board, first)
        # The other one waits even though the first has not begun, which a server that was killed goes on with.
        assert await due(at) == [(first, 0, "")]
        assert not await at.store.note_sub_board(at.board, second)
        assert not await at.store.begin_sub_board(at.board, second)
        await at.store.end_sub_board(at.board, first, 0, said("no"), ok=False)
        assert await due(at) == [(second, 0, "")]
        assert await at.store.note_sub_board(at.board, second)
        assert await at.store.begin_sub_board(at.board, second)
        assert not await at.store.note_sub_board(at.board, second)

    @pytest.mark.parametrize(
        ("fail", "state"), [("fault", TaskState.FAULTED), ("complete", TaskState.COMPLETED)]
    )
    async def test_a_board_that_gives_no_answer_counts_as_configured(
        self, at: Table, fail: str, state: TaskState
    ) -> None:
        (number,) = await plan(at, "look", sub=SubBoard("low", fail=fail))  # type: ignore[arg-type]
        await below(at)
        assert await at.store.begin_sub_board(at.board, number)
        assert await due(at) == []
        await at.store.change_board("low", SYSTEM, BoardChange(parent=""))
        found = await due(at)
        assert len(found) == 1, "the task has to end"
        _, lease, trouble = found[0]
        assert trouble == "'low' is not below this board any more"
        assert await at.store.end_sub_board(at.board, number, lease, said(trouble), ok=False)
        ended = await task(at, number)
        assert (ended.state, ended.result, ended.why) == (state, None, trouble)
        assert await due(at) == []
        assert not await at.store.sub_boards_open()

    async def test_nothing_is_begun_or_ended_while_the_board_of_the_task_takes_no_posts(
        self, at: Table
    ) -> None:
        (number,) = await plan(at, "look", sub=SubBoard("low"))
        await below(at)

        async def turn(board: str, state: Lifecycle) -> None:
            await at.store.change_board(board, SYSTEM, BoardChange(lifecycle=state))

        await turn(at.board, Lifecycle.SETTLED)
        assert await due(at) == []
        assert not await at.store.note_sub_board(at.board, number)
        assert not await at.store.begin_sub_board(at.board, number)
        await turn(at.board, Lifecycle.OPEN)
        assert await at.store.begin_sub_board(at.board, number)
        lease = (await task(at, number)).lease
        await turn("low", Lifecycle.SETTLED)
        ending = await due(at)
        await turn(at.board, Lifecycle.SETTLED)
        assert await due(at) == []
        for ok in (True, False):
            assert not await at.store.end_sub_board(at.board, number, lease, said("Nine."), ok=ok)
        assert (await task(at, number)).state is TaskState.WAITING
        assert await at.store.sub_boards_open()
        await turn(at.board, Lifecycle.OPEN)
        assert await due(at) == ending != []
        await turn(at.board, Lifecycle.CLOSED)
        assert not await at.store.sub_boards_open()

    async def test_tasks_that_have_to_wait_hide_no_others(self, at: Table) -> None:
        full = Table(at.store, "full")
        for n in range(6):
            await plan(full, *(f"look {n}.{m}" for m in range(100)), sub=SubBoard("busy"))
        await full.store.ensure_board("busy", SYSTEM, BoardConfig(), parent=full.board)
        assert await full.store.begin_sub_board(full.board, 1)
        (number,) = await plan(at, "look", sub=SubBoard("low"))
        assert await due(at) == [(number, 0, "")]

    async def test_a_task_below_lasts_as_long_as_it_takes(self, at: Table, clock: HandClock) -> None:
        (number,) = await plan(at, "look", sub=SubBoard("low"))
        await below(at)
        assert await at.store.begin_sub_board(at.board, number)
        for _ in range(3):
            clock.advance(90_000)
            await at.store.sweep_tasks()
            assert (await task(at, number)).state is TaskState.WAITING

    async def test_without_wait_a_task_is_over_once_it_was_given_below(self, at: Table) -> None:
        (number,) = await plan(at, "look", sub=SubBoard("low", wait=False))
        await below(at)
        assert await at.store.begin_sub_board(at.board, number)
        assert ((await task(at, number)).state, await due(at)) == (TaskState.COMPLETED, [])

    async def test_what_may_not_go_to_a_board_is_refused(self, at: Table) -> None:
        await plan(at, "first")
        await at.store.ensure_board("other", SYSTEM, BoardConfig())
        await below(at)
        seq = await at.seq()
        many = {f"k{n}": "F-1" for n in range(MAX_MAPPED + 1)}
        for given, error in (
            (NewTask(title="x", sub=SubBoard(at.board)), InvalidInput),
            (NewTask(title="x", sub=SubBoard("other")), Refused),
            (NewTask(title="x", sub=SubBoard("low"), worker="bob"), InvalidInput),
            (NewTask(title="x", sub=SubBoard("low", input=many)), InvalidInput),
            (NewTask(title="x", sub=SubBoard("low", output={"no key": "F-1"})), InvalidInput),
            (NewTask(number=1, sub=SubBoard("low")), InvalidInput),
        ):
            with pytest.raises(error):
                await at.store.plan(at.board, "alice", [given])
        with pytest.raises(BlackboardError, match="could ever end"):
            await at.store.plan("low", "alice", [NewTask(title="back", sub=SubBoard(at.board))])
        assert await at.seq() == seq
