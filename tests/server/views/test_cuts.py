"""How much of a text a line shows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from blackboard_mcp.protocols.items import Item, ItemType
from blackboard_mcp.server.views.cuts import SENTENCE, few_lines, opening, prose, sentences
from viewing import BPE, line_of, snapshot, view

Make = Callable[..., Item]
LONG = "Then the second part of the story goes on for a good while and does not end so soon as one thought it would."


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Short and whole.", "Short and whole."),
        ("Two. Sentences.", "Two. Sentences."),
        (f"It fails since Tuesday. {LONG} {LONG}", "It fails since Tuesday. …"),
        (f"Version 3.51.3 is needed, e.g. here. {LONG} {LONG}", "Version 3.51.3 is needed, e.g. here. …"),
        (f"Steps: 1. look 2. decide. {LONG} {LONG}", "Steps: 1. look 2. decide. …"),
        (f"Is it the clock? {LONG} {LONG}", "Is it the clock? …"),
        (
            f"第一句话在这里结束。{'第二句话更长。' * 30}",
            "第一句话在这里结束。第二句话更长。第二句话更长。第二句话更长。 …",
        ),
    ],
)
def test_whole_sentences_come_first(text: str, told: str) -> None:
    assert sentences(text, BPE) == told


def test_a_first_sentence_that_is_too_long_is_cut_between_words() -> None:
    told = sentences("word " * 500, BPE)
    assert told.endswith("word…")
    assert BPE.count(told) <= SENTENCE + 8


def test_a_first_sentence_a_little_too_long_stays_whole() -> None:
    first = "The sheet of the awning company has a client on each line and the street address in its third column."
    assert BPE.count(first) in range(SENTENCE - 2, 45)
    assert sentences(f"{first} {LONG}", BPE) == f"{first} …"


def test_a_longer_opening_ends_with_a_sentence_where_one_is_near() -> None:
    assert opening(f"{LONG} {LONG} {LONG}", 60, BPE) == f"{LONG} {LONG} …"


def test_of_code_the_words_before_it_are_shown(make_item: Make) -> None:
    item = make_item(1, "Run this:\n```python\n" + "print(1)\n" * 40 + "```\nDone.", ItemType.HYPOTHESIS)
    assert prose(item) == "Run this:\n"
    shown = view(snapshot(item))
    assert line_of(shown, "H-1").endswith(": Run this: …")
    assert shown.excerpts == ("H-1",)
    assert "print" not in shown.text


def test_output_is_cut_at_three_lines_with_the_call_that_reads_on(make_item: Make) -> None:
    text = (
        "exitcode: 1\n" + "".join(f'  File "a.py", line {n}\n' for n in range(40)) + "ValueError: no coupon\n"
    )
    shown = view(snapshot(make_item(1, text, ItemType.LOG)))
    lines = shown.text.split("\n")
    place = lines.index(line_of(shown, "L-1"))
    assert lines[place].endswith(', 3 of 43 lines (all: read(ids=["L-1"])): (text behind ">")')
    assert lines[place + 1 : place + 4] == [
        "> exitcode: 1",
        '> File "a.py", line 0',
        "> ValueError: no coupon",
    ]


def test_lines_of_output_are_cut_where_they_are_long(make_item: Make) -> None:
    lines, count = few_lines(make_item(1, "x" * 5_000 + "\ny\nz\n\n\nw", ItemType.LOG))
    assert count == 6
    assert len(lines[0]) < 120
    assert lines[1:] == ["> y", "> w"]


def test_of_output_no_fence_is_shown(make_item: Make) -> None:
    lines = view(snapshot(make_item(1, "```\na\nb\nc\nd\n```", ItemType.LOG, importance=5))).text.split("\n")
    assert [line for line in lines if line.startswith(">")] == ["> a", "> b", "> d"]
    assert "3 of 6 lines" in "".join(lines)
    bare = view(snapshot(make_item(1, "```\n```\n```\n```", ItemType.LOG))).text
    assert "> ```\n> ```\n> ```" in bare
