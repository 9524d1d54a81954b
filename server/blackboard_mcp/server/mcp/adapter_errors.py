"""How the error tree and what nobody foresaw reach a client, and text that every wire can carry."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from typing import Any

from blackboard_mcp.protocols.errors import BlackboardError, InvalidInput
from blackboard_mcp.server.mcp.adapter_arguments import is_clean_text
from mcp.shared.exceptions import MCPError
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS, CallToolResult, TextContent

logger = logging.getLogger(__name__)


def error_result(
    code: str, message: str, facts: Mapping[str, Any], *, structured: bool, footer: str = ""
) -> CallToolResult:
    """The result of a call that failed in a way its caller can do something about; `footer` ends its text."""
    text = sendable(message)
    shown = f"{text}\n{sendable(footer)}" if footer else text
    return CallToolResult(
        content=[TextContent(type="text", text=shown)],
        structured_content={**facts, "error": code, "message": text} if structured else None,
        is_error=True,
    )


def protocol_error(exc: BlackboardError, **data: Any) -> MCPError:
    """The same for requests whose answers have no room for errors."""
    code = INVALID_PARAMS if isinstance(exc, InvalidInput) else INTERNAL_ERROR
    return MCPError(code, sendable(exc.message), data={**exc.facts, **data, "error": exc.code})


def internal_error(what: str) -> tuple[str, str]:
    """Log the exception being handled; its reference and what the client may know of it."""
    reference = secrets.token_hex(3)
    logger.exception("internal error %s in %s", reference, what)
    return (
        reference,
        f"Internal error (reference {reference}); nothing more was done. Read before trying again.",
    )


def sendable(text: str) -> str:
    """The text with what no wire can carry replaced; ours never has any, a driver's message might."""
    return text if is_clean_text(text) else text.replace("\0", "").encode("utf-8", "replace").decode()
