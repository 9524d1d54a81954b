"""Our entries in clients' files: what they contain, and how they are added and removed."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.names import check_name, is_reserved, reserved
from blackboard_mcp.protocols.values import dataclass

from ..access.identity import check_bearer, name_header, read_token, server_url
from . import formats
from .catalogue import Client, filled
from .files import Contents, back_up, state_folder
from .records import Part, Record, digest, note, record_of, records

TOKEN: Final = "BLACKBOARD_TOKEN"
"""The environment variable from which clients take an access token."""
Value = tuple[formats.Path, Any]
"""The path of a value in a file, and the value to put there."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class ClientConnection:
    """The way a client is to reach boards: those of the folder `data`, or those of a server at `url`."""

    agent: str
    data: Path
    url: str | None = None
    relay: bool = False
    token: bool = False
    token_file: Path | None = None
    arguments: tuple[str, ...] = ()
    """Further arguments for `serve` or `connect`."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """A planned change of a client's file.

    `raw` are the new bytes, or `None` to remove the file. `record` is saved in place of the record `instead`.
    """

    client: str
    contents: Contents
    raw: bytes | None
    record: Record | None
    instead: Record | None = None

    def difference(self) -> str:
        """Returns the change as a unified diff; empty if nothing changes."""

        def lines(raw: bytes | None) -> list[str]:
            return [line + "\n" for line in (raw or b"").decode().splitlines()]

        file = str(self.contents.file)
        return "".join(difflib.unified_diff(lines(self.contents.raw), lines(self.raw), file, file))

    def make(self) -> Path | None:
        """Makes the change, saves the record, and returns the path of the backup, or `None` if there is none.

        Raises:
            InvalidInput: the file, its backup or the record cannot be written.
        """
        contents, record, kept = self.contents, self.record, None
        if self.raw != contents.raw:
            try:
                kept = back_up(self.client, contents, {one.backup for one in records() if one.backup})
                if record is not None and record.folder:
                    contents.file.parent.mkdir(exist_ok=True)
            except OSError as error:
                raise InvalidInput(
                    f"No backup of {contents.file} can be kept in {state_folder()} ({error.strerror}). Nothing was "
                    "changed."
                ) from None
            contents.replace(self.raw)
            if self.raw is None and self.instead is not None and self.instead.folder:
                with contextlib.suppress(OSError):  # the folder holds something else by now
                    contents.file.parent.rmdir()
        if record is not None and record.backup is None and kept is not None:
            record = dataclasses.replace(record, backup=str(kept))
        try:
            note(record, self.instead)
        except OSError as error:
            raise InvalidInput(
                f"{contents.file} was changed, but this cannot be noted in {state_folder()} ({error.strerror}): "
                "uninstall will not know the entry."
            ) from None
        return kept


def place(client: Client, file: Path | None, project: bool) -> Path:
    """Returns the path of the file to change: `file` if given, else the project's or the user's.

    Raises:
        InvalidInput: the client has no file for projects, or was never started on this machine.
    """
    if file is not None:
        return file.expanduser().absolute()
    if not project:
        if not client.is_there():
            raise InvalidInput(
                f"{client.title} has no settings on this machine: there is no "
                f"{' and no '.join(map(str, client.traces()))}. Start it once, or name the file with --file. "
                "Nothing was changed."
            )
        return client.user_file()
    if not client.project:
        raise InvalidInput(f"{client.title} has no file for a project: leave out --project.")
    return Path.cwd() / client.project


def own_command() -> list[str]:
    """Returns the command that starts this program from anywhere; clients may have another PATH."""
    if any(re.match(r"(archive|environments)-v\d", part) for part in Path(sys.prefix).parts):
        # The environment that uvx runs is deleted with its cache, so the entry calls uvx, which makes it again.
        beside = Path(os.environ.get("UV", "uv")).with_name("uvx")
        return [shutil.which(str(beside)) or shutil.which("uvx") or "uvx", "blackboard-mcp"]
    program = shutil.which(sys.argv[0])
    if program is not None and Path(program).stem == "blackboard-mcp":
        return [str(Path(program).absolute())]
    return [sys.executable, "-m", "blackboard_mcp.server"]


def entry_of(client: Client, name: str, wanted: ClientConnection) -> list[Value]:
    """Returns the values to put into the client's file; the first is its entry.

    Raises:
        InvalidInput: the client cannot connect in this way, or a name or an address is not valid.
    """
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"{name!r} is no name for an entry: 1 to 64 of A-Z, a-z, 0-9, _ and -.")
    check_name(wanted.agent)
    if is_reserved(wanted.agent):
        raise reserved(wanted.agent)
    within: formats.Path = (client.within, name)
    if wanted.url is None:
        if wanted.token or wanted.token_file or wanted.relay:
            raise InvalidInput("A relay and tokens are for a server that runs: name its address with --url.")
        words = ["serve", "--data", str(wanted.data), "--agent", wanted.agent]
        return [(within, _program(client, name, [*words, *wanted.arguments]))]
    url = server_url(wanted.url)
    if wanted.relay or client.http is None:
        return [(within, _program(client, name, _relay(url, wanted)))]
    if wanted.token_file is not None:
        raise InvalidInput(
            f"{client.title} takes no token from a file. Say --token, and it takes it from {TOKEN} (VS Code asks for "
            "it); or --relay --token-file FILE."
        )
    if wanted.arguments:
        raise InvalidInput(
            "Over HTTP there is no process to give arguments to: leave them out, or say --relay."
        )
    headers = {"X-Blackboard-Agent": name_header(wanted.agent)}
    variable = TOKEN
    parts: list[Value] = []
    if wanted.token:
        check_bearer(url, "token")
        if "input" in client.reference:
            variable = f"{name}-token"
            question = {"type": "promptString", "id": variable, "password": True}
            parts = [
                (("inputs", None), {**question, "description": f"Access token of {urlsplit(url).netloc}"})
            ]
        headers = {"Authorization": f"Bearer {client.reference.format(variable)}"}
    shape = client.remote(token=wanted.token)
    facts = {"name": name, "url": url, "headers": headers, "variable": variable}
    return [(within, filled(shape or {}, facts)), *parts]


def _relay(url: str, wanted: ClientConnection) -> list[str]:
    if wanted.token:
        raise InvalidInput("The relay takes a token from a file that only you can read: --token-file FILE.")
    if wanted.token_file is None:
        return ["connect", url, "--agent", wanted.agent, *wanted.arguments]
    file = wanted.token_file.expanduser().absolute()
    check_bearer(url, read_token(file))
    return ["connect", url, "--token-file", str(file), *wanted.arguments]


def _program(client: Client, name: str, arguments: list[str]) -> dict[str, Any]:
    command, *first = own_command()
    return filled(client.program, {"name": name, "command": command, "args": [*first, *arguments]})


def install(
    client: Client, file: Path, name: str, parts: list[Value], *, replace: bool = False, folder: bool = False
) -> FileChange | None:
    """Returns the change that adds an entry to a client's file, or `None` if the entry is there already.

    `parts` are the values to add, the entry first. `replace` allows to replace another entry of that name,
    `folder` to make the file's folder.

    Raises:
        InvalidInput: the file cannot be read or changed, or has another entry of that name.
    """
    contents = Contents.of(file)
    file, folder = contents.file, folder and not contents.file.parent.exists()
    if not folder and not file.parent.is_dir():
        raise InvalidInput(f"The folder {file.parent} is not there: make it first. Nothing was changed.")
    text, data = _read(client, contents)
    record, entry = record_of(client.name, file, name), parts[0][1]
    with _refusing(client, file, "Add"):
        there = formats.find(data, parts[0][0])
        parts = [
            (path, value) for path, value in parts if path[-1] is not None or not _has(data, path, value)
        ]
        if there == entry and len(parts) == 1:
            made = Record(client.name, str(file), name, _known(data, parts), contents.digest, "", None)
            return FileChange(client.name, contents, contents.raw, made) if record is None else None
        ours = record is not None and there is not None and digest(there) == record.parts[0].digest
        if there is not None and not ours and not replace:
            raise InvalidInput(
                f"{file} has a '{name}' of its own. Say --replace to put this in its place, or --name for another "
                "name. Nothing was changed."
            )
        if ours and record is not None:
            text = _without(client, text, record)
        known = _known(formats.load(client.kind, text), parts)
        for path, value in parts:
            text = formats.put(client.kind, text, path, value)
    raw = contents.raw_of(text)
    after = Contents(file, raw).digest or ""
    before = contents.digest if there is None else ""  # uninstalling will not restore a replaced entry
    new = Record(client.name, str(file), name, known, before, after, None, folder)
    if (
        ours and record is not None and record.after == contents.digest
    ):  # unchanged since the first installation, whose backup can still be restored
        new = Record(client.name, str(file), name, known, record.before, after, record.backup, record.folder)
    return FileChange(client.name, contents, raw, new, record)


def uninstall(client: Client, file: Path, name: str) -> FileChange | None:
    """Returns the change that removes an entry from a client's file, or `None` if there is no entry and no record.

    Raises:
        InvalidInput: the entry is not what was installed, or the file cannot be read or changed.
    """
    contents = Contents.of(file)
    file = contents.file
    text, data = _read(client, contents)
    record, path = record_of(client.name, file, name), (client.within, name)
    with _refusing(client, file, "Take out"):
        there = formats.find(data, path)
        if there is None:
            return None if record is None else FileChange(client.name, contents, contents.raw, None, record)
        if record is None or digest(there) != record.parts[0].digest:
            why = (
                "was not installed by this command"
                if record is None
                else "was changed since it was installed"
            )
            raise InvalidInput(
                f"'{name}' in {file} {why}, so it stays. Take it out in an editor. Nothing was changed."
            )
        if contents.digest == record.after:
            if record.before is None:
                return FileChange(client.name, contents, None, None, record)
            kept = Contents.of(Path(record.backup)) if record.backup else None
            if kept is not None and kept.digest == record.before:
                return FileChange(client.name, contents, kept.raw, None, record)
        text = _without(client, text, record)
    gone = record.before is None and not formats.load(client.kind, text)
    return FileChange(client.name, contents, None if gone else contents.raw_of(text), None, record)


def _read(client: Client, contents: Contents) -> tuple[str, dict[str, Any]]:
    try:
        return contents.text, formats.load(client.kind, contents.text)
    except formats.NotReadable as error:
        raise InvalidInput(
            f"{contents.file} is not {client.kind.upper()} that {client.title} could read: {error.message}. Correct it "
            "in an editor, then try again. Nothing was changed."
        ) from None


@contextlib.contextmanager
def _refusing(client: Client, file: Path, change: str) -> Iterator[None]:
    """Turns `NotEditable` into an error that tells the person what to change by hand."""
    try:
        yield
    except formats.NotEditable as error:
        show = (
            f"`blackboard-mcp install {client.name} --dry-run --file new.{client.kind}` shows what it says."
        )
        raise InvalidInput(
            f"{file}: {error.message}. Nothing was changed. {change} the entry by hand; {show}"
        ) from None


def _known(data: dict[str, Any], parts: list[Value]) -> tuple[Part, ...]:
    return tuple(
        Part(path, digest(value), int(formats.find(data, path[:-1]) is None)) for path, value in parts
    )


def _has(data: dict[str, Any], path: formats.Path, value: Any) -> bool:
    """Tells whether the list at the path has an element with the value's id, whatever its other fields are."""
    found = formats.find(data, path[:-1])
    return isinstance(found, list) and any(
        isinstance(one, dict) and one.get("id") == value["id"] for one in found
    )


def _without(client: Client, text: str, record: Record) -> str:
    """Returns the text without the recorded values, and without containers made for them that are empty now."""
    for part in record.parts:
        path, held = part.path, formats.find(formats.load(client.kind, text), part.path[:-1])
        if isinstance(held, list):
            at = next((n for n, one in enumerate(held) if digest(one) == part.digest), None)
            if at is None or f"input:{held[at]['id']}}}" in text:  # another entry uses it too
                continue
            path = (*path[:-1], at)
        text = formats.drop(client.kind, text, path)
        above = path[:-1]
        data = formats.load(client.kind, text)
        if part.made and above[0] in data and not formats.find(data, above):
            text = formats.drop(client.kind, text, above)
    return text
