"""Calls for stewards, which concern a board as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from blackboard_mcp.protocols.board import Lifecycle
from blackboard_mcp.protocols.late_models import board_wire
from blackboard_mcp.protocols.literals import LifecycleName

from .calls import Calls, listed, mapped

if TYPE_CHECKING:
    from blackboard_mcp.protocols.board_wire import BoardAnswer, CoreAnswer, PruneAnswer


class Stewards(Calls):
    """Calls to read and change the core, settings and members, and to prune.

    A server needs `--tools core,admin` for them.
    """

    async def core(self) -> CoreAnswer:
        """Returns the core, which is the part of the board that is never pruned, with its version."""
        return await self._call("core", {}, board_wire.CoreAnswer)

    async def set_core(
        self,
        expected_version: int,
        *,
        objective: str | None = None,
        constraints: Sequence[str] | None = None,
        flags: Mapping[str, bool] | None = None,
        idempotency_key: str | None = None,
    ) -> CoreAnswer:
        """Replaces the given parts of the core, if it is at `expected_version` (0 at first); returns the new core.

        Raises:
            Conflict: the core is at another version.
            Forbidden: the agent may not do that.
            Refused: the core would become too large.
        """
        given = {
            "expected_version": expected_version,
            "objective": objective,
            "constraints": listed(constraints),
            "flags": mapped(flags),
        }
        return await self._call("core", given, board_wire.CoreAnswer, once=idempotency_key)

    async def info(self) -> BoardAnswer:
        """Returns the board's figures and settings, as far as the agent may know them."""
        return await self._call("board", {}, board_wire.BoardAnswer)

    async def change(
        self,
        *,
        title: str | None = None,
        parent: str | None = None,
        lifecycle: LifecycleName | Lifecycle | None = None,
        settings: Mapping[str, Any] | None = None,
        members: Mapping[str, str | None] | None = None,
        expected_settings: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> BoardAnswer:
        """Changes the board, in one step, and returns it.

        `settings` are those of the reference, such as `{"target_tokens": 12000}`. `members` maps agents to the
        roles that the board itself gives them, or `None` to take a role away. `expected_settings` are some as they were
        read (`info().settings`): if one of them is not so any more, nothing is changed.

        Raises:
            InvalidInput: a setting is unknown, or values contradict each other.
            Conflict: the board's lifecycle does not allow that move, or a setting is not as expected.
            Forbidden: the agent may not do that, or may not give that role.
        """
        given = {
            "title": title,
            "parent": parent,
            "lifecycle": None if lifecycle is None else str(lifecycle),
            "settings": mapped(settings),
            "members": mapped(members),
            "expected_settings": mapped(expected_settings),
        }
        return await self._call("board", given, board_wire.BoardAnswer, once=idempotency_key)

    async def prune(
        self,
        *,
        tag: str | None = None,
        thread: str | None = None,
        author: str | None = None,
        dry_run: bool = False,
    ) -> PruneAnswer:
        """Prunes down to the low-water mark now; with `dry_run` it only says what would leave, and why.

        With a tag, thread or author it moves the live items that meet all that is given instead, 500 at most.
        """
        chosen = {"tag": tag, "thread": thread, "author": author}
        asked = {name: value for name, value in chosen.items() if value is not None}
        return await self._call("prune", {**asked, "dry_run": dry_run}, board_wire.PruneAnswer)
