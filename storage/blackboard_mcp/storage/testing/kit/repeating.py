"""Tests of idempotency keys: a mutation with a key is applied once, and its repetition gets the same answer."""

from __future__ import annotations

import asyncio
import inspect
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from blackboard_mcp.protocols.agenda import NewTask, Settle
from blackboard_mcp.protocols.answers import (
    Committed,
    DebateView,
    Once,
    Posted,
    Restored,
)
from blackboard_mcp.protocols.asking import NewAnswer, NewRequest
from blackboard_mcp.protocols.board import BoardChange, Core
from blackboard_mcp.protocols.debates import DebateCall, DebateOp, Outcome
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, UnknownReference
from blackboard_mcp.protocols.groups import Turn
from blackboard_mcp.protocols.items import content_hash
from blackboard_mcp.protocols.participants import Joined
from blackboard_mcp.protocols.runs import Chosen, Contributed, Decision, Final, NewRun, Run
from blackboard_mcp.protocols.stages import NewStage
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.protocols.tokens import CountedText
from blackboard_mcp.protocols.topics import parse_topic
from blackboard_mcp.protocols.transactions import Transaction
from blackboard_mcp.protocols.workspace import Edit

from ..harness import CONFIG, HandClock, Table, draft
from .asking import Asking
from .leaving import thread
from .summarising import asked, by, take

ONCE = Once("try", "digest")
WEEK = 604_800
LATE = 20
"""The number of calls cancelled after their commit that a test needs to see."""

Call = Callable[[Once | None], Awaitable[Any]]
"""A mutation by carol, with or without a key."""


async def _post(at: Table) -> Call:
    await at.post("alice", "a claim")
    return lambda once: at.batch("carol", draft("new", "LOG"), draft("of it", "LOG", supports=-1), once=once)


async def _debate(at: Table, op: str) -> Call:
    """Returns a call in a debate: item 1 is debated, 2 is carol's critique, and 4 has no part in it."""
    await at.post("alice", "a claim")
    await at.post("carol", "doubtful", "CRITIQUE", critiques=1)
    await at.post("bob", "more doubtful", "CRITIQUE", critiques=1)
    await at.post("dave", "of no matter")
    if op == "unwatch":
        await at.watch("carol", 4)
    if op == "acknowledge":
        for critique in (2, 3):
            await at.answer("alice", critique)
    if op == "concede":
        await at.post("carol", "another claim")
        await at.post("bob", "doubtful as well", "CRITIQUE", critiques=5)
    if op == "confirm":
        await at.decide("bob", 1, "it is wrong", outcome="falls")
    store, board = at.store, at.board
    calls: dict[str, Call] = {
        "open": lambda once: store.debate_open(board, "carol", 4, ["dave"], once=once),
        "watch": lambda once: store.debate_watch(board, "carol", 4, once=once),
        "unwatch": lambda once: store.debate_unwatch(board, "carol", 4, once=once),
        "acknowledge": lambda once: store.debate_acknowledge(board, "carol", 1, once=once),
        "vote": lambda once: store.debate_vote(board, "carol", 1, approve=False, reason="no", once=once),
        "withdraw": lambda once: store.debate_withdraw(board, "carol", 2, "mistaken", once=once),
        "concede": lambda once: store.debate_concede(board, "carol", 5, "so it is", once=once),
        "confirm": lambda once: store.debate_confirm(board, "carol", 1, [], once=once),
        "decide": lambda once: store.debate_decide(
            board, "erin", 1, "so be it", [], outcome=Outcome.FALLS, once=once
        ),
    }
    return calls[op]


async def _watch_topic(at: Table) -> Call:
    await at.post("alice", "a claim")
    return lambda once: at.store.watch_topic(at.board, "carol", parse_topic("tag:x"), once=once)


async def _unwatch_topic(at: Table) -> Call:
    await at.post("alice", "a claim")
    await at.follow("carol", "tag:x", "tag:y")
    return lambda once: at.store.unwatch_topic(at.board, "carol", parse_topic("tag:x"), once=once)


async def _set_core(at: Table) -> Call:
    await at.post("alice", "a claim")
    core = Core("win", ("by the rules",), {"fast": True})
    return lambda once: at.store.set_core(at.board, "carol", core, expected_version=0, once=once)


async def _change_board(at: Table) -> Call:
    await at.post("alice", "a claim")
    change = BoardChange(title="A title", settings={"quorum": 3})
    return lambda once: at.store.change_board(at.board, "carol", change, once=once)


async def _restore(at: Table) -> Call:
    await at.batch("alice", draft("a"), draft("b"))
    await at.gone(1, 2)
    return lambda once: at.store.restore(at.board, "carol", [2, 1], once=once)


async def _subscribe(at: Table) -> Call:
    await at.post("alice", "a claim")
    return lambda once: at.store.subscribe(at.board, "carol", "mine", {"type": "FACT"}, once=once)


async def _unsubscribe(at: Table) -> Call:
    await at.post("alice", "a claim")
    await at.store.subscribe(at.board, "carol", "mine", {})
    return lambda once: at.store.unsubscribe(at.board, "carol", "mine", once=once)


async def _take_summary(at: Table) -> Call:
    await asked(at, await thread(at))
    return lambda once: at.store.take_summary(at.board, "carol", 1, seconds=30, once=once)


async def _write_summary(at: Table) -> Call:
    items = await thread(at)
    await asked(at, items)
    lease = await take(at, "carol")
    return lambda once: at.store.write_summary(at.board, by("carol", items), lease, once=once)


async def _asked(at: Table, *, taken: bool = False, by_carol: bool = False) -> tuple[Asking, int, int | None]:
    """Makes a request to carol, or by her; returns the requests, its number, and her lease if she took it."""
    await at.post("alice", "a claim")
    asking = Asking(at)
    number = await (asking.ask("carol", to="bob") if by_carol else asking.ask(to="carol"))
    return asking, number, await asking.take("carol", number) if taken else None


async def _open_request(at: Table) -> Call:
    await at.post("alice", "a claim")
    new = NewRequest("why?", 1, content_hash("why?"), to="bob")
    return lambda once: at.store.open_request(at.board, "carol", new, config=CONFIG, once=once)


async def _offer_skills(at: Table) -> Call:
    await at.post("alice", "a claim")
    return lambda once: at.store.offer_skills(at.board, "carol", ["sql"], once=once)


async def _take_request(at: Table) -> Call:
    asking, number, _ = await _asked(at)
    return lambda once: asking.store.take_request(at.board, "carol", number, once=once)


async def _take_next(at: Table) -> Call:
    asking, _, _ = await _asked(at)
    await asking.ask("alice", to="carol")
    return lambda once: asking.store.take_next(at.board, "carol", once=once)


async def _answer_request(at: Table) -> Call:
    asking, number, lease = await _asked(at, taken=True)
    new = NewAnswer("part", 1, content_hash("part"), True, 0, lease)
    return lambda once: asking.store.answer_request(at.board, "carol", number, new, once=once)


async def _decline_request(at: Table) -> Call:
    asking, number, lease = await _asked(at, taken=True)
    return lambda once: asking.store.decline_request(at.board, "carol", number, "no", lease=lease, once=once)


async def _cancel_request(at: Table) -> Call:
    asking, number, _ = await _asked(at, by_carol=True)
    return lambda once: asking.store.cancel_request(at.board, "carol", number, "enough", once=once)


async def _transact(at: Table) -> Call:
    await at.post("alice", "a claim", key="k")
    wanted = Transaction({"k": 1}, [draft("new", key="k")], [DebateCall(DebateOp.OPEN, 1)])
    return lambda once: at.store.transact(at.board, "carol", wanted, config=CONFIG, once=once)


async def _join(at: Table) -> Call:
    await at.post("alice", "a claim")
    await at.store.join(at.board, "alice", role="claims")
    return lambda once: at.store.join(at.board, "carol", role="tester", skills=["sql"], once=once)


async def _leave(at: Table) -> Call:
    await at.post("alice", "what do you say, @carol?", "QUESTION")
    await at.store.join(at.board, "carol", role="tester", interests=[{"type": "FACT"}])
    return lambda once: at.store.leave(at.board, "carol", "bye", once=once)


async def _group(at: Table, op: str) -> Call:
    """Returns a call about carol's groups: `g`, and `d` with one dead letter."""
    await at.post("alice", "a claim")
    store, board = at.store, at.board
    facts = {"event": "item.posted", "type": "FACT"}
    for name in ("g", "d"):
        await store.create_group(board, "carol", name, facts, since=0, max_attempts=1)
    (held,) = (await store.consume(board, "carol", "d", Turn())).deliveries
    await store.consume(board, "carol", "d", Turn(fail={held.handle: "no"}, limit=0))
    calls: dict[str, Call] = {
        "create_group": lambda once: store.create_group(board, "carol", "h", facts, once=once),
        "change_group": lambda once: store.change_group(board, "carol", "g", max_attempts=3, once=once),
        "consume": lambda once: store.consume(board, "carol", "g", Turn(), once=once),
        "retry_dead": lambda once: store.retry_dead(board, "carol", "d", [held.handle], once=once),
        "drop_dead": lambda once: store.drop_dead(board, "carol", "d", [held.handle], once=once),
        "end_group": lambda once: store.end_group(board, "carol", "g", once=once),
    }
    return calls[op]


async def _plan(at: Table) -> Call:
    await at.configure()
    return lambda once: at.store.plan(at.board, "carol", [NewTask(title="new")], once=once)


async def _take_task(at: Table) -> Call:
    await at.configure()
    await at.store.plan(at.board, "alice", [NewTask(title="one"), NewTask(title="two")])
    return lambda once: at.store.take_task(at.board, "carol", once=once)


async def _settle_task(at: Table) -> Call:
    await (await _take_task(at))(None)
    act = Settle("done", text=CountedText("it is done", 3))
    return lambda once: at.store.settle_task(at.board, "carol", act, once=once)


async def _define_stages(at: Table) -> Call:
    await at.configure()
    return lambda once: at.store.define_stages(at.board, "carol", [NewStage("build")], once=once)


async def _move_stage(at: Table) -> Call:
    await (await _define_stages(at))(None)
    return lambda once: at.store.move_stage(at.board, "carol", 1, "suspend", once=once)


async def _write_artifact(at: Table) -> Call:
    await at.configure()
    edit = Edit(append=b"line")
    return lambda once: at.store.write_artifact(at.board, "carol", "a.md", edit, once=once)


async def _start_run(at: Table) -> Call:
    await at.configure()
    new = NewRun(CountedText("How many?", 3), ("carol",), strategy="coordinator", coordinator="carol")
    return lambda once: at.store.start_run(at.board, "carol", new, once=once)


async def _end_turn(at: Table) -> Call:
    run = await (await _start_run(at))(None)
    await at.store.choose_turns(at.board, run.number, run.stamp, Chosen({"carol": ""}, "round-robin"))
    return lambda once: at.store.end_turn(at.board, "carol", 0, 0, CountedText("nine", 1), once=once)


async def _decide_run(at: Table) -> Call:
    run = await (await _start_run(at))(None)
    await at.store.ask_coordinator(at.board, run.number, run.stamp, "")
    return lambda once: at.store.decide_run(
        at.board, "carol", 0, 0, Decision(False, "carol"), "raw", once=once
    )


async def _finalize_run(at: Table) -> Call:
    await (await _start_run(at))(None)
    return lambda once: at.store.finalize_run(at.board, "carol", 0, CountedText("nine", 1), [], once=once)


async def _stop_run(at: Table) -> Call:
    await (await _start_run(at))(None)
    return lambda once: at.store.stop_run(at.board, "carol", 0, "enough", once=once)


SHARING = ("create_group", "change_group", "consume", "retry_dead", "drop_dead", "end_group")
SILENT = ("subscribe", "unsubscribe", "offer_skills", *SHARING)
"""Methods that need not change the sequence, since no event may tell of them."""


def _debating(op: str) -> Callable[[Table], Awaitable[Call]]:
    return lambda at: _debate(at, op)


CALLS: dict[str, Callable[[Table], Awaitable[Call]]] = {
    "post": _post,
    **{
        f"debate_{op}": _debating(op)
        for op in (
            *("open", "watch", "unwatch", "acknowledge", "vote"),
            *("withdraw", "concede", "decide", "confirm"),
        )
    },
    "watch_topic": _watch_topic,
    "unwatch_topic": _unwatch_topic,
    "set_core": _set_core,
    "change_board": _change_board,
    "restore": _restore,
    "subscribe": _subscribe,
    "unsubscribe": _unsubscribe,
    "take_summary": _take_summary,
    "write_summary": _write_summary,
    "transact": _transact,
    **{name: partial(_group, op=name) for name in SHARING},
    "open_request": _open_request,
    "offer_skills": _offer_skills,
    "take_request": _take_request,
    "take_next": _take_next,
    "answer_request": _answer_request,
    "decline_request": _decline_request,
    "cancel_request": _cancel_request,
    "join": _join,
    "leave": _leave,
    "start_run": _start_run,
    "end_turn": _end_turn,
    "decide_run": _decide_run,
    "finalize_run": _finalize_run,
    "stop_run": _stop_run,
    "plan": _plan,
    "take_task": _take_task,
    "settle_task": _settle_task,
    "define_stages": _define_stages,
    "move_stage": _move_stage,
    "write_artifact": _write_artifact,
}
"""A map from a store method's name to a function that prepares a board and returns the call."""


def told(answer: Any) -> Any:
    """Returns the parts of an answer that must be equal when the call is repeated."""
    match answer:
        case Posted():
            return [(item.id, item.version, item.text) for item in answer.items], answer.seq, answer.endorsed
        case DebateView():
            return answer.debate, answer.tally, answer.root.id, sorted(answer.items), answer.seq
        case Committed():
            written = [(item.id, item.version, item.text) for item in answer.items]
            return written, answer.seq, answer.endorsed, answer.debates
        case Run():
            return answer.id, answer.state
        case Contributed():
            return [item.id for item in answer.items], answer.alone, answer.verdict, answer.problem
        case Final():
            return answer.item and answer.item.id, answer.cites, answer.unresolved
        case Restored():
            return [item.id for item in answer.items], answer.seq
        case Joined():
            return replace(answer, others=()), [other.agent for other in answer.others]
        case (request, [*sources]):
            return request, [(item.id, item.text) for item in sources]
        case _:
            return answer


every_call = pytest.mark.parametrize("name", CALLS)


class RepeatingTests:
    async def test_every_method_that_takes_a_key_is_tried_here(self) -> None:
        taking = {
            name
            for name, method in inspect.getmembers(BoardStore, inspect.isfunction)
            if "once" in inspect.signature(method).parameters and name != "recall"
        }
        assert taking == CALLS.keys()

    @every_call
    async def test_I24_a_repeated_idempotency_key_applies_once_and_answers_as_the_first_time(
        self, at: Table, clock: HandClock, name: str
    ) -> None:
        call = await CALLS[name](at)
        before = await at.seq()
        first = await call(ONCE)
        done = await at.seq()
        assert done > before or name in SILENT, "it did nothing"
        await at.post("bob", "between")
        clock.advance(WEEK - 1)
        now, events = await at.standing(), await at.events()
        again = await call(ONCE)
        assert told(again) == told(first)
        assert await at.standing() == now
        assert await at.events() == events

    @every_call
    async def test_a_key_with_other_content_is_refused_and_changes_nothing(
        self, at: Table, name: str
    ) -> None:
        call = await CALLS[name](at)
        await call(ONCE)
        now = await at.standing()
        with pytest.raises(InvalidInput, match="'try' was used"):
            await call(Once("try", "other"))
        assert await at.standing() == now

    async def test_a_key_counts_no_more_after_its_time_whether_or_not_it_was_swept(
        self, at: Table, clock: HandClock
    ) -> None:
        await at.batch("alice", draft("a"), once=ONCE)
        clock.advance(WEEK)
        other = await at.batch("alice", draft("b"), once=Once("try", "other"))
        assert (other.repeated, other.items[0].text) == (False, "b")
        assert await at.store.sweep_once() == 0, "the new use is not swept with the old one"
        assert (await at.batch("alice", draft("b"), once=Once("try", "other"))).repeated

    async def test_a_failed_call_uses_no_key(self, at: Table) -> None:
        await at.post("alice", "a claim")
        with pytest.raises(Conflict):
            await at.store.debate_acknowledge(at.board, "bob", 1, once=ONCE)
        await at.answer("alice", await at.post("carol", "doubtful", "CRITIQUE", critiques=1))
        view = await at.store.debate_acknowledge(at.board, "bob", 1, once=ONCE)
        assert isinstance(view, DebateView)
        assert "bob" in {o.agent for o in view.debate.obligations}

    async def test_a_subscription_that_is_not_there_uses_no_key(self, at: Table) -> None:
        await at.post("alice", "a claim")
        assert not await at.store.unsubscribe(at.board, "carol", "mine", once=ONCE)
        await at.store.subscribe(at.board, "carol", "mine", {}, once=ONCE)
        assert await at.store.subscriptions(at.board, "carol")

    async def test_a_debate_is_told_as_it_stood_whatever_became_of_it(self, at: Table) -> None:
        a = await at.post("alice", "a claim")
        await at.post("bob", "doubtful", "CRITIQUE", critiques=a)
        await at.store.debate_decide(at.board, "erin", 1, "so be it", [], outcome=Outcome.STANDS, once=ONCE)
        await at.post("bob", "doubtful still", "CRITIQUE", critiques=a)
        again = await at.store.debate_decide(
            at.board, "erin", 1, "so be it", [], outcome=Outcome.STANDS, once=ONCE
        )
        assert isinstance(again, DebateView)
        assert (again.debate.state, again.debate.closed_by) == ("DECIDED", "erin")
        assert await at.state(a) == "OPEN"

    async def test_an_entry_is_told_at_the_version_it_had(self, at: Table) -> None:
        await at.batch("alice", draft("one", key="k"), once=ONCE)
        await at.post("bob", "two", key="k")
        (item,) = (await at.batch("alice", draft("one", key="k"), once=ONCE)).items
        assert (item.version, item.text) == (1, "one")

    async def test_a_subscription_that_ended_since_is_told_as_it_was_made(self, at: Table) -> None:
        await at.post("alice", "a claim")
        made = await at.store.subscribe(at.board, "carol", "mine", {}, once=ONCE)
        await at.store.unsubscribe(at.board, "carol", made.id)
        assert await at.store.subscribe(at.board, "carol", "mine", {}, once=ONCE) == made
        assert not await at.store.subscriptions(at.board, "carol")

    async def test_one_key_of_an_agent_serves_one_call_of_any_kind(self, at: Table) -> None:
        await at.batch("carol", draft("a"), once=Once("try", "of a post"))
        with pytest.raises(InvalidInput):
            await at.store.subscribe(at.board, "carol", "", {}, once=Once("try", "of a subscription"))
        assert not await at.store.subscriptions(at.board, "carol")

    async def test_keys_count_as_long_as_the_board_says(self, at: Table, clock: HandClock) -> None:
        await at.configure(idempotency_seconds=60)
        await at.batch("alice", draft("a"), once=ONCE)
        await at.configure(idempotency_seconds=600)
        await at.batch("alice", draft("b"), once=Once("later", "digest"))
        clock.advance(60)
        assert (await at.batch("alice", draft("b"), once=Once("later", "digest"))).repeated
        assert not (await at.batch("alice", draft("a"), once=ONCE)).repeated, "it was promised for 60 s"
        assert (await at.batch("alice", draft("a"), once=ONCE)).repeated

    async def test_what_counts_no_more_is_swept_and_the_rest_stays(self, at: Table, clock: HandClock) -> None:
        for n in range(3):
            await at.batch("alice", draft(f"a {n}"), once=Once(f"{n}", "digest"))
            clock.advance(1)
        assert await at.store.sweep_once() == 0
        clock.advance(WEEK - 2)
        assert await at.store.sweep_once() == 2
        assert await at.store.recall(at.board, "alice", Once("1", "digest")) is None
        assert await at.store.recall(at.board, "alice", Once("2", "digest")) is not None

    async def test_a_key_is_recalled_by_its_agent_alone_and_for_its_call(self, at: Table) -> None:
        assert await at.store.recall(at.board, "alice", ONCE) is None
        await at.batch("alice", draft("a"), once=ONCE)
        assert await at.store.recall(at.board, "alice", ONCE) is not None
        assert await at.store.recall(at.board, "bob", ONCE) is None
        with pytest.raises(InvalidInput):
            await at.store.recall(at.board, "alice", Once("try", "other"))

    @every_call
    async def test_repetitions_at_the_same_time_apply_once(self, at: Table, name: str) -> None:
        call = await CALLS[name](at)
        answers = await asyncio.gather(*(call(ONCE) for _ in range(4)))
        seq = await at.seq()
        assert all(told(answer) == told(answers[0]) for answer in answers)
        await call(ONCE)
        assert await at.seq() == seq

    async def test_a_cancelled_call_is_whole_or_not_there_and_its_repetition_completes_it(
        self, at: Table
    ) -> None:
        """Repeats until enough cancelled calls were committed all the same, since only those prove something."""
        await at.post("alice", "a claim")
        dice, calls, late, wait = random.Random(7), 0, 0, 0.001
        while late < LATE and calls < 100 * LATE:
            calls += 1
            once = Once(f"{calls}", "digest")
            task = asyncio.ensure_future(at.batch("alice", draft(f"a {calls}", "LOG"), once=once))
            until = time.perf_counter() + dice.random() * wait
            while time.perf_counter() < until:  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0)
            cancelled = task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            posted = await at.batch("alice", draft(f"a {calls}", "LOG"), once=once)
            assert [item.text for item in posted.items] == [f"a {calls}"]
            late += cancelled and posted.repeated
            if not (cancelled and posted.repeated):
                wait *= 1.1 if cancelled else 0.9  # towards the moment between the commit and the answer
        assert late == LATE, "cancelled too early or too late to tell anything"
        assert (await at.standing()).working_items == calls + 1

    async def test_a_missing_board_keeps_no_key(self, at: Table) -> None:
        with pytest.raises(UnknownReference):
            await at.store.subscribe("nowhere", "alice", "", {}, once=ONCE)
        await at.store.ensure_board("nowhere", "alice", CONFIG)
        assert await at.store.subscribe("nowhere", "alice", "", {}, once=ONCE)
