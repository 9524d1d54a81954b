"""Explanations: why items stay, what would archive them and when, and why they left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from blackboard_mcp.protocols.board import DEFAULT_POLICY, PassStep
from blackboard_mcp.protocols.debates import Duty, Obligation, ObligationState
from blackboard_mcp.protocols.events import Event
from blackboard_mcp.protocols.explain import (
    EXPIRY,
    Explained,
    Explanation,
    PassTurn,
)
from blackboard_mcp.protocols.guard import Protection
from blackboard_mcp.protocols.items import Item, Zone, item_id
from blackboard_mcp.protocols.pruning import Candidate, finished, hardest, leaves_first, takes

from ..leaving import candidates as weighing
from ..leaving import guard_index
from ..ledger.ledger import attention, get_board, load
from ..ledger.rows import BoardRow, Steps, event_of, instant, numbers, sql
from .item_states import values
from .items import shown

COUNTED = 10_000
"""The most items before a place that are counted."""


def explain(now: int, board: str, agent: str, wanted: Sequence[int], *, look: int = 0) -> Steps[Explained]:
    """Explains for each item that the agent may see what protects it, when it would leave, or why it left."""
    row = yield from get_board(board)
    found = yield from load(row.no, wanted, agent)
    asked = [number for number in dict.fromkeys(wanted) if number in found]
    items = yield from values(row, [found[number] for number in asked], agent)
    working = [item.number for item in items if item.zone is Zone.WORKING]
    held = yield from guard_index.protections(row.no, working, most=guard_index.WHOLE_CHAIN)
    held = yield from shown(row.no, agent, held)
    candidates = yield from weighing.candidates(row, [n for n in working if n not in held], now)
    stays = yield from weighing.staying(row, now)
    held |= {n: Protection(stays.why[n]) for n, c in candidates.items() if n in stays.why and not c.expired}
    large = (yield from _large(row, agent)) if len(held) < len(working) else (0, 0)
    explanations: list[Explanation] = []
    for item in items:
        if item.number in held:
            cited = {n for e in held[item.number].chain for n in (e.source, e.target)}
            types = yield sql("types"), (row.no, numbers(cited), agent)
            names = {number: item_id(type_, number) for number, type_ in types}
            root, waits = yield from _waits(row.no, item.number)
            explanations.append(Explanation(item, held[item.number], names, root, waits))
        elif item.zone is Zone.WORKING:
            turn = yield from _turn(row, candidates[item.number], agent, now, large)
            crowded = item.number in stays.crowded
            explanations.append(Explanation(item, turn=replace(turn, crowded=crowded)))
        else:
            explanations.append(Explanation(item, left=(yield from _left(row.no, item))))
    own = yield sql("own_notes"), (row.no, agent)
    waiting = yield from attention(row.no, agent, look)
    return Explained(
        explanations=tuple(explanations),
        missing=tuple(str(number) for number in dict.fromkeys(wanted) if number not in found),
        config=row.config,
        tokens=row.working_tokens - row.private_tokens + own[0][1],
        seq=row.seq,
        attention=waiting,
        lifecycle=row.lifecycle,
        staying=(yield from _staying(row, stays, agent, now)),
    )


def _staying(board: BoardRow, stays: weighing.Staying, agent: str, now: int) -> Steps[dict[int, int]]:
    """Returns what stays for a while, as far as the agent may see it, without what the guard protects."""
    found = (yield from load(board.no, list(stays.why), agent)) if stays.why else {}
    if not found:
        return {}
    held = yield from guard_index.protected_among(board.no, list(found))
    there = yield from weighing.candidates(board, [number for number in found if number not in held], now)
    return {number: item.tokens for number, item in there.items() if not item.expired}


def _waits(no: int, number: int) -> Steps[tuple[str | None, tuple[Obligation, ...]]]:
    """Returns the id of the item whose debate protects an item, or `None`, and the outstanding duties there."""
    holding = yield sql("holding"), (no, numbers([number]))
    debate = holding[-1][1] if holding else 0
    root: str | None = None
    rows = list((yield sql("obligations_of_item"), (no, number)))
    if debate:
        about = yield sql("root_of_debate"), (no, debate)
        root = item_id(about[0][1], about[0][0])
        rows += yield sql("obligations_of_debates"), (no, numbers([debate]))
    owed = {
        tuple(r): Obligation(r[0], r[1], Duty(r[2]), ObligationState(r[3]), r[4], r[5], instant(r[6]))
        for r in rows
        if r[3] == ObligationState.OUTSTANDING
    }
    return root, tuple(owed.values())


def _large(board: BoardRow, agent: str) -> Steps[tuple[int, int]]:
    """Returns the number and tokens of the items that are too large to stay; reads working memory only if it may hold
    such.
    """
    config = board.config
    if PassStep.IMPORTANCE not in config.steps or board.working_tokens <= config.low_tokens:
        return 0, 0
    flags = (int(PassStep.RESOLVED in config.steps), int(PassStep.LOGS in config.steps))
    rows = yield sql("ahead_large"), (board.no, hardest(config), config.low_tokens, agent, *flags)
    return rows[0][0], rows[0][1]


def _turn(board: BoardRow, item: Candidate, agent: str, now: int, large: tuple[int, int]) -> Steps[PassTurn]:
    """Returns the step that would take an unprotected item, and how many items and tokens leave before it."""
    config, no = board.config, board.no
    if item.expired:
        return PassTurn(EXPIRY, 0, 0)
    if leaves_first(item, config):
        return PassTurn(PassStep.IMPORTANCE, 0, 0)
    place = (item.seq, item.number)
    done = takes(PassStep.RESOLVED, item, config)
    flags = (int(PassStep.RESOLVED in config.steps), int(PassStep.LOGS in config.steps))
    early = [large]
    if PassStep.RESOLVED in config.steps:
        early.append((yield from _ahead(no, "ahead_done", place if done else None, agent)))
        if done:
            return _turned(PassStep.RESOLVED, early)
    if PassStep.LOGS in config.steps:
        log = takes(PassStep.LOGS, item, config)
        early.append((yield from _ahead(no, "ahead_logs", place if log else None, agent)))
        if log:
            return _turned(PassStep.LOGS, early)
    if PassStep.THREADS in config.steps and (yield from _thread_is_over(board, item)):
        return _turned(PassStep.THREADS, early)
    if PassStep.IMPORTANCE not in config.steps or not takes(PassStep.IMPORTANCE, item, config):
        return PassTurn(None)
    if config.policy != DEFAULT_POLICY:
        return PassTurn(PassStep.IMPORTANCE)
    if item.open_work or item.bears:
        types = yield sql("types"), (no, numbers(item.bears), agent)
        return PassTurn(
            PassStep.IMPORTANCE, open_work=item.open_work, after=tuple(item_id(t, n) for n, t in types)
        )
    since = yield from weighing.lately(board, now)
    above = int(item.importance > config.ceiling)
    rank = (above, int(item.fresh), item.importance, *place)
    bound = (no, config.ceiling, *rank, since.seq, since.at, COUNTED, *flags, agent)
    rows = yield sql("ahead_least"), (*bound, hardest(config), config.low_tokens)
    return _turned(PassStep.IMPORTANCE, [*early, (rows[0][0], rows[0][1])])


def _ahead(no: int, name: str, place: tuple[int, int] | None, agent: str) -> Steps[tuple[int, int]]:
    """Returns the number and tokens of the items that a step takes before a place; without a place, of all."""
    rows = yield sql(name), (no, *(place or (1 << 62, 0)), COUNTED, agent)
    return rows[0][0], rows[0][1]


def _turned(takes: str, ahead: Sequence[tuple[int, int]]) -> PassTurn:
    """Returns the turn for a step, with the sums of what leaves before."""
    more = any(items >= COUNTED for items, _ in ahead)
    return PassTurn(takes, sum(items for items, _ in ahead), sum(tokens for _, tokens in ahead), more)


def _thread_is_over(board: BoardRow, item: Candidate) -> Steps[bool]:
    """Tells whether a pass would summarise the item with its thread."""
    members = [row[0] for row in (yield sql("thread_members"), (board.no, item.thread))]
    if len(members) <= board.config.summarise_over:
        return False
    everyone = yield from weighing.candidates(board, members, 0)
    held = yield from guard_index.protected_among(board.no, members)
    listed = finished([everyone[number] for number in sorted(everyone)], held)
    covered = [member for member in listed if not leaves_first(member, board.config)]
    return len(covered) > board.config.summarise_over and item.number in {c.number for c in covered}


def _left(no: int, item: Item) -> Steps[Event | None]:
    """Returns the event by which the item left working memory, or `None`."""
    listed = yield sql("pass_of_item"), (no, item.number)
    return event_of(listed[0]) if listed else None
