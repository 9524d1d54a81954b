"""Helpers for the kit's tests: a clock moved by hand, short ways to write drafts, and one board of a store."""

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
"""An item or its number; a negative number is a place in the same batch."""
Targets = Target | Sequence[Target]

CONFIG = BoardConfig()
PATIENCE: Final = 60.0
"""Seconds after which a test stops waiting for something."""


class HandClock:
    """A clock that stands still until `advance` is called."""

    def __init__(self, at: datetime = datetime(2026, 1, 1, 12, tzinfo=UTC)) -> None:
        self._at = at

    def now(self) -> datetime:
        """Returns the instant at which the clock stands."""
        return self._at

    def advance(self, seconds: float = 1.0) -> None:
        """Moves the clock forward."""
        self._at += timedelta(seconds=seconds)


def number(target: Target) -> int:
    """Returns the number of an item."""
    return target if isinstance(target, int) else target.number


def edge(kind: str, target: Targets) -> dict[str, Any]:
    """Returns an edge of a kind that is only known at run time, for `draft(…, **edge(kind, item))`."""
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
    thread: Target | None = None,
    **edges: Targets,
) -> Draft:
    """Returns a draft. Edges are named by kind (`critiques=item`), `on` is the item to change."""
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
        thread=None if thread is None else number(thread),
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
    """One board of a store, with short forms of the calls that tests make often."""

    def __init__(self, store: BoardStore, board: str = "main") -> None:
        self.store = store
        self.board = board

    async def batch(self, agent: str, *drafts: Draft, once: Once | None = None, look: int = 0) -> Posted:
        """Posts drafts in one call."""
        return await self.store.post(self.board, agent, drafts, config=CONFIG, once=once, look=look)

    async def batch_of(self, agent: str, *drafts: Draft, undecided: bool) -> tuple[Item, ...]:
        """Posts drafts with `undecided` set, and returns the items."""
        return (await self.batch(agent, *(replace(d, undecided=undecided) for d in drafts))).items

    async def post(self, agent: str, text: str, type: str | None = None, **said: Any) -> Item:
        """Posts one draft with the arguments of `draft`, and returns the item."""
        return (await self.batch(agent, draft(text, type, **said))).items[0]

    async def change(self, agent: str, item: Target, **said: Any) -> Item:
        """Changes an item by a draft with the arguments of `draft`, and returns it."""
        return (await self.batch(agent, draft(said.pop("text", None), on=item, **said))).items[0]

    async def delete(self, agent: str, key: str, **said: Any) -> Item:
        """Deletes an entry, and returns its tombstone."""
        return (await self.batch(agent, draft(None, key=key, delete=True, **said))).items[0]

    async def item(self, target: Target, agent: str = "alice", version: int | None = None) -> Item:
        """Returns the item's present state; fails if `agent` does not see it."""
        found = await self.store.read(self.board, agent, [Ref(number(target), version)], [])
        assert found.items, f"{agent} finds no item {number(target)}"
        return found.items[0]

    async def sees(self, agent: str, target: Target) -> bool:
        """Tells whether the agent can read the item."""
        return bool((await self.store.read(self.board, agent, [Ref(number(target))], [])).items)

    async def zone(self, target: Target, agent: str = "alice") -> Zone:
        """Returns the item's zone."""
        return (await self.item(target, agent)).zone

    async def status(self, target: Target, agent: str = "alice") -> Status:
        """Returns the item's status."""
        return (await self.item(target, agent)).status

    async def query(self, agent: str = "alice", **wanted: Any) -> list[int]:
        """Returns the numbers of the items on one page of a query."""
        page = await self.store.query(self.board, agent, ItemQuery(**wanted))
        return [item.number for item in page.items]

    async def standing(self) -> Board:
        """Returns the board's present state; fails if it does not exist."""
        board = await self.store.find_board(self.board)
        assert board is not None, f"no board {self.board}"
        return board

    async def seq(self) -> int:
        """Returns the board's sequence."""
        return (await self.standing()).seq

    async def events(self, agent: str = "alice", after: int = 0) -> list[Event]:
        """Returns all events after a sequence that `agent` may see, read in pages of seven."""
        events: list[Event] = []
        while True:
            log = await self.store.log(self.board, agent, after, 7)
            events += log.events
            after = log.cursor
            if not log.more:
                return events

    async def attention(self, agent: str, look: int = 0) -> tuple[str, ...]:
        """Returns ids of what the agent owes, then of items in unseen events that concern it, newest first."""
        log = await self.store.log(self.board, agent, 1 << 62, 1, look=look)
        unseen = {seq for seq, _ in log.attention.fresh}
        events = reversed(await self.events(agent, 0))
        told = [e.item for e in events if e.seq in unseen and agent in e.concerns and e.item is not None]
        return tuple(dict.fromkeys([*(owed.id for owed in log.attention.owed), *told]))

    async def debate(self, target: Target, agent: str = "alice") -> DebateView:
        """Returns the newest debate about the item; fails if there never was one."""
        view = await self.store.debate_status(self.board, agent, number(target))
        assert isinstance(view, DebateView), f"item {number(target)} never had a debate"
        return view

    async def state(self, target: Target, agent: str = "alice") -> str:
        """Returns the state of the newest debate about the item."""
        return str((await self.debate(target, agent)).debate.state)

    async def owed(self, agent: str) -> set[tuple[int, Duty]]:
        """Returns what the agent owes, as pairs of item number and duty."""
        return set((await self.store.snapshot(self.board, agent)).owed)

    async def open(self, agent: str, target: Target, *watchers: str) -> None:
        """Opens a debate on the item."""
        await self.store.debate_open(self.board, agent, number(target), watchers)

    async def watch(self, agent: str, target: Target) -> None:
        """Makes the agent watch the item."""
        await self.store.debate_watch(self.board, agent, number(target))

    async def acknowledge(self, agent: str, target: Target, reason: str = "") -> None:
        """Acknowledges the item or its debate."""
        await self.store.debate_acknowledge(self.board, agent, number(target), reason=reason)

    async def answer(self, agent: str, critique: Target, text: str = "but") -> Item:
        """Posts a reply to a critique."""
        return await self.post(agent, text, "REPLY", replies_to=critique)

    async def withdraw(self, agent: str, target: Target, reason: str = "") -> None:
        """Withdraws a critique."""
        await self.store.debate_withdraw(self.board, agent, number(target), reason)

    async def concede(self, agent: str, target: Target, reason: str = "", to: Target | None = None) -> None:
        """Concedes the debate about the item."""
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
        """Decides the debate about the item."""
        said = {"outcome": Outcome(outcome), "to": None if to is None else number(to)}
        await self.store.debate_decide(self.board, agent, number(target), reason, deciders, **said)  # type: ignore[arg-type]

    async def confirm(self, agent: str, target: Target, *deciders: str, outcome: str | None = None) -> None:
        """Confirms a decision in the debate about the item."""
        said = None if outcome is None else Outcome(outcome)
        await self.store.debate_confirm(self.board, agent, number(target), deciders, outcome=said)

    async def vote(self, agent: str, target: Target, approve: bool = True, reason: str = "") -> None:
        """Votes in the debate about the item."""
        await self.store.debate_vote(self.board, agent, number(target), approve=approve, reason=reason)

    async def unwatch(self, agent: str, target: Target | str) -> None:
        """Ends the agent's watch on an item, or its standing watch on a topic."""
        if isinstance(target, str):
            await self.store.unwatch_topic(self.board, agent, parse_topic(target))
        else:
            await self.store.debate_unwatch(self.board, agent, number(target))

    async def follow(self, agent: str, *topics: str) -> None:
        """Makes the agent watch topics."""
        for topic in topics:
            await self.store.watch_topic(self.board, agent, parse_topic(topic))

    async def configure(self, **settings: Any) -> None:
        """Changes settings of the board, which is created if it does not exist."""
        await self.store.ensure_board(self.board, "alice", CONFIG)
        await self.store.change_board(self.board, "alice", BoardChange(settings=settings))

    async def here(self, agent: str, at: datetime) -> None:
        """Records activity of the agent that does not change the board."""
        await self.store.record_activity(self.board, {agent: at}, {})

    async def prune(self, decide: Decide | None = None, *, apply: bool = True) -> PassOutcome:
        """Runs a pass, by default with a policy that names all items."""
        return await self.store.prune(self.board, decide or everything, apply=apply)

    async def gone(self, *targets: Target) -> PassOutcome:
        """Runs a pass whose policy names these items."""
        return await self.prune(these(*targets))

    async def held(self, *targets: Target) -> set[int]:
        """Returns the numbers of those of the items that the guard protects."""
        return set(await self.store.guarded(self.board, [number(t) for t in targets]))


def everything(space: Workspace) -> Plan:
    """Returns a plan that names all of working memory, protected items included."""
    return Plan(moves=tuple(Move(c.number, 4, "all of it") for c in space.candidates))


def these(*targets: Target) -> Callable[[Workspace], Plan]:
    """Returns a policy that names these items, whatever working memory contains."""
    moves = tuple(Move(number(target), 4, "named") for target in targets)
    return lambda space: Plan(moves=moves)
