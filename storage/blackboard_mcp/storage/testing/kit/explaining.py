"""Tests of explanations: what protects an item, when it would leave, why it left, and that nothing private shows."""

from __future__ import annotations

from blackboard_mcp.protocols.board import BoardChange

from ..harness import HandClock, Table, draft
from .debates import argue


class ExplainTests:
    async def test_a_held_item_is_explained_by_its_chain_its_debate_and_what_is_outstanding(
        self, at: Table
    ) -> None:
        root, critique = await argue(at)
        leaf = await at.post("carol", "leaf", supports=critique)
        told = (await at.store.explain(at.board, "carol", [leaf.number])).explanations[0]
        assert told.protection is not None
        assert told.root == root.id
        assert set(told.names.values()) == {root.id, critique.id, leaf.id}
        assert [(o.agent, str(o.duty)) for o in told.waits] == [("alice", "respond")]
        await at.answer("alice", critique)
        told = (await at.store.explain(at.board, "carol", [leaf.number])).explanations[0]
        assert [(o.agent, str(o.duty)) for o in told.waits] == [("bob", "acknowledge")]
        assert (told.turn, told.left) == (None, None)

    async def test_the_turn_of_a_free_item_counts_what_each_step_takes_before_it(
        self, at: Table, clock: HandClock
    ) -> None:
        note = await at.post("alice", "note")
        log = await at.post("alice", "one two", "LOG", analyzed_by=note)
        done = await at.post("alice", "one two three", status="RESOLVED", importance=1)
        old, new = [
            (await at.batch("alice", draft(f"one two three {name}", importance=2))).items[0]
            for name in ("four", "five")
        ]
        five = await at.post("alice", "five", importance=5)
        brief = await at.post("alice", "brief", "LOG", ttl=10)
        clock.advance(10)
        asked = [done, log, old, new, five, brief]
        told = (await at.store.explain(at.board, "bob", [i.number for i in asked])).explanations
        turns = [e.turn for e in told if e.turn is not None]
        assert [(t.takes, t.items, t.tokens) for t in turns] == [
            ("resolved", 0, 0),
            ("logs", 1, 3),
            ("importance", 2, 5),
            ("importance", 3, 9),
            (None, None, None),
            ("expired", 0, 0),
        ]
        await at.store.change_board(at.board, "alice", BoardChange(settings={"steps": ("importance",)}))
        told = (await at.store.explain(at.board, "bob", [done.number, old.number])).explanations
        assert [(e.turn.takes, e.turn.items) for e in told if e.turn] == [
            ("importance", 0),
            ("importance", 2),
        ]

    async def test_a_member_of_a_finished_thread_waits_for_a_summary(self, at: Table) -> None:
        root = await at.post("alice", "root", importance=4)
        for n in range(5):
            await at.post("bob", str(n), "REPLY", replies_to=root)
        for decided in (False, True):
            if decided:
                await at.post("alice", "so", "DECISION", replies_to=root)
            told = (await at.store.explain(at.board, "carol", [root.number])).explanations[0]
            assert told.turn is not None
            assert told.turn.takes == ("threads" if decided else "importance")

    async def test_an_archived_item_is_explained_by_the_event_it_left_by(self, at: Table) -> None:
        item = await at.post("alice", "a")
        await at.gone(item)
        told = (await at.store.explain(at.board, "bob", [item.number])).explanations[0]
        assert told.left is not None
        assert told.left.event == "item.archived"
        assert told.left.data["step"] == 4
        assert (told.protection, told.turn) == (None, None)

    async def test_explanations_tell_nothing_of_what_is_private(self, at: Table) -> None:
        root, _ = await argue(at)
        note = await at.post("bob", "doubts", private=True, supports=root)
        far = await at.post("carol", "far")
        await at.change("bob", note, supports=far)
        free = await at.post("carol", "free", "LOG")
        await at.post("bob", "hidden", "LOG", importance=1, private=True)
        told = await at.store.explain(at.board, "carol", [far.number, note.number, free.number])
        assert told.missing == (str(note.number),)
        let, turn = told.explanations
        assert let.protection is None, "what is hidden holds nothing that others see"
        assert let.names == {}
        assert turn.turn is not None
        assert (turn.turn.items, turn.turn.tokens) == (0, 0)
        assert told.tokens == (await at.standing()).working_tokens - 2
        own = await at.store.explain(at.board, "bob", [note.number, free.number])
        assert own.explanations[0].protection is not None
        assert {note.number, root.number} == set(own.explanations[0].names)
        assert own.explanations[1].turn is not None
        assert own.explanations[1].turn.items == 1
