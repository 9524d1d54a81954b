"""Intake: what happened in an agent's client becomes LOG items, proposed rules and hot issues, each line once.

Nothing here knows MCP, HTTP or SQL.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, field
from dataclasses import dataclass as mutable
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from blackboard_mcp.protocols.access import Action
from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.errors import BlackboardError, Conflict, InvalidInput
from blackboard_mcp.protocols.values import dataclass

from ..input.capture import MAX_MESSAGE
from ..input.intake import HookLine, Line
from ..input.posts import PostFields, check_agent, digest
from ..input.secrets import Secrets
from .blackboard import Blackboard
from .results import Results
from .rules import Rules

if TYPE_CHECKING:
    from .message_reader import MessageReader, ModelFound

NEEDS: Final = frozenset({Action.READ, Action.POST})
"""What a hand-over needs."""
_TAG: Final = "intake"
_NOWHERE: Final = "L-0"
"""In place of the item that a thread hangs on, as long as there is none."""
_ISSUE: Final = 300
"""Most characters of a failing result that its hot issue shows, which is in every view."""


@dataclass(frozen=True, slots=True)
class HandedOver:
    """What came of a hand-over: ids of LOG items, of proposed rules, and of hot issues that failed or passed.

    `repeated` counts the lines that were handed over before, `masked` the secrets that were taken out, and
    `unproposed` the sentences that read like rules and were too many in their message. `model` says why no model read
    the messages, or not all, if one was to.
    """

    board: str
    items: tuple[str, ...]
    proposed: tuple[str, ...]
    issues: tuple[str, ...]
    repeated: int
    masked: int
    unproposed: int
    model: str | None
    seq: int

    @property
    def facts(self) -> dict[str, Any]:
        """The same as a JSON object."""
        return asdict(self)


@mutable
class _Came:
    """Results of the lines that are written so far. `found` is what a model found in the messages."""

    found: ModelFound | None = None
    proposed: list[str] = field(default_factory=list)
    issues: list[str] = field(default_factory=list)
    unproposed: int = 0


class Intake:
    """The use case of a client that hands over what its agent and user did. `secrets` says what is kept from boards.

    `reader` asks a model for rules in messages; `None` without one.
    """

    def __init__(self, board: Blackboard, secrets: Secrets, reader: MessageReader | None = None) -> None:
        self._board = board
        self._reader = reader
        self._secrets = secrets
        self._rules = Rules(board)
        self._results = Results(board)
        self._gates: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def hand_over(self, agent: str, board: str | None, lines: Sequence[Line]) -> HandedOver:
        """Writes the lines in order. A line that was written before adds nothing.

        Raises:
            Refused: a line holds a secret, and none was written; or a limit, right or rule forbids one, and the lines
                before it were written.
        """
        check_agent(agent)
        cleaned = [self._clean(place, line) for place, line in enumerate(lines, 1)]
        name = await self._board.board_of(board, agent)
        items: list[str] = []
        came = _Came(await self._read(agent, name, [line for line, _ in cleaned]))
        gate = self._gates.setdefault((name, agent), asyncio.Lock())
        async with gate:
            for place, (line, _) in enumerate(cleaned, 1):
                try:
                    item = await self._write(agent, name, line, came)
                except BlackboardError as error:
                    raise _at(place, line, error) from None
                items += [] if item is None else [item]
        found = await self._board.board(agent, name)
        return HandedOver(
            name,
            tuple(items),
            tuple(came.proposed),
            tuple(dict.fromkeys(came.issues)),
            len(lines) - len(items),
            sum(masked for _, masked in cleaned),
            came.unproposed,
            None if came.found is None else came.found.told or None,
            found.seq,
        )

    def _clean(self, place: int, line: Line) -> tuple[Line, int]:
        """Returns the line as it is kept, without secrets, and their number.

        Raises:
            Refused: it holds one, and the operator has such lines refused.
        """
        said: dict[str, str] = {}
        masked = 0
        for name in ("id", "text", "thread", "tool", "subject", "input"):
            text = getattr(line, name, None)
            if text is not None:
                try:
                    said[name], found = self._secrets.checked(text)
                except BlackboardError as error:
                    words = f"Line {place}: {error.message} No line of this hand-over was written."
                    raise type(error)(words, line=place) from None
                masked += found
                if found and name == "id":  # two lines stay two
                    said["id"] += f"#{hashlib.sha256(text.encode()).hexdigest()[:8]}"
        return (line.model_copy(update=said) if masked else line).kept(), masked

    async def _read(self, agent: str, board: str, lines: Sequence[Line]) -> ModelFound | None:
        """Asks the model, if there is one, for the rules in the messages that were not handed over before."""
        if self._reader is None:
            return None
        messages: list[str] = []
        for line in lines:
            if len(messages) > self._reader.most_messages:  # the reader tells that these are too many
                break
            if line.kind == "message":
                with suppress(InvalidInput):  # which writing it tells
                    if not await self._is_written(agent, board, line):
                        messages.append(line.text[:MAX_MESSAGE])
        return await self._reader.read(messages)

    async def _is_written(self, agent: str, board: str, line: Line) -> bool:
        """Tells whether a line was handed over before, without making the item that its thread hangs on.

        Raises:
            InvalidInput: another line was handed over under its id.
        """
        root = None
        if line.thread is not None:
            found = await self._board.store.read(board, agent, [], [_thread_key(agent, line.thread)])
            root = found.items[0].id if found.items else _NOWHERE
        try:
            once = Once(f"{_TAG} {line.id}", digest([_log(line, root)]))
            return await self._board.store.recall(board, agent, once) is not None
        except InvalidInput:
            raise InvalidInput(
                "Another line was handed over under this id before. Nothing was changed; give this one its own id."
            ) from None

    async def _write(self, agent: str, board: str, line: Line, came: _Came) -> str | None:
        """Writes one line and returns the id of its LOG item; `None` if that was written before.

        The LOG item comes last, because it says that the line is done. What comes before has keys of its own, so that a
        line that is handed over again after a cut does nothing twice.
        """
        if await self._is_written(agent, board, line):
            return None
        root = None if line.thread is None else await self._root(agent, board, line.thread)
        fields = _log(line, root)
        key = f"{_TAG} {line.id}"
        if line.kind == "message":
            message = line.text[:MAX_MESSAGE]
            proposed, left = await self._rules.collect(
                agent, board, message, came.found, _before(key, "rules")
            )
            came.proposed += proposed
            came.unproposed += left
        elif line.kind == "result" and line.tool is not None and not self._results.is_own(board, line.tool):
            text = " ".join(line.text.split())
            text = text if len(text) <= _ISSUE else f"{text[: _ISSUE - 1]}…"
            done = await self._results.report(
                agent,
                board,
                line.tool,
                line.subject or "",
                ok=line.ok is True,
                text=text,
                once_key=_before(key, "result"),
            )
            came.issues += [] if done.item is None else [done.item.id]
        posted = await self._board.post(agent, board, [fields], key)
        return posted.items[0].id

    async def _root(self, agent: str, board: str, thread: str) -> str:
        """Returns the id of the item that the agent's thread hangs on, after making it if there is none."""
        key = _thread_key(agent, thread)
        text = f"Handed over by {agent}'s client: {thread}"
        for version in (0, None):
            found = await self._board.store.read(board, agent, [], [key])
            if found.items and not found.items[0].deleted:
                return found.items[0].id
            fields = PostFields(
                text=text, type="LOG", key=key, tags=[_TAG], expected_version=None if found.items else version
            )
            try:
                return (await self._board.post(agent, board, [fields])).items[0].id
            except Conflict:  # another process made it meanwhile
                continue
        raise Conflict(f"The thread {thread} changes too fast. Nothing of this line was written; try again.")


def _thread_key(agent: str, thread: str) -> str:
    named = hashlib.sha256(f"{agent}\0{thread}".encode()).hexdigest()[:16]
    return f"{_TAG}:{named}"


def _log(line: Line, root: str | None) -> PostFields:
    match line.kind:
        case "message":
            said = "user"
        case "call":
            said = f"calls {line.tool}"
        case _:
            said = f"{line.tool} {'ok' if line.ok else 'failed'}" + (
                f" for {line.subject}" if line.subject else ""
            )
    asked = line.input if isinstance(line, HookLine) else None
    about = {"id": line.id, "kind": line.kind, "tool": line.tool, "ok": line.ok, "subject": line.subject}
    return PostFields(
        text=f"{said}: {line.text}" + (f"\ncalled with {asked}" if asked else ""),
        type="LOG",
        tags=[_TAG, line.kind],
        edges=None if root is None else {"replies_to": [root]},
        metadata={_TAG: {name: value for name, value in about.items() if value is not None}},
    )


def _at(place: int, line: Line, error: BlackboardError) -> BlackboardError:
    """Returns the error with the place of its line, and what became of the others."""
    # The thread's item, or rules that the line proposes, may be there already.
    said = re.sub("[Nn]othing was changed", "This line was not written", error.message)
    before = f" The {place - 1} before it were taken." if place > 1 else ""
    words = f"Line {place} ({line.id[:40]}): {said}{before} Handing all over again adds nothing twice."
    return type(error)(words, **{**error.facts, "line": place})


def _before(key: str, what: str) -> Once:
    """Returns the key of what is done before the LOG item of a line; a line's id alone says that it was."""
    return Once(f"{key} {what}", hashlib.sha256(key.encode()).hexdigest())
