"""Migration of a file to the newest schema, and checks that the file is ours and not newer.

`PRAGMA user_version` counts the scripts that ran; `PRAGMA application_id` tells whose file it is.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from blackboard_mcp.protocols.errors import StoreDamaged, StoreTooNew
from blackboard_mcp.storage.sqlite import driver

logger = logging.getLogger(__name__)


def check(raw: driver.Raw, application_id: int, newest: int) -> int:
    """Returns the schema version of the file, 0 for an empty one; must be called inside a transaction.

    Raises:
        StoreDamaged: the file belongs to another program.
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
    """Returns the error for a file with a newer schema."""
    return StoreTooNew(
        f"A newer version of blackboard-mcp has this data (schema {version}; this one knows up to {newest}). Nothing "
        "was changed. This one has to be upgraded and started again; if others run it, tell them.",
        version=version,
        newest=newest,
    )


Fill = Callable[[driver.Raw], object]
"""A function that completes the data of a file after a migration."""


def migrate(
    raw: driver.Raw,
    scripts: Sequence[str],
    application_id: int,
    deadline: float,
    fills: Mapping[int, Fill] | None = None,
    schema: str | None = None,
    before: Callable[[int], None] | None = None,
) -> None:
    """Runs the scripts that the file has not seen, all in one transaction; many processes may call it at once.

    Script n (from 1) leads to version n. An empty file gets the `schema` instead, to which all scripts lead. After the
    last script come the `fills` of versions that a file with data had not reached; they see the newest schema. Foreign
    keys are off meanwhile and checked at the end. `before` is called with the version of an older file, before anything
    is changed and while nobody else can write. `deadline` is in seconds.

    Raises:
        StoreDamaged: the file belongs to another program, or a reference would point to a missing row.
        StoreTooNew: a newer version of the product migrated it.
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
        # Checked again under the lock: another process may have migrated it already.
        version = check(raw, application_id, newest)
        if before is not None and 0 < version < newest:
            before(version)
        for script in scripts[version:] if version or schema is None else (schema,):
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


def set_aside(path: Path) -> Callable[[int], None]:
    """Returns a function that copies the file beside itself, before it is migrated from the version that is given.

    Without room for the copy, or if it cannot be written, the log says so, and the migration goes on.
    """
    return partial(_set_aside, path)


def _set_aside(path: Path, version: int) -> None:
    aside = path.with_name(f"{path.name}.before-{version}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    staged = path.with_name(f"{path.name}.{secrets.token_hex(4)}.restoring")
    try:
        size = sum(
            os.stat(file).st_size for file in (path, path.with_name(path.name + "-wal")) if file.exists()
        )
        if shutil.disk_usage(path.parent).free < 2 * size:
            logger.warning(
                "%s: the disk has no room for a copy of schema %d before it is migrated", path, version
            )
            return
        handle = os.open(staged, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        with open(handle, "rb"):
            # Another connection: a transaction is open on the one that migrates.
            with contextlib.closing(driver.connect(str(path))) as raw:
                raw.execute("VACUUM INTO ?", (str(staged),))
            os.fsync(handle)
        os.link(staged, aside)
    except (OSError, driver.library().Error) as error:
        logger.warning("%s: no copy of schema %d was kept before it is migrated: %s", path, version, error)
    else:
        logger.warning("%s is migrated from schema %d; a copy as it was is %s", path, version, aside)
    finally:
        staged.unlink(missing_ok=True)


def dump(raw: driver.Raw) -> str:
    """Returns a script that gives an empty file the schema of this one, in the same order."""
    told = raw.execute(
        "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
    )
    return "".join(f"{statement};\n" for (statement,) in told)


def statements(script: str) -> Iterator[str]:
    """Yields the statements of a script; `executescript` would commit the surrounding transaction."""
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
