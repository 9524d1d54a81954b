from __future__ import annotations

import random

from blackboard_mcp.storage.lance.fusion import Candidate, Corpus, full_text, fuse
from hypothesis import given
from hypothesis import strategies as st

CORPUS = Corpus(documents=100, mean_length=4.0, holding={"rare": 1, "common": 80})


def candidate(
    number: int, *windows: str, cosine: float | None = None, thread: int | None = None
) -> Candidate:
    own = number * 10 if thread is None else thread
    return Candidate(number * 10, own, tuple(w.split() for w in windows), cosine)


def test_rare_words_weigh_more_than_common_ones() -> None:
    hits = fuse([candidate(1, "common x"), candidate(2, "rare x")], ["rare", "common"], CORPUS, depth=10)
    assert [h.number for h in hits] == [20, 10]


def test_a_document_scores_by_its_best_window() -> None:
    several = candidate(1, "x y z", "rare", "y y y")
    assert full_text(several, ["rare"], CORPUS) == full_text(candidate(2, "rare"), ["rare"], CORPUS)


def test_a_single_full_text_hit_keeps_its_whole_weight() -> None:
    hits = fuse([candidate(1, "rare", cosine=0.1), candidate(2, "x", cosine=0.9)], ["rare"], CORPUS, depth=10)
    assert hits[0].number == 10
    assert hits[0].score == 0.75


def test_without_cosines_full_text_decides_alone() -> None:
    assert fuse([candidate(1, "rare")], ["rare"], CORPUS, depth=10)[0].score == 1.0


def test_what_matches_nothing_is_left_out() -> None:
    assert fuse([candidate(1, "x")], ["rare"], CORPUS, depth=10) == []
    assert fuse([], ["rare"], CORPUS, depth=10) == []


def test_a_hit_lifts_its_neighbours_in_the_thread() -> None:
    found = [
        candidate(1, "rare rare", thread=1),
        candidate(2, "common x", thread=1),
        candidate(3, "common x", thread=3),
    ]
    hits = fuse(found, ["rare", "common"], CORPUS, depth=10)
    assert [h.number for h in hits] == [10, 20, 30]
    assert hits[1].score > hits[2].score


def test_equal_scores_come_in_order_of_number() -> None:
    hits = fuse([candidate(n, "rare") for n in (3, 1, 2)], ["rare"], CORPUS, depth=10)
    assert [h.number for h in hits] == [10, 20, 30]


@given(
    st.lists(
        st.tuples(
            st.integers(1, 40),
            st.sampled_from(["rare x", "common", "x", "rare common"]),
            st.one_of(st.none(), st.floats(-1, 1)),
        ),
        unique_by=lambda t: t[0],
    ),
    st.randoms(use_true_random=False),
)
def test_the_order_of_the_candidates_does_not_matter(
    drawn: list[tuple[int, str, float | None]], chance: random.Random
) -> None:
    found = [Candidate(n, n % 3, (text.split(),), cosine) for n, text, cosine in drawn]
    shuffled = found[:]
    chance.shuffle(shuffled)
    words = ["rare", "common"]
    assert fuse(found, words, CORPUS, depth=5) == fuse(shuffled, words, CORPUS, depth=5)
