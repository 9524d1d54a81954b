"""Plan publication: a plan of steps with dependencies, its revisions, and the progress of each step."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from .base import ID, Body, Count, KeyShape, Line, MessageProtocol, Name, Part, States


class StepState(StrEnum):
    """The state of a step."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    DONE = "DONE"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"


STEP_STATES = States(
    first=frozenset({"PENDING", "RUNNING", "SKIPPED"}),
    moves={
        "PENDING": frozenset({"RUNNING", "SKIPPED"}),
        "RUNNING": frozenset({"DONE", "FAILED", "PENDING"}),
        "FAILED": frozenset({"PENDING", "SKIPPED"}),
        "DONE": frozenset(),
        "SKIPPED": frozenset(),
    },
)


class Step(Body):
    """One step: what is done, the names of the steps that must precede it, and who does it, if that is settled."""

    name: Name
    text: Line
    after: Annotated[tuple[Name, ...], Field(max_length=64)] = ()
    by: Name | None = None


class Plan(Body):
    """A revision of the plan, with its steps in any order. Dependencies name steps of the plan and form no cycle."""

    goal: Line
    revision: Count
    steps: Annotated[tuple[Step, ...], Field(min_length=1, max_length=200)]
    why: str = Field(default="", max_length=2_000)
    """The reason for the revision."""

    def model_post_init(self, _: object, /) -> None:
        """Checks that names are unique and that dependencies name steps and form no cycle.

        Raises:
            ValueError: they do not.
        """
        names = [step.name for step in self.steps]
        if len(set(names)) != len(names):
            raise ValueError("a step's name stands there twice")
        for step in self.steps:
            for other in step.after:
                if other not in names:
                    raise ValueError(f"step {step.name} comes after {other}, which is no step of this plan")
        self.order()

    def order(self) -> tuple[str, ...]:
        """Returns the names of the steps in an order in which each comes after all that it depends on.

        Raises:
            ValueError: the dependencies form a cycle.
        """
        left = {step.name: set(step.after) for step in self.steps}
        ordered: list[str] = []
        while left:
            ready = [name for name, after in left.items() if not after]
            if not ready:
                raise ValueError(f"the dependencies of {', '.join(sorted(left)[:5])} close a cycle")
            ordered += ready
            left = {name: after.difference(ready) for name, after in left.items() if after}
        return tuple(ordered)

    def ready(self, states: Mapping[str, StepState]) -> tuple[str, ...]:
        """Returns the names of steps that can begin: pending ones whose dependencies are done or skipped."""
        over = {name for name, state in states.items() if state in (StepState.DONE, StepState.SKIPPED)}
        return tuple(
            step.name
            for step in self.steps
            if states.get(step.name, StepState.PENDING) is StepState.PENDING and set(step.after) <= over
        )


class StepStatus(Body):
    """The state of a step, and the revision of the plan that it belongs to."""

    revision: Count
    state: StepState
    by: Name | None = None
    note: str = Field(default="", max_length=2_000)


class PlanPublication(MessageProtocol):
    """Publish a plan that others can work by, revise it, and see how far it is.

    The planner writes the plan, a version a revision, with `expected_version` of the last. Who works on a
    step writes its status under the step's own key, so that two who work do not get in each other's way.
    """

    name: ClassVar[str] = "plan-publication"
    states: ClassVar[States | None] = STEP_STATES
    shapes: ClassVar[tuple[KeyShape, ...]] = (
        KeyShape("plan", (ID,), Plan, "the planner, a version a revision"),
        KeyShape("step", (ID, Part("step")), StepStatus, "who works on the step"),
    )

    def plan_key(self, id: str) -> str:
        return self.key("plan", id=id)

    def step_key(self, id: str, step: str) -> str:
        return self.key("step", id=id, step=step)
