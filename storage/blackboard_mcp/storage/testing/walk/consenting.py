"""The steps of a walk in which authors ask for agreement, and others give it."""

from __future__ import annotations

from dataclasses import replace

from blackboard_mcp.protocols.agreements import Ask
from hypothesis import strategies as st
from hypothesis.stateful import rule

from ..harness import draft
from .invariants import Invariants
from .pacts import FINISHED
from .walking import AGENTS, agents, near

FIT = ("FACT", "HYPOTHESIS", "PLAN", "CONSTRAINT", "HOT_ISSUE")


class Consenting(Invariants):
    """The steps in which authors ask others to agree, who then agree or stay away."""

    @rule(
        agent=st.sampled_from([None, None, None, None, None, *AGENTS]),
        back=near,
        others=st.lists(agents, max_size=2, unique=True),
        everybody=st.booleans(),
        enough=st.sampled_from([0, 0, 1, 2]),
        willing=st.sampled_from([0, 1, 2]),
        away=st.sampled_from([False, False, True]),
    )
    def ask_for_agreement(
        self,
        agent: str | None,
        back: int,
        others: list[str],
        everybody: bool,
        enough: int,
        willing: int,
        away: bool,
    ) -> None:
        """The author of an item asks for agreement, or sometimes any agent; some of those asked agree at once."""
        fit = [
            t
            for t in self.model.things.values()
            if t.type in FIT and not t.private and t.status not in FINISHED
        ]
        n = fit[-1 - back % len(fit)].number if agent is None and fit else self.pick(back)
        who = agent or self.model.things[n].author
        mine = self.model.owner(who)
        named = [name for name in others if agent is not None or self.model.owner(name) != mine]
        sent = replace(draft(None, on=n), agree=Ask(tuple(named), everybody, enough))
        self.both(
            "ask to agree",
            self.at.batch(who, sent),
            lambda m: m.ask_for_agreement(who, n, named, everybody, enough),
        )
        for place in range(willing):
            self.catch_up()
            self.agree(place, away=False)
        if away:
            self.catch_up()
            self.agree(back, away=True)

    @rule(place=near, away=st.booleans())
    def hear_back(self, place: int, away: bool) -> None:
        self.agree(place, away)

    def agree(self, place: int, away: bool) -> None:
        """One of the agents asked agrees; or with `away`, time passes in which only the asker is active."""
        owed = [(a, n) for a in AGENTS for n, duty in sorted(self.model.owed_by(a)) if duty == "agree"]
        if not owed:
            return
        agent, n = owed[place % len(owed)]
        if not away:
            self.both("agree", self.at.acknowledge(agent, n), lambda m: m.acknowledge(agent, n))
            return
        self.clock.advance(1_000)
        self.model.now += 1_000
        asker = self.model.pacts[n].by
        here = self.at.here(asker, self.clock.now())
        self.both("be there", here, lambda m: m.notice(asker))
        self.both("stay away", self.store.sweep_debates(), lambda m: m.lapse())
