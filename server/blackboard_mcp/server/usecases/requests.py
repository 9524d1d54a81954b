"""Requests between agents, by name or by skill, with partial answers and time limits.

Every method takes the agent's authenticated name and a board id. Nothing here knows MCP, HTTP or SQL.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from blackboard_mcp.protocols.access import POWERS, Action
from blackboard_mcp.protocols.answers import (
    Attention,
    Once,
)
from blackboard_mcp.protocols.asking import (
    DEADLINE_SECONDS,
    MAX_ANSWER,
    MAX_QUESTION,
    MAX_SKILLS,
    AgentRequest,
    NewAnswer,
    NewRequest,
)
from blackboard_mcp.protocols.board import Lifecycle
from blackboard_mcp.protocols.errors import BlackboardError, Conflict, InvalidInput
from blackboard_mcp.protocols.events import Event, EventType
from blackboard_mcp.protocols.items import Item, Ref, content_hash, parse_ref
from blackboard_mcp.protocols.sightings import Way
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.protocols.tokens import Tokenizer
from blackboard_mcp.protocols.values import dataclass

from ..input.idempotency import once_of
from ..input.posts import check_addressed, check_agent, check_text
from ..limits.rates import size_of
from ..text.lines import clip
from .blackboard import Blackboard
from .following import Report

SKILL: Final = "skill:"
_SKILL = re.compile(r"[a-z0-9][a-z0-9._/-]{0,63}\Z")
_REPORT_EVERY: Final = 5.0
_TELLING: Final = 300
"""Most characters of a partial answer in a progress report."""
_TRIES: Final = 5
_INSTEAD: Final = (
    'to is one agent by name, or to="skill:NAME" for whoever offers that; what anybody may answer is a '
    'post(type="QUESTION", …).'
)
_NEXT: Final = " next"
"""Suffix of the idempotency key for the request that a call takes after it offered skills under the key
itself.
"""
_AVAILABLE = (EventType.REQUEST_OPENED, EventType.REQUEST_RELEASED, EventType.BOARD_CHANGED)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request with its question, and the answer or the part of it so far; of a live one also the board's state."""

    request: AgentRequest
    question: Item
    answer: Item | None
    lifecycle: Lifecycle = Lifecycle.OPEN


@dataclass(frozen=True, slots=True)
class WaitingRequests:
    """Requests that wait for an agent, requests that it made itself, and the agents that offer each skill.

    `lifecycle` is the state of the board.
    """

    waiting: tuple[Asked, ...]
    asked: tuple[Asked, ...]
    skills: dict[str, tuple[str, ...]]
    seq: int
    lifecycle: Lifecycle = Lifecycle.OPEN


def check_skill(skill: str) -> str:
    """Returns `skill` when it is a valid name of a skill.

    Raises:
        InvalidInput: it is not.
    """
    if not _SKILL.match(skill):
        raise InvalidInput(
            f"'{skill[:40]}' is not a skill: 1-64 of a-z 0-9 . _ / -, beginning with a letter or digit. Nothing was "
            "changed."
        )
    return skill


def check_skills(skills: Sequence[str]) -> tuple[str, ...]:
    """Returns the skills, each once.

    Raises:
        InvalidInput: there are too many, or one is not valid.
    """
    wanted = tuple(dict.fromkeys(check_skill(skill) for skill in skills))
    if len(wanted) > MAX_SKILLS:
        raise InvalidInput(f"An agent offers at most {MAX_SKILLS} skills. Nothing was changed.")
    return wanted


class Messaging:
    """Use cases for agents that ask and answer each other."""

    def __init__(self, board: Blackboard) -> None:
        self._board = board
        self._returning: set[asyncio.Task[None]] = set()

    @property
    def _store(self) -> BoardStore:
        return self._board.store

    # Asking

    async def ask(
        self,
        agent: str,
        board: str | None,
        text: str,
        to: str,
        *,
        deadline_seconds: float | None = None,
        once_key: str | None = None,
    ) -> tuple[str, int]:
        """Opens a request, and returns the board's id and the request's number.

        `to` is an agent's name, or `skill:NAME`.

        Raises:
            InvalidInput: the text is not valid, or `to` names nobody who can be asked.
            Refused: too many requests are open.
        """
        check_agent(agent)
        self._check(text, MAX_QUESTION, "request")
        skill = check_skill(to.removeprefix(SKILL)) if to.startswith(SKILL) else ""
        name = await self._board.board_of(board, agent)
        self._board.quotas.charge(agent, name, size=size_of(text))
        lasting = DEADLINE_SECONDS if deadline_seconds is None else deadline_seconds
        new = NewRequest(
            text=text,
            tokens=0,
            sha256=content_hash(text),
            to="" if skill else check_addressed(to, _INSTEAD),
            skill=skill,
            deadline_seconds=lasting,
        )
        once = once_of(once_key, "request", text=text, to=to, deadline_seconds=deadline_seconds)

        async def write(tokenizer: Tokenizer) -> int:
            counted = replace(new, tokens=tokenizer.count(text), counted_by=tokenizer.name)
            return await self._store.open_request(name, agent, counted, config=self._board.config, once=once)

        number = await self._board.validation.counted(name, write)
        self._board.pruner.expect(lasting)
        await self._board.prune_if_due(name)
        return name, number

    async def cancel(
        self, agent: str, board: str | None, id_: str, reason: str = "", *, once_key: str | None = None
    ) -> Asked:
        """Cancels a request of the agent's, and returns it."""
        name, number = await self._named(agent, board, id_, changes=True)
        self._board.quotas.charge(agent, name)
        once = once_of(once_key, "cancel request", id=id_, reason=reason)
        await self._store.cancel_request(name, agent, number, reason, once=once)
        return await self._asked(name, agent, number)

    async def follow(
        self, agent: str, board: str | None, id_: str | int, *, seconds: float, report: Report | None = None
    ) -> Asked:
        """Waits for a request to end, and returns its state then or after `seconds`; new parts are reported
        as they come.
        """
        if isinstance(id_, int):
            name, number = await self._board.board_of(board, agent), id_
        else:
            name, number = await self._named(agent, board, id_)
        loop = asyncio.get_running_loop()
        started = loop.time()
        tails = self._board.following.tails
        known, first = 0, True
        while True:
            stands = await self._asked(name, agent, number)
            request, now = stands.request, loop.time()
            if not request.live or stands.lifecycle is Lifecycle.CLOSED or now >= started + seconds:
                return stands
            if report is not None and (request.parts > known or not first):
                await report(round(now - started, 1), seconds, _progress(stands, known))
            known, first = request.parts, False
            if tails.released:
                return stands
            await self._wait(
                name,
                lambda event: event.thread == number or event.event is EventType.BOARD_CHANGED,
                request.seq,
                min(started + seconds - now, _REPORT_EVERY if report is not None else seconds),
            )

    # Answering

    async def waiting(self, agent: str, board: str | None) -> WaitingRequests:
        """Returns the requests that wait for the agent, and its own open ones."""
        name = await self._board.board_of(board, agent)
        waiting, asked = await self._store.requests_waiting(name, agent)
        numbers = [request.number for request in (*waiting, *asked)]
        items = await self._items(name, agent, numbers)
        skills = await self._store.skills(name)
        found = await self._store.find_board(name)
        return WaitingRequests(
            tuple(Asked(r, items[r.number], None) for r in waiting),
            tuple(Asked(r, items[r.number], None) for r in asked),
            skills,
            0 if found is None else found.seq,
            Lifecycle.OPEN if found is None else found.lifecycle,
        )

    async def offer(
        self, agent: str, board: str | None, skills: Sequence[str], *, once_key: str | None = None
    ) -> None:
        """Sets the skills that the agent offers, in place of earlier ones."""
        wanted = check_skills(skills)
        check_agent(agent)
        name = await self._board.board_of(board, agent)
        self._board.quotas.charge(agent, name)
        once = once_of(once_key, "offer skills", skills=list(wanted))
        await self._store.offer_skills(name, agent, wanted, once=once)

    async def next(
        self,
        agent: str,
        board: str | None,
        *,
        seconds: float,
        report: Report | None = None,
        once_key: str | None = None,
    ) -> Asked | None:
        """Takes the next request for the agent and returns it, or `None` when none came within `seconds`, or none can
        come because the board takes no answers.

        `once_key` is the key of a call that may also have offered skills under it.
        """
        check_agent(agent)
        once = once_of(once_key, "take next request")
        if once is not None:
            once = replace(once, key=f"{once.key}{_NEXT}")
        name = await self._board.board_of(board, agent)
        loop = asyncio.get_running_loop()
        started = loop.time()
        tails = self._board.following.tails
        first = True
        while True:
            found = await self._store.find_board(name)
            seq = 0 if found is None else found.seq
            taken = await self._take_next(name, agent, once)
            if taken is not None:
                async with self.delivering(name, agent, *taken, keyed=once is not None):
                    return await self._asked(name, agent, taken[0])
            now = loop.time()
            is_over = found is not None and found.lifecycle is not Lifecycle.OPEN
            if now >= started + seconds or tails.released or is_over:
                self._board.activity.seen(name, agent)
                return None
            if report is not None and not first:
                await report(round(now - started, 1), seconds, "waiting for a request")
            first = False
            if tails.released:
                continue
            await self._wait(
                name,
                lambda event: event.event in _AVAILABLE,
                seq,
                min(started + seconds - now, _REPORT_EVERY),
            )

    async def _take_next(self, board: str, agent: str, once: Once | None) -> tuple[int, int] | None:
        taking = asyncio.ensure_future(self._store.take_next(board, agent, once=once))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            # The write cannot be stopped: undo it afterwards, unless a repeated call may ask for its result.
            self._later(self._undo(taking, board, agent, keyed=once is not None))
            raise

    @asynccontextmanager
    async def delivering(
        self, board: str, agent: str, number: int, lease: int, *, keyed: bool
    ) -> AsyncIterator[None]:
        """Gives a taken request back if the block is cancelled or fails.

        With an idempotency key (`keyed`) it stays taken, because a repeated call may ask for it.
        """
        try:
            yield
        except (asyncio.CancelledError, BlackboardError):
            if not keyed:
                self._later(self._give_back(board, agent, (number, lease)))
            raise

    async def _undo(
        self, taking: asyncio.Future[tuple[int, int] | None], board: str, agent: str, *, keyed: bool
    ) -> None:
        with contextlib.suppress(BlackboardError):
            taken = await taking
            if not keyed:
                await self._give_back(board, agent, taken)

    async def _give_back(self, board: str, agent: str, taken: tuple[int, int] | None) -> None:
        if taken is not None:
            with contextlib.suppress(BlackboardError):  # its lease ends anyway
                await self._store.release_request(board, agent, *taken)

    def _later(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)

    async def settle(self) -> None:
        """Returns when the requests that cancelled calls had taken are given back."""
        while self._returning:
            await asyncio.wait(list(self._returning))

    async def take(self, agent: str, board: str | None, id_: str, *, once_key: str | None = None) -> Asked:
        """Takes a request for the agent, and returns it."""
        name, number = await self._named(agent, board, id_, changes=True)
        self._board.quotas.charge(agent, name)
        await self._store.take_request(name, agent, number, once=once_of(once_key, "take request", id=id_))
        return await self._asked(name, agent, number)

    async def answer(
        self,
        agent: str,
        board: str | None,
        id_: str,
        text: str,
        *,
        partial: bool,
        lease: int | None = None,
        once_key: str | None = None,
    ) -> Asked:
        """Adds `text` to the agent's answer so far, and returns the request; without `partial` that ends it."""
        self._check(text, MAX_ANSWER, "answer")
        name, number = await self._named(agent, board, id_, changes=True)
        self._board.quotas.charge(agent, name, size=size_of(text))
        once = once_of(once_key, "answer request", id=id_, text=text, partial=partial, lease=lease)
        if once is not None and await self._store.recall(name, agent, once) is not None:
            return await self._asked(name, agent, number)
        for attempt in range(_TRIES):
            new = await self._so_far(name, agent, number, text, partial, lease)

            async def write(tokenizer: Tokenizer, new: NewAnswer = new) -> int:
                counted = replace(new, tokens=tokenizer.count(new.text), counted_by=tokenizer.name)
                return await self._store.answer_request(name, agent, number, counted, once=once)

            try:
                await self._board.validation.counted(name, write)
                break
            except Conflict as error:
                # The same agent added another part in the meantime: try again, after that part.
                if "parts" not in error.facts or attempt == _TRIES - 1:
                    raise
        await self._board.prune_if_due(name)
        return await self._asked(name, agent, number)

    async def _so_far(
        self, board: str, agent: str, number: int, text: str, partial: bool, lease: int | None
    ) -> NewAnswer:
        request = await self._store.request(board, agent, number)
        seen = 0
        if request.partial is not None and request.live:
            part = parse_ref(request.partial).number
            former = (await self._items(board, agent, [part]))[part]
            if former.author == agent:
                text, seen = f"{former.text}\n{text}", request.parts
        if len(text) > MAX_ANSWER:
            raise InvalidInput(
                f"The answer with its parts would have {len(text):,} characters; {MAX_ANSWER:,} are allowed. Nothing "
                "was changed; post long results as items and name them in the answer."
            )
        return NewAnswer(text, 0, content_hash(text), partial, seen, lease)

    async def decline(
        self,
        agent: str,
        board: str | None,
        id_: str,
        reason: str,
        *,
        lease: int | None = None,
        once_key: str | None = None,
    ) -> Asked:
        """Declines a request for the agent, and returns it; a request by skill then goes to others."""
        check_text(reason)
        if not reason.strip():
            raise InvalidInput("decline takes the reason as text. Nothing was changed.")
        name, number = await self._named(agent, board, id_, changes=True)
        self._board.quotas.charge(agent, name)
        once = once_of(once_key, "decline request", id=id_, reason=reason, lease=lease)
        await self._store.decline_request(name, agent, number, reason, lease=lease, once=once)
        return await self._asked(name, agent, number)

    # What they share

    async def is_unheard(self, request: AgentRequest) -> bool:
        """Tells whether a live request is addressed to an agent that the board lets only read."""
        if not request.to or not request.live:
            return False
        role = await self._store.role_of(request.board, request.to)
        return role is not None and Action.POST not in POWERS[role]

    async def attention(
        self, agent: str, board: str | None, items: Iterable[int] = ()
    ) -> tuple[Attention, int]:
        """Returns what waits for the agent, and the board's sequence; `items` count as shown to it by this
        call.
        """
        return await self._board.attention(
            agent, await self._board.board_of(board, agent), items=items, way=Way.REQUEST
        )

    @staticmethod
    def _check(text: str, most: int, what: str) -> None:
        if not text.strip():
            raise InvalidInput(f"The {what} must not be empty. Nothing was changed.")
        if len(text) > most:
            raise InvalidInput(
                f"The text of this {what} has {len(text):,} characters; {most:,} are allowed. Nothing was changed; "
                "post what is long as items and name them in it."
            )
        check_text(text)

    async def _named(
        self, agent: str, board: str | None, id_: str, *, changes: bool = False
    ) -> tuple[str, int]:
        check_agent(agent)
        number = parse_ref(id_).number
        name = await self._board.board_of(board, agent)
        if changes:
            await self._board.check_named(agent, name, [id_])
        return name, number

    async def _asked(self, board: str, agent: str, number: int) -> Asked:
        request = await self._store.request(board, agent, number)
        shown = request.answer or request.partial
        numbers = [number] if shown is None else [number, parse_ref(shown).number]
        items = await self._items(board, agent, numbers)
        found = await self._store.find_board(board) if request.live else None
        lifecycle = Lifecycle.OPEN if found is None else found.lifecycle
        return Asked(request, items[number], None if shown is None else items[numbers[-1]], lifecycle)

    async def _items(self, board: str, agent: str, numbers: Sequence[int]) -> dict[int, Item]:
        if not numbers:
            return {}
        found = await self._store.read(board, agent, [Ref(n) for n in dict.fromkeys(numbers)], [])
        return {item.number: item for item in found.items}

    async def _wait(self, board: str, wanted: Callable[[Event], bool], seq: int, seconds: float) -> None:
        """Returns when there is a wanted event after `seq`, or after `seconds`."""
        await self._board.following.tails.after(
            board, wanted, seq, end=seq, limit=1, seconds=max(0.0, seconds)
        )


def _progress(stands: Asked, known: int) -> str:
    """Returns the text of a progress report: the newest part, if there is a new one, else the request's
    state.
    """
    request = stands.request
    if stands.answer is not None and request.parts > known:
        last = stands.answer.text.rsplit("\n", 1)[-1]
        return f"{request.id} part {request.parts}: {clip(last, _TELLING)}"
    if request.holder is not None:
        return f"{request.id}: {request.holder} has it"
    return f"{request.id} waits"
