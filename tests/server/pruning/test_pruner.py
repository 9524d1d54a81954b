"""When passes run: the background side of pruning, against a store that only counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from blackboard_mcp.protocols.board import Board, BoardConfig, Core, Lifecycle
from blackboard_mcp.protocols.errors import StoreBusy
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.items import Zone
from blackboard_mcp.protocols.pruning import Candidate, PassOutcome
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.server.pruning import pruner as pruner_module
from blackboard_mcp.server.pruning.policies import Policies
from blackboard_mcp.server.pruning.pruner import Pruner
from blackboard_mcp.server.text.tokens import Tokenizers
from blackboard_mcp.storage.operations.leaving import pruning
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import draft
from boards import HandClock
from patience import PATIENCE

NOTHING = PassOutcome((), 0, 0, 0, 0, (), 1)


class Store:
    """One board of so many tokens, and who asked what of it."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.looks = 0
        self.passes = 0
        self.busy = 0
        self.on_look: Callable[[], None] = lambda: None

    async def find_board(self, board: str) -> Board:
        self.looks += 1
        self.on_look()
        config = BoardConfig(target_tokens=1_000)
        now = datetime(2026, 11, 21, tzinfo=UTC)
        return Board(board, board, None, Lifecycle.OPEN, config, Core(), 1, now, 1, self.tokens, 0)

    async def lease(self, name: str, holder: str, seconds: float) -> bool:
        return True

    async def release(self, name: str, holder: str) -> None: ...

    async def summary_requests(self, board: str) -> tuple[list[Any], int]:
        return [], 0

    async def summaries_due(self) -> list[Any]:
        return []

    async def prune(
        self, board: str, decide: Any, *, reaching: Any = None, unless: tuple[str, str] | None = None
    ) -> PassOutcome:
        self.busy -= 1
        if self.busy >= 0:
            assert unless == (f"prune:{board}", "me")
            return pruning.ELSEWHERE
        self.passes += 1
        self.tokens = 600
        return NOTHING


def pruner_of(store: Store) -> Pruner:
    return Pruner(cast(BoardStore, store), Tokenizers(), "me")


async def test_a_kick_in_the_moment_a_pass_ends_starts_another() -> None:
    store = Store(tokens=0)
    pruner = pruner_of(store)

    looked_again = asyncio.Event()

    def on_look() -> None:
        if store.looks == 1:
            # Runs after the step in which the pass ends, before anybody is told that it did.
            asyncio.get_running_loop().call_soon(pruner.kick, "main")
        else:
            looked_again.set()

    store.on_look = on_look
    pruner.kick("main")
    await asyncio.wait_for(looked_again.wait(), PATIENCE)
    await pruner.settle()


async def test_a_pass_that_is_due_waits_for_the_process_that_holds_the_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pruner_module, "_RETRY_SECONDS", 0.0)
    store = Store(tokens=900)
    store.busy = 3
    pruner = pruner_of(store)
    pruner.kick("main")
    async with asyncio.timeout(PATIENCE):
        await pruner.settle()
    assert store.passes == 1
    assert store.looks == 4, "once before each try"


async def test_a_pass_that_was_overtaken_and_then_finds_the_lease_taken_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pruner_module, "_RETRY_SECONDS", 0.0)
    store = Store(tokens=900)
    overtaken = replace(NOTHING, moved=(("F-1", 4, "importance 1"),), overtaken=1)
    answers, prune = [overtaken, pruning.ELSEWHERE] * 2, store.prune

    async def one_after_another(board: str, decide: Any, **given: Any) -> PassOutcome:
        return answers.pop(0) if answers else await prune(board, decide, **given)

    monkeypatch.setattr(store, "prune", one_after_another)
    pruner = pruner_of(store)
    assert await pruner.run_pass("main") == [overtaken], "something was done"
    pruner.kick("main")
    async with asyncio.timeout(PATIENCE):
        await pruner.settle()
    assert store.tokens == 600, "nobody makes the room that is still wanted"


class Odd:
    """Fails in every piece of housekeeping, each time in another way, but for the third time that it is asked."""

    def __init__(self, store: SqlBoardStore) -> None:
        self._store = store
        self._asked = 0
        self.expired = asyncio.Event()

    async def expire(self) -> list[str]:
        self._asked += 1
        if self._asked < 3:
            raise (KeyError("the driver's own"), StoreBusy("busy"))[self._asked - 1]
        changed = await self._store.expire()
        self.expired.set()
        return changed

    async def sweep_once(self) -> None:
        raise TypeError("the driver's own")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_housekeeping_goes_on_after_any_error_of_a_store_and_the_log_has_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pruner_module, "_SWEEP_SECONDS", 0.0)
    monkeypatch.setattr(pruner_module, "_GRACE", 0.0)
    clock = HandClock()
    store = await SqlBoardStore.open(None, clock=clock)
    soon_over = draft("soon over", ttl=5.0)
    posted = await store.post("main", "ann", [soon_over], config=BoardConfig())
    clock.advance(10)
    odd = Odd(store)
    pruner = Pruner(cast(BoardStore, odd), Tokenizers(), "me")
    keeping = asyncio.create_task(pruner.run())
    await asyncio.wait_for(odd.expired.wait(), PATIENCE)
    keeping.cancel()
    await asyncio.wait([keeping])
    await pruner.close()
    archived = await store.query("main", "ann", ItemQuery(zone=Zone.ARCHIVE))
    assert [item.id for item in archived.items] == [posted.items[0].id]
    await store.close()
    assert caplog.text.count("housekeeping did not run") == 2
    assert "old idempotency keys wait" in caplog.text


class Rounds:
    """A store that counts the looks at all boards, and tells the end of every fifth round of housekeeping."""

    def __init__(self, store: BoardStore) -> None:
        self._store = store
        self.looks = 0
        self.rounds = 0
        self.fifth = asyncio.Event()

    async def boards(self) -> list[Board]:
        self.looks += 1
        return await self._store.boards()

    async def sweep_groups(self) -> list[str]:
        self.rounds += 1
        if self.rounds % 5 == 0:
            self.fifth.set()
        return await self._store.sweep_groups()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_all_boards_are_looked_at_once_for_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_SWEEP_SECONDS", "_GRACE", "_LOOK_SECONDS"):
        monkeypatch.setattr(pruner_module, name, 0.0)
    store = await SqlBoardStore.open(None, clock=HandClock())
    rounds = Rounds(store)
    pruner = Pruner(cast(BoardStore, rounds), Tokenizers(), "me")
    keeping = asyncio.create_task(pruner.run())
    for looks in (1, 2):
        rounds.fifth.clear()
        await asyncio.wait_for(rounds.fifth.wait(), PATIENCE)
        assert rounds.looks == looks
        await store.post("main", "ann", [draft("something")], config=BoardConfig())
    keeping.cancel()
    await asyncio.wait([keeping])
    await pruner.close()
    await store.close()


class Stopped(Odd):
    """Fails in the same way for as long as one looks, but for the tenth time that it is asked."""

    async def expire(self) -> list[str]:
        self._asked += 1
        if self._asked == 10:
            return []
        if self._asked == 20:
            self.expired.set()
        raise StoreBusy("busy")


async def test_housekeeping_that_goes_on_failing_does_not_fill_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pruner_module, "_SWEEP_SECONDS", 0.0)
    monkeypatch.setattr(pruner_module, "_GRACE", 0.0)
    store = await SqlBoardStore.open(None)
    stopped = Stopped(store)
    pruner = Pruner(cast(BoardStore, stopped), Tokenizers(), "me")
    keeping = asyncio.create_task(pruner.run())
    await asyncio.wait_for(stopped.expired.wait(), PATIENCE)
    keeping.cancel()
    await asyncio.wait([keeping])
    await pruner.close()
    await store.close()
    assert caplog.text.count("housekeeping did not run: busy") == 2, "again after it had gone well"
    assert caplog.text.count("old idempotency keys wait") == 1


class Counted:
    """An operator's policy that counts how often it is asked."""

    asked = 0

    def key(self, candidate: Candidate) -> int:
        Counted.asked += 1
        return candidate.number


async def test_an_operators_policy_is_not_asked_while_another_process_has_the_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Counted, "asked", 0)
    store = await SqlBoardStore.open(None)
    config = BoardConfig(target_tokens=1_000, policy="counted")
    await store.ensure_board("main", "ada", config)
    drafts = [draft(f"step {n} of the test", "LOG") for n in range(100)]
    await store.post("main", "ada", drafts, config=config)
    tokenizers = Tokenizers()
    tokenizers.see(await store.find_board("main"))
    policies = Policies([f"counted={__name__}:Counted"])
    pruner = Pruner(store, tokenizers, "me", policies=policies)
    assert await store.lease("prune:main", "another", 30)
    assert await pruner.run_pass("main") == []
    assert Counted.asked == 0
    await store.release("prune:main", "another")
    assert await pruner.run_pass("main") != []
    assert Counted.asked > 0
    await store.close()


async def test_I9_a_long_pass_lets_others_write_between_its_transactions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pruning, "PART", 20)
    store = await SqlBoardStore.open(None)
    config = BoardConfig(target_tokens=1_000)
    await store.ensure_board("main", "ada", config)
    for start in range(0, 400, 100):
        drafts = [draft(f"step {n} of the test", "LOG") for n in range(start, start + 100)]
        await store.post("main", "ada", drafts, config=config)
    tokenizers = Tokenizers()
    tokenizers.see(await store.find_board("main"))
    move, moved, between = store._move, list[int](), list[int]()

    async def noted(*given: Any) -> PassOutcome:
        outcome = await move(*given)
        moved.append(len(outcome.moved))
        said = await store.post("main", "bob", [draft(f"between {len(moved)}", "FACT")], config=config)
        between.extend(item.tokens for item in said.items)
        return outcome

    monkeypatch.setattr(store, "_move", noted)
    before = await store.find_board("main")
    outcomes = await Pruner(store, tokenizers, "me").run_pass("main")
    after = await store.find_board("main")
    assert before is not None
    assert after is not None
    assert sum(moved) == sum(len(outcome.moved) for outcome in outcomes)
    assert len(moved) > 4
    assert max(moved) == 20
    assert after.working_tokens - sum(between) <= config.low_tokens < before.working_tokens
    assert after.working_items == before.working_items - sum(moved) + len(moved)
    log = await store.log("main", "ada", 0, 2_000)
    assert [e.seq for e in log.events] == list(range(1, len(log.events) + 1))
    await store.close()
