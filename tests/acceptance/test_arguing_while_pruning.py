"""Two server processes on one file, both pruning while both criticise: no argument is cut, nothing miscounted."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from blackboard_mcp.protocols.events import Event
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.items import Item, Ref, Zone
from blackboard_mcp.server.demo.process import stdio_clients
from blackboard_mcp.server.demo.replay import ToolFailed, call, connected
from blackboard_mcp.storage.store import SqlBoardStore
from mcp.client import Client

AGENTS = ("ada", "ben")
"""Each has a server process of its own."""
LANES, STEPS = 3, 80
"""Calls under way at once in each process, and how many one after the other in each."""
BOTH_WAYS = ("replies_to", "critiques", "supports", "refutes")
LEFT = ("item.archived", "item.expired", "item.superseded")


@dataclass
class Talk:
    """What was said so far, by whom: `posts` are ids, `quarrels` are (critic, id of what is criticised)."""

    posts: list[tuple[str, str]] = field(default_factory=list)
    quarrels: list[tuple[str, str]] = field(default_factory=list)
    unanswered: list[tuple[str, str]] = field(default_factory=list)
    """Who owes an answer, and the critique."""
    done: Counter[str] = field(default_factory=Counter)


async def lane(client: Client, agent: str, talk: Talk, seed: int, together: asyncio.Barrier) -> None:
    """One call after the other; a refusal (say, nothing to acknowledge any more) is no failure."""
    rng = random.Random(f"{agent} {seed}")
    for step in range(STEPS):
        if step % 4 == 0:
            await together.wait()
        theirs = [id_ for author, id_ in talk.posts[-12:] if author != agent]
        mine = [root for critic, root in talk.quarrels if critic == agent]
        owed = [critique for author, critique in talk.unanswered if author == agent]
        what = rng.choices(
            ("fact", "support", "critique", "reply", "acknowledge", "prune"), (5, 2, 5, 2, 4, 3)
        )[0]
        words = f"{what} {step} of {agent} in lane {seed}: " + " ".join(
            f"value {rng.randint(0, 999)}" for _ in range(rng.randint(1, 12))
        )
        try:
            match what:
                case "fact":
                    kind = rng.choice(("FACT", "HYPOTHESIS", "LOG"))
                    await post(client, talk, agent, words, kind, {})
                case "support" if talk.posts:
                    target = rng.choice(talk.posts[-8:])[1]
                    await post(client, talk, agent, words, "FACT", {rng.choice(KINDS): [target]})
                case "critique" if theirs:
                    root = rng.choice(theirs)
                    critique = await post(client, talk, agent, words, "CRITIQUE", {"critiques": [root]})
                    talk.quarrels.append((agent, root))
                    talk.unanswered.append((next(a for a in AGENTS if a != agent), critique))
                case "reply" if owed:
                    talk.unanswered.remove((agent, owed[0]))
                    await post(client, talk, agent, words, "REPLY", {"replies_to": [owed[0]]})
                case "acknowledge" if mine:
                    talk.quarrels.remove((agent, mine[0]))
                    await call(client, "debate", op="acknowledge", id=mine[0])
                case "prune":
                    await call(client, "prune")
                case _:
                    continue
            talk.done[what] += 1
        except ToolFailed as refusal:
            if refusal.facts["error"] not in ("refused", "conflict", "not_found", "pressure", "quota"):
                raise
            talk.done[f"{what} refused"] += 1


KINDS = ("supports", "depends_on", "derived_from")


async def post(
    client: Client, talk: Talk, agent: str, text: str, type_: str, edges: dict[str, list[str]]
) -> str:
    answer = await call(client, "post", text=text, type=type_, edges=edges)
    id_: str = answer["items"][0]["id"]
    talk.posts.append((agent, id_))
    return id_


async def test_two_processes_prune_and_criticise_at_once(tmp_path: Path) -> None:
    talk = Talk()
    options = ("--tools", "all", "--target-tokens", "600", "--synchronous", "NORMAL")
    async with connected(stdio_clients(tmp_path, *options), AGENTS) as clients:
        together = asyncio.Barrier(len(AGENTS) * LANES)
        async with asyncio.TaskGroup() as group:
            for agent in AGENTS:
                for n in range(LANES):
                    group.create_task(lane(clients[agent], agent, talk, n, together))
    store = await SqlBoardStore.open(tmp_path / "board.sqlite3")
    try:
        await check(store, talk)
    finally:
        await store.close()


async def check(store: SqlBoardStore, talk: Talk) -> None:
    board = await store.find_board("main")
    assert board is not None
    log = (await store.log("main", "ada", 0, 100_000)).events
    assert [event.seq for event in log] == list(range(1, board.seq + 1))

    highest = max(number(event) for event in log if event.item)
    found = (await store.read("main", "ada", [Ref(n) for n in range(1, highest + 1)], [])).items
    items = {item.number: item for item in found}
    assert sorted(items) == list(range(1, highest + 1)), "every number was given out and is readable"
    assert {id_ for _, id_ in talk.posts} <= {item.id for item in found}
    working = [item for item in found if item.zone is Zone.WORKING]
    assert board.working_items == len(working)
    assert board.working_tokens == sum(item.tokens for item in working)
    assert board.archived_items == len(found) - len(working)
    assert sorted(await zone(store)) == sorted(item.number for item in working)

    assert cut_short(log, items) == []
    debates = debates_of(log, items)
    for opened, closed, about in debates:
        if closed is None:
            gone = [items[n].id for n in about if items[n].zone is not Zone.WORKING]
            assert not gone, f"the debate opened by event {opened} is about {gone}"

    happened = Counter(event.event for event in log)
    assert happened["item.archived"] >= 20, happened
    assert happened["debate.opened"] >= 8, happened
    assert happened["debate.closed"] >= 1, happened
    assert happened["item.restored"] >= 1, happened
    assert talk.done["prune"] >= 20, talk.done


async def zone(store: SqlBoardStore) -> list[int]:
    numbers: list[int] = []
    cursor = None
    while True:
        page = await store.query("main", "ada", ItemQuery(zone=Zone.WORKING, limit=100, cursor=cursor))
        numbers += [item.number for item in page.items]
        if (cursor := page.cursor) is None:
            return numbers


def number(event: Event) -> int:
    assert event.item is not None
    return int(event.item.split("-")[1])


def debates_of(log: tuple[Event, ...], items: dict[int, Item]) -> list[tuple[int, int | None, set[int]]]:
    """Every debate as (opened at, closed at, what it is about), worked out from the log and the critiques."""
    debates: list[tuple[int, int | None, set[int]]] = []
    going_on: dict[int, int] = {}
    for event in log:
        if event.event == "debate.opened":
            going_on[number(event)] = len(debates)
            debates.append((event.seq, None, {number(event)}))
        elif event.event == "debate.closed":
            place = going_on.pop(number(event))
            debates[place] = (debates[place][0], event.seq, debates[place][2])
    posted = {number(event): event.seq for event in log if event.event == "item.posted"}
    for n, item in items.items():
        for edge in item.edges:
            if item.type == "CRITIQUE" and edge.kind == "critiques":
                # The debate is opened in the transaction of the post, right after it, if it was not open.
                now = [d for d in debates if edge.target in d[2] and (d[1] is None or d[1] > posted[n])]
                assert now, f"{item.id} opened nothing"
                now[0][2].add(n)
    return debates


def cut_short(log: tuple[Event, ...], items: dict[int, Item]) -> list[str]:
    """Items that left while an open debate reached them: by a walk that shares nothing with the guard."""
    posted = {number(event): event.seq for event in log if event.event == "item.posted"}
    debates = debates_of(log, items)
    edges = [(e.source, str(e.kind), e.target) for item in items.values() for e in item.edges]
    wrong = []
    for event in log:
        if event.event not in LEFT:
            continue
        at = event.seq
        there = {n for n, seq in posted.items() if seq < at}
        reached = {n for o, c, about in debates if o < at and (c is None or c > at) for n in about & there}
        grown = -1
        while grown != len(reached):
            grown = len(reached)
            for source, kind, target in edges:
                if source in there and source in reached and kind in (*BOTH_WAYS, "depends_on"):
                    reached.add(target)
                if source in there and target in reached and kind in BOTH_WAYS:
                    reached.add(source)
        if number(event) in reached:
            wrong.append(f"{event.item} at {at}")
    return wrong
