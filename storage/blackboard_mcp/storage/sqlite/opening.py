"""Opening of the SQLite engine for a board store: its schema, and the mark of its files."""

from __future__ import annotations

from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal

from ..operations.items import endorsements
from ..operations.leaving import guard_index
from .engine import SqliteEngine

APPLICATION_ID = 0x42424D43
"""The `application_id` that marks a SQLite file as a board file."""

FILLS = {20: guard_index.rebuild, 25: endorsements.fill, 48: endorsements.fill}
"""Operations that complete the data of an older file, by the number of their migration."""


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
    path: Path | None, *, synchronous: Literal["FULL", "NORMAL"] = "FULL", keep_free: int = 0
) -> SqliteEngine:
    """Opens the engine on the board file at `path`, and creates the file if missing; `None` opens it in memory.

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
    )
