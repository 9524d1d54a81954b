"""Tests of judged stores: they commit only changes of agents that were allowed, and exactly as allowed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from blackboard_mcp.protocols.access import Role
from blackboard_mcp.protocols.board import BoardChange
from blackboard_mcp.protocols.changes import EVERYWHERE, Change, ChangeKind, Proposal
from blackboard_mcp.protocols.debates import DebateCall, DebateOp
from blackboard_mcp.protocols.errors import Conflict, Forbidden, InvalidInput, Unpermitted
from blackboard_mcp.protocols.groups import Turn
from blackboard_mcp.protocols.items import EdgeKind, ItemType, Status, Visibility
from blackboard_mcp.protocols.transactions import Transaction

from ..harness import CONFIG, HandClock, Table, draft
from .asking import Asking
from .repeating import CALLS, ONCE

OWN = frozenset({"subscribe", "unsubscribe"})
"""Calls that change nothing but an agent's own place in the log."""
ASKED: dict[str, tuple[ChangeKind, ...]] = {
    "post": (ChangeKind.POST, ChangeKind.POST, ChangeKind.EDGE),
    "transact": (ChangeKind.VERSION, ChangeKind.OPEN),
    "debate_unwatch": (ChangeKind.WATCH,),
    "watch_topic": (ChangeKind.WATCH,),
    "unwatch_topic": (ChangeKind.WATCH,),
    "set_core": (ChangeKind.CORE,),
    "change_board": (ChangeKind.BOARD, ChangeKind.BOARD),
    "restore": (ChangeKind.RESTORE, ChangeKind.RESTORE),
    "take_summary": (ChangeKind.SUMMARISE,),
    "write_summary": (ChangeKind.SUMMARISE,),
    "open_request": (ChangeKind.REQUEST,),
    "cancel_request": (ChangeKind.REQUEST,),
    "join": (ChangeKind.JOIN, ChangeKind.RESPOND),
    "leave": (ChangeKind.JOIN,),
    "start_run": (ChangeKind.RUN, ChangeKind.POST),
    "end_turn": (ChangeKind.RUN, ChangeKind.POST),
    "decide_run": (ChangeKind.RUN,),
    "finalize_run": (ChangeKind.RUN, ChangeKind.POST, ChangeKind.EDGE),
    "stop_run": (ChangeKind.RUN,),
    "plan": (ChangeKind.PLAN,),
    "take_task": (ChangeKind.CLAIM,),
    "settle_task": (ChangeKind.CLAIM, ChangeKind.POST),
    "define_stages": (ChangeKind.STAGE,),
    "move_stage": (ChangeKind.STAGE,),
    "write_artifact": (ChangeKind.ARTIFACT,),
    **dict.fromkeys(
        ("offer_skills", "take_request", "take_next", "answer_request", "decline_request"),
        (ChangeKind.RESPOND,),
    ),
    **dict.fromkeys(
        ("create_group", "change_group", "consume", "retry_dead", "drop_dead", "end_group"),
        (ChangeKind.CONSUME,),
    ),
    **{
        f"debate_{kind}": (ChangeKind(kind),)
        for kind in ("open", "watch", "acknowledge", "vote", "withdraw", "concede", "decide", "confirm")
    },
}
"""The kinds of changes that the judge gets from each of the calls."""

Meanwhile = Callable[[], Awaitable[object]]


class Judge:
    """A judge that allows everything, or nothing if it `denies`.

    During each decision the next function of `meanwhile` runs.
    """

    def __init__(self) -> None:
        self.denies = False
        self.asked: list[Proposal] = []
        self.meanwhile: list[Meanwhile] = []

    async def __call__(self, wanted: Proposal) -> frozenset[Change]:
        self.asked.append(wanted)
        if self.meanwhile:
            await self.meanwhile.pop(0)()
        if self.denies:
            raise Forbidden("no")
        return frozenset(wanted.changes)

    @property
    def changes(self) -> list[Change]:
        """The changes of the last proposal, in order."""
        return list(self.asked[-1].changes)


def judged(at: Table, *boards: str) -> tuple[Table, Judge]:
    """Returns the board as its agents reach it, and the judge of their changes."""
    judge = Judge()
    return Table(at.store.judged(judge, boards), at.board), judge


every_call = pytest.mark.parametrize("name", [name for name in CALLS if name not in OWN])


class JudgingTests:
    def test_every_call_that_changes_something_is_asked_about(self) -> None:
        assert CALLS.keys() - OWN == ASKED.keys()

    @every_call
    async def test_nothing_is_committed_that_was_not_allowed(self, at: Table, name: str) -> None:
        inside, judge = judged(at, EVERYWHERE)
        call = await CALLS[name](inside)
        judge.asked.clear()
        judge.denies = True
        board, events = await at.standing(), await at.events("carol")
        groups = await at.store.groups(at.board)
        with pytest.raises(Forbidden):
            await call(None)
        assert tuple(change.kind for change in judge.changes) == ASKED[name]
        assert judge.asked[-1].agent == ("erin" if name == "debate_decide" else "carol")
        assert (await at.standing(), await at.events("carol")) == (board, events)
        assert await at.store.groups(at.board) == groups
        judge.denies = False
        await call(None)
        events, groups_after = await at.events("carol"), await at.store.groups(at.board)
        assert await at.standing() != board or groups_after != groups

    @every_call
    async def test_a_board_that_chose_policies_takes_nothing_unjudged(self, at: Table, name: str) -> None:
        call = await CALLS[name](at)
        await at.configure(access=("watchful",))
        before = await at.standing()
        with pytest.raises(Unpermitted) as told:
            await call(None)
        proposal = told.value.proposal
        assert proposal is not None
        assert (proposal.access, bool(proposal.changes)) == (("watchful",), True)
        assert await at.standing() == before

    async def test_changes_are_told_as_they_will_stand(self, at: Table) -> None:
        await at.store.set_owner("alice", "Ann")
        a = await at.post("alice", "an entry", "PLAN", key="plan:a")
        inside, judge = judged(at, at.board)
        await inside.batch(
            "bob",
            draft("doubtful", "CRITIQUE", critiques=a),
            draft("mine", key="k", private=True),
            draft("mine, again", key="k", private=True),
            draft(None, on=a, tags=["seen"]),
            draft("a note", replies_to=-1),
        )
        of_a = Change(at.board, ChangeKind.EDGE, ItemType.PLAN, "plan:a", a.id, "alice", "Ann")
        mine = Change(at.board, ChangeKind.POST, ItemType.CRITIQUE, author="bob", owner="bob")
        entry = replace(mine, type=ItemType.FACT, key="k", visibility=Visibility.PRIVATE)
        assert judge.changes == [
            mine,
            replace(of_a, edge=EdgeKind.CRITIQUES),
            entry,
            replace(entry, kind=ChangeKind.VERSION),
            replace(of_a, kind=ChangeKind.AMEND),
            replace(mine, type=ItemType.FACT),
            replace(mine, kind=ChangeKind.EDGE, edge=EdgeKind.REPLIES_TO),
        ]
        assert [change.place for change in judge.changes] == [1, 1, 2, 3, 4, 5, 5]
        await inside.withdraw("bob", 2)
        await inside.batch("bob", draft("next", key="plan:a", status="RESOLVED"))
        assert judge.changes == [
            replace(of_a, kind=ChangeKind.VERSION),
            replace(of_a, kind=ChangeKind.STATUS, status=Status.RESOLVED),
        ]
        await inside.delete("bob", "plan:a")
        assert judge.changes == [replace(of_a, kind=ChangeKind.DELETE)]
        await inside.store.change_board(at.board, "bob", BoardChange(title="New", settings={"quorum": 2}))
        assert [change.name for change in judge.changes] == ["title", "quorum"]

    async def test_what_is_committed_is_what_was_allowed(self, at: Table) -> None:
        await at.post("alice", "there", key="other")
        inside, judge = judged(at, at.board)
        judge.meanwhile = [lambda: at.post("alice", "hers", key="k")]
        made = await inside.post("bob", "his", key="k")
        assert len(judge.asked) == 2
        first, second = judge.asked
        assert [change.kind for change in first.changes] == [ChangeKind.POST]
        assert [(c.kind, c.author) for c in second.changes] == [(ChangeKind.VERSION, "alice")]
        assert (made.version, made.author) == (2, "alice")

    async def test_who_acts_for_whom_and_which_policies_count_as_of_the_commit(self, at: Table) -> None:
        a = await at.post("alice", "hers")
        await at.configure(access=("first",))
        inside, judge = judged(at)
        judge.meanwhile = [
            lambda: at.store.set_owner("bob", "Ben"),
            lambda: inside.store.change_board(
                at.board, "alice", BoardChange(settings={"access": ("second",)})
            ),
        ]
        await inside.watch("bob", a)
        told = [(wanted.owner, wanted.access) for wanted in judge.asked if wanted.agent == "bob"]
        assert told == [("bob", ("first",)), ("Ben", ("first",)), ("Ben", ("second",))]

    async def test_an_answer_that_is_posted_responds_to_the_request(self, at: Table) -> None:
        await at.store.ensure_board(at.board, "alice", CONFIG)
        number = await Asking(at).ask("alice", to="bob")
        inside, judge = judged(at, at.board)
        await inside.post("bob", "so", "ANSWER", replies_to=number)
        kinds = [change.kind for change in judge.changes]
        assert kinds == [ChangeKind.POST, ChangeKind.EDGE, ChangeKind.RESPOND]
        assert [change.item for change in judge.changes] == [None, f"Q-{number}", f"Q-{number}"]
        await inside.post("bob", "so again", "ANSWER", replies_to=number)
        assert len(judge.changes) == 2

    async def test_a_role_that_the_board_gives_counts_as_of_the_commit(self, at: Table) -> None:
        a = await at.post("alice", "hers")
        inside, judge = judged(at, at.board)
        given = BoardChange(members={"bob": Role.OBSERVER})
        judge.meanwhile = [lambda: at.store.change_board(at.board, "alice", given)]
        await inside.watch("bob", a)
        assert [wanted.role for wanted in judge.asked] == [None, Role.OBSERVER]
        taken = BoardChange(members={"bob": None, "dave": Role.ADMIN})
        await inside.store.change_board(at.board, "alice", taken)
        assert [(change.kind, change.name) for change in judge.changes] == [
            (ChangeKind.MEMBERS, "bob"),
            (ChangeKind.MEMBERS, "dave"),
        ]

    async def test_new_items_and_numbers_that_move_are_judged_once(self, at: Table) -> None:
        await at.post("alice", "there")
        inside, judge = judged(at, at.board)
        judge.meanwhile = [lambda: at.post("alice", "meanwhile")]
        wanted = Transaction(
            {}, [draft("new", key="k"), draft("again", key="k")], [DebateCall(DebateOp.WATCH, -1)]
        )
        await inside.store.transact(at.board, "bob", wanted, config=CONFIG)
        assert len(judge.asked) == 1
        assert {change.item for change in judge.changes} == {None}

    async def test_what_changes_again_and_again_is_given_up(self, at: Table) -> None:
        a = await at.post("alice", "hers", key="k")
        inside, judge = judged(at, at.board)

        async def turn_over() -> None:
            stands = await at.item(a)
            if stands.deleted:
                await at.post("alice", "back", key="k")
            await at.store.set_owner("bob", f"Ben-{len(judge.asked)}")

        judge.meanwhile = [turn_over] * 20
        before = await at.standing()
        with pytest.raises(Conflict, match="again and again"):
            await inside.post("bob", "his", key="k")
        assert await at.standing() == before
        assert len(judge.asked) < 20

    async def test_a_repeated_key_is_answered_as_the_first_time_and_not_judged_again(self, at: Table) -> None:
        inside, judge = judged(at, EVERYWHERE)
        first = await inside.batch("bob", draft("his"), once=ONCE)
        judge.denies = True
        asked = len(judge.asked)
        again = await inside.batch("bob", draft("his"), once=ONCE)
        assert again.repeated
        assert again.items == first.items
        assert len(judge.asked) == asked

    async def test_a_denied_call_uses_no_key(self, at: Table) -> None:
        inside, judge = judged(at, EVERYWHERE)
        judge.denies = True
        with pytest.raises(Forbidden):
            await inside.batch("bob", draft("his"), once=ONCE)
        judge.denies = False
        assert not (await inside.batch("bob", draft("his"), once=ONCE)).repeated

    async def test_other_boards_and_what_changes_nothing_are_not_judged(self, at: Table) -> None:
        await at.post("alice", "there", key="k")
        inside, judge = judged(at, "elsewhere")
        await inside.post("bob", "his")
        assert judge.asked == []
        here, judge = judged(at, at.board)
        await here.store.subscribe(at.board, "bob", "mine", {})
        await here.store.change_board(at.board, "bob", BoardChange())
        await here.store.transact(at.board, "bob", Transaction({"k": 1}, (), ()), config=CONFIG)
        await here.store.create_group(at.board, "bob", "g", {"tags": ["none"]})
        assert [change.kind for change in judge.changes] == [ChangeKind.CONSUME]
        judge.asked.clear()
        await here.store.consume(at.board, "bob", "g", Turn())
        assert judge.asked == []
        with pytest.raises(InvalidInput):
            await here.post("bob", "no item", on=99)
        assert judge.asked == []

    async def test_what_the_server_does_by_itself_is_not_judged(self, at: Table, clock: HandClock) -> None:
        await at.configure(access=("watchful",))
        inside, judge = judged(at, EVERYWHERE)
        await inside.post("bob", "short-lived", ttl=5)
        await inside.post("bob", "old")
        judge.denies = True
        clock.advance(10)
        assert await inside.store.expire() == [at.board]
        assert len((await inside.gone(2)).moved) == 1
        assert len((await at.standing()).config.access) == 1
