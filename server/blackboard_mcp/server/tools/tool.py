"""Tools, their callers and answers; and a set of tools, called alike through every door.

There is no wire and no SDK in here: `mcp` serves a set to clients, `board` calls it in the same process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from blackboard_mcp.protocols.access import Principal
from blackboard_mcp.protocols.grants import under
from pydantic import BaseModel

from ..access.acting import acting, as_member
from ..access.door import Door
from ..access.needs import Needs
from ..input.arguments import Arguments
from ..input.idempotency import check_once_key

WAITING_ARGUMENT: Final = "seconds"
"""A tool that takes this waits for so long, unless it is 0."""

Report = Callable[[float, float | None, str | None], Awaitable[None]]


async def _silent(progress: float, total: float | None, message: str | None) -> None:
    """Reports nothing: the default of callers who asked for no progress."""


@dataclass(frozen=True)
class Caller:
    """Who is calling, from the connection, never from arguments.

    `report(progress, total, message)` tells the client how far a long call is; without effect when
    the client asked for no progress.
    """

    principal: Principal
    transport: Literal["stdio", "http", "process"]
    structured: bool
    """Whether the facts of an answer are wanted."""
    headers: Mapping[str, str]
    """Those of this request; empty but over HTTP."""
    report: Report = _silent
    asked_once: object = None
    """The idempotency key that the request itself has, unchecked."""

    @property
    def agent(self) -> str:
        """The name that stands on what the caller posts."""
        return self.principal.agent

    @property
    def reads_text(self) -> bool:
        """Whether the text of an answer is shown to anybody; a program in the same process takes the facts alone."""
        return self.transport != "process"

    @property
    def takes_messages(self) -> bool:
        """Whether facts have to fit into a message."""
        return self.structured and self.transport != "process"

    @property
    def once_key(self) -> str | None:
        """The idempotency key of this request; for tools that change something, the others need not look.

        Raises:
            InvalidInput: it is none.
        """
        return None if self.asked_once is None else check_once_key(self.asked_once)


@dataclass(frozen=True)
class Answer:
    """What a tool returns: compact text for the model, and the same facts for programs.

    Each may be a function, called only when it is wanted. Where the facts are too long for one answer
    it is an error, unless `shortens`: then the texts of their `items` are left out, and `cut` says so. That is for
    what has changed something.
    """

    text: str | Callable[[], str]
    structured: BaseModel | Mapping[str, Any] | Callable[[], BaseModel]
    shortens: bool = False

    @property
    def words(self) -> str:
        return self.text() if callable(self.text) else self.text

    @property
    def facts(self) -> BaseModel | Mapping[str, Any]:
        return self.structured() if callable(self.structured) else self.structured


ToolFunction = Callable[..., Awaitable[Answer]]


@dataclass(frozen=True)
class Tool:
    """A tool: `async def fn(caller, <annotated parameters>) -> Answer`, and what is published of it."""

    fn: ToolFunction
    name: str
    title: str | None
    description: str
    needs: Needs
    arguments: Arguments
    read_only: bool
    output: Callable[[], type[BaseModel]] | None
    ends_with_client: bool

    @property
    def waits(self) -> bool:
        return WAITING_ARGUMENT in self.arguments.names


class ToolSet:
    """Tools by name, behind one door.

    Args:
        prefix: stands before every name.
    """

    def __init__(self, *, prefix: str = "") -> None:
        self.door = Door()
        self.prefix = prefix
        self._tools: dict[str, Tool] = {}

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def find(self, name: str) -> Tool | None:
        """The tool of a full name, prefix included."""
        return self._tools.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def add(
        self,
        fn: ToolFunction,
        *,
        name: str,
        description: str,
        needs: Needs,
        title: str | None = None,
        read_only: bool = False,
        output: Callable[[], type[BaseModel]] | None = None,
        ends_with_client: bool = False,
    ) -> None:
        """Adds `async def fn(caller, <annotated parameters>) -> Answer`, for those who may do what it `needs`.

        The argument `board` names the board that they need it on. A call that waits (it has an
        argument `seconds`) ends when they may no more.

        A call that `ends_with_client` is cancelled when its client drops, as those of tools that only read are;
        others go on to their end in the legacy generation.

        Raises:
            TypeError: a parameter without an annotation, or a string or list without a bound.
            ValueError: the name is taken.
        """
        full_name = f"{self.prefix}{name}"
        if full_name in self._tools:
            raise ValueError(f"tool {full_name!r} exists already")
        self._tools[full_name] = Tool(
            fn=fn,
            name=full_name,
            title=title,
            description=description,
            needs=needs,
            arguments=Arguments(full_name, fn),
            read_only=read_only,
            output=output,
            ends_with_client=ends_with_client or read_only,
        )

    async def call(self, tool: Tool, caller: Caller, arguments: dict[str, Any]) -> Answer:
        """The tool's answer to arguments that it has checked, for a caller whom the door lets in.

        Its writes are made under the grant.

        Raises:
            BlackboardError: the caller may not, or the tool refuses.
        """
        board = arguments.get("board")
        grant = await self.door.let_in(caller.principal, tool.needs.of(arguments), board)
        if grant is not None and board is None and "board" in arguments:
            arguments["board"] = grant.board
        with under(grant), acting(as_member(caller.principal, grant)):
            if not tool.waits:
                return await tool.fn(caller, **arguments)
            async with self.door.watch(caller.principal, grant):
                return await tool.fn(caller, **arguments)
        raise AssertionError("unreachable")
