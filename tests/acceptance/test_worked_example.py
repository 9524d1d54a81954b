"""What an agent must never forget, from a rule to the end of the work, on a board that is pruned hard (I7, I8).

An agent is told a rule, reads the outline, searches a large file, writes, breaks a test, and mends it. Others meanwhile
write far more than the board holds, and the server is killed in the middle.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import boards
import pytest
from blackboard_mcp.server.demo.process import http_clients, http_server
from blackboard_mcp.server.demo.replay import call, connected, say
from blackboard_mcp.server.demo.session import examples, load_session
from patience import PATIENCE
from profiles import NIGHTLY

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="checks need POSIX")
RULE = "Never write a requirements.txt."
TOLD = f"Thanks for joining. From now on, keep every rate in percent. {RULE} Did you sleep well?"
CONFIG = """
[[check]]
name = "tests"
run = [{python}, "-B", "-m", "unittest", "-q", "test_rates"]
files = "**/*.py"
"""
TEST = """\
import unittest

import rates


class Rates(unittest.TestCase):
    def test_of_forty(self) -> None:
        self.assertEqual(rates.rate_41(200), 82)
"""
LARGE = "\n\n".join(
    f"def rate_{n}(amount):\n    # percent\n    return amount * {n} / 100" for n in range(600)
)
TARGET = 2_000
LOGS = 6


@asynccontextmanager
async def agents(url: str) -> AsyncIterator[dict[str, Any]]:
    async with connected(http_clients(url), ["ann", "bob", "eve"]) as clients:
        yield clients


class Work:
    """The board as its agents see it; `law` is what every view must hold whole now."""

    def __init__(self, clients: dict[str, Any]) -> None:
        self.ann, self.bob, self.eve = clients["ann"], clients["bob"], clients["eve"]
        self.law: list[str] = []
        self.logs: list[tuple[str, str]] = []

    async def flood(self) -> None:
        """Others write more than the board holds, then every agent's view and context still hold the law."""
        for _ in range(LOGS):
            texts = [f"Log {len(self.logs)}.{k}: " + "the pump runs and runs. " * 12 for k in range(2)]
            posted = await call(self.eve, "post", items=[{"type": "LOG", "text": text} for text in texts])
            self.logs += zip([one["id"] for one in posted["items"]], texts, strict=True)
        for client, budget in ((self.ann, 300), (self.bob, 3_000), (self.eve, 800)):
            for tool in ("read", "get_context"):
                said = await say(client, tool, budget=budget)
                assert all(one in said for one in self.law), (tool, budget, said)
        async with asyncio.timeout(PATIENCE):  # a pass may be under way
            while await self._held() >= 2 * TARGET:  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    async def _held(self) -> int:
        held = re.search(r"working memory ([\d,]+) of 2,000 tokens", await say(self.bob, "read"))
        assert held is not None
        return int(held[1].replace(",", ""))

    async def told(self, words: str) -> str:
        """Waits until an answer to bob's `wait` has the words, and returns it."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if words in (said := await say(self.bob, "wait", seconds=5)):
                return said
        raise AssertionError(f"no news of {words!r}")


async def test_I7_I8_a_rule_and_a_hot_issue_stand_from_the_telling_to_the_mending(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(CONFIG.replace("{python}", f"'{sys.executable}'"))
    options = (
        "--tools",
        "all",
        "--target-tokens",
        str(TARGET),
        "--config",
        str(config),
        "--embedder",
        "none",
    )
    data = tmp_path / "data"
    async with http_server(data, *options) as server, agents(server.url) as clients:
        work = Work(clients)
        proposed = (await call(work.ann, "constraint", message=TOLD))["proposals"]
        assert {one["text"] for one in proposed} == {"From now on, keep every rate in percent.", RULE}
        await call(work.ann, "constraint", confirm=[one["id"] for one in proposed])
        rules = (await call(work.ann, "constraint"))["rules"]
        forbids = next(one["id"] for one in rules if one["text"] == RULE)
        await call(work.ann, "constraint", id=forbids, text=RULE, check="absent:**/requirements.txt")
        work.law = [one["text"] for one in rules]
        await call(work.ann, "artifact_write", path="rates.py", content=LARGE + "\n")
        last = await call(work.ann, "artifact_write", path="test_rates.py", content=TEST)
        await work.told(f"tests passed at rev {last['revision']}")
        await work.flood()

        # Bob begins: the rules, then the outline, then the place in a large file.
        assert RULE in await say(work.bob, "get_context", query="change the rate of forty-one")
        assert "6 Rates, 7 test_of_forty" in await say(work.bob, "artifact_list", outline=True)
        hit = (await call(work.bob, "artifact_search", text="rate 41"))["hits"][0]
        assert (hit["path"], "def rate_41(" in hit["text"]) == ("rates.py", True)
        read = await say(work.bob, "artifact_read", path="rates.py", start=hit["start"], end=hit["end"])
        assert "return amount * 41 / 100" in read
        said = await say(
            work.bob,
            "artifact_write",
            path="rates.py",
            replace={"old": "amount * 41 /", "new": "amount * 41 //"},
        )
        assert RULE in said
        last = await call(
            work.bob, "artifact_write", path="rates.py", replace={"old": "* 41 // 100", "new": "* 0.41 // 10"}
        )
        await work.told(f"tests fails: rev {last['revision']}")
        failure = "AssertionError: 8.0 != 82"
        work.law += [failure]
        await work.flood()
        forbidden = f"which {forbids} forbids"
        assert forbidden in await say(work.bob, "artifact_write", path="requirements.txt", content="x\n")
        work.law += [forbidden]
        await work.flood()
        os.kill(server.pid, signal.SIGKILL)

    async with http_server(data, *options) as server, agents(server.url) as clients:
        law, logs, work = work.law, work.logs, Work(clients)
        work.law, work.logs = law, logs
        await work.flood()
        await call(work.bob, "artifact_write", path="requirements.txt", delete=True)
        work.law = [*law[:2], failure]
        await work.flood()
        assert "forbids" not in await say(work.bob, "read")
        last = await call(
            work.bob, "artifact_write", path="rates.py", replace={"old": "* 0.41 // 10", "new": "* 41 / 100"}
        )
        await work.told(f"tests passed at rev {last['revision']}")
        work.law = law[:2]
        await work.flood()
        view = await say(work.bob, "read")
        assert failure not in view
        assert "forbids" not in view
        # Nothing that the board could not hold is lost.
        for first in range(0, len(work.logs), 20):
            asked = dict(work.logs[first : first + 20])
            found = (await call(work.eve, "read", ids=list(asked)))["items"]
            assert {one["id"]: one["text"] for one in found} == asked


BUDGETS = (300, 800, 3_000)


@pytest.mark.parametrize("name", sorted(examples()))
async def test_I7_rules_stand_in_every_view_over_a_recorded_session(tmp_path: Path, name: str) -> None:
    session = load_session(examples()[name])
    rules = [f"From now on, rule {n}: cite “the source”, see docs/a.{n}.md; never guess." for n in range(4)]
    views = 0
    async with boards.open_boards(
        tmp_path, boards.MODERN, tools=("core", "memory"), target_tokens=TARGET, embedder="none"
    ) as board:
        joined = dict(zip(session.agents, await board.join(*session.agents), strict=True))
        first = joined[session.agents[0]]
        for rule in rules:
            await first.do("constraint", text=rule)
        posted: list[str] = []
        for place, post in enumerate(session.posts):
            edges = {kind: [posted[target]] for kind, target in post.edges.items()}
            item = {"type": post.type, "text": post.text, "edges": edges, "importance": 3}
            answer = await joined[post.agent].do("post", items=[item])
            posted.append(answer["items"][0]["id"])
            await board.opened.pruner.run_pass("main")
            if NIGHTLY or place % 4 == 0 or post is session.posts[-1]:
                for budget in BUDGETS:
                    for tool in ("read", "get_context"):
                        said = await joined[post.agent].say(tool, budget=budget)
                        assert all(rule in said for rule in rules), (place, tool, budget)
                        views += 1
    assert views >= 2 * len(BUDGETS)
