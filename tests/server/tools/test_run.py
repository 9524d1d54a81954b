"""`turn` and `finalize` through real clients: rounds, decisions, sealed rounds, the answer (F37-F41, F75)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import boards
import pytest
from blackboard_mcp.protocols.runs import Chosen
from blackboard_mcp.protocols.strategies import MAX_SWITCHES, Situation
from patience import PATIENCE

mode, both = boards.mode, boards.both

ALL = ("core", "run", "plan", "messages", "admin")


class Backwards:
    """A strategy of a user: the last agent first. It reads the log, and keeps how often it was asked."""

    async def choose(self, situation: Situation) -> Chosen:
        events = await situation.events(0, 3)
        asked = situation.run.strategy_state.get("asked", 0) + 1
        if asked > 3:
            return Chosen({}, "", end=True, reason=f"three are enough, of {len(events)} events")
        place = -1 - (asked - 1) % len(situation.eligible)
        return Chosen(
            {situation.eligible[place]: f"ask {asked}", "mallory": "no"}, "me", state={"asked": asked}
        )


class Broken:
    """A strategy of a user that fails."""

    def choose(self, situation: Situation) -> Chosen:
        raise RuntimeError("private words")


class Garbled:
    """A strategy of a user that passes on what a model wrote, with half of a surrogate pair in it."""

    def choose(self, situation: Situation) -> Chosen:
        return Chosen(dict.fromkeys(situation.eligible, "Look \ud83d"), "")


class Muddled:
    """A strategy of a user that keeps what a model wrote, with half of a surrogate pair in it."""

    def choose(self, situation: Situation) -> Chosen:
        return Chosen(dict.fromkeys(situation.eligible, "Look"), "", state={"said": ["Look \ud83d"]})


class Immeasurable:
    """A strategy of a user that keeps a number which JSON does not have."""

    def choose(self, situation: Situation) -> Chosen:
        return Chosen(dict.fromkeys(situation.eligible, "Look"), "", state={"score": float("nan")})


class Numbered:
    """A strategy of a user that keeps its state by numbers, and what is by nothing."""

    def choose(self, situation: Situation) -> Chosen:
        kept = situation.run.strategy_state
        return Chosen(dict.fromkeys(situation.eligible, f"kept {dict(kept)}"), "", state={2: "two", None: 0})


class Watcher:
    """A strategy of strategies: where the round before said nothing new, the other one chooses."""

    async def choose(self, situation: Situation) -> Chosen:
        assert " delegate" not in situation.run.strategy_state
        given = [event for event in await situation.events(0, 500) if event.event == "turn.given"]
        last = str(given[-1].data["by"]) if given else ""
        other = "choreography" if last.startswith("round-robin,") else "round-robin"
        return Chosen(
            {}, "", delegate=other, reason=f"{last or 'nothing'} before", state={"seen": len(given)}
        )


class Planner:
    """A strategy that plans: the first ready task for whoever is first, for a reason."""

    def choose(self, situation: Situation) -> Chosen:
        if not situation.tasks:
            return Chosen({}, "", end=True, reason="nothing is left to do")
        first, task = situation.eligible[0], situation.tasks[0]
        focus = {first: task.id, "mallory": task.id}
        return Chosen({first: ""}, "", focus=focus, reason=f"{task.id} matters most")


class Astray:
    """A strategy that names itself in its place."""

    def choose(self, situation: Situation) -> Chosen:
        return Chosen({}, "", delegate="astray")


OWN = (
    f"backwards={__name__}:Backwards",
    f"broken={__name__}:Broken",
    f"garbled={__name__}:Garbled",
    f"muddled={__name__}:Muddled",
    f"immeasurable={__name__}:Immeasurable",
    f"numbered={__name__}:Numbered",
    f"watcher={__name__}:Watcher",
    f"astray={__name__}:Astray",
    f"planner={__name__}:Planner",
)


@pytest.fixture
async def board(tmp_path: Path, mode: str) -> AsyncIterator[Any]:
    async with boards.open_boards(tmp_path, mode, tools=ALL, strategy=OWN) as opened:
        yield opened


async def start(agent: Any, **more: Any) -> Any:
    said = {"problem": "Why is the second run slower?", "agents": ["ann", "ben"], **more}
    return await agent.do("turn", start=said)


@both
async def test_agents_take_turns_and_the_decider_answers(board: Any, mode: str) -> None:
    ann, ben = await board.join("ann", "ben")
    assert (await ann.say("turn", seconds=0)).splitlines()[0] == (
        'no run here: turn(start={"problem": "…", "agents": ["ann", "ben"]}) starts one'
    )
    opened = await start(ann, max_rounds=2)
    assert (opened["run"], opened["state"], opened["yours"], opened["kind"]) == (
        "run-1",
        "open",
        True,
        "contribute",
    )
    lease = opened["lease"]
    assert (await ann.say("turn")).splitlines() == [
        f"run-1 round 1 of 2: your turn, lease {lease}, 5m left",
        "B-1 Why is the second run slower?",
        f'end it: turn(text="what you found or did", lease={lease})',
        f"seq {lease}",
    ]
    waiting = asyncio.create_task(ben.do("turn", seconds=50))
    assert (await ann.say("turn", text="The cache is cold.", lease=lease, seconds=0)).splitlines()[:2] == [
        "posted L-2",
        "run-1 round 2 of 2: ben's turn, 5m left. turn() waits for yours",
    ]
    got = await asyncio.wait_for(waiting, PATIENCE)
    assert (got["yours"], got["waits_for"], got["said"][0]["text"]) == (True, ["ben"], "The cache is cold.")
    text = await ben.say("turn", text="The cache is warm from the second run on.", seconds=0)
    assert text.splitlines()[:2] == ["posted L-3", "run-1 settled: ann answers. turn() waits for it"]
    lines = (await ann.say("turn")).splitlines()
    assert lines[0].startswith("run-1 settled (all 2 rounds are used): you answer, lease ")
    assert lines[1:-1] == [
        "B-1 Why is the second run slower?",
        "L-2 ann: The cache is cold.",
        "L-3 ben: The cache is warm from the second run on.",
        'answer: finalize(text="…", cites=["ids it rests on"])',
    ]
    critique = await ben.post("It was not measured.", "CRITIQUE", edges={"critiques": ["L-2"]})
    would = await ann.do("finalize")
    assert (would["posted"], would["source"], would["cites"], would["unresolved"]) == (
        False,
        "contribution",
        [],
        [critique["id"]],
    )
    assert "ann answers run-1" in (await ben.fail("finalize", text="It is the cache."))["message"]
    assert "No item 99" in (await ann.fail("finalize", text="The cold cache.", cites=["E-99"]))["message"]
    final = await ann.do("finalize", text="The cold cache.", cites=["L-2", "L-3"])
    assert (final["posted"], final["cites"], final["unresolved"]) == (True, ["L-2", "L-3"], [critique["id"]])
    over = await ben.do("turn")
    assert (over["state"], over["answer"], over["yours"]) == ("finished", final["answer"], False)
    assert (await ben.say("turn")).splitlines()[:3] == [
        "run-1 is finished: no more turns",
        f"{final['answer']} by ann:",
        "The cold cache.",
    ]
    assert "finished" in (await ben.fail("turn", text="One more thing."))["message"]


async def test_a_view_says_whose_turn_it_is(board: Any) -> None:
    ann, ben = await board.join("ann", "ben")
    await ann.post("The disk is full.")
    assert "run-" not in await ann.say("read")
    await start(ann, max_rounds=1, agents=["ben", "ann"], strategy="choreography")
    mine = (await ben.do("turn", seconds=0))["lease"]
    assert f"run-1 on B-2, round 1 of 1:\nyour turn to contribute, lease {mine}: turn() says what to do" in (
        await ben.say("read")
    )
    await ben.do("turn", text="It is the log.", seconds=0)
    cara = await board.join("cara")
    assert "run-1 on B-2, round 1 of 1:\nann has the turn" in await cara.say("read")
    lease = (await ann.do("turn", text="The log it is.", seconds=0))["lease"]
    told = f'run-1 on B-2, rounds over:\nyou answer, lease {lease}: finalize(text="…", cites=["…"])'
    assert told in await ann.say("read")
    await ann.do("finalize", text="The log.")
    assert "run-1 on" not in await cara.say("read")


async def test_who_has_no_turn_is_told_so_in_few_tokens(board: Any) -> None:
    ann, ben = await board.join("ann", "ben")
    await start(ann)
    for _ in range(2):
        text = await ben.say("turn", seconds=0)
        assert text.splitlines()[0] == "run-1 round 1 of 10: ann's turn, 5m left. turn() waits for yours"
        assert boards.TOKENIZER.count(text) <= 40
    text = await ben.say("turn", seconds=0)
    assert (
        text.splitlines()[0]
        == "run-1 round 1 of 10: ann's turn, 5m left. wait() wakes you too; stopping is fine: it goes on"
    )
    assert boards.TOKENIZER.count(text) <= 40
    told = await ben.say("wait", since=0, seconds=0)
    assert "run-1 round 1: ann's turn; turn() says what to do" in told
    missed = await ben.fail("turn", text="Me first.")
    assert (missed["error"], missed["holder"]) == ("conflict", "ann")


@both
async def test_a_coordinator_is_understood_or_told_what_is_wrong(board: Any, mode: str) -> None:
    ann, ben, cara = await board.join("ann", "ben", "cara")
    await ben.do("join", role="reads logs")
    await start(ann, agents=["ben", "cara"], coordinator="ann", coordinate="Prefer whoever has data.")
    text = await ann.say("turn")
    assert text.splitlines()[0].startswith("run-1: decide who has round 1 of 10, lease ")
    assert "Prefer whoever has data." in text
    assert "ben: reads logs" in text
    assert "\ncara\n" in text
    assert 'decide: turn(decision={"terminate": false, "next_agent": "ben"' in text
    wrong = await ann.do("turn", decision={"terminate": "maybe", "next_agent": "ben"})
    assert (wrong["verdict"], wrong["yours"], wrong["round"]) == ("malformed", True, 0)
    text = await ann.say("turn", decision='I think dora should do it: {"next_agent": "dora"}')
    assert text.splitlines()[0] == (
        "not understood: dora is no agent of run-1; its agents are ben, cara. No round was used; tries left: 1"
    )
    said = '{"terminate": "false", "next_agent": "cara", "instruction": "Look at disk use."}'
    told = f"Here:\n```json\n{said}\n```\nDone."
    went = await ann.do("turn", decision=told, seconds=0)
    assert (went["verdict"], went["round"], went["waits_for"]) == ("accepted", 1, ["cara"])
    assert (await cara.do("turn"))["instruction"] == "Look at disk use."
    await cara.do("turn", text="The disk is full.", seconds=0)
    ended = await ann.do("turn", decision={"terminate": True, "instruction": "It is the disk."}, seconds=0)
    assert (ended["state"], ended["kind"]) == ("settled", "answer")


async def test_garbage_costs_no_round_and_after_three_the_fallback_chooses(board: Any) -> None:
    ann, ben = await board.join("ann", "ben")
    await start(ann, agents=["ben"], coordinator="ann", max_rounds=1)
    for verdict in ("malformed", "malformed", "fallback"):
        got = await ann.do("turn", decision="let us all think a little more", seconds=0)
        assert got["verdict"] == verdict
    assert (got["round"], got["waits_for"]) == (1, ["ben"])
    assert (await ben.do("turn", text="Found it.", seconds=0))["state"] == "settled"
    text = await ann.say("wait", since=0, seconds=0)
    assert text.count("the decision was not understood (there is no JSON object in it") == 3


async def test_a_sealed_round_opens_as_one_and_names_what_only_one_had(board: Any) -> None:
    ann, ben, cara = await board.join("ann", "ben", "cara")
    await start(ann, agents=["ann", "ben", "cara"], strategy="choreography", sealed=True, max_rounds=1)
    mine = await ann.say("turn")
    assert "(unseen until all have contributed)" in mine
    text = await ann.say("turn", text="The disk is full.\nThe log is long.", seconds=0)
    assert text.splitlines()[0] == "kept; it is posted when all have contributed"
    await ben.do("turn", text="The disk is full.\nThe fan is loud.", seconds=0)
    for agent in (ben, cara):
        assert "fan" not in (await agent.say("read")) or agent is ben
        assert "The log is long" not in await agent.say("wait", since=0, seconds=0)
    done = await cara.do("turn", text="The disk is full.", seconds=0)
    assert len(done["posted"]) == 3
    assert done["alone"] == ["ann: The log is long.", "ben: The fan is loud."]
    lines = (await ann.say("turn")).splitlines()
    assert lines[2:5] == ["only one had:", "ann: The log is long.", "ben: The fan is loud."]
    assert "L-3 ben: The disk is full. The fan is loud." in lines


async def test_a_decision_in_a_sealed_run_is_not_called_a_contribution(board: Any) -> None:
    ann, ben, _ = await board.join("ann", "ben", "cara")
    await start(ann, agents=["ann", "ben"], coordinator="ann", sealed=True, max_rounds=3)
    decision = {"terminate": False, "next_agent": "ben", "instruction": "Look."}
    said = await ann.say("turn", decision=decision, seconds=0)
    assert said.splitlines()[0] == "run-1 round 1 of 3: ben's turn, 5m left. turn() waits for yours"
    await ben.do("turn", text="The disk is full.", seconds=0)
    said = await ann.say("turn", decision={"terminate": True}, seconds=0)
    assert said.startswith("run-1 settled (ann ended the rounds): you answer, lease ")


async def test_who_left_has_no_turns_and_is_told_how_to_come_back(board: Any) -> None:
    ann, ben, cara = await board.join("ann", "ben", "cara")
    for agent in (ann, ben):
        await agent.do("join", role="measures")
    await start(ann, agents=["ann", "ben", "cara"], strategy="choreography", max_rounds=4)
    await ben.do("join", leave="my shift is over")
    for agent in (ann, cara):
        await agent.do("turn", text=f"{agent.name} saw nothing.", seconds=0)
    assert (await ann.do("turn", seconds=0))["round"] == 2
    assert (await ann.do("turn"))["waits_for"] == ["ann", "cara"]
    assert (await ben.say("turn", seconds=0)).splitlines()[0] == (
        'run-1 round 2 of 4: ann, cara\'s turn, 5m left; you are no agent of it: join(role="…") takes part'
    )
    assert 'join(role="…") takes part' in (await ben.fail("turn", text="I am back.", seconds=0))["message"]
    await ann.do("join", leave="my shift is over, too")
    assert 'you are no agent of it: join(role="…") takes part' in await ann.say("turn", seconds=0)
    await cara.do("turn", text="cara saw less.", seconds=0)
    for agent in (ann, ben):
        await agent.do("join", role="measures")
    await cara.do("turn", text="cara saw least.", seconds=0)
    assert (await ben.do("turn", seconds=50))["yours"]


async def test_when_the_coordinator_leaves_the_run_goes_on_without_it(board: Any) -> None:
    ann, ben, cara = await board.join("ann", "ben", "cara")
    await cara.do("join", role="leads")
    await start(ann, agents=["ann", "ben"], coordinator="cara", max_rounds=3)
    assert (await cara.do("turn"))["kind"] == "decide"
    await cara.do("join", leave="my shift is over")
    assert (await ann.do("turn", seconds=50))["yours"]
    await ann.do("turn", text="The disk is full.", seconds=0)
    assert (await ben.do("turn", seconds=50))["yours"]


async def test_a_coordinator_that_left_while_the_board_was_settled_is_not_waited_for(board: Any) -> None:
    ann, ben, cara = await board.join("ann", "ben", "cara")
    for agent in (ben, cara):
        await agent.do("join", role="helps")
    await start(ann, agents=["ann", "ben"], coordinator="cara", max_rounds=3)
    assert (await cara.do("turn"))["kind"] == "decide"
    await ann.do("board", lifecycle="settled")
    await cara.do("join", leave="my shift is over")
    await ann.do("board", lifecycle="open")
    assert (await ann.do("turn", seconds=50))["yours"]
    await ann.do("turn", text="The disk is full.", seconds=0)
    assert (await ben.do("turn", seconds=50))["yours"]
    await ann.do("board", lifecycle="settled")
    await ben.do("join", leave="my shift is over, too")
    await ann.do("board", lifecycle="open")
    assert (await ann.do("turn", seconds=50))["yours"], "nor is anybody else who had a turn"


async def test_a_coordinator_that_left_before_the_run_is_not_asked(board: Any) -> None:
    ann, _, cara = await board.join("ann", "ben", "cara")
    await cara.do("join", role="leads")
    await cara.do("join", leave="my shift is over")
    await start(ann, agents=["ann", "ben"], coordinator="cara", max_rounds=3)
    assert (await ann.do("turn", seconds=50))["yours"]


async def test_a_second_run_on_the_same_problem_has_no_answer_of_the_first(board: Any) -> None:
    ann, ben = await board.join("ann", "ben")
    for number in (1, 2):
        begun = await start(ann, max_rounds=1)
        assert (begun["run"], begun["problem"]) == (f"run-{number}", "B-1")
        assert (await ann.do("finalize"))["source"] == "empty"
        await ann.do("turn", text=f"contribution {number}", seconds=0)
        would = await ben.do("finalize")
        assert (would["source"], would["text"]) == ("contribution", f"contribution {number}")
        await ben.post(f"answer {number}", "ANSWER", edges={"replies_to": ["B-1"]})
        assert (await ben.do("finalize"))["source"] == "answer"
        await ann.do("finalize", text=f"final {number}")


async def test_a_long_answer_ends_with_the_call_that_reads_it_whole(board: Any) -> None:
    ann, ben = await board.join("ann", "ben")
    await start(ann)
    await ann.do("finalize", text="It is the cache. " * 200)
    said = await ben.say("turn")
    assert '… read(ids=["A-2"]) has the rest\n' in said
    assert len((await ben.do("read", ids=["A-2"]))["items"][0]["text"]) > 3_000


@pytest.mark.parametrize("strategy", [None, "round-robin", "volunteer", "interest"])
async def test_a_sealed_run_needs_rounds_of_several_agents(board: Any, strategy: str | None) -> None:
    ann, _ = await board.join("ann", "ben")
    given = {"problem": "Why?", "agents": ["ann", "ben"], "sealed": True, "max_rounds": 1}
    wanted = given if strategy is None else {**given, "strategy": strategy}
    said = (await ann.fail("turn", start=wanted, seconds=0))["message"]
    assert f'with the strategy "{strategy or "round-robin"}" each round is one agent\'s' in said
    assert 'Nothing was changed; give "strategy": "choreography"' in said
    assert (await ann.do("turn", start={**given, "strategy": "choreography"}, seconds=0))["run"] == "run-1"


async def test_who_is_no_agent_of_a_run_or_too_late_hears_so(board: Any) -> None:
    ann, ben, eve = await board.join("ann", "ben", "eve")
    await start(ann, agents=["ann", "ben"], max_rounds=1)
    told = "you are no agent of it: post(text=…) tells them what you know, wait() follows it"
    assert told in await eve.say("turn", seconds=0)
    said = (await eve.fail("turn", text="I know."))["message"]
    assert said == (
        "You are no agent of run-1 (ann, ben). Nothing was changed; post(text=…) tells them what you know."
    )
    assert "turn() waits for yours" in (await ben.fail("turn", text="Too early."))["message"]
    await ann.do("turn", text="It leaks.", seconds=0)
    said = (await ben.fail("turn", text="Too late."))["message"]
    assert said.startswith("The rounds of run-1 are over, ann (lease ")
    assert said.endswith(
        "answers. Nothing was changed; post(text=…) tells what you know, turn() waits for the answer."
    )


async def test_f75_every_fact_that_one_agent_alone_had_is_there_before_the_answer(board: Any) -> None:
    names = ("ann", "ben", "cara", "dan", "eve")
    agents = dict(zip(names, await board.join(*names), strict=True))
    chance = random.Random(7)
    knows = {name: [f"Fact {n} of the pump." for n in range(40) if chance.random() < 0.25] for name in names}
    alone = {
        f"{name}: {fact}"
        for name, facts in knows.items()
        for fact in facts
        if sum(fact in others for others in knows.values()) == 1
    }
    assert len(alone) > 10
    start_ = {
        "agents": list(names),
        "strategy": "choreography",
        "sealed": True,
        "max_rounds": 1,
        "decider": "ann",
    }
    await start(agents["ann"], **start_)
    for name in reversed(names):
        await agents[name].do("turn", text="\n".join(knows[name]), seconds=0)
    told = await agents["ann"].do("turn")
    assert told["kind"] == "answer"
    assert set(told["alone"]) == alone
    items = (await agents["ann"].do("read", ids=[one["item"] for one in told["said"]]))["items"]
    on_board = {line for item in items for line in item["text"].splitlines()}
    assert on_board == {fact for facts in knows.values() for fact in facts}


async def test_volunteers_are_taken_by_their_offers(board: Any) -> None:
    ann, ben, cara = await board.join("ann", "ben", "cara")
    opened = await start(ann, agents=["ann", "ben", "cara"], strategy="volunteer")
    assert opened["reason"] == "nobody offered: turn(offer=0.8) volunteers"
    await asyncio.gather(ben.do("turn", offer=0.4, seconds=0), board.settled())
    assert (await ann.do("turn", seconds=0))["waits_for"] == ["ben"]
    await cara.do("turn", offer=0.9, seconds=0)
    await ann.do("turn", offer=0.3, seconds=0)
    done = await ben.do("turn", text="I looked at the disk.", seconds=0)
    assert done["waits_for"] == ["cara"]


async def test_interest_goes_by_what_changed(board: Any) -> None:
    ann, ben, cara = await board.join("ann", "ben", "cara")
    await ben.do("join", role="disks", interests=[{"events": ["item.posted"], "tags": ["disk"]}])
    await cara.do("join", role="nets", interests=[{"events": ["item.posted"], "tags": ["net"]}])
    await start(ann, agents=["ann", "ben", "cara"], strategy="interest")
    await ann.post("The link drops packets.", tags=["net"])
    done = await ann.do("turn", text="I posted what I saw.", seconds=0)
    assert done["waits_for"] == ["cara"]
    done = await cara.do("turn", text="The cable is loose.", seconds=0)
    assert done["reason"] == "nothing changed that interests anybody"
    waiting = asyncio.create_task(ben.do("turn", seconds=50))
    await ann.post("The disk is at 99 %.", tags=["disk"])
    assert (await asyncio.wait_for(waiting, PATIENCE))["yours"]


async def test_a_spent_budget_runs_nothing_more(board: Any) -> None:
    ann, ben = await board.join("ann", "ben")
    await start(ann, budget={"tokens": 1_000})
    await ann.do("turn", text="One.", usage={"tokens": 600, "cost": 0.2}, seconds=0)
    done = await ben.do("turn", text="Two.", usage={"tokens": 600}, seconds=0)
    assert (done["state"], done["reason"]) == ("stopped", "its budget is spent: tokens (1200 of 1000)")
    text = await ann.say("turn")
    assert text.splitlines()[0] == "run-1 stopped, no more turns: its budget is spent: tokens (1200 of 1000)"
    assert "Two." in text
    assert (await ann.do("finalize", text="As far as we got: two."))["posted"]
    assert (await start(ann))["run"] == "run-2"


async def test_a_budget_that_one_turn_spends_ends_the_round(board: Any) -> None:
    ann, ben = await board.join("ann", "ben")
    await start(ann, strategy="choreography", sealed=True, budget={"tokens": 10})
    done = await ann.do("turn", text="It leaks.", usage={"tokens": 50}, seconds=0)
    assert (done["state"], len(done["posted"])) == ("stopped", 1)
    assert "stopped" in (await ben.fail("turn", text="Too late."))["message"]


async def test_a_sealed_text_is_posted_though_its_round_ends_early(board: Any) -> None:
    ann, ben = await board.join("ann", "ben")
    await start(ann, strategy="choreography", sealed=True)
    assert (await ben.do("turn", text="The seal is worn.", seconds=0))["posted"] == []
    assert (await ann.do("finalize", text="Enough."))["posted"]
    found = await ann.do("query", text="worn seal")
    assert [(item["author"], item["text"]) for item in found["items"]] == [("ben", "The seal is worn.")]


async def test_a_users_class_chooses_and_is_cut_to_who_may(board: Any) -> None:
    ann, ben = await board.join("ann", "ben")
    opened = await start(ann, strategy="backwards", agents=["ann", "ben"])
    assert opened["waits_for"] == ["ben"]
    assert (await ben.do("turn"))["instruction"] == "ask 1"
    await ben.do("turn", text="one", seconds=0)
    await ann.do("turn", text="two", seconds=0)
    done = await ben.do("turn", text="three", seconds=0)
    assert (done["state"], done["reason"]) == ("settled", "three are enough, of 3 events")


@both
async def test_a_strategy_watches_others_and_names_who_chooses_up_to_a_ceiling(board: Any, mode: str) -> None:
    ann = await board.join("ann")
    now = await start(ann, strategy="watcher", agents=["ann"], max_rounds=MAX_SWITCHES + 4)
    for place in range(MAX_SWITCHES + 3):
        assert now["yours"]
        now = await ann.do("turn", text=f"finding {place}", seconds=20)
    log = await ann.do("wait", since=0, seconds=0, limit=200)
    given = [event["data"] for event in log["events"] if event["event"] == "turn.given"]
    named = ["round-robin", "choreography"] * MAX_SWITCHES
    kept = [named[min(place, MAX_SWITCHES)] for place in range(MAX_SWITCHES + 4)]
    assert [one["by"] for one in given] == [f"{name}, named by watcher" for name in kept]
    assert [one["why"] for one in given[:2]] == ["nothing before", "round-robin, named by watcher before"]
    assert {one["why"] for one in given[MAX_SWITCHES + 2 :]} <= {
        "round-robin, named by watcher before",
        f"the {MAX_SWITCHES} changes of strategy that a run may have were made",
    }
    assert any("changes of strategy" in one["why"] for one in given)
    assert "ann's turn (nothing before);" in await ann.say("read", since=0)


@both
async def test_a_strategy_plans_tasks_and_says_which_is_first_and_why(board: Any, mode: str) -> None:
    ann = await board.join("ann")
    items = [{"title": "look", "priority": 1}, {"title": "tell", "priority": 5}]
    await ann.do("plan", items=items)
    now = await start(ann, strategy="planner", agents=["ann"], max_rounds=4)
    assert now["instruction"] == 'claim(id="T-2") first, "tell"'
    log = await ann.do("wait", since=0, seconds=0, limit=200)
    (given,) = (event["data"] for event in log["events"] if event["event"] == "turn.given")
    assert (given["task"], given["why"]) == ("T-2", "T-2 matters most")
    assert "ann's turn on T-2 (T-2 matters most);" in await ann.say("read", since=0)
    for id_ in ("T-2", "T-1"):
        taken = await ann.do("claim", id=id_)
        await ann.do("claim", id=id_, lease=taken["lease"], op="done", text="done")
    now = await ann.do("turn", text="both are done", seconds=20)
    assert (now["state"], now["yours"]) != ("open", True)


async def test_a_strategy_that_names_nobody_else_is_replaced_for_the_round(board: Any) -> None:
    ann, _ben = await board.join("ann", "ben")
    assert (await start(ann, strategy="astray"))["yours"]
    log = await ann.do("wait", since=0, seconds=0)
    by = next(event["data"]["by"] for event in log["events"] if event["event"] == "turn.given")
    assert by == "round-robin instead of astray, which named 'astray', which cannot choose in its place"


@pytest.mark.parametrize(
    ("strategy", "error"),
    [
        ("broken", "RuntimeError"),
        ("garbled", "ValueError"),
        ("muddled", "ValueError"),
        ("immeasurable", "ValueError"),
    ],
)
async def test_a_strategy_that_fails_is_replaced_for_the_round_and_named(
    board: Any, strategy: str, error: str
) -> None:
    ann, _ben = await board.join("ann", "ben")
    assert (await start(ann, strategy=strategy))["yours"]
    log = await ann.do("wait", since=0, seconds=0)
    by = next(event["data"]["by"] for event in log["events"] if event["event"] == "turn.given")
    assert by == f"round-robin instead of {strategy}, which raised {error}"


async def test_a_strategy_finds_its_state_as_json_has_it(board: Any) -> None:
    ann = await board.join("ann")
    given = await start(ann, strategy="numbered", agents=["ann"])
    assert given["instruction"] == "kept {}"
    given = await ann.do("turn", text="looked", lease=given["lease"])
    assert given["instruction"] == "kept {'2': 'two', 'null': 0}"


async def test_without_named_agents_those_take_turns_that_take_part(board: Any) -> None:
    ann, ben = await board.join("ann", "ben")
    opened = await ann.do("turn", start={"problem": "Where is the leak?"})
    assert opened["reason"] == 'nobody takes part: join(role="…") does'
    waiting = asyncio.create_task(ben.do("turn", seconds=50))
    await ben.do("join", role="looks at pumps")
    assert (await asyncio.wait_for(waiting, PATIENCE))["yours"]


async def test_a_turn_lapses_without_calls_and_lasts_with_them(board: Any) -> None:
    """A call that only reads is enough, also of an agent that never wrote anything."""
    ann, ben, cara = await board.join("ann", "ben", "cara")
    await start(ann, agents=["ben", "cara"])
    assert (await ben.do("turn"))["yours"]
    for _ in range(3):
        board.clock.advance(200)
        await ben.do("read")
        await board.opened.activity.flush()
        await board.opened.conduct().sweep()
        assert (await ben.do("turn", seconds=0))["round"] == 1
    waiting = asyncio.create_task(cara.do("turn", seconds=50))
    board.clock.advance(301)
    await board.opened.conduct().sweep()
    assert (await asyncio.wait_for(waiting, PATIENCE))["round"] == 2
    told = await ben.say("wait", since=0, seconds=0)
    assert (
        "turn.lapsed by system: run-1 round 1: ben made no call in time, and its turn went on without it"
        in told
    )
    late = await ben.fail("turn", text="Too late.")
    assert (late["error"], late["holder"]) == ("conflict", "cara")


async def test_a_decider_that_is_gone_leaves_the_answer_to_others(board: Any) -> None:
    ann, ben = await board.join("ann", "ben")
    await start(ann, agents=["ben"], max_rounds=1, decider="cara")
    assert (await ben.do("turn", text="It leaks.", seconds=0))["waits_for"] == ["cara"]
    assert "cara answers run-1" in (await ben.fail("finalize", text="The pump."))["message"]
    board.clock.advance(301)
    await board.opened.conduct().sweep()
    assert (await ann.do("turn", seconds=0))["waits_for"] == []
    told = 'cara let its turn to answer lapse: finalize(text="…", cites=["…"]) may answer'
    assert (await ben.say("turn", seconds=0)).splitlines()[0] == f"run-1 settled; {told}"
    assert f"run-1 on B-1, rounds over:\n{told}\n" in await ben.say("read")
    assert (await ben.do("finalize", text="The pump."))["posted"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"start": {}}, "problem"),
        ({"start": {"problem": "x", "strategy": "guess"}}, "there are round-robin, interest, volunteer"),
        ({"start": {"problem": "x", "strategy": "llm"}}, "needs an endpoint"),
        ({"start": {"problem": "x", "strategy": "coordinator"}}, "needs start.coordinator"),
        (
            {"start": {"problem": "x", "agents": ["system"]}},
            "Nobody is called 'system'. Name agents as the board knows them;",
        ),
        ({"start": {"problem": "x", "max_rounds": 0}}, "max_rounds"),
        ({"start": {"problem": "x", "budget": {"steps": -1}}}, "steps"),
        ({"start": {"problem": "x", "colour": 1}}, "colour"),
        ({"text": "x", "offer": 0.5}, "one of text, decision, offer, start"),
        ({"usage": {"tokens": 5}}, "usage goes with text or decision"),
        ({"text": "x", "usage": {"tokens": "many"}}, "tokens"),
        ({"offer": 2}, "offer"),
        ({"run": "7b"}, "run-1"),
        ({"text": "x"}, "There is no run"),
        ({"text": "x", "run": "run-7"}, "There is no run-7"),
    ],
)
async def test_what_cannot_be_is_refused_and_taught(board: Any, given: dict[str, Any], told: str) -> None:
    ann = await board.join("ann")
    assert told in (await ann.fail("turn", **given))["message"]


async def test_a_second_run_must_wait_for_the_first(board: Any) -> None:
    ann = await board.join("ann")
    await start(ann)
    assert "one run at a time" in (await ann.fail("turn", start={"problem": "Another."}))["message"]


@both
async def test_on_a_board_that_takes_no_posts_nobody_is_told_to_wait_for_a_turn(
    board: Any, mode: str
) -> None:
    ann, ben, cara = await board.join("ann", "ben", "cara")
    await ann.do("turn", start={"problem": "How many?", "agents": ["ben", "cara"]}, seconds=0)
    await ann.do("plan", items=[{"title": "count"}])
    waiting = asyncio.create_task(cara.fail("turn", seconds=50))
    assert "your turn" in await ben.say("turn", seconds=0)
    await ann.do("board", lifecycle="settled")
    assert (await waiting)["lifecycle"] == "settled"
    told = await ben.fail("turn", seconds=0)
    assert (told["error"], "so run-1 stands still" in told["message"]) == ("refused", True)
    assert 'board(lifecycle="open", board="main")' in told["message"]
    view = await ben.say("read")
    assert "run-1 on B-1, round 1 of 10:\nstands still: the board is settled" in view
    assert "T-1" not in view
    await ann.do("board", lifecycle="open")
    assert "your turn" in await ben.say("turn", seconds=0)
    await ann.do("board", lifecycle="closed")
    assert "stop here" in (await ben.fail("turn", seconds=0))["message"]


async def test_on_a_board_that_takes_no_posts_no_run_is_to_be_started_or_answered(board: Any) -> None:
    ann, ben = await board.join("ann", "ben")
    stopped = "the board is settled and takes no posts until a steward opens it again"
    await ann.post("One finding.")
    await ann.do("board", lifecycle="settled")
    assert (await ben.say("turn", seconds=0)).splitlines()[0] == f"no run here: {stopped}"
    await ann.do("board", lifecycle="open")
    await start(ann, budget={"steps": 1})
    await ann.do("turn", text="The disk is full.", seconds=0)
    assert "may still answer" in await ann.say("turn", seconds=0)
    await ann.do("board", lifecycle="settled")
    for answer in (await ann.say("turn", seconds=0), await ann.say("finalize")):
        assert answer.splitlines()[-2] == stopped
        assert "finalize(" not in answer
