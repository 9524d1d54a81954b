"""The operator's checks on the files of boards: run after writes, with RESULT items and hot issues for what they give.

A check runs on an exported copy of one revision. Of several processes on one data folder, one runs it. The revisions
and its last RESULT item tell whether it is due, so nothing is forgotten when a server dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from blackboard_mcp.protocols.board import Board, BoardConfig, Lifecycle
from blackboard_mcp.protocols.errors import BlackboardError, Conflict, InvalidInput, Refused, UnknownReference
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.items import FINISHED, Item, ItemType, Status, Visibility
from blackboard_mcp.protocols.names import SYSTEM
from blackboard_mcp.protocols.rules import ABSENT, EXISTS
from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.protocols.workspace import MAX_PAGE, ArtifactContent, Revision, file_glob
from blackboard_mcp.storage.sqlite.free_space import kept_free

from ..checks.running import Check, Outcome, run
from ..input.posts import PostFields
from ..input.secrets import Secrets
from ..limits.turns import in_thread
from .blackboard import Blackboard
from .results import Results
from .workspace import OUTPUT

if TYPE_CHECKING:
    from blackboard_mcp.protocols.store import BoardStore

logger = logging.getLogger(__name__)

PARALLEL: Final = 2
"""Most checks that a server runs at once."""
MAX_EXPORT: Final = 1_000_000_000
"""Most bytes of files that are exported for a run."""
_LULL: Final = 0.3
"""Seconds after a write in which further writes join the same run."""
_LOOK: Final = 15.0
"""Seconds between two looks for writes of other processes."""
_HELD: Final = 30.0
"""Seconds after which another process may run a check whose process died; who runs it renews its lease meanwhile."""
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


@dataclass(frozen=True, slots=True)
class CheckRun:
    """What a run of a check gave: its RESULT item, the revision, and the whole output that is kept."""

    name: str
    item: str
    revision: int
    ok: bool
    seconds: float
    why: str
    output: str


class Checks:
    """Runs the operator's checks, and tells what they gave.

    `folder` has a copy of the files while a check runs, and the whole output of each check's last run.
    """

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
        self._written_on: set[str] = set()
        """The boards on which a file was written, or a check ended, since the last look."""
        self._running: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._known: dict[tuple[str, str], tuple[int, Revision | None]] = {}
        self._refused: dict[tuple[str, str], tuple[Revision | None, BoardConfig, int | None]] = {}
        """The last write, settings and pressure of boards that took no result of a check: it runs there again once
        one of them has changed."""
        self._places: dict[str, int] = {}
        """The sequences at which nothing was due on boards."""
        self._room = asyncio.Semaphore(PARALLEL)

    def poke(self, board: str) -> None:
        """Says that a file of a board was written."""
        self._written_on.add(board)
        self._asked.set()

    async def run(self) -> None:
        """Runs the checks that are due, until cancelled; what runs then is ended."""
        await in_thread(self._clean)
        time = asyncio.get_running_loop().time
        due = time()
        try:
            while True:
                self._asked.clear()
                asked, self._written_on = sorted(self._written_on), set()
                whole = time() >= due
                try:
                    if whole:
                        due = time() + _LOOK
                    for board in await self._filed() if whole else await self._found(asked):
                        await self._look(board)
                except (BlackboardError, OSError):
                    logger.exception("checks wait")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(due):
                        await self._asked.wait()
                    await asyncio.sleep(_LULL)
        finally:
            for task in self._running.values():
                task.cancel()
            await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def states(self, agent: str, board: str, path: str = "") -> tuple[CheckState, ...]:
        """Returns what each check last gave that a write to `path` would start, or to any file without a path.

        What a read rule keeps from the agent is as if it had not been.
        """
        states = []
        for check in self._checks:
            if check.covers(board) and (not path or check.matches(path)):
                written = await self._written(board, check)
                item = await self._last(board, check.name, agent)
                if item is None and await self._last(board, check.name) is not None:
                    continue
                told = _told_of(item)
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

    async def run_now(self, board: str, name: str) -> CheckRun:
        """Runs a check on the files of a board as they are now, whether it is due or not.

        Raises:
            InvalidInput: no check of this name is for the board, or the board has no files.
            Conflict: a server is running it.
        """
        check = next((one for one in self._checks if one.name == name and one.covers(board)), None)
        if check is None:
            there = ", ".join(one.name for one in self._checks if one.covers(board)) or "none"
            raise InvalidInput(f"No check '{name}' is set for board {board}; there are: {there}.")
        if not await self._board.store.artifact_history(board, "", 0, 1):
            raise InvalidInput(f"Board {board} has no files yet, so there is nothing to check.")
        done = await self._once(board, check, by_hand=True)
        if done is None:
            raise Conflict(f"A server is running {name} on board {board} now. Try again when it has ended.")
        return done

    async def end(self, board: str, name: str) -> Item:
        """Resolves the hot issue of a check that the settings do not have for the board, and returns it.

        One under debate is returned as it is, and ends with the debate.

        Raises:
            InvalidInput: the settings have the check for the board, or a rule asks for it.
            UnknownReference: it has no open hot issue.
            Refused: the board takes no posts.
        """
        set_here = any(check.name == name and check.covers(board) for check in self._checks)
        if set_here or name.startswith((ABSENT, EXISTS)):
            raise InvalidInput(
                f"The settings or a rule have {name} checked on board {board}. Its hot issue ends as the check passes, "
                "or once none of them names it. Nothing was changed."
            )
        issue = await self._results.issue(board, name)
        if issue is None or issue.status in FINISHED:
            raise UnknownReference(f"No hot issue of a check '{name[:40]}' is open on board {board}.")
        ended = await self._results.note(board, name, "", "") if await self._open(board) else None
        if ended is None or ended.status not in (*FINISHED, Status.DEBATED):
            raise Refused(f"Board {board} takes no posts. Nothing was changed.")
        return ended

    async def output(self, agent: str, board: str, name: str) -> ArtifactContent:
        """Returns the whole output of a check's last run, as a file with the path `check:NAME`.

        Raises:
            UnknownReference: there is none that the agent may see.
        """
        item = await self._last(board, name, agent)
        newest = await self._last(board, name)
        kept = None
        # Only the output of the newest run is kept, and the agent may see the result of an older one alone.
        if item is not None and newest is not None and item.id == newest.id:
            kept = await in_thread(lambda: _read(self._place(board, name)))
        if item is None or kept is None or kept[0] != _told_of(item).get("revision"):
            ran = f"; another may have it, and {item.id} has its beginning and its end" if item else ""
            raise UnknownReference(
                f"No output of a check '{name[:40]}' is kept at this server{ran}. artifact_list() tells the checks "
                "that ran."
            )
        told, body = kept
        lines = body.count(b"\n") + (not body.endswith(b"\n")) if body else 0
        revision = Revision(
            told, f"{OUTPUT}{name}", "written", 0, len(body), lines, "", SYSTEM, "", item.created_at
        )
        return ArtifactContent(revision, body)

    async def _filed(self) -> list[Board]:
        """Returns all boards that have files."""
        filed = frozenset(await self._board.store.boards_with_artifacts())
        return [board for board in await self._board.store.boards() if board.id in filed] if filed else []

    async def _found(self, names: Sequence[str]) -> list[Board]:
        """Returns the boards of these names that are there."""
        found = [await self._board.store.find_board(name) for name in names]
        return [board for board in found if board is not None]

    async def _open(self, board: str) -> Board | None:
        """Returns the board if it is there and takes posts."""
        found = await self._board.store.find_board(board)
        return found if found is not None and found.lifecycle is Lifecycle.OPEN else None

    def _place(self, board: str, name: str) -> Path:
        """Returns the file with the output of a check's last run."""
        return self._folder / f"output-{hashlib.sha256(f'{board}/{name}'.encode()).hexdigest()[:24]}"

    def _clean(self) -> None:
        """Removes what a server that was killed left behind, and nothing that another process is using."""
        for left in self._folder.glob("run-*"):
            with contextlib.suppress(OSError):
                lock = _locked(left, wait=False)
                shutil.rmtree(left, ignore_errors=True)
                os.close(lock)

    async def _look(self, board: Board) -> None:
        """Begins what is due on a board that takes posts; what goes wrong there keeps no other board waiting."""
        if board.lifecycle is not Lifecycle.OPEN or self._places.get(board.id) == board.seq:
            return
        try:
            await self._catch_up(board.id)
            if await self._begin(board):
                self._places[board.id] = board.seq
        except Exception:
            logger.exception("checks of board '%s' wait", board.id)

    async def _catch_up(self, board: str) -> None:
        """Opens hot issues that a server which was killed behind a RESULT item did not open."""
        for check in self._checks:
            item = await self._last(board, check.name) if check.covers(board) else None
            if item is not None and _told_of(item).get("issue"):
                issue = await self._results.issue(board, check.name)
                if issue is None or issue.seq < item.seq:
                    await self._raise(board, check, item)

    async def _begin(self, board: Board) -> bool:
        """Begins what is due, and tells whether nothing is, and nothing runs."""
        done = True
        for check in self._checks:
            known = (board.id, check.name)
            if known in self._running:
                done = False
            elif check.covers(board.id) and await self._due(board.id, check):
                written = await self._written(board.id, check)
                if self._refused.get(known) != (written, board.config, board.pressure):
                    done = False
                    work = self._run(board.id, check, written)
                    task = asyncio.create_task(work, name=f"check {check.name} of {board.id}")
                    self._running[known] = task
                    task.add_done_callback(partial(self._done, known))
        return done

    def _done(self, known: tuple[str, str], task: asyncio.Task[None]) -> None:
        del self._running[known]
        if not task.cancelled():
            if (error := task.exception()) is not None:
                logger.error("check %s of board '%s' failed to run", known[1], known[0], exc_info=error)
            else:
                self.poke(known[0])  # a file may have been written meanwhile

    async def _due(self, board: str, check: Check) -> bool:
        written = await self._written(board, check)
        if written is None:
            return False
        return int(_told_of(await self._last(board, check.name)).get("revision", 0)) < written.number

    async def _written(self, board: str, check: Check) -> Revision | None:
        """Returns the last revision of a file that a check is for; only revisions since the last call are read."""
        store = self._board.store
        newest = await store.artifact_history(board, "", 0, 1)
        head, found = self._known.get((board, check.name), (0, None))
        if newest and newest[0].number != head:
            if newest[0].number < head:  # a backup was restored
                head, found = 0, None
            found = await _last_written(store, board, check.files, head) or found
            self._known[board, check.name] = newest[0].number, found
        return found

    async def _last(self, board: str, name: str, agent: str = SYSTEM) -> Item | None:
        """Returns the RESULT item of the last run, if an agent may see it. Its author always may."""
        wanted = ItemQuery(types=(ItemType.RESULT,), tags=(_tag(name),), author=SYSTEM, zone=None, limit=1)
        return next(iter((await self._board.store.query(board, agent, wanted)).items), None)

    async def _run(self, board: str, check: Check, written: Revision | None) -> None:
        async with self._room:
            try:
                if await self._once(board, check) is None:
                    await asyncio.sleep(_LOOK)
                self._refused.pop((board, check.name), None)
            except Refused as error:
                logger.warning("board '%s' takes no result of check %s: %s", board, check.name, error)
                if (found := await self._open(board)) is not None:
                    self._refused[board, check.name] = (written, found.config, found.pressure)

    async def _once(self, board: str, check: Check, *, by_hand: bool = False) -> CheckRun | None:
        """Runs a check on the present revision, if it is due or `by_hand`, and posts what it gave.

        Returns `None` if it was not due, or if another process is at it.
        """
        lease, holder = f"check:{board}:{check.name}", next(self._holders)
        if not await self._board.store.lease(lease, holder, _HELD):
            return None
        renewing = asyncio.create_task(self._renew(lease, holder))
        try:
            if not by_hand and not await self._due(board, check):
                return None
            folder, lock = await in_thread(partial(_run_folder, self._folder))
            try:
                kept = kept_free(shutil.disk_usage(folder).total, self._free_bytes)
                revision, broken = await self._export(board, folder / "files")
                outcome = (
                    Outcome(None, broken, 0.0, "") if broken else await run(check, folder / "files", kept)
                )
            finally:
                await in_thread(lambda: shutil.rmtree(folder, ignore_errors=True))
                os.close(lock)
            return await self._post(board, check, revision, outcome)
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
            await self._board.store.release(lease, holder)

    async def _renew(self, lease: str, holder: str) -> None:
        while True:
            await asyncio.sleep(_HELD / 3)
            with contextlib.suppress(BlackboardError):
                await self._board.store.lease(lease, holder, _HELD)

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

    async def _post(self, board: str, check: Check, revision: int, outcome: Outcome) -> CheckRun:
        """Posts the RESULT item of a run in the place of the former one, and opens or resolves the hot issue."""
        output = self._shown(outcome.output)
        await in_thread(partial(_keep, self._place(board, check.name), revision, output))
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
            await self._results.note(board, check.name, "", "")
        else:
            text = f"{head} after {outcome.seconds:g} s: {outcome.why}" + (
                f"\n{_ends(output, check.name)}" if output else ""
            )
            line = f", {_telling(lines)[:_LINE]}" if lines else ""
            told["issue"] = f"rev {revision}, {outcome.why}{line}"
        former = await self._last(board, check.name)
        fields = PostFields(
            text=text,
            type="RESULT",
            importance=2,
            tags=[_tag(check.name)],
            metadata={"check": told},
            edges={"supersedes": [former.id]} if former is not None and former.text else None,
        )
        item = (await self._board.record(board, [fields])).items[0]
        await self._raise(board, check, item)
        return CheckRun(check.name, item.id, revision, outcome.ok, outcome.seconds, outcome.why, output)

    async def _raise(self, board: str, check: Check, item: Item) -> None:
        """Opens or rewrites the hot issue of a check if its last RESULT item, `item`, says that it failed.

        It tells the revision alone where a read rule keeps that item.
        """
        said = str(_told_of(item).get("issue", ""))
        if said:
            book = await self._board.store.rules(board, "")
            rules = [rule.id for rule in book.rules if rule.check == check.name]
            asks = f" (asked for by {', '.join(rules)})" if rules else ""
            if item.visibility is Visibility.BOARD:
                said, cites = f"{said}{asks}; {item.id} has the output", [item.id]
            else:  # everybody reads the hot issue
                said, cites = f"rev {_told_of(item).get('revision')}{asks}", []
            await self._results.note(board, check.name, "", said, cites)

    def _shown(self, output: str) -> str:
        """Returns an output without secrets; nothing of it if the operator has texts with secrets refused."""
        try:
            return self._secrets.checked(output)[0]
        except Refused:
            return "(the output holds what looks like a secret, so it is not shown)"


def _told_of(item: Item | None) -> Mapping[str, Any]:
    """Returns what the metadata of a RESULT item tells of its run."""
    told = None if item is None else item.metadata.get("check")
    return told if isinstance(told, dict) else {}


async def _last_written(store: BoardStore, board: str, glob: str, after: int = 0) -> Revision | None:
    """Returns the last revision of a file that matches a glob, of those above `after`, the last twenty thousand."""
    matches, before = file_glob(glob), 0
    limit = 1 if glob == "**" else 20
    for _ in range(_PAGES):
        page = await store.artifact_history(board, "", before, limit)
        for revision in page:
            if revision.number <= after:
                return None
            if matches(revision.path):
                return revision
        if len(page) < limit:
            return None
        before, limit = page[-1].number, MAX_PAGE
    return None


def _tag(name: str) -> str:
    return f"check:{name}"


def _run_folder(top: Path) -> tuple[Path, int]:
    """Makes and locks a folder for one run; returns it with the open lock."""
    top.mkdir(parents=True, exist_ok=True, mode=0o700)
    while True:
        folder = Path(tempfile.mkdtemp(prefix="run-", dir=top))
        with contextlib.suppress(FileNotFoundError):  # a server that starts may remove it before it is locked
            lock = _locked(folder)
            if folder.exists():
                return folder, lock
            os.close(lock)


def _locked(folder: Path, *, wait: bool = True) -> int:
    """Opens a folder and locks it; the system unlocks it as its process ends.

    Raises:
        OSError: it is gone; or another process has locked it, and this one does not `wait`.
    """
    import fcntl

    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


def _put(place: Path, body: bytes) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(body)


def _keep(place: Path, revision: int, output: str) -> None:
    """Keeps an output behind a line on its run, in the place of the former one."""
    new = place.with_suffix(".new")
    new.write_bytes(json.dumps({"revision": revision}).encode() + b"\n" + output.encode("utf-8", "replace"))
    os.replace(new, place)


def _read(place: Path) -> tuple[int, bytes] | None:
    """Returns the revision and the output that are kept in a file, if there is one."""
    try:
        told, _, body = place.read_bytes().partition(b"\n")
        return int(json.loads(told)["revision"]), body
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _ends(output: str, name: str) -> str:
    """Returns the beginning and the end of an output, which tell most."""
    if len(output) <= _FIRST + _LAST:
        return output
    left = len(output) - _FIRST - _LAST
    gap = f'… {left:,} characters left out; artifact_read(path="{OUTPUT}{name}") has all …'
    return f"{output[:_FIRST]}\n{gap}\n{output[-_LAST:]}"


def _telling(lines: Sequence[str]) -> str:
    """Returns the line of an output that tells most: the last that names an error, else a failure, else the last."""
    for sign in _SIGNS:
        if wanted := [line for line in lines if sign.search(line)]:
            return wanted[-1].strip()
    return lines[-1].strip()
