"""Fixtures with content that no tool of a board has: pictures, sound, embedded resources, rich schemas."""

from __future__ import annotations

import base64
import json
from typing import Any

from mcp.server.mcpserver import Context
from mcp.types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    PromptMessage,
    Resource,
    TextContent,
    TextResourceContents,
)

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SILENCE = base64.b64decode("UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=")
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}


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
CONTENT_TOOLS: dict[str, Any] = {
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


CONTENT_PROMPTS: dict[str, Any] = {
    "test_prompt_with_embedded_resource": (prompt_with_resource, ("resourceUri",)),
    "test_prompt_with_image": (prompt_with_image, ()),
}
BINARY = Resource(
    uri="test://static-binary", name="static_binary", description="For tests.", mime_type="image/png"
)
