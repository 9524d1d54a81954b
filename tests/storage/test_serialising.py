"""I23: committed transactions are serialisable over all they read, shown by replaying them in the log's order."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.transactions import Name, NameKind, Since
from blackboard_mcp.storage.operations.ledger import read_set, rows
from blackboard_mcp.storage.operations.ledger import transactions as transacting
from blackboard_mcp.storage.operations.ledger.read_set import Moved
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import HandClock, Table
from blackboard_mcp.storage.testing.walk.contending import BOARD, Contender, invariants, set_up
from blackboard_mcp.storage.testing.walk.inline import inline_store
from blackboard_mcp.storage.testing.walk.interleaving import Step, interleave, steps
from blackboard_mcp.storage.testing.walk.serialising import Cell, History, Read, Record, Write, read_records
from hypothesis import Phase, given, seed, settings
from profiles import NIGHTLY

CHILD = Path(__file__).with_name("contender.py")
PROCESSES = 8
TRANSACTIONS = 1_500 if NIGHTLY else 40
"""Of each of the two callers of a process."""

Hold = Callable[..., rows.Steps[None]]
Mutate = Callable[[pytest.MonkeyPatch], None]


async def contended(path: Path, transactions: int) -> History:
    """The history that eight callers of this process make through two handles on one file."""
    stores = [await SqlBoardStore.open(path, synchronous="NORMAL") for _ in range(2)]
    try:
        return await _contend(stores, transactions)
    finally:
        for store in stores:
            await store.close()


async def _contend(stores: list[SqlBoardStore], transactions: int) -> History:
    began = await set_up(stores[0])
    records: list[Record] = []
    callers = [
        Contender(stores[n % len(stores)], f"caller{n}", random.Random(n), records.append) for n in range(8)
    ]
    await asyncio.gather(*(caller.run(transactions) for caller in callers))
    assert len(records) == 8 * transactions
    history = History(records, began)
    found = await stores[0].find_board(BOARD)
    assert found is not None
    if found.seq != history.seq:
        history.problems.append(f"the log ends at {found.seq}, the records at {history.seq}")
    return history


def test_I23_eight_processes_on_one_file_make_a_serial_history(tmp_path: Path) -> None:
    path = tmp_path / "board.db"

    async def begin() -> int:
        store = await SqlBoardStore.open(path, synchronous="NORMAL")
        try:
            return await set_up(store)
        finally:
            await store.close()

    async def last() -> int:
        store = await SqlBoardStore.open(path)
        try:
            found = await store.find_board(BOARD)
            assert found is not None
            return found.seq
        finally:
            await store.close()

    began = asyncio.run(begin())
    processes = [
        subprocess.Popen(
            [sys.executable, str(CHILD), str(path), f"process{n}", str(TRANSACTIONS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in range(PROCESSES)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        lines: list[str] = []
        for process in processes:
            output, _ = process.communicate(timeout=600)
            assert process.returncode == 0
            lines += output.splitlines()
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    records = read_records(lines)
    assert len(records) == PROCESSES * 2 * TRANSACTIONS
    history = History(records, began)
    assert invariants(history) == []
    assert history.seq == asyncio.run(last())
    # The keys are few and the callers many: without refusals nothing would have been shown.
    assert len(history.refused) > len(records) / 20
    assert len(history.committed) > len(records) / 10
    assert history.checks


async def test_I23_callers_of_two_handles_make_a_serial_history(tmp_path: Path) -> None:
    history = await contended(tmp_path / "board.db", 400 if NIGHTLY else 40)
    assert invariants(history) == []
    assert history.refused


def keep(chosen: Callable[[str, int | Since, Name, set[str]], bool]) -> Mutate:
    """Only the chosen reads are held against the state."""

    def mutate(patch: pytest.MonkeyPatch) -> None:
        honest: Hold = read_set.hold
        written: set[str] = set()
        begun = transacting.check_transaction

        def check(transaction: Any) -> dict[str, Name]:
            written.clear()
            written.update(draft.key for draft in transaction.writes)
            return begun(transaction)

        def hold(
            no: int,
            seq: int,
            agent: str,
            reads: Mapping[str, int | Since],
            names: Mapping[str, Name],
            moved: Moved,
            held: int = 0,
        ) -> rows.Steps[None]:
            left = {text: read for text, read in reads.items() if chosen(text, read, names[text], written)}
            yield from honest(no, seq, agent, left, {text: names[text] for text in left}, moved, held)

        patch.setattr(transacting, "check_transaction", check)
        patch.setattr(transacting, "hold", hold)

    return mutate


def deletions_pass(patch: pytest.MonkeyPatch) -> None:
    """What was deleted since it was read still holds."""
    honest = read_set._version

    def version(name: str, entry: Any, read: int, moved: Moved, *, gone: bool) -> None:
        if entry is None or not entry.deleted:
            honest(name, entry, read, moved, gone=gone)

    patch.setattr(read_set, "_version", version)


def foresight_is_trusted(patch: pytest.MonkeyPatch) -> None:
    """Globs are looked at before the transaction, and not again."""
    honest = SqlBoardStore._foresee

    async def foresee(self: SqlBoardStore, *given: Any) -> int:
        return (await honest(self, *given)) and 1 << 60

    patch.setattr(SqlBoardStore, "_foresee", foresee)


MUTANTS: dict[str, Mutate] = {
    "only what is written": keep(lambda text, read, name, written: text in written),
    "no absences": keep(lambda text, read, name, written: read != 0),
    "no deletions": deletions_pass,
    "no globs": keep(lambda text, read, name, written: name.kind is not NameKind.GLOB),
    "no sequences": keep(lambda text, read, name, written: not isinstance(read, Since)),
    "nothing at all": keep(lambda text, read, name, written: False),
}


@pytest.mark.parametrize("mutant", [*MUTANTS, "foresight"])
async def test_the_replay_sees_the_mistake(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mutant: str
) -> None:
    MUTANTS.get(mutant, foresight_is_trusted)(monkeypatch)
    for transactions in (10, 20, 40, 80):
        if (await contended(tmp_path / f"{transactions}.db", transactions)).problems:
            return
    pytest.fail("the replay saw nothing")


def interleaved(taken: list[Step]) -> int:
    """How many transactions were committed on a store in memory that nothing waits for."""

    async def take() -> int:
        store = inline_store(HandClock())
        try:
            return await interleave(Table(store), taken)
        finally:
            await store.close()

    return asyncio.run(take())


@given(steps)
@settings(deadline=None, max_examples=3_000 if NIGHTLY else 30)
def test_I23_interleaved_transactions_do_what_serial_ones_do(taken: list[Step]) -> None:
    interleaved(taken)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_model_sees_the_mistake(monkeypatch: pytest.MonkeyPatch, mutant: str) -> None:
    MUTANTS[mutant](monkeypatch)

    @seed(1)
    @given(steps)
    @settings(deadline=None, max_examples=200, database=None, phases=[Phase.generate])
    def look(taken: list[Step]) -> None:
        interleaved(taken)

    with pytest.raises(AssertionError):
        look()


def cell(version: int, text: str, status: str = "ACTIVE") -> list[int | str]:
    return [version, text, status]


ONE = Record("a", (Read("k", 0, None, {}),), (Write("k", "1"),), 2)
TWO = Record("b", (Read("k", 1, None, {"k": cell(1, "1")}),), (Write("k", "2"),), 3)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (Record("c", (Read("k", 1, None, {"k": cell(1, "1")}),), (Write("j", "x"),), 4), "and there stood"),
        (Record("c", (Read("k*", None, 2, {"k": cell(1, "1")}),), (Write("j", "x"),), 4), "and there stood"),
        (Record("c", (Read("k", 2, None, {"k": cell(2, "1")}),), (Write("j", "x"),), 4), "and there stood"),
        (Record("c", (), (Write("j", "x"),), 5), "its events after"),
        (Record("c", (), (Write("j", "x"),), 3), "its events after"),
        (Record("c", (Read("k", 1, None, {"k": cell(1, "1")}),), (), 3), "and there stood"),
        (Record("c", (Read("k", 2, None, {"k": cell(2, "2")}),), (), 3, {"k": 2}), "nothing had moved"),
        (Record("c", (Read("k", 1, None, {"k": cell(1, "1")}),), (), 3, {"k": 3}), "had moved"),
        (Record("c", (Read("j", 1, None, {}), Read("k", 1, None, {})), (), 3, {"k": 2}), "had moved"),
    ],
)
def test_the_replay_sees_what_no_serial_history_has(said: Record, told: str) -> None:
    assert History([TWO, ONE], 1).problems == []
    assert History([TWO, ONE], 1).cell("k") == Cell(2, True, "2", "ACTIVE")
    assert History([Record.of(record.line()) for record in (ONE, TWO)], 1).problems == []
    problems = History([ONE, TWO, said], 1).problems
    assert problems
    assert any(told in problem for problem in problems), problems
