"""Rules in users' messages: what is proposed, how firmly, and where sentences end (F50)."""

from __future__ import annotations

import re
from pathlib import Path

import matching
import pytest
from blackboard_mcp.protocols.rules import Strength
from blackboard_mcp.server.input import capture
from blackboard_mcp.server.input.capture import candidates, judged, sentences
from counting import PROPORTION, growth, lines_of

SENTENCES = Path(__file__).parents[3] / "benchmarks" / "capture_sentences.tsv"


def test_most_proposals_are_rules_and_most_rules_are_proposed() -> None:
    rows = [line.split("\t") for line in SENTENCES.read_text("utf-8").splitlines()]
    assert len({text for _, _, text in rows}) == len(rows) >= 200
    found = [(label == "rule", judged(text) is not None) for _, label, text in rows]
    right = sum(rule and proposed for rule, proposed in found)
    assert right / sum(proposed for _, proposed in found) >= 0.9
    assert right / sum(rule for rule, _ in found) >= 0.85


@pytest.mark.parametrize("part", ["held out", "held out later"])
def test_what_nobody_tuned_for_is_found_as_well(part: str) -> None:
    rows = [line.split("\t") for line in SENTENCES.read_text("utf-8").splitlines()]
    found = [(label == "rule", judged(text) is not None) for of, label, text in rows if of == part]
    right = sum(rule and proposed for rule, proposed in found)
    assert right / sum(proposed for _, proposed in found) >= 0.9
    assert right / sum(rule for rule, _ in found) >= 0.85


@pytest.mark.parametrize(
    "text",
    [
        "As a rule, reviews take precedence.",
        "The API is frozen: it must stay backwards compatible.",
        "Hands off the legacy module.",
        "We don't use tabs here.",
        "Let's stick to British spelling.",
        "Whatever you do, don't touch config.yml.",
        "I don't want any new dependencies.",
        "You are not to touch the database.",
        "Production is read-only for us.",
        "No emojis.",
        "Absolutely no force pushes.",
        "\u201cNever push to main.\u201d",
        "The rule is: \u201cNo new dependencies.\u201d",
        "Fix it, and from now on run the tests first.",
        "Refactor it, but don\u2019t change the API.",
    ],
)
def test_rules_in_their_usual_words_are_proposed(text: str) -> None:
    assert judged(text) is Strength.STRICT


@pytest.mark.parametrize(
    "text",
    [
        "We don't know why.",
        "I don't want to wait.",
        "You can't be serious.",
        "Every second run fails.",
        "It is late.",
        "Nobody likes tabs.",
        "No tests failed.",
        "\u201cNever again,\u201d she said.",
        "I tried it, and never got it to work.",
    ],
)
def test_what_only_sounds_like_one_is_not(text: str) -> None:
    assert judged(text) is None


@pytest.mark.parametrize(
    ("text", "strength"),
    [
        ("Never push to main.", Strength.STRICT),
        ("Don\u2019t push to main.", Strength.STRICT),
        ("Please try to keep replies short.", Strength.PREFER),
        ("You should never guess.", Strength.STRICT),
        ("Consider rate limits whenever you call the API.", Strength.SUGGEST),
        ("Did you never push to main?", None),
        ("Yesterday we had to stop.", None),
    ],
)
def test_the_words_say_how_firm_a_rule_is(text: str, strength: Strength | None) -> None:
    assert judged(text) == strength


def test_dots_inside_words_end_no_sentence_and_texts_stay_as_they_were() -> None:
    message = "1. Don\u2019t edit config.prod.yaml, e.g. its ports.  Use v1.2.0 of it!\n- \u201cNever\u201d is a word."
    assert sentences(message) == [
        "Don\u2019t edit config.prod.yaml, e.g. its ports.",
        "Use v1.2.0 of it!",
        "\u201cNever\u201d is a word.",
    ]


def test_code_and_quotations_hold_no_rules() -> None:
    assert candidates("```\nNever do this.\n```\n> Always do that.\n~~~\nNever end.") == ()


def test_a_message_gives_each_sentence_once() -> None:
    assert len(candidates("Never stop. NEVER STOP. Never stop.")) == 1
    many = candidates(" ".join(f"Never use port {n}." for n in range(50)))
    assert [one.text for one in many] == [f"Never use port {n}." for n in range(50)]


@pytest.mark.parametrize(
    "unit", ["if a ", "please ", "and ", "never.", "if,", "`" * 3 + "\n", "no x ", "\u2019", "- "]
)
def test_a_message_is_read_in_proportion_to_its_length(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The counter knows no references to groups: for it any fence ends a block.
    fenced = capture._FENCED.pattern.replace(r"^\1", "^(?:`{3,}|~{3,})")
    assert fenced != capture._FENCED.pattern
    monkeypatch.setattr(capture, "_FENCED", re.compile(fenced, capture._FENCED.flags))
    steps = []
    for size in (1_000, 4_000):
        with matching.counted(capture) as counted:
            candidates(unit * (size // len(unit)))
        assert counted.calls
        steps.append(counted)
    assert steps[1].grew(steps[0]) == []
    assert growth(lambda size: lines_of(lambda: candidates(unit * (size // len(unit)))), 1_000) < PROPORTION
