"""Mutations that apply once: the answer of a call is kept under its idempotency key, in the call's own transaction.

A key is an agent's own on a board. It stands for one call, told by a digest; with anything else it is
refused. A call that failed keeps nothing, so its key may be used again. What is kept is good for the
board's `idempotency_seconds`, counted from the call; after that the key is as if it had never been used,
whether or not what was kept has been swept.
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
    """How an answer is kept: `keep` makes JSON of it that is small, `again` an answer of that.

    Of an answer that says nothing was done `keep` makes `None`, and it is not kept.
    """

    keep: Callable[[T], Any]
    again: Callable[[Any], Steps[T]]


@cache
def whole(type_: type[T]) -> Form[T]:
    """For answers that are kept as they are: plain values and dataclasses of them."""
    adapter: TypeAdapter[T] = TypeAdapter(type_)

    def again(kept: Any) -> Steps[T]:
        return adapter.validate_python(kept)
        yield  # a generator, like what reads rows for its answer

    return Form(lambda answer: adapter.dump_python(answer, mode="json"), again)


def apply_once(
    board: str, agent: str, once: Once | None, now: int, work: Callable[[], Steps[T]], form: Form[T]
) -> Steps[T]:
    """What `work` answers, or answered when the agent used the key before: then `work` is not begun.

    `work` is a whole operation, from opening its ledger to closing it, and is run in the same transaction as
    this. Without `once` it is simply run.

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
    """Marks an operation that takes `write`, `board`, `agent` and `once` as one that applies once.

    `kind` says how its answer is kept: a form, a function of the operation's arguments that makes one, or the
    answer's type where it is kept whole.
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
    """The JSON that was kept of the first answer; `None` when the key was not used, or too long ago.

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
    """Keeps the JSON of an answer; never `None`."""
    until = now + board.config.idempotency_seconds * _MICROS
    yield sql("idempotency_put"), (board.no, agent, once.key, once.digest, dumps(answer), now, until)


def recalled(now: int, board: str, agent: str, once: Once) -> Steps[Any | None]:
    """As `recall`, in a transaction of its own."""
    row = yield from find_board(board)
    if row is None:
        return None
    return (yield from recall(row, agent, once, now))


def sweep(write: Write, most: int) -> Steps[int]:
    """Drops up to `most` of what was kept and is good no more, over all boards; answers how many."""
    due = yield sql("idempotency_due"), (write.now, most)
    for row in due:
        yield sql("idempotency_drop"), row
    return len(due)
