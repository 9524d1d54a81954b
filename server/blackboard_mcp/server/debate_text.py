"""Debates in words: how one stands, who is missing, and what would close it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from blackboard_mcp.protocols.answers import (
    DebateView,
)
from blackboard_mcp.protocols.debates import Debate, DebateState, Duty, ObligationState, StandingWatch
from blackboard_mcp.protocols.items import Item
from blackboard_mcp.protocols.tokens import Tokenizer

from .text import excerpt, one_line

_NAMED = 12
_REASON_TOKENS = 60


def debate_lines(debate: Debate, items: dict[int, Item], tokenizer: Tokenizer) -> list[str]:
    """State, critiques and what is or was owed, a line each."""

    def name(number: int) -> str:
        return items[number].id if number in items else str(number)

    head = f"{name(debate.root)} debate {debate.state} opened by {debate.opened_by}"
    if debate.closed_by is not None:
        head += f", closed by {debate.closed_by}"
        if debate.reason:
            head += f": {excerpt(debate.reason, _REASON_TOKENS, tokenizer)}"
    lines = [head]
    if debate.critiques:
        by = {n: items[n].author for n in debate.critiques if n in items}
        lines.append("critiques " + ", ".join(f"{name(n)} by {by.get(n, '?')}" for n in debate.critiques))
    for state in ObligationState:
        owed = [f"{o.agent} {o.duty} {name(o.item)}" for o in debate.obligations if o.state is state]
        if owed:
            lines.append(f"{state}: {_some(owed)}")
    return lines


def standing_lines(view: DebateView, tokenizer: Tokenizer) -> list[str]:
    """All of that, with the votes that count and, of an open debate, what would close it."""
    lines = debate_lines(view.debate, view.items, tokenizer)
    count = view.tally
    if count.quorum or count.approving or count.rejecting:
        sides = f"for: {_some(count.approving) or 'none'}; against: {_some(count.rejecting) or 'none'}"
        lines.append(f"votes on version {count.version}: {sides}")
    closing = what_closes(view)
    return [*lines, closing] if closing else lines


def what_closes(view: DebateView) -> str:
    """Who would have to do what to close an open debate; empty for a closed one."""
    debate, count, id_ = view.debate, view.tally, view.root.id
    if debate.state is not DebateState.OPEN:
        return ""
    if count.quorum:
        how = f'with {count.quorum} owners\' votes on one side: debate(op="vote", id="{id_}", approve=true|false)'
        how += f"; {count.author}, its author's owner, does not count"
        if count.writers:
            how += f", nor {_some(count.writers)}, who wrote this version"
    else:
        missing = [o.agent for o in debate.outstanding if o.duty is Duty.ACKNOWLEDGE]
        who = (
            f"{_some(missing)} acknowledged"
            if missing
            else f"anybody not acting for {' or '.join((count.author, *count.writers))} acknowledged"
        )
        how = f"when {who}"
        if count.approving or count.rejecting:
            how += " (votes alone close nothing: this board has no quorum)"
    return f"closes {how}; or by a decider, or when its critics withdraw"


def watching(watches: Sequence[StandingWatch]) -> str:
    """What an agent watches by topic."""
    if not watches:
        return "you watch no topics"
    topics = ", ".join(one_line(watch.topic) for watch in watches)
    return (
        f"you watch {topics}: debates that open on matching items from now on need your acknowledgement, and "
        "new matching items show in your footer"
    )


def _some(names: Iterable[str]) -> str:
    listed = list(dict.fromkeys(names))
    return ", ".join(listed[:_NAMED]) + (f" +{len(listed) - _NAMED}" if len(listed) > _NAMED else "")
