"""Strategies: they choose which agents have the next turns of a run. Operators name their own at launch.

A class of your own needs no more than `choose`, which may be a coroutine; see the how-to on runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol

from .agenda import Task
from .events import Event
from .participants import Participant
from .runs import Chosen, Run
from .values import dataclass

COORDINATOR: Final = "coordinator"
"""The strategy of which an agent, the run's coordinator, decides."""
ROUND_ROBIN: Final = "round-robin"
"""The strategy that goes on in place of a coordinator that failed or has left."""
MODEL: Final = "llm"
"""The strategy of which a language model behind the server's endpoint decides."""
MAX_SWITCHES: Final = 10
"""How often in a run a strategy may put another in the place of the one that it put there; then that one stays."""
STRATEGY_SECONDS: Final = 30.0
"""Seconds that a strategy may take; then the run's fallback chooses that round."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What a strategy looks at: a run, who may have a turn, who takes part, events since the last round, and tasks.

    `eligible` are agents by name, `participants` what those that take part say about themselves. `news` are at most
    500 events, in order. `events(after, limit)` reads any part of the board's log: at most `limit` events after a
    sequence. Private items of others are in neither. `tasks` are those of the agenda that are ready, best first, at
    most 100, for a strategy that an operator named.
    """

    run: Run
    eligible: tuple[str, ...]
    participants: Mapping[str, Participant]
    news: Sequence[Event]
    events: Callable[[int, int], Awaitable[Sequence[Event]]]
    tasks: Sequence[Task] = ()

    def served(self) -> dict[str, int]:
        """Returns the last round in which each agent had a turn, of those that had one."""
        last: dict[str, int] = {}
        for turn in (*self.run.turns, *self.run.last):
            if turn.kind == "contribute":
                last[turn.agent] = max(last.get(turn.agent, 0), turn.round)
        return last


class Strategy(Protocol):
    """Chooses who contributes next.

    A strategy of strategies names another as `delegate`, by what the log says of earlier rounds: each `turn.given` says
    by which strategy the round was chosen and why.

    Agents of a choice that are not eligible are left out. Where `choose` raises, or takes longer than
    `STRATEGY_SECONDS`, the run's fallback chooses that round, and its turns say so.
    """

    def choose(self, situation: Situation) -> Chosen | Awaitable[Chosen]:
        """Returns the agents of the next round with an instruction for each, or the end of the rounds."""
        ...
