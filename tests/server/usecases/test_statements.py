"""The statements and transactions that frequent calls run: exact numbers, so that a new one is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.agenda import NewTask, Settle, TaskState
from blackboard_mcp.protocols.board import BoardChange
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.items import ItemType
from blackboard_mcp.protocols.runs import NewRun
from blackboard_mcp.protocols.tokens import CountedText
from blackboard_mcp.protocols.workspace import Edit
from blackboard_mcp.server.compose import Installation, installation
from blackboard_mcp.server.input.posts import PostFields, WriteFields
from blackboard_mcp.server.settings.server import Settings
from blackboard_mcp.server.usecases.agenda import Tasks
from blackboard_mcp.server.usecases.blackboard import Blackboard
from blackboard_mcp.server.usecases.file_checks import FileChecks
from blackboard_mcp.server.usecases.runs import Act, Runs
from blackboard_mcp.server.usecases.transactions import Transactions
from blackboard_mcp.storage.operation import Operation, T
from blackboard_mcp.storage.operations.access.visibility import expanded
from blackboard_mcp.storage.operations.debates import debates
from blackboard_mcp.storage.operations.ledger.rows import Steps
from blackboard_mcp.storage.sqlite.engine import SqliteEngine
from patience import PATIENCE


class Cost:
    """Counts the read and write transactions of every engine, and the statements in them."""

    def __init__(self) -> None:
        self.reads = self.writes = self.statements = 0

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """Counts from now on."""
        read, write = SqliteEngine.read, SqliteEngine.write

        async def counted_read(engine: SqliteEngine, operation: Operation[T]) -> T:
            self.reads += 1
            return await read(engine, lambda: self._counted(operation))

        async def counted_write(engine: SqliteEngine, operation: Operation[T]) -> T:
            self.writes += 1
            return await write(engine, lambda: self._counted(operation))

        patch.setattr(SqliteEngine, "read", counted_read)
        patch.setattr(SqliteEngine, "write", counted_write)

    def _counted(self, operation: Operation[T]) -> Steps[T]:
        steps = operation()
        try:
            statement = next(steps)
            while True:
                self.statements += 1
                statement = steps.send((yield statement))
        except StopIteration as end:
            result: T = end.value
            return result

    async def of(self, call: Callable[[], Awaitable[Any]]) -> tuple[int, int, int]:
        """Returns the read transactions, the write transactions and the statements of a call."""
        before = self.reads, self.writes, self.statements
        await call()
        return self.reads - before[0], self.writes - before[1], self.statements - before[2]


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation whose default board has 60 facts by alice and a question by bob."""
    settings = Settings(data=tmp_path, synchronous="NORMAL", tools=("core", "run", "plan"))
    async with installation(settings, eager_index=False, background=False) as opened:
        facts = [PostFields(text=f"Fact {n}.", type="FACT") for n in range(60)]
        await opened.blackboard.post("alice", None, facts)
        await opened.blackboard.post("bob", None, [PostFields(text="Which port?", type="QUESTION")])
        yield opened


@pytest.fixture
def board(opened: Installation) -> Blackboard:
    return opened.blackboard


@pytest.fixture
def cost(board: Blackboard, monkeypatch: pytest.MonkeyPatch) -> Cost:
    cost = Cost()
    cost.watch(monkeypatch)
    return cost


async def test_a_view_keeps_its_cost(board: Blackboard, cost: Cost) -> None:
    # The first look reads the rows that are kept from then on.
    assert await cost.of(lambda: board.view("erin", None)) == (2, 0, 16)
    await board.post("alice", None, [PostFields(text="One more.")])
    assert await cost.of(lambda: board.view("frank", None)) == (1, 0, 15)
    assert await cost.of(lambda: board.view("erin", None)) == (1, 0, 14)


async def test_a_view_of_an_unchanged_board_asks_the_store_for_nothing(board: Blackboard, cost: Cost) -> None:
    await board.view("erin", None)
    assert await cost.of(lambda: board.view("erin", None)) == (0, 0, 0)
    assert await cost.of(lambda: board.view("erin", None, 900)) == (1, 0, 14)
    await board.post("alice", "other", [PostFields(text="Elsewhere.")])
    # A board that was found once is there for good.
    assert await cost.of(lambda: board.view("erin", None)) == (1, 0, 14)


async def test_a_read_by_id_costs_the_same_for_one_item_and_for_three(board: Blackboard, cost: Cost) -> None:
    one, three = ["F-7"], ["F-7", "F-8", "F-9"]
    assert await cost.of(lambda: board.read("erin", None, three, [])) == (2, 0, 7)
    # Nothing was committed since, so the board is still there.
    assert await cost.of(lambda: board.read("erin", None, one, [])) == (1, 0, 6)
    assert await cost.of(lambda: board.read("erin", None, three, [])) == (1, 0, 6)


async def test_what_is_too_large_is_looked_for_once_for_all_items_that_are_explained(
    board: Blackboard, cost: Cost
) -> None:
    several = [f"F-{n}" for n in range(1, 11)]
    await board.explain("erin", None, several)
    _, _, few = await cost.of(lambda: board.explain("erin", None, several[:1]))
    _, _, many = await cost.of(lambda: board.explain("erin", None, several))
    (there,) = await board.store.boards()
    full = BoardChange(settings={"target_tokens": there.working_tokens})
    await board.store.change_board("main", "alice", full)
    await board.explain("erin", None, several[:1])
    _, _, fuller = await cost.of(lambda: board.explain("erin", None, several))
    assert (many - few, fuller - many) == (9 * 5, 1)


async def test_a_pass_is_two_reads_and_one_transaction(
    opened: Installation, board: Blackboard, cost: Cost, monkeypatch: pytest.MonkeyPatch
) -> None:
    pruner = opened.pruner
    start, passes = pruner.kick, list[str]()
    monkeypatch.setattr(pruner, "kick", passes.append)
    long = "It holds for all that we have seen. " * 20
    while not passes:
        await board.post("alice", None, [PostFields(text=f"Log {cost.writes}. {long}", type="LOG")])

    async def one() -> None:
        start("main")
        await pruner.settle()

    reads, writes, _ = await cost.of(one)
    assert (reads, writes) == (2, 1)
    found = await board.store.find_board("main")
    assert found is not None
    assert found.working_tokens <= found.config.low_tokens


async def test_changes_since_a_place_and_a_query_keep_their_costs(board: Blackboard, cost: Cost) -> None:
    await board.following.changes_since("erin", None, 50, 200)
    # While nothing is committed they are kept.
    assert await cost.of(lambda: board.following.changes_since("erin", None, 50, 200)) == (0, 0, 0)
    # The place is checked, and the texts are read, where the rest is read.
    assert await cost.of(lambda: board.following.changes_since("erin", None, 51, 200)) == (1, 0, 6)
    newest = ItemQuery(types=(ItemType.FACT,), limit=5)
    assert await cost.of(lambda: board.query("erin", None, newest)) == (1, 0, 5)
    written = expanded.cache_info().misses
    await board.query("erin", None, newest)
    assert expanded.cache_info().misses == written  # no statement is put together from its words again


async def test_what_nothing_else_is_said_about_is_made_from_its_row_once_for_all_readers(
    board: Blackboard,
) -> None:
    store = board.store
    first, again = await store.snapshot("main", "erin"), await store.snapshot("main", "frank")
    there = {item.number: item for item in first.items}
    assert len(there) == 61
    assert all(there[item.number] is item for item in again.items)
    await board.post(
        "alice", None, [PostFields(text="So it is.", type="REPLY", edges={"replies_to": ["F-7"]})]
    )
    later = {item.number: item for item in (await store.snapshot("main", "erin")).items}
    assert later[7].cited_by
    assert not there[7].cited_by
    assert later[8] is there[8]


async def test_a_plain_a_replying_and_a_keyed_post_keep_their_costs(board: Blackboard, cost: Cost) -> None:
    plain = PostFields(text="A note.", type="LOG")
    assert await cost.of(lambda: board.post("alice", None, [plain])) == (0, 1, 8)
    reply = PostFields(text="Port 80.", type="REPLY", edges={"replies_to": ["Q-61"]})
    assert await cost.of(lambda: board.post("alice", None, [reply])) == (0, 1, 20)
    keyed = PostFields(text="A value.", type="FACT", key="port:http")
    assert await cost.of(lambda: board.post("alice", None, [keyed])) == (0, 1, 8)
    again = keyed.model_copy(update={"text": "Another value."})
    assert await cost.of(lambda: board.post("alice", None, [again])) == (0, 1, 13)


async def test_three_writes_at_once_keep_their_cost(board: Blackboard, cost: Cost) -> None:
    transactions = Transactions(board)
    writes = [WriteFields(key=f"sum:{part}", text=f"{part} is 1.") for part in "abc"]
    await transactions.transact("alice", None, {}, writes)
    more = [fields.model_copy(update={"text": f"{fields.key} is 2."}) for fields in writes]
    # Each new version: the entry, its former version, what it may touch, its event, its row.
    assert await cost.of(lambda: transactions.transact("alice", None, {}, more)) == (0, 1, 21)


async def test_a_critique_and_an_acknowledgement_keep_their_costs(board: Blackboard, cost: Cost) -> None:
    async def critique(fact: int, words: str) -> str:
        against = PostFields(text=words, type="CRITIQUE", edges={"critiques": [f"F-{fact}"]})
        return (await board.post("bob", None, [against])).items[0].id

    answered = PostFields(
        text="In the manual.", type="REPLY", edges={"replies_to": [await critique(7, "No source.")]}
    )
    await board.post("alice", None, [answered])
    await board.debate("bob", None, "status", "F-7")
    # A board that was found once is there for good; whether a pass is due is told by the debate's view.
    assert await cost.of(lambda: board.debate("bob", None, "acknowledge", "F-7")) == (0, 1, 30)
    assert await cost.of(lambda: critique(8, "Where from?")) == (0, 1, 22)


async def test_what_happens_in_a_debate_looks_at_no_other_open_debate(
    board: Blackboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def critique(fact: int) -> str:
        against = PostFields(text=f"F-{fact}?", type="CRITIQUE", edges={"critiques": [f"F-{fact}"]})
        return (await board.post("bob", None, [against])).items[0].id

    for fact in range(7, 27):
        first = await critique(fact)
    looked_at: list[int] = []

    class Seen(debates.Open):
        def __init__(self, id_: int, *rest: Any) -> None:
            looked_at.append(id_)
            super().__init__(id_, *rest)

    monkeypatch.setattr(debates, "Open", Seen)
    await critique(26)
    answer = PostFields(text="In the manual.", type="REPLY", edges={"replies_to": [first]})
    await board.post("alice", None, [answer])
    await board.debate("bob", None, "acknowledge", "F-26")
    assert len(set(looked_at)) == 1


async def test_taking_a_task_and_reporting_it_done_keep_their_costs(board: Blackboard, cost: Cost) -> None:
    tasks = Tasks(board)
    await tasks.plan("alice", None, [NewTask(title=f"task {n}") for n in range(9)])
    done = Settle("done", 0, 0, CountedText("It is done."))
    await tasks.take("bob", None)
    await tasks.settle("bob", None, done)
    # Rules, and what waits for the agent, are read in the same transaction.
    assert await cost.of(lambda: tasks.take("bob", None)) == (0, 1, 29)
    assert await cost.of(lambda: tasks.settle("bob", None, done)) == (0, 1, 28)


async def test_an_agenda_counts_what_is_over_only_where_nothing_is_left(
    board: Blackboard, cost: Cost
) -> None:
    tasks = Tasks(board)
    await tasks.plan("alice", None, [NewTask(title=f"task {n}") for n in range(2)])
    done = Settle("done", 0, 0, CountedText("It is done."))
    for over in ({}, {TaskState.COMPLETED: 2}):
        await tasks.take("bob", None)
        await tasks.settle("bob", None, done)
        assert (await tasks.agenda("bob", None))[0].over == over


async def test_a_turn_keeps_its_cost(opened: Installation, cost: Cost) -> None:
    runs = Runs(opened.blackboard, opened.conduct())
    new = NewRun(problem=CountedText("Which pump?"), agents=("erin",), strategy="round-robin")
    await runs.start("erin", None, new)
    await runs.turn("erin", None, Act(text="The blue one."))
    assert await cost.of(lambda: runs.turn("erin", None, Act(text="The red one."))) == (0, 1, 18)
    assert (await runs.turn("erin", None, Act(text="Neither."))).turn is not None


async def test_who_waits_for_a_turn_has_it_without_a_look_at_the_run(
    opened: Installation, cost: Cost, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, store, parked = Runs(opened.blackboard, opened.conduct()), opened.store, asyncio.Event()
    wait_for_change = store.wait_for_change

    async def tell(*args: Any, **more: Any) -> int:
        parked.set()
        return await wait_for_change(*args, **more)

    monkeypatch.setattr(store, "wait_for_change", tell)
    new = NewRun(problem=CountedText("Which pump?"), agents=("erin", "finn"), strategy="round-robin")
    await runs.start("erin", None, new)
    waiting = asyncio.create_task(runs.turn("finn", None, Act(), seconds=50))
    await asyncio.wait_for(parked.wait(), PATIENCE)

    async def passed_on() -> None:
        await runs.turn("erin", None, Act(text="The blue one."), seconds=0)
        assert (await asyncio.wait_for(waiting, PATIENCE)).turn is not None

    # What each is told is read once, in erin's own transaction and for finn.
    assert await cost.of(passed_on) == (1, 1, 23)


async def test_boards_whose_files_nobody_writes_take_no_readings_of_each(
    opened: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, cost = FileChecks(opened.blackboard, ("json",)), Cost()
    cost.watch(monkeypatch)

    async def write(board: str, content: bytes) -> None:
        await opened.blackboard.post("alice", board, [PostFields(text="Begin.")])
        await opened.store.write_artifact(board, "alice", "a.json", Edit(content=content))

    for board in ("a", "b", "c", "d"):
        await write(board, b"{}")
        await looks.sweep()
    assert await cost.of(looks.sweep) == (2, 0, 2)
    await write("c", b"{")
    moved: list[str] = []
    await looks.sweep(moved.append)
    assert moved == ["c"]
    issues = ItemQuery(types=(ItemType.HOT_ISSUE,))
    assert len((await opened.store.query("c", "alice", issues)).items) == 1
