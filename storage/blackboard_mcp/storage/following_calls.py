"""Subscriptions and consumer groups in a store over an engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from blackboard_mcp.protocols.answers import (
    Once,
    Subscription,
)
from blackboard_mcp.protocols.clock import new_token
from blackboard_mcp.protocols.groups import (
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

from .calls import StoreCalls
from .operations.ledger import idempotency, places
from .operations.messages import group_turns, groups
from .operations.messages import subscriptions as subscribing


class FollowingCalls(StoreCalls):
    """The part of the store that is about places in the log."""

    # Subscriptions

    async def subscribe(
        self,
        board: str,
        agent: str,
        name: str,
        filter_: dict[str, Any],
        *,
        once: Once | None = None,
        most: int = subscribing.MAX_SUBSCRIPTIONS,
    ) -> Subscription:
        id_ = "sub-" + new_token(6)
        return await self._apply(
            board,
            agent,
            once,
            lambda now: subscribing.subscribe(board, agent, id_, name, filter_, now, most),
            idempotency.whole(Subscription),
        )

    async def unsubscribe(self, board: str, agent: str, id_or_name: str, *, once: Once | None = None) -> bool:
        return await self._apply(
            board,
            agent,
            once,
            lambda now: subscribing.unsubscribe(board, agent, id_or_name),
            subscribing.ENDED,
        )

    async def subscriptions(self, board: str, agent: str) -> list[Subscription]:
        return await self.engine.read(lambda: subscribing.subscriptions(board, agent))

    async def find_subscription(self, board: str, agent: str, id_or_name: str) -> Subscription | None:
        return await self.engine.read(lambda: subscribing.find_subscription(board, agent, id_or_name))

    async def move_cursor(
        self, board: str, agent: str, id_: str, cursor: int, *, since: int | None = None
    ) -> bool:
        now = self._now()
        return await self._write(lambda: subscribing.move_cursor(board, agent, id_, cursor, since, now))

    async def end_of_log(self, board: str, place: int | None = None) -> int:
        return await self.engine.read(lambda: places.end_of_log(board, place))

    async def return_cursor(self, board: str, agent: str, id_: str, cursor: int) -> None:
        await self._write(lambda: subscribing.return_cursor(board, agent, id_, cursor))

    async def expire_subscriptions(self) -> list[str]:
        now = self._now()
        due = await self.engine.read(lambda: subscribing.abandoned(now))
        for board in due:
            await self._abandon(board, now)
        return due

    async def _abandon(self, board: str, now: int) -> None:
        await self._write(lambda: subscribing.expire(board, now))

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
        return await self._apply(
            board,
            agent,
            once,
            lambda now: groups.create(board, agent, name, filter_, since, max_attempts, now, most),
            idempotency.whole(Group),
        )

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
        return await self._apply(
            board,
            agent,
            once,
            lambda now: groups.change(board, agent, name, filter_, max_attempts, now),
            idempotency.whole(Group),
        )

    async def end_group(self, board: str, agent: str, name: str, *, once: Once | None = None) -> int:
        return await self._apply(
            board, agent, once, lambda now: groups.end(board, agent, name, now), idempotency.whole(int)
        )

    async def groups(self, board: str) -> tuple[list[GroupState], int]:
        now = self._now()
        return await self.engine.read(lambda: groups.listed(board, now))

    async def consume(
        self, board: str, agent: str, name: str, turn: Turn, *, once: Once | None = None
    ) -> Taken:
        return await self._apply(
            board,
            agent,
            once,
            lambda now: group_turns.consume(board, agent, name, turn, now),
            group_turns.kept(board, turn),
        )

    async def group_outlook(self, board: str, name: str) -> Outlook:
        now = self._now()
        return await self.engine.read(lambda: group_turns.outlook(board, name, now))

    async def dead_letters(
        self, board: str, name: str, *, after: int = 0, limit: int = MAX_TAKEN
    ) -> tuple[list[DeadLetter], int]:
        return await self.engine.read(lambda: groups.dead_letters(board, name, after, limit))

    async def retry_dead(
        self, board: str, agent: str, name: str, wanted: Sequence[Handle], *, once: Once | None = None
    ) -> int:
        return await self._apply(
            board,
            agent,
            once,
            lambda now: groups.retry(board, agent, name, wanted, now),
            idempotency.whole(int),
        )

    async def drop_dead(
        self, board: str, agent: str, name: str, wanted: Sequence[Handle], *, once: Once | None = None
    ) -> int:
        return await self._apply(
            board,
            agent,
            once,
            lambda now: groups.drop(board, agent, name, wanted, now),
            idempotency.whole(int),
        )

    async def sweep_groups(self) -> list[str]:
        now = self._now()
        spent, unused = await self.engine.read(lambda: groups.due(now))
        changed = [board for board, name in spent if await self._bury(board, name, now)]
        changed += [board for board, name in unused if await self._abandon_group(board, name, now)]
        return list(dict.fromkeys(changed))

    async def _bury(self, board: str, name: str, now: int) -> bool:
        return await self._write(lambda: groups.bury_spent(board, name, now))

    async def _abandon_group(self, board: str, name: str, now: int) -> bool:
        return await self._write(lambda: groups.abandon(board, name, now))
