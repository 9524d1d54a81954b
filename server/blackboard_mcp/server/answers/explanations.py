"""Explanations of why an item stays, when and how it would leave, or why it left and how to restore it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from blackboard_mcp.protocols.asking import KEYS
from blackboard_mcp.protocols.board import Lifecycle, PassStep
from blackboard_mcp.protocols.debates import Duty, Obligation
from blackboard_mcp.protocols.events import Event, EventType
from blackboard_mcp.protocols.explain import (
    EXPIRY,
    Explained,
    Explanation,
    PassOutlook,
    PassTurn,
)
from blackboard_mcp.protocols.guard import Protection
from blackboard_mcp.protocols.items import Edge, Item
from blackboard_mcp.protocols.late_models import wire
from blackboard_mcp.protocols.pruning import CROWDED, is_too_large, may_return, reason
from blackboard_mcp.protocols.sightings import Readership

from ..text.lines import clip, forgotten, item_line, one_line, relative_age
from .readers import seen_line, wire_sightings

LONGEST = 12
"""Most edges of a chain that are written out; of a longer chain only both ends are shown."""
_NAMED = 8
_CLIPPED = 60
_DUTIES = {
    Duty.ACKNOWLEDGE: "acknowledge",
    Duty.CONFIRM: "confirm",
    Duty.RESPOND: "answer",
    Duty.ANSWER: "answer",
    Duty.AGREE: "agree",
}


def lines(explanation: Explanation, explained: Explained, now: datetime) -> list[str]:
    """Returns the explanation of one item, one sentence a line."""
    if explanation.protection is not None:
        return _stays(explanation, explanation.protection, explained.config.quorum)
    if explanation.turn is not None:
        said = [_goes(explanation.item, explanation.turn, explained), *_when(explanation.turn, explained)]
        said += [CROWDED] if explanation.turn.crowded else []
    else:
        said = _archived(explanation, explained, now)
    expires = explanation.item.expires_at
    if expires is not None and explanation.turn is not None and explanation.turn.takes != EXPIRY:
        said.append(f"expires in {relative_age(now, expires)}")
    return said


def text(explained: Explained, now: datetime) -> str:
    """Returns a paragraph for each item: the item's line, then its explanation.

    Without items it explains the whole board.
    """
    if explained.outlook is not None:
        return _board(explained, explained.outlook)
    parts = []
    for explanation in explained.explanations:
        item = explanation.item
        seen = seen_line(item, explained.readers.get(item.number, Readership()), now)
        said = [item_line(item, now), *lines(explanation, explained, now), *filter(None, [seen])]
        parts.append("\n".join(said))
    if explained.missing:
        named = ", ".join(one_line(name) for name in explained.missing[:20])
        parts.append(f"not found: {named}")
    return "\n\n".join(parts)


def _board(explained: Explained, outlook: PassOutlook) -> str:
    """Returns the explanation of a board: the protected items with reasons, and the items that would leave
    next.
    """
    config, to_go = explained.config, tokens_to_go(explained)
    when = f"in {to_go:,} tokens" if to_go else "due"
    said = [
        f"working memory has {explained.tokens:,} of {config.target_tokens:,} tokens; next pass {when}: "
        f"it starts above {config.high_tokens:,} and ends at {config.low_tokens:,}"
    ]
    reasons: dict[str, list[str]] = {}
    for explanation in explained.explanations:
        if explanation.protection is not None:
            reasons.setdefault(explanation.protection.reason, []).append(explanation.item.id)
    if outlook.protected_items:
        said.append(f"protected {outlook.protected_items} items, {outlook.protected_tokens:,} tokens:")
        said += [f"{reason}: {', '.join(ids)}" for reason, ids in reasons.items()]
        more = outlook.protected_items - sum(map(len, reasons.values()))
        said += [f"{more} more"] if more > 0 else []
    else:
        said.append("nothing is protected")
    going = {explanation.item.id: explanation.item for explanation in explained.explanations}
    if outlook.leaving:
        said.append("leaves next, in this order:")
        said += [
            f"{id_} ({why}): {clip(going[id_].text, _CLIPPED)}"
            for id_, why in outlook.leaving
            if id_ in going
        ]
    else:
        said.append("nothing would leave now")
    said.append('why one item stays or left: read(ids=["H-17"], explain=true)')
    return "\n".join(said)


def restore_call(item: Item) -> str:
    """Returns the call that restores an archived item."""
    return f'query_archive(text="{item.id}", restore=true)'


def way_back(item: Item, *, too_large: bool, lifecycle: Lifecycle) -> str:
    """Returns how an archived item comes back to working memory, or that it cannot now."""
    if lifecycle is not Lifecycle.OPEN:
        return f"stays there: the board is {lifecycle}"
    return "too large to come back" if too_large else f"back with {restore_call(item)}"


def _too_large(item: Item, explained: Explained) -> bool:
    return not may_return(explained.config, explained.tokens, item.tokens, item.importance)


def begin_anew(item: Item | wire.WireItem) -> str:
    """Returns a sentence on how to go on after a deleted item: how to read its last text and post to its key
    again.
    """
    last = f'read(ids=["{item.id}@{item.version - 1}"]) has what it held'
    if item.forgotten is not None:
        last = "its text is gone and cannot be brought back"
    if item.key is None or KEYS.parse(item.key) is not None:  # nobody posts to the keys of requests
        return last
    return f'{last}; post(key="{item.key}", text=…) begins it anew'


def left_words(event: Event) -> str:
    """Returns where in the log and why an item left, from the event by which it left."""
    words = f"seq {event.seq}"
    if "pass" in event.data:
        words += f" pass {event.data['pass']} step {event.data.get('step')}"
    return f"{words}: {left_why(event)}"


def left_why(event: Event) -> str:
    """Returns only the reason for which an item left, for short lists."""
    if event.event is EventType.ITEM_SUPERSEDED:
        return f"superseded by {event.data.get('by', '?')}"
    if event.event is EventType.ITEM_DELETED:
        return f"deleted by {one_line(event.agent)}, version {event.version}"
    return one_line(str(event.data.get("why", "archived")))


def chain_words(item: Item, protection: Protection, names: dict[int, str]) -> str:
    """Returns the chain of edges from the debated item to this one: `H-3 ← C-7 critiques H-3 ← R-9 replies_to
    C-7`.

    `names` maps item numbers to ids. Returns an empty text without a chain.
    """
    chain = protection.chain
    if not chain:
        return ""
    place = _beginning(item.number, chain)
    steps = [names.get(place, "?")] if not protection.omitted else [f"… {protection.omitted} before …"]
    said = [f"{names.get(e.source, '?')} {e.kind} {names.get(e.target, '?')}" for e in chain]
    if len(said) > LONGEST:
        half = LONGEST // 2
        said = [*said[:half], f"… {len(said) - LONGEST} more …", *said[-half:]]
    return " ← ".join([*steps, *said])


def _beginning(end: int, chain: Sequence[Edge]) -> int:
    """Returns the number of the item at which a chain begins. `end` is the item at which the chain ends."""
    place = end
    for edge in reversed(chain):
        place = edge.target if edge.source == place else edge.source
    return place


def _stays(explanation: Explanation, protection: Protection, quorum: int) -> list[str]:
    reason = protection.reason
    chain = chain_words(explanation.item, protection, dict(explanation.names))
    waits = _named(explanation.waits, explanation.item)
    said = f"stays: {chain}; {reason}" if chain else f"stays: {reason}"
    if explanation.root is not None and quorum:
        owners = "an owner's vote" if quorum == 1 else f"{quorum} owners' votes on one side"
        said += f', waits for {owners}: debate(op="vote", id="{explanation.root}")'
    elif explanation.root is not None:
        said += (
            f", waits for {waits}"
            if waits
            else f', nobody outstanding: debate(op="status", id="{explanation.root}") says what closes it'
        )
    elif waits and len(explanation.waits) > 1:
        said += f"; waits for {waits}"
    return [said]


def _named(waits: Sequence[Obligation], item: Item) -> str:
    names: dict[str, None] = {}
    for owed in waits:
        name = one_line(owed.agent)
        if owed.duty is Duty.AGREE:
            name += " to agree"
        if owed.duty is Duty.RESPOND:
            name += f" to answer {item.id}" if owed.item == item.number else " to answer"
        names[name] = None
    listed = list(names)
    return ", ".join(listed[:_NAMED]) + (f" +{len(listed) - _NAMED}" if len(listed) > _NAMED else "")


def _goes(item: Item, turn: PassTurn, explained: Explained) -> str:
    """Returns a sentence on which step would remove the item, and how much would leave before it."""
    config = explained.config
    if turn.takes == EXPIRY:
        return "goes now: its time to live has ended"
    if turn.takes is None:
        if PassStep.IMPORTANCE not in config.steps:
            return "goes when it is resolved, superseded or expires: this board takes nothing by importance"
        return f"importance {item.importance}: leaves only when it is resolved, superseded or expires"
    step = PassStep(turn.takes)
    if step is PassStep.IMPORTANCE and is_too_large(config, item.tokens, item.importance):
        return (
            f"goes with the next pass, before all others: it is too large to stay ({item.tokens:,} tokens; "
            f"{config.low_tokens:,} stay when room is made)"
        )
    said = f"goes in step {step.number} of a pass ({reason(step, item.status, item.importance)})"
    if turn.open_work or turn.after:
        return f"{said}, after {_afterwards(turn)}"
    if turn.items is None:
        return f"{said}, in the order of the policy {one_line(config.policy)}; a dry run of prune lists it"
    many = "more than " if turn.more else ""
    plural = "" if turn.items == 1 else "s"
    said += f", {many}{turn.items:,} item{plural} with {turn.tokens:,} tokens before it"
    if step is PassStep.IMPORTANCE and item.importance > config.ceiling:
        said += (
            f"; as its importance is above {config.ceiling}, only if that leaves more than "
            f"{config.high_tokens:,} tokens"
        )
    return said


def _afterwards(turn: PassTurn) -> str:
    """Returns the things that must leave before an item, whatever its importance."""
    said = ["everything else of its owner that may leave, as open work"] if turn.open_work else []
    if turn.after:
        more = f" +{len(turn.after) - _NAMED}" if len(turn.after) > _NAMED else ""
        rest = "rests" if len(turn.after) == 1 else "rest"
        said.append(f"{', '.join(turn.after[:_NAMED])}{more}, which {rest} on it")
    return " and after ".join(said)


def _when(turn: PassTurn, explained: Explained) -> list[str]:
    """Returns one line: when the next pass starts, and whether it would reach the item.

    Returns an empty list for an item that no pass takes, or that leaves because its time ended.
    """
    if turn.takes in (None, EXPIRY):
        return []
    config, tokens = explained.config, explained.tokens
    to_go = tokens_to_go(explained)
    if to_go:
        where = "at low-water now: " if tokens <= config.low_tokens else ""
        said = (
            f"{where}nothing goes until working memory exceeds {config.high_tokens:,} tokens, {to_go:,} to go"
        )
    else:
        said = f"a pass is due: working memory has {tokens:,} tokens and its mark is {config.high_tokens:,}"
    if turn.tokens is not None:
        said += (
            "; that pass gets as far as this"
            if is_next(turn, explained)
            else "; that pass need not get this far"
        )
    return [said]


def tokens_to_go(explained: Explained) -> int:
    """Returns the number of tokens that working memory may still gain before a pass starts; 0 when one is
    due.
    """
    return max(0, explained.config.high_tokens + 1 - explained.tokens)


def is_next(turn: PassTurn, explained: Explained) -> bool | None:
    """Tells whether the next pass would reach the item, or `None` where that is not known.

    A pass frees all tokens above the low-water mark.
    """
    if turn.tokens is None or turn.takes is None:
        return None
    frees = max(explained.tokens, explained.config.high_tokens + 1) - explained.config.low_tokens
    return turn.tokens < frees


def _archived(explanation: Explanation, explained: Explained, now: datetime) -> list[str]:
    item, left = explanation.item, explanation.left
    if item.forgotten is not None:
        return [f"{forgotten(item.forgotten)}; {begin_anew(item)}"]
    if item.deleted and left is not None:
        return [f"left {relative_age(left.at, now)} ago, {left_words(left)}; {begin_anew(item)}"]
    said = ["in the archive"]
    if left is not None:
        said = [f"left {relative_age(left.at, now)} ago, {left_words(left)}; in the archive"]
    return [
        f"{said[0]}; {way_back(item, too_large=_too_large(item, explained), lifecycle=explained.lifecycle)}"
    ]


# Structured


def wire_explained(explained: Explained, now: datetime) -> wire.ExplainAnswer:
    """Returns the explanations as a structured answer, for programs."""
    return wire.ExplainAnswer(
        explanations=[_wire(explanation, explained, now) for explanation in explained.explanations],
        missing=list(explained.missing),
        working_tokens=explained.tokens,
        high_tokens=explained.config.high_tokens,
        low_tokens=explained.config.low_tokens,
        tokens_to_go=tokens_to_go(explained),
        seq=explained.seq,
    )


def _wire(explanation: Explanation, explained: Explained, now: datetime) -> wire.WireExplanation:
    item, protection, turn, left = (
        explanation.item,
        explanation.protection,
        explanation.turn,
        explanation.left,
    )
    names = explanation.names
    readers = explained.readers.get(item.number, Readership())
    chain = () if protection is None else protection.chain
    return wire.WireExplanation(
        id=item.id,
        zone=str(item.zone),
        protected=protection is not None,
        reason=None if protection is None else protection.reason,
        chain=[
            wire.WireChainLink(source=names[e.source], kind=str(e.kind), target=names[e.target])
            for e in chain
        ],
        omitted=0 if protection is None else protection.omitted,
        debate=explanation.root,
        waits_for=[wire.WireWait(agent=o.agent, duty=_DUTIES[o.duty]) for o in explanation.waits],
        step=None if turn is None or turn.takes in (None, EXPIRY) else PassStep(turn.takes).number,
        takes=None if turn is None else turn.takes,
        items_before=None if turn is None else turn.items,
        tokens_before=None if turn is None else turn.tokens,
        next_pass=None if turn is None else is_next(turn, explained),
        expires_at=item.expires_at,
        left=None
        if left is None
        else wire.WireLeft(
            seq=left.seq,
            at=left.at,
            event=str(left.event),
            step=left.data.get("step"),
            of_pass=left.data.get("pass"),
            why=str(left.data.get("why", left.data.get("by", ""))),
        ),
        restore=restore_call(item)
        if protection is None
        and turn is None
        and not item.deleted
        and explained.lifecycle is Lifecycle.OPEN
        and not _too_large(item, explained)
        else None,
        says=lines(explanation, explained, now),
        seen=wire_sightings(readers),
        never_seen_by=list(readers.never),
    )
