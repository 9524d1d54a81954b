"""Posts that wait at the same time, made in one go.

Nearly all posts ask and write the same. What each asks first is asked for all of them at once. Then one after another
runs, without the database: what it writes is held until all have run. At last each asks what its answer tells. So 32
posts take some twenty statements, not 200.

Each comes out as if it had run by itself after those before it, except that remarks may name what was posted together
with it. A post that does anything else, such as one with a key, ends the batch before itself, and runs by itself.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from typing import Any, Final

from ...operation import Many, Operation, Outcome, Rows, Spoilt, Statement
from ..ledger.rows import ITEM_COLUMNS, BoardRow, Steps, dumps, sql

_HELD: Final = ("item_add", "event_add", "concern_add", "finding_add", "agent_seen")
"""Statements that wait until all posts have run, in the order in which they then run."""
_NOTED: Final = ("item_add", "finding_add")
"""Those of them that change what others are answered."""
_ASKED: Final = ("said_before", "same_findings", "idempotency_get", "watchers_of_topics", "viewers")
"""Statements that a post runs before it writes; a post of the batch may change what they answer."""
_LAST: Final = ("findings_alike", "owing", "log_reach", "unseen", "unseen_few")
"""Statements that posts run after they have written, for all of them at once."""
_SHOWN, _SHORT = 6, 100
"""The place of what an agent was shown among the values of `unseen`, and the most characters of a short list of it."""
_MOST_BYTES: Final = 4 << 20
"""The most bytes of a batch: who is so far below a limit does not exceed it."""
_ROW_BYTES: Final = 1_000
"""The bytes that an item counts besides its text, tags and metadata."""
_TEXTS: Final = operator.itemgetter(*map(ITEM_COLUMNS.index, ("text", "tags", "metadata")))
_HASH: Final = ITEM_COLUMNS.index("sha256")
_PRINT: Final = 33
"""The characters of a fingerprint that are stored."""
_COLUMNS: Final = [one.name for one in fields(BoardRow)]
_SEQ, _NUMBER, _FIRST, _END = map(_COLUMNS.index, ("seq", "last_number", "working_items", "pressure"))
"""The columns of a board that its posts change: its sequence, its last number, and others from here to before there."""
_LONG: Final = slice(_COLUMNS.index("config"), _COLUMNS.index("core") + 1)
"""The columns of a board that may be long."""


def together(posts: Sequence[Operation[Any]]) -> Steps[list[Outcome]]:
    """Runs posts to one board; returns the outcomes of the first of them, up to one that has to run by itself.

    Raises:
        Spoilt: one failed so late that nothing of the transaction may stay.
    """
    batch = _Batch([_Post(operation) for operation in posts])
    try:
        yield from batch.open()
        ran = []
        for post in batch.posts:
            if not (yield from batch.run(post)):
                break
            ran.append(post)
        yield from batch.write()
        yield from batch.finish([post for post in ran if not post.over])
        return [Outcome(post.result, post.error) for post in ran]
    finally:
        for post in batch.posts:
            post.steps.close()


class _Post:
    """A post under way, and the statement that it waits for."""

    __slots__ = ("error", "opened", "operation", "over", "result", "statement", "steps", "told")

    def __init__(self, operation: Operation[Any]) -> None:
        self.operation = operation
        self.steps = operation()
        self.opened: Rows = []
        """The row of the board as it was before the batch; empty if the post did not ask for it."""
        self.told: list[Rows] = []
        """What it was told so far."""
        self.result: Any = None
        self.error: Exception | None = None
        self.over = False
        self.statement: Statement = ("", ())
        self.send(None)

    def send(self, rows: Rows | None) -> None:
        """Goes on to the next statement with the rows of this one, or begins with `None`."""
        try:
            self.statement = self.steps.send(rows)  # type: ignore[arg-type]
        except StopIteration as stop:
            self.over, self.result = True, stop.value
        except Exception as error:
            self.over, self.error = True, error

    def awaits(self, text: str) -> bool:
        """Tells whether it waits for the rows of this statement."""
        return not self.over and self.statement[0] == text


class _Batch:
    """Posts that run together, and what they are about to write."""

    def __init__(self, posts: list[_Post]) -> None:
        self.posts = posts
        self._held: dict[str, list[Sequence[Any]]] = {}
        """The values of the statements that wait, by their names."""
        self._counts: list[Any] = []
        """The values of the statement that writes the counts of the board; empty until a post has written."""
        self._said: set[str] = set()
        """The hashes and fingerprints of what the posts write, and the idempotency keys that they use."""
        self._bytes = 0
        """The bytes that the posts add to what is stored for good."""
        self._limits: list[int] | None = None
        """The limits of stored bytes that were compared with what there is."""
        self._foreseen: dict[tuple[Any, ...], Rows] = {}
        """The rows of statements that were asked for all posts at once, by their texts and values."""
        self._is_roomy = False
        """Whether all that is stored is so far below them that the batch does not exceed them."""

    def open(self) -> Steps[None]:
        """Asks what all posts ask first."""
        for name in ("member_role", "board_opened"):
            asking = [post for post in self.posts if post.awaits(sql(name))]
            values = Many(post.statement[1] for post in asking)
            if name == "board_opened":
                # The long columns are the same for all.
                values[1:] = [(board, agent, 0) for board, agent, _ in values[1:]]
            found: Any = (yield sql(name), values) if asking else []
            for post, rows in zip(asking, found, strict=True):
                if name == "member_role":
                    post.told.append(rows)
                    post.send(rows)
                elif rows:
                    row = (*rows[0][: _LONG.start], *found[0][0][_LONG], *rows[0][_LONG.stop :])
                    post.opened = [row]
                    post.told.append(post.opened)
        yield from self._foresee()

    def _foresee(self) -> Steps[None]:
        """Asks for all posts at once what each asks before it writes, if the first one does.

        For that they run up to there on trial: an operation has no effect but by its statements.
        """
        names = _names()
        trials: list[_Post] = []
        try:
            for post in self.posts:
                if not post.opened:
                    continue
                trials.append(trial := _Post(post.operation))
                for rows in post.told:
                    trial.send(rows)
                if names.get(trials[0].statement[0]) not in _ASKED:
                    return
            while asking := [one for one in trials if not one.over and names.get(one.statement[0]) in _ASKED]:
                text = asking[0].statement[0]
                some = [one for one in asking if one.statement[0] == text]
                found: Any = yield text, Many(one.statement[1] for one in some)
                for one, rows in zip(some, found, strict=True):
                    self._foreseen[text, *one.statement[1]] = rows
                    one.send(rows)
        finally:
            for trial in trials:
                trial.steps.close()

    def run(self, post: _Post) -> Steps[bool]:
        """Runs a post until it has written all; returns false and forgets it if it does what no batch can do."""
        if post.over:
            return True
        if not post.opened:
            return False
        names = _names()
        held: list[tuple[str, Sequence[Any]]] = []
        counts: Sequence[Any] = ()
        rows: Rows | None = [self._counted(post.opened[0])]
        while rows is not None:
            post.send(rows)
            if post.over or counts:
                break
            text, values = post.statement
            name = names.get(text)
            rows = []
            if name in _HELD:
                held.append((name, values))
                if name in _NOTED:
                    self._note(name, values)
            elif name == "board_counters":
                counts = values
            elif name is not None and name not in _LAST:
                rows = yield from self._answer(name, values)
            else:
                return False
        if rows is None:
            return False
        if post.error is None:
            for name, values in held:
                self._held.setdefault(name, []).append(values)
            if counts:
                before = self._counts[3:] or [0] * len(counts)
                self._counts = [*counts[:3], *map(operator.add, before, counts[3:])]
        return True

    def _counted(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns the row of the board with the counts as the posts before leave them."""
        if not self._counts:
            return row
        now = list(row)
        _, now[_SEQ], now[_NUMBER], *more = self._counts
        now[_FIRST:_END] = map(operator.add, row[_FIRST:_END], more)
        return tuple(now)

    def _note(self, name: str, values: Sequence[Any]) -> None:
        """Notes what a post is about to write, as far as it changes what others are answered."""
        if name == "item_add":
            self._said.add(values[_HASH])
            self._bytes += _ROW_BYTES + len("".join(_TEXTS(values)).encode())
        elif name == "finding_add":
            self._said.add(values[1][:_PRINT])

    def _answer(self, name: str, values: Sequence[Any]) -> Steps[Rows | None]:
        """Returns the rows of a statement; `None` if what the posts write may change them."""
        if name == "stored_here":
            return [] if (yield from self._fits(values[0], list(values[2:]))) else None
        if name == "said_before" and not self._said.isdisjoint((values[1], values[5][:_PRINT])):
            return None
        if name == "same_findings" and values[1][:_PRINT] in self._said:
            return None
        if name == "idempotency_get":
            if (key := dumps(values[1:3])) in self._said:
                return None
            self._said.add(key)
        rows: Rows | None = self._foreseen.get((sql(name), *values))
        if rows is None:
            rows = yield sql(name), values
        return rows

    def _fits(self, no: int, limits: list[int]) -> Steps[bool]:
        """Tells whether the batch surely leaves the board and all owners below their limits of bytes (0 is none)."""
        if self._limits is None:
            self._limits = limits
            if (most := min(limit for limit in limits if limit) - _MOST_BYTES) > 0:
                # What all together have stored is more than what one owner has.
                self._is_roomy = not (yield sql("stored_here"), (no, "", 0, most))
        return self._is_roomy and limits == self._limits and self._bytes <= _MOST_BYTES

    def write(self) -> Steps[None]:
        """Writes what is held."""
        for name in _HELD:
            rows = self._held.get(name, [])
            # Not every database changes a row twice in one statement.
            for some in _seen(rows) if name == "agent_seen" else [rows]:
                if some:
                    yield sql(name), Many(some)
        if self._counts:
            yield sql("board_counters"), self._counts

    def finish(self, posts: Sequence[_Post]) -> Steps[None]:
        """Brings posts that have written all to their ends, side by side."""
        while posts:
            alike: dict[str, list[_Post]] = {}
            for post in posts:
                if not _is_shared(*post.statement):
                    post.send((yield post.statement))
                else:
                    alike.setdefault(post.statement[0], []).append(post)
            for text, some in alike.items():
                found: Any = yield text, Many(post.statement[1] for post in some)
                for post, rows in zip(some, found, strict=True):
                    post.send(rows)
            if failed := next((post for post in posts if post.error is not None), None):
                raise Spoilt from failed.error
            posts = [post for post in posts if not post.over]


def _is_shared(text: str, values: Sequence[Any]) -> bool:
    """Tells whether a statement that posts run after they have written goes with those of other posts."""
    name = _names().get(text)
    return name in _LAST and (
        name != "unseen" or len(values[_SHOWN]) <= _SHORT
    )  # the list is read for each row


def _seen(rows: Sequence[Sequence[Any]]) -> list[list[Sequence[Any]]]:
    """Returns what agents did as two lists of rows, in which each agent stands once: its first act, and all others."""
    first: dict[tuple[Any, ...], Sequence[Any]] = {}
    later: dict[tuple[Any, ...], Sequence[Any]] = {}
    for no, name, posts, at, ready in rows:
        if (no, name) not in first:
            first[no, name] = no, name, posts, at, ready
        else:
            _, _, before, last, _ = later.get((no, name), (no, name, 0, at, ready))
            later[no, name] = no, name, before + posts, max(last, at), ready
    return [[*first.values()], [*later.values()]]


@cache
def _names() -> dict[str, str]:
    """Returns the names of the statements that a batch knows, by their texts."""
    return {sql(name): name for name in (*_HELD, *_ASKED, *_LAST, "stored_here", "board_counters")}
