"""A Hypothesis state machine that drives a board store and holds it against the plain model.

Rules do what agents do; after each, the invariants of the design are checked by their names (I1, I3,
…). One walk serves many tests: `walk` runs the machine once and tells which invariants were checked how
often and which one broke, if any.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

from blackboard_mcp.protocols.board import Board, Core
from blackboard_mcp.protocols.clock import Clock
from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.protocols.events import Event
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.guard import Protection
from blackboard_mcp.protocols.items import Edge, Item, Ref, Zone, content_hash
from blackboard_mcp.protocols.store import BoardStore, DebateView, Found, Log, Once, Snapshot
from hypothesis import seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from .harness import CONFIG, HandClock, Table, draft, these
from .leaving import summary
from .model import MOVES, Model, Nope, Quarrel

T = TypeVar("T")
Opener = Callable[[Clock], Awaitable[BoardStore]]

AGENTS = ("alice", "bob", "carol")
TYPES = ("FACT", "HYPOTHESIS", "LOG", "CRITIQUE", "CRITIQUE", "REPLY", "CONSTRAINT", "HOT_ISSUE")
KINDS = (
    *("depends_on", "replies_to", "critiques", "critiques", "supports"),
    *("refutes", "derived_from", "supersedes", "analyzed_by"),
)
GONE = ("item.archived", "item.expired", "item.superseded")

agents = st.sampled_from(AGENTS)
near = st.integers(0, 7)
"""An item, counted back from the newest."""
edges = st.lists(st.tuples(st.sampled_from(KINDS), near), max_size=3, unique=True)
often_none = st.sampled_from([True, False, False, False])


class Broken(AssertionError):
    """An invariant did not hold."""

    def __init__(self, name: str, detail: object) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name


@dataclass
class Outcome:
    """What a walk saw: how many steps, how often each invariant was checked, and what broke."""

    steps: int = 0
    checked: Counter[str] = field(default_factory=Counter)
    happened: Counter[str] = field(default_factory=Counter)
    broken: Broken | None = None
    error: BaseException | None = None
    only: frozenset[str] = frozenset()
    """When it names invariants, what else breaks is let pass."""

    def assert_held(self, name: str) -> None:
        """Raises what broke the invariant; or an `AssertionError` when it was never checked."""
        if self.broken is not None and self.broken.name == name:
            raise self.broken
        assert self.checked[name] or self.broken or self.error, f"{name} was never checked"


@dataclass(frozen=True)
class Sight:
    """A board as it is read after a step: items by agent, and what the guard holds."""

    founds: list[Found]
    board: Board
    held: dict[int, Protection]


class BoardMachine(RuleBasedStateMachine):
    """One board, three agents, any order of calls. `walk` gives it a store and an `Outcome`."""

    opener: ClassVar[Opener]
    outcome: ClassVar[Outcome]

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
        self.delivered: dict[str, list[int]] = {}
        self.cursors: dict[str, str] = {}
        self.began: dict[str, int] = {}
        self.repeatable: list[tuple[str, Once, int]] = []

    async def _opened(self) -> BoardStore:
        return await type(self).opener(self.clock)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(coroutine)

    def teardown(self) -> None:
        try:
            if self.log:
                self.every_version_is_readable()
        finally:
            self.run(self.store.close())
            self.loop.close()

    def check(self, name: str, holds: object, detail: object = "") -> None:
        self.outcome.checked[name] += 1
        if not holds and (not self.outcome.only or name in self.outcome.only):
            raise Broken(name, detail)

    def pick(self, back: int) -> int:
        return max(1, len(self.model.things) - back)

    def both(
        self, what: str, call: Coroutine[Any, Any, T], told: Callable[[Model], object], name: str = "model"
    ) -> T | None:
        """The call on the store, the same on the model; both succeed or both refuse, else `name` broke."""
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

    @initialize()
    def make(self) -> None:
        self.run(self.store.ensure_board(self.at.board, "alice", CONFIG))
        for agent in AGENTS:
            subscription = self.run(self.store.subscribe(self.at.board, agent, "", {}))
            self.cursors[agent], self.began[agent] = subscription.id, subscription.cursor
            self.delivered[agent] = []
        for agent, type_ in (("alice", "FACT"), ("bob", "CONSTRAINT"), ("carol", "HYPOTHESIS")):
            self.run(self.at.post(agent, type_, type_))
            self.model.post(agent, type_, type_, [])
        self.say("bob", "CRITIQUE", "critiques", 3)
        self.say("carol", "FACT", "supports", 3)
        self.say("carol", "FACT", "supports", 5)
        self.say("alice", "FACT", "derived_from", 1)
        self.both(
            "restate",
            self.at.batch("alice", draft(None, on=7, status="WITHDRAWN")),
            lambda m: m.amend("alice", 7, status="WITHDRAWN"),
        )

    # What agents do

    @rule(
        agent=agents,
        type_=st.sampled_from(TYPES),
        said=edges,
        private=st.sampled_from([True] + [False] * 9),
        ttl=st.sampled_from([None, None, None, 0.0, 5.0, 20.0]),
        keep=often_none,
    )
    def post(
        self,
        agent: str,
        type_: str,
        said: list[tuple[str, int]],
        private: bool,
        ttl: float | None,
        keep: bool,
    ) -> None:
        pairs = list(dict.fromkeys((kind, self.pick(back)) for kind, back in said))
        self.calls += 1
        text = f"{type_} {self.calls} of {agent}"
        once = Once(f"once {self.calls}", text) if keep else None
        sent = draft(text, type_, private=private, ttl=ttl, **grouped(pairs))
        posted = self.both(
            "post",
            self.at.batch(agent, sent, once=once),
            lambda m: m.post(agent, text, type_, ordered(pairs), private=private, ttl=ttl),
        )
        if posted is not None and once is not None:
            self.repeatable.append((agent, once, posted.items[0].number))

    @rule(agent=agents, back=near)
    def critique(self, agent: str, back: int) -> None:
        self.say(agent, "CRITIQUE", "critiques", self.pick(back))

    @rule(agent=agents, back=near)
    def reply(self, agent: str, back: int) -> None:
        self.say(agent, "REPLY", "replies_to", self.pick(back))

    @rule(place=near)
    def answer(self, place: int) -> None:
        """A critique answered by the one who owes the answer."""
        owed = [(a, n) for a in AGENTS for n, duty in sorted(self.model.owed_by(a)) if duty == "respond"]
        if owed:
            agent, critique = owed[place % len(owed)]
            self.say(agent, "REPLY", "replies_to", critique)

    @rule(agent=agents, back=near, kind=st.sampled_from(["supports", "depends_on"]))
    def lean(self, agent: str, back: int, kind: str) -> None:
        self.say(agent, "FACT", kind, self.pick(back))

    @rule(agent=agents, back=near)
    def supersede(self, agent: str, back: int) -> None:
        self.say(agent, "FACT", "supersedes", self.pick(back))

    def say(self, agent: str, type_: str, kind: str, target: int) -> None:
        self.calls += 1
        text = f"{type_} {self.calls}"
        self.both(
            f"{kind}",
            self.at.batch(agent, draft(text, type_, **grouped([(kind, target)]))),
            lambda m: m.post(agent, text, type_, [(kind, target)]),
        )

    @rule(
        agent=agents,
        key=st.sampled_from(["k:a", "k:b"]),
        other=st.sampled_from([False] * 9 + [True]),
        private=st.sampled_from([False, False, False, True]),
        expected=st.sampled_from([None, None, None, 0, 1, 2]),
        said=edges,
        ttl=st.sampled_from([None, None, 5.0]),
    )
    def write(
        self,
        agent: str,
        key: str,
        other: bool,
        private: bool,
        expected: int | None,
        said: list[tuple[str, int]],
        ttl: float | None,
    ) -> None:
        type_ = "LOG" if other else {"k:a": "PLAN", "k:b": "CRITIQUE"}[key]
        pairs = list(dict.fromkeys((kind, self.pick(back)) for kind, back in said))
        self.calls += 1
        text = f"{key} {self.calls}"
        sent = draft(text, type_, key=key, private=private, expected=expected, ttl=ttl, **grouped(pairs))
        self.both(
            "write",
            self.at.batch(agent, sent),
            lambda m: m.post(
                agent, text, type_, ordered(pairs), key=key, private=private, expected=expected, ttl=ttl
            ),
        )

    @rule(
        agent=agents,
        back=near,
        said=edges,
        status=st.sampled_from([None, None, *MOVES]),
        importance=st.sampled_from([None, None, 1, 5]),
        ttl=st.sampled_from([None, None, None, 5.0]),
    )
    def amend(
        self,
        agent: str,
        back: int,
        said: list[tuple[str, int]],
        status: str | None,
        importance: int | None,
        ttl: float | None,
    ) -> None:
        number = self.pick(back)
        pairs = list(dict.fromkeys((kind, self.pick(other)) for kind, other in said))
        sent = draft(None, on=number, status=status, importance=importance, ttl=ttl, **grouped(pairs))
        self.both(
            "amend",
            self.at.batch(agent, sent),
            lambda m: m.amend(
                agent, number, edges=ordered(pairs), status=status, importance=importance, ttl=ttl
            ),
        )

    @rule(agent=agents, key=st.sampled_from(["k:a", "k:b"]))
    def rewrite(self, agent: str, key: str) -> None:
        """A new version of a shared entry, whatever stands there."""
        self.calls += 1
        text, type_ = f"{key} {self.calls}", {"k:a": "PLAN", "k:b": "CRITIQUE"}[key]
        self.outcome.happened["second version"] += any(
            t.key == key and t.type == type_ for t in self.model.things.values() if not t.private
        )
        self.both(
            "rewrite",
            self.at.batch(agent, draft(text, type_, key=key)),
            lambda m: m.post(agent, text, type_, [], key=key),
        )

    @rule(back=near, ahead=near)
    def turn_back(self, back: int, ahead: int) -> None:
        """An item made to depend on what leans on it, or else on what came after it, by its author."""
        number, target = sorted((self.pick(back), self.pick(ahead)))
        agent = self.model.things[number].author
        leaning = [n for n in self.model.visible(agent) if number in self.model.leans_on(n)]
        if leaning:
            target = sorted(leaning)[ahead % len(leaning)]
        self.both(
            "turn back",
            self.at.batch(agent, draft(None, on=number, depends_on=target)),
            lambda m: m.amend(agent, number, edges=[("depends_on", target)]),
            name="I16",
        )

    @rule(back=near, status=st.sampled_from(["RESOLVED", "WITHDRAWN", "INVALIDATED", "ACTIVE"]))
    def restate(self, back: int, status: str) -> None:
        """A status set by the author, who may; often on an item whose status is final."""
        n = self.pick(back)
        finished = [m for m, thing in self.model.things.items() if not MOVES[thing.status]]
        if finished and back % 2:
            n = finished[back % len(finished)]
        agent = self.model.things[n].author
        final = not MOVES[self.model.things[n].status]
        self.outcome.happened["left a final status"] += final
        self.both(
            "restate",
            self.at.batch(agent, draft(None, on=n, status=status)),
            lambda m: m.amend(agent, n, status=status),
            name="I29" if final else "model",
        )

    @rule(agent=agents, backs=st.lists(near, min_size=1, max_size=3))
    def batch(self, agent: str, backs: list[int]) -> None:
        """A batch of replies whose last may name what is not there: then none is posted."""
        self.calls += 1
        wanted = [self.pick(back) for back in backs]
        wanted[-1] += backs[0] % 3 * 100
        drafts = [
            draft(f"batch {self.calls} {place}", "REPLY", replies_to=target)
            for place, target in enumerate(wanted)
        ]

        def told(m: Model) -> None:
            for place, target in enumerate(wanted):
                m.post(agent, f"batch {self.calls} {place}", "REPLY", [("replies_to", target)])

        self.both("batch", self.at.batch(agent, *drafts), told)

    @rule(place=st.integers(0, 100))
    def retry(self, place: int) -> None:
        if not self.repeatable:
            return
        agent, once, number = self.repeatable[place % len(self.repeatable)]
        posted = self.both(
            "retry", self.at.batch(agent, draft("again"), once=once), lambda m: None, name="I24"
        )
        assert posted is not None
        self.check("I24", posted.repeated and posted.items[0].number == number, "a retry was applied")

    @rule(agent=agents, back=near)
    def acknowledge(self, agent: str, back: int) -> None:
        n = self.pick(back)
        self.both("acknowledge", self.at.acknowledge(agent, n), lambda m: m.acknowledge(agent, n))

    @rule(agent=agents, back=near)
    def withdraw(self, agent: str, back: int) -> None:
        n = self.pick(back)
        self.both("withdraw", self.at.withdraw(agent, n), lambda m: m.withdraw(agent, n))

    @rule(agent=agents, back=near, deciders=st.sampled_from([(), (), ("alice",), ("bob", "carol")]))
    def decide(self, agent: str, back: int, deciders: tuple[str, ...]) -> None:
        n = self.pick(back)
        self.both(
            "decide", self.at.decide(agent, n, "so be it", *deciders), lambda m: m.decide(agent, n, deciders)
        )

    @rule(agent=agents, back=near)
    def watch(self, agent: str, back: int) -> None:
        n = self.pick(back)
        self.both("watch", self.at.watch(agent, n), lambda m: m.watch(agent, n))

    @rule(agent=agents, back=near, watchers=st.lists(agents, max_size=2, unique=True))
    def open(self, agent: str, back: int, watchers: list[str]) -> None:
        n = self.pick(back)
        self.both("open", self.at.open(agent, n, *watchers), lambda m: m.open(agent, n, watchers))

    # What the server does

    @rule(seconds=st.sampled_from([0, 1, 5, 10, 30]))
    def expire(self, seconds: int) -> None:
        self.clock.advance(seconds)
        self.model.now += seconds
        self.both("expire", self.store.expire(), lambda m: m.expire())
        self.catch_up()
        told = {int(e.item.split("-")[1]) for e in self.recent if e.item and e.event == "item.expired"}
        self.nothing_held_left(told)
        self.check("I36", told == self.gone(), (told, self.gone()))

    @rule(backs=st.lists(near, max_size=8), all_=st.booleans(), twice=st.booleans())
    def prune(self, backs: list[int], all_: bool, twice: bool) -> None:
        named = list(range(1, len(self.model.things) + 3)) if all_ else [self.pick(back) for back in backs]
        policy = these(*named, *(named if twice else ()))
        outcome = self.both("prune", self.store.prune(self.at.board, policy), lambda m: m.prune(named))
        assert outcome is not None
        moved = [int(id_.split("-")[1]) for id_, _, _ in outcome.moved]
        self.nothing_held_left(set(moved))
        self.check("I12", len(moved) == len(set(moved)) and set(moved) == self.gone(), moved)
        again = self.run(self.store.prune(self.at.board, policy))
        self.check("I10", again.moved == () and again.tokens_before == outcome.tokens_after, again)

    def gone(self) -> set[int]:
        return {
            n
            for n, t in self.model.things.items()
            if t.zone == "archive" and n in self.before.things and self.before.things[n].zone == "working"
        }

    @rule(agent=agents, backs=st.lists(near, min_size=1, max_size=4))
    def restore(self, agent: str, backs: list[int]) -> None:
        wanted = [self.pick(back) for back in backs]
        self.both(
            "restore", self.store.restore(self.at.board, agent, wanted), lambda m: m.restore(agent, wanted)
        )

    @rule(back=near, drop=st.integers(0, 2), stale=st.sampled_from([False, False, False, True]))
    def summarise(self, back: int, drop: int, stale: bool) -> None:
        if not self.seen:
            return
        thread = self.model.things[self.pick(back)].thread
        sources = [t for t in self.model.things.values() if t.thread == thread and t.zone == "working"]
        chosen = [t.number for t in sources if not t.private][: max(0, len(sources) - drop)]
        places = {n: self.seen[n].seq - stale for n in chosen}
        self.calls += 1
        text = f"summary {self.calls}"
        made: list[int | None] = []

        def told(m: Model) -> None:
            made.append(None if stale else m.summarise(thread, chosen, text))

        id_ = self.both(
            "summarise", self.store.apply_summary(self.at.board, summary(thread, places, text)), told
        )
        self.outcome.happened["summary applied"] += id_ is not None
        self.check("I14", id_ == (None if made[0] is None else f"S-{made[0]}"), (id_, made, chosen))
        if id_ is not None:
            item = self.run(self.at.item(int(id_[2:])))
            self.check("I13", sorted(e.target for e in item.edges) == chosen, item)

    @rule(right=st.booleans())
    def set_core(self, right: bool) -> None:
        self.calls += 1
        fresh = Core(f"objective {self.calls}", ("rule",))
        expected = self.core.version if right else self.core.version + 1

        def told(m: Model) -> None:
            if not right:
                raise Nope

        got = self.both(
            "core", self.store.set_core(self.at.board, "alice", fresh, expected_version=expected), told
        )
        self.core = got or self.core

    @rule(agent=agents, limit=st.integers(1, 5))
    def deliver(self, agent: str, limit: int) -> None:
        board = self.at.board
        place = self.run(self.store.find_subscription(board, agent, self.cursors[agent]))
        assert place is not None
        log = self.run(self.store.log(board, agent, place.cursor, limit))
        self.delivered[agent] += [e.seq for e in log.events]
        self.run(self.store.move_cursor(board, agent, place.id, log.cursor))
        self.outcome.steps += 1
        self.catch_up()
        matching = [e.seq for e in self.log if e.owner in (None, agent)]
        expected = [seq for seq in matching if self.began[agent] < seq <= log.cursor]
        self.check("I20", self.delivered[agent] == expected, (agent, self.delivered[agent], expected))

    # What must hold after every step

    def catch_up(self) -> None:
        """Reads the part of the log not seen yet, merged over the agents, into `recent`, and folds it."""

        async def ask() -> list[Log]:
            logs = (self.store.log(self.at.board, agent, len(self.log), 10_000) for agent in AGENTS)
            return await asyncio.gather(*logs)

        merged: dict[int, Event] = {}
        for agent, log in zip(AGENTS, self.run(ask()), strict=True):
            seqs = [e.seq for e in log.events]
            self.check("I17", seqs == sorted(set(seqs)), seqs)
            self.check("I17", log.seq >= len(self.log), log.seq)
            for event in log.events:
                self.check("I25", event.owner in (None, agent), f"{agent} sees {event}")
                merged[event.seq] = event
        begin = len(self.log)
        self.check("I17", sorted(merged) == list(range(begin + 1, begin + 1 + len(merged))), sorted(merged))
        for seq in sorted(merged):
            self.log.append(merged[seq])
            self.recent.append(merged[seq])
            self.apply(merged[seq])

    def look(self) -> Sight:
        """What is read of the board after every step, asked for at once."""
        store, board = self.store, self.at.board
        refs = [Ref(n) for n in range(1, len(self.model.things) + 3)]

        async def ask() -> Sight:
            founds, standing, held = await asyncio.gather(
                asyncio.gather(*(store.read(board, agent, refs, []) for agent in AGENTS)),
                self.at.standing(),
                store.guarded(board, [ref.number for ref in refs]),
            )
            return Sight(founds, standing, held)

        return self.run(ask())

    def gaze(self, who: str) -> tuple[Snapshot, list[list[int]]]:
        """What is dearer to ask for: one agent's snapshot, and each zone as it pages through it."""

        async def ask() -> tuple[Snapshot, list[list[int]]]:
            zones = [await self.numbers(who, zone) for zone in Zone]
            return await self.store.snapshot(self.at.board, who), zones

        return self.run(ask())

    async def numbers(self, agent: str, zone: Zone) -> list[int]:
        """A zone, page by page."""
        numbers: list[int] = []
        cursor = None
        while True:
            wanted = ItemQuery(zone=zone, limit=11, cursor=cursor)
            page = await self.store.query(self.at.board, agent, wanted)
            numbers += [i.number for i in page.items]
            cursor = page.cursor
            if cursor is None:
                return numbers

    def apply(self, event: Event) -> None:
        """The fold: zone, version and status of each item out of the log alone."""
        if event.item is None:
            return
        n, kind = int(event.item.split("-")[1]), str(event.event)
        if kind == "item.posted":
            self.fold[n] = ["working", 1, "ACTIVE"]
            return
        item = self.fold[n]
        if kind in GONE:
            self.check("I2", item[0] == "working", f"{event.item} left twice")
            item[0] = "archive"
        elif kind == "item.restored":
            self.check("I2", item[0] == "archive", f"{event.item} came back twice")
            item[0] = "working"
        elif kind == "item.versioned":
            self.check("I22", event.version == item[1] + 1, f"{event.item} jumped to {event.version}")
            item[1] = event.version
            item[2] = item[2] if item[2] == "DEBATED" else "ACTIVE"
        elif kind == "item.changed" and "status" in event.data:
            was, becomes = event.data["status"]
            self.check("I29", was == item[2] and becomes in MOVES[was], event)
            item[2] = becomes
        elif kind == "debate.opened" and item[2] in ("ACTIVE", "RESOLVED"):
            item[2] = "DEBATED"
        elif kind == "debate.closed" and item[2] == "DEBATED":
            item[2] = "ACTIVE"

    @invariant()
    def the_invariants_hold(self) -> None:
        if not self.cursors:
            return
        self.turns += 1
        self.catch_up()
        sight = self.look()
        recent, self.recent = self.recent, []
        items = self.items(sight)
        known = {(e.source, str(e.kind), e.target) for item in items.values() for e in item.edges}
        arriving = {(e.source, str(e.kind), e.target) for item in items.values() for e in item.incoming}
        self.check("I15", all(s in items and t in items for s, _, t in known | arriving), known)
        self.check("I15", known == arriving, known ^ arriving)
        self.check("I16", acyclic(known), known)
        was = {n for n, item in self.seen.items() if item.zone is Zone.WORKING}
        left = {n for n in was if n in items and items[n].zone is not Zone.WORKING}
        self.outcome.happened["left"] += len(left)
        self.nothing_held_left(left)
        touched = {int(e.item.split("-")[1]) for e in recent if e.item}
        for n, item in items.items():
            old = self.seen.get(n)
            same = old is not None and plain(old) == plain(item)
            self.check("I19", same or (n in touched and item.seq > (old.seq if old else 0)), item)
            self.check("I19", item.seq <= len(self.log), item)
            self.check("I18", self.fold.get(n) == [item.zone, item.version, item.status], item)
        self.seen = items
        self.same_as_the_model(items)
        self.check("model", known == self.model.edges, known ^ self.model.edges)
        protected = self.model.protected()
        self.check("guard", set(sight.held) == protected, set(sight.held) ^ protected)
        for n, protection in sight.held.items():
            self.check("guard", self.leads_to(n, protection), (n, protection))
        self.figures(items, sight)
        if self.turns % 3 == 0:
            self.view_of(AGENTS[self.turns // 3 % 3], items)
        self.before = self.model

    def leads_to(self, n: int, protection: Protection) -> bool:
        """Whether the chain is one of edges that are there, from an open debate to the item."""
        chain = [(edge.source, str(edge.kind), edge.target) for edge in protection.chain]
        if not chain:
            return True
        places = {m for d in self.model.open_debates() for m in (d.root, *d.critiques)}
        if protection.omitted:
            places = {chain[0][0], chain[0][2]}
        for source, _, target in chain:
            places = {target for p in places if p == source} | {source for p in places if p == target}
        return n in places and set(chain) <= self.model.edges

    def nothing_held_left(self, left: set[int]) -> None:
        """What was seen to leave was held by nothing, as the model knows it."""
        critiques = {c for d in self.model.open_debates() for c in d.critiques}
        self.check("I5", not left & critiques, left & critiques)
        self.check("I3", not left & self.model.in_debate(), left & self.model.in_debate())
        self.check("I4", not left & self.model.owing(), left & self.model.owing())

    def items(self, sight: Sight) -> dict[int, Item]:
        """All items with all edges, and what each agent sees of them checked."""
        items: dict[int, Item] = {}
        leaving: dict[int, set[Edge]] = {}
        arriving: dict[int, set[Edge]] = {}
        for agent, found in zip(AGENTS, sight.founds, strict=True):
            visible = self.model.visible(agent)
            seen = {item.number for item in found.items}
            self.check("I1", visible <= seen, (agent, visible - seen))
            self.check("I25", seen <= visible, (agent, seen - visible))
            for item in found.items:
                ends = {n for e in (*item.edges, *item.incoming) for n in (e.source, e.target)}
                self.check("I25", ends <= visible, (agent, item.id, ends - visible))
                items[item.number] = item
                leaving.setdefault(item.number, set()).update(item.edges)
                arriving.setdefault(item.number, set()).update(item.incoming)
        return {
            n: replace(items[n], edges=tuple(leaving[n]), incoming=tuple(arriving[n])) for n in sorted(items)
        }

    def same_as_the_model(self, items: dict[int, Item]) -> None:
        for n, thing in self.model.things.items():
            item = items[n]
            expires = None if item.expires_at is None else (item.expires_at - self.start).total_seconds()
            self.check("I1", item.text == thing.texts[-1], (item.text, thing.texts[-1]))
            self.check("I1", item.sha256 == content_hash(thing.texts[-1]), item)
            self.check("I2", item.zone == thing.zone, (item.id, item.zone, thing.zone))
            self.check("I22", item.version == len(thing.texts), (item.id, item.version))
            self.check("I26", (item.author, item.type) == (thing.author, thing.type), item)
            self.check("I36", expires == thing.expires, (item.id, expires, thing.expires))
            self.check("model", item.status == thing.status, (item.id, item.status, thing.status))
            self.check("model", item.thread == thing.thread, (item.id, item.thread, thing.thread))
            self.debate_of(item)

    def debate_of(self, item: Item) -> None:
        about = [d for d in self.model.debates if item.number == d.root]
        if about:
            self.check("model", item.debate == about[-1].state, (item.id, item.debate, about[-1].state))

    def figures(self, items: dict[int, Item], sight: Sight) -> None:
        board = sight.board
        self.check("I17", board.seq == len(self.log), (board.seq, len(self.log)))
        working = [i for i in items.values() if i.zone is Zone.WORKING]
        tokens = sum(i.tokens for i in working)
        counted = (board.working_items, board.working_tokens, board.archived_items)
        self.check("I2", counted == (len(working), tokens, len(items) - len(working)), counted)
        self.check("I6", board.core == self.core, board.core)

    def view_of(self, agent: str, items: dict[int, Item]) -> None:
        visible = self.model.visible(agent)
        view, zones = self.gaze(agent)
        self.check("I2", sorted(n for zone in zones for n in zone) == sorted(visible), zones)
        shown = {i.number: i for i in view.items}
        law = self.model.law() & visible
        for name, type_ in (("I7", "CONSTRAINT"), ("I8", "HOT_ISSUE")):
            there = {n for n in law if items[n].type == type_}
            verbatim = all(n in shown and shown[n].text == self.model.things[n].texts[-1] for n in there)
            self.check(name, verbatim, (there, set(shown)))
        self.check("I25", set(shown) <= visible and set(view.protected) <= visible, (agent, set(shown)))
        chains = {n for p in view.protected.values() for e in p.chain for n in (e.source, e.target)}
        self.check("I25", chains <= visible, (agent, chains - visible))
        owed = {(n, str(duty)) for n, duty in view.owed}
        self.check("model", owed == self.model.owed_by(agent), (agent, owed, self.model.owed_by(agent)))
        told = sorted((d.root, tuple(sorted(d.critiques))) for d in view.debates)
        there_ = sorted((d.root, tuple(sorted(d.critiques))) for d in self.model.open_debates())
        self.check("model", told == there_, (told, there_))

    def every_version_is_readable(self) -> None:
        for n, thing in self.model.things.items():
            reader = thing.author if thing.private else "carol"
            refs = [Ref(n, v + 1) for v in range(len(thing.texts))]
            found = self.run(self.store.read(self.at.board, reader, refs, []))
            self.check("I1", [i.text for i in found.items] == thing.texts, (n, found, thing.texts))
            self.check("I1", all(i.sha256 == content_hash(i.text) for i in found.items), found)
            self.check("I22", [i.version for i in found.items] == [r.version for r in refs], found)
            view = self.run(self.store.debate_status(self.at.board, reader, n))
            if isinstance(view, DebateView) and view.debate.root == n:
                known = [d for d in self.model.debates if d.root == n]
                self.check("model", known, f"the store has a debate on {n}")
                newest = known[-1] if known else Quarrel(n, "", False)
                duties = {(o.agent, o.item, str(o.duty)): str(o.state) for o in view.debate.obligations}
                self.check("model", duties == newest.duties, (n, duties, newest.duties))


def grouped(pairs: list[tuple[str, int]]) -> dict[str, Any]:
    """Edges as `draft` takes them: by kind."""
    return {kind: [t for k, t in pairs if k == kind] for kind, _ in pairs}


def ordered(pairs: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """The same pairs in the order in which `draft` lists them."""
    return [(kind, target) for kind, targets in grouped(pairs).items() for target in targets]


def acyclic(known: set[tuple[int, str, int]]) -> bool:
    """Whether `depends_on` has no cycle: taking away what leans on nothing leaves nothing."""
    left = {(s, t) for s, kind, t in known if kind == "depends_on"}
    while True:
        fewer = {(s, t) for s, t in left if any(t == other for other, _ in left)}
        if fewer == left:
            return not left
        left = fewer


def plain(item: Item) -> tuple[object, ...]:
    """What only an event may change."""
    return (
        item.version,
        item.status,
        item.zone,
        item.importance,
        item.text,
        item.tags,
        item.metadata,
        item.expires_at,
        item.updated_at,
        item.seq,
        set(item.edges),
    )


def walk(
    opener: Opener, settings_: settings, only: Iterable[str] = (), seeds: Iterable[int | None] = (None,)
) -> Outcome:
    """Runs of the machine on stores that `opener` opens, to see all invariants or `only` some.

    One run a seed, until something breaks. Several short runs come by more than a long one, since
    Hypothesis likes to vary what it did before; `None` leaves the seed to the settings.
    """
    outcome = Outcome(only=frozenset(only))
    machine = type("BoardWalk", (BoardMachine,), {"opener": staticmethod(opener), "outcome": outcome})
    for number in seeds:
        try:
            run_state_machine_as_test(
                machine if number is None else seed(number)(machine), settings=settings_
            )
        except Broken as broken:
            outcome.broken = broken
        except Exception as error:
            outcome.error = error
        if outcome.broken or outcome.error:
            break
    return outcome
