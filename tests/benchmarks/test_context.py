"""The benchmark of what agents see runs, tells a view that hides things from one that does not, and holds ours."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from blackboard_mcp.server.views import rendering

FOLDER = Path(__file__).parents[2] / "benchmarks"
if not FOLDER.is_dir():
    pytest.skip("the benchmarks are not in a source distribution", allow_module_level=True)


@pytest.fixture(scope="module")
def benchmark() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        yield importlib.import_module("context")


def play(benchmark: ModuleType, logs: slice, budget: int = 1_500, target: int = 6_000) -> dict[str, Any]:
    sessions = [benchmark.load_session(path) for path in sorted(benchmark.examples().values())[logs]]
    row: dict[str, Any] = asyncio.run(benchmark.compare(sessions, 3, 1, target, budget)).row()
    return row


@pytest.fixture(scope="module")
def row(benchmark: ModuleType) -> dict[str, Any]:
    return play(benchmark, slice(4))


def test_what_is_open_and_owed_stands_in_every_view_with_a_sentence(row: dict[str, Any]) -> None:
    assert row["views"] > 100
    assert row["open_percent"] == row["live_percent"] == 100
    assert row["duties_percent"] == 100
    assert row["decisions_percent"] >= 95
    assert row["tasks_percent"] == 100
    assert row["news_percent"] == 100


def test_what_is_over_and_any_one_item_take_little_of_a_view(row: dict[str, Any]) -> None:
    assert row["over_percent"] <= 5
    assert row["one_item_percent"] <= 15
    assert row["tokens_max"] <= 1_500


def test_the_same_seed_gives_the_same_figures(benchmark: ModuleType) -> None:
    last = slice(-1, None)
    assert play(benchmark, last) == play(benchmark, last)


def test_views_that_drop_a_section_are_noticed(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = rendering.Renderer._all
    monkeypatch.setattr(rendering.Renderer, "_all", lambda self: honest(self)[4:])
    assert play(benchmark, slice(1))["live_percent"] < 50


def test_a_sentence_counts_where_it_stands_whole_or_for_twenty_tokens(benchmark: ModuleType) -> None:
    said = benchmark.Said("F-1", "ann", "FACT", "The cache is cold. After that nothing is known.")
    assert benchmark.stands(said, "F-1 by ann 3m: The cache is cold. …")
    assert not benchmark.stands(said, "F-1 by ann 3m: The cache is …")
    long = benchmark.Said("F-2", "ann", "FACT", "word " * 60)
    assert benchmark.stands(long, "word " * 21)
    assert not benchmark.stands(long, "word " * 12)


def test_tokens_are_those_of_the_lines_of_an_item(benchmark: ModuleType) -> None:
    view = (
        "board main\nF-1 by ann: short\nfacts:\nL-2 by bob, 3 of 9 lines:\n> a\n> b\ndone with: H-3 withdrawn"
    )
    spent = benchmark.tokens_by_item(view)
    assert spent.keys() == {"F-1", "L-2", "done with: "}
    assert spent["L-2"] > spent["F-1"]
