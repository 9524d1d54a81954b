"""Pressure of a board: when it begins, changes and ends, and which posts it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from blackboard_mcp.protocols.errors import InvalidInput, Refused, UnderPressure
from blackboard_mcp.protocols.events import SYSTEM, EventType
from blackboard_mcp.protocols.items import IMPORTANCE, Draft, EdgeKind, ItemType, Status, Zone, item_id
from blackboard_mcp.protocols.pressure import ALWAYS, KEY, Cause, Describe, Pressure, Unblocker, Wording
from blackboard_mcp.protocols.pruning import EXEMPT
from blackboard_mcp.protocols.rules import RESULT_KEY

from ...operation import Write
from ..ledger.ledger import Ledger, load_any, open_ledger
from ..ledger.rows import BoardRow, ItemRow, Steps, dumps, numbers, sql

_CAUSES = {
    "debate": "debate",
    "owed": "watched items",
    "CONSTRAINT": "constraints",
    "HOT_ISSUE": "hot issues",
    "important": f"importance {EXEMPT}",
}
_UNBLOCKERS = 50
_NAMED = 8
_MATERIAL = 0.1
"""The part of the target by which protected tokens must change for a new version of the issue."""


def judge(write: Write, board: str, describe: Describe) -> Steps[str | None]:
    """Begins, updates or ends pressure, as the board requires; returns "began", "changed", "ended" or `None`.

    `describe` puts the pressure into words for the hot issue.
    """
    ledger = yield from open_ledger(write, board, SYSTEM)
    row = ledger.board
    if not row.pressure and row.working_tokens <= row.config.target_tokens:
        return None
    issue = yield from _issue(ledger)
    found = yield from _measure(row, 0 if issue is None else issue.number)
    if row.pressure and issue is not None:
        if found.held_tokens <= row.config.high_tokens:
            yield from _end(ledger, issue, found)
            return "ended"
        if not _material(issue, found):
            return None
        yield from _write(ledger, issue, found, describe(found))
        yield from ledger.close()
        return "changed"
    if found.held_tokens <= row.config.target_tokens:
        return None
    wording = describe(found)
    if issue is None:
        issue = yield from _create(ledger, found, wording)
    else:
        yield from _write(ledger, issue, found, wording)
    yield sql("board_pressure"), (ledger.no, issue.number)
    row.pressure = issue.number
    yield from ledger.emit(
        EventType.PRESSURE,
        issue,
        data={"state": "began", **_figures(found)},
        concerns=_agents(found),
        told=True,
    )
    yield from ledger.close()
    return "began"


def _issue(ledger: Ledger) -> Steps[ItemRow | None]:
    """Returns the server's own hot issue on pressure, present or former; `None` if another agent has its key."""
    number = ledger.board.pressure
    if not number:
        rows = yield sql("item_of_key"), (ledger.no, "", KEY)
        number = rows[0][0] if rows else 0
    found = yield from load_any(ledger.no, [number] if number else [])
    row = found.get(number)
    return row if row is not None and row.author == SYSTEM and row.type == ItemType.HOT_ISSUE else None


def _measure(board: BoardRow, issue: int) -> Steps[Pressure]:
    """Returns what is protected on the board and who can change that, without the issue itself."""
    causes = [
        Cause(_CAUSES[why], None if type_ is None else item_id(type_, root), items, tokens)
        for why, root, type_, items, tokens in (yield sql("pressure_causes"), (board.no, issue))
    ]
    owing = yield sql("pressure_owing"), (board.no, issue, SYSTEM, _UNBLOCKERS)
    unblockers = [Unblocker(agent, duty, item_id(type_, item)) for agent, duty, item, type_, _since in owing]
    law = yield sql("pressure_law"), (board.no, issue, SYSTEM, _UNBLOCKERS)
    unblockers += [Unblocker(agent, "retire", item_id(type_, item)) for agent, item, type_ in law]
    important = yield sql("pressure_important"), (board.no, _UNBLOCKERS)
    unblockers += [Unblocker(agent, "lower", item_id(type_, item)) for agent, item, type_ in important]
    return Pressure(
        target_tokens=board.config.target_tokens,
        ceiling=board.config.ceiling,
        held_items=sum(cause.items for cause in causes),
        held_tokens=sum(cause.tokens for cause in causes),
        causes=tuple(causes),
        unblockers=tuple(unblockers),
        tokenizer=board.config.tokenizer,
    )


def _figures(found: Pressure) -> dict[str, Any]:
    """Returns the facts of pressure that events and the issue's metadata hold."""
    return {
        "held_tokens": found.held_tokens,
        "held_items": found.held_items,
        "target_tokens": found.target_tokens,
        "unblock": _agents(found)[:_NAMED],
    }


def _agents(found: Pressure) -> list[str]:
    """Returns who can end pressure: first agents who owe something, then those who may retire their items."""
    return list(dict.fromkeys(u.agent for u in found.unblockers))


def _metadata(found: Pressure) -> str:
    """Returns the JSON of the issue's metadata."""
    debates = [cause.root for cause in found.causes if cause.root is not None]
    return dumps({**_figures(found), "debates": debates[:_NAMED]})


def _material(issue: ItemRow, found: Pressure) -> bool:
    """Tells whether pressure changed enough since the issue's last version to write a new one."""
    told, now = json.loads(issue.metadata), json.loads(_metadata(found))
    if issue.status not in (Status.ACTIVE, Status.DEBATED) or issue.zone != Zone.WORKING:
        return True
    if any(set(told.get(name, ())) != set(now[name]) for name in ("unblock", "debates")):
        return True
    moved = abs(int(told.get("held_tokens", 0)) - found.held_tokens)
    return moved > _MATERIAL * found.target_tokens or told.get("target_tokens") != found.target_tokens


def _create(ledger: Ledger, found: Pressure, wording: Wording) -> Steps[ItemRow]:
    """Posts the hot issue that reports pressure."""
    taken = yield sql("item_of_key"), (ledger.no, "", KEY)
    ledger.board.last_number += 1
    number = ledger.board.last_number
    row = ItemRow(
        board=ledger.no,
        number=number,
        type=str(ItemType.HOT_ISSUE),
        key=None if taken else KEY,
        version=1,
        status=str(Status.ACTIVE),
        zone=str(Zone.WORKING),
        importance=IMPORTANCE[ItemType.HOT_ISSUE],
        author=SYSTEM,
        owner="",
        text=wording.text,
        tags='["pressure"]',
        metadata=_metadata(found),
        tokens=wording.tokens,
        sha256=wording.sha256,
        thread=number,
        created_at=ledger.now,
        updated_at=ledger.now,
        ttl=None,
        expires_at=None,
        seq=ledger.next_seq,
        updated_by=SYSTEM,
    )
    yield from ledger.add(row, data={}, concerns=_agents(found))
    return row


def _write(ledger: Ledger, issue: ItemRow, found: Pressure, wording: Wording) -> Steps[None]:
    """Writes a new version of the issue, and reopens or restores it if necessary."""
    if issue.zone == Zone.ARCHIVE:
        yield from ledger.restore(issue, why="pressure")
    yield sql("version_keep"), (ledger.no, issue.number)
    ledger.tokens += wording.tokens - issue.tokens
    issue.version += 1
    issue.text, issue.tokens, issue.sha256 = wording.text, wording.tokens, wording.sha256
    issue.metadata = _metadata(found)
    if issue.status != Status.DEBATED:
        issue.status = str(Status.ACTIVE)
    issue.seq = yield from ledger.emit(EventType.ITEM_VERSIONED, issue, concerns=_agents(found))
    issue.updated_at, issue.updated_by = ledger.now, SYSTEM
    issue.written_at, issue.written_by = ledger.now, SYSTEM
    yield (
        sql("item_change"),
        (
            ledger.no,
            issue.number,
            issue.version,
            issue.status,
            issue.zone,
            issue.importance,
            issue.text,
            issue.tags,
            issue.metadata,
            issue.tokens,
            issue.sha256,
            issue.updated_at,
            issue.ttl,
            issue.expires_at,
            issue.seq,
            SYSTEM,
        ),
    )


def _end(ledger: Ledger, issue: ItemRow, found: Pressure) -> Steps[None]:
    """Ends the pressure, with its event."""
    yield sql("board_pressure"), (ledger.no, 0)
    ledger.board.pressure = 0
    yield from resolve_if_over(ledger, issue)
    yield from ledger.emit(EventType.PRESSURE, issue, data={"state": "ended", **_figures(found)})
    yield from ledger.close()


def resolve_if_over(ledger: Ledger, row: ItemRow) -> Steps[None]:
    """Resolves a hot issue of the server's at the end of a debate about it, if what it is about is over: the pressure,
    or the failure of a check.
    """
    if row.author != SYSTEM or row.type != ItemType.HOT_ISSUE or row.status != Status.ACTIVE:
        return
    if row.number == ledger.board.pressure:
        return
    if row.key is not None and RESULT_KEY.fullmatch(row.key):
        passed = json.loads(row.metadata).get("result", {}).get("ok") is True
        if not passed and row.number not in (yield from _unnamed(ledger)):
            return
    yield from _resolve(ledger, row)


def resolve_unnamed(ledger: Ledger) -> Steps[None]:
    """Resolves hot issues of the checks `absent:` and `exists:` that no rule in force names any more.

    One under debate waits for the debate's end.
    """
    if unnamed := (yield from _unnamed(ledger)):
        for row in (yield from load_any(ledger.no, unnamed)).values():
            yield from _resolve(ledger, row)


def _unnamed(ledger: Ledger) -> Steps[list[int]]:
    return [number for (number,) in (yield sql("checks_unnamed"), (ledger.no, SYSTEM))]


def _resolve(ledger: Ledger, row: ItemRow) -> Steps[None]:
    seq = yield from ledger.emit(
        EventType.ITEM_CHANGED, row, agent=SYSTEM, data={"status": [row.status, str(Status.RESOLVED)]}
    )
    row.status, row.seq = str(Status.RESOLVED), seq
    yield sql("item_status"), (ledger.no, row.number, row.status, seq, ledger.now, SYSTEM)


def admit(
    ledger: Ledger, kind: ItemType, importance: int, edges: Iterable[tuple[EdgeKind, int]]
) -> Steps[None]:
    """Refuses a new item while the board is under pressure, if its importance is low and it belongs to no argument.

    Raises:
        UnderPressure: it is refused; also for an importance that would protect it.
    """
    board = ledger.board
    if not board.pressure:
        return
    yield from weigh(ledger, kind, importance)
    if importance > board.config.ceiling or kind in ALWAYS:
        return
    targets = {target for _, target in edges}
    if targets and (yield sql("held"), (ledger.no, numbers(targets))):
        return
    found = yield from load_any(ledger.no, [board.pressure])
    issue = found[board.pressure]
    told = json.loads(issue.metadata)
    unblock: Sequence[str] = told.get("unblock", ())
    debates: Sequence[str] = told.get("debates", ())
    who = f"Can unblock: {', '.join(unblock)}. " if unblock else ""
    look = f'debate(op="status", id="{debates[0]}") or ' if debates else ""
    raise UnderPressure(
        f"Board '{board.id}' is under pressure until at most {board.config.high_tokens:,} tokens are held that may "
        f"not leave ({told.get('held_tokens', 0):,} are): posts of importance up to {board.config.ceiling} are refused "
        f"unless they answer, criticise, decide or cite an item of an open debate. Nothing was changed. {who}"
        f'{look}read(ids=["{issue.id}"]) says how.',
        issue=issue.id,
        held_tokens=told.get("held_tokens", 0),
        target_tokens=board.config.target_tokens,
        ceiling=board.config.ceiling,
        unblock=list(unblock),
    )


def weigh(ledger: Ledger, kind: ItemType, importance: int) -> Steps[None]:
    """Refuses an importance that would protect an item while the board is under pressure.

    Raises:
        UnderPressure: it is refused.
    """
    board = ledger.board
    if not board.pressure or importance < EXEMPT or kind in (ItemType.CONSTRAINT, ItemType.HOT_ISSUE):
        return
    issue = (yield from load_any(ledger.no, [board.pressure]))[board.pressure]
    raise UnderPressure(
        f"Board '{board.id}' is under pressure: more is held than its budget allows, and importance {EXEMPT} would "
        f"hold this as well. Nothing was changed; use importance {EXEMPT - 1}. "
        f'read(ids=["{issue.id}"]) says who can end the pressure, and how.',
        issue=issue.id,
        target_tokens=board.config.target_tokens,
        most_importance=EXEMPT - 1,
    )


def weigh_question(ledger: Ledger) -> None:
    """Refuses a question that would stay until somebody answers it, while the board is under pressure.

    Raises:
        UnderPressure: it is refused.
    """
    board = ledger.board
    if board.pressure:
        raise UnderPressure(
            f"Board '{board.id}' is under pressure: more is held than its budget allows, and a QUESTION that asks "
            "somebody by name would stay as well until it is answered. Nothing was changed; ask without @ and "
            f'replies_to, or end the pressure: read(ids=["{item_id(ItemType.HOT_ISSUE, board.pressure)}"]) says how.',
            issue=item_id(ItemType.HOT_ISSUE, board.pressure),
            target_tokens=board.config.target_tokens,
        )


def keep_off(ledger: Ledger, row: ItemRow) -> None:
    """Checks that the item is no hot issue of the server's: on pressure, or on a check that it runs.

    Raises:
        Refused: it is; only the server changes it.
    """
    if row.author == SYSTEM and (row.key == KEY or row.number == ledger.board.pressure):
        raise Refused(
            f"{row.id} is kept by the server: it resolves by itself when pressure ends. Nothing was changed; "
            f'read(ids=["{row.id}"]) says who can end it, and how.'
        )
    if ledger.agent != SYSTEM in (row.author, row.written_by) and row.type == ItemType.HOT_ISSUE and row.key:
        raise Refused(
            f"{row.id} is kept by the server: it resolves by itself when the check passes, and nobody says so for it. "
            "Nothing was changed; correct what it names: artifact_write(path=…) runs the check again. "
            f'post(text="…", edges={{"replies_to": ["{row.id}"]}}) adds what you know. '
            "Where the check is no longer set, an operator ends the issue: blackboard-mcp check NAME --end."
        )


def keep_key(ledger: Ledger, draft: Draft, kind: ItemType) -> None:
    """Checks that a new item does not take the key of a check's hot issue.

    Raises:
        InvalidInput: it does.
    """
    if draft.key is not None and kind != ItemType.HOT_ISSUE and RESULT_KEY.fullmatch(draft.key):
        raise InvalidInput(
            f"The key '{draft.key}' is for the hot issue of a check. Nothing was changed; use a key of your own, or "
            "report_result(check=…, ok=…)."
        )
