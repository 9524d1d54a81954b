"""Home folders with clients, whose configuration files look as those programs write them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blackboard_mcp.server.demo.process import command, environment
from patience import RUN
from ruamel.yaml import YAML

FILES = Path(__file__).parents[1] / "server" / "clients" / "files"


def without_comments(text: str) -> Any:
    """Returns the value of JSON as VS Code and Gemini CLI write it.

    Strings must not contain anything that looks like a comment.
    """
    bare = re.sub(r"(?m)/\*.*?\*/|(?<!:)//.*$", "", text)
    return json.loads(re.sub(r",(\s*[}\]])", r"\1", bare))


@dataclass(frozen=True)
class Kind:
    """The path of a client's file on Linux and its format, from the client's own documentation."""

    file: str
    load: Callable[[str], Any]
    servers: str
    command: str = "command"
    url: str = "url"
    headers: str = "headers"


KINDS = {
    "claude-desktop": Kind(".config/Claude/claude_desktop_config.json", json.loads, "mcpServers"),
    "claude-code": Kind(".claude.json", json.loads, "mcpServers"),
    "cursor": Kind(".cursor/mcp.json", json.loads, "mcpServers"),
    "vscode": Kind(".config/Code/User/mcp.json", without_comments, "servers"),
    "codex": Kind(".codex/config.toml", tomllib.loads, "mcp_servers", headers="http_headers"),
    "gemini": Kind(".gemini/settings.json", without_comments, "mcpServers", url="httpUrl"),
    "goose": Kind(
        ".config/goose/config.yaml", YAML(typ="safe", pure=True).load, "extensions", command="cmd", url="uri"
    ),
}
CLIENTS = list(KINDS)


class Home:
    """A home folder, and commands run by its user."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "boards"
        self.project = folder / "project"
        self.project.mkdir()
        self.environment = {
            name: value
            for name, value in environment().items()
            if not re.match("XDG_|CLAUDE_CONFIG_DIR|CODEX_HOME", name)
        } | {"HOME": str(folder), "BLACKBOARD_DATA": str(self.data)}

    def file(self, client: str) -> Path:
        """Returns the path of a client's file."""
        return self.folder / KINDS[client].file

    def have(self, client: str) -> Path:
        """Writes a client's file as it may look before an installation, and returns its path."""
        file = self.file(client)
        file.parent.mkdir(parents=True, exist_ok=True)
        (found,) = FILES.glob(f"{client}.*")
        file.write_bytes(found.read_bytes())
        return file

    def run(self, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """Runs a command in the project's folder, and returns its result."""
        env = self.environment | more.pop("env", {})
        return subprocess.run(
            more.pop("program", command()) + list(words),
            env=env,
            cwd=self.project,
            capture_output=True,
            text=True,
            timeout=RUN,
            check=False,
            **more,
        )

    def do(self, *words: str, **more: Any) -> str:
        """Runs a command that must succeed, and returns its output."""
        done = self.run(*words, **more)
        assert done.returncode == 0, done
        assert not done.stderr, done
        return done.stdout

    def refused(self, *words: str, **more: Any) -> str:
        """Runs a command that must fail and change nothing, and returns its error."""
        before = contents(self.folder)
        done = self.run(*words, **more)
        assert done.returncode in (1, 2), done
        assert "Traceback" not in done.stderr, done
        assert contents(self.folder) == before
        return done.stderr

    def entry(self, client: str, name: str = "blackboard", file: Path | None = None) -> dict[str, Any]:
        """Returns an entry of a client's file."""
        kind = KINDS[client]
        found: dict[str, Any] = kind.load((file or self.file(client)).read_text("utf-8"))[kind.servers][name]
        return found


def contents(folder: Path) -> dict[str, bytes]:
    """Returns the bytes of all files below a folder by path, except those of boards."""
    return {
        str(path): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and os.sep + "boards" + os.sep not in str(path)
    }
