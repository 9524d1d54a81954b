"""Participants as text: who takes part, in which role, with which skills and protocols."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from blackboard_mcp.protocols.participants import MAX_ROLE, Participant

from ..text.lines import clip, relative_age, word
from ..usecases.participants import Roster

_LISTED = 20
_GIVEN_UP = 12


def participant_line(participant: Participant, now: datetime | None = None) -> str:
    """Returns `ben 5s: reviews patches · skills python, sql`; without `now` the age of the last call is left out."""
    age = "" if now is None else f" {relative_age(participant.last_seen, now)}"
    return f"{word(participant.agent)}{age}{said_of(participant)}"


def roster_lines(roster: Roster, now: datetime) -> list[str]:
    """Returns who the caller is, and who else takes part, a line each."""
    lines = []
    if roster.you is not None:
        lines.append(f"you are {participant_line(roster.you)}")
    else:
        lines.append('you take no part: join(role="…", skills=["…"]) does')
    here = [one for one in roster.others if one.present]
    away = [one for one in roster.others if not one.present]
    lines += _part("here:", here, now)
    lines += _part("away:", away, now)
    if not roster.others:
        lines.append("nobody else takes part yet")
    if roster.you is not None:
        lines.append("turn() waits for your turn, wait() for news")
    return lines


def left_lines(roster: Roster) -> list[str]:
    """Returns what leaving gave up."""
    lines = ["you left"]
    for label, ids in (("waived", roster.waived), ("released", roster.released)):
        if ids:
            more = f" +{len(ids) - _GIVEN_UP}" if len(ids) > _GIVEN_UP else ""
            lines.append(f"{label}: {', '.join(word(id_) for id_ in ids[:_GIVEN_UP])}{more}")
    return lines


def _part(heading: str, listed: Sequence[Participant], now: datetime) -> Iterable[str]:
    if not listed:
        return
    yield heading
    for one in listed[:_LISTED]:
        yield participant_line(one, now)
    if len(listed) > _LISTED:
        yield f"{len(listed) - _LISTED} more after these"


def said_of(participant: Participant) -> str:
    """Returns what a participant said about itself, after a colon; empty where it said nothing."""
    parts = [clip(participant.role, MAX_ROLE)] if participant.role else []
    if participant.skills:
        parts.append(f"skills {', '.join(map(word, participant.skills))}")
    if participant.protocols:
        parts.append(f"speaks {', '.join(map(word, participant.protocols))}")
    return f": {' · '.join(parts)}" if parts else ""
