"""Consumer groups: several programs share the events that match a filter, and each event goes to one at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from blackboard_mcp.protocols.errors import Conflict, InvalidInput
from blackboard_mcp.protocols.group_wire import (
    DeadLettersAnswer,
    GroupDoneAnswer,
    GroupsAnswer,
    WireDeadLetter,
    WireDelivery,
    WireGroup,
    WorkAnswer,
)
from blackboard_mcp.protocols.groups import LEASE_SECONDS, MAX_TAKEN, MAX_WHY

from .calls import Calls
from .durable import POLL_SECONDS
from .following import Filter


class Worker:
    """One worker of a group: `async for job in worker`, each job under a lease.

    A job is acknowledged when the next is asked for, or when the `async with` block ends without an exception;
    with one it is failed, and handed out again, until it is a dead letter. A worker that dies loses its jobs
    when the lease ends. One task at a time may iterate.
    """

    def __init__(
        self, board: Calls, group: str, filter_: Filter | None, *, lease_seconds: float, limit: int
    ) -> None:
        self._board = board
        self._group = group
        self._filter = None if filter_ is None else dict(filter_)
        self._lease = lease_seconds
        self._limit = limit
        self._held: deque[WireDelivery] = deque()
        self._current: WireDelivery | None = None
        self._ack: list[str] = []
        self._fail: dict[str, str] = {}
        self._ended = False

    async def __aenter__(self) -> Self:
        if self._filter is not None:
            await self._turn(filter=self._filter, limit=0, seconds=0)
            self._filter = None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._current is not None and kind is not None:
            self._settle_later(f"{kind.__name__}: {error}")
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WireDelivery:
        """Returns the next job when there is one; acknowledges the last one.

        Raises:
            Conflict: the last job's lease had ended, and another worker may have the job; iterating can go on.
        """
        self._done()
        while not self._held:
            if self._ended:
                raise StopAsyncIteration
            answer = await self._turn(
                filter=self._filter, limit=self._limit, seconds=POLL_SECONDS, lease_seconds=self._lease
            )
            self._filter = None
            self._held.extend(answer.deliveries)
        self._current = self._held.popleft()
        return self._current

    async def fail(self, why: str) -> None:
        """The job in hand could not be done: it is handed out again, with the reason."""
        self._settle_later(why)
        await self._turn(limit=0, seconds=0)

    def settled(self) -> None:
        """The job in hand was acknowledged by a transaction (`Transaction.acknowledge`): that is all there is to do."""
        self._current = None

    async def extend(self) -> None:
        """Begins the lease of the job in hand, and of those that wait behind it, anew.

        Raises:
            Conflict: the lease had ended.
        """
        held = [job.handle for job in (self._current, *self._held) if job is not None]
        if held:
            given = {"op": "extend", "group": self._group, "ids": held, "lease_seconds": self._lease}
            await self._board._call("consume", given, WorkAnswer)

    async def aclose(self) -> None:
        """Settles what is done, and gives the rest back, which counts as no attempt. Twice is safe.

        Raises:
            Conflict: a lease had ended, and what was held under it may have gone to another worker.
        """
        self._done()
        self._ended = True
        try:
            if self._ack or self._fail:
                await self._turn(limit=0, seconds=0)
        finally:
            if self._held:
                held = [job.handle for job in self._held]
                self._held.clear()
                given = {"op": "release", "group": self._group, "ids": held}
                await self._board._call("consume", given, WorkAnswer)

    def _done(self) -> None:
        if self._current is not None:
            self._ack.append(self._current.handle)
            self._current = None

    def _settle_later(self, why: str) -> None:
        if self._current is None:
            raise InvalidInput("There is no job in hand. Nothing was changed.")
        self._fail[self._current.handle] = (why or "no reason given")[:MAX_WHY]
        self._current = None

    async def _turn(self, **more: Any) -> WorkAnswer:
        """Reports acknowledged and failed jobs and takes new ones, in one call.

        After an error other than `Conflict`, the next call reports them again.
        """
        given = {"group": self._group, "ack": self._ack or None, "fail": self._fail or None, **more}
        try:
            answer = await self._board._call("consume", given, WorkAnswer)
        except Conflict:
            self._ack, self._fail = [], {}
            raise
        self._ack, self._fail = [], {}
        return answer


class Groups(Calls):
    """Calls to share work among programs. A server needs `--tools core,messages` for them."""

    def worker(
        self,
        group: str,
        filter: Filter | None = None,
        *,
        lease_seconds: float = LEASE_SECONDS,
        limit: int = 1,
    ) -> Worker:
        """A worker of a group, to enter with `async with`; `filter` makes the group where it is not there.

        A new group begins at the present end of the log. `lease_seconds` (1 to 3,600) is how long a job is
        this worker's; `limit` (1 to 50) how many it takes at a time.

        Raises:
            InvalidInput: a number out of its bounds.
        """
        if not 1 <= limit <= MAX_TAKEN:
            raise InvalidInput(f"A worker takes 1 to {MAX_TAKEN} jobs at a time, not {limit}.")
        return Worker(self, group, filter, lease_seconds=lease_seconds, limit=limit)

    async def groups(self) -> list[WireGroup]:
        """The groups of the board, with what is before each, by name."""
        return (await self._call("consume", {}, GroupsAnswer)).groups

    async def dead_letters(self, group: str, *, after: str | None = None) -> list[WireDeadLetter]:
        """What was handed out as often as the group allows, at most 50, after the handle `after`."""
        given = {"group": group, "op": "dead", "ids": None if after is None else [after]}
        return (await self._call("consume", given, DeadLettersAnswer)).dead

    async def retry_dead(self, group: str, handles: Sequence[str]) -> None:
        """Dead letters are handed out again."""
        await self._call("consume", {"group": group, "op": "retry", "ids": list(handles)}, GroupDoneAnswer)

    async def drop_dead(self, group: str, handles: Sequence[str]) -> None:
        """Dead letters are done with."""
        await self._call("consume", {"group": group, "op": "drop", "ids": list(handles)}, GroupDoneAnswer)

    async def end_group(self, group: str) -> None:
        """Ends a group that the agent made; what is in flight or dead is forgotten."""
        await self._call("consume", {"group": group, "op": "end"}, GroupDoneAnswer)
