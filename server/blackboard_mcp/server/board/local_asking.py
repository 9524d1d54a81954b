"""The tools `request` and `respond` as a program in the same process calls them."""

from __future__ import annotations

from typing import Annotated

from blackboard_mcp.protocols.asking import MAX_ANSWER, MAX_DEADLINE_SECONDS, MAX_QUESTION, MAX_SKILLS
from blackboard_mcp.protocols.wire import RequestAnswer, WaitingAnswer, wire_item, wire_request
from pydantic import Field

from ..compose import Installation
from ..input.posts import Id, Seconds, Sequence
from ..usecases.requests import Asked, Messaging
from .caller import By

Skills = Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=MAX_SKILLS)]


class LocalAsking:
    """Requests between agents, for any agent and board of an installation."""

    def __init__(self, opened: Installation) -> None:
        self._blackboard = opened.blackboard
        self._messaging = Messaging(opened.blackboard)

    async def request(
        self,
        caller: By,
        text: Annotated[str, Field(max_length=MAX_QUESTION)] | None = None,
        to: Annotated[str, Field(max_length=80)] | None = None,
        id: Id | None = None,
        seconds: Seconds = 0.0,
        deadline_seconds: Annotated[float, Field(gt=0, le=MAX_DEADLINE_SECONDS)] | None = None,
        cancel: bool = False,
    ) -> RequestAnswer | WaitingAnswer:
        agent, board, messaging = caller.agent, caller.board, self._messaging
        if id is not None:
            if cancel:
                asked = await messaging.cancel(agent, board, id, text or "", once_key=caller.once)
            else:
                asked = await messaging.follow(agent, board, id, seconds=seconds)
            return await self._stands(asked, agent)
        if to is None:
            return await self._waiting(caller)
        name, number = await messaging.ask(
            agent, board, text or "", to, deadline_seconds=deadline_seconds, once_key=caller.once
        )
        return await self._stands(await messaging.follow(agent, name, number, seconds=seconds), agent)

    async def respond(
        self,
        caller: By,
        id: Id | None = None,
        text: Annotated[str, Field(max_length=MAX_ANSWER)] | None = None,
        partial: bool = False,
        decline: bool = False,
        lease: Sequence | None = None,
        skills: Skills | None = None,
        seconds: Seconds = 0.0,
    ) -> RequestAnswer | WaitingAnswer:
        agent, board, messaging = caller.agent, caller.board, self._messaging
        if id is None:
            if skills is not None:
                await messaging.offer(agent, board, skills, once_key=caller.once)
            found = await messaging.next(agent, board, seconds=seconds, once_key=caller.once)
            return await (self._waiting(caller) if found is None else self._stands(found, agent))
        if decline:
            asked = await messaging.decline(agent, board, id, text or "", lease=lease, once_key=caller.once)
        elif text is None:
            asked = await messaging.take(agent, board, id, once_key=caller.once)
        else:
            asked = await messaging.answer(
                agent, board, id, text, partial=partial, lease=lease, once_key=caller.once
            )
        return await self._stands(asked, agent)

    async def _stands(self, asked: Asked, agent: str) -> RequestAnswer:
        _, seq = await self._blackboard.attention(agent, asked.request.board)
        return RequestAnswer(
            request=wire_request(asked.request),
            question=wire_item(asked.question),
            answer=None if asked.answer is None else wire_item(asked.answer),
            seq=seq,
        )

    async def _waiting(self, caller: By) -> WaitingAnswer:
        found = await self._messaging.waiting(caller.agent, caller.board)
        return WaitingAnswer(
            waiting=[wire_request(asked.request) for asked in found.waiting],
            asked=[wire_request(asked.request) for asked in found.asked],
            skills={skill: list(agents) for skill, agents in found.skills.items()},
            seq=found.seq,
        )
