"""Which resources are announced when: every one whose content changed, and to whom it may concern alone."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import boards
import pytest
from blackboard_mcp.protocols.errors import StoreBusy
from blackboard_mcp.server.resources import announcements
from mcp.shared.exceptions import MCPError
from patience import PATIENCE

board, mode = boards.board, boards.mode

MAIN = "board://main"
WITNESS = f"{MAIN}/events"
SECTIONS = [
    *("", "/core", "/working", "/agenda", "/threads", "/agents", "/constraints", "/hot-issues", "/answer"),
    *("/outline", "/view/carol"),
]
URIS = [
    *(f"{MAIN}{section}{ending}" for section in SECTIONS for ending in ("", ".json")),
    *(f"{MAIN}/items/{number}.json" for number in range(1, 8)),
]


class Ear:
    """What carol hears of her subscriptions, and what she reads."""

    def __init__(self, carol: Any) -> None:
        self.carol = carol
        self.uris: list[str] = []
        self.news = asyncio.Event()

    async def read(self) -> dict[str, str]:
        """Every resource without what is no content: sequences, ages, and who was shown an item."""
        found = {}
        for uri in URIS:
            try:
                text = await self.carol.resource(uri)
            except MCPError:
                text = "absent"
            text = re.sub(r'"seq":\d+|seq \d+|"(last_seen|updated_at)":"[^"]*"', "", text)
            text = re.sub(
                r'"(seen|never_seen_by)":\[[^]]*\]|^(seen|never) by .*$', "", text, flags=re.MULTILINE
            )
            found[uri] = re.sub(r"\b\d+ ?(s|min|h|d)\b|just now|last [-0-9: Z]+", "", text)
        return found

    async def listen(self, *uris: str) -> asyncio.Task[None]:
        ready = asyncio.Event()

        async def hear() -> None:
            async with self.carol.client.listen(resource_subscriptions=list(uris)) as stream:
                ready.set()
                async for event in stream:
                    self.uris.append(event.uri)
                    self.news.set()

        task = asyncio.create_task(hear())
        await asyncio.wait_for(ready.wait(), PATIENCE)
        return task

    async def witnessed(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while WITNESS not in self.uris:
                self.news.clear()
                await self.news.wait()

    async def heard(self) -> set[str]:
        """What came since the last time; the witness comes last."""
        await self.witnessed()
        found = set(self.uris) - {WITNESS}
        self.uris.clear()
        return found


Step = tuple[str, Callable[[], Awaitable[Any]], str]


async def test_I21_every_resource_whose_content_changed_is_announced_and_no_list_it_does_not_touch(
    tmp_path: Path,
) -> None:
    async with boards.open_boards(tmp_path, boards.MODERN, tools=("core", "admin", "plan")) as board:
        await announce_each(board)


async def announce_each(board: Any) -> None:
    """Takes steps of every kind, and checks what is announced after each."""
    alice, bob, carol = await board.join("alice", "bob", "carol", mode=boards.MODERN)
    await board.announcing()
    await alice.post("the beginning")  # F-1
    ear = Ear(carol)
    task = await ear.listen(*URIS, WITNESS)
    steps: list[Step] = [
        ("a fact", lambda: bob.post("a finding", tags=["x"]), "agenda constraints hot-issues answer core"),
        ("a plan", lambda: alice.post("do it", "PLAN"), "constraints hot-issues answer core"),
        ("a constraint", lambda: alice.post("never", "CONSTRAINT"), "agenda hot-issues answer core"),
        ("a hot issue", lambda: bob.post("fire", "HOT_ISSUE"), "agenda constraints answer core"),
        ("an answer", lambda: alice.post("42", "ANSWER"), "agenda constraints hot-issues core"),
        (
            "support of the constraint",
            lambda: bob.post("because", edges={"supports": ["4"]}),
            "agenda hot-issues answer core",
        ),
        (
            "the core",
            lambda: alice.do("core", objective="Win."),
            "agenda working outline threads hot-issues answer",
        ),
        ("a new importance", lambda: alice.post(id="F-1", importance=1), "agenda constraints answer core"),
        ("the same finding", lambda: alice.post("a finding"), "agenda constraints hot-issues answer core"),
        (
            "a critique",
            lambda: bob.post("no", "CRITIQUE", edges={"critiques": ["F-1"]}),
            "core answer",
        ),
        ("a watcher", lambda: carol.do("debate", op="watch", id="F-1"), "agenda constraints answer core"),
        (
            "a reply",
            lambda: alice.post("yes", "REPLY", edges={"replies_to": ["C-8"]}),
            "agenda constraints hot-issues answer core",
        ),
        ("a withdrawal", lambda: bob.do("debate", op="withdraw", id="C-8", reason="ok"), "core answer"),
        ("a retraction", lambda: bob.post(id="F-2", status="WITHDRAWN"), "agenda constraints answer core"),
        ("an entry", lambda: alice.post("v1", key="k"), "agenda constraints hot-issues answer core"),
        ("its next version", lambda: alice.post("v2", key="k"), "agenda constraints hot-issues answer core"),
        (
            "a note of her own",
            lambda: carol.post("mine", visibility="private"),
            "agenda constraints answer core",
        ),
        ("a task", lambda: bob.do("plan", items=[{"title": "x"}]), "constraints hot-issues answer core"),
        ("its holder", lambda: alice.do("claim"), "constraints hot-issues answer core"),
        ("the plan is done", lambda: alice.post(id="P-3", status="RESOLVED"), "constraints answer core"),
    ]
    try:
        before = await ear.read()
        for name, step, untouched in steps:
            await step()
            heard = await ear.heard()
            after = await ear.read()
            changed = {uri for uri in URIS if after[uri] != before[uri]}
            assert changed, name
            assert changed <= heard, name
            for section in untouched.split():
                assert f"{MAIN}/{section}" not in heard, name
            before = after
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_private_changes_are_announced_to_their_owner_alone(board: Any) -> None:
    bob, carol = await board.join("bob", "carol", mode=boards.MODERN)
    await board.announcing()
    await bob.post("public")
    theirs, own = Ear(carol), Ear(bob)
    tasks = [
        await own.listen(f"{MAIN}/working", f"{MAIN}/items/2", f"{MAIN}/view/bob", WITNESS),
        await theirs.listen(f"{MAIN}/working", f"{MAIN}/items/2", WITNESS),
    ]
    try:
        await bob.post("zebra", visibility="private")
        assert await own.heard() == {f"{MAIN}/working", f"{MAIN}/items/2", f"{MAIN}/view/bob"}
        assert theirs.uris == []
        await carol.do("core", objective="Win.")
        assert await theirs.heard() == set()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_more_than_is_looked_at_announces_everything(
    board: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcements, "_MOST", 10)
    alice, carol = await board.join("alice", "carol", mode=boards.MODERN)
    await alice.post("public")
    await board.announcing()
    ear = Ear(carol)
    task = await ear.listen(f"{MAIN}/core", f"{MAIN}/items/1", WITNESS)
    try:
        await alice.do("post", items=[{"text": f"{number}"} for number in range(40)])
        assert await ear.heard() == {f"{MAIN}/core", f"{MAIN}/items/1"}
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_burst_is_one_notification_and_the_change_after_it_another(
    board: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The announcer's pause, which makes a burst of changes one, lasts here as long as the burst."""
    paused, over, sleep = asyncio.Event(), asyncio.Event(), asyncio.sleep

    async def pause(seconds: float, *more: Any) -> None:
        if seconds == announcements.COALESCE_SECONDS:
            paused.set()
            await over.wait()
        else:
            await sleep(seconds, *more)

    monkeypatch.setattr(announcements, "COALESCE_SECONDS", 0.0123)
    monkeypatch.setattr(asyncio, "sleep", pause)
    alice, carol = await board.join("alice", "carol", mode=boards.MODERN)
    await alice.post("public")
    await board.announcing()
    ear = Ear(carol)
    task = await ear.listen(f"{MAIN}/working", WITNESS)
    try:
        for _ in range(20):
            await alice.do("post", items=[{"text": f"x {number}"} for number in range(40)])
        await asyncio.wait_for(paused.wait(), PATIENCE)
        assert ear.uris == []
        over.set()
        await ear.witnessed()
        assert sorted(ear.uris) == sorted([f"{MAIN}/working", WITNESS])
        ear.uris.clear()
        await alice.post("the last")
        assert await ear.heard() == {f"{MAIN}/working"}
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_store_that_cannot_be_read_for_a_moment_ends_no_announcements(
    board: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, carol = await board.join("alice", "carol", mode=boards.MODERN)
    await alice.post("public")
    stretches = board.opened.store.stretches
    failed = asyncio.Event()

    async def busy(*asked: Any) -> Any:
        if not failed.is_set():
            failed.set()
            raise StoreBusy("another process holds the file")
        return await stretches(*asked)

    monkeypatch.setattr(board.opened.store, "stretches", busy)
    await board.announcing()
    ear = Ear(carol)
    task = await ear.listen(f"{MAIN}/items/1", WITNESS)
    try:
        await alice.post(id="F-1", importance=1)
        await asyncio.wait_for(failed.wait(), PATIENCE)
        await alice.post("another")
        assert await ear.heard() == {f"{MAIN}/items/1"}
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_where_nobody_subscribes_changes_are_not_followed(
    board: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, carol = await board.join("alice", "carol", mode=boards.MODERN)
    await board.announcing()
    rounds = 0
    whole_round = announcements.Announcer._round

    async def counted(announcer: announcements.Announcer) -> bool:
        nonlocal rounds
        rounds += 1
        return await whole_round(announcer)

    async def post(text: str) -> int:
        """Posts, gives the announcer time to see it, and returns its rounds so far."""
        await alice.post(text)
        await asyncio.sleep(announcements.COALESCE_SECONDS * 5)
        return rounds

    monkeypatch.setattr(announcements.Announcer, "_round", counted)
    assert await post("before anybody listens") == 0
    ear = Ear(carol)
    for turn in range(2):
        task = await ear.listen(WITNESS)
        assert not ear.uris  # what was before is no news
        assert await post(f"heard {turn}")
        await ear.witnessed()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        ear.uris.clear()
        ended = await post("the change on which it notices that nobody is left")
        assert await post("not heard") == ended


async def test_a_board_that_lost_its_subscribers_is_forgotten_in_time(
    board: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcements, "_FORGET_SECONDS", 0.05)
    alice, carol = await board.join("alice", "carol", mode=boards.MODERN)
    await board.announcing()
    await alice.post("public")
    ear = Ear(carol)
    task = await ear.listen(WITNESS)
    await alice.post("heard")
    await ear.witnessed()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await asyncio.sleep(0.5)
    await alice.post(id="F-1", importance=1)  # nobody listens, and nobody is told of it later
    ear.uris.clear()
    task = await ear.listen(f"{MAIN}/items/1", WITNESS)
    await alice.post("another")
    assert await ear.heard() == set()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
