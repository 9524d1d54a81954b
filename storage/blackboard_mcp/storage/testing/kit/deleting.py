"""Tests of deleting entries: tombstones, what stays readable, later versions, and what may not be deleted."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, Refused, UnknownReference
from blackboard_mcp.protocols.events import EventType
from blackboard_mcp.protocols.items import Draft, Status, Visibility, Zone, content_hash

from ..harness import HandClock, Table, draft


def _anywhere(text: str) -> Draft:
    """Returns a draft without a visibility."""
    return replace(draft(text, key="k"), visibility=None)


class DeletingTests:
    async def test_I22_a_delete_takes_a_version_and_leaves_the_former_ones_readable(
        self, at: Table, clock: HandClock
    ) -> None:
        await at.post("alice", "one", key="k", tags=["t"], metadata={"v": 1})
        clock.advance()
        await at.post("bob", "one two", key="k")
        clock.advance()
        gone = await at.delete("carol", "k")
        assert (gone.number, gone.version, gone.deleted, gone.zone) == (1, 3, True, Zone.ARCHIVE)
        assert (gone.text, gone.tags, gone.metadata, gone.tokens) == ("", (), {}, 0)
        assert (gone.author, gone.updated_by, gone.updated_at) == ("alice", "carol", clock.now())
        assert gone.sha256 == content_hash("")
        assert await at.item(1) == gone
        for version, text, writer in ((1, "one", "alice"), (2, "one two", "bob")):
            item = await at.item(1, version=version)
            assert (item.text, item.updated_by, item.deleted) == (text, writer, False)
            assert (item.sha256, item.status) == (content_hash(text), Status.ACTIVE)
        board = await at.standing()
        assert (board.working_items, board.working_tokens, board.archived_items) == (0, 0, 1)

    async def test_a_deleted_key_reads_as_missing_and_its_versions_do_not(self, at: Table) -> None:
        await at.post("alice", "a", key="k")
        await at.delete("alice", "k")
        found = await at.store.read(at.board, "bob", [], ["k", "k@1", "k@2", "k@3"])
        assert [(i.text, i.version, i.deleted) for i in found.items] == [("a", 1, False), ("", 2, True)]
        assert found.missing == ("k", "k@3")

    async def test_tombstones_are_listed_only_where_they_are_asked_for(self, at: Table) -> None:
        await at.post("alice", "a", key="k")
        await at.post("alice", "b", key="l")
        await at.delete("alice", "k")
        assert await at.query(zone=None) == [2]
        assert await at.query(zone=Zone.ARCHIVE) == []
        assert await at.query(zone=None, key="**") == [2]
        assert await at.query(zone=None, deleted=True) == [1]
        counts = (await at.store.statistics(at.board, "alice")).counts
        assert counts[("archive", "FACT", "WITHDRAWN")] == (1, 0)

    async def test_I19_a_delete_is_one_event_with_the_tags_of_what_went(self, at: Table) -> None:
        await at.post("alice", "a", key="k", tags=["t"])
        before = await at.seq()
        await at.delete("bob", "k")
        (event,) = await at.events(after=before)
        assert (event.event, event.item, event.key, event.version) == (EventType.ITEM_DELETED, "F-1", "k", 2)
        assert (event.agent, event.tags, event.concerns) == ("bob", ("t",), ("alice",))
        left = await at.store.why_left(at.board, "alice", [1])
        assert left[1] == event

    async def test_a_post_to_a_deleted_key_goes_on_with_the_next_version(self, at: Table) -> None:
        await at.post("alice", "a", key="k", tags=["t"], ttl=5)
        await at.delete("bob", "k")
        again = await at.post("carol", "b c", key="k")
        assert (again.number, again.version, again.deleted, again.zone) == (1, 3, False, Zone.WORKING)
        assert (again.status, again.author, again.updated_by) == (Status.ACTIVE, "alice", "carol")
        assert (again.tags, again.expires_at) == ((), None)
        assert (await at.store.read(at.board, "bob", [], ["k"])).items == (again,)
        assert (await at.item(1, version=2)).deleted
        board = await at.standing()
        assert (board.working_items, board.working_tokens, board.archived_items) == (1, 2, 0)

    @pytest.mark.parametrize("expected", [0, 2, None])
    async def test_a_deleted_entry_fits_version_zero_and_that_of_its_tombstone(
        self, at: Table, expected: int | None
    ) -> None:
        await at.post("alice", "a", key="k")
        await at.delete("alice", "k", expected=1)
        assert (await at.post("bob", "b", key="k", expected=expected)).version == 3

    async def test_any_other_version_of_a_deleted_entry_is_a_conflict_that_says_so(self, at: Table) -> None:
        await at.post("alice", "a", key="k")
        await at.delete("alice", "k")
        before = await at.standing()
        for stale in (1, 3):
            with pytest.raises(Conflict, match="deleted at version 2") as told:
                await at.post("bob", "b", key="k", expected=stale)
            assert told.value.facts["current_version"] == 2
            assert told.value.facts["deleted"] is True
        assert await at.standing() == before

    async def test_I24_a_delete_that_cannot_be_changes_nothing(self, at: Table) -> None:
        plain = await at.post("alice", "plain")
        await at.post("alice", "a", key="k")
        await at.post("alice", "b", key="gone")
        await at.delete("alice", "gone")
        before = await at.standing()
        for said, error in (
            (draft(None, key="nothing", delete=True), UnknownReference),
            (draft(None, key="nothing", delete=True, expected=1), Conflict),
            (draft(None, key="gone", delete=True), Conflict),
            (draft(None, key="k", delete=True, expected=0), Conflict),
            (draft(None, key="k", delete=True, expected=2), Conflict),
            (draft(None, on=plain, delete=True), InvalidInput),
            (draft(None, on=99, delete=True), UnknownReference),
            (draft(None, on=2, key="other", delete=True), InvalidInput),
        ):
            with pytest.raises(error, match="Nothing was changed"):
                await at.batch("bob", said)
            with pytest.raises(error):  # nor does what stands beside it in a batch
                await at.batch("bob", draft("beside"), said)
        assert await at.standing() == before

    async def test_a_tombstone_takes_nothing_but_a_new_text(self, at: Table) -> None:
        gone = await at.post("alice", "a", key="k")
        await at.delete("alice", "k")
        before = await at.standing()
        for said in ({"status": "RESOLVED"}, {"importance": 1}, {"tags": ["t"]}, {"ttl": 5.0}):
            with pytest.raises(Conflict, match="was deleted at version 2"):
                await at.change("alice", gone, **said)
        with pytest.raises(Conflict):
            await at.post("bob", "no", "CRITIQUE", critiques=gone)
        for call in (at.open("bob", gone), at.watch("bob", gone), at.store.restore(at.board, "bob", [1])):
            with pytest.raises(Conflict, match="was deleted"):
                await call
        assert await at.standing() == before
        reply = await at.post("bob", "why?", "REPLY", replies_to=gone)
        assert (reply.thread, await at.zone(gone)) == (1, Zone.ARCHIVE)
        assert (await at.change("bob", gone, text="again")).version == 3

    async def test_what_rests_on_a_deleted_entry_is_told_and_a_new_version_clears_its_own(
        self, at: Table
    ) -> None:
        base = await at.post("alice", "base", key="base")
        leaning = await at.post("bob", "leaning", key="lean", depends_on=base)
        await at.post("carol", "further", derived_from=leaning)
        await at.delete("alice", "base")
        for number in (2, 3):
            (notice,) = (await at.item(number)).retracted
            assert (notice.id, notice.status) == ("F-1", "DELETED")
        late = await at.post("dave", "late", depends_on=base)
        assert [n.status for n in late.retracted] == ["DELETED"]
        assert (await at.post("alice", "base again", key="base")).retracted == ()
        assert (await at.item(leaning)).retracted  # it rests on what was said then
        assert (await at.post("bob", "leaning again", key="lean")).retracted == ()

    async def test_a_deleted_entry_supports_and_opposes_nothing_any_more(self, at: Table) -> None:
        claim = await at.post("alice", "claim")
        await at.post("bob", "for it", key="for", supports=claim)
        await at.post("carol", "against it", key="against", refutes=claim)
        stands = await at.item(claim)
        assert (stands.supporters, stands.opponents) == (("bob",), ("carol",))
        await at.delete("bob", "for")
        await at.delete("carol", "against")
        stands = await at.item(claim)
        assert (stands.supporters, stands.opponents) == ((), ())

    async def test_I3_what_the_guard_holds_cannot_be_deleted(self, at: Table) -> None:
        await at.post("alice", "debated", key="debated")
        await at.post("bob", "no", "CRITIQUE", critiques=1)
        leaned_on = await at.post("alice", "leaned on", key="base")
        await at.post("carol", "for it", supports=1, depends_on=leaned_on)
        watched = await at.post("alice", "watched", key="watched")
        await at.watch("bob", watched)
        await at.post("alice", "law", "CONSTRAINT", key="law")
        await at.post("alice", "hot", "HOT_ISSUE", key="hot")
        before = await at.standing()
        for key, who in (
            ("debated", "alice"),
            ("base", "alice"),
            ("watched", "bob"),
            ("law", "alice"),
            ("hot", "alice"),
        ):
            for agent in ("alice", "bob"):
                with pytest.raises(Refused, match=who):
                    await at.delete(agent, key)
        assert await at.standing() == before
        await at.acknowledge("bob", watched)
        assert (await at.delete("bob", "watched")).deleted
        await at.change("alice", 6, status="RESOLVED")
        assert (await at.delete("bob", "law")).deleted
        await at.store.debate_withdraw(at.board, "bob", 2, "")
        assert (await at.delete("bob", "debated")).deleted

    async def test_an_archived_entry_may_be_deleted_and_leaves_the_search_index(self, at: Table) -> None:
        item = await at.post("alice", "a", key="k")
        await at.gone(item)
        batch = await at.store.outbox_batch(10)
        assert [d.number for d in batch.documents] == [1]
        await at.store.outbox_done(batch.ids)
        assert (await at.delete("alice", "k")).version == 2
        batch = await at.store.outbox_batch(10)
        assert (batch.documents, batch.removed) == ((), ((at.board, 1),))
        assert await at.store.archived_keys() == {}
        assert await at.store.documents([(at.board, 1)]) == ()
        assert [d async for page in at.store.archived_documents() for d in page] == []
        board = await at.standing()
        assert (board.working_items, board.archived_items) == (0, 1)

    async def test_I25_private_and_shared_entries_of_a_key_are_deleted_apart(self, at: Table) -> None:
        await at.post("alice", "shared", key="k")
        await at.post("alice", "alice's", key="k", private=True)
        await at.post("bob", "bob's", key="k", private=True)
        seq = await at.seq()
        assert (await at.delete("alice", "k", private=True)).number == 2
        assert await at.events("bob", after=seq) == []
        assert not await at.sees("bob", 2)
        texts = {}
        for agent in ("alice", "bob", "carol"):
            found = await at.store.read(at.board, agent, [], ["k"])
            texts[agent] = [i.text for i in found.items]
        assert texts == {"alice": ["shared"], "bob": ["bob's"], "carol": ["shared"]}
        with pytest.raises(Conflict) as told:
            await at.delete("alice", "k", private=True)
        assert told.value.facts["item"] == "F-2"
        with pytest.raises(UnknownReference):
            await at.delete("carol", "k", private=True)
        assert (await at.delete("carol", "k")).number == 1
        again = await at.post("alice", "mine", key="k", private=True)
        assert (again.number, again.version, again.visibility) == (2, 3, Visibility.PRIVATE)

    async def test_where_visibility_is_not_said_what_stands_is_meant_before_tombstones(
        self, at: Table
    ) -> None:
        await at.post("alice", "shared", key="k")
        await at.post("alice", "own", key="k", private=True)
        await at.delete("alice", "k", private=True)
        plain = await at.batch("alice", _anywhere("both"))
        assert (plain.items[0].number, plain.items[0].version) == (1, 2)
        await at.delete("alice", "k")
        plain = await at.batch("alice", _anywhere("own again"))
        assert (plain.items[0].number, plain.items[0].visibility) == (2, Visibility.PRIVATE)

    async def test_a_batch_may_make_delete_and_make_again(self, at: Table) -> None:
        posted = await at.batch(
            "alice", draft("a", key="k"), draft(None, key="k", delete=True), draft("b", key="k")
        )
        assert [(i.number, i.version, i.text) for i in posted.items] == [(1, 3, "b")] * 3
        posted = await at.batch("alice", draft("c", key="l"), draft(None, key="l", delete=True))
        assert [(i.version, i.deleted) for i in posted.items] == [(2, True)] * 2
        board = await at.standing()
        assert (board.working_items, board.archived_items) == (1, 1)

    async def test_of_agents_who_delete_the_same_version_one_does(self, at: Table) -> None:
        await at.post("alice", "start", key="k")

        async def attempt(agent: str) -> bool:
            try:
                await at.delete(agent, "k", expected=1)
            except Conflict:
                return False
            return True

        assert sum(await asyncio.gather(*(attempt(f"agent-{n}") for n in range(8)))) == 1
        assert (await at.item(1)).version == 2
