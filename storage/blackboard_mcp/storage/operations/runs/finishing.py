"""The answer of a run: posted by its decider, or what it would be now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from blackboard_mcp.protocols.access import EVERY_BOARD
from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.changes import ChangeKind
from blackboard_mcp.protocols.errors import Refused
from blackboard_mcp.protocols.events import EventType
from blackboard_mcp.protocols.grants import Grant
from blackboard_mcp.protocols.items import EdgeKind, ItemType, item_id
from blackboard_mcp.protocols.runs import Final as Finalized
from blackboard_mcp.protocols.runs import Run, RunState
from blackboard_mcp.protocols.tokens import CountedText

from ...operation import Write
from ..ledger.idempotency import Form, repeatable
from ..ledger.ledger import Ledger, get_board, load_any, load_visible
from ..ledger.rows import Steps, numbers, sql
from ..reading.item_states import values
from . import rows
from .rows import RunRow
from .starting import begin, end, post, run_form, stop
from .turning import open_round

_CONTRIBUTIONS: Final = 200


def _form(given: Mapping[str, Any]) -> Form[Finalized]:
    now, name, agent = given["write"].now, given["board"], given["agent"]

    def again(kept: list[Any]) -> Steps[Finalized]:
        number, item, cites, unresolved, dissent = kept
        board = yield from get_board(name)
        run = yield from rows.value(board, (yield from rows.get(board, number)), now)
        found = yield from load_any(board.no, [item])
        posted = (yield from values(board, list(found.values()), agent))[0]
        return Finalized(
            run, posted.text, tuple(cites), "decider", True, posted, tuple(unresolved), tuple(dissent)
        )

    def keep(done: Finalized) -> list[Any] | None:
        if done.item is None:
            return None
        return [
            done.run.number,
            done.item.number,
            list(done.cites),
            list(done.unresolved),
            list(done.dissent),
        ]

    return Form(keep, again)


@repeatable(_form)
def finalize(
    write: Write,
    board: str,
    agent: str,
    run: int,
    text: CountedText,
    cites: Sequence[int],
    *,
    once: Once | None = None,
) -> Steps[Finalized]:
    """Posts the answer and finishes the run; reports `run.finished`.

    Raises:
        UnknownReference: a cited item does not exist.
        Refused: the agent is not the run's decider (or, if it names none, its starter), nor a steward; or the run
            is finished.
    """
    ledger = yield from begin(write, board, agent)
    row = yield from rows.get(ledger.board, run)
    if row.state == RunState.FINISHED:
        raise Refused(
            f"{row.id} is finished; its answer is {item_id(ItemType.ANSWER, row.answer)}. Nothing was changed."
        )
    decider = row.decider or row.started_by
    if agent != decider and not (yield from _may_instead(ledger, row, write.grant)):
        raise Refused(
            f"{decider} answers {row.id}. Nothing was changed; what you think is missing can be posted: "
            f'post(text="@{decider} …").',
            decider=decider,
        )
    cited = yield from load_visible(ledger.no, cites, agent, board)
    ledger.note(ChangeKind.RUN, name=row.id)
    yield from _open_kept(ledger, row)
    unresolved, dissent = yield from _against(ledger.no, row, cites)
    edges = [(EdgeKind.REPLIES_TO, row.problem)]
    edges += [(EdgeKind.DERIVED_FROM, number) for number in dict.fromkeys(cites) if number != row.problem]
    metadata = {"run": row.id}
    row.answer = yield from post(ledger, ItemType.ANSWER, text, metadata, importance=4, edges=tuple(edges))
    for turn in (yield from rows.turns(row)):
        if turn.state == "given":
            mine = turn.agent == agent and turn.kind == "answer"
            turn.state, turn.at = ("ended" if mine else "skipped"), ledger.now
            turn.item = row.answer if mine else 0
            yield from rows.put_turn(turn)
    row.state, row.phase = str(RunState.FINISHED), "over"
    ids = tuple(cited[number].id for number in dict.fromkeys(cites))
    data = {
        "run": row.id,
        "answer": item_id(ItemType.ANSWER, row.answer),
        "cites": list(ids),
        "source": "decider",
        "unresolved": list(unresolved),
    }
    concerns = [row.started_by, row.coordinator, *row.named()]
    yield from ledger.emit(EventType.RUN_FINISHED, data=data, concerns=[name for name in concerns if name])
    made = yield from end(ledger, row)
    found = yield from load_any(ledger.no, [row.answer])
    item = (yield from values(ledger.board, list(found.values()), agent))[0]
    return Finalized(made, text.text, ids, "decider", True, item, unresolved, dissent)


def _open_kept(ledger: Ledger, row: RunRow) -> Steps[None]:
    """Posts what was contributed to a sealed round that ends before all have contributed."""
    turns = yield from rows.turns_of_round(row)
    if any(turn.text for turn in turns):
        yield from open_round(ledger, row, turns)


def open_all_kept(ledger: Ledger) -> Steps[None]:
    """Posts what sealed rounds of the board have kept, before it is closed for good."""
    for number, _ in (yield sql("run_live"), (ledger.no,)):
        yield from _open_kept(ledger, (yield from rows.get(ledger.board, number)))


def _may_instead(ledger: Ledger, row: RunRow, grant: Grant | None) -> Steps[bool]:
    """Tells whether the ledger's agent may answer though it is not the decider.

    A steward by a role on this board may always. Rights on every board, which all agents of an open server have, count
    once the rounds are over and the decider let its turn lapse.
    """
    if not ledger.steward or grant is None:
        return False
    if grant.member is not None or (grant.roles and EVERY_BOARD not in grant.roles):
        return True
    if row.state == RunState.OPEN:
        return False
    return all(turn.state != "given" for turn in (yield from rows.turns(row)))


def preview(now: int, board: str, agent: str, run: int = 0) -> Steps[Finalized]:
    """Returns the answer of a finished run, or what it would be now and from where.

    Raises:
        UnknownReference: there is no such run.
    """
    at = yield from get_board(board)
    row = yield from rows.get(at, run)
    source: Any = "decider"
    number = row.answer
    if not number:
        since = yield sql("answer_last"), (at.no, (yield from _begun(at.no, row)))
        contributed = yield sql("contribution_last"), (at.no, row.number)
        number, source = (
            (since[0][0], "answer")
            if since
            else (contributed[0][0], "contribution")
            if contributed
            else (0, "empty")
        )
    found = yield from load_any(at.no, [number] if number else [])
    made: Run = yield from rows.value(at, row, now)
    if not found:
        return Finalized(made, "", (), "empty", False)
    item = (yield from values(at, list(found.values()), agent))[0]
    cited = [edge.target for edge in item.edges if edge.kind is EdgeKind.DERIVED_FROM]
    unresolved, dissent = yield from _against(at.no, row, [*cited, item.number])
    ids = tuple(id_ for kind, id_ in item.cites if kind is EdgeKind.DERIVED_FROM)
    return Finalized(made, item.text, ids, source, bool(row.answer), item, unresolved, dissent)


def _begun(no: int, row: RunRow) -> Steps[int]:
    """Returns the sequence at which a run started. An earlier run may have had the same problem, and an answer."""
    return int((yield sql("run_begun"), (no, row.problem, row.id))[0][0])


def _against(no: int, row: RunRow, cites: Sequence[int]) -> Steps[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Returns ids of open critiques of what is cited and of contributions, and ids of what stands against them."""
    members = [n for (n,) in (yield sql("contributions_of"), (no, row.number, _CONTRIBUTIONS))]
    about = numbers([*cites, *members])
    found = yield sql("against"), (no, about)
    unresolved = [
        item_id(type_, source) for source, type_, kind, open_ in found if kind == "critiques" and open_
    ]
    dissent = [
        item_id(type_, source) for source, type_, kind, open_ in found if kind == "refutes" or not open_
    ]
    return tuple(dict.fromkeys(unresolved)), tuple(dict.fromkeys(dissent))


@repeatable(run_form)
def stop_run(
    write: Write, board: str, agent: str, run: int, reason: str, *, stamp: int = 0, once: Once | None = None
) -> Steps[Run]:
    """Stops a run that is not over, with a reason; with `stamp` only if it has not changed since.

    Raises:
        Refused: the agent neither started it nor is a steward.
    """
    ledger: Ledger = yield from begin(write, board, agent)
    row = yield from rows.get(ledger.board, run)
    if row.state in (RunState.STOPPED, RunState.FINISHED) or (stamp and row.stamp != stamp):
        return (yield from rows.value(ledger.board, row, write.now))
    if agent != row.started_by and not ledger.steward:
        raise Refused(f"{row.started_by} started {row.id}: they or a steward stop it. Nothing was changed.")
    ledger.note(ChangeKind.RUN, name=row.id)
    yield from _open_kept(ledger, row)
    yield from stop(ledger, row, reason, agent=agent)
    return (yield from end(ledger, row))
