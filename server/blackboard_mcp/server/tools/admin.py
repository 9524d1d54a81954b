"""The tool set `admin` for stewards: board, core and prune. It is off unless chosen at launch."""

from __future__ import annotations

from typing import Annotated, Any

from blackboard_mcp.protocols.access import Role
from blackboard_mcp.protocols.board import BoardChange, Lifecycle
from blackboard_mcp.protocols.late_models import board_wire
from blackboard_mcp.protocols.literals import LifecycleName
from pydantic import Field, WithJsonSchema

from ..access.needs import TOOLS
from ..answers.rendering import Rendering
from ..input.arguments import UNLISTED
from ..input.posts import ExpectedVersion, Id, check_text
from ..usecases.stewardship import (
    MAX_CONSTRAINTS,
    MAX_FLAGS,
    MAX_MEMBERS_CHANGED,
    Stewardship,
    wire_board,
    wire_core,
    wire_pruned,
)
from .tool import Answer, Caller, ToolSet

BoardId = Annotated[str, Field(max_length=64)]
Line = Annotated[str, Field(min_length=1, max_length=2_000)]
Members = Annotated[
    dict[
        Annotated[str, Field(max_length=64)],
        Role | None,
    ],
    Field(max_length=MAX_MEMBERS_CHANGED),
    WithJsonSchema({"type": "object", "description": "agent: role, or null"}),
]
ExpectedSettings = Annotated[dict[str, Any], Field(max_length=16, json_schema_extra={UNLISTED: True})]
Flags = Annotated[
    dict[Annotated[str, Field(min_length=1, max_length=100)], bool],
    Field(max_length=MAX_FLAGS),
    WithJsonSchema({"type": "object", "description": "name: true or false"}),
]


class AdminTools:
    """Tools with which a steward reads and changes a board as a whole."""

    def __init__(self, steward: Stewardship, rendering: Rendering) -> None:
        self._steward = steward
        self._say = rendering

    def register(self, tools: ToolSet) -> None:
        """Adds the tools `core`, `board` and `prune`."""
        tools.add(
            self.core,
            name="core",
            title="Rules of the board",
            description=(
                "Read or replace the board's core (objective, constraints in order, flags): never pruned, in "
                "every view. Writing needs the version you read."
            ),
            needs=TOOLS["core"],
            output=lambda: board_wire.CoreAnswer,
        )
        tools.add(
            self.board,
            name="board",
            title="Settings of the board",
            description=(
                "Read or change the board: title, parent, lifecycle (only an open board takes posts; closed is for "
                "good), settings (without arguments it says which there are, and how they stand)."
            ),
            needs=TOOLS["board"],
            output=lambda: board_wire.BoardAnswer,
        )
        tools.add(
            self.prune,
            name="prune",
            title="Prune the board",
            description=(
                "Prune down to the low-water mark now, or move what has a tag, thread or author; dry_run=true only "
                "says what would go and why."
            ),
            needs=TOOLS["prune"],
            output=lambda: board_wire.PruneAnswer,
        )

    async def core(
        self,
        caller: Caller,
        objective: Annotated[str, Field(max_length=20_000)] | None = None,
        constraints: Annotated[list[Line], Field(max_length=MAX_CONSTRAINTS)] | None = None,
        flags: Flags | None = None,
        expected_version: ExpectedVersion | None = None,
        board: BoardId | None = None,
    ) -> Answer:
        """Reads the board's core, or replaces the given parts of it."""
        if objective is None and constraints is None and flags is None:
            core, seq = await self._steward.core(caller.agent, board)
        else:
            core, seq = await self._steward.set_core(
                caller.agent,
                board,
                expected_version or 0,
                objective=objective,
                constraints=constraints,
                flags=flags,
                once_key=caller.once_key,
            )
        return Answer(
            lambda: self._say.with_footer("\n".join(self._say.core(core)), seq), lambda: wire_core(core, seq)
        )

    async def board(
        self,
        caller: Caller,
        title: Annotated[str, Field(min_length=1, max_length=200)] | None = None,
        parent: Annotated[str, Field(max_length=64)] | None = None,
        lifecycle: LifecycleName | None = None,
        settings: Annotated[dict[str, Any], Field(max_length=16)] | None = None,
        members: Members | None = None,
        expected_settings: ExpectedSettings | None = None,
        board: BoardId | None = None,
    ) -> Answer:
        """Reads the board's state, settings and members, or changes those that are given."""
        if title is not None:
            check_text(title)
        if parent:
            self._steward.check_parent(caller.principal, parent)
        change = BoardChange(
            title=title,
            parent=parent,
            lifecycle=None if lifecycle is None else Lifecycle(lifecycle),
            settings=settings or {},
            members=members or {},
            expected_settings=expected_settings or {},
        )
        once_key = None if change == BoardChange() else caller.once_key
        state = await self._steward.change_board(caller.agent, board, change, once_key=once_key)
        state = self._steward.as_reached(caller.principal, state)
        given, access = await self._steward.members(state.id), self._steward.access(state)
        return Answer(
            lambda: self._say.with_footer(self._say.board(state, given, access), state.seq),
            lambda: wire_board(state, given, access),
        )

    async def prune(
        self,
        caller: Caller,
        tag: Annotated[str, Field(min_length=1, max_length=64)] | None = None,
        thread: Id | None = None,
        author: Annotated[str, Field(min_length=1, max_length=64)] | None = None,
        dry_run: bool = False,
        board: BoardId | None = None,
    ) -> Answer:
        """Runs a pruning pass, or moves what has a tag, thread or author; with `dry_run` only reports it."""
        said = {"tag": tag, "thread": thread, "author": author}
        chosen = {name: value for name, value in said.items() if value is not None}
        outcomes = await self._steward.prune(caller.agent, board, dry_run=dry_run, chosen=chosen)
        text = self._say.pruned(outcomes, dry_run=dry_run, chosen=chosen)
        if not outcomes:
            _, seq = await self._steward.core(caller.agent, board)
            text = self._say.with_footer(text, seq)
        return Answer(text, lambda: wire_pruned(outcomes, dry_run))
