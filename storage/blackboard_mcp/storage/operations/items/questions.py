"""Questions that agents ask each other by name: who owes an answer, and what ends that.

A QUESTION asks the agents that it mentions with an @. Without an @ it asks known agents that its text addresses
by name, else the authors of what it replies to. Each of them owes an answer (`Duty.RESPOND` in no debate), and the
question stays in working memory as long as one does. The reply of an asked agent meets its own duty. If only one
agent is asked, anybody's ANSWER frees it; if several are, each owes its own answer. The end of the question frees
all: its author resolves, withdraws or supersedes it, or the board's time for answers is over. Requests between
agents are handled elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

from blackboard_mcp.protocols.debates import Duty, ObligationState
from blackboard_mcp.protocols.errors import Conflict
from blackboard_mcp.protocols.events import EventType
from blackboard_mcp.protocols.items import EdgeKind, ItemType
from blackboard_mcp.protocols.names import called, greeted, is_reserved, mentions

from ...operation import Rows
from ..access import visibility
from ..ledger.ledger import Ledger, load_any
from ..ledger.principals import audience
from ..ledger.rows import ItemRow, Steps, dumps, sql

MOST_ASKED = 8
"""The most agents whom one question asks: those that it names first."""
_LOOKED_AT = 20_000
"""The characters at the start of a text that are searched for names."""
_AROUND = ",;:.!?()-–—"
"""Characters around a name at the beginning of a text that are not part of it."""
_NO_ANSWERS = (ItemType.QUESTION, ItemType.CRITIQUE)


def mentioned(text: str) -> list[str]:
    """Returns the agents that a text mentions with an @, in order."""
    return mentions(text[:_LOOKED_AT])


def _called(no: int, text: str) -> Steps[list[str]]:
    """Returns the agents known on the board that a text without an @ addresses: before a colon, or at its beginning
    before commas.
    """
    said = [name for names in called(text) for name in names]
    first = greeted(text)
    if not said and not first:
        return []
    known = {name for (name,) in (yield sql("agents_among"), (no, dumps([*said, *first])))}
    return [name for name in said if name in known] or list(takewhile(known.__contains__, first))


def whom(
    ledger: Ledger,
    row: ItemRow,
    edges: Iterable[tuple[EdgeKind, int]],
    targets: Mapping[int, ItemRow],
) -> Steps[list[str]]:
    """Returns the agents whom an item asks; empty unless it is a question."""
    if row.type != ItemType.QUESTION or ledger.asking:
        return []
    names = mentioned(row.text) or (yield from _called(ledger.no, row.text))
    if not names:
        names = [targets[number].author for kind, number in edges if kind is EdgeKind.REPLIES_TO]
    there = (ledger.agent, row.author)
    others = [name for name in dict.fromkeys(names) if name not in there and not is_reserved(name)]
    return (yield from audience(ledger.board.id, row.owner, others))[:MOST_ASKED]


def ask(ledger: Ledger, row: ItemRow, names: Sequence[str]) -> Steps[None]:
    """Records that the agents owe an answer from now on."""
    due = str(ObligationState.OUTSTANDING)
    for name in names:
        yield sql("obligation_add"), (ledger.no, name, row.number, str(Duty.RESPOND), 0, ledger.now, due)
    if names:
        ledger.holding.add(row.number)


def answered(ledger: Ledger, row: ItemRow, cited: ItemRow) -> Steps[None]:
    """Applies a reply to a question.

    The reply meets its author's own duty. An ANSWER also frees the other agent, if only one was asked.
    """
    if cited.type != ItemType.QUESTION or not visibility.shared(row.owner, cited.owner):
        return
    if ItemType(row.type) in _NO_ANSWERS:
        return
    asked = yield from _asked(ledger.no, cited.number)
    rows = [owed for owed in asked if owed[3] == ObligationState.OUTSTANDING]
    for owed in rows:
        if owed[0] == ledger.agent:
            ledger.answering = True
            yield from _set(ledger, owed, ObligationState.ACKNOWLEDGED, "answered")
            yield from ledger.emit(
                EventType.OBLIGATION_MET, cited, data={"duty": str(Duty.RESPOND)}, concerns=[cited.author]
            )
    last = max((owed[6] for owed in asked), default=0)
    if row.type == ItemType.ANSWER and sum(owed[6] == last for owed in asked) == 1:
        others = [owed for owed in rows if owed[0] != ledger.agent]
        yield from let_off(ledger, cited, others, f"answered in {row.id}")


def want_words(ledger: Ledger, question: ItemRow, owed: Rows) -> None:
    """Refuses an acknowledgement of a question by an agent who owes it an answer in words; `owed` is all it is owed.

    Raises:
        Conflict: the agent owes an answer, and nothing else.
    """
    mine = [row for row in owed if row[0] == ledger.agent and row[3] == ObligationState.OUTSTANDING]
    if mine and all(row[2] == Duty.RESPOND and row[4] == 0 for row in mine):
        raise Conflict(
            f"{question.id} asks you: an answer meets that, an acknowledgement does not. Nothing was changed; "
            f'post(type="ANSWER", edges={{"replies_to": ["{question.id}"]}}, text="…"), even if it says that you do '
            "not know.",
            item=question.id,
        )


def over(ledger: Ledger, row: ItemRow, why: str) -> Steps[None]:
    """Frees all who still owe an answer to a question, because it is over; `why` is the reason in words."""
    if row.type == ItemType.QUESTION:
        yield from let_off(ledger, row, (yield from _waiting(ledger.no, row)), why)


def let_off(ledger: Ledger, question: ItemRow, rows: Rows, why: str) -> Steps[None]:
    """Frees agents from owing an answer, each with an event for it and for the asker. `rows` are obligations."""
    for owed in rows:
        yield from _set(ledger, owed, ObligationState.WAIVED, why)
        yield from ledger.emit(
            EventType.OBLIGATION_WAIVED,
            question,
            data={"watcher": owed[0], "duty": str(Duty.RESPOND), "reason": why},
            concerns=[owed[0], question.author],
        )


def lapse(ledger: Ledger, seconds: int, most: int) -> Steps[None]:
    """Frees agents who did not answer within `seconds`, longest waiting first, at most `most`."""
    rows = yield sql("questions_unanswered"), (ledger.no, ledger.now - seconds * 1_000_000, most)
    items = yield from load_any(ledger.no, [owed[1] for owed in rows])
    for owed in rows:
        yield from let_off(ledger, items[owed[1]], [owed], f"no answer in {_lasting(seconds)}")


def spoken_to(no: int, text: str) -> Steps[list[str]]:
    """Returns the agent whose name begins a text without an @, if the board knows that agent."""
    first = text[:_LOOKED_AT].split(maxsplit=1)[0].strip(_AROUND) if text.strip() else ""
    if not first or is_reserved(first) or mentioned(text):
        return []
    names = yield sql("agents_among"), (no, dumps([first, first.casefold()]))
    return [name for (name,) in names][:1]


def waiting_for(no: int, question: int) -> Steps[list[str]]:
    """Returns the agents whose answers the question waits for."""
    rows = yield from _asked(no, question)
    return [owed[0] for owed in rows if owed[3] == ObligationState.OUTSTANDING]


def _waiting(no: int, question: ItemRow) -> Steps[Rows]:
    """Returns the obligations to answer the question that are outstanding."""
    rows = yield from _asked(no, question.number)
    return [owed for owed in rows if owed[3] == ObligationState.OUTSTANDING]


def _asked(no: int, question: int) -> Steps[Rows]:
    """Returns all obligations to answer the question, met ones included."""
    rows = yield sql("obligations_of_item"), (no, question)
    return [r for r in rows if r[2] == Duty.RESPOND and r[4] == 0]


def _set(ledger: Ledger, owed: Sequence[object], state: ObligationState, why: str) -> Steps[None]:
    """Sets the state of an obligation, with the reason."""
    agent, item, duty, _state, debate, _reason, _since = owed
    yield sql("obligation_set"), (ledger.no, agent, item, duty, debate, str(state), why)


def _lasting(seconds: int) -> str:
    """Returns a duration in words, such as "2 hours"."""
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length and seconds % length == 0:
            count = seconds // length
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{seconds} seconds"
