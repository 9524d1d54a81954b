"""Findings about boards in PostgreSQL: whether the server can be used, and what it promises."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.storage.archive import trouble_at

from ..settings.server import Settings
from .findings import Finding, problem, warning

LEAST: Final = 130_000
"""The oldest version of PostgreSQL that has what the store uses, as `server_version_num` counts."""
LONG_SECONDS: Final = 60
BEHIND: Final = 10_000
"""Changes that an index may be behind without a warning."""


async def look(settings: Settings) -> AsyncIterator[Finding]:
    """Yields what is wrong with the database of the settings; changes nothing."""
    assert settings.store is not None
    try:
        from blackboard_mcp.storage.postgres import looking
    except ModuleNotFoundError as error:
        yield problem(
            "postgres-unreachable",
            f"The database cannot be used: Python finds no {error.name}.",
            "pip install 'blackboard-mcp[postgres]'",
        )
        return
    try:
        seen = await looking.look(settings.store)
    except BlackboardError as error:
        yield problem(
            "postgres-unreachable",
            f"The database cannot be used: {error.message}",
            "Start it, or mend the address of the setting store.",
        )
        return
    if seen.version < LEAST:
        yield problem(
            "postgres-old",
            f"The server is PostgreSQL {seen.version // 10_000}; boards need 13 or newer.",
            "Upgrade the server.",
            version=seen.version,
        )
    if seen.standby:
        yield problem(
            "postgres-standby",
            f"{settings.store_shown} is a standby, which takes no writes.",
            "Name the primary, or several hosts with ?target_session_attrs=read-write.",
        )
    if seen.schema > seen.known:
        yield problem(
            "schema-newer",
            f"A newer version of blackboard-mcp has this data (schema {seen.schema}; this one knows {seen.known}).",
            "Upgrade this installation.",
            schema=seen.schema,
        )
    elif 0 < seen.schema < seen.known:
        yield warning(
            "schema-older",
            f"The schema is {seen.schema}; this version brings it to {seen.known} when it starts.",
            "Start a server, or have `blackboard-mcp migrate --print` run.",
            schema=seen.schema,
        )
    for name, value, means in (
        ("fsync", seen.fsync, "a crash of its machine damages the database"),
        (
            "synchronous_commit",
            seen.synchronous,
            "a crash of its machine loses the last posts that were acknowledged",
        ),
    ):
        if value == "off" and (name == "fsync" or settings.synchronous == "FULL"):
            yield warning(
                f"postgres-{name.replace('_', '-')}",
                f"The server runs with {name}=off: {means}.",
                f"Set {name} = on in postgresql.conf.",
            )
    if seen.longest > LONG_SECONDS:
        yield warning(
            "postgres-long-transaction",
            f"A transaction has been open for {seen.longest:.0f} seconds; changed rows keep their room meanwhile.",
            "Look at pg_stat_activity for who holds it.",
            seconds=round(seen.longest),
        )
    if settings.index_at is not None and (told := await asyncio.to_thread(trouble_at, settings.index_at)):
        yield warning(
            "index-unreachable",
            f"{told} Searches find items by every word meanwhile.",
            "Mend the setting index_at, its keys in the environment, or the object store.",
        )
    for reader, waiting in seen.behind.items():
        if waiting > BEHIND:
            yield warning(
                "index-behind",
                f"The search index {reader} has {waiting:,} changes to learn.",
                "Start a server that has it; one that is gone for good is forgotten after 30 days.",
                waiting=waiting,
            )
