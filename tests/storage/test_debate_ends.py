"""No debate is left that everybody who is there wants closed and nobody can close: shown by trying everything.

Breadth first over all that a few agents can do in one debate, by the plain model, which the walks of
`test_invariants` hold every store against. Time moves by `TICK`, in which those who are there make a call and
the others do not; who has left makes none any more. What has been reached is looked at as a graph: which ends can be
reached from where, and by whose calls alone.
"""

from __future__ import annotations

import pickle
import sys
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any
from zlib import compress, decompress

import pytest
from blackboard_mcp.storage.testing.walk.model import Model, Nope
from profiles import NIGHTLY

ROOT = 1
PRESENCE = 10
TICK = "time goes by"

Key = tuple[object, ...]
Move = Callable[[Model], object]


@dataclass(frozen=True)
class Case:
    """`agents` by owner, the author alice; `leavers` is how many may leave. A debate begins with `critics`, or by
    request of `opener`."""

    agents: dict[str, str]
    critics: tuple[str, ...] = ("bob",)
    opener: str = ""
    deciders: tuple[str, ...] = ()
    quorum: int = 0
    leavers: int = 1
    more: tuple[str, ...] = ()
    """Who may criticise as well."""
    presence: int = PRESENCE

    def __str__(self) -> str:
        begun = f"opened by {self.opener}" if self.opener else f"{'+'.join(self.critics)} criticise"
        said = f"{' '.join(f'{a}({o})' if a != o else a for a, o in self.agents.items())}; {begun}"
        said += f"; {'+'.join(self.deciders)} decides" if self.deciders else ""
        return said + (f"; quorum {self.quorum}" if self.quorum else "") + f"; {self.leavers} may leave"


@dataclass(frozen=True)
class End:
    """How a debate ended, and who still argued then: who took all critiques back is no party any more."""

    state: str
    outcome: str
    arguing: frozenset[str]


@dataclass
class Graph:
    """What can be reached: from each state, who moves it where. States that are ends have no moves.

    States are numbered in the order in which they were reached, the start is 0. Millions of them fit into memory:
    of a state's key there is a digest, and moves are numbers in arrays.
    """

    case: Case
    numbers: dict[bytes, int] = field(default_factory=dict)
    ends: dict[int, End] = field(default_factory=dict)
    there: list[frozenset[str]] = field(default_factory=list)
    origins: array[int] = field(default_factory=lambda: array("i"))
    how: list[str] = field(default_factory=list)
    first: array[int] = field(default_factory=lambda: array("q"))
    """The place of a state's first move in `movers` and `targets`."""
    movers: list[str] = field(default_factory=list)
    targets: array[int] = field(default_factory=lambda: array("i"))

    def __len__(self) -> int:
        return len(self.numbers)

    def open(self) -> Iterator[int]:
        """The states that are no ends."""
        return (state for state in range(len(self)) if state not in self.ends)

    def moves(self, state: int, by: Callable[[str], bool]) -> Iterator[int]:
        """The states to which a move of some leads."""
        last = self.first[state + 1] if state + 1 < len(self.first) else len(self.targets)
        return (self.targets[n] for n in range(self.first[state], last) if by(self.movers[n]))

    def reaching(self, goal: Iterable[int], by: Callable[[str], bool]) -> bytearray:
        """Tells of each state whether moves of some alone lead from it to a goal."""
        found = bytearray(len(self))
        for state in goal:
            found[state] = True
        more = True
        while more:
            more = False
            for state in reversed(range(len(self))):
                if not found[state] and any(found[other] for other in self.moves(state, by)):
                    found[state] = more = True
        return found

    def reached(self, by: Callable[[str], bool]) -> set[int]:
        """The states to which moves of some alone lead from the start."""
        found, waiting = {0}, [0]
        while waiting:
            fresh = set(self.moves(waiting.pop(), by)) - found
            found |= fresh
            waiting += fresh
        return found

    def story(self, state: int) -> str:
        told: list[str] = []
        while state:
            told.append(self.how[state])
            state = self.origins[state]
        return "; ".join([str(self.case), *reversed(told)])


def twin(thing: Any) -> Any:
    other = object.__new__(type(thing))
    other.__dict__.update(thing.__dict__)
    return other


def copied(model: Model) -> Model:
    """A copy that shares what nobody changes; much cheaper than the model's own."""
    other: Model = twin(model)
    other.things = {n: twin(thing) for n, thing in model.things.items()}
    for name in ("edges", "watches", "last_seen", "waits_until"):
        setattr(other, name, getattr(model, name).copy())
    other.debates = [twin(debate) for debate in model.debates]
    for debate in other.debates:
        for name in ("critiques", "answers", "duties", "since", "votes", "decisions", "away"):
            setattr(debate, name, getattr(debate, name).copy())
    return other


def key_of(model: Model, there: frozenset[str]) -> Key:
    """What of a state matters for what comes: no times, no numbers of answers."""
    debate = model.debates[0]
    duties = sorted(
        (who, model.things[item].author, duty, s) for (who, item, duty), s in debate.duties.items()
    )
    critics = sorted(
        (model.things[n].author, model.things[n].status, n in debate.answers) for n in debate.critiques
    )
    votes = sorted((owner, vote[0], vote[2]) for owner, vote in debate.votes.items())
    decided = sorted((owner, d[0], d[2]) for owner, d in debate.decisions.items())
    return (
        *(debate.state, debate.outcome, tuple(duties), tuple(critics), tuple(votes), tuple(decided)),
        *(tuple(sorted(debate.away)), tuple(sorted(there))),
    )


def end_of(model: Model) -> End:
    debate = model.debates[0]
    critiques = [model.things[n] for n in debate.critiques]
    arguing = frozenset(thing.author for thing in critiques if thing.status == "ACTIVE")
    return End(debate.state, debate.outcome, arguing)


def tick(there: frozenset[str]) -> Move:
    def move(model: Model) -> None:
        model.now += PRESENCE
        for agent in there:
            model.was_here(agent)
        model.lapse()

    return move


def moves_of(case: Case, model: Model, there: frozenset[str]) -> Iterator[tuple[str, str, Move]]:
    """Who, what, and the call: everything that those who are there can do."""
    debate = model.debates[0]
    critics = {model.things[n].author for n in debate.critiques}
    for a in sorted(there):
        for n in model.stand(debate):
            by = model.things[n].author
            if n not in debate.answers:
                yield (
                    a,
                    f"{a} answers {by}",
                    lambda m, a=a, n=n: m.post(a, "but", "REPLY", [("replies_to", n)]),
                )
        if a in case.more and a not in critics:
            yield a, f"{a} criticises", lambda m, a=a: m.post(a, "no", "CRITIQUE", [("critiques", ROOT)])
        yield a, f"{a} acknowledges", lambda m, a=a: m.acknowledge(a, ROOT)
        yield a, f"{a} withdraws", lambda m, a=a: m.withdraw(a, ROOT)
        yield a, f"{a} concedes", lambda m, a=a: m.concede(a, ROOT)
        if not case.quorum:
            yield a, f"{a} unwatches", lambda m, a=a: m.unwatch(a, ROOT)
        for outcome in ("stands", "falls"):
            yield (
                *(a, f"{a} decides {outcome}"),
                lambda m, a=a, o=outcome: m.decide(a, ROOT, case.deciders, o),
            )
            yield (
                *(a, f"{a} confirms {outcome}"),
                lambda m, a=a, o=outcome: m.confirm(a, ROOT, case.deciders, o),
            )
        if case.quorum:
            for way in (True, False):
                yield a, f"{a} votes {way}", lambda m, a=a, w=way: m.vote(a, ROOT, w)
    yield TICK, TICK, tick(there)


def begun(case: Case) -> Model:
    model = Model()
    model.presence, model.quorum = case.presence, case.quorum
    model.owners.update(case.agents)
    model.post("alice", "claim", "HYPOTHESIS", [])
    for critic in case.critics:
        model.post(critic, f"no, says {critic}", "CRITIQUE", [("critiques", ROOT)])
    if case.opener:
        model.open(case.opener, ROOT, [a for a in case.agents if a not in ("alice", case.opener)][:1])
    return model


def explore(case: Case) -> Graph:
    everybody = frozenset(case.agents)
    graph = Graph(case)
    waiting: deque[bytes] = deque()

    def reach(state: int, what: str, model: Model, there: frozenset[str]) -> int:
        """Returns the number of the model's state, which is new, or known from elsewhere."""
        digest = blake2b(repr(key_of(model, there)).encode(), digest_size=16).digest()
        number = graph.numbers.setdefault(digest, len(graph))
        if number == len(graph.origins):
            graph.origins.append(state)
            graph.how.append(sys.intern(what))
            graph.there.append(there)
            if model.debates[0].state == "OPEN":
                waiting.append(compress(pickle.dumps(model, pickle.HIGHEST_PROTOCOL), 1))
            else:
                graph.ends[number] = end_of(model)
        return number

    def move(state: int, who: str, what: str, model: Model, there: frozenset[str]) -> None:
        other = reach(state, what, model, there)
        if other != state:
            graph.movers.append(sys.intern(who))
            graph.targets.append(other)

    reach(0, "", begun(case), everybody)
    while len(graph.first) < len(graph):
        state = len(graph.first)
        graph.first.append(len(graph.targets))
        if state in graph.ends:
            continue
        standing, there = pickle.loads(decompress(waiting.popleft())), graph.there[state]
        for who, what, make in moves_of(case, standing, there):
            other = copied(standing)
            try:
                make(other)
            except Nope:
                continue
            move(state, who, what, other, there)
        if len(everybody - there) < case.leavers:
            for agent in sorted(there):
                move(state, "", f"{agent} leaves", standing, there - {agent})
    return graph


PLAIN = {"alice": "alice", "bob": "bob", "carol": "carol"}
TEAM = {"alice": "alice", "alice2": "alice", "bob": "bob", "bob2": "bob"}
FOUR = {**PLAIN, "dave": "dave"}

CASES = [
    Case({"alice": "alice", "bob": "bob"}, leavers=2),
    Case(PLAIN, leavers=2),
    Case(PLAIN, critics=("bob", "carol")),
    Case(PLAIN, deciders=("carol",), leavers=2),
    Case(PLAIN, deciders=("bob",), leavers=2),
    Case(PLAIN, deciders=("alice",), leavers=2),
    Case(PLAIN, critics=(), opener="alice", leavers=2, more=("bob",)),
    Case(PLAIN, critics=(), opener="bob", leavers=2),
    Case(PLAIN, quorum=2),
    Case(TEAM, leavers=2),
    Case(FOUR),
    Case(FOUR, deciders=("dave",)),
]
LARGE = [  # with as many leavers as take minutes: one more often takes hours
    Case(PLAIN, critics=("bob", "carol"), leavers=3),
    Case(PLAIN, quorum=2, leavers=3),
    Case(FOUR, critics=("bob", "carol"), deciders=("dave",), leavers=2),
    Case(FOUR, critics=("bob", "carol"), leavers=3, more=("dave",)),
    Case(FOUR, critics=("bob", "carol", "dave")),
    Case(FOUR, critics=("bob", "carol"), deciders=("dave", "carol"), leavers=3),
    Case(FOUR, quorum=2, leavers=2),
    Case(FOUR, quorum=2, leavers=0, more=("carol",)),
    Case({**TEAM, "carol": "carol"}, critics=("bob", "carol"), leavers=2),
    Case({**TEAM, "dave": "dave"}, deciders=("dave",), leavers=4),
]


@pytest.fixture(scope="module", params=[*CASES, *(LARGE if NIGHTLY else ())], ids=str)
def graph(request: pytest.FixtureRequest) -> Graph:
    found = explore(request.param)
    print(f"{len(found)} states, {len(found.targets)} moves")
    return found


def test_whoever_is_there_can_close_the_debate(graph: Graph) -> None:
    """From wherever it got to, by calls of those who are there and time alone."""
    closable = graph.reaching(graph.ends, bool)
    stuck = [s for s in graph.open() if not closable[s] and graph.there[s]]
    assert not stuck, graph.story(stuck[0])


def test_without_a_bound_on_presence_somebody_would_be_stuck() -> None:
    """The search sees what it is there to see: the only decider, a critic, has left for good."""
    graph = explore(Case(PLAIN, deciders=("bob",), leavers=2, presence=0))
    closable = graph.reaching(graph.ends, bool)
    assert any(graph.there[s] == {"carol"} for s in graph.open() if not closable[s])


def test_two_owners_besides_the_author_can_end_it_either_way(graph: Graph) -> None:
    """Whatever the author's side does or leaves undone: what they agree on happens."""
    agents = graph.case.agents

    def theirs(who: str) -> bool:
        return who == TICK or (who != "" and agents[who] != "alice")

    for outcome in ("stands", "falls"):
        able = graph.reaching([s for s, end in graph.ends.items() if end.outcome == outcome], theirs)
        for state in graph.open():
            owners = {agents[who] for who in graph.there[state]} - {"alice"}
            assert len(owners) < 2 or able[state], (outcome, graph.story(state))


def test_neither_the_author_nor_a_critic_ends_it_alone_in_its_own_favour(graph: Graph) -> None:
    case = graph.case
    for side in ("alice", *case.critics):
        alone = graph.reached(
            lambda who, side=side: who in ("", TICK) or case.agents[who] == case.agents[side]  # type: ignore[misc]
        )
        for state in alone & graph.ends.keys():
            end = graph.ends[state]
            if side == "alice":
                assert (end.state, end.outcome) == ("CONSENSUS", "falls"), graph.story(state)
            elif side not in case.deciders and side in end.arguing:
                assert end.state == "WITHDRAWN", graph.story(state)


def test_a_debate_ends_in_every_way_that_there_is(graph: Graph) -> None:
    """The search comes by what it is about."""
    case = graph.case
    found = {(end.state, end.outcome) for end in graph.ends.values()}
    if case.quorum == 0 and len(set(case.agents.values())) > 2 and case.critics:
        assert {("CONSENSUS", "stands"), ("CONSENSUS", "falls"), ("DECIDED", "falls")} <= found
