"""The values of the agenda as programs with a store of their own make them."""

from __future__ import annotations

from blackboard_mcp.protocols.agenda import AgendaBudget, Planned
from blackboard_mcp.protocols.runs import Budget


def test_what_was_planned_takes_its_values_in_the_order_of_former_versions() -> None:
    budget = AgendaBudget(Budget(tokens=1))
    made = Planned((), 7, ("T-9 repeats T-3 FAULTED: why",), (), budget)
    assert (made.stages, made.budget, made.alike) == ((), budget, ())
