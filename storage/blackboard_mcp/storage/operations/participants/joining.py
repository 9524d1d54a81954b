"""Joining: an agent takes part on a board, or changes what it says about itself."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.asking import MAX_SKILLS
from blackboard_mcp.protocols.board import Lifecycle
from blackboard_mcp.protocols.changes import ChangeKind
from blackboard_mcp.protocols.errors import InvalidInput, QuotaExceeded, Refused
from blackboard_mcp.protocols.events import EventType
from blackboard_mcp.protocols.filters import parse_event_filter
from blackboard_mcp.protocols.participants import (
    MAX_INTERESTS,
    MAX_INTERESTS_LENGTH,
    MAX_PARTICIPANTS,
    MAX_ROLE,
    MAX_SPOKEN,
    PRESENCE_SECONDS,
    PROTOCOL_NAME,
    Joined,
    Participant,
)

from ...operation import Write
from ..ledger.idempotency import Form, Given, repeatable, whole
from ..ledger.ledger import get_board, open_ledger
from ..ledger.rows import BoardRow, Steps, differences, dumps, instant, micros, sql
from ..messages.requests import set_skills

_MICROS = 1_000_000
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def form(given: Given) -> Form[Joined]:
    """Returns the form that stores an answer without the other participants, who are looked up again."""
    stored: Form[Joined] = whole(Joined)
    write: Write = given["write"]

    def again(kept: Any) -> Steps[Joined]:
        joined = yield from stored.again(kept)
        listed = yield from participants(write.now, given["board"])
        return replace(joined, others=tuple(other for other in listed if other.agent != given["agent"]))

    return Form(lambda joined: stored.keep(replace(joined, others=())), again)


@repeatable(form)
def join(
    write: Write,
    board: str,
    agent: str,
    *,
    role: str | None = None,
    skills: Sequence[str] | None = None,
    interests: Sequence[Mapping[str, Any]] | None = None,
    protocols: Sequence[str] | None = None,
    once: Once | None = None,
) -> Steps[Joined]:
    """Makes the agent take part, or changes what it said about itself.

    Raises:
        InvalidInput: a value is not allowed.
        QuotaExceeded: too many agents take part.
        Refused: the board is closed, or too many skills are offered on it.
    """
    _check(role, skills, interests, protocols)
    ledger = yield from open_ledger(write, board, agent)
    if ledger.board.lifecycle is Lifecycle.CLOSED:
        raise Refused(f"Board '{board}' is closed: nobody joins it any more. Nothing was changed.")
    former = yield from find(ledger.board, agent, write.now)
    fresh = former is None or former.left_at is not None
    if fresh and (yield sql("participants_count"), (ledger.no,))[0][0] >= MAX_PARTICIPANTS:
        raise QuotaExceeded(
            f"{MAX_PARTICIPANTS} agents take part on '{board}', which is the limit. Nothing was changed; join when one "
            "has left.",
            limit="participants",
            most=MAX_PARTICIPANTS,
        )
    ledger.note(ChangeKind.JOIN)
    yield from ledger.was_here()
    if skills is not None:
        yield from set_skills(ledger, skills)
    said = "" if former is None or fresh else former.role
    filters = [] if former is None or fresh else [dict(filter_) for filter_ in former.interests]
    said = said if role is None else role
    filters = filters if interests is None else [dict(filter_) for filter_ in interests]
    spoken = [] if former is None or fresh else list(former.protocols)
    spoken = spoken if protocols is None else sorted(set(protocols))
    joined_at = write.now if former is None or fresh else micros(former.joined_at)
    yield sql("participant_put"), (ledger.no, agent, said, dumps(filters), joined_at, 0, dumps(spoken))
    now = yield from find(ledger.board, agent, write.now)
    assert now is not None
    data = _said(now)
    if fresh:
        yield from ledger.emit(EventType.AGENT_JOINED, data=data)
    elif former is not None and _words(former) != _words(now):
        yield from ledger.emit(EventType.AGENT_CHANGED, data={**data, **differences(_said(former), data)})
    yield from ledger.close()
    return (yield from standing(ledger.board, agent, write.now))


def participants(now: int, board: str) -> Steps[tuple[Participant, ...]]:
    """Returns who takes part, those present first, then by name."""
    return (yield from _listed((yield from get_board(board)), now))


def standing(board: BoardRow, agent: str, now: int) -> Steps[Joined]:
    """Returns what a call of the agent answers: itself, taking part or not any more, and all others."""
    mine = yield from find(board, agent, now)
    assert mine is not None, "who joined or left has a row"
    listed = yield from _listed(board, now)
    return Joined(mine, tuple(other for other in listed if other.agent != agent), board.seq)


def find(board: BoardRow, agent: str, now: int) -> Steps[Participant | None]:
    """Returns the agent as it takes part or took part; `None` if it never joined."""
    rows = yield sql("participant_get"), (board.no, agent)
    return _participant(board, rows[0], now) if rows else None


def has_left(board: BoardRow, agent: str, now: int) -> Steps[bool]:
    """Tells whether the agent took part and left."""
    participant = yield from find(board, agent, now)
    return participant is not None and participant.left_at is not None


def _listed(board: BoardRow, now: int) -> Steps[tuple[Participant, ...]]:
    rows = yield sql("participants"), (board.no,)
    found = [_participant(board, row, now) for row in rows]
    return tuple(sorted(found, key=lambda one: (not one.present, one.agent)))


def _participant(board: BoardRow, row: Sequence[Any], now: int) -> Participant:
    agent, role, interests, protocols, joined_at, left_at, last_seen, skills = row
    presence = (board.config.presence_seconds or PRESENCE_SECONDS) * _MICROS
    return Participant(
        agent=agent,
        role=role,
        skills=tuple(json.loads(skills)),
        interests=tuple(json.loads(interests)),
        protocols=tuple(json.loads(protocols)),
        joined_at=instant(joined_at),
        last_seen=instant(last_seen),
        present=last_seen > now - presence,
        left_at=instant(left_at) if left_at else None,
    )


def _words(participant: Participant) -> tuple[object, ...]:
    """Returns what a participant said about itself."""
    return participant.role, participant.skills, participant.interests, participant.protocols


def _said(participant: Participant) -> dict[str, Any]:
    """Returns the facts of an event about what a participant says."""
    return {
        "role": participant.role,
        "skills": list(participant.skills),
        "protocols": list(participant.protocols),
    }


def _check(
    role: str | None,
    skills: Sequence[str] | None,
    interests: Sequence[Mapping[str, Any]] | None,
    protocols: Sequence[str] | None,
) -> None:
    """Checks the bounds of what an agent says about itself.

    Raises:
        InvalidInput: a value is not allowed.
    """
    if role is not None and (len(role) > MAX_ROLE or _CONTROL.search(role)):
        raise InvalidInput(
            f"A role is one line of at most {MAX_ROLE} characters, without control characters. Nothing was changed."
        )
    if skills is not None and len(set(skills)) > MAX_SKILLS:
        raise InvalidInput(f"An agent offers at most {MAX_SKILLS} skills. Nothing was changed.")
    if protocols is not None and (
        len(set(protocols)) > MAX_SPOKEN or not all(PROTOCOL_NAME.match(name) for name in protocols)
    ):
        raise InvalidInput(
            f"Protocols are at most {MAX_SPOKEN} names of 1 to 32 of a-z 0-9 -, beginning with a letter. Nothing was "
            "changed."
        )
    if interests is None:
        return
    if len(interests) > MAX_INTERESTS or len(dumps(list(interests))) > MAX_INTERESTS_LENGTH:
        raise InvalidInput(
            f"Interests are at most {MAX_INTERESTS} filters of events, in all {MAX_INTERESTS_LENGTH:,} characters of "
            "JSON. Nothing was changed."
        )
    for filter_ in interests:
        parse_event_filter(dict(filter_))
