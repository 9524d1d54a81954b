"""The folder of the index: the table in use, and its replacement.

Every life of the index is a generation, a folder of its own. The file `current` names the generation in use, and is
replaced in one step. A table gets its name only when it is complete, so a process sees either no table or a whole one.
A reset by another process is seen at the next call, never as a mixture of old and new files. Opening imports the
driver, so it belongs in worker threads.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from blackboard_mcp.protocols.clock import new_token
from blackboard_mcp.protocols.importing import put_off
from blackboard_mcp.storage.allocator import give_back
from blackboard_mcp.storage.lance.upkeep import INDEXED_ROWS

Caches = tuple[int, int]
_TABLE = "items"
_FIRST = "g-first"
_POINTER = "current"
_LIFE = "life"
_CACHES = (4 * 2**20, 4 * 2**20)
_LARGE_CACHES = (256 * 2**20, 32 * 2**20)
"""Bytes of the driver's caches of indexes and metadata, for all tables of the process and for large ones.

By default it takes up to 7 GB for each table. A small table needs little, and fills the rest with what its former
versions had; a large one is slow if its indexes do not fit.
"""


class IndexFolder:
    """A folder with at most one table in use.

    With `draft` it is about the draft of that name instead: a table that nobody reads until `publish`.
    """

    def __init__(self, path: Path, *, draft: str = "") -> None:
        self._path = path
        self._draft = f"d-{draft}" if draft else ""

    def generation(self) -> str:
        """Returns the name of the generation in use, whether or not it has a table yet.

        Raises:
            OSError: the file that names it cannot be read.
        """
        if self._draft:
            return self._draft
        try:
            name = (self._path / _POINTER).read_text(encoding="ascii").strip()
        except (FileNotFoundError, NotADirectoryError):
            return _FIRST
        except UnicodeDecodeError:
            name = ""
        if not name.startswith("g-") or not name.replace("-", "").replace("_", "").isalnum():
            raise OSError(f"{self._path / _POINTER} does not name a generation")
        return name

    def exists(self, generation: str) -> bool:
        """Tells whether the generation has a table, without loading the driver."""
        return (self._path / generation).exists()

    def life(self, generation: str) -> str | None:
        """Returns a name that no other table of this folder ever has; `None` if the generation has no table."""
        folder = self._path / generation
        try:
            return f"{generation}/{(folder / _LIFE).read_text(encoding='ascii', errors='replace')}"
        except (FileNotFoundError, NotADirectoryError):
            return f"{generation}/" if folder.exists() else None

    def open(self, generation: str) -> Any:
        """Returns the generation's table, which always reads its newest version."""
        return with_caches(lambda caches: connect(self._path / generation, caches).open_table(_TABLE))

    def snapshots(self, generation: str, table: Any) -> Callable[[], Any]:
        """Returns a function that opens the generation's `table` anew, in its newest version, where it stays."""
        tables = connect(self._path / generation, _caches_of(table), read_consistency_interval=None)
        return lambda: tables.open_table(_TABLE)

    def create(self, generation: str, schema: Any) -> Any:
        """Returns the generation's table, and creates it with `schema` if there is none.

        Concurrent calls return the same table.
        """
        if not self.exists(generation):
            self._begin()
            draft = self._path / f"new-{new_token()}"
            make_table(connect(draft), _TABLE, schema)
            (draft / _LIFE).write_text(new_token(), encoding="ascii")
            try:
                draft.rename(self._path / generation)
            except OSError:
                shutil.rmtree(draft, ignore_errors=True)
                if not self.exists(generation):
                    raise
        return self.open(generation)

    def reset(self) -> None:
        """Begins a new, empty generation and deletes the former one; a draft deletes only itself."""
        if self._draft:
            shutil.rmtree(self._path / self._draft, ignore_errors=True)
        else:
            self._use(f"g-{new_token()}")

    def publish(self) -> None:
        """Makes the draft the generation in use, and deletes the former one and other drafts."""
        fresh = f"g-{new_token()}"
        if (self._path / self._draft).exists():
            _retry(lambda: os.rename(self._path / self._draft, self._path / fresh))
        self._use(fresh)

    def _begin(self) -> None:
        """Makes the folder if it is not there, also in the place of a file."""
        if self._path.exists() and not self._path.is_dir():
            self._path.unlink()
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _use(self, fresh: str) -> None:
        self._begin()
        pointer = self._path / f"pointer-{new_token()}"
        pointer.write_text(fresh, encoding="ascii")
        if (self._path / _POINTER).is_dir():
            shutil.rmtree(self._path / _POINTER)
        _retry(lambda: os.replace(pointer, self._path / _POINTER))
        for old in self._path.iterdir():
            if old.name.startswith(("g-", "d-", "new-")) and old.name != fresh:
                shutil.rmtree(old, ignore_errors=True)
                with suppress(OSError):
                    old.unlink()


def connect(place: Path | str, caches: Caches = _CACHES, **more: Any) -> Any:
    """Returns the tables at a place; a table always reads its newest version, unless `more` says otherwise."""
    if (session := _SESSIONS.get(caches)) is None:
        session = _SESSIONS[caches] = _Session(*caches)
    kept = {"read_consistency_interval": timedelta(0), "session": session.caches, **more}
    tables = _driver().connect(str(place), **kept)
    tables.session_in_use = session  # each table that is opened here keeps `tables`
    return tables


def with_caches(opened: Callable[[Caches], Any]) -> Any:
    """Returns a table, opened with caches that suit its size."""
    table = opened(_CACHES)
    caches = _caches_of(table)
    return table if caches == _CACHES else opened(caches)


def _caches_of(table: Any) -> Caches:
    return _CACHES if table.count_rows() < INDEXED_ROWS else _LARGE_CACHES


def make_table(tables: Any, name: str, schema: Any) -> None:
    """Makes an empty table."""
    tables.create_table(name, schema=schema).set_unenforced_primary_key("id")


def _driver() -> Any:
    os.environ.setdefault("LANCEDB_LOG", "error")
    # The driver wants a few models of this client for catalogs on the network. The requests that nobody here sends
    # take as long to import as the rest of the driver, and other threads wait for the interpreter meanwhile.
    put_off("lance_namespace_urllib3_client")
    loaded = "lancedb" in sys.modules
    import lancedb

    if not loaded:
        give_back()  # loading it touches twice the code that is run later
    return lancedb


class _Session:
    """The driver's caches, which all open tables of the process share that have as large ones."""

    def __init__(self, indexes: int, metadata: int) -> None:
        self.caches = _driver().Session(index_cache_size_bytes=indexes, metadata_cache_size_bytes=metadata)


_SESSIONS: WeakValueDictionary[Caches, _Session] = WeakValueDictionary()
"""The sessions by their sizes. One ends with the last table that uses it, and what it keeps goes with it."""


def _retry(step: Callable[[], None], attempts: int = 20) -> None:
    """Runs `step`, and repeats it while Windows refuses to replace a file that somebody reads."""
    for left in reversed(range(attempts)):
        try:
            return step()
        except PermissionError:
            if not left:
                raise
