"""The clients there are: where each keeps its servers, and how it writes one.

Words that begin with `=` in a shape are filled in; `docs/howto/connect-clients.md` says what the shapes were checked
against.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from blackboard_mcp.protocols.values import dataclass

Shape = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Client:
    """One client. `reference` is how its file names a variable of the environment, or a question that it asks."""

    name: str
    title: str
    within: str
    """The key that holds its servers."""
    file: str
    program: Shape
    http: Shape | None = None
    http_with_token: Shape | None = None
    """Another shape, where it has one for a server that asks for a token."""
    reference: str = ""
    kind: str = "json"
    windows: str = ""
    """Its file on Windows, where that is elsewhere."""
    project: str = ""
    """Its file in a project's folder."""
    signs: tuple[str, ...] = ()
    """Places of which one is there where the client is; by default the folder of its file."""
    then: str = ""
    """What makes it see a change."""

    def user_file(self) -> Path:
        """Its file for all of a user's projects."""
        return _place(self.windows if self.windows and sys.platform == "win32" else self.file)

    def traces(self) -> list[Path]:
        """Files and folders of which one at least is on a machine that it was started on."""
        return [_place(sign) for sign in self.signs] or [self.user_file().parent]

    def is_there(self) -> bool:
        """Whether it left anything on this machine."""
        return any(place.exists() for place in self.traces())

    def remote(self, *, token: bool) -> Shape | None:
        """The shape of its entry for a server over HTTP; `None` where it starts programs only."""
        return (self.http_with_token if token else None) or self.http

    def read(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """What an entry says, by the names that shapes are filled in with."""
        shapes = [shape for shape in (self.program, self.http, self.http_with_token) if shape]
        return {
            word[1:]: entry[key]
            for shape in shapes
            for key, word in shape.items()
            if isinstance(word, str) and word.startswith("=") and key in entry
        }


def filled(shape: Shape, facts: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of that shape."""

    def fill(word: Any) -> Any:
        if isinstance(word, list):
            return [fill(one) for one in word]
        return facts[word[1:]] if isinstance(word, str) and word.startswith("=") else word

    return {key: fill(word) for key, word in shape.items()}


_PLAIN: Final = {"command": "=command", "args": "=args"}
_STDIO: Final = {"type": "stdio", **_PLAIN}
_REMOTE: Final = {"type": "http", "url": "=url", "headers": "=headers"}
_GOOSE: Final = {
    "name": "=name",
    "description": "A blackboard that agents share",
    "enabled": True,
    "timeout": 300,
}
_GOOSE_HTTP: Final = {"type": "streamable_http", **_GOOSE, "uri": "=url", "headers": "=headers"}

CLIENTS: Final = {
    client.name: client
    for client in (
        Client(
            name="claude-desktop",
            title="Claude Desktop",
            within="mcpServers",
            file="{config}/Claude/claude_desktop_config.json",
            program=_PLAIN,
            then="Quit Claude Desktop and start it again",
        ),
        Client(
            name="claude-code",
            title="Claude Code",
            within="mcpServers",
            file="{CLAUDE_CONFIG_DIR:~}/.claude.json",
            project=".mcp.json",
            signs=("{CLAUDE_CONFIG_DIR:~}/.claude.json", "{CLAUDE_CONFIG_DIR:~/.claude}"),
            program=_STDIO,
            http=_REMOTE,
            reference="${{{}}}",
            then="Start a new session of Claude Code",
        ),
        Client(
            name="cursor",
            title="Cursor",
            within="mcpServers",
            file="~/.cursor/mcp.json",
            project=".cursor/mcp.json",
            program=_PLAIN,
            http={"url": "=url", "headers": "=headers"},
            reference="${{env:{}}}",
            then="Restart Cursor, see that the server is switched on in its MCP settings",
        ),
        Client(
            name="vscode",
            title="VS Code",
            within="servers",
            file="{config}/Code/User/mcp.json",
            project=".vscode/mcp.json",
            program=_STDIO,
            http=_REMOTE,
            reference="${{input:{}}}",
            then="Run 'MCP: List Servers' in VS Code, start the server",
        ),
        Client(
            name="codex",
            title="Codex",
            kind="toml",
            within="mcp_servers",
            file="{CODEX_HOME:~/.codex}/config.toml",
            project=".codex/config.toml",
            program=_PLAIN,
            http={"url": "=url", "http_headers": "=headers"},
            http_with_token={"url": "=url", "bearer_token_env_var": "=variable"},
            then="Start a new session of Codex",
        ),
        Client(
            name="gemini",
            title="Gemini CLI",
            within="mcpServers",
            file="~/.gemini/settings.json",
            project=".gemini/settings.json",
            program=_PLAIN,
            http={"httpUrl": "=url", "headers": "=headers"},
            reference="${{{}}}",
            then="Start Gemini CLI again",
        ),
        Client(
            name="goose",
            title="Goose",
            kind="yaml",
            within="extensions",
            file="{XDG_CONFIG_HOME:~/.config}/goose/config.yaml",
            windows="{config}/Block/goose/config/config.yaml",
            program={"type": "stdio", **_GOOSE, "cmd": "=command", "args": "=args"},
            http=_GOOSE_HTTP,
            http_with_token={**_GOOSE_HTTP, "env_keys": ["=variable"]},
            reference="${{{}}}",
            then="Start a new session of Goose",
        ),
    )
}


def _place(template: str) -> Path:
    """A file's path; `{NAME:default}` is a variable, `{config}` is where desktop programs keep their settings."""
    if sys.platform == "win32":
        config = "{APPDATA:~/AppData/Roaming}"
    elif sys.platform == "darwin":
        config = "~/Library/Application Support"
    else:
        config = "{XDG_CONFIG_HOME:~/.config}"
    words = template.replace("{config}", config)
    return Path(re.sub(r"\{(\w+):([^}]*)\}", lambda m: os.environ.get(m[1]) or m[2], words)).expanduser()
