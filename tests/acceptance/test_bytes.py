"""Bytes are bounded as writes are: who posts as much as it can fills neither the disk nor the board."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from blackboard_mcp.server.demo.process import Serving
from blackboard_mcp.server.limits import Limits


def _wires() -> Any:
    if "wires" not in sys.modules:
        spec = importlib.util.spec_from_file_location("wires", Path(__file__).with_name("wires.py"))
        assert spec is not None
        assert spec.loader is not None
        sys.modules["wires"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["wires"])
    return sys.modules["wires"]


wires: Any = _wires()
TEXT = 190_000
MEGABYTE = {"items": [{"text": f"{n} ".ljust(TEXT, "x"), "type": "LOG"} for n in range(5)]}


def result(wire: Any, tool: str, given: dict[str, Any]) -> Any:
    return wires.call(wire, tool, json.dumps(given)).message["result"]


def test_a_contributor_has_a_burst_of_bytes_and_then_a_rate_and_others_go_on(
    tmp_path: Path, start: Callable[..., Serving]
) -> None:
    served = start(tmp_path / "data", "--tools", "all")
    limits = Limits()
    with (
        closing(wires.HttpWire(served.url, 0, "flood", modern=True)) as flood,
        closing(wires.HttpWire(served.url, 0, "quiet", modern=True)) as quiet,
    ):
        begun, taken = time.monotonic(), 0
        for _ in range(200):
            answer = result(flood, "post", MEGABYTE)
            if answer.get("isError"):
                break
            taken += 5 * TEXT
        refused = answer["structuredContent"]
        assert (refused["error"], refused["limit"]) == ("rate_limited", "bytes_per_second")
        assert "post what others need of it and say where the rest is" in refused["message"]
        assert 0 < refused["retry_after_seconds"] <= 5 * TEXT / limits.bytes_per_second + 1
        most = limits.bytes_burst + limits.bytes_per_second * (time.monotonic() - begun)
        assert limits.bytes_burst - 5 * TEXT <= taken <= most
        stored = sum(path.stat().st_size for path in (tmp_path / "data").glob("board.sqlite3*"))
        print(f"{taken:,} bytes of text taken of {200 * 5 * TEXT:,} sent; {stored:,} on disk")
        several = result(flood, "transaction", {"reads": {}, "writes": MEGABYTE["items"]})
        assert several["structuredContent"]["limit"] == "bytes_per_second"
        assert not result(flood, "query", {}).get("isError"), "reading goes on"
        assert not result(quiet, "post", MEGABYTE).get("isError"), "others write"
