"""A board as plain dictionaries, with which the state machine compares every store.

It shares no code with the stores or the guard: statuses are strings, closures are computed by repetition until nothing
changes, and every rule is written a second time. It keeps only what is visible from outside: items, edges, debates and
obligations, but no log.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from .footing import Footing
from .pacts import Impossible
from .wondering import WEEK, Wondering

BOTH_WAYS = ("replies_to", "critiques", "supports", "refutes")
FINAL = ("WITHDRAWN", "INVALIDATED")
FELL = ("falls", "amended")
DUE = ("outstanding", "watching")
"""States of a duty that may still be asked for: now, or once every critique is answered."""
MOVES = {
    "ACTIVE": ("DEBATED", "RESOLVED", "WITHDRAWN", "INVALIDATED"),
    "DEBATED": ("ACTIVE", "RESOLVED", "WITHDRAWN", "INVALIDATED"),
    "RESOLVED": ("ACTIVE", "DEBATED", "WITHDRAWN", "INVALIDATED"),
    "WITHDRAWN": (),
    "INVALIDATED": (),
}

Said = Sequence[tuple[str, int]]
"""The edges of a draft, as pairs of kind and number."""


class Nope(Exception):
    """The call must fail and change nothing."""


@dataclass
class Thing:
    """An item: `texts` holds every version, tombstones as ''. A `private` one is seen by its author only."""

    number: int
    type: str
    author: str
    private: bool
    key: str | None
    texts: list[str]
    thread: int
    status: str = "ACTIVE"
    zone: str = "working"
    importance: int = 3
    expires: float | None = None
    ttl: float | None = None
    writer: str = ""
    """The writer of the last version that is no tombstone; empty for the first version."""
    gone: bool = False
    """True if the last version is a tombstone."""
    then: dict[int, int] = field(default_factory=dict)
    """The number of versions, without tombstones, that other entries had when it was posted, by item number."""

    def leads_to(self, other: Thing) -> bool:
        """Tells whether all who see the other item see this one."""
        return not self.private or (other.private and other.author == self.author)

    def behind(self) -> set[str]:
        """Returns the author and the last writer."""
        return {self.author, self.writer or self.author}


@dataclass
class Quarrel:
    """A debate. `duties` maps (agent, item, duty) to its state, `since` to the time when it was last asked for.

    `votes` maps an owner to the agent that voted, the version, and the vote. `decisions` maps an owner to the agent
    that decided, the version, the outcome, and the item that replaces the root. `away` are agents that did not come to
    confirm.
    """

    root: int
    opener: str
    explicit: bool
    moved: float
    state: str = "OPEN"
    outcome: str = ""
    critiques: list[int] = field(default_factory=list)
    answers: dict[int, int] = field(default_factory=dict)
    duties: dict[tuple[str, int, str], str] = field(default_factory=dict)
    since: dict[tuple[str, int, str], float] = field(default_factory=dict)
    votes: dict[str, tuple[str, int, bool]] = field(default_factory=dict)
    decisions: dict[str, tuple[str, int, str, int]] = field(default_factory=dict)
    away: set[str] = field(default_factory=set)
    gave_way_to: int = 0
    closers: tuple[str, ...] = ()


@dataclass
class Asked:
    """A request for a summary: the sources' sequences when it was made, and its holder, lease and token."""

    stamps: dict[int, int]
    due: float
    holder: str | None = None
    until: float = 0.0
    lease: int = 0


class Model(Footing, Wondering):
    """The model of a board; its methods raise `Nope` where the store must refuse."""

    def __init__(self) -> None:
        Footing.__init__(self)
        Wondering.__init__(self)
        self.now = 0.0
        self.things: dict[int, Thing] = {}
        self.edges: set[tuple[int, str, int]] = set()
        self.debates: list[Quarrel] = []
        self.watches: dict[tuple[str, int], str] = {}
        self.watched_since: dict[tuple[str, int], float] = {}
        self.topics: dict[tuple[str, str], float] = {}
        self.last_seen: dict[str, float] = {}
        self.waits_until: dict[str, float] = {}
        """Until when nobody who is away is let go for an agent that came back."""
        self.quorum = self.expiry = 0
        self.presence = 900
        self.lease = 86_400
        self.agreed: set[tuple[int, str, int]] = set()
        """Claims on others' items that their authors agreed to, as edges."""
        self.leaving: list[tuple[int, bool]] = []
        """Items that the present post agrees to have superseded, and whether each had fallen before."""
        self.asked: dict[int, Asked] = {}
        self.roles: dict[str, str] = {}
        """Roles that the board gives agents, all of whom have an admin's credential."""

    def kept(self) -> Model:
        """Returns a copy that shares nothing with this one."""
        copied: Model = pickle.loads(pickle.dumps(self, pickle.HIGHEST_PROTOCOL))
        return copied

    # Rights

    def let_in(self, agent: str, action: str) -> None:
        """Checks that the agent's role on the board allows the action.

        Raises:
            Nope: it does not.
        """
        role = self.roles.get(agent, "admin")
        if role != "admin" and (action == "administer" or role in ("observer", "summariser")):
            raise Nope

    def give_role(self, by: str, agent: str, role: str | None) -> None:
        self.let_in(by, "administer")
        if by == agent and role not in (None, "admin"):
            raise Nope
        if role is None:
            self.roles.pop(agent, None)
        else:
            self.roles[agent] = role

    # Protection

    def open_debates(self) -> list[Quarrel]:
        return [d for d in self.debates if d.state == "OPEN"]

    def about(self, number: int) -> list[Quarrel]:
        """Returns the open debates about an item; the one of which it is the root comes first."""
        listed = [d for d in self.open_debates() if number == d.root or number in d.critiques]
        return sorted(listed, key=lambda d: d.root != number)

    def in_debate(self) -> set[int]:
        """Returns the closure of all open debates, in which a hidden item leads to none that others see."""
        reached = {n for d in self.open_debates() for n in (d.root, *d.critiques)}
        while True:
            before = len(reached)
            for source, kind, target in self.edges:
                one, other = self.things[source], self.things[target]
                if source in reached and kind in (*BOTH_WAYS, "depends_on") and one.leads_to(other):
                    reached.add(target)
                if target in reached and kind in BOTH_WAYS and other.leads_to(one):
                    reached.add(source)
            if len(reached) == before:
                return reached

    def owing(self) -> set[int]:
        """Returns the items to which somebody owes something."""
        duties = [duty for d in self.debates for duty in d.duties.items()]
        owed = {key[1] for key, state in duties if state == "outstanding"}
        owed |= {number for (_, number), state in self.questions.items() if state == "outstanding"}
        owed |= {number for number, pact in self.pacts.items() if "outstanding" in pact.words.values()}
        return owed | {number for (_, number), state in self.watches.items() if state == "outstanding"}

    def owed_by(self, agent: str) -> set[tuple[int, str]]:
        """Returns what waits for an agent: nothing for one that may only read.

        While it objects to an item, it need not agree to it, nor judge a debate that the item is an answer in.
        """
        if self.roles.get(agent) in ("observer", "summariser"):
            return set()
        objects = {
            d.root for d in self.open_debates() for n in self.stand(d) if self.things[n].author == agent
        }
        later = {d.root for d in self.open_debates() if objects.intersection(d.answers.values())}
        later -= {n for (who, n), state in self.watches.items() if (who, state) == (agent, "outstanding")}
        put_off = {*((n, "agree") for n in objects), *((n, "acknowledge") for n in later)}
        return self.duties_of(agent) - put_off

    def duties_of(self, agent: str) -> set[tuple[int, str]]:
        duties = [duty for d in self.debates for duty in d.duties.items()]
        owed = {(key[1], key[2]) for key, state in duties if key[0] == agent and state == "outstanding"}
        owed |= {
            (n, "respond")
            for (who, n), state in self.questions.items()
            if (who, state) == (agent, "outstanding")
        }
        owed |= {(n, "agree") for n, pact in self.pacts.items() if pact.words.get(agent) == "outstanding"}
        return owed | {
            (number, "acknowledge")
            for (who, number), state in self.watches.items()
            if who == agent and state == "outstanding"
        }

    def waived(self) -> set[tuple[int, str, int, str]]:
        """Returns the duties that were waived, as tuples of debate, agent, item and duty.

        The debate is its place in the list of debates, or -1 if there is none.
        """
        listed = [
            (n, *key)
            for n, d in enumerate(self.debates)
            for key, state in d.duties.items()
            if state == "waived"
        ]
        alone = [(-1, *key, "acknowledge") for key, state in self.watches.items() if state == "waived"]
        asked = [(-1, *key, "respond") for key, state in self.questions.items() if state == "waived"]
        off = [
            (-1, name, number, "agree")
            for number, pact in self.pacts.items()
            for name, word in pact.words.items()
            if word in ("waived", "away")
        ]
        return {*listed, *alone, *asked, *off}

    def owed_in_all(self) -> set[tuple[str, int, str]]:
        agents = {key[0] for d in self.debates for key in d.duties}
        agents |= {who for who, _ in (*self.watches, *self.questions)}
        agents |= {name for pact in self.pacts.values() for name in pact.words}
        return {(agent, *duty) for agent in agents for duty in self.duties_of(agent)}

    def law(self) -> set[int]:
        return {
            t.number
            for t in self.things.values()
            if t.zone == "working"
            and t.type in ("CONSTRAINT", "HOT_ISSUE")
            and t.status in ("ACTIVE", "DEBATED")
        }

    def protected(self) -> set[int]:
        """Returns the items that no pass may take."""
        return self.in_debate() | self.owing() | self.law()

    def visible(self, agent: str) -> set[int]:
        """Returns the items that the agent may see."""
        return {t.number for t in self.things.values() if not t.private or t.author == agent}

    def see(self, agent: str, number: int) -> Thing:
        """Returns the item.

        Raises:
            Nope: the agent may not see it.
        """
        if number not in self.visible(agent):
            raise Nope
        return self.things[number]

    # Presence

    def was_here(self, agent: str) -> None:
        """Notes that the agent did something."""
        if self.now - self.last_seen.get(agent, float("-inf")) > self.presence:
            self.waits_until[agent] = self.now + self.presence
        self.last_seen[agent] = self.now

    def lets_go(self, who: str, absent: str, since: float) -> bool:
        """Tells whether an agent that is there waits no longer for one that was asked then, and is not there."""
        away = self.now - max(since, self.last_seen.get(absent, 0.0))
        return self.waits_until[who] <= self.now or away >= 259_200

    def notice(self, agent: str) -> None:
        """Notes an agent that was present but did nothing, if it did something before or owes something."""
        if agent in self.last_seen or self.duties_of(agent):
            self.was_here(agent)

    # Posting

    def post(
        self,
        agent: str,
        text: str,
        type_: str,
        edges: Said,
        *,
        key: str | None = None,
        private: bool = False,
        ttl: float | None = None,
        status: str | None = None,
        expected: int | None = None,
        importance: int | None = None,
        thread: int | None = None,
    ) -> int:
        for _, target in edges:
            self.see(agent, target)
        if thread is not None and self.see(agent, thread).private and not private:
            raise Nope
        for thing in self.things.values():
            same = key is not None and (thing.key, thing.private) == (key, private)
            if not same or (private and thing.author != agent):
                continue
            if thing.type != type_:
                raise Nope
            self.amend(agent, thing.number, text=text, edges=edges, ttl=ttl, status=status, expected=expected)
            return thing.number
        if expected and key is not None:
            raise Nope
        self.was_here(agent)
        if key is None and ttl is None and status is None and expected is None:
            again = self.said_before(agent, text, type_, edges, private=private)
            if again is not None:
                self.restore_one(again)
                return again
            known = None if private else self.found_before(agent, text, type_, edges)
            if known is not None:
                self.endorse(agent, known)
                self.restore_one(known)
                return known
        number = len(self.things) + 1
        joined = number if thread is None else self.things[thread].thread
        for kind, target in edges:
            if kind in ("replies_to", "critiques") and (private or not self.things[target].private):
                joined = self.things[target].thread
                break
        self.things[number] = Thing(number, type_, agent, private, key, [text], joined)
        self.things[number].importance = importance or (5 if type_ in ("CONSTRAINT", "HOT_ISSUE") else 3)
        self.things[number].then = {n: self.versions(n) for n, thing in self.things.items() if thing.key}
        self.things[number].ttl = ttl or None
        self.things[number].expires = self.now + ttl if ttl else None
        self.put(agent, number, edges)
        gone = self.connect(agent, number, edges)
        if status not in (None, "ACTIVE"):
            self.set_status(agent, number, str(status))
        self.replace(agent, number, edges, gone)
        return number

    def amend(
        self,
        agent: str,
        number: int,
        *,
        text: str | None = None,
        edges: Said = (),
        ttl: float | None = None,
        status: str | None = None,
        importance: int | None = None,
        expected: int | None = None,
    ) -> None:
        thing = self.see(agent, number)
        for _, target in edges:
            self.see(agent, target)
        if expected is not None and expected not in (
            (0, len(thing.texts)) if thing.gone else (len(thing.texts),)
        ):
            raise Nope
        if thing.key is None if text is not None else thing.gone:
            raise Nope
        self.was_here(agent)
        mine = thing.author == agent
        if not mine and thing.key is None and (ttl is not None or importance is not None):
            raise Nope
        if not mine and any(kind != "analyzed_by" for kind, _ in edges):
            raise Nope
        if thing.type == "SUMMARY" and (importance is not None or any(k != "analyzed_by" for k, _ in edges)):
            raise Nope
        if text is None:
            edges = [(k, t) for k, t in edges if (number, k, t) not in self.edges]
        else:
            self.restore_one(number)
            self.notices.pop(number, None)
            thing.texts.append(text)
            thing.writer, thing.gone = agent, False
            thing.expires = None if thing.ttl is None else self.now + thing.ttl
            if thing.status != "DEBATED":
                thing.status = "ACTIVE"
            self.ask_again(number)
            self.put(agent, number, edges)
            self.renew_pact(number)
        if ttl is not None:
            thing.ttl, thing.expires = ttl or None, self.now + ttl if ttl else None
        thing.importance = importance or thing.importance
        gone = self.connect(agent, number, edges)
        if status is not None and status != thing.status:
            self.set_status(agent, number, status)
        self.replace(agent, number, edges, gone)

    def delete(self, agent: str, key: str, *, private: bool = False, expected: int | None = None) -> int:
        named = [
            thing
            for thing in self.things.values()
            if (thing.key, thing.private) == (key, private) and (thing.author == agent or not private)
        ]
        if not named or named[0].gone or expected not in (None, len(named[0].texts)):
            raise Nope
        thing = named[0]
        if thing.number in self.protected():
            raise Nope
        self.was_here(agent)
        told = self.fallen(thing.number)
        self.notices.pop(thing.number, None)
        thing.texts.append("")
        thing.gone, thing.status, thing.zone = True, "WITHDRAWN", "archive"
        thing.ttl = thing.expires = None
        if not told:
            self.retract(thing.number)
        return thing.number

    def connect(self, agent: str, number: int, edges: Said) -> set[int]:
        """Adds edges; returns those of the items superseded by them that were retracted before."""
        thing = self.things[number]
        gone = {target for kind, target in edges if kind == "supersedes" and self.fallen(target)}
        for kind, target in edges:
            if target == number:
                raise Nope
            self.edges.add((number, kind, target))
            if kind == "depends_on" and number in self.leans_on(number):
                raise Nope
        self.cite(number, edges)
        self.leaving = []
        self.hear(agent, number, edges)
        if thing.private:
            return gone
        for kind, target in edges:
            cited = self.things[target]
            if kind == "supports" and thing.type != "CRITIQUE" and not cited.private:
                self.give_up(agent, target)
            if kind == "supports":
                self.agree(agent, target)
            theirs = {agent} != cited.behind() and not cited.private
            if kind == "critiques" and thing.type == "CRITIQUE" and theirs and thing.status not in FINAL:
                self.criticise(agent, number, target)
            if kind in BOTH_WAYS:
                self.answer(agent, number, target)
        return gone

    def give_up(self, agent: str, by: int) -> None:
        """Notes agreement: an agent that supports a claim against its owner's item agrees to it."""
        own = self.owner(agent)
        if own == self.owner(self.things[by].author):
            return
        claims = [edge for edge in self.edges if edge[0] == by and edge[1] in ("supersedes", "refutes")]
        for edge in sorted(set(claims) - self.agreed):
            thing = self.things[edge[2]]
            if thing.private or self.owner(thing.author) != own:
                continue
            told = self.fallen(thing.number)
            self.agreed.add(edge)
            if edge[1] == "supersedes":
                self.leaving.append((thing.number, told))
            elif thing.status not in FINAL and not self.about(thing.number):
                thing.status = "INVALIDATED"
                self.retract(thing.number)

    def replace(self, agent: str, number: int, edges: Said, gone: set[int]) -> None:
        """Archives items superseded by their own author, unless something protects them after everything else."""
        leaving, self.leaving = self.leaving, []
        for target, told in leaving:
            self.ask_no_more(target)
            self.end_pact(target)
            if target not in self.protected():
                self.things[target].zone = "archive"
            if not told:
                self.retract(target)
        for kind, target in [] if self.things[number].private else edges:
            cited = self.things[target]
            if kind == "supersedes" and cited.author == agent:
                self.ask_no_more(target)
                self.end_pact(target)
                if target not in self.protected():
                    cited.zone = "archive"
                if target not in gone:
                    self.retract(target)

    def leans_on(self, number: int) -> set[int]:
        """Returns the items reached over `depends_on` in one step or more."""
        reached: set[int] = set()
        fresh = {number}
        while fresh:
            fresh = {t for s, k, t in self.edges if k == "depends_on" and s in fresh} - reached
            reached |= fresh
        return reached

    def set_status(self, agent: str, number: int, status: str) -> None:
        thing = self.things[number]
        if status not in MOVES[thing.status]:
            raise Nope
        if status == "DEBATED":
            self.open(agent, number, [])
        elif status in FINAL and self.about(number) and self.about(number)[0].root == number:
            if not self.speaks_for(agent, number) or (status == "WITHDRAWN" and thing.author != agent):
                raise Nope
            if thing.type == "CONSTRAINT" and thing.author != agent:
                raise Nope
            thing.status = status
            self.close(self.about(number)[0], "CONSENSUS", "falls", agent)
        elif (
            (status == "WITHDRAWN" and thing.author != agent)
            or (
                thing.author != agent
                and (
                    thing.type == "CONSTRAINT"
                    or (status == "INVALIDATED" and thing.type == "CRITIQUE" and self.about(number))
                )
            )
            or (status == "INVALIDATED" and not self.about(number) and not self.speaks_for(agent, number))
        ):
            raise Nope
        elif thing.type == "CRITIQUE" and (
            status == "WITHDRAWN" or (status == "INVALIDATED" and self.about(number))
        ):
            self.take_back(number, status)
        elif status in ("RESOLVED", "ACTIVE") and self.about(number):
            raise Nope
        else:
            if status == "ACTIVE":
                self.restore_one(number)
            thing.status = status
            if status in ("RESOLVED", *FINAL):
                self.ask_no_more(number)
            if status == "RESOLVED":
                self.end_pact(number)
            if status in FINAL:
                self.retract(number)

    # Debates

    def ask(self, debate: Quarrel, agent: str, item: int, duty: str = "acknowledge") -> None:
        debate.duties[agent, item, duty] = "outstanding"
        if duty == "confirm":
            debate.away.discard(agent)
        debate.since[agent, item, duty] = self.now

    def ask_to_watch(self, debate: Quarrel, agent: str) -> None:
        if debate.duties.get((agent, debate.root, "acknowledge")) not in DUE:
            self.ask(debate, agent, debate.root)
            self.call_on_judges(debate)
            debate.moved = self.now

    def stand(self, debate: Quarrel) -> list[int]:
        """Returns the critiques in the debate that were not withdrawn or invalidated."""
        return [n for n in debate.critiques if self.things[n].status not in FINAL]

    def unanswered(self, debate: Quarrel) -> list[int]:
        """Returns the standing critiques without an answer."""
        return [n for n in self.stand(debate) if n not in debate.answers]

    def call_on_judges(self, debate: Quarrel) -> None:
        """Makes acknowledgements due if every critique is answered, and puts them off otherwise."""
        waiting = self.unanswered(debate)
        if self.quorum:
            asked = {
                k[1] for k, state in debate.duties.items() if k[2] == "respond" and state == "outstanding"
            }
            waiting = [n for n in waiting if n in asked]
        early = bool(waiting)
        before, after = ("outstanding", "watching") if early else ("watching", "outstanding")
        for key, state in debate.duties.items():
            if key[2] == "acknowledge" and state == before:
                debate.duties[key] = after
                if not early:
                    debate.since[key] = self.now
        for who, number in list(self.watches):
            if number == debate.root and self.watches[who, number] == before:
                self.watches[who, number] = after
                if not early:
                    self.watched_since[who, number] = self.now

    def answer(self, agent: str, number: int, target: int) -> None:
        """Notes the answer to a critique if its author is on the criticised side."""
        critique = self.things[target]
        if critique.type != "CRITIQUE" or critique.author == agent or critique.status in FINAL:
            return
        for debate in [d for d in self.open_debates() if target in d.critiques]:
            asked = [key for key in debate.duties if key[1:] == (target, "respond")]
            may = {self.owner(key[0]) for key in asked}
            for source, kind, other in self.edges:
                if (source, kind) == (target, "critiques"):
                    cited = self.things[other]
                    if cited.author == "system":
                        may |= {self.owner(agent)} - {self.owner(critique.author)}
                    elif (cited.writer or cited.author) != critique.author:
                        may.add(self.owner(cited.writer or cited.author))
            if self.owner(agent) not in may:
                continue
            new = target in self.unanswered(debate)
            debate.answers[target] = number
            own = [key for key in asked if self.owner(key[0]) == self.owner(agent)] or asked
            for key in own:
                new = new or debate.duties[key] != "acknowledged"
                debate.duties[key] = "acknowledged"
            if new:
                self.call_on_judges(debate)
                debate.moved = self.now

    def ask_again(self, number: int) -> None:
        """Asks for acknowledgements and answers again after a new version, since they were about another text."""
        for debate in self.open_debates():
            if debate.root == number:
                for key in [k for k, state in debate.duties.items() if state == "acknowledged"]:
                    if key[2] == "acknowledge":
                        self.ask(debate, key[0], key[1])
                version = len(self.things[number].texts)
                debate.decisions = {o: d for o, d in debate.decisions.items() if d[1] == version}
            elif number in debate.critiques:
                debate.answers.pop(number, None)
                for key in [k for k in debate.duties if k[1:] == (number, "respond")]:
                    self.ask(debate, *key)
                self.ask(debate, self.things[number].author, debate.root)
            else:
                continue
            self.call_on_judges(debate)
            self.call_off(debate)
            debate.moved = self.now

    def call_off(self, debate: Quarrel) -> None:
        """Waives confirmations when no decision waits for one."""
        for key, state in debate.duties.items():
            if key[2] == "confirm" and state == "outstanding" and not debate.decisions:
                debate.duties[key] = "waived"

    def begin(self, root: int, opener: str, watchers: Iterable[str], *, explicit: bool) -> Quarrel:
        self.restore_one(root)
        debate = Quarrel(root, opener, explicit, self.now)
        known = [who for (who, number), state in self.watches.items() if number == root and state != "waived"]
        by_topic = [who for who, topic in self.topics if self.concerns(topic, root)]
        for watcher in [*watchers, *known, *(w for w in by_topic if w != self.things[root].author)]:
            self.ask(debate, watcher, root)
        if self.things[root].status in ("ACTIVE", "RESOLVED"):
            self.things[root].status = "DEBATED"
        self.debates.append(debate)
        return debate

    def concerns(self, topic: str, number: int) -> bool:
        """Tells whether a topic matches an item; it supports only globs with one star at the end."""
        thing = self.things[number]
        kind, _, value = topic.partition(":")
        if kind == "key" and value.endswith("*"):
            rest = (thing.key or "").removeprefix(value[:-1])
            return thing.key is not None and thing.key.startswith(value[:-1]) and ":" not in rest
        return value == {"key": thing.key, "type": thing.type, "thread": str(thing.thread)}[kind]

    def criticise(self, agent: str, number: int, target: int) -> None:
        if self.things[target].gone:
            raise Nope
        about = self.about(target)
        if self.things[target].status in FINAL:
            return
        self.restore_one(target)
        debate = about[0] if about else self.begin(target, agent, [agent], explicit=False)
        debate.moved = self.now
        self.ask(debate, agent, debate.root)
        if debate.duties.get((agent, debate.root, "confirm")) == "outstanding":
            debate.duties[agent, debate.root, "confirm"] = "acknowledged"
        cited = self.things[target]
        answers = cited.writer if cited.author == agent else cited.author
        if answers != "system":
            self.ask(debate, answers, number, "respond")
        if number not in debate.critiques:
            debate.critiques.append(number)
        self.call_on_judges(debate)

    def open(self, agent: str, number: int, watchers: Sequence[str]) -> None:
        thing = self.see(agent, number)
        self.was_here(agent)
        if thing.private:
            raise Nope
        about = self.about(number)
        if about:
            for watcher in (agent, *watchers):
                self.ask_to_watch(about[0], watcher)
        elif thing.status in FINAL:
            raise Nope
        else:
            asked = [*watchers] if agent == thing.author else [agent, *watchers]
            self.begin(number, agent, asked, explicit=True)

    def watch(self, agent: str, number: int) -> None:
        if self.see(agent, number).gone:
            raise Nope
        self.was_here(agent)
        about = self.about(number)
        if about:
            self.ask_to_watch(about[0], agent)
            return
        self.restore_one(number)
        if self.watches.get((agent, number)) not in DUE:
            self.watches[agent, number] = "outstanding"
            self.watched_since[agent, number] = self.now

    def unwatch(self, agent: str, number: int) -> None:
        self.see(agent, number)
        self.was_here(agent)
        about = self.about(number)
        left = self.watches.get((agent, number)) in DUE
        if left:
            self.watches[agent, number] = "waived"
        changed = []
        for debate in self.debates:
            for (who, item, duty), state in debate.duties.items():
                named = item == number or (about and debate is about[0])
                if who == agent and duty in ("acknowledge", "confirm") and state in DUE and named:
                    debate.duties[who, item, duty] = "waived"
                    debate.moved = self.now
                    changed.append(debate)
        if not left and not changed:
            raise Nope
        for debate in changed:
            self.settle(debate)

    def follow(self, agent: str, topic: str) -> None:
        kind, _, value = topic.partition(":")
        if kind == "thread":
            thing = self.see(agent, int(value))
            if thing.private:
                raise Nope
            topic = f"thread:{thing.thread}"
        if (agent, topic) not in self.topics:
            if sum(who == agent for who, _ in self.topics) == 50:
                raise Nope
            self.topics[agent, topic] = self.now
            self.was_here(agent)

    def unfollow(self, agent: str, topic: str) -> None:
        kind, _, value = topic.partition(":")
        if kind == "thread":
            thing = self.see(agent, int(value))
            if thing.private:
                raise Nope
            topic = f"thread:{thing.thread}"
        if (agent, topic) not in self.topics:
            raise Nope
        del self.topics[agent, topic]
        self.was_here(agent)

    def acknowledge(self, agent: str, number: int) -> None:
        self.see(agent, number)
        self.was_here(agent)
        about = self.about(number)
        duties = [key for d in self.debates for key, state in d.duties.items() if state == "outstanding"]
        others = any((who, item) == (agent, number) for who, item, _ in duties)
        watched = self.watches.get((agent, number)) == "outstanding"
        if self.questions.get((agent, number)) == "outstanding" and not others and not watched:
            raise Nope
        owing = self.watches.get((agent, number)) == "outstanding" or any(
            (who, duty, state) == (agent, "acknowledge", "outstanding")
            and (item == number or (about and debate is about[0]))
            for debate in self.debates
            for (who, item, duty), state in debate.duties.items()
        )
        if self.agree(agent, number) and not owing:
            return
        met = False
        if self.watches.get((agent, number)) == "outstanding":
            self.watches[agent, number] = "acknowledged"
            met = True
        changed = []
        for debate in self.debates:
            whole = about and debate is about[0]
            for (who, item, duty), state in debate.duties.items():
                named = item == number or whole
                if who == agent and duty == "acknowledge" and state == "outstanding" and named:
                    debate.duties[who, item, duty] = "acknowledged"
                    debate.moved = self.now
                    changed.append(debate)
                    met = True
        if not met and (not about or self.unanswered(about[0])):
            raise Nope
        if about:
            debate = about[0]
            if not met and debate.duties.get((agent, debate.root, "acknowledge"), "waived") == "waived":
                debate.duties[agent, debate.root, "acknowledge"] = "acknowledged"
                debate.moved = self.now
            changed.append(debate)
        for debate in changed:
            self.settle(debate)

    def vote(self, agent: str, number: int, approve: bool) -> None:
        self.see(agent, number)
        self.was_here(agent)
        about = self.about(number)
        if not about:
            raise Nope
        debate = about[0]
        debate.votes = {owner: vote for owner, vote in debate.votes.items() if vote[0] != agent}
        debate.votes[self.owner(agent)] = (agent, len(self.things[debate.root].texts), approve)
        debate.moved = self.now
        if self.quorum:
            for who, item, duty in list(debate.duties):
                if (who, duty) == (agent, "acknowledge") and debate.duties[who, item, duty] in DUE:
                    debate.duties[who, item, duty] = "acknowledged"
            self.settle(debate)

    def settle(self, debate: Quarrel) -> None:
        if debate.state != "OPEN":
            return
        root = self.things[debate.root]
        own = {self.owner(who) for who in root.behind()}
        if self.quorum:
            counted = [
                approve
                for owner, (_, version, approve) in debate.votes.items()
                if owner not in own and version == len(root.texts)
            ]
            in_favour, against = counted.count(True), counted.count(False)
            if in_favour != against and max(in_favour, against) >= self.quorum:
                self.close(debate, "CONSENSUS", "stands" if in_favour > against else "falls")
            return
        watching = {k[0]: state for k, state in debate.duties.items() if k[2] == "acknowledge"}
        agreed = [self.owner(who) for who, state in watching.items() if state == "acknowledged"]
        still = self.unanswered(debate) or set(DUE) & set(watching.values())
        if all(set(agreed) - {who} for who in own) and not still:
            self.close(debate, "CONSENSUS", "stands", *sorted(agreed))

    def close(self, debate: Quarrel, state: str, outcome: str, *closers: str, to: int = 0) -> None:
        debate.state, debate.outcome, debate.gave_way_to, debate.closers = state, outcome, to, closers
        for key, standing in debate.duties.items():
            debate.duties[key] = "waived" if standing in DUE else standing
        for watch, standing in self.watches.items():
            if watch[1] == debate.root and standing == "watching":
                self.watches[watch] = "outstanding"
        root = self.things[debate.root]
        if outcome in FELL and root.status not in FINAL:
            root.status = "INVALIDATED"
        elif root.status == "DEBATED":
            root.status = "ACTIVE"
        if outcome in FELL:
            self.ask_no_more(debate.root)
            self.retract(debate.root)
            self.leave(debate.root)

    def take_back(self, number: int, status: str = "WITHDRAWN") -> None:
        critique = self.things[number]
        if critique.status in FINAL:
            raise Nope
        critique.status = status
        self.retract(number)
        self.leave(number)

    def leave(self, number: int) -> None:
        """Removes a critique from the open debates about it."""
        critique = self.things[number]
        for debate in [d for d in self.open_debates() if number in d.critiques]:
            left = self.stand(debate)
            moot = self.moot(debate)
            if moot.issuperset(left) and not debate.explicit:
                self.close(debate, "WITHDRAWN", "stands")
                continue
            argues = any(self.things[n].author == critique.author for n in left)
            for who, item, duty in list(debate.duties):
                own = who == critique.author and duty == "acknowledge" and not argues
                answer = (item == number or item in moot) and duty == "respond"
                if (own or answer) and debate.duties[who, item, duty] in DUE:
                    debate.duties[who, item, duty] = "waived"
            for other in moot.intersection(self.unanswered(debate)):
                debate.answers[other] = number
            if not argues:
                given = [o for o, d in debate.decisions.items() if d[0] == critique.author]
                debate.decisions = {o: d for o, d in debate.decisions.items() if o not in given}
                if given:
                    self.call_off(debate)
            self.call_on_judges(debate)
            debate.moved = self.now
            self.settle(debate)

    def moot(self, debate: Quarrel) -> set[int]:
        """Returns standing critiques whose only targets in the debate are critiques that are withdrawn or moot."""
        moot: set[int] = set()
        while True:
            known = len(moot)
            for critique in self.stand(debate):
                targets = {t for source, kind, t in self.edges if (source, kind) == (critique, "critiques")}
                targets &= {debate.root, *debate.critiques}
                gone = {t for t in targets if t in moot or self.things[t].status in FINAL}
                if targets and gone == targets and debate.root not in targets:
                    moot.add(critique)
            if len(moot) == known:
                return moot

    def withdraw(self, agent: str, number: int) -> None:
        thing = self.see(agent, number)
        self.was_here(agent)
        about = self.about(number)
        same = self.owner(thing.author) == self.owner(agent)
        if thing.type == "CRITIQUE" and (thing.author == agent or (about and same)):
            self.take_back(number)
            return
        if not about:
            raise Nope
        debate = about[0]
        critics = [self.things[n] for n in debate.critiques]
        left = [c for c in critics if c.status not in FINAL]
        own = [c for c in left if c.author == agent]
        own = own or [c for c in left if self.owner(c.author) == self.owner(agent)]
        if own:
            for critique in own:
                self.take_back(critique.number)
        elif (
            debate.explicit
            and debate.opener == agent
            and not self.speaks_for(agent, debate.root)
            and not self.stand(debate)
        ):
            self.close(debate, "WITHDRAWN", "open")
        else:
            raise Nope

    def speaks_for(self, agent: str, root: int) -> bool:
        """Tells whether the agent acts for the author or the last writer of the root."""
        return self.owner(agent) in {self.owner(who) for who in self.things[root].behind()}

    def instead(self, agent: str, root: int, outcome: str, to: int | None) -> int:
        """Returns the number of the item that replaces the root, or 0.

        Raises:
            Nope: the item cannot replace it, or the outcome needs another.
        """
        if outcome not in FELL if to is not None else outcome == "amended":
            raise Nope
        if to is None:
            return 0
        other = self.see(agent, to)
        if other.gone or to == root or other.private or other.status in FINAL:
            raise Nope
        return to

    def concede(self, agent: str, number: int, to: int | None = None) -> None:
        self.see(agent, number)
        self.was_here(agent)
        about = self.about(number)
        thing = self.things[number]
        if not about and agent == thing.author and not thing.private and thing.status not in FINAL:
            about = [self.begin(number, agent, [], explicit=True)]
        if not about or not self.speaks_for(agent, about[0].root):
            raise Nope
        other = self.instead(agent, about[0].root, "falls", to)
        authors = self.things[other].behind() if other else set()
        ours = any(self.speaks_for(who, about[0].root) for who in authors)
        against = (other, "refutes", about[0].root) in self.edges
        outcome = "amended" if ours and not against else "falls"
        self.close(about[0], "CONSENSUS", outcome, agent, to=other)

    def decide(
        self, agent: str, number: int, deciders: Sequence[str], outcome: str = "stands", to: int | None = None
    ) -> None:
        self.see(agent, number)
        self.was_here(agent)
        about = self.about(number)
        if not about or self.speaks_for(agent, about[0].root):
            raise Nope
        debate = about[0]
        other = self.instead(agent, debate.root, outcome, to)
        critics = {self.owner(self.things[n].author) for n in self.stand(debate)}
        if agent in deciders or (
            not self.deciders_here(debate, deciders) and self.owner(agent) not in critics
        ):
            self.close(debate, "DECIDED", outcome, agent, to=other)
            return
        said = (len(self.things[debate.root].texts), outcome, other)
        same = [d for d in self.decided_by_others(agent, debate) if d[1:] == said]
        if same and not self.deciders_here(debate, deciders):
            self.close(debate, "DECIDED", outcome, same[0][0], agent, to=other)
            return
        debate.decisions = {o: d for o, d in debate.decisions.items() if d[0] != agent}
        debate.decisions[self.owner(agent)] = (agent, *said)
        if debate.duties.get((agent, debate.root, "confirm")) == "outstanding":
            debate.duties[agent, debate.root, "confirm"] = "acknowledged"
        asked = self.deciders_here(debate, deciders) or self.concerned(debate, {self.owner(agent)})
        for name in asked:
            if debate.duties.get((name, debate.root, "confirm")) != "outstanding":
                self.ask(debate, name, debate.root, "confirm")
        debate.moved = self.now

    def confirm(self, agent: str, number: int, deciders: Sequence[str], outcome: str | None = None) -> None:
        self.see(agent, number)
        self.was_here(agent)
        about = self.about(number)
        if not about or self.speaks_for(agent, about[0].root):
            raise Nope
        debate = about[0]
        found = [d for d in self.decided_by_others(agent, debate) if outcome in (None, d[2])]
        if len({d[2:] for d in found}) != 1:
            raise Nope
        if agent not in deciders and self.deciders_here(debate, deciders):
            raise Nope
        self.close(debate, "DECIDED", found[0][2], found[0][0], agent, to=found[0][3])

    def deciders_here(self, debate: Quarrel, deciders: Sequence[str]) -> list[str]:
        """Returns the named deciders that were not absent when asked in this debate, without the author's side."""
        return [d for d in deciders if d not in debate.away and not self.speaks_for(d, debate.root)]

    def decided_by_others(self, agent: str, debate: Quarrel) -> list[tuple[str, int, str, int]]:
        """Returns the decisions on the present version by owners other than the agent's and the author's."""
        own = {self.owner(agent), *(self.owner(who) for who in self.things[debate.root].behind())}
        version = len(self.things[debate.root].texts)
        return [d for owner, d in debate.decisions.items() if owner not in own and d[1] == version]

    def concerned(self, debate: Quarrel, apart: set[str]) -> list[str]:
        """Returns the agents that may confirm a decision: watchers that act neither for the author nor for `apart`."""
        own = {self.owner(who) for who in self.things[debate.root].behind()} | apart
        watching = [k[0] for k, s in debate.duties.items() if k[2] == "acknowledge" and s != "waived"]
        return [who for who in watching if self.owner(who) not in own]

    def ask_others(self, debate: Quarrel) -> None:
        """Asks other watchers to confirm when all who were asked are absent."""
        asked = {k[0]: state for k, state in debate.duties.items() if k[2] == "confirm"}
        if not debate.decisions or "outstanding" in asked.values():
            return
        apart = set(debate.decisions) if len(debate.decisions) == 1 else set()
        for who in self.concerned(debate, apart):
            if who not in asked:
                self.ask(debate, who, debate.root, "confirm")

    # Expiry

    def legislate(self, quorum: int, lease: int, expiry: int, presence: int, patience: float = WEEK) -> None:
        self.patience = patience
        self.quorum, self.lease, self.expiry, self.presence = quorum, lease, expiry, presence

    def let_go(self) -> None:
        """Waives duties of absent agents in debates in which another participant is present."""
        then = self.now - self.presence
        here = {who for who, at in self.last_seen.items() if at > then}
        left = [
            (debate, key)
            for debate in self.open_debates()
            for key, state in debate.duties.items()
            if state == "outstanding" and debate.since[key] <= then and key[0] not in here
            if {who for who in self.parties(debate) & here if self.lets_go(who, key[0], debate.since[key])}
            - {key[0]}
        ]
        for debate in list({id(debate): debate for debate, _ in left}.values()):
            for _, key in [pair for pair in left if pair[0] is debate]:
                debate.duties[key] = "waived"
                if key[2] == "confirm":
                    debate.away.add(key[0])
            self.call_on_judges(debate)
            self.ask_others(debate)
            self.settle(debate)

    def part(self, agent: str) -> None:
        """Waives all that the agent owes and watches."""
        self.was_here(agent)
        self.topics = {key: since for key, since in self.topics.items() if key[0] != agent}
        for debate in self.open_debates():
            mine = [key for key, state in debate.duties.items() if key[0] == agent and state in DUE]
            for key in mine:
                debate.duties[key] = "waived"
                if key[2] == "confirm":
                    debate.away.add(agent)
            if mine and debate.state == "OPEN":
                self.call_on_judges(debate)
                self.ask_others(debate)
                self.settle(debate)
        for owed in (self.watches, self.questions):
            for pair, state in owed.items():
                if pair[0] == agent and state in DUE:
                    owed[pair] = "waived"
        for number, pact in self.pacts.items():
            if pact.words.get(agent) == "outstanding":
                pact.words[agent] = "away"
                self.settle_pact(number)

    def parties(self, debate: Quarrel) -> set[str]:
        decided = {d[0] for d in debate.decisions.values()}
        return {*(key[0] for key in debate.duties), *decided, self.things[debate.root].author}

    def ask_for_agreement(
        self, agent: str, number: int, names: Sequence[str], everybody: bool, enough: int
    ) -> None:
        """Asks others to agree to an item, by its author."""
        self.amend(agent, number)
        try:
            self.ask_to_agree(agent, number, names, everybody=everybody, enough=enough)
        except Impossible:
            raise Nope from None
        self.restore_one(number)

    def lapse(self) -> None:
        self.go_on_without()

        def away(agent: str, since: float) -> bool:
            last = max(since, self.last_seen.get(agent, since))
            return self.lease > 0 and last + self.lease <= self.now

        if self.presence:
            self.let_go()
        for key, state in self.watches.items():
            if state == "outstanding" and away(key[0], self.watched_since[key]):
                self.watches[key] = "waived"
        changed = []
        for debate in self.open_debates():
            for duty, state in debate.duties.items():
                late = duty[2] == "acknowledge" and state == "outstanding"
                if late and away(duty[0], debate.since[duty]):
                    debate.duties[duty] = "waived"
                    changed.append(debate)
        self.topics = {k: since for k, since in self.topics.items() if not away(k[0], since)}
        for debate in changed:
            self.settle(debate)
        for debate in self.open_debates():
            if self.expiry and debate.moved + self.expiry <= self.now:
                self.close(debate, "EXPIRED", "open")
        self.tire()

    # Leaving and returning

    def restore_one(self, number: int) -> None:
        if self.things[number].zone == "archive":
            self.things[number].zone = "working"
            self.things[number].ttl = self.things[number].expires = None

    def restore(self, agent: str, wanted: Iterable[int]) -> None:
        if any(self.see(agent, number).gone for number in wanted):
            raise Nope
        for number in wanted:
            if self.things[number].zone == "archive":
                self.was_here(agent)
            self.restore_one(number)

    def prune(self, wanted: Iterable[int], back: Collection[int] = ()) -> set[int]:
        """Moves the items that a pass's policy names, and returns them; `back` were recently restored and stay."""
        held = self.protected() | set(back)
        moved = {n for n in wanted if n in self.things and self.things[n].zone == "working"} - held
        for number in moved:
            self.things[number].zone = "archive"
        return moved

    def expire(self) -> set[int]:
        due = [t.number for t in self.things.values() if t.expires is not None and t.expires <= self.now]
        return self.prune(due)

    def covers(self, thread: int, sources: Sequence[int]) -> bool:
        """Tells whether a summary may replace these members of a thread."""
        members = [t for t in self.things.values() if t.thread == thread and t.zone == "working"]
        chosen = [self.things[n] for n in sources if n in self.things]
        if not chosen or len(chosen) < len(sources) or any(t not in members for t in chosen):
            return False
        if any(t.private or t.type == "CONSTRAINT" or t.number in self.protected() for t in chosen):
            return False
        if any(t.status == "ACTIVE" and t.importance == 5 for t in chosen):
            return False
        return not any(t.number > max(sources) and not t.private for t in members)

    def summarise(self, thread: int, sources: Sequence[int], text: str, author: str = "system") -> int | None:
        if not self.covers(thread, sources):
            return None
        number = len(self.things) + 1
        self.things[number] = Thing(number, "SUMMARY", author, False, None, [text], thread)
        cited = [("derived_from", source) for source in (*sources, *self.beginning(thread, sources))]
        for source in sources:
            self.things[source].zone = "archive"
        self.edges |= {(number, kind, source) for kind, source in cited}
        self.cite(number, cited, aware=True)
        self.asked.pop(thread, None)
        return number

    def beginning(self, thread: int, sources: Sequence[int]) -> list[int]:
        """Returns the first item of the thread if it left before the others: it is a source as well."""
        first = self.things[thread]
        there = thread in sources or first.zone != "archive"
        return [] if there or first.private or first.gone or first.type == "CONSTRAINT" else [thread]

    # Summaries that agents are asked for; `now` maps items to their sequences

    def ask_for(self, thread: int, stamps: dict[int, int], wait: float) -> bool:
        if thread in self.asked or not self.covers(thread, list(stamps)):
            return False
        self.asked[thread] = Asked(stamps, self.now + wait)
        return True

    def asked_by(self, number: int, now: dict[int, int]) -> tuple[int, Asked]:
        """Returns the request that an item belongs to, with its thread.

        Raises:
            Nope: there is none, or its thread changed.
        """
        for thread, asked in self.asked.items():
            if thread == number or number in asked.stamps:
                fresh = all(now.get(n) == seq for n, seq in asked.stamps.items())
                if not fresh or not self.covers(thread, list(asked.stamps)):
                    raise Nope
                return thread, asked
        raise Nope

    def take_on(self, agent: str, number: int, seconds: float, now: dict[int, int]) -> int:
        thread, asked = self.asked_by(number, now)
        if asked.holder not in (None, agent) and self.now < asked.until:
            raise Nope
        asked.holder, asked.until = agent, min(self.now + seconds, asked.due + 2 * seconds)
        return thread

    def write_up(self, agent: str, number: int, lease: int, text: str, now: dict[int, int]) -> int:
        thread, asked = self.asked_by(number, now)
        if asked.holder != agent or asked.lease != lease:
            raise Nope
        made = self.summarise(thread, list(asked.stamps), text, agent)
        assert made is not None
        return made
