"""The tool `get_context` of the set `memory`."""

from __future__ import annotations

from typing import Annotated

from blackboard_mcp.protocols.late_models import rule_wire
from pydantic import Field, WithJsonSchema

from ..access.needs import TOOLS
from ..answers.rendering import Rendering
from ..usecases.context import Contexts
from ..views.context import DEFAULT_BUDGET
from .tool import Answer, Caller, ToolSet

MAX_BUDGET = 50_000
BoardId = Annotated[str, Field(max_length=64)]
Query = Annotated[str, Field(max_length=2_000)]
Path = Annotated[str, Field(max_length=300)]
Budget = Annotated[
    int, Field(ge=1, le=MAX_BUDGET), WithJsonSchema({"type": "integer", "description": "tokens"})
]


class ContextTool:
    """The tool by which an agent learns what it must know before it begins."""

    def __init__(self, contexts: Contexts, rendering: Rendering) -> None:
        self._contexts = contexts
        self._say = rendering

    def register(self, tools: ToolSet) -> None:
        """Adds the tool `get_context`."""
        tools.add(
            self.get_context,
            name="get_context",
            title="Context",
            description="Before you begin: rules, hot issues, decisions, dead ends, your work, what matters for query.",
            needs=TOOLS["get_context"],
            output=lambda: rule_wire.ContextAnswer,
            read_only=True,
        )

    async def get_context(
        self,
        caller: Caller,
        query: Query | None = None,
        budget: Budget | None = None,
        path: Path | None = None,
        board: BoardId | None = None,
    ) -> Answer:
        """Returns the context of a piece of work."""
        given = await self._contexts.context(
            caller.agent, board, query or "", DEFAULT_BUDGET if budget is None else budget, path or ""
        )
        return Answer(
            self._say.with_footer(given.context.text, given.seq, given.attention),
            lambda: rule_wire.ContextAnswer(
                context=given.context.text,
                tokens=given.context.tokens,
                rules=given.revision,
                entries=[rule_wire.WireEntry(id=id_, part=part) for id_, part in given.context.entries],
                seq=given.seq,
            ),
        )
