"""Tests of retraction: items that rest on a withdrawn, invalidated or superseded item get a notice."""

from __future__ import annotations

import pytest
from blackboard_mcp.protocols.errors import Refused
from blackboard_mcp.protocols.items import EdgeKind, Retraction, Status, Zone

from ..harness import Table, Target, draft, edge
from .leaving import summary


async def rests_on(at: Table, item: Target, agent: str = "alice") -> list[str]:
    """Returns the id and status in each of the item's retraction notices."""
    return [f"{r.id} {r.status}" for r in (await at.item(item, agent)).retracted]


async def doubted(at: Table, agent: str = "alice") -> list[tuple[str | None, tuple[str, ...]]]:
    """Returns the events of retraction notices in order, as pairs of item and agents concerned."""
    return [(e.item, e.concerns) for e in await at.events(agent) if e.event == "item.doubted"]


class RetractionTests:
    async def test_nobody_invalidates_what_another_side_wrote_without_a_debate(self, at: Table) -> None:
        await at.store.set_owner("alice2", "alice")
        one, two = await at.post("alice", "a"), await at.post("alice", "b")
        with pytest.raises(Refused, match="CRITIQUE"):
            await at.change("mal", one, status="INVALIDATED")
        assert await at.item(one) == one
        await at.change("alice2", one, status="INVALIDATED")
        await at.change("alice", two, status="INVALIDATED")
        assert await at.status(one) is await at.status(two) is Status.INVALIDATED

    @pytest.mark.parametrize("status", ["WITHDRAWN", "INVALIDATED"])
    @pytest.mark.parametrize("kind", ["depends_on", "derived_from", "supports"])
    async def test_what_rests_on_a_retracted_item_is_marked_and_its_author_told(
        self, at: Table, kind: str, status: str
    ) -> None:
        source = await at.post("alice", "a")
        item = await at.post("bob", "b", **edge(kind, source))
        await at.watch("carol", item)
        before = await at.seq()
        await at.change("alice", source, status=status)
        now = await at.item(item)
        assert now.retracted == (Retraction(source.id, status, EdgeKind(kind), source.id),)
        assert (now.seq, now.status, now.zone) == (item.seq, item.status, Zone.WORKING)
        told = (await at.events(after=before))[-1]
        assert (str(told.event), told.item, told.agent) == ("item.doubted", item.id, "alice")
        assert set(told.concerns) == {"bob", "carol"}
        assert told.data == {"rests_on": [f"{source.id} {status}"]}
        assert item.id in await at.attention("bob", before)

    @pytest.mark.parametrize("kind", ["replies_to", "critiques", "refutes"])
    async def test_what_argues_with_a_retracted_item_does_not_rest_on_it(self, at: Table, kind: str) -> None:
        source = await at.post("alice", "a")
        item = await at.post("bob", "b", **edge(kind, source))
        await at.change("alice", source, status="WITHDRAWN")
        assert await rests_on(at, item) == []
        assert await doubted(at) == []

    async def test_an_analysis_rests_on_what_it_analysed_and_not_the_other_way(self, at: Table) -> None:
        log, other = await at.post("bob", "log", "LOG"), await at.post("bob", "log", "LOG")
        analysis = await at.post("alice", "b")
        await at.change("alice", log, analyzed_by=analysis)
        await at.change("alice", other, analyzed_by=analysis)
        await at.change("bob", log, status="WITHDRAWN")
        assert await rests_on(at, analysis) == [f"{log.id} WITHDRAWN"]
        await at.change("alice", analysis, status="WITHDRAWN")
        assert await rests_on(at, other) == []

    async def test_what_its_author_superseded_is_retracted_and_what_took_its_place_is_not_told(
        self, at: Table
    ) -> None:
        source = await at.post("alice", "a")
        item = await at.post("bob", "b", derived_from=source)
        new = await at.post("alice", "better", supersedes=source, derived_from=source)
        (notice,) = (await at.item(item)).retracted
        assert (notice.status, notice.by) == ("SUPERSEDED", new.id)
        assert await rests_on(at, new) == []
        assert await doubted(at) == [(item.id, ("bob",))]

    async def test_what_others_say_supersedes_it_retracts_nothing(self, at: Table) -> None:
        source = await at.post("alice", "a")
        item = await at.post("bob", "b", derived_from=source)
        await at.post("carol", "better", supersedes=source)
        assert await rests_on(at, item) == []

    async def test_a_notice_follows_what_depends_and_derives_and_stops_at_support(self, at: Table) -> None:
        source = await at.post("alice", "a")
        one = await at.post("bob", "one", derived_from=source)
        two = await at.post("carol", "two", depends_on=one)
        three = await at.post("dave", "three", derived_from=two)
        beside = await at.post("erin", "beside", supports=two)
        support = await at.post("frank", "support", supports=source)
        below = await at.post("frank", "below", derived_from=support)
        await at.change("alice", source, status="INVALIDATED")
        for item, via in ((one, source), (two, one), (three, two), (support, source)):
            told = [(notice.id, notice.via) for notice in (await at.item(item)).retracted]
            assert told == [(source.id, via.id)]
        assert await rests_on(at, beside) == await rests_on(at, below) == []
        assert sorted(item for item, _ in await doubted(at) if item) == sorted(
            i.id for i in (one, two, three, support)
        )

    async def test_circles_and_many_ways_make_one_notice_and_one_event(self, at: Table) -> None:
        source = await at.post("alice", "a")
        one = await at.post("alice", "one", derived_from=source, supports=source)
        two = await at.post("alice", "two", derived_from=[one, source])
        await at.change("alice", source, derived_from=two)
        await at.change("alice", one, derived_from=two)
        await at.change("alice", source, status="WITHDRAWN")
        for item in (one, two):
            assert await rests_on(at, item) == [f"{source.id} WITHDRAWN"]
        assert await rests_on(at, source) == []
        assert sorted(item for item, _ in await doubted(at) if item) == [one.id, two.id]

    async def test_support_that_turns_out_to_depend_passes_the_notice_on(self, at: Table) -> None:
        source = await at.post("alice", "a")
        between = await at.post("alice", "between", derived_from=source)
        both = await at.post("alice", "both", supports=source, depends_on=between)
        below = await at.post("alice", "below", derived_from=both)
        await at.change("alice", source, status="WITHDRAWN")
        assert await rests_on(at, below) == [f"{source.id} WITHDRAWN"]
        (notice,) = (await at.item(both)).retracted
        assert (notice.kind, notice.via) == (EdgeKind.DEPENDS_ON, between.id)
        assert len(await doubted(at)) == 3

    async def test_archived_items_are_marked_where_they_are(self, at: Table) -> None:
        source = await at.post("alice", "a")
        item = await at.post("bob", "b", derived_from=source)
        below = await at.post("carol", "c", depends_on=item)
        await at.gone(source, item, below)
        waiting = len((await at.store.outbox_batch(100)).ids)
        await at.change("alice", source, status="WITHDRAWN")
        assert await rests_on(at, item) == await rests_on(at, below) == [f"{source.id} WITHDRAWN"]
        assert await at.zone(item) is Zone.ARCHIVE
        assert len((await at.store.outbox_batch(100)).ids) == waiting + 1

    async def test_a_summary_is_marked_when_its_source_is_retracted_after_it_was_written(
        self, at: Table
    ) -> None:
        before, source = await at.post("alice", "a"), await at.post("alice", "b", "LOG")
        reply = await at.post("bob", "c", "REPLY", replies_to=before)
        await at.change("bob", reply, status="WITHDRAWN")
        seen = {n: (await at.item(n)).seq for n in (before.number, reply.number)}
        id_ = await at.store.apply_summary(at.board, summary(before.thread, seen, "short"))
        assert id_ is not None
        made = await at.item(int(id_[2:]))
        assert made.retracted == ()
        await at.change("alice", before, status="WITHDRAWN")
        assert await rests_on(at, made) == [f"{before.id} WITHDRAWN"]
        assert await rests_on(at, source) == []

    async def test_who_cites_what_was_retracted_before_is_marked_at_once(self, at: Table) -> None:
        source = await at.post("alice", "a")
        between = await at.post("alice", "b", derived_from=source)
        await at.change("alice", source, status="WITHDRAWN")
        direct = await at.post("bob", "c", derived_from=source)
        further = await at.post("bob", "d", depends_on=between)
        for item, via in ((direct, source), (further, between)):
            assert item.retracted == (Retraction(source.id, "WITHDRAWN", item.cites[0][0], via.id),)
        assert [item for item, _ in await doubted(at)] == [between.id, direct.id, further.id]

    async def test_an_edge_added_later_passes_notices_on_to_what_is_there(self, at: Table) -> None:
        source = await at.post("alice", "a")
        item = await at.post("bob", "b")
        below = await at.post("carol", "c", derived_from=item)
        await at.change("alice", source, status="WITHDRAWN")
        await at.change("bob", item, derived_from=source)
        assert await rests_on(at, item) == await rests_on(at, below) == [f"{source.id} WITHDRAWN"]

    async def test_a_new_version_clears_its_notices_unless_it_cites_again(self, at: Table) -> None:
        source = await at.post("alice", "a")
        entry = await at.post("bob", "one", "PLAN", key="k", derived_from=source)
        below = await at.post("carol", "c", depends_on=entry)
        await at.change("alice", source, status="WITHDRAWN")
        await at.post("bob", "two", "PLAN", key="k")
        assert await rests_on(at, entry) == []
        assert await rests_on(at, below) == [f"{source.id} WITHDRAWN"]
        later = await at.post("dave", "d", depends_on=entry)
        assert later.retracted == ()
        await at.post("bob", "three", "PLAN", key="k", derived_from=source)
        assert await rests_on(at, entry) == [f"{source.id} WITHDRAWN"]

    async def test_a_private_item_tells_its_owner_alone_and_lets_nothing_out(self, at: Table) -> None:
        source = await at.post("alice", "a")
        note = await at.post("bob", "note", private=True, derived_from=source)
        public = await at.post("bob", "public", derived_from=note)
        await at.watch("bob", note)
        await at.change("alice", source, status="WITHDRAWN")
        assert await rests_on(at, note, "bob") == [f"{source.id} WITHDRAWN"]
        assert await rests_on(at, public) == []
        assert await doubted(at, "bob") == [(note.id, ("bob",))]
        assert await doubted(at, "alice") == []

    async def test_a_retracted_private_item_marks_its_owners_private_items_alone(self, at: Table) -> None:
        note = await at.post("bob", "note", private=True)
        other = await at.post("bob", "another", private=True, derived_from=note)
        public = await at.post("bob", "public", derived_from=note)
        await at.change("bob", note, status="WITHDRAWN")
        late = await at.post("bob", "later", derived_from=note)
        assert await rests_on(at, other, "bob") == [f"{note.id} WITHDRAWN"]
        assert await rests_on(at, public, "bob") == await rests_on(at, late, "bob") == []
        assert await doubted(at, "alice") == []

    async def test_a_wide_and_deep_retraction_reaches_everything_in_slices(self, at: Table) -> None:
        source = await at.post("alice", "a")
        wide = await at.batch("bob", *(draft(f"wide {n}", derived_from=source) for n in range(450)))
        chain = [source.number]
        for n in range(60):
            chain.append((await at.post("carol", f"link {n}", depends_on=chain[-1])).number)
        before = await at.seq()
        await at.change("alice", source, status="WITHDRAWN")
        slices = await at.seq() - before
        assert slices < 450
        late = await at.post("dave", "late", depends_on=chain[-1])
        assert await at.store.spread_retractions() in ([at.board], [])
        assert await at.store.spread_retractions() == []
        for n in (*(item.number for item in wide.items), *chain[1:], late.number):
            assert await rests_on(at, n) == [f"{source.id} WITHDRAWN"], n
        told = [item for item, _ in await doubted(at)]
        assert len(told) == len(set(told)) == 450 + 60 + 1
