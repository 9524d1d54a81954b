"""What the conformance suite expects a server to have.

What a tool, a resource or a prompt of the product can be is registered as the product registers its own.
The rest (pictures, sound, binary resources, tools that ask the client back, hand-written schemas) has no
place in the adapter, since no tool of a board needs it: it stands beside the product's entries, behind
the same HTTP application and the same SDK server.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any

from asking import ASKING_PROMPTS, ASKING_TOOLS, accept_log_levels
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.server.mcp.adapter import Answer, BoardServer, Caller, ToolAnnotations
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver import Context
from mcp.types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    InputRequiredResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    Resource,
    TextContent,
    TextResourceContents,
    Tool,
)
from pydantic import Field

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SILENCE = base64.b64decode("UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=")
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}
Word = Annotated[str, Field(max_length=200)]

RawTool = Callable[[Context[Any, Any], dict[str, Any]], Awaitable[CallToolResult | InputRequiredResult]]
RawPrompt = Callable[[Context[Any, Any], dict[str, str]], Awaitable[GetPromptResult | InputRequiredResult]]


def add_fixtures(server: BoardServer) -> None:
    """Serve the fixtures beside everything the server serves already."""
    _add_plain(server)
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


# What the product's own API can serve


def _add_plain(server: BoardServer) -> None:
    reads = ToolAnnotations(read_only_hint=True)
    server.tool(simple_text, name="test_simple_text", description="Text.", annotations=reads)
    server.tool(error_handling, name="test_error_handling", description="Fails.", annotations=reads)
    server.tool(progress, name="test_tool_with_progress", description="Reports.", annotations=reads)
    for uri, fn, mime_type in (
        ("test://static-text", static_text, "text/plain"),
        ("test://watched-resource", watched, "text/plain"),
        ("test://template/{id}/data", templated, "application/json"),
    ):
        server.resource(uri, fn, name=fn.__name__, description="For tests.", mime_type=mime_type)
    server.prompt(simple_prompt, name="test_simple_prompt", description="A prompt.")
    server.prompt(prompt_with_arguments, name="test_prompt_with_arguments", description="Takes two.")


async def simple_text(caller: Caller) -> Answer:
    return Answer("This is a simple text response for testing.", {})


async def error_handling(caller: Caller) -> Answer:
    raise InvalidInput("This tool intentionally returns an error for testing")


async def progress(caller: Caller) -> Answer:
    for done in (0, 50, 100):
        await caller.report(done, 100, None)
        await asyncio.sleep(0.01)
    return Answer("done", {})


async def static_text(caller: Caller) -> str:
    return "This is the content of the static text resource."


async def watched(caller: Caller) -> str:
    return "Watched."


async def templated(caller: Caller, id: str) -> str:
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


async def simple_prompt(caller: Caller) -> str:
    return "This is a simple prompt for testing."


async def prompt_with_arguments(caller: Caller, arg1: Word, arg2: Word) -> str:
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


# Content that no tool of a board has


def _text(text: str) -> TextContent:
    return TextContent(type="text", text=text)


def _image() -> ImageContent:
    return ImageContent(type="image", data=base64.b64encode(PIXEL).decode(), mime_type="image/png")


def _embedded(uri: str, text: str, mime_type: str = "text/plain") -> EmbeddedResource:
    resource = TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return EmbeddedResource(type="resource", resource=resource)


async def image_content(context: Context[Any, Any], arguments: dict[str, Any]) -> CallToolResult:
    """A picture of one pixel."""
    return CallToolResult(content=[_image()])


async def audio_content(context: Context[Any, Any], arguments: dict[str, Any]) -> CallToolResult:
    """A sound of no length."""
    data = base64.b64encode(SILENCE).decode()
    return CallToolResult(content=[AudioContent(type="audio", data=data, mime_type="audio/wav")])


async def embedded_resource(context: Context[Any, Any], arguments: dict[str, Any]) -> CallToolResult:
    """A resource inside a result."""
    text = "This is an embedded resource content."
    return CallToolResult(content=[_embedded("test://embedded-resource", text)])


async def mixed_content(context: Context[Any, Any], arguments: dict[str, Any]) -> CallToolResult:
    """A text, a picture and a resource."""
    document = json.dumps({"test": "data", "value": 123})
    resource = _embedded("test://mixed-content-resource", document, "application/json")
    return CallToolResult(content=[_text("Multiple content types test:"), _image(), resource])


async def echo(context: Context[Any, Any], arguments: dict[str, Any]) -> CallToolResult:
    """Says back what it was given."""
    return CallToolResult(content=[_text(json.dumps(arguments))])


RICH_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
HEADER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    "required": ["region"],
}
CONTENT_TOOLS: dict[str, tuple[RawTool, dict[str, Any]]] = {
    "test_image_content": (image_content, NO_ARGUMENTS),
    "test_audio_content": (audio_content, NO_ARGUMENTS),
    "test_embedded_resource": (embedded_resource, NO_ARGUMENTS),
    "test_multiple_content_types": (mixed_content, NO_ARGUMENTS),
    "json_schema_2020_12_tool": (echo, RICH_SCHEMA),
    "test_argument_in_header": (echo, HEADER_SCHEMA),
}


def _messages(*contents: Any) -> GetPromptResult:
    return GetPromptResult(messages=[PromptMessage(role="user", content=content) for content in contents])


async def prompt_with_resource(context: Context[Any, Any], arguments: dict[str, str]) -> GetPromptResult:
    """A prompt with a resource inside."""
    resource = _embedded(arguments["resourceUri"], "Embedded resource content for testing.")
    return _messages(resource, _text("Please process the embedded resource above."))


async def prompt_with_image(context: Context[Any, Any], arguments: dict[str, str]) -> GetPromptResult:
    """A prompt with a picture inside."""
    return _messages(_image(), _text("Please analyze the image above."))


CONTENT_PROMPTS: dict[str, tuple[RawPrompt, tuple[str, ...]]] = {
    "test_prompt_with_embedded_resource": (prompt_with_resource, ("resourceUri",)),
    "test_prompt_with_image": (prompt_with_image, ()),
}
BINARY = Resource(
    uri="test://static-binary", name="static_binary", description="For tests.", mime_type="image/png"
)


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
