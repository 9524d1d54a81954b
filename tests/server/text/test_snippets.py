from __future__ import annotations

import pytest
from blackboard_mcp.server.text.snippets import WIDTH, excerpt, held_words
from hypothesis import given
from hypothesis import strategies as st

FILLER = "The weekly meeting went over the usual list of points without any result. " * 400
MIDDLE = "The turbine overheats because the coolant valve sticks below freezing."


def test_a_long_text_shows_the_sentence_that_answers() -> None:
    for start in (None, len(FILLER) - 300):
        found = excerpt(f"{FILLER}{MIDDLE} {FILLER}", "why do coolant valves stick?", start)
        assert found is not None
        assert "coolant valve sticks" in found[:WIDTH]
        assert found.startswith("…")


def test_a_hit_by_meaning_shows_where_it_was_found() -> None:
    text = f"{FILLER}{MIDDLE} {FILLER}"
    found = excerpt(text, "machinery getting hot", len(FILLER))
    assert found is not None
    assert MIDDLE in found


def test_the_stretch_with_most_different_words_wins() -> None:
    text = f"valve valve valve {FILLER} valve alone {FILLER} coolant valve frost {FILLER}"
    found = excerpt(text, "frost in the coolant valve")
    assert found is not None
    assert "coolant valve frost" in found


def test_where_the_beginning_is_as_good_nothing_is_cut() -> None:
    assert excerpt("short", "short") is None
    assert excerpt(MIDDLE + " " + FILLER, "coolant valve", 0) is None
    assert excerpt(FILLER, "nothing of it") is None
    assert excerpt(FILLER, "the of and ?!") is None


@given(st.text(max_size=2000), st.text(max_size=50), st.one_of(st.none(), st.integers(-5, 3000)))
def test_an_excerpt_is_always_a_bounded_part_of_the_text(text: str, query: str, start: int | None) -> None:
    found = excerpt(text, query, start)
    assert found is None or (found[0] == "…" and found[1:] in text and len(found) <= 4 * WIDTH + 1)


@pytest.mark.parametrize(
    ("query", "held"),
    [
        ("Why does the pump leak?", (2, 2)),
        ("pumps leaking in Oslo", (2, 3)),
        ("leak", (1, 1)),
        ("pump, tax and income of Norway", (1, 4)),
        ("xqzzy flurbnik", (0, 2)),
        ("what is it", None),
        ("ポンプは漏れていますか", None),
    ],
)
def test_a_text_holds_so_many_of_the_words_of_a_query(query: str, held: tuple[int, int] | None) -> None:
    assert held_words("The pump has leaked since Tuesday.", query) == held


def test_words_are_looked_for_where_a_hit_begins_too() -> None:
    text = f"{'nothing here ' * 2_000} the pump leaks"
    assert held_words(text, "pump leak") == (0, 2)
    assert held_words(text, "pump leak", len(text) - 100) == (2, 2)
