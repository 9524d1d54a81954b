"""The examples of the round-based system that runs come from, played by scripted agents on a board of ours.

Where a run of ours differs on purpose, the line that shows it says how.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.run_wire import TurnAnswer
from blackboard_mcp.server.board import Board

MADE = ("run.", "turn.", "decision.", "budget.")


def decision(next_agent: str | None, instruction: str | None = None) -> str:
    """What a coordinator says: who is next, or that the rounds are over."""
    return json.dumps({"terminate": next_agent is None, "next_agent": next_agent, "instruction": instruction})


@pytest.fixture
async def host() -> AsyncIterator[Board]:
    async with Board.open(agent="host") as opened:
        yield opened


async def play(host: Board, scripts: Mapping[str, Sequence[str]], **start: Any) -> TurnAnswer:
    """Plays a run: whoever has a turn says the next line of its script. Returns the run as it is then."""
    named = [name for name in scripts if name not in (start.get("coordinator"), start.get("decider"))]
    await host.start_run("the question", named, **start)
    left = {name: list(lines) for name, lines in scripts.items()}
    while (now := await host.turn(seconds=0)).state == "open":
        name = now.waits_for[0]
        agent = host.as_agent(name)
        mine = await agent.turn(seconds=0)
        said: Any = {"decision" if mine.kind == "decide" else "text": left[name].pop(0)}
        await agent.turn(**said, lease=mine.lease, seconds=0)
    return now


async def told(host: Board) -> list[tuple[str, dict[str, Any]]]:
    """What the log says of the run, in order."""
    return [(e.event, e.data) for e in (await host.changes(0)).events if e.event.startswith(MADE)]


# What is posted is there for all; a private note is in its author's view alone.
async def test_a_turn_shows_the_board_and_own_notes_alone(host: Board) -> None:
    assert "Nothing posted yet" in (await host.view()).view
    ann, ben = host.as_agent("ann"), host.as_agent("ben")
    await ann.post("scratch of ann", visibility="private")
    await host.post("said to all")
    await host.start_run("the question", ["ann", "ben"])
    assert (await ann.turn(seconds=0)).yours
    views = [(await agent.view()).view for agent in (ann, ben)]
    assert ["scratch of ann" in view for view in views] == [True, False]
    assert all("said to all" in view and "the question" in view for view in views)


# Without a coordinator agents take turns in order, until the rounds are used; the last contribution is the answer.
@pytest.mark.parametrize(
    ("rounds", "who", "last"), [(1, "a", "A1"), (2, "a b", "B1"), (5, "a b a b a", "A3")]
)
async def test_without_a_coordinator_agents_take_turns_in_order(
    host: Board, rounds: int, who: str, last: str
) -> None:
    scripts = {"a": ["A1", "A2", "A3"], "b": ["B1", "B2"]}
    over = await play(host, scripts, max_rounds=rounds)
    assert (over.state, over.round, over.reason) == ("settled", rounds, f"all {rounds} rounds are used")
    given = [data["agent"] for event, data in await told(host) if event == "turn.given"]
    assert given == [*who.split(), "host"], "whoever began it answers where nobody else is named to"
    would = await host.finalize()
    assert (would.text, would.source, would.posted) == (last, "contribution", False)


# A coordinator picks who is next with what to do, and ends the rounds; the decider says the answer.
async def test_a_coordinator_picks_and_ends_and_a_decider_answers(host: Board) -> None:
    await host.as_agent("alpha").join("says what X is")
    scripts = {
        "alpha": ["the answer is X"],
        "coord": [decision("alpha", "do the thing"), decision(None)],
        "dec": [],
    }
    over = await play(host, scripts, coordinator="coord", decider="dec", max_rounds=5)
    assert (over.state, over.round, over.waits_for) == ("settled", 1, ["dec"])
    decider = host.as_agent("dec")
    asked = await decider.turn(seconds=0)
    assert [turn.text for turn in asked.said] == ["the answer is X"]
    final = await decider.finalize("FINAL: X", cites=[asked.said[0].item or ""])
    assert (final.text, final.source, final.cites) == ("FINAL: X", "decider", [asked.said[0].item])
    assert (await host.finalize()).text == "FINAL: X"


# What a coordinator says: JSON alone, in a fence, in prose, or nothing that is a decision. A round that is there
# skipped for an unknown agent or for none is not used here, and the coordinator is told and asked again.
@pytest.mark.parametrize(
    ("said", "verdict", "rounds"),
    [
        (decision("alpha", "do it"), "accepted", 1),
        (f"```json\n{decision('alpha')}\n```", "accepted", 1),
        (f"I would say {decision('alpha')}, would you?", "accepted", 1),
        ('{"terminate": "false", "next_agent": "alpha"}', "accepted", 1),
        ("not json at all", "malformed", 0),
        ('{"terminate": false, "next_agent": null, "instruction": null}', "malformed", 0),
        (decision("ghost"), "unknown agent", 0),
        (f"```json\n{decision(None)}\n```", "accepted", 0),
    ],
)
async def test_a_decision_is_understood_or_costs_no_round(
    host: Board, said: str, verdict: str, rounds: int
) -> None:
    await host.start_run("the question", ["alpha"], coordinator="coord", max_rounds=5)
    coordinator = host.as_agent("coord")
    now = await coordinator.turn(decision=said, seconds=0)
    assert (now.verdict, now.round) == (verdict, rounds)
    if verdict == "accepted":
        ended = said.count('"terminate": true')
        assert now.state == ("settled" if ended else "open")
        assert now.waits_for == (["host"] if ended else ["alpha"])
        return
    assert (now.yours, now.kind) == (True, "decide")
    logged = [data for event, data in await told(host) if event == "decision.made"]
    assert [data["raw"] for data in logged] == [said]
    assert (await coordinator.turn(decision=decision("alpha"), seconds=0)).round == 1


# An unknown agent is told of, and the run goes on with whom the coordinator names then.
async def test_a_run_goes_on_after_an_unknown_agent(host: Board) -> None:
    scripts = {
        "alpha": ["alpha's contribution"],
        "coord": [decision("ghost"), decision("alpha"), decision(None)],
    }
    over = await play(host, scripts, coordinator="coord", max_rounds=5)
    assert (over.state, over.round) == ("settled", 1)
    events = [event for event, _ in await told(host)]
    assert "run.unknown_agent" in events
    assert events.index("run.unknown_agent") < events.index("turn.ended")


# Without a decider the last ANSWER counts, else the last contribution, else there is none.
@pytest.mark.parametrize(
    ("says", "answers", "wanted"),
    [
        (["my contribution"], [], ("my contribution", "contribution")),
        (["first", "second"], [], ("second", "contribution")),
        (["first"], ["an answer", "a better answer"], ("a better answer", "answer")),
        ([], [], ("", "empty")),
    ],
)
async def test_what_the_answer_is_without_a_decider(
    host: Board, says: list[str], answers: list[str], wanted: tuple[str, str]
) -> None:
    said = [decision("a") for _ in says] + [decision(None)]
    await play(host, {"a": says, "coord": said}, coordinator="coord", max_rounds=9)
    problem = (await host.turn(seconds=0)).problem or ""
    for text in answers:
        await host.as_agent("a").post(text, type="ANSWER", edges={"replies_to": [problem]})
    would = await host.finalize()
    assert (would.text, would.source) == wanted


# Each step is an event: begun, decided, given, contributed, ended.
async def test_the_log_tells_a_run_step_by_step(host: Board) -> None:
    said = decision("a", "look " + "x" * 400)
    await play(host, {"a": ["A's bit"], "coord": [said, decision(None)]}, coordinator="coord", max_rounds=3)
    await host.finalize("A's bit it is.")
    events = await told(host)
    assert [event for event, _ in events] == [
        *("run.started", "turn.given", "decision.made", "turn.given", "turn.ended", "turn.given"),
        *("decision.made", "run.settled", "turn.given", "run.finished"),
    ]
    made = [data for event, data in events if event == "decision.made"]
    assert [len(data["raw"]) for data in made] == [300, len(decision(None))], "the text is cut at 300"


# The budget is asked before each round; a step that it blocks runs nothing.
async def test_a_spent_budget_blocks_the_next_round(host: Board) -> None:
    over = await play(host, {"a": ["A1", "A2", "A3"]}, budget={"steps": 2}, max_rounds=9)
    assert (over.state, over.reason) == ("stopped", "its budget is spent: steps (2 of 2)")
    assert [event for event, _ in await told(host)][-2:] == ["budget.blocked", "run.stopped"]


# Rounds are at least one. Agents need not be named here: those take turns who take part.
async def test_a_run_needs_rounds_and_may_name_no_agents(host: Board) -> None:
    with pytest.raises(InvalidInput, match="max_rounds"):
        await host.start_run("the question", ["a"], max_rounds=0)
    await host.as_agent("a").join("knows")
    assert (await host.start_run("the question")).waits_for == ["a"]


# The documented team: hypothesis, evidence and critic, with a coordinator and a decider.
async def test_a_team_of_specialists_ends_in_a_cited_answer(host: Board) -> None:
    scripts = {
        "hypothesis": ["It is the cache."],
        "evidence": ["p95 fell when it was warm."],
        "critic": ["One sample only."],
        "coord": [*map(decision, ("hypothesis", "evidence", "critic")), decision(None, "enough")],
        "decider": [],
    }
    over = await play(host, scripts, coordinator="coord", decider="decider", decide="Name dissent.")
    assert (over.state, over.reason, over.round) == ("settled", "enough", 3)
    decider = host.as_agent("decider")
    asked = await decider.turn(seconds=0)
    assert "Name dissent." in asked.instruction
    cites = [turn.item or "" for turn in asked.said]
    await host.as_agent("critic").post("Not so.", type="CRITIQUE", edges={"critiques": [cites[0]]})
    final = await decider.finalize("The cache, say two; one doubts.", cites=cites[:2])
    assert (final.state, final.cites, len(final.unresolved)) == ("finished", cites[:2], 1)
    item = await host.item(final.answer or "")
    assert (item.type, item.author, item.edges["derived_from"]) == ("ANSWER", "decider", cites[:2])
