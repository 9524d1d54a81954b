"""The base of walks over a board store: the board, the model beside it, and a step on both.

`Walker` takes a step and compares how it ended. Its subclasses define the steps, and what must hold after each.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from blackboard_mcp.protocols.answers import (
    Once,
)
from blackboard_mcp.protocols.board import Core
from blackboard_mcp.protocols.clock import Clock
from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.protocols.events import Event
from blackboard_mcp.protocols.items import Item
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.storage.store import SqlBoardStore
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from ..harness import HandClock, Table, draft
from .model import Model, Nope
from .rebuilding import rebuilt

T = TypeVar("T")
Opener = Callable[[Clock], Awaitable[BoardStore]]

AGENTS = ("alice", "bob", "carol")
TYPES = ("FACT", "HYPOTHESIS", "LOG", "CRITIQUE", "CRITIQUE", "REPLY", "CONSTRAINT", "HOT_ISSUE")
KINDS = (
    *("depends_on", "replies_to", "critiques", "critiques", "supports"),
    *("refutes", "derived_from", "supersedes", "analyzed_by"),
)
GONE = ("item.archived", "item.expired", "item.superseded")
"""Events that only archive an item; `item.deleted` also adds a version."""

agents = st.sampled_from(AGENTS)
near = st.integers(0, 7)
"""An item, counted back from the newest."""
edges = st.lists(st.tuples(st.sampled_from(KINDS), near), max_size=3, unique=True)
often_none = st.sampled_from([True, False, False, False])


class Broken(AssertionError):
    """An invariant did not hold."""

    def __init__(self, name: str, detail: object) -> None:
        super().__init__(name, str(detail))
        self.name = name

    def __str__(self) -> str:
        return ": ".join(self.args)


@dataclass
class Outcome:
    """The result of a walk: the number of steps, how often each invariant was checked, and what broke."""

    steps: int = 0
    checked: Counter[str] = field(default_factory=Counter)
    happened: Counter[str] = field(default_factory=Counter)
    broken: Broken | None = None
    error: BaseException | None = None
    only: frozenset[str] = frozenset()
    """The invariants to check; others may break. If it is empty, all are checked."""

    def add(self, other: Outcome) -> None:
        """Adds the result of another walk."""
        self.steps += other.steps
        self.checked += other.checked
        self.happened += other.happened
        self.broken = self.broken or other.broken
        self.error = self.error or other.error

    def assert_held(self, name: str) -> None:
        """Fails if the invariant broke, or was never checked although nothing else broke."""
        if self.broken is not None and self.broken.name == name:
            raise self.broken
        assert self.checked[name] or self.broken or self.error, f"{name} was never checked"


class Walker(RuleBasedStateMachine):
    """One board and its model; `walk` gives it a store and an `Outcome`."""

    opener: ClassVar[Opener]
    outcome: ClassVar[Outcome]
    waits: ClassVar[bool] = True
    """False for stores whose calls never wait: these run without an event loop."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = HandClock()
        self.start = self.clock.now()
        self.store = self.run(self._opened())
        self.at = Table(self.store)
        self.model = Model()
        self.before = self.model
        self.core = Core()
        self.calls = self.turns = 0
        self.seen: dict[int, Item] = {}
        self.log: list[Event] = []
        self.recent: list[Event] = []
        self.fold: dict[int, list[Any]] = {}
        self.weights: dict[int, int] = {}
        self.delivered: dict[str, list[int]] = {}
        self.cursors: dict[str, str] = {}
        self.began: dict[str, int] = {}
        self.repeatable: list[tuple[str, Once, int]] = []
        self.waived: set[tuple[int, str, int, str]] = set()
        self.broken = False

    async def _opened(self) -> BoardStore:
        return await type(self).opener(self.clock)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Returns the result of a store's call."""
        if self.waits:
            return self.loop.run_until_complete(coroutine)
        try:
            coroutine.send(None)
        except StopIteration as end:
            result: T = end.value
            return result
        raise AssertionError("a store that never waits waited")

    def teardown(self) -> None:
        try:
            self.rebuild()
        finally:
            self.run(self.store.close())
            self.loop.close()

    def rebuild(self) -> None:
        """Rebuilds the board from its history at the end of some walks, and checks that it is the same."""
        if self.broken or not self.log or self.calls % 4 or not isinstance(self.store, SqlBoardStore):
            return
        if self.outcome.only and not self.outcome.only & {"I18 rebuilt", "I39"}:
            return
        made = self.run(rebuilt(self.store, self.at.board))
        self.check("I18 rebuilt", not made.differences, made.differences)
        numbers = [*range(1, self.run(self.at.seq()) + 1)]
        self.check("I39", made.sequences == numbers, made.sequences)
        unlike = [pair for pair in zip(made.lines, made.again, strict=False) if pair[0] != pair[1]]
        self.check("I39", not unlike and len(made.lines) == len(made.again), unlike[:1])

    def check(self, name: str, holds: object, detail: object = "") -> None:
        """Counts a check of an invariant.

        Raises:
            Broken: it does not hold, and the walk checks it.
        """
        self.outcome.checked[name] += 1
        if not holds and (not self.outcome.only or name in self.outcome.only):
            self.broken = True
            raise Broken(name, detail)

    def pick(self, back: int) -> int:
        """Returns an item's number, counted back from the newest."""
        return max(1, len(self.model.things) - back)

    def both(
        self, what: str, call: Coroutine[Any, Any, T], told: Callable[[Model], object], name: str = "model"
    ) -> T | None:
        """Makes the call on the store and on the model; both must succeed or both refuse, else `name` is broken.

        Returns the store's answer, or `None` if it refused.
        """
        self.outcome.steps += 1
        self.before, expected = self.model, self.model.kept()
        try:
            told(expected)
        except Nope:
            expected = None  # type: ignore[assignment]
        try:
            answer = self.run(call)
        except BlackboardError as error:
            self.outcome.happened[f"{what} refused"] += 1
            self.check(name, expected is None, f"{what}: the store refused: {error}")
            board = self.run(self.at.standing())
            self.check("I24", board.seq == len(self.log), f"{what} failed and left events")
            return None
        self.outcome.happened[what] += 1
        self.check(name, expected is not None, f"{what}: the store did what it must refuse")
        self.model = expected or self.model
        return answer

    def say(self, agent: str, type_: str, kind: str, target: int, *, thread: int | None = None) -> None:
        self.calls += 1
        text = f"{type_} {self.calls}"
        self.both(
            f"{kind}",
            self.at.batch(agent, draft(text, type_, thread=thread, **grouped([(kind, target)]))),
            lambda m: m.post(agent, text, type_, [(kind, target)], thread=thread),
        )


def grouped(pairs: list[tuple[str, int]]) -> dict[str, Any]:
    """Returns edges by kind, as `draft` takes them."""
    return {kind: [t for k, t in pairs if k == kind] for kind, _ in pairs}


def ordered(pairs: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Returns the pairs in the order in which `draft` lists them."""
    return [(kind, target) for kind, targets in grouped(pairs).items() for target in targets]
