"""Tests of panels: who writes one, what moves its version, and that what is hidden in one is not counted."""

from __future__ import annotations

from typing import Any

import pytest
from blackboard_mcp.protocols.access import Action, Role
from blackboard_mcp.protocols.board import BoardChange
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, Refused
from blackboard_mcp.protocols.events import SYSTEM
from blackboard_mcp.protocols.grants import Grant, under
from blackboard_mcp.protocols.items import Draft, Status, content_hash
from blackboard_mcp.protocols.panels import Panel, panels_json
from blackboard_mcp.protocols.read_rules import ReadRule
from blackboard_mcp.protocols.transactions import Since, Transaction

from ..harness import Table

_PANELS = (
    Panel("semantic"),
    Panel("episodic"),
    Panel("ops", "", ("bob", "role:decider")),
    Panel("free", "", ("*",)),
)


def acting(agent: str, role: Role | None = None, *more: Action) -> Grant:
    """Returns a grant to post, by a credential with this role."""
    may = frozenset({Action.READ, Action.POST, *more})
    roles = {} if role is None else {"*": role}
    return Grant(
        agent, "main", frozenset({Action.POST}), {None: may, **dict.fromkeys(Role, may)}, roles=roles
    )


class PanelTests:
    """Tests of panels."""

    async def _board(self, at: Table) -> None:
        await at.post("alice", "the first")
        await at.store.change_board(at.board, SYSTEM, BoardChange(settings={"panels": panels_json(_PANELS)}))

    async def _versions(self, at: Table, agent: str = "alice") -> dict[str, tuple[int, int]]:
        return {one.panel.name: (one.items, one.version) for one in await at.store.panels(at.board, agent)}

    async def test_writers_stewards_and_the_server_write_a_panel_and_nobody_else(self, at: Table) -> None:
        await self._board(at)
        with under(acting("bob")):
            held = await at.post("bob", "one", key="state", tags=("x", "panel:ops"))
        assert held.tags == ("panel:ops", "x")
        before = await at.seq()
        changes: tuple[dict[str, Any], ...] = (
            {"text": "mine", "tags": ("panel:ops",)},
            {"text": "mine", "key": "state"},
            {"text": None, "target": held.number, "tags": ("y",)},
            {"text": None, "target": held.number, "status": Status.RESOLVED},
            {"text": None, "key": "state", "delete": True},
            {"text": "known", "tags": ("panel:semantic",)},
        )
        for change in changes:
            with (
                under(acting("carol", Role.CONTRIBUTOR)),
                pytest.raises(Refused, match="read-only for carol"),
            ):
                await at.batch("carol", Draft(**change, sha256=content_hash(change["text"] or "")))
        assert await at.seq() == before
        with under(acting("dora", Role.DECIDER)):
            await at.post("dora", "decided", tags=("panel:ops",))
        with under(acting("erin", Role.STEWARD, Action.MODERATE)):
            await at.post("erin", "known", tags=("panel:semantic",))
            with pytest.raises(Refused, match="The server alone writes"):
                await at.post("erin", "ended", tags=("panel:episodic",))
        await at.post(SYSTEM, "ended", "LOG", tags=("panel:episodic",))
        assert {name: items for name, (items, _) in (await self._versions(at)).items()} == {
            "semantic": 1,
            "episodic": 1,
            "ops": 2,
            "free": 0,
        }

    async def test_a_panel_is_named_by_one_tag_that_the_board_knows_and_keeps_its_items(
        self, at: Table
    ) -> None:
        await self._board(at)
        for wrong in (("panel:nope",), ("panel:",), ("panel:free", "panel:ops")):
            with pytest.raises(InvalidInput, match="panel"):
                await at.post("alice", "one", tags=wrong)
        item = await at.post("alice", "one", tags=("panel:free", "a"))
        with pytest.raises(InvalidInput, match="stays in its panel"):
            await at.change("alice", item, tags=("panel:ops",))
        assert (await at.change("alice", item, tags=("b",))).tags == ("panel:free", "b")
        plain = await at.post("alice", "two", tags=("panel:working", "a"))
        assert plain.tags == ("a",)
        assert (await at.change("alice", plain, tags=("a", "panel:free"))).tags == ("panel:free", "a")

    async def test_the_version_is_the_last_event_of_the_panel(self, at: Table) -> None:
        await self._board(at)
        assert set((await self._versions(at)).values()) == {(0, 0)}
        item = await at.post("bob", "one", tags=("panel:free",))
        first = await at.seq()
        other = await at.post("alice", "elsewhere")
        await at.post("bob", "no", "CRITIQUE", critiques=other)
        assert (await self._versions(at))["free"] == (1, first)
        await at.change("bob", item, status=Status.RESOLVED)
        second = await at.seq()
        assert (await self._versions(at))["free"] == (1, second)
        reads = {"$panel:free": Since(first)}
        with pytest.raises(Conflict, match="panel free changed") as moved:
            await at.store.transact(
                at.board, "alice", Transaction(reads), config=(await at.standing()).config
            )
        assert moved.value.facts["moved"] == {"$panel:free": second}
        held = Transaction({"$panel:free": second, "$panel:ops": 0})
        await at.store.transact(at.board, "alice", held, config=(await at.standing()).config)

    async def test_what_is_hidden_in_a_panel_is_neither_counted_nor_a_version(self, at: Table) -> None:
        await at.store.set_read_rules([ReadRule("ops", ("bob",), tags=("panel:ops",))])
        await self._board(at)
        said = Draft("for few", tags=("panel:ops",), sha256=content_hash("for few"))
        (kept,) = (await at.batch("bob", said)).items
        own = await at.post("carol", "for me", tags=("panel:free",), private=True)
        assert (await self._versions(at, "carol"))["free"] == (1, await at.seq())
        assert (await self._versions(at, "bob"))["ops"][0] == 1
        assert (await self._versions(at, "bob"))["free"] == (0, 0)
        assert (await self._versions(at, "carol"))["ops"] == (0, 0)
        assert await at.query("bob", tags=("panel:ops",)) == [kept.number]
        assert await at.query("carol", tags=("panel:free",)) == [own.number]
        assert await at.query("alice", tags=("panel:ops",)) == []

    async def test_an_item_of_a_panel_is_no_news_only_if_the_server_tells_of_an_end(self, at: Table) -> None:
        await self._board(at)
        await at.post(SYSTEM, "@bob it ended", "LOG", tags=("panel:episodic",))
        event = (await at.events("bob"))[-1]
        assert not event.is_news_to("bob")
        await at.post("alice", "news", tags=("panel:free",))
        assert (await at.events("bob"))[-1].is_news_to("bob")
