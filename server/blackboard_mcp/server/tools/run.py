"""The tools of the set `run`: agents take part on a board."""

from __future__ import annotations

from typing import Annotated, Any

from blackboard_mcp.protocols.asking import MAX_SKILLS
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.late_models import run_wire
from blackboard_mcp.protocols.participants import MAX_INTERESTS, MAX_NOTE, MAX_ROLE
from pydantic import Field, WithJsonSchema

from ..access.needs import TOOLS
from ..answers.participants import left_lines, roster_lines
from ..answers.rendering import Rendering
from ..usecases.participants import Participants, Roster
from .tool import Answer, Caller, ToolSet

Name = Annotated[str, Field(max_length=64)]
Role = Annotated[str, Field(max_length=MAX_ROLE)]
Skills = Annotated[list[Name], Field(max_length=MAX_SKILLS)]
Filter = Annotated[dict[str, Any], Field(max_length=16)]
Interests = Annotated[list[Filter], Field(max_length=MAX_INTERESTS, description="event filters")]
Leave = Annotated[
    bool | Annotated[str, Field(max_length=MAX_NOTE)],
    WithJsonSchema({"type": "string", "maxLength": MAX_NOTE, "description": "true or a note"}),
]
_SPELLED = {"true": True, "false": False}


class RunTools:
    """Tools with which agents take part."""

    def __init__(self, participants: Participants, rendering: Rendering) -> None:
        self._participants = participants
        self._say = rendering

    def register(self, tools: ToolSet) -> None:
        """Adds the tool `join`."""
        tools.add(
            self.join,
            name="join",
            title="Take part",
            description="Take part, or change what you said. No arguments: who takes part.",
            needs=TOOLS["join"],
            output=lambda: run_wire.JoinAnswer,
        )

    async def join(
        self,
        caller: Caller,
        role: Role | None = None,
        skills: Skills | None = None,
        interests: Interests | None = None,
        leave: Leave | None = None,
        board: Name | None = None,
    ) -> Answer:
        """Makes the caller take part, changes what it said, or ends its part. Without arguments it lists who
        takes part.
        """
        said = role is not None or skills is not None or interests is not None
        leaving = _SPELLED.get(leave.strip().lower(), leave) if isinstance(leave, str) else leave
        if leaving is not None and leaving is not False:
            if said:
                raise InvalidInput('join takes leave alone, as in join(leave="done"). Nothing was changed.')
            note = "" if leaving is True else leaving.strip()
            roster = await self._participants.leave(caller.agent, board, note, once_key=caller.once_key)
            return self._answer(roster, left_lines(roster))
        if not said:
            roster = await self._participants.roster(caller.agent, board)
        else:
            roster = await self._participants.join(
                caller.agent, board, role=role, skills=skills, interests=interests, once_key=caller.once_key
            )
        return self._answer(roster, roster_lines(roster, self._say.now()))

    def _answer(self, roster: Roster, lines: list[str]) -> Answer:
        return Answer(
            self._say.with_footer("\n".join(lines), roster.seq, roster.attention),
            lambda: run_wire.JoinAnswer(
                you=None if roster.you is None else run_wire.wire_participant(roster.you),
                others=[run_wire.wire_participant(one) for one in roster.others],
                waived=list(roster.waived),
                released=list(roster.released),
                seq=roster.seq,
            ),
        )
