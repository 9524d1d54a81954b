"""Results of checks: a failure is a hot issue until the same check passes for the same subject."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from blackboard_mcp.protocols.answers import Attention, Once
from blackboard_mcp.protocols.errors import Refused, UnknownReference
from blackboard_mcp.protocols.items import FINISHED, Item, Status, check_letters, parse_ref
from blackboard_mcp.protocols.names import SYSTEM
from blackboard_mcp.protocols.rules import ABSENT, EXISTS
from blackboard_mcp.protocols.values import dataclass

from ..input.idempotency import once_of
from ..input.posts import PostFields
from .blackboard import Blackboard

logger = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reported:
    """The hot issue of a check and its subject after a report; `item` is `None` if the check never failed."""

    item: Item | None
    seq: int
    attention: Attention


class Results:
    """Use cases for results of checks. Agents report nothing for those that the server runs."""

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
        once_key: str | Once | None = None,
    ) -> Reported:
        """Records the result of a check. A failure opens, rewrites or reopens its hot issue, a pass resolves it.

        The server reports in its own name, `SYSTEM`, for the checks that it runs. The last result stands in the
        metadata of the hot issue.

        Raises:
            UnknownReference: a cited item does not exist.
            Refused: the hot issue is under debate, or the server itself runs the check.
        """
        name = board if agent == SYSTEM and board is not None else await self._board.board_of(board, agent)
        if agent != SYSTEM and self.is_own(name, check):
            raise Refused(
                f"The server runs {check} itself after each write to the files that it is for. Nothing was changed; "
                "its hot issue stands in every view while it fails, and goes when it passes."
            )
        return await self._report(
            agent, name, check, subject, ok=ok, text=text, cites=cites, once_key=once_key
        )

    def is_own(self, board: str, check: str) -> bool:
        """Tells whether the server runs a check itself on a board, so that nobody reports its results there."""
        boards = self._board.checks.get(check)
        return (boards is not None and (not boards or board in boards)) or check.startswith((ABSENT, EXISTS))

    async def _report(
        self,
        agent: str,
        name: str,
        check: str,
        subject: str,
        *,
        ok: bool,
        text: str,
        cites: Sequence[str],
        once_key: str | Once | None = None,
    ) -> Reported:
        refs = [parse_ref(cited) for cited in cites]
        cited_ = (await self._board.store.read(name, agent, refs, [])).items
        found = {item.number: item.type for item in cited_}
        check_letters(refs, found)
        for ref, cited in zip(refs, cites, strict=True):
            if ref.number not in found:
                raise UnknownReference(f"There is no {cited} on '{name}'. Nothing was changed.")
        key = issue_key(check, subject)
        given = {"check": check, "subject": subject, "ok": ok, "text": text, "cites": list(cites)}
        once = once_key if isinstance(once_key, Once) else once_of(once_key, "report_result", **given)
        if once is None or await self._board.store.recall(name, agent, once) is None:
            await self._record(name, agent, key, given, once)
        issue = await self._issue(name, agent, key)
        shown = [] if issue is None else [issue.number]
        attention, seq = await self._board.attention(agent, name, items=shown)
        return Reported(issue, seq, attention)

    async def _record(
        self, board: str, agent: str, key: str, given: dict[str, Any], once: Once | None
    ) -> None:
        """Posts what a result changes: a hot issue for a failure, its end for a pass."""
        result = {name: given[name] for name in ("check", "subject", "ok", "cites")}
        if not given["ok"]:
            fields = PostFields(
                key=key,
                text=_said(given["check"], given["subject"], given["text"]),
                type="HOT_ISSUE",
                metadata={"result": result},
                visibility="board",
            )
            await self._post(agent, board, [fields], once)
            return
        issue = await self._issue(board, agent, key)
        if issue is not None and issue.status not in FINISHED:
            metadata = {"result": {**result, "text": given["text"]}}
            await self._post(
                agent, board, [PostFields(id=issue.id, status="RESOLVED", metadata=metadata)], once
            )
        elif once is not None:
            with suppress(Refused):  # or a repeated call would resolve a later failure
                await self._post(agent, board, [], once)

    async def note(
        self, board: str, check: str, subject: str, text: str, cites: Sequence[str] = ()
    ) -> Item | None:
        """Records a result of a check that the server runs, a failure unless `text` is empty; returns the hot issue.

        The server reports in its own name, whoever wrote the file, so that nobody else says that the check passed.
        One under debate stays as it is until the debate's end, but for its metadata, which say how it then goes on.
        Returns `None` if there is none, also where the board takes none.
        """
        issue = await self._issue(board, SYSTEM, issue_key(check, subject))
        if issue is not None and issue.status is Status.DEBATED:
            result = {"check": check, "subject": subject, "ok": not text, "cites": list(cites), "text": text}
            if issue.metadata.get("result", {}).get("ok") is not result["ok"]:
                fields = PostFields(id=issue.id, metadata={"result": result})
                await self._unless_refused(board, self._board.record(board, [fields]))
            return issue
        stands = "" if issue is None or issue.status in FINISHED else issue.text
        if stands == (text and _said(check, subject, text)):
            return issue
        reporting = self._report(SYSTEM, board, check, subject, ok=not text, text=text, cites=cites)
        done = await self._unless_refused(board, reporting)
        return issue if done is None else done.item

    async def _unless_refused(self, board: str, writing: Coroutine[Any, Any, T]) -> T | None:
        """Returns what a write returns; `None` if it is refused, as on a board that takes no posts."""
        try:
            return await writing
        except Refused as error:
            logger.info("board '%s' keeps no result: %s", board, error)
            return None

    async def issue(self, board: str, check: str) -> Item | None:
        """Returns the hot issue of a check without a subject, open or not."""
        return await self._issue(board, "", issue_key(check, ""))

    async def _post(self, agent: str, board: str, posts: Sequence[PostFields], once: Once | None) -> None:
        if agent == SYSTEM:
            await self._board.record(board, posts)
        else:
            await self._board.post(agent, board, posts, once)

    async def _issue(self, board: str, agent: str, key: str) -> Item | None:
        found = await self._board.store.read(board, "", [], [key])
        return next((item for item in found.items if not item.deleted), None)


def _said(check: str, subject: str, text: str) -> str:
    return f"{check} fails{f' for {subject}' if subject else ''}{f': {text}' if text else ''}"


def issue_key(check: str, subject: str) -> str:
    """Returns the key of the hot issue of a check and a subject, the same for every reporter."""
    named = f"{check}\0{subject}".encode()
    return f"result:{hashlib.sha256(named).hexdigest()[:16]}"
