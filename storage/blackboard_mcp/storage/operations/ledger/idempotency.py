"""Calls that apply only once: the answer is kept under the call's idempotency key, in the call's own transaction.

A key belongs to one agent on one board. It stands for one call, recognised by a digest; used for another call
it is refused. A call that failed keeps nothing, so its key may be used again. A kept answer is valid for the
board's `idempotency_seconds`, counted from the call. After that the key counts as unused, even if the kept
answer has not been deleted yet.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, wraps
from inspect import signature
from types import FunctionType
from typing import Any, Generic, ParamSpec, cast

from blackboard_mcp.protocols.answers import (
    Once,
)
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.values import dataclass
from pydantic import TypeAdapter

from ...operation import Write
from .ledger import find_board
from .rows import BoardRow, Steps, T, dumps, sql

P = ParamSpec("P")

Given = dict[str, Any]
"""Arguments of an operation, by name."""

_MICROS = 1_000_000


@dataclass(frozen=True, slots=True)
class Form(Generic[T]):
    """A pair of functions that store an answer and restore it.

    Attributes:
        keep: returns a small JSON value for an answer; `None` if nothing was done, and then nothing is stored.
        again: returns the answer for such a JSON value.
    """

    keep: Callable[[T], Any]
    again: Callable[[Any], Steps[T]]


@cache
def whole(type_: type[T]) -> Form[T]:
    """Returns the form for answers that are stored completely: plain values and dataclasses of plain values."""
    adapter: TypeAdapter[T] = TypeAdapter(type_)

    def again(kept: Any) -> Steps[T]:
        """Returns the stored answer."""
        return adapter.validate_python(kept)
        yield  # makes this a generator, as `Form.again` requires

    return Form(lambda answer: adapter.dump_python(answer, mode="json"), again)


def apply_once(
    board: str, agent: str, once: Once | None, now: int, work: Callable[[], Steps[T]], form: Form[T]
) -> Steps[T]:
    """Runs `work` and returns its answer; if the agent used the key before, returns the stored answer instead.

    `work` is a whole operation, from opening its ledger to closing it. It runs in the same transaction as this
    function. If `once` is `None`, it simply runs.

    Raises:
        InvalidInput: the key was used for something else.
        Exception: whatever `work` raises.
    """
    if once is None:
        return (yield from work())
    row = yield from find_board(board)
    if row is not None:
        kept = yield from recall(row, agent, once, now)
        if kept is not None:
            return (yield from form.again(kept))
    answer = yield from work()
    kept = form.keep(answer)
    if kept is not None:
        row = yield from find_board(board)
        assert row is not None, "a mutation of a board leaves it there"
        yield from remember(row, agent, once, kept, now)
    return answer


def repeatable(
    kind: Form[T] | type[T] | Callable[[Given], Form[T]],
) -> Callable[[Callable[P, Steps[T]]], Callable[P, Steps[T]]]:
    """Makes an operation apply only once per idempotency key; it must take `write`, `board`, `agent` and `once`.

    `kind` says how the answer is stored: a form, a function that makes the form from the operation's arguments,
    or the answer's type if it is stored completely.
    """

    def marked(operation: Callable[P, Steps[T]]) -> Callable[P, Steps[T]]:
        names = list(signature(operation).parameters)

        @wraps(operation)
        def run(*args: P.args, **named: P.kwargs) -> Steps[T]:
            once: Any = named.get("once")
            if once is None:
                return operation(*args, **named)
            given: Given = {**dict(zip(names, args, strict=False)), **named}
            if isinstance(kind, Form):
                form = kind
            else:
                form = kind(given) if isinstance(kind, FunctionType) else whole(cast(Any, kind))
            write: Write = given["write"]
            return apply_once(
                given["board"], given["agent"], once, write.now, lambda: operation(*args, **named), form
            )

        return run

    return marked


def recall(board: BoardRow, agent: str, once: Once, now: int) -> Steps[Any | None]:
    """Returns the stored JSON of the first answer; `None` if the key was not used, or too long ago.

    Raises:
        InvalidInput: the key was used for something else.
    """
    rows = yield sql("idempotency_get"), (board.no, agent, once.key, now)
    if not rows:
        return None
    digest, answer = rows[0]
    if digest != once.digest:
        raise InvalidInput(
            f"idempotency_key '{once.key}' was used for a different call, or with other content. Nothing was "
            "changed; use a new key for new content."
        )
    return json.loads(answer)


def remember(board: BoardRow, agent: str, once: Once, answer: Any, now: int) -> Steps[None]:
    """Stores the JSON of an answer, which must not be `None`, under the call's key."""
    until = now + board.config.idempotency_seconds * _MICROS
    yield sql("idempotency_put"), (board.no, agent, once.key, once.digest, dumps(answer), now, until)


def recalled(now: int, board: str, agent: str, once: Once) -> Steps[Any | None]:
    """Returns the stored JSON of the answer to an earlier call; `None` if the key is new or the board does not exist.

    Raises:
        InvalidInput: the key was used for something else.
    """
    row = yield from find_board(board)
    if row is None:
        return None
    return (yield from recall(row, agent, once, now))


def sweep(write: Write, most: int) -> Steps[int]:
    """Deletes up to `most` expired idempotency keys with their answers, on all boards; returns how many."""
    due = yield sql("idempotency_due"), (write.now, most)
    for row in due:
        yield sql("idempotency_drop"), row
    return len(due)
