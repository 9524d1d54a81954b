"""The way to make commands that call a board once, in a folder or on a server, and print the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from . import output
from .options import Command
from .target import target_of, target_options

if TYPE_CHECKING:
    from pydantic import BaseModel


Act = Callable[..., Awaitable["BaseModel | dict[str, Any]"]]


def act(
    reading: str, *params: Command, example: str, any_board: bool = False
) -> Callable[[Act], click.Command]:
    """Returns a decorator that makes a command of a call on a board.

    The call's docstring becomes the command's help. `reading` names the function of `readings` that prints
    the answer for people; with `--json` the answer itself is printed. With `any_board` the board need not
    exist yet.
    """

    def made(call: Act) -> click.Command:
        def run(as_json: bool, **given: Any) -> None:
            target = target_of(given)

            async def work() -> None:
                async with target.opened(any_board=any_board) as board:
                    answer = await call(board, **given)
                    from . import readings

                    if as_json:
                        output.as_json(answer)
                    else:
                        getattr(readings, reading)(answer, {**given, "board": board.name})
                    readings.end(answer)

            asyncio.run(work())

        command: Command = click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")(run)
        command = target_options(command)
        for param in reversed(params):
            command = param(command)
        return click.command(call.__name__, help=call.__doc__, epilog=f"Example: {example}")(command)

    return made
