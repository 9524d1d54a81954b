"""What happens after a pass has decided and before its items leave, and what the pass then does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import postgres_server
import pytest
from blackboard_mcp.protocols.errors import StoreBusy
from blackboard_mcp.protocols.items import Zone
from blackboard_mcp.protocols.pruning import Move, PassOutcome
from blackboard_mcp.storage.operations.leaving import guard_index, pruning
from blackboard_mcp.storage.operations.leaving.candidates import Staying
from blackboard_mcp.storage.operations.ledger import rows
from blackboard_mcp.storage.postgres.store import open_postgres_store
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import HandClock, Table, Target


@pytest.fixture(params=["file", "postgres"])
async def at(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Table]:
    if request.param == "file":
        opened = await SqlBoardStore.open(tmp_path / "board.db", clock=HandClock())
    else:
        opened = await open_postgres_store(postgres_server.address(tmp_path), clock=HandClock())
    yield Table(opened)
    await opened.close()
    if request.param == "postgres":
        postgres_server.give_back(tmp_path)


async def overtaken(at: Table, meanwhile: Callable[[], Awaitable[Any]], *chosen: Target) -> PassOutcome:
    """Runs a pass that takes these items, and `meanwhile` when it has decided."""
    store: Any = at.store
    move, late = store._move, [meanwhile]

    async def interrupted(*given: Any) -> PassOutcome:
        if late:
            await late.pop()()
        outcome: PassOutcome = await move(*given)
        return outcome

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "_move", interrupted)
        outcome = await at.gone(*chosen)
    assert not late
    return outcome


async def check_guarded(at: Table) -> None:
    base = await at.post("alice", "a base")
    between = await at.post("alice", "what is between", depends_on=base)
    claim = await at.post("alice", "a claim", depends_on=between)
    other = await at.post("alice", "something else")
    outcome = await overtaken(at, lambda: at.post("bob", "no", "CRITIQUE", critiques=claim), base, other)
    assert [id_ for id_, _, _ in outcome.moved] == [other.id]
    assert outcome.overtaken == 1
    assert await at.zone(base) is Zone.WORKING
    assert base.number in await at.held(base)


async def check_cited(at: Table) -> None:
    await at.configure(target_tokens=1_000)
    ground = await at.post("alice", "measured twice", "LOG")
    between = await at.post("alice", "what is between", derived_from=ground)
    claim = await at.post("alice", "a claim", depends_on=between)
    outcome = await overtaken(at, lambda: at.post("bob", "no", "CRITIQUE", critiques=claim), ground)
    assert outcome.moved == ()
    assert not await at.held(ground), "it stays although the guard does not hold it"


async def check_touched(at: Table) -> None:
    items = [await at.post("alice", text) for text in ("one", "two", "three")]

    async def meanwhile() -> None:
        await at.change("alice", items[0], importance=5)
        await at.post("bob", "rests on two", derived_from=items[1])

    outcome = await overtaken(at, meanwhile, *items)
    assert [id_ for id_, _, _ in outcome.moved] == [items[2].id]
    assert outcome.overtaken == 2
    assert [await at.zone(item) for item in items] == [Zone.WORKING, Zone.WORKING, Zone.ARCHIVE]


async def check_room(at: Table) -> None:
    first, second, other = [await at.post("alice", text, tokens=10) for text in ("one", "two", "three")]
    outcome = await overtaken(at, lambda: at.gone(other), first, second)
    assert [id_ for id_, _, _ in outcome.moved] == [first.id]
    assert (await at.standing()).working_tokens == outcome.tokens_after == 10


async def check_left(at: Table) -> None:
    first, second = [await at.post("alice", text) for text in ("one", "two")]
    outcome = await overtaken(at, lambda: at.gone(first), first, second)
    assert [id_ for id_, _, _ in outcome.moved] == [second.id]
    archived = [e.item for e in await at.events() if e.event == "item.archived"]
    assert archived == [first.id, second.id]


async def check_own_moves(at: Table) -> None:
    ground = await at.post("alice", "a ground")
    finding = await at.post("alice", "a finding", derived_from=ground)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pruning, "PART", 1)
        outcome = await at.gone(finding, ground)
    assert [id_ for id_, _, _ in outcome.moved] == [finding.id, ground.id]
    ended = [e for e in await at.events() if e.event == "prune.ended"]
    assert [e.data["moved"] for e in ended] == [1, 1]


async def test_a_pass_asks_for_some_of_its_transactions_at_once_and_ends_with_the_last(
    at: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "PART", 1)
    items = [await at.post("alice", text) for text in "abcdef"]
    store: Any = at.store
    move, under_way, most = store._move, list[int](), 0

    async def watched(board: str, chosen: pruning.Chosen, moves: Sequence[Move]) -> PassOutcome:
        nonlocal most
        under_way.append(moves[0].number)
        most = max(most, len(under_way))
        try:
            outcome: PassOutcome = await move(board, chosen, moves)
            if moves[0].number == items[0].number:
                raise StoreBusy("as another process may have it")
            return outcome
        finally:
            under_way.remove(moves[0].number)

    monkeypatch.setattr(store, "_move", watched)
    with pytest.raises(StoreBusy):
        await at.gone(*items)
    assert most == pruning.AHEAD
    assert not under_way
    left = [item.id for item in items if await at.zone(item) is Zone.ARCHIVE]
    assert left == [item.id for item in items[: pruning.AHEAD]]


Check = Callable[[Table], Awaitable[None]]


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check_guarded, id="what a new debate holds by a chain stays"),
        pytest.param(check_cited, id="what members of a new debate cite stays"),
        pytest.param(check_touched, id="what somebody changed or cited stays"),
        pytest.param(check_room, id="no more leaves than it takes"),
        pytest.param(check_left, id="what left already leaves once"),
        pytest.param(check_own_moves, id="what the pass itself moved holds nothing"),
    ],
)
async def test_of_what_a_pass_chose_only_that_leaves_which_may_still(at: Table, check: Check) -> None:
    await check(at)


def nothing(*given: Any) -> rows.Steps[set[int]]:
    return set()
    yield  # a generator


def nobody(*given: Any) -> rows.Steps[Staying]:
    return Staying({}, frozenset())
    yield  # a generator


def unguarded(patch: pytest.MonkeyPatch) -> None:
    """The guard is asked when the pass decides, and not at the commit."""
    honest = pruning._stay

    def stay(*given: Any) -> rows.Steps[set[int]]:
        with pytest.MonkeyPatch.context() as without:
            without.setattr(guard_index, "protected_among", nothing)
            return (yield from honest(*given))

    patch.setattr(pruning, "_stay", stay)


def without(part: str) -> Callable[[pytest.MonkeyPatch], None]:
    """A part of the statement that finds what was touched is missing."""

    def mutate(patch: pytest.MonkeyPatch) -> None:
        text = rows.sql("touched_since")
        assert part in text
        patch.setitem(rows._statements(), "touched_since", text.replace(part, ""))

    return mutate


@pytest.mark.parametrize(
    ("mutate", "check"),
    [
        (unguarded, check_guarded),
        (lambda patch: patch.setattr(pruning, "_stay", nothing), check_touched),
        (lambda patch: patch.setattr(pruning, "staying", nobody), check_cited),
        (without(" AND e.event NOT IN ('item.archived', 'item.expired')"), check_own_moves),
    ],
)
async def test_the_checks_see_the_mistake(
    at: Table, monkeypatch: pytest.MonkeyPatch, mutate: Callable[[pytest.MonkeyPatch], None], check: Check
) -> None:
    mutate(monkeypatch)
    with pytest.raises(AssertionError):
        await check(at)
