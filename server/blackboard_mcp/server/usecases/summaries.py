"""Summaries written by agents: the open requests, who holds each, and the checks of what they write."""

from __future__ import annotations

import asyncio

from blackboard_mcp.protocols.debates import DebateState
from blackboard_mcp.protocols.errors import Refused, UnknownReference
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.items import Item, Ref, Zone, parse_ref
from blackboard_mcp.protocols.summaries import AGENT, SummaryRequest
from blackboard_mcp.protocols.tokens import Tokenizer
from blackboard_mcp.protocols.values import dataclass

from ..input.idempotency import once_of
from ..input.posts import check_agent, check_text
from ..limits.rates import size_of
from ..pruning.summaries.checks import body_limit, tidy, unfit
from ..pruning.summaries.prompt import shares
from .blackboard import Blackboard

HELD_SECONDS = 600.0
"""Seconds for which an agent holds a request that it took."""
SHOWN_CHARACTERS = 24_000
"""Most characters of sources shown to an agent that takes a request; whole texts are read by id."""


COVERED = 400
"""Most items that a summary on request covers."""


@dataclass(frozen=True, slots=True)
class OnRequest:
    """A summary for one reader: its body and the ids it covers. The body is `None` when there is too little
    for one.

    `debated` are the items left out because a debate about them is open.
    """

    body: str | None
    covered: tuple[str, ...]
    debated: tuple[str, ...]
    seq: int


@dataclass(frozen=True, slots=True)
class TakenRequest:
    """A request that an agent holds: its sources, the shown part of each, and the most tokens of the body."""

    request: SummaryRequest
    sources: tuple[Item, ...]
    shown: tuple[str, ...]
    limit_tokens: int
    seq: int


class SummaryRequests:
    """Use cases for agents that summarise finished threads."""

    def __init__(self, board: Blackboard) -> None:
        self._board = board

    async def open(self, agent: str, board: str | None) -> tuple[list[SummaryRequest], int]:
        """Returns the open requests, oldest first, and the board's sequence."""
        name = await self._board.board_of(board, agent)
        return await self._board.store.summary_requests(name)

    async def on_request(self, agent: str, board: str | None, of: str) -> OnRequest:
        """Returns a summary of a thread (`H-17`), a range (`F-10..D-40`) or the whole board (`board`),
        without storing it.

        It covers items that both the agent and everybody else may see, the newest 400 at most.

        Raises:
            InvalidInput: `of` is none of these.
            UnknownReference: there is no such item.
        """
        from ..pruning.summaries.extract import extract  # nothing needs it before a summary is asked for

        check_agent(agent)
        name = await self._board.board_of(board, agent)
        store, tokenizer = self._board.store, self._board.tokenizers.on(name)
        first, dots, last = of.partition("..")
        if dots:
            low, high = sorted((parse_ref(first).number, parse_ref(last).number))
            numbers = range(max(low, high - COVERED + 1), high + 1)
            found = await store.read(name, agent, [Ref(number) for number in numbers], [])
            listed, seq = list(found.items), found.seq
        else:
            thread = None if of == "board" else await self._thread(agent, name, of)
            listed, seq = await self._listed(agent, name, thread)
        listed.sort(key=lambda item: item.number)
        covered = [item for item in listed if unfit([item]) is None and not item.deleted]
        left = [item.id for item in listed if item.debate == DebateState.OPEN]
        endings = await store.thread_endings(name, (item.number for item in covered))
        body = None
        if len(covered) > 1:
            body = await asyncio.to_thread(extract, covered, tokenizer, endings)
        return OnRequest(body, tuple(i.id for i in covered), tuple(left), seq)

    async def _thread(self, agent: str, board: str, of: str) -> int:
        found = await self._board.store.read(board, agent, [parse_ref(of)], [])
        if not found.items:
            raise UnknownReference(
                f"There is no {of} on '{board}'. of takes an item of a thread (H-17), a range (F-10..D-40) or board."
            )
        return found.items[0].thread

    async def _listed(self, agent: str, board: str, thread: int | None) -> tuple[list[Item], int]:
        """Returns up to `COVERED` items of a thread in any zone, or of working memory, and the board's
        sequence.
        """
        zone = Zone.WORKING if thread is None else None
        listed: list[Item] = []
        cursor: int | None = None
        while True:
            query = ItemQuery(thread=thread, zone=zone, limit=100, cursor=cursor)
            page = await self._board.store.query(board, agent, query)
            listed += page.items
            cursor = page.cursor
            if cursor is None or len(listed) >= COVERED:
                return listed[:COVERED], page.seq

    async def take(
        self, agent: str, board: str | None, thread: str, *, once_key: str | None = None
    ) -> TakenRequest:
        """Takes the request on a thread for the agent alone. `thread` is the id of any of its items.

        Raises:
            UnknownReference: there is no such request.
            Conflict: another agent holds it, or the thread changed.
        """
        check_agent(agent)
        name = await self._board.board_of(board, agent)
        await self._board.check_named(agent, name, [thread])
        request, sources = await self._board.store.take_summary(
            name,
            agent,
            parse_ref(thread).number,
            seconds=HELD_SECONDS,
            once=once_of(once_key, "take summary", thread=thread),
        )
        return TakenRequest(
            request,
            tuple(sources),
            tuple(shares(sources, SHOWN_CHARACTERS)),
            body_limit(sources, self._board.tokenizers.on(name)),
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
        """Stores the summary in place of its sources, and returns it with the board's sequence.

        Raises:
            UnknownReference: there is no such request.
            Conflict: another agent holds it by now, or the thread changed.
            Refused: the text fails its checks; the error names all faults.
        """
        check_text(text)
        name = await self._board.board_of(board, agent)
        store, writer = self._board.store, self._board.pruner.writer
        self._board.quotas.charge(agent, name, size=size_of(text))
        self._board.quotas.check_text(len(text))
        await self._board.check_named(agent, name, [thread])
        once = once_of(once_key, "write summary", thread=thread, text=text, lease=lease)
        if once is not None and (id_ := await store.recall(name, agent, once)) is not None:
            # A repeated call: the request ended when the first call wrote the summary.
            made = await store.read(name, agent, [parse_ref(id_)], [])
            return made.items[0], made.seq
        request, sources = await store.held_summary(name, agent, parse_ref(thread).number, lease)
        body = tidy(text)

        async def write(tokenizer: Tokenizer) -> str:
            found = await writer.check(name, sources, body, tokenizer)
            if found:
                raise Refused(
                    f"The summary of {request.name} {'; '.join(found)}"[:600]
                    + ". Nothing was changed, and it is still yours: call summarize again with a better text.",
                    faults=list(found),
                )
            thread = (request.thread, tuple(request.seen))
            written = writer.finished(thread, sources, body, tokenizer, writer=AGENT, author=agent)
            return await store.write_summary(name, written.new, lease, once=once)

        made_id = await self._board.validation.counted(name, write)
        made = await store.read(name, agent, [parse_ref(made_id)], [])
        return made.items[0], made.seq
