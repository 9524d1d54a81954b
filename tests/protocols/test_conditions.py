"""Conditions: what they mean, where errors are, and that reading them always ends."""

import pytest
from blackboard_mcp.protocols.conditions import (
    FALSE,
    MAX_CONDITION,
    MAX_TERMS,
    TRUE,
    Condition,
    Count,
    mentions,
    parse_condition,
    render,
)
from blackboard_mcp.protocols.errors import InvalidInput
from hypothesis import given
from hypothesis import strategies as st

_NAMES = st.text(
    st.characters(exclude_characters='"', exclude_categories=["C"]), min_size=1, max_size=8
).filter(str.strip)
_COUNTS = st.builds(
    Count,
    st.sampled_from([">=", "<=", "==", ">", "<"]),
    st.integers(0, 1_000_000),
    type=st.sampled_from(["", "FACT", "HOT_ISSUE"]),
    tag=st.just("") | _NAMES,
    status=st.sampled_from(["", "ACTIVE"]),
    author=st.just("") | _NAMES,
)
_TERMS = st.one_of(
    st.sampled_from([TRUE, FALSE, Condition("no_open_debates")]),
    st.builds(Condition, st.sampled_from(["task", "stage"]), number=st.integers(1, 10**9)),
    st.builds(Condition, st.sampled_from(["exists", "flag", "milestone"]), name=_NAMES),
    st.builds(Condition, st.just("count"), count=_COUNTS),
)


def _joined(kind: str, parts: list[Condition]) -> Condition:
    """Returns the parts joined as the parser joins them: `and` within `and` is one."""
    flat = [inner for part in parts for inner in (part.parts if part.kind == kind else (part,))]
    return Condition(kind, tuple(flat))  # type: ignore[arg-type]


_CONDITIONS = st.recursive(
    _TERMS,
    lambda inner: st.one_of(
        st.builds(lambda part: Condition("not", (part,)), inner),
        st.builds(_joined, st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3)),
    ),
    max_leaves=6,
)


@given(_CONDITIONS)
def test_a_condition_is_read_from_its_own_text(condition: Condition) -> None:
    text = render(condition)
    if len(text) <= MAX_CONDITION:
        assert parse_condition(text) == condition


@given(st.text(st.sampled_from('done(T-1) G2"=<>,andortcuflgx é\x00\n'), max_size=MAX_CONDITION))
def test_every_text_is_read_or_refused(text: str) -> None:
    try:
        condition = parse_condition(text)
    except InvalidInput:
        return
    again = render(condition)
    assert len(again) > MAX_CONDITION or parse_condition(again) == condition


def test_and_binds_more_than_or() -> None:
    a, b, c = (Condition("flag", name=name) for name in "abc")
    assert parse_condition("flag(a) or flag(b) and flag(c)") == Condition("or", (a, Condition("and", (b, c))))
    assert parse_condition("(flag(a) or flag(b)) and flag(c)") == Condition(
        "and", (Condition("or", (a, b)), c)
    )
    assert parse_condition("not flag(a) and flag(b)") == Condition("and", (Condition("not", (a,)), b))


@pytest.mark.parametrize("text", ["done(T-3)", "done(P-3)", "done(3)", "done(t3)"])
def test_any_letter_but_g_names_a_task(text: str) -> None:
    assert parse_condition(text) == Condition("task", number=3)


def test_a_name_of_several_words_needs_no_quotes() -> None:
    assert parse_condition("milestone(all  done) and flag(go)") == parse_condition(
        'milestone("all done") and flag(go)'
    )


def test_a_condition_mentions_what_it_looks_at() -> None:
    text = (
        'done(T-3) or done(G-2) or count(type=fact) >= 2 or exists(plan) or flag(go) or milestone("beta 1") '
        "or not (no_open_debates() and true)"
    )
    assert mentions(parse_condition(text)) == {
        "task:3", "stage:2", "items:FACT", "key:plan", "flag:go", "milestone:beta 1", "debates",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "character 1: a condition belongs here, not its end"),
        ("flag(a) flag(b)", "character 9: 'and', 'or' or the end belongs here"),
        ("flag(a", "character 7: ')' belongs here, not its end"),
        ('flag("a)', "character 6: a quote is not closed here"),
        ("done(soon)", "character 6: done() takes the id"),
        ("done(T-0)", "character 6: done() takes the id"),
        ("count(type=NOVEL) > 1", "character 12: type is one of FACT"),
        ("count(size=1) > 1", "character 7: count() takes each of"),
        ("count(tag=a, tag=b) > 1", "character 14: count() takes each of"),
        ("count() is 1", "character 9: a comparison"),
        ("count() > -1", "character 11: a number from 0"),
        ("not " * 30 + "true", "more than 20 parentheses"),
        ("(" * 400, "more than 20 parentheses"),
        (" and ".join(["true"] * (MAX_TERMS + 1)), "more than 20 terms"),
        ("x" * (MAX_CONDITION + 1), "501 characters; 500 are allowed"),
    ],
)
def test_an_error_names_the_place(text: str, told: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse_condition(text)
    assert told in str(raised.value)


def test_the_longest_conditions_are_read() -> None:
    assert len(parse_condition(" and ".join(["true"] * MAX_TERMS)).parts) == MAX_TERMS


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("count() > 1", "items"),
        ("count(type=FACT) > 1", "items:FACT"),
        ("count(type=FACT, author=ann) > 1", "author:ann"),
        ("count(tag=x, author=ann, status=ACTIVE) > 1", "tag:x"),
    ],
)
def test_a_count_mentions_the_rarest_of_its_values(text: str, term: str) -> None:
    assert mentions(parse_condition(text)) == {term}
