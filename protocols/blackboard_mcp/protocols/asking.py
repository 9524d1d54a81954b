"""Requests from agent to agent, as the board keeps them: who asks whom what, who has it, how it ended.

A request is a QUESTION on the board, its answer an ANSWER that replies to it, and what is there of an answer
so far one RESULT entry whose versions grow. Their keys are those of the request/result protocol in the
scope `messages`, which only requests write. Everybody on the board sees them.

An open request is owed like an obligation, and no acknowledgement, waiver or vote ends it: it stays on the
board until it is answered, declined, cancelled or expired.
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
"""Where requests stand. The number of a `part` is the lease of its holder, its versions are the parts."""
MAX_QUESTION: Final = 20_000
"""Longest text of a request, in characters."""
MAX_ANSWER: Final = 100_000
"""Longest answer with all its parts, in characters."""
MAX_PARTS: Final = 100
MAX_OPEN_OF_AGENT: Final = 50
"""Requests of one agent that may be open at once."""
MAX_OPEN: Final = 1_000
"""Requests of a board that may be open at once."""
MAX_SKILLS: Final = 16
"""Skills that an agent may offer."""
MAX_OFFERS: Final = 2_000
"""Skills offered on a board, over all agents."""
DEADLINE_SECONDS: Final = 3_600
MAX_DEADLINE_SECONDS: Final = 7 * 86_400


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A request before it is on the board: either `to`, an agent, or `skill` is said, the other is empty."""

    text: str
    tokens: int
    sha256: str
    to: str = ""
    skill: str = ""
    deadline_seconds: float = DEADLINE_SECONDS
    counted_by: str = DEFAULT_TOKENIZER


@dataclass(frozen=True, slots=True)
class NewAnswer:
    """An answer, or with `partial` what there is of it so far; `text` is all of it, with the former parts.

    `seen` counts the parts that `text` begins with. `lease` is the token that taking the request gave.
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
    """A request as it stands. `number` and `id` are those of its QUESTION; `lease` is 0 until it was taken.

    `partial` and `answer` are ids of what there is of an answer. `declined` are agents that declined it,
    and `offering` how many others offer the skill now; by name 1 if that agent was ever on the board.
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
        """Whether it may still be answered."""
        return self.state in (RequestState.OPEN, RequestState.TAKEN)


class RequestStore(Protocol):
    """What a board store does about requests. Mutations answer with the number of the request, or as they say."""

    async def open_request(
        self, board: str, agent: str, new: NewRequest, *, config: BoardConfig, once: Once | None = None
    ) -> int:
        """Asks; a board that is not there is made with `config`.

        Raises:
            InvalidInput: the agent asks itself.
            Refused: too many are open, or the board takes no posts.
        """
        ...

    async def request(self, board: str, agent: str, number: int) -> AgentRequest:
        """How a request stands.

        Raises:
            UnknownReference: there is none.
        """
        ...

    async def requests_waiting(
        self, board: str, agent: str, limit: int = 50
    ) -> tuple[list[AgentRequest], list[AgentRequest]]:
        """What waits for the agent's answer, what it holds first, then oldest first; and what it asked that is open."""
        ...

    async def offer_skills(
        self, board: str, agent: str, skills: Sequence[str], *, once: Once | None = None
    ) -> bool:
        """From now on the agent offers these skills and no others; whether that was new.

        Raises:
            Refused: too many are offered on the board.
        """
        ...

    async def skills(self, board: str) -> dict[str, tuple[str, ...]]:
        """Skills that are offered now, by name, and by whom."""
        ...

    async def take_request(self, board: str, agent: str, number: int, *, once: Once | None = None) -> int:
        """The lease under which the agent holds the request from now on; a former one of its own is void.

        Raises:
            UnknownReference: there is no such request.
            Conflict: somebody else holds it, or it has ended.
            Refused: it is not this agent's to answer.
        """
        ...

    async def take_next(self, board: str, agent: str, *, once: Once | None = None) -> tuple[int, int] | None:
        """Takes the oldest that waits for the agent and that nobody holds: its number and lease; else `None`.

        Where nothing was taken `once` is not used up.
        """
        ...

    async def answer_request(
        self, board: str, agent: str, number: int, new: NewAnswer, *, once: Once | None = None
    ) -> int:
        """Adds a part, which renews the lease, or ends the request with its answer.

        What nobody holds is taken by it first.

        Raises:
            UnknownReference: there is no such request.
            Conflict: it has ended, is not the agent's any more, or `facts["parts"]` were not all seen.
            Refused: it is not this agent's to answer, or there are too many parts.
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
        """Ends a request to the agent by name; one by skill goes on to others.

        Raises:
            UnknownReference: there is no such request.
            Conflict: it has ended, or is not the agent's any more.
            Refused: it is not this agent's to decline.
        """
        ...

    async def cancel_request(
        self, board: str, agent: str, number: int, reason: str = "", *, once: Once | None = None
    ) -> int:
        """Takes the agent's own request back.

        Raises:
            UnknownReference: there is no such request.
            Conflict: it has ended.
            Refused: somebody else asked it.
        """
        ...

    async def release_request(self, board: str, agent: str, number: int, lease: int) -> bool:
        """Gives a request back that the agent took under that lease, for others and itself; false where it has it not.

        For what a call took that nobody got: it declines nothing, and what the agent has answered so far stays.
        """
        ...

    async def sweep_requests(self) -> list[str]:
        """Expires what is past its deadline, frees what is past its lease, ends offers of the absent.

        The boards it changed; a bounded part of it a call.
        """
        ...
