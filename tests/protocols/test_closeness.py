"""Closeness of findings: other words for the same are close; other numbers and negations are not; none is missed."""

from __future__ import annotations

import pytest
from blackboard_mcp.protocols.closeness import are_close, beginnings, telling
from hypothesis import given
from hypothesis import strategies as st

WORDS = st.sampled_from([f"{first}{second}word" for first in "bcdfgh" for second in "klmnp"])
TEXTS = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The outage was caused by the connection pool", "Connection pools cause outages"),
        ("Retries double the load on the orders table", "retries DOUBLE the orders table's load!"),
        ("Latency rose to 340 ms on host h3", "On host h3 the latency rises to 340 ms"),
        ("The cache isn't cleared on logout", "Logout does not clear the cache"),
    ],
)
def test_other_words_for_the_same_are_close(one: str, other: str) -> None:
    assert are_close(one, other)
    assert are_close(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Latency rose to 340 ms on host h3", "Latency rose to 341 ms on host h3"),
        ("The cache is cleared on logout", "The cache isn't cleared on logout"),
        ("The cache is cleared on logout", "Without logout the cache is cleared"),
        ("The index is used by the search page", "The search page shows part numbers with hyphens"),
        ("it was", "it was"),
        ("the pool", "the pool"),
        ("", ""),
    ],
)
def test_what_says_something_else_or_too_little_is_not_close(one: str, other: str) -> None:
    assert not are_close(one, other)
    assert not are_close(other, one)


def test_words_count_by_their_beginnings_and_the_longest_come_first() -> None:
    said = "Causes caused causing: a class of classes, and a pass"
    assert beginnings(said) == ("class", "caus", "pass")
    assert beginnings("a class, and a pass") == ()


@given(TEXTS, TEXTS)
def test_close_texts_share_a_telling_word(one: str, other: str) -> None:
    if are_close(one, other):
        assert set(telling(one)) & set(telling(other))
    assert len(telling(one)) <= len(beginnings(one)) // 2 + 1
