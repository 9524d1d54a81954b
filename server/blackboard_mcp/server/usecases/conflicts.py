"""Conflicts with the current texts in them, so that the caller needs only one more call."""

from __future__ import annotations

import json

from blackboard_mcp.protocols.errors import BlackboardError, Conflict, InvalidInput
from blackboard_mcp.protocols.grants import GRANTED
from blackboard_mcp.protocols.items import Ref, parse_ref
from blackboard_mcp.protocols.keys import parse_key
from blackboard_mcp.protocols.store import BoardStore

from ..text.lines import visible_json, word

SHORT = 300
"""Most characters of all texts in one conflict, as they are quoted."""
_MOST = 3
_LONGEST = 690
"""Most characters of a message, including the names and writers of the texts."""


async def with_texts(store: BoardStore, board: str, agent: str, error: Conflict) -> Conflict:
    """Returns the conflict with the current text, version and writer of items that changed, as far as the
    caller may read.

    Only short texts of the first few items are included. For a longer text the message names the call that
    reads it, where there is room.
    """
    grant = GRANTED.get()
    moved = error.facts.get("moved")
    names = list(moved) if isinstance(moved, dict) else [error.facts.get("key") or error.facts.get("item")]
    if "current_version" not in error.facts and not isinstance(moved, dict):
        return error
    if grant is not None and not grant.reads:
        return error
    ids: list[Ref] = []
    keys: list[str] = []
    for name in names[:_MOST]:
        try:
            ids.append(parse_ref(str(name)))
        except InvalidInput:
            try:
                keys.append(parse_key(str(name))[0])
            except InvalidInput:
                continue
    if not ids and not keys:
        return error
    try:
        found = await store.read(board, agent, ids, keys)
    except BlackboardError:
        return error  # for example the board does not exist yet: the conflict alone is the answer
    said: list[str] = []
    room = min(SHORT, _LONGEST - len(error.message) - 40 * _MOST)
    texts: dict[str, dict[str, str | int]] = {}
    for item in found.items:
        if item.deleted:
            continue
        # Quoted as JSON: no quotation mark in the text ends the quotation, and whoever writes it again keeps its lines.
        quoted = visible_json(json.dumps(item.text, ensure_ascii=False))
        if len(quoted) > room + len('""'):
            call = f'read({"keys" if item.key else "ids"}=["{item.key or item.id}"]) shows it.'
            if len(" ".join([error.message, *said, call])) <= _LONGEST:
                said.append(call)
            continue
        room -= len(quoted)
        name = item.key or item.id
        by = item.updated_by or item.author
        texts[name] = {"version": item.version, "by": by, "text": item.text}
        said.append(f"{name}@{item.version} by {word(by)}: {quoted}.")
    if not said:
        return error
    facts = {"current": texts} if texts else {}
    return type(error)(f"{error.message} {' '.join(said)}", **error.facts, **facts)
