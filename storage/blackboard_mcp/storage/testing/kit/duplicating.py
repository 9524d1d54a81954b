"""Tests of duplicates: an agent's repeated post is stored once, and remarks name what a post repeats or joins."""

from __future__ import annotations

from typing import Any

import pytest
from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.items import Zone
from blackboard_mcp.protocols.remarks import RemarkKind

from ..harness import Table, draft


async def remarks(
    at: Table, agent: str, text: str, type: str = "FACT", **said: Any
) -> list[tuple[RemarkKind, list[int]]]:
    """Posts an item by an agent that was shown all, and returns the remarks as pairs of kind and item numbers."""
    posted = await at.batch(agent, draft(text, type, **said), look=1 << 62)
    return [(remark.kind, [item.number for item in remark.about]) for remark in posted.remarks]


class DuplicateTests:
    @pytest.mark.parametrize(
        "type_",
        ["FACT", "HYPOTHESIS", "PLAN", "DECISION", "QUESTION", "PROBLEM", "CONSTRAINT", "HOT_ISSUE", "REPLY"],
    )
    async def test_the_same_post_of_an_agent_is_stored_once(self, at: Table, type_: str) -> None:
        first = await at.post("alice", "We take the train.", type_)
        seq = (await at.standing()).seq
        assert await remarks(at, "alice", "We take the train.", type_) == [(RemarkKind.SAME, [first.number])]
        assert ((await at.standing()).working_items, (await at.standing()).seq) == (1, seq)

    @pytest.mark.parametrize("type_", ["LOG", "RESULT"])
    async def test_what_happened_may_happen_again(self, at: Table, type_: str) -> None:
        first = await at.post("alice", "42 tests passed", type_)
        assert await remarks(at, "alice", "42 tests passed", type_) == []
        assert (await at.standing()).working_items == 2
        assert (await at.item(first)).supporters == ()

    async def test_a_finding_is_the_same_in_another_spelling_and_a_plan_is_not(self, at: Table) -> None:
        await at.post("alice", "The pool is full")
        assert await remarks(at, "alice", "the  pool is\nfull.") == [(RemarkKind.SAME, [1])]
        await at.post("alice", "Empty the pool", "PLAN")
        assert await remarks(at, "alice", "empty the pool.", "PLAN") == []

    async def test_fields_that_differ_are_named_and_left_alone(self, at: Table) -> None:
        first = await at.post("alice", "a", importance=2, tags=["x"])
        posted = await at.batch("alice", draft("a", importance=5, tags=["y"], metadata={}))
        assert posted.remarks[0].fields == ("importance", "tags")
        now = await at.item(first)
        assert (now.importance, now.tags, now.seq) == (2, ("x",), first.seq)

    @pytest.mark.parametrize(
        "said",
        [
            {"private": True},
            {"key": "k"},
            {"ttl": 60.0},
            {"status": "RESOLVED"},
            {"type": "HYPOTHESIS"},
            {"supports": 1},
            {"refutes": 1},
            {"depends_on": 1},
        ],
    )
    async def test_another_sight_key_status_type_or_edge_is_another_post(
        self, at: Table, said: dict[str, Any]
    ) -> None:
        await at.post("bob", "something else")
        first = await at.post("alice", "a")
        posted = await at.batch("alice", draft("a", **said))
        assert posted.items[0].number != first.number
        assert all(remark.kind is not RemarkKind.SAME for remark in posted.remarks)

    async def test_the_same_edges_make_the_same_post(self, at: Table) -> None:
        other = await at.post("bob", "something else")
        against = await at.post("alice", "a", refutes=other)
        assert await remarks(at, "alice", "a", refutes=other) == [(RemarkKind.SAME, [against.number])]
        assert await remarks(at, "alice", "a") == []

    @pytest.mark.parametrize("status", ["RESOLVED", "WITHDRAWN", "INVALIDATED"])
    async def test_what_no_longer_stands_is_posted_anew(self, at: Table, status: str) -> None:
        first = await at.post("alice", "a")
        await at.change("alice", first, status=status)
        again = await at.post("alice", "a")
        assert again.number != first.number

    async def test_an_archived_item_comes_back_when_it_is_posted_again(self, at: Table) -> None:
        first = await at.post("alice", "a")
        await at.gone(first)
        again = await at.post("alice", "a")
        assert (again.number, again.zone) == (first.number, Zone.WORKING)

    async def test_a_private_note_again_is_stored_once_and_nobody_elses(self, at: Table) -> None:
        first = await at.post("alice", "mine", private=True)
        assert (await at.post("alice", "mine", private=True)).number == first.number
        assert (await at.post("bob", "mine", private=True)).number != first.number
        assert await remarks(at, "bob", "mine") == []

    async def test_a_critique_is_the_same_while_it_waits_for_its_answer(self, at: Table) -> None:
        claim = await at.post("alice", "a")
        first = await at.post("bob", "no", "CRITIQUE", critiques=claim)
        assert (await at.post("bob", "no", "CRITIQUE", critiques=claim)).number == first.number
        await at.post("alice", "it is", "REPLY", replies_to=first)
        again = await at.post("bob", "no", "CRITIQUE", critiques=claim)
        assert again.number != first.number

    async def test_an_answer_in_the_same_words_meets_what_is_owed_anew(self, at: Table) -> None:
        asked = await at.post("bob", "What now?", "QUESTION")
        reply = await at.post("alice", "Wait.", "REPLY", replies_to=asked)
        assert (await at.post("alice", "Wait.", "REPLY", replies_to=asked)).number == reply.number
        await at.store.debate_watch(at.board, "alice", asked.number)
        assert (await at.post("alice", "Wait.", "REPLY", replies_to=asked)).number != reply.number

    async def test_a_new_version_may_be_answered_in_the_same_words(self, at: Table) -> None:
        plan = await at.post("bob", "first", "PLAN", key="plan")
        reply = await at.post("alice", "fine", "REPLY", replies_to=plan)
        await at.post("bob", "second", "PLAN", key="plan")
        assert (await at.post("alice", "fine", "REPLY", replies_to=plan)).number != reply.number

    async def test_a_batch_stores_the_same_post_once(self, at: Table) -> None:
        posted = await at.batch("alice", *(draft("We go", "PLAN") for _ in range(4)))
        assert [item.number for item in posted.items] == [1] * 4
        assert [(remark.place, remark.kind) for remark in posted.remarks] == [
            (place, RemarkKind.SAME) for place in (1, 2, 3)
        ]

    async def test_an_idempotency_key_gives_the_repetition_back(self, at: Table) -> None:
        await at.post("alice", "a", tags=["x"])
        once = Once("try", "digest")
        answers = [await at.batch("alice", draft("b"), draft("a", tags=["y"]), once=once) for _ in range(2)]
        assert [answer.repeated for answer in answers] == [False, True]
        told = [[(r.place, r.kind, r.about[0].number, r.fields) for r in a.remarks] for a in answers]
        assert told[0] == told[1] == [(1, RemarkKind.SAME, 1, ("tags",))]

    async def test_a_critique_is_told_of_those_that_stand_in_the_debate(self, at: Table) -> None:
        claim = await at.post("alice", "a")
        assert await remarks(at, "bob", "no", "CRITIQUE", critiques=claim) == []
        assert await remarks(at, "carol", "wrong", "CRITIQUE", critiques=claim) == [
            (RemarkKind.CRITICISED, [2])
        ]
        await at.withdraw("bob", await at.item(2))
        assert await remarks(at, "dave", "never", "CRITIQUE", critiques=claim) == [
            (RemarkKind.CRITICISED, [3])
        ]

    async def test_no_more_than_five_critiques_are_named(self, at: Table) -> None:
        claim = await at.post("alice", "a")
        for place in range(6):
            await at.post(f"critic{place}", f"no {place}", "CRITIQUE", critiques=claim)
        posted = await at.batch("zoe", draft("no", "CRITIQUE", critiques=claim))
        assert ([item.number for item in posted.remarks[0].about], posted.remarks[0].more) == (
            [2, 3, 4, 5, 6],
            1,
        )

    async def test_what_fell_is_stored_anew_and_named(self, at: Table) -> None:
        first = await at.post("alice", "The disk is full")
        await at.change("alice", first, status="INVALIDATED")
        assert await remarks(at, "bob", "the disk is full.") == [(RemarkKind.FALLEN, [first.number])]

    async def test_what_fell_is_named_to_whoever_says_about_the_same(self, at: Table) -> None:
        first = await at.post("alice", "The outage was caused by the connection pool", "HYPOTHESIS")
        said = "Connection pools cause the outage"
        assert await remarks(at, "bob", said, "HYPOTHESIS") == []
        await at.change("alice", first, status="WITHDRAWN")
        close = [(RemarkKind.CLOSE, [first.number])]
        assert await remarks(at, "carol", "The connection pool causes outages", "HYPOTHESIS") == close
        assert await remarks(at, "carol", "It's the connection pool that causes outages.") == close
        assert await remarks(at, "carol", "the outage was caused by the connection pool.", "HYPOTHESIS") == [
            (RemarkKind.FALLEN, [first.number])
        ]
        for other in (
            "Connection pools do not cause the outage",
            "Connection pools cause the outage after 5 minutes",
            "Connection pools outlive the migration that was rolled back on Tuesday",
            "the pool",
        ):
            assert await remarks(at, "dave", other) == [], other
        assert await remarks(at, "dave", said, "LOG") == []
        assert await remarks(at, "dave", f"{said}!", "HYPOTHESIS", refutes=first) == [
            (RemarkKind.CLAIM, [first.number])
        ]

    async def test_what_differs_in_numbers_only_is_stored_and_named(self, at: Table) -> None:
        await at.post("alice", "The pool holds 10 connections")
        assert await remarks(at, "bob", "the pool holds 1,000 connections") == [(RemarkKind.NUMBERS, [1])]
        assert await remarks(at, "carol", "The pool holds ten connections") == []
        assert await remarks(at, "carol", "The pool does not hold 10 connections") == []
        assert await remarks(at, "carol", "10") == []
        assert await remarks(at, "carol", "12") == []

    async def test_a_newer_measurement_that_says_what_it_replaces_is_not_remarked_on(self, at: Table) -> None:
        first = await at.post("alice", "The queue has 10 entries")
        assert await remarks(at, "alice", "The queue has 12 entries", supersedes=first) == []

    async def test_what_is_hidden_is_never_named(self, at: Table) -> None:
        claim = await at.post("alice", "a")
        hidden = await at.post("carol", "The pool holds 10 connections", private=True)
        await at.change("carol", hidden, status="INVALIDATED")
        await at.post("carol", "between us", "CRITIQUE", critiques=claim, private=True)
        assert await remarks(at, "bob", "The pool holds 10 connections") == []
        assert await remarks(at, "eve", "Pools hold 10 connections") == []
        assert await remarks(at, "dave", "The pool holds 11 connections") == [(RemarkKind.NUMBERS, [4])]
        assert await remarks(at, "bob", "no", "CRITIQUE", critiques=claim) == []
