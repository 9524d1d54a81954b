"""Patience of long commands with a server that goes away and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import click
from blackboard_mcp.protocols.errors import Unreachable
from blackboard_mcp.protocols.visible import escape

_PAUSE: Final = 1.0
T = TypeVar("T")


def note(text: str) -> None:
    """Prints a line on standard error."""
    click.echo(f"blackboard-mcp: {escape(text)}", err=True)


class Patience:
    """Makes calls again while the server at `url` is away; says so, and when it answers again."""

    def __init__(self, url: str | None, seconds: float | None = None) -> None:
        """`seconds` is the longest that the server may be away; `None` is for ever."""
        self._url = url
        self._seconds = seconds
        self._away = False

    async def kept(self, call: Callable[[], Awaitable[T]], over: Callable[[], bool] = lambda: False) -> T:
        """Returns the result of `call`; `over` tells that the command is to end, and waits no longer.

        Raises:
            Unreachable: the server was away for too long.
        """
        loop = asyncio.get_running_loop()
        until = None if self._seconds is None else loop.time() + self._seconds
        while True:
            try:
                answer = await call()
            except Unreachable as error:
                if until is not None and loop.time() > until:
                    raise
                if not self._away:
                    self._away = True
                    most = "until it does" if self._seconds is None else f"for {self._seconds:g} s"
                    note(f"{self._url} does not answer ({error.message}); trying again {most}")
                if over():
                    raise
                await asyncio.sleep(_PAUSE)
            else:
                if self._away:
                    self._away = False
                    note(f"{self._url} answers again")
                return answer
