"""Counting tokens."""

from __future__ import annotations

import asyncio
import random
import sys
import threading
import tracemalloc
import types
from typing import Any

import pytest
from blackboard_mcp.protocols.errors import InvalidInput, Refused
from blackboard_mcp.server.text import tokens
from blackboard_mcp.server.text.tokens import PIECE, VOCABULARIES, BpeTokenizer, load_tokenizer, pieces
from counting import PROPORTION, growth, lines_of
from hypothesis import given
from hypothesis import strategies as st

HOSTILE = {
    "one letter": "a" * 200_000,
    "one dash": "-" * 200_000,
    "equals signs": "=" * 200_000,
    "spaces": " " * 200_000,
    "line ends": "\n" * 200_000,
    "tabs and bars": "|\t" * 100_000,
    "no spaces": "".join(chr(33 + (i * i * 7919 + i) % 94) for i in range(200_000)),
    "dashes of many lengths": "".join("-" * (i % 997) + "x" for i in range(400)),
    "combining marks": "e" + "\u0301" * 199_999,
    "zero width joiners": "\u200d" * 200_000,
    "astral": "".join(chr(0x10000 + (i * 7919) % 0xFFFF) for i in range(200_000)),
    "rare letter": "\u1a5d" * 200_000,
    "lone surrogates": "\ud800" * 200_000,
}


def loaded(name: str) -> BpeTokenizer:
    """A tokenizer that has its whole vocabulary."""
    tokenizer = BpeTokenizer(name)
    tokenizer._load()
    return tokenizer


WHOLE = {name: loaded(name) for name in VOCABULARIES}


def test_an_installation_without_what_counts_tokens_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(Refused, match="tiktoken"):
        BpeTokenizer()


def test_the_empty_text_has_no_tokens() -> None:
    assert BpeTokenizer().count("") == 0


def test_counts_are_those_of_the_vocabulary() -> None:
    assert BpeTokenizer().count("hello world") == 2
    assert BpeTokenizer("cl100k_base").count("hello world") == 2
    assert BpeTokenizer().name == "o200k_base"


COUNTED = {
    "": (0, 0),
    "The guard holds every item of an open debate.": (10, 10),
    "I'LL say: it's 12345 at 09:30,\r\n\tIsn’t it?": (20, 21),
    "Größe naïve ΑΒΓ привет, мир": (10, 16),
    "漢字かな交じり文 한국어 हिन्दी": (10, 19),
    "🙂👍🏽👨\u200d👩\u200d👧": (12, 21),
    "def f(x):\n    return x  # a/b\n\n\n": (12, 12),
    "AaBBbCcc HTTPServer_x2 e\u0301": (11, 12),
    " \u00a0\u3000\u2028  x": (5, 6),
}


@pytest.mark.parametrize("text", COUNTED)
def test_counts_are_those_of_the_published_vocabularies(text: str) -> None:
    """The figures are those of another implementation (rs-bpe 0.1.0)."""
    assert (BpeTokenizer().count(text), BpeTokenizer("cl100k_base").count(text)) == COUNTED[text]
    assert (WHOLE["o200k_base"].count(text), WHOLE["cl100k_base"].count(text)) == COUNTED[text]


@given(st.text(max_size=200) | st.lists(st.sampled_from(sorted(COUNTED)), max_size=3).map("".join))
@pytest.mark.parametrize("name", VOCABULARIES)
def test_first_texts_count_what_they_do_later_and_load_no_whole_vocabulary(name: str, text: str) -> None:
    tokenizer = BpeTokenizer(name)
    assert tokenizer.count(text) == WHOLE[name].count(text)
    short = len(text.encode("utf-8", "replace")) <= 256
    assert (tokenizer._core is None) == short


def test_the_whole_vocabulary_is_loaded_for_a_text_after_the_first_few() -> None:
    tokenizer = BpeTokenizer()
    counts = [tokenizer.count(f"text {number}") for number in range(9)]
    assert set(counts) == {3}
    assert tokenizer._core is not None


def test_a_loaded_vocabulary_keeps_no_copy_in_python() -> None:
    """The copy of 200,000 tokens, with their ranks, takes 25 MB beside what tiktoken counts by."""
    tokens.encoding.cache_clear()
    tracemalloc.start()
    try:
        assert BpeTokenizer().count("hello world " * 100) == 201
        assert tracemalloc.get_traced_memory()[0] < 2_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", VOCABULARIES)
def test_lines_count_what_they_do_when_joined(name: str) -> None:
    dice, counter = random.Random(7), BpeTokenizer(name)
    parts = [
        "\n",
        "\r",
        " ",
        "  ",
        "\t",
        "\x1c",
        "\x85",
        "\u2028",
        "\ud800",
        "/",
        ".",
        ">",
        "> ",
        "…",
        "·",
        "'s",
        "'",
    ]
    parts += ["a", "Z", "é", "\u0301", "数", "🙂", "9", "1234", "_", " x", "S-", "F-300 by ann", "word " * 60]
    for _ in range(3_000):
        text = "".join(dice.choices(parts, k=dice.randrange(30)))
        assert counter.count_lines(text.split("\n")) == counter.count(text)
    long = "F-1 by ann: the pump leaks\n/\n" * 600
    assert counter.count_lines(long.split("\n")) == counter.count(long)
    assert counter.count_lines([]) == 0


def test_a_text_in_pieces_counts_what_the_whole_would() -> None:
    text = "The guard holds every item of an open debate, and views show it.\n" * 1_000
    core = BpeTokenizer()._load()
    assert BpeTokenizer().count(text) == core.count(text)


@given(st.text(alphabet=st.sampled_from("ab \n-é漢"), max_size=200), st.integers(1, 400))
def test_pieces_are_bounded_and_join_to_the_text(seed: str, times: int) -> None:
    text = seed * times
    parts = list(pieces(text))
    assert "".join(parts) == text
    assert all(len(part) <= PIECE for part in parts)


class Handed:
    """A vocabulary that keeps what it is given to count."""

    def __init__(self, core: Any) -> None:
        self.core = core
        self.texts: list[str] = []

    def count(self, text: str) -> int:
        found = int(self.core.count(text))
        self.texts.append(text)
        return found


@pytest.mark.parametrize("name", HOSTILE)
def test_a_long_text_is_counted_in_short_pieces_each_of_them_once(name: str) -> None:
    text = HOSTILE[name]
    tokenizer = BpeTokenizer()
    tokenizer._core = handed = Handed(tokenizer._load())
    assert 0 < tokenizer.count(text) <= 4 * len(text)
    assert max(map(len, handed.texts)) <= PIECE
    assert sum(map(len, handed.texts)) <= len(text)
    assert len(handed.texts) == len(set(handed.texts))
    assert growth(lambda size: lines_of(lambda: tokenizer.count(text[:size])), len(text) // 4) < PROPORTION


def test_equal_long_texts_count_equal_on_many_threads() -> None:
    tokenizer = BpeTokenizer()
    text = "a thread of agents " * 5_000
    counts: list[int] = []
    threads = [threading.Thread(target=lambda: counts.append(tokenizer.count(text))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(counts) == 8
    assert len(set(counts)) == 1


def test_the_built_in_vocabularies_load_by_name() -> None:
    assert load_tokenizer("o200k_base").name == "o200k_base"
    assert load_tokenizer("cl100k_base").name == "cl100k_base"


class _Words:
    name = "words"

    def count(self, text: str) -> int:
        return len(text.split())


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType("own_tokens")
    module.Words = _Words  # type: ignore[attr-defined]
    module.words = _Words()  # type: ignore[attr-defined]
    module.make = lambda: _Words()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "own_tokens", module)
    load_tokenizer.cache_clear()
    return module


@pytest.mark.parametrize("attribute", ["Words", "words", "make"])
def test_a_users_own_tokenizer_loads_by_import_path(own: types.ModuleType, attribute: str) -> None:
    tokenizer = load_tokenizer(f"own_tokens:{attribute}")
    assert (tokenizer.name, tokenizer.count("two words")) == ("words", 2)


@pytest.mark.parametrize(
    ("count", "lesson"),
    [
        (lambda text: 1, "empty text"),
        (lambda text: 0, "above 0"),
        (lambda text: 1.5, "whole number"),
        (lambda text: text / 2, "failed to count"),
        (lambda text: sys.exit(), "it raised SystemExit"),
        (lambda text: -1 if text else 0, "counted -1 tokens"),
        (None, "count"),
    ],
)
def test_a_tokenizer_that_does_not_count_is_refused_with_the_reason(
    own: types.ModuleType, count: object, lesson: str
) -> None:
    own.broken = types.SimpleNamespace(name="broken", count=count)  # type: ignore[attr-defined]
    with pytest.raises(InvalidInput, match=lesson):
        load_tokenizer("own_tokens:broken")


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (-5, "counted -5 tokens in 9 characters: 0 to 190 can be"),
        (191, "counted 191 tokens in 9 characters"),
        (10**4_000, "counted a number of more than 18 digits tokens"),
        (2.5, "counted 2.5: a count is a whole number"),
        (float("nan"), "counted nan: a count is a whole number"),
        (True, "counted True: a count is a whole number"),
        (None, "counted None: a count is a whole number"),
        ("12", "counted '12': a count is a whole number"),
        (ValueError("secret"), "it raised ValueError"),
        (SystemExit(3), "it raised SystemExit"),
        (asyncio.CancelledError(), "it raised CancelledError"),
    ],
)
def test_a_text_that_a_users_own_tokenizer_does_not_count_is_counted_by_the_default_and_that_is_told_once(
    own: types.ModuleType, caplog: pytest.LogCaptureFixture, count: object, words: str
) -> None:
    class Odd(_Words):
        def count(self, text: str) -> int:
            if "odd" not in text:
                return super().count(text)
            if isinstance(count, BaseException):
                raise count
            return count  # type: ignore[return-value]

    own.Odd = Odd  # type: ignore[attr-defined]
    tokenizer = load_tokenizer("own_tokens:Odd")
    default = load_tokenizer("o200k_base").count
    assert tokenizer.count("odd texts") == default("odd texts")
    assert tokenizer.count("odd words") == default("odd words")
    assert tokenizer.count("two more texts") == 3
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith("tokenizer 'own_tokens:Odd' ")
    assert words in told
    assert "secret" not in told


@pytest.mark.parametrize(
    "name",
    ["", "gpt-99", "no_such_module_here:thing", "json:nothing", "json:dumps", "os:sep", "a b:c", "x" * 999],
)
def test_an_unknown_tokenizer_is_refused_and_nothing_else_leaves(name: str) -> None:
    with pytest.raises(InvalidInput):
        load_tokenizer(name)
