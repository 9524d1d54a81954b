"""Evidence that goes stale: results of the operator's checks hold for the revision of the files that they ran on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from blackboard_mcp.protocols.errors import Conflict
from blackboard_mcp.protocols.items import Item, parse_ref
from blackboard_mcp.protocols.names import SYSTEM
from blackboard_mcp.protocols.workspace import MAX_PAGE, Revision, file_glob

from .blackboard import Blackboard

if TYPE_CHECKING:
    from blackboard_mcp.protocols.store import BoardStore

_PAGES: Final = 20


def told_of(item: Item | None) -> Mapping[str, Any]:
    """Returns what the metadata of a RESULT item tells of its run."""
    told = None if item is None else item.metadata.get("check")
    return told if isinstance(told, dict) else {}


async def check_fresh(board: Blackboard, agent: str, name: str, numbers: Sequence[int]) -> None:
    """Checks that none of the items is the result of a check whose files were written since.

    Raises:
        Conflict: one is; its facts carry the path and revision of the write.
    """
    if not numbers:
        return
    refs = [parse_ref(str(number)) for number in numbers]
    for item in (await board.store.read(name, agent, refs, [])).items:
        told = told_of(item) if item.author == SYSTEM else {}
        if told:
            written = await last_written(board.store, name, str(told["files"]))
            if written is not None and written.number > int(told["revision"]):
                check, number = told["name"], written.number
                raise Conflict(
                    f"{item.id} is what {check} gave at rev {told['revision']}, and {written.path} was written in rev "
                    f"{number} since. Nothing was changed; {check} runs by itself: wait() tells its new result, which "
                    "you can cite instead.",
                    path=written.path,
                    revision=number,
                )


async def last_written(store: BoardStore, board: str, glob: str, after: int = 0) -> Revision | None:
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
