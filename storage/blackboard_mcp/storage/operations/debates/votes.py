"""Votes in debates, and decisions that wait for confirmation: one for each owner, on one version of the item."""

from __future__ import annotations

from collections.abc import Iterable

from blackboard_mcp.protocols.debates import Decision, Outcome, Tally, Vote

from ..ledger.ledger import Ledger
from ..ledger.principals import owners_of, writer_of
from ..ledger.rows import ItemRow, Steps, instant, numbers, sql


def cast(ledger: Ledger, debate: int, version: int, *, approve: bool, reason: str) -> Steps[str]:
    """Records the vote of the agent's owner in place of former ones, and returns the owner."""
    owner = ledger.side
    yield sql("vote_drop"), (ledger.no, debate, ledger.agent)
    yield (
        sql("vote_put"),
        (ledger.no, debate, owner, ledger.agent, version, int(approve), reason, ledger.now),
    )
    return owner


def votes_of(no: int, debates: Iterable[int]) -> Steps[dict[int, list[Vote]]]:
    """Returns the votes by debate, in the order in which they were cast."""
    found: dict[int, list[Vote]] = {}
    listed = yield sql("votes_of"), (no, numbers(debates))
    for debate, owner, agent, version, approve, reason, at in listed:
        found.setdefault(debate, []).append(Vote(owner, agent, version, bool(approve), reason, instant(at)))
    return found


def tally(
    no: int, debate: int, root: ItemRow, quorum: int, votes: Iterable[Vote] | None = None
) -> Steps[Tally]:
    """Returns the votes that count now: those on the present version, without those of the author's side.

    `votes` are the debate's, if the caller has read them.
    """
    owners = yield from owners_of({root.author, (yield from writer_of(root))})
    author, own = owners[root.author], set(owners.values())
    if votes is None:
        votes = (yield from votes_of(no, [debate])).get(debate, [])
    counted = [v for v in votes if v.version == root.version and v.owner not in own]
    return Tally(
        quorum=quorum,
        version=root.version,
        author=author,
        writers=tuple(sorted(own - {author})),
        approving=tuple(v.owner for v in counted if v.approve),
        rejecting=tuple(v.owner for v in counted if not v.approve),
    )


def decisions_of(no: int, debates: Iterable[int]) -> Steps[dict[int, list[Decision]]]:
    """Returns the decisions that wait for another owner's word, by debate, oldest first."""
    found: dict[int, list[Decision]] = {}
    asked = list(debates)
    listed = (yield sql("decisions_of"), (no, numbers(asked))) if asked else []
    for debate, owner, agent, version, outcome, to, reason, at in listed:
        decision = Decision(owner, agent, version, Outcome(outcome), to, reason, instant(at))
        found.setdefault(debate, []).append(decision)
    return found
