"""The steps of a walk that concern debates: votes, watches, and what lapses by time."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from .invariants import Invariants
from .walking import AGENTS, agents, near, often_none

TOPICS = ("type:FACT", "type:CRITIQUE", "type:PLAN", "key:k:*", "key:k:a", "thread:")
"""Topics that agents watch; after `thread:` a number follows."""


WATCHERS = ("acknowledge", "confirm")
"""The duties of agents that watch a debate."""
DECIDERS = ((), (), (), ("alice",), ("bob", "carol"))


class Debating(Invariants):
    """The steps of agents in debates."""

    @rule(agent=agents, back=near)
    def acknowledge(self, agent: str, back: int) -> None:
        n = self.pick(back)
        self.both("acknowledge", self.at.acknowledge(agent, n), lambda m: m.acknowledge(agent, n))

    @rule(place=near)
    def judge(self, place: int) -> None:
        """An agent that owes an acknowledgement gives it."""
        owed = [(a, n) for a in AGENTS for n, duty in sorted(self.model.owed_by(a)) if duty == "acknowledge"]
        if owed:
            agent, n = owed[place % len(owed)]
            self.both("acknowledge", self.at.acknowledge(agent, n), lambda m: m.acknowledge(agent, n))

    @rule(agent=agents, back=near)
    def withdraw(self, agent: str, back: int) -> None:
        """A critique is withdrawn, every other time one of an open debate by its author."""
        n = self.pick(back)
        standing = [c for debate in self.model.open_debates() for c in self.model.stand(debate)]
        if standing and back % 2:
            n = standing[back % len(standing)]
            agent = self.model.things[n].author
        self.both("withdraw", self.at.withdraw(agent, n), lambda m: m.withdraw(agent, n))

    @rule(
        agent=agents,
        back=near,
        deciders=st.sampled_from(DECIDERS),
        outcome=st.sampled_from(["stands", "falls", "falls", "amended"]),
        to=near,
    )
    def decide(self, agent: str, back: int, deciders: tuple[str, ...], outcome: str, to: int) -> None:
        n, other = self.pick(back), self.pick(to) if outcome == "amended" else None
        self.both(
            "decide",
            self.at.decide(agent, n, "so be it", *deciders, outcome=outcome, to=other),
            lambda m: m.decide(agent, n, deciders, outcome, other),
        )

    @rule(
        agent=agents,
        back=near,
        deciders=st.sampled_from(DECIDERS),
        outcome=st.sampled_from([None, None, "stands", "falls"]),
    )
    def confirm(self, agent: str, back: int, deciders: tuple[str, ...], outcome: str | None) -> None:
        n = self.pick(back)
        self.both(
            "confirm",
            self.at.confirm(agent, n, *deciders, outcome=outcome),
            lambda m: m.confirm(agent, n, deciders, outcome),
        )

    @rule(place=near, outcome=st.sampled_from(["stands", "falls"]), agree=st.booleans(), ask=agents)
    def decide_as_a_party(self, place: int, outcome: str, agree: bool, ask: str) -> None:
        """A critic decides a debate, and sometimes another agent confirms it."""
        debates = [d for d in self.model.open_debates() if self.model.stand(d)]
        if not debates:
            return
        debate = debates[place % len(debates)]
        critic, root = self.model.things[self.model.stand(debate)[-1]].author, debate.root
        call = self.at.decide(critic, root, "it is so", outcome=outcome)
        self.both("decide", call, lambda m: m.decide(critic, root, (), outcome))
        if agree and self.model.about(root):
            self.catch_up()
            self.both("confirm", self.at.confirm(ask, root), lambda m: m.confirm(ask, root, ()))

    @rule(agent=agents, back=near, to=near, amend=often_none)
    def concede(self, agent: str, back: int, to: int, amend: bool) -> None:
        """An item is conceded, more often than not one in debate by its author."""
        debates = self.model.open_debates()
        n, other = self.pick(back), self.pick(to) if amend else None
        if debates and back % 2 == 0:
            n = debates[back % len(debates)].root
            agent = self.model.things[n].author
        if agent == "system":
            return
        self.both(
            "concede", self.at.concede(agent, n, "so it is", other), lambda m: m.concede(agent, n, other)
        )

    @rule(agent=agents, back=near)
    def watch(self, agent: str, back: int) -> None:
        n = self.pick(back)
        self.both("watch", self.at.watch(agent, n), lambda m: m.watch(agent, n))

    @rule(agent=agents, back=near)
    def unwatch(self, agent: str, back: int) -> None:
        """An agent ends its watch, every other time one that owes something in a debate."""
        n = self.pick(back)
        owed = [(a, item) for a in AGENTS for item, duty in sorted(self.model.owed_by(a)) if duty in WATCHERS]
        if owed and back % 2:
            agent, n = owed[back % len(owed)]
        self.both("unwatch", self.at.unwatch(agent, n), lambda m: m.unwatch(agent, n))

    @rule(agent=agents, back=near, approve=st.booleans())
    def vote(self, agent: str, back: int, approve: bool) -> None:
        n = self.pick(back)
        self.both("vote", self.at.vote(agent, n, approve), lambda m: m.vote(agent, n, approve))

    @rule(place=near, approve=st.booleans(), quorum=st.sampled_from([1, 1, 2]), stays=st.booleans())
    def vote_out(self, place: int, approve: bool, quorum: int, stays: bool) -> None:
        """All agents vote in one open debate, one after the other, until it is closed."""
        debates = self.model.open_debates()
        if not debates:
            return
        root = debates[place % len(debates)].root
        self.legislate(quorum, 0, 0)
        for agent in AGENTS:
            self.catch_up()
            if self.model.about(root):
                call = self.at.vote(agent, root, approve)
                self.both("vote", call, lambda m, a=agent: m.vote(a, root, approve))  # type: ignore[misc]
        self.catch_up()
        if not stays:
            self.legislate(0, 0, 0)

    @rule(agent=agents, topic=st.sampled_from(TOPICS), back=near, ends=often_none)
    def follow(self, agent: str, topic: str, back: int, ends: bool) -> None:
        """An agent begins to watch a topic, or ends a standing watch."""
        topic += str(self.pick(back)) if topic == "thread:" else ""
        if not ends:
            self.both("follow", self.at.follow(agent, topic), lambda m: m.follow(agent, topic))
            return
        held = [pair for pair in sorted(self.model.topics) if not pair[1].startswith("thread:")]
        who, ended = held[back % len(held)] if held else (agent, topic)
        self.both("unfollow", self.at.unwatch(who, ended), lambda m: m.unfollow(who, ended))

    @rule(
        agent=agents,
        owner=st.sampled_from((*AGENTS, "team", "team")),
        law=st.sampled_from(
            [None, None, (0, 0, 0, 900), (0, 20, 40, 15), (1, 20, 0, 0), (2, 0, 0, 15), (0, 0, 0, 15)]
        ),
    )
    def arrange(self, agent: str, owner: str, law: tuple[int, int, int, int] | None) -> None:
        """The board's settings or an agent's owner change, but no item does."""
        if law is not None:
            self.legislate(*law)
        else:
            call = self.at.store.set_owner(agent, owner)
            self.both("own", call, lambda m: m.owners.update({agent: owner}))

    def legislate(
        self, quorum: int, lease: int, expiry: int, presence: int = 900, patience: int = 604_800
    ) -> None:
        """Changes settings of the board."""
        self.catch_up()
        call = self.at.configure(
            quorum=quorum,
            watch_lease_seconds=lease,
            debate_expiry_seconds=expiry,
            presence_seconds=presence,
            question_expiry_seconds=patience,
        )
        self.both("legislate", call, lambda m: m.legislate(quorum, lease, expiry, presence, patience))

    @rule(
        seconds=st.sampled_from([0, 10, 20, 40]),
        law=st.sampled_from([None, None, (20, 0), (0, 20), (20, 40, 15), (0, 0, 15), (0, 0, 900, 20)]),
        there=st.sampled_from([None, *AGENTS]),
    )
    def lapse(self, seconds: int, law: tuple[int, ...] | None, there: str | None) -> None:
        """Time passes, and what ends by time ends. `law` has settings to make first; `None` keeps the present ones."""
        if law is not None:
            self.legislate(0, *law)
            self.catch_up()
        self.clock.advance(seconds)
        self.model.now += seconds
        if there is not None:
            here = self.at.here(there, self.clock.now())
            self.both("be there", here, lambda m: m.notice(there))
        before = self.model
        self.both("lapse", self.store.sweep_debates(), lambda m: m.lapse())
        expired = [d for d in self.model.debates if d.state == "EXPIRED"]
        self.outcome.happened["expired"] += len(expired) - sum(d.state == "EXPIRED" for d in before.debates)
        fewer = before.owed_in_all() - self.model.owed_in_all()
        tired = [key for key, state in self.model.questions.items() if state == "waived"]
        self.outcome.happened["questions lapsed"] += sum(
            before.questions.get(k) == "outstanding" for k in tired
        )
        self.outcome.happened["left by lease"] += any(duty == "acknowledge" for _, _, duty in fewer)
        self.outcome.happened["answer let go"] += any(duty == "respond" for _, _, duty in fewer)

    @rule(agent=agents, back=near, watchers=st.lists(agents, max_size=2, unique=True))
    def open(self, agent: str, back: int, watchers: list[str]) -> None:
        n = self.pick(back)
        self.both("open", self.at.open(agent, n, *watchers), lambda m: m.open(agent, n, watchers))
