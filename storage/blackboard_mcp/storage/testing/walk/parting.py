"""The walk in which agents also leave the board, which waives all that they owe and watch."""

from __future__ import annotations

from hypothesis.stateful import rule

from .machine import BoardMachine
from .walking import agents, near


class PartingMachine(BoardMachine):
    """The machine of a board whose agents take part and leave."""

    @rule(agent=agents)
    def leave(self, agent: str) -> None:
        self.catch_up()
        before = self.model.owed_in_all()
        self.both("join", self.store.join(self.at.board, agent), lambda m: m.was_here(agent))
        self.both("leave", self.store.leave(self.at.board, agent), lambda m: m.part(agent))
        ended = before - self.model.owed_in_all()
        self.outcome.happened.update(f"waived {duty}" for who, _, duty in ended if who == agent)

    @rule(place=near)
    def leave_in_debt(self, place: int) -> None:
        """An agent leaves that owes something."""
        if owing := sorted({who for who, _, _ in self.model.owed_in_all()}):
            self.leave(owing[place % len(owing)])
