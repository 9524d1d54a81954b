"""Beside somebody who sends all the calls that limits allow, others' calls are not behind them in a queue.

Counted, not timed: how many of the many are answered before the one that came after them.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from blackboard_mcp.server.demo.process import Serving
from profiles import NIGHTLY

FOLDER = Path(__file__).parents[2] / "benchmarks"
if not FOLDER.is_dir():
    pytest.skip("the benchmarks are not in a source distribution", allow_module_level=True)

MANY = {"batches": 40}
OF_OTHERS = 100 if NIGHTLY else 50
BEFORE = 0.5
"""Share of the many that may be answered first: a few at work, and those that a busy client reads in one go."""


@pytest.fixture(scope="module")
def fairness() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        yield importlib.import_module("fairness")


@pytest.fixture(scope="module")
def port(start: Callable[..., Serving], data: Path, fairness: Any) -> int:
    """A server with a board of some hundred items."""
    served = start(data, "--tools", "all", "--target-tokens", "60000")
    found = urlsplit(served.url).port
    assert found is not None
    asyncio.run(fairness.fill(found))
    return found


@pytest.mark.parametrize("kind", ["views", "huge views", "queries", "archive", "batches", "transactions"])
async def test_one_call_does_not_wait_for_the_many_of_another(port: int, fairness: Any, kind: str) -> None:
    answered, many = 0, MANY.get(kind, OF_OTHERS)
    some = asyncio.Event()

    async def one_of_many() -> None:
        nonlocal answered
        body = await ask(f"many-{kind.replace(' ', '-')}", *fairness.KINDS[kind]())
        assert b'"isError":true' not in body, body[:500]
        answered += 1
        some.set()

    async def ask(agent: str, tool: str, arguments: dict[str, Any]) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
        try:
            writer.write(fairness.request(port, agent, tool, arguments))
            body: bytes = await fairness.answer(reader)
            return body
        finally:
            writer.close()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(many):
            tasks.create_task(one_of_many())
        await some.wait()
        for n in range(3):
            so_far = answered
            body = await ask("worker", "post", {"text": f"{kind} {n}", "type": "LOG"})
            assert b'"isError":true' not in body
            assert answered - so_far <= BEFORE * many
    assert answered == many
