"""The tool `report_result` of the set `memory`: results of checks."""

from __future__ import annotations

from typing import Annotated

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.items import FINISHED
from blackboard_mcp.protocols.late_models import rule_wire
from pydantic import Field

from ..access.needs import TOOLS
from ..answers.rendering import Rendering
from ..input.posts import ONE_OR_MORE, Id, check_text
from ..text.lines import one_line
from ..usecases.results import Results
from .tool import Answer, Caller, ToolSet

BoardId = Annotated[str, Field(max_length=64)]
Name = Annotated[str, Field(max_length=200)]
Body = Annotated[str, Field(max_length=2_000)]
Cited = Annotated[list[Id], Field(max_length=20), ONE_OR_MORE]


class ResultTool:
    """The tool with which agents report what a check gave."""

    def __init__(self, results: Results, rendering: Rendering) -> None:
        self._results = results
        self._say = rendering

    def register(self, tools: ToolSet) -> None:
        """Adds the tool `report_result`."""
        tools.add(
            self.report_result,
            name="report_result",
            title="Report a result",
            description="A failed check is a hot issue until it passes for that subject.",
            needs=TOOLS["report_result"],
            output=lambda: rule_wire.ResultAnswer,
        )

    async def report_result(
        self,
        caller: Caller,
        check: Name,
        ok: bool,
        subject: Name | None = None,
        text: Body | None = None,
        cites: Cited | None = None,
        board: BoardId | None = None,
    ) -> Answer:
        """Records the result of a check."""
        named, of = " ".join(check.split()), " ".join((subject or "").split())
        for words in (named, of, text or ""):
            check_text(words)
        if not named:
            raise InvalidInput("check names what was checked, as in lint. Nothing was changed.")
        done = await self._results.report(
            caller.agent,
            board,
            named,
            of,
            ok=ok,
            text=(text or "").strip(),
            cites=tuple(dict.fromkeys(cites or ())),
            once_key=caller.once_key,
        )
        item = done.item
        if item is None:
            said = "passed; it was no hot issue"
        elif item.status in FINISHED:
            said = f"{item.id} is resolved"
        else:
            about = f', subject="{one_line(of)}"' if of else ""
            said = (
                f"{item.id} stands in every view until "
                f'report_result(check="{one_line(named)}"{about}, ok=true)'
            )
        return Answer(
            self._say.with_footer(said, done.seq, done.attention),
            lambda: rule_wire.ResultAnswer(
                item=None if item is None else item.id,
                open=item is not None and item.status not in FINISHED,
                version=0 if item is None else item.version,
                seq=done.seq,
            ),
        )
