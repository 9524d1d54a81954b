"""The tool `consume` as a program in the same process calls it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.group_wire import (
    DeadLettersAnswer,
    GroupDoneAnswer,
    GroupsAnswer,
    WorkAnswer,
    wire_dead,
    wire_delivery,
    wire_group,
)
from blackboard_mcp.protocols.groups import LEASE_SECONDS, MAX_TAKEN, MAX_WHY, Turn, parse_handle
from pydantic import Field

from ..compose import Installation
from ..input.posts import Seconds, check_text
from ..usecases.groups import RELEASED, Consumers
from .caller import By

Name = Annotated[str, Field(max_length=64)]
HandleText = Annotated[str, Field(max_length=24)]
Handles = Annotated[list[HandleText], Field(max_length=MAX_TAKEN)]
Failed = Annotated[dict[HandleText, Annotated[str, Field(max_length=MAX_WHY)]], Field(max_length=MAX_TAKEN)]


class LocalGroups:
    """Turns in consumer groups, for any agent and board of an installation."""

    def __init__(self, opened: Installation) -> None:
        self._consumers = Consumers(opened.blackboard)

    async def consume(
        self,
        caller: By,
        group: Name | None = None,
        ack: Handles | None = None,
        fail: Failed | None = None,
        limit: Annotated[int, Field(ge=0, le=MAX_TAKEN)] = 1,
        seconds: Seconds = 0.0,
        lease_seconds: Annotated[float, Field(ge=1, le=3_600)] = LEASE_SECONDS,
        filter: Annotated[dict[str, Any], Field(max_length=16)] | None = None,
        op: Literal["take", "extend", "release", "dead", "retry", "drop", "end"] = "take",
        ids: Handles | None = None,
    ) -> WorkAnswer | GroupsAnswer | DeadLettersAnswer | GroupDoneAnswer:
        agent, board, consumers = caller.agent, caller.board, self._consumers
        if group is None:
            states, seq = await consumers.groups(agent, board)
            return GroupsAnswer(groups=[wire_group(state) for state in states], seq=seq)
        handles = tuple(map(parse_handle, ids or ()))
        if op in ("retry", "drop") and not handles:
            raise InvalidInput(f"{op} needs the handles of dead letters. Nothing was changed.")
        match op:
            case "take" | "extend" | "release":
                for why in (fail or {}).values():
                    check_text(why)
                turn = Turn(
                    ack=tuple(map(parse_handle, ack or ())),
                    fail={parse_handle(handle): why for handle, why in (fail or {}).items()},
                    release=dict.fromkeys(handles, RELEASED) if op == "release" else {},
                    extend=handles if op == "extend" else (),
                    limit=limit if op == "take" else 0,
                    lease_seconds=lease_seconds,
                    filter=filter,
                )
                taken = (
                    await consumers.take(agent, board, group, turn, seconds=seconds, once_key=caller.once)
                ).taken
                return WorkAnswer(
                    group=group,
                    deliveries=[wire_delivery(delivery) for delivery in taken.deliveries],
                    in_flight=taken.in_flight,
                    waiting=taken.waiting,
                    dead=taken.dead,
                    backlog=taken.backlog,
                    more=taken.more,
                    stalled=taken.stalled,
                    made_after=taken.made_after,
                    seq=taken.seq,
                )
            case "dead":
                after = handles[-1].seq if handles else 0
                dead = await consumers.dead_letters(agent, board, group, after=after)
                letters = [wire_dead(letter) for letter in dead.letters]
                return DeadLettersAnswer(group=group, dead=letters, seq=dead.seq)
            case "end":
                seq = await consumers.end(agent, board, group, once_key=caller.once)
            case "retry":
                seq = await consumers.retry(agent, board, group, handles, once_key=caller.once)
            case "drop":
                seq = await consumers.drop(agent, board, group, handles, once_key=caller.once)
        return GroupDoneAnswer(group=group, done=op, handles=ids or [], seq=seq)
