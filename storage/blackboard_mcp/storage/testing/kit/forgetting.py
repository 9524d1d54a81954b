"""Tests of forgetting: an operator's rules remove the content of archived items, and nothing else."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import timedelta
from typing import Final

import pytest
from blackboard_mcp.protocols.errors import BlackboardError, Conflict
from blackboard_mcp.protocols.items import Forgotten, Item, ItemType, Zone, content_hash
from blackboard_mcp.protocols.retention import Retention
from blackboard_mcp.protocols.transactions import Transaction

from ..harness import CONFIG, HandClock, Table, Target, draft, number

DAY: Final = 86_400.0
LOGS: Final = Retention({ItemType.LOG: timedelta(days=30)}, "Ada", "logs are kept for a month")
ALL: Final = Retention({kind: timedelta(days=30) for kind in ItemType}, "Ada", "a month is enough")


async def archived(at: Table, agent: str, text: str, type: str = "LOG", **said: object) -> Item:
    """Posts an item that a pass archives, and returns it."""
    item = await at.post(agent, text, type, **said)
    await at.gone(item)
    assert await at.zone(item, agent) is Zone.ARCHIVE
    return item


async def due(at: Table, retention: Retention = ALL, limit: int = 2) -> list[str]:
    """Returns the ids of all items that may be forgotten, read page by page."""
    found: list[str] = []
    place: int | None = 0
    while place is not None:
        place, page = await at.store.forgettable(at.board, retention, place, limit)
        found += [one.id for one in page]
    return found


async def forget(at: Table, *targets: Target, retention: Retention = ALL) -> tuple[str, ...]:
    """Forgets items, and returns the ids of those that were forgotten."""
    return await at.store.forget(at.board, [number(target) for target in targets], retention)


class ForgettingTests:
    async def test_what_was_forgotten_leaves_a_tombstone_that_says_by_whom_and_why(
        self, at: Table, clock: HandClock
    ) -> None:
        kept = await at.post("bob", "the ground")
        was = await archived(
            at, "alice", "a secret word", tags=["tagged"], metadata={"n": "meta"}, derived_from=kept
        )
        clock.advance(31 * DAY)
        seq = await at.seq()
        assert await forget(at, was, retention=LOGS) == (was.id,)
        item = await at.item(was, "carol")
        assert item.forgotten == Forgotten(clock.now(), "Ada", "logs are kept for a month")
        assert (item.text, item.tags, item.metadata, item.tokens) == ("", (), {}, 0)
        assert (item.id, item.author, item.type) == (was.id, "alice", ItemType.LOG)
        assert (item.created_at, item.version, item.edges) == (was.created_at, 1, was.edges)
        assert item.sha256 == content_hash("a secret word")
        (event,) = await at.events("carol", seq)
        assert (event.event, event.item, event.agent) == ("item.forgotten", was.id, "system")
        assert event.data == {"by": "Ada", "why": "logs are kept for a month"}
        assert await forget(at, was) == ()
        assert await due(at) == []

    async def test_the_news_says_what_of_that_which_left_was_forgotten(
        self, at: Table, clock: HandClock
    ) -> None:
        await at.post("alice", "kept", "FACT")
        look = await at.seq()
        gone = await archived(at, "alice", "gone")
        clock.advance(31 * DAY)
        told = (await at.store.snapshot(at.board, "alice", look=look)).news
        assert (told.forgotten, told.authors[gone.id]) == (frozenset(), "alice")
        await forget(at, gone)
        assert (await at.store.snapshot(at.board, "alice", look=look)).news.forgotten == {gone.id}

    async def test_nothing_that_agents_wrote_into_it_is_answered_any_more(
        self, at: Table, clock: HandClock
    ) -> None:
        was = await archived(at, "alice", "xyzzy", "FACT", tags=["plugh"], metadata={"n": "frotz"})
        await at.change("alice", was, tags=["plover"])
        await at.post("bob", "xyzzy", tags=["plugh"], metadata={"n": "frotz"})
        clock.advance(DAY)  # what came back stays for a while
        await at.gone(was)
        assert await at.store.endorsements(at.board, "bob", was.number)
        clock.advance(31 * DAY)
        assert await forget(at, was) == (was.id,)
        answers = [
            [asdict(event) for event in await at.events("alice")],
            asdict(await at.item(was)),
            asdict(await at.item(was, version=1)),
            [asdict(one) for one in await at.store.endorsements(at.board, "bob", was.number)],
            asdict(listed) if (listed := await at.store.versions(at.board, "bob", was.number)) else None,
            await at.store.tags(at.board, "alice"),
        ]
        said = json.dumps(answers, default=str)
        assert was.id in said
        assert not [word for word in ("xyzzy", "plugh", "frotz", "plover") if word in said]

    async def test_what_is_live_or_of_another_kind_or_not_old_enough_stays(
        self, at: Table, clock: HandClock
    ) -> None:
        live = await at.post("alice", "live", "LOG")
        fact = await archived(at, "alice", "a fact", "FACT")
        clock.advance(DAY)
        young = await archived(at, "alice", "young")
        clock.advance(29 * DAY)
        assert await due(at, LOGS) == []
        assert await forget(at, live, fact, young, retention=LOGS) == ()
        clock.advance(DAY)
        assert await due(at, LOGS) == [young.id]
        assert await due(at) == [fact.id, young.id]
        assert (await at.item(fact)).text == "a fact"

    async def test_whatever_happens_to_an_item_begins_its_time_anew(
        self, at: Table, clock: HandClock
    ) -> None:
        item = await archived(at, "alice", "a finding", "FACT")
        clock.advance(29 * DAY)
        await at.change("alice", item, tags=["new"])
        clock.advance(29 * DAY)
        assert await due(at) == []
        assert await forget(at, item) == ()
        clock.advance(DAY)
        assert await due(at) == [item.id]

    async def test_what_live_items_cite_stays(self, at: Table, clock: HandClock) -> None:
        for kind in ("derived_from", "depends_on", "replies_to", "supports", "refutes"):
            cited = await archived(at, "alice", f"cited by {kind}", "FACT")
            citing = await at.post("bob", f"it says {kind}", "FACT", **{kind: cited})
            clock.advance(40 * DAY)
            assert await forget(at, cited) == (), kind
            await at.gone(citing)
            assert await forget(at, cited) == (cited.id,), kind

    async def test_what_bears_on_a_live_item_stays(self, at: Table, clock: HandClock) -> None:
        question = await at.post("alice", "how many?", "QUESTION")
        answer = await archived(at, "bob", "four", "ANSWER", replies_to=question)
        claim = await at.post("alice", "five", "HYPOTHESIS")
        against = await archived(at, "bob", "no: four", "FACT", refutes=claim)
        aside = await archived(at, "bob", "by the way", "FACT", derived_from=claim)
        clock.advance(40 * DAY)
        assert await due(at) == [aside.id]
        assert await forget(at, answer, against, aside) == (aside.id,)
        await at.gone(question, claim)
        assert await due(at) == [answer.id, against.id]

    async def test_what_came_back_in_between_is_not_forgotten(self, at: Table, clock: HandClock) -> None:
        wanted = await archived(at, "alice", "wanted again")
        argued = await archived(at, "alice", "argued over", "HYPOTHESIS")
        watched = await archived(at, "alice", "watched", "FACT")
        clock.advance(40 * DAY)
        assert await due(at) == [wanted.id, argued.id, watched.id]
        await at.store.restore(at.board, "bob", [wanted.number])
        await at.post("carol", "is that so?", "CRITIQUE", critiques=argued)
        await at.watch("bob", watched)
        clock.advance(40 * DAY)
        assert await forget(at, wanted, argued, watched) == ()
        assert await due(at) == []
        for item in (wanted, argued, watched):
            assert (await at.item(item)).text == item.text

    async def test_what_was_forgotten_does_not_come_back(self, at: Table, clock: HandClock) -> None:
        item = await archived(at, "alice", "gone", "FACT")
        clock.advance(40 * DAY)
        await forget(at, item)
        with pytest.raises(Conflict, match="forgotten"):
            await at.store.restore(at.board, "bob", [item.number])
        with pytest.raises(BlackboardError):
            await at.post("bob", "no", "CRITIQUE", critiques=item)
        with pytest.raises(Conflict, match="forgotten"):
            await at.change("alice", item, status="RESOLVED")
        assert (await at.item(item)).zone is Zone.ARCHIVE
        assert await at.query(zone=None) == []
        assert await at.query(zone=None, deleted=True) == [item.number]

    async def test_the_same_is_posted_anew(self, at: Table, clock: HandClock) -> None:
        item = await archived(at, "alice", "the station closed in 1954", "FACT")
        clock.advance(40 * DAY)
        await forget(at, item)
        again = await at.batch("alice", draft("the station closed in 1954", "FACT"))
        assert (again.items[0].number, again.remarks) == (item.number + 1, ())
        other = await at.batch("bob", draft("the station closed in 1954", "FACT"))
        assert (other.items[0].number, other.endorsed) == (item.number + 1, (0,))

    async def test_an_entry_loses_all_versions_and_its_key_begins_anew(
        self, at: Table, clock: HandClock
    ) -> None:
        entry = await at.post("alice", "first", "PLAN", key="plan:a")
        await at.post("bob", "second", "PLAN", key="plan:a")
        await at.gone(entry)
        clock.advance(40 * DAY)
        assert await forget(at, entry) == (entry.id,)
        first = await at.item(entry, version=1)
        assert (first.text, first.sha256, first.forgotten is None) == ("", content_hash("first"), False)
        assert (await at.store.read(at.board, "alice", [], ["plan:a"])).missing == ("plan:a",)
        anew = await at.post("carol", "third", "PLAN", key="plan:a", expected=0)
        assert (anew.number, anew.version, anew.text, anew.forgotten) == (entry.number, 3, "third", None)
        assert (await at.item(entry, version=2)).forgotten is not None
        listed = await at.store.versions(at.board, "alice", entry.number)
        assert listed is not None
        assert [(v.version, v.forgotten) for v in listed.versions] == [(3, False), (2, True), (1, True)]
        clock.advance(DAY)
        await at.gone(entry)
        clock.advance(40 * DAY)
        assert await forget(at, entry, retention=LOGS) == ()
        assert await forget(at, entry) == (entry.id,)

    async def test_a_transaction_that_read_what_was_forgotten_is_told_so(
        self, at: Table, clock: HandClock
    ) -> None:
        entry = await at.post("alice", "first", "PLAN", key="plan:a")
        await at.gone(entry)
        clock.advance(40 * DAY)
        await forget(at, entry)
        anew = draft("second", "PLAN", key="plan:a", expected=4)
        for transaction in (Transaction({"plan:a": 2}), Transaction(writes=[anew])):
            with pytest.raises(Conflict, match="forgotten"):
                await at.store.transact(at.board, "bob", transaction, config=CONFIG)
        held = Transaction({"plan:a": 0}, [draft("second", "PLAN", key="plan:a", expected=0)])
        (item,) = (await at.store.transact(at.board, "bob", held, config=CONFIG)).items
        assert (item.number, item.version) == (entry.number, 2)

    async def test_former_versions_of_a_deleted_entry_are_forgotten(
        self, at: Table, clock: HandClock
    ) -> None:
        entry = await at.post("alice", "first", "PLAN", key="plan:a")
        await at.delete("bob", "plan:a")
        clock.advance(31 * DAY)
        assert await due(at) == [entry.id]
        await forget(at, entry)
        assert (await at.item(entry, version=1)).text == ""
        assert await due(at) == []

    async def test_the_index_is_told(self, at: Table, clock: HandClock) -> None:
        item = await archived(at, "alice", "searched for", "FACT")
        batch = await at.store.outbox_batch(9)
        await at.store.outbox_done(batch.ids)
        clock.advance(40 * DAY)
        await forget(at, item)
        batch = await at.store.outbox_batch(9)
        assert (batch.documents, batch.removed) == ((), ((at.board, item.number),))
        assert await at.store.archived_keys() == {}

    async def test_what_is_private_is_forgotten_in_private(self, at: Table, clock: HandClock) -> None:
        item = await archived(at, "alice", "mine", private=True)
        clock.advance(40 * DAY)
        seq = await at.seq()
        await forget(at, item)
        assert [event.event for event in await at.events("alice", seq)] == ["item.forgotten"]
        assert await at.events("bob", seq) == []

    async def test_other_boards_than_it_is_for_keep_all(self, at: Table, clock: HandClock) -> None:
        item = await archived(at, "alice", "here")
        clock.advance(40 * DAY)
        elsewhere = Retention(ALL.after, "Ada", "there", ("elsewhere",))
        assert await forget(at, item, retention=elsewhere) == ()

    async def test_what_an_owner_keeps_grows_smaller(self, at: Table, clock: HandClock) -> None:
        item = await at.post("alice", "x" * 5_000, "PLAN", key="k")
        await at.post("alice", "y" * 7_000, "PLAN", key="k")
        await at.gone(item)
        grown = (await at.store.statistics(at.board, "alice")).stored_bytes
        clock.advance(40 * DAY)
        await forget(at, item)
        assert grown - (await at.store.statistics(at.board, "alice")).stored_bytes == 12_000

    async def test_what_was_forgotten_is_counted_nowhere(self, at: Table, clock: HandClock) -> None:
        kept = await archived(at, "alice", "kept", "FACT")
        gone = await archived(at, "alice", "gone")
        hidden = await archived(at, "alice", "mine", private=True)
        entry = await at.post("alice", "first", "PLAN", key="plan:a")
        deleted = await at.post("alice", "other", "PLAN", key="plan:b")
        await at.gone(entry)
        await at.delete("bob", "plan:b")
        assert await self._archive(at) == {"FACT": 1, "LOG": 2, "PLAN": 2}
        clock.advance(40 * DAY)
        assert len(await forget(at, gone, hidden, entry, deleted)) == 4
        assert await self._archive(at) == {"FACT": 1}
        assert len(await forget(at, gone, hidden, entry, deleted)) == 0
        anew = await at.post("carol", "third", "PLAN", key="plan:a")
        assert (anew.number, await self._archive(at)) == (entry.number, {"FACT": 1})
        assert (await at.standing()).working_items == 1
        clock.advance(DAY)  # what came back stays for a while
        await at.gone(anew)
        assert await self._archive(at) == {"FACT": 1, "PLAN": 1}
        await at.store.restore(at.board, "bob", [kept.number])
        assert await self._archive(at) == {"PLAN": 1}

    @staticmethod
    async def _archive(at: Table) -> dict[str, int]:
        """Returns the number of archived items by type; fails if statistics, snapshot and board disagree."""
        figures = await at.store.statistics(at.board, "alice")
        counted: dict[str, int] = {}
        for (zone, type_, _), (items, _) in figures.counts.items():
            if zone == Zone.ARCHIVE:
                counted[str(type_)] = counted.get(str(type_), 0) + items
        told = (await at.store.snapshot(at.board, "alice")).archived
        assert {str(type_): items for type_, items in told.types} == counted
        assert (await at.standing()).archived_items == sum(counted.values())
        return counted
