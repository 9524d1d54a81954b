"""How a recorded session becomes posts, and how the report finds what should not have left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.items import MAX_TEXT, ItemType
from blackboard_mcp.server.demo.report import left_while_held, telling_words
from blackboard_mcp.server.demo.session import (
    agent_names,
    examples,
    load_session,
    session_of,
)
from blackboard_mcp.server.input.posts import check_agent

INSTRUCTIONS = "You are given: (1) a task and advises from your manager"


def log(*steps: tuple[str, str], **more: Any) -> dict[str, Any]:
    return {"question": "why?", "history": [{"name": n, "content": c} for n, c in steps], **more}


def shape(*steps: tuple[str, str], **more: Any) -> list[tuple[str, str, dict[str, int], int | None]]:
    posts = session_of(log(*steps, **more), "test").posts
    return [(post.agent, post.type, post.edges, post.analyses) for post in posts]


def test_a_session_becomes_a_problem_a_plan_runs_analyses_and_an_answer() -> None:
    assert shape(
        ("Ann", INSTRUCTIONS),
        ("Bob", "let us run ```x```"),
        ("Computer_terminal", "exitcode: 1 (execution failed)\nno x"),
        ("Bob", "then ```y```"),
        ("Computer_terminal", "exitcode: 0 (execution succeeded)\n4"),
        ("Cyd", "I confirmed that: verified."),
        ("Ann", "so it is 4.\n\nTERMINATE"),
        ("Bob", "TERMINATE"),
    ) == [
        ("manager", "PROBLEM", {}, None),
        ("Ann", "PLAN", {"replies_to": 0}, None),
        ("Bob", "HYPOTHESIS", {"replies_to": 1}, None),
        ("Computer_terminal", "LOG", {"replies_to": 2}, None),
        ("Bob", "HYPOTHESIS", {"derived_from": 3}, 3),
        ("Computer_terminal", "LOG", {"replies_to": 4}, None),
        ("Cyd", "FACT", {"derived_from": 5}, 5),
        ("Ann", "ANSWER", {"replies_to": 6}, None),
        ("Bob", "LOG", {"replies_to": 7}, None),
    ]


def test_a_terminal_with_nothing_to_run_breaks_no_conversation() -> None:
    nothing = "There is no code from the last 1 message for me to execute."
    posts = session_of(log(("Ann", "a"), ("Computer_terminal", nothing), ("Bob", "b")), "test").posts
    assert (posts[2].type, posts[2].importance) == ("LOG", 1)
    assert (posts[3].edges, posts[3].analyses) == ({"replies_to": 1}, None)


def test_the_reviewer_criticises_the_mistaken_step_right_after_it() -> None:
    note = {"mistake_step": "1", "mistake_agent": "Bob", "mistake_reason": "no source"}
    posts = session_of(log(("Ann", "a"), ("Bob", "b"), ("Ann", "c"), **note), "test").posts
    assert [post.agent for post in posts] == ["manager", "Ann", "Bob", "reviewer", "Ann"]
    assert (posts[3].type, posts[3].text, posts[3].edges) == ("CRITIQUE", "no source", {"critiques": 2})
    assert posts[4].edges == {"replies_to": 2}


@pytest.mark.parametrize("note", [{}, {"mistake_step": "7"}, {"mistake_step": "x"}, {"mistake_reason": ""}])
def test_a_note_that_names_no_step_opens_no_debate(note: dict[str, str]) -> None:
    given = {"mistake_reason": "why not", "mistake_step": "", **note}
    assert "reviewer" not in session_of(log(("Ann", "a"), **given), "test").agents


def test_an_early_end_is_a_decision_and_the_last_word_the_answer() -> None:
    kinds = [kind for _, kind, _, _ in shape(("Ann", "done? TERMINATE"), ("Bob", "yes, 4. TERMINATE"))]
    assert kinds == ["PROBLEM", "DECISION", "ANSWER"]
    assert [kind for _, kind, _, _ in shape(("Ann", "a"), ("Bob", "it is 4"))][-1] == "ANSWER"
    assert [kind for _, kind, _, _ in shape(("Ann", "a"), ("Bob", "```run```"))][-1] == "HYPOTHESIS"


def test_names_are_made_fit_for_agents_and_stay_apart() -> None:
    names = agent_names(["Ann Lee", "Ann-Lee", "Ann Lee", "system", "manager", "Ünï", "", "x" * 100, "…"])
    assert names[:5] == ["Ann-Lee", "Ann-Lee-2", "Ann-Lee", "system-2", "manager-2"]
    assert len(set(names)) == len(names) - 1
    assert [check_agent(name) for name in names] == names
    assert agent_names(["Expert", "expert", "EXPERT", "me", "Manager"]) == [
        *("Expert", "expert-2", "EXPERT-3", "me-2", "Manager-2"),
    ]


def test_texts_are_made_fit_for_posts_and_else_left_alone() -> None:
    posts = session_of(log(("Ann", " a\0b "), ("Bob", " \n"), ("Ann", "\ud800 é 🦊")), "test").posts
    assert [post.text for post in posts[1:]] == [" a\ufffdb ", "(nothing said)", "? é 🦊"]


def test_what_is_no_log_is_refused_with_the_reason(tmp_path: Path) -> None:
    for document in ([], {}, {"history": []}, {"history": ["a"]}, {"history": {"name": "a"}}):
        with pytest.raises(InvalidInput, match="has no history"):
            session_of(document, "test")
    with pytest.raises(InvalidInput, match="step 1 has 200001 characters"):
        session_of(log(("Ann", "a"), ("Bob", "x" * (MAX_TEXT + 1))), "test")
    with pytest.raises(InvalidInput, match="Cannot read the log"):
        load_session(tmp_path)


def test_the_examples_carry_their_licence_and_open_a_debate_each() -> None:
    folder = next(iter(examples().values())).parent
    assert "Copyright (c) 2025 Ming Yin" in (folder / "LICENSE").read_text()
    for name, path in examples().items():
        assert path.name in (folder / "NOTICE").read_text()
        session = load_session(path)
        assert [post.type for post in session.posts].count("CRITIQUE") == 1, name
        assert {post.type for post in session.posts} <= set(ItemType)
        steps = json.loads(path.read_text())["history"]
        assert [p.text for p in session.posts if p.step is not None and p.agent != "reviewer"] == [
            step["content"] for step in steps
        ]


def test_an_item_that_left_while_a_debate_reached_it_is_found_out() -> None:
    edges: list[dict[str, list[str]]] = [{}, {"replies_to": ["H-1"]}, {"critiques": ["H-2"]}, {}]
    ids = ["H-1", "H-2", "C-3", "H-4"]
    items = [
        {"id": id_, "number": n, "edges": e} for n, (id_, e) in enumerate(zip(ids, edges, strict=True), 1)
    ]
    events = [{"event": "item.posted", "item": id_, "seq": seq} for seq, id_ in enumerate(ids[:3], 1)]
    events += [
        {"event": "debate.opened", "item": "H-2", "seq": 4},
        {"event": "item.posted", "item": "H-4", "seq": 5},
    ]
    debates = [{"root": "H-2", "critiques": ["C-3"], "state": "OPEN"}]

    def left(item: str, seq: int) -> list[str]:
        return left_while_held(
            items, debates, [*events, {"event": "item.archived", "item": item, "seq": seq}]
        )

    assert left("H-1", 6) == ["H-1"]
    assert left("C-3", 6) == ["C-3"]
    assert left("H-4", 6) == []
    assert left("H-1", 2) == []


def test_telling_words_are_those_that_the_others_lack() -> None:
    texts = ["common words of newton newton derivative", "common words", "common words again"]
    assert telling_words(texts[0], texts, 2) == ["newton", "derivative"]
