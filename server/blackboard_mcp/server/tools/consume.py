"""The tool `consume` of the set `messages`: several agents share a group's events, each event going to one of
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, get_args

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.groups import (
    LEASE_SECONDS,
    MAX_TAKEN,
    MAX_WHY,
    GroupState,
    Taken,
    Turn,
    parse_handle,
)
from blackboard_mcp.protocols.late_models import group_wire
from pydantic import Field, WithJsonSchema

from ..access.needs import TOOLS
from ..answers.rendering import Rendering
from ..input.posts import Seconds, check_text
from ..text.lines import filter_line, one_line, word
from ..usecases.groups import RELEASED, Consumers, Work
from .tool import Answer, Caller, ToolSet

WAIT_SECONDS = 25.0
_SHOWN_WHY = 160

Op = Literal["take", "extend", "release", "dead", "retry", "drop", "set", "end"]
Name = Annotated[str, Field(max_length=64)]
HandleText = Annotated[str, Field(max_length=24)]
HandleList = Annotated[list[HandleText], Field(max_length=MAX_TAKEN)]
Failed = Annotated[
    dict[HandleText, Annotated[str, Field(max_length=MAX_WHY)]],
    Field(max_length=MAX_TAKEN),
    WithJsonSchema({"type": "object", "maxProperties": MAX_TAKEN, "description": "id: why"}),
]
Filter = Annotated[dict[str, Any], Field(max_length=16)]
Limit = Annotated[int, Field(ge=0, le=MAX_TAKEN), WithJsonSchema({"type": "integer"})]
Lease = Annotated[float, Field(ge=1, le=3_600), WithJsonSchema({"type": "number"})]
OpName = Annotated[Op, WithJsonSchema({"type": "string", "maxLength": 8})]


class ConsumeTool:
    """The tool with which agents work off the events of consumer groups."""

    def __init__(self, consumers: Consumers, rendering: Rendering) -> None:
        self._consumers = consumers
        self._say = rendering

    def register(self, tools: ToolSet) -> None:
        """Adds the tool `consume`."""
        tools.add(
            self.consume,
            name="consume",
            title="Share work",
            description=(
                "For programs that work off events (agents use wait): each event of a group to one, to another "
                "unless acked in lease_seconds. One call acks and takes. filter makes a group."
            ),
            needs=TOOLS["consume"],
            output=lambda: group_wire.ConsumeAnswer,
            ends_with_client=True,
        )

    async def consume(
        self,
        caller: Caller,
        group: Name | None = None,
        ack: HandleList | None = None,
        fail: Failed | None = None,
        limit: Limit | None = None,
        seconds: Seconds | None = None,
        lease_seconds: Lease | None = None,
        filter: Filter | None = None,
        op: OpName | None = None,
        ids: HandleList | None = None,
        board: Name | None = None,
    ) -> Answer:
        """Takes and acknowledges events of a group, or carries out `op`. Without arguments it lists the
        groups.
        """
        given: dict[str, Any] = {
            "ack": ack,
            "fail": fail,
            "limit": limit,
            "seconds": seconds,
            "lease_seconds": lease_seconds,
            "filter": filter,
            "ids": ids,
        }
        if group is None:
            if named := [name for name, value in {**given, "op": op}.items() if value is not None]:
                raise InvalidInput(
                    f"consume takes {', '.join(named)} with group. Nothing was changed; without arguments it lists "
                    "the groups."
                )
            return await self._list(caller.agent, board)
        does: Op = op or "take"
        _check_together(does, given)
        match does:
            case "take" | "extend" | "release":
                return await self._take(caller, board, group, does, given)
            case "dead":
                return await self._dead(caller.agent, board, group, ids)
            case "set":
                changed = await self._consumers.change(
                    caller.agent, board, group, filter_=filter, once_key=caller.once_key
                )
                _, seq = await self._consumers.groups(caller.agent, board)
                text = f"group {changed.name} hands out {filter_line(changed.filter)} from here on"
            case "end":
                seq = await self._consumers.end(caller.agent, board, group, once_key=caller.once_key)
                text = f"ended group {group}"
            case _:
                handles = [parse_handle(handle) for handle in ids or ()]
                work = self._consumers.retry if does == "retry" else self._consumers.drop
                seq = await work(caller.agent, board, group, handles, once_key=caller.once_key)
                done = "wait to be handed out again" if does == "retry" else "are dropped"
                text = f"{len(handles)} dead letters of {group} {done}"
        return Answer(
            self._say.with_footer(text, seq),
            lambda: group_wire.GroupDoneAnswer(group=group, done=does, handles=ids or [], seq=seq),
        )

    async def _take(
        self, caller: Caller, board: str | None, group: str, op: Op, given: dict[str, Any]
    ) -> Answer:
        for why in (given["fail"] or {}).values():
            check_text(why)
        named = tuple(map(parse_handle, given["ids"] or ()))
        turn = Turn(
            ack=tuple(map(parse_handle, given["ack"] or ())),
            fail={parse_handle(handle): why for handle, why in (given["fail"] or {}).items()},
            release=dict.fromkeys(named, RELEASED) if op == "release" else {},
            extend=named if op == "extend" else (),
            limit=_limit(given),
            lease_seconds=LEASE_SECONDS if given["lease_seconds"] is None else given["lease_seconds"],
            filter=given["filter"],
        )
        work = await self._consumers.take(
            caller.agent,
            board,
            group,
            turn,
            seconds=WAIT_SECONDS if given["seconds"] is None else given["seconds"],
            report=caller.report,
            once_key=caller.once_key,
        )
        taken = work.taken
        return Answer(
            lambda: self._say.with_footer(
                "\n".join(self._work(group, turn, work, self._by(board))), taken.seq, work.attention
            ),
            lambda: group_wire.WorkAnswer(
                group=group,
                deliveries=[group_wire.wire_delivery(delivery) for delivery in taken.deliveries],
                in_flight=taken.in_flight,
                waiting=taken.waiting,
                dead=taken.dead,
                backlog=taken.backlog,
                more=taken.more,
                stalled=taken.stalled,
                made_after=taken.made_after,
                seq=taken.seq,
            ),
        )

    def _by(self, board: str | None) -> Rendering:
        return self._say.by(self._consumers.tokenizer(board))

    def _work(self, group: str, turn: Turn, work: Work, say: Rendering) -> list[str]:
        """Returns a line for each delivered event with its handle, then the call to make next."""
        taken = work.taken
        lines = []
        if taken.made_after is not None:
            lines.append(
                f"made group {group}: hands out {filter_line(turn.filter or {})} after seq {taken.made_after}, "
                "nothing before"
            )
        for delivery in taken.deliveries:
            event = say.event(delivery.event, work.texts).split(" ", 2)[2]
            line = f"{delivery.handle} {event}"
            if delivery.why:
                line += f" (attempt {delivery.handle.attempt}; before: {one_line(delivery.why)[:_SHOWN_WHY]})"
            lines.append(line)
        held = _standing(taken)
        if taken.deliveries:
            handles = ", ".join(f'"{delivery.handle}"' for delivery in taken.deliveries)
            until = f"{taken.deliveries[0].until:%H:%M:%SZ}"
            lines.append(f'yours until {until}; then consume(group="{group}", ack=[{handles}]) · {held}')
        elif turn.limit:
            lines.append(f"nothing to do: {taken.stalled or held}")
        else:
            lines.append(held)
        if taken.dead:
            lines[-1] += f' (consume(group="{group}", op="dead"))'
        return lines

    async def _list(self, agent: str, board: str | None) -> Answer:
        states, seq = await self._consumers.groups(agent, board)
        lines = []
        for state in states:
            lines.append(
                f"{state.group.name} by {word(state.group.created_by)}: {_standing(state)}; "
                f"{filter_line(state.group.filter)}"
            )
        text = "\n".join(lines) or 'no groups: consume(group="…", filter={…}) makes one'
        return Answer(
            self._say.with_footer(text, seq),
            lambda: group_wire.GroupsAnswer(
                groups=[group_wire.wire_group(state) for state in states], seq=seq
            ),
        )

    async def _dead(self, agent: str, board: str | None, group: str, ids: Sequence[str] | None) -> Answer:
        after = parse_handle(ids[-1]).seq if ids else 0
        dead = await self._consumers.dead_letters(agent, board, group, after=after)
        lines = []
        for letter in dead.letters:
            event = self._by(board).event(letter.event, dead.texts).split(" ", 2)[2]
            why = one_line(letter.why)[:_SHOWN_WHY]
            lines.append(f"{letter.handle} {event} ({word(letter.worker)}: {why})")
        if lines:
            lines.append(f'consume(group="{group}", op="retry", ids=[…]) or op="drop"')
        if len(dead.letters) == MAX_TAKEN:
            lines.append(f'more: consume(group="{group}", op="dead", ids=["{dead.letters[-1].handle}"])')
        text = "\n".join(lines) or "no dead letters"
        return Answer(
            self._say.with_footer(text, dead.seq),
            lambda: group_wire.DeadLettersAnswer(
                group=group, dead=[group_wire.wire_dead(x) for x in dead.letters], seq=dead.seq
            ),
        )


def _standing(group: Taken | GroupState) -> str:
    """Returns how many events of a group are where: `11 left to hand out, 1 in flight`."""
    parts = [f"{group.backlog}{'+' if group.more else ''} left to hand out", f"{group.in_flight} in flight"]
    if group.waiting:
        parts.append(f"{group.waiting} to hand out again")
    if group.dead:
        parts.append(f"{group.dead} dead")
    return ", ".join(parts)


def _limit(given: dict[str, Any]) -> int:
    """Returns how many events the call asks for: 1 by default, 0 for a call that only extends or releases."""
    if given["limit"] is not None:
        return int(given["limit"])
    return 0 if given["ids"] else 1


_GO_WITH: dict[str, tuple[str, ...]] = {
    "take": ("ack", "fail", "limit", "seconds", "lease_seconds", "filter"),
    "extend": ("ids", "lease_seconds"),
    "release": ("ids",),
    "dead": ("ids",),
    "retry": ("ids",),
    "drop": ("ids",),
    "set": ("filter",),
    "end": (),
}
assert _GO_WITH.keys() == set(get_args(Op))


def _check_together(op: Op, given: dict[str, Any]) -> None:
    wrong = [name for name, value in given.items() if value is not None and name not in (*_GO_WITH[op], "op")]
    if wrong:
        takes = ", ".join(_GO_WITH[op]) or "nothing else"
        raise InvalidInput(f'op="{op}" takes {takes}, and not {", ".join(wrong)}. Nothing was changed.')
    needed = {"extend": "ids", "release": "ids", "retry": "ids", "drop": "ids", "set": "filter"}.get(op)
    if needed and (given[needed] is None or given[needed] == []):
        raise InvalidInput(f'op="{op}" needs {needed}. Nothing was changed.')
