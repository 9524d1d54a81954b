"""Calls leave nothing to the garbage collector, which would stop every other call while it looks for it."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import boards
import pytest

CALLS = 40
CHANCE = 60
"""Objects that anything else in the process may leave meanwhile; a cycle in each call would leave far more."""


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("post", {"text": "a finding", "type": "LOG"}),
        ("read", {"budget": 1_000}),
        ("read", {"ids": ["F-1"]}),
        ("read", {"ids": ["F-999"]}),
        ("query", {"text": "finding"}),
        ("query_archive", {"text": "finding"}),
        ("wait", {"seconds": 0}),
        ("wait", {"seconds": 0.01}),
    ],
    ids=lambda given: given if isinstance(given, str) else "+".join(f"{k}={v}" for k, v in given.items()),
)
async def test_a_call_leaves_no_cycles(
    serving: Any, tmp_path: Path, tool: str, arguments: dict[str, Any]
) -> None:
    async with boards.open_boards(tmp_path, boards.MODERN) as board, serving(sample=board) as served:
        wire = await served.wire()

        async def call(tool: str, **arguments: Any) -> Any:
            await wire.send(served.modern("tools/call", tool, arguments=arguments))
            return (await wire.reply()).document["result"]

        for number in range(30):
            text = f"finding {number} on shard {number % 7}"
            assert not (await call("post", text=text, type="FACT"))["isError"]
        for _ in range(3):
            await call(tool, **arguments)
        gc.collect()
        gc.disable()
        try:
            for number in range(CALLS):
                varied = {"budget": 1_000 + number} if "budget" in arguments else {}
                await call(tool, **arguments | varied)
            left = gc.collect()
        finally:
            gc.enable()
        assert left <= CHANCE, f"{left / CALLS:.1f} objects for each call"
