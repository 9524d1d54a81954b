"""The operator's checks on the files of boards: run after writes, with RESULT items and hot issues for what they give.

A check runs on an exported copy of one revision. Of several processes on one data folder, one runs it. The revisions
and its last RESULT item tell whether it is due, so nothing is forgotten when a server dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import shutil
import tempfile
from collections.abc import Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

from blackboard_mcp.protocols.errors import BlackboardError, Refused, UnknownReference
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.items import Item, ItemType
from blackboard_mcp.protocols.names import SYSTEM
from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.protocols.workspace import MAX_PAGE, Revision

from ..checks.running import Check, Outcome, run
from ..input.posts import PostFields
from ..input.secrets import Secrets
from ..limits.turns import in_thread
from .blackboard import Blackboard
from .evidence import last_written, told_of
from .results import Results

logger = logging.getLogger(__name__)

PARALLEL: Final = 2
"""Most checks that a server runs at once."""
MAX_EXPORT: Final = 1_000_000_000
"""Most bytes of files that are exported for a run."""
_LULL: Final = 0.3
"""Seconds after a write in which further writes join the same run."""
_LOOK: Final = 15.0
"""Seconds between two looks for writes of other processes."""
_PAGES: Final = 20
_ATTEMPTS: Final = 5
_FIRST, _LAST, _LINE = 800, 2_400, 160
"""Characters of an output that a RESULT item holds from its beginning and its end, and of the line in a hot issue."""
_SIGNS: Final = (
    re.compile(r"\b(?:\w+(?:Error|Exception)|error(?:\[\w+\])?):"),
    re.compile("error|fail|assert", re.IGNORECASE),
)


@dataclass(frozen=True, slots=True)
class CheckState:
    """What a check last gave for a board. `item` is its RESULT item, `None` before its first run.

    `fresh` is false if a file that it is for was written after `revision`.
    """

    name: str
    item: str | None
    revision: int
    ok: bool
    fresh: bool


class Checks:
    """Runs the operator's checks, and tells what they gave. Copies of files are below `folder` while a check runs."""

    def __init__(
        self,
        board: Blackboard,
        checks: Sequence[Check],
        folder: Path,
        holder: str,
        free_bytes: int,
        secrets: Secrets,
    ) -> None:
        self._board = board
        self._checks = tuple(checks)
        self._folder = folder
        self._holders = (f"{holder}-check-{number}" for number in count(1))
        self._free_bytes = free_bytes
        self._secrets = secrets
        self._results = Results(board)
        self._asked = asyncio.Event()
        self._running: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._known: dict[tuple[str, str], tuple[int, Revision | None]] = {}
        self._room = asyncio.Semaphore(PARALLEL)

    def poke(self, board: str) -> None:
        """Says that a file of a board was written."""
        self._asked.set()

    async def run(self) -> None:
        """Runs the checks that are due, until cancelled; what runs then is ended."""
        await in_thread(self._clean)
        begun = False
        try:
            while True:
                self._asked.clear()
                try:
                    for board in await self._board.store.boards_with_artifacts():
                        if not begun:
                            await self._catch_up(board)
                        await self._begin(board)
                    begun = True
                except (BlackboardError, OSError):
                    logger.exception("checks wait")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._asked.wait(), _LOOK)
                    await asyncio.sleep(_LULL)
        finally:
            for task in self._running.values():
                task.cancel()
            await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def states(self, board: str, path: str = "") -> tuple[CheckState, ...]:
        """Returns what each check last gave that a write to `path` would start, or to any file without a path."""
        states = []
        for check in self._checks:
            if check.covers(board) and (not path or check.matches(path)):
                written = await self._written(board, check)
                item = await self._last(board, check)
                told = told_of(item)
                revision = int(told.get("revision", 0))
                states.append(
                    CheckState(
                        check.name,
                        None if item is None else item.id,
                        revision,
                        told.get("ok") is True,
                        fresh=item is not None and (written is None or written.number <= revision),
                    )
                )
        return tuple(states)

    def _clean(self) -> None:
        """Removes what a server that was killed left behind."""
        for left in self._folder.glob("run-*"):
            shutil.rmtree(left, ignore_errors=True)

    async def _catch_up(self, board: str) -> None:
        """Opens hot issues that a server which was killed behind a RESULT item did not open."""
        for check in self._checks:
            item = await self._last(board, check) if check.covers(board) else None
            if item is not None and not await self._results.stands(board, check.name):
                await self._raise(board, check, item)

    async def _begin(self, board: str) -> None:
        for check in self._checks:
            known = (board, check.name)
            if check.covers(board) and known not in self._running and await self._due(board, check):
                task = asyncio.create_task(self._run(board, check), name=f"check {check.name} of {board}")
                self._running[known] = task
                task.add_done_callback(partial(self._done, known))

    def _done(self, known: tuple[str, str], task: asyncio.Task[None]) -> None:
        del self._running[known]
        if not task.cancelled():
            if (error := task.exception()) is not None:
                logger.error("check %s of board '%s' failed to run", known[1], known[0], exc_info=error)
            else:
                self._asked.set()  # a file may have been written meanwhile

    async def _due(self, board: str, check: Check) -> bool:
        written = await self._written(board, check)
        if written is None:
            return False
        return int(told_of(await self._last(board, check)).get("revision", 0)) < written.number

    async def _written(self, board: str, check: Check) -> Revision | None:
        """Returns the last revision of a file that a check is for; only revisions since the last call are read."""
        store = self._board.store
        newest = await store.artifact_history(board, "", 0, 1)
        head, found = self._known.get((board, check.name), (0, None))
        if newest and newest[0].number != head:
            if newest[0].number < head:  # a backup was restored
                head, found = 0, None
            found = await last_written(store, board, check.files, head) or found
            self._known[board, check.name] = newest[0].number, found
        return found

    async def _last(self, board: str, check: Check) -> Item | None:
        """Returns the RESULT item of the last run."""
        wanted = ItemQuery(
            types=(ItemType.RESULT,), tags=(_tag(check.name),), author=SYSTEM, zone=None, limit=1
        )
        return next(iter((await self._board.store.query(board, "", wanted)).items), None)

    async def _run(self, board: str, check: Check) -> None:
        """Runs a check on the present revision, unless another process does; and posts what it gave."""
        lease, holder = f"check:{board}:{check.name}", next(self._holders)
        async with self._room:
            if not await self._board.store.lease(lease, holder, check.seconds + 120.0):
                await asyncio.sleep(_LOOK)
                return
            try:
                if not await self._due(board, check):
                    return
                await in_thread(lambda: self._folder.mkdir(parents=True, exist_ok=True, mode=0o700))
                folder = Path(await in_thread(lambda: tempfile.mkdtemp(prefix="run-", dir=self._folder)))
                try:
                    revision, broken = await self._export(board, folder / "files")
                    outcome = (
                        Outcome(None, broken, 0.0, "")
                        if broken
                        else await run(check, folder / "files", self._free_bytes)
                    )
                finally:
                    await in_thread(lambda: shutil.rmtree(folder, ignore_errors=True))
                await self._post(board, check, revision, outcome)
            finally:
                await self._board.store.release(lease, holder)

    async def _export(self, board: str, top: Path) -> tuple[int, str]:
        """Writes the files of a board as they are; returns their revision, and why they cannot be exported, if so."""
        store = self._board.store
        await in_thread(lambda: top.mkdir())
        for _ in range(_ATTEMPTS):
            revision = (await store.artifact_history(board, "", 0, 1))[0].number
            files: list[Revision] = []
            while page := await store.artifacts(board, "", files[-1].path if files else "", MAX_PAGE):
                files += page
            if (size := sum(file.size for file in files)) > MAX_EXPORT:
                return (
                    revision,
                    f"the files have {size:,} bytes, more than the {MAX_EXPORT:,} that are exported",
                )
            if (await store.artifact_history(board, "", 0, 1))[0].number == revision:
                break
        for file in files:
            # A file that was deleted or made while the files were listed is as it was at the revision.
            with contextlib.suppress(UnknownReference):
                body = (await store.read_artifact(board, file.path, revision)).body
                await in_thread(partial(_put, top / file.path, body))
        return revision, ""

    async def _post(self, board: str, check: Check, revision: int, outcome: Outcome) -> None:
        """Posts the RESULT item of a run in the place of the former one, and opens or resolves the hot issue."""
        output = self._shown(outcome.output)
        told = {
            "name": check.name,
            "revision": revision,
            "files": check.files,
            "ok": outcome.ok,
            "exit": outcome.exit,
            "seconds": outcome.seconds,
        }
        head = f"{check.name} {'passed' if outcome.ok else 'failed'} at rev {revision}"
        lines = [line for line in output.split("\n") if line.strip()]
        if outcome.ok:
            text = f"{head} in {outcome.seconds:g} s" + (f": {lines[-1][:_LINE]}" if lines else "")
            # Resolved first: whoever is told that it passed finds no hot issue any more.
            await self._results.note(SYSTEM, board, check.name, "", "")
        else:
            text = f"{head} after {outcome.seconds:g} s: {outcome.why}" + (
                f"\n{_ends(output)}" if output else ""
            )
            line = f", {_telling(lines)[:_LINE]}" if lines else ""
            told["issue"] = f"rev {revision}, {outcome.why}{line}"
        former = await self._last(board, check)
        fields = PostFields(
            text=text,
            type="RESULT",
            importance=2,
            tags=[_tag(check.name)],
            metadata={"check": told},
            edges={"supersedes": [former.id]} if former is not None and former.text else None,
        )
        await self._raise(board, check, (await self._board.record(board, [fields])).items[0])

    async def _raise(self, board: str, check: Check, item: Item) -> None:
        """Opens or rewrites the hot issue of a check if its last RESULT item, `item`, says that it failed."""
        said = str(told_of(item).get("issue", ""))
        if said:
            book = await self._board.store.rules(board, "")
            rules = [rule.id for rule in book.rules if rule.check == check.name]
            asks = f" (asked for by {', '.join(rules)})" if rules else ""
            said = f"{said}{asks}; {item.id} has the output"
            await self._results.note(SYSTEM, board, check.name, "", said, [item.id])

    def _shown(self, output: str) -> str:
        """Returns an output without secrets; nothing of it if the operator has texts with secrets refused."""
        try:
            return self._secrets.checked(output)[0]
        except Refused:
            return "(the output holds what looks like a secret, so it is not shown)"


def _tag(name: str) -> str:
    return f"check:{name}"


def _put(place: Path, body: bytes) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(body)


def _ends(output: str) -> str:
    """Returns the beginning and the end of an output, which tell most."""
    if len(output) <= _FIRST + _LAST:
        return output
    left = len(output) - _FIRST - _LAST
    return f"{output[:_FIRST]}\n… {left:,} characters left out …\n{output[-_LAST:]}"


def _telling(lines: Sequence[str]) -> str:
    """Returns the line of an output that tells most: the last that names an error, else a failure, else the last."""
    for sign in _SIGNS:
        if wanted := [line for line in lines if sign.search(line)]:
            return wanted[-1].strip()
    return lines[-1].strip()
