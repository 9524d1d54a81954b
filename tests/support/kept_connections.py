"""Connections to PostgreSQL that outlive the stores of single tests, with all that the server prepared on them.

A new connection plans each statement anew, which takes far longer than what most tests do with it. A store that
is opened takes a connection that another one closed, and otherwise connects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import pytest
from blackboard_mcp.server.http.run import new_event_loop
from blackboard_mcp.storage.postgres.session import Session


@contextmanager
def keeping() -> Iterator[asyncio.Runner]:
    """Yields a runner, and keeps the connections of all stores that are opened and closed in its loop."""
    kept: dict[Any, list[tuple[Any, ...]]] = {}
    given_open, given_close = Session.open, Session.close

    async def opening(self: Session, *, standby: bool = False) -> None:
        if not self.is_open and (held := kept.get(_kind(self))):
            self._raw, self._prepared, self._together = held.pop()
            await self.locate()
        await given_open(self, standby=standby)

    async def closing(self: Session) -> None:
        raw = self._raw
        if raw is None or raw.is_closed() or raw.is_in_transaction():
            await given_close(self)
            return
        self._raw = None
        await raw.reset()
        kept.setdefault(_kind(self), []).append((raw, self._prepared, self._together))

    with asyncio.Runner(loop_factory=new_event_loop) as runner, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "open", opening)
        patch.setattr(Session, "close", closing)
        yield runner
        for raw, *_ in chain.from_iterable(kept.values()):
            runner.run(raw.close())


def _kind(session: Session) -> Any:
    """Returns what a connection must have in common with the session that takes it."""
    return session._address, session._name, frozenset(session._settings.items())
