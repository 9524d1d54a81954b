"""Tools, their callers and answers, and a set of tools that every transport calls in the same way.

This module knows no wire format and no SDK: `mcp` serves a set to clients, `board` calls it in the same
process.
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
"""Name of the argument by which a tool waits that many seconds; 0 does not wait."""

Report = Callable[[float, float | None, str | None], Awaitable[None]]


async def _silent(progress: float, total: float | None, message: str | None) -> None:
    """Reports nothing; it is the default for callers that asked for no progress."""


@dataclass(frozen=True)
class Caller:
    """The caller of a tool, known from the connection and never from arguments.

    `report(progress, total, message)` tells the client how far a long call is; it has no effect when the
    client asked for no progress.
    """

    principal: Principal
    transport: Literal["stdio", "http", "process"]
    structured: bool
    """Whether the caller wants the structured form of answers."""
    headers: Mapping[str, str]
    """Headers of this request; empty for transports other than HTTP."""
    report: Report = _silent
    asked_once: object = None
    """The request's own idempotency key, not yet checked."""

    @property
    def agent(self) -> str:
        """Name of the author on the caller's posts."""
        return self.principal.agent

    @property
    def reads_text(self) -> bool:
        """Whether the text of an answer is used. A program in the same process uses only the structured form."""
        return self.transport != "process"

    @property
    def takes_messages(self) -> bool:
        """Whether the structured form of an answer must fit into one message."""
        return self.structured and self.transport != "process"

    @property
    def once_key(self) -> str | None:
        """The idempotency key of this request, or `None`. Only tools that change something need it.

        Raises:
            InvalidInput: the key is not valid.
        """
        return None if self.asked_once is None else check_once_key(self.asked_once)


@dataclass(frozen=True)
class Answer:
    """The result of a tool: compact text for the model, and the same facts in structured form for programs.

    Each may be a function, called only when that form is wanted. An answer that is too long becomes an error,
    unless `shortens` is true: then the texts of its `items` are left out and its field `cut` says so. Calls
    that changed something set `shortens`.
    """

    text: str | Callable[[], str]
    structured: BaseModel | Mapping[str, Any] | Callable[[], BaseModel]
    shortens: bool = False

    @property
    def words(self) -> str:
        """The answer as text."""
        return self.text() if callable(self.text) else self.text

    @property
    def facts(self) -> BaseModel | Mapping[str, Any]:
        """The answer in structured form."""
        return self.structured() if callable(self.structured) else self.structured


ToolFunction = Callable[..., Awaitable[Answer]]
Quick = bool | Callable[[Mapping[str, Any]], bool]
"""Whether calls are quick, or a function that tells it of a call's arguments, which nobody checked yet."""


@dataclass(frozen=True)
class Tool:
    """A tool: its function `async def fn(caller, <annotated parameters>) -> Answer`, and its published
    description.
    """

    fn: ToolFunction
    name: str
    title: str | None
    description: str
    needs: Needs
    arguments: Arguments
    read_only: bool
    output: Callable[[], type[BaseModel]] | None
    ends_with_client: bool
    quick: Quick = False

    @property
    def waits(self) -> bool:
        """Whether calls of the tool may wait."""
        return WAITING_ARGUMENT in self.arguments.names


class ToolSet:
    """Tools by name, behind one door that decides which calls run.

    Args:
        prefix: text before every tool's name.
    """

    def __init__(self, *, prefix: str = "") -> None:
        self.door = Door()
        self.prefix = prefix
        self._tools: dict[str, Tool] = {}

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def find(self, name: str) -> Tool | None:
        """Returns the tool with this full name, prefix included, or `None`."""
        return self._tools.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """Full names of all tools."""
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
        quick: Quick = False,
    ) -> None:
        """Adds the tool `async def fn(caller, <annotated parameters>) -> Answer`, for callers who have the
        rights it `needs`.

        The argument `board` names the board on which the rights are needed. A call that waits (it has an
        argument `seconds`) ends when its caller loses them.

        A call with `ends_with_client` is cancelled when its client disconnects, as calls of read-only tools
        are. Other calls run to their end in the older protocol generation. A `quick` call asks the store alone
        and neither waits nor reports, so it is answered in one piece and ends whether its client is there or not.
        A tool that may wait says by a function which of its calls do not.

        Raises:
            ValueError: the name is taken, or a quick tool may wait.
        """
        full_name = f"{self.prefix}{name}"
        if full_name in self._tools:
            raise ValueError(f"tool {full_name!r} exists already")
        tool = Tool(
            fn=fn,
            name=full_name,
            title=title,
            description=description,
            needs=needs,
            arguments=Arguments(full_name, fn),
            read_only=read_only,
            output=output,
            ends_with_client=ends_with_client or read_only,
            quick=quick,
        )
        if quick is True and tool.waits:
            raise ValueError(f"tool {full_name!r} may wait, so it is not quick")
        self._tools[full_name] = tool

    async def call(self, tool: Tool, caller: Caller, arguments: dict[str, Any]) -> Answer:
        """Calls a tool with arguments that it has checked, if the door lets the caller in, and returns its
        answer.

        The call's writes are made under the grant.

        Raises:
            BlackboardError: the caller lacks a right, or the tool refuses.
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
