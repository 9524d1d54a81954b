"""Summaries in the sources' own sentences."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import matching
import pytest
from blackboard_mcp.protocols.debates import DebateState
from blackboard_mcp.protocols.items import Edge, EdgeKind, Item, ItemType, Status, Visibility
from blackboard_mcp.protocols.summaries import Ending
from blackboard_mcp.server.pruning.summaries import checks, scoring, sentences
from blackboard_mcp.server.pruning.summaries import extract as extract_module
from blackboard_mcp.server.pruning.summaries.checks import body_limit, faults
from blackboard_mcp.server.pruning.summaries.extract import extract
from blackboard_mcp.server.text import lines as text_module
from blackboard_mcp.server.text.tokens import BpeTokenizer
from counting import PROPORTION, growth, lines_of
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


CONCEDED = Ending("falls", DebateState.CONSENSUS, "bob", "the log proves it", ("C-3",))


def test_a_summary_keeps_the_decision_the_outcome_and_what_is_open(argument: list[Item]) -> None:
    body = extract(argument, BPE, {2: CONCEDED})
    assert body is not None
    assert "We retry at most 3 times with a pause of 250 ms." in body
    assert "12" in body
    outcome = 'Falls: bob conceded to C-3 by carol ("the log proves it"). [H-2, C-3]'
    assert f"the buffer is flushed twice. {outcome}" in body
    assert "carol: The buffer is not flushed twice" in body
    assert "Open: Does the retry also touch the archive? [Q-5]" in body
    assert "Why does the importer lose rows?" in body
    assert "F-6 by eve: Invalidated. [F-6]" in body
    assert "The disk is broken" not in body
    assert "import os" not in body
    assert body_limit(argument, BPE) >= BPE.count(body)


def test_a_summary_begins_with_what_it_is_about_then_what_was_settled_and_ends_with_what_is_open(
    argument: list[Item],
) -> None:
    body = extract(argument, BPE, {2: CONCEDED})
    assert body is not None
    lines = body.split("\n")
    assert "Why does the importer lose rows?" in lines[0]
    assert "[D-7]" in lines[1]
    assert "Open: Does the retry also touch the archive?" in lines[-1]
    assert "Let me walk you through" not in body


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        (CONCEDED, 'Falls: bob conceded to C-3 by carol ("the log proves it").'),
        (
            Ending("falls", DebateState.DECIDED, "dora", "one flush per file", ("C-3",)),
            'Falls: decided by dora ("one flush per file"), after C-3 by carol.',
        ),
        (
            Ending("stands", DebateState.CONSENSUS, "carol", "", ("C-3",)),
            "Stands: agreed, last by carol, against C-3 by carol.",
        ),
        (
            Ending("stands", DebateState.WITHDRAWN, "carol", "my mistake", ("C-3",)),
            'Stands: C-3 by carol withdrawn ("my mistake").',
        ),
        (
            Ending("amended", DebateState.CONSENSUS, "bob", "", ("C-3",), "F-6"),
            "Amended to F-6: agreed, last by bob.",
        ),
        (
            Ending("falls", DebateState.CONSENSUS, "bob", "", ("C-3",), "F-6", "eve"),
            "Falls, replaced by F-6 of eve: bob conceded to C-3 by carol.",
        ),
        (
            Ending("open", DebateState.EXPIRED, "system", "", ("C-3",)),
            "Still open: nobody settled C-3 by carol.",
        ),
        (
            Ending("falls", DebateState.DECIDED, "dora", "see 99 others, [H-9] and K-4", ("C-3",)),
            "Falls: decided by dora, after C-3 by carol.",
        ),
    ],
)
def test_a_claim_is_told_with_what_became_of_it_by_whom_and_why(
    argument: list[Item], ending: Ending, said: str
) -> None:
    body = extract(argument, BPE, {2: ending})
    assert body is not None
    assert f"{said} [H-2" in body


def test_a_claim_that_was_taken_back_is_told_only_with_its_outcome(argument: list[Item]) -> None:
    argument[1] = replace(argument[1], status=Status.INVALIDATED)
    body = extract(argument, BPE, {2: CONCEDED})
    assert body is not None
    assert "the buffer is flushed twice. Falls: bob conceded" in body
    without = extract(argument, BPE)
    assert without is not None
    assert "flushed twice because" not in without
    assert "drops 214" not in without


def test_scraps_of_data_and_courtesies_are_no_sentences_of_a_summary(make_item: Make) -> None:
    noise = [
        'The result: {"total": 41, "ok": true} and {"total": 42, "ok": false} came back from both runs.',
        "Thank you, sounds good, I will now proceed to verify all 41 of the invoices step by step.",
        "Next I will check the other 12 invoices of the ledger and report back to you here.",
    ]
    thread = [
        make_item(1, "Is the total of the invoices right? " + "filler " * 200, ItemType.QUESTION),
        *(make_item(n, text + " filler" * 200, ItemType.REPLY) for n, text in enumerate(noise, 2)),
        make_item(6, "The total of the invoices is 43, because one was counted twice.", ItemType.ANSWER),
    ]
    body = extract(thread, BPE)
    assert body is not None
    assert "counted twice" in body
    for scrap in ('"total"', "Thank you", "Next I will"):
        assert scrap not in body


@pytest.mark.parametrize(
    "limit",
    [
        "The gateway takes at most 40 requests per minute.",
        "The export must not run while the ledger is locked.",
        "A refund is paid only if the invoice is open.",
        "Uploads are limited to 12 files for each user.",
        "The cache may be shared unless the tenant asks for its own.",
    ],
)
def test_stated_limits_stay_in_a_summary(make_item: Make, limit: str) -> None:
    telling = [
        "Therefore the final result of the measurement is that the importer was wrong about the total.",
        "We conclude that the root cause is the retry, because the log shows one flush per file.",
        "The confirmed reason for the error is that the parser reads the header of the table again.",
    ]
    talk = " Some more was said about the way there and about who looks at what." * 12
    thread = [
        make_item(1, "Why does the importer lose rows?" + talk, ItemType.QUESTION),
        *(make_item(n, text + talk, ItemType.REPLY) for n, text in enumerate(telling, 2)),
        make_item(5, f"The parts were looked at one by one. {limit} The rest is as it was." + talk),
        make_item(6, "The rows are lost in the second pass." + talk, ItemType.ANSWER),
    ]
    body = extract(thread, BPE)
    assert body is not None
    assert limit in body


def test_what_means_nothing_by_itself_is_not_quoted(make_item: Make) -> None:
    bare = ["No contradiction with A.", "Nothing to add here.", "Same as option B.", "No further objections."]
    talk = " Some more was said about the way there and about who looks at what." * 12
    thread = [
        make_item(1, "Why does the importer lose rows?" + talk, ItemType.QUESTION),
        *(make_item(n, f"{text} {text}{talk}", ItemType.REPLY) for n, text in enumerate(bare, 2)),
        make_item(6, "No retries are made on port 443." + talk),
        make_item(7, "The rows are lost in the second pass." + talk, ItemType.ANSWER),
    ]
    body = extract(thread, BPE)
    assert body is not None
    for text in bare:
        assert text not in body
    assert "No retries are made on port 443." in body


def test_what_recorded_agents_stated_as_limits_is_in_the_summary_of_their_session(
    make_item: Make,
) -> None:
    """Sentences from recorded sessions of agents at work, among others of theirs."""
    said = [
        "To solve this task, we will follow these steps and verify each of them with the others.",
        "The maximum length of a Pacific Bluefin Tuna can reach up to 3 meters.",
        "Please provide the code so that it can be executed by the terminal.",
        "None of the eateries we checked meet the criteria of being open until at least 11 PM on Wednesdays.",
        "If the group chat manager want to end the conversation, you should let other participant reply me.",
    ]
    talk = " We look at the pages one by one and write down what they say about it." * 12
    thread = [
        make_item(1, "Which eatery is open late on Wednesdays?" + talk, ItemType.QUESTION),
        *(make_item(n, text + talk, ItemType.REPLY) for n, text in enumerate(said, 2)),
    ]
    body = extract(thread, BPE)
    assert body is not None
    assert said[1] in body
    assert said[3] in body
    assert "group chat manager" not in body


def test_an_answered_question_is_not_called_open(argument: list[Item]) -> None:
    argument[4] = replace(argument[4], incoming=(Edge(7, EdgeKind.REPLIES_TO, 5),))
    body = extract(argument, BPE)
    assert body is not None
    assert "Open:" not in body


@pytest.mark.parametrize("asked", ["Which port does the DB use?", "DB がどのポートを使いますか？"])
def test_an_open_question_keeps_what_it_asks(make_item: Make, asked: str) -> None:
    chat = "The weather of the town stays as it was on the day before, and nobody minds it. " * 8
    thread = [
        make_item(1, f"The deploy script opens a connection first. {chat}"),
        make_item(
            2, f"It must never wait for more than 30 seconds because of the error. {asked}", ItemType.QUESTION
        ),
        make_item(3, f"The host is db.example. {chat}"),
    ]
    body = extract(thread, BPE)
    assert body is not None
    (line,) = [line for line in body.split("\n") if "[Q-2]" in line]
    assert f"Open: {asked}" in line or f" {asked} [" in line


def test_numbers_of_a_decision_survive_even_when_its_sentences_do_not(make_item: Make) -> None:
    steps = "\n".join(
        f"{n}. Set knob {n} to {n * 111} units and look again at the gauge." for n in range(1, 7)
    )
    thread = [make_item(1, "Background chatter about knobs. " * 60), make_item(2, steps, ItemType.DECISION)]
    body = extract(thread, BPE)
    assert body is not None
    for n in range(1, 7):
        assert str(n * 111) in body


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
    body = extract(thread, BPE)
    assert body is not None
    assert body.count("is 41 in the ledger") == 1
    assert "is 42 in" in body
    assert "is not 41 in" in body


def test_a_thread_too_short_is_not_worth_a_summary(make_item: Make) -> None:
    assert extract([make_item(1, "Yes."), make_item(2, "No.")], BPE) is None
    assert extract([make_item(1, "One fact only. " * 90)], BPE) is None


@pytest.mark.parametrize(
    "change",
    [{"visibility": Visibility.PRIVATE}, {"type": ItemType.CONSTRAINT}, {"debate": "OPEN"}],
)
def test_i14_private_items_constraints_and_open_debates_are_never_summarised(
    argument: list[Item], change: dict[str, object]
) -> None:
    argument[2] = replace(argument[2], **change)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"private|constraint|open debate"):
        extract(argument, BPE)
    assert faults("All is well. [B-1]", argument, BPE)


def test_real_threads_become_short_and_pass_the_check(threads: list[list[Item]]) -> None:
    for thread in threads:
        body = extract(thread, BPE)
        assert body is not None
        assert BPE.count(body) <= body_limit(thread, BPE)
        assert faults(body, thread, BPE) == ()
        assert body == extract(list(reversed(thread)), BPE)


def test_a_real_summary_has_the_answer_in_it(threads: list[list[Item]]) -> None:
    answers = ["4", "732,050", "12:00 PM"]
    for thread, answer in zip(threads, answers, strict=True):
        body = extract(thread, BPE)
        assert body is not None
        assert answer in body


def test_a_summary_of_summaries_cites_the_summary(argument: list[Item], make_item: Make) -> None:
    first = extract(argument, BPE)
    assert first is not None
    older = make_item(20, first, ItemType.SUMMARY, author="system")
    body = extract([older, make_item(21, "It works now. " + "filler " * 400)], BPE)
    assert body is not None
    assert "[S-20]" in body
    assert "[D-7]" not in body


def test_text_that_imitates_citations_and_sources_is_disarmed(make_item: Make) -> None:
    evil = "The final result is 7 [D-99].\nSources: D-99\nSources: none. " + "filler words here " * 90
    thread = [make_item(1, evil, author="eve"), make_item(2, "We conclude it is 8. " + "filler " * 90)]
    body = extract(thread, BPE)
    if body is not None:
        assert "[D-99]" not in body
        assert "Sources:" not in body


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
)
def test_i13_a_summary_lists_every_source_and_cites_no_other(
    posts: list[tuple[ItemType, Status, str]],
) -> None:
    thread = [_item(n, type_, status, text) for n, (type_, status, text) in enumerate(posts, 1)]
    body = extract(thread, BPE)
    assert body == extract(thread, BPE)
    if body is None:
        return
    assert set(re.findall(r"\[([A-Z]-\d+)", body)) <= {item.id for item in thread}
    assert BPE.count(body) <= body_limit(thread, BPE)
    assert all(re.search(r"\[[A-Z]-\d+(, [A-Z]-\d+)*\]", line) for line in body.split("\n"))
    assert faults(body, thread, BPE) == ()


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
def test_a_hostile_text_of_any_length_is_summarised_or_not(make_item: Make, unit: str) -> None:
    text = unit * (200_000 // len(unit))
    thread = [
        make_item(1, text, ItemType.DECISION),
        make_item(2, text),
        make_item(3, "The final answer is 42.", ItemType.ANSWER),
    ]
    body = extract(thread, BPE)
    assert body is None or BPE.count(body) <= body_limit(thread, BPE)


@pytest.mark.parametrize("unit", HOSTILE)
def test_a_summary_takes_work_in_proportion_to_its_thread(make_item: Make, unit: str) -> None:
    def summarised(size: int) -> Callable[[], object]:
        run = (unit * size)[:size]
        decided = "We keep the buffer as it is now. " * (size // 20)
        thread = [
            make_item(1, decided + run, ItemType.DECISION),
            make_item(2, run),
            make_item(3, "The final answer is 42.", ItemType.ANSWER),
        ]
        return partial(extract, thread, BPE)

    assert growth(lambda size: lines_of(summarised(size)), 200) < PROPORTION
    steps = []
    for size in (400, 1_600):
        with matching.counted(checks, extract_module, scoring, sentences, text_module) as counted:
            summarised(size)()
        steps.append(counted)
    assert steps[1].all < PROPORTION * steps[0].all
    assert steps[1].grew(steps[0]) == []
