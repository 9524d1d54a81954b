"""The diagnosis: all checks in order, and the repairs that are safe."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from datetime import timedelta

from blackboard_mcp.protocols.clock import Clock, SystemClock
from blackboard_mcp.protocols.errors import ArchiveUnavailable, BlackboardError
from blackboard_mcp.storage.operations.ledger.rows import micros
from blackboard_mcp.storage.sqlite import examining

from ..settings.server import Settings
from ..usecases.growth import Growth
from . import boards, classes, clients, exposure, folder, network, postgres, programs
from .findings import Finding, Severity, note
from .growth import look


async def examine(
    settings: Settings,
    *,
    whole: bool = True,
    clock: Clock | None = None,
    grown: Growth | None = None,
    shown: boards.Shown = boards.unseen,
) -> list[Finding]:
    """Returns what is wrong with an installation, problems first; changes nothing.

    With `whole`, all of the boards are read, which takes longer the larger they are. `grown` is the measured
    growth of the folder, if any. `shown` shows how far the reading is.
    """
    found = [*programs.look(), *classes.look(settings)]
    found += exposure.look(settings, (clock or SystemClock()).now())
    if settings.on_postgres:
        found += [finding async for finding in postgres.look(settings)]
    elif settings.store is not None:
        found.append(
            note(
                "own-store",
                f"The boards are in the store {settings.store}, into which doctor does not look.",
                f"`blackboard-mcp kit {settings.store}` checks the class.",
            )
        )
    elif in_the_way := [*folder.misplaced(settings)]:
        found += in_the_way
    elif settings.database.exists():
        found += folder.look(settings)
        looked = boards.look(settings, clock or SystemClock(), whole=whole, shown=shown)
        found += [finding async for finding in looked]
        if grown is not None:
            found += look(grown, (clock or SystemClock()).now())
    found += [finding async for finding in network.look(settings)]
    found += [finding async for finding in clients.look()]
    return sorted(found, key=lambda finding: finding.severity is not Severity.PROBLEM)


async def repair(settings: Settings, found: list[Finding], clock: Clock | None = None) -> list[str]:
    """Makes the safe repairs for these findings, and returns what it did, a line each; boards are never changed.

    Raises:
        BlackboardError: a repair failed; earlier ones are kept.
    """
    names = {finding.name for finding in found if finding.repairable}
    done: list[str] = []
    if "left-over-files" in names:
        left = folder.left_over(settings)
        for path in left:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    path.unlink()
        done.append(f"removed {len(left)} left-over files")
    damaged = any(f.severity is Severity.PROBLEM and not f.repairable for f in found)
    if damaged:
        # The boards themselves are damaged: a person has to decide what to do.
        return done
    if "log-large" in names and await asyncio.to_thread(examining.empty_log, settings.database):
        done.append("emptied the write-ahead log")
    if "lease-stuck" in names:
        until = micros((clock or SystemClock()).now() + timedelta(hours=1))
        freed = await asyncio.to_thread(examining.free_leases, settings.database, until)
        done.append(f"freed {freed} leases")
    if any(finding.name == "schema-older" for finding in found):
        # The index is built from boards that are open, and to open these would migrate them.
        return done
    if names & {"index-incomplete", "index-unreadable", "outbox-waiting"}:
        from .. import compose

        async with compose.installation(settings, eager_index=False, background=False) as opened:
            if not names & {"index-incomplete", "index-unreadable"}:
                with contextlib.suppress(ArchiveUnavailable):
                    if await opened.archive.drain():
                        done.append("brought the archive's index up to date")
                        return done
            count = await opened.archive.rebuild()
            if count is None:
                raise BlackboardError("A server is indexing: stop it, or try again in a moment.")
            done.append(f"built the archive's index anew: {count} items")
    return done
