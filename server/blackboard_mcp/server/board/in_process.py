"""The tools as a program in the same process calls them: the same ones as over MCP, by their facts, without a text."""

from __future__ import annotations

from typing import Any

from blackboard_mcp.protocols.access import EVERY_BOARD, Principal, Role
from blackboard_mcp.protocols.errors import BlackboardError
from pydantic import BaseModel

from ..answers.assurance import unassured
from ..answers.rendering import Rendering
from ..compose import Installation, tool_set
from ..settings.server import TOOL_SETS
from ..tools.tool import Caller


def of_this_process(agent: str) -> Principal:
    """The principal of an agent in the process: it reaches every board, as far as the members' roles let it."""
    return Principal(agent, agent, {EVERY_BOARD: Role.ADMIN})


class InProcess:
    """All tools over an open installation, for any agent and board."""

    def __init__(self, opened: Installation) -> None:
        rendering = Rendering(opened.blackboard.tokenizers.launched, opened.clock)
        self._tools = tool_set(opened, TOOL_SETS, rendering)

    async def call(self, name: str, agent: str, arguments: dict[str, Any], once: str | None) -> BaseModel:
        """The facts of the tool's answer.

        Raises:
            InvalidInput: arguments that the tool does not take; nothing was changed.
            BlackboardError: what the tool refuses.
        """
        tool = self._tools.find(name)
        assert tool is not None
        caller = Caller(of_this_process(agent), "process", structured=True, headers={}, asked_once=once)
        try:
            facts = (await self._tools.call(tool, caller, tool.arguments.check(arguments))).facts
        except BlackboardError as error:
            if tool.needs.only_reads(arguments):
                unassured(error)
            raise
        assert isinstance(facts, BaseModel)
        return facts
