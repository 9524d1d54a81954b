"""Runs, as calls for programs: starting one, taking turns, deciding, answering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from blackboard_mcp.protocols.late_models import run_wire
from blackboard_mcp.protocols.runs import ROUNDS

from .calls import Calls, listed, mapped
from .durable import POLL_SECONDS

if TYPE_CHECKING:
    from blackboard_mcp.protocols.run_wire import FinalAnswer, TurnAnswer


class TakesTurns(Calls):
    """Calls to solve a problem in rounds. A server needs `--tools core,run` for them."""

    async def start_run(
        self,
        problem: str,
        agents: Sequence[str] = (),
        *,
        strategy: str | None = None,
        fallback: str = "round-robin",
        max_rounds: int = ROUNDS,
        budget: Mapping[str, float] | None = None,
        coordinator: str | None = None,
        decider: str | None = None,
        coordinate: str = "",
        decide: str = "",
        sealed: bool = False,
        idle_seconds: float = 0.0,
        idempotency_key: str | None = None,
    ) -> TurnAnswer:
        """Starts a run on a problem. Without `agents` whoever takes part has turns.

        `budget` has `steps`, `tokens`, `cost` and `seconds`; what is left out has no bound. `strategy` is
        `coordinator` where there is one, else `round-robin`. `coordinate` and `decide` are instructions.

        Raises:
            InvalidInput: a value is not allowed.
            Refused: the board has a run that is not over, or is closed.
        """
        start = {
            "problem": problem,
            "agents": listed(agents) or None,
            "strategy": strategy,
            "fallback": fallback,
            "max_rounds": max_rounds,
            "budget": mapped(budget),
            "coordinator": coordinator,
            "decider": decider,
            "coordinate": coordinate,
            "decide": decide,
            "sealed": sealed,
            "idle_seconds": idle_seconds,
        }
        given = {"start": {name: value for name, value in start.items() if value is not None}}
        return await self._call("turn", given, run_wire.TurnAnswer, once=idempotency_key)

    async def turn(
        self,
        text: str | None = None,
        *,
        decision: Mapping[str, Any] | str | None = None,
        offer: float | None = None,
        lease: int | None = None,
        usage: Mapping[str, Any] | None = None,
        run: str | None = None,
        seconds: float = POLL_SECONDS,
        idempotency_key: str | None = None,
    ) -> TurnAnswer:
        """Ends the agent's turn with a contribution or decision, if one is given; then waits for its next turn.

        It waits up to `seconds` (0 to 50); `yours` of the answer says whether the agent has a turn. `offer` (0 to 1)
        volunteers for the next round. `usage` is what the turn cost, `tokens` and `cost`.

        Raises:
            Conflict: the agent has no turn under this lease.
            Refused: the run is over.
            UnknownReference: there is no such run.
        """
        given = {
            "text": text,
            "decision": dict(decision) if isinstance(decision, Mapping) else decision,
            "offer": offer,
            "lease": lease,
            "usage": mapped(usage),
            "run": run,
            "seconds": seconds,
        }
        return await self._call("turn", given, run_wire.TurnAnswer, once=idempotency_key)

    async def finalize(
        self,
        text: str | None = None,
        *,
        cites: Sequence[str] = (),
        run: str | None = None,
        idempotency_key: str | None = None,
    ) -> FinalAnswer:
        """Posts the answer of a run and finishes it; without a text, returns what the answer would be now.

        Raises:
            Refused: the agent is not the decider, or the run is finished.
            UnknownReference: there is no such run, or no such item to cite.
        """
        given = {"text": text, "cites": listed(cites) or None, "run": run}
        return await self._call("finalize", given, run_wire.FinalAnswer, once=idempotency_key)
