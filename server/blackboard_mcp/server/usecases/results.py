"""Results of checks: a failure is a hot issue until the same check passes for the same subject."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from blackboard_mcp.protocols.answers import Attention
from blackboard_mcp.protocols.errors import UnknownReference
from blackboard_mcp.protocols.items import FINISHED, Item, parse_ref
from blackboard_mcp.protocols.values import dataclass

from ..input.posts import PostFields
from .blackboard import Blackboard


@dataclass(frozen=True, slots=True)
class Reported:
    """The hot issue of a check and its subject after a report; `item` is `None` if the check never failed."""

    item: Item | None
    seq: int
    attention: Attention


class Results:
    """Use cases for results of checks."""

    def __init__(self, board: Blackboard) -> None:
        self._board = board

    async def report(
        self,
        agent: str,
        board: str | None,
        check: str,
        subject: str,
        *,
        ok: bool,
        text: str = "",
        cites: Sequence[str] = (),
        once_key: str | None = None,
    ) -> Reported:
        """Records the result of a check. A failure opens, rewrites or reopens its hot issue, a pass resolves it.

        The last result stands in the metadata of the hot issue.

        Raises:
            UnknownReference: a cited item does not exist.
            Refused: the hot issue is under debate.
        """
        name = await self._board.board_of(board, agent)
        refs = [parse_ref(cited) for cited in cites]
        found = {item.number for item in (await self._board.store.read(name, agent, refs, [])).items}
        for ref, cited in zip(refs, cites, strict=True):
            if ref.number not in found:
                raise UnknownReference(f"There is no {cited} on '{name}'. Nothing was changed.")
        key = issue_key(check, subject)
        result = {"check": check, "subject": subject, "ok": ok, "cites": list(cites)}
        if ok:
            issue = await self._issue(name, agent, key)
            if issue is not None and issue.status not in FINISHED:
                metadata = {"result": {**result, "text": text}}
                fields = PostFields(id=issue.id, status="RESOLVED", metadata=metadata)
                await self._board.post(agent, name, [fields], once_key)
        else:
            said = f"{check} fails{f' for {subject}' if subject else ''}{f': {text}' if text else ''}"
            fields = PostFields(
                key=key, text=said, type="HOT_ISSUE", metadata={"result": result}, visibility="board"
            )
            await self._board.post(agent, name, [fields], once_key)
        issue = await self._issue(name, agent, key)
        shown = [] if issue is None else [issue.number]
        attention, seq = await self._board.attention(agent, name, items=shown)
        return Reported(issue, seq, attention)

    async def _issue(self, board: str, agent: str, key: str) -> Item | None:
        found = await self._board.store.read(board, "", [], [key])
        return next((item for item in found.items if not item.deleted), None)


def issue_key(check: str, subject: str) -> str:
    """Returns the key of the hot issue of a check and a subject, the same for every reporter."""
    named = f"{check}\0{subject}".encode()
    return f"result:{hashlib.sha256(named).hexdigest()[:16]}"
