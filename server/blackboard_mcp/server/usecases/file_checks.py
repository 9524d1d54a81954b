"""The server's own checks of files: their syntax, and rules with the checks `absent:GLOB` and `exists:GLOB`.

A finding is a hot issue until the file can be read, no file matches, or one does. The write of a file ends before
the server looks at it, so a server that is killed between leaves that to itself or to others, which `run` does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from blackboard_mcp.protocols.board import Board
from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.protocols.events import SYSTEM
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.items import ItemType, Status
from blackboard_mcp.protocols.rules import ABSENT, EXISTS, Rule
from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.protocols.workspace import MAX_PAGE, file_glob

from ..input.syntax import fault_of, kind_of
from ..limits.turns import in_thread
from .blackboard import Blackboard
from .results import Results

logger = logging.getLogger(__name__)

SYNTAX: Final = "syntax"
LOOK_SECONDS: Final = 15.0
"""Least seconds between two looks for writes that nobody looked at."""
_IDLE_SECONDS: Final = 60.0
_BACK: Final = 50
"""Most revisions of a board that the first look goes back: a server that is killed has few writes under way."""
_ISSUES: Final = 200
"""Most open hot issues that the first look looks at."""
_NAMED: Final = 3
_ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that the files of a board violate: how, and the id of the hot issue."""

    text: str
    item: str


@dataclass(frozen=True, slots=True)
class Fault:
    """An error in the syntax of a file, and the id of its hot issue."""

    text: str
    item: str


@dataclass(frozen=True, slots=True)
class Look:
    """The findings of a look: none if it was not `done`."""

    fault: Fault | None = None
    violations: tuple[Violation, ...] = ()
    done: bool = True


class FileChecks:
    """Looks at files of the kinds in `syntax`, and at the rules that name a check of the server's own."""

    def __init__(self, board: Blackboard, syntax: Sequence[str] = ()) -> None:
        self._board = board
        self._syntax = frozenset(syntax)
        self._results = Results(board)
        self._heads: dict[str, tuple[int | None, int]] = {}
        self._places: dict[str, int] = {}
        """The sequences that boards had when they were last looked at."""

    async def run(self, moved: Callable[[str], None] = lambda board: None) -> None:
        """Looks at what was written and not looked at, as by a server that was killed, until cancelled.

        `moved` is called with each board that has new revisions, also of other servers.
        """
        while True:
            seen = self._board.store.changes()
            try:
                await self.sweep(moved)
            except BlackboardError as error:
                logger.warning("looks at files wait: %s", error)
            await asyncio.sleep(LOOK_SECONDS)
            await self._board.store.wait_for_change(seen, _IDLE_SECONDS)

    async def sweep(self, moved: Callable[[str], None] = lambda board: None) -> None:
        """Looks at the boards with files that changed since the last sweep, as `run` does."""
        store, unlooked = self._board.store, self._board.unlooked
        filed = {*await store.boards_with_artifacts(), *unlooked}
        for board in await store.boards():
            if board.id in filed and (board.seq != self._places.get(board.id) or board.id in unlooked):
                await self._round(board, moved)

    async def _round(self, board: Board, moved: Callable[[str], None]) -> None:
        """Looks at one board; what goes wrong there keeps no other board waiting."""
        try:
            if await self.catch_up(board.id):
                moved(board.id)
            self._places[board.id] = board.seq
        except Exception as error:
            logger.warning("the files of board '%s' are not looked at yet", board.id, exc_info=error)

    async def catch_up(self, board: str) -> bool:
        """Looks at the files of a board that were written since the last call, if any, and at the rules.

        Returns whether any were.
        The first call looks at the last writes, and at the hot issues that are open. Those on the syntax of a kind
        that is not looked for any more are resolved.
        """
        newest = await self._board.store.artifact_history(board, "", 0, 1)
        head = newest[0].number if newest else 0
        book = await self._board.store.rules(board, "")
        seen, revision = self._heads.get(board, (None, 0))
        if seen == head and revision == book.revision and board not in self._board.unlooked:
            return False
        paths = await self._written(board, head - _BACK if seen is None or seen > head else seen)
        if seen is None:
            paths |= await self._at_fault(board)
        for path in sorted(paths):
            if kind_of(path) in self._syntax:
                await self.fault(board, path)
            else:
                await self._results.note(board, SYNTAX, path, "")
        self._board.unlooked.discard(board)
        await self.held(board)
        self._heads[board] = head, book.revision
        return seen != head

    async def _written(self, board: str, after: int) -> set[str]:
        """Returns the paths of the revisions after a number, those whose syntax is looked for."""
        paths: set[str] = set()
        before = 0
        while True:
            page = await self._board.store.artifact_history(board, "", before, MAX_PAGE)
            paths |= {one.path for one in page if one.number > after and kind_of(one.path) in self._syntax}
            if len(page) < MAX_PAGE or page[-1].number <= after:
                return paths
            before = page[-1].number

    async def _at_fault(self, board: str) -> set[str]:
        """Returns the paths of files that an open hot issue says cannot be read."""
        wanted = ItemQuery(
            types=(ItemType.HOT_ISSUE,), statuses=(Status.ACTIVE,), author=SYSTEM, limit=_ISSUES
        )
        found = (await self._board.store.query(board, SYSTEM, wanted)).items
        results = [item.metadata.get("result") for item in found]
        told = [result for result in results if isinstance(result, dict) and result.get("check") == SYNTAX]
        return {str(result.get("subject")) for result in told}

    async def fault(self, board: str, path: str) -> Fault | None:
        """Looks at the syntax of a file as it is now, and reports the result; returns what is wrong with it.

        A file that does not exist any more has no fault, nor has one of a kind that is not looked for.
        """
        if kind_of(path) not in self._syntax:
            return None
        for _ in range(_ATTEMPTS):
            found = await self._board.store.artifact_history(board, path, 0, 1)
            if not found:
                await self._results.note(board, SYNTAX, path, "")
                return None
            now = found[0]
            said = ""
            if now.op != "deleted":
                content = await self._board.store.read_artifact(board, path, now.number)
                said = await in_thread(partial(fault_of, kind_of(path), content.body))
            text = f"rev {now.number}: {said}" if said else ""
            issue = await self._results.note(board, SYNTAX, path, text)
            # Another write may have come meanwhile, and its result must be the last one.
            if (await self._board.store.artifact_history(board, path, 0, 1))[0].number == now.number:
                break
        return Fault(said, issue.id) if said and issue is not None else None

    async def look(self, board: str, path: str = "", *, ruled: bool = True) -> Look:
        """Looks at the file at `path` after its write, or at the rules after a change of them.

        `ruled` tells whether any rule names a check of the server's own. An error here does not undo the write: `run`
        looks later.
        """
        try:
            fault = await self.fault(board, path) if path else None
            return Look(fault, tuple(await self.held(board, path)) if ruled else ())
        except BlackboardError as error:
            logger.warning("%s of board '%s' was not looked at yet: %s", path or "rules", board, error)
            self._board.unlooked.add(board)
            return Look(done=False)

    async def held(self, board: str, path: str = "") -> list[Violation]:
        """Looks at the rules for the file at `path`, or at all, and reports; returns violations."""
        found = []
        book = await self._board.store.rules(board, "")
        for check in dict.fromkeys(rule.check for rule in book.rules if is_own(rule)):
            if not path or file_glob(check.partition(":")[2])(path):
                rules = [rule.id for rule in book.rules if rule.check == check]
                violation = await self._hold(board, check, ", ".join(rules))
                found += [] if violation is None else [violation]
        return found

    async def _hold(self, board: str, check: str, rules: str) -> Violation | None:
        for _ in range(_ATTEMPTS):
            said = await self._fault(board, check, rules)
            issue = await self._results.note(board, check, "", said)
            # Another agent may have written meanwhile, and the last report must be of what is there now.
            if await self._fault(board, check, rules) == said:
                break
        if said and not any(rule.check == check for rule in (await self._board.store.rules(board, "")).rules):
            said, issue = "", await self._results.note(board, check, "", "")  # the rule ended meanwhile
        return Violation(said, issue.id) if said and issue is not None else None

    async def _fault(self, board: str, check: str, rules: str) -> str:
        """Returns how files violate a check; empty if they do not."""
        kept = check.startswith(EXISTS)
        named = await self._matching(board, check.partition(":")[2], 1 if kept else _NAMED + 1)
        if kept:
            return "" if named else f"no file matches, and {rules} asks for one"
        more = ", …" if len(named) > _NAMED else ""
        return f"there is {', '.join(named[:_NAMED])}{more}, which {rules} forbids" if named else ""

    async def _matching(self, board: str, glob: str, most: int) -> list[str]:
        """Returns paths of files that match a glob, the first `most`."""
        store, matches = self._board.store, file_glob(glob)
        # First where the glob says; then everywhere, since a folder may be spelt in another way.
        for folder in dict.fromkeys((glob.split("*", 1)[0].rpartition("/")[0], "")):
            named: list[str] = []
            after = ""
            while len(named) < most and (page := await store.artifacts(board, folder, after, MAX_PAGE)):
                named += [file.path for file in page if matches(file.path)]
                after = page[-1].path
            if named:
                break
        return named[:most]


def is_own(rule: Rule) -> bool:
    """Tells whether a rule names a check of the server's own."""
    return rule.check.startswith((ABSENT, EXISTS))
