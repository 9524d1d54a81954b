"""Keys and globs: the grammar, matching against a naive oracle, and cost by construction."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator

import pytest
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.keys import (
    MAX_KEY,
    Glob,
    check_glob,
    check_key,
    compile_glob,
    glob_prefix,
    parse_key,
)
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    "key", ["a", "plan:step:3", "A_b-c.d/e@f#1", "ключ:値", "x" * MAX_KEY, "a:b:c:d:e", "0", ".", "-"]
)
def test_a_key_is_segments_joined_by_colons(key: str) -> None:
    assert check_key(key) == key
    assert check_glob(key) == key


@pytest.mark.parametrize(
    ("key", "named", "instead"),
    [
        ("", "empty", "plan:step:3"),
        ("  ", "empty", "plan:step:3"),
        ("a:*", "wildcard", "a"),
        ("plan:*:3", "wildcard", "plan:3"),
        ("**", "wildcard", "plan:step:3"),
        (":a", "begins or ends", "a"),
        ("a:", "begins or ends", "a"),
        (":", "begins or ends", "plan:step:3"),
        ("a::b", "empty segment", "a:b"),
        ("/plan:a", "absolute", "plan:a"),
        ("//main/plan", "absolute", "main/plan"),
        ("board://main/plan:a", 'absolute.*board="main"', "plan:a"),
        ("board://main/items/plan", "absolute", "plan"),
        ("https://host/x", "absolute", "host/x"),
        ("a@2", "like a version", "a"),
        ("a b", "' ' is none of", "a-b"),
        ("a\n", r"'\\n' is none of", "a"),
        ("a\x00b", "is none of", "a-b"),
        ("a\ud800b", r"'\\ud800' is none of", "a-b"),
        ("what?:is it", "is none of", "what:is-it"),
        ("a:[b]", "is none of", "a:b"),
    ],
)
def test_what_is_no_key_is_refused_by_its_mistake_with_what_to_write(
    key: str, named: str, instead: str
) -> None:
    with pytest.raises(InvalidInput, match=named) as told:
        check_key(key)
    assert told.value.facts["instead"] == instead
    assert f"write {instead}" in told.value.message
    assert "Nothing was changed" in told.value.message


def test_a_key_that_is_too_long_is_told_how_long_it_is() -> None:
    with pytest.raises(InvalidInput, match="201 characters; 200 are allowed"):
        check_key("x" * (MAX_KEY + 1))


@given(st.text("ab:/@*2- é\n.", max_size=12) | st.text(max_size=MAX_KEY + 5))
def test_every_text_is_a_key_or_is_told_of_one(text: str) -> None:
    told: InvalidInput | None = None
    try:
        assert check_key(text) == text
    except InvalidInput as error:
        told = error
    if told is not None:
        assert len(told.message) < 400
        assert told.message.isprintable()
        told.message.encode()
        if len(text) <= MAX_KEY:
            assert check_key(told.facts["instead"]) == told.facts["instead"]
    else:
        assert re.fullmatch(r"[\w\-./@#]+(:[\w\-./@#]+)*", text)
        assert not re.search(r"@[0-9]+\Z", text) or re.search(r"@[0-9]{10,}\Z", text)
        assert not text.startswith("/")
        assert compile_glob(text).matches(text)
        assert parse_key(text) == (text, None)
        assert parse_key(f"{text}@7") == (text, 7)


@pytest.mark.parametrize("glob", ["", "a b", "a?", "a[b]", "a\n", "x" * (MAX_KEY + 1), "{a,b}"])
def test_what_is_no_pattern_is_refused(glob: str) -> None:
    with pytest.raises(InvalidInput):
        check_glob(glob)


@pytest.mark.parametrize(
    ("glob", "matching", "other"),
    [
        ("a", ["a"], ["", "b", "aa", "a:a"]),
        ("a:*", ["a:", "a:b", "a:bc"], ["a", "a:b:c", "b:a", "aa:b"]),
        ("a:**", ["a:", "a:b", "a:b:c"], ["a", "ab:c"]),
        ("*", ["", "a", "abc"], ["a:b", ":"]),
        ("**", ["", "a", "a:b:c", ":"], []),
        ("***", ["", "a:b"], []),
        ("*:*", [":", "a:b"], ["a", "a:b:c"]),
        ("a*c", ["ac", "abc", "aabcc"], ["a:c", "ab", "acb"]),
        ("a**c", ["ac", "a:c", "a:b:c"], ["ab", "ca"]),
        ("**:c", [":c", "b:c", "a:b:c"], ["c", "a:c:d"]),
        ("*a*b*", ["ab", "xaybz"], ["ba", "a:b"]),
        ("a.b", ["a.b"], ["axb"]),
        ("A", ["A"], ["a"]),
    ],
)
def test_a_star_stays_in_its_segment_and_two_cross(glob: str, matching: list[str], other: list[str]) -> None:
    pattern = compile_glob(glob)
    assert [key for key in matching if not pattern.matches(key)] == []
    assert [key for key in other if pattern.matches(key)] == []


def naive(glob: str, key: str) -> bool:
    """The definition: every way to split the key, one after the other."""
    if not glob:
        return not key
    if glob.startswith("*"):
        stars = len(glob) - len(glob.lstrip("*"))
        rest = glob[stars:]
        for end in range(len(key) + 1):
            if stars == 1 and ":" in key[:end]:
                break
            if naive(rest, key[end:]):
                return True
        return False
    return key[:1] == glob[0] and naive(glob[1:], key[1:])


@given(st.text("ab:*", max_size=7), st.text("ab:", max_size=7))
def test_matching_is_as_the_definition_says(glob: str, key: str) -> None:
    assert Glob(glob).matches(key) == naive(glob, key)


@given(st.text("ab:*", max_size=7), st.text("ab:", max_size=7))
def test_every_match_begins_with_the_prefix_an_index_uses(glob: str, key: str) -> None:
    if Glob(glob).matches(key):
        assert key.startswith(glob_prefix(glob))


@given(st.text(string.ascii_letters + ":*_-", min_size=1, max_size=30))
def test_a_key_matches_itself_as_a_pattern(key: str) -> None:
    assert Glob(key).matches(key)


class Counted(str):
    """A key that counts how many of its characters were looked at."""

    looked: int

    def __iter__(self) -> Iterator[str]:
        for char in str.__iter__(self):
            self.looked = getattr(self, "looked", 0) + 1
            yield char


@pytest.mark.parametrize(
    "glob",
    [
        "*a" * 100,
        "**a" * 66,
        "a*" * 100,
        "*" * 200,
        ("*" * 3 + "a") * 50,
        "**:" * 66,
        "*" + "a" * 198 + "b",
        ("a*" * 99) + "b",
    ],
)
def test_a_pathological_pattern_looks_at_each_character_once(glob: str) -> None:
    pattern = Glob(check_glob(glob))
    states = [pattern._accept, pattern._within, pattern._cross, *pattern._literal.values()]
    assert max(state.bit_length() for state in states) <= len(glob) + 1
    for text in ("a" * MAX_KEY, "a:" * 100, "a" * 199 + "c", ":" * MAX_KEY):
        key = Counted(text)
        pattern.matches(key)
        assert key.looked <= len(key)


def test_many_patterns_do_not_fill_the_memory() -> None:
    for n in range(2_000):
        compile_glob(f"key:{n}:*")
    assert compile_glob.cache_info().currsize <= 512
