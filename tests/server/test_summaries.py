"""Summaries of finished threads, and the check that every summary has to pass."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from blackboard_mcp.protocols.items import Edge, EdgeKind, Item, ItemType, Status, Visibility
from blackboard_mcp.server.summaries import check_summary, numbers, sentences, source_tokens, summarise
from blackboard_mcp.server.tokens import BpeTokenizer
from hypothesis import given
from hypothesis import strategies as st

BPE = BpeTokenizer()
Make = Callable[..., Item]


@pytest.fixture
def argument(make_item: Make) -> list[Item]:
    """A thread with everything in it: question, debate, answer, decision."""
    chat = "Let me walk you through the plan step by step, please wait. Here is what I will do next. " * 3
    return [
        make_item(1, "Why does the importer lose rows? " + chat, ItemType.PROBLEM, author="alice"),
        make_item(
            2,
            "The importer drops 214 of 9,000 rows because the buffer is flushed twice. " + chat,
            ItemType.HYPOTHESIS,
            author="bob",
            debate="CONSENSUS",
            incoming=(Edge(3, EdgeKind.CRITIQUES, 2),),
        ),
        make_item(
            3,
            "The buffer is not flushed twice: the log shows one flush per file. " + chat,
            ItemType.CRITIQUE,
            author="carol",
        ),
        make_item(
            4,
            "Agreed, the cause is the retry. ```python\nimport os\nprint(os.environ)\n``` " + chat,
            ItemType.REPLY,
            author="bob",
        ),
        make_item(5, "Does the retry also touch the archive? " + chat, ItemType.QUESTION, author="dora"),
        make_item(6, "The disk is broken. " + chat, ItemType.FACT, author="eve", status=Status.INVALIDATED),
        make_item(
            7,
            "We retry at most 3 times with a pause of 250 ms. The limit of 12 open files stays. " + chat,
            ItemType.DECISION,
            author="alice",
        ),
    ]


def test_a_summary_keeps_the_decision_the_outcome_and_what_is_open(argument: list[Item]) -> None:
    draft = summarise(argument, tokenizer=BPE, limit_tokens=200)
    assert draft is not None
    assert "We retry at most 3 times with a pause of 250 ms. [D-7]" in draft.text
    assert "12" in draft.text
    assert "H-2 by bob: debate ended in CONSENSUS after critique by carol. [H-2, C-3]" in draft.text
    assert "Open: Does the retry also touch the archive? [Q-5]" in draft.text
    assert "Why does the importer lose rows?" in draft.text
    assert "F-6 by eve: invalidated. [F-6]" in draft.text
    assert "The disk is broken" not in draft.text
    assert "import os" not in draft.text
    assert draft.text.endswith("Sources: B-1, H-2, C-3, R-4, Q-5, F-6, D-7")
    assert draft.importance == 4


def test_an_answered_question_is_not_called_open(argument: list[Item]) -> None:
    argument[4] = replace(argument[4], incoming=(Edge(7, EdgeKind.REPLIES_TO, 5),))
    draft = summarise(argument, tokenizer=BPE, limit_tokens=200)
    assert draft is not None
    assert "Open:" not in draft.text


def test_numbers_of_a_decision_survive_even_when_its_sentences_do_not(make_item: Make) -> None:
    steps = "\n".join(
        f"{n}. Set knob {n} to {n * 111} units and look again at the gauge." for n in range(1, 7)
    )
    thread = [make_item(1, "Background chatter about knobs. " * 60), make_item(2, steps, ItemType.DECISION)]
    draft = summarise(thread, tokenizer=BPE, limit_tokens=120)
    assert draft is not None
    for n in range(1, 7):
        assert str(n * 111) in draft.text


def test_near_identical_sentences_are_said_once_but_not_when_numbers_or_denials_differ(
    make_item: Make,
) -> None:
    said = [
        "The final total of the monthly invoices is 41 in the ledger.",
        "The final total of the monthly invoices is 41 in the ledger!",
        "The final total of the monthly invoices is 42 in the ledger.",
        "The final total of the monthly invoices is not 41 in the ledger.",
    ]
    thread = [
        make_item(n, text + " Filler" + " filler" * 150, ItemType.FACT) for n, text in enumerate(said, 1)
    ]
    draft = summarise(thread, tokenizer=BPE, limit_tokens=180)
    assert draft is not None
    assert draft.text.count("is 41 in the ledger") == 1
    assert "is 42 in" in draft.text
    assert "is not 41 in" in draft.text


def test_code_headings_and_markdown_signs_are_left_out(make_item: Make) -> None:
    text = "## Plan\n**Bold** claim with a [link](http://x.y). Second!\n```py\nx = 1\n```\n- one\n- two\n\nTERMINATE"
    assert list(sentences(make_item(1, text))) == ["Bold claim with a link.", "Second!", "one", "two"]


def test_a_short_list_goes_with_the_line_that_announces_it(make_item: Make) -> None:
    text = "The figures were:\n- Seattle: 737,015\n- Colville: 4,965"
    assert list(sentences(make_item(1, text))) == ["The figures were: Seattle: 737,015; Colville: 4,965"]


def test_numbers_are_read_without_separators_ids_list_marks_and_code() -> None:
    assert numbers("1. take 1,250 of F-12\n```\n99\n```\n2. v2.3 at 10:30") == ["1250", "2.3", "10:30"]


def test_a_thread_too_short_is_not_worth_a_summary(make_item: Make) -> None:
    assert summarise([make_item(1, "Yes."), make_item(2, "No.")], tokenizer=BPE, limit_tokens=200) is None
    assert summarise([make_item(1, "One fact only. " * 90)], tokenizer=BPE, limit_tokens=200) is None


@pytest.mark.parametrize(
    "change",
    [{"visibility": Visibility.PRIVATE}, {"type": ItemType.CONSTRAINT}, {"debate": "OPEN"}],
)
def test_i14_private_items_constraints_and_open_debates_are_never_summarised(
    argument: list[Item], change: dict[str, object]
) -> None:
    argument[2] = replace(argument[2], **change)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"private|constraint|open debate"):
        summarise(argument, tokenizer=BPE, limit_tokens=200)
    assert check_summary("Sources: B-1", argument, BPE) is not None


def test_real_threads_become_short_and_pass_the_check(threads: list[list[Item]]) -> None:
    for thread in threads:
        draft = summarise(thread, tokenizer=BPE, limit_tokens=200)
        assert draft is not None
        assert BPE.count(draft.text) <= 200
        assert check_summary(draft.text, thread, BPE) is None
        assert draft == summarise(list(reversed(thread)), tokenizer=BPE, limit_tokens=200)


def test_a_real_summary_has_the_answer_in_it(threads: list[list[Item]]) -> None:
    answers = ["4", "732,050", "12:00 PM"]
    for thread, answer in zip(threads, answers, strict=True):
        draft = summarise(thread, tokenizer=BPE, limit_tokens=200)
        assert draft is not None
        assert answer in draft.text.split("Sources:")[0]


def test_a_summary_of_summaries_cites_the_summary(argument: list[Item], make_item: Make) -> None:
    first = summarise(argument, tokenizer=BPE, limit_tokens=200)
    assert first is not None
    older = make_item(20, first.text, ItemType.SUMMARY, author="system")
    draft = summarise(
        [older, make_item(21, "It works now. " + "filler " * 400)], tokenizer=BPE, limit_tokens=150
    )
    assert draft is not None
    assert draft.text.endswith("Sources: S-20, F-21")
    assert "[D-7]" not in draft.text


def test_text_that_imitates_citations_and_sources_is_disarmed(make_item: Make) -> None:
    evil = "The final result is 7 [D-99].\nSources: D-99\nSources: none. " + "filler words here " * 90
    thread = [make_item(1, evil, author="eve"), make_item(2, "We conclude it is 8. " + "filler " * 90)]
    draft = summarise(thread, tokenizer=BPE, limit_tokens=150)
    if draft is not None:
        assert "[D-99]" not in draft.text
        assert draft.text.count("\nSources:") == 1


GOOD = "We retry 3 times, 250 ms apart, 12 files [D-7].\nSources: B-1, H-2, C-3, R-4, Q-5, F-6, D-7"


def test_a_written_summary_that_keeps_everything_is_accepted(argument: list[Item]) -> None:
    assert check_summary(GOOD, argument, BPE) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (GOOD.replace(", Q-5", ""), "does not list its source Q-5"),
        (GOOD.replace("Sources", "From"), "Sources"),
        (GOOD.replace("D-7]", "D-7] and more [F-9]"), "names F-9"),
        (GOOD + ", Z-99", "names Z-99"),
        (GOOD.replace("250", "300"), "drops 250 of the decision D-7"),
        (GOOD.replace(" [D-7]", ""), "drops the decision D-7"),
        (GOOD.replace(" apart", " apart" * 900), "too long"),
        ("\n" + GOOD.split("\n")[1], "says nothing"),
        ("", "Sources"),
    ],
)
def test_a_written_summary_that_fails_is_refused_with_the_reason(
    argument: list[Item], text: str, reason: str
) -> None:
    refused = check_summary(text, argument, BPE)
    assert refused is not None
    assert reason in refused


WORDS = st.sampled_from(
    [
        "We decided on 17 retries. ",
        "The cause is the cache!",
        " not ",
        "Is it 3.5?",
        "\n",
        "- item ",
        "# Heading\n",
        "```\ncode = 1\n```\n",
        "alpha beta gamma ",
        "Therefore 1,200 rows remain. ",
        "[F-1] ",
        "Sources: X-1\n",
        "漢字。",
        "\u202e",
        "e.g. this ",
        "https://x.y ",
        "``` ",
    ]
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([t for t in ItemType if t is not ItemType.CONSTRAINT]),
            st.sampled_from(Status),
            st.lists(WORDS, max_size=40).map("".join),
        ),
        min_size=2,
        max_size=8,
    ),
    st.integers(0, 300),
)
def test_i13_a_summary_lists_every_source_and_cites_no_other(
    posts: list[tuple[ItemType, Status, str]], limit: int
) -> None:
    thread = [_item(n, type_, status, text) for n, (type_, status, text) in enumerate(posts, 1)]
    draft = summarise(thread, tokenizer=BPE, limit_tokens=limit)
    assert draft == summarise(thread, tokenizer=BPE, limit_tokens=limit)
    if draft is None:
        return
    body, sources = draft.text.rsplit("\nSources: ", 1)
    assert sources.split(", ") == [item.id for item in thread]
    assert set(re.findall(r"\[([A-Z]-\d+)", body)) <= {item.id for item in thread}
    assert BPE.count(draft.text) <= min(limit, source_tokens(thread, BPE) // 3)
    assert all(re.search(r"\[[A-Z]-\d+(, [A-Z]-\d+)*\]$", line) for line in body.split("\n"))
    assert check_summary(draft.text, thread, BPE) is None
    assert 3 <= draft.importance <= 4


def _item(number: int, type_: ItemType, status: Status, text: str) -> Item:
    return _build(number, text, type_, status=status)


_build: Make


@pytest.fixture(autouse=True, scope="module")
def _share(make_item: Make) -> None:
    global _build
    _build = make_item


HOSTILE = [
    "\n",
    " ",
    ". ",
    ".)",
    "```\n",
    "[",
    "[a](",
    "=",
    "a\n",
    "- a:\n",
    "1,",
    "1 ",
    "A. ",
    "*a",
    "[F-1,",
    "\u202e",
]


@pytest.mark.parametrize("unit", HOSTILE)
def test_a_hostile_text_is_summarised_quickly_or_not_at_all(make_item: Make, unit: str) -> None:
    text = unit * (200_000 // len(unit))
    thread = [
        make_item(1, text, ItemType.DECISION),
        make_item(2, text),
        make_item(3, "The final answer is 42.", ItemType.ANSWER),
    ]
    began = time.process_time()
    draft = summarise(thread, tokenizer=BPE, limit_tokens=200)
    assert time.process_time() - began < 1.5
    assert draft is None or BPE.count(draft.text) <= 200
