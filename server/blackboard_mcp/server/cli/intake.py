"""The command with which hooks and wrappers hand over what happened in an agent's client."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.visible import escape

from .options import existing, interruptible, settings_of
from .target import OPERATOR, Target, target_of, target_options

if TYPE_CHECKING:
    from ..usecases.intake import Intake

_MOST = 4_000_000


@click.command(
    epilog="Example: blackboard-mcp intake --url http://127.0.0.1:8420/mcp --agent ben < lines.jsonl"
)
@target_options
def intake(**given: Any) -> None:
    """Hand over what happened in an agent's client: lines of JSON, read from standard input.

    A line has id, kind (message, call or result), text, and thread; calls and results have tool, results ok and
    subject. What hooks of Claude Code send for UserPromptSubmit and PostToolUse is a line, too. A line that was handed
    over before adds nothing.
    """
    target = target_of(given)
    document = sys.stdin.read(_MOST + 1)

    async def work() -> None:
        if len(document) > _MOST:
            raise InvalidInput(
                f"At most {_MOST:,} characters are read. Nothing was changed; send fewer lines."
            )
        from ..input.intake import MAX_LINES, lines_of

        lines = [line for line in document.split("\n") if line.strip()]
        parts = ["\n".join(lines[at : at + MAX_LINES]) for at in range(0, len(lines), MAX_LINES)] or [""]
        for part in parts:
            lines_of(part)  # nothing is sent if a line is wrong
        for part in parts:
            told = await (_in_folder(target, part) if target.url is None else _to_server(target, part))
            click.echo(escape(json.dumps(told, ensure_ascii=False)))

    interruptible(work)


async def _in_folder(target: Target, document: str) -> dict[str, Any]:
    from ..input.intake import lines_of
    from ..input.secrets import Secrets
    from ..usecases.intake import Intake

    settings = settings_of(target.config, data=target.data, board=target.board)
    async with existing(settings) as opened:
        opened.blackboard.tokenizers.see(await opened.store.find_board(settings.board))
        taking: Intake = Intake(opened.blackboard, Secrets(settings.secrets, settings.secret_patterns))
        agent = target.agent or settings.agent or OPERATOR
        done = await taking.hand_over(agent, settings.board, lines_of(document))
    return done.facts


async def _to_server(target: Target, document: str) -> dict[str, Any]:
    import httpx2
    from blackboard_mcp.protocols.errors import Unreachable, error_of

    from ..access.identity import AGENT_HEADER, is_loopback

    parts = urlsplit(target.url or "")
    url = parts._replace(path=parts.path.removesuffix("/mcp") + "/intake", query="").geturl()
    token = target.access_token()
    headers = {"Content-Type": "application/x-ndjson"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if target.agent or not token:
        headers[AGENT_HEADER] = target.agent or OPERATOR
    local = is_loopback(parts.hostname or "")
    try:
        async with httpx2.AsyncClient(timeout=60.0, trust_env=not local) as http:
            asked = {} if target.board is None else {"board": target.board}
            answer = await http.post(url, content=document.encode(), headers=headers, params=asked)
            told = answer.json()
    except (httpx2.HTTPError, ValueError) as error:
        raise Unreachable(f"{url}: no answer that can be read ({type(error).__name__}).") from None
    if not isinstance(told, dict):
        raise Unreachable(f"{url}: no answer that can be read.")
    if answer.status_code != 200:
        more = {name: value for name, value in told.items() if name not in ("error", "message")}
        raise error_of(str(told.get("error")), str(told.get("message")), more)
    return told
