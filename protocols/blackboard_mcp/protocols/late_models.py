"""The modules of structured results, imported when one of their models is first used.

A start needs none of these models, and making their classes takes long. So use cases and tools import `wire` from
here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from blackboard_mcp.protocols import board_wire as board_wire
    from blackboard_mcp.protocols import debate_wire as debate_wire
    from blackboard_mcp.protocols import group_wire as group_wire
    from blackboard_mcp.protocols import plan_wire as plan_wire
    from blackboard_mcp.protocols import request_wire as request_wire
    from blackboard_mcp.protocols import rule_wire as rule_wire
    from blackboard_mcp.protocols import run_wire as run_wire
    from blackboard_mcp.protocols import summary_wire as summary_wire
    from blackboard_mcp.protocols import version_wire as version_wire
    from blackboard_mcp.protocols import wire as wire
    from blackboard_mcp.protocols import workspace_wire as workspace_wire
else:

    class _Later:
        """A module that is imported when something in it is first used."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            found = getattr(import_module(f"blackboard_mcp.protocols.{self._name}"), name)
            setattr(self, name, found)
            return found

    board_wire = _Later("board_wire")
    debate_wire = _Later("debate_wire")
    group_wire = _Later("group_wire")
    plan_wire = _Later("plan_wire")
    request_wire = _Later("request_wire")
    rule_wire = _Later("rule_wire")
    run_wire = _Later("run_wire")
    summary_wire = _Later("summary_wire")
    version_wire = _Later("version_wire")
    wire = _Later("wire")
    workspace_wire = _Later("workspace_wire")
