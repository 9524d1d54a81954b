"""The work that keeps the repositories of boards up to date with their revisions.

The store is the truth. A repository that ended in the middle of something goes on with the next revision that its
branch lacks, and one that is damaged is made anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.protocols.workspace import WorkspaceStore

if TYPE_CHECKING:
    from dulwich.objects import ObjectID

    from .repository import Repository

logger = logging.getLogger(__name__)

_BATCH: Final = 50
"""Revisions that are committed together, with one move of the branch."""
_ATTEMPTS: Final = 100
_STALE: Final = 2.0
"""Seconds after which a lock counts as left behind by a process that was killed; a write under it takes far less."""
_PAUSE: Final = 0.05
_AGAIN: Final = 30.0
"""Seconds until a repository that could not be written is tried again."""
_LAST: Final = 1 << 62


def folder_of(top: Path, board: str) -> Path:
    """Returns the folder of a board's repository. Boards whose names differ in case only have different ones."""
    name = board if board == board.lower() else f"{board.lower()}-{sha256(board.encode()).hexdigest()[:8]}"
    return top / f"{name}.git"


class Committer:
    """Writes revisions into repositories under `top`, one board after the other, as `poke` asks it."""

    def __init__(self, store: WorkspaceStore, top: Path) -> None:
        self._store = store
        self._top = top
        self._boards: dict[str, None] = {}
        self._again: dict[str, asyncio.TimerHandle] = {}
        self._asked = asyncio.Event()
        self._busy = asyncio.Lock()

    def poke(self, board: str) -> None:
        """Asks for a board's repository to be brought up to date soon."""
        self._boards[board] = None
        self._asked.set()

    def _retry(self, board: str) -> None:
        del self._again[board]
        self.poke(board)

    async def run(self) -> None:
        """Brings repositories up to date as asked, until cancelled."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            while self._boards:
                board = next(iter(self._boards))
                del self._boards[board]
                try:
                    await self.update(board)
                except (OSError, BlackboardError):
                    logger.exception("the repository of board '%s' is behind and is tried again", board)
                    if board not in self._again:
                        self._again[board] = asyncio.get_running_loop().call_later(_AGAIN, self._retry, board)

    async def update(
        self, board: str, history: Callable[[], AsyncIterator[bytes]] | None = None, *, whole: bool = False
    ) -> str:
        """Brings a board's repository up to date, with the history of the board if given; returns its last commit.

        `whole` looks at all that the branch leads to, also at what the update does not need.

        Raises:
            OSError: it cannot be written.
        """
        async with self._busy:
            folder = folder_of(self._top, board)
            for _ in range(_ATTEMPTS):
                head = await self._try(board, folder, history, whole=whole)
                if head is not None:
                    return head
                await asyncio.sleep(_PAUSE)
        raise OSError(f"others keep writing {folder}")

    async def _try(
        self,
        board: str,
        folder: Path,
        history: Callable[[], AsyncIterator[bytes]] | None,
        *,
        whole: bool,
    ) -> str | None:
        """Returns the last commit after an update; `None` if another process was quicker, or it was damaged."""
        from dulwich.file import FileLocked

        from .repository import Moved, Repository

        repository: Repository | None = None
        try:
            repository = await asyncio.to_thread(Repository, folder)
            await self._catch_up(board, repository)
            if whole:
                await asyncio.to_thread(repository.check)
            if history is not None:
                lines = b"".join([part async for part in history()])
                await asyncio.to_thread(repository.put_history, lines)
            await asyncio.to_thread(repository.pack)
            return await asyncio.to_thread(repository.head)
        except Moved:
            return None
        except FileLocked as error:
            await asyncio.to_thread(_unlock, Path(os.fsdecode(error.lockfilename)))
            return None
        except (OSError, BlackboardError):
            raise
        except Exception:  # dulwich has no common error for what it cannot read
            logger.warning("the repository %s is damaged and is made anew", folder, exc_info=True)
            await asyncio.to_thread(_put_away, folder)
            return None
        finally:
            if repository is not None:
                with contextlib.suppress(
                    BufferError
                ):  # an error above may still hold a part of a damaged pack
                    repository.close()

    async def _catch_up(self, board: str, repository: Repository) -> None:
        from .repository import stamp

        end, head, last = await asyncio.to_thread(repository.last)
        if head != end:
            if head is None:
                raise KeyError(board)
            await asyncio.to_thread(
                repository.go_back, end, head
            )  # commits of others are no files of the board
        if last is not None:
            known = await self._store.artifact_history(board, "", last[0] + 1, 1)
            if not known or stamp(known[0]) != last:
                await self._go_back(board, repository, head)
                _, head, last = await asyncio.to_thread(repository.last)
        done = 0 if last is None else last[0]
        while batch := await self._store.artifact_log(board, done, _BATCH):
            head = await asyncio.to_thread(repository.append, head, batch)
            done = batch[-1].revision.number

    async def _go_back(self, board: str, repository: Repository, end: ObjectID | None) -> None:
        """Moves the branch back to the last commit that the board has as well, after a backup was restored.

        Raises:
            KeyError: there is none.
        """
        from .repository import stamp

        marks, before = await asyncio.to_thread(repository.marks), _LAST
        while page := await self._store.artifact_history(board, "", before, 100):
            for revision in page:
                if (commit := marks.get(stamp(revision))) is not None:
                    await asyncio.to_thread(repository.go_back, end, commit)
                    return
            before = page[-1].number
        raise KeyError(board)


def _unlock(lock: Path) -> None:
    """Removes the lock of the branch or of an object if it was left behind."""
    with contextlib.suppress(OSError):
        if time.time() - lock.stat().st_mtime > _STALE:
            lock.unlink()


def _put_away(folder: Path) -> None:
    """Puts a damaged repository beside its place, where the last one is kept."""
    aside = folder.with_suffix(".damaged")
    shutil.rmtree(aside, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.rename(aside)
