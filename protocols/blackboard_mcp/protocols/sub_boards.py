"""Sub-boards: a task of a plan that a board below does, with what goes down to it and what comes back.

The server carries such a task: it puts the inputs on the board below, waits for that board's answer, and brings it
back. Each step is a transaction of one board.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final, Literal, Protocol

from .items import ItemType
from .tokens import CountedText
from .values import dataclass

MAX_MAPPED: Final = 20
"""Most entries of an input or output mapping."""
MAX_ABOVE: Final = 10
"""Most boards above a sub-board."""
BOUND: Final = "board:"
"""The beginning of the binding (`worker`) of a task that a board does; no agent's name has a colon."""
TASK_KEY: Final = "task:"
"""The beginning of the key of the problem on the board below; the id of the task follows."""

COPIED: Final = (ItemType.FACT, ItemType.HYPOTHESIS, ItemType.PLAN, ItemType.RESULT)
"""The types that copies of items have on the other board."""

OnFail = Literal["fault", "complete"]


@dataclass(frozen=True, slots=True)
class SubBoard:
    """What a task gives to the board below it, and what it brings back.

    `input` maps keys of entries on the board below to ids or keys on the task's board, `output` keys of entries on the
    task's board to ids or keys on the board below. `fail` says what becomes of the task if the board below gives no
    answer: the attempt fails (`fault`), or the task is COMPLETED without a result. Without `wait` the task is COMPLETED
    once the inputs are there.
    """

    board: str
    input: Mapping[str, str] = field(default_factory=dict)
    output: Mapping[str, str] = field(default_factory=dict)
    fail: OnFail = "fault"
    wait: bool = True


@dataclass(frozen=True, slots=True)
class SubDue:
    """A task of a sub-board that is ready to begin (`lease` 0), or whose sub-board is over.

    `trouble` says why the board below has no answer, and is empty otherwise. `answer` is the number of its ANSWER item,
    `run` the id of the run that gave it, if one did.
    """

    board: str
    number: int
    title: str
    text: str
    sub: SubBoard
    lease: int = 0
    trouble: str = ""
    answer: int = 0
    run: str = ""


class SubBoardStore(Protocol):
    """A store of tasks that boards below do. The guarantees of `store` apply."""

    async def sub_boards_due(self) -> list[SubDue]:
        """Returns the tasks of open boards that the server has to begin or to end."""
        ...

    async def sub_boards_open(self) -> bool:
        """Tells whether there are tasks of sub-boards that are not over, on boards that are not closed."""
        ...

    async def note_sub_board(self, board: str, number: int) -> bool:
        """Notes at which sequence the board below is, unless that is noted already: answers after it count.

        It is called before that board is given anything. The end of the task forgets it. False, and nothing is changed,
        if the task is no longer ready, there is no such board, or another task is given to it or done there.
        """
        ...

    async def begin_sub_board(self, board: str, number: int) -> bool:
        """Takes the task for the board below it, whose inputs are there; reports `claim.taken`, and `claim.waiting` or
        `claim.done`. False, and nothing is changed, if the task is no longer ready.
        """
        ...

    async def end_sub_board(
        self, board: str, number: int, lease: int, text: CountedText, *, ok: bool, source: str = ""
    ) -> bool:
        """Ends the task with the result of the board below, or as its `fail` says; `text` is the result, or why there
        is none, and `source` the id of the item below that it is from. With lease 0 the task did not begin. False, and
        nothing is changed, if the task is not as it was or its board takes no posts.
        """
        ...
