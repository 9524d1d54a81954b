"""Tools as they are served: published, called with checked arguments, answered in text and facts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import anyio
from blackboard_mcp.protocols.errors import BlackboardError, RateLimited
from blackboard_mcp.protocols.grants import under
from blackboard_mcp.server.access.acting import acting, as_member
from blackboard_mcp.server.access.door import Door
from blackboard_mcp.server.access.needs import Needs
from blackboard_mcp.server.answers.assurance import to_reader
from blackboard_mcp.server.input.arguments import Arguments, compact_schema
from blackboard_mcp.server.mcp.admission import Admission
from blackboard_mcp.server.mcp.answer_size import fitted
from blackboard_mcp.server.mcp.callers import Caller, Callers
from blackboard_mcp.server.mcp.errors import error_result, internal_error, sendable
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, CallToolResult, TextContent, Tool, ToolAnnotations
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import BaseModel

logger = logging.getLogger(__name__)

GONE_SCOPE_KEY: Final = "blackboard.gone"
WAITING_ARGUMENT: Final = "seconds"
"""A tool that takes this waits for so long, unless it is 0."""
_FOOTER_SECONDS: Final = 2.0
_REQUEST_CANCELLED: Final = -32800


@dataclass(frozen=True)
class Answer:
    """What a tool returns: compact text for the model, and the same facts for programs.

    The facts may be a function, called only when the request wants them. Where they are too long for one answer
    it is an error, unless `shortens`: then the texts of their `items` are left out, and `cut` says so. That is for
    what has changed something.
    """

    text: str
    structured: BaseModel | Mapping[str, Any] | Callable[[], BaseModel]
    shortens: bool = False


ToolFunction = Callable[..., Awaitable[Answer]]
CallHook = Callable[[Caller], Awaitable[None]]
FooterHook = Callable[[Caller, Mapping[str, Any]], Awaitable[str]]


@dataclass(frozen=True)
class _Served:
    fn: ToolFunction
    arguments: Arguments
    published: Tool
    ends_with_client: bool
    waits: bool
    needs: Needs


class ServedTools:
    """The tools of one server, by name.

    `before_call` is awaited before each tool's work; what it raises is the call's answer. `error_footer`
    gives the last line of an error's text from the caller and the arguments as they came.

    Args:
        prefix: stands before every name.
        output_schemas: publish them; for servers that always send structured content.
    """

    def __init__(
        self, callers: Callers, admission: Admission, door: Door, *, prefix: str, output_schemas: bool
    ) -> None:
        self.before_call: CallHook | None = None
        self.error_footer: FooterHook | None = None
        self._callers = callers
        self._admission = admission
        self._door = door
        self._prefix = prefix
        self._output_schemas = output_schemas
        self._served: dict[str, _Served] = {}

    def add(
        self,
        fn: ToolFunction,
        *,
        name: str,
        title: str | None,
        description: str,
        annotations: ToolAnnotations,
        output: Callable[[], type[BaseModel]] | None,
        ends_with_client: bool,
        needs: Needs,
    ) -> None:
        full_name = f"{self._prefix}{name}"
        if full_name in self._served:
            raise ValueError(f"tool {full_name!r} exists already")
        arguments = Arguments(full_name, fn)
        published = Tool(
            name=full_name,
            title=title,
            description=description,
            input_schema=arguments.schema,
            annotations=annotations,
            output_schema=_output_schema(output()) if self._output_schemas and output is not None else None,
        )
        self._served[full_name] = _Served(
            fn,
            arguments,
            published,
            ends_with_client or annotations.read_only_hint is True,
            waits=WAITING_ARGUMENT in arguments.names,
            needs=needs,
        )

    @property
    def needs(self) -> dict[str, Needs]:
        """What calls need, by the tool's name."""
        return {name: tool.needs for name, tool in self._served.items()}

    @property
    def published(self) -> list[Tool]:
        return [tool.published for tool in self._served.values()]

    def whole_schema(self, name: str) -> dict[str, Any]:
        """The schema of every argument of a tool, those that its published one leaves out as well."""
        return self._served[name].arguments.whole_schema

    async def call(
        self, name: str, arguments: Mapping[str, Any], ctx: ServerRequestContext[Any, Any]
    ) -> CallToolResult:
        """The tool's answer, or its error as a result that teaches.

        Raises:
            MCPError: there is no such tool, or nobody to call it.
        """
        tool = self._served.get(name)
        if tool is None:
            raise MCPError(
                INVALID_PARAMS, f"unknown tool {name[:64]!a}; the tools are: {', '.join(self._served)}"
            )
        caller = await self._callers.of(ctx)
        gone = _gone_event(ctx) if tool.ends_with_client else None
        if gone is None:
            return await self._run(tool, caller, arguments)
        # The legacy transport leaves a call running after its client dropped. What only reads or waits has
        # nothing left to do then, and must hand nobody's news or work to nobody.
        result: CallToolResult | None = None
        failure: MCPError | None = None
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                await gone.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(watch)
            try:
                result = await self._run(tool, caller, arguments)
            except MCPError as exc:
                failure = exc
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        if result is None:
            raise MCPError(_REQUEST_CANCELLED, "the client is gone")
        return result

    async def _run(self, tool: _Served, caller: Caller, arguments: Mapping[str, Any]) -> CallToolResult:
        try:
            admitted = self._admission.of_call(
                caller, waits=tool.waits and arguments.get(WAITING_ARGUMENT) != 0
            )
            with admitted:
                if self.before_call is not None:
                    await self.before_call(caller)
                checked = tool.arguments.check(arguments)
                answer = await self._admission.in_turn(
                    caller, tool.published.name, lambda: self._answer(tool, caller, checked)
                )
            structured = _document(answer.structured) if caller.structured else None
            text, structured = fitted(sendable(answer.text), structured, shortens=answer.shortens)
        except MCPError:
            raise
        except RateLimited as exc:  # to say no must cost next to nothing: no footer
            told = _told(tool, arguments, exc)
            return error_result(exc.code, told, exc.facts, structured=caller.structured)
        except BlackboardError as exc:
            code, message, facts = exc.code, _told(tool, arguments, exc), exc.facts
        except Exception:
            reference, message = internal_error(f"tool {tool.published.name}")
            code, facts = "internal", {"reference": reference}
        else:
            return CallToolResult(
                content=[TextContent(type="text", text=text)], structured_content=structured
            )
        footer = await self._footer(caller, arguments)
        return error_result(code, message, facts, structured=caller.structured, footer=footer)

    async def _answer(self, tool: _Served, caller: Caller, arguments: dict[str, Any]) -> Answer:
        """The tool's answer, for a caller who is let in; its writes are made under the grant."""
        board = arguments.get("board")
        grant = await self._door.let_in(caller.principal, tool.needs.of(arguments), board)
        if grant is not None and board is None and "board" in arguments:
            arguments["board"] = grant.board
        with under(grant), acting(as_member(caller.principal, grant)):
            if not tool.waits:
                return await tool.fn(caller, **arguments)
            async with self._door.watch(caller.principal, grant):
                return await tool.fn(caller, **arguments)
        raise AssertionError("unreachable")

    async def _footer(self, caller: Caller, arguments: Mapping[str, Any]) -> str:
        """What ends the text of an error; nothing where it cannot be had, for the error goes first."""
        if self.error_footer is None:
            return ""
        try:
            async with asyncio.timeout(_FOOTER_SECONDS):
                return await self.error_footer(caller, arguments)
        except (BlackboardError, TimeoutError):
            return ""
        except Exception:
            logger.exception("no footer for an error")
            return ""


def _told(tool: _Served, arguments: Mapping[str, Any], error: BlackboardError) -> str:
    return to_reader(error.message) if tool.needs.only_reads(arguments) else error.message


def _gone_event(ctx: ServerRequestContext[Any, Any]) -> asyncio.Event | None:
    """Set when the HTTP response of a legacy call can no longer reach its client."""
    if ctx.request is None or ctx.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
        return None
    event = ctx.request.scope.get(GONE_SCOPE_KEY)
    return event if isinstance(event, asyncio.Event) else None


def _document(structured: BaseModel | Mapping[str, Any] | Callable[[], BaseModel]) -> dict[str, Any]:
    if callable(structured):
        structured = structured()
    if isinstance(structured, BaseModel):
        return structured.model_dump(mode="json", by_alias=True)
    return dict(structured)


def _output_schema(output: type[BaseModel]) -> dict[str, Any]:
    schema = compact_schema(output.model_json_schema(mode="serialization", by_alias=True), nulls=True)
    definitions = schema.pop("$defs", None)
    error = {
        "type": "object",
        "properties": {"error": {"type": "string"}, "message": {"type": "string"}},
        "required": ["error", "message"],
    }
    # Clients check structured errors against this schema too.
    result: dict[str, Any] = {"type": "object", "anyOf": [schema, error]}
    if definitions:
        result["$defs"] = definitions
    return result
