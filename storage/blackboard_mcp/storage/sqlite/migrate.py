"""Brings a file to the schema this code knows, or says why it cannot: not ours, or newer than we are.

`PRAGMA user_version` counts the scripts that ran; `PRAGMA application_id` says whose file it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from blackboard_mcp.protocols.errors import StoreDamaged, StoreTooNew
from blackboard_mcp.storage.sqlite import driver


def check(raw: driver.Raw, application_id: int, newest: int) -> int:
    """The schema version of the file, 0 for an empty one; call it inside a transaction.

    Raises:
        StoreDamaged: the file holds something else.
        StoreTooNew: a newer version of the product migrated it.
    """
    owner = driver.pragma(raw, "application_id")
    version: int = driver.pragma(raw, "user_version")
    if owner != application_id:
        tables = raw.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        if owner or version or tables:
            raise StoreDamaged("The file is an SQLite database of another program; choose another path.")
        return 0
    if version > newest:
        raise too_new(version, newest)
    return version


def too_new(version: int, newest: int) -> StoreTooNew:
    return StoreTooNew(
        f"A newer version of blackboard-mcp has this data (schema {version}; this one knows up to {newest}). Nothing "
        "was changed. Tell who runs the server: it has to be upgraded and started again.",
        version=version,
        newest=newest,
    )


Fill = Callable[[driver.Raw], object]
"""Work on the data of a file that reached a version."""


def migrate(
    raw: driver.Raw,
    scripts: Sequence[str],
    application_id: int,
    deadline: float,
    fills: Mapping[int, Fill] | None = None,
) -> None:
    """Run the scripts the file has not seen, all in one transaction; safe from many processes at once.

    Script n (from 1) leads to version n. After the last script, and so on the newest schema, come the
    `fills` of those versions that a file with data in it had not reached. Foreign keys are off meanwhile
    and checked at the end.
    """
    newest = len(scripts)

    def pending() -> bool:
        raw.execute("BEGIN")
        try:
            version = check(raw, application_id, newest)
            return version < newest or driver.pragma(raw, "application_id") != application_id
        finally:
            driver.roll_back(raw)

    if not driver.patiently(pending, deadline):
        return
    raw.execute("PRAGMA foreign_keys=OFF")
    driver.patiently(lambda: raw.execute("BEGIN IMMEDIATE"), deadline)
    try:
        # Read again under the lock: whoever came first may have done it all.
        version = check(raw, application_id, newest)
        for script in scripts[version:]:
            for statement in statements(script):
                raw.execute(statement).fetchall()
        for number, fill in sorted((fills or {}).items()):
            if 0 < version < number:
                fill(raw)
        if broken := raw.execute("PRAGMA foreign_key_check").fetchone():
            raise StoreDamaged(f"Migrating would leave a dangling reference in table {broken[0]}.")
        raw.execute(f"PRAGMA application_id={application_id:d}")
        raw.execute(f"PRAGMA user_version={newest:d}")
        driver.patiently(lambda: raw.execute("COMMIT"), deadline)
    except BaseException:
        driver.roll_back(raw)
        raise


def statements(script: str) -> Iterator[str]:
    """The statements of a script one by one; `executescript` would commit the transaction around it."""
    complete = driver.library().complete_statement
    *pieces, last = script.split(";")
    pending = ""
    for piece in pieces:
        pending += piece + ";"
        if complete(pending):
            yield pending.strip()
            pending = ""
    if rest := (pending + last).strip():
        yield rest
