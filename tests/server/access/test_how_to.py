"""The pages on access policies do what they say; and the command that says what is in force."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.access import Principal, Role
from blackboard_mcp.protocols.changes import Change, ChangeKind
from blackboard_mcp.protocols.errors import Forbidden
from blackboard_mcp.protocols.policy import Deny, Verdict
from blackboard_mcp.server.access.registry import AccessPolicies
from blackboard_mcp.server.board import Board
from blackboard_mcp.server.cli import cli
from blackboard_mcp.server.settings.server import load
from click.testing import CliRunner
from patience import RUN

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "access-policies.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's configuration, with its class where it can be imported."""
    chosen, own = blocks("toml")
    (code,) = blocks("python")
    (tmp_path / "my_access.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_access", raising=False)
    file = tmp_path / "blackboard.toml"
    file.write_text(f"{own}\n{chosen}")
    return file


async def test_the_policies_of_the_page_are_in_force_for_a_program_in_the_same_process(config: Path) -> None:
    settings = load({}, {}, config)
    given = {"access": settings.access, "board_settings": settings.board_settings}
    async with Board.open(agent="ann", settings=given) as ann:
        bob = ann.as_agent("bob")
        await ann.post("hers", key="section:ann:plan")
        with pytest.raises(Forbidden, match="you may write section:bob:") as told:
            await bob.post("his", key="section:ann:plan")
        assert told.value.facts["policy"] == "sections"
        await bob.post("his", key="section:bob:plan")
        async with bob.transaction() as tx:
            tx.post("so be it", type="DECISION")


def test_the_class_of_the_page_lets_nobody_end_what_others_wrote(config: Path) -> None:
    access = AccessPolicies(load({}, {}, config).access)
    (own,) = (policy.policy for policy in access.named if policy.name == "own-work")
    hers = Change("main", ChangeKind.STATUS, item="F-1", author="ann", owner="Ann")

    def says(owner: str, role: Role, change: Change = hers) -> Any:
        return own.decide(Principal("x", owner, {"*": role}), change)

    assert says("Ann", Role.CONTRIBUTOR) is Verdict.ALLOW
    assert says("Ben", Role.STEWARD) is Verdict.ALLOW
    assert says("Ben", Role.CONTRIBUTOR) == Deny("F-1 is Ann's: post a CRITIQUE of it instead")
    assert says("Ben", Role.OBSERVER, Change("main", ChangeKind.VOTE)) is Verdict.NO_OPINION


def test_the_command_says_what_is_in_force(config: Path, tmp_path: Path) -> None:
    def run(*more: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "blackboard_mcp.server", "policies", "--config", str(config), *more]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        return subprocess.run(
            words, capture_output=True, text=True, env=environment, timeout=RUN, check=False
        )

    said = run("--data", str(tmp_path / "none"))
    assert said.returncode == 0, said.stderr
    assert said.stdout.splitlines() == [
        "board main, which is not there yet",
        "eviction: token-importance; there are: token-importance, lru, lfu, size, fair-share",
        "validation: 0 rules; validators there are: none",
        "access, as they are asked:",
        "  1. own-work: my_access:OwnWork, by the launch",
        "  2. sections: owner-prefixes, by the launch",
        "  3. decisions: roles, by the board's choice",
        "access policies that boards may choose: allow-all, owner-prefixes, deny-rest, own-work, sections, decisions",
        "read rules: none",
    ]
    assert not (tmp_path / "none").exists()
    config.write_text(config.read_text().replace("owner-prefixes", "owner-prefix"))
    wrong = run("--json")
    assert wrong.returncode == 1
    assert wrong.stderr.startswith(
        f"blackboard-mcp: access in {config}, table 2 ('sections'), policy: 'owner-prefix'"
    )


async def test_the_command_tells_what_a_board_chose(tmp_path: Path) -> None:
    given = {"board_settings": {"access": ["owner-prefixes", "deny-rest"]}}
    async with Board.open(agent="ann", data=tmp_path, settings=given) as ann:
        await ann.view()
    result = await asyncio.to_thread(CliRunner().invoke, cli, ["policies", "--data", str(tmp_path), "--json"])
    said = json.loads(result.stdout)
    assert not said["new"]
    assert said["access"] == [
        {"name": "owner-prefixes", "is": "owner-prefixes", "by": "board"},
        {"name": "deny-rest", "is": "deny-rest", "by": "board"},
    ]
