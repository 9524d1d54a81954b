"""A Hypothesis state machine that drives a board store and compares it with the plain model.

Rules do what agents do. After each, the invariants of the design are checked under their names (I1, I3, …). One walk
serves many tests: `walk` runs the machine once, and returns how often each invariant was checked and which one broke,
if any.
"""

from __future__ import annotations

from collections.abc import Iterable

from blackboard_mcp.protocols.answers import (
    Once,
)
from blackboard_mcp.protocols.board import Core
from blackboard_mcp.protocols.remarks import RemarkKind
from hypothesis import seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

from ..harness import CONFIG, draft, these
from ..kit.leaving import summary
from .commissioning import Commissioning
from .consenting import Consenting
from .dealing import Dealing
from .finding import Finding
from .joining import Joining
from .model import MOVES, Model, Nope
from .walking import AGENTS, TYPES, Broken, Opener, Outcome, agents, edges, grouped, near, often_none, ordered

__all__ = ["AGENTS", "BoardMachine", "Broken", "Outcome", "walk"]


class BoardMachine(Commissioning, Consenting, Finding, Dealing, Joining):
    """The state machine of one board and three agents, whose calls come in any order.

    `walk` gives it a store and an `Outcome`.
    """

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
        self.say("carol", "FACT", "derived_from", 1)
        self.sum_up(8, {8: self.run(self.at.item(8)).seq})

    # Steps of agents

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

    @rule(agent=agents, back=near, against=st.sampled_from(["", "", "", "refutes", "critiques", "the same"]))
    def say_again(self, agent: str, back: int, against: str) -> None:
        """Posts the text of an earlier item again.

        That supports another agent's standing finding, but never if the post contradicts it.
        """
        thing = self.model.things[self.pick(back)]
        if thing.private or thing.gone or thing.type == "SUMMARY":
            return
        text, type_ = thing.texts[-1], thing.type
        pairs = [(against, thing.number)] if against else []
        if against == "the same":
            agent, pairs = thing.author, sorted((k, t) for n, k, t in self.model.edges if n == thing.number)
        expected: list[int] = []
        posted = self.both(
            "say again",
            self.at.batch(agent, draft(text, type_, **grouped(pairs))),
            lambda m: expected.append(m.post(agent, text, type_, pairs)),
        )
        if posted is not None:
            self.outcome.happened["endorsed"] += bool(posted.endorsed)
            self.outcome.happened["same"] += any(r.kind is RemarkKind.SAME for r in posted.remarks)
            self.check("I40", [posted.items[0].number] == expected, (posted.items[0], expected))

    @rule(agent=agents, back=near)
    def reply(self, agent: str, back: int) -> None:
        self.say(agent, "REPLY", "replies_to", self.pick(back))

    @rule(place=near)
    def answer(self, place: int) -> None:
        """Answers a critique, by an agent that owes the answer."""
        owed = [(a, n) for a in AGENTS for n, duty in sorted(self.model.owed_by(a)) if duty == "respond"]
        if owed:
            agent, critique = owed[place % len(owed)]
            self.say(agent, "REPLY", "replies_to", critique)

    @rule(agent=agents, names=st.lists(agents, max_size=3), private=often_none, back=near)
    def wonder(self, agent: str, names: list[str], private: bool, back: int) -> None:
        """Asks a question of agents by name, or of the author of the item that it replies to."""
        self.calls += 1
        text = " ".join([f"what {self.calls}", *(f"@{name}" for name in names), "?"])
        pairs = [] if names and back % 2 else [("replies_to", self.pick(back))]
        self.both(
            "ask",
            self.at.batch(agent, draft(text, "QUESTION", private=private, **grouped(pairs))),
            lambda m: m.post(agent, text, "QUESTION", pairs, private=private),
        )

    @rule(agent=agents, place=near, type_=st.sampled_from(["ANSWER", "ANSWER", "FACT", "QUESTION"]))
    def tell(self, agent: str, place: int, type_: str) -> None:
        """Replies to a question that waits, by any agent."""
        waiting = sorted({n for (_, n), state in self.model.questions.items() if state == "outstanding"})
        seen = [n for n in waiting if n in self.model.visible(agent)]
        if seen:
            self.say(agent, type_, "replies_to", seen[place % len(seen)])

    @rule(agent=agents, back=near, kind=st.sampled_from(["supports", "depends_on"]))
    def lean(self, agent: str, back: int, kind: str) -> None:
        """Rests a fact on an item; every other one joins the item's conversation."""
        target = self.pick(back)
        self.say(agent, "FACT", kind, target, thread=None if back % 2 else target)

    @rule(back=near, reply=st.sampled_from(["REPLY", "FACT", "CRITIQUE"]))
    def give_up(self, back: int, reply: str) -> None:
        """Makes an item's author support another item that supersedes or refutes it."""
        claims = [e for e in sorted(self.model.edges) if e[1] in ("supersedes", "refutes")]
        if claims:
            source, _, target = claims[-1 - back % len(claims)]
            before = len(self.model.agreed)
            self.say(self.model.things[target].author, reply, "supports", source)
            self.outcome.happened["gave up"] += len(self.model.agreed) - before

    @rule(agent=agents, back=near)
    def supersede(self, agent: str, back: int) -> None:
        self.say(agent, "FACT", "supersedes", self.pick(back))

    @rule(
        agent=agents,
        key=st.sampled_from(["k:a", "k:b"]),
        other=st.sampled_from([False] * 9 + [True]),
        private=st.sampled_from([False, False, False, True]),
        expected=st.sampled_from([None, None, None, 0, 1, 2]),
        said=edges,
        ttl=st.sampled_from([None, None, 5.0, 0.0]),
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
        ttl=st.sampled_from([None, None, None, 5.0, 0.0]),
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
        """Writes a new version of a shared entry, whatever its state."""
        self.calls += 1
        text, type_ = f"{key} {self.calls}", {"k:a": "PLAN", "k:b": "CRITIQUE"}[key]
        there = [t for t in self.model.things.values() if not t.private and (t.key, t.type) == (key, type_)]
        self.outcome.happened["second version"] += bool(there)
        self.outcome.happened["recreated"] += any(t.gone for t in there)
        self.both(
            "rewrite",
            self.at.batch(agent, draft(text, type_, key=key)),
            lambda m: m.post(agent, text, type_, [], key=key),
        )

    @rule(
        agent=agents,
        back=near,
        private=st.sampled_from([False, False, False, True]),
        expected=st.sampled_from([None, None, None, 0, 1, 2]),
    )
    def delete(self, agent: str, back: int, private: bool, expected: int | None) -> None:
        """Deletes an entry, sometimes one that the guard protects or that does not exist; some are written again."""
        held = self.model.protected()
        free = self.model.visible(agent) - (held if back % 3 else set())
        there = [t for n in sorted(free) if (t := self.model.things[n]).key is not None and not t.gone]
        if not back % 3:
            there = [t for t in there if t.number in held] or there
        key = "k:a"
        if there:
            key, private = str(there[back % len(there)].key), there[back % len(there)].private
        deleted = self.both(
            "delete",
            self.at.batch(agent, draft(None, key=key, private=private, expected=expected, delete=True)),
            lambda m: m.delete(agent, key, private=private, expected=expected),
            name="I22",
        )
        if deleted is not None:
            number = deleted.items[0].number
            self.nothing_held_left({number} & self.gone())
            found = self.run(self.store.read(self.at.board, agent, [], [key]))
            self.check("I22", all(i.number != number for i in found.items), found)
            if back % 2 and not private and key in ("k:a", "k:b"):
                self.catch_up()
                self.rewrite(agent, key)

    @rule(back=near, ahead=near)
    def turn_back(self, back: int, ahead: int) -> None:
        """Makes an item depend on one that depends on it, or else on a later one, by its author."""
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
        """Sets a status by the author, who may do so; often on an item whose status is final."""
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
        """Posts a batch of replies, the last of which may name an item that does not exist: then none is posted."""
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

    # Steps of the server

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
        self.catch_up()
        back_lately = self.back_lately() | self.grounds()
        call = self.store.prune(self.at.board, policy)
        outcome = self.both("prune", call, lambda m: m.prune(named, back_lately))
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

    def returning(self, wanted: list[int]) -> list[int]:
        """Returns those of the items that the board has room for, so that the store brings them back."""
        return wanted

    @rule(agent=agents, backs=st.lists(near, min_size=1, max_size=4))
    def restore(self, agent: str, backs: list[int]) -> None:
        wanted = self.returning([self.pick(back) for back in backs])
        self.both(
            "restore", self.store.restore(self.at.board, agent, wanted), lambda m: m.restore(agent, wanted)
        )

    @rule(back=near, drop=st.integers(0, 2), stale=st.sampled_from([False, False, False, True]))
    def summarise(self, back: int, drop: int, stale: bool) -> None:
        if not self.seen:
            return
        held = self.model.protected()
        working = [t for t in self.model.things.values() if t.zone == "working"]
        free = sorted({t.thread for t in working} - {t.thread for t in working if t.number in held})
        thread = free[back % len(free)] if free and back % 4 else self.model.things[self.pick(back)].thread
        sources = [t for t in self.model.things.values() if t.thread == thread and t.zone == "working"]
        chosen = [t.number for t in sources if not t.private][: max(0, len(sources) - drop)]
        self.sum_up(thread, {n: self.seen[n].seq - stale for n in chosen}, stale=stale)

    def sum_up(self, thread: int, places: dict[int, int], *, stale: bool = False) -> None:
        self.calls += 1
        chosen = list(places)
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
            wanted = sorted({*chosen, *self.before.beginning(thread, chosen)})
            self.check("I13", sorted(e.target for e in item.edges) == wanted, item)

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


def walk(
    opener: Opener,
    settings_: settings,
    only: Iterable[str] = (),
    seeds: Iterable[int | None] = (None,),
    machine: type[BoardMachine] = BoardMachine,
    waits: bool = True,
) -> Outcome:
    """Runs the machine on stores that `opener` opens, to check all invariants or `only` some, and returns the outcome.

    There is one run for each seed, until something breaks; `None` leaves the seed to the settings. Several short runs
    see more than a long one, since Hypothesis likes to vary earlier examples. `waits` is false for a store whose calls
    never wait.
    """
    outcome = Outcome(only=frozenset(only))
    own = {"opener": staticmethod(opener), "outcome": outcome, "waits": waits}
    walker = type("BoardWalk", (machine,), own)
    for number in seeds:
        try:
            run_state_machine_as_test(walker if number is None else seed(number)(walker), settings=settings_)
        except Broken as broken:
            outcome.broken = broken
        except Exception as error:
            outcome.error = error
        if (failure := outcome.broken or outcome.error) is not None:
            failure.add_note(f"seed {number}")
            break
    return outcome
