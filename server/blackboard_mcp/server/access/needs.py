"""The actions that each tool needs, by the tool's name and, for some, by the arguments of the call.

This module knows the checked arguments of tools. It does not know callers: `rights` decides whether they may.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from blackboard_mcp.protocols.access import Action
from blackboard_mcp.protocols.values import dataclass

Arguments = Mapping[str, Any]
_EVERYTHING: Final = frozenset(Action)


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of call to a tool: its name, the actions it needs, and a test of the arguments for it."""

    name: str
    needs: frozenset[Action]
    holds: Callable[[Arguments], bool]


@dataclass(frozen=True, slots=True)
class Needs:
    """The actions that calls of one tool need: those of every case that applies to the call.

    A call to which no case applies needs every action, so that a forgotten case is refused. Without cases
    nothing is needed.
    """

    cases: tuple[Case, ...]
    keeps: bool = False
    """Whether calls that need only the right to read may still change the caller's own records, such as
    subscriptions.
    """

    def of(self, arguments: Arguments) -> frozenset[Action]:
        """Returns the actions that a call with these arguments needs."""
        if not self.cases:
            return frozenset()
        held = [case.needs for case in self.cases if case.holds(arguments)]
        return frozenset().union(*held) if held else _EVERYTHING

    def only_reads(self, arguments: Arguments) -> bool:
        """Tells whether a call surely changes nothing; false for unchecked arguments that cannot be
        understood.
        """
        try:
            return not self.keeps and self.of(arguments) <= {Action.READ}
        except (AttributeError, TypeError, ValueError):
            return False


def always(*actions: Action) -> Needs:
    """Returns needs that are the same for every call."""
    return Needs((Case("", frozenset(actions), lambda _: True),))


NOTHING: Final = Needs(())
"""Needs of calls that touch no board."""
READS: Final = always(Action.READ)
"""Needs of calls that only read."""


def _case(name: str, action: Action, holds: Callable[[Arguments], bool]) -> Case:
    """Returns a case that needs an action and the right to read, because answers tell about the board."""
    return Case(name, frozenset({Action.READ, action}), holds)


def _given(*names: str) -> Callable[[Arguments], bool]:
    return lambda arguments: any(arguments.get(name) is not None for name in names)


def _none(*names: str) -> Callable[[Arguments], bool]:
    return lambda arguments: all(arguments.get(name) is None for name in names)


DEBATE_OPS: Final[Mapping[str, Action]] = MappingProxyType(
    {
        "open": Action.POST,
        "acknowledge": Action.ACKNOWLEDGE,
        "vote": Action.ACKNOWLEDGE,
        "concede": Action.POST,
        "withdraw": Action.POST,
        "decide": Action.DECIDE,
        "confirm": Action.ACKNOWLEDGE,
        "status": Action.READ,
        "watch": Action.ACKNOWLEDGE,
        "unwatch": Action.ACKNOWLEDGE,
    }
)
CONSUME_OPS: Final[Mapping[str, Action]] = MappingProxyType(
    {
        "take": Action.POST,
        "extend": Action.POST,
        "release": Action.POST,
        "dead": Action.READ,
        "retry": Action.POST,
        "drop": Action.POST,
        "set": Action.POST,
        "end": Action.POST,
    }
)


def _op(op: str, default: str = "") -> Callable[[Arguments], bool]:
    return lambda arguments: (arguments.get("op") or default) == op


def _consumes(op: str) -> Callable[[Arguments], bool]:
    of_op = _op(op, "take")
    return lambda arguments: arguments.get("group") is not None and of_op(arguments)


def _debates(op: str) -> Callable[[Arguments], bool]:
    """Returns a test for transactions with this operation among their debate operations."""

    def holds(arguments: Arguments) -> bool:
        return any(call.get("op") == op for call in arguments.get("debates") or ())

    return holds


def _board_read(arguments: Arguments) -> bool:
    return _none("title", "parent", "lifecycle")(arguments) and not (
        arguments.get("settings") or arguments.get("members")
    )


def _plans(arguments: Arguments) -> bool:
    return bool(arguments.get("items") or arguments.get("cancel")) or arguments.get("budget") is not None


def _asks(arguments: Arguments) -> bool:
    return (
        arguments.get("text") is not None and arguments.get("id") is None and not arguments.get("protocols")
    )


TOOLS: Final[Mapping[str, Needs]] = MappingProxyType(
    {
        "post": always(Action.POST),
        "read": READS,
        "query": READS,
        "query_archive": Needs(
            (
                _case("search", Action.READ, lambda given: not given.get("restore")),
                _case("restore", Action.POST, lambda given: bool(given.get("restore"))),
            )
        ),
        "subscribe": replace(READS, keeps=True),
        "wait": READS,
        "debate": Needs(tuple(_case(op, action, _op(op)) for op, action in DEBATE_OPS.items())),
        "core": Needs(
            (
                _case("read", Action.READ, _none("objective", "constraints", "flags")),
                _case("write", Action.MODERATE, _given("objective", "constraints", "flags")),
            )
        ),
        "board": Needs(
            (
                _case("read", Action.READ, _board_read),
                _case("change", Action.MODERATE, _given("title", "parent", "lifecycle")),
                _case("settings", Action.ADMINISTER, lambda given: bool(given.get("settings"))),
                _case("members", Action.ADMINISTER, lambda given: bool(given.get("members"))),
            )
        ),
        "prune": Needs(
            (
                _case("dry run", Action.READ, lambda given: bool(given.get("dry_run"))),
                _case("pass", Action.MODERATE, lambda given: not given.get("dry_run")),
            )
        ),
        "transaction": Needs(
            (
                _case("reads", Action.READ, lambda _: True),
                _case("writes", Action.POST, lambda given: bool(given.get("writes"))),
                _case("ack", Action.POST, lambda given: bool(given.get("ack"))),
                *(_case(f"debates {op}", action, _debates(op)) for op, action in DEBATE_OPS.items()),
            )
        ),
        "summarize": Needs(
            (
                _case("list", Action.READ, _none("thread")),
                _case("take", Action.SUMMARISE, _given("thread")),
            )
        ),
        "constraint": Needs(
            (
                _case("list", Action.READ, _none("text", "confirm", "retire", "message")),
                _case("propose", Action.POST, _given("text", "retire", "message")),
                _case("confirm", Action.MODERATE, _given("confirm")),
            )
        ),
        "get_context": READS,
        "report_result": always(Action.READ, Action.POST),
        "request": Needs(
            (
                _case("look", Action.READ, lambda given: not _asks(given) and not given.get("cancel")),
                _case("ask", Action.POST, _asks),
                _case("cancel", Action.POST, lambda given: bool(given.get("cancel"))),
            )
        ),
        "respond": Needs(
            (
                _case("list", Action.READ, _none("id", "skills", "seconds")),
                _case("answer", Action.POST, _given("id", "skills", "seconds")),
            )
        ),
        "join": Needs(
            (
                _case("list", Action.READ, _none("role", "skills", "interests", "protocols", "leave")),
                _case("join", Action.POST, _given("role", "skills", "interests", "protocols", "leave")),
            )
        ),
        "turn": Needs(
            (
                _case("look", Action.READ, _none("text", "decision", "offer", "start")),
                _case("act", Action.POST, _given("text", "decision", "offer", "start")),
            )
        ),
        "finalize": Needs(
            (
                _case("look", Action.READ, _none("text")),
                _case("answer", Action.POST, _given("text")),
            )
        ),
        "plan": Needs(
            (
                _case("look", Action.READ, lambda given: not _plans(given)),
                _case("plan", Action.POST, _plans),
            )
        ),
        "claim": always(Action.READ, Action.POST),
        "stage": Needs(
            (
                _case("look", Action.READ, _none("op", "define")),
                _case("act", Action.POST, _given("op", "define")),
            )
        ),
        "artifact_write": always(Action.READ, Action.POST),
        "artifact_read": READS,
        "artifact_list": READS,
        "artifact_search": READS,
        "artifact_history": Needs(
            (
                _case("look", Action.READ, lambda given: not given.get("restore")),
                _case("restore", Action.POST, lambda given: bool(given.get("restore"))),
            )
        ),
        "consume": Needs(
            (
                _case("list", Action.READ, _none("group")),
                *(_case(op, action, _consumes(op)) for op, action in CONSUME_OPS.items()),
            )
        ),
    }
)
"""Needs by the name of the tool."""
