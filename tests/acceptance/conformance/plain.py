"""Fixtures that the product's own API can serve: they are registered as its tools, resources and prompts are."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.server.access.needs import NOTHING
from blackboard_mcp.server.mcp.server import BoardServer
from blackboard_mcp.server.tools.tool import Answer, Caller
from pydantic import Field

Word = Annotated[str, Field(max_length=200)]


def add_plain(server: BoardServer) -> None:
    server.tools.add(simple_text, name="test_simple_text", description="Text.", read_only=True, needs=NOTHING)
    server.tools.add(
        error_handling, name="test_error_handling", description="Fails.", read_only=True, needs=NOTHING
    )
    server.tools.add(
        progress, name="test_tool_with_progress", description="Reports.", read_only=True, needs=NOTHING
    )
    for uri, fn, mime_type in (
        ("test://static-text", static_text, "text/plain"),
        ("test://watched-resource", watched, "text/plain"),
        ("test://template/{id}/data", templated, "application/json"),
    ):
        server.resource(
            uri, fn, name=fn.__name__, description="For tests.", mime_type=mime_type, needs=NOTHING
        )
    server.prompt(simple_prompt, name="test_simple_prompt", description="A prompt.", needs=NOTHING)
    server.prompt(
        prompt_with_arguments, name="test_prompt_with_arguments", description="Takes two.", needs=NOTHING
    )


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
