"""The command `connect`: a light stdio relay to a running server."""

from __future__ import annotations

from pathlib import Path

import click

from ..relay import stdio as relay


@click.command()
@click.argument("url")
@click.option("--agent", metavar="NAME", envvar="BLACKBOARD_AGENT", help="Your agent's name on the board.")
@click.option(
    "--owner", metavar="NAME", envvar="BLACKBOARD_OWNER", help="Whom your agent acts for (default itself)."
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Holds the access token; nobody else may be able to read it.",
)
def connect(url: str, agent: str | None, owner: str | None, token_file: Path | None) -> None:
    """Join the server at URL, say http://127.0.0.1:8420/mcp.

    For clients that only start local processes. It ends when its input ends. A bearer token is taken
    from --token-file, else from BLACKBOARD_TOKEN.
    """
    raise SystemExit(relay.main(url, agent, owner, token_file))
