"""What the answer to a post remarks: repetitions, critiques that stand, what fell, claims on others' items."""

from __future__ import annotations

from typing import Any

import boards
import pytest

board, mode, both = boards.board, boards.mode, boards.both


def remarks(answer: Any) -> list[tuple[str, str, list[str]]]:
    return [(remark["id"], remark["kind"], remark["about"]) for remark in answer["remarks"]]


@both
async def test_the_same_post_again_is_not_stored_and_the_answer_says_so(board: Any, mode: str) -> None:
    ada = await board.join("ada")
    await ada.post("The pool is exhausted.", tags=["db"])
    text = await ada.say("post", text="The pool is exhausted.", tags=["db", "late"])
    assert text.splitlines()[0] == (
        'same as F-1: you posted it before, nothing stored; its tags stay as they are, post(id="F-1", …) changes them'
    )
    answer = await ada.do("post", text="The pool is exhausted.")
    assert remarks(answer) == [("F-1", "same", ["F-1"])]
    assert (answer["items"][0]["tags"], answer["endorsed"]) == (["db"], [])
    assert [item["id"] for item in (await ada.do("query"))["items"]] == ["F-1"]


async def test_twenty_equal_posts_of_one_call_make_one_item(board: Any) -> None:
    ada = await board.join("ada")
    text = await ada.say("post", items=[{"text": "All included: 39,000", "importance": 5}] * 20)
    assert text.splitlines()[:2] == ["F-1", "same as F-1 (19 times): you posted it before, nothing stored"]


async def test_posts_of_one_call_that_nearly_repeat_each_other_are_pointed_out(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    noise = [{"text": f"All is included in the price: 39,00{n}"} for n in range(9)]
    answer = await ada.do(
        "post", items=[*noise, {"text": "The hotel has a pool"}, {"text": "Trains run hourly"}]
    )
    near = [remark for remark in answer["remarks"] if remark["kind"] == "near"]
    assert [(remark["id"], len(remark["about"])) for remark in near] == [("F-1", 8)]
    text = await ben.say("post", items=[{"text": f"No: item {n} says that it is not"} for n in range(4)])
    assert (
        "4 of 4 nearly repeat each other: F-12, F-13, F-14, F-15; one item with all of it reads better"
        in text
    )
    assert "nearly" not in await ben.say(
        "post", items=[{"text": "Rome has seven hills"}, {"text": "Athens has one"}, {"text": "It rains"}]
    )


async def test_a_critique_is_told_who_criticised_before_and_how_to_take_it_back(board: Any) -> None:
    ada, ben, cleo = await board.join("ada", "ben", "cleo")
    claim = await ada.post("The cache is stale", "HYPOTHESIS")
    edges = {"critiques": [claim["id"]]}
    first = await ben.say("post", type="CRITIQUE", text="The trace\nsays otherwise", edges=edges)
    assert "already" not in first
    text = await cleo.say("post", type="CRITIQUE", text="No evidence", edges=edges)
    assert text.splitlines()[1:3] == [
        'already criticised, if C-3 adds nothing: debate(op="withdraw", id="C-3")',
        "C-2 by ben: The trace says otherwise",
    ]


async def test_what_comes_close_to_what_fell_is_named_with_its_text(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    wrong = await ada.post("The outage was caused by\nthe connection pool", "HYPOTHESIS")
    critique = {"type": "CRITIQUE", "text": "It is idle", "edges": {"critiques": [wrong["id"]]}}
    await ben.do("post", **critique)
    await ada.do("debate", op="concede", id=wrong["id"], reason="so it is")
    text = await ben.say("post", text="Connection pools cause the outage")
    assert text.splitlines()[1:3] == [
        "F-3 comes close to H-1, which is INVALIDATED after C-2: say what is new, or "
        'post(id="F-3", status="WITHDRAWN")',
        "H-1 by ada: The outage was caused by the connection pool",
    ]


async def test_what_fell_or_differs_in_numbers_is_named(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    wrong = await ada.post("The port is 5432")
    text = await ben.say("post", text="The port is 5433")
    assert text.splitlines()[1] == "F-2 differs in numbers only from F-1 by ada: The port is 5432"
    text = await ada.say("post", text="The port is 5434")
    assert text.splitlines()[1] == ("F-3 differs in numbers only from F-2 by ben: The port is 5433")
    text = await ben.say("post", text="The port is not 5434")
    assert text.splitlines()[1] == (
        'F-4 denies this (is it wrong? post(id="F-4", edges={"refutes": ["F-3"]})): F-3 by ada: The port is 5434'
    )
    assert "F-5 d" not in await ada.say("post", text="The port isn't 5434")
    await ada.post(id=wrong["id"], status="INVALIDATED")
    text = await ben.say("post", text="the port is 5432.")
    assert text.splitlines()[1] == (
        'F-6 repeats F-1 by ada, which is INVALIDATED: say what is new, or post(id="F-6", status="WITHDRAWN")'
    )


async def test_a_newer_number_of_ones_own_comes_with_the_call_that_supersedes_the_older(board: Any) -> None:
    ada = await board.join("ada")
    await ada.post("The port is 5432")
    text = await ada.say("post", text="The port is 5433")
    assert text.splitlines()[1] == (
        'F-2 differs in numbers only (newer? post(id="F-2", edges={"supersedes": ["F-1"]})) from F-1 by you: '
        "The port is 5432"
    )


async def test_who_refutes_what_is_debated_is_told_of_no_further_debate(board: Any) -> None:
    ada, ben, cleo = await board.join("ada", "ben", "cleo")
    await ada.post("All included: 39,000")
    await cleo.post("No tax in it.", "CRITIQUE", edges={"critiques": ["F-1"]})
    text = await ben.say("post", text="Without tax: 31,000", edges={"refutes": ["F-1"]})
    told = "F-3 refutes F-1 by ada: your claim, shown there; it changes nothing until the author or a debate agrees"
    assert told in text.splitlines()


async def test_a_claim_is_told_as_one_and_shown_where_its_item_is(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("All included: 39,000", importance=5)
    text = await ben.say("post", text="Without tax: 31,000", edges={"supersedes": ["F-1"]})
    assert text.splitlines()[1] == (
        "F-2 supersedes F-1 by ada: your claim, shown there; it changes nothing until the author or a debate agrees; "
        'to open one: post(type="CRITIQUE", edges={"critiques": ["F-1"]}, text="…")'
    )
    assert "F-1 fact by ada 0s !5 ⚠ F-2 by ben claims to supersede it: All" in await ada.say("query")
    view = await ada.say("read")
    assert "F-1 by you 0s, F-2 claims to replace it: All included" in view
    assert "F-2 by ben 0s, claims to replace F-1: Without tax" in view
    whole = await ada.say("read", ids=["F-1"])
    assert (
        '⚠ F-2 by ben claims to supersede it; ada has not agreed, and would by post(edges={"supports": ["F-2"]})'
        in whole.splitlines()
    )
    (item,) = (await ada.do("read", ids=["F-1"]))["items"]
    assert item["contested"] == [{"kind": "supersedes", "by": "F-2", "author": "ben", "agreed": False}]
    assert item["superseded_by"] is None
    await ada.post("Right.", "REPLY", edges={"supports": ["F-2"]})
    (item,) = (await ben.do("read", ids=["F-1"]))["items"]
    assert (item["superseded_by"], item["zone"]) == ("F-2", "archive")
    assert "F-1 fact (superseded by F-2) archived by ada" in await ben.say("query", zone="archive")


async def test_an_agreed_refutation_falls_and_shows_in_what_cites_it(board: Any) -> None:
    ada, ben, eve = await board.join("ada", "ben", "eve")
    await ada.post("The disk is full")
    await ben.post("df says 40 %", edges={"refutes": ["F-1"]})
    assert "F-1 fact by ada 0s !4 −1 ⚠ F-2 by ben disputes it: The" in await eve.say("query")
    assert "F-1 by ada 0s disputed by F-2: The disk" in await eve.say("read")
    await ada.post("I misread it", "REPLY", edges={"supports": ["F-2"]})
    await eve.post("Delete the logs", "PLAN", edges={"derived_from": ["F-1"]})
    shown = await eve.say("query")
    assert "F-1 fact INVALIDATED (refuted by F-2) by ada" in shown
    assert "(derived_from F-1 (F-1 stands no more))" in shown
    assert "from F-1 (F-1 stands no more)" in await ada.say("read")


async def test_a_decision_says_which_entry_was_written_after_it_and_which_its_author_had_not_seen(
    board: Any,
) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("ada 3", key="costs")
    await ada.say("read")
    await ben.post("ada 3,\nben 4", key="costs", expected_version=1)
    said = await ada.say("post", type="DECISION", text="We pay 3", edges={"depends_on": ["F-1"]})
    assert "not shown to you yet: F-1@2 by ben: ada 3, ben 4" in said
    await ada.say("read")
    board.clock.advance(1)
    await ben.post("ada 3,\nben 4,\ncarl 5", key="costs", expected_version=2)
    assert "D-2 by you 1s needs F-1 (F-1@3 is newer): We pay 3" in await ada.say("read")
    assert "depends_on F-1 (F-1@3 is newer)" in await ben.say("read", ids=["D-2"])
    (item,) = (await ben.do("read", ids=["D-2"]))["items"]
    assert item["newer"] == ["F-1@3"]
    board.clock.advance(1)
    later = await ben.say("post", type="DECISION", text="We pay 12", edges={"depends_on": ["F-1"]})
    assert "not shown to you yet: F-1" not in later
    assert "newer" not in await ada.say("read", ids=["D-3"])


async def test_a_version_that_was_not_shown_stands_under_its_writer(board: Any) -> None:
    ada, ben, carl = await board.join("ada", "ben", "carl")
    await ada.post("ada 3", key="costs")
    await ada.say("read")
    await ben.post("ada 3, ben 4", key="costs", expected_version=1)
    await carl.post("But why?", type="CRITIQUE", edges={"critiques": ["F-1"]})
    said = await ada.say("post", type="DECISION", text="We pay 3", edges={"depends_on": ["F-1"]})
    assert "not shown to you yet: F-1@2 by ben: ada 3, ben 4" in said


async def test_newer_measurements_of_one_author_say_how_many_they_follow(board: Any) -> None:
    ada = await board.join("ada")
    await ada.post("queue 10")
    await ada.post("queue 12", edges={"supersedes": ["F-1"]})
    text = await ada.say("post", text="queue 9", edges={"supersedes": ["F-2"]})
    assert text.splitlines()[0] == "F-3"
    assert "F-3 fact (newest of 3) by ada" in await ada.say("query")


async def test_a_suggestion_is_taken_over_in_one_call(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("1 count 2 verify", "PLAN")
    await ben.post("Read the history first", "REPLY", edges={"replies_to": ["P-1"]})
    assert (await ada.item("P-1"))["debate"] is None
    await ada.post("1 read 2 count 3 verify", "PLAN", edges={"supersedes": ["P-1"], "derived_from": ["R-2"]})
    assert "R-2 reply (adopted in P-3) by ben" in await ben.say("query")
    assert "R-2 by ben 0s on P-1, adopted in P-3: Read the history" in await ada.say("read")
    assert (await ben.item("R-2"))["adopted_in"] == "P-3"


async def test_a_critique_of_what_fell_opens_no_debate_and_is_told_so(board: Any) -> None:
    ada, ben, cleo = await board.join("ada", "ben", "cleo")
    claim = await ada.post("It is the pool.", "HYPOTHESIS")
    await ben.post("The canary failed as well.", "CRITIQUE", edges={"critiques": [claim["id"]]})
    await ada.do("debate", op="concede", id=claim["id"], reason="so it did")
    late = await cleo.call(
        "post", text="And the provider throttled nobody.", type="CRITIQUE", edges={"critiques": [claim["id"]]}
    )
    text = boards.text_of(late)
    assert (
        "H-1 by ada is INVALIDATED already: C-3 stays but opens no debate, and nothing more is needed" in text
    )
    assert "→ debate" not in text
    assert (await ada.item(claim["id"]))["debate"] == "CONSENSUS"
    await ada.do("query")
    assert "you owe" not in ada.footer


async def test_the_answer_says_who_is_asked_and_for_whom_a_question_still_waits(board: Any) -> None:
    alice, bob, carol = await board.join("alice", "bob", "carol")
    said = await alice.say("post", text="@bob @carol what did you measure?", type="QUESTION")
    assert "Q-1 asks bob, carol, each for an answer of their own; enough known: post(id=" in said
    answer: dict[str, Any] = {"type": "ANSWER", "edges": {"replies_to": ["Q-1"]}}
    assert "Q-1 waits for carol still" in await bob.say("post", text="5", **answer)
    assert "you owe: answer Q-1" in await carol.say("query")
    assert "Q-1 is answered" in await carol.say("post", text="7", **answer)
    said = await alice.say("post", text="@bob which port?", type="QUESTION")
    assert "Q-4 asks bob: anybody's ANSWER settles it" in said
    done = await carol.do("post", text="5432", type="ANSWER", edges={"replies_to": ["Q-4"]})
    assert done["remarks"] == [{"id": "A-5", "kind": "answers", "about": ["Q-4"], "more": 0, "fields": []}]
    assert "you owe" not in await bob.say("query")


async def test_a_question_that_begins_with_to_and_a_name_asks_that_agent(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ben.post("The log begins at noon.")
    text = "To ben: did you count users? Also: F-1 says nothing of orders."
    said = await ada.say("post", text=text, type="QUESTION")
    assert "Q-2 asks ben" in said
    assert "Also" not in said
    await ben.do("query")
    assert "you owe: answer Q-2" in ben.footer


async def test_a_question_that_begins_with_names_and_commas_asks_those_agents(board: Any) -> None:
    ada, ben, cleo = await board.join("ada", "ben", "cleo")
    for agent in (ben, cleo):
        await agent.post(f"{agent.name} is here.", "LOG")
    edge = {"replies_to": [(await cleo.post("It is the pool.", "HYPOTHESIS"))["id"]]}
    said = await ada.say("post", text="ben, which unit is it, users?", type="QUESTION", edges=edge)
    assert "Q-4 asks ben: " in said
    assert "asks ben, cleo, each" in await ada.say("post", text="ben, cleo, is it so?", type="QUESTION")
    for text in ("However, ben, is it so?", "Is it so, ben, or not?"):
        assert "asks" not in (await ada.say("post", text=text, type="QUESTION")).replace("does not ask", "")


async def test_who_answers_his_own_question_is_told_the_same_everywhere(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("Which port?", "QUESTION")
    said = {"text": "I look it up.", "type": "REPLY", "edges": {"replies_to": ["Q-1"]}}
    assert "Q-1 stays open: an ANSWER settles it" in await ada.say("post", **said)
    assert "(unanswered)" in await ben.say("query", type="QUESTION")
    assert "Q-1 is answered" in await ada.say("post", **said | {"text": "7", "type": "ANSWER"})
    assert "(answered by A-3)" in await ben.say("query", type="QUESTION")
    assert "open questions" not in await ben.say("read")


async def test_who_replies_to_an_answered_question_is_not_told_that_it_stays_open(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("Which port?", "QUESTION")
    await ben.post("7", "ANSWER", edges={"replies_to": ["Q-1"]})
    said: dict[str, Any] = {"edges": {"replies_to": ["Q-1"]}}
    thanks = await ada.say("post", text="Thank you.", type="REPLY", **said)
    assert "Q-1 is answered by A-2 already" in thanks
    assert "open" not in thanks
    assert "Q-1 is answered by A-2 already" in await ben.say(
        "post", text="We use 7.", type="DECISION", **said
    )
    await ada.post("Which host?", "QUESTION")
    await ada.do("post", id="Q-5", status="RESOLVED")
    said = {"edges": {"replies_to": ["Q-5"]}}
    assert "Q-5 is resolved already" in await ben.say("post", text="I looked it up.", type="LOG", **said)


async def test_who_asks_again_what_it_answered_itself_hears_how_to_take_the_answer_back(board: Any) -> None:
    ada = await board.join("ada")
    await ada.post("Which port?", "QUESTION")
    await ada.post("7", "ANSWER", edges={"replies_to": ["Q-1"]})
    for key in ({}, {"idempotency_key": "k"}, {"idempotency_key": "k"}):
        said = await ada.say("post", text="Which port?", type="QUESTION", **key)
        assert said.splitlines()[0] == (
            "same as Q-1: you posted it before, nothing stored; your own A-2 answered it, to ask it anew take that "
            'back: post(id="A-2", status="WITHDRAWN")'
        )
    await ada.do("post", id="A-2", status="WITHDRAWN")
    assert "(unanswered)" in await ada.say("query", type="QUESTION")
    said = await ada.say("post", text="Which port?", type="QUESTION")
    assert said.splitlines()[0] == "same as Q-1: you posted it before, nothing stored"


async def test_who_asks_again_what_was_answered_hears_how_to_object_to_the_answer(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("Which port?", "QUESTION")
    again = {"text": "Which port?", "type": "QUESTION"}
    same = "same as Q-1: you posted it before, nothing stored"
    assert (await ada.say("post", **again)).splitlines()[0] == same
    await ben.post("I have no evidence.", "ANSWER", edges={"replies_to": ["Q-1"]})
    objects = {"type": "CRITIQUE", "edges": {"critiques": ["A-2"]}, "text": "That names no port."}
    for key in ({}, {"idempotency_key": "k"}, {"idempotency_key": "k"}):
        assert (await ada.say("post", **again, **key)).splitlines()[0] == (
            f'{same}; A-2 answered it, to object: post(type="CRITIQUE", edges={{"critiques": ["A-2"]}}, text="…")'
        )
    await ada.do("post", **objects)
    await ben.do("debate", op="concede", id="A-2")
    assert "(unanswered)" in await ada.say("query", type="QUESTION")


@pytest.mark.parametrize("edge", ["replies_to", "derived_from", "depends_on"])
async def test_who_decides_on_a_question_hears_what_closes_it(board: Any, edge: str) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("Which port?", "QUESTION")
    closes = 'if that solves Q-1: post(id="Q-1", status="RESOLVED")'
    said = await ben.say("post", text="We use 7.", type="DECISION", edges={edge: ["Q-1"]})
    how = ": an ANSWER settles it" if edge == "replies_to" else ""
    assert f"Q-1 stays open{how}; {closes}" in said.splitlines()
    for agent in (ada, ben):
        assert f"decided in D-2 ({closes})" in await agent.say("read")
    await ada.post("7", "ANSWER", edges={"replies_to": ["Q-1"]})
    said = await ben.say("post", text="We use 7 and 8.", type="DECISION", edges={edge: ["Q-1"]})
    assert "open" not in said
    assert "decided in" not in await ada.say("read")


@both
async def test_what_others_wrote_on_the_same_matter_meanwhile_is_named(board: Any, mode: str) -> None:
    ada, ben = await board.join("ada", "ben", mode=mode)
    await ada.post("The log begins at noon.")
    await ben.say("read")
    await ada.post("The pool was too small.", "HYPOTHESIS")
    await ada.post("It rained.")
    text = await ben.say("post", type="HYPOTHESIS", text="The pool could not hold the load.")
    assert text.splitlines()[:2] == ["H-4", "not shown to you yet: H-2 by ada: The pool was too small."]
    critique = await ada.post("No: it was large.", "CRITIQUE", edges={"critiques": ["H-4"]})
    await ben.say("wait")
    await ada.post("See the log.", "REPLY", edges={"replies_to": [critique["id"]]})
    answer = await ben.do("post", type="REPLY", text="It was.", edges={"replies_to": [critique["id"]]})
    assert remarks(answer) == [("R-7", "unseen", ["R-6"])]
    await ben.say("wait")
    assert remarks(await ben.do("post", type="HYPOTHESIS", text="Somebody slept.")) == []


async def test_who_replies_for_another_reads_whose_answer_is_still_missing(board: Any) -> None:
    ada, ben, cleo = await board.join("ada", "ben", "cleo")
    await ada.post("The pool was too small.", "HYPOTHESIS")
    await ben.post("It was large.", "CRITIQUE", edges={"critiques": ["H-1"]})
    await cleo.say("read")
    said = {"type": "REPLY", "edges": {"replies_to": ["C-2"]}}
    assert (await cleo.say("post", text="Not large enough.", **said)).splitlines()[:2] == [
        "R-3",
        "C-2 waits for ada still",
    ]
    assert "waits for" not in await ada.say("post", text="It held 400.", **said)


async def test_a_reply_to_what_was_taken_back_is_told_so(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("The pool was too small.", "HYPOTHESIS")
    await ada.say("post", id="H-1", status="WITHDRAWN")
    text = await ben.say("post", type="QUESTION", text="@ada why?", edges={"replies_to": ["H-1"]})
    assert "H-1 by ada is WITHDRAWN already" in text.splitlines()
    await ben.say("post", id="Q-2", status="WITHDRAWN")
    text = await ada.say("post", type="ANSWER", text="It is taken back.", edges={"replies_to": ["Q-2"]})
    assert "Q-2 by ben is WITHDRAWN already" in text.splitlines()
    assert "Q-2 is answered" not in text


async def test_an_edge_of_critique_on_another_type_opens_no_debate_and_that_is_said(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("The cache is stale", "HYPOTHESIS")
    text = await ben.say("post", text="It is not", edges={"critiques": ["H-1"]})
    assert (
        "F-2 opens no debate on H-1, since it is a FACT; this does: "
        'post(type="CRITIQUE", edges={"critiques": ["H-1"]}, text="…")'
    ) in text.splitlines()
    answer = await ben.do("post", text="Nor now", type="REPLY", edges={"critiques": ["H-1"]})
    assert remarks(answer) == [("R-3", "undebated", ["H-1"])]
    await ben.post("No", "CRITIQUE", edges={"critiques": ["H-1"]})
    said = await ada.say("post", text="Yes", type="REPLY", edges={"critiques": ["C-4"]})
    assert "opens no debate" not in said
