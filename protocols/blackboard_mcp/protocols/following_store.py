"""The contract of a board store for followers of its log. The guarantees of `store` apply."""

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
    """A store of durable places in the log: one agent's subscriptions, and groups whose workers share events."""

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
        """Creates a subscription that begins at the present end of the log.

        An agent has at most `most` subscriptions on a board, and never more than 100.

        Raises:
            UnknownReference: the board does not exist.
            QuotaExceeded: the agent has too many.
        """
        ...

    async def unsubscribe(self, board: str, agent: str, id_or_name: str, *, once: Once | None = None) -> bool:
        """Ends a subscription, or forgets an expired one; returns false if there is neither."""
        ...

    async def subscriptions(self, board: str, agent: str) -> list[Subscription]:
        """Returns the agent's subscriptions, oldest first, then those that expired recently, newest first."""
        ...

    async def find_subscription(self, board: str, agent: str, id_or_name: str) -> Subscription | None:
        """Returns one of the agent's subscriptions, or `None`.

        Raises:
            CursorExpired: it expired unused, or its cursor is beyond the end of the log.
        """
        ...

    async def move_cursor(
        self, board: str, agent: str, id_: str, cursor: int, *, since: int | None = None
    ) -> bool:
        """Moves a subscription's cursor, which counts as a use; returns whether it was moved.

        Without `since` the cursor becomes `cursor` unless it is already further: it never goes back. With `since` it
        becomes `cursor` only if it stands at `since`, so that only one of several readers moves it.

        Raises:
            CursorExpired: `cursor` is not a place of the log, as for `end_of_log`.
        """
        ...

    async def end_of_log(self, board: str, place: int | None = None) -> int:
        """Returns the board's present sequence, for a reader of its log up to `place`; 0 if the board does not exist.

        A place is 0, the sequence of an event, or the number before one.

        Raises:
            CursorExpired: the log has no such place: it is beyond the end, or another copy of the board gave it.
        """
        ...

    async def return_cursor(self, board: str, agent: str, id_: str, cursor: int) -> None:
        """Moves a cursor back after a delivery that nobody received: the events after it are delivered again."""
        ...

    async def expire_subscriptions(self) -> list[str]:
        """Expires subscriptions unused for longer than `subscription_lease_seconds`.

        Returns the boards that it changed. The cursor of an expired one is kept for as long again. One call does a
        bounded part; further calls do the rest.
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
        """Creates a group, or returns an existing one of that name with the same filter.

        It begins at the present end of the log, or after `since`.

        Raises:
            InvalidInput: the filter or a number is not allowed.
            UnknownReference: the board does not exist, or `since` is beyond the end of its log.
            Conflict: a group of that name has another filter.
            Refused: there are too many groups, or the board is closed.
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
        """Changes the filter for events not yet handed out, or the number of attempts; returns the group.

        Raises:
            UnknownReference: the group does not exist.
            Refused: another agent created it.
        """
        ...

    async def end_group(self, board: str, agent: str, name: str, *, once: Once | None = None) -> int:
        """Ends a group, whose deliveries and dead letters are forgotten; returns the board's sequence.

        Errors as in `change_group`.
        """
        ...

    async def groups(self, board: str) -> tuple[list[GroupState], int]:
        """Returns the groups of a board, by name, and the board's sequence."""
        ...

    async def consume(
        self, board: str, agent: str, name: str, turn: Turn, *, once: Once | None = None
    ) -> Taken:
        """Settles the deliveries that the worker names and hands out the next events, in one transaction.

        Events come by rising sequence: first those for another attempt, then new ones. Two workers never hold one
        event at once, by the clock of the store.

        Raises:
            UnknownReference: the board or group does not exist.
            InvalidInput: a lease or a number is out of bounds, or the filter is not allowed.
            Conflict: the worker no longer holds a delivery that it names (`late` says why), or the group has another
                filter.
            Refused: the group cannot be created.
        """
        ...

    async def group_outlook(self, board: str, name: str) -> Outlook:
        """Tells whether `consume` would get events now, without taking them; if not, it may after `next_due`."""
        ...

    async def dead_letters(
        self, board: str, name: str, *, after: int = 0, limit: int = MAX_TAKEN
    ) -> tuple[list[DeadLetter], int]:
        """Returns dead letters of events after the sequence `after`, by sequence, and the board's sequence."""
        ...

    async def retry_dead(
        self, board: str, agent: str, name: str, wanted: Sequence[Handle], *, once: Once | None = None
    ) -> int:
        """Makes dead letters wait for delivery, with as many attempts as a new event; returns the board's sequence.

        Raises:
            Conflict: one of the handles names no dead letter. Nothing was changed.
            Refused: too many events are in flight.
        """
        ...

    async def drop_dead(
        self, board: str, agent: str, name: str, wanted: Sequence[Handle], *, once: Once | None = None
    ) -> int:
        """Deletes dead letters, and returns the board's sequence. Errors as in `retry_dead`."""
        ...

    async def sweep_groups(self) -> list[str]:
        """Turns deliveries without attempts left into dead letters, and ends unused groups.

        A group is unused after `subscription_lease_seconds`. Returns the boards that it changed. One call does a
        bounded part; further calls do the rest.
        """
        ...
