"""The watcher of other processes' commits, on either event loop."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import pytest
from blackboard_mcp.storage.sqlite.wakeup import Changes, Watcher
from patience import PATIENCE

if sys.platform == "win32":
    LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop]
else:
    import uvloop

    LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


@pytest.mark.parametrize("new_loop", LOOPS, ids=lambda loop: loop.__module__.split(".")[0])
def test_a_look_asked_for_twice_at_once_is_made(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def scenario() -> None:
        looked = asyncio.Event()

        async def poll(heard: bool) -> bool:
            looked.set()
            return False

        changes = Changes()
        watcher = Watcher(changes, poll, None)
        watcher.start()
        changes.on_waiting()
        changes.on_waiting()
        await asyncio.wait_for(looked.wait(), PATIENCE)
        await watcher.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scenario())
