"""The command `doctor`: finds what is wrong with an installation, and says how to cure it."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from blackboard_mcp.protocols.errors import InvalidInput, StoreError
from blackboard_mcp.protocols.visible import escape

from ..settings.server import Settings
from .options import settings_of
from .progress import progress

if TYPE_CHECKING:
    from ..usecases.growth import Growth


@click.command()
@click.option("--config", type=click.Path(path_type=Path), help="TOML file with settings.")
@click.option("--data", type=click.Path(path_type=Path, readable=False), help="The data folder.")
@click.option("--transport", type=click.Choice(["stdio", "http"]), help="How the server is run.")
@click.option("--host", help="The address it listens on.")
@click.option("--port", type=int, help="The port it listens on.")
@click.option("--quick", is_flag=True, help="Leave out what reads all of the boards.")
@click.option(
    "--repair", is_flag=True, help="Do what is safe: remove left-overs, empty the log, rebuild the index."
)
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
def doctor(config: Path | None, quick: bool, repair: bool, as_json: bool, **given: Any) -> None:
    """Say what is wrong with an installation, and how to cure it. Servers may run meanwhile.

    It also says how fast the folder grows and when posts stop at this rate, for a folder that is a day old or more.
    Nothing is changed without --repair. Exit code 0: nothing is wrong; 1: warnings only; 2: a problem.
    """
    from ..doctor.findings import Severity, problem
    from ..usecases.growth import measure
    from .advice import for_people

    repaired: list[str] = []
    grown: Growth | None = None
    empty = ""
    try:
        settings = settings_of(config, **given)
    except InvalidInput as error:
        found = [
            problem("settings-wrong", error.message, "Correct the setting; see docs/reference/settings.md.")
        ]
    except StoreError as error:
        cure = "Run as the user that the data belongs to, or give it to this one with chown."
        found = [problem("data-not-writable", error.message, cure)]
    else:
        if not quick and settings.store is None and settings.database.exists():
            grown = measure(settings, datetime.now(UTC))
        found, repaired = asyncio.run(_examine(settings, quick, repair, grown))
        if settings.store is None and not settings.database.exists():
            empty = (
                f", but {settings.folder} has no boards yet: if it should, name the right folder with --data"
            )
    wrong = [finding for finding in found if finding.severity is not Severity.NOTE]
    if as_json:
        from ..text.lines import visible_json

        figures = {
            "findings": [asdict(finding) for finding in found],
            "repaired": repaired,
            "growth": None if grown is None else grown.facts(),
        }
        click.echo(visible_json(json.dumps(figures, ensure_ascii=False, indent=2)))
    else:
        for done in repaired:
            click.echo(escape(f"repaired: {done}"))
        for finding in found:
            told = f"{finding.severity} {finding.name}: {finding.message}\n  {for_people(finding.cure)}"
            click.echo(escape(told, keep="\n"))  # names in a damaged file or of a folder may be anything
        if not wrong:
            click.echo(escape(f"nothing is wrong{empty}"))
        if grown is not None:
            click.echo(escape(grown.line()))
    if wrong:
        sys.exit(2 if any(finding.severity is Severity.PROBLEM for finding in wrong) else 1)


async def _examine(
    settings: Settings, quick: bool, repair: bool, grown: Growth | None
) -> tuple[list[Any], list[str]]:
    from ..doctor import doctor as looking

    found = await looking.examine(settings, whole=not quick, grown=grown, shown=progress)
    if not repair:
        return found, []
    repaired = await looking.repair(settings, found)
    return await looking.examine(settings, whole=not quick, grown=grown, shown=progress), repaired
