from __future__ import annotations

import random

from blackboard_mcp.storage.lance.fusion import Bm25, Corpus, FusionCandidate, Passage, Scored
from blackboard_mcp.storage.lance.fusion import fuse as fused
from hypothesis import given
from hypothesis import strategies as st

CORPUS = Corpus(windows=100, mean_length=4.0, holding={"rare": 1, "common": 80})
BM25 = Bm25(["rare", "common"], CORPUS)


def candidate(
    number: int, *windows: str, cosine: float | None = None, thread: int | None = None, asks: bool = False
) -> FusionCandidate:
    own = number * 10 if thread is None else thread
    passages = [BM25.passage(w.split(), 100 * place, cosine) for place, w in enumerate(windows)]
    return FusionCandidate(number * 10, own, tuple(passages), asks)


def fuse(found: list[FusionCandidate], *, depth: int) -> list[Scored]:
    return fused(found, BM25.weights, depth=depth)


def test_rare_words_weigh_more_than_common_ones() -> None:
    hits = fuse([candidate(1, "common x"), candidate(2, "rare x")], depth=10)
    assert [h.number for h in hits] == [20, 10]


def test_a_document_scores_by_its_best_window_and_names_its_beginning() -> None:
    several = candidate(1, "x y z", "rare", "y y y")
    hits = fuse([several, candidate(3, "rare")], depth=10)
    assert [(h.number, h.score, h.start) for h in hits] == [(10, 1.0, 100), (30, 1.0, 0)]


def test_the_best_window_is_that_of_both_engines_together() -> None:
    found = FusionCandidate(1, 1, (Passage(0.0, 0, 0.9), Passage(1.0, 100, 0.8), Passage(0.0, 200, 0.1)))
    other = FusionCandidate(5, 5, (Passage(0.0, 0, 0.0),))
    hits = fuse([found, other], depth=10)
    assert (hits[0].number, hits[0].start) == (1, 100)


def test_a_single_full_text_hit_keeps_its_whole_weight() -> None:
    hits = fuse([candidate(1, "rare", cosine=0.1), candidate(2, "x", cosine=0.9)], depth=10)
    assert hits[0].number == 10
    assert hits[0].score == 0.75


def test_without_cosines_full_text_decides_alone() -> None:
    assert fuse([candidate(1, "rare")], depth=10)[0].score == 1.0


def test_what_matches_nothing_is_left_out() -> None:
    assert fuse([candidate(1, "x")], depth=10) == []
    assert fuse([], depth=10) == []


def test_a_hit_lifts_its_neighbours_in_the_thread() -> None:
    found = [
        candidate(1, "rare rare", thread=1),
        candidate(2, "common x", thread=1),
        candidate(3, "common x", thread=3),
    ]
    hits = fuse(found, depth=10)
    assert [h.number for h in hits] == [10, 20, 30]
    assert hits[1].score > hits[2].score


def test_what_follows_a_hit_gains_more_than_what_stands_before_it_and_an_answer_most() -> None:
    def follows(*, asks: bool) -> float:
        found = [
            candidate(1, "x", thread=1),
            candidate(2, "rare", thread=1, asks=asks),
            candidate(3, "x", thread=1),
        ]
        hits = {hit.number: hit.score for hit in fuse(found, depth=10)}
        assert hits[20] > hits[30] > hits[10] > 0
        return hits[30]

    assert follows(asks=True) > follows(asks=False)


def test_neighbours_by_number_alone_lend_nothing() -> None:
    found = [
        FusionCandidate(n, n, (BM25.passage(said.split(), 0),)) for n, said in ((1, "rare"), (2, "common"))
    ]
    alone = [found[0], FusionCandidate(9, 9, found[1].passages)]
    assert [hit.score for hit in fuse(found, depth=10)] == [hit.score for hit in fuse(alone, depth=10)]


def test_words_of_the_rest_of_its_thread_count_for_what_says_something_itself() -> None:
    found = [
        candidate(1, "common x", thread=1),
        candidate(2, "x", thread=1),
        candidate(3, "rare", thread=1),
        candidate(4, "common x", thread=4),
        candidate(5, "x", thread=4),
        candidate(6, "common", thread=4),
    ]
    hits = {hit.number: hit.score for hit in fuse(found, depth=10)}
    assert hits[10] > hits[40]


def test_equal_scores_come_in_order_of_number() -> None:
    hits = fuse([candidate(n, "rare") for n in (3, 1, 2)], depth=10)
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
    found = [
        FusionCandidate(n, n % 3, (BM25.passage(text.split(), 0, cosine),), n % 2 == 0)
        for n, text, cosine in drawn
    ]
    shuffled = found[:]
    chance.shuffle(shuffled)
    assert fuse(found, depth=5) == fuse(shuffled, depth=5)
