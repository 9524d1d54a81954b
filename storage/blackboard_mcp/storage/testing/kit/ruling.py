"""Tests of rules: their revision, their scope, who was shown them, and who may change them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from blackboard_mcp.protocols.access import Action
from blackboard_mcp.protocols.agenda import Settle
from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.board import Core
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, Refused, RulesUnseen
from blackboard_mcp.protocols.grants import Grant, under
from blackboard_mcp.protocols.items import Draft, Status, content_hash
from blackboard_mcp.protocols.rules import RuleBook, Strength

from ..harness import CONFIG, HandClock, Table
from .planning import plan, said, take


def as_steward(agent: str, *powers: Action) -> Grant:
    """Returns a grant to post with these further powers."""
    may = frozenset({Action.READ, Action.POST, *powers})
    return Grant(agent, "main", frozenset({Action.POST}), {None: may})


class RuleTests:
    async def _book(self, at: Table, agent: str = "alice") -> RuleBook:
        return await at.store.rules(at.board, agent)

    async def test_every_change_of_a_public_rule_is_a_revision_and_nothing_else(self, at: Table) -> None:
        await at.post("alice", "a fact")
        assert await self._book(at) == RuleBook()
        rule = await at.post("alice", "Cite.", "CONSTRAINT")
        assert [(one.id, one.revision) for one in (await self._book(at)).rules] == [(rule.id, 1)]
        await at.store.set_core(at.board, "alice", Core("aim", ("Be brief.",)), expected_version=0)
        await at.store.set_core(at.board, "alice", Core("other", ("Be brief.",)), expected_version=1)
        await at.post("alice", "mine alone", "CONSTRAINT", private=True)
        await at.post("bob", "doubtful", "CRITIQUE", critiques=rule)
        book = await self._book(at)
        assert [(one.id, one.revision) for one in book.rules][:2] == [("core 1", 2), (rule.id, 1)]
        assert (book.revision, len(book.rules)) == (2, 3)
        assert len((await self._book(at, "bob")).rules) == 2
        await at.store.set_core(at.board, "alice", Core("other"), expected_version=2)
        assert (await self._book(at, "bob")).revision == 3
        assert (await at.store.snapshot(at.board, "bob")).rules == 3

    async def test_who_was_shown_the_rules_is_kept_and_never_goes_back(self, at: Table) -> None:
        await at.post("alice", "Cite.", "CONSTRAINT")
        assert [one.text for one in (await self._book(at, "bob")).unseen] == ["Cite."]
        await at.store.saw_rules(at.board, "bob", 1)
        await at.store.saw_rules(at.board, "bob", 0)
        assert (await self._book(at, "bob")).unseen == ()
        await at.post("alice", "Be brief.", "CONSTRAINT")
        assert [one.text for one in (await self._book(at, "bob")).unseen] == ["Be brief."]
        await at.store.saw_rules("no board", "bob", 1)

    async def test_who_changes_the_rules_was_shown_the_change_but_no_other(self, at: Table) -> None:
        await at.post("alice", "Cite.", "CONSTRAINT")
        await at.store.set_core(at.board, "alice", Core("aim", ("Be kind.",)), expected_version=0)
        assert (await self._book(at)).unseen == ()
        await at.post("bob", "Be brief.", "CONSTRAINT")
        await at.post("alice", "Be exact.", "CONSTRAINT")
        assert "Be brief." in [one.text for one in (await self._book(at)).unseen]

    async def test_who_heeds_rules_is_done_with_a_task_once_it_was_shown_them(self, at: Table) -> None:
        (number,) = await plan(at, "one")
        await take(at, "bob", number)
        done, once = Settle("done", number, 0, said("so")), Once("k", "d")
        await at.post("alice", "Cite.", "CONSTRAINT")
        before = await at.seq()
        with pytest.raises(RulesUnseen, match="Rules changed") as refused:
            await at.store.settle_task(at.board, "bob", done, heeding=True, once=once)
        assert refused.value.book == await self._book(at, "bob")
        assert await at.seq() == before
        await at.store.saw_rules(at.board, "bob", 1)
        settled = await at.store.settle_task(at.board, "bob", done, heeding=True, once=once)
        await at.post("alice", "Be brief.", "CONSTRAINT")
        again = await at.store.settle_task(at.board, "bob", done, heeding=True, once=once)
        assert (again.item, again.seq) == (settled.item, settled.seq), "it was done before the rule"

    async def test_a_scope_says_who_comes_under_a_rule(self, at: Table) -> None:
        for scope in ("agent:bob", "path:docs/**", "key:plan:*", "nonsense", 7):
            rule = {"rule": {"scope": scope, "strength": "prefer"}}
            await at.post("alice", f"for {scope}", "CONSTRAINT", metadata=rule)
        book = await self._book(at, "bob")
        assert [(one.scope, one.mine) for one in book.rules] == [
            *(("agent:bob", True), ("path:docs/**", False), ("key:plan:*", False)),
            *(("board", True), ("board", True)),
        ]
        assert {one.strength for one in book.rules} == {Strength.PREFER}
        await at.store.take_task(at.board, "bob", paths=["file:docs/a/b.md", "key:plan:x"])
        assert all(one.mine for one in (await self._book(at, "bob")).rules)

    async def test_stewards_and_authors_rewrite_and_retire_rules_when_they_rule(
        self, at: Table, clock: HandClock
    ) -> None:
        rule = await at.post("alice", "Cite.", "CONSTRAINT")
        fact = await at.post("alice", "a fact")
        text = "Cite twice."
        fresh = Draft(text, target=rule.number, tokens=3, sha256=content_hash(text))

        async def write(agent: str, draft: Draft, *powers: Action, ruling: bool = True) -> None:
            with under(as_steward(agent, *powers)):
                await at.store.post(at.board, agent, [draft], config=CONFIG, ruling=ruling)

        for agent, powers, ruling in (
            ("bob", (), True),
            ("bob", (Action.MODERATE,), False),
            ("alice", (), False),
        ):
            with pytest.raises(InvalidInput):
                await write(agent, fresh, *powers, ruling=ruling)
        with pytest.raises(InvalidInput):
            await write("alice", replace(fresh, target=fact.number))
        await write("bob", fresh, Action.MODERATE)
        await write("alice", replace(fresh, text="Cite always.", sha256=content_hash("Cite always.")))
        book = await self._book(at)
        assert [(one.version, one.text, one.author) for one in book.rules] == [(3, "Cite always.", "alice")]
        retired = Draft(None, target=rule.number, status=Status.RESOLVED)
        with pytest.raises(Refused):
            await write("bob", retired)
        await write("bob", retired, Action.MODERATE)
        assert ((await self._book(at)).rules, (await self._book(at)).revision) == ((), 4)
        for agent in ("alice", "bob"):
            with pytest.raises(Conflict, match="already, by bob"):
                await write(agent, replace(retired, metadata={"rule": {"retired": "again"}}), Action.MODERATE)
        assert (await at.item(rule)).metadata == {}
