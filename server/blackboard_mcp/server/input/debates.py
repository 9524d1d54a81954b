"""Arguments of the tool `debate`: its operations, and the arguments that go with each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.literals import DebateCallName

from ..text.lines import one_line

DebateOp = Literal[DebateCallName, "status"]

_GOES_WITH = {
    "watchers": ("open",),
    "approve": ("vote",),
    "outcome": ("decide", "confirm"),
    "to": ("concede", "decide"),
}


def one_of(ops: Sequence[str]) -> Callable[[object], object]:
    """Returns a check that an operation is one of `ops`, which says what they are; `agree` means `acknowledge`."""

    def called(op: object) -> object:
        if isinstance(op, str) and op not in ("agree", *ops):
            listed = ", ".join(f"'{name}'" for name in ("agree", *ops))
            raise ValueError(f'must be one of {listed}, not "{one_line(op[:40])}"')
        return "acknowledge" if op == "agree" else op

    return called


def check_debating(op: str, id_: str, said: Mapping[str, object], reason: str, place: str = "") -> None:
    """Checks that the arguments fit the operation. `said` maps optional arguments to values; `place` begins
    the message.

    Raises:
        InvalidInput: an argument does not go with the operation, or a decision lacks an outcome or a reason.
    """
    if op == "acknowledge" and said.get("approve") is False:
        raise InvalidInput(
            f'{place}approve goes with op="vote"; op="agree" agrees, whatever it says. Nothing was changed; to object: '
            f'post(type="CRITIQUE", edges={{"critiques": ["{id_}"]}}, text="…").'
        )
    for argument, ops in _GOES_WITH.items():
        if said.get(argument) is not None and op not in ops:
            with_ = " or ".join(f'op="{name}"' for name in ops)
            raise InvalidInput(
                f'{place}{argument} goes with {with_}; with op="{op}" leave it out. Nothing was changed.'
            )
    if op != "decide":
        return
    if said.get("outcome") is None:
        raise InvalidInput(
            f'{place}A decision says what becomes of {id_}: outcome="stands" (it goes on), outcome="falls" (it is '
            'INVALIDATED), or outcome="amended" with to="…", the id of the item that takes its place. Nothing was '
            "changed."
        )
    if not reason.strip():
        raise InvalidInput(f"{place}A decision needs a reason. Nothing was changed.")
