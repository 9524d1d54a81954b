"""A store that lets anybody write a panel, lets items slip out of one, or counts what is hidden fails the kit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest
from blackboard_mcp.protocols.items import Draft
from blackboard_mcp.protocols.panels import PANEL
from blackboard_mcp.storage.memory import open_memory_store
from blackboard_mcp.storage.operations.items import panels
from blackboard_mcp.storage.operations.ledger.rows import Steps
from blackboard_mcp.storage.testing.harness import HandClock, Table
from blackboard_mcp.storage.testing.kit.panelling import PanelTests

Mutate = Callable[[pytest.MonkeyPatch], None]
KIT = PanelTests()
PLACED = panels.placed


@pytest.fixture
async def at() -> AsyncIterator[Table]:
    store = await open_memory_store(clock=HandClock())
    yield Table(store)
    await store.close()


def _admits_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def admit(*_: Any) -> Steps[None]:
        return
        yield

    monkeypatch.setattr(panels, "_admit", admit)


def _looks_at_tags_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panels, "placed", lambda ledger, draft, row: PLACED(ledger, draft, None))


def _drops_the_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    def placed(ledger: Any, draft: Draft, row: Any) -> Steps[Draft]:
        if row is not None and draft.tags is not None and not any(t.startswith(PANEL) for t in draft.tags):
            yield from PLACED(ledger, replace(draft, tags=None), row)
            return draft
        return (yield from PLACED(ledger, draft, row))

    monkeypatch.setattr(panels, "placed", placed)


def _sees_all(monkeypatch: pytest.MonkeyPatch) -> None:
    version = panels.sql("panel_version").replace("GLOB 'read:*' AND", "GLOB 'read:*' OR")
    stated = panels.sql
    monkeypatch.setattr(panels, "sql", lambda name: version if name == "panel_version" else stated(name))


CASES: dict[str, tuple[Mutate, Callable[[Table], Any]]] = {
    "everybody writes every panel": (
        _admits_all,
        KIT.test_writers_stewards_and_the_server_write_a_panel_and_nobody_else,
    ),
    "only the tags that are given count": (
        _looks_at_tags_alone,
        KIT.test_writers_stewards_and_the_server_write_a_panel_and_nobody_else,
    ),
    "other tags take an item out of its panel": (
        _drops_the_tag,
        KIT.test_a_panel_is_named_by_one_tag_that_the_board_knows_and_keeps_its_items,
    ),
    "the version tells of what is hidden": (
        _sees_all,
        KIT.test_what_is_hidden_in_a_panel_is_neither_counted_nor_a_version,
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_broken_panel_is_noticed(name: str, at: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate, case = CASES[name]
    mutate(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await case(at)
