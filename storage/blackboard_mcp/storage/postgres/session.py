"""One connection to PostgreSQL: it opens again after a loss, prepares each statement once, and translates errors.

A statement that changes rows and returns none waits until rows are asked for, so that several go in one round trip.
What often comes together becomes a function of the connection's own, which runs it from plans that the server keeps.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import asyncpg
from blackboard_mcp.protocols.errors import StoreBusy, StoreError, StoreFull
from blackboard_mcp.storage.operation import Many, Operation, Rows, T
from blackboard_mcp.storage.postgres.address import Address
from blackboard_mcp.storage.postgres.dialect import Dialect

from .course import Astray, Course
from .together import END, Asked, Call, Kind, Together, key_of, lists_of, parts, reads, waits

logger = logging.getLogger(__name__)

ASKED_SECONDS: Final = 60.0
"""The most seconds that one statement may take."""
LONG: Final = 3_600.0
"""The most seconds of a statement that works on whole tables."""
_CONNECTING: Final = 10.0
_PREPARED: Final = 1_000
_WAITING: Final = 64
"""The most statements that wait for the next one."""
_KNOWN: Final = 2_000
"""The most statements of which something is remembered."""
_SURE: Final = 2
"""A statement that had no rows so many times in a row is guessed to have none."""
_NOT_NOW: Final = frozenset({"57P01", "57P02", "57P03", "25006", "25P03", "53300"})
"""States of a server that stops, starts, is a standby, has no room for a connection, or ended one that stalled."""
LATER: Final = frozenset({"55P03", "40001", "40P01", "57014"})
"""States of what may work when tried again: locks and cancelled statements."""
_FULL: Final = frozenset({"53100", "53200"})


_PLANNING: Final = {
    **{"plan_cache_mode": "force_generic_plan", "jit": "off"},
    **{"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off"},
}
"""Planning a statement takes longer than running it, and the values change no plan here. Statements are written for
indexes and loops, as SQLite runs them; a plan from when a table was small would go through all of it for long."""
_WATCHED: Final = {
    **{"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3"},
    "tcp_user_timeout": "15000",
}
"""The database looks whether a silent client is still there: it never hears that a machine lost its power."""
_ESCAPE: Final = "\x1a"
_CONVERTED: Final = frozenset({bool, Decimal})
HERE: Final = """
CASE WHEN pg_is_in_recovery() THEN '' ELSE concat_ws('/', (SELECT system_identifier FROM pg_control_system()),
          substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8),
          (SELECT oid FROM pg_database WHERE datname = current_database()),
          to_regclass('installation')::oid) END,
concat_ws('/', pg_postmaster_start_time(), (SELECT stats_reset FROM pg_stat_bgwriter))
"""
"""A session's `place` and `started`, as columns of a statement in a transaction.

A server that recovers from the crash of one of its processes is not started anew, but begins its counts anew.
"""
_FAILURES: Final = (
    *(OSError, TimeoutError, asyncpg.PostgresError),
    *(asyncpg.InterfaceError, asyncpg.InternalClientError),
)
"""The errors of a connection that is being ended."""
_LOCATE: Final = "SELECT " + HERE.replace("'installation'", "$1::text || '.installation'")


class Lost(Exception):
    """The connection broke, or the server cannot serve now; the transaction that was open is gone."""


class Answer:
    """The outcome of statements that went together.

    Attributes:
        rows: those of the last one that ran.
        changed: whether any changed rows.
        wrong: the place of the one that was guessed to have no rows, and had some.
    """

    __slots__ = ("changed", "rows", "wrong")

    def __init__(self) -> None:
        self.rows: Rows = []
        self.changed = False
        self.wrong: int | None = None


class Session:
    """A connection that belongs to one task at a time. Create it with an address, and `open` it."""

    def __init__(self, address: Address, name: str, settings: dict[str, str] | None = None) -> None:
        self._address = address
        self._name = name
        self._settings = _PLANNING | (settings or {})
        self._raw: asyncpg.Connection | None = None
        self._prepared: OrderedDict[str, Any] = OrderedDict()
        self._together = Together()
        self._without: dict[str, int] = {}
        """A map from each reading statement to the number of times in a row that it had no rows."""
        self._lasts: set[str] = set()
        """Statements that an operation ended with."""
        self._ahead: Course | None = None
        """The operation whose first statement was asked with the last of the one before."""
        self.wrote = False
        """Whether a statement changed rows or failed since this was last set to false."""
        self.ventured = False
        """Whether what failed since this was last set to false may be the fault of a guess or of another operation."""
        self.dialect: Dialect | None = None
        """How statements are translated; an engine sets it when it knows the schema."""
        self.seconds: float | None = None
        """The most seconds that one statement may take, if it is not `ASKED_SECONDS`."""
        self.place = ""
        """What tells these data from a copy of them: the cluster, its timeline, the database and its tables."""
        self.started = ""
        """When the server was started, and when it last recovered from a crash."""

    @property
    def is_open(self) -> bool:
        return self._raw is not None and not self._raw.is_closed()

    async def open(self, *, standby: bool = False) -> None:
        """Connects if there is no connection; to a standby only on request.

        Raises:
            Lost: the server cannot be reached or does not serve now.
            StoreError: it refuses us.
        """
        if self.is_open:
            return
        self._forget()
        path = f"{self._address.schema}, pg_catalog"
        settings = {} if self._address.pooled else {"search_path": path, **_WATCHED, **self._settings}
        try:
            self._raw = await asyncpg.connect(
                self._address.dsn,
                timeout=_CONNECTING,
                command_timeout=ASKED_SECONDS if self.seconds is None else self.seconds,
                statement_cache_size=0
                if self._address.pooled
                else 1,  # with 0 no statement would have a name
                server_settings={**settings, "application_name": self._name},
            )
            await self.locate()
            if not self.place and not standby:
                raise Lost("the server is a standby, which takes no writes")
        except BaseException as error:
            self.drop()  # an open connection counts as one that was located, and that listens
            if isinstance(error, asyncpg.InvalidAuthorizationSpecificationError):
                raise StoreError(
                    f"{self._address.shown} refuses the user: {error.args[0]}. Nothing was changed."
                ) from error
            if isinstance(error, TimeoutError) or is_lost(error):
                raise Lost(f"{type(error).__name__}: {error}") from error
            if (told := translated(error, f"connect to {self._address.shown}")) is not error:
                raise told from error
            raise

    async def locate(self) -> None:
        """Sets `place` and `started`; to be called again when the schema was made."""
        self.place, self.started = await self._connection().fetchrow(_LOCATE, self._address.schema)

    def begin(self, how: str = "") -> str:
        """Returns the words that begin a transaction."""
        words = f"BEGIN {how}".rstrip()
        if not self._address.pooled:
            return words
        local = {"search_path": f"{self._address.schema}, pg_catalog", **self._settings}
        return "; ".join(
            [words, *(f"SET LOCAL {name} = {_quoted(name, value)}" for name, value in local.items())]
        )

    async def execute(self, script: str) -> None:
        """Runs statements without values."""
        with self._telling():
            await self._connection().execute(script, timeout=self.seconds)

    async def fetch(self, statement: str, values: Sequence[Any] = ()) -> tuple[Rows, bool]:
        """Runs a statement of PostgreSQL's; returns its rows, and whether it changed any."""
        rows, did = await self._fetch(statement, values)
        return [_told(tuple(row)) for row in rows], did

    async def _fetch(self, statement: str, values: Sequence[Any]) -> tuple[list[Any], bool]:
        """Does the same, but returns the rows as PostgreSQL's driver made them."""
        with self._telling():
            try:
                prepared = await self._prepare(statement)
                rows = await prepared.fetch(*map(_stored, values), timeout=self.seconds)
            except asyncpg.PostgresError as error:
                self.wrote = True
                logger.debug("%s: %s", error, statement)
                raise
            done = prepared.get_statusmsg()
        did = done[:6] in _CHANGING and not done.endswith(" 0")
        self.wrote |= did
        return rows, did

    async def _prepare(self, statement: str) -> Any:
        """Returns the statement as the server prepared it."""
        prepared = self._prepared.get(statement)
        if prepared is None:
            prepared = await self._connection().prepare(statement)
            if not self._address.pooled:
                self._prepared[statement] = prepared
                if len(self._prepared) > _PREPARED:
                    self._prepared.popitem(last=False)
        return prepared

    async def run(
        self,
        operation: Operation[T],
        changed: Callable[[], None] | None = None,
        following: Callable[[], Operation[Any] | None] | None = None,
    ) -> T:
        """Runs an operation to its end in the transaction that is open; calls `changed` when it changed rows.

        With `following`, which returns the operation that will run next in this transaction if there is one, statements
        that had no rows before are guessed to have none, and the next operation's first one goes with the last. A
        guess that was wrong is noticed before anything after it has run; the operation begins again up to there.
        """
        guesses = following is not None and self._together.enabled
        course = self._taken_up(operation)
        course.again = guesses
        pending: list[Asked] = []
        before = ""
        while True:
            ended = course.go()
            many = ended is None and type(course.values) is Many
            if many and not pending:
                course.rows = await self._run_each(course, changed)
                continue
            if ended is None and not many:
                self._lasts.discard(before)
                asked = self._asked(course, guesses=guesses)
                pending.append(asked)
                if asked.kind is not Kind.ASKED and len(pending) < _WAITING:
                    course.rows = []
                    continue
            begun = course.length - len(pending) - many
            if isinstance(ended, Exception) and not isinstance(ended, StopIteration):
                while pending and pending[-1].kind is Kind.WAITS:
                    pending.pop()  # what failed is undone in any case
            rows: Rows = []
            if pending:
                last = isinstance(ended, StopIteration) or course.text in self._lasts
                answer = await self._ask(pending, following if last and guesses else None)
                if answer.changed and changed is not None:
                    changed()
                pending.clear()
                if answer.wrong is not None:
                    try:
                        course.back(begun + answer.wrong, answer.rows)
                    except Astray:
                        self.ventured = True
                        raise
                    continue
                rows = answer.rows
                if many:
                    course.rows = await self._run_each(course, changed)
                    continue
            elif isinstance(ended, StopIteration):
                if len(self._lasts) > _KNOWN:
                    self._lasts.clear()
                self._lasts.add(course.text)
            if ended is not None:
                if isinstance(ended, StopIteration):
                    result: T = ended.value
                    return result
                raise ended
            course.rows, before = rows, course.text
            course.forget()

    async def _run_each(self, course: Course, changed: Callable[[], None] | None) -> list[Any]:
        """Runs the statement that an operation asks now for many values; returns the rows of each, none for changes."""
        assert self.dialect is not None
        many = course.values
        statement, values = self.dialect.for_each(course.text, many)
        rows, did = await self._fetch(statement, values)
        course.forget()
        if did and changed is not None:
            changed()
        found: list[Rows] = [[] for _ in many] if reads(statement) else []
        for place, row in rows:
            found[place - 1].append(_told(tuple(row)))
        return found

    def _asked(self, course: Course, *, guesses: bool) -> Asked:
        """Returns the statement that an operation asks now."""
        assert self.dialect is not None
        statement, values = self.dialect.statement(course.text, course.values)
        if waits(statement):
            return Asked(statement, values, Kind.WAITS)
        guessed = guesses and course.again and self._without.get(statement, 0) >= _SURE
        return Asked(statement, values, Kind.GUESSED if guessed else Kind.ASKED)

    def _taken_up(self, operation: Operation[Any]) -> Course:
        """Returns the course of an operation, which may have begun with the end of the one before."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead.operation is operation:
            return ahead
        return Course(operation)

    def _begin_next(
        self, following: Callable[[], Operation[Any] | None] | None
    ) -> tuple[Course, Asked] | None:
        """Begins the next operation if it asks something first."""
        operation = following() if following is not None else None
        if operation is None:
            return None
        course = Course(operation)
        if course.go() is not None or type(course.values) is Many:
            return None
        asked = self._asked(course, guesses=False)
        return (course, asked) if reads(asked.statement) else None

    async def _ask(
        self, statements: Sequence[Asked], following: Callable[[], Operation[Any] | None] | None = None
    ) -> Answer:
        """Runs statements in order, and the first one of the next operation if it can go with the last of them."""
        if self._ahead is not None and not all(reads(asked.statement) for asked in statements):
            self._ahead = None  # what it was told may have changed
        answer = Answer()
        *former, last = parts(statements)
        place = 0
        for part in (*former, last):
            ahead = self._begin_next(following) if part is last else None
            call = None
            if ahead is not None and (call := self._together.call(key_of([*part, ahead[1]]))) is None:
                ahead = None
            if call is None and len(part) > 1:
                call = self._together.call(key_of(part))
            wrong = await self._ask_part(part, call, ahead, answer)
            if wrong is not None:
                answer.wrong = place + wrong
                return answer
            place += len(part)
        return answer

    async def _ask_part(
        self, part: Sequence[Asked], call: Call | None, ahead: tuple[Course, Asked] | None, answer: Answer
    ) -> int | None:
        """Runs statements that can go together; returns the place of one that was guessed wrong."""
        told: dict[int, Rows] = {}
        try:
            if call is not None:
                together = part if ahead is None else [*part, ahead[1]]
                for place, line in (await self.fetch(call.statement, lists_of(call, together)))[0]:
                    told.setdefault(place, []).append(_told(tuple(line)))
                if told[END][0][0]:
                    self.wrote = answer.changed = True
            else:
                for place, asked in enumerate(part):
                    told[place], did = await self.fetch(asked.statement, asked.values)
                    answer.changed |= did
                    if asked.kind is Kind.GUESSED and told[place]:
                        break
        except BaseException:
            self.ventured |= ahead is not None or any(asked.kind is Kind.GUESSED for asked in part)
            raise
        for place, asked in enumerate(part):
            rows = told.get(place, [])
            if reads(asked.statement):
                if len(self._without) > _KNOWN:
                    self._without.clear()
                self._without[asked.statement] = 0 if rows else self._without.get(asked.statement, 0) + 1
            answer.rows = rows
            if rows and asked.kind is Kind.GUESSED:
                return place
        if ahead is not None:
            self._ahead = ahead[0]
            self._ahead.rows = told.get(len(part), [])
        return None

    async def ask(self, statement: str, following: Callable[[], Operation[Any] | None] | None = None) -> Rows:
        """Runs a statement of PostgreSQL's; the first one of the operation that runs next may go with it."""
        return (await self._ask([Asked(statement, (), Kind.ASKED)], following)).rows

    async def prepare_together(self) -> None:
        """Makes functions for statements that often came together; to be called while no transaction is open."""
        with self._telling():
            for key in self._together.wanted():
                script, call = self._together.made(key)
                try:
                    await self._connection().execute(script)
                    await self._prepare(call)
                except asyncpg.PostgresError as error:
                    # A user may be forbidden to make anything temporary; all works without.
                    logger.debug("no function for statements that come together: %s", error)
                    self._together = Together(enabled=False)
                    return

    async def load(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Adds many rows to a table."""
        with self._telling():
            records = [tuple(map(_stored, row)) for row in rows]
            await self._connection().copy_records_to_table(
                table, columns=columns, records=records, timeout=self.seconds
            )

    async def roll_back(self) -> None:
        """Rolls back; a connection on which that fails is dropped."""
        try:
            if self.is_open:
                await self.execute("ROLLBACK")
        except (
            *(Lost, StoreError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError),
            asyncio.CancelledError,
        ):
            self.drop()

    async def listen(self, channel: str, heard: Callable[[str], object]) -> None:
        """Calls `heard` with each notification on the channel from now on that this connection did not send."""

        # Asked now: what was received before the connection closed is told after it.
        own = self._connection().get_server_pid()

        def tell(connection: asyncpg.Connection, sender: int, channel: str, words: str) -> None:
            if sender != own:
                heard(words)

        with self._telling():
            await self._connection().add_listener(channel, tell)

    def drop(self) -> None:
        """Ends the connection at once."""
        raw, self._raw = self._raw, None
        self._forget()
        if raw is not None and not raw.is_closed():
            raw.terminate()

    def _forget(self) -> None:
        """Forgets what the server kept for a connection that is gone."""
        self._prepared.clear()
        self._together = Together(enabled=not self._address.pooled)

    async def close(self) -> None:
        """Ends the connection."""
        raw, self._raw = self._raw, None
        if raw is not None and not raw.is_closed():
            with contextlib.suppress(*_FAILURES):
                await raw.close(timeout=5.0)

    def _connection(self) -> asyncpg.Connection:
        if self._raw is None:
            raise Lost("there is no connection")
        return self._raw

    def _telling(self) -> _Telling:
        return _Telling(self)


class _Telling:
    """Turns errors of the driver into `Lost`, and keeps the others.

    A connection that broke is dropped, and one on which nobody answered in time: what it does is not known.
    """

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is not None and is_lost(error):
            self._session.drop()
            raise Lost(f"{type(error).__name__}: {error}") from error
        if isinstance(error, asyncio.CancelledError | TimeoutError):
            self._session.drop()


_CHANGING: Final = frozenset({"INSERT", "UPDATE", "DELETE"})


def is_lost(error: BaseException) -> bool:
    """Tells whether an error means that the connection or the server is gone."""
    # The driver's protocol fails on a connection whose end the server has announced and not made yet.
    if isinstance(error, asyncpg.PostgresConnectionError | asyncpg.InternalClientError):
        return True
    if isinstance(error, asyncpg.PostgresError):
        return error.sqlstate in _NOT_NOW
    if isinstance(error, asyncpg.InterfaceError):
        return "closed" in str(error) or "released" in str(error)
    return isinstance(error, OSError) and not isinstance(error, TimeoutError)


def translated(error: BaseException, doing: str) -> BaseException:
    """Returns the product's error for one of the driver's, and any other error as it is."""
    could_not = f"The store could not {doing}"
    if isinstance(error, TimeoutError):
        return StoreBusy(f"{could_not} in time. Nothing was changed; try again.")
    if isinstance(error, asyncpg.PostgresError):
        if error.sqlstate in LATER:
            return StoreBusy(f"{could_not}: others held it too long. Nothing was changed; try again.")
        if error.sqlstate in _FULL:
            return StoreFull(
                f"{could_not}: storage full, there is no room on the database's disk. Nothing was changed; "
                "somebody has to free space there, then try again."
            )
    if isinstance(error, asyncpg.PostgresError | asyncpg.InterfaceError):
        reference = secrets.token_hex(3)
        logger.error("reference %s: %s: %s: %s", reference, could_not, type(error).__name__, error)
        return StoreError(
            f"{could_not}: it failed inside (reference {reference}). Nothing was changed. Tell who runs the server: "
            "its log has more under that reference."
        )
    return error


def unreachable(deadline: float) -> StoreBusy:
    """Returns the error for a server that did not answer in time."""
    return StoreBusy(
        f"The database did not answer within {deadline:g} seconds. Nothing was changed; try again, and if it stays "
        "so, tell who runs the server."
    )


def _stored(value: Any) -> Any:
    """Returns a value as PostgreSQL can store it: its texts cannot hold the character 0, so that is written as two."""
    if type(value) is list:
        return [_stored(one) for one in value]
    if type(value) is str and ("\x00" in value or _ESCAPE in value):
        return value.replace(_ESCAPE, _ESCAPE + "1").replace("\x00", _ESCAPE + "0")
    return value


def _told(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns a row as SQLite would: conditions and sums as numbers, texts as they were given."""
    for value in row:
        kind = type(value)
        if (kind is str and _ESCAPE in value) or kind in _CONVERTED:
            return tuple(map(_given, row))
    return row


def _given(value: Any) -> Any:
    if type(value) is str and _ESCAPE in value:
        # A statement that cuts texts may leave half of a pair at the end.
        whole = value.removesuffix(_ESCAPE)
        return whole.replace(_ESCAPE + "0", "\x00").replace(_ESCAPE + "1", _ESCAPE)
    if type(value) is bool:
        return int(value)
    if type(value) is Decimal:
        return int(value) if value == value.to_integral_value() else float(value)
    return value


def _quoted(name: str, value: str) -> str:
    return value if name == "search_path" else "'" + value.replace("'", "''") + "'"
