"""The strategies that choose by facts of the run: in turn, all at once, by offers, by interest in what changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from blackboard_mcp.protocols.events import Event
from blackboard_mcp.protocols.filters import parse_event_filter
from blackboard_mcp.protocols.runs import AtOnce, Chosen
from blackboard_mcp.protocols.strategies import Situation

NOBODY: Final = 'nobody takes part: join(role="…") does'


def _one(name: str | None, by: str, reason: str) -> Chosen:
    return Chosen({} if name is None else {name: ""}, by, reason=reason if name is None else "")


def round_robin(situation: Situation) -> Chosen:
    """Chooses one agent after the other, in the run's order: whoever had no turn for longest."""
    served = situation.served()
    name = min(situation.eligible, key=lambda agent: served.get(agent, 0), default=None)
    return _one(name, "round-robin", NOBODY)


def choreography(situation: Situation) -> Chosen:
    """Chooses everybody who may have a turn, at once."""
    reason = "" if situation.eligible else NOBODY
    return Chosen(dict.fromkeys(situation.eligible, ""), "choreography", reason=reason)


def volunteer(situation: Situation) -> Chosen:
    """Chooses who offered most; among equals, who had no turn for longest. Without an offer nobody is chosen."""
    served = situation.served()
    offers = {
        agent: offer for agent, offer in situation.run.offers.items() if agent in situation.eligible and offer
    }
    name = min(offers, key=lambda agent: (-offers[agent], served.get(agent, 0), agent), default=None)
    return _one(name, "volunteer", "nobody offered: turn(offer=0.8) volunteers")


def interest(situation: Situation) -> Chosen:
    """Chooses whose filters match most of what others changed; among equals, who had no turn for longest.

    Before the first round, when nothing has changed yet, the run's order decides.
    """
    served = situation.served()
    rated: dict[str, int] = {}
    for agent in situation.eligible:
        takes_part = situation.participants.get(agent)
        filters = [parse_event_filter(dict(one)) for one in (takes_part.interests if takes_part else ())]
        rated[agent] = sum(
            any(one.matches(event, agent) for one in filters)
            for event in situation.news
            if event.agent != agent
        )
    if situation.eligible and situation.run.round and not any(rated.values()):
        return Chosen({}, "interest", reason="nothing changed that interests anybody")
    name = min(rated, key=lambda agent: (-rated[agent], served.get(agent, 0)), default=None)
    return _one(name, "interest", NOBODY)


BUILT_IN: Final[Mapping[str, Callable[[Situation], Chosen]]] = {
    "round-robin": round_robin,
    "interest": interest,
    "volunteer": volunteer,
    "choreography": choreography,
}


async def _no_events(after: int, limit: int) -> Sequence[Event]:
    return ()


def _of_run_alone(strategy: Callable[[Situation], Chosen]) -> AtOnce:
    return lambda run, eligible: strategy(
        Situation(run=run, eligible=eligible, participants={}, news=(), events=_no_events)
    )


ONE_BY_ONE: Final = frozenset({"round-robin", "volunteer", "interest"})
"""Those of them that give one agent a turn in each round."""
UNSEEING: Final[Mapping[str, AtOnce]] = {
    name: _of_run_alone(BUILT_IN[name]) for name in ("round-robin", "volunteer", "choreography")
}
"""Strategies that look neither at participants nor at events."""
