from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from blackboard_mcp.storage.lance.stemming import stem
from blackboard_mcp.storage.lance.words import WINDOW_WORDS, windows, words
from hypothesis import given
from hypothesis import strategies as st
from patience import RUN


def test_a_stem_loads_the_stemmer_of_one_language_and_leaves_the_package_whole() -> None:
    script = """
import sys
from blackboard_mcp.storage.lance.stemming import stem

print(stem("possibly"), len([name for name in sys.modules if name.startswith("snowballstemmer")]))
import snowballstemmer
print(snowballstemmer.stemmer("german").stemWord("kleinste"), "english" in snowballstemmer.algorithms())
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=RUN, check=True
    )
    assert done.stdout.split("\n")[:2] == ["possibli 4", "klein True"]


@pytest.mark.parametrize(
    ("word", "stemmed"),
    [
        ("caresses", "caress"),
        ("ponies", "poni"),
        ("cats", "cat"),
        ("agreed", "agre"),
        ("plastered", "plaster"),
        ("motoring", "motor"),
        ("sing", "sing"),
        ("conflated", "conflat"),
        ("hopping", "hop"),
        ("falling", "fall"),
        ("filing", "file"),
        ("happy", "happi"),
        ("relational", "relat"),
        ("digitizer", "digit"),
        ("triplicate", "triplic"),
        ("adjustable", "adjust"),
        ("adoption", "adopt"),
        ("controlling", "control"),
        ("generalizations", "gener"),
        ("oscillators", "oscil"),
        ("possibly", "possibli"),
        ("topology", "topologi"),
        ("v2", "v2"),
        ("ms", "ms"),
    ],
)
def test_stems_are_those_of_the_published_algorithm(word: str, stemmed: str) -> None:
    assert stem(word) == stemmed


def test_threads_get_the_same_stems() -> None:
    asked = ["generalizations", "oscillators", "relational", "controlling"] * 200
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(3) as threads:
            stems = [list(threads.map(stem.__wrapped__, asked)) for _ in range(3)]
    finally:
        sys.setswitchinterval(interval)
    assert stems == [["gener", "oscil", "relat", "control"] * 200] * 3


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("see parser_v2.", "=parser_v2"),
        ("in src/core/parser_v2.py:42!", "=src/core/parser_v2.py:42"),
        ("in src/core/parser_v2.py:42!", "=parser_v2.py"),
        ("in src/core/parser_v2.py:42!", "=parser_v2"),
        ("fixes (#4711)", "=#4711"),
        ("as D-12 says", "=d-12"),
        ("org.apache.Foo_bar failed", "=foo_bar"),
        ("C:\\temp\\my_file.txt", "=my_file.txt"),
    ],
)
def test_an_identifier_is_a_word_of_its_own(text: str, name: str) -> None:
    assert name in words(text)


def test_parts_of_camel_case_are_found_alone() -> None:
    assert {"block", "locat"} <= set(words("getBlockLocations"))


def test_text_without_spaces_between_words_is_cut_into_pairs() -> None:
    assert set(words("検索")) & set(words("全文検索機能"))


@given(st.text(max_size=300))
def test_no_word_carries_white_space_or_grows_long(text: str) -> None:
    for word in words(text):
        assert word
        assert word == "".join(word.split())
        assert len(word) <= 65


@given(st.integers(0, 1000))
def test_windows_overlap_cover_every_word_and_know_their_place(count: int) -> None:
    text = " ".join(f"w{i}" for i in range(count))
    cut = windows(text)
    assert {w for part in cut for w in part.text.split()} == set(text.split())
    assert all(len(part.text.split()) <= WINDOW_WORDS for part in cut)
    assert all(text.startswith(part.text, part.start) for part in cut)
    for before, after in pairwise(cut):
        assert set(before.text.split()) & set(after.text.split())
