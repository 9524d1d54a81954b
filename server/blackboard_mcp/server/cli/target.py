"""The board and the speaker of a command: a board in a data folder, or on a server."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from blackboard_mcp.protocols.errors import InvalidInput, Unreachable
from blackboard_mcp.protocols.values import dataclass

from ..access.identity import read_token, server_url
from .options import Command, existing, settings_of

if TYPE_CHECKING:
    from ..board import BoardAccess

OPERATOR = "operator"
_PATIENCE = 5.0
"""The time in seconds for which a call tries to reach a server that stopped answering."""


@dataclass(frozen=True, slots=True)
class Target:
    """The board and the speaker that the options of `target_options` name."""

    url: str | None
    token_file: Path | None
    data: Path | None
    board: str | None
    agent: str | None
    config: Path | None

    @asynccontextmanager
    async def opened(self, *, any_board: bool = False) -> AsyncIterator[BoardAccess]:
        """Opens the board until the context is left; with `any_board` it need not exist.

        Raises:
            click.ClickException: there is no such folder, or no such board in it.
            BlackboardError: the server cannot be reached, or refuses.
        """
        if self.url is None:
            async with self._in_folder(any_board) as board:
                yield board
            return
        from ..board import BoardClient

        token = self.access_token()
        agent = self.agent or ("" if token else OPERATOR)
        client = BoardClient.connect(
            self.url, agent=agent, name=self.board or "main", token=token, patience=_PATIENCE
        )
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(client)
            except Unreachable as error:
                raise Unreachable(f"{self.url}: {error.message}") from error
            if self.board is None:
                # A token may be for certain boards only, without the server's default board.
                there = (await client.boards()).boards
                client.name = next((one.id for one in there if one.default), client.name)
            yield client

    @asynccontextmanager
    async def _in_folder(self, any_board: bool) -> AsyncIterator[BoardAccess]:
        from ..board import Board

        settings = settings_of(self.config, data=self.data, board=self.board)
        async with existing(settings, board=not any_board) as opened:
            opened.blackboard.tokenizers.see(await opened.store.find_board(settings.board))
            yield Board.within(opened, agent=self.agent or settings.agent or OPERATOR, name=settings.board)

    def access_token(self) -> str | None:
        """Returns the access token from the file, else from the environment, or `None`."""
        if self.token_file is None:
            return os.environ.get("BLACKBOARD_TOKEN") or None
        return read_token(self.token_file.expanduser())


def target_options(command: Command) -> Command:
    """Adds the options that name the board and the speaker; `target_of` reads them."""
    for option in (
        click.option(
            "--config", type=click.Path(path_type=Path), help="TOML file with settings of the folder."
        ),
        click.option("--agent", metavar="NAME", envvar="BLACKBOARD_AGENT", callback=_agent, help=_AGENT),
        click.option("--board", metavar="ID", envvar="BLACKBOARD_BOARD", help="The board (default: main)."),
        click.option(
            "--token-file", type=click.Path(path_type=Path), envvar="BLACKBOARD_TOKEN_FILE", help=_TOKEN
        ),
        click.option("--url", metavar="URL", envvar="BLACKBOARD_URL", callback=_url, help=_URL),
        click.option("--data", type=click.Path(path_type=Path), help="The data folder."),
    ):
        command = option(command)
    return command


_AGENT = "Who speaks (default operator; with a token whoever it is for)."
_TOKEN = "File with an access token for --url; without it the one in BLACKBOARD_TOKEN is sent."
_URL = "A server in place of a folder, say http://127.0.0.1:8420/mcp."


def _agent(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    if value == "":
        raise click.BadParameter("it is empty; leave it out for the default", context, option)
    return value


def _url(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    try:
        return None if value is None else server_url(value)
    except InvalidInput as error:
        raise click.BadParameter(error.message, context, option) from None


def target_of(given: dict[str, Any]) -> Target:
    """Removes the options of `target_options` from `given`, and returns them as a target.

    Raises:
        click.UsageError: both a folder and a server are named on the command line.
    """
    if given["url"] is not None and given["data"] is not None:
        source = click.get_current_context().get_parameter_source("url")
        if source is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError("--data names a folder and --url a server; give one of them")
        given["url"] = None
    return Target(**{field: given.pop(field) for field in Target.__dataclass_fields__})
