"""What the holder of a task does with it, and what its reviewer does: done, failed, extended, released, confirmed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from blackboard_mcp.protocols.agenda import (
    CONFIRMED,
    MAX_NOTE,
    MAX_WAITING_SECONDS,
    REJECTED,
    Settle,
    Settled,
    TaskState,
    task_id,
)
from blackboard_mcp.protocols.answers import NoticeFor, Once
from blackboard_mcp.protocols.changes import ChangeKind
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, Refused, RulesUnseen
from blackboard_mcp.protocols.events import EventType
from blackboard_mcp.protocols.items import Draft, EdgeKind, Item, ItemType, Visibility, content_hash
from blackboard_mcp.protocols.runs import Usage
from blackboard_mcp.protocols.tokens import CountedText

from ...operation import Write
from ..debates import decisions
from ..items import posting
from ..ledger.idempotency import Form, repeatable
from ..ledger.ledger import Ledger, get_board, load_any, load_visible
from ..ledger.principals import owners_of
from ..ledger.rows import Steps, dumps, instant, sql
from ..reading.item_states import values
from ..reading.rules import notice_on, rules_on
from . import budgets, evidence, lapses, reservations, rows
from .lapses import begin
from .rows import MICROS, TaskRow
from .taking import check_seconds

_FORMER: Final = 100
"""Most ended attempts at a task that are searched for one of an agent."""
_NOTE: Final = 300
"""Characters of a note that an event repeats."""
_REJECTED: Final = "rejected"
"""The word for the end of an attempt whose result a reviewer rejected."""


def _settled_again(kept: list[Any]) -> Steps[Settled]:
    """Returns what a repeated call did, with task and item as they are now."""
    now, board, agent, number, item, lease, until, seq, freed, late, *more = kept
    row = yield from get_board(board)
    task = None
    if number:
        found = (yield from rows.find_tasks(row.no, [number]))[number]
        task = (yield from rows.values(row, [found], now))[0]
    posted = None
    if item:
        items = yield from load_any(row.no, [item])
        posted = (yield from values(row, list(items.values()), agent))[0]
    end = None if until is None else instant(until)
    meant = {int(number): worker for number, worker in (more[0] if more else {}).items()}
    return Settled(task, posted, lease, end, seq, {number: meant.get(number, "") for number in freed}, late)


def _form(given: dict[str, Any]) -> Form[Settled]:
    now, board, agent = given["write"].now, given["board"], given["agent"]

    def keep(done: Settled) -> list[Any]:
        number = done.task.number if done.task else 0
        item = done.item.number if done.item else 0
        until = None if done.until is None else round(done.until.timestamp() * MICROS)
        task_and_item = [number, item, done.lease, until, done.seq]
        meant = {number: worker for number, worker in done.freed.items() if worker}
        return [now, board, agent, *task_and_item, list(done.freed), done.late, meant]

    return Form(keep, _settled_again)


@repeatable(_form)
def settle(
    write: Write,
    board: str,
    agent: str,
    act: Settle,
    *,
    heeding: bool = False,
    notice: NoticeFor | None = None,
    once: Once | None = None,
) -> Steps[Settled]:
    """Does what `act` says. A `done` or `fail` after the lease has ended counts if nobody took the task since.

    `notice` is what to tell the agent beside.

    Raises:
        RulesUnseen: with `heeding`, rules in the agent's scope changed since it was shown them.
        Conflict: the lease is not the task's newest, or it is another agent's; names holder, lease and end. Or what
            `done` or a confirmation rests on is stale.
        Refused: the task's state does not allow it, or the reviewer may not confirm it.
    """
    if len(act.text.text) > MAX_NOTE and act.op not in ("done", "verify"):
        raise InvalidInput(
            f"text has {len(act.text.text):,} characters, and {MAX_NOTE:,} is the limit. Nothing was changed; post "
            "the rest as an item and name its id."
        )
    budgets.check_usage(act.usage)
    ledger = yield from begin(write, board, agent)
    rules = (yield from rules_on(ledger.board, agent, write.now)) if heeding else None
    if rules is not None and rules.unseen:
        unseen = RulesUnseen(
            "Rules changed since you were last shown them. Nothing was changed; look at them first."
        )
        unseen.book = rules
        raise unseen
    done = yield from _does(ledger, act)
    if notice is None:
        return done
    return replace(done, notice=(yield from notice_on(ledger.board, agent, notice, write.now, rules)))


def _does(ledger: Ledger, act: Settle) -> Steps[Settled]:
    if act.op == "verify":
        return (yield from _verify(ledger, act))
    row = yield from _of(ledger, act)
    if row is None:
        return (yield from _settle_reservation(ledger, act))
    late = yield from _check_lease(ledger, row, act)
    ledger.note(ChangeKind.CLAIM, name=row.id)
    match act.op:
        case "done":
            return (yield from _done(ledger, row, act, late))
        case "fail":
            return (yield from _fail(ledger, row, act, late))
        case "release":
            yield from lapses.release(ledger, row, act.text.text, act.usage)
            return (yield from _answer(ledger, row))
        case _:
            return (yield from _extend(ledger, row, act))


def _of(ledger: Ledger, act: Settle) -> Steps[TaskRow | None]:
    """Returns the task that an act is about; `None` if its lease is of a reservation alone.

    Raises:
        Conflict: without a number, the agent holds no task, or several.
    """
    if act.number:
        return (yield from rows.get_task(ledger.board, act.number))
    if act.lease:
        found = yield sql("task_of_lease"), (ledger.no, ledger.agent, act.lease)
        if found:
            return (yield from rows.get_task(ledger.board, found[0][0]))
        if (yield sql("reservations_of_lease"), (ledger.no, act.lease)):
            return None
    held = [n for (n,) in (yield sql("tasks_of_holder"), (ledger.no, ledger.agent, 5))]
    if len(held) == 1 and not act.lease:
        return (yield from rows.get_task(ledger.board, held[0]))
    if not held:
        raise Conflict("You hold no task. Nothing was changed; claim() takes the best that is ready.")
    named = ", ".join(map(task_id, held))
    raise Conflict(
        f"You hold {named}; say which. Nothing was changed; give its id.", held=[task_id(n) for n in held]
    )


def _check_lease(ledger: Ledger, row: TaskRow, act: Settle) -> Steps[bool]:
    """Checks that the agent holds the task under its newest lease; tells whether that lease ended unnoticed.

    Raises:
        Conflict: it does not, and nobody may act late for it.
        Refused: the task's state does not allow it.
    """
    if row.state in (TaskState.COMPLETED, TaskState.CANCELLED, TaskState.REVIEW, TaskState.FAULTED):
        raise Refused(
            f"{row.id} is {row.state}{f' ({row.why[:_NOTE]})' if row.why else ''}. Nothing was changed; claim() takes "
            "the best that is ready.",
            state=row.state,
        )
    if row.held and row.holder == ledger.agent and act.lease in (0, row.lease):
        return False
    may_be_late = act.op in ("done", "fail") and act.lease in (0, row.lease)
    if may_be_late and (yield from lapses.lapsed_holder(ledger.no, row)) == ledger.agent:
        row.holder = ledger.agent
        return True
    facts: dict[str, Any] = {"holder": row.holder or None, "lease": row.lease}
    if not row.held:
        raise Conflict(
            f'{row.id} is not yours: nobody holds it. Nothing was changed; claim(id="{row.id}") takes it.',
            **facts,
        )
    until = instant((yield from rows.ends(ledger.no, [row]))[row.number])
    facts["until"] = until.isoformat()
    if row.holder == ledger.agent:
        raise Conflict(
            f"Lease {act.lease} of {row.id} has ended: yours is {row.lease} now, until {until:%H:%M:%SZ}. Nothing was "
            "changed; what you did under the old one may be old.",
            **facts,
        )
    if ledger.agent not in {
        one.agent for one in (yield from lapses.attempts(ledger.no, row.number, _FORMER))
    }:
        raise Conflict(
            f"{row.id} is not yours: {row.holder} holds it under lease {row.lease} until {until:%H:%M:%SZ}. Nothing "
            "was changed; claim() takes the best that is ready.",
            **facts,
        )
    raise Conflict(
        f"{row.id} is not yours any more: {row.holder} holds it under lease {row.lease} until {until:%H:%M:%SZ}. "
        f'Nothing was changed; tell {row.holder} what you have: post(type="FACT", text="@{row.holder} …").',
        **facts,
    )


def _answer(
    ledger: Ledger,
    row: TaskRow,
    item: int = 0,
    *,
    freed: Mapping[int, str] = MappingProxyType({}),
    late: bool = False,
) -> Steps[Settled]:
    """Closes the ledger, and returns the task as it is now."""
    yield from replace_rejected(ledger, row)
    yield from ledger.close()
    task = (yield from rows.values(ledger.board, [row], ledger.now))[0]
    posted: Item | None = None
    if item:
        found = yield from load_any(ledger.no, [item])
        posted = (yield from values(ledger.board, [found[item]], ledger.agent))[0]
    return Settled(task, posted, row.lease, task.until, ledger.board.seq, freed, late)


def _post(
    ledger: Ledger,
    kind: ItemType,
    text: CountedText,
    row: TaskRow,
    edges: Sequence[tuple[EdgeKind, int]],
    more: Mapping[str, Any] = MappingProxyType({}),
) -> Steps[int]:
    """Posts the result of a task or a critique of one, and returns its number; `more` is metadata."""
    draft = Draft(
        text=text.text,
        type=kind,
        edges=tuple(edges),
        visibility=Visibility.BOARD,
        metadata={"task": row.id, **more},
        tokens=text.tokens,
        sha256=content_hash(text.text),
        counted_by=text.counted_by,
        checked=ledger.board.config.validation,  # rules for what agents post do not apply to reports on tasks
    )
    return (yield from posting.apply(ledger, [draft])).placed[0]


def replace_rejected(ledger: Ledger, row: TaskRow) -> Steps[None]:
    """Ends debates on rejected results of a task that is completed with another result, in favour of that one."""
    if row.state != TaskState.COMPLETED or row.attempts < 2 or not row.result:
        return
    open_ones = [n for (n,) in (yield sql("rejected_in_debate"), (ledger.no, row.number, row.result))]
    if open_ones:
        instead = (yield from load_any(ledger.no, [row.result]))[row.result]
        yield from decisions.replace(ledger, open_ones, instead, f"{row.id} stands in {instead.id}")


def post_result(ledger: Ledger, text: CountedText, row: TaskRow, source: Mapping[str, Any]) -> Steps[int]:
    """Posts the result that a board below gave, and returns its number; `source` says where it is from."""
    return (yield from _post(ledger, ItemType.RESULT, text, row, (), {"from": dict(source)}))


def _done(ledger: Ledger, row: TaskRow, act: Settle, late: bool) -> Steps[Settled]:
    """Completes a task, or sends it to review, with its result."""
    closed = yield from rows.closed_stages(ledger.no)
    if row.stage in closed:
        raise Refused(
            f"{row.id} belongs to a stage that is {closed[row.stage]}: it cannot be done now. Nothing was changed; "
            f'keep what you have: claim(id="{row.id}", op="release", text="…").',
            stage=row.stage,
        )
    if row.verify and not act.text.text:
        raise InvalidInput(
            f'{row.id} is confirmed by another agent, who needs your result. Nothing was changed; claim(id="{row.id}", '
            'op="done", text="…").'
        )
    cited = yield from load_visible(ledger.no, act.cites, ledger.agent, ledger.board.id)
    yield from evidence.check_fresh(ledger.no, cited.values())
    if act.cites and not act.text.text:
        raise InvalidInput("cites goes with text: the result that cites them. Nothing was changed.")
    if act.text.text:
        edges = [(EdgeKind.DERIVED_FROM, number) for number in act.cites]
        row.result = yield from _post(ledger, ItemType.RESULT, act.text, row, edges)
    yield from lapses.drop_reservations(ledger, row.lease)
    data: dict[str, Any] = {"task": row.id, "title": row.title, "lease": row.lease}
    if row.result:
        data["result"] = (yield from lapses.cited(ledger.no, [row.result]))[0]
    if late:
        data["late"] = True
    if act.usage is not None:
        data |= {"tokens": act.usage.tokens, "cost": act.usage.cost}
    freed: dict[int, str] = {}
    concerns = [row.created_by]
    if row.verify:
        data["review"] = row.verify
        yield from rows.move(ledger, row, TaskState.REVIEW, usage=act.usage)
    else:
        yield from rows.move(ledger, row, TaskState.COMPLETED, usage=act.usage)
        freed = yield from rows.released_by(ledger, row.number)
        concerns += rows.workers(freed)
        if freed:
            data["freed"] = [task_id(number) for number in freed]
    yield from ledger.emit(EventType.CLAIM_DONE, data=data, concerns=concerns)
    return (yield from _answer(ledger, row, row.result if act.text.text else 0, freed=freed, late=late))


def _fail(ledger: Ledger, row: TaskRow, act: Settle, late: bool) -> Steps[Settled]:
    """Ends an attempt; the task waits for the next, or is FAULTED."""
    note = act.text.text
    if not note.strip():
        raise InvalidInput(
            f'Say why it failed: the next who tries reads it. Nothing was changed; claim(id="{row.id}", op="fail", '
            'text="…").'
        )
    yield from _end_failed(ledger, row, "failed", note, act.usage)
    data = {
        "task": row.id,
        "title": row.title,
        "lease": row.lease,
        "note": note[:_NOTE],
        "state": row.state,
        "left": max(0, row.retries + 1 - row.failures),
    }
    if act.usage is not None:
        data |= {"tokens": act.usage.tokens, "cost": act.usage.cost}
    yield from ledger.emit(
        EventType.CLAIM_FAILED, data=data, concerns=[name for name in (row.created_by, row.worker) if name]
    )
    return (yield from _answer(ledger, row, late=late))


def _end_failed(ledger: Ledger, row: TaskRow, how: str, note: str, usage: Usage | None = None) -> Steps[None]:
    """Counts a failure: the task is PENDING again, or FAULTED if no attempts are left."""
    rejected = row.result if how == _REJECTED else 0
    yield from rows.end_attempt(ledger, row, how, note, result=rejected)
    yield from lapses.drop_reservations(ledger, row.lease)
    row.failures += 1
    state = TaskState.FAULTED if row.failures > row.retries else TaskState.PENDING
    yield from rows.move(ledger, row, state, why=note, verdict=how == _REJECTED, usage=usage)


def _extend(ledger: Ledger, row: TaskRow, act: Settle) -> Steps[Settled]:
    """Begins a lease anew, or stops its clock while its holder waits for something."""
    check_seconds(act.seconds)
    row.length = reservations.seconds(act.seconds)
    data: dict[str, Any] = {"task": row.id, "lease": row.lease}
    if act.text.text or act.cites:
        yield from load_visible(ledger.no, act.cites, ledger.agent, ledger.board.id)
        cited = yield from lapses.cited(ledger.no, act.cites)
        yield from rows.move(ledger, row, TaskState.WAITING)
        row.until = ledger.now + reservations.seconds(MAX_WAITING_SECONDS)
        row.waits_for = dumps(sorted(set(act.cites)))
        row.waits_on = act.text.text or ", ".join(cited)
        data |= {"why": row.waits_on[:_NOTE], "cites": cited}
        event = EventType.CLAIM_WAITING
    else:
        yield from rows.move(ledger, row, TaskState.RUNNING)
        row.until, row.waits_on, row.waits_for = ledger.now + row.length, "", "[]"
        data["seconds"] = act.seconds
        event = EventType.CLAIM_EXTENDED
    yield from rows.put(row)
    yield sql("reservations_renew"), (ledger.no, row.lease, row.until, row.length)
    yield from reservations.reserve(
        ledger, act.paths, lease=row.lease, task=row.number, length=row.length, until=row.until
    )
    if act.paths:
        data["paths"] = list(act.paths)
    yield from ledger.emit(event, data=data, concerns=[row.created_by])
    return (yield from _answer(ledger, row))


def _verify(ledger: Ledger, act: Settle) -> Steps[Settled]:
    """Confirms a task in review, or rejects its result with a critique.

    Raises:
        Refused: it is not in review, or its reviewer did it, or acts for the owner who did.
        InvalidInput: there is no evidence.
    """
    row = yield from rows.get_task(ledger.board, act.number)
    if row.state != TaskState.REVIEW:
        sure = f", {row.why.partition(': ')[0]}," if row.why.startswith(CONFIRMED) else ""
        raise Refused(
            f"{row.id} is {row.state}{sure} and nothing waits to be confirmed. Nothing was changed.",
            state=row.state,
        )
    yield from _check_reviewer(ledger, row)
    if not act.text.text.strip() and (not act.cites or not act.ok):
        raise InvalidInput(
            f"{'Say what you checked, or cite it' if act.ok else 'Say what is wrong'}. Nothing was changed; "
            f'claim(id="{row.id}", op="verify", ok={str(act.ok).lower()}, text="…").'
        )
    found = yield from load_visible(ledger.no, act.cites, ledger.agent, ledger.board.id)
    if act.ok and act.cites:
        yield from evidence.check_fresh(ledger.no, found.values())
    elif act.ok and row.result:
        yield from evidence.check_cited(ledger.no, row.result, ledger.agent)
    ledger.note(ChangeKind.CLAIM, name=row.id)
    doer, result = row.holder, row.result
    cited = yield from lapses.cited(ledger.no, act.cites)
    if act.ok:
        sure = f"{CONFIRMED}{ledger.agent}: {act.text.text}"[:_NOTE]
        yield from rows.move(ledger, row, TaskState.COMPLETED, why=sure, verdict=True)
        freed = yield from rows.released_by(ledger, row.number)
        data = {"task": row.id, "title": row.title, "by": ledger.agent, "cites": cited}
        data["freed"] = [task_id(number) for number in freed]
        concerns = [doer, row.created_by, *rows.workers(freed)]
        yield from ledger.emit(EventType.CLAIM_VERIFIED, data=data, concerns=concerns)
        return (yield from _answer(ledger, row, freed=freed))
    item = 0
    if result:
        edges = [(EdgeKind.CRITIQUES, result), *((EdgeKind.DERIVED_FROM, number) for number in act.cites)]
        item = yield from _post(ledger, ItemType.CRITIQUE, act.text, row, edges)
    note = f"{REJECTED}{ledger.agent}: {act.text.text}"[:MAX_NOTE]
    yield from _end_failed(ledger, row, _REJECTED, note)
    data = {"task": row.id, "title": row.title, "state": row.state, "holder": doer}
    if item:
        data["critique"] = (yield from lapses.cited(ledger.no, [item]))[0]
    yield from ledger.emit(EventType.CLAIM_REJECTED, data=data, concerns=[doer, row.created_by])
    return (yield from _answer(ledger, row, item))


def _check_reviewer(ledger: Ledger, row: TaskRow) -> Steps[None]:
    if row.holder == ledger.agent:
        raise Refused(
            f"You did {row.id}: another agent confirms it. Nothing was changed; go on with claim().",
            holder=row.holder,
        )
    if row.verify == "owner":
        owners = yield from owners_of([row.holder, ledger.agent])
        if owners.get(row.holder, row.holder) == owners.get(ledger.agent, ledger.agent):
            raise Refused(
                f"{row.id} is confirmed by an agent of another owner than {row.holder}'s, who is yours as well. "
                "Nothing was changed.",
                holder=row.holder,
            )


def _settle_reservation(ledger: Ledger, act: Settle) -> Steps[Settled]:
    """Extends or ends a reservation alone."""
    holder, task, _, until = (yield sql("reservations_of_lease"), (ledger.no, act.lease))[0]
    if holder != ledger.agent or task:
        what = f"for {task_id(task)}" if task else "as a reservation"
        raise Conflict(
            f"{holder} has lease {act.lease} {what} until {instant(until):%H:%M:%SZ}. Nothing was changed.",
            holder=holder,
            lease=act.lease,
            until=instant(until).isoformat(),
        )
    ledger.note(ChangeKind.CLAIM)
    data: dict[str, Any] = {"lease": act.lease}
    if act.op == "extend":
        check_seconds(act.seconds)
        length = reservations.seconds(act.seconds)
        end = ledger.now + length
        yield sql("reservations_renew"), (ledger.no, act.lease, end, length)
        yield from reservations.reserve(ledger, act.paths, lease=act.lease, task=0, length=length, until=end)
        yield from ledger.emit(EventType.CLAIM_EXTENDED, data={**data, "seconds": act.seconds})
        yield from ledger.close()
        return Settled(None, None, act.lease, instant(end), ledger.board.seq)
    if act.op == "fail":
        raise InvalidInput(
            f'Lease {act.lease} is a reservation, not a task. Nothing was changed; op="release" gives it back.'
        )
    yield from lapses.drop_reservations(ledger, act.lease)
    yield from ledger.emit(
        EventType.CLAIM_RELEASED, data={**data, "holder": ledger.agent, "note": act.text.text[:_NOTE]}
    )
    yield from ledger.close()
    return Settled(None, None, act.lease, None, ledger.board.seq)
