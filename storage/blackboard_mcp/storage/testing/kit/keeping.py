"""Tests of read rules: those whom a rule names read what it keeps, its author too, and nobody else by any path."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from blackboard_mcp.protocols.access import Role
from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.board import BoardChange
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, Refused, UnknownReference
from blackboard_mcp.protocols.groups import Turn
from blackboard_mcp.protocols.items import Item, ItemType, Visibility
from blackboard_mcp.protocols.read_rules import ReadRule
from blackboard_mcp.protocols.transactions import BOARD, Transaction

from ..harness import CONFIG, HandClock, Table, draft
from .absence import absent
from .asking import Asking
from .consuming import figures, group, kill
from .leaving import seen, thread

PAY = ReadRule("pay", ("alice", "team:acme", "role:steward"), key="pay:**")
LOGS = ReadRule("logs", ("carol",), types=(ItemType.LOG,))
HUSH = ReadRule("hush", ("alice",), tags=("hush", "secret"))
EVE = ReadRule("eve", ("team:acme",), authors=("eve", "team:mallory", "role:observer"), boards=("main", "b"))


async def _said(at: Table, agent: str, text: str, type: str | None = None, **said: Any) -> Item:
    """Posts without a visibility, as agents do, and returns the item."""
    posted = await at.batch(agent, replace(draft(text, type, **said), visibility=None))
    return posted.items[0]


async def _ruled(at: Table) -> None:
    """Sets four rules; bob acts for acme, carol and dave for themselves, mal for mallory."""
    await at.store.set_read_rules((PAY, LOGS, HUSH, EVE))
    for agent, owner in (("bob", "acme"), ("mal", "mallory")):
        await at.store.set_owner(agent, owner)


class KeepingTests:
    async def test_rules_are_kept_as_they_were_set(self, at: Table) -> None:
        assert await at.store.read_rules() == ()
        await _ruled(at)
        assert await at.store.read_rules() == (PAY, LOGS, HUSH, EVE)
        await at.store.set_read_rules((LOGS,))
        assert await at.store.read_rules() == (LOGS,)
        await at.store.set_read_rules(())
        assert await at.store.read_rules() == ()

    async def test_the_readers_of_a_rule_see_what_it_keeps(self, at: Table) -> None:
        await _ruled(at)
        public = await at.post("alice", "public")
        kept = await _said(
            at, "alice", "ours @bob @carol", key="pay:may", tags=["x"], replies_to=public, importance=5
        )
        assert kept.visibility is Visibility.READERS
        for agent in ("alice", "bob"):
            assert (await at.item(kept, agent)).text == "ours @bob @carol"
            assert [i.text for i in (await at.store.read(at.board, agent, [], ["pay:may"])).items] == [
                kept.text
            ]
            assert kept.number in await at.query(agent, key="pay:*")
            assert (await at.item(public, agent)).cited_by == (("replies_to", kept.id),)
            assert kept.id in [event.item for event in await at.events(agent)]
            assert "x" in await at.store.tags(at.board, agent)
            assert kept.number in {i.number for i in (await at.store.snapshot(at.board, agent)).items}
        assert await at.attention("bob") == (kept.id,)

    async def test_what_a_rule_keeps_is_absent_for_everybody_else(self, at: Table) -> None:
        await _ruled(at)
        public = await at.post("alice", "public")
        kept = await _said(
            at, "alice", "ours @bob @carol", key="pay:may", tags=["x"], replies_to=public, importance=5
        )
        for _ in ("working", "archive"):
            for agent in ("carol", "eve", "pay", "read", "system-"):
                await absent(at, agent, kept, public)
            await at.gone(kept)
        assert [n for n, _ in await at.store.unindexed(at.board, "bob", 10)] == [kept.number]

    async def test_each_condition_keeps_what_meets_it_and_all_conditions_must_be_met(self, at: Table) -> None:
        await _ruled(at)
        log = await _said(at, "dave", "ran", "LOG")
        tagged = await _said(at, "dave", "found", tags=["a", "secret"])
        evil = await _said(at, "eve", "trust me")
        owned = await _said(at, "mal", "trust me too")
        plain = await _said(at, "dave", "plain", tags=["a"])

        async def readers(item: Item) -> str:
            return " ".join(
                [a for a in ("alice", "bob", "carol", "dave", "eve", "mal") if await at.sees(a, item)]
            )

        assert [await readers(item) for item in (log, tagged, evil, owned, plain)] == [
            *("carol dave", "alice dave", "bob eve", "bob mal"),
            "alice bob carol dave eve mal",
        ]
        both = ReadRule("both", ("bob",), types=(ItemType.LOG,), tags=("hush",), boards=("elsewhere",))
        await at.store.set_read_rules((both, replace(both, name="here", boards=(), readers=("alice",))))
        assert (await _said(at, "dave", "log", "LOG")).visibility is Visibility.BOARD
        assert await readers(await _said(at, "dave", "hush", "LOG", tags=["hush"])) == "alice dave"

    async def test_the_first_rule_that_an_item_meets_keeps_it(self, at: Table) -> None:
        await at.store.set_read_rules((LOGS, replace(LOGS, name="all", readers=("*",))))
        first = await _said(at, "dave", "one", "LOG")
        await at.store.set_read_rules((replace(LOGS, name="all", readers=("*",)), LOGS))
        second = await _said(at, "dave", "two", "LOG")
        assert [await at.sees("eve", item) for item in (first, second)] == [False, True]

    async def test_who_reads_follows_from_the_present_rules_owners_and_roles(self, at: Table) -> None:
        await _ruled(at)
        await at.post("alice", "public")
        kept = await _said(at, "alice", "pay", key="pay:may")
        assert not await at.sees("carol", kept)
        await at.store.set_owner("carol", "acme")
        assert await at.sees("carol", kept)
        await at.store.set_owner("carol", "carol")
        assert not await at.sees("carol", kept)
        assert await at.store.set_shown_role(at.board, "carol", Role.STEWARD)
        assert await at.sees("carol", kept)
        roles = BoardChange(members={"carol": Role.CONTRIBUTOR, "dave": Role.STEWARD})
        await at.store.change_board(at.board, "admin", roles)
        assert [await at.sees(agent, kept) for agent in ("carol", "dave")] == [False, True], (
            "the board's come first"
        )
        await at.store.set_read_rules((replace(PAY, readers=("zoe",)),))
        assert [await at.sees(agent, kept) for agent in ("alice", "bob", "zoe")] == [False, False, True]
        await at.store.set_read_rules(())
        assert [await at.sees(agent, kept) for agent in ("alice", "zoe")] == [False, False], (
            "no rule, no readers"
        )
        await at.store.set_read_rules((replace(PAY, readers=("*",)),))
        assert await at.sees("eve", kept)

    async def test_a_role_counts_on_its_own_board(self, at: Table) -> None:
        await _ruled(at)
        other = Table(at.store, "other")
        for board in (at, other):
            await board.post("alice", "public")
        assert not await at.store.set_shown_role("nowhere", "carol", Role.STEWARD)
        await at.store.set_shown_role("other", "carol", Role.STEWARD)
        here, there = (
            await _said(at, "alice", "p", key="pay:a"),
            await _said(other, "alice", "p", key="pay:a"),
        )
        assert [await at.sees("carol", here), await other.sees("carol", there)] == [False, True]

    async def test_an_author_sees_what_it_wrote_for_others(self, at: Table) -> None:
        await _ruled(at)
        log = await _said(at, "dave", "ran", "LOG")
        assert (await at.item(log, "dave")).text == "ran"
        assert log.id in [event.item for event in await at.events("dave")]
        viewers = await at.store.viewers(at.board, ["carol", "dave", "eve"])
        (event,) = [e for e in await at.events("dave") if e.item == log.id]
        assert [event.visible_to(viewers[agent]) for agent in ("carol", "dave", "eve")] == [True, True, False]
        await at.change("dave", log, status="WITHDRAWN")
        with pytest.raises(UnknownReference):
            await at.change("eve", log, importance=1)
        answer = await _said(at, "carol", "seen", "REPLY", replies_to=log)
        assert (await at.item(answer, "dave")).cites == (("replies_to", log.id),)
        assert (await at.item(answer, "eve")).edges == ()

    async def test_keys_under_a_rule_are_of_its_readers_and_name_nothing_to_others(self, at: Table) -> None:
        await at.post("carol", "before the rule", key="pay:may")
        await _ruled(at)
        first = await _said(at, "alice", "one", key="pay:may")
        second = await _said(at, "bob", "two", key="pay:may", expected=1)
        assert (second.number, second.version) == (first.number, 2)
        with pytest.raises(Conflict):
            await _said(at, "alice", "late", key="pay:may", expected=1)
        begun = await _said(at, "dave", "three", key="pay:may", expected=0)
        assert (begun.number != first.number, begun.version) == (True, 1), "hidden entries are no entries"

        async def read(agent: str) -> list[str]:
            return [item.text for item in (await at.store.read(at.board, agent, [], ["pay:may"])).items]

        assert await read("bob") == ["two"], "who is no reader cannot stand before what readers share"
        assert [await read(agent) for agent in ("dave", "eve")] == [["three"], ["before the rule"]]
        assert (await _said(at, "dave", "four", key="pay:may")).number == begun.number
        await at.delete("carol", "pay:may")
        assert await read("eve") == []

    async def test_what_a_rule_keeps_cannot_be_for_others_and_private_stays_private(self, at: Table) -> None:
        await _ruled(at)
        for team in (False, True):
            with pytest.raises(Refused, match="read rule 'pay' keeps this for its readers"):
                await at.post("alice", "x", key="pay:may", team=team)
        assert await at.store.find_board(at.board) is None
        mine = await at.post("alice", "mine", key="pay:may", private=True)
        assert (mine.visibility, await at.sees("bob", mine)) == (Visibility.PRIVATE, False)

    async def test_what_a_rule_keeps_becomes_no_version_of_what_a_team_sees(self, at: Table) -> None:
        await _ruled(at)
        await at.store.set_owner("dave", "acme")
        team = await at.post("bob", "for the team", key="plan", team=True)
        kept = await _said(at, "bob", "for readers", key="plan", tags=["hush"])
        assert (kept.number != team.number, kept.visibility) == (True, Visibility.READERS)
        assert [await at.sees("dave", item) for item in (team, kept)] == [True, False]
        with pytest.raises(InvalidInput, match="read rule 'hush' would keep"):
            await at.change("bob", team, tags=["hush"])
        again = await _said(at, "bob", "for readers again", key="plan", tags=["hush"])
        assert (again.number, again.version) == (kept.number, 2)
        assert (await at.item(team, "dave")).text == "for the team"

    async def test_an_item_never_comes_under_a_rule_later(self, at: Table) -> None:
        await _ruled(at)
        plain = await _said(at, "dave", "plain", tags=["a"])
        seq = await at.seq()
        with pytest.raises(InvalidInput, match="read rule 'hush' would keep"):
            await at.change("dave", plain, tags=["a", "hush"])
        assert await at.seq() == seq
        entry = await _said(at, "dave", "open", key="k")
        kept = await _said(at, "dave", "closed", key="k", tags=["hush"])
        assert kept.number != entry.number
        assert (await at.item(entry, "eve")).text == "open"
        for agent, text in (("alice", "open"), ("dave", "closed"), ("eve", "open")):
            assert (await at.store.read(at.board, agent, [], ["k"])).items[0].text == text
        again = await _said(at, "dave", "still closed", key="k")
        assert (again.number, again.visibility) == (kept.number, Visibility.READERS)

    async def test_what_a_rule_keeps_is_in_no_debate_and_supports_nothing(self, at: Table) -> None:
        await _ruled(at)
        root = await at.post("carol", "root")
        await _said(at, "alice", "no", "CRITIQUE", critiques=root, tags=["hush"])
        assert (await at.item(root, "bob")).debate is None
        kept = await _said(at, "alice", "ours", key="pay:a")
        with pytest.raises(Refused, match="is readers: a debate"):
            await at.open("bob", kept)
        hidden = await _said(at, "alice", "The cache is stale after a deploy.", "FACT", tags=["hush"])
        posted = await at.batch("carol", draft("The cache is stale after a deploy.", "FACT"))
        assert (posted.endorsed, (await at.item(hidden, "alice")).supporters) == ((), ())

    async def test_transactions_hold_and_tell_what_a_reader_may_see(self, at: Table) -> None:
        await _ruled(at)
        await _said(at, "alice", "one", key="pay:a")
        seq = await at.seq()
        await _said(at, "alice", "two", key="pay:a")

        async def hold(agent: str) -> dict[str, int]:
            asked = Transaction(
                writes=(draft("done", key=f"by:{agent}"),), reads={"pay:*": seq, "pay:a": 0, BOARD: seq}
            )
            try:
                await at.store.transact(at.board, agent, asked, config=CONFIG)
            except Conflict as conflict:
                return dict(conflict.facts["moved"])
            return {}

        assert await hold("carol") == {}, "what is hidden moves nothing"
        assert (await hold("bob"))["pay:a"] == 2

    async def test_what_stands_comes_under_the_present_rules_on_request(self, at: Table) -> None:
        public = await at.post("alice", "public")
        before = await _said(
            at, "alice", "ours @bob @carol", key="pay:may", tags=["x"], replies_to=public, importance=5
        )
        await at.post("alice", "ours again @bob @carol", key="pay:may")
        assert (await at.store.reclassify(at.board)).kept == ()
        await _ruled(at)
        seq = await at.seq()
        asked = await at.store.reclassify(at.board)
        assert (asked.kept, asked.bound, asked.done) == (((before.id, "pay"),), (), False)
        assert (await at.seq(), await at.sees("carol", before)) == (seq, True), "a question changes nothing"
        done = await at.store.reclassify(at.board, apply=True)
        assert (done.kept, done.done) == (asked.kept, True)
        for _ in ("working", "archive"):
            for agent in ("carol", "eve", "pay", "read", "system-"):
                await absent(at, agent, before, public)
            for agent in ("alice", "bob"):
                (by_key,) = (await at.store.read(at.board, agent, [], ["pay:may"])).items
                assert by_key.text == "ours again @bob @carol"
                assert before.id in [event.item for event in await at.events(agent)]
                assert len(await at.store.history(at.board, agent, before.number)) >= 3
            await at.gone(before)
        assert (await at.store.reclassify(at.board, apply=True)).kept == ()
        told = [event.data for event in await at.events("bob") if event.data.get("rule")]
        assert [each["now"] for each in told] == [{"visibility": "readers"}]

    async def test_who_is_no_reader_keeps_its_own_when_what_stands_comes_under_a_rule(
        self, at: Table
    ) -> None:
        log = await _said(at, "dave", "ran", "LOG")
        await _ruled(at)
        assert (await at.store.reclassify(at.board, apply=True)).kept == ((log.id, "logs"),)
        assert [await at.sees(agent, log) for agent in ("dave", "carol", "eve")] == [True, True, False]
        after = await _said(at, "dave", "ran again", "LOG")
        assert (await at.item(after, "dave")).visibility is (await at.item(log, "dave")).visibility

    async def test_groups_let_go_of_what_comes_under_a_rule(self, at: Table, clock: HandClock) -> None:
        await group(at, attempts=1)
        await at.post("alice", "dead", key="pay:dead")
        await kill(at, clock, 1, 1)
        held, free = await at.post("alice", "held", key="pay:held"), await at.post("alice", "free")

        async def turn() -> list[str | None]:
            once = Once("turn", "turn")
            taken = await at.store.consume(at.board, "carol", "g", Turn(limit=5, lease_seconds=60), once=once)
            return [delivery.event.item for delivery in taken.deliveries]

        assert await turn() == [held.id, free.id]
        assert await figures(at) == (0, 2, 0, 1)
        await _ruled(at)
        await at.store.reclassify(at.board, apply=True)
        assert await turn() == [free.id], "asked again"
        assert await figures(at) == (0, 1, 0, 0)
        clock.advance(60)
        await at.store.sweep_groups()
        letters, _ = await at.store.dead_letters(at.board, "g")
        assert [letter.event.item for letter in letters] == [free.id]

    async def test_groups_hand_out_what_a_rule_opens_to_everybody_as_long_as_it_does(
        self, at: Table, clock: HandClock
    ) -> None:
        await at.store.set_read_rules((replace(HUSH, readers=("*",)),))
        await at.post("alice", "begin")
        await at.store.create_group("main", "eve", "g", {"event": "item.posted"}, max_attempts=2)
        asked = Turn(limit=1, lease_seconds=60)
        opened = await _said(at, "alice", "open to all", tags=["hush"])
        for attempt in (1, 2):
            taken = await at.store.consume("main", "eve", "g", asked)
            assert [(one.event.item, one.handle.attempt) for one in taken.deliveries] == [
                (opened.id, attempt)
            ]
            clock.advance(61)
        assert (await at.store.consume("main", "eve", "g", asked)).dead == 1
        letters, _ = await at.store.dead_letters("main", "g")
        assert [letter.event.item for letter in letters] == [opened.id]
        waits, held = [await _said(at, "alice", text, tags=["hush"]) for text in ("waits", "is held")]
        taken = await at.store.consume("main", "eve", "g", asked)
        assert [one.event.item for one in taken.deliveries] == [waits.id]
        clock.advance(61)
        taken = await at.store.consume("main", "bob", "g", replace(asked, limit=2))
        assert [one.event.item for one in taken.deliveries] == [waits.id, held.id]
        await at.store.set_read_rules((HUSH,))
        clock.advance(61)
        shown = await at.post("alice", "shown")
        taken = await at.store.consume("main", "eve", "g", replace(asked, limit=5))
        assert [one.event.item for one in taken.deliveries] == [shown.id]
        assert (taken.waiting, taken.dead) == (0, 0)
        assert (await at.store.dead_letters("main", "g"))[0] == []

    async def test_a_request_for_a_summary_ends_with_a_source_that_comes_under_a_rule(
        self, at: Table
    ) -> None:
        items = await thread(at)
        items.append(await at.post("bob", "pay", "REPLY", replies_to=items[0], key="pay:a"))
        assert await at.store.request_summary(at.board, items[0].thread, seen(items), wait_seconds=60)
        assert len((await at.store.snapshot(at.board, "eve")).summaries) == 1

        async def take(agent: str) -> list[str]:
            once = Once("take", "take")
            _, sources = await at.store.take_summary(at.board, agent, items[0].number, seconds=30, once=once)
            return [source.id for source in sources]

        assert await take("eve") == [item.id for item in items]
        await _ruled(at)
        assert (await at.store.reclassify(at.board, apply=True)).kept == ((items[-1].id, "pay"),)
        assert (await at.store.summary_requests(at.board))[0] == []
        assert (await at.store.snapshot(at.board, "eve")).summaries == ()
        assert await take("eve") == [item.id for item in items[:-1]], "asked again"
        with pytest.raises(Conflict):
            await take("carol")

    async def test_what_answers_a_request_or_ends_a_debate_stays_for_everybody(self, at: Table) -> None:
        asking = Asking(at)
        asked = await asking.ask(to="bob")
        await asking.take("bob", asked)
        await asking.answer("bob", asked, partial=True)
        root = await at.post("alice", "root")
        critique = await at.post("carol", "no", "CRITIQUE", critiques=root)
        reply = await at.answer("alice", critique)
        other = await at.post("alice", "rather this", key="pay:b")
        await at.concede("alice", root, to=other)
        (part,) = await at.query(types=(ItemType.RESULT,), zone=None)
        ends = ReadRule("ends", ("bob",), types=(ItemType.RESULT, ItemType.REPLY))
        await at.store.set_read_rules((PAY, ends))
        found = await at.store.reclassify(at.board)
        assert found.kept == ()
        assert {(int(id_[2:]), why) for id_, _, why in found.bound} == {
            (part, "a request"),
            (reply.number, "a debate"),
            (other.number, "a debate"),
        }

    async def test_what_a_team_sees_stays_with_it_and_is_named(self, at: Table) -> None:
        await at.store.set_owner("bob", "acme")
        notes: list[Item] = []
        for agent, key, visibility in (
            ("bob", "pay:ours", Visibility.TEAM),
            ("carol", "pay:theirs", Visibility.TEAM),
            ("alice", "pay:free", Visibility.BOARD),
            ("carol", "pay:own", Visibility.PRIVATE),
        ):
            said = replace(draft("note", key=key), visibility=visibility)
            notes += (await at.batch(agent, said)).items
        ours, theirs, free, own = notes
        await _ruled(at)
        found = await at.store.reclassify(at.board)
        assert (found.kept, found.bound) == (((free.id, "pay"),), ())
        assert found.teams == ((theirs.id, "pay"),), "acme reads what the rule keeps, and an author its own"
        with pytest.raises(Refused, match=f"1 items stay with their teams: {theirs.id}. Nothing was changed"):
            await at.store.reclassify(at.board, apply=True)
        assert await at.sees("eve", free)
        done = await at.store.reclassify(at.board, apply=True, leave=True)
        assert (done.kept, done.teams, done.done) == (found.kept, found.teams, True)
        assert [await at.sees("eve", item) for item in (ours, theirs, free, own)] == [False] * 4
        assert [await at.sees("carol", item) for item in (theirs, own)] == [True, True]

    async def test_what_the_whole_board_rests_on_stays_for_everybody(self, at: Table) -> None:
        root = await at.post("carol", "root", key="pay:a")
        await at.post("alice", "no", "CRITIQUE", critiques=root, tags=["hush"])
        law = await at.post("alice", "never", "CONSTRAINT", key="pay:law")
        free = await at.post("alice", "free", key="pay:free")
        taken = await at.post("alice", "old", key="pay:taken")
        await _ruled(at)
        await _said(at, "alice", "new", key="pay:taken")
        seq = await at.seq()
        found = await at.store.reclassify(at.board)
        assert found.kept == ((free.id, "pay"),)
        assert {id_ for id_, _, _ in found.bound} >= {root.id, law.id, taken.id}
        assert len(found.bound) == 4
        with pytest.raises(Refused, match="4 items stay for everybody"):
            await at.store.reclassify(at.board, apply=True)
        assert (await at.seq(), await at.sees("eve", free)) == (seq, True)
        assert (await at.store.reclassify(at.board, apply=True, leave=True)).kept == found.kept
        assert [await at.sees("eve", item) for item in (free, root, law, taken)] == [False, True, True, True]
        assert (await at.item(root, "eve")).debate is not None
