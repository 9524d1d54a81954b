"""Opening of the SQLite engine for a board store: its schema, and the mark of its files."""

from __future__ import annotations

from contextlib import closing
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal

from blackboard_mcp.protocols.errors import StoreError

from ..operation import Operation
from ..operations.items import endorsements
from ..operations.leaving import guard_index
from . import driver
from .engine import SqliteEngine, copy_to

APPLICATION_ID = 0x42424D43
"""The `application_id` that marks a SQLite file as a board file."""

FILLS = {20: guard_index.rebuild, 25: endorsements.fill, 48: endorsements.fill}
"""Operations that complete the data of an older file, by the number of their migration."""


_MARKED = 37
"""The first schema whose boards can be marked as copies."""
_PATIENCE = 15.0
"""The seconds to wait for others' locks."""


@cache
def migrations() -> tuple[str, ...]:
    """Returns the numbered migration scripts, in order."""
    scripts = sorted(
        (f for f in (_folder() / "migrations").iterdir() if f.name.endswith(".sql")), key=lambda f: f.name
    )
    return tuple(script.read_text("utf-8") for script in scripts)


@cache
def schema() -> str:
    """Returns the script of the newest schema, which new files get; `docs/generate.py` writes it."""
    return (_folder() / "schema.sql").read_text("utf-8")


def _folder() -> Traversable:
    return resources.files("blackboard_mcp.storage.sqlite")


async def open_engine(
    path: Path | None,
    *,
    synchronous: Literal["FULL", "NORMAL"] = "FULL",
    keep_free: int = 0,
    set_aside: bool = False,
) -> SqliteEngine:
    """Opens the engine on the board file at `path`, and creates the file if missing; `None` opens it in memory.

    With `set_aside` a copy of an older file is kept beside it before it is migrated.

    Raises:
        StoreTooNew: a newer version of the product wrote the file.
        StoreDamaged: it is no board file, or is damaged.
    """
    return await SqliteEngine.open(
        path,
        migrations=migrations(),
        application_id=APPLICATION_ID,
        schema=schema(),
        fills=FILLS,
        synchronous=synchronous,
        keep_free=keep_free,
        set_aside=set_aside,
    )


def older_schema(path: Path) -> int | None:
    """Returns the schema of the board file, if opening it would migrate it, and otherwise `None`; changes nothing.

    `None` stands for a file that is none of ours or cannot be read, too: opening it says so.
    """
    try:
        with closing(driver.connect(str(path))) as raw:

            def look() -> tuple[int, int]:
                return driver.pragma(raw, "application_id"), driver.pragma(raw, "user_version")

            owner, version = driver.patiently(look, _PATIENCE)
    except driver.errors():
        return None
    return version if owner == APPLICATION_ID and 0 < version < len(migrations()) else None


def back_up(path: Path, target: Path, mark: Operation[object]) -> None:
    """Writes a copy of the board file at the schema that it has, as of one moment, to a new private file.

    `mark` runs in the copy, unless the schema is too old for it.

    Raises:
        StoreError: it cannot be read, or `target` exists or cannot be written.
    """
    try:
        with closing(driver.connect(str(path))) as raw:
            known = driver.patiently(lambda: driver.pragma(raw, "user_version"), _PATIENCE) >= _MARKED
            copy_to(raw, target, mark if known else None, _PATIENCE)
    except driver.errors() as error:
        raise driver.translate(error, f"write the backup {target}") from error
    except OSError as error:
        raise StoreError(f"Cannot write the backup {target}: {error.strerror}.") from error
