"""Summaries that replace their sources, and requests that an agent writes one.

A request stands for a finished thread. It becomes void when a public member of the thread changes. The agent
who takes it holds it for a while under a token: the sequence of the event of taking, so that a later holder's
token is higher.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from blackboard_mcp.protocols.answers import (
    NewSummary,
    Once,
)
from blackboard_mcp.protocols.board import Lifecycle, PassStep
from blackboard_mcp.protocols.changes import ChangeKind
from blackboard_mcp.protocols.debates import DebateState
from blackboard_mcp.protocols.errors import Conflict, Refused, RulesMoved, UnknownReference
from blackboard_mcp.protocols.events import SYSTEM, EventType
from blackboard_mcp.protocols.items import EdgeKind, Item, ItemType, Status, Zone
from blackboard_mcp.protocols.pruning import exempt
from blackboard_mcp.protocols.summaries import DueSummary, Ending, SummaryRequest

from ...operation import Write
from ..debates.views import debates
from ..items import retraction, trust
from ..ledger.idempotency import Form, apply_once, repeatable, whole
from ..ledger.ledger import Ledger, get_board, load, load_any, open_ledger
from ..ledger.rows import BoardRow, ItemRow, Steps, dumps, instant, numbers, sql
from ..reading.item_states import values
from . import guard_index

_MICROS = 1_000_000


def thread_sources(board: str, members: Iterable[int]) -> Steps[list[Item]]:
    """Returns the public members of a thread for a summariser, in the order in which they were posted.

    The first item of the thread is included even if it left working memory before the others.
    """
    row = yield from get_board(board)
    rows = yield from load_any(row.no, members)
    rows |= yield from _beginning(row.no, rows)
    return (yield from values(row, [rows[n] for n in sorted(rows) if rows[n].public], SYSTEM))


def _beginning(no: int, rows: Mapping[int, ItemRow]) -> Steps[dict[int, ItemRow]]:
    """Returns the thread's first item by its number if it is archived and may be summarised; else nothing."""
    threads = {row.thread for row in rows.values()}
    if len(threads) != 1 or threads & set(rows):
        return {}
    found = yield from load_any(no, threads)
    return {
        n: row
        for n, row in found.items()
        if row.public and row.zone == Zone.ARCHIVE and not row.deleted and row.type != ItemType.CONSTRAINT
    }


def thread_endings(board: str, members: Iterable[int]) -> Steps[dict[int, Ending]]:
    """Returns the end of the newest closed debate about each of the items, by item number."""
    row = yield from get_board(board)
    found = yield sql("debates_on"), (row.no, numbers(members))
    newest = {debate.root: debate for debate in (yield from debates(row.no, found))}
    closed = {root: debate for root, debate in newest.items() if debate.state is not DebateState.OPEN}
    named = {number for d in closed.values() for number in (*d.critiques, d.gave_way_to) if number}
    rows = yield from load_any(row.no, named)
    return {
        root: Ending(
            outcome=debate.outcome,
            state=debate.state,
            by=debate.closed_by or SYSTEM,
            reason=debate.reason,
            gave_way_to=rows[debate.gave_way_to].id if debate.gave_way_to else None,
            successor_by=rows[debate.gave_way_to].author if debate.gave_way_to else "",
            critiques=tuple(
                rows[number].id
                for number in debate.critiques
                if rows[number].public and rows[number].status != Status.WITHDRAWN
            ),
        )
        for root, debate in closed.items()
    }


def _standing(no: int, thread: int, seen: Mapping[int, int]) -> Steps[dict[int, ItemRow] | None]:
    """Returns the sources by number if a summary may still replace them, or `None` if the thread changed.

    `seen` maps each source to the sequence at which it was read. Every source must be unchanged, in working memory
    and unprotected, and the thread must have no new public member.
    """
    held = yield from guard_index.protected_among(no, seen)
    members = {r[0]: r[1] for r in (yield sql("thread_members"), (no, thread))}
    if not seen or any(members.get(n) != seq or n in held for n, seq in seen.items()):
        return None
    rows = yield from load_any(no, seen)
    for row in rows.values():
        if not row.public or row.type == ItemType.CONSTRAINT or exempt(row.status, row.importance):
            return None
    newest = max(rows)
    later = yield from load_any(no, [number for number in members if number > newest])
    if any(row.public for row in later.values()):
        return None  # private items do not concern readers of the summary
    return rows


def apply_summary(write: Write, board: str, summary: NewSummary) -> Steps[str | None]:
    """Stores the summary and returns its id; `None`, without a change, if the thread changed meanwhile."""
    ledger = yield from open_ledger(write, board, summary.author or SYSTEM)
    rows = yield from _standing(ledger.no, summary.thread, summary.seen)
    if rows is None:
        return None
    return (yield from _apply(ledger, summary, rows))


def _apply(ledger: Ledger, summary: NewSummary, rows: dict[int, ItemRow]) -> Steps[str]:
    """Stores the summary, archives its sources, ends the request, and returns the summary's id."""
    if summary.counted_by != ledger.board.config.tokenizer:
        raise RulesMoved(
            f"The summary was not counted by the tokenizer of '{ledger.board.id}', {ledger.board.config.tokenizer}. "
            "Nothing was changed."
        )
    ledger.board.last_number += 1
    number = ledger.board.last_number
    sources = dict(rows) | (yield from _beginning(ledger.no, rows))
    row = ItemRow(
        board=ledger.no,
        number=number,
        type=str(ItemType.SUMMARY),
        key=None,
        version=1,
        status=str(Status.ACTIVE),
        zone=str(Zone.WORKING),
        importance=summary.importance,
        author=ledger.agent,
        owner="",
        text=summary.text,
        tags="[]",
        metadata=dumps({"sources": [sources[n].id for n in sorted(sources)]}),
        tokens=summary.tokens,
        sha256=summary.sha256,
        thread=summary.thread,
        created_at=ledger.now,
        updated_at=ledger.now,
        ttl=None,
        expires_at=None,
        seq=ledger.next_seq,
        updated_by=ledger.agent,
    )
    told: dict[str, object] = {"summarises": len(sources), "writer": summary.writer}
    if summary.refused:
        told["refused"] = summary.refused
    yield from ledger.add(row, data=told)
    yield from trust.summarised(ledger.no, number, sources)
    cited = [(EdgeKind.DERIVED_FROM, source) for source in sorted(sources)]
    yield from guard_index.connect(ledger.no, number, cited)
    data = {"pass": ledger.first_seq, "step": PassStep.THREADS.number, "why": f"summarised in {row.id}"}
    leaving = [rows[source] for source in sorted(rows)]
    told_of = ((EventType.ITEM_ARCHIVED, item, data, ()) for item in leaving)
    seqs = yield from ledger.emit_all(told_of, agent=SYSTEM)
    yield from ledger.archive_all(list(zip(leaving, seqs, strict=True)))
    yield from retraction.cite(ledger, row, cited, sources, aware=True)
    before = ledger.board.working_tokens - ledger.board.private_tokens
    yield from ledger.emit(
        EventType.PASS_ENDED,
        agent=SYSTEM,
        data={
            "pass": ledger.first_seq,
            "moved": len(rows),
            "before": before,
            "after": before + ledger.tokens,
        },
    )
    yield from _close(ledger, summary.thread, f"summarised in {row.id}")
    yield from ledger.close()
    return row.id


# Requests


def request(
    write: Write, board: str, thread: int, seen: Mapping[int, int], *, wait_seconds: int
) -> Steps[bool]:
    """Asks the board's agents to summarise a finished thread within `wait_seconds`.

    Returns false, without a change, if the thread changed or there is a request for it already.
    """
    ledger = yield from open_ledger(write, board, SYSTEM)
    rows = yield from _standing(ledger.no, thread, seen)
    if rows is None:
        return False
    for row in (yield sql("summary_requests"), (ledger.no,)):
        if row[0] == thread:
            return False
    first = rows[min(rows)]
    name = yield from _name(ledger.no, thread, first)
    seq = yield from ledger.emit(
        EventType.SUMMARY_REQUESTED,
        first,
        data={"thread": name, "items": len(rows), "tokens": sum(row.tokens for row in rows.values())},
    )
    yield (
        sql("summary_request_add"),
        (
            ledger.no,
            thread,
            first.number,
            dumps(dict(seen)),
            seq,
            write.now,
            write.now + wait_seconds * _MICROS,
        ),
    )
    yield from ledger.close()
    return True


def requests(board: str) -> Steps[tuple[list[SummaryRequest], int]]:
    """Returns open requests, oldest first, without those whose thread changed, and the board's sequence."""
    row = yield from get_board(board)
    return (yield from standing(row)), row.seq


def standing(board: BoardRow, most: int = 1_000) -> Steps[list[SummaryRequest]]:
    """Returns at most `most` open requests of a board, oldest first, without those whose thread changed.

    One of whose sources not everybody sees any more is left out, too.
    """
    found: list[SummaryRequest] = []
    for line in (yield sql("summary_requests"), (board.no,)):
        if not line[9] and len(found) < most:
            rows = yield from load_any(board.no, map(int, json.loads(line[2])))
            if all(row.public for row in rows.values()):
                found.append((yield from _value(board, line)))
    return found


def due(now: int) -> Steps[list[DueSummary]]:
    """Returns requests of all boards that nobody met in time or whose thread changed."""
    rows = yield sql("summaries_due"), (now,)
    return [DueSummary(r[0], r[1], tuple(map(int, json.loads(r[2]))), bool(r[3])) for r in rows]


@repeatable(lambda given: kept_taking(given["board"], given["agent"]))
def take(
    write: Write, board: str, agent: str, number: int, *, seconds: float, once: Once | None = None
) -> Steps[tuple[SummaryRequest, list[Item]]]:
    """Takes the request on the thread of an item for `seconds`, and returns it with its sources.

    Raises:
        UnknownReference: there is no such request.
        Conflict: another agent holds it, or the thread changed.
        Refused: the board takes no posts.
    """
    ledger = yield from open_ledger(write, board, agent)
    _check_open(ledger)
    line = yield from _line(ledger, board, number)
    seen = {int(n): seq for n, seq in json.loads(line[2]).items()}
    rows = yield from _standing(ledger.no, line[0], seen)
    if rows is None:
        raise _moved(board)
    if line[6] is not None and line[6] != agent and line[7] > write.now:
        raise Conflict(
            f"{line[6]} has it until {instant(line[7]):%H:%M:%SZ}. Nothing was changed; summarize() lists what else "
            "is asked for.",
            holder=line[6],
            held_until=instant(line[7]).isoformat(),
        )
    first = rows[min(rows)]
    name = yield from _name(ledger.no, line[0], first)
    # An agent that takes it again and again must not keep the thread for ever.
    lasting = int(seconds * _MICROS)
    until = max(write.now, min(write.now + lasting, line[5] + 2 * lasting))
    ledger.note(ChangeKind.SUMMARISE, type=ItemType.SUMMARY, name=name)
    lease = yield from ledger.emit(EventType.SUMMARY_TAKEN, first, data={"thread": name})
    yield sql("summary_request_take"), (ledger.no, line[0], agent, until, lease)
    yield from ledger.was_here()
    yield from ledger.close()
    taken = yield from _value(ledger.board, (*line[:6], agent, until, lease, 0))
    rows |= yield from _beginning(ledger.no, rows)
    sources = yield from values(ledger.board, [rows[n] for n in sorted(rows)], agent)
    return taken, sources


def kept_taking(board: str, agent: str) -> Form[tuple[SummaryRequest, list[Item]]]:
    """Returns the form that stores the request as taken; repeated, its sources are shown as they are now."""
    form = whole(SummaryRequest)

    def keep(taken: tuple[SummaryRequest, list[Item]]) -> Any:
        return form.keep(taken[0])

    def again(kept: Any) -> Steps[tuple[SummaryRequest, list[Item]]]:
        request = yield from form.again(kept)
        row = yield from get_board(board)
        rows = yield from load(row.no, request.seen, agent)  # read rules may keep some since
        rows |= yield from _beginning(row.no, rows)
        return request, (yield from values(row, [rows[n] for n in sorted(rows)], agent))

    return Form(keep, again)


def held(
    write: Write, board: str, agent: str, number: int, lease: int
) -> Steps[tuple[SummaryRequest, list[Item]]]:
    """Returns the request that the agent holds under the token `lease`, and its sources.

    After its time, the agent still holds it until another agent takes it or the server writes the summary.

    Raises:
        UnknownReference: there is no such request.
        Conflict: another agent holds it by now, or the thread changed.
    """
    ledger = yield from open_ledger(write, board, agent)
    line = yield from _line(ledger, board, number)
    yield from _check_lease(line, agent, lease)
    seen = {int(n): seq for n, seq in json.loads(line[2]).items()}
    rows = yield from _standing(ledger.no, line[0], seen)
    if rows is None:
        raise _moved(board)
    rows |= yield from _beginning(ledger.no, rows)
    sources = yield from values(ledger.board, [rows[n] for n in sorted(rows)], agent)
    return (yield from _value(ledger.board, line)), sources


def write_summary(
    write: Write, board: str, summary: NewSummary, lease: int, *, once: Once | None = None
) -> Steps[str]:
    """Stores the summary by the request's holder, in place of its sources, and returns the summary's id.

    Raises:
        UnknownReference: there is no such request.
        Conflict: another agent holds it by now, or the thread changed.
        Refused: the board takes no posts.
    """
    return apply_once(
        board, summary.author, once, write.now, lambda: _write(write, board, summary, lease), whole(str)
    )


def _write(write: Write, board: str, summary: NewSummary, lease: int) -> Steps[str]:
    """Does what `write_summary` says, once for each idempotency key."""
    ledger = yield from open_ledger(write, board, summary.author)
    _check_open(ledger)
    line = yield from _line(ledger, board, summary.thread)
    yield from _check_lease(line, summary.author, lease)
    rows = yield from _standing(ledger.no, summary.thread, summary.seen)
    if rows is None or {int(n): seq for n, seq in json.loads(line[2]).items()} != dict(summary.seen):
        raise _moved(board)
    name = yield from _name(ledger.no, line[0], rows[min(rows)])
    ledger.note(ChangeKind.SUMMARISE, type=ItemType.SUMMARY, name=name)
    yield from ledger.was_here()
    return (yield from _apply(ledger, summary, rows))


def close(write: Write, board: str, thread: int, why: str) -> Steps[bool]:
    """Ends a request that will not be met; returns false if there is none."""
    ledger = yield from open_ledger(write, board, SYSTEM)
    if not (yield from _close(ledger, thread, why)):
        return False
    yield from ledger.close()
    return True


def _close(ledger: Ledger, thread: int, why: str) -> Steps[bool]:
    """Ends the request on a thread, with its event; returns false if there is none."""
    for line in (yield sql("summary_requests"), (ledger.no,)):
        if line[0] == thread:
            rows = yield from load_any(ledger.no, [line[1]])
            name = yield from _name(ledger.no, thread, rows[line[1]])
            yield sql("summary_request_drop"), (ledger.no, thread)
            yield from ledger.emit(
                EventType.SUMMARY_CLOSED, rows[line[1]], agent=SYSTEM, data={"thread": name, "why": why}
            )
            return True
    return False


def _check_open(ledger: Ledger) -> None:
    """Checks that the board takes posts.

    Raises:
        Refused: it does not.
    """
    board = ledger.board
    if board.lifecycle is not Lifecycle.OPEN:
        raise Refused(f"Board '{board.id}' is {board.lifecycle} and takes no posts. Nothing was changed.")


def _line(ledger: Ledger, board: str, number: int) -> Steps[Sequence[Any]]:
    """Returns the row of the request on a thread, named by the thread or any of its sources.

    Raises:
        UnknownReference: there is no such request.
    """
    for line in (yield sql("summary_requests"), (ledger.no,)):
        if line[0] == number or str(number) in json.loads(line[2]):
            return line
    rows = yield from load(ledger.no, [number], ledger.agent)
    name = rows[number].id if number in rows else str(number)
    raise UnknownReference(
        f"No summary of the thread of {name} is asked for on '{board}'. Nothing was changed; summarize() lists "
        "what is."
    )


def _check_lease(line: Sequence[Any], agent: str, lease: int) -> Steps[None]:
    """Checks that the agent holds the request under that token.

    Raises:
        Conflict: it does not.
    """
    if line[6] != agent or line[8] != lease:
        who = f"{line[6]} has it" if line[6] not in (None, agent) else "You do not hold it under that lease"
        raise Conflict(
            f"{who}. Nothing was changed; summarize(thread=…) takes it, if it is free, and says which lease to give.",
            holder=line[6],
        )
    return
    yield  # makes this a generator, so that callers can use `yield from`


def _moved(board: str) -> Conflict:
    """Returns the error for a thread that changed after its summary was requested."""
    return Conflict(
        f"The thread moved since its summary was asked for on '{board}': there is something new in it. Nothing was "
        "changed; read it, and summarize() lists what is asked for now."
    )


def _name(no: int, thread: int, first: ItemRow) -> Steps[str]:
    """Returns the id of a thread, or of its first public source if the thread began with a private item."""
    rows = yield from load(no, [thread], SYSTEM)
    return rows[thread].id if thread in rows else first.id


def _value(board: BoardRow, line: Sequence[Any]) -> Steps[SummaryRequest]:
    """Returns the request as callers get it, from its row."""
    seen = {int(n): seq for n, seq in json.loads(line[2]).items()}
    rows = yield from load_any(board.no, seen)
    return SummaryRequest(
        board=board.id,
        thread=line[0],
        name=(yield from _name(board.no, line[0], rows[line[1]])),
        seen=seen,
        sources=tuple(rows[n].id for n in sorted(rows)),
        tokens=sum(row.tokens for row in rows.values()),
        opened_at=instant(line[4]),
        due_at=instant(line[5]),
        holder=line[6],
        held_until=None if line[7] is None else instant(line[7]),
        lease=line[8],
    )
