"""Imports without the collection of garbage change nothing else about it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest
from blackboard_mcp.protocols.importing import uncollected


@pytest.fixture(autouse=True)
def collection() -> Iterator[None]:
    """Leaves the collection of garbage as it was: the tests themselves are frozen where several files run."""
    frozen = gc.get_freeze_count() > 0
    gc.unfreeze()
    gc.enable()
    yield
    gc.unfreeze()
    if frozen:
        gc.freeze()
    gc.enable()


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Returns what imports a module."""
    return lambda: monkeypatch.setitem(sys.modules, "made_by_a_test", ModuleType("made_by_a_test"))


def young(made: list[object]) -> bool:
    """Tells whether the next collection of young objects looks at this one."""
    return any(one is made for one in gc.get_objects(generation=0))


def test_what_is_made_meanwhile_counts_as_old_and_is_still_collected(imported: Callable[[], None]) -> None:
    with uncollected():
        made: list[object] = []
        imported()
        assert young(made)
    assert gc.isenabled()
    assert not young(made)
    assert any(one is made for one in gc.get_objects())
    assert gc.get_freeze_count() == 0


def test_nothing_counts_as_old_where_nothing_was_imported() -> None:
    with uncollected():
        made: list[object] = []
    assert young(made)


def test_what_a_program_froze_stays_frozen(imported: Callable[[], None]) -> None:
    made: list[object] = []
    gc.freeze()
    with uncollected():
        imported()
    assert not any(one is made for one in gc.get_objects())


def test_collection_that_a_program_stopped_stays_stopped() -> None:
    gc.disable()
    with uncollected():
        pass
    assert not gc.isenabled()
