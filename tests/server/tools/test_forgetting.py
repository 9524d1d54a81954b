"""What an agent is told of an item that an operator had forgotten: that, when, by whose decision, and why."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import boards
from blackboard_mcp.protocols.items import ItemType
from blackboard_mcp.protocols.retention import Retention
from blackboard_mcp.server.usecases.retention import Keeper
from blackboard_mcp.storage.testing.harness import Table
from blackboard_mcp.storage.testing.kit.asking import Asking

board, mode, both = boards.board, boards.mode, boards.both

MONTH = Retention(dict.fromkeys(ItemType, timedelta(days=30)), "Ada\nseq 9", "a month is enough")


async def forget(board: Any) -> None:
    await Table(board.opened.store).prune()
    board.clock.advance(40 * 86_400)
    assert await Keeper(board.opened.store, MONTH, "test").round("main")


@both
async def test_a_read_says_plainly_that_it_was_forgotten_when_by_whom_and_why(board: Any, mode: str) -> None:
    ada, ben = await board.join("ada", "ben")
    posted = await ada.post("a word", "LOG", tags=["t"])
    await forget(board)
    said = await ben.say("read", ids=["L-1"])
    first, hashed, then = said.splitlines()[:3]
    assert first.startswith("L-1 log by ada ")
    assert first.endswith("forgotten on 2026-12-31 by decision of Ada seq 9: a month is enough")
    assert hashed == f"sha256 of what it said: {posted['sha256']}"
    assert then == "its text is gone and cannot be brought back"
    item = await ben.item("L-1")
    assert (item["status"], item["deleted"], item["text"]) == ("FORGOTTEN", True, "")
    assert item["forgotten"]["by"] == "Ada\nseq 9"
    assert (item["forgotten"]["why"], item["forgotten"]["at"][:10]) == ("a month is enough", "2026-12-31")
    (explained,) = (await ben.do("read", ids=["L-1"], explain=True))["explanations"]
    assert explained["restore"] is None
    assert explained["says"] == [
        "forgotten on 2026-12-31 by decision of Ada seq 9: a month is enough; "
        "its text is gone and cannot be brought back"
    ]


async def test_searches_do_not_find_it_and_say_what_became_of_it(board: Any) -> None:
    ada = await board.join("ada")
    await ada.post("quetzal", "LOG")
    await forget(board)
    found = await ada.say("query_archive", text="quetzal")
    assert "nothing in the archive matches" in found
    assert 'L-1 was forgotten, read(ids=["L-1"]) says by whose decision' in await ada.say(
        "query_archive", text="L-1", restore=True
    )
    assert "nothing matches" in await ada.say("query", text="quetzal", zone="all")
    assert "forgotten on" in await ada.say("query", status="DELETED")


async def test_what_cannot_be_done_with_it_is_refused_with_the_reason(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("one", "PLAN", key="plan:a")
    await ada.post("two", "PLAN", key="plan:a")
    await forget(board)
    failure = await ada.fail("post", id="P-1", status="RESOLVED")
    assert "P-1 was forgotten by the operator's rules: its text is gone" in failure["message"]
    assert "post text to key 'plan:a' to begin it anew" in failure["message"]
    assert (await ben.fail("post", text="no", type="CRITIQUE", edges={"critiques": ["P-1"]}))["error"]
    assert "plan:a" in (await ben.do("read", keys=["plan:a"]))["missing"]
    listed = await ben.say("read", ids=["P-1@*"])
    assert listed.count(", forgotten, sha256 ") == 2
    assert (await ben.post("three", "PLAN", key="plan:a"))["version"] == 3
    assert "forgotten on" in await ben.say("read", ids=["P-1@1"])


async def test_nobody_is_told_to_post_to_the_key_of_a_request(board: Any) -> None:
    ada, _ben = await board.join("ada", "ben")
    asking = Asking(Table(board.opened.store))
    await asking.cancel("ada", await asking.ask("ada", to="ben"))
    await forget(board)
    assert "its text is gone and cannot be brought back" in (said := await ada.say("read", ids=["Q-1"]))
    assert "anew" not in said
    failure = await ada.fail("post", id="Q-1", status="RESOLVED")
    assert "forgotten by the operator's rules" in failure["message"]
    assert "anew" not in failure["message"]


async def test_it_is_news_to_nobody_and_stands_in_the_log(board: Any) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("a word", "LOG")
    await ben.say("wait", seconds=0)
    seq = await board.seq()
    await forget(board)
    await ada.say("read")
    assert "unseen" not in ada.footer
    events = (await ben.do("read", since=seq))["events"]
    assert [e["event"] for e in events if e.get("item") == "L-1"][-1] == "item.forgotten"
