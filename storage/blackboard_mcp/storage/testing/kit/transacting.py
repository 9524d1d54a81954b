"""Tests of transactions: all reads are checked, and either everything is applied or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from blackboard_mcp.protocols.answers import (
    Committed,
    Once,
)
from blackboard_mcp.protocols.debates import DebateCall, DebateOp
from blackboard_mcp.protocols.errors import BlackboardError, Conflict, InvalidInput, Refused, UnknownReference
from blackboard_mcp.protocols.groups import Handle
from blackboard_mcp.protocols.items import Draft
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.protocols.transactions import BOARD, MAX_GLOBS, MAX_READS, Since, Transaction

from ..harness import CONFIG, Table, Target, draft, number

Reads = Mapping[str, int | Since]


async def transact(
    at: Table,
    agent: str,
    reads: Reads | None = None,
    *writes: Draft,
    debates: Sequence[DebateCall] = (),
    once: Once | None = None,
    ack: Sequence[Handle] = (),
) -> Committed:
    """Makes a transaction, and returns its result."""
    transaction = Transaction(reads or {}, writes, debates, "g" if ack else "", tuple(ack))
    return await at.store.transact(at.board, agent, transaction, config=CONFIG, once=once)


async def moved(at: Table, agent: str, reads: Reads, *writes: Draft, **more: Any) -> dict[str, int]:
    """Returns what a conflict names as changed; fails if there is no conflict or something was changed."""
    before = await at.store.find_board(at.board), await at.events(agent)
    with pytest.raises(Conflict) as told:
        await transact(at, agent, reads, *writes, **more)
    assert (await at.store.find_board(at.board), await at.events(agent)) == before
    found = told.value.facts["moved"]
    assert told.value.facts["seq"] == await at.seq()
    assert isinstance(found, dict)
    return found


def call(op: str, target: Target, **more: Any) -> DebateCall:
    """Makes a `DebateCall` on the item `target`; `more` are further fields of it."""
    return DebateCall(DebateOp(op), number(target), **more)


class TransactionTests:
    async def test_what_was_read_still_stands_and_everything_is_applied_at_once(self, at: Table) -> None:
        plan = await at.post("alice", "plan", "PLAN", key="plan:a")
        claim = await at.post("bob", "claim", "HYPOTHESIS")
        before = await at.seq()
        done = await transact(
            at,
            "alice",
            {"plan:a": 1, claim.id: 1, "plan:b": 0, "plan:*": Since(before), BOARD: before},
            draft("plan, second", key="plan:a", expected=1),
            draft("next", "PLAN", key="plan:b", expected=0, depends_on=-1),
            draft("not so", "CRITIQUE", critiques=claim),
            draft(None, on=plan, importance=5),
            debates=[call("watch", -2), call("withdraw", -3)],
        )
        assert [item.id for item in done.items] == [plan.id, "P-3", "C-4", plan.id]
        assert (done.items[0].version, done.items[0].importance, done.items[0].text) == (2, 5, "plan, second")
        assert [(d.id, d.state) for d in done.debates] == [("P-3", None), ("C-4", "WITHDRAWN")]
        assert done.seq == await at.seq() == done.board.seq  # type: ignore[union-attr]
        assert list(done.items) == [await at.item(item.number) for item in done.items]
        assert (await at.owed("alice")) == {(3, "acknowledge")}
        assert {event.agent for event in await at.events(after=before)} == {"alice"}

    async def test_a_conflict_names_everything_that_moved_and_changes_nothing(self, at: Table) -> None:
        for key in ("a", "b", "c"):
            await at.post("alice", key, key=key)
        claim = await at.post("bob", "claim", "HYPOTHESIS")
        read = await at.seq()
        await at.post("bob", "b again", key="b")
        await at.change("bob", claim, status="RESOLVED")
        await at.post("bob", "new", key="d")
        seq = await at.seq()
        found = await moved(
            at,
            "alice",
            {"a": 1, "b": 1, "d": 0, "F-99": 2, claim.id: Since(read), "7": 0},
            draft("c again", key="c", expected=4),
            draft("x", key="e", expected=2),
            draft(None, on=claim, importance=1, expected=3),
        )
        assert found == {"b": 2, "d": 1, "F-99": 0, claim.id: seq - 1, "c": 1, "e": 0}
        assert await moved(at, "alice", {"*": read}) == {"*": seq, "b": 2, "d": 1}
        found = await moved(at, "alice", {BOARD: Since(read)})
        assert found == {BOARD: seq, "b": 2, claim.id: 1, "d": 1}

    @pytest.mark.parametrize("how", ["created", "versioned", "changed", "watched"])
    async def test_a_glob_moves_with_whatever_happens_to_what_it_matches(self, at: Table, how: str) -> None:
        known = await at.post("alice", "one", key="plan:1")
        other = await at.post("alice", "other", key="plan:1:x")
        read = await at.seq()
        reads: Reads = {"plan:*": read}
        await at.change("bob", other, status="RESOLVED")
        await at.post("bob", "elsewhere", key="plans:2")
        assert (await transact(at, "alice", reads)).seq == await at.seq(), "nothing that matches moved"
        if how == "created":
            await at.post("bob", "two", key="plan:2")
        elif how == "versioned":
            await at.post("bob", "one", key="plan:1")
        elif how == "changed":
            await at.change("bob", known, status="RESOLVED")
        else:
            await at.watch("bob", known)
        key, version = {"created": ("plan:2", 1), "versioned": ("plan:1", 2)}.get(how, ("plan:1", 1))
        seq = await at.seq()
        assert await moved(at, "alice", reads, draft("so", key="z")) == {"plan:*": seq, key: version}
        assert await moved(at, "alice", {"**": Since(seq - 1)}) == {"**": seq, key: version}

    async def test_a_version_is_of_the_content_and_a_sequence_of_everything(self, at: Table) -> None:
        item = await at.post("alice", "one", key="k")
        for change in ({"status": "RESOLVED"}, {"tags": ["t"]}, {"importance": 1}, {"metadata": {"a": 1}}):
            read = await at.seq()
            await at.change("alice", item, **change)
            assert (await transact(at, "alice", {"k": 1})).items == ()
            for name in ("k", item.id):
                assert await moved(at, "alice", {name: Since(read)}) == {name: read + 1}
                await transact(at, "alice", {name: Since(read + 1)})
        read = await at.seq()
        await at.gone(item)
        assert await moved(at, "alice", {"k": Since(read)}) == {"k": read + 1}
        await transact(at, "alice", {"k": 1})

    async def test_absence_is_read_as_well(self, at: Table) -> None:
        await at.post("alice", "there")
        reads: Reads = {"lock": 0, "F-2": 0}
        await transact(at, "alice", reads, draft("mine", key="lock"))
        assert await moved(at, "bob", reads, draft("mine", key="lock")) == {"lock": 1, "F-2": 1}
        assert await moved(at, "bob", {"lock": Since(1)}) == {"lock": 3}
        assert (await at.item(2)).version == 1

    async def test_a_deletion_is_read_as_an_absence_and_is_a_change(self, at: Table) -> None:
        entry = await at.post("alice", "one", key="k:1")
        other = await at.post("alice", "other", key="other")
        read = await at.seq()
        await transact(at, "alice", {"k:1": 1}, draft(None, key="k:1", delete=True, expected=1))
        gone = await at.seq()
        for reads in ({"k:1": 0}, {"k:1": 2}, {entry.id: 0}, {entry.id: 2}, {"k:*": gone}):
            await transact(at, "bob", reads)
        assert await moved(at, "bob", {"k:1": 1, "k:*": read}) == {"k:1": 0, "k:*": gone}
        assert await moved(at, "bob", {entry.id: 1}) == {entry.id: 2}
        assert await moved(at, "bob", {"k:1": Since(read)}) == {"k:1": gone}
        assert await moved(at, "bob", {}, draft("x", key="k:1", expected=1)) == {"k:1": 0}
        assert await moved(at, "bob", {}, draft("x", on=entry, expected=1)) == {"k:1": 0}
        await transact(at, "bob", {"k:1": 0}, draft("again", key="k:1", expected=0))
        assert await moved(at, "alice", {"k:1": 0, "k:*": gone}) == {"k:1": 3, "k:*": gone + 2}
        done = await transact(
            at,
            "alice",
            {"k:1": 3, "new": 0},
            draft(None, key="k:1", delete=True, expected=3),
            draft("anew", key="k:1", expected=4),
            draft(None, key="k:1", delete=True, expected=5),
            draft("then", key="k:1", expected=0),
            draft("made", key="new"),
            draft(None, key="new", delete=True, expected=1),
            draft(None, on=other, delete=True, expected=1),
        )
        assert [(item.version, item.deleted) for item in done.items] == [(7, False)] * 4 + [(2, True)] * 3
        assert [(await at.item(1, version=v)).text for v in range(1, 8)] == [
            "one",
            "",
            "again",
            "",
            "anew",
            "",
            "then",
        ]

    async def test_nothing_is_deleted_that_the_guard_holds(self, at: Table) -> None:
        root = await at.post("alice", "root", key="k")
        await at.post("bob", "no", "CRITIQUE", critiques=root)
        before = await at.seq()
        with pytest.raises(Refused):
            await transact(at, "alice", {"k": 1}, draft("x", key="z"), draft(None, key="k", delete=True))
        assert await at.seq() == before

    async def test_what_is_private_to_others_reads_as_absent_and_moves_nothing(self, at: Table) -> None:
        mine = await at.post("alice", "mine", key="k", private=True)
        read = await at.seq()
        theirs = await at.post("bob", "theirs", key="k", private=True)
        await at.change("bob", theirs, importance=1)
        reads: Reads = {
            "k": 1,
            theirs.id: 0,
            f":{theirs.id}": 0,
            "*": read,
            BOARD: read,
            mine.id: Since(read),
        }
        await transact(at, "alice", reads)
        assert await moved(at, "alice", {theirs.id: 1, "k": 3}) == {theirs.id: 0, "k": 1}
        assert await moved(at, "carol", {"k": 1}) == {"k": 0}
        await transact(at, "carol", {"k": 0, "**": 1, BOARD: 1, mine.id: 0})

    async def test_a_key_names_what_reading_it_shows(self, at: Table) -> None:
        await at.batch("alice", draft("shared", key="k"), draft("shared, second", key="k"))
        read = await at.seq()
        await transact(at, "alice", {"k": 2})
        await at.post("alice", "mine", key="k", private=True)
        await transact(at, "alice", {"k": 1}, draft("both", key="k", private=True, expected=1))
        assert await moved(at, "alice", {"k": Since(read)}) == {"k": await at.seq()}
        assert await moved(at, "alice", {"k": 1}) == {"k": 2}
        await transact(at, "bob", {"k": 2})

    async def test_two_writes_to_one_key_take_a_version_each(self, at: Table) -> None:
        done = await transact(
            at,
            "alice",
            {"k": 0},
            draft("one", key="k", expected=0),
            draft("two", key="k", expected=1),
            draft("three", key="k"),
            draft(None, on=1, status="RESOLVED", expected=3),
            debates=[call("watch", 1)],
        )
        assert {item.version for item in done.items} == {3}
        assert [(await at.item(1, version=v)).text for v in (1, 2, 3)] == ["one", "two", "three"]
        with pytest.raises(InvalidInput, match="earlier write"):
            await transact(at, "alice", {}, draft("a", key="k", expected=3), draft("b", key="k", expected=3))
        with pytest.raises(InvalidInput, match="takes to 4"):
            await transact(at, "alice", {}, draft("a", key="k"), debates=[call("acknowledge", 1, version=3)])
        assert await moved(at, "alice", {}, debates=[call("acknowledge", 1, version=2)]) == {"k": 3}
        await transact(at, "alice", {}, debates=[call("acknowledge", 1, version=3)])

    async def test_I16_no_cycle_of_depends_on_arises_inside_a_transaction(self, at: Table) -> None:
        old = await at.post("alice", "old")
        back = draft(None, on=old, depends_on=-2)
        with pytest.raises(InvalidInput, match="cycle"):
            await transact(at, "alice", {}, draft("new", depends_on=old), draft("newer", depends_on=-1), back)
        assert (await at.seq(), await at.sees("alice", 2)) == (2, False)

    async def test_I15_edges_lead_to_what_is_there_or_comes_before(self, at: Table) -> None:
        for wrong in (draft("a", supports=-1), draft("a", supports=-2), draft("a", supports=7)):
            with pytest.raises((InvalidInput, UnknownReference)):
                await transact(at, "alice", {}, wrong, draft("b"))
        with pytest.raises(InvalidInput, match="names '\\$2'"):
            await transact(at, "alice", {}, draft("a"), debates=[call("watch", -2)])
        assert await at.store.find_board(at.board) is None

    async def test_I24_what_fails_at_its_end_leaves_nothing_behind(self, at: Table) -> None:
        item = await at.post("alice", "root", key="k")
        once = Once("key", "digest")
        before = await at.standing(), await at.events(), await at.store.agents(at.board)
        writes = draft("two", key="k"), draft("no", "CRITIQUE", critiques=item), draft("x", private=True)
        commits = at.store.changes()
        for last in (call("decide", item, reason="so"), call("watch", 99)):
            with pytest.raises(BlackboardError, match=r"^Debate 2, "):
                await transact(at, "bob", {"k": 1}, *writes, debates=[call("open", item), last], once=once)
            assert (await at.standing(), await at.events(), await at.store.agents(at.board)) == before
            assert await at.item(item) == item
        assert at.store.changes() == commits, "nobody is woken up for nothing"
        done = await transact(at, "bob", {"k": 1}, *writes, once=once)
        assert [item.number for item in done.items] == [1, 2, 3]
        assert await at.state(item) == "OPEN"

    async def test_I24_a_repeated_key_applies_once_and_answers_the_same(self, at: Table) -> None:
        once = Once("key", "digest")
        said = {"k": 0}, draft("one", key="k"), draft("two", "HYPOTHESIS", supports=-1)
        first = await transact(at, "alice", *said, debates=[call("open", -2)], once=once)
        await at.post("bob", "more", key="k")
        again = await transact(at, "alice", *said, debates=[call("open", -2)], once=once)
        assert again.repeated
        assert (again.seq, again.debates) == (first.seq, first.debates)
        assert [item.id for item in again.items] == [item.id for item in first.items]
        assert len(await at.query(zone=None)) == 2
        with pytest.raises(InvalidInput, match="different"):
            await transact(at, "alice", {}, draft("three"), once=Once("key", "another"))
        assert not (await transact(at, "bob", {"k": 2}, draft("three"), once=once)).repeated

    async def test_I27_no_transaction_crosses_boards(self, store: BoardStore) -> None:
        one, two = Table(store, "one"), Table(store, "two")
        item = await two.post("alice", "there", key="k")
        await two.post("alice", "there too")
        await one.post("alice", "here")
        assert await moved(one, "alice", {"k": 1, "F-2": 1}) == {"k": 0, "F-2": 0}
        for wrong in (draft("x", supports=2), draft(None, on=2, status="RESOLVED")):
            with pytest.raises(UnknownReference):
                await transact(one, "alice", {}, wrong)
        with pytest.raises(UnknownReference):
            await transact(one, "alice", {}, draft("x"), debates=[call("watch", 3)])
        await two.post("bob", "there again", key="k")
        await transact(one, "alice", {"k": 0, "**": 1, BOARD: 2}, draft("mine", key="k"))
        assert (await two.item(item)).version == 2
        assert (await one.seq(), await two.seq()) == (3, 4)

    async def test_a_transaction_without_writes_validates_and_changes_nothing(self, at: Table) -> None:
        nowhere = await transact(at, "alice", {"k": 0, "F-1": 0, "**": 0, BOARD: 0})
        assert (nowhere.seq, nowhere.board, nowhere.items) == (0, None, ())
        assert await at.store.find_board(at.board) is None
        with pytest.raises(Conflict):
            await transact(at, "alice", {"k": 1})
        await at.post("alice", "k", key="k")
        before = await at.standing(), await at.store.agents(at.board)
        assert (await transact(at, "bob", {"k": 1}, once=Once("key", "digest"))).seq == 2
        assert await moved(at, "bob", {"k": 2}) == {"k": 1}
        assert (await at.standing(), await at.store.agents(at.board)) == before

    async def test_a_transaction_makes_a_board_that_is_not_there(self, at: Table) -> None:
        done = await transact(at, "alice", {"k": 0, BOARD: 0, "*": Since(0)}, draft("k", key="k"))
        assert (done.seq, [event.event for event in await at.events()]) == (
            2,
            ["board.created", "item.posted"],
        )

    async def test_a_conflict_over_the_board_names_items_in_order(self, at: Table) -> None:
        facts = [await at.post("alice", f"fact {n}") for n in range(12)]
        found = await moved(at, "bob", {BOARD: Since(0)})
        assert list(found) == [BOARD, *(fact.id for fact in facts)]

    @pytest.mark.parametrize(
        "reads",
        [
            {"": 0},
            {"a:": 1},
            {"a b": 1},
            {"k@2": 2},
            {"H-17@2": 2},
            {"H-17": 1, "17": 1},
            {"k": 1, ":k": 1},
            {"k": -1},
            {"*": Since(-1)},
            {"*": 3},
            {BOARD: 3},
            {"k": Since(3)},
            {f"k{n}": 0 for n in range(MAX_READS + 1)},
            {f"k{n}*": 0 for n in range(MAX_GLOBS + 1)},
        ],
    )
    async def test_reads_that_cannot_be_are_refused(self, at: Table, reads: Reads) -> None:
        await at.post("alice", "one")
        for writes in ((), (draft("x"),)):
            with pytest.raises(InvalidInput):
                await transact(at, "alice", reads, *writes)
        assert await at.seq() == 2

    async def test_a_key_like_an_id_is_named_with_a_colon(self, at: Table) -> None:
        await at.post("alice", "fact")
        await at.batch("alice", draft("a", key="F-1"), draft("b", key="F-1"))
        await transact(at, "alice", {"F-1": 1, ":F-1": 2, "f-1": 0})

    async def test_the_guard_holds_against_transactions(self, at: Table) -> None:
        root = await at.post("alice", "root", "HYPOTHESIS")
        await at.post("bob", "no", "CRITIQUE", critiques=root)
        done = await transact(at, "alice", {root.id: 1}, draft("better", "HYPOTHESIS", supersedes=root))
        assert (await at.zone(root), done.items[0].number) == ("working", 3)
        assert await at.state(root) == "OPEN"

    async def test_of_two_that_read_the_same_one_is_refused(self, handles: tuple[Table, Table]) -> None:
        """This is write skew: both read both entries and each writes one, so either must refuse after the other."""
        one, two = handles
        for n in range(10):
            await one.batch("alice", draft("on", key=f"a{n}"), draft("on", key=f"b{n}"))
            reads = {f"a{n}": 1, f"b{n}": 1}
            tried = await asyncio.gather(
                transact(one, "alice", reads, draft("off", key=f"a{n}")),
                transact(two, "bob", reads, draft("off", key=f"b{n}")),
                return_exceptions=True,
            )
            assert sorted(isinstance(done, Conflict) for done in tried) == [False, True], tried

    async def test_of_many_that_create_the_same_one_does(self, handles: tuple[Table, Table]) -> None:
        for n in range(5):
            tried = await asyncio.gather(
                *(
                    transact(
                        at, f"agent{k}", {f"lock{n}": 0, f"lock{n}*": Since(0)}, draft("mine", key=f"lock{n}")
                    )
                    for k, at in enumerate(handles * 3)
                ),
                return_exceptions=True,
            )
            assert sum(isinstance(done, Committed) for done in tried) == 1, tried
            assert sum(isinstance(done, Conflict) for done in tried) == 5
