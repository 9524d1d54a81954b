"""Request and result: one agent asks, another answers, in parts if that takes long."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from .base import ID, NUMBER, Body, Count, Facts, KeyShape, Line, MessageProtocol, Name, States, Words


class RequestState(StrEnum):
    """The state of a request: waiting, held by an agent under a lease, or ended in one of four ways."""

    OPEN = "OPEN"
    TAKEN = "TAKEN"
    ANSWERED = "ANSWERED"
    DECLINED = "DECLINED"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"


_ENDS = frozenset({"ANSWERED", "DECLINED", "CANCELLED", "EXPIRED"})
REQUEST_STATES = States(
    first=frozenset({"OPEN"}),
    moves={
        "OPEN": _ENDS | {"TAKEN"},
        # A request is OPEN again when the lease ended, or when the holder declined and others may answer.
        "TAKEN": _ENDS | {"OPEN"},
        **{state: frozenset() for state in sorted(_ENDS)},
    },
)


class Request(Body):
    """A request, with its addressee and its deadline. Exactly one of `to` (an agent) and `skill` is given."""

    text: Words
    to: Name | None = None
    skill: Name | None = None
    deadline: datetime | None = None
    facts: Facts = Field(default_factory=dict)

    def model_post_init(self, _: object, /) -> None:
        """Checks that exactly one of `to` and `skill` is given.

        Raises:
            ValueError: both are given, or neither is.
        """
        if (self.to is None) == (self.skill is None):
            raise ValueError("exactly one of to and skill")


class PartialResult(Body):
    """A part of the answer. Parts are numbered from 1; together they are the answer so far."""

    text: Words


class Result(Body):
    """The end of the answer. `parts` is the number of parts before it, which belong to the answer."""

    text: Words
    parts: Count = 0
    facts: Facts = Field(default_factory=dict)


class Failure(Body):
    """The reason why there is no answer. With `retry` another agent might have one."""

    reason: Line
    retry: bool = False


class Cancel(Body):
    """A cancellation: the asker no longer wants the answer."""

    reason: str = Field(default="", max_length=500)


class RequestResult(MessageProtocol):
    """Ask one agent, or whoever has a skill, and get an answer, in parts where it takes long.

    The asker writes the request once and nothing else but a cancel. Whoever takes it writes parts in
    order, then one result or one error. After the deadline, a result or a cancel nothing more counts.
    """

    name: ClassVar[str] = "request-result"
    states: ClassVar[States | None] = REQUEST_STATES
    shapes: ClassVar[tuple[KeyShape, ...]] = (
        KeyShape("request", (ID,), Request, "the asker, once"),
        KeyShape("part", (ID, NUMBER), PartialResult, "the holder, in order from 1"),
        KeyShape("result", (ID,), Result, "the holder, once, at the end"),
        KeyShape("error", (ID,), Failure, "the holder, instead of a result"),
        KeyShape("cancel", (ID,), Cancel, "the asker, before there is a result"),
    )

    def request_key(self, id: str) -> str:
        return self.key("request", id=id)

    def part_key(self, id: str, number: int) -> str:
        return self.key("part", id=id, number=number)

    def result_key(self, id: str) -> str:
        return self.key("result", id=id)

    def error_key(self, id: str) -> str:
        return self.key("error", id=id)

    def cancel_key(self, id: str) -> str:
        return self.key("cancel", id=id)
