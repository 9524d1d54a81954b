"""`read`, `query` and `query_archive` through real clients of both generations: F8, F9, F15, F32, F33."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any

import boards
import pytest
from blackboard_mcp.protocols.access import Action, Principal, Role
from blackboard_mcp.protocols.archive import ArchiveAnswer, ArchiveQuery
from blackboard_mcp.protocols.errors import ArchiveUnavailable, UnknownReference
from blackboard_mcp.protocols.grants import under

board, mode, both = boards.board, boards.mode, boards.both


# read


@both
async def test_without_arguments_read_is_the_view_of_who_reads(board: Any, mode: str) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.do("core", objective="Land.")
    await alice.post("Fuel is low.")
    await bob.post("Which gauge?", "CRITIQUE", edges={"critiques": ["F-1"]})
    await alice.post("my note", visibility="private")
    answer = await alice.do("read")
    assert set(answer) >= {"view", "tokens", "seq", "shown", "stubs", "hidden"}
    assert answer["tokens"] == boards.TOKENIZER.count(answer["view"]) <= 1_500
    assert answer["seq"] == await board.seq()
    assert {"F-1", "C-2", "F-3"} <= set(answer["shown"])
    assert "objective: Land." in answer["view"]
    assert "my note" in answer["view"]
    assert "my note" not in await bob.say("read")
    news, rest = (
        "new since seq 3, not shown to you yet:\ncame: C-2 by bob\ndebates opened: F-1 by bob\n",
        answer["view"],
    )
    assert await alice.say("read") == rest.replace(news, ""), "news is told once"
    assert news in rest


async def test_a_view_says_that_nobody_else_wrote_yet_only_where_that_is_so(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("Fuel is low.")
    assert "\nnobody else has written anything yet · " in await alice.say("read")
    await bob.post("The gauge is broken.")
    assert "\nlast active: bob " in await alice.say("read")
    for n in range(5):  # more than the events that are looked at
        await alice.do("post", items=[{"text": f"Reading {n}.{m}", "type": "LOG"} for m in range(41)])
    assert "\nnobody else has written lately · " in await alice.say("read")


async def test_a_view_says_how_long_ago_the_last_change_was_that_its_ages_count_from(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await bob.post("Fuel is low.")
    just_now = await alice.say("read")
    assert re.match(
        r"board main · seq \d+ · last change [-\d]+ [:\d]+Z, ages as of then · you are ", just_now
    )
    board.clock.advance(9 * 60)
    assert await alice.say("read") == just_now
    board.clock.advance(14 * 3_600)
    for budget in (120, 1_500):
        answer = await alice.do("read", budget=budget)
        assert re.match(r"board main · .+Z, 14h ago, ages as of then · you are alice\n", answer["view"])
        assert answer["tokens"] == boards.TOKENIZER.count(answer["view"]) <= budget
    await bob.post("Ages as of then.")
    assert "ago, ages as of then" not in await alice.say("read")


async def test_a_view_keeps_to_the_budget_it_is_asked_for(board: Any) -> None:
    alice = await board.join("alice")
    for n in range(4):
        await alice.do("post", items=[{"text": f"Finding {n}.{m} " + "word " * 60} for m in range(10)])
    for budget in (100, 300, 1_500, 5_000):
        answer = await alice.do("read", budget=budget)
        assert answer["tokens"] <= budget
        assert answer["hidden"] + len(answer["shown"]) + len(answer["stubs"]) <= 40
    assert 'facts more, each older than one alike above: query(type="FACT")' in await alice.say(
        "read", budget=300
    )


async def test_a_budget_too_small_for_the_law_is_refused_with_one_that_is_enough(board: Any) -> None:
    alice = await board.join("alice")
    rule = "You must never, under any circumstances, open the valve numbered {}. "
    for n in range(97):
        await alice.post(rule.format(n), "CONSTRAINT")
        if n % 8 and n < 60:
            continue
        result = await alice.call("read")
        if not result.is_error:
            continue
        failure = result.structured_content
        assert failure["error"] == "refused"
        named = re.search(r"read\(budget=(\d+)\)", failure["message"])
        assert named is not None
        shown = await alice.do("read", budget=int(named[1]))
        assert shown["view"].count("You must never") == n + 1
        assert shown["tokens"] <= failure["needed"]
        assert (await alice.fail("read", budget=shown["tokens"] // 2))["budget"] == shown["tokens"] // 2
    assert failure["needed"] > 1_500


async def test_items_are_read_by_id_number_version_and_key_and_missing_ones_are_named(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("one", key="k")
    await alice.post("two", key="k")
    await bob.post("secret", visibility="private")
    await alice.post("plain", "LOG")
    answer = await alice.do(
        "read", ids=["F-1", "1", "l-3", "F-1@1", "F-2", "H-99", "F-1@9"], keys=["k", "none:such"]
    )
    assert [(i["id"], i["version"]) for i in answer["items"]] == [
        ("F-1", 2),
        ("F-1", 2),
        ("L-3", 1),
        ("F-1", 1),
        ("F-1", 2),
    ]
    assert answer["missing"] == ["F-2", "H-99", "F-1@9", "none:such"]
    assert "not found: F-2, H-99, F-1@9, none:such" in await alice.say(
        "read", ids=["F-2", "H-99", "F-1@9"], keys=["none:such"]
    )
    assert (await alice.do("read", ids=["H-99"]))["items"] == []


async def test_a_whole_item_says_where_it_lives_and_what_it_hangs_on(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("claim", tags=["a", "b"], key="claim:one", metadata={"n": 1})
    await bob.post("doubt", "CRITIQUE", edges={"critiques": ["F-1"]}, ttl_seconds=3_600)
    board.clock.advance(120)
    first, second = (await alice.say("read", ids=["F-1", "C-2"])).split("\n\n")
    assert first.splitlines() == [
        "F-1@1 FACT by alice 2m !4 working DEBATED key claim:one [a b] debate OPEN",
        "C-2 critiques it",
        "opposed by bob",
        "metadata {'n': 1}",
        "stays: open debate on F-1",
        "> claim",
    ]
    assert second.splitlines() == [
        "C-2@1 CRITIQUE by bob 2m !3 working ACTIVE thread F-1 debate OPEN expires 2026-11-21T10:00:00Z",
        "critiques F-1",
        "stays: open debate on F-1",
        "> doubt",
        f"seq {await board.seq()} · you owe: answer C-2",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"ids": ["nonsense"]}, "Ids look like"),
        ({"ids": ["H-"]}, "Ids look like"),
        ({"ids": ["H-1@"]}, "Ids look like"),
        ({"ids": ["F-1"] * 101}, "100"),
        ({"ids": 1}, "array"),
        ({"keys": ["a:*"]}, "query(key=…) takes patterns"),
        ({"keys": [""]}, "empty"),
        ({"ids": ["F-1"], "since": 0}, "not both"),
        ({"budget": 0}, "budget"),
        ({"budget": 200_001}, "budget"),
        ({"since": -1}, "since"),
        ({"since": 99}, "ahead"),
        ({"board": "-"}, "not a board id"),
        ({"id": "F-1"}, "did you mean 'ids'"),
    ],
)
async def test_wrong_words_to_read_are_refused(board: Any, arguments: dict[str, Any], words: str) -> None:
    alice = await board.join("alice")
    failure = await alice.fail("read", **arguments)
    assert words in failure["message"]


async def test_changes_since_a_sequence_are_told_in_order_and_go_on(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("one", tags=["t"])
    await bob.post("hidden", visibility="private")
    await bob.post("two", key="k")
    answer = await alice.do("read", since=0)
    assert [(e["seq"], e["event"], e["item"]) for e in answer["events"]] == [
        (1, "board.created", None),
        (2, "item.posted", "F-1"),
        (4, "item.posted", "F-3"),
    ]
    assert all(set(e) >= boards.EVENT_KEYS for e in answer["events"])
    assert (answer["cursor"], answer["seq"]) == (4, 4)
    assert (await alice.do("read", since=4))["events"] == []
    assert "no news" in await alice.say("read", since=4)
    text = await alice.say("read", since=1)
    assert text.splitlines() == [
        "seq 2 item.posted F-1 by alice: one",
        "seq 4 item.posted F-3 k by bob: two",
        "seq 4",
    ]


async def test_many_changes_are_cut_to_the_budget_and_the_next_call_goes_on(board: Any) -> None:
    alice = await board.join("alice")
    for n in range(5):
        await alice.do("post", items=[{"text": f"Finding {n}-{m} of many"} for m in range(50)])
    seen: list[int] = []
    call: dict[str, Any] = {"since": 0, "budget": 700}
    for _ in range(50):
        text = await alice.say("read", **call)
        assert boards.TOKENIZER.count(text) <= call["budget"] + 60
        seen += [int(line.split()[1]) for line in text.splitlines() if re.match(r"seq \d+ item", line)]
        more = re.search(r"read\(since=(\d+), budget=(\d+)\)", text)
        further = re.search(r"go on with since=(\d+)", text)
        if more is not None:
            call = {"since": int(more[1]), "budget": int(more[2])}
        elif further is not None:
            call = {"since": int(further[1])} | {"budget": 700}
        else:
            break
    assert seen == list(range(2, 252))


async def test_the_footer_tells_what_is_new_until_it_was_looked_at(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("claim")
    await alice.do("read")
    await bob.post("As @alice says.", edges={"supports": ["F-1"]})
    await bob.post("An aside.")
    await alice.post("Mine.")
    assert alice.footer == "seq 5 · 2 unseen"
    await alice.do("read", ids=["F-2"])
    assert alice.footer == "seq 5 · 1 unseen"
    await alice.do("read")
    assert alice.footer == "seq 5", "a view shows what it names with text"


# query


async def furnish(boards_: Any) -> tuple[Any, Any]:
    alice, bob = await boards_.join("alice", "bob")
    await alice.post("Alpha fact about Databases", tags=["db", "fast"], key="plan:db:one")
    boards_.clock.advance(3_600)
    await bob.post("Beta log", "LOG", tags=["db"], key="plan:db:two:deep")
    boards_.clock.advance(3_600)
    await bob.post("Gamma reply", "REPLY", edges={"replies_to": ["F-1"]}, tags=["slow"])
    await alice.post("Delta", "QUESTION", status="RESOLVED", key="plan:ui")
    await alice.post("Epsilon private", visibility="private", tags=["db"], key="plan:own")
    await alice.post("Zeta fact replaces alpha", edges={"supersedes": ["F-1"]})
    return alice, bob


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, "F-6 F-5 Q-4 R-3 L-2"),
        ({"zone": "working"}, "F-6 F-5 Q-4 R-3 L-2"),
        ({"zone": "archive"}, "F-1"),
        ({"zone": "all"}, "F-6 F-5 Q-4 R-3 L-2 F-1"),
        ({"type": "LOG"}, "L-2"),
        ({"type": "FACT", "zone": "all"}, "F-6 F-5 F-1"),
        ({"author": "bob"}, "R-3 L-2"),
        ({"author": "nobody"}, ""),
        ({"status": "RESOLVED"}, "Q-4"),
        ({"status": "ACTIVE", "author": "alice"}, "F-6 F-5"),
        ({"text": "FACT alpha", "zone": "all"}, "F-6 F-1"),
        ({"text": "databases", "zone": "all"}, "F-1"),
        ({"text": "f-6"}, ""),
        ({"text": "nothing such"}, ""),
        ({"key": "plan:*"}, "F-5 Q-4"),
        ({"key": "plan:**"}, "F-5 Q-4 L-2"),
        ({"key": "plan:db:*", "zone": "all"}, "F-1"),
        ({"key": "**deep"}, "L-2"),
        ({"key": "plan:ui"}, "Q-4"),
        ({"key": "*"}, ""),
        ({"tags": ["db"], "zone": "all"}, "F-5 L-2 F-1"),
        ({"tags": ["db", "fast"], "zone": "all"}, "F-1"),
        ({"any_tags": ["fast", "slow"], "zone": "all"}, "R-3 F-1"),
        ({"no_tags": ["db", "slow"]}, "F-6 Q-4"),
        ({"tags": ["db"], "no_tags": ["fast"], "zone": "all"}, "F-5 L-2"),
        ({"thread": "F-1"}, "R-3"),
        ({"thread": "R-3", "zone": "all"}, "R-3 F-1"),
        ({"thread": "99"}, ""),
        ({"after": "2026-11-21T10:00:00Z"}, "F-6 F-5 Q-4 R-3 L-2"),
        ({"after": "2026-11-21T12:00:01+02:00"}, "F-6 F-5 Q-4 R-3"),
        ({"before": "2026-11-21 10:00", "zone": "all"}, "F-1"),
        ({"after": "2026-11-21T10:00:00Z", "before": "2026-11-21T11:00:00Z"}, "L-2"),
        ({"limit": 2}, "F-6 F-5"),
        ({"cursor": "4"}, "R-3 L-2"),
    ],
)
async def test_every_filter_of_query_finds_what_it_says_newest_first(
    board: Any, wanted: dict[str, Any], found: str
) -> None:
    alice, _ = await furnish(board)
    answer = await alice.do("query", **wanted)
    assert set(answer) >= {"items", "cursor", "seq"}
    assert " ".join(i["id"] for i in answer["items"]) == found
    text = await alice.say("query", **wanted)
    assert [
        line.split()[0].split("@")[0] for line in text.splitlines()[: len(answer["items"])]
    ] == found.split()
    if not found:
        assert text.startswith("nothing matches")


async def test_a_walk_by_cursor_sees_everything_once_whatever_is_posted_meanwhile(board: Any) -> None:
    alice = await board.join("alice")
    await alice.do("post", items=[{"text": f"n{n}", "tags": ["even" if n % 2 else "odd"]} for n in range(47)])
    for wanted in ({}, {"tags": ["odd"]}, {"text": "n"}):
        everything = [i["id"] for i in (await alice.do("query", limit=200, **wanted))["items"]]
        seen: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = await alice.do("query", limit=5, **wanted, **cursor)
            seen += [i["id"] for i in page["items"]]
            assert len(page["items"]) == 5 or page["cursor"] is None
            if page["cursor"] is None:
                break
            assert f'more: query(…, cursor="{page["cursor"]}")' in await alice.say(
                "query", limit=5, **wanted, **cursor
            )
            cursor = {"cursor": page["cursor"]}
            await alice.post("meanwhile n", tags=["odd"])
        assert seen == everything


async def test_the_last_page_that_is_just_full_has_no_cursor(board: Any) -> None:
    alice = await board.join("alice")
    await alice.do("post", items=[{"text": f"x{n}"} for n in range(10)])
    assert (await alice.do("query", limit=10))["cursor"] is None
    assert (await alice.do("query", limit=9))["cursor"] is not None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"type": "FAKT"}, "'FACT'"),
        ({"status": "DONE"}, "'RESOLVED'"),
        ({"zone": "core"}, "'working', 'archive', 'all'"),
        ({"limit": 0}, "limit"),
        ({"limit": 201}, "limit"),
        ({"cursor": "abc"}, "cursor must be the one"),
        ({"cursor": "-1"}, "cursor must be the one"),
        ({"cursor": "٣"}, "cursor must be the one"),
        ({"key": "a b"}, "key pattern"),
        ({"key": ""}, "key pattern"),
        ({"thread": "x"}, "Ids look like"),
        ({"after": "yesterday"}, "after='yesterday' is not an ISO 8601"),
        ({"before": "0001-01-01T00:00:00+14:00"}, "before="),
        ({"text": "x" * 2_001}, "2000"),
        ({"tag": ["a"]}, "did you mean 'tags'"),
    ],
)
async def test_wrong_words_to_query_are_refused(board: Any, arguments: dict[str, Any], words: str) -> None:
    alice = await board.join("alice")
    failure = await alice.fail("query", **arguments)
    assert failure["error"] == "invalid"
    assert words in failure["message"]


# query_archive


async def archived(boards_: Any) -> tuple[Any, Any]:
    """Six items in the archive, one of them Bob's private one, and one in working memory."""
    alice, bob = await boards_.join("alice", "bob")
    await alice.post("The pump failed at noon because of rust.", tags=["pump"])
    boards_.clock.advance(3_600)
    await bob.post("Rust was found in the second valve as well.", "LOG", tags=["valve"])
    await alice.post(
        "Oil the hinges every month.", "PLAN", edges={"replies_to": ["L-2"]}, tags=["pump", "oil"]
    )
    await bob.post("zebra rust", visibility="private", ttl_seconds=1)
    await alice.post("The moon is far away.", "HYPOTHESIS")
    for place, author in ((1, alice), (2, bob), (3, alice), (5, alice)):
        await author.post("Replaced.", edges={"supersedes": [str(place)]})
    boards_.clock.advance(2)
    await boards_.opened.store.expire()
    return alice, bob


async def test_without_text_the_archive_lists_newest_first_with_why_each_left(board: Any) -> None:
    alice, bob = await archived(board)
    answer = await alice.do("query_archive")
    assert [i["id"] for i in answer["items"]] == ["H-5", "P-3", "L-2", "F-1"]
    assert (answer["mode"], answer["notice"]) == ("listing", "")
    assert answer["left"]["F-1"] == "superseded by F-6"
    text = await alice.say("query_archive", limit=1)
    assert re.match(
        r"H-5 hypothesis \(superseded by F-9\) archived by alice 2s !3.*"
        r"moon is far away\.\nmode listing\n",
        text,
    )
    assert "F-4" in [i["id"] for i in (await bob.do("query_archive", text=" "))["items"]]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"type": "LOG"}, {"L-2"}),
        ({"author": "alice", "text": "rust"}, {"F-1"}),
        ({"tags": ["pump"]}, {"F-1", "P-3"}),
        ({"tags": ["pump", "oil"]}, {"P-3"}),
        ({"thread": "L-2"}, {"L-2", "P-3"}),
        ({"after": "2026-11-21T09:30:00Z"}, {"L-2", "P-3", "H-5"}),
        ({"before": "2026-11-21T09:30:00Z"}, {"F-1"}),
        ({"text": "F-1"}, {"F-1"}),
        ({"text": "what about f-1 and P-3?"}, {"F-1", "P-3"}),
        ({"text": "F-4"}, set()),
        ({"text": "F-6"}, set()),
        ({"text": "F-1", "type": "LOG"}, set()),
        ({"text": "F-1, P-3"}, {"F-1", "P-3"}),
        ({"text": "??"}, set()),
    ],
)
async def test_filters_and_exact_ids_of_the_archive(
    board: Any, wanted: dict[str, Any], found: set[str]
) -> None:
    alice, _ = await archived(board)
    # Without the index: what it cannot answer the store answers by words.
    board.opened.blackboard.archive = Deaf()
    answer = await alice.do("query_archive", **wanted)
    assert {i["id"] for i in answer["items"]} == found
    assert (answer["mode"] == "exact") == wanted.get("text", "").startswith("F-")


class Deaf:
    """An archive whose index cannot answer now."""

    async def search(self, query: ArchiveQuery) -> ArchiveAnswer:
        raise ArchiveUnavailable("the index is damaged")


async def test_an_index_that_cannot_answer_leaves_the_words_and_says_so(board: Any) -> None:
    alice, _ = await archived(board)
    board.opened.blackboard.archive = Deaf()
    answer = await alice.do("query_archive", text="rust")
    assert [i["id"] for i in answer["items"]] == ["L-2", "F-1"]
    assert answer["mode"] == "lexical"
    assert "being rebuilt" in answer["notice"]
    assert "being rebuilt" in await alice.say("query_archive", text="rust")


async def test_the_archive_is_searched_by_meaning_and_words_before_and_after_it_is_indexed(
    board: Any,
) -> None:
    alice, bob = await archived(board)
    # Nothing is indexed yet: the indexer starts with the first search.
    answered = await alice.call("query_archive", text="rust", limit=3)
    waiting: Any = answered.structured_content
    assert {i["id"] for i in waiting["items"]} >= {"F-1", "L-2"}
    # On a busy machine it is not ready within five seconds: then the store answers, by words.
    assert waiting["mode"] in ("hybrid", "lexical")
    assert f"mode {waiting['mode']}\n" in boards.text_of(answered)
    while not await board.opened.archive.drain():
        pass
    answer = await alice.do("query_archive", text="rust", limit=10)
    assert [i["id"] for i in answer["items"]][:2] in (["F-1", "L-2"], ["L-2", "F-1"])
    assert "F-4" not in {i["id"] for i in answer["items"]}
    assert "zebra" not in str(await alice.call("query_archive", text="zebra"))
    assert (await bob.do("query_archive", text="zebra"))["items"][0]["id"] == "F-4"
    # An item that comes later and waits for the index is found too.
    await alice.post("Quartz is hard.")
    await alice.post("New.", edges={"supersedes": ["F-10"]})
    assert "F-10" in {i["id"] for i in (await alice.do("query_archive", text="quartz"))["items"]}
    assert [i["id"] for i in (await alice.do("query_archive", text="rust", author="bob"))["items"]] == ["L-2"]
    # Back in working memory, it is no longer found.
    back = await alice.do("query_archive", text="F-10", restore=True)
    assert [(i["id"], i["zone"]) for i in back["items"]] == [("F-10", "working")]
    assert "F-10" not in {i["id"] for i in (await alice.do("query_archive", text="quartz"))["items"]}


async def test_a_version_that_is_named_has_the_tags_that_it_began_with(board: Any) -> None:
    ada = await board.join("ada")
    await ada.post("one", tags=["a"], key="k:1")
    for tags in (["b"], ["c"]):
        board.clock.advance(1)
        await ada.post(id="F-1", tags=tags)
    await ada.post("two", tags=["d"], key="k:1")
    board.clock.advance(1)
    await ada.post(id="F-1", tags=["e"])
    ids = ["F-9", "F-1", "F-1@1", "F-1@2", "F-1"]
    items = (await ada.do("read", ids=ids, keys=["k:1"]))["items"]
    assert [(item["text"], item["tags"]) for item in items] == [
        ("two", ["e"]),
        ("one", ["a"]),
        ("two", ["d"]),
        ("two", ["e"]),
        ("two", ["e"]),
    ]
    assert "[a]" in await ada.say("read", ids=["F-1@1"])


async def test_a_key_among_ids_is_read_with_or_without_a_colon(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("total 3", key="sum")
    await ada.post("a fact")
    for explain in (False, True):
        text = await ben.say("read", ids=["sum", "F-2", "none"], explain=explain)
        assert [line[:3] for line in text.splitlines() if line[:2] == "F-"] == ["F-2", "F-1"]
        assert "not found: none" in text
        refused = (await ben.fail("read", ids=["none"], explain=explain))["message"]
        assert refused.startswith("'none' is not an item id. Ids look like H-17")
    assert (await ben.do("read", ids=["sum@1"]))["items"][0]["id"] == "F-1"


async def test_a_search_that_nothing_matches_closely_says_so(board: Any) -> None:
    alice, _ = await archived(board)
    while not await board.opened.archive.drain():
        pass
    far = await alice.do("query_archive", text="grandmother bakes apple pie with cinnamon")
    if far["items"]:  # by words alone there is nothing
        assert far["notice"].startswith("nothing close: no item has half of the words.")
        text = await alice.say("query_archive", text="grandmother bakes apple pie with cinnamon")
        assert text.startswith("nothing close: no item has half of the words; nearest:\n"), (
            "before what a reader could take for an answer"
        )
        assert len(far["items"]) > 3
        assert text.count("(by meaning)") == 3, "what is not close is told of in a few lines"
        await alice.post("grandmother bakes apple pie")
        text = await alice.say("query_archive", text="grandmother bakes apple pie with cinnamon")
        assert text.startswith(
            "nothing close in the archive: no item there has half of the words; nearest:\n"
        )
        assert "on the board:\n" in text
    near = await alice.do("query_archive", text="rust")
    assert near["items"]
    how = "" if find_spec("wordllama") else "No embedding model is in use here: matched by words only."
    assert near["notice"] == how
    named = await alice.do("query_archive", text="F-1 grandmother bakes pie")
    assert named["notice"] == how, "an id is exact"


async def test_restore_brings_back_what_was_found_with_an_event(board: Any) -> None:
    alice, bob = await archived(board)
    before = await board.seq()
    text = await bob.say("query_archive", text="P-3", restore=True)
    assert "restored 1 to working memory" in text
    assert (await alice.item("P-3"))["zone"] == "working"
    events = (await alice.do("read", since=before))["events"]
    assert [(e["event"], e["item"], e["agent"]) for e in events] == [("item.restored", "P-3", "bob")]
    again = await bob.do("query_archive", text="P-3", restore=True)
    assert again["items"] == []
    assert await board.seq() == before + 1
    assert "nothing in the archive matches" in await bob.say("query_archive", type="DECISION", restore=True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 101}, "limit"),
        ({"type": "FAKT"}, "'FACT'"),
        ({"after": "then"}, "ISO 8601"),
        ({"thread": "x"}, "Ids look like"),
        ({"restore": "yes"}, "restore"),
        ({"zone": "attic"}, "'archive'"),
        ({"zone": "working", "restore": True, "text": "rust"}, "searches only the board"),
        ({"status": "DELETED"}, 'query(status="DELETED")'),
        ({"cursor": "9"}, "unknown argument 'cursor'"),
        ({"board": "nowhere"}, "no board 'nowhere'"),
    ],
)
async def test_wrong_words_to_the_archive_are_refused(
    board: Any, arguments: dict[str, Any], words: str
) -> None:
    alice = await board.join("alice")
    assert words in (await alice.fail("query_archive", **arguments))["message"]


async def test_a_query_that_finds_nothing_on_the_board_says_what_the_archive_has(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    for n in range(5):
        await ada.post(f"Reading {n} of the red gauge", "LOG", ttl_seconds=60)
    await ada.post("Reading of the hidden red gauge", "LOG", visibility="private", ttl_seconds=60)
    board.clock.advance(61)
    await board.opened.store.expire()
    lines = (await ben.say("query", text="red gauge")).splitlines()
    assert lines[0] == "nothing on the board matches; in the archive:"
    assert [line.split(" ")[0] for line in lines[1:4]] == ["L-5", "L-4", "L-3"]
    assert lines[4] == 'more: query(…, zone="archive")'
    assert "hidden" not in "".join(lines)
    assert (await ben.say("query", text="blue gauge")).startswith("nothing matches")
    assert (await ben.say("query", text="red gauge", zone="archive")).startswith("L-5 ")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("F-1", '["F-1"]'),
        ("f-1@2, h-7", '["F-1", "H-7"]'),
        ("F-1 pump", None),
        ("pump", None),
    ],
)
async def test_a_query_for_an_id_names_the_call_that_reads_it(
    board: Any, text: str, named: str | None
) -> None:
    ada = await board.join("ada")
    await ada.post("the pump of F-1")
    said = await ada.say("query", text=text)
    hint = f"query finds words of texts; for what an id names: read(ids={named})"
    assert (hint in said.splitlines()) == (named is not None)
    assert ("read(ids" in said) == (named is not None)


async def test_who_names_a_board_that_is_not_there_learns_which_are(board: Any) -> None:
    alice = await board.join("alice")
    for name in ("one", "two", "three"):
        await alice.post("x", board=name)
        board.clock.advance(1)
    for tool in ("read", "query", "wait"):
        failure = await alice.fail(tool, board="nowhere")
        assert "the default board is 'main', and you reach three, two, one." in failure["message"]
    for place in range(6):
        await alice.post("x", board=f"more-{place}")
        board.clock.advance(1)
    assert (
        "more-5, more-4, more-3, more-2, more-1 +4." in (await alice.fail("read", board="nowhere"))["message"]
    )


async def test_boards_out_of_reach_are_not_named(board: Any) -> None:
    blackboard = board.opened.blackboard
    alice = await board.join("alice")
    for name in ("one", "vault"):
        await alice.post("x", board=name)
    bob = Principal("bob", "bob", {"one": Role.CONTRIBUTOR, "empty": Role.CONTRIBUTOR})
    with (
        under(await blackboard.rights.enter(bob, [Action.READ], "empty")),
        pytest.raises(UnknownReference) as seen,
    ):
        await blackboard.view("bob", "empty")
    assert "and you reach one." in str(seen.value)
    with pytest.raises(UnknownReference) as hidden:
        await blackboard.rights.enter(bob, [Action.READ], "vault")
    assert str(hidden.value).endswith("and you reach empty, one.")
