"""Early refusal of calls that exceed an OAuth token's scopes, so that a client can ask its issuer for more.

A tool's refusal is a result that only the model reads; a client that handles sign-in reads the status 403 and
its challenge ([RFC 6750](https://www.rfc-editor.org/rfc/rfc6750) section 3.1). So the needs of a call are
looked up before the SDK sees it. This only helps clients: rights are enforced elsewhere, for every call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from blackboard_mcp.protocols.access import SCOPED, Action, Principal, Scope
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Connection

from ...access.identity import PRINCIPAL_SCOPE_KEY
from ..gate import MCP_PATH, ErrorAnswer
from .resource_metadata import ProtectedResource

NeedsOf = Callable[[str, Mapping[str, Any]], frozenset[Action]]
"""Returns the rights that a call with these unchecked arguments needs; empty for an unknown tool."""

SCOPE_OF: Final[Mapping[Action, Scope]] = {
    action: scope for scope, opened in SCOPED.items() for action in opened
}


class StepUp:
    """Answers 403 to calls that exceed the scopes of their OAuth token, and lets everything else through."""

    def __init__(self, app: ASGIApp, *, resource: ProtectedResource, needs: NeedsOf) -> None:
        self._app = app
        self._resource = resource
        self._needs = needs

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        principal = scope.get(PRINCIPAL_SCOPE_KEY)
        if scope["type"] != "http" or not isinstance(principal, Principal) or principal.via != "oauth":
            await self._app(scope, receive, send)
            return
        needed = frozenset({Action.READ})
        if scope["path"] == MCP_PATH and scope["method"] == "POST":
            first = await receive()
            needed |= self._called(first.get("body", b""))
            receive = _again(first, receive)
        lacking = [s for s in Scope if s in {SCOPE_OF[action] for action in needed} - principal.scopes]
        if not lacking:
            await self._app(scope, receive, send)
            return
        wanted = [s for s in Scope if s in principal.scopes or s in lacking]
        named = " ".join(self._resource.issued_as(s) for s in lacking)
        refusal = ErrorAnswer(
            403,
            "insufficient_scope",
            f"The access token lacks the scope {named}: sign in anew and ask for it. Nothing was changed.",
            headers={"WWW-Authenticate": self._resource.insufficient(wanted)},
            scope=named,
        )
        await refusal(scope, send)

    def _called(self, body: bytes) -> frozenset[Action]:
        """Returns the rights that the tool call in a request's body needs; empty if it is no tool call."""
        try:
            message = json.loads(body)
            if message["method"] != "tools/call":
                return frozenset()
            needed = self._needs(message["params"]["name"], message["params"].get("arguments") or {})
            # A malformed call needs every right; its fault is not a missing scope, so let it through.
            return frozenset() if needed == frozenset(Action) else needed
        except Exception:  # the body is malformed: the SDK reports its fault
            return frozenset()


def _again(first: Message, receive: Receive) -> Receive:
    """Returns a `receive` that delivers `first` once more before all later messages."""
    held: list[Message] = [first]

    async def replay() -> Message:
        return held.pop() if held else await receive()

    return replay
