"""Bounded calls of the operator's policies and validators: in a thread, with a time limit, one at a time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from ..background import heeded

logger = logging.getLogger(__name__)
T = TypeVar("T")

SECONDS = 2.0
"""The time limit of one call of a policy, where none is given."""
TURN_SECONDS = 4.0
"""Seconds that a call waits for its turn to ask a policy."""


class OutOfOrder(Exception):
    """Raised when a policy's order names an item that it was not given, or one item twice."""

    def __str__(self) -> str:
        return "named what it was not given, or something twice"


class PolicyFailed(Exception):
    """Raised when a policy gave no answer. The message says why and quotes nothing that the policy said."""


class Bounded:
    """Calls one policy in a thread, with a time limit and one call at a time; others wait for their turn.

    A call that hangs keeps its thread, and until it ends the policy is not asked again. A caller that is cancelled
    before its turn asks nothing; one cancelled later does not stop the policy, and its turn ends with the answer.
    """

    def __init__(self, name: str, seconds: float | None = None, *, patient: bool = False) -> None:
        """Names the policy in errors and logs. With `patient`, calls wait for their turn as long as it takes."""
        self._name = name
        self._patient = patient
        self._seconds = SECONDS if seconds is None else seconds
        self._turn = asyncio.Lock()
        self._asking: asyncio.Task[Any] | None = None
        self._thinking = False
        self._thread: threading.Thread | None = None

    async def ask(self, question: Callable[[], T]) -> T:
        """Runs `question` in a thread and returns its result.

        Raises:
            PolicyFailed: it raised, took longer than its seconds, had no turn in time, or an earlier call hangs.
        """
        try:
            async with asyncio.timeout(None if self._patient else TURN_SECONDS):
                await self._turn.acquire()
        except TimeoutError:
            raise PolicyFailed("is too slow for the calls that come") from None
        asking = self._asking = asyncio.create_task(self._run(question))
        asking.add_done_callback(self._ended)
        return await asyncio.shield(asking)

    def _ended(self, asking: asyncio.Task[Any]) -> None:
        self._turn.release()
        heeded(asking)

    async def _run(self, question: Callable[[], T]) -> T:
        if self._thinking:
            raise PolicyFailed("still thinks about an earlier call")
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[T] = loop.create_future()

        def settle(answer: T | None, error: BaseException | None) -> None:
            if answered.done():
                return
            if error is not None:
                answered.set_exception(PolicyFailed(_words(error)))
            else:
                answered.set_result(answer)  # type: ignore[arg-type]

        def think() -> None:
            answer, failed = None, None
            try:
                answer = question()
            except BaseException as error:
                failed = error
                logger.warning("policy '%s' failed", self._name, exc_info=True)
            self._thinking = False
            with contextlib.suppress(RuntimeError):  # the loop may be gone by then
                loop.call_soon_threadsafe(settle, answer, failed)

        # A daemon: a policy that hangs for ever must not keep the server from ending.
        self._thinking = True
        self._thread = threading.Thread(target=think, name=f"policy-{self._name}", daemon=True)
        self._thread.start()
        try:
            async with asyncio.timeout(self._seconds):
                return await answered
        except TimeoutError:
            logger.warning("policy '%s' took longer than %s s", self._name, self._seconds)
            raise PolicyFailed(f"took longer than {self._seconds:g} s") from None


def _words(error: BaseException) -> str:
    if isinstance(error, OutOfOrder):
        return str(error)
    return f"raised {type(error).__name__}"
