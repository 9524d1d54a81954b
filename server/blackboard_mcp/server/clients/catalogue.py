"""The supported clients: where each keeps its servers, and how it writes an entry.

In a shape, words that begin with `=` are replaced by values; `docs/howto/connect-clients.md` says what the
shapes were checked against.
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
    """A supported client, with the places and format of its configuration.

    `reference` is the format by which its file refers to an environment variable or to a prompt for input.
    """

    name: str
    title: str
    within: str
    """The key in its file that holds its servers."""
    file: str
    program: Shape
    http: Shape | None = None
    http_with_token: Shape | None = None
    """The shape for a server that needs a token, if it differs from `http`."""
    reference: str = ""
    kind: str = "json"
    windows: str = ""
    """The path of its file on Windows, if it differs from `file`."""
    project: str = ""
    """The path of its file inside a project's folder; empty if it has none."""
    signs: tuple[str, ...] = ()
    """Paths of which at least one exists where the client was started; by default the folder of its file."""
    then: str = ""
    """What the person must do so that the client reads its file again."""

    def user_file(self) -> Path:
        """Returns the path of its file for all of the user's projects."""
        return _place(self.windows if self.windows and sys.platform == "win32" else self.file)

    def traces(self) -> list[Path]:
        """Returns paths of which at least one exists on a machine where the client was started."""
        return [_place(sign) for sign in self.signs] or [self.user_file().parent]

    def is_there(self) -> bool:
        """Tells whether the client was ever started on this machine."""
        return any(place.exists() for place in self.traces())

    def remote(self, *, token: bool) -> Shape | None:
        """Returns the shape of its entry for a server over HTTP, or `None` if it only starts programs."""
        return (self.http_with_token if token else None) or self.http

    def read(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the values of an entry by their names in shapes, such as `url`: the reverse of `filled`."""
        shapes = [shape for shape in (self.program, self.http, self.http_with_token) if shape]
        return {
            word[1:]: entry[key]
            for shape in shapes
            for key, word in shape.items()
            if isinstance(word, str) and word.startswith("=") and key in entry
        }


def filled(shape: Shape, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the entry that a shape gives with these values."""

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
    """Returns the path of a template.

    `{NAME:default}` stands for an environment variable, `{config}` for the folder of desktop programs'
    settings.
    """
    if sys.platform == "win32":
        config = "{APPDATA:~/AppData/Roaming}"
    elif sys.platform == "darwin":
        config = "~/Library/Application Support"
    else:
        config = "{XDG_CONFIG_HOME:~/.config}"
    words = template.replace("{config}", config)
    return Path(re.sub(r"\{(\w+):([^}]*)\}", lambda m: os.environ.get(m[1]) or m[2], words)).expanduser()
