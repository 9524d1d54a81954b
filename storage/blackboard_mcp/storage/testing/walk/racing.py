"""Agents of several processes that plan, take and end tasks, move stages and take turns in runs, all at once.

Nobody knows what another is about to do, so most calls are refused. `problems` replays the log of the board and names
each place where an invariant of the control shell did not hold (I28 to I35).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final

from blackboard_mcp.protocols.agenda import HELD, TASK_MOVES, NewTask, Settle, SettleOp, TaskState
from blackboard_mcp.protocols.board import Core
from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.protocols.events import Event
from blackboard_mcp.protocols.runs import RUN_MOVES, Budget, Chosen, Decision, NewRun, RunState, Usage
from blackboard_mcp.protocols.stages import STAGE_MOVES, NewStage, StageOp, StageState
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.protocols.tokens import CountedText

from ...store import SqlBoardStore
from ..harness import CONFIG

BOARD: Final = "raced"
AGENTS: Final = ("ann", "ben", "cara", "dan")
"""The agents of each run; a racer may be somebody else."""
ROUNDS: Final = 4
FIT: Final = 15
"""The steps for which the agenda has a budget."""
_TASKS, _STAGES = 40, 6
_OPEN: Final = frozenset({StageState.ACTIVE, StageState.FAULTED})
_NOT_OVER: Final = frozenset({RunState.OPEN, RunState.SETTLED})


async def opened(address: str) -> SqlBoardStore:
    """Opens the boards of a file, or at an address of PostgreSQL."""
    if not address.startswith("postgresql:"):
        return await SqlBoardStore.open(Path(address), synchronous="NORMAL")
    from ...postgres.store import open_postgres_store  # its driver is an extra

    return await open_postgres_store(address)


async def set_up(store: BoardStore) -> None:
    """Makes the board with stages in stages, tasks in them, and a budget."""
    await store.ensure_board(BOARD, "ann", CONFIG)
    stages = [
        NewStage("top"),
        NewStage("part", parent=-1),
        NewStage("deep", parent=-2, entry="flag(a)"),
        NewStage("next", entry="done(G-1)", manual=True),
        NewStage("reached", parent=-1, kind="milestone", entry="flag(a)"),
        NewStage("loose", autocomplete=False, required="flag(b)", exit="flag(x)"),
    ]
    await store.define_stages(BOARD, "ann", stages)
    tasks = [
        NewTask(
            title=f"task {n}",
            stage=(0, 1, 2, 3, 6)[n % 5],
            worker=("", "", "ben")[n % 3],
            after=(1,) if n == 5 else None,
            retries=n % 2,
            verify="agent" if n % 4 == 0 else "",
            cost=1,
        )
        for n in range(_TASKS)
    ]
    await store.plan(BOARD, "ann", tasks, budget=Budget(steps=FIT))


class Racer:
    """One agent: `run` makes calls, each of a random kind; refusals are what it expects."""

    def __init__(self, store: BoardStore, agent: str, chance: random.Random) -> None:
        self._store = store
        self._agent = agent
        self._chance = chance
        self.done = 0
        """Calls that were not refused."""

    async def run(self, calls: int) -> None:
        """Makes so many calls."""
        kinds: list[Callable[[], Awaitable[object]]] = [
            *(2 * [self._take]),
            *(3 * [self._settle]),
            *(2 * [self._move]),
            *(3 * [self._choose]),
            *(4 * [self._turn]),
            *(self._plan, self._flag, self._end_run, self._end_run),
        ]
        for _ in range(calls):
            try:
                await self._chance.choice(kinds)()
                self.done += 1
            except BlackboardError:
                continue

    def _text(self) -> CountedText:
        return CountedText(f"{self._agent} says {self._chance.random()}", 3)

    async def _take(self) -> None:
        number = self._chance.choice([None, self._chance.randint(1, _TASKS)])
        await self._store.take_task(BOARD, self._agent, number=number)

    async def _settle(self) -> None:
        ops: list[SettleOp] = ["done", "done", "fail", "extend", "release", "verify"]
        op = self._chance.choice(ops)
        agenda = await self._store.agenda(BOARD, self._agent)
        near = agenda.review if op == "verify" else agenda.mine
        number = self._chance.choice([*(task.number for task in near), self._chance.randint(1, _TASKS)])
        lease = self._chance.choice([0, 0, self._chance.randint(1, 60)])
        act = Settle(op, number, lease, self._text(), ok=self._chance.random() < 0.5)
        if op in ("done", "fail", "release"):
            act = Settle(op, number, lease, self._text(), usage=Usage(3, 0.5))
        await self._store.settle_task(BOARD, self._agent, act)

    async def _plan(self) -> None:
        number, state = (
            self._chance.randint(1, _TASKS),
            self._chance.choice([TaskState.PENDING, TaskState.COMPLETED]),
        )
        if self._chance.random() < 0.03:
            await self._store.plan(BOARD, self._agent, [], cancel=[number], why="so")
        else:
            await self._store.plan(BOARD, self._agent, [NewTask(number=number, state=state)], why="so")

    async def _move(self) -> None:
        ops: list[StageOp] = ["start", "suspend", "resume", "resume", "terminate"]
        number = self._chance.choice([1, 1, *range(1, _STAGES + 1)])
        op = self._chance.choices(ops, [5, 5, 5, 5, number > 3])[0]
        await self._store.move_stage(BOARD, self._agent, number, op)

    async def _flag(self) -> None:
        found = await self._store.find_board(BOARD)
        assert found is not None
        flags = {name: self._chance.random() < odds for name, odds in (("a", 0.5), ("b", 0.5), ("x", 0.05))}
        await self._store.set_core(BOARD, self._agent, Core(flags=flags), expected_version=found.core.version)

    async def _choose(self) -> None:
        run = await self._store.find_run(BOARD, self._agent)
        if run is None or run.state not in _NOT_OVER:
            new = NewRun(
                self._text(),
                AGENTS,
                max_rounds=ROUNDS,
                coordinator="ann",
                budget=Budget(steps=9),
                sealed=self._chance.random() < 0.5,
            )
            await self._store.start_run(BOARD, self._agent, new)
        elif self._chance.random() < 0.5:
            names = self._chance.sample([*AGENTS, *AGENTS, "mallory"], 2)
            await self._store.choose_turns(
                BOARD, run.number, run.stamp, Chosen(dict.fromkeys(names, ""), "race")
            )
        else:
            await self._store.ask_coordinator(BOARD, run.number, run.stamp, "who?")

    async def _turn(self) -> None:
        run = await self._store.find_run(BOARD, self._agent)
        turns = () if run is None else tuple(turn for turn in run.turns if turn.state == "given")
        if run is None or not turns:
            return
        turn = self._chance.choice(turns)
        lease = self._chance.choice([0, turn.lease, turn.lease, turn.lease - 1])
        agent = self._chance.choice([turn.agent, turn.agent, self._agent])
        usage = Usage(7, 0.5)
        if turn.kind == "decide":
            name = self._chance.choice([*AGENTS, "mallory"])
            decision = self._chance.choice(
                [None, Decision(False, name), Decision(self._chance.random() < 0.2, name)]
            )
            await self._store.decide_run(BOARD, agent, run.number, lease, decision, "raw", usage=usage)
        else:
            await self._store.end_turn(BOARD, agent, run.number, lease, self._text(), usage=usage)

    async def _end_run(self) -> None:
        if self._chance.random() < 0.5:
            await self._store.finalize_run(BOARD, self._agent, 0, self._text(), [1])


def problems(events: Iterable[Event]) -> list[str]:
    """Returns what the log of a race shows that must not be, in order."""
    replay = _Replay()
    for event in events:
        replay.see(event)
    return replay.found


class _Replay:
    """What stands after the events so far, by the events alone."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._tasks: dict[str, TaskState | None] = {}
        self._workers: dict[str, str] = {}
        self._holders: dict[str, tuple[str, int]] = {}
        self._stages: dict[str, tuple[StageState, str]] = {}
        self._runs: dict[str, RunState] = {}
        self._rounds: Counter[str] = Counter()
        self._lease = 0
        self._steps = 0

    def see(self, event: Event) -> None:
        """Takes up the next event."""
        kind, data = str(event.event), event.data
        if kind.startswith("stage."):
            self._stage(kind, data)
        elif kind.startswith(("run.", "turn.", "decision.")):
            self._run(kind, data, event)
        elif kind.startswith(("claim.", "plan.")) and data.get("task"):
            self._task(kind, data, event)

    def _must(self, holds: bool, invariant: str, event: object) -> None:
        if not holds:
            self.found.append(f"{invariant}: {event}")

    def _task(self, kind: str, data: dict[str, Any], event: Event) -> None:
        task = data["task"]
        if kind == "plan.added":
            self._tasks[task], self._workers[task] = TaskState.PENDING, data.get("worker", "")
            return
        before, after = self._tasks[task], _state_after(kind, data)
        if kind == "claim.taken":
            self._must(task not in self._holders, "I28", event)
            self._must(event.seq > self._lease, "I28", event)
            held = [t for t in self._holders if self._workers[t]]
            self._must(self._workers[task] not in {self._workers[t] for t in held}, "I28", event)
            self._lease, self._steps = event.seq, self._steps + 1
            self._must(self._steps <= FIT, "I34", event)
            self._holders[task] = event.agent, event.seq
        elif kind == "claim.done" and not data.get("late"):
            self._must(self._holders.get(task) == (event.agent, data["lease"]), "I28", event)
        if after is not None and before is not None and after is not before:
            self._must(after in TASK_MOVES[before], "I29", event)
        self._tasks[task] = after
        if after not in HELD and kind != "plan.changed":
            self._holders.pop(task, None)

    def _stage(self, kind: str, data: dict[str, Any]) -> None:
        stage = data["stage"]
        if kind == "stage.defined":
            self._stages[stage] = StageState.AVAILABLE, data.get("parent", "")
            return
        before, parent = self._stages[stage]
        after = StageState(data["to"])
        self._must(before == data["from"] and after in STAGE_MOVES[before], "I29", data)
        if after is StageState.ACTIVE and parent:
            self._must(self._stages[parent][0] in _OPEN, "I30", data)
        self._stages[stage] = after, parent
        if after not in _OPEN:
            inside = [
                name for name, (state, above) in self._stages.items() if above == stage and state in _OPEN
            ]
            self._must(not inside, "I30", (data, inside))

    def _run(self, kind: str, data: dict[str, Any], event: Event) -> None:
        run = data["run"]
        if kind == "run.started":
            live = [name for name, state in self._runs.items() if state in _NOT_OVER]
            self._must(not live, "I29", event)
            self._runs[run] = RunState.OPEN
            return
        before = self._runs[run]
        after = {
            "run.settled": RunState.SETTLED,
            "run.stopped": RunState.STOPPED,
            "run.finished": RunState.FINISHED,
        }
        if kind in after:
            self._must(after[kind] in RUN_MOVES[before], "I29", event)
            self._runs[run] = after[kind]
        elif kind in ("turn.given", "turn.ended", "decision.made"):
            self._must(before in _NOT_OVER, "I35", event)
        if kind == "run.finished":
            self._must(data["cites"] == ["P-1"] or bool(data["cites"]), "I35", event)
        if kind == "turn.given" and data["kind"] == "contribute":
            self._must(data["agent"] in AGENTS, "I32", event)
            self._must(data["round"] <= ROUNDS, "I33", event)
            self._must(data["round"] - self._rounds[run] in (0, 1), "I33", event)
            self._rounds[run] = data["round"]


def _state_after(kind: str, data: dict[str, Any]) -> TaskState | None:
    """Returns the state of a task after an event, or `None` if the event does not tell."""
    match kind:
        case "claim.taken" | "claim.resumed" | "claim.extended":
            return TaskState.RUNNING
        case "claim.waiting":
            return TaskState.WAITING
        case "claim.done":
            return TaskState.REVIEW if data.get("review") else TaskState.COMPLETED
        case "claim.failed" | "claim.rejected":
            return TaskState(data["state"])
        case "claim.released" | "claim.lapsed":
            return TaskState.PENDING
        case "claim.verified":
            return TaskState.COMPLETED
        case "plan.cancelled":
            return TaskState.CANCELLED
    return None


async def spent_as_told(store: BoardStore, events: Iterable[Event]) -> list[str]:
    """Returns the runs whose account is not the sum of what their agents reported, and the agenda if its is not."""
    listed = list(events)
    found = []
    runs = {event.data["run"] for event in listed if event.event == "run.started"}
    for name in sorted(runs):
        run = await store.find_run(BOARD, "ann", int(name.removeprefix("run-")))
        assert run is not None
        ended = [e for e in listed if e.event == "turn.ended" and e.data["run"] == name]
        decided = [e for e in listed if e.event == "decision.made" and e.data["run"] == name]
        if (run.spent.steps, run.spent.tokens) != (
            len(ended) + len(decided),
            7 * (len(ended) + len(decided)),
        ):
            found.append(f"I34: {name} spent {run.spent}, and {len(ended)} + {len(decided)} turns ended")
    budget = (await store.agenda(BOARD, "ann")).budget
    assert budget is not None
    taken = sum(event.event == "claim.taken" for event in listed)
    told = sum(
        event.data.get("tokens", 0) for event in listed if event.event in ("claim.done", "claim.failed")
    )
    released = sum(event.event == "claim.released" for event in listed)
    if budget.used.steps + budget.held.steps != taken or budget.used.tokens != told + 3 * released:
        found.append(
            f"I34: {taken} tasks were taken with {told} + 3 · {released} tokens, and the account is {budget}"
        )
    return found
