"""The strategies of a server: the built-in ones, and classes that the operator named at launch."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.events import Event
from blackboard_mcp.protocols.runs import MAX_INSTRUCTION, Chosen
from blackboard_mcp.protocols.strategies import COORDINATOR, MAX_SWITCHES, MODEL, STRATEGY_SECONDS, Situation
from cachetools import FIFOCache

from ..input.arguments import is_clean_text
from ..plugins.bounded import Bounded, PolicyFailed
from ..plugins.loading import NAMED, load_instance
from .built_in import BUILT_IN, round_robin

logger = logging.getLogger(__name__)

MAX_STATE: Final = 10_000
"""Most characters of a strategy's own state as JSON."""
_REASON: Final = 300
_PLACE: Final = " delegate"
"""The key in a run's state under which the server keeps whom a strategy named in its place."""
_BOARDS: Final = 1_000


class Strategies:
    """Strategies that runs may name in this process. `model` tells whether it has an endpoint for `llm`."""

    def __init__(self, named: Iterable[str] = (), *, model: bool = False) -> None:
        """Imports and instantiates the strategies that `named` lists as `NAME=package.module:Class`.

        `named` comes from the launch configuration alone, because the classes are run.

        Raises:
            InvalidInput: a name or path is not valid or given twice, or a class cannot be instantiated or has no
                `choose`.
        """
        self._model = model
        self._own: dict[str, Any] = {}
        self._bounded: FIFOCache[tuple[str, str], Bounded] = FIFOCache(_BOARDS)
        for said in named:
            match = NAMED.match(said)
            if match is None:
                raise InvalidInput(
                    f"strategy: '{said[:80]}' is not of the form NAME=package.module:Class, the name in a-z 0-9 -."
                )
            name = match["name"]
            if name in self.names or name == MODEL:
                raise InvalidInput(f"There is a strategy '{name}' already; give yours another name.")
            self._own[name] = load_instance("Strategy", name, match["path"], ("choose",))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all strategies that a run may have here."""
        return (*BUILT_IN, COORDINATOR, *((MODEL,) if self._model else ()), *self._own)

    def check(self, name: str, argument: str) -> None:
        """Checks that a text names a strategy; `argument` is where it was given.

        Raises:
            InvalidInput: it does not.
        """
        if name in self.names:
            return
        why = (
            "it needs an endpoint, which the operator names at launch (summariser, summary_url, summary_model)"
            if name == MODEL
            else f"there are {', '.join(self.names)}"
        )
        raise InvalidInput(
            f"{argument} is '{name[:40]}': {why}. Nothing was changed.", strategies=list(self.names)
        )

    def is_own(self, name: str) -> bool:
        """Tells whether the operator named this strategy at launch, so that asking it may take long."""
        return name in self._own

    async def choose(self, board: str, name: str, situation: Situation) -> Chosen:
        """Returns what a strategy chooses, cut to who is eligible; where it fails, what the run's fallback does."""
        if name in BUILT_IN:
            return BUILT_IN[name](situation)
        try:
            if name not in self._own:
                raise PolicyFailed("is not known to this server")
            asked = replace(situation, run=replace(situation.run, strategy_state=_own_state(situation)))
            chosen = await self._asked(board, name, asked)
            return await self._delegated(board, name, situation, chosen) if chosen.delegate else chosen
        except PolicyFailed as error:
            logger.warning("strategy '%s' of %s on %s %s", name, situation.run.id, board, error)
            fallback = BUILT_IN.get(situation.run.fallback, round_robin)(situation)
            return replace(fallback, by=f"{fallback.by} instead of {name}, which {error}"[:_REASON])

    async def _delegated(self, board: str, name: str, situation: Situation, chosen: Chosen) -> Chosen:
        """Returns what the strategy chooses that another named in its place.

        After `MAX_SWITCHES` changes in a run the last one named stays. Who was named, and how often that changed, is
        kept in the run beside the strategy's own state.

        Raises:
            PolicyFailed: there is no such strategy, or it names another in turn.
        """
        kept = situation.run.strategy_state.get(_PLACE) or {"strategy": "", "switches": 0}
        wanted, switches = chosen.delegate, int(kept["switches"])
        reason = chosen.reason
        if wanted != kept["strategy"] and kept["strategy"]:
            if switches >= MAX_SWITCHES:
                wanted = str(kept["strategy"])
                reason = f"the {MAX_SWITCHES} changes of strategy that a run may have were made"
            else:
                switches += 1
        if wanted == name or not (wanted in BUILT_IN or wanted in self._own):
            raise PolicyFailed(f"named {wanted[:40]!r}, which cannot choose in its place")
        if wanted in BUILT_IN:
            made = BUILT_IN[wanted](situation)
        else:
            made = await self._asked(board, wanted, situation)
            if made.delegate:
                raise PolicyFailed(f"named {wanted}, which named another")
        state = dict(_own_state(situation) if chosen.state is None else chosen.state)
        return replace(
            made,
            by=f"{wanted}, named by {name}"[:_REASON],
            reason=(reason if made.agents else made.reason)[:_REASON],
            state={**state, _PLACE: {"strategy": wanted, "switches": switches}},
        )

    async def _asked(self, board: str, name: str, situation: Situation) -> Chosen:
        bounded = self._bounded.setdefault((board, name), Bounded(name, STRATEGY_SECONDS))
        loop, read = asyncio.get_running_loop(), situation.events

        async def events(after: int, limit: int) -> Sequence[Event]:
            """Reads the log on the server's loop, since the strategy runs on a loop of its own."""
            asked = asyncio.run_coroutine_threadsafe(_coroutine(read, after, limit), loop)
            return await asyncio.wrap_future(asked)

        def think() -> Chosen:
            chosen = self._own[name].choose(replace(situation, events=events))
            return _checked(
                asyncio.run(_awaited(chosen)) if inspect.isawaitable(chosen) else chosen, name, situation
            )

        return await bounded.ask(think)


def _own_state(situation: Situation) -> dict[str, Any]:
    """Returns what a strategy keeps in the run, without what the server keeps about it."""
    return {key: value for key, value in situation.run.strategy_state.items() if key != _PLACE}


async def _coroutine(read: Any, after: int, limit: int) -> Sequence[Event]:
    found: Sequence[Event] = await read(after, limit)
    return found


async def _awaited(chosen: Any) -> Any:
    return await chosen


def _checked(chosen: Any, name: str, situation: Situation) -> Chosen:
    """Returns what an operator's strategy answered, cut to who is eligible and what is ready.

    Raises:
        TypeError: it is no choice.
        ValueError: its state is too long or no JSON, or a text of it cannot be stored.
    """
    if not isinstance(chosen, Chosen) or not (
        isinstance(chosen.reason, str) and isinstance(chosen.delegate, str)
    ):
        raise TypeError("choose returns a Chosen")
    state = None
    if chosen.state is not None:
        kept = json.dumps(dict(chosen.state), allow_nan=False)
        if len(kept) > MAX_STATE:
            raise ValueError("the state is too long")
        state = json.loads(kept)
        if not is_clean_text(json.dumps(state, ensure_ascii=False)):
            raise ValueError("the state holds half of a surrogate pair")
    agents = {
        agent: str(chosen.agents[agent])[:MAX_INSTRUCTION]
        for agent in chosen.agents
        if agent in situation.eligible
    }
    if not all(map(is_clean_text, (chosen.reason, *agents.values()))):
        raise ValueError("a text holds a NUL character or half of a surrogate pair")
    ready = {task.id for task in situation.tasks}
    focus = {agent: task for agent, task in chosen.focus.items() if agent in agents and task in ready}
    reason = chosen.reason[:_REASON]
    if chosen.agents and not agents:
        reason = f"{name} named nobody who is eligible"
    return replace(
        chosen, agents=agents, by=name, end=bool(chosen.end), reason=reason, focus=focus, state=state
    )
