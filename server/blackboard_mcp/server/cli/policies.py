"""The command `policies`: the policies of a server with these settings, and those in force on a board."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.panels import EPISODIC, panels_of, writers_of
from blackboard_mcp.protocols.read_rules import ReadRule
from blackboard_mcp.protocols.values import dataclass

from ..access.registry import AccessPolicies, NamedPolicy
from ..input.validation.checking import Validators
from ..input.validation.rules import rules_of
from ..pruning.policies import Policies
from ..settings.panels import shown_panels
from ..settings.server import Settings
from .options import data_options, existing, settings_of


@dataclass(frozen=True, slots=True)
class _Named:
    """The policies and validators that the settings name, imported and made."""

    eviction: Policies
    validators: Validators
    access: AccessPolicies


@click.command()
@data_options
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
def policies(config: Path | None, data: Path | None, board: str | None, as_json: bool) -> None:
    """Say which policies are in force on a board, by this configuration and by the board's own settings.

    Classes of yours are imported as a server would do it, so a mistake in the configuration shows here.
    """
    settings = settings_of(config, data=data, board=board)
    named = _Named(Policies(settings.policy), Validators(settings.validator), AccessPolicies(settings.access))
    standing, reading = asyncio.run(_standing(settings))
    config_ = standing or settings.board_config(named.eviction, named.validators.names, named.access)
    asked = [_facts(policy, settings.board) for policy in named.access.on(settings.board, config_.access)]
    if as_json:
        click.echo(
            json.dumps(
                {
                    "board": settings.board,
                    "new": standing is None,
                    "eviction": config_.policy,
                    "rules": len(rules_of(config_.validation)),
                    "access": asked,
                    "panels": shown_panels(config_.panels),
                    "read": [_rule_facts(rule) for rule in reading],
                    "there_are": {
                        "eviction": list(named.eviction.names),
                        "validators": list(named.validators.names),
                        "access": list(named.access.names),
                    },
                }
            )
        )
        return
    click.echo("\n".join(_lines(settings.board, standing is None, config_, asked, named)))
    click.echo("\n".join(_reading(reading)))


async def _standing(settings: Settings) -> tuple[BoardConfig | None, tuple[ReadRule, ...]]:
    """Returns the board's own configuration, or `None` if the board does not exist yet, and the read rules for it."""
    reading = settings.read or ()
    found = None
    if settings.store is not None or settings.database.exists():
        async with existing(settings, board=False) as opened:
            found = await opened.store.find_board(settings.board)
            if settings.read is None:
                reading = await opened.store.read_rules()
    on_board = tuple(rule for rule in reading if not rule.boards or settings.board in rule.boards)
    return None if found is None else found.config, on_board


def _rule_facts(rule: ReadRule) -> dict[str, Any]:
    return {name: value for name, value in asdict(rule).items() if value or name == "readers"}


def _reading(rules: Sequence[ReadRule]) -> list[str]:
    lines = ["read rules, the first that fits keeps an item:" if rules else "read rules: none"]
    for place, rule in enumerate(rules, 1):
        said = {
            "key": [rule.key] if rule.key else [],
            "types": rule.types,
            "tags": rule.tags,
            "authors": rule.authors,
        }
        what = ", ".join(f"{name} {' '.join(given)}" for name, given in said.items() if given)
        lines.append(f"  {place}. {rule.name}: {what}; for {' '.join(rule.readers) or 'their authors alone'}")
    return lines


def _facts(policy: NamedPolicy | str, board: str) -> dict[str, Any]:
    if isinstance(policy, str):
        return {"name": policy, "is": None, "by": "board"}
    return {"name": policy.name, "is": policy.kind, "by": "launch" if policy.holds_on(board) else "board"}


def _lines(
    board: str, new: bool, config: BoardConfig, asked: Sequence[dict[str, Any]], named: _Named
) -> list[str]:
    lines = [f"board {board}{', which is not there yet' if new else ''}"]
    lines.append(f"eviction: {config.policy}; there are: {', '.join(named.eviction.names)}")
    rules = len(rules_of(config.validation))
    lines.append(
        f"validation: {rules} rules; validators there are: {', '.join(named.validators.names) or 'none'}"
    )
    lines.append("access, as they are asked:" if asked else "access: no policies")
    for place, facts in enumerate(asked, 1):
        what = facts["is"] or "unknown here, which denies everything"
        by = "the launch" if facts["by"] == "launch" else "the board's choice"
        lines.append(f"  {place}. {facts['name']}: {what}, by {by}")
    lines.append(f"access policies that boards may choose: {', '.join(named.access.names)}")
    if panels := panels_of(config.panels):
        lines.append("panels, and who writes them:")
        lines += [
            f"  {panel.name}: {'the server alone' if panel.name == EPISODIC else writers_of(panel)}"
            for panel in panels.values()
        ]
    return lines
