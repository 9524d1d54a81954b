"""Whether the SQLite in use overwrites what it deletes, as some systems build it."""

from __future__ import annotations

from contextlib import closing

from blackboard_mcp.storage.sqlite import driver


def wipes() -> bool:
    with closing(driver.connect(":memory:")) as raw:
        return bool(driver.pragma(raw, "secure_delete"))
