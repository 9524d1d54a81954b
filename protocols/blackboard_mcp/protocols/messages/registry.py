"""Protocols by name: the ten built-in ones, and those of an operator.

A registered protocol was checked: its name, version, key shapes that no other has, bodies that are bounded models, and
states without loose ends. So a key belongs to at most one of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from ..errors import InvalidInput
from ..items import Visibility
from .base import Address, Body, KeyShape, MessageProtocol, Part, States
from .consistency_check import ConsistencyCheck
from .critique_exchange import CritiqueExchange
from .game_state import GameState
from .goal_alignment import GoalAlignment
from .grounding import Grounding
from .lifecycle import Lifecycle
from .plan_publication import PlanPublication
from .request_result import RequestResult
from .work_assignment import WorkAssignment
from .working_set import WorkingSet

BUILT_IN: tuple[type[MessageProtocol], ...] = (
    RequestResult,
    WorkAssignment,
    Lifecycle,
    GameState,
    CritiqueExchange,
    ConsistencyCheck,
    Grounding,
    GoalAlignment,
    WorkingSet,
    PlanPublication,
)
MAX_PROTOCOLS = 100
MAX_SHAPES = 32
MAX_PARTS = 8
_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")


class Registry:
    """The known protocols, the ten built-in ones first."""

    def __init__(self, own: Iterable[type[MessageProtocol]] = ()) -> None:
        """Registers the built-in protocols, then `own`.

        Raises:
            InvalidInput: one of `own` is not a protocol, or clashes with another.
        """
        self._named: dict[str, type[MessageProtocol]] = {}
        self._kinds: dict[str, type[MessageProtocol]] = {}
        for protocol in (*BUILT_IN, *own):
            self.register(protocol)

    def register(self, protocol: type[MessageProtocol]) -> None:
        """Adds a protocol.

        Raises:
            InvalidInput: it is not a protocol, or its name or a kind of its messages is taken; nothing was added.
        """
        shown = _check(protocol)
        if protocol.name in self._named:
            raise InvalidInput(f"There is a protocol '{protocol.name}' already; give {shown} another name.")
        if len(self._named) >= MAX_PROTOCOLS:
            raise InvalidInput(f"At most {MAX_PROTOCOLS} protocols; {shown} is one too many.")
        for shape in protocol.shapes:
            if shape.kind in self._kinds:
                other = self._kinds[shape.kind].name
                raise InvalidInput(
                    f"Keys {shape.outline()} of {shown} would collide with '{shape.kind}' of {other}; call it "
                    "something else."
                )
        self._named[protocol.name] = protocol
        self._kinds.update((shape.kind, protocol) for shape in protocol.shapes)

    def __iter__(self) -> Iterator[type[MessageProtocol]]:
        return iter(self._named.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all registered protocols."""
        return tuple(self._named)

    def get(self, name: str) -> type[MessageProtocol]:
        """Returns the protocol of that name.

        Raises:
            InvalidInput: there is no such protocol.
        """
        if name not in self._named:
            raise InvalidInput(f"There is no protocol '{name[:40]}'; there are: {', '.join(self._named)}.")
        return self._named[name]

    def about(self, only: Iterable[str] = ()) -> list[dict[str, Any]]:
        """Returns a description of each protocol, or of those named in `only`, as plain JSON values.

        Raises:
            InvalidInput: a name belongs to no protocol.
        """
        chosen = [self.get(name) for name in only] or list(self)
        return [
            {
                "name": protocol.name,
                "version": protocol.version,
                "purpose": protocol.purpose(),
                "level": str(protocol.level),
                "keys": [
                    {
                        "key": shape.outline(),
                        "pattern": ":".join(["{scope}", shape.kind, *("*" for _ in shape.parts)]),
                        "parts": {part.name: part.kind for part in shape.parts},
                        "writer": shape.writer,
                        "fields": {
                            name: field.is_required() for name, field in shape.body.model_fields.items()
                        },
                    }
                    for shape in protocol.shapes
                ],
                "states": {}
                if protocol.states is None
                else {old: sorted(new) for old, new in protocol.states.moves.items()},
            }
            for protocol in chosen
        ]

    def parse(self, key: str) -> Address | None:
        """Parses a key of any registered protocol; returns `None` for every other key."""
        segments = key.split(":", 2)
        owner = self._kinds.get(segments[1]) if len(segments) > 2 else None
        return None if owner is None else owner.read_key(key)


def _check(protocol: Any) -> str:
    """Checks a protocol and returns the name of its class.

    Raises:
        InvalidInput: it is not a valid protocol; the message names the mistake.
    """
    if not (isinstance(protocol, type) and issubclass(protocol, MessageProtocol)):
        raise InvalidInput(f"{str(protocol)[:80]} is no subclass of MessageProtocol.")
    shown = protocol.__name__[:80]
    name: Any = getattr(protocol, "name", None)
    if not isinstance(name, str) or not _NAME.match(name):
        raise InvalidInput(f"{shown}.name must be 1-32 of a-z 0-9 -, beginning with a letter.")
    version: Any = protocol.version
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise InvalidInput(f"{shown}.version must be a whole number from 1.")
    if not protocol.purpose():
        raise InvalidInput(f"{shown} needs a docstring whose first line says what it is for.")
    if protocol.level not in (Visibility.BOARD, Visibility.TEAM, Visibility.PRIVATE):
        raise InvalidInput(f"{shown}.level must be Visibility.BOARD, TEAM or PRIVATE.")
    shapes: Any = getattr(protocol, "shapes", None)
    if not isinstance(shapes, tuple) or not 0 < len(shapes) <= MAX_SHAPES:
        raise InvalidInput(f"{shown}.shapes must be a tuple of 1 to {MAX_SHAPES} KeyShapes.")
    for shape in shapes:
        _check_shape(shown, shape)
    kinds = [shape.kind for shape in shapes]
    if len(set(kinds)) != len(kinds):
        raise InvalidInput(f"{shown}.shapes has a kind twice: {', '.join(kinds)}.")
    _check_states(shown, protocol.states)
    return shown


def _check_shape(shown: str, shape: Any) -> None:
    if not isinstance(shape, KeyShape) or not isinstance(shape.kind, str) or not _NAME.match(shape.kind):
        raise InvalidInput(f"{shown}.shapes: a kind is 1-32 of a-z 0-9 -, beginning with a letter.")
    where = f"{shown}, kind {shape.kind}"
    names = [part.name for part in shape.parts if isinstance(part, Part)]
    if not 0 < len(names) == len(shape.parts) <= MAX_PARTS or len(set(names)) != len(names):
        raise InvalidInput(f"{where}: parts are 1 to {MAX_PARTS} Parts, each name once.")
    if not all(name.isidentifier() for name in names) or any(
        part.kind not in ("name", "number") for part in shape.parts
    ):
        raise InvalidInput(f"{where}: a part is a Python name, of kind 'name' or 'number'.")
    if not (isinstance(shape.body, type) and issubclass(shape.body, Body)):
        raise InvalidInput(f"{where}: body must be a subclass of Body.")
    if shape.body.model_config.get("extra") != "forbid":
        raise InvalidInput(f"{where}: {shape.body.__name__} must keep extra='forbid'.")
    if not isinstance(shape.writer, str) or not shape.writer.strip() or len(shape.writer) > 200:
        raise InvalidInput(f"{where}: writer says who writes it when, in at most 200 characters.")


def _check_states(shown: str, states: Any) -> None:
    if states is None:
        return
    if not isinstance(states, States):
        raise InvalidInput(f"{shown}.states must be States, or None.")
    known = set(states.moves)
    unknown = (states.first | {s for after in states.moves.values() for s in after}) - known
    if not states.first or unknown:
        raise InvalidInput(
            f"{shown}.states: {', '.join(sorted(unknown)) or 'no first state'}; every state stands in moves, with "
            "where it leads."
        )
