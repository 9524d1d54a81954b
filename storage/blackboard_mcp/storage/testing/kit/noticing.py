"""Tests of notices: what an agent is told beside what its call did."""

from __future__ import annotations

from blackboard_mcp.protocols.agenda import Settle
from blackboard_mcp.protocols.answers import Look, Notice, NoticeFor, Once
from blackboard_mcp.protocols.runs import NewRun, Run

from ..harness import Table
from .planning import plan, said, take
from .running import choose, contribute, start
from .unseen import log, shown

ALL = NoticeFor(rules=True, claims=True)


async def notice(at: Table, agent: str, wanted: NoticeFor) -> Notice:
    """Returns what the agent is told as of now."""
    return await at.store.notice(at.board, agent, wanted)


class NoticeTests:
    async def test_a_notice_is_what_each_look_alone_would_tell(self, at: Table) -> None:
        first, second = await plan(at, "one", "two")
        await at.post("alice", "Use metres.", "CONSTRAINT")
        fact = await at.post("bob", " it is so")
        hidden = await at.post("alice", "canary", private=True)
        taken = await take(at, "bob", first)
        await take(at, "carol", second)
        await at.post("carol", "no", "CRITIQUE", critiques=fact)
        told = await notice(at, "bob", NoticeFor(0, True, True, (fact.number, hidden.number, 99)))
        assert (told.seq, told.attention) == (await at.seq(), (await log(at, "bob")).attention)
        assert told.attention.owed
        assert len(told.attention.fresh) > 3
        assert told.rules == await at.store.rules(at.board, "bob")
        assert [rule.text for rule in told.rules.mine] == ["Use metres."]
        assert [(task.id, task.lease) for task in told.claims] == [(f"T-{first}", taken.lease)]
        assert told.texts == {fact.number: "it is so"}
        own = await notice(at, "alice", NoticeFor(texts=(hidden.number,)))
        assert (own.rules, own.claims, own.texts) == (None, (), {hidden.number: "canary"})

    async def test_a_notice_leaves_out_what_was_shown(self, at: Table) -> None:
        first, second = [await at.post("alice", text) for text in ("one", "two")]
        await shown(at, "bob", Look(first.seq))
        assert [seq for seq, _ in (await notice(at, "bob", NoticeFor())).attention.fresh] == [second.seq]
        assert (await notice(at, "bob", NoticeFor(second.seq))).attention.fresh == ()

    async def test_a_notice_says_when_the_board_is_too_full(self, at: Table) -> None:
        await at.post("alice", "one")
        assert not (await notice(at, "bob", ALL)).pass_due
        board = await at.store.find_board(at.board)
        assert board is not None
        await at.post("alice", "word " * board.config.high_tokens)
        assert (await notice(at, "bob", ALL)).pass_due

    async def test_who_takes_or_ends_a_task_is_told_as_of_then(self, at: Table) -> None:
        await plan(at, "one", "two")
        await at.post("alice", "Use metres.", "CONSTRAINT")
        taken = await at.store.take_task(at.board, "bob", notice=ALL)
        assert taken is not None
        assert taken.notice == await notice(at, "bob", ALL)
        assert [task.id for task in taken.notice.claims] == ["T-1"]
        done = await at.store.settle_task(
            at.board, "bob", Settle("done", 1, taken.lease, said("so")), notice=ALL
        )
        assert done.notice == await notice(at, "bob", ALL)
        assert done.notice.claims == ()
        reserved = await at.store.take_task(at.board, "bob", paths=["file:a/**"], notice=ALL)
        assert reserved is not None
        assert reserved.notice == await notice(at, "bob", ALL)
        assert (await take(at, "carol", 2)).notice is None
        assert await at.store.take_task(at.board, "dave", notice=ALL) is None

    async def test_who_ends_a_turn_is_told_what_the_run_asks_for(self, at: Table) -> None:
        seen: list[Run] = []

        def wanted(run: Run) -> NoticeFor | None:
            seen.append(run)
            return NoticeFor(rules=True, texts=(1,)) if len(seen) == 1 else None

        await start(at)
        await choose(at, "bob", "carol")
        done = await contribute(at, "bob", "Nine.", notice=wanted)
        assert seen == [done.run]
        assert done.notice == await notice(at, "bob", NoticeFor(rules=True, texts=(1,)))
        assert done.notice.texts == {1: "How many stations are there?"}
        assert (await contribute(at, "carol", "Ten.", notice=wanted)).notice is None

    async def test_the_end_of_a_turn_tells_the_texts_that_were_asked_for_and_no_more_of_them(
        self, at: Table
    ) -> None:
        await at.configure()
        problem = said(" \t\r\n" + "How many stations are there? " * 400)
        await at.store.start_run(at.board, "alice", NewRun(problem, ("bob",)))
        for asked in ((1,), (), (1, 2)):
            await choose(at, "bob")
            wanted = NoticeFor(texts=asked)
            done = await contribute(at, "bob", f"Said for {asked}.", notice=lambda run, wanted=wanted: wanted)
            assert done.notice == await notice(at, "bob", wanted)
            assert done.notice.texts.keys() == set(asked)

    async def test_a_repeated_call_has_no_notice(self, at: Table) -> None:
        await plan(at, "one")
        once = Once("k", "d")
        calls = [await at.store.take_task(at.board, "bob", notice=ALL, once=once) for _ in range(2)]
        assert [call is not None and call.notice is not None for call in calls] == [True, False]
