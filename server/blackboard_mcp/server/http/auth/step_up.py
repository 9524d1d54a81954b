"""Calls that an OAuth token's scopes do not reach, answered so that a client can ask its issuer for more.

A tool's refusal is a result that a model reads; a client that signs in reads the status 403 and its challenge
([RFC 6750](https://www.rfc-editor.org/rfc/rfc6750) section 3.1). So what a call needs is looked up before the
SDK sees it. This is a courtesy: whether a call is allowed is decided where every call is, whatever stands here.
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
"""What a call of a tool with these arguments, unchecked, needs; nothing for a tool that is not there."""

SCOPE_OF: Final[Mapping[Action, Scope]] = {
    action: scope for scope, opened in SCOPED.items() for action in opened
}


class StepUp:
    """Answers 403 to a call of an OAuth token that its scopes do not reach; lets everything else through."""

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
        """What the call in a request's body needs; nothing for what is none."""
        try:
            message = json.loads(body)
            if message["method"] != "tools/call":
                return frozenset()
            needed = self._needs(message["params"]["name"], message["params"].get("arguments") or {})
            # Everything is what a call needs that is none: what is wrong with it is not a scope.
            return frozenset() if needed == frozenset(Action) else needed
        except Exception:  # whatever a client may send: the SDK says what is wrong with it
            return frozenset()


def _again(first: Message, receive: Receive) -> Receive:
    """A `receive` that gives a message once more."""
    held: list[Message] = [first]

    async def replay() -> Message:
        return held.pop() if held else await receive()

    return replay
