"""The doctor tries what clients were told: an entry that lists tools is well, any other is found with its cure."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.server.doctor import clients
from homes import Home

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="homes as they are on Linux")
NOBODY = "http://127.0.0.1:9/mcp"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def found(home: Home, **more: Any) -> list[dict[str, Any]]:
    """What it finds of clients."""
    done = home.run("doctor", "--quick", "--json", **more)
    findings = json.loads(done.stdout)["findings"]
    assert done.returncode == (1 if findings else 0)
    return [finding for finding in findings if finding["name"].startswith("client-")]


def test_what_is_installed_and_answers_is_well(home: Home) -> None:
    assert found(home) == []
    for client in ("cursor", "codex", "goose"):
        home.have(client)
        home.do("install", client)
    home.do("install", "claude-code", "--project")
    assert found(home) == []


def test_what_does_not_answer_is_found_with_why_and_what_to_do(home: Home) -> None:
    for client in ("claude-desktop", "vscode", "gemini", "codex"):
        home.have(client)
    home.do("install", "claude-desktop", "--url", NOBODY)
    home.do("install", "vscode", "--url", NOBODY)
    home.do("install", "gemini", "--url", NOBODY, "--token")
    home.do("install", "codex")
    file = home.file("codex")
    file.write_text(
        file.read_text("utf-8").replace(f'command = "{sys.executable}"', 'command = "/gone"'), "utf-8"
    )
    told = {finding["facts"]["client"]: finding for finding in found(home)}
    assert set(told) == {"claude-desktop", "vscode", "gemini", "codex"}
    assert {finding["name"] for finding in told.values()} == {"client-not-connecting"}
    assert f"no blackboard server answers at {NOBODY}" in told["claude-desktop"]["message"]
    assert "Run it by hand" in told["claude-desktop"]["cure"]
    assert f"Start the server at {NOBODY}" in told["vscode"]["cure"]
    assert "it needs BLACKBOARD_TOKEN in its environment" in told["gemini"]["message"]
    assert "/gone is not there" in told["codex"]["message"]
    for client in ("vscode", "claude-desktop"):
        home.do("uninstall", client)
    assert {finding["facts"]["client"] for finding in found(home)} == {"gemini", "codex"}


async def test_who_says_nothing_is_not_waited_for_any_longer(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [*os.environ, *home.environment]:
        if name in home.environment:
            monkeypatch.setenv(name, home.environment[name])
        else:
            monkeypatch.delenv(name)
    silent = home.folder / "blackboard-mcp"
    silent.write_text("#!/bin/sh\nexec sleep 600\n")
    silent.chmod(0o755)
    home.file("cursor").parent.mkdir()
    home.file("cursor").write_text(json.dumps({"mcpServers": {"mute": {"command": str(silent), "args": []}}}))
    monkeypatch.setattr(clients, "PATIENCE", 0.5)
    (finding,) = [finding async for finding in clients.look()]
    assert (finding.name, finding.facts["client"]) == ("client-not-connecting", "cursor")
    assert "did not answer within 0.5 s" in finding.message


def test_what_its_program_says_last_is_told(home: Home) -> None:
    home.have("cursor")
    home.do("install", "cursor", "--", "--tools", "nonsense")
    (finding,) = found(home)
    assert "nonsense" in finding["message"]


def test_what_a_person_wrote_is_tried_and_what_others_are_is_not(home: Home) -> None:
    file = home.file("cursor")
    file.parent.mkdir()
    trap = home.folder / "trap"
    stranger = {"command": "/bin/sh", "args": ["-c", f"touch {trap}"]}
    by_hand = {"command": "blackboard-mcp", "args": ["serve", "--nonsense"]}
    off = {"command": "blackboard-mcp", "args": ["--nonsense"], "disabled": True}
    file.write_text(json.dumps({"mcpServers": {"blackboard": stranger, "mine": by_hand, "off": off}}))
    (home.project / ".mcp.json").write_text(json.dumps({"mcpServers": {"blackboard": by_hand}}))
    (finding,) = found(home)
    assert finding["facts"]["entry"] == "mine"
    assert not trap.exists()


def test_an_entry_of_a_project_that_others_changed_is_not_started(home: Home) -> None:
    home.do("install", "cursor", "--project")
    file = home.project / ".cursor" / "mcp.json"
    trap = home.folder / "trap"
    changed = json.loads(file.read_text())
    changed["mcpServers"]["blackboard"] = {"command": "blackboard-mcp", "args": ["demo", "--data", str(trap)]}
    file.write_text(json.dumps(changed))
    assert found(home) == []
    assert not trap.exists()


def test_a_file_that_broke_is_found(home: Home) -> None:
    home.have("cursor")
    home.do("install", "cursor")
    home.file("cursor").write_text("{")
    (finding,) = found(home)
    assert finding["name"] == "client-file-unreadable"
    assert "line 1" in finding["message"]
