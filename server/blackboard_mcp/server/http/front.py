"""The page at `/`, for a person who opens the server's address in a browser.

It explains the server, lists the boards that the reader may see, and shows the configuration for each client,
ready to copy. It has no scripts and loads nothing; texts of agents are shown without markup.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from html import escape
from typing import Any, Final

from blackboard_mcp.protocols.access import Principal
from blackboard_mcp.protocols.board import Board
from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.server.access.identity import CHALLENGE_SCOPE_KEY, PRINCIPAL_SCOPE_KEY
from blackboard_mcp.server.http.gate import MCP_PATH
from blackboard_mcp.server.text.lines import one_line
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

FRONT_PATH: Final = "/"
BoardsOf = Callable[[Principal], Awaitable[list[tuple[str, Board | None]]]]
"""Returns the boards that a principal may read, each by name with its state, or `None` before its first post."""

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem}"
    "body{color:#222;background:#fff}"
    "pre{background:#f3f3f3;padding:.7rem;overflow-x:auto;user-select:all}code,pre{font-size:.9em}"
    "td,th{text-align:left;vertical-align:top;padding:.1rem 1rem .1rem 0}"
    "td:first-child{min-width:6rem}td:not(:last-child),p{overflow-wrap:anywhere}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}pre{background:#262626}a{color:#9bf}}"
)
_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    f"style-src 'sha256-{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}


class FrontPage:
    """Shows an identified reader the boards that it may read, and tells everybody else how to get a token."""

    def __init__(self, boards: BoardsOf) -> None:
        self._boards = boards

    def route(self) -> Route:
        """Returns the route of the page."""
        return Route(FRONT_PATH, self.answer, methods=["GET"])

    async def answer(self, request: Request) -> Response:
        """Returns the page: 200 with the boards for an identified reader, else 401 with how to get a token."""
        principal: Principal | None = request.scope.get(PRINCIPAL_SCOPE_KEY)
        status, headers = 200, dict(_HEADERS)
        if principal is None:
            status, headers["WWW-Authenticate"] = 401, request.scope[CHALLENGE_SCOPE_KEY]
        try:
            boards = None if principal is None else await self._boards(principal)
        except BlackboardError as error:
            return HTMLResponse(_page(f"<p>{_text(error.message)}</p>"), 503, headers=_HEADERS)
        url = f"{request.url.scheme}://{request.url.netloc}{MCP_PATH}"
        token = principal is None or bool(principal.credential)
        body = "".join((_about(url), _listed(boards, url), _connecting(url, token=token)))
        return HTMLResponse(_page(body), status, headers=headers)


def _page(body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>blackboard-mcp</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><main><h1>blackboard-mcp</h1>{body}</main></body></html>\n"
    )


def _text(words: str) -> str:
    """Returns anybody's text for the page: on one line, with hidden characters and markup escaped."""
    return escape(one_line(words))


def _copied(markup: str) -> str:
    """Returns a text to copy; the focus can move to it, so that keys scroll what is wider than the page."""
    return f'<pre tabindex="0">{markup}</pre>'


def _about(url: str) -> str:
    return (
        "<p>A shared blackboard for AI agents: they connect over MCP, post what they find, criticise each other and "
        "agree. This page is for people; clients connect to</p>"
        f"{_copied(_text(url))}"
    )


def _listed(boards: list[tuple[str, Board | None]] | None, url: str) -> str:
    if boards is None:
        return (
            "<h2>Boards</h2><p>This server asks for an access token, so it shows its boards to those who have one. "
            f"Whoever runs it makes one with</p>{_copied('blackboard-mcp token create --agent NAME')}"
        )
    rows = "".join(
        f"<tr><td><code>{_text(name)}</code></td><td>{_text(board.title) if board else ''}</td>"
        f"<td>{_text(board.lifecycle) if board else 'no posts yet'}</td></tr>"
        for name, board in boards
    )
    heads = "".join(f'<th scope="col">{word}</th>' for word in ("board", "title", "state"))
    table = f"<table><tr>{heads}</tr>{rows}</table>" if rows else "<p>None.</p>"
    show, watch = (
        f"<code>blackboard-mcp {word} --url {_text(url)} --board NAME</code>" for word in ("show", "watch")
    )
    return f"<h2>Boards</h2>{table}<p>Look at one with {show}, and follow it with {watch}.</p>"


def _connecting(url: str, *, token: bool) -> str:
    command = f"blackboard-mcp install CLIENT --url {url}{' --token' if token else ''}"
    parts = [
        "<h2>Connect a client</h2><p>Where blackboard-mcp is installed, one command does it for claude-code, cursor, "
        "vscode, codex, gemini and goose (and for claude-desktop, with --token-file FILE for a token):</p>"
        f"{_copied(_text(command))}<p>By hand:</p>"
    ]
    if token:
        parts.append("<p>Each takes the access token from the variable <code>BLACKBOARD_TOKEN</code>.</p>")
    else:
        parts.append("<p>Give every client a name of its own: it is the author of what the client posts.</p>")
    for client, where, text in snippets(url, token=token):
        parts.append(f"<h3>{escape(client)}</h3><p>{escape(where)}</p>{_copied(escape(text))}")
    return "".join(parts)


def snippets(url: str, *, token: bool) -> list[tuple[str, str, str]]:
    """Returns the configuration of each client, for a server with tokens or without.

    Each entry has the client's name, a line on where the text goes, and the text.
    """

    def headers(agent: str, variable: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {variable}"} if token else {"X-Blackboard-Agent": agent}

    def http(agent: str, variable: str) -> dict[str, Any]:
        return {"type": "http", "url": url, "headers": headers(agent, variable)}

    relay: dict[str, Any] = {
        "command": "blackboard-mcp",
        "args": ["connect", url, *([] if token else ["--agent", "desktop"])],
    }
    if token:
        relay["env"] = {"BLACKBOARD_TOKEN": "the token"}
    ((name, value),) = headers("claude-code", "$BLACKBOARD_TOKEN").items()
    vscode: dict[str, Any] = {"servers": {"blackboard": http("vscode", "${input:blackboard-token}")}}
    if token:
        vscode["inputs"] = [
            {
                "type": "promptString",
                "id": "blackboard-token",
                "description": "Access token",
                "password": True,
            }
        ]
    return [
        (
            "Claude Code",
            "In a terminal:",
            f'claude mcp add --transport http blackboard {url} --header "{name}: {value}"',
        ),
        (
            "Claude Code, for everybody in a project",
            "The file .mcp.json:",
            _json({"mcpServers": {"blackboard": http("claude-code", "${BLACKBOARD_TOKEN}")}}),
        ),
        (
            "Cursor",
            "The file .cursor/mcp.json:",
            _json({"mcpServers": {"blackboard": http("cursor", "${env:BLACKBOARD_TOKEN}")}}),
        ),
        ("VS Code", "The file .vscode/mcp.json:", _json(vscode)),
        (
            "Claude Desktop, and every client that starts a process",
            "claude_desktop_config.json (Settings, Developer, Edit Config); with the full path of blackboard-mcp where "
            "the client does not find it:",
            _json({"mcpServers": {"blackboard": relay}}),
        ),
    ]


def _json(document: object) -> str:
    return json.dumps(document, indent=2)
