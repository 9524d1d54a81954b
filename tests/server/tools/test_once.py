"""Every tool that changes something applies once by the idempotency key in the request's `_meta`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import boards
import pytest
from blackboard_mcp.protocols.asking import MAX_ANSWER
from blackboard_mcp.server.settings.server import TOOL_SETS

mode, both = boards.mode, boards.both

KEY = "blackboard/idempotency_key"
FILLER = "We looked at the seals, the flow and the price of every pump on the long list. " * 3
BODY = "ada and bob looked at seals, flow and price of the pumps [R-3].\nDecided: 2 blue pumps of 60 litres [D-8]."

Prepare = Callable[[Any, Any], Awaitable[dict[str, Any]]]
"""With the boards and an agent `ada`, what bob's call needs; answers with arguments known only then."""


async def nothing(at: Any, ada: Any) -> dict[str, Any]:
    await ada.post("A claim.")
    return {}


async def debated(at: Any, ada: Any) -> dict[str, Any]:
    """F-1, criticised by bob (C-2) and by carol (C-3)."""
    await ada.post("A claim.")
    bob, carol = await at.join("bob", "carol")
    for critic in (bob, carol):
        await critic.post(f"{critic.name} doubts it", "CRITIQUE", edges={"critiques": ["F-1"]})
    return {}


async def answered(at: Any, ada: Any) -> dict[str, Any]:
    """The same, both critiques answered."""
    await debated(at, ada)
    for critique in ("C-2", "C-3"):
        await ada.post(f"but {critique}", "REPLY", edges={"replies_to": [critique]})
    return {}


async def watched(at: Any, ada: Any) -> dict[str, Any]:
    await ada.post("A claim.")
    bob = await at.join("bob")
    await bob.do("debate", op="watch", id="F-1")
    await bob.do("debate", op="watch", id="tag:db")
    return {}


async def archived(at: Any, ada: Any) -> dict[str, Any]:
    await ada.post("The pump leaks.")
    await ada.post("Another matter.", edges={"supersedes": ["F-1"]})
    return {}


async def planned(at: Any, ada: Any) -> dict[str, Any]:
    await ada.post("A claim.")
    await (await at.join("bob")).do("plan", items=[{"title": "one"}])
    return {}


async def claimed(at: Any, ada: Any) -> dict[str, Any]:
    await planned(at, ada)
    await (await at.join("bob")).do("claim", id="T-1")
    return {}


async def staged(at: Any, ada: Any) -> dict[str, Any]:
    await ada.do("stage", define={"title": "build"})
    return {}


async def joined(at: Any, ada: Any) -> dict[str, Any]:
    await ada.post("A claim.")
    bob = await at.join("bob")
    await bob.do("join", role="tester")
    return {}


async def running(at: Any, ada: Any) -> dict[str, Any]:
    bob = await at.join("bob")
    await bob.do("turn", start={"problem": "Why?", "agents": ["bob", "ada"]})
    return {}


async def coordinating(at: Any, ada: Any) -> dict[str, Any]:
    bob = await at.join("bob")
    await bob.do("turn", start={"problem": "Why?", "agents": ["ada"], "coordinator": "bob"})
    return {}


async def followed(at: Any, ada: Any) -> dict[str, Any]:
    await ada.post("A claim.")
    bob = await at.join("bob")
    await bob.do("subscribe", filter={}, name="mine")
    return {}


async def shared(at: Any, ada: Any) -> dict[str, Any]:
    await ada.post("A claim.")
    bob = await at.join("bob")
    await bob.do("consume", group="crew", filter={"type": "FACT", "event": "item.posted"}, limit=0)
    await ada.post("A job.")
    return {}


async def proposed(at: Any, ada: Any) -> dict[str, Any]:
    await ada.do("constraint", message="Never guess a figure.")
    return {}


async def ruled(at: Any, ada: Any) -> dict[str, Any]:
    await (await at.join("bob")).do("constraint", text="Never guess.")
    return {}


async def failed(at: Any, ada: Any) -> dict[str, Any]:
    await ada.do("report_result", check="lint", ok=False)
    return {}


async def drafted(at: Any, ada: Any) -> dict[str, Any]:
    await ada.do("artifact_write", path="a.md", content="one")
    await ada.do("artifact_write", path="a.md", content="two")
    return {}


async def finished(at: Any, ada: Any) -> dict[str, Any]:
    on: dict[str, Any] = {"edges": {"replies_to": ["$1"]}}
    replies = [{"text": f"Look {n}: {FILLER}", "type": "REPLY", **on} for n in range(6)]
    decision = {"text": "We take 2 blue pumps of 60 litres.", "type": "DECISION", **on}
    await ada.do("post", items=[{"text": "Which pump?", "type": "QUESTION"}, *replies, decision])
    await ada.do("post", items=[{"text": f"{n} {FILLER}", "type": "LOG"} for n in range(4)])
    await at.opened.pruner.run_pass("main")
    return {}


async def taken(at: Any, ada: Any) -> dict[str, Any]:
    await finished(at, ada)
    bob = await at.join("bob")
    return {"lease": (await bob.do("summarize", thread="Q-1"))["lease"]}


async def at_work(at: Any, ada: Any) -> dict[str, Any]:
    """A group of bob's in which he holds the first job, and there are two more."""
    await ada.post("A claim.")
    bob = await at.join("bob")
    await bob.do("consume", group="crew", filter={"type": "PLAN", "event": "item.posted"}, limit=0)
    for n in range(3):
        await ada.post(f"job {n}", "PLAN")
    await bob.do("consume", group="crew", seconds=0)
    return {}


async def asked(at: Any, ada: Any) -> dict[str, Any]:
    """Q-1, from ada to bob."""
    await ada.do("request", text="Which pump?", to="bob", seconds=0)
    return {}


async def asking(at: Any, ada: Any) -> dict[str, Any]:
    """Q-1, from bob to ada."""
    bob = await at.join("bob")
    await bob.do("request", text="Which pump?", to="ada", seconds=0)
    return {}


CALLS: list[tuple[str, dict[str, Any], Prepare]] = [
    ("request", {"text": "Which pump?", "to": "ada", "seconds": 0}, nothing),
    ("request", {"id": "Q-1", "cancel": True}, asking),
    ("respond", {"id": "Q-1"}, asked),
    ("respond", {"id": "Q-1", "text": "A part.", "partial": True}, asked),
    ("respond", {"id": "Q-1", "text": "The blue one."}, asked),
    ("respond", {"id": "Q-1", "text": "No idea.", "decline": True}, asked),
    ("join", {"role": "tester", "skills": ["sql"]}, nothing),
    ("join", {"leave": "done"}, joined),
    ("turn", {"start": {"problem": "Why?", "agents": ["ada"]}}, nothing),
    ("turn", {"text": "I looked.", "seconds": 0}, running),
    ("turn", {"decision": "who knows", "seconds": 0}, coordinating),
    ("finalize", {"text": "It is the pump."}, running),
    ("plan", {"items": [{"title": "one"}, {"title": "two", "after": ["$1"]}]}, nothing),
    ("plan", {"cancel": ["T-1"]}, planned),
    ("stage", {"define": {"title": "build"}}, nothing),
    ("stage", {"id": "G-1", "op": "suspend"}, staged),
    ("claim", {"seconds": 0}, planned),
    ("claim", {"op": "done", "text": "It is done."}, claimed),
    ("claim", {"paths": ["key:mine"]}, nothing),
    ("post", {"text": "x"}, nothing),
    ("post", {"text": "x", "key": "k:v", "expected_version": 0}, nothing),
    ("post", {"items": [{"text": "x"}, {"text": "y", "edges": {"supports": ["$1"]}}]}, nothing),
    ("debate", {"op": "open", "id": "F-1", "watchers": ["carol"]}, nothing),
    ("debate", {"op": "watch", "id": "F-1"}, nothing),
    ("debate", {"op": "watch", "id": "tag:db"}, nothing),
    ("debate", {"op": "unwatch", "id": "F-1"}, watched),
    ("debate", {"op": "unwatch", "id": "tag:db"}, watched),
    ("debate", {"op": "acknowledge", "id": "F-1"}, answered),
    ("debate", {"op": "vote", "id": "F-1", "approve": False}, debated),
    ("debate", {"op": "withdraw", "id": "C-2"}, debated),
    ("debate", {"op": "decide", "outcome": "stands", "id": "C-2", "reason": "so be it"}, debated),
    ("query_archive", {"text": "pump", "restore": True}, archived),
    ("subscribe", {"filter": {"type": "FACT"}, "name": "mine"}, nothing),
    ("subscribe", {"unsubscribe": "mine"}, followed),
    ("transaction", {"writes": [{"text": "x", "key": "a:b"}]}, nothing),
    ("core", {"objective": "win", "constraints": ["by the rules"]}, nothing),
    ("board", {"title": "A title", "settings": {"quorum": 2}}, nothing),
    ("constraint", {"text": "Never guess.", "scope": "agent:ada"}, nothing),
    ("constraint", {"message": "Never guess. Always cite."}, nothing),
    ("constraint", {"confirm": ["P-1"]}, proposed),
    ("constraint", {"id": "K-1", "text": "Never guess a date.", "strength": "prefer"}, ruled),
    ("constraint", {"id": "K-1", "retire": "no need"}, ruled),
    ("report_result", {"check": "lint", "ok": False, "text": "E501"}, nothing),
    ("report_result", {"check": "lint", "ok": True}, failed),
    ("artifact_write", {"path": "a.md", "append": "line"}, nothing),
    ("artifact_write", {"path": "a.md", "replace": {"old": "two", "new": "three"}, "expected": 2}, drafted),
    ("artifact_history", {"path": "a.md", "revision": 1, "restore": True}, drafted),
    ("summarize", {"thread": "Q-1"}, finished),
    ("summarize", {"thread": "Q-1", "text": BODY}, taken),
    ("consume", {"group": "crew", "seconds": 0, "ack": ["4.1"]}, at_work),
    ("consume", {"group": "other", "seconds": 0, "limit": 0, "filter": {}}, nothing),
    ("consume", {"group": "crew", "op": "set", "filter": {}}, at_work),
    ("consume", {"group": "crew", "op": "end"}, at_work),
]
CALLS += [
    ("transaction", {"reads": {"k": 0}, "writes": [{"key": "k", "text": "v"}]}, nothing),
    ("consume", {"group": "crew", "filter": {"type": "FACT"}, "limit": 0}, nothing),
    ("consume", {"group": "crew", "limit": 1, "seconds": 0}, shared),
]
WITHOUT = {
    "prune": "a pass is idempotent: run again it finds nothing to do",
}
"""Tools that change something and take no key, and why they need none."""
ASKER = {"decide": "dave"}
"""Who calls, where it is not bob."""


@pytest.fixture
async def at(tmp_path: Path, mode: str) -> Any:
    settings = {"summariser": "agent", "tools": TOOL_SETS, "target_tokens": 800}
    async with boards.open_boards(tmp_path, mode, **settings) as opened:
        opened.opened.pruner.kick = lambda _: None
        yield opened


async def call(agent: Any, tool: str, arguments: dict[str, Any], key: object) -> Any:
    meta = {"blackboard/structured": True, KEY: key}
    return await agent.client.call_tool(tool, arguments, meta=meta)


def told(result: Any) -> tuple[bool, list[str], Any]:
    """A result without its footer, and without what tells how and when it was come by."""
    own = ("seq", "repeated", "mode", "notice", "left", "working_items", "working_tokens")
    facts = {name: value for name, value in result.structured_content.items() if name not in own}
    lines = boards.text_of(result).splitlines()[:-1]
    lines = [
        line for line in lines if not line.startswith(("The search index is ", "The search index takes "))
    ]
    for apart in (
        r" \(posted before[^)]*\)",
        r" \(left [^)]*\)",
        r"^mode .*",
        r"^working \d+ items, \d+ tokens",
    ):
        lines = [re.sub(apart, "", line) for line in lines]
    return result.is_error, lines, facts


NAMES = [" ".join(map(str, (tool, *arguments.values())))[:40] for tool, arguments, _ in CALLS]


async def test_i24_every_tool_that_changes_something_takes_a_key(at: Any) -> None:
    changing = {tool.name for tool in at.server.published_tools if not tool.annotations.read_only_hint}
    assert changing == {tool for tool, _, _ in CALLS} | WITHOUT.keys()


@both
@pytest.mark.parametrize("place", range(len(CALLS)), ids=NAMES)
async def test_i24_a_call_repeated_with_its_key_is_applied_once_and_answered_the_same(
    at: Any, mode: str, place: int
) -> None:
    tool, arguments, prepare = CALLS[place]
    if tool == "query_archive" and find_spec("wordllama") is None:
        pytest.skip("no bundled model here, which a first search says and a repeated one does not")
    ada = await at.join("ada")
    arguments = {**arguments, **await prepare(at, ada)}
    name = ASKER.get(str(arguments.get("op")), "bob")
    first = await call(await at.join(name, mode=mode), tool, arguments, "try 1")
    assert not first.is_error, boards.text_of(first)
    await ada.post("Between them, of another matter.")
    before = await at.seq()
    other = await at.join(name, mode=boards.MODERN if mode == boards.LEGACY else boards.LEGACY)
    again = await call(other, tool, arguments, "try 1")
    assert await at.seq() == before
    assert told(again) == told(first)
    refused = await call(other, "post", {"text": "of something else"}, "try 1")
    assert refused.is_error
    assert "'try 1' was used" in boards.text_of(refused)


@both
async def test_a_call_that_failed_may_be_repeated_with_its_key_or_another_be_made(at: Any, mode: str) -> None:
    ada = await at.join("ada", mode=mode)
    assert (await call(ada, "post", {"text": "x", "edges": {"supports": ["F-9"]}}, "k")).is_error
    assert not (await call(ada, "post", {"text": "x"}, "k")).is_error


@both
@pytest.mark.parametrize("key", ["", "k" * 201, 7, ["k"], True, "a\0b"])
async def test_what_is_no_key_is_refused_and_nothing_is_changed(at: Any, mode: str, key: object) -> None:
    ada = await at.join("ada", mode=mode)
    await ada.post("A claim.")
    before = await at.seq()
    for tool, arguments in (
        ("post", {"text": "x"}),
        ("debate", {"op": "watch", "id": "F-1"}),
        ("subscribe", {"filter": {}}),
        ("core", {"objective": "x"}),
    ):
        refused = await call(ada, tool, arguments, key)
        assert refused.is_error
        assert refused.structured_content["error"] == "invalid"
        assert "Nothing was changed" in boards.text_of(refused)
    assert await at.seq() == before


@both
async def test_what_changes_nothing_does_not_look_at_the_key(at: Any, mode: str) -> None:
    ada = await at.join("ada", mode=mode)
    await ada.post("A claim.")
    for tool, arguments in (
        ("read", {}),
        ("query", {}),
        ("query_archive", {"text": "x"}),
        ("subscribe", {}),
        ("wait", {"seconds": 0}),
        ("debate", {"op": "status", "id": "F-1"}),
        ("debate", {"op": "status", "id": "tag:db"}),
        ("core", {}),
        ("board", {}),
        ("prune", {"dry_run": True}),
        ("summarize", {}),
        ("constraint", {}),
    ):
        for key in (7, "k"):
            assert not (await call(ada, tool, arguments, key)).is_error, tool
    assert not (await call(ada, "post", {"text": "x"}, "k")).is_error, "the key is unused"


async def test_post_takes_its_key_either_way_and_not_two_of_them(at: Any) -> None:
    ada = await at.join("ada")
    first = await ada.do("post", text="x", idempotency_key="k")
    again = (await call(ada, "post", {"text": "x"}, "k")).structured_content
    both_ways = (await call(ada, "post", {"text": "x", "idempotency_key": "k"}, "k")).structured_content
    assert again == both_ways == {**first, "repeated": True}
    before = await at.seq()
    refused = await call(ada, "post", {"text": "x", "idempotency_key": "k"}, "other")
    assert refused.is_error
    assert "give one" in boards.text_of(refused)
    assert await at.seq() == before


async def test_nothing_found_to_restore_is_an_answer_that_is_kept(at: Any) -> None:
    ada = await at.join("ada")
    await ada.post("The pump leaks.")
    query = {"text": "pump", "restore": True}
    assert (await call(ada, "query_archive", query, "k")).structured_content["items"] == []
    await ada.post("Another matter.", edges={"supersedes": ["F-1"]})
    assert (await call(ada, "query_archive", query, "k")).structured_content["items"] == []
    assert (await ada.item("F-1"))["zone"] == "archive"
    assert (await call(ada, "query_archive", query, "k2")).structured_content["items"][0]["id"] == "F-1"


async def test_a_repeated_restore_tells_what_was_not_archived_and_what_has_left_again(at: Any) -> None:
    ada = await at.join("ada")
    await ada.post("The pump leaks.")
    await ada.post("Another matter.", edges={"supersedes": ["F-1"]})
    query = {"text": "F-1 F-2", "restore": True}
    notice = "not archived, read() has it: F-2"
    said = boards.text_of(await call(ada, "query_archive", query, "k"))
    assert f"restored 1 to working memory\n{notice}\nmode exact\n" in said
    said = boards.text_of(await call(ada, "query_archive", query, "k"))
    assert f"restored 1 to working memory\n{notice}\nmode repeated\n" in said
    await ada.post("Another one.", edges={"supersedes": ["F-1"]})
    said = boards.text_of(await call(ada, "query_archive", query, "k"))
    assert f'in the archive: read(ids=["F-1"]) shows it\n{notice}\nmode repeated\n' in said


async def test_a_part_of_an_answer_is_not_added_twice_nor_refused_for_its_length(at: Any) -> None:
    ada, bob = await at.join("ada", "bob")
    asked = (await ada.do("request", text="why", to="bob", seconds=0))["request"]["id"]
    part = {"id": asked, "text": "b" * int(MAX_ANSWER * 0.6), "partial": True}
    first = await call(bob, "respond", part, "part 1")
    again = await call(bob, "respond", part, "part 1")
    assert not again.is_error, boards.text_of(again)
    assert told(again) == told(first)


async def test_a_call_about_a_rule_is_answered_again_whatever_became_of_the_rule(at: Any) -> None:
    ada, bob = await at.join("ada", "bob")
    rule = (await ada.do("constraint", text="Cite sources."))["written"][0]
    change = {"id": rule, "text": "Cite all sources."}
    await call(ada, "constraint", change, "change")
    await bob.do("constraint", id=rule, text="Cite some sources.", strength="suggest")
    for _ in range(2):
        before = await at.seq()
        again = await call(ada, "constraint", change, "change")
        assert not again.is_error, boards.text_of(again)
        assert again.structured_content["written"] == [rule]
        assert await at.seq() == before
        if (await ada.item(rule))["status"] == "ACTIVE":
            await bob.do("constraint", id=rule, retire="no more")


async def test_a_pass_that_found_nothing_open_does_not_end_a_later_failure_when_repeated(at: Any) -> None:
    ada, bob = await at.join("ada", "bob")
    passed = {"check": "tests", "subject": "s", "ok": True}
    await call(ada, "report_result", passed, "passed")
    issue = (await bob.do("report_result", check="tests", subject="s", ok=False, text="2 failed"))["item"]
    again = await call(ada, "report_result", passed, "passed")
    assert not again.is_error, boards.text_of(again)
    assert (await bob.item(issue))["status"] == "ACTIVE"
    await ada.do("report_result", **passed)
    assert (await bob.item(issue))["status"] == "RESOLVED"


async def test_work_that_came_while_a_keyed_call_waited_comes_again_with_its_key(at: Any) -> None:
    ada, bob = await at.join("ada", "bob")
    await ada.post("begin")
    await bob.do("consume", group="crew", filter={"type": "PLAN"}, limit=0)
    wanted = {"group": "crew", "seconds": 30}
    waiting = asyncio.create_task(call(bob, "consume", wanted, "next"))
    await asyncio.sleep(0.2)
    await ada.post("to do", "PLAN")
    first = await waiting
    assert len(first.structured_content["deliveries"]) == 1
    await ada.post("to do next", "PLAN")
    again = await call(bob, "consume", {**wanted}, "next")
    assert again.structured_content["deliveries"] == first.structured_content["deliveries"]
    following = await bob.do("consume", group="crew", seconds=0)
    assert len(following["deliveries"]) == 1, "the repeated call took nothing"


async def test_proposals_of_a_message_are_named_again_whatever_became_of_them(at: Any) -> None:
    ada, bob = await at.join("ada", "bob")
    message = {"message": "From now on, cite a source for every number."}
    first = await call(bob, "constraint", message, "said")
    (proposed,) = first.structured_content["written"]
    await ada.do("constraint", id=proposed, retire="not meant")
    again = await call(bob, "constraint", message, "said")
    assert again.structured_content["written"] == [proposed]
