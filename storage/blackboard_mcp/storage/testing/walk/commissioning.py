"""The steps of a walk that concern requests for summaries: agents are asked, take one and write it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import rule

from ..kit.leaving import summary
from .arguing import Debating
from .walking import agents, near


class Commissioning(Debating):
    """The steps of agents on summaries; see `BoardMachine`."""

    @rule(
        agent=agents,
        back=near,
        drop=st.integers(0, 1),
        do=st.sampled_from(["ask", "ask take", *3 * ["ask take write"], "take", "write", "stale"]),
    )
    def commission(self, agent: str, back: int, drop: int, do: str) -> None:
        """Does what `do` names: an agent is asked for a summary, takes the request, or writes it."""
        if not self.seen:
            return
        number = self.pick(back)
        if "ask" in do:
            number = self.ask_for(number, drop)
        if "take" in do and ("ask" not in do or number in self.model.asked):
            self.take_on(agent, number)
        if "write" in do or "stale" in do:
            if "ask" in do and number not in self.model.asked:
                return
            self.write_up(agent, number, "stale" in do)

    def ask_for(self, number: int, drop: int) -> int:
        """Asks for a summary of an item's thread, and returns the thread's number."""
        thread = self.model.things[number].thread
        sources = [t for t in self.model.things.values() if t.thread == thread and t.zone == "working"]
        chosen = [t.number for t in sources if not t.private and t.type != "CONSTRAINT"]
        stamps = {n: self.seen[n].seq for n in chosen[: max(0, len(chosen) - drop)]}
        made: list[bool] = []
        told = self.both(
            "ask",
            self.store.request_summary(self.at.board, thread, stamps, wait_seconds=20),
            lambda m: made.append(m.ask_for(thread, stamps, 20)),
        )
        self.check("I14", told == made[0], (thread, stamps))
        return thread

    def take_on(self, agent: str, number: int) -> None:
        """Makes an agent take the request on an item's thread."""
        self.catch_up()
        now = {n: item.seq for n, item in self.seen.items()}
        taken: list[int] = []
        got = self.both(
            "take on",
            self.store.take_summary(self.at.board, agent, number, seconds=15),
            lambda m: taken.append(m.take_on(agent, number, 15, now)),
        )
        if got is not None:
            wanted = {*got[0].seen, *self.model.beginning(got[0].thread, list(got[0].seen))}
            self.check("I14", {i.number for i in got[1]} == wanted, got)
            self.model.asked[taken[0]].lease = got[0].lease

    def write_up(self, agent: str, number: int, stale: bool) -> None:
        """Makes an agent write the summary, with `stale` under an outdated token."""
        self.catch_up()
        now = {n: item.seq for n, item in self.seen.items()}
        wanted = [(t, a) for t, a in self.model.asked.items() if t == number or number in a.stamps]
        thread, asked = wanted[0] if wanted else (number, None)
        lease = 0 if asked is None else asked.lease - stale
        places = {} if asked is None else asked.stamps
        self.calls += 1
        text = f"summary {self.calls}"
        written = replace(summary(thread, places, text), author=agent, writer="agent")
        made: list[int] = []
        id_ = self.both(
            "write up",
            self.store.write_summary(self.at.board, written, lease),
            lambda m: made.append(m.write_up(agent, number, lease, text, now)),
        )
        if id_ is not None:
            item = self.run(self.at.item(int(id_[2:])))
            self.check("I14", item.number == made[0], (id_, made))
            first = self.before.beginning(thread, list(places))
            self.check("I13", sorted(e.target for e in item.edges) == sorted({*places, *first}), item)
