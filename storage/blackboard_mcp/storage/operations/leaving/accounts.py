"""Accounts of owners: what is held for each, and how much one of them may hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.errors import QuotaExceeded
from blackboard_mcp.protocols.events import SYSTEM
from blackboard_mcp.protocols.items import item_id
from blackboard_mcp.protocols.pruning import EXEMPT

from ..ledger.principals import agents_of, owner_of
from ..ledger.rows import Steps, dumps, numbers, sql
from .guard_index import protected_among

OTHERS = 3
"""Of what others posted and the owner's debates and watches hold, one in so many counts: criticism is no flood."""

_NAMED = 5
_ROOM = BoardConfig().target_tokens
"""A smaller board is taken for one of this target: there a few long posts would be a flood."""

if TYPE_CHECKING:
    from ..ledger.ledger import Ledger


def check(ledger: Ledger) -> Steps[None]:
    """Refuses what keeps more from leaving on the account of the agent's owner than one owner may have.

    On an owner's account are the debates that its agents opened with all that these reach, what its agents
    posted into other debates, their constraints and hot issues, what they watch, what they ask, and what they
    posted with an importance that holds it; of what others posted a part counts. An owner who is alone on the
    board may have as much as there is.

    Raises:
        QuotaExceeded: it is more.
    """
    config = ledger.board.config
    if config.owner_held >= 1 or ledger.agent == SYSTEM:
        return
    chosen = yield sql("chosen_among"), (ledger.no, numbers(ledger.holding))
    if not chosen and not (yield from protected_among(ledger.no, ledger.holding)):
        return
    owner = yield from owner_of(ledger.agent)
    agents = dumps((yield from agents_of(owner)))
    if not (yield sql("others_there"), (ledger.no, agents, SYSTEM)):
        return
    if chosen and config.owner_share < 1:
        yield from _check_chosen(ledger, owner, agents)
    most = int(max(config.target_tokens, _ROOM) * config.owner_held)
    ((tokens,),) = yield sql("held_on_account"), (ledger.no, agents, OTHERS)
    if tokens > most:
        raise QuotaExceeded(
            f"With this, the agents of {owner} would keep {tokens:,} tokens from leaving '{ledger.board.id}': by "
            f"debates they opened, what they post into debates, their constraints, hot issues, watches, requests and "
            f"items of importance {EXEMPT}. "
            f"One owner may have {most:,} while others are there. Nothing was changed; end some first: "
            'debate(op="withdraw", id=…), debate(op="acknowledge", id=…), or status RESOLVED.',
            limit="owner_held",
            most=most,
            tokens=tokens,
        )


def _check_chosen(ledger: Ledger, owner: str, agents: str) -> Steps[None]:
    """What stays because its author says so has no more room than the owner's share."""
    config = ledger.board.config
    most = int(config.low_tokens * config.owner_share)
    listed = yield sql("chosen_on_account"), (ledger.no, agents, ledger.agent)
    tokens = sum(row[2] for row in listed)
    if tokens <= most:
        return
    known = [(number, type_) for number, type_, _, seen in listed if seen and number < ledger.first_number]
    earlier = [item_id(type_, number) for number, type_ in known[:_NAMED]]
    named = f" (yours: {', '.join(earlier)})" if earlier else ""
    raise QuotaExceeded(
        f"With this, the agents of {owner} would have {tokens:,} tokens on '{ledger.board.id}' in items of importance "
        f"{EXEMPT} and in questions that wait for an answer, which no pass takes. One owner may have {most:,} while "
        f"others are there. Nothing was changed; post this with importance {EXEMPT - 1}, a QUESTION without @ and "
        f"replies_to; or give up older ones{named}: post(id=…, importance={EXEMPT - 1}) or status RESOLVED.",
        limit="owner_share",
        most=most,
        tokens=tokens,
        items=earlier,
    )
