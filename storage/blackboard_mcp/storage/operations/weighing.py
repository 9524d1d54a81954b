"""What a pass is shown of working memory: all of it, or no more than it takes to decide.

A pass on a large board must not read it all inside the write transaction. Each step has an index that
lists its candidates in the order in which it takes them, without what is protected, so that a pass reads
as many as it moves. The protected are left out in SQL, by the view `protected`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from blackboard_mcp.protocols.items import ItemType, Status
from blackboard_mcp.protocols.pruning import (
    EXEMPT,
    Candidate,
    Reach,
    Workspace,
    beyond_shares,
    finished,
    freed_by_summary,
)

from . import guarding
from .principals import owners_of
from .rows import BoardRow, Steps, instant, numbers, sql

_PAGE = 100
_THREADS = 16


def workspace(board: BoardRow, now: int, reach: Reach = Reach.ALL) -> Steps[Workspace]:
    """Working memory as a pass sees it, oldest change first."""
    threads: frozenset[int] | None = None
    if reach is Reach.ALL or (yield from _somebody_has_too_much(board)):
        rows = yield sql("working"), (board.no,)
        shown = [_candidate(row, now) for row in rows]
    else:
        search = _Search(board, now)
        wanted = yield from search.candidates(reach)
        shown = sorted(wanted.values(), key=lambda c: (c.seq, c.number))
        threads = frozenset(search.threads)
    among = yield from guarding.protected_among(board.no, [c.number for c in shown])
    held = yield from guarding.protections(board.no, among, most=0)
    return Workspace(
        config=board.config,
        candidates=tuple(shown),
        protected=held,
        tokens=board.working_tokens,
        threads=threads,
    )


def _somebody_has_too_much(board: BoardRow) -> Steps[bool]:
    """Whether an owner has more of working memory than its share."""
    by_agent = yield sql("shares"), (board.no,)
    if len(by_agent) < 2:
        return False
    owners = yield from owners_of(agent for agent, _ in by_agent)
    used: dict[str, int] = {}
    for agent, tokens in by_agent:
        used[owners[agent]] = used.get(owners[agent], 0) + tokens
    return bool(beyond_shares(board.config, used)[1])


def candidates(no: int, wanted: Iterable[int], now: int) -> Steps[dict[int, Candidate]]:
    """Those of the items that are in working memory, as a pass sees them."""
    rows = yield sql("working_among"), (no, numbers(wanted))
    return {row[0]: _candidate(row, now) for row in rows}


class _Search:
    """Finds the candidates of one pass, step by step, until what was found would bring it to its level."""

    def __init__(self, board: BoardRow, now: int) -> None:
        self._board = board
        self._now = now
        self._need = board.working_tokens - board.config.low_tokens
        """Tokens still to be found."""
        self._found: dict[int, Candidate] = {}
        self.threads: set[int] = set()
        """Those whose members were all found."""

    def candidates(self, reach: Reach) -> Steps[dict[int, Candidate]]:
        config, no = self._board.config, self._board.no
        yield from self._take([row[0] for row in (yield sql("going_expired"), (no, self._now))])
        if "resolved" in config.steps:
            yield from self._page("going_done")
        if "logs" in config.steps:
            yield from self._page("going_logs")
        early = set(self._found)
        if self._need > 0 and "threads" in config.steps:
            yield from self._finished_threads(early)
        if self._need_after(early) > 0 and "importance" in config.steps:
            yield from self._least(early, whole=reach is Reach.BAND)
        return self._found

    def _need_after(self, early: set[int]) -> int:
        """What step 4 may have to take: a thread that is found need not end as a summary."""
        taken = sum(self._found[number].tokens for number in early)
        return self._board.working_tokens - self._board.config.low_tokens - taken

    def _load(self, wanted: Iterable[int]) -> Steps[list[Candidate]]:
        listed = [number for number in wanted if number not in self._found]
        if not listed:
            return []
        rows = yield sql("working_among"), (self._board.no, numbers(listed))
        return [_candidate(row, self._now) for row in rows]

    def _take(self, wanted: Iterable[int]) -> Steps[None]:
        for candidate in (yield from self._load(wanted)):
            self._found[candidate.number] = candidate
            self._need -= candidate.tokens

    def _page(self, name: str) -> Steps[None]:
        """What an early step takes, oldest change first."""
        place = (0, 0)
        while self._need > 0:
            rows = yield sql(name), (self._board.no, *place, _PAGE)
            yield from self._take(_enough(rows, self._need, self._found))
            if len(rows) < _PAGE:
                return
            place = (rows[-1][2], rows[-1][0])

    def _finished_threads(self, early: set[int]) -> Steps[None]:
        """Members of threads that are worth a summary, thread by thread."""
        config, no, after = self._board.config, self._board.no, 0
        while self._need > 0:
            rows = yield sql("going_threads"), (no, after, config.summarise_over, _THREADS)
            for (thread,) in rows:
                members = [row[0] for row in (yield sql("thread_members"), (no, thread))]
                everyone = yield from self._load(members)
                everyone += [self._found[number] for number in members if number in self._found]
                everyone.sort(key=lambda c: c.number)
                held = yield from guarding.protected_among(no, members)
                known = finished(everyone, held)
                left = [c for c in known if c.number not in early]
                if len(left) <= config.summarise_over:
                    continue
                self._found.update((c.number, c) for c in everyone)
                self.threads.add(thread)
                self._need -= freed_by_summary(left)
                if self._need <= 0:
                    return
            if len(rows) < _THREADS:
                return
            after = rows[-1][0]

    def _least(self, early: set[int], *, whole: bool) -> Steps[None]:
        """The least important, oldest change first among equals: the band, or enough of it."""
        need = self._need_after(early)
        hard = min(self._board.config.hard_ceiling, EXEMPT - 1)
        place = (0, 0, 0)
        page = -1 if whole else _PAGE
        while need > 0:
            rows = yield sql("going_least"), (self._board.no, *place, hard, page)
            chosen: list[int] = []
            for number, tokens, _seq, _importance in rows:
                chosen.append(number)
                if number not in early:
                    need -= tokens
                    if need <= 0 and not whole:
                        break
            for candidate in (yield from self._load(chosen)):
                self._found[candidate.number] = candidate
            if whole or len(rows) < _PAGE:
                return
            place = (rows[-1][3], rows[-1][2], rows[-1][0])


def _enough(rows: Sequence[Sequence[Any]], need: int, found: dict[int, Candidate]) -> list[int]:
    """The first of the rows that together have `need` tokens."""
    chosen = []
    for row in rows:
        if need <= 0:
            break
        if row[0] not in found:
            chosen.append(row[0])
            need -= row[1]
    return chosen


def _candidate(r: Sequence[Any], now: int) -> Candidate:
    return Candidate(
        number=r[0],
        type=ItemType(r[1]),
        status=Status(r[2]),
        importance=r[3],
        tokens=r[4],
        author=r[5],
        thread=r[6],
        private=bool(r[7]),
        updated_at=instant(r[8]),
        seq=r[9],
        expired=r[10] is not None and r[10] <= now,
        superseded=bool(r[11]),
        analysed=bool(r[12]),
        debated_before=bool(r[13]),
        reads=r[14] or 0,
        last_read=None if r[15] is None else instant(r[15]),
        owner=r[16],
    )
