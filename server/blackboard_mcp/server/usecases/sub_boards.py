"""Sub-boards: the server gives tasks to boards below, and brings their answers back.

Every step is a transaction of one board and may be taken again, so a server that is killed, or several servers, lose
nothing and do nothing twice. Entries that agents wrote are never overwritten.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from blackboard_mcp.protocols.agenda import TaskState, task_id
from blackboard_mcp.protocols.board import Lifecycle
from blackboard_mcp.protocols.errors import BlackboardError, Conflict, StoreError
from blackboard_mcp.protocols.events import SYSTEM
from blackboard_mcp.protocols.items import FINISHED, Item, ItemType, parse_ref
from blackboard_mcp.protocols.panels import PANEL, WORKING, panel_of
from blackboard_mcp.protocols.sub_boards import TASK_KEY, SubDue
from blackboard_mcp.protocols.tokens import CountedText, Tokenizer

from ..input.posts import PostFields
from .blackboard import Blackboard

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 15.0
"""Most seconds between two looks, since other processes plan such tasks, too."""
_LULL: Final = 0.05
_RETRY_SECONDS: Final = 1.0
_WHY: Final = 300
_NO_PANEL: Final = [PANEL + WORKING]
_ID: Final = re.compile(r"[A-Z]{1,3}-[1-9][0-9]{0,9}(?:@[1-9][0-9]{0,9})?\Z")


class NoHandOver(Exception):
    """What was agreed cannot be handed over; the message says why."""


class SubBoards:
    """Carries the tasks that boards below do: `run` until cancelled, `poke` when one was planned."""

    def __init__(self, board: Blackboard) -> None:
        self._board = board
        self._store = board.store
        self._soon = asyncio.Event()

    def poke(self) -> None:
        """Says that a task for a board below may have been planned."""
        self._soon.set()

    async def run(self) -> None:
        """Begins and ends tasks of boards below as they are due, until cancelled."""
        while True:
            self._soon.clear()
            try:
                seen = self._store.changes()
                if await self._store.sub_boards_open():
                    await self.sweep()
                    await asyncio.sleep(_LULL)
                    await self._store.wait_for_change(seen, LOOK_SECONDS)
                    continue
            except BlackboardError as error:
                logger.warning("tasks of boards below wait: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._soon.wait()

    async def sweep(self) -> None:
        """Begins and ends what is due now.

        Raises:
            StoreError: the store cannot write now; the tasks wait as they are.
        """
        failed: StoreError | None = None
        for due in await self._store.sub_boards_due():
            try:
                await self._carry(due)
            except Conflict as error:
                logger.info("%s of %s is tried again: %s", task_id(due.number), due.board, error)
            except StoreError as error:
                failed = error
        if failed is not None:
            raise failed

    async def _carry(self, due: SubDue) -> None:
        try:
            await (self._end(due) if due.lease else self._begin(due))
        except (Conflict, StoreError):
            raise
        except (NoHandOver, BlackboardError) as error:
            logger.warning("%s of %s: %s", task_id(due.number), due.board, error)
            why = CountedText(str(error)[:_WHY])
            await self._store.end_sub_board(due.board, due.number, due.lease, why, ok=False)

    async def _is_due(self, due: SubDue) -> bool:
        """Tells whether a task is still to be begun or ended, as it was when it was listed."""
        (task,) = await self._store.tasks(due.board, SYSTEM, [due.number])
        if due.lease:
            return task.state is TaskState.WAITING and task.lease == due.lease
        return task.state is TaskState.PENDING and task.ready

    async def _begin(self, due: SubDue) -> None:
        """Puts the inputs and the problem on the board below, which is made if need be, and takes the task for it."""
        below = due.sub.board
        if _problem(due) in due.sub.input:
            raise NoHandOver(f"the key {_problem(due)} of board '{below}' is for the problem itself")
        found = await self._store.ensure_board(below, SYSTEM, self._board.config, parent=due.board)
        if found.parent != due.board:
            raise NoHandOver(f"board '{below}' is not below this board")
        if found.lifecycle is Lifecycle.CLOSED:
            raise NoHandOver(f"board '{below}' is closed for good; another task with another board may do it")
        if found.lifecycle is not Lifecycle.OPEN:
            call = f'board(board="{below}", lifecycle="open")'
            raise NoHandOver(f"board '{below}' is settled; open it first: {call}")
        if not await self._store.note_sub_board(due.board, due.number):
            return  # another task is given to that board
        entries = await self._copies(due, due.board, due.sub.input)
        said = f"{due.title}\n\n{due.text}" if due.text else due.title
        problem = PostFields(
            key=_problem(due),
            text=said,
            type="PROBLEM",
            visibility="board",
            metadata={"task": task_id(due.number), **({} if due.sub.wait else {"wait": False})},
        )
        await self._put(due, below, [*entries, problem])
        await self._store.begin_sub_board(due.board, due.number)

    async def _end(self, due: SubDue) -> None:
        """Brings the outputs and the answer back, and ends the task."""
        if due.trouble:
            raise NoHandOver(f"board '{due.sub.board}' gave no answer: {due.trouble}")
        below = due.sub.board
        items = (await self._store.read(below, "", [parse_ref(str(due.answer))], [])).items
        if not items:
            raise NoHandOver(f"board '{below}' gave an answer that not everybody there sees")
        answer = items[0]
        await self._put(due, due.board, await self._copies(due, below, due.sub.output))
        with contextlib.suppress(BlackboardError):  # a closed board takes no posts
            problem = await self._entry(below, _problem(due))
            if problem is not None and problem.status not in FINISHED:
                await self._board.record(below, [PostFields(id=problem.id, status="RESOLVED")])

        async def write(tokenizer: Tokenizer) -> bool:
            counted = CountedText(answer.text, tokenizer.count(answer.text), tokenizer.name)
            return await self._store.end_sub_board(
                due.board, due.number, due.lease, counted, ok=True, source=answer.id
            )

        if await self._board.validation.counted(due.board, write):
            await self._board.prune_if_due(due.board)

    async def _copies(self, due: SubDue, source: str, mapping: Mapping[str, str]) -> list[PostFields]:
        """Returns entries with copies of items that everybody on the source board sees.

        Raises:
            NoHandOver: one is not there.
        """
        copies: list[PostFields] = []
        for key, named in mapping.items():
            refs, keys = ([parse_ref(named)], []) if _ID.match(named) else ([], [named])
            items = (await self._store.read(source, "", refs, keys)).items
            if not items or items[0].deleted:
                raise NoHandOver(f"there is no {named} for everybody on board '{source}'")
            item = items[0]
            kind = _elsewhere(item.type)
            version = "" if item.version is None else f"@{item.version}"
            origin = {"task": task_id(due.number), "item": f"{item.id}{version}", "by": item.author}
            copies.append(
                PostFields(key=key, text=item.text, type=kind, visibility="board", metadata={"from": origin})
            )
        return copies

    async def _put(self, due: SubDue, board: str, entries: Sequence[PostFields]) -> None:
        """Writes entries in the name of the server, all or none, without those that say the same already. A copy never
        takes the place of a problem, and none goes into a panel.

        Raises:
            NoHandOver: an agent wrote the present version of one, it is no copy, or it is in a panel.
            Conflict: the task is no longer due, or an entry was written meanwhile.
        """
        at = await self._store.find_board(board)
        panels = () if at is None else at.config.panels
        posts: list[PostFields] = []
        for entry in entries:
            assert entry.key is not None
            found = await self._entry(board, entry.key)
            alike = found is None or found.metadata.keys() == (entry.metadata or {}).keys()
            if found is not None and (found.author != SYSTEM or not alike):
                raise NoHandOver(f"the entry {entry.key} of board '{board}' is {found.author}'s")
            if found is not None and (panel := panel_of(found.tags)):
                raise NoHandOver(f"the entry {entry.key} of board '{board}' is in panel {panel}")
            if found is None or found.text != entry.text or found.status in FINISHED:
                version = 0 if found is None else found.version
                # A deleted entry keeps its panel, and the store refuses what is for another.
                tags = _NO_PANEL if found is None and panels else None
                posts.append(entry.model_copy(update={"expected_version": version, "tags": tags}))
        if not await self._is_due(due):
            raise Conflict("It is no longer due.")
        if posts:
            await self._board.record(board, posts)

    async def _entry(self, board: str, key: str) -> Item | None:
        found = await self._store.read(board, "", [], [key])
        return next((item for item in found.items if not item.deleted), None)


def _elsewhere(kind: ItemType) -> Literal["FACT", "HYPOTHESIS", "PLAN", "RESULT"]:
    """Returns the type of an entry on the other board: what was decided is a fact there, a remark is not proven."""
    match kind:
        case ItemType.FACT | ItemType.DECISION:
            return "FACT"
        case ItemType.PLAN:
            return "PLAN"
        case ItemType.RESULT:
            return "RESULT"
        case _:
            return "HYPOTHESIS"


def _problem(due: SubDue) -> str:
    """Returns the key of the entry on the board below that says what is to be done."""
    return f"{TASK_KEY}{task_id(due.number)}"
