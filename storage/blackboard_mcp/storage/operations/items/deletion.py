"""Deletion of entries: a tombstone takes the next version, and items that rest on the entry get a notice.

Whoever may write a new version of an entry may delete it. The item stays in the archive with all of its former
versions. A post to its key brings it back, with the version after the tombstone's. An item that the guard
protects cannot be deleted.
"""

from __future__ import annotations

from blackboard_mcp.protocols.debates import Duty, ObligationState
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, Refused, UnknownReference
from blackboard_mcp.protocols.events import EventType
from blackboard_mcp.protocols.items import Draft, Status, Zone, content_hash, item_id

from ..debates.standing_watches import watchers_of
from ..leaving import guard_index, pressure
from ..ledger.ledger import Ledger, standing
from ..ledger.rows import ItemRow, Steps, numbers, sql
from . import retraction

_NAMED = 5
_NOTHING = content_hash("")


def missing(draft: Draft) -> UnknownReference | Conflict:
    """Returns the error for a draft that deletes a key without an entry."""
    if draft.expected_version:
        return expected_none(draft)
    return UnknownReference(
        f"There is no entry '{draft.key}' to delete. Nothing was changed; query(key=…) lists what is there.",
        key=draft.key,
    )


def expected_none(draft: Draft) -> Conflict:
    """Returns the error for a draft that expects a version of a key that has no entry."""
    return Conflict(
        f"Key '{draft.key}' does not exist (version 0), and expected_version was {draft.expected_version}. "
        "Nothing was changed; post with expected_version=0 to create it.",
        key=draft.key,
        current_version=0,
    )


def expect(row: ItemRow, draft: Draft) -> None:
    """Compares the version that a draft expects with the item's; for a tombstone, 0 is right as well.

    Raises:
        Conflict: they differ.
    """
    expected = draft.expected_version
    if expected is None or expected == row.version or (row.deleted and expected == 0):
        return
    name = row.key or row.id
    gone = "forgotten" if row.forgotten else "deleted"
    stands = f"was {gone} at version {row.version}" if row.deleted else f"is at version {row.version}"
    fits = f"; 0 or {row.version} would fit" if row.deleted else "; try again from how it stands"
    raise Conflict(
        f"{name} {stands}, and expected_version was {expected}. Nothing was changed{fits}.",
        item=row.id,
        key=row.key,
        current_version=row.version,
        **({"deleted": True} if row.deleted else {}),
    )


def delete(ledger: Ledger, row: ItemRow, draft: Draft) -> Steps[int]:
    """Replaces an entry with a tombstone, and returns the entry's number.

    Raises:
        InvalidInput: the item is no entry, or has another key than the draft says.
        Conflict: another version was expected, or the entry is deleted already.
        Refused: the guard protects it.
    """
    pressure.keep_off(ledger, row)
    if row.key is None:
        raise InvalidInput(
            f"{row.id} has no key, and only entries can be deleted. Nothing was changed; its author takes it back "
            f'with post(id="{row.id}", status="WITHDRAWN").'
        )
    if draft.key is not None and draft.key != row.key:
        raise InvalidInput(f"{row.id} has the key '{row.key}', not '{draft.key}'. Nothing was changed.")
    expect(row, draft)
    standing(row)
    yield from _free(ledger, row)
    told = row.number in (yield from retraction.fallen(ledger, [row]))
    yield sql("version_keep"), (ledger.no, row.number)
    yield from retraction.clear(ledger, row)
    row.version += 1
    concerns = [row.author, *(yield from watchers_of(ledger, row))]
    row.seq = yield from ledger.emit(EventType.ITEM_DELETED, row, concerns=concerns)
    if row.zone == Zone.WORKING:
        ledger.leave(row)
    yield (
        sql("item_delete"),
        (ledger.no, row.number, row.version, _NOTHING, ledger.now, ledger.agent, row.seq),
    )
    yield sql("outbox_add"), (ledger.no, row.number)
    row.deleted, row.status, row.zone = 1, str(Status.WITHDRAWN), str(Zone.ARCHIVE)
    row.text, row.tags, row.metadata, row.tokens, row.sha256 = "", "[]", "{}", 0, _NOTHING
    row.ttl = row.expires_at = None
    row.updated_at, row.updated_by = ledger.now, ledger.agent
    row.written_at, row.written_by = ledger.now, ledger.agent
    if not told:
        yield from retraction.retract(ledger, row, retraction.DELETED)
    return row.number


def _free(ledger: Ledger, row: ItemRow) -> Steps[None]:
    """Checks that the guard does not protect the item.

    Raises:
        Refused: it does; the error names the agents who can change that.
    """
    if not (yield from guard_index.protected_among(ledger.no, [row.number])):
        return
    held = yield from guard_index.protections(ledger.no, [row.number], most=0)
    reason = held[row.number].reason if row.number in held else "the guard holds it"
    waits: dict[str, None] = {}
    rows = list((yield sql("obligations_of_item"), (ledger.no, row.number)))
    root: str | None = None
    holding = yield sql("holding"), (ledger.no, numbers([row.number]))
    if holding:
        about = yield sql("root_of_debate"), (ledger.no, holding[-1][1])
        root = item_id(about[0][1], about[0][0])
        rows += yield sql("obligations_of_debates"), (ledger.no, numbers([holding[-1][1]]))
    for agent, _item, duty, state, *_ in rows:
        if state == ObligationState.OUTSTANDING:
            waits[f"{agent} to {'answer' if duty == Duty.RESPOND else duty}"] = None
    listed = list(waits)
    more = f" +{len(listed) - _NAMED}" if len(listed) > _NAMED else ""
    if root is not None:
        who = f"it waits for {', '.join(listed[:_NAMED])}{more}" if listed else "nobody is outstanding"
        how = f'{who}; debate(op="status", id="{root}") says what closes it'
    elif listed:
        how = f"it waits for {', '.join(listed[:_NAMED])}{more}"
    else:
        how = f'{row.author}, its author, ends that with post(id="{row.id}", status="RESOLVED")'
    raise Refused(
        f"{row.id} (key {row.key}) cannot be deleted: {reason}. Nothing was changed; {how}.",
        item=row.id,
        key=row.key,
        waits_for=[name.partition(" to ")[0] for name in listed[:_NAMED]],
        **({} if root is None else {"debate": root}),
    )
