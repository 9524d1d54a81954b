"""Expected and unforeseen errors in the form that clients get, as text that every transport can carry."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from blackboard_mcp.protocols.errors import BlackboardError, CursorExpired, InvalidInput
from blackboard_mcp.server.answers.assurance import to_reader
from blackboard_mcp.server.input.arguments import PLAIN_TYPES, is_clean_text
from blackboard_mcp.server.text.lines import escape, visible
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS, CallToolResult, TextContent
from pydantic import ValidationError

logger = logging.getLogger(__name__)

MAX_ECHO: Final = 2_048
"""The most characters of a request that an error repeats."""
_MOST_FAULTS: Final = 100
_MOST_VALUES: Final = 5_000


class Result(NamedTuple):
    """A tool's result: its text, its structured content, and whether it is an error."""

    text: str
    structured: dict[str, Any] | None
    is_error: bool = False

    def whole(self) -> CallToolResult:
        """Returns it as the SDK's type, which takes longer to make than the rest of some calls."""
        return CallToolResult(
            content=[TextContent(type="text", text=self.text)],
            structured_content=self.structured,
            is_error=self.is_error,
        )


def error_result(
    code: str, message: str, facts: Mapping[str, Any], *, structured: bool, footer: str = ""
) -> Result:
    """Returns an error as a tool's result, for failures that the caller can act on.

    `footer` becomes the last line of the text. With `structured`, the facts are sent as structured content.
    """
    text = sendable(message)
    shown = f"{text}\n{sendable(footer)}" if footer else text
    return Result(shown, {**facts, "error": code, "message": text} if structured else None, is_error=True)


def protocol_error(exc: BlackboardError, **data: Any) -> MCPError:
    """Returns an error as a JSON-RPC error, for requests whose results cannot hold errors.

    `data` is added to the error's facts.
    """
    code = INVALID_PARAMS if isinstance(exc, InvalidInput | CursorExpired) else INTERNAL_ERROR
    return MCPError(code, sendable(to_reader(exc.message)), data={**exc.facts, **data, "error": exc.code})


def internal_error(what: str) -> tuple[str, str]:
    """Logs the exception being handled, and returns a reference to it and a message for the client.

    `what` names the failed work in the log. The reference is six hexadecimal digits; the message reveals
    nothing of the cause.
    """
    reference = secrets.token_hex(3)
    logger.exception("internal error %s in %s", reference, what)
    return (
        reference,
        f"Internal error (reference {reference}); the server's log has its cause. A write may or may not stand: look "
        "before you repeat it.",
    )


def sendable(text: str) -> str:
    """Returns the text without characters that JSON in UTF-8 cannot carry, and with hidden characters as escapes."""
    clean = text if is_clean_text(text) else text.replace("\0", "").encode("utf-8", "replace").decode()
    return visible(clean)


async def plain_errors(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Serves as the SDK's middleware: shortens the SDK's own errors and names the parameter that is wrong.

    Raises:
        MCPError: the request fails, or has too many values.
    """
    if holds_too_much(ctx.params, tool=ctx.method == "tools/call"):
        raise MCPError(INVALID_PARAMS, f"a request has at most {_MOST_VALUES:,} values beside its arguments")
    try:
        return await call_next(ctx)
    except ValidationError as exc:
        raise MCPError(INVALID_PARAMS, f"Invalid request parameters{_fault(exc)}", data="") from None
    except MCPError as exc:
        message, data = escape(exc.error.message), _shortened(exc.error.data)
        if message == exc.error.message and data is exc.error.data:
            raise
        raise MCPError(exc.error.code, message, data=data) from None


def holds_too_much(params: Mapping[str, Any] | None, *, tool: bool) -> bool:
    """Tells whether the parameters hold so many values that the SDK might need seconds to report their faults.

    Arguments of tools are not counted: our own code checks them.
    """
    if params is None:
        return False
    pending = [value for key, value in params.items() if key != "arguments" or not tool]
    values = 0
    while pending:
        value = pending.pop()
        if isinstance(value, _HOLDING):
            values += len(value)
            if values > _MOST_VALUES:
                return True
            inner = value.values() if isinstance(value, dict) else value
            pending += [one for one in inner if isinstance(one, _HOLDING)]
    return False


_HOLDING = (dict, list)


def _fault(exc: ValidationError) -> str:
    """Returns the wrong parameter's name and what it must be, or "" where there are too many faults to list."""
    if exc.error_count() > _MOST_FAULTS:
        return ""
    first = exc.errors(include_url=False, include_context=False, include_input=False)[0]
    path = ".".join(escape(str(part)[:40]) for part in first["loc"][:4]).removeprefix("params.")
    if first["type"] == "missing":
        return f": {path} is missing"
    wanted = PLAIN_TYPES.get(first["type"])
    return f": {path} must be {wanted}" if wanted else f": {path} is not what it may be"


def _shortened(data: Any) -> Any:
    """Returns the data of an error with its strings cut to `MAX_ECHO`; the same object when nothing changes."""
    if isinstance(data, str):
        return data if len(data) <= MAX_ECHO and is_clean_text(data) else sendable(data[:MAX_ECHO])
    if isinstance(data, dict):
        short = {key: _shortened(value) for key, value in data.items()}
        return data if all(short[key] is value for key, value in data.items()) else short
    return data
