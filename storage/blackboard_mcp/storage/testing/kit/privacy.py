"""Tests of private items: for everybody but their author they do not exist, by any path."""

from __future__ import annotations

import pytest
from blackboard_mcp.protocols.errors import Refused, UnknownReference
from blackboard_mcp.protocols.items import Item, Ref

from ..harness import Table, draft
from .leaving import seen, summary, thread


async def _secret(at: Table) -> tuple[Item, Item, Item]:
    """Posts a public item, a private reply to it, and another public item, and returns all three."""
    public = await at.post("alice", "public", tags=["open"])
    secret = await at.post(
        "alice", "secret @bob", private=True, key="s:k", tags=["hush"], replies_to=public, importance=5
    )
    other = await at.post("bob", "other")
    return public, secret, other


class PrivacyTests:
    async def test_a_private_item_is_there_for_its_author(self, at: Table) -> None:
        _, secret, _ = await _secret(at)
        assert (await at.item(secret, "alice")).text == "secret @bob"
        assert secret.number in await at.query("alice")
        assert secret.id in [e.item for e in await at.events("alice")]
        assert secret.number in {i.number for i in (await at.store.snapshot(at.board, "alice")).items}

    async def test_a_private_item_is_not_read_or_found_by_others(self, at: Table) -> None:
        public, secret, _ = await _secret(at)
        for zone in ("working", "archive"):
            found = await at.store.read(at.board, "bob", [Ref(secret.number), Ref(99)], ["s:k", "none"])
            assert (found.items, found.missing) == ((), ("2", "99", "s:k", "none")), zone
            for wanted in ({}, {"text": "secret"}, {"key": "**"}, {"tags": ("hush",)}, {"author": "alice"}):
                assert secret.number not in await at.query("bob", **wanted, zone=None), wanted
            assert (await at.item(public, "bob")).incoming == ()
            assert "hush" not in await at.store.tags(at.board, "bob")
            assert await at.store.why_left(at.board, "bob", [secret.number]) == {}
            assert await at.store.unindexed(at.board, "bob", 10) == []
            await at.gone(secret)
        assert [n for n, _ in await at.store.unindexed(at.board, "alice", 10)] == [secret.number]

    async def test_a_private_item_leaves_no_trace_in_the_log_of_others(self, at: Table) -> None:
        _, secret, _ = await _secret(at)
        await at.post("alice", "secret again", private=True, key="s:k")
        await at.change("alice", secret, status="RESOLVED")
        await at.gone(secret)
        await at.store.restore(at.board, "alice", [secret.number])
        for event in await at.events("bob"):
            assert event.item != secret.id
            assert event.owner is None
            assert str(secret.number) not in str(event.data.get("replies_to", ""))
            assert "hush" not in event.tags
        assert await at.store.history(at.board, "bob", secret.number) == ()
        assert len(await at.store.history(at.board, "alice", secret.number)) == 5

    async def test_a_private_item_is_in_no_snapshot_figure_or_attention_of_others(self, at: Table) -> None:
        _, secret, _ = await _secret(at)
        shown = await at.store.snapshot(at.board, "bob")
        assert secret.number not in {i.number for i in shown.items}
        assert shown.hidden == 0
        assert secret.number not in shown.protected
        assert sum(items for items, _ in (await at.store.statistics(at.board, "bob")).counts.values()) == 2
        assert await at.attention("bob") == ()

    async def test_a_private_item_is_in_no_count_that_others_see(self, at: Table) -> None:
        _, secret, _ = await _secret(at)
        await at.gone(secret)
        ended = (await at.events("bob"))[-1]
        assert (ended.event, ended.data["moved"]) == ("prune.ended", 0)
        assert ended.data["before"] == ended.data["after"]
        for agent, waiting in (("alice", 1), ("bob", 0)):
            assert (await at.store.statistics(at.board, agent)).waiting_for_index == waiting
        assert {a.name: a.posts for a in await at.store.agents(at.board)} == {"alice": 1, "bob": 1}

    async def test_the_pass_that_ends_with_a_summary_counts_no_private_item(self, at: Table) -> None:
        items = await thread(at)
        await at.post("carol", "hush hush hush", private=True)
        shown = sum(item.tokens for item in items)
        id_ = await at.store.apply_summary(at.board, summary(items[0].thread, seen(items)))
        assert id_ is not None
        made = await at.item(int(id_[2:]), "bob")
        (ended,) = [event for event in await at.events("bob") if event.event == "prune.ended"]
        assert (ended.data["before"], ended.data["after"]) == (shown, made.tokens)

    async def test_an_item_that_may_not_be_seen_looks_like_one_that_does_not_exist(self, at: Table) -> None:
        _, secret, _ = await _secret(at)
        before = await at.standing()
        messages = []
        for target in (secret.number, 99):
            said = []
            for attempt in (
                lambda t: at.post("bob", "x", supports=t),
                lambda t: at.change("bob", t, status="RESOLVED"),
                lambda t: at.open("bob", t),
                lambda t: at.watch("bob", t),
                lambda t: at.acknowledge("bob", t),
                lambda t: at.withdraw("bob", t),
                lambda t: at.decide("bob", t),
                lambda t: at.store.debate_status(at.board, "bob", t),
                lambda t: at.store.restore(at.board, "bob", [t]),
            ):
                with pytest.raises(UnknownReference) as told:
                    await attempt(target)
                said.append(told.value.message.replace(str(target), "N"))
            messages.append(said)
        assert messages[0] == messages[1]
        assert await at.standing() == before

    async def test_a_thread_is_not_found_by_a_private_member(self, at: Table) -> None:
        public, secret, _ = await _secret(at)
        assert await at.query("bob", thread=secret.number) == await at.query("bob", thread=99) == []
        assert await at.query("alice", thread=secret.number) == [secret.number, public.number]

    async def test_a_public_answer_to_a_private_note_begins_a_thread_of_its_own(self, at: Table) -> None:
        note = await at.post("alice", "note", private=True)
        answer = await at.post("alice", "answer", "REPLY", replies_to=note)
        seen = await at.item(answer, "bob")
        assert (seen.thread, seen.edges) == (answer.number, ())
        assert all(note.id not in str(e.data) and e.thread != note.number for e in await at.events("bob"))

    async def test_a_chain_of_protection_shows_no_private_item(self, at: Table) -> None:
        root = await at.post("alice", "root")
        far = await at.post("alice", "far")
        note = await at.post("carol", "note", private=True, supports=root, depends_on=far)
        await at.post("bob", "no", "CRITIQUE", critiques=root)
        shown = (await at.store.snapshot(at.board, "bob")).protected
        assert far.number not in shown, "what is hidden holds nothing for others"
        assert {root.number, note.number} <= set((await at.store.snapshot(at.board, "carol")).protected)
        more = await at.post("carol", "more", private=True, supports=note)
        assert await at.held(far, more) == {more.number}
        for protections in (shown, await at.store.guarded(at.board, [root.number, far.number])):
            for protection in protections.values():
                assert note.number not in shown
                assert all(note.number not in (e.source, e.target) for e in protection.chain)

    async def test_private_items_open_no_debate_and_answer_none(self, at: Table) -> None:
        root = await at.post("alice", "root")
        await at.post("bob", "no", "CRITIQUE", critiques=root, private=True)
        assert (await at.item(root, "carol")).debate is None
        mine = await at.post("alice", "mine", private=True)
        with pytest.raises(Refused):
            await at.open("alice", mine)
        critique = await at.post("bob", "no", "CRITIQUE", critiques=root)
        await at.post("alice", "but", "REPLY", replies_to=critique, private=True)
        assert await at.owed("alice") == {(critique.number, "respond")}

    async def test_a_summariser_gets_no_private_item(self, at: Table) -> None:
        public, secret, _ = await _secret(at)
        sources = await at.store.thread_sources(at.board, [public.number, secret.number])
        assert [item.number for item in sources] == [public.number]

    async def test_a_private_item_may_be_posted_with_public_ones(self, at: Table) -> None:
        posted = await at.batch("alice", draft("a"), draft("b", private=True, supports=-1))
        assert [await at.sees("bob", item) for item in posted.items] == [True, False]
