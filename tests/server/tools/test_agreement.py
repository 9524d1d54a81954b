"""Agreement through real clients: an author asks, who is asked has the call, and the item says who agreed."""

from __future__ import annotations

import re
from typing import Any

import boards
import pytest

board, mode, both = boards.board, boards.mode, boards.both


@both
async def test_who_is_asked_has_the_call_and_the_item_says_who_agreed(board: Any, mode: str) -> None:
    ada, ben, cleo = await board.join("ada", "ben", "cleo")
    text = await ada.say("post", type="DECISION", text="We go by train.", agree=["ben", "cleo"])
    assert text.splitlines()[0] == "D-1 → agreed: nobody yet; waits for ben, cleo"
    view = await ben.say("read")
    assert 'agree: debate(op="agree", id="D-1")' in view
    assert 'object: post(type="CRITIQUE", edges={"critiques": ["D-1"]}, text="…")' in view
    await ben.do("debate", op="acknowledge", id="D-1")
    assert "(agreed: ben; waits for cleo): We go by train." in await cleo.say("query")
    assert "agreed: ben; waits for cleo" in (await ada.say("read", ids=["D-1"])).splitlines()
    await cleo.post("Fine with me.", "REPLY", edges={"supports": ["D-1"]})
    item = await ada.item("D-1")
    assert (item["status"], item["debate"]) == ("ACTIVE", None)
    assert item["agreement"] == {
        **{"agreed": ["ben", "cleo"], "waiting": [], "away": [], "enough": 0, "reached": True},
    }
    assert "(agreed by ben, cleo)" in await ada.say("query", type="DECISION")
    assert "D-1: agreed by ben, cleo; settled: nobody is missing" in await ada.say(
        "debate", op="status", id="D-1"
    )
    error = await ben.fail("debate", op="agree", id="D-1")
    assert error["message"].startswith("You have agreed to D-1 before")


async def test_one_name_or_all_may_stand_without_brackets(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ben.post("The train leaves at 9.")
    for who in ("ben", "all"):
        text = await ada.say("post", type="DECISION", text=f"We go by train, say {who}.", agree=who)
        assert text.splitlines()[0].endswith(" → agreed: nobody yet; waits for ben")


async def test_who_is_asked_reads_all_of_it_in_the_view_or_the_call_that_does(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    for n in range(40):
        await ada.post(f"The gauge of pump {n} reads low on every morning of the week, the log says. " * 3)
    plan = "We move the replicas of shard seven to the new rack before the load test begins. "
    await ada.post(plan * 5 + "But never on a Friday.", "DECISION", agree=["ben"])
    await ada.post(plan * 30 + "And never on a Monday.", "DECISION", agree=["ben"])
    view = await ben.say("read")
    assert 'But never on a Friday." → agree: debate(op="agree", id="D-41")' in view
    assert '…" → all of it: read(ids=["D-42"]); agree: debate(op="agree", id="D-42")' in view
    assert "And never on a Monday." in await ben.say("read", ids=["D-42"])


async def test_everybody_here_is_asked_about_an_item_that_stands_and_a_number_suffices(board: Any) -> None:
    ada, ben, cleo = await board.join("ada", "ben", "cleo")
    for agent in (ben, cleo):
        await agent.post(f"{agent.name} is here")
    plan = await ada.post("1 read 2 count", "PLAN")
    answer = await ada.do("post", id=plan["id"], agree=["all", "1"])
    assert answer["items"][0]["agreement"]["waiting"] == ["ben", "cleo"]
    await cleo.do("debate", op="acknowledge", id=plan["id"])
    assert (await ada.item(plan["id"]))["agreement"] == {
        **{"agreed": ["cleo"], "waiting": [], "away": [], "enough": 1, "reached": True},
    }
    events = [e["event"] for e in (await ada.do("read", since=0))["events"]]
    assert events[-3:] == ["agreement.given", "agreement.reached", "obligation.waived"]


async def test_an_objection_is_a_critique_and_what_was_agreed_stays(board: Any) -> None:
    ada, ben, cleo = await board.join("ada", "ben", "cleo")
    await ada.post("We go by train.", "DECISION", agree=["ben", "cleo"])
    await ben.do("debate", op="acknowledge", id="D-1")
    await cleo.post("It is on strike.", "CRITIQUE", edges={"critiques": ["D-1"]})
    item = await ada.item("D-1")
    assert (item["status"], item["debate"]) == ("DEBATED", "OPEN")
    assert (item["agreement"]["agreed"], item["agreement"]["waiting"]) == (["ben"], ["cleo"])


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        ({"agree": ["all"]}, "refused", "Nobody else is on the board"),
        ({"agree": ["ada"]}, "invalid", "another owner's"),
        ({"agree": ["ben", "2"]}, "invalid", "count as 1"),
        ({"agree": ["ben", "1", "2"]}, "invalid", "one number"),
        ({"agree": ["ben", "0"]}, "invalid", "one number"),
        ({"agree": ["b en"]}, "invalid", "not an agent's name"),
        ({"agree": []}, "invalid", "agree"),
        ({"agree": ["ben"], "type": "LOG"}, "invalid", "agree goes with"),
        ({"agree": ["ben"], "visibility": "private"}, "invalid", "agree goes with"),
    ],
)
async def test_asking_whom_or_what_cannot_be_asked_is_refused(
    board: Any, said: dict[str, Any], error: str, words: str
) -> None:
    ada = await board.join("ada")
    await ada.post("first")
    failure = await ada.fail("post", **{"type": "DECISION", "text": "We go.", **said})
    assert failure["error"] == error
    assert words in failure["message"]
    assert [item["id"] for item in (await ada.do("query"))["items"]] == ["F-1"]


async def test_another_cannot_ask_about_an_item_and_a_transaction_can(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    item = await ada.post("We go.", "DECISION")
    assert "Only ada" in (await ben.fail("post", id=item["id"], agree=["cleo"]))["message"]
    done = await ada.do("post", items=[{"id": item["id"], "agree": ["ben"]}, {"text": "why: it rains"}])
    assert done["items"][0]["agreement"]["waiting"] == ["ben"]


async def test_what_somebody_adds_to_an_agreement_reaches_who_asked(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("We go by train.", "DECISION", agree=["ben"])
    await ben.do("debate", op="agree", id="D-1", reason="If it runs on Sunday.")
    told = next(line for line in (await ada.say("wait")).splitlines() if "agreement.given" in line)
    assert told.endswith("agreement.given D-1 by ben: agreed to it: If it runs on Sunday.")


async def test_an_author_is_told_that_it_counts_as_agreeing(board: Any) -> None:
    ada, _ = await board.join("ada", "ben")
    await ada.post("We go by train.", "DECISION", agree=["ben"])
    told = await ada.fail("debate", op="agree", id="D-1")
    assert told["message"].startswith("D-1 is yours: its author counts as agreeing. Nothing was changed.")


async def test_naming_fewer_agents_takes_none_away_and_says_so(board: Any) -> None:
    ada, _, _ = await board.join("ada", "ben", "cleo")
    await ada.post("We go by train.", "DECISION", agree=["ben", "cleo"])
    told = await ada.say("post", id="D-1", agree=["ben"])
    assert "cleo was asked before and still is: whom you name is added, nobody is taken away" in told
    assert "asked before" not in await ada.say("post", id="D-1", agree=["ben", "cleo"])


async def test_who_objects_need_not_agree_until_the_objection_is_settled(board: Any) -> None:
    ada, ben, _ = await board.join("ada", "ben", "cleo")
    await ada.post("We go by train.", "PLAN", agree=["ben", "cleo"])
    await ben.do("read")
    assert "you owe: agree or object to P-1" in ben.footer
    await ben.post("It is on strike.", "CRITIQUE", edges={"critiques": ["P-1"]})
    assert "you owe" not in ben.footer
    await ben.do("debate", op="withdraw", id="C-2", reason="It ended.")
    assert "you owe: agree or object to P-1" in ben.footer


async def test_a_view_names_each_text_that_it_cut_and_first_what_one_is_asked_to_agree_to(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    for n in range(8):
        await ada.post(f"Why does valve {n} leak at night, and who looked? " * 20, "QUESTION")
    for n in range(5):
        await ada.post(f"Pump {n} reads low on every morning of the week. " * 20)
    plan = "We move the replicas of shard seven to the new rack before the load test begins. "
    await ada.post(plan * 30 + "But never on a Friday.", "DECISION")
    await ada.post(plan * 30 + "And never on a Monday.", "DECISION", agree=["ben"])
    view = (await ben.say("read")).splitlines()
    assert 'whole texts: read(ids=["D-15", "D-14", "Q-' in view[-2]
    named = re.findall(r'"([A-Z]-\d+)"', view[-2])
    cut = {line.split()[0] for line in view[:-2] if line.endswith("…")}
    assert len(cut) > 3
    assert cut <= {*named}
    small = (await ben.say("read", budget=700)).splitlines()
    few = re.search(r'read\(ids=\["D-15", .*\]\), (\d+) more end in …$', small[-2])
    assert few, small[-2]
    assert int(few[1]) + small[-2].count("-") == len(
        [line for line in small[:-2] if re.match(r"[A-Z]-\d+ .*…", line)]
    )
    assert "And never on a Monday." in await ben.say("read", ids=named[:1], budget=1_500)


CLOSES = 'if that solves B-1: post(id="B-1", status="RESOLVED")'


async def test_who_decides_on_a_problem_has_the_call_that_closes_it(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("Checkout fails.", "PROBLEM", tags=["shop"])
    about = {"derived_from": ["B-1"]}
    said = await ben.say("post", text="The pool did it.", type="DECISION", edges=about)
    assert f"B-1 stays open; {CLOSES}" in said.splitlines()
    for agent in (ada, ben):
        assert f"0s, decided in D-2 ({CLOSES}), tagged shop: Checkout fails." in await agent.say("read")
    cleo = await board.join("cleo")
    assert "0s, decided in D-2, tagged shop: Checkout fails." in await cleo.say("read")
    await ada.do("post", id="B-1", status="RESOLVED")
    assert "RESOLVED" not in await ben.say("post", text="It was the pool.", type="DECISION", edges=about)


async def test_who_decides_on_a_problem_that_only_the_text_names_has_the_call_that_closes_it(
    board: Any,
) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("Checkout fails.", "PROBLEM")
    await ada.post("Users are few.")
    said = await ben.say("post", text="B-1, not B-2 or B-99: restart the pool.", type="DECISION")
    assert f"B-1 stays open; {CLOSES}" in said.splitlines()
    assert "open" not in await ben.say("post", text="XB-1 and B-1-2 are names.", type="DECISION")
    await ada.post("The cart fails.", "PROBLEM")
    said = await ben.say("post", text="B-1: " * 9 + "restart the pool, which mends B-5.", type="DECISION")
    assert "B-1, B-5 stay open" in said


async def test_whoever_waits_for_an_agreed_decision_hears_how_its_problem_is_closed(board: Any) -> None:
    ada, ben, cleo = await board.join("ada", "ben", "cleo")
    await ada.post("Checkout fails.", "PROBLEM")
    decision = {"text": "The pool did it.", "type": "DECISION", "edges": {"replies_to": ["B-1"]}}
    said = await ben.say("post", **decision, agree=["cleo"])
    assert CLOSES not in said, "nobody agreed yet"
    assert "decided in" not in await ada.say("read")
    await cleo.do("debate", op="agree", id="D-2")
    for agent in (ada, ben):
        told = (await agent.say("wait", seconds=0)).splitlines()
        assert any(
            line.endswith(
                f"agreement.reached D-2 by cleo: agreed by cleo; settled: nobody is missing; {CLOSES}"
            )
            for line in told
        )
    assert (await ada.item("B-1"))["status"] == "ACTIVE"


async def test_a_decision_that_stands_whole_in_the_view_is_not_named_as_cut(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    text = "We take A for the cause unless the dump of host 3 shows otherwise by noon."
    await ada.post(text, "DECISION", agree=["ben"])
    view = await ben.say("read")
    assert f'asks you to agree: "{text}" → agree' in view
    assert "whole texts" not in view
