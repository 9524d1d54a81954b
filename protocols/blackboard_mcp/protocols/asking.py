"""Requests from agent to agent, as the board keeps them: the asker, the agent or skill asked, the holder, the end.

A request is a QUESTION on the board, and its answer an ANSWER that replies to it. The parts of an unfinished answer
are the versions of one RESULT entry. Their keys are those of the request/result protocol in the scope `messages`,
which only requests write. Everybody on the board sees them.

An open request is owed like an obligation, but no acknowledgement, waiver or vote ends it: it stays on the board until
it is answered, declined, cancelled or expired.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final, Protocol

from .messages.request_result import RequestResult, RequestState
from .tokens import DEFAULT_TOKENIZER
from .values import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .answers import (
        Once,
    )
    from .board import BoardConfig

KEYS: Final = RequestResult("messages")
"""The keys of requests. The number of a `part` is the lease of its holder; its versions are the parts of the answer.
"""
MAX_QUESTION: Final = 20_000
"""Longest text of a request, in characters."""
MAX_ANSWER: Final = 100_000
"""Longest answer with all its parts, in characters."""
MAX_PARTS: Final = 100
MAX_OPEN_OF_AGENT: Final = 50
"""Most open requests of one agent."""
MAX_OPEN: Final = 1_000
"""Most open requests of a board."""
MAX_SKILLS: Final = 16
"""Most skills that an agent may offer."""
MAX_OFFERS: Final = 2_000
"""Most skills offered on a board, summed over all agents."""
DEADLINE_SECONDS: Final = 3_600
MAX_DEADLINE_SECONDS: Final = 7 * 86_400


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A request before it is stored. Either `to` (an agent) or `skill` is given, and the other is empty."""

    text: str
    tokens: int
    sha256: str
    to: str = ""
    skill: str = ""
    deadline_seconds: float = DEADLINE_SECONDS
    counted_by: str = DEFAULT_TOKENIZER


@dataclass(frozen=True, slots=True)
class NewAnswer:
    """An answer, or with `partial` the beginning of one; `text` is all of it, former parts included.

    `seen` is the number of parts with which `text` begins. `lease` is the token that taking the request returned.
    """

    text: str
    tokens: int
    sha256: str
    partial: bool
    seen: int
    lease: int | None = None
    counted_by: str = DEFAULT_TOKENIZER


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """The present state of a request.

    `number` and `id` are those of its QUESTION; `lease` is 0 until somebody takes it. `partial` and `answer` are ids
    of the unfinished answer and of the answer. `declined` are agents that declined it. `offering` is the number of
    other agents that offer the skill now; for a request to an agent it is 1 if that agent was ever on the board.
    """

    board: str
    number: int
    id: str
    asker: str
    to: str
    skill: str
    state: RequestState
    opened_at: datetime
    deadline: datetime
    holder: str | None
    held_until: datetime | None
    lease: int
    parts: int
    partial: str | None
    answer: str | None
    reason: str
    ended_by: str | None
    ended_at: datetime | None
    declined: tuple[str, ...]
    offering: int
    seq: int

    @property
    def live(self) -> bool:
        """Tells whether the request can still be answered."""
        return self.state in (RequestState.OPEN, RequestState.TAKEN)


class RequestStore(Protocol):
    """A store of requests. Mutations return the number of the request unless they say otherwise."""

    async def open_request(
        self, board: str, agent: str, new: NewRequest, *, config: BoardConfig, once: Once | None = None
    ) -> int:
        """Opens a request, and returns its number; creates the board with `config` if it does not exist.

        Raises:
            InvalidInput: the agent asks itself.
            Refused: too many requests are open, or the board takes no posts.
        """
        ...

    async def request(self, board: str, agent: str, number: int) -> AgentRequest:
        """Returns the present state of a request.

        Raises:
            UnknownReference: there is no such request.
        """
        ...

    async def requests_waiting(
        self, board: str, agent: str, limit: int = 50
    ) -> tuple[list[AgentRequest], list[AgentRequest]]:
        """Returns requests that wait for the agent's answer, and open requests that it made.

        Among the first, those that it holds come first, then the others, oldest first.
        """
        ...

    async def offer_skills(
        self, board: str, agent: str, skills: Sequence[str], *, once: Once | None = None
    ) -> bool:
        """Makes the agent offer these skills and no others; returns whether that changed anything.

        Raises:
            Refused: too many skills are offered on the board.
        """
        ...

    async def skills(self, board: str) -> dict[str, tuple[str, ...]]:
        """Returns a map from each skill offered now to the agents that offer it."""
        ...

    async def take_request(self, board: str, agent: str, number: int, *, once: Once | None = None) -> int:
        """Returns the lease under which the agent now holds the request; an earlier lease of its own becomes void.

        Raises:
            UnknownReference: there is no such request.
            Conflict: another agent holds it, or it has ended.
            Refused: it is not addressed to this agent.
        """
        ...

    async def take_next(self, board: str, agent: str, *, once: Once | None = None) -> tuple[int, int] | None:
        """Takes the oldest free request that waits for the agent; returns its number and lease, or `None`.

        If nothing was taken, `once` remains unused.
        """
        ...

    async def answer_request(
        self, board: str, agent: str, number: int, new: NewAnswer, *, once: Once | None = None
    ) -> int:
        """Adds a part, which renews the lease, or ends the request with its answer.

        A request that nobody holds is taken first.

        Raises:
            UnknownReference: there is no such request.
            Conflict: it has ended, the agent no longer holds it, or it has `facts["parts"]` parts, not all of which
                were seen.
            Refused: it is not addressed to this agent, or there are too many parts.
        """
        ...

    async def decline_request(
        self,
        board: str,
        agent: str,
        number: int,
        reason: str,
        *,
        lease: int | None = None,
        once: Once | None = None,
    ) -> int:
        """Ends a request addressed to the agent by name; one addressed to a skill goes on to other agents.

        Raises:
            UnknownReference: there is no such request.
            Conflict: it has ended, or the agent no longer holds it.
            Refused: it is not addressed to this agent.
        """
        ...

    async def cancel_request(
        self, board: str, agent: str, number: int, reason: str = "", *, once: Once | None = None
    ) -> int:
        """Cancels a request of the agent's own.

        Raises:
            UnknownReference: there is no such request.
            Conflict: it has ended.
            Refused: another agent made it.
        """
        ...

    async def release_request(self, board: str, agent: str, number: int, lease: int) -> bool:
        """Frees a request that the agent took under that lease; returns false if it does not hold it so.

        It serves calls that took a request but could not deliver it. Nothing is declined, and the parts of an answer
        remain.
        """
        ...

    async def sweep_requests(self) -> list[str]:
        """Expires requests past their deadline, frees those past their lease, and ends skills of absent agents.

        Returns the boards that it changed. One call does a bounded part.
        """
        ...
