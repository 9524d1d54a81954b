"""The rules of a board and results of checks, as calls for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from blackboard_mcp.protocols.late_models import rule_wire

from .calls import Calls, listed

if TYPE_CHECKING:
    from blackboard_mcp.protocols.rule_wire import ConstraintAnswer, ContextAnswer, ResultAnswer


class KeepsRules(Calls):
    """Calls for rules and for results of checks. A server needs `--tools core,memory` for them."""

    async def constraint(
        self,
        text: str | None = None,
        *,
        strength: str | None = None,
        scope: str | None = None,
        id: str | None = None,
        confirm: Sequence[str] = (),
        retire: str | None = None,
        message: str | None = None,
        check: str | None = None,
        idempotency_key: str | None = None,
    ) -> ConstraintAnswer:
        """Returns the rules and the proposals, after what the arguments ask for.

        They are those of the tool `constraint`: `text` proposes a rule or, by a steward, makes one; `message` proposes
        what a user's message holds; `confirm` makes rules of proposals; `retire` is the reason to end the rule `id`.
        With `text`, `check` is what finds violations: `absent:GLOB`, `exists:GLOB` or a check that the server runs.

        Raises:
            InvalidInput: a value is not allowed, or the arguments do not go together.
            UnknownReference: there is no such item.
            Conflict: the rule or the proposal is over.
            Refused: the agent is neither the author of the rule nor a steward.
            Forbidden: the agent may not make rules.
        """
        given = {
            "text": text,
            "strength": strength,
            "scope": scope,
            "id": id,
            "confirm": listed(confirm) or None,
            "retire": retire,
            "message": message,
            "check": check,
        }
        return await self._call("constraint", given, rule_wire.ConstraintAnswer, once=idempotency_key)

    async def get_context(
        self, query: str = "", *, budget: int | None = None, path: str = ""
    ) -> ContextAnswer:
        """Returns what the agent must know before a piece of work, within `budget` tokens (800).

        Raises:
            Refused: rules, hot issues, decisions and dead ends, which are never cut, need more.
        """
        given = {"query": query or None, "budget": budget, "path": path or None}
        return await self._call("get_context", given, rule_wire.ContextAnswer)

    async def report_result(
        self,
        check: str,
        ok: bool,
        *,
        subject: str = "",
        text: str = "",
        cites: Sequence[str] = (),
        idempotency_key: str | None = None,
    ) -> ResultAnswer:
        """Reports the result of a check; a failure is a hot issue until the check passes for the same subject.

        Raises:
            InvalidInput: a value is not allowed.
            UnknownReference: a cited item does not exist.
            Refused: the hot issue is under debate.
        """
        given = {
            "check": check,
            "ok": ok,
            "subject": subject or None,
            "text": text or None,
            "cites": listed(cites) or None,
        }
        return await self._call("report_result", given, rule_wire.ResultAnswer, once=idempotency_key)
