"""Stewards' calls, which concern a board as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from blackboard_mcp.protocols.wire import BoardAnswer, CoreAnswer, PruneAnswer

from .calls import Calls


class Stewards(Calls):
    """Calls to read and change the core, settings and members, and to prune.

    A server needs `--tools core,admin` for them.
    """

    async def core(self) -> CoreAnswer:
        """The part of the board that is never pruned, with its version."""
        return await self._call("core", {}, CoreAnswer)

    async def set_core(
        self,
        expected_version: int,
        *,
        objective: str | None = None,
        constraints: Sequence[str] | None = None,
        flags: Mapping[str, bool] | None = None,
        idempotency_key: str | None = None,
    ) -> CoreAnswer:
        """The core with what is given replaced, if it is at `expected_version` (0 at first).

        Raises:
            Conflict: the core is at another version.
            Forbidden: the agent may not do that.
            Refused: the core would outgrow its cap.
        """
        given = {
            "expected_version": expected_version,
            "objective": objective,
            "constraints": None if constraints is None else list(constraints),
            "flags": None if flags is None else dict(flags),
        }
        return await self._call("core", given, CoreAnswer, once=idempotency_key)

    async def info(self) -> BoardAnswer:
        """The board's figures and settings, as the agent may know them."""
        return await self._call("board", {}, BoardAnswer)

    async def change(
        self,
        *,
        title: str | None = None,
        parent: str | None = None,
        lifecycle: str | None = None,
        settings: Mapping[str, Any] | None = None,
        members: Mapping[str, str | None] | None = None,
        idempotency_key: str | None = None,
    ) -> BoardAnswer:
        """Changes the board at once: `settings` are those of the reference, say `{"target_tokens": 12000}`;
        `members` are agents with the role that the board gives them, `None` for none of its own.

        Raises:
            InvalidInput: an unknown setting, or values that do not go together.
            Conflict: the lifecycle does not lead there.
            Forbidden: the agent may not do that, or not give as much.
        """
        given = {
            "title": title,
            "parent": parent,
            "lifecycle": None if lifecycle is None else str(lifecycle),
            "settings": None if settings is None else dict(settings),
            "members": None if members is None else dict(members),
        }
        return await self._call("board", given, BoardAnswer, once=idempotency_key)

    async def prune(self, *, dry_run: bool = False) -> PruneAnswer:
        """Prunes down to the low-water mark now; with `dry_run` only says what would go and why."""
        return await self._call("prune", {"dry_run": dry_run}, PruneAnswer)
