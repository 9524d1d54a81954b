"""The actions that each tool needs, by its name and, where they decide, by the arguments of the call.

Knows the tools' arguments, checked. Refuses to know who calls: `rights` decides.
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
    """A kind of call: its name, what it needs, and whether a call is of this kind."""

    name: str
    needs: frozenset[Action]
    holds: Callable[[Arguments], bool]


@dataclass(frozen=True, slots=True)
class Needs:
    """What calls of one entry need: all that the cases need that hold for the call.

    A call for which no case holds needs everything, so that what was forgotten is refused.
    """

    cases: tuple[Case, ...]
    keeps: bool = False
    """Calls that need only to read may change what the caller keeps for itself."""

    def of(self, arguments: Arguments) -> frozenset[Action]:
        if not self.cases:
            return frozenset()
        held = [case.needs for case in self.cases if case.holds(arguments)]
        return frozenset().union(*held) if held else _EVERYTHING

    def only_reads(self, arguments: Arguments) -> bool:
        """Whether a call can change nothing; one of arguments that were not checked may be any call."""
        try:
            return not self.keeps and self.of(arguments) <= {Action.READ}
        except (AttributeError, TypeError, ValueError):
            return False


def always(*actions: Action) -> Needs:
    """The same for every call."""
    return Needs((Case("", frozenset(actions), lambda _: True),))


NOTHING: Final = Needs(())
"""For what touches no board."""
READS: Final = always(Action.READ)


def _case(name: str, action: Action, holds: Callable[[Arguments], bool]) -> Case:
    """A case that needs an action, and to read as well: its answers tell of the board."""
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
    """Whether a transaction has a debate's operation among its own."""

    def holds(arguments: Arguments) -> bool:
        return any(call.get("op") == op for call in arguments.get("debates") or ())

    return holds


def _board_read(arguments: Arguments) -> bool:
    return _none("title", "parent", "lifecycle")(arguments) and not (
        arguments.get("settings") or arguments.get("members")
    )


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
        "consume": Needs(
            (
                _case("list", Action.READ, _none("group")),
                *(_case(op, action, _consumes(op)) for op, action in CONSUME_OPS.items()),
            )
        ),
    }
)
"""By the name of the tool."""
