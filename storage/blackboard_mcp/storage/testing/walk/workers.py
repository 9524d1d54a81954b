"""A state machine that drives one consumer group, compared with a model that shares no code with the store.

The model knows events as numbers. `walk_group` runs the machine on a store. Rules do what workers do and move the
clock; after each the whole group is compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from blackboard_mcp.protocols.clock import Clock
from blackboard_mcp.protocols.errors import Conflict
from blackboard_mcp.protocols.groups import Handle, Turn
from blackboard_mcp.protocols.store import BoardStore
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from ..harness import HandClock, Table

WORKERS = ("ann", "ben", "cyd")
ATTEMPTS = 2
workers = st.sampled_from(WORKERS)


@dataclass(slots=True)
class Held:
    """An event that was handed out and is not done: its last worker, and the end of its lease."""

    attempt: int = 0
    tries: int = 0
    worker: str = ""
    until: float = 0.0
    dead: bool = False


@dataclass
class GroupModel:
    """A plain model of a consumer group that gets facts."""

    now: float = 0.0
    events: list[int] = field(default_factory=list)
    """Sequences of matching events in order, whether handed out or not."""
    out: dict[int, Held] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    dropped: set[int] = field(default_factory=set)

    def mine(self, worker: str, handle: Handle) -> bool:
        """Tells whether the worker holds the delivery."""
        held = self.out.get(handle.seq)
        return (
            held is not None
            and not held.dead
            and (held.worker, held.attempt) == (worker, handle.attempt)
            and held.until > self.now
        )

    def bury(self) -> list[int]:
        """Turns events without attempts left into dead letters, and returns their sequences."""
        gone = [s for s, h in self.out.items() if not h.dead and h.until <= self.now and h.tries >= ATTEMPTS]
        for seq in gone:
            self.out[seq].dead = True
        return gone

    def turn(
        self,
        worker: str,
        ack: list[Handle],
        fail: list[Handle],
        extend: list[Handle],
        limit: int,
        lease: float,
    ) -> list[Handle] | None:
        """Returns the handles that a turn gets; `None` if it names a delivery that the worker does not hold."""
        if not all(self.mine(worker, handle) for handle in (*ack, *fail, *extend)):
            return None
        for handle in ack:
            del self.out[handle.seq]
            self.done.add(handle.seq)
        for handle in fail:
            self.out[handle.seq].until = self.now
        for handle in extend:
            self.out[handle.seq].until = self.now + lease
        self.bury()
        free = [
            seq
            for seq in self.events
            if seq not in self.done | self.dropped
            and (seq not in self.out or (not self.out[seq].dead and self.out[seq].until <= self.now))
        ][:limit]
        given = []
        for seq in free:
            held = self.out.setdefault(seq, Held())
            held.attempt, held.tries = held.attempt + 1, held.tries + 1
            held.worker, held.until = worker, self.now + lease
            given.append(Handle(seq, held.attempt))
        return given

    def figures(self) -> tuple[int, int, int, int]:
        """Returns the numbers of events: backlog, held, waiting and dead."""
        live = [held for held in self.out.values() if not held.dead]
        held = sum(h.until > self.now for h in live)
        fresh = sum(seq not in self.out and seq not in self.done | self.dropped for seq in self.events)
        return fresh, held, len(live) - held, len(self.out) - len(live)


class GroupMachine(RuleBasedStateMachine):
    """The state machine of one group and three workers, whose calls come in any order."""

    opener: ClassVar[Callable[[Clock], BoardStore]]
    happened: ClassVar[set[str]]

    def __init__(self) -> None:
        super().__init__()
        self.clock = HandClock()
        self.store = type(self).opener(self.clock)
        self.at = Table(self.store)
        self.model = GroupModel()
        self.posts = 0
        self.given: list[tuple[str, Handle]] = []
        """All that was ever handed out, and to whom."""
        self.run(self.at.configure())
        made = self.store.create_group(
            self.at.board, "alice", "g", {"event": "item.posted", "type": "FACT"}, max_attempts=ATTEMPTS
        )
        self.run(made)
        for _ in range(2):
            self.post(2, False)

    def run(self, coroutine: Any) -> Any:
        """Returns the result of a call on a store that never waits."""
        try:
            coroutine.send(None)
        except StopIteration as end:
            return end.value
        raise AssertionError("a store that never waits waited")

    def teardown(self) -> None:
        self.run(self.store.close())

    @rule(facts=st.integers(0, 1), private=st.booleans())
    def post(self, facts: int, private: bool) -> None:
        for n in range(facts):
            self.posts += 1
            hidden = private and n % 2 == 1
            self.run(self.at.post("alice", f"fact {self.posts}", private=hidden))
            seq = self.run(self.at.seq())
            if not hidden:
                self.model.events.append(seq)
        self.posts += 1
        self.run(self.at.post("alice", f"log {self.posts}", "LOG"))

    @rule(seconds=st.sampled_from([1, 4, 31, 31]))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)
        self.model.now += seconds

    @rule(
        worker=workers,
        limit=st.sampled_from([2, 0, 1, 3]),
        lease=st.sampled_from([5, 30]),
        does=st.lists(st.sampled_from(["ack", "fail", "fail", "extend"]), max_size=3),
        back=st.lists(st.integers(0, 4), min_size=3, max_size=3, unique=True),
        strictly=st.booleans(),
    )
    def turn(
        self, worker: str, limit: int, lease: int, does: list[str], back: list[int], strictly: bool
    ) -> None:
        """Settles some recently handed out events: with `strictly` only those that the worker holds."""
        among = [h for w, h in self.given if not strictly or (w == worker and self.model.mine(worker, h))]
        among = list(dict.fromkeys(among))
        named: dict[str, list[Handle]] = {"ack": [], "fail": [], "extend": []}
        for what, place in zip(does, back, strict=False):
            if place < len(among):
                named[what].append(among[-1 - place])
        wanted = self.model.turn(worker, named["ack"], named["fail"], named["extend"], limit, lease)
        asked = Turn(
            ack=tuple(named["ack"]),
            fail=dict.fromkeys(named["fail"], "no"),
            extend=tuple(named["extend"]),
            limit=limit,
            lease_seconds=lease,
        )
        try:
            taken = self.run(self.store.consume(self.at.board, worker, "g", asked))
        except Conflict:
            assert wanted is None, "what the worker holds was refused"
            self.happened.add("late")
            return
        handles = [delivery.handle for delivery in taken.deliveries]
        assert handles == wanted, (worker, handles, wanted)
        self.given += [(worker, handle) for handle in handles]
        self.happened.update(what for what, handles in named.items() if handles)
        self.happened.update("again" for handle in handles if handle.attempt > 1)

    @rule(place=st.integers(0, 1), retry=st.booleans())
    def look_at_the_dead(self, place: int, retry: bool) -> None:
        letters, _ = self.run(self.store.dead_letters(self.at.board, "g"))
        assert [letter.handle.seq for letter in letters] == sorted(
            s for s, h in self.model.out.items() if h.dead
        )
        if place >= len(letters):
            return
        self.happened.add("dead")
        handle = letters[place].handle
        held = self.model.out[handle.seq]
        assert (held.attempt, held.worker) == (handle.attempt, letters[place].worker)
        work = self.store.retry_dead if retry else self.store.drop_dead
        self.run(work(self.at.board, "alice", "g", [handle]))
        self.happened.add("retry" if retry else "drop")
        if retry:
            held.dead, held.tries, held.until = False, 0, self.model.now
        else:
            del self.model.out[handle.seq]
            self.model.dropped.add(handle.seq)

    @rule()
    def sweep(self) -> None:
        buried = self.model.bury()
        assert bool(self.run(self.store.sweep_groups())) == bool(buried)

    @rule()
    def look_ahead(self) -> None:
        outlook = self.run(self.store.group_outlook(self.at.board, "g"))
        fresh, _, waiting, _ = self.model.figures()
        assert outlook.ready == bool(fresh or waiting)
        ends = [h.until for h in self.model.out.values() if not h.dead and h.until > self.model.now]
        due = None if outlook.next_due is None else (outlook.next_due - self.clock.now()).total_seconds()
        assert due == (min(ends) - self.model.now if ends else None)

    @invariant()
    def the_group_stands_as_the_model_says(self) -> None:
        (state,), _ = self.run(self.store.groups(self.at.board))
        assert (state.backlog, state.in_flight, state.waiting, state.dead) == self.model.figures()


def walk_group(opener: Callable[[Clock], BoardStore], settings_: settings) -> set[str]:
    """Runs the machine, and returns names of what happened at least once.

    Raises:
        AssertionError: store and model differ.
    """
    seen: set[str] = set()
    machine = type("Machine", (GroupMachine,), {"opener": staticmethod(opener), "happened": seen})
    run_state_machine_as_test(machine, settings=settings_)
    return seen


__all__ = ["GroupMachine", "GroupModel", "walk_group"]
