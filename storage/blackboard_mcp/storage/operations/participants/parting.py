"""Leaving a board: the end of an agent's watches, duties, requests, offers and tasks, each with its event."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.changes import ChangeKind
from blackboard_mcp.protocols.debates import Duty
from blackboard_mcp.protocols.errors import Refused
from blackboard_mcp.protocols.events import EventType
from blackboard_mcp.protocols.participants import MAX_NOTE, MAX_WAIVED, Joined

from ...operation import Rows, Write
from ..agenda.lapses import release_all
from ..debates import agreements
from ..debates.debates import AWAY, waive
from ..debates.standing_watches import end_watch
from ..items import questions
from ..leaving.lapses import let_go
from ..ledger.idempotency import repeatable
from ..ledger.ledger import Ledger, load_any, open_ledger
from ..ledger.rows import ItemRow, Steps, cut, dumps, micros, sql
from ..messages.requests import give_up, set_skills
from ..runs.turning import let_go as let_turn_go
from .joining import find, form, standing

_TOLD = 20
"""The most ids in the event of an agent that leaves."""


@repeatable(form)
def leave(write: Write, board: str, agent: str, note: str = "", *, once: Once | None = None) -> Steps[Joined]:
    """Ends the agent's part.

    Raises:
        Refused: it takes no part.
    """
    ledger = yield from open_ledger(write, board, agent)
    participant = yield from find(ledger.board, agent, write.now)
    if participant is None or participant.left_at is not None:
        raise Refused(f"You take no part on '{board}'. Nothing was changed; join() tells who does.")
    ledger.note(ChangeKind.JOIN)
    yield from ledger.was_here()
    topics = [row[0] for row in (yield sql("watches"), (ledger.no, agent))]
    for topic in topics:
        yield from end_watch(ledger, agent, topic, AWAY)
    owed = yield from _waive(ledger)
    declined = yield from give_up(ledger, cut(note, MAX_NOTE) or AWAY)
    yield from set_skills(ledger, ())
    released = yield from release_all(ledger, agent, cut(note, MAX_NOTE) or AWAY)
    said = (participant.role, dumps([dict(filter_) for filter_ in participant.interests]))
    yield (
        sql("participant_put"),
        (
            ledger.no,
            agent,
            *said,
            micros(participant.joined_at),
            write.now,
            dumps(list(participant.protocols)),
        ),
    )
    items = [*owed.values(), *declined]
    waived = _ids(item for item in items if item.public)
    data = {"note": cut(note, MAX_NOTE), "waived": waived[:_TOLD], "released": list(released[:_TOLD])}
    yield from ledger.emit(EventType.AGENT_LEFT, data={name: value for name, value in data.items() if value})
    yield from let_turn_go(ledger, agent)
    yield from ledger.close()
    joined = yield from standing(ledger.board, agent, write.now)
    return replace(joined, waived=tuple(dict.fromkeys([*_ids(items), *topics])), released=released)


def _waive(ledger: Ledger) -> Steps[dict[int, ItemRow]]:
    """Waives duties in debates, watches of items, answers to questions, and agreements; returns their items."""
    duties = yield from _duties(ledger)
    items = yield from load_any(ledger.no, [row[1] for row in duties])
    yield from let_go(ledger, [row for row in duties if row[4]])
    # The end of a debate may end other duties as well.
    for row in (yield from _duties(ledger)):
        if row[2] == Duty.RESPOND:
            yield from questions.let_off(ledger, items[row[1]], [row], AWAY)
        elif row[2] == Duty.AGREE:
            yield from agreements.excuse(ledger, items[row[1]], ledger.agent)
        else:
            yield from waive(ledger, [row], AWAY)
    return items


def _duties(ledger: Ledger) -> Steps[Rows]:
    rows: Rows = yield sql("duties_of"), (ledger.no, ledger.agent, MAX_WAIVED)
    return rows


def _ids(items: Iterable[ItemRow]) -> list[str]:
    return list(dict.fromkeys(item.id for item in items))
