"""The tools for programs in the same process: the same as over MCP, but answered with facts only, without text."""

from __future__ import annotations

from typing import Any

from blackboard_mcp.protocols.access import EVERY_BOARD, Principal, Role
from blackboard_mcp.protocols.errors import BlackboardError
from pydantic import BaseModel

from ..answers.assurance import unassured
from ..answers.rendering import Rendering
from ..compose import Installation, tool_set
from ..settings.server import TOOL_SETS
from ..tools.tool import Caller, Tool


def of_this_process(agent: str) -> Principal:
    """Returns the principal of an agent in this process.

    It is an admin of every board, unless a board gives it another role.
    """
    return Principal(agent, agent, {EVERY_BOARD: Role.ADMIN})


class InProcess:
    """All tools of an open installation, for any agent and board."""

    def __init__(self, opened: Installation) -> None:
        self._opened = opened
        self._rendering = Rendering(opened.blackboard.tokenizers.launched, opened.clock)
        self._tools = tool_set(opened, (), self._rendering)
        opened.conduct()  # runs go on though the tools of runs are made later

    def _find(self, name: str) -> Tool:
        """Returns the tool of that name; the first that is no core tool brings all others, which take a while."""
        found = self._tools.find(name)
        if found is None:
            self._tools = tool_set(self._opened, TOOL_SETS, self._rendering)
            found = self._tools.find(name)
            assert found is not None
        return found

    async def call(self, name: str, agent: str, arguments: dict[str, Any], once: str | None) -> BaseModel:
        """Calls a tool and returns the facts of its answer. `once` is the call's idempotency key.

        Raises:
            InvalidInput: the tool does not take such arguments; nothing was changed.
            BlackboardError: the tool refused.
        """
        tool = self._find(name)
        caller = Caller(of_this_process(agent), "process", structured=True, headers={}, asked_once=once)
        try:
            facts = (await self._tools.call(tool, caller, tool.arguments.check(arguments))).facts
        except BlackboardError as error:
            if tool.needs.only_reads(arguments):
                unassured(error)
            raise
        assert isinstance(facts, BaseModel)
        return facts
