"""The archive index at a location that several machines share: a folder that all mount, or a bucket.

The store says which state of the index is in use, a table and a version of it, and who writes. Whoever searches reads
exactly that state. The writer makes the next version first, and then has the store take it for the former one; the
store refuses if somebody else became the writer meanwhile.

A new writer begins with a version that restores the state in use. LanceDB refuses what the former writer began before,
and what that had added is gone. So a writer that stalled and wakes up changes nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import astuple, replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

from blackboard_mcp.protocols.archive import NOTHING_WAITS, ArchiveAnswer, ArchiveQuery, Embedder, Waiting
from blackboard_mcp.protocols.clock import new_token
from blackboard_mcp.protocols.errors import ArchiveUnavailable
from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.storage.lance import rows, upkeep
from blackboard_mcp.storage.lance.counts import BoardCounts
from blackboard_mcp.storage.lance.folder import Caches, connect, make_table, with_caches
from blackboard_mcp.storage.lance.fusion import VECTOR_WEIGHT
from blackboard_mcp.storage.lance.images import Images
from blackboard_mcp.storage.lance.index import LanceArchiveIndex, T
from blackboard_mcp.storage.lance.workers import Workers, damaged

log = logging.getLogger(__name__)

_OPTIONS: Final = {
    "connect_timeout": "2s",
    "timeout": "30s",
    "client_max_retries": "1",
    "client_retry_timeout": "10s",
}
_SEARCH_SECONDS: Final = 20.0
"""The longest that a search takes."""
_LEFT_ALONE_SECONDS: Final = 15.0
"""For how long searches leave a location alone that could not be reached."""
_ROWS_AT_ONCE: Final = 5000
_ATTEMPTS: Final = 3
_EVER: Final = timedelta(days=36_500)
_AWAY: Final = re.compile(r'store: "S3"|Generic S3 error|os error')
_MISSING: Final = re.compile(r"not found|no such file|no longer exists|NoSuchKey", re.IGNORECASE)
_CODE: Final = re.compile(r"<Code>(\w{1,60})</Code>")
_WHY: Final = re.compile(
    r"(status: \d{3}|error sending request|timed ?out|refused|dns error|os error \d+"
    r"|received non-partial response when range requested)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class IndexState:
    """A state of the index, as the store keeps the one in use.

    Attributes:
        table: the name of the table; empty if there is none.
        version: the table's version; 0 until something was written.
        writer: who became the writer last.
        left: a table that is not in use: one that is being filled to replace this one, or a former one.
    """

    table: str = ""
    version: int = 0
    writer: str = ""
    left: str = ""

    @classmethod
    def of(cls, text: str) -> IndexState:
        return cls(*json.loads(text)) if text else cls()

    def text(self) -> str:
        return json.dumps(astuple(self))


class IndexStates(Protocol):
    """Where the state in use is kept for all machines, as a text; it is empty at first."""

    async def index_state(self) -> str:
        """Returns the state in use."""
        ...

    async def move_index_state(self, former: str, to: str) -> bool:
        """Notes `to` in place of `former`; returns false and changes nothing if another state is in use."""
        ...


class _OwnStates:
    """The states of a replacement, which only its writer knows."""

    def __init__(self, writer: str) -> None:
        self._text = IndexState(writer=writer).text()

    async def index_state(self) -> str:
        return self._text

    async def move_index_state(self, former: str, to: str) -> bool:
        self._text = to
        return True


class SharedTables:
    """The tables at a location: a folder, or `s3://bucket/prefix`. For worker threads only.

    The driver takes keys from the environment (`AWS_ACCESS_KEY_ID` and the like).
    """

    def __init__(self, location: str) -> None:
        self.location = location
        self._folder = None if "://" in location else Path(location)
        self._connected = cache(self._connect)

    def open(self, name: str, version: int) -> Any:
        """Returns a table in a version, where it stays.

        Raises:
            ArchiveUnavailable: another version of the product made it, or the folder is empty.
        """
        if self._folder is not None and self._folder.is_dir() and not any(self._folder.iterdir()):
            raise self.unreachable("the folder is empty; is it mounted?")
        table = with_caches(lambda caches: self._connected(caches).open_table(name, version=version))
        if rows.described(table.schema)[0] > rows.SCHEMA_VERSION:
            # Not rebuilt: the newer servers would rebuild it in turn.
            raise ArchiveUnavailable(
                f"A newer version of blackboard-mcp made the search index at {self.location}; upgrade this one.",
                reason="newer",
            )
        rows.check_layout(table.schema)
        return table

    def create(self, name: str, schema: Any) -> Any:
        """Returns a new table."""
        make_table(self._connected(), name, schema)
        return self._connected().open_table(name)

    def trouble(self) -> str:
        """Returns why the location cannot be used; empty if it can."""
        try:
            self._connected().list_tables()
        except ArchiveUnavailable as error:
            return error.message
        except Exception as error:
            return self.explained(error).message
        return ""

    def drop(self, name: str) -> None:
        """Deletes a table if it is there; one that cannot be deleted stays."""
        try:
            self._connected().drop_table(name, ignore_missing=True)
        except Exception as error:
            told = error if isinstance(error, ArchiveUnavailable) else self.explained(error)
            log.warning("the table %s of the search index stays: %s", name, told)

    def explained(self, error: Exception) -> ArchiveUnavailable:
        """Returns the error for one of the driver, without its text where that may hold an access key."""
        text = str(error)
        if upkeep.FENCED in text.lower():
            return _replaced()
        if "NoSuchBucket" in text or (_AWAY.search(text) and not _MISSING.search(text)):
            why = _CODE.search(text) or _WHY.search(text)
            return self.unreachable(why[1] if why else type(error).__name__)
        return damaged(error)

    def unreachable(self, why: str) -> ArchiveUnavailable:
        """Returns the error for a location that does not answer."""
        return ArchiveUnavailable(
            f"The search index at {self.location} cannot be reached: {why}.", reason="unreachable"
        )

    def _connect(self, *caches: Caches) -> Any:
        if self._folder is not None and not self._folder.is_dir():
            raise self.unreachable("there is no such folder")  # the driver would make it
        options = _OPTIONS if self._folder is None else None
        return connect(self.location, *caches, read_consistency_interval=None, storage_options=options)


_USED: ContextVar[tuple[str, Any] | None] = ContextVar("_USED")
"""The life and the table that the work of a worker thread is about."""


class SharedArchiveIndex(LanceArchiveIndex):
    """The archive index at a location. Who writes must `claim` it first."""

    def __init__(
        self,
        tables: SharedTables,
        states: IndexStates | None,
        embedder: Embedder | None,
        *,
        vector_weight: float = VECTOR_WEIGHT,
        replaces: SharedArchiveIndex | None = None,
    ) -> None:
        super().__init__(Path(), embedder, vector_weight=vector_weight)
        self._me = new_token()
        self._tables = tables
        self._states = states or _OwnStates(self._me)
        self._workers = Workers(self._rest, tables.explained)
        self._rows_at_once = _ROWS_AT_ONCE
        self._replaces = replaces
        self._is_draft = replaces is not None
        self._turn = asyncio.Lock()
        self._written: Any | None = None
        self._seen: tuple[str, int, Any] | None = None
        self._left_alone_until = 0.0

    async def claim(self) -> None:
        async with self._turn:
            state = await self._now()
            if state.writer != self._me:
                self._written = None
                await self._move(state, replace(state, writer=self._me))

    async def search(self, query: ArchiveQuery, waiting: Waiting = NOTHING_WAITS) -> ArchiveAnswer:
        if time.monotonic() < self._left_alone_until:
            raise self._tables.unreachable("it did not answer a moment ago")
        try:
            async with asyncio.timeout(_SEARCH_SECONDS):
                return await super().search(query, waiting)
        except TimeoutError:
            found = self._tables.unreachable(f"no answer within {_SEARCH_SECONDS:g} seconds")
        except ArchiveUnavailable as error:
            if error.facts.get("reason") != "unreachable":
                raise
            found = error
        self._left_alone_until = time.monotonic() + _LEFT_ALONE_SECONDS
        raise found

    async def life(self) -> str:
        state = await self._now()
        return state.table if state.version else ""

    def draft(self) -> SharedArchiveIndex:
        return SharedArchiveIndex(
            self._tables, None, self._embedder, vector_weight=self._vector_weight, replaces=self
        )

    async def publish(self) -> None:
        assert self._replaces is not None
        await self._write(lambda: self._compact())
        await self._replaces._replace(await self._now())

    async def reset(self) -> None:
        async with self._turn:
            state = await self._mine()
            await self._drop(state.left)
            await self._move(state, IndexState(writer=self._me, left=state.table))
            self._written = None
            await self._drop(state.table)

    async def maintain(self) -> None:
        try:
            if not self._is_draft:
                # Others read the present version until the store knows the new one. Only then old ones are deleted.
                await self._write(lambda: self._compact(_EVER))
            await self._write(lambda: upkeep.compact(self._table(create=False)))
        except ArchiveUnavailable as error:
            log.debug("archive index not compacted this time: %s", error)

    async def _read(self, work: Callable[[], T]) -> T:
        state = await self._now()
        for _ in range(_ATTEMPTS):
            try:
                return await self._workers.run(lambda state=state: _about(self._opened_at(state), work))  # type: ignore[misc]
            except ArchiveUnavailable:
                former, state = state, await self._now()
                if (state.table, state.version) == (former.table, former.version):
                    raise
        raise _replaced()

    async def _write(self, work: Callable[[], None], *, create: bool = False) -> None:
        async with self._turn:
            try:
                state = await self._mine()
                if self._written is None:
                    state = await self._restored(state)
                if self._written is None:
                    if not create:
                        return
                    state = await self._begun(state)
                table: Any = self._written
                await self._workers.run(lambda: _about((state.table, table), work))
                version = await self._workers.run(lambda: int(table.version))
                await self._move(state, replace(state, version=version))
            except BaseException as error:
                self._written = None
                if isinstance(error, ArchiveUnavailable):
                    await self._mine()  # rather tells that somebody else writes, as that may be why
                raise

    async def _restored(self, state: IndexState) -> IndexState:
        """Returns the state after a version that restores it, whose table is then `_written`; none if it is empty."""
        await self._drop(state.left)
        if not state.version:
            await self._drop(state.table)
            await self._move(state, fresh := IndexState(writer=self._me))
            return fresh

        def restored() -> Any:
            table = self._tables.open(state.table, state.version)
            table.restore()
            return table

        table = await self._workers.run(restored)
        version = await self._workers.run(lambda: int(table.version))
        # This also tells that nobody became the writer before the table was opened.
        await self._move(state, fresh := replace(state, version=version, left=""))
        self._written = table
        return fresh

    async def _begun(self, state: IndexState) -> IndexState:
        """Returns the state with a new table, which is then `_written`."""
        name = f"items-{new_token()}"
        if self._replaces is not None:
            await self._replaces._announce(name)
        await self._move(state, begun := replace(state, table=name))
        self._written = await self._workers.run(
            lambda: self._tables.create(name, rows.schema(self._name(), self._dimension()))
        )
        return begun

    async def _announce(self, name: str) -> None:
        """Notes the table that is to replace the present one: if this process dies, the next writer deletes it."""
        async with self._turn:
            state = await self._mine()
            await self._drop(state.left)
            await self._move(state, replace(state, left=name))

    async def _replace(self, by: IndexState) -> None:
        """Puts a replacement in the place of the state in use, and deletes the former table."""
        async with self._turn:
            state = await self._mine()
            if state.left != by.table and by.table:
                raise _replaced()
            await self._move(state, replace(by, writer=self._me, left=state.table))
            self._written = None
            await self._drop(state.table)

    async def _now(self) -> IndexState:
        return IndexState.of(await self._states.index_state())

    async def _mine(self) -> IndexState:
        """Returns the state in use.

        Raises:
            ArchiveUnavailable: somebody else became the writer.
        """
        if self._replaces is not None:
            await self._replaces._mine()
        state = await self._now()
        if state.writer != self._me:
            raise _replaced()
        return state

    async def _move(self, former: IndexState, to: IndexState) -> None:
        """Puts another state into use.

        Raises:
            ArchiveUnavailable: somebody else became the writer.
        """
        if not await self._states.move_index_state(
            "" if former == IndexState() else former.text(), to.text()
        ):
            raise _replaced()

    async def _drop(self, table: str) -> None:
        if table:
            await self._workers.run(lambda: self._tables.drop(table))

    # Everything below runs in a worker thread.

    def _living(self, *, create: bool) -> tuple[str, Any] | None:
        return _USED.get()

    def _snapshot(self) -> tuple[str, Any] | None:
        return self._living(create=False)  # the table of a state stays in its version

    def _opened_at(self, state: IndexState) -> tuple[str, Any] | None:
        """Returns the name and the table of a state; opens each state once."""
        if not state.version:
            return None
        with self._lock:
            if self._seen is None or self._seen[:2] != (state.table, state.version):
                table = self._tables.open(state.table, state.version)
                if self._seen is None or self._seen[0] != state.table:
                    self._counts, self._images = BoardCounts(), Images()
                self._seen = (state.table, state.version, table)
            return state.table, self._seen[2]

    def _compact(self, keep: timedelta | None = None) -> None:
        upkeep.maintain(self._table(create=False), keep)


def _about(used: tuple[str, Any] | None, work: Callable[[], T]) -> T:
    """Returns the result of `work` with the table that it is about."""
    _USED.set(used)
    return work()


def _replaced() -> ArchiveUnavailable:
    return ArchiveUnavailable("Somebody else writes to the archive index.", reason="replaced")
