"""Consumer groups: several programs share the events that match a filter, and each event goes to one at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from blackboard_mcp.protocols.errors import Conflict, InvalidInput, Unreachable
from blackboard_mcp.protocols.groups import LEASE_SECONDS, MAX_TAKEN, MAX_WHY
from blackboard_mcp.protocols.late_models import group_wire

from .calls import Calls, counted, listed, mapped
from .durable import POLL_SECONDS
from .following import Filter

if TYPE_CHECKING:
    from blackboard_mcp.protocols.group_wire import (
        WireDeadLetter,
        WireDelivery,
        WireGroup,
        WorkAnswer,
    )


class Worker:
    """One worker of a group: `async for job in worker`, each job under a lease.

    A job is acknowledged when the next one is requested, or when the `async with` block ends without an
    exception. If the block ends with an exception, the job has failed and is delivered again, until it has no
    attempts left and becomes a dead letter. If a worker dies, its jobs go to others when the lease ends. Only
    one task at a time may iterate.
    """

    def __init__(
        self, board: Calls, group: str, filter_: Filter | None, *, lease_seconds: float, limit: int
    ) -> None:
        self._board = board
        self._group = group
        self._filter = mapped(filter_)
        self._lease = lease_seconds
        self._limit = limit
        self._held: deque[WireDelivery] = deque()
        self._current: WireDelivery | None = None
        self._ack: list[str] = []
        self._fail: dict[str, str] = {}
        self._unsure: set[str] = set()
        """The handles of these jobs that a call without an answer reported, and perhaps settled."""
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
        """Marks the current job as failed, with the reason; it is delivered again."""
        self._settle_later(why)
        await self._turn(limit=0, seconds=0)

    def settled(self) -> None:
        """Tells the worker that a transaction acknowledged the current job (`Transaction.acknowledge`)."""
        self._current = None

    def put_back(self) -> None:
        """Puts the current job back: closing gives it to other workers, which counts as no attempt."""
        if self._current is not None:
            self._held.appendleft(self._current)
            self._current = None

    async def extend(self) -> None:
        """Restarts the lease of the current job, and of the jobs that wait behind it.

        Raises:
            Conflict: the lease had ended.
        """
        held = [job.handle for job in (self._current, *self._held) if job is not None]
        if held:
            given = {"op": "extend", "group": self._group, "ids": held, "lease_seconds": self._lease}
            await self._board._call("consume", given, group_wire.WorkAnswer)

    async def aclose(self) -> None:
        """Settles finished jobs and gives the others back, which counts as no attempt. A second call does nothing.

        Raises:
            Conflict: a lease had ended, and another worker may have its jobs.
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
                await self._board._call("consume", given, group_wire.WorkAnswer)

    def _done(self) -> None:
        """Marks the current job for acknowledgement in the next call."""
        if self._current is not None:
            self._ack.append(self._current.handle)
            self._current = None

    def _settle_later(self, why: str) -> None:
        """Marks the current job as failed in the next call, with the reason."""
        if self._current is None:
            raise InvalidInput("There is no job in hand. Nothing was changed.")
        self._fail[self._current.handle] = (why or "no reason given")[:MAX_WHY]
        self._current = None

    async def _turn(self, **more: Any) -> WorkAnswer:
        """Reports acknowledged and failed jobs and takes new ones, in one call.

        After an error other than `Conflict`, the next call reports them again. Where a call without an answer may have
        settled some of them, a conflict is about those, and the others are reported alone.
        """
        while True:
            given = {"group": self._group, "ack": self._ack or None, "fail": self._fail or None, **more}
            try:
                answer = await self._board._call("consume", given, group_wire.WorkAnswer)
            except Conflict:
                over = self._unsure or {*self._ack, *self._fail}
                self._ack = [handle for handle in self._ack if handle not in over]
                self._fail = {handle: why for handle, why in self._fail.items() if handle not in over}
                if not self._unsure:
                    raise
                self._unsure = set()
            except (asyncio.CancelledError, Unreachable):
                self._unsure = {*self._ack, *self._fail}
                raise
            else:
                self._ack, self._fail, self._unsure = [], {}, set()
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
        """Returns a worker of a group; enter it with `async with`.

        `filter` creates the group if it does not exist; a new group begins at the present end of the log.
        `lease_seconds` (1 to 3,600) is the time for which a job belongs to this worker; `limit` (1 to 50) is
        the number of jobs that it takes at a time.

        Raises:
            InvalidInput: a number is out of bounds.
        """
        most = counted(limit, "limit", 1, MAX_TAKEN)
        return Worker(self, group, filter, lease_seconds=lease_seconds, limit=most)

    async def groups(self) -> list[WireGroup]:
        """Returns the groups of the board, by name, with the numbers of events that wait or are in flight."""
        return (await self._call("consume", {}, group_wire.GroupsAnswer)).groups

    async def dead_letters(self, group: str, *, after: str | None = None) -> list[WireDeadLetter]:
        """Returns at most 50 dead letters, which have no attempts left, after the handle `after`."""
        given = {"group": group, "op": "dead", "ids": None if after is None else [after]}
        return (await self._call("consume", given, group_wire.DeadLettersAnswer)).dead

    async def retry_dead(self, group: str, handles: Sequence[str]) -> None:
        """Makes dead letters wait for delivery again."""
        await self._call(
            "consume", {"group": group, "op": "retry", "ids": listed(handles)}, group_wire.GroupDoneAnswer
        )

    async def drop_dead(self, group: str, handles: Sequence[str]) -> None:
        """Deletes dead letters."""
        await self._call(
            "consume", {"group": group, "op": "drop", "ids": listed(handles)}, group_wire.GroupDoneAnswer
        )

    async def end_group(self, group: str) -> None:
        """Ends a group that the agent created, with its deliveries and dead letters."""
        await self._call("consume", {"group": group, "op": "end"}, group_wire.GroupDoneAnswer)
