"""A look at a PostgreSQL database for the diagnosis: it makes nothing and migrates nothing."""

from __future__ import annotations

from collections.abc import Mapping

import asyncpg
from blackboard_mcp.protocols.errors import StoreBusy
from blackboard_mcp.protocols.values import dataclass

from . import migrating
from .address import Address
from .session import Lost, Session, translated


@dataclass(frozen=True, slots=True)
class Look:
    """What a database says of itself.

    Attributes:
        version: the server's version, such as 150018.
        standby: whether it takes no writes.
        schema: the version of the boards' schema; 0 if there is none.
        known: the newest version that this program knows.
        fsync, synchronous: the server's settings of these names.
        longest: the seconds for which the oldest transaction of the database has been open.
        behind: how many changes each search index has to learn.
    """

    version: int
    standby: bool
    schema: int
    known: int
    fsync: str
    synchronous: str
    longest: float
    behind: Mapping[str, int]


_LOOK = """
SELECT current_setting('server_version_num')::bigint, pg_is_in_recovery(), current_setting('fsync'),
       current_setting('synchronous_commit'),
       coalesce((SELECT max(extract(epoch FROM now() - xact_start)) FROM pg_stat_activity
                 WHERE datname = current_database() AND pid <> pg_backend_pid()), 0)
"""


async def look(address: str) -> Look:
    """Looks at the database at an address.

    Raises:
        StoreBusy: it does not answer.
        StoreError: it refuses us.
    """
    parsed = Address.parse(address)
    session = Session(parsed, "blackboard-mcp doctor", {"blackboard.reader": ""})
    try:
        await session.open(standby=True)
        version, standby, fsync, synchronous, longest = (await session.fetch(_LOOK))[0][0]
        schema = await migrating.version(session, parsed.schema)
        behind: dict[str, int] = {}
        if schema:
            counted = f"SELECT reader, count(*) FROM {parsed.schema}.outbox_row GROUP BY reader"  # noqa: S608 - a checked name
            behind = dict((await session.fetch(counted))[0])
        return Look(
            version, bool(standby), schema, migrating.newest(), fsync, synchronous, float(longest), behind
        )
    except Lost as lost:
        raise StoreBusy(f"{parsed.shown} does not answer ({lost}).") from lost
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise translated(error, f"look at {parsed.shown}") from error
    finally:
        await session.close()
