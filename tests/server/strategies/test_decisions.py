"""Decisions of coordinators: what models write around them, and what is refused (F38)."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from blackboard_mcp.protocols.runs import Decision
from blackboard_mcp.server.strategies.decisions import MAX_DECISION, NotUnderstood, parse_decision
from hypothesis import given
from hypothesis import strategies as st

BEN = '{"terminate": false, "next_agent": "ben", "instruction": "Look."}'
NEXT = Decision(False, "ben", "Look.")


@pytest.mark.parametrize(
    "text",
    [
        BEN,
        f"```json\n{BEN}\n```",
        f"```\n{BEN}\n```\nThat is all.",
        f"I weighed {{both}} of them.\n\n{BEN}",
        f"First I thought of {BEN.replace('ben', 'ann')}, but then: {BEN}",
        f"<think>{{</think>{BEN}",
        BEN.replace("false", '"false"'),
        BEN.replace("false", '" False "'),
        BEN.replace('"ben"', '"@ben"'),
        BEN.replace('"terminate": false, ', ""),
        BEN.replace("Look.", " Look. "),
        f'{{"plan": {{"a": [1, 2]}}}} {BEN}',
    ],
)
def test_a_decision_is_found_in_what_a_model_wrote(text: str) -> None:
    assert parse_decision(text) == NEXT


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no JSON object"),
        ("ben is next", "no JSON object"),
        ("[]", "no JSON object"),
        ('{"next": "ben"}', "no JSON object"),
        ("{'terminate': False, 'next_agent': 'ben'}", "no JSON object"),
        (BEN[:-1], "no JSON object"),
        (BEN.replace("false", '"no idea"'), "terminate is true or false"),
        (BEN.replace("false", "0"), "terminate is true or false"),
        (BEN.replace("false", "null"), "terminate is true or false"),
        (BEN.replace('"ben"', "7"), "next_agent is a text"),
        (BEN.replace('"ben"', '["ben"]'), "next_agent is a text"),
        (BEN.replace("ben", ""), "next_agent is missing"),
        (BEN.replace("Look.", "x" * 4_001), "4,000"),
        (BEN.replace("Look.", "Look \\ud83d"), "instruction holds"),
        (BEN.replace('"ben"', '"b\\ud83d"'), "next_agent holds"),
        (BEN.replace('"ben"', '"b\\u0000"'), "next_agent holds"),
        (BEN + ' I did not send {"terminate": true}, since there is more to do.', "another does not"),
        ('{"terminate": true} or ' + BEN, "another does not"),
        ("{" * 10_000, "no JSON object"),
        ('{"a":' * 3_000 + "1" + "}" * 3_000, "no JSON object"),
        ("x" * (MAX_DECISION + 1), "20,001 characters"),
    ],
)
def test_what_is_no_decision_is_refused_with_what_was_wrong(text: str, why: str) -> None:
    with pytest.raises(NotUnderstood, match=why):
        parse_decision(text)


@pytest.mark.parametrize("said", ["true", '"true"', '"TRUE"', '"yes"'])
def test_true_ends_the_rounds_without_an_agent(said: str) -> None:
    assert parse_decision(f'{{"terminate": {said}}}') == Decision(True)


@pytest.mark.parametrize("said", ["false", '"false"', '"no"'])
def test_false_never_ends_the_rounds(said: str) -> None:
    """A text that says false counts as true in many languages."""
    assert not parse_decision(f'{{"terminate": {said}, "next_agent": "ben"}}').terminate


@given(st.text(max_size=400))
def test_any_text_is_understood_or_refused(text: str) -> None:
    with contextlib.suppress(NotUnderstood):
        assert parse_decision(text).next_agent or "true" in text or "yes" in text


_ANY: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from(["terminate", "next_agent", "instruction", "strategy", "why"]), _ANY),
    st.text(alphabet="ab \n`", max_size=20),
)
def test_an_object_is_understood_alike_with_and_without_words_around_it(
    said: dict[str, Any], words: str
) -> None:
    def parsed(given: Any) -> Any:
        try:
            return parse_decision(given)
        except NotUnderstood:
            return None

    assert parsed(words + json.dumps(said) + words) == parsed(json.dumps(said))
    assert parsed(said) == parsed(json.dumps(said)) or not said.keys() & {
        "terminate",
        "next_agent",
        "instruction",
        "strategy",
    }
