"""`token`, as an operator runs it: what it prints, what it refuses, and what a restored backup does to tokens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.server.cli import cli
from blackboard_mcp.server.demo.process import environment
from click.testing import CliRunner, Result
from patience import RUN

PROGRAM = (sys.executable, "-m", "blackboard_mcp.server")


def token(*words: str | Path) -> Result:
    """A command in this process: starting one takes longer than what it does."""
    return CliRunner().invoke(cli, ["token", *map(str, words)])


def made(data: Path, *words: str) -> dict[str, Any]:
    done = token("create", "--json", "--data", data, *words)
    assert (done.exit_code, done.stderr) == (0, ""), done
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def listed(data: Path) -> list[dict[str, Any]]:
    done = token("list", "--json", "--data", data)
    assert done.exit_code == 0, done
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_a_token_stands_alone_on_standard_output_and_what_it_is_beside_it(tmp_path: Path) -> None:
    words = ("token", "create", "--agent", "claude-ann", "--owner", "ann", "--data", str(tmp_path / "data"))
    done = subprocess.run([*PROGRAM, *words], capture_output=True, text=True, timeout=RUN, env=environment())
    assert done.returncode == 0, done
    text = done.stdout.strip()
    assert done.stdout == f"{text}\n"
    assert text.startswith("bbt_")
    assert text[17:] not in done.stderr
    for words_ in (
        text[4:16],
        "claude-ann for ann",
        "contributor on every board",
        "all scopes",
        "expires 20",
    ):
        assert words_ in done.stderr
    if os.name != "nt":
        assert (tmp_path / "data").stat().st_mode & 0o077 == 0


def test_a_token_has_what_was_asked_for(tmp_path: Path) -> None:
    plain = made(tmp_path, "--agent", "a")
    assert (plain["owner"], plain["role"], plain["boards"], plain["trust"]) == (
        "a",
        "contributor",
        {},
        "normal",
    )
    assert len(plain["scopes"]) == 5
    of_boards = made(tmp_path, "--agent", "b", "--boards", "x, y", "--role", "observer", "--scopes", "read")
    assert (of_boards["role"], of_boards["boards"]) == (None, {"x": "observer", "y": "observer"})
    assert of_boards["scopes"] == ["board:read"]
    single = made(tmp_path, "--agent", "c", "--board-role", "x=admin", "--trust", "low", "--expires", "never")
    assert (single["role"], single["boards"], single["trust"]) == (None, {"x": "admin"}, "low")
    assert single["expires_at"] is None
    both = made(tmp_path, "--agent", "d", "--role", "observer", "--board-role", "x=steward")
    assert (both["role"], both["boards"]) == ("observer", {"x": "steward"})
    kept = listed(tmp_path)
    assert [one["agent"] for one in kept] == ["a", "b", "c", "d"]
    assert all("token" not in one for one in kept)


def test_the_list_shows_what_a_person_looks_for(tmp_path: Path) -> None:
    first = made(tmp_path, "--agent", "a", "--owner", "ann", "--expires", "1m")
    second = made(tmp_path, "--agent", "b", "--boards", "x", "--scopes", "read,post", "--trust", "high")
    assert token("revoke", second["id"], "--data", tmp_path).exit_code == 0
    lines = token("list", "--data", tmp_path).stdout.splitlines()
    assert lines[0].startswith(
        f"{first['id']} active: a for ann, contributor on every board, all scopes, expires "
    )
    assert lines[0].endswith("; never used")
    assert lines[1].startswith(
        f"{second['id']} revoked: b, contributor on x, scopes board:read, board:post, high trust, expires "
    )


def test_a_token_is_revoked_by_its_id_or_its_whole_text_and_all_that_are_named_or_none(
    tmp_path: Path,
) -> None:
    one, other = made(tmp_path, "--agent", "a"), made(tmp_path, "--agent", "b")
    refused = token("revoke", one["id"], "nothing", "--data", tmp_path)
    assert refused.exit_code == 1
    assert "Nothing was changed" in refused.stderr
    assert [kept["state"] for kept in listed(tmp_path)] == ["active", "active"]
    ended = json.loads(token("revoke", "--json", one["id"], other["token"], "--data", tmp_path).stdout)
    assert [kept["state"] for kept in ended] == ["revoked", "revoked"]
    assert ended == listed(tmp_path)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "--agent"),
        (("--agent", "two words"), "not an agent's name"),
        (("--agent", "system"), "not an agent's name"),
        (("--agent", "a", "--owner", ""), "not an agent's name"),
        (("--agent", "a", "--role", "king"), "king"),
        (("--agent", "a", "--boards", "no board!"), "board"),
        (("--agent", "a", "--boards", ","), "names no board"),
        (("--agent", "a", "--board-role", "x"), "BOARD=ROLE"),
        (("--agent", "a", "--board-role", "x=king"), "the roles are observer"),
        (("--agent", "a", "--board-role", "*=admin"), "board"),
        (("--agent", "a", "--scopes", "read,fly"), "'fly'"),
        (("--agent", "a", "--scopes", ""), "no scope"),
        (("--agent", "a", "--expires", "0d"), "is no span"),
        (("--agent", "a", "--expires", "-1d"), "is no span"),
        (("--agent", "a", "--expires", "9999d"), "is no span"),
        (("--agent", "a", "--expires", "soon"), "is no span"),
        (("--agent", "a", "--trust", "blind"), "blind"),
    ],
)
def test_wrong_words_make_no_token(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    done = token("create", "--data", tmp_path / "data", *words)
    assert done.exit_code != 0
    assert says in done.stderr + str(done.exception)
    assert not (tmp_path / "data").exists()


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX's")
@pytest.mark.parametrize(("mode", "refused"), [(0o777, True), (0o770, True), (0o755, False), (0o700, False)])
def test_a_folder_in_which_others_write_takes_no_token(tmp_path: Path, mode: int, refused: bool) -> None:
    data = tmp_path / "the data"
    data.mkdir()
    data.chmod(mode)
    done = token("create", "--agent", "a", "--data", data)
    assert (done.exit_code != 0) is refused
    assert (f"chmod go-rwx '{data}'" in done.stderr) is (mode != 0o700)
    assert bool(list(data.iterdir())) is not refused


@pytest.mark.parametrize("words", [("list",), ("revoke", "x")])
def test_a_folder_without_boards_is_not_made_to_look_into_it(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = token(*words, "--data", tmp_path / "none")
    assert done.exit_code == 1
    assert "token create makes one" in done.stderr
    assert not (tmp_path / "none").exists()


def run(*words: str | Path) -> None:
    done = CliRunner().invoke(cli, [str(word) for word in words])
    assert done.exit_code == 0, (words, done.output, done.exception)


def test_a_restored_backup_revives_no_token_and_opens_no_door(tmp_path: Path) -> None:
    data = tmp_path / "data"
    early = made(data, "--agent", "a")
    run("backup", "--data", data, tmp_path / "backup")
    late = made(data, "--agent", "b")
    assert token("revoke", early["id"], "--data", data).exit_code == 0
    before = listed(data)
    run("restore", "--data", data, "--force", tmp_path / "backup")
    assert listed(data) == before
    assert {one["id"]: one["state"] for one in before} == {early["id"]: "revoked", late["id"]: "active"}
    run("restore", "--data", tmp_path / "elsewhere", tmp_path / "backup")
    assert [one["state"] for one in listed(tmp_path / "elsewhere")] == ["active"]


def test_the_demo_says_why_it_cannot_replay_over_http_where_tokens_are_asked_for(tmp_path: Path) -> None:
    made(tmp_path, "--agent", "a")
    done = CliRunner().invoke(cli, ["demo", "--data", str(tmp_path)])
    assert done.exit_code == 1
    assert "use --stdio" in done.stderr
