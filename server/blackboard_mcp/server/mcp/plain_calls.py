"""Plain calls, answered without the SDK's machinery for one request, which takes longer than most of them.

A plain call is a quick tool's, in the modern generation, for text alone, and in order by every rule of the SDK's. It
passes the SDK's own checks of headers and envelope. Any other call is the SDK's, also one that is not in order, so the
SDK alone says what is wrong with a request.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from blackboard_mcp.protocols.access import Principal
from blackboard_mcp.server.access.identity import PRINCIPAL_SCOPE_KEY
from blackboard_mcp.server.mcp.callers import ONCE_META_KEY, STRUCTURED_META_KEY
from blackboard_mcp.server.mcp.errors import Result, holds_too_much
from blackboard_mcp.server.tools.tool import Caller
from mcp.shared.inbound import MCP_PARAM_HEADER_PREFIX, InboundModernRoute, classify_inbound_request
from mcp.types import SERVER_INFO_META_KEY, CallToolRequestParams
from mcp.types.methods import validate_client_request
from pydantic import ValidationError
from starlette.datastructures import Headers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from blackboard_mcp.server.mcp.tools import ServedTools
    from blackboard_mcp.server.tools.tool import Tool
    from starlette.types import Scope, Send

_METHOD: Final = "tools/call"
_MESSAGE: Final = {"jsonrpc", "id", "method", "params"}
_PARAMS: Final = {"name", "arguments", "_meta"}
_ACCEPTED: Final = {"application/json", "text/event-stream"}
_DECLARING: Final = MCP_PARAM_HEADER_PREFIX.lower().encode()
_LARGEST_ID: Final = 2**53
_dumps: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class PlainCall(NamedTuple):
    """A plain call: its id, its tool, its unchecked arguments, and who calls."""

    id: int | str
    tool: Tool
    arguments: dict[str, Any]
    caller: Caller


def plain_call(tool: Tool, scope: Scope, body: bytes) -> PlainCall | None:
    """Returns the call in a request whose headers name `tool`, or `None` if it is the SDK's to answer or to refuse."""
    raw: list[tuple[bytes, bytes]] = scope["headers"]
    told = {name.decode("latin-1"): value.decode("latin-1") for name, value in raw}
    principal = scope.get(PRINCIPAL_SCOPE_KEY)
    if (
        scope["method"] != "POST"
        or len(told) < len(raw)
        or _DECLARING in b"\n".join([name for name, _ in raw])
        or told.get("content-type") != "application/json"
        or {kind.strip() for kind in told.get("accept", "").split(",")} != _ACCEPTED
        or not isinstance(principal, Principal)
    ):
        return None
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if type(message) is not dict or message.keys() != _MESSAGE or not _is_plain_id(message["id"]):
        return None
    params = message["params"]
    if type(params) is not dict or params.keys() != _PARAMS or params["name"] != tool.name:
        return None
    if message["jsonrpc"] != "2.0" or message["method"] != _METHOD or holds_too_much(params, tool=True):
        return None
    route = classify_inbound_request(message, headers=told)
    arguments = params["arguments"]
    if not isinstance(route, InboundModernRoute) or type(arguments) is not dict:
        return None
    try:
        validate_client_request(_METHOD, route.protocol_version, params)
        CallToolRequestParams.model_validate(params, by_name=False)
    except ValidationError:
        return None
    meta: Mapping[str, Any] = params["_meta"]
    if meta.get(STRUCTURED_META_KEY) is True or not (
        tool.quick(arguments) if callable(tool.quick) else tool.quick
    ):
        return None
    caller = Caller(principal, "http", False, Headers(raw=raw), asked_once=meta.get(ONCE_META_KEY))
    return PlainCall(message["id"], tool, arguments, caller)


def _is_plain_id(given: object) -> bool:
    if type(given) is int:
        return abs(given) <= _LARGEST_ID
    return type(given) is str and given.isascii()


class PlainCalls:
    """Answers plain calls.

    Args:
        stamp: what the SDK says of the server in each result.
    """

    def __init__(self, tools: ServedTools, stamp: Mapping[str, Any]) -> None:
        self._tools = tools
        self._meta = {SERVER_INFO_META_KEY: stamp}

    async def answer(self, call: PlainCall, send: Send) -> None:
        """Runs a call and sends its answer, byte for byte as the SDK would."""
        result = await self._tools.run(call.tool, call.caller, call.arguments)
        document = {"jsonrpc": "2.0", "id": call.id, "result": self._document(result)}
        body = _dumps(document).encode()
        headers = [
            (b"content-length", b"%d" % len(body)),
            (b"content-type", b"application/json"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _document(self, result: Result) -> dict[str, Any]:
        return {
            "content": [{"text": result.text, "type": "text"}],
            "isError": result.is_error,
            "resultType": "complete",
            "_meta": self._meta,
        }
