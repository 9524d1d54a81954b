"""The budget of a board's agenda: what its tasks may use in all, what they used, and whether one more fits.

An attempt is charged when it ends: a step, the seconds for which the task was held, and what the agent reports, else
the planned cost. Until then its step and planned cost count as held. So a task is handed out only if all that are held
at the same time fit as well, and what is used only grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from blackboard_mcp.protocols.agenda import MAX_COST, MAX_TOKENS, AgendaBudget
from blackboard_mcp.protocols.errors import InvalidInput, Refused
from blackboard_mcp.protocols.events import SYSTEM, EventType
from blackboard_mcp.protocols.runs import Budget, Usage

from ..ledger.ledger import Ledger
from ..ledger.rows import Steps, sql

if TYPE_CHECKING:
    from .rows import TaskRow

PARTS: Final = 1_000_000
"""Parts of the users' unit of cost, and of a second, in which both are stored."""
UNBOUNDED: Final = (1 << 62) - 1
"""A cost that every task is within."""


@dataclass(slots=True)
class BudgetRow:
    """A row of `agenda_budget`: its fields are the columns, then the number and planned cost of the held tasks."""

    board: int
    steps: int = 0
    tokens: int = 0
    cost: int = 0
    seconds: int = 0
    used_steps: int = 0
    used_tokens: int = 0
    used_cost: int = 0
    used_seconds: int = 0
    set_by: str = ""
    told: int = 0
    held_steps: int = 0
    held_cost: int = 0

    def lacks(self, cost: int = 0) -> str:
        """Returns which bound keeps a task of this cost from being handed out; an empty string if none does."""
        if self.steps and self.used_steps + self.held_steps >= self.steps:
            return f"steps {self.used_steps} used{_held(self.held_steps)} of {self.steps}"
        if self.tokens and self.used_tokens >= self.tokens:
            return f"tokens {self.used_tokens:,} used of {self.tokens:,}"
        if self.seconds and self.used_seconds >= self.seconds:
            return f"seconds {self.used_seconds / PARTS:,.0f} used of {self.seconds / PARTS:,.0f}"
        spent = self.used_cost + self.held_cost
        if self.cost and (spent >= self.cost or spent + cost > self.cost):
            used = f"{_plain(self.used_cost)} used{_held(self.held_cost, PARTS)} of {_plain(self.cost)}"
            return f"cost {used}{f', it takes {_plain(cost)}' if cost else ''}"
        return ""

    def room(self) -> int:
        """Returns the highest cost that a task may have to be handed out; -1 if none is."""
        if self.lacks():
            return -1
        return self.cost - self.used_cost - self.held_cost if self.cost else UNBOUNDED

    def value(self) -> AgendaBudget:
        """Returns the budget as callers get it."""
        return AgendaBudget(
            bounds=Budget(self.steps, self.tokens, self.cost / PARTS, self.seconds / PARTS),
            used=Budget(self.used_steps, self.used_tokens, self.used_cost / PARTS, self.used_seconds / PARTS),
            held=Budget(steps=self.held_steps, cost=self.held_cost / PARTS),
            spent=self.lacks(),
            set_by=self.set_by,
        )


_COLUMNS: Final = attrgetter(
    *(field.name for field in fields(BudgetRow) if not field.name.startswith("held"))
)


def _plain(cost: int) -> str:
    return f"{cost / PARTS:,.6f}".rstrip("0").rstrip(".")


def _held(amount: int, parts: int = 1) -> str:
    return f" + {_plain(amount * PARTS // parts)} held" if amount else ""


def find(no: int) -> Steps[BudgetRow | None]:
    """Returns the budget of a board's agenda, or `None` if none was ever set."""
    found = yield sql("agenda_budget"), (no,)
    return BudgetRow(*found[0]) if found else None


def put(row: BudgetRow) -> Steps[None]:
    """Stores a budget."""
    yield sql("agenda_budget_put"), _COLUMNS(row)


def check(budget: Budget) -> None:
    """Checks the bounds of a budget.

    Raises:
        InvalidInput: one is not allowed.
    """
    for value, most in (
        (budget.steps, MAX_TOKENS),
        (budget.tokens, MAX_TOKENS),
        (budget.cost, MAX_COST),
        (budget.seconds, MAX_COST),
    ):
        if not 0 <= value <= most:
            raise InvalidInput(
                f"budget has numbers from 0 to {most:,}; 0 or none is no bound. Nothing was changed."
            )


def check_usage(usage: Usage | None) -> None:
    """Checks what an agent reports that an attempt used.

    Raises:
        InvalidInput: a figure is not allowed.
    """
    if usage is not None and not (0 <= usage.tokens <= MAX_TOKENS and 0 <= usage.cost <= MAX_COST):
        raise InvalidInput(
            f'usage is {{"tokens": 0 to {MAX_TOKENS:,}, "cost": 0 to {MAX_COST:,}}}. Nothing was changed.'
        )


def set_bounds(ledger: Ledger, budget: Budget) -> Steps[None]:
    """Sets the bounds of the agenda's budget; what was used stays used. Reports `plan.budget`.

    Raises:
        Refused: the agent is no steward.
    """
    if not ledger.steward:
        raise Refused(
            "A steward sets the budget of the agenda, since it keeps everybody's tasks. Nothing was changed; ask one: "
            'post(type="QUESTION", text="…").'
        )
    check(budget)
    row = (yield from find(ledger.no)) or BudgetRow(ledger.no)
    before = row.value().bounds
    row.steps, row.tokens = budget.steps, budget.tokens
    row.cost, row.seconds = round(budget.cost * PARTS), round(budget.seconds * PARTS)
    row.set_by, row.told = ledger.agent, 0
    yield from put(row)
    now = row.value()
    data = {"budget": _said(now.bounds), "was": _said(before), "used": _said(now.used)}
    yield from ledger.emit(EventType.PLAN_BUDGET, data=data)


def _said(budget: Budget) -> dict[str, Any]:
    named = {"steps": budget.steps, "tokens": budget.tokens, "cost": budget.cost, "seconds": budget.seconds}
    return {name: value for name, value in named.items() if value}


def charge(ledger: Ledger, row: TaskRow, usage: Usage | None) -> Steps[None]:
    """Charges an attempt that ends, before the task moves.

    The end of a lease charges the planned cost; a later report adds what goes beyond it.
    """
    budget = yield from find(ledger.no)
    if budget is None:
        return
    reported = row.cost if usage is None else round(usage.cost * PARTS)
    if row.held:
        taken = yield sql("event_at"), (ledger.no, row.lease)
        budget.used_steps += 1
        budget.used_seconds += max(0, ledger.now - taken[0][0]) if taken else 0
        budget.used_cost += reported
    elif usage is not None:
        budget.used_cost += max(0, reported - row.cost)
    budget.used_tokens += 0 if usage is None else usage.tokens
    yield from put(budget)


def tell(ledger: Ledger, ready: Sequence[TaskRow]) -> Steps[None]:
    """Reports `budget.blocked`, once for each time that the budget is set, if it keeps back one of these tasks."""
    budget = yield from find(ledger.no)
    if budget is None or budget.told:
        return
    for row in ready:
        if lacks := budget.lacks(row.cost):
            budget.told = 1
            yield from put(budget)
            data = {"task": row.id, "title": row.title, "which": lacks.partition(" ")[0], "spent": lacks}
            yield from ledger.emit(
                EventType.BUDGET_BLOCKED, agent=SYSTEM, data=data, concerns=[budget.set_by]
            )
            return
