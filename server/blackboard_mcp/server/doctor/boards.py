"""Checks of the boards' file, its schema and log, and of the archive's index beside it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from blackboard_mcp.protocols.clock import Clock
from blackboard_mcp.protocols.errors import ArchiveUnavailable, BlackboardError, StoreDamaged, StoreError
from blackboard_mcp.protocols.retention import Retention
from blackboard_mcp.storage.archive import EmbedderChoice, archive_index
from blackboard_mcp.storage.history.transfer import frozen, verify_frozen
from blackboard_mcp.storage.sqlite import examining
from blackboard_mcp.storage.sqlite.opening import APPLICATION_ID, migrations
from blackboard_mcp.storage.store import SqlBoardStore

from ..settings.server import Settings
from . import exposure
from .findings import Finding, problem, warning

Shown = Callable[[str, int], contextlib.AbstractContextManager[Callable[[int], object]]]
"""Shows how far long work is: given its name and its size, yields a function to call with the size of each step."""
LEASE_MOST = timedelta(hours=1)
"""The longest lease that a process takes."""
OUTBOX_PATIENCE = timedelta(minutes=10)
CLOCK_PATIENCE = timedelta(seconds=5)
_NAMED = 10
_RESTORE = (
    "Stop the servers and restore a backup: `blackboard-mcp restore --force FILE`; keep the damaged file."
)
_LOST = "If there were boards in it, stop the servers and restore a backup: `blackboard-mcp restore --force FILE`."
_AGAIN = (
    "The boards may be whole: keep them, remove that cause and run the doctor again. It copies the boards into the "
    "folder that TMPDIR names; with --quick it makes no copy."
)


def unseen(what: str, size: int) -> contextlib.AbstractContextManager[Callable[[int], object]]:
    """Shows nothing."""
    return contextlib.nullcontext(lambda step: None)


async def look(
    settings: Settings, clock: Clock, *, whole: bool, shown: Shown = unseen
) -> AsyncIterator[Finding]:
    """Yields what is wrong with the boards' file.

    With `whole`, reads all of the file, rebuilds every board in a temporary folder, and checks the index.
    """
    database = settings.database
    newest = len(migrations())
    try:
        with contextlib.ExitStack() as stack:
            raw = stack.enter_context(examining.opened(database))
            found = examining.examine(
                raw, application_id=APPLICATION_ID, newest=newest, now=clock.now(), whole=whole
            )
            for finding in _told(found, newest, clock.now()):
                yield finding
            if found.empty:
                return
            if found.schema == newest and not found.tokens:
                for finding in exposure.without_tokens(settings):
                    yield finding
            for finding in _kept(settings.retention, found):
                yield finding
            if not whole or found.refused or found.damage:
                return
            with TemporaryDirectory(prefix="blackboard-") as folder:
                copy = Path(folder) / "copy.sqlite3"
                examining.copy_whole(raw, copy)
                async for finding in _deep(settings, copy, shown):
                    yield finding
    except BlackboardError as error:
        cure = _RESTORE if isinstance(error, StoreDamaged) else _AGAIN
        yield problem("database-unreadable", error.message, cure)
    except OSError as error:
        yield problem("database-unreadable", f"{database}: {error.strerror or error}.", _AGAIN)


def _told(found: examining.Examined, newest: int, now: datetime) -> Iterator[Finding]:
    if found.empty:
        yield warning("database-empty", "The boards' file is empty: the next start makes it anew.", _LOST)
    elif found.newer:
        yield problem(
            "schema-newer",
            found.refused,
            "Install the newer blackboard-mcp again that wrote it.",
            schema=found.schema,
            newest=newest,
        )
    elif found.refused:
        yield problem(
            "database-foreign", f"The file is no board file: {found.refused}.", "Name another with --data."
        )
    elif found.schema < newest and not found.damage:
        yield warning(
            "schema-older",
            f"The file has schema {found.schema}, this program knows {newest}: the next start migrates it.",
            "Back up first (`blackboard-mcp backup`), which leaves the schema as it is; then start.",
            schema=found.schema,
            newest=newest,
        )
    if found.damage:
        yield problem(
            "database-damaged",
            f"The file is damaged: {'; '.join(found.damage[:3])}.",
            _RESTORE,
            all=found.damage,
        )
    if found.dangling:
        yield problem("references-dangling", f"{found.dangling[0]}.", _RESTORE, all=found.dangling)
    if found.altered:
        yield problem(
            "text-altered",
            f"The text of {', '.join(found.altered[:5])} is not what was posted: its hash differs.",
            _RESTORE,
            all=found.altered,
        )
    if found.gaps:
        yield problem("history-gap", f"{found.gaps[0]}.", _RESTORE, all=found.gaps)
    if found.last_event is not None and found.last_event > now + CLOCK_PATIENCE:
        yield warning(
            "clock-behind",
            f"The clock here is {found.last_event - now} behind the last event: what expires or lapses does so late.",
            "Set the clock (NTP). Events keep their order: it is by sequence.",
            seconds=round((found.last_event - now).total_seconds()),
        )
    if found.stored:
        board, owner, stored, most = found.stored[0]
        setting = "owner_bytes" if owner else "board_bytes"
        yield warning(
            "bytes-nearly-used",
            f"On {board} {f'the agents of {owner} keep' if owner else 'everybody keeps'} {stored:,} bytes of {most:,} "
            f"({setting}): beyond, posts are refused.",
            f'An admin of the board allows more: board(settings={{"{setting}": …}}).',
            all=[
                f"{board} {owner or '(everybody)'}: {stored} of {most}"
                for board, owner, stored, most in found.stored
            ],
        )
    stuck = [(name, until) for name, _, until in found.leases if until > now + LEASE_MOST]
    if stuck:
        yield warning(
            "lease-stuck",
            f"{stuck[0][0]} is taken until {stuck[0][1]:%Y-%m-%d %H:%M}: a process took it when the clock was ahead.",
            "`blackboard-mcp doctor --repair` frees it.",
            repairable=True,
            leases=[name for name, _ in stuck],
        )
    if found.outbox_since is not None and now - found.outbox_since > OUTBOX_PATIENCE:
        yield warning(
            "outbox-waiting",
            f"{found.outbox:,} changes wait for the archive's index, the oldest for {now - found.outbox_since}.",
            "A running server works them off; `blackboard-mcp doctor --repair` does, too.",
            repairable=True,
            waiting=found.outbox,
        )


def _kept(retention: Retention | None, found: examining.Examined) -> Iterator[Finding]:
    missing = [] if retention is None else retention.missing(found.boards)
    if missing and not (found.refused or found.damage):
        there = (
            f"There are: {', '.join(found.boards[:_NAMED])}" if found.boards else "There are no boards yet"
        )
        yield warning(
            "retention-boards-missing",
            f"[retention] names boards that are not there: {', '.join(missing)}. Nothing is forgotten for these names.",
            f"Correct the names, unless these boards are still to come. {there}.",
            missing=missing,
        )


async def _deep(settings: Settings, file: Path, shown: Shown) -> AsyncIterator[Finding]:
    """Yields what is wrong with each board's history and the index, working on a copy that may be written to."""
    store = await SqlBoardStore.open(file, synchronous="NORMAL")
    try:
        async with frozen(store) as copy:  # one for all boards: it is as large as the file
            async for finding in _rebuilt(copy, shown):
                yield finding
        wanted = await store.settled_keys()
        if not wanted or not settings.index.exists():
            if wanted:
                yield _incomplete(len(wanted))
            return
        index = archive_index(settings.index, EmbedderChoice("none"))
        try:
            there = await index.keys()
        except ArchiveUnavailable as error:
            if error.facts.get("reason") == "schema":
                cure = "A server of this version builds it anew from the boards when it starts."
                yield warning("index-older", error.message, cure)
                return
            yield problem(
                "index-unreadable",
                f"The archive's index cannot be read: {error.message}",
                "`blackboard-mcp doctor --repair` (or `rebuild-index`) builds it anew from the boards.",
                repairable=True,
            )
            return
        finally:
            await index.close()
        lacking = sum(there.get(key, -1) < seq for key, seq in wanted.items())
        if lacking:
            yield _incomplete(lacking)
    finally:
        await store.close()


async def _rebuilt(copy: SqlBoardStore, shown: Shown) -> AsyncIterator[Finding]:
    """Yields the boards that are not what their histories say."""
    boards = await copy.boards()
    with shown("boards", 2 * sum(board.seq for board in boards)) as step:
        for board in boards:
            try:
                unlike = await verify_frozen(copy, board.id, step=step)
            except StoreError:
                raise
            except BlackboardError as error:
                unlike = [error.message]
            if unlike:
                yield problem(
                    "history-differs",
                    f"Board {board.id} is not what its history says: {unlike[0].rstrip('.')}.",
                    _RESTORE,
                    board=board.id,
                    all=unlike,
                )


def _incomplete(lacking: int) -> Finding:
    return warning(
        "index-incomplete",
        f"{lacking:,} archived items are not in the search index, and none of them waits for it.",
        "`blackboard-mcp doctor --repair` (or `rebuild-index`) builds it anew from the boards.",
        repairable=True,
        lacking=lacking,
    )
