"""Tests of the budget of an agenda: what does not fit is not handed out, and what was used only grows (I34)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from blackboard_mcp.protocols.agenda import MAX_COST, AgendaBudget, NewTask
from blackboard_mcp.protocols.errors import BlackboardError, InvalidInput, Refused
from blackboard_mcp.protocols.runs import Budget, Usage
from blackboard_mcp.protocols.sub_boards import SubBoard

from ..harness import HandClock, Table
from .planning import plan, settle, take, task, under_a_grant
from .sub_boards import below, due

Handles = tuple[Table, Table]


async def bound(at: Table, agent: str = "alice", **bounds: Any) -> AgendaBudget:
    """Sets the budget of the agenda."""
    made = await at.store.plan(at.board, agent, [], budget=Budget(**bounds))
    assert made.budget is not None
    return made.budget


async def spent(at: Table) -> tuple[Budget, Budget]:
    """Returns what the tasks used, and what is held."""
    found = (await at.store.agenda(at.board, "alice")).budget
    assert found is not None
    return found.used, found.held


class AgendaBudgetTests:
    """Tests of the budget of an agenda."""

    async def test_I34_what_does_not_fit_is_not_handed_out(self, at: Table) -> None:
        await plan(at, "dear", cost=0.3, priority=5)
        await plan(at, "one", "two", "three", cost=0.1)
        await bound(at, cost=0.25)
        assert [(await take(at, name)).task.number for name in ("bob", "carol")] == [2, 3]  # type: ignore[union-attr]
        last = await task(at, 4)
        assert (last.ready, last.cost) == (False, 0.1)
        assert last.blocked_by == ("budget: cost 0 used + 0.2 held of 0.25, it takes 0.1",)
        with pytest.raises(Refused, match=r"T-4 is not ready: it waits for budget: cost 0 used \+ 0\.2 held"):
            await take(at, "dave", 4)
        assert (await at.store.prospect(at.board, "dave")).ready == 0
        await settle(at, "bob", "done", 2, usage=Usage(700, 0.01))
        assert await spent(at) == (Budget(1, 700, 0.01), Budget(steps=1, cost=0.1))
        assert (await at.store.prospect(at.board, "dave")).ready == 1
        assert (await take(at, "dave")).task.number == 4  # type: ignore[union-attr]

    async def test_what_is_kept_back_is_told_once_for_each_budget(self, at: Table) -> None:
        await plan(at, "one", "two", cost=2)
        budget = await bound(at, cost=1, tokens=10)
        assert (budget.bounds, budget.set_by) == (Budget(tokens=10, cost=1), "alice")
        for _ in range(3):
            assert await at.store.take_task(at.board, "bob") is None
        told = [e for e in await at.events() if e.event == "budget.blocked"]
        assert [(e.agent, e.data["task"], e.data["which"], e.concerns) for e in told] == [
            ("system", "T-1", "cost", ("alice",))
        ]
        await bound(at, cost=2)
        await take(at, "bob")
        assert await at.store.take_task(at.board, "carol") is None
        told = [e for e in await at.events() if e.event in ("budget.blocked", "plan.budget")]
        assert [str(e.event).partition(".")[0] for e in told] == ["plan", "budget", "plan", "budget"]
        assert told[2].data["was"] == {"tokens": 10, "cost": 1.0}
        work = (await at.store.snapshot(at.board, "carol")).work
        assert work is not None
        assert (work.ready, work.budget) == ((), (await at.store.agenda(at.board, "carol")).budget)

    @pytest.mark.parametrize(
        ("bounds", "told"),
        [
            ({"steps": 2}, "steps 2 used of 2"),
            ({"tokens": 600}, "tokens 600 used of 600"),
            ({"seconds": 15}, "seconds 20 used of 15"),
            ({"cost": 4}, "cost 4 used of 4, it takes 2"),
        ],
    )
    async def test_I34_a_spent_bound_keeps_back_every_task(
        self, at: Table, clock: HandClock, bounds: dict[str, Any], told: str
    ) -> None:
        await plan(at, "one", "two", "three", cost=2)
        await bound(at, **bounds)
        for number, usage in ((1, Usage(600, 2.0)), (2, None)):
            await take(at, "bob", number)
            clock.advance(10)
            if number == 1 and "tokens" in bounds:
                await settle(at, "bob", "fail", number, "broken", usage=usage)
                break
            await settle(at, "bob", "done", number, usage=usage)
        assert (await task(at, 3)).blocked_by == (f"budget: {told}",)
        assert await at.store.take_task(at.board, "bob") is None
        found = (await at.store.agenda(at.board, "bob")).budget
        assert found is not None
        assert found.spent == told.partition(",")[0]

    async def test_I34_however_an_attempt_ends_it_is_charged_once(self, at: Table, clock: HandClock) -> None:
        await plan(at, *"abcdef", cost=1, retries=5, verify="agent")
        await bound(at, cost=100)
        await take(at, "bob", 1, seconds=60)
        clock.advance(61)
        await at.store.sweep_tasks()
        assert (await spent(at))[0] == Budget(1, 0, 1.0, 61.0), "the planned cost of an attempt that lapsed"
        await settle(at, "bob", "done", 1, "late", usage=Usage(5, 1.5))
        assert (await spent(at))[0] == Budget(1, 5, 1.5, 61.0), "a late report adds what goes beyond it"
        await settle(at, "carol", "verify", 1, "wrong", ok=False)
        await take(at, "bob", 1)
        await settle(at, "bob", "release", 1, "no time", usage=Usage(1))
        await take(at, "bob", 2)
        await settle(at, "bob", "fail", 2, "broken")
        await take(at, "bob", 3)
        await at.store.plan(at.board, "alice", [], cancel=[3])
        await take(at, "bob", 4)
        await settle(at, "bob", "extend", 4, "until the tide is out")
        await settle(at, "bob", "done", 4, "It is out.")
        used, held = await spent(at)
        assert (used.steps, used.tokens, used.cost, held) == (5, 6, 4.5, Budget())

    async def test_what_was_used_stays_used_whatever_the_bounds(self, at: Table) -> None:
        await plan(at, "one", "two", cost=3)
        await bound(at, cost=3)
        await take(at, "bob")
        await settle(at, "bob", "done", 1)
        await bound(at)
        assert await spent(at) == (Budget(1, 0, 3.0), Budget())
        await bound(at, cost=5)
        assert await at.store.take_task(at.board, "bob") is None
        await bound(at, cost=6)
        await take(at, "bob")

    async def test_a_board_below_is_given_nothing_that_does_not_fit(self, at: Table) -> None:
        (number,) = await plan(at, "look", sub=SubBoard("low"), cost=2)
        await below(at)
        await bound(at, cost=1)
        assert await due(at) == []
        assert not await at.store.begin_sub_board(at.board, number)
        await bound(at, cost=2)
        assert await at.store.begin_sub_board(at.board, number)
        assert await spent(at) == (Budget(), Budget(steps=1, cost=2.0))

    async def test_stewards_alone_set_the_budget(self, at: Table) -> None:
        await plan(at, "one")
        before = await at.seq()
        with under_a_grant("bob"), pytest.raises(Refused, match="A steward sets the budget"):
            await bound(at, "bob", steps=1)
        assert await at.seq() == before

    @pytest.mark.parametrize(
        "wrong", [{"cost": -1}, {"steps": -1}, {"seconds": float("nan")}, {"cost": MAX_COST * 2}]
    )
    async def test_a_wrong_budget_changes_nothing(self, at: Table, wrong: dict[str, Any]) -> None:
        await plan(at, "one", cost=1)
        before = await at.seq()
        with pytest.raises(InvalidInput, match="Nothing was changed"):
            await bound(at, **wrong)
        with pytest.raises(InvalidInput, match="cost is 0 to"):
            await at.store.plan(at.board, "alice", [NewTask(number=1, cost=-0.5)])
        await take(at, "bob")
        seq = await at.seq()
        with pytest.raises(InvalidInput, match="usage is"):
            await settle(at, "bob", "done", 1, usage=Usage(0, -1))
        assert (before, await at.seq()) == (seq - 1, seq)

    async def test_I34_of_eight_who_ask_no_more_get_a_task_than_fit(self, at: Table) -> None:
        await race([at], 5)

    async def test_I34_over_two_handles_no_more_get_a_task_than_fit(self, handles: Handles) -> None:
        await race(handles, 7)


async def race(handles: Any, fit: int) -> None:
    """Eight agents take tasks and report them as fast as they can; at no time more are held and used than fit."""
    first: Table = handles[0]
    await plan(first, *(f"task {n}" for n in range(40)), cost=1)
    await bound(first, cost=fit, steps=fit + 10)

    async def work(n: int) -> int:
        at: Table = handles[n % len(handles)]
        taken = 0
        for _ in range(6):
            try:
                got = await at.store.take_task(at.board, f"agent{n}", number=None if n % 2 else 5 * n + 1)
            except BlackboardError:
                continue
            if got is None:
                break
            taken += 1
            if n % 3:
                await settle(at, f"agent{n}", "release", lease=got.lease, usage=Usage(1, 1.0))
        return taken

    handed = sum(await asyncio.gather(*map(work, range(8))))
    used, held = await spent(first)
    assert handed == fit == used.cost + held.cost == used.steps + held.steps
    taken = [e for e in await first.events() if e.event == "claim.taken"]
    assert len(taken) == fit
    assert len([e for e in await first.events() if e.event == "budget.blocked"]) == 1
