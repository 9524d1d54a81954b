"""Recorded sessions of agents, replayed over MCP into boards too small for them, and what must hold then.

The logs that come with the package always; all of a folder of such logs when AGENT_LOGS names
one, or when there is `../shared/data/agent-logs` beside the checkout.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.server import compose
from blackboard_mcp.server.demo.process import Connect, http_clients, http_server
from blackboard_mcp.server.demo.replay import (
    call,
    connected,
    events,
    held_items,
    read_items,
    replay,
    resource,
    say,
    settle,
    verify,
    working_items,
)
from blackboard_mcp.server.demo.session import Session, examples, load_session
from blackboard_mcp.server.settings.server import Settings
from blackboard_mcp.server.text.tokens import load_tokenizer
from mcp.client import Client
from patience import PATIENCE
from profiles import NIGHTLY

TARGET = 1_500
HIGH, LOW = int(TARGET * 0.8), int(TARGET * 0.6)
AT_ONCE = 6
CEILING, NEVER = 2, 5
FOLLOWED = {"replies_to", "critiques", "supports", "refutes"}


@dataclass(frozen=True)
class Outcome:
    """What a replay did to one board, for the summary line."""

    posts: int
    tokens: int
    passes: int
    pruned: int
    debates: int
    passes_in_debate: int


def closure(items: Sequence[dict[str, Any]], starts: set[str]) -> set[str]:
    """What a debate reaches from `starts`: the guard's rule, written down a second time."""
    by_id = {item["id"]: item for item in items}
    reached, frontier = set(starts), list(starts)
    while frontier:
        item = by_id[frontier.pop()]
        near = {t for kind, ts in item["edges"].items() if kind in FOLLOWED | {"depends_on"} for t in ts}
        near |= {s for kind, ss in item["cited_by"].items() if kind in FOLLOWED for s in ss}
        fresh = near & by_id.keys() - reached
        reached |= fresh
        frontier += fresh
    return reached


def wrongly_left(items: Sequence[dict[str, Any]], log: Sequence[dict[str, Any]]) -> list[str]:
    """Items that left while an open debate reached them; every debate of a replay stays open.

    What left before the debate reached it is not among them: the debate brings back its own item alone.
    """
    posted = {event["item"]: event["seq"] for event in log if event["event"] == "item.posted"}
    wrong = []
    for event in log:
        if event["event"] in ("item.archived", "item.expired"):
            there = [item for item in items if posted[item["id"]] < event["seq"]]
            critiques = [item for item in there if item["type"] == "CRITIQUE"]
            starts = {t for item in critiques for t in (item["id"], *item["edges"]["critiques"])}
            if event["item"] in closure(there, starts):
                wrong.append(event["item"])
    return wrong


async def check_board(client: Client, board: str, session: Session, posted: Sequence[Any]) -> Outcome:
    """Everything that must hold of a board after a session was replayed on it and a pass ran to the end."""
    assert await verify(client, board, posted) == [], "posts that do not read as they were posted"

    log = await events(client, board)
    stats = await resource(client, f"board://{board}/stats.json")
    assert [event["seq"] for event in log] == list(range(1, stats["seq"] + 1)), "gaps in the log"

    text = await say(client, "read", board=board)
    assert load_tokenizer("o200k_base").count(text) <= 1_500, "a view beyond its budget"

    items = await read_items(client, board, [p.id for p in posted])
    working = await working_items(client, board)
    live = {item["id"] for item in working}
    assert wrongly_left(items, log) == [], "items that left while an open debate reached them"
    critiques = [item for item in items if item["type"] == "CRITIQUE"]
    starts = {t for item in critiques for t in (item["id"], *item["edges"]["critiques"])}
    assert starts <= live, "the heart of an open debate that left"

    tokens = sum(item["tokens"] for item in working)
    assert tokens == stats["working_tokens"]
    held = closure(items, starts)
    # What those of an open debate cite stays too, while there is room for it.
    held |= {t for item in items if item["id"] in held for t in item["edges"].get("derived_from", ())}
    free = [item for item in working if item["id"] not in held]
    if tokens > HIGH:
        assert all(item["importance"] >= NEVER for item in free), "above high-water with items to take"
    elif tokens > LOW:
        left = [item for item in free if item["importance"] <= CEILING]
        assert not left, f"above low-water with items to take: {left}"

    opened = [event["seq"] for event in log if event["event"] == "debate.opened"]
    ended = [event for event in log if event["event"] == "prune.ended"]
    return Outcome(
        posts=len(posted),
        tokens=sum(item["tokens"] for item in items),
        passes=len(ended),
        pruned=sum(event["event"] == "item.archived" for event in log),
        debates=len(opened),
        passes_in_debate=sum(bool(opened) and event["seq"] > opened[0] for event in ended),
    )


async def replay_one(session: Session, connect: Connect, pruner: Any) -> Outcome:
    board = f"log-{session.name}"
    async with connected(connect, session.agents) as clients:
        posted = await replay(session, clients, board)
        observer = clients[session.agents[0]]
        stats = await settle(observer, board)
        assert stats["working_tokens"] <= HIGH or stats["open_debates"] or stats["protected_items"]
        # A board that never crossed high-water is owed no pass: run one by hand, from another process.
        async with asyncio.timeout(PATIENCE):
            while not await pruner.run_pass(board):  # noqa: ASYNC110, the server's own pass holds the lease
                await asyncio.sleep(0.05)
        return await check_board(observer, board, session, posted)


async def replay_all(paths: Sequence[Path], data: Path) -> list[Outcome]:
    """One server, a board for each log, several sessions at a time."""
    outcomes: list[Outcome] = []
    limit = asyncio.Semaphore(AT_ONCE)
    settings = Settings(data=data, target_tokens=TARGET)
    async with (
        http_server(data, "--target-tokens", str(TARGET)) as server,
        compose.installation(settings, eager_index=False, background=False) as opened,
    ):
        connect = http_clients(server.url)

        async def one(path: Path) -> None:
            async with limit:
                session = load_session(path)
                try:
                    outcomes.append(await replay_one(session, connect, opened.pruner))
                except Exception as error:
                    error.add_note(f"replaying {path}")
                    raise

        done = await asyncio.gather(*(one(path) for path in paths), return_exceptions=True)
        failures = [failure for failure in done if failure is not None]
        if failures:
            raise ExceptionGroup(f"{len(failures)} of {len(paths)} replays", failures) from failures[0]
    return outcomes


def told(outcomes: Sequence[Outcome]) -> str:
    return (
        f"{len(outcomes)} logs: {sum(o.posts for o in outcomes)} posts of "
        f"{sum(o.tokens for o in outcomes)} tokens, {sum(o.passes for o in outcomes)} passes, "
        f"{sum(o.pruned for o in outcomes)} items pruned, {sum(o.debates for o in outcomes)} debates held "
        f"through {sum(o.passes_in_debate for o in outcomes)} passes"
    )


async def test_the_shipped_sessions_replay_within_the_budget_and_lose_nothing(tmp_path: Path) -> None:
    outcomes = await replay_all(list(examples().values()), tmp_path)
    print(told(outcomes))
    assert len(outcomes) >= 3
    assert all(o.debates == 1 for o in outcomes)
    assert sum(o.pruned for o in outcomes) > 0
    assert sum(o.passes_in_debate for o in outcomes) > 0


async def test_waiting_for_passes_ends_where_an_open_debate_cites_all_that_is_left(tmp_path: Path) -> None:
    """Such a board stays above its high-water mark: what the debate cites may not leave either."""
    async with (
        http_server(tmp_path, "--target-tokens", str(TARGET)) as server,
        connected(http_clients(server.url), ["ann", "bob"]) as clients,
    ):
        ann, bob = clients["ann"], clients["bob"]
        grounds = [("FACT", "Measured once more, a little apart from what stood there before. " * 25, {})]
        cited = await post(ann, grounds)
        claim = "The pump fails above forty degrees, as the readings of the night show. " * 60
        doubted = await post(ann, [("HYPOTHESIS", claim, {"derived_from": cited})])
        await post(bob, [("CRITIQUE", "The sensor was off by ten degrees.", {"critiques": doubted})])
        stats = await settle(ann, "main")
        assert stats["working_tokens"] > stats["high_water_tokens"]
        held = await held_items(ann, "main", await working_items(ann, "main"))
        reasons = {item["id"]: reason for item, reason in held}
        assert reasons[cited[0]] == "cited in an open debate"


async def post(client: Client, items: Sequence[tuple[str, str, dict[str, list[str]]]]) -> list[str]:
    answer = await call(
        client, "post", items=[{"type": type_, "text": text, "edges": edges} for type_, text, edges in items]
    )
    return [item["id"] for item in answer["items"]]


def corpus() -> list[Path]:
    named = os.environ.get("AGENT_LOGS")
    folder = Path(named) if named else Path(__file__).parents[3] / "shared" / "data" / "agent-logs"
    return sorted(folder.glob("*.json"))[:: 1 if NIGHTLY else 24]


@pytest.mark.skipif(not corpus(), reason="no logs: AGENT_LOGS names no folder of them")
async def test_a_corpus_of_sessions_replays_within_the_budget_and_loses_nothing(tmp_path: Path) -> None:
    outcomes = await replay_all(corpus(), tmp_path)
    print(told(outcomes))
    assert len(outcomes) == len(corpus())
