"""`debate` through real clients of both generations: F25, F26; who owes what, who may close, who is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boards
import pytest

board, mode, both = boards.board, boards.mode, boards.both


def owed(answer: Any) -> set[tuple[str, str, str]]:
    return {(o["agent"], o["item"], o["duty"]) for o in answer["outstanding"]}


async def dispute(boards_: Any) -> tuple[Any, Any, Any]:
    """Alice's F-1, criticised by Bob in C-2; Carol looks on."""
    alice, bob, carol = await boards_.join("alice", "bob", "carol")
    await alice.post("The pump holds 9 bar.")
    await bob.post("It burst at 8.", "CRITIQUE", edges={"critiques": ["F-1"]})
    return alice, bob, carol


@both
async def test_a_critique_opens_a_debate_and_tells_each_what_it_owes(board: Any, mode: str) -> None:
    alice, bob, carol = await dispute(board)
    text = await bob.say("post", text="It leaks as well.", type="CRITIQUE", edges={"critiques": ["F-1"]})
    assert text.splitlines()[0] == "C-3 → debate on F-1 open: its author answers, then you judge the answer"
    await alice.do("query")
    assert alice.footer.endswith("you owe: answer C-2, C-3")
    for critic in (bob, carol):
        await critic.do("query")
        assert "you owe" not in critic.footer, "there is nothing to judge yet"
    status = await carol.do("debate", op="status", id="F-1")
    assert (status["item"], status["root"], status["state"], status["opened_by"]) == (
        "F-1",
        "F-1",
        "OPEN",
        "bob",
    )
    assert status["critiques"] == ["C-2", "C-3"]
    assert owed(status) == {
        ("alice", "C-2", "respond"),
        ("alice", "C-3", "respond"),
    }
    assert status["unanswered"] == ["C-2", "C-3"]
    assert (await carol.do("debate", op="status", id="C-2"))["root"] == "F-1"
    said = (await carol.say("debate", op="status", id="F-1")).splitlines()
    assert said[0] == "F-1 debate OPEN opened by bob"
    assert said[1] == "critiques C-2 by bob (not answered), C-3 by bob (not answered)"
    assert said[2] == "outstanding: alice to answer C-2, alice to answer C-3"
    assert said[3] == "watching, asked once every critique is answered: bob"
    assert said[4] == "alice was shown C-2 0s ago (query); alice was shown C-3 0s ago (query)"
    assert said[5].startswith(
        "closes when C-2, C-3 are answered, and then when bob acknowledged: agreed that F-1 stands"
    )
    assert "you owe" not in "".join(said)
    said = (await alice.say("debate", op="status", id="F-1")).splitlines()
    assert said[-3] == (
        'you owe: C-2 by bob criticises F-1: "It burst at 8." → answer: post(type="REPLY", '
        'edges={"replies_to": ["C-2"]}, text="…"); it is right: debate(op="concede", id="F-1", reason="…")'
    )


async def test_when_the_answer_comes_the_line_names_it_and_every_way(board: Any) -> None:
    alice, bob, carol = await dispute(board)
    await carol.do("debate", op="watch", id="F-1")
    await carol.do("query")
    failure = await bob.fail("debate", op="acknowledge", id="F-1")
    assert failure["error"] == "refused"
    for words in (
        "C-2 has no answer yet; alice owes",
        'debate(op="withdraw", id="C-2")',
        '"supports": ["C-2"]',
    ):
        assert words in failure["message"]
    await alice.post('It was "cold" then.\nseq 9 · all is settled', "REPLY", edges={"replies_to": ["C-2"]})
    for watcher in (bob, carol):
        await watcher.do("query")
        assert "you owe: acknowledge or criticise F-1" in watcher.footer
    said = (await bob.say("debate", op="status", id="F-1")).splitlines()
    assert said[1] == "critiques C-2 by bob (answered by R-3)"
    assert said[-2] == (
        "you owe: R-3 by alice answers your C-2: \"It was 'cold' then. > seq 9 · all is settled\" → satisfied: "
        'debate(op="acknowledge", id="F-1"); not satisfied: post another CRITIQUE; mistaken: '
        'debate(op="withdraw", id="C-2")'
    )
    said = (await carol.say("debate", op="status", id="F-1")).splitlines()
    assert "R-3 by alice answers C-2: " in said[-2]
    assert said[-2].endswith(
        '→ agree that it stands: debate(op="acknowledge", id="F-1"); not so: post a CRITIQUE'
    )
    status = await bob.do("debate", op="status", id="F-1")
    assert (status["answers"], status["unanswered"]) == ({"C-2": "R-3"}, [])


async def test_the_state_of_a_debate_says_what_is_owed_there_however_much_is_owed_elsewhere(
    board: Any,
) -> None:
    alice, bob = await board.join("alice", "bob")
    for number in range(51):
        fact = await alice.post(f"Pump {number} holds {number} bar.")
        critique = await bob.post(f"It burst at {number}.", "CRITIQUE", edges={"critiques": [fact["id"]]})
    status = await alice.say("debate", op="status", id=fact["id"])
    assert f"\nyou owe: {critique['id']} by bob criticises {fact['id']}: " in status


async def test_a_wait_on_a_board_that_takes_no_posts_says_so_and_names_nobody_who_could_not_act(
    board: Any,
) -> None:
    _, bob, _ = await dispute(board)
    await bob.say("wait", seconds=1)
    assert "waits for alice: answer C-2" in await bob.say("wait", seconds=1)
    for lifecycle, until in (("settled", "until a steward opens it again"), ("closed", "for good")):
        await bob.do("board", lifecycle=lifecycle)
        await bob.say("read")
        said = await bob.say("wait", seconds=1)
        assert said.startswith(
            f"no news; the board is {lifecycle} and takes no posts {until}, so stopping is fine\n"
        )


async def test_a_call_in_a_debate_on_a_board_that_takes_no_posts_asks_for_nothing(board: Any) -> None:
    alice, bob, _ = await dispute(board)
    for place in (3, 5):
        await alice.post(f"Valve {place} is shut.")
        await bob.post("It drips.", "CRITIQUE", edges={"critiques": [f"F-{place}"]})
    assert "you owe: answer C-2" in await alice.say("debate", op="concede", id="F-3")
    await bob.do("board", lifecycle="settled")
    assert "you owe" not in await alice.say("debate", op="concede", id="F-5")


async def test_who_objects_to_an_answer_is_not_asked_to_judge_before_that_is_settled(board: Any) -> None:
    alice, bob, carol = await dispute(board)
    await carol.do("debate", op="watch", id="F-1")
    await alice.post("See the graph.", "REPLY", edges={"replies_to": ["C-2"]})
    await bob.post("It shows last week.", "CRITIQUE", edges={"critiques": ["R-3"]})
    assert "you owe" not in bob.footer
    view = (await bob.say("read")).splitlines()
    assert "waits for carol: judge; then you: judge" in view
    assert "waits for you:" not in view
    status = await bob.say("debate", op="status", id="F-1")
    assert "outstanding: carol to acknowledge F-1\n" in status
    assert "asked once the debate on R-3 is over: bob to acknowledge F-1\n" in status
    assert "you owe" not in status
    await carol.do("query")
    assert "you owe: acknowledge or criticise F-1" in carol.footer
    await carol.do("debate", op="acknowledge", id="F-1")
    assert "waits for the debate on R-3; then you: judge" in (await bob.say("read")).splitlines()
    await alice.post("This one is of today.", "REPLY", edges={"replies_to": ["C-4"]})
    await bob.do("query")
    assert bob.footer.endswith("you owe: acknowledge or criticise R-3")
    await alice.do("debate", op="concede", id="R-3", reason="It is of last week, indeed.")
    await bob.do("query")
    assert bob.footer.endswith("you owe: acknowledge or criticise F-1")
    assert 'R-3 by alice, which stands no more, answers your C-2: "See' in await bob.say("read")


async def test_an_answer_meets_the_response_and_all_watchers_make_a_consensus(board: Any) -> None:
    alice, bob, carol = await dispute(board)
    await carol.do("debate", op="open", id="F-1")
    await alice.post("Measured again: 9.", "REPLY", edges={"replies_to": ["C-2"]})
    await alice.do("query")
    assert "you owe" not in alice.footer
    first = await bob.do("debate", op="acknowledge", id="F-1")
    assert (first["state"], owed(first)) == ("OPEN", {("carol", "F-1", "acknowledge")})
    last = await carol.do("debate", op="acknowledge", id="F-1")
    assert (last["state"], last["closed_by"], last["outstanding"]) == ("CONSENSUS", "carol", [])
    item = await alice.item("F-1")
    assert (item["status"], item["debate"]) == ("ACTIVE", "CONSENSUS")
    events = [e["event"] for e in (await alice.do("read", since=0))["events"]]
    assert events[-2:] == ["obligation.met", "debate.closed"]


@both
async def test_an_author_concedes_and_everybody_reads_that_it_fell_and_why(board: Any, mode: str) -> None:
    alice, _, carol = await dispute(board)
    done = await alice.do("debate", op="concede", id="F-1", reason="I read the wrong gauge.")
    assert (done["state"], done["outcome"], done["closed_by"]) == ("CONSENSUS", "falls", "alice")
    said = (await carol.say("debate", op="status", id="F-1")).splitlines()
    assert said[0] == ("F-1 falls: conceded by alice: I read the wrong gauge.")
    item = await carol.item("F-1")
    assert (item["status"], item["outcome"]) == ("INVALIDATED", "falls")
    again = await alice.fail("debate", op="concede", id="F-1")
    assert (again["error"], "No debate is open on F-1. Nothing was changed" in again["message"]) == (
        "conflict",
        True,
    )


@both
async def test_an_author_concedes_for_a_better_wording_of_its_own(board: Any, mode: str) -> None:
    alice, bob, carol = await dispute(board)
    second = await alice.post("The pump holds 10 bar.")
    await bob.post("It does not.", "CRITIQUE", edges={"critiques": [second["id"]]})
    better = await alice.post("It holds 8.")
    done = await alice.do("debate", op="concede", id=second["id"], to=better["id"])
    assert (done["outcome"], done["gave_way_to"]) == ("amended", better["id"])
    assert f"INVALIDATED amended to {better['id']}" in await carol.say("query", status="INVALIDATED")
    said = (await carol.say("debate", op="status", id=second["id"])).splitlines()
    assert said[0] == f"{second['id']} is amended to {better['id']} of alice: conceded by alice"


@both
async def test_who_concedes_for_its_own_refutation_has_not_reworded_its_claim(board: Any, mode: str) -> None:
    alice, _, carol = await dispute(board)
    against = await alice.post("The pump holds nothing.", edges={"refutes": ["F-1"]})
    said = await alice.say("debate", op="concede", id="F-1", to=against["id"], reason="it leaks")
    assert said.startswith(
        f"F-1 gives way: conceded by alice in favour of {against['id']} of alice: it leaks"
    )
    assert "amended" not in await carol.say("read")


@both
async def test_who_concedes_for_anothers_claim_has_not_reworded_its_own(board: Any, mode: str) -> None:
    alice, bob, carol = await dispute(board)
    start = (await bob.do("query"))["seq"]
    rival = await bob.post("The pump holds 7 bar.")
    done = await alice.do("debate", op="concede", id="F-1", to=rival["id"], reason="bob measured it")
    assert (done["outcome"], done["gave_way_to"]) == ("falls", rival["id"])
    said = (await carol.say("debate", op="status", id="F-1")).splitlines()
    assert said[0] == f"F-1 gives way: conceded by alice in favour of {rival['id']} of bob: bob measured it"
    assert f"INVALIDATED (conceded in favour of {rival['id']}) by alice" in await carol.say(
        "query", status="INVALIDATED"
    )
    settled = next(line for line in (await carol.say("read")).splitlines() if line.startswith("F-1"))
    assert settled.startswith(
        f"F-1 by alice gives way, conceded by alice in favour of {rival['id']} of bob 0s"
    )
    item = await carol.item("F-1")
    assert (item["outcome"], item["gave_way_to"]) == ("falls", rival["id"])
    told = await carol.say("read", since=start)
    assert "amended" not in told
    closed = next(line for line in told.splitlines() if "debate.closed" in line)
    assert closed.endswith(f'gives way, conceded in favour of {rival["id"]} ("bob measured it")')


async def test_what_replaced_a_fallen_item_leads_on_to_what_replaced_that(board: Any) -> None:
    alice, bob, carol = await board.join("alice", "bob", "carol")
    await alice.post("9 bar", "HYPOTHESIS")
    await carol.post("No.", "CRITIQUE", edges={"critiques": ["H-1"]})
    await bob.post("8 bar", "HYPOTHESIS")
    await alice.do("debate", op="concede", id="H-1", to="H-3")
    await carol.post("No.", "CRITIQUE", edges={"critiques": ["H-3"]})
    await bob.do("debate", op="concede", id="H-3")
    told = "conceded in favour of H-3, which fell too"
    assert told in (await carol.say("read", ids=["H-1"])).splitlines()
    assert f"INVALIDATED ({told})" in await carol.say("query", status="INVALIDATED")
    await alice.post("10 bar", "HYPOTHESIS")
    await carol.post("No!", "CRITIQUE", edges={"critiques": ["H-5"]})
    await carol.post("7 bar, by two gauges", "HYPOTHESIS")
    await alice.do("debate", op="concede", id="H-5", to="H-7")
    await carol.post("6 bar, by three gauges", "HYPOTHESIS")
    await bob.post("No!", "CRITIQUE", edges={"critiques": ["H-7"]})
    await carol.do("debate", op="concede", id="H-7", to="H-8")
    said = (await bob.say("debate", op="status", id="H-5")).splitlines()
    told = "conceded by alice in favour of H-7 of carol, then replaced by H-8"
    assert said[0] == f"H-5 gives way: {told}"
    assert f"H-5 by alice gives way, {told} 0s" in await bob.say("read")


async def test_who_gives_way_to_a_twin_is_not_told_of_as_refuted(board: Any) -> None:
    ana, ben, cleo = await board.join("ana", "ben", "cleo")
    await cleo.say("read")
    await cleo.post("here")
    await ana.post("The locks did it.", "HYPOTHESIS")
    await ben.post("It was the locks of the migration.", "HYPOTHESIS")
    await ben.do("debate", op="concede", id="H-3", to="H-2", reason='ana was "first"')
    view = await cleo.say("read")
    assert "\nsettled: H-3 gives way, conceded in favour of H-2\n" in view
    assert "debates opened" not in view, "nobody but its author had a word"
    told = (await cleo.say("read", since=1)).splitlines()
    assert told[3:-1] == [
        "seq 6 debate.closed H-3 by ben: gives way, conceded in favour of H-2 (\"ana was 'first'\")"
    ]
    whole = (await cleo.say("read", ids=["H-3"])).splitlines()
    assert whole[0].endswith("INVALIDATED")
    assert whole[1] == "conceded in favour of H-2 (\"ana was 'first'\")"
    for text in (view, *told, *whole, await cleo.say("debate", op="status", id="H-3")):
        assert "CONSENSUS" not in text


async def test_the_reason_of_a_withdrawal_stands_in_its_news_and_with_the_item(board: Any) -> None:
    alice, bob, carol = await dispute(board)
    reason = "I took psi for bar.\nseq 9 · all is settled"
    await bob.do("debate", op="withdraw", id="C-2", reason=reason)
    told = 'WITHDRAWN ("I took psi for bar. > seq 9 · all is settled")'
    assert f"item.changed C-2 by bob: status ACTIVE → {told}\n" in await carol.say("read", since=1)
    assert f"\nwithdrawn by bob{told[9:]}\n" in await alice.say("read", ids=["C-2"])
    long = "The gauge of the second pump reads in psi. " * 5
    await bob.post("It leaks.", "CRITIQUE", edges={"critiques": ["F-1"]})
    await bob.do("debate", op="withdraw", id="C-3", reason=long)
    assert f'withdrawn by bob ("{long.strip()}")' in await alice.say("read", ids=["C-3"])
    await carol.post("It burst.", "CRITIQUE", edges={"critiques": ["F-1"]})
    await alice.do("debate", op="concede", id="F-1", reason="I see it, too. " * 40)
    line = (await bob.say("read", ids=["F-1"])).splitlines()[1]
    assert line.startswith('conceded by alice ("I see it, too. I see it')
    assert len(line) < 330


async def test_a_decision_names_what_replaces_a_claim_that_falls(board: Any) -> None:
    _, bob, carol = await dispute(board)
    rival = await carol.post("The pump holds 7 bar.")
    call = {"op": "decide", "id": "F-1", "outcome": "falls", "to": rival["id"], "reason": "measured"}
    await bob.do("debate", **call)
    said = await carol.say("debate", op="status", id="F-1")
    assert f"bob decides that F-1 falls, replaced by {rival['id']} of carol" in said
    done = await carol.do("debate", op="confirm", id="F-1", outcome="falls")
    assert (done["outcome"], done["gave_way_to"]) == ("falls", rival["id"])


@both
async def test_who_sees_the_mistake_first_concedes_before_anybody_criticised(board: Any, mode: str) -> None:
    alice, bob = await board.join("alice", "bob", mode=mode)
    guess = await alice.post("The valve stuck.", "HYPOTHESIS")
    foreign = await bob.fail("debate", op="concede", id=guess["id"])
    assert (foreign["error"], foreign["message"]) == (
        "conflict",
        f"No debate is open on {guess['id']}, and without one only alice, its author, gives it up. Nothing was "
        f'changed; you object with post(type="CRITIQUE", edges={{"critiques": ["{guess["id"]}"]}}, text="…").',
    )
    done = await alice.do("debate", op="concede", id=guess["id"], reason="The log has it open.")
    assert (done["state"], done["outcome"], done["closed_by"]) == ("CONSENSUS", "falls", "alice")
    fallen = await bob.fail("debate", op="concede", id=guess["id"])
    assert f"No debate is open on {guess['id']}. Nothing was changed" in fallen["message"]
    settled = next(line for line in (await bob.say("read")).splitlines() if line.startswith(guess["id"]))
    assert settled.startswith(f'{guess["id"]} by alice falls, conceded by alice 0s ("The log has it open.")')


@both
async def test_what_a_critic_decides_waits_in_sight_until_another_confirms_it(board: Any, mode: str) -> None:
    alice, bob, carol = await dispute(board)
    await carol.post("Mine burst as well.", "CRITIQUE", edges={"critiques": ["F-1"]})
    await bob.do("debate", op="decide", id="F-1", outcome="falls", reason="Two of them burst.")
    await carol.do("query")
    assert "F-1" in carol.footer
    said = (await carol.say("debate", op="status", id="F-1")).splitlines()
    assert said[1] == (
        'waits for another owner to confirm it: bob decides that F-1 falls: "Two of them burst."'
    )
    assert said[-2] == (
        'you owe: F-1 by alice: "The pump holds 9 bar."; bob decides that F-1 falls: "Two of them burst." → '
        'agree: debate(op="confirm", id="F-1", outcome="falls"); not so: post a CRITIQUE, or debate(op="decide", '
        'id="F-1", outcome="…", reason="…") otherwise'
    )
    assert 'debate(op="confirm", id="F-1", outcome="falls")' in await carol.say("read")
    assert (await alice.fail("debate", op="confirm", id="F-1"))["error"] == "refused"
    assert (await carol.fail("debate", op="confirm", id="F-1", outcome="stands"))["error"] == "conflict"
    done = await carol.do("debate", op="confirm", id="F-1", outcome="falls")
    assert (done["state"], done["outcome"], done["closed_by"], done["confirmed_by"]) == (
        *("DECIDED", "falls"),
        *("bob", "carol"),
    )
    said = (await alice.say("debate", op="status", id="F-1")).splitlines()
    assert said[0] == (
        "F-1 falls: debate DECIDED opened by bob, closed by bob, confirmed by carol: Two of them burst."
    )


async def test_what_a_critic_decides_is_offered_to_all_who_may_confirm_it(board: Any) -> None:
    alice, bob, carol = await dispute(board)
    await bob.do("debate", op="decide", id="F-1", outcome="falls", reason="It burst.")
    pending = 'another owner to confirm it: bob decides that F-1 falls: "It burst."'
    assert f'{pending} → debate(op="confirm", id="F-1", outcome="falls")' in await carol.say("read")
    for who in (alice, bob):
        view = await who.say("read")
        assert pending in view
        assert f"{pending} → debate" not in view
    told = 'debate.pending F-1 by bob: decides that it falls once another owner confirms it ("It burst.")'
    assert told in await carol.say("read", since=1)
    await carol.do("debate", op="vote", id="F-1", approve=False, reason="I saw it.")
    told = 'debate.voted F-1 by carol: votes that it falls (0 for, 1 against) ("I saw it.")'
    assert told in await alice.say("read", since=1)


@both
async def test_whom_a_decision_condemns_hears_of_it_before_it_is_confirmed(tmp_path: Path, mode: str) -> None:
    async with boards.open_boards(tmp_path, mode, deciders=("judge",)) as board_:
        ben, dora, eve, _judge = await board_.join("ben", "dora", "eve", "judge")
        await ben.post("The cache is cold.", "HYPOTHESIS")
        await dora.post("It is warm.", "CRITIQUE", edges={"critiques": ["H-1"]})
        await ben.say("read")
        await eve.do("debate", op="decide", id="H-1", outcome="falls", reason='It holds "nothing".')
        small = await ben.say("read", budget=(await ben.fail("read", budget=20))["needed"] + 30)
        assert "decides" not in small
        said = await ben.say("wait", seconds=0)
        assert "debate.pending H-1 by eve: decides that it falls once another owner confirms it" in said
        await eve.do("debate", op="decide", id="H-1", outcome="falls", reason='It holds "nothing" at all.')
        line = next(
            told for told in (await ben.say("read")).splitlines() if told.startswith("waits for you: ")
        )
        assert line == (
            "waits for you: answer C-2; judge: confirm or decide otherwise (eve decides that H-1 falls: "
            "\"It holds 'nothing' at all.\"); then dora: judge"
        )
        assert (await ben.say("wait", seconds=0)).startswith("no news")


async def test_reasons_of_agreement_are_kept_and_shown_whole(board: Any) -> None:
    alice, bob, carol = await dispute(board)
    await alice.post("Measured again.", "REPLY", edges={"replies_to": ["C-2"]})
    why = "The second run has the same curve, " + "and the same again, " * 20 + "to the end."
    await bob.do("debate", op="acknowledge", id="F-1", reason=why)
    said = (await carol.say("debate", op="status", id="F-1")).splitlines()
    assert said[0].startswith(
        "F-1 stands: debate CONSENSUS opened by bob, closed by bob: every critique was answered"
    )
    assert f'bob agreed: "{why}"' in said


@pytest.mark.parametrize(
    "attempt",
    [
        ("debate", {"op": "acknowledge", "id": "F-1"}),
        ("debate", {"op": "acknowledge", "id": "C-2"}),
        ("debate", {"op": "decide", "outcome": "stands", "id": "F-1", "reason": "I am right."}),
        ("debate", {"op": "withdraw", "id": "C-2"}),
        ("debate", {"op": "withdraw", "id": "F-1"}),
        ("debate", {"op": "open", "id": "F-1"}),
        ("debate", {"op": "watch", "id": "F-1"}),
        ("post", {"id": "F-1", "status": "RESOLVED"}),
        ("post", {"id": "F-1", "status": "ACTIVE"}),
        ("debate", {"op": "confirm", "id": "F-1"}),
        ("post", {"id": "C-2", "status": "WITHDRAWN"}),
        ("post", {"id": "C-2", "status": "RESOLVED"}),
        ("post", {"id": "C-2", "status": "INVALIDATED"}),
        ("post", {"text": "No.", "type": "REPLY", "edges": {"replies_to": ["C-2"]}}),
        ("post", {"text": "New.", "edges": {"supersedes": ["F-1"]}}),
        ("post", {"text": "Me too.", "type": "CRITIQUE", "edges": {"critiques": ["F-1"]}}),
    ],
)
async def test_the_author_under_criticism_never_closes_alone(
    board: Any, attempt: tuple[str, dict[str, Any]]
) -> None:
    alice, bob, _ = await dispute(board)
    tool, arguments = attempt
    for _ in range(2):
        await alice.call(tool, **arguments)
        await alice.call("debate", op="acknowledge", id="F-1")
        status = await bob.do("debate", op="status", id="F-1")
        assert status["state"] == "OPEN"
        waiting = {o["agent"] for o in status["obligations"] if o["state"] in ("watching", "outstanding")}
        assert "bob" in waiting
        assert (await bob.item("F-1"))["zone"] == "working"


async def test_a_critic_withdraws_and_the_debate_with_the_last_critique(board: Any) -> None:
    alice, bob, carol = await dispute(board)
    await carol.post("I doubt it too.", "CRITIQUE", edges={"critiques": ["F-1"]})
    assert (await alice.fail("debate", op="withdraw", id="F-1"))["error"] == "refused"
    first = await bob.do("debate", op="withdraw", id="C-2", reason="misread the gauge")
    assert (first["state"], owed(first)) == (
        "OPEN",
        {("alice", "C-3", "respond")},
    )
    last = await carol.do("debate", op="withdraw", id="F-1", reason="so did I")
    assert (last["state"], last["closed_by"]) == ("WITHDRAWN", "carol")
    assert "so did I" in last["reason"]
    assert (await alice.item("C-3"))["status"] == "WITHDRAWN"
    assert (await carol.fail("debate", op="withdraw", id="F-1"))["error"] == "conflict"


async def test_a_decider_who_is_no_party_decides_with_a_reason(board: Any) -> None:
    alice, bob, carol = await dispute(board)
    failure = await alice.fail("debate", op="decide", outcome="stands", id="F-1", reason="mine")
    assert (failure["error"], 'op="concede"' in failure["message"]) == ("refused", True)
    failure = await carol.fail("debate", op="decide", id="F-1", reason="so")
    for words in (
        'outcome="stands"',
        'outcome="falls"',
        'outcome="amended" with to="…"',
        "what becomes of F-1",
    ):
        assert words in failure["message"]
    for reason in ({}, {"reason": "  "}):
        failure = await carol.fail("debate", op="decide", outcome="stands", id="F-1", **reason)
        assert (failure["error"], "needs a reason" in failure["message"]) == ("invalid", True)
    done = await carol.do(
        "debate", op="decide", outcome="stands", id="F-1", reason="The gauge was calibrated."
    )
    assert (done["state"], done["outcome"], done["closed_by"], done["reason"]) == (
        *("DECIDED", "stands", "carol"),
        "The gauge was calibrated.",
    )
    assert {o["state"] for o in done["obligations"]} == {"waived"}
    assert "closed by carol: The gauge was calibrated." in await bob.say("debate", op="status", id="F-1")
    waived = [e for e in (await bob.do("read", since=0))["events"] if e["event"] == "obligation.waived"]
    assert {e["data"]["watcher"] for e in waived} == {"alice", "bob"}
    assert all(e["data"]["reason"] == "debate DECIDED" for e in waived)
    assert (await carol.fail("debate", op="decide", outcome="stands", id="F-1", reason="again"))[
        "error"
    ] == "conflict"


async def test_named_deciders_decide_and_nobody_else(tmp_path: Path, mode: str) -> None:
    async with boards.open_boards(tmp_path, mode, deciders=("judge", "alice")) as board_:
        alice, bob, carol = await dispute(board_)
        judge = await board_.join("judge")
        waits = await carol.do("debate", op="decide", outcome="falls", id="F-1", reason="x")
        assert (waits["state"], [d["agent"] for d in waits["decisions"]]) == ("OPEN", ["carol"])
        assert ("judge", "F-1", "confirm") in owed(waits)
        failure = await bob.fail("debate", op="confirm", id="F-1")
        assert (failure["error"], "judge, alice" in failure["message"]) == ("refused", True)
        assert (await alice.fail("debate", op="decide", outcome="stands", id="F-1", reason="x"))[
            "error"
        ] == "refused"
        assert (await judge.do("debate", op="decide", outcome="stands", id="C-2", reason="x"))[
            "state"
        ] == "DECIDED"


async def test_a_decision_by_who_is_no_decider_says_so_wherever_it_is_shown(
    tmp_path: Path, mode: str
) -> None:
    async with boards.open_boards(tmp_path, mode, deciders=("cara",)) as board_:
        cara, bob, dora = await board_.join("cara", "bob", "dora")
        await cara.post("We sail at noon.", "DECISION")
        bobs = await bob.post("We sail at ten.", "DECISION")
        assert (await dora.item("D-2"))["undecided"] is True
        assert "bob is no decider" in (await dora.say("read", ids=["D-2"])).splitlines()
        lines = (await dora.say("query", type="DECISION")).splitlines()
        (of_bob,) = [line for line in lines if line.startswith(bobs["id"])]
        assert "by bob (no decider)" in of_bob
        assert "cara (no decider)" not in "\n".join(lines)
        assert (await dora.say("read")).count("by no decider") == 1
        await bob.do("transaction", writes=[{"text": "We go at six.", "type": "DECISION"}])
        assert (await dora.item("D-3"))["undecided"] is True


async def test_whom_the_board_made_decider_decides_where_others_are_named(tmp_path: Path, mode: str) -> None:
    async with boards.open_boards(tmp_path, mode, deciders=("cara",)) as board_:
        cara, bob, eve = await board_.join("cara", "bob", "eve")
        await cara.do("board", members={"bob": "decider", "eve": "contributor"})
        await bob.post("We sail at ten.", "DECISION")
        await eve.post("We sail at six.", "DECISION")
        assert "no decider" not in await cara.say("read", ids=["D-1"])
        assert "eve is no decider" in await cara.say("read", ids=["D-2"])


async def test_a_final_debate_stays_final_and_a_new_critique_opens_a_new_one(board: Any) -> None:
    _, bob, carol = await dispute(board)
    await carol.do("debate", op="decide", outcome="stands", id="F-1", reason="enough")
    await carol.post("New evidence.", "CRITIQUE", edges={"critiques": ["F-1"]})
    status = await bob.do("debate", op="status", id="F-1")
    assert (status["state"], status["critiques"], status["opened_by"]) == ("OPEN", ["C-3"], "carol")
    assert (await bob.item("C-2"))["debate"] == "DECIDED"


async def test_a_debate_is_opened_by_request_with_watchers(board: Any) -> None:
    alice, bob, carol = await board.join("alice", "bob", "carol")
    await alice.post("plan", "PLAN")
    opened = await alice.do("debate", op="open", id="P-1", watchers=["bob", "carol"])
    assert (opened["state"], opened["critiques"]) == ("OPEN", [])
    assert owed(opened) == {("bob", "P-1", "acknowledge"), ("carol", "P-1", "acknowledge")}
    await bob.do("query")
    assert bob.footer.endswith("you owe: acknowledge or criticise P-1")
    view = await bob.say("read")
    assert 'debate(op="acknowledge", id="P-1")' in view
    await bob.do("debate", op="acknowledge", id="P-1")
    assert (await carol.do("debate", op="acknowledge", id="1"))["state"] == "CONSENSUS"
    assert (await alice.item("P-1"))["status"] == "ACTIVE"
    assert (await alice.fail("debate", op="open", id="P-1", watchers=["not a name"]))["error"] == "invalid"
    assert (await alice.fail("debate", op="open", id="P-1", watchers=["system"]))["error"] == "invalid"


async def test_what_is_watched_stays_until_it_is_acknowledged(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("x", ttl_seconds=1)
    text = await bob.say("debate", op="watch", id="F-1")
    assert (
        text.splitlines()[0]
        == 'you watch F-1: it stays on the board until you debate(op="acknowledge", id="F-1")'
    )
    before = await board.seq()
    await bob.do("debate", op="watch", id="F-1")
    assert await board.seq() == before, "watching twice is once"
    board.clock.advance(5)
    assert await board.opened.store.expire() == []
    answer = await bob.do("debate", op="acknowledge", id="F-1")
    assert (answer["item"], answer["state"]) == ("F-1", None)
    assert await board.opened.store.expire() == ["main"]
    await bob.do("debate", op="watch", id="F-1")
    assert (await alice.item("F-1"))["zone"] == "working", "watching brings it back"


async def test_an_item_that_was_never_debated_says_so(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("x")
    answer = await bob.do("debate", op="status", id="F-1")
    assert (answer["state"], answer["root"], answer["obligations"]) == (None, None, [])
    assert await bob.say("debate", op="status", id="F-1") == (
        "F-1 was never debated: a CRITIQUE objects, an item with edges supports backs it\nseq 2 · 1 unseen"
    )
    for op in ("acknowledge", "concede", "withdraw", "decide", "confirm"):
        more = {"outcome": "stands"} if op == "decide" else {}
        failure = await bob.fail("debate", op=op, id="F-1", reason="because", **more)
        assert failure["error"] in ("conflict", "refused"), (op, failure)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"op": "close", "id": "F-1"}, "'acknowledge'"),
        ({"id": "F-1"}, "op is missing"),
        ({"op": "status"}, "id is missing"),
        ({"op": "status", "id": "x"}, "Ids look like"),
        ({"op": "status", "id": "F-9"}, "No item 9"),
        ({"op": "status", "id": "F-1", "board": "nowhere"}, "no board 'nowhere'"),
        ({"op": "open", "id": "F-1", "watchers": ["a"] * 33}, "32"),
        ({"op": "decide", "outcome": "stands", "id": "F-1", "reason": "x" * 2_001}, "2000"),
        ({"op": "decide", "outcome": "open", "id": "F-1", "reason": "x"}, "'amended'"),
        (
            {"op": "acknowledge", "outcome": "stands", "id": "F-1"},
            'outcome goes with op="decide" or op="confirm"',
        ),
        ({"op": "withdraw", "to": "F-1", "id": "F-1"}, 'to goes with op="concede" or op="decide"'),
    ],
)
async def test_wrong_words_to_debate_are_refused(board: Any, arguments: dict[str, Any], words: str) -> None:
    alice = await board.join("alice")
    await alice.post("x")
    before = await board.seq()
    assert words in (await alice.fail("debate", **arguments))["message"]
    assert await board.seq() == before


async def test_an_own_critique_opens_no_debate(board: Any) -> None:
    alice = await board.join("alice")
    await alice.post("x")
    critique = await alice.post("I was wrong.", "CRITIQUE", edges={"critiques": ["F-1"]})
    assert critique["debate"] is None
    assert (await alice.item("F-1"))["status"] == "ACTIVE"


async def test_status_says_when_those_who_are_awaited_were_last_seen(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("the pump leaks")
    await bob.post("it does not", "CRITIQUE", edges={"critiques": ["F-1"]})
    board.clock.advance(180)
    text = await bob.say("debate", op="status", id="F-1")
    assert "last seen: alice 3m, bob 0s\n" in text
    assert (await bob.do("debate", op="status", id="F-1"))["last_seen"].keys() == {"alice", "bob"}
    await alice.do("debate", op="concede", id="F-1", reason="so it is")
    assert "last seen" not in await bob.say("debate", op="status", id="F-1")
    await alice.do("post", text="use it", type="DECISION", agree=["bob", "cleo"])
    assert "last seen: bob 0s, cleo never\n" in await alice.say("debate", op="status", id="D-3")
    board.clock.advance(240)
    text = await alice.say("debate", op="status", id="D-3")
    assert (
        "last seen: bob 4m, cleo never; who is away for 15m while others are here is waited for no more"
    ) in text


async def test_a_critique_withdrawn_by_its_status_names_the_debate_on_what_it_criticises(board: Any) -> None:
    alice, bob, carol = await board.join("alice", "bob", "carol")
    await alice.post("the pump leaks")
    for agent, why in ((bob, "it is dry"), (carol, "it was sold")):
        await agent.post(why, "CRITIQUE", edges={"critiques": ["F-1"]})
    goes_on = await bob.say("post", id="C-2", status="WITHDRAWN")
    assert goes_on.splitlines()[0] == "C-2 WITHDRAWN; the debate on F-1 goes on"
    over = await carol.say("post", id="C-3", status="WITHDRAWN")
    assert over.splitlines()[0] == "C-3 WITHDRAWN; the debate on F-1 is over"
    await alice.post("the valve sticks")
    for about in (["F-1", "F-4"], ["F-1"]):
        await bob.post(f"no, not {about}", "CRITIQUE", edges={"critiques": about})
    several = await bob.say("post", id="C-5", status="WITHDRAWN")
    assert several.splitlines()[0] == (
        'C-5 WITHDRAWN; how the debates on F-1, F-4 stand: debate(op="status", id="F-1")'
    )


async def test_a_withdrawal_says_what_was_withdrawn_and_what_became_of_the_debate(board: Any) -> None:
    alice, bob, carol = await board.join("alice", "bob", "carol")
    await alice.post("the pump leaks")
    for agent, why in ((bob, "it is dry"), (bob, "it is off"), (carol, "it was sold")):
        await agent.post(why, "CRITIQUE", edges={"critiques": ["F-1"]})
    one = (await bob.say("debate", op="withdraw", id="C-2")).splitlines()
    assert (
        one[0]
        == "withdrawn: C-2, your critique of F-1; the debate on F-1 goes on over C-3 by bob, C-4 by carol"
    )
    two = (await bob.say("debate", op="withdraw", id="F-1")).splitlines()
    assert two[0] == "withdrawn: C-2, C-3, your critiques of F-1; the debate on F-1 goes on over C-4 by carol"
    last = (await carol.say("debate", op="withdraw", id="C-4", reason="misread")).splitlines()
    assert last[0] == "withdrawn: C-4, your critique of F-1; that ends the debate: F-1 stands"


async def test_a_critique_that_came_too_late_asks_for_nothing_and_can_be_taken_back(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("The valve stuck.", "HYPOTHESIS")
    await alice.do("debate", op="concede", id="H-1", reason="The log has it open.")
    text = await bob.say("post", type="CRITIQUE", text="It was open.", edges={"critiques": ["H-1"]})
    assert (
        "H-1 by alice is INVALIDATED already: C-2 stays but opens no debate, and nothing more is needed"
        in text
    )
    heard = await alice.say("wait", seconds=0)
    assert "item.posted C-2 by bob critiques H-1 (H-1 stands no more): It was open." in heard
    assert "\nsettled (no debate is open):\nH-1 by you falls" in await alice.say("read")
    await bob.post("The pump leaks.")
    await alice.post("It does not.", "CRITIQUE", edges={"critiques": ["F-3"]})
    assert "\nsettled:\nH-1 by you falls" in await alice.say("read")
    text = await bob.say("debate", op="withdraw", id="C-2")
    assert text.splitlines()[0] == "C-2 WITHDRAWN; no debate was open on it"


async def test_a_view_says_of_each_critique_what_answers_it(board: Any) -> None:
    alice, bob, carol = await dispute(board)

    async def told(id_: str) -> str:
        view = (await carol.say("read")).splitlines()
        return next(line for line in view if line.startswith(f"{id_} "))

    await bob.post("It leaks.", "CRITIQUE", edges={"critiques": ["F-1"]})
    assert await told("C-2") == "C-2 by bob 0s, not answered yet: It burst at 8."
    await alice.post("Measured again: 9.", "REPLY", edges={"replies_to": ["C-2"]})
    await bob.do("debate", op="withdraw", id="C-3")
    assert await told("C-2") == "C-2 by bob 0s, answered by R-4: It burst at 8."
    assert await told("C-3") == "C-3 by bob 0s, withdrawn: It leaks."
    await bob.do("debate", op="acknowledge", id="F-1")
    assert await told("C-2") == "C-2 by bob 0s against F-1, answered by R-4: It burst at 8."


async def test_news_tell_in_words_how_a_debate_ended(board: Any) -> None:
    alice, bob, carol = await dispute(board)
    await bob.do("debate", op="withdraw", id="C-2", reason="I erred.")
    await bob.post("It hums.", "CRITIQUE", edges={"critiques": ["F-1"]})
    await alice.post("It always did.", "REPLY", edges={"replies_to": ["C-3"]})
    await bob.do("debate", op="acknowledge", id="F-1")
    await bob.post("It leaks.", "CRITIQUE", edges={"critiques": ["F-1"]})
    await bob.do("debate", op="decide", id="F-1", outcome="falls", reason="Measured.")
    await carol.do("debate", op="confirm", id="F-1")
    told = [line for line in (await alice.say("read", since=1)).splitlines() if "debate.closed" in line]
    assert [line.split("F-1 by ")[1] for line in told] == [
        'bob: stands, the objections were withdrawn ("C-2 withdrawn: I erred.")',
        'bob: stands, by consensus ("every critique was answered; agreed: bob")',
        'carol: falls, decided by bob, confirmed ("Measured.")',
    ]


async def test_a_view_leads_on_from_what_fell_and_quotes_what_a_decision_replaced(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    claim = await ada.post("The clock drifts.", "HYPOTHESIS")
    critique = await ben.post(
        "Rows have the database's time.", "CRITIQUE", edges={"critiques": [claim["id"]]}
    )
    why = await ada.post("Right: two coupons do it.", "REPLY", edges={"replies_to": [critique["id"]]})
    await ada.do("debate", op="concede", id=claim["id"])
    first = await ada.post("Search moves to the new index: rebuilds take 7 hours.", "DECISION")
    second = await ada.post("Pilots stay; the rest moves.", "DECISION", edges={"supersedes": [first["id"]]})
    assert (await ada.item(first["id"]))["zone"] == "archive"
    lines = (await ben.say("read")).splitlines()
    assert f"{claim['id']} by ada falls, conceded by ada 0s, see {why['id']}: The clock drifts." in lines
    replaced = f'replaces {first["id"]} ("Search moves to the new index: rebuilds take 7 hours.")'
    assert f"{second['id']} by ada 0s, {replaced}: Pilots stay; the rest moves." in lines
    words = "The cause is the new connection pool, too small for"
    old = await ada.post(f"{words} the mail's load.", "DECISION", agree=["ben"])
    new = await ada.post(f"{words} 2,000 orders.", "DECISION", edges={"supersedes": [old["id"]]})
    # What rewords the former text needs no quotation of it.
    assert f"{new['id']} by ada 0s, replaces {old['id']}: {words} 2,000 orders." in await ben.say("read")
    told = await ada.say("debate", op="status", id=old["id"])
    assert told.splitlines()[0] == f"{old['id']}: agreed: nobody yet; superseded by {new['id']}"


async def test_who_need_not_judge_any_more_is_told_so_in_nobodys_name(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    claim = await ada.post("The clock drifts.", "HYPOTHESIS")
    await ben.post("It does not.", "CRITIQUE", edges={"critiques": [claim["id"]]})
    await ada.do("debate", op="concede", id=claim["id"])
    told = (await ben.say("wait", seconds=0)).splitlines()
    said = f"obligation.waived {claim['id']}: ben need not judge it any more (its debate is over)"
    assert any(line.endswith(said) for line in told)


async def test_who_gives_way_to_what_gave_way_is_told_where_it_went(board: Any) -> None:
    ada, ben, cleo = await board.join("ada", "ben", "cleo")
    one = (await ada.post("The pool is too small.", "HYPOTHESIS"))["id"]
    two = (await ben.post("It is the pool's size.", "HYPOTHESIS"))["id"]
    three = (await cleo.post("400 sockets do not suffice.", "HYPOTHESIS"))["id"]
    await ben.do("debate", op="concede", id=two, to=one)
    told = await cleo.fail("debate", op="concede", id=three, to=two)
    assert told["message"].startswith(
        f"{three} cannot give way to {two}, which gave way to {one} itself. Nothing"
    )
    told = await ada.fail("debate", op="concede", id=one, to=two)
    assert told["message"].startswith(
        f"{two} gave way to {one} already, so {one} stands. Nothing was changed"
    )
    assert (await ada.item(one))["status"] == "ACTIVE"


async def against_a_critique(boards_: Any) -> tuple[Any, Any, Any]:
    """Ana's H-1, criticised by Ben in C-2, which Cleo criticises in C-3."""
    ana, ben, cleo = await boards_.join("ana", "ben", "cleo")
    await ana.post("Deploy 812 is the cause.", "HYPOTHESIS")
    await ben.post("p95 of cart is flat.", "CRITIQUE", edges={"critiques": ["H-1"]})
    text = "That graph is of the wrong pods."
    said = await cleo.say("post", type="CRITIQUE", text=text, edges={"critiques": ["C-2"]})
    assert (
        said.splitlines()[0]
        == "C-3 → joins the debate on H-1: C-2's author answers, then you judge the answer"
    )
    return ana, ben, cleo


@both
async def test_a_critique_of_a_critique_names_the_calls_that_its_author_can_make(
    board: Any, mode: str
) -> None:
    _, ben, _ = await against_a_critique(board)
    line = (
        'C-3 by cleo criticises your C-2: "That graph is of the wrong pods." → answer: post(type="REPLY", '
        'edges={"replies_to": ["C-3"]}, text="…"); it is right: debate(op="withdraw", id="C-2")'
    )
    assert line in await ben.say("read")
    assert f"you owe: {line}" in await ben.say("debate", op="status", id="H-1")
    said = await ben.say("debate", op="withdraw", id="C-2")
    assert said.splitlines()[0] == ("withdrawn: C-2, your critique of H-1; that ends the debate: H-1 stands")
    assert "you owe" not in ben.footer
    assert "waits for you" not in await ben.say("read")


@both
async def test_who_is_content_with_the_answer_for_a_critique_withdraws_its_own(board: Any, mode: str) -> None:
    ana, ben, cleo = await against_a_critique(board)
    await ana.post("All pods.", "REPLY", edges={"replies_to": ["C-2"]})
    await ben.post("No, of all pods.", "REPLY", edges={"replies_to": ["C-3"]})
    line = (
        'R-5 by ben answers your C-3: "No, of all pods." → satisfied: debate(op="withdraw", id="C-3"); '
        "not satisfied: post another CRITIQUE"
    )
    assert line in await cleo.say("read")
    assert f"you owe: {line}" in await cleo.say("debate", op="status", id="H-1")
    said = await cleo.say("debate", op="withdraw", id="C-3")
    assert said.splitlines()[0] == (
        "withdrawn: C-3, your critique of C-2; the debate on H-1 goes on over C-2 by ben"
    )
    assert "you owe" not in cleo.footer


@both
async def test_a_critique_whose_target_is_withdrawn_is_answered_by_that(board: Any, mode: str) -> None:
    ana, ben, cleo = await against_a_critique(board)
    dan = await board.join("dan")
    await dan.post("Nor do I.", "CRITIQUE", edges={"critiques": ["H-1"]})
    await ben.do("debate", op="withdraw", id="C-2")
    await ana.post("Look again.", "REPLY", edges={"replies_to": ["C-4"]})
    said = await cleo.say("read")
    assert (
        'C-2 by ben, which your C-3 criticises, is withdrawn → satisfied: debate(op="withdraw", id="C-3")'
        in said
    )
    status = await ana.say("debate", op="status", id="H-1")
    assert "C-3 by cleo (of C-2, which was withdrawn)" in status


async def test_an_unknown_operation_is_told_all_that_the_schema_has(board: Any) -> None:
    alice = await board.join("alice")
    await alice.post("x")
    said = (await alice.fail("debate", op="foo", id="F-1"))["message"]
    assert "op must be one of 'agree', 'open', 'acknowledge'" in said
    assert "'status', not \"foo\"" in said
    said = (await alice.fail("transaction", debates=[{"op": "foo", "id": "F-1"}]))["message"]
    assert "op must be one of 'agree', 'open', 'acknowledge'" in said
    assert "'status'" not in said


async def test_who_may_decide_is_named_to_those_who_may_and_those_who_may_not(
    tmp_path: Path, mode: str
) -> None:
    call = 'debate(op="decide", id="F-1", outcome="stands|falls|amended", reason="…")'
    async with boards.open_boards(tmp_path, mode, deciders=("judge",)) as board_:
        alice, bob, carol = await dispute(board_)
        dan, judge = await board_.join("dan", "judge")
        for agent in (carol, dan):
            await agent.do("debate", op="decide", id="F-1", outcome="falls", reason="It burst.")
        said = await bob.say("debate", op="status", id="F-1")
        assert "waits for judge to confirm it: carol decides that F-1 falls" in said
        assert "another owner" not in said
        assert f"or decided by judge: {call}; what others decide waits until judge confirms it; or" in said
        said = await judge.say("debate", op="status", id="F-1")
        assert f"or decided by you: {call}; or conceded" in said
        for shown in (said, await judge.say("read")):
            assert shown.count('debate(op="confirm", id="F-1", outcome="falls")') == 1
        said = await alice.say("debate", op="status", id="F-1")
        assert "or decided by judge; or conceded by alice" in said
        assert call not in said


async def test_an_author_is_told_no_decision_that_it_may_not_make(board: Any) -> None:
    alice, bob, _ = await dispute(board)
    await alice.post("It held.", "REPLY", edges={"replies_to": ["C-2"]})
    await bob.do("debate", op="unwatch", id="F-1")
    assert "waits for nobody by name: debate(op=" in await bob.say("read")
    view = await alice.say("read")
    assert 'waits for others to decide it; to give it up: debate(op="concede", id="F-1", reason="…")' in view
    said = await alice.say("debate", op="status", id="F-1")
    assert "or decided by others; or conceded by alice" in said
    assert 'debate(op="decide"' not in said + view


async def test_who_owed_a_judgement_of_a_debate_that_is_over_is_told_so(board: Any) -> None:
    ana, ben = await board.join("ana", "ben")
    await ana.post("Nine hours.", "HYPOTHESIS")
    await ben.post("Backups take half the line.", "CRITIQUE", edges={"critiques": ["H-1"]})
    await ana.post("True.", "REPLY", edges={"replies_to": ["C-2"]})
    await ana.do("debate", op="concede", id="H-1")
    failure = await ben.fail("debate", op="acknowledge", id="H-1")
    assert failure["message"] == (
        "You owe nothing to H-1 any more: its debate is over. Nothing was changed; "
        'debate(op="status", id="H-1") says how it ended.'
    )
