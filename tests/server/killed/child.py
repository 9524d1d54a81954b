"""A process of its own that is killed while it works: `child.py work|follow FOLDER NAME DONE LAST`.

A worker goes on after the DONE steps that its journal shows up to step LAST, a follower after the sequence DONE
up to LAST. Both tell in lines of JSON on standard output what was acknowledged to them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

KEYS = 5
BOARD = "main"
FILTER = {"not": {"event": "board.created"}}


def say(**facts: Any) -> None:
    os.write(1, (json.dumps(facts) + "\n").encode())


async def work(folder: Path, agent: str, done: int, last: int) -> None:
    """The steps of an agent, each the same whenever it is tried, each under an idempotency key."""
    from blackboard_mcp.protocols.answers import (
        Once,
    )
    from blackboard_mcp.protocols.board import BoardConfig
    from blackboard_mcp.protocols.errors import StoreBusy
    from blackboard_mcp.protocols.items import Draft
    from blackboard_mcp.protocols.transactions import Transaction
    from blackboard_mcp.storage.store import SqlBoardStore
    from blackboard_mcp.storage.testing.harness import draft

    async def patiently(call: Callable[[], Awaitable[Any]]) -> Any:
        # On a disk that stands still for 15 seconds everybody is told to try again, and does.
        while True:
            with contextlib.suppress(StoreBusy):
                return await call()

    store = await SqlBoardStore.open(folder / "board.sqlite3")
    say(ready=True)
    for step in range(done + 1, last + 1):
        dice = random.Random(f"{agent} {step}")
        text = f"{agent} at step {step}: " + "x" * dice.randrange(400)
        once = Once(f"step-{step}", f"{agent} {step}")
        if dice.random() < 0.2:
            # Two entries of its own at once, one of them deleted again: each takes its versions.
            drafts = [draft(f"{text} {key}", key=f"{agent}:{key}") for key in ("a", "b")]
            gone = Draft(None, key=f"{agent}:b", delete=True)
            both = Transaction(writes=[*drafts, gone])
            committed = await patiently(
                partial(store.transact, BOARD, agent, both, config=BoardConfig(), once=once)
            )
            a, b, _ = committed.items
            made = [[a.number, a.version], [b.number, b.version - 1]]
            texts = [d.text for d in drafts]
            say(
                step=step, items=made, texts=texts, repeated=committed.repeated, deleted=[b.number, b.version]
            )
            continue
        match dice.randrange(4):
            case 0:
                drafts = [draft(text, key=f"shared:{dice.randrange(KEYS)}")]
            case 1:
                drafts = [draft(text, "HYPOTHESIS"), draft(f"{text} no", "CRITIQUE", critiques=-1)]
            case 2:
                drafts = [draft(f"{text} {place}", "LOG") for place in range(dice.randrange(1, 20))]
            case _:
                drafts = [draft(text, "LOG", private=dice.random() < 0.3)]
        posted = await patiently(partial(store.post, BOARD, agent, drafts, config=BoardConfig(), once=once))
        made = [[item.number, item.version] for item in posted.items]
        say(step=step, items=made, texts=[d.text for d in drafts], repeated=posted.repeated)
    await store.close()


async def follow(folder: Path, name: str, done: int, last: int) -> None:
    """Every event after `done` that the agent may see, each batch confirmed by asking for the next."""
    from blackboard_mcp.protocols.clock import SystemClock
    from blackboard_mcp.protocols.errors import StoreBusy
    from blackboard_mcp.server.usecases.activity import Activity
    from blackboard_mcp.server.usecases.following import Following
    from blackboard_mcp.server.usecases.last_seen import Looks
    from blackboard_mcp.storage.store import SqlBoardStore

    store = await SqlBoardStore.open(folder / "board.sqlite3")

    async def board_of(board: str | None, agent: str) -> str:
        return BOARD

    activity = Activity(store, SystemClock())
    following = Following(store, Looks(activity), board_of, activity)
    if await store.find_subscription(BOARD, name, "all") is None:
        await following.subscribe(name, None, FILTER, "all")
    say(ready=True)
    place = done
    while place < last:
        try:
            news = await following.wait(name, None, subscription="all", since=place, seconds=20.0, limit=40)
        except StoreBusy:
            continue
        for event in news.events:
            say(seq=event.seq, event=event.event, item=event.item)
        place = news.cursor
        say(place=place)
    await store.close()


async def main() -> None:
    role, folder, name, done, last = sys.argv[1:]
    await (work if role == "work" else follow)(Path(folder), name, int(done), int(last))


if __name__ == "__main__":
    asyncio.run(main())
