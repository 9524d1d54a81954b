"""`constraint` through real clients: rules, their revision and scope, proposals from messages (F50, I7)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import boards
import pytest

mode, both = boards.mode, boards.both

ALL = ("core", "run", "plan", "memory", "admin")


@pytest.fixture
async def board(tmp_path: Path, mode: str) -> AsyncIterator[Any]:
    async with boards.open_boards(tmp_path, mode, tools=ALL, stewards=("ann",)) as opened:
        yield opened


@both
async def test_a_steward_makes_rules_and_others_propose_them(board: Any, mode: str) -> None:
    ann, ben = await board.join("ann", "ben")
    none = 'no rules; constraint(text="…") proposes one, or makes one if you are a steward'
    assert (await ben.say("constraint")).splitlines()[0] == none
    assert (await ben.do("constraint", text="Always cite."))["written"] == ["P-1"]
    made = await ann.do("constraint", text="Never guess.", strength="prefer", scope="agent:ben")
    assert (made["written"], made["revision"]) == (["K-2"], 1)
    assert (await ben.say("constraint")).splitlines()[:-1] == [
        "rules r1 (1)",
        "K-2 by ann prefer, agent:ben: Never guess.",
        'proposed, not in force; a steward makes rules of what the user meant: constraint(confirm=["P-1"])',
        "P-1 by ben: Always cite.",
    ]
    refused = await ben.fail("constraint", confirm=["P-1"])
    assert refused["error"] == "forbidden"
    assert refused["message"].startswith(
        "You may not change its core, rules, title or lifecycle, or prune it"
    )
    answer = await ann.do("constraint", confirm=["P-1"])
    assert [(r["id"], r["text"], r["revision"], r["mine"]) for r in answer["rules"]] == [
        ("K-2", "Never guess.", 1, False),
        ("K-3", "Always cite.", 2, True),
    ]
    assert answer["proposals"] == []
    assert (await ann.fail("constraint", confirm=["P-1"]))["error"] == "conflict"


@both
async def test_a_rule_said_again_within_other_bounds_is_refused_and_named(board: Any, mode: str) -> None:
    ann = await board.join("ann")
    await ann.do("constraint", text="Never guess.", scope="path:docs/**")
    for given in ({}, {"scope": "path:src/**"}, {"scope": "path:docs/**", "strength": "prefer"}):
        failed = await ann.fail("constraint", text="never guess", **given)
        assert failed["error"] == "conflict"
        assert "K-1 says this already, strict with scope path:docs/**" in failed["message"]
        assert 'constraint(id="K-1"' in failed["message"]
    same = await ann.do("constraint", text="Never guess.", scope="path:docs/**")
    assert [(r["id"], r["scope"]) for r in same["rules"]] == [("K-1", "path:docs/**")]
    moved = await ann.do("constraint", id="K-1", text="Never guess.", scope="path:src/**")
    assert [(r["id"], r["version"], r["scope"]) for r in moved["rules"]] == [("K-1", 2, "path:src/**")]


@both
async def test_a_rule_has_versions_under_one_id_and_ends_with_a_reason(board: Any, mode: str) -> None:
    ann, ben = await board.join("ann", "ben")
    await ann.do("constraint", text="Never guess.", scope="path:docs/**")
    assert (await ben.do("constraint", id="K-1", text="Guess."))["written"] == ["P-2"]
    changed = await ann.do("constraint", id="K-1", text="Never guess a date.")
    assert [(r["id"], r["version"], r["text"], r["scope"]) for r in changed["rules"]] == [
        ("K-1", 2, "Never guess a date.", "path:docs/**")
    ]
    assert "Never guess." in await ben.say("read", ids=["K-1@1"])
    assert (await ben.fail("constraint", id="K-1", retire="mine now"))["error"] == "refused"
    over = await ann.do("constraint", id="K-1", retire="The survey is over.")
    assert (over["rules"], over["revision"]) == ([], 3)
    assert (await ann.item("K-1"))["metadata"]["rule"]["retired"] == "The survey is over."
    assert (await ann.fail("constraint", id="K-1", text="Again."))["error"] == "conflict"
    assert (await ann.fail("constraint", confirm=["P-2"]))["error"] == "conflict"


@both
async def test_a_rule_is_retired_once_and_its_first_reason_stays(board: Any, mode: str) -> None:
    ann, ben = await board.join("ann", "ben")
    await ben.post("Never guess.", "CONSTRAINT")
    await ann.do("constraint", id="K-1", retire="The survey is over.")
    for agent in (ben, ann):
        failed = await agent.fail("constraint", id="K-1", retire="It was mine.")
        assert failed["error"] == "conflict"
        assert "K-1 is RESOLVED already, by ann at 2" in failed["message"]
        assert " (The survey is over.). Nothing was changed." in failed["message"]
        assert "constraint(text=…) without id makes a new one" in failed["message"]
    assert (await ann.item("K-1"))["metadata"]["rule"]["retired"] == "The survey is over."
    proposed = (await ben.do("constraint", text="Cite."))["written"][0]
    await ben.do("constraint", id=proposed, retire="No.")
    before = await board.seq()
    assert (await ben.fail("constraint", id=proposed, retire="Still no."))["error"] == "conflict"
    assert await board.seq() == before


@both
async def test_the_author_of_a_posted_rule_may_change_it_without_being_steward(board: Any, mode: str) -> None:
    ann, ben = await board.join("ann", "ben")
    await ben.post("Never guess.", "CONSTRAINT")
    assert (await ben.do("constraint", id="K-1", text="Do not guess."))["rules"][0]["version"] == 2
    assert (await ann.do("constraint", id="K-1", retire="no need"))["rules"] == []


@both
async def test_nobody_rewrites_or_retires_a_rule_by_posting(board: Any, mode: str) -> None:
    ann, ben = await board.join("ann", "ben")
    await ann.do("constraint", text="Never guess.")
    for given in (
        {"id": "K-1", "text": "Guess."},
        {"id": "K-1", "status": "RESOLVED"},
        {"id": "K-1", "metadata": {"rule": {"strength": "suggest"}}},
    ):
        assert (await ben.fail("post", **given))["error"] in ("refused", "invalid")
    assert (await ben.do("constraint"))["rules"][0]["strength"] == "strict"


@both
async def test_a_message_is_captured_as_proposals_alone(board: Any, mode: str) -> None:
    ann, ben = await board.join("ann", "ben")
    message = (
        "Thanks! From now on, cite a source for every number. Don\u2019t touch config.yaml before review.\n"
        "Did the tests pass? We could prefer SQLite where possible.\n```\nnever do this\n```\n> Always that."
    )
    told = await ben.do("constraint", message=message)
    assert [(p["text"], p["strength"]) for p in told["proposals"]][::-1] == [
        ("From now on, cite a source for every number.", "strict"),
        ("Don\u2019t touch config.yaml before review.", "strict"),
    ]
    assert (told["rules"], told["revision"]) == ([], 0)
    again = await ben.do("constraint", message=message)
    assert (again["written"], len(again["proposals"])) == ([], 2)
    made = await ann.do("constraint", confirm=told["written"])
    assert [rule["text"] for rule in made["rules"]] == [p["text"] for p in told["proposals"]][::-1]
    assert "no sentence of the message" in await ben.say("constraint", message="How are you?")


@both
async def test_a_message_with_many_rules_says_how_many_were_too_many_and_where(board: Any, mode: str) -> None:
    ben = await board.join("ben")
    said = [f"Never use port {n}." for n in range(12)]
    told = await ben.do("constraint", message=" ".join(said))
    assert (len(told["written"]), told["more"], told["more_from"]) == (10, 2, said[10])
    rest = await ben.do("constraint", message=" ".join(said[10:]))
    assert (len(rest["written"]), rest["more"], rest["more_from"]) == (2, 0, None)
    text = await ben.say("constraint", message=" ".join(f"Never use host {n}." for n in range(13)))
    assert (
        "too many for one call: 3 more of the message read like rules; call constraint(message=…) with the message "
        "from here on: Never use host 10.\n"
    ) in text


@both
async def test_a_changed_proposal_is_not_confirmed_under_its_old_version(board: Any, mode: str) -> None:
    ann, ben = await board.join("ann", "ben")
    fields = {"type": "PLAN", "tags": ["proposed-rule"], "key": "rule:mine"}
    await ben.do("post", text="Proposed rule: Be kind.", **fields)
    await ben.do("post", text="Proposed rule: Be quick.", **fields)
    assert (await ann.fail("constraint", confirm=["P-1@1"]))["error"] == "conflict"
    assert (await ann.do("constraint", confirm=["P-1@2"]))["rules"][0]["text"] == "Be quick."


@both
async def test_I7_views_turns_and_claims_name_the_revision_and_show_the_rules(board: Any, mode: str) -> None:
    ann, ben = await board.join("ann", "ben")
    await ann.do("core", objective="x", constraints=["Use metres."], expected_version=0)
    await ann.do("constraint", text="Two\nlines.", scope="agent:ben")
    await ann.do("constraint", text="Keep docs short.", scope="path:docs/**")
    view = await ben.say("read")
    assert "\nrules r3 (3)\nK-1 constraint (agent:ben) by ann" in view
    for line in ("constraint 1: Use metres.", "> Two", "> lines.", "constraint (path:docs/**)"):
        assert line in view
    await ann.do(
        "plan", items=[{"title": "one", "paths": ["file:docs/a.md"]}, {"title": "two", "worker": "ben"}]
    )
    told = await ben.do("claim", id="T-2")
    assert (told["rules"], told["rules_revision"]) == (["Use metres.", "K-1 Two\nlines."], 3)
    lines = (await ann.say("claim", id="T-1")).splitlines()
    assert lines[lines.index("rules r3 (3)") :][:3] == [
        *("rules r3 (3)", "rule: Use metres.", "rule: K-2 Keep docs short.")
    ]
    await ann.do("turn", start={"problem": "Why?", "agents": ["ben"]}, seconds=0)
    assert "\nrules r3 (3)\nrule: Use metres.\n" in await ben.say("turn", seconds=0)


@both
async def test_wrong_arguments_are_refused_and_change_nothing(board: Any, mode: str) -> None:
    ann = await board.join("ann")
    await ann.post("a fact")
    before = await board.seq()
    for given in (
        {"text": "x", "message": "Never."},
        {"strength": "strict"},
        {"id": "F-1"},
        {"retire": "why"},
        {"text": " "},
        {"text": "x", "scope": "agent:a b"},
        {"text": "x", "scope": "path:../etc"},
        {"text": "x", "scope": "path:a?.py"},
        {"text": "x", "scope": "path:.git/**"},
        {"text": "x", "scope": "key:"},
        {"text": "x", "id": "F-1"},
        {"id": "F-1", "retire": "x"},
        {"confirm": ["F-1"]},
    ):
        assert (await ann.fail("constraint", **given))["error"] == "invalid", given
    assert (await ann.fail("constraint", confirm=["P-9"]))["error"] == "not_found"
    assert await board.seq() == before


@both
async def test_finishing_is_refused_once_while_rules_in_scope_changed_unseen(board: Any, mode: str) -> None:
    ann, ben = await board.join("ann", "ben")
    await ann.do("plan", items=[{"title": "one"}, {"title": "two"}, {"title": "three"}])
    await ann.do("constraint", text="Cite.")
    assert (await ben.do("claim", id="T-1"))["rules"] == ["K-1 Cite."]
    await ann.do("constraint", text="Only for ann.", scope="agent:ann")
    await ann.do("constraint", text="Only in docs.", scope="path:docs/**")
    assert (await ben.do("claim", op="done", id="T-1", text="so"))["task"]["state"] == "COMPLETED"
    await ben.do("claim", id="T-2", paths=["file:docs/a.md"])
    await ann.do("constraint", id="K-3", text="Only short lines in docs.")
    await ann.do("constraint", id="K-1", text="Cite pages.")
    before = await board.seq()
    refused = await ben.fail("claim", op="done", id="T-2", text="so")
    assert refused["error"] == "refused"
    assert refused["message"] == (
        "Rules changed since you were last shown them, now rules r5 (3). Nothing was changed. If your work keeps them, "
        'repeat claim(op="done", …): it is then accepted. What changed: K-1 Cite pages. · K-3 Only short lines in docs.'
    )
    assert await board.seq() == before
    assert (await ben.do("claim", op="done", id="T-2", text="so"))["task"]["state"] == "COMPLETED"
    await ben.do("claim", id="T-3")
    await ann.do("constraint", text="Be brief.")
    await ben.say("read")
    assert (await ben.do("claim", op="done", id="T-3", text="so"))["task"]["state"] == "COMPLETED"


@both
async def test_the_last_answer_of_a_run_is_refused_once_as_well(board: Any, mode: str) -> None:
    ann, ben = await board.join("ann", "ben")
    start = {"problem": "Why?", "agents": ["ann"], "decider": "ben"}
    await ann.do("turn", start=start, seconds=0)
    await ann.do("constraint", text="Cite.")
    assert "What changed: K-2 Cite." in (await ben.fail("finalize", text="So."))["message"]
    assert (await ben.do("finalize", text="So."))["state"] == "finished"


async def test_who_was_shown_the_rules_survives_a_restart(tmp_path: Path) -> None:
    for first in (True, False):
        async with boards.open_boards(tmp_path, boards.MODERN, tools=ALL, stewards=("ann",)) as opened:
            ann, ben = await opened.join("ann", "ben")
            if first:
                await ann.do("plan", items=[{"title": "one"}])
                await ann.do("constraint", text="Cite.")
                await ben.do("claim", id="T-1")
            else:
                assert (await ben.do("claim", op="done", id="T-1", text="so"))["task"]["state"] == "COMPLETED"
