"""An agent writes the summary: what is asked for, who has it, and what happens to what they write."""

from __future__ import annotations

from dataclasses import dataclass

from blackboard_mcp.protocols.errors import Refused
from blackboard_mcp.protocols.items import Item, parse_ref
from blackboard_mcp.protocols.summaries import AGENT, SummaryRequest

from ..blackboard import Blackboard
from ..once import once_of
from ..requests import check_agent, check_text
from .checks import body_limit, tidy
from .prompt import shares

HELD_SECONDS = 600.0
"""How long an agent has a request that it took."""
SHOWN_CHARACTERS = 24_000
"""Most characters of sources that are shown to who takes a request; whole texts are read by id."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A request that an agent holds: its sources, what is shown of each, and the tokens the body may have."""

    request: SummaryRequest
    sources: tuple[Item, ...]
    shown: tuple[str, ...]
    limit_tokens: int
    seq: int


class SummaryRequests:
    """Use cases of agents that summarise finished threads."""

    def __init__(self, board: Blackboard) -> None:
        self._board = board

    async def open(self, agent: str, board: str | None) -> tuple[list[SummaryRequest], int]:
        """What is asked for, oldest first, and the board's sequence."""
        name = await self._board.board_of(board, agent)
        return await self._board.store.summary_requests(name)

    async def take(self, agent: str, board: str | None, thread: str, *, once_key: str | None = None) -> Taken:
        """The request on a thread, named by any of its items, for the agent alone from now on.

        Raises:
            UnknownReference: nobody asks for it.
            Conflict: somebody else has it, or the thread moved.
        """
        check_agent(agent)
        name = await self._board.board_of(board, agent)
        request, sources = await self._board.store.take_summary(
            name,
            agent,
            parse_ref(thread).number,
            seconds=HELD_SECONDS,
            once=once_of(once_key, "take summary", thread=thread),
        )
        return Taken(
            request,
            tuple(sources),
            tuple(shares(sources, SHOWN_CHARACTERS)),
            body_limit(sources, self._board.tokenizer),
            request.lease,
        )

    async def write(
        self,
        agent: str,
        board: str | None,
        thread: str,
        text: str,
        lease: int,
        *,
        once_key: str | None = None,
    ) -> tuple[Item, int]:
        """The summary, in the place of its sources; and the board's sequence.

        Raises:
            UnknownReference: nobody asks for it.
            Conflict: it is somebody else's by now, or the thread moved.
            Refused: the text fails its checks; all that is wrong is named.
        """
        check_text(text)
        name = await self._board.board_of(board, agent)
        store, writer = self._board.store, self._board.pruner.writer
        self._board.quotas.charge(agent, name)
        self._board.quotas.check_text(len(text))
        once = once_of(once_key, "write summary", thread=thread, text=text, lease=lease)
        if once is not None and (id_ := await store.recall(name, agent, once)) is not None:
            # The request ended when this was written.
            made = await store.read(name, agent, [parse_ref(id_)], [])
            return made.items[0], made.seq
        request, sources = await store.held_summary(name, agent, parse_ref(thread).number, lease)
        body = tidy(text)
        found = await writer.check(sources, body)
        if found:
            raise Refused(
                f"The summary of {request.name} {'; '.join(found)}"[:600]
                + ". Nothing was changed, and it is still yours: call summarize again with a better text.",
                faults=list(found),
            )
        written = writer.finished(
            (request.thread, tuple(request.seen)), sources, body, writer=AGENT, author=agent
        )
        id_ = await store.write_summary(name, written.new, lease, once=once)
        made = await store.read(name, agent, [parse_ref(id_)], [])
        return made.items[0], made.seq
