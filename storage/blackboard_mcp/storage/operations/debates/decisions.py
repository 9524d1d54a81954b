"""Ends of debates by one agent's word: conceding, deciding, and confirming another's decision.

The decision of an agent who may decide alone ends the debate. Any other decision waits, for all to see, until
another owner confirms it or decides the same. The side under criticism does neither; it may concede.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from blackboard_mcp.protocols.debates import (
    CONCEDED,
    FELL,
    DebateCall,
    DebateState,
    Decision,
    Duty,
    ObligationState,
    Outcome,
)
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, Refused
from blackboard_mcp.protocols.events import EventType
from blackboard_mcp.protocols.items import TRANSITIONS, EdgeKind, Status

from ...operation import Rows
from ..ledger.ledger import Ledger, load_any, load_visible, standing
from ..ledger.principals import behind, owners_of
from ..ledger.rows import MAX_REASON, ItemRow, Steps, cut, numbers, sql
from .debates import (
    AWAY,
    TAKEN_BACK,
    Open,
    acts_for_author,
    close,
    moved,
    open_debates,
    owe,
    settle_duty,
)
from .votes import decisions_of


def concede(ledger: Ledger, debate: Open, call: DebateCall) -> Steps[None]:
    """Gives up the item for the criticised side: it falls, or is amended if its replacement amends it.

    Raises:
        Refused: the agent does not act for the author or the version's writer.
        UnknownReference, InvalidInput, Conflict: the named item cannot replace it.
    """
    root = debate.root
    if not (yield from acts_for_author(ledger, debate)):
        critics = yield from load_any(ledger.no, debate.critiques)
        mine = [c.id for c in critics.values() if c.author == ledger.agent and c.status not in TAKEN_BACK]
        how = (
            f'you withdraw your critique with debate(op="withdraw", id="{mine[0]}")'
            if mine
            else f'what you think of it you say with debate(op="decide", id="{root.id}", outcome=…, reason="…")'
        )
        raise Refused(
            f"{root.id} is {root.author}'s: only who wrote it, or acts for who did, concedes. Nothing was changed; "
            f"{how}."
        )
    to = yield from _replacement(ledger, root, call)
    amends = to is not None and (yield from _amends(ledger.no, to, root))
    outcome = Outcome.AMENDED if amends else Outcome.FALLS
    reason = CONCEDED + (f": {call.reason}" if call.reason else "")
    yield from close(ledger, debate, DebateState.CONSENSUS, reason, outcome, to=to)


def _amends(no: int, to: ItemRow, root: ItemRow) -> Steps[bool]:
    """Tells whether the side that wrote the root wrote its replacement, too, and not against it."""
    if not (yield from behind(to)) & (yield from behind(root)):
        return False
    edges = yield sql("edges_touching"), (no, numbers([to.number]))
    return (to.number, EdgeKind.REFUTES, root.number) not in map(tuple, edges)


def give_up(ledger: Ledger, debate: Open) -> Steps[None]:
    """Closes the debate as conceded, because the author's side gave the item a final status."""
    row = (yield from load_any(ledger.no, [debate.root.number]))[debate.root.number]
    reason = f"{CONCEDED}: {row.status} by its author"
    yield from close(ledger, debate, DebateState.CONSENSUS, reason, Outcome.FALLS)


def decide(ledger: Ledger, debate: Open, call: DebateCall) -> Steps[None]:
    """Ends the debate, or records a decision that waits for another owner's word.

    Raises:
        Refused: the agent acts for the side under criticism.
        UnknownReference, InvalidInput, Conflict: there is no outcome, or the named item cannot replace this one.
    """
    root = debate.root
    if call.outcome is None or call.outcome is Outcome.OPEN:
        raise InvalidInput(
            f'A decision says what becomes of {root.id}: outcome="stands" (it goes on), outcome="falls" (it is '
            'INVALIDATED), or outcome="amended" with to="…", the id of the item that takes its place. Nothing was '
            "changed."
        )
    if (yield from acts_for_author(ledger, debate)):
        raise Refused(
            f"You act for {root.author}, its author, or for who wrote {root.id} as it stands: nobody decides or "
            f"confirms in its own favour. Nothing was changed; answer its critiques, or give it up with "
            f'debate(op="concede", id="{root.id}", reason="…").'
        )
    to = yield from _replacement(ledger, root, call)
    if (yield from _alone(ledger, debate, call.deciders)):
        yield from close(ledger, debate, DebateState.DECIDED, call.reason, call.outcome, to=to)
        return
    number = 0 if to is None else to.number
    same = [
        d
        for d in (yield from _others(ledger, debate))
        if (d.outcome, d.to, d.version) == (call.outcome, number, root.version)
    ]
    if same and (yield from _counts(ledger, debate, call.deciders)):
        yield from _confirmed(ledger, debate, same[0])
        return
    owner = ledger.side
    values = (ledger.agent, root.version, str(call.outcome), number, call.reason, ledger.now)
    yield sql("decision_drop"), (ledger.no, debate.id, ledger.agent)
    yield sql("decision_put"), (ledger.no, debate.id, owner, *values)
    rows: Rows = yield sql("obligations_of_debates"), (ledger.no, numbers([debate.id]))
    for row in rows:  # by its own decision an agent has answered the request to confirm another's
        if row[0] == ledger.agent and row[2] == Duty.CONFIRM and row[3] == ObligationState.OUTSTANDING:
            yield from settle_duty(ledger, row, ObligationState.ACKNOWLEDGED, "decided otherwise")
    named = (yield from _there(ledger, debate, call.deciders)) if call.deciders else []
    asked = named or (yield from _concerned(ledger, debate, {owner}))
    waits = {row[0] for row in rows if row[2] == Duty.CONFIRM and row[3] == ObligationState.OUTSTANDING}
    for agent in asked:
        if agent not in waits:
            yield from owe(ledger, agent, root.number, Duty.CONFIRM, debate.id)
    data: dict[str, object] = {"outcome": str(call.outcome), "reason": cut(call.reason, MAX_REASON)}
    if to is not None:
        data["gave_way_to"] = to.id
    yield from ledger.emit(EventType.DEBATE_PENDING, root, data=data, concerns=[root.author, *asked])
    yield from moved(ledger, debate.id)


def replace(ledger: Ledger, debates: Collection[int], to: ItemRow, reason: str) -> Steps[None]:
    """Ends open debates by the agent's word, because `to` took the places of their items; none if that fell itself.

    Where both the agent and the author of `to` act for critics, and not for the criticised side, the debate goes on.
    """
    if not TRANSITIONS[Status(to.status)]:
        return
    for number in debates:
        # The end of one may close others, so each is looked up only now.
        for debate in (yield from open_debates(ledger.no, {number})):
            mends = bool((yield from behind(to)) & (yield from behind(debate.root)))
            if mends or (yield from _is_neutral(ledger, debate, [ledger.agent, to.author])):
                amends = yield from _amends(ledger.no, to, debate.root)
                outcome = Outcome.AMENDED if amends else Outcome.FALLS
                yield from close(ledger, debate, DebateState.DECIDED, reason, outcome, to=to)


def confirm(ledger: Ledger, debate: Open, call: DebateCall) -> Steps[None]:
    """Ends the debate as another owner decided.

    Raises:
        Conflict: nobody decided so, or several decided differently.
        Refused: the agent acts for the side under criticism, or a named decider has to confirm.
    """
    root = debate.root
    if (yield from acts_for_author(ledger, debate)):
        raise Refused(
            f"You act for {root.author}, its author, or for who wrote {root.id} as it stands: nobody decides or "
            f"confirms in its own favour. Nothing was changed; if it falls, "
            f'debate(op="concede", id="{root.id}", reason="…") says so.'
        )
    pending = yield from _others(ledger, debate)
    found = [d for d in pending if call.outcome in (None, d.outcome)]
    told = "; ".join(f"{d.agent}: {d.outcome}" for d in pending[:_NAMED]) or "no other owner decided"
    if len({(d.outcome, d.to) for d in found}) != 1:
        how = (
            'say which with outcome="…"'
            if len(found) > 1
            else f'debate(op="decide", id="{root.id}", outcome="stands|falls|amended", reason="…") decides yourself'
        )
        raise Conflict(
            f"There is not one decision on {root.id} that you could confirm ({told}). Nothing was changed; {how}.",
            item=root.id,
        )
    if not (yield from _counts(ledger, debate, call.deciders)):
        raise Refused(
            f"The debate on {root.id} is for {', '.join(call.deciders)} to decide, who is here. Nothing was changed; "
            f'debate(op="status", id="{root.id}") says how it stands.'
        )
    yield from _confirmed(ledger, debate, found[0])


def _confirmed(ledger: Ledger, debate: Open, decision: Decision) -> Steps[None]:
    """Closes the debate with a decision that the ledger's agent confirms."""
    to = (yield from load_any(ledger.no, [decision.to]))[decision.to] if decision.to else None
    yield from close(
        ledger, debate, DebateState.DECIDED, decision.reason, decision.outcome, to=to, by=decision.agent
    )


def _replacement(ledger: Ledger, root: ItemRow, call: DebateCall) -> Steps[ItemRow | None]:
    """Returns the item that replaces the debated one; `None` if the call names none.

    Raises:
        UnknownReference, InvalidInput, Conflict: it cannot replace it, or an amendment names none.
    """
    if call.to is None:
        if call.outcome is Outcome.AMENDED:
            raise InvalidInput(
                f'outcome="amended" goes with to="…", the id of the item that takes the place of {root.id}. Nothing '
                "was changed; post that item first."
            )
        return None
    if call.outcome not in (None, *FELL):
        raise InvalidInput(
            f'to goes with outcome="amended" or "falls", not "{call.outcome}". Nothing was changed.'
        )
    to = (yield from load_visible(ledger.no, [call.to], ledger.agent, ledger.board.id))[call.to]
    standing(to)
    if to.number == root.number or not to.public or not TRANSITIONS[Status(to.status)]:
        why = (
            "is the item itself"
            if to.number == root.number
            else f"is {to.status if to.public else to.visibility}"
        )
        if to.public and (then := (yield from _successor(ledger.no, to.number))) is not None:
            if then.number == root.number:
                raise InvalidInput(
                    f"{to.id} gave way to {root.id} already, so {root.id} stands. Nothing was changed, and nothing is "
                    "left to do about the two."
                )
            why = f"gave way to {then.id} itself"
        raise InvalidInput(
            f"{root.id} cannot give way to {to.id}, which {why}. Nothing was changed; name an item that stands and "
            "that the board sees."
        )
    return to


def _successor(no: int, number: int) -> Steps[ItemRow | None]:
    """Returns the item that everybody sees in favour of which another one fell, or `None`."""
    ended = yield sql("debates_on"), (no, numbers([number]))
    found = [row[10] for row in ended if row[10]]
    then = (yield from load_any(no, found[-1:])).get(found[-1]) if found else None
    return then if then is not None and then.public else None


def _alone(ledger: Ledger, debate: Open, deciders: Sequence[str]) -> Steps[bool]:
    """Tells whether the agent may decide alone.

    A named decider may. If no named decider is present, any agent may whose owner has no critic in the debate.
    """
    if ledger.agent in deciders:
        return True
    if deciders and (yield from _there(ledger, debate, deciders)):
        return False
    return (yield from _is_neutral(ledger, debate, [ledger.agent]))


def _is_neutral(ledger: Ledger, debate: Open, agents: Collection[str]) -> Steps[bool]:
    """Tells whether one of the agents at least acts for an owner who has no critic in the debate."""
    critics = yield from load_any(ledger.no, debate.critiques)
    parties = {row.author for row in critics.values() if row.status not in TAKEN_BACK}
    owners = yield from owners_of([*agents, *parties])
    against = {owners[party] for party in parties}
    return any(owners[agent] not in against for agent in agents)


def _counts(ledger: Ledger, debate: Open, deciders: Sequence[str]) -> Steps[bool]:
    """Tells whether the agent may confirm: it is a named decider, or no named decider is present."""
    if not deciders or ledger.agent in deciders:
        return True
    return not (yield from _there(ledger, debate, deciders))


def _there(ledger: Ledger, debate: Open, deciders: Collection[str]) -> Steps[list[str]]:
    """Returns the named deciders, without the author's side and without those who were asked and stayed away."""
    rows: Rows = yield sql("obligations_of_debates"), (ledger.no, numbers([debate.id]))
    gone = {row[0] for row in rows if row[2] == Duty.CONFIRM and row[5] == AWAY}
    own = yield from behind(debate.root)
    owners = yield from owners_of(deciders)
    return [name for name in deciders if name not in gone and owners[name] not in own]


def _others(ledger: Ledger, debate: Open) -> Steps[list[Decision]]:
    """Returns decisions of other owners on the present version, without those of the author's side."""
    own = {ledger.side, *(yield from behind(debate.root))}
    listed = (yield from decisions_of(ledger.no, [debate.id])).get(debate.id, [])
    return [d for d in listed if d.owner not in own and d.version == debate.root.version]


def _concerned(ledger: Ledger, debate: Open, apart: Collection[str]) -> Steps[list[str]]:
    """Returns the watchers and critics who may confirm a decision; owners in `apart` and the author's side may not."""
    rows: Rows = yield sql("obligations_of_debates"), (ledger.no, numbers([debate.id]))
    names = [row[0] for row in rows if row[2] == Duty.ACKNOWLEDGE and row[3] != ObligationState.WAIVED]
    owners = yield from owners_of(names)
    own = {*apart, *(yield from behind(debate.root))}
    return [name for name in dict.fromkeys(names) if owners[name] not in own]


def ask_the_others(ledger: Ledger, debate: Open) -> Steps[None]:
    """Asks further agents to confirm a decision, if all who were asked before are away."""
    decided = (yield from decisions_of(ledger.no, [debate.id])).get(debate.id, [])
    if not decided:
        return
    rows: Rows = yield sql("obligations_of_debates"), (ledger.no, numbers([debate.id]))
    asked = {row[0]: row[3] for row in rows if row[2] == Duty.CONFIRM}
    if ObligationState.OUTSTANDING in asked.values():
        return
    apart = {decided[0].owner} if len(decided) == 1 else set()
    for agent in (yield from _concerned(ledger, debate, apart)):
        if agent not in asked:
            yield from owe(ledger, agent, debate.root.number, Duty.CONFIRM, debate.id)
            yield from ledger.emit(
                EventType.OBLIGATION_ADDED,
                debate.root,
                data={"watcher": agent, "why": "a decision to confirm"},
                concerns=[agent],
            )


_NAMED = 3
