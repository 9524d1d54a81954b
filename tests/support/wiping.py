"""Questions about the build of SQLite that tests run on."""

from __future__ import annotations

from contextlib import closing

from blackboard_mcp.storage.sqlite import driver


def wipes() -> bool:
    """Tells whether SQLite overwrites deleted rows with zeros; Debian builds it so, pysqlite3 does not."""
    with closing(driver.connect(":memory:")) as raw:
        return bool(driver.pragma(raw, "secure_delete"))
