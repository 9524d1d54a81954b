"""Bytes are bounded as writes are: who posts as much as it can fills neither the disk nor the board."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import wires
from blackboard_mcp.server.demo.process import Serving
from blackboard_mcp.server.limits.limits import Limits

TEXT = 190_000
WORDS = "the pump leaks " * (TEXT // 15)
MEGABYTE = {"items": [{"text": f"{n} {WORDS}"[:TEXT], "type": "LOG"} for n in range(5)]}


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


def figures(wire: Any) -> dict[str, Any]:
    answer = wires.ask(
        wire, "resources/read", '"uri": "board://main/stats.json"', of="board://main/stats.json"
    )
    found: dict[str, Any] = json.loads(answer.message["result"]["contents"][0]["text"])
    return found


def test_what_an_owner_keeps_is_bounded_over_all_processes_of_a_folder_and_work_is_ended(
    tmp_path: Path, start: Callable[..., Serving]
) -> None:
    most = 1_500_000
    bound = ("--board-settings", json.dumps({"owner_bytes": most}))
    one, two = (start(tmp_path / "data", "--tools", "all", *bound) for _ in range(2))
    with (
        closing(wires.HttpWire(one.url, 0, "flood", modern=True)) as flood,
        closing(wires.HttpWire(two.url, 0, "flood", modern=True)) as again,
        closing(wires.HttpWire(two.url, 0, "quiet", modern=False)) as quiet,
    ):
        claim, entry = (
            result(flood, "post", said)["structuredContent"]["items"][0]["id"]
            for said in ({"text": "the pump leaks", "type": "HYPOTHESIS"}, {"text": "on", "key": "pump"})
        )
        doubt = {"text": "it does not", "type": "CRITIQUE", "edges": {"critiques": [claim]}}
        critique = result(quiet, "post", doubt)["structuredContent"]["items"][0]["id"]
        refusals: list[dict[str, Any]] = []

        def fill(wire: Any, name: str) -> None:
            for n in range(20):
                answer = result(wire, "post", {"text": f"{n} {name} ".ljust(TEXT, "x"), "type": "LOG"})
                if answer.get("isError"):
                    refusals.append(answer["structuredContent"])
                    return

        both = [threading.Thread(target=fill, args=named) for named in ((flood, "one"), (again, "two"))]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
        told = figures(flood)
        assert told["owner_bytes"] == most
        assert most - TEXT - 1_100 <= told["stored_bytes"] <= most
        assert len(refusals) == 2
        for refused in refusals:
            assert (refused["error"], refused["limit"], refused["most"]) == ("quota", "owner_bytes", most)
            assert "Nothing was changed" in refused["message"]
            assert "1,500,000 bytes" in refused["message"]
        several = {"reads": {}, "writes": [{"text": "y" * 100_000}, {"text": "z" * 100_000}]}
        assert result(again, "transaction", several)["structuredContent"]["limit"] == "owner_bytes"
        longer = result(flood, "post", {"key": "pump", "text": "w" * TEXT})
        assert longer["structuredContent"]["limit"] == "owner_bytes"
        # Others write, and what was begun is ended, with a text that is no longer taken of anything else.
        assert not result(quiet, "post", MEGABYTE).get("isError")
        reply = {"text": "look: ".ljust(TEXT, "v"), "type": "REPLY", "edges": {"replies_to": [critique]}}
        assert not result(again, "post", reply).get("isError")
        assert result(again, "post", reply | {"text": "and more ".ljust(TEXT, "u")}).get("isError")
        assert not result(quiet, "debate", {"op": "acknowledge", "id": claim}).get("isError")
        assert not result(flood, "post", {"id": entry, "status": "RESOLVED"}).get("isError")
        assert not result(flood, "post", {"key": "pump", "status": "DELETED"}).get("isError")
        # Whoever administers the board gives more.
        assert not result(quiet, "board", {"settings": {"owner_bytes": 2 * most}}).get("isError")
        assert not result(again, "post", {"text": "t" * TEXT}).get("isError")
