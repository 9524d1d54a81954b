"""Taking part: agents join a board, say what they do there, and leave.

Every method takes the agent's authenticated name and a board id. Nothing here knows MCP, HTTP or SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from blackboard_mcp.protocols.answers import Attention
from blackboard_mcp.protocols.filters import parse_event_filter
from blackboard_mcp.protocols.participants import PRESENCE_SECONDS, Joined, Participant
from blackboard_mcp.protocols.values import dataclass

from ..input.idempotency import once_of
from ..input.posts import check_agent, check_text
from .blackboard import Blackboard
from .following import with_threads
from .requests import check_skills


@dataclass(frozen=True, slots=True)
class Roster:
    """Who takes part, as one agent is told: itself, or `None` if it takes no part, then those present first."""

    you: Participant | None
    others: tuple[Participant, ...]
    seq: int
    attention: Attention
    waived: tuple[str, ...] = ()
    released: tuple[str, ...] = ()


class Participants:
    """Use cases for agents that take part on a board."""

    def __init__(self, board: Blackboard) -> None:
        self._board = board

    async def join(
        self,
        agent: str,
        board: str | None,
        *,
        role: str | None = None,
        skills: Sequence[str] | None = None,
        interests: Sequence[dict[str, Any]] | None = None,
        protocols: Sequence[str] | None = None,
        once_key: str | None = None,
    ) -> Roster:
        """Makes the agent take part, or changes what it said. Errors are those of `BoardStore.join`."""
        check_agent(agent)
        if role is not None:
            check_text(role)
        wanted = None if skills is None else check_skills(skills)
        for spoken in protocols or ():
            self._board.protocols.check(spoken)
        name = await self._board.board_of(board, agent)
        self._board.quotas.charge(agent, name)
        once = once_of(once_key, "join", role=role, skills=skills, interests=interests, protocols=protocols)
        joined = await self._board.store.join(
            name,
            agent,
            role=None if role is None else role.strip(),
            skills=wanted,
            interests=None if interests is None else await self._filters(name, interests),
            protocols=protocols,
            once=once,
        )
        return await self._told(agent, name, joined)

    async def leave(
        self, agent: str, board: str | None, note: str = "", *, once_key: str | None = None
    ) -> Roster:
        """Ends the agent's part. Errors are those of `BoardStore.leave`."""
        check_agent(agent)
        check_text(note)
        name = await self._board.board_of(board, agent)
        self._board.quotas.charge(agent, name)
        left = await self._board.store.leave(name, agent, note, once=once_of(once_key, "leave", note=note))
        return await self._told(agent, name, left)

    async def roster(self, agent: str, board: str | None) -> Roster:
        """Returns who takes part."""
        check_agent(agent)
        name = await self._board.board_of(board, agent)
        listed = await self.listed(name)
        you = next((one for one in listed if one.agent == agent), None)
        attention, seq = await self._board.attention(agent, name)
        return Roster(you, tuple(one for one in listed if one.agent != agent), seq, attention)

    async def listed(self, board: str) -> tuple[Participant, ...]:
        """Returns who takes part on the board, those present first, with calls that are not written yet."""
        return await self._present(board, await self._board.store.participants(board))

    async def _told(self, agent: str, board: str, joined: Joined) -> Roster:
        others = await self._present(board, joined.others)
        attention, seq = await self._board.attention(agent, board)
        you = None if joined.participant.left_at is not None else joined.participant
        return Roster(you, others, seq, attention, joined.waived, joined.released)

    async def _present(self, board: str, listed: Iterable[Participant]) -> tuple[Participant, ...]:
        found = await self._board.store.find_board(board)
        seconds = 0 if found is None else found.config.presence_seconds
        noted, now = self._board.activity.noted(board), self._board.activity.clock.now()
        since = now - timedelta(seconds=seconds or PRESENCE_SECONDS)
        return by_presence(_as_noted(one, noted, since) for one in listed)

    async def _filters(self, board: str, interests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Returns the filters with threads named by their first items, which everybody must be able to see."""
        for filter_ in interests:
            parse_event_filter(filter_)
        return [await with_threads(self._board.store, board, "", filter_) for filter_ in interests]


def by_presence(listed: Iterable[Participant]) -> tuple[Participant, ...]:
    """Returns participants, those present first, then by name."""
    return tuple(sorted(listed, key=lambda one: (not one.present, one.agent)))


def _as_noted(participant: Participant, noted: Mapping[str, datetime], since: datetime) -> Participant:
    """Returns the participant with its last call, if that is not written yet; it is present since `since`."""
    last_seen = max(participant.last_seen, noted.get(participant.agent, participant.last_seen))
    return replace(participant, last_seen=last_seen, present=last_seen > since)
