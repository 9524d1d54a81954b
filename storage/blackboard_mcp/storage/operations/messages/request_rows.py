"""Requests inside a transaction: their states and transitions, who may answer, and how they end.

Every change of a request goes through `move`, which checks the transition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from blackboard_mcp.protocols.asking import KEYS, AgentRequest
from blackboard_mcp.protocols.changes import ChangeKind
from blackboard_mcp.protocols.errors import Conflict, Refused, UnknownReference
from blackboard_mcp.protocols.events import SYSTEM, EventType
from blackboard_mcp.protocols.items import Draft, ItemType, Status, Zone, item_id
from blackboard_mcp.protocols.messages.request_result import REQUEST_STATES, RequestState

from ..ledger.ledger import Ledger, load_any
from ..ledger.rows import BoardRow, ItemRow, Steps, instant, numbers, sql

_MICROS = 1_000_000
MAX_TOLD = 64
"""The most agents with a skill who are told of one request."""
_ENDS = {
    RequestState.ANSWERED: EventType.REQUEST_ANSWERED,
    RequestState.DECLINED: EventType.REQUEST_DECLINED,
    RequestState.CANCELLED: EventType.REQUEST_CANCELLED,
    RequestState.EXPIRED: EventType.REQUEST_EXPIRED,
}


@dataclass(slots=True)
class RequestRow:
    """A row of `request`. Times are in microseconds since 1970; missing values are '' and 0."""

    number: int
    asker: str
    agent: str
    skill: str
    state: str
    opened_at: int
    deadline: int
    holder: str
    held_until: int
    lease: int
    parts: int
    partial: int
    answer: int
    reason: str
    ended_by: str
    ended_at: int

    @property
    def id(self) -> str:
        """The id of the request's question."""
        return item_id(ItemType.QUESTION, self.number)

    @property
    def live(self) -> bool:
        """Whether the request has not ended."""
        return self.state in (RequestState.OPEN, RequestState.TAKEN)

    @property
    def whom(self) -> str:
        """The addressee: an agent's name, or `skill:` with a skill."""
        return self.agent or f"skill:{self.skill}"


def find(no: int, number: int) -> Steps[RequestRow | None]:
    """Returns the request's row, or `None` if the item is no request."""
    rows = yield sql("request_get"), (no, number)
    return RequestRow(*rows[0]) if rows else None


def get(board: BoardRow, number: int) -> Steps[RequestRow]:
    """Returns the request's row.

    Raises:
        UnknownReference: the item is no request.
    """
    row = yield from find(board.no, number)
    if row is None:
        raise UnknownReference(
            f"No request {item_id(ItemType.QUESTION, number)} on board '{board.id}'. Nothing was changed; request() "
            "lists yours, respond() what waits for you."
        )
    return row


def value(board: BoardRow, row: RequestRow, now: int) -> Steps[AgentRequest]:
    """Returns the request as callers get it."""
    declined = yield sql("request_declines"), (board.no, row.number)
    named = tuple(agent for agent, _ in declined)
    others = 0
    if row.live and row.skill:
        offered = yield from offering(board, row.skill, now)
        others = sum(agent not in (*named, row.asker) for agent in offered)
    elif row.live:
        others = len((yield sql("agent_there"), (board.no, row.agent)))
    return AgentRequest(
        board=board.id,
        number=row.number,
        id=row.id,
        asker=row.asker,
        to=row.agent,
        skill=row.skill,
        state=RequestState(row.state),
        opened_at=instant(row.opened_at),
        deadline=instant(row.deadline),
        holder=row.holder or None,
        held_until=instant(row.held_until) if row.holder else None,
        lease=row.lease,
        parts=row.parts,
        partial=item_id(ItemType.RESULT, row.partial) if row.partial else None,
        answer=item_id(ItemType.ANSWER, row.answer) if row.answer else None,
        reason=row.reason,
        ended_by=row.ended_by or None,
        ended_at=instant(row.ended_at) if row.ended_at else None,
        declined=named,
        offering=others,
        seq=board.seq,
    )


def offering(board: BoardRow, skill: str, now: int) -> Steps[list[str]]:
    """Returns agents that offer a skill and were present within the lease, longest offer first."""
    lease = board.config.skill_lease_seconds
    since = now - lease * _MICROS if lease else -1
    rows = yield sql("offering"), (board.no, skill, since, MAX_TOLD)
    return [row[0] for row in rows]


def move(ledger: Ledger, row: RequestRow, state: RequestState) -> Steps[None]:
    """Writes the request with a new state.

    Raises:
        Conflict: no transition leads there from the present state.
    """
    if state != row.state:
        REQUEST_STATES.check(row.state, state)
    row.state = str(state)
    due = min(row.deadline, row.held_until) if row.holder else row.deadline
    changed = (row.state, int(row.live), due, row.holder, row.held_until, row.lease, row.parts, row.partial)
    ended = (row.answer, row.reason, row.ended_by, row.ended_at)
    yield sql("request_set"), (ledger.no, row.number, *changed, *ended)


def question(ledger: Ledger, row: RequestRow) -> Steps[ItemRow]:
    """Returns the item that is the request's question."""
    return (yield from load_any(ledger.no, [row.number]))[row.number]


# Who may do what


def check_live(row: RequestRow) -> None:
    """Checks that the request has not ended.

    Raises:
        Conflict: it has ended.
    """
    if row.live:
        return
    by = f" by {row.ended_by}" if row.ended_by not in ("", SYSTEM) else ""
    why = f" ({row.reason})" if row.reason else ""
    raise Conflict(
        f"{row.id} was {row.state.lower()}{by} at {instant(row.ended_at):%H:%M:%SZ}{why}: it takes no answer any more. "
        f'Nothing was changed; what others should know goes on the board: post(edges={{"replies_to": ["{row.id}"]}}, '
        'text="…").',
        state=row.state,
        request=row.id,
    )


def check_mine(ledger: Ledger, row: RequestRow, lease: int | None) -> Steps[None]:
    """Checks that the agent may answer the request now, under that lease.

    Raises:
        Conflict: the request has ended, another agent holds it, or the lease is not that of its last taking.
        Refused: it is not addressed to this agent.
    """
    check_live(row)
    agent = ledger.agent
    if row.holder == agent:
        # If an agent runs in two processes, only the one that took it last may answer.
        if (lease is not None and lease != row.lease) or (lease is None and row.skill):
            said = (
                f"{row.id} was taken again since under lease {row.lease}, which ended lease {lease}"
                if lease is not None
                else f"An answer to {row.id} takes the lease of its last taking, lease={row.lease}"
            )
            raise Conflict(
                f'{said}. Nothing was changed; if that was you, respond(id="{row.id}", lease={row.lease}, text="…"); '
                f'respond(id="{row.id}") takes it again.',
                request=row.id,
            )
        return
    if row.holder and row.held_until > ledger.now:
        raise Conflict(
            f"{row.holder} has {row.id} until {instant(row.held_until):%H:%M:%SZ}. Nothing was changed; respond() "
            "lists what else waits.",
            request=row.id,
            holder=row.holder,
        )
    if lease is not None and (not row.lease or lease != row.lease):
        raise Conflict(
            f'Your lease {lease} of {row.id} has ended. Nothing was changed; respond(id="{row.id}") takes it again.',
            request=row.id,
        )
    yield from check_for(ledger, row)


def check_for(ledger: Ledger, row: RequestRow) -> Steps[None]:
    """Checks that the request is addressed to the agent, or to a skill that the agent offers.

    Raises:
        Refused: it is not.
    """
    agent = ledger.agent
    if row.asker == agent:
        raise Refused(
            f'You asked {row.id} yourself. Nothing was changed; request(id="{row.id}") waits for it.'
        )
    if row.agent:
        if row.agent != agent:
            raise Refused(
                f"{row.id} is to {row.agent}. Nothing was changed; a REPLY with edges replies_to says what you know."
            )
        return
    offered = [found[0] for found in (yield sql("skills_of"), (ledger.no, agent))]
    if row.skill not in offered:
        listed = ", ".join(f'"{skill}"' for skill in sorted({*offered, row.skill}))
        raise Refused(
            f"{row.id} is for the skill {row.skill}, which you do not offer. Nothing was changed; "
            f"respond(skills=[{listed}]) does."
        )


def may_answer(ledger: Ledger, row: RequestRow) -> Steps[bool]:
    """Tells whether an ANSWER that the agent posts without `respond` answers the request."""
    if not row.live:
        return False
    if row.holder == ledger.agent:
        return True
    if row.holder and row.held_until > ledger.now:
        return False
    try:
        yield from check_for(ledger, row)
    except Refused:
        return False
    return True


# How it ends


def end(
    ledger: Ledger, row: RequestRow, state: RequestState, *, reason: str = "", answer: ItemRow | None = None
) -> Steps[None]:
    """Ends the request: sets its state, reason and answer, and retires its question.

    The question leaves with the next pass, and so do parts of an answer that is not completed.
    """
    concerned = [row.asker, row.agent, row.holder]
    if state is RequestState.CANCELLED and row.skill and not row.holder:
        concerned += yield from offering(ledger.board, row.skill, ledger.now)
    row.reason, row.ended_by, row.ended_at = reason[:500], ledger.agent, ledger.now
    if answer is not None:
        row.answer = answer.number
    left = row.partial if answer is None else 0
    yield from move(ledger, row, state)
    item = yield from question(ledger, row)
    data: dict[str, Any] = {"asker": row.asker, "to": row.whom}
    if answer is not None:
        data["answer"] = answer.id
    if reason:
        data["reason"] = reason[:100]
    named = [name for name in concerned if name]
    yield from ledger.emit(_ENDS[state], item, data=data, concerns=named, told=answer is not None)
    done = Status.RESOLVED if state is RequestState.ANSWERED else Status.WITHDRAWN
    yield from _retire(ledger, item, done, row)
    if left:
        yield from drop_partial(ledger, left, row)


def drop_partial(ledger: Ledger, number: int, row: RequestRow) -> Steps[None]:
    """Resolves the parts of an answer that will not be completed, so that they leave with the next pass."""
    item = (yield from load_any(ledger.no, [number]))[number]
    yield from _retire(ledger, item, Status.RESOLVED, row)


def _retire(ledger: Ledger, item: ItemRow, status: Status, row: RequestRow) -> Steps[None]:
    """Sets the status of an item that is over, unless it is debated or was changed by hand."""
    if item.status != Status.ACTIVE or item.zone != Zone.WORKING:
        return
    data = {"status": [item.status, str(status)], "to": row.asker}
    seq = yield from ledger.emit(EventType.ITEM_CHANGED, item, data=data)
    item.status, item.seq = str(status), seq
    yield sql("item_status"), (ledger.no, item.number, item.status, seq, ledger.now, ledger.agent)


# What posts do about requests


def keep_off(ledger: Ledger, draft: Draft, row: ItemRow | None) -> Steps[None]:
    """Checks that a draft does not write questions and answers of requests, which only `request` and `respond` may.

    `row` is the item that the draft would change, `None` for a new one.

    Raises:
        Refused: the draft would write under their keys, or change one of an open request.
    """
    if ledger.asking:
        return
    key = draft.key if row is None else row.key
    written = row is None or draft.text is not None or draft.delete
    if written and key is not None and KEYS.parse(key) is not None:
        raise Refused(
            f"Keys {KEYS.pattern()} are written by request and respond alone. Nothing was changed; use a scope of "
            "your own."
        )
    if row is None or row.type not in (ItemType.QUESTION, ItemType.RESULT):
        return
    if not written and draft.status is None and draft.ttl_seconds is None:
        return
    if (yield sql("requests_among"), (ledger.no, numbers([row.number]))):
        raise Refused(
            f"{row.id} belongs to an open request. Nothing was changed; its asker ends it with "
            'request(id="…", cancel=true), who answers it with respond(id="…", text="…").'
        )


def answered_by_post(ledger: Ledger, row: ItemRow, cited: ItemRow) -> Steps[None]:
    """Ends an open request if `row` is an ANSWER to it by an agent who may answer it."""
    if ledger.asking or row.type != ItemType.ANSWER or cited.type != ItemType.QUESTION or not row.public:
        return
    asked = yield from find(ledger.no, cited.number)
    if asked is None or not (yield from may_answer(ledger, asked)):
        return
    ledger.note(ChangeKind.RESPOND, cited)
    left = asked.partial
    yield from end(ledger, asked, RequestState.ANSWERED, answer=row)
    if left:
        yield from drop_partial(ledger, left, asked)
