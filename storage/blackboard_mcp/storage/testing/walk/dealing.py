"""The steps of a walk that make transactions: writes and a call in a debate, if what was read is unchanged."""

from __future__ import annotations

from blackboard_mcp.protocols.debates import DebateCall, DebateOp
from hypothesis import strategies as st
from hypothesis.stateful import rule

from ..harness import draft
from ..kit.transacting import transact
from .invariants import Invariants
from .model import Model, Nope
from .walking import agents, near


class Dealing(Invariants):
    """The steps with transactions: the model makes the changes one by one, the store all at once or none."""

    @rule(
        agent=agents,
        back=near,
        ahead=near,
        op=st.sampled_from(["", "watch", "acknowledge", "open", "withdraw", "unwatch"]),
        fresh=st.booleans(),
        entry=st.booleans(),
        stale=st.sampled_from([False, False, False, True]),
    )
    def deal(self, agent: str, back: int, ahead: int, op: str, fresh: bool, entry: bool, stale: bool) -> None:
        """Posts a critique, an item that rests on it, and sometimes an entry; then makes a call in a debate."""
        target, other = self.pick(back), self.pick(ahead)
        self.calls += 1
        words = f"deal {self.calls}"
        version = len(self.model.things[target].texts) if target in self.model.visible(agent) else 0
        drafts = [
            draft(words, "CRITIQUE", critiques=target),
            draft(f"{words}, so", "FACT", supports=-1, depends_on=other),
        ]
        if entry:
            drafts.append(draft(f"{words}, planned", "PLAN", key="k:a"))
        calls = [DebateCall(DebateOp(op), -1 if fresh else target)] if op else []

        def told(m: Model) -> None:
            if stale:
                raise Nope
            first = m.post(agent, words, "CRITIQUE", [("critiques", target)])
            m.post(agent, f"{words}, so", "FACT", [("supports", first), ("depends_on", other)])
            if entry:
                m.post(agent, f"{words}, planned", "PLAN", [], key="k:a")
            about = first if fresh else target
            match op:
                case "watch":
                    m.watch(agent, about)
                case "acknowledge":
                    m.acknowledge(agent, about)
                case "open":
                    m.open(agent, about, [])
                case "withdraw":
                    m.withdraw(agent, about)
                case "unwatch":
                    m.unwatch(agent, about)

        reads = {str(target): version + stale}
        done = self.both("deal", transact(self.at, agent, reads, *drafts, debates=calls), told, name="I23")
        if done is not None:
            self.check("I23", done.seq == self.run(self.at.seq()), done.seq)
