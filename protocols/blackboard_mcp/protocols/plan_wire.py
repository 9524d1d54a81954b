"""Structured results about tasks and stages; see `wire`."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from .agenda import Agenda, AgendaBudget, Attempt, Input, Planned, Reservation, Task, TaskState, task_id
from .stages import Stage, Stages, StageState, stage_id
from .sub_boards import SubBoard


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class WireInput(_Wire):
    """The result of a task."""

    task: str
    title: str
    item: str | None
    text: str
    status: str = Field(default="", description="of the item")
    instead_of: str | None = Field(default=None, description="the result, where `item` took its place")


class WireTask(_Wire):
    id: str
    title: str
    text: str = ""
    state: TaskState
    ready: bool = Field(description="whether whoever it is for could take it now")
    blocked_by: list[str]
    holder: str | None
    lease: int = Field(description="the last lease given; 0 before the first")
    until: datetime | None
    priority: int
    stage: str | None
    attempts: int
    after: list[str] = []
    skill: str | None = None
    worker: str | None = None
    trigger: str | None = None
    required: bool = False
    verify: str | None = None
    retries: int = 0
    cost: float = 0.0
    paths: list[str] = []
    created_by: str = ""
    waits_on: str | None = None
    result: str | None = Field(default=None, description="id of the RESULT item")
    outcome: WireInput | None = Field(
        default=None,
        description="the result as it stands now, of a task to confirm, over, or asked for by `why`",
    )
    why: str = ""
    board: dict[str, Any] | None = Field(
        default=None, description="the board below that does it: id, input, output, fail, wait"
    )


class PlanAnswer(_Wire):
    """The agenda, or the tasks that a call planned, changed or cancelled."""

    items: list[WireTask]
    total: int = Field(description="tasks that are not over")
    ended: list[WireTask] = Field(default=[], description="where none is open, the tasks that ended last")
    mine: list[str] = Field(default=[], description="tasks that you hold")
    review: list[str] = Field(default=[], description="tasks that wait for an agent like you to confirm them")
    reservations: list[WireReservation] = []
    dead_ends: list[str] = Field(
        default=[], description="what failed or fell and says the same as these tasks"
    )
    alike: list[str] = Field(default=[], description="open tasks of others that are about the same as these")
    stages: list[WireStage] = Field(default=[], description="stages that the call defined")
    budget: WireBudget | None = Field(default=None, description="the budget of the agenda, if one was set")
    seq: int


class WireBounds(_Wire):
    steps: int = 0
    tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0


class WireBudget(_Wire):
    """The budget of the agenda."""

    bounds: WireBounds = Field(description="0 is no bound")
    used: WireBounds
    held: WireBounds = Field(description="tasks that are held now, and their planned cost")
    spent: str = Field(description="which bound keeps back every task; empty if none does")
    set_by: str


class WireReservation(_Wire):
    pattern: str
    shared: bool
    agent: str
    lease: int
    task: str | None
    until: datetime


class WireAttempt(_Wire):
    """An earlier attempt."""

    agent: str
    lease: int
    how: str
    note: str
    at: datetime


class ClaimAnswer(_Wire):
    """A task that was taken or settled; `id` is null where none was ready."""

    id: str | None
    lease: int | None
    until: datetime | None
    inputs: list[WireInput] = []
    brief: list[WireAttempt] = []
    rules: list[str] = []
    rules_revision: int = 0
    task: WireTask | None = None
    item: str | None = Field(default=None, description="id of the result or critique that was posted")
    freed: list[str] = Field(default=[], description="tasks that wait for nothing more, thanks to this")
    late: bool = False
    reserved: list[WireReservation] = []
    others: list[str] = Field(default=[], description="other tasks that you hold")
    debated: list[str] = Field(
        default=[], description="standing critiques in an open debate on the result that you confirmed"
    )
    dead_ends: list[str] = Field(default=[], description="what failed or fell and says the same as the task")
    seq: int


class WireStage(_Wire):
    id: str
    title: str
    kind: str
    parent: str | None
    state: StageState
    entry: str = Field(description="condition; empty holds at once")
    exit: str = Field(description="condition; empty never holds")
    required: bool
    manual: bool
    autocomplete: bool
    created_by: str
    why: str = Field(description="what keeps it from its next state, or why it ended")
    tasks: list[str] = Field(default=[], description="its tasks that are not over")
    faulted: list[str] = Field(default=[], description="required tasks that are FAULTED")


class StageAnswer(_Wire):
    """The stages of a board, each after its parent, or those that a call defined or moved."""

    stages: list[WireStage]
    seq: int


def wire_planned(planned: Planned) -> PlanAnswer:
    """Returns what a call planned as structured results show it."""
    return PlanAnswer(
        items=[wire_task(task) for task in planned.tasks],
        total=len(planned.tasks),
        dead_ends=list(planned.dead_ends),
        alike=list(planned.alike),
        stages=[_wire_stage(stage) for stage in planned.stages],
        budget=_wire_budget(planned.budget),
        seq=planned.seq,
    )


def _wire_budget(budget: AgendaBudget | None) -> WireBudget | None:
    if budget is None:
        return None
    return WireBudget(
        bounds=WireBounds(**asdict(budget.bounds)),
        used=WireBounds(**asdict(budget.used)),
        held=WireBounds(**asdict(budget.held)),
        spent=budget.spent,
        set_by=budget.set_by,
    )


def wire_stages(found: Stages) -> StageAnswer:
    """Returns stages as structured results show them."""
    return StageAnswer(stages=[_wire_stage(stage) for stage in found.stages], seq=found.seq)


def _wire_stage(stage: Stage) -> WireStage:
    return WireStage(
        id=stage.id,
        title=stage.title,
        kind=stage.kind,
        parent=stage_id(stage.parent) if stage.parent else None,
        state=stage.state,
        entry=stage.entry,
        exit=stage.exit,
        required=stage.required,
        manual=stage.manual,
        autocomplete=stage.autocomplete,
        created_by=stage.created_by,
        why=stage.why,
        tasks=[task_id(number) for number in stage.tasks],
        faulted=[task_id(number) for number in stage.faulted],
    )


def wire_task(task: Task) -> WireTask:
    """Returns a task as structured results show it."""
    return WireTask(
        id=task.id,
        title=task.title,
        text=task.text,
        state=task.state,
        ready=task.ready,
        blocked_by=list(task.blocked_by),
        holder=task.holder or None,
        lease=task.lease,
        until=task.until,
        priority=task.priority,
        stage=stage_id(task.stage) if task.stage else None,
        attempts=task.attempts,
        after=[task_id(number) for number in task.after],
        skill=task.skill or None,
        worker=task.worker or None,
        trigger=task.trigger or None,
        required=task.required,
        verify=task.verify or None,
        retries=task.retries,
        cost=task.cost,
        paths=list(task.paths),
        created_by=task.created_by,
        waits_on=task.waits_on or None,
        result=task.result,
        outcome=None if task.outcome is None else wire_input(task.outcome),
        why=task.why,
        board=None if task.sub is None else _wire_sub(task.sub),
    )


def _wire_sub(sub: SubBoard) -> dict[str, Any]:
    fields = asdict(sub)
    return {"id": fields.pop("board"), **fields}


def wire_agenda(agenda: Agenda) -> PlanAnswer:
    """Returns the agenda as structured results show it."""
    return PlanAnswer(
        items=[wire_task(task) for task in agenda.tasks],
        total=agenda.total,
        ended=[wire_task(task) for task in agenda.ended],
        mine=[task.id for task in agenda.mine],
        review=[task.id for task in agenda.review],
        reservations=[wire_reservation(held) for held in agenda.reservations],
        budget=_wire_budget(agenda.budget),
        seq=agenda.seq,
    )


def wire_reservation(held: Reservation) -> WireReservation:
    """Returns a reservation as structured results show it."""
    return WireReservation(
        pattern=held.pattern,
        shared=held.shared,
        agent=held.agent,
        lease=held.lease,
        task=task_id(held.task) if held.task else None,
        until=held.until,
    )


def wire_input(given: Input) -> WireInput:
    """Returns the result of a former task as structured results show it."""
    return WireInput(
        task=task_id(given.task),
        title=given.title,
        item=given.item,
        text=given.text,
        status=given.status,
        instead_of=given.instead_of,
    )


def wire_attempt(attempt: Attempt) -> WireAttempt:
    """Returns an ended attempt as structured results show it."""
    return WireAttempt(
        agent=attempt.agent, lease=attempt.lease, how=attempt.how, note=attempt.note, at=attempt.at
    )
