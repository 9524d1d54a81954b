"""Deletion of entries by a pattern: the pattern becomes deletions of the entries that it names now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from blackboard_mcp.protocols.access import Action
from blackboard_mcp.protocols.errors import Conflict, InvalidInput
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.grants import GRANTED
from blackboard_mcp.protocols.items import DELETED, Item
from blackboard_mcp.protocols.keys import check_glob
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.protocols.transactions import MAX_WRITES

from ..input.posts import PostFields, WriteFields

MAX_PATTERNS = 4
"""Most deletions by a pattern in one transaction."""
_ALLOWED = frozenset({"key", "status", "expected"})
_NAMED = 20
_PAGE = 200
_MOST = 2_000


def is_pattern(fields: PostFields) -> bool:
    """Tells whether a write deletes by a pattern of keys."""
    return fields.status == DELETED and fields.key is not None and "*" in fields.key


def check_clearing(writes: Sequence[PostFields]) -> list[WriteFields]:
    """Returns the deletions by a pattern, which come after all other writes.

    Raises:
        InvalidInput: they do not, there are too many, or one has other fields or a wrong pattern.
    """
    found = [fields for fields in writes if isinstance(fields, WriteFields) and is_pattern(fields)]
    for place, fields in enumerate(writes, 1):
        if isinstance(fields, WriteFields) and fields.expected is not None and fields not in found:
            raise InvalidInput(
                f"Write {place}: expected goes with a deletion by pattern: "
                '{"key": "draft:**", "status": "DELETED", "expected": 3}. Nothing was changed.'
            )
    if len(found) > MAX_PATTERNS or found != list(writes[len(writes) - len(found) :]):
        raise InvalidInput(
            f"At most {MAX_PATTERNS} deletions by a pattern, after all other writes. Nothing was changed."
        )
    for fields in found:
        check_glob(fields.key or "")
        more = sorted(fields.digest_part().keys() - _ALLOWED)
        if more:
            raise InvalidInput(
                f"A deletion by pattern has key, status and expected alone; leave out {', '.join(more)}. Nothing was "
                "changed."
            )
    return found


async def cleared(
    store: BoardStore, board: str, agent: str, fields: WriteFields, room: int
) -> tuple[list[WriteFields], int]:
    """Returns the deletions that one by a pattern stands for, and the sequence as of which they are.

    They are of the agent's own entries, for stewards of all. Entries that the guard holds are left out. `room` is the
    number of writes that are still allowed.

    Raises:
        Conflict: `expected` was not given or is another number; the error lists what would be deleted and what stays.
        InvalidInput: there are more than `room`.
    """
    listed, seq = await _matching(store, board, agent, fields.key or "")
    steward = await _steward(store, board, agent)
    own = [item for item in listed if steward or item.author == agent]
    held = await store.guarded(board, [item.number for item in own])
    going = [item for item in own if item.number not in held]
    if fields.expected != len(going):
        _tell(fields, going, [item for item in own if item.number in held], len(listed) - len(own))
    if len(going) > room:
        raise InvalidInput(
            f"'{fields.key}' names {len(going)} entries, and one transaction makes at most {MAX_WRITES} writes. "
            "Nothing was changed; delete by narrower patterns."
        )
    return [
        WriteFields(id=item.id, status="DELETED", expected_version=item.version) for item in reversed(going)
    ], seq


async def _matching(store: BoardStore, board: str, agent: str, pattern: str) -> tuple[list[Item], int]:
    """Returns the entries that the agent sees under a pattern, newest first, and the sequence as of which they are.

    Of very many it returns the newest.
    """
    found: list[Item] = []
    cursor, seq = None, None
    while len(found) < _MOST:
        page = await store.query(board, agent, ItemQuery(key=pattern, zone=None, limit=_PAGE, cursor=cursor))
        found += page.items
        cursor, seq = page.cursor, page.seq if seq is None else seq
        if cursor is None:
            break
    return found, seq or 0


async def _steward(store: BoardStore, board: str, agent: str) -> bool:
    grant = GRANTED.get()
    return grant is None or Action.MODERATE in grant.powers.get(await store.role_of(board, agent), ())


def _tell(fields: WriteFields, going: Sequence[Item], held: Sequence[Item], others: int) -> NoReturn:
    """Refuses a deletion whose count is missing or wrong, and says what the right one would do."""
    asked = "expected was not given" if fields.expected is None else f"expected was {fields.expected}"
    said = [f"'{fields.key}' would delete {len(going)} entries, and {asked}"]
    if going:
        said.append(": " + _names(going))
    said.append(". Nothing was changed; ")
    if len(going) > MAX_WRITES:
        said.append(f"one transaction makes at most {MAX_WRITES} writes, so delete by narrower patterns.")
    else:
        said.append(f"expected={len(going)} deletes them." if going else "there is nothing to delete.")
    if held:
        said.append(f" What the guard holds stays: {_names(held)}.")
    if others:
        said.append(f" {others} of other authors stay; a steward may delete them.")
    raise Conflict(
        "".join(said),
        pattern=fields.key,
        would_delete=[item.key for item in going[:MAX_WRITES]],
        count=len(going),
        held=[item.key for item in held[:_NAMED]],
    )


def _names(items: Sequence[Item]) -> str:
    more = f" +{len(items) - _NAMED}" if len(items) > _NAMED else ""
    return ", ".join(str(item.key) for item in items[:_NAMED]) + more
