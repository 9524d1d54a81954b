"""No debate is left that everybody who is there wants closed and nobody can close: shown by trying everything.

Breadth first over all that a few agents can do in one debate, by the plain model, which the walks of
`test_invariants` hold every store against. Time moves by `TICK`, in which those who are there make a call and
the others do not; who has left makes none any more. What has been reached is looked at as a graph: which ends can be
reached from where, and by whose calls alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from blackboard_mcp.storage.testing.walk.model import Model, Nope, Quarrel
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


@dataclass
class Graph:
    """What can be reached: from each state, who moves it where. States that are ends have no moves."""

    start: Key
    ends: dict[Key, Quarrel] = field(default_factory=dict)
    moves: dict[Key, list[tuple[str, Key]]] = field(default_factory=dict)
    there: dict[Key, frozenset[str]] = field(default_factory=dict)
    how: dict[Key, tuple[Key | None, str]] = field(default_factory=dict)

    def reaching(self, goal: Iterable[Key], by: Callable[[str], bool]) -> set[Key]:
        """The states from which moves of some alone lead to a goal."""
        before: dict[Key, list[Key]] = {}
        for state, moves in self.moves.items():
            for who, other in moves:
                if by(who):
                    before.setdefault(other, []).append(state)
        found = set(goal)
        layer = list(found)
        while layer:
            layer = [s for state in layer for s in before.get(state, ()) if s not in found]
            layer = list(dict.fromkeys(layer))
            found.update(layer)
        return found

    def reached(self, by: Callable[[str], bool]) -> set[Key]:
        """The states to which moves of some alone lead from the start."""
        found, layer = {self.start}, [self.start]
        while layer:
            layer = [
                n for state in layer for who, n in self.moves.get(state, ()) if by(who) and n not in found
            ]
            layer = list(dict.fromkeys(layer))
            found.update(layer)
        return found

    def story(self, state: Key) -> str:
        told: list[str] = []
        place: Key | None = state
        while place is not None:
            place, what = self.how[place]
            told.append(what)
        return "; ".join(reversed(told))


def twin(thing: Any) -> Any:
    other = object.__new__(type(thing))
    other.__dict__.update(thing.__dict__)
    return other


def copied(model: Model) -> Model:
    """A copy that shares what nobody changes; much cheaper than the model's own."""
    other: Model = twin(model)
    other.things = {n: twin(thing) for n, thing in model.things.items()}
    for name in ("edges", "watches", "last_seen"):
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
        *(frozenset(debate.away), there),
    )


def still_argues(state: Key, critic: str) -> bool:
    """Whether a critique of the agent's was not taken back: who took all back is no party any more."""
    critics = state[3]
    assert isinstance(critics, tuple)
    return any((author, status) == (critic, "ACTIVE") for author, status, _ in critics)


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


def explore(case: Case) -> Graph:
    model = Model()
    model.presence, model.quorum = case.presence, case.quorum
    model.owners.update(case.agents)
    model.post("alice", "claim", "HYPOTHESIS", [])
    for critic in case.critics:
        model.post(critic, f"no, says {critic}", "CRITIQUE", [("critiques", ROOT)])
    if case.opener:
        model.open(case.opener, ROOT, [a for a in case.agents if a not in ("alice", case.opener)][:1])
    everybody = frozenset(case.agents)
    start = key_of(model, everybody)
    graph = Graph(start, how={start: (None, str(case))}, there={start: everybody})
    waiting = deque([(start, model, everybody)])

    def reach(state: Key, who: str, what: str, other: Model, there: frozenset[str]) -> None:
        new = key_of(other, there)
        if new == state:
            return
        graph.moves[state].append((who, new))
        if new in graph.how:
            return
        graph.how[new], graph.there[new] = (state, what), there
        if other.debates[0].state != "OPEN":
            graph.ends[new] = other.debates[0]
        else:
            waiting.append((new, other, there))

    while waiting:
        state, standing, there = waiting.popleft()
        graph.moves[state] = []
        for who, what, move in moves_of(case, standing, there):
            other = copied(standing)
            try:
                move(other)
            except Nope:
                continue
            reach(state, who, what, other, there)
        if len(everybody - there) < case.leavers:
            for agent in sorted(there):
                reach(state, "", f"{agent} leaves", standing, there - {agent})
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
LARGE = [
    Case(PLAIN, critics=("bob", "carol"), leavers=3),
    Case(PLAIN, quorum=2, leavers=3),
    Case(FOUR, critics=("bob", "carol"), deciders=("dave",), leavers=2),
    Case(FOUR, critics=("bob", "carol"), leavers=3, more=("dave",)),
    Case(FOUR, critics=("bob", "carol", "dave"), leavers=3),
    Case(FOUR, critics=("bob", "carol"), deciders=("dave", "carol"), leavers=3),
    Case(FOUR, critics=("bob",), quorum=2, leavers=2, more=("carol",)),
    Case({**TEAM, "carol": "carol"}, critics=("bob", "carol"), leavers=3),
    Case({**TEAM, "dave": "dave"}, deciders=("dave",), leavers=4),
]


@pytest.fixture(scope="module", params=[*CASES, *(LARGE if NIGHTLY else ())], ids=str)
def explored(request: pytest.FixtureRequest) -> tuple[Case, Graph]:
    graph = explore(request.param)
    print(f"{len(graph.how)} states, {sum(map(len, graph.moves.values()))} moves")
    return request.param, graph


def test_whoever_is_there_can_close_the_debate(explored: tuple[Case, Graph]) -> None:
    """From wherever it got to, by calls of those who are there and time alone."""
    _, graph = explored
    closable = graph.reaching(graph.ends, bool)
    stuck = [s for s in graph.moves if s not in closable and graph.there[s]]
    assert not stuck, graph.story(stuck[0])


def test_without_a_bound_on_presence_somebody_would_be_stuck() -> None:
    """The search sees what it is there to see: the only decider, a critic, has left for good."""
    graph = explore(Case(PLAIN, deciders=("bob",), leavers=2, presence=0))
    closable = graph.reaching(graph.ends, bool)
    assert any(graph.there[s] == {"carol"} for s in graph.moves if s not in closable)


def test_two_owners_besides_the_author_can_end_it_either_way(explored: tuple[Case, Graph]) -> None:
    """Whatever the author's side does or leaves undone: what they agree on happens."""
    case, graph = explored

    def theirs(who: str) -> bool:
        return who == TICK or (who != "" and case.agents[who] != "alice")

    for outcome in ("stands", "falls"):
        able = graph.reaching([s for s, d in graph.ends.items() if d.outcome == outcome], theirs)
        for state in graph.moves:
            owners = {case.agents[who] for who in graph.there[state]} - {"alice"}
            assert len(owners) < 2 or state in able, (outcome, graph.story(state))


def test_neither_the_author_nor_a_critic_ends_it_alone_in_its_own_favour(
    explored: tuple[Case, Graph],
) -> None:
    case, graph = explored
    for side in ("alice", *case.critics):
        alone = graph.reached(
            lambda who, side=side: who in ("", TICK) or case.agents[who] == case.agents[side]  # type: ignore[misc]
        )
        for state in alone & graph.ends.keys():
            debate = graph.ends[state]
            if side == "alice":
                assert (debate.state, debate.outcome) == ("CONSENSUS", "falls"), graph.story(state)
            elif side not in case.deciders and still_argues(state, side):
                assert debate.state == "WITHDRAWN", graph.story(state)


def test_a_debate_ends_in_every_way_that_there_is(explored: tuple[Case, Graph]) -> None:
    """The search comes by what it is about."""
    case, graph = explored
    found = {(d.state, d.outcome) for d in graph.ends.values()}
    if case.quorum == 0 and len(set(case.agents.values())) > 2 and case.critics:
        assert {("CONSENSUS", "stands"), ("CONSENSUS", "falls"), ("DECIDED", "falls")} <= found
