"""The command `token`: access tokens of a data folder, with or without servers running on it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import stat
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

import click
from blackboard_mcp.protocols.access import ALL_SCOPES, EVERY_BOARD, Role, Scope, Trust

from ..settings.server import Settings
from .options import check_schema, settings_of

if TYPE_CHECKING:
    from blackboard_mcp.protocols.credentials import AccessToken

_SPAN: Final = re.compile(r"([1-9][0-9]{0,5})([mhd])")
_UNITS: Final = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
_LONGEST: Final = timedelta(days=3_650)
_NEVER: Final = "never"


@click.group()
def token() -> None:
    """Access tokens: who may use the boards of a data folder over HTTP.

    From the first token on, servers on the folder ask every HTTP request for one. They need no restart: what is
    made or revoked here counts for them within five seconds.
    """


_config = click.option("--config", type=click.Path(path_type=Path), help="TOML file with settings.")
_data = click.option("--data", type=click.Path(path_type=Path), help="The data folder.")
_json = click.option("--json", "as_json", is_flag=True, help="JSON, for programs.")


@token.command()
@_config
@_data
@click.option(
    "--agent", required=True, metavar="NAME", help="The agent that holds it: the author of its posts."
)
@click.option("--owner", metavar="NAME", help="Whom the agent acts for (default itself).")
@click.option(
    "--role", type=click.Choice([role.value for role in Role]), help="Its role (default contributor)."
)
@click.option("--boards", metavar="IDS", help="Boards it is for, joined by commas (default every board).")
@click.option(
    "--board-role",
    "board_roles",
    multiple=True,
    metavar="BOARD=ROLE",
    help="Its role on one board. May be repeated; with neither --role nor --boards it is for these boards alone.",
)
@click.option(
    "--scopes",
    metavar="SCOPES",
    help="What it is for, joined by commas, whatever the role: read, post, acknowledge, moderate, admin (default all).",
)
@click.option(
    "--trust",
    type=click.Choice([trust.value for trust in Trust]),
    default=Trust.NORMAL.value,
    help="How far what the agent posts is to be relied on (default normal).",
)
@click.option(
    "--expires", metavar="SPAN", default="90d", help="When it ends: 30m, 12h, 90d (the default), never."
)
@_json
def create(config: Path | None, data: Path | None, expires: str, as_json: bool, **given: Any) -> None:
    """Make a token and print it, this once: only a digest of it is kept.

    Give it to the client as BLACKBOARD_TOKEN in its environment, or as the header Authorization: Bearer.
    """
    settings = settings_of(config, data=data)
    asyncio.run(_create(settings, _span(expires), as_json, given))


def _check_name(agent: str, known: Collection[str]) -> None:
    """Checks that an agent may have this name, unless it is in `known`.

    Raises:
        Refused: the name is reserved, or looks like one in `known`.
    """
    from blackboard_mcp.protocols.names import alike, is_reserved, reserved, taken

    if agent in known:
        return
    if is_reserved(agent):
        raise reserved(agent)
    for other in sorted(known):
        if alike(agent, other):
            raise taken(agent, other, "for whom there is a token")


async def _create(
    settings: Settings, span: timedelta | None, as_json: bool, given: Mapping[str, Any]
) -> None:
    from .. import compose
    from ..access.tokens import new_access_token
    from ..input.posts import check_agent

    agent = check_agent(given["agent"])
    owner = agent if given["owner"] is None else check_agent(given["owner"])
    roles = _roles(given["role"], given["boards"], given["board_roles"])
    scopes = _scopes(given["scopes"])
    now = datetime.now(UTC)
    _check_folder(settings.folder, settings.database)
    await check_schema(settings)
    async with compose.credentials(settings) as store:
        _check_name(agent, {token.agent for token in await store.tokens()})
        made, text = new_access_token(
            agent=agent,
            owner=owner,
            roles=roles,
            now=now,
            scopes=scopes,
            trust=Trust(given["trust"]),
            expires_at=None if span is None else now + span,
        )
        await store.add_token(made)
    if as_json:
        click.echo(json.dumps({**_facts(made, now), "token": text}))
        return
    click.echo(text)
    click.echo(
        f"token {made.id}: {_said(made)}. It is shown this once: keep it where {agent}'s client finds it as "
        "BLACKBOARD_TOKEN.",
        err=True,
    )


@token.command("list")
@_config
@_data
@_json
def list_(config: Path | None, data: Path | None, as_json: bool) -> None:
    """List the tokens of a data folder, those that have ended too."""
    asyncio.run(_list(settings_of(config, data=data), as_json))


async def _list(settings: Settings, as_json: bool) -> None:
    from .. import compose

    _check_there(settings)
    await check_schema(settings)
    async with compose.credentials(settings) as store:
        tokens = await store.tokens()
    now = datetime.now(UTC)
    if as_json:
        click.echo(json.dumps([_facts(one, now) for one in tokens], indent=1))
        return
    if not tokens:
        click.echo("no tokens: servers on loopback let everybody in, and no others start")
    for one in tokens:
        used = "never used" if one.used_at is None else f"last used {_minute(one.used_at)}"
        click.echo(f"{one.id} {one.state(now).value}: {_said(one)}; {used}")


@token.command()
@_config
@_data
@_json
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def revoke(config: Path | None, data: Path | None, as_json: bool, ids: tuple[str, ...]) -> None:
    """End tokens by their ids. Servers stop to take them within five seconds, and end their open streams."""
    asyncio.run(_revoke(settings_of(config, data=data), ids, as_json))


async def _revoke(settings: Settings, ids: tuple[str, ...], as_json: bool) -> None:
    from .. import compose
    from ..access.tokens import read_access_token

    _check_there(settings)
    ended = []
    await check_schema(settings)
    async with compose.credentials(settings) as store:
        there = {one.id for one in await store.tokens()}
        parts = [read_access_token(id_) for id_ in ids]  # a whole token may be given in place of its id
        named = [id_ if part is None else part[0] for id_, part in zip(ids, parts, strict=True)]
        for id_ in named:
            if id_ not in there:
                raise click.ClickException(
                    f"there is no token {id_[:64]!a:.100} in {settings.folder}; token list shows which there are. "
                    "Nothing was changed."
                )
        for id_ in dict.fromkeys(named):
            ended.append(await store.revoke_token(id_))
    now = datetime.now(UTC)
    if as_json:
        click.echo(json.dumps([_facts(one, now) for one in ended], indent=1))
        return
    for one in ended:
        click.echo(f"{one.id} revoked: {_said(one)}")


def _span(text: str) -> timedelta | None:
    if text == _NEVER:
        return None
    parts = _SPAN.fullmatch(text)
    span = int(parts[1]) * _UNITS[parts[2]] if parts is not None else None
    if span is None or span > _LONGEST:
        raise click.BadParameter(
            f"{text!r} is no span: give minutes, hours or days as in 30m, 12h or 90d, of 3650d at most, or {_NEVER}",
            param_hint="--expires",
        )
    return span


def _roles(role: str | None, boards: str | None, of_boards: tuple[str, ...]) -> dict[str, Role]:
    from ..input.posts import check_board

    named = [board.strip() for board in (boards or "").split(",") if board.strip()]
    if boards is not None and not named:
        raise click.BadParameter("names no board; leave it out for every board", param_hint="--boards")
    roles: dict[str, Role] = {}
    if role is not None or named or not of_boards:
        usual = Role(role or Role.CONTRIBUTOR)
        roles = dict.fromkeys(map(check_board, named), usual) if named else {EVERY_BOARD: usual}
    for given in of_boards:
        board, equals, name = given.partition("=")
        if not equals or name not in {known.value for known in Role}:
            raise click.BadParameter(
                f"{given!r} is not BOARD=ROLE; the roles are {', '.join(Role)}", param_hint="--board-role"
            )
        roles[check_board(board)] = Role(name)
    return roles


def _scopes(text: str | None) -> frozenset[Scope]:
    if text is None:
        return ALL_SCOPES
    known = {scope.value.partition(":")[2]: scope for scope in Scope} | {
        scope.value: scope for scope in Scope
    }
    named = [name.strip() for name in text.split(",") if name.strip()]
    wrong = [name for name in named if name not in known]
    if wrong or not named:
        raise click.BadParameter(
            f"{text!r} names {'no scope' if not named else repr(wrong[0])}; there are read, post, acknowledge, "
            "moderate, admin",
            param_hint="--scopes",
        )
    return frozenset(known[name] for name in named)


def _check_folder(folder: Path, database: Path) -> None:
    """Checks that others cannot write to the folder and give themselves tokens; notes if they can read it.

    Raises:
        click.ClickException: others can write to it.
    """
    for place in (folder, database):
        if os.name == "nt" or not place.exists():
            continue
        mode = stat.S_IMODE(place.stat().st_mode)
        # Others cannot reach a file in a closed folder, whatever the file's own mode is.
        if mode & 0o022 and (place is folder or not _closed(folder)):
            raise click.ClickException(
                f"{place} can be written by others (mode {mode:o}), who could give themselves tokens; "
                f"close it with: chmod go-rwx {quote(str(place))} (nothing was changed)"
            )
        if mode & 0o044 and place is folder:
            click.echo(
                f"note: {place} can be read by others on this machine (mode {mode:o}), boards and all; close it "
                f"with: chmod go-rwx {quote(str(place))}",
                err=True,
            )


def _closed(folder: Path) -> bool:
    return stat.S_IMODE(folder.stat().st_mode) & 0o077 == 0


def _check_there(settings: Settings) -> None:
    if settings.store is None and not settings.database.exists():
        raise click.ClickException(
            f"there is no board and no token in {settings.folder}; token create makes one, --data names another folder"
        )


def _facts(one: AccessToken, now: datetime) -> dict[str, Any]:
    def wire(at: datetime | None) -> str | None:
        return None if at is None else at.isoformat(timespec="seconds").replace("+00:00", "Z")

    return {
        "id": one.id,
        "agent": one.agent,
        "owner": one.owner,
        "role": one.roles.get(EVERY_BOARD),
        "boards": {board: role for board, role in sorted(one.roles.items()) if board != EVERY_BOARD},
        "scopes": sorted(one.scopes),
        "trust": one.trust,
        "state": one.state(now),
        "created_at": wire(one.created_at),
        "expires_at": wire(one.expires_at),
        "revoked_at": wire(one.revoked_at),
        "used_at": wire(one.used_at),
    }


def _said(one: AccessToken) -> str:
    owner = "" if one.owner == one.agent else f" for {one.owner}"
    boards = {EVERY_BOARD: "every other board" if len(one.roles) > 1 else "every board"}
    roles = ", ".join(
        f"{role} on {boards.get(board, board)}"
        for board, role in sorted(one.roles.items(), key=lambda given: (given[0] == EVERY_BOARD, given[0]))
    )
    scopes = (
        "all scopes"
        if one.scopes == ALL_SCOPES
        else "scopes " + ", ".join(scope.value for scope in Scope if scope in one.scopes)
    )
    trust = "" if one.trust is Trust.NORMAL else f", {one.trust} trust"
    ends = "never expires" if one.expires_at is None else f"expires {_minute(one.expires_at)}"
    return f"{one.agent}{owner}, {roles}, {scopes}{trust}, {ends}"


def _minute(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%MZ")
