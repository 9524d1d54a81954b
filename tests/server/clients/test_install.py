"""`install` and `uninstall` as processes, on files as the clients write them: what changes, and what never does."""

from __future__ import annotations

import difflib
import json
import os
import re
import resource
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.server.clients import formats, installation
from blackboard_mcp.server.clients.catalogue import CLIENTS as CATALOGUE
from homes import CLIENTS, KINDS, Home, contents
from hypothesis import given
from hypothesis import strategies as st
from settings_texts import TOML, YAML, json_texts, toml_texts, yaml_texts

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="homes as they are on Linux")
URL = "http://127.0.0.1:8420/mcp"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def backup(said: str) -> Path:
    return Path(said.splitlines()[0].partition("; as it was: ")[2])


@pytest.mark.parametrize("client", CLIENTS)
def test_a_file_gets_the_entry_and_nothing_else_and_is_as_it_was_without_it(home: Home, client: str) -> None:
    file = home.have(client)
    file.chmod(0o640)
    before, kind = file.read_text("utf-8"), KINDS[client]
    shown = home.do("install", client, "--dry-run")
    assert contents(home.folder) == {str(file): before.encode()}, "it only shows"
    said = home.do("install", client)
    after = file.read_text("utf-8")
    lines = (before.splitlines(keepends=True), after.splitlines(keepends=True))
    assert shown.splitlines() == "".join(difflib.unified_diff(*lines, str(file), str(file))).splitlines()
    now, then = kind.load(after), kind.load(before)
    entry = now[kind.servers].pop("blackboard")
    assert now == {**then, kind.servers: then.get(kind.servers, {})}
    assert entry[kind.command] == sys.executable
    assert entry["args"][-5:] == ["serve", "--data", str(home.data), "--agent", client]
    left = iter(after.splitlines())
    assert all(any(line.rstrip(",") == one.rstrip(",") for one in left) for line in before.splitlines())
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    kept = backup(said)
    assert kept.read_text("utf-8") == before
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert len(said.splitlines()) == 2, "what was done, and what to do next"
    assert "say to it" in said

    assert "Nothing to change" in home.do("install", client)
    assert file.read_text("utf-8") == after
    shown = home.do("uninstall", client, "--dry-run")
    assert (
        shown.splitlines() == "".join(difflib.unified_diff(*lines[::-1], str(file), str(file))).splitlines()
    )
    assert file.read_text("utf-8") == after
    assert "no 'blackboard' any more" in home.do("uninstall", client)
    assert file.read_text("utf-8") == before
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert "Nothing to take out" in home.do("uninstall", client)


@pytest.mark.parametrize("client", CLIENTS)
def test_without_a_file_one_is_made_and_goes_again(home: Home, client: str) -> None:
    file = home.file(client)
    told = home.refused("install", client)
    assert "no settings on this machine: there is no /" in told
    file.parent.mkdir(parents=True, exist_ok=True)
    if client == "claude-code":
        (home.folder / ".claude").mkdir()
    home.do("install", client)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert home.entry(client)["args"][-1] == client
    home.do("uninstall", client)
    assert not file.exists()


@pytest.mark.parametrize("client", ["claude-code", "cursor", "vscode", "codex", "gemini"])
def test_a_projects_file_is_made_with_its_folder(home: Home, client: str) -> None:
    home.do("install", client, "--project", "--url", URL)
    (made,) = (path for path in home.project.rglob("*") if path.is_file())
    assert made.relative_to(home.project) == Path(CATALOGUE[client].project)
    assert home.entry(client, file=made)[KINDS[client].url] == URL
    home.do("uninstall", client, "--project")
    assert not list(home.project.iterdir())


@pytest.mark.parametrize("client", ["claude-desktop", "goose"])
def test_a_client_without_files_for_projects_says_so(home: Home, client: str) -> None:
    assert "no file for a project" in home.refused("install", client, "--project")


@pytest.mark.parametrize("client", CLIENTS)
def test_what_changed_since_stays_and_the_rest_goes(home: Home, client: str) -> None:
    file, kind = home.have(client), KINDS[client]
    then = kind.load(file.read_text("utf-8"))
    home.do("install", client)
    file.write_text(file.read_text("utf-8").replace(f'"{client}"', '"another"', 1), "utf-8")
    home.do("install", client, "--name", "second", "--url", URL, "--relay")
    assert "was changed since it was installed, so it stays" in home.refused("uninstall", client)
    home.do("uninstall", client, "--name", "second")
    now = kind.load(file.read_text("utf-8"))
    assert "second" not in now[kind.servers]
    assert now[kind.servers].pop("blackboard")["args"][-1] == "another"
    assert now == {**then, kind.servers: then.get(kind.servers, {})}
    assert "of its own" in home.refused("install", client), "what a person made of it is not overwritten"
    home.do("install", client, "--replace")
    home.do("uninstall", client)
    assert "blackboard" not in (kind.load(file.read_text("utf-8")).get(kind.servers) or {})


@pytest.mark.parametrize("client", ["claude-code", "cursor", "goose"])
def test_a_file_that_the_client_wrote_anew_loses_the_entry_alone(home: Home, client: str) -> None:
    file, kind = home.have(client), KINDS[client]
    then = kind.load(file.read_text("utf-8"))
    home.do("install", client)
    written = formats.load(CATALOGUE[client].kind, file.read_text("utf-8"))
    written["later"] = 1
    file.write_text(json.dumps(written), "utf-8")  # JSON is YAML, too
    home.do("uninstall", client)
    now = kind.load(file.read_text("utf-8"))
    assert now.pop("later") == 1
    assert {name: one for name, one in now.items() if one or name in then} == then


def test_an_entry_is_brought_up_to_date_and_the_file_still_comes_back(home: Home) -> None:
    file = home.have("vscode")
    before = file.read_bytes()
    home.do("install", "vscode", "--url", URL, "--token")
    assert "blackboard-token" in file.read_text("utf-8")
    home.do("install", "vscode", "--url", URL)
    assert "blackboard-token" not in file.read_text("utf-8")
    assert home.entry("vscode")["headers"] == {"X-Blackboard-Agent": "vscode"}
    home.do("uninstall", "vscode")
    assert file.read_bytes() == before


def test_a_question_that_another_entry_asks_stays(home: Home) -> None:
    file = home.have("vscode")
    home.do("install", "vscode", "--url", URL, "--token")
    asks = (
        '"servers": { "z": { "type": "http", "url": "x", "headers": { "A": "${input:blackboard-token}" } },'
    )
    file.write_text(file.read_text("utf-8").replace('"servers": {', asks), "utf-8")
    home.do("uninstall", "vscode")
    assert [one["id"] for one in KINDS["vscode"].load(file.read_text("utf-8"))["inputs"]] == [
        "perplexity-key",
        "blackboard-token",
    ]


def test_a_link_stays_a_link(home: Home) -> None:
    file = home.have("cursor")
    elsewhere = home.folder / "dotfiles" / "cursor.json"
    elsewhere.parent.mkdir()
    shutil.move(file, elsewhere)
    file.symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    home.do("install", "cursor")
    assert file.is_symlink()
    assert "blackboard" in elsewhere.read_text("utf-8")
    home.do("uninstall", "cursor")
    assert file.is_symlink()
    assert elsewhere.read_bytes() == before


def test_installations_at_the_same_time_all_count(home: Home) -> None:
    wanted = [("cursor", "one"), ("cursor", "two"), ("cursor", "three"), ("vscode", "one"), ("codex", "one")]
    before = {client: home.have(client).read_bytes() for client, _ in wanted}
    at_once = ThreadPoolExecutor(len(wanted))
    list(at_once.map(lambda one: home.do("install", one[0], "--name", one[1]), wanted))
    for client, name in wanted:
        assert home.entry(client, name)
    list(at_once.map(lambda one: home.do("uninstall", one[0], "--name", one[1]), wanted))
    assert {client: home.file(client).read_bytes() for client in before} == before
    at_once.shutdown()


def test_a_mark_at_the_beginning_and_ends_of_lines_of_windows_stay(home: Home) -> None:
    file = home.have("vscode")
    before = b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n")
    file.write_bytes(before)
    home.do("install", "vscode")
    after = file.read_bytes()
    assert after.startswith(b"\xef\xbb\xbf{")
    assert after.count(b"\n") == after.count(b"\r\n")
    home.do("uninstall", "vscode")
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("client", "raw", "says"),
    [
        (
            "cursor",
            b'{"mcpServers": {\n  "a": }',
            "line 2: '}' is not expected there. Correct it in an editor",
        ),
        ("cursor", b"[]", "it holds no object at its top"),
        (
            "cursor",
            b'{"mcpServers": []}',
            "'mcpServers' is no object. Nothing was changed. Add the entry by hand",
        ),
        ("cursor", b'{"a": "\xff"}', "not in UTF-8"),
        ("codex", b"model = \n", "is not TOML that Codex could read"),
        ("codex", b"mcp_servers = {}\n", "--dry-run --file new.toml` shows what"),
        ("goose", b"extensions: [\n", "is not YAML that Goose could read"),
        ("goose", b"{a: 1}\n", "Add the entry by hand"),
    ],
)
def test_a_file_that_cannot_be_changed_is_left_alone_and_it_says_what_to_do(
    home: Home, client: str, raw: bytes, says: str
) -> None:
    home.have(client).write_bytes(raw)
    said = home.refused("install", client)
    assert says in said
    assert "Nothing was changed" in said


def test_a_folder_in_the_place_of_the_file_is_refused(home: Home) -> None:
    home.file("cursor").mkdir(parents=True)
    assert "cannot be read (Is a directory)" in home.refused("install", "cursor")


def test_a_file_that_cannot_be_written_is_left_whole(home: Home) -> None:
    home.have("cursor")

    def no_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    assert "(File too large). Nothing was changed." in home.refused("install", "cursor", preexec_fn=no_room)


@pytest.mark.skipif(os.geteuid() == 0, reason="an administrator may write everything")
def test_a_file_that_is_read_only_is_refused(home: Home) -> None:
    home.have("cursor").chmod(0o444)
    assert "it is read-only" in home.refused("install", "cursor")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--url", "8420"], "is not the address of a server"),
        (["--url", "https://ana:secret@example.com"], "without a password"),
        (["--url", URL, "--data", "x"], "give one of them"),
        (["--relay"], "name its address with --url"),
        (["--token"], "name its address with --url"),
        (["--url", URL, "--token", "--relay"], "--token-file FILE"),
        (["--url", "http://example.com", "--token"], "in the clear"),
        (["--url", URL, "--token-file", "x"], "--relay --token-file FILE"),
        (["--url", URL, "--relay", "--token-file", "/none"], "cannot be read"),
        (["--url", URL, "--", "--owner", "ana"], "no process to give arguments to"),
        (["--name", "a.b"], "no name for an entry"),
        (["--agent", "a b"], "a b"),
        (["--agent", "everyone"], "everyone"),
    ],
)
def test_what_cannot_be_meant_is_refused(home: Home, words: list[str], says: str) -> None:
    home.have("cursor")
    assert says in home.refused("install", "cursor", *words)


def test_a_token_file_that_others_can_read_is_refused(home: Home) -> None:
    home.have("claude-desktop")
    token = home.folder / "the token"
    token.write_text("bbt_x\n")
    token.chmod(0o640)
    words = ("claude-desktop", "--url", URL, "--token-file", str(token))
    assert f"chmod 600 '{token}'" in home.refused("install", *words)
    assert "chmod 600" in home.refused("connect", URL, "--token-file", str(token))
    token.chmod(0o600)
    said = home.do("install", *words)
    assert f"The token stays in {token}" in said
    assert home.entry("claude-desktop")["args"][-4:] == ["connect", URL, "--token-file", str(token)]
    token.write_text("")
    assert "is empty" in home.refused("connect", URL, "--token-file", str(token))


def test_arguments_go_to_what_is_started(home: Home) -> None:
    home.have("cursor")
    home.do("install", "cursor", "--", "--owner", "ana", "--tools", "core,admin")
    assert home.entry("cursor")["args"][-4:] == ["--owner", "ana", "--tools", "core,admin"]


def test_the_program_is_named_by_its_whole_path_as_it_was_called(home: Home) -> None:
    home.have("cursor")
    program = home.folder / "bin" / "blackboard-mcp"
    program.parent.mkdir()
    program.symlink_to(Path(sys.executable).with_name("blackboard-mcp"))
    path = {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    home.do("install", "cursor", program=["blackboard-mcp"], env=path, executable=str(program))
    assert home.entry("cursor")["command"] == str(program)


def test_from_an_environment_of_uvx_the_entry_calls_uvx(home: Home) -> None:
    home.have("cursor")
    made = home.folder / ".cache" / "uv" / "archive-v0" / "x1"
    uv = home.folder / "tools" / "uv"
    uv.parent.mkdir()
    for tool in (uv, uv.with_name("uvx")):
        tool.write_text("#!/bin/sh\n")
        tool.chmod(0o755)
    (made / "bin").mkdir(parents=True)
    here = Path(sys.prefix)
    shutil.copy(here / "pyvenv.cfg", made)
    (made / "lib").symlink_to(here / "lib")
    (made / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    program = [str(made / "bin" / "python"), "-m", "blackboard_mcp.server"]
    home.do("install", "cursor", program=program, env={"UV": str(uv)})
    entry = home.entry("cursor")
    assert entry["command"] == str(uv.with_name("uvx"))
    assert entry["args"][:2] == ["blackboard-mcp", "serve"]


def test_backups_are_bounded_and_the_one_that_is_needed_stays(home: Home) -> None:
    file = home.have("cursor")
    first = backup(home.do("install", "cursor"))
    for n in range(9):
        home.do("install", "cursor", "--name", f"n{n}")
        home.do("uninstall", "cursor", "--name", f"n{n}")
    kept = list(first.parent.iterdir())
    assert first in kept
    assert len(kept) == 6
    assert "blackboard" in file.read_text("utf-8")


@contextmanager
def state() -> Iterator[Path]:
    """A folder, in which the notes are, too."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", f"{folder}/state")
        yield Path(folder)


def there_and_back(client: str, raw: bytes | None, later: Any = None) -> None:
    with state() as folder:
        file = folder / "file"
        if raw is not None:
            file.write_bytes(raw)
        to = CATALOGUE[client]
        wanted = installation.ClientConnection(agent=client, data=folder, url=URL, token=to.http is not None)
        wanted = wanted if to.http else installation.ClientConnection(agent=client, data=folder)
        change = installation.install(to, file, "blackboard", installation.entry_of(to, "blackboard", wanted))
        assert change is not None
        change.make()
        assert (
            installation.install(to, file, "blackboard", installation.entry_of(to, "blackboard", wanted))
            is None
        )
        change = installation.uninstall(to, file, "blackboard")
        assert change is not None
        change.make()
        assert (file.read_bytes() if file.exists() else None) == raw


@given(st.sampled_from(["claude-code", "vscode", "gemini"]), json_texts())
def test_any_json_is_the_same_bytes_again(client: str, text: str) -> None:
    data = formats.load("json", text)
    if any(not isinstance(data.get(key, {}), dict) for key in ("mcpServers", "servers")):
        return
    if not isinstance(data.get("inputs", []), list) or "blackboard" in data.get("mcpServers", {}):
        return
    there_and_back(client, text.encode())


@pytest.mark.parametrize("raw", [None, b"", b" \n"])
@pytest.mark.parametrize("client", CLIENTS)
def test_nothing_is_nothing_again(client: str, raw: bytes | None) -> None:
    there_and_back(client, raw)


@pytest.mark.parametrize("text", TOML)
def test_any_toml_is_the_same_bytes_again(text: str) -> None:
    there_and_back("codex", text.encode())


@pytest.mark.parametrize("text", YAML)
def test_any_yaml_is_the_same_bytes_again(text: str) -> None:
    there_and_back("goose", text.encode())


@given(toml_texts())
def test_any_tables_are_the_same_bytes_again(text: str) -> None:
    try:
        formats.load("toml", text)
    except InvalidInput:  # keys that stand twice
        return
    there_and_back("codex", text.encode())


@given(yaml_texts())
def test_any_mappings_are_the_same_bytes_again(text: str) -> None:
    try:
        formats.put("yaml", text, ("extensions", "blackboard"), {"type": "stdio"})
    except formats.NotReadable:
        return
    except formats.NotEditable:
        bare = re.sub(r"(?m)^\s*#.*$", "", text).strip()
        assert bare.startswith("{"), "only a mapping in braces is left to a person"
        return
    there_and_back("goose", text.encode())
