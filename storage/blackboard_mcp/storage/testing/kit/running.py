"""Tests of runs: rounds and turns, decisions, budgets, sealed rounds, stalls, and the answer."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from blackboard_mcp.protocols.access import Trust
from blackboard_mcp.protocols.agenda import NewTask
from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.board import BoardChange, Lifecycle
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, Refused, UnderPressure, UnknownReference
from blackboard_mcp.protocols.items import EdgeKind, ItemType, parse_ref
from blackboard_mcp.protocols.read_rules import ReadRule
from blackboard_mcp.protocols.runs import (
    MAX_MALFORMED,
    MAX_STALLS,
    RUN_MOVES,
    Budget,
    Chosen,
    Contributed,
    Decision,
    NewRun,
    Run,
    RunState,
    Usage,
)

from ..harness import HandClock, Table
from .counting import LETTERS
from .planning import said, under_a_grant
from .pressing import pressed

AGENTS = ("bob", "carol", "dave")


async def start(at: Table, agent: str = "alice", **more: Any) -> Run:
    """Starts a run of three agents on a board that exists."""
    await at.configure()
    new = NewRun(said("How many stations are there?"), more.pop("agents", AGENTS), **more)
    return await at.store.start_run(at.board, agent, new)


async def look(at: Table) -> Run:
    """Returns the newest run; fails if there is none."""
    found = await at.store.find_run(at.board, "alice")
    assert found is not None
    return found


async def choose(at: Table, *agents: str, **more: Any) -> Run:
    """Gives the next round to these agents."""
    run = await look(at)
    chosen = Chosen(dict.fromkeys(agents, "go on"), "round-robin", **more)
    return await at.store.choose_turns(at.board, run.number, run.stamp, chosen)


async def contribute(at: Table, agent: str, text: str, lease: int = 0, **more: Any) -> Contributed:
    """Ends an agent's turn."""
    return await at.store.end_turn(at.board, agent, 0, lease, said(text), **more)


async def decide(at: Table, decision: Decision | None, raw: str = "raw", problem: str = "") -> Contributed:
    """Decides as the coordinator, after asking it where that is due."""
    run = await look(at)
    if run.phase == "choose":
        await at.store.ask_coordinator(at.board, run.number, run.stamp, "who is next?")
    return await at.store.decide_run(at.board, "erin", 0, 0, decision, raw, problem)


class RunTests:
    """Tests of rounds, turns and contributions."""

    async def test_a_run_goes_round_and_ends_in_a_cited_answer(self, at: Table) -> None:
        run = await start(at, max_rounds=2, decider="dave")
        assert (run.id, run.state, run.phase, run.round) == ("run-1", RunState.OPEN, "choose", 0)
        problem = await at.item(1)
        assert (problem.type, problem.author, run.problem) == (ItemType.PROBLEM, "alice", problem.id)
        run = await choose(at, "bob")
        turn = run.turn_of("bob")
        assert turn is not None
        assert (turn.lease, turn.instruction, run.phase, run.round) == (run.seq, "go on", "turns", 1)
        given = [e for e in await at.events() if e.event == "turn.given"]
        assert given[0].concerns == ("bob",)
        done = await contribute(at, "bob", "I count nine.", turn.lease)
        assert (done.items[0].type, done.items[0].author) == (ItemType.LOG, "bob")
        assert done.items[0].metadata == {"run": "run-1", "round": 1}
        assert done.run.phase == "choose"
        await choose(at, "carol")
        second = await contribute(at, "carol", "Nine it is.")
        run = await choose(at, "dave")
        assert (run.state, run.reason) == (RunState.SETTLED, "all 2 rounds are used")
        assert [(t.agent, t.kind) for t in run.turns if t.state == "given"] == [("dave", "answer")]
        cites = [done.items[0].number, second.items[0].number]
        final = await at.store.finalize_run(at.board, "dave", 0, said("Nine stations."), cites)
        assert final.item is not None
        assert (final.run.state, final.posted, final.cites) == (
            RunState.FINISHED,
            True,
            (done.items[0].id, second.items[0].id),
        )
        item = await at.item(final.item.number)
        assert item.type is ItemType.ANSWER
        assert (EdgeKind.REPLIES_TO, problem.id) in item.cites
        assert (EdgeKind.DERIVED_FROM, done.items[0].id) in item.cites
        with pytest.raises(Refused, match="run-1 is finished"):
            await contribute(at, "bob", "late")

    async def test_a_turn_names_the_task_in_focus_if_it_is_ready_for_its_agent(self, at: Table) -> None:
        await start(at, max_rounds=9)
        first, second = (
            task.number
            for task in (
                await at.store.plan(
                    at.board, "alice", [NewTask(title="look"), NewTask(title="tell", worker="carol")]
                )
            ).tasks
        )
        focus = {"bob": f"T-{first}", "carol": f"T-{first}", "dave": f"T-{second}"}
        run = await choose(at, "bob", "dave", focus=focus)
        given = [event for event in await at.events() if event.event == "turn.given"]
        assert [(event.data["agent"], event.data.get("task")) for event in given] == [
            ("bob", f"T-{first}"),
            ("dave", None),
        ]
        told = {turn.agent: turn.instruction for turn in run.turns}
        assert told == {"bob": f'claim(id="T-{first}") first, "look": go on', "dave": "go on"}
        await at.store.take_task(at.board, "erin", number=first)
        for agent in ("bob", "dave"):
            await contribute(at, agent, f"{agent} looked")
        run = await choose(at, "bob", focus={"bob": f"T-{first}"})
        assert [turn.instruction for turn in run.turns] == ["go on"], "somebody holds it meanwhile"

    async def test_a_board_has_one_run_at_a_time(self, at: Table) -> None:
        await start(at)
        with pytest.raises(Refused, match="run-1 is open"):
            await start(at)
        await at.store.stop_run(at.board, "alice", 0, "enough")
        assert (await start(at)).id == "run-2"

    @pytest.mark.parametrize(
        ("more", "words"),
        [
            ({"max_rounds": 0}, "max_rounds"),
            ({"max_rounds": 1_001}, "max_rounds"),
            ({"agents": tuple(f"a{n}" for n in range(101))}, "100"),
            ({"budget": Budget(steps=-1)}, "budget"),
            ({"strategy": "coordinator"}, "start.coordinator"),
            ({"decide": "x" * 4_001}, "4,000"),
        ],
    )
    async def test_a_wrong_start_changes_nothing(self, at: Table, more: dict[str, Any], words: str) -> None:
        await at.configure()
        before = await at.seq()
        with pytest.raises(InvalidInput, match=words):
            await start(at, **more)
        assert await at.seq() == before
        assert await at.store.find_run(at.board, "alice") is None

    async def test_I32_only_its_agents_are_chosen(self, at: Table) -> None:
        await start(at)
        before = await at.seq()
        with pytest.raises(
            InvalidInput, match="mallory: no agent of run-1, whose agents are bob, carol, dave"
        ):
            await choose(at, "bob", "mallory")
        assert await at.seq() == before

    async def test_I32_without_names_those_who_take_part_are_its_agents(
        self, at: Table, clock: HandClock
    ) -> None:
        await start(at, agents=())
        await at.store.join(at.board, "bob", role="counts")
        clock.advance(1_000)
        await at.store.join(at.board, "carol", role="checks")
        assert await at.store.eligible_agents(at.board, 0) == ("carol",)
        await choose(at, "carol")
        assert (await look(at)).turn_of("carol") is not None

    async def test_who_chooses_on_a_run_that_moved_does_nothing(self, at: Table) -> None:
        run = await start(at)
        await choose(at, "bob")
        chosen = Chosen({"carol": ""}, "round-robin")
        again = await at.store.choose_turns(at.board, run.number, run.stamp, chosen)
        assert [turn.agent for turn in again.turns] == ["bob"]
        assert again.round == 1

    async def test_the_last_turn_of_a_round_may_give_the_next_at_once(self, at: Table) -> None:
        seen: list[Any] = []

        def in_turn(run: Run, eligible: tuple[str, ...]) -> Chosen:
            seen.append((run.phase, run.round, eligible))
            return Chosen({"dave": "check it"}, "round-robin")

        await start(at, max_rounds=2, strategy="round-robin")
        await choose(at, "bob", "carol")
        assert (await contribute(at, "bob", "three", at_once={"round-robin": in_turn})).run.phase == "turns"
        assert seen == []  # carol has her turn
        done = await contribute(at, "carol", "four", at_once={"volunteer": in_turn})
        assert (seen, done.run.phase) == ([], "choose")
        await choose(at, "bob")
        last = await contribute(at, "bob", "five", at_once={"round-robin": in_turn})
        assert (seen, last.run.state) == ([("choose", 2, AGENTS)], RunState.SETTLED)  # both rounds are used

    async def test_a_turn_given_at_once_is_as_any_other(self, at: Table) -> None:
        def nobody(run: Run, eligible: tuple[str, ...]) -> Chosen:
            return Chosen({}, "round-robin", reason="nobody offered")

        def next_one(run: Run, eligible: tuple[str, ...]) -> Chosen:
            return Chosen({eligible[run.round]: "check it"}, "round-robin")

        await start(at, strategy="round-robin")
        await choose(at, "bob")
        before = await at.seq()
        done = await contribute(at, "bob", "three", at_once={"round-robin": next_one})
        turn = done.run.turn_of("carol")
        assert turn is not None
        assert (turn.round, turn.instruction, done.run.seq) == (2, "check it", await at.seq())
        told = (await at.store.log(at.board, "alice", before, 9)).events
        assert [(one.event, one.agent) for one in told] == [
            ("item.posted", "bob"),
            ("turn.ended", "bob"),
            ("turn.given", "system"),
        ]
        assert (told[-1].seq, told[-1].concerns) == (turn.lease, ("carol",))
        idle = await contribute(at, "carol", "four", turn.lease, at_once={"round-robin": nobody})
        assert (idle.run.phase, idle.run.reason) == ("choose", "nobody offered")
        last = (await at.store.log(at.board, "alice", done.run.seq, 9)).events[-1]
        assert (last.event, last.agent) == ("run.no_contributor", "system")

    async def test_a_turn_is_its_agents_alone(self, at: Table) -> None:
        await start(at)
        await choose(at, "bob", "carol")
        with pytest.raises(Conflict, match=r"It is not your turn in run-1: bob \(lease"):
            await contribute(at, "dave", "me too")
        first = (await look(at)).turn_of("bob")
        assert first is not None
        with pytest.raises(Conflict, match="old turn of yours"):
            await contribute(at, "bob", "x", first.lease - 1)
        await contribute(at, "bob", "x", first.lease)
        with pytest.raises(Conflict, match="It is not your turn"):
            await contribute(at, "bob", "again", first.lease)
        assert (await look(at)).phase == "turns"
        assert (await contribute(at, "carol", "y")).run.phase == "choose"

    async def test_who_leaves_loses_its_turn_at_once(self, at: Table) -> None:
        await start(at)
        await at.store.join(at.board, "bob", role="counts")
        await choose(at, "bob", "carol")
        await contribute(at, "carol", "nine")
        await at.store.leave(at.board, "bob", "done")
        assert [(t.agent, t.state) for t in (await look(at)).turns] == [("bob", "lapsed"), ("carol", "ended")]
        assert (await look(at)).phase == "choose"
        lapsed = [e for e in await at.events() if e.event == "turn.lapsed"]
        assert [e.data["agent"] for e in lapsed] == ["bob"]
        await choose(at, "carol")

    async def test_the_fallback_chooses_once_the_coordinator_left(self, at: Table) -> None:
        await start(at, coordinator="erin", strategy="coordinator")
        await at.store.join(at.board, "erin", role="leads")
        await decide(at, Decision(False, "bob", "count"))
        await contribute(at, "bob", "nine")
        run = await look(at)
        await at.store.ask_coordinator(at.board, run.number, run.stamp, "who is next?")
        await at.store.leave(at.board, "erin", "done")
        run = await look(at)
        assert (run.phase, run.strategy, run.malformed) == ("choose", "round-robin", 0)
        await choose(at, "carol")

    async def test_a_coordinator_that_left_meanwhile_is_not_asked(self, at: Table) -> None:
        await at.configure()
        await at.store.join(at.board, "erin", role="leads")
        run = await start(at, coordinator="erin", strategy="coordinator")
        await at.store.leave(at.board, "erin", "done")
        await at.store.ask_coordinator(at.board, run.number, run.stamp, "who is next?")
        run = await look(at)
        assert (run.phase, run.strategy, run.turns) == ("choose", "round-robin", ())

    @pytest.mark.parametrize("how", ["before", "leaves", "stalls", "malformed"])
    async def test_a_coordinator_that_failed_or_left_is_no_fallback(self, at: Table, how: str) -> None:
        await at.configure()
        await at.store.join(at.board, "erin", role="leads")
        if how == "before":
            await at.store.leave(at.board, "erin", "done")
        strategy = "round-robin" if how == "stalls" else "coordinator"
        run = await start(at, coordinator="erin", strategy=strategy, fallback="coordinator", max_rounds=9)
        match how:
            case "leaves":
                await at.store.ask_coordinator(at.board, run.number, run.stamp, "who is next?")
                await at.store.leave(at.board, "erin", "done")
            case "stalls":
                await at.store.leave(at.board, "erin", "done")
                for _ in range(MAX_STALLS + 1):
                    await choose(at, "bob")
                    await contribute(at, "bob", "again")
                told = [e.data["then"] for e in await at.events() if e.event == "run.stalled"]
                assert told == ["round-robin"]
            case "malformed":
                for _ in range(MAX_MALFORMED):
                    await decide(at, None, "garbage", "it is no JSON")
        run = await look(at)
        assert (run.phase, run.strategy, run.malformed) == ("choose", "round-robin", 0)
        assert (await choose(at, "carol")).turn_of("carol") is not None

    async def test_a_stall_hands_over_to_a_coordinator_that_is_there(self, at: Table) -> None:
        await start(at, coordinator="erin", fallback="coordinator", max_rounds=9)
        for _ in range(MAX_STALLS + 1):
            await choose(at, "bob")
            await contribute(at, "bob", "again")
        assert (await look(at)).strategy == "coordinator"

    async def test_who_left_has_no_turn_until_it_joins_again(self, at: Table) -> None:
        run = await start(at)
        for agent in AGENTS[:2]:
            await at.store.join(at.board, agent, role="counts")
        await at.store.leave(at.board, "bob", "done")
        assert await at.store.eligible_agents(at.board, run.number) == ("carol", "dave")
        run = await look(at)
        assert (run.agents, run.rotation) == (AGENTS, ("carol", "dave"))
        with pytest.raises(InvalidInput):
            await choose(at, "bob", "carol")
        await at.store.leave(at.board, "carol")
        assert (await look(at)).rotation == ("dave",)
        await at.store.join(at.board, "bob", role="counts")
        assert (await look(at)).rotation == ("bob", "dave")
        for agent in ("bob", "dave"):
            await at.store.join(at.board, agent, role="counts")
            await at.store.leave(at.board, agent)
        assert (await look(at)).rotation == AGENTS, "who it names is asked in vain rather than others"

    async def test_who_has_the_last_turn_of_a_sealed_round_can_leave_a_board_that_takes_no_posts(
        self, at: Table
    ) -> None:
        await start(at, agents=("bob", "carol"), sealed=True)
        await choose(at, "bob", "carol")
        await contribute(at, "bob", "nine")
        await at.store.join(at.board, "carol", role="counts")
        await at.store.change_board(at.board, "alice", BoardChange(lifecycle=Lifecycle.SETTLED))
        await at.store.leave(at.board, "carol", "done")
        assert [turn.state for turn in (await look(at)).turns] == ["ended", "given"]

    @pytest.mark.parametrize("before", [Lifecycle.OPEN, Lifecycle.SETTLED])
    async def test_what_a_sealed_round_kept_is_posted_before_its_board_is_closed(
        self, at: Table, before: Lifecycle
    ) -> None:
        await start(at, agents=("bob", "carol"), sealed=True)
        await choose(at, "bob", "carol")
        await contribute(at, "bob", "nine")
        if before is Lifecycle.SETTLED:
            await at.store.change_board(at.board, "alice", BoardChange(lifecycle=before))
        await at.store.change_board(at.board, "alice", BoardChange(lifecycle=Lifecycle.CLOSED))
        (kept,) = [turn for turn in (await look(at)).turns if turn.agent == "bob"]
        (item,) = (await at.store.read(at.board, "carol", [parse_ref(kept.item)], [])).items
        assert (item.author, item.text) == ("bob", "nine")

    async def test_what_is_posted_as_a_board_is_closed_counts_once_under_another_tokenizer(
        self, at: Table
    ) -> None:
        await start(at, agents=("bob", "carol"), sealed=True)
        await choose(at, "bob", "carol")
        await contribute(at, "bob", "nine")
        change = BoardChange(lifecycle=Lifecycle.CLOSED, settings={"tokenizer": LETTERS})
        await at.store.change_board(at.board, "alice", change, count=len)
        texts = [(await at.item(number)).text for number in await at.query()]
        assert "nine" in texts
        assert (await at.standing()).working_tokens == sum(map(len, texts))

    async def test_a_turn_lapses_and_the_run_goes_on(self, at: Table, clock: HandClock) -> None:
        await start(at)
        await at.post("bob", "I am here")
        await choose(at, "bob")
        clock.advance(200)
        await at.store.record_activity(at.board, {"bob": clock.now()}, {})
        clock.advance(200)
        assert await at.store.sweep_runs() == []
        clock.advance(200)
        assert await at.store.sweep_runs() == ["main"]
        run = await look(at)
        assert (run.phase, [turn.state for turn in run.turns]) == ("choose", ["lapsed"])
        event = (await at.events())[-1]
        assert (event.event, event.concerns) == ("turn.lapsed", ("bob",))
        with pytest.raises(Conflict, match="It is not your turn"):
            await contribute(at, "bob", "late")

    async def test_an_idle_run_settles(self, at: Table, clock: HandClock) -> None:
        await start(at, idle_seconds=60)
        clock.advance(59)
        assert await at.store.sweep_runs() == []
        assert await at.store.next_run_due() == 1
        clock.advance(2)
        assert await at.store.sweep_runs() == ["main"]
        run = await look(at)
        assert (run.state, run.reason) == (RunState.SETTLED, "nothing happened for 60 s")

    @pytest.mark.parametrize("state", [Lifecycle.SETTLED, Lifecycle.CLOSED])
    async def test_a_run_on_a_board_that_takes_no_posts_stands_still_and_runs_of_others_go_on(
        self, at: Table, clock: HandClock, state: Lifecycle
    ) -> None:
        over, quiet = Table(at.store, "over"), Table(at.store, "quiet")
        await start(over)
        await start(quiet, idle_seconds=60)
        await choose(over, "bob")
        for one in (over, quiet):
            await one.store.change_board(one.board, "alice", BoardChange(lifecycle=state))
            assert (await look(one)).lifecycle is state
        clock.advance(301)
        assert (await at.store.sweep_runs(), await at.store.next_run_due()) == ([], None)
        await start(at, idle_seconds=60)
        clock.advance(61)
        assert await at.store.sweep_runs() == [at.board]
        assert [(await look(one)).state for one in (at, over, quiet)] == [
            RunState.SETTLED,
            RunState.OPEN,
            RunState.OPEN,
        ]
        if state is Lifecycle.SETTLED:
            await over.store.change_board(over.board, "alice", BoardChange(lifecycle=Lifecycle.OPEN))
            assert await at.store.sweep_runs() == [over.board]
            assert (await look(over)).phase == "choose"

    async def test_who_can_contribute_is_told_once(self, at: Table) -> None:
        await start(at)
        await choose(at, reason="nobody offered")
        before = await at.seq()
        await choose(at, reason="nobody offered")
        assert await at.seq() == before
        await at.store.offer_turn(at.board, "bob", 0, 0.5)
        assert (await look(at)).offers == {"bob": 0.5}
        await choose(at, "bob")
        assert (await look(at)).offers == {}
        with pytest.raises(Refused, match="no agent of run-1"):
            await at.store.offer_turn(at.board, "mallory", 0, 1)
        with pytest.raises(InvalidInput, match="0 to 1"):
            await at.store.offer_turn(at.board, "bob", 0, 2)

    async def test_repeated_calls_apply_once(self, at: Table) -> None:
        await start(at)
        await choose(at, "bob")
        once = Once("k", "d")
        first = await contribute(at, "bob", "nine", once=once)
        again = await contribute(at, "bob", "nine", once=once)
        assert [item.id for item in again.items] == [item.id for item in first.items]
        assert len([e for e in await at.events() if e.event == "turn.ended"]) == 1


class DecisionTests:
    """Tests of the coordinator's decisions."""

    async def test_the_coordinator_gives_turns_and_ends_the_rounds(self, at: Table) -> None:
        await start(at, strategy="coordinator", coordinator="erin", decider="carol")
        done = await decide(at, Decision(False, "bob", "count them"))
        assert done.verdict == "accepted"
        turn = done.run.turn_of("bob")
        assert turn is not None
        assert (turn.instruction, done.run.round) == ("count them", 1)
        await contribute(at, "bob", "nine")
        done = await decide(at, Decision(True, instruction="that is all"))
        assert (done.run.state, done.run.reason) == (RunState.SETTLED, "that is all")

    async def test_I33_a_malformed_decision_takes_no_round(self, at: Table) -> None:
        await start(at, strategy="coordinator", coordinator="erin")
        for count in range(1, MAX_MALFORMED):
            done = await decide(at, None, "x" * 1_000, "it is no JSON")
            assert (done.verdict, done.run.malformed, done.run.round) == ("malformed", count, 0)
            assert done.run.turn_of("erin") is not None, "it may decide again"
        event = [e for e in await at.events() if e.event == "decision.made"][-1]
        assert (len(event.data["raw"]), event.data["problem"]) == (300, "it is no JSON")
        done = await decide(at, None, "garbage", "it is no JSON")
        assert (done.verdict, done.run.strategy, done.run.phase) == ("fallback", "round-robin", "choose")
        assert done.run.round == 0
        assert (await choose(at, "bob")).round == 1

    async def test_I33_an_unknown_agent_takes_no_round(self, at: Table) -> None:
        await start(at, strategy="coordinator", coordinator="erin")
        done = await decide(at, Decision(False, "mallory"))
        assert (done.verdict, done.run.round) == ("unknown agent", 0)
        assert "its agents are bob, carol, dave" in done.problem
        done = await decide(at, Decision(False, "bob"))
        assert (done.verdict, done.run.malformed) == ("accepted", 0)

    async def test_each_turn_is_for_what_it_is_for(self, at: Table) -> None:
        await start(at, strategy="coordinator", coordinator="erin")
        run = await look(at)
        await at.store.ask_coordinator(at.board, run.number, run.stamp, "")
        with pytest.raises(Refused, match="to decide"):
            await contribute(at, "erin", "my view")
        await decide(at, Decision(False, "bob"))
        with pytest.raises(Refused, match="to contribute, not to decide"):
            await at.store.decide_run(at.board, "bob", 0, 0, Decision(True), "")


class BudgetTests:
    """Tests of budgets and of runs that do not move."""

    async def test_I34_a_spent_budget_stops_the_run_and_runs_nothing(self, at: Table) -> None:
        await start(at, budget=Budget(tokens=100))
        await choose(at, "bob")
        await contribute(at, "bob", "nine", usage=Usage(tokens=60, cost=0.5))
        await choose(at, "carol")
        done = await contribute(at, "carol", "nine as well", usage=Usage(tokens=60))
        assert (done.run.state, done.run.reason) == (
            RunState.STOPPED,
            "its budget is spent: tokens (120 of 100)",
        )
        assert (done.run.spent.tokens, done.run.spent.cost, done.run.spent.steps) == (120, 0.5, 2)
        events = [str(e.event) for e in await at.events()]
        assert events[-2:] == ["budget.blocked", "run.stopped"]
        assert (await choose(at, "dave")).round == 2
        with pytest.raises(Refused, match="run-1 is stopped"):
            await contribute(at, "dave", "more")
        preview = await at.store.preview_answer(at.board, "alice")
        assert (preview.source, preview.text, preview.posted) == ("contribution", "nine as well", False)

    async def test_seconds_are_a_bound(self, at: Table, clock: HandClock) -> None:
        await start(at, budget=Budget(seconds=60))
        clock.advance(61)
        run = await choose(at, "bob")
        assert (run.state, run.round) == (RunState.STOPPED, 0)

    @pytest.mark.parametrize("usage", [Usage(-1), Usage(0, -1.0), Usage(10**13), Usage(0, float("inf"))])
    async def test_wrong_usage_is_refused(self, at: Table, usage: Usage) -> None:
        await start(at)
        await choose(at, "bob")
        with pytest.raises(InvalidInput, match="usage"):
            await contribute(at, "bob", "nine", usage=usage)

    async def test_rounds_that_repeat_are_a_stall(self, at: Table) -> None:
        await start(at, strategy="volunteer", max_rounds=50)
        await choose(at, "bob")
        await contribute(at, "bob", "the same")
        for _ in range(3):
            await choose(at, "bob")
            await contribute(at, "bob", "the same")
        run = await look(at)
        assert (run.strategy, run.resets, run.state) == ("round-robin", 1, RunState.OPEN)
        for _ in range(6):
            await choose(at, "bob")
            await contribute(at, "bob", "the same")
        run = await look(at)
        assert run.state is RunState.STOPPED
        assert "nothing moved" in run.reason

    async def test_what_moves_elsewhere_is_no_stall(self, at: Table) -> None:
        await start(at, max_rounds=50)
        for n in range(8):
            await choose(at, "bob")
            await at.post("carol", f"a new fact {n}")
            await contribute(at, "bob", "the same")
        assert (await look(at)).stalls == 0


class SealedTests:
    """Tests of sealed rounds, whose contributions open together."""

    async def test_contributions_open_together(self, at: Table) -> None:
        await start(at, sealed=True)
        await choose(at, "bob", "carol")
        done = await contribute(at, "bob", "Nine stations.\nOne is new.")
        assert done.items == ()
        page = await at.store.log(at.board, "dave", 0, 200)
        assert "One is new" not in repr(page)
        assert "One is new" not in repr(await look(at))
        done = await contribute(at, "carol", "Nine stations.\nTwo are closed.")
        assert [(item.author, item.text) for item in done.items] == [
            ("bob", "Nine stations.\nOne is new."),
            ("carol", "Nine stations.\nTwo are closed."),
        ]
        assert done.alone == (("bob", "One is new."), ("carol", "Two are closed."))
        assert done.run.phase == "choose"

    async def test_each_agent_of_a_large_round_ends_its_turn_and_the_round_opens_whole(
        self, at: Table
    ) -> None:
        agents = [f"agent-{n:03}" for n in range(201)]
        await start(at, agents=(), sealed=True)
        for name in agents:
            await at.store.join(at.board, name)
        await choose(at, agents[0])
        await contribute(at, agents[0], "It begins.")
        await choose(at, *agents)
        for name in agents[:-1]:
            assert (await contribute(at, name, f"I am {name}.")).items == ()
        done = await contribute(at, agents[-1], "I am last.")
        assert [item.author for item in done.items] == agents
        assert (done.run.phase, [turn.item for turn in done.run.turns]) == (
            "choose",
            [item.id for item in done.items],
        )

    @pytest.mark.parametrize("last", ["bob", "carol", "nobody"])
    async def test_contributions_have_the_trust_in_their_own_agents(
        self, at: Table, clock: HandClock, last: str
    ) -> None:
        await at.store.set_trust("bob", Trust.LOW)
        await start(at, sealed=True)
        await choose(at, "bob", "carol", *(["dave"] if last == "nobody" else []))
        for agent in sorted(["bob", "carol"], key=lambda agent: agent == last):
            await contribute(at, agent, f"{agent} counts nine.")
        if last == "nobody":
            clock.advance(400)
            await at.store.sweep_runs()
        items = [await at.item(number) for number in await at.query(text="nine")]
        assert {item.author: item.trust for item in items} == {"bob": Trust.LOW, "carol": Trust.NORMAL}

    async def test_a_lapsed_turn_opens_the_round(self, at: Table, clock: HandClock) -> None:
        await start(at, sealed=True)
        await choose(at, "bob", "carol")
        await contribute(at, "bob", "Nine.")
        clock.advance(400)
        assert await at.store.sweep_runs() == ["main"]
        assert (await look(at)).phase == "choose"
        assert await at.query(text="Nine")

    async def test_who_may_not_contribute_is_told_so_and_keeps_nobody_else_from_it(
        self, at: Table, clock: HandClock
    ) -> None:
        await start(at, sealed=True)
        await choose(at, "bob", "carol", "dave")
        await contribute(at, "bob", "Nine.")
        rule = ReadRule("unvetted", ("alice",), authors=("bob", "dave"))
        await at.store.set_read_rules((rule,))
        before = await at.seq()
        with pytest.raises(Refused, match="The read rule 'unvetted' keeps this"):
            await contribute(at, "dave", "Ten.")
        assert await at.seq() == before
        assert (await contribute(at, "carol", "Eleven.")).items == ()
        clock.advance(400)
        assert await at.store.sweep_runs() == ["main"]
        run = await look(at)
        assert [(turn.agent, turn.state, bool(turn.item)) for turn in run.turns] == [
            *(("bob", "ended", True), ("carol", "ended", True), ("dave", "lapsed", False))
        ]
        assert (await at.item((await at.query(text="Nine"))[0], "eve")).author == "bob", (
            "it was written before"
        )

    async def test_what_was_contributed_before_pressure_opens_under_it(
        self, at: Table, clock: HandClock
    ) -> None:
        await start(at, sealed=True)
        await choose(at, "bob", "carol")
        await contribute(at, "bob", "Nine.")
        await at.store.change_board(at.board, "alice", BoardChange(settings={"ceiling": 3}))
        await pressed(at)
        with pytest.raises(UnderPressure):
            await contribute(at, "carol", "Ten.")
        clock.advance(400)
        assert await at.store.sweep_runs() == ["main"]
        assert [turn.state for turn in (await look(at)).turns] == ["ended", "lapsed"]
        assert await at.query(text="Nine")


class FinalTests:
    """Tests of the answer of a run."""

    async def test_I35_the_answer_cites_what_there_is(self, at: Table) -> None:
        await start(at)
        before = await at.seq()
        with pytest.raises(UnknownReference):
            await at.store.finalize_run(at.board, "alice", 0, said("nine"), [99])
        assert await at.seq() == before
        assert (await at.store.preview_answer(at.board, "bob")).source == "empty"

    async def test_only_the_decider_answers(self, at: Table) -> None:
        await start(at, decider="carol")
        with pytest.raises(Refused, match="carol answers run-1"):
            await at.store.finalize_run(at.board, "bob", 0, said("nine"), [])
        with under_a_grant("bob"), pytest.raises(Refused, match="carol answers run-1"):
            await at.store.finalize_run(at.board, "bob", 0, said("nine"), [])
        await at.store.finalize_run(at.board, "carol", 0, said("nine"), [])

    async def test_the_answer_names_what_stands_against_it(self, at: Table) -> None:
        await start(at)
        fact = await at.post("bob", "there are nine")
        critique = await at.post("carol", "one is closed", "CRITIQUE", critiques=fact)
        against = await at.post("dave", "I saw eight", refutes=fact)
        final = await at.store.finalize_run(at.board, "alice", 0, said("nine"), [fact.number])
        assert final.unresolved == (critique.id,)
        assert against.id in final.dissent

    async def test_the_last_answer_goes_before_the_last_contribution(self, at: Table) -> None:
        await at.configure()
        await at.post("bob", "an answer from before", "ANSWER")
        await start(at)
        await choose(at, "bob")
        await contribute(at, "bob", "a contribution")
        assert (await at.store.preview_answer(at.board, "bob")).source == "contribution"
        await at.post("carol", "an answer", "ANSWER")
        preview = await at.store.preview_answer(at.board, "bob")
        assert (preview.source, preview.text) == ("answer", "an answer")

    async def test_I29_I33_I34_any_calls_move_a_run_as_declared(self, at: Table, clock: HandClock) -> None:
        rng = random.Random(35)
        await start(at, strategy="coordinator", coordinator="erin", max_rounds=6, budget=Budget(steps=40))
        before = await look(at)
        for _ in range(300):
            run = await look(at)
            agent = rng.choice([*AGENTS, "erin", "alice"])
            try:
                match rng.randrange(8):
                    case 0:
                        await choose(at, rng.choice([*AGENTS, "mallory"]))
                    case 1:
                        await at.store.ask_coordinator(at.board, run.number, run.stamp, "next?")
                    case 2 | 3:
                        await contribute(at, agent, rng.choice(["same", str(rng.random())]))
                    case 4 | 5:
                        name = rng.choice([*AGENTS, "mallory"])
                        decision = rng.choice(
                            [None, Decision(False, name), Decision(rng.random() < 0.1, name)]
                        )
                        await at.store.decide_run(at.board, agent, 0, 0, decision, "raw")
                    case 6:
                        clock.advance(rng.choice([1, 400]))
                        await at.store.sweep_runs()
                    case _:
                        await at.store.offer_turn(at.board, agent, 0, rng.random())
            except (Conflict, Refused, InvalidInput):
                pass
            now = await look(at)
            assert now.state is before.state or now.state in RUN_MOVES[before.state]
            assert now.round <= now.max_rounds
            assert now.round - before.round in (0, 1)
            assert now.spent.steps >= before.spent.steps
            assert all(turn.agent in (*AGENTS, "erin", "alice") for turn in now.turns)
            before = now
        assert before.round > 0

    async def test_two_who_choose_at_once_give_one_round(self, at: Table) -> None:
        run = await start(at)
        chosen = [Chosen({name: ""}, "round-robin") for name in AGENTS]
        made = await asyncio.gather(
            *(at.store.choose_turns(at.board, run.number, run.stamp, one) for one in chosen)
        )
        assert {made_.round for made_ in made} == {1}
        assert len((await look(at)).turns) == 1
