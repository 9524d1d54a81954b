"""Pressure as text: how many tokens may not leave and why, and which calls by whom release them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.items import LETTERS, ItemType, content_hash
from blackboard_mcp.protocols.pressure import Cause, Pressure, Unblocker, Wording

from .tokens import Tokenizers

MAX_TOKENS = 180
"""Most tokens of the issue's text. It is short because every view shows it whole."""
_CAUSES = 3
_UNBLOCKERS = 6


def describe(tokenizers: Tokenizers, deciders: Sequence[str] = ()) -> Callable[[Pressure], Wording]:
    """Returns a function that turns pressure into a text of at most `MAX_TOKENS` tokens.

    Where the text is too long, the last of the agents who could help are left out. The function raises
    `InvalidInput` where this server lacks the board's tokenizer.
    """

    def words(found: Pressure) -> Wording:
        tokenizer = tokenizers.find(found.tokenizer)
        if tokenizer is None:
            raise InvalidInput(f"This server was not launched with the board's tokenizer, {found.tokenizer}.")
        named = _UNBLOCKERS
        text = _text(found, deciders, named)
        while named and tokenizer.count(text) > MAX_TOKENS:
            named -= 1
            text = _text(found, deciders, named)
        return Wording(text, tokenizer.count(text), content_hash(text))

    return words


def _text(found: Pressure, deciders: Sequence[str], named: int) -> str:
    causes = [_cause(cause) for cause in found.causes[:_CAUSES]]
    if len(found.causes) > _CAUSES:
        rest = sum(cause.tokens for cause in found.causes[_CAUSES:])
        causes.append(f"{len(found.causes) - _CAUSES} more {rest:,}")
    lines = [
        f"Pressure: {found.held_tokens:,} tokens in {found.held_items} items may not leave; the target is "
        f"{found.target_tokens:,}. Posts of importance up to {found.ceiling} are refused unless they answer, "
        "criticise, decide or cite an item of an open debate.",
        "Held: " + ", ".join(causes) + ".",
    ]
    calls = [_call(unblocker) for unblocker in _in_turn(found.unblockers)]
    debates = [cause.root for cause in found.causes if cause.root is not None]
    if debates:
        who = " or ".join(deciders[:3]) or "whoever is no party to it"
        calls.insert(
            min(2, len(calls)), f'{who}: debate(op="decide", id="{debates[0]}", outcome=…, reason=…)'
        )
    if calls[:named]:
        more = f"; {len(calls) - named} more" if len(calls) > named else ""
        lines.append("Can unblock: " + "; ".join(calls[:named]) + more + ".")
    return "\n".join(lines)


def _in_turn(unblockers: Sequence[Unblocker]) -> list[Unblocker]:
    """Returns the ways to unblock, so that each agent's first way comes before any agent's second."""
    turns: dict[str, int] = {}
    placed: list[tuple[int, int, Unblocker]] = []
    for place, unblocker in enumerate(unblockers):
        turn = turns[unblocker.agent] = turns.get(unblocker.agent, 0) + 1
        placed.append((turn, place, unblocker))
    return [unblocker for _, _, unblocker in sorted(placed, key=lambda p: p[:2])]


def _cause(cause: Cause) -> str:
    return f"{cause.what if cause.root is None else f'debate on {cause.root}'} {cause.tokens:,}"


def _call(unblocker: Unblocker) -> str:
    match unblocker.duty:
        case "respond" if not unblocker.item.startswith(LETTERS[ItemType.QUESTION]):
            return f'{unblocker.agent}: post a REPLY with edges {{"replies_to": ["{unblocker.item}"]}}'
        case "answer" | "respond":
            # All agents read this text, but only those with the tool set `messages` have the tool `respond`.
            return f'{unblocker.agent}: post an ANSWER with edges {{"replies_to": ["{unblocker.item}"]}}'
        case "cancel":
            return f'{unblocker.agent}: request(id="{unblocker.item}", cancel=true)'
        case "lower":
            return f'{unblocker.agent}: post(id="{unblocker.item}", importance=4)'
        case "confirm":
            return f'{unblocker.agent}: debate(op="confirm", id="{unblocker.item}")'
        case "retire":
            return f'{unblocker.agent}: post(id="{unblocker.item}", status="RESOLVED")'
        case _:
            return f'{unblocker.agent}: debate(op="acknowledge", id="{unblocker.item}")'
