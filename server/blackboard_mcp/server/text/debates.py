"""Debates as text: their state, the agents they wait for, ways to close them, and what each duty asks."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from blackboard_mcp.protocols.answers import DebateView, Owed
from blackboard_mcp.protocols.debates import (
    CONCEDED,
    Debate,
    DebateState,
    Decision,
    Duty,
    Obligation,
    ObligationState,
    Outcome,
    StandingWatch,
)
from blackboard_mcp.protocols.events import SYSTEM, Event, EventType
from blackboard_mcp.protocols.items import FALLEN, FINISHED, EdgeKind, Item, Status
from blackboard_mcp.protocols.tokens import Tokenizer

from .lines import ELLIPSIS, excerpt, fate, favour, flat, one_line, relative_age, successor, word

_STANDS = {
    ObligationState.OUTSTANDING: "outstanding",
    ObligationState.ACKNOWLEDGED: "done",
    ObligationState.WAIVED: "no longer asked",
}
_NAMED = 12
_ANSWERS = 2
"""Most answers that a line quotes; further answers are only counted."""
_REASON_TOKENS = 240
"""Most tokens of a reason that are shown."""
_QUOTED_TOKENS = 60
_TO_DO = {
    Duty.RESPOND: "answer",
    Duty.ACKNOWLEDGE: "acknowledge",
    Duty.CONFIRM: "confirm a decision on",
    Duty.ANSWER: "answer",
    Duty.AGREE: "agree to",
}
_YOURS = {
    Duty.RESPOND: "answer",
    Duty.ANSWER: "answer",
    Duty.AGREE: "agree or object to",
    Duty.ACKNOWLEDGE: "acknowledge or criticise",
}
"""Words of the footer for duties whose names do not say what to do."""
_OTHERS = {**_YOURS, Duty.AGREE: "agree to", Duty.ACKNOWLEDGE: "judge"}
"""Words for the duties of others."""
_VOTED = "voted"
"""The reason of duties that a vote met, whichever way it went."""
_AWAY = "away"
"""The reason of duties of which an agent was excused because it made no call."""
MOST_OWED = 3
"""Most duties that one line names."""


def to_do(duty: Duty) -> str:
    """Returns a duty of a reader's own in words: `answer`, `agree or object to`, `acknowledge`."""
    return _YOURS.get(duty, str(duty))


def owed_words(owed: Sequence[Owed], most: int = MOST_OWED) -> str:
    """Returns what an agent owes, by what there is to do: `answer C-22, C-23, agree or object to D-9 +1`.

    At most `most` duties are named.
    """
    told: dict[str, list[str]] = {}
    for one in owed[:most]:
        do = "vote on or criticise" if one.votes else to_do(one.duty)
        told.setdefault(do, []).append(one.id)
    return ", ".join(f"{do} {', '.join(ids)}" for do, ids in told.items()) + _beyond(owed, most)


def awaited_words(awaited: Sequence[tuple[str, Owed]], known: Container[str]) -> str:
    """Returns what others owe, by agent: `ana: answer C-15; ben: agree to D-25`.

    It says so of who is not among the `known` agents, those who ever wrote on the board.
    """
    told: dict[str, list[str]] = {}
    for agent, owed in awaited[:MOST_OWED]:
        told.setdefault(agent, []).append(f"{_OTHERS.get(owed.duty, str(owed.duty))} {owed.id}")
    listed = (
        f"{word(agent)}{'' if agent in known else ' (has written nothing yet)'}: {', '.join(duties)}"
        for agent, duties in told.items()
    )
    return "; ".join(listed) + _beyond(awaited, MOST_OWED)


def _beyond(duties: Sequence[object], named: int) -> str:
    return f" +{len(duties) - named}" if len(duties) > named else ""


def duty_line(
    number: int,
    duty: Duty,
    debate: Debate | None,
    items: Mapping[int, Item],
    agent: str,
    tokenizer: Tokenizer,
    *,
    quorum: int = 0,
    tokens: int = _QUOTED_TOKENS,
) -> str:
    """Returns a line on what `agent` owes to item `number`, with every call that meets the duty.

    `debate` is the debate in which the duty arose; `None` where the agent is asked to agree or watches the
    item. `items` are the debate's items by number. Each text is quoted with at most `tokens` tokens.
    """

    def name(of: int) -> str:
        return items[of].id if of in items else str(of)

    def said(of: int) -> str:
        return _quote(items[of].text, tokens, tokenizer) if of in items else '""'

    def by(of: int) -> str:
        return word(items[of].author) if of in items else "?"

    id_ = name(number)
    if duty is Duty.AGREE:
        start = excerpt(items[number].text, tokens, tokenizer) if number in items else ""
        cut = start.endswith(ELLIPSIS) and start != flat(items[number].text)
        on = f'all of it: read(ids=["{id_}"]); ' if cut else ""
        return (
            f'{id_} by {by(number)} asks you to agree: {said(number)} → {on}agree: debate(op="agree", id="{id_}"); '
            f'object: post(type="CRITIQUE", edges={{"critiques": ["{id_}"]}}, text="…")'
        )
    if duty is Duty.RESPOND and debate is not None:
        if (own := _criticised(debate, number, items, agent)) is not None:
            yours = "your " if own.author == agent else f"{word(own.author)}'s "
            stands = own.status not in (Status.WITHDRAWN, Status.INVALIDATED)
            right = f'; it is right: debate(op="withdraw", id="{own.id}")' if stands else ""
            return (
                f"{id_} by {by(number)} criticises {yours}{own.id}: {said(number)} → answer: post("
                f'type="REPLY", edges={{"replies_to": ["{id_}"]}}, text="…"){right}'
            )
        return (
            f"{id_} by {by(number)} criticises {name(debate.root)}: {said(number)} → answer: post("
            f'type="REPLY", edges={{"replies_to": ["{id_}"]}}, text="…"); it is right: debate(op="concede", '
            f'id="{name(debate.root)}", reason="…")'
        )
    if debate is None:
        over = number in items and items[number].status in FINISHED
        state = f" ({items[number].status.lower()})" if over else ""
        return (
            f"you watch {id_} by {by(number)}{state}: {said(number)} → seen enough: "
            f'debate(op="acknowledge", id="{id_}")'
        )
    if duty is Duty.CONFIRM:
        decisions = [d for d in debate.decisions if d.agent != agent] or list(debate.decisions)
        told = [
            f"{decided(d, id_, items)}: {_quote(d.reason, tokens, tokenizer)}" for d in decisions[:_ANSWERS]
        ]
        told.insert(0, f"{id_} by {by(number)}: {said(number)}")
        ways = [
            f'agree: debate(op="confirm", id="{id_}", outcome="{d.outcome}")' for d in decisions[:_ANSWERS]
        ]
        ways.append(
            f'not so: post a CRITIQUE, or debate(op="decide", id="{id_}", outcome="…", reason="…") otherwise'
        )
        return f"{'; '.join(told)} → {'; '.join(dict.fromkeys(ways))}"
    answers = dict(debate.answers)
    mine = [c for c in answers if c in items and items[c].author == agent]
    told = []
    for c in (mine or list(answers))[:_ANSWERS]:
        yours, own = "your " if c in mine else "", _criticised(debate, c, items)
        if own is not None and own.number == answers[c]:
            told.append(f"{own.id} by {by(own.number)}, which {yours}{name(c)} criticises, is withdrawn")
        else:
            fell = answers[c] in items and items[answers[c]].status in FALLEN
            told.append(
                f"{name(answers[c])} by {by(answers[c])}{', which stands no more,' if fell else ''} answers "
                f"{yours}{name(c)}: {said(answers[c])}"
            )
    if more := len(mine or answers) - len(told):
        told.append(f"{more} more answers")
    if not told:
        told = [f"{id_} by {by(number)} is up for debate: {said(number)}"]
    beside = [c for c in mine if _criticised(debate, c, items) is not None]
    if beside and beside == mine and not quorum:
        # To acknowledge would say that the debated item stands, and that is not what these critiques are about.
        return (
            f"{'; '.join(told)} → satisfied: "
            + ", ".join(f'debate(op="withdraw", id="{name(c)}")' for c in beside[:_ANSWERS])
            + "; not satisfied: post another CRITIQUE"
        )
    if quorum:
        ways = [
            f'{id_} stands: debate(op="vote", id="{id_}", reason="…")',
            f'it falls: debate(op="vote", id="{id_}", approve=false, reason="…")',
        ]
    else:
        agree = "satisfied" if mine else "agree that it stands"
        ways = [
            f'{agree}: debate(op="acknowledge", id="{id_}")',
            f"{'not satisfied' if mine else 'not so'}: post {'another' if mine else 'a'} CRITIQUE",
        ]
    if mine:
        ways.append(f'mistaken: debate(op="withdraw", id="{name(mine[0])}")')
    return f"{'; '.join(told)} → {'; '.join(ways)}"


def _criticised(debate: Debate, number: int, items: Mapping[int, Item], agent: str = "") -> Item | None:
    """Returns the critique that critique `number` criticises, the agent's rather than others'.

    Returns `None` if it criticises the debated item, too, or is not among the items.
    """
    edges = items[number].edges if number in items else ()
    targets = [edge.target for edge in edges if edge.kind is EdgeKind.CRITIQUES]
    if debate.root in targets:
        return None
    found = [items[target] for target in targets if target in debate.critiques and target in items]
    return next((item for item in found if item.author == agent), found[0] if found else None)


def _quote(text: str, tokens: int, tokenizer: Tokenizer) -> str:
    """Returns the start of a text in quotation marks; marks inside it become single ones, so that it cannot
    end them.
    """
    start = excerpt(text, tokens, tokenizer).replace('"', "'")
    return f'"{start}"'


def decided(decision: Decision, id_: str, items: Mapping[int, Item]) -> str:
    """Returns a clause such as `ana decides that H-1 falls`."""
    return f"{word(decision.agent)} decides that {id_} {_becomes(decision.outcome, decision.to, items)}"


def verdict(debate: Debate, id_: str, items: Mapping[int, Item]) -> str:
    """Returns a clause on how a closed debate ended for its item, such as `H-1 is amended to F-9`."""
    if debate.outcome in (Outcome.OPEN, ""):
        return f"{id_} is open again, without an answer"
    then = successor(items[debate.root]) if debate.root in items else ""
    if debate.conceded and debate.outcome == Outcome.FALLS:
        to = items.get(debate.gave_way_to)
        for_ = "" if to is None else favour(to.id, to.author, then)
        ends = "gives way" if for_ else "falls"
        return f"{id_} {ends}: conceded by {word(str(debate.closed_by))}{for_}"
    return f"{id_} {_becomes(debate.outcome, debate.gave_way_to, items, then)}"


def _becomes(outcome: str, to: int, items: Mapping[int, Item], then: str = "") -> str:
    told = fate(outcome, items[to].id if to in items else "", items[to].author if to in items else "", then)
    return f"is {told}" if outcome == Outcome.AMENDED else told


def concession(event: Event) -> str:
    """Returns how an event tells of a concession: `gives way, conceded in favour of H-2`; empty for other events."""
    said = event.data
    if event.event is not EventType.DEBATE_CLOSED or not str(said.get("reason", "")).startswith(CONCEDED):
        return ""
    to = str(said.get("gave_way_to", ""))
    return (
        f"amended to {to}, conceded"
        if said.get("outcome") == Outcome.AMENDED
        else f"{'gives way' if to else 'falls'}, conceded{favour(to)}"
    )


def opened_to_concede(events: Sequence[Event]) -> set[int]:
    """Returns the sequences at which debates were opened by a concession, which alone is worth a line."""
    ends = {e.seq: e.item for e in events if e.event is EventType.DEBATE_CLOSED and concession(e)}
    if not ends:
        return set()
    return {
        event.seq
        for event in events
        if event.event is EventType.DEBATE_OPENED
        and "critique" not in event.data
        and ends.get(event.seq + 1) == event.item
    }


def debate_lines(
    debate: Debate,
    items: dict[int, Item],
    tokenizer: Tokenizer,
    deciders: Sequence[str] = (),
    later: Container[Obligation] = (),
    quorum: int = 0,
) -> list[str]:
    """Returns a debate's state, its critiques with their answers, and all duties, one line each.

    `items` are the debate's items by number. `deciders` are agents one of which has to confirm decisions. `later` are
    duties to judge that are put off until objections to answers are settled. With a `quorum` votes close the debate.
    """

    def name(number: int) -> str:
        return items[number].id if number in items else str(number)

    head = f"{name(debate.root)} debate {debate.state} opened by {debate.opened_by}"
    if debate.closed_by is not None:
        head = verdict(debate, name(debate.root), items)
        if not debate.conceded:
            head += f": debate {debate.state} opened by {debate.opened_by}, closed by {debate.closed_by}"
            head += f", confirmed by {debate.confirmed_by}" if debate.confirmed_by else ""
        elif debate.outcome == Outcome.AMENDED:
            head += f": conceded by {debate.closed_by}"
        if debate.grounds:
            head += f": {excerpt(debate.grounds, _REASON_TOKENS, tokenizer)}"
    lines = [head]
    lines += [
        f"waits for {_some(deciders) or 'another owner'} to confirm it: {decided(d, name(debate.root), items)}: "
        f"{_quote(d.reason, _REASON_TOKENS, tokenizer)}"
        for d in debate.decisions[:_NAMED]
    ]
    answers = dict(debate.answers)
    if debate.critiques:
        told = []
        for n in debate.critiques[:_NAMED]:
            told.append(f"{name(n)} by {items[n].author if n in items else '?'}")
            if n in items and items[n].status is Status.WITHDRAWN:
                told[-1] += " (withdrawn)"
            elif n in answers and (own := _criticised(debate, n, items)) and own.number == answers[n]:
                told[-1] += f" (of {own.id}, which was withdrawn)"
            elif n in answers:
                told[-1] += f" (answered by {name(answers[n])})"
            elif n in debate.unanswered and debate.state is DebateState.OPEN:
                told[-1] += " (not answered)"
        more = len(debate.critiques) - len(told)
        lines.append("critiques " + ", ".join(told) + (f" +{more}" if more else ""))
    for state in ObligationState:
        owed = [o for o in debate.obligations if o.state is state and o not in later]
        if state is ObligationState.WATCHING and owed:
            lines.append(f"watching, asked once every critique is answered: {_some(o.agent for o in owed)}")
        elif owed:
            done = state is ObligationState.ACKNOWLEDGED
            votes = {Duty.ACKNOWLEDGE: "vote on"} if quorum and not done else {}
            acts = [(o.agent, f"{(_TO_DO | votes)[o.duty]} {name(o.item)}") for o in owed]
            listed = _some(f"{act} ({who})" if done else f"{who} to {act}" for who, act in acts)
            lines.append(f"{_STANDS[state]}: {listed}")
            if state is ObligationState.ACKNOWLEDGED:
                lines += [
                    f"{o.agent} agreed: {_quote(o.reason, _REASON_TOKENS, tokenizer)}"
                    for o in owed
                    if o.duty is Duty.ACKNOWLEDGE and o.reason not in ("", _VOTED)
                ][:_NAMED]
    if put_off := [o.agent for o in debate.obligations if o in later]:
        debated = _some(
            items[a].id for a in answers.values() if a in items and items[a].status is Status.DEBATED
        )
        judging = f"{_some(put_off)} to {'vote on' if quorum else 'acknowledge'} {name(debate.root)}"
        lines.append(f"asked once the debate on {debated} is over: {judging}")
    return lines


def standing_lines(
    view: DebateView,
    tokenizer: Tokenizer,
    agent: str = "",
    last_seen: str = "",
    read: str = "",
    deciders: Sequence[str] = (),
) -> list[str]:
    """Returns the lines of `debate_lines`, then the votes, what would close the debate, and what the agent
    owes.

    `last_seen` is a line on when the agents it waits for were last seen, `read` one on whether the author was
    shown the critiques; empty to leave them out. `deciders` are named by the launch configuration.
    """
    debate = view.debate
    due = {(one.id, one.duty) for one in view.attention.owed}
    mine = [o for o in debate.outstanding if o.agent == agent]
    objecting = any(a in view.items and view.items[a].status is Status.DEBATED for _, a in debate.answers)
    # The attention names 50 duties at most, and none to an agent that can do nothing here.
    put_off = objecting and (view.root.id, Duty.ACKNOWLEDGE) not in due
    later = [o for o in mine if put_off and o.duty is Duty.ACKNOWLEDGE]
    owed = [o for o in mine if due and o.item in view.items and o not in later]
    lines = debate_lines(debate, view.items, tokenizer, _there(view, deciders), later, view.tally.quorum)
    if read:
        lines.append(read)
    count = view.tally
    if count.quorum or count.approving or count.rejecting:
        sides = f"for: {_some(count.approving) or 'none'}; against: {_some(count.rejecting) or 'none'}"
        lines.append(f"votes on version {count.version}: {sides}")
    if closing := what_closes(view, deciders, agent):
        lines.append(closing)
    if last_seen:
        lines.append(last_seen)
    lines += [
        "you owe: " + duty_line(o.item, o.duty, debate, view.items, agent, tokenizer, quorum=count.quorum)
        for o in owed
    ]
    return lines


def withdrawn_line(view: DebateView, number: int, agent: str) -> str:
    """Returns a line on what the agent withdrew by naming item `number`, and what that did to the debate."""
    debate, root = view.debate, view.root.id
    gone = [
        n
        for n in debate.critiques
        if n in view.items and view.items[n].status is Status.WITHDRAWN and view.items[n].author == agent
    ]
    gone = [number] if number in gone else gone
    named = _some(view.items[n].id for n in gone)
    if not gone:
        what = f"withdrawn: your call for a debate on {root}"
    else:
        of = [_criticised(debate, n, view.items) for n in gone]
        about = {root if own is None else own.id for own in of}
        what = f"withdrawn: {named}, your critique{'s' if len(gone) > 1 else ''} of {_some(sorted(about))}"
    if debate.state is not DebateState.OPEN:
        ends = (
            "that ends the debate" if debate.state is DebateState.WITHDRAWN else "the debate was over before"
        )
        return f"{what}; {ends}: {verdict(debate, root, view.items)}"
    left = _some(
        f"{view.items[n].id} by {word(view.items[n].author)}"
        for n in debate.critiques
        if n in view.items and view.items[n].status not in (Status.WITHDRAWN, Status.INVALIDATED)
    )
    return f"{what}; the debate on {root} goes on{f' over {left}' if left else f', opened by {word(debate.opened_by)}'}"


def open_critiques(view: DebateView) -> list[str]:
    """Returns the ids of the critiques of a debate that stand and that the reader may see."""
    found = (view.items[n] for n in view.debate.critiques if n in view.items)
    return [item.id for item in found if item.status not in FINISHED]


def still_debated(view: DebateView) -> str:
    """Returns a line for an agent that confirms what is debated: by which critique, and the call that answers it."""
    debate, root = view.debate, view.root
    open_ = [view.items[n] for n in debate.unanswered if n in view.items]
    if open_:
        first = open_[0]
        more = f" +{len(open_) - 1}" if len(open_) > 1 else ""
        return (
            f"{root.id} is debated, and {first.id} by {word(first.author)}{more} not answered; {word(root.author)} "
            f'answers it: post(type="REPLY", edges={{"replies_to": ["{first.id}"]}}, text="…")'
        )
    over = ", over " + _some(open_critiques(view)) if open_critiques(view) else ""
    return f'{root.id} is debated{over}; what closes that: debate(op="status", id="{root.id}")'


def awaited(view: DebateView) -> list[str]:
    """Returns the agents that an open debate waits for, each once; empty for a closed debate."""
    if view.debate.state is not DebateState.OPEN:
        return []
    due = (ObligationState.OUTSTANDING, ObligationState.WATCHING)
    return list(dict.fromkeys(o.agent for o in view.debate.obligations if o.state in due))


def last_seen_line(
    names: Iterable[str], seen: Mapping[str, datetime], now: datetime, presence: float = 0
) -> str:
    """Returns a line on when the named agents made their last calls; empty without names.

    `presence` is the number of seconds after which nobody waits for an agent any more (0: never, or not to be
    told). The line says so when one of them has been away for a fifth of that.
    """
    listed = list(names)
    told = [f"{word(name)} {relative_age(seen[name], now) if name in seen else 'never'}" for name in listed]
    line = f"last seen: {_some(told)}" if told else ""
    if presence and any(
        name in seen and now - seen[name] > timedelta(seconds=presence / 5) for name in listed
    ):
        long = relative_age(now - timedelta(seconds=presence), now)
        return f"{line}; who is away for {long} while others are here is waited for no more"
    return line


def _there(view: DebateView, deciders: Sequence[str]) -> list[str]:
    """Returns the named deciders, without the author and those who were asked to confirm and stayed away."""
    gone = {o.agent for o in view.debate.obligations if o.duty is Duty.CONFIRM and o.reason == _AWAY}
    return [name for name in deciders if name not in gone and name != view.root.author]


def what_closes(view: DebateView, deciders: Sequence[str] = (), agent: str = "") -> str:
    """Returns a line on what would close an open debate and who can do it; empty for a closed debate.

    `deciders` are named by the launch configuration. The author of the item as `agent` is told no call that it may
    not make.
    """
    debate, count, id_ = view.debate, view.tally, view.root.id
    if debate.state is not DebateState.OPEN:
        return ""
    if count.quorum:
        how = f'with {count.quorum} owners\' votes on one side: debate(op="vote", id="{id_}", approve=true|false)'
        how += f"; {count.author}, its author's owner, does not count"
        if count.writers:
            how += f", nor {_some(count.writers)}, who wrote this version"
    else:
        due = (ObligationState.OUTSTANDING, ObligationState.WATCHING)
        missing = [o.agent for o in debate.obligations if o.state in due and o.duty is Duty.ACKNOWLEDGE]
        who = _some(missing) or f"anybody not acting for {' or '.join((count.author, *count.writers))}"
        how = f'when {who} acknowledged: agreed that {id_} stands (debate(op="acknowledge", id="{id_}"))'
        if debate.unanswered:
            names = _some(view.items[n].id if n in view.items else str(n) for n in debate.unanswered)
            how = f"when {names} {'is' if len(debate.unanswered) == 1 else 'are'} answered, and then {how}"
        if count.approving or count.rejecting:
            how += " (votes alone close nothing: this board has no quorum)"
    amended = '; outcome="amended" goes with to="…", the id of the item that takes its place'
    conceded = "" if count.author == SYSTEM else f"; or conceded by {count.author}"
    call = f'debate(op="decide", id="{id_}", outcome="stands|falls|amended", reason="…")'
    named = [name for name in _there(view, deciders) if name != agent]
    if agent == view.root.author:
        decide, amended = f"decided by {_some(named) or 'others'}", ""
    elif agent in deciders:
        decide = f"decided by you: {call}"
    elif named:
        decide = (
            f"decided by {_some(named)}: {call}; what others decide waits until {_some(named)} confirms it"
        )
    else:
        decide = f"decided: {call}, a critic's decision once another owner confirms it"
    return f"closes {how}; or {decide}{conceded}; or when its critics withdraw{amended}"


def watching(watches: Sequence[StandingWatch]) -> str:
    """Returns a line on the topics that an agent watches."""
    if not watches:
        return "you watch no topics"
    topics = ", ".join(one_line(watch.topic) for watch in watches)
    return (
        f"you watch {topics}: debates that open on matching items from now on need your acknowledgement once "
        "every critique is answered; wait() wakes you for new matching items"
    )


def _some(names: Iterable[str]) -> str:
    listed = list(dict.fromkeys(names))
    return ", ".join(listed[:_NAMED]) + (f" +{len(listed) - _NAMED}" if len(listed) > _NAMED else "")
