"""Whether a condition holds on a board, for everybody: private items count for nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import Final

from blackboard_mcp.protocols.agenda import task_id
from blackboard_mcp.protocols.conditions import Condition, Count, parse_condition
from blackboard_mcp.protocols.errors import InvalidInput, UnknownReference
from blackboard_mcp.protocols.items import FALLEN, ItemType, Status
from blackboard_mcp.protocols.stages import stage_id

from ..ledger.ledger import Ledger
from ..ledger.rows import Steps, dumps, numbers, sql

_ARCHIVED: Final = 2_000
"""The newest items of the archive among which a count with a tag or an author looks."""
_PLACE: Final = re.compile(r"(?<=done\()\$([1-9][0-9]{0,2})(?=\))")
_STANDING: Final = sorted(str(status) for status in Status if status not in FALLEN)

_parsed = lru_cache(maxsize=1_024)(parse_condition)


def holds(ledger: Ledger, text: str) -> Steps[bool]:
    """Tells whether the condition holds now."""
    return (yield from _holds(ledger, _parsed(text)))


def _holds(ledger: Ledger, condition: Condition) -> Steps[bool]:
    match condition.kind:
        case "true" | "false":
            return condition.kind == "true"
        case "not":
            return not (yield from _holds(ledger, condition.parts[0]))
        case "and" | "or":
            decisive = condition.kind == "or"
            for part in condition.parts:
                if (yield from _holds(ledger, part)) is decisive:
                    return decisive
            return not decisive
        case "flag":
            return ledger.board.core.flags.get(condition.name) is True
        case "count":
            return (yield from _counted(ledger, condition.count or Count(">=", 0)))
        case "task":
            found = yield sql("task_completed"), (ledger.no, condition.number)
        case "stage":
            found = yield sql("stage_completed"), (ledger.no, condition.number)
        case "milestone":
            found = yield sql("milestone_reached"), (ledger.no, condition.name)
        case "exists":
            found = yield sql("key_stands"), (ledger.no, condition.name, ledger.now)
        case "no_open_debates":
            found = yield sql("debates_any"), (ledger.no,)
            return not found[0][0]
    return bool(found[0][0])


def _counted(ledger: Ledger, count: Count) -> Steps[bool]:
    """Compares the number of items that match; those that fell count only where the status is named."""
    types = dumps([count.type] if count.type else sorted(map(str, ItemType)))
    statuses = dumps([count.status] if count.status else _STANDING)
    if count.tag or count.author:
        most = count.number + 1
        values = (ledger.no, types, statuses, count.tag, count.author, most, _ARCHIVED)
        found = (yield sql("counted_one_by_one"), values)[0][0]
    else:
        found = (yield sql("counted_by_kind"), (ledger.no, types, statuses))[0][0]
    match count.comparison:
        case ">=":
            return bool(found >= count.number)
        case ">":
            return bool(found > count.number)
        case "<=":
            return bool(found <= count.number)
        case "<":
            return bool(found < count.number)
        case _:
            return bool(found == count.number)


def named(text: str, ids: Sequence[str], where: str) -> str:
    """Returns a condition with `done($2)` for the second item of the call as `done(T-5)`.

    Raises:
        InvalidInput: there are not so many.
    """

    def id_of(match: re.Match[str]) -> str:
        place = int(match[1])
        if place > len(ids):
            raise InvalidInput(
                f"{where}: '{match[0]}' names item {place}, and there are {len(ids)}. Nothing was changed."
            )
        return ids[place - 1]

    return _PLACE.sub(id_of, text)


def check_condition(ledger: Ledger, text: str, where: str, fresh: Collection[str] = ()) -> Steps[None]:
    """Checks that a condition can be read, and that tasks and stages that it names exist, or `fresh` has their ids.

    Raises:
        InvalidInput: it cannot be read.
        UnknownReference: a task or stage does not exist.
    """
    if not text:
        return
    try:
        condition = parse_condition(text)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error.message}") from None
    stages = {part.number for part in _parts(condition) if part.kind == "stage"}
    tasks = {part.number for part in _parts(condition) if part.kind == "task"}
    missing = [stage_id(n) for (n,) in (yield sql("missing_stages"), (ledger.no, numbers(stages)))]
    missing += [task_id(n) for (n,) in (yield sql("missing_tasks"), (ledger.no, numbers(tasks)))]
    missing = [id_ for id_ in missing if id_ not in fresh]
    if missing:
        raise UnknownReference(
            f"{where}: '{text}' names {', '.join(missing[:5])}, which '{ledger.board.id}' does not have. Nothing was "
            "changed; plan() lists the tasks, stage() the stages; a milestone is named by its title: milestone(beta).",
            missing=missing,
        )


def _parts(condition: Condition) -> Iterator[Condition]:
    yield condition
    for part in condition.parts:
        yield from _parts(part)
