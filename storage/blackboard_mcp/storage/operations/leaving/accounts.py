"""Accounts of owners: the tokens that each one keeps from leaving, and the limit for one owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.errors import QuotaExceeded
from blackboard_mcp.protocols.events import SYSTEM
from blackboard_mcp.protocols.items import item_id
from blackboard_mcp.protocols.pruning import EXEMPT

from ..ledger.principals import agents_of
from ..ledger.rows import Steps, dumps, numbers, sql
from .guard_index import protected_among

OTHERS = 3
"""Items of others that the owner's debates and watches protect count by one token in so many.

So an owner who criticises much is not taken for one who floods the board.
"""

_NAMED = 5
_ROOM = BoardConfig().target_tokens
"""The least target in tokens for this limit: on a smaller board a few long posts would already exceed it."""

if TYPE_CHECKING:
    from ..ledger.ledger import Ledger


def check(ledger: Ledger) -> Steps[None]:
    """Refuses a transaction after which the agent's owner would keep too many tokens from leaving.

    An owner's account holds the debates that its agents opened, with everything that these debates reach; their posts
    into other debates; their constraints, hot issues, watches and questions; and their items of highest importance.
    Items that others posted count in part. An owner who is alone on the board has no limit.

    Raises:
        QuotaExceeded: the account would exceed the owner's limit.
    """
    config = ledger.board.config
    if config.owner_held >= 1 or ledger.agent == SYSTEM:
        return
    most = int(max(config.target_tokens, _ROOM) * config.owner_held)
    share = int(config.low_tokens * config.owner_share) if config.owner_share < 1 else most
    there = ledger.board.working_tokens + ledger.tokens
    if there <= min(most, share):
        return  # no account has more than the board
    chosen = yield sql("chosen_among"), (ledger.no, numbers(ledger.holding))
    if not chosen and not (yield from protected_among(ledger.no, ledger.holding)):
        return
    owner = ledger.side
    agents = dumps((yield from agents_of(owner)))
    beside = yield sql("share_beside_others"), (ledger.no, agents, SYSTEM)
    if not beside:
        return
    if chosen and config.owner_share < 1:
        yield from _check_chosen(ledger, owner, agents, share)
    own = int(beside[0][0])
    if own + (there - own) // OTHERS <= most:
        return  # all that is there, counted as on the account, is less
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


def _check_chosen(ledger: Ledger, owner: str, agents: str, most: int) -> Steps[None]:
    """Checks the owner's items that stay only because of their importance or an unanswered question.

    Raises:
        QuotaExceeded: they have more tokens than the owner's share, `most`.
    """
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
