"""The report on a replay, in sections for a terminal: plain facts that any client can ask for."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from blackboard_mcp.protocols.guard import closure_of
from blackboard_mcp.protocols.items import Edge, EdgeKind
from mcp.client import Client

from ..text.lines import one_line
from .replay import (
    ReplayedPost,
    call,
    events,
    held_items,
    read_items,
    say,
    search_archive,
    verify,
    working_items,
)
from .session import Session

_WIDTH = 78
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]{4,}")
_VIEW_LINES = 24
_DUTIES = {"respond": "answer", "acknowledge": "acknowledge"}
_LEFT = frozenset({"item.archived", "item.expired", "item.superseded"})


@dataclass(slots=True)
class ReportSection:
    """A heading and its lines. `failed` is true if a check in the section failed."""

    heading: str
    lines: list[str]
    failed: bool = False


def _start(text: str, width: int = _WIDTH) -> str:
    line = one_line(text)
    return line if len(line) <= width else line[: width - 1] + "…"


async def sections(
    client: Client, board: str, session: Session, posted: Sequence[ReplayedPost], stats: dict[str, Any]
) -> list[ReportSection]:
    """Returns the sections of the report in reading order. `client` may be any agent's."""
    log = await events(client, board)
    left = [event for event in log if event["event"] in _LEFT]
    return [
        await _view(client, board),
        await _pruned(client, board, log, left, stats),
        await _held(client, board, posted, log),
        await _search(client, board, session, posted, left),
        await _verified(client, board, posted, log),
    ]


async def _view(client: Client, board: str) -> ReportSection:
    answer = await call(client, "read", board=board)
    text = await say(client, "read", board=board)
    lines = [line if len(line) <= 2 * _WIDTH else line[: 2 * _WIDTH - 1] + "…" for line in text.splitlines()]
    if len(lines) > _VIEW_LINES:
        lines[_VIEW_LINES:] = [f"… and {len(lines) - _VIEW_LINES} more lines"]
    return ReportSection(f"The board now, as an agent reads it ({answer['tokens']} tokens)", lines)


async def _pruned(
    client: Client,
    board: str,
    log: list[dict[str, Any]],
    left: list[dict[str, Any]],
    stats: dict[str, Any],
) -> ReportSection:
    passes = {event["data"].get("pass") for event in log if event["event"] == "prune.ended"}
    items = {i["id"]: i for i in await read_items(client, board, sorted({e["item"] for e in left}))}
    lines = []
    for event in left:
        item, data = items[event["item"]], event["data"]
        step = f"step {data['step']}: " if "step" in data else ""
        why = data.get("why") or "superseded"
        size = f"{item['tokens']} tokens"
        lines.append(f"{item['id']:<5} {size:>12}  {step}{why}")
        lines.append(f"      {_start(item['text'])}")
    lines.append(
        f"working memory {stats['working_tokens']} tokens in {stats['working_items']} items; target "
        f"{stats['target_tokens']}, passes above {stats['high_water_tokens']}, down to "
        f"{stats['low_water_tokens']}"
    )
    return ReportSection(f"What was pruned, and why: {len(left)} items in {len(passes)} transactions", lines)


async def _held(
    client: Client, board: str, posted: Sequence[ReplayedPost], log: list[dict[str, Any]]
) -> ReportSection:
    held = await held_items(client, board, await working_items(client, board))
    lines = []
    for item, reason in reversed(held):
        lines.append(f"{item['id']:<5} {item['type'].lower()} by {item['author']}: {reason}")
        lines.append(f"      {_start(item['text'])}")
    opened = [event for event in log if event["event"] == "debate.opened"]
    if not opened:
        return ReportSection("What the guard holds", ["nothing: no debate was opened"])
    debates = [
        await call(client, "debate", op="status", id=id_, board=board)
        for id_ in dict.fromkeys(event["item"] for event in opened)
    ]
    for debate in debates:
        owed = "; ".join(f"{o['agent']} to {_DUTIES[o['duty']]} {o['item']}" for o in debate["outstanding"])
        lines.append(f"the debate on {debate['root']} is {debate['state']}; still owed: {owed or 'nothing'}")
    items = await read_items(client, board, [p.id for p in posted])
    wrong = left_while_held(items, [debate for debate in debates if debate["state"] == "OPEN"], log)
    ran = sum(event["event"] == "prune.ended" and event["seq"] > opened[0]["seq"] for event in log)
    if wrong:
        lines.append(f"LEFT although an open debate reached them: {', '.join(wrong)}")
    else:
        lines.append(f"{ran} pruning transactions ran since it was opened; nothing that it reached has left")
    return ReportSection(f"What the guard holds: {len(held)} items", lines, failed=bool(wrong))


def left_while_held(
    items: Sequence[dict[str, Any]], debates: Sequence[dict[str, Any]], log: Sequence[dict[str, Any]]
) -> list[str]:
    """Returns the ids of items that left although an open debate protected them, by the guard's rule.

    The rule is computed again from data that clients can see. Items that left before a debate reached them
    are not counted: a debate brings back only the item that it is about.
    """
    numbers = {item["id"]: item["number"] for item in items}
    began = {event["item"]: event["seq"] for event in log if event["event"] == "item.posted"}
    opened = {event["item"]: event["seq"] for event in log if event["event"] == "debate.opened"}
    edges = [
        Edge(item["number"], EdgeKind(kind), numbers[target])
        for item in items
        for kind, targets in item["edges"].items()
        for target in targets
        if target in numbers
    ]
    wrong = []
    for event in log:
        if event["event"] not in _LEFT or event["item"] not in numbers:
            continue
        there = {numbers[id_] for id_, seq in began.items() if id_ in numbers and seq < event["seq"]}
        going_on = [debate for debate in debates if opened[debate["root"]] < event["seq"]]
        named = {numbers[id_] for d in going_on for id_ in (d["root"], *d["critiques"])}
        known = [edge for edge in edges if edge.source in there]
        if numbers[event["item"]] in closure_of(dict.fromkeys(named & there, ""), known):
            wrong.append(event["item"])
    return wrong


async def _search(
    client: Client, board: str, session: Session, posted: Sequence[ReplayedPost], left: list[dict[str, Any]]
) -> ReportSection:
    gone = {event["item"] for event in left}
    candidates = [p for p in posted if p.id in gone and p.post.type not in ("PROBLEM", "LOG")]
    candidates = candidates or [p for p in posted if p.id in gone]
    if not candidates:
        return ReportSection("A search of the archive", ["nothing was pruned; try a smaller --target-tokens"])
    wanted = max(candidates, key=lambda p: (len(p.post.text), p.id))
    words = " ".join(telling_words(wanted.post.text, [p.text for p in session.posts]))
    answer = await search_archive(client, board, words)
    lines = [f'query_archive(text="{words}", limit=3), mode {answer["mode"]}']
    for item in answer["items"]:
        mark = " ← the pruned step" if item["id"] == wanted.id else ""
        lines.append(
            f"{item['id']:<5} {item['type'].lower()} by {item['author']}, {' '.join(item['tags'])}{mark}"
        )
        lines.append(f"      {_start(item['text'])}")
    found = any(item["id"] == wanted.id for item in answer["items"])
    lines.append(f"{wanted.id}, pruned from the board, {'is found' if found else 'WAS NOT FOUND'}")
    return ReportSection("A search of the archive", lines, failed=not found)


def telling_words(text: str, others: Sequence[str], count: int = 5) -> list[str]:
    """Returns the `count` words that best distinguish a text from the others, in the order of the text."""
    spread = Counter(word for other in others for word in set(_words(other)))
    times = Counter(_words(text))
    worth = {w: n * math.log((1 + len(others)) / (1 + spread[w])) for w, n in times.items()}
    best = set(sorted(worth, key=lambda w: (-worth[w], w))[:count])
    return [word for word in times if word in best]


def _words(text: str) -> Iterator[str]:
    return (match[0].casefold() for match in _WORD.finditer(text))


async def _verified(
    client: Client, board: str, posted: Sequence[ReplayedPost], log: list[dict[str, Any]]
) -> ReportSection:
    wrong = await verify(client, board, posted)
    good = len(posted) - len(wrong)
    gapless = [event["seq"] for event in log] == list(range(1, len(log) + 1))
    lines = [
        f"{good} of {len(posted)} posts read back by id, each with the sha256 of what was sent",
        f"event log 1 … {len(log)} {'without gaps' if gapless else 'HAS GAPS'}",
    ]
    if wrong:
        lines.append(f"not as posted: {', '.join(wrong)}")
    return ReportSection("Nothing was lost", lines, failed=bool(wrong) or not gapless)
