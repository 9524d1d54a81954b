"""Beside somebody who sends all the calls that limits allow, others' calls are not behind them in a queue.

Counted, not timed: how many of the many the server answers before the one that came after them.
"""

from __future__ import annotations

import asyncio
import importlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import counted_server
import pytest
from blackboard_mcp.server.demo.process import Serving
from profiles import NIGHTLY

FOLDER = Path(__file__).parents[2] / "benchmarks"
if not FOLDER.is_dir():
    pytest.skip("the benchmarks are not in a source distribution", allow_module_level=True)

MANY = {"batches": 40}
OF_OTHERS = 100 if NIGHTLY else 50
BEFORE = 0.5
"""Share of the many that may be answered before the one; a few are at work when it comes."""
MEANWHILE = re.compile(rf"{counted_server.HEADER}: (\d+)".encode())


@pytest.fixture(scope="module")
def fairness() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        yield importlib.import_module("fairness")


@pytest.fixture(scope="module")
def port(start: Callable[..., Serving], data: Path, fairness: Any) -> int:
    """A server that counts its answers, with a board of some hundred items."""
    # No commit waits for the disk: meanwhile any number of others would be answered.
    options = ("--tools", "all", "--target-tokens", "60000", "--synchronous", "NORMAL")
    found = urlsplit(start(data, *options, script=Path(counted_server.__file__)).url).port
    assert found is not None
    asyncio.run(fairness.fill(found))
    return found


@pytest.mark.parametrize("kind", ["views", "huge views", "queries", "archive", "batches", "transactions"])
async def test_one_call_does_not_wait_for_the_many_of_another(port: int, fairness: Any, kind: str) -> None:
    many = MANY.get(kind, OF_OTHERS)
    some = asyncio.Event()

    async def one_of_many() -> int:
        meanwhile = await ask(f"many-{kind.replace(' ', '-')}", *fairness.KINDS[kind]())
        some.set()
        return meanwhile

    async def ask(agent: str, tool: str, arguments: dict[str, Any]) -> int:
        """Makes a call, and returns how many answers the server gave while it was under way."""
        request = fairness.request(port, agent, tool, arguments)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            answer = await reader.read()
        finally:
            writer.close()
        assert b'"isError":true' not in answer, answer[:500]
        found = MEANWHILE.search(answer)
        assert found is not None, answer[:500]
        return int(found[1])

    async with asyncio.TaskGroup() as tasks:
        all_of_them = [tasks.create_task(one_of_many()) for _ in range(many)]
        await some.wait()
        for n in range(3):
            assert await ask("worker", "post", {"text": f"{kind} {n}", "type": "LOG"}) <= BEFORE * many
    assert max(task.result() for task in all_of_them) > many / 4  # they were many at once
