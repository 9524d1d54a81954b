"""Our entries in clients' files: those that were installed, and those that a person wrote."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.values import dataclass

from . import formats
from .catalogue import CLIENTS, Client
from .files import Contents
from .records import digest, records


@dataclass(frozen=True, slots=True)
class Entry:
    """A server in a client's file: a command with environment variables, or an address with headers."""

    client: Client
    file: Path
    name: str
    command: list[str]
    variables: dict[str, str]
    url: str
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A client's file that cannot be read, and the reason."""

    client: Client
    file: Path
    why: str


def entries() -> Iterator[Entry | Unreadable]:
    """Yields our entries in the user's own files, and unchanged installed ones in other files.

    A file with an installed entry that cannot be read is yielded as `Unreadable`.
    """
    known = records()
    places = {(client.name, Path(os.path.realpath(client.user_file()))): False for client in CLIENTS.values()}
    places |= {
        (one.client, Path(one.file)): True for one in known if (one.client, Path(one.file)) not in places
    }
    for (name, file), installed_only in places.items():
        client = CLIENTS.get(name)
        if client is None or not file.is_file():
            continue
        installed = {
            one.name: one.parts[0].digest for one in known if (one.client, one.file) == (name, str(file))
        }
        try:
            servers = formats.find(formats.load(client.kind, Contents.of(file).text), (client.within,))
        except InvalidInput as error:
            if installed:
                yield Unreadable(client, file, error.message)
            continue
        for key, entry in servers.items() if isinstance(servers, dict) else ():
            if not isinstance(entry, dict) or entry.get("enabled") is False or entry.get("disabled") is True:
                continue
            read = _read(client, file, key, entry)
            # Others may write to a file such as a project's, so only an unchanged installed entry of it counts.
            if digest(entry) == installed.get(key) or (not installed_only and _is_ours(read)):
                yield read


def _read(client: Client, file: Path, name: str, entry: Mapping[str, Any]) -> Entry:
    said = client.read(entry)
    arguments = said.get("args") if isinstance(said.get("args"), list) else []
    command = [str(said["command"]), *map(str, arguments or [])] if "command" in said else []
    headers = dict(_words(said.get("headers")))
    if "variable" in said:
        headers["Authorization"] = f"Bearer ${{{said['variable']}}}"
    variables = dict(_words(entry.get("env") or entry.get("envs")))
    return Entry(client, file, name, command, variables, str(said.get("url", "")), headers)


def _words(found: Any) -> Iterator[tuple[str, str]]:
    if isinstance(found, dict):
        yield from ((str(key), str(value)) for key, value in found.items())


def _is_ours(entry: Entry) -> bool:
    if entry.url:
        return entry.name == "blackboard"
    program, *arguments = [Path(word).stem for word in entry.command[:3]] or [""]
    return "blackboard-mcp" in (program, *arguments[:1]) or "blackboard_mcp" in arguments


def resolved(words: str) -> tuple[str, list[str]]:
    """Returns the text with its environment variables filled in, and the names of those that are not set."""
    missing: list[str] = []

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name not in os.environ:
            missing.append(name)
        return os.environ.get(name, "")

    return re.sub(r"\$\{(?:env:)?([^}]+)\}|\$(\w+)", value, words), missing
