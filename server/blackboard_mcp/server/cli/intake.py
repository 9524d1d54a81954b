"""The command with which hooks and wrappers hand over what happened in an agent's client."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import click
from blackboard_mcp.protocols.visible import escape

from .files import piped
from .options import existing, settings_of
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
    subject. What hooks of Claude Code send for UserPromptSubmit, PostToolUse and PostToolUseFailure is a line, too, and
    what hooks of Gemini CLI send for BeforeAgent and AfterTool. A line that was handed over before adds nothing.
    """
    target = target_of(given)
    document = piped(_MOST)

    async def work() -> None:
        from ..input.intake import MAX_LINES, lines_of

        lines = [line for line in document.split("\n") if line.strip()]
        parts = ["\n".join(lines[at : at + MAX_LINES]) for at in range(0, len(lines), MAX_LINES)] or [""]
        for part in parts:
            lines_of(part)  # nothing is sent if a line is wrong
        for part in parts:
            told = await (_in_folder(target, part) if target.url is None else _to_server(target, part))
            click.echo(escape(json.dumps(told, ensure_ascii=False)))

    asyncio.run(work())


async def _in_folder(target: Target, document: str) -> dict[str, Any]:
    from ..input.intake import lines_of
    from ..input.secrets import Secrets
    from ..usecases.intake import Intake

    settings = settings_of(target.config, data=target.data, board=target.board)
    async with existing(settings) as opened:
        opened.blackboard.tokenizers.see(await opened.store.find_board(settings.board))
        taking: Intake = Intake(
            opened.blackboard, Secrets(settings.secrets, settings.secret_patterns), opened.reader
        )
        agent = target.agent or settings.agent or OPERATOR
        done = await taking.hand_over(agent, settings.board, lines_of(document))
    return done.facts


async def _to_server(target: Target, document: str) -> dict[str, Any]:
    from ..access.identity import AGENT_HEADER
    from ..board.handing_over import post_lines

    token = target.access_token()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if target.agent or not token:
        headers[AGENT_HEADER] = target.agent or OPERATOR
    return await post_lines(target.url or "", headers, document, target.board)
