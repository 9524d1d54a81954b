"""Planning tasks and taking them, as calls for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from blackboard_mcp.protocols.agenda import SettleOp
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.late_models import plan_wire
from blackboard_mcp.protocols.stages import StageOp

from .calls import Calls, listed, mapped, maps, needed
from .durable import POLL_SECONDS

if TYPE_CHECKING:
    from blackboard_mcp.protocols.plan_wire import ClaimAnswer, PlanAnswer, StageAnswer, WireTask


class Plans(Calls):
    """Calls to plan tasks, to take them and to end them. A server needs `--tools core,plan` for them."""

    async def plan(
        self,
        items: Sequence[Mapping[str, Any]] = (),
        *,
        cancel: Sequence[str] = (),
        why: str = "",
        budget: Mapping[str, float] | None = None,
        idempotency_key: str | None = None,
    ) -> PlanAnswer:
        """Plans tasks, changes those that have an `id`, and cancels others, all or nothing; returns these tasks.

        An item has the fields of the tool `plan`, such as `{"title": "build", "after": ["$1"]}`, where `$1` is
        the first item of the call. `why` is the reason of changes and cancellations. `budget` sets what all tasks of
        the board may use, `steps`, `tokens`, `cost` and `seconds`; what is left out has no bound.

        Raises:
            InvalidInput: there is nothing to do, a value is not allowed, or tasks come after each other in a circle.
            UnknownReference: a named task does not exist.
            Refused: the agent may not, or other tasks come after one that it cancels.
            QuotaExceeded: too many tasks are open.
        """
        if not items and not cancel and budget is None:
            raise InvalidInput("Give items to plan, tasks to cancel, or a budget. Nothing was changed.")
        given = {
            "items": maps(items) or None,
            "cancel": listed(cancel) or None,
            "why": why or None,
            "budget": mapped(budget),
        }
        return await self._call("plan", given, plan_wire.PlanAnswer, once=idempotency_key)

    async def agenda(self) -> PlanAnswer:
        """Returns tasks that are not over, ready ones first, with those that the agent holds or could confirm."""
        return await self._call("plan", {}, plan_wire.PlanAnswer)

    async def task(self, id: str) -> WireTask:
        """Returns one task, over or not.

        Raises:
            UnknownReference: there is no such task.
        """
        return (await self._call("plan", {"why": needed(id, "id")}, plan_wire.PlanAnswer)).items[0]

    async def stages(self) -> StageAnswer:
        """Returns the stages and milestones of the board, each after its parent."""
        return await self._call("stage", {}, plan_wire.StageAnswer)

    async def define_stages(
        self, stages: Sequence[Mapping[str, Any]], *, idempotency_key: str | None = None
    ) -> StageAnswer:
        """Defines stages and milestones, all or nothing, and returns them.

        A stage has the fields of the tool `stage`, such as `{"title": "build", "entry": "done(T-1)"}`; its `parent` may
        be `$1`, the first of the call.

        Raises:
            InvalidInput: a condition cannot be read, or a value is not allowed.
            UnknownReference: a parent, or a task or stage in a condition, does not exist.
            Refused: the parent is over, or another stage has the title.
            QuotaExceeded: there are too many stages.
        """
        given = {"define": maps(stages)}
        return await self._call("stage", given, plan_wire.StageAnswer, once=idempotency_key)

    async def move_stage(
        self, id: str, op: StageOp, *, why: str = "", idempotency_key: str | None = None
    ) -> StageAnswer:
        """Starts, suspends, resumes or terminates a stage; returns what moved, it first.

        Raises:
            UnknownReference: there is no such stage.
            Refused: its state, its parent's or the agent does not allow it.
        """
        given = {"id": id, "op": op, "why": why or None}
        return await self._call("stage", given, plan_wire.StageAnswer, once=idempotency_key)

    async def claim(
        self,
        id: str | None = None,
        *,
        skills: Sequence[str] | None = None,
        paths: Sequence[str] = (),
        seconds: float = POLL_SECONDS,
        lease_seconds: float | None = None,
        idempotency_key: str | None = None,
    ) -> ClaimAnswer | None:
        """Takes the named task, or the best that is ready; returns `None` if none was within `seconds` (0 to 50).

        The agent holds the task until `lease_seconds` (300) after its last call. `skills` are in addition to those
        that it offers. `paths` are reserved as well; without an `id` they are all that is taken.

        Raises:
            Conflict: another agent holds the task or a path.
            Refused: the named task is not ready, or is for others.
            UnknownReference: there is no such task.
        """
        given = {
            "id": id,
            "skills": listed(skills),
            "paths": listed(paths) or None,
            "seconds": None if id or paths else seconds,
            "lease_seconds": lease_seconds,
        }
        told = await self._call("claim", given, plan_wire.ClaimAnswer, once=idempotency_key)
        return None if told.lease is None else told

    async def settle(
        self,
        op: SettleOp,
        id: str | None = None,
        text: str = "",
        *,
        lease: int | None = None,
        ok: bool | None = None,
        cites: Sequence[str] = (),
        paths: Sequence[str] = (),
        lease_seconds: float | None = None,
        usage: Mapping[str, float] | None = None,
        idempotency_key: str | None = None,
    ) -> ClaimAnswer:
        """Ends the agent's work on a task, extends its lease, or confirms another agent's; returns the task.

        `op` is `done`, `fail`, `extend`, `release` or `verify`, as the tool `claim` has them. `lease` is the number
        that `claim` returned; without it the agent's own lease is meant. `usage` is what the attempt used, `tokens` and
        `cost`, with `done`, `fail` and `release`.

        Raises:
            Conflict: the lease is not valid any more.
            Refused: the state of the task does not allow it.
        """
        given = {
            "op": needed(op, "op"),
            "id": id,
            "text": text or None,
            "lease": lease,
            "ok": ok,
            "cites": listed(cites) or None,
            "paths": listed(paths) or None,
            "lease_seconds": lease_seconds,
            "usage": mapped(usage),
        }
        return await self._call("claim", given, plan_wire.ClaimAnswer, once=idempotency_key)
