"""Tools as MCP serves them: published, called with checked arguments, and answered with text and facts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio
from blackboard_mcp.protocols.errors import BlackboardError, RateLimited
from blackboard_mcp.server.access.needs import Needs
from blackboard_mcp.server.answers.assurance import to_reader
from blackboard_mcp.server.input.arguments import compact_schema
from blackboard_mcp.server.mcp.admission import REFUSED_SECONDS, Admission
from blackboard_mcp.server.mcp.answer_size import fitted
from blackboard_mcp.server.mcp.callers import Callers
from blackboard_mcp.server.mcp.errors import Result, error_result, internal_error, sendable
from blackboard_mcp.server.tools.tool import WAITING_ARGUMENT, Caller, Tool, ToolSet
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, CallToolResult, ToolAnnotations
from mcp.types import Tool as PublishedTool
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import BaseModel

logger = logging.getLogger(__name__)

GONE_SCOPE_KEY: Final = "blackboard.gone"
_FOOTER_SECONDS: Final = 2.0
_REQUEST_CANCELLED: Final = -32800

# Annotations that differ from the protocol's defaults. Clients read them, models do not.
READ_ONLY: Final = ToolAnnotations(read_only_hint=True)
"""Marks tools that change nothing but the record of what their caller has seen."""
ADDS: Final = ToolAnnotations(destructive_hint=False)


CallHook = Callable[[Caller], Awaitable[None]]
FooterHook = Callable[[Caller, Mapping[str, Any]], Awaitable[str]]


class ServedTools:
    """A set of tools as one server serves it.

    `before_call` is awaited before each tool runs; an error it raises is the call's answer. `error_footer`
    returns the last line of an error's text; it gets the caller and the unchecked arguments.

    Args:
        output_schemas: publish output schemas; for servers that always send structured content.
        whole: publish every argument, for hosts that drop what a schema does not name.
    """

    def __init__(
        self,
        tools: ToolSet,
        callers: Callers,
        admission: Admission,
        *,
        output_schemas: bool,
        whole: bool = False,
    ) -> None:
        self.before_call: CallHook | None = None
        self.error_footer: FooterHook | None = None
        self._tools = tools
        self._callers = callers
        self._admission = admission
        self._output_schemas = output_schemas
        self._whole = whole
        self._published: dict[str, PublishedTool] = {}

    @property
    def needs(self) -> dict[str, Needs]:
        """The rights that calls need, by the name of the tool."""
        return {tool.name: tool.needs for tool in self._tools}

    @property
    def published(self) -> list[PublishedTool]:
        """The tools as `tools/list` shows them."""
        return [self._publish(tool) for tool in self._tools]

    def _publish(self, tool: Tool) -> PublishedTool:
        if tool.name not in self._published:
            output = tool.output if self._output_schemas else None
            self._published[tool.name] = PublishedTool(
                name=tool.name,
                title=tool.title,
                description=tool.description,
                input_schema=tool.arguments.whole_schema if self._whole else tool.arguments.schema,
                annotations=READ_ONLY if tool.read_only else ADDS,
                output_schema=None if output is None else _output_schema(output()),
            )
        return self._published[tool.name]

    def whole_schema(self, name: str) -> dict[str, Any]:
        """Returns the JSON schema of all of a tool's arguments, including those left out of the published one.

        Raises:
            KeyError: there is no such tool.
        """
        tool = self._tools.find(name)
        if tool is None:
            raise KeyError(name)
        return tool.arguments.whole_schema

    async def call(
        self, name: str, arguments: Mapping[str, Any], ctx: ServerRequestContext[Any, Any]
    ) -> CallToolResult:
        """Calls a tool and returns its answer; failures that the caller can act on are returned as error results.

        Raises:
            MCPError: there is no such tool, the caller is not identified, or the client is gone.
        """
        tool = self._tools.find(name)
        if tool is None:
            raise MCPError(
                INVALID_PARAMS,
                f"unknown tool {name[:64]!a:.100}; the tools are: {', '.join(self._tools.names)}",
            )
        caller = await self._callers.of(ctx)
        gone = _gone_event(ctx) if tool.ends_with_client else None
        if gone is None:
            return (await self.run(tool, caller, arguments)).whole()
        # The legacy transport leaves a call running after its client has disconnected. A call that only reads or
        # waits is cancelled then, so that it does not take news or work that nobody will receive.
        result: Result | None = None
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                await gone.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(watch)
            result = await self.run(tool, caller, arguments)
            tasks.cancel_scope.cancel()
        if result is None:
            raise MCPError(_REQUEST_CANCELLED, "the client is gone")
        return result.whole()

    async def run(self, tool: Tool, caller: Caller, arguments: Mapping[str, Any]) -> Result:
        """Runs a tool for a caller in its turn, and returns its answer; failures are error results."""
        try:
            admitted = self._admission.of_call(
                caller, waits=tool.waits and arguments.get(WAITING_ARGUMENT) != 0
            )
            with admitted:
                if self.before_call is not None:
                    await self.before_call(caller)
                checked = tool.arguments.check(arguments)
                answer = await self._admission.in_turn(
                    caller, tool.name, lambda: self._tools.call(tool, caller, checked)
                )
            structured = _document(answer.facts) if caller.structured else None
            text, structured = fitted(sendable(answer.words), structured, shortens=answer.shortens)
        except RateLimited as exc:  # a refusal must cost next to nothing: no footer
            await asyncio.sleep(REFUSED_SECONDS)
            told = _told(tool, arguments, exc)
            return error_result(exc.code, told, exc.facts, structured=caller.structured)
        except BlackboardError as exc:
            code, message, facts = exc.code, _told(tool, arguments, exc), exc.facts
        except Exception:
            reference, message = internal_error(f"tool {tool.name}")
            code, facts = "internal", {"reference": reference}
        else:
            return Result(text, structured)
        footer = await self._footer(caller, arguments)
        return error_result(code, message, facts, structured=caller.structured, footer=footer)

    async def _footer(self, caller: Caller, arguments: Mapping[str, Any]) -> str:
        """Returns the last line of an error's text, or "" if the hook fails or is too slow."""
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


def _told(tool: Tool, arguments: Mapping[str, Any], error: BlackboardError) -> str:
    return to_reader(error.message) if tool.needs.only_reads(arguments) else error.message


def _gone_event(ctx: ServerRequestContext[Any, Any]) -> asyncio.Event | None:
    """Returns the event that is set when a legacy HTTP client has disconnected, or `None` for other requests."""
    if ctx.request is None or ctx.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
        return None
    event = ctx.request.scope.get(GONE_SCOPE_KEY)
    return event if isinstance(event, asyncio.Event) else None


def _document(facts: BaseModel | Mapping[str, Any]) -> dict[str, Any]:
    return facts.model_dump(mode="json", by_alias=True) if isinstance(facts, BaseModel) else dict(facts)


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
