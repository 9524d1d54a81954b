"""The tools of the set `run`: agents take part on a board, take turns in its runs, and answer them."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from blackboard_mcp.protocols.asking import MAX_SKILLS
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.items import MAX_TEXT, parse_ref
from blackboard_mcp.protocols.late_models import run_wire
from blackboard_mcp.protocols.participants import MAX_INTERESTS, MAX_NOTE, MAX_ROLE, MAX_SPOKEN
from blackboard_mcp.protocols.runs import (
    MAX_INSTRUCTION,
    MAX_PROBLEM,
    MAX_ROUNDS,
    MAX_RUN_AGENTS,
    ROUNDS,
    Budget,
    NewRun,
    RunTurn,
    Usage,
)
from blackboard_mcp.protocols.runs import Final as Finalized
from blackboard_mcp.protocols.tokens import CountedText
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from ..access.needs import TOOLS
from ..answers.participants import left_lines, roster_lines
from ..answers.rendering import Rendering
from ..answers.runs import final_lines, standing_lines
from ..input.arguments import Arguments
from ..input.posts import ONE_OR_MORE, Seconds
from ..strategies.decisions import MAX_DECISION
from ..text.lines import one_line
from ..usecases.participants import Participants, Roster
from ..usecases.runs import Act, Runs, Standing, default_strategy
from .tool import WAITING_ARGUMENT, Answer, Caller, ToolSet

WAIT_SECONDS: Final = 25.0

Name = Annotated[str, Field(max_length=64)]
Role = Annotated[str, Field(max_length=MAX_ROLE)]
Skills = Annotated[list[Name], Field(max_length=MAX_SKILLS)]
Filter = Annotated[dict[str, Any], Field(max_length=16)]
Interests = Annotated[list[Filter], Field(max_length=MAX_INTERESTS, description="event filters")]
Spoken = Annotated[list[Name], Field(max_length=MAX_SPOKEN)]
Leave = Annotated[
    bool | Annotated[str, Field(max_length=MAX_NOTE)],
    WithJsonSchema({"type": "string", "maxLength": MAX_NOTE, "description": "true or a note"}),
]
_SPELLED = {"true": True, "false": False}
Words = Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
Decided = Annotated[
    Annotated[dict[str, Any], Field(max_length=16)] | Annotated[str, Field(max_length=MAX_DECISION)],
    WithJsonSchema({"type": "object", "description": "{terminate, next_agent, instruction}"}),
]
Lease = Annotated[int, Field(ge=0, le=10**15), WithJsonSchema({"type": "integer"})]
Used = Annotated[
    dict[str, Any], Field(max_length=4), WithJsonSchema({"type": "object", "description": "{tokens, cost}"})
]
Offer = Annotated[
    float, Field(ge=0, le=1), WithJsonSchema({"type": "number", "description": "0-1 volunteers"})
]
Start = Annotated[
    dict[str, Any],
    Field(max_length=16),
    WithJsonSchema(
        {
            "type": "object",
            "description": "{problem, agents, strategy, max_rounds, budget, coordinator, decider, sealed}",
        }
    ),
]
RunId = Annotated[str, Field(max_length=16)]
ItemId = Annotated[str, Field(max_length=24)]
Cites = Annotated[list[ItemId], Field(max_length=100), ONE_OR_MORE]
_RUN: Final = re.compile(r"(?:run-)?([1-9][0-9]{0,8})\Z")
_ALONE: Final = ("text", "decision", "offer", "start")


class BudgetFields(BaseModel):
    """A budget as callers write it."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    steps: Annotated[int, Field(ge=0, le=10**9)] = 0
    tokens: Annotated[int, Field(ge=0, le=10**12)] = 0
    cost: Annotated[float, Field(ge=0, le=1e12)] = 0.0
    seconds: Annotated[float, Field(ge=0, le=1e9)] = 0.0


class StartFields(BaseModel):
    """A run as callers start it."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    problem: Annotated[str, Field(min_length=1, max_length=MAX_PROBLEM)]
    agents: Annotated[list[Name], Field(max_length=MAX_RUN_AGENTS), ONE_OR_MORE] = []
    strategy: Annotated[str, Field(max_length=32)] | None = None
    max_rounds: Annotated[int, Field(ge=1, le=MAX_ROUNDS)] = ROUNDS
    budget: BudgetFields = BudgetFields()
    coordinator: Name | None = None
    decider: Name | None = None
    sealed: bool = False
    fallback: Annotated[str, Field(max_length=32)] = "round-robin"
    coordinate: Annotated[str, Field(max_length=MAX_INSTRUCTION)] = ""
    decide: Annotated[str, Field(max_length=MAX_INSTRUCTION)] = ""
    idle_seconds: Annotated[float, Field(ge=0, le=1e9)] = 0.0


class UsageFields(BaseModel):
    """What a turn cost, as callers write it."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    tokens: Annotated[int, Field(ge=0, le=10**12)] = 0
    cost: Annotated[float, Field(ge=0, le=1e12)] = 0.0


class RunTools:
    """Tools with which agents take part, take turns and answer."""

    def __init__(self, participants: Participants, runs: Runs, rendering: Rendering) -> None:
        self._participants = participants
        self._runs = runs
        self._say = rendering
        self._start = Arguments("turn.start", StartFields)
        self._usage = Arguments("turn.usage", UsageFields)

    def register(self, tools: ToolSet) -> None:
        """Adds the tools `join`, `turn` and `finalize`."""
        tools.add(
            self.join,
            name="join",
            title="Take part",
            description="Take part, or change how. No arguments: who does.",
            needs=TOOLS["join"],
            output=lambda: run_wire.JoinAnswer,
        )
        tools.add(
            self.turn,
            name="turn",
            title="Take turns",
            description=(
                "Loop on this in a run: waits for your turn. text ends it and waits for the next. start opens a run."
            ),
            needs=TOOLS["turn"],
            output=lambda: run_wire.TurnAnswer,
            ends_with_client=True,
            quick=lambda given: given.get(WAITING_ARGUMENT) == 0,
        )
        tools.add(
            self.finalize,
            name="finalize",
            title="Answer a run",
            description="The run's answer, by its decider. Without text: what it would be.",
            needs=TOOLS["finalize"],
            output=lambda: run_wire.FinalAnswer,
        )

    async def join(
        self,
        caller: Caller,
        role: Role | None = None,
        skills: Skills | None = None,
        interests: Interests | None = None,
        protocols: Spoken | None = None,
        leave: Leave | None = None,
        board: Name | None = None,
    ) -> Answer:
        """Makes the caller take part, changes what it said, or ends its part. Without arguments it lists who
        takes part.
        """
        said = any(given is not None for given in (role, skills, interests, protocols))
        leaving = _SPELLED.get(leave.strip().lower(), leave) if isinstance(leave, str) else leave
        if leaving is not None and leaving is not False:
            if said:
                raise InvalidInput('join takes leave alone, as in join(leave="done"). Nothing was changed.')
            note = "" if leaving is True else leaving.strip()
            roster = await self._participants.leave(caller.agent, board, note, once_key=caller.once_key)
            return self._answer(roster, left_lines(roster))
        if not said:
            roster = await self._participants.roster(caller.agent, board)
        else:
            roster = await self._participants.join(
                caller.agent,
                board,
                role=role,
                skills=skills,
                interests=interests,
                protocols=protocols,
                once_key=caller.once_key,
            )
        return self._answer(roster, roster_lines(roster, self._say.now()))

    def _answer(self, roster: Roster, lines: list[str]) -> Answer:
        return Answer(
            self._say.with_footer("\n".join(lines), roster.seq, roster.attention),
            lambda: run_wire.JoinAnswer(
                you=None if roster.you is None else run_wire.wire_participant(roster.you),
                others=[run_wire.wire_participant(one) for one in roster.others],
                waived=list(roster.waived),
                released=list(roster.released),
                seq=roster.seq,
            ),
        )

    async def turn(
        self,
        caller: Caller,
        text: Words | None = None,
        decision: Decided | None = None,
        lease: Lease | None = None,
        usage: Used | None = None,
        offer: Offer | None = None,
        start: Start | None = None,
        run: RunId | None = None,
        seconds: Seconds | None = None,
        board: Name | None = None,
    ) -> Answer:
        """Starts a run, or does what the caller says in one, and waits for its turn."""
        given = [
            name
            for name, value in zip(_ALONE, (text, decision, offer, start), strict=True)
            if value is not None
        ]
        if len(given) > 1:
            raise InvalidInput(
                f"turn takes one of {', '.join(_ALONE)}, not {' and '.join(given)}. Nothing was changed."
            )
        if usage is not None and text is None and decision is None:
            raise InvalidInput("usage goes with text or decision: what that turn cost. Nothing was changed.")
        number = _run_number(run)
        wait = WAIT_SECONDS if seconds is None else seconds
        if start is not None:
            standing = await self._runs.start(
                caller.agent, board, self._new(start), seconds=seconds or 0.0, once_key=caller.once_key
            )
        else:
            act = Act(
                text=text,
                decision=decision,
                offer=offer,
                lease=lease or 0,
                usage=None if usage is None else Usage(**self._usage.check(usage)),
            )
            standing = await self._runs.turn(
                caller.agent,
                board,
                act,
                number=number,
                seconds=wait,
                report=caller.report,
                once_key=caller.once_key,
            )
        text_ = "\n".join(standing_lines(standing, self._say.now()))
        return Answer(
            self._say.with_footer(text_, standing.seq, standing.attention),
            lambda: _wire_standing(standing),
            shortens=standing.done is not None,
        )

    def _new(self, start: dict[str, Any]) -> NewRun:
        said = self._start.check(start)
        budget = said.get("budget")
        coordinator = said.get("coordinator") or ""
        return NewRun(
            problem=CountedText(said["problem"].strip()),
            agents=tuple(dict.fromkeys(said.get("agents") or ())),
            strategy=said.get("strategy") or default_strategy(coordinator),
            max_rounds=said.get("max_rounds") or ROUNDS,
            budget=Budget() if budget is None else Budget(**dict(budget)),
            coordinator=coordinator,
            decider=said.get("decider") or "",
            sealed=bool(said.get("sealed")),
            fallback=said.get("fallback") or "round-robin",
            coordinate=(said.get("coordinate") or "").strip(),
            decide=(said.get("decide") or "").strip(),
            idle_seconds=said.get("idle_seconds") or 0.0,
        )

    async def finalize(
        self,
        caller: Caller,
        text: Words | None = None,
        cites: Cites | None = None,
        run: RunId | None = None,
        board: Name | None = None,
    ) -> Answer:
        """Posts the answer of a run; without a text it tells what the answer would be now."""
        if cites and text is None:
            raise InvalidInput("cites goes with text, the answer that rests on them. Nothing was changed.")
        final, seq, attention = await self._runs.finalize(
            caller.agent,
            board,
            None if text is None else text.strip(),
            tuple(dict.fromkeys(parse_ref(cited).number for cited in cites or ())),
            number=_run_number(run),
            cited=cites or (),
            once_key=caller.once_key,
        )
        text_ = "\n".join(final_lines(final))
        return Answer(
            self._say.with_footer(text_, seq, attention),
            lambda: _wire_final(final, seq),
            shortens=text is not None,
        )


def _run_number(run: str | None) -> int:
    """Returns the number of a run; 0, the newest, for none.

    Raises:
        InvalidInput: it is no id of a run.
    """
    if run is None:
        return 0
    match = _RUN.match(run.strip())
    if match is None:
        raise InvalidInput(f"run is an id as run-1, not '{one_line(run)[:40]}'; leave it out for the newest.")
    return int(match[1])


def _wire_standing(standing: Standing) -> BaseModel:
    run, turn, done = standing.run, standing.turn, standing.done

    def said(one: RunTurn) -> run_wire.WireTurn:
        text = standing.texts.get(parse_ref(one.item).number, "") if one.item else ""
        return run_wire.WireTurn(
            agent=one.agent, kind=one.kind, round=one.round, lease=one.lease, item=one.item or None, text=text
        )

    return run_wire.TurnAnswer(
        run=None if run is None else run.id,
        state=None if run is None else run.state,
        yours=turn is not None,
        kind=None if turn is None else turn.kind,
        round=0 if run is None else run.round,
        max_rounds=0 if run is None else run.max_rounds,
        lease=None if turn is None else turn.lease,
        until=None if turn is None else turn.until,
        instruction="" if turn is None else turn.instruction,
        waits_for=[] if run is None else [one.agent for one in run.turns if one.state == "given"],
        claims=[task.id for task in standing.claims],
        owed=[f"{owed.duty} {owed.id}" for owed in standing.attention.owed],
        rules=[] if standing.rules is None else [rule.line for rule in standing.rules.mine],
        rules_revision=None if standing.rules is None else standing.rules.revision,
        answer=None if run is None else run.answer,
        problem=None if run is None else run.problem,
        said=[said(one) for one in standing.said],
        agents=list(standing.eligible),
        posted=[] if done is None else [item.id for item in done.items],
        alone=[f"{agent}: {line}" for agent, line in standing.alone or (() if done is None else done.alone)],
        verdict=None if done is None or not done.verdict else done.verdict,
        reason="" if run is None else run.reason,
        seq=standing.seq,
    )


def _wire_final(final: Finalized, seq: int) -> BaseModel:
    return run_wire.FinalAnswer(
        run=final.run.id,
        state=final.run.state,
        posted=final.posted,
        answer=final.item.id if final.posted and final.item is not None else None,
        text=final.text,
        cites=list(final.cites),
        source=final.source,
        unresolved=list(final.unresolved),
        dissent=list(final.dissent),
        seq=seq,
    )
