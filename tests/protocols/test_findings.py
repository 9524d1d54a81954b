"""When two findings say the same: spelling is looked through, and nothing else is (I40)."""

from __future__ import annotations

import string

import pytest
from blackboard_mcp.protocols.findings import fingerprint, normal_form
from hypothesis import given
from hypothesis import strategies as st

words = st.sampled_from(
    [
        *("the", "pool", "holds", "connections", "and", "queries", "wait"),
        *("until", "latency", "of", "reads", "falls", "under", "load"),
    ]
)
units = st.sampled_from(["ms", "MW", "mW", "Mb", "MB", "kB", "s", "S", "GiB", "mmol", "%", "°C"])
numbers = st.one_of(st.integers(0, 10**6).map(str), st.decimals(0, 100, places=2).map(str))
measures = st.tuples(numbers, units).map(" ".join)
sentences = st.lists(st.one_of(words, words, words, measures), min_size=3, max_size=12).map(" ".join)


@given(sentences, st.sampled_from([" ", "  ", "\n", "\t", "\u00a0", "\r\n  "]), st.booleans())
def test_white_space_and_a_full_stop_at_the_end_say_nothing(text: str, space: str, stop: bool) -> None:
    respelt = space + text.replace(" ", space) + ("." if stop else "") + space
    assert normal_form(respelt) == normal_form(text)
    assert fingerprint(respelt) == fingerprint(text)


@given(st.lists(words, min_size=1, max_size=12), st.data())
def test_the_case_of_plain_words_says_nothing(said: list[str], data: st.DataObject) -> None:
    cases = [
        data.draw(st.sampled_from([str.lower, str.capitalize, *([str.upper] if len(word) > 3 else [])]))
        for word in said
    ]
    respelt = " ".join(case(word) for case, word in zip(cases, said, strict=True))
    assert normal_form(respelt) == normal_form(" ".join(said))


@given(sentences, st.data())
def test_a_word_more_or_less_is_another_finding(text: str, data: st.DataObject) -> None:
    parts = text.split()
    place = data.draw(st.integers(0, len(parts)))
    more = data.draw(st.sampled_from(["not", "no", "never", "hardly", "0", "−", "?", "x"]))
    assert normal_form(" ".join([*parts[:place], more, *parts[place:]])) != normal_form(text)
    if place < len(parts):
        assert normal_form(" ".join(parts[:place] + parts[place + 1 :])) != normal_form(text)


@given(sentences, st.data())
def test_another_digit_sign_or_mark_is_another_finding(text: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(text)))
    sign = data.draw(st.sampled_from([*string.digits, *"?!-+=<>≠≤*/%,:;²³½₂'\"()[]~^|&#@$€"]))
    assert normal_form(text[:place] + sign + text[place:]) != normal_form(text)


@given(sentences, numbers, units, units)
def test_another_unit_is_another_finding(text: str, number: str, one: str, other: str) -> None:
    said, differs = f"{text} {number} {one}", f"{text} {number} {other}"
    assert (normal_form(said) == normal_form(differs)) == (one == other)


@given(st.text(max_size=200))
def test_a_normal_form_has_no_space_around_it_and_keeps_what_is_no_space(text: str) -> None:
    form = normal_form(text)
    assert form == form.strip()
    assert bool(form) == bool(text.split())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("It takes 5 mW", "It takes 5 MW"),
        ("It takes 5mW", "It takes 5MW"),
        ("It grew to 10²", "It grew to 102"),
        ("Half of it: ½", "Half of it: 1⁄2"),
        ("H₂ burns", "H2 burns"),
        ("x equals y", "X equals y"),
        ("call getUser", "call getuser"),
        ("wait …?", "wait ..."),
        ("Version 1..", "Version 1."),
        ("in Maßen", "in Massen"),
        ("a ≠ b", "a = b"),
        ("ℝ is complete", "R is complete"),
        ("zero\u200bwidth", "zerowidth"),
        ("See https://x.io/Docs/readme", "See https://x.io/docs/README"),
        ("The flag --Force works", "The flag --force works"),
        ("Foo.bar is null", "foo.bar is null"),
        ("set Path=/bin", "set PATH=/bin"),
        ("The sample holds Co", "The sample holds CO"),
        ("Links are sold in Mb", "Links are sold in MB"),
        ("The delimiter is '\t'", "The delimiter is ' '"),
        ("`a  b` fails", "`a b` fails"),
        ("`Null` is returned", "`null` is returned"),
        ("if a:\n    b()\nc()", "if a:\n    b()\n    c()"),
        ("a:\n  b: 1\n  c: 2", "a:\nb: 1\nc: 2"),
        ("```\na:\n  b: 1\nc: 2\n```", "```\na:\n  b: 1\n  c: 2\n```"),
        ("The path is .", "The path is"),
        ("ϕ is 3", "φ is 3"),
    ],
)
def test_what_only_looks_the_same_differs(one: str, other: str) -> None:
    assert normal_form(one) != normal_form(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The pool is full.", "the pool is FULL"),
        ("THE POOL IS FULL", "The pool is full."),
        ('He said: "It Failed".', 'he said: "it failed"'),
        ("It fails:\nthe pool is full.", "it fails: the pool is full"),
        (" The  pool\n  is   full\n  again. ", "The pool is full again"),
        ("five５", "five5"),
        ("ﬁle", "file"),
        ("caf\u00e9", "cafe\u0301"),
        ("Тест не прошёл.", "тест не прошёл"),
    ],
)
def test_what_is_spelt_differently_is_the_same(one: str, other: str) -> None:
    assert normal_form(one) == normal_form(other)
