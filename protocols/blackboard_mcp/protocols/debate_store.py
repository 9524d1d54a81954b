"""The contract of a board store for debates. The guarantees of `store` apply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .answers import (
    DebateView,
    Once,
)
from .debates import Outcome, StandingWatch
from .items import Item
from .topics import Topic


class DebateStore(Protocol):
    """A store of debates, and of the standing watches that oblige agents in them."""

    # Each call in a debate returns what `debate_status` would return in the same transaction.

    async def debate_open(
        self,
        board: str,
        agent: str,
        number: int,
        watchers: Sequence[str],
        *,
        once: Once | None = None,
        look: int = 0,
    ) -> DebateView | Item:
        """Opens a debate on the item, or adds the agent and `watchers` to the open one."""
        ...

    async def debate_watch(
        self, board: str, agent: str, number: int, *, once: Once | None = None, look: int = 0
    ) -> DebateView | Item:
        """Makes the agent owe an acknowledgement; until it is given, the item stays in working memory."""
        ...

    async def debate_unwatch(
        self, board: str, agent: str, number: int, *, once: Once | None = None, look: int = 0
    ) -> DebateView | Item:
        """Waives the acknowledgements that the agent still owes to the item or in its debate.

        Raises:
            Conflict: it owes none.
        """
        ...

    async def debate_acknowledge(
        self,
        board: str,
        agent: str,
        number: int,
        *,
        reason: str = "",
        version: int | None = None,
        once: Once | None = None,
        look: int = 0,
    ) -> DebateView | Item:
        """Records that the answers settle the debate and the item stands; closes it when every watcher agreed.

        That is possible once the criticised side answered every critique, or critiques were withdrawn. On a board with
        a quorum only votes close debates. At least one of those who acknowledge must not act for the owner of the
        author under criticism. A new version of the debated item makes all acknowledgements necessary again.

        Raises:
            Conflict: the agent owes none and no debate is open, or `version` is given and not the present one.
            Refused: a critique has no answer yet.
        """
        ...

    async def debate_vote(
        self,
        board: str,
        agent: str,
        number: int,
        *,
        approve: bool,
        reason: str = "",
        version: int | None = None,
        once: Once | None = None,
        look: int = 0,
    ) -> DebateView | Item:
        """Records the vote of the agent's owner on the present version, in place of its former vote.

        With a quorum the vote also counts as the agent's acknowledgement, and the debate closes when as many owners
        voted the same way; the owner of the author under criticism does not count. An item that is voted down is
        INVALIDATED.

        Raises:
            Conflict: no debate is open, or `version` is given and not the present one.
        """
        ...

    async def debate_withdraw(
        self,
        board: str,
        agent: str,
        number: int,
        reason: str,
        *,
        once: Once | None = None,
        look: int = 0,
    ) -> DebateView | Item:
        """Withdraws a critique of the agent or of its owner; a debate without critiques becomes WITHDRAWN."""
        ...

    async def debate_concede(
        self,
        board: str,
        agent: str,
        number: int,
        reason: str,
        *,
        to: int | None = None,
        once: Once | None = None,
        look: int = 0,
    ) -> DebateView | Item:
        """Gives up the debated item for the criticised side, which INVALIDATES it for good; item `to` may replace it.

        Raises:
            Conflict: no debate is open.
            Refused: the agent acts for neither the author nor the writer of the present version.
            UnknownReference, InvalidInput: `to` cannot replace it.
        """
        ...

    async def debate_decide(
        self,
        board: str,
        agent: str,
        number: int,
        reason: str,
        deciders: Sequence[str],
        *,
        outcome: Outcome | None,
        to: int | None = None,
        version: int | None = None,
        once: Once | None = None,
        look: int = 0,
    ) -> DebateView | Item:
        """Closes the debate: the item STANDS, FALLS or is AMENDED. Item `to` replaces it in the last two cases.

        AMENDED needs `to`, FALLS may have it. Agents of `deciders` may decide. If there are none, or all of them were
        asked and stayed away, any agent may that is neither a critic nor acts for one. Another agent's decision waits
        until another owner confirms it or decides the same; while any of `deciders` is present, one of them must. An
        agent of the owner of the author under criticism may never decide.

        Raises:
            Conflict: no debate is open, or `version` is given and not the present one.
            InvalidInput: there is no outcome, or it does not fit `to`.
            Refused: this agent may not decide.
        """
        ...

    async def debate_confirm(
        self,
        board: str,
        agent: str,
        number: int,
        deciders: Sequence[str],
        *,
        outcome: Outcome | None = None,
        version: int | None = None,
        once: Once | None = None,
        look: int = 0,
    ) -> DebateView | Item:
        """Closes the debate with a decision that another owner's agent could not make alone.

        Raises:
            Conflict: no debate is open, nobody decided so, or decisions differ and `outcome` does not choose one.
            Refused: the agent acts for the author under criticism, or a named decider is present to confirm.
        """
        ...

    async def debate_status(self, board: str, agent: str, number: int, *, look: int = 0) -> DebateView | Item:
        """Returns the newest debate about the item; the item alone if there never was one."""
        ...

    async def sweep_debates(self) -> list[str]:
        """Ends what the boards' settings let lapse, and returns the boards that it changed.

        These lapse: obligations in debates in which others wait, after an absence of `presence_seconds` in which one of
        the others was there, with no gap between its calls that was longer, or of three days if one is there now;
        acknowledgements and standing watches, after an absence of `watch_lease_seconds`; debates without a change for
        `debate_expiry_seconds`. One call does a bounded part; further calls do the rest.

        Nobody is let go for the time in which the store was closed: not before it has been open for `presence_seconds`,
        or for `watch_lease_seconds` if that is shorter and what ends. Time in which one process soon follows another,
        or runs beside it, counts as open; `sweep_tasks` leaves word of it.
        """
        ...

    # Standing watches: debates on matching items oblige the agent, and it is told of matching posts

    async def watch_topic(
        self, board: str, agent: str, topic: Topic, *, once: Once | None = None
    ) -> list[StandingWatch]:
        """Makes the agent watch the topic from now on; returns all its standing watches, the oldest first.

        Nothing changes if it watches the topic already.

        Raises:
            UnknownReference: the board or the thread does not exist.
            Refused: the agent watches too many topics, or the thread is private.
        """
        ...

    async def unwatch_topic(
        self, board: str, agent: str, topic: Topic, *, once: Once | None = None
    ) -> list[StandingWatch]:
        """Ends a standing watch; returns the agent's remaining ones, the oldest first.

        Obligations that it caused remain.

        Raises:
            Conflict: the agent does not watch the topic.
        """
        ...

    async def watches(self, board: str, agent: str) -> list[StandingWatch]:
        """Returns the agent's standing watches, the oldest first."""
        ...
