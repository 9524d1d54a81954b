"""A connection to an MCP server that is made again when it is lost.

Knows the SDK's client and nothing of boards: it calls tools and reads resources.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final, TypeVar

from blackboard_mcp.protocols.errors import StoreClosed, Unreachable

from ..access.identity import how_to_reach

if TYPE_CHECKING:
    from mcp.client import Client

logger = logging.getLogger(__name__)

T = TypeVar("T")
Dial = Callable[[], "AbstractAsyncContextManager[Client]"]
Work = Callable[["Client"], Awaitable[T]]

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 2.0
_FAREWELL_SECONDS: Final = 1.0
_CLOSED: Final = -32000
_TIMED_OUT: Final = -32001
_ENDED: Final = ("Session terminated", "Server returned an error response")
_SOON: Final = ("starting", "stopping")
"""Codes of refusals by a server that will answer again soon."""


class _Lost(Exception):
    """Raised when the connection, or a call's answer, was lost."""


class _Link:
    """One connection, held open by its own task so that any task may use and end it."""

    def __init__(self, dial: Dial) -> None:
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._leave = asyncio.Event()
        self._calls: set[asyncio.Timeout] = set()
        self._cut = False
        self.lost = False
        self._task = asyncio.create_task(self._hold(dial), name="board-connection")

    async def _hold(self, dial: Dial) -> None:
        """Opens the connection, and keeps it until `close` is called or it is lost."""
        try:
            async with dial() as client:
                self._ready.set_result(client)
                await self._leave.wait()
                if self._cut:
                    # Messages are sent in order: once this call is answered, the server has seen the cancellation of
                    # calls, and does not look for their session after that has ended.
                    with contextlib.suppress(Exception):
                        async with asyncio.timeout(_FAREWELL_SECONDS):
                            await client.list_tools(cache_mode="bypass")
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if self._ready.done():
                logger.info("the connection was lost: %r", error)
            else:
                self._ready.set_exception(_told(error) or _Lost(_reason(error)))
        finally:
            self.lost = True
            if not self._ready.done():
                self._ready.set_exception(_Lost("the connection was closed"))
            self._ready.exception()  # marks it as retrieved, or asyncio would log it
            now = asyncio.get_running_loop().time()
            for call in self._calls:
                call.reschedule(now)

    async def run(self, work: Work[T]) -> T:
        """Awaits `work(client)` over this connection, and returns its result.

        Raises:
            _Lost: the connection was lost before there was an answer.
        """
        from mcp.shared.exceptions import MCPError

        client = await asyncio.shield(self._ready)
        if self.lost:
            raise _Lost("the connection was closed")
        try:
            async with asyncio.timeout(None) as call:
                self._calls.add(call)
                try:
                    return await work(client)
                except asyncio.CancelledError:
                    self._cut = True
                    raise
                finally:
                    self._calls.discard(call)
        except TimeoutError as error:
            raise _Lost("the connection was closed") from error
        except MCPError as error:
            if error.code in (_CLOSED, _TIMED_OUT) or error.message in _ENDED:
                raise _Lost(error.message) from error
            raise
        except (OSError, RuntimeError) as error:
            if self.lost or not isinstance(error, RuntimeError):
                raise _Lost(_reason(error)) from error
            raise
        except Exception as error:
            if type(error).__module__.startswith(("anyio", "httpx2")):
                raise _Lost(_reason(error)) from error
            raise

    async def close(self) -> None:
        """Ends the connection, and waits until it has ended."""
        self._leave.set()
        await asyncio.wait([self._task])


class ServerConnection:
    """Runs calls over a connection to the server; the next call replaces a lost one.

    `patience` is how many seconds a call keeps trying to reach the server.
    """

    def __init__(self, dial: Dial, *, patience: float) -> None:
        self._dial = dial
        self._patience = patience
        self._link: _Link | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._open = False

    async def open(self) -> list[str]:
        """Connects, fails at once if that is not possible, and returns the names of the server's tools.

        Raises:
            Unreachable: nobody answers there.
            MCPError: the server refused, with its reason.
        """

        async def ask(client: Client) -> list[str]:
            return [tool.name for tool in (await client.list_tools()).tools]

        self._open = True
        try:
            return await self._present().run(ask)
        except _Lost as lost:
            await self.close()
            raise Unreachable(
                f"No board server answers: {str(lost).rstrip('.')}{how_to_reach(str(lost))}."
            ) from lost
        except BaseException:
            await self.close()
            raise

    async def run(self, work: Work[T], *, again: bool) -> T:
        """Returns the result of `work(client)`; with `again`, work is repeated after a lost connection.

        Raises:
            Unreachable: no answer came within `patience`, or a call was lost that must not be repeated.
            StoreClosed: the connection was closed.
        """
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + self._patience, FIRST_PAUSE
        while True:
            link = self._present()
            try:
                return await link.run(work)
            except _Lost as lost:
                self._drop(link)
                if not self._open:
                    raise StoreClosed("The client is closed.") from lost
                if not again:
                    raise Unreachable(
                        f"The connection was lost before the answer came ({lost}); the call may have been carried out."
                    ) from lost
                if loop.time() + pause > deadline:
                    raise Unreachable(f"No answer within {self._patience:g} s: {lost}.") from lost
            await asyncio.sleep(pause * random.uniform(0.5, 1))
            pause = min(2 * pause, LONGEST_PAUSE)

    def _present(self) -> _Link:
        """Returns the present connection; a lost one is replaced.

        Raises:
            StoreClosed: the client is not open.
        """
        if not self._open:
            raise StoreClosed("The client is not open: use it within `async with`.")
        if self._link is None or self._link.lost:
            if self._link is not None:
                self._drop(self._link)
            self._link = _Link(self._dial)
        return self._link

    def _drop(self, link: _Link) -> None:
        """Ends a link in the background, so that the next one can be used at once."""
        if self._link is link:
            self._link = None
            closing = asyncio.create_task(link.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Ends all links and waits until they are gone; later calls raise `StoreClosed`."""
        self._open = False
        if self._link is not None:
            self._drop(self._link)
        while self._closing:
            await asyncio.wait(set(self._closing))


def _told(error: BaseException) -> BaseException | None:
    """Returns the server's own refusal among the causes of an error, or `None` if there is none."""
    from mcp.shared.exceptions import MCPError

    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    told = error.data if isinstance(error, MCPError) and isinstance(error.data, dict) else {}
    return error if "error" in told and told["error"] not in _SOON else None


def _reason(error: BaseException) -> str:
    """Returns the message of the first error in a group, or its type's name."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__
