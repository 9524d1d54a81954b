"""Candidates of a pruning pass: all of working memory, or just as many items as the decision needs.

On a large board a pass must not read everything inside the write transaction. Each step has an index that
lists its candidates in the order in which it takes them, so that a pass reads about as many as it moves. The
view `protected` leaves out protected items in SQL.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from blackboard_mcp.protocols.board import PassStep
from blackboard_mcp.protocols.events import SYSTEM
from blackboard_mcp.protocols.guard import Protection
from blackboard_mcp.protocols.items import ItemType, Status
from blackboard_mcp.protocols.pruning import (
    Candidate,
    Reach,
    Workspace,
    beyond_shares,
    finished,
    freed_by_summary,
    hardest,
    leaves_first,
)
from blackboard_mcp.protocols.values import dataclass

from ..ledger.principals import agents_of, owners_of
from ..ledger.rows import BoardRow, Steps, instant, numbers, sql
from . import guard_index

_PAGE = 100
_MORE = 2
"""The rows by which the first page of a costly statement exceeds what is needed if items are as large as on average.

Each further page has twice as many rows, up to `_PAGE`.
"""
_THREADS = 16
_ALL = 1 << 62
RESTORED = "restored from the archive lately"
GROUNDS = ("cited in an open debate", "cited in a debate that was settled lately")
RESTORED_SHARE = GROUNDS_SHARE = 4
"""Restored items stay up to this part of the target (one in so many tokens), newest first.

The same holds for cited items: first those of open debates, then of settled ones, most important first.
"""


@dataclass(frozen=True, slots=True)
class Lately:
    """A limit: changes from the sequence `seq` on, and readings or citations from `at` on, count as recent."""

    seq: int
    at: int


@dataclass(frozen=True, slots=True)
class Staying:
    """Items that stay for a while although the guard does not protect them.

    Attributes:
        why: maps each item's number to the reason.
        crowded: items that open debates cite, for which there was no more room.
    """

    why: dict[int, str]
    crowded: frozenset[int]


def workspace(board: BoardRow, now: int, reach: Reach = Reach.ALL) -> Steps[Workspace]:
    """Returns working memory as a pass sees it, oldest change first; `reach` says how much of it is needed."""
    threads: frozenset[int] | None = None
    since = yield from lately(board, now)
    stays = yield from staying(board, now)
    if reach is Reach.ALL or (yield from _somebody_has_too_much(board)):
        rows = yield sql("working"), (board.no,)
        shown = [_candidate(row, now, since) for row in rows]
    else:
        search = _Search(board, now, since, set(stays.why))
        wanted = yield from search.candidates(reach)
        shown = sorted(wanted.values(), key=lambda c: (c.seq, c.number))
        threads = frozenset(search.threads)
    among = yield from guard_index.protected_among(board.no, [c.number for c in shown])
    held = {
        c.number: Protection(stays.why[c.number]) for c in shown if c.number in stays.why and not c.expired
    }
    held |= yield from guard_index.protections(board.no, among, most=0)
    return Workspace(
        config=board.config,
        candidates=tuple(shown),
        protected=held,
        tokens=board.working_tokens,
        threads=threads,
        crowded=stays.crowded,
    )


def _somebody_has_too_much(board: BoardRow) -> Steps[bool]:
    """Tells whether an owner has more of working memory than its share."""
    by_agent = yield sql("shares"), (board.no,)
    if len(by_agent) < 2:
        return False
    owners = yield from owners_of(agent for agent, _ in by_agent)
    used: dict[str, int] = {}
    for agent, tokens in by_agent:
        used[owners[agent]] = used.get(owners[agent], 0) + tokens
    return bool(beyond_shares(board.config, used)[1])


def lately(board: BoardRow, now: int) -> Steps[Lately]:
    """Returns the limit from which on items count as fresh."""
    seconds = board.config.fresh_seconds
    if not seconds:
        return Lately(_ALL, _ALL)
    at = now - seconds * 1_000_000
    return Lately((yield from _first_since(board, at)), at)


def _first_since(board: BoardRow, at: int) -> Steps[int]:
    """Returns the sequence from which on all events are at or after a time; one after the last if none is."""
    if board.seq == 0:
        return 1
    rows = yield sql("event_since"), (board.no, at, board.seq, 1 << (board.seq.bit_length() - 1))
    since: int = rows[0][0]
    return since


def _a_while_ago(board: BoardRow, now: int) -> Steps[Lately]:
    """Returns the limit from which on `restored_seconds` and `restored_events` keep items."""
    config = board.config
    if not config.restored_seconds:
        return Lately(_ALL, _ALL)
    at = now - config.restored_seconds * 1_000_000
    after = (yield from _first_since(board, at)) - 1
    if config.restored_events:
        rows = yield sql("event_of_agents"), (board.no, SYSTEM, config.restored_events, after)
        after = rows[0][0] if rows else after
    return Lately(after, at)


def restored(board: BoardRow, since: Lately) -> Steps[set[int]]:
    """Returns items that no pass takes because they came back from the archive recently.

    Protection by the guard and times to live are not considered. Items for everybody get room first, then the rest.
    """
    room = board.config.target_tokens // RESTORED_SHARE
    stays: set[int] = set()
    for number, tokens, _hidden, _seq in (yield sql("restored_since"), (board.no, since.seq, since.at)):
        if tokens <= room:
            room -= tokens
            stays.add(number)
    return stays


def grounds(board: BoardRow, since: Lately) -> Steps[tuple[dict[int, str], frozenset[int]]]:
    """Returns items that no pass takes because debates cite them, each with the reason.

    The second value holds items that open debates cite and that found no more room. Recently settled debates count,
    so that whoever draws the conclusion still finds its grounds. Times to live are not considered.
    """
    room = board.config.target_tokens // GROUNDS_SHARE
    stays: dict[int, str] = {}
    crowded: set[int] = set()
    for number, tokens, settled in (yield sql("grounds_of_debates"), (board.no, since.seq, since.at)):
        if tokens <= room:
            room -= tokens
            stays[number] = GROUNDS[settled]
        elif not settled:
            crowded.add(number)
    return stays, frozenset(crowded)


def staying(board: BoardRow, now: int) -> Steps[Staying]:
    """Returns the items that no pass takes although the guard does not protect them."""
    since = yield from _a_while_ago(board, now)
    back = yield from restored(board, since)
    cited, crowded = yield from grounds(board, since)
    return Staying(cited | dict.fromkeys(back, RESTORED), crowded - back)


def candidates(board: BoardRow, wanted: Iterable[int], now: int) -> Steps[dict[int, Candidate]]:
    """Returns those of the items that are in working memory, as a pass sees them, by number."""
    since = yield from lately(board, now)
    rows = yield sql("working_among"), (board.no, numbers(wanted))
    return {row[0]: _candidate(row, now, since) for row in rows}


class _Search:
    """The search for the candidates of one pass, step by step, until enough tokens are found."""

    def __init__(self, board: BoardRow, now: int, lately: Lately, back: set[int]) -> None:
        self._board = board
        self._now = now
        self._lately = lately
        self._back = back
        self._left_out = numbers(back)
        self._need = board.working_tokens - board.config.low_tokens
        """Tokens still to be found."""
        self._found: dict[int, Candidate] = {}
        self.threads: set[int] = set()
        """The threads whose members were all found."""

    def candidates(self, reach: Reach) -> Steps[dict[int, Candidate]]:
        """Returns the candidates by number, about as many as the pass needs.

        With `Reach.BAND` they include every item that the last step (by importance) could take.
        """
        config, no = self._board.config, self._board.no
        yield from self._take([row[0] for row in (yield sql("going_expired"), (no, self._now))])
        if PassStep.RESOLVED in config.steps:
            yield from self._page("going_done", 1)
            yield from self._page("going_done", 0)
        if PassStep.LOGS in config.steps:
            yield from self._page("going_logs")
        early = set(self._found)
        if self._need > 0 and PassStep.THREADS in config.steps:
            yield from self._finished_threads(early)
        if self._need_after(early) > 0 and PassStep.IMPORTANCE in config.steps:
            yield from self._least(early, whole=reach is Reach.BAND)
        return self._found

    def _need_after(self, early: set[int]) -> int:
        """Returns the tokens that the last step (by importance) may have to free.

        Only the items of `early` count as freed, since a found thread need not become a summary.
        """
        taken = sum(self._found[number].tokens for number in early)
        return self._board.working_tokens - self._board.config.low_tokens - taken

    def _load(self, wanted: Iterable[int]) -> Steps[list[Candidate]]:
        """Returns those of the items that are in working memory and were not found before."""
        listed = [number for number in wanted if number not in self._found]
        if not listed:
            return []
        rows = yield sql("working_among"), (self._board.no, numbers(listed))
        return [_candidate(row, self._now, self._lately) for row in rows]

    def _take(self, wanted: Iterable[int]) -> Steps[None]:
        """Adds items to the candidates, and counts their tokens as found."""
        for candidate in (yield from self._load(wanted)):
            self._found[candidate.number] = candidate
            self._need -= candidate.tokens

    def _page(self, name: str, *more: int) -> Steps[None]:
        """Adds what an early step takes, oldest change first, until enough is found; `name` is its statement."""
        place = (0, 0)
        while self._need > 0:
            rows = yield sql(name), (self._board.no, *place, _PAGE, *more, self._left_out)
            yield from self._take(_enough(rows, self._need, self._found))
            if len(rows) < _PAGE:
                return
            place = (rows[-1][2], rows[-1][0])

    def _finished_threads(self, early: set[int]) -> Steps[None]:
        """Adds members of threads that are worth a summary, thread by thread, until enough is found."""
        config, no, after = self._board.config, self._board.no, 0
        while self._need > 0:
            rows = yield sql("going_threads"), (no, after, config.summarise_over, _THREADS)
            for (thread,) in rows:
                members = [row[0] for row in (yield sql("thread_members"), (no, thread))]
                everyone = yield from self._load(members)
                everyone += [self._found[number] for number in members if number in self._found]
                everyone.sort(key=lambda c: c.number)
                held = (yield from guard_index.protected_among(no, members)) | self._back
                known = finished(everyone, held)
                left = [c for c in known if c.number not in early and not leaves_first(c, config)]
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
        """Adds what the last step (by importance) may take, in its order, or as much as the pass needs.

        With `whole` it adds everything. Open work and grounds, which leave later than other items, do not count
        as found. For each owner with open work, the next other item is added, so that the policy sees which
        item leaves first. Items of `early` do not count.
        """
        config = self._board.config
        hard = hardest(config)
        if whole:
            band = yield sql("going_band"), (self._board.no, hard, self._left_out)
            yield from self._add(row[0] for row in band)
            return
        soft = min(config.ceiling, hard)
        need = self._need_after(early)
        board = self._board
        first = min(_MORE + need * board.working_items // max(1, board.working_tokens), _PAGE)
        for stage in (range(1, soft + 1), range(soft + 1, hard + 1)):
            places = [(fresh, importance) for fresh in (0, 1) for importance in stage]
            waiting: set[str] = set()
            for at, (fresh, importance) in enumerate(places):
                place = (0, 0)
                page = first
                while need > 0:
                    rows = yield sql("going_least"), (*self._bound(fresh, importance, place), page)
                    chosen: list[int] = []
                    for number, tokens, seq, author, is_open, bears in rows:
                        chosen.append(number)
                        place = (seq, number)
                        if is_open:
                            waiting.add(author)
                        elif not bears and number not in early:
                            need -= tokens
                            if need <= 0:
                                break
                    yield from self._add(chosen)
                    if need > 0 and len(rows) < page:
                        break
                    page = min(2 * page, _PAGE)
                if need <= 0:
                    yield from self._next_of(
                        waiting, [(*places[at], *place), *((*p, 0, 0) for p in places[at + 1 :])]
                    )
                    return

    def _next_of(self, authors: set[str], places: Sequence[tuple[int, int, int, int]]) -> Steps[None]:
        """Adds, for each owner of the authors, the next item that leaves before the owner's open work.

        `places` are where to look, in order: fresh or not, importance, sequence and number.
        """
        found = yield from owners_of(authors)
        for owner in sorted(set(found.values())):
            agents = yield from agents_of(owner)
            for fresh, importance, seq, number in places:
                bound = self._bound(fresh, importance, (seq, number))
                firsts = []
                for agent in agents:
                    firsts += yield sql("going_plain"), (*bound, agent)
                if firsts:
                    yield from self._add([min(firsts, key=lambda row: (row[1], row[0]))[0]])
                    break

    def _bound(self, fresh: int, importance: int, place: tuple[int, int]) -> tuple[Any, ...]:
        """Returns the values bound by the statements of the last step, to continue after a place."""
        before = _ALL if fresh else self._lately.seq
        lately = (self._lately.seq, self._lately.at)
        return (self._board.no, importance, *place, before, fresh, *lately, self._left_out)

    def _add(self, wanted: Iterable[int]) -> Steps[None]:
        """Adds items to the candidates, without counting their tokens."""
        for candidate in (yield from self._load(wanted)):
            self._found[candidate.number] = candidate


def _enough(rows: Sequence[Sequence[Any]], need: int, found: dict[int, Candidate]) -> list[int]:
    """Returns the numbers of the first rows that together have `need` tokens, without those already found."""
    chosen = []
    for row in rows:
        if need <= 0:
            break
        if row[0] not in found:
            chosen.append(row[0])
            need -= row[1]
    return chosen


def _candidate(r: Sequence[Any], now: int, lately: Lately) -> Candidate:
    """Makes a candidate from its row."""
    used = max(r[15] or 0, r[19] or 0)
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
        fresh=r[9] >= lately.seq or used >= lately.at,
        open_work=bool(r[17]),
        bears=tuple(sorted(json.loads(r[18]))) if r[18] else (),
        key=r[20],
        tags=() if r[21] == "[]" else tuple(json.loads(r[21])),
    )
