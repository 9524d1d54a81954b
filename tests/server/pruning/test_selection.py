"""The token-importance policy, as a function from working memory to a plan."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from blackboard_mcp.protocols.board import BoardConfig, PassStep
from blackboard_mcp.protocols.guard import Protection
from blackboard_mcp.protocols.items import FINISHED, ItemType, Status
from blackboard_mcp.protocols.pruning import Candidate, PassOutcome, Plan, Workspace
from blackboard_mcp.server.mcp.answer_size import MAX_ANSWER_BYTES
from blackboard_mcp.server.pruning.selection import TOO_LARGE, decide
from blackboard_mcp.server.usecases.stewardship import wire_pruned
from counting import PROPORTION, growth, lines_of
from hypothesis import given
from hypothesis import strategies as st

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def candidate(number: int, **more: Any) -> Candidate:
    fields: dict[str, Any] = {
        "type": ItemType.FACT,
        "status": Status.ACTIVE,
        "importance": 4,
        "tokens": 100,
        "author": "alice",
        "thread": number,
        "private": False,
        "updated_at": NOW,
        "seq": number,
        "expired": False,
        "superseded": False,
        "analysed": False,
        "debated_before": False,
    }
    return Candidate(number=number, **(fields | more))


def space(*candidates: Candidate, protected: tuple[int, ...] = (), target: int = 1_000) -> Workspace:
    return Workspace(
        BoardConfig(target_tokens=target),
        tuple(candidates),
        {number: Protection("open debate") for number in protected},
        sum(c.tokens for c in candidates),
    )


def left(before: Workspace, plan: Plan) -> Workspace:
    gone = {move.number for move in plan.moves}
    stay = tuple(
        replace(c, bears=tuple(n for n in c.bears if n not in gone))
        for c in before.candidates
        if c.number not in gone
    )
    return replace(before, candidates=stay, tokens=sum(c.tokens for c in stay))


def moved(plan: Plan) -> list[int]:
    return [move.number for move in plan.moves]


def test_a_board_at_its_low_water_mark_loses_nothing() -> None:
    assert decide(space(*(candidate(n, importance=1) for n in range(1, 7)))) == Plan()


def test_what_expired_goes_even_then() -> None:
    plan = decide(space(candidate(1), candidate(2, expired=True), candidate(3, status=Status.RESOLVED)))
    assert [(m.number, m.step, m.why) for m in plan.moves] == [(2, 1, "expired")]


def test_finished_items_go_first_and_no_more_than_need_be() -> None:
    plan = decide(
        space(
            candidate(1, importance=1),
            candidate(2, status=Status.RESOLVED, importance=5),
            candidate(3, status=Status.WITHDRAWN),
            candidate(4, superseded=True),
            *(candidate(n) for n in range(5, 10)),
        )
    )
    assert [(m.number, m.why) for m in plan.moves] == [(2, "resolved"), (3, "withdrawn"), (4, "superseded")]


def test_then_logs_that_were_analysed() -> None:
    logs = [candidate(n, type=ItemType.LOG, importance=2, analysed=n % 2 == 0) for n in range(1, 9)]
    plan = decide(space(*logs))
    assert [(m.number, m.step, m.why) for m in plan.moves] == [(2, 2, "log analysed"), (4, 2, "log analysed")]


def test_then_low_importance_oldest_first_down_to_the_low_water_mark() -> None:
    plan = decide(space(*(candidate(n, importance=i) for n, i in enumerate([3, 2, 1, 2, 4, 2, 3, 3, 3], 1))))
    assert [(m.number, m.step, m.why) for m in plan.moves] == [
        (3, 4, "importance 1, oldest first"),
        (2, 4, "importance 2, oldest first"),
        (4, 4, "importance 2, oldest first"),
    ]


def test_more_important_items_stay_while_the_board_is_under_the_high_water_mark() -> None:
    assert moved(decide(space(*(candidate(n, importance=3) for n in range(1, 9))))) == []


def test_above_the_high_water_mark_they_go_too_but_never_importance_five() -> None:
    everything = [candidate(n, importance=5 if n < 9 else 3 + n % 2) for n in range(1, 12)]
    plan = decide(space(*everything))
    assert moved(plan) == [10, 9, 11]


def test_the_oldest_change_counts_and_not_the_lowest_number() -> None:
    plan = decide(space(*(candidate(n, importance=2, seq=100 - n) for n in range(1, 9))))
    assert moved(plan) == [8, 7]


def test_a_level_and_a_choice_of_steps_can_be_given() -> None:
    there = space(candidate(1, status=Status.RESOLVED), candidate(2, importance=1), candidate(3))
    assert moved(decide(there, level=0)) == [1, 2]
    assert moved(decide(there, level=0, steps=frozenset({PassStep.RESOLVED}))) == [1]
    assert moved(decide(there, level=0, steps=frozenset({PassStep.IMPORTANCE}))) == [2]


def thread(last: ItemType = ItemType.DECISION, **more: Any) -> list[Candidate]:
    members = [candidate(n, thread=1, **more) for n in range(1, 9)]
    return [*members, candidate(9, thread=1, type=last)]


EARLY = frozenset({PassStep.RESOLVED, PassStep.LOGS, PassStep.THREADS})
"""All steps but the one by importance."""


def test_a_long_finished_thread_is_proposed_for_a_summary_and_not_moved() -> None:
    plan = decide(space(*thread()), steps=EARLY)
    assert plan.threads == ((1, tuple(range(1, 10))),)
    assert plan.moves == ()


def test_a_thread_is_not_finished_while_a_member_is_protected_or_nothing_was_settled() -> None:
    assert decide(space(*thread(), protected=(4,))).threads == ()
    assert decide(space(*thread(last=ItemType.REPLY))).threads == ()
    assert decide(space(*thread(last=ItemType.REPLY, debated_before=True))).threads != ()
    assert decide(space(*thread(last=ItemType.ANSWER))).threads != ()


def test_a_resolved_member_finishes_a_thread_although_it_goes_before_the_summary() -> None:
    members = thread(last=ItemType.REPLY)
    members[0] = replace(members[0], status=Status.RESOLVED)
    plan = decide(space(*members), steps=EARLY)
    assert moved(plan) == [1]
    assert plan.threads == ((1, tuple(range(2, 10))),)


def test_a_summary_covers_neither_importance_5_nor_open_work_but_decisions() -> None:
    members = thread()
    members[0] = replace(members[0], type=ItemType.PROBLEM, open_work=True)
    members[1] = replace(members[1], importance=5)
    members[2] = replace(members[2], importance=5, status=Status.RESOLVED)
    members[8] = replace(members[8], open_work=True)
    plan = decide(space(*members), steps=frozenset({PassStep.THREADS}))
    assert plan.threads == ((1, tuple(range(3, 10))),)


# What is too large


def test_what_is_too_large_to_stay_goes_alone() -> None:
    small = [candidate(n, importance=1 + n % 4, tokens=30) for n in range(1, 11)]
    for more in ({}, {"fresh": True}, {"open_work": True}, {"bears": (3, 99)}, {"importance": 1}):
        plan = decide(space(*small, candidate(11, **{"tokens": 601, **more})))
        assert [(m.number, m.step, m.why) for m in plan.moves] == [(11, 4, TOO_LARGE)]
    assert moved(decide(space(*small, candidate(11, tokens=600)))) == [4, 8, 1, 5, 9]


def test_nothing_else_of_any_step_goes_on_account_of_what_is_too_large() -> None:
    done, log = candidate(10, status=Status.RESOLVED), candidate(11, type=ItemType.LOG, analysed=True)
    members = [replace(c, tokens=40) for c in thread()]
    there = space(*members, done, log, candidate(12, tokens=700), candidate(13, tokens=900))
    assert moved(decide(there)) == [12, 13]
    assert decide(there, steps=EARLY) == Plan()
    assert moved(decide(there, level=400)) == [10, 11, 12, 13]


def test_what_is_too_large_stays_where_it_may_not_leave_by_importance() -> None:
    small = [candidate(n, importance=1) for n in range(1, 4)]
    for more, held in ({"importance": 5}, ()), ({}, (11,)):
        there = space(*small, candidate(11, **{"tokens": 700, **more}), protected=held)
        assert moved(decide(there)) == [1, 2, 3]
    there = space(*small, candidate(11, tokens=700))
    assert moved(decide(replace(there, config=replace(there.config, hard_ceiling=3)))) == [1, 2, 3]


# What waits for other things


def test_what_is_not_fresh_goes_before_what_is() -> None:
    items = [candidate(n, importance=4 if n < 6 else 3, fresh=n >= 6) for n in range(1, 12)]
    assert moved(decide(space(*items))) == [1, 2, 3, 4, 5]
    low = [candidate(n, importance=1 + n % 2, fresh=n % 4 > 1) for n in range(1, 9)]
    assert moved(decide(space(*low), level=200)) == [4, 8, 1, 5, 2, 6]


def test_claims_that_fell_go_first_of_what_is_finished() -> None:
    items = [
        candidate(1, status=Status.RESOLVED),
        candidate(2, status=Status.INVALIDATED),
        candidate(3, superseded=True),
        *(candidate(n, importance=5) for n in range(4, 10)),
    ]
    assert moved(decide(space(*items))) == [2, 1, 3]


def test_open_work_goes_after_all_else_of_its_owner_and_no_later_than_its_turn() -> None:
    mine = [candidate(1, open_work=True, importance=3), candidate(2), candidate(5)]
    theirs = [candidate(n, owner="bob") for n in (3, 4, 6, 7)]
    items = [replace(c, owner="alice") for c in mine] + theirs
    unshared = BoardConfig(target_tokens=500, owner_share=1.0)
    assert moved(decide(replace(space(*items), config=unshared), level=0)) == [2, 3, 4, 5, 1, 6, 7]
    alone = [replace(c, owner="alice") for c in mine[:1]] + theirs
    assert moved(decide(replace(space(*alone), config=unshared), level=0)) == [1, 3, 4, 6, 7]


def test_what_something_of_importance_rests_on_goes_after_it() -> None:
    items = [
        candidate(1, importance=3, bears=(2, 5)),
        candidate(2, importance=3),
        candidate(3, importance=3, bears=(1,)),
        candidate(4),
        candidate(5),
        candidate(6),
    ]
    assert moved(decide(space(*items, target=500), level=0)) == [2, 4, 5, 1, 3, 6]


def test_what_a_plan_rests_on_goes_after_the_plan() -> None:
    items = [candidate(1, bears=(2,)), candidate(2, importance=3, open_work=True), candidate(3), candidate(4)]
    assert moved(decide(space(*items, target=300), level=0)) == [3, 4, 2, 1]


def test_what_something_rests_on_that_stays_goes_last_of_all() -> None:
    items = [candidate(1, bears=(9,)), *(candidate(n) for n in range(2, 6)), candidate(9, importance=5)]
    assert moved(decide(space(*items, target=300), level=0)) == [2, 3, 4, 5, 1]


def test_a_log_that_a_hypothesis_rests_on_is_as_important() -> None:
    log, hypothesis = candidate(1, importance=1, bears=(2,)), candidate(2, importance=3)
    others = [candidate(n, importance=2) for n in range(3, 6)]
    under_high_water = space(log, hypothesis, *others, target=700)
    assert moved(decide(under_high_water)) == [3]
    assert moved(decide(under_high_water, level=0)) == [3, 4, 5]
    assert moved(decide(replace(under_high_water, config=BoardConfig(target_tokens=200)))) == [3, 4, 5, 2]
    gone = replace(log, bears=())
    assert moved(decide(space(gone, hypothesis, *others, target=700))) == [1]


def test_a_circle_of_what_rests_on_each_other_ends() -> None:
    items = [candidate(1, bears=(2,)), candidate(2, bears=(1,)), candidate(3)]
    assert sorted(moved(decide(space(*items, target=200), level=0))) == [1, 2, 3]


def test_beyond_a_share_open_work_goes_last_as_well() -> None:
    mine = [candidate(n, owner="alice", importance=2, open_work=n < 4) for n in range(1, 12)]
    assert moved(
        decide(space(*mine, candidate(20, owner="bob", importance=1)), steps=frozenset({PassStep.IMPORTANCE}))
    )[:4] == [4, 5, 6, 7]


def test_no_thread_is_proposed_when_the_level_is_reached_without_it_or_the_step_is_not_wanted() -> None:
    members = [replace(c, tokens=10) for c in thread()]
    resolved = candidate(20, status=Status.RESOLVED, tokens=800)
    assert decide(space(*members, resolved)).threads == ()
    assert (
        decide(
            space(*thread()), steps=frozenset({PassStep.RESOLVED, PassStep.LOGS, PassStep.IMPORTANCE})
        ).threads
        == ()
    )


def test_private_items_and_constraints_are_no_part_of_a_summary() -> None:
    members = thread()
    members[2] = replace(members[2], private=True)
    members[3] = replace(members[3], type=ItemType.CONSTRAINT)
    assert decide(space(*members), steps=EARLY).threads == ((1, (1, 2, 5, 6, 7, 8, 9)),)


def test_a_private_afterthought_does_not_decide_whether_a_thread_is_finished() -> None:
    note = candidate(10, thread=1, private=True, type=ItemType.LOG)
    assert decide(space(*thread(), note)).threads == ((1, tuple(range(1, 10))),)


@st.composite
def workspaces(draw: st.DrawFn) -> Workspace:
    count = draw(st.integers(0, 30))
    seqs = draw(st.permutations(range(1, count + 1)))
    candidates = [
        candidate(
            n,
            type=draw(st.sampled_from(ItemType)),
            status=draw(st.sampled_from(Status)),
            importance=draw(st.integers(1, 5)),
            tokens=draw(st.integers(0, 300)),
            thread=draw(st.integers(1, 3)),
            private=draw(st.booleans()),
            seq=seqs[n - 1],
            expired=draw(st.integers(0, 9)) == 0,
            superseded=draw(st.integers(0, 9)) == 0,
            analysed=draw(st.booleans()),
            debated_before=draw(st.booleans()),
            owner=draw(st.sampled_from(["alice", "alice", "bob"])),
            fresh=draw(st.booleans()),
            open_work=draw(st.integers(0, 4)) == 0,
            bears=tuple(
                draw(
                    st.sets(st.integers(1, count), max_size=2)
                    if draw(st.integers(0, 4)) == 0
                    else st.just(())
                )
            ),
        )
        for n in range(1, count + 1)
    ]
    protected = draw(st.sets(st.integers(1, 30), max_size=12))
    return space(*candidates, protected=tuple(sorted(protected)), target=draw(st.integers(10, 6_000)))


@given(workspaces())
def test_i9_a_pass_ends_at_the_low_water_mark_or_with_only_what_may_not_go(before: Workspace) -> None:
    after = left(before, decide(before))
    config = before.config
    if after.tokens > config.low_tokens:
        ceiling = config.hard_ceiling if after.tokens > config.high_tokens else config.ceiling
        there = {c.number for c in after.candidates}
        for c in after.candidates:
            assert (
                c.number in before.protected or c.importance > ceiling or (ceiling < 4 and there & {*c.bears})
            )
            assert c.number in before.protected or c.status not in FINISHED


@given(workspaces(), st.randoms(use_true_random=False))
def test_i10_a_pass_is_deterministic_idempotent_and_ends(before: Workspace, random: Any) -> None:
    plan = decide(before)
    shuffled = list(before.candidates)
    random.shuffle(shuffled)
    assert decide(replace(before, candidates=tuple(shuffled))) == plan
    assert decide(left(before, plan)).moves == ()
    assert len(set(moved(plan))) == len(plan.moves) <= len(before.candidates)


@given(workspaces())
def test_i11_nothing_goes_before_an_older_less_important_item_of_its_class(before: Workspace) -> None:
    before = replace(before, config=replace(before.config, owner_share=1.0))
    plan = decide(before)
    gone = set(moved(plan))
    by_number = {c.number: c for c in before.candidates}
    for move in plan.moves:
        if move.step != 4:
            continue
        taken = by_number[move.number]
        if move.why == TOO_LARGE:
            assert taken.tokens > before.config.low_tokens
            continue
        left_over = [
            c for c in before.candidates if c.number not in gone and c.number not in before.protected
        ]
        plain = [c for c in left_over if c.importance < 5 and not c.open_work and not c.bears]
        if not taken.open_work and not taken.bears:
            for other in plain:
                assert turn(other) > turn(taken)
        elif taken.open_work:
            stage = 2 if taken.importance <= 2 else 4
            assert not [c for c in plain if c.owner == taken.owner and c.importance <= stage]
        if ({*taken.bears} - gone) & by_number.keys():
            assert not [c for c in plain if c.importance <= 4]


def turn(c: Candidate) -> tuple[bool, bool, int, int]:
    """The place of what waits for nothing: by the ceiling that lets it go, its class, importance and age."""
    return c.importance > 2, c.fresh, c.importance, c.seq


@given(workspaces(), st.integers(0, 6_000), st.sets(st.sampled_from(PassStep)))
def test_nothing_protected_goes_whatever_is_asked(
    before: Workspace, level: int, steps: set[PassStep]
) -> None:
    plan = decide(before, level=level, steps=frozenset(steps))
    assert not set(moved(plan)) & set(before.protected)
    assert {move.step for move in plan.moves} <= {step.number for step in steps}
    assert all(len(move.why) <= 40 for move in plan.moves)
    fives = {c.number for c in before.candidates if c.importance == 5}
    assert not fives & {move.number for move in plan.moves if move.step == 4}
    early = {move.number for move in plan.moves if move.step < 3}
    for _, members in plan.threads:
        assert not set(members) & (set(before.protected) | early)


def test_items_are_decided_upon_with_work_in_proportion_to_their_number() -> None:
    def decided(count: int) -> int:
        many = space(*(candidate(n, importance=1 + n % 5, thread=n // 20) for n in range(1, count + 1)))
        return lines_of(lambda: decide(many))

    assert growth(decided, 1_000) < PROPORTION


def test_the_answer_of_a_huge_pass_names_the_first_of_what_moved_and_counts_the_rest() -> None:
    moved = tuple((f"F-{n}", 4, "importance 4, oldest first") for n in range(1, 30_001))
    answer = wire_pruned([PassOutcome(moved, 9, 8, 0, 0, (), 30_000)], False)
    assert len(answer.moved) + answer.more == 30_000
    assert answer.moved[0].id == "F-1"
    assert len(answer.model_dump_json()) < MAX_ANSWER_BYTES
