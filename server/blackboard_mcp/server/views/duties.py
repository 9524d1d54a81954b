"""Duties of the reader, each with the calls that meet it, and the agents that a debate waits for.

The line of a duty quotes the item's text, in quotation marks that the text cannot close, before the calls.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from blackboard_mcp.protocols.debates import Debate, Decision, Duty, ObligationState
from blackboard_mcp.protocols.items import FALLEN, EdgeKind, Item, ItemType
from blackboard_mcp.protocols.tokens import Tokenizer

from ..text.debates import decided, duty_line
from ..text.lines import clip, excerpt, in_quotes, word
from .budget import Line
from .lines import circumstances, identity, listed, name
from .standing import Standing

_READ_ON = 16
"""Tokens of the call that reads the rest of a text that was cut."""
_REASON = 120
"""Characters of the reason of a decision that are shown."""
_OF_COURSE = frozenset({EdgeKind.CRITIQUES})


class Duties:
    """Lines on what the reader of `standing` owes. `responds` says that the reader has the tool that answers
    requests.
    """

    def __init__(self, standing: Standing, tokenizer: Tokenizer, *, responds: bool) -> None:
        self._standing = standing
        self._tokenizer = tokenizer
        self._responds = responds

    def lines(self) -> list[Line]:
        """Returns lines for the reader's duties, then questions that name the reader, then summaries that it
        could write.
        """
        standing = self._standing
        lines = [
            self._owed(standing.items[number], duty)
            for number, duty in standing.snapshot.owed
            if number in standing.items and not self._is_watch(number, duty)
        ]
        told = {line.item.number for line in lines}
        for item in standing.items.values():
            asks = standing.acts and (
                item.type is ItemType.QUESTION and item.author != standing.agent and not standing.done(item)
            )
            if asks and item.number not in told and standing.agent in standing.asked(item):
                lines.append(self._line(item, "asks you", answering(item)))
        for request in standing.snapshot.summaries:
            first = standing.items.get(min(request.seen))
            if first is not None:
                taken = request.holder not in (None, standing.agent)
                holder = f", {word(str(request.holder))} is at it" if taken else ""
                call = f'→ sum up its thread{holder}: summarize(thread="{request.name}")'
                lines.append(self._line(first, "", call))
        return lines

    def watches(self) -> list[Line]:
        """Returns lines for the items that the reader watches, each once, with the call that ends the watch."""
        items = self._standing.items
        owed = dict.fromkeys(self._standing.snapshot.owed)
        return [self._owed(items[n], duty) for n, duty in owed if n in items and self._is_watch(n, duty)]

    def _is_watch(self, number: int, duty: Duty) -> bool:
        return duty is Duty.ACKNOWLEDGE and self._debate(self._standing.items[number], duty) is None

    def _owed(self, item: Item, duty: Duty) -> Line:
        standing = self._standing
        if duty is Duty.ANSWER:
            respond = f'→ answer: respond(id="{item.id}", text="…"), or without text to take it first'
            call = respond if self._responds else answering(item)
            return self._line(item, "asks you", call)
        if duty is Duty.RESPOND and item.type is ItemType.QUESTION:
            return self._line(item, "asks you", answering(item))
        debate = None if duty is Duty.AGREE else self._debate(item, duty)
        answers = [] if debate is None or duty is not Duty.ACKNOWLEDGE else [a for _, a in debate.answers]
        about = next((standing.items[a] for a in answers if a in standing.items), item)
        quorum = standing.snapshot.board.config.quorum
        asked = duty is Duty.AGREE

        def told(tokens: int) -> str:
            if asked and item.tokens <= tokens + _READ_ON:
                tokens = item.tokens + _READ_ON
            return duty_line(
                item.number,
                duty,
                debate,
                standing.items,
                standing.agent,
                self._tokenizer,
                quorum=quorum,
                tokens=tokens,
            )

        return Line(about, partial(str, ""), sentence=told, asked=asked)

    def _debate(self, item: Item, duty: Duty) -> Debate | None:
        """Returns the open debate in which the duty arose, or `None`."""
        for debate in self._standing.open_debates:
            if item.number in ((*debate.critiques,) if duty is Duty.RESPOND else (debate.root,)):
                return debate
        return None

    def _line(self, item: Item, what: str, call: str) -> Line:
        lead = f"{identity(item, self._standing.now, self._standing.agent)}{f' {what}' if what else ''}"
        return Line(item, partial(str, lead), sentence=self._quoting(item, lead, call))

    def _quoting(self, item: Item, lead: str, call: str) -> Callable[[int], str]:
        return lambda tokens: f"{lead}: {in_quotes(excerpt(item.text, tokens, self._tokenizer))} {call}"


def answering(item: Item) -> str:
    """Returns the call that answers a question by a post."""
    return f'→ answer: post(type="ANSWER", edges={{"replies_to": ["{item.id}"]}}, text="…")'


def debate_lines(standing: Standing, told: set[int]) -> tuple[list[Line], list[Line]]:
    """Returns the lines of open debates in two orders: as shown, and by rank.

    As shown, each debated claim is followed by its critiques; by rank, all claims come before all critiques.
    `told` are the numbers of items whose texts stand elsewhere in the view.
    """
    shown: list[Line] = []
    claims: list[Line] = []
    critiques: list[Line] = []
    told = set(told)
    for debate in standing.open_debates:
        root = standing.items[debate.root]
        claim = Line(
            root,
            partial(_words, standing, root),
            after=_awaited(standing, debate),
            textless=root.number in told,
        )
        told.add(root.number)
        claims.append(claim)
        shown.append(claim)
        for number in debate.critiques:
            if number in standing.items and number not in told:
                told.add(number)
                critique = standing.items[number]
                words = partial(_words, standing, critique)
                critiques.append(Line(critique, words, follows=claim))
                shown.append(critiques[-1])
    return shown, claims + critiques


def _words(standing: Standing, item: Item) -> str:
    told = identity(item, standing.now, standing.agent) + circumstances(
        item, without=_OF_COURSE, debated=False
    )
    answer = standing.answer(item) if item.type is ItemType.CRITIQUE else ""
    return f"{told}, {answer}" if answer else told


def _pending(standing: Standing, debate: Debate, decision: Decision) -> str:
    """Returns a clause on a decision that another owner has to confirm, with the call if the reader may."""
    root = standing.items[debate.root]
    said = f"another owner to confirm it: {_verdict(standing, debate, decision)}"
    if standing.agent in (decision.agent, root.author):
        return said
    return f'{said} → debate(op="confirm", id="{root.id}", outcome="{decision.outcome}")'


def _verdict(standing: Standing, debate: Debate, decision: Decision) -> str:
    """Returns who decided what, and why: `eve decides that H-1 falls: "weak"`."""
    said = decided(decision, standing.items[debate.root].id, standing.items)
    return f"{said}: {in_quotes(clip(decision.reason, _REASON))}" if decision.reason else said


def _objecting(standing: Standing, debate: Debate) -> dict[str, list[str]]:
    """Returns the agents that object to answers in the debate, which they judge once that is settled, each
    with the answers.
    """
    answers = {answer for _, answer in debate.answers}
    objecting: dict[str, list[str]] = {}
    for other in standing.open_debates:
        if other.root in answers:
            items = [standing.items[c] for c in other.critiques if c in standing.items]
            for author in {item.author for item in items if item.status not in FALLEN}:
                objecting.setdefault(author, []).append(standing.items[other.root].id)
    return objecting


def _awaited(standing: Standing, debate: Debate) -> str:
    """Returns whom a debate waits for, such as `waits for coder: answer C-15, C-16; then critic, tester:
    judge`.
    """
    answers: dict[str, list[str]] = {}
    judges: list[str] = []
    later: list[str] = []
    confirms: list[str] = []
    objected: list[str] = []
    only = ", who may only read" if standing.snapshot.reads else ""
    objecting = _objecting(standing, debate)
    for owed in debate.obligations:
        who = name(owed.agent, standing.agent) + (only if owed.agent == standing.agent else "")
        item = standing.items.get(owed.item)
        if owed.state is ObligationState.WATCHING or (
            owed.state is ObligationState.OUTSTANDING
            and owed.duty is Duty.ACKNOWLEDGE
            and owed.agent in objecting
        ):
            later.append(who)
            objected += objecting.get(owed.agent, [])
        elif owed.state is not ObligationState.OUTSTANDING:
            continue
        elif owed.duty is Duty.RESPOND:
            answers.setdefault(who, []).append("a critique" if item is None else item.id)
        elif owed.duty is Duty.CONFIRM:
            confirms.append(who)
        else:
            judges.append(who)
    told = [f"{who}: answer {listed(ids)}" for who, ids in answers.items()]
    if confirms:
        said = "; ".join(_verdict(standing, debate, decision) for decision in debate.decisions)
        told.append(f"{listed(confirms)}: confirm or decide otherwise{f' ({said})' if said else ''}")
    else:
        told += [_pending(standing, debate, decision) for decision in debate.decisions]
    if judges:
        told.append(f"{listed(judges)}: judge")
    if objected and not told and not debate.unanswered:
        told.append(f"the debate on {objected[0]}")
    if told and later and (answers or not debate.unanswered):  # else no answer comes to be judged
        told.append(f"then {listed(later)}: judge")
    quorum = standing.snapshot.board.config.quorum
    closes = f"closes by {quorum} votes on one side" if quorum else ""
    if told:
        return f"waits for {'; '.join(told)}{f' ({closes})' if closes else ''}"
    root = standing.items[debate.root]
    if root.author == standing.agent and not closes:
        left = [standing.items[n].id for n in debate.unanswered if n in standing.items and standing.acts]
        call = f'post(type="REPLY", edges={{"replies_to": ["{left[0]}"]}}, text="…")' if left else ""
        answer = f"to answer {left[0]}: {call}; " if left else ""
        return (
            f"waits for others to decide it; {answer}to give it up: "
            f'debate(op="concede", id="{root.id}", reason="…")'
        )
    mine = any(standing.items[n].author == standing.agent for n in debate.critiques if n in standing.items)
    return (
        closes
        or f'waits for nobody by name: debate(op="decide", id="{root.id}", outcome="stands|falls|amended", '
        f'reason="…") ends it{", once another owner confirms it" if mine else ""}'
    )
