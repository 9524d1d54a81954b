"""Requests between agents: asking, offering skills, taking under a lease, answering, and ends by time."""

from __future__ import annotations

from collections.abc import Sequence

from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.asking import (
    KEYS,
    MAX_OFFERS,
    MAX_OPEN,
    MAX_OPEN_OF_AGENT,
    MAX_PARTS,
    AgentRequest,
    NewAnswer,
    NewRequest,
)
from blackboard_mcp.protocols.board import BoardConfig, Lifecycle
from blackboard_mcp.protocols.changes import ChangeKind
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, Refused
from blackboard_mcp.protocols.events import SYSTEM, EventType
from blackboard_mcp.protocols.items import Draft, EdgeKind, ItemType, Visibility
from blackboard_mcp.protocols.messages.request_result import RequestState

from ...operation import Write
from ..items import posting
from ..ledger.idempotency import Form, recalled, repeatable
from ..ledger.ledger import Ledger, create_ledger, get_board, load_any, open_ledger
from ..ledger.rows import ItemRow, Steps, sql
from .request_rows import (
    RequestRow,
    check_live,
    check_mine,
    drop_partial,
    end,
    find,
    get,
    move,
    offering,
    question,
    value,
)

_MICROS = 1_000_000
_BATCH = 100
LAPSED = "lease ended"
UNDELIVERED = "the call that took it was cancelled"


def _begin(write: Write, board: str, agent: str) -> Steps[Ledger]:
    """Returns a ledger for requests on an open board, and records that the agent is present."""
    ledger = yield from open_ledger(write, board, agent)
    _check_open(ledger)
    yield from ledger.was_here()
    ledger.asking = True
    return ledger


def _check_open(ledger: Ledger) -> None:
    """Checks that the board takes posts.

    Raises:
        Refused: it does not.
    """
    state = ledger.board.lifecycle
    if state is not Lifecycle.OPEN:
        raise Refused(f"Board '{ledger.board.id}' is {state} and takes no posts. Nothing was changed.")


def _post(
    ledger: Ledger,
    kind: ItemType,
    key: str,
    new: NewRequest | NewAnswer,
    edges: Sequence[tuple[EdgeKind, int]] = (),
    version: int = 0,
) -> Steps[int]:
    """Posts the question or answer under its key, and returns the item's number.

    `version` is the version that it replaces, 0 for a new item. If an older item already has the key, the new one
    gets no key.
    """
    if not version and (yield sql("item_of_key"), (ledger.no, "", key)):
        key = ""
    draft = Draft(
        text=new.text,
        type=kind,
        edges=tuple(edges),
        key=key or None,
        expected_version=version if key else None,
        visibility=Visibility.BOARD,
        tokens=new.tokens,
        sha256=new.sha256,
        counted_by=new.counted_by,
        checked=ledger.board.config.validation,  # the rules of validation do not apply to requests
    )
    return (yield from posting.apply(ledger, [draft])).placed[0]


# Asking


@repeatable(int)
def open_request(
    write: Write, board: str, agent: str, new: NewRequest, *, config: BoardConfig, once: Once | None = None
) -> Steps[int]:
    """Opens a request, and returns its number; creates the board with `config` if it does not exist.

    Raises:
        InvalidInput: the agent asks itself.
        Refused: too many requests are open, or the board takes no posts.
    """
    if new.to == agent:
        raise InvalidInput("You cannot ask yourself. Nothing was changed; name another agent or a skill.")
    ledger = yield from create_ledger(write, board, agent, config)
    _check_open(ledger)
    ledger.asking = True
    mine = yield sql("requests_asked"), (ledger.no, agent, MAX_OPEN_OF_AGENT)
    if len(mine) >= MAX_OPEN_OF_AGENT:
        raise Refused(
            f"You have {MAX_OPEN_OF_AGENT} open requests on '{board}', which is the limit. Nothing was changed; "
            'request(id="…", cancel=true) takes one back.'
        )
    live = yield sql("requests_live"), (ledger.no, MAX_OPEN)
    if live[0][0] >= MAX_OPEN:
        raise Refused(
            f"'{board}' has {MAX_OPEN:,} open requests, which is the limit. Nothing was changed; try again later."
        )
    key = KEYS.request_key(str(ledger.board.last_number + 1))
    ledger.addressed = new.to or f"skill:{new.skill}"
    number = yield from _post(ledger, ItemType.QUESTION, key, new)
    deadline = write.now + round(new.deadline_seconds * _MICROS)
    yield (
        sql("request_add"),
        (ledger.no, number, agent, new.to, new.skill, str(RequestState.OPEN), write.now, deadline),
    )
    ledger.holding.add(number)
    row = yield from get(ledger.board, number)
    ledger.note(ChangeKind.REQUEST, type=ItemType.QUESTION, author=agent, name=row.whom)
    told = [new.to] if new.to else (yield from offering(ledger.board, new.skill, write.now))
    yield from ledger.emit(
        EventType.REQUEST_OPENED,
        (yield from question(ledger, row)),
        data={"to": row.whom, "seconds": new.deadline_seconds},
        concerns=told,
        told=True,
    )
    yield from ledger.close()
    return number


def request(now: int, board: str, agent: str, number: int) -> Steps[AgentRequest]:
    """Returns the present state of a request.

    Raises:
        UnknownReference: there is no such request.
    """
    row = yield from get_board(board)
    return (yield from value(row, (yield from get(row, number)), now))


def waiting(
    now: int, board: str, agent: str, limit: int = 50
) -> Steps[tuple[list[AgentRequest], list[AgentRequest]]]:
    """Returns requests that wait for the agent's answer, and open requests that it made, at most `limit` of each.

    Among the first, those that it holds come first, then those to its name, then those to its skills.
    """
    row = yield from get_board(board)
    listed = [n for (n,) in (yield sql("requests_held"), (row.no, agent, limit))]
    listed += [n for (n,) in (yield sql("requests_for"), (row.no, agent, limit))]
    listed += [n for (n,) in (yield sql("requests_by_skill"), (row.no, agent, limit, now))]
    asked = [n for (n,) in (yield sql("requests_asked"), (row.no, agent, limit))]
    found: dict[int, AgentRequest] = {}
    for number in dict.fromkeys([*listed[:limit], *asked]):
        found[number] = yield from value(row, (yield from get(row, number)), now)
    return [found[n] for n in dict.fromkeys(listed[:limit])], [found[n] for n in asked]


@repeatable(int)
def cancel(
    write: Write, board: str, agent: str, number: int, reason: str = "", *, once: Once | None = None
) -> Steps[int]:
    """Cancels a request of the agent's own, and returns its number.

    Raises:
        UnknownReference: there is no such request.
        Conflict: it has ended.
        Refused: another agent made it.
    """
    ledger = yield from _begin(write, board, agent)
    row = yield from get(ledger.board, number)
    if row.asker != agent:
        raise Refused(f"{row.asker} asked {row.id}, and nobody else cancels it. Nothing was changed.")
    check_live(row)
    ledger.note(ChangeKind.REQUEST, (yield from question(ledger, row)))
    yield from end(ledger, row, RequestState.CANCELLED, reason=reason)
    yield from ledger.close()
    return number


# Offering


@repeatable(bool)
def offer(
    write: Write, board: str, agent: str, skills: Sequence[str], *, once: Once | None = None
) -> Steps[bool]:
    """Makes the agent offer these skills and no others; returns whether that changed anything.

    Raises:
        Refused: too many skills are offered on the board.
    """
    ledger = yield from _begin(write, board, agent)
    changed = yield from set_skills(ledger, skills)
    yield from ledger.close()
    return changed


def set_skills(ledger: Ledger, skills: Sequence[str]) -> Steps[bool]:
    """Makes the ledger's agent offer these skills and no others; returns whether that changed anything.

    Raises:
        Refused: too many skills are offered on the board.
    """
    agent = ledger.agent
    before = {row[0] for row in (yield sql("skills_of"), (ledger.no, agent))}
    wanted = list(dict.fromkeys(skills))
    fresh = [skill for skill in wanted if skill not in before]
    total = yield sql("skills_on_board"), (ledger.no,)
    if total[0][0] + len(fresh) - len(before - set(wanted)) > MAX_OFFERS:
        raise Refused(
            f"'{ledger.board.id}' has {MAX_OFFERS:,} offers of skills, which is the limit. Nothing was changed."
        )
    for skill in sorted(before ^ set(wanted)):
        ledger.note(ChangeKind.RESPOND, name=f"skill:{skill}")
    for skill in wanted:
        yield sql("skill_add"), (ledger.no, agent, skill, ledger.now)
    for skill in sorted(before - set(wanted)):
        yield sql("skill_drop"), (ledger.no, agent, skill)
    if fresh:
        yield from ledger.emit(EventType.SKILL_OFFERED, data={"skills": wanted})
    if gone := sorted(before - set(wanted)):
        yield from ledger.emit(EventType.SKILL_ENDED, data={"agent": agent, "skills": gone})
    return bool(fresh or gone)


def skills(now: int, board: str) -> Steps[dict[str, tuple[str, ...]]]:
    """Returns a map from each skill offered now to the agents that offer it."""
    row = yield from get_board(board)
    lease = row.config.skill_lease_seconds
    found: dict[str, list[str]] = {}
    for skill, agent in (yield sql("skills_offered"), (row.no, now - lease * _MICROS if lease else -1)):
        found.setdefault(skill, []).append(agent)
    return {skill: tuple(agents) for skill, agents in found.items()}


# Taking and answering


@repeatable(int)
def take(write: Write, board: str, agent: str, number: int, *, once: Once | None = None) -> Steps[int]:
    """Takes a request, and returns the lease under which the agent holds it; its earlier lease becomes void.

    Raises:
        UnknownReference: there is no such request.
        Conflict: another agent holds it, or it has ended.
        Refused: it is not addressed to this agent.
    """
    ledger = yield from _begin(write, board, agent)
    row = yield from get(ledger.board, number)
    if row.holder != agent:
        yield from check_mine(ledger, row, None)
    check_live(row)
    ledger.note(ChangeKind.RESPOND, (yield from question(ledger, row)))
    yield from _take(ledger, row)
    yield from ledger.close()
    return row.lease


def next_for(now: int, board: str, agent: str) -> Steps[int | None]:
    """Returns the oldest free request that waits for the agent, or `None`."""
    row = yield from get_board(board)
    if row.lifecycle is not Lifecycle.OPEN:
        return None
    named = [n for (n,) in (yield sql("requests_for"), (row.no, agent, 1))]
    named += [n for (n,) in (yield sql("requests_by_skill"), (row.no, agent, 1, now))]
    return min(named, default=None)


def anything_next(now: int, board: str, agent: str, once: Once | None) -> Steps[bool]:
    """Tells whether `take_next` would answer with a request."""
    if once is not None and (yield from recalled(now, board, agent, once)) is not None:
        return True
    return (yield from next_for(now, board, agent)) is not None


def _taken_again(said: list[int]) -> Steps[tuple[int, int] | None]:
    """Returns the stored number and lease."""
    number, lease = said
    return number, lease
    yield  # makes this a generator, as `Form.again` requires


TAKEN: Form[tuple[int, int] | None] = Form(lambda taken: taken and list(taken), _taken_again)
"""The form that stores what `take_next` took; an empty answer is not stored."""


@repeatable(TAKEN)
def take_next(
    write: Write, board: str, agent: str, *, once: Once | None = None
) -> Steps[tuple[int, int] | None]:
    """Takes the oldest free request that waits for the agent; returns its number and lease, or `None`."""
    number = yield from next_for(write.now, board, agent)
    return None if number is None else (number, (yield from take(write, board, agent, number)))


def _take(ledger: Ledger, row: RequestRow) -> Steps[None]:
    """Gives the request to the ledger's agent; the sequence of this event becomes its lease.

    Parts that the agent wrote before remain; those of another agent are dropped.
    """
    if row.holder and row.holder != ledger.agent:
        yield from _release(ledger, row, LAPSED)
    if row.partial:
        partial = (yield from load_any(ledger.no, [row.partial]))[row.partial]
        if partial.author != ledger.agent:
            row.parts = row.partial = 0
            yield from drop_partial(ledger, partial.number, row)
    again = row.holder == ledger.agent
    row.holder = ledger.agent
    row.held_until = ledger.now + ledger.board.config.request_lease_seconds * _MICROS
    item = yield from question(ledger, row)
    row.lease = yield from ledger.emit(EventType.REQUEST_TAKEN, item, data={"again": True} if again else {})
    yield from move(ledger, row, RequestState.TAKEN)


def _release(ledger: Ledger, row: RequestRow, why: str, reason: str = "") -> Steps[None]:
    """Frees the request, which waits again for its addressee.

    An agent that was too slow or never got the request finds the parts that it wrote, until another takes it.
    """
    former = row.holder
    left = 0 if why in (LAPSED, UNDELIVERED) else row.partial
    row.holder, row.held_until = "", 0
    if left:
        row.parts = row.partial = 0
    yield from move(ledger, row, RequestState.OPEN)
    told = [row.agent] if row.agent else (yield from offering(ledger.board, row.skill, ledger.now))
    data = {"from": former, "why": why, **({"reason": reason[:100]} if reason else {})}
    item = yield from question(ledger, row)
    yield from ledger.emit(EventType.REQUEST_RELEASED, item, data=data, concerns=[*told, former], told=True)
    if left:
        yield from drop_partial(ledger, left, row)


@repeatable(int)
def answer(
    write: Write, board: str, agent: str, number: int, new: NewAnswer, *, once: Once | None = None
) -> Steps[int]:
    """Adds a part, which renews the lease, or ends the request with its answer; returns the request's number.

    A request that nobody holds is taken first.

    Raises:
        UnknownReference: there is no such request.
        Conflict: it has ended, the agent no longer holds it, or it has parts that were not seen.
        Refused: it is not addressed to this agent, or there are too many parts.
    """
    ledger = yield from _begin(write, board, agent)
    row = yield from get(ledger.board, number)
    yield from check_mine(ledger, row, new.lease)
    ledger.note(ChangeKind.RESPOND, (yield from question(ledger, row)))
    if row.holder != agent:
        yield from _take(ledger, row)
    if new.seen != row.parts:
        raise Conflict(
            f"{row.id} has {row.parts} parts, not {new.seen}. Nothing was changed.",
            request=row.id,
            parts=row.parts,
        )
    ledger.addressed = row.asker
    if new.partial:
        yield from _add_part(ledger, row, new)
    else:
        ledger.answering = True
        edges = [(EdgeKind.REPLIES_TO, number)]
        if row.partial:
            edges.append((EdgeKind.SUPERSEDES, row.partial))
            held, row.partial = row.partial, 0
            # The parts lose their protection here; the answer, which supersedes them, contains them.
            yield from move(ledger, row, RequestState.TAKEN)
            row.partial = held
        made = yield from _post(ledger, ItemType.ANSWER, KEYS.result_key(str(number)), new, edges)
        item = (yield from load_any(ledger.no, [made]))[made]
        yield from end(ledger, row, RequestState.ANSWERED, answer=item)
    yield from ledger.close()
    return number


def _add_part(ledger: Ledger, row: RequestRow, new: NewAnswer) -> Steps[None]:
    """Adds a part of an answer, and renews the lease.

    Raises:
        Refused: there are too many parts.
    """
    if row.parts >= MAX_PARTS:
        raise Refused(
            f"{row.id} has {MAX_PARTS} parts, which is the limit. Nothing was changed; end it with "
            f'respond(id="{row.id}", text="…").'
        )
    if row.partial:
        item = (yield from load_any(ledger.no, [row.partial]))[row.partial]
        draft = Draft(
            text=new.text,
            key=item.key,
            target=item.number,
            expected_version=row.parts,
            tokens=new.tokens,
            sha256=new.sha256,
            counted_by=new.counted_by,
            checked=ledger.board.config.validation,
        )
        yield from posting.apply(ledger, [draft])
    else:
        key = KEYS.part_key(str(row.number), row.lease)
        edges = [(EdgeKind.REPLIES_TO, row.number)]
        row.partial = yield from _post(ledger, ItemType.RESULT, key, new, edges)
    row.parts += 1
    row.held_until = ledger.now + ledger.board.config.request_lease_seconds * _MICROS
    yield from move(ledger, row, RequestState.TAKEN)


@repeatable(int)
def decline(
    write: Write,
    board: str,
    agent: str,
    number: int,
    reason: str,
    *,
    lease: int | None = None,
    once: Once | None = None,
) -> Steps[int]:
    """Declines a request, and returns its number.

    A request to the agent by name ends. One to a skill goes on to other agents.

    Raises:
        UnknownReference: there is no such request.
        Conflict: it has ended, or the agent no longer holds it.
        Refused: it is not addressed to this agent.
    """
    ledger = yield from _begin(write, board, agent)
    row = yield from get(ledger.board, number)
    yield from check_mine(ledger, row, lease)
    ledger.note(ChangeKind.RESPOND, (yield from question(ledger, row)))
    yield from _decline(ledger, row, reason)
    yield from ledger.close()
    return number


def _decline(ledger: Ledger, row: RequestRow, reason: str) -> Steps[None]:
    """Ends a request to the agent by name; leaves one to a skill to other agents."""
    yield sql("request_decline"), (ledger.no, row.number, ledger.agent, reason[:500], ledger.now)
    if row.agent:
        yield from end(ledger, row, RequestState.DECLINED, reason=reason)
        return
    if not row.holder:
        row.holder = ledger.agent
        yield from move(ledger, row, RequestState.TAKEN)
    yield from _release(ledger, row, "declined", reason)


def give_up(ledger: Ledger, reason: str) -> Steps[list[ItemRow]]:
    """Declines up to 100 requests that the agent holds or that ask it by name; returns their questions."""
    ledger.asking = True
    held = yield sql("requests_held"), (ledger.no, ledger.agent, _BATCH)
    named = yield sql("requests_for"), (ledger.no, ledger.agent, _BATCH)
    given_up = []
    for (number,) in [*held, *named][:_BATCH]:
        row = yield from get(ledger.board, number)
        given_up.append((yield from question(ledger, row)))
        yield from _decline(ledger, row, reason)
    return given_up


def release(write: Write, board: str, agent: str, number: int, lease: int) -> Steps[bool]:
    """Frees a request taken under that lease but not delivered; returns false if the agent does not hold it so."""
    ledger = yield from open_ledger(write, board, agent)
    ledger.asking = True
    row = yield from find(ledger.no, number)
    if row is None or not row.live or (row.holder, row.lease) != (agent, lease):
        return False
    yield from _release(ledger, row, UNDELIVERED)
    yield from ledger.close()
    return True


# What ends by time


def due(now: int) -> Steps[list[str]]:
    """Returns the boards on which a request, a lease or an offer of skills is over."""
    rows = list((yield sql("requests_due"), (now, str(Lifecycle.CLOSED))))
    usual = BoardConfig().skill_lease_seconds
    rows += yield sql("skills_lapsing"), (now, usual, str(Lifecycle.CLOSED))
    return list(dict.fromkeys(row[0] for row in rows))


def lapse(write: Write, board: str) -> Steps[bool]:
    """Ends what is over on a board, a bounded part of it; tells whether anything was."""
    ledger = yield from open_ledger(write, board, SYSTEM)
    ledger.asking = True
    for (number,) in (yield sql("requests_due_on"), (ledger.no, write.now, _BATCH)):
        row = yield from find(ledger.no, number)
        assert row is not None
        if row.deadline <= write.now:
            yield from end(ledger, row, RequestState.EXPIRED, reason="its deadline passed")
        else:
            yield from _release(ledger, row, LAPSED)
    if lease := ledger.board.config.skill_lease_seconds:
        gone: dict[str, list[str]] = {}
        rows = yield sql("skills_of_the_absent"), (ledger.no, write.now - lease * _MICROS, _BATCH)
        for agent, skill in rows:
            yield sql("skill_drop"), (ledger.no, agent, skill)
            gone.setdefault(agent, []).append(skill)
        for agent, skills_ in gone.items():
            yield from ledger.emit(
                EventType.SKILL_ENDED, data={"agent": agent, "skills": skills_[:8], "reason": LAPSED}
            )
    if ledger.board.seq < ledger.first_seq:
        return False
    yield from ledger.close()
    return True
