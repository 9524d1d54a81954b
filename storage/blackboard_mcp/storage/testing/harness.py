"""What the kit's tests are written with: a clock moved by hand, drafts in a few words, a board in hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from blackboard_mcp.protocols.adding import Addition
from blackboard_mcp.protocols.answers import (
    DebateView,
    Once,
    Posted,
)
from blackboard_mcp.protocols.board import Board, BoardChange, BoardConfig
from blackboard_mcp.protocols.debates import Duty, Outcome
from blackboard_mcp.protocols.events import Event
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.items import (
    Draft,
    EdgeKind,
    Item,
    ItemType,
    Ref,
    Status,
    Visibility,
    Zone,
    content_hash,
)
from blackboard_mcp.protocols.pruning import Decide, Move, PassOutcome, Plan, Workspace
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.protocols.topics import parse_topic

Target = Item | int
"""An item or its number; below zero a place in the same batch."""
Targets = Target | Sequence[Target]

CONFIG = BoardConfig()
PATIENCE: Final = 60.0
"""Seconds after which something that is waited for is taken for missing."""


class HandClock:
    """A clock that stands still until `advance` is called."""

    def __init__(self, at: datetime = datetime(2026, 1, 1, 12, tzinfo=UTC)) -> None:
        self._at = at

    def now(self) -> datetime:
        return self._at

    def advance(self, seconds: float = 1.0) -> None:
        self._at += timedelta(seconds=seconds)


def number(target: Target) -> int:
    return target if isinstance(target, int) else target.number


def edge(kind: str, target: Targets) -> dict[str, Any]:
    """An edge of a kind that is only known at run time, for `draft(…, **edge(kind, item))`."""
    return {kind: target}


def draft(
    text: str | None,
    type: str | None = None,
    *,
    private: bool = False,
    team: bool = False,
    on: Target | None = None,
    status: str | None = None,
    expected: int | None = None,
    key: str | None = None,
    importance: int | None = None,
    tags: Iterable[str] | None = None,
    metadata: dict[str, Any] | None = None,
    ttl: float | None = None,
    tokens: int | None = None,
    delete: bool = False,
    add: int | float | None = None,
    **edges: Targets,
) -> Draft:
    """A draft; edges are named by kind (`critiques=item`), `on` is the item to change."""
    pairs: list[tuple[EdgeKind, int]] = []
    for kind, targets in edges.items():
        listed = [targets] if isinstance(targets, Item | int) else targets
        pairs += [(EdgeKind(kind), number(target)) for target in listed]
    return Draft(
        text=text,
        type=None if type is None else ItemType(type),
        importance=importance,
        tags=None if tags is None else tuple(tags),
        edges=tuple(pairs),
        key=key,
        expected_version=expected,
        target=None if on is None else number(on),
        status=None if status is None else Status(status),
        visibility=(
            Visibility.PRIVATE
            if private
            else Visibility.TEAM
            if team
            else Visibility.BOARD
            if on is None
            else None
        ),
        ttl_seconds=ttl,
        metadata=metadata,
        tokens=(len(text.split()) if text else 0) if tokens is None else tokens,
        sha256="" if text is None else content_hash(text),
        delete=delete,
        add=None if add is None else Addition.of(add, lambda text: len(text.split())),
    )


class Table:
    """One board of a store, with the store's calls shortened to what tests say often."""

    def __init__(self, store: BoardStore, board: str = "main") -> None:
        self.store = store
        self.board = board

    async def batch(self, agent: str, *drafts: Draft, once: Once | None = None, look: int = 0) -> Posted:
        return await self.store.post(self.board, agent, drafts, config=CONFIG, once=once, look=look)

    async def batch_of(self, agent: str, *drafts: Draft, undecided: bool) -> tuple[Item, ...]:
        """Posts of an agent that is, or is not, a decider where deciders are named."""
        return (await self.batch(agent, *(replace(d, undecided=undecided) for d in drafts))).items

    async def post(self, agent: str, text: str, type: str | None = None, **said: Any) -> Item:
        return (await self.batch(agent, draft(text, type, **said))).items[0]

    async def change(self, agent: str, item: Target, **said: Any) -> Item:
        return (await self.batch(agent, draft(said.pop("text", None), on=item, **said))).items[0]

    async def delete(self, agent: str, key: str, **said: Any) -> Item:
        """The tombstone."""
        return (await self.batch(agent, draft(None, key=key, delete=True, **said))).items[0]

    async def item(self, target: Target, agent: str = "alice", version: int | None = None) -> Item:
        """The item as it stands now; an `AssertionError` when `agent` does not see it."""
        found = await self.store.read(self.board, agent, [Ref(number(target), version)], [])
        assert found.items, f"{agent} finds no item {number(target)}"
        return found.items[0]

    async def sees(self, agent: str, target: Target) -> bool:
        return bool((await self.store.read(self.board, agent, [Ref(number(target))], [])).items)

    async def zone(self, target: Target, agent: str = "alice") -> Zone:
        return (await self.item(target, agent)).zone

    async def status(self, target: Target, agent: str = "alice") -> Status:
        return (await self.item(target, agent)).status

    async def query(self, agent: str = "alice", **wanted: Any) -> list[int]:
        """Numbers of one page."""
        page = await self.store.query(self.board, agent, ItemQuery(**wanted))
        return [item.number for item in page.items]

    async def standing(self) -> Board:
        """The board's row; an `AssertionError` when there is none."""
        board = await self.store.find_board(self.board)
        assert board is not None, f"no board {self.board}"
        return board

    async def seq(self) -> int:
        return (await self.standing()).seq

    async def events(self, agent: str = "alice", after: int = 0) -> list[Event]:
        """All of the log after a sequence that `agent` may see, read in pages of seven."""
        events: list[Event] = []
        while True:
            log = await self.store.log(self.board, agent, after, 7)
            events += log.events
            after = log.cursor
            if not log.more:
                return events

    async def attention(self, agent: str, look: int = 0) -> tuple[str, ...]:
        """What the agent owes, then what news that it was not shown after `look` concerns, newest first."""
        log = await self.store.log(self.board, agent, 1 << 62, 1, look=look)
        unseen = {seq for seq, _ in log.attention.fresh}
        events = reversed(await self.events(agent, 0))
        told = [e.item for e in events if e.seq in unseen and agent in e.concerns and e.item is not None]
        return tuple(dict.fromkeys([*(owed.id for owed in log.attention.owed), *told]))

    async def debate(self, target: Target, agent: str = "alice") -> DebateView:
        view = await self.store.debate_status(self.board, agent, number(target))
        assert isinstance(view, DebateView), f"item {number(target)} never had a debate"
        return view

    async def state(self, target: Target, agent: str = "alice") -> str:
        return str((await self.debate(target, agent)).debate.state)

    async def owed(self, agent: str) -> set[tuple[int, Duty]]:
        return set((await self.store.snapshot(self.board, agent)).owed)

    async def open(self, agent: str, target: Target, *watchers: str) -> None:
        await self.store.debate_open(self.board, agent, number(target), watchers)

    async def watch(self, agent: str, target: Target) -> None:
        await self.store.debate_watch(self.board, agent, number(target))

    async def acknowledge(self, agent: str, target: Target, reason: str = "") -> None:
        await self.store.debate_acknowledge(self.board, agent, number(target), reason=reason)

    async def answer(self, agent: str, critique: Target, text: str = "but") -> Item:
        return await self.post(agent, text, "REPLY", replies_to=critique)

    async def withdraw(self, agent: str, target: Target, reason: str = "") -> None:
        await self.store.debate_withdraw(self.board, agent, number(target), reason)

    async def concede(self, agent: str, target: Target, reason: str = "", to: Target | None = None) -> None:
        other = None if to is None else number(to)
        await self.store.debate_concede(self.board, agent, number(target), reason, to=other)

    async def decide(
        self,
        agent: str,
        target: Target,
        reason: str = "",
        *deciders: str,
        outcome: str = "stands",
        to: Target | None = None,
    ) -> None:
        said = {"outcome": Outcome(outcome), "to": None if to is None else number(to)}
        await self.store.debate_decide(self.board, agent, number(target), reason, deciders, **said)  # type: ignore[arg-type]

    async def confirm(self, agent: str, target: Target, *deciders: str, outcome: str | None = None) -> None:
        said = None if outcome is None else Outcome(outcome)
        await self.store.debate_confirm(self.board, agent, number(target), deciders, outcome=said)

    async def vote(self, agent: str, target: Target, approve: bool = True, reason: str = "") -> None:
        await self.store.debate_vote(self.board, agent, number(target), approve=approve, reason=reason)

    async def unwatch(self, agent: str, target: Target | str) -> None:
        """Of an item, or of a topic."""
        if isinstance(target, str):
            await self.store.unwatch_topic(self.board, agent, parse_topic(target))
        else:
            await self.store.debate_unwatch(self.board, agent, number(target))

    async def follow(self, agent: str, *topics: str) -> None:
        """Standing watches."""
        for topic in topics:
            await self.store.watch_topic(self.board, agent, parse_topic(topic))

    async def configure(self, **settings: Any) -> None:
        """Settings of the board, which is made if it is not there."""
        await self.store.ensure_board(self.board, "alice", CONFIG)
        await self.store.change_board(self.board, "alice", BoardChange(settings=settings))

    async def here(self, agent: str, at: datetime) -> None:
        """The agent was there, doing nothing that changes the board."""
        await self.store.record_activity(self.board, {agent: at}, {})

    async def prune(self, decide: Decide | None = None, *, apply: bool = True) -> PassOutcome:
        """A pass, by default one whose policy wants everything gone."""
        return await self.store.prune(self.board, decide or everything, apply=apply)

    async def gone(self, *targets: Target) -> PassOutcome:
        """A pass whose policy names these items."""
        return await self.prune(these(*targets))

    async def held(self, *targets: Target) -> set[int]:
        """Those of the items that the guard holds."""
        return set(await self.store.guarded(self.board, [number(t) for t in targets]))


def everything(space: Workspace) -> Plan:
    """A policy without a conscience: it names all of working memory, what is protected as well."""
    return Plan(moves=tuple(Move(c.number, 4, "all of it") for c in space.candidates))


def these(*targets: Target) -> Callable[[Workspace], Plan]:
    """A policy that names certain items, whatever it is told of them."""
    moves = tuple(Move(number(target), 4, "named") for target in targets)
    return lambda space: Plan(moves=moves)
