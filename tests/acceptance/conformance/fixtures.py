"""All fixtures of the conformance suite, put into a server.

What a tool, a resource or a prompt of the product can be is registered as the product registers its own. The
rest has no place in the adapter, since no tool of a board needs it: it stands beside the product's entries,
behind the same HTTP application and the same SDK server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from asking import ASKING_PROMPTS, ASKING_TOOLS, accept_log_levels
from blackboard_mcp.server.mcp.server import BoardServer
from content import BINARY, CONTENT_PROMPTS, CONTENT_TOOLS, PIXEL
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver import Context
from mcp.types import (
    CallToolResult,
    GetPromptResult,
    InputRequiredResult,
    Prompt,
    PromptArgument,
    Resource,
    Tool,
)
from plain import add_plain

RawTool = Callable[[Context[Any, Any], dict[str, Any]], Awaitable[CallToolResult | InputRequiredResult]]
RawPrompt = Callable[[Context[Any, Any], dict[str, str]], Awaitable[GetPromptResult | InputRequiredResult]]


def add_fixtures(server: BoardServer) -> None:
    """Serve the fixtures beside everything the server serves already."""
    add_plain(server)
    raw = Raw()
    for name, (fn, schema) in {**CONTENT_TOOLS, **ASKING_TOOLS}.items():
        raw.tools[name] = (Tool(name=name, description=_described(fn), input_schema=schema), fn)
    for name, (prompt_fn, arguments) in {**CONTENT_PROMPTS, **ASKING_PROMPTS}.items():
        published = Prompt(
            name=name,
            description=_described(prompt_fn),
            arguments=[PromptArgument(name=argument, required=True) for argument in arguments],
        )
        raw.prompts[name] = (published, prompt_fn)
    raw.stand_beside(server)
    accept_log_levels(server)


def _described(fn: Callable[..., Any]) -> str:
    return (fn.__doc__ or "").strip()


@dataclass
class Raw:
    """Entries in the SDK's own terms, put beside those of a server."""

    tools: dict[str, tuple[Tool, RawTool]] = field(default_factory=dict)
    prompts: dict[str, tuple[Prompt, RawPrompt]] = field(default_factory=dict)

    def stand_beside(self, server: BoardServer) -> None:
        sdk: Any = server.sdk_server
        listed, called = sdk.list_tools, sdk.call_tool
        resources, read = sdk.list_resources, sdk.read_resource
        prompts, got = sdk.list_prompts, sdk.get_prompt

        async def list_tools() -> list[Tool]:
            return [*await listed(), *(tool for tool, _ in self.tools.values())]

        async def call_tool(name: str, arguments: dict[str, Any], context: Any = None) -> Any:
            if name not in self.tools:
                return await called(name, arguments, context)
            return await self.tools[name][1](context, arguments)

        async def list_resources() -> list[Resource]:
            return [*await resources(), BINARY]

        async def read_resource(uri: Any, context: Any = None) -> Iterable[ReadResourceContents]:
            if str(uri) != BINARY.uri:
                return await read(uri, context)
            return [ReadResourceContents(content=PIXEL, mime_type=BINARY.mime_type)]

        async def list_prompts() -> list[Prompt]:
            return [*await prompts(), *(prompt for prompt, _ in self.prompts.values())]

        async def get_prompt(name: str, arguments: Any = None, context: Any = None) -> Any:
            if name not in self.prompts:
                return await got(name, arguments, context)
            return await self.prompts[name][1](context, arguments or {})

        def schema_of(name: str) -> dict[str, Any] | None:
            return self.tools[name][0].input_schema if name in self.tools else None

        sdk.list_tools, sdk.call_tool = list_tools, call_tool
        sdk.list_resources, sdk.read_resource = list_resources, read_resource
        sdk.list_prompts, sdk.get_prompt = list_prompts, get_prompt
        # Where arguments repeated in headers are checked, before the call.
        sdk._lowlevel_server.get_tool_input_schema = schema_of
