"""The benchmark of eviction runs, is the same for the same seeds, and tells a loss from none."""

from __future__ import annotations

import asyncio
import importlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from patience import RUN

FOLDER = Path(__file__).parents[2] / "benchmarks"
if not FOLDER.is_dir():
    pytest.skip("the benchmarks are not in a source distribution", allow_module_level=True)


@pytest.fixture(scope="module")
def benchmark() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        yield importlib.import_module("eviction")


@pytest.fixture(scope="module")
def tallies(benchmark: ModuleType) -> list[Any]:
    """One board of the packaged sessions, played to everybody."""
    compared: list[Any] = asyncio.run(benchmark.compare(woven(benchmark), 4_000))
    return compared


def woven(benchmark: ModuleType, seeds: int = 1) -> list[Any]:
    sessions = [benchmark.load_session(path) for path in benchmark.examples().values()]
    return list(benchmark.boards(sessions, 4, seeds))


def test_we_lose_nothing_where_every_other_way_does(tallies: list[Any]) -> None:
    ours, *others = tallies
    assert ours.clean
    assert (ours.members_lost, ours.critiques_lost) == (0, 0)
    assert ours.laws_shown == ours.laws_due > 0
    assert ours.by_id == ours.evicted >= 10
    assert ours.by_sentence >= 0.9 * ours.evicted
    for other in others:
        assert other.evicted or other.members_lost, f"{other.name} evicted nothing: the board is too big"
        assert other.critiques_lost, other.name
        assert not other.clean, other.name
    assert len({tally.arguments for tally in (ours, *others)}) == 1


def test_the_same_seed_weaves_the_same_board(benchmark: ModuleType) -> None:
    assert woven(benchmark, 2) == woven(benchmark, 2)
    first, second = woven(benchmark, 2)
    assert first != second


def test_a_woven_board_has_what_is_to_be_measured(benchmark: ModuleType) -> None:
    weaving = importlib.import_module("eviction_workload")
    actions = [action for board in woven(benchmark, 3) for action in board]
    kinds = {kind for a in actions if isinstance(a, weaving.Said) for kind, _ in a.edges}
    assert {"critiques", "replies_to", "depends_on", "derived_from"} <= kinds
    for what in (weaving.Acknowledged, weaving.Decided, weaving.Withdrawn, weaving.Resolved):
        assert any(isinstance(action, what) for action in actions), what
    assert any(len(a.also) == 4 for a in actions if isinstance(a, weaving.Said)), "three facts behind a step"


def test_it_ends_with_status_1_when_something_was_lost(
    benchmark: ModuleType,
    tallies: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["eviction.py"])
    monkeypatch.setattr(benchmark.asyncio, "run", lambda coroutine: coroutine.close() or tallies)
    benchmark.main()
    monkeypatch.setattr(benchmark.asyncio, "run", lambda coroutine: coroutine.close() or tallies[::-1])
    with pytest.raises(SystemExit, match="1"):
        benchmark.main()
    assert benchmark.OTHERS[-1].name in capsys.readouterr().err


def test_it_runs_as_the_documents_say(benchmark: ModuleType, tmp_path: Path) -> None:
    for path in list(benchmark.examples().values())[:2]:
        shutil.copy(path, tmp_path)
    few = (str(tmp_path), "--seeds", "1", "--target-tokens", "1500")
    command = [sys.executable, str(FOLDER / "eviction.py"), *few]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN, check=False)
    assert done.returncode == 0, done.stderr
    assert "| blackboard-mcp" in done.stdout
