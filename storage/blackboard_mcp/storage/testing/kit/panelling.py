"""Tests of panels: who writes one, what moves its version, and that what is hidden in one is not counted."""

from __future__ import annotations

from typing import Any

import pytest
from blackboard_mcp.protocols.access import Action, Role
from blackboard_mcp.protocols.board import BoardChange
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, Refused
from blackboard_mcp.protocols.events import SYSTEM
from blackboard_mcp.protocols.grants import Grant, under
from blackboard_mcp.protocols.items import Draft, Status, Zone, content_hash
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

    async def test_a_deleted_entry_keeps_its_panel_and_nobody_else_takes_its_key(self, at: Table) -> None:
        await self._board(at)
        with under(acting("bob")):
            await at.post("bob", "one", key="state", tags=("panel:ops", "x"))
            await at.delete("bob", "state")
        with under(acting("carol")), pytest.raises(Refused, match="read-only for carol"):
            await at.post("carol", "mine", key="state")
        with under(acting("bob")):
            assert (await at.post("bob", "again", key="state")).tags == ("panel:ops",)
            await at.delete("bob", "state")
            with pytest.raises(InvalidInput, match="stays in its panel"):
                await at.post("bob", "elsewhere", key="state", tags=("panel:free",))
            assert (await at.post("bob", "again", key="state", tags=("y",))).tags == ("panel:ops", "y")

    async def test_an_item_goes_into_a_panel_by_its_author_and_leaves_by_writers_alone(
        self, at: Table
    ) -> None:
        await self._board(at)
        with under(acting("carol")):
            theirs = await at.post("carol", "hers", key="w")
        with under(acting("bob")):
            with pytest.raises(Refused, match="its author and stewards alone move it"):
                await at.post("bob", "his", key="w", tags=("panel:ops",))
            held = await at.post("bob", "one", tags=("panel:ops",))
        await at.change("carol", theirs, tags=("panel:ops",))
        others = (_PANELS[0], Panel("ops", "", ("carol",)))
        change = BoardChange(settings={"panels": panels_json(others)})
        await at.store.change_board(at.board, SYSTEM, change)
        with under(acting("bob")), pytest.raises(Refused, match="read-only for bob"):
            await at.post("bob", "two", supersedes=held)
        assert (await at.item(held)).zone is Zone.WORKING

    async def test_a_tag_that_looks_like_one_of_a_panel_is_none(self, at: Table) -> None:
        await self._board(at)
        for wrong in ("Panel:free", "PANEL:free", "panel :free", "p\u0430nel:free", "\uff50anel:free"):
            with pytest.raises(InvalidInput, match="looks like one of a panel"):
                await at.post("alice", "one", tags=(wrong,))
        assert (await at.post("alice", "one", tags=("panels", "pane:l", "x:panel"))).tags

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
        with pytest.raises(InvalidInput, match="no panel 'nope'"):
            await at.store.transact(
                at.board, "alice", Transaction({"$panel:nope": 0}), config=(await at.standing()).config
            )
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
