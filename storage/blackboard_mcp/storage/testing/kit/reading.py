"""Tests of reading: by id, key and version, queries with every condition, pages, figures and attention."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from blackboard_mcp.protocols.answers import Look
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.items import ItemType, Ref, Status, Zone

from ..harness import HandClock, Table, draft


class ReadingTests:
    async def test_a_read_answers_in_the_order_asked_and_names_what_is_missing(self, at: Table) -> None:
        await at.batch("alice", draft("a"), draft("b", key="k:b"), draft("c"), draft("d", key="k:d"))
        refs = [Ref(3), Ref(9), Ref(1), Ref(2, 1), Ref(2, 5), Ref(3)]
        found = await at.store.read(at.board, "alice", refs, ["k:d", "none", "k:b"])
        assert [item.text for item in found.items] == ["c", "a", "b", "c", "d", "b"]
        assert found.missing == ("9", "2@5", "none")
        assert found.seq == await at.seq()

    async def test_conditions_of_a_query(self, at: Table, clock: HandClock) -> None:
        start = clock.now()
        await at.post("alice", "The quick brown fox", "FACT", tags=["a", "b"], key="plan:one")
        clock.advance()
        await at.post("bob", "lazy dog", "LOG", tags=["b", "c"], key="plan:one:deep")
        clock.advance()
        await at.post("alice", "quick dog", "HYPOTHESIS", tags=["c"], replies_to=1)
        clock.advance()
        await at.post("bob", "nothing at all", "FACT", status="RESOLVED")
        clock.advance()
        await at.post("carol", "gone", "LOG")
        await at.gone(5)
        second = timedelta(seconds=1)
        cases: list[tuple[dict[str, Any], list[int]]] = [
            ({}, [4, 3, 2, 1]),
            ({"zone": None}, [5, 4, 3, 2, 1]),
            ({"zone": Zone.ARCHIVE}, [5]),
            ({"zone": Zone.CORE}, []),
            ({"text": "quick"}, [3, 1]),
            ({"text": "QUICK dog"}, [3]),
            ({"text": "uic ox"}, []),
            ({"text": "quick missing"}, []),
            ({"types": (ItemType.FACT,)}, [4, 1]),
            ({"types": (ItemType.LOG, ItemType.HYPOTHESIS)}, [3, 2]),
            ({"key": "plan:one"}, [1]),
            ({"key": "plan:*"}, [1]),
            ({"key": "plan:**"}, [2, 1]),
            ({"key": "**"}, [2, 1]),
            ({"key": "*:one:d*p"}, [2]),
            ({"tags": ("b",)}, [2, 1]),
            ({"tags": ("a", "b")}, [1]),
            ({"tags": ("a", "c")}, []),
            ({"any_tags": ("a", "c")}, [3, 2, 1]),
            ({"no_tags": ("b",)}, [4, 3]),
            ({"any_tags": ("b", "c"), "no_tags": ("a",), "tags": ("c",)}, [3, 2]),
            ({"author": "bob"}, [4, 2]),
            ({"author": "BOB"}, []),
            ({"statuses": (Status.RESOLVED,)}, [4]),
            ({"statuses": (Status.RESOLVED, Status.ACTIVE)}, [4, 3, 2, 1]),
            ({"thread": 1}, [3, 1]),
            ({"thread": 3}, [3, 1]),
            ({"thread": 99}, []),
            ({"after": start + second}, [4, 3, 2]),
            ({"before": start + second}, [1]),
            ({"after": start + second, "before": start + 3 * second}, [3, 2]),
            (
                {"author": "alice", "types": (ItemType.FACT,), "text": "fox", "tags": ("a",), "key": "p**"},
                [1],
            ),
        ]
        for wanted, expected in cases:
            assert await at.query(**wanted) == expected, wanted

    async def test_tags_with_control_characters_are_found_by_name(self, at: Table) -> None:
        for tag in ("x\x1ay", "x\x1a1", "x\x1a"):
            await at.post("alice", f"tagged {tag!r}", tags=[tag])
        for number, tag in enumerate(("x\x1ay", "x\x1a1", "x\x1a"), 1):
            others = [n for n in (3, 2, 1) if n != number]
            assert await at.query(tags=(tag,)) == await at.query(any_tags=(tag, "b")) == [number]
            assert await at.query(no_tags=(tag,)) == others

    async def test_words_of_a_query_are_no_pattern(self, at: Table) -> None:
        await at.post("alice", "100% of a_b 'quoted'")
        await at.post("alice", "plain")
        for text in ("%", "100%", "a_b", "'quoted'"):
            assert await at.query(text=text) == [1]
        assert await at.query(text="p_ain") == []
        assert await at.query(text="' OR 1=1 --") == []

    @pytest.mark.parametrize("limit", [1, 3, 7, 200])
    @pytest.mark.parametrize(
        "wanted", [{}, {"text": "even"}, {"key": "k:*"}, {"zone": None}, {"author": "alice"}]
    )
    async def test_pages_are_complete_without_gap_or_repeat(
        self, at: Table, limit: int, wanted: dict[str, Any]
    ) -> None:
        for n in range(14):
            await at.post(
                "alice" if n % 3 else "bob",
                "even" if n % 2 == 0 else "odd",
                key=f"k:{n}" if n % 4 == 0 else None,
                private=n % 5 == 0,
            )
        await at.gone(3, 4, 7)
        everything = await at.query("alice", **wanted, limit=200)
        cursor: int | None = None
        paged: list[int] = []
        for turn in range(20):
            page = await at.store.query(
                at.board,
                "alice",
                ItemQuery(**wanted, limit=limit, cursor=cursor),
            )
            assert len(page.items) <= limit
            paged += [item.number for item in page.items]
            if turn == 0:
                await at.post("alice", "even odd", key="k:new")  # newer: belongs to no later page
            cursor = page.cursor
            if cursor is None:
                break
            assert len(page.items) == limit
        assert paged == everything == sorted(everything, reverse=True)

    @pytest.mark.parametrize("limit", [1, 2, 200])
    async def test_the_newest_of_each_tag_key_author_or_thread_is_listed(self, at: Table, limit: int) -> None:
        old = (await at.post("alice", "orders 4", tags=["p95", "orders"])).number
        await at.post("alice", "billing 1", tags=["p95", "billing"], key="k:1")
        both = (await at.post("bob", "orders and billing 7", tags=["p95", "orders", "billing"])).number
        await at.post("carol", "orders 9, mine alone", tags=["p95", "orders"], private=True)
        alone = (await at.post("bob", "plain", key="k:2")).number
        search = (await at.post("alice", "search 3", "REPLY", tags=["search"], replies_to=old)).number
        await at.gone(both)

        async def newest(agent: str = "alice", **wanted: Any) -> list[int]:
            found: list[int] = []
            cursor = None
            while True:
                asked = ItemQuery(**{"zone": None, **wanted}, limit=limit, cursor=cursor)
                page = await at.store.query(at.board, agent, asked)
                found += [item.number for item in page.items]
                if (cursor := page.cursor) is None:
                    return found

        assert await newest(latest="tag") == [search, both]
        assert await newest(latest="tag", tags=("p95",)) == [both]
        assert await newest(latest="tag", tags=("p95",), zone=Zone.WORKING) == [2, old]
        assert await newest(latest="tag", any_tags=("billing", "search")) == [search, both]
        assert await newest("carol", latest="tag", any_tags=("orders", "billing")) == [4, both]
        assert await newest(latest="tag", text="billing") == [both]
        assert await newest(latest="key") == [alone, 2]
        assert await newest(latest="author") == [search, alone]
        assert await newest(latest="thread") == [search, alone, both, 2]

    async def test_a_query_looks_past_many_items_that_do_not_match(self, at: Table) -> None:
        await at.post("alice", "needle", key="a:b:c")
        for _ in range(7):
            await at.batch("alice", *(draft("hay", key=f"a:{_}:{n}:x") for n in range(100)))
        assert await at.query(text="needle") == [1]
        assert await at.query(key="a:b:*") == [1]
        assert await at.query(key="*:*:c") == [1]

    async def test_tags_in_use_come_most_used_first(self, at: Table) -> None:
        await at.post("alice", "a", tags=["x", "z"])
        await at.post("alice", "b", tags=["x", "y"])
        gone = await at.post("alice", "c", tags=["x", "gone"])
        await at.gone(gone)
        assert await at.store.tags(at.board, "bob") == ["x", "y", "z"]

    async def test_statistics_count_by_zone_type_and_status(self, at: Table) -> None:
        await at.post("alice", "one two", "FACT")
        await at.post("alice", "one", "FACT")
        h = await at.post("alice", "a b c", "HYPOTHESIS")
        log = await at.post("alice", "a b c d", "LOG")
        c = await at.post("bob", "no", "CRITIQUE", critiques=h)
        await at.gone(log)
        figures = await at.store.statistics(at.board, "carol")
        assert figures.counts == {
            ("working", "FACT", "ACTIVE"): (2, 3),
            ("working", "HYPOTHESIS", "DEBATED"): (1, 3),
            ("working", "CRITIQUE", "ACTIVE"): (1, 1),
            ("archive", "LOG", "ACTIVE"): (1, 4),
        }
        assert (figures.protected_items, figures.protected_tokens, figures.open_debates) == (2, 4, 1)
        assert figures.waiting_for_index == 1
        assert figures.board.working_items == 4
        assert figures.board.working_tokens == 7
        assert await at.held(h, c, log) == {h.number, c.number}

    async def test_a_snapshot_is_of_one_moment_with_the_law_the_debts_and_the_debates(
        self, at: Table
    ) -> None:
        rule = await at.post("alice", "rule", "CONSTRAINT", importance=1)
        issue = await at.post("alice", "issue", "HOT_ISSUE", importance=1)
        root = await at.post("alice", "root", importance=1)
        critique = await at.post("bob", "no", "CRITIQUE", critiques=root, importance=1)
        for call in range(5):
            await at.batch("carol", *(draft(f"filler {call} {n}", importance=5) for n in range(100)))
        shown = await at.store.snapshot(at.board, "alice")
        numbers = {item.number for item in shown.items}
        assert {rule.number, issue.number, root.number, critique.number} <= numbers
        assert shown.hidden == 504 - len(numbers) > 0
        assert [d.root for d in shown.debates] == [root.number]
        assert [n for n, _ in shown.owed] == [critique.number]
        assert {rule.number, issue.number, root.number, critique.number} == set(shown.protected)
        assert shown.board == await at.standing()

    async def test_a_snapshot_tells_what_others_did_since_the_agent_looked(self, at: Table) -> None:
        old = await at.post("bob", "before")
        look = await at.seq()
        own = await at.post("alice", "my own")
        fresh = await at.post("bob", "after")
        await at.post("bob", "his note", private=True)
        await at.gone(old, own)
        news = (await at.store.snapshot(at.board, "alice", look=look)).news
        assert [(e.event, e.item) for e in news.events if e.event == "item.posted"] == [
            ("item.posted", fresh.id)
        ]
        assert {e.item for e in news.events if e.event == "item.archived"} == {old.id, own.id}
        assert news.authors == {old.id: "bob", own.id: "alice"}
        assert news.whole
        assert [e.seq for e in news.events] == sorted(e.seq for e in news.events)
        assert (await at.store.snapshot(at.board, "alice")).news.events == (), (
            "it is not known where she looked"
        )

    async def test_a_snapshot_takes_the_place_up_to_which_the_agent_had_views(self, at: Table) -> None:
        await at.post("bob", "before")
        seq = await at.seq()
        fresh = await at.post("bob", "after")
        for viewed in (seq - 1, seq, seq + 1):
            news = (await at.store.snapshot(at.board, "alice", look=Look(seq).viewing(viewed))).news
            assert [event.item for event in news.events if event.event == "item.posted"] == [fresh.id]

    async def test_a_snapshot_has_the_last_of_much_that_happened(self, at: Table) -> None:
        await at.post("alice", "first")
        for _ in range(5):
            await at.batch("bob", *(draft("one of many", "LOG") for _ in range(100)))
        news = (await at.store.snapshot(at.board, "alice", look=1)).news
        assert not news.whole
        assert len(news.events) == 400
        assert news.events[-1].seq == await at.seq()

    async def test_a_snapshot_names_who_was_here_and_what_was_answered_and_replaced(self, at: Table) -> None:
        question = await at.post("alice", "which?", "QUESTION")
        own = await at.post("alice", "I ask myself", "QUESTION")
        await at.post("alice", "me", "REPLY", replies_to=own)
        await at.post("bob", "perhaps this", "REPLY", replies_to=question)
        answer = await at.post("carol", "this", "ANSWER", replies_to=question)
        first = await at.post("bob", "90 ms")
        second = await at.post("bob", "95 ms", supersedes=first)
        await at.post("dave", "no: 20 ms", supersedes=second)
        await at.post("erin", "a note", private=True)
        shown = await at.store.snapshot(at.board, "alice")
        assert [name for name, _ in shown.here] == ["dave", "bob", "carol", "alice"]
        assert shown.at == max(at_ for _, at_ in shown.here)
        assert shown.answered == {question.number: answer.id}
        assert shown.replaced == {first.number: second.id}, "by its author alone"
        assert shown.types[ItemType.REPLY] == 2

    async def test_a_snapshot_has_the_debates_that_ended_last_wherever_they_were_about(
        self, at: Table
    ) -> None:
        roots = []
        for place in range(14):
            root = await at.post("alice", f"claim {place}")
            await at.post("bob", "no", "CRITIQUE", critiques=root)
            await at.decide("carol", root, "heard")
            roots.append(root.number)
        await at.gone(*roots[-2:])
        shown = await at.store.snapshot(at.board, "alice")
        assert [d.root for d in shown.ended] == roots[:-13:-1]
        assert set(roots[-2:]) <= {item.number for item in shown.items}
        assert shown.hidden == 0
        assert shown.debates == ()

    async def test_a_snapshot_says_what_the_archive_has_for_the_agent(self, at: Table) -> None:
        gone = [await at.post("alice", f"finding {n}", tags=["db", f"once{n}"]) for n in range(3)]
        gone.append(await at.post("alice", "a line", "LOG", tags=["db"]))
        gone.append(await at.post("alice", "secret", private=True, tags=["own", "db"]))
        gone.append(await at.post("alice", "secret too", private=True, tags=["own"]))
        await at.post("alice", "live one")
        await at.gone(*gone)
        shown = (await at.store.snapshot(at.board, "bob")).archived
        assert (shown.types, shown.tags, shown.items) == ((("FACT", 3), ("LOG", 1)), ("db",), 4)
        assert set(shown.starts) == {"finding 0", "finding 1", "finding 2", "a line"}
        own = (await at.store.snapshot(at.board, "alice")).archived
        assert (own.items, own.tags) == (6, ("db", "own"))

    async def test_a_snapshot_names_who_owes_an_answer_to_a_question(self, at: Table) -> None:
        fact = await at.post("carol", "90 ms")
        await at.post("bob", "here", "LOG")
        named = await at.post("alice", "bob: which port?", "QUESTION")
        replied = await at.post("alice", "how measured?", "QUESTION", replies_to=fact)
        open_ = await at.post("alice", "who knows?", "QUESTION")
        shown = await at.store.snapshot(at.board, "dave")
        assert shown.asked == {named.number: ("bob",), replied.number: ("carol",)}
        await at.post("bob", "5432", "ANSWER", replies_to=named)
        shown = await at.store.snapshot(at.board, "dave")
        assert shown.asked == {replied.number: ("carol",)}
        assert open_.number in {item.number for item in shown.items}

    async def test_a_snapshot_has_the_newest_unfinished_work_of_the_archive(self, at: Table) -> None:
        open_ = [await at.post("alice", f"open {type_}", type_) for type_ in ("QUESTION", "DECISION", "PLAN")]
        done = await at.post("alice", "a problem", "PROBLEM")
        await at.change("alice", done, status="RESOLVED")
        log = await at.post("alice", "a line", "LOG")
        own = await at.post("alice", "own plan", "PLAN", private=True)
        await at.gone(*open_, log, own)
        await at.gone(done)
        shown = await at.store.snapshot(at.board, "bob")
        assert {item.number for item in shown.items} == {item.number for item in open_}
        assert shown.hidden == 0

    async def test_why_left_names_the_event_of_what_is_in_the_archive(self, at: Table) -> None:
        a, b = await at.post("alice", "a"), await at.post("alice", "b")
        await at.gone(a)
        left = await at.store.why_left(at.board, "bob", [a.number, b.number, 99])
        assert set(left) == {a.number}
        assert (left[a.number].event, left[a.number].data["why"]) == ("item.archived", "named")
        await at.store.restore(at.board, "bob", [a.number])
        assert await at.store.why_left(at.board, "bob", [a.number]) == {}

    # Attention

    async def test_around_names_the_visible_neighbours_in_the_thread(self, at: Table) -> None:
        root = (await at.post("alice", "root")).number
        first = (await at.post("bob", "first", replies_to=root)).number
        await at.post("carol", "of another thread")
        secret = (await at.post("bob", "secret", replies_to=root, private=True)).number
        last = (await at.post("alice", "last", replies_to=first)).number
        await at.gone(first)
        wanted = [root, first, secret, last, 99]
        assert await at.store.around(at.board, "bob", wanted) == {
            root: (None, first),
            first: (root, secret),
            secret: (first, last),
            last: (secret, None),
        }
        assert await at.store.around(at.board, "alice", wanted) == {
            root: (None, first),
            first: (root, last),
            last: (first, None),
        }

    async def test_attention_names_what_an_agent_owes_and_what_concerned_it(self, at: Table) -> None:
        a = await at.post("alice", "a")
        assert await at.attention("alice") == ()
        reply = await at.post("bob", "well", "REPLY", replies_to=a)
        mention = await at.post("bob", "see this, @carol")
        assert await at.attention("alice") == (reply.id,)
        assert await at.attention("carol") == (mention.id,)
        assert await at.attention("bob") == ()
        assert await at.attention("carol", look=await at.seq()) == ()
        c = await at.post("bob", "no", "CRITIQUE", critiques=a)
        assert (await at.attention("alice"))[0] == c.id
        assert await at.attention("alice", look=await at.seq()) == (c.id,), "what is owed stays"
        assert await at.attention("bob", look=await at.seq()) == (), "there is nothing to judge yet"
        await at.answer("alice", c)
        assert await at.attention("bob", look=await at.seq()) == (a.id,)
        await at.acknowledge("bob", a)
        assert await at.attention("alice", look=await at.seq()) == ()
