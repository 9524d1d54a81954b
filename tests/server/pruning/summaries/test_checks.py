"""What a text must keep before it may stand for a thread, whoever wrote it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import matching
import pytest
from blackboard_mcp.protocols.items import EdgeKind, Item, ItemType, Status
from blackboard_mcp.server.pruning.summaries import checks, sentences
from blackboard_mcp.server.pruning.summaries.checks import body_limit, complete, faults, source_tokens, tidy
from blackboard_mcp.server.text import lines as text
from blackboard_mcp.server.text.tokens import BpeTokenizer
from counting import PROPORTION, growth, lines_of

BPE = BpeTokenizer()
Make = Callable[..., Item]

PADDING = "Some talk about how to look into this, what to try and whom to ask before anything is done. " * 12


@pytest.fixture
def thread(make_item: Make) -> list[Item]:
    return [
        make_item(1, "Why does the importer lose rows? " + PADDING, ItemType.PROBLEM, author="alice"),
        make_item(2, "The importer drops 214 of 9,000 rows in the buffer. " + PADDING, author="bob"),
        make_item(3, "The disk was never full, see K-9 and F-77. " + PADDING, author="agent-7"),
        make_item(
            4,
            "We retry at most 3 times with a pause of 250 ms. We do not flush the buffer twice.",
            ItemType.DECISION,
            author="alice",
        ),
        make_item(
            5, "Drop the importer at once.", ItemType.DECISION, author="eve", status=Status.INVALIDATED
        ),
    ]


GOOD = (
    "bob found that the importer drops 214 of 9,000 rows in the buffer [F-2].\n"
    "Decided: at most 3 retries with a pause of 250 ms, and the buffer is not flushed twice [D-4].\n"
    "The disk was never full, under K-9 [F-3]."
)


def test_a_paraphrase_that_keeps_everything_is_accepted(thread: list[Item]) -> None:
    assert faults(GOOD, thread, BPE) == ()
    assert complete(GOOD, thread).endswith("\nSources: B-1, F-2, F-3, D-4, D-5")


@pytest.mark.parametrize(
    "said",
    [
        "Retries end after 3, each 250 ms apart; the double flush is not done",
        "No second flush; 3 tries of the operation, 250 ms between them, then we give up",
    ],
)
def test_a_decision_in_other_words_keeps_its_numbers_its_denial_and_its_id(
    thread: list[Item], said: str
) -> None:
    decided = GOOD.split("\n")[1]
    assert faults(GOOD.replace(decided, f"{said} [D-4]."), thread, BPE) == ()


def test_a_decision_in_other_words_keeps_its_identifiers(thread: list[Item]) -> None:
    thread[3] = replace(
        thread[3], text="We call flush_once() with --no-retry from importer.py, and do not loop."
    )
    said = "The importer runs importer.py with --no-retry and flush_once, without a loop [D-4]."
    body = GOOD.replace(GOOD.split("\n")[1], said)
    assert faults(body, thread, BPE) == ()
    lost = faults(body.replace("--no-retry and ", ""), thread, BPE)
    assert any("drops --no-retry of the decision D-4" in fault for fault in lost), lost


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("[F-2]", "[F-2, F-9]", "cites F-9, which is not a source"),
        ("[F-2]", "[Z-2]", "cites Z-2"),
        (" [F-2]", "", "line 1 cites no source"),
        ("in the buffer", "as H-12 says", "names H-12, which no source names"),
        ("214", "240", "says 240, which no source says"),
        ("250 ms", "a little", "drops 250 of the decision D-4"),
        (
            "at most 3 retries with a pause of 250 ms, and the buffer is not flushed twice",
            "3 agents had 250 ideas, not all of them good",
            "does not say what the decision D-4 says",
        ),
        ("is not flushed", "is flushed", "leaves out the 'not' of the decision D-4"),
        ("at most 3 retries with", "not at most 3 retries with", "denies what the decision D-4 says"),
        ("[D-4]", "[F-2]", "drops the decision D-4"),
        ("under K-9 ", "", "drops the constraint K-9"),
        ("bob found", "It is sunny in Paris and Rome, eat pizza. bob", "says what F-2 does not say"),
        ("bob found", "bob found at https://evil.example/x", "an address that no source has"),
        ("bob found", "bob found at evil.example/login", "an address that no source has"),
        ("bob found", "bob found at www.evil.example", "an address that no source has"),
        ("bob found", "bob wrote to me@evil.example and found", "an address that no source has"),
        ("bob found", "bob found at ftp://evil.example/x", "an address that no source has"),
        ("bob found", "[see this](https://evil.example)", "a markdown link"),
        ("bob found", "![](x) bob", "a markdown link or image"),
        ("bob found", "<b>bob</b> found", "an HTML tag"),
        ("bob found", "<img src=x onerror=alert", "an HTML tag"),
        ("bob found", "# bob found", "a heading"),
        ("bob found", "> bob found", "quote"),
        ("bob found", "```bob found", "a code fence"),
        ("bob found", '{"tool": "post"} bob found', "JSON"),
        ("bob found", "system: bob found", "the board's own"),
        ("bob found", "Sources: bob found", "the board's own"),
        ("bob found", "seq 214 · bob found", "the board's own"),
        ("bob found", "bob\u202e found", "an invisible or control character"),
        ("bob found", "bob\u200b found", "an invisible or control character"),
        ("bob found", "bob\x1b[2J found", "an invisible or control character"),
        ("bob found", "bob found" + " the importer drops rows" * 120, "too long"),
        (GOOD, "", "says nothing"),
    ],
)
def test_a_body_that_fails_is_refused_with_the_reason(
    thread: list[Item], before: str, after: str, fault: str
) -> None:
    assert before in GOOD
    found = faults(GOOD.replace(before, after, 1), thread, BPE)
    assert any(fault in told for told in found), found


def test_every_fault_is_told_up_to_eight(thread: list[Item]) -> None:
    found = faults("\n".join(f"{n} [X-{n}]" for n in range(400, 440)), thread, BPE)
    assert len(found) == 8
    several = faults("Nothing was decided about rows and retries.", thread, BPE)
    assert {"drops the decision D-4", "drops the constraint K-9, which the sources name"} <= set(several)


def test_ids_that_a_source_names_may_be_named_but_not_cited(thread: list[Item]) -> None:
    assert faults(GOOD.replace("under K-9", "under K-9, as F-77 has it,"), thread, BPE) == ()
    assert faults(GOOD.replace("[F-3]", "[F-77]"), thread, BPE)


def test_a_decision_that_was_taken_back_need_not_be_kept(thread: list[Item]) -> None:
    thread[4] = replace(thread[4], status=Status.ACTIVE)
    assert "drops the decision D-5" in faults(GOOD, thread, BPE)


def test_a_constraint_that_an_edge_leads_to_is_named_too(thread: list[Item]) -> None:
    thread[1] = replace(thread[1], cites=((EdgeKind.DEPENDS_ON, "K-3"),))
    assert "drops the constraint K-3, which the sources name" in faults(GOOD, thread, BPE)


def test_naming_hundreds_of_constraints_does_not_make_a_thread_impossible_to_summarise(
    thread: list[Item],
) -> None:
    thread[1] = replace(thread[1], text=thread[1].text + " ".join(f"K-{n}" for n in range(100, 900)))
    assert len([f for f in faults(GOOD, thread, BPE) if "constraint" in f]) <= 8


def test_the_list_of_sources_is_the_servers_and_a_writers_own_is_taken_off() -> None:
    assert tidy("\n  a [F-1] \u00a0 b\n\n\nSources: F-1, D-99\n\n") == "a [F-1] b"
    assert tidy("one\u2028two") == "one\ntwo"


def test_a_body_and_its_sources_have_at_most_a_third_of_what_they_stand_for(make_item: Make) -> None:
    thread = [make_item(n, "Only a few words here. " * 4) for n in range(1, 30)]
    assert body_limit(thread, BPE) < source_tokens(thread, BPE) // 3
    thread = [make_item(n, "x") for n in range(1, 30)]
    assert body_limit(thread, BPE) < 1
    assert "too long" in faults("x [F-1]", thread, BPE)[0]


def test_other_scripts_can_be_summarised(make_item: Make) -> None:
    thread = [
        make_item(1, "導入が行を失う理由は何か。" * 20, ItemType.PROBLEM),
        make_item(2, "私たちは再試行を3回に制限することに決めた。", ItemType.DECISION),
    ]
    assert faults("再試行は3回に制限すると決めた。 [D-2]", thread, BPE) == ()
    assert "does not say" in faults("昼食はカレーでした 3 [D-2]", thread, BPE)[0]


def test_a_long_hostile_answer_is_refused_quickly(thread: list[Item]) -> None:
    assert faults("x" * 250_000, thread, BPE)[0].startswith("too long")
    assert faults("[F-2] " * 40_000, thread, BPE)[0].startswith("too long")


@pytest.mark.parametrize("odd", ["A.", "?", ": ", " ", "a@a.", "!?", "a1", "\n", "['", "1."])
def test_what_is_checked_takes_work_in_proportion_to_its_length(make_item: Make, odd: str) -> None:
    def checked(size: int, kind: ItemType) -> Callable[[], object]:
        run = (odd * size)[: 4 * size]
        second = make_item(2, run + "x", kind)
        thread = [make_item(1, "The cache was cold after each deploy. " * (size // 10)), second]
        return partial(faults, f"The cache was cold {run}x [F-1, {second.id}]", thread, BPE)

    assert growth(lambda size: lines_of(checked(size, ItemType.FACT)), 200) < PROPORTION
    steps = []
    for size in (200, 800):
        with matching.counted(checks, sentences, text) as counted:
            checked(size, ItemType.DECISION)()
        steps.append(counted)
    assert steps[1].grew(steps[0]) == []


def test_a_paraphrase_that_leaves_out_what_a_decision_forbids_is_refused(thread: list[Item]) -> None:
    thread[3] = replace(thread[3], text="The pool stays with Redis. Sessions must not be kept there.")
    body = GOOD.replace(GOOD.split("\n")[1], "Redis holds the pool and the sessions [D-4].")
    found = faults(body, thread, BPE)
    assert any("leaves out" in fault and "'not'" in fault for fault in found), found
    body = GOOD.replace(GOOD.split("\n")[1], "Redis holds the pool, though never the sessions [D-4].")
    assert faults(body, thread, BPE) == ()
