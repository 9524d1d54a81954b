"""What sentences and numbers summaries see in a text."""

from __future__ import annotations

from collections.abc import Callable

from blackboard_mcp.protocols.items import Item
from blackboard_mcp.server.pruning.summaries.sentences import numbers, sentences

Make = Callable[..., Item]


def test_code_headings_and_markdown_signs_are_left_out(make_item: Make) -> None:
    text = "## Plan\n**Bold** claim with a [link](http://x.y). Second!\n```py\nx = 1\n```\n- one\n- two\n\nTERMINATE"
    assert list(sentences(make_item(1, text))) == ["Bold claim with a link.", "Second!", "one", "two"]


def test_html_is_left_out_of_a_sentence(make_item: Make) -> None:
    assert list(sentences(make_item(1, "It is <b>done</b> <img src=x> now."))) == ["It is done now."]


def test_a_short_list_goes_with_the_line_that_announces_it(make_item: Make) -> None:
    text = "The figures were:\n- Seattle: 737,015\n- Colville: 4,965"
    assert list(sentences(make_item(1, text))) == ["The figures were: Seattle: 737,015; Colville: 4,965"]


def test_numbers_are_read_without_separators_ids_list_marks_and_code() -> None:
    assert numbers("1. take 1,250 of F-12\n```\n99\n```\n2. v2.3 at 10:30") == ["1250", "2.3", "10:30"]


def test_a_verdict_on_what_a_letter_names_ends_there_and_an_initial_ends_nothing(make_item: Make) -> None:
    text = "No contradiction with A. The paper of J. Smith says so."
    assert list(sentences(make_item(1, text))) == [
        "No contradiction with A.",
        "The paper of J. Smith says so.",
    ]


def test_a_list_in_a_list_is_announced_by_its_own_line(make_item: Make) -> None:
    text = "Found:\n- Blue pieces:\n- eight edges\n- four corners"
    assert list(sentences(make_item(1, text))) == ["Found: Blue pieces: eight edges; four corners"]
