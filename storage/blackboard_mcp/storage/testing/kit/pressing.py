"""Tests of pressure: when it begins, changes and ends, what it counts, and which posts it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from blackboard_mcp.protocols.errors import Refused, UnderPressure
from blackboard_mcp.protocols.items import Item, ItemType, Status, Zone, content_hash
from blackboard_mcp.protocols.pressure import KEY, Cause, Pressure, Unblocker, Wording
from blackboard_mcp.protocols.store import BoardStore

from ..harness import CONFIG, Table, draft

TARGET, HIGH = CONFIG.target_tokens, CONFIG.high_tokens


class Judge:
    """Judges the pressure on a board, and keeps what it was given."""

    def __init__(self) -> None:
        self.told: list[Pressure] = []

    async def __call__(self, at: Table) -> str | None:
        return await at.store.judge_pressure(at.board, self.describe)

    def describe(self, found: Pressure) -> Wording:
        """Keeps the figures, and returns a text for the hot issue."""
        self.told.append(found)
        text = f"{found.held_tokens} held"
        return Wording(text, 500, content_hash(text))


async def pressed(at: Table, tokens: int = TARGET + 1) -> tuple[Item, Item, Judge]:
    """Puts a board under pressure; returns alice's claim, bob's critique of it, and the judge.

    The two items have so many `tokens` together.
    """
    claim = await at.post("alice", "claim", tokens=tokens - 1)
    doubt = await at.post("bob", "no", "CRITIQUE", critiques=claim, tokens=1)
    judge = Judge()
    assert await judge(at) == "began"
    return claim, doubt, judge


async def issue_of(at: Table) -> Item:
    """Returns the hot issue that reports the pressure."""
    number = (await at.standing()).pressure
    assert number is not None
    return await at.item(number)


class PressureTests:
    async def test_pressure_begins_above_the_target_and_not_at_it(self, at: Table) -> None:
        claim = await at.post("alice", "claim", tokens=TARGET - 1)
        await at.post("bob", "no", "CRITIQUE", critiques=claim, tokens=1)
        judge = Judge()
        await at.post("alice", "free", tokens=TARGET)
        before = await at.standing()
        assert await judge(at) is None
        assert await at.standing() == before
        await at.post("bob", "and no", "CRITIQUE", critiques=claim, tokens=1)
        assert await judge(at) == "began"
        issue = await issue_of(at)
        assert (issue.type, issue.author, issue.key, issue.text) == (
            ItemType.HOT_ISSUE,
            "system",
            KEY,
            f"{TARGET + 1} held",
        )
        events = [e for e in await at.events() if e.event in ("board.pressure", "item.posted")][-2:]
        assert [(e.event, e.item, e.agent) for e in events] == [
            ("item.posted", issue.id, "system"),
            ("board.pressure", issue.id, "system"),
        ]
        assert events[1].data == {
            "state": "began",
            "held_tokens": TARGET + 1,
            "held_items": 3,
            "target_tokens": TARGET,
            "unblock": ["alice"],
        }
        assert issue.id in await at.attention("alice")
        assert issue.id not in await at.attention("bob"), "who can do nothing about it is not called"

    async def test_it_says_what_holds_how_much_and_who_can_unblock(self, at: Table) -> None:
        claim, doubt, _ = await pressed(at)
        rule = await at.post("carol", "rule", "CONSTRAINT", tokens=3_000)
        watched = await at.post("alice", "watched", tokens=1_000)
        await at.watch("dora", watched)
        judge = Judge()
        assert await judge(at) == "changed"
        told = judge.told[-1]
        assert told.causes == (
            Cause("debate", claim.id, 2, TARGET + 1),
            Cause("constraints", None, 1, 3_000),
            Cause("watched items", None, 1, 1_000),
        )
        assert (told.held_items, told.held_tokens, told.target_tokens) == (4, TARGET + 4_001, TARGET)
        assert set(told.unblockers) == {
            Unblocker("alice", "respond", doubt.id),
            Unblocker("dora", "acknowledge", watched.id),
            Unblocker("carol", "retire", rule.id),
        }

    async def test_private_items_neither_cause_it_nor_show_in_it(self, at: Table) -> None:
        secret = await at.post("alice", "mine", "CONSTRAINT", private=True, tokens=2 * TARGET)
        await at.watch("alice", await at.post("alice", "note", private=True, tokens=2 * TARGET))
        assert await Judge()(at) is None
        _, _, judge = await pressed(at)
        told = judge.told[-1]
        assert (told.held_items, told.held_tokens) == (2, TARGET + 1)
        assert secret.id not in str(told)

    async def test_low_importance_is_refused_but_for_what_belongs_to_an_argument(self, at: Table) -> None:
        claim, doubt, _ = await pressed(at)
        free = await at.post("alice", "free", importance=3)
        before = await at.standing()
        for said in (
            draft("x", "LOG"),
            draft("x", importance=1),
            draft("x", "CONSTRAINT", importance=2),
            draft("x", "LOG", private=True),
            draft("x", "LOG", supports=free),
            draft("x", "LOG", key="k"),
        ):
            with pytest.raises(UnderPressure) as caught:
                await at.batch("carol", draft("fine", importance=3), said)
            assert caught.value.code == "pressure"
            assert isinstance(caught.value, Refused)
        facts = caught.value.facts
        assert facts["unblock"] == ["alice"]
        assert (facts["held_tokens"], facts["target_tokens"], facts["ceiling"]) == (TARGET + 1, TARGET, 2)
        assert facts["issue"] == (await issue_of(at)).id
        assert await at.standing() == before, "a refused batch leaves nothing behind"
        for type_ in ("REPLY", "ANSWER", "CRITIQUE", "DECISION"):
            await at.post("carol", "x", type_, importance=1)
        for edge in ("supports", "depends_on", "derived_from", "replies_to"):
            await at.post("carol", "x", "LOG", **{edge: doubt})
        await at.post("carol", "x", "FACT", importance=3)
        await at.batch("carol", draft("x", "CRITIQUE", critiques=claim), draft("x", "LOG", supports=-1))

    async def test_what_is_there_may_be_changed_under_pressure(self, at: Table) -> None:
        entry = await at.post("alice", "a", "LOG", key="k")
        note = await at.post("alice", "b", "LOG")
        await pressed(at)
        assert (await at.post("alice", "c", "LOG", key="k")).number == entry.number
        assert (await at.change("alice", note, status="RESOLVED")).status == Status.RESOLVED

    async def test_it_stays_between_the_marks_and_ends_at_the_high_water_mark(self, at: Table) -> None:
        claim, _, judge = await pressed(at)
        issue = await issue_of(at)
        other = await at.post("alice", "other", tokens=HIGH + 1)
        await at.watch("carol", other)
        assert await judge(at) == "changed"
        await at.decide("carol", claim)
        assert await judge(at) == "changed"
        assert judge.told[-1].held_tokens == HIGH + 1
        assert (await at.standing()).pressure == issue.number
        with pytest.raises(UnderPressure):
            await at.post("carol", "x", "LOG")
        await at.acknowledge("carol", other)
        assert await judge(at) == "ended"
        assert (await at.standing()).pressure is None
        assert await at.status(issue) is Status.RESOLVED
        last = (await at.events())[-2:]
        assert [(e.event, e.item) for e in last] == [("item.changed", issue.id), ("board.pressure", issue.id)]
        assert (last[1].data["state"], last[1].data["held_tokens"]) == ("ended", 0)
        await at.post("carol", "x", "LOG")
        assert await judge(at) is None

    async def test_a_new_version_comes_with_what_is_new_and_not_with_every_look(self, at: Table) -> None:
        claim, doubt, judge = await pressed(at)
        assert await judge(at) is None
        await at.post("alice", "because", "REPLY", replies_to=doubt, tokens=5)
        assert [await judge(at), await judge(at)] == ["changed", None], "alice has answered"
        await at.post("bob", "more", "REPLY", replies_to=claim, tokens=TARGET // 20)
        assert await judge(at) is None, "a twentieth of the target is no news"
        await at.post("bob", "much more", "REPLY", replies_to=claim, tokens=TARGET // 5)
        assert [await judge(at), await judge(at)] == ["changed", None]
        assert (await issue_of(at)).version == 3
        await at.watch("dora", claim)
        assert [await judge(at), await judge(at)] == ["changed", None]

    async def test_a_second_time_is_told_in_the_same_entry(self, at: Table) -> None:
        claim, _, judge = await pressed(at)
        first = await issue_of(at)
        await at.decide("carol", claim)
        assert await judge(at) == "ended"
        await at.gone(first)
        assert await at.zone(first) is Zone.ARCHIVE
        again, _, _ = await pressed(at)
        second = await issue_of(at)
        assert (second.number, second.version, second.zone) == (first.number, 2, Zone.WORKING)
        assert second.status is Status.ACTIVE
        assert again.id in second.metadata["debates"]

    async def test_only_the_server_writes_the_issue_and_the_guard_holds_it(self, at: Table) -> None:
        await pressed(at)
        issue = await issue_of(at)
        attempts: list[dict[str, Any]] = [
            {"on": issue, "status": "RESOLVED"},
            {"on": issue, "status": "INVALIDATED"},
            {"on": issue, "text": "all is well"},
            {"key": KEY, "text": "all is well", "type": "HOT_ISSUE"},
        ]
        for said in attempts:
            with pytest.raises(Refused, match="kept by the server"):
                await at.batch("alice", draft(said.pop("text", None), **said))
        assert await at.item(issue) == issue
        await at.prune()
        assert await at.zone(issue) is Zone.WORKING

    async def test_an_issue_that_is_debated_when_pressure_ends_resolves_with_the_debate(
        self, at: Table
    ) -> None:
        claim, _, judge = await pressed(at)
        issue = await issue_of(at)
        doubt = await at.post("carol", "no", "CRITIQUE", critiques=issue)
        await at.decide("dora", claim)
        assert await judge(at) == "ended"
        assert await at.status(issue) is Status.DEBATED
        await at.answer("dora", doubt)
        await at.acknowledge("carol", issue)
        assert await at.status(issue) is Status.RESOLVED
        last = (await at.events())[-1]
        assert (last.event, last.item, last.agent) == ("item.changed", issue.id, "system")
        await at.open("carol", issue)
        await at.decide("dora", issue)
        assert await at.status(issue) is Status.RESOLVED, "nobody else could resolve it"

    async def test_a_debate_on_the_issue_leaves_it_open_while_there_is_pressure(self, at: Table) -> None:
        await pressed(at)
        issue = await issue_of(at)
        await at.answer("dora", await at.post("carol", "no", "CRITIQUE", critiques=issue))
        await at.acknowledge("carol", issue)
        assert await at.status(issue) is Status.ACTIVE

    async def test_somebody_elses_entry_of_that_name_is_left_alone(self, at: Table) -> None:
        mine = await at.post("alice", "mine", key=KEY)
        claim, doubt, judge = await pressed(at)
        issue = await issue_of(at)
        assert (issue.key, issue.author) == (None, "system")
        await at.watch("dora", claim)
        await at.answer("alice", doubt)
        assert await judge(at) == "changed"
        await at.decide("carol", claim)
        assert await judge(at) == "ended"
        assert await at.item(mine) == mine

    async def test_the_issue_itself_is_not_counted(self, at: Table) -> None:
        _, _, judge = await pressed(at)
        for _ in range(5):
            assert await judge(at) is None, "the issue has 500 tokens, and holds nothing"
        assert (await at.standing()).working_tokens == TARGET + 501

    async def test_boards_are_pressed_each_for_itself(self, store: BoardStore) -> None:
        one, two = Table(store, "one"), Table(store, "two")
        await pressed(one)
        await two.post("alice", "x", "LOG")
        assert await Judge()(two) is None
        assert (await two.standing()).pressure is None

    async def test_both_handles_are_under_the_same_pressure(self, handles: tuple[Table, Table]) -> None:
        one, two = handles
        claim, _, judge = await pressed(one)
        assert await judge(two) is None
        with pytest.raises(UnderPressure):
            await two.post("carol", "x", "LOG")
        await two.decide("carol", claim)
        assert await judge(two) == "ended"
        assert await judge(one) is None
        await one.post("carol", "x", "LOG")
