"""Prompts as they are served, and completion of arguments for prompts and resource templates."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from blackboard_mcp.protocols.errors import BlackboardError, InvalidInput
from blackboard_mcp.protocols.grants import under
from blackboard_mcp.server.access.door import Door
from blackboard_mcp.server.access.needs import READS, Needs
from blackboard_mcp.server.input.arguments import Arguments, refuse_monsters
from blackboard_mcp.server.mcp.callers import Callers
from blackboard_mcp.server.mcp.errors import internal_error, protocol_error, sendable
from blackboard_mcp.server.mcp.resources import MAX_URI_LENGTH
from blackboard_mcp.server.tools.tool import Caller
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    GetPromptResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    PromptReference,
    TextContent,
)

MAX_COMPLETIONS: Final = 100

PromptFunction = Callable[..., Awaitable[str]]
CompletionFunction = Callable[[Caller, str, str, str, Mapping[str, str]], Awaitable[Sequence[str]]]


@dataclass(frozen=True)
class _Served:
    fn: PromptFunction
    arguments: Arguments
    published: Prompt
    needs: Needs


class ServedPrompts:
    """The prompts of one server, by name."""

    def __init__(self, callers: Callers, door: Door) -> None:
        self._callers = callers
        self._door = door
        self._served: dict[str, _Served] = {}

    def add(
        self, fn: PromptFunction, *, name: str, title: str | None, description: str, needs: Needs
    ) -> None:
        """Adds a prompt: `fn(caller, **arguments)` returns its text; `needs` are the rights that it takes."""
        arguments = Arguments(name, fn, lenient=True)
        schema = arguments.schema
        properties, required = schema["properties"], schema.get("required", ())
        published = Prompt(
            name=name,
            title=title,
            description=description,
            arguments=[
                PromptArgument(
                    name=key, description=properties[key].get("description"), required=key in required
                )
                for key in arguments.names
            ],
        )
        self._served[name] = _Served(fn, arguments, published, needs)

    @property
    def published(self) -> list[Prompt]:
        """The prompts as `prompts/list` shows them, in the order they were added."""
        return [prompt.published for prompt in self._served.values()]

    async def get(
        self, name: str, arguments: Mapping[str, Any], ctx: ServerRequestContext[Any, Any]
    ) -> GetPromptResult:
        """Returns the prompt with its arguments filled in, as one message of the user.

        Raises:
            MCPError: no prompt has that name, the arguments do not fit, or the caller lacks the rights.
        """
        prompt = self._served.get(name)
        if prompt is None:
            raise MCPError(
                INVALID_PARAMS, f"unknown prompt {name[:64]!a:.100}; there are: {', '.join(self._served)}"
            )
        try:
            given = {name: value for name, value in arguments.items() if value != ""}  # fields left empty
            caller, checked = await self._callers.of(ctx), prompt.arguments.check(given)
            grant = await self._door.let_in(caller.principal, prompt.needs.of(checked), checked.get("board"))
            with under(grant):
                text = await prompt.fn(caller, **checked)
        except MCPError:
            raise
        except BlackboardError as exc:
            raise protocol_error(exc) from exc
        except Exception as exc:
            _, message = internal_error(f"prompt {name}")
            raise MCPError(INTERNAL_ERROR, message) from exc
        content = TextContent(type="text", text=sendable(text))
        return GetPromptResult(
            description=prompt.published.description, messages=[PromptMessage(role="user", content=content)]
        )


class Completions:
    """Answers `completion/complete` from one function, with at most `MAX_COMPLETIONS` values."""

    def __init__(self, callers: Callers, door: Door, fn: CompletionFunction) -> None:
        self._callers = callers
        self._door = door
        self._fn = fn

    async def complete(
        self, ctx: ServerRequestContext[Any, Any], params: CompleteRequestParams
    ) -> CompleteResult:
        """Returns values for the argument being typed; none where the caller may not read the board.

        Raises:
            MCPError: the request is not valid, or the function failed.
        """
        reference = params.ref.name if isinstance(params.ref, PromptReference) else params.ref.uri
        others = (params.context.arguments if params.context is not None else None) or {}
        try:
            if len(params.argument.value) > MAX_URI_LENGTH:
                raise InvalidInput(f"complete at most {MAX_URI_LENGTH} characters")
            refuse_monsters("completion", [reference, params.argument.name, params.argument.value, others])
            caller = await self._callers.of(ctx)
            values: Sequence[str] = ()
            board = None if params.argument.name == "board" else others.get("board") or None
            named = params.argument.name == "board"
            if named or await self._door.admits(caller.principal, READS.of({}), board):
                values = await self._fn(
                    caller, reference, params.argument.name, params.argument.value, others
                )
        except MCPError:
            raise
        except BlackboardError as exc:
            raise protocol_error(exc) from exc
        except Exception as exc:
            _, message = internal_error("completion")
            raise MCPError(INTERNAL_ERROR, message) from exc
        shown = [sendable(value) for value in values[:MAX_COMPLETIONS]]
        return CompleteResult(
            completion=Completion(values=shown, total=len(values), has_more=len(values) > len(shown))
        )
