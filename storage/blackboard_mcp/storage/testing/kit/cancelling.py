"""Tests of cancelled calls: each happened as a whole or not at all, and its repetition makes it happen once."""

from __future__ import annotations

import asyncio
import random
from typing import Any, ClassVar

from blackboard_mcp.protocols.answers import (
    Once,
    Posted,
)
from blackboard_mcp.protocols.items import Draft

from ..harness import PATIENCE, Table, draft

AT_ONCE = 8
KEYS = 4


class CancellationTests:
    calls_to_cancel: ClassVar[int] = 1_000
    """May be declared by the backend: how many calls are cancelled, a multiple of 40."""

    async def test_calls_cancelled_at_random_points_happen_whole_or_not_at_all(self, at: Table) -> None:
        dice = random.Random(1_000)
        root = await at.post("alice", "root")
        claims = [(await at.post("alice", f"claim {n}")).number for n in range(self.calls_to_cancel // 5)]
        before = await at.standing()
        applied: dict[int, Posted] = {}
        cancelled = 0

        async def post(call: int, once: Once) -> None:
            agent, drafts = drafted(call, root.number)
            posted = await at.batch(agent, *drafts, once=once)
            first = applied.setdefault(call, posted)
            assert [(i.number, i.version) for i in posted.items] == [
                (i.number, i.version) for i in first.items
            ]
            assert [item.text for item in posted.items] == [d.text for d in drafts]
            repeated.append(posted.repeated)

        async def debate(call: int, once: Once) -> None:
            await at.store.debate_open(at.board, "carol", claims[call // 5], ["dave"], once=once)

        async def commit_or(task: asyncio.Future[None]) -> None:
            """Waits for a commit, whosever it is, but for no longer than the task takes."""
            change = asyncio.ensure_future(at.store.wait_for_change(at.store.changes(), PATIENCE))
            either: list[asyncio.Future[Any]] = [task, change]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            change.cancel()

        async def tried(call: int) -> None:
            """Makes the call, cancels it at a random moment, and repeats it with the same key."""
            nonlocal cancelled
            work = debate if call % 5 == 4 else post
            once = Once(f"call-{call}", f"{call}")
            task = asyncio.ensure_future(work(call, once))
            for _ in range(dice.randrange(12)):
                await (asyncio.sleep(0) if dice.random() < 0.85 else commit_or(task))
            cancelled += task.cancel()
            await asyncio.wait({task})
            await work(call, once)

        repeated: list[bool] = []
        for start in range(0, self.calls_to_cancel, AT_ONCE):
            await asyncio.gather(*(tried(call) for call in range(start, start + AT_ONCE)))

        assert cancelled > self.calls_to_cancel // 4
        assert set(repeated) == {True, False}, "cancelled too early or too late to tell anything"
        standing = await at.standing()
        log = {event.seq: event for agent in ("alice", "bob") for event in await at.events(agent)}
        assert sorted(log) == list(range(1, standing.seq + 1))
        written = [(i.number, i.version) for posted in applied.values() for i in posted.items]
        assert len(set(written)) == len(written), "two calls made the same"
        made = [
            e for e in log.values() if e.event in ("item.posted", "item.versioned") and e.seq > before.seq
        ]
        assert len(made) == len(written), "a call was applied twice, or in part"
        fresh = {number for number, _ in written}
        assert standing.working_items == before.working_items + len(fresh)
        opened = [e for e in log.values() if e.event == "debate.opened" and e.agent == "carol"]
        assert len(opened) == len(claims)


def drafted(call: int, root: int) -> tuple[str, list[Draft]]:
    """Returns the agent and the drafts of a call, always the same for the same number."""
    dice = random.Random(call)
    agent = "alice" if call % 2 else "bob"
    match call % 4:
        case 0:
            return agent, [draft(f"{call}", key=f"k:{dice.randrange(KEYS)}")]
        case 1:
            return agent, [draft(f"{call} claim", "HYPOTHESIS"), draft(f"{call} no", "REPLY", replies_to=-1)]
        case 2:
            return agent, [draft(f"{call} {n}", "LOG", private=n % 2 == 0) for n in range(5)]
        case _:
            return agent, [draft(f"{call} no", "CRITIQUE", critiques=root)]
