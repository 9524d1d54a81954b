"""Snapshots for views: the most important items, duties, debates, and recent events.

The cost does not grow with the board, because every statement has a limit. Limits apply to items that the agent
may see, so that hidden items never change an answer.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence

from blackboard_mcp.protocols.answers import LAST_ACTS, SNAPSHOT_ITEMS, Archived, Look, News, Snapshot
from blackboard_mcp.protocols.debates import Duty
from blackboard_mcp.protocols.events import EventType
from blackboard_mcp.protocols.items import FINISHED, EdgeKind, Item, ItemType, Status, Zone, item_id
from blackboard_mcp.protocols.pruning import may_return

from ...operation import Rows
from ..agenda.workload import workload
from ..debates import views
from ..items.panels import counted
from ..leaving import guard_index
from ..leaving import summaries as summarising
from ..ledger.ledger import attention_to, get_board, load, standing_of
from ..ledger.rows import (
    FORGOTTEN,
    BoardRow,
    Kinds,
    Steps,
    dumps,
    event_of,
    instant,
    kinds_of,
    numbers,
    parsed,
    sql,
)
from ..runs.rows import live as live_run
from . import kept_events
from .item_states import KeptRows, load_kept, values
from .kept_events import KeptEvents

MOST_REQUESTS = 3
MOST_NEWS = 400
_EARLIER = 30
"""Most departures before the last news that a view tells."""
_DEPARTURES_REACH = 10_000
"""Sequences before those of the news in which departures that concern the reader are looked for."""
_OF_TYPE = 2 / 15
"""The part of a snapshot's items that open work of one type may take before the most important items do."""
_ENDED = 12
_ARCHIVED = 60
_START = 160
_TAGS = 8
_OPEN_WORK = (
    ItemType.QUESTION,
    ItemType.PROBLEM,
    ItemType.DECISION,
    ItemType.PLAN,
    ItemType.ANSWER,
    ItemType.SUMMARY,
)
_ASKING = frozenset({ItemType.QUESTION, ItemType.PROBLEM})
_WORK = frozenset({ItemType.DECISION, ItemType.ANSWER, ItemType.PLAN})
_STANDING = (Status.ACTIVE, Status.DEBATED)
"""Statuses of items that `top_of_type` finds."""
_FORMERS = 20
_UNFINISHED = json.dumps([*_OPEN_WORK[:-1], ItemType.HYPOTHESIS])
"""Types of unfinished work, and of claims that stand, that a view names even from the archive."""
_LEFT = frozenset({EventType.ITEM_ARCHIVED, EventType.ITEM_EXPIRED})


def snapshot(
    board: str,
    agent: str,
    *,
    look: int = 0,
    most: int = SNAPSHOT_ITEMS,
    kept: KeptRows,
    events: KeptEvents,
) -> Steps[Snapshot]:
    """Returns everything that the agent's view is rendered from, all as of one moment.

    `kept` are rows that this store read before, and `events` are events.
    """
    row = yield from get_board(board)
    no = row.no
    law = yield sql("law"), (no, agent)
    standing = yield from standing_of(no, agent, look)
    known, owing, *_, reads = standing
    owed = tuple((r[0], Duty(r[1])) for r in owing)
    kinds = yield from kinds_of(no)
    running = (yield sql("debates_open"), (no,)) if kinds.open_debates else []
    ended = (yield sql("debates_ended"), (no, agent, _ENDED)) if kinds.debates else []
    debates = yield from views.debates(no, [*running, *ended])
    current = len(running)
    wanted = dict.fromkeys([*[number for number, _ in law], *[number for number, _ in owed]])
    for debate in debates[:current]:
        wanted.update(
            dict.fromkeys([debate.root, *debate.critiques, *(answer for _, answer in debate.answers)])
        )
        wanted.update(dict.fromkeys(decision.to for decision in debate.decisions if decision.to))
    wanted.update(dict.fromkeys(debate.root for debate in debates[current:]))
    asked = yield from summarising.standing(row, MOST_REQUESTS)
    wanted.update(dict.fromkeys(min(request.seen) for request in asked))
    counts = yield sql("status_counts"), (no, agent)
    chosen, stamps = yield from _most_important(no, agent, most, counts)
    wanted.update(dict.fromkeys(chosen))
    live, live_tokens, archived, unfinished = yield from _figures(no, agent, counts)
    wanted.update(dict.fromkeys(unfinished))
    found = yield from load_kept(no, wanted, agent, kept, stamps)
    items = yield from values(row, [found[n] for n in wanted if n in found], agent, kinds)
    if kinds.edges:
        items += yield from _replaced(row, agent, items, kinds)
    held = yield from guard_index.protections(no, found, most=0, kinds=kinds, law=law)
    asking = [i.number for i in items if i.type in _ASKING]
    asked_of: dict[int, tuple[str, ...]] = {}
    for number, name in (
        (yield sql("asked_for_answers"), (no, numbers(asking))) if kinds.duties and asking else ()
    ):
        asked_of[number] = (*asked_of.get(number, ()), name)
    replaceable: set[int] = set()
    if kinds.edges:
        replaceable = {e.target for i in items for e in i.edges if e.kind is EdgeKind.SUPERSEDES}
        replaceable.update([i.number for i in items])
    last = yield sql("last_acts"), (no, agent, row.seq, LAST_ACTS)
    roles: dict[str, str] = dict((yield sql("roles_of"), (no, dumps([r[0] for r in last]))))
    waiting = yield from attention_to(no, agent, standing)
    return Snapshot(
        board=row.value(),
        items=tuple(items),
        debates=tuple(d for d in debates[:current] if d.root in found),
        ended=tuple(d for d in debates[current:] if d.root in found),
        owed=owed,
        reads=reads,
        protected=held,
        hidden=sum(live.values()) - [item.zone for item in items].count(Zone.WORKING),
        attention=waiting,
        summaries=tuple(asked),
        look=known,
        at=instant(max(r[1] for r in last)) if last else None,
        tokens=live_tokens,
        here=tuple((r[0], instant(r[1])) for r in last),
        roles=roles,
        news=(yield from _news(row, agent, known, events)),
        types=live,
        asked=asked_of,
        answered=(yield from _sources("answers_to", no, asking if kinds.edges else (), agent)),
        replaced=(yield from _sources("replaced_by", no, replaceable, agent)),
        archived=archived,
        work=(yield from workload(row, agent)),
        run=(yield from live_run(row)),
        rules=(yield sql("rules_revision"), (no,))[0][0],
        panels=(yield from counted(row, agent)),
    )


def _most_important(no: int, agent: str, most: int, counts: Rows) -> Steps[tuple[list[int], Rows]]:
    """Returns numbers of items in working memory: some of each kind of open work, then the most important.

    Also returns the rows of `item_stamps` of the most important items. `counts` are rows of `status_counts`.
    """
    chosen: dict[int, None] = {}
    there = {type_ for zone, type_, status, *_ in counts if zone == Zone.WORKING and status in _STANDING}
    for type_ in [one for one in _OPEN_WORK if one in there]:
        rows = yield sql("top_of_type"), (no, agent, str(type_), int(most * _OF_TYPE))
        chosen.update(dict.fromkeys(r[0] for r in rows))
    stamps = yield sql("top"), (no, agent, most)
    for stamp in stamps:
        if len(chosen) >= most:
            break
        chosen[stamp[1]] = None
    return list(chosen), stamps


def _replaced(board: BoardRow, agent: str, items: Sequence[Item], kinds: Kinds) -> Steps[list[Item]]:
    """Returns what decisions, answers and plans among the items replaced, as far as it is not among them."""
    there = {item.number for item in items}
    targets = {
        edge.target: None
        for item in items
        if item.type in _WORK and item.status not in FINISHED
        for edge in item.edges
        if edge.kind is EdgeKind.SUPERSEDES and edge.target not in there
    }
    if not targets:
        return []
    found = yield from load(board.no, [*targets][:_FORMERS], agent)
    return (yield from values(board, list(found.values()), agent, kinds))


def _sources(name: str, no: int, targets: Collection[int], agent: str) -> Steps[dict[int, str]]:
    """Returns the ids that a statement finds for the target items, by target; asks only if there are any."""
    if not targets:
        return {}
    rows = yield sql(name), (no, numbers(targets), agent)
    return {target: item_id(type_, source) for target, source, type_ in rows}


def _news(board: BoardRow, agent: str, look: Look, kept: KeptEvents) -> Steps[News]:
    """Returns recent events that the agent was not shown, with the authors of items that left."""
    if not look:
        return News()
    no, first = board.no, int(look) if look.viewed is None else min(int(look), look.viewed)
    if board.seq - first <= kept_events.FEW:
        rows = yield sql("news"), (no, first, agent, MOST_NEWS + 1)
        listed = [event_of(raw) for raw in reversed(rows)]
    else:
        rows = yield sql("news_stamps"), (no, first, agent, MOST_NEWS + 1)
        listed = yield from kept_events.events_of(no, agent, rows[::-1], kept)
    whole = len(listed) <= MOST_NEWS or listed[0].seq <= look
    if len(listed) > MOST_NEWS:
        del listed[0]
        oldest = listed[0].seq
        after, kinds = max(first, oldest - _DEPARTURES_REACH), dumps([str(kind) for kind in _LEFT])
        earlier = yield sql("news_departures"), (no, after, oldest, agent, kinds, _EARLIER)
        listed[:0] = [event_of(raw) for raw in reversed(earlier)]
    # What left and concerned the agent was news to it, so the look covers it.
    departed = [e for e in listed if e.event in _LEFT]
    passed = {e.seq for e in departed if e.seq <= look and agent not in e.concerns}
    events = tuple(
        [e for e in listed if (e.seq > look or e.seq in passed) and e.seq not in look.above]
        if look.above or first < look
        else listed
    )
    left: set[int] = set()
    if departed:
        left = {int(e.item.partition("-")[2]) for e in events if e.event in _LEFT and e.item is not None}
    authors: dict[str, str] = {}
    gone: set[str] = set()
    moot: set[str] = set()
    large: set[str] = set()
    if left:
        for number, type_, author, deleted, zone, status, tokens, importance in (
            yield (
                sql("authors"),
                (no, numbers(left), agent),
            )
        ):
            id_ = item_id(type_, number)
            authors[id_] = author
            if deleted == FORGOTTEN:
                gone.add(id_)
            elif deleted or zone == Zone.WORKING or status in FINISHED:
                moot.add(id_)
            elif not may_return(board.config, board.working_tokens, tokens, importance):
                large.add(id_)
    if passed:
        events = tuple([e for e in events if e.seq > look or authors.get(e.item or "") == agent])
    return News(
        events,
        whole,
        authors,
        frozenset(gone),
        moot=frozenset(moot),
        too_large=frozenset(large),
    )


def _figures(
    no: int, agent: str, counts: Rows
) -> Steps[tuple[dict[ItemType, int], int, Archived, list[int]]]:
    """Returns figures of a board, as the agent sees it.

    These are the items in working memory by type, their tokens, figures of the archive, and the numbers of the newest
    unfinished items in the archive. `counts` are rows of `status_counts`.
    """
    live: Counter[ItemType] = Counter()
    gone: Counter[ItemType] = Counter()
    tokens = 0
    for zone, type_, _status, items, size in counts:
        (live if zone == Zone.WORKING else gone)[ItemType(type_)] += items
        tokens += size if zone == Zone.WORKING else 0
    if not gone:
        return dict(live), tokens, Archived(), []
    newest = yield sql("newest_archived"), (no, agent, _ARCHIVED, _START, _UNFINISHED)
    used = Counter([tag for tags, *_ in newest if tags != "[]" for tag in parsed(tags)])
    tags = sorted((tag for tag, times in used.items() if times > 1), key=lambda tag: (-used[tag], tag))
    types = tuple(sorted(gone.items(), key=lambda pair: (-pair[1], pair[0])))
    unfinished = [number for _, _, number, open_, _ in newest if open_]
    last = item_id(newest[0][4], newest[0][2]) if newest else ""
    archived = Archived(types, tuple(tags[:_TAGS]), tuple(start for _, start, *_ in newest), last)
    return dict(live), tokens, archived, unfinished
