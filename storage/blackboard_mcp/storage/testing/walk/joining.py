"""The steps of a walk in which the board gives roles, and agents write under valid or invalid grants."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from blackboard_mcp.protocols.access import Action, Role
from blackboard_mcp.protocols.board import BoardChange
from blackboard_mcp.protocols.grants import under
from hypothesis import strategies as st
from hypothesis.stateful import rule

from ..harness import draft
from ..kit.members import grant
from .invariants import Invariants
from .walking import agents, grouped, near

T = TypeVar("T")

GIVEN = (None, "observer", "summariser", "contributor", "steward", "admin", "admin")


class Joining(Invariants):
    """The steps of agents whose credentials are an admin's, but whose roles the board may restrict."""

    async def _granted(self, agent: str, action: Action, call: Coroutine[Any, Any, T]) -> T:
        with under(grant(agent, action)):
            return await call

    @rule(by=agents, agent=agents, role=st.sampled_from(GIVEN))
    def give_role(self, by: str, agent: str, role: str | None) -> None:
        change = BoardChange(members={agent: None if role is None else Role(role)})
        call = self.store.change_board(self.at.board, by, change)
        self.both(
            "give role",
            self._granted(by, Action.ADMINISTER, call),
            lambda m: m.give_role(by, agent, role),
            name="roles",
        )
        listed = {name: str(given) for name, given in self.run(self.store.members(self.at.board)).items()}
        self.check("roles", listed == self.model.roles, listed)

    @rule(agent=agents, back=near, alike=st.booleans())
    def post_by_role(self, agent: str, back: int, alike: bool) -> None:
        """An agent posts a reply or a fact, which its role on the board may forbid."""
        self.calls += 1
        words, type_ = f"by role {self.calls}", "FACT" if alike else "REPLY"
        pairs = [] if alike else [("replies_to", self.pick(back))]

        def told(model: Any) -> None:
            model.let_in(agent, "post")
            model.post(agent, words, type_, pairs)

        sent = draft(words, type_, **grouped(pairs))
        self.both(
            "post by role", self._granted(agent, Action.POST, self.at.batch(agent, sent)), told, name="roles"
        )
