"""The contract of a board store for debates. The bargain is that of `store`."""

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
    """Debates, and the standing watches that oblige agents in them."""

    # Each call in a debate answers as `debate_status` does, as of its own transaction.

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
        """The agent owes an acknowledgement; the item stays in working memory until it is given."""
        ...

    async def debate_unwatch(
        self, board: str, agent: str, number: int, *, once: Once | None = None, look: int = 0
    ) -> DebateView | Item:
        """Waives what the agent has yet to acknowledge of the item or of its debate.

        Raises:
            Conflict: there is no such thing.
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
        """Agrees that the answers settle the debate and the item stands; closes it when every watcher has agreed.

        Nobody can before every critique was answered by the criticised side or taken back. On a board with a quorum
        votes close debates, and acknowledgements do not. Somebody who does not act for the author under criticism
        must be among those who acknowledged. A new version of what is debated asks for all of them again.

        Raises:
            Conflict: nothing is owed and no debate open, or `version` is given and no longer the present one.
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

        With a quorum it meets what the agent has to acknowledge in the debate, and closes the debate when as
        many owners voted the same way; the owner of the author under criticism does not count. What is
        voted down is INVALIDATED.

        Raises:
            Conflict: no debate is open, or `version` is given and no longer the present one.
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
        """Takes a critique of the agent's, or its owner's, back; a debate without critiques is withdrawn."""
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
        """The side under criticism gives the item up, or up for item `to`: it is INVALIDATED for good.

        Raises:
            Conflict: no debate is open.
            Refused: the agent acts neither for the author nor for who wrote the version that stands.
            UnknownReference, InvalidInput: `to` cannot take its place.
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
        """Closes the debate: the item STANDS, FALLS, or is AMENDED, the last two with what takes its place (`to`).

        So do those of `deciders`; without any, or when all of them were asked and stayed away, any agent that is no
        critic and acts for none. What others decide waits until another owner confirms it or decides the same: one
        of `deciders` while any is here. Who acts for the author under criticism may never.

        Raises:
            Conflict: no debate is open, or `version` is given and no longer the present one.
            InvalidInput: there is no outcome, or it does not go with `to`.
            Refused: not this agent's to decide.
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
        """Closes the debate as another owner decided, which could not alone.

        Raises:
            Conflict: no debate is open, nobody decided so, or several decided differently and no outcome says which.
            Refused: the agent acts for the author under criticism, or a named decider is here to confirm.
        """
        ...

    async def debate_status(self, board: str, agent: str, number: int, *, look: int = 0) -> DebateView | Item:
        """The newest debate about the item; the item alone when there never was one."""
        ...

    async def sweep_debates(self) -> list[str]:
        """Lets lapse what the boards' settings say; the boards it changed.

        What is owed in debates by agents who were away longer than `presence_seconds` while others wait for them;
        acknowledgements and standing watches of agents who were away longer than `watch_lease_seconds`; debates that
        stood still for `debate_expiry_seconds`. A bounded part of it a call; calling again
        does the rest.
        """
        ...

    # Standing watches: debates that open on what they name oblige the agent; what is posted about it, it hears of

    async def watch_topic(
        self, board: str, agent: str, topic: Topic, *, once: Once | None = None
    ) -> list[StandingWatch]:
        """From now on the agent watches the topic; one that it watches already is left as it is.

        What the agent watches then, longest first.

        Raises:
            UnknownReference: the board or the thread is not there.
            Refused: too many, or the thread is private.
        """
        ...

    async def unwatch_topic(
        self, board: str, agent: str, topic: Topic, *, once: Once | None = None
    ) -> list[StandingWatch]:
        """Ends a standing watch; what it obliged the agent to already stays owed.

        What the agent watches then, longest first.

        Raises:
            Conflict: the agent does not watch it.
        """
        ...

    async def watches(self, board: str, agent: str) -> list[StandingWatch]:
        """The agent's own, longest first."""
        ...
