"""The contract of a board store for those who follow its log. The bargain is that of `store`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from .answers import (
    Once,
    Subscription,
)
from .groups import (
    ATTEMPTS,
    MAX_GROUPS,
    MAX_TAKEN,
    DeadLetter,
    Group,
    GroupState,
    Handle,
    Outlook,
    Taken,
    Turn,
)


class FollowingStore(Protocol):
    """Durable places in the log: subscriptions of one agent each, and groups that share the work."""

    # Subscriptions

    async def subscribe(
        self,
        board: str,
        agent: str,
        name: str,
        filter_: dict[str, Any],
        *,
        once: Once | None = None,
        most: int = 100,
    ) -> Subscription:
        """A new subscription from the present end of the log; one agent has at most `most` on a board, and never
        more than 100.

        Raises:
            UnknownReference: there is no such board.
            QuotaExceeded: too many.
        """
        ...

    async def unsubscribe(self, board: str, agent: str, id_or_name: str, *, once: Once | None = None) -> bool:
        """Ends a subscription, or forgets an expired one; false when there is neither."""
        ...

    async def subscriptions(self, board: str, agent: str) -> list[Subscription]:
        """The agent's own, oldest first; then those that expired of late, newest first."""
        ...

    async def find_subscription(self, board: str, agent: str, id_or_name: str) -> Subscription | None:
        """One of the agent's own.

        Raises:
            CursorExpired: it was unused for too long, or stands after the end of the log.
        """
        ...

    async def move_cursor(
        self, board: str, agent: str, id_: str, cursor: int, *, since: int | None = None
    ) -> bool:
        """Moves a subscription's cursor, which counts as a use of it; whether it was there to be moved.

        Without `since` the cursor becomes `cursor` unless it is further on: it never goes back. With `since`
        it becomes `cursor` only where it stands at `since`, so that of several readers one moves it.

        Raises:
            CursorExpired: `cursor` is no place of the log, as for `end_of_log`.
        """
        ...

    async def end_of_log(self, board: str, place: int | None = None) -> int:
        """The sequence that a board stands at, for whoever read its log up to `place`; 0 where there is no board.

        A place is 0 or the sequence of an event, or the number before one.

        Raises:
            CursorExpired: the log has no such place: it is ahead of the end, or another copy of the board gave it.
        """
        ...

    async def return_cursor(self, board: str, agent: str, id_: str, cursor: int) -> None:
        """Puts a cursor back that was moved for a delivery nobody got: what comes after is delivered again."""
        ...

    async def expire_subscriptions(self) -> list[str]:
        """Lets expire what was unused for longer than `subscription_lease_seconds`; the boards it changed.

        Where they stood is kept as long again. A bounded part of it a call; calling again does the rest.
        """
        ...

    # Consumer groups

    async def create_group(
        self,
        board: str,
        agent: str,
        name: str,
        filter_: dict[str, Any],
        *,
        since: int | None = None,
        max_attempts: int = ATTEMPTS,
        once: Once | None = None,
        most: int = MAX_GROUPS,
    ) -> Group:
        """A new group, from the present end of the log or from after `since`; the one that is there, if it has
        that filter.

        Raises:
            InvalidInput: a filter or a number that cannot be.
            UnknownReference: no such board, or `since` is after the end of its log.
            Conflict: there is a group of that name with another filter.
            Refused: too many groups, or the board is closed.
        """
        ...

    async def change_group(
        self,
        board: str,
        agent: str,
        name: str,
        *,
        filter_: dict[str, Any] | None = None,
        max_attempts: int | None = None,
        once: Once | None = None,
    ) -> Group:
        """Another filter for what is still to be handed out, or another number of attempts.

        Raises:
            UnknownReference: no such group.
            Refused: somebody else made it.
        """
        ...

    async def end_group(self, board: str, agent: str, name: str, *, once: Once | None = None) -> int:
        """Ends a group; what is in flight, and what is dead, is forgotten. The board's sequence.

        Errors as in `change_group`.
        """
        ...

    async def groups(self, board: str) -> tuple[list[GroupState], int]:
        """The groups of a board, by name, and its sequence."""
        ...

    async def consume(
        self, board: str, agent: str, name: str, turn: Turn, *, once: Once | None = None
    ) -> Taken:
        """Settles what the worker names and hands it what comes next, in one transaction.

        Events come by rising sequence: first those to be handed out again, then new ones. No event is held
        by two workers at once, by the clock of the store.

        Raises:
            UnknownReference: no such board or group.
            InvalidInput: a lease or a number out of its bounds, or a filter that cannot be.
            Conflict: something named is not the worker's any more; `late` says why. Or the group has another
                filter.
            Refused: the group is to be made, and cannot.
        """
        ...

    async def group_outlook(self, board: str, name: str) -> Outlook:
        """Whether `consume` would get something, without taking it; when it would not, it may after `next_due`."""
        ...

    async def dead_letters(
        self, board: str, name: str, *, after: int = 0, limit: int = MAX_TAKEN
    ) -> tuple[list[DeadLetter], int]:
        """Dead letters of events after a sequence, by sequence; and the board's sequence."""
        ...

    async def retry_dead(
        self, board: str, agent: str, name: str, wanted: Sequence[Handle], *, once: Once | None = None
    ) -> int:
        """Dead letters wait to be handed out again, as often as a new event may be. The board's sequence.

        Raises:
            Conflict: one of them is no dead letter under that handle. Nothing was changed.
            Refused: too much is in flight.
        """
        ...

    async def drop_dead(
        self, board: str, agent: str, name: str, wanted: Sequence[Handle], *, once: Once | None = None
    ) -> int:
        """Dead letters are done with. The board's sequence; errors as in `retry_dead`."""
        ...

    async def sweep_groups(self) -> list[str]:
        """Buries what no worker will get any more, and ends groups unused for `subscription_lease_seconds`.

        The boards it changed. A bounded part of it a call; calling again does the rest.
        """
        ...
