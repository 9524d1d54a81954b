"""The choice of who writes the summaries of a pass, and the fallback when a writer fails.

Extracts from the sources are always possible. Where the board wants an endpoint, it is asked first: all
threads of a pass share its time, and a thread whose answer is late, unreadable or fails the checks is
summarised without it. Nothing here runs inside a transaction.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from blackboard_mcp.protocols.answers import (
    NewSummary,
)
from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.errors import SummaryFailed
from blackboard_mcp.protocols.items import Item, Zone, content_hash
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.protocols.summaries import AGENT, AS_LAUNCHED, EXTRACTIVE, Summariser, SummaryTask
from blackboard_mcp.protocols.tokens import Tokenizer
from blackboard_mcp.protocols.values import dataclass

from ...text.tokens import Tokenizers

logger = logging.getLogger(__name__)

HIGHEST, LOWEST = 4, 3
"""Bounds of a summary's importance: below items that never leave, and not below what is worth writing."""

Thread = tuple[int, tuple[int, ...]]
"""The number of a thread, and the numbers of the items that a summary would replace."""


@dataclass(frozen=True, slots=True)
class WrittenSummary:
    """A summary that passed its checks, and the ids of the items that it replaces."""

    new: NewSummary
    sources: tuple[str, ...]


def _seen(sources: Sequence[Item]) -> dict[int, int]:
    """Returns the sequence at which each source was read, by item number. Archived sources are left out."""
    return {source.number: source.seq for source in sources if source.zone is Zone.WORKING}


class SummaryWriter:
    """Writes summaries by the board's summariser, or by the one that the server was launched with.

    `endpoint` is the configured endpoint, if any. `seconds` bounds how long a pass waits for it.
    """

    def __init__(
        self,
        store: BoardStore,
        tokenizers: Tokenizers,
        *,
        default: str = EXTRACTIVE,
        endpoint: Summariser | None = None,
        seconds: float = 0.0,
    ) -> None:
        self._store = store
        self._tokenizers = tokenizers
        self._default = default
        self._endpoint = endpoint
        self.seconds = seconds
        self._missed: set[str] = set()

    @property
    def configured(self) -> tuple[str, ...]:
        """Names of the summarisers that a board may choose."""
        named = () if self._endpoint is None else (self._endpoint.name,)
        return (EXTRACTIVE, AGENT, *named)

    def chosen(self, config: BoardConfig) -> str:
        """Returns the name of the summariser for a board; the extractive one where this server lacks the
        board's choice.
        """
        wanted = self._default if config.summariser == AS_LAUNCHED else config.summariser
        if wanted in self.configured:
            return wanted
        if wanted not in self._missed:
            self._missed.add(wanted)
            logger.warning("a board wants summaries by %s, which is not configured here", wanted)
        return EXTRACTIVE

    async def write(self, board: str, config: BoardConfig, threads: Sequence[Thread]) -> list[WrittenSummary]:
        """Returns summaries of those threads for which a good one can be written, in the order of the
        threads.
        """
        if not threads:
            return []
        if self._endpoint is None or self.chosen(config) != self._endpoint.name:
            return await self.extracts(board, threads)
        found = await self._ask_all(board, self._endpoint, threads)
        return [written for written in found if written is not None]

    async def extracts(self, board: str, threads: Sequence[Thread]) -> list[WrittenSummary]:
        """Returns extractive summaries of those threads for which a good one can be made."""
        found = [await self.extract(board, thread) for thread in threads]
        return [written for written in found if written is not None]

    async def counting(self, board: str) -> Tokenizer | None:
        """Returns the board's tokenizer, or `None` where this server lacks it and so writes nothing there."""
        found = await self._store.find_board(board)
        self._tokenizers.see(found)
        return self._tokenizers.find(self._tokenizers.name_on(board))

    async def extract(self, board: str, thread: Thread, refused: str = "") -> WrittenSummary | None:
        """Returns an extractive summary of a thread, or `None` when no good one can be made.

        `refused` is recorded as the reason why no better summary was available.
        """
        from .extract import extract  # nothing needs it before a thread is finished

        tokenizer, sources = await self.counting(board), await self._sources(board, thread)
        if not sources or tokenizer is None:
            return None
        endings = await self._store.thread_endings(board, (source.number for source in sources))
        body = await asyncio.to_thread(extract, sources, tokenizer, endings)
        if body is None:
            return None
        return self.finished(thread, sources, body, tokenizer, writer=EXTRACTIVE, refused=refused)

    # Asking agents

    async def ask(self, board: str, config: BoardConfig, threads: Sequence[Thread]) -> list[Thread]:
        """Asks the board's agents to summarise the threads, and returns the threads that they were asked for.

        Returns an empty list where agents are not the board's summariser.
        """
        if self.chosen(config) != AGENT:
            return []
        asked = []
        for thread in threads:
            sources = await self._sources(board, thread)
            seen = _seen(sources)
            wait = config.summary_wait_seconds
            if seen and await self._store.request_summary(board, thread[0], seen, wait_seconds=wait):
                asked.append((thread[0], tuple(seen)))
        return asked

    async def waiting(self, board: str, config: BoardConfig) -> list[Thread]:
        """Returns the threads that wait for an agent's summary.

        Where agents are no longer the board's summariser, closes the open requests and returns an empty list.
        """
        requests, _ = await self._store.summary_requests(board)
        if self.chosen(config) == AGENT:
            return [(request.thread, tuple(request.seen)) for request in requests]
        for request in requests:
            await self._store.close_summary(board, request.thread, "the board's summariser is another")
        return []

    async def meet_due(self) -> list[str]:
        """Writes summaries that no agent wrote in time, and closes requests that are out of date.

        Returns the ids of the boards that changed.
        """
        changed: dict[str, None] = {}
        for due in await self._store.summaries_due():
            if await self.counting(due.board) is None:
                continue
            changed[due.board] = None
            why = "the thread moved"
            if not due.moved:
                thread = (due.thread, due.members)
                written = await self.extract(due.board, thread, refused="no agent wrote it in time")
                if (
                    written is not None
                    and await self._store.apply_summary(due.board, written.new) is not None
                ):
                    continue
                why = "nobody wrote it, and it cannot be made of its sentences"
            await self._store.close_summary(due.board, due.thread, why)
        return list(changed)

    async def check(
        self, board: str, sources: Sequence[Item], body: str, tokenizer: Tokenizer
    ) -> tuple[str, ...]:
        """Returns the faults of a body that an agent or endpoint wrote; empty when there are none."""
        from .checks import faults

        endings = await self._store.thread_endings(board, (source.number for source in sources))
        return await asyncio.to_thread(faults, body, sources, tokenizer, endings)

    def finished(
        self,
        thread: Thread,
        sources: Sequence[Item],
        body: str,
        tokenizer: Tokenizer,
        *,
        writer: str,
        refused: str = "",
        author: str = "",
    ) -> WrittenSummary:
        """Returns a checked body as a summary that can be applied."""
        from .checks import VOID, complete

        text = complete(body, sources)
        worth = max((item.importance for item in sources if item.status not in VOID), default=LOWEST)
        new = NewSummary(
            thread=thread[0],
            seen=_seen(sources),
            text=text,
            tokens=tokenizer.count(text),
            counted_by=tokenizer.name,
            sha256=content_hash(text),
            importance=min(HIGHEST, max(LOWEST, worth)),
            writer=writer,
            refused=refused,
            author=author,
        )
        return WrittenSummary(new, tuple(item.id for item in sources if item.zone is Zone.WORKING))

    async def _sources(self, board: str, thread: Thread) -> list[Item]:
        """Returns the source items of a thread; an empty list when it may not be summarised after all."""
        from .checks import unfit

        sources = await self._store.thread_sources(board, thread[1])
        reason = unfit(sources)
        if reason is not None:
            logger.info("thread %d on %s is not summarised: %s", thread[0], board, reason)
            return []
        return sources

    async def _ask_all(
        self, board: str, endpoint: Summariser, threads: Sequence[Thread]
    ) -> list[WrittenSummary | None]:
        tasks = [asyncio.create_task(self._ask(board, endpoint, thread)) for thread in threads]
        try:
            await asyncio.wait(tasks, timeout=self.seconds)
        finally:
            late = [task for task in tasks if task.cancel()]
            await asyncio.gather(*late, return_exceptions=True)
        found: list[WrittenSummary | None] = []
        for thread, task in zip(threads, tasks, strict=True):
            answer: WrittenSummary | str = (
                f"the {endpoint.name} endpoint took over {self.seconds:g} s"
                if task.cancelled()
                else task.result()
            )
            if isinstance(answer, str):
                logger.warning("thread %d on %s is summarised without a model: %s", thread[0], board, answer)
                found.append(await self.extract(board, thread, refused=answer))
            else:
                found.append(answer)
        return found

    async def _ask(self, board: str, endpoint: Summariser, thread: Thread) -> WrittenSummary | str:
        """Returns the endpoint's summary, or the reason why there is none."""
        from .checks import body_limit, tidy

        tokenizer, sources = await self.counting(board), await self._sources(board, thread)
        if not sources or tokenizer is None:
            return "it may not be summarised"
        limit = body_limit(sources, tokenizer)
        if limit < 1:
            return "it is too short"
        endings = await self._store.thread_endings(board, (source.number for source in sources))
        task = SummaryTask(board, sources[0].thread_id, tuple(sources), limit, endings)
        try:
            body = tidy(await endpoint.write(task))
        except SummaryFailed as error:
            return error.message
        found = await self.check(board, sources, body, tokenizer)
        if found:
            return f"summary refused: {'; '.join(found)}"[:300]
        return self.finished(thread, sources, body, tokenizer, writer=endpoint.name)

    async def close(self) -> None:
        """Closes the endpoint's connections."""
        if self._endpoint is not None:
            await self._endpoint.close()
