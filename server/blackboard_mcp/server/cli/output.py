"""Printing of commands' output: with colours on a terminal, plain in a pipe, as JSON for programs.

Control characters are printed as escapes, so that agents' texts cannot steer a terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any
from zlib import crc32

import click
from blackboard_mcp.protocols.names import SYSTEM
from blackboard_mcp.protocols.visible import escape

from ..text.lines import visible_json

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console

Part = str | tuple[str, str]
"""A text, or a text and its style in the notation of rich."""

ID = "bold"
DIM = "dim"
GOOD, OPEN = "green", "yellow"
_NAMES = ("cyan", "magenta", "blue", "yellow", "bright_cyan", "bright_magenta", "bright_blue")


def name(agent: str) -> Part:
    """Returns an agent's name with a colour that is always the same for that agent."""
    return (agent, DIM if agent == SYSTEM else _NAMES[crc32(agent.encode()) % len(_NAMES)])


def line(*parts: Part) -> None:
    """Prints the parts on one line."""
    shown = [(escape(part), "") if isinstance(part, str) else (escape(part[0]), part[1]) for part in parts]
    console = _console()
    if console is None:
        click.echo("".join(text for text, _ in shown))
    else:
        from rich.text import Text

        console.print(Text.assemble(*shown), soft_wrap=True)


def table(head: Sequence[str], rows: Iterable[Sequence[Part]]) -> None:
    """Prints rows in columns under `head`; in a pipe as tab-separated lines without the head."""
    console = _console()
    if console is None:
        for row in rows:
            click.echo("\t".join(escape(part if isinstance(part, str) else part[0]) for part in row))
        return
    from rich.table import Table
    from rich.text import Text

    made = Table(*head, box=None, header_style=DIM, pad_edge=False)
    for row in rows:
        cells = [(part, "") if isinstance(part, str) else part for part in row]
        made.add_row(*(Text(escape(text), style) for text, style in cells))
    console.print(made)


def as_json(answer: BaseModel | dict[str, Any]) -> None:
    """Prints an answer as one line of JSON."""
    if isinstance(answer, dict):
        text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
    else:
        text = answer.model_dump_json()
    click.echo(visible_json(text))


@cache
def _console() -> Console | None:
    """Returns the terminal, or `None` if standard output goes elsewhere."""
    if not sys.stdout.isatty():
        return None
    from rich.console import Console

    return Console(highlight=False)
