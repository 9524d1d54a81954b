"""Rules on which files there may be, held by the server itself: `absent:GLOB` and `exists:GLOB`.

A violation is a hot issue until no file matches, or one does.
"""

from __future__ import annotations

from typing import Final

from blackboard_mcp.protocols.rules import ABSENT, EXISTS, Rule
from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.protocols.workspace import MAX_PAGE, file_glob

from .blackboard import Blackboard
from .results import Results

_NAMED: Final = 3
_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that the files of a board violate: how, and the id of the hot issue."""

    text: str
    item: str


class RuleChecks:
    """Looks whether files keep the rules that name a check of the server's own."""

    def __init__(self, board: Blackboard) -> None:
        self._board = board
        self._results = Results(board)

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

    async def over(self, board: str, check: str) -> None:
        """Says that no rule names a check any more: its hot issue is resolved."""
        await self._results.note(board, check, "", "")

    async def _hold(self, board: str, check: str, rules: str) -> Violation | None:
        for _ in range(_ATTEMPTS):
            said = await self._fault(board, check, rules)
            issue = await self._results.note(board, check, "", said)
            # Another agent may have written meanwhile, and the last report must be of what is there now.
            if await self._fault(board, check, rules) == said:
                break
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
