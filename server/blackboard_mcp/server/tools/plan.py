"""The tools of the set `plan`: agents plan tasks, take them, and say what came of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from blackboard_mcp.protocols.agenda import (
    LEASE_SECONDS,
    LEASES,
    MAX_AFTER,
    MAX_COST,
    MAX_NOTE,
    MAX_PATHS,
    MAX_PATTERN,
    MAX_TASKS,
    MAX_TITLE,
    NewTask,
    Settle,
    TaskState,
    parse_task,
    task_id,
)
from blackboard_mcp.protocols.asking import MAX_SKILLS
from blackboard_mcp.protocols.conditions import MAX_CONDITION
from blackboard_mcp.protocols.errors import InvalidInput, UnknownReference
from blackboard_mcp.protocols.items import MAX_TEXT, parse_ref
from blackboard_mcp.protocols.keys import MAX_KEY
from blackboard_mcp.protocols.late_models import plan_wire
from blackboard_mcp.protocols.runs import Budget, Usage
from blackboard_mcp.protocols.stages import (
    MAX_DEFINED,
    MAX_STAGE_TITLE,
    MAX_WHY,
    NewStage,
    StageOp,
    Stages,
    parse_stage,
    stage_id,
)
from blackboard_mcp.protocols.sub_boards import MAX_MAPPED, OnFail, SubBoard
from blackboard_mcp.protocols.tokens import CountedText
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from ..access.needs import TOOLS
from ..answers.rendering import Rendering
from ..answers.stages import stage_lines
from ..answers.tasks import agenda_lines, claimed_lines, planned_lines, settled_lines, task_lines
from ..input.arguments import UNLISTED, Arguments
from ..input.posts import ONE_OR_MORE, Seconds, check_board
from ..text.debates import open_critiques
from ..text.lines import one_line
from ..usecases.agenda import Claimed, Tasks
from .run import BudgetFields, UsageFields
from .tool import WAITING_ARGUMENT, Answer, Caller, ToolSet

WAIT_SECONDS: Final = 25.0

Op = Literal["take", "done", "fail", "extend", "release", "verify"]
OpName = Annotated[Op, Field(description="take by default")]
Name = Annotated[str, Field(max_length=64)]
TaskId = Annotated[str, Field(max_length=16)]
ItemId = Annotated[str, Field(max_length=24)]
TaskIds = Annotated[list[TaskId], Field(max_length=MAX_TASKS), ONE_OR_MORE]
Paths = Annotated[
    list[Annotated[str, Field(max_length=MAX_PATTERN)]],
    Field(max_length=MAX_PATHS, description="to reserve: file:src/** key:plan:*"),
]
Skills = Annotated[list[Name], Field(max_length=MAX_SKILLS)]
Cites = Annotated[list[ItemId], Field(max_length=100), ONE_OR_MORE]
Words = Annotated[str, Field(max_length=MAX_TEXT)]
Why = Annotated[str, Field(max_length=MAX_NOTE, description="reason; alone: a task's id")]
Lease = Annotated[int, Field(ge=0, le=10**15), WithJsonSchema({"type": "integer"})]
LeaseSeconds = Annotated[float, Field(ge=LEASES[0], le=LEASES[1], json_schema_extra={UNLISTED: True})]
Bounds = Annotated[dict[str, Any], Field(max_length=4, json_schema_extra={UNLISTED: True})]
Used = Annotated[dict[str, Any], Field(max_length=2, json_schema_extra={UNLISTED: True})]
Items = Annotated[
    list[Annotated[dict[str, Any], Field(max_length=16)]],
    Field(max_length=MAX_TASKS),
    WithJsonSchema(
        {
            "type": "array",
            "items": {"type": "object"},
            "maxItems": MAX_TASKS,
            "description": "{title, text?, after: [T-1, $1], skill|worker|trigger|board, priority 1-5, stage?, "
            "verify: true, paths?, cost?, id?}",
        }
    ),
]
Defined = Annotated[
    list[Annotated[dict[str, Any], Field(max_length=8)]],
    Field(max_length=MAX_DEFINED),
    BeforeValidator(lambda given: [given] if isinstance(given, dict) else given),
    WithJsonSchema(
        {
            "type": "array",
            "items": {"type": "object"},
            "maxItems": MAX_DEFINED,
            "description": "{title, parent?, entry?: done(T-1) and flag(go), exit?, manual?, kind?: milestone}",
        }
    ),
]
MoveWhy = Annotated[str, Field(max_length=MAX_WHY, json_schema_extra={UNLISTED: True})]
StageId = Annotated[str, Field(max_length=16)]
Condition = Annotated[str, Field(max_length=MAX_CONDITION)]
BoardName = Annotated[str, Field(min_length=1, max_length=64)]
Mapping = Annotated[
    dict[Annotated[str, Field(max_length=MAX_KEY)], Annotated[str, Field(min_length=1, max_length=MAX_KEY)]],
    Field(max_length=MAX_MAPPED),
]
STAGE_KINDS: Final = ("stage", "milestone")
_PLACE: Final = re.compile(r"\$([1-9][0-9]{0,2})\Z")
_GO_WITH: Final[dict[str, frozenset[str]]] = {
    "take": frozenset({"id", "paths", "skills", "seconds", "lease_seconds"}),
    "done": frozenset({"id", "lease", "text", "cites", "usage"}),
    "fail": frozenset({"id", "lease", "text", "usage"}),
    "extend": frozenset({"id", "lease", "text", "cites", "paths", "lease_seconds"}),
    "release": frozenset({"id", "lease", "text", "usage"}),
    "verify": frozenset({"id", "text", "ok", "cites"}),
}


class SubFields(BaseModel):
    """The board below that does a task, as callers write it."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    id: BoardName
    input: Mapping = {}
    output: Mapping = {}
    fail: OnFail = "fault"
    wait: bool = True


class TaskFields(BaseModel):
    """A task as callers write it."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    title: Annotated[str, Field(max_length=MAX_TITLE)] | None = None
    text: Annotated[str, Field(max_length=MAX_NOTE)] | None = None
    after: Annotated[list[TaskId], Field(max_length=MAX_AFTER), ONE_OR_MORE] | None = None
    skill: Name | None = None
    worker: Name | None = None
    trigger: Condition | None = None
    stage: StageId | None = None
    required: bool | None = None
    priority: Annotated[int, Field(ge=1, le=5)] | None = None
    verify: bool | Literal["agent", "owner"] | None = None
    retries: Annotated[int, Field(ge=0, le=20)] | None = None
    cost: Annotated[float, Field(ge=0, le=MAX_COST)] | None = None
    paths: (
        Annotated[list[Annotated[str, Field(max_length=MAX_PATTERN)]], Field(max_length=MAX_PATHS)] | None
    ) = None
    id: TaskId | None = None
    state: Literal["PENDING", "COMPLETED"] | None = None
    board: BoardName | SubFields | None = None


class StageFields(BaseModel):
    """A stage or milestone as callers write it."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    title: Annotated[str, Field(max_length=MAX_STAGE_TITLE)]
    parent: StageId | None = None
    entry: Condition = ""
    exit: Condition = ""
    required: bool | Condition = True
    manual: bool = False
    autocomplete: bool = True
    kind: Literal["stage", "milestone"] = "stage"


class PlanTools:
    """Tools with which agents plan work and take it."""

    def __init__(self, tasks: Tasks, rendering: Rendering) -> None:
        self._tasks = tasks
        self._say = rendering
        self._item = Arguments("plan.items", TaskFields)
        self._stage = Arguments("stage.define", StageFields)
        self._budget = Arguments("plan.budget", BudgetFields)
        self._usage = Arguments("claim.usage", UsageFields)

    def register(self, tools: ToolSet) -> None:
        """Adds the tools `plan`, `stage` and `claim`."""
        tools.add(
            self.plan,
            name="plan",
            title="Plan work",
            description="Plan tasks, all or nothing. No arguments: the agenda.",
            needs=TOOLS["plan"],
            output=lambda: plan_wire.PlanAnswer,
        )
        tools.add(
            self.stage,
            name="stage",
            title="Stages of a plan",
            description="Phases and milestones that begin and end by conditions. No arguments: all.",
            needs=TOOLS["stage"],
            output=lambda: plan_wire.StageAnswer,
        )
        tools.add(
            self.claim,
            name="claim",
            title="Take a task",
            description=(
                "Take a task alone: id, or the best that is ready. Any call renews its lease. Then done, fail or "
                "release; extend with text waits."
            ),
            needs=TOOLS["claim"],
            output=lambda: plan_wire.ClaimAnswer,
            ends_with_client=True,
            # Only who looks for any task waits for one.
            quick=lambda given: given.get("op") not in (None, "take") or given.get(WAITING_ARGUMENT) == 0,
        )

    async def plan(
        self,
        caller: Caller,
        items: Items | None = None,
        cancel: TaskIds | None = None,
        why: Why | None = None,
        budget: Bounds | None = None,
        board: Name | None = None,
    ) -> Answer:
        """Plans, changes and cancels tasks, and sets the budget of the agenda.

        Without arguments it shows the agenda, with `why` alone one task.
        """
        if items or cancel or budget is not None:
            tasks = [self._new(place, item) for place, item in enumerate(items or (), 1)]
            for sub in await self._tasks.boards_below(caller.agent, board, tasks):
                await self._tasks.check_below(caller.principal, sub)
            planned, attention = await self._tasks.plan(
                caller.agent,
                board,
                tasks,
                cancel=[parse_task(id_) for id_ in cancel or ()],
                why=(why or "").strip(),
                budget=None if budget is None else Budget(**self._budget.check(budget)),
                once_key=caller.once_key,
            )
            text = "\n".join(planned_lines(planned, self._say.now()))
            return Answer(
                self._say.with_footer(text, planned.seq, attention),
                lambda: plan_wire.wire_planned(planned),
            )
        if why is not None:
            return await self._explain(caller, board, why)
        agenda, attention = await self._tasks.agenda(caller.agent, board)
        text = "\n".join(agenda_lines(agenda, caller.agent, self._say.now()))
        return Answer(
            self._say.with_footer(text, agenda.seq, attention),
            lambda: plan_wire.wire_agenda(agenda),
        )

    async def _explain(self, caller: Caller, board: str | None, why: str) -> Answer:
        number = parse_task(why)
        task, attempts, lifecycle, seq, attention = await self._tasks.explain(caller.agent, board, number)
        if task is None:
            raise UnknownReference(f"There is no task {task_id(number)}; plan() lists the tasks.")
        text = "\n".join(task_lines(task, attempts, lifecycle, self._say.now()))
        return Answer(
            self._say.with_footer(text, seq, attention),
            lambda: plan_wire.PlanAnswer(items=[plan_wire.wire_task(task)], total=1, seq=seq),
        )

    def _new(self, place: int, item: dict[str, Any]) -> NewTask | NewStage:
        """Returns a task, or a stage if its `kind` says so, as the store takes it.

        Raises:
            InvalidInput: a field is not allowed; its place is named.
        """
        try:
            if item.get("kind") in STAGE_KINDS:
                return self._new_stage(item)
            said = self._item.check(item)
            verify = said.get("verify")
            return NewTask(
                number=0 if said.get("id") is None else parse_task(said["id"]),
                title=said.get("title"),
                text=said.get("text"),
                after=None if said.get("after") is None else tuple(map(_after, said["after"])),
                skill=said.get("skill"),
                worker=said.get("worker"),
                trigger=said.get("trigger"),
                stage=None if said.get("stage") is None else _stage_at(said["stage"]),
                required=said.get("required"),
                priority=said.get("priority"),
                verify=("agent" if verify else "") if isinstance(verify, bool) else verify,
                retries=said.get("retries"),
                cost=said.get("cost"),
                paths=None if said.get("paths") is None else tuple(said["paths"]),
                state=None if said.get("state") is None else TaskState(said["state"]),
                sub=_sub(said.get("board")),
            )
        except InvalidInput as error:
            raise InvalidInput(f"Item {place} of items: {error.message}", item=place, **error.facts) from None

    async def stage(
        self,
        caller: Caller,
        id: StageId | None = None,
        op: StageOp | None = None,
        define: Defined | None = None,
        why: MoveWhy | None = None,
        board: Name | None = None,
    ) -> Answer:
        """Defines stages, or moves one. Without arguments it shows all, with `id` alone one."""
        if define is not None and (id is not None or op is not None):
            raise InvalidInput("Give define alone, or id with op. Nothing was changed.")
        if op is not None and id is None:
            raise InvalidInput(f'op="{op}" needs the id of a stage. Nothing was changed; stage() lists them.')
        if why is not None and op is None:
            raise InvalidInput("why is the reason of a move: it goes with id and op. Nothing was changed.")
        if define is not None:
            new = [self._defined(place, one) for place, one in enumerate(define, 1)]
            found, attention = await self._tasks.define_stages(
                caller.agent, board, new, once_key=caller.once_key
            )
        elif id is not None and op is not None:
            found, attention = await self._tasks.move_stage(
                caller.agent, board, parse_stage(id), op, (why or "").strip(), once_key=caller.once_key
            )
        else:
            found, attention = await self._tasks.stages(caller.agent, board)
            if id is not None:
                found = _one_stage(found, parse_stage(id))
        return Answer(
            self._say.with_footer("\n".join(stage_lines(found)), found.seq, attention),
            lambda: plan_wire.wire_stages(found),
        )

    def _defined(self, place: int, given: dict[str, Any]) -> NewStage:
        """Returns a stage as the store takes it.

        Raises:
            InvalidInput: a field is not allowed; its place is named.
        """
        try:
            return self._new_stage(given)
        except InvalidInput as error:
            raise InvalidInput(
                f"Stage {place} of define: {error.message}", stage=place, **error.facts
            ) from None

    def _new_stage(self, given: dict[str, Any]) -> NewStage:
        said = self._stage.check(given)
        required = said.get("required", True)
        return NewStage(
            title=said["title"],
            parent=0 if said.get("parent") is None else _stage_at(said["parent"]),
            entry=said.get("entry", ""),
            exit=said.get("exit", ""),
            required=str(required).lower() if isinstance(required, bool) else required,
            manual=said.get("manual", False),
            autocomplete=said.get("autocomplete", True),
            kind=said.get("kind", "stage"),
        )

    async def claim(
        self,
        caller: Caller,
        id: TaskId | None = None,
        op: OpName | None = None,
        lease: Lease | None = None,
        text: Words | None = None,
        ok: bool | None = None,
        cites: Cites | None = None,
        paths: Paths | None = None,
        skills: Skills | None = None,
        seconds: Seconds | None = None,
        lease_seconds: LeaseSeconds | None = None,
        usage: Used | None = None,
        board: Name | None = None,
    ) -> Answer:
        """Takes a task, or does with one what `op` says."""
        does: Op = op or "take"
        given = {
            "id": id,
            "lease": lease,
            "text": text,
            "ok": ok,
            "cites": cites,
            "paths": paths,
            "skills": skills,
            "seconds": seconds,
            "lease_seconds": lease_seconds,
            "usage": usage,
        }
        _check_together(does, given)
        number = None if id is None else parse_task(id)
        length = LEASE_SECONDS if lease_seconds is None else lease_seconds
        if does != "take":
            act = Settle(
                does,
                number or 0,
                lease or 0,
                CountedText((text or "").strip()),
                ok=ok is not False,
                cites=tuple(dict.fromkeys(parse_ref(cited).number for cited in cites or ())),
                paths=tuple(paths or ()),
                seconds=length,
                usage=None if usage is None else Usage(**self._usage.check(usage)),
            )
            return await self._settle(caller, board, act, cites or ())
        alone = number is None and not paths
        claimed = await self._tasks.take(
            caller.agent,
            board,
            number=number,
            skills=skills,
            paths=paths or (),
            lease_seconds=length,
            seconds=(WAIT_SECONDS if seconds is None else seconds) if alone else 0.0,
            report=caller.report,
            once_key=caller.once_key,
        )
        text_ = "\n".join(claimed_lines(claimed, self._say.now()))
        return Answer(
            self._say.with_footer(text_, claimed.seq, claimed.attention), lambda: _wire_claimed(claimed)
        )

    async def _settle(
        self, caller: Caller, board: str | None, act: Settle, cited: Sequence[str] = ()
    ) -> Answer:
        done, rules, attention, debate, left = await self._tasks.settle(
            caller.agent, board, act, cited=cited, once_key=caller.once_key
        )
        text = "\n".join(settled_lines(done, act.op, caller.agent, self._say.now(), debate, left))
        return Answer(
            self._say.with_footer(text, done.seq, attention),
            lambda: plan_wire.ClaimAnswer(
                id=None if done.task is None else done.task.id,
                lease=done.lease,
                until=done.until,
                rules=[rule.line for rule in rules.mine],
                rules_revision=rules.revision,
                task=None if done.task is None else plan_wire.wire_task(done.task),
                item=None if done.item is None else done.item.id,
                freed=[task_id(number) for number in done.freed],
                late=done.late,
                debated=[] if debate is None else open_critiques(debate),
                seq=done.seq,
            ),
        )


def _wire_claimed(claimed: Claimed) -> BaseModel:
    taken = claimed.taken
    if taken is None:
        return plan_wire.ClaimAnswer(
            id=None,
            lease=None,
            until=None,
            rules=[rule.line for rule in claimed.rules.mine],
            rules_revision=claimed.rules.revision,
            seq=claimed.seq,
        )
    return plan_wire.ClaimAnswer(
        id=None if taken.task is None else taken.task.id,
        lease=taken.lease,
        until=taken.until,
        inputs=[plan_wire.wire_input(given) for given in taken.inputs],
        brief=[plan_wire.wire_attempt(attempt) for attempt in taken.brief],
        rules=[rule.line for rule in claimed.rules.mine],
        rules_revision=claimed.rules.revision,
        task=None if taken.task is None else plan_wire.wire_task(taken.task),
        reserved=[plan_wire.wire_reservation(held) for held in taken.reserved],
        others=[task.id for task in taken.others],
        dead_ends=list(taken.dead_ends),
        seq=claimed.seq,
    )


def _one_stage(found: Stages, number: int) -> Stages:
    one = tuple(stage for stage in found.stages if stage.number == number)
    if not one:
        raise UnknownReference(f"There is no stage {stage_id(number)}; stage() lists the stages.")
    return Stages(one, found.seq, found.lifecycle)


def _stage_at(name: str) -> int:
    """Returns the number of a stage, or the negative place of one in the same call."""
    match = _PLACE.match(name.strip())
    return -int(match[1]) if match else parse_stage(name)


def _sub(said: Any) -> SubBoard | None:
    """Returns the board below that does a task, or `None`."""
    if said is None:
        return None
    if isinstance(said, str):
        return SubBoard(check_board(said))
    given = dict(said)
    return SubBoard(
        check_board(given.pop("id")), **{name: value for name, value in given.items() if value is not None}
    )


def _after(name: str) -> int:
    """Returns the number of a task, or the negative place of one in the same call."""
    match = _PLACE.match(name.strip())
    return -int(match[1]) if match else parse_task(name)


def _check_together(op: Op, given: dict[str, Any]) -> None:
    wrong = [name for name, value in given.items() if value is not None and name not in _GO_WITH[op]]
    if wrong:
        takes = ", ".join(name for name in given if name in _GO_WITH[op])
        what = f'op="{op}"' if op != "take" else 'op="take", the default,'
        hint = ""
        if op == "take":
            ops = _listed([other for other in _GO_WITH if set(wrong) <= _GO_WITH[other]])
            hint = f" Say what you mean by it: op={ops}." if ops else ""
            if "lease" in wrong:
                hint += " lease is the number that taking a task answers with; how long it is yours: lease_seconds=…"
        raise InvalidInput(
            f"{what} takes {takes}, and not {', '.join(map(one_line, wrong))}. Nothing was changed.{hint}"
        )
    if op == "verify" and given["id"] is None:
        raise InvalidInput('op="verify" needs the id of the task that you confirm. Nothing was changed.')


def _listed(ops: Sequence[str]) -> str:
    return " or ".join(f'"{op}"' for op in ops)
