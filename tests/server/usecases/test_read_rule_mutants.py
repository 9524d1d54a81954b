"""Each path that tells of changes obeys read rules: with one that forgets them, the same check fails.

`test_hidden` drives everything there is through clients; this looks at panels, waits, subscriptions, streams and groups
alone, where what is hidden comes by itself.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from blackboard_mcp.protocols.errors import Conflict
from blackboard_mcp.protocols.read_rules import READ
from blackboard_mcp.protocols.visibility import Viewer
from blackboard_mcp.protocols.wire import TransactionAnswer, WireEvent
from blackboard_mcp.server.board import Board
from blackboard_mcp.server.usecases.following import Following
from blackboard_mcp.server.usecases.viewers import Viewers
from blackboard_mcp.storage.operations.ledger import rows
from patience import PATIENCE

RULES = [
    {"name": "pay", "readers": ["bob"], "tags": ["pay"]},
    {"name": "keys", "readers": ["bob"], "key": "pay/**"},
]
SETTINGS: dict[str, Any] = {
    "read": RULES,
    "board_settings": {"panels": ["money"]},
    "limits": {"lull_seconds": 0},
}
SUBSCRIBED: dict[str, dict[str, Any]] = {"all": {}, "pay": {"key": "pay:**"}}


@pytest.fixture
async def board() -> AsyncIterator[Board]:
    async with Board.open(agent="alice", settings=SETTINGS) as opened:
        yield opened


async def telling(eve: Board, since: int) -> set[str]:
    """The paths by which eve, who is no reader, hears of what alice did after a sequence."""
    panel = next(panel for panel in await eve.panels() if panel.name == "money")
    heard: dict[str, list[WireEvent]] = {
        "wait": (await eve.wait(seconds=0)).events,
        "subscription": (await eve.wait("all", seconds=0)).events,
        "subscription with since": (await eve.wait("pay", since=since, seconds=0)).events,
        "wait with since": (await eve.wait(since=since, seconds=0)).events,
        "changes": (await eve.changes(since)).events,
        "stream": [],
        "group": [],
    }
    moved: dict[str, int] = {}
    try:
        asked = {"reads": {"$panel:money": 0}, "writes": [{"text": "done", "type": "LOG"}]}
        await eve._call("transaction", asked, TransactionAnswer)
    except Conflict as conflict:
        moved = conflict.facts["moved"]
    mark = (await eve.post("a mark", type="LOG")).id
    async with asyncio.timeout(PATIENCE):
        async for event in eve.events(since=since):
            heard["stream"].append(event)
            if event.item == mark:
                break
        async for job in eve.worker("clerks", None):
            heard["group"].append(job.event)
            if job.event.item == mark:
                break
    told = {path for path, events in heard.items() if any(event.agent == "alice" for event in events)}
    panels = {"panel's count": panel.live, "panel's version": panel.version, "panel in a transaction": moved}
    return told | {path for path, said in panels.items() if said}


async def check(board: Board) -> None:
    """What a rule keeps reaches its reader by each path, and who is no reader by none."""
    eve, bob = board.as_agent("eve"), board.as_agent("bob")
    await board.post("begin")
    for agent in (eve, bob):
        await agent.post("here I am")
        for name, filter_ in SUBSCRIBED.items():
            await agent.subscribe(filter_, name=name)
        await agent.wait(seconds=0)
    async with eve.worker("clerks", {}):
        pass
    since = board.seq
    kept = await board.post("Ann earns 7", key="pay:ann", tags=["panel:money", "pay"])
    await board.post("Ann earns 8", key="pay:ann")
    await board.post(id=kept.id, status="WITHDRAWN")
    assert await telling(eve, since) == set()
    for name in SUBSCRIBED:
        assert kept.id in [event.item for event in (await bob.wait(name, seconds=0)).events]
    assert kept.id in [event.item for event in (await bob.wait(since=since, seconds=0)).events]
    assert {panel.name: panel.live for panel in await bob.panels()}["money"] == 1


async def test_what_a_rule_keeps_comes_to_its_readers_alone(board: Board) -> None:
    await check(board)


async def test_files_are_no_items_and_everybody_reads_them(board: Board) -> None:
    """What the page on read rules says; that the tools for files tell nothing of hidden items, `test_hidden` checks."""
    await board.artifact_write("pay/ann.md", "Ann earns 7")
    assert (await board.as_agent("eve").artifact_read("pay/ann.md")).text == "Ann earns 7"


class Open(Viewer):
    """A viewer that sees whatever a rule keeps."""

    def sees(self, mark: str) -> bool:
        return mark.startswith(READ) or super().sees(mark)


def forgetful(patch: pytest.MonkeyPatch, method: str) -> None:
    """A method of `Following` that looks with eyes that see whatever a rule keeps."""
    honest = getattr(Following, method)

    class Unruled(Viewers):
        async def of(self, agent: str, board: str) -> Viewer:
            return Open(agent)

    async def forgets(self: Following, *given: Any) -> Any:
        blind = copy.copy(self)
        blind.viewers = Unruled(self._store)
        return await honest(blind, *given)

    patch.setattr(Following, method, forgets)


def statement(patch: pytest.MonkeyPatch, name: str) -> None:
    """A statement that finds whatever a rule keeps."""
    text = rows.sql(name)
    opened = text.replace("GLOB 'read:*' AND (", "GLOB 'read:*' AND (1 OR ")
    assert opened != text
    patch.setitem(rows._statements(), name, opened)


MUTANTS: list[tuple[Callable[[pytest.MonkeyPatch, str], None], str, set[str]]] = [
    (forgetful, "_watch", {"subscription", "subscription with since", "stream"}),
    (forgetful, "_news", {"wait", "wait with since"}),
    (forgetful, "_whole", {"wait with since"}),
    (statement, "panel_items", {"panel's count"}),
    (statement, "panel_version", {"panel's version", "panel in a transaction"}),
    (statement, "events_after", {"group", "changes"}),
]


@pytest.mark.parametrize(("mutate", "what", "paths"), MUTANTS, ids=[what for _, what, _ in MUTANTS])
async def test_a_path_that_forgets_read_rules_is_noticed(
    board: Board, mutate: Any, what: str, paths: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch, what)
    with pytest.raises(AssertionError) as caught:
        await check(board)
    for path in paths:
        assert repr(path) in str(caught.value)
